/* src/llm/serve/window.h - the fewest moves that make the busy slots of a row neighbours
 *
 *   held[i]: what slot i holds, 0 for a free one
 *   n = tllm_window_moves(held, 8, TLLM_WINDOW_FEWEST, &w);    w.first, w.length: the window afterwards
 *   for (i = 0; i < n; i++) ... slot w.from[i] goes to slot w.to[i] ...
 *
 * J. Yao et al., "Flover: A Temporal Fusion Framework for Efficient Autoregressive Model Parallel Inference", 2023
 * (arXiv 2305.13484). */
#ifndef TINYI_WINDOW_H
#define TINYI_WINDOW_H
#include "core/tensor.h"
TINYI_C_BEGIN

typedef enum tllm_window_cost {
    TLLM_WINDOW_FEWEST,                     /* as few moves as possible */
    TLLM_WINDOW_LIGHTEST                    /* as little moved as possible, by held */
} tllm_window_cost;

/* from and to: room for as many slots as there are; NULL: not wanted */
typedef struct tllm_window { size_t first, length; size_t *from, *to; } tllm_window;

/* Fills first, length, from, to. Of equally good windows the first one is taken. The sums of held must fit a size_t.
 * Returns the number of moves. n 0, or nothing held: 0, and an empty window at 0. */
TINY_API size_t tllm_window_moves(const size_t *held, size_t n, tllm_window_cost cost, tllm_window *w);

TINYI_C_END
#endif
