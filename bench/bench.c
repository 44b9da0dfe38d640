/* bench/bench.c - the frame: turns, medians, tables, curves, the papers' headlines in the pages of docs/papers */
#include "bench.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int b_quick, b_threads;
static int b_keep;                          /* tables and curves go to docs/ */
static int b_hush;                          /* --targets compares rows and prints no tables */
static FILE *b_tsv, *b_md;

double b_now(void) { return (double)tiny_now_ns() * 1e-9; }

void b_must(tiny_ctx *ctx, tiny_status status)
{
    if (!status) return;
    fprintf(stderr, "bench: %s: %s\n", tiny_status_text(status), ctx ? tiny_ctx_message(ctx) : "");
    exit(1);
}

tiny_ctx *b_ctx(tiny_target target, int threads)
{
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    memset(&d, 0, sizeof d);
    d.target = target == TINY_TARGET_AUTO ? b_aim : target;
    d.n_threads = threads;
    b_must(NULL, tiny_ctx_open(&d, &ctx));
    return ctx;
}

/* Before what b_alloc gives. Blocks lie in the order in which they were asked for. With --targets a section that runs
 * again gets the same ones again: rows that memory limits differ by a fifth with the pages they happen to get. */
typedef struct b_block { struct b_block *next; size_t bytes; } b_block;
static b_block *b_blocks, **b_next = &b_blocks;
int b_keeps;

void *b_alloc(size_t bytes)
{
    unsigned char *raw;
    b_block *block = *b_next;
    float *p;
    size_t i;
    if (!block || block->bytes != bytes) {
        block = (b_block *)malloc(bytes + 192);
        if (!block) { fprintf(stderr, "bench: no %zu bytes\n", bytes); exit(1); }
        block->bytes = bytes;
        block->next = *b_next;
        *b_next = block;
    }
    b_next = &block->next;
    raw = (unsigned char *)(void *)block;
    p = (float *)(void *)(raw + 64 + 64 - (uintptr_t)raw % 64);
    memcpy((unsigned char *)p - sizeof raw, &raw, sizeof raw);     /* for b_free */
    for (i = 0; i < bytes / 4; i++) p[i] = (float)((int)(i * 2654435761u >> 8 & 1023) - 512) / 512.0f;
    return p;
}

void b_free(void *p)
{
    b_block *block, **at = &b_blocks;
    if (!p || b_keeps) return;
    memcpy(&block, (unsigned char *)p - sizeof block, sizeof block);
    while (*at != block) at = &(*at)->next;
    if (b_next == &block->next) b_next = at;
    *at = block->next;
    free(block);
}

void b_section_run(const b_section *s)
{
    if (s) s->run();
    b_next = &b_blocks;
    while (b_blocks && !b_keeps) {          /* most sections leave what they asked for to the end of the program */
        b_block *block = b_blocks;
        b_blocks = block->next;
        free(block);
    }
}

tiny_tensor b_head(const tiny_tensor *x, tiny_idx h)
{
    tiny_tensor t = *x;
    t.data = (float *)x->data + h * x->stride[1];
    t.rank = 2;
    t.dim[1] = x->dim[2];
    t.stride[1] = x->stride[2];
    return t;
}

void b_shape(b_row *row, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(row->shape, sizeof row->shape, format, args);
    va_end(args);
}

static int b_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* enough calls for the clock: at least 200 us a sample; and the time of one call */
static int b_calls(const b_row *r, double *seconds)
{
    int calls = 1;
    r->run(r->arg);
    for (;;) {
        double t = b_now();
        int i;
        for (i = 0; i < calls; i++) r->run(r->arg);
        t = b_now() - t;
        *seconds = t / calls;
        if (t > 2e-4 || calls >= 1 << 22) return calls;
        calls = t < 2e-6 ? calls * 64 : (int)(calls * 3e-4 / t) + 1;
    }
}

