/* src/gnn/equivariant/tdn_run.c - neighbours, energies, forces and gradients of the network of tdn.c
 * Method   A tape knows either the positions, for forces, or the parameters, for training. Both tapes are kept from
 *          call to call as long as their room is enough, so a step of dynamics allocates almost nothing.
 * Training see tgnn_tdn_gradient: with v = dloss/dF constant, <F(theta), v> is minus the derivative of E along v, so
 *          its gradient by theta is a difference of two gradients of E at positions moved along v. */
#include <string.h>
#include "gnn/equivariant/tdn_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

/* ---- atoms and edges */

static tiny_status tinyi_tdn_check_atoms(tiny_ctx *ctx, const tgnn_tdn *net, const tgnn_atoms *a)
{
    tiny_idx i;
    if (a->n < 1 || a->n > (tiny_idx)1 << 24 || !a->type || !a->pos || (a->first && (a->molecules < 1 || a->first[0])))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "tdn: %td atoms; at least one, their types and positions are needed, and molecules that "
                          "begin with atom 0",
                          a->n);
    for (i = 0; i < a->n; i++)
        if (a->type[i] < 0 || a->type[i] >= net->desc.n_types)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: atom %td has type %d, there are %d", i, (int)a->type[i],
                              net->desc.n_types);
    for (i = 0; i < 3 * a->n; i++)
        if (!(a->pos[i] - a->pos[i] == 0.0))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "tdn: a coordinate of atom %td is not finite", i / 3);
    for (i = 0; a->first && i < a->molecules; i++)
        if (a->first[i + 1] <= a->first[i] || a->first[i + 1] > a->n ||
            (i + 1 == a->molecules && a->first[i + 1] != a->n))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: molecule %td has atoms %lld to %lld of %td", i,
                              (long long)a->first[i], (long long)a->first[i + 1], a->n);
    return TINY_OK;
}

/* pairs closer than the cutoff, by receiver; without g->src they are counted */
static tiny_status tinyi_tdn_pairs(tiny_ctx *ctx, const tgnn_tdn *net, const tgnn_atoms *a, tinyi_tdn_graph *g)
{
    const double most = net->desc.cutoff * net->desc.cutoff;
    tiny_idx z, i, k;
    g->m = 0;
    for (z = 0; z < g->molecules; z++) {
        const tiny_idx from = a->first ? (tiny_idx)a->first[z] : 0, to = a->first ? (tiny_idx)a->first[z + 1] : a->n;
        for (i = from; i < to; i++) {
            if (g->src) g->offset[i] = g->m;
            for (k = from; k < to; k++) {
                const double x = a->pos[3 * k] - a->pos[3 * i], y = a->pos[3 * k + 1] - a->pos[3 * i + 1],
                             s = a->pos[3 * k + 2] - a->pos[3 * i + 2], r2 = x * x + y * y + s * s;
                if (i == k || !(r2 < most)) continue;
                if (r2 < 1e-12)
                    return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: atoms %td and %td of molecule %td are at the same "
                                      "place", TINYI_MIN(i, k), TINYI_MAX(i, k), z);
                if (g->src) {
                    g->src[g->m] = (int32_t)k;
                    g->dst[g->m] = (int32_t)i;
                }
                g->m++;
            }
        }
    }
    if (g->src) g->offset[g->n] = g->m;
    return TINY_OK;
}

static void tinyi_tdn_place(const tgnn_tdn *net, tinyi_tdn_graph *g, const double *pos)
{
    tiny_idx i;
    for (i = 0; i < 3 * g->n; i++) tinyi_real_set(g->pos, net->desc.wide ? TINY_F64 : TINY_F32, i, pos[i]);
}

