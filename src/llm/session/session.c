/* src/llm/session/session.c - the loop around the model: feed, sample, print */
#include "llm/session/session_inside.h"
#include "llm/model/model_inside.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "math/elem.h"
#include <math.h>                           /* INFINITY; no function of it is called */
#include <string.h>

static double tinyi_session_clock(void) { return 1e-9 * (double)tiny_now_ns(); }

/* the file's model and vocabulary, and the description with its defaults filled in */
static tiny_status tinyi_session_model(tllm_session *s, const tllm_state_desc *desc, tllm_state_desc *full)
{
    tiny_status st = s->borrowed ? TINY_OK : tllm_model_open(s->ctx, s->file, &s->model);
    if (TINYI_HAS(RANKS) && !st && !s->borrowed && desc && desc->comm)
        st = tllm_model_cut(s->ctx, s->model, tiny_comm_rank(desc->comm), tiny_comm_world(desc->comm));
    if (!st) st = tllm_vocab_open(s->ctx, s->file, &s->vocab);
    if (st) return st;
    tllm_model_about(s->model, &s->about);
    memset(full, 0, sizeof *full);
    if (desc) *full = *desc;
    if (!full->n_ctx) full->n_ctx = TINYI_MIN(s->about.n_context, 4096);
    if (!full->n_batch) full->n_batch = s->about.is_encoder ? full->n_ctx : TINYI_MIN(full->n_ctx, 128);
    s->n_ctx = full->n_ctx;
    s->n_batch = full->n_batch;
    return TINY_OK;
}

static tiny_status tinyi_session_fill(tllm_session *s, const tllm_state_desc *desc)
{
    tiny_ctx *ctx = s->ctx;
    tllm_state_desc d;
    tiny_status st = tinyi_session_model(s, desc, &d);
    if (st) return st;
    st = tllm_state_open(ctx, s->model, &d, &s->state);
    if (st) return st;
    s->desc = d;
    s->token = (int32_t *)tinyi_alloc(ctx, (size_t)d.n_ctx, sizeof *s->token);
    s->spare = (int32_t *)tinyi_alloc(ctx, (size_t)d.n_ctx, sizeof *s->spare);
    if (s->about.output == TLLM_LOGITS)
        s->logits = (float *)tinyi_alloc(ctx, (size_t)s->about.n_vocab, sizeof *s->logits);
    return s->token && s->spare && (s->logits || s->about.output != TLLM_LOGITS) ? TINY_OK : tiny_ctx_status(ctx);
}

static tiny_status tinyi_session_open(tiny_ctx *ctx, const char *path, const void *bytes, size_t n_bytes,
                                      const tllm_state_desc *desc, tllm_session **out)
{
    tllm_session *s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_session_open: the result pointer is NULL");
    *out = NULL;
    s = (tllm_session *)tiny_alloc(ctx, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    st = path ? tllm_file_open(ctx, path, &s->file) : tllm_file_open_memory(ctx, bytes, n_bytes, &s->file);
    if (!st) st = tinyi_session_fill(s, desc);
    if (st) tllm_session_close(s);
    else *out = s;
    return st;
}

TINY_API tiny_status tllm_session_open(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc, tllm_session **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_session_open: the path is NULL");
    return tinyi_session_open(ctx, path, NULL, 0, desc, out);
}

TINY_API tiny_status tllm_session_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes,
                                              const tllm_state_desc *desc, tllm_session **out)
{
    if (out) *out = NULL;
    return tinyi_session_open(ctx, NULL, bytes, n_bytes, desc, out);
}

