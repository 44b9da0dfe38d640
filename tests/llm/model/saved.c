/* tests/llm/model/saved.c - a state in a file and back: the same logits; a cut, changed or foreign file changes
 * nothing */
#include "t.h"
#include "llm/file/kit.h"
#include "older.h"

static const char story[] = "examples/models/story.gguf";       /* llama, 8 heads of 32, 2 key heads, 544 tokens */

typedef struct opened { tiny_ctx *ctx; tllm_gguf *file; tllm_model *model; tllm_state *s; tllm_about about; } opened;

static int open_one(opened *o, const char *name, tiny_idx n_ctx, tiny_idx n_seq, int type)
{
    const char *path = name == story ? story : t_one_of(name);
    tllm_state_desc d;
    memset(o, 0, sizeof *o);
    memset(&d, 0, sizeof d);
    if (!path) return 0;
    o->ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    d.n_ctx = n_ctx;
    d.n_seq = n_seq;
    d.n_page = 4;
    d.type_k = d.type_v = type;
    if (!T_OK(tllm_gguf_open(o->ctx, path, &o->file)) || !T_OK(tllm_model_open(o->ctx, o->file, &o->model)) ||
        !T_OK(tllm_state_open(o->ctx, o->model, &d, &o->s)))
        return 0;
    tllm_model_about(o->model, &o->about);
    return 1;
}
static void close_one(opened *o)
{
    tllm_state_close(o->ctx, o->s);
    tllm_model_close(o->ctx, o->model);
    tllm_gguf_close(o->ctx, o->file);
    t_close(o->ctx);
}
static void feed(opened *o, int seq, int n, int from, float *out)
{
    tllm_item x[32];
    int i;
    for (i = 0; i < n; i++) {
        x[i].token = (int32_t)(1 + (from + 7 * i) % ((int)o->about.n_vocab - 1));
        x[i].seq = (int32_t)seq;
        x[i].pos = -1;
        x[i].want = out && i == n - 1;
    }
    T_OK(tllm_forward_batch(o->s, x, n, out));
}
static const char *temp_path(void) { return "build/saved-state.tmp"; }

/* every kind of layer: attention, windows, latent keys with an indexer, state spaces, delta nets, rwkv, an encoder
 * too */