static tiny_status tinyi_tdn_graph_open(tiny_ctx *ctx, tgnn_tdn *net, const tgnn_atoms *a, tinyi_tdn_graph *g)
{
    tiny_status st = tinyi_tdn_check_atoms(ctx, net, a);
    size_t n;
    tiny_idx i;
    memset(g, 0, sizeof *g);
    if (st) return st;
    g->n = a->n;
    g->molecules = a->first ? a->molecules : 1;
    st = tinyi_tdn_pairs(ctx, net, a, g);
    if (st) return st;
    if (g->m > INT32_MAX) return tinyi_fail(ctx, TINY_E_OVERFLOW, "tdn: more than %d edges", INT32_MAX);
    n = (size_t)g->n;
    if (net->n_pos != g->n) {
        tiny_tape_close(net->room[0].tape);         /* it knows the old place */
        memset(&net->room[0], 0, sizeof net->room[0]);
        tiny_free(ctx, net->pos);
        net->n_pos = 0;
        net->pos = (unsigned char *)tinyi_alloc(ctx, 6 * n, sizeof(double));
        if (!net->pos) return tiny_ctx_status(ctx);
        net->n_pos = g->n;
    }
    g->memory = tinyi_alloc(ctx, (n + 1 + (size_t)g->molecules + 1) + (n + 2 * (size_t)g->m) / 2 + 2, sizeof(double));
    if (!g->memory) return tiny_ctx_status(ctx);
    g->offset = (int64_t *)g->memory;
    g->first = g->offset + n + 1;
    g->type = (int32_t *)(g->first + g->molecules + 1);
    g->pos = net->pos;
    g->slope = g->pos + 3 * n * sizeof(double);
    g->src = g->type + n;
    g->dst = g->src + g->m;
    memcpy(g->type, a->type, n * sizeof *g->type);
    for (i = 0; i <= g->molecules; i++) g->first[i] = a->first ? a->first[i] : i ? (int64_t)a->n : 0;
    tinyi_tdn_place(net, g, a->pos);
    return tinyi_tdn_pairs(ctx, net, a, g);
}

/* ---- runs */

/* positions as a parameter */
tiny_param tinyi_tdn_pos(const tgnn_tdn *net, const tinyi_tdn_graph *g)
{
    tiny_param p;
    memset(&p, 0, sizeof p);
    p.name = "positions";
    p.value = p.grad = tiny_tensor_2d(g->pos, net->desc.wide ? TINY_F64 : TINY_F32, g->n, 3);
    p.grad.data = g->slope;
    return p;
}

static tiny_status tinyi_tdn_tape_params(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g, int which)
{
    const tiny_param pos = tinyi_tdn_pos(net, g);
    tiny_status st = TINY_OK;
    size_t i;
    if (!which) return tiny_tape_param(tape, &pos);
    for (i = 0; !st && i < net->n; i++) st = tiny_tape_param(tape, &net->params[i]);
    return st;
}

/* All of it on one tape; seed (molecules) or NULL, force_seed (n, 3) or NULL: backward from them. */
static tiny_status tinyi_tdn_pass(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g,
                                  const tiny_tensor *seed, const tiny_tensor *force_seed, tiny_tensor *energy,
                                  tiny_tensor *forces)
{
    const tiny_param pos = tinyi_tdn_pos(net, g);
    tinyi_tdn_edges e;
    tiny_tensor x;
    int i;
    memset(&e, 0, sizeof e);
    x = tinyi_tdn_begin(tape, net, g, &pos.value, &e);
    for (i = 0; i < net->desc.blocks && !tiny_tape_status(tape); i++) x = tinyi_tdn_block(tape, net, &e, &x, i);
    if (tiny_tape_status(tape)) return tiny_tape_status(tape);
    *energy = tinyi_tdn_end(tape, net, g, &e, &x, forces);
    if (tiny_tape_status(tape) || (!seed && !force_seed)) return tiny_tape_status(tape);
    if (!force_seed) return tiny_tape_backward(tape, energy, seed);
    /* one number whose gradient by both is their seed */
    {
        tiny_reduce_params all;
        tiny_tensor a = tiny_tape_mul(tape, forces, force_seed), b;
        memset(&all, 0, sizeof all);
        all.all = 1;
        a = tiny_tape_call(tape, TINY_OP_SUM, &a, NULL, NULL, NULL, &all);
        b = tiny_tape_mul(tape, energy, seed);
        b = tiny_tape_call(tape, TINY_OP_SUM, &b, NULL, NULL, NULL, &all);
        a = tiny_tape_add(tape, &a, &b);
        return tiny_tape_status(tape) ? tiny_tape_status(tape) : tiny_tape_backward(tape, &a, NULL);
    }
}