void b_contest(const char *title, b_row *rows, int n_rows)
{
    enum { MOST = 101 };
    const double budget = b_hush ? 0.1 : b_quick ? 0.35 : 2.0;
    double *t = (double *)calloc((size_t)n_rows * MOST, sizeof *t), start, seconds;
    int *calls = (int *)calloc((size_t)n_rows, sizeof *calls), *again = (int *)calloc((size_t)n_rows, sizeof *again),
        n = 0, i, j;
    if (!t || !calls || !again) exit(1);
    if (!b_hush)
        printf("\n%s\n  %-24s %-20s %-12s %3s %11s %9s %10s  %s\n", title, "what", "shape", "by", "thr", "median",
               "GB/s", "Gop/s", "of the limit");
    if (b_md)
        fprintf(b_md,
                "\n### %s\n\n| what | shape | by | threads | median us | GB/s | Gop/s | of the limit "
                "|\n|---|---|---|---|---|---|---|---|\n",
                title);
    for (i = 0; i < n_rows; i++) {
        if (!rows[i].run) continue;
        calls[i] = b_calls(&rows[i], &seconds);
        /* the row must not pay for caches that another row filled, nor for threads that sleep */
        again[i] = n_rows > 1 && seconds < 0.02;
    }
    start = b_now();
    for (n = 0; n < MOST && (n < 5 || b_now() - start < budget * n_rows); n++)
        for (i = 0; i < n_rows; i++) {
            double t0;
            if (!rows[i].run) continue;
            if (again[i]) rows[i].run(rows[i].arg);
            t0 = b_now();
            for (j = 0; j < calls[i]; j++) rows[i].run(rows[i].arg);
            t[i * MOST + n] = (b_now() - t0) / calls[i];
        }
    for (i = 0; i < n_rows; i++) {
        b_row *r = &rows[i];
        const b_limits *max = &b_max[r->threads > 1];
        double s, rate = 0, limit = 0;
        char of[32] = "";
        if (!r->run) continue;
        qsort(t + i * MOST, (size_t)n, sizeof *t, b_order);
        s = t[i * MOST + n / 2];
        r->median_ns = s * 1e9;
        r->best_ns = t[i * MOST] * 1e9;
        b_targets_row(title, r);
        if (r->limit == B_READ) { rate = r->bytes / s; limit = max->read; }
        if (r->limit == B_COPY) { rate = r->bytes / s; limit = max->copy; }
        if (r->limit == B_F32) { rate = r->flops / s; limit = max->f32; }
        if (r->limit == B_I8) { rate = r->flops / s; limit = max->i8; }
        if (limit > 0)
            (void)snprintf(of, sizeof of, "%.2f %s", rate / limit,
                           r->limit == B_READ   ? "read"
                           : r->limit == B_COPY ? "copy"
                           : r->limit == B_F32  ? "f32"
                                                : "int8");
        if (!b_hush)
            printf("  %-24s %-20s %-12s %3d %8.2f us %9.2f %10.2f  %s\n", r->what, r->shape, r->target, r->threads,
                   s * 1e6, r->bytes / s * 1e-9, r->flops / s * 1e-9, of);
        if (b_tsv)
            fprintf(b_tsv, "%s\t%s\t%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%s\t%d\n", title, r->what, r->shape, r->target,
                    r->threads, s * 1e6, r->bytes / s * 1e-9, r->flops / s * 1e-9, of, n);
        if (b_md)
            fprintf(b_md, "| %s | %s | %s | %d | %.2f | %.2f | %.2f | %s |\n", r->what, r->shape, r->target, r->threads,
                    s * 1e6, r->bytes / s * 1e-9, r->flops / s * 1e-9, of);
    }
    fflush(stdout);
    free(t);
    free(calls);
    free(again);
}

void b_note(const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!b_hush) printf("  %s\n", text);
    if (b_md) fprintf(b_md, "\n%s\n", text);
}

void b_verdict(const char *what, double measured, const char *relation, double wanted)
{
    const int equal = relation[1] == '=' && measured == wanted;
    const int met = equal || (relation[0] == '>' ? measured > wanted : measured < wanted);
    b_note("%s: %.3g, goal %s %.3g: %s", what, measured, relation, wanted, met ? "met" : "NOT MET");
    if (b_tsv)
        fprintf(b_tsv, "verdict\t%s\t\t\t\t%.4g\t%s\t%.4g\t%s\t\n", what, measured, relation, wanted,
                met ? "met" : "not met");
}

