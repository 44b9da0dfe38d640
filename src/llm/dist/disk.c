/* src/llm/dist/disk.c - a model whose matrices are read while it computes
 * Paper    Z. Li et al., "TPI-LLM", 2024 (arXiv 2410.00531): sliding window memory scheduler, block retention.
 * Blocks   attention and network of each layer in the order of use, then the output; their matrices lie one after the
 *          other, each at a multiple of 64 bytes. A model with tied embeddings reads its output matrix like any other.
 * Apart    the paper also moves the embedding through the window. Only the rows of the tokens are read here, so the
 *          peak of rank 0 is lower: the output block and what follows or precedes it.
 * Memory   a tensor that is no block (norms, biases, factors) is read once. The tensor of a block has the data NULL
 *          except between enter and leave.
 * Cut      of a model that is cut over ranks, rows are read at once and columns row by row, into rows without gaps. The
 *          block is released before the sum over ranks, which so overlaps with reading.
 * Left out advice to the system about a mapped file: owned buffers have an exact peak. */
#include "llm/dist/disk.h"
#include "llm/plan/slots.h"
#include "llm/file/store_inside.h"
#include "llm/model/model_inside.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_disk_part {            /* a matrix, or a rank's part of it */
    tllm_gguf_tensor *t;                    /* whose data is set while its block is there */
    uint64_t from;                          /* offset in the file */
    size_t at, rows, row_bytes, row_step;   /* at: in the block. In the file rows are row_step apart */
} tinyi_disk_part;
typedef struct tinyi_disk_block {
    size_t first, n;                        /* of the parts */
    uint64_t bytes;
    tiny_idx slot;                          /* its place in the cycle of the loader; -1: kept */
    unsigned char *kept;
} tinyi_disk_block;

struct tllm_disk {
    tiny_ctx *ctx;
    tllm_disk_desc d;
    tinyi_in in, ahead;                     /* of the caller's thread; of the loader's */
    char *path;
    tllm_gguf *g;
    tllm_model *m;
    uint64_t *offset;                       /* (n_tensors) in the file */
    unsigned char *fixed, *row;             /* tensors that are no blocks; a row of the embedding */
    tinyi_disk_part *part;                  /* (n_parts) */
    tinyi_disk_block *block;                /* (n_blocks) */
    size_t n_parts;
    tiny_idx n_blocks, n_slots, n_kept;
    int *of;                                /* (n_layer, 2), output: the block; -1: none; -2: on another rank */
    tiny_idx *cycle;                        /* (n_slots) the block */
    uint64_t *bytes;                        /* (n_slots) of them */
    tllm_loader *loader;                    /* NULL: all blocks are kept */
    tiny_idx entered;                       /* the block that is acquired; -1: none */
    uint64_t fixed_bytes, model_bytes, row_bytes;
};

/* ---- the head of the file ---------------------------------------------------------------------------------------- */

typedef struct tinyi_disk_head {
    tinyi_in *in;
    tiny_ctx *ctx;
    unsigned char *p;
    size_t n, room, at;
    int ends;
} tinyi_disk_head;

/* more bytes from `at` on are in memory, or the head ends here: what is wrong there is for the reader of GGUF to say */
static int tinyi_disk_more(tinyi_disk_head *h, uint64_t more)
{
    size_t n, want;
    if (h->ends || more > h->in->n_bytes - h->at) { h->ends = 1; return 0; }
    want = h->at + (size_t)more;
    while (h->n < want && !h->ends) {
        if (h->n == h->room) {
            const size_t room = (size_t)TINYI_MIN((uint64_t)h->room * 2, h->in->n_bytes);
            unsigned char *p = (unsigned char *)tinyi_alloc(h->ctx, room, 1);
            if (!p) { h->ends = 1; return 0; }
            memcpy(p, h->p, h->n);
            tiny_free(h->ctx, h->p);
            h->p = p;
            h->room = room;
        }
        if (tinyi_in_read(h->ctx, h->in, h->p + h->n, h->room - h->n, &n) || !n) h->ends = 1;
        else h->n += n;
    }
    return !h->ends;
}
static uint64_t tinyi_disk_number(tinyi_disk_head *h, size_t n)
{
    uint64_t v = 0;
    size_t i;
    if (!tinyi_disk_more(h, n)) return 0;
    for (i = 0; i < n; i++) v |= (uint64_t)h->p[h->at + i] << 8 * i;
    h->at += n;
    return v;
}
static void tinyi_disk_skip(tinyi_disk_head *h, uint64_t n)
{
    if (tinyi_disk_more(h, n)) h->at += (size_t)n;
}

