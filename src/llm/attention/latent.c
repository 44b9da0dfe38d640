/* src/llm/attention/latent.c - latent attention, absorbed and expanded
 * Papers   DeepSeek-AI, "DeepSeek-V2", 2024 (arXiv 2405.04434), 2.1 and appendix C; C. Deng et al., "PLM", 2025 (arXiv
 *          2503.12167), 2.
 * Formula  k_h = [K_h c, r], v_h = V_h c for the row [c, r] of a token; o_h = sum_j softmax_j(scale q_h . k_h) v_h.
 *          absorbed: q_h . k_h = (K_h^T q_n) . c + q_r . r, and sum_j p_j V_h c_j = V_h (sum_j p_j c_j): one key head
 *          with keys [c, r] of d_c + d_rope numbers, whose first d_c are the value.
 * Fast     absorbed: threads take heads for K_h^T q; then tllm_paged_attention with one key head, so that up to 96
 *          heads of a token are rows of one tile; then heads again for V_h. One parallel region.
 *          expanded: for each TINYI_LATENT_CHUNK cells of a sequence, threads take (head, 64 cells) to compute rows
 *          [r, K c, V c], then (head, rows of queries) to use them; softmax states are stored in between.
 * Cost     per cached token, in multiply-adds: absorbed n_head (2 d_c + d_rope) per query; expanded n_head (d_nope +
 *          d_rope + d_v) per query and n_head d_c (d_nope + d_v) once per call; absorbed needs that once per query.
 *          Bytes: d_c + d_rope numbers, independent of the number of heads.
 * Error    the keys are sums of d_c products before they are summed over d: k = 200 units of the largest output, where
 *          scores are of the size of a few units */
#include "llm/ops.h"
#include "llm/attention/latent.h"
#include "llm/block/blocks_inside.h"
#include "core/half_inside.h"
#include "math/table_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_LATENT_CHUNK 256              /* cells whose keys and values are there at a time */

typedef struct tinyi_latent {
    const float *q;
    float *o;
    tinyi_pool c;
    const unsigned char *w;
    const tllm_format *w_type;
    int w_dtype;                            /* of rows that are read in place; -1: bytes */
    size_t w_bytes;                         /* of a row */
    const int32_t *table, *rows;
    tiny_idx n_query, n_head, d_nope, d_rope, d_c, d_v, n_table;
    tiny_idx sq[3], so[3];
    float scale;
    int form;
    const tllm_tree_plan *tree;
} tinyi_latent;

TINY_API tiny_idx tllm_latent_turn(tiny_idx d_nope, tiny_idx d_v, tiny_idx d_c)
{
    const tiny_idx saved = 2 * d_c - d_nope - d_v;
    return saved > 0 ? d_c * (d_nope + d_v) / saved : TINY_IDX_MAX;
}

static void tinyi_latent_read(const tiny_op *op, tinyi_latent *a)
{
    const tllm_latent_params *p = (const tllm_latent_params *)op->params;
    const tiny_tensor *q = op->in[0], *c = op->in[1], *w = op->in[4], *o = op->out[0];
    int i;
    memset(a, 0, sizeof *a);
    a->q = (const float *)q->data;
    a->c.at = (unsigned char *)c->data;
    a->c.type = tllm_format_of(c->dtype == TINY_F32   ? (int)TLLM_FORMAT_F32
                               : c->dtype == TINY_F16 ? (int)TLLM_FORMAT_F16
                                                      : p->format_k);
    a->c.n_part = 1;
    a->c.block = c->dim[2];
    a->c.row_bytes = (size_t)c->dim[3] * tiny_dtype_bytes(c->dtype);
    a->c.d_part = a->c.type ? (tiny_idx)(a->c.row_bytes / (size_t)a->c.type->bytes) * a->c.type->values : 0;
    a->table = (const int32_t *)op->in[2]->data;
    a->rows = (const int32_t *)op->in[3]->data;
    a->n_table = op->in[2]->dim[1];
    a->n_query = q->dim[0];
    a->n_head = q->dim[1];
    a->d_nope = p->d_nope;
    a->d_v = p->d_v;
    a->d_rope = q->dim[2] - p->d_nope;
    a->d_c = a->c.d_part - a->d_rope;
    a->w = (const unsigned char *)w->data;
    a->w_dtype = w->dtype == TINY_U8 ? -1 : (int)w->dtype;
    a->w_type = tllm_format_of(w->dtype == TINY_F32    ? (int)TLLM_FORMAT_F32
                               : w->dtype == TINY_F16  ? (int)TLLM_FORMAT_F16
                               : w->dtype == TINY_BF16 ? (int)TLLM_FORMAT_BF16
                                                       : p->format_w);
    a->w_bytes = (size_t)w->dim[1] * tiny_dtype_bytes(w->dtype);
    for (i = 0; i < 3; i++) {
        a->sq[i] = q->stride[i];
        a->so[i] = o ? o->stride[i] : 0;
    }
    a->o = o ? (float *)o->data : NULL;
    a->scale = p->scale != 0.0f ? p->scale : (float)(1.0 / tinyi_sqrt64((double)(q->dim[2] ? q->dim[2] : 1)));
    a->form = p->form;
    a->tree = p->tree;
}

/* ---- reference -------------------------------------------------------------------------------------------------- */

#define TINYI_LATENT_PART 64                /* numbers that the reference unpacks at once where they are plain */
TINY_REF_BEGIN
/* numbers at .. at + n of a row, n <= TINYI_LATENT_PART; plain: numbers of this machine where the format has no
 * blocks */
