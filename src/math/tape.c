/* src/math/tape.c - the tape: the record of operations, and the backward pass
 * Paper    S. Linnainmaa, 1970; A. Griewank, A. Walther, "Evaluating Derivatives", 2008, chapter 3: reverse mode.
 *          Segments: T. Chen et al., 2016 (arXiv 1604.06174).
 * Method   Values are stored one after the other in one block, like a stack, so the value of a tensor is found by
 *          bisection over addresses. Its gradient is a block of the same size and strides. The backward pass walks the
 *          operations from the last to the first, and calls the gradient of each one with its inputs, its outputs and
 *          dL/d(outputs). The first contribution to a gradient is written in place, later ones are added. After the
 *          operation that made a value has been walked, the memory of its gradient is free for earlier values.
 * Memory   values + the gradients alive at one time + the scratch of one gradient. The stack grows upwards in all
 *          phases. A dry run takes the same steps, with addresses that are never read.
 * Threads  the order of all additions is that of the operations, and each operation gives the same result for any
 *          number of threads. */
#include "math/tape.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/walk_inside.h"
#include "math/elem.h"
#include <string.h>

typedef struct tinyi_tape_value {
    unsigned char *lo, *hi;                 /* its bytes */
    unsigned char *grad;                    /* dense, or NULL */
    tiny_dtype type;                        /* of the gradient */
    size_t each;                            /* bytes of a number of the value */
    tiny_idx count, written;                /* numbers; those that operations have written */
    size_t maker;                           /* the first recorded operation that wrote */
    int needs, read, full;                  /* full: the gradient holds something */
    int param;                              /* its number, or -1 */
} tinyi_tape_value;

typedef struct tinyi_tape_node {
    tiny_op op;                             /* points into this struct */
    const tiny_op_row *row;                 /* NULL: a segment */
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_SEGMENT_MOST];
    union { unsigned char bytes[TINY_OP_MAX_PARAMS]; double align; void *align_p; } params;
    tiny_segment_fn fn;
    void *user;
    int n_in, n_out;
} tinyi_tape_node;

#define TINYI_TAPE_BLOCK 64                 /* nodes of a block: what is recorded never moves */
#define TINYI_TAPE_FREE 64                  /* gradients that wait for another use */

struct tiny_tape {
    tiny_ctx *ctx;
    tiny_status status;
    int dry, no_grad, walking;
    unsigned char *base;
    size_t size, used, high;
    tinyi_tape_node **block;
    size_t n_blocks, n_nodes;
    tinyi_tape_value *value;                /* by address */
    size_t n_values, room_values;
    tiny_param *param;
    tinyi_tape_value *held;                 /* of the parameters, by address */
    size_t n_params, room_params;
    struct { unsigned char *at; size_t bytes; } spare[TINYI_TAPE_FREE];
    size_t n_spare;
    size_t below;                           /* values before this one are outside of the segment that is walked */
};

struct tiny_grad {
    tiny_tape *tape;
    const tinyi_tape_node *node;
    tiny_tensor dout[TINY_OP_MAX_OUT];
};

static tinyi_tape_node *tinyi_tape_node_at(const tiny_tape *t, size_t i)
{
    return &t->block[i / TINYI_TAPE_BLOCK][i % TINYI_TAPE_BLOCK];
}

#define TINYI_TAPE_FAIL(t, st) ((t)->status ? (t)->status : ((t)->status = (st)))

tiny_status tinyi_tape_refuse(tiny_tape *t, tiny_status st, const char *text)
{
    return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, st, "%s", text));
}

/* ---- open and close */

