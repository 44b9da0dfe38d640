/* tests/llm/round/quantize.c - a model file in fewer bits by one call: formats by the mixture and by rules, blocks as
 * pack makes them, importances, the prepare callback, refusals. The program is tested in tests/llm/round/program.c, the
 * mixtures in tests/llm/round/mixture.c. */
#include "t.h"

#if defined __unix__ || defined __APPLE__
#include <unistd.h>

static const char model[] = "examples/models/story-small.gguf";
static char folder[200];

static const char *at(const char *name)
{
    static char path[4][300];
    static int k;
    k = (k + 1) % 4;
    (void)snprintf(path[k], sizeof path[k], "%s/%s", folder, name);
    return path[k];
}
static int is_file(const char *name) { return access(at(name), F_OK) == 0; }

static const tllm_gguf_tensor *find(const tllm_gguf *g, tllm_text name)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%.*s", (int)name.n, name.at);
    return tllm_gguf_tensor_find(g, text);
}

/* Each matrix has the format of the mixture, for its rows, and the blocks that pack makes of it; the rest is copied. */
static void test_blocks(void)
{
    static const char *const type[] = { "Q8_0", "Q4_K_M", "q5_k_s", "BF16", "IQ4_NL", NULL };
    static float x[1 << 18];
    static unsigned char want[1 << 20];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 3);
    tllm_gguf *was = NULL, *is = NULL;
    size_t k, i;
    T_OK(tllm_gguf_open(ctx, model, &was));
    for (k = 0; k < T_COUNT(type); k++) {
        const tllm_mixture *mix = tllm_mixture_by_name(type[k] ? type[k] : "Q4_K_M");
        tllm_quantize_desc d;
        tllm_quantize_about about;
        uint64_t before = 0, after = 0, v = 0;
        size_t packed = 0;
        memset(&d, 0, sizeof d);
        d.type = type[k];
        T_OK(tllm_quantize_file(ctx, model, at("o.gguf"), type[k] ? &d : NULL, &about));
        T_TRUE(!is_file("o.gguf.part"));
        if (!T_OK(tllm_gguf_open(ctx, at("o.gguf"), &is))) continue;
        T_TRUE(tllm_meta_u64(tllm_gguf_find(is, "general.file_type"), 0, &v) && v == (uint64_t)mix->file_type);
        T_EQ_INT(tllm_gguf_n_tensors(is), tllm_gguf_n_tensors(was));
        for (i = 0; i < tllm_gguf_n_tensors(was); i++) {
            const tllm_gguf_tensor *a = tllm_gguf_tensor_at(was, i), *b = find(is, a->name);
            const tllm_format *to = tllm_format_of(a->type);
            if (tllm_mixture_takes(a))
                to = tllm_format_for_rows(
                    tllm_mixture_format(mix, a, 4, !tllm_gguf_tensor_find(was, "output.weight")), a->dim[0]);
            if (!T_TRUE(b && b->type == to->id)) continue;
            before += a->bytes;
            after += b->bytes;
            packed += a->type != b->type;
            T_TRUE(a->dim[0] * a->dim[1] <= T_COUNT(x));
            tllm_format_of(a->type)->unpack(a->data, x, (size_t)(a->dim[0] * a->dim[1]));
            to->pack(x, want, (size_t)(a->dim[0] * a->dim[1]), NULL);
            T_EQ_INT(b->bytes, tllm_format_bytes(to, a->dim[0] * a->dim[1]));
            T_TRUE(!memcmp(b->data, want, b->bytes));
        }
        T_EQ_INT(about.bytes_before, before);
        T_EQ_INT(about.bytes_after, after);
        T_EQ_INT(about.n_packed, packed);
        T_EQ_INT(about.n_tensors, tllm_gguf_n_tensors(was));
        T_TRUE(about.n_importance == 0 && (packed > 0 || k == 0));      /* the model is in Q8_0 already */
        tllm_gguf_close(ctx, is);
    }
    tllm_gguf_close(ctx, was);
    t_close(ctx);
}

static int type_of(tiny_ctx *ctx, const char *name)
{
    tllm_gguf *g = NULL;
    const tllm_gguf_tensor *t;
    int type = -1;
    if (T_OK(tllm_gguf_open(ctx, at("o.gguf"), &g)) && (t = tllm_gguf_tensor_find(g, name)) != NULL) type = t->type;
    tllm_gguf_close(ctx, g);
    return type;
}

static char heard[2000];
static void hear(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    if (level == TINY_LOG_WARNING)
        (void)snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s\n", sentence);
}

