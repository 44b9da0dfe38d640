/* examples/moe_fold.c - a layer of experts over several ranks: where its tokens go, and what the exchange costs
 *
 *     moe_fold --ranks 4 --check
 *     moe_fold MODEL.gguf --ranks 4 --prompt TEXT --check
 *     moe_fold --ranks 8 --tp 2 --cp 2 --etp 2 --ep 4 --skew 1.2 --svg rows.svg
 *     moe_fold --links                                  exchange time with expert groups on fast and on slow links
 *
 * The layer and the tokens are drawn from the seed, so every rank makes its own part. Of a model, each rank reads its
 * experts of every mixture layer, and what the layer gets for its tokens in the model. Each rank computes the output of
 * its own tokens with the experts of all. The table counts rows; --check compares with the layer on one rank. */
#define TINYLLM_WITH_MOEFOLD
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_WITH_CALIB                  /* the watch over a model */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "moe_fold"
#include "options.h"
#include "svg.h"
#include "world.h"
#include <math.h>

static const char usage[] =
    "moe_fold [MODEL.gguf] [options]   runs layers of experts on several ranks and prints where their tokens go\n"
    "Of a model, its mixture layers, on what they get while the model reads a text. Without one, a layer is drawn.\n"
    "  --prompt TEXT  with a model: what it reads, at most 512 tokens; default: tokens drawn from the seed\n"
    WORLD_USAGE
    "  --tp N         ranks that share heads; default: 1\n"
    "  --cp N         ranks that share a sequence; default: 1\n"
    "  --pp N         stages of layers, each with a copy of this layer; default: 1. dp is what is left\n"
    "  --etp N        ranks that share an expert; default: 1\n"
    "  --ep N         ranks that hold different experts; default: as many as possible\n"
    "  --across       expert groups across the data parallel ranks, as without folding\n"
    "  --experts N    default: 16\n"
    "  --top K        experts of a token; default: 2\n"
    "  --width N      numbers of a token; default: 128\n"
    "  --hidden N     hidden numbers of an expert; default: 256\n"
    "  --tokens N     tokens of each rank; default: 256, with a model 32\n"
    "  --skew S       how unevenly experts are wanted, an exponent; default: 0.6\n"
    "  --drop HOW     dropless (default), probs (keep the most probable tokens) or position (keep the first)\n"
    "  --factor X     capacity of an expert in shares of an even load; default: 1\n"
    "  --pad          with --drop: every expert computes exactly its capacity from each rank\n"
    "  --whole        with --drop: capacities count over the ranks tp x cp together\n"
    "  --half         rows travel as 16-bit floats\n"
    "  --rounds N     times the layer runs; default: 5\n"
    "  --seed N       of the layer and the tokens; default: 1\n"
    "  --check        compare with the layer on one rank; the exit status is 1 if it differs\n"
    "  --svg FILE     draw the rows of each expert\n"
    "  --links        16 ranks on a virtual clock, fast links in groups: time of the exchange for every ep\n"
    "  --fast N       with --links: ranks of a fast group; default: 4\n"
    "  --ratio X      with --links: how many times slower the other links are; default: 10\n";

typedef struct job {
    int tp, cp, pp, etp, ep, across, experts, top, width, hidden, tokens, pad, whole, half, rounds, check, drop;
    double skew, factor;
    uint64_t seed;
    const char *svg, *model, *prompt;
    int wrong;                              /* rank 0 sets it */
} job;

/* ---- the layer and the tokens: number i of stream s of the seed, the same on every rank */

static void draw(const job *j, uint64_t stream, float *x, size_t n, float scale)
{
    tiny_rng rng = tiny_rng_make(j->seed, stream);
    size_t i;
    tiny_rng_fill_normal(&rng, x, n);
    for (i = 0; i < n; i++) x[i] *= scale;
}

