/* tests/llm/model/sequences.c - many sequences in one state
 *
 * Truth    a sequence alone in a state of its own; positions of rotary models, of which only differences matter; for
 *          caches of fewer bits a pass in double that rounds keys and values itself. */
#include "t.h"
#include "llm/model/opened.h"

enum { STORY_VOCAB = 544 };

static tllm_state *open_state(model_at *m, tiny_idx n_ctx, tiny_idx n_seq, tiny_idx n_page, int type_k, int type_v)
{
    tllm_state_desc d;
    tllm_state *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.n_seq = n_seq;
    d.n_page = n_page;
    d.type_k = type_k;
    d.type_v = type_v;
    T_OK(tllm_state_open(m->ctx, m->model, &d, &s));
    return s;
}
static tllm_item item(int32_t token, int seq, int64_t pos, int want)
{
    tllm_item x;
    x.token = token;
    x.seq = (int32_t)seq;
    x.pos = pos;
    x.want = want;
    return x;
}
static int32_t token_of(const model_at *m, int i) { return (int32_t)(1 + (i * 37 + 11) % (int)(m->about.n_vocab - 1)); }

enum { SEQ = 3, LEN = 9 };

/* Three sequences of different lengths, in pieces that interleave them, then a fork of each: as if each were alone, bit
 * for bit. */
static void alone_and_together(model_at *m, const char *name)
{
    const size_t V = (size_t)m->about.n_out;
    const int32_t source[3] = { 3, 1, 2 };
    tllm_state *all = open_state(m, 24, SEQ + 2, 4, 0, 0), *one = open_state(m, 24, 1, 0, 0, 0);
    float *want = (float *)t_keep(SEQ * LEN * V * sizeof *want), *got = (float *)t_keep(SEQ * LEN * V * sizeof *got),
          *last = (float *)t_keep(2 * V * sizeof *last);
    tllm_item batch[SEQ * LEN];
    int s, i, n = 0, k = 0, length[SEQ] = { LEN, LEN - 2, LEN - 5 }, bad = 0;
    if (!all || !one) return;
    if (m->about.has_decoder) {
        T_OK(tllm_forward_all(all, source, 3, NULL));
        T_OK(tllm_forward_all(one, source, 3, NULL));
    }
    for (s = 0; s < SEQ; s++) {
        int32_t tokens[LEN];
        for (i = 0; i < length[s]; i++) tokens[i] = token_of(m, 100 * s + i);
        tllm_state_clear(one);
        T_OK(tllm_forward(one, tokens, length[s], 0, length[s], want + (size_t)(s * LEN) * V));
    }
    /* the first five tokens of 0 and 1 in two pieces, then all in turns */
    for (i = 0; i < 5; i++) batch[n++] = item(token_of(m, i), 0, i, 0);
    for (i = 0; i < 3; i++) batch[n++] = item(token_of(m, 100 + i), 1, -1, 0);
    T_OK(tllm_forward_batch(all, batch, n, NULL));
    n = 0;
    for (i = 0; i < LEN; i++)
        for (s = 0; s < SEQ; s++) {
            const int first = s == 0 ? 5 : s == 1 ? 3 : 0;
            if (first + i < length[s]) batch[n++] = item(token_of(m, 100 * s + first + i), s, first + i, 1);
        }
    T_OK(tllm_forward_batch(all, batch, n, got));
    for (i = 0; i < n; i++, k++)
        bad +=
            memcmp(got + (size_t)k * V, want + (size_t)(batch[i].seq * LEN + batch[i].pos) * V, V * sizeof *got) != 0;
    for (s = 0; s < SEQ; s++) bad += tllm_seq_length(all, s) != length[s];
    /* forks continue as their parent would have, and the parent is unaffected */
    T_OK(tllm_seq_fork(all, 0, 3));
    T_OK(tllm_seq_fork(all, 3, 4));
    {
        tllm_item two[2];
        two[0] = item(5, 3, -1, 1);
        two[1] = item(7, 4, -1, 1);
        T_OK(tllm_forward_batch(all, two, 2, got));
        two[0] = item(7, 0, -1, 1);
        T_OK(tllm_forward_batch(all, two, 1, last));
        bad += memcmp(last, got + V, V * sizeof *got) != 0;
        for (i = 0; i < LEN; i++) {
            int32_t t = token_of(m, i);
            if (i == 0) tllm_state_clear(one);
            T_OK(tllm_forward(one, &t, 1, i, 0, NULL));
        }
        T_OK(tllm_forward(one, &two[1].token, 1, LEN, 1, last));
        bad += memcmp(last, got + V, V * sizeof *got) != 0;
    }
    if (bad) {
        t_fail(__FILE__, __LINE__, "a sequence is the same among others and alone");
        printf("  %s: %d differ\n", name, bad);
    }
    tllm_state_close(m->ctx, all);
    tllm_state_close(m->ctx, one);
}

