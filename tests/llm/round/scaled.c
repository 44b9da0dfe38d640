/* tests/llm/round/scaled.c - a model scaled by AWQ and by SmoothQuant over a text
 *
 * Truth    logits of the original model, where they must not change; elsewhere the squared error of logits on another
 *          text, compared with plain rounding; the largest inputs and weights of a layer, computed here before and
 *          after */
#include "llm/model/apart.h"
#include <math.h>

static const char path[] = "examples/models/story-small.gguf";          /* rows of 128, Q8_0 */
enum { TEXT = T_SLOW ? 200 : 700, STEPS = T_SLOW ? 4 : 8, JUDGED = T_SLOW ? 50 : 100, MOST = 64 };

static float *logits_of(tiny_ctx *ctx, const tllm_gguf *file, const int32_t *token, size_t *n)
{
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    tllm_about about;
    float *y;
    memset(&d, 0, sizeof d);
    d.n_ctx = JUDGED;
    if (!T_OK(tllm_model_open(ctx, file, &model))) return NULL;
    tllm_model_about(model, &about);
    T_OK(tllm_state_open(ctx, model, &d, &state));
    *n = (size_t)about.n_out * JUDGED;
    y = t_guarded(*n);
    T_OK(tllm_forward(state, token, JUDGED, 0, JUDGED, y));
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return y;
}
static uint64_t sum_of(const made *m)
{
    size_t n, i;
    const unsigned char *p = (const unsigned char *)tllm_writer_memory(m->w, &n);
    uint64_t h = n;
    for (i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}
/* where a program runs slowly: two of the four layers */
static int is_listed(const tllm_gguf_tensor *t) { return is_matrix(t) && (!T_SLOW || t->name.at[4] < '2'); }
static size_t list_of(const tllm_gguf *g, int format, tllm_scaled_tensor *list)
{
    size_t i, n = 0;
    for (i = 0; i < tllm_gguf_n_tensors(g) && n < MOST; i++)
        if (is_listed(tllm_gguf_tensor_at(g, i))) {
            list[n].t = tllm_gguf_tensor_at(g, i);
            list[n++].format = format;
        }
    return n;
}
static int open_model(tiny_ctx *ctx, tllm_gguf **g)
{
    if (!tllm_gguf_open(ctx, path, g)) return 1;
    T_SKIP("the story model is not here");
    return 0;
}
static int scaled(tiny_ctx *ctx, const tllm_gguf *g, const tllm_scaled_desc *d, const int32_t *token, int n, int format,
                  made *m, tllm_scaled_about *about)
{
    tllm_scaled_tensor list[MOST];
    tllm_scaled *s = NULL;
    int ok;
    memset(m, 0, sizeof *m);
    if (!T_OK(tllm_scaled_open(ctx, g, d, token, n, list, list_of(g, format, list), &s))) return 0;
    if (about) *about = tllm_scaled_what(s);
    T_OK(tllm_writer_open(ctx, NULL, &m->w));
    ok = T_OK(tllm_scaled_put(ctx, s, m->w)) && made_end(ctx, m);
    tllm_scaled_close(ctx, s);
    return ok;
}

/* share of the numbers of matrices that differ by more than the rounding of floats */
static double other_numbers(const tllm_gguf *a, const tllm_gguf *b)
{
    size_t i, k, n, all = 0, off = 0;
    for (i = 0; i < tllm_gguf_n_tensors(a); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(a, i), *u = tllm_gguf_tensor_at(b, i);
        float *x, *y;
        if (!is_matrix(t)) continue;
        n = (size_t)(t->dim[0] * t->dim[1]);
        x = (float *)malloc(n * sizeof *x);
        y = (float *)malloc(n * sizeof *y);
        tllm_format_of(t->type)->unpack(t->data, x, n);
        tllm_format_of(u->type)->unpack(u->data, y, n);
        for (k = 0; k < n; k++) off += !(fabsf(x[k] - y[k]) <= 1e-4f * fabsf(x[k]));
        all += n;
        free(x);
        free(y);
    }
    return (double)off / (double)all;
}
/* groups of 32 whose range is searched: of all matrices but queries and keys */
static size_t groups_of(const tllm_gguf *g)
{
    size_t i, n = 0;
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (is_listed(t) && memcmp(t->name.at + 6, "attn_q", 6) && memcmp(t->name.at + 6, "attn_k", 6))
            n += (size_t)(t->dim[0] / 32 * t->dim[1]);
    }
    return n;
}

