/* tests/llm/round/program.c - build/quantize as a user runs it: standard input and output, mixtures, patterns,
 * importance, refusals */
#include "t.h"

#if defined __unix__ || defined __APPLE__
#include <regex.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[200], last_words[40000];

/* Runs quantize with these arguments; its messages are stored. Returns the exit status. */
TINYI_PRINTF(1, 2) static int run(const char *format, ...)
{
    const char *build = getenv("BUILD");
    char line[4000], path[300];
    size_t n;
    va_list args;
    FILE *f;
    int at = snprintf(line, sizeof line, "%s/quantize ", build ? build : "build"), status;
    va_start(args, format);
    at += vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    va_end(args);
    (void)snprintf(line + at, sizeof line - (size_t)at, " 2>%s/words", folder);
    status = system(line);
    (void)snprintf(path, sizeof path, "%s/words", folder);
    f = fopen(path, "rb");
    n = f ? fread(last_words, 1, sizeof last_words - 1, f) : 0;
    last_words[n] = 0;
    if (f) (void)fclose(f);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}
#define SAYS(part)                                                                              \
    do {                                                                                        \
        if (!strstr(last_words, part))                                                          \
            t_fail(__FILE__, __LINE__, "it says \"%.300s\", without \"%s\"", last_words, part); \
    } while (0)

static void put(const char *name, const void *bytes, size_t n)
{
    char path[300];
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    T_TRUE(f && fwrite(bytes, 1, n, f) == n);
    if (f) (void)fclose(f);
}
static size_t get(const char *name, void *bytes, size_t most)
{
    char path[300];
    size_t n;
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    n = f ? fread(bytes, 1, most, f) : 0;
    if (f) (void)fclose(f);
    return n;
}

static int is_there(void)
{
    static int asked, there;
    const char *tmp = getenv("TMPDIR");
    if (!asked++) {
        (void)snprintf(folder, sizeof folder, "%.150s/tinyquantXXXXXX", tmp ? tmp : P_tmpdir);
        if (mkdtemp(folder)) {
            char words[300], help[300];
            there = run("--help >%s/q", folder) == 0;
            (void)snprintf(words, sizeof words, "%s/words", folder);
            (void)snprintf(help, sizeof help, "%s/q", folder);
            if (!there && !remove(words) && !remove(help)) (void)rmdir(folder);
        }
    }
    if (!there) t_skip("build/quantize does not run here");
    return there;
}

static void test_pipes(void)
{
    enum { N = 256 * 130 };                 /* more than one piece of the program */
    static unsigned char bytes[N * 4], q[N * 4], back[N * 4];
    float *x = t_rand(N, -1.0f, 1.0f), *y = t_guarded(N);
    const tllm_format *f = tllm_format_by_name("Q3_K");
    const size_t n_q = tllm_format_bytes(f, N);
    if (!is_there()) return;
    tllm_format_of(TLLM_FORMAT_F32)->pack(x, bytes, N, NULL);
    put("x", bytes, sizeof bytes);
    T_EQ_INT(run("--blocks q3_k <%s/x >%s/q", folder, folder), 0);
    T_EQ_INT(get("q", back, sizeof back), n_q);
    f->pack(x, q, N, NULL);
    T_TRUE(!memcmp(q, back, n_q));
    T_EQ_INT(run("--unblocks Q3_K <%s/q >%s/y", folder, folder), 0);
    T_EQ_INT(get("y", back, sizeof back), sizeof back);
    f->unpack(q, y, N);
    tllm_format_of(TLLM_FORMAT_F32)->pack(y, bytes, N, NULL);
    T_TRUE(!memcmp(bytes, back, sizeof back));
    put("odd", bytes, 256 * 4 + 5);
    put("nil", bytes, 0);
    T_EQ_INT(run("--blocks Q3_K <%s/odd >%s/q", folder, folder), 1);
    SAYS("1029 bytes are not whole blocks");
    T_EQ_INT(run("--unblocks Q3_K <%s/odd >%s/q", folder, folder), 1);
    T_EQ_INT(run("--blocks Q3_K <%s/nil >%s/q", folder, folder), 0);
    T_EQ_INT(get("q", back, sizeof back), 0);
    {                                       /* importance: rows of its length, as the library packs them */
        static float w[512], rows[1024];
        static unsigned char raw[4096], want[2000], got[2000];
        const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32), *q3 = tllm_format_of(TLLM_FORMAT_Q3_K);
        const size_t n = tllm_format_bytes(q3, 1024);
        size_t i;
        for (i = 0; i < 512; i++) w[i] = i % 3 ? 0.125f : 2.0f;
        for (i = 0; i < 1024; i++) rows[i] = (float)((int)(i * 7919 % 2003) - 1001) / 512.0f;
        f32->pack(w, raw, 512, NULL);
        put("im", raw, 2048);
        f32->pack(rows, raw, 1024, NULL);
        put("x", raw, 4096);
        q3->pack(rows, want, 512, w);
        q3->pack(rows + 512, want + n / 2, 512, w);
        T_EQ_INT(run("--blocks Q3_K --imatrix %s/im <%s/x >%s/q", folder, folder, folder), 0);
        if (T_EQ_INT(get("q", got, sizeof got), n)) T_SAME(got, want, n);
        q3->pack(rows, want, 1024, NULL);
        T_TRUE(memcmp(got, want, n) != 0);
        put("im", raw, 1000);
        T_EQ_INT(run("--blocks Q3_K --imatrix %s/im <%s/x >%s/q", folder, folder, folder), 1);
        SAYS("has 1000 bytes; rows of floats that are whole blocks of 256");
        put("im", raw, 2048);             /* the values themselves: some are negative */
        T_EQ_INT(run("--blocks Q3_K --imatrix %s/im <%s/x >%s/q", folder, folder, folder), 1);
        SAYS("an importance is at least 0 and finite");
        T_EQ_INT(run("--unblocks Q3_K --imatrix %s/im <%s/x", folder, folder), 2);
    }
    T_EQ_INT(run("--blocks Q3_M <%s/nil", folder), 2);
    SAYS("there is no type: Q3_M");
    T_EQ_INT(run("--blocks I8 <%s/nil", folder), 2);
    T_EQ_INT(run("--blocks"), 2);
    T_EQ_INT(run("--block Q8_0"), 2);
    T_EQ_INT(run("one two"), 2);
    SAYS("IN OUT.gguf TYPE: all three are needed");
    T_EQ_INT(run("one two Q8_0 three"), 2);
    T_EQ_INT(run("one two Q8_0 --tensor-type attn=Q99"), 2);
    T_EQ_INT(run("%s/none.gguf %s/o.gguf Q8_0", folder, folder), 1);
    SAYS("none.gguf");
}

