/* src/gnn/equivariant/product_code.c - programs of products: built row by row, reversed into gradients, packed
 *
 * Reverse: the adjoint of a register is the sum, over the rows that read it, of the adjoint of what they write times
 * the rest of their terms. Registers are taken by their last row, from the end: then the adjoints of all that read
 * them are complete. Each adjoint is at most two rows, one of them linear.
 * Packing: a register that no later row reads is given to the next one, so that few stay in the first cache. */
#include <string.h>
#include "gnn/equivariant/product_inside.h"
#include "core/mem.h"

void tinyi_pc_begin(tinyi_pc *pc, tiny_ctx *ctx, int n_x, int n_y, int n_w, int n_g)
{
    memset(pc, 0, sizeof *pc);
    pc->ctx = ctx;
    pc->head[TINYI_PC_X] = n_x;
    pc->head[TINYI_PC_Y] = n_y;
    pc->head[TINYI_PC_W] = n_w;
    pc->head[TINYI_PC_G] = n_g;
    pc->n_regs = n_x + n_y + n_w + n_g;
}

void tinyi_pc_free(tinyi_pc *pc)
{
    if (!pc->ctx) return;
    tiny_free(pc->ctx, pc->row);
    tiny_free(pc->ctx, pc->term);
    tiny_free(pc->ctx, pc->coef);
    memset(pc, 0, sizeof *pc);
}

static int tinyi_pc_inputs(const tinyi_pc *pc)
{
    return pc->head[TINYI_PC_X] + pc->head[TINYI_PC_Y] + pc->head[TINYI_PC_W] + pc->head[TINYI_PC_G];
}

/* room for one more of *data, of n now, each of `bytes` */
static int tinyi_pc_grow(tinyi_pc *pc, void **data, size_t n, size_t room, size_t bytes)
{
    void *more;
    if (pc->st) return 0;
    more = tinyi_alloc(pc->ctx, room, bytes);
    if (!more) {
        pc->st = tiny_ctx_status(pc->ctx);
        return 0;
    }
    if (n) memcpy(more, *data, n * bytes);
    tiny_free(pc->ctx, *data);
    *data = more;
    return 1;
}

int tinyi_pc_regs(tinyi_pc *pc, int n)
{
    const int first = pc->n_regs;
    if (pc->st) return 0;
    if (n > INT32_MAX - first) {
        pc->st = tinyi_fail(pc->ctx, TINY_E_OVERFLOW, "product: the plan has too many numbers for a channel");
        return 0;
    }
    pc->n_regs += n;
    return first;
}

void tinyi_pc_row(tinyi_pc *pc, int to, int form)
{
    int32_t *r;
    if (pc->st) return;
    if (pc->n_rows == pc->row_room) {
        void *data = pc->row;
        const size_t room = pc->row_room ? 2 * pc->row_room : 256;
        if (!tinyi_pc_grow(pc, &data, pc->n_rows, room, 4 * sizeof *pc->row)) return;
        pc->row = (int32_t *)data;
        pc->row_room = room;
    }
    r = pc->row + 4 * pc->n_rows++;
    r[0] = to;
    r[1] = form | TINYI_PC_ONES;
    r[2] = r[3] = (int32_t)pc->n_terms;
}

void tinyi_pc_term(tinyi_pc *pc, double coef, int a, int b)
{
    if (pc->st) return;
    if (pc->n_terms == pc->term_room) {
        void *term = pc->term, *value = pc->coef;
        const size_t room = pc->term_room ? 2 * pc->term_room : 1024;
        if (room > INT32_MAX / 2) {
            pc->st = tinyi_fail(pc->ctx, TINY_E_OVERFLOW, "product: the plan has too many terms");
            return;
        }
        if (!tinyi_pc_grow(pc, &term, pc->n_terms, room, 2 * sizeof *pc->term)) return;
        pc->term = (int32_t *)term;
        if (!tinyi_pc_grow(pc, &value, pc->n_terms, room, sizeof *pc->coef)) return;
        pc->coef = (double *)value;
        pc->term_room = room;
    }
    pc->term[2 * pc->n_terms] = a;
    pc->term[2 * pc->n_terms + 1] = b < 0 ? 0 : b;
    pc->coef[pc->n_terms++] = coef;
    pc->row[4 * pc->n_rows - 1] = (int32_t)pc->n_terms;
    if (coef != 1.0) pc->row[4 * pc->n_rows - 3] &= ~TINYI_PC_ONES;
}