static void test_every_architecture(void)
{
    const char *path = t_shared("oracle/llm/index.tsv");
    char *line = (char *)t_keep(65536), *names = (char *)t_keep(256 * 64), full[300];
    int n = 0, skipped = 0, give_text = 0, n_name = 0, k, i;
    /* the large oracle if present, then the models that only tests/golden has */
    for (k = 0; k < 2; k++) {
        FILE *f = k ? fopen("tests/golden/oracle/llm/index.tsv", "r") : path ? fopen(path, "r") : NULL;
        while (f && fgets(line, 65536, f) && n_name < 256) {
            model_at m;
            char *tab = strchr(line, '\t'), *name = names + n_name * 64;
            if (!tab || !strncmp(line, "name\t", 5)) continue;
            *tab = 0;
            (void)snprintf(name, 64, "%.60s", line);
            for (i = 0; i < n_name && strcmp(names + i * 64, name); i++) {}
            if (i < n_name) continue;
            n_name++;
            tab = strchr(tab + 1, '\t');        /* the third column is the kind of output: lm and t5 are text */
            give_text += tab && (!strncmp(tab, "\tlm\t", 4) || !strncmp(tab, "\tt5\t", 4));
            (void)snprintf(full, sizeof full, "oracle/llm/%s.gguf", name);
            if (!open_at(&m, TINY_TARGET_REFERENCE, 1, full)) continue;
            if (m.about.is_encoder || m.about.output != TLLM_LOGITS) skipped++;
            else { alone_and_together(&m, name); n++; }
            close_at(&m);
        }
        if (f) (void)fclose(f);
    }
    if (path) {
        t_all_models(0);
        T_TRUE(n >= 20);
        T_EQ_INT(n, give_text);
        T_EQ_INT(n + skipped, n_name);
        printf("models: %d, and %d that give no text\n", n, skipped);
    }
}

/* Cut inside a block of keys and continued: as if the cut tokens had never been there. Blocks of deepseek4
 * are made of neighbours. */
static void test_blocks(void)
{
    static const char *const path[2] = { "oracle/llm/minimax-m3.gguf", "oracle/llm/deepseek4.gguf" };
    int k, i, cut;
    for (k = 0; k < 2; k++) {
        model_at m;
        tllm_state *s, *fresh;
        float *a, *b;
        int32_t tokens[40];
        if (!open_at(&m, TINY_TARGET_REFERENCE, 1, path[k])) return;
        s = open_state(&m, 64, 2, 4, 0, 0);
        fresh = open_state(&m, 64, 1, 16, 0, 0);
        a = (float *)t_keep((size_t)m.about.n_out * sizeof *a);
        b = (float *)t_keep((size_t)m.about.n_out * sizeof *b);
        for (cut = 9; cut < 30; cut += 5) {
            tllm_state_clear(s);
            tllm_state_clear(fresh);
            for (i = 0; i < 40; i++) tokens[i] = token_of(&m, 7 * cut + i);
            T_OK(tllm_forward(s, tokens, 40, 0, 0, NULL));
            T_OK(tllm_seq_trim(s, 0, cut));
            for (i = cut; i < 40; i++) tokens[i] = token_of(&m, 500 + i);
            T_OK(tllm_forward(s, tokens + cut, 40 - cut, cut, 1, a));
            T_OK(tllm_forward(fresh, tokens, 40, 0, 1, b));
            T_TRUE(!memcmp(a, b, (size_t)m.about.n_out * sizeof *a));
        }
        if (k) {
            t_use(m.ctx);
            T_STATUS(tllm_seq_copy(s, 0, 1, 3, 5), TINY_E_UNSUPPORTED, "made of neighbouring tokens");
            T_STATUS(tllm_seq_shift(s, 0, 4, 4), TINY_E_UNSUPPORTED, "made of neighbouring tokens");
            T_OK(tllm_seq_copy(s, 0, 1, 0, 17));
        }
        tllm_state_close(m.ctx, s);
        tllm_state_close(m.ctx, fresh);
        close_at(&m);
    }
}

