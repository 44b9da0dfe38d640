/* bench/targets.c - the same rows on every target of this machine: the widest must not be slower than a narrower one */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tiny_target b_aim = TINY_TARGET_AUTO;

/* A row's best median on each target. Other load only makes a row slower, so the best of several rounds counts; the
 * best of even and of odd rounds, of the same kernels, shows what is left of it. */
typedef struct bt_entry {
    const b_section *section;
    char key[240];
    double best[TINY_TARGET_COUNT], half[2][TINY_TARGET_COUNT];
} bt_entry;
static bt_entry *bt_entries;
static int bt_n, bt_room, bt_round;
static const b_section *bt_section;                     /* whose rows are collected, or NULL */

static void bt_least(double *best, double ns) { if (!(*best > 0) || ns < *best) *best = ns; }

/* "by" names the target of a row that was bound to one, or else the rival or form that ran in a context of b_aim. */
void b_targets_row(const char *contest, const b_row *r)
{
    const tiny_target named = tiny_target_by_name(r->target);
    const int on = (int)(named == TINY_TARGET_COUNT ? b_aim : named);
    const char *by = named == TINY_TARGET_COUNT ? r->target : "";
    char key[sizeof bt_entries->key];
    int i;
    if (!bt_section) return;
    if (!strncmp(by, "auto: ", 6)) by = "auto";              /* what was chosen differs by target */
    (void)snprintf(key, sizeof key, "%s | %s | %s | %s | %d threads", contest, r->what, r->shape, by, r->threads);
    for (i = 0; i < bt_n && strcmp(bt_entries[i].key, key) != 0; i++) { }
    if (i == bt_n) {
        if (bt_n == bt_room) {
            bt_room = bt_room ? bt_room * 2 : 256;
            bt_entries = (bt_entry *)realloc(bt_entries, (size_t)bt_room * sizeof *bt_entries);
            if (!bt_entries) { fprintf(stderr, "bench: no memory for %d rows\n", bt_room); exit(1); }
        }
        memset(&bt_entries[bt_n], 0, sizeof *bt_entries);
        bt_entries[bt_n].section = bt_section;
        memcpy(bt_entries[bt_n++].key, key, sizeof key);
    }
    bt_least(&bt_entries[i].best[on], r->median_ns);
    bt_least(&bt_entries[i].half[bt_round % 2][on], r->median_ns);
}

/* the target whose kernels the widest one runs in this row: where amx has none of its own, those of avx512; 0: none */
static int bt_own(const bt_entry *e, int widest)
{
    if (!(e->best[widest] > 0) && widest == TINY_TARGET_AMX) widest = TINY_TARGET_AVX512;
    return e->best[widest] > 0 ? widest : 0;
}
/* the narrower target that is fastest in this row; 0 when the row ran on the widest alone */
static int bt_rival(const bt_entry *e, int own)
{
    int t, rival = 0;
    for (t = TINY_TARGET_SCALAR; t < own; t++)
        if (e->best[t] > 0 && (!rival || e->best[t] < e->best[rival])) rival = t;
    return rival;
}

/* how much longer one half of the rounds took than the other, on the same target */
static double bt_differs(const bt_entry *e, int on)
{
    const double a = e->half[0][on], b = e->half[1][on];
    return !(a > 0) || !(b > 0) ? 1 : a > b ? a / b : b / a;
}

typedef enum bt_verdict { BT_ALONE, BT_FAST, BT_SLOW, BT_UNSURE } bt_verdict;
static bt_verdict bt_judge(const bt_entry *e, int widest, int *own, int *rival)
{
    double ratio;
    *own = bt_own(e, widest), *rival = bt_rival(e, *own);
    if (!*rival) return BT_ALONE;
    ratio = e->best[*own] / e->best[*rival];
    if (ratio <= 1.05) return BT_FAST;
    return ratio > 1.05 * bt_differs(e, *own) * bt_differs(e, *rival) ? BT_SLOW : BT_UNSURE;
}

/* how many rows of the section there are of each kind; their sum */
static int bt_count(const b_section *s, int widest, int count[BT_UNSURE + 1])
{
    int i, own, rival, n = 0;
    memset(count, 0, (BT_UNSURE + 1) * sizeof *count);
    for (i = 0; i < bt_n; i++)
        if (bt_entries[i].section == s) count[bt_judge(&bt_entries[i], widest, &own, &rival)]++, n++;
    return n;
}

int b_targets(const b_section *s, const tiny_target *targets, int n, int rounds)
{
    enum { AGAIN = 4 };                                      /* rounds that only a section with a slow row gets */
    const int widest = (int)targets[n - 1];
    const double begun = b_now();
    int count[BT_UNSURE + 1] = {0}, i, k, own, rival, rows = 1;
    bt_section = s;
    for (k = 0; k < rounds + AGAIN; k++) {
        if (k >= rounds && !count[BT_SLOW] && !count[BT_UNSURE]) break;
        if (k && count[BT_ALONE] == rows) break;             /* nothing to compare */
        b_keeps = 1;
        bt_round = k;
        for (i = 0; i < n && rows; i++) {   /* each round begins with another target */
            b_aim = targets[(i + k) % n];
            b_section_run(s);
            rows = bt_count(s, widest, count);
        }
    }
    b_keeps = 0;
    b_section_run(NULL);
    b_aim = TINY_TARGET_AUTO;
    bt_section = NULL;
    printf("%-12s %4d rows, %3d slower on %s than on a narrower target, %d not decided, %.0f s\n", s->name,
            rows - count[BT_ALONE], count[BT_SLOW], tiny_target_name((tiny_target)widest), count[BT_UNSURE],
            b_now() - begun);
    for (i = 0; i < bt_n; i++) {
        const bt_verdict v = bt_judge(&bt_entries[i], widest, &own, &rival);
        const bt_entry *e = &bt_entries[i];
        if (e->section != s || (v != BT_SLOW && v != BT_UNSURE)) continue;
        printf("    %s: %.2f us, %s %.2f us, %.2f of its speed", e->key, e->best[own] * 1e-3,
                tiny_target_name((tiny_target)rival), e->best[rival] * 1e-3, e->best[rival] / e->best[own]);
        if (v == BT_UNSURE)
            printf("; rounds differ by %.0f and %.0f %%", 100 * bt_differs(e, own) - 100,
                    100 * bt_differs(e, rival) - 100);
        printf("\n");
    }
    return count[BT_SLOW];
}
