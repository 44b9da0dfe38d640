/* src/llm/sample/stop.c - one prefix automaton for each stop string */
#include "llm/sample/stop.h"
#include "core/state_inside.h"
#include <string.h>

typedef struct tinyi_stop_string {
    const char *text;
    const uint32_t *fall;                   /* fall[i]: length of the longest proper border of the first i bytes */
    uint32_t n, at;                         /* at: how many bytes of it the text ends with */
} tinyi_stop_string;

struct tllm_stop {
    tiny_ctx *ctx;
    size_t n, longest, held;                /* held: bytes not given out; they are a prefix of some string */
    char *held_text;                        /* the last `longest` bytes at most */
    int stopped;
    tinyi_stop_string string[1];
};

TINY_API tiny_status tllm_stop_open(tiny_ctx *ctx, const char *const *strings, size_t n, tllm_stop **out)
{
    size_t i, bytes, total = 0, longest = 0;
    unsigned char *at;
    tllm_stop *stop;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || (n && !strings))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stop strings: the list or the result pointer is NULL");
    for (i = 0; i < n; i++) {
        size_t len = strings[i] ? strlen(strings[i]) : 0;
        if (!len) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stop string %zu is empty", i + 1);
        if (len > UINT32_MAX / 8 || !tinyi_size_add(total, len, &total))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "stop string %zu is too long", i + 1);
        longest = TINYI_MAX(longest, len);
    }
    if (!tinyi_size_mul(n, sizeof(tinyi_stop_string) + 4, &bytes) ||
        !tinyi_size_add(bytes, sizeof *stop + 5 * total + longest, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "stop strings: %zu are too many for memory", n);
    stop = (tllm_stop *)tiny_alloc(ctx, bytes);
    if (!stop) return tiny_ctx_status(ctx);
    memset(stop, 0, bytes);
    stop->ctx = ctx;
    stop->n = n;
    stop->longest = longest;
    at = (unsigned char *)(stop->string + (n ? n : 1));
    for (i = 0; i < n; i++) {
        uint32_t *fall = (uint32_t *)(void *)at, len = (uint32_t)strlen(strings[i]), j, k = 0;
        for (j = 1; j < len; j++) {
            while (k && strings[i][j] != strings[i][k]) k = fall[k];
            if (strings[i][j] == strings[i][k]) k++;
            fall[j + 1] = k;
        }
        stop->string[i].fall = fall;
        stop->string[i].n = len;
        at += 4 * ((size_t)len + 1);
    }
    for (i = 0; i < n; i++) {
        memcpy(at, strings[i], stop->string[i].n);
        stop->string[i].text = (const char *)at;
        at += stop->string[i].n;
    }
    stop->held_text = (char *)at;
    *out = stop;
    return TINY_OK;
}

TINY_API void tllm_stop_close(tllm_stop *stop)
{
    if (stop) tiny_free(stop->ctx, stop);
}

TINY_API size_t tllm_stop_held_most(const tllm_stop *stop) { return stop ? stop->longest : 0; }

TINY_API void tllm_stop_reset(tllm_stop *stop)
{
    size_t i;
    if (!stop) return;
    stop->held = 0;
    stop->stopped = 0;
    for (i = 0; i < stop->n; i++) stop->string[i].at = 0;
}

/* One byte more: the number of a string that ends here (the longest), or 0; *keep: the longest prefix that the text
 * ends with. */
static int tinyi_stop_byte(tllm_stop *stop, char c, size_t *keep)
{
    int found = 0;
    size_t i;
    *keep = 0;
    for (i = 0; i < stop->n; i++) {
        tinyi_stop_string *s = &stop->string[i];
        while (s->at && s->text[s->at] != c) s->at = s->fall[s->at];
        if (s->text[s->at] == c) s->at++;
        if (s->at == s->n) {
            if (!found || s->n > stop->string[found - 1].n) found = (int)i + 1;
            s->at = s->fall[s->n];          /* only for the walk's sake: feed ends here */
        }
        *keep = TINYI_MAX(*keep, s->at);
    }
    return found;
}

TINY_API void tllm_stop_feed(tllm_stop *stop, const char *piece, size_t n, char *out, size_t *n_out, int *stopped)
{
    size_t i, keep, ready;
    if (n_out) *n_out = 0;
    if (stopped) *stopped = stop ? stop->stopped : 0;
    if (!stop || !out || !n_out || !stopped || (n && !piece)) return;
    if (stop->stopped) return;
    for (i = 0; i < n; i++) {
        stop->held_text[stop->held++] = piece[i];
        stop->stopped = tinyi_stop_byte(stop, piece[i], &keep);
        if (stop->stopped) keep = stop->string[stop->stopped - 1].n;
        ready = stop->held - keep;
        memcpy(out + *n_out, stop->held_text, ready);
        *n_out += ready;
        memmove(stop->held_text, stop->held_text + ready, keep);
        stop->held = keep;
        if (stop->stopped) {
            stop->held = 0;
            *stopped = stop->stopped;
            return;
        }
    }
}

TINY_API void tllm_stop_flush(tllm_stop *stop, char *out, size_t *n_out)
{
    if (n_out) *n_out = 0;
    if (!stop || !out || !n_out) return;
    memcpy(out, stop->held_text, stop->held);
    *n_out = stop->held;
    tllm_stop_reset(stop);
}
