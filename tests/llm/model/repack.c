/* tests/llm/model/repack.c - models with repacked matrices: the same logits as in place, every thread count, the form
 * in a file, and refused files */
#include "t.h"
#include "llm/file/kit.h"

/* a target that has kernels for repacked matrices, where this machine runs one */
#define WITH_KERNELS (tiny_target_runs_here(TINY_TARGET_AVX2) ? TINY_TARGET_AVX2 : TINY_TARGET_AUTO)

typedef struct opened { tiny_ctx *ctx; tllm_gguf *file; tllm_model *model; tllm_about about; } opened;

static const char *const models[] = { "oracle/llm/llama-q4_0.gguf", "oracle/llm/llama-q8_0.gguf",
                                      "oracle/llm/llama-q4_k.gguf", "oracle/llm/llama-q4_k_m.gguf" };
static const struct {
    const char *path;
    int format;
} experts[] = { { "oracle/llm/llama4-b.gguf", TLLM_FORMAT_Q4_0 },
                { "oracle/llm/olmoe.gguf", TLLM_FORMAT_Q4_0 },
                { "oracle/llm/qwen3moe.gguf", TLLM_FORMAT_Q8_0 },
                { "oracle/llm/olmoe.gguf", TLLM_FORMAT_Q5_1 } };
static const char kept[] = "build/repacked.tmp";

static int open_file(opened *o, const char *path, const void *bytes, size_t n_bytes, tiny_target target, int threads)
{
    memset(o, 0, sizeof *o);
    if (!path && !bytes) return 0;
    o->ctx = t_ctx(target, threads);
    if (!T_OK(bytes ? tllm_gguf_open_memory(o->ctx, bytes, n_bytes, &o->file)
                    : tllm_gguf_open(o->ctx, path, &o->file)) ||
        !T_OK(tllm_model_open(o->ctx, o->file, &o->model)))
        return 0;
    tllm_model_about(o->model, &o->about);
    return 1;
}
static int open_one(opened *o, const char *path, tiny_target target, int threads)
{
    return open_file(o, path, NULL, 0, target, threads);
}
static void close_one(opened *o)
{
    tllm_model_close(o->ctx, o->model);
    tllm_gguf_close(o->ctx, o->file);
    t_close(o->ctx);
}
enum { PROMPT = 19, STEPS = 4, ROWS = PROMPT + STEPS + 3 };
/* logits of a prompt, of steps one by one, and of a step of three sequences: ROWS rows */
static float *logits(opened *o)
{
    tllm_state_desc d;
    tllm_state *s = NULL;
    tllm_item items[3];
    int32_t token[PROMPT + STEPS];
    float *x = (float *)t_keep((size_t)(ROWS * o->about.n_out) * sizeof *x);
    int i;
    memset(&d, 0, sizeof d);
    d.n_ctx = 64;
    d.n_seq = 3;
    for (i = 0; i < PROMPT + STEPS; i++) token[i] = (int32_t)(1 + 7 * i % ((int)o->about.n_vocab - 1));
    memset(x, 0, (size_t)(ROWS * o->about.n_out) * sizeof *x);
    if (!T_OK(tllm_state_open(o->ctx, o->model, &d, &s))) return x;
    T_OK(tllm_forward(s, token, PROMPT, 0, PROMPT, x));
    for (i = 0; i < STEPS; i++)
        T_OK(tllm_forward(s, token + PROMPT + i, 1, PROMPT + i, 1, x + (PROMPT + i) * o->about.n_out));
    for (i = 0; i < 3; i++) {
        items[i].token = token[i];
        items[i].seq = i;
        items[i].pos = -1;
        items[i].want = 1;
    }
    T_OK(tllm_forward_batch(s, items, 3, x + (PROMPT + STEPS) * o->about.n_out));
    tllm_state_close(o->ctx, s);
    return x;
}
static double nmse(const float *x, const float *y, size_t n)
{
    double s = 0, d = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        s += (double)y[i] * (double)y[i];
        d += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    }
    return s > 0 ? d / s : d;
}

