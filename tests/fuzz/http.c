/* tests/fuzz/http.c - any bytes as an HTTP request: whole, and in pieces whose length the first byte chooses; both
 * give the same request or the same refusal, and every offset lies within the bytes */
#include "tinyllm.h"
#include <stdlib.h>
#include <string.h>
#define FUZZ_NAME "http"

typedef struct fuzz_http {
    tllm_http_request r;
    char *bytes;
    size_t n;
} fuzz_http;

static void fuzz_read(fuzz_http *h, const uint8_t *data, size_t size, size_t piece)
{
    const tllm_http_limits limits = { 200, 1000, 10, 1000 };
    size_t given = 0, i;
    h->bytes = (char *)malloc(size + 1);
    h->n = 0;
    if (!h->bytes) exit(2);
    tllm_http_start(&h->r, &limits);
    while (given < size && h->r.state != TLLM_HTTP_DONE && h->r.state != TLLM_HTTP_FAILED) {
        const size_t n = size - given < piece ? size - given : piece;
        memcpy(h->bytes + h->n, data + given, n);
        h->n += n;
        given += n;
        (void)tllm_http_feed(&h->r, h->bytes, &h->n);
    }
    if (h->r.state == TLLM_HTTP_FAILED) {
        if (h->r.error < 400 || h->r.error > 505 || !h->r.says) abort();
        return;
    }
    if (h->r.state == TLLM_HTTP_HEAD) return;
    if (h->r.body_at + h->r.body_bytes > h->n || h->r.body_bytes > limits.body_bytes || h->r.n_fields > limits.fields)
        abort();
    if (h->r.target + h->r.target_bytes > h->r.body_at || h->bytes[h->r.target + h->r.target_bytes] != ' ') abort();
    for (i = 0; i < h->r.n_fields; i++) {
        const tllm_http_field *f = &h->r.field[i];
        if (h->bytes[f->name + f->name_bytes] != ':' || f->value + f->value_bytes > h->r.body_at) abort();
        if (memchr(h->bytes + f->value, '\n', f->value_bytes) || memchr(h->bytes + f->value, 0, f->value_bytes))
            abort();
    }
    if (h->r.state == TLLM_HTTP_DONE && h->r.used != h->r.body_at + h->r.body_bytes) abort();
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    fuzz_http a, b;
    const size_t piece = size ? 1 + data[0] % 37 : 1;
    (void)ctx;
    if (!size) return;
    fuzz_read(&a, data + 1, size - 1, size);
    fuzz_read(&b, data + 1, size - 1, piece);
    if (a.r.state != b.r.state || a.r.error != b.r.error) abort();
    if (a.r.state != TLLM_HTTP_FAILED) {
        if (a.r.used != b.r.used || a.r.body_bytes != b.r.body_bytes || a.r.n_fields != b.r.n_fields ||
            a.r.keep_alive != b.r.keep_alive || a.r.length != b.r.length)
            abort();
        if (a.r.body_bytes && memcmp(a.bytes + a.r.body_at, b.bytes + b.r.body_at, a.r.body_bytes)) abort();
    }
    free(a.bytes);
    free(b.bytes);
}
#include "engine.h"