static void tinyi_latent_some(const tllm_format *f, const unsigned char *row, tiny_idx at, tiny_idx n, int plain,
                              float *x)
{
    float block[256];                       /* no format has more values in a block */
    tiny_idx i;
    for (i = 0; i < n; i++) {
        if (!plain || f->values > 1) {
            if (i == 0 || (at + i) % f->values == 0)
                f->unpack(row + (size_t)((at + i) / f->values) * (size_t)f->bytes, block, (size_t)f->values);
            x[i] = block[(at + i) % f->values];
        } else if (f->id == TLLM_FORMAT_F32) x[i] = ((const float *)(const void *)row)[at + i];
        else
            x[i] = f->id == TLLM_FORMAT_F16 ? tinyi_f16_to_f32(((const uint16_t *)(const void *)row)[at + i])
                                            : tinyi_bf16_to_f32(((const uint16_t *)(const void *)row)[at + i]);
    }
}
static void tinyi_latent_w(const tinyi_latent *a, tiny_idx row, tiny_idx at, tiny_idx n, float *x)
{
    tinyi_latent_some(a->w_type, a->w + (size_t)row * a->w_bytes, at, n, a->w_dtype >= 0, x);
}

/* scale [K^T q_n, q_r] . [c, r] */
static double tinyi_latent_score(const tinyi_latent *a, const double *qa, tiny_idx t, tiny_idx j)
{
    const int32_t page = a->table[a->rows[4 * t] * a->n_table + j / a->c.block];
    const unsigned char *row = tinyi_pool_row(&a->c, page, 0, j % a->c.block);
    float c[TINYI_LATENT_PART];
    double s = 0.0;
    tiny_idx i, i0, n;
    for (i0 = 0; i0 < a->c.d_part; i0 += n) {
        n = TINYI_MIN(a->c.d_part - i0, TINYI_LATENT_PART);
        tinyi_latent_some(a->c.type, row, i0, n, 1, c);
        for (i = 0; i < n; i++) s += qa[i0 + i] * (double)c[i];
    }
    return s * (double)a->scale;
}

/* The absorbed form; three passes over the cells of a query and head, each score computed anew. */
static void tinyi_latent_ref(const tiny_op *op)
{
    double qa[TLLM_LATENT_MOST], u[TLLM_LATENT_MOST];
    float x[TINYI_LATENT_PART];
    tinyi_latent a;
    tiny_idx t, h, i, i0, j, r, n;
    tinyi_latent_read(op, &a);
    for (t = 0; t < a.n_query; t++)
        for (h = 0; h < a.n_head; h++) {
            const float *q = a.q + t * a.sq[0] + h * a.sq[1];
            const int32_t *row = a.rows + 4 * t;
            const tiny_idx w0 = h * (a.d_nope + a.d_v);
            double m = -INFINITY, l = 0.0;
            for (i0 = 0; i0 < a.d_c; i0 += n) {             /* K^T q_n */
                n = TINYI_MIN(a.d_c - i0, TINYI_LATENT_PART);
                for (i = 0; i < n; i++) qa[i0 + i] = 0.0;
                for (r = 0; r < a.d_nope; r++) {
                    tinyi_latent_w(&a, w0 + r, i0, n, x);
                    for (i = 0; i < n; i++) qa[i0 + i] += (double)q[r * a.sq[2]] * (double)x[i];
                }
            }
            for (i = 0; i < a.d_rope; i++) qa[a.d_c + i] = (double)q[(a.d_nope + i) * a.sq[2]];
            for (j = row[1]; j < row[2]; j++) {
                const double s = tinyi_latent_score(&a, qa, t, j);
                if (s > m) m = s;
            }
            for (j = row[1]; j < row[2]; j++) {
                const double s = tinyi_latent_score(&a, qa, t, j);
                l += s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
            }
            for (i = 0; i < a.d_c; i++) u[i] = 0.0;
            for (j = row[1]; j < row[2] && l != 0.0; j++) {
                const double s = tinyi_latent_score(&a, qa, t, j), p = s == -INFINITY ? 0.0 : tinyi_exp64(s - m) / l;
                const unsigned char *from =
                    tinyi_pool_row(&a.c, a.table[row[0] * a.n_table + j / a.c.block], 0, j % a.c.block);
                for (i0 = 0; i0 < a.d_c && s != -INFINITY; i0 += n) {
                    n = TINYI_MIN(a.d_c - i0, TINYI_LATENT_PART);
                    tinyi_latent_some(a.c.type, from, i0, n, 1, x);
                    for (i = 0; i < n; i++) u[i0 + i] += p * (double)x[i];
                }
            }
            for (r = 0; r < a.d_v; r++) {                   /* V u */
                double s = 0.0;
                for (i0 = 0; i0 < a.d_c; i0 += n) {
                    n = TINYI_MIN(a.d_c - i0, TINYI_LATENT_PART);
                    tinyi_latent_w(&a, w0 + a.d_nope + r, i0, n, x);
                    for (i = 0; i < n; i++) s += (double)x[i] * u[i0 + i];
                }
                a.o[t * a.so[0] + h * a.so[1] + r * a.so[2]] = (float)s;
            }
        }
}
TINY_REF_END

/* ---- fast: what both forms take ------------------------------------------------------------------------------- */

/* n <= TINYI_ATT_KEYS rows of w as floats: where they are, or in room */
static const float *tinyi_latent_floats(tiny_team *team, const tinyi_latent *a, tiny_idx row, tiny_idx n, float *room)
{
    const unsigned char *at = a->w + (size_t)row * a->w_bytes;
    const size_t count = (size_t)(n * a->d_c);
    if (a->w_dtype == TINY_F32) return (const float *)(const void *)at;
    if (a->w_dtype == TINY_F16) TINYI_K(team, f16_to_f32)(room, (const uint16_t *)(const void *)at, count);
    else if (a->w_dtype == TINY_BF16) TINYI_K(team, bf16_to_f32)(room, (const uint16_t *)(const void *)at, count);
    else tinyi_q_floats(team, a->w_type, room, at, count);
    return room;
}

