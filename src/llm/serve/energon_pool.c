/* src/llm/serve/energon_pool.c - the peer memory pool
 * Paper    J. Du et al., "EnergonAI", 2022 (arXiv 2209.02341): layers j with j mod k = k - 1 live in the memory of a
 *          peer and are fetched ahead of their use.
 * Order    load u is of lent layer u mod (n / k). It begins when layer j - ahead begins, after the load before it, and
 *          when one of the two buffers is free: the loader of llm/dist/loader.h waits for the buffers and the caller,
 *          this file for the layer.
 * Message  request: u64 layer; ~0: the end. Answer: the bytes. First each side sends 32 bytes: a magic number, the
 *          print, the number of layers, their size. */
#include "llm/serve/energon_pool.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tllm_pool {
    tiny_ctx *ctx;
    tllm_pool_desc d;
    tllm_loader *loader;
    uint64_t passes, began, asked;          /* began: loads that may begin; asked: loads that were begun */
    tiny_idx next;                          /* layer */
    int quit, use_net;
    tllm_pool_about about;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t wake;
#endif
};

static void tinyi_lent_lock(tllm_pool *p)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&p->lock);
#else
    (void)p;
#endif
}
static void tinyi_lent_unlock(tllm_pool *p)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
#else
    (void)p;
#endif
}

/* One whole message. timeout_ns 0: as long as it takes. says: the net's. */
static tiny_status tinyi_lent_move(tiny_net *net, int sends, unsigned kind, void *data, size_t n, uint64_t timeout_ns)
{
    const uint64_t until = timeout_ns ? tiny_now_ns() + timeout_ns : UINT64_MAX;
    const int peer = 1 - net->rank;
    tiny_message m;
    memset(&m, 0, sizeof m);
    m.tag = (uint64_t)kind << 8 | 246;
    m.data = data;
    m.n = n;
    for (;;) {
        const uint64_t seen = net->changes(net);
        const tiny_status st = sends ? net->send(net, peer, &m) : net->recv(net, peer, &m);
        if (st) return st;
        if (m.whole) return TINY_OK;
        if (tiny_now_ns() >= until) {
            (void)snprintf(net->says, sizeof net->says, "rank %d waited for rank %d until the time-out", net->rank,
                           peer);
            net->why = TINY_E_TIMEOUT;
            net->close(net);
            return TINY_E_TIMEOUT;
        }
        net->pause(net, seen, !sends && m.at && !net->virtual_clock && m.at < until ? m.at : until);
    }
}

static tiny_status tinyi_lent_ask(tllm_pool *p, tiny_idx layer, void *to)
{
    unsigned char request[8];
    tiny_status st;
    tinyi_put_le(request, (uint64_t)layer, 8);
    st = tinyi_lent_move(p->d.net, 1, 2, request, sizeof request, p->d.timeout_ns);
    return st ? st : tinyi_lent_move(p->d.net, 0, 3, to, p->d.bytes, p->d.timeout_ns);
}

/* on the loader's thread */
static tiny_status tinyi_lent_read(void *user, tiny_idx block, void *to, char says[TLLM_LOADER_SAYS])
{
    tllm_pool *p = (tllm_pool *)user;
    const tiny_idx layer = block * p->d.k + p->d.k - 1;
    tiny_status st = TINY_OK;
    int net;
    tinyi_lent_lock(p);
#if TINYI_HAVE_HELPERS
    while (p->d.ahead > 0 && p->asked >= p->began && !p->quit) (void)pthread_cond_wait(&p->wake, &p->lock);
#endif
    p->asked++;
    if (p->quit) st = TINY_E_CANCELLED;
    net = p->use_net;
    tinyi_lent_unlock(p);
    if (st) return st;
    if (net) {
        st = tinyi_lent_ask(p, layer, to);
        if (st && p->d.read) {
            tinyi_lent_lock(p);
            p->about.lost = 1;
            p->use_net = net = 0;
            tinyi_lent_unlock(p);
        } else if (st) (void)snprintf(says, TLLM_LOADER_SAYS, "the lender of layers: %.150s", p->d.net->says);
    }
    if (!net) st = p->d.read(p->d.user, layer, to, says);
    tinyi_lent_lock(p);
    p->about.loads += !st;
    p->about.from_net += !st && net;
    tinyi_lent_unlock(p);
    return st;
}