TINY_API tiny_status tiny_tape_open(tiny_ctx *ctx, const tiny_tape_desc *desc, tiny_tape **out)
{
    tiny_tape *t;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_tape_open needs an output pointer");
    t = (tiny_tape *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->dry = desc && desc->dry;
    t->no_grad = desc && desc->no_grad;
    t->size = desc && desc->bytes ? desc->bytes : (size_t)64 << 20;
    if (t->dry) {                           /* addresses beyond those that anybody has; they are only compared */
        t->base = (unsigned char *)(~(uintptr_t)0 / 4 + 1);
        t->size = (size_t)(~(uintptr_t)0 / 4);
    } else t->base = (unsigned char *)tinyi_alloc(ctx, t->size, 1);
    if (!t->base) {
        tiny_free(ctx, t);
        return tiny_ctx_status(ctx);
    }
    *out = t;
    return TINY_OK;
}

TINY_API void tiny_tape_close(tiny_tape *t)
{
    size_t i;
    if (!t) return;
    for (i = 0; i < t->n_blocks; i++) tiny_free(t->ctx, t->block[i]);
    tiny_free(t->ctx, t->block);
    tiny_free(t->ctx, t->value);
    tiny_free(t->ctx, t->param);
    tiny_free(t->ctx, t->held);
    if (!t->dry) tiny_free(t->ctx, t->base);
    tiny_free(t->ctx, t);
}

TINY_API tiny_ctx *tiny_tape_ctx(tiny_tape *t) { return t ? t->ctx : NULL; }
TINY_API tiny_status tiny_tape_status(const tiny_tape *t) { return t ? t->status : TINY_E_ARGUMENT; }
TINY_API int tiny_tape_dry(const tiny_tape *t) { return t ? t->dry : 0; }
TINY_API size_t tiny_tape_high(const tiny_tape *t) { return t ? t->high : 0; }
TINY_API size_t tiny_tape_count(const tiny_tape *t) { return t ? t->n_nodes : 0; }

/* an array of n with room for one more */
static tiny_status tinyi_tape_grow(tiny_ctx *ctx, void **array, size_t n, size_t *room, size_t each)
{
    void *more;
    size_t want;
    if (n < *room) return TINY_OK;
    want = *room ? 2 * *room : 64;
    more = tinyi_alloc(ctx, want, each);
    if (!more) return tiny_ctx_status(ctx);
    if (n) memcpy(more, *array, n * each);
    tiny_free(ctx, *array);
    *array = more;
    *room = want;
    return TINY_OK;
}

/* ---- memory */

static unsigned char *tinyi_tape_take(tiny_tape *t, size_t bytes)
{
    unsigned char *p = t->base + t->used;
    size_t end;
    if (!tinyi_size_add(bytes, TINYI_ALIGN - 1, &end) ||
        !tinyi_size_add(t->used, end / TINYI_ALIGN * TINYI_ALIGN, &end) || end > t->size) {
        (void)TINYI_TAPE_FAIL(
            t, tinyi_fail(t->ctx, TINY_E_WORKSPACE,
                          "tape: %zu bytes more do not fit, %zu of %zu are in use; a dry run reports the size needed",
                          bytes, t->used, t->size));
        return NULL;
    }
    t->used = end;
    if (t->used > t->high) t->high = t->used;
    return p;
}

static void tinyi_tape_drop(tiny_tape *t, size_t used)
{
    size_t i, n = 0;
    t->used = used;
    for (i = 0; i < t->n_spare; i++)
        if (t->spare[i].at < t->base + used) t->spare[n++] = t->spare[i];
    t->n_spare = n;
}

/* dense, in new memory; data NULL when there is none */
static tiny_tensor tinyi_tape_fresh(tiny_tape *t, tiny_dtype type, int rank, const tiny_idx *dim)
{
    tiny_tensor y = tiny_tensor_nd(t->base, type, rank, dim);
    tiny_status st = tiny_tensor_check(&y);
    if (t->status) st = t->status;
    else if (st) (void)TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, st, "tape: a tensor of these dimensions is not possible"));
    y.data = st ? NULL : tinyi_tape_take(t, (size_t)tiny_tensor_count(&y) * tiny_dtype_bytes(type));
    if (!y.data) memset(&y, 0, sizeof y);
    return y;
}

static tinyi_tape_value *tinyi_tape_search(tinyi_tape_value *v, size_t n, const unsigned char *p)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((uintptr_t)v[mid].lo <= (uintptr_t)p) low = mid + 1;
        else high = mid;
    }
    return low && (uintptr_t)p < (uintptr_t)v[low - 1].hi ? &v[low - 1] : NULL;
}

/* the value that x is a view of; NULL: a constant */
static tinyi_tape_value *tinyi_tape_find(tiny_tape *t, const tiny_tensor *x)
{
    const unsigned char *p = (const unsigned char *)x->data;
    if (!x->data) return NULL;
    if (t->n_values && (uintptr_t)p >= (uintptr_t)t->base && (uintptr_t)p - (uintptr_t)t->base < t->size)
        return tinyi_tape_search(t->value, t->n_values, p);
    return tinyi_tape_search(t->held, t->n_params, p);
}

TINY_API tiny_tensor tiny_tape_new(tiny_tape *t, tiny_dtype type, int rank, const tiny_idx *dim)
{
    tiny_tensor y;
    tinyi_tape_value *v;
    memset(&y, 0, sizeof y);
    if (!t || t->status) return y;
    if (rank < 0 || rank > TINY_MAX_RANK || (rank && !dim)) {
        (void)TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                                            "tape: a new tensor of rank %d; it needs 0 to 4 and the dims", rank));
        return y;
    }
    if (tinyi_tape_grow(t->ctx, (void **)&t->value, t->n_values, &t->room_values, sizeof *t->value)) {
        t->status = tiny_ctx_status(t->ctx);
        return y;
    }
    y = tinyi_tape_fresh(t, type, rank, dim);
    if (!y.data) return y;
    v = &t->value[t->n_values++];
    memset(v, 0, sizeof *v);
    v->lo = (unsigned char *)y.data;
    v->hi = t->base + t->used;
    v->type = type;
    v->each = tiny_dtype_bytes(type);
    v->count = tiny_tensor_count(&y);
    v->maker = (size_t)-1;
    v->param = -1;
    return y;
}