/* Copied after a foreign sequence and moved back: tokens that never saw it are as if it had never been there. */
static int move_one(const char *path, int want_ok)
{
    model_at m;
    tllm_state *s;
    float *a, *b;
    int i, n = 6;
    double top = 0.0, off = 0.0;
    if (!open_at(&m, TINY_TARGET_REFERENCE, 1, path)) return 0;
    s = open_state(&m, 48, 4, 4, 0, 0);
    a = (float *)t_keep((size_t)m.about.n_out * sizeof *a);
    b = (float *)t_keep((size_t)m.about.n_out * sizeof *b);
    if (s) {
        tllm_item x[16];
        x[0] = item(9, 0, 0, 0);
        for (i = 0; i < n; i++) {
            x[1 + i] = item(token_of(&m, i), 1, 10 + i, 0);
            x[1 + n + i] = item(token_of(&m, i), 3, i, 0);
        }
        T_OK(tllm_forward_batch(s, x, 1 + 2 * n, NULL));
        T_OK(tllm_seq_copy(s, 0, 2, 0, 1));
        T_OK(tllm_seq_copy(s, 1, 2, 0, n));
        T_EQ_INT(tllm_seq_length(s, 2), n + 1);
        T_EQ_INT(tllm_seq_next(s, 2), 10 + n);
        if (want_ok) {
            T_OK(tllm_seq_fork(s, 2, 0));           /* its pages are shared: they must be copied before they change */
            T_OK(tllm_seq_shift(s, 2, 0, 1));
            T_EQ_INT(tllm_seq_next(s, 2), n);
            x[0] = item(5, 2, -1, 1);
            T_OK(tllm_forward_batch(s, x, 1, a));
            x[0] = item(5, 3, -1, 1);
            T_OK(tllm_forward_batch(s, x, 1, b));
            for (i = 0; i < m.about.n_out; i++) {
                top = fabs((double)b[i]) > top ? fabs((double)b[i]) : top;
                off = fabs((double)a[i] - (double)b[i]) > off ? fabs((double)a[i] - (double)b[i]) : off;
            }
            /* turning by 10 and back rounds each key three times more: 3 u of each, which grows by the layers' gains */
            if (!T_TRUE(off <= 2e-5 * (1.0 + top))) printf("  %s: off by %g of %g\n", path, off, top);
            T_EQ_INT(tllm_seq_next(s, 0), 10 + n);
        } else T_STATUS(tllm_seq_shift(s, 2, 0, 1), TINY_E_UNSUPPORTED, "cannot move to other positions");
        tllm_state_close(m.ctx, s);
    }
    close_at(&m);
    return 1;
}
static void test_copy_and_move(void)
{
    static const char *const moves[] = { "oracle/llm/llama.gguf",  "oracle/llm/qwen3.gguf",
                                         "oracle/llm/gemma2.gguf", "oracle/llm/gptneox-seq.gguf",
                                         "oracle/llm/bloom.gguf",  "oracle/llm/deepseek2.gguf" };
    size_t i;
    int n = 0;
    for (i = 0; i < T_COUNT(moves); i++) n += move_one(moves[i], 1);
    T_SOME(n);
    T_SOME(move_one("oracle/llm/gpt2.gguf", 0));
}

/* A common beginning of sequences takes no memory twice and changes nothing. */
static void test_share(void)
{
    model_at m;
    tllm_state *s;
    float a[2][STORY_VOCAB];
    int32_t tokens[20];
    tiny_idx n, before;
    int i;
    if (!open_at(&m, TINY_TARGET_REFERENCE, 1, story)) return;
    s = open_state(&m, 64, 3, 4, 0, 0);
    for (i = 0; i < 20; i++) tokens[i] = token_of(&m, i);
    T_OK(tllm_forward(s, tokens, 18, 0, 1, a[0]));
    T_OK(tllm_seq_share(s, 1, tokens, 18, &n));
    T_EQ_INT(n, 16);
    before = tllm_state_free_cells(s);
    for (i = (int)n; i < 18; i++) {
        tllm_item x = item(tokens[i], 1, i, 1);
        T_OK(tllm_forward_batch(s, &x, 1, a[1]));
    }
    T_SAME(a[0], a[1], STORY_VOCAB);
    T_EQ_INT(before - tllm_state_free_cells(s), 4);
    T_OK(tllm_seq_share(s, 2, tokens, 16, &n));     /* one is left to compute */
    T_EQ_INT(n, 12);
    tllm_seq_clear(s, 2);
    tokens[1]++;
    T_OK(tllm_seq_share(s, 2, tokens, 18, &n));
    T_EQ_INT(n, 0);
    /* moved cells have other positions than they were computed with: they are not found any more */
    tokens[1]--;
    T_OK(tllm_seq_shift(s, 0, 1, 3));
    tllm_seq_clear(s, 1);
    T_OK(tllm_seq_share(s, 2, tokens, 18, &n));
    T_EQ_INT(n, 0);
    tllm_state_close(m.ctx, s);
    close_at(&m);
}

/* ---- caches of fewer bits, against a pass in double that rounds keys and values itself --------------------------- */

