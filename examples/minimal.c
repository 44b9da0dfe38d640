/* examples/minimal.c - continues a prompt with a model file: minimal MODEL.gguf "Once upon a time" */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <string.h>

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    fwrite(text, 1, n, stdout);
    return fflush(stdout);
}

/* Prints why no context was opened. Later errors are in the message of the context. */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "minimal: %s\n", sentence);
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    tllm_generate_desc how = { 0 };
    tllm_session *session = NULL;
    tiny_ctx_desc desc = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc > 1 && !strcmp(argv[1], "--help")) return puts("minimal [MODEL.gguf] [PROMPT]") < 0;
    desc.log = say;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
    how.text = print;
    how.n_most = 200;
    if (!st) st = tllm_session_open(ctx, argc > 1 ? argv[1] : "model.gguf", NULL, &session);
    if (!st) st = tllm_generate(session, prompt, strlen(prompt), &how, NULL);
    if (st && ctx) fprintf(stderr, "minimal: %s\n", tiny_ctx_message(ctx));
    if (!st) puts("");
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