void tinyi_pc_set_out(tinyi_pc *pc, int first, int n)
{
    pc->out = first;
    pc->n_out = n;
}

double tinyi_pc_operations(const tinyi_pc *pc)
{
    double n = 0.0;
    size_t r;
    for (r = 0; r < pc->n_rows; r++) {
        const int form = pc->row[4 * r + 1];
        n += (double)(pc->row[4 * r + 3] - pc->row[4 * r + 2]) *
             (form & TINYI_PC_PAIRS && !(form & TINYI_PC_ONES) ? 2.0 : 1.0);
    }
    return n;
}

/* ---- reverse */

/* Where each register is read: use[start[s] .. start[s + 1]] are terms, twice as many as the row if it is the second
 * of a pair; row_of gives the row of a term. */
typedef struct tinyi_pc_uses { size_t *start, *use; int32_t *row_of, *last, *order, *adjoint; } tinyi_pc_uses;

static void tinyi_pc_uses_free(tiny_ctx *ctx, tinyi_pc_uses *u)
{
    tiny_free(ctx, u->start);
    tiny_free(ctx, u->use);
    tiny_free(ctx, u->row_of);
    tiny_free(ctx, u->last);
    tiny_free(ctx, u->order);
    tiny_free(ctx, u->adjoint);
}

static tiny_status tinyi_pc_uses_make(tiny_ctx *ctx, const tinyi_pc *pc, tinyi_pc_uses *u)
{
    const size_t n = (size_t)pc->n_regs;
    size_t r, s, t;
    memset(u, 0, sizeof *u);
    u->start = (size_t *)tinyi_alloc(ctx, n + 2, sizeof *u->start);
    if (u->start) u->use = (size_t *)tinyi_alloc(ctx, 2 * pc->n_terms + 1, sizeof *u->use);
    if (u->use) u->row_of = (int32_t *)tinyi_alloc(ctx, pc->n_terms + 1, sizeof *u->row_of);
    if (u->row_of) u->last = (int32_t *)tinyi_alloc(ctx, n + 1, sizeof *u->last);
    if (u->last) u->order = (int32_t *)tinyi_alloc(ctx, n + 1, sizeof *u->order);
    if (u->order) u->adjoint = (int32_t *)tinyi_alloc(ctx, n + 1, sizeof *u->adjoint);
    if (!u->adjoint) return tiny_ctx_status(ctx);
    memset(u->start, 0, (n + 2) * sizeof *u->start);
    for (s = 0; s < n; s++) u->last[s] = u->adjoint[s] = -1;
    for (r = 0; r < pc->n_rows; r++) {
        const int32_t *row = pc->row + 4 * r;
        u->last[row[0]] = (int32_t)r;
        for (t = (size_t)row[2]; t < (size_t)row[3]; t++) {
            u->row_of[t] = (int32_t)r;
            u->start[pc->term[2 * t] + 2]++;
            if (row[1] & TINYI_PC_PAIRS) u->start[pc->term[2 * t + 1] + 2]++;
        }
    }
    for (s = 2; s < n + 2; s++) u->start[s] += u->start[s - 1];
    for (r = 0; r < pc->n_rows; r++) {
        const int32_t *row = pc->row + 4 * r;
        for (t = (size_t)row[2]; t < (size_t)row[3]; t++) {
            u->use[u->start[pc->term[2 * t] + 1]++] = 2 * t;
            if (row[1] & TINYI_PC_PAIRS) u->use[u->start[pc->term[2 * t + 1] + 1]++] = 2 * t + 1;
        }
    }
    return TINY_OK;
}

