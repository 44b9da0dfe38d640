/* examples/copy/engine.c - a small server's heart: each line of standard input is a request, all are answered together
 *
 *     cc -O2 -fopenmp examples/copy/engine.c -I. -o engine && printf 'One day\nIn the end\n' | ./engine MODEL.gguf
 *
 * A program with connections submits a request whenever one arrives, and calls tllm_engine_step while there is work. */
#define TINYLLM_WITH_SERVE
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LENGTH = 40 };            /* requests; tokens of each answer */

typedef struct answer { char line[400], text[4096]; size_t n; } answer;

static void keep(answer *a, const char *text, size_t n)
{
    if (n < sizeof a->text - a->n) {
        memcpy(a->text + a->n, text, n);
        a->n += n;
    }
}
static int on_token(void *user, const tllm_engine_token *t)     /* a server would send t->text at once */
{
    keep((answer *)user, t->text, t->n_text);
    return 0;                               /* nonzero ends the request */
}
static void on_end(void *user, const tllm_engine_result *r)
{
    answer *a = (answer *)user;
    keep(a, r->text, r->n_text);
    if (r->status) printf("%s: %s\n", a->line, r->error);
    else printf("%s%.*s\n    (%zu tokens, first after %.0f ms)\n", a->line, (int)a->n, a->text, r->n_made,
                1e3 * r->first_seconds);
}

int main(int argc, char **argv)
{
    static answer answers[MOST];
    tllm_engine_desc desc = { 0 };
    tllm_engine_counters count;
    tllm_engine *engine = NULL;
    tllm_tokens prompt = { 0 };
    tiny_ctx *ctx = NULL;
    char error[240] = "";
    int more = 1, n = 0;
    tiny_status st;
    if (argc != 2) return fputs("engine MODEL.gguf < PROMPTS\n", stderr), 2;
    desc.slots = 4;                         /* four at a time; further lines wait in the queue */
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tllm_engine_open_file(ctx, argv[1], &desc, &engine);
    while (!st && n < MOST && fgets(answers[n].line, sizeof answers[n].line, stdin)) {
        answer *a = &answers[n];
        tllm_request r = { 0 };             /* greedy */
        a->line[strcspn(a->line, "\r\n")] = 0;
        prompt.n = 0;
        st = tllm_encode(ctx, tllm_engine_vocab(engine), a->line, strlen(a->line), TLLM_ENCODE_ENDS, &prompt);
        r.prompt = prompt.id;
        r.n_prompt = prompt.n;
        r.n_most = LENGTH;
        r.token = on_token;
        r.end = on_end;
        r.user = a;
        if (!st) st = tllm_engine_submit(engine, &r, NULL, error, sizeof error);
        if (!st) n++;
    }
    while (!st && more) st = tllm_engine_step(engine, &more);
    tllm_engine_count(engine, &count);
    if (!st) printf("%d answers in %d steps, %d tokens of prompts were cached\n", n, (int)count.steps,
                    (int)count.cached_tokens);
    if (st)
        fprintf(stderr, "engine: %s\n", *error                           ? error
                                        : ctx && *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx)
                                                                        : tiny_status_text(st));
    tllm_tokens_free(ctx, &prompt);
    tllm_engine_close(engine);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
