/* src/core/hops.c - who sends what to whom
 * Methods  textbook; R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 *          MPICH", 2005, 3 and 4.
 * Formula  star      rank 0 adds x_1, x_2, ... in this order, and sends the sum to each
 *          tree      binomial: at step k, rank v with v mod 2^(k+1) = 2^k sends to v - 2^k; the sum goes back the same
 *                    way
 *          doubling  partners at distances 1, 2, 4 ...; the lower rank's number is the first operand
 *          halving   each rank of q = 2^k gives half of its range to the partner at distance q/2, q/4, ..., then all
 *                    ranges come back
 *          ring      part c travels from rank c on, and once more as the sum
 * Shares   floor(n share / sum) units for each rank, and one more for each of the last ranks until none is left
 * Ranks    with p no power of two, doubling and halving pair the first 2 (p - q) ranks before; the odd one of a pair
 *          works for both. */
#include "core/hops_inside.h"
#include <string.h>

void tinyi_hop_part(size_t n, int p, int i, size_t *at, size_t *size)
{
    const size_t q = (size_t)p, k = (size_t)((i % p + p) % p), whole = n / q, more = n % q;
    *at = k * whole + k * more / q;         /* floor(k n / p) without the product */
    *size = (k + 1) * whole + (k + 1) * more / q - *at;
}

void tinyi_hop_shares(tiny_idx n, int p, const double *share, double sum, tiny_idx *part, size_t step)
{
    tiny_idx left = n;
    int r;
    for (r = 0; r < p; r++) {
        /* a hair more: n / 49 * 49 may be below n */
        const tiny_idx own = (tiny_idx)((share ? share[r] / sum : 1.0 / p) * (double)n * (1.0 + 1e-12) + 1e-9);
        part[(size_t)r * step] = TINYI_MIN(own, left);
        left -= part[(size_t)r * step];
    }
    for (r = p - 1; left > 0; r = r ? r - 1 : p - 1, left--) part[(size_t)r * step]++;
}

static void tinyi_hop_none(tinyi_hop *t)
{
    memset(t, 0, sizeof *t);
    t->to = t->from = -1;
}
static int tinyi_hop_bits(int p)           /* ceil(log2 p) */
{
    int k = 0;
    while ((1 << k) < p) k++;
    return k;
}

int tinyi_hop_reduce_scatter(int rank, int world, size_t n, int i, tinyi_hop *t)
{
    tinyi_hop_none(t);
    if (i >= world - 1) return 0;
    t->to = (rank + 1) % world;
    t->from = (rank + world - 1) % world;
    t->how = TINYI_HOP_THEIRS;
    tinyi_hop_part(n, world, rank - i, &t->to_at, &t->to_n);
    tinyi_hop_part(n, world, rank - i - 1, &t->from_at, &t->from_n);
    return 1;
}

int tinyi_hop_allgather(int rank, int world, int first, int i, tinyi_hop *t)
{
    tinyi_hop_none(t);
    if (i >= world - 1) return 0;
    t->to = (rank + 1) % world;
    t->from = (rank + world - 1) % world;
    t->to_at = (size_t)((first - i + world) % world);
    t->from_at = (size_t)((first - i - 1 + 2 * world) % world);
    t->to_n = t->from_n = 1;
    return 1;
}

static int tinyi_hop_ring(int rank, int world, size_t n, int i, tinyi_hop *t)
{
    if (i < world - 1) return tinyi_hop_reduce_scatter(rank, world, n, i, t);
    if (!tinyi_hop_allgather(rank, world, (rank + 1) % world, i - (world - 1), t)) return 0;
    tinyi_hop_part(n, world, (int)t->to_at, &t->to_at, &t->to_n);
    tinyi_hop_part(n, world, (int)t->from_at, &t->from_at, &t->from_n);
    return 1;
}

int tinyi_hop_broadcast(int rank, int world, int root, size_t n, int i, tinyi_hop *t)
{
    const int v = (rank - root + world) % world, bits = tinyi_hop_bits(world), d = i < bits ? 1 << (bits - 1 - i) : 0;
    tinyi_hop_none(t);
    if (i >= bits) return 0;
    t->to_n = t->from_n = n;
    if (v % (2 * d) == d) t->from = (rank - d + world) % world;
    else if (v % (2 * d) == 0 && v + d < world) t->to = (rank + d) % world;
    return 1;
}

int tinyi_hop_reduce(int rank, int world, int root, size_t n, int i, tinyi_hop *t)
{
    const int v = (rank - root + world) % world, bits = tinyi_hop_bits(world), d = i < bits ? 1 << i : 0;
    tinyi_hop_none(t);
    if (i >= bits) return 0;
    t->to_n = t->from_n = n;
    t->how = TINYI_HOP_MINE;
    if (v % (2 * d) == d) t->to = (rank - d + world) % world;
    else if (v % (2 * d) == 0 && v + d < world) t->from = (rank + d) % world;
    return 1;
}

