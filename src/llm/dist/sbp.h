/* src/llm/dist/sbp.h - tensors that are split, copied or partial over ranks, and the bytes between these states
 *
 * A program describes a graph of tensors as if one large device computed it. On p ranks each tensor is in a state:
 *
 *   S(i)   split along axis i: rank r has the part floor(r n / p) to floor((r + 1) n / p) of that axis
 *   B      broadcast: each rank has the whole tensor
 *   P      partial: each rank has a tensor of the whole shape, and their sum is the value
 *
 * On a grid of p1 x p2 ranks (rank = first + i p2 + j) a tensor has one state for each axis of the grid. The second one
 * describes the piece that the first one leaves.
 *
 * Boxing changes the state of a tensor. The plan chooses a signature for each operation, such as (S(0), B) -> S(0) of a
 * matrix product, so that boxing and arithmetic together cost least:
 *
 *   tllm_sbp_graph g = { 0 };
 *   g.place.n[0] = 4;                                              four ranks
 *   tllm_sbp_input(ctx, &g, "x", 2, dim_x, &x);  tllm_sbp_input(ctx, &g, "w", 2, dim_w, &w);
 *   tllm_sbp_binary(ctx, &g, TLLM_SBP_MATMUL, x, w, &y);
 *   tllm_sbp_plan_make(ctx, &g, NULL, &plan);                      the same plan on every rank
 *   tllm_sbp_run(ctx, &coll, &g, &plan, in, out);                  on each rank: its pieces of x and w, its piece of y
 *
 * Graphs and plans are plain structs without pointers. All numbers of tensors are floats. */
#ifndef TINYI_SBP_H
#define TINYI_SBP_H
#include "core/collective.h"
TINYI_C_BEGIN

#define TLLM_SBP_NODES 64
#define TLLM_SBP_DIMS 4
#define TLLM_SBP_NAME 16                    /* bytes of a name with its final 0 */

/* a state along one axis of the grid; S(i) is TLLM_SBP_S + i */
enum { TLLM_SBP_ANY, TLLM_SBP_B, TLLM_SBP_P, TLLM_SBP_S };

typedef struct tllm_sbp_place {             /* ranks first to first + n[0] n[1] - 1 */
    int first, n[2];                        /* n[1] 0: 1 */
} tllm_sbp_place;
typedef struct tllm_sbp_layout {
    tllm_sbp_place place;
    unsigned char s[2];                     /* s[1] is B or ANY where n[1] is 1 */
} tllm_sbp_layout;
typedef struct tllm_sbp_box { tiny_idx at[TLLM_SBP_DIMS], n[TLLM_SBP_DIMS]; } tllm_sbp_box;

/* "S0", "B", "P"; on a grid "(S0,B)". Returns text. */
TINY_API char *tllm_sbp_text(const tllm_sbp_layout *layout, char text[TLLM_SBP_NAME]);
/* The piece of a tensor that a rank holds; of a rank outside the place it is empty. */
TINY_API tiny_status tllm_sbp_piece(tiny_ctx *ctx, const tllm_sbp_layout *layout, int n_dim, const tiny_idx *dim,
                                    int rank, tllm_sbp_box *box);
/* Copies this rank's piece out of the whole tensor. In state P the first rank of an axis gets the values, the others
 * zeros. */
TINY_API tiny_status tllm_sbp_cut(tiny_ctx *ctx, const tllm_sbp_layout *layout, int n_dim, const tiny_idx *dim,
                                  int rank, const float *whole, float *piece);

/* ---- boxing
 *
 * Bytes that all ranks together send, with n the bytes of the whole tensor:
 *
 *                  the same p ranks             from p1 ranks to p2 others
 *   S(i) -> S(i)   0                            n
 *   S(i) -> S(j)   all-to-all n (p - 1) / p     n
 *   S -> B         all-gather n (p - 1)         n p2
 *   S -> P         0, zeros are added           n
 *   B -> S         0, a slice                   n
 *   B -> B         0                            n p2
 *   B -> P         0, rank 0 keeps it           n
 *   P -> S         reduce-scatter n (p - 1)     n p1
 *   P -> B         all-reduce 2 n (p - 1)       n (p1 + p2 - 1)
 *   P -> P         0                            n p1
 *
 * S(i) -> S(j) is n minus what stays where it is, so it is exact for uneven sizes too. On a grid a hop changes one of
 * the two states, in all lines of ranks along that axis at once. If an axis of the tensor is split along both axes of
 * the grid, the second split is not of the whole axis: then only the second state can change. Other changes take a
 * route of several hops, the one with the fewest bytes. */
#define TLLM_SBP_HOPS 8

