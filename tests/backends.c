/* tests/backends.c - the back ends of ports/ that this machine can run
 *
 * build/conformance --backend NAME is the thorough form; here a few cases of each operation, and two things outside the
 * kit: missing devices, and views into uploaded memory.                                                   */
#include "t.h"

#if defined __SANITIZE_THREAD__
#define NOT_HERE "the thread sanitizer does not know the locks of these libraries"
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define NOT_HERE "the thread sanitizer does not know the locks of these libraries"
#endif
#endif

#if !defined NOT_HERE && defined HAVE_BLAS
#include "ports/blas/tiny_blas.h"
#endif
#if !defined NOT_HERE && defined HAVE_OPENCL
#include "ports/opencl/tiny_opencl.h"
/* the compiler inside the driver keeps memory until the end */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libOpenCL\nleak:libclang\nleak:libhwloc\n";
}
#endif
#ifndef NOT_HERE
#define NOT_HERE "this program was built without it"
#endif

static int answered;

TINYI_UNUSED static void check_row(void *user, const tiny_conform_row *r)
{
    (void)user;
    answered += r->n_cases;
    if (r->n_failed)
        t_fail(__FILE__, __LINE__, "%s: %d of %d cases: %s", r->row->name, r->n_failed, r->n_cases, r->first_failure);
}

TINYI_UNUSED static void check_op(const tiny_accel *accel, const char *op, int n_cases)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_conform_desc kit;
    tiny_ctx *ctx = NULL;
    int n_failed = -1;
    desc.accel = accel;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    memset(&kit, 0, sizeof kit);
    kit.op = op;
    kit.n_cases = n_cases;
    kit.seed = 2;
    kit.row = check_row;
    answered = 0;
    T_OK(tiny_conform(ctx, &kit, &n_failed));
    T_EQ_INT(n_failed, 0);
    T_TRUE(answered > 0);
    t_close(ctx);
}

static void test_blas(void)
{
#ifdef TINY_BLAS_H
    tiny_blas blas;
    const tiny_accel *a = tiny_blas_open(&blas);
    check_op(a, "matmul", 120);
    check_op(a, "dot", 40);
#else
    T_SKIP(NOT_HERE);
#endif
}

#ifdef TINY_OPENCL_H

static void set_device(const char *name)
{
#ifdef _WIN32
    (void)_putenv_s("TINY_OPENCL_DEVICE", name);
#else
    (void)setenv("TINY_OPENCL_DEVICE", name, 1);
#endif
}

static void test_opencl_no_device(void)
{
    tiny_opencl *cl = (tiny_opencl *)&answered;
    char says[256];
    set_device("no device has this name");
    T_TRUE(tiny_opencl_open(&cl, says) == TINY_E_ACCEL);
    T_TRUE(cl == NULL);
    T_TRUE(strstr(says, "no device has this name") != NULL);
    set_device("63");
    T_TRUE(tiny_opencl_open(&cl, says) == TINY_E_ACCEL);
    set_device("");
    T_TRUE(tiny_opencl_open(NULL, says) == TINY_E_ARGUMENT);
    tiny_opencl_close(NULL);
}

static void test_opencl(void)
{
    static const char *const ops[] = { "matmul",    "matmul_i8", "softmax", "log_softmax", "rmsnorm",   "layernorm",
                                       "attention", "add",       "mul",     "swiglu",      "turn_pairs" };
    static const char *const some[] = { "matmul_blocks", "paged_attention",
                                        "put_rows" }; /* of many formats and forms it takes a few */
    tiny_opencl *cl;
    char says[256];
    size_t i;
    if (tiny_opencl_open(&cl, says)) {
        T_SKIP(says);
        return;
    }
    T_TRUE(tiny_opencl_device(cl)[0] != 0);
    for (i = 0; i < T_COUNT(ops); i++) check_op(tiny_opencl_accel(cl), ops[i], 10);
    for (i = 0; i < T_COUNT(some); i++) check_op(tiny_opencl_accel(cl), some[i], 80);
    tiny_opencl_close(cl);
}

