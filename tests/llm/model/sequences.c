/* tests/llm/model/sequences.c - many sequences in one state
 *
 * Truth    a sequence alone in a state of its own; positions of rotary models that only matter as differences; the golden
 *          tokens of stories260K, as another program drew them, for caches of fewer bits.                                 */
#include "t.h"

typedef struct model_at { tiny_ctx *ctx; tllm_gguf *file; tllm_model *model; tllm_about about; } model_at;

static int open_at(model_at *m, tiny_target target, const char *path)
{
    memset(m, 0, sizeof *m);
    m->ctx = t_ctx(target, 1);
    path = t_shared(path);
    if (!path) { t_close(m->ctx); return 0; }
    if (!T_OK(tllm_gguf_open(m->ctx, path, &m->file)) || !T_OK(tllm_model_open(m->ctx, m->file, &m->model))) return 0;
    tllm_model_about(m->model, &m->about);
    return 1;
}
static void close_at(model_at *m)
{
    tllm_model_close(m->ctx, m->model);
    tllm_gguf_close(m->ctx, m->file);
    t_close(m->ctx);
}
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

/* Three sequences of different lengths, in pieces that interleave them, then a fork of each: as if each were alone, bit for bit. */
static void alone_and_together(model_at *m, const char *name)
{
    const size_t V = (size_t)m->about.n_out;
    const int32_t source[3] = { 3, 1, 2 };
    tllm_state *all = open_state(m, 24, SEQ + 2, 4, 0, 0), *one = open_state(m, 24, 1, 0, 0, 0);
    float *want = (float *)t_keep(SEQ * LEN * V * sizeof *want), *got = (float *)t_keep(SEQ * LEN * V * sizeof *got), *last = (float *)t_keep(2 * V * sizeof *last);
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
        bad += memcmp(got + (size_t)k * V, want + (size_t)(batch[i].seq * LEN + batch[i].pos) * V, V * sizeof *got) != 0;
    for (s = 0; s < SEQ; s++) bad += tllm_seq_length(all, s) != length[s];
    /* forks go on as their parent would have, and the parent knows nothing of it */
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
    if (bad) { t_fail(__FILE__, __LINE__, "a sequence is the same among others and alone"); printf("  %s: %d differ\n", name, bad); }
    tllm_state_close(m->ctx, all);
    tllm_state_close(m->ctx, one);
}

static void test_every_architecture(void)
{
    const char *path = t_shared("oracle/llm/index.tsv");
    char *line = (char *)t_keep(65536), full[300];
    FILE *f = path ? fopen(path, "r") : NULL;
    int n = 0, skipped = 0;
    while (f && fgets(line, 65536, f)) {
        model_at m;
        char *tab = strchr(line, '\t');
        if (!tab || !strncmp(line, "name\t", 5)) continue;
        *tab = 0;
        (void)snprintf(full, sizeof full, "oracle/llm/%s.gguf", line);
        if (!open_at(&m, TINY_TARGET_REFERENCE, full)) continue;
        if (m.about.is_encoder || m.about.output != TLLM_LOGITS) skipped++;
        else { alone_and_together(&m, line); n++; }
        close_at(&m);
    }
    if (f) (void)fclose(f);
    if (f) { T_TRUE(n >= 60); printf("models: %d, and %d that give no text\n", n, skipped); }
}

/* Copied behind a stranger and moved back: what never saw the stranger is as if it had never been there. */
static void move_one(const char *path, int want_ok)
{
    model_at m;
    tllm_state *s;
    float *a, *b;
    int i, n = 6;
    double top = 0.0, off = 0.0;
    if (!open_at(&m, TINY_TARGET_REFERENCE, path)) return;
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
}
static void test_copy_and_move(void)
{
    move_one("oracle/llm/llama.gguf", 1);
    move_one("oracle/llm/qwen3.gguf", 1);
    move_one("oracle/llm/gemma2.gguf", 1);
    move_one("oracle/llm/gptneox-seq.gguf", 1);
    move_one("oracle/llm/bloom.gguf", 1);
    move_one("oracle/llm/deepseek2.gguf", 1);
    move_one("oracle/llm/gpt2.gguf", 0);
}

