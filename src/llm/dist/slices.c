/* src/llm/dist/slices.c - slices of a model file over the wire
 * Paper    Z. Li et al., "TPI-LLM", 2024 (arXiv 2410.00531), 3: workers get their slices of the weights from the
 *          master.
 * Protocol a rank asks, rank 0 answers. A question has 48 bytes: kind, number of a tensor, digest. An answer has 320:
 *            0 status (4)  4 number of ranges (4)  8 bytes that follow (8)  16 SHA-256 of the ranges and these (32)
 *            48 size of the file (8)  56 tensors (8)  64 eight ranges: place in the file, rows, bytes of a row, step
 *          and the bytes follow in pieces of 256 KiB.
 *            HAVE    the rank has a file with this digest, and needs nothing: is it the same model?
 *            ABOUT   the sizes; in place of range 0, the digest of the model
 *            HEADER  what is before the first tensor
 *            DATA    the part of a tensor for the rank that asks
 *            DONE    nothing more; there is no answer
 *          When all ranks are done, rank 0 sends 48 bytes to each: so no rank waits in a later call, with a time-out of
 *          its own, for one that still loads.
 * Parts    rows are one range, columns have a row in each row of the tensor; fused matrices are two or three. What is
 *          not cut is whole, except for an output matrix, which rank 0 alone reads. Of every tensor, the 64 bytes at
 *          four places that tinyi_lm_model_print reads are sent too.
 * Left out safetensors and files in several parts; encryption (docs/guide/cluster.md). */
#include "llm/dist/slices.h"
#include "core/sha256.h"
#include "core/time.h"
#include "llm/dist/lead.h"
#include "llm/model/model_inside.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_SLICE_HAVE = 1, TINYI_SLICE_ABOUT, TINYI_SLICE_HEADER, TINYI_SLICE_DATA, TINYI_SLICE_DONE };
enum { TINYI_SLICE_ASK = 48, TINYI_SLICE_SAY = 320, TINYI_SLICE_RANGES = 8, TINYI_SLICE_TAG = 253 };
#define TINYI_SLICE_PIECE ((size_t)1 << 18)
#define TINYI_SLICE_HEADER_MOST ((uint64_t)1 << 32)     /* bytes of a header */

typedef struct tinyi_slice_range { uint64_t at, rows, bytes, step; } tinyi_slice_range;

typedef struct tinyi_slices {
    tiny_ctx *ctx;
    const tllm_slices_desc *d;
    tiny_net *net;
    uint64_t tag, timeout;
    unsigned char *piece;
    unsigned char ask[TINYI_SLICE_ASK], say[TINYI_SLICE_SAY];
    tllm_slices_about about;
} tinyi_slices;

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_slices_cancelled(tinyi_slices *s)
{
    if (!s->ctx->desc.cancel || !s->ctx->desc.cancel(s->ctx->desc.user)) return TINY_OK;
    return tinyi_fail(s->ctx, TINY_E_CANCELLED, "the cancel callback asked to stop the transfer of slices");
}

static void tinyi_slices_message(const tinyi_slices *s, tiny_message *m, void *data, size_t n)
{
    memset(m, 0, sizeof *m);
    m->tag = s->tag;
    m->data = data;
    m->n = n;
}

/* a whole message to or from a rank */
static tiny_status tinyi_slices_move(tinyi_slices *s, int sends, int rank, void *data, size_t n)
{
    uint64_t end = tiny_now_ns() + s->timeout;
    size_t done = 0;
    tiny_message m;
    tinyi_slices_message(s, &m, data, n);
    for (;;) {
        const uint64_t seen = s->net->changes(s->net);
        tiny_status st = sends ? s->net->send(s->net, rank, &m) : s->net->recv(s->net, rank, &m);
        uint64_t now;
        if (st) return tinyi_fail(s->ctx, st, "%s", s->net->says);
        if (m.whole) return TINY_OK;
        st = tinyi_slices_cancelled(s);
        if (st) return st;
        now = tiny_now_ns();
        if (m.done > done) {
            done = m.done;
            end = now + s->timeout;
        }
        if (now >= end) {
            s->net->gone = rank + 1;
            return tinyi_fail(s->ctx, TINY_E_TIMEOUT, "rank %d has not moved a slice for %.3g s", rank,
                              1e-9 * (double)s->timeout);
        }
        s->net->pause(s->net, seen, TINYI_MIN(end, now + 100000000));
    }
}