/* y = x w with w of ones times f: every number is 4 f */
static void product(tiny_ctx *ctx, float *w, int swapped, float want)
{
    float x[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, y[6] = { 0, 0, 0, 0, 0, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 4), ty = tiny_tensor_2d(y, TINY_F32, 2, 3);
    tiny_tensor tw =
        swapped ? tiny_tensor_swap(tiny_tensor_2d(w, TINY_F32, 3, 4), 0, 1) : tiny_tensor_2d(w, TINY_F32, 4, 3);
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_MATMUL;
    op.in[0] = &tx;
    op.in[1] = &tw;
    op.out[0] = &ty;
    T_OK(tiny_run(ctx, &op));
    for (i = 0; i < 6; i++) T_CLOSE(y[i], want, 1e-6);
}

/* Uploaded once, a stack of weights serves its layers, straight and transposed. That the copy is really used shows when
 * the host's numbers change without another upload. */
static void test_opencl_uploads(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    tiny_opencl *cl;
    tiny_tensor stack, part;
    uint64_t n_answered, n_declined, n_failed;
    float w[36], r[4] = { 1, 1, 1, 1 };
    char says[256];
    int i;
    if (tiny_opencl_open(&cl, says)) {
        T_SKIP(says);
        return;
    }
    desc.accel = tiny_opencl_accel(cl);
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    for (i = 0; i < 36; i++) w[i] = (float)(i / 12 + 1);
    stack = tiny_tensor_3d(w, TINY_F32, 3, 4, 3);
    part = tiny_tensor_1d(w + 12, TINY_F32, 12);
    T_OK(tiny_upload(ctx, &stack));
    for (i = 0; i < 36; i++) w[i] = 100.0f;
    product(ctx, w, 0, 4);
    product(ctx, w + 12, 0, 8);
    product(ctx, w + 24, 1, 12);
    T_OK(tiny_upload(ctx, &part));              /* a part of the uploaded memory */
    product(ctx, w + 12, 1, 400);
    product(ctx, w + 24, 0, 12);
    T_OK(tiny_download(ctx, &stack));
    T_CLOSE(w[0], 1, 0);
    T_CLOSE(w[12], 100, 0);
    T_CLOSE(w[35], 3, 0);
    T_OK(tiny_forget(ctx, &part));              /* drops the whole stack */
    w[24] = w[25] = w[26] = 3.0f;
    for (i = 0; i < 12; i++) w[i] = 7.0f;
    product(ctx, w, 0, 28);
    /* an answer that lands in uploaded memory */
    {
        tiny_tensor tr = tiny_tensor_2d(r, TINY_F32, 1, 4), to = tiny_tensor_2d(w, TINY_F32, 1, 4);
        T_OK(tiny_upload(ctx, &stack));
        T_OK(tiny_softmax(ctx, &tr, NULL, &to));
        T_CLOSE(w[0], 0.25, 1e-6);
        w[0] = w[1] = w[2] = w[3] = 9.0f;
        T_OK(tiny_download(ctx, &stack));
        T_CLOSE(w[3], 0.25, 1e-6);
    }
    tiny_accel_counts(ctx, &n_answered, &n_declined, &n_failed);
    T_EQ_INT(n_answered, 7);
    T_EQ_INT(n_failed, 0);
    t_close(ctx);
    tiny_opencl_close(cl);
}

/* ---- a whole model ---- */

typedef struct heard { char text[4096]; size_t n; } heard;
static int hear(void *user, const char *text, size_t n)
{
    heard *h = (heard *)user;
    if (h->n + n < sizeof h->text) memcpy(h->text + h->n, text, n);
    h->n += n;
    return 0;
}

/* the port, with a count by kind around it */
typedef struct counted {
    tiny_accel accel;
    const tiny_accel *in;
    int asked[TINY_OP_BASE_YOURS], ran[TINY_OP_BASE_YOURS];
} counted;
static int counted_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    counted *c = (counted *)user;
    c->asked[op->kind]++;
    return c->in->can_run(c->in->user, op, row);
}
static tiny_status counted_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    counted *c = (counted *)user;
    const tiny_status st = c->in->run(c->in->user, op, row, says);
    c->ran[op->kind] += !st;
    return st;
}
static tiny_status counted_upload(void *user, const tiny_tensor *t, char *says)
{
    counted *c = (counted *)user;
    return c->in->upload(c->in->user, t, says);
}
static tiny_status counted_fetch(void *user, const tiny_tensor *t, char *says)
{
    counted *c = (counted *)user;
    return c->in->fetch(c->in->user, t, says);
}
static void counted_discard(void *user, const tiny_tensor *t)
{
    counted *c = (counted *)user;
    c->in->discard(c->in->user, t);
}
static void counted_forget(void *user, const tiny_tensor *t)
{
    counted *c = (counted *)user;
    c->in->forget(c->in->user, t);
}

/* The greedy text of the model after the prompt. */
static int tell(tiny_ctx *ctx, const char *path, heard *h)
{
    tllm_generate_desc gd;
    tllm_generate_result r;
    tllm_session *s = NULL;
    memset(&gd, 0, sizeof gd);
    memset(&r, 0, sizeof r);
    memset(h, 0, sizeof *h);
    gd.text = hear;
    gd.user = h;
    gd.n_most = 100;
    if (T_OK(tllm_session_open(ctx, path, NULL, &s))) T_OK(tllm_generate(s, "Once upon a time", 16, &gd, &r));
    tllm_session_close(s);
    return (int)r.n_made;
}

