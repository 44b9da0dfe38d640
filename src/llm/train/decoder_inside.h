/* src/llm/train/decoder_inside.h - inside the trainer: loss and gradient of a small decoder, written out by hand
 *
 * Tied embedding, layers of RMSNorm, attention, RMSNorm, a wide layer, and a norm before the head. Three forms of a
 *     layer:
 *     grouped   query heads that share keys and values, rotated pairs; gated SiLU (the architecture "llama")
 *     latent    keys and values made from one short vector, and a rotated key that all heads share; squared ReLU
 *               ("plm")
 *     gated     a state instead of keys and values (gated linear attention), everything read from a token and the one
 *               before it; gated SiLU ("rwkv6qwen2")
 * A lane is a few sequences that one thread computes through the whole network, forward and backward. Lanes share only
 * the weights, so the result does not depend on which thread computed which lane. */
#ifndef TINYI_DECODER_H
#define TINYI_DECODER_H
#include "core/mem.h"
TINYI_C_BEGIN

#define TINYI_DEC_QUERIES 64                /* queries whose scores are in hand at once */
#define TINYI_DEC_LAYERS 64

typedef enum tinyi_dec_form { TINYI_DEC_GROUPED, TINYI_DEC_LATENT, TINYI_DEC_GATED, TINYI_DEC_FORMS } tinyi_dec_form;

typedef struct tinyi_dec {
    int form;
    /* heads of d / n_head; latent: n_kv is n_head */
    tiny_idx d, n_layer, n_head, n_kv, d_head, hidden, context, vocab;
    /* rotated numbers of a key: all d_head; latent: that many more than d_head */
    tiny_idx d_turn;
    tiny_idx latent;                        /* latent: numbers that keys and values are made from */
    tiny_idx rank;                          /* gated: numbers that the gates of all channels are made from */
    float theta, eps;
    const float *turn;                      /* (context, d_turn / 2, 2) cosine and sine */
    /* the target is the distribution of the grammar, not the drawn token */
    int exact;
    /* how many times a place, yes or no, comparison or colour weighs in the gradient */
    float stress;
} tinyi_dec;

/* Where a tensor is among the weights: rows (out) of cols (in), or one row. */
typedef enum tinyi_dec_what {
    TINYI_DEC_EMBD,
    TINYI_DEC_NORM1,
    TINYI_DEC_Q,
    TINYI_DEC_K,
    TINYI_DEC_V,
    TINYI_DEC_KV_A,
    TINYI_DEC_KV_NORM,
    TINYI_DEC_KV_B,
    TINYI_DEC_O,
    TINYI_DEC_NORM2,
    TINYI_DEC_GATE,
    TINYI_DEC_UP,
    TINYI_DEC_DOWN,
    TINYI_DEC_NORM,
    TINYI_DEC_LERP,
    TINYI_DEC_SIDE,
    TINYI_DEC_DECAY,
    TINYI_DEC_DECAY_A,
    TINYI_DEC_DECAY_B
} tinyi_dec_what;
typedef struct tinyi_dec_tensor { int what; tiny_idx layer, rows, cols, at; } tinyi_dec_tensor;

TINYI_FN tiny_idx tinyi_dec_tensors(const tinyi_dec *m);                /* how many */
TINYI_FN tinyi_dec_tensor tinyi_dec_tensor_at(const tinyi_dec *m, tiny_idx i);
TINYI_FN tiny_idx tinyi_dec_params(const tinyi_dec *m);                 /* floats of all of them */
TINYI_FN void tinyi_dec_turns(const tinyi_dec *m, float *turn);
/* floats that a lane of n_seq sequences works in */
TINYI_FN int tinyi_dec_room(const tinyi_dec *m, tiny_idx n_seq, size_t *floats);

/* tokens (n_seq, context + 1): each predicts the next. nats: sum of -log p of the drawn tokens. g NULL: the loss only;
 * else it receives the gradient of `share` times that sum, as changed by `exact` and `stress`. one: a context of one
 * thread. */
TINYI_FN tiny_status tinyi_dec_lane(tiny_ctx *one, const tinyi_dec *m, const float *w, float *g, float *room,
                                    const int32_t *tokens, tiny_idx n_seq, float share, double *nats);

TINYI_C_END
#endif