static tiny_status tinyi_slices_begin(tinyi_slices *s, tiny_ctx *ctx, const tllm_slices_desc *desc, const char *call)
{
    tiny_status st = tinyi_ctx_check(ctx);
    memset(s, 0, sizeof *s);
    if (st) return st;
    if (!desc || !desc->net || desc->net->world < 1 || desc->net->world > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s needs the net of a rank", call);
    if (desc->file && (tllm_gguf_n_parts(desc->file) != 1 || !tllm_gguf_version(desc->file)))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: slices are sent of a single GGUF file only",
                          tllm_gguf_path(desc->file, 0));
    s->ctx = ctx;
    s->d = desc;
    s->net = desc->net;
    s->tag = s->net->calls++ << 16 | TINYI_SLICE_TAG;
    s->timeout = desc->timeout_ns ? TINYI_MIN(desc->timeout_ns, UINT64_MAX / 2) : UINT64_C(60000000000);
    s->piece = (unsigned char *)tinyi_alloc(ctx, TINYI_SLICE_PIECE, 1);
    return s->piece ? TINY_OK : tiny_ctx_status(ctx);
}
/* a failure ends the group */
static tiny_status tinyi_slices_end(tinyi_slices *s, tiny_status st, tllm_slices_about *about)
{
    if (s->ctx) tiny_free(s->ctx, s->piece);
    if (st) (void)tinyi_net_end(s->ctx, s->net, st);
    if (about) *about = s->about;
    return st;
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

/* what a rank needs of a tensor; m: cut for it */
static int tinyi_slices_ranges(const tllm_model *m, size_t tensor, tinyi_slice_range r[TINYI_SLICE_RANGES])
{
    static const int cut[] = { TINYI_T_ATTN_Q, TINYI_T_ATTN_K, TINYI_T_ATTN_V, TINYI_T_ATTN_GATE, TINYI_T_ATTN_OUT,
                               TINYI_T_FFN_GATE, TINYI_T_FFN_UP, TINYI_T_FFN_DOWN };
    const tllm_gguf_tensor *t = tllm_gguf_tensor_at(m->file, tensor);
    const uint64_t at = tllm_gguf_offset(m->file, t);
    tiny_idx l;
    size_t k;
    int n = 0;
    for (l = 0; l < m->n_once && !n; l++)
        for (k = 0; k < sizeof cut / sizeof cut[0] && n < TINYI_SLICE_RANGES - 4; k++) {
            const tinyi_lm_w *w = m->layer[l].w[cut[k]];
            if (!w || w->t == t || w->t->name.at != t->name.at) continue;       /* not a view of this tensor */
            r[n].at = at + (uint64_t)(w->t->data - t->data);
            r[n].rows = (uint64_t)w->n_out;
            r[n].bytes = w->row_bytes;
            r[n++].step = w->row_step;
        }
    if (!n && !(m->output_w && m->output_w->t == t && m->output_w != m->top.w[TINYI_T_TOKEN_EMBD])) {
        r[n].at = at;
        r[n].rows = 1;
        r[n].bytes = r[n].step = t->bytes;
        n++;
    }
    for (k = 0; k < 4; k++) {
        const size_t some = TINYI_MIN(t->bytes, 64);
        r[n].at = at + (t->bytes - some) / 3 * k;
        r[n].rows = 1;
        r[n].bytes = r[n].step = some;
        n++;
    }
    return n;
}

static void tinyi_slices_put(unsigned char *p, const tinyi_slice_range *r)
{
    tinyi_put_le(p, r->at, 8);
    tinyi_put_le(p + 8, r->rows, 8);
    tinyi_put_le(p + 16, r->bytes, 8);
    tinyi_put_le(p + 24, r->step, 8);
}

/* Each byte of the ranges in order: hashed, or sent in pieces to a rank. */
static tiny_status tinyi_slices_send(tinyi_slices *s, int rank, const unsigned char *base, const tinyi_slice_range *r,
                                     int n, tiny_sha256 *h)
{
    size_t held = 0;
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < n && !st; i++) {
        uint64_t row;
        for (row = 0; row < r[i].rows && !st; row++) {
            const unsigned char *from = base + r[i].at + row * r[i].step;
            size_t left = (size_t)r[i].bytes;
            if (h) { tiny_sha256_add(h, from, left); continue; }
            while (left && !st) {
                const size_t k = TINYI_MIN(left, TINYI_SLICE_PIECE - held);
                memcpy(s->piece + held, from, k);
                from += k;
                left -= k;
                held += k;
                if (held < TINYI_SLICE_PIECE) continue;
                st = tinyi_slices_move(s, 1, rank, s->piece, held);
                held = 0;
            }
        }
    }
    if (held && !st) st = tinyi_slices_move(s, 1, rank, s->piece, held);
    return st;
}