/* The tape of positions (0) or of parameters (1), empty, with room for this graph: kept from the last call, or measured
 * by a dry run. */
static tiny_status tinyi_tdn_tape_of(tiny_ctx *ctx, tgnn_tdn *net, const tinyi_tdn_graph *g, int which,
                                     const tiny_tensor *seed, const tiny_tensor *force_seed)
{
    tinyi_tdn_room *r = &net->room[which];
    const int seeds = (seed != NULL) + 2 * (force_seed != NULL);
    tiny_tape_desc d;
    tiny_tape *dry = NULL;
    tiny_tensor energy, forces;
    tiny_status st;
    if (r->tape && (which ? r->n >= g->n : r->n == g->n) && r->m >= g->m && r->molecules >= g->molecules &&
        r->seeds == seeds) {
        tiny_tape_release(r->tape, r->begin);
        return TINY_OK;
    }
    memset(&d, 0, sizeof d);
    d.dry = 1;
    st = tiny_tape_open(ctx, &d, &dry);
    if (st) return st;
    st = tinyi_tdn_tape_params(dry, net, g, which);
    if (!st) st = tinyi_tdn_pass(dry, net, g, seed, force_seed, &energy, &forces);
    d.dry = 0;
    d.bytes = tiny_tape_high(dry) + tiny_tape_high(dry) / 16 + 4096;
    tiny_tape_close(dry);
    tiny_tape_close(r->tape);
    memset(r, 0, sizeof *r);
    if (!st) st = tiny_tape_open(ctx, &d, &r->tape);
    if (!st) st = tinyi_tdn_tape_params(r->tape, net, g, which);
    if (st) return st;
    r->begin = tiny_tape_now(r->tape);
    r->n = g->n;
    r->m = g->m;
    r->molecules = g->molecules;
    r->seeds = seeds;
    return TINY_OK;
}

/* energies and forces in double, on the tape of positions or, for the direct head, on that of parameters */
static tiny_status tinyi_tdn_both(tiny_ctx *ctx, tgnn_tdn *net, tinyi_tdn_graph *g, double *energy, double *forces)
{
    const tiny_dtype type = net->desc.wide ? TINY_F64 : TINY_F32;
    double one[1];
    tiny_tensor seed = tiny_tensor_2d(one, type, g->molecules, 1), te, tf;
    const int by_slope = forces && !net->desc.direct && g->m;
    tiny_status st;
    tiny_idx i;
    seed.stride[0] = seed.stride[1] = 0;
    tinyi_real_set(one, type, 0, 1.0);
    memset(&tf, 0, sizeof tf);
    st = tinyi_tdn_tape_of(ctx, net, g, 0, by_slope ? &seed : NULL, NULL);
    if (!st) {
        tiny_tape_zero(net->room[0].tape);
        st = tinyi_tdn_pass(net->room[0].tape, net, g, by_slope ? &seed : NULL, NULL, &te, &tf);
    }
    for (i = 0; !st && i < g->molecules; i++) energy[i] = tinyi_real(te.data, type, i * te.stride[0]);
    for (i = 0; !st && forces && i < 3 * g->n; i++)
        forces[i] = by_slope           ? -tinyi_real(g->slope, type, i)
                    : net->desc.direct ? tinyi_real(tf.data, type, i * tf.stride[1])
                                       : 0.0;
    return st;
}