/* a thread's own memory for products with w: rows of w, rows of tokens or columns of them, and what comes out */
typedef struct tinyi_latent_room { float *w, *x, *s; } tinyi_latent_room;
static size_t tinyi_latent_own(size_t d_c)
{
    return sizeof(float) * (TINYI_ATT_KEYS * d_c + TINYI_ATT_ROWS * d_c + TINYI_ATT_STEP +
                            TINYI_ATT_KEYS * TINYI_ATT_ROWS + TINYI_ATT_ROWS + 64);
}
static tinyi_latent_room tinyi_latent_room_of(const tinyi_latent *a, void *own)
{
    tinyi_latent_room r;
    r.s = (float *)own;
    r.x = r.s + TINYI_ATT_KEYS * TINYI_ATT_ROWS + TINYI_ATT_ROWS;
    r.w = r.x + TINYI_ATT_ROWS * a->d_c + TINYI_ATT_STEP;
    return r;
}

/* qa (n_query, n_head, d_c + d_rope) = [K_h^T q_n, q_r] for the rows t0 .. t0 + n and one head */
static void tinyi_latent_queries(tiny_team *team, const tinyi_latent *a, float *qa, tiny_idx h, tiny_idx t0, tiny_idx n)
{
    const tinyi_latent_room room = tinyi_latent_room_of(a, team->own);
    const tiny_idx ld = a->c.d_part, step = a->n_head * ld, w0 = h * (a->d_nope + a->d_v);
    const float *q = a->q + t0 * a->sq[0] + h * a->sq[1];
    float one[TINYI_ATT_ROWS];
    tiny_idx r0, i, j, rows;
    float *to = qa + t0 * step + h * ld;
    for (j = 0; j < n; j++)
        for (i = 0; i < a->d_rope; i++) to[j * step + a->d_c + i] = q[j * a->sq[0] + (a->d_nope + i) * a->sq[2]];
    if (n <= TINYI_ATT_FEW) {
        const tinyi_fn_gemv_axpy axpy = TINYI_K(team, gemv_axpy);
        for (j = 0; j < n; j++) memset(to + j * step, 0, (size_t)a->d_c * sizeof *to);
        for (r0 = 0; r0 < a->d_nope; r0 += rows) {
            const void *w = a->w + (size_t)(w0 + r0) * a->w_bytes;
            rows = TINYI_MIN(a->d_nope - r0, TINYI_ATT_KEYS);
            if (a->w_dtype < 0) w = tinyi_latent_floats(team, a, w0 + r0, rows, room.w);
            for (j = 0; j < n; j++)
                axpy(to + j * step, w, a->w_dtype < 0 ? (int)TINY_F32 : a->w_dtype, a->d_c,
                     q + j * a->sq[0] + r0 * a->sq[2], a->sq[2], (size_t)rows, (size_t)a->d_c);
        }
        return;
    }
    memset(room.x, 0, (size_t)(n * a->d_c) * sizeof *room.x);
    for (j = 0; j < n; j++) one[j] = 1.0f;
    for (r0 = 0; r0 < a->d_nope; r0 += rows) {
        rows = TINYI_MIN(a->d_nope - r0, TINYI_ATT_KEYS);
        for (i = 0; i < rows; i++)
            for (j = 0; j < n; j++) room.s[i * TINYI_ATT_ROWS + j] = q[j * a->sq[0] + (r0 + i) * a->sq[2]];
        TINYI_K(team, attention_mix_f32)
        (room.x, a->d_c, room.s, TINYI_ATT_ROWS, one, tinyi_latent_floats(team, a, w0 + r0, rows, room.w), a->d_c,
         (int)rows, (int)n);
    }
    for (j = 0; j < n; j++) memcpy(to + j * step, room.x + j * a->d_c, (size_t)a->d_c * sizeof *to);
}

/* o = V_h u, u (n_query, n_head, d_c) */
static void tinyi_latent_values(tiny_team *team, const tinyi_latent *a, const float *u, tiny_idx h, tiny_idx t0,
                                tiny_idx n)
{
    const tinyi_latent_room room = tinyi_latent_room_of(a, team->own);
    const tiny_idx step = a->n_head * a->d_c, w0 = h * (a->d_nope + a->d_v) + a->d_nope;
    const float *from = u + t0 * step + h * a->d_c;
    float *to = a->o + t0 * a->so[0] + h * a->so[1];
    tiny_idx r0, i, j, rows;
    if (n > TINYI_ATT_FEW)
        for (i = 0; i < a->d_c; i++) {
            for (j = 0; j < n; j++) room.x[i * TINYI_ATT_ROWS + j] = from[j * step + i];
            for (; j < TINYI_ATT_ROWS; j++) room.x[i * TINYI_ATT_ROWS + j] = 0.0f;
        }
    for (r0 = 0; r0 < a->d_v; r0 += rows) {
        rows = TINYI_MIN(a->d_v - r0, TINYI_ATT_KEYS);
        if (n > TINYI_ATT_FEW) {
            TINYI_K(team, attention_scores_f32)
            (room.s, TINYI_ATT_ROWS, tinyi_latent_floats(team, a, w0 + r0, rows, room.w), a->d_c, (int)rows, room.x,
             TINYI_ATT_ROWS, 0, (int)n, a->d_c);
            for (i = 0; i < rows; i++)
                for (j = 0; j < n; j++) to[j * a->so[0] + (r0 + i) * a->so[2]] = room.s[i * TINYI_ATT_ROWS + j];
        } else {
            const void *w = a->w + (size_t)(w0 + r0) * a->w_bytes;
            if (a->w_dtype < 0) w = tinyi_latent_floats(team, a, w0 + r0, rows, room.w);
            for (j = 0; j < n; j += 4)
                TINYI_K(team, gemv_dot)
                (to + j * a->so[0] + r0 * a->so[2], a->so[2], a->so[0], w, a->w_dtype < 0 ? (int)TINY_F32 : a->w_dtype,
                 a->d_c, (size_t)rows, from + j * step, step, (int)TINYI_MIN(n - j, 4), (size_t)a->d_c);
        }
    }
}