TINY_API tiny_status tiny_tape_param(tiny_tape *t, const tiny_param *p)
{
    tinyi_tape_value v;
    size_t i, room;
    int k, same;
    if (!t) return TINY_E_ARGUMENT;
    if (t->status) return t->status;
    if (!p || tiny_tensor_check(&p->value) || tiny_tensor_check(&p->grad))
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tape: a parameter has no value or no gradient"));
    same = p->value.rank == p->grad.rank && tiny_tensor_is_dense(&p->value) && tiny_tensor_is_dense(&p->grad);
    for (k = 0; same && k < p->value.rank; k++) same = p->value.dim[k] == p->grad.dim[k];
    if (!same)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_SHAPE,
                                             "tape: parameter %.60s: value and gradient must be dense and have the "
                                             "same shape",
                                             p->name ? p->name : "?"));
    if (!tinyi_is_real(&p->grad) ||
        (p->value.dtype != p->grad.dtype &&
         !(p->grad.dtype == TINY_F32 && (p->value.dtype == TINY_F16 || p->value.dtype == TINY_BF16))))
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_DTYPE, "tape: parameter %.60s is %s with a gradient of %s",
                                             p->name ? p->name : "?", tiny_dtype_name(p->value.dtype),
                                             tiny_dtype_name(p->grad.dtype)));
    memset(&v, 0, sizeof v);
    v.lo = (unsigned char *)p->value.data;
    v.each = tiny_dtype_bytes(p->value.dtype);
    v.count = v.written = tiny_tensor_count(&p->value);
    v.hi = v.lo + (size_t)v.count * v.each;
    v.grad = (unsigned char *)p->grad.data;
    v.type = p->grad.dtype;
    v.needs = 1;
    if (!v.count) return TINY_OK;
    for (i = 0; i < t->n_params; i++) {
        if (t->held[i].lo == v.lo && t->held[i].hi == v.hi && t->held[i].grad == v.grad) return TINY_OK;
        if ((uintptr_t)t->held[i].lo < (uintptr_t)v.hi && (uintptr_t)v.lo < (uintptr_t)t->held[i].hi)
            return TINYI_TAPE_FAIL(t,
                                   tinyi_fail(t->ctx, TINY_E_ALIAS, "tape: the parameters %.60s and %.60s share memory",
                                              p->name ? p->name : "?",
                                              t->param[t->held[i].param].name ? t->param[t->held[i].param].name : "?"));
    }
    room = t->room_params;
    if (tinyi_tape_grow(t->ctx, (void **)&t->held, t->n_params, &room, sizeof *t->held) ||
        tinyi_tape_grow(t->ctx, (void **)&t->param, t->n_params, &t->room_params, sizeof *t->param)) {
        return t->status = tiny_ctx_status(t->ctx);
    }
    v.param = (int)t->n_params;
    t->param[t->n_params] = *p;
    for (i = t->n_params; i > 0 && (uintptr_t)t->held[i - 1].lo > (uintptr_t)v.lo; i--) t->held[i] = t->held[i - 1];
    t->held[i] = v;
    t->n_params++;
    return TINY_OK;
}

TINY_API void tiny_tape_zero(tiny_tape *t)
{
    size_t i;
    for (i = 0; t && i < t->n_params; i++) t->held[i].full = 0;
}

TINY_API void tiny_tape_keep(tiny_tape *t)
{
    size_t i;
    for (i = 0; t && i < t->n_params; i++) t->held[i].full = 1;
}

TINY_API tiny_tape_mark tiny_tape_now(const tiny_tape *t)
{
    tiny_tape_mark m = { 0, 0, 0 };
    if (!t) return m;
    m.nodes = t->n_nodes;
    m.values = t->n_values;
    m.used = t->used;
    return m;
}

static void tinyi_tape_back_to(tiny_tape *t, tiny_tape_mark m)
{
    t->n_nodes = TINYI_MIN(t->n_nodes, m.nodes);
    t->n_values = TINYI_MIN(t->n_values, m.values);
    tinyi_tape_drop(t, TINYI_MIN(t->used, m.used));
}

TINY_API void tiny_tape_release(tiny_tape *t, tiny_tape_mark m)
{
    if (!t) return;
    tinyi_tape_back_to(t, m);
    t->status = TINY_OK;
}

/* ---- recording */

static tinyi_tape_node *tinyi_tape_push(tiny_tape *t)
{
    if (t->n_nodes == t->n_blocks * TINYI_TAPE_BLOCK) {
        tinyi_tape_node **more = (tinyi_tape_node **)tinyi_alloc(t->ctx, t->n_blocks + 1, sizeof *more), *fresh;
        fresh = more ? (tinyi_tape_node *)tinyi_alloc(t->ctx, TINYI_TAPE_BLOCK, sizeof *fresh) : NULL;
        if (!fresh) {
            tiny_free(t->ctx, more);
            t->status = tiny_ctx_status(t->ctx);
            return NULL;
        }
        if (t->n_blocks) memcpy(more, t->block, t->n_blocks * sizeof *more);
        more[t->n_blocks++] = fresh;
        tiny_free(t->ctx, t->block);
        t->block = more;
    }
    return tinyi_tape_node_at(t, t->n_nodes++);
}

static int tinyi_tape_needs(tiny_tape *t, const tiny_tensor *x)
{
    const tinyi_tape_value *v = x && !t->no_grad ? tinyi_tape_find(t, x) : NULL;
    return v && v->needs;
}