/* Walks over keys and names to find where the data begins. Only lengths are read; all is checked by the reader of GGUF
 * afterwards, from the same bytes. */
static void tinyi_disk_walk(tinyi_disk_head *h)
{
    uint64_t n_tensors, n_meta, i, k;
    tinyi_disk_skip(h, 8);
    n_tensors = tinyi_disk_number(h, 8);
    n_meta = tinyi_disk_number(h, 8);
    for (i = 0; i < n_meta && !h->ends; i++) {
        uint64_t type, n = 1;
        tinyi_disk_skip(h, tinyi_disk_number(h, 8));
        type = tinyi_disk_number(h, 4);
        if (type == TLLM_ARRAY) {
            type = tinyi_disk_number(h, 4);
            n = tinyi_disk_number(h, 8);
        }
        if (type == TLLM_STRING) for (k = 0; k < n && !h->ends; k++) tinyi_disk_skip(h, tinyi_disk_number(h, 8));
        else if (type >= TLLM_VALUE_TYPES || !tllm_value_bytes((int)type) || n > h->in->n_bytes) h->ends = 1;
        else tinyi_disk_skip(h, n * tllm_value_bytes((int)type));
    }
    for (i = 0; i < n_tensors && !h->ends; i++) {
        tinyi_disk_skip(h, tinyi_disk_number(h, 8));
        k = tinyi_disk_number(h, 4);
        if (k > TLLM_MAX_RANK) h->ends = 1;
        else tinyi_disk_skip(h, 8 * k + 4 + 8);
    }
}

static tiny_status tinyi_disk_read_head(tllm_disk *q)
{
    tinyi_disk_head h;
    tiny_file file;
    tiny_status st;
    unsigned char *exact;
    memset(&h, 0, sizeof h);
    h.in = &q->in;
    h.ctx = q->ctx;
    h.room = (size_t)TINYI_MIN(q->in.n_bytes, 65536);
    h.p = (unsigned char *)tinyi_alloc(q->ctx, h.room + !h.room, 1);
    if (!h.p) return tiny_ctx_status(q->ctx);
    st = tinyi_in_read(q->ctx, &q->in, h.p, h.room, &h.n);
    if (!st) tinyi_disk_walk(&h);
    if (!st && h.ends) h.at = h.n;          /* whatever is wrong is in there */
    exact = st ? NULL : (unsigned char *)tinyi_alloc(q->ctx, h.at + !h.at, 1);
    if (exact) memcpy(exact, h.p, h.at);
    tiny_free(q->ctx, h.p);
    if (!exact) return tiny_ctx_status(q->ctx);
    file = tiny_file_memory(exact, h.at);
    file.owned = exact;
    return tinyi_gguf_build_head(q->ctx, q->path, 0, &file, (size_t)q->in.n_bytes, &q->g);
}

/* ---- which tensors ----------------------------------------------------------------------------------------------- */

static int tinyi_disk_ends_with(tllm_text name, size_t from, const char *s)
{
    return name.n - from == strlen(s) && !memcmp(name.at + from, s, name.n - from);
}
/* It is read through the window, or by rows. */
static int tinyi_disk_moves(tllm_text name)
{
    static const char *const part[] = { "attn_q.weight",        "attn_k.weight",      "attn_v.weight",
                                        "attn_qkv.weight",      "attn_output.weight", "ffn_gate.weight",
                                        "ffn_up.weight",        "ffn_down.weight",    "ffn_gate_exps.weight",
                                        "ffn_up_exps.weight",   "ffn_down_exps.weight", "ffn_gate_up_exps.weight" };
    size_t at = 4, i;
    if (tllm_text_is(name, "token_embd.weight") || tllm_text_is(name, "output.weight")) return 1;
    if (name.n < 6 || memcmp(name.at, "blk.", 4)) return 0;
    while (at < name.n && name.at[at] >= '0' && name.at[at] <= '9') at++;
    if (at == 4 || at == name.n || name.at[at] != '.') return 0;
    for (i = 0; i < TINYI_COUNT(part); i++) if (tinyi_disk_ends_with(name, at + 1, part[i])) return 1;
    return 0;
}
static size_t tinyi_disk_up(size_t n) { return (n + 63) & ~(size_t)63; }