/* experts first to first + own, hidden numbers h0 to h0 + hidden of each */
static tllm_moe_weights make_layer(const job *j, tiny_idx first, tiny_idx own, tiny_idx h0, tiny_idx hidden,
                                   float **all)
{
    const tiny_idx w = j->width, h = j->hidden, part = own * w * hidden;
    tllm_moe_weights l;
    tiny_idx e, i, k;
    int m;
    float *to = floats(w * j->experts + 3 * part), *one = floats(w * h);
    *all = to;
    draw(j, 1, to, (size_t)(w * j->experts), 1.5f / sqrtf((float)w));
    /* the first number of every token is 1: its row of the router is how much each expert is wanted */
    for (e = 0; e < j->experts; e++) to[e] = (float)(-j->skew * log((double)(e + 1)));
    l.router = to;
    l.gate = to + w * j->experts;
    l.up = l.gate + part;
    l.down = l.up + part;
    for (e = 0; e < own; e++)
        for (m = 0; m < 3; m++) {
            float *at = to + w * j->experts + m * part + e * w * hidden;
            draw(j, 100 + 3 * (uint64_t)(first + e) + (uint64_t)m, one, (size_t)(w * h),
                 1.0f / sqrtf((float)(m < 2 ? w : h)));
            if (m < 2) for (i = 0; i < w; i++) for (k = 0; k < hidden; k++) at[i * hidden + k] = one[i * h + h0 + k];
            else memcpy(at, one + h0 * w, (size_t)(hidden * w) * sizeof *at);
        }
    free(one);
    return l;
}
static void make_tokens(const job *j, int rank, float *x)
{
    tiny_idx t;
    draw(j, 1000000 + (uint64_t)rank, x, (size_t)(j->tokens * j->width), 1.0f);
    for (t = 0; t < j->tokens; t++) x[t * j->width] = 1.0f;
}

static tllm_moe_desc describe(const job *j)
{
    tllm_moe_desc d;
    memset(&d, 0, sizeof d);
    d.n_expert = j->experts;
    d.k = j->top;
    d.width = j->width;
    d.hidden = j->hidden;
    d.drop = j->drop;
    d.factor = j->factor;
    d.pad = j->pad;
    d.whole_sequence = j->whole;
    d.half = j->half;
    d.timeout_ns = UINT64_C(120000000000);
    return d;
}

/* the grids: dp is what is left, ep as many as possible */
static tllm_folding fold(const job *j, int ranks)
{
    const int stage = ranks / (j->pp > 0 ? j->pp : 1);
    tllm_folding f;
    memset(&f, 0, sizeof f);
    f.tp = j->tp;
    f.cp = j->cp;
    f.pp = j->pp;
    f.dp = stage / (j->tp * j->cp) > 0 ? stage / (j->tp * j->cp) : 1;
    f.etp = j->etp;
    f.across = j->across;
    for (f.ep = j->ep ? j->ep : stage / j->etp > 0 ? stage / j->etp : 1;
         !j->ep && f.ep > 1 && (j->experts % f.ep || stage % (f.ep * j->etp));) f.ep--;
    return f;
}

/* The layer on one rank, over all rows of x. y: the results of `tokens` of them from row `first`. Numbers of y that
 * differ. layer: of the file; NULL: w has all experts. */
static tiny_status compare(tiny_ctx *ctx, const job *j, const tllm_moe_desc *desc, int etp, const tllm_moe_weights *w,
                           const tllm_gguf *file, int layer, const float *x, tiny_idx rows, tiny_idx first,
                           const float *y, tiny_idx tokens, int64_t *wrong)
{
    tllm_moe_desc d = *desc;
    tllm_moe_weights all;
    tllm_moe *moe = NULL;
    float *want = floats(rows * d.width);
    tiny_idx k;
    tiny_status st;
    d.net = NULL;
    d.folding = NULL;
    st = tllm_moe_open(ctx, &d, &moe);
    if (w) all = *w;
    else if (!st) st = tllm_moe_read(moe, file, layer, &all);
    if (!st) st = tllm_moe_layer(moe, &all, x, rows, want);
    for (k = 0; k < tokens * d.width && !st; k++) {
        const double v = (double)want[first * d.width + k],
                     bound = etp < 2 ? 0 : (j->half ? 1e-2 : 1e-5) * (1 + fabs(v));
        *wrong += !(fabs((double)y[k] - v) <= bound);
    }
    tllm_moe_close(moe);
    free(want);
    return st;
}