/* the adjoint of register s of `from` into register to */
static void tinyi_pc_adjoint(tinyi_pc *pc, const tinyi_pc *from, const tinyi_pc_uses *u, int s, int to)
{
    int pass, rows = 0;
    size_t i;
    for (pass = 0; pass < 2; pass++) {
        int open = 0;
        for (i = u->start[s]; i < u->start[s + 1]; i++) {
            const size_t t = u->use[i] / 2;
            const int32_t *row = from->row + 4 * u->row_of[t];
            const int pairs = (row[1] & TINYI_PC_PAIRS) != 0, other = from->term[2 * t + (u->use[i] & 1 ? 0 : 1)];
            if (pairs != pass || u->adjoint[row[0]] < 0) continue;
            if (!open) tinyi_pc_row(pc, to, (pass ? TINYI_PC_PAIRS : 0) | (rows++ ? TINYI_PC_ADD : 0));
            open = 1;
            if (pairs) tinyi_pc_term(pc, from->coef[t], u->adjoint[row[0]], other);
            else tinyi_pc_term(pc, from->coef[t], u->adjoint[row[0]], -1);
        }
    }
    if (!rows) tinyi_pc_row(pc, to, 0);     /* nothing reads it: 0 */
}

void tinyi_pc_reverse(tinyi_pc *pc, const tinyi_pc *from)
{
    const int n_in = tinyi_pc_inputs(from);
    tiny_ctx *ctx = from->ctx;
    tinyi_pc_uses u;
    size_t r, t, n_order = 0, i;
    int s, g;
    tinyi_pc_begin(pc, ctx, from->head[TINYI_PC_X], from->head[TINYI_PC_Y], from->head[TINYI_PC_W], from->n_out);
    pc->st = tinyi_pc_uses_make(ctx, from, &u);
    /* the registers of `from` keep their numbers, but those after the inputs move by the numbers of g */
    g = n_in;
    (void)tinyi_pc_regs(pc, from->n_regs - n_in);
    if (pc->st) {
        tinyi_pc_uses_free(ctx, &u);
        return;
    }
#define TINYI_PC_MOVED(q) ((q) < n_in ? (q) : (q) + from->n_out)
    for (r = 0; r < from->n_rows; r++) {    /* forward once more, without the results */
        const int32_t *row = from->row + 4 * r;
        if (row[0] >= from->out && row[0] < from->out + from->n_out) continue;
        tinyi_pc_row(pc, TINYI_PC_MOVED(row[0]), row[1] & (TINYI_PC_PAIRS | TINYI_PC_ADD));
        for (t = (size_t)row[2]; t < (size_t)row[3]; t++)
            tinyi_pc_term(pc, from->coef[t], TINYI_PC_MOVED(from->term[2 * t]),
                          row[1] & TINYI_PC_PAIRS ? TINYI_PC_MOVED(from->term[2 * t + 1]) : -1);
    }
    for (s = 0; s < from->n_out; s++) u.adjoint[from->out + s] = g + s;
    for (r = from->n_rows; r-- > 0;) {      /* registers by their last row, from the end */
        const int32_t to = from->row[4 * r];
        if (u.last[to] == (int32_t)r && !(to >= from->out && to < from->out + from->n_out)) u.order[n_order++] = to;
    }
    {
        /* the other factors of pairs have moved too */
        tinyi_pc moved = *from;
        moved.term = (int32_t *)tinyi_alloc(ctx, 2 * from->n_terms + 1, sizeof *moved.term);
        if (!moved.term) pc->st = tiny_ctx_status(ctx);
        for (t = 0; moved.term && t < 2 * from->n_terms; t++) moved.term[t] = TINYI_PC_MOVED(from->term[t]);
        for (i = 0; !pc->st && i < n_order; i++) {
            const int reg = tinyi_pc_regs(pc, 1);
            tinyi_pc_adjoint(pc, &moved, &u, u.order[i], reg);
            u.adjoint[u.order[i]] = reg;
        }
        if (!pc->st) {
            const int n_inputs = from->head[TINYI_PC_X] + from->head[TINYI_PC_Y] + from->head[TINYI_PC_W],
                      first = tinyi_pc_regs(pc, n_inputs);
            for (s = 0; s < n_inputs; s++) tinyi_pc_adjoint(pc, &moved, &u, s, first + s);
            tinyi_pc_set_out(pc, first, n_inputs);
        }
        tiny_free(ctx, moved.term);
    }
#undef TINYI_PC_MOVED
    tinyi_pc_uses_free(ctx, &u);
}

/* ---- packing */