/* ctx NULL: on the loader's thread. *n: bytes of the row that could not be read */
static tiny_status tinyi_disk_get(tiny_ctx *ctx, tinyi_in *in, const tinyi_disk_part *p, unsigned char *to, size_t *n)
{
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; i < p->rows && !st; i++) {
        *n = 0;
        st = tinyi_in_seek(ctx, in, p->from + (uint64_t)i * p->row_step);
        if (!st) st = tinyi_in_read(ctx, in, to + i * p->row_bytes, p->row_bytes, n);
        if (!st && *n < p->row_bytes) st = TINY_E_IO;
    }
    return st;
}
static tiny_status tinyi_disk_get_now(tllm_disk *q, const tinyi_disk_part *p, unsigned char *to)
{
    size_t n = 0;
    if (!tinyi_disk_get(q->ctx, &q->in, p, to, &n)) return TINY_OK;
    return tinyi_fail(q->ctx, TINY_E_IO, "%s: tensor %.*s cannot be read: %zu of %zu bytes", q->path,
                      (int)TINYI_MIN(p->t->name.n, 80), p->t->name.at, n, p->row_bytes);
}

/* offsets of all tensors; those that are no block are read */
static tiny_status tinyi_disk_fix(tllm_disk *q)
{
    size_t i, bytes = 0, at = 0;
    tiny_status st = TINY_OK;
    q->offset = (uint64_t *)tinyi_alloc(q->ctx, q->g->n_tensors, sizeof *q->offset);
    if (!q->offset) return tiny_ctx_status(q->ctx);
    for (i = 0; i < q->g->n_tensors; i++) {
        tllm_gguf_tensor *t = &q->g->tensor[i];
        q->offset[i] = (uint64_t)((uintptr_t)t->data - (uintptr_t)q->g->part[0].file.bytes);
        t->data = NULL;
        if (!tinyi_disk_moves(t->name)) bytes += tinyi_disk_up(t->bytes);
    }
    q->fixed = (unsigned char *)tinyi_alloc(q->ctx, bytes + !bytes, 1);
    if (!q->fixed) return tiny_ctx_status(q->ctx);
    q->fixed_bytes = bytes;
    for (i = 0; i < q->g->n_tensors && !st; i++) {
        tinyi_disk_part p;
        if (tinyi_disk_moves(q->g->tensor[i].name)) continue;
        p.t = &q->g->tensor[i];
        p.from = q->offset[i];
        p.at = at;
        p.rows = 1;
        p.row_bytes = p.row_step = p.t->bytes;
        st = tinyi_disk_get_now(q, &p, q->fixed + at);
        p.t->data = q->fixed + at;
        at += tinyi_disk_up(p.t->bytes);
    }
    return st;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* An address that matrices have while the model is cut: views then hold their offset. It is never read. */
#define TINYI_DISK_BASE ((uintptr_t)4096)
static void tinyi_disk_base(tllm_disk *q, int on)
{
    size_t i;
    for (i = 0; i < q->g->n_tensors; i++)
        if (tinyi_disk_moves(q->g->tensor[i].name))
            q->g->tensor[i].data = on ? (const unsigned char *)TINYI_DISK_BASE : NULL;
}

/* w: memory of the model, which nobody else has seen yet */
static void tinyi_disk_add(tllm_disk *q, tinyi_disk_block *b, tinyi_lm_w *w)
{
    tinyi_disk_part *p = &q->part[q->n_parts];
    tllm_gguf_tensor *t;
    size_t i = 0;
    if (!w || !w->t) return;
    while (i < q->g->n_tensors && q->g->tensor[i].name.at != w->t->name.at) i++;        /* a view has the same name */
    if (i == q->g->n_tensors || q->g->tensor[i].data) return;
    t = &q->g->tensor[i];
    p->at = (size_t)b->bytes;
    p->from = q->offset[i];
    p->rows = 1;
    p->row_bytes = p->row_step = t->bytes;
    p->t = t;
    if (w->t != t) {                        /* a rank's part: rows, or columns, which are then stored without gaps */
        p->t = (tllm_gguf_tensor *)(uintptr_t)w->t;
        p->from += (uint64_t)((uintptr_t)w->t->data - TINYI_DISK_BASE);
        p->t->data = NULL;
        p->row_bytes = p->row_step = (size_t)w->n_out * w->row_bytes;
        if (w->row_step != w->row_bytes) {
            p->rows = (size_t)w->n_out;
            p->row_bytes = w->row_bytes;
            p->row_step = w->row_step;
            w->row_step = w->row_bytes;
        }
    }
    q->n_parts++;
    b->n++;
    b->bytes += tinyi_disk_up(p->rows * p->row_bytes);
}

static tiny_status tinyi_disk_check(tllm_disk *q)
{
    const tllm_model *m = q->m;
    tiny_idx i;
    if (TINYI_LM_OUTPUT(m) != TLLM_LOGITS || TINYI_LM_ENCODER(m) || TINYI_LM_N_ENC(m) || m->n_once != m->n_layer ||
        TINYI_LM_SLICED(m) || m->n_ple > 0 || m->bank > 0 ||
        (m->block != TINYI_LM_PRE && m->block != TINYI_LM_PARALLEL && m->block != TINYI_LM_POST) ||
        TINYI_LM_ARCH(m)->block != m->block || TINYI_LM_ARCH(m)->ffn & (TINYI_LM_F_CHANNEL | TINYI_LM_F_SIDE_BY_SIDE))
        return tinyi_fail(q->ctx, TINY_E_UNSUPPORTED, "%s: models of the architecture %s cannot stay on disk", q->path,
                          TINYI_LM_ARCH(m)->name);
    for (i = 0; i < m->n_layer; i++)
        if (m->layer[i].mix != TINYI_LM_ATTN || m->layer[i].mix2 != TINYI_LM_NO_MIX || m->layer[i].cross)
            return tinyi_fail(q->ctx, TINY_E_UNSUPPORTED,
                              "%s: layer %td is not plain attention: the model cannot stay on disk", q->path, i);
    return TINY_OK;
}

static tiny_status tinyi_disk_blocks(tllm_disk *q)
{
    static const int attn[] = { TINYI_T_ATTN_QKV, TINYI_T_ATTN_Q, TINYI_T_ATTN_K, TINYI_T_ATTN_V, TINYI_T_ATTN_OUT };
    static const int ffn[] = { TINYI_T_FFN_GATE,  TINYI_T_FFN_UP,   TINYI_T_FFN_DOWN,   TINYI_T_GATE_EXPS,
                               TINYI_T_UP_EXPS,   TINYI_T_DOWN_EXPS, TINYI_T_GATE_UP_EXPS };
    const tllm_model *m = q->m;
    const size_t n = 2 * (size_t)m->n_layer + 1;
    tiny_idx i, own = 0;
    size_t k;
    int half;
    q->block = (tinyi_disk_block *)tinyi_alloc(q->ctx, n, sizeof *q->block);
    q->of = q->block ? (int *)tinyi_alloc(q->ctx, n, sizeof *q->of) : NULL;
    q->cycle = q->of ? (tiny_idx *)tinyi_alloc(q->ctx, n, sizeof *q->cycle) : NULL;
    q->part = q->cycle ? (tinyi_disk_part *)tinyi_alloc(q->ctx, q->g->n_tensors + 3 * (size_t)m->n_layer + 1,
                                                     sizeof *q->part) : NULL;
    if (!q->part) return tiny_ctx_status(q->ctx);
    memset(q->block, 0, n * sizeof *q->block);
    for (i = 0; i <= m->n_layer; i++) {
        const int ends = i == m->n_layer, ring = q->d.layers != NULL,
                  here = ends ? !q->d.no_output && (!ring || q->d.rank == 0)
                              : !ring || tllm_ring_owner(q->d.layers, q->d.world, i) == q->d.rank;
        for (half = 0; half < 2 - ends; half++) {
            tinyi_disk_block *b = &q->block[q->n_blocks];
            q->of[2 * i + half] = here ? -1 : -2;
            if (!here) continue;
            b->first = q->n_parts;
            for (k = 0; !ends && !half && k < TINYI_COUNT(attn); k++) 
                tinyi_disk_add(q, b, (tinyi_lm_w *)(uintptr_t)m->layer[i].w[attn[k]]);
            for (k = 0; !ends && half && k < TINYI_COUNT(ffn); k++) 
                tinyi_disk_add(q, b, (tinyi_lm_w *)(uintptr_t)m->layer[i].w[ffn[k]]);
            if (ends) tinyi_disk_add(q, b, (tinyi_lm_w *)(uintptr_t)m->output_w);
            q->model_bytes += b->bytes;
            if (!b->n) continue;            /* a layer without a network, or one that is in memory */
            b->slot = half && q->d.keep && own % q->d.keep == 0 ? -1 : q->n_slots;
            q->of[2 * i + half] = (int)q->n_blocks;
            if (b->slot >= 0) q->cycle[q->n_slots++] = q->n_blocks;
            q->n_blocks++;
        }
        own += here;
    }
    if (q->n_slots <= q->d.window)          /* all of it fits: read once */
        for (i = 0; i < q->n_blocks; i++) q->block[i].slot = -1;
    return TINY_OK;
}

static void tinyi_disk_show(const tllm_disk *q, const tinyi_disk_block *b, const unsigned char *data)
{
    size_t k;
    for (k = 0; k < b->n; k++) {
        const tinyi_disk_part *p = &q->part[b->first + k];
        p->t->data = data ? data + p->at : NULL;
    }
}

static tiny_status tinyi_disk_keep(tllm_disk *q)
{
    tiny_idx i;
    size_t k;
    tiny_status st = TINY_OK;
    for (i = 0; i < q->n_blocks && !st; i++) {
        tinyi_disk_block *b = &q->block[i];
        if (b->slot >= 0) continue;
        b->kept = (unsigned char *)tinyi_alloc(q->ctx, (size_t)b->bytes, 1);
        if (!b->kept) return tiny_ctx_status(q->ctx);
        for (k = 0; k < b->n && !st; k++)
            st = tinyi_disk_get_now(q, &q->part[b->first + k], b->kept + q->part[b->first + k].at);
        tinyi_disk_show(q, b, b->kept);
        q->fixed_bytes += b->bytes;
        q->n_kept++;
    }
    return st;
}

/* on the loader's thread: without the context, which belongs to the caller's */
static tiny_status tinyi_disk_load(void *user, tiny_idx slot, void *to, char says[TLLM_LOADER_SAYS])
{
    tllm_disk *q = (tllm_disk *)user;
    const tinyi_disk_block *b = &q->block[q->cycle[slot]];
    size_t k, n = 0;
    for (k = 0; k < b->n; k++) {
        const tinyi_disk_part *p = &q->part[b->first + k];
        if (tinyi_disk_get(NULL, &q->ahead, p, (unsigned char *)to + p->at, &n)) {
            (void)snprintf(says, TLLM_LOADER_SAYS, "%.100s: tensor %.*s cannot be read: %zu of %zu bytes", q->path,
                           (int)TINYI_MIN(p->t->name.n, 40), p->t->name.at, n, p->row_bytes);
            return TINY_E_IO;
        }
    }
    return TINY_OK;
}

/* ---- what is called ---------------------------------------------------------------------------------------------- */

static tiny_status tinyi_disk_fill(tllm_disk *q)
{
    tllm_loader_desc ld;
    tiny_idx i;
    tiny_status st = tinyi_in_open(q->ctx, q->path, &q->in);
    if (!st && !q->in.n_bytes)
        st = tinyi_fail(q->ctx, TINY_E_FORMAT, "%s: is empty or not a regular file: a model on disk must be one",
                        q->path);
    if (!st && q->in.n_bytes > SIZE_MAX / 2)
        st = tinyi_fail(q->ctx, TINY_E_OVERFLOW, "%s: is larger than this machine can address", q->path);
    if (!st) st = tinyi_disk_read_head(q);
    if (!st) st = tinyi_disk_fix(q);
    if (!st) st = tllm_model_open(q->ctx, q->g, &q->m);
    if (!st) st = tinyi_disk_check(q);
    if (!st && q->d.layers) st = tinyi_ring_check(q->ctx, q->path, q->m->n_layer, q->d.layers, q->d.rank, q->d.world);
    if (!st && !q->d.layers && q->d.world > 1) {
        tinyi_disk_base(q, 1);
        st = q->d.share ? tllm_model_cut_by(q->ctx, q->m, q->d.rank, q->d.world, q->d.share)
                        : tllm_model_cut(q->ctx, q->m, q->d.rank, q->d.world);
        tinyi_disk_base(q, 0);
    }
    if (!st) st = tinyi_disk_blocks(q);
    if (!st) st = tinyi_disk_keep(q);
    if (!st && q->m->top.w[TINYI_T_TOKEN_EMBD]) {
        q->row = (unsigned char *)tinyi_alloc(q->ctx, q->m->top.w[TINYI_T_TOKEN_EMBD]->row_bytes, 1);
        if (!q->row) st = tiny_ctx_status(q->ctx);
    }
    if (st) return st;
    q->m->disk = q;
    if (q->n_kept == q->n_blocks) return TINY_OK;
    st = tinyi_in_open(q->ctx, q->path, &q->ahead);
    if (st) return st;
    q->bytes = (uint64_t *)tinyi_alloc(q->ctx, (size_t)q->n_slots, sizeof *q->bytes);
    if (!q->bytes) return tiny_ctx_status(q->ctx);
    for (i = 0; i < q->n_slots; i++) q->bytes[i] = q->block[q->cycle[i]].bytes;
    memset(&ld, 0, sizeof ld);
    ld.n = q->n_slots;
    ld.bytes = q->bytes;
    ld.window = q->d.window;
    ld.read = tinyi_disk_load;
    ld.user = q;
    ld.bytes_per_second = q->d.bytes_per_second;
    ld.no_thread = q->d.no_thread;
    return tllm_loader_open(q->ctx, &ld, &q->loader);
}

TINY_API tiny_status tllm_disk_open(tiny_ctx *ctx, const tllm_disk_desc *desc, tllm_disk **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_disk *q;
    size_t n;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->path)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_disk_open needs a path and an output pointer");
    if (desc->window < 0 || desc->keep < 0 || !(desc->bytes_per_second >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: a window of %td blocks, every network of %td layers kept, %g bytes per second: none may "
                          "be negative", desc->path, desc->window, desc->keep, desc->bytes_per_second);
    if (ctx->desc.accel)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model that stays on disk cannot use an accelerator",
                          desc->path);
    q = (tllm_disk *)tinyi_alloc(ctx, 1, sizeof *q);
    if (!q) return tiny_ctx_status(ctx);
    memset(q, 0, sizeof *q);
    q->ctx = ctx;
    q->d = *desc;
    q->entered = -1;
    if (!q->d.window) q->d.window = 2;
    n = strlen(desc->path) + 1;
    q->path = (char *)tinyi_alloc(ctx, n, 1);
    if (!q->path) st = tiny_ctx_status(ctx);
    else memcpy(q->path, desc->path, n);
    if (!st) st = tinyi_disk_fill(q);
    q->d.layers = NULL;                     /* the caller's */
    q->d.share = NULL;
    q->d.path = q->path;
    if (st) tllm_disk_close(q);
    else *out = q;
    return st;
}