static void tinyi_lent_hello(unsigned char hello[32], tiny_idx layers, size_t bytes, uint64_t print)
{
    memcpy(hello, "pool   1", 8);
    tinyi_put_le(hello + 8, print, 8);
    tinyi_put_le(hello + 16, (uint64_t)layers, 8);
    tinyi_put_le(hello + 24, (uint64_t)bytes, 8);
}
static tiny_status tinyi_lent_meet(tiny_ctx *ctx, tiny_net *net, tiny_idx layers, size_t bytes, uint64_t print,
                                   uint64_t timeout_ns)
{
    unsigned char mine[32], got[32];
    tiny_status st;
    tinyi_lent_hello(mine, layers, bytes, print);
    st = tinyi_lent_move(net, 1, 1, mine, sizeof mine, timeout_ns);
    if (!st) st = tinyi_lent_move(net, 0, 1, got, sizeof got, timeout_ns);
    if (st) return tinyi_fail(ctx, st, "%s", net->says);
    if (!memcmp(mine, got, sizeof mine)) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_PROTOCOL, "rank %d lends or wants other layers than rank %d", 1 - net->rank,
                      net->rank);
}

/* bytes a second of one load of the first lent layer */
static double tinyi_lent_rate(tllm_pool *p, int net, void *to, tiny_status *st)
{
    char says[TLLM_LOADER_SAYS];
    const uint64_t from = tiny_now_ns();
    says[0] = 0;
    *st = net ? tinyi_lent_ask(p, p->d.k - 1, to) : p->d.read(p->d.user, p->d.k - 1, to, says);
    return 1e9 * (double)p->d.bytes / ((double)(tiny_now_ns() - from) + 1.0);
}

static tiny_status tinyi_lent_choose(tllm_pool *p)
{
    tiny_status from_net, from_file;
    void *to;
    p->use_net = p->d.net != NULL;
    if (!p->d.net || !p->d.read) return TINY_OK;
    to = tiny_alloc(p->ctx, p->d.bytes);
    if (!to) return tiny_ctx_status(p->ctx);
    p->about.net_rate = tinyi_lent_rate(p, 1, to, &from_net);
    p->about.read_rate = tinyi_lent_rate(p, 0, to, &from_file);
    tiny_free(p->ctx, to);
    if (from_net && from_file) return tinyi_fail(p->ctx, from_net, "neither the lender nor the file gives layers");
    if (from_net) p->about.lost = 1;
    p->use_net = !from_net && (from_file || p->about.net_rate >= p->about.read_rate);
    return TINY_OK;
}

TINY_API tiny_status tllm_pool_open(tiny_ctx *ctx, const tllm_pool_desc *d, tllm_pool **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_loader_desc ld;
    tllm_pool *p;
    uint64_t *bytes;
    tiny_idx i;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || (!d->read && !d->net) || (!d->resident && d->k > 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pool needs its layers, a lender or a file, and an output pointer");
    if (d->layers < 1 || d->layers > 65536 || d->k < 1 || d->layers % d->k)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pool of every %td. of %td layers: the interval divides the layers",
                          d->k, d->layers);
    if (!d->bytes || d->bytes % 4 || d->ahead > d->layers || !(d->bytes_per_second >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pool of layers of %zu bytes, %d ahead: out of range", d->bytes,
                          d->ahead);
    if (d->net && (d->net->world != 2 || d->net->rank))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the net of a pool has two ranks, and this is rank %d of %d",
                          d->net->rank, d->net->world);
    for (i = 0; i < d->layers; i++)
        if (i % d->k != d->k - 1 && !d->resident[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "layer %td of the pool is neither lent nor here", i);
    p = (tllm_pool *)tinyi_alloc(ctx, 1, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->d = *d;
    if (!d->ahead) p->d.ahead = d->k < 3 ? 1 : 2;
    if (!d->timeout_ns) p->d.timeout_ns = UINT64_C(10000000000);
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->wake, NULL);
#endif
    bytes = (uint64_t *)tinyi_alloc(ctx, (size_t)(d->layers / d->k), sizeof *bytes);
    if (!bytes) st = tiny_ctx_status(ctx);
    for (i = 0; i < d->layers / d->k && !st; i++) bytes[i] = (uint64_t)d->bytes;
    if (!st && d->net) st = tinyi_lent_meet(ctx, d->net, d->layers, d->bytes, d->print, p->d.timeout_ns);
    if (!st) st = tinyi_lent_choose(p);
    memset(&ld, 0, sizeof ld);
    ld.n = d->layers / d->k;
    ld.bytes = bytes;
    ld.window = 2;
    ld.read = tinyi_lent_read;
    ld.user = p;
    ld.bytes_per_second = d->bytes_per_second;
    ld.no_thread = d->ahead < 0;
    p->began = p->d.ahead > 0 ? (uint64_t)(p->d.ahead / d->k) : 0;
    if (!st) st = tllm_loader_open(ctx, &ld, &p->loader);
    tiny_free(ctx, bytes);
    if (st) tllm_pool_close(p);
    else *out = p;
    return st;
}

TINY_API void tllm_pool_close(tllm_pool *p)
{
    unsigned char request[8];
    if (!p) return;
    tinyi_lent_lock(p);
    p->quit = 1;
    tinyi_lent_unlock(p);
    tllm_loader_close(p->loader);
    memset(request, 255, sizeof request);
    if (p->d.net && !p->d.net->why && !p->about.lost)
        (void)tinyi_lent_move(p->d.net, 1, 2, request, sizeof request, p->d.timeout_ns);
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
#endif
    tiny_free(p->ctx, p);
}

TINY_API tiny_status tllm_pool_acquire(tllm_pool *p, tiny_idx layer, const void **data)
{
    const unsigned char *at = NULL;
    tiny_status st = TINY_OK;
    if (data) *data = NULL;
    if (!p) return TINY_E_ARGUMENT;
    if (!data || layer != p->next)
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "layer %td of a pool: layer %td is next, and the result pointer is "
                          "needed", layer, p->next);
    tllm_loader_release(p->loader);
    if (layer % p->d.k == p->d.k - 1) {
        tinyi_lent_lock(p);                 /* it is needed at once: its load may begin, however far ahead others are */
        p->began = TINYI_MAX(p->began, (p->passes * (uint64_t)p->d.layers + (uint64_t)layer + 1) / (uint64_t)p->d.k);
        tinyi_lent_unlock(p);
        st = tllm_loader_acquire(p->loader, layer / p->d.k, &at);
        if (st) return st;
        *data = at;
    } else *data = p->d.resident[layer];
    tinyi_lent_lock(p);
    if (p->d.ahead > 0)
        p->began = TINYI_MAX(p->began, (p->passes * (uint64_t)p->d.layers + (uint64_t)(layer + p->d.ahead + 1)) /
                                           (uint64_t)p->d.k);
    tinyi_lent_unlock(p);
    p->next = layer + 1;
    if (p->next == p->d.layers) {
        p->next = 0;
        p->passes++;
    }
    return TINY_OK;
}