/* without ranges AWQ is the same function, in few readings and in many; and rounded it is nearer than rounding alone */
static void test_awq(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_scaled_desc d;
    tllm_scaled_about about;
    made floats, plain, q, same, apart_cut;
    int32_t *token = (int32_t *)t_keep(TEXT * sizeof *token), other[JUDGED];
    float *want, *y;
    size_t n, k;
    uint64_t sum[4];
    double rtn;
    if (!open_model(ctx, &g)) { t_close(ctx); return; }
    stories(token, TEXT, 7);
    stories(other, JUDGED, 8);
    T_TRUE(packed(ctx, g, TLLM_FORMAT_F32, &floats));
    want = logits_of(ctx, floats.file, other, &n);
    memset(&d, 0, sizeof d);
    d.no_clip = 1;
    d.awq.steps = STEPS;
    T_TRUE(scaled(ctx, floats.file, &d, token, TEXT, TLLM_FORMAT_Q4_0, &same, &about));
    y = logits_of(ctx, same.file, other, &n);
    T_TRUE(apart(want, y, n) <= 1e-5);
    T_TRUE(about.folds >= 6 && about.unknown == 0 && about.groups == 0 && about.loss < about.plain && about.alpha > 0);
    /* a reading for each layer: the model is the same, and so is the output */
    d.room = 1;
    T_TRUE(scaled(ctx, floats.file, &d, token, TEXT, TLLM_FORMAT_Q4_0, &q, NULL));
    T_TRUE(sum_of(&same) == sum_of(&q));
    drop(ctx, &q);
    memset(&d, 0, sizeof d);                /* ranges of the model that was scaled, and nothing else */
    d.awq.steps = 1;
    T_TRUE(scaled(ctx, same.file, &d, token, TEXT, TLLM_FORMAT_Q4_0, &apart_cut, NULL));
    drop(ctx, &same);
    T_TRUE(packed(ctx, floats.file, TLLM_FORMAT_Q4_0, &plain));
    y = logits_of(ctx, plain.file, other, &n);
    rtn = apart(want, y, n);
    drop(ctx, &plain);
    d.awq.steps = STEPS;
    T_TRUE(scaled(ctx, floats.file, &d, token, TEXT, TLLM_FORMAT_Q4_0, &same, &about));
    T_EQ_INT(about.groups, groups_of(g));
    /* both at once: ranges are those of the inputs over the factors */
    T_TRUE(other_numbers(same.file, apart_cut.file) <= 2e-4);
    if (getenv("T_SAY"))
        printf("%.4f of all weights are others when ranges are cut in a second turn\n",
               other_numbers(same.file, apart_cut.file));
    drop(ctx, &apart_cut);
    T_TRUE(packed(ctx, same.file, TLLM_FORMAT_Q4_0, &q));
    y = logits_of(ctx, q.file, other, &n);
    T_TRUE(T_SLOW || apart(want, y, n) < rtn);  /* which needs the longer text */
    T_TRUE(about.cut > 0 && about.cut < about.groups);
    if (getenv("T_SAY"))
        printf("Q4_0: %.4g apart, rounded %.4g; loss %.3f, mean power %.2f, %d of %d cut\n", apart(want, y, n), rtn,
               about.loss / about.plain, about.alpha, (int)about.cut, (int)about.groups);
    drop(ctx, &q);
    drop(ctx, &same);
    for (k = 0; k < (T_SLOW ? 2 : 4); k++) {                 /* any number of threads: the same bytes */
        tiny_ctx *few = t_ctx(TINY_TARGET_AUTO, (int)k + 1);
        memset(&d, 0, sizeof d);
        d.awq.steps = 4;
        d.awq.clips = 3;
        if (T_TRUE(scaled(few, g, &d, token, 200, TLLM_FORMAT_Q4_0, &q, NULL))) {
            sum[k] = sum_of(&q);
            T_TRUE(sum[k] == sum[0]);
            drop(few, &q);
        }
        t_close(few);
    }
    t_use(ctx);
    drop(ctx, &floats);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* After SmoothQuant with alpha 0.5 the largest of each input is that of its weights: x / s = w s = sqrt(x w), over the
 * text itself. */
static void largest(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, const char *name, float *x, float *w)
{
    static const char *const reads[] = { "blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight" };
    tllm_watch *watch = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *run = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc sd;
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, name);
    size_t k, i, r;
    int at;
    memset(&sd, 0, sizeof sd);
    T_OK(tllm_watch_open(ctx, g, &watch));
    T_OK(tllm_watch_pick(watch, t, 0));
    cd.accel = tllm_watch_hook(watch);
    T_OK(tiny_ctx_open(&cd, &run));
    T_OK(tllm_model_open(run, g, &model));
    sd.n_ctx = 100;
    T_OK(tllm_state_open(run, model, &sd, &state));
    for (at = 0; at < TEXT; at += 100) {
        tllm_state_clear(state);
        T_OK(tllm_forward(state, token + at, 100, 0, 0, NULL));
    }
    tllm_calib_largest(tllm_watch_of(watch, t, 0), x);
    memset(w, 0, (size_t)t->dim[0] * sizeof *w);
    for (k = 0; k < 3; k++) {
        const tllm_gguf_tensor *m = tllm_gguf_tensor_find(g, reads[k]);
        const size_t n = (size_t)m->dim[0];
        float *v = t_guarded(n * (size_t)m->dim[1]);
        tllm_format_of(m->type)->unpack(m->data, v, n * (size_t)m->dim[1]);
        for (r = 0; r < (size_t)m->dim[1]; r++)
            for (i = 0; i < n; i++) w[i] = fmaxf(w[i], fabsf(v[r * n + i]));
    }
    tllm_state_close(run, state);
    tllm_model_close(run, model);
    tiny_ctx_close(run);
    tllm_watch_close(watch);
    t_use(ctx);
}
static void test_smooth(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_scaled_desc d;
    tllm_scaled_about about;
    made floats, q;
    int32_t *token = (int32_t *)t_keep(TEXT * sizeof *token), other[JUDGED];
    int64_t layers = 0;
    float x0[256], w0[256], x1[256], w1[256], *want, *y;
    size_t n;
    int i;
    if (!open_model(ctx, &g)) { t_close(ctx); return; }
    stories(token, TEXT, 7);
    stories(other, JUDGED, 8);
    T_TRUE(packed(ctx, g, TLLM_FORMAT_F32, &floats));
    want = logits_of(ctx, floats.file, other, &n);
    memset(&d, 0, sizeof d);
    d.way = TLLM_SCALE_SMOOTH;
    d.alpha = 0.5f;
    d.window = 100;
    T_TRUE(scaled(ctx, floats.file, &d, token, TEXT, TLLM_FORMAT_Q8_0, &q, &about));
    y = logits_of(ctx, q.file, other, &n);
    T_TRUE(apart(want, y, n) <= 1e-5);
    T_TRUE(tllm_meta_i64(tllm_gguf_find(g, "llama.block_count"), 0, &layers));
    T_TRUE((int64_t)about.folds == 2 * (T_SLOW ? 2 : layers) && about.unknown == 0);       /* the norms */
    T_CLOSE(about.alpha, 0.5, 1e-6);
    largest(ctx, floats.file, token, "blk.1.attn_q.weight", x0, w0);
    largest(ctx, q.file, token, "blk.1.attn_q.weight", x1, w1);
    for (i = 0; i < 128; i++) {
        const double both = sqrt((double)x0[i] * (double)w0[i]);
        T_CLOSE(x1[i], both, 1e-4 * both);
        T_CLOSE(w1[i], both, 1e-4 * both);
    }
    drop(ctx, &q);
    drop(ctx, &floats);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static int stop_now(void *user) { (void)user; return 1; }
static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *stopped = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL, *other = NULL;
    tllm_scaled_tensor list[MOST];
    tllm_scaled_desc d;
    tllm_scaled *s = NULL;
    int32_t token[40];
    const char *mamba;
    size_t n;
    if (!open_model(ctx, &g)) { t_close(ctx); return; }
    stories(token, 40, 9);
    n = list_of(g, TLLM_FORMAT_Q4_0, list);
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_scaled_open(NULL, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_scaled_open(ctx, NULL, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "a file, at least one token");
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 0, list, n, &s), TINY_E_ARGUMENT, "at least one token");
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, 0, &s), TINY_E_ARGUMENT, "at least one matrix");
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, NULL), TINY_E_ARGUMENT, "a result pointer");
    d.way = 2;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "way 2; there are AWQ");
    d.way = TLLM_SCALE_SMOOTH;
    d.alpha = 1.5f;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "smooth: alpha is 1.5");
    d.alpha = NAN;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "smooth: alpha is nan");
    d.way = 0;
    d.alpha = 0;
    d.window = -2;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "awq: windows of -2 tokens");
    d.window = 0;
    d.awq.steps = 5000;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "awq: 5000 powers");
    d.awq.steps = 0;
    d.kinds = 1u << TLLM_FOLD_OUTPUT;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_UNSUPPORTED,
             "no fold to scale; the reason for its first layer: its folds are of other kinds");
    d.kinds = 0;
    token[30] = 70000;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT,
             "awq: token 30 of the text is 70000");
    token[30] = 3;
    list[1].format = TLLM_FORMAT_Q4_K;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT,
             "has rows of 128 numbers, which are not whole blocks of Q4_K");
    list[1].format = TLLM_FORMAT_IQ2_XS;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT, "not whole blocks of IQ2_XS");
    list[1].format = TLLM_FORMAT_F16;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_UNSUPPORTED,
             "F16 (format 1) is not a block format");
    list[1].format = TLLM_FORMAT_Q4_0;
    list[2].t = tllm_gguf_tensor_find(g, "output_norm.weight");
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT,
             "entry 2 of the list is not a readable matrix");
    list[2].t = NULL;
    T_STATUS(tllm_scaled_open(ctx, g, &d, token, 40, list, n, &s), TINY_E_ARGUMENT,
             "entry 2 of the list is not a readable matrix");
    T_TRUE(s == NULL && tllm_scaled_what(NULL).folds == 0 && tllm_scaled_folds(NULL) == NULL);
    T_STATUS(tllm_scaled_put(ctx, NULL, NULL), TINY_E_ARGUMENT, "the model is NULL or closed");
    tllm_scaled_close(ctx, NULL);
    mamba = t_shared("oracle/llm/mamba.gguf");
    if (mamba) {
        T_OK(tllm_gguf_open(ctx, mamba, &other));
        list[0].t = tllm_gguf_tensor_find(other, "blk.0.ssm_in.weight");
        token[0] = 1;
        T_STATUS(tllm_scaled_open(ctx, other, &d, token, 1, list, 1, &s), TINY_E_UNSUPPORTED,
                 "awq: mamba has no fold to scale; the reason for its first layer: the mixer of the layer");
        tllm_gguf_close(ctx, other);
        t_now.was_skipped = 0;
    }
    n = list_of(g, TLLM_FORMAT_Q4_0, list);
    cd.cancel = stop_now;
    T_OK(tiny_ctx_open(&cd, &stopped));
    t_use(stopped);
    T_STATUS(tllm_scaled_open(stopped, g, &d, token, 40, list, n, &s), TINY_E_CANCELLED, NULL);
    tiny_ctx_close(stopped);
    t_use(ctx);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_memory(void)
{
    const char *model = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *out = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    int way;
    if (!model) { t_close(out); return; }
    T_OK(tllm_gguf_open(out, model, &g));
    for (way = 0; way < 2; way++)
        T_EACH_ALLOCATION(
            tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
            tiny_ctx *ctx = NULL;
            tllm_scaled_tensor list[2];
            tllm_scaled_desc how;
            tllm_scaled *s = NULL;
            tllm_writer *w = NULL;
            int32_t token[6] = { 1, 5, 7, 20, 3, 9 };
            tiny_status st = tiny_ctx_open(&d, &ctx);
            memset(&how, 0, sizeof how);
            how.way = way;
            how.awq.steps = 2;
            how.awq.clips = 2;
            list[0].t = tllm_gguf_tensor_find(g, "blk.1.ffn_gate.weight");
            list[1].t = tllm_gguf_tensor_find(g, "blk.1.ffn_down.weight");
            list[0].format = list[1].format = TLLM_FORMAT_Q4_0;
            if (!st) st = tllm_scaled_open(ctx, g, &how, token, 6, list, 2, &s);
            if (!st) st = tllm_writer_open(ctx, NULL, &w);
            if (!st) st = tllm_scaled_put(ctx, s, w);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tllm_writer_close(ctx, w);
            tllm_scaled_close(ctx, s);
            tiny_ctx_close(ctx);
        )
    tllm_gguf_close(out, g);
    t_close(out);
}

int main(void)
{
    T_RUN(test_awq);
    T_RUN(test_smooth);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
