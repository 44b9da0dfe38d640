/* tests/llm/dist/cut.c - models over several ranks, with layers of either route
 *
 * Truth    a small model in double, attention and all, written out here, in every pattern of 4 layers; the ordinary
 *          model on one rank. Delays are those of a virtual clock, or must not matter. */
#include "rank.h"

enum { MOST = 4 };

/* ---- the model, in a file of this test's making ------------------------------------------------------------------ */

enum { D = 64, H = 8, KV = 4, DK = 8, FF = 96, L = 4, V = 50, TOKENS = 9 };

typedef struct weights {
    int fused;
    float yarn;                             /* its factor, or 0 */
    int ff;                                 /* 0: FF; or less */
    float embd[V * D], out_norm[D], out[V * D];
    struct {
        float n1[D], n2[D], q[H * DK * D], k[KV * DK * D], v[KV * DK * D], o[D * H * DK], bq[H * DK], bo[D],
            gate[FF * D], up[FF * D], down[D * FF];
    } l[L];
} weights;

typedef struct made { tiny_ctx *ctx; tllm_writer *w; const void *at; size_t n; } made;

static void put(made *b, int format, tiny_idx layer, const char *name, float *x, int rows, int columns)
{
    const tllm_format *f = tllm_format_of(rows > 1 ? format : TLLM_FORMAT_F32);
    const size_t n = (size_t)rows * (size_t)columns;
    void *data = t_keep(tllm_format_bytes(f, n));
    char full[80];
    uint64_t dim[2];
    tllm_text text;
    (void)snprintf(full, sizeof full, layer < 0 ? "%s" : "%s%td.%s", layer < 0 ? name : "blk.", layer, name);
    dim[0] = (uint64_t)columns;
    dim[1] = (uint64_t)rows;
    text.at = (char *)t_keep(strlen(full) + 1);
    memcpy((char *)(uintptr_t)text.at, full, strlen(full));
    text.n = strlen(full);
    f->pack(x, data, n, NULL);
    f->unpack(data, x, n);                  /* the numbers as the file has them */
    T_OK(tllm_writer_put_tensor(b->ctx, b->w, text, f->id, rows > 1 ? 2 : 1, dim, data));
}
static void fill(float *x, size_t n, float mean, float size)
{
    size_t i;
    for (i = 0; i < n; i++) x[i] = mean + t_rand_float(-size, size);
}

