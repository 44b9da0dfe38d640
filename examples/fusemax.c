/* examples/fusemax.c - counts the passes over data and the live data of an algorithm, from its description
 *
 *     fusemax FILE|1-pass|2-pass|deferred|3-pass [--fiber "m1 m0"] [RANK=SIZE ...]
 *     fusemax --plan E F KEYS QUERIES [HEADS]
 *
 * The first form prints passes, levels, live data and operations. FILE is a cascade of Einsums as llm/plan/cascade.h
 * describes it; "-" is standard input. The default size of a rank is 64, of m and p 1024, of m0 256. The default of
 * --fiber is "m1 m0" if the text splits a rank that way, else "m". --plan prints the best cascade and tile for this
 * processor, according to the model of the paper. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "fusemax"
#include "options.h"

static const char usage[] =
    "fusemax FILE|1-pass|2-pass|deferred|3-pass [RANK=SIZE ...] [options]\n"
    "    passes, live data and operations of a cascade of Einsums\n"
    "fusemax --plan E F KEYS QUERIES [HEADS]\n"
    "  --fiber RANKS    the ranks whose passes are counted; default: \"m1 m0\" if the text has such a split, else m\n"
    "  --plan           the best cascade and tile for this processor, by the model of the paper; E and F: sizes of a\n"
    "                   key and of a value\n";

static int failed(const tiny_ctx *ctx) { return say(tiny_ctx_message(ctx)), 1; }

/* the whole of text is a size; 0: it is none */
static tiny_idx size_of(const char *what, const char *text)
{
    uint64_t n;
    if (is_whole(text, 1, 1e9, &n)) return (tiny_idx)n;
    return fprintf(stderr, "fusemax: %s: a whole number from 1 to 1000000000 is needed, not %s\n", what, text), 0;
}

static int plan(tiny_ctx *ctx, const word_list *size)
{
    const tllm_machine machine = tllm_machine_of(ctx, 0, 20e9);
    tllm_fusemax_shape s = { 0, 0, 0, 0, 1 };
    tllm_fusemax_plan p;
    if (size->n < 4 || size->n > 5) return fputs(usage, stderr), 2;
    if (!(s.e = size_of("E", size->at[0])) || !(s.f = size_of("F", size->at[1])) ||
        !(s.m = size_of("KEYS", size->at[2])) || !(s.p = size_of("QUERIES", size->at[3])))
        return 2;
    if (size->n > 4 && !(s.heads = size_of("HEADS", size->at[4]))) return 2;
    if (tllm_fusemax_best(ctx, &machine, &s, &p)) return failed(ctx);
    printf("%s, %td queries x %td keys a tile: %.1f MB moved, %.2f ms by the model (3 GHz, 20 GB/s)\n",
           tllm_fusemax_name(p.cascade), p.p0, p.m0, p.bytes * 1e-6, p.seconds * 1e3);
    return 0;
}

static void show(const tllm_cascade *c, const tllm_cascade_analysis *a, const char *fiber)
{
    int i;
    printf("%d pass%s over %s\n\n%-15s %6s %6s %6s %14s\n", a->passes, a->passes == 1 ? "" : "es", fiber, "tensor",
           "level", "fiber", "reads", "live elements");
    for (i = 0; i < c->n_tensor; i++) {
        const tllm_cascade_tensor *t = &c->tensor[i];
        printf("%-15s %6d %6s %6d %14.0f%s\n", t->name, a->tensor_level[i],
               t->made_by >= 0 && a->reads_fiber[t->made_by] ? "whole" : "", a->reads[i], a->live[i],
               t->is_input  ? "  input"
               : a->kept[i] ? "  kept for a later pass"
                            : "");
    }
    printf("\nlive in all: %.0f elements\n%.0f exp, %.0f multiplications (%.0f of them rescale), %.0f divisions, %.0f "
           "additions, %.0f maxima\n",
           a->live_all, a->ops.exps, a->ops.multiplies, a->ops.rescales, a->ops.divides, a->ops.adds, a->ops.maxima);
}

int main(int argc, char **argv)
{
    static char text[65536];
    static tllm_cascade c;
    static word_list word;
    const char *fiber = NULL, *from = NULL, *path;
    tllm_cascade_analysis a;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    int i, bad = 0, to_plan = 0;
    const option options[] = { WORDS(&word, 64), A_FLAG("--plan", &to_plan), A_TEXT("--fiber", &fiber) };
    READ_OPTIONS(argc, argv, usage, options);
    if (!word.n) return fputs(usage, stderr), 2;
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (to_plan) {
        bad = plan(ctx, &word);
        tiny_ctx_close(ctx);
        return exit_status(bad);
    }
    path = word.at[0];
    for (i = 0; i < TLLM_FUSEMAX_CASCADES; i++) if (!strcmp(path, tllm_fusemax_name(i))) from = tllm_fusemax_text(i);
    if (!from) {
        FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
        size_t n = f ? fread(text, 1, sizeof text, f) : 0;
        if (!f || n == sizeof text) {
            fprintf(stderr, f ? "fusemax: %s is longer than 65535 bytes\n" : "fusemax: %s cannot be read\n", path);
            bad = 1;
        } else text[n] = 0;
        if (f && f != stdin) (void)fclose(f);
        from = text;
    }
    if (!bad && tllm_cascade_parse(ctx, from, &c)) bad = failed(ctx);
    for (i = 0; i < c.n_rank && !bad; i++) {
        const char *r = c.rank[i];
        if (c.split[0] >= 0 && i == c.split[1]) continue;
        if (tllm_cascade_size(ctx, &c, r, !strcmp(r, "m") || !strcmp(r, "p") ? 1024 : !strcmp(r, "m0") ? 256 : 64))
            bad = failed(ctx);
    }
    for (i = 1; i < word.n && !bad; i++) {
        char *is = strchr(word.at[i], '=');
        if (!is) bad = wrong(word.at[i], "this is not RANK=SIZE");
        else {
            tiny_idx n;
            *is = 0;
            n = size_of(word.at[i], is + 1);
            if (!n) bad = 2;
            else if (tllm_cascade_size(ctx, &c, word.at[i], n)) bad = failed(ctx);
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
    return exit_status(bad);
}
