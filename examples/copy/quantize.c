/* examples/copy/quantize.c - writes a model file in fewer bits with one call
 *
 *     cc -O2 -fopenmp examples/copy/quantize.c -I. -o quantize && ./quantize MODEL.gguf SMALL.gguf Q4_K_M */
#define TINYLLM_WITH_QUANTIZE
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>

static void progress(void *user, const char *what, double done)     /* called by the library between tensors */
{
    (void)user;
    fprintf(stderr, "\r%s %3.0f %%%s", what, 100 * done, done < 1 ? "" : "\n");
}

static void listen(void *user, tiny_log_level level, const char *sentence)      /* for instance: rows that do not fit */
{
    (void)user;
    if (level == TINY_LOG_WARNING) fprintf(stderr, "quantize: %s\n", sentence);
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    tllm_quantize_desc how = { 0 };
    tllm_quantize_about about = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc != 4) return fputs("quantize IN OUT.gguf TYPE (Q4_K_M, Q5_K_S, Q8_0, F16 ...)\n", stderr), 2;
    desc.progress = progress;
    desc.log = listen;
    st = tiny_ctx_open(&desc, &ctx);
    how.type = argv[3];                     /* a mixture of formats, or one format */
    if (!st) st = tllm_quantize_file(ctx, argv[1], argv[2], &how, &about);
    if (st) fprintf(stderr, "%s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else
        printf("%s: %lu of %lu tensors packed, %.1f MB instead of %.1f\n", argv[2], (unsigned long)about.n_packed,
               (unsigned long)about.n_tensors, (double)about.bytes_after / 1e6, (double)about.bytes_before / 1e6);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
