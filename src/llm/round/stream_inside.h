/* src/llm/round/stream_inside.h - inside rotations and slices: which tensors read the stream and which write it */
#ifndef TINYI_STREAM_H
#define TINYI_STREAM_H
#include "llm/round/fold_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_STREAM_UNKNOWN,
    TINYI_STREAM_OTHER,                     /* neither, or a norm */
    TINYI_STREAM_READS_MIX,                 /* a matrix that reads the norm before the attention */
    TINYI_STREAM_READS_FEED,                /* or the norm before the network */
    TINYI_STREAM_WRITES_MIX,                /* the last matrix of the attention */
    TINYI_STREAM_WRITES_FEED                /* or of a network */
};
/* of tensor t (TINYI_T_...) of a layer */
TINYI_FN int tinyi_stream_role(int t);

/* What must hold of a model and of each layer, so that another basis of the stream is the same function. Each failure
 * has its sentence, which begins with `what`. learned: learned positions are rows of the stream. */
TINYI_FN tiny_status tinyi_stream_model(tiny_ctx *ctx, const char *what, const tllm_model *m);
TINYI_FN tiny_status tinyi_stream_tops(tiny_ctx *ctx, const char *what, const tllm_model *m, int learned);
TINYI_FN tiny_status tinyi_stream_layer(tiny_ctx *ctx, const char *what, const tllm_model *m, const tllm_folds *folds,
                                        const tinyi_lm_layer *a);

/* Puts the keys of a file. prefix "": as they are; else the architecture NAME becomes prefix NAME, and so do its
 * keys. */
TINYI_FN tiny_status tinyi_stream_keys(tiny_ctx *ctx, const tllm_gguf *file, const char *prefix, tllm_writer *w);

/* f: a pass over n tokens that begin a sequence, in a state of at least n of them. Layers can then be run one by one,
 * after tinyi_lm_embed and tinyi_lm_rope_tables. */
TINYI_FN tiny_status tinyi_stream_begin(tiny_ctx *ctx, const char *what, tllm_state *s, const int32_t *token,
                                        tiny_idx n, tinyi_lm_fwd *f);

TINYI_C_END
#endif
