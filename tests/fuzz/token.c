/* tests/fuzz/token.c - a vocabulary from bytes, and a text: every id is a token of the vocabulary, and the text comes
 * back
 *
 * The bytes choose the model, the split rule, switches and special ids, then give tokens (length, type, score, text),
 * merges (two tokens each, or any text), a character map, and the rest is the text. It is encoded with and without
 * special tokens, decoded whole and token by token. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 200, MERGES = 200 };

typedef struct bytes { const unsigned char *at; size_t left; } bytes;

static unsigned take(bytes *b)
{
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

static tllm_text take_text(bytes *b, size_t n)
{
    tllm_text t;
    if (n > b->left) n = b->left;
    t.at = (const char *)b->at;
    t.n = n;
    b->at += n;
    b->left -= n;
    return t;
}

static void must(int ok, const char *what)
{
    if (ok) return;
    printf("token: %s\n", what);
    fflush(stdout);
    abort();
}

/* the standard's UTF-8, nothing else */
static int valid(const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t k = p[i] < 0x80 ? 1 : p[i] < 0xc2 ? 0 : p[i] < 0xe0 ? 2 : p[i] < 0xf0 ? 3 : p[i] < 0xf5 ? 4 : 0, j;
        if (!k || k > n - i) return 0;
        for (j = 1; j < k; j++) if ((p[i + j] & 0xc0) != 0x80) return 0;
        if ((p[i] == 0xe0 && p[i + 1] < 0xa0) || (p[i] == 0xed && p[i + 1] > 0x9f) ||
            (p[i] == 0xf0 && p[i + 1] < 0x90) || (p[i] == 0xf4 && p[i + 1] > 0x8f))
            return 0;
        i += k;
    }
    return 1;
}

static void there_and_back(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags, int mapped)
{
    tllm_tokens t;
    tllm_bytes whole, parts;
    tllm_stream s = tllm_stream_start(v, flags & 1);
    size_t i;
    memset(&t, 0, sizeof t);
    memset(&whole, 0, sizeof whole);
    memset(&parts, 0, sizeof parts);
    if (!tllm_encode(ctx, v, text, n, flags, &t)) {
        for (i = 0; i < t.n; i++)
            must(t.id[i] >= 0 && (size_t)t.id[i] < tllm_vocab_size(v), "an id outside the vocabulary");
        must(t.n <= (mapped ? 32 : 4) * n + 8, "more tokens than bytes could give");
        must(!tllm_decode(ctx, v, t.id, t.n, flags & 1, &whole), "an encoded text does not decode");
        for (i = 0; i < t.n; i++) {
            size_t from = parts.n;
            must(!tllm_stream_next(ctx, &s, t.id[i], &parts), "an encoded text does not stream");
            must(parts.n == from || valid((const unsigned char *)parts.at + from, parts.n - from),
                 "the stream gave no valid UTF-8");
        }
        must(!tllm_stream_end(ctx, &s, &parts), "the end of the stream");
        if (valid((const unsigned char *)whole.at, whole.n))
            must(whole.n == parts.n && (!whole.n || !memcmp(whole.at, parts.at, whole.n)), "whole and streamed differ");
    }
    tllm_tokens_free(ctx, &t);
    tllm_bytes_free(ctx, &whole);
    tllm_bytes_free(ctx, &parts);
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static const char *const model[] = { "llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "gemma4", "whitespace" };
    static tllm_text text[TOKENS], merge[MERGES];
    static char joined[MERGES][130];
    static float score[TOKENS];
    static int32_t type[TOKENS], special[TLLM_SPECIAL_COUNT];
    static unsigned char map[2048];
    tllm_vocab_desc d;
    tllm_vocab *v = NULL;
    tllm_text rest;
    bytes b;
    size_t i, n_pre = 0;
    unsigned how;
    while (tllm_pre_at(n_pre)) n_pre++;
    b.at = data;
    b.left = size;
    memset(&d, 0, sizeof d);
    d.model = model[take(&b) % 8];
    d.pre = tllm_pre_at(take(&b) % n_pre)->name;
    how = take(&b);
    d.add_bos = (int)(how & 1);
    d.add_eos = how & 2 ? -1 : 1;
    d.add_space_prefix = how & 4 ? 1 : -1;
    d.merge_spaces = (int)(how >> 3 & 1);
    d.lowercase = how & 16 ? -1 : 1;
    d.n_tokens = take(&b) % TOKENS;
    d.text = text;
    for (i = 0; i < d.n_tokens; i++) {
        unsigned k = take(&b);
        type[i] = (int32_t)(k >> 5);
        score[i] = how & 32 ? (float)(int)(k % 7) - 5 : -(float)i;
        text[i] = take_text(&b, k % 8 == 7 ? k & 31 : k % 8);
    }
    if (how & 64) d.score = score;
    if (how & 128) d.type = type;
    for (i = 0; i < TLLM_SPECIAL_COUNT; i++) special[i] = (int32_t)(take(&b) % 8 ? -2 : (int)take(&b) - 2);
    d.special = special;
    d.n_merges = take(&b) % MERGES;
    d.merge = merge;
    for (i = 0; i < d.n_merges && d.n_tokens; i++) {
        unsigned x = take(&b), y = take(&b);
        tllm_text p = text[x % d.n_tokens], q = text[y % d.n_tokens];
        if (x == 255) { merge[i] = take_text(&b, y % 9); continue; }
        merge[i].n = (size_t)snprintf(joined[i], sizeof joined[i], "%.*s %.*s", (int)p.n, p.at, (int)q.n, q.at);
        merge[i].at = joined[i];
    }
    if (!d.n_tokens) d.n_merges = 0;
    if (take(&b) % 4 == 1) {                /* a map of a few units, the rest of it rubbish of a few values */
        unsigned units = take(&b), seed = take(&b);
        memset(map, 0, sizeof map);
        map[0] = (unsigned char)(4 * units);
        map[1] = (unsigned char)(4 * units >> 8);
        rest = take_text(&b, 4 * units < 1500 ? 4 * units : 1500);
        for (i = 0; i < 4 * units && i < 1500; i++)
            map[4 + i] =
                (unsigned char)(i < rest.n ? (unsigned char)rest.at[i] : ((seed * (i / 4 + 1) >> (i & 3)) & 255));
        d.charsmap = map;
        d.n_charsmap = 4 * units + 4 + take(&b) % 32;
        if (d.n_charsmap > sizeof map) d.n_charsmap = sizeof map;
    }
    if (!tllm_vocab_make(ctx, &d, &v)) {
        int32_t id;
        char piece[64];
        for (id = -2; id < (int32_t)d.n_tokens + 2; id++) {
            must(tllm_piece(v, id, 1, piece, sizeof piece) <= tllm_piece_most(v), "a piece longer than the longest");
            (void)tllm_vocab_type(v, id);
            (void)tllm_vocab_is_end(v, id);
        }
        rest = take_text(&b, b.left);
        there_and_back(ctx, v, rest.at, rest.n, 0, d.charsmap != NULL);
        there_and_back(ctx, v, rest.at, rest.n, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, d.charsmap != NULL);
    }
    tllm_vocab_close(ctx, v);
}

#define FUZZ_NAME "token"
#define FUZZ_EXTRA ((size_t)1 << 22)        /* the words that are remembered, the scratch of the merges */
#include "engine.h"