/* llama.gguf, all F32 */
enum {
    WIDTH = 64,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = 16,
    ROW = KV_HEADS * HEAD,
    FF = 128,
    LAYERS = 2,
    VOCAB = 320,
    TEXT = 24
};

/* the smallest distance of a number from the next rounding boundary, in steps */
static double pass_margin;

/* a double as the nearest half float, ties to even, no denormals and none too large: scales of blocks are neither */
static double as_half(double x)
{
    int e;
    const double m = frexp(x, &e);
    return ldexp(rint(ldexp(m, 11)), e - 11);
}
static double code_of(double x, double lo, double hi)
{
    const double below = floor(x + 0.5), off = fabs(x + 0.5 - rint(x + 0.5));
    if (x > lo && x < hi && off < pass_margin) pass_margin = off;
    return below < lo ? lo : below > hi ? hi : below;
}
/* A row of 32 numbers by the format: Q8_0 has a scale of the largest of them over 127, Q4_0 the one of largest
 * size over -8 */
static void as_kept(double *x, int type)
{
    double top = 0.0, d;
    int i;
    if (type == TLLM_FORMAT_F32) return;
    for (i = 0; i < ROW; i++) if (fabs(x[i]) > fabs(top)) top = x[i];
    if (type == TLLM_FORMAT_F16) { for (i = 0; i < ROW; i++) x[i] = as_half(x[i]); return; }
    d = type == TLLM_FORMAT_Q8_0 ? fabs(top) / 127.0 : top / -8.0;
    for (i = 0; i < ROW; i++)
        x[i] =
            as_half(d) * (type == TLLM_FORMAT_Q8_0 ? code_of(x[i] / d, -127.0, 127.0) : code_of(x[i] / d, -8.0, 7.0));
}

static const float *weights(const model_at *m, int layer, const char *name)
{
    char full[80];
    const tllm_gguf_tensor *t;
    if (layer < 0) (void)snprintf(full, sizeof full, "%s.weight", name);
    else (void)snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    t = tllm_gguf_tensor_find(m->file, full);
    if (!t || t->type != TLLM_FORMAT_F32) {
        t_fail(__FILE__, __LINE__, "no %s in floats", full);
        return NULL;
    }
    return (const float *)(const void *)t->data;
}
static void times(const float *w, const double *x, double *y, int n_in, int n_out)
{
    int i, j;
    for (j = 0; j < n_out; j++) for (y[j] = 0.0, i = 0; i < n_in; i++) y[j] += (double)w[j * n_in + i] * x[i];
}
static void normed(const float *gain, const double *x, double eps, double *y)
{
    double ss = 0.0;
    int i;
    for (i = 0; i < WIDTH; i++) ss += x[i] * x[i];
    for (i = 0; i < WIDTH; i++) y[i] = x[i] / sqrt(ss / WIDTH + eps) * (double)gain[i];
}
/* pairs of neighbours turned by pos * base^(-2i / HEAD) */
static void turned(double *x, int n_head, int pos, double base)
{
    int h, i;
    for (h = 0; h < n_head; h++, x += HEAD)
        for (i = 0; i < HEAD; i += 2) {
            const double a = pos * pow(base, -(double)i / HEAD), c = x[i] * cos(a) - x[i + 1] * sin(a);
            x[i + 1] = x[i] * sin(a) + x[i + 1] * cos(a);
            x[i] = c;
        }
}
static double number_of(const model_at *m, const char *key)
{
    const tllm_meta *meta = tllm_gguf_find(m->file, key);
    double x = 0.0;
    T_TRUE(meta && tllm_meta_f64(meta, 0, &x));
    return x;
}
/* logits of a whole text: TEXT rows of VOCAB; 0: a model of another form */
static int pass(const model_at *m, const int32_t *token, int type_k, int type_v, double *out)
{
    static double k[LAYERS][TEXT][ROW], v[LAYERS][TEXT][ROW];
    const double base = number_of(m, "llama.rope.freq_base"),
                 eps = number_of(m, "llama.attention.layer_norm_rms_epsilon");
    const float *gain[LAYERS + 1], *net[LAYERS], *wq[LAYERS], *wk[LAYERS], *wv[LAYERS], *wo[LAYERS], *gate[LAYERS],
        *up[LAYERS], *down[LAYERS], *embd = weights(m, -1, "token_embd"), *last = weights(m, -1, "output");
    int l, p, i, j, h;
    gain[LAYERS] = weights(m, -1, "output_norm");
    for (l = 0; l < LAYERS; l++) {
        gain[l] = weights(m, l, "attn_norm");
        wq[l] = weights(m, l, "attn_q");
        wk[l] = weights(m, l, "attn_k");
        wv[l] = weights(m, l, "attn_v");
        wo[l] = weights(m, l, "attn_output");
        net[l] = weights(m, l, "ffn_norm");
        gate[l] = weights(m, l, "ffn_gate");
        up[l] = weights(m, l, "ffn_up");
        down[l] = weights(m, l, "ffn_down");
    }
    if (t_now.checks_failed) return 0;
    for (p = 0; p < TEXT; p++) {
        double x[WIDTH], y[WIDTH], q[WIDTH], sum[WIDTH], a[FF], b[FF];
        for (i = 0; i < WIDTH; i++) x[i] = (double)embd[token[p] * WIDTH + i];
        for (l = 0; l < LAYERS; l++) {
            normed(gain[l], x, eps, y);
            times(wq[l], y, q, WIDTH, WIDTH);
            times(wk[l], y, k[l][p], WIDTH, ROW);
            times(wv[l], y, v[l][p], WIDTH, ROW);
            turned(q, HEADS, p, base);
            turned(k[l][p], KV_HEADS, p, base);
            as_kept(k[l][p], type_k);
            as_kept(v[l][p], type_v);
            for (h = 0; h < HEADS; h++) {
                const int from = h / (HEADS / KV_HEADS) * HEAD;
                double w[TEXT], top = -1e300, z = 0.0;
                for (j = 0; j <= p; j++) {
                    for (w[j] = 0.0, i = 0; i < HEAD; i++)
                        w[j] += q[h * HEAD + i] * k[l][j][from + i] / sqrt((double)HEAD);
                    top = w[j] > top ? w[j] : top;
                }
                for (j = 0; j <= p; j++) z += w[j] = exp(w[j] - top);
                for (i = 0; i < HEAD; i++)
                    for (sum[h * HEAD + i] = 0.0, j = 0; j <= p; j++) sum[h * HEAD + i] += w[j] / z * v[l][j][from + i];
            }
            times(wo[l], sum, y, WIDTH, WIDTH);
            for (i = 0; i < WIDTH; i++) x[i] += y[i];
            normed(net[l], x, eps, y);
            times(gate[l], y, a, WIDTH, FF);
            times(up[l], y, b, WIDTH, FF);
            for (i = 0; i < FF; i++) a[i] = a[i] / (1.0 + exp(-a[i])) * b[i];
            times(down[l], a, y, FF, WIDTH);
            for (i = 0; i < WIDTH; i++) x[i] += y[i];
        }
        normed(gain[LAYERS], x, eps, y);
        times(last, y, out + p * VOCAB, WIDTH, VOCAB);
    }
    return 1;
}
static double farthest(const double *a, const double *b)
{
    double off = 0.0;
    int i;
    for (i = 0; i < TEXT * VOCAB; i++) { const double d = fabs(a[i] - b[i]); if (!(d <= off)) off = d; }
    return off;
}

