/* examples/copy/chat.c - a chat: each line of standard input is a question, answered as the text is generated
 *
 *     cc -O2 -fopenmp examples/copy/chat.c -I. -o chat && ./chat MODEL.gguf */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100 };                        /* messages of a talk */
static char line[4096], answer[65536];
static size_t n_answer;

static int print(void *user, const char *text, size_t n)    /* the answer is shown, and kept for the next question */
{
    (void)user;
    if (n > sizeof answer - n_answer) return 1;
    memcpy(answer + n_answer, text, n);
    n_answer += n;
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

static tiny_status add(tllm_chat_message *m, const char *role, const char *text, size_t n)
{
    char *copy = (char *)malloc(n + 1);
    const tllm_chat_message one = { role, copy, n };
    if (!copy) return TINY_E_MEMORY;
    memcpy(copy, text, n);
    copy[n] = 0;
    *m = one;
    return TINY_OK;
}

int main(int argc, char **argv)
{
    static tllm_chat_message talk[MOST + 2];
    tllm_template_values values = { 0 };
    tllm_generate_desc how = { 0 };
    tllm_session *session = NULL;
    tllm_template *form = NULL;
    const tllm_vocab *vocab = NULL;
    tiny_ctx *ctx = NULL;
    tllm_text source = { NULL, 0 };
    const char *why = NULL;
    char *prompt, begin[64] = "";
    size_t n;
    tiny_status st;
    if (argc != 2) return fputs("chat MODEL.gguf < QUESTIONS\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tllm_session_open(ctx, argv[1], NULL, &session);
    /* the file says how its model was taught to chat: a template that turns messages into one text */
    if (!st && !tllm_meta_text(tllm_gguf_find(tllm_session_file(session), "tokenizer.chat_template"), 0, &source))
        st = TINY_E_UNSUPPORTED, why = "the model file has no chat template";
    if (!st) st = tllm_template_open(ctx, source.at, source.n, &form);
    if (!st) vocab = tllm_session_vocab(session);
    (void)tllm_piece(vocab, tllm_vocab_special(vocab, TLLM_BOS), TLLM_DECODE_SPECIAL, begin, sizeof begin - 1);
    values.message = talk;
    values.add_generation_prompt = 1;
    values.bos_token = begin;
    how.text = print;
    while (!st && values.n_messages < MOST && fputs("> ", stdout) >= 0 && !fflush(stdout) &&
           fgets(line, sizeof line, stdin)) {
        st = add(&talk[values.n_messages++], "user", line, strcspn(line, "\n"));
        n_answer = 0;
        if (!st) st = tllm_template_run(ctx, form, &values, &prompt, &n);
        if (st) break;
        /* the session computes only what follows the text that it holds already; the template may write BOS itself */
        how.encode = TLLM_ENCODE_SPECIAL | (*begin && !strncmp(prompt, begin, strlen(begin)) ? 0u : TLLM_ENCODE_ENDS);
        st = tllm_generate(session, prompt, n, &how, NULL);
        tiny_free(ctx, prompt);
        if (!st) st = add(&talk[values.n_messages++], "assistant", answer, n_answer);
        puts("");
    }
    if (!why) why = ctx && *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st);
    if (st) fprintf(stderr, "chat: %s\n", why);
    while (values.n_messages) free((void *)(size_t)talk[--values.n_messages].content);
    tllm_template_close(ctx, form);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