typedef struct b_line { const char *page; char headline[200], measured[600], on[300]; int written; } b_line;
static b_line *b_lines;
static int b_n_lines, b_room_lines;

void b_headline(const char *page, const char *headline, const char *on, const char *format, ...)
{
    b_line *l;
    va_list args;
    if (b_n_lines == b_room_lines) {
        b_room_lines = b_room_lines ? 2 * b_room_lines : 64;
        b_lines = (b_line *)realloc(b_lines, (size_t)b_room_lines * sizeof *b_lines);
        if (!b_lines) { fprintf(stderr, "bench: no memory for %d headlines\n", b_room_lines); exit(1); }
    }
    /* --targets runs a section several times: its headlines are replaced */
    for (l = b_lines; l < b_lines + b_n_lines; l++)
        if (!strcmp(l->page, page) && !strcmp(l->headline, headline)) break;
    memset(l, 0, sizeof *l);
    l->page = page;
    (void)snprintf(l->headline, sizeof l->headline, "%s", headline);
    (void)snprintf(l->on, sizeof l->on, "%s", on);
    va_start(args, format);
    (void)vsnprintf(l->measured, sizeof l->measured, format, args);
    va_end(args);
    if (!*headline || !*l->on || !*l->measured || strchr(headline, '|') || strchr(l->on, '|') ||
        strchr(l->measured, '|')) {
        fprintf(stderr, "bench: a cell is empty, or has a bar in it: %s\n", headline);
        exit(1);
    }
    if (l == b_lines + b_n_lines) b_n_lines++;
    b_note("%s: %s", headline, l->measured);
}

/* A plain plot: frame, grid lines at powers, one polyline and one legend line a curve. */
void b_svg(const char *name, const char *title, const char *x_label, const char *y_label, const b_curve *curves,
           int n_curves)
{
    static const char *const color[] = { "#1b6ca8", "#d1495b", "#3b8f5a", "#8d5fb8", "#c98a1b", "#555555" };
    char path[128];
    double x0 = 1e300, x1 = -1e300, y1 = 0, v, step;
    FILE *f;
    int c, i;
    if (!b_keep) return;
    (void)snprintf(path, sizeof path, "docs/img/%s.svg", name);
    f = fopen(path, "w");
    if (!f) { b_note("%s could not be written", path); return; }
    for (c = 0; c < n_curves; c++)
        for (i = 0; i < curves[c].n; i++) {
            double lx = log2(curves[c].x[i]);
            if (lx < x0) x0 = lx;
            if (lx > x1) x1 = lx;
            if (curves[c].y[i] > y1) y1 = curves[c].y[i];
        }
    if (x1 <= x0) x1 = x0 + 1;
    y1 = y1 > 0 ? y1 * 1.08 : 1;
    step = pow(10.0, floor(log10(y1)));
    if (y1 / step < 3) step /= 5;
    else if (y1 / step < 6) step /= 2;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 420\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n");
    fprintf(f, "<text x=\"60\" y=\"24\" font-size=\"15\">%s</text>\n", title);
    for (v = 0; v <= y1; v += step) {
        double y = 370 - v / y1 * 320;
        fprintf(f,
                "<path d=\"M60 %.1fH520\" stroke=\"#ddd\"/><text x=\"54\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                y, y + 4, v);
    }
    for (i = (int)ceil(x0); i <= (int)floor(x1 + 1e-9); i++) {
        double x = 60 + (i - x0) / (x1 - x0) * 460;
        fprintf(f, "<path d=\"M%.1f 370v5\" stroke=\"#888\"/>", x);
        if ((i & 1) == 0 || x1 - x0 < 10)
            fprintf(f,
                    "<text x=\"%.1f\" y=\"388\" text-anchor=\"middle\">2<tspan dy=\"-5\" "
                    "font-size=\"9\">%d</tspan></text>\n",
                    x, i);
    }
    fprintf(f,
            "<path d=\"M60 50V370H520\" fill=\"none\" stroke=\"#333\"/>\n<text x=\"290\" y=\"408\" "
            "text-anchor=\"middle\">%s</text>\n<text transform=\"translate(16 210) rotate(-90)\" "
            "text-anchor=\"middle\">%s</text>\n",
            x_label, y_label);
    for (c = 0; c < n_curves; c++) {
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color[c % 6]);
        for (i = 0; i < curves[c].n; i++)
            fprintf(f, "%.1f,%.1f ", 60 + (log2(curves[c].x[i]) - x0) / (x1 - x0) * 460,
                    370 - curves[c].y[i] / y1 * 320);
        fprintf(f,
                "\"/>\n<path d=\"M540 %dh24\" stroke=\"%s\" stroke-width=\"2\"/><text x=\"570\" y=\"%d\">%s</text>\n",
                64 + 20 * c, color[c % 6], 68 + 20 * c, curves[c].name);
    }
    fprintf(f, "</svg>\n");
    (void)fclose(f);
    b_note("curve: docs/img/%s.svg", name);
}