/* Logits with a cache of fewer bits are those of the pass that rounds the same keys and values, within the tolerance of
 * models in floats: 2e-4 (1 + rms). That holds while both round alike, so no number of the text is within MARGIN steps
 * of a place where the code changes: floats put a key or value off by a few 1e-7 of the largest of its block, which is
 * 127 steps of Q8_0 and 8 of Q4_0. Half floats have steps too fine for that. One in a thousand of their numbers goes
 * the other way, which costs the root of a thousandth of the rounding of all of them, about 1/32. */
static void test_fewer_bits(tiny_target target)
{
    static const struct { int k, v; double margin;
    } kind[] = { { TLLM_FORMAT_F16, TLLM_FORMAT_F16, 0.0 },
                 { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q8_0, 3e-4 },
                 { TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, 0.0 },
                 { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0, 2e-4 },
                 { TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q4_0, 2e-5 } };
    double *full, *want, *have;
    float *got;
    model_at m;
    size_t n;
    int i, seed;
    if (!open_at(&m, target, 1, "oracle/llm/llama.gguf")) { T_SKIP("no oracle/llm/llama.gguf"); return; }
    full = (double *)t_keep(TEXT * VOCAB * sizeof *full);
    want = (double *)t_keep(TEXT * VOCAB * sizeof *want);
    have = (double *)t_keep(TEXT * VOCAB * sizeof *have);
    got = (float *)t_keep(TEXT * VOCAB * sizeof *got);
    for (n = 0; n < T_COUNT(kind); n++) {
        int32_t token[TEXT];
        double rms = 0.0, mark, off, cost;
        tllm_state *s;
        for (seed = 0; seed < 400; seed++) {
            for (i = 0; i < TEXT; i++) token[i] = (int32_t)((i * i * 29 + i * 53 + seed * 17 + 3) % VOCAB);
            pass_margin = 1.0;
            if (!pass(&m, token, kind[n].k, kind[n].v, want)) break;
            if (pass_margin > kind[n].margin) break;
        }
        if (!T_TRUE(seed < 400) || !pass(&m, token, 0, 0, full)) break;
        s = open_state(&m, TEXT, 1, 0, kind[n].k, kind[n].v);
        if (!s) break;
        T_OK(tllm_forward(s, token, TEXT, 0, TEXT, got));
        tllm_state_close(m.ctx, s);
        for (i = 0; i < TEXT * VOCAB; i++) { have[i] = (double)got[i]; rms += want[i] * want[i]; }
        mark = 2e-4 * (1.0 + sqrt(rms / (TEXT * VOCAB)));
        off = farthest(have, want);
        cost = farthest(full, want);
        if (target == TINY_TARGET_SCALAR)
            printf("keys %s, values %s: logits off by %.2g of a mark of %.2g, the rounding costs %.2g (text %d)\n",
                   tllm_format_of(kind[n].k)->name, tllm_format_of(kind[n].v)->name, off, mark, cost, seed);
        T_TRUE(cost > 2.0 * mark || kind[n].margin == 0.0);      /* it really was another cache */
        T_CLOSE(off, 0.0, kind[n].margin > 0.0 ? mark : cost / 4);
    }
    close_at(&m);
}