static void test_same_logits(void)
{
    static const struct { const char *model; int type;
    } each[] = { { story, TLLM_FORMAT_F32 },
                 { story, TLLM_FORMAT_F16 },
                 { story, TLLM_FORMAT_Q8_0 },
                 { story, TLLM_FORMAT_Q4_0 },
                 { "oracle/llm/llama.gguf", TLLM_FORMAT_Q4_0 },
                 { "oracle/llm/gpt2.gguf", 0 },
                 { "oracle/llm/plm.gguf", 0 },
                 { "oracle/llm/llama4-b.gguf", 0 },
                 { "oracle/llm/deepseek2.gguf", 0 },
                 { "oracle/llm/deepseek32.gguf", 0 },
                 { "oracle/llm/mamba.gguf", 0 },
                 { "oracle/llm/qwen3next.gguf", 0 },
                 { "oracle/llm/rwkv7-b.gguf", 0 },
                 { "oracle/llm/jamba.gguf", 0 },
                 { "oracle/llm/gemma3n.gguf", 0 },
                 { "oracle/llm/t5.gguf", 0 },
                 { "oracle/llm/nanbeige.gguf", 0 },
                 { "oracle/llm/afmoe.gguf", TLLM_FORMAT_F16 },
                 { "oracle/llm/laguna.gguf", 0 },
                 { "oracle/llm/mimo2.gguf", 0 },
                 { "oracle/llm/minimax-m3.gguf", 0 },
                 { "oracle/llm/bailingmoe3.gguf", 0 },
                 { "oracle/llm/kimi-k3.gguf", 0 },
                 { "oracle/llm/deepseek4.gguf", 0 } };
    size_t k;
    int n = 0;
    for (k = 0; k < T_COUNT(each); k++) {
        opened a, b;
        const int32_t source[3] = { 5, 6, 1 };
        float *x, *y;
        int s;
        if (!open_one(&a, each[k].model, 40, 3, each[k].type)) continue;
        n++;
        x = (float *)t_keep((size_t)(3 * a.about.n_out) * sizeof *x);
        y = (float *)t_keep((size_t)(3 * a.about.n_out) * sizeof *y);
        if (a.about.has_decoder) T_OK(tllm_forward_all(a.s, source, 3, NULL));
        feed(&a, 0, 11, 1, NULL);
        feed(&a, 1, 3, 9, NULL);
        T_OK(tllm_seq_fork(a.s, 0, 2));
        feed(&a, 2, 2, 4, NULL);
        T_OK(tllm_state_save(a.s, -1, temp_path()));
        for (s = 0; s < 3; s++) feed(&a, s, 2, 30 + s, x + s * a.about.n_out);
        if (open_one(&b, each[k].model, 40, 4, each[k].type)) {
            T_OK(tllm_state_load(b.s, -1, temp_path()));
            T_EQ_INT(tllm_seq_length(b.s, 2), 13);
            for (s = 0; s < 3; s++) feed(&b, s, 2, 30 + s, y + s * a.about.n_out);
            T_SAME(x, y, 3 * a.about.n_out);
            /* one sequence into another place */
            if (!a.about.has_decoder) {
                T_OK(tllm_state_save(b.s, 2, temp_path()));
                T_OK(tllm_state_load(b.s, 3, temp_path()));
                T_OK(tllm_state_load(b.s, 0, temp_path()));
                feed(&b, 2, 1, 50, x);
                feed(&b, 3, 1, 50, y);
                feed(&b, 0, 1, 50, y + a.about.n_out);
                T_SAME(x, y, a.about.n_out);
                T_SAME(x, y + a.about.n_out, a.about.n_out);
            } else T_STATUS(tllm_state_save(b.s, 2, temp_path()), TINY_E_UNSUPPORTED, "share one encoder");
        }
        close_one(&b);
        t_use(a.ctx);
        close_one(&a);
    }
    T_TRUE(n >= 6);
    (void)remove(temp_path());
}

static void reseal(unsigned char *p, size_t n) { kit_put_le(p + n - 8, kit_xxh64(p, n - 8), 8); }

/* Each fault has its sentence; the state continues as if nothing had been loaded. With reseal the checksum agrees, as
 * from a hostile writer. */
