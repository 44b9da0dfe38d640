/* tests/llm/dist/cut_kit.h - a small model, as a file and written out in double, and its runs over ranks */
#ifndef T_CUT_KIT_H
#define T_CUT_KIT_H
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

T_FN void put(made *b, int format, tiny_idx layer, const char *name, float *x, int rows, int columns)
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
T_FN void fill(float *x, size_t n, float mean, float size)
{
    size_t i;
    for (i = 0; i < n; i++) x[i] = mean + t_rand_float(-size, size);
}

/* flags: one truth value for each layer, or NULL */
T_FN int make(made *b, weights *w, int format, const unsigned char *flags, size_t n_flags)
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
T_FN void unmake(made *b)
{
    tllm_writer_close(b->ctx, b->w);
    t_close(b->ctx);
}

T_FN int32_t token_of(int i) { return (int32_t)((i * 29 + 7) % V); }

/* the model in double: logits (TOKENS, V), keys (L, TOKENS, KV * DK) */
T_FN double dot(const float *w, const double *x, int n)
{
    double s = 0.0;
    int i;
    for (i = 0; i < n; i++) s += (double)w[i] * x[i];
    return s;
}
T_FN void rms(const float *g, const double *x, double *y)
{
    double s = 0.0;
    int i;
    for (i = 0; i < D; i++) s += x[i] * x[i];
    for (i = 0; i < D; i++) y[i] = (double)g[i] * x[i] / sqrt(s / D + (double)1e-5f);
}
T_FN void turn(double *x, int heads, int pos)
{
    int h, i;
    for (h = 0; h < heads; h++)
        for (i = 0; i < DK / 2; i++) {
            const double a = pos * pow(10000.0, -2.0 * i / DK), p = x[h * DK + 2 * i], q = x[h * DK + 2 * i + 1];
            x[h * DK + 2 * i] = p * cos(a) - q * sin(a);
            x[h * DK + 2 * i + 1] = p * sin(a) + q * cos(a);
        }
}
T_FN void plain_model(const weights *w, const unsigned char *route, double *logits, double *keys)
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

T_FN void model_rank(int rank, void *arg)
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

T_FN int run_model(run *r, const tiny_local_desc *line)
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
T_FN void forget(run *r)
{
    int i;
    for (i = 0; i < r->world; i++) { free(r->state[i]); r->state[i] = NULL; }
}
T_FN int all_ok(const run *r)
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
T_FN float key_at(const run *r, int l, int t, int i)
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
T_FN double apart(const float *a, const double *b, int n)
{
    double off = 0.0;
    int i;
    for (i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (!(d <= off)) off = d;
    }
    return off;
}
#endif
