/* src/llm/dist/sbp.c - states of tensors over ranks, and boxing: the bytes that change one state into another
 * Paper    J. Yuan et al., "OneFlow: Redesign the Distributed Deep Learning Framework from Scratch", 2021 (arXiv
 *          2110.15032), 3.1 (S, B, P) and 3.2, table 2 (bytes of boxing); the program for grids of two axes.
 * Formula  rank r of p holds the part floor(r n / p) .. floor((r + 1) n / p) of a split axis. A change of state is a
 *          list of regions: source s sends to destination d
 *              S -> S, S -> B     the overlap of the piece of s with the piece of d
 *              P -> S             the piece of d, and d adds those of all s, s = 0, 1, ...
 *              P -> B             the same for equal parts of the flat list, then every rank sends its part to all
 *          and B -> S, B -> P, S -> P move nothing between the same ranks.
 * Grid     lines of ranks along one axis of the grid change its state at the same time. The lines hold different pieces
 *          of the other state, so each moves a tensor of its own. A route is a shortest path over all pairs of states.
 * Cost     the table of the header; a message is one region, so an all-gather of p ranks takes p - 1 messages a rank
 * Waiting  in step t every member of a line sends to the member t places after it and receives from the one t before,
 *          at the same time, so ranks that all send first do not block each other. */
#include "llm/dist/sbp.h"
#include "core/hops_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "math/binary.h"
#include <stdio.h>
#include <string.h>

#define TINYI_SBP_FAR 1e300

/* ---- places and pieces ------------------------------------------------------------------------------------------- */

int tinyi_sbp_width(const tllm_sbp_place *place) { return place->n[1] ? place->n[1] : 1; }
static int tinyi_sbp_ranks(const tllm_sbp_place *place) { return place->n[0] * tinyi_sbp_width(place); }

tiny_status tinyi_sbp_place_check(tiny_ctx *ctx, const tllm_sbp_place *place)
{
    const int w = tinyi_sbp_width(place);
    if (place->n[0] < 1 || place->n[0] > TINY_NET_RANKS || w < 1 || w > TINY_NET_RANKS || place->first < 0 ||
        place->first > TINY_NET_RANKS - tinyi_sbp_ranks(place))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a place of %d x %d ranks from rank %d on: there are at most %d ranks",
                          place->n[0], w, place->first, TINY_NET_RANKS);
    return TINY_OK;
}

int tinyi_sbp_same(const tllm_sbp_place *a, const tllm_sbp_place *b)
{
    const int na = tinyi_sbp_ranks(a), nb = tinyi_sbp_ranks(b);
    if (a->first == b->first && a->n[0] == b->n[0] && tinyi_sbp_width(a) == tinyi_sbp_width(b)) return 1;
    if (tinyi_sbp_width(a) > 1 || tinyi_sbp_width(b) > 1) return -1;
    return a->first + na <= b->first || b->first + nb <= a->first ? 0 : -1;
}

int tinyi_sbp_member(const tllm_sbp_place *place, int rank)        /* its number in the place; -1: outside */
{
    const int i = rank - place->first;
    return i >= 0 && i < tinyi_sbp_ranks(place) ? i : -1;
}

tiny_status tinyi_sbp_shape_check(tiny_ctx *ctx, int n_dim, const tiny_idx *dim, size_t *count)
{
    size_t n = 1, bytes;
    int k;
    if (n_dim < 0 || n_dim > TLLM_SBP_DIMS || (n_dim && !dim))
        return tinyi_fail(ctx, TINY_E_SHAPE, "a tensor of %d axes, there may be 0 to %d", n_dim, TLLM_SBP_DIMS);
    for (k = 0; k < n_dim; k++) {
        if (dim[k] < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "axis %d has the length %td", k, dim[k]);
        if (!tinyi_size_mul(n, (size_t)dim[k], &n))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "a tensor has more numbers than this machine can address");
    }
    if (!tinyi_size_mul(n, (size_t)TINY_NET_RANKS * sizeof(float), &bytes) || bytes > PTRDIFF_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "a tensor has more numbers than this machine can address");
    if (count) *count = n;
    return TINY_OK;
}