/* What sequences that begin alike share costs nothing and changes nothing. */
static void test_share(void)
{
    model_at m;
    tllm_state *s;
    float a[2][512];
    int32_t tokens[20];
    tiny_idx n, before;
    int i;
    if (!open_at(&m, TINY_TARGET_REFERENCE, "data/tinystories/stories260K-f32.gguf")) return;
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
    T_SAME(a[0], a[1], 512);
    T_EQ_INT(before - tllm_state_free_cells(s), 4);
    T_OK(tllm_seq_share(s, 2, tokens, 16, &n));     /* one is left to compute */
    T_EQ_INT(n, 12);
    tllm_seq_clear(s, 2);
    tokens[1]++;
    T_OK(tllm_seq_share(s, 2, tokens, 18, &n));
    T_EQ_INT(n, 0);
    /* what was moved is not what it was computed as: it is not found any more */
    tokens[1]--;
    T_OK(tllm_seq_shift(s, 0, 1, 3));
    tllm_seq_clear(s, 1);
    T_OK(tllm_seq_share(s, 2, tokens, 18, &n));
    T_EQ_INT(n, 0);
    tllm_state_close(m.ctx, s);
    close_at(&m);
}

/* How well is a text of 128 golden tokens foretold with a cache of fewer bits? */
static double nll(model_at *m, tllm_state *s, const int32_t *tokens, int n)
{
    const size_t V = (size_t)m->about.n_out;
    float *out = (float *)t_keep((size_t)n * V * sizeof *out);
    double sum = 0.0;
    int i, j;
    T_OK(tllm_forward(s, tokens, n, 0, n, out));
    for (i = 0; i + 1 < n; i++) {
        const float *x = out + (size_t)i * V;
        double top = -1e30, z = 0.0;
        for (j = 0; j < (int)V; j++) top = (double)x[j] > top ? (double)x[j] : top;
        for (j = 0; j < (int)V; j++) z += exp((double)x[j] - top);
        sum += top + log(z) - (double)x[tokens[i + 1]];
    }
    return sum / (n - 1);
}
static void test_fewer_bits(tiny_target target)
{
    /* seen on this model, not derived: what one number of a page may cost is derived and held in tests/llm/attention/paged.c */
    static const struct { int k, v; double most; } kind[] = {
        { TLLM_FORMAT_F16, TLLM_FORMAT_F16, 0.0005 }, { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q8_0, 0.01 }, { TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, 0.01 },
        { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0, 0.05 },
        /* four of its heads of 8 numbers share a block and a scale: 4 bits are too few for such keys, as the page in docs says */
        { TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q4_0, 1.5 }
    };
    const char *path = t_shared("data/tinystories/stories260K.golden.txt");
    char text[4000];
    model_at m;
    tllm_vocab *v = NULL;
    tllm_tokens t;
    tllm_state *s;
    size_t n_text, i;
    double full;
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) return;
    n_text = fread(text, 1, sizeof text, f);
    (void)fclose(f);
    if (!open_at(&m, target, "data/tinystories/stories260K-f32.gguf")) return;
    memset(&t, 0, sizeof t);
    T_OK(tllm_vocab_open(m.ctx, m.file, &v));
    T_OK(tllm_encode(m.ctx, v, text, n_text, TLLM_ENCODE_ENDS, &t));
    if (t.n > 128) t.n = 128;
    s = open_state(&m, 256, 1, 0, 0, 0);
    full = nll(&m, s, t.id, (int)t.n);
    T_TRUE(full > 0.2 && full < 2.5);
    tllm_state_close(m.ctx, s);
    for (i = 0; i < T_COUNT(kind); i++) {
        double x;
        s = open_state(&m, 256, 1, 0, kind[i].k, kind[i].v);
        if (!s) break;
        x = nll(&m, s, t.id, (int)t.n);
        if (target == TINY_TARGET_SCALAR)
            printf("keys %s, values %s: %.4f nats a token, %.4f with f32\n", tllm_format_of(kind[i].k)->name, tllm_format_of(kind[i].v)->name, x, full);
        T_TRUE(x != full);                  /* it really was another cache */
        T_CLOSE(x, full, kind[i].most);
        tllm_state_close(m.ctx, s);
    }
    tllm_tokens_free(m.ctx, &t);
    tllm_vocab_close(m.ctx, v);
    close_at(&m);
}

