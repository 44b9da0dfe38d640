/* tests/fuzz/state.c - any bytes as a saved state of a small model; an accepted state must be able to go on
 *
 * The first byte chooses: bit 0 all sequences or one, bit 1 the checksum is corrected first, bits 2 and 3 the format of
 * keys and values. The rest is the file. The model is made here, of one layer. After a change of the format the corpus
 * is written anew:
 *
 *     cc -std=c99 -DSTATE_CORPUS -DTINYLLM_ALL -DTINYLLM_IMPLEMENTATION -I. -Itests -Itests/fuzz tests/fuzz/state.c -o
 *     build/state-corpus -pthread -lm build/state-corpus tests/fuzz/corpus/state */
#include "tinyllm.h"
#include "boxed.h"

enum { D = 32, V = 40 };

static tllm_writer *made;
static const tllm_gguf *small_model(tiny_ctx *ctx, tllm_gguf **file)
{
    static const struct { const char *name; int rank; uint64_t dim[2];
    } tensors[] = { { "token_embd.weight", 2, { D, V } },      { "output_norm.weight", 1, { D, 1 } },
                    { "blk.0.attn_norm.weight", 1, { D, 1 } }, { "blk.0.ffn_norm.weight", 1, { D, 1 } },
                    { "blk.0.attn_q.weight", 2, { D, D } },    { "blk.0.attn_k.weight", 2, { D, D } },
                    { "blk.0.attn_v.weight", 2, { D, D } },    { "blk.0.attn_output.weight", 2, { D, D } },
                    { "blk.0.ffn_gate.weight", 2, { D, D } },  { "blk.0.ffn_up.weight", 2, { D, D } },
                    { "blk.0.ffn_down.weight", 2, { D, D } } };
    static float x[D * V];
    tllm_writer_desc desc;
    size_t i, n = 0;
    const void *bytes;
    memset(&desc, 0, sizeof desc);
    for (i = 0; i < D * V; i++) x[i] = 0.05f * (float)((int)(i * 7919u % 41u) - 20);
    if (tllm_writer_open(ctx, &desc, &made) || tllm_writer_put_text(ctx, made, "general.architecture", "llama") ||
        tllm_writer_put_u32(ctx, made, "llama.embedding_length", D) ||
        tllm_writer_put_u32(ctx, made, "llama.block_count", 1) ||
        tllm_writer_put_u32(ctx, made, "llama.context_length", 64) ||
        tllm_writer_put_u32(ctx, made, "llama.feed_forward_length", D) ||
        tllm_writer_put_u32(ctx, made, "llama.attention.head_count", 2) ||
        tllm_writer_put_u32(ctx, made, "llama.vocab_size", V) ||
        tllm_writer_put_f32(ctx, made, "llama.attention.layer_norm_rms_epsilon", 1e-5f))
        abort();
    for (i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        tllm_text name;
        name.at = tensors[i].name;
        name.n = strlen(name.at);
        if (tllm_writer_put_tensor(ctx, made, name, TLLM_FORMAT_F32, tensors[i].rank, tensors[i].dim, x)) abort();
    }
    if (tllm_writer_finish(ctx, made)) abort();
    bytes = tllm_writer_memory(made, &n);
    if (tllm_gguf_open_memory(ctx, bytes, n, file)) abort();
    return *file;
}

static const struct {
    int id;
    const char *name;
} types[4] = {
    { TLLM_FORMAT_F32, "F32" }, { TLLM_FORMAT_F16, "F16" }, { TLLM_FORMAT_Q8_0, "Q8_0" }, { TLLM_FORMAT_Q4_0, "Q4_0" }
};
static tiny_ctx *ctx;
static tllm_gguf *file;
static tllm_model *model;
static tllm_state *state[4];

static void open_states(void)               /* once: stays open */
{
    tllm_state_desc d;
    int i;
    if (ctx) return;
    if (tiny_ctx_open(NULL, &ctx)) abort();
    (void)small_model(ctx, &file);
    if (tllm_model_open(ctx, file, &model)) abort();
    for (i = 0; i < 4; i++) {
        memset(&d, 0, sizeof d);
        d.n_ctx = 12;
        d.n_seq = 2;
        d.n_page = 4;
        d.type_k = d.type_v = types[i].id;
        if (tllm_state_open(ctx, model, &d, &state[i])) abort();
    }
}

#ifdef STATE_CORPUS
static void feed(tllm_state *s, int seq, int n)
{
    tllm_item x[8];
    int i;
    memset(x, 0, sizeof x);
    for (i = 0; i < n; i++) {
        x[i].token = 1 + 3 * i + seq;
        x[i].seq = seq;
        x[i].pos = -1;
    }
    if (tllm_forward_batch(s, x, n, NULL)) abort();
}

/* each format: one sequence of 5 tokens, and two of 3 and 4 */
int main(int argc, char **argv)
{
    int i, all;
    if (argc != 2) return 2;
    open_states();
    for (i = 0; i < 4; i++)
        for (all = 0; all < 2; all++) {
            char path[500];
            void *bytes = NULL;
            size_t n = 0;
            FILE *f;
            tllm_state_clear(state[i]);
            feed(state[i], 0, all ? 3 : 5);
            if (all) feed(state[i], 1, 4);
            if (tllm_state_pack(state[i], all ? -1 : 0, NULL, 0, &bytes, &n)) abort();
            (void)snprintf(path, sizeof path, "%s/box-%s-%s", argv[1], all ? "all" : "one", types[i].name);
            f = fopen(path, "wb");
            if (!f || fputc(i << 2 | 2 | all, f) == EOF || fwrite(bytes, 1, n, f) != n || fclose(f)) return 1;
            tiny_free(ctx, bytes);
        }
    return 0;
}
#else
static void target(tiny_ctx *outer, const uint8_t *data, size_t size)
{
    static unsigned char room[1 << 18];
    tllm_item item;
    float out[V];
    tllm_state *s;
    tiny_idx seq, n;
    (void)outer;
    open_states();
    if (size < 1 || size > sizeof room) return;
    s = state[data[0] >> 2 & 3];
    seq = data[0] & 1 ? -1 : 0;
    n = (tiny_idx)size - 1;
    memcpy(room, data + 1, (size_t)n);
    if (data[0] & 2) reseal(room, (size_t)n, 8, 0);
    tllm_state_clear(s);
    if (tllm_state_unpack(s, seq, room, (size_t)n, NULL, 0, NULL)) {
        if (!*tiny_ctx_message(ctx) || tllm_seq_length(s, 0) || tllm_seq_length(s, 1)) abort();
        return;
    }
    if (tllm_seq_length(s, 0) >= 12 || tllm_seq_next(s, 0) > 1 << 30) return;
    memset(&item, 0, sizeof item);
    item.token = 3;
    item.pos = -1;
    item.want = 1;
    if (tllm_forward_batch(s, &item, 1, out)) abort();
}

#define FUZZ_NAME "state"
#include "engine.h"
#endif
