/* examples/energon.c - many texts through one model on several ranks: a pipeline that does not wait to send
 *
 *     energon MODEL.gguf --ranks 3                          1 controller, 2 stages; texts of uneven lengths
 *     energon MODEL.gguf --ranks 5 --tensor 2 --tcp         2 stages of 2 ranks, processes over TCP
 *     energon MODEL.gguf --ranks 3 --svg who.svg            draws which stage computes which batch when
 *     energon MODEL.gguf --lines prompts.txt                the most likely next word of each line
 *
 * Ranks: 1 + stages x tensor. The model is a llama of any format; its weights become floats, cut over the ranks. */
#define TINYLLM_IMPLEMENTATION
#define TINYLLM_WITH_ENERGON
#define TINY_WITH_TCP
#include "tinyllm.h"
#define PROGRAM "energon"
#include "options.h"
#include "world.h"
#include <math.h>

static const char usage[] =
    "energon MODEL.gguf [options]   computes the next token of many texts on several ranks\n"
    "  --tensor N     ranks that share each layer; the ranks but one are cut into stages of N; default: 1\n"
    "  --texts N      texts, with tokens by chance; default: 64\n"
    "  --longest N    tokens of the longest text, 1 to 1024; lengths fall like 1/2, 1/4 ...; default: 96\n"
    "  --lines FILE   the texts are the lines of this file; prints the most likely next token of each\n"
    "  --batch N      texts of a batch, 1 to 64; default: 8\n"
    "  --rounds N     computes all texts so often; the median time counts; default: 1\n"
    "  --seed N       of the texts\n"
    "  --blocking     a rank that sends waits until the next stage takes the batch, to compare with\n"
    "  --padded       computes rows of padding too, to compare with\n"
    "  --by-length    texts of similar lengths form a batch\n"
    "  --depth N      batches that may wait in front of a stage, 1 to 16; default: 1\n"
    "  --pool N       every N-th layer of a stage is read from the file each time, ahead of its use\n"
    "  --svg FILE     draw which rank computes which batch when; ranks must be threads\n"
    "  --check        compute the texts again on one rank; end with status 1 if a bit of the results differs\n"
    WORLD_USAGE
    "The results have the same bits for any number of stages.\n";

enum { MOST = 4096, MARKS = 4000 };
#define LONGEST 1024
typedef struct mark { int rank; uint64_t number, from, to; } mark;

static world w = { 3, 0, 0, 0 };
static int tensor = 1, texts = 64, longest = 96, batch = 8, rounds = 1, depth = 1, pool;
static int blocking, padded, by_length, check;
static uint64_t seed = 1;
static const char *model_path, *lines, *svg;
static char *lines_text;

/* ---- the texts: the same on every rank that makes them ----------------------------------------------------------- */

typedef struct set { int32_t *token[MOST], length[MOST]; int n; tllm_vocab *vocab; } set;

static void set_close(tiny_ctx *ctx, set *s)
{
    int i;
    for (i = 0; i < s->n; i++) free(s->token[i]);
    tllm_vocab_close(ctx, s->vocab);
}
static void set_by_chance(set *s, int vocab)
{
    tiny_rng r = tiny_rng_make(seed, 5);
    int i, k;
    for (i = 0; i < texts; i++) {
        int n = longest;
        while (n > 1 && tiny_rng_below(&r, 2)) n = (n + 1) / 2;
        s->length[i] = n;
        s->token[i] = (int32_t *)need(malloc((size_t)n * sizeof(int32_t)));
        for (k = 0; k < n; k++) s->token[i][k] = (int32_t)tiny_rng_below(&r, (uint32_t)vocab);
    }
    s->n = texts;
}
static tiny_status set_of_lines(tiny_ctx *ctx, const tllm_gguf *file, set *s)
{
    const char *p = lines_text;
    tiny_status st = tllm_vocab_open(ctx, file, &s->vocab);
    while (!st && *p && s->n < MOST) {
        const size_t n = strcspn(p, "\r\n");
        tllm_tokens t;
        memset(&t, 0, sizeof t);
        if (n) {
            st = tllm_encode(ctx, s->vocab, p, n, TLLM_ENCODE_ENDS, &t);
            if (!st && t.n > 0) {
                const size_t keep = t.n < LONGEST ? t.n : LONGEST;
                s->token[s->n] = (int32_t *)need(malloc(keep * sizeof(int32_t)));
                memcpy(s->token[s->n], t.id + (t.n - keep), keep * sizeof(int32_t));
                s->length[s->n++] = (int32_t)keep;
            }
            tllm_tokens_free(ctx, &t);
        }
        p += n;
        p += *p != 0;
    }
    if (!st && !s->n) {
        fprintf(stderr, PROGRAM ": %s: there is no line with text\n", lines);
        st = TINY_E_FORMAT;
    }
    return st;
}
static tiny_status set_open(tiny_ctx *ctx, const tllm_gguf *file, int vocab, set *s)
{
    memset(s, 0, sizeof *s);
    if (lines) return set_of_lines(ctx, file, s);
    set_by_chance(s, vocab);
    return TINY_OK;
}