/* May this operation write where it wants to? */
static tiny_status tinyi_tape_check_writes(tiny_tape *t, const tiny_op *op, const tiny_op_row *row)
{
    int i, j;
    for (i = 0; i < row->n_out; i++) {
        tinyi_tape_value *v = tinyi_tape_find(t, op->out[i]);
        if (!v) continue;
        if (v->param >= 0)
            return tinyi_fail(t->ctx, TINY_E_ALIAS, "tape: %s writes into the parameter %.60s", row->name,
                              t->param[v->param].name ? t->param[v->param].name : "?");
        if (v->read)
            return tinyi_fail(t->ctx, TINY_E_ALIAS,
                              "tape: %s writes into a tensor that an earlier operation has read", row->name);
        for (j = 0; j < row->n_in; j++)
            if (op->in[j] && tinyi_tape_find(t, op->in[j]) == v)
                return tinyi_fail(t->ctx, TINY_E_ALIAS,
                                  "tape: %s works in place; its input would be lost for the gradient", row->name);
        if (row->flags & TINY_OP_ACCUMULATES) continue;
        v->written += tiny_tensor_count(op->out[i]);
        if (v->written > v->count)
            return tinyi_fail(t->ctx, TINY_E_ALIAS, "tape: %s writes into a tensor that is already written", row->name);
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_tape_op(tiny_tape *t, const tiny_op *given, tiny_tensor *out)
{
    const tiny_op_row *row = t && given ? tinyi_op_row_in(t->ctx, given) : NULL;
    tiny_tensor in[TINY_OP_MAX_IN], made[TINY_OP_MAX_OUT], want[TINY_OP_MAX_OUT];
    tinyi_tape_node *n;
    tiny_op op;
    tiny_status st;
    int i, asked = 0, needs = 0;
    if (!t) return TINY_E_ARGUMENT;
    if (t->status) return t->status;
    if (!row)
        return TINYI_TAPE_FAIL(
            t, tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tape: operation kind %d is unknown", given ? given->kind : 0));
    op = *given;
    op.kind = row->kind;
    for (i = 0; i < row->n_in; i++)
        if (op.in[i]) {                     /* out may be where the caller keeps an input's struct */
            in[i] = *op.in[i];
            op.in[i] = &in[i];
        }
    memset(want, 0, sizeof want);
    for (i = 0; i < row->n_out; i++)
        if (!op.out[i]) asked = 1;
    if (asked || t->dry) {
        tiny_op bare = op;
        /* shapes only: data may not be there in a dry run */
        for (i = 0; i < TINY_OP_MAX_OUT; i++) bare.out[i] = NULL;
        st = tiny_op_shape(t->ctx, &bare, want);
        if (st) return t->status = st;
    }
    for (i = 0; i < row->n_out; i++) {
        if (op.out[i]) continue;
        made[i] = tiny_tape_new(t, want[i].dtype, want[i].rank, want[i].dim);
        if (t->status) return t->status;
        if (row->flags & TINY_OP_ACCUMULATES && !t->dry)
            memset(made[i].data, 0, (size_t)tiny_tensor_count(&made[i]) * tiny_dtype_bytes(made[i].dtype));
        op.out[i] = &made[i];
    }
    st = tinyi_tape_check_writes(t, &op, row);
    if (!st && !t->dry) st = tiny_run(t->ctx, &op);
    if (st) return t->status = st;
    for (i = 0; i < row->n_out; i++)
        if (out) out[i] = *op.out[i];
    for (i = 0; i < row->n_in; i++) needs |= tinyi_tape_needs(t, op.in[i]);
    if (!needs) return TINY_OK;
    n = tinyi_tape_push(t);
    if (!n) return t->status;
    n->row = row;
    n->fn = NULL;
    n->op = op;
    for (i = 0; i < row->n_in; i++)
        if (op.in[i]) {
            tinyi_tape_value *v = tinyi_tape_find(t, op.in[i]);
            n->in[i] = *op.in[i];
            n->op.in[i] = &n->in[i];
            if (v) v->read = 1;
        }
    for (i = 0; i < row->n_out; i++) {
        tinyi_tape_value *v = tinyi_tape_find(t, op.out[i]);
        n->out[i] = *op.out[i];
        n->op.out[i] = &n->out[i];
        if (!v)
            return TINYI_TAPE_FAIL(
                t, tinyi_fail(
                       t->ctx, TINY_E_ARGUMENT,
                       "tape: %s writes a result that depends on a parameter outside of the tape; use tiny_tape_new",
                       row->name));
        v->needs = 1;
        if (v->maker == (size_t)-1) v->maker = t->n_nodes - 1;
    }
    if (op.params && row->params_size) {
        memcpy(n->params.bytes, op.params, row->params_size);
        n->op.params = n->params.bytes;
    }
    return TINY_OK;
}

TINY_API tiny_tensor tiny_tape_call(tiny_tape *t, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const tiny_tensor *c, const tiny_tensor *d, const void *params)
{
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(out, 0, sizeof out);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = c;
    op.in[3] = d;
    op.params = params;
    if (tiny_tape_op(t, &op, out)) memset(out, 0, sizeof out[0]);
    return out[0];
}

/* ---- gradients of values */

/* the gradient of x: the same view of other memory */
static tiny_tensor tinyi_tape_mirror(const tinyi_tape_value *v, const tiny_tensor *x)
{
    tiny_tensor y = *x;
    y.dtype = v->type;
    y.data = v->grad + (size_t)((unsigned char *)x->data - v->lo) / v->each * tiny_dtype_bytes(v->type);
    return y;
}

static tiny_status tinyi_tape_room(tiny_tape *t, tinyi_tape_value *v)
{
    size_t bytes = (size_t)v->count * tiny_dtype_bytes(v->type), i, best = t->n_spare;
    if (v->grad) return TINY_OK;
    if (v < t->value + t->below)
        return TINYI_TAPE_FAIL(
            t, tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                          "tape: a segment reads a value of the tape that is not one of its inputs"));
    for (i = 0; i < t->n_spare; i++)
        if (t->spare[i].bytes >= bytes && t->spare[i].bytes / 2 <= bytes &&
            (best == t->n_spare || t->spare[i].bytes < t->spare[best].bytes))
            best = i;
    if (best < t->n_spare) {
        v->grad = t->spare[best].at;
        t->spare[best] = t->spare[--t->n_spare];
    } else v->grad = tinyi_tape_take(t, bytes);
    v->full = 0;
    return v->grad ? TINY_OK : t->status;
}

static tiny_status tinyi_tape_exec(tiny_tape *t, const tiny_op *op)
{
    tiny_status st;
    if (t->status) return t->status;
    st = t->dry ? TINY_OK : tiny_run(t->ctx, op);
    return st ? (t->status = st) : TINY_OK;
}

static tiny_status tinyi_tape_exec2(tiny_tape *t, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const void *params, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = y;
    op.params = params;
    return tinyi_tape_exec(t, &op);
}

/* sum over one axis, kept with length 1 */
static tiny_status tinyi_tape_sum(tiny_tape *t, tiny_tensor *x, int axis)
{
    tiny_reduce_params p = { 0, 0, 0 };
    tiny_idx dim[TINY_MAX_RANK];
    tiny_tensor y;
    tiny_status st;
    memcpy(dim, x->dim, sizeof dim);
    dim[axis] = 1;
    p.axis = x->rank - 1 - axis;
    p.keep = 1;
    y = tinyi_tape_fresh(t, x->dtype, x->rank, dim);
    if (!y.data) return t->status;
    st = tinyi_tape_exec2(t, TINY_OP_SUM, x, NULL, &p, &y);
    *x = y;
    return st;
}

static int tinyi_tape_covers(const tinyi_tape_value *v, const tiny_tensor *x)
{
    int i;
    for (i = 0; i < x->rank; i++)
        if (x->dim[i] > 1 && x->stride[i] == 0) return 0;
    return tiny_tensor_count(x) == v->count;
}

static int tinyi_tape_same_view(const tiny_tensor *a, const tiny_tensor *b)
{
    int i;
    if (a->data != b->data || a->rank != b->rank) return 0;
    for (i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] || (a->dim[i] > 1 && a->stride[i] != b->stride[i])) return 0;
    return 1;
}

/* dL/dx += given */
static tiny_status tinyi_tape_add_grad(tiny_tape *t, const tiny_tensor *x, const tiny_tensor *given)
{
    tinyi_tape_value *v = tinyi_tape_find(t, x);
    tiny_tensor dx = *given, to, view = *x;
    tiny_status st = TINY_OK;
    int i, extra = dx.rank - view.rank;
    if (!v || !v->needs || !tiny_tensor_count(x)) return t->status;
    if (extra < 0)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_SHAPE, "tape: a gradient has a lower rank than its input"));
    for (i = 0; !st && i < dx.rank; i++) {
        int own = i - extra;
        if (dx.dim[i] > 1 && (own < 0 || view.dim[own] == 1 || view.stride[own] == 0)) st = tinyi_tape_sum(t, &dx, i);
        if (own >= 0 && view.stride[own] == 0 && view.dim[own] > 1) view.dim[own] = 1;
    }
    if (st) return st;
    for (i = 0; i < view.rank; i++) {       /* the leading ones are of length 1 */
        dx.dim[i] = dx.dim[i + extra];
        dx.stride[i] = dx.stride[i + extra];
        if (dx.dim[i] != view.dim[i])
            return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_SHAPE,
                                                 "tape: a gradient has %td numbers along axis %d, its input %td",
                                                 dx.dim[i], i, view.dim[i]));
    }
    dx.rank = view.rank;
    to = tinyi_tape_mirror(v, &view);
    if (!v->full) {
        v->full = 1;
        if (tinyi_tape_covers(v, &view))
            return tinyi_tape_same_view(&dx, &to) ? TINY_OK : tinyi_tape_exec2(t, TINY_OP_COPY, &dx, NULL, NULL, &to);
        if (!t->dry) memset(v->grad, 0, (size_t)v->count * tiny_dtype_bytes(v->type));
    }
    return tinyi_tape_exec2(t, TINY_OP_ADD, &to, &dx, NULL, &to);
}