/* the first byte that belongs to a tensor */
static uint64_t tinyi_slices_header(const tllm_gguf *g)
{
    uint64_t at = tllm_gguf_bytes(g, 0);
    size_t i;
    for (i = 0; i < tllm_gguf_n_tensors(g); i++)
        at = TINYI_MIN(at, (uint64_t)tllm_gguf_offset(g, tllm_gguf_tensor_at(g, i)));
    return at;
}

/* the answer to a question of a rank. *over: it has no further one */
static tiny_status tinyi_slices_answer(tinyi_slices *s, int rank, const unsigned char *ask, tllm_model **model,
                                       int *over)
{
    const tllm_gguf *g = s->d->file;
    const tllm_gguf_tensor *first = tllm_gguf_tensor_at(g, 0);
    const unsigned char *base = first->data - tllm_gguf_offset(g, first);
    const uint32_t kind = tinyi_le32(ask), tensor = tinyi_le32(ask + 4);
    tinyi_slice_range r[TINYI_SLICE_RANGES];
    unsigned char digest[32];
    uint64_t bytes = 0;
    tiny_sha256 h;
    tiny_status st = TINY_OK;
    int n = 0, i;
    memset(s->say, 0, sizeof s->say);
    memset(r, 0, sizeof r);
    tinyi_put_le(s->say + 48, tllm_gguf_bytes(g, 0), 8);
    tinyi_put_le(s->say + 56, tllm_gguf_n_tensors(g), 8);
    if (kind == TINYI_SLICE_DONE) { *over = 1; return TINY_OK; }
    if (kind == TINYI_SLICE_HAVE) {
        tllm_file_digest(g, digest);
        *over = 1;
        if (tiny_same_secret(ask + 8, digest, 32)) return tinyi_slices_move(s, 1, rank, s->say, sizeof s->say);
        tinyi_put_le32(s->say, 1);
        (void)tinyi_slices_move(s, 1, rank, s->say, sizeof s->say);
        s->net->gone = rank + 1;
        return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "rank %d has another model than %s", rank, tllm_gguf_path(g, 0));
    }
    if (kind == TINYI_SLICE_ABOUT) tllm_file_digest(g, s->say + 64);
    else if (kind == TINYI_SLICE_HEADER) {
        r[0].bytes = r[0].step = tinyi_slices_header(g);
        r[0].rows = 1;
        n = 1;
    } else if (kind == TINYI_SLICE_DATA && tensor < tllm_gguf_n_tensors(g)) {
        if (!*model) {
            st = tllm_model_open(s->ctx, g, model);
            if (!st) st = tllm_model_cut_by(s->ctx, *model, rank, s->net->world, s->d->share);
            if (st) return st;
        }
        n = tinyi_slices_ranges(*model, tensor, r);
        for (i = 0; i < n; i++) tinyi_slices_put(s->say + 64 + 32 * i, &r[i]);
    } else {
        s->net->gone = rank + 1;
        return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "rank %d asks for slice %u of %zu tensors, with question %u", rank,
                          (unsigned)tensor, tllm_gguf_n_tensors(g), (unsigned)kind);
    }
    for (i = 0; i < n; i++) bytes += r[i].rows * r[i].bytes;
    tiny_sha256_start(&h);
    if (kind == TINYI_SLICE_DATA) tiny_sha256_add(&h, s->say + 64, 32 * TINYI_SLICE_RANGES);
    (void)tinyi_slices_send(s, rank, base, r, n, &h);
    tinyi_put_le32(s->say + 4, (uint32_t)n);
    tinyi_put_le(s->say + 8, bytes, 8);
    tiny_sha256_end(&h, s->say + 16);
    st = tinyi_slices_move(s, 1, rank, s->say, sizeof s->say);
    if (!st) st = tinyi_slices_send(s, rank, base, r, n, NULL);
    s->about.bytes += bytes;
    return st;
}

