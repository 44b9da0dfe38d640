/* examples/fusemax.c - how often an algorithm reads its data, and what it must keep, from its description
 *
 *     fusemax FILE|1-pass|2-pass|deferred|3-pass [--fiber "m1 m0"] [RANK=SIZE ...]        prints passes, levels, live data, operations
 *     fusemax --plan E F KEYS QUERIES [HEADS]                                            cascade and tile for this processor, by the model
 *
 * FILE: a cascade of Einsums as llm/attention/cascade.h says ("-": standard input). Ranks without a size get 64, m and p 1024, m0 256.
 * Without --fiber it is "m1 m0" where the text cuts a rank so, else "m".                                                               */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *to)
{
    fputs("usage: fusemax FILE|1-pass|2-pass|deferred|3-pass [--fiber \"m1 m0\"] [RANK=SIZE ...]\n       fusemax --plan E F KEYS QUERIES [HEADS]\n", to);
    return to == stdout ? 0 : 2;
}

static int failed(const tiny_ctx *ctx)
{
    fprintf(stderr, "fusemax: %s\n", tiny_ctx_message(ctx));
    return 1;
}

/* the whole of text is a size; 0: it is none */
static tiny_idx size_of(const char *what, const char *text)
{
    char *end = NULL;
    long v = 0;
    errno = 0;
    if (*text >= '0' && *text <= '9') v = strtol(text, &end, 10);
    if (end && !*end && !errno && v >= 1 && v <= 1000000000L) return v;
    return fprintf(stderr, "fusemax: %s: a whole number from 1 to 1000000000 is wanted, not %s\n", what, text), 0;
}

static int plan(tiny_ctx *ctx, int argc, char **argv)
{
    const tllm_machine machine = tllm_machine_of(ctx, 0, 20e9);
    tllm_fusemax_shape s = { 0, 0, 0, 0, 1 };
    tllm_fusemax_plan p;
    if (argc < 6 || argc > 7) return usage(stderr);
    if (!(s.e = size_of("E", argv[2])) || !(s.f = size_of("F", argv[3])) || !(s.m = size_of("KEYS", argv[4])) || !(s.p = size_of("QUERIES", argv[5]))) return 2;
    if (argc > 6 && !(s.heads = size_of("HEADS", argv[6]))) return 2;
    if (tllm_fusemax_best(ctx, &machine, &s, &p)) return failed(ctx);
    printf("%s, %td queries x %td keys a tile: %.1f MB moved, %.2f ms by the model (3 GHz, 20 GB/s)\n", tllm_fusemax_name(p.cascade), p.p0, p.m0, p.bytes * 1e-6, p.seconds * 1e3);
    return 0;
}

static void show(const tllm_cascade *c, const tllm_cascade_analysis *a, const char *fiber)
{
    int i;
    printf("%d pass%s over %s\n\n%-15s %6s %6s %6s %14s\n", a->passes, a->passes == 1 ? "" : "es", fiber, "tensor", "level", "fiber", "reads", "live elements");
    for (i = 0; i < c->n_tensor; i++) {
        const tllm_cascade_tensor *t = &c->tensor[i];
        printf("%-15s %6d %6s %6d %14.0f%s\n", t->name, a->tensor_level[i], t->made_by >= 0 && a->reads_fiber[t->made_by] ? "whole" : "", a->reads[i], a->live[i],
               t->is_input ? "  input" : a->kept[i] ? "  kept for a later pass" : "");
    }
    printf("\nlive in all: %.0f elements\n%.0f exp, %.0f multiplications (%.0f of them rescale), %.0f divisions, %.0f additions, %.0f maxima\n", a->live_all, a->ops.exps,
           a->ops.multiplies, a->ops.rescales, a->ops.divides, a->ops.adds, a->ops.maxima);
}

/* why no context was opened; what comes later stands in its message */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "fusemax: %s\n", sentence);
}

int main(int argc, char **argv)
{
    static char text[65536];
    static tllm_cascade c;
    const char *fiber = NULL, *from = NULL;
    tllm_cascade_analysis a;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    int i, bad = 0;
    if (argc < 2) return usage(stderr);
    if (!strcmp(argv[1], "--help")) return usage(stdout);
    memset(&desc, 0, sizeof desc);
    desc.log = say;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (!strcmp(argv[1], "--plan")) {
        bad = plan(ctx, argc, argv);
        tiny_ctx_close(ctx);
        return bad;
    }
    for (i = 0; i < TLLM_FUSEMAX_CASCADES; i++) if (!strcmp(argv[1], tllm_fusemax_name(i))) from = tllm_fusemax_text(i);
    if (!from) {
        FILE *f = strcmp(argv[1], "-") ? fopen(argv[1], "rb") : stdin;
        size_t n = f ? fread(text, 1, sizeof text, f) : 0;
        if (!f || n == sizeof text) {
            fprintf(stderr, f ? "fusemax: %s is longer than 65535 bytes\n" : "fusemax: %s cannot be read\n", argv[1]);
            bad = 1;
        } else text[n] = 0;
        if (f && f != stdin) (void)fclose(f);
        from = text;
    }
    if (!bad && tllm_cascade_parse(ctx, from, &c)) bad = failed(ctx);
    for (i = 0; i < c.n_rank && !bad; i++) {
        const char *r = c.rank[i];
        if (c.split[0] >= 0 && i == c.split[1]) continue;
        if (tllm_cascade_size(ctx, &c, r, !strcmp(r, "m") || !strcmp(r, "p") ? 1024 : !strcmp(r, "m0") ? 256 : 64)) bad = failed(ctx);
    }
    for (i = 2; i < argc && !bad; i++) {
        char *is = strchr(argv[i], '=');
        if (!strcmp(argv[i], "--fiber") && i + 1 < argc) fiber = argv[++i];
        else if (!is) bad = usage(stderr);
        else {
            tiny_idx n;
            *is = 0;
            n = size_of(argv[i], is + 1);
            if (!n) bad = 2;
            else if (tllm_cascade_size(ctx, &c, argv[i], n)) bad = failed(ctx);
        }
    }
    if (!bad) {
        char both[2 * TLLM_CASCADE_NAME + 2] = "m";
        if (c.split[0] >= 0) (void)snprintf(both, sizeof both, "%s %s", c.rank[c.split[1]], c.rank[c.split[2]]);
        if (!fiber) fiber = both;
        if (tllm_cascade_analyse(ctx, &c, fiber, &a)) bad = failed(ctx);
        else show(&c, &a, fiber);
    }
    tiny_ctx_close(ctx);
    return bad;
}