/* part i of p of axis k, if s splits it */
static void tinyi_sbp_part(tllm_sbp_box *b, int s, int p, int i)
{
    size_t at, size;
    if (s < TLLM_SBP_S) return;
    tinyi_hop_part((size_t)b->n[s - TLLM_SBP_S], p, i, &at, &size);
    b->at[s - TLLM_SBP_S] += (tiny_idx)at;
    b->n[s - TLLM_SBP_S] = (tiny_idx)size;
}
static void tinyi_sbp_whole(tllm_sbp_box *b, int n_dim, const tiny_idx *dim)
{
    int k;
    for (k = 0; k < TLLM_SBP_DIMS; k++) {
        b->at[k] = 0;
        b->n[k] = k < n_dim ? dim[k] : 1;
    }
}
void tinyi_sbp_piece(const tllm_sbp_place *place, const unsigned char s[2], int n_dim, const tiny_idx *dim, int member,
                     tllm_sbp_box *box)
{
    const int w = tinyi_sbp_width(place);
    tinyi_sbp_whole(box, n_dim, dim);
    if (member < 0) memset(box->n, 0, sizeof box->n);
    else {
        tinyi_sbp_part(box, s[0], place->n[0], member / w);
        tinyi_sbp_part(box, s[1], w, member % w);
    }
}
size_t tinyi_sbp_count(const tllm_sbp_box *box)
{
    size_t n = 1;
    int k;
    for (k = 0; k < TLLM_SBP_DIMS; k++) n *= (size_t)box->n[k];
    return n;
}

static tiny_status tinyi_sbp_layout_check(tiny_ctx *ctx, const tllm_sbp_layout *l, int n_dim)
{
    int a;
    tiny_status st = l ? tinyi_sbp_place_check(ctx, &l->place) : tinyi_fail(ctx, TINY_E_ARGUMENT, "a layout is NULL");
    for (a = 0; a < 2 && !st; a++) {
        if (l->s[a] >= TLLM_SBP_S + n_dim)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "state S(%d) of a tensor with %d axes", l->s[a] - TLLM_SBP_S, n_dim);
        else if (l->s[a] == TLLM_SBP_ANY && (a == 0 || tinyi_sbp_width(&l->place) > 1))
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "the state along axis %d of the ranks is not given", a);
        else if (a == 1 && l->s[1] > TLLM_SBP_B && tinyi_sbp_width(&l->place) == 1)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "a second state for ranks without a second axis");
    }
    return st;
}
static tllm_sbp_layout tinyi_sbp_plain(const tllm_sbp_layout *l)   /* ANY becomes B */
{
    tllm_sbp_layout r = *l;
    if (r.s[1] == TLLM_SBP_ANY) r.s[1] = TLLM_SBP_B;
    return r;
}

TINY_API char *tllm_sbp_text(const tllm_sbp_layout *l, char text[TLLM_SBP_NAME])
{
    char one[2][4];
    int a;
    if (!text) return NULL;
    for (a = 0; a < 2; a++) {
        const int s = l ? l->s[a] : 0;
        (void)snprintf(one[a], sizeof one[a], s >= TLLM_SBP_S ? "S%d" : s == TLLM_SBP_B ? "B" : s == TLLM_SBP_P ? "P"
                                                                                                                : "?",
                       (s - TLLM_SBP_S) % 10);
    }
    if (l && tinyi_sbp_width(&l->place) > 1) (void)snprintf(text, TLLM_SBP_NAME, "(%s,%s)", one[0], one[1]);
    else (void)snprintf(text, TLLM_SBP_NAME, "%s", one[0]);
    return text;
}

TINY_API tiny_status tllm_sbp_piece(tiny_ctx *ctx, const tllm_sbp_layout *layout, int n_dim, const tiny_idx *dim,
                                    int rank, tllm_sbp_box *box)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!layout || !box) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a piece needs a layout and room for the answer");
    st = tinyi_sbp_shape_check(ctx, n_dim, dim, NULL);
    if (!st) st = tinyi_sbp_layout_check(ctx, layout, n_dim);
    if (!st) tinyi_sbp_piece(&layout->place, layout->s, n_dim, dim, tinyi_sbp_member(&layout->place, rank), box);
    return st;
}

/* ---- regions: `part` of an array that holds `have`, both in numbers of the whole tensor -------------------------- */