static double length_cost(void *user, int32_t length, tiny_idx n)       /* a padded batch, and what it costs to begin */
{
    (void)user;
    return 16.0 + (double)length * (double)n;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct shared { mark at[MARKS]; int n[WORLD_MOST]; } shared;    /* a list for each rank */
typedef struct worker { tllm_stage_net *net; int rank; shared *sh; } worker;

static tiny_status compute(void *user, tllm_energon_batch *b, const void *in, void *out)
{
    worker *k = (worker *)user;
    const uint64_t from = tiny_now_ns();
    tiny_status st = tllm_stage_net_run(k->net, b, in, out);
    if (k->sh && k->sh->n[k->rank] < MARKS / WORLD_MOST) {
        mark *m = &k->sh->at[k->rank * (MARKS / WORLD_MOST) + k->sh->n[k->rank]++];
        m->rank = k->rank;
        m->number = b->number;
        m->from = from;
        m->to = tiny_now_ns();
    }
    return st;
}

static tiny_status draw(tiny_ctx *ctx, const shared *sh, int ranks)
{
    static char text[MARKS * 200];
    static const char *const colour[6] = { "#27a", "#d73", "#3a6", "#a5a", "#ca2", "#699" };
    const size_t room = sizeof text;
    uint64_t first = UINT64_MAX, last = 0;
    size_t n = 0;
    int r, i;
    for (r = 1; r < ranks; r++)
        for (i = 0; i < sh->n[r]; i++) {
            const mark *m = &sh->at[r * (MARKS / WORLD_MOST) + i];
            if (m->from < first) first = m->from;
            if (m->to > last) last = m->to;
        }
    if (last <= first) return TINY_OK;
#define PUT(...) (n += (size_t)snprintf(n < room ? text + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 %d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"760\" height=\"%d\" fill=\"#fff\"/>\n"
        "<text x=\"60\" y=\"20\">which rank computes which batch, %.1f ms%s</text>\n", 60 + 34 * ranks,
        60 + 34 * ranks, 1e-6 * (double)(last - first), blocking ? ", blocking" : "");
    for (r = 1; r < ranks; r++) {
        PUT("<text x=\"4\" y=\"%d\">stage %d.%d</text>\n", 17 + 34 * r, (r - 1) / tensor, (r - 1) % tensor);
        for (i = 0; i < sh->n[r]; i++) {
            const mark *m = &sh->at[r * (MARKS / WORLD_MOST) + i];
            const double x = 60 + 690 * (double)(m->from - first) / (double)(last - first);
            const double wide = 690 * (double)(m->to - m->from) / (double)(last - first);
            PUT("<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"26\" fill=\"%s\"/>\n", x, 34 * r,
                wide > 0.3 ? wide : 0.3, colour[m->number % 6]);
        }
    }
    PUT("</svg>\n");
#undef PUT
    return n < room ? tiny_file_write(ctx, svg, text, n) : TINY_E_OVERFLOW;
}

