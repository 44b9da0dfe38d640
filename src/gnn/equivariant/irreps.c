/* src/gnn/equivariant/irreps.c - irreps strings: read, written, counted */
#include <stdio.h>
#include <string.h>
#include "gnn/equivariant/irreps.h"
#include "core/state_inside.h"

static const char *tinyi_irreps_skip(const char *p)
{
    while (*p == ' ' || *p == '\t') p++;
    return p;
}

/* The number at *p, at most most + 1; -1: no digit there. */
static int tinyi_irreps_number(const char **p, int most)
{
    int v = 0;
    if (**p < '0' || **p > '9') return -1;
    for (; **p >= '0' && **p <= '9'; ++*p)
        if (v <= most) v = TINYI_MIN(10 * v + (**p - '0'), most + 1);
    return v;
}

TINY_API tiny_status tgnn_irreps_parse(tiny_ctx *ctx, const char *text, tgnn_irrep *list, int room, int *n)
{
    const char *p;
    int count = 0;
    const tiny_status st = tinyi_ctx_check(ctx);
    if (n) *n = 0;
    if (st) return st;
    if (!text || !list || !n || room < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "irreps: the text, the list or the place of their number is missing");
    for (p = tinyi_irreps_skip(text); *p;) {
        const tiny_idx at = p - text;
        tgnn_irrep block;
        block.mul = 1;
        block.l = tinyi_irreps_number(&p, TGNN_IRREPS_MUL);
        if (block.l >= 0 && *p == 'x') {
            p++;
            block.mul = block.l;
            block.l = tinyi_irreps_number(&p, TGNN_IRREPS_MUL);
        }
        block.parity = *p == 'e' ? 1 : *p == 'o' ? -1 : *p == 'y' ? (block.l & 1 ? -1 : 1) : 0;
        if (block.l < 0 || !block.parity)
            return tinyi_fail(ctx, TINY_E_FORMAT, "irreps: no block such as 16x1o stands at character %td of \"%s\"",
                              at + 1, text);
        if (block.l > TGNN_L_MAX)
            return tinyi_fail(ctx, TINY_E_FORMAT, "irreps: the block at character %td of \"%s\" has a degree above %d",
                              at + 1, text, TGNN_L_MAX);
        if (block.mul > TGNN_IRREPS_MUL)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "irreps: the block at character %td of \"%s\" has more than %d copies", at + 1, text,
                              TGNN_IRREPS_MUL);
        if (count == room)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "irreps: \"%s\" has more than %d blocks", text, room);
        list[count++] = block;
        p = tinyi_irreps_skip(p + 1);
        if (!*p) break;
        if (*p != '+' || !*tinyi_irreps_skip(p + 1))
            return tinyi_fail(ctx, TINY_E_FORMAT, "irreps: a + and a block must follow character %td of \"%s\"",
                              p - text, text);
        p = tinyi_irreps_skip(p + 1);
    }
    *n = count;
    return TINY_OK;
}

static int tinyi_irreps_valid(const tgnn_irrep *list, int n)
{
    int i;
    if (n < 0 || (n > 0 && !list)) return 0;
    for (i = 0; i < n; i++)
        if (list[i].mul < 0 || list[i].mul > TGNN_IRREPS_MUL || list[i].l < 0 || list[i].l > TGNN_L_MAX ||
            (list[i].parity != 1 && list[i].parity != -1))
            return 0;
    return 1;
}

TINY_API size_t tgnn_irreps_print(const tgnn_irrep *list, int n, char *text, size_t n_bytes)
{
    size_t size = 0;
    int i;
    if (text && n_bytes) *text = 0;
    if (!tinyi_irreps_valid(list, n)) return 0;
    for (i = 0; i < n; i++) {
        char block[32];
        const int k = snprintf(block, sizeof block, "%s%dx%d%c", i ? "+" : "", list[i].mul, list[i].l,
                               list[i].parity > 0 ? 'e' : 'o');
        if (text && size < n_bytes) {
            const size_t m = TINYI_MIN((size_t)k, n_bytes - size - 1);
            memcpy(text + size, block, m);
            text[size + m] = 0;
        }
        size += (size_t)k;
    }
    return size + 1;
}

TINY_API tiny_idx tgnn_irreps_dim(const tgnn_irrep *list, int n)
{
    tiny_idx dim = 0;
    int i;
    if (!tinyi_irreps_valid(list, n)) return -1;
    for (i = 0; i < n; i++) {
        const tiny_idx block = (tiny_idx)list[i].mul * (2 * list[i].l + 1);
        if (dim > TINY_IDX_MAX - block) return -1;
        dim += block;
    }
    return dim;
}