/* ---- what gradients call */

TINY_API const tiny_tensor *tiny_grad_of(tiny_grad *g, int i)
{
    return g && i >= 0 && i < TINY_OP_MAX_OUT && g->dout[i].data ? &g->dout[i] : NULL;
}
TINY_API int tiny_grad_wants(const tiny_grad *g, int i)
{
    return g && i >= 0 && i < TINY_OP_MAX_IN && tinyi_tape_needs(g->tape, g->node->op.in[i]);
}
TINY_API int tiny_grad_dry(const tiny_grad *g) { return g && g->tape->dry; }
TINY_API tiny_ctx *tiny_grad_ctx(const tiny_grad *g) { return g ? g->tape->ctx : NULL; }
TINY_API tiny_status tiny_grad_op(tiny_grad *g, const tiny_op *op)
{
    return g && op ? tinyi_tape_exec(g->tape, op) : TINY_E_ARGUMENT;
}

TINY_API tiny_status tiny_grad_new(tiny_grad *g, tiny_dtype type, int rank, const tiny_idx *dim, tiny_tensor *y)
{
    if (!g || !y) return TINY_E_ARGUMENT;
    *y = tinyi_tape_fresh(g->tape, type, rank, dim);
    return g->tape->status;
}

static void tinyi_grad_fill(tiny_op *op, int kind, const tiny_tensor *a, const tiny_tensor *b, const void *params)
{
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->in[0] = a;
    op->in[1] = b;
    op->params = params;
}

