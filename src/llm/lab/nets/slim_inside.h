/* src/llm/lab/nets/slim_inside.h - what the network, its training and its codes share */
#ifndef TINYI_LLM_SLIM_INSIDE_H
#define TINYI_LLM_SLIM_INSIDE_H
#include "llm/lab/nets/slim.h"
#include "llm/lab/kvcodec/arith_inside.h"
TINYI_C_BEGIN

/* parameters that are not norms */
enum {
    TINYI_SLIM_E1,
    TINYI_SLIM_E2,
    TINYI_SLIM_E3,
    TINYI_SLIM_T1,
    TINYI_SLIM_T2,
    TINYI_SLIM_D,
    TINYI_SLIM_L,
    TINYI_SLIM_E3B,
    TINYI_SLIM_DB,
    TINYI_SLIM_LB,
    TINYI_SLIM_PLAIN
};
#define TINYI_SLIM_PARAMS (TINYI_SLIM_PLAIN + 16 * TLLM_SLIM_MEMBERS + 2)
#define TINYI_SLIM_VERSION 1

struct tllm_slim {
    tiny_ctx *ctx;
    tllm_slim_desc is;
    tiny_idx side[3][2];                    /* height and width after each stage: 1, 2 encoder and link, 2 tail */
    tiny_idx each;                          /* numbers that a member sends */
    tiny_param param[TINYI_SLIM_PARAMS];    /* trained ones, running values, a, counts */
    char (*name)[16];
    size_t n_trained, n_param, n_all, n_more;
    float *numbers;
    /* norm n of version v: gain, bias; then mean and variance. E1, E2, T1, T2 */
    int gain[4][TLLM_SLIM_MEMBERS], mean[4][TLLM_SLIM_MEMBERS];
    float *a, *count;                       /* (K), (K, levels) */
    int levels, ready;
    /* ---- made from them */
    float *fold;                            /* folded kernels of all widths */
    float *e[3][TLLM_SLIM_MEMBERS], *eb[3][TLLM_SLIM_MEMBERS], *t[2][TLLM_SLIM_MEMBERS], *tb[2][TLLM_SLIM_MEMBERS];
    float *h[4], *z, *channel;              /* scratch; channel: 3 numbers a channel for the tape */
    unsigned char *symbol, *stream;
    uint16_t cdf[TLLM_SLIM_MEMBERS][TINYI_ARITH_SYMBOLS + 1];
    tinyi_arith_model model[TLLM_SLIM_MEMBERS];
    uint32_t id;                            /* of scales and counts */
};

TINYI_FN tiny_status tinyi_slim_bad(const tllm_slim *s, const char *why);
TINYI_FN tiny_status tinyi_slim_range(const tllm_slim *s, int first, int count);
/* part 0: gain or mean, 1: bias or variance. The biases of all norms follow the gains of all. */
TINYI_FN tiny_tensor *tinyi_slim_norm(tllm_slim *s, int norm, int version, int running, int part);
TINYI_FN int tinyi_slim_versions(const tllm_slim *s, int norm);
TINYI_FN tiny_idx tinyi_slim_channels(const tllm_slim *s, int norm, int version);
TINYI_FN void tinyi_slim_fold_encoder(tllm_slim *s);
TINYI_FN void tinyi_slim_fold_tail(tllm_slim *s);
/* Tables of the coder and the vectors of the tape, from scales and counts. */
TINYI_FN void tinyi_slim_tables(tllm_slim *s);
TINYI_FN void tinyi_slim_finish(tllm_slim *s);              /* all three */
TINYI_INLINE int tinyi_slim_half(int bits) { return (1 << (bits - 1)) - 1; }
TINYI_FN int tinyi_slim_code(float z, float inverse, int half);     /* 0 to 2 half */

TINYI_C_END
#endif