TINY_API tiny_status tllm_session_over(tiny_ctx *ctx, tllm_model *model, const tllm_state_desc *desc,
                                       tllm_session **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_session *s;
    if (out) *out = NULL;
    if (st) return st;
    if (!model || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_session_over: the model or the result pointer is NULL");
    s = (tllm_session *)tiny_alloc(ctx, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->model = model;
    s->file = (tllm_gguf *)(uintptr_t)model->file;          /* it is only read */
    s->borrowed = 1;
    st = tinyi_session_fill(s, desc);
    if (st) tllm_session_close(s);
    else *out = s;
    return st;
}

TINY_API tiny_status tllm_session_memory(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc, size_t *bytes)
{
    tllm_session s;
    tllm_state_desc d;
    size_t before, n = 0, state = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (bytes) *bytes = 0;
    if (!path || !bytes)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_session_memory: the %s is NULL",
                          path ? "result pointer" : "path");
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    before = tiny_ctx_bytes(ctx);
    st = tllm_file_open(ctx, path, &s.file);
    if (!st) st = tinyi_session_model(&s, desc, &d);
    if (!st) st = tllm_state_memory(ctx, s.model, &d, &state);
    if (!st) {
        /* tllm_state_memory has checked that n_ctx tokens do not overflow a size */
        n = tiny_ctx_bytes(ctx) - before + sizeof s + 2 * (size_t)d.n_ctx * sizeof *s.token;
        if (s.about.output == TLLM_LOGITS) n += (size_t)s.about.n_vocab * sizeof *s.logits;
        if (!tinyi_size_add(n, state, bytes))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the session is larger than this machine can address", path);
    }
    tllm_vocab_close(ctx, s.vocab);
    tllm_model_close(ctx, s.model);
    tllm_gguf_close(ctx, s.file);
    return st;
}

TINY_API void tllm_session_close(tllm_session *s)
{
    tiny_ctx *ctx;
    if (!s) return;
    ctx = s->ctx;
    tllm_state_close(ctx, s->state);
    if (TINYI_HAS(GRAMMAR)) tllm_pieces_close(ctx, s->pieces);
    tllm_vocab_close(ctx, s->vocab);
    if (!s->borrowed) tllm_model_close(ctx, s->model);
    tllm_gguf_close(ctx, s->view);
    if (!s->borrowed) tllm_gguf_close(ctx, s->file);
    tiny_free(ctx, s->token);
    tiny_free(ctx, s->spare);
    tiny_free(ctx, s->logits);
    tiny_free(ctx, s);
}

TINY_API const tllm_gguf *tllm_session_file(const tllm_session *s) { return s ? s->file : NULL; }
TINY_API const tllm_model *tllm_session_model(const tllm_session *s) { return s ? s->model : NULL; }
TINY_API const tllm_vocab *tllm_session_vocab(const tllm_session *s) { return s ? s->vocab : NULL; }
TINY_API tiny_idx tllm_session_context(const tllm_session *s) { return s ? s->n_ctx : 0; }
TINY_API const int32_t *tllm_session_tokens(const tllm_session *s, size_t *n)
{
    if (n) *n = s ? s->n : 0;
    return s ? s->token : NULL;
}

TINYI_FN tiny_status tinyi_session_text(const tllm_session *s, int logits)
{
    const char *gives;
    if (!s) return TINY_E_ARGUMENT;
    gives = s->about.output == TLLM_HIDDEN ? "embeddings" : "scores";
    if (s->about.is_encoder)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s is an encoder: it gives %s, not text", s->about.arch, gives);
    if (!logits || s->about.output == TLLM_LOGITS) return TINY_OK;
    return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "the file asks for pooling: this %s model gives %s, not text",
                      s->about.arch, gives);
}

TINY_API tiny_status tllm_session_feed(tllm_session *s, const int32_t *tokens, size_t n, const float **logits)
{
    size_t at, step;
    tiny_status st = tinyi_session_text(s, logits != NULL);
    if (logits) *logits = NULL;
    if (st) return st;
    if (n > (size_t)s->n_ctx - s->n)
        return tinyi_fail(s->ctx, TINY_E_WORKSPACE, "%zu tokens are held and %zu more do not fit into a context of %td",
                          s->n, n, s->n_ctx);
    if (n && !tokens) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the tokens to feed are NULL");
    for (at = 0; !st && at < n; at += step) {
        const int last = (step = TINYI_MIN(n - at, (size_t)s->n_batch)) == n - at;
        st = tllm_forward(s->state, tokens + at, (tiny_idx)step, (int64_t)s->n, last && logits ? 1 : 0,
                          last && logits ? s->logits : NULL);
        if (st) break;
        memmove(s->token + s->n, tokens + at, step * sizeof *tokens);
        s->n += step;
        if (n > (size_t)s->n_batch && s->ctx->desc.progress)
            s->ctx->desc.progress(s->ctx->desc.user, "reading the prompt", (double)(at + step) / (double)n);
    }
    if (st) s->n = (size_t)tllm_state_length(s->state);     /* less than before where a recurrent state was lost */
    else if (logits && n) *logits = s->logits;
    return st;
}

