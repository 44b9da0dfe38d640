/* examples/copy/linked.c - a program that contains its model and reads no file
 *
 *     cc examples/bytes.c -o bytes && ./bytes examples/models/story-small.gguf story_model > story-model.h
 *     cc -O2 -fopenmp -I. examples/copy/linked.c -o linked && ./linked "one day , Ella"
 *
 * bytes writes an array, static const unsigned char story_model[]. The weights stay in the read-only memory of the
 * program: nothing is copied. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include "story-model.h"
#include <stdio.h>
#include <string.h>

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 1 ? argv[1] : "one day , Ella";
    tllm_generate_desc how = { 0 };
    tllm_session *session = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc > 2) return fputs("linked [PROMPT]\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tllm_session_open_memory(ctx, story_model, sizeof story_model, NULL, &session);
    how.text = print;
    how.n_most = 60;
    if (!st) st = tllm_generate(session, prompt, strlen(prompt), &how, NULL);
    if (st) fprintf(stderr, "linked: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else puts("");
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
