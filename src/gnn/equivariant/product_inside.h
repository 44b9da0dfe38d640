/* src/gnn/equivariant/product_inside.h - products as programs, plans, and the kernels of each target
 *
 * A program says what one lane (a channel of a sample) computes. Its registers hold a number for each lane. The first
 * ones are the inputs x, y, w and g, the last ones the results. Each row sets or adds to one register:
 *   a linear row   to = sum over its terms of coef * reg[a]
 *   a row of pairs to = sum over its terms of coef * reg[a] * reg[b]
 * In memory: code (i32) is a head of TINYI_PC_HEAD numbers, then n_rows times (to, form, first term, end), then n_terms
 * times (a, b); coef has n_terms numbers of the type of x. */
#ifndef TINYI_GNN_PRODUCT_H
#define TINYI_GNN_PRODUCT_H
#include "gnn/equivariant/paths.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_PC_REGS, TINYI_PC_X, TINYI_PC_Y, TINYI_PC_W, TINYI_PC_G,          /* registers: all, of each input */
    TINYI_PC_OUT, TINYI_PC_ROWS, TINYI_PC_TERMS, TINYI_PC_HEAD              /* of the results; rows, terms */
};
enum { TINYI_PC_PAIRS = 1, TINYI_PC_ADD = 2, TINYI_PC_ONES = 4, TINYI_PC_FORMS = 8 };  /* ONES: every coef is 1 */

/* A program while it is built: registers are written by one row, or by rows that add, and then read. */
typedef struct tinyi_pc {
    tiny_ctx *ctx;
    tiny_status st;
    int head[TINYI_PC_HEAD];                /* the inputs */
    int n_regs, out, n_out;
    int32_t *row, *term;                    /* (n_rows, 4), (n_terms, 2) */
    double *coef;
    size_t n_rows, n_terms, row_room, term_room;
} tinyi_pc;

/* finished, as tensors of an operation */
typedef struct tinyi_program { tiny_tensor code, coef, coef_f32; } tinyi_program;

TINYI_FN void tinyi_pc_begin(tinyi_pc *pc, tiny_ctx *ctx, int n_x, int n_y, int n_w, int n_g);
TINYI_FN void tinyi_pc_free(tinyi_pc *pc);
TINYI_FN int tinyi_pc_regs(tinyi_pc *pc, int n);             /* the first of n new ones */
TINYI_FN void tinyi_pc_row(tinyi_pc *pc, int to, int form);
TINYI_FN void tinyi_pc_term(tinyi_pc *pc, double coef, int a, int b);        /* b: -1 in a linear row */
TINYI_FN void tinyi_pc_set_out(tinyi_pc *pc, int first, int n);
TINYI_FN double tinyi_pc_operations(const tinyi_pc *pc);
/* the gradient of `from` by its inputs as a program with the further input g */
TINYI_FN void tinyi_pc_reverse(tinyi_pc *pc, const tinyi_pc *from);
/* gives registers that are not read any more to later rows */
TINYI_FN tiny_status tinyi_pc_finish(const tinyi_pc *pc, tinyi_program *to);

/* Tables of FOLD and CP, each as f32 [0] and f64 [1], and for the gradient by x with the axes of x and the result
 * exchanged [.][1].
 *   FOLD   entry (n, 3): i, j, k, sorted by k, i, j; value (n); all numbers of M as (d1 d3, d2) in `dense`
 *   CP     a (rank, d1), b (rank, d2), c (d3, rank) */
typedef struct tinyi_pf {
    int rank;                               /* 0: FOLD */
    tiny_tensor entry[2], value[2][2], dense[2];
    tiny_tensor a[2][2], b[2], c[2][2];
} tinyi_pf;

struct tgnn_product {
    tgnn_product_desc desc;
    int kind;
    double operations;
    tiny_idx dim[4];
    int (*path)[3];                         /* CG, and the paths of irreps: degrees */
    int n_paths;
    tinyi_program forward, back;
    /* of gnn/equivariant/paths.h: tables of the operations there */
    tiny_tensor table, entry, value;
    tinyi_pf fold;                        /* data NULL in other kinds */
    char why[320];
};