/* In both forms the logits are as near to the reference's: the difference comes from activations in 8 bits. */
static void both_forms(const char *name, const char *path, const void *bytes, size_t n_bytes, tiny_target target)
{
    opened o;
    float *plain, *want;
    tllm_repacked about;
    size_t n;
    int threads;
    if (!open_file(&o, path, bytes, n_bytes, TINY_TARGET_REFERENCE, 1)) return;
    n = (size_t)(ROWS * o.about.n_out);
    want = logits(&o);
    close_one(&o);
    if (!open_file(&o, path, bytes, n_bytes, target, 1)) return;
    plain = logits(&o);
    close_one(&o);
    for (threads = 1; threads < 4; threads++) {
        float *x;
        if (!open_file(&o, path, bytes, n_bytes, target, threads)) return;
        T_OK(tllm_model_repack(o.ctx, o.model, NULL, &about));
        if (tllm_repack_has(o.ctx, TLLM_FORMAT_Q4_0) == 2) T_TRUE(about.n > 0 && about.bytes > 0 && !about.from_file);
        else T_TRUE(about.n == 0 && about.bytes == 0 && about.left > 0);
        x = logits(&o);
        if (!T_TRUE(nmse(x, want, n) <= 1.5 * nmse(plain, want, n) + 1e-7) || !T_TRUE(nmse(x, plain, n) < 1e-3))
            printf("  %s, %d threads: %g and in place %g from the reference, %g apart\n", name, threads,
                   nmse(x, want, n), nmse(plain, want, n), nmse(x, plain, n));
        if (about.n == 0 && threads == 1) T_SAME(x, plain, n);
        close_one(&o);
    }
}
static void test_logits(tiny_target target)
{
    size_t k;
    int n = 0;
    for (k = 0; k < T_COUNT(models); k++) {
        const char *path = t_one_of(models[k]);
        n += path != NULL;
        both_forms(models[k], path, NULL, 0, target);
        t_free_blocks();
    }
    T_SOME(n);
}

static int chooses(tllm_text name)
{
    static const char end[] = "gate_inp.weight";
    return name.n >= sizeof end - 1 && !memcmp(name.at + name.n - (sizeof end - 1), end, sizeof end - 1);
}
/* A file in memory: its matrices in a block format, except the routers. */
static void *in_blocks(const char *path, int format, size_t *n_bytes)
{
    const tllm_format *f = tllm_format_of(format);
    tiny_ctx *ctx = t_ctx(WITH_KERNELS, 1);
    tllm_gguf *g = NULL;
    tllm_writer *w = NULL;
    void *copy = NULL;
    size_t i;
    if (!T_OK(tllm_gguf_open(ctx, path, &g)) || !T_OK(tllm_writer_open(ctx, NULL, &w))) return NULL;
    for (i = 0; i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const void *data = t->data;
        const int packs =
            t->rank >= 2 && t->type == TLLM_FORMAT_F32 && t->dim[0] % (uint64_t)f->values == 0 && !chooses(t->name);
        if (packs) {
            void *blocks = t_keep(tllm_format_bytes(f, t->bytes / 4)), *x = t_keep(t->bytes);
            memcpy(x, t->data, t->bytes);
            f->pack((const float *)x, blocks, t->bytes / 4, NULL);
            data = blocks;
        }
        T_OK(tllm_writer_put_tensor(ctx, w, t->name, packs ? format : t->type, t->rank, t->dim, data));
    }
    if (T_OK(tllm_writer_finish(ctx, w))) {
        const void *at = tllm_writer_memory(w, n_bytes);
        copy = t_keep(*n_bytes);
        memcpy(copy, at, *n_bytes);
    }
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
    return copy;
}
static void test_experts(tiny_target target)
{
    size_t k, n;
    int ran = 0;
    for (k = 0; k < T_COUNT(experts); k++) {
        const char *path = t_one_of(experts[k].path);
        const void *bytes = path ? in_blocks(path, experts[k].format, &n) : NULL;
        if (bytes) both_forms(experts[k].path, NULL, bytes, n, target);
        ran += bytes != NULL;
        t_free_blocks();
    }
    T_SOME(ran);
}