typedef struct tllm_sbp_hop { int axis, from, to; double bytes; } tllm_sbp_hop;     /* axis of the grid */
typedef struct tllm_sbp_route { int n_hop; tllm_sbp_hop hop[TLLM_SBP_HOPS]; double bytes; } tllm_sbp_route;

/* The places must be the same or have no rank in common; grids of two axes must be the same. */
TINY_API tiny_status tllm_sbp_route_find(tiny_ctx *ctx, int n_dim, const tiny_idx *dim, const tllm_sbp_layout *from,
                                         const tllm_sbp_layout *to, tllm_sbp_route *route);
/* Every rank of the net makes the call. x: this rank's piece in `from`, y: its piece in `to`; they may not overlap, and
 * NULL is right for a rank outside the place. Sums are added in the order of ranks, so copies are the same bits. Of c
 * the fields net, until, tag and clock are used. A failure other than TINY_E_ARGUMENT ends the group. */
TINY_API tiny_status tllm_sbp_boxing(tiny_ctx *ctx, tiny_coll *c, int n_dim, const tiny_idx *dim,
                                     const tllm_sbp_layout *from, const tllm_sbp_layout *to, const float *x, float *y);

/* ---- graphs */

typedef enum tllm_sbp_op {
    TLLM_SBP_INPUT,                         /* the program gives it. Without a given state: B or S */
    TLLM_SBP_MATMUL,                        /* (..., m, k) (k, n), or (..., k, n) with the same axes before */
    TLLM_SBP_COPY,                          /* y = x: fixes a state, or shares a boxing between several operations */
    TLLM_SBP_SCALE,                         /* y = factor x */
    TLLM_SBP_ACT,                           /* y = f(x): act */
    TLLM_SBP_ADD,
    TLLM_SBP_MUL,
    TLLM_SBP_SUM,                           /* over `axis`, which the result does not have */
    TLLM_SBP_SOFTMAX,                       /* over `axis` */
    TLLM_SBP_LOOKUP,                        /* ids (...), table (v, d): rows (..., d). Ids are whole, below 2^24 */
    TLLM_SBP_TRANSPOSE,                     /* axis i is axis axes[i] of x */
    TLLM_SBP_RESHAPE,                       /* to dim */
    TLLM_SBP_OPS
} tllm_sbp_op;
typedef enum tllm_sbp_act {
    TLLM_SBP_RELU,
    TLLM_SBP_RELU2,                         /* relu(x)^2, whose slope is 2 relu(x) */
    TLLM_SBP_TANH,
    TLLM_SBP_GELU,
    TLLM_SBP_SILU,
    TLLM_SBP_ACTS
} tllm_sbp_act;

typedef struct tllm_sbp_node {
    char name[TLLM_SBP_NAME];
    int op, in[2];                          /* numbers of earlier nodes */
    int n_dim;                              /* INPUT and RESHAPE: given, with dim; of others tllm_sbp_put sets it */
    tiny_idx dim[TLLM_SBP_DIMS];
    int axis, axes[TLLM_SBP_DIMS], act;
    float factor;
    tllm_sbp_place place;                   /* n[0] 0: that of the graph */
    unsigned char s[2];                     /* the state of the result; ANY: the plan chooses */
    int like;                               /* 1 + an earlier node on this place whose state it must have; 0: none */
} tllm_sbp_node;
typedef struct tllm_sbp_graph { tllm_sbp_place place; int n_node; tllm_sbp_node node[TLLM_SBP_NODES]; } tllm_sbp_graph;

/* Checks the node, works out its shape and appends it. *id: its number. */
TINY_API tiny_status tllm_sbp_put(tiny_ctx *ctx, tllm_sbp_graph *g, const tllm_sbp_node *node, int *id);
TINY_API tiny_status tllm_sbp_input(tiny_ctx *ctx, tllm_sbp_graph *g, const char *name, int n_dim, const tiny_idx *dim,
                                    int *id);
/* MATMUL, ADD, MUL, LOOKUP */
TINY_API tiny_status tllm_sbp_binary(tiny_ctx *ctx, tllm_sbp_graph *g, int op, int a, int b, int *id);

/* The states of operands and result along one axis of the grid. Returns the number of signatures; 0 for an unknown
 * node. A node on a grid takes one signature for each axis. */
typedef struct tllm_sbp_sign { unsigned char in[2], out; } tllm_sbp_sign;
#define TLLM_SBP_SIGNS 16
TINY_API int tllm_sbp_signs(const tllm_sbp_graph *g, int node, tllm_sbp_sign list[TLLM_SBP_SIGNS]);

/* ---- plans */

