/* src/llm/round/mixture.h - which tensor of a model becomes what: Q4_K_M and its relatives
 *
 *     const tllm_mixture *m = tllm_mixture_by_name("Q4_K_M");
 *     for each tensor t that tllm_mixture_takes(t)
 *         to = tllm_format_for_rows(tllm_mixture_format(m, t, n_layer, tied), t->dim[0]);
 *
 * A mixture gives more bits to the tensors that suffer most: the output, the values of attention, the matrix down from
 * the feed-forward network, and of those the ones in the first and last layers. All functions may be called by several
 * threads at once. */
#ifndef TINYI_MIXTURE_H
#define TINYI_MIXTURE_H
#include "llm/file/gguf.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

typedef enum tllm_mixture_where {
    TLLM_MIX_NOWHERE, TLLM_MIX_EVERYWHERE, TLLM_MIX_FIRST_EIGHTH, TLLM_MIX_FIRST_FOUR,
    TLLM_MIX_SOME                           /* the first and last eighth of the layers, of the others every third */
} tllm_mixture_where;

/* formats; 0: that of the mixture */
typedef struct tllm_mixture_rule { int where, there, elsewhere; } tllm_mixture_rule;

typedef struct tllm_mixture {
    const char *name;                       /* "Q4_K_M" */
    int file_type;                          /* what general.file_type of a GGUF file says */
    int base, output, embedding;            /* formats; of the output and the embedding 0: base */
    tllm_mixture_rule value, down, mix;     /* attn_v, ffn_down, attn_output */
} tllm_mixture;

TINY_API const tllm_mixture *tllm_mixture_at(size_t i);             /* all of them in turn; NULL after the last */
/* any case; Q3_K, Q4_K and Q5_K are those with _M. NULL: there is none */
TINY_API const tllm_mixture *tllm_mixture_by_name(const char *name);

/* Does a quantiser round this tensor? 1 for matrices of weights; 0 for norms, biases, routers, short convolutions and
 * the like, which are small and touchy or read one number at a time, and for whole numbers. */
TINY_API int tllm_mixture_takes(const tllm_gguf_tensor *t);

/* The format of a tensor in a model of n_layer layers. tied: there is no output.weight, the embedding gives the logits
 * too.
 * NULL: m or t is NULL, or the format is left out of this library (TINYLLM_FEW_FORMATS). */
TINY_API const tllm_format *tllm_mixture_format(const tllm_mixture *m, const tllm_gguf_tensor *t, int n_layer,
                                                int tied);

/* f where rows of n numbers are whole blocks of it; else the format with blocks of 32 that loses least more, else F16.
 * NULL: f is. */
TINY_API const tllm_format *tllm_format_for_rows(const tllm_format *f, uint64_t n);

TINYI_C_END
#endif