/* The same for tokens that were drawn: those of this rank, or of its sequence with --whole. */
static tiny_status compare_drawn(tiny_ctx *ctx, const job *j, const tllm_folding *f, int ranks, int rank,
                                 const float *y, int64_t *wrong)
{
    int member[TINY_NET_RANKS], n = tllm_folding_group(f, ranks, TLLM_FOLD_SEQUENCE, rank, member), i, mine = 0;
    const tiny_idx each = (tiny_idx)j->tokens * j->width;
    const tllm_moe_desc d = describe(j);
    tllm_moe_weights w;
    float *all, *x;
    tiny_status st;
    if (!j->whole) member[n = 0] = rank, n = 1;
    x = floats(n * each);
    for (i = 0; i < n; i++) {
        make_tokens(j, member[i], x + i * each);
        if (member[i] == rank) mine = i;
    }
    w = make_layer(j, 0, j->experts, 0, j->hidden, &all);
    st = compare(ctx, j, &d, f->etp, &w, NULL, 0, x, (tiny_idx)n * j->tokens, (tiny_idx)mine * j->tokens, y, j->tokens,
                 wrong);
    free(all);
    free(x);
    return st;
}

/* ---- what came out, on rank 0 */

static tiny_status draw_rows(tiny_ctx *ctx, const job *j, const int64_t *pairs, const int64_t *kept, int64_t even)
{
    const double wide = 640.0 / j->experts;
    int64_t most = even > 1 ? even : 1;
    svg s = { NULL, 0, 0 };
    int e;
    for (e = 0; e < j->experts; e++) if (pairs[e] > most) most = pairs[e];
    svg_begin(&s, 720, 320);
    svg_put(&s, "<text x=\"60\" y=\"20\">rows of each expert over all ranks: <tspan fill=\"#27a\">kept</tspan> and "
                "<tspan fill=\"#d73\">dropped</tspan>; the line is an even share</text>\n");
    for (e = 0; e < j->experts; e++) {
        const double all = 250.0 * (double)pairs[e] / (double)most, k = 250.0 * (double)kept[e] / (double)most,
                     x = 60 + wide * e;
        svg_put(&s, "<path fill=\"#27a\" d=\"M%.1f 285v%.1fh%.1fv%.1fz\"/>", x, -k, wide * 0.8, k);
        if (all > k)
            svg_put(&s, "<path fill=\"#d73\" d=\"M%.1f %.1fv%.1fh%.1fv%.1fz\"/>", x, 285 - k, k - all, wide * 0.8,
                    all - k);
        if (j->experts <= 32 || e % 8 == 0)
            svg_put(&s, "<text x=\"%.1f\" y=\"302\" text-anchor=\"middle\">%d</text>\n", x + wide * 0.4, e);
    }
    svg_put(&s, "<path d=\"M60 %.1fh640\" stroke=\"#333\" stroke-dasharray=\"4\"/><text x=\"54\" y=\"40\" "
                "text-anchor=\"end\">%.0f</text>\n<text x=\"54\" y=\"289\" text-anchor=\"end\">0</text>\n",
            285 - 250.0 * (double)even / (double)most, (double)most);
    return svg_end(ctx, &s, j->svg);
}

static void show_grids(const tllm_folding *f, int ranks)
{
    printf("attention tp %d x cp %d x dp %d, experts etp %d x ep %d x edp %d, stages %d%s\n", f->tp, f->cp, f->dp,
           f->etp, f->ep, ranks / (f->etp * f->ep * f->pp), f->pp, f->across ? ", expert groups across dp" : "");
}

enum { OWN, SENT, ROWS, KEPT, BYTES, WRONG, MICRO, STATS };
static tiny_status report(tiny_ctx *ctx, job *j, const tllm_folding *f, int ranks, const int64_t *stats,
                          const int64_t *pairs, const int64_t *kept)
{
    int64_t rows = 0, real = 0, all = 0, most = 0, wrong = 0;
    int r, e;
    show_grids(f, ranks);
    printf("rank  experts      tokens  pairs kept  rows sent  rows computed  KB received  ms a layer\n");
    for (r = 0; r < ranks; r++) {
        const int64_t *s = stats + r * STATS;
        printf("%4d  %3d to %3d %8d %11d %10d %14d %12.1f %11.2f\n", r, (int)s[OWN],
               (int)s[OWN] + j->experts / f->ep - 1, j->tokens, (int)s[KEPT], (int)s[SENT], (int)s[ROWS],
               1e-3 * (double)s[BYTES], 1e-3 * (double)s[MICRO]);
        rows += s[ROWS];
        wrong += s[WRONG];
    }
    for (e = 0; e < j->experts; e++) {
        all += pairs[e];
        real += kept[e];
        if (pairs[e] > most) most = pairs[e];
    }
    printf("pairs of tokens and experts: %.0f, kept %.0f (%.1f %%); ", (double)all, (double)real,
           all ? 100.0 * (double)real / (double)all : 100.0);
    printf("rows computed for each kept pair: %.2f\n", real ? (double)rows / f->etp / (double)real : 0.0);
    printf("the expert that is wanted most: %.2f times an even share\n",
           all ? (double)most * j->experts / (double)all : 0.0);
    if (j->check && wrong) printf("check: %.0f numbers differ from the layer on one rank\n", (double)wrong);
    else if (j->check) puts("check: the same as on one rank");
    j->wrong = wrong != 0;
    return j->svg ? draw_rows(ctx, j, pairs, kept, all / j->experts) : TINY_OK;
}