/* the batches that the pipeline forms of texts in their order, on this rank alone */
static tiny_status alone(tiny_ctx *ctx, const tllm_gguf *file, const set *s, const float *got, size_t vocab)
{
    tllm_stage_net_desc d;
    tllm_stage_net *net = NULL;
    float *y = floats((tiny_idx)vocab * batch);
    int32_t *token = (int32_t *)need(malloc((size_t)batch * LONGEST * sizeof(int32_t)));
    int i = 0, k, differs = 0;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.file = file;
    d.parts = tensor;
    d.texts = batch;
    d.tokens = (tiny_idx)batch * (lines ? LONGEST : longest);
    d.form = padded ? TLLM_ROWS_PADDED : TLLM_ROWS_VALID;
    st = tllm_stage_net_open(ctx, &d, &net);
    while (i < s->n && !st) {
        tllm_energon_batch b;
        memset(&b, 0, sizeof b);
        b.length = s->length + i;
        for (; i + b.n < s->n && b.n < batch; b.n++) {
            const int32_t l = s->length[i + b.n];
            memcpy(token + b.valid, s->token[i + b.n], (size_t)l * sizeof *token);
            b.valid += l;
            if (l > b.most) b.most = l;
        }
        st = tllm_stage_net_run(net, &b, token, y);
        for (k = 0; k < (int)b.n && !st; k++)
            differs |= memcmp(y + (size_t)k * vocab, got + (size_t)(i + k) * vocab, vocab * sizeof *y);
        i += (int)b.n;
    }
    tllm_stage_net_close(net);
    free(token);
    free(y);
    if (!st) puts(differs ? "check: one rank alone gets other results" : "check: the same as on one rank, bit for bit");
    return st ? st : differs ? TINY_E_NUMERIC : TINY_OK;
}

static void next_words(const set *s, const float *got, size_t vocab)
{
    int i;
    size_t k;
    for (i = 0; i < s->n; i++) {
        char piece[64];
        size_t best = 0, n;
        for (k = 1; k < vocab; k++) if (got[(size_t)i * vocab + k] > got[(size_t)i * vocab + best]) best = k;
        n = tllm_piece(s->vocab, (int32_t)best, TLLM_DECODE_SPECIAL, piece, sizeof piece);
        printf("%4d tokens, next: %.*s\n", (int)s->length[i], (int)(n < sizeof piece ? n : sizeof piece), piece);
    }
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* rank 0 */
static tiny_status lead(tiny_ctx *ctx, tiny_net *net, const tllm_gguf *file, tllm_energon *e, size_t vocab, shared *sh)
{
    set s;
    double second[100];
    float *got;
    int round, i;
    int64_t rows = 0;
    uint64_t looked = tiny_now_ns();
    tllm_energon_counts c;
    tiny_status st = set_open(ctx, file, (int)vocab, &s);
    got = floats((tiny_idx)vocab * s.n);
    for (i = 0; i < s.n; i++) rows += s.length[i];
    for (round = 0; round < rounds && !st; round++) {
        const uint64_t from = tiny_now_ns();
        st = tllm_energon_hold(e, 1);
        for (i = 0; i < s.n && !st; i++) st = tllm_energon_submit(e, (uint64_t)i, s.token[i], s.length[i]);
        if (!st) st = tllm_energon_hold(e, 0);
        for (i = 0; i < s.n && !st; i++) {
            st = tllm_energon_wait(e, (uint64_t)i, got + (size_t)i * vocab);
#ifdef OPTIONS_UNIX
            if (tiny_now_ns() - looked > UINT64_C(2000000000) && isatty(2)) {
                fprintf(stderr, "round %d of %d, text %d of %d\r", round + 1, rounds, i + 1, s.n);
                looked = tiny_now_ns();
            }
#endif
        }
        second[round] = 1e-9 * (double)(tiny_now_ns() - from);
    }
    (void)looked;
    c = tllm_energon_count(e);
    if (!st) st = tllm_energon_stop(e);
    if (!st) {
        const double median = (qsort(second, (size_t)rounds, sizeof *second, by_time), second[rounds / 2]);
        printf("%d texts, %lld tokens, %llu batches: %d stages of %d, %s, %s: %.1f ms, %.0f tokens a second\n", s.n,
               (long long)rows, (unsigned long long)c.batches / (unsigned)rounds, (net->world - 1) / tensor, tensor,
               blocking ? "blocking" : "not blocking", padded ? "padded" : "no padding", 1e3 * median,
               (double)rows / median);
    }
    if (!st && lines) next_words(&s, got, vocab);
    if (!st && svg && sh) st = draw(ctx, sh, net->world);
    if (!st && check) st = alone(ctx, file, &s, got, vocab);
    free(got);
    set_close(ctx, &s);
    return st;
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    const int stages = (net->world - 1) / tensor;
    tllm_gguf *file = NULL;
    tllm_energon_desc d;
    tllm_stage_net_desc nd;
    tllm_energon *e = NULL;
    worker k;
    size_t row[WORLD_MOST + 1];
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&nd, 0, sizeof nd);
    memset(&k, 0, sizeof k);
    if (stages < 1 || stages > WORLD_MOST || (net->world - 1) % tensor) {
        if (!net->rank)
            fprintf(stderr, PROGRAM ": %d ranks are not a controller and stages of %d\n", net->world, tensor);
        return TINY_E_ARGUMENT;
    }
    st = tllm_file_open(ctx, model_path, &file);
    if (!st) st = tllm_stage_net_rows(ctx, file, stages, row, &d.print);
    nd.file = file;
    nd.stages = d.stages = stages;
    nd.tensor = d.tensor = tensor;
    nd.texts = d.texts = batch;
    nd.tokens = d.tokens = (tiny_idx)batch * (lines ? LONGEST : longest);
    nd.form = padded ? TLLM_ROWS_PADDED : TLLM_ROWS_VALID;
    nd.k = pool;
    if (net->rank) {
        nd.stage = (net->rank - 1) / tensor;
        nd.column = (net->rank - 1) % tensor;
        if (!st) st = tllm_stage_net_open(ctx, &nd, &k.net);
        k.rank = net->rank;
        k.sh = w.tcp ? NULL : (shared *)arg;
    }
    d.net = net;
    d.row = row;
    d.run = compute;
    d.user = &k;
    d.depth = depth;
    d.blocking = blocking;
    d.queue = MOST;
    d.timeout_ns = UINT64_C(60000000000);
    if (by_length) d.cost = length_cost;
    if (!st) st = tllm_energon_open(ctx, &d, &e);
    if (!st && net->rank) st = tllm_stage_net_join(k.net, tllm_energon_group(e));
    if (!st && net->rank) st = tllm_energon_follow(e);
    else if (!st) st = lead(ctx, net, file, e, row[stages] / sizeof(float), (shared *)arg);
    tllm_energon_close(e);
    tllm_stage_net_close(k.net);
    tllm_gguf_close(ctx, file);
    return st;
}

