/* bench/targets.c - the same rows on every target of this machine: the widest must not be slower than a narrower one */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tiny_target b_aim = TINY_TARGET_AUTO;

/* A row's best median on each target. Other load only makes a row slower, so the best of several rounds counts. */
typedef struct bt_entry { char key[240]; double best[TINY_TARGET_COUNT]; } bt_entry;
static bt_entry *bt_entries;
static int bt_n, bt_room, bt_collects;

/* "by" names the target of a row that was bound to one, or else the rival or form that ran in a context of b_aim. */
void b_targets_row(const char *contest, const b_row *r)
{
    const tiny_target named = tiny_target_by_name(r->target);
    const int on = (int)(named == TINY_TARGET_COUNT ? b_aim : named);
    const char *by = named == TINY_TARGET_COUNT ? r->target : "";
    char key[sizeof bt_entries->key];
    int i;
    if (!bt_collects) return;
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
        memcpy(bt_entries[bt_n++].key, key, sizeof key);
    }
    if (!(bt_entries[i].best[on] > 0) || r->median_ns < bt_entries[i].best[on]) bt_entries[i].best[on] = r->median_ns;
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

int b_targets(const b_section *s, const tiny_target *targets, int n, int rounds)
{
    enum { AGAIN = 4 };                                      /* rounds that only a section with a slow row gets */
    const int widest = (int)targets[n - 1], first = bt_n;
    const double begun = b_now();
    int lost = 0, compared = 0, i, k;
    bt_collects = 1;
    for (k = 0; k < rounds + AGAIN; k++) {
        if (k >= rounds && !lost) break;
        b_keeps = 1;
        for (i = 0; i < n; i++) {           /* each round begins with another target */
            b_aim = targets[(i + k) % n];
            b_section_run(s);
        }
        for (lost = 0, compared = 0, i = first; i < bt_n; i++) {
            const int own = bt_own(&bt_entries[i], widest), rival = bt_rival(&bt_entries[i], own);
            compared += rival > 0;
            lost += rival > 0 && bt_entries[i].best[own] > 1.05 * bt_entries[i].best[rival];
        }
    }
    b_keeps = 0;
    b_section_run(NULL);
    b_aim = TINY_TARGET_AUTO;
    bt_collects = 0;
    printf("%-12s %4d rows, %3d slower on %s than on a narrower target, %.0f s\n", s->name, compared, lost,
            tiny_target_name((tiny_target)widest), b_now() - begun);
    for (i = first; i < bt_n; i++) {
        const int own = bt_own(&bt_entries[i], widest), rival = bt_rival(&bt_entries[i], own);
        if (rival && bt_entries[i].best[own] > 1.05 * bt_entries[i].best[rival])
            printf("    %s: %.2f us, %s %.2f us, %.2f of its speed\n", bt_entries[i].key,
                    bt_entries[i].best[own] * 1e-3, tiny_target_name((tiny_target)rival),
                    bt_entries[i].best[rival] * 1e-3, bt_entries[i].best[rival] / bt_entries[i].best[own]);
    }
    return lost;
}