TINY_API tiny_status tllm_session_set(tllm_session *s, const int32_t *tokens, size_t n, const float **logits,
                                      size_t *reused)
{
    size_t same = 0;
    tiny_status st = tinyi_session_text(s, logits != NULL);
    if (reused) *reused = 0;
    if (logits) *logits = NULL;
    if (st) return st;
    if (n && !tokens) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the tokens to hold are NULL");
    while (same < n && same < s->n && tokens[same] == s->token[same]) same++;
    if (logits && n && same == n) same--;
    if (same < s->n) {
        if (s->about.is_recurrent) same = 0;
        if (same) {
            st = tllm_state_trim(s->state, (tiny_idx)same);
            if (st) return st;
        } else tllm_seq_clear(s->state, 0);     /* the other sequences are the caller's */
        s->n = same;
    }
    if (reused) *reused = same;
    return tllm_session_feed(s, n ? tokens + same : NULL, n - same, logits);
}

TINY_API tiny_status tllm_session_attach(tllm_session *s, const tllm_adapter *a, float weight)
{
    return s ? tllm_state_attach(s->state, a, weight) : TINY_E_ARGUMENT;
}

TINY_API tiny_status tllm_session_merge(tllm_session *s, const tllm_adapter *a, float weight, tiny_dtype dtype)
{
    const tiny_status st = s ? tllm_adapter_merge(s->ctx, s->model, a, weight, dtype) : TINY_E_ARGUMENT;
    if (st) return st;
    tllm_state_clear(s->state);             /* all sequences were computed with the weights before */
    s->n = 0;
    return TINY_OK;
}

TINY_API tiny_status tllm_session_repack(tllm_session *s, const tllm_repack_desc *desc, tllm_repacked *about)
{
    return s ? tllm_model_repack(s->ctx, s->model, desc, about) : TINY_E_ARGUMENT;
}
TINY_API tiny_status tllm_session_sparse(tllm_session *s, int format, size_t *bytes)
{
    return s ? tllm_model_sparse(s->ctx, s->model, format, bytes) : TINY_E_ARGUMENT;
}

TINY_API tllm_state *tllm_session_state(tllm_session *s) { return s ? s->state : NULL; }

TINY_API tiny_status tllm_session_trim(tllm_session *s, size_t n)
{
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (n > s->n)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%zu tokens cannot be kept: the session holds %zu", n, s->n);
    st = tllm_seq_trim(s->state, 0, (tiny_idx)n);
    if (!st) s->n = n;
    return st;
}

TINY_API tiny_status tllm_session_drop(tllm_session *s, size_t first, size_t n)
{
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (first > s->n || n > s->n - first)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%zu tokens from index %zu on cannot be dropped: the session holds %zu", n, first, s->n);
    st = tllm_seq_shift(s->state, 0, (tiny_idx)first, (tiny_idx)n);
    if (st) return st;
    memmove(s->token + first, s->token + first + n, (s->n - first - n) * sizeof *s->token);
    s->n -= n;
    return TINY_OK;
}

TINY_API tiny_status tllm_session_save(tllm_session *s, const char *path)
{
    void *bytes = NULL;
    size_t n = 0;
    tiny_status st = s ? tllm_state_pack(s->state, 0, s->token, (tiny_idx)s->n, &bytes, &n) : TINY_E_ARGUMENT;
    if (!s) return st;
    if (!st) st = tiny_file_write(s->ctx, path, bytes, n);
    tiny_free(s->ctx, bytes);
    return st;
}