static void tinyi_pc_needed(const tinyi_pc *pc, uint8_t *needed)
{
    size_t r, t;
    int s;
    for (s = 0; s < pc->n_regs; s++) needed[s] = s >= pc->out && s < pc->out + pc->n_out;
    for (r = pc->n_rows; r-- > 0;) {        /* rows that add come after the first, and readers after both */
        const int32_t *row = pc->row + 4 * r;
        if (!needed[row[0]]) continue;
        for (t = (size_t)row[2]; t < (size_t)row[3]; t++) {
            needed[pc->term[2 * t]] = 1;
            if (row[1] & TINYI_PC_PAIRS) needed[pc->term[2 * t + 1]] = 1;
        }
    }
}

/* last[s]: the last row that reads or writes s; -1 for none */
static void tinyi_pc_last(const tinyi_pc *pc, const uint8_t *needed, int32_t *last)
{
    size_t r, t;
    int s;
    for (s = 0; s < pc->n_regs; s++) last[s] = -1;
    for (r = 0; r < pc->n_rows; r++) {
        const int32_t *row = pc->row + 4 * r;
        if (!needed[row[0]]) continue;
        last[row[0]] = (int32_t)r;
        for (t = (size_t)row[2]; t < (size_t)row[3]; t++) {
            last[pc->term[2 * t]] = (int32_t)r;
            if (row[1] & TINYI_PC_PAIRS) last[pc->term[2 * t + 1]] = (int32_t)r;
        }
    }
}

/* what packing works with; code and coef are the result */
typedef struct tinyi_pc_pack {
    uint8_t *needed;
    int32_t *last, *at, *spare, *code;      /* at: the new number of a register, -1: none yet */
    int32_t *number;                        /* (n_terms, 2): the terms in new numbers */
    double *coef;
    float *coef_f32;
} tinyi_pc_pack;

static int tinyi_pc_release(tinyi_pc_pack *k, int n_spare, int s, int n_in, int32_t r)
{
    if (s < n_in || k->last[s] != r || k->at[s] < 0) return n_spare;
    k->last[s] = -1;                        /* once */
    k->spare[n_spare] = k->at[s];
    return n_spare + 1;
}

static tiny_status tinyi_pc_pack_open(const tinyi_pc *pc, tinyi_pc_pack *k)
{
    const size_t n = (size_t)pc->n_regs + 1;
    memset(k, 0, sizeof *k);
    k->needed = (uint8_t *)tinyi_alloc(pc->ctx, n, 1);
    if (k->needed) k->last = (int32_t *)tinyi_alloc(pc->ctx, n, sizeof *k->last);
    if (k->last) k->at = (int32_t *)tinyi_alloc(pc->ctx, n, sizeof *k->at);
    if (k->at) k->spare = (int32_t *)tinyi_alloc(pc->ctx, n, sizeof *k->spare);
    if (k->spare) k->number = (int32_t *)tinyi_alloc(pc->ctx, 2 * pc->n_terms + 1, sizeof *k->number);
    if (k->number)
        k->code = (int32_t *)tinyi_alloc(pc->ctx, TINYI_PC_HEAD + 4 * pc->n_rows + 2 * pc->n_terms, sizeof *k->code);
    if (k->code) k->coef = (double *)tinyi_alloc(pc->ctx, pc->n_terms + 1, sizeof *k->coef);
    if (k->coef) k->coef_f32 = (float *)tinyi_alloc(pc->ctx, pc->n_terms + 1, sizeof *k->coef_f32);
    return k->coef_f32 ? TINY_OK : tiny_ctx_status(pc->ctx);
}

