/* tests/llm/model/latent.c - models with latent attention and squared ReLU: their cache, and the agreement of the forms
 *
 * Truth    one token at a time (absorbed) against a whole prompt (expanded after the turning point); positions that are
 *          all shifted; bytes counted by hand; whole products against lists of neurons. Golden logits of these
 *          architectures: tests/llm/model/oracle.c. */
#include "t.h"

/* 4 layers, 4 heads of 32 + 16, values of 32, latents of 64, Q8_0 */
static const char story[] = "examples/models/story-latent.gguf";
enum { N = 200 };

typedef struct opened { tiny_ctx *ctx; tllm_gguf *file; tllm_model *model; tllm_about about; } opened;
static int open_at(opened *o, tiny_target target, const char *path)
{
    memset(o, 0, sizeof *o);
    o->ctx = t_ctx(target, 2);
    if (!path || !T_OK(tllm_gguf_open(o->ctx, path, &o->file)) || !T_OK(tllm_model_open(o->ctx, o->file, &o->model)))
        return 0;
    tllm_model_about(o->model, &o->about);
    return 1;
}
static void close_at(opened *o)
{
    tllm_model_close(o->ctx, o->model);
    tllm_gguf_close(o->ctx, o->file);
    t_close(o->ctx);
}

static void nothing(tiny_team *team, void *arg) { (void)team; (void)arg; }

/* logits after every token of a text from position pos0 on, in pieces of n_batch */
static float *through(opened *o, int n, tiny_idx n_batch, int64_t pos0, tllm_sparsity *seen)
{
    float *out = (float *)t_keep((size_t)n * (size_t)o->about.n_out * sizeof *out);
    int32_t token[N];
    tllm_state_desc d;
    tllm_state *s = NULL;
    int i;
    for (i = 0; i < n; i++) token[i] = (int32_t)((i * 37 + 11) % (int)o->about.n_vocab);
    memset(&d, 0, sizeof d);
    d.n_ctx = 256;
    d.n_batch = n_batch;
    if (T_OK(tllm_state_open(o->ctx, o->model, &d, &s))) {
        size_t before;
        T_OK(tiny_parallel_loose(o->ctx, 0, 0, 0, nothing, NULL));         /* threads are made at their first work */
        before = tiny_ctx_bytes(o->ctx);
        t_alloc.n_calls = 0;
        T_OK(tllm_forward(s, token, n, pos0, n, out));
        /* the size reported at the start was enough */
        T_TRUE(t_alloc.n_calls == 0 && tiny_ctx_bytes(o->ctx) == before);
        if (seen) tllm_state_sparsity(s, seen);
        tllm_state_close(o->ctx, s);
    }
    return out;
}

/* largest difference, in units of 1 + rms */
static double apart(const float *a, const float *b, size_t n)
{
    double rms = 0.0, off = 0.0;
    size_t i;
    for (i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        rms += (double)a[i] * (double)a[i];
        if (!(d <= off)) off = d;
    }
    return off / (1.0 + sqrt(rms / (double)n));
}

/* the turning point of plm.gguf (latents of 32, keys and values of 16) is at 32 queries, the one of the story at 64 */
static void ways(tiny_target target, const char *path, double bound)
{
    opened o;
    if (open_at(&o, target, path)) {
        const size_t n = N * (size_t)o.about.n_out;
        const float *one = through(&o, N, 1, 0, NULL), *all = through(&o, N, N, 0, NULL),
                    *some = through(&o, N, 50, 0, NULL), *later = through(&o, N, N, 40, NULL);
        T_CLOSE(apart(all, one, n), 0.0, bound);
        T_CLOSE(apart(some, one, n), 0.0, bound);
        /* only distances matter: keys are rotated before they are stored */
        T_CLOSE(apart(later, one, n), 0.0, bound);
    }
    close_at(&o);
}
static void test_forms_agree(tiny_target target)
{
    ways(target, t_shared("oracle/llm/plm.gguf"), 2e-5);
    ways(target, t_shared("oracle/llm/deepseek2.gguf"), 2e-5);     /* of several ranks for queries, with experts */
    /* of blocks only where nothing is rounded to 8 bits, which turns any difference into steps of a hundredth */
    if (target == TINY_TARGET_REFERENCE) ways(target, story, 2e-5);
}
static void test_reference(void) { test_forms_agree(TINY_TARGET_REFERENCE); }

/* A token more costs its latent row and its rotated key in each layer: 4 (64 + 16) numbers. Keys and values of all
 * heads would be 4 x 4 x 80. */
