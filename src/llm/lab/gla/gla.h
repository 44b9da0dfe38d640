/* src/llm/lab/gla/gla.h - a layer of gated linear attention on a tape; the operation itself is math/gla.h
 *
 *     tllm_gla_layer_weights w = { &wq, &wk, &wv, &wa, &wb, &bias, &wg, &gain, &wo, NULL, NULL, NULL };
 *     tllm_gla_layer_params p = { 4, 0, 0, 0, 0, 0 };              4 heads, all else as in the paper
 *     y = tllm_gla_layer(tape, &x, &w, &p, NULL, NULL);            x and y (T, d)
 *
 * q = x Wq, k = x Wk, v = x Wv;  g = logsigmoid(x Wa Wb + bias) / 16;  o = gated linear attention of the heads;
 * y = (rms norm of each head of o, times silu(x Wg)) Wo. The paper has keys of d / 2 and values of d numbers, and gates
 * of rank 16.
 * The tape records the layer for training, or only computes it (tiny_tape_desc.no_grad). Model files of architecture
 * "rwkv6qwen2" have layers of this kind, with other gates and another output (docs/papers/gla.md). */
#ifndef TINYI_LLM_GLA_H
#define TINYI_LLM_GLA_H
#include "math/tape.h"
#include "math/gla.h"
TINYI_C_BEGIN

/* Matrices are (out, in). H query heads, Hkv heads of keys and values, K and V numbers of a key and of a value, gates
 * of rank r. */
typedef struct tllm_gla_layer_weights {
    const tiny_tensor *q, *k, *v;           /* (H K, d), (Hkv K, d), (Hkv V, d) */
    const tiny_tensor *gate_a, *gate_b, *gate_bias;     /* (r, d), (Hkv K, r), (Hkv K) */
    const tiny_tensor *side, *norm, *out;   /* (H V, d), (V), (d, H V) */
    /* (rows of q, k, v; 1; width): a causal convolution of each channel, then silu; or NULL */
    const tiny_tensor *conv_q, *conv_k, *conv_v;
} tllm_gla_layer_weights;

typedef struct tllm_gla_layer_params {      /* zero: the value in brackets */
    /* query heads; heads of keys, values and gates, a divisor of n_head [n_head] */
    int n_head, n_head_kv;
    float divide;                           /* the logarithm of a gate is divided by this [16] */
    float floor;                            /* lower limit of that logarithm, below 0 [none] */
    float eps;                              /* of the norm [1e-5] */
    int form;                               /* tiny_gla_form */
} tllm_gla_layer_params;

/* state (H, K, V), or NULL for zeros; state_out, if given, receives the state after the last token. A failure is
 * recorded in the tape. */
TINY_API tiny_tensor tllm_gla_layer(tiny_tape *tape, const tiny_tensor *x, const tllm_gla_layer_weights *w,
                                    const tllm_gla_layer_params *params, const tiny_tensor *state,
                                    tiny_tensor *state_out);

TINYI_C_END
#endif
