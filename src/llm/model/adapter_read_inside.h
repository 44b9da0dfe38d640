/* src/llm/model/adapter_read_inside.h - the struct of an adapter, filled by adapter_read.c and used by adapter.c */
#ifndef TINYI_ADAPTER_READ_H
#define TINYI_ADAPTER_READ_H
#include "llm/model/adapter.h"
#include "llm/model/model_inside.h"

#define TINYI_ADAPTER_MAGIC 0x74706461u

typedef struct tinyi_lm_pair {
    const tinyi_lm_w *w;
    const tllm_gguf_tensor *from_a, *from_b;    /* while it is opened */
    /* (n_mat, r, n_in), (n_mat, n_out, r); of the embedding a is (n_out tokens, r), b (n_in, r) */
    const float *a, *b;
    tiny_idx r;
} tinyi_lm_pair;

struct tllm_adapter {
    uint32_t magic;
    tllm_adapter_kind kind;
    const tllm_model *m;
    float scale_of;                         /* alpha; 0: none */
    size_t n;
    tinyi_lm_pair *pair;                    /* (n), by the address of the weight */
    tinyi_lm_pair embd;                     /* w NULL: not there */
    float *data;
    const float **direction;                /* (n_layer), NULL: none for that layer */
    tiny_idx rank, first, last;
    double n_params;
    size_t n_floats;                        /* of data */
};

#endif