TINY_API tiny_status tllm_session_load(tllm_session *s, const char *path)
{
    tiny_file f;
    tinyi_cursor c;
    const unsigned char *skip;
    tiny_idx n = 0;
    tiny_status st = s ? tiny_file_open(s->ctx, path, &f) : TINY_E_ARGUMENT;
    if (st) return st;
    st = tinyi_lm_saved_body(s->ctx, path, f.bytes, f.n_bytes, 1, &c);
    /* the file must have as many tokens as its sequence, at positions 0, 1, ...; otherwise nothing is changed */
    if (!st && tinyi_rd_bytes(&c, 44, &skip)) {
        uint64_t kept = 0, cells = 0;
        uint32_t last = 0;
        if (tinyi_rd_u64(&c, &kept) && kept <= (uint64_t)s->n_ctx && tinyi_rd_bytes(&c, (size_t)kept * 4, &skip) &&
            tinyi_rd_u64(&c, &cells) && cells <= (uint64_t)s->n_ctx) {
            if (cells && tinyi_rd_bytes(&c, ((size_t)cells - 1) * 4, &skip)) (void)tinyi_rd_u32(&c, &last);
            if (kept != cells || (cells && last != cells - 1))
                st = tinyi_fail(s->ctx, TINY_E_FORMAT,
                                "%s: the file has %llu tokens, but a sequence of %llu up to position %lu", path,
                                (unsigned long long)kept, (unsigned long long)cells, (unsigned long)last);
        }
    }
    if (!st) st = tllm_state_unpack(s->state, 0, f.bytes, f.n_bytes, s->spare, s->n_ctx, &n);
    if (!st && n != tllm_seq_length(s->state, 0)) {     /* a state that was saved without its text */
        st = tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: the file has %td tokens, but a sequence of %td", path, n,
                        tllm_seq_length(s->state, 0));
        tllm_seq_clear(s->state, 0);
        s->n = 0;
    } else if (!st) {
        memcpy(s->token, s->spare, (size_t)n * sizeof *s->token);
        s->n = (size_t)n;
    }
    tiny_file_close(s->ctx, &f);
    return st;
}

TINY_API tiny_status tllm_session_shift(tllm_session *s, size_t n_keep, const float **logits)
{
    size_t drop;
    const tiny_status st = tinyi_session_text(s, logits != NULL);
    if (logits) *logits = NULL;
    if (st) return st;
    n_keep = TINYI_MIN(n_keep, s->n);
    drop = (s->n - n_keep + 1) / 2;
    if (!drop)
        return tinyi_fail(s->ctx, TINY_E_WORKSPACE,
                          "all %zu tokens of the context are to be kept: there is nothing to drop", s->n);
    memcpy(s->spare, s->token, n_keep * sizeof *s->token);
    memcpy(s->spare + n_keep, s->token + n_keep + drop, (s->n - n_keep - drop) * sizeof *s->token);
    return tllm_session_set(s, s->spare, s->n - drop, logits, NULL);
}

/* The bytes that a token adds to a text under a grammar: none for ends, control tokens and unknown ones. */
static size_t tinyi_generate_piece(const tllm_session *s, int32_t token, char *piece)
{
    if (tllm_vocab_is_end(s->vocab, token) || tllm_vocab_type(s->vocab, token) == TLLM_TOKEN_CONTROL ||
        tllm_vocab_type(s->vocab, token) == TLLM_TOKEN_UNKNOWN)
        return 0;
    return tllm_piece(s->vocab, token, 0, piece, tllm_piece_most(s->vocab));
}

/* May the token come next? Ends may where the grammar may end; control tokens and empty pieces never. */
static tiny_status tinyi_generate_may(tllm_session *s, tinyi_generate *g, int32_t token, size_t *n, int *yes)
{
    *yes = 0;
    *n = tinyi_generate_piece(s, token, g->piece);
    if (*n) return tllm_grammar_accepts(s->ctx, g->state, g->piece, *n, yes);
    *yes = tllm_vocab_is_end(s->vocab, token) && tllm_grammar_may_end(g->state);
    return TINY_OK;
}