/* energies alone: block by block, in the memory of one */
static tiny_status tinyi_tdn_steps(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g, const tiny_tensor *x,
                                   double *energy)
{
    const tiny_param pos = tinyi_tdn_pos(net, g);
    tinyi_tdn_edges e;
    tiny_tensor t;
    tiny_tape_mark mark;
    tiny_status st;
    tiny_idx k;
    int i;
    memset(&e, 0, sizeof e);
    t = tinyi_tdn_begin(tape, net, g, &pos.value, &e);
    mark = tiny_tape_now(tape);
    for (i = 0; i <= net->desc.blocks; i++) {
        st = tiny_tape_status(tape);
        if (!st && !tiny_tape_dry(tape)) st = tiny_copy(net->ctx, &t, x);
        if (st) return st;
        tiny_tape_release(tape, mark);
        t = i < net->desc.blocks ? tinyi_tdn_block(tape, net, &e, x, i) : tinyi_tdn_end(tape, net, g, &e, x, NULL);
    }
    st = tiny_tape_status(tape);
    for (k = 0; !st && !tiny_tape_dry(tape) && k < g->molecules; k++)
        energy[k] = tinyi_real(t.data, t.dtype, k * t.stride[0]);
    return st;
}

static tiny_status tinyi_tdn_energies(tiny_ctx *ctx, const tgnn_tdn *net, const tinyi_tdn_graph *g, double *energy)
{
    const tiny_dtype type = net->desc.wide ? TINY_F64 : TINY_F32;
    tiny_tensor x = tiny_tensor_2d(NULL, type, g->n, (tiny_idx)(net->desc.l + 1) * (net->desc.l + 1) * net->desc.width);
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.dry = d.no_grad = 1;
    x.data = tinyi_alloc(ctx, (size_t)tiny_tensor_count(&x), tiny_dtype_bytes(type));
    if (!x.data) return tiny_ctx_status(ctx);
    st = tiny_tape_open(ctx, &d, &tape);
    if (!st) st = tinyi_tdn_steps(tape, net, g, &x, energy);
    d.bytes = tiny_tape_high(tape);
    tiny_tape_close(tape);
    d.dry = 0;
    tape = NULL;
    if (!st) st = tiny_tape_open(ctx, &d, &tape);
    if (!st) st = tinyi_tdn_steps(tape, net, g, &x, energy);
    tiny_tape_close(tape);
    tiny_free(ctx, x.data);
    return st;
}

TINY_API tiny_status tgnn_tdn_run(tiny_ctx *ctx, tgnn_tdn *net, const tgnn_atoms *atoms, double *energy, double *forces)
{
    tinyi_tdn_graph g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !atoms || !energy)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: a network, atoms and the place of the energies are needed");
    st = tinyi_tdn_graph_open(ctx, net, atoms, &g);
    if (!st) st = forces ? tinyi_tdn_both(ctx, net, &g, energy, forces) : tinyi_tdn_energies(ctx, net, &g, energy);
    tiny_free(ctx, g.memory);
    return st;
}

/* ---- training */

/* gradient of seed . E (+ force_seed . F of the direct head) by the parameters, at these positions */
static tiny_status tinyi_tdn_slope(tiny_ctx *ctx, tgnn_tdn *net, tinyi_tdn_graph *g, const double *pos,
                                   const tiny_tensor *seed, const tiny_tensor *force_seed, int *fresh)
{
    tiny_tensor energy, forces;
    tiny_status st;
    tinyi_tdn_place(net, g, pos);
    st = tinyi_tdn_tape_of(ctx, net, g, 1, seed, force_seed);
    if (st) return st;
    if (*fresh) tiny_tape_zero(net->room[1].tape);          /* later passes add */
    *fresh = 0;
    return tinyi_tdn_pass(net->room[1].tape, net, g, seed, force_seed, &energy, &forces);
}

