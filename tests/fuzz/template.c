/* tests/fuzz/template.c - any bytes as a chat template: it is refused with its line, or it runs and ends
 *
 * The bytes are the template; the bytes after a byte 0xff are JSON for its messages. Steps, memory and text are
 * small, so that an endless template ends soon. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FUZZ_NAME "template"
#define FUZZ_EXTRA ((size_t)8 << 20)        /* the text is compiled, and a run has a limit of its own */

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static const char more[] = "{\"s\": \"abc d\", \"n\": 5, \"l\": [1, \"x\", {\"a\": 1}], \"d\": {\"a\": [1.5, "
                               "null], \"b\": true}, \"bos_token\": \"<s>\"}";
    static const tllm_chat_message talk[2] = { { "user", "Hello\n", 0 }, { "assistant", NULL, 0 } };
    const uint8_t *mark = (const uint8_t *)memchr(data, 0xff, size);
    size_t n_source = mark ? (size_t)(mark - data) : size, n = 0;
    /* of its own size: the sanitizer sees the byte after it */
    char *source = (char *)malloc(n_source ? n_source : 1), *text = NULL;
    tllm_template_values v;
    tllm_template *t;
    if (!source) return;
    memcpy(source, data, n_source);
    memset(&v, 0, sizeof v);
    v.message = talk;
    v.n_messages = 2;
    v.more_json = more;
    v.now = 1;
    v.max_steps = 50000;
    v.max_memory = (size_t)1 << 20;
    v.max_text = (size_t)1 << 18;
    if (mark && size - n_source > 1) {
        v.messages_json = (const char *)mark + 1;
        v.messages_json_bytes = size - n_source - 1;
    }
    if (tllm_template_open(ctx, source, n_source, &t)) {
        if (!strstr(tiny_ctx_message(ctx), "line ") && !strstr(tiny_ctx_message(ctx), "the longest has")) abort();
    } else {
        if (tllm_template_run(ctx, t, &v, &text, &n)) {
            if (text || !tiny_ctx_message(ctx)[0]) abort();
        } else if (text[n]) abort();
        tiny_free(ctx, text);
    }
    tllm_template_close(ctx, t);
    free(source);
}
#include "engine.h"