/* s->pieces: once for the session, when a model first leaves a grammar */
static tiny_status tinyi_generate_pieces(tllm_session *s, tinyi_generate *g)
{
    const size_t n = (size_t)s->about.n_vocab;
    uint32_t *end = (uint32_t *)tinyi_alloc(s->ctx, n, sizeof *end);
    char *bytes = NULL;
    size_t pass, i, at = 0;
    tiny_status st = end ? TINY_OK : tiny_ctx_status(s->ctx);
    for (pass = 0; pass < 2 && !st; pass++) {       /* counted, then written */
        if (pass && !(bytes = (char *)tinyi_alloc(s->ctx, at + 1, 1))) st = tiny_ctx_status(s->ctx);
        for (i = at = 0; i < n && !st; i++) {
            const size_t k = tinyi_generate_piece(s, (int32_t)i, g->piece);
            if (k > UINT32_MAX - at)
                st = tinyi_fail(s->ctx, TINY_E_OVERFLOW, "the pieces of the vocabulary are more than 4 GB");
            else if (pass && k) memcpy(bytes + at, g->piece, k);
            at += k;
            end[i] = (uint32_t)at;
        }
    }
    if (!st) st = tllm_pieces_open(s->ctx, bytes, end, n, &s->pieces);
    tiny_free(s->ctx, bytes);
    tiny_free(s->ctx, end);
    return st;
}

/* A free draw is tried first; if the grammar refuses it, a second draw is made among all allowed tokens. With A the
 * probability of all allowed tokens, an allowed token of probability p is drawn with p + (1 - A) p / A = p / A, as in a
 * draw among the allowed ones alone. The whole vocabulary is thus checked only when the model leaves the grammar. */
TINYI_FN tiny_status tinyi_generate_guided(tllm_session *s, tinyi_generate *g, const float *logits, int32_t *token)
{
    int32_t t;
    size_t n;
    int yes, any = 0;
    tiny_status st = tllm_sample(g->sampler, logits, token);
    if (!st) st = tinyi_generate_may(s, g, *token, &n, &yes);
    if (!st && !yes) {
        const int may_end = tllm_grammar_may_end(g->state);
        if (!s->pieces) st = tinyi_generate_pieces(s, g);
        if (!st) st = tllm_grammar_mask(s->ctx, g->state, s->pieces, g->may);
        for (t = 0; !st && t < (int32_t)s->about.n_vocab; t++) {
            yes = g->may[t] || (may_end && tllm_vocab_is_end(s->vocab, t));
            g->masked[t] = yes ? logits[t] : -INFINITY;
            any |= yes && logits[t] > -INFINITY;
        }
        if (!st && !any) {
            *token = -1;
            return TINY_OK;
        }
        if (!st) st = tllm_sample(g->sampler, g->masked, token);
        if (!st) st = tinyi_generate_may(s, g, *token, &n, &yes);
    }
    if (!st && !tllm_vocab_is_end(s->vocab, *token)) st = tllm_grammar_advance(s->ctx, g->state, g->piece, n);
    return st;
}

TINYI_FN tiny_status tinyi_generate_say(tllm_session *s, tinyi_generate *g, const tllm_generate_desc *d, int last,
                                        tllm_end *end, int *ended)
{
    size_t n = 0, more = 0;
    const size_t room = g->bytes.n + 2 * tllm_stop_held_most(g->stop) + 1;
    if (room > g->out_room) {
        char *out = (char *)tiny_alloc(s->ctx, 2 * room);
        if (!out) return tiny_ctx_status(s->ctx);
        tiny_free(s->ctx, g->out);
        g->out = out;
        g->out_room = 2 * room;
    }
    tllm_stop_feed(g->stop, g->bytes.at, g->bytes.n, g->out, &n, &g->found);
    if (last && !g->found) tllm_stop_flush(g->stop, g->out + n, &more);
    g->bytes.n = 0;
    n += more;
    if (g->found) {
        *end = TLLM_END_STRING;
        *ended = 1;
    }
    if (n && d->text && d->text(d->user, g->out, n) && !*ended) {
        *end = TLLM_END_CALLER;
        *ended = 1;
    }
    return TINY_OK;
}

