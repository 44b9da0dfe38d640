/* src/llm/round/mixture.h - mixtures of formats for the tensors of a model: Q4_K_M and similar
 *
 *     const tllm_mixture *m = tllm_mixture_by_name("Q4_K_M");
 *     for each tensor t that tllm_mixture_takes(t)
 *         to = tllm_format_for_rows(tllm_mixture_format(m, t, n_layer, tied), t->dim[0]);
 *
 * A mixture gives more bits to the most sensitive tensors: the output, the values of attention, and the down matrix of
 * the feed-forward network, above all in the first and last layers. All functions may be called by several threads at
 * once. */
#ifndef TINYI_MIXTURE_H
#define TINYI_MIXTURE_H
#include "llm/file/gguf.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

typedef enum tllm_mixture_where {
    TLLM_MIX_NOWHERE, TLLM_MIX_EVERYWHERE, TLLM_MIX_FIRST_EIGHTH, TLLM_MIX_FIRST_FOUR,
    TLLM_MIX_SOME                           /* the first and last eighth of the layers, and every third of the others */
} tllm_mixture_where;

/* The format in the layers named by `where`, and elsewhere; 0: the base format of the mixture. */
typedef struct tllm_mixture_rule { int where, there, elsewhere; } tllm_mixture_rule;

typedef struct tllm_mixture {
    const char *name;                       /* "Q4_K_M" */
    int file_type;                          /* the value of general.file_type in a GGUF file */
    int base, output, embedding;            /* formats; output and embedding 0: base */
    tllm_mixture_rule value, down, mix;     /* attn_v, ffn_down, attn_output */
} tllm_mixture;

TINY_API const tllm_mixture *tllm_mixture_at(size_t i);             /* row i of the table; NULL after the last */
/* upper or lower case; Q3_K, Q4_K and Q5_K mean those with _M. NULL: unknown */
TINY_API const tllm_mixture *tllm_mixture_by_name(const char *name);

/* 1: the tensor is a matrix of weights and should be quantized. 0: it is small, sensitive or read one number at a time,
 * such as norms, biases, routers and short convolutions, or it has integers. */
TINY_API int tllm_mixture_takes(const tllm_gguf_tensor *t);

/* The format of a tensor in a model of n_layer layers. tied: there is no output.weight; the embedding also gives the
 * logits. NULL: m or t is NULL, or the format is not in this build (TINYLLM_FEW_FORMATS). */
TINY_API const tllm_format *tllm_mixture_format(const tllm_mixture *m, const tllm_gguf_tensor *t, int n_layer,
                                                int tied);

/* f if rows of n numbers are whole blocks of it; otherwise the closest format with blocks of 32, or F16. NULL if f is
 * NULL. */
TINY_API const tllm_format *tllm_format_for_rows(const tllm_format *f, uint64_t n);

TINYI_C_END
#endif
