/* tests/fuzz/slices.c - hostile answers and questions of a transfer of slices
 *
 * The first byte chooses. Bit 0: questions to rank 0, 48 bytes each, of which the input gives the first 8. Otherwise
 * the answers of a rank 0 that has a small model, and three bytes for each byte that is another one in them: two for
 * its place, one for its value. With bit 1 the SHA-256 of each answer is right again, so that what follows it is
 * reached. */
#define FUZZ_EXTRA ((size_t)8 << 20)
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 1, SAY = 320, ASK = 48, MESSAGES = 200, ROOM = 1 << 17 };
static struct {
    unsigned char bytes[ROOM];              /* what rank 0 has sent, one message after the other */
    size_t at[MESSAGES + 1];
    int n;
} said;

typedef struct fake {
    tiny_net net;
    const unsigned char *questions;         /* rank 0: (n_questions, ASK) */
    int n_questions, asked, records;
    const unsigned char *answers;           /* rank 1: like said */
    int next, seal;
    unsigned char *say;                     /* the last answer, in the memory of the reader */
    tiny_sha256 h;
} fake;

static tiny_status fake_send(tiny_net *net, int to, tiny_message *m)
{
    fake *f = (fake *)net;
    if (to == net->rank || to < 0 || to >= net->world) abort();
    if (f->records && said.n < MESSAGES && said.at[said.n] + m->n <= ROOM) {
        memcpy(said.bytes + said.at[said.n], m->data, m->n);
        said.at[said.n + 1] = said.at[said.n] + m->n;
        said.n++;
    }
    m->begun = m->whole = 1;
    m->done = m->n;
    return TINY_OK;
}
static tiny_status fake_recv(tiny_net *net, int from, tiny_message *m)
{
    fake *f = (fake *)net;
    (void)from;
    if (f->questions) {
        if (f->asked == f->n_questions) {
            strcpy(net->says, "rank 1 has ended");
            return TINY_E_PEER;
        }
        if (m->n != ASK) abort();
        memcpy(m->data, f->questions + ASK * f->asked++, ASK);
    } else {
        if (f->next == said.n || said.at[f->next + 1] - said.at[f->next] != m->n) {
            strcpy(net->says, "rank 0 sent another number of bytes");
            return TINY_E_PROTOCOL;
        }
        memcpy(m->data, f->answers + said.at[f->next++], m->n);
        /* sizes, header and its bytes, then an answer and its bytes */
        if (m->n == SAY && (f->next == 1 || f->next % 2 == 0)) {
            f->say = (unsigned char *)m->data;
            tiny_sha256_start(&f->h);
            if (f->next > 3) tiny_sha256_add(&f->h, f->say + 64, SAY - 64);
        } else tiny_sha256_add(&f->h, m->data, m->n);
        if (f->seal && f->say) {
            tiny_sha256 h = f->h;
            tiny_sha256_end(&h, f->say + 16);
        }
    }
    m->begun = m->whole = 1;
    m->done = m->n;
    return TINY_OK;
}
static void fake_close(tiny_net *net) { (void)net; }
static uint64_t fake_changes(tiny_net *net) { return ++net->calls; }
static void fake_pause(tiny_net *net, uint64_t seen, uint64_t until) { (void)net; (void)seen; (void)until; }
static fake fake_of(int rank)
{
    fake f;
    memset(&f, 0, sizeof f);
    f.net.rank = rank;
    f.net.world = 2;
    f.net.send = fake_send;
    f.net.recv = fake_recv;
    f.net.close = fake_close;
    f.net.changes = fake_changes;
    f.net.pause = fake_pause;
    f.net.wake = fake_close;
    return f;
}