/* ---- the program */

/* the system's name of its processor */
static const char *b_machine(void)
{
    static char line[200];
    FILE *f = fopen("/proc/cpuinfo", "r");
    const char *name = NULL;
    while (f && !name && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            line[strcspn(line, "\n")] = 0;
            name = strchr(line, ':') + 1;
            name += strspn(name, " ");
        }
    if (f) (void)fclose(f);
    return name ? name : "a processor without a name";
}

static void b_line_write(FILE *f, b_line *l)
{
    const time_t now = time(NULL);
    char day[16] = "";
    const struct tm *t = gmtime(&now);
    if (t) (void)strftime(day, sizeof day, "%Y-%m-%d", t);
    fprintf(f, "| %s | %s | %s; `build/bench%s`, %s, %s |\n", l->headline, l->measured, l->on,
            b_quick ? " --quick" : "", b_machine(), day);
    l->written = 1;
}

/* DIR/PAGE.md with the rows of this run between its two marks; written next to it and renamed */
static void b_page(const char *dir, const char *page)
{
    static const char first[] = "<!-- rows: make bench -->", last[] = "<!-- end of rows -->";
    char path[300], beside[320];
    char *text = NULL, *at, *end;
    size_t n = 0;
    int inside = 0, closed = 0, i, ok, rows = 0;
    FILE *f;
    for (i = 0; i < b_n_lines; i++) rows += !strcmp(b_lines[i].page, page);
    if (!rows) return;
    (void)snprintf(path, sizeof path, "%s/%s.md", dir, page);
    (void)snprintf(beside, sizeof beside, "%s.part", path);
    f = fopen(path, "rb");
    text = (char *)calloc(1, (size_t)1 << 20);
    if (f && text) n = fread(text, 1, ((size_t)1 << 20) - 1, f);
    if (f) (void)fclose(f);
    if (!n || n == ((size_t)1 << 20) - 1 || !strstr(text, first) || !strstr(text, last)) {
        printf("%s: no page with a place for headlines (%s ... %s)\n", path, first, last);
        free(text);
        return;
    }
    f = fopen(beside, "wb");
    for (at = text; f && *at; at = end) {
        end = strchr(at, '\n');
        end = end ? end + 1 : at + strlen(at);
        if (!closed && !strncmp(at, first, sizeof first - 1)) inside = 1;
        if (inside && !strncmp(at, last, sizeof last - 1)) {        /* rows that the page did not have */
            for (i = 0; i < b_n_lines; i++)
                if (!strcmp(b_lines[i].page, page) && !b_lines[i].written) b_line_write(f, &b_lines[i]);
            inside = 0;
            closed = 1;
        }
        for (i = 0; i < b_n_lines && inside; i++) {
            const size_t m = strlen(b_lines[i].headline);
            if (!strcmp(b_lines[i].page, page) && !strncmp(at, "| ", 2) && !strncmp(at + 2, b_lines[i].headline, m) &&
                !strncmp(at + 2 + m, " |", 2))
                break;
        }
        if (inside && i < b_n_lines) b_line_write(f, &b_lines[i]);
        else (void)fwrite(at, 1, (size_t)(end - at), f);
    }
    ok = f && closed && !ferror(f);
    if (f && fclose(f)) ok = 0;
    ok = ok && !rename(beside, path);
    if (!ok) (void)remove(beside);
    printf(ok ? "%s: %d headlines\n" : "%s could not be written: %d headlines are only printed\n", path, rows);
    free(text);
}