enum { LAYERS = 8 };
static const struct { const char *name; uint64_t cols, rows;
} made[] = { { "token_embd.weight", 256, 4 },          { "output.weight", 256, 4 },
             { "output_norm.weight", 256, 0 },         { "blk.%d.attn_v.weight", 256, 2 },
             { "blk.%d.attn_q.weight", 256, 2 },       { "blk.%d.ffn_down.weight", 512, 2 },
             { "blk.%d.ffn_up.weight", 96, 2 },        { "blk.%d.ffn_gate.weight", 40, 2 },
             { "blk.%d.ffn_gate_inp.weight", 256, 2 }, { "blk.%d.attn_q.bias", 256, 0 } };

/* A small model of random numbers, F32; the numbers of a tensor follow from its place. */
static void make_model(tiny_ctx *ctx)
{
    char path[300], name[64];
    static float x[1024];
    static unsigned char bytes[4096];
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    size_t i;
    int layer, pass;
    memset(&d, 0, sizeof d);
    (void)snprintf(path, sizeof path, "%s/in.gguf", folder);
    d.path = path;
    T_OK(tllm_writer_open(ctx, &d, &w));
    T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.block_count", LAYERS));
    T_OK(tllm_writer_put_u32(ctx, w, "general.file_type", 0));
    for (pass = 0; pass < 2; pass++)
        for (i = 0; i < T_COUNT(made); i++)
            for (layer = 0; layer < (strchr(made[i].name, '%') ? LAYERS : 1); layer++) {
                uint64_t dim[2];
                tllm_text t;
                size_t n = (size_t)(made[i].cols * (made[i].rows ? made[i].rows : 1)), k;
                dim[0] = made[i].cols;
                dim[1] = made[i].rows;
                (void)snprintf(name, sizeof name, made[i].name, layer);
                t.at = name;
                t.n = strlen(name);
                if (!pass) {
                    T_OK(tllm_writer_put_tensor(ctx, w, t, TLLM_FORMAT_F32, made[i].rows ? 2 : 1, dim, NULL));
                    continue;
                }
                for (k = 0; k < n; k++) x[k] = t_rand_float(-1.0f, 1.0f);
                tllm_format_of(TLLM_FORMAT_F32)->pack(x, bytes, n, NULL);
                T_OK(tllm_writer_data(ctx, w, bytes, n * 4));
            }
    T_OK(tllm_writer_finish(ctx, w));
    tllm_writer_close(ctx, w);
}

