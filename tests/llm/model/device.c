/* tests/llm/model/device.c - whole models on a device with memory of its own
 *
 * The device (tests/device.h) computes the same as the processor, in its own memory, and fills the host's with NaN: the
 * same bits must come out. Models that stay there wait for it once a pass, for the logits; weights are uploaded once.
 */
#include "device.h"

enum { MOST = 64, ALONE = 3 };              /* tokens of a prompt; of those that come one by one */

typedef struct text { int32_t token[MOST]; int n; } text;

typedef struct row { char name[64], path[512]; text t; } row;
static row rows[256];
static int n_rows;

/* the models of the large oracle if present, and those that only tests/golden has */
static void read_rows(void)
{
    static char line[65536];
    int k, i, field;
    for (k = 0; k < 2; k++) {
        const char *path = k ? "tests/golden/oracle/llm/index.tsv" : t_shared("oracle/llm/index.tsv");
        FILE *f = path ? fopen(path, "r") : NULL;
        while (f && fgets(line, sizeof line, f) && n_rows < 256) {
            row *r = &rows[n_rows];
            char *p = line;
            (void)snprintf(r->name, sizeof r->name, "%.*s", (int)strcspn(line, "\t"), line);
            p += strlen(r->name);
            *p = 0;
            (void)snprintf(r->path, sizeof r->path, "%.*s%.60s.gguf", (int)(strlen(path) - strlen("index.tsv")), path,
                           line);
            for (*p = '\t', p = line, field = 0; *p && field < 6; p++) field += *p == '\t';
            for (r->t.n = 0; r->t.n < MOST && *p >= '0' && *p <= '9'; p += *p == ',')
                r->t.token[r->t.n++] = (int32_t)strtol(p, &p, 10);
            for (i = 0; strcmp(rows[i].name, r->name); i++) {}
            n_rows += i == n_rows && r->t.n > ALONE;
        }
        if (f) (void)fclose(f);
    }
}
static const row *row_of(const char *name)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    T_TRUE(!"the model is in no index");
    return NULL;
}

typedef struct opened { tllm_gguf *file; tllm_model *model; tllm_state *state; tllm_about about; } opened;
/* llama as mistral3, whose queries grow with their position: a step in plain C between operations */
static tiny_status growing(tiny_ctx *ctx, const char *path, tllm_gguf **out)
{
    tllm_writer_desc wd;
    tllm_writer *w = NULL;
    tllm_gguf *g = NULL;
    const void *bytes;
    size_t n = 0, i;
    char key[200];
    tiny_status st = tllm_gguf_open(ctx, path, &g);
    memset(&wd, 0, sizeof wd);
    if (!st) st = tllm_writer_open(ctx, &wd, &w);
    for (i = 0; !st && i < tllm_gguf_n_meta(g); i++) {
        tllm_meta m = *tllm_gguf_meta_at(g, i);
        if (m.key.n > 6 && !memcmp(m.key.at, "llama.", 6)) {
            (void)snprintf(key, sizeof key, "mistral3.%.*s", (int)m.key.n - 6, m.key.at + 6);
            m.key.at = key;
            m.key.n = strlen(key);
        }
        st = tllm_writer_put_meta(ctx, w, &m);
    }
    if (!st) st = tllm_writer_put_text(ctx, w, "general.architecture", "mistral3");
    if (!st) st = tllm_writer_put_f32(ctx, w, "mistral3.attention.temperature_scale", 0.5f);
    if (!st) st = tllm_writer_put_u32(ctx, w, "mistral3.attention.temperature_length", 4);
    for (i = 0; !st && i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        st = tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data);
    }
    if (!st) st = tllm_writer_finish(ctx, w);
    bytes = st ? NULL : tllm_writer_memory(w, &n);
    if (bytes) {
        static unsigned char *kept;         /* as long as the file is open */
        free(kept);
        kept = (unsigned char *)malloc(n);
        memcpy(kept, bytes, n);
        st = tllm_gguf_open_memory(ctx, kept, n, out);
    }
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, g);
    return st;
}

static int open_model(tiny_ctx *ctx, const char *path, int type, int grows, opened *o)
{
    tllm_state_desc sd;
    memset(o, 0, sizeof *o);
    memset(&sd, 0, sizeof sd);
    sd.n_seq = 2;
    sd.n_ctx = 96;
    sd.n_page = 4;
    sd.n_batch = 7;                         /* prompts come in pieces */
    sd.type_k = sd.type_v = type;
    if (!T_OK(grows ? growing(ctx, path, &o->file) : tllm_gguf_open(ctx, path, &o->file)) ||
        !T_OK(tllm_model_open(ctx, o->file, &o->model)))
        return 0;
    tllm_model_about(o->model, &o->about);
    if (o->about.is_encoder || o->about.has_decoder) sd.n_batch = 0;
    if (o->about.is_recurrent) sd.n_seq = 1;
    return T_OK(tllm_state_open(ctx, o->model, &sd, &o->state));
}
static void close_model(tiny_ctx *ctx, opened *o)
{
    tllm_state_close(ctx, o->state);
    tllm_model_close(ctx, o->model);
    tllm_gguf_close(ctx, o->file);
}

