/* src/llm/dist/share.c - shares of a model in proportion to speed
 * Paper    Z. Li et al., "TPI-LLM: Serving 70B-scale LLMs Efficiently on Low-resource Edge Devices", 2024 (arXiv
 *          2410.00531): p_i of the weights for device i. The paper leaves the choice of p_i to the user.
 * Formula  by speed   p_i = v_i / sum v,  v_i = bytes of the weights / median time of a product with one row
 *          by time    p_i' = (p_i / t_i) / sum (p / t)
 *          A step with one row reads each weight once, so the time of a rank is proportional to its share.
 * All ranks get the speeds as a sum to which each adds its own, so all have the same bits. */
#include "llm/dist/share.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "llm/block/format.h"
#include "llm/block/matmul.h"
#include <string.h>

enum { TINYI_SHARE_ROWS = 4096, TINYI_SHARE_COLUMNS = 4096, TINYI_SHARE_TIMES = 31 };
#define TINYI_SHARE_NS UINT64_C(100000000)

static tiny_status tinyi_share_normal(tiny_ctx *ctx, double *share, int n)
{
    double sum = 0.0;
    int i;
    for (i = 0; i < n; i++) {
        if (!(share[i] > 0.0 && share[i] <= 1e300))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "the share of rank %d is %g: it must be above 0", i, share[i]);
        sum += share[i];
    }
    for (i = 0; i < n; i++) share[i] /= sum;
    return TINY_OK;
}

/* bytes a second of a product */
static tiny_status tinyi_share_speed(tiny_ctx *ctx, double *speed)
{
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_Q8_0);
    const size_t row = tllm_format_bytes(f, TINYI_SHARE_COLUMNS), bytes = row * TINYI_SHARE_ROWS;
    unsigned char *w = (unsigned char *)tinyi_alloc(ctx, bytes, 1);
    float *x = (float *)tinyi_alloc(ctx, TINYI_SHARE_ROWS + TINYI_SHARE_COLUMNS, sizeof *x);
    uint64_t took[TINYI_SHARE_TIMES], start = tiny_now_ns();
    tiny_tensor tx, tw, ty;
    tiny_status st = w && x ? TINY_OK : tiny_ctx_status(ctx);
    int n, i;
    if (!st) {
        memset(w, 0x11, bytes);             /* not zero: the system may give one page of zeros many times */
        for (i = 0; i < TINYI_SHARE_COLUMNS; i++) x[i] = (float)(i % 7) - 3.0f;
        tx = tiny_tensor_2d(x, TINY_F32, 1, TINYI_SHARE_COLUMNS);
        ty = tiny_tensor_2d(x + TINYI_SHARE_COLUMNS, TINY_F32, 1, TINYI_SHARE_ROWS);
        tw = tiny_tensor_2d(w, TINY_U8, TINYI_SHARE_ROWS, (tiny_idx)row);
        st = tllm_matmul(ctx, &tx, TLLM_FORMAT_Q8_0, &tw, NULL, &ty);       /* starts threads */
    }
    for (n = 0; n < TINYI_SHARE_TIMES && !st && (n < 3 || tiny_now_ns() - start < TINYI_SHARE_NS); n++) {
        const uint64_t from = tiny_now_ns();
        uint64_t t;
        st = tllm_matmul(ctx, &tx, TLLM_FORMAT_Q8_0, &tw, NULL, &ty);
        t = tiny_now_ns() - from;
        for (i = n; i > 0 && took[i - 1] > t; i--) took[i] = took[i - 1];
        took[i] = t;
    }
    if (!st) *speed = (double)bytes / (1e-9 * (double)TINYI_MAX(took[n / 2], 1));
    tiny_free(ctx, x);
    tiny_free(ctx, w);
    return st;
}

TINY_API tiny_status tllm_share_measure(tiny_ctx *ctx, tiny_comm *comm, double *share)
{
    float all[TINY_NET_RANKS];
    const int world = tiny_comm_world(comm);
    double speed = 0.0;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!comm || !share)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_share_measure needs a comm and room for shares");
    if (tiny_comm_most(comm) < (size_t)world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_share_measure: the comm was opened for sums of %zu numbers, %d "
                          "are needed", tiny_comm_most(comm), world);
    st = tinyi_share_speed(ctx, &speed);
    if (st) {
        tiny_comm_abort(comm);              /* no rank waits for one that failed */
        return st;
    }
    memset(all, 0, sizeof all);
    all[tiny_comm_rank(comm)] = (float)(speed * 1e-9);
    st = tiny_allreduce(comm, all, (size_t)world, 251);
    for (i = 0; i < world && !st; i++) share[i] = (double)all[i];
    return st ? st : tinyi_share_normal(ctx, share, world);
}

TINY_API tiny_status tllm_share_by_time(tiny_ctx *ctx, const double *share, const double *ms, int world, double *next)
{
    double to[TINY_NET_RANKS];
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!ms || !next || world < 1 || world > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_share_by_time needs the times of 1 to %d ranks, not of %d",
                          TINY_NET_RANKS, world);
    for (i = 0; i < world; i++) {
        if (!(ms[i] > 0.0 && ms[i] <= 1e300))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank %d has computed for %g ms: that says nothing of its speed", i,
                              ms[i]);
        to[i] = (share ? share[i] : 1.0) / ms[i];
    }
    st = tinyi_share_normal(ctx, to, world);
    if (!st) memcpy(next, to, (size_t)world * sizeof *to);
    return st;
}

TINY_API tiny_status tllm_share_without(tiny_ctx *ctx, const double *share, int world, int gone, double *left)
{
    double to[TINY_NET_RANKS];
    int i, n = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!share || !left || world < 2 || world > TINY_NET_RANKS || gone < 0 || gone >= world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_share_without: rank %d of %d: there must be 2 to %d ranks, and "
                          "it must be one of them", gone, world, TINY_NET_RANKS);
    for (i = 0; i < world; i++) if (i != gone) to[n++] = share[i];
    st = tinyi_share_normal(ctx, to, n);
    if (!st) memcpy(left, to, (size_t)n * sizeof *to);
    return st;
}