/* A model that was repacked on one context runs on others, the reference among them. */
static void test_other_contexts(void)
{
    static const tiny_target other[] = { TINY_TARGET_REFERENCE, TINY_TARGET_SCALAR, TINY_TARGET_W128 };
    size_t k, j;
    int n = 0;
    for (k = 0; k < T_COUNT(models); k++) {
        const char *path = t_one_of(models[k]);
        opened o, at;
        tllm_repacked about;
        if (!path) continue;
        if (!open_one(&o, path, WITH_KERNELS, 2)) return;
        n++;
        T_OK(tllm_model_repack(o.ctx, o.model, NULL, &about));
        for (j = 0; j < T_COUNT(other); j++) {
            float *x, *want;
            if (!tiny_target_runs_here(other[j])) continue;
            if (!open_one(&at, path, other[j], 1)) return;
            want = logits(&at);
            {
                opened both = at;
                both.model = o.model;
                x = logits(&both);
            }
            if (!T_SAME(x, want, (size_t)(ROWS * o.about.n_out))) printf("  %s\n", models[k]);
            close_one(&at);
            t_free_blocks();
        }
        close_one(&o);
    }
    T_SOME(n);
}

static unsigned char *bytes_of(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *p = NULL;
    *n = 0;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END)) {
        *n = (size_t)ftell(f);
        rewind(f);
        p = (unsigned char *)t_keep(*n + 1);
        if (fread(p, 1, *n, f) != *n) p = NULL;
    }
    (void)fclose(f);
    return p;
}
static void put(const char *path, const unsigned char *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!T_TRUE(f != NULL)) return;
    T_TRUE(fwrite(p, 1, n, f) == n);
    (void)fclose(f);
}
/* a header with its checksum corrected, so that the next check finds the fault */
enum { BODY = 192 };                        /* of the box: the front of core/box/box_inside.h comes before it */
static void seal(unsigned char *p, size_t n_matrices)
{
    kit_put_le(p + BODY + 20 + 56 * n_matrices, kit_xxh64(p + BODY, 20 + 56 * n_matrices), 8);
}

/* nothing reads the padding to multiples of 64, nor the checksum of the box */
static int is_read(const unsigned char *good, size_t n_matrices, size_t at, size_t n)
{
    size_t i, k;
    if (at < BODY + 20 + 56 * n_matrices + 8) return 1;
    if (at >= n - 32) return at < n - 8;
    for (i = 0; i < n_matrices; i++) {
        const unsigned char *r = good + BODY + 20 + 56 * i;
        size_t from = 0, size = 0;
        for (k = 8; k-- > 0;) from = from * 256 + r[24 + k], size = size * 256 + r[32 + k];
        if (at - BODY >= from && at - BODY - from < size) return 1;
    }
    return 0;
}