TINY_API tiny_status tllm_slices_serve(tiny_ctx *ctx, const tllm_slices_desc *desc, tllm_slices_about *about)
{
    tllm_model *model[TINY_NET_RANKS];
    unsigned char ask[TINY_NET_RANKS][TINYI_SLICE_ASK];
    tiny_message m[TINY_NET_RANKS];
    char over[TINY_NET_RANKS] = { 0 };
    tinyi_slices s;
    uint64_t end;
    int left, r;
    tiny_status st = tinyi_slices_begin(&s, ctx, desc, "tllm_slices_serve");
    memset(model, 0, sizeof model);
    if (!st && (desc->net->rank || !desc->file))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_slices_serve is called by rank 0, which has the file");
    if (st) return tinyi_slices_end(&s, st, about);
    left = desc->net->world - 1;
    for (r = 1; r <= left; r++) tinyi_slices_message(&s, &m[r], ask[r], sizeof ask[r]);
    end = tiny_now_ns() + s.timeout;
    while (left && !st) {
        const uint64_t seen = s.net->changes(s.net);
        int some = 0;
        for (r = 1; r < s.net->world && !st; r++) {
            int ended = 0;
            if (over[r]) continue;
            st = s.net->recv(s.net, r, &m[r]);
            if (st) st = tinyi_fail(ctx, st, "%s", s.net->says);
            if (st || !m[r].whole) continue;
            if (!model[r] && tinyi_le32(ask[r]) == TINYI_SLICE_HEADER) s.about.asked++;
            st = tinyi_slices_answer(&s, r, ask[r], &model[r], &ended);
            over[r] = (char)ended;
            left -= ended;
            some = 1;
            tinyi_slices_message(&s, &m[r], ask[r], sizeof ask[r]);
        }
        if (st || !left) break;
        if (!st) st = tinyi_slices_cancelled(&s);
        if (some) end = tiny_now_ns() + s.timeout;
        else if (!st && tiny_now_ns() >= end) {
            for (r = 1; over[r]; r++) {}
            s.net->gone = r + 1;
            st = tinyi_fail(ctx, TINY_E_TIMEOUT, "rank %d has not asked for a slice for %.3g s", r,
                            1e-9 * (double)s.timeout);
        } else if (!st) s.net->pause(s.net, seen, TINYI_MIN(end, tiny_now_ns() + 100000000));
    }
    for (r = 1; r < s.net->world && !st; r++) {
        memset(s.ask, 0, sizeof s.ask);
        st = tinyi_slices_move(&s, 1, r, s.ask, sizeof s.ask);
    }
    for (r = 0; r < TINY_NET_RANKS; r++) tllm_model_close(ctx, model[r]);
    return tinyi_slices_end(&s, st, about);
}

/* ---- the other ranks --------------------------------------------------------------------------------------------- */

/* asks, and takes the answer up to the bytes that follow */
static tiny_status tinyi_slices_ask(tinyi_slices *s, int kind, uint32_t tensor, const unsigned char *digest)
{
    tiny_status st;
    memset(s->ask, 0, sizeof s->ask);
    tinyi_put_le32(s->ask, (uint32_t)kind);
    tinyi_put_le32(s->ask + 4, tensor);
    if (digest) memcpy(s->ask + 8, digest, 32);
    st = tinyi_slices_move(s, 1, 0, s->ask, sizeof s->ask);
    if (st || kind == TINYI_SLICE_DONE) return st;
    st = tinyi_slices_move(s, 0, 0, s->say, sizeof s->say);
    if (!st && tinyi_le32(s->say))
        return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "rank 0 has another model than this rank");
    return st;
}

static tiny_status tinyi_slices_odd(tinyi_slices *s, const char *what)
{
    s->net->gone = 1;
    return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "rank 0 sent %s", what);
}