TINY_API void tllm_disk_close(tllm_disk *q)
{
    tiny_idx i;
    if (!q) return;
    tllm_loader_close(q->loader);
    tllm_model_close(q->ctx, q->m);
    tllm_gguf_close(q->ctx, q->g);
    for (i = 0; q->block && i < q->n_blocks; i++) tiny_free(q->ctx, q->block[i].kept);
    tinyi_in_close(&q->in);
    tinyi_in_close(&q->ahead);
    tiny_free(q->ctx, q->part);
    tiny_free(q->ctx, q->bytes);
    tiny_free(q->ctx, q->cycle);
    tiny_free(q->ctx, q->of);
    tiny_free(q->ctx, q->block);
    tiny_free(q->ctx, q->row);
    tiny_free(q->ctx, q->fixed);
    tiny_free(q->ctx, q->offset);
    tiny_free(q->ctx, q->path);
    tiny_free(q->ctx, q);
}

TINY_API tllm_model *tllm_disk_model(tllm_disk *q) { return q ? q->m : NULL; }
TINY_API const tllm_gguf *tllm_disk_file(const tllm_disk *q) { return q ? q->g : NULL; }

TINY_API void tllm_disk_look(const tllm_disk *q, tllm_disk_about *about)
{
    if (!about) return;
    memset(about, 0, sizeof *about);
    if (!q) return;
    about->n_kept = q->n_kept;
    about->n_blocks = q->n_blocks - q->n_kept;
    about->model_bytes = q->model_bytes;
    about->fixed_bytes = q->fixed_bytes;
    about->row_bytes = q->row_bytes;
    about->loader = tllm_loader_count(q->loader);
    if (!q->loader) return;
    about->window = q->d.window;
    about->window_bytes = tllm_slots_peak(q->bytes, q->n_slots, q->d.window);
}