static void test_file(void)
{
    const char *path = t_shared(models[3]), *another = t_shared(models[1]);     /* Q4_K with Q6_K, and Q8_0 */
    tllm_repack_desc d;
    tllm_repacked about;
    unsigned char *good, *bad;
    size_t n, m, i, matrices;
    float *want, *x;
    opened o;
    memset(&d, 0, sizeof d);
    d.path = kept;
    (void)remove(kept);
    if (!path || !another || !open_one(&o, path, WITH_KERNELS, 2)) return;
    if (tllm_repack_has(o.ctx, TLLM_FORMAT_Q4_0) < 2) {
        T_SKIP("no kernels for repacked matrices on this target");
        close_one(&o);
        return;
    }
    T_OK(tllm_model_repack(o.ctx, o.model, &d, &about));
    T_TRUE(about.n > 0 && !about.from_file);
    matrices = (size_t)about.n;
    want = logits(&o);
    T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_ARGUMENT, "the model is repacked already");
    close_one(&o);
    good = bytes_of(kept, &n);
    if (!T_TRUE(good && n > 1000)) return;
    /* again, from the file: the same bits */
    if (!open_one(&o, path, WITH_KERNELS, 2)) return;
    d.refuse = 1;
    T_OK(tllm_model_repack(o.ctx, o.model, &d, &about));
    T_TRUE(about.from_file && about.n == (tiny_idx)matrices);
    x = logits(&o);
    T_SAME(x, want, (size_t)(ROWS * o.about.n_out));
    close_one(&o);
    /* its fault is reported, and the model is unchanged */
    if (!open_one(&o, path, WITH_KERNELS, 1)) return;
    x = logits(&o);
    bad = (unsigned char *)t_keep(n);
#define BAD(size, says, ...) \
    memcpy(bad, good, n); \
    { __VA_ARGS__ } \
    put(kept, bad, size); \
    T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_FORMAT, says); \
    T_EQ_INT(about.n, 0);
    BAD(0, "its 0 bytes are not a repacked model", )
    BAD(7, "its 7 bytes are not a repacked model", )
    BAD(20, "truncated: it has 20 bytes", )
    BAD(100, "damaged or truncated", )
    BAD(n - 1, "damaged or truncated", )
    BAD(n, "are not a repacked model", bad[0] ^= 1;)
    BAD(n, "matrices, but the model has", bad[BODY + 4] ^= 1;)
    BAD(n, "and claims", bad[BODY + 12] ^= 1;)
    BAD(n, "the checksum of its first",
        bad[BODY + 20 + 40] ^= 1;) /* checksums are not compared with anything but the whole */
    BAD(n, "as tensor", bad[BODY + 20] ^= 1; seal(bad, matrices);)         /* format */
    BAD(n, "as tensor", bad[BODY + 24] ^= 2; seal(bad, matrices);)         /* matrices in it */
    BAD(n, "as tensor", bad[BODY + 20 + 56 + 8] ^= 32; seal(bad, matrices);)
    BAD(n, "as tensor", bad[BODY + 20 + 56 + 16] ^= 8; seal(bad, matrices);)
    BAD(n, "as tensor", bad[BODY + 20 + 56 + 31] ^= 0x80; seal(bad, matrices);)    /* an offset of 2^63 */
    BAD(n, "as tensor", bad[BODY + 20 + 56 + 39] ^= 0x80; seal(bad, matrices);)
    BAD(n, "was made from another model", bad[BODY + 20 + 40] ^= 1; seal(bad, matrices);)
    BAD(n, "the checksum of matrix 0", bad[BODY + 20 + 48] ^= 1; seal(bad, matrices);)
    BAD(n, "the checksum of matrix", bad[n - 102] ^= 4;)
    memcpy(bad, good, n);
    bad[91] = '3';                          /* "eight-rows 3" */
    put(kept, bad, n);
    T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_VERSION,
             "this is \"eight-rows 3\"; this library reads version 2");
    memcpy(bad, good, n);
    bad[BODY] = 16;
    put(kept, bad, n);
    T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_UNSUPPORTED, "a layout of 16 rows");
    for (i = 0; i < 40; i++) {              /* any bytes that are read */
        int n_read = 0;
        memcpy(bad, good, n);
        for (m = 0; m < 3; m++) {
            const size_t at = (i * 7919u + m * 104729u) % (i % 2 ? n : BODY + 20 + 56 * matrices);
            bad[at] ^= (unsigned char)(1u << (i + m) % 8);
            n_read += is_read(good, matrices, at, n);
        }
        if (!n_read || !memcmp(bad, good, n)) continue;
        put(kept, bad, n);
        T_TRUE(tllm_model_repack(o.ctx, o.model, &d, &about) != TINY_OK && !about.n);
    }
    {
        float *y = logits(&o);
        T_SAME(y, x, (size_t)(ROWS * o.about.n_out));
    }
    /* a file of something else is left alone, even the model's own */
    d.refuse = 0;
    memset(bad, 'x', n);
    put(kept, bad, n);
    T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_FORMAT, "are not a repacked model");
    bad = bytes_of(kept, &m);
    T_TRUE(m == n && bad && bad[0] == 'x' && bad[n - 1] == 'x');
    d.path = "/dev/zero";
    T_TRUE(tllm_model_repack(o.ctx, o.model, &d, &about) != TINY_OK);
    d.path = kept;
    bad = (unsigned char *)t_keep(n);
    close_one(&o);
    /* made again if that is allowed, and valid afterwards */
    memcpy(bad, good, n);
    bad[n - 102] ^= 4;
    put(kept, bad, n);
    d.refuse = 0;
    if (open_one(&o, path, WITH_KERNELS, 2)) {
        T_OK(tllm_model_repack(o.ctx, o.model, &d, &about));
        T_TRUE(!about.from_file && about.n == (tiny_idx)matrices);
        x = logits(&o);
        T_SAME(x, want, (size_t)(ROWS * o.about.n_out));
    }
    close_one(&o);
    bad = bytes_of(kept, &m);
    if (T_EQ_INT(m, n) && bad) T_SAME(bad, good, n);
    /* of another model, whose matrices have other formats */
    d.refuse = 1;
    if (open_one(&o, another, WITH_KERNELS, 2))
        T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_FORMAT, NULL);
    close_one(&o);
    /* nowhere to write: refused, or in memory alone */
    d.path = "build/no-such-folder/repacked.tmp";
    if (open_one(&o, path, WITH_KERNELS, 1)) {
        T_STATUS(tllm_model_repack(o.ctx, o.model, &d, &about), TINY_E_IO, "no-such-folder");
        T_EQ_INT(about.n, 0);
        d.refuse = 0;
        T_OK(tllm_model_repack(o.ctx, o.model, &d, &about));
        T_TRUE(about.n == (tiny_idx)matrices && !about.written && !about.from_file &&
               strstr(tiny_ctx_message(o.ctx), "no-such-folder") != NULL);
    }
    close_one(&o);
    (void)remove(kept);
    t_free_blocks();
}

