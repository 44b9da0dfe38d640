/* src/llm/model/arch.c - architectures by name */
#include "llm/model/arch_inside.h"
#include <string.h>

TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_at(size_t i)
{
    return i < TINYI_LM_N_ARCHS ? &TINYI_LM_ARCHS[i] : NULL;
}

TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_find(const char *name, size_t n)
{
    size_t i;
    for (i = 0; i < TINYI_LM_N_ARCHS; i++)
        if (strlen(TINYI_LM_ARCHS[i].name) == n && !memcmp(TINYI_LM_ARCHS[i].name, name, n)) return &TINYI_LM_ARCHS[i];
    return NULL;
}

/* Levenshtein distance of two names of at most 40 letters */
static int tinyi_lm_arch_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int row[41], i, j;
    for (j = 0; j <= (int)n_b; j++) row[j] = j;
    for (i = 1; i <= (int)n_a; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (j = 1; j <= (int)n_b; j++) {
            int up = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            best = TINYI_MIN(best, up + 1);
            row[j] = TINYI_MIN(best, row[j - 1] + 1);
            diagonal = up;
        }
    }
    return row[n_b];
}

TINYI_FN void tinyi_lm_arch_nearest(const char *name, size_t n, char text[160])
{
    const char *best[3] = { "", "", "" };
    int distance[3] = { 1000, 1000, 1000 }, k, j;
    size_t i, at = 0;
    n = TINYI_MIN(n, 40);
    for (i = 0; i < TINYI_LM_N_ARCHS; i++) {
        const char *other = TINYI_LM_ARCHS[i].name;
        const int d = tinyi_lm_arch_distance(name, n, other, TINYI_MIN(strlen(other), 40));
        for (k = 0; k < 3 && d >= distance[k]; k++) {}
        if (k == 3) continue;
        for (j = 2; j > k; j--) { distance[j] = distance[j - 1]; best[j] = best[j - 1]; }
        distance[k] = d;
        best[k] = other;
    }
    for (k = 0; k < 3 && *best[k]; k++) {
        const size_t m = strlen(best[k]);
        if (k) { memcpy(text + at, ", ", 2); at += 2; }
        memcpy(text + at, best[k], m);
        at += m;
    }
    text[at] = 0;
}