/* The reported memory is what is allocated, and nothing is allocated later. */
static void test_memory(void)
{
    static const int types[3] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    float logits[STORY_VOCAB];
    model_at m;
    int k, i;
    for (k = 0; k < 3; k++) {
        tllm_state_desc d;
        tllm_state *s = NULL;
        tllm_item x[40];
        size_t told = 0, before;
        if (!open_at(&m, TINY_TARGET_AUTO, 1, story)) return;
        memset(&d, 0, sizeof d);
        d.n_ctx = 300;
        d.n_seq = 5;
        d.n_batch = 33;
        d.n_cells = 700;
        d.type_k = d.type_v = types[k];
        before = tiny_ctx_bytes(m.ctx);
        T_OK(tllm_state_memory(m.ctx, m.model, &d, &told));
        T_OK(tllm_state_open(m.ctx, m.model, &d, &s));
        T_TRUE(tiny_ctx_bytes(m.ctx) - before <= told && tiny_ctx_bytes(m.ctx) - before + 128 >= told);
        before = tiny_ctx_bytes(m.ctx);
        t_alloc.n_calls = 0;
        for (i = 0; i < 40; i++) x[i] = item(token_of(&m, i), i % 5, -1, 0);
        for (i = 0; i < 12; i++) T_OK(tllm_forward_batch(s, x, 40, NULL));
        /* token by token, and so with logits */
        for (i = 0; i < 5; i++) T_OK(tllm_forward_batch(s, x + i, 1, NULL));
        x[0].want = 1;
        for (i = 0; i < 5; i++) T_OK(tllm_forward_batch(s, x, 1, logits));
        T_OK(tllm_seq_fork(s, 0, 1));
        T_OK(tllm_seq_shift(s, 1, 3, 10));
        T_EQ_INT(t_alloc.n_calls, 0);
        T_TRUE(tiny_ctx_bytes(m.ctx) == before);
        tllm_state_close(m.ctx, s);
        close_at(&m);
    }
    if (!open_at(&m, TINY_TARGET_AUTO, 1, story)) return;
    T_EACH_ALLOCATION(tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1); tiny_ctx *ctx = NULL; tllm_gguf *file = NULL;
                      tllm_model *model = NULL; tllm_state *s = NULL; tllm_state_desc d; tllm_item x = item(3, 1, 0, 0);
                      memset(&d, 0, sizeof d); d.n_ctx = 32; d.n_seq = 2; if (!tiny_ctx_open(&cd, &ctx)) {
                          if (!tllm_gguf_open(ctx, story, &file) && !tllm_model_open(ctx, file, &model) &&
                              !tllm_state_open(ctx, model, &d, &s))
                              (void)tllm_forward_batch(s, &x, 1, NULL);
                          tllm_state_close(ctx, s);
                          tllm_model_close(ctx, model);
                          tllm_gguf_close(ctx, file);
                          tiny_ctx_close(ctx);
                      })
    close_at(&m);
}

