/* tests/llm/round/gptq_model.c - the inputs of a model's matrices, and GPTQ of all of them
 *
 * Truth    the first layer's inputs, computed here from the embedding: norm, and its gain; logits of the model without
 *          a watch; squared errors of logits on another text, compared with plain rounding */
#include "t.h"
#include <math.h>

static const char path[] = "examples/models/story-small.gguf";          /* rows of 128, Q8_0 */

/* the watch has its context, the model another one */
typedef struct opened {
    tiny_ctx *ctx, *run;
    tllm_gguf *file;
    tllm_watch *watch;
    tllm_model *model;
    tllm_state *state;
    tllm_about about;
} opened;
static int open_it(opened *o, tiny_target target, int watched)
{
    tiny_ctx_desc desc = t_desc(target, 1);
    tllm_state_desc room;
    memset(o, 0, sizeof *o);
    o->ctx = t_ctx(target, 2);
    if (tllm_gguf_open(o->ctx, path, &o->file)) {
        T_SKIP("the story model is not here");
        t_close(o->ctx);
        return 0;
    }
    T_OK(tllm_watch_open(o->ctx, o->file, &o->watch));
    if (watched) desc.accel = tllm_watch_hook(o->watch);
    T_OK(tiny_ctx_open(&desc, &o->run));
    T_OK(tllm_model_open(o->run, o->file, &o->model));
    memset(&room, 0, sizeof room);
    room.n_ctx = 256;
    room.n_batch = 48;
    T_OK(tllm_state_open(o->run, o->model, &room, &o->state));
    tllm_model_about(o->model, &o->about);
    return 1;
}
static void close_it(opened *o)
{
    tllm_state_close(o->run, o->state);
    tllm_model_close(o->run, o->model);
    tiny_ctx_close(o->run);
    tllm_watch_close(o->watch);
    tllm_gguf_close(o->ctx, o->file);
    t_close(o->ctx);
}
static void stories(int32_t *token, int n, uint64_t seed)
{
    tllm_story s = tllm_story_start(seed);
    int i;
    token[0] = TLLM_STORY_END;
    for (i = 1; i < n; i++) token[i] = tllm_story_draw(&s, NULL, NULL);
}
static const tllm_gguf_tensor *named(const opened *o, const char *name)
{
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(o->file, name);
    T_TRUE(t != NULL);
    return t;
}
static float *numbers(const tllm_gguf_tensor *t)
{
    const size_t n = (size_t)(t->dim[0] * t->dim[1]);
    float *x = t_guarded(n);
    tllm_format_of(t->type)->unpack(t->data, x, n);
    return x;
}
static void read_text(opened *o, const int32_t *token, int n, float *logits)
{
    tllm_state_clear(o->state);
    t_use(o->run);
    T_OK(tllm_forward(o->state, token, n, 0, logits ? n : 0, logits));
    t_use(o->ctx);
}

