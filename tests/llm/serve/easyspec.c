/* tests/llm/serve/easyspec.c - drafts whose layers are computed side by side
 *
 * Truth    the forward pass of a llama model written out in double, in the order of the paper; the exact pass for
 *          groups of one, bit for bit; the text without a draft; a cache that was computed afresh; counted messages.
 * The deep model is the small story model with its middle layers repeated: eight layers. */
#include "t.h"

static const char big[] = "examples/models/story.gguf", small[] = "examples/models/story-small.gguf";
enum { V = TLLM_STORY_VOCAB, D = 128, HEADS = 4, KV = 2, DH = 32, FF = 256, LAYERS = 8, TOKENS = 7 };
static const int source[LAYERS] = { 0, 1, 2, 1, 2, 1, 2, 3 };

/* ---- the deep model ---- */

typedef struct deep { tiny_ctx *ctx; tllm_gguf *from; tllm_writer *w; const void *bytes; size_t n; } deep;
enum { PLAIN, OTHER_TOKENS, NO_NUMBERS };
static const tllm_gguf_tensor *tensor_of(const tllm_gguf *g, int layer, const char *name)
{
    char full[64];
    if (layer < 0) (void)snprintf(full, sizeof full, "%s.weight", name);
    else (void)snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    return tllm_gguf_tensor_find(g, full);
}
static deep deep_open(int kind)
{
    static const char *const each[] = { "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                                        "ffn_gate", "ffn_up", "ffn_down" };
    static float nan_norm[D];
    static tllm_text words[V];
    const tllm_meta *tokens;
    deep m;
    size_t i, k;
    memset(&m, 0, sizeof m);
    m.ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_OK(tllm_gguf_open(m.ctx, small, &m.from));
    T_OK(tllm_writer_open(m.ctx, NULL, &m.w));
    for (i = 0; i < tllm_gguf_n_meta(m.from); i++) T_OK(tllm_writer_put_meta(m.ctx, m.w, tllm_gguf_meta_at(m.from, i)));
    T_OK(tllm_writer_put_u32(m.ctx, m.w, "llama.block_count", LAYERS));
    tokens = tllm_gguf_find(m.from, "tokenizer.ggml.tokens");
    if (kind == OTHER_TOKENS && T_TRUE(tokens && tokens->count == V)) {
        for (i = 0; i < V; i++) T_TRUE(tllm_meta_text(tokens, i, &words[i]));
        words[333].at = "another";
        words[333].n = 7;
        T_OK(tllm_writer_put_array(m.ctx, m.w, "tokenizer.ggml.tokens", TLLM_STRING, words, V));
    }
    for (i = 0; i < D; i++) nan_norm[i] = (float)NAN;
    for (i = 0; i < tllm_gguf_n_tensors(m.from); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(m.from, i);
        if (t->name.n < 4 || memcmp(t->name.at, "blk.", 4))
            T_OK(tllm_writer_put_tensor(m.ctx, m.w, t->name, t->type, t->rank, t->dim,
                                        kind == NO_NUMBERS && t->rank == 1 ? (const void *)nan_norm : t->data));
    }
    for (i = 0; i < LAYERS; i++)
        for (k = 0; k < T_COUNT(each); k++) {
            const tllm_gguf_tensor *t = tensor_of(m.from, source[i], each[k]);
            char name[64];
            tllm_text text;
            (void)snprintf(name, sizeof name, "blk.%d.%s.weight", (int)i, each[k]);
            text.at = name;
            text.n = strlen(name);
            if (T_TRUE(t != NULL)) T_OK(tllm_writer_put_tensor(m.ctx, m.w, text, t->type, t->rank, t->dim, t->data));
        }
    T_OK(tllm_writer_finish(m.ctx, m.w));
    m.bytes = tllm_writer_memory(m.w, &m.n);
    return m;
}
static void deep_close(deep *m)
{
    tllm_writer_close(m->ctx, m->w);
    tllm_gguf_close(m->ctx, m->from);
    t_close(m->ctx);
}
static tllm_session *deep_session(tiny_ctx *ctx, const deep *m, int exact, tiny_idx n_seq)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = 128;
    d.exact = exact;
    d.n_seq = n_seq;
    T_OK(tllm_session_open_memory(ctx, m->bytes, m->n, &d, &s));
    return s;
}
static tllm_session *opened(tiny_ctx *ctx, const char *path, tiny_idx n_seq)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.exact = 1;
    d.n_seq = n_seq;
    T_OK(tllm_session_open(ctx, path, &d, &s));
    return s;
}
static tllm_easyspec *fuzzy_of(tllm_session *s, int n, int no_calibration)
{
    tllm_easyspec_desc d;
    tllm_easyspec *e = NULL;
    memset(&d, 0, sizeof d);
    d.n = n;
    d.no_calibration = no_calibration;
    T_OK(tllm_easyspec_open(s, &d, &e));
    return e;
}