/* room: energies, their seeds, forces, their slopes v, positions; steps: of each molecule, 0 where v is 0 */
static tiny_status tinyi_tdn_train(tiny_ctx *ctx, tgnn_tdn *net, tinyi_tdn_graph *g, const tgnn_atoms *a,
                                   const tgnn_tdn_target *t, double *room, double *loss)
{
    const tiny_dtype type = net->desc.wide ? TINY_F64 : TINY_F32;
    const double we = t->energy_weight > 0.0 ? t->energy_weight : 1.0,
                 wf = t->force_weight > 0.0 ? t->force_weight : 1.0, largest = net->desc.wide ? 1e-5 : 3e-3;
    const tiny_idx n = 3 * g->n, molecules = g->molecules;
    double *energy = room, *step = energy + molecules, *forces = step + molecules, *v = forces + n, *pos = v + n,
           *seeds = pos + n, *force_seeds = seeds + molecules;
    const tiny_tensor seed = tiny_tensor_2d(seeds, type, molecules, 1),
                      force_seed = tiny_tensor_2d(force_seeds, type, g->n, 3);
    tiny_status st = tinyi_tdn_both(ctx, net, g, energy, t->forces ? forces : NULL);
    tiny_idx i, z;
    int sign, fresh = 1;
    if (st) return st;
    tinyi_tdn_clear(net);
    *loss = 0.0;
    for (z = 0; z < molecules; z++) {
        const double off = t->energy ? energy[z] - t->energy[z] : 0.0;
        *loss += we * off * off / (double)molecules;
        tinyi_real_set(seeds, type, z, we * 2.0 * off / (double)molecules);
        step[z] = 0.0;
    }
    for (i = 0; i < n; i++) {
        const double off = t->forces ? forces[i] - t->forces[i] : 0.0;
        *loss += wf * off * off / (double)n;
        v[i] = wf * 2.0 * off / (double)n;
        tinyi_real_set(force_seeds, type, i, v[i]);
    }
    if (t->energy || net->desc.direct)
        st = tinyi_tdn_slope(ctx, net, g, a->pos, &seed, t->forces && net->desc.direct ? &force_seed : NULL, &fresh);
    if (st || !t->forces || net->desc.direct || !g->m) return st;
    for (z = 0; z < molecules; z++) {
        for (i = 3 * (tiny_idx)g->first[z]; i < 3 * (tiny_idx)g->first[z + 1]; i++)
            step[z] = TINYI_MAX(step[z], v[i] < 0.0 ? -v[i] : v[i]);
        step[z] = step[z] > 0.0 ? largest / step[z] : 0.0;
    }
    for (sign = -1; !st && sign <= 1; sign += 2) {          /* d<F, v> = -(g(r + e v) - g(r - e v)) / (2 e) */
        for (z = 0; z < molecules; z++) {
            tinyi_real_set(seeds, type, z, step[z] > 0.0 ? -sign / (2.0 * step[z]) : 0.0);
            for (i = 3 * (tiny_idx)g->first[z]; i < 3 * (tiny_idx)g->first[z + 1]; i++)
                pos[i] = a->pos[i] + sign * step[z] * v[i];
        }
        st = tinyi_tdn_slope(ctx, net, g, pos, &seed, NULL, &fresh);
    }
    return st;
}

TINY_API tiny_status tgnn_tdn_gradient(tiny_ctx *ctx, tgnn_tdn *net, const tgnn_atoms *atoms,
                                       const tgnn_tdn_target *target, double *loss)
{
    tinyi_tdn_graph g;
    double *room = NULL, own = 0.0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !atoms || !target || (!target->energy && !target->forces))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: a network, atoms, and energies or forces are needed");
    if (!(target->energy_weight >= 0.0 && target->energy_weight < 1e12) ||
        !(target->force_weight >= 0.0 && target->force_weight < 1e12))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: weights of %g and %g, both must be at least 0",
                          target->energy_weight, target->force_weight);
    st = tinyi_tdn_graph_open(ctx, net, atoms, &g);
    if (!st) room = (double *)tinyi_alloc(ctx, (size_t)(3 * g.molecules + 12 * g.n), sizeof *room);
    if (!st && !room) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_tdn_train(ctx, net, &g, atoms, target, room, loss ? loss : &own);
    tiny_free(ctx, room);
    tiny_free(ctx, g.memory);
    return st;
}