int main(int argc, char **argv)
{
    const option options[] = { THE_WORD("model", &model_path),
                               A_WHOLE("--tensor", &tensor, 1, 8),
                               A_WHOLE("--texts", &texts, 1, MOST),
                               A_WHOLE("--longest", &longest, 1, LONGEST),
                               A_TEXT("--lines", &lines),
                               A_WHOLE("--batch", &batch, 1, 64),
                               A_WHOLE("--rounds", &rounds, 1, 100),
                               A_SEED("--seed", &seed),
                               A_FLAG("--blocking", &blocking),
                               A_FLAG("--padded", &padded),
                               A_FLAG("--by-length", &by_length),
                               A_WHOLE("--depth", &depth, 1, 16),
                               A_WHOLE("--pool", &pool, 1, 4096),
                               A_TEXT("--svg", &svg),
                               A_FLAG("--check", &check),
                               WORLD_OPTIONS(w) };
    static shared sh;
    int bad;
    size_t n = 0;
    READ_OPTIONS(argc, argv, usage, options);
    if (by_length && check) return wrong("--check", "not together with --by-length, whose batches depend on the time");
#ifdef WORLD_MPI
    if (svg) return wrong("--svg", "the ranks of mpirun share no clock");
#else
    if (svg && w.tcp) return wrong("--svg", "not together with --tcp: the ranks share no clock");
    if ((w.ranks - 1) % tensor || w.ranks < 2)
        return refused("--ranks %d: a controller and stages of %d ranks are needed", w.ranks, tensor);
#endif
    if ((bad = must_not_write(svg, 2, model_path, lines))) return bad;
    if (lines) {
        lines_text = read_text(lines, (size_t)1 << 24, 0, &n);
        if (!lines_text) return 1;
    }
    bad = world_run(&w, body, &sh);
    free(lines_text);
    return exit_status(bad);
}
