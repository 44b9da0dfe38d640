/* examples/bitweight.c - cycles of bit-serial multiplier arrays on the weights of a model
 *
 *     bitweight MODEL [--tokens N] [--encoder booth|ent] [--zero-slot] [--sync-k] [--quiet]
 *     bitweight --nest DESIGN          the loops of a design
 *     bitweight --list                 the designs
 *
 * MODEL is any file of weights that tinyllm.h reads. Each row of its matrices is scaled to int8, so that its largest
 * weight becomes 127. For each matrix it prints how many of the four digits of a weight are nonzero on average, with
 * Booth's encoder and with the EN-T encoder, and the bits of the magnitude. Then it prints the cost of each design for
 * the products with N tokens (default 64). Cycles are counted here; frequencies and areas are from the authors'
 * synthesis (arXiv 2503.06342). */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "bitweight"
#include "options.h"

static const char usage[] =
    "usage: bitweight MODEL [--tokens N] [--encoder booth|ent] [--zero-slot] [--sync-k] [--quiet] [--threads N]\n"
    "       bitweight --nest DESIGN | --list\n"
    "  --tokens N   columns of the other matrix (64)\n"
    "  --encoder E  the same encoder for all designs; default: each its own\n"
    "  --zero-slot  a weight of 0 takes a cycle too\n"
    "  --sync-k     lanes of sparse designs wait for each other at every k\n"
    "  --quiet      print only the whole model, not each matrix\n"
    "  --threads N  default: one per processor\n"
    "  --nest D     print the loops of design D and their bodies\n"
    "  --list       print the designs\n";

enum { DESIGNS = 32 };
typedef struct work {
    tllm_bw_design design[DESIGNS];
    const tllm_bw_unit *unit[DESIGNS];
    double cycles[DESIGNS], idle[DESIGNS], lanes[DESIGNS], products;
    int n, tokens, quiet;
    uint64_t count[256];
} work;

static int failed(const tiny_ctx *ctx) { end_progress(); return say(tiny_ctx_message(ctx)), 1; }

static int list(tiny_ctx *ctx, const char *nest)
{
    const tllm_bw_unit *u;
    tllm_bw_design d;
    char text[2048];
    size_t i;
    if (nest) {
        if (tllm_bw_design_of(ctx, nest, &d)) return failed(ctx);
        (void)tllm_bw_text(&d, text, sizeof text);
        fputs(text, stdout);
        return 0;
    }
    for (i = 0; (u = tllm_bw_unit_at(i)) != NULL; i++) {
        printf("%-10s %-36s", u->name, u->what);
        if (u->mhz > 0) printf(" %9.6f mm2 %s, %4.0f MHz", u->mm2, u->wires ? "with wires" : "of cells  ", u->mhz);
        putchar('\n');
    }
    return 0;
}

static int prepare(tiny_ctx *ctx, work *w, const char *encoder, int zero_slot, int sync_k)
{
    for (w->n = 0; w->n < DESIGNS && (w->unit[w->n] = tllm_bw_unit_at((size_t)w->n)) != NULL; w->n++) {
        tllm_bw_design *d = &w->design[w->n];
        if (tllm_bw_design_of(ctx, w->unit[w->n]->name, d)) return failed(ctx);
        if (encoder) d->encoder = strcmp(encoder, "ent") ? TLLM_BW_BOOTH : TLLM_BW_ENT;
        d->zero_slot = zero_slot;
        if (sync_k && d->loop[d->n_loops - 1].sparse && tllm_bw_transform(ctx, d, TLLM_BW_SYNC_K, 0))
            return failed(ctx);
    }
    return 0;
}

static double mean(tiny_ctx *ctx, int encoder, const uint64_t *count)
{
    tllm_bw_digits d;
    return tllm_bw_digits_of(ctx, encoder, count, &d) ? 0 : d.mean;
}

static void digits(tiny_ctx *ctx, const char *name, int width, const char *type, tiny_idx rows, tiny_idx k,
                   const uint64_t *count)
{
    printf("%-*.*s  %-6s %7td x %-7td %7.3f %7.3f %7.3f\n", width, width, name, type, rows, k,
           mean(ctx, TLLM_BW_BOOTH, count), mean(ctx, TLLM_BW_ENT, count), mean(ctx, TLLM_BW_BITS, count));
}

