/* src/llm/compress/join_inside.h - two models that are being joined: what reading, training and writing share */
#ifndef TINYI_JOIN_INSIDE_H
#define TINYI_JOIN_INSIDE_H
#include "llm/compress/join.h"
#include "llm/round/stream_inside.h"
TINYI_C_BEGIN

#define TINYI_JOIN_MAGIC 0x6e696f6au

typedef struct tinyi_join_side {
    const tllm_gguf *file;
    tllm_model *m;
    float *stream;                          /* (n_layer + 1, tokens, width): before layer 0, after each layer */
    float *weight;                          /* of all tensors of the file, in its order, after a training; else NULL */
} tinyi_join_side;

TINYI_INLINE uint64_t tinyi_join_count(const tllm_gguf_tensor *t)     /* checked when the file was opened */
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

struct tllm_join {
    uint32_t magic;
    tllm_join_desc d;
    tinyi_join_side side[2];
    tllm_stitch *plan;
    float *linear;                          /* (n_linear): weights (d2, d1), then biases (d2) */
    tllm_join_about about;
};

TINYI_C_END
#endif