static tllm_gguf *open_model(tiny_ctx *ctx, const char *name)
{
    char path[300];
    tllm_gguf *g = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    T_OK(tllm_gguf_open(ctx, path, &g));
    return g;
}
static void type_is(const tllm_gguf *g, const char *name, const char *type, int line)
{
    const tllm_gguf_tensor *t = g ? tllm_gguf_tensor_find(g, name) : NULL;
    if (!t || strcmp(tllm_type_name(t->type), type))
        t_fail(__FILE__, line, "%s is %s, not %s", name, t ? tllm_type_name(t->type) : "not there", type);
}
#define TYPE_IS(g, name, type) type_is(g, name, type, __LINE__)

static double column_error(const tllm_gguf *a, const tllm_gguf *b, const char *name, size_t every)
{
    static float x[1024], y[1024];
    const tllm_gguf_tensor *s = tllm_gguf_tensor_find(a, name), *t = tllm_gguf_tensor_find(b, name);
    double sum = 0.0;
    size_t i, n;
    if (!T_TRUE(s && t)) return 0.0;
    n = (size_t)(s->dim[0] * s->dim[1]);
    tllm_format_of(s->type)->unpack(s->data, x, n);
    tllm_format_of(t->type)->unpack(t->data, y, n);
    for (i = 0; i < n; i += every) sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

static void test_files(void)
{
    tiny_ctx *ctx;
    tllm_gguf *in, *g;
    const tllm_gguf_tensor *t, *s;
    uint64_t v;
    size_t i;
    float x[512];
    unsigned char q[1024];
    if (!is_there()) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    make_model(ctx);
    in = open_model(ctx, "in.gguf");
    T_EQ_INT(run("%s/in.gguf %s/o.gguf Q4_K_M", folder, folder), 0);
    SAYS("ffn_up.weight (rows of 96)");
    /* the line that is written over is for terminals */
    T_TRUE(!strchr(last_words, '\r') && !strstr(last_words, "59]"));
    g = open_model(ctx, "o.gguf");
    if (in && g) {
        T_EQ_INT(tllm_gguf_n_tensors(g), tllm_gguf_n_tensors(in));
        T_TRUE(tllm_meta_u64(tllm_gguf_find(g, "general.file_type"), 0, &v) && v == 15);
        T_TRUE(tllm_meta_u64(tllm_gguf_find(g, "llama.block_count"), 0, &v) && v == LAYERS);
        TYPE_IS(g, "token_embd.weight", "Q4_K");
        TYPE_IS(g, "output.weight", "Q6_K");
        TYPE_IS(g, "output_norm.weight", "F32");
        /* the first eighth, then every third, then the last eighth */
        TYPE_IS(g, "blk.0.attn_v.weight", "Q6_K");
        TYPE_IS(g, "blk.1.attn_v.weight", "Q4_K");
        TYPE_IS(g, "blk.3.ffn_down.weight", "Q6_K");
        TYPE_IS(g, "blk.7.ffn_down.weight", "Q6_K");
        TYPE_IS(g, "blk.5.attn_q.weight", "Q4_K");
        TYPE_IS(g, "blk.5.ffn_up.weight", "Q5_0");              /* rows of 96 */
        TYPE_IS(g, "blk.5.ffn_gate.weight", "F16");             /* rows of 40 */
        TYPE_IS(g, "blk.5.ffn_gate_inp.weight", "F32");
        TYPE_IS(g, "blk.5.attn_q.bias", "F32");
        s = tllm_gguf_tensor_find(in, "blk.5.attn_q.weight");
        t = tllm_gguf_tensor_find(g, "blk.5.attn_q.weight");
        if (s && t) {
            tllm_format_of(s->type)->unpack(s->data, x, 512);
            tllm_format_of(t->type)->pack(x, q, 512, NULL);
            T_TRUE(t->bytes == 288 && !memcmp(t->data, q, 288));
        }
        s = tllm_gguf_tensor_find(in, "blk.2.attn_q.bias");
        t = tllm_gguf_tensor_find(g, "blk.2.attn_q.bias");
        T_TRUE(s && t && s->bytes == t->bytes && !memcmp(s->data, t->data, t->bytes));
    }
    tllm_gguf_close(ctx, g);
    T_EQ_INT(run("%s/in.gguf %s/o.gguf Q4_K_M --pure --threads 2 --tensor-type "
                 "'^blk\\.[0-2]\\.(attn_(q|x)|ffn_d[a-z]+n)\\.=Q8_0' --tensor-type 'output?|x=bf16'",
                 folder, folder),
             0);
    g = open_model(ctx, "o.gguf");
    if (g) {
        TYPE_IS(g, "output.weight", "BF16");
        TYPE_IS(g, "token_embd.weight", "Q4_K");
        TYPE_IS(g, "blk.0.attn_v.weight", "Q4_K");
        TYPE_IS(g, "blk.2.attn_q.weight", "Q8_0");
        TYPE_IS(g, "blk.3.attn_q.weight", "Q4_K");
        TYPE_IS(g, "blk.1.ffn_down.weight", "Q8_0");
        TYPE_IS(g, "blk.7.ffn_down.weight", "Q4_K");
    }
    tllm_gguf_close(ctx, g);
    for (i = 0; i < 2; i++) {                                   /* every fourth column counts: both forms of the file */
        double plain;
        static unsigned char dat[8000];
        unsigned char *p = dat;
        float w[256];
        size_t k;
        for (k = 0; k < 256; k++) w[k] = k % 4 ? 0.01f : 4.0f;
        if (i) {
            char path[300];
            tllm_writer_desc d;
            tllm_writer *writer = NULL;
            uint64_t dim[2] = { 256, 1 };
            float count = 2.0f;
            tllm_text name = { "blk.1.attn_q.weight.in_sum2", 27 }, counts = { "blk.1.attn_q.weight.counts", 26 };
            memset(&d, 0, sizeof d);
            (void)snprintf(path, sizeof path, "%s/im", folder);
            d.path = path;
            T_OK(tllm_writer_open(ctx, &d, &writer));
            T_OK(tllm_writer_put_tensor(ctx, writer, name, TLLM_FORMAT_F32, 2, dim, NULL));
            dim[0] = 1;
            T_OK(tllm_writer_put_tensor(ctx, writer, counts, TLLM_FORMAT_F32, 2, dim, NULL));
            tllm_format_of(TLLM_FORMAT_F32)->pack(w, dat, 256, NULL);
            T_OK(tllm_writer_data(ctx, writer, dat, 1024));
            tllm_format_of(TLLM_FORMAT_F32)->pack(&count, dat, 1, NULL);
            T_OK(tllm_writer_data(ctx, writer, dat, 4));
            T_OK(tllm_writer_finish(ctx, writer));
            tllm_writer_close(ctx, writer);
        } else {
            static const unsigned char head[8] = { 1, 0, 0, 0, 19, 0, 0, 0 }, calls[8] = { 2, 0, 0, 0, 0, 1, 0, 0 };
            memcpy(p, head, 8);
            memcpy(p + 8, "blk.1.attn_q.weight", 19);
            memcpy(p + 27, calls, 8);
            tllm_format_of(TLLM_FORMAT_F32)->pack(w, p + 35, 256, NULL);
            put("im", dat, 35 + 1024);
        }
        T_EQ_INT(run("%s/in.gguf %s/p.gguf IQ2_XS --pure", folder, folder), 0);
        SAYS("without importances loses much");
        T_EQ_INT(run("%s/in.gguf %s/o.gguf IQ2_XS --pure --imatrix %s/im", folder, folder, folder), 0);
        SAYS("importance used for 1 tensors");
        g = open_model(ctx, "p.gguf");
        plain = in && g ? column_error(in, g, "blk.1.attn_q.weight", 4) : 0.0;
        tllm_gguf_close(ctx, g);
        g = open_model(ctx, "o.gguf");
        if (in && g) T_TRUE(column_error(in, g, "blk.1.attn_q.weight", 4) < 0.8 * plain);
        tllm_gguf_close(ctx, g);
        if (i) continue;
        put("im", dat, 35 + 1000);
        T_EQ_INT(run("%s/in.gguf %s/x.gguf IQ2_XS --imatrix %s/im", folder, folder, folder), 1);
        SAYS("reaches past the end of the file");
        dat[32] = 0; dat[31] = 16;                              /* 16 values for 256 columns */
        put("im", dat, 35 + 64);
        T_EQ_INT(run("%s/in.gguf %s/x.gguf IQ2_XS --pure --imatrix %s/im", folder, folder, folder), 1);
        SAYS("is not of 256 x 1 values");
        T_EQ_INT(get("x.gguf", q, 1), 0);                       /* nothing is left of a failure */
        T_EQ_INT(get("x.gguf.part", q, 1), 0);
    }
    T_EQ_INT(run("%s/in.gguf %s/none/o.gguf Q4_0", folder, folder), 1);
    SAYS("none/o.gguf");
    tllm_gguf_close(ctx, in);
    t_close(ctx);
}

/* --gptq: a smaller file than that of plain rounding it is not, but one with other codes, and nearer to the model */
static void test_gptq(void)
{
    static const char model[] = "examples/models/story-small.gguf";
    static char text[60000];
    unsigned char q[1024];
    tiny_ctx *ctx;
    tllm_story s;
    size_t n = 0, i;
    tllm_gguf *plain, *coded;
    if (!is_there()) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    for (s = tllm_story_start(3); n < sizeof text - 100;) {
        const int32_t t = tllm_story_draw(&s, NULL, NULL);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", t == TLLM_STORY_END ? "<eos>" : tllm_story_word(t),
                              t == TLLM_STORY_END ? "\n" : " ");
    }
    put("x", text, n);
    T_EQ_INT(run("%s %s/p.gguf Q4_0", model, folder), 0);
    T_EQ_INT(run("%s %s/o.gguf Q4_0 --gptq --text %s/x --tokens 2000", model, folder, folder), 0);
    SAYS("GPTQ over 2000 tokens");
    SAYS("0 more had no known inputs");
    plain = open_model(ctx, "p.gguf");
    coded = open_model(ctx, "o.gguf");
    T_EQ_INT(tllm_gguf_n_tensors(plain), tllm_gguf_n_tensors(coded));
    for (i = 0; i < tllm_gguf_n_tensors(plain); i++) {
        const tllm_gguf_tensor *a = tllm_gguf_tensor_at(plain, i), *b = tllm_gguf_tensor_at(coded, i);
        T_EQ_INT(a->type, b->type);
        T_EQ_INT(a->bytes, b->bytes);
        T_EQ_INT(memcmp(a->data, b->data, a->bytes) != 0, a->type == TLLM_FORMAT_Q4_0);
    }
    tllm_gguf_close(ctx, plain);
    tllm_gguf_close(ctx, coded);
    T_EQ_INT(run("%s %s/o.gguf Q4_0 --gptq --text %s/x --tokens 60 --each-layer", model, folder, folder), 0);
    SAYS("saw fewer tokens than they have inputs");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --gptq", model, folder), 2);
    SAYS("--gptq: it needs --text");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --text %s/x", model, folder, folder), 2);
    SAYS("--text: only --gptq, --awq and --smooth read a text");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --tokens 5", model, folder), 2);
    SAYS("--tokens: only --gptq, --awq and --smooth read a text");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --gptq --text %s/none", model, folder, folder), 1);
    SAYS("none: cannot be opened");
    T_EQ_INT(run("--blocks Q4_0 --gptq --text %s/x", folder), 2);
    SAYS("it needs a model");
    put("nil", "", 0);
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --gptq --text %s/nil", model, folder, folder), 1);
    SAYS("nil: there is no text in it");
    T_EQ_INT(get("y.gguf.part", q, 1), 0);                      /* nothing is left of a failure */
    T_EQ_INT(run("%s %s/none/o.gguf Q4_0 --gptq --text %s/x", model, folder, folder), 1);
    SAYS("none/o.gguf");
    T_TRUE(!strstr(last_words, "GPTQ"));    /* told before the work */
    memcpy(q, "\1\0\0\0\23\0\0\0blk.0.attn_q.weight\1\0\0\0\200\0\0\0", 35);
    for (i = 0; i < 128; i++) memcpy(q + 35 + 4 * i, "\0\0\200\77", 4);
    put("im", q, 35 + 512);
    T_EQ_INT(run("%s %s/o.gguf Q4_0 --gptq --text %s/x --tokens 500 --imatrix %s/im", model, folder, folder, folder),
             0);
    SAYS("--imatrix is not used for those");
    t_close(ctx);
}