/* flags: one truth value for each layer, or NULL */
static int make(made *b, weights *w, int format, const unsigned char *flags, size_t n_flags)
{
    /* q, k, v in one matrix, gate and up too: they follow each other here as well */
    const int ff = w->ff ? w->ff : FF, fused = w->fused;
    tllm_writer_desc d;
    tiny_idx l;
    memset(&d, 0, sizeof d);
    memset(b, 0, sizeof *b);
    b->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    if (!T_OK(tllm_writer_open(b->ctx, &d, &b->w))) return 0;
    T_OK(tllm_writer_put_text(b->ctx, b->w, "general.architecture", "llama"));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.embedding_length", D));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.block_count", L));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.context_length", 64));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.feed_forward_length", (uint32_t)ff));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.head_count", H));
    T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.attention.head_count_kv", KV));
    T_OK(tllm_writer_put_f32(b->ctx, b->w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    if (w->yarn > 0.0f) {
        T_OK(tllm_writer_put_text(b->ctx, b->w, "llama.rope.scaling.type", "yarn"));
        T_OK(tllm_writer_put_f32(b->ctx, b->w, "llama.rope.scaling.factor", w->yarn));
        T_OK(tllm_writer_put_u32(b->ctx, b->w, "llama.rope.scaling.original_context_length", 16));
    }
    if (flags) T_OK(tllm_writer_put_array(b->ctx, b->w, "llama.ladder", TLLM_BOOL, flags, n_flags));
    fill(w->embd, V * D, 0.0f, 1.0f);
    fill(w->out_norm, D, 1.0f, 0.2f);
    fill(w->out, V * D, 0.0f, 0.3f);
    put(b, format, -1, "token_embd.weight", w->embd, V, D);
    put(b, format, -1, "output_norm.weight", w->out_norm, 1, D);
    put(b, format, -1, "output.weight", w->out, V, D);
    for (l = 0; l < L; l++) {
        fill(w->l[l].n1, D, 1.0f, 0.2f);
        fill(w->l[l].n2, D, 1.0f, 0.2f);
        fill(w->l[l].q, H * DK * D, 0.0f, 0.2f);
        fill(w->l[l].k, KV * DK * D, 0.0f, 0.2f);
        fill(w->l[l].v, KV * DK * D, 0.0f, 0.2f);
        fill(w->l[l].o, D * H * DK, 0.0f, 0.2f);
        fill(w->l[l].bq, H * DK, 0.0f, 0.5f);
        fill(w->l[l].bo, D, 0.0f, 0.5f);
        fill(w->l[l].gate, FF * D, 0.0f, 0.2f);
        fill(w->l[l].up, FF * D, 0.0f, 0.2f);
        fill(w->l[l].down, D * FF, 0.0f, 0.2f);
        put(b, format, l, "attn_norm.weight", w->l[l].n1, 1, D);
        put(b, format, l, "ffn_norm.weight", w->l[l].n2, 1, D);
        if (fused) {
            memset(w->l[l].bq, 0, sizeof w->l[l].bq);
            put(b, format, l, "attn_qkv.weight", w->l[l].q, (H + 2 * KV) * DK, D);
        } else {
            put(b, format, l, "attn_q.weight", w->l[l].q, H * DK, D);
            put(b, format, l, "attn_q.bias", w->l[l].bq, 1, H * DK);
            put(b, format, l, "attn_k.weight", w->l[l].k, KV * DK, D);
            put(b, format, l, "attn_v.weight", w->l[l].v, KV * DK, D);
        }
        put(b, format, l, "attn_output.weight", w->l[l].o, D, H * DK);
        put(b, format, l, "attn_output.bias", w->l[l].bo, 1, D);
        if (fused) put(b, format, l, "ffn_up.weight", w->l[l].gate, 2 * ff, D);
        else {
            put(b, format, l, "ffn_gate.weight", w->l[l].gate, ff, D);
            put(b, format, l, "ffn_up.weight", w->l[l].up, ff, D);
        }
        put(b, format, l, "ffn_down.weight", w->l[l].down, D, ff);
    }
    if (!T_OK(tllm_writer_finish(b->ctx, b->w))) return 0;
    b->at = tllm_writer_memory(b->w, &b->n);
    return 1;
}
static void unmake(made *b)
{
    tllm_writer_close(b->ctx, b->w);
    t_close(b->ctx);
}

static int32_t token_of(int i) { return (int32_t)((i * 29 + 7) % V); }

/* the model in double: logits (TOKENS, V), keys (L, TOKENS, KV * DK) */
static double dot(const float *w, const double *x, int n)
{
    double s = 0.0;
    int i;
    for (i = 0; i < n; i++) s += (double)w[i] * x[i];
    return s;
}
static void rms(const float *g, const double *x, double *y)
{
    double s = 0.0;
    int i;
    for (i = 0; i < D; i++) s += x[i] * x[i];
    for (i = 0; i < D; i++) y[i] = (double)g[i] * x[i] / sqrt(s / D + (double)1e-5f);
}
static void turn(double *x, int heads, int pos)
{
    int h, i;
    for (h = 0; h < heads; h++)
        for (i = 0; i < DK / 2; i++) {
            const double a = pos * pow(10000.0, -2.0 * i / DK), p = x[h * DK + 2 * i], q = x[h * DK + 2 * i + 1];
            x[h * DK + 2 * i] = p * cos(a) - q * sin(a);
            x[h * DK + 2 * i + 1] = p * sin(a) + q * cos(a);
        }
}
static void plain_model(const weights *w, const unsigned char *route, double *logits, double *keys)
{
    double(*x)[D] = (double(*)[D])t_keep(TOKENS * sizeof *x),
    (*f)[TOKENS][D] = (double(*)[TOKENS][D])t_keep(2 * sizeof *f);
    double(*k)[KV * DK] = (double(*)[KV * DK]) t_keep(TOKENS * sizeof *k),
                    (*v)[KV * DK] = (double(*)[KV * DK]) t_keep(TOKENS * sizeof *v);
    double h[D], q[H * DK], o[H * DK], g[FF], p[TOKENS];
    int flies[2] = { 0, 0 }, t, l, half, i, j, a, c;
    for (t = 0; t < TOKENS; t++) for (i = 0; i < D; i++) x[t][i] = (double)w->embd[token_of(t) * D + i];
    for (l = 0; l < L; l++)
        for (half = 0; half < 2; half++) {
            const int ladder = route[2 * l + half] == TLLM_ROUTE_LADDER;
            for (c = 0; c < 2; c++) {
                if (!flies[c] || (ladder && c != half)) continue;
                for (t = 0; t < TOKENS; t++) for (i = 0; i < D; i++) x[t][i] += f[c][t][i];
                flies[c] = 0;
            }
            for (t = 0; t < TOKENS; t++) {
                rms(half ? w->l[l].n2 : w->l[l].n1, x[t], h);
                if (half) {
                    for (i = 0; i < FF; i++) {
                        const double z = dot(w->l[l].gate + i * D, h, D);
                        g[i] = z / (1.0 + exp(-z)) * dot(w->l[l].up + i * D, h, D);
                    }
                    for (i = 0; i < D; i++) f[1][t][i] = dot(w->l[l].down + i * FF, g, FF);
                    continue;
                }
                for (i = 0; i < H * DK; i++) q[i] = dot(w->l[l].q + i * D, h, D) + (double)w->l[l].bq[i];
                for (i = 0; i < KV * DK; i++) {
                    k[t][i] = dot(w->l[l].k + i * D, h, D);
                    v[t][i] = dot(w->l[l].v + i * D, h, D);
                }
                turn(q, H, t);
                turn(k[t], KV, t);
                for (i = 0; i < KV * DK; i++) keys[(l * TOKENS + t) * KV * DK + i] = k[t][i];
                for (a = 0; a < H; a++) {
                    const int kv = a / (H / KV) * DK;
                    double sum = 0.0, top = -1e300;
                    for (j = 0; j <= t; j++) {
                        for (p[j] = 0.0, i = 0; i < DK; i++) p[j] += q[a * DK + i] * k[j][kv + i] / sqrt((double)DK);
                        if (p[j] > top) top = p[j];
                    }
                    for (j = 0; j <= t; j++) sum += p[j] = exp(p[j] - top);
                    for (i = 0; i < DK; i++)
                        for (o[a * DK + i] = 0.0, j = 0; j <= t; j++) o[a * DK + i] += p[j] / sum * v[j][kv + i];
                }
                for (i = 0; i < D; i++) f[0][t][i] = dot(w->l[l].o + i * H * DK, o, H * DK) + (double)w->l[l].bo[i];
            }
            flies[half] = 1;
            if (ladder) continue;
            for (t = 0; t < TOKENS; t++) for (i = 0; i < D; i++) x[t][i] += f[half][t][i];
            flies[half] = 0;
        }
    for (t = 0; t < TOKENS; t++) {
        for (c = 0; c < 2; c++) for (i = 0; i < D && flies[c]; i++) x[t][i] += f[c][t][i];
        rms(w->out_norm, x[t], h);
        for (i = 0; i < V; i++) logits[t * V + i] = dot(w->out + i * D, h, D);
    }
}

/* ---- runs over ranks --------------------------------------------------------------------------------------------- */

typedef struct run {
    const made *file;
    tiny_local *local;
    int world, no_thread, other_rank, n_batch, one_by_one, way, repack;
    tllm_repacked repacked[MOST];
    tiny_target target;
    const unsigned char *route;             /* NULL: as the file says */
    float *logits[MOST];                    /* (TOKENS, V) */
    void *state[MOST];                      /* of tllm_state_pack, malloc */
    size_t n_state[MOST];
    tiny_status st[MOST];
    char says[MOST][240];
    uint64_t clock[MOST];
    tiny_net *net[MOST];
    uint64_t timeout;
    int extra[MOST];                        /* tokens more than the others */
    int without;                            /* the results of that many tokens are not wanted, those of the first */
} run;

static void model_rank(int rank, void *arg)
{
    run *r = (run *)arg;
    tiny_comm_desc cd;
    int32_t token[2 * TOKENS];
    t_rank m;
    void *packed = NULL;
    int i;
    memset(&cd, 0, sizeof cd);
    cd.net = r->net[rank] ? r->net[rank] : tiny_local_net(r->local, rank);
    cd.n_most = 64 * D;
    cd.no_thread = r->no_thread;
    cd.way = r->way;
    cd.timeout_ns = r->timeout ? r->timeout : UINT64_C(600000000000);
    for (i = 0; i < 2 * TOKENS; i++) token[i] = token_of(i);
    m = t_rank_model(r->target ? r->target : t_now.target, r->local ? &cd : NULL, NULL, r->file->at, r->file->n);
    if (!m.st && r->route) m.st = tllm_model_routes(m.ctx, m.model, r->route, 2 * L);
    t_rank_cut(&m, (rank + r->other_rank) % r->world, r->world);
    if (!m.st && r->repack) m.st = tllm_model_repack(m.ctx, m.model, NULL, &r->repacked[rank]);
    t_rank_state(&m, 32, r->n_batch ? r->n_batch : 32);
    if (!m.st && !r->one_by_one)
        m.st = tllm_forward(m.state, token, TOKENS + r->extra[rank], 0, TOKENS - r->without,
                            r->logits[rank] + r->without * V);
    for (i = 0; i < TOKENS && r->one_by_one && !m.st; i++)
        m.st = tllm_forward(m.state, token + i, 1, i, 1, r->logits[rank] + i * V);
    if (!m.st) m.st = tllm_state_pack(m.state, 0, NULL, 0, &packed, &r->n_state[rank]);
    if (packed) {
        r->state[rank] = malloc(r->n_state[rank]);
        if (r->state[rank]) memcpy(r->state[rank], packed, r->n_state[rank]);
        tiny_free(m.ctx, packed);
    }
    r->clock[rank] = tiny_comm_clock(m.comm);
    r->st[rank] = t_rank_leave(&m, r->says[rank], sizeof r->says[rank]);
}

static int run_model(run *r, const tiny_local_desc *line)
{
    tiny_ctx *ctx = t_ctx(t_now.target, 1);
    tiny_local_desc d;
    int i, ok = 1;
    memset(&d, 0, sizeof d);
    if (line) d = *line;
    d.world = r->world;
    if (!d.queue_bytes) d.queue_bytes = 65536;
    for (i = 0; i < r->world; i++) {
        r->logits[i] = t_guarded(TOKENS * V);
        r->st[i] = TINY_OK;
        r->state[i] = NULL;
    }
    if (r->world > 1) T_OK(tiny_local_open(ctx, &d, &r->local));
    if (r->world == 1) model_rank(0, r);
    else ok = t_ranks(r->world, model_rank, r);
    tiny_local_close(ctx, r->local);
    r->local = NULL;
    t_close(ctx);
    return ok;
}
static void forget(run *r)
{
    int i;
    for (i = 0; i < r->world; i++) { free(r->state[i]); r->state[i] = NULL; }
}
static int all_ok(const run *r)
{
    int i, ok = 1;
    for (i = 0; i < r->world; i++)
        if (!T_EQ_INT(r->st[i], TINY_OK)) {
            printf("  rank %d of %d: %s\n", i, r->world, r->says[i]);
            ok = 0;
        }
    return ok;
}
/* key number i of layer l and token t, as the packed state of some rank has it: see the head of src/llm/model/save.c */
static float key_at(const run *r, int l, int t, int i)
{
    const int mine = KV * DK / r->world;
    const size_t at =
        192 + 52 + 8 + 4 * TOKENS + 4 * ((size_t)l * 2 * TOKENS * (size_t)mine + (size_t)(t * mine + i % mine));
    const unsigned char *b = (const unsigned char *)r->state[i / mine] + at;
    const uint32_t bits = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static double apart(const float *a, const double *b, int n)
{
    double off = 0.0;
    int i;
    for (i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (!(d <= off)) off = d;
    }
    return off;
}

/* Every pattern of 4 layers, on 1, 2 and 4 ranks, against the model in double: logits to 1e-5 of their size, keys too;
 * the ranks the same bits. */
static void patterns(tiny_target target, int step, int fused)
{
    weights *w = (weights *)t_keep(sizeof *w);
    double *want = (double *)t_keep(TOKENS * V * sizeof *want),
           *keys = (double *)t_keep(L * TOKENS * KV * DK * sizeof *keys);
    unsigned char route[2 * L];
    made file;
    int code, i, l, t, world;
    w->fused = fused;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (code = 0; code < 16; code += step) {
        double size = 0.0, off;
        for (i = 0; i < 2 * L; i++) route[i] = code >> i / 2 & 1 ? TLLM_ROUTE_LADDER : TLLM_ROUTE_STANDARD;
        plain_model(w, route, want, keys);
        for (i = 0; i < TOKENS * V; i++) if (fabs(want[i]) > size) size = fabs(want[i]);
        for (world = 1; world <= MOST; world *= 2) {
            run r;
            memset(&r, 0, sizeof r);
            r.file = &file;
            r.world = world;
            r.route = route;
            r.target = target;
            r.n_batch = code % 3 ? 4 : 0;
            r.one_by_one = code % 5 == 2;
            r.no_thread = code % 2;
            if (!run_model(&r, NULL)) { unmake(&file); return; }
            if (!all_ok(&r)) { forget(&r); break; }
            for (i = 0; i < world; i++) {
                T_CLOSE(apart(r.logits[i], want, TOKENS * V), 0.0, 1e-5 * size);
                T_SAME(r.logits[i], r.logits[0], TOKENS * V);
                T_WALLS(r.logits[i], TOKENS * V);
            }
            for (off = 0.0, l = 0; l < L; l++)
                for (t = 0; t < TOKENS; t++)
                    for (i = 0; i < KV * DK; i++)
                        off = fmax(off, fabs((double)key_at(&r, l, t, i) - keys[(l * TOKENS + t) * KV * DK + i]));
            T_CLOSE(off, 0.0, 3e-5);
            forget(&r);
        }
    }
    unmake(&file);
}
static void test_models(tiny_target target)
{
    patterns(target, target == TINY_TARGET_SCALAR ? 1 : 5, 0);
    T_PROOF("attention 8", "ranks 1, 2, 4: the same to 1e-5, bit-identical across ranks");
    T_PROOF("attention 8", "KV caches equal");
    T_PROOF("attention 8", "border handling in every pattern of 4 layers");
}
static void test_reference(void) { patterns(TINY_TARGET_REFERENCE, 15, 0); }
static void test_fused(void) { patterns(TINY_TARGET_AUTO, 5, 1); }

/* The last layer computes the wanted rows alone, and its sums are as short, unless those of all rows are in flight: the
 * same logits, and the same bits on all ranks. Keys, which later tokens read, are the same bits. */
static void test_few_rows(tiny_target target)
{
    static const unsigned char route[3][2 * L] = { { 0 }, { 1, 1, 1, 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1, 1, 0, 0 } };
    static const int without[3] = { TOKENS - 1, TOKENS, 2 };
    weights *w = (weights *)t_keep(sizeof *w);
    int world, i, j, k;
    made file;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (k = 0; k < 3; k++)
        for (world = 1; world <= MOST; world *= 2)
            for (j = 0; j < 3; j++) {
                run all, few;
                memset(&all, 0, sizeof all);
                all.file = &file;
                all.target = target;
                all.world = world;
                all.route = route[k];
                few = all;
                few.without = without[j];
                if (!run_model(&all, NULL) || !run_model(&few, NULL)) { unmake(&file); return; }
                for (i = 0; i < world && all_ok(&all) && all_ok(&few); i++) {
                    const int n = (TOKENS - without[j]) * V, at = without[j] * V;
                    int c;
                    for (c = 0; c < n; c++) T_CLOSE(few.logits[i][at + c], all.logits[i][at + c], 3e-5);
                    T_SAME(few.logits[i] + at, few.logits[0] + at, n);
                    if (T_EQ_INT(few.n_state[i], all.n_state[i]))
                        T_TRUE(!memcmp((const char *)few.state[i] + 192, (const char *)all.state[i] + 192,
                                       few.n_state[i] - 192 - 8));
                }
                forget(&all);
                forget(&few);
            }
    unmake(&file);
}

/* a file that marks every layer as no ladder is the ordinary model, bit for bit, on one rank and on
 * several */
static void test_standard_flags(tiny_target target)
{
    static const unsigned char flags[L] = { 0 };
    weights *w = (weights *)t_keep(sizeof *w);
    made with, without;
    int world, i;
    if (!make(&with, w, TLLM_FORMAT_F32, flags, L)) return;
    t_now.rand_at = 0;
    if (!make(&without, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 1; world <= MOST; world *= 2) {
        run a, b;
        memset(&a, 0, sizeof a);
        a.target = target;
        a.world = world;
        b = a;
        a.file = &with;
        b.file = &without;
        if (!run_model(&a, NULL) || !run_model(&b, NULL) || !all_ok(&a) || !all_ok(&b)) break;
        for (i = 0; i < world; i++) T_SAME(a.logits[i], b.logits[i], TOKENS * V);
        forget(&a);
        forget(&b);
    }
    unmake(&without);
    unmake(&with);
    T_PROOF("attention 8", "standard flag on all layers equals the ordinary model");
}

/* Keys of the first layer, whose input does not depend on the rotation: under YaRN each is 1 + 0.1 ln factor times as
 * long as without. */
static void test_yarn_lengths(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made plain, yarn;
    run a, b;
    int t, h, i;
    if (!make(&plain, w, TLLM_FORMAT_F32, NULL, 0)) return;
    t_now.rand_at = 0;
    w->yarn = 16.0f;
    if (!make(&yarn, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&a, 0, sizeof a);
    a.target = target;
    a.world = 1;
    b = a;
    a.file = &plain;
    b.file = &yarn;
    if (run_model(&a, NULL) && run_model(&b, NULL) && all_ok(&a) && all_ok(&b))
        for (t = 0; t < TOKENS; t++)
            for (h = 0; h < KV; h++) {
                double was = 0.0, is = 0.0;
                for (i = h * DK; i < (h + 1) * DK; i++) {
                    was += (double)key_at(&a, 0, t, i) * (double)key_at(&a, 0, t, i);
                    is += (double)key_at(&b, 0, t, i) * (double)key_at(&b, 0, t, i);
                }
                T_CLOSE(sqrt(is / was), 1.2772589, 1e-6);
            }
    forget(&a);
    forget(&b);
    unmake(&yarn);
    unmake(&plain);
    T_PROOF("attention 0", "YaRN: rotated keys are mscale times as long");
}

/* tllm_model_routes returns the routes of the file; delays, waits without a thread, other ways of summing: the same
 * bits, keys and values too */
static void test_same_bits(tiny_target target)
{
    static const unsigned char flags[L] = { 1, 0, 1, 1 }, route[2 * L] = { 1, 1, 0, 0, 1, 1, 1, 1 };
    static const tiny_local_desc line[5] = { { 0, 0, 0, 0.0, 0 },
                                             { 0, 0, 400000, 0.0, 0 },
                                             { 0, 1024, 100000, 1e8, 0 },
                                             { 0, 0, 5000000, 1e5, 1 },
                                             { 0, 0, 0, 0.0, 0 } };
    weights *w = (weights *)t_keep(sizeof *w);
    made with, without;
    int k, i, world;
    if (!make(&with, w, TLLM_FORMAT_F32, flags, L)) return;
    t_now.rand_at = 0;
    if (!make(&without, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 1; world <= MOST; world *= 2) {
        run first;
        for (k = 0; k < 5; k++) {
            run r;
            memset(&r, 0, sizeof r);
            r.file = k == 4 ? &without : &with;
            r.route = k == 4 ? route : NULL;
            r.world = world;
            r.no_thread = k == 2;
            if (!run_model(&r, &line[k]) || !all_ok(&r)) return;
            if (!k) { first = r; continue; }
            for (i = 0; i < world; i++) {
                T_SAME(r.logits[i], first.logits[0], TOKENS * V);
                T_EQ_INT(r.n_state[i], first.n_state[i]);
                if (k < 4) T_SAME((unsigned char *)r.state[i], (unsigned char *)first.state[i], r.n_state[i]);
            }
            forget(&r);
        }
        forget(&first);
    }
    unmake(&without);
    unmake(&with);
    T_PROOF("attention 8", "a delay never changes results");
    T_PROOF("attention 8", "immediate waits equal async");
    (void)target;                           /* the workers read t_now */
}

/* weights in two bytes and in blocks: a cut row is a part of a row of the file */
static void test_formats(tiny_target target)
{
    static const int format[3] = { TLLM_FORMAT_F16, TLLM_FORMAT_BF16, TLLM_FORMAT_Q8_0 };
    static const unsigned char route[2 * L] = { 1, 1, 1, 1, 0, 0, 1, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    int k, i;
    for (k = 0; k < 3; k++) {
        run one, two;
        made file;
        if (!make(&file, w, format[k], NULL, 0)) return;
        memset(&one, 0, sizeof one);
        one.file = &file;
        one.route = route;
        one.target = target;
        two = one;
        one.world = 1;
        /* heads of 32 numbers together, networks of 48 are no whole blocks */
        two.world = format[k] == TLLM_FORMAT_Q8_0 ? 2 : 4;
        if (!run_model(&one, NULL) || !run_model(&two, NULL)) return;
        if (format[k] == TLLM_FORMAT_Q8_0)
            for (i = 0; i < 2; i++)
                T_TRUE(two.st[i] == TINY_E_UNSUPPORTED &&
                       strstr(two.says[i], "ffn_down cannot be cut into 2 parts of 48 columns: Q8_0 has") != NULL);
        else if (all_ok(&one) && all_ok(&two))
            for (i = 0; i < TOKENS * V; i++) T_CLOSE(two.logits[0][i], one.logits[0][i], 3e-5);
        forget(&one);
        forget(&two);
        unmake(&file);
    }
}

/* rows of a rank may be repacked: the part that it keeps by columns stays in place */
static void test_repacked(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    run plain, eight;
    made file;
    double off = 0.0, all = 0.0;
    int i;
    w->ff = 64;                             /* 32 for each rank */
    if (!make(&file, w, TLLM_FORMAT_Q8_0, NULL, 0)) return;
    memset(&plain, 0, sizeof plain);
    plain.file = &file;
    plain.target = target;
    plain.world = 2;
    eight = plain;
    eight.repack = 1;
    if (!run_model(&plain, NULL) || !run_model(&eight, NULL)) return;
    if (all_ok(&plain) && all_ok(&eight)) {
        tiny_ctx *ctx = t_ctx(target, 1);
        const tiny_idx per_layer = 5;       /* q, k, v, gate, up */
        for (i = 0; i < 2; i++)
            T_EQ_INT(eight.repacked[i].n, tllm_repack_has(ctx, TLLM_FORMAT_Q8_0) == 2 ? L * per_layer + 1 : 0);
        t_close(ctx);
        for (i = 0; i < TOKENS * V; i++) {
            const double a = (double)plain.logits[0][i], b = (double)eight.logits[0][i];
            off += (a - b) * (a - b);
            all += a * a;
        }
        /* activations in 8 bits; another rank's rows would be off by all of it */
        T_TRUE(all > 0.0 && off <= 1e-4 * all);
        T_SAME(eight.logits[0], eight.logits[1], TOKENS * V);
    }
    forget(&plain);
    forget(&eight);
    unmake(&file);
}

/* a model that comes with the library, in blocks, over two ranks: greedy text is that of one */
typedef struct tale {
    tiny_local *local;
    char text[3][400];
    tiny_status st[3];
    char says[3][200];
    size_t held[3];
} tale;
static int tell(void *user, const char *bytes, size_t n)
{
    char *to = (char *)user;
    const size_t at = strlen(to);
    if (at + n < 399) memcpy(to + at, bytes, n);
    return 0;
}
static void tale_rank(int rank, void *arg)
{
    tale *t = (tale *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tllm_session *s = NULL;
    tllm_state_desc d;
    tllm_generate_desc g;
    tiny_comm_desc cd;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    memset(&cd, 0, sizeof cd);
    d.n_ctx = 128;
    cd.net = tiny_local_net(t->local, rank);
    g.text = tell;
    g.user = t->text[rank];
    g.n_most = 40;
    if (rank < 2) t->st[rank] = tiny_comm_open(ctx, &cd, &d.comm);
    if (!t->st[rank]) t->st[rank] = tllm_session_open(ctx, "examples/models/story.gguf", &d, &s);
    if (!t->st[rank]) t->st[rank] = tllm_generate(s, "", 0, &g, NULL);
    (void)snprintf(t->says[rank], sizeof t->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_session_close(s);
    tiny_comm_close(d.comm);
    tiny_ctx_close(ctx);
}
static void test_session(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    tale *t = (tale *)t_keep(sizeof *t);
    int i;
    memset(&d, 0, sizeof d);
    d.world = 2;
    T_OK(tiny_local_open(ctx, &d, &t->local));
    if (t_ranks(2, tale_rank, t)) {
        tale_rank(2, t);
        for (i = 0; i < 3; i++) if (!T_EQ_INT(t->st[i], TINY_OK)) printf("  %s\n", t->says[i]);
        T_TRUE(strlen(t->text[2]) > 20);
        T_EQ_TEXT(t->text[0], t->text[2]);
        T_EQ_TEXT(t->text[1], t->text[2]);
    }
    tiny_local_close(ctx, t->local);
    t_close(ctx);
}

/* the sums of a pass follow the routes: 4 layers on a line with latency only send 8 in a row, or 4 */
static void test_sums_in_flight(void)
{
    static const unsigned char standard[2 * L] = { 0 }, ladder[2 * L] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const tiny_local_desc line = { 0, 0, 1000000, 0.0, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    int k, i;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (k = 0; k < 2; k++) {
        run r;
        memset(&r, 0, sizeof r);
        r.file = &file;
        r.world = 2;
        r.route = k ? ladder : standard;
        if (!run_model(&r, &line)) break;
        all_ok(&r);
        for (i = 0; i < 2; i++) T_EQ_INT(r.clock[i], (k ? 5 : 9) * 1000000);       /* and one to agree on the model */
        forget(&r);
    }
    unmake(&file);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

typedef struct dying { tiny_net net; tiny_net *inner; int left; } dying;
static tiny_status dying_send(tiny_net *net, int to, tiny_message *m)
{
    dying *b = (dying *)net;
    if (!m->begun && b->left-- == 0) {
        (void)snprintf(net->says, sizeof net->says, "rank %d lost its power", net->rank);
        return TINY_E_IO;
    }
    return b->inner->send(b->inner, to, m);
}
static tiny_status dying_recv(tiny_net *net, int from, tiny_message *m)
{
    tiny_status st = ((dying *)net)->inner->recv(((dying *)net)->inner, from, m);
    memcpy(net->says, ((dying *)net)->inner->says, sizeof net->says);
    return st;
}
static void dying_close(tiny_net *net) { ((dying *)net)->inner->close(((dying *)net)->inner); }
static uint64_t dying_changes(tiny_net *net) { return ((dying *)net)->inner->changes(((dying *)net)->inner); }
static void dying_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((dying *)net)->inner->pause(((dying *)net)->inner, seen, until);
}
static void dying_wake(tiny_net *net) { ((dying *)net)->inner->wake(((dying *)net)->inner); }

/* rank 1 dies at each of its messages in the middle of a pass, all routes ladder; no rank hangs, no rank gets
 * numbers */
static void test_death(tiny_target target)
{
    static const unsigned char route[2 * L] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    tiny_ctx *ctx;
    made file;
    int left, world, i, died;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 2; world <= 4; world += 2)
        for (left = 0, died = 1; died; left++) {
            tiny_local_desc d;
            dying bad;
            run r;
            memset(&d, 0, sizeof d);
            memset(&r, 0, sizeof r);
            memset(&bad, 0, sizeof bad);
            d.world = r.world = world;
            d.queue_bytes = 65536;
            ctx = t_ctx(target, 1);
            T_OK(tiny_local_open(ctx, &d, &r.local));
            bad.inner = tiny_local_net(r.local, 1);
            bad.net = *bad.inner;
            bad.left = left;
            bad.net.send = dying_send;
            bad.net.recv = dying_recv;
            bad.net.close = dying_close;
            bad.net.changes = dying_changes;
            bad.net.pause = dying_pause;
            bad.net.wake = dying_wake;
            r.net[1] = &bad.net;
            r.file = &file;
            r.route = route;
            r.no_thread = left % 2;
            for (i = 0; i < world; i++) r.logits[i] = t_guarded(TOKENS * V);
            if (!t_ranks(world, model_rank, &r)) { left = -2; died = 0; }
            else {
                died = r.st[1] != TINY_OK;
                for (i = 0; i < world; i++) {
                    /* with its last message on the way, some other ranks have all data */
                    if (died && left < (world == 2 ? 9 : 18) - 2) T_TRUE(r.st[i] == (i == 1 ? TINY_E_IO : TINY_E_PEER));
                    if (r.st[i]) T_TRUE(strstr(r.says[i], i == 1 ? "rank 1 lost its power" : "is gone") != NULL);
                }
                if (!died) T_EQ_INT(left, world == 2 ? 9 : 18);        /* 8 sums and the agreement, by doubling */
            }
            forget(&r);
            tiny_local_close(ctx, r.local);
            t_close(ctx);
        }
    unmake(&file);
    T_PROOF("attention 8", "bad input: peer death in mid-layer, an error and no hang");
}

static void test_mismatch(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    run r, base;
    int i;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&base, 0, sizeof base);
    base.file = &file;
    base.world = 2;
    r = base;
    r.other_rank = 1;                       /* each has the other one's part */
    if (!run_model(&r, NULL)) { unmake(&file); return; }
    for (i = 0; i < 2; i++) {
        char says[100];
        (void)snprintf(says, sizeof says, "the model is cut for rank %d of 2, but the comm is rank %d of 2", 1 - i,
                       i);
        T_EQ_INT(r.st[i], TINY_E_ARGUMENT);
        T_TRUE(strstr(r.says[i], says) != NULL);
    }
    r = base;
    r.extra[1] = 1;                         /* another number of tokens */
    run_model(&r, NULL);
    T_TRUE(r.st[0] == TINY_E_PROTOCOL || r.st[1] == TINY_E_PROTOCOL);
    for (i = 0; i < 2; i++) T_TRUE(r.st[i] == TINY_E_PROTOCOL || r.st[i] == TINY_E_PEER);
    forget(&r);
    r = base;
    r.world = 3;
    run_model(&r, NULL);
    for (i = 0; i < 3; i++)
        T_TRUE(r.st[i] == TINY_E_SHAPE &&
               strstr(r.says[i], "layer 0: 8 heads and 4 key heads cannot be divided by 3 ranks"));
    forget(&r);
    unmake(&file);
    w->ff = 90;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    r = base;
    r.world = 4;
    run_model(&r, NULL);
    for (i = 0; i < 4; i++)
        T_TRUE(r.st[i] == TINY_E_SHAPE && strstr(r.says[i], "layer 0: a network of 90 cannot be divided by 4 ranks"));
    forget(&r);
    unmake(&file);
    T_PROOF("attention 8", "bad input: rank mismatch, H or FFN not divisible");
    (void)target;                           /* the workers read t_now */
}

/* routes that differ between the ranks, found when the states open */
typedef struct differ { const made *file; tiny_local *local; tiny_status st[2]; char says[2][240]; } differ;
static void differ_rank(int rank, void *arg)
{
    static const unsigned char route[2 * L] = { 0, 0, 1, 1, 0, 0, 0, 0 };
    differ *r = (differ *)arg;
    tiny_comm_desc cd;
    t_rank m;
    memset(&cd, 0, sizeof cd);
    cd.net = tiny_local_net(r->local, rank);
    m = t_rank_model(TINY_TARGET_AUTO, &cd, NULL, r->file->at, r->file->n);
    if (!m.st && rank) m.st = tllm_model_routes(m.ctx, m.model, route, 2 * L);
    t_rank_cut(&m, rank, 2);
    t_rank_state(&m, 0, 0);
    r->st[rank] = t_rank_leave(&m, r->says[rank], sizeof r->says[rank]);
}
static void test_differ(void)
{
    weights *w = (weights *)t_keep(sizeof *w);
    tiny_local_desc d;
    made file;
    differ r;
    int i;
    memset(&r, 0, sizeof r);
    memset(&d, 0, sizeof d);
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    d.world = 2;
    T_OK(tiny_local_open(file.ctx, &d, &r.local));
    r.file = &file;
    if (t_ranks(2, differ_rank, &r))
        for (i = 0; i < 2; i++)
            T_TRUE(r.st[i] == TINY_E_PROTOCOL &&
                   strstr(r.says[i], "the model, its shares or the length of its pieces of rank"));
    tiny_local_close(file.ctx, r.local);
    unmake(&file);
}

static void test_bad_calls(void)
{
    static const unsigned char flags[L] = { 0, 1, 0, 0 }, short_flags[2] = { 1, 1 };
    static const unsigned char parted[2 * L] = { 2, 0, 0, 0, 0, 0, 0, 0 }, open_end[2 * L] = { 0, 0, 0, 0, 0, 0, 0, 2 },
                                          unknown[2 * L] = { 9, 0, 0, 0, 0, 0, 0, 0 },
                                          joined[2 * L] = { 2, 3, 0, 0, 2, 2, 2, 3 };
    weights *w = (weights *)t_keep(sizeof *w);
    tllm_gguf *g = NULL;
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    tllm_about about;
    tllm_state_desc d;
    tllm_ladder a;
    made file;
    size_t n = 0;
    float x = 1.0f, y[2] = { 1.0f, 1.0f };
    if (!make(&file, w, TLLM_FORMAT_F32, flags, L)) return;
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_OK(tllm_model_open(file.ctx, g, &m));
    T_STATUS(tllm_model_cut(file.ctx, m, 2, 2), TINY_E_ARGUMENT, "rank 2 of 2");
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 65), TINY_E_ARGUMENT, "at most 64");
    T_STATUS(tllm_model_cut(file.ctx, NULL, 0, 1), TINY_E_ARGUMENT, "the model is NULL");
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 8), TINY_E_SHAPE, "4 key heads cannot be divided by 8 ranks");
    T_STATUS(tllm_model_routes(file.ctx, m, parted, 2 * L), TINY_E_ARGUMENT, "a join is needed first");
    T_STATUS(tllm_model_routes(file.ctx, m, open_end, 2 * L), TINY_E_ARGUMENT, "without a join");
    T_STATUS(tllm_model_routes(file.ctx, m, unknown, 2 * L), TINY_E_ARGUMENT, "route 9 of layer 0");
    T_STATUS(tllm_model_routes(file.ctx, m, joined, 3), TINY_E_ARGUMENT, "3 routes for the two halves of 4 layers");
    T_STATUS(tllm_model_routes(file.ctx, m, NULL, 2 * L), TINY_E_ARGUMENT, "the routes are NULL");
    T_OK(tllm_model_routes(file.ctx, m, joined, 2 * L));
    T_OK(tllm_model_cut(file.ctx, m, 0, 1));
    T_OK(tllm_state_open(file.ctx, m, NULL, &s));       /* the failures before changed nothing */
    tllm_state_close(file.ctx, s);
    T_OK(tllm_model_cut(file.ctx, m, 1, 2));
    tllm_model_about(m, &about);
    T_TRUE(about.rank == 1 && about.world == 2);
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 2), TINY_E_ARGUMENT, "cut already, for rank 1 of 2");
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_state_open(file.ctx, m, &d, &s), TINY_E_ARGUMENT,
             "cut for rank 1 of 2, but the comm is rank 0 of 1");
    T_STATUS(tllm_state_memory(file.ctx, m, &d, &n), TINY_E_ARGUMENT, "cut for rank 1 of 2");
    tllm_model_close(file.ctx, m);
    tllm_gguf_close(file.ctx, g);
    memset(&a, 0, sizeof a);
    a.ctx = file.ctx;
    a.n = 1;
    T_EQ_INT(tllm_ladder_enter(NULL, 0, 0, &x), TINY_E_ARGUMENT);
    T_STATUS(tllm_ladder_enter(&a, 0, 0, &x), TINY_E_ARGUMENT, "both y are needed");
    a.y[0] = &y[0];
    a.y[1] = &y[1];
    T_STATUS(tllm_ladder_enter(&a, TLLM_ROUTES, 0, &x), TINY_E_ARGUMENT, "on route 4");
    T_STATUS(tllm_ladder_enter(&a, 0, 2, &x), TINY_E_ARGUMENT, "half 2");
    T_OK(tllm_ladder_enter(&a, TLLM_ROUTE_LADDER, 1, &x));
    T_OK(tllm_ladder_leave(&a, TLLM_ROUTE_LADDER, 1, 0, &x));
    T_STATUS(tllm_ladder_leave(&a, TLLM_ROUTE_LADDER, 1, 0, &x), TINY_E_ARGUMENT, "without tllm_ladder_enter");
    unmake(&file);
    if (!make(&file, w, TLLM_FORMAT_F32, short_flags, 2)) return;
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_STATUS(tllm_model_open(file.ctx, g, &m), TINY_E_FORMAT, "llama.ladder has no bool for layer 2");
    tllm_gguf_close(file.ctx, g);
    unmake(&file);
}