static void test_inputs(tiny_target target)
{
    enum { N = 100 };
    static const char *const wanted[] = { "blk.0.attn_q.weight",      "blk.0.attn_k.weight",   "blk.0.attn_v.weight",
                                          "blk.0.attn_output.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight",
                                          "blk.1.ffn_down.weight" };
    const tllm_gguf_tensor *t[7];
    const tllm_calib *c;
    opened o;
    int32_t token[N];
    float *embd, *gain, *x, *h, *mean, *largest;
    double *s, eps = 1e-5;
    const double *got;
    char last[40];
    int i, j, k, d;
    if (!open_it(&o, target, 1)) return;
    d = (int)o.about.n_embd;
    for (i = 0; i < 7; i++) {
        t[i] = named(&o, wanted[i]);
        T_OK(tllm_watch_pick(o.watch, t[i], TLLM_CALIB_PRODUCTS));
    }
    T_OK(tllm_watch_pick(o.watch, t[0], 0));                /* once is enough */
    (void)snprintf(last, sizeof last, "blk.%d.ffn_down.weight", (int)o.about.n_layer - 1);
    T_OK(tllm_watch_pick(o.watch, named(&o, last), 0));
    (void)tllm_meta_f64(tllm_gguf_find(o.file, "llama.attention.layer_norm_rms_epsilon"), 0, &eps);
    stories(token, N, 5);
    T_TRUE(tllm_watch_of(o.watch, t[0], 0) == NULL);
    read_text(&o, token, N, NULL);
    T_OK(tllm_watch_status(o.watch));
    embd = numbers(named(&o, "token_embd.weight"));
    gain = numbers(named(&o, "blk.0.attn_norm.weight"));
    x = t_guarded((size_t)(N * d));
    h = t_guarded((size_t)d);
    mean = t_guarded((size_t)d);
    largest = t_guarded((size_t)d);
    s = (double *)t_keep((size_t)(d * d) * sizeof *s);
    for (i = 0; i < N; i++) {
        const float *e = embd + token[i] * d;
        double square = 0;
        for (j = 0; j < d; j++) square += (double)e[j] * (double)e[j];
        for (j = 0; j < d; j++) x[i * d + j] = (float)((double)gain[j] * (double)e[j] / sqrt(square / d + eps));
    }
    c = tllm_watch_of(o.watch, t[0], 0);
    T_TRUE(c != NULL);
    T_EQ_INT(tllm_calib_tokens(c), N);
    T_EQ_INT(tllm_calib_n(c), d);
    tllm_calib_diagonal(c, h);
    tllm_calib_mean(c, mean);
    tllm_calib_largest(c, largest);
    got = (const double *)tllm_calib_products(c).data;
    for (i = 0; i < N; i++)
        for (j = 0; j < d; j++)
            for (k = j; k < d; k++) s[j * d + k] += (double)x[i * d + j] * (double)x[i * d + k];
    for (j = 0; j < d; j++) {
        double size = 0, most = 0;
        for (i = 0; i < N; i++) {
            size += fabs((double)x[i * d + j]) / N;
            most = fmax(most, fabs((double)x[i * d + j]));
        }
        T_CLOSE(h[j], 2 * s[j * d + j] / N, 1e-4 * (double)h[j]);
        T_CLOSE(mean[j], size, 1e-4 * size);
        T_CLOSE(largest[j], most, 1e-4 * most);
        for (k = j; k < d; k++) T_CLOSE(got[j * d + k], s[j * d + k], 1e-4 * sqrt(s[j * d + j] * s[k * d + k]));
    }
    T_TRUE(tllm_watch_of(o.watch, t[1], 0) == c && tllm_watch_of(o.watch, t[2], 0) == c);   /* they read the same */
    T_TRUE(tllm_watch_of(o.watch, t[3], 0) != c && tllm_watch_of(o.watch, t[3], 0) != NULL);
    T_TRUE(tllm_watch_of(o.watch, t[4], 0) == tllm_watch_of(o.watch, t[5], 0) &&
           tllm_watch_of(o.watch, t[4], 0) != NULL);
    T_EQ_INT(tllm_calib_n(tllm_watch_of(o.watch, t[6], 0)), (int)t[6]->dim[0]);
    T_EQ_INT(tllm_calib_tokens(tllm_watch_of(o.watch, t[5], 0)), N);
    T_EQ_INT(tllm_calib_tokens(tllm_watch_of(o.watch, named(&o, last), 0)), N);     /* although no result is wanted */
    T_TRUE(tllm_watch_of(o.watch, named(&o, "blk.2.ffn_up.weight"), 0) == NULL);            /* not picked */
    T_TRUE(tllm_watch_of(o.watch, t[0], 1) == NULL && tllm_watch_of(o.watch, t[0], -1) == NULL &&
           tllm_watch_of(o.watch, NULL, 0) == NULL);
    read_text(&o, token, N, NULL);
    T_EQ_INT(tllm_calib_tokens(c), 2 * N);
    tllm_watch_forget(o.watch);
    T_TRUE(tllm_watch_of(o.watch, t[0], 0) == NULL);
    read_text(&o, token, N, NULL);
    T_OK(tllm_watch_pick(o.watch, t[0], 0));                /* and anew */
    read_text(&o, token, 7, NULL);
    T_EQ_INT(tllm_calib_tokens(tllm_watch_of(o.watch, t[0], 0)), 7);
    close_it(&o);
}

/* A matrix that is first used late does not share the sums of one with more rows, though both have the same input this
 * time. */