/* ---- fast: absorbed --------------------------------------------------------------------------------------------- */

typedef struct tinyi_latent_mix {           /* the part in the middle: one key head whose values lie inside its keys */
    tiny_tensor q, o;
    tllm_paged_params p;
    tiny_op op;
} tinyi_latent_mix;
static void tinyi_latent_mix_of(const tinyi_latent *a, const tiny_op *op, float *qa, float *u, tinyi_latent_mix *x)
{
    memset(x, 0, sizeof *x);
    x->q = tiny_tensor_3d(qa, TINY_F32, a->n_query, a->n_head, a->c.d_part);
    x->o = tiny_tensor_3d(u, TINY_F32, a->n_query, a->n_head, a->d_c);
    x->p.scale = a->scale;
    x->p.format_k = ((const tllm_latent_params *)op->params)->format_k;
    x->p.d_v = a->d_c;
    x->p.tree = a->tree;
    x->op.kind = TLLM_OP_PAGED_ATTENTION;
    x->op.row = tllm_paged_attention_row();
    x->op.in[0] = &x->q;
    x->op.in[1] = op->in[1];
    x->op.in[2] = op->in[2];
    x->op.in[3] = op->in[3];
    x->op.out[0] = &x->o;
    x->op.params = &x->p;
}
static size_t tinyi_latent_up(size_t n) { return (n + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1); }
static size_t tinyi_latent_qa_bytes(const tinyi_latent *a)
{
    return tinyi_latent_up((size_t)(a->n_query * a->n_head * a->c.d_part) * sizeof(float));
}
static size_t tinyi_latent_u_bytes(const tinyi_latent *a)
{
    return tinyi_latent_up((size_t)(a->n_query * a->n_head * a->d_c) * sizeof(float));
}

static void tinyi_latent_absorbed(tiny_team *team, const tiny_op *op, const tinyi_latent *a)
{
    const tiny_idx tiles = (a->n_query + TINYI_ATT_ROWS - 1) / TINYI_ATT_ROWS;
    unsigned char *shared = (unsigned char *)team->shared;
    float *qa = (float *)(void *)shared, *u = (float *)(void *)(shared + tinyi_latent_qa_bytes(a));
    tinyi_latent_mix mix;
    tiny_idx task, end;
    while (tiny_take(team, tiles * a->n_head, 1, &task, &end))
        for (; task < end; task++) {
            const tiny_idx t0 = task / a->n_head * TINYI_ATT_ROWS;
            tinyi_latent_queries(team, a, qa, task % a->n_head, t0, TINYI_MIN(a->n_query - t0, TINYI_ATT_ROWS));
        }
    tiny_barrier(team);
    tinyi_latent_mix_of(a, op, qa, u, &mix);
    team->shared = shared + tinyi_latent_qa_bytes(a) + tinyi_latent_u_bytes(a);
    mix.op.row->fast(team, &mix.op);
    team->shared = shared;
    tiny_barrier(team);
    while (tiny_take(team, tiles * a->n_head, 1, &task, &end))
        for (; task < end; task++) {
            const tiny_idx t0 = task / a->n_head * TINYI_ATT_ROWS;
            tinyi_latent_values(team, a, u, task % a->n_head, t0, TINYI_MIN(a->n_query - t0, TINYI_ATT_ROWS));
        }
}

/* ---- fast: expanded --------------------------------------------------------------------------------------------- */

/* row of a cell: the rotated key, then K c, then V c; so queries turn their two parts round */
static tiny_idx tinyi_latent_wide(const tinyi_latent *a) { return a->d_rope + a->d_nope + a->d_v; }
static size_t tinyi_latent_rows_bytes(const tinyi_latent *a)
{
    return tinyi_latent_up((size_t)(a->n_head * TINYI_LATENT_CHUNK * tinyi_latent_wide(a)) * sizeof(float));
}
static size_t tinyi_latent_state_bytes(const tinyi_latent *a)
{
    return tinyi_latent_up((size_t)(a->n_query * a->n_head * (a->d_v + 2)) * sizeof(float));
}

/* cells c0 .. c0 + n of one sequence for one head */
static void tinyi_latent_expand(tiny_team *team, const tinyi_latent *a, const int32_t *table, float *to, tiny_idx h,
                                tiny_idx c0, tiny_idx n)
{
    const tinyi_latent_room room = tinyi_latent_room_of(a, team->own);
    const tiny_idx wide = tinyi_latent_wide(a), made = a->d_nope + a->d_v, w0 = h * made;
    float *row = room.w;                    /* free until the weights come */
    tiny_idx r0, i, j, rows;
    for (j = 0; j < n; j++) {
        tinyi_pool_read(&a->c, table[(c0 + j) / a->c.block], (c0 + j) % a->c.block, row);
        for (i = 0; i < a->d_c; i++) room.x[i * TINYI_ATT_ROWS + j] = row[i];
        memcpy(to + j * wide, row + a->d_c, (size_t)a->d_rope * sizeof *to);
    }
    for (i = 0; i < a->d_c; i++)
        for (j = n; j < TINYI_ATT_ROWS; j++) room.x[i * TINYI_ATT_ROWS + j] = 0.0f;
    for (r0 = 0; r0 < made; r0 += rows) {
        rows = TINYI_MIN(made - r0, TINYI_ATT_KEYS);
        TINYI_K(team, attention_scores_f32)
        (room.s, TINYI_ATT_ROWS, tinyi_latent_floats(team, a, w0 + r0, rows, room.w), a->d_c, (int)rows, room.x,
         TINYI_ATT_ROWS, 0, (int)n, a->d_c);
        for (j = 0; j < n; j++)
            for (i = 0; i < rows; i++) to[j * wide + a->d_rope + r0 + i] = room.s[i * TINYI_ATT_ROWS + j];
    }
}

