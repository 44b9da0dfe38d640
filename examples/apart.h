/* examples/apart.h - how far the predictions of a changed model are from those of the original, over a text
 *
 * Include it after tinyllm.h and options.h. */
#include <math.h>

enum { HELD_OUT = 2048 };

/* The tokens of a text: the first n are read, at most `most`; the next `rest` measure the result. These are up to
 * HELD_OUT that follow, or the last eighth of a shorter text. Each window of either begins as a text does. */
typedef struct divided { tllm_tokens t; size_t n, rest; } divided;
static inline tiny_status divide(tiny_ctx *ctx, const tllm_gguf *g, const char *path, size_t most, size_t window,
                                 divided *d)
{
    const size_t all = most + HELD_OUT;
    tllm_vocab *vocab = NULL;
    size_t bytes = 0, i;
    char *text = read_text(path, all < MOST_TEXT / 64 ? all * 64 : MOST_TEXT, 1, &bytes);
    tiny_status st = text ? tllm_vocab_open(ctx, g, &vocab) : TINY_E_IO;
    if (!st) st = tllm_encode(ctx, vocab, text, bytes, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &d->t);
    if (!st) {
        if (d->t.n > all) d->t.n = all;
        d->rest = d->t.n > most ? d->t.n - most : d->t.n / 8;
        d->n = d->t.n - d->rest;
        for (i = 0; tllm_vocab_adds_bos(vocab) && i < d->t.n;
             i += i < d->n && d->n - i < window ? d->n - i : window)
            d->t.id[i] = tllm_vocab_special(vocab, TLLM_BOS);
    }
    tllm_vocab_close(ctx, vocab);
    free(text);
    return st;
}

/* one of the two models that are compared */
typedef struct side { tllm_model *model; tllm_state *state; float *y; } side;
static inline tiny_status side_open(tiny_ctx *ctx, const tllm_gguf *g, tiny_idx window, side *s)
{
    tllm_state_desc room;
    tllm_about about;
    tiny_status st = tllm_model_open(ctx, g, &s->model);
    memset(&room, 0, sizeof room);
    room.n_ctx = room.n_batch = window;
    if (!st) st = tllm_state_open(ctx, s->model, &room, &s->state);
    if (st) return st;
    tllm_model_about(s->model, &about);
    s->y = (float *)tiny_alloc(ctx, (size_t)window * (size_t)about.n_out * sizeof *s->y);
    return s->y ? TINY_OK : TINY_E_MEMORY;
}
static inline void side_close(tiny_ctx *ctx, side *s)
{
    tiny_free(ctx, s->y);
    tllm_state_close(ctx, s->state);
    tllm_model_close(ctx, s->model);
}

/* log of the sum of exponentials, and the largest */
static inline double log_sum(const float *z, tiny_idx n, tiny_idx *best)
{
    double sum = 0;
    tiny_idx i;
    for (*best = 0, i = 1; i < n; i++)
        if (z[i] > z[*best]) *best = i;
    for (i = 0; i < n; i++) sum += exp((double)z[i] - (double)z[*best]);
    return (double)z[*best] + log(sum);
}

/* bits per token that the second model's predictions are away from the first's; same: share of equal best guesses */
static inline tiny_status divergence(tiny_ctx *ctx, const tllm_gguf *a, const tllm_gguf *b, const int32_t *token,
                                     tiny_idx n, tiny_idx window, double *kl, double *same)
{
    side s[2];
    tllm_about about;
    tiny_idx at, now, i, k, best[2];
    tiny_status st;
    memset(s, 0, sizeof s);
    *kl = *same = 0;
    st = side_open(ctx, a, window, &s[0]);
    if (!st) st = side_open(ctx, b, window, &s[1]);
    if (!st) tllm_model_about(s[0].model, &about);
    for (at = 0; at < n && !st; at += now) {
        now = n - at < window ? n - at : window;
        for (k = 0; k < 2 && !st; k++) {
            tllm_state_clear(s[k].state);
            st = tllm_forward(s[k].state, token + at, now, 0, now, s[k].y);
        }
        for (i = 0; i < now && !st; i++) {
            const float *p = s[0].y + i * about.n_out, *q = s[1].y + i * about.n_out;
            const double lp = log_sum(p, about.n_out, &best[0]), lq = log_sum(q, about.n_out, &best[1]);
            double sum = 0;
            for (k = 0; k < about.n_out; k++)
                sum += exp((double)p[k] - lp) * ((double)p[k] - lp - (double)q[k] + lq);
            *kl += sum / log(2.0) / (double)n;
            *same += (best[0] == best[1]) / (double)n;
        }
    }
    side_close(ctx, &s[1]);
    side_close(ctx, &s[0]);
    return st;
}