/* ---- one rank */

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    job *j = (job *)arg;
    const int ranks = net->world;
    tllm_folding f;
    tllm_moe_desc d = describe(j);
    tllm_moe *moe = NULL;
    tllm_moe_weights w;
    tllm_moe_plan p;
    tiny_coll c;
    tiny_idx first, own, h0, hidden, k;
    int64_t *count = (int64_t *)need(calloc((size_t)(2 * j->experts), sizeof(int64_t)));
    int64_t *stats = (int64_t *)need(calloc((size_t)ranks * STATS, sizeof(int64_t))), *mine = stats + net->rank * STATS;
    int64_t *room = (int64_t *)need(calloc((size_t)(2 * j->experts), sizeof(int64_t)));
    float *x = floats((tiny_idx)j->tokens * j->width), *y = floats((tiny_idx)j->tokens * j->width), *all = NULL;
    uint64_t start;
    int i;
    tiny_status st;
    f = fold(j, ranks);
    memset(&c, 0, sizeof c);
    d.net = c.net = net;
    d.folding = &f;
    st = tllm_moe_open(ctx, &d, &moe);
    if (!st) {
        own = tllm_moe_own(moe, &first);
        hidden = tllm_moe_hidden(moe, &h0);
        w = make_layer(j, first, own, h0, hidden, &all);
        make_tokens(j, net->rank, x);
        st = tllm_moe_layer(moe, &w, x, j->tokens, y);      /* the first one also finds its memory */
        mine[OWN] = first;
    }
    for (i = 0; i < ranks; i++) mine[BYTES] -= (int64_t)net->count[i].bytes_received;
    start = tiny_now_ns();
    for (i = 0; i < j->rounds && !st; i++) {
        if (!net->rank) show_progress(NULL, "layers", (double)i / j->rounds);
        st = tllm_moe_layer(moe, &w, x, j->tokens, y);
    }
    if (!net->rank) end_progress();
    mine[MICRO] = (int64_t)(tiny_now_ns() - start) / 1000 / j->rounds;
    for (i = 0; i < ranks; i++) mine[BYTES] += (int64_t)net->count[i].bytes_received;
    mine[BYTES] /= j->rounds;
    p = tllm_moe_plan_of(moe);
    mine[SENT] = p.rows_sent;
    mine[ROWS] = p.rows;
    mine[KEPT] = p.kept;
    for (k = 0; k < p.pairs && !st; k++) {
        count[p.expert[k]]++;
        count[j->experts + p.expert[k]] += p.keep[k];
    }
    if (!st && j->check) st = compare_drawn(ctx, j, &f, ranks, net->rank, y, &mine[WRONG]);
    c.type = TINY_COLL_I64;
    c.work = room;
    c.n_work = (size_t)(2 * j->experts) * sizeof(int64_t);
    c.until = tiny_now_ns() + UINT64_C(120000000000);
    if (!st) st = tiny_coll_allgather(ctx, &c, TINY_COLL_RING, stats, STATS);
    if (!st) st = tiny_coll_reduce(ctx, &c, count, (size_t)(2 * j->experts), 0);
    if (!st && !net->rank) st = report(ctx, j, &f, ranks, stats, count, count + j->experts);
    tllm_moe_close(moe);
    free(count);
    free(stats);
    free(room);
    free(x);
    free(y);
    free(all);
    return st;
}