typedef enum tllm_sbp_search {
    TLLM_SBP_EXACT,                         /* the least cost of all plans */
    /* One operation after the other, as in the paper: the signature that is cheapest with the states so far. An input
     * gets the state in which its first operation wants it. */
    TLLM_SBP_GREEDY,
    TLLM_SBP_SEARCHES
} tllm_sbp_search;

typedef struct tllm_sbp_plan_desc {         /* all zero: the sensible default */
    int search;
    /* cost = bytes + bytes_per_flop * flops: the bytes that the ranks together send during one operation of one rank.
     * 0: 0.01, such as 1 GB/s and 100 Gflop/s. Without a price of arithmetic B everywhere would win. */
    double bytes_per_flop;
    double memory;                          /* bytes of tensors that a rank may hold; 0: no limit */
    size_t n_most;                          /* EXACT: partial plans that it may keep; 0: 1048576 */
} tllm_sbp_plan_desc;

typedef struct tllm_sbp_choice {
    unsigned char in[2][2], out[2];         /* [operand][axis of the grid] */
    double bytes[2];                        /* of the boxing of each operand */
} tllm_sbp_choice;
typedef struct tllm_sbp_plan {
    int n_node;
    tllm_sbp_choice node[TLLM_SBP_NODES];
    double bytes, cost;
    double flops;                           /* of the rank with the largest pieces, summed over the operations */
    double held;                            /* bytes of results that this rank holds if it keeps all; no boxed copies */
} tllm_sbp_plan;

/* A tensor that two operations read in the same state is boxed for each of them; put a COPY between to share it.
 * EXACT keeps one partial plan for each combination of the states that later operations still read, so its time grows
 * with the number of such tensors: TINY_E_UNSUPPORTED above n_most, or when more than ten tensors wait at once. */
TINY_API tiny_status tllm_sbp_plan_make(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan_desc *desc,
                                        tllm_sbp_plan *plan);
/* Checks a plan whose in and out were chosen elsewhere, and works out its figures. */
TINY_API tiny_status tllm_sbp_plan_check(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan_desc *desc,
                                         tllm_sbp_plan *plan);
TINY_API tiny_status tllm_sbp_layout_of(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan *plan, int node,
                                        tllm_sbp_layout *layout);

/* Every rank of the net makes the call. in[node]: this rank's piece of an INPUT; out[node]: room for its piece of any
 * node, or NULL. Both have n_node entries; out may be NULL. A tensor is freed after its last use. */
TINY_API tiny_status tllm_sbp_run(tiny_ctx *ctx, tiny_coll *c, const tllm_sbp_graph *g, const tllm_sbp_plan *plan,
                                  const float *const *in, float *const *out);

/* ---- inside: what the bodies share ---- */

enum { TINYI_SBP_STATES = 2 + TLLM_SBP_DIMS, TINYI_SBP_PAIRS = TINYI_SBP_STATES * TINYI_SBP_STATES };
/* the states of a pair by one number, B first */
#define TINYI_SBP_PAIR(a, b) (((a) - TLLM_SBP_B) * TINYI_SBP_STATES + (b) - TLLM_SBP_B)
TINYI_FN int tinyi_sbp_width(const tllm_sbp_place *place);         /* of the second axis of the grid */
TINYI_FN tiny_status tinyi_sbp_place_check(tiny_ctx *ctx, const tllm_sbp_place *place);
TINYI_FN tiny_status tinyi_sbp_shape_check(tiny_ctx *ctx, int n_dim, const tiny_idx *dim, size_t *count);
/* 1: the same ranks, 0: no common rank, -1: neither */
TINYI_FN int tinyi_sbp_same(const tllm_sbp_place *a, const tllm_sbp_place *b);
TINYI_FN int tinyi_sbp_member(const tllm_sbp_place *place, int rank);
TINYI_FN void tinyi_sbp_piece(const tllm_sbp_place *place, const unsigned char s[2], int n_dim, const tiny_idx *dim,
                              int member, tllm_sbp_box *box);
TINYI_FN size_t tinyi_sbp_count(const tllm_sbp_box *box);
/* bytes[from pair][to pair] of all changes on one place; next (or NULL): the pair after the first hop */
TINYI_FN void tinyi_sbp_table(int n_dim, const tiny_idx *dim, const tllm_sbp_place *from, const tllm_sbp_place *to,
                              double bytes[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS],
                              unsigned char next[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS]);
TINYI_FN int tinyi_sbp_operands(int op);            /* 0 to 2 */
/* of a graph and a plan that were checked */
TINYI_FN tllm_sbp_layout tinyi_sbp_layout(const tllm_sbp_graph *g, const tllm_sbp_plan *plan, int node);

TINYI_C_END
#endif