/* The memory that was told is what is taken, and nothing is taken after. */
static void test_memory(void)
{
    static const int types[3] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    float logits[512];
    model_at m;
    int k, i;
    for (k = 0; k < 3; k++) {
        tllm_state_desc d;
        tllm_state *s = NULL;
        tllm_item x[40];
        size_t told = 0, before;
        if (!open_at(&m, TINY_TARGET_AUTO, "data/tinystories/stories260K-f32.gguf")) return;
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
        for (i = 0; i < 5; i++) T_OK(tllm_forward_batch(s, x + i, 1, NULL));         /* token by token, and so with logits */
        x[0].want = 1;
        for (i = 0; i < 5; i++) T_OK(tllm_forward_batch(s, x, 1, logits));
        T_OK(tllm_seq_fork(s, 0, 1));
        T_OK(tllm_seq_shift(s, 1, 3, 10));
        T_EQ_INT(t_alloc.n_calls, 0);
        T_TRUE(tiny_ctx_bytes(m.ctx) == before);
        tllm_state_close(m.ctx, s);
        close_at(&m);
    }
    if (!open_at(&m, TINY_TARGET_AUTO, "data/tinystories/stories260K-f32.gguf")) return;
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        tllm_state *s = NULL;
        tllm_state_desc d;
        tllm_item x = item(3, 1, 0, 0);
        memset(&d, 0, sizeof d);
        d.n_ctx = 32;
        d.n_seq = 2;
        if (!tiny_ctx_open(&cd, &ctx)) {
            if (!tllm_gguf_open(ctx, t_shared("data/tinystories/stories260K-f32.gguf"), &file) && !tllm_model_open(ctx, file, &model) && !tllm_state_open(ctx, model, &d, &s))
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
    static const char *const path[3] = { "data/tinystories/stories260K-f32.gguf", "oracle/llm/gemma2.gguf", "oracle/llm/deepseek2.gguf" };
    static const int types[2] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16 };
    int i, j, k, at;
    for (i = 0; i < 6; i++) {
        float *out[2] = { NULL, NULL };
        size_t V = 0;
        if (!t_shared(path[i / 2])) return;
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
            T_OK(tllm_gguf_open(m.ctx, t_shared(path[i / 2]), &m.file));
            if (!T_OK(tllm_model_open(m.ctx, m.file, &m.model))) return;
            tllm_model_about(m.model, &m.about);
            V = (size_t)m.about.n_out;
            out[k] = (float *)t_keep(8 * V * sizeof **out);
            s = open_state(&m, 40, 1, 16, types[i % 2], types[i % 2]);
            for (j = at = 0; j < 8; at += j++ + 1) {        /* pieces of 1, 2, ... 8 tokens, behind each other */
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
    static const char *const path[2] = { "data/tinystories/stories260K-f32.gguf", "oracle/llm/mamba.gguf" };
    int k, i;
    cd.cancel = stop_soon;
    for (k = 0; k < 2; k++) {
        model_at m;
        tllm_state *s;
        tllm_item x[8];
        float *a, *b;
        memset(&m, 0, sizeof m);
        stop_in = 0;
        if (tiny_ctx_open(&cd, &m.ctx) || !t_shared(path[k])) return;
        t_use(m.ctx);
        T_OK(tllm_gguf_open(m.ctx, t_shared(path[k]), &m.file));
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
    float out[512], again[512];
    int i;
    if (!open_at(&m, TINY_TARGET_REFERENCE, "data/tinystories/stories260K-f32.gguf")) return;
    memset(&d, 0, sizeof d);
    d.n_seq = -1;
    T_STATUS(tllm_state_open(m.ctx, m.model, &d, &s), TINY_E_ARGUMENT, "-1 sequences of 512 tokens");
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
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "token 0 goes to sequence 2, this state has 2");
    x[0] = item(512, 0, 0, 0);
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "token 0 is 512");
    x[0] = item(3, 0, 4, 1);
    x[2] = item(3, 0, 4, 0);
    T_STATUS(tllm_forward_batch(s, x, 2, NULL), TINY_E_ARGUMENT, "no room for them");
    T_STATUS(tllm_forward_batch(s, x, 3, out), TINY_E_ARGUMENT, "position 4 does not come after those that are held by sequence 0");
    T_STATUS(tllm_forward_batch(s, x, 0, out), TINY_E_ARGUMENT, "at least one token");
    x[0] = item(3, 0, 0, 1);
    x[2] = item(3, 0, -1, 0);
    T_OK(tllm_forward_batch(s, x, 1, out));
    T_STATUS(tllm_forward_batch(s, x + 1, 63, NULL), TINY_E_WORKSPACE, "11 are free");      /* 44 cells: the second sequence finds none */
    T_EQ_INT(tllm_seq_length(s, 0), 1);
    T_EQ_INT(tllm_seq_length(s, 1), 0);
    for (i = 0; i < 64; i++) x[i] = item(3, 0, -1, 0);
    T_STATUS(tllm_forward_batch(s, x, 64, NULL), TINY_E_ARGUMENT, "40 tokens after 1 of sequence 0 are more than the 40 of this state");
    tllm_seq_clear(s, 0);
    x[0] = item(3, 0, 0, 1);
    T_OK(tllm_forward_batch(s, x, 1, again));
    T_SAME(out, again, 512);
    T_STATUS(tllm_seq_trim(s, 0, 2), TINY_E_ARGUMENT, "of 1 tokens 2 cannot be kept");
    T_STATUS(tllm_seq_fork(s, 0, 2), TINY_E_ARGUMENT, "no sequence 2, this state has 2");
    T_STATUS(tllm_seq_copy(s, 0, 1, 0, 2), TINY_E_ARGUMENT, "2 from number 0 on cannot be copied");
    T_STATUS(tllm_seq_copy(s, 0, 0, 0, 1), TINY_E_ARGUMENT, "behind itself");
    T_STATUS(tllm_seq_shift(s, 0, 1, 1), TINY_E_ARGUMENT, "cannot be dropped");
    T_OK(tllm_seq_copy(s, 0, 1, 0, 1));
    T_STATUS(tllm_seq_copy(s, 0, 1, 0, 1), TINY_E_ARGUMENT, "position 0 does not come after");
    T_STATUS(tllm_seq_share(s, 0, &x[0].token, 1, NULL), TINY_E_ARGUMENT, "only an empty one");
    tllm_state_close(m.ctx, s);
    close_at(&m);
    if (open_at(&m, TINY_TARGET_REFERENCE, "oracle/llm/mamba.gguf")) {
        s = open_state(&m, 16, 2, 0, 0, 0);
        x[0] = item(3, 0, 0, 0);
        x[1] = item(3, 0, 1, 0);
        T_OK(tllm_forward_batch(s, x, 2, NULL));
        T_STATUS(tllm_seq_trim(s, 0, 1), TINY_E_UNSUPPORTED, "cannot go back to 1");
        T_STATUS(tllm_seq_copy(s, 0, 1, 0, 1), TINY_E_UNSUPPORTED, "no part of 1 tokens");
        T_STATUS(tllm_seq_shift(s, 0, 0, 1), TINY_E_UNSUPPORTED, "recurrent");
        tllm_state_close(m.ctx, s);
        close_at(&m);
    }
}

int main(void)
{
    T_RUN(test_every_architecture);
    T_RUN(test_copy_and_move);
    T_RUN(test_share);
    T_RUN_TARGETS(test_fewer_bits);
    T_RUN_TARGETS(test_unused_cells);
    T_RUN(test_memory);
    T_RUN(test_failures);
    T_RUN(test_bad_input);
    return t_done();
}