/* ---- the formula ---- */

static float *weights(const tllm_gguf *g, int layer, const char *name, size_t n)
{
    const tllm_gguf_tensor *t = tensor_of(g, layer, name);
    float *w = (float *)t_keep(n * sizeof *w);
    if (T_TRUE(t != NULL)) {
        if (t->type == TLLM_FORMAT_F32) memcpy(w, t->data, n * sizeof *w);
        else tllm_format_of(t->type)->unpack(t->data, w, n);
    }
    return w;
}
static void times(double *y, const float *w, const double *x, int n_out, int n_in)
{
    int i, j;
    for (i = 0; i < n_out; i++)
        for (j = 0, y[i] = 0.0; j < n_in; j++) y[i] += (double)w[i * n_in + j] * x[j];
}
static void normed(double *y, const float *g, const double *x)
{
    double s = 0.0;
    int i;
    for (i = 0; i < D; i++) s += x[i] * x[i];
    for (i = 0; i < D; i++) y[i] = (double)g[i] * x[i] / sqrt(s / D + 1e-5);
}
typedef struct ref_layer {
    float *n1, *q, *k, *v, *o, *n2, *gate, *up, *down;
    double keys[TOKENS][KV * DH], values[TOKENS][KV * DH];
} ref_layer;
static void turned(double *x, int n_head, int pos)
{
    int h, i;
    for (h = 0; h < n_head; h++)
        for (i = 0; i < DH / 2; i++) {
            const double a = pos * pow(10000.0, -2.0 * i / DH), c = cos(a), s = sin(a), x0 = x[h * DH + 2 * i],
                         x1 = x[h * DH + 2 * i + 1];
            x[h * DH + 2 * i] = x0 * c - x1 * s;
            x[h * DH + 2 * i + 1] = x0 * s + x1 * c;
        }
}
static void attention(ref_layer *l, double *y, const double *x, int pos)
{
    double h[D], q[HEADS * DH], o[HEADS * DH], p[TOKENS];
    int i, t, a;
    normed(h, l->n1, x);
    times(q, l->q, h, HEADS * DH, D);
    times(l->keys[pos], l->k, h, KV * DH, D);
    times(l->values[pos], l->v, h, KV * DH, D);
    turned(q, HEADS, pos);
    turned(l->keys[pos], KV, pos);
    for (a = 0; a < HEADS; a++) {
        const int kv = a / (HEADS / KV) * DH;
        double sum = 0.0, most = -1e300;
        for (t = 0; t <= pos; t++) {
            for (i = 0, p[t] = 0.0; i < DH; i++) p[t] += q[a * DH + i] * l->keys[t][kv + i];
            p[t] /= sqrt((double)DH);
            if (p[t] > most) most = p[t];
        }
        for (t = 0; t <= pos; t++) sum += p[t] = exp(p[t] - most);
        for (i = 0; i < DH; i++)
            for (t = 0, o[a * DH + i] = 0.0; t <= pos; t++) o[a * DH + i] += p[t] / sum * l->values[t][kv + i];
    }
    times(y, l->o, o, D, HEADS * DH);
}
static void network(const ref_layer *l, double *x)
{
    double h[D], g[FF], u[FF], y[D];
    int i;
    normed(h, l->n2, x);
    times(g, l->gate, h, FF, D);
    times(u, l->up, h, FF, D);
    for (i = 0; i < FF; i++) u[i] *= g[i] / (1.0 + exp(-g[i]));
    times(y, l->down, u, D, FF);
    for (i = 0; i < D; i++) x[i] += y[i];
}