enum { CHAIN = 100 };
/* A chain of best tokens, past any end of a story: 7 tokens at once, then one by one. */
static void chain(tiny_ctx *ctx, const char *path, int type, int32_t token[CHAIN], tiny_idx *n_layer)
{
    tllm_state_desc sd;
    tllm_gguf *g = NULL;
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    tllm_about about;
    int i, n;
    memset(&sd, 0, sizeof sd);
    sd.type_k = sd.type_v = type;
    sd.n_ctx = 128;
    if (T_OK(tllm_gguf_open(ctx, path, &g)) && T_OK(tllm_model_open(ctx, g, &m)) &&
        T_OK(tllm_state_open(ctx, m, &sd, &s))) {
        float *out;
        tllm_model_about(m, &about);
        *n_layer = about.n_layer;
        out = t_guarded((size_t)about.n_out);
        for (i = 0; i < 7; i++) token[i] = (int32_t)(1 + 13 * i % 50);
        for (n = 7, i = 0; n < CHAIN; n++) {
            tiny_idx k, best = 0;
            T_OK(tllm_forward(s, token + i, n - i, i, 1, out));
            for (k = 1; k < about.n_out; k++) if (out[k] > out[best]) best = k;
            i = n;
            token[n] = (int32_t)best;
        }
    }
    tllm_state_close(ctx, s);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, g);
}

/* The same text as the processor's; every operation of every pass was the device's; weights went there once, and the
 * host waited for logits alone. */
static void whole_model(tiny_target target, const char *path, int type, int tells)
{
    static counted c;
    static heard want, got;
    int32_t want_token[CHAIN], got_token[CHAIN];
    tiny_idx n_layer = 0;
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_opencl *cl;
    tiny_ctx *ctx = NULL, *here = t_ctx(target, 1);
    tiny_opencl_traffic t;
    uint64_t n_answered, n_declined, n_failed, kept, fetched;
    char says[256];
    int kind, passes = CHAIN - 7;
    if (tiny_opencl_open(&cl, says)) {
        T_SKIP(says);
        t_close(here);
        return;
    }
    memset(&c, 0, sizeof c);
    c.in = tiny_opencl_accel(cl);
    c.accel = *c.in;
    c.accel.user = &c;
    c.accel.can_run = counted_can_run;
    c.accel.run = counted_run;
    c.accel.upload = counted_upload;
    c.accel.forget = counted_forget;
    c.accel.fetch = counted_fetch;
    c.accel.discard = counted_discard;
    c.accel.download = NULL;
    desc.accel = &c.accel;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    chain(here, path, type, want_token, &n_layer);
    chain(ctx, path, type, got_token, &n_layer);
    T_TRUE(!memcmp(want_token, got_token, sizeof want_token));
    tiny_accel_counts(ctx, &n_answered, &n_declined, &n_failed);
    T_EQ_INT(n_declined, 0);
    T_EQ_INT(n_failed, 0);
    T_EQ_INT(c.ran[TLLM_OP_MATMUL_BLOCKS] + c.ran[TINY_OP_MATMUL],
             passes * (7 * (int)n_layer + 1)); /* seven products a layer, and the logits */
    T_EQ_INT(c.ran[TLLM_OP_PAGED_ATTENTION], passes * (int)n_layer);
    for (kind = 0; kind < TINY_OP_BASE_YOURS; kind++) T_EQ_INT(c.ran[kind], c.asked[kind]);
    t = tiny_opencl_travelled(cl);
    tiny_stay_counts(ctx, &kept, &fetched);
    T_EQ_INT(t.n_upload,
             9 * n_layer + 2); /* seven matrices and two norms a layer, the last norm, the output: each once */
    T_EQ_INT(t.n_wait, fetched);
    T_EQ_INT(fetched, passes + 1);                          /* logits of each pass; of the first also its last row */
    T_TRUE(kept > 10 * fetched);
    if (tells) {
        T_TRUE(tell(here, path, &want) > 15 && want.n > 30);
        (void)tell(ctx, path, &got);
        T_EQ_TEXT(got.text, want.text);
    }
    t_close(ctx);
    t_close(here);
    tiny_opencl_close(cl);
}
static void test_opencl_model(void)
{
    whole_model(TINY_TARGET_AUTO, "examples/models/story.gguf", TLLM_FORMAT_F32, 1);    /* Q8_0 */
    whole_model(TINY_TARGET_AUTO, "examples/models/story.gguf", TLLM_FORMAT_F16, 0);
    whole_model(TINY_TARGET_AUTO, "tests/golden/oracle/llm/llama.gguf", TLLM_FORMAT_F16, 0);
    /* random weights, whose best tokens lead by little: compared with the reference. Like the device it does not round
     * activations to 8 bits; the processor's products with blocks do. */
    whole_model(TINY_TARGET_REFERENCE, "tests/golden/oracle/llm/llama-q4_0.gguf", TLLM_FORMAT_F32, 0);
}
#else
static void test_opencl(void) { T_SKIP(NOT_HERE); }
#endif

int main(void)
{
    T_RUN(test_blas);
    T_RUN(test_opencl);
#ifdef TINY_OPENCL_H
    T_RUN(test_opencl_no_device);
    T_RUN(test_opencl_uploads);
    T_RUN(test_opencl_model);
#endif
    return t_done();
}
