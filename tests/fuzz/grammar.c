/* tests/fuzz/grammar.c - any bytes as a grammar, and a text: a state accepts a text in one piece as another does byte
 * by byte, and a mask agrees with each piece alone
 *
 * The grammar ends at the first byte 0; the rest is the text. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FUZZ_NAME "grammar"
#define FUZZ_CTX_EACH                        /* workspace kept by the sorting of pieces is not a leak */
#define FUZZ_EXTRA ((size_t)64 << 20)       /* repetitions are written out, and states grow with the open rules */

static void must(int ok, const char *what)
{
    if (ok) return;
    printf("grammar: %s\n", what);
    fflush(stdout);
    abort();
}

/* All beginnings and endings of the text as pieces: all at once agrees with each alone. */
static void mask(tiny_ctx *ctx, tllm_grammar_state *s, const char *text, size_t n)
{
    char bytes[64 * 65];
    uint32_t end[130];
    unsigned char may[130];
    size_t n_pieces = 0, at = 0, i;
    tllm_pieces *p;
    for (i = 0; i <= n; i++) {
        memcpy(bytes + at, text, i);
        end[n_pieces++] = (uint32_t)(at += i);
        memcpy(bytes + at, text + i, n - i);
        end[n_pieces++] = (uint32_t)(at += n - i);
    }
    must(!tllm_pieces_open(ctx, bytes, end, n_pieces, &p), "pieces do not open");
    if (!tllm_grammar_mask(ctx, s, p, may))
        for (i = 0; i < n_pieces; i++) {
            const size_t from = i ? end[i - 1] : 0;
            int yes = 0;
            if (end[i] > from && tllm_grammar_accepts(ctx, s, bytes + from, end[i] - from, &yes)) break;
            must(may[i] == yes, "a mask and a test of the piece alone disagree");
        }
    tllm_pieces_close(ctx, p);
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    const uint8_t *zero = (const uint8_t *)memchr(data, 0, size);
    size_t n = zero ? (size_t)(zero - data) : size, n_text = zero ? size - n - 1 : 0, i;
    const char *text = zero ? (const char *)zero + 1 : "";
    char *source = (char *)malloc(n ? n : 1);
    tllm_grammar *g;
    tllm_grammar_state *s = NULL, *c = NULL;
    tiny_status st = TINY_OK;
    int yes, end;
    if (!source) return;
    memcpy(source, data, n);
    if (tllm_grammar_open(ctx, source, n, "root", &g)) {
        must(strstr(tiny_ctx_message(ctx), "grammar") != NULL, "a refusal without its sentence");
    } else {
        if (n_text > 64) n_text = 64;
        if (!tllm_grammar_begin(ctx, g, &s) && !tllm_grammar_clone(ctx, s, &c) &&
            !tllm_grammar_accepts(ctx, s, text, n_text, &yes)) {
            for (i = 0; i < n_text && (st = tllm_grammar_advance(ctx, c, text + i, 1)) == TINY_OK; i++) {}
            must(yes == (i == n_text) || st == TINY_E_WORKSPACE, "one piece and single bytes do not agree");
            mask(ctx, s, text, n_text);
            if (yes) {
                must(!tllm_grammar_advance(ctx, s, text, n_text), "an accepted piece is not taken");
                must(st || tllm_grammar_may_end(s) == tllm_grammar_may_end(c), "the ends do not agree");
            } else {
                end = tllm_grammar_may_end(s);
                must(tllm_grammar_advance(ctx, s, text, n_text) != TINY_OK && tllm_grammar_may_end(s) == end,
                     "a refused piece changes the state");
            }
        }
        tllm_grammar_free(ctx, s);
        tllm_grammar_free(ctx, c);
        tllm_grammar_close(ctx, g);
    }
    free(source);
}
#include "engine.h"