static void test_formula(void)
{
    static const int32_t token[TOKENS] = { 1, 300, 411, 290, 12, 500, 333 };
    static ref_layer l[LAYERS];
    deep m = deep_open(PLAIN);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *embd = weights(m.from, -1, "token_embd", V * D), *norm = weights(m.from, -1, "output_norm", D), *out;
    int n, i, j, k, t;
    out = tensor_of(m.from, -1, "output") ? weights(m.from, -1, "output", V * D) : embd;
    for (i = 0; i < LAYERS; i++) {
        l[i].n1 = weights(m.from, source[i], "attn_norm", D);
        l[i].q = weights(m.from, source[i], "attn_q", HEADS * DH * D);
        l[i].k = weights(m.from, source[i], "attn_k", KV * DH * D);
        l[i].v = weights(m.from, source[i], "attn_v", KV * DH * D);
        l[i].o = weights(m.from, source[i], "attn_output", D * HEADS * DH);
        l[i].n2 = weights(m.from, source[i], "ffn_norm", D);
        l[i].gate = weights(m.from, source[i], "ffn_gate", FF * D);
        l[i].up = weights(m.from, source[i], "ffn_up", FF * D);
        l[i].down = weights(m.from, source[i], "ffn_down", D * FF);
    }
    for (n = 1; n <= 4; n++) {              /* 6 middle layers: 6, 3, 2 and 2 groups, the last of 4 and 2 layers */
        tllm_session *s = deep_session(ctx, &m, 0, 0);
        tllm_easyspec *e = fuzzy_of(s, n, 0);
        tllm_easyspec_counts c;
        T_OK(tllm_easyspec_fuzzy(e, 1));
        for (t = 0; t < TOKENS; t++) {
            double x[D], a[4][D], h[D], want[V], size = 0.0, off = 0.0;
            const float *got = NULL;
            T_OK(tllm_session_feed(s, &token[t], 1, &got));
            for (j = 0; j < D; j++) x[j] = (double)embd[token[t] * D + j];
            for (i = 0; i < LAYERS; i += k) {
                k = i == 0 || i == LAYERS - 1 ? 1 : TINYI_MIN(n, LAYERS - 1 - i);
                for (j = 0; j < k; j++) attention(&l[i + j], a[j], x, t);       /* all read the same x */
                for (j = 0; j < k; j++) {
                    int d;
                    for (d = 0; d < D; d++) x[d] += a[j][d];
                    network(&l[i + j], x);
                }
            }
            normed(h, norm, x);
            times(want, out, h, V, D);
            for (j = 0; got && j < V; j++) {
                size = fmax(size, fabs(want[j]));
                off = fmax(off, fabs(want[j] - (double)got[j]));
            }
            T_TRUE(off < 2e-5 * size && size > 1.0);
        }
        tllm_easyspec_count(e, &c);
        T_TRUE(c.fuzzy == TOKENS && !c.exact && c.groups == (uint64_t)(TOKENS * ((6 + n - 1) / n)));
        tllm_easyspec_close(e);
        tllm_session_close(s);
    }
    T_PROOF("serving 3", "fuzzy groups of 1 to 4 layers are the formula, written out in double");
    T_CLOSE(tllm_easyspec_path(16, 1, 1.0, 2.0), 48.0, 0.0);
    T_CLOSE(tllm_easyspec_path(16, 4, 1.0, 2.0), 38.0, 0.0);
    T_CLOSE(tllm_easyspec_path(16, 1, 3.0, 2.0), 80.0, 0.0);
    T_CLOSE(tllm_easyspec_path(16, 4, 3.0, 2.0), 50.0, 0.0);
    T_TRUE(tllm_easyspec_path(0, 4, 1.0, 1.0) <= 0.0 && tllm_easyspec_path(1, 4, 1.0, 2.0) > 2.9);
    T_PROOF("serving 3", "critical path of 16 layers in groups of 4: 48 to 38, 80 to 50");
    t_close(ctx);
    deep_close(&m);
}