/* queries t0 .. t0 + n of one head against the cells c0 .. c0 + n_c, whose rows lie in kv; states go on from where they
 * were */
static void tinyi_latent_meet(tiny_team *team, const tinyi_latent *a, const float *kv, float *state, tiny_idx h,
                              tiny_idx t0, int n, tiny_idx c0, tiny_idx n_c)
{
    const tiny_idx wide = tinyi_latent_wide(a), d = a->d_rope + a->d_nope, each = a->d_v + 2;
    tinyi_att_tile tile;
    float *turned = tinyi_att_tile_open(&tile, (float *)team->own, d, a->d_v, n);
    tiny_idx c, at, i;
    int j, k, hides;
    tinyi_att_tile_begin(&tile);
    for (j = 0; j < n; j++) {
        const float *q = a->q + (t0 + j) * a->sq[0] + h * a->sq[1], *s = state + ((t0 + j) * a->n_head + h) * each;
        for (i = 0; i < a->d_rope; i++) turned[i] = q[(a->d_nope + i) * a->sq[2]];
        for (i = 0; i < a->d_nope; i++) turned[a->d_rope + i] = q[i * a->sq[2]];
        tinyi_att_tile_query(&tile, j, turned, 1, a->scale);
        memcpy(tile.acc + j * a->d_v, s, (size_t)a->d_v * sizeof *s);
        tile.m[j] = s[a->d_v];
        tile.l[j] = s[a->d_v + 1];
    }
    for (c = 0; c < n_c; c += TINYI_ATT_KEYS) {
        const int keys = (int)TINYI_MIN(n_c - c, TINYI_ATT_KEYS);
        const float *rows = kv + c * wide, *v = rows + d;
        int seen = 0;
        for (j = 0; j < n && !seen; j++)
            seen = a->rows[4 * (t0 + j) + 1] < c0 + c + keys && a->rows[4 * (t0 + j) + 2] > c0 + c;
        if (!seen) continue;
        tinyi_att_tile_scores(team, &tile, rows, wide, keys, 0, n);
        for (j = hides = 0; j < n; j++) {
            const tiny_idx lo = a->rows[4 * (t0 + j) + 1], hi = a->rows[4 * (t0 + j) + 2];
            for (k = 0; k < keys; k++) {
                at = c0 + c + k;
                if (at >= lo && at < hi) continue;
                tile.s[k * tile.ld + j] = -INFINITY;
                hides = 1;
            }
        }
        tinyi_att_tile_absorb(team, &tile, v, wide, keys, hides, 0, n);
    }
    for (j = 0; j < n; j++) {
        float *s = state + ((t0 + j) * a->n_head + h) * each;
        memcpy(s, tile.acc + j * a->d_v, (size_t)a->d_v * sizeof *s);
        s[a->d_v] = tile.m[j];
        s[a->d_v + 1] = tile.l[j];
    }
}

/* queries of one sequence, in order */
static tiny_idx tinyi_latent_run(const tinyi_latent *a, tiny_idx t)
{
    tiny_idx n = 1;
    while (t + n < a->n_query && a->rows[4 * (t + n)] == a->rows[4 * t]) n++;
    return n;
}