/* --awq and --smooth: the file has the types of plain rounding, other norms and other codes; no other file is left */
static void test_scaled(void)
{
    static const char model[] = "examples/models/story-small.gguf";
    static const struct { const char *how, *says, *norm;
    } way[] = { { "Q4_0 --awq", "AWQ over 700 tokens: ", "blk.1.ffn_norm.weight" },
                { "Q8_0 --smooth 0.5", "SmoothQuant over 700 tokens: 8 folds", "blk.1.attn_norm.weight" },
                { "Q4_0 --awq --gptq", "GPTQ over 700 tokens: ", "blk.1.ffn_norm.weight" },
                { "F32 --smooth 1", "SmoothQuant over 700 tokens: 8 folds", "blk.1.attn_norm.weight" } };
    char name[400];
    unsigned char q[8];
    tiny_ctx *ctx;
    tllm_gguf *was = NULL, *is;
    size_t i, k;
    if (!is_there()) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_OK(tllm_gguf_open(ctx, model, &was));
    for (k = 0; k < T_COUNT(way); k++) {    /* the text is that of test_gptq */
        const tllm_gguf_tensor *a, *b;
        T_EQ_INT(run("%s %s/o.gguf %s --text %s/x --tokens 700", model, folder, way[k].how, folder), 0);
        SAYS(way[k].says);
        SAYS(", from 0.7 MB");
        T_EQ_INT(get("o.gguf.scaled", q, 1), 0);
        is = open_model(ctx, "o.gguf");
        T_EQ_INT(tllm_gguf_n_tensors(was), tllm_gguf_n_tensors(is));
        a = tllm_gguf_tensor_find(was, way[k].norm);
        b = tllm_gguf_tensor_find(is, way[k].norm);
        T_TRUE(a->type == TLLM_FORMAT_F32 && b->type == TLLM_FORMAT_F32 && memcmp(a->data, b->data, a->bytes) != 0);
        b = tllm_gguf_tensor_find(is, "blk.0.ffn_up.weight");
        T_EQ_INT(b->type, k == 1 ? TLLM_FORMAT_Q8_0 : k == 3 ? TLLM_FORMAT_F32 : TLLM_FORMAT_Q4_0);
        for (i = 0; i < tllm_gguf_n_tensors(is); i++)
            T_TRUE(tllm_gguf_tensor_at(is, i)->name.n == tllm_gguf_tensor_at(was, i)->name.n);
        tllm_gguf_close(ctx, is);
    }
    SAYS("SmoothQuant over");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq", model, folder), 2);
    SAYS("--awq: it needs --text");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --smooth 0.5", model, folder), 2);
    SAYS("--smooth: it needs --text");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --smooth 1.5 --text %s/x", model, folder, folder), 2);
    SAYS("--smooth");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --smooth nan --text %s/x", model, folder, folder), 2);
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --smooth 0.5 --text %s/x", model, folder, folder), 2);
    SAYS("one of them");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --each-layer --text %s/x", model, folder, folder), 2);
    SAYS("only --gptq can read the text once for each layer");
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --imatrix %s/im --text %s/x", model, folder, folder, folder), 2);
    SAYS("it describes the original model");
    T_EQ_INT(run("--blocks Q4_0 --awq --text %s/x", folder), 2);
    SAYS("--awq: it needs a model");
    T_EQ_INT(run("--blocks Q4_0 --smooth 0 --text %s/x", folder), 2);
    SAYS("--smooth: it needs a model");
    T_EQ_INT(run("%s %s/y.gguf F16 --awq --text %s/x", model, folder, folder), 1);
    SAYS("no matrix is to be rounded to a format that this could help");
    T_EQ_INT(run("%s %s/none/o.gguf Q4_0 --awq --text %s/x", model, folder, folder), 1);
    SAYS("none/o.gguf");
    T_TRUE(!strstr(last_words, "AWQ"));     /* told before the work */
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --text %s/nil", model, folder, folder), 1);
    SAYS("nil: there is no text in it");
    T_EQ_INT(get("y.gguf.part", q, 1), 0);
    T_EQ_INT(get("y.gguf.scaled", q, 1), 0);
    put("y.gguf.scaled", "mine", 4);
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --text %s/x", model, folder, folder), 1);
    SAYS("y.gguf.scaled exists and would be overwritten");
    T_EQ_INT(get("y.gguf.scaled", q, 8), 4);
    (void)snprintf(name, sizeof name, "%s/y.gguf.scaled", folder);
    T_EQ_INT(remove(name), 0);
    (void)snprintf(name, sizeof name,
                   "& p=$!; while ! test -f %s/y.gguf.part; do sleep 0.1; done; kill -TERM $p; wait $p", folder);
    T_EQ_INT(run("%s %s/y.gguf Q4_0 --awq --text %s/x 2>%s/q %s", model, folder, folder, folder, name), 128 + 15);
    T_TRUE(get("q", last_words, sizeof last_words) > 0 &&
           strstr(last_words, "quantize: stopped; nothing was written") != NULL);
    T_EQ_INT(get("y.gguf", q, 1), 0);
    T_EQ_INT(get("y.gguf.part", q, 1), 0);
    T_EQ_INT(get("y.gguf.scaled", q, 1), 0);
    tllm_gguf_close(ctx, was);
    t_close(ctx);
}