/* The first rule that matches counts; a rule that matches nothing is reported; pure leaves the mixture out. */
static void test_rules(void)
{
    static const char *const rule[] = { "blk\\.[01]\\.attn_(q|k)=Q8_0", "attn_q=F16", "^q=Q8_0" };
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tllm_quantize_desc d;
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.log = hear;
    cd.n_threads = 1;
    T_OK(tiny_ctx_open(&cd, &ctx));
    d.type = "Q4_0";
    d.pure = 1;
    d.rule = rule;
    d.n_rules = T_COUNT(rule);
    heard[0] = 0;
    T_OK(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL));
    T_EQ_INT(type_of(ctx, "blk.0.attn_q.weight"), TLLM_FORMAT_Q8_0);
    T_EQ_INT(type_of(ctx, "blk.1.attn_k.weight"), TLLM_FORMAT_Q8_0);
    T_EQ_INT(type_of(ctx, "blk.2.attn_q.weight"), TLLM_FORMAT_F16);
    T_EQ_INT(type_of(ctx, "blk.2.attn_k.weight"), TLLM_FORMAT_Q4_0);
    T_EQ_INT(type_of(ctx, "token_embd.weight"), TLLM_FORMAT_Q4_0);
    T_EQ_TEXT(heard, "^q=Q8_0 matches no matrix\n");
    d.n_rules = 0;
    d.type = "Q4_K";                        /* rows of 128 are no whole blocks of 256 */
    heard[0] = 0;
    T_OK(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL));
    T_TRUE(strstr(heard, "Q5_0 instead of Q4_K for ") && strstr(heard, "(rows of 128)"));
    d.type = "IQ2_XXS";
    heard[0] = 0;
    T_OK(tllm_quantize_file(ctx, "examples/models/story.gguf", at("o.gguf"), &d, NULL));
    T_TRUE(strstr(heard, "without importances loses much") || strstr(heard, "IQ4_NL instead of IQ2_XXS"));
    t_close(ctx);
}

/* wide: small tensors in F16 become F32 with the same numbers; without it they stay as they are */
static void test_wide(void)
{
    static const tllm_text names[2] = { { "a.weight", 8 }, { "a_norm.weight", 13 } };
    const uint64_t dim[2][2] = { { 32, 2 }, { 32, 1 } };
    float x[64], y[32], z[32];
    unsigned char f32[256], f16[64];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer_desc wd;
    tllm_quantize_desc d;
    tllm_writer *w = NULL;
    int wide, i;
    for (i = 0; i < 64; i++) x[i] = (float)(i * 37 % 61 - 30) / 8.0f;
    tllm_format_of(TLLM_FORMAT_F32)->pack(x, f32, 64, NULL);
    tllm_format_of(TLLM_FORMAT_F16)->pack(x, f16, 32, NULL);
    memset(&wd, 0, sizeof wd);
    memset(&d, 0, sizeof d);
    wd.path = at("im");
    T_OK(tllm_writer_open(ctx, &wd, &w));
    T_OK(tllm_writer_put_tensor(ctx, w, names[0], TLLM_FORMAT_F32, 2, dim[0], f32));
    T_OK(tllm_writer_put_tensor(ctx, w, names[1], TLLM_FORMAT_F16, 1, dim[1], f16));
    T_OK(tllm_writer_finish(ctx, w));
    tllm_writer_close(ctx, w);
    d.type = "Q8_0";
    for (wide = 0; wide < 2; wide++) {
        tllm_gguf *g = NULL;
        const tllm_gguf_tensor *t;
        d.wide = wide;
        T_OK(tllm_quantize_file(ctx, at("im"), at("o.gguf"), &d, NULL));
        T_OK(tllm_gguf_open(ctx, at("o.gguf"), &g));
        t = tllm_gguf_tensor_find(g, "a_norm.weight");
        if (T_TRUE(t && t->type == (wide ? TLLM_FORMAT_F32 : TLLM_FORMAT_F16))) {
            tllm_format_of(t->type)->unpack(t->data, y, 32);
            tllm_format_of(TLLM_FORMAT_F16)->unpack(f16, z, 32);
            T_SAME(y, z, 32);
        }
        t = tllm_gguf_tensor_find(g, "a.weight");
        T_TRUE(t && t->type == TLLM_FORMAT_Q8_0 && t->bytes == 68);
        tllm_gguf_close(ctx, g);
    }
    t_close(ctx);
}

/* ---- prepare */