static tiny_status tinyi_generate_loop(tllm_session *s, tinyi_generate *g, const tllm_generate_desc *d,
                                       const float *logits, tllm_generate_result *r)
{
    tllm_stream stream = tllm_stream_start(s->vocab, d->special ? TLLM_DECODE_SPECIAL : 0);
    const double start = tinyi_session_clock();
    tiny_status st = TINY_OK;
    int ended = 0;
    stream.bare = 0;
    r->end = TLLM_END_LENGTH;
    while (!st && !ended && (!d->n_most || r->n_made < d->n_most)) {
        int32_t token;
        st = TINYI_HAS(GRAMMAR) && g->state ? tinyi_generate_guided(s, g, logits, &token)
             : d->draft                     ? d->draft->sample(d->draft, g->sampler, logits, &token)
                                            : tllm_sample(g->sampler, logits, &token);
        if (st) break;
        if (token < 0) {
            r->end = TLLM_END_GRAMMAR;
            break;
        }
        if (tllm_vocab_is_end(s->vocab, token) && (!d->past_end || g->state)) {
            r->end = TLLM_END_TOKEN;
            break;
        }
        st = tllm_sampler_accept(g->sampler, token);
        if (!st) st = tllm_stream_next(s->ctx, &stream, token, &g->bytes);
        if (!st) st = tinyi_generate_say(s, g, d, 0, &r->end, &ended);
        r->n_made++;
        if (st) break;
        if (s->n == (size_t)s->n_ctx) {
            if (!d->shift) {
                r->end = TLLM_END_CONTEXT;
                break;
            }
            st = tllm_session_shift(s, d->keep, NULL);
            if (st) break;
        }
        if (d->draft) {
            const size_t left = d->n_most ? d->n_most - r->n_made : SIZE_MAX;
            st = d->draft->feed(d->draft, token, left ? left - 1 : 0, &logits);
        } else st = tllm_session_feed(s, &token, 1, &logits);
    }
    if (d->draft) {                         /* the session holds the text alone, also after a failure */
        const tiny_status settled = d->draft->settle(d->draft);
        if (!st) st = settled;
    }
    if (st == TINY_E_CANCELLED) {
        r->end = TLLM_END_CALLER;
        st = TINY_OK;
    }
    if (!st) st = tllm_stream_end(s->ctx, &stream, &g->bytes);
    /* a callback that asked to stop is not called again */
    if (!st && !ended) st = tinyi_generate_say(s, g, d, 1, &r->end, &ended);
    r->made_seconds = tinyi_session_clock() - start;
    return st;
}

TINY_API tiny_status tllm_generate_tokens(tllm_session *s, const int32_t *prompt, size_t n,
                                          const tllm_generate_desc *desc, tllm_generate_result *result)
{
    const tllm_step greedy = tllm_step_greedy();
    tllm_generate_desc d;
    tllm_generate_result r;
    tinyi_generate g;
    const float *logits = NULL;
    double start;
    size_t i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&r, 0, sizeof r);
    memset(&g, 0, sizeof g);
    if (result) *result = r;
    if (desc) d = *desc;
    if (!d.chain) {
        d.chain = &greedy;
        d.n_steps = 1;
    }
    st = tinyi_session_text(s, 1);
    if (st) return st;
    if (!n || !prompt) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the prompt has no tokens");
    st = tllm_sampler_open(s->ctx, d.chain, d.n_steps, (int32_t)s->about.n_vocab, d.seed, &g.sampler);
    if (!st) st = tllm_stop_open(s->ctx, d.stop, d.n_stop, &g.stop);
    if (!TINYI_HAS(GRAMMAR) && !st && d.grammar)
        st = tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "grammars are not compiled into this program");
    if (!st && d.draft) st = d.draft->begin(d.draft, s, d.chain, d.n_steps, d.seed, d.grammar != NULL);
    if (TINYI_HAS(GRAMMAR) && !st && d.grammar) {
        st = tllm_grammar_begin(s->ctx, d.grammar, &g.state);
        g.piece = (char *)tiny_alloc(s->ctx, tllm_piece_most(s->vocab));
        g.masked = (float *)tinyi_alloc(s->ctx, (size_t)s->about.n_vocab, sizeof *g.masked);
        g.may = (unsigned char *)tinyi_alloc(s->ctx, (size_t)s->about.n_vocab, 1);
        if (!st && (!g.piece || !g.masked || !g.may)) st = tiny_ctx_status(s->ctx);
    }
    for (i = 0; !st && i < n; i++) st = tllm_sampler_accept(g.sampler, prompt[i]);
    r.n_prompt = n;
    start = tinyi_session_clock();
    if (TINYI_HAS(ENCODERS) && !st && s->about.has_decoder) {
        const int32_t first = (int32_t)s->about.first_token;
        if (first < 0)
            st = tinyi_fail(s->ctx, TINY_E_FORMAT, "the file does not name the token that a decoder starts with");
        if (!st) st = tllm_forward_all(s->state, prompt, (tiny_idx)n, NULL);
        s->n = 0;
        if (!st) st = tllm_session_feed(s, &first, 1, &logits);
    } else if (!st) st = tllm_session_set(s, prompt, n, &logits, &r.n_reused);
    r.prompt_seconds = tinyi_session_clock() - start;
    if (st == TINY_E_CANCELLED) {
        r.end = TLLM_END_CALLER;
        st = TINY_OK;
    } else if (!st) st = tinyi_generate_loop(s, &g, &d, logits, &r);
    tllm_sampler_close(g.sampler);
    tllm_stop_close(g.stop);
    tllm_bytes_free(s->ctx, &g.bytes);
    tiny_free(s->ctx, g.out);
    if (TINYI_HAS(GRAMMAR)) tllm_grammar_free(s->ctx, g.state);
    tiny_free(s->ctx, g.piece);
    tiny_free(s->ctx, g.masked);
    tiny_free(s->ctx, g.may);
    if (result) *result = r;
    return st;
}