/* Groups of one give the bits of the model; groups of two give the same on one thread and on two. */
static void test_bits(tiny_target target)
{
    static const int32_t token[5] = { 1, 300, 411, 290, 12 };
    static float want[5][V], two[5][V];
    deep m = deep_open(PLAIN);
    int run, t;
    for (run = 0; run < 5; run++) {         /* exact; 1 and 2 threads in groups of one; in groups of two */
        tiny_ctx *ctx = t_ctx(target, run == 2 || run == 4 ? 2 : 1);
        tllm_session *s = deep_session(ctx, &m, 1, 0);
        tllm_easyspec *e = run ? fuzzy_of(s, run < 3 ? 1 : 2, 0) : NULL;
        const float *got = NULL;
        double off = 0.0;
        int i;
        if (e) T_OK(tllm_easyspec_fuzzy(e, 1));
        for (t = 0; t < 5; t++) {
            T_OK(tllm_session_feed(s, &token[t], 1, &got));
            if (!got) break;
            if (!run) memcpy(want[t], got, sizeof want[t]);
            else if (run < 3) T_SAME(got, want[t], V);
            else if (run == 3) memcpy(two[t], got, sizeof two[t]);
            else T_SAME(got, two[t], V);
            for (i = 0; run == 3 && i < V; i++) off = fmax(off, fabs((double)got[i] - (double)want[t][i]));
        }
        if (run == 3) T_TRUE(off > 0.1);    /* another function */
        tllm_easyspec_close(e);
        if (run == 4) {                     /* closed: the model again */
            T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
            T_OK(tllm_session_feed(s, token, 5, &got));
            if (got) T_SAME(got, want[4], V);
        }
        tllm_session_close(s);
        t_close(ctx);
    }
    T_PROOF("serving 3", "fuzzy groups of N = 1 are exact, bit for bit; on two threads the bits of one");
    deep_close(&m);
}

/* ---- drafts ---- */

static int same_bytes(tiny_ctx *ctx, tllm_session *a, tllm_session *b)
{
    void *x = NULL, *y = NULL;
    size_t n = 0, k = 0;
    int same;
    T_OK(tllm_state_pack(tllm_session_state(a), 0, NULL, 0, &x, &n));
    T_OK(tllm_state_pack(tllm_session_state(b), 0, NULL, 0, &y, &k));
    same = x && y && n == k && !memcmp(x, y, n);
    tiny_free(ctx, x);
    tiny_free(ctx, y);
    return same;
}

/* sum min(p, q): the share of proposals from q that p keeps */
static double overlap(const float *a, const float *b)
{
    double p[V], q[V], sp = 0.0, sq = 0.0, sum = 0.0;
    int i;
    for (i = 0; i < V; i++) {
        sp += p[i] = exp((double)a[i]);
        sq += q[i] = exp((double)b[i]);
    }
    for (i = 0; i < V; i++) sum += fmin(p[i] / sp, q[i] / sq);
    return sum;
}