/* a model of one layer, in memory that stays */
static const tllm_gguf *small_model(void)
{
    static const char *const name[] = { "token_embd", "output_norm", "blk.0.attn_norm", "blk.0.attn_q", "blk.0.attn_k",
                                        "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_norm", "blk.0.ffn_gate",
                                        "blk.0.ffn_up", "blk.0.ffn_down" };
    static const int rows[] = { 20, 1, 1, 16, 16, 16, 16, 1, 24, 24, 16 }, columns[] = { 16, 16, 16, 16, 16, 16, 16, 16,
                                                                                        16, 16, 24 };
    static char full[11][40];
    static float x[24 * 24];
    static tllm_gguf *g;
    static tllm_writer *w;                  /* both stay: the file is in their memory */
    static tiny_ctx *ctx;
    tllm_writer_desc d;
    const void *at;
    size_t n, i;
    if (g) return g;
    memset(&d, 0, sizeof d);
    for (i = 0; i < sizeof x / sizeof x[0]; i++) x[i] = 0.1f * (float)((i * 7) % 11) - 0.5f;
    if (tiny_ctx_open(NULL, &ctx) || tllm_writer_open(ctx, &d, &w)) abort();
    if (tllm_writer_put_text(ctx, w, "general.architecture", "llama") ||
        tllm_writer_put_u32(ctx, w, "llama.embedding_length", 16) ||
        tllm_writer_put_u32(ctx, w, "llama.block_count", 1) ||
        tllm_writer_put_u32(ctx, w, "llama.context_length", 16) ||
        tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", 24) ||
        tllm_writer_put_u32(ctx, w, "llama.attention.head_count", 2) ||
        tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f))
        abort();
    for (i = 0; i < 11; i++) {
        uint64_t dim[2];
        tllm_text text;
        (void)snprintf(full[i], sizeof full[i], "%s.weight", name[i]);
        text.at = full[i];
        text.n = strlen(full[i]);
        dim[0] = (uint64_t)columns[i];
        dim[1] = (uint64_t)rows[i];
        if (tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, rows[i] > 1 ? 2 : 1, dim, x)) abort();
    }
    if (tllm_writer_finish(ctx, w)) abort();
    at = tllm_writer_memory(w, &n);
    if (tllm_gguf_open_memory(ctx, at, n, &g)) abort();
    return g;
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static unsigned char questions[64 * ASK], answers[ROOM];
    const char *folder = getenv("TMPDIR");
    tllm_slices_desc d;
    char path[400];
    fake f;
    size_t i;
    int k;
    memset(&d, 0, sizeof d);
    d.file = small_model();
    d.timeout_ns = 1;
    if (!said.n) {                          /* an honest transfer, once */
        memset(questions, 0, sizeof questions);
        for (k = 0; k < 14; k++) {
            questions[ASK * k] = (unsigned char)(k == 0 ? 2 : k == 1 ? 3 : k == 13 ? 5 : 4);
            questions[ASK * k + 4] = (unsigned char)(k < 2 || k == 13 ? 0 : k - 2);
        }
        f = fake_of(0);
        f.questions = questions;
        f.n_questions = 14;
        f.records = 1;
        d.net = &f.net;
        d.timeout_ns = 0;
        if (tllm_slices_serve(ctx, &d, NULL) || said.n != 26) abort();
    }
    if (!size) return;
    if (data[0] & 1) {
        memset(questions, 0, sizeof questions);
        for (k = 0; k < 64 && 9u + 8u * (unsigned)k <= size; k++) memcpy(questions + ASK * k, data + 1 + 8 * k, 8);
        f = fake_of(0);
        f.questions = questions;
        f.n_questions = k;
        d.net = &f.net;
        if (tllm_slices_serve(ctx, &d, NULL) && !*tiny_ctx_message(ctx)) abort();
        return;
    }
    memcpy(answers, said.bytes, said.at[said.n]);
    for (i = 1; i + 3 <= size; i += 3)
        answers[((size_t)data[i] | (size_t)data[i + 1] << 8) % said.at[said.n]] = data[i + 2];
    f = fake_of(RANK);
    f.answers = answers;
    f.seal = data[0] & 2;
    d.net = &f.net;
    d.file = NULL;
    d.folder = folder ? folder : "/tmp";
    d.most = 1 << 20;
    if (tllm_slices_fetch(ctx, &d, path, sizeof path, NULL)) {
        if (!*tiny_ctx_message(ctx)) abort();
    } else if (size < 4 && !*path) abort();
    if (*path) (void)remove(path);
}

#define FUZZ_NAME "slices"
#include "engine.h"