TINY_API tiny_status tllm_generate(tllm_session *s, const char *prompt, size_t n, const tllm_generate_desc *desc,
                                   tllm_generate_result *result)
{
    tllm_tokens t;
    unsigned flags = desc && desc->plain ? 0u : desc && desc->encode ? desc->encode : (unsigned)TLLM_ENCODE_ENDS;
    tiny_status st = tinyi_session_text(s, 1);
    memset(&t, 0, sizeof t);
    if (result) memset(result, 0, sizeof *result);
    if (st) return st;
    st = tllm_encode(s->ctx, s->vocab, prompt, n, flags, &t);
    /* an end that the vocabulary adds would end the text before it begins */
    if (!st && !s->about.has_decoder && tllm_vocab_adds_eos(s->vocab) && t.n > 1 &&
        tllm_vocab_is_end(s->vocab, t.id[t.n - 1]))
        t.n--;
    if (!st && !t.n && tllm_vocab_special(s->vocab, TLLM_BOS) >= 0) {
        const int32_t bos = tllm_vocab_special(s->vocab, TLLM_BOS);
        st = tllm_generate_tokens(s, &bos, 1, desc, result);
    } else if (!st) st = tllm_generate_tokens(s, t.id, t.n, desc, result);
    tllm_tokens_free(s->ctx, &t);
    return st;
}

TINY_REF_BEGIN
/* rows (n, d) to one row of length 1: sums in double, in order */
static void tinyi_embed_pool(const float *rows, size_t n, size_t d, tllm_pooling pooling, float *out)
{
    double square = 0.0, scale;
    size_t i, j;
    for (j = 0; j < d; j++) {
        double sum = 0.0;
        if (pooling == TLLM_POOL_MEAN) {
            for (i = 0; i < n; i++) sum += (double)rows[i * d + j];
            sum /= (double)n;
        } else sum = (double)rows[(pooling == TLLM_POOL_LAST ? n - 1 : 0) * d + j];
        out[j] = (float)sum;
        square += sum * sum;
    }
    scale = square > 0.0 ? 1.0 / tinyi_sqrt(square) : 0.0;
    for (j = 0; j < d; j++) out[j] = (float)((double)out[j] * scale);
}
TINY_REF_END