/* The prompt but its last tokens, then those one by one. */
static float *answers(const opened *o, const text *t)
{
    const tiny_idx n_out = o->about.n_out;
    float *out = t_guarded((size_t)(n_out * MOST));
    int i;
    if (o->about.is_encoder) {
        T_OK(tllm_forward_all(o->state, t->token, t->n, out));
        return out;
    }
    if (o->about.has_decoder) T_OK(tllm_forward_all(o->state, t->token, t->n, NULL));
    T_OK(tllm_forward(o->state, t->token, t->n - ALONE, 0, 2, out));
    for (i = 0; i < ALONE; i++)
        T_OK(tllm_forward(o->state, t->token + t->n - ALONE + i, 1, t->n - ALONE + i, 1, out + (2 + i) * n_out));
    return out;
}

static void same_bits(tiny_target target, const row *r, int type, int grows)
{
    device *d = dev_open(target);
    tiny_ctx *there = dev_ctx(d, target), *here = t_ctx(target, 1);
    opened a, b;
    float *want, *got;
    if (open_model(here, r->path, type, grows, &a)) {
        want = answers(&a, &r->t);
        if (open_model(there, r->path, type, grows, &b)) {
            got = answers(&b, &r->t);
            if (!T_TRUE(
                    !memcmp(got, want, (size_t)((a.about.is_encoder ? 1 : 2 + ALONE) * a.about.n_out) * sizeof *got)))
                printf("    %s\n", r->name);
            T_TRUE(d->ran[TINY_OP_MATMUL] + d->ran[TLLM_OP_MATMUL_BLOCKS] > 0);
            if (!T_TRUE(d->n_again == 0)) printf("    %s sends %d twice\n", r->name, d->n_again);
            close_model(there, &b);
        }
        close_model(here, &a);
    }
    t_close(here);
    t_close(there);
    dev_close(d);
}
static void test_same_bits(tiny_target target)
{
    static const short types[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    const row *llama = row_of("llama");
    int k;
    t_all_models(n_rows);
    for (k = 0; k < n_rows; k++)
        if (!T_SLOW || k % 8 == 0) same_bits(target, &rows[k], TLLM_FORMAT_F32, 0);
    for (k = 0; k < 4 && llama; k++) same_bits(target, llama, types[k], k == 1);
    if (llama) same_bits(target, llama, TLLM_FORMAT_F32, 1);
}

/* A token of a model that stays: every operation on the device, one wait, for the logits; neither weights nor pages
 * travel. */
static void test_one_wait(tiny_target target)
{
    static const char *const names[] = { "llama", "llama-q8_0", "llama-q4_0" };
    size_t k;
    for (k = 0; k < T_COUNT(names); k++) {
        const row *r = row_of(names[k]);
        device *d = dev_open(target);
        tiny_ctx *ctx = dev_ctx(d, target);
        uint64_t answered, declined, failed;
        opened o;
        float *out;
        int i, kind, n_fetch, n_upload, products = 0;
        size_t sent;
        if (!r || !open_model(ctx, r->path, TLLM_FORMAT_F32, 0, &o)) return;
        out = t_guarded((size_t)o.about.n_out);
        n_upload = d->n_upload;
        T_TRUE(n_upload >= 9 * (int)o.about.n_layer + 2);
        for (i = 0; i < r->t.n; i++) {
            n_fetch = d->n_fetch;
            sent = d->sent;
            T_OK(tllm_forward(o.state, r->t.token + i, 1, i, 1, out));
            T_EQ_INT(d->n_fetch, n_fetch + 1);
            T_TRUE(out[0] == out[0]);
            if (i)
                T_TRUE(d->sent - sent <
                       4096 +
                           1024 * (size_t)o.about.n_layer); /* angles, places and the embedding: pages alone are more */
            products += 7 * (int)o.about.n_layer + 1;
        }
        tiny_accel_counts(ctx, &answered, &declined, &failed);
        T_EQ_INT(declined + failed, 0);
        T_EQ_INT(d->ran[TINY_OP_MATMUL] + d->ran[TLLM_OP_MATMUL_BLOCKS], products);
        T_EQ_INT(d->ran[TLLM_OP_PAGED_ATTENTION], r->t.n * (int)o.about.n_layer);
        for (kind = 0; kind < TINY_OP_BASE_YOURS; kind++) T_EQ_INT(d->ran[kind], d->asked[kind]);
        T_EQ_INT(d->n_upload, n_upload);
        close_model(ctx, &o);
        T_EQ_INT(d->n_forget, n_upload);
        t_close(ctx);
        dev_close(d);
    }
}

/* Pages in our own hands while they are away: forks that part, copies, cuts, saved states; and a device that declines a
 * kind. */
static float *hands(tiny_ctx *ctx, const row *r, size_t *n_out)
{
    const text *t = &r->t;
    opened o;
    float *out;
    tllm_item item[2];
    void *bytes = NULL;
    size_t n_bytes = 0;
    tiny_idx n, at = 0;
    if (!open_model(ctx, r->path, TLLM_FORMAT_F16, 0, &o)) return NULL;
    n = o.about.n_out;
    *n_out = (size_t)n;
    out = t_guarded((size_t)(8 * n));
    memset(item, 0, sizeof item);
    T_OK(tllm_forward(o.state, t->token, 6, 0, 1, out));
    T_OK(tllm_seq_fork(o.state, 0, 1));
    item[0].token = t->token[6];
    item[1].token = t->token[7];
    item[1].seq = 1;
    item[0].pos = item[1].pos = 6;
    item[0].want = item[1].want = 1;
    T_OK(tllm_forward_batch(o.state, item, 2, out + n)); /* both write into the page that they share: one gets a copy */
    T_OK(tllm_seq_shift(o.state, 1, 1, 2));
    item[1].pos = -1;
    item[1].token = t->token[8];
    T_OK(tllm_forward_batch(o.state, item + 1, 1, out + 3 * n));
    tllm_seq_clear(o.state, 1);
    T_OK(tllm_seq_copy(o.state, 0, 1, 0, 5));
    T_OK(tllm_forward_batch(o.state, item + 1, 1, out + 4 * n));
    T_OK(tllm_state_pack(o.state, 0, NULL, 0, &bytes, &n_bytes));
    T_OK(tllm_forward(o.state, t->token + 9, 1, 7, 1, out + 5 * n));
    tllm_state_clear(o.state);
    T_OK(tllm_state_unpack(o.state, 0, bytes, n_bytes, NULL, 0, &at));
    T_OK(tllm_forward(o.state, t->token + 9, 1, 7, 1, out + 6 * n));
    T_SAME(out + 5 * n, out + 6 * n, (size_t)n);
    tiny_free(ctx, bytes);
    close_model(ctx, &o);
    return out;
}
static void test_hands(tiny_target target)
{
    static const int declines[] = {
        -1, TLLM_OP_PUT_ROWS, TLLM_OP_TURN_PAIRS, TLLM_OP_PAGED_ATTENTION, TINY_OP_RMSNORM, TLLM_OP_MATMUL_BLOCKS
    };
    tiny_ctx *here = t_ctx(target, 1);
    const row *r = row_of("llama-q8_0");
    size_t i, n_out = 0;
    const float *want, *got;
    if (!r) return;
    want = hands(here, r, &n_out);
    for (i = 0; i < 2 * T_COUNT(declines); i++) {
        device *d = dev_open(target);
        tiny_ctx *ctx = dev_ctx(d, target);
        if (i % 2) d->fails = declines[i / 2];
        else d->declines = declines[i / 2];
        got = hands(ctx, r, &n_out);
        if (want && got) T_SAME(got, want, 7 * n_out);
        t_close(ctx);
        dev_close(d);
    }
    t_close(here);
}

/* Weights that move: the uploaded copy is forgotten, and the new place is not mistaken for it. */
static void test_moved(tiny_target target)
{
    const row *r = row_of("llama-q8_0");
    device *d = dev_open(target);
    tiny_ctx *ctx = dev_ctx(d, target), *here = t_ctx(target, 1);
    opened a, b;
    tllm_repacked about;
    float *want, *got;
    int n_upload;
    if (!r || !open_model(ctx, r->path, TLLM_FORMAT_F32, 0, &a) || !open_model(here, r->path, TLLM_FORMAT_F32, 0, &b))
        return;
    n_upload = d->n_upload;
    T_OK(tllm_model_repack(ctx, a.model, NULL, &about));
    T_OK(tllm_model_repack(here, b.model, NULL, NULL));
    T_EQ_INT(d->n_forget, about.n ? n_upload : 0);          /* scalar has no such form */
    want = answers(&b, &r->t);
    got = answers(&a, &r->t);
    T_SAME(got, want, (size_t)((2 + ALONE) * a.about.n_out));
    close_model(ctx, &a);
    close_model(here, &b);
    t_close(ctx);
    t_close(here);
    dev_close(d);
}

int main(void)
{
    read_rows();
    T_RUN_TARGETS(test_same_bits);
    T_RUN_TARGETS(test_one_wait);
    T_RUN_TARGETS(test_hands);
    T_RUN_TARGETS(test_moved);
    return t_done();
}