static void test_refused(void)
{
    static const struct { size_t at; unsigned char value; int seal; tiny_status st; const char *says;
    } fault[] = { { 0, 'x', 1, TINY_E_FORMAT, "not a saved state" },
                  { 8, 1, 1, TINY_E_VERSION, "version 1 of the older form; this library reads version 2" },
                  { 12, 1, 1, TINY_E_FORMAT, "holds all sequences, but this call loads one" },
                  { 12, 7, 1, TINY_E_FORMAT, "holds all sequences" },
                  { 16, 99, 1, TINY_E_FORMAT, "another model" },
                  { 24, 8, 1, TINY_E_FORMAT, "keys of format 8 and values of format 0, but this one F32 and F32" },
                  { 36, 1, 1, TINY_E_FORMAT, "rotated its keys for long contexts" },
                  { 40, 1, 1, TINY_E_FORMAT, "another model" },
                  { 48, 2, 1, TINY_E_FORMAT, "has 2 sequences, but this one has room for 1" },
                  { 52, 1, 1, TINY_E_FORMAT, "has 1 encoder tokens" },
                  { 63, 1, 1, TINY_E_FORMAT, "stored tokens, more than" },
                  { 56, 250, 1, TINY_E_FORMAT, "stored tokens, more than" },
                  { 64, 200, 1, TINY_E_FORMAT, "more cells than its bytes" },
                  { 71, 255, 1, TINY_E_FORMAT, "more cells than its bytes" },
                  { 64, 4, 1, TINY_E_FORMAT, "bytes after its cells, not 0" },
                  { 76, 0, 1, TINY_E_FORMAT, "cell 1 of sequence 0 of the saved state has position 0; it must be" },
                  { 79, 255, 1, TINY_E_FORMAT, "cell 1 of sequence 0" },
                  { 300, 77, 0, TINY_E_FORMAT, "damaged or truncated" } };
    opened o;
    unsigned char *good, *bad;
    void *bytes = NULL;
    size_t n = 0, k, cut;
    float want[544], got[544];
    if (!open_one(&o, story, 40, 3, 0)) return;
    feed(&o, 1, 5, 3, NULL);
    feed(&o, 0, 8, 1, NULL);
    T_OK(tllm_seq_fork(o.s, 0, 2));
    feed(&o, 2, 1, 60, want);
    T_OK(tllm_state_pack(o.s, 1, NULL, 0, &bytes, &n));
    T_STATUS(tllm_state_unpack(o.s, 0, bytes, n - 1, NULL, 0, NULL), TINY_E_FORMAT, "damaged or truncated");
    good = older(bytes, "tinystat", 2, 8, &n);      /* all else in the older form, whose body is the same */
    reseal(good, n);
    bad = (unsigned char *)t_guarded_bytes(n);
    for (k = 0; k < T_COUNT(fault); k++) {
        memcpy(bad, good, n);
        bad[fault[k].at] = (unsigned char)(bad[fault[k].at] == fault[k].value ? fault[k].value + 1 : fault[k].value);
        if (fault[k].seal) reseal(bad, n);
        if (!T_STATUS(tllm_state_unpack(o.s, 0, bad, n, NULL, 0, NULL), fault[k].st, fault[k].says))
            printf("  fault %d\n", (int)k);
    }
    for (cut = 0; cut < n; cut += cut < 200 ? 1 : 97) {
        unsigned char *p = (unsigned char *)t_guarded_bytes(cut);
        memcpy(p, good, cut);
        T_TRUE(tllm_state_unpack(o.s, 0, p, cut, NULL, 0, NULL) == TINY_E_FORMAT);
        if (cut > 80) {
            reseal(p, cut);
            T_TRUE(tllm_state_unpack(o.s, 0, p, cut, NULL, 0, NULL) == TINY_E_FORMAT);
        }
    }
    T_STATUS(tllm_state_unpack(o.s, -1, good, n, NULL, 0, NULL), TINY_E_FORMAT,
             "holds one sequence, but this call loads all");
    T_STATUS(tllm_state_unpack(o.s, 3, good, n, NULL, 0, NULL), TINY_E_ARGUMENT, "no sequence 3");
    T_STATUS(tllm_state_unpack(o.s, 0, NULL, n, NULL, 0, NULL), TINY_E_ARGUMENT, "bytes of the saved state are NULL");
    T_STATUS(tllm_state_load(o.s, 0, "no/such/state"), TINY_E_IO, "no/such/state");
    T_STATUS(tllm_state_save(o.s, 0, "no/such/folder/state"), TINY_E_IO, "no/such/folder/state");
    feed(&o, 0, 1, 60, got);
    T_SAME(got, want, 544);
    tiny_free(o.ctx, bytes);
    close_one(&o);
    /* missing pages: two sequences of 40 into a pool of 44 */
    {
        opened a;
        tllm_state_desc d;
        tllm_state *small = NULL;
        memset(&d, 0, sizeof d);
        d.n_ctx = 40;
        d.n_seq = 2;
        d.n_page = 4;
        d.n_cells = 44;
        if (!open_one(&a, story, 40, 2, 0)) return;
        feed(&a, 0, 30, 1, NULL);
        feed(&a, 1, 30, 2, NULL);
        T_OK(tllm_state_pack(a.s, -1, NULL, 0, &bytes, &n));
        T_OK(tllm_state_open(a.ctx, a.model, &d, &small));
        T_STATUS(tllm_state_unpack(small, -1, bytes, n, NULL, 0, NULL), TINY_E_WORKSPACE,
                 "needs 16 pages of 4 tokens, but there are 11");
        tiny_free(a.ctx, bytes);
        tllm_state_close(a.ctx, small);
        close_one(&a);
    }
}

int main(void)
{
    T_RUN(test_same_logits);
    T_RUN(test_refused);
    return t_done();
}
