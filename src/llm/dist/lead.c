/* src/llm/dist/lead.c - commands of rank 0 as sums
 *
 * A command is a sum in which rank 0 gives kind, position, number of tokens, whether this is the last piece, and the
 * tokens (zeros where they are hidden), and each rank its own times; the others give zeros there. All of it is exact in
 * floats: tokens and positions are below 2^24. What a follower gets is checked as if it came from a file. */
#include "llm/dist/lead.h"
#include "core/bytes.h"
#include "core/sha256.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

enum { TINYI_LEAD_FORWARD = 1, TINYI_LEAD_STOP = 2, TINYI_LEAD_HEAD = 4, TINYI_LEAD_TIMES = 5 };
#define TINYI_LEAD_MOST 16777216            /* 2^24 */

struct tllm_lead {
    tiny_ctx *ctx;
    tiny_comm *comm;
    tllm_state *state;
    tllm_audit *audit;
    tiny_idx n_batch, n_vocab;
    int rank, world, hides;
    uint64_t n_tokens, waited;
    double compute_ms, wait_ms;             /* since the last command */
    uint64_t bytes, messages;               /* sent before the last command */
    float *sum;                             /* (HEAD + n_batch + TIMES * world) */
    size_t n_sum;
    int32_t *token;                         /* (n_batch) */
    int32_t *told;                          /* of rank 0: (n_ctx), the text so far */
    tiny_idx n_told, n_ctx;
    tllm_lead_rank of[TINY_NET_RANKS];
};

TINY_API size_t tllm_lead_most(const tllm_model *model, int world, tiny_idx n_batch)
{
    tllm_about about;
    size_t most;
    if (!model) return 0;
    tllm_model_about(model, &about);
    if (n_batch < 1) n_batch = 64;
    if (!tinyi_size_mul((size_t)n_batch, (size_t)about.n_embd, &most)) return SIZE_MAX;
    return TINYI_MAX(most, TINYI_LEAD_HEAD + (size_t)n_batch + TINYI_LEAD_TIMES * (size_t)TINYI_MAX(world, 1));
}

TINY_API tiny_status tllm_lead_open(tiny_ctx *ctx, const tllm_lead_desc *desc, tllm_lead **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_state_desc sd;
    tllm_about about;
    tllm_lead *l;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->model || !desc->comm)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_lead_open needs a model, a comm and an output pointer");
    tllm_model_about(desc->model, &about);
    if (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "a %s model does not predict its text", about.arch);
    if (desc->n_batch < 0 || desc->n_batch > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "n_batch %td must be 0 to 65536", desc->n_batch);
    l = (tllm_lead *)tinyi_alloc(ctx, 1, sizeof *l);
    if (!l) return tiny_ctx_status(ctx);
    memset(l, 0, sizeof *l);
    l->ctx = ctx;
    l->comm = desc->comm;
    l->audit = tiny_comm_rank(desc->comm) ? NULL : desc->audit;
    l->rank = tiny_comm_rank(desc->comm);
    l->world = tiny_comm_world(desc->comm);
    l->n_batch = desc->n_batch ? desc->n_batch : 64;
    l->n_vocab = about.n_vocab;
    l->n_sum = TINYI_LEAD_HEAD + (size_t)l->n_batch + TINYI_LEAD_TIMES * (size_t)l->world;
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = desc->n_ctx;
    sd.n_batch = l->n_batch;
    sd.type_k = desc->type_k;
    sd.type_v = desc->type_v;
    sd.comm = desc->comm;
    sd.hides_tokens = l->hides = desc->hides_tokens != 0;
    l->n_ctx = desc->n_ctx > 0 ? desc->n_ctx : TINYI_MAX(TINYI_MIN(about.n_context, 4096), 1);
    l->sum = (float *)tinyi_alloc(ctx, l->n_sum, sizeof *l->sum);
    l->token = l->sum ? (int32_t *)tinyi_alloc(ctx, (size_t)l->n_batch, sizeof *l->token) : NULL;
    if (l->token && !l->rank) l->told = (int32_t *)tinyi_alloc(ctx, (size_t)l->n_ctx, sizeof *l->told);
    if (!l->token || (!l->rank && !l->told)) st = tiny_ctx_status(ctx);
    if (!st) st = tllm_state_open(ctx, desc->model, &sd, &l->state);
    if (st) {
        tllm_lead_close(l);
        return st;
    }
    l->waited = tiny_comm_waited(l->comm);
    *out = l;
    return TINY_OK;
}

TINY_API void tllm_lead_close(tllm_lead *l)
{
    if (!l) return;
    tllm_state_close(l->ctx, l->state);
    tiny_free(l->ctx, l->told);
    tiny_free(l->ctx, l->token);
    tiny_free(l->ctx, l->sum);
    tiny_free(l->ctx, l);
}