/* A fuzzy step after exact ones, and one after fuzzy ones, by the number of tokens before it. */
static void test_length(void)
{
    enum { LONG = 224, PART = LONG / 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, big, 0), *m = opened(ctx, big, 0), *far = opened(ctx, big, 0);
    tllm_easyspec *e = fuzzy_of(m, 2, 0), *all = fuzzy_of(far, 2, 0);
    double fresh[4] = { 0 }, kept[4] = { 0 };
    tllm_story story = tllm_story_start(77);
    int32_t t = TLLM_STORY_END;
    int i;
    T_OK(tllm_easyspec_fuzzy(all, 1));
    for (i = 0; i < LONG && s && m && far; i++) {
        const float *exact = NULL, *x = NULL;
        int tag;
        double bits;
        T_OK(tllm_session_feed(s, &t, 1, &exact));
        T_OK(tllm_easyspec_fuzzy(e, 1));
        T_OK(tllm_session_feed(m, &t, 1, &x));
        if (exact && x) fresh[i / PART] += overlap(exact, x) / PART;
        T_OK(tllm_session_trim(m, (size_t)i));
        T_OK(tllm_easyspec_fuzzy(e, 0));
        T_OK(tllm_session_feed(m, &t, 1, NULL));
        T_OK(tllm_session_feed(far, &t, 1, &x));
        if (exact && x) kept[i / PART] += overlap(exact, x) / PART;
        t = tllm_story_draw(&story, &bits, &tag);
    }
    for (i = 0; i < 4; i++) T_TRUE(fresh[i] > 0.8 && fresh[i] <= 1.0 && kept[i] < fresh[i]);
    /* with calibration the share does not depend on the length; without it, less and less is kept */
    T_TRUE(3.0 * (fresh[0] - kept[0]) < fresh[1] - kept[1] + fresh[2] - kept[2] + fresh[3] - kept[3]);
    T_TRUE(kept[3] < kept[0]);
    T_PROOF("serving 3", "without calibration fewer proposals are kept the longer the text: 1 - TV by its quarters");
    tllm_easyspec_close(all);
    tllm_easyspec_close(e);
    tllm_session_close(far);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

static void test_drafts(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_session *s = opened(ctx, big, 17), *m = opened(ctx, big, 15);
    tllm_generate_desc g;
    int32_t plain[200];
    size_t n = 0, n_plain = 0;
    double share[3] = { 0 };
    int run;
    memset(&g, 0, sizeof g);
    if (!s || !m) { t_close(ctx); return; }
    g.n_most = 160;
    g.past_end = 1;
    T_OK(tllm_generate(s, "One day", 7, &g, NULL));
    memcpy(plain, tllm_session_tokens(s, &n_plain), 160 * sizeof *plain);
    for (run = 0; run < 6; run++) {         /* groups of 1, 2, 2 without calibration, 2 in trees, where they pay */
        tllm_easyspec *e = fuzzy_of(m, run ? 2 : 1, run == 2);
        tllm_easyspec_counts f;
        tllm_draft_counts c;
        tllm_draft_desc d;
        memset(&d, 0, sizeof d);
        d.model = m;
        d.n = 4;
        d.always = run < 4;
        if (run == 3 || run == 5) T_OK(tllm_draft_tree_open(s, &d, 2, 0, &g.draft));
        else T_OK(tllm_draft_open(s, &d, &g.draft));
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_session_set(m, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "One day", 7, &g, NULL));
        T_TRUE(!memcmp(plain, tllm_session_tokens(s, &n), 160 * sizeof *plain) && n == n_plain);
        tllm_draft_count(g.draft, &c);
        tllm_easyspec_count(e, &f);
        if (run < 4) T_TRUE(f.fuzzy > f.exact && f.exact >= c.passes - 1);
        if (run < 3) share[run] = (double)c.kept / (double)c.proposed;
        if (run == 1) {                     /* all but the last proposals of the cache is that of a fresh one */
            tllm_session *fresh = opened(ctx, big, 0);
            const int32_t *held = tllm_session_tokens(m, &n);
            T_OK(tllm_session_feed(fresh, held, n - 3, NULL));
            T_OK(tllm_session_trim(m, n - 3));
            T_TRUE(same_bytes(ctx, m, fresh));
            tllm_session_close(fresh);
        }
        tllm_draft_close(g.draft);
        tllm_easyspec_close(e);
    }
    T_PROOF("serving 3", "the text with a fuzzy draft is that without: chains, trees, with and without calibration");
    T_PROOF("serving 3", "after calibration the draft's cache equals a freshly computed one, byte for byte");
    T_TRUE(share[0] > 0.97);                /* the model proposes its own tokens */
    T_TRUE(share[1] > 0.3 && share[1] < share[0]);
    T_TRUE(share[2] < share[1]);
    T_PROOF("serving 3", "without calibration fewer proposals are kept");
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

/* ---- ranks ---- */

enum { RANKS = 3, MADE = 60 };
typedef struct group {
    int world, tcp, n, mode, leaves, other;             /* leaves: rank 1 ends after it opened; other: it differs */
    tiny_local *local;
    tiny_socket at[RANKS];
    char address[RANKS][TINY_ADDRESS_TEXT];
    const char *peers[RANKS];
    tiny_status st[RANKS];
    char says[RANKS][240];
    int32_t text[MADE];
    tllm_draft_counts kept;
    tllm_easyspec_counts count[RANKS];
    uint64_t messages[RANKS];
} group;

static void rank_main(int rank, void *arg)
{
    static const char secret[] = "correct horse battery staple";
    group *j = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp *tcp = NULL;
    tiny_net *net = NULL;
    tllm_session *s = NULL, *m = NULL;
    tllm_easyspec_desc ed;
    tllm_easyspec *e = NULL;
    tllm_draft_desc d;
    tllm_generate_desc g;
    tllm_state_desc sd;
    tiny_status st = TINY_OK;
    size_t n = 0;
    int i;
    memset(&ed, 0, sizeof ed);
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    memset(&sd, 0, sizeof sd);
    if (j->tcp) {
        tiny_tcp_desc td;
        memset(&td, 0, sizeof td);
        td.rank = rank;
        td.world = j->world;
        td.peers = j->peers;
        td.listener = j->at[rank];
        td.secret = secret;
        td.n_secret = sizeof secret - 1;
        st = tiny_tcp_open(ctx, &td, &tcp);
        net = st ? NULL : tiny_tcp_net(tcp);
    } else net = tiny_local_net(j->local, rank);
    sd.exact = 1;
    sd.n_batch = 32;
    if (!st) st = tllm_session_open(ctx, big, &sd, &m);
    if (!st && !rank) st = tllm_session_open(ctx, big, &sd, &s);
    ed.n = j->n + (j->other && rank == 1);
    ed.mode = j->mode;
    ed.net = net;
    if (!st) st = tllm_easyspec_open(m, &ed, &e);
    if (!st && rank && !(j->leaves && rank == 1)) st = tllm_easyspec_follow(e);
    if (!st && !rank) {
        d.model = m;
        d.n = 4;
        d.always = 1;
        st = tllm_draft_open(s, &d, &g.draft);
        g.n_most = MADE;
        g.past_end = 1;
        if (!st) st = tllm_generate(s, "One day", 7, &g, NULL);
        tllm_draft_count(g.draft, &j->kept);
        if (!st) memcpy(j->text, tllm_session_tokens(s, &n), MADE * sizeof *j->text);
        tllm_draft_close(g.draft);
    }
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_easyspec_count(e, &j->count[rank]);
    tllm_easyspec_close(e);
    j->st[rank] = st;
    for (i = 0; net && i < j->world; i++) j->messages[rank] += net->count[i].messages_sent;
    if (net) {
        net->why = st;
        net->close(net);
    }
    tllm_session_close(s);
    tllm_session_close(m);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

/* 0: there are no threads */
static int run_group(group *j, int world, int virtual_clock)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    j->world = world;
    for (i = 0; j->tcp && i < world; i++) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
        j->at[i] = at[0];
        tiny_address_text(&a, j->address[i]);
        j->peers[i] = j->address[i];
    }
    if (!j->tcp) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = world;
        d.virtual_clock = virtual_clock;
        d.latency_ns = virtual_clock ? 1000000 : 0;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    ok = ok && t_ranks(world, rank_main, j);
    tiny_local_close(ctx, j->local);
    for (i = 0; j->tcp && i < world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}

static void test_ranks(void)
{
    static const struct { int world, tcp, n, mode, clock; } each[] = {
        { 2, 0, 2, TLLM_EASYSPEC_REPEAT, 1 }, { 2, 1, 2, TLLM_EASYSPEC_REPEAT, 0 },
        { 3, 0, 1, TLLM_EASYSPEC_REPEAT, 0 }, { 2, 0, 2, TLLM_EASYSPEC_SPLIT, 1 },
        { 2, 0, 1, TLLM_EASYSPEC_REPEAT, 1 },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, big, 0), *m = opened(ctx, big, 0);
    tllm_easyspec *e = fuzzy_of(m, 2, 0);
    tllm_draft_desc d;
    tllm_generate_desc g;
    tllm_draft_counts alone;
    int32_t plain[MADE];
    group *j = (group *)t_keep(sizeof *j);
    size_t n, k;
    int r;
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    g.n_most = MADE;
    g.past_end = 1;
    T_OK(tllm_generate(s, "One day", 7, &g, NULL));
    memcpy(plain, tllm_session_tokens(s, &n), sizeof plain);
    d.model = m;
    d.always = 1;
    T_OK(tllm_draft_open(s, &d, &g.draft));
    T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
    T_OK(tllm_generate(s, "One day", 7, &g, NULL));
    tllm_draft_count(g.draft, &alone);
    tllm_draft_close(g.draft);
    tllm_easyspec_close(e);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
    for (k = 0; k < T_COUNT(each); k++) {
        const tllm_easyspec_counts *c = &j->count[0];
        memset(j, 0, sizeof *j);
        j->tcp = each[k].tcp;
        j->n = each[k].n;
        j->mode = each[k].mode;
        if (!run_group(j, each[k].world, each[k].clock)) return;
        for (r = 0; r < each[k].world; r++)
            if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d: %s\n", r, j->says[r]);
        T_SAME(j->text, plain, MADE);
        if (each[k].n == 2 && each[k].mode == TLLM_EASYSPEC_REPEAT)
            T_TRUE(j->kept.kept == alone.kept && j->kept.proposed == alone.proposed);
        /* one command for each piece, one gather for each group, one sum for each network of a group */
        T_TRUE(c->commands == c->exact + c->fuzzy && c->gathers == c->groups);
        T_EQ_INT(c->groups, each[k].n == 2 ? c->fuzzy : 2 * c->fuzzy);
        T_EQ_INT(c->sums, each[k].mode == TLLM_EASYSPEC_SPLIT ? 2 * c->fuzzy : 0);
        for (r = 1; r < each[k].world; r++)
            T_TRUE(j->count[r].fuzzy == c->fuzzy && j->count[r].exact == c->exact && j->count[r].gathers == c->gathers);
        /* Rank 1 is one latency behind after the command and one ahead after the next exchange, and so on: a pass takes
         * as many latencies as groups and sums, up to an even number. To agree at the start takes two. */
        if (each[k].clock)
            T_EQ_INT(c->clock / 1000000, 2 + 2 * c->fuzzy * (((c->groups + c->sums) / c->fuzzy + 1) / 2));
    }
    T_PROOF("serving 3", "fuzzy drafts over 2 and 3 ranks, threads and TCP: text and proposals of one process");
    T_PROOF("serving 3", "messages: one all-gather for each group; 1 / (2 N) of tensor parallelism");
    /* a rank that ends; ranks that differ */
    memset(j, 0, sizeof *j);
    j->n = 2;
    j->leaves = 1;
    if (!run_group(j, 2, 0)) return;
    T_TRUE(j->st[0] == TINY_E_PEER && *j->says[0] && j->st[1] == TINY_OK);
    memset(j, 0, sizeof *j);
    j->n = 2;
    j->other = 1;
    if (!run_group(j, 2, 0)) return;
    T_TRUE(j->st[0] == TINY_E_PROTOCOL && strstr(j->says[0], "different models, groups or sizes"));
    T_TRUE(j->st[1] == TINY_E_PROTOCOL && strstr(j->says[1], "different models, groups or sizes"));
}

/* A draft with other words is refused, and one that gives no numbers when it does so. */
static void test_bad_drafts(void)
{
    deep other = deep_open(OTHER_TOKENS), nan_model = deep_open(NO_NUMBERS);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, small, 17), *m = deep_session(ctx, &other, 1, 15);
    const tllm_step chain[1] = { tllm_step_temperature(0.8f) };
    tllm_draft_desc d;
    tllm_draft *a = NULL;
    tllm_generate_desc g;
    int32_t plain[40];
    size_t n = 0;
    int run;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    d.model = m;
    d.n = 4;
    d.always = 1;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "token 333 of the draft is another text");
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT, "token 333 of the draft is another text");
    tllm_session_close(m);
    d.model = m = deep_session(ctx, &nan_model, 1, 15);
    g.n_most = 40;
    g.past_end = 1;
    g.chain = chain;
    g.n_steps = 1;
    T_OK(tllm_generate(s, "One day", 7, &g, NULL));
    memcpy(plain, tllm_session_tokens(s, &n), sizeof plain);
    for (run = 0; run < 4; run++) {         /* chains and trees, by both rules; the session goes on without them */
        d.rule = run < 2 ? TLLM_DRAFT_SAME : TLLM_DRAFT_MOST;
        T_OK(run % 2 ? tllm_draft_tree_open(s, &d, 2, 0, &g.draft) : tllm_draft_open(s, &d, &g.draft));
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_STATUS(tllm_generate(s, "One day", 7, &g, NULL), TINY_E_NUMERIC, "the logit of token 0 is nan");
        tllm_draft_close(g.draft);
        g.draft = NULL;
        T_OK(tllm_generate(s, "One day", 7, &g, NULL));
        T_SAME(tllm_session_tokens(s, &n), plain, 40);
    }
    T_PROOF("serving 3", "bad input: other vocabularies, drafts whose logits are NaN");
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
    deep_close(&nan_model);
    deep_close(&other);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_session *s = opened(ctx, small, 0), *gla = NULL;
    tllm_easyspec_desc d;
    tllm_easyspec *e = (tllm_easyspec *)&d;
    tllm_easyspec_counts c;
    T_OK(tllm_session_open(ctx, "examples/models/story-gla.gguf", NULL, &gla));
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_easyspec_open(NULL, &d, &e), TINY_E_ARGUMENT, NULL);
    T_TRUE(!e);
    T_STATUS(tllm_easyspec_open(s, &d, NULL), TINY_E_ARGUMENT, "result pointer");
    d.n = 33;
    T_STATUS(tllm_easyspec_open(s, &d, &e), TINY_E_ARGUMENT, "a group has 1 to 32 layers, not 33");
    d.n = -1;
    T_STATUS(tllm_easyspec_open(s, &d, &e), TINY_E_ARGUMENT, "not -1");
    d.n = 0;
    d.mode = 5;
    T_STATUS(tllm_easyspec_open(s, &d, &e), TINY_E_ARGUMENT, "no mode 5");
    d.mode = TLLM_EASYSPEC_SPLIT;
    T_STATUS(tllm_easyspec_open(s, &d, &e), TINY_E_ARGUMENT, "need several ranks");
    d.mode = TLLM_EASYSPEC_REPEAT;
    T_STATUS(tllm_easyspec_open(gla, &d, &e), TINY_E_UNSUPPORTED, "cannot be computed side by side");
    T_OK(tllm_easyspec_open(s, NULL, &e));
    {
        tllm_easyspec *again = e;
        T_STATUS(tllm_easyspec_open(s, &d, &again), TINY_E_ARGUMENT, "has fuzzy layers already");
        T_TRUE(!again);
    }
    T_STATUS(tllm_easyspec_follow(e), TINY_E_ARGUMENT, "only ranks above 0 follow");
    T_STATUS(tllm_easyspec_follow(NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_easyspec_fuzzy(NULL, 1), TINY_E_ARGUMENT, NULL);
    tllm_easyspec_count(NULL, &c);
    T_TRUE(!c.exact && !c.fuzzy);
    tllm_easyspec_count(e, NULL);
    tllm_easyspec_close(e);
    tllm_easyspec_close(NULL);
    tllm_session_close(gla);
    tllm_session_close(s);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_formula);
    T_RUN_FORMS(test_bits);
    T_RUN(test_length);
    T_RUN(test_drafts);
    T_RUN(test_ranks);
    T_RUN(test_bad_drafts);
    T_RUN(test_refused);
    return t_done();
}