static int asked, told;
static int stop_third(void *user) { (void)user; return ++asked > 3; }
static void hear(void *user, const char *what, double done)
{
    (void)user;
    told += !strcmp(what, "repacking") && done > 0 && done <= 1;
}

static void test_refused(void)
{
    const char *path = t_shared(models[0]);
    tiny_ctx_desc desc = t_desc(WITH_KERNELS, 1);
    tllm_repacked about;
    tllm_repack_desc d;
    opened o;
    float *want, *x;
    if (!path || !open_one(&o, path, WITH_KERNELS, 1)) return;
    T_STATUS(tllm_model_repack(o.ctx, NULL, NULL, NULL), TINY_E_ARGUMENT, "the model is NULL");
    T_STATUS(tllm_model_repack(NULL, o.model, NULL, &about), TINY_E_ARGUMENT, NULL);
    want = logits(&o);
    close_one(&o);
    memset(&o, 0, sizeof o);
    desc.cancel = stop_third;
    desc.progress = hear;
    asked = told = 0;
    T_OK(tiny_ctx_open(&desc, &o.ctx));
    if (T_OK(tllm_gguf_open(o.ctx, path, &o.file)) && T_OK(tllm_model_open(o.ctx, o.file, &o.model)) &&
        tllm_repack_has(o.ctx, TLLM_FORMAT_Q4_0) == 2) {
        T_TRUE(tllm_model_repack(o.ctx, o.model, NULL, &about) == TINY_E_CANCELLED);
        T_EQ_INT(about.n, 0);
        asked = -100000;
        tllm_model_about(o.model, &o.about);
        x = logits(&o);                     /* as it was */
        T_SAME(x, want, (size_t)(ROWS * o.about.n_out));
        told = 0;
        T_OK(tllm_model_repack(o.ctx, o.model, NULL, &about));
        T_TRUE(told == (int)about.n && about.n > 3);
        T_TRUE(tllm_model_cut(o.ctx, o.model, 0, 2) == TINY_E_UNSUPPORTED &&
               strstr(tiny_ctx_message(o.ctx), "cut it before that") != NULL);
        T_TRUE(tllm_model_sparse(o.ctx, o.model, -1, NULL) == TINY_E_UNSUPPORTED);
    }
    tllm_model_close(o.ctx, o.model);
    tllm_gguf_close(o.ctx, o.file);
    tiny_ctx_close(o.ctx);
    memset(&d, 0, sizeof d);
    d.path = kept;
    (void)remove(kept);
    for (asked = 0; asked < 2; asked++) {   /* without the file, then with it */
        T_EACH_ALLOCATION(tiny_ctx_desc each = t_desc(WITH_KERNELS, 1); memset(&o, 0, sizeof o);
                          if (asked == 0)(void) remove(kept);
                          if (!tiny_ctx_open(&each, &o.ctx) && !tllm_gguf_open(o.ctx, path, &o.file) &&
                              !tllm_model_open(o.ctx, o.file, &o.model)) {
                              const tiny_status st = tllm_model_repack(o.ctx, o.model, &d, &about);
                              T_TRUE(!st || st == TINY_E_MEMORY);
                              T_TRUE((about.n > 0) == !st || tllm_repack_has(o.ctx, TLLM_FORMAT_Q4_0) < 2);
                          } tllm_model_close(o.ctx, o.model);
                          tllm_gguf_close(o.ctx, o.file); tiny_ctx_close(o.ctx);)
    }
    (void)remove(kept);
    t_free_blocks();
}

