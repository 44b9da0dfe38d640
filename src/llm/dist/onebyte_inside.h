/* src/llm/dist/onebyte_inside.h - inside one-byte fine-tuning: a run, and what every target has */
#ifndef TINYI_ONEBYTE_INSIDE_H
#define TINYI_ONEBYTE_INSIDE_H
#include "math/table_inside.h"
#include "llm/dist/onebyte.h"
TINYI_C_BEGIN

typedef struct tinyi_onebyte_kernels {
    tiny_target from;
    /* y[i] = x[i] + c, or x[i] - c where bit i is set; y may be x. Only sums: every target has the same bits */
    void (*add)(float *y, const float *x, const uint32_t *bits, size_t n, float c);
    /* bits (32): the Philox blocks with this key and the counters (block to block + 7, tensor) */
    void (*blocks)(uint32_t *bits, uint64_t key, uint64_t tensor, uint64_t block);
} tinyi_onebyte_kernels;
TINYI_TABLES(tinyi_onebyte_kernels, tinyi_onebyte_kernels)

#define TINYI_ONEBYTE_RING 256              /* codes whose median limits the next ones */
#define TINYI_ONEBYTE_LOG_HEAD 24
#define TINYI_ONEBYTE_RECORD 9              /* bytes of a record before its codes: what it is, and who is in it */

/* What rank 0 knows of another rank. */
typedef struct tinyi_onebyte_peer {
    int joined, gone, late, have, wants;    /* have: its list of this step; wants: theta */
    int sending, phase;                     /* phase 1: the record that announces theta leaves, 2: theta */
    int told;                               /* the end */
    tiny_message in, out;
    unsigned char *list, *held, *record;    /* its next list, the codes of this step, the record that leaves */
    uint64_t cursor;                        /* the next record for it */
} tinyi_onebyte_peer;

struct tllm_onebyte {
    tiny_ctx *ctx;
    tllm_onebyte_desc desc;                 /* with its defaults */
    const tinyi_onebyte_kernels *kernels;   /* NULL: the reference */
    int rank, world;
    uint64_t digest;
    float **theta, *buffer;
    size_t *n_of, *at_of, n_all;
    uint64_t step;
    /* a step: at most n_most samples */
    size_t n_most;
    uint32_t *samples;
    float *g, *slopes;
    uint64_t *keys;
    /* a loss: theta + side z; 0: none runs */
    uint64_t key;
    float side;
    tiny_status failed;
    unsigned char ring[TINYI_ONEBYTE_RING];
    uint16_t histogram[128];
    unsigned n_ring, at_ring;
    /* the group */
    tinyi_onebyte_peer *peer;               /* (world) */
    unsigned char *memory, *log, *list, *record, *state;
    size_t n_log, cap_log, n_list;
    uint64_t state_step;
    int n_state;                            /* ranks that are waiting for state */
    int greeted, ended, refused, fed;       /* fed: a record arrived before its step */
    tiny_message in;
    uint64_t clock;
};

/* Applies n gradients, sorted by sample; NaN is none. */
TINYI_FN tiny_status tinyi_onebyte_update(tllm_onebyte *o, const uint32_t *sample, const float *g, size_t n);
TINYI_FN void tinyi_onebyte_remember(tllm_onebyte *o, unsigned char code);
TINYI_FN tiny_status tinyi_onebyte_group_open(tllm_onebyte *o);
TINYI_FN void tinyi_onebyte_group_close(tllm_onebyte *o);

TINYI_C_END
#endif
