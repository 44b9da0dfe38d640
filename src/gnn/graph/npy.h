/* src/gnn/graph/npy.h - arrays in files: .npy and .npz of NumPy, and features.coo of a data folder
 *
 *   tgnn_array a;
 *   if (tgnn_array_read(ctx, "features.npy", NULL, &a)) ... the sentence names the file ...
 *   ... a.t is a tensor of the type and shape of the file ...
 *   tgnn_array_free(ctx, &a);
 *
 * Types: <f4 <f8 <f2 <i1 <i2 <i4 <i8 |u1 |b1, also big-endian. Unsigned numbers of 2, 4 and 8 bytes become i32, i64 and
 * i64; values of 2^63 and above are errors. Rank 0 to 4, C and Fortran order. Zip members may be stored or deflated,
 * also in Zip64. */
#ifndef TINYI_NPY_H
#define TINYI_NPY_H
#include "core/tensor.h"
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tgnn_array { tiny_tensor t; } tgnn_array;   /* dense; its data belongs to the context */

/* member: the name inside a .npz, without .npy; NULL takes the only one. A features.coo file gives a dense f32 array:
 * its first line is "rows cols stored", each further line "row col value"; all other numbers are 0. */
TINY_API tiny_status tgnn_array_read(tiny_ctx *ctx, const char *path, const char *member, tgnn_array *out);
TINY_API tiny_status tgnn_array_read_memory(tiny_ctx *ctx, const char *name, const void *bytes, size_t n_bytes,
                                            const char *member, tgnn_array *out);
TINY_API void tgnn_array_free(tiny_ctx *ctx, tgnn_array *a);       /* takes NULL */
/* Writes a .npy file of any dense or strided tensor except bf16, completely or not at all. */
TINY_API tiny_status tgnn_array_write(tiny_ctx *ctx, const char *path, const tiny_tensor *t);
/* Reads one integer from each line (labels, graph numbers, orders); "-" means -1. Blank lines and lines
 * that begin with # are skipped. Free *out with tiny_free. */
TINY_API tiny_status tgnn_integers_read(tiny_ctx *ctx, const char *path, int32_t **out, tiny_idx *n);

/* A file may unpack to at most TIMES its size plus EXTRA bytes. */
#define TGNN_UNPACK_TIMES 64
#define TGNN_UNPACK_EXTRA ((size_t)1 << 20)

/* ---- inside: what the bodies share ---- */

TINYI_INLINE int tinyi_little_endian(void)
{
    const uint32_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/* the bytes of a member of a zip file, unpacked, in a block of the context; names of members end with a 0 */
TINYI_FN tiny_status tinyi_zip_member(tiny_ctx *ctx, const char *path, const unsigned char *bytes, size_t n_bytes,
                                      const char *name, unsigned char **out, size_t *n_out);
TINYI_FN int tinyi_zip_has(const unsigned char *bytes, size_t n_bytes, const char *name);

/* The header of a .npy file: where its numbers begin, their type in the tensor, and their order. */
typedef struct tinyi_npy_head {
    char type;                              /* as numpy names it: f, i, u, b */
    int size, big, fortran;
    tiny_tensor t;                          /* dtype and shape of the array; no data */
    uint64_t at, count;                     /* of the numbers in the file */
} tinyi_npy_head;
/* bytes: the first n_bytes of a file of n_file bytes; the sentence names the fault */
TINYI_FN tiny_status tinyi_npy_open(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                    uint64_t n_file, tinyi_npy_head *h);
/* converts number i of the file, whose bytes begin at from, to the type of the tensor */
TINYI_FN tiny_status tinyi_npy_take(tiny_ctx *ctx, const char *name, const tinyi_npy_head *h, uint64_t i,
                                    const unsigned char *from, void *to);

TINYI_C_END
#endif