/* ---- automatic -------------------------------------------------------------------------------------------------- */

/* matrices that an automatic call repacks, and *left; the logits afterwards are those of always, or of never */
static int automatic(const char *path, const void *bytes, size_t n_bytes, tiny_ctx_desc desc, int can, size_t *left)
{
    tllm_repack_desc d;
    tllm_repacked about[2];
    float *x[3];
    opened o;
    int way;
    memset(&d, 0, sizeof d);
    memset(about, 0, sizeof about);
    for (way = 0; way < 3; way++) {         /* always, automatic, never */
        tiny_ctx_desc mine = desc;
        memset(&o, 0, sizeof o);
        if (way != 1) mine.max_bytes = 0;
        x[way] = NULL;
        d.automatic = way == 1;
        if (T_OK(tiny_ctx_open(&mine, &o.ctx)) &&
            T_OK(bytes ? tllm_gguf_open_memory(o.ctx, bytes, n_bytes, &o.file)
                       : tllm_gguf_open(o.ctx, path, &o.file)) &&
            T_OK(tllm_model_open(o.ctx, o.file, &o.model))) {
            tllm_model_about(o.model, &o.about);
            if (way < 2) T_OK(tllm_model_repack(o.ctx, o.model, &d, &about[way]));
            T_EQ_INT(tiny_ctx_status(o.ctx), TINY_OK);      /* nothing was tried that could fail */
            if (!o.about.is_encoder && !mine.max_bytes) x[way] = logits(&o);
        }
        tllm_model_close(o.ctx, o.model);
        tllm_gguf_close(o.ctx, o.file);
        tiny_ctx_close(o.ctx);
    }
    T_TRUE(about[0].n > 0 && about[0].seconds > 0);
    T_TRUE(can ? about[1].n > 0 && about[1].n <= about[0].n : about[1].n == 0 && !about[1].seconds);
    /* what is not repacked is left; each matrix begins at a multiple of 64 */
    T_TRUE(about[1].bytes + about[1].left <= about[0].bytes + about[0].left + 64 * 1000 &&
           about[1].bytes + about[1].left + 64 * 1000 >= about[0].bytes + about[0].left);
    if (x[1] && (!can || about[1].n == about[0].n))
        T_SAME(x[1], x[can ? 0 : 2], (size_t)(ROWS * o.about.n_out));
    *left = about[1].left;
    return (int)about[1].n;
}