/* ---- a model: what its mixture layers get, seen by a watch over its forward */

typedef struct heard { tllm_gguf *file; tllm_watch *watch; int layers, tokens; } heard;

static const tllm_gguf_tensor *router(const tllm_gguf *g, int layer)
{
    char name[60];
    (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
    return tllm_gguf_tensor_find(g, name);
}

/* token: those of the prompt, or drawn ones */
static tiny_status make_text(tiny_ctx *ctx, const job *j, const tllm_gguf *file, int ranks, tiny_idx n_vocab,
                             int32_t *token, int *n)
{
    tiny_rng rng = tiny_rng_make(j->seed, 2000000);
    tllm_vocab *v = NULL;
    tllm_tokens t;
    tiny_status st;
    int i;
    memset(&t, 0, sizeof t);
    if (!j->prompt) {
        *n = j->tokens * ranks;
        for (i = 0; i < *n && i < TLLM_CALIB_MOST_SAMPLES; i++)
            token[i] = (int32_t)tiny_rng_below(&rng, (uint32_t)n_vocab);
        return TINY_OK;
    }
    st = tllm_vocab_open(ctx, file, &v);
    if (!st) st = tllm_encode(ctx, v, j->prompt, strlen(j->prompt), TLLM_ENCODE_ENDS, &t);
    *n = t.n > TLLM_CALIB_MOST_SAMPLES ? TLLM_CALIB_MOST_SAMPLES + 1 : (int)t.n;
    for (i = 0; i < *n && i < TLLM_CALIB_MOST_SAMPLES && !st; i++) token[i] = (int32_t)t.id[i];
    tllm_tokens_free(ctx, &t);
    tllm_vocab_close(ctx, v);
    return st;
}

static tiny_status listen_to(tiny_ctx *ctx, const job *j, int ranks, int rank, heard *h)
{
    static const char *const never[] = { "the text has no tokens", "the model would read more than 512 tokens" };
    tiny_ctx_desc cd;
    tllm_state_desc sd;
    tllm_moe_desc none;
    tllm_about about;
    tiny_ctx *run = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    int32_t token[TLLM_CALIB_MOST_SAMPLES];
    float *logits = NULL;
    int i, routers = 0;
    tiny_status st;
    memset(h, 0, sizeof *h);
    memset(&cd, 0, sizeof cd);
    memset(&sd, 0, sizeof sd);
    memset(&none, 0, sizeof none);
    st = tllm_gguf_open(ctx, j->model, &h->file);
    if (!st) st = tllm_watch_open(ctx, h->file, &h->watch);
    if (st) return st;
    cd.n_threads = 1;
    cd.accel = tllm_watch_hook(h->watch);
    cd.log = hear;
    cd.user = &run;
    if (tiny_ctx_open(&cd, &run)) return TINY_E_MEMORY;
    st = tllm_model_open(run, h->file, &model);
    if (!st) {
        tllm_model_about(model, &about);
        h->layers = (int)about.n_layer;
        for (i = 0; i < h->layers && !st; i++)
            if (router(h->file, i)) {
                routers++;
                st = tllm_watch_pick(h->watch, router(h->file, i), TLLM_CALIB_SAMPLES);
            }
        if (!st && !routers) st = tllm_moe_describe(ctx, h->file, 0, &none);        /* says why */
        if (!st) st = make_text(ctx, j, h->file, ranks, about.n_vocab, token, &h->tokens);
        if (!st && (h->tokens < 1 || h->tokens > TLLM_CALIB_MOST_SAMPLES)) {
            if (!rank) say(never[h->tokens > 0]);
            st = TINY_E_ARGUMENT;
        }
        sd.n_ctx = sd.n_batch = h->tokens;
        logits = floats(about.n_out);
        if (!st) st = tllm_state_open(run, model, &sd, &state);
        if (!st) st = tllm_forward(state, token, h->tokens, 0, 1, logits);
        if (!st) st = tllm_watch_status(h->watch);
    }
    if (st && !rank && *tiny_ctx_message(run)) say(tiny_ctx_message(run));
    free(logits);
    tllm_state_close(run, state);
    tllm_model_close(run, model);
    tiny_ctx_close(run);
    return st;
}

static tiny_status model_body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    job *j = (job *)arg, mine = *j;
    const int ranks = net->world, rank = net->rank;
    tllm_folding f;
    tllm_moe_desc d;
    tllm_moe_weights w;
    tiny_coll c;
    heard h;
    int64_t wrong_ones = 0;
    int layer, shown = 0;
    tiny_status st = listen_to(ctx, j, ranks, rank, &h);
    memset(&c, 0, sizeof c);
    c.net = net;
    c.type = TINY_COLL_I64;
    for (layer = 0; layer < h.layers && !st; layer++) {
        const tllm_calib *seen = router(h.file, layer) ? tllm_watch_of(h.watch, router(h.file, layer), 0) : NULL;
        const float *x = NULL;
        int member[TINY_NET_RANKS], from, to;
        int64_t *count, *room, pairs = 0, kept = 0, most = 0;
        tllm_moe *moe = NULL;
        tllm_moe_plan p;
        tiny_idx k;
        float *y;
        if (!seen) continue;
        if (tllm_calib_samples(seen, &x) != h.tokens) {
            if (!rank) say("the router of a layer does not read one row for each token");
            st = TINY_E_UNSUPPORTED;
            break;
        }
        d = describe(&mine);
        st = tllm_moe_describe(ctx, h.file, layer, &d);
        if (st) break;
        mine.experts = (int)d.n_expert;
        f = fold(&mine, ranks);
        d.net = net;
        d.folding = &f;
        st = tllm_moe_open(ctx, &d, &moe);
        if (!st) st = tllm_moe_read(moe, h.file, layer, &w);
        from = h.tokens * rank / ranks;
        to = h.tokens * (rank + 1) / ranks;
        y = floats((tiny_idx)(to - from) * d.width);
        if (!st) st = tllm_moe_layer(moe, &w, x + from * d.width, to - from, y);
        p = tllm_moe_plan_of(moe);
        count = (int64_t *)need(calloc((size_t)(2 * d.n_expert + 2), sizeof *count));
        room = (int64_t *)need(calloc((size_t)(2 * d.n_expert + 2), sizeof *room));
        for (k = 0; k < p.pairs && !st; k++) {
            count[p.expert[k]]++;
            count[d.n_expert + p.expert[k]] += p.keep[k];
        }
        count[2 * d.n_expert] = (int64_t)p.rows;
        if (!st && j->check) {              /* the ranks of a sequence are neighbours */
            const int n = j->whole ? tllm_folding_group(&f, ranks, TLLM_FOLD_SEQUENCE, rank, member) : 0;
            const tiny_idx begin = n ? h.tokens * member[0] / ranks : from,
                           end = n ? h.tokens * (member[n - 1] + 1) / ranks : to;
            st = compare(ctx, j, &d, f.etp, NULL, h.file, layer, x + begin * d.width, end - begin, from - begin, y,
                         to - from, &count[2 * d.n_expert + 1]);
        }
        c.work = room;
        c.n_work = (size_t)(2 * d.n_expert + 2) * sizeof *room;
        c.until = tiny_now_ns() + UINT64_C(120000000000);
        if (!st) st = tiny_coll_reduce(ctx, &c, count, (size_t)(2 * d.n_expert + 2), 0);
        for (k = 0; k < d.n_expert; k++) {
            pairs += count[k];
            kept += count[d.n_expert + k];
            if (count[k] > most) most = count[k];
        }
        if (!st && !rank) {
            if (!shown++) {
                show_grids(&f, ranks);
                printf("%d tokens, %d of %d experts for each\n"
                       "layer  pairs kept  wanted most / even share  rows computed for each kept\n",
                       h.tokens, (int)d.k, (int)d.n_expert);
            }
            printf("%5d %9.1f %% %24.2f %27.2f\n", layer, pairs ? 100.0 * (double)kept / (double)pairs : 100.0,
                   pairs ? (double)most * (double)d.n_expert / (double)pairs : 0.0,
                   kept ? (double)count[2 * d.n_expert] / f.etp / (double)kept : 0.0);
            wrong_ones += count[2 * d.n_expert + 1];
        }
        tllm_moe_close(moe);
        free(y);
        free(count);
        free(room);
    }
    if (!st && !rank && j->check) {
        if (wrong_ones) printf("check: %.0f numbers differ from the layers on one rank\n", (double)wrong_ones);
        else puts("check: the same as on one rank");
        j->wrong = wrong_ones != 0;
    }
    tllm_watch_close(h.watch);
    tllm_gguf_close(ctx, h.file);
    return st;
}