/* Cells that were never written may hold anything: memory full of NaN gives the same bits as memory full of zeros. */
static int fill_byte;
static void *filled(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    void *p = n_bytes ? malloc(n_bytes) : NULL;
    (void)user;
    if (p) memset(p, fill_byte, n_bytes);
    if (p && old) memcpy(p, old, old_bytes < n_bytes ? old_bytes : n_bytes);
    if (p || !n_bytes) free(old);
    return p;
}
static void test_unused_cells(tiny_target target)
{
    static const char *const path[4] = { story, "oracle/llm/llama.gguf", "oracle/llm/gemma2.gguf",
                                         "oracle/llm/deepseek2.gguf" };
    static const int types[2] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16 };
    int i, j, k, at;
    for (i = 0; i < 8; i++) {
        float *out[2] = { NULL, NULL };
        size_t V = 0;
        const char *full = i < 2 ? story : t_one_of(path[i / 2]);
        if (!full) continue;
        for (k = 0; k < 2; k++) {
            tiny_ctx_desc cd = t_desc(target, 2);
            tllm_state *s;
            model_at m;
            int32_t tokens[8];
            memset(&m, 0, sizeof m);
            fill_byte = k ? 0xff : 0;
            cd.allocator.realloc_fn = filled;
            if (!T_OK(tiny_ctx_open(&cd, &m.ctx))) return;
            t_use(m.ctx);
            T_OK(tllm_gguf_open(m.ctx, full, &m.file));
            if (!T_OK(tllm_model_open(m.ctx, m.file, &m.model))) return;
            tllm_model_about(m.model, &m.about);
            V = (size_t)m.about.n_out;
            out[k] = (float *)t_keep(8 * V * sizeof **out);
            s = open_state(&m, 40, 1, 16, types[i % 2], types[i % 2]);
            for (j = at = 0; j < 8; at += j++ + 1) {        /* pieces of 1, 2, ... 8 tokens, one after the other */
                int n;
                for (n = 0; n <= j; n++) tokens[n] = token_of(&m, at + n);
                T_OK(tllm_forward(s, tokens, n, at, 1, out[k] + (size_t)j * V));
            }
            tllm_state_close(m.ctx, s);
            close_at(&m);
        }
        T_SAME(out[0], out[1], 8 * V);
        T_TRUE(out[0][0] == out[0][0]);
    }
}

static int stop_in, asked;
static int stop_soon(void *user) { (void)user; return stop_in && ++asked >= stop_in; }

/* A batch that fails in the middle leaves the sequences as they were; recurrent ones that it named are empty. */
static void test_failures(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_REFERENCE, 1);
    const char *path[2] = { story, t_shared("oracle/llm/mamba.gguf") };
    int k, i;
    cd.cancel = stop_soon;
    for (k = 0; k < 2; k++) {
        model_at m;
        tllm_state *s;
        tllm_item x[8];
        float *a, *b;
        memset(&m, 0, sizeof m);
        stop_in = 0;
        if (!path[k] || !T_OK(tiny_ctx_open(&cd, &m.ctx))) return;
        t_use(m.ctx);
        T_OK(tllm_gguf_open(m.ctx, path[k], &m.file));
        T_OK(tllm_model_open(m.ctx, m.file, &m.model));
        tllm_model_about(m.model, &m.about);
        a = (float *)t_keep((size_t)m.about.n_out * sizeof *a);
        b = (float *)t_keep((size_t)m.about.n_out * sizeof *b);
        s = open_state(&m, 32, 3, 4, 0, 0);
        for (i = 0; i < 6; i++) x[i] = item(token_of(&m, i), i % 2, -1, 0);
        T_OK(tllm_forward_batch(s, x, 6, NULL));
        T_OK(tllm_seq_fork(s, 0, 2));
        x[6] = item(4, 2, -1, 1);
        stop_in = 3;
        asked = 0;
        x[0].want = 0;
        T_STATUS(tllm_forward_batch(s, x, 4, NULL), TINY_E_CANCELLED, NULL);
        stop_in = 0;
        T_EQ_INT(tllm_seq_length(s, 2), 3);
        T_EQ_INT(tllm_seq_length(s, 0), k ? 0 : 3);
        T_OK(tllm_forward_batch(s, x + 6, 1, a));
        if (!k) {
            x[6] = item(4, 0, -1, 1);
            T_OK(tllm_forward_batch(s, x + 6, 1, b));
            T_SAME(a, b, m.about.n_out);
        }
        tllm_state_close(m.ctx, s);
        close_at(&m);
    }
}