/* ---- --tensor-type: the tensors that a pattern matches, compared with regcomp and regexec of the system */

static tiny_rng draws;

/* A random pattern, with brackets of that depth; nothing that POSIX leaves undefined (no empty side, no repeat of a
 * repeat or of an anchor), and no anchor within a bracket: glibc takes the second a of (^a)+ at any place. */
enum { DEEPEST = 3 };
static size_t make_pattern(char *to, int depth)
{
    static const char *const piece[] = { "a", "b", "[ab]", "[^a]", "[a-c]", "[^b-w]", ".", "\\.", "c", "w" };
    const int sides = 1 + (int)tiny_rng_below(&draws, 3) / 2;
    size_t n = 0;
    int side, k;
    for (side = 0; side < sides; side++) {
        const int pieces = 1 + (int)tiny_rng_below(&draws, 3);
        if (side) to[n++] = '|';
        if (depth == DEEPEST && tiny_rng_below(&draws, 6) == 0) to[n++] = '^';
        for (k = 0; k < pieces; k++) {
            if (depth > 0 && tiny_rng_below(&draws, 3) == 0) {
                to[n++] = '(';
                n += make_pattern(to + n, depth - 1);
                to[n++] = ')';
            } else n += (size_t)sprintf(to + n, "%s", piece[tiny_rng_below(&draws, (uint32_t)T_COUNT(piece))]);
            if (tiny_rng_below(&draws, 3) == 0) to[n++] = "*+?"[tiny_rng_below(&draws, 3)];
        }
        if (depth == DEEPEST && tiny_rng_below(&draws, 8) == 0) to[n++] = '$';
    }
    to[n] = 0;
    return n;
}