static void tinyi_latent_expanded(tiny_team *team, const tinyi_latent *a)
{
    const tiny_idx wide = tinyi_latent_wide(a), each = a->d_v + 2;
    float *kv = (float *)team->shared,
          *state = (float *)(void *)((unsigned char *)team->shared + tinyi_latent_rows_bytes(a));
    tiny_idx t, n, j, task, end, c0, n_c, tiles, groups, i;
    while (tiny_take(team, a->n_query * a->n_head, 16, &task, &end))
        for (; task < end; task++)
            for (i = 0; i < each; i++) state[task * each + i] = i == a->d_v ? -INFINITY : 0.0f;
    tiny_barrier(team);
    for (t = 0; t < a->n_query; t += n) {
        const int32_t *table = a->table + a->rows[4 * t] * a->n_table;
        tiny_idx lo = INT32_MAX, hi = 0;
        n = tinyi_latent_run(a, t);
        for (j = t; j < t + n; j++)
            if (a->rows[4 * j + 1] < a->rows[4 * j + 2]) {
                lo = TINYI_MIN(lo, a->rows[4 * j + 1]);
                hi = TINYI_MAX(hi, a->rows[4 * j + 2]);
            }
        tiles = (n + TINYI_ATT_ROWS - 1) / TINYI_ATT_ROWS;
        for (c0 = lo; c0 < hi; c0 += n_c) {
            n_c = TINYI_MIN(hi - c0, TINYI_LATENT_CHUNK);
            groups = (n_c + TINYI_ATT_KEYS - 1) / TINYI_ATT_KEYS;
            while (tiny_take(team, groups * a->n_head, 1, &task, &end))
                for (; task < end; task++) {
                    const tiny_idx h = task / groups, at = task % groups * TINYI_ATT_KEYS;
                    tinyi_latent_expand(team, a, table, kv + (h * TINYI_LATENT_CHUNK + at) * wide, h, c0 + at,
                                        TINYI_MIN(n_c - at, TINYI_ATT_KEYS));
                }
            tiny_barrier(team);
            while (tiny_take(team, tiles * a->n_head, 1, &task, &end))
                for (; task < end; task++) {
                    const tiny_idx h = task / tiles, at = task % tiles * TINYI_ATT_ROWS;
                    tinyi_latent_meet(team, a, kv + h * TINYI_LATENT_CHUNK * wide, state, h, t + at,
                                      (int)TINYI_MIN(n - at, TINYI_ATT_ROWS), c0, n_c);
                }
            tiny_barrier(team);
        }
    }
    while (tiny_take(team, a->n_query * a->n_head, 16, &task, &end))
        for (; task < end; task++) {
            const float *s = state + task * each;
            const float inv = s[a->d_v + 1] != 0.0f ? 1.0f / s[a->d_v + 1] : 0.0f;
            float *to = a->o + task / a->n_head * a->so[0] + task % a->n_head * a->so[1];
            for (i = 0; i < a->d_v; i++) to[i * a->so[2]] = s[i] * inv;
        }
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

/* Queries of a sequence that AUTO may expand for: fewer meet their weights as vectors when absorbed. */
static int tinyi_latent_many(const tinyi_latent *a, tiny_idx runs) { return a->n_query > TINYI_ATT_FEW * runs; }

/* Only rows whose cells have no gap are expanded, because pages in a gap were not checked. AUTO compares the
 * multiply-adds of a head for the rows of this call, so the cells before a prompt count too. Multiply-adds with w get a
 * higher weight than those with keys, 2 for queries and 1.5 for keys: w is unpacked, and one side transposed, for every
 * 64 rows. The estimate is within a tenth of the times measured with PLM's shape. */
static int tinyi_latent_expands(const tinyi_latent *a)
{
    const int32_t *r = a->rows;
    const double made = (double)a->d_c * (double)(a->d_nope + a->d_v);
    double pairs = 0.0, cells = 0.0;
    tiny_idx t, runs = 0, lo = 0, hi = 0;
    if (a->form == TLLM_LATENT_ABSORBED || a->tree || !r) return 0;
    for (t = 0; t < a->n_query; t++) {
        const tiny_idx from = r[4 * t + 1], to = r[4 * t + 2];
        if (!t || r[4 * t] != r[4 * t - 4]) {
            cells += (double)(hi - lo);
            lo = from;
            hi = TINYI_MAX(from, to);
            runs++;
        } else {
            if (from >= to || r[4 * t - 3] >= r[4 * t - 2] || from > r[4 * t - 2] || to < r[4 * t - 3]) return 0;
            lo = TINYI_MIN(lo, from);
            hi = TINYI_MAX(hi, to);
        }
        pairs += from < to ? (double)(to - from) : 0.0;
    }
    cells += (double)(hi - lo);
    if (a->form == TLLM_LATENT_EXPANDED) return 1;
    return runs && tinyi_latent_many(a, runs) &&
           1.5 * made * cells + (double)(a->d_nope + a->d_rope + a->d_v) * pairs <
               2.0 * made * (double)a->n_query + (double)(2 * a->d_c + a->d_rope) * pairs;
}

static void tinyi_latent_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_latent a;
    (void)TINYI_K(team, attention_weights_f32);     /* thread 0 reports the pass that ran, with or without a task */
    tinyi_latent_read(op, &a);
    if (tinyi_latent_expands(&a)) tinyi_latent_expanded(team, &a);
    else tinyi_latent_absorbed(team, op, &a);
}

static void tinyi_latent_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_latent a;
    tinyi_latent_mix mix;
    size_t shared = 0, own = 0;
    tinyi_latent_read(op, &a);
    tinyi_latent_mix_of(&a, op, NULL, NULL, &mix);
    mix.op.row->work(&mix.op, n_threads, &shared, &own);
    shared += tinyi_latent_qa_bytes(&a) + tinyi_latent_u_bytes(&a);
    *own_bytes = TINYI_MAX(own, tinyi_latent_own((size_t)a.c.d_part));
    if (a.form != TLLM_LATENT_ABSORBED) {   /* what the rows say comes later */
        const size_t tile = sizeof(float) * (tinyi_att_tile_floats((size_t)(a.d_nope + a.d_rope), (size_t)a.d_v) +
                                             (size_t)(a.d_nope + a.d_rope));
        if (a.form == TLLM_LATENT_EXPANDED || tinyi_latent_many(&a, 1))
            shared = TINYI_MAX(shared, tinyi_latent_rows_bytes(&a) + tinyi_latent_state_bytes(&a));
        *own_bytes = TINYI_MAX(*own_bytes, tile);
    }
    *shared_bytes = shared;
}