#define B_SECTIONS(S) \
    S(limits) S(door) S(elem) S(softmax) S(norm) S(matmul) S(matvec) S(matmul_i8) S(conv) S(layout) S(linalg) S(fft) \
    S(attention) S(twist) S(edges) S(graph) S(embed) S(gnn_train) S(a2q) S(harmonics) S(product) S(tdn) S(train) \
    S(token) S(format) S(repack) S(batch) S(gptq) S(smooth) S(rotate) S(slice) S(vptq) S(flashllm) S(bipolar) \
    S(sample) S(template) S(paged) S(latent) S(sparse) S(bitweight) S(tree) S(gla) S(vision) S(fusemax) S(ladder) \
    S(kvcodec) S(weave) S(neighbour) S(speculate) S(serve) S(collective) S(http) S(nets) S(spectral) S(search) \
    S(metaprune) S(snnet) S(oneway) S(slim) S(deeponet) S(nerf) S(potential) S(oneshot) S(sbp) S(distserve) S(rules) \
    S(onebyte) S(pipeline) S(moe_fold) S(zero) S(disk) S(tpi) S(noloco) S(energon)
#define B_DECLARE(name) void bench_##name(void);
B_SECTIONS(B_DECLARE)

static const b_section b_sections[] = {
#define B_ENTRY(name) { #name, bench_##name },
    B_SECTIONS(B_ENTRY)
};

/* Every section on every vector target, or on those of the list; the number of rows that the widest loses. At the end
 * sections with a slower row get more rounds, up to three times: load of other programs, which lasts for minutes, only
 * makes rows slower, and the best of more rounds has less of it. */
static int b_all_targets(const char *list, const char *only, int rounds)
{
    tiny_target targets[TINY_TARGET_COUNT];
    int n = 0, t, look, lost = 0, slow[sizeof b_sections / sizeof *b_sections] = {0};
    size_t i;
    for (t = TINY_TARGET_SCALAR; t < TINY_TARGET_COUNT; t++) {
        const char *name = tiny_target_name((tiny_target)t), *at = strstr(list, name);
        const size_t len = strlen(name);
        const int listed = at && (at == list || at[-1] == ',') && (!at[len] || at[len] == ',');
        if (*list ? !listed : t == TINY_TARGET_SCALAR) continue;
        if (tiny_target_runs_here((tiny_target)t)) targets[n++] = (tiny_target)t;
    }
    if (n < 2) { fprintf(stderr, "bench: --targets compares at least two targets of this machine\n"); return -1; }
    b_hush = 1;
    for (i = 0; i < sizeof b_sections / sizeof *b_sections; i++)
        if (!only || !strcmp(only, b_sections[i].name)) slow[i] = b_targets(&b_sections[i], targets, n, rounds);
    for (look = 0; look < 3 && rounds > 1; look++)
        for (i = 0; i < sizeof b_sections / sizeof *b_sections; i++) {
            if (!slow[i]) continue;
            printf("more rounds: ");
            slow[i] = b_targets(&b_sections[i], targets, n, rounds);
        }
    for (i = 0; i < sizeof b_sections / sizeof *b_sections; i++) lost += slow[i];
    if (rounds > 1) printf("%d rows are slower\n", lost);
    return lost;
}