/* the sum itself; rank 0 has filled in its part */
static tiny_status tinyi_lead_tell(tllm_lead *l)
{
    float *mine = l->sum + TINYI_LEAD_HEAD + l->n_batch + TINYI_LEAD_TIMES * l->rank;
    const tiny_net *net = tiny_comm_net(l->comm);
    uint64_t bytes = 0, messages = 0;
    tiny_status st;
    int r;
    for (r = 0; net->count && r < l->world; r++) {
        bytes += net->count[r].bytes_sent;
        messages += net->count[r].messages_sent;
    }
    mine[0] = (float)l->compute_ms;
    mine[1] = (float)l->wait_ms;
    mine[2] = (float)((double)tiny_ctx_bytes(l->ctx) * 1e-6);
    mine[3] = (float)((double)(bytes - l->bytes) * 1e-3);
    mine[4] = (float)(messages - l->messages);
    l->bytes = bytes;
    l->messages = messages;
    st = tiny_allreduce(l->comm, l->sum, l->n_sum, 250);
    l->waited = tiny_comm_waited(l->comm);  /* waiting for a command is not waiting for a sum */
    for (r = 0; r < l->world && !st; r++) {
        const float *t = l->sum + TINYI_LEAD_HEAD + l->n_batch + TINYI_LEAD_TIMES * r;
        l->of[r].compute_ms += (double)t[0];
        l->of[r].wait_ms += (double)t[1];
        l->of[r].memory_mb = (double)t[2];
        l->of[r].sent_kb += (double)t[3];
        l->of[r].messages += (double)t[4];
    }
    return st;
}

static tiny_status tinyi_lead_compute(tllm_lead *l, tiny_idx n, int64_t pos, int last, float *logits)
{
    const uint64_t from = tiny_now_ns();
    tiny_status st;
    double wait;
    if (l->audit) tinyi_audit_begin(l->audit, l->state);
    st = tllm_forward(l->state, l->token, n, pos, last, logits);
    if (l->audit && !st) {
        st = tinyi_audit_end(l->ctx, l->audit, l->state);
        if (st) tiny_comm_abort(l->comm);
    }
    wait = 1e-6 * (double)(tiny_comm_waited(l->comm) - l->waited);
    l->wait_ms = wait;
    l->compute_ms = 1e-6 * (double)(tiny_now_ns() - from) - wait;
    l->n_tokens += (uint64_t)n;
    return st;
}

TINY_API tiny_status tllm_lead_forward(tllm_lead *l, const int32_t *token, tiny_idx n, int64_t pos, float *logits)
{
    tiny_status st = TINY_OK;
    tiny_idx i;
    if (!l) return TINY_E_ARGUMENT;
    if (l->rank) return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "rank %d follows: only rank 0 leads", l->rank);
    if (!token || !logits || n < 1)
        return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "tllm_lead_forward needs tokens and room for their logits");
    if (pos < 0 || pos > TINYI_LEAD_MOST - n || l->n_vocab > TINYI_LEAD_MOST)
        return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "positions and tokens of a split model are below %d",
                          TINYI_LEAD_MOST);
    for (i = 0; i < n; i++)                 /* all of them, before the first piece is computed */
        if (token[i] < 0 || token[i] >= l->n_vocab)
            return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "token %d: the vocabulary has %td", (int)token[i], l->n_vocab);
    /* what is read again after a rank is lost; the state refuses what does not fit or does not follow */
    if (pos <= l->n_told && n <= l->n_ctx - (tiny_idx)pos) {
        memcpy(l->told + pos, token, (size_t)n * sizeof *token);
        l->n_told = (tiny_idx)pos + n;
    }
    while (n && !st) {
        const tiny_idx k = TINYI_MIN(n, l->n_batch);
        memset(l->sum, 0, l->n_sum * sizeof *l->sum);
        l->sum[0] = TINYI_LEAD_FORWARD;
        l->sum[1] = (float)pos;
        l->sum[2] = (float)k;
        l->sum[3] = (float)(k == n);
        for (i = 0; i < k; i++) {
            l->token[i] = token[i];
            if (!l->hides) l->sum[TINYI_LEAD_HEAD + i] = (float)token[i];
        }
        st = tinyi_lead_tell(l);
        if (!st) st = tinyi_lead_compute(l, k, pos, k == n, k == n ? logits : NULL);
        token += k;
        pos += k;
        n -= k;
    }
    return st;
}

TINY_API tiny_status tllm_lead_stop(tllm_lead *l)
{
    if (!l) return TINY_E_ARGUMENT;
    if (l->rank) return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "rank %d follows: only rank 0 leads", l->rank);
    memset(l->sum, 0, l->n_sum * sizeof *l->sum);
    l->sum[0] = TINYI_LEAD_STOP;
    return tinyi_lead_tell(l);
}

