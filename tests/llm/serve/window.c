/* tests/llm/serve/window.c - the fewest moves that make busy slots neighbours
 *
 * Truth    two maps worked on paper; for all maps of ten slots the shortest path in the graph of maps, in which a step
 *          moves one slot, found by breadth first search; for weights every window tried. */
#include "t.h"

enum { N = 10, ALL = 1 << N };

static void test_worked(void)
{
    static const size_t a[8] = { 0, 4, 0, 7, 2, 0, 9, 0 }, b[8] = { 3, 0, 0, 5, 6, 8, 0, 0 };
    size_t from[8], to[8];
    tllm_window w;
    w.from = from;
    w.to = to;
    T_EQ_INT(tllm_window_moves(a, 8, TLLM_WINDOW_FEWEST, &w), 1);
    T_EQ_INT(w.first, 1);
    T_EQ_INT(w.length, 4);
    T_EQ_INT(from[0], 6);
    T_EQ_INT(to[0], 2);
    T_EQ_INT(tllm_window_moves(b, 8, TLLM_WINDOW_FEWEST, &w), 1);
    T_EQ_INT(w.first, 2);
    T_EQ_INT(w.length, 4);
    T_EQ_INT(from[0], 0);
    T_EQ_INT(to[0], 2);
    T_PROOF("serving 1", "live map [-,4,-,7,2,-,9,-]: window from 1, length 4, one move 6 -> 2");
    T_PROOF("serving 1", "live map [3,-,-,5,6,8,-,-]: window from 2, one move 0 -> 2");
}

static int bits(int map)
{
    int n = 0;
    for (; map; map &= map - 1) n++;
    return n;
}
static int neighbours(int map)              /* are its bits side by side? */
{
    while (map && !(map & 1)) map >>= 1;
    return (map & (map + 1)) == 0;
}

/* From all maps without holes at once, one moved slot at a time: the distance of each map is the least number of moves
 * that closes it. */
static void test_all_maps(void)
{
    int distance[ALL], queue[ALL], head = 0, tail = 0, map, i, j, bad = 0;
    for (map = 0; map < ALL; map++) {
        distance[map] = neighbours(map) ? 0 : -1;
        if (!distance[map]) queue[tail++] = map;
    }
    while (head < tail) {
        map = queue[head++];
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++) {
                const int next = (map & ~(1 << i)) | 1 << j;
                if (!(map >> i & 1) || map >> j & 1 || distance[next] >= 0) continue;
                distance[next] = distance[map] + 1;
                queue[tail++] = next;
            }
    }
    for (map = 0; map < ALL; map++) {
        size_t held[N], from[N], to[N], n, k;
        tllm_window w;
        int after = map;
        for (i = 0; i < N; i++) held[i] = (size_t)(map >> i & 1) * (size_t)(i + 1);
        w.from = from;
        w.to = to;
        n = tllm_window_moves(held, N, TLLM_WINDOW_FEWEST, &w);
        bad += (int)n != distance[map] || (int)w.length != bits(map);
        for (k = 0; k < n; k++) {
            bad += !(after >> from[k] & 1) || after >> to[k] & 1;       /* a busy one to a free one */
            after = (after & ~(1 << from[k])) | 1 << to[k];
        }
        bad += after != ((1 << bits(map)) - 1) << w.first;
    }
    T_EQ_INT(bad, 0);
    T_PROOF("serving 1", "moves equal the brute-force minimum for all 2^10 maps of 10 slots");
}

/* By weight: no other window moves less. */
static void test_lightest(void)
{
    int map, i, bad = 0;
    for (map = 0; map < ALL; map += 3) {
        size_t held[N], from[N], to[N], n, k, moved = 0, least = SIZE_MAX, first;
        tllm_window w;
        for (i = 0; i < N; i++) held[i] = (size_t)(map >> i & 1) * (size_t)(1 + (i * 7 + map) % 13);
        w.from = from;
        w.to = to;
        n = tllm_window_moves(held, N, TLLM_WINDOW_LIGHTEST, &w);
        for (k = 0; k < n; k++) moved += held[from[k]];
        for (first = 0; first + (size_t)bits(map) <= N; first++) {
            size_t outside = 0;
            for (i = 0; i < N; i++)
                if ((size_t)i < first || (size_t)i >= first + (size_t)bits(map)) outside += held[i];
            if (outside < least) least = outside;
        }
        bad += moved != least;
    }
    T_EQ_INT(bad, 0);
}

static void test_edges(void)
{
    const size_t none[3] = { 0, 0, 0 }, one[1] = { 5 };
    tllm_window w;
    memset(&w, 0x55, sizeof w);
    w.from = w.to = NULL;
    T_EQ_INT(tllm_window_moves(none, 3, TLLM_WINDOW_FEWEST, &w), 0);
    T_EQ_INT(w.first + w.length, 0);
    T_EQ_INT(tllm_window_moves(one, 1, TLLM_WINDOW_LIGHTEST, &w), 0);
    T_EQ_INT(w.length, 1);
    T_EQ_INT(tllm_window_moves(NULL, 3, TLLM_WINDOW_FEWEST, &w), 0);
    T_EQ_INT(tllm_window_moves(one, 0, TLLM_WINDOW_FEWEST, &w), 0);
    T_EQ_INT(tllm_window_moves(one, 1, TLLM_WINDOW_FEWEST, NULL), 0);
}

int main(void)
{
    T_RUN(test_worked);
    T_RUN(test_all_maps);
    T_RUN(test_lightest);
    T_RUN(test_edges);
    return t_done();
}