static void test_late_matrix(void)
{
    static const char *const names[] = { "blk.0.attn_q.weight", "blk.0.attn_output.weight", "blk.1.attn_q.weight" };
    const tllm_gguf_tensor *t[3];
    tiny_tensor x, m[3], y;
    opened o;
    float *in, *out;
    int i, n;
    if (!open_it(&o, TINY_TARGET_AUTO, 1)) return;
    n = (int)o.about.n_embd;
    in = t_rand((size_t)(2 * n), -1, 1);
    out = t_guarded((size_t)n);
    for (i = 0; i < 3; i++) {
        t[i] = named(&o, names[i]);
        T_TRUE((int)t[i]->dim[0] == n && (int)t[i]->dim[1] == n);
        T_OK(tllm_watch_pick(o.watch, t[i], TLLM_CALIB_PRODUCTS));
        m[i] = tiny_tensor_2d((void *)(uintptr_t)t[i]->data, TINY_U8, n, (tiny_idx)t[i]->bytes / n);
    }
    x = tiny_tensor_2d(in, TINY_F32, 1, n);
    y = tiny_tensor_2d(out, TINY_F32, 1, n);
    t_use(o.run);
    T_OK(tllm_matmul(o.run, &x, (int)t[0]->type, &m[0], NULL, &y));
    T_OK(tllm_matmul(o.run, &x, (int)t[1]->type, &m[1], NULL, &y));         /* this one shares */
    x.data = in + n;
    T_OK(tllm_matmul(o.run, &x, (int)t[0]->type, &m[0], NULL, &y));
    T_OK(tllm_matmul(o.run, &x, (int)t[2]->type, &m[2], NULL, &y));         /* this one does not */
    t_use(o.ctx);
    T_OK(tllm_watch_status(o.watch));
    T_TRUE(tllm_watch_of(o.watch, t[0], 0) == tllm_watch_of(o.watch, t[1], 0));
    T_TRUE(tllm_watch_of(o.watch, t[0], 0) != tllm_watch_of(o.watch, t[2], 0));
    T_EQ_INT(tllm_calib_tokens(tllm_watch_of(o.watch, t[0], 0)), 2);
    T_EQ_INT(tllm_calib_tokens(tllm_watch_of(o.watch, t[2], 0)), 1);
    close_it(&o);
}

/* a watch changes nothing; a matrix in another form is multiplied in that one */
static void test_replaced(tiny_target target)
{
    enum { N = 60 };
    opened o, p;
    int32_t token[N];
    const tllm_gguf_tensor *t;
    tllm_watch *none;
    const tllm_format *q8 = tllm_format_of(TLLM_FORMAT_Q8_0);
    unsigned char *other;
    float *w, *a, *b;
    size_t k, n;
    if (!open_it(&o, target, 1)) return;
    if (!open_it(&p, target, 0)) return;
    n = (size_t)(N * o.about.n_out);
    a = t_guarded(n);
    b = t_guarded(n);
    stories(token, N, 6);
    read_text(&p, token, N, a);
    t = named(&o, "blk.1.ffn_down.weight");
    T_OK(tllm_watch_pick(o.watch, t, TLLM_CALIB_PRODUCTS));
    read_text(&o, token, N, b);
    T_SAME(a, b, n);
    w = numbers(t);
    other = (unsigned char *)t_guarded_bytes(tllm_format_bytes(q8, t->dim[0] * t->dim[1]));
    q8->pack(w, other, (size_t)(t->dim[0] * t->dim[1]), NULL);
    T_OK(tllm_watch_replace(o.watch, t, TLLM_FORMAT_Q8_0, other));
    read_text(&o, token, N, b);
    for (k = 0; k < n; k++) T_CLOSE(b[k], a[k], 0.05);      /* Q8_0 again: other sums, nearly the same numbers */
    memset(other, 0, tllm_format_bytes(q8, t->dim[0] * t->dim[1]));
    read_text(&o, token, N, b);
    for (k = 0; k < n && fabsf(a[k] - b[k]) < 0.5f; k++) {}
    T_TRUE(k < n);                          /* without that matrix the model gives other logits */
    T_OK(tllm_watch_status(o.watch));
    T_OK(tllm_watch_replace(o.watch, t, 0, NULL));
    read_text(&o, token, N, b);
    T_SAME(a, b, n);
    T_STATUS(tllm_watch_replace(o.watch, t, TLLM_FORMAT_F16, other), TINY_E_ARGUMENT, "not whole blocks of F16");
    T_STATUS(tllm_watch_replace(o.watch, t, 999, other), TINY_E_ARGUMENT, "not whole blocks of any format");
    T_STATUS(tllm_watch_replace(o.watch, named(&p, "blk.1.ffn_down.weight"), TLLM_FORMAT_Q8_0, other), TINY_E_ARGUMENT,
             "not a matrix of this file");
    T_STATUS(tllm_watch_pick(o.watch, NULL, 0), TINY_E_ARGUMENT, "not a matrix of this file");
    T_STATUS(tllm_watch_pick(o.watch, named(&o, "output_norm.weight"), 0), TINY_E_ARGUMENT,
             "output_norm.weight is not a matrix of this");
    T_TRUE(tllm_watch_open(NULL, o.file, &none) == TINY_E_ARGUMENT && none == NULL);
    T_STATUS(tllm_watch_open(o.ctx, NULL, &none), TINY_E_ARGUMENT, "a file and a result pointer");
    T_TRUE(tllm_watch_pick(NULL, t, 0) == TINY_E_ARGUMENT && tllm_watch_status(NULL) == TINY_E_ARGUMENT &&
           tllm_watch_hook(NULL) == NULL);
    close_it(&p);
    close_it(&o);
}