TINY_API void tllm_pool_look(tllm_pool *p, tllm_pool_about *about)
{
    if (!about) return;
    memset(about, 0, sizeof *about);
    if (!p) return;
    tinyi_lent_lock(p);
    *about = p->about;
    tinyi_lent_unlock(p);
    about->loader = tllm_loader_count(p->loader);
}

TINY_API tiny_status tllm_pool_lend(tiny_ctx *ctx, tiny_net *net, const void *const *block, tiny_idx layers,
                                    size_t bytes, uint64_t print)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !block || layers < 1 || !bytes || net->world != 2 || net->rank != 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a lender is rank 1 of a net of two, and has layers of some bytes");
    st = tinyi_lent_meet(ctx, net, layers, bytes, print, UINT64_C(10000000000));
    while (!st) {
        unsigned char request[8];
        uint64_t layer;
        st = tinyi_lent_move(net, 0, 2, request, sizeof request, 0);
        if (st) break;
        layer = tinyi_le64(request);
        if (layer == UINT64_MAX) return TINY_OK;
        if (layer >= (uint64_t)layers || !block[layer]) {
            (void)snprintf(net->says, sizeof net->says, "rank 0 wants a layer that is not lent");
            st = tinyi_net_end(ctx, net, TINY_E_PROTOCOL);
            break;
        }
        st = tinyi_lent_move(net, 1, 3, (void *)(uintptr_t)block[layer], bytes, UINT64_C(10000000000));
    }
    return *tiny_ctx_message(ctx) && tiny_ctx_status(ctx) == st ? st : tinyi_fail(ctx, st, "%s", net->says);
}

TINY_API double tllm_pool_time(tiny_idx n, tiny_idx k, double layer, double load, int ahead)
{
    enum { RING = 64 };
    double start[RING], loader = 0, free_at[2] = { 0, 0 }, end = 0;
    tiny_idx j, u = 0;
    if (n < 1 || k < 1 || n % k || !(layer >= 0) || !(load >= 0) || ahead < 0 || ahead >= RING) return (double)NAN;
    for (j = 0; j < n; j++) {
        double begin = end;
        if (j % k == k - 1) {
            double issue = !ahead ? end : j < ahead ? 0 : start[(j - ahead) % RING];
            issue = TINYI_MAX(TINYI_MAX(issue, loader), free_at[u & 1]);
            loader = issue + load;
            begin = TINYI_MAX(end, loader);
            free_at[u++ & 1] = begin + layer;
        }
        start[j % RING] = begin;
        end = begin + layer;
    }
    return end;
}
