/* src/llm/serve/replay.c - answers that come back in a talk, as the tokens that were sampled
 *
 * A model may say a text in other tokens than the encoder would choose. If the text of such an answer were encoded
 * again in the next turn, the model would read what it never said, and keys and values would be computed again from the
 * first token that differs.
 *
 * So the text of a talk up to the end of an answer is kept with its tokens: those of the prompt, then those that were
 * sampled. A prompt that begins with such a text gets these tokens, and only the rest is encoded. The longest text
 * counts, and of two answers with the same text the later one. Texts are compared byte by byte. So many talks and so
 * many bytes are kept, the last used ones, which also bounds the time of a search. */
#include "llm/serve/api_inside.h"
#include <string.h>

static size_t tinyi_replay_size(size_t n, size_t n_tokens) { return n_tokens * sizeof(int32_t) + n; }

static void tinyi_replay_drop(tllm_api *a, int i)
{
    a->replay_bytes -= tinyi_replay_size(a->replay[i].n, a->replay[i].n_tokens);
    tiny_free(a->ctx, a->replay[i].token);
    a->n_replays--;
    memmove(&a->replay[i], &a->replay[i + 1], (size_t)(a->n_replays - i) * sizeof *a->replay);
}

static void tinyi_replay_first(tllm_api *a, int i)
{
    const tinyi_replay r = a->replay[i];
    memmove(&a->replay[1], &a->replay[0], (size_t)i * sizeof *a->replay);
    a->replay[0] = r;
}

void tinyi_replay_close(tllm_api *a)
{
    while (a->n_replays) tinyi_replay_drop(a, a->n_replays - 1);
}

const tinyi_replay *tinyi_replay_find(tllm_api *a, const char *text, size_t n)
{
    int i, best = -1;
    for (i = 0; i < a->n_replays; i++) {
        const tinyi_replay *r = &a->replay[i];
        if (r->n <= n && (best < 0 || r->n > a->replay[best].n) && !memcmp(r->text, text, r->n)) best = i;
    }
    if (best < 0) return NULL;
    tinyi_replay_first(a, best);
    return &a->replay[0];
}

void tinyi_replay_add(tinyi_choice *c)
{
    const tinyi_job *j = c->job;
    tllm_api *a = j->api;
    tinyi_replay r;
    size_t bytes;
    int i;
    r.n = j->n_talk + c->text.n;
    r.n_tokens = j->asked.n + c->made.n;
    bytes = tinyi_replay_size(r.n, r.n_tokens);
    if (!c->text.n || bytes > TINYI_REPLAY_BYTES / 4) return;
    r.token = (int32_t *)tiny_alloc(a->ctx, bytes);
    if (!r.token) return;                   /* it will be encoded again */
    memcpy(r.token, j->asked.id, j->asked.n * sizeof *r.token);
    if (c->made.n) memcpy(r.token + j->asked.n, c->made.id, c->made.n * sizeof *r.token);
    r.text = (char *)(r.token + r.n_tokens);
    memcpy(r.text, j->talk, j->n_talk);
    memcpy(r.text + j->n_talk, c->text.at, c->text.n);
    for (i = a->n_replays - 1; i >= 0; i--)
        if (a->replay[i].n == r.n && !memcmp(a->replay[i].text, r.text, r.n)) tinyi_replay_drop(a, i);
    while (a->n_replays == TINYI_REPLAYS || (a->n_replays && a->replay_bytes + bytes > TINYI_REPLAY_BYTES))
        tinyi_replay_drop(a, a->n_replays - 1);
    a->replay[a->n_replays++] = r;
    a->replay_bytes += bytes;
    tinyi_replay_first(a, a->n_replays - 1);
}