static void test_patterns(void)
{
    enum { NAMES = 150, PATTERNS = 120 };
    static const struct { const char *pattern, *sentence;
    } bad[] = { { "(a", "a bracket is not closed" },
                { "a)", "a bracket is closed that was never opened" },
                { "[a", "a bracket is not closed" },
                { "[]", "a bracket is not closed" },
                { "a\\", "nothing stands behind its last" },
                { "*a", "nothing stands before" },
                { "(|+)", "nothing stands before" },
                { "a**", "nothing stands before" },
                { "^*", "nothing stands before" } };
    static char name[NAMES][40], pattern[9000], line[10000];
    static const unsigned char zeros[16] = { 0 };
    tiny_ctx *ctx;
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    const uint64_t dim[2] = { 2, 2 };
    size_t i, k, hits = 0, total = 0;
    clock_t began;
    if (!is_there()) return;
    draws = tiny_rng_make(23, 0);
    ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    memset(&d, 0, sizeof d);
    (void)snprintf(line, sizeof line, "%s/in.gguf", folder);
    d.path = line;
    T_OK(tllm_writer_open(ctx, &d, &w));
    T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    for (i = 0; i < NAMES; i++) {           /* each another one, most of few letters */
        size_t n = (size_t)tiny_rng_below(&draws, 12);
        for (k = 0; k < n; k++) name[i][k] = "abc."[tiny_rng_below(&draws, 4)];
        (void)snprintf(name[i] + n, sizeof name[i] - n, "%zuweight", i);
    }
    for (k = 0; k < 2; k++)
        for (i = 0; i < NAMES; i++) {
            tllm_text t;
            t.at = name[i];
            t.n = strlen(name[i]);
            if (k) T_OK(tllm_writer_data(ctx, w, zeros, 16));
            else T_OK(tllm_writer_put_tensor(ctx, w, t, TLLM_FORMAT_F32, 2, dim, NULL));
        }
    T_OK(tllm_writer_finish(ctx, w));
    tllm_writer_close(ctx, w);
    for (k = 0; k < PATTERNS; k++) {
        regex_t re;
        tllm_gguf *g;
        (void)make_pattern(pattern, DEEPEST);
        if (!T_TRUE(!regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))) continue;
        T_EQ_INT(run("%s/in.gguf %s/o.gguf F32 --threads 1 --tensor-type '%s=F16'", folder, folder, pattern), 0);
        g = open_model(ctx, "o.gguf");
        for (i = 0; g && i < NAMES; i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, name[i]);
            const int want = !regexec(&re, name[i], 0, NULL, 0), got = t && !strcmp(tllm_type_name(t->type), "F16");
            hits += (size_t)want;
            total++;
            if (want != got) t_fail(__FILE__, __LINE__, "%s %s %s", pattern, want ? "fits" : "does not fit", name[i]);
        }
        tllm_gguf_close(ctx, g);
        regfree(&re);
    }
    T_TRUE(hits > total / 10 && hits < total - total / 10);
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("%s/in.gguf %s/no.gguf F32 --tensor-type '%s=F16'", folder, folder, bad[i].pattern), 2);
        SAYS(bad[i].sentence);
    }
    began = clock();                        /* patterns that take other programs minutes, or their stack */
    T_EQ_INT(run("%s/in.gguf %s/o.gguf F32 --tensor-type '(a*)*b=F16'", folder, folder), 0);
    T_EQ_INT(run("%s/in.gguf %s/o.gguf F32 --tensor-type '(a|a|b|.)*(a*)*(.*)*(.?)*(x+x+)+y=F16'", folder, folder), 0);
    SAYS("quantize: (a|a|b|.)*(a*)*(.*)*(.?)*(x+x+)+y=F16 matches no matrix");
    T_EQ_INT(run("%s/in.gguf %s/o.gguf F32 --tensor-type '(a|())*?b()+=F16'", folder, folder), 0);
    memset(pattern, '(', 700);
    pattern[700] = 'a';
    memset(pattern + 701, ')', 700);
    pattern[1401] = 0;
    T_EQ_INT(run("%s/in.gguf %s/no.gguf F32 --tensor-type '%s=F16'", folder, folder, pattern), 2);
    SAYS("its brackets stand too deep within each other");
    T_EQ_INT(
        run("%s/in.gguf %s/o.gguf F32 --tensor-type '%.150s%s%.150s=F16'", folder, folder, pattern, "a", pattern + 701),
        0);
    T_TRUE((double)(clock() - began) / CLOCKS_PER_SEC < 20);
    T_EQ_INT(run("%s/in.gguf %s/o.gguf F32 --tensor-type '%s=F16'", folder, folder, "nothing\\.like\\.this"), 0);
    SAYS("quantize: nothing\\.like\\.this=F16 matches no matrix");
    T_EQ_INT((int)get("no.gguf", line, 1), 0);
    t_close(ctx);
}