/* ---- what the pass calls ----------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_disk_enter(tinyi_lm_fwd *f, tiny_idx layer, int half)
{
    tllm_disk *q = f->m->disk;
    const unsigned char *data = NULL;
    int b;
    if (f->st || f->dry) return;
    b = q->of[2 * layer + (half & 1)];
    if (b == -2 && half == 2)
        f->st = tinyi_fail(f->ctx, TINY_E_ARGUMENT, "%s: results are wanted on a rank that was opened without output",
                           q->path);
    else if (b == -2)
        f->st = tinyi_fail(f->ctx, TINY_E_ARGUMENT, "%s: layer %td was opened for another rank of the ring", q->path,
                           layer);
    if (b < 0 || q->block[b].slot < 0) return;
    f->st = tllm_loader_acquire(q->loader, q->block[b].slot, &data);
    if (f->st && f->ctx != q->ctx) (void)tinyi_fail(f->ctx, f->st, "%s", tiny_ctx_message(q->ctx));
    if (f->st) return;
    q->entered = b;
    tinyi_disk_show(q, &q->block[b], data);
}

TINYI_FN void tinyi_lm_disk_leave(tinyi_lm_fwd *f, tiny_idx layer, int half)
{
    tllm_disk *q = f->m->disk;
    const int b = f->dry ? -1 : q->of[2 * layer + (half & 1)];
    if (b < 0 || q->entered != b) return;
    q->entered = -1;
    tinyi_disk_show(q, &q->block[b], NULL);
    tllm_loader_release(q->loader);
}

TINYI_FN void tinyi_lm_disk_rows(tinyi_lm_fwd *f, float *y, const int32_t *tokens, tiny_idx n)
{
    tllm_disk *q = f->m->disk;
    const tinyi_lm_w *w = f->m->top.w[TINYI_T_TOKEN_EMBD];
    const uint64_t at = q->offset[(size_t)(w->t - q->g->tensor)];
    tiny_idx i;
    for (i = 0; i < n && !f->st; i++) {
        size_t got = 0;
        f->st = tinyi_in_seek(f->ctx, &q->in, at + (uint64_t)tokens[i] * w->row_bytes);
        if (!f->st) f->st = tinyi_in_read(f->ctx, &q->in, q->row, w->row_bytes, &got);
        if (!f->st && got < w->row_bytes)
            f->st = tinyi_fail(f->ctx, TINY_E_IO, "%s: the file became shorter: the row of token %d cannot be read",
                               q->path, (int)tokens[i]);
        if (!f->st) w->format->unpack(q->row, y + i * w->n_in, (size_t)w->n_in);
        q->row_bytes += w->row_bytes;
    }
}

TINYI_FN int tinyi_lm_disk_sample(const tllm_model *m, size_t tensor, size_t at, unsigned char *bytes, size_t n)
{
    tllm_disk *q = m->disk;
    size_t got = 0;
    return !tinyi_in_seek(NULL, &q->in, q->offset[tensor] + at) && !tinyi_in_read(NULL, &q->in, bytes, n, &got) &&
           got == n;
}