static void test_bad_input(void)
{
    model_at m;
    tllm_state *s = NULL;
    tllm_state_desc d;
    tllm_item x[64];
    float out[STORY_VOCAB], again[STORY_VOCAB];
    int i;
    if (!open_at(&m, TINY_TARGET_REFERENCE, 1, story)) return;
    memset(&d, 0, sizeof d);
    d.n_seq = -1;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_ARGUMENT, "-1 sequences of 256 tokens");
    d.n_seq = 1 << 26;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_ARGUMENT, "67108864 tokens together");
    d.n_seq = 2;
    d.n_page = -1;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_ARGUMENT, "pages of -1 tokens");
    d.n_page = 4;
    d.type_k = TLLM_FORMAT_Q4_K;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_UNSUPPORTED, "keys cannot be kept as Q4_K");
    d.type_k = 0;
    d.type_v = 99;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_UNSUPPORTED, "values cannot be kept as ? (format 99)");
    d.type_v = 0;
    d.n_ctx = 40;
    d.n_cells = 44;
    T_TRUE(s == NULL);
    if (!T_OK(tllm_state_open(m.ctx, m.model, &d, &s))) return;
    for (i = 0; i < 64; i++) x[i] = item(3, i % 2, -1, 0);
    x[0].seq = 2;
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "token 0 is for sequence 2, but this state has 2");
    x[0] = item(STORY_VOCAB, 0, 0, 0);
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "token 0 is 544");
    x[0] = item(3, 0, 4, 1);
    x[2] = item(3, 0, 4, 0);
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "but out is NULL");
    T_STATUS(tllm_forward_batch(s, x, 3, out), TINY_E_ARGUMENT,
             "position 4 does not come after the positions held by sequence 0");
    T_STATUS(tllm_forward_batch(s, x, 0, out), TINY_E_ARGUMENT, "at least one token");
    x[0] = item(3, 0, 0, 1);
    x[2] = item(3, 0, -1, 0);
    T_OK(tllm_forward_batch(s, x, 1, out));
    /* 44 cells: the second sequence finds none */
    T_STATUS(tllm_forward_batch(s, x + 1, 63, NULL), TINY_E_WORKSPACE, "11 are free");
    T_EQ_INT(tllm_seq_length(s, 0), 1);
    T_EQ_INT(tllm_seq_length(s, 1), 0);
    for (i = 0; i < 64; i++) x[i] = item(3, 0, -1, 0);
    T_STATUS(tllm_forward_batch(s, x, 64, NULL), TINY_E_ARGUMENT,
             "40 tokens after 1 of sequence 0 are more than the 40 of this state");
    tllm_seq_clear(s, 0);
    x[0] = item(3, 0, 0, 1);
    T_OK(tllm_forward_batch(s, x, 1, again));
    T_SAME(out, again, STORY_VOCAB);
    T_STATUS(tllm_seq_trim(s, 0, 2), TINY_E_ARGUMENT, "has 1 tokens: 2 cannot be kept");
    T_STATUS(tllm_seq_fork(s, 0, 2), TINY_E_ARGUMENT, "no sequence 2: this state has 2");
    T_STATUS(tllm_seq_copy(s, 0, 1, 0, 2), TINY_E_ARGUMENT, "2 from index 0 on cannot be copied");
    T_STATUS(tllm_seq_copy(s, 0, 0, 0, 1), TINY_E_ARGUMENT, "appended to itself");
    T_STATUS(tllm_seq_shift(s, 0, 1, 1), TINY_E_ARGUMENT, "cannot be dropped");
    T_OK(tllm_seq_copy(s, 0, 1, 0, 1));
    T_STATUS(tllm_seq_copy(s, 0, 1, 0, 1), TINY_E_ARGUMENT, "position 0 does not come after");
    T_STATUS(tllm_seq_share(s, 0, &x[0].token, 1, NULL), TINY_E_ARGUMENT, "only an empty one");
    tllm_state_close(m.ctx, s);
    close_at(&m);
    if (!open_at(&m, TINY_TARGET_REFERENCE, 1, "oracle/llm/mamba.gguf")) T_SKIP("no oracle/llm/mamba.gguf");
    else {
        s = open_state(&m, 16, 2, 0, 0, 0);
        x[0] = item(3, 0, 0, 0);
        x[1] = item(3, 0, 1, 0);
        T_OK(tllm_forward_batch(s, x, 2, NULL));
        T_STATUS(tllm_seq_trim(s, 0, 1), TINY_E_UNSUPPORTED, "cannot be trimmed to 1");
        T_STATUS(tllm_seq_copy(s, 0, 1, 0, 1), TINY_E_UNSUPPORTED, "1 tokens of a recurrent state cannot be copied");
        T_STATUS(tllm_seq_shift(s, 0, 0, 1), TINY_E_UNSUPPORTED, "recurrent");
        tllm_state_close(m.ctx, s);
        close_at(&m);
    }
}

int main(void)
{
    T_RUN(test_every_architecture);
    T_RUN(test_blocks);
    T_RUN(test_copy_and_move);
    T_RUN(test_share);
    T_RUN_TARGETS(test_fewer_bits);
    T_RUN_TARGETS(test_unused_cells);
    T_RUN(test_memory);
    T_RUN(test_failures);
    T_RUN(test_bad_input);
    return t_done();
}