TINY_API tiny_status tllm_embed(tllm_session *s, const char *text, size_t n, int pooling, float *out)
{
    tllm_tokens t;
    float *rows = NULL;
    tiny_status st;
    memset(&t, 0, sizeof t);
    if (!s) return TINY_E_ARGUMENT;
    if (!out || (n && !text))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "embed: the text or the result pointer is NULL");
    if (s->about.output != TLLM_HIDDEN)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s gives no hidden states: it is not an embedding model",
                          s->about.arch);
    if (pooling < 0) pooling = s->about.pooling == TLLM_POOL_NONE ? TLLM_POOL_MEAN : (int)s->about.pooling;
    if (pooling != TLLM_POOL_MEAN && pooling != TLLM_POOL_CLS && pooling != TLLM_POOL_LAST)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "embed: pooling %d is not mean, cls or last", pooling);
    st = tllm_encode(s->ctx, s->vocab, text, n, TLLM_ENCODE_ENDS, &t);
    if (!st && !t.n) st = tinyi_fail(s->ctx, TINY_E_ARGUMENT, "embed: the text has no tokens");
    if (!st && t.n > (size_t)s->n_ctx)
        st = tinyi_fail(s->ctx, TINY_E_WORKSPACE, "embed: the text has %zu tokens, but the context holds %td", t.n,
                        s->n_ctx);
    if (!st) {
        rows = (float *)tinyi_alloc(s->ctx, t.n * (size_t)s->about.n_out, sizeof *rows);
        st = rows ? tllm_forward_all(s->state, t.id, (tiny_idx)t.n, rows) : tiny_ctx_status(s->ctx);
    }
    if (!st) tinyi_embed_pool(rows, t.n, (size_t)s->about.n_out, (tllm_pooling)pooling, out);
    tiny_free(s->ctx, rows);
    tllm_tokens_free(s->ctx, &t);
    s->n = 0;
    return st;
}

TINY_API tiny_status tllm_rank(tllm_session *s, const char *query, size_t n_query, const char *text, size_t n,
                               float *out)
{
    tllm_tokens t, u;
    int32_t sep;
    size_t k;
    tiny_status st;
    memset(&t, 0, sizeof t);
    memset(&u, 0, sizeof u);
    if (!s) return TINY_E_ARGUMENT;
    if (!out || (n && !text) || (n_query && !query))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "rank: a text or the result pointer is NULL");
    if (s->about.output != TLLM_RANK)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s has no head that ranks texts", s->about.arch);
    st = tllm_encode(s->ctx, s->vocab, query, n_query, TLLM_ENCODE_ENDS, &t);
    if (!st) st = tllm_encode(s->ctx, s->vocab, text, n, TLLM_ENCODE_ENDS, &u);
    if (!st && t.n + u.n + 1 > (size_t)s->n_ctx)
        st = tinyi_fail(s->ctx, TINY_E_WORKSPACE, "rank: both texts have %zu tokens, but the context holds %td",
                        t.n + u.n, s->n_ctx);
    if (!st) {
        int32_t *id = (int32_t *)tinyi_alloc(s->ctx, t.n + u.n + 1, sizeof *id);
        if (!id) st = tiny_ctx_status(s->ctx);
        else {                              /* the text's own CLS becomes the second SEP, or goes */
            const int has_bos = tllm_vocab_adds_bos(s->vocab) && u.n;
            sep = tllm_vocab_special(s->vocab, TLLM_SEP);
            if (sep < 0) sep = tllm_vocab_special(s->vocab, TLLM_EOS);
            memcpy(id, t.id, t.n * sizeof *id);
            k = t.n;
            if (sep >= 0 && tllm_vocab_kind_of(s->vocab) != TLLM_VOCAB_WORDPIECE) id[k++] = sep;
            memcpy(id + k, u.id + has_bos, (u.n - (size_t)has_bos) * sizeof *id);
            k += u.n - (size_t)has_bos;
            st = k ? tllm_forward_all(s->state, id, (tiny_idx)k, out)
                   : tinyi_fail(s->ctx, TINY_E_ARGUMENT, "rank: the texts have no tokens");
            tiny_free(s->ctx, id);
        }
    }
    tllm_tokens_free(s->ctx, &t);
    tllm_tokens_free(s->ctx, &u);
    s->n = 0;
    return st;
}
