/* src/llm/serve/window.c - the fewest moves that make the busy slots of a row neighbours
 * Paper    J. Yao et al., 2023 (arXiv 2305.13484), the reordering of finished requests
 * Formula  n busy slots of N. A window of n slots slides over all places; c(i) = the busy slots outside of it, or what
 *          they hold. The first window with the smallest c is kept. The slots outside, from left to right, go to the
 *          free slots inside, from left to right.
 * Proof    that this is the minimum: whatever window of n slots is left at the end, each busy slot outside of it must
 *          move at least once, and moving each of them once is enough, because as many free slots are inside.
 * Cost     one pass; the count of the window is kept up to date at its two ends. */
#include "llm/serve/window.h"

TINY_API size_t tllm_window_moves(const size_t *held, size_t n, tllm_window_cost cost, tllm_window *w)
{
    size_t i, length = 0, inside = 0, best, first = 0, moves = 0, hole;
    if (!w) return 0;
    w->first = w->length = 0;
    if (!held) return 0;
    for (i = 0; i < n; i++) length += held[i] > 0;
    if (!length) return 0;
#define TINYI_WINDOW_OF(i) (cost == TLLM_WINDOW_LIGHTEST ? held[i] : (size_t)(held[i] > 0))
    for (i = 0; i < length; i++) inside += TINYI_WINDOW_OF(i);
    best = inside;
    for (i = length; i < n; i++) {
        inside = inside - TINYI_WINDOW_OF(i - length) + TINYI_WINDOW_OF(i);
        if (inside <= best) continue;
        best = inside;
        first = i - length + 1;
    }
#undef TINYI_WINDOW_OF
    w->first = hole = first;
    w->length = length;
    for (i = 0; i < n; i++) {
        if (!held[i] || (i >= first && i < first + length)) continue;
        while (held[hole]) hole++;
        if (w->from) w->from[moves] = i;
        if (w->to) w->to[moves] = hole;
        moves++;
        hole++;
    }
    return moves;
}