/* Takes the bytes of an answer into their places. They must lie within [from, to) of the file. */
static tiny_status tinyi_slices_take(tinyi_slices *s, tinyi_out *out, const tinyi_slice_range *r, int n, uint64_t from,
                                     uint64_t to)
{
    const uint64_t bytes = tinyi_le64(s->say + 8);
    unsigned char digest[32];
    uint64_t sum = 0, taken = 0;
    size_t held = 0, used = 0;
    tiny_sha256 h;
    tiny_status st = TINY_OK;
    int i;
    if (tinyi_le32(s->say + 4) != (uint32_t)n) return tinyi_slices_odd(s, "a slice with another number of ranges");
    for (i = 0; i < n; i++) {
        const uint64_t room = to - from;
        if (!r[i].rows || !r[i].bytes || r[i].at < from || r[i].at > to || r[i].bytes > room || r[i].step > room ||
            r[i].rows > room || r[i].bytes > r[i].step || (r[i].rows - 1) > (to - r[i].at) / r[i].step ||
            (r[i].rows - 1) * r[i].step > to - r[i].at - TINYI_MIN(r[i].bytes, to - r[i].at) ||
            r[i].bytes > to - r[i].at)
            return tinyi_slices_odd(s, "a slice that lies outside of the file");
        sum += r[i].rows * r[i].bytes;
        if (sum > bytes) break;
    }
    if (sum != bytes) return tinyi_slices_odd(s, "a slice of another length than that of its ranges");
    tiny_sha256_start(&h);
    if (from) tiny_sha256_add(&h, s->say + 64, 32 * TINYI_SLICE_RANGES);
    for (i = 0; i < n && !st; i++) {
        uint64_t row;
        for (row = 0; row < r[i].rows && !st; row++) {
            uint64_t left = r[i].bytes;
            if (r[i].step != r[i].bytes || !row) st = tinyi_out_seek(s->ctx, out, r[i].at + row * r[i].step);
            while (left && !st) {
                size_t k;
                if (used == held) {
                    used = 0;
                    held = (size_t)TINYI_MIN(bytes - taken, (uint64_t)TINYI_SLICE_PIECE);
                    taken += held;
                    st = tinyi_slices_move(s, 0, 0, s->piece, held);
                    if (st) break;
                    tiny_sha256_add(&h, s->piece, held);
                }
                k = (size_t)TINYI_MIN(left, (uint64_t)(held - used));
                st = tinyi_out_add(s->ctx, out, s->piece + used, k);
                used += k;
                left -= k;
            }
        }
    }
    tiny_sha256_end(&h, digest);
    if (!st && !tiny_same_secret(digest, s->say + 16, 32))
        st = tinyi_slices_odd(s, "a slice whose SHA-256 is another");
    s->about.bytes += bytes;
    return st;
}

/* the name of the part: of the model, the rank and all shares */
static tiny_status tinyi_slices_name(tinyi_slices *s, const unsigned char model[32], char *path, size_t room)
{
    unsigned char digest[32], number[8];
    char hex[33];
    tiny_sha256 h;
    int i, n;
    tiny_sha256_start(&h);
    tiny_sha256_add(&h, "tinyllm slices 1", 16);
    tiny_sha256_add(&h, model, 32);
    tinyi_put_le32(number, (uint32_t)s->net->rank);
    tinyi_put_le32(number + 4, (uint32_t)s->net->world);
    tiny_sha256_add(&h, number, 8);
    for (i = 0; i < s->net->world; i++) {
        const double share = s->d->share ? s->d->share[i] : 1.0;
        uint64_t bits;
        memcpy(&bits, &share, 8);
        tinyi_put_le(number, bits, 8);
        tiny_sha256_add(&h, number, 8);
    }
    tiny_sha256_end(&h, digest);
    for (i = 0; i < 16; i++) (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    n = snprintf(path, room, "%s/slices-%s.gguf", s->d->folder, hex);
    if (n < 0 || (size_t)n >= room)
        return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "%s: the path of the slices has %d bytes, there is room for %zu",
                          s->d->folder, n, room);
    return TINY_OK;
}

/* is the part there, with the header of that model? */
static int tinyi_slices_kept(tinyi_slices *s, const char *path, const unsigned char model[32], uint64_t n_tensors)
{
    int same;
    unsigned char digest[32];
    tllm_gguf *g = NULL;
    tinyi_in in;
    memset(&in, 0, sizeof in);
    if (tinyi_in_open(s->ctx, path, &in)) return 0;
    tinyi_in_close(&in);
    if (tllm_gguf_open(s->ctx, path, &g)) return 0;
    tllm_file_digest(g, digest);
    same = tllm_gguf_n_tensors(g) == n_tensors && tiny_same_secret(digest, model, 32);
    tllm_gguf_close(s->ctx, g);
    return same;
}

