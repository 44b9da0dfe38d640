/* examples/copy/sequences.c - several texts at once: each pass over the weights generates one token of every text
 *
 *     cc -O2 -fopenmp examples/copy/sequences.c -I. -o sequences && ./sequences MODEL.gguf "One day" "In the end" */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, LENGTH = 40, ITEMS = 4096 };     /* texts; tokens of each; tokens of all prompts */

static int32_t best(const float *logits, tiny_idx n)
{
    tiny_idx i, k = 0;
    for (i = 1; i < n; i++)
        if (logits[i] > logits[k]) k = i;
    return (int32_t)k;
}

int main(int argc, char **argv)
{
    const int n_seq = argc - 2;
    tllm_state_desc room = { 0 };
    tllm_session *session = NULL;
    const tllm_vocab *vocab = NULL;
    tllm_tokens prompt = { 0 };
    tllm_bytes text[MOST] = { { 0 } };
    tllm_stream stream[MOST];
    static tllm_item item[ITEMS];
    tllm_about about;
    float *logits = NULL;
    tiny_ctx *ctx = NULL;
    size_t n_items = 0;
    int32_t seq[MOST];
    int i, k, n = n_seq, step;
    tiny_status st;
    if (n_seq < 1 || n_seq > MOST) return fputs("sequences MODEL.gguf PROMPT ... (at most 16)\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    room.n_seq = n_seq + 1;                 /* sequence 0 is the session's own text */
    if (!st) st = tllm_session_open(ctx, argv[1], &room, &session);
    if (!st) {
        vocab = tllm_session_vocab(session);
        tllm_model_about(tllm_session_model(session), &about);
        logits = (float *)malloc((size_t)n_seq * (size_t)about.n_out * sizeof *logits);
        if (!logits) st = TINY_E_MEMORY;
    }
    for (i = 0; !st && i < n_seq; i++) {    /* all prompts in one list; only the last token of each wants results */
        const size_t first = n_items;
        st = tllm_encode(ctx, vocab, argv[i + 2], strlen(argv[i + 2]), TLLM_ENCODE_ENDS, &prompt);
        for (; !st && n_items < prompt.n && n_items < ITEMS; n_items++) {
            /* position -1: after the tokens that the sequence holds */
            const tllm_item one = { prompt.id[n_items], i + 1, -1, n_items + 1 == prompt.n };
            item[n_items] = one;
        }
        if (!st && (n_items < prompt.n || n_items == first)) st = TINY_E_ARGUMENT;  /* too long, or empty */
        seq[i] = i + 1;
        stream[i] = tllm_stream_start(vocab, 0);
    }
    for (step = 0; !st && n > 0 && step < LENGTH; step++) {
        st = tllm_forward_batch(tllm_session_state(session), item, (tiny_idx)n_items, logits);
        for (i = k = 0; !st && i < n; i++) {        /* row i of the results belongs to seq[i] */
            const int32_t token = best(logits + i * about.n_out, about.n_out);
            const tllm_item next = { token, seq[i], -1, 1 };
            if (tllm_vocab_is_end(vocab, token)) continue;
            st = tllm_stream_next(ctx, &stream[seq[i] - 1], token, &text[seq[i] - 1]);
            item[k] = next;
            seq[k++] = seq[i];
        }
        n_items = (size_t)(n = k);
    }
    for (i = 0; !st && i < n_seq; i++) printf("%s%.*s\n", argv[i + 2], (int)text[i].n, text[i].at ? text[i].at : "");
    if (st)
        fprintf(stderr, "sequences: %s\n",
                ctx && *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    for (i = 0; i < n_seq; i++) tllm_bytes_free(ctx, &text[i]);
    tllm_tokens_free(ctx, &prompt);
    free(logits);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