/* a whole number of a command; -1: it is none up to most */
static tiny_idx tinyi_lead_whole(float x, tiny_idx most)
{
    return x >= 0.0f && x <= (float)most && (float)(tiny_idx)x == x ? (tiny_idx)x : -1;
}

TINY_API tiny_status tllm_lead_follow(tllm_lead *l, int (*each)(void *user, tllm_lead *lead), void *user)
{
    tiny_status st = TINY_OK;
    if (!l) return TINY_E_ARGUMENT;
    if (!l->rank) return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "rank 0 leads: it cannot follow");
    for (;;) {
        tiny_idx kind, pos, n, last, i;
        memset(l->sum, 0, l->n_sum * sizeof *l->sum);
        st = tinyi_lead_tell(l);
        if (st) return st;
        kind = tinyi_lead_whole(l->sum[0], 2);
        pos = tinyi_lead_whole(l->sum[1], TINYI_LEAD_MOST);
        n = tinyi_lead_whole(l->sum[2], l->n_batch);
        last = tinyi_lead_whole(l->sum[3], 1);
        if (kind == TINYI_LEAD_STOP) return TINY_OK;
        for (i = 0; i < n && kind == TINYI_LEAD_FORWARD; i++) {
            const tiny_idx t = tinyi_lead_whole(l->sum[TINYI_LEAD_HEAD + i], l->n_vocab - 1);
            l->token[i] = (int32_t)t;
            if (t < 0) kind = -1;
        }
        if (kind != TINYI_LEAD_FORWARD || pos < 0 || n < 1 || last < 0) {
            tiny_comm_abort(l->comm);
            return tinyi_fail(l->ctx, TINY_E_PROTOCOL, "rank 0 sent a command that there is not");
        }
        st = tinyi_lead_compute(l, n, pos, (int)last, NULL);
        if (st) return st;
        if (each && each(user, l)) {
            tiny_comm_abort(l->comm);
            return tinyi_fail(l->ctx, TINY_E_CANCELLED, "rank %d was asked to stop", l->rank);
        }
    }
}

TINY_API const tllm_lead_rank *tllm_lead_times(const tllm_lead *l, int rank)
{
    return l && rank >= 0 && rank < l->world ? &l->of[rank] : NULL;
}
TINY_API const int32_t *tllm_lead_told(const tllm_lead *l, tiny_idx *n)
{
    if (n) *n = l ? l->n_told : 0;
    return l ? l->told : NULL;
}
TINY_API uint64_t tllm_lead_tokens(const tllm_lead *l) { return l ? l->n_tokens : 0; }

static void tinyi_digest_number(tiny_sha256 *h, uint64_t v)
{
    unsigned char p[8];
    tinyi_put_le(p, v, 8);
    tiny_sha256_add(h, p, 8);
}
static void tinyi_digest_text(tiny_sha256 *h, tllm_text t)
{
    tinyi_digest_number(h, t.n);
    tiny_sha256_add(h, t.at, t.n);
}

TINY_API void tllm_file_digest(const tllm_gguf *g, unsigned char digest[32])
{
    const tllm_meta *arch = g ? tllm_gguf_find(g, "general.architecture") : NULL;
    tllm_text name = { NULL, 0 };
    tiny_sha256 h;
    size_t i, k;
    int d;
    if (!digest) return;
    tiny_sha256_start(&h);
    tiny_sha256_add(&h, "tinyllm model 1", 15);
    if (arch) (void)tllm_meta_text(arch, 0, &name);
    tinyi_digest_text(&h, name);
    for (i = 0; g && i < tllm_gguf_n_meta(g); i++) {
        const tllm_meta *m = tllm_gguf_meta_at(g, i);
        if (m->key.n <= name.n || (name.n && memcmp(m->key.at, name.at, name.n)) || m->key.at[name.n] != '.') continue;
        tinyi_digest_text(&h, m->key);
        tinyi_digest_number(&h, (uint64_t)m->item_type);
        tinyi_digest_number(&h, m->count);
        for (k = 0; k < m->count; k++) {
            tllm_text text;
            if (m->item_type == TLLM_STRING && tllm_meta_text(m, k, &text)) tinyi_digest_text(&h, text);
        }
        if (m->item_type != TLLM_STRING) tiny_sha256_add(&h, m->at, m->count * tllm_value_bytes(m->item_type));
    }
    for (i = 0; g && i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        tinyi_digest_text(&h, t->name);
        tinyi_digest_number(&h, (uint64_t)t->type);
        tinyi_digest_number(&h, (uint64_t)t->rank);
        for (d = 0; d < t->rank; d++) tinyi_digest_number(&h, t->dim[d]);
    }
    for (i = 0; g && i < tllm_gguf_n_parts(g); i++) tinyi_digest_number(&h, tllm_gguf_bytes(g, i));
    tiny_sha256_end(&h, digest);
}
