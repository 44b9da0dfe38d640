/* src/llm/lab/vptq/vptq_inside.h - inside VPTQ: the parts of a matrix, and what every target has */
#ifndef TINYI_VPTQ_INSIDE_H
#define TINYI_VPTQ_INSIDE_H
#include "core/bytes.h"
#include "core/half_inside.h"
#include "math/table_inside.h"
#include "llm/lab/vptq/vptq.h"
TINYI_C_BEGIN

#define TINYI_VPTQ_HEAD 80                  /* bytes before all else */
#define TINYI_VPTQ_TAIL 8                   /* and after: codes are read by eight bytes */

/* Inputs with the same books: those set apart, and each group. */
typedef struct tinyi_vptq_part {
    tiny_idx at, n;                         /* places of its inputs */
    tiny_idx v, k, k2, rows;                /* rows: of vectors */
    int bits, bits2;
    size_t row_bytes;                       /* of codes */
    size_t index, book, book2;              /* where they are in the bytes */
    size_t entries;                         /* places that codes of the parts before can name, in both books */
} tinyi_vptq_part;

TINYI_FN int tinyi_vptq_bits(tiny_idx k);   /* of a code: log2(k), rounded up */
TINYI_FN tiny_idx tinyi_vptq_parts(const tllm_vptq *q);
TINYI_FN void tinyi_vptq_part_of(const tllm_vptq *q, tiny_idx p, tinyi_vptq_part *part);
TINYI_FN size_t tinyi_vptq_bytes(const tllm_vptq *q);      /* of all, by the sizes; 0: more than can be counted */
TINYI_FN size_t tinyi_vptq_scales(const tllm_vptq *q);     /* where they begin */
TINYI_FN tiny_idx tinyi_vptq_unit(const tllm_vptq *q);     /* rows that are whole vectors of all parts */
/* sizes of a description, checked */
TINYI_FN tiny_status tinyi_vptq_sizes(tiny_ctx *ctx, const char *where, const tllm_vptq_desc *desc,
                                      tllm_vptq_desc *whole, tiny_idx rows, tiny_idx n, tllm_vptq *q);
/* sizes and order of inputs from bytes, without codes, books and checksum */
TINYI_FN tiny_status tinyi_vptq_head(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                     tllm_vptq *q);
/* bytes with their head, all else 0; q->block */
TINYI_FN unsigned char *tinyi_vptq_begin(tiny_ctx *ctx, tllm_vptq *q);
TINYI_FN void tinyi_vptq_write_head(const tllm_vptq *q, unsigned char *to);
TINYI_FN void tinyi_vptq_seal(unsigned char *bytes, size_t n_bytes);
/* code word j; its bits were 0 */
TINYI_FN void tinyi_vptq_put(unsigned char *row, tiny_idx j, int width, uint32_t word);
/* head, books, codes and all else of the sizes of q, from random numbers */
TINYI_FN void tinyi_vptq_fill(const tllm_vptq *q, unsigned char *to, tiny_rng *rng);

TINYI_INLINE tiny_idx tinyi_vptq_input(const tllm_vptq *q, tiny_idx place)
{
    const unsigned char *p = q->bytes + TINYI_VPTQ_HEAD;
    return !q->permuted   ? place
           : q->n > 65536 ? (tiny_idx)tinyi_le32(p + 4 * place)
                          : (tiny_idx)tinyi_le16(p + 2 * place);
}
TINYI_INLINE float tinyi_vptq_scale(const tllm_vptq *q, tiny_idx place)
{
    return q->normalized ? tinyi_f16_to_f32(tinyi_le16(q->bytes + tinyi_vptq_scales(q) + 2 * (size_t)place)) : 1.0f;
}
TINYI_INLINE float tinyi_vptq_bias(const tllm_vptq *q, tiny_idx place)
{
    return q->normalized ? tinyi_f16_to_f32(tinyi_le16(q->bytes + tinyi_vptq_scales(q) + 2 * (size_t)(q->n + place)))
                         : 0.0f;
}

/* code word j, of `width` bits, of those that begin at p; 8 bytes from its first one on are there */
TINYI_FORCE_INLINE uint32_t tinyi_vptq_word(const unsigned char *p, size_t j, unsigned width, uint32_t mask)
{
    const size_t bit = j * width;
    return (uint32_t)(tinyi_le64(p + (bit >> 3)) >> (bit & 7)) & mask;
}
TINYI_INLINE uint32_t tinyi_vptq_mask(int bits) { return bits >= 32 ? 0xffffffffu : ((uint32_t)1 << bits) - 1u; }

/* What a kernel gets of a row of vectors. Books: a vector every `pad` numbers, floats or halves as the kernels want
 * them, zeros after its own, 2^bits of them. */
typedef struct tinyi_vptq_run {
    const unsigned char *at;                /* its codes */
    const float *x;                         /* (n) */
    size_t n;
    const void *c, *d;                      /* d: NULL, there is no second book */
    int bits, bits2;
    float *bucket;                          /* 2^bits + 2^bits2 */
} tinyi_vptq_run;

typedef struct tinyi_vptq_kernels {
    tiny_target from;
    int lanes, half;                        /* half: books are halves */
    /* y (pad): sums of the row */
    void (*gather)(float *y, const tinyi_vptq_run *r, int pad);
    void (*bucket)(float *y, const tinyi_vptq_run *r, int pad);
    /* vector j to pad floats from to + j step on */
    void (*expand)(float *to, size_t step, const tinyi_vptq_run *r, int pad);
} tinyi_vptq_kernels;
TINYI_TABLES(tinyi_vptq_kernels, tinyi_vptq_kernels)

TINYI_C_END
#endif
