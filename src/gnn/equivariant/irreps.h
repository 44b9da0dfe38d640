/* src/gnn/equivariant/irreps.h - strings that say how features turn with space: "32x0e+16x1o"
 *
 *   tgnn_irrep list[8];
 *   int n;
 *   tgnn_irreps_parse(ctx, "32x0e+16x1o", list, 8, &n);      n = 2, 32 + 3 * 16 = 80 numbers
 *
 * As e3nn writes them: MULxLP blocks with + between them. L is the degree (2 L + 1 numbers that turn together), P the
 * parity: e keeps its sign under a reflection through the origin, o changes it, y stands for that of the spherical
 * harmonics (e for even L, o for odd). "1o" is "1x1o". Numbers are stored block by block, in a block copy by copy. */
#ifndef TINYI_IRREPS_H
#define TINYI_IRREPS_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TGNN_L_MAX 12                       /* the largest degree of src/gnn/equivariant */
#define TGNN_IRREPS_MUL 1048576             /* the most copies in a block */

typedef struct tgnn_irrep { int mul, l, parity; } tgnn_irrep;       /* parity: 1 is e, -1 is o */

/* Writes the blocks of text to list and their number to *n. Fails, with *n = 0, where the text is not of that form, has
 * more than room blocks, a degree above TGNN_L_MAX, more than TGNN_IRREPS_MUL copies. Spaces may stand around a +; an
 * empty text has no block. */
TINY_API tiny_status tgnn_irreps_parse(tiny_ctx *ctx, const char *text, tgnn_irrep *list, int room, int *n);
/* The text of n blocks, such as "32x0e+16x1o". Returns its size with the final 0, or 0 if a block is invalid. Writes at
 * most n_bytes, always terminated. */
TINY_API size_t tgnn_irreps_print(const tgnn_irrep *list, int n, char *text, size_t n_bytes);
/* How many numbers a feature of these blocks has; -1: a block is invalid. */
TINY_API tiny_idx tgnn_irreps_dim(const tgnn_irrep *list, int n);

TINYI_C_END
#endif