/* The input is not overwritten: by the same name, a link, or the name under which the output grows. */
static void test_input_not_overwritten(void)
{
    static const char *const to[] = { "in.gguf", "hard.gguf", "soft.gguf", "im" };
    static unsigned char was[20000], is[20000];
    char path[3][300];
    struct stat info;
    tiny_ctx *ctx;
    size_t n, i;
    if (!is_there()) return;
    ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    make_model(ctx);
    t_close(ctx);
    n = get("in.gguf", was, sizeof was);
    T_TRUE(n > 1000);
    (void)snprintf(path[0], sizeof path[0], "%s/in.gguf", folder);
    (void)snprintf(path[1], sizeof path[1], "%s/hard.gguf", folder);
    (void)snprintf(path[2], sizeof path[2], "%s/soft.gguf", folder);
    put("im", "an importance", 13);
    if (link(path[0], path[1]) || symlink("in.gguf", path[2])) t_skip("there are no links");
    else
        for (i = 0; i < T_COUNT(to); i++) {
            T_EQ_INT(run("%s/in.gguf %s/%s Q8_0 --imatrix %s/im", folder, folder, to[i], folder), 2);
            SAYS("this file is read, so nothing is written to it");
        }
    T_TRUE(get("in.gguf", is, sizeof is) == n && !memcmp(was, is, n) && get("im", is, sizeof is) == 13);
    T_TRUE(!lstat(path[2], &info) && S_ISLNK(info.st_mode));
    (void)remove(path[1]);
    (void)remove(path[2]);
    (void)snprintf(path[1], sizeof path[1], "%s/o.gguf.part", folder);
    T_TRUE(!rename(path[0], path[1]));
    T_EQ_INT(run("%s/o.gguf.part %s/o.gguf Q8_0", folder, folder), 2);
    SAYS("would be overwritten while");
    T_TRUE(get("o.gguf.part", is, sizeof is) == n && !memcmp(was, is, n) && !rename(path[1], path[0]));
    T_EQ_INT(run("%s/in.gguf %s Q8_0", folder, folder), 2);
    SAYS("this is a folder");
    T_EQ_INT(run("%s/in.gguf /dev/null Q8_0", folder), 0);
    T_TRUE(!stat("/dev/null", &info) && S_ISCHR(info.st_mode));
    (void)snprintf(path[1], sizeof path[1], "%s/m-00001-of-00002.gguf", folder);
    (void)snprintf(path[2], sizeof path[2], "%s/m-00002-of-00002.gguf", folder);
    put("m-00002-of-00002.gguf", "the other part", 14);
    T_TRUE(!rename(path[0], path[1]));
    T_EQ_INT(run("%s %s Q8_0", path[1], path[2]), 2);
    T_TRUE(get("m-00002-of-00002.gguf", is, sizeof is) == 14 && !remove(path[1]) && !remove(path[2]));
}

static void test_sweep(void)                /* the folder goes */
{
    static const char *const name[] = { "words", "x", "q", "y", "odd", "nil", "in.gguf", "o.gguf", "p.gguf", "im" };
    char path[300];
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(name); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, name[i]);
        (void)remove(path);
    }
    T_EQ_INT(rmdir(folder), 0);
}

int main(void)
{
    T_RUN(test_pipes);
    T_RUN(test_files);
    T_RUN(test_gptq);
    T_RUN(test_scaled);
    T_RUN(test_patterns);
    T_RUN(test_input_not_overwritten);
    T_RUN(test_sweep);
    return t_done();
}
#else
int main(void) { return t_done(); }
#endif
