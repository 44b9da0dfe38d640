/* src/llm/plan/slots.h - a model that is read from disk while it computes: memory, waits, and which blocks to keep
 *
 * The weights are blocks in the order in which they are used: attention and network of each layer, then the output. A
 * window of w slots moves over them; a loader fills slots while the blocks before them compute (llm/dist/loader.h).
 * These functions answer beforehand:
 *
 *   tllm_tp_split(ctx, &shape, 4, ratio, 32, part);          which heads and neurons each of 4 ranks gets
 *   tllm_slots_peak(bytes, n, 2)                             the most bytes that a window of 2 holds
 *   tllm_slots_run(ctx, &times, 1, &answer);                 seconds of a pass, and how long it waits for the disk
 *   tllm_slots_steady(&times), tllm_slots_keep(&times)       whether it waits at all, and what to keep if it does */
#ifndef TINYI_SLOTS_H
#define TINYI_SLOTS_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* ---- shares of a layer ---- */

typedef struct tllm_tp_shape { tiny_idx n_embd, n_vocab, n_head, n_kv, n_ff; } tllm_tp_shape;
typedef struct tllm_tp_part {               /* of one rank: the first one, and how many */
    tiny_idx head0, n_head, kv0, n_kv, ff0, n_ff;
} tllm_tp_part;
/* Shares in proportion to ratio (world), positive numbers whose sum is 1 within 1e-6. Each rank gets
 * floor(n_kv ratio) key heads, and the last ranks one of those that are left, each; the query heads follow their key
 * head. Neurons likewise, in units of align. part: (world). A rank without a key head is an error: take fewer ranks. */
TINY_API tiny_status tllm_tp_split(tiny_ctx *ctx, const tllm_tp_shape *shape, int world, const double *ratio,
                                   tiny_idx align, tllm_tp_part *part);
/* Numbers of the four blocks of a rank: attention and network of a layer with their norms, input, output with its
 * norm. */
typedef struct tllm_tp_numbers { double attn, ffn, input, output; } tllm_tp_numbers;
TINY_API tllm_tp_numbers tllm_tp_sizes(const tllm_tp_shape *shape, const tllm_tp_part *part);

/* In a ring each rank in turn computes layers[rank] consecutive layers, until all are done: the rank of layer i. */
TINY_API int tllm_ring_owner(const tiny_idx *layers, int world, tiny_idx i);

/* ---- a window ---- */

/* The most bytes of `window` blocks one after the other, the first block following the last one. 0 for a bad call. */
TINY_API uint64_t tllm_slots_peak(const uint64_t *bytes, tiny_idx n, tiny_idx window);

typedef struct tllm_slots_times {           /* seconds, or any one unit */
    double attn, ffn;                       /* computing of a block */
    double sum;                             /* after each block: an all-reduce; 0 for one rank */
    double load_attn, load_ffn;             /* reading of a block */
    tiny_idx n_layer, window;
    /* the networks of layers 0, keep, 2 keep ... stay in memory and use no slot; 0: none */
    tiny_idx keep;
} tllm_slots_times;
typedef struct tllm_slots_answer {
    double seconds, stall;                  /* of all passes together */
    double first_stall, second_stall;       /* of the first two blocks */
    tiny_idx n_stalls;                      /* blocks that waited */
} tllm_slots_answer;
/* Simulates passes, one after the other, exactly. */
TINY_API tiny_status tllm_slots_run(tiny_ctx *ctx, const tllm_slots_times *times, int passes,
                                    tllm_slots_answer *answer);

/* The paper's conditions for a wide window: after the start no block waits. */
enum {
    TLLM_STEADY_TIGHT = 1,                  /* each block hides the loading of the next */
    TLLM_STEADY_LOOSE = 2,                  /* a layer with its sums hides the loading of a layer */
    TLLM_STEADY_A = 4,                      /* with LOOSE: no wait at all after the first block */
    TLLM_STEADY_B = 8                       /* with LOOSE: one more wait at the start, then none */
};
TINY_API unsigned tllm_slots_steady(const tllm_slots_times *times);
/* The largest `keep` with which a pass is steady, i.e. the one that needs the least memory. 0: steady without. -1: not
 * even with all networks in memory; tllm_slots_run tells how long it waits. `keep` and `window` of times are not
 * read. */
TINY_API tiny_idx tllm_slots_keep(const tllm_slots_times *times);

/* ---- inside: what the bodies share ---- */

/* layers of a ring: at least one for each rank, and their sum divides n_layer; path: for the sentence */
TINYI_FN tiny_status tinyi_ring_check(tiny_ctx *ctx, const char *path, tiny_idx n_layer, const tiny_idx *layers,
                                      int rank, int world);

TINYI_C_END
#endif