enum { TINYI_SBP_PACK, TINYI_SBP_UNPACK };
static size_t tinyi_sbp_index(const tllm_sbp_box *have, const tllm_sbp_box *part, tiny_idx i, tiny_idx j, tiny_idx k)
{
    const tiny_idx a = part->at[0] - have->at[0] + i, b = part->at[1] - have->at[1] + j,
                   c = part->at[2] - have->at[2] + k;
    return (size_t)(((a * have->n[1] + b) * have->n[2] + c) * have->n[3] + part->at[3] - have->at[3]);
}
/* PACK: list = region of array; UNPACK: region of array = list */
static void tinyi_sbp_move(int how, float *array, const tllm_sbp_box *have, const tllm_sbp_box *part, float *list)
{
    const size_t bytes = (size_t)part->n[3] * sizeof(float);
    tiny_idx i, j, k;
    if (!bytes) return;
    for (i = 0; i < part->n[0]; i++)
        for (j = 0; j < part->n[1]; j++)
            for (k = 0; k < part->n[2]; k++, list += part->n[3]) {
                float *at = array + tinyi_sbp_index(have, part, i, j, k);
                if (how == TINYI_SBP_PACK) memcpy(list, at, bytes);
                else memcpy(at, list, bytes);
            }
}
/* 1: the region is one run of the array, from number *at on */
static int tinyi_sbp_run_of(const tllm_sbp_box *have, const tllm_sbp_box *part, size_t *at)
{
    int k = 0;
    while (k < TLLM_SBP_DIMS && part->n[k] == 1) k++;       /* below the first axis that is not 1, all is whole */
    for (k++; k < TLLM_SBP_DIMS; k++) if (part->n[k] != have->n[k]) return 0;
    *at = tinyi_sbp_index(have, part, 0, 0, 0);
    return 1;
}
static void tinyi_sbp_overlap(const tllm_sbp_box *a, const tllm_sbp_box *b, tllm_sbp_box *r)
{
    int k;
    for (k = 0; k < TLLM_SBP_DIMS; k++) {
        const tiny_idx end = TINYI_MIN(a->at[k] + a->n[k], b->at[k] + b->n[k]);
        r->at[k] = TINYI_MAX(a->at[k], b->at[k]);
        r->n[k] = TINYI_MAX(end - r->at[k], 0);
    }
}

