/* examples/copy/search.c - search by meaning: finds the lines of standard input that are nearest to a question
 *
 *     cc -O2 -fopenmp examples/copy/search.c -I. -o search && ./search EMBEDDING-MODEL.gguf "a question" < texts.txt */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 3 };
typedef struct hit { double cosine; char text[1024]; } hit;

/* Vectors of length 1: their product is the cosine of the angle between them, 1 for the same meaning. */
static double cosine(const float *a, const float *b, size_t n)
{
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void keep(hit *list, int *n, double c, const char *text)     /* the largest ones, in order */
{
    int at = *n;
    while (at > 0 && list[at - 1].cosine < c) at--;
    if (at == SHOWN) return;
    if (*n < SHOWN) ++*n;
    memmove(&list[at + 1], &list[at], (size_t)(*n - 1 - at) * sizeof *list);
    list[at].cosine = c;
    strcpy(list[at].text, text);
}

int main(int argc, char **argv)
{
    static hit list[SHOWN];
    const char *why;
    static char line[1024];                 /* a longer line counts as several texts */
    tllm_session *session = NULL;
    tllm_about about;
    tiny_ctx *ctx = NULL;
    float *question = NULL, *text = NULL;
    size_t d = 0;
    int i, n = 0;
    tiny_status st;
    if (argc != 3) return fputs("search EMBEDDING-MODEL.gguf QUESTION < TEXTS\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tllm_session_open(ctx, argv[1], NULL, &session);
    if (!st) {
        tllm_model_about(tllm_session_model(session), &about);
        d = (size_t)about.n_embd;
        question = (float *)malloc(2 * d * sizeof *question);
        if (!question) st = TINY_E_MEMORY;
        else text = question + d;
    }
    if (!st) st = tllm_embed(session, argv[2], strlen(argv[2]), -1, question);
    while (!st && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line) continue;
        st = tllm_embed(session, line, strlen(line), -1, text);
        if (!st) keep(list, &n, cosine(question, text, d), line);
    }
    for (i = 0; !st && i < n; i++) printf("%.4f  %s\n", list[i].cosine, list[i].text);
    why = ctx && *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st);
    if (st) fprintf(stderr, "search: %s\n", why);
    free(question);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