/* one matrix: its digits, and the cycles of each design */
static int matrix(tiny_ctx *ctx, work *w, const tllm_gguf_tensor *t, int width)
{
    const tiny_idx k = (tiny_idx)t->dim[0];
    uint64_t count[256] = { 0 };
    tiny_tensor a;
    char name[64];
    tiny_idx rows = 1;
    int i, bad = 0;
    for (i = 1; i < t->rank; i++) rows *= (tiny_idx)t->dim[i];
    a = tiny_tensor_2d(tiny_alloc(ctx, (size_t)rows * (size_t)k), TINY_I8, rows, k);
    if (!a.data || tllm_bw_count_rows(ctx, t->type, t->data, rows, k, count, (int8_t *)a.data)) bad = failed(ctx);
    for (i = 0; i < w->n && !bad; i++) {
        tllm_bw_stats s;
        if (tllm_bw_cycles(ctx, &w->design[i], &a, w->tokens, &s)) bad = failed(ctx);
        else {
            w->cycles[i] += (double)s.cycles;
            w->lanes[i] = (double)s.lanes;
            w->idle[i] += (double)s.bubbles / w->lanes[i];
        }
    }
    w->products += (double)rows * (double)k * w->tokens;
    for (i = 0; i < 256; i++) w->count[i] += count[i];
    (void)tiny_plain(name, sizeof name, t->name.at, t->name.n);
    if (!bad && !w->quiet) digits(ctx, name, width, tllm_type_name(t->type), rows, k, count);
    tiny_free(ctx, a.data);
    return bad;
}

static int model(tiny_ctx *ctx, work *w, const char *path)
{
    tllm_gguf *g = NULL;
    double sum = 0, done = 0;
    size_t i, matrices = 0;
    int bad = 0, width = 16, has_output, d;
    if (tllm_file_open(ctx, path, &g)) return failed(ctx);
    has_output = tllm_gguf_tensor_find(g, "output.weight") != NULL;
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (t->rank < 2) continue;
        sum += (double)t->bytes;
        if (t->name.n > (size_t)width) width = (int)(t->name.n < 48 ? t->name.n : 48);
    }
    if (!w->quiet)
        printf("%-*s  %-6s %17s %7s %7s %7s\n", width, "digits of a weight that are not 0", "", "", "Booth", "EN-T",
               "bits");
    for (i = 0; i < tllm_gguf_n_tensors(g) && !bad; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        /* a table of embeddings that are only looked up is not multiplied */
        if (t->rank < 2 || (has_output && tllm_text_is(t->name, "token_embd.weight"))) continue;
        bad = matrix(ctx, w, t, width);
        matrices++;
        done += (double)t->bytes;
        if (w->quiet && sum > 0) show_progress(NULL, "counting", done / sum);
    }
    end_progress();
    tllm_gguf_close(ctx, g);
    if (bad) return bad;
    if (!matrices) {
        fprintf(stderr, "bitweight: %s has no matrices\n", path);
        return 1;
    }
    printf("%-*s  %6zu %-17s %7.3f %7.3f %7.3f\n", width, "all", matrices, "matrices",
           mean(ctx, TLLM_BW_BOOTH, w->count), mean(ctx, TLLM_BW_ENT, w->count), mean(ctx, TLLM_BW_BITS, w->count));
    printf("\n%.0f products (%d tokens)\n%-10s %-36s %15s %8s %6s %6s %9s %11s\n", w->products, w->tokens, "design", "",
           "cycles", "a lane", "idle", "MHz", "Gop/s", "Gop/s/mm2");
    for (d = 0; d < w->n; d++) {
        double rate, area;
        tllm_bw_rate(w->unit[d], w->products, w->cycles[d], &rate, &area);
        printf("%-10s %-36s %15.0f %8.3f %5.1f%%", w->unit[d]->name, w->unit[d]->what, w->cycles[d],
               w->cycles[d] * w->lanes[d] / w->products, w->cycles[d] > 0 ? 100 * w->idle[d] / w->cycles[d] : 0);
        if (rate > 0)
            printf(" %6.0f %9.1f %11.1f%s", w->unit[d]->mhz, rate * 1e-9, area * 1e-9,
                   w->unit[d]->wires ? "" : " (cells)");
        putchar('\n');
    }
    puts("\ncycles: counted on these weights; a lane: cycles of a lane for each product; MHz and area: the authors' 32 "
         "nm synthesis");
    return 0;
}

int main(int argc, char **argv)
{
    static work w;
    static tiny_ctx *ctx;
    const char *path = NULL, *nest = NULL, *encoder = NULL;
    int zero_slot = 0, sync_k = 0, all = 0, bad;
    tiny_ctx_desc desc;
    const option options[] = { A_WORD("model", &path),
                               A_WHOLE("--tokens", &w.tokens, 1, 1e6),
                               A_TEXT("--encoder", &encoder),
                               A_FLAG("--zero-slot", &zero_slot),
                               A_FLAG("--sync-k", &sync_k),
                               A_FLAG("--quiet", &w.quiet),
                               A_TEXT("--nest", &nest),
                               A_FLAG("--list", &all),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS) };
    w.tokens = 64;
    memset(&desc, 0, sizeof desc);
    READ_OPTIONS(argc, argv, usage, options);
    if (!path && !nest && !all) return fputs(usage, stderr), 2;
    if (encoder && strcmp(encoder, "booth") && strcmp(encoder, "ent"))
        return wrong(encoder, "--encoder takes booth or ent");
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    bad = nest || all ? list(ctx, nest) : prepare(ctx, &w, encoder, zero_slot, sync_k);
    if (!nest && !all && !bad) bad = model(ctx, &w, path);
    tiny_ctx_close(ctx);
    return exit_status(bad);
}