TINY_API tiny_status tiny_grad_run(tiny_grad *g, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                   const void *params, tiny_tensor *y)
{
    tiny_tensor want[TINY_OP_MAX_OUT];
    tiny_op op;
    tiny_status st;
    if (!g || !y) return TINY_E_ARGUMENT;
    memset(y, 0, sizeof *y);
    if (g->tape->status) return g->tape->status;
    memset(want, 0, sizeof want);
    tinyi_grad_fill(&op, kind, a, b, params);
    st = tiny_op_shape(g->tape->ctx, &op, want);
    if (st) return g->tape->status = st;
    st = tiny_grad_new(g, want[0].dtype, want[0].rank, want[0].dim, y);
    op.out[0] = y;
    return st ? st : tinyi_tape_exec(g->tape, &op);
}

TINY_API tiny_status tiny_grad_add(tiny_grad *g, int i, const tiny_tensor *dx)
{
    if (!g || !dx) return TINY_E_ARGUMENT;
    return tiny_grad_wants(g, i) ? tinyi_tape_add_grad(g->tape, g->node->op.in[i], dx) : g->tape->status;
}

tiny_status tinyi_grad_put(tiny_grad *g, const tiny_tensor *view, const tiny_tensor *dx)
{
    return tinyi_tape_add_grad(g->tape, view, dx);
}
size_t tinyi_grad_scratch(tiny_grad *g) { return g->tape->used; }
void tinyi_grad_drop(tiny_grad *g, size_t used) { tinyi_tape_drop(g->tape, used); }

tiny_status tinyi_grad_begin(tiny_grad *g, const tiny_tensor *view, tiny_tensor *sum)
{
    tinyi_tape_value *v = tinyi_tape_find(g->tape, view);
    if (!v->full && !g->tape->dry) memset(v->grad, 0, (size_t)v->count * tiny_dtype_bytes(v->type));
    v->full = 1;
    *sum = tinyi_tape_mirror(v, view);
    return g->tape->status;
}

tiny_status tinyi_grad_make(tiny_grad *g, const tiny_tensor *x, int kind, const tiny_tensor *a, const tiny_tensor *b,
                            const void *params)
{
    tinyi_tape_value *v = tinyi_tape_find(g->tape, x);
    tiny_tensor want[TINY_OP_MAX_OUT], y;
    tiny_op op;
    tiny_status st;
    int k, same;
    if (g->tape->status) return g->tape->status;
    memset(want, 0, sizeof want);
    tinyi_grad_fill(&op, kind, a, b, params);
    st = tiny_op_shape(g->tape->ctx, &op, want);
    if (st) return g->tape->status = st;
    same = v && v->needs && v->grad && !v->full && tinyi_tape_covers(v, x) && want[0].rank == x->rank &&
           want[0].dtype == v->type;
    for (k = 0; same && k < x->rank; k++) same = want[0].dim[k] == x->dim[k];
    if (same) y = tinyi_tape_mirror(v, x);
    else st = tiny_grad_new(g, want[0].dtype, want[0].rank, want[0].dim, &y);
    op.out[0] = &y;
    if (!st) st = tinyi_tape_exec(g->tape, &op);
    return st ? st : tinyi_tape_add_grad(g->tape, x, &y);
}

TINY_API tiny_status tiny_grad_give(tiny_grad *g, int i, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const void *params)
{
    if (!g) return TINY_E_ARGUMENT;
    return tiny_grad_wants(g, i) ? tinyi_grad_make(g, g->node->op.in[i], kind, a, b, params) : g->tape->status;
}

/* ---- backward */

static tiny_status tinyi_tape_walk(tiny_tape *t, size_t down_to);

static tiny_status tinyi_tape_walk_segment(tiny_tape *t, const tinyi_tape_node *n)
{
    tiny_tape_mark mark = tiny_tape_now(t);
    tiny_tensor in[TINY_SEGMENT_MOST], out[TINY_SEGMENT_MOST];
    const size_t below = t->below;
    tiny_status st;
    int i;
    memset(out, 0, sizeof out);
    memcpy(in, n->in, sizeof in);
    st = n->fn(t, n->user, in, out);
    if (!st) st = t->status;
    if (st) return TINYI_TAPE_FAIL(t, st);
    for (i = 0; !st && i < n->n_out; i++) {
        tinyi_tape_value *v = tinyi_tape_find(t, &n->out[i]), *again = tinyi_tape_find(t, &out[i]);
        tiny_tensor dy;
        if (!v->full || !again || !again->needs) continue;
        dy = tinyi_tape_mirror(v, &n->out[i]);
        st = tinyi_tape_room(t, again);
        if (!st) st = tinyi_tape_add_grad(t, &out[i], &dy);
    }
    t->below = mark.values;
    if (!st) st = tinyi_tape_walk(t, mark.nodes);
    t->below = below;
    tinyi_tape_back_to(t, mark);
    return st;
}