static tiny_status tinyi_latent_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tllm_latent_params *p = (const tllm_latent_params *)op->params;
    const tiny_tensor *q = op->in[0], *c = op->in[1], *w = op->in[4];
    const tllm_format *type, *wf;
    tinyi_latent a;
    tinyi_latent_mix mix;
    tiny_idx dim[3], numbers;
    double bytes;
    tiny_status st;
    char text[96];
    if (q->rank != 3 || q->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_SHAPE, "latent attention: q is %s, it must have 3 axes of f32",
                          tinyi_shape_text(q, text));
    if (!p || p->d_nope < 1 || p->d_v < 1 || p->d_nope > q->dim[2])
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "latent attention: d_nope is %td and d_v %td: both must be at least 1, and d_nope at most "
                          "the %td numbers of a query",
                          p ? p->d_nope : 0, p ? p->d_v : 0, q->dim[2]);
    if ((q->dim[2] - p->d_nope) % 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "latent attention: %td rotated numbers of a query are not whole pairs",
                          q->dim[2] - p->d_nope);
    if (p->form < TLLM_LATENT_AUTO || p->form > TLLM_LATENT_EXPANDED)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "latent attention: form %d is not 0, 1 or 2", p->form);
    if (c->rank != 4 || c->dim[1] != 1)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "latent attention: latents are %s, they must be (blocks, 1, tokens, numbers)",
                          tinyi_shape_text(c, text));
    type = tllm_format_of(c->dtype == TINY_F32   ? (int)TLLM_FORMAT_F32
                          : c->dtype == TINY_F16 ? (int)TLLM_FORMAT_F16
                                                 : p->format_k);
    numbers = !type ? 0 : c->dtype == TINY_U8 ? c->dim[3] / type->bytes * type->values : c->dim[3];
    if (numbers > TLLM_LATENT_MOST || numbers <= q->dim[2] - p->d_nope)
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "latent attention: a row has %td numbers, %td of them rotated: it needs at least 1 more, and at most %d",
            numbers, q->dim[2] - p->d_nope, TLLM_LATENT_MOST);
    if (q->dim[2] > TINYI_ATT_KEYS * 1024 || p->d_v > TINYI_ATT_KEYS * 1024 || q->dim[1] > TINYI_ATT_KEYS * 1024)
        return tinyi_fail(ctx, TINY_E_SHAPE, "latent attention: %td heads of %td and %td numbers: at most 65536",
                          q->dim[1], q->dim[2], p->d_v);
    dim[0] = q->dim[1] * (p->d_nope + p->d_v);
    dim[1] = numbers - (q->dim[2] - p->d_nope);
    wf = w->dtype == TINY_U8 ? tllm_format_of(p->format_w) : NULL;
    if (w->rank != 2 ||
        (w->dtype != TINY_F32 && w->dtype != TINY_F16 && w->dtype != TINY_BF16 && w->dtype != TINY_U8) ||
        !tiny_tensor_is_dense(w) || w->dim[0] != dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "latent attention: w is %s, it must be dense: %td rows of %td numbers in f32, f16, bf16 or "
                          "the bytes of a format",
                          tinyi_shape_text(w, text), dim[0], dim[1]);
    if (w->dtype == TINY_U8 ? !wf || tllm_format_bytes(wf, (uint64_t)dim[1]) != (size_t)w->dim[1] : w->dim[1] != dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "latent attention: rows of w have %td %s, not %td numbers%s%s", w->dim[1],
                          w->dtype == TINY_U8 ? "bytes" : "numbers", dim[1], wf ? " of " : "", wf ? wf->name : "");
    tinyi_latent_read(op, &a);
    a.o = NULL;
    /* queries and answers in the numbers of latents, or what expanding makes and leaves in between: far more than q
     * itself may be */
    bytes = 4.0 * (double)a.n_head *
            ((double)a.n_query * (double)(2 * numbers + a.d_v + 2) +
             (double)TINYI_LATENT_CHUNK * (double)(q->dim[2] + a.d_v));
    if (bytes > (double)(SIZE_MAX / 4))
        return tinyi_fail(
            ctx, TINY_E_OVERFLOW,
            "latent attention: %td queries of %td heads need %g bytes, more than this machine can address", q->dim[0],
            q->dim[1], bytes);
    tinyi_latent_mix_of(&a, op, NULL, NULL, &mix);
    st = mix.op.row->shape(ctx, &mix.op, want);     /* pages, tables, rows, the plan */
    if (st) return st;
    dim[0] = q->dim[0];
    dim[1] = q->dim[1];
    dim[2] = p->d_v;
    tinyi_want(want, TINY_F32, 3, dim);
    return TINY_OK;
}

static void tinyi_latent_cost(const tiny_op *op, tiny_cost *c)
{
    tinyi_latent a;
    double keys = 0.0, wide, n;
    tiny_idx t;
    tinyi_latent_read(op, &a);
    for (t = 0; a.rows && t < a.n_query; t++)
        keys += a.rows[4 * t + 2] > a.rows[4 * t + 1] ? (double)(a.rows[4 * t + 2] - a.rows[4 * t + 1]) : 0.0;
    n = (double)a.n_query * (double)a.n_head;
    wide = (double)(2 * a.d_c + a.d_rope);
    c->flops = 2.0 * n * (double)a.d_c * (double)(a.d_nope + a.d_v) + 2.0 * (double)a.n_head * wide * keys;
    c->bytes = keys * (double)a.c.row_bytes + (double)op->in[4]->dim[0] * (double)a.w_bytes +
               4.0 * n * (double)(a.d_nope + a.d_rope + a.d_v);
}

/* Tables and rows as those of tllm_paged_attention; weights of the size 1 / sqrt(d_c), so that keys are of the size of
 * 1. */
static void tinyi_latent_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_tensor *t = &c->in[i_input];
    const tiny_idx n_seq = c->in[2].dim[0], n_cell = c->in[2].dim[1] * c->in[1].dim[2], n_query = c->in[0].dim[0];
    int32_t *number = (int32_t *)data;
    tllm_latent_params params;
    tiny_idx i, j, n = tiny_tensor_count(t);
    memcpy(&params, c->params.bytes, sizeof params);
    if (i_input == 2) {
        for (i = 0; i < n; i++) number[i] = tiny_case_pick(c, (int)c->in[1].dim[0]);
    } else if (i_input == 3) {
        for (i = 0; i < n_query; i++, number += 4) {
            const tiny_idx seq = i * n_seq / n_query, first = (seq * n_query + n_seq - 1) / n_seq,
                           own = TINYI_MIN(n_cell, n_cell / 2 + 1 + i - first);
            const int kind = tiny_case_pick(c, 8);
            number[0] = (int32_t)seq;
            number[1] = kind == 0 ? tiny_case_pick(c, (int)own) : 0;
            number[2] = kind == 1 ? 0 : (int32_t)(kind == 2 ? n_cell : own);
            number[3] = (int32_t)own - 1;
        }
    } else {
        const tllm_format *f = t->dtype == TINY_F32   ? tllm_format_of(TLLM_FORMAT_F32)
                               : t->dtype == TINY_F16 ? tllm_format_of(TLLM_FORMAT_F16)
                               : t->dtype == TINY_BF16
                                   ? tllm_format_of(TLLM_FORMAT_BF16)
                                   : tllm_format_of(i_input == 1 ? params.format_k : params.format_w);
        const tiny_idx d_c = t->dtype == TINY_U8 ? t->dim[1] / f->bytes * f->values : t->dim[1];
        const float size = i_input == 4 ? (float)(1.0 / tinyi_sqrt64((double)d_c)) : 1.0f;
        unsigned char *to = (unsigned char *)data;
        const tiny_idx blocks = t->dtype == TINY_U8 ? n / f->bytes : n;
        for (i = 0; i < blocks; i++) {
            float x[256];
            for (j = 0; j < f->values; j++) x[j] = size * tiny_rng_normal(&c->rng);
            if (t->dtype == TINY_F32) ((float *)data)[i] = x[0];
            else if (t->dtype == TINY_F16) ((uint16_t *)data)[i] = tinyi_f32_to_f16(x[0]);
            else if (t->dtype == TINY_BF16) ((uint16_t *)data)[i] = tinyi_f32_to_bf16(x[0]);
            else f->pack(x, to + i * f->bytes, (size_t)f->values, NULL);
        }
    }
}