/* a state that one rank saved is not that of another */
static void test_saved(void)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    run r;
    int rank, st[2] = { 0, 0 };
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&r, 0, sizeof r);
    r.file = &file;
    r.world = 2;
    if (run_model(&r, NULL) && all_ok(&r)) {
        tllm_gguf *g = NULL;
        tllm_model *m = NULL;
        tllm_state *s = NULL;
        T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
        T_OK(tllm_model_open(file.ctx, g, &m));
        T_OK(tllm_state_open(file.ctx, m, NULL, &s));
        for (rank = 0; rank < 2; rank++)
            st[rank] = (int)tllm_state_unpack(s, 0, r.state[rank], r.n_state[rank], NULL, 0, NULL);
        T_TRUE(st[0] != TINY_OK && st[1] != TINY_OK);
        /* nor that of the other rank */
        T_TRUE(memcmp((unsigned char *)r.state[0] + 192, (unsigned char *)r.state[1] + 192, 20) != 0);
        tllm_state_close(file.ctx, s);
        tllm_model_close(file.ctx, m);
        tllm_gguf_close(file.ctx, g);
    }
    forget(&r);
    unmake(&file);
}

int main(void)
{
    T_RUN_TARGETS(test_models);
    T_RUN(test_reference);
    T_RUN(test_fused);
    T_RUN_TARGETS(test_few_rows);
    T_RUN_TARGETS(test_standard_flags);
    T_RUN_TARGETS(test_yarn_lengths);
    T_RUN_TARGETS(test_same_bits);
    T_RUN_TARGETS(test_formats);
    T_RUN_TARGETS(test_repacked);
    T_RUN(test_session);
    T_RUN(test_sums_in_flight);
    T_RUN_TARGETS(test_death);
    T_RUN_TARGETS(test_mismatch);
    T_RUN(test_differ);
    T_RUN(test_bad_calls);
    T_RUN(test_saved);
    return t_done();
}