static void test_automatic(void)
{
    static const char made[] = "build/repack-encoder.tmp";
    const char *path = t_one_of(models[0]), *mixed = t_one_of(models[3]), *encoder = t_one_of("oracle/llm/bert.gguf");
    tiny_ctx_desc desc = t_desc(WITH_KERNELS, 1);
    size_t n, left;
    tiny_ctx *ctx = t_ctx(WITH_KERNELS, 1);
    const int kernels = tllm_repack_has(ctx, TLLM_FORMAT_Q4_0) == 2;
    opened o;
    t_close(ctx);
    if (!path || !kernels || !tiny_target_runs_here(TINY_TARGET_AVX2)) {
        T_SKIP(path ? "no kernels for repacked matrices that were timed" : "none of its files is here");
        return;
    }
    T_TRUE(automatic(path, NULL, 0, desc, 1, &left) > 0);
    {                                       /* bytes of the caller would stay next to the repacked ones */
        const unsigned char *bytes = bytes_of(path, &n);
        if (T_TRUE(bytes != NULL)) T_EQ_INT(automatic(path, bytes, n, desc, 0, &left), 0);
        T_TRUE(left > 0);
    }
    if (T_TRUE(open_one(&o, path, WITH_KERNELS, 1))) {
        const size_t held = tiny_ctx_bytes(o.ctx);
        close_one(&o);
        desc.max_bytes = held + 4096;       /* the model, and little more: no failure */
        T_EQ_INT(automatic(path, NULL, 0, desc, 0, &left), 0);
        desc.max_bytes = held + ((size_t)1 << 30);
        T_TRUE(automatic(path, NULL, 0, desc, 1, &left) > 0);
        desc.max_bytes = 0;
    }
    if (encoder) {
        void *blocks = in_blocks(encoder, TLLM_FORMAT_Q8_0, &n);
        if (T_TRUE(blocks != NULL)) {
            put(made, (const unsigned char *)blocks, n);
            T_EQ_INT(automatic(made, NULL, 0, desc, 0, &left), 0);
        }
        (void)remove(made);
    }
    if (mixed && tiny_target_runs_here(TINY_TARGET_AVX512)) {   /* results must not depend on the number of threads */
        int one, two;
        desc = t_desc(TINY_TARGET_AVX512, 1);
        one = automatic(mixed, NULL, 0, desc, 1, &left);
        n = left;
        desc.n_threads = 2;
        two = automatic(mixed, NULL, 0, desc, 1, &left);
        T_TRUE(0 < two && two == one && left == n);
    }
    desc = t_desc(WITH_KERNELS, 1);
    T_EACH_ALLOCATION(memset(&o, 0, sizeof o);
                      if (!tiny_ctx_open(&desc, &o.ctx) && !tllm_gguf_open(o.ctx, path, &o.file) &&
                          !tllm_model_open(o.ctx, o.file, &o.model)) {
                          tllm_repack_desc d;
                          tllm_repacked about;
                          memset(&d, 0, sizeof d);
                          d.automatic = 1;
                          T_OK(tllm_model_repack(o.ctx, o.model, &d, &about));
                          T_TRUE(about.left > 0 || about.n > 0);
                      } tllm_model_close(o.ctx, o.model);
                      tllm_gguf_close(o.ctx, o.file); tiny_ctx_close(o.ctx);)
    t_free_blocks();
}

int main(void)
{
    T_RUN_TARGETS(test_logits);
    T_RUN_TARGETS(test_experts);
    T_RUN(test_other_contexts);
    T_RUN(test_file);
    T_RUN(test_refused);
    T_RUN(test_automatic);
    return t_done();
}