static void tinyi_latent_cases(tiny_case *c)
{
    static const short k_formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    static const short w_formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_BF16, TLLM_FORMAT_Q8_0,
                                       TLLM_FORMAT_Q4_0 };
    tllm_latent_params params;
    const tllm_format *fk = tllm_format_of(k_formats[c->index % 4]), *fw = tllm_format_of(w_formats[c->index / 4 % 5]);
    const int blocks = fk->values > 1 || fw->values > 1;
    tiny_idx d_rope, d_c, i;
    memset(&params, 0, sizeof params);
    params.format_k = fk->id;
    params.format_w = fw->id;
    params.form = tiny_case_pick(c, 3);
    params.d_nope = tiny_case_dim(c, 70);
    params.d_v = tiny_case_dim(c, 70);
    params.scale = tiny_case_pick(c, 3) ? 0.0f : 0.2f;
    d_rope = blocks ? 32 * tiny_case_pick(c, 2) : 2 * tiny_case_pick(c, 17);
    d_c = blocks ? 32 * (1 + tiny_case_pick(c, 4)) : tiny_case_dim(c, 130);
    c->in[0].rank = 3;
    c->in[0].dim[0] = tiny_case_dim(c, 130);
    c->in[0].dim[1] = 1 + tiny_case_pick(c, 5);
    c->in[0].dim[2] = params.d_nope + d_rope;
    c->in[1].rank = 4;
    c->in[1].dtype = fk->id == TLLM_FORMAT_F32 ? TINY_F32 : fk->id == TLLM_FORMAT_F16 ? TINY_F16 : TINY_U8;
    c->in[1].dim[0] = 1 + tiny_case_pick(c, 9);
    c->in[1].dim[1] = 1;
    c->in[1].dim[2] = tiny_case_dim(c, 33);
    c->in[1].dim[3] = fk->values > 1 ? (d_c + d_rope) / fk->values * fk->bytes : d_c + d_rope;
    c->in[2].rank = c->in[3].rank = c->in[4].rank = 2;
    c->in[2].dtype = c->in[3].dtype = TINY_I32;
    c->in[2].dim[0] = TINYI_MIN(1 + tiny_case_pick(c, 3), c->in[0].dim[0]);
    c->in[2].dim[1] = tiny_case_dim(c, 17);
    c->in[3].dim[0] = c->in[0].dim[0];
    c->in[3].dim[1] = 4;
    c->in[4].dtype = fw->id == TLLM_FORMAT_F32    ? TINY_F32
                     : fw->id == TLLM_FORMAT_F16  ? TINY_F16
                     : fw->id == TLLM_FORMAT_BF16 ? TINY_BF16
                                                  : TINY_U8;
    c->in[4].dim[0] = c->in[0].dim[1] * (params.d_nope + params.d_v);
    c->in[4].dim[1] = fw->values > 1 ? d_c / fw->values * fw->bytes : d_c;
    for (i = 1; i < 5; i++) {
        c->fill[i] = TINY_FILL_TABLE;
        c->dense[i] = 1;
    }
    c->fill_table = tinyi_latent_fill;
    c->no_specials = c->no_denormals = 1;
    memcpy(c->params.bytes, &params, sizeof params);
}

static const short tinyi_latent_kernels[] = { TINYI_K_gemv_dot,
                                              TINYI_K_gemv_axpy,
                                              TINYI_K_attention_dot,
                                              TINYI_K_attention_blend,
                                              TINYI_K_attention_scores_f32,
                                              TINYI_K_attention_weights_f32,
                                              TINYI_K_attention_mix_f32,
                                              TINYI_K_attention_finite_f32,
                                              TINYI_K_f16_to_f32,
                                              TINYI_K_bf16_to_f32,
                                              TINYI_K_dequantize_i8,
                                              -1 };
static const tiny_op_row tinyi_row_latent_attention = TINYI_ROW_OF("latent_attention", TLLM_OP_LATENT_ATTENTION,
    TAKES(5, 5), GIVES(1), PARAMS(tllm_latent_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_latent_shape), REFERENCE(tinyi_latent_ref), FAST(tinyi_latent_fast, tinyi_latent_work),
    COST(tinyi_latent_cost), CASES(tinyi_latent_cases), BOUND(TINY_BOUND_SCALE, 200.0, 0.0), TERMS(NULL),
    GRADIENT(NULL), KERNELS(tinyi_latent_kernels),
    SAYS("o = V softmax(scale [K^T q, q_r] [c, r]^T) c over the pages of each sequence"));
TINY_API const tiny_op_row *tllm_latent_attention_row(void) { return &tinyi_row_latent_attention; }

TINY_API tiny_status tllm_latent_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *latents,
                                           const tiny_tensor *table, const tiny_tensor *rows, const tiny_tensor *w,
                                           const tllm_latent_params *params, const tiny_tensor *o)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TLLM_OP_LATENT_ATTENTION;
    op.row = &tinyi_row_latent_attention;
    op.in[0] = q; op.in[1] = latents; op.in[2] = table; op.in[3] = rows; op.in[4] = w;
    op.out[0] = o;
    op.params = params;
    return tiny_run(ctx, &op);
}