/* ---- exchange times on a virtual clock, with links of two classes */

enum { SIM = 16 };
typedef struct sim {
    const job *j;
    tiny_local *local;
    tllm_folding f;
    int fast;
    double ratio, mbit, ms;
    uint64_t there[SIM], back[SIM], slow[SIM];
    tiny_status st[SIM];
    char says[SIM][200];
} sim;

static void sim_rank(tiny_team *team, void *arg)
{
    sim *s = (sim *)arg;
    const job *j = s->j;
    const int rank = team->i;
    const float *rows;
    const tiny_idx *count;
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tllm_levels_desc l;
    tllm_levels *levels = NULL;
    tllm_moe_desc d = describe(j);
    tllm_moe *moe = NULL;
    tiny_rng rng = tiny_rng_make(j->seed, (uint64_t)rank);
    float *logits, *x;
    tiny_idx t, e;
    tiny_status st;
    if (team->n != SIM) return;
    logits = floats((tiny_idx)j->tokens * j->experts);
    x = floats((tiny_idx)j->tokens * j->width);
    for (t = 0; t < j->tokens; t++)
        for (e = 0; e < j->experts; e++)
            logits[t * j->experts + e] = tiny_rng_normal(&rng) - (float)(j->skew * log((double)(e + 1)));
    memset(&cd, 0, sizeof cd);
    memset(&l, 0, sizeof l);
    cd.n_threads = 1;
    l.net = tiny_local_net(s->local, rank);
    l.n_level = 2;
    l.level[0].ranks = s->fast;
    l.level[0].bits_per_second = 1e6 * s->mbit;
    l.level[1].ranks = SIM;
    l.level[1].bits_per_second = 1e6 * s->mbit / s->ratio;
    l.level[0].latency_ns = l.level[1].latency_ns = (uint64_t)(1e6 * s->ms);
    st = tiny_ctx_open(&cd, &ctx);
    if (!st) st = tllm_levels_open(ctx, &l, &levels);
    d.net = tllm_levels_net(levels);
    d.folding = &s->f;
    if (!st) st = tllm_moe_open(ctx, &d, &moe);
    if (!st) st = tllm_moe_route(moe, logits, j->tokens);
    if (!st) st = tllm_moe_dispatch(moe, x, &rows, &count);
    s->there[rank] = tllm_moe_clock(moe, 0);
    if (!st) st = tllm_moe_combine(moe, rows, x);
    s->back[rank] = tllm_moe_clock(moe, 0);
    s->slow[rank] = tllm_levels_received(levels, 1);
    s->st[rank] = st;
    if (ctx) (void)snprintf(s->says[rank], sizeof s->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_moe_close(moe);
    if (d.net) d.net->close(d.net);
    tllm_levels_close(ctx, levels);
    tiny_ctx_close(ctx);
    free(logits);
    free(x);
}

static int links(const job *j, double mbit, double ms, int fast, double ratio)
{
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tiny_local_desc d;
    int ep, across, r, bad = 0;
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.n_threads = SIM;
    cd.log = hear;
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    d.world = SIM;
    d.queue_bytes = 65536;
    d.virtual_clock = 1;
    printf(
        "%d ranks, %d tokens of %d numbers each, %d of %d experts, links of %g Mbit/s in groups of %d, %g times slower "
        "between them\n ep  groups     dispatch ms  combine ms  KB over slow links  across / folded\n",
        SIM, j->tokens, j->width, j->top, j->experts, mbit, fast, ratio);
    for (ep = 2; ep <= SIM && !bad; ep *= 2) {
        double folded = 0;
        for (across = 0; across < 2 && !bad; across++) {
            sim s;
            uint64_t there = 0, back = 0, slow = 0;
            memset(&s, 0, sizeof s);
            if (j->experts % ep) continue;
            s.j = j;
            s.fast = fast;
            s.ratio = ratio;
            s.mbit = mbit;
            s.ms = ms;
            s.f.tp = 4;
            s.f.dp = SIM / 4;
            s.f.ep = ep;
            s.f.across = across;
            bad = tiny_local_open(ctx, &d, &s.local) || tiny_parallel(ctx, SIM, 0, 0, sim_rank, &s);
            for (r = 0; r < SIM && !bad; r++) {
                if (s.st[r]) say(s.says[r]);
                bad |= s.st[r] != TINY_OK;
                if (s.there[r] > there) there = s.there[r];
                if (s.back[r] > back) back = s.back[r];
                slow += s.slow[r];
            }
            tiny_local_close(ctx, s.local);
            if (bad) break;
            printf("%3d  %-9s %12.3f %11.3f %19.0f", ep, across ? "across" : "folded", 1e-6 * (double)there,
                   1e-6 * (double)(back - there), 1e-3 * (double)slow);
            if (!across) folded = (double)back;
            else if (folded > 0) printf("  %15.2f", (double)back / folded);
            puts("");
        }
    }
    if (bad && *tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return bad;
}

int main(int argc, char **argv)
{
    static job j;
    static world w = { 4, 0, 0, 0 };
    const char *drop = "dropless";
    int bad, sim_links = 0, fast = 4;
    double ratio = 10;
    const option options[] = { A_WORD("model", &j.model),
                               A_TEXT("--prompt", &j.prompt),
                               WORLD_OPTIONS(w),
                               A_WHOLE("--tp", &j.tp, 1, WORLD_MOST),
                               A_WHOLE("--cp", &j.cp, 1, WORLD_MOST),
                               A_WHOLE("--pp", &j.pp, 1, WORLD_MOST),
                               A_WHOLE("--etp", &j.etp, 1, WORLD_MOST),
                               A_WHOLE("--ep", &j.ep, 1, WORLD_MOST),
                               A_FLAG("--across", &j.across),
                               A_WHOLE("--experts", &j.experts, 1, 512),
                               A_WHOLE("--top", &j.top, 1, 512),
                               A_WHOLE("--width", &j.width, 1, 8192),
                               A_WHOLE("--hidden", &j.hidden, 1, 32768),
                               A_WHOLE("--tokens", &j.tokens, 0, 65536),
                               A_NUMBER("--skew", &j.skew, 0, 20),
                               A_TEXT("--drop", &drop),
                               A_NUMBER("--factor", &j.factor, 0.001, 1000),
                               A_FLAG("--pad", &j.pad),
                               A_FLAG("--whole", &j.whole),
                               A_FLAG("--half", &j.half),
                               A_WHOLE("--rounds", &j.rounds, 1, 100000),
                               A_SEED("--seed", &j.seed),
                               A_FLAG("--check", &j.check),
                               A_TEXT("--svg", &j.svg),
                               A_FLAG("--links", &sim_links),
                               A_WHOLE("--fast", &fast, 1, SIM),
                               A_NUMBER("--ratio", &ratio, 1, 1e6) };
    j.tp = j.cp = j.pp = j.etp = 1;
    j.experts = 16;
    j.top = 2;
    j.width = 128;
    j.hidden = 256;
    j.tokens = -1;
    j.skew = 0.6;
    j.factor = 1;
    j.rounds = 5;
    j.seed = 1;
    READ_OPTIONS(argc, argv, usage, options);
    j.drop = place_in("dropless probs position", drop);
    if (j.drop < 0) return refused("--drop takes dropless, probs or position, not %s", drop);
    if ((j.pad || j.whole) && !j.drop) return refused("--pad and --whole need --drop probs or --drop position");
    if (j.top > j.experts) return refused("--top %d: there are %d experts", j.top, j.experts);
    if (j.model && (sim_links || j.svg)) return refused("a model takes neither --links nor --svg");
    if (j.prompt && !j.model) return refused("--prompt needs a model");
    if (j.tokens < 0) j.tokens = j.model ? 32 : 256;
    if (must_not_write(j.svg, 0)) return 2;
    if (sim_links) {
        if (SIM % fast) return refused("--fast %d: it must divide the %d ranks of --links", fast, SIM);
        if (j.svg || j.check) return refused("--links takes neither --check nor --svg");
        return exit_status(links(&j, w.mbit > 0 ? w.mbit : 1e5, w.ms, fast, ratio));
    }
    bad = world_run(&w, j.model ? model_body : body, &j);
    return exit_status(bad || j.wrong);
}