int tinyi_hop_gather(int rank, int world, int root, int i, tinyi_hop *t)
{
    const int v = (rank - root + world) % world, d = 1 << i;
    if (!tinyi_hop_reduce(rank, world, root, 1, i, t)) return 0;
    t->how = TINYI_HOP_PUT;
    t->to_at = (size_t)v;
    t->from_at = (size_t)(v + d);
    t->to_n = (size_t)(v + d < world ? d : world - v);
    t->from_n = (size_t)(v + 2 * d < world ? d : TINYI_MAX(world - v - d, 0));
    return 1;
}

int tinyi_hop_scatter(int rank, int world, int root, int i, tinyi_hop *t)
{
    const int bits = tinyi_hop_bits(world);
    tinyi_hop back;
    tinyi_hop_none(t);
    if (i >= bits) return 0;
    (void)tinyi_hop_gather(rank, world, root, bits - 1 - i, &back);
    t->to = back.from;
    t->to_at = back.from_at;
    t->to_n = back.from_n;
    t->from = back.to;
    t->from_at = back.to_at;
    t->from_n = back.to_n;
    return 1;
}

static int tinyi_hop_star(int rank, int world, size_t n, int i, tinyi_hop *t)
{
    const int in = i < world - 1, other = in ? i + 1 : i - (world - 1) + 1;
    tinyi_hop_none(t);
    if (i >= 2 * (world - 1)) return 0;
    t->to_n = t->from_n = n;
    t->how = in ? TINYI_HOP_MINE : TINYI_HOP_PUT;
    if (rank == 0 && in) t->from = other;
    else if (rank == 0) t->to = other;
    else if (rank == other && in) t->to = 0;
    else if (rank == other) t->from = 0;
    return 1;
}

/* Doubling and halving: ranks 0 .. q - 1 of the power of two, and back. Pairs before (1) or after (2) it: done. */
static int tinyi_hop_folded(int rank, int m, int *mine)
{
    *mine = rank < 2 * m ? rank / 2 : rank - m;
    return rank < 2 * m && rank % 2 == 0;   /* its partner works for it */
}
static int tinyi_hop_unfold(int v, int m) { return v < m ? 2 * v + 1 : v + m; }

static int tinyi_hop_power(int way, int rank, int world, size_t n, int i, tinyi_hop *t)
{
    int q = 1, k = 0, m, mine, other, steps;
    tinyi_hop_none(t);
    while (2 * q <= world) { q *= 2; k++; }
    m = world - q;
    steps = way == TINY_COMM_HALVING ? 2 * k : k;
    t->to_n = t->from_n = n;
    if (m && i == 0) {
        if (rank >= 2 * m) return 1;
        if (rank % 2) { t->from = rank - 1; t->how = TINYI_HOP_THEIRS; }
        else t->to = rank + 1;
        return 1;
    }
    i -= m > 0;
    if (i < steps) {
        size_t last;
        int d, lo;
        if (tinyi_hop_folded(rank, m, &mine)) return 1;
        d = way == TINY_COMM_DOUBLING ? 1 << i : i < k ? q >> (i + 1) : 1 << (i - k);
        other = mine ^ d;
        t->to = t->from = tinyi_hop_unfold(other, m);
        t->how = i >= k ? TINYI_HOP_PUT : other < mine ? TINYI_HOP_THEIRS : TINYI_HOP_MINE;
        if (way == TINY_COMM_DOUBLING) return 1;
        /* d parts from the partner's first one on are its own, d from mine on are mine, in both halves of the way */
        lo = other & ~(d - 1);
        tinyi_hop_part(n, q, lo, &t->to_at, &last);
        tinyi_hop_part(n, q, lo + d - 1, &t->to_n, &last);
        t->to_n = t->to_n + last - t->to_at;
        lo = mine & ~(d - 1);
        tinyi_hop_part(n, q, lo, &t->from_at, &last);
        tinyi_hop_part(n, q, lo + d - 1, &t->from_n, &last);
        t->from_n = t->from_n + last - t->from_at;
        if (i >= k) {                       /* on the way back each sends its own */
            const size_t at = t->to_at, size = t->to_n;
            t->to_at = t->from_at;
            t->to_n = t->from_n;
            t->from_at = at;
            t->from_n = size;
        }
        return 1;
    }
    if (i > steps || !m) return 0;
    if (rank >= 2 * m) return 1;
    if (rank % 2) t->to = rank - 1;
    else t->from = rank + 1;
    return 1;
}

int tinyi_hop_allreduce(int way, int rank, int world, size_t n, int i, tinyi_hop *t)
{
    const int bits = tinyi_hop_bits(world);
    if (way == TINY_COMM_RING) return tinyi_hop_ring(rank, world, n, i, t);
    if (way == TINY_COMM_STAR) return tinyi_hop_star(rank, world, n, i, t);
    if (way != TINY_COMM_TREE) return tinyi_hop_power(way, rank, world, n, i, t);
    return i < bits ? tinyi_hop_reduce(rank, world, 0, n, i, t)
                    : tinyi_hop_broadcast(rank, world, 0, n, i - bits, t);
}