typedef struct hook { int how, calls; unsigned char *blocks; const tllm_gguf_tensor *other; int part; } hook;
static tiny_status prepare(void *user, const tllm_gguf *file, tllm_quantize_tensor *list, size_t n)
{
    hook *h = (hook *)user;
    size_t i;
    h->calls++;
    h->part = is_file("o.gguf.part");
    for (i = 0; i < n && i < tllm_gguf_n_tensors(file); i++) {
        if (!tllm_text_is(list[i].tensor->name, "blk.1.attn_q.weight")) continue;
        if (h->how == 0) list[i].blocks = h->blocks;
        if (h->how == 1) list[i].tensor = h->other;
        if (h->how == 2) list[i].from = TLLM_FORMAT_Q4_K;
        if (h->how == 3) return TINY_E_NUMERIC;
        if (h->how == 4) list[i].tensor = NULL;
    }
    return TINY_OK;
}

static void test_prepare(void)
{
    static unsigned char blocks[1 << 16];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_quantize_desc d;
    tllm_gguf *g = NULL, *is = NULL;
    const tllm_gguf_tensor *t;
    hook h;
    memset(&d, 0, sizeof d);
    memset(&h, 0, sizeof h);
    memset(blocks, 0x5a, sizeof blocks);
    d.type = "Q8_0";
    d.prepare = prepare;
    d.user = &h;
    h.blocks = blocks;
    T_OK(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL));
    T_TRUE(h.calls == 1 && h.part);         /* the new file had been begun */
    T_OK(tllm_gguf_open(ctx, at("o.gguf"), &is));
    t = tllm_gguf_tensor_find(is, "blk.1.attn_q.weight");
    if (T_TRUE(t && t->bytes <= sizeof blocks)) T_TRUE(!memcmp(t->data, blocks, t->bytes));
    t = tllm_gguf_tensor_find(is, "blk.1.attn_k.weight");
    T_TRUE(t && memcmp(t->data, blocks, t->bytes) != 0);
    tllm_gguf_close(ctx, is);
    T_OK(tllm_gguf_open(ctx, model, &g));
    (void)remove(at("o.gguf"));
    h.other = tllm_gguf_tensor_find(g, "blk.1.ffn_up.weight");
    for (h.how = 1; h.how <= 4; h.how++) {
        T_EQ_INT(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL),
                 h.how == 3 ? TINY_E_NUMERIC : TINY_E_ARGUMENT);
        if (h.how != 3)
            T_TRUE(strstr(tiny_ctx_message(ctx), "changed tensor blk.1.attn_q.weight to another one") != NULL);
        T_TRUE(!is_file("o.gguf") && !is_file("o.gguf.part"));
    }
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* ---- refusals */

static void test_bad(void)
{
    static const struct { const char *rule, *says;
    } bad[] = { { "(a=F16", "a bracket is not closed" },
                { "a)=F16", "a bracket is closed that was never opened" },
                { "a\\=F16", "nothing stands behind its last" },
                { "*=F16", "nothing stands before" },
                { "a", "a is not REGEX=FORMAT" },
                { "=F16", "=F16 is not REGEX=FORMAT" },
                { "a=Q9", "with a known format" },
                { "a=I8", "with a known format" },
                { "a=Q8_K", "with a known format" },
                { NULL, "NULL is not REGEX=FORMAT" } };
    const char *many[TLLM_QUANTIZE_RULES + 1];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_quantize_about about;
    tllm_quantize_desc d;
    FILE *f;
    size_t i;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_quantize_file(ctx, NULL, "x", &d, NULL), TINY_E_ARGUMENT, "two paths are needed");
    T_STATUS(tllm_quantize_file(ctx, model, NULL, &d, NULL), TINY_E_ARGUMENT, "two paths are needed");
    T_EQ_INT(tllm_quantize_file(NULL, model, "x", &d, &about), TINY_E_ARGUMENT);
    T_EQ_INT(about.n_tensors, 0);
    T_STATUS(tllm_quantize_check(ctx, NULL), TINY_E_ARGUMENT, "desc is missing");
    T_OK(tllm_quantize_check(ctx, &d));
    d.type = "Q9";
    T_STATUS(tllm_quantize_check(ctx, &d), TINY_E_ARGUMENT, "there is no type Q9");
    d.type = "Q8_K";                        /* for activations */
    T_STATUS(tllm_quantize_file(ctx, "there/is/none", at("o.gguf"), &d, NULL), TINY_E_ARGUMENT, "no type Q8_K");
    d.type = "Q8_0";
    T_STATUS(tllm_quantize_file(ctx, "there/is/none", at("o.gguf"), &d, NULL), TINY_E_IO, "there/is/none");
    T_STATUS(tllm_quantize_file(ctx, model, at("none/o.gguf"), &d, NULL), TINY_E_IO, "none/o.gguf");
    for (i = 0; i < T_COUNT(bad); i++) {
        d.rule = &bad[i].rule;
        d.n_rules = 1;
        T_STATUS(tllm_quantize_check(ctx, &d), TINY_E_ARGUMENT, bad[i].says);
        T_STATUS(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL), TINY_E_ARGUMENT, bad[i].says);
    }
    for (i = 0; i < T_COUNT(many); i++) many[i] = "a=F16";
    d.rule = many;
    d.n_rules = TLLM_QUANTIZE_RULES;
    T_OK(tllm_quantize_check(ctx, &d));
    d.n_rules++;
    T_STATUS(tllm_quantize_check(ctx, &d), TINY_E_ARGUMENT, "65 rules");
    d.rule = NULL;
    d.n_rules = 1;
    T_STATUS(tllm_quantize_check(ctx, &d), TINY_E_ARGUMENT, "rule must not be NULL");
    d.n_rules = 0;
    f = fopen(at("im"), "wb");              /* 3 bytes; then an entry that promises more than there is */
    T_TRUE(f && fwrite("\1\0\0", 1, 3, f) == 3 && !fclose(f));
    d.importance = at("im");
    d.type = "Q4_0";
    T_STATUS(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL), TINY_E_FORMAT,
             "this is not a file of importances");
    f = fopen(at("im"), "wb");
    T_TRUE(f && fwrite("\1\0\0\0\377\377\377\377\0\0\0\0\0\0\0\0", 1, 16, f) == 16 && !fclose(f));
    d.importance = at("im");
    T_STATUS(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL), TINY_E_FORMAT, "entry 0 of 1 reaches past");
    f = fopen(at("im"), "wb");              /* an importance of another model */
    T_TRUE(f && fwrite("\1\0\0\0\1\0\0\0x\1\0\0\0\1\0\0\0\0\0\200\77", 1, 21, f) == 21 && !fclose(f));
    d.importance = at("im");
    T_STATUS(tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL), TINY_E_ARGUMENT,
             "it has no importance for any of the");
    T_STATUS(tllm_quantize_file(ctx, at("im"), at("o.gguf"), &d, NULL), TINY_E_FORMAT, "im");
    T_TRUE(!is_file("o.gguf") && !is_file("o.gguf.part"));
    t_close(ctx);
}

