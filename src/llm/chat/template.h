/* src/llm/chat/template.h - the chat template of a model file: from messages to a prompt in the form that the model was
 * trained on
 *
 *   tllm_chat_message talk[2] = { { "system", "Be brief.", 0 }, { "user", "Hello", 0 } };
 *   tllm_template_values values;
 *   tllm_template *t;
 *   char *text;
 *   size_t n;
 *   memset(&values, 0, sizeof values);
 *   values.message = talk;
 *   values.n_messages = 2;
 *   values.add_generation_prompt = 1;
 *   values.bos_token = "<s>";
 *   if (tllm_template_open(ctx, source, n_source, &t)) ... tiny_ctx_message names the line and column ...
 *   if (!tllm_template_run(ctx, t, &values, &text, &n)) { puts(text); tiny_free(ctx, text); }
 *   tllm_template_close(ctx, t);
 *
 * Templates are written in Jinja, with the settings and functions that model files expect: trim_blocks, lstrip_blocks,
 * raise_exception, strftime_now, and a tojson that does not escape < or non-ASCII letters. docs/guide/chat.md lists the
 * supported parts of the language.
 *
 * A template comes from a file and is not trusted. It can read only the values given to it. Its steps, its memory and
 * the length of its text are limited, and neither the compiler nor the interpreter recurses. Each error names line and
 * column. */
#ifndef TINYI_CHAT_TEMPLATE_H
#define TINYI_CHAT_TEMPLATE_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_TEMPLATE_MAX_BYTES ((size_t)256 << 10)     /* length of a template */
#define TLLM_TEMPLATE_MAX_DEPTH 200                     /* nested brackets, operators and blocks */
#define TLLM_TEMPLATE_MAX_ARGS 100                      /* arguments of one call, or parameters of one macro */
#define TLLM_TEMPLATE_MAX_CALLS 100                     /* nested macro calls */
#define TLLM_TEMPLATE_MAX_RANGE 100000                  /* numbers that range() returns, as in Jinja's sandbox */
#define TLLM_TEMPLATE_STEPS UINT64_C(20000000)          /* the default limits of a run */
#define TLLM_TEMPLATE_MEMORY ((size_t)64 << 20)
#define TLLM_TEMPLATE_TEXT ((size_t)16 << 20)

typedef struct tllm_template tllm_template;

typedef struct tllm_chat_message {
    const char *role, *content;             /* content NULL: none */
    size_t content_bytes;                   /* 0: content ends with a 0 byte */
} tllm_chat_message;

/* The variables of a template; all zero: no messages. Texts are UTF-8. A size of 0 means that the text ends with a 0
 * byte. Everything belongs to the caller. */
typedef struct tllm_template_values {
    const tllm_chat_message *message;
    size_t n_messages;
    /* a JSON list used instead of message, for tool calls, images and other fields that a template reads; NULL: none */
    const char *messages_json;
    size_t messages_json_bytes;
    const char *tools_json;                 /* a list; NULL: the variable tools is none */
    size_t tools_json_bytes;
    const char *more_json;                  /* an object: each member becomes a variable and overrides those above */
    size_t more_json_bytes;
    int add_generation_prompt;              /* nonzero: the text ends where the answer begins */
    const char *bos_token, *eos_token;      /* NULL: undefined */
    /* seconds since 1970 in the time zone of the user, for strftime_now; 0: time() */
    int64_t now;
    uint64_t max_steps;                     /* 0: TLLM_TEMPLATE_STEPS */
    size_t max_memory, max_text;            /* bytes; 0: TLLM_TEMPLATE_MEMORY, TLLM_TEMPLATE_TEXT */
} tllm_template_values;

/* text: n bytes, at most TLLM_TEMPLATE_MAX_BYTES, copied. On failure *out is NULL. Any number of threads may run one
 * template, each with its own context. */
TINY_API tiny_status tllm_template_open(tiny_ctx *ctx, const char *text, size_t n, tllm_template **out);
/* t may be NULL; ctx: the context that opened it */
TINY_API void tllm_template_close(tiny_ctx *ctx, tllm_template *t);

/* *text has *n bytes and a final 0; free it with tiny_free. n may be NULL. On failure *text is NULL. */
TINY_API tiny_status tllm_template_run(tiny_ctx *ctx, const tllm_template *t, const tllm_template_values *values,
                                       char **text, size_t *n);

TINYI_C_END
#endif