static void tinyi_pc_pack_run(const tinyi_pc *pc, tinyi_pc_pack *k)
{
    const int n_in = tinyi_pc_inputs(pc);
    int32_t *row = k->code + TINYI_PC_HEAD, *term;
    int n_spare = 0, high = n_in, s;
    size_t r, t, n_rows = 0, n_terms = 0;
    tinyi_pc_needed(pc, k->needed);
    tinyi_pc_last(pc, k->needed, k->last);
    for (s = 0; s < pc->n_regs; s++) k->at[s] = s < n_in ? s : -1;
    for (r = 0; r < pc->n_rows; r++) {
        const int32_t *from = pc->row + 4 * r;
        const int is_out = from[0] >= pc->out && from[0] < pc->out + pc->n_out;
        if (!k->needed[from[0]]) continue;
        if (!is_out && k->at[from[0]] < 0) k->at[from[0]] = n_spare ? k->spare[--n_spare] : high++;
        row[4 * n_rows] = k->at[from[0]];   /* of a result: known at the end */
        row[4 * n_rows + 1] = from[1];
        row[4 * n_rows + 2] = (int32_t)n_terms;
        for (t = (size_t)from[2]; t < (size_t)from[3]; t++) {
            k->number[2 * t] = k->at[pc->term[2 * t]];
            k->number[2 * t + 1] = from[1] & TINYI_PC_PAIRS ? k->at[pc->term[2 * t + 1]] : 0;
            k->coef[n_terms] = pc->coef[t];
            k->coef_f32[n_terms++] = (float)pc->coef[t];
        }
        row[4 * n_rows + 3] = (int32_t)n_terms;
        n_rows++;
        for (t = (size_t)from[2]; t < (size_t)from[3]; t++) {
            n_spare = tinyi_pc_release(k, n_spare, pc->term[2 * t], n_in, (int32_t)r);
            if (from[1] & TINYI_PC_PAIRS)
                n_spare = tinyi_pc_release(k, n_spare, pc->term[2 * t + 1], n_in, (int32_t)r);
        }
    }
    term = row + 4 * n_rows;
    for (r = 0, n_rows = 0, n_terms = 0; r < pc->n_rows; r++) {
        const int32_t *from = pc->row + 4 * r;
        if (!k->needed[from[0]]) continue;
        if (from[0] >= pc->out && from[0] < pc->out + pc->n_out) row[4 * n_rows] = high + from[0] - pc->out;
        n_rows++;
        for (t = (size_t)from[2]; t < (size_t)from[3]; t++, n_terms++) {
            term[2 * n_terms] = k->number[2 * t];
            term[2 * n_terms + 1] = k->number[2 * t + 1];
        }
    }
    for (s = 0; s < TINYI_PC_HEAD; s++) k->code[s] = pc->head[s];
    k->code[TINYI_PC_REGS] = high + pc->n_out;
    k->code[TINYI_PC_OUT] = pc->n_out;
    k->code[TINYI_PC_ROWS] = (int32_t)n_rows;
    k->code[TINYI_PC_TERMS] = (int32_t)n_terms;
}

tiny_status tinyi_pc_finish(const tinyi_pc *pc, tinyi_program *to)
{
    tinyi_pc_pack k;
    tiny_status st = pc->st;
    memset(to, 0, sizeof *to);
    if (st) return st;
    st = tinyi_pc_pack_open(pc, &k);
    if (!st) tinyi_pc_pack_run(pc, &k);
    if (!st && k.code[TINYI_PC_REGS] > TGNN_PRODUCT_REGISTERS)
        st = tinyi_fail(pc->ctx, TINY_E_UNSUPPORTED,
                        "product: the plan needs %d numbers for a channel, at most %d are possible: take lower degrees",
                        (int)k.code[TINYI_PC_REGS], TGNN_PRODUCT_REGISTERS);
    tiny_free(pc->ctx, k.needed);
    tiny_free(pc->ctx, k.last);
    tiny_free(pc->ctx, k.at);
    tiny_free(pc->ctx, k.spare);
    tiny_free(pc->ctx, k.number);
    if (st) {
        tiny_free(pc->ctx, k.code);
        tiny_free(pc->ctx, k.coef);
        tiny_free(pc->ctx, k.coef_f32);
        return st;
    }
    to->code = tiny_tensor_1d(
        k.code, TINY_I32, TINYI_PC_HEAD + 4 * (tiny_idx)k.code[TINYI_PC_ROWS] + 2 * (tiny_idx)k.code[TINYI_PC_TERMS]);
    to->coef = tiny_tensor_1d(k.coef, TINY_F64, k.code[TINYI_PC_TERMS]);
    to->coef_f32 = tiny_tensor_1d(k.coef_f32, TINY_F32, k.code[TINYI_PC_TERMS]);
    return TINY_OK;
}

void tinyi_program_free(tiny_ctx *ctx, tinyi_program *program)
{
    tiny_free(ctx, program->code.data);
    tiny_free(ctx, program->coef.data);
    tiny_free(ctx, program->coef_f32.data);
    memset(program, 0, sizeof *program);
}