static tiny_status tinyi_tape_walk_one(tiny_tape *t, size_t i)
{
    const tinyi_tape_node *n = tinyi_tape_node_at(t, i);
    const int n_in = n->row ? n->row->n_in : n->n_in, n_out = n->row ? n->row->n_out : n->n_out;
    tiny_status st = TINY_OK;
    size_t used;
    int k, flows = 0;
    for (k = 0; k < n_out; k++) flows |= tinyi_tape_find(t, &n->out[k])->full;
    if (flows) {
        if (n->row && !n->row->grad)
            return TINYI_TAPE_FAIL(
                t,
                tinyi_fail(t->ctx, TINY_E_UNSUPPORTED,
                           "tape: %s has no gradient, and the result depends on a parameter through it (operation %zu)",
                           n->row->name, i));
        for (k = 0; !st && k < n_in; k++)
            if ((!n->row || n->op.in[k]) && tinyi_tape_needs(t, &n->in[k]))
                st = tinyi_tape_room(t, tinyi_tape_find(t, &n->in[k]));
        used = t->used;
        if (!st && n->row) {
            tiny_grad g;
            memset(&g, 0, sizeof g);
            g.tape = t;
            g.node = n;
            for (k = 0; k < n_out; k++) {
                const tinyi_tape_value *v = tinyi_tape_find(t, &n->out[k]);
                if (v->full) g.dout[k] = tinyi_tape_mirror(v, &n->out[k]);
            }
            st = n->row->grad(&g, &n->op);
            if (!st) st = t->status;
            else (void)TINYI_TAPE_FAIL(t, st);
            tinyi_tape_drop(t, used);
        } else if (!st) st = tinyi_tape_walk_segment(t, n);
    }
    for (k = 0; k < n_out; k++) {           /* the gradient of what this operation was the first to write is used up */
        tinyi_tape_value *v = tinyi_tape_find(t, &n->out[k]);
        if (v->maker != i || !v->grad) continue;
        if (t->n_spare < TINYI_TAPE_FREE && v->count) {
            t->spare[t->n_spare].at = v->grad;
            t->spare[t->n_spare++].bytes = (size_t)v->count * tiny_dtype_bytes(v->type);
        }
        v->grad = NULL;
        v->full = 0;
    }
    return st;
}

static tiny_status tinyi_tape_walk(tiny_tape *t, size_t down_to)
{
    size_t i;
    tiny_status st = TINY_OK;
    for (i = t->n_nodes; !st && i > down_to; i--) st = tinyi_tape_walk_one(t, i - 1);
    return st;
}

TINY_REF_BEGIN
static int tinyi_tape_finite(const tiny_tensor *x)
{
    tiny_idx i, n = tiny_tensor_count(x);
    if (!tinyi_is_real(x)) return 1;
    for (i = 0; i < n; i++) {
        double v = tinyi_real(x->data, x->dtype, tinyi_walk_element(x, i));
        if (!(v - v == 0.0)) return 0;
    }
    return 1;
}
TINY_REF_END

static tiny_status tinyi_tape_blame(tiny_tape *t, double y)
{
    char text[96];
    size_t i;
    int k;
    for (i = 0; i < t->n_params; i++)
        if (!tinyi_tape_finite(&t->param[i].value))
            return tinyi_fail(t->ctx, TINY_E_NUMERIC,
                              "tape: the loss is %g: the parameter %.80s holds a number that is not finite", y,
                              t->param[i].name ? t->param[i].name : "?");
    for (i = 0; i < t->n_nodes; i++) {
        const tinyi_tape_node *n = tinyi_tape_node_at(t, i);
        for (k = 0; n->row && k < n->row->n_in; k++)
            if (n->op.in[k] && !tinyi_tape_needs(t, n->op.in[k]) && !tinyi_tape_finite(n->op.in[k]))
                return tinyi_fail(t->ctx, TINY_E_NUMERIC,
                                  "tape: the loss is %g: input %d of %s (operation %zu, %s), a constant, holds a "
                                  "number that is not finite",
                                  y, k, n->row->name, i, tinyi_shape_text(n->op.in[k], text));
        for (k = 0; k < (n->row ? n->row->n_out : n->n_out); k++)
            if (!tinyi_tape_finite(&n->out[k]))
                return tinyi_fail(
                    t->ctx, TINY_E_NUMERIC,
                    "tape: the loss is %g: the first number that is not finite comes from %s (operation %zu, %s)", y,
                    n->row ? n->row->name : "a segment", i, tinyi_shape_text(&n->out[k], text));
    }
    return tinyi_fail(t->ctx, TINY_E_NUMERIC, "tape: the loss is %g", y);
}

