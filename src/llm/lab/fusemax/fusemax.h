/* src/llm/lab/fusemax/fusemax.h - attention in four forms (cascades of Einsums): their costs, their memory, and their
 * execution
 *
 *   tllm_fusemax_desc d = { 0 };
 *   d.cascade = TLLM_FUSEMAX_DEFERRED;
 *   tllm_fusemax(ctx, &d, &q, &k, &v, &o, &counts);
 *
 * 3_PASS      scores; their maximum; exp and its sum; division; times v        keeps scores and weights of all keys
 * DEFERRED    the division comes last: f divisions per query, not one per key  keeps the scores of all keys
 * 2_PASS      exp with the maximum of a chunk of keys, corrected afterwards    keeps the weights of all keys
 * 1_PASS      exp with a running maximum, like tiny_attention                  keeps one chunk, for any number of keys
 *
 * f is the number of floats of a value. tllm_fusemax_text returns the definition of a form as text: the reference runs
 * this text, and the counts are derived from it (llm/plan/cascade.h). */
#ifndef TINYI_FUSEMAX_H
#define TINYI_FUSEMAX_H
#include "llm/plan/cascade.h"
TINYI_C_BEGIN

typedef enum tllm_fusemax_cascade {
    TLLM_FUSEMAX_1_PASS,
    TLLM_FUSEMAX_2_PASS,
    TLLM_FUSEMAX_DEFERRED,
    TLLM_FUSEMAX_3_PASS,
    TLLM_FUSEMAX_CASCADES
} tllm_fusemax_cascade;

typedef struct tllm_fusemax_desc {          /* all zero: one pass, by tiny_attention */
    int cascade;
    /* queries and keys of a tile; 0: 64 and 128, or less if a tile does not fit into the buffer */
    tiny_idx p0, m0;
    float scale;                            /* 0: 1 / sqrt(d) */
    size_t buffer_bytes;                    /* near memory, where a tile must fit; 0: the second-level cache */
} tllm_fusemax_desc;

/* e, f: numbers of a key and of a value; m keys; p queries; heads 0: 1 */
typedef struct tllm_fusemax_shape { tiny_idx e, f, m, p, heads; } tllm_fusemax_shape;

typedef struct tllm_fusemax_counts {
    tllm_cascade_ops ops;
    double read_q, read_k, read_v, read_kept, written_kept, written_o;     /* elements from and to far memory */
    size_t live_bytes;                      /* workspace of one thread, which must fit into the buffer */
} tllm_fusemax_counts;

TINY_API const char *tllm_fusemax_name(int cascade);       /* "1-pass"; NULL: unknown */
TINY_API const char *tllm_fusemax_text(int cascade);       /* its description; NULL: unknown */

/* q (p, heads, e), k (m, heads_kv, e), v (m, heads_kv, f), o (p, heads, f), f32, the last axis of each contiguous,
 * finite numbers, no mask. counts may be NULL. One pass without tiles and counts calls tiny_attention; otherwise the
 * tiles run as requested. A tile must fit into the buffer (TINY_E_WORKSPACE). A context with the target REFERENCE runs
 * the text in double and fills only ops of counts. */
TINY_API tiny_status tllm_fusemax(tiny_ctx *ctx, const tllm_fusemax_desc *desc, const tiny_tensor *q,
                                  const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *o,
                                  tllm_fusemax_counts *counts);
/* The counts of tllm_fusemax, from the description alone. heads_kv divides heads. */
TINY_API tiny_status tllm_fusemax_predict(tiny_ctx *ctx, const tllm_fusemax_desc *desc, const tllm_fusemax_shape *shape,
                                          tiny_idx heads_kv, tllm_fusemax_counts *counts);

/* ---- a model of the time of a cascade on an accelerator
 * Einsums over single keys run on the 2-D array, the others on the 1-D array; exp takes 7 operations, everything else
 * 1. */
typedef struct tllm_machine {               /* all zero: the accelerator of the paper */
    int edge;                               /* the 2-D array is edge x edge; 0: 256 */
    double pe2d, pe1d;                      /* operations per cycle; 0: edge^2, edge */
    double buffer_bytes;                    /* 0: 16 MiB */
    double bytes_per_s;                     /* of far memory; 0: no limit */
    double hertz;                           /* 0: 940 MHz */
    int element_bytes;                      /* 0: 2 */
    /* nonzero: the arrays are parts of one core; times add up, and keys are transposed by 1-D work */
    int serial;
} tllm_machine;

typedef struct tllm_fusemax_plan {
    int cascade;
    tiny_idx p0, m0;                        /* queries and keys of a tile */
    /* cycles of computing; share of them in which the 2-D array works; bytes from and to far memory; time of computing
     * or of moving these bytes, whichever is longer */
    double cycles, use_2d, bytes, seconds;
} tllm_fusemax_plan;

/* The processor of ctx as a tllm_machine, with pe2d = 2 x lanes x threads and pe1d = 4 x threads; hertz 0: 3 GHz */
TINY_API tllm_machine tllm_machine_of(const tiny_ctx *ctx, double hertz, double bytes_per_s);
/* Predicts the time of plan->cascade with tiles of plan->p0 and m0, and fills the rest of plan. If both are 0, m0
 * becomes the edge and p0 the largest part of the queries that fits. */
TINY_API tiny_status tllm_fusemax_model(tiny_ctx *ctx, const tllm_machine *machine, const tllm_fusemax_shape *shape,
                                        tllm_fusemax_plan *plan);
/* Finds the cascade and tile that this model predicts to be fastest; of equal ones the one that moves fewer bytes. */
TINY_API tiny_status tllm_fusemax_best(tiny_ctx *ctx, const tllm_machine *machine, const tllm_fusemax_shape *shape,
                                       tllm_fusemax_plan *plan);

TINYI_C_END
#endif