/* fills pc with the program of a kind that is not CG or GAUNT; p->path is set for CG; fold: tables of FOLD and CP */
TINYI_FN tiny_status tinyi_product_build(tiny_ctx *ctx, tgnn_product *p, int kind, const tinyi_pf *fold,
                                         tinyi_pc *pc);
TINYI_FN void tinyi_program_free(tiny_ctx *ctx, tinyi_program *program);

/* of product_fold.c: the tables of a kind FOLD or CP, their program, and its cost for each of `channels` channels */
TINYI_FN tiny_status tinyi_pf_build(tiny_ctx *ctx, const tgnn_product *p, int kind, tinyi_pf *f);
TINYI_FN void tinyi_pf_free(tiny_ctx *ctx, tinyi_pf *f);
TINYI_FN void tinyi_pf_program(const tgnn_product *p, const tinyi_pf *f, tinyi_pc *pc);
TINYI_FN double tinyi_pf_operations(const tinyi_pf *f, int channels);
/* fills op where the plan has tables, and y one channel for several of x; 0: the program runs */
TINYI_FN int tinyi_pf_op(const tgnn_product *p, tgnn_fold_params *params, const tiny_tensor *x, const tiny_tensor *y,
                           const tiny_tensor *w, tiny_op *op);

#define TINYI_PRODUCT_LANES 32 /* lanes that a program computes at a time: a register is that many floats */

/* One path of a weighted product (gnn/equivariant/paths.c) as the kernels get it: numbers of a sample by copy u and
 * component i at off + u * step_u + i * step_i, for x, y and the result. */
typedef struct tinyi_tp_path {
    int32_t mode, mul1, mul2, mul3, l1, l2, l3, off1, off2, off3, weight, first, end, last;
} tinyi_tp_path;
enum { TINYI_TP_COLUMNS = 14 };

/*   run      a program over TINYI_PRODUCT_LANES lanes
 *   side     a path over `lanes` samples side by side: number k of a sample is at k * lanes; out += . w has lanes too,
 *            or, with shared, one number for all. t: (2 l3 + 1) * lanes floats of scratch
 *   back     the gradients of that path: dx, dy and dw +=; t twice as large. With shared dw gets sums over the lanes
 *   fold     channels: t (2 l3 + 1, 2 l1 + 1) of one edge, out[k][u] += w[u] sum_i t[k][i] x[i][u] */
typedef struct tinyi_product_kernels {
    tiny_target from;
    int lanes;
    void (*run)(float *regs, const int32_t *row, size_t n_rows, const int32_t *term, const float *coef);
    void (*side)(const tinyi_tp_path *p, const int32_t *entry, const float *value, float *out, const float *x,
                 const float *y, const float *w, int shared, float *t);
    void (*back)(const tinyi_tp_path *p, const int32_t *entry, const float *value, const float *x, const float *y,
                 const float *w, const float *g, int shared, float *dx, float *dy, float *dw, float *t);
    void (*fold)(float *out, const float *x, const float *w, const float *t, int n1, int n3, size_t mul);
    void (*sums)(float *out, const float *block, size_t n);     /* out[k] += the sum over the lanes of number k */
    /* the matrices of a sample in each lane: t[(k n1 + i) lanes + s] = sum of value y[j lanes + s] over the entries
     * (i, j, k), which are sorted by k, i; what has no entry stays */
    void (*matrix)(float *t, const int32_t *entry, const float *value, size_t n, size_t n1, const float *y);
    /* out[k os + u] = by[k] w[u] sum_i t[k n_in + i] x[i xs + u], u < n; by, w: NULL for ones */
    void (*mix)(float *out, size_t os, const float *t, size_t n_out, size_t n_in, const float *x, size_t xs, size_t n,
                const float *by, const float *w);
} tinyi_product_kernels;
TINYI_TABLES(tinyi_product_kernels, tinyi_product_kernels)

TINYI_C_END
#endif