TINY_API tiny_status tiny_tape_backward(tiny_tape *t, const tiny_tensor *y, const tiny_tensor *dy)
{
    tinyi_tape_value *v;
    tiny_tensor one;
    char text[96], other[96];
    double value = 1.0, unit64 = 1.0;
    float unit = 1.0f;
    size_t i, used;
    tiny_status st;
    int k, same;
    if (!t) return TINY_E_ARGUMENT;
    if (t->status) return t->status;
    if (t->walking || t->no_grad)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                                             t->walking ? "tape: backward is called inside a backward pass"
                                                        : "tape: this one records nothing (no_grad)"));
    if (!y || tiny_tensor_check(y))
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tape: the result is missing"));
    v = tinyi_tape_find(t, y);
    if (!v || !v->needs)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tape: the result (%s) depends on no parameter",
                                             tinyi_shape_text(y, text)));
    if (!dy && tiny_tensor_count(y) != 1)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_SHAPE,
                                             "tape: backward from %s; without dy the result must be a single number",
                                             tinyi_shape_text(y, text)));
    if (dy) {
        same = dy->rank == y->rank && dy->dtype == v->type;
        for (k = 0; same && k < y->rank; k++) same = dy->dim[k] == y->dim[k];
        if (!same || tiny_tensor_check(dy))
            return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_SHAPE,
                                                 "tape: y is %s and dy is %s; type and shape must be the same",
                                                 tinyi_shape_text(y, text), tinyi_shape_text(dy, other)));
    } else {
        one = *y;
        one.data = y->dtype == TINY_F64 ? (void *)&unit64 : (void *)&unit;
        dy = &one;
        if (!t->dry) value = tinyi_real(y->data, y->dtype, 0);
        if (!(value - value == 0.0)) return TINYI_TAPE_FAIL(t, tinyi_tape_blame(t, value));
    }
    used = t->used;
    t->below = 0;
    t->walking = 1;
    st = tinyi_tape_room(t, v);
    if (!st) st = tinyi_tape_add_grad(t, y, dy);
    if (!st) st = tinyi_tape_walk(t, 0);
    t->walking = 0;
    t->n_spare = 0;
    for (i = 0; i < t->n_values; i++) {
        t->value[i].grad = NULL;
        t->value[i].full = 0;
    }
    tinyi_tape_drop(t, used);
    for (i = 0; i < t->n_params; i++) {     /* no gradient is a gradient of zeros */
        tinyi_tape_value *p = &t->held[i];
        if (p->full) continue;
        if (!t->dry) memset(p->grad, 0, (size_t)p->count * tiny_dtype_bytes(p->type));
        p->full = 1;
    }
    return st;
}

TINY_API tiny_tensor tiny_tape_grad(tiny_tape *t, const tiny_tensor *x)
{
    const tinyi_tape_value *v = t && x ? tinyi_tape_find(t, x) : NULL;
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    return v && v->param >= 0 ? tinyi_tape_mirror(v, x) : none;
}

TINY_API tiny_status tiny_tape_segment(tiny_tape *t, tiny_segment_fn fn, void *user, int n_in, const tiny_tensor *in,
                                       int n_out, tiny_tensor *out)
{
    tiny_tensor inner[TINY_SEGMENT_MOST];
    unsigned char *keep = NULL;
    tiny_tape_mark mark;
    size_t bytes = 0, at = 0;
    tinyi_tape_node *n;
    tiny_status st;
    int i, before;
    if (!t) return TINY_E_ARGUMENT;
    if (t->status) return t->status;
    if (!fn || !in || !out || n_in < 0 || n_out < 1 || n_in > TINY_SEGMENT_MOST || n_out > TINY_SEGMENT_MOST)
        return TINYI_TAPE_FAIL(t, tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                                             "tape: a segment has up to %d inputs and 1 to %d outputs, not %d and %d",
                                             TINY_SEGMENT_MOST, TINY_SEGMENT_MOST, n_in, n_out));
    memset(inner, 0, sizeof inner);
    mark = tiny_tape_now(t);
    before = t->no_grad;
    t->no_grad = 1;
    st = fn(t, user, in, inner);
    t->no_grad = before;
    if (!st) st = t->status;
    for (i = 0; !st && i < n_out; i++) {
        if (!inner[i].data || tiny_tensor_check(&inner[i]) || !tiny_tensor_is_dense(&inner[i]))
            st = tinyi_fail(t->ctx, TINY_E_ARGUMENT, "tape: output %d of a segment is missing or not dense", i);
        else bytes += (size_t)tiny_tensor_count(&inner[i]) * tiny_dtype_bytes(inner[i].dtype);
    }
    if (!st && !t->dry) {                   /* the outputs lie among the values that go away */
        keep = (unsigned char *)tinyi_alloc(t->ctx, bytes, 1);
        if (!keep) st = tiny_ctx_status(t->ctx);
    }
    for (i = 0; !st && !t->dry && i < n_out; i++) {
        size_t b = (size_t)tiny_tensor_count(&inner[i]) * tiny_dtype_bytes(inner[i].dtype);
        if (b) memcpy(keep + at, inner[i].data, b);
        at += b;
    }
    if (!st) tinyi_tape_back_to(t, mark);
    for (i = 0, at = 0; !st && i < n_out; i++) {
        size_t b = (size_t)tiny_tensor_count(&inner[i]) * tiny_dtype_bytes(inner[i].dtype);
        out[i] = tiny_tape_new(t, inner[i].dtype, inner[i].rank, inner[i].dim);
        st = t->status;
        if (!st && !t->dry && b) memcpy(out[i].data, keep + at, b);
        at += b;
    }
    tiny_free(t->ctx, keep);
    if (st) return TINYI_TAPE_FAIL(t, st);
    if (t->no_grad || !t->n_params) return TINY_OK;
    n = tinyi_tape_push(t);
    if (!n) return t->status;
    memset(&n->op, 0, sizeof n->op);
    n->row = NULL;
    n->fn = fn;
    n->user = user;
    n->n_in = n_in;
    n->n_out = n_out;
    for (i = 0; i < n_in; i++) {
        tinyi_tape_value *v = tinyi_tape_find(t, &in[i]);
        n->in[i] = in[i];
        if (v) v->read = 1;
    }
    for (i = 0; i < n_out; i++) {
        tinyi_tape_value *v = tinyi_tape_find(t, &out[i]);
        n->out[i] = out[i];
        v->needs = 1;
        v->written = v->count;
        v->maker = t->n_nodes - 1;
    }
    return TINY_OK;
}
