/* tests/fuzz/box.c - any bytes as a box, to the reader of many sections and to those of one body: the first one accepts
 * every file that one of these accepts
 *
 * The first byte chooses: bit 0 the checksum is corrected first, bits 1 and 2 the reader of one body. The rest is the
 * file. The corpus is a file of each kind, of tests/golden/boxes and of the current writers. */
#define FUZZ_EXTRA ((size_t)32 << 20)        /* tables of the cache codec are wider in memory than in a file */
#include "tinyllm.h"
#include "boxed.h"

static const char *const what[3] = { "csl 2", "vptq 2", "cache-tables 2" };

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static unsigned char room[1 << 18];
    const size_t n = size - 1;
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    const tiny_checkpoint_entry *body;
    const char *text = "";
    tllm_csl a;
    tllm_vptq q;
    tllm_kvcodec_tables *t;
    int reader, taken;
    if (size < 1 || size > sizeof room) return;
    reader = data[0] >> 1 & 3;
    memcpy(room, data + 1, n);
    if (data[0] & 1) reseal(room, n, 4, reader != 0);
    memset(&d, 0, sizeof d);
    d.bytes = room;
    d.n_bytes = n;
    if (tiny_checkpoint_open(ctx, &d, &c) && (c || !*tiny_ctx_message(ctx))) abort();
    if (reader == 0 && (taken = !tllm_csl_open(ctx, room, n, &a)) != 0) tllm_csl_free(ctx, &a);
    else if (reader == 1 && (taken = !tllm_vptq_open(ctx, room, n, &q)) != 0) {
        if (c && (q.bytes != room + 192 || (size_t)(q.bytes - room) % 64)) abort();
        tllm_vptq_close(ctx, &q);
    } else if (reader == 2 && (taken = !tllm_kvcodec_tables_open(ctx, room, n, &t)) != 0)
        tllm_kvcodec_tables_close(ctx, t);
    else taken = 0;
    if (taken && n >= 8 && room[0] == 0x89) {
        if (!c || tiny_checkpoint_count(c) != 2 || tiny_checkpoint_get_text(ctx, c, "what", &text) ||
            strcmp(text, what[reader]))
            abort();
        body = tiny_checkpoint_find(c, "body");
        if (!body || body->kind != TINY_CHECKPOINT_TENSOR || body->dtype != TINY_U8 || body->at != room + 192) abort();
    }
    tiny_checkpoint_close(ctx, c);
}

#define FUZZ_NAME "box"
#include "engine.h"