static void test_memory(void)
{
    static const struct {
        int type;
        double each;
    } kind[3] = { { TLLM_FORMAT_F32, 4.0 }, { TLLM_FORMAT_F16, 2.0 }, { TLLM_FORMAT_Q4_0, 0.0 } };
    opened o;
    int k;
    if (open_at(&o, TINY_TARGET_AUTO, story))
        for (k = 0; k < 3; k++) {
            tllm_state_desc d;
            size_t small = 0, large = 0, session = 0;
            double each;
            memset(&d, 0, sizeof d);
            d.type_k = d.type_v = kind[k].type;
            d.n_batch = 16;
            d.n_ctx = 1024;
            if (kind[k].each == 0.0) {      /* rows of 80 are no whole blocks of 32 */
                T_STATUS(tllm_state_memory(o.ctx, o.model, &d, &small), TINY_E_UNSUPPORTED,
                         "its heads are not whole blocks");
                continue;
            }
            T_OK(tllm_state_memory(o.ctx, o.model, &d, &small));
            T_OK(tllm_session_memory(o.ctx, story, &d, &session));
            d.n_ctx = 2048;
            T_OK(tllm_state_memory(o.ctx, o.model, &d, &large));
            each = (double)(large - small) / 1024.0;
            /* and a position, and its share of tables */
            T_TRUE(each >= 4 * 80 * kind[k].each && each < 4 * 80 * kind[k].each + 64);
            T_OK(tllm_session_memory(o.ctx, story, &d, &large));
            T_TRUE((double)(large - session) / 1024.0 < 4 * 80 * kind[k].each + 64);
        }
    close_at(&o);
}

static void test_sparse(tiny_target target)
{
    opened o;
    if (open_at(&o, target, t_shared("oracle/llm/plm.gguf"))) {
        const size_t n = N * (size_t)o.about.n_out;
        tllm_sparsity seen;
        size_t bytes = 0, before;
        const float *whole = through(&o, N, 1, 0, &seen), *listed;
        T_TRUE(seen.n_products == 2 * N && seen.n_sparse == 0 && seen.fired > 0.2 && seen.fired < 0.8);
        T_OK(tllm_model_sparse(o.ctx, o.model, -1, &bytes));
        T_EQ_INT(bytes, 2 * 64 * 128 * 4);                 /* two layers */
        before = tiny_ctx_bytes(o.ctx);
        T_OK(tllm_model_sparse(o.ctx, o.model, TLLM_FORMAT_F32, &bytes));
        T_TRUE(bytes == 2 * 64 * 128 * 4 && tiny_ctx_bytes(o.ctx) == before);
        listed = through(&o, N, 1, 0, &seen);
        /* where at most half fired */
        T_TRUE(seen.n_products == 2 * N && seen.n_sparse > 0 && seen.n_sparse < 2 * N);
        T_CLOSE(apart(listed, whole, n), 0.0, 1e-5);
        listed = through(&o, N, 2, 0, &seen);              /* two tokens: neurons that fired for either */
        T_EQ_INT(seen.n_products, N);
        T_CLOSE(apart(listed, whole, n), 0.0, 1e-5);
        listed = through(&o, N, 16, 0, &seen);             /* a prompt is no decode, but for its end of 8 */
        T_EQ_INT(seen.n_products, 2);
        T_CLOSE(apart(listed, whole, n), 0.0, 1e-5);
        T_OK(tllm_model_sparse(o.ctx, o.model, TLLM_FORMAT_F16, &bytes));
        T_EQ_INT(bytes, 2 * 64 * 128 * 2);
        listed = through(&o, N, 1, 0, &seen);
        T_TRUE(seen.n_sparse > 0);
        T_CLOSE(apart(listed, whole, n), 0.0, 2e-3);
    }
    close_at(&o);
}
static void test_sparse_reference(void) { test_sparse(TINY_TARGET_REFERENCE); }

static void test_refused(void)
{
    opened o;
    size_t bytes = 7;
    if (open_at(&o, TINY_TARGET_AUTO, "examples/models/story.gguf")) {
        tllm_sparsity seen;
        T_STATUS(tllm_model_sparse(o.ctx, o.model, -1, &bytes), TINY_E_UNSUPPORTED,
                 "llama has no plain network with squared ReLU");
        T_EQ_INT(bytes, 0);
        (void)through(&o, 3, 1, 0, &seen);
        T_TRUE(seen.n_products == 0 && seen.fired == 0.0);
        T_STATUS(tllm_model_sparse(o.ctx, NULL, -1, NULL), TINY_E_ARGUMENT, "the model is NULL");
        tllm_state_sparsity(NULL, &seen);
        tllm_state_sparsity(NULL, NULL);
    }
    close_at(&o);
    if (open_at(&o, TINY_TARGET_AUTO, t_shared("oracle/llm/plm.gguf"))) {
        T_STATUS(tllm_model_sparse(o.ctx, o.model, TLLM_FORMAT_Q4_K, NULL), TINY_E_UNSUPPORTED,
                 "columns of 64 numbers cannot be stored as Q4_K");
        T_STATUS(tllm_model_sparse(o.ctx, o.model, 999, NULL), TINY_E_UNSUPPORTED, "(format 999)");
    }
    close_at(&o);
    T_EACH_ALLOCATION(tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1); memset(&o, 0, sizeof o);
                      if (!tiny_ctx_open(&d, &o.ctx) && !tllm_gguf_open(o.ctx, story, &o.file) &&
                          !tllm_model_open(o.ctx, o.file, &o.model)) {
                          const tiny_status st = tllm_model_sparse(o.ctx, o.model, -1, NULL);
                          T_TRUE(!st || st == TINY_E_MEMORY);
                      } tllm_model_close(o.ctx, o.model);
                      tllm_gguf_close(o.ctx, o.file); tiny_ctx_close(o.ctx);)
}

int main(void)
{
    T_RUN(test_reference);
    T_RUN_TARGETS(test_forms_agree);
    T_RUN(test_memory);
    T_RUN(test_sparse_reference);
    T_RUN_TARGETS(test_sparse);
    T_RUN(test_refused);
    return t_done();
}