TINY_API tiny_status tllm_sbp_cut(tiny_ctx *ctx, const tllm_sbp_layout *layout, int n_dim, const tiny_idx *dim,
                                  int rank, const float *whole, float *piece)
{
    tllm_sbp_box all, box;
    size_t n;
    int m;
    tiny_status st = tllm_sbp_piece(ctx, layout, n_dim, dim, rank, &box);
    if (st) return st;
    n = tinyi_sbp_count(&box);
    if (!n) return TINY_OK;
    if (!whole || !piece) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the tensor or its piece is NULL");
    m = tinyi_sbp_member(&layout->place, rank);
    tinyi_sbp_whole(&all, n_dim, dim);
    if ((layout->s[0] == TLLM_SBP_P && m / tinyi_sbp_width(&layout->place)) ||
        (layout->s[1] == TLLM_SBP_P && m % tinyi_sbp_width(&layout->place)))
        memset(piece, 0, n * sizeof *piece);
    else tinyi_sbp_move(TINYI_SBP_PACK, (float *)(uintptr_t)whole, &all, &box, piece);      /* it is only read */
    return TINY_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* of one line: p ranks that hold a tensor, and q others that get it; q 0: the same ranks */
static double tinyi_sbp_line_bytes(int n_dim, const tiny_idx *dim, int from, int to, int p, int q)
{
    const int f = TINYI_MIN(from, TLLM_SBP_S), t = TINYI_MIN(to, TLLM_SBP_S);
    tllm_sbp_box all;
    double n, one = sizeof(float), stays = 0;
    int r;
    tinyi_sbp_whole(&all, n_dim, dim);
    n = one * (double)tinyi_sbp_count(&all);
    if (q) {
        if (t == TLLM_SBP_B) return f == TLLM_SBP_P ? n * (p + q - 1) : n * q;
        return f == TLLM_SBP_P ? n * p : n;
    }
    if (from == to || t == TLLM_SBP_P) return 0;
    if (f == TLLM_SBP_P) return t == TLLM_SBP_B ? 2 * n * (p - 1) : n * (p - 1);
    if (f == TLLM_SBP_B) return 0;
    if (t == TLLM_SBP_B) return n * (p - 1);
    for (r = 0; r < p; r++) {
        tllm_sbp_box a = all, b = all, both;
        tinyi_sbp_part(&a, from, p, r);
        tinyi_sbp_part(&b, to, p, r);
        tinyi_sbp_overlap(&a, &b, &both);
        stays += one * (double)tinyi_sbp_count(&both);
    }
    return n - stays;
}

/* one hop on a grid: all lines along one axis. FAR: not possible */
static double tinyi_sbp_hop_bytes(int n_dim, const tiny_idx *dim, const tllm_sbp_place *place, int axis,
                                  const int from[2], const int to[2])
{
    const int w = tinyi_sbp_width(place), lines = axis ? place->n[0] : w, stays = from[1 - axis];
    double sum = 0;
    int i;
    if (!axis && stays >= TLLM_SBP_S && (from[0] == stays || to[0] == stays)) return TINYI_SBP_FAR;
    for (i = 0; i < lines; i++) {
        tllm_sbp_box b;
        tinyi_sbp_whole(&b, n_dim, dim);
        tinyi_sbp_part(&b, stays, lines, i);
        sum += tinyi_sbp_line_bytes(n_dim, b.n, from[axis], to[axis], axis ? w : place->n[0], 0);
    }
    return sum;
}

static void tinyi_sbp_unpair(int pair, int s[2])
{
    s[0] = pair / TINYI_SBP_STATES + TLLM_SBP_B;
    s[1] = pair % TINYI_SBP_STATES + TLLM_SBP_B;
}

void tinyi_sbp_table(int n_dim, const tiny_idx *dim, const tllm_sbp_place *from, const tllm_sbp_place *to,
                     double bytes[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS],
                     unsigned char next[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS])
{
    unsigned char hops[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS];
    const int same = tinyi_sbp_same(from, to) == 1, flat = tinyi_sbp_width(from) == 1, end = TLLM_SBP_S + n_dim;
    int a, b, c;
    for (a = 0; a < TINYI_SBP_PAIRS; a++)
        for (b = 0; b < TINYI_SBP_PAIRS; b++) {
            int f[2], t[2];
            tinyi_sbp_unpair(a, f);
            tinyi_sbp_unpair(b, t);
            bytes[a][b] = TINYI_SBP_FAR;
            hops[a][b] = 1;
            if (next) next[a][b] = (unsigned char)b;
            if (f[0] >= end || f[1] >= end || t[0] >= end || t[1] >= end) continue;
            if (flat) {
                if (f[1] == TLLM_SBP_B && t[1] == TLLM_SBP_B)
                    bytes[a][b] = tinyi_sbp_line_bytes(n_dim, dim, f[0], t[0], from->n[0], same ? 0 : to->n[0]);
            } else if (a == b) bytes[a][b] = hops[a][b] = 0;
            else if (f[0] == t[0]) bytes[a][b] = tinyi_sbp_hop_bytes(n_dim, dim, from, 1, f, t);
            else if (f[1] == t[1]) bytes[a][b] = tinyi_sbp_hop_bytes(n_dim, dim, from, 0, f, t);
        }
    /* Floyd and Warshall; of equal bytes the route with fewer hops */
    for (c = 0; c < TINYI_SBP_PAIRS && !flat; c++)
        for (a = 0; a < TINYI_SBP_PAIRS; a++)
            for (b = 0; b < TINYI_SBP_PAIRS && bytes[a][c] < TINYI_SBP_FAR; b++) {
                const double sum = bytes[a][c] + bytes[c][b];
                if (bytes[c][b] >= TINYI_SBP_FAR || sum > bytes[a][b] ||
                    (sum >= bytes[a][b] && hops[a][c] + hops[c][b] >= hops[a][b]))
                    continue;
                bytes[a][b] = sum;
                hops[a][b] = (unsigned char)(hops[a][c] + hops[c][b]);
                if (next) next[a][b] = next[a][c];
            }
}

TINY_API tiny_status tllm_sbp_route_find(tiny_ctx *ctx, int n_dim, const tiny_idx *dim, const tllm_sbp_layout *from,
                                         const tllm_sbp_layout *to, tllm_sbp_route *route)
{
    typedef double tinyi_sbp_row[TINYI_SBP_PAIRS];
    typedef unsigned char tinyi_sbp_next[TINYI_SBP_PAIRS];
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_sbp_layout f, t;
    int a, b, same;
    if (st) return st;
    if (!route) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a route needs room for the answer");
    memset(route, 0, sizeof *route);
    st = tinyi_sbp_shape_check(ctx, n_dim, dim, NULL);
    if (!st) st = tinyi_sbp_layout_check(ctx, from, n_dim);
    if (!st) st = tinyi_sbp_layout_check(ctx, to, n_dim);
    if (st) return st;
    f = tinyi_sbp_plain(from);
    t = tinyi_sbp_plain(to);
    same = tinyi_sbp_same(&f.place, &t.place);
    if (same < 0)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "ranks %d to %d and %d to %d: two places must be equal or, without a second axis, have no "
                          "rank in common",
                          f.place.first, f.place.first + tinyi_sbp_ranks(&f.place) - 1, t.place.first,
                          t.place.first + tinyi_sbp_ranks(&t.place) - 1);
    if (!same || tinyi_sbp_width(&f.place) == 1) {
        if (same && f.s[0] == t.s[0]) return TINY_OK;
        route->n_hop = 1;
        route->hop[0].from = f.s[0];
        route->hop[0].to = t.s[0];
        route->bytes = tinyi_sbp_line_bytes(n_dim, dim, f.s[0], t.s[0], f.place.n[0], same ? 0 : t.place.n[0]);
        route->hop[0].bytes = route->bytes;
        return TINY_OK;
    }
    {
        tinyi_sbp_row *bytes = (tinyi_sbp_row *)tinyi_alloc(ctx, TINYI_SBP_PAIRS, sizeof *bytes);
        tinyi_sbp_next *next = (tinyi_sbp_next *)tinyi_alloc(ctx, TINYI_SBP_PAIRS, sizeof *next);
        if (!bytes || !next) st = tiny_ctx_status(ctx);
        else tinyi_sbp_table(n_dim, dim, &f.place, &t.place, bytes, next);
        a = TINYI_SBP_PAIR(f.s[0], f.s[1]);
        b = TINYI_SBP_PAIR(t.s[0], t.s[1]);
        while (!st && a != b && route->n_hop < TLLM_SBP_HOPS) {
            tllm_sbp_hop *h = &route->hop[route->n_hop++];
            int s[2], u[2];
            tinyi_sbp_unpair(a, s);
            tinyi_sbp_unpair(next[a][b], u);
            h->axis = s[0] == u[0];
            h->from = s[h->axis];
            h->to = u[h->axis];
            h->bytes = tinyi_sbp_hop_bytes(n_dim, dim, &f.place, h->axis, s, u);
            route->bytes += h->bytes;
            a = next[a][b];
        }
        tiny_free(ctx, next);
        tiny_free(ctx, bytes);
    }
    return st;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_sbp_call { tiny_ctx *ctx; tiny_coll *c; tiny_net *net; uint64_t number, until; int phase; }
tinyi_sbp_call;

/* The net has failed, and has the sentence. */
static tiny_status tinyi_sbp_lost(tinyi_sbp_call *k, tiny_status st)
{
    return tinyi_net_end(k->ctx, k->net, tinyi_fail(k->ctx, st, "%s", k->net->says));
}

/* n_out bytes to one rank, n_in from another, at the same time; NULL: nothing */
static tiny_status tinyi_sbp_pass(tinyi_sbp_call *k, int to, const float *out, size_t n_out, int from, float *in,
                                  size_t n_in)
{
    tiny_net *net = k->net;
    tiny_message send, recv;
    memset(&send, 0, sizeof send);
    memset(&recv, 0, sizeof recv);
    send.tag = recv.tag = k->number << 16 | (uint64_t)(unsigned)(k->phase & 255) << 8 | k->c->tag;
    send.data = (void *)(uintptr_t)out;     /* it is only read */
    send.n = n_out;
    send.at = k->c->clock;
    send.whole = !n_out;
    recv.data = in;
    recv.n = n_in;
    recv.whole = !n_in;
    while (!send.whole || !recv.whole) {
        const uint64_t seen = net->changes(net);
        uint64_t now, until;
        tiny_status st = TINY_OK;
        if (!send.whole) st = net->send(net, to, &send);
        if (!st && !recv.whole) st = net->recv(net, from, &recv);
        if (st) return tinyi_sbp_lost(k, st);
        if (send.whole && recv.whole) break;
        now = tiny_now_ns();
        if (now >= k->until) {
            (void)snprintf(net->says, sizeof net->says, "rank %d waited for rank %d until the deadline of a boxing",
                           net->rank, recv.whole ? to : from);
            net->gone = 1 + (recv.whole ? to : from);
            return tinyi_sbp_lost(k, TINY_E_TIMEOUT);
        }
        until = !recv.whole && !net->virtual_clock && recv.at ? TINYI_MIN(recv.at, k->until) : k->until;
        net->pause(net, seen, until);
    }
    if (n_in && net->virtual_clock) k->c->clock = TINYI_MAX(k->c->clock, recv.at);
    return TINY_OK;
}

/* ---- one line of ranks ------------------------------------------------------------------------------------------- */

/* Members 0 .. p - 1 hold the tensor in state from, q others (or, q 0, the same ones) get it in state to. */
typedef struct tinyi_sbp_line {
    int n_dim, from, to, p, q, me;          /* me: of the p + q members */
    tiny_idx dim[TLLM_SBP_DIMS];
    const int *rank;                        /* (p + q) */
} tinyi_sbp_line;

static void tinyi_sbp_held(const tinyi_sbp_line *l, int s, int p, int i, tllm_sbp_box *b)
{
    tinyi_sbp_whole(b, l->n_dim, l->dim);
    tinyi_sbp_part(b, s, p, i);
}
/* what source s sends to destination d; 0: nothing */
static int tinyi_sbp_region(const tinyi_sbp_line *l, int s, int d, tllm_sbp_box *r)
{
    const int q = l->q ? l->q : l->p;
    tllm_sbp_box f, t;
    tinyi_sbp_held(l, l->from, l->p, s, &f);
    tinyi_sbp_held(l, l->to, q, d, &t);
    tinyi_sbp_overlap(&f, &t, r);
    if (l->to == TLLM_SBP_P && d != s % q) return 0;        /* each piece once; the destinations' sum is the value */
    if (l->from == TLLM_SBP_B && s != (l->to == TLLM_SBP_P ? 0 : d % l->p)) return 0;      /* one copy is enough */
    return tinyi_sbp_count(r) > 0;
}

/* x: the piece of a source, y: that of a destination; either may be NULL */
static tiny_status tinyi_sbp_exchange(tinyi_sbp_call *k, const tinyi_sbp_line *l, const float *x, float *y)
{
    const int all = l->p + l->q, q = l->q ? l->q : l->p, sums = l->from == TLLM_SBP_P;
    const int src = l->me < l->p ? l->me : -1, dst = l->q ? l->me - l->p : l->me;
    tllm_sbp_box mine, theirs, r;
    float *out = NULL, *in = NULL;
    size_t at, n_out = 0, n_in = 0, n_sum = 0;
    int t, s, d, n_sources = 0;
    tiny_status st = TINY_OK;
    tinyi_sbp_held(l, l->from, l->p, TINYI_MAX(src, 0), &mine);
    tinyi_sbp_held(l, l->to, q, TINYI_MAX(dst, 0), &theirs);
    for (d = 0; d < q && src >= 0; d++)
        if (tinyi_sbp_region(l, src, d, &r)) n_out = TINYI_MAX(n_out, tinyi_sbp_count(&r));
    for (s = 0; s < l->p && dst >= 0; s++) {
        if (!tinyi_sbp_region(l, s, dst, &r)) continue;
        n_in = TINYI_MAX(n_in, tinyi_sbp_count(&r));
        n_sources++;
    }
    if (sums) n_sum = n_in, n_in *= (size_t)n_sources;
    if (n_out) out = (float *)tinyi_alloc(k->ctx, n_out, sizeof *out);
    if (n_in) in = (float *)tinyi_alloc(k->ctx, n_in, sizeof *in);
    if ((n_out && !out) || (n_in && !in)) st = tinyi_net_end(k->ctx, k->net, tiny_ctx_status(k->ctx));
    if (!st && dst >= 0 && l->to == TLLM_SBP_P) memset(y, 0, tinyi_sbp_count(&theirs) * sizeof *y);
    for (t = 0; t < all && !st; t++) {
        const int to = (l->me + t) % all, from = (l->me - t + all) % all;
        const float *sent = NULL;
        float *got = NULL;
        size_t n = 0, m = 0;
        d = l->q ? to - l->p : to;
        s = from < l->p ? from : -1;
        if (src >= 0 && d >= 0 && tinyi_sbp_region(l, src, d, &r)) {
            n = tinyi_sbp_count(&r);
            if (tinyi_sbp_run_of(&mine, &r, &at)) sent = x + at;
            else tinyi_sbp_move(TINYI_SBP_PACK, (float *)(uintptr_t)x, &mine, &r, out), sent = out;
        }
        if (dst >= 0 && s >= 0 && tinyi_sbp_region(l, s, dst, &r)) {
            m = tinyi_sbp_count(&r);
            /* the sources of one sum are s, s + q, ... or all of them: their places keep the order */
            if (sums) got = in + n_sum * (size_t)(l->to == TLLM_SBP_P ? s / q : s);
            else if (tinyi_sbp_run_of(&theirs, &r, &at)) got = y + at;
            else got = in;
        }
        if (!t && sent && got) memcpy(got, sent, n * sizeof(float));        /* to itself */
        else if (t) st = tinyi_sbp_pass(k, l->rank[to], sent, n * sizeof(float), l->rank[from], got, m * sizeof(float));
        if (!st && m && !sums && got == in) tinyi_sbp_move(TINYI_SBP_UNPACK, y, &theirs, &r, in);
    }
    if (!st && sums && n_sources) {
        tiny_tensor sum = tiny_tensor_1d(in, TINY_F32, (tiny_idx)n_sum), more = sum;
        for (s = 1; s < n_sources && !st; s++) {
            more.data = in + n_sum * (size_t)s;
            st = tiny_add(k->ctx, &sum, &more, &sum);
        }
        if (st) st = tinyi_net_end(k->ctx, k->net, st);
        else memcpy(y, in, n_sum * sizeof *y);
    }
    tiny_free(k->ctx, in);
    tiny_free(k->ctx, out);
    return st;
}

static tiny_status tinyi_sbp_convert(tinyi_sbp_call *k, const tinyi_sbp_line *l, const float *x, float *y)
{
    tllm_sbp_box whole, box;
    size_t n, at, size;
    tinyi_sbp_line flat = *l;
    float *part;
    int same;
    tiny_status st;
    tinyi_sbp_whole(&whole, l->n_dim, l->dim);
    n = tinyi_sbp_count(&whole);
    if (!n) return TINY_OK;
    if (!l->q) {
        tinyi_sbp_held(l, l->from, l->p, l->me, &box);
        if (l->from == l->to || (l->from == TLLM_SBP_B && l->to == TLLM_SBP_P && !l->me)) {
            if (tinyi_sbp_count(&box)) memcpy(y, x, tinyi_sbp_count(&box) * sizeof *y);
            return TINY_OK;
        }
        if (l->to == TLLM_SBP_P) {
            memset(y, 0, n * sizeof *y);
            if (l->from >= TLLM_SBP_S)
                tinyi_sbp_move(TINYI_SBP_UNPACK, y, &whole, &box, (float *)(uintptr_t)x);
            return TINY_OK;
        }
        if (l->from == TLLM_SBP_B) {
            tinyi_sbp_held(l, l->to, l->p, l->me, &box);
            tinyi_sbp_move(TINYI_SBP_PACK, (float *)(uintptr_t)x, &whole, &box, y);
            return TINY_OK;
        }
    }
    if (l->from != TLLM_SBP_P || l->to != TLLM_SBP_B) return tinyi_sbp_exchange(k, l, x, y);
    /* an all-reduce: equal parts of the flat list are summed, then every rank sends its part to all */
    same = !l->q;
    flat.n_dim = 1;
    flat.dim[0] = (tiny_idx)n;
    flat.to = TLLM_SBP_S;
    part = NULL;
    size = at = 0;
    if (same || l->me >= l->p)
        tinyi_hop_part(n, same ? l->p : l->q, same ? l->me : l->me - l->p, &at, &size);
    if (size) {
        part = (float *)tinyi_alloc(k->ctx, size, sizeof *part);
        if (!part) return tinyi_net_end(k->ctx, k->net, tiny_ctx_status(k->ctx));
    }
    st = tinyi_sbp_exchange(k, &flat, x, part);
    if (!st && (same || l->me >= l->p)) {
        flat.from = TLLM_SBP_S;
        flat.to = TLLM_SBP_B;
        k->phase++;
        if (!same) {
            flat.rank += l->p;
            flat.me -= l->p;
            flat.p = l->q;
            flat.q = 0;
        }
        st = tinyi_sbp_exchange(k, &flat, part, y);
    }
    tiny_free(k->ctx, part);
    return st;
}

/* ---- a change on the whole place --------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_sbp_boxing(tiny_ctx *ctx, tiny_coll *c, int n_dim, const tiny_idx *dim,
                                     const tllm_sbp_layout *from, const tllm_sbp_layout *to, const float *x, float *y)
{
    tllm_sbp_route route;
    tinyi_sbp_call k;
    tinyi_sbp_line l;
    tllm_sbp_layout now, end;
    tllm_sbp_box box;
    int rank[2 * TINY_NET_RANKS], i, h, me, mine, w, same;
    float *held = NULL;
    const float *at = x;
    tiny_status st = tllm_sbp_route_find(ctx, n_dim, dim, from, to, &route);
    if (st) return st;
    if (!c || !c->net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "boxing needs the net of a rank");
    if (c->tag > 255) return tinyi_fail(ctx, TINY_E_ARGUMENT, "boxing: tag %u, it must be 0 to 255", c->tag);
    now = tinyi_sbp_plain(from);
    end = tinyi_sbp_plain(to);
    i = TINYI_MAX(now.place.first + tinyi_sbp_ranks(&now.place), end.place.first + tinyi_sbp_ranks(&end.place));
    if (i > c->net->world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "boxing: the place ends at rank %d, and there are %d ranks", i - 1,
                          c->net->world);
    if (c->net->why) return tinyi_fail(ctx, c->net->why, "%s", c->net->says);
    same = tinyi_sbp_same(&now.place, &end.place);
    me = tinyi_sbp_member(&now.place, c->net->rank);
    mine = tinyi_sbp_member(&end.place, c->net->rank);
    tinyi_sbp_piece(&now.place, now.s, n_dim, dim, me, &box);
    if (tinyi_sbp_count(&box) && !x) return tinyi_fail(ctx, TINY_E_ARGUMENT, "boxing: the piece that is given is NULL");
    tinyi_sbp_piece(&end.place, end.s, n_dim, dim, mine, &box);
    if (tinyi_sbp_count(&box) && !y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "boxing: there is no room for the result");
    memset(&k, 0, sizeof k);
    k.ctx = ctx;
    k.c = c;
    k.net = c->net;
    k.until = c->until ? c->until : tiny_now_ns() + UINT64_C(10000000000);
    k.number = c->net->calls++;
    if (me < 0 && mine < 0) return TINY_OK;
    if (!route.n_hop) {
        if (tinyi_sbp_count(&box)) memcpy(y, x, tinyi_sbp_count(&box) * sizeof *y);
        return TINY_OK;
    }
    memset(&l, 0, sizeof l);
    l.n_dim = n_dim;
    l.rank = rank;
    w = tinyi_sbp_width(&now.place);
    for (h = 0; h < route.n_hop && !st; h++) {
        const tllm_sbp_hop *hop = &route.hop[h];
        const int axis = hop->axis;
        float *to_here = y, *next = NULL;
        k.phase = 2 * h;                    /* the same on ranks whose lines are empty */
        l.from = hop->from;
        l.to = hop->to;
        if (!same) {
            l.p = now.place.n[0];
            l.q = end.place.n[0];
            l.me = me >= 0 ? me : l.p + mine;
            for (i = 0; i < l.p + l.q; i++)
                rank[i] = i < l.p ? now.place.first + i : end.place.first + i - l.p;
            tinyi_sbp_whole(&box, n_dim, dim);
        } else {
            l.p = axis ? w : now.place.n[0];
            l.q = 0;
            l.me = axis ? me % w : me / w;
            for (i = 0; i < l.p; i++) rank[i] = now.place.first + (axis ? me / w * w + i : i * w + me % w);
            tinyi_sbp_whole(&box, n_dim, dim);      /* what the lines along this axis share */
            tinyi_sbp_part(&box, now.s[1 - axis], axis ? now.place.n[0] : w, axis ? me / w : me % w);
        }
        memcpy(l.dim, box.n, sizeof l.dim);
        now.s[axis] = (unsigned char)hop->to;
        if (h + 1 < route.n_hop) {
            size_t n;
            tinyi_sbp_piece(&now.place, now.s, n_dim, dim, me, &box);
            n = tinyi_sbp_count(&box);
            to_here = next = (float *)tinyi_alloc(ctx, n + 1, sizeof *next);
            if (!next) st = tinyi_net_end(ctx, c->net, tiny_ctx_status(ctx));
        }
        if (!st) st = tinyi_sbp_convert(&k, &l, at, to_here);
        tiny_free(ctx, held);
        held = next;
        at = next;
    }
    tiny_free(ctx, held);
    return st;
}