static tiny_status tinyi_slices_load(tinyi_slices *s, char *path, size_t room)
{
    const tiny_ctx_desc *c = &s->ctx->desc;
    tinyi_slice_range r[TINYI_SLICE_RANGES];
    unsigned char model[32];
    uint64_t header, bytes, n_tensors, i;
    tinyi_out out;
    tiny_status st = tinyi_slices_ask(s, TINYI_SLICE_ABOUT, 0, NULL);
    memset(&out, 0, sizeof out);
    if (st) return st;
    bytes = tinyi_le64(s->say + 48);
    n_tensors = tinyi_le64(s->say + 56);
    memcpy(model, s->say + 64, 32);
    st = tinyi_slices_name(s, model, path, room);
    if (st) return st;
    if (tinyi_slices_kept(s, path, model, n_tensors)) return tinyi_slices_ask(s, TINYI_SLICE_HAVE, 0, model);
    if (s->d->most && bytes > s->d->most)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "rank 0 has a file of %llu bytes, and at most %llu are accepted",
                          (unsigned long long)bytes, (unsigned long long)s->d->most);
    s->about.asked = 1;
    st = tinyi_slices_ask(s, TINYI_SLICE_HEADER, 0, NULL);
    header = tinyi_le64(s->say + 8);
    if (!st && (!header || header > bytes || header > TINYI_SLICE_HEADER_MOST || n_tensors > header ||
                bytes > INT64_MAX))
        return tinyi_slices_odd(s, "a header that does not fit its file");
    memset(r, 0, sizeof r);
    r[0].rows = 1;
    r[0].bytes = r[0].step = header;
    if (!st) st = tinyi_out_open(s->ctx, path, &out);
    if (!st) st = tinyi_out_seek(s->ctx, &out, bytes - 1);      /* the file has its size */
    if (!st) st = tinyi_out_add(s->ctx, &out, "", 1);
    if (!st) st = tinyi_slices_take(s, &out, r, 1, 0, header);
    for (i = 0; i < n_tensors && !st; i++) {
        uint32_t n, k;
        if (c->progress) c->progress(c->user, "slices", (double)i / (double)n_tensors);
        st = tinyi_slices_cancelled(s);
        if (!st) st = tinyi_slices_ask(s, TINYI_SLICE_DATA, (uint32_t)i, NULL);
        if (st) break;
        n = tinyi_le32(s->say + 4);
        if (!n || n > TINYI_SLICE_RANGES) { st = tinyi_slices_odd(s, "a slice of no or too many ranges"); break; }
        for (k = 0; k < n; k++) {
            const unsigned char *p = s->say + 64 + 32 * k;
            r[k].at = tinyi_le64(p);
            r[k].rows = tinyi_le64(p + 8);
            r[k].bytes = tinyi_le64(p + 16);
            r[k].step = tinyi_le64(p + 24);
        }
        st = tinyi_slices_take(s, &out, r, (int)n, header, bytes);
    }
    if (!st) st = tinyi_slices_ask(s, TINYI_SLICE_DONE, 0, NULL);
    if (!st) st = tinyi_out_finish(s->ctx, &out);
    else tinyi_out_abandon(s->ctx, &out);
    if (!st && c->progress) c->progress(c->user, "slices", 1.0);
    if (!st && !tinyi_slices_kept(s, path, model, n_tensors)) {
        (void)remove(path);
        st = tinyi_slices_odd(s, "a header that is not that of its model");
    }
    return st;
}

TINY_API tiny_status tllm_slices_fetch(tiny_ctx *ctx, const tllm_slices_desc *desc, char *path, size_t room,
                                       tllm_slices_about *about)
{
    unsigned char model[32];
    tinyi_slices s;
    tiny_status st = tinyi_slices_begin(&s, ctx, desc, "tllm_slices_fetch");
    if (path && room) *path = 0;
    if (!st && (!desc->net->rank || !path || !room || (!desc->file && !desc->folder)))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_slices_fetch needs another rank than 0, room for a path, and a "
                        "file or a folder");
    if (!st && desc->file) {
        tllm_file_digest(desc->file, model);
        st = tinyi_slices_ask(&s, TINYI_SLICE_HAVE, 0, model);
    } else if (!st) st = tinyi_slices_load(&s, path, room);
    if (!st) {                              /* the other ranks may load for hours */
        s.timeout = UINT64_MAX / 2;
        st = tinyi_slices_move(&s, 0, 0, s.ask, sizeof s.ask);
    }
    return tinyi_slices_end(&s, st, about);
}