int main(int argc, char **argv)
{
    const char *list = NULL;
    const char *only = NULL, *name = NULL, *pages = NULL;
    const double begun = b_now();
    int left = 0;
    char path[200];
    char report[256];
    tiny_ctx *ctx;
    size_t i, ran = 0;
    int a, keep = 1, rounds = 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 1 << 12);       /* a run that dies has printed all that it measured */
    for (a = 1; a < argc; a++) {
        if (!strcmp(argv[a], "--quick")) b_quick = 1;
        else if (!strcmp(argv[a], "--no-save")) keep = 0;
        else if (!strcmp(argv[a], "--check")) rounds = 1;
        else if (!strcmp(argv[a], "--targets")) list = a + 1 < argc && argv[a + 1][0] != '-' ? argv[++a] : "";
        else if (!strcmp(argv[a], "--only") && a + 1 < argc) only = argv[++a];
        else if (!strcmp(argv[a], "--keep") && a + 1 < argc) name = argv[++a];
        else if (!strcmp(argv[a], "--pages") && a + 1 < argc) pages = argv[++a];
        else if (!strcmp(argv[a], "--threads") && a + 1 < argc) b_threads = atoi(argv[++a]);
        else {
            printf("usage: build/bench [--quick] [--only SECTION] [--threads N] [--no-save | --keep NAME] [--pages "
                   "DIR]\n       build/bench --targets [LIST] [--only SECTION] [--threads N] [--check]\nsections:");
            for (i = 0; i < sizeof b_sections / sizeof *b_sections; i++) printf(" %s", b_sections[i].name);
            printf("\nA whole run writes docs/dev/bench.tsv, docs/dev/bench.md and docs/img/*.svg; a quick one, or one "
                   "of a "
                   "section, only with --keep NAME: docs/dev/NAME.*.\n"
                   "The papers' headlines go into the pages of docs/papers after a whole run, into those of DIR "
                   "with --pages DIR.\n"
                   "--targets measures every row on every vector target, or on those of LIST (scalar,avx2), and "
                   "fails where the\nwidest is slower by more than 5 %%. --check: one round, and no clock "
                   "decides.\n");
            return strcmp(argv[a], "--help") != 0;
        }
    }
    ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_threads = tiny_ctx_threads(ctx);
    (void)tiny_ctx_report(ctx, report, sizeof report);
    report[strcspn(report, "\n")] = 0;
    printf("%s%s\n", report, b_quick ? ", quick" : "");
    tiny_ctx_close(ctx);
    if (list) b_quick = 1, keep = 0;
    if (!name && !only && !b_quick) name = "bench";
    b_keep = keep && name;
    if (b_keep && !only && !b_quick && !pages) pages = "docs/papers";
    if (b_keep) {
        (void)snprintf(path, sizeof path, "docs/dev/%s.tsv", name);
        b_tsv = fopen(path, "w");
        (void)snprintf(path, sizeof path, "docs/dev/%s.md", name);
        b_md = fopen(path, "w");
        if (!b_tsv || !b_md) printf("docs/dev/%s.* cannot be written here: the table is only printed\n", name);
        if (b_tsv)
            fprintf(b_tsv, "contest\twhat\tshape\tby\tthreads\tmedian_us\tgb_per_s\tgop_per_s\tof_limit\trounds\n");
        if (b_md)
            fprintf(b_md,
                    "# Bench\n\nWritten by `make bench` on %s. %s. Medians of interleaved rounds; the limits were "
                    "measured in the same run.\n",
                    b_machine(), report);
    }
    b_limits_measure();
    if (list) {
        const int lost = b_all_targets(list, only, rounds);
        return lost < 0 || (lost > 0 && rounds > 1);
    }
    for (i = 0; i < sizeof b_sections / sizeof *b_sections; i++) {
        if (only && strcmp(only, b_sections[i].name) != 0) continue;
        /* a quick run must end within a minute; the base rows come first */
        if (!only && b_quick && b_now() - begun > 40.0) {
            printf("%s %s",
                   left++ ? "" : "\n40 seconds are over, skipped (--only NAME runs one):", b_sections[i].name);
            continue;
        }
        b_section_run(&b_sections[i]);
        ran++;
    }
    if (left) printf("\n");
    /* other load at the beginning would have improved every share of a limit */
    if (!only && !left) {
        b_limits_measure();
        b_note("Again, at the end of the run:");
        bench_limits();
    }
    if (b_tsv) (void)fclose(b_tsv);
    if (b_md) (void)fclose(b_md);
    if (pages) {
        for (a = 0; a < b_n_lines; a++) {
            int first = 0;
            while (strcmp(b_lines[first].page, b_lines[a].page) != 0) first++;
            if (first == a) b_page(pages, b_lines[a].page);
        }
    }
    if (!ran) printf("there is no section %s\n", only);
    return ran ? 0 : 1;
}
