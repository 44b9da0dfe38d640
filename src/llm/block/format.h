/* src/llm/block/format.h - the block formats of model files, one row of a table for each
 *
 *   const tllm_format *f = tllm_format_by_name("Q4_K");
 *   size_t bytes = tllm_format_bytes(f, n);        n floats, whole blocks
 *   f->pack(x, q, n, NULL);                        floats to blocks
 *   f->unpack(q, y, n);                            and back
 *
 * A block holds `values` numbers in `bytes` bytes. All fields are little endian, at any address. The same input gives
 * the same bits on every machine. pack and unpack take whole blocks only (n is a multiple of values, or 0), keep no
 * state, allocate nothing, and may run in any number of threads.
 *
 * Importance is one weight per value, the last argument of pack. With it, pack minimises the weighted error, the sum of
 * importance[i] (x[i] - y[i])^2. A NaN or negative importance counts as 0. Formats without TLLM_FORMAT_IMPORTANCE
 * ignore it.
 * Special values: block formats pack NaN as 0 and clamp magnitudes to the range of the scale. F16, BF16, F32 and F64
 * keep them. */
#ifndef TINYI_FORMAT_H
#define TINYI_FORMAT_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* name, GGUF type id, values in a block, bytes in a block, type of the activations in a product, 1 if it can be packed,
 * flags */
/* FEW: the formats that TINYLLM_FEW_FORMATS keeps, MORE: the others */
#define TINYI_FORMATS_OF(FEW, MORE) \
    FEW(F32, 0, 1, 4, 0, 1, TLLM_FORMAT_PLAIN) \
    FEW(F16, 1, 1, 2, 1, 1, TLLM_FORMAT_PLAIN) \
    FEW(BF16, 30, 1, 2, 30, 1, TLLM_FORMAT_PLAIN) \
    FEW(Q8_0, 8, 32, 34, 8, 1, TLLM_FORMAT_DIRECT) \
    FEW(Q4_0, 2, 32, 18, 8, 1, TLLM_FORMAT_DIRECT | TLLM_FORMAT_IMPORTANCE) \
    MORE(Q4_1, 3, 32, 20, 9, 1, TLLM_FORMAT_DIRECT | TLLM_FORMAT_IMPORTANCE) \
    MORE(Q5_0, 6, 32, 22, 8, 1, TLLM_FORMAT_DIRECT | TLLM_FORMAT_IMPORTANCE) \
    MORE(Q5_1, 7, 32, 24, 9, 1, TLLM_FORMAT_DIRECT | TLLM_FORMAT_IMPORTANCE) \
    MORE(Q8_1, 9, 32, 36, 9, 1, TLLM_FORMAT_ACTIVATIONS) \
    MORE(Q2_K, 10, 256, 84, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(Q3_K, 11, 256, 110, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    FEW(Q4_K, 12, 256, 144, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(Q5_K, 13, 256, 176, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    FEW(Q6_K, 14, 256, 210, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(Q8_K, 15, 256, 292, 15, 1, TLLM_FORMAT_ACTIVATIONS) \
    MORE(IQ2_XXS, 16, 256, 66, 15, 1, TLLM_FORMAT_IMPORTANCE | TLLM_FORMAT_WANTS_IMPORTANCE) \
    MORE(IQ2_XS, 17, 256, 74, 15, 1, TLLM_FORMAT_IMPORTANCE | TLLM_FORMAT_WANTS_IMPORTANCE) \
    MORE(IQ3_XXS, 18, 256, 98, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(IQ1_S, 19, 256, 50, 15, 1, TLLM_FORMAT_IMPORTANCE | TLLM_FORMAT_WANTS_IMPORTANCE) \
    MORE(IQ4_NL, 20, 32, 18, 8, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(IQ3_S, 21, 256, 110, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(IQ2_S, 22, 256, 82, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(IQ4_XS, 23, 256, 136, 15, 1, TLLM_FORMAT_IMPORTANCE) \
    MORE(IQ1_M, 29, 256, 56, 15, 1, TLLM_FORMAT_IMPORTANCE | TLLM_FORMAT_WANTS_IMPORTANCE) \
    MORE(TQ1_0, 34, 256, 54, 15, 1, TLLM_FORMAT_DIRECT) \
    MORE(TQ2_0, 35, 256, 66, 15, 1, TLLM_FORMAT_DIRECT) \
    MORE(MXFP4, 39, 32, 17, 8, 1, TLLM_FORMAT_DIRECT) \
    MORE(NVFP4, 40, 64, 36, 8, 1, TLLM_FORMAT_DIRECT) \
    MORE(Q1_0, 41, 128, 18, 8, 1, TLLM_FORMAT_DIRECT) \
    MORE(Q2_0, 42, 64, 18, 8, 1, TLLM_FORMAT_DIRECT) \
    FEW(I8, 24, 1, 1, 24, 0, TLLM_FORMAT_PLAIN) \
    FEW(I16, 25, 1, 2, 25, 0, TLLM_FORMAT_PLAIN) \
    FEW(I32, 26, 1, 4, 26, 0, TLLM_FORMAT_PLAIN) \
    FEW(I64, 27, 1, 8, 27, 0, TLLM_FORMAT_PLAIN) \
    FEW(F64, 28, 1, 8, 28, 1, TLLM_FORMAT_PLAIN)
#define TINYI_FORMATS(F) TINYI_FORMATS_OF(F, F)

#define TINYI_FORMAT_ENUM(name, id, values, bytes, dot, packs, flags) TLLM_FORMAT_##name = id,
typedef enum tllm_format_id { TINYI_FORMATS(TINYI_FORMAT_ENUM) TLLM_FORMAT_ID_END = 64 } tllm_format_id;
#undef TINYI_FORMAT_ENUM

enum {
    TLLM_FORMAT_PLAIN = 1,                  /* single numbers, no blocks */
    TLLM_FORMAT_IMPORTANCE = 2,             /* pack with importance minimises the weighted error */
    TLLM_FORMAT_WANTS_IMPORTANCE = 4,       /* so few bits that models lose much without importance */
    TLLM_FORMAT_ACTIVATIONS = 8,            /* for the other factor of a product; not used in files */
    TLLM_FORMAT_DIRECT = 16                 /* without importance, a formula gives the bytes of a block */
};

typedef struct tllm_format {
    const char *name;                       /* "Q4_K", as files and users write it */
    int id;                                 /* type id in a GGUF file */
    int values, bytes;                      /* of a block */
    int dot;                                /* id of the format of the activations in a product */
    unsigned flags;
    void (*unpack)(const void *q, float *x, size_t n);      /* n values, whole blocks */
    /* NULL: the format can only be read; importance: n numbers or NULL */
    void (*pack)(const float *x, void *q, size_t n, const float *importance);
} tllm_format;

TINY_API const tllm_format *tllm_format_of(int id);                 /* NULL: unknown */
TINY_API const tllm_format *tllm_format_by_name(const char *name);  /* upper or lower case; NULL: unknown */
TINY_API const tllm_format *tllm_format_at(size_t i);               /* row i of the table; NULL after the last */
/* 0: f is NULL, n_values are not whole blocks, or the size overflows. */
TINY_API size_t tllm_format_bytes(const tllm_format *f, uint64_t n_values);

TINYI_C_END
#endif