/* squared error of the logits of another text, with the tensors of the list in their new form */
static double off(opened *o, const tllm_gptq_tensor *list, size_t n, const float *want, const int32_t *token,
                  int n_token, float *logits)
{
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++) T_OK(tllm_watch_replace(o->watch, list[i].t, list[i].format, list[i].to));
    read_text(o, token, n_token, logits);
    for (i = 0; i < (size_t)(n_token * o->about.n_out); i++)
        sum += ((double)logits[i] - (double)want[i]) * ((double)logits[i] - (double)want[i]);
    for (i = 0; i < n; i++) T_OK(tllm_watch_replace(o->watch, list[i].t, 0, NULL));
    return sum;
}

static void test_model(void)
{
    enum { TEXT = T_SLOW ? 1000 : 3000, JUDGED = T_SLOW ? 100 : 200, MOST = 64 };
    static const int formats[] = { TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q5_1 };
    tllm_gptq_tensor list[MOST];
    tllm_gptq_model_desc d;
    opened o;
    int32_t *token = (int32_t *)t_keep(TEXT * sizeof *token), other[JUDGED];
    float *want, *logits;
    size_t i, n = 0, f, way;
    if (!open_it(&o, TINY_TARGET_AUTO, 1)) return;
    want = t_guarded((size_t)(JUDGED * o.about.n_out));
    logits = t_guarded((size_t)(JUDGED * o.about.n_out));
    stories(token, TEXT, 7);
    stories(other, JUDGED, 8);
    read_text(&o, other, JUDGED, want);
    memset(list, 0, sizeof list);
    for (i = 0; i < tllm_gguf_n_tensors(o.file) && n < MOST; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(o.file, i);
        if (t->rank < 2 || t->dim[1] < 2 || strncmp(t->name.at, "blk.", 4)) continue;
        list[n].t = t;
        list[n++].to = t_guarded_bytes(tllm_format_bytes(tllm_format_of(TLLM_FORMAT_Q5_1), t->dim[0] * t->dim[1]));
    }
    T_TRUE(n >= 14);
    for (f = T_SLOW; f < T_COUNT(formats); f++) {
        double rtn, gptq;
        for (i = 0; i < n; i++) {
            list[i].format = formats[f];
            tllm_format_of(formats[f])
                ->pack(numbers(list[i].t), list[i].to, (size_t)(list[i].t->dim[0] * list[i].t->dim[1]), NULL);
        }
        rtn = off(&o, list, n, want, other, JUDGED, logits);
        for (way = 0; way < 3; way++) {
            memset(&d, 0, sizeof d);
            d.window = way == 2 ? 100 : 0;
            d.each_layer = way == 1;
            d.room = way == 2 ? 1000000 : 0;
            T_OK(tllm_gptq_model(o.ctx, o.file, &d, token, TEXT, list, n));
            for (i = 0; i < n; i++) {
                T_EQ_INT(list[i].found, 1);
                T_EQ_INT(list[i].tokens, TEXT);
                T_TRUE(list[i].about.loss > 0 && !list[i].about.rounded);
                T_WALLS(list[i].to, 0);
            }
            gptq = off(&o, list, n, want, other, JUDGED, logits);
            T_TRUE(gptq < 0.7 * rtn);
            if (getenv("T_SAY"))
                printf("%s, way %d: squared error of logits %.4g, rounded %.4g\n", tllm_format_of(formats[f])->name,
                       (int)way, gptq, rtn);
        }
    }
    close_it(&o);
}

