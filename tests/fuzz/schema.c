/* tests/fuzz/schema.c - any bytes as a JSON schema: refused with a sentence, or a grammar that is itself taken or
 * refused
 *
 * The bytes after the first byte 0 are a value to try. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FUZZ_NAME "schema"
#define FUZZ_EXTRA \
    ((size_t)300 << 20) /* the limit of the translation, and the grammar with its repetitions written out */

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    const uint8_t *zero = (const uint8_t *)memchr(data, 0, size);
    size_t n = zero ? (size_t)(zero - data) : size, n_value = zero ? size - n - 1 : 0, n_text, i;
    char *schema = (char *)malloc(n ? n : 1), *text;
    tllm_grammar *g;
    tllm_grammar_state *s;
    if (!schema) return;
    memcpy(schema, data, n);
    if (tllm_schema_grammar(ctx, schema, n, &text, &n_text)) {
        if (text || !strstr(tiny_ctx_message(ctx), "JSON")) abort();
    } else {
        if (strlen(text) != n_text) abort();
        if (!tllm_grammar_open(ctx, text, n_text, "root", &g)) {
            if (!tllm_grammar_begin(ctx, g, &s)) {
                for (i = 0; i < n_value && !tllm_grammar_advance(ctx, s, (const char *)zero + 1 + i, 1); i++) {}
                tllm_grammar_free(ctx, s);
            }
            tllm_grammar_close(ctx, g);
        } else if (!strstr(tiny_ctx_message(ctx), "left recursion") && !strstr(tiny_ctx_message(ctx), "grows past") &&
                   !strstr(tiny_ctx_message(ctx), "the longest has")) {
            fprintf(stderr, "%s\n%s\n", tiny_ctx_message(ctx), text);
            abort();                        /* we write no grammar with a mistake in it */
        }
        tiny_free(ctx, text);
    }
    free(schema);
}
#include "engine.h"