static int asked, stop_at;
static int stop(void *user) { (void)user; return ++asked >= stop_at; }

/* Any allocation may fail: no block and no file is left over. */
static void test_memory(void)
{
    static const char *const rule[] = { "attn_q=Q4_0" };
    tllm_quantize_desc d;
    tiny_status st;
    int n_failed = 0;
    memset(&d, 0, sizeof d);
    (void)remove(at("o.gguf"));
    d.type = "Q8_0";
    d.rule = rule;
    d.n_rules = 1;
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx = NULL;
        if (tiny_ctx_open(&desc, &ctx)) continue;
        st = tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        T_TRUE((st == TINY_OK) == is_file("o.gguf") && !is_file("o.gguf.part"));
        (void)remove(at("o.gguf"));
        n_failed += st != TINY_OK;
        tiny_ctx_close(ctx);
    )
    T_TRUE(n_failed > 20);
}

/* Cancelled at any time, nothing is left behind. */
static void test_stopped(void)
{
    tiny_ctx_desc cd;
    tllm_quantize_desc d;
    tiny_status st = TINY_E_CANCELLED;
    memset(&d, 0, sizeof d);
    d.type = "Q8_0";
    memset(&cd, 0, sizeof cd);
    cd.cancel = stop;
    cd.n_threads = 1;
    for (stop_at = 1; st == TINY_E_CANCELLED && stop_at < 1 << 20; stop_at *= 2) {
        tiny_ctx *ctx = NULL;
        asked = 0;
        T_OK(tiny_ctx_open(&cd, &ctx));
        st = tllm_quantize_file(ctx, model, at("o.gguf"), &d, NULL);
        T_TRUE(is_file("o.gguf") == (st == TINY_OK) && !is_file("o.gguf.part"));
        t_close(ctx);
    }
    T_TRUE(st == TINY_OK && stop_at > 16);
    (void)remove(at("o.gguf"));
}

static void sweep(void)
{
    (void)remove(at("o.gguf"));
    (void)remove(at("im"));
    T_EQ_INT(rmdir(folder), 0);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%.150s/tinyquantizeXXXXXX", tmp ? tmp : P_tmpdir);
    if (!mkdtemp(folder)) return 1;
    T_RUN(test_blocks);
    T_RUN(test_rules);
    T_RUN(test_wide);
    T_RUN(test_prepare);
    T_RUN(test_bad);
    T_RUN(test_memory);
    T_RUN(test_stopped);
    T_RUN(sweep);
    return t_done();
}
#else
int main(void) { return t_done(); }
#endif