static void test_refused(void)
{
    tllm_gptq_tensor list[1];
    tllm_gptq_model_desc d;
    opened o;
    int32_t token[40];
    unsigned char *to;
    if (!open_it(&o, TINY_TARGET_AUTO, 0)) return;
    stories(token, 40, 9);
    memset(list, 0, sizeof list);
    memset(&d, 0, sizeof d);
    list[0].t = named(&o, "blk.0.attn_q.weight");
    list[0].format = TLLM_FORMAT_Q4_0;
    list[0].to = to = (unsigned char *)t_guarded_bytes(list[0].t->bytes);
    T_STATUS(tllm_gptq_model(NULL, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_gptq_model(o.ctx, NULL, &d, token, 40, list, 1), TINY_E_ARGUMENT, "a file, at least one token");
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 0, list, 1), TINY_E_ARGUMENT, "at least one token");
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 0), TINY_E_ARGUMENT, "at least one tensor");
    d.window = -1;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT, "windows of -1 tokens");
    d.window = 0;
    token[33] = 100000;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT,
             "token 33 of the text is 100000, but the model has");
    token[33] = 3;
    list[0].format = TLLM_FORMAT_IQ4_NL;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_UNSUPPORTED,
             "blk.0.attn_q.weight has rows of 128 numbers; IQ4_NL cannot be made of them");
    list[0].format = TLLM_FORMAT_Q4_K;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_UNSUPPORTED,
             "Q4_K cannot be made of them");
    list[0].format = TLLM_FORMAT_Q4_0;
    list[0].to = NULL;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT,
             "entry 0 of the list has no tensor or no result");
    list[0].to = to;
    list[0].t = named(&o, "output_norm.weight");
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT,
             "output_norm.weight is not a readable matrix");
    list[0].t = named(&o, "blk.0.attn_q.weight");
    d.gptq.damp = -1.0f;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT, "damping by -1");
    T_EQ_INT(list[0].found, 0);
    d.gptq.damp = 0.0f;
    list[0].damp = NAN;
    T_STATUS(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1), TINY_E_ARGUMENT, "damping by nan");
    list[0].damp = 2.0f;
    T_OK(tllm_gptq_model(o.ctx, o.file, &d, token, 40, list, 1));
    T_CLOSE(list[0].about.damp, 2, 0);
    list[0].damp = 0.0f;
    T_OK(tllm_gptq_model(o.ctx, o.file, NULL, token, 40, list, 1));         /* fewer tokens than inputs */
    T_EQ_INT(list[0].found, 1);
    T_EQ_INT(list[0].tokens, 40);
    close_it(&o);
}

static void test_allocations(void)
{
    opened o;
    int32_t token[8];
    if (!open_it(&o, TINY_TARGET_AUTO, 0)) return;
    close_it(&o);
    stories(token, 8, 10);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_gguf *file = NULL;
        if (tiny_ctx_open(&desc, &ctx)) continue;
        if (!tllm_gguf_open(ctx, path, &file)) {
            static unsigned char to[2][128 * 80];
            tllm_gptq_tensor list[2];
            memset(list, 0, sizeof list);
            list[0].t = tllm_gguf_tensor_find(file, "blk.0.attn_k.weight");
            list[1].t = tllm_gguf_tensor_find(file, "blk.0.attn_q.weight");
            list[0].format = list[1].format = TLLM_FORMAT_Q4_0;
            list[0].to = to[0];
            list[1].to = to[1];
            if (tllm_gptq_model(ctx, file, NULL, token, 8, list, 2)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
        }
        tllm_gguf_close(ctx, file);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_TARGETS(test_inputs);
    T_RUN(test_late_matrix);
    T_RUN_TARGETS(test_replaced);
    T_RUN(test_model);
    T_RUN(test_refused);
    T_RUN(test_allocations);
    return t_done();
}
