/* examples/copy/memory.c - your own allocator: all memory of the library comes from one function, within a limit
 *
 *     cc -O2 -fopenmp examples/copy/memory.c -I. -o memory && ./memory MODEL.gguf "Once upon a time" 64 */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct budget { size_t held, most_held, limit; } budget;

/* Like realloc: old NULL allocates, n_bytes 0 frees. The library calls it from one thread at a time. */
static void *take(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    budget *b = (budget *)user;
    void *p = NULL;
    if (n_bytes > old_bytes && n_bytes - old_bytes > b->limit - b->held) return NULL;
    if (n_bytes) p = realloc(old, n_bytes);
    else free(old);
    if (n_bytes && !p) return NULL;
    b->held = b->held - old_bytes + n_bytes;
    if (b->held > b->most_held) b->most_held = b->held;
    return p;
}

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

int main(int argc, char **argv)
{
    budget memory = { 0, 0, 0 };
    tllm_generate_desc how = { 0 };
    tllm_session *session = NULL;
    tiny_ctx_desc desc = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc != 4) return fputs("memory MODEL.gguf PROMPT MEGABYTES\n", stderr), 2;
    memory.limit = (size_t)strtoul(argv[3], NULL, 10) << 20;
    desc.allocator.realloc_fn = take;
    desc.allocator.user = &memory;
    st = tiny_ctx_open(&desc, &ctx);
    /* the file itself is mapped, and does not count */
    if (!st) st = tllm_session_open(ctx, argv[1], NULL, &session);
    how.text = print;
    how.n_most = 60;
    if (!st) st = tllm_generate(session, argv[2], strlen(argv[2]), &how, NULL);
    if (st) fprintf(stderr, "memory: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    printf("\n%lu bytes were the most; %lu are still held\n", (unsigned long)memory.most_held,
           (unsigned long)memory.held);
    return st != TINY_OK;
}
