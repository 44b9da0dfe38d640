/* tests/fuzz/wire.c - any bytes as a handshake, and as frames of messages on a connection
 *
 * The first byte chooses: 0 a server, 1 a client, else a connection. A handshake takes the bytes as they are; with bit
 * 2 the proof is made right, so that what follows is reached. A connection takes records of a byte of flags, a length
 * of two bytes and a frame; bit 0 of the flags gives the frame its number, rank, length and MAC. */
#define TINY_STATIC
#define TINY_NO_SIMD
#ifndef TINY_NO_OPENMP
#define TINY_NO_OPENMP
#endif
#define TINY_WITH_TCP
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdlib.h>
#include <string.h>

static void shake(const uint8_t *data, size_t size, int server, int seal)
{
    tinyi_shake k;
    tiny_status st = TINY_OK;
    memset(&k, 0, sizeof k);
    k.server = server;
    k.rank = server ? 0 : 1;
    k.most = 65536;
    memset(k.key, 7, sizeof k.key);
    tinyi_shake_start(&k);
    if (server == (k.n_out != 0)) abort();
    k.out_at = k.n_out;
    while (!st && size) {
        unsigned char some[256];
        size_t n = tinyi_shake_wants(&k);
        if (n > sizeof k.in - k.n_in) abort();
        if (!n || n > size) break;
        memcpy(some, data, n);
        if (seal && k.n_in == TINYI_WIRE_HEAD && k.state == TINYI_SHAKE_AUTH)
            tinyi_shake_proof(&k, "TLD1 client", 88, some);
        if (seal && k.n_in == TINYI_WIRE_HEAD && k.state == TINYI_SHAKE_CHALLENGE) {
            memcpy(k.challenge, some, 56);
            tinyi_shake_proof(&k, "TLD1 server", 56, some + 56);
        }
        st = tinyi_shake_take(&k, some, n);
        data += n;
        size -= n;
        k.out_at = k.n_out;
    }
    if (st && (!k.says[0] || k.done)) abort();
    if (k.done && !seal) abort();           /* a proof was guessed */
}

#if TINYI_HAVE_SOCKETS && !defined _WIN32
static void connection(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static unsigned char room[2][TINYI_TCP_FRAME], frame[TINYI_TCP_FRAME], got[4096 + 16];
    static tiny_net_count count[2];
    tinyi_tcp_peer peer[2];
    tiny_hmac key;
    tiny_tcp t;
    uint64_t number = 0;
    int fd[2], i;
    tiny_status st = TINY_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) abort();
    if (!tinyi_fd_set_up(fd[0], 0) || !tinyi_fd_set_up(fd[1], 0)) abort();
    memset(&t, 0, sizeof t);
    memset(peer, 0, sizeof peer);
    tiny_hmac_key(&key, "a key of this test", 18);
    t.net.world = 2;
    t.net.count = count;
    t.ping_ns = UINT64_MAX / 8;
    t.peer = peer;
    peer[0].s = TINY_NO_SOCKET;
    peer[1].s = fd[0];
    peer[1].live = 1;
    peer[1].most = TINYI_TCP_MOST;
    peer[1].sends = peer[1].receives = key;
    peer[1].in = room[0];
    peer[1].out = room[1];
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&t.lock, NULL);
#endif
    while (size >= 4 && !st) {
        const int flags = data[0];
        size_t n = (size_t)data[1] | (size_t)data[2] << 8, put;
        tiny_message m;
        data += 3;
        size -= 3;
        if (n > size) n = size;
        memset(frame, 0, TINYI_WIRE_HEAD);
        memcpy(frame, data, n);
        if (flags & 1) {
            const size_t body = n > TINYI_WIRE_HEAD ? n - TINYI_WIRE_HEAD : 0;
            memcpy(frame, "TLD1\1", 5);
            tinyi_put_le32(frame + 8, 1);
            tinyi_put_le32(frame + 12, (uint32_t)body);
            tinyi_put_le(frame + 16, number++, 8);
            tinyi_wire_mac(&key, frame, TINYI_WIRE_HEAD + body, frame + TINYI_WIRE_HEAD + body);
            put = TINYI_WIRE_HEAD + body + TINYI_WIRE_MAC;
        } else put = n;
        data += n;
        size -= n;
        if (tiny_socket_write(NULL, fd[1], frame, put, &put)) abort();
        memset(&m, 0, sizeof m);
        m.n = (size_t)(flags >> 1) * 16 % 4096;
        m.tag = (uint64_t)(flags & 2);
        m.data = got;
        memset(got + m.n, 0x55, 16);
        for (i = 0; i < 3 && !st && !m.whole; i++) st = t.net.world ? tinyi_tcp_recv(&t.net, 1, &m) : TINY_OK;
        if (m.done > m.n || (m.whole && m.done != m.n)) abort();
        for (i = 0; i < 16; i++) if (got[m.n + (size_t)i] != 0x55) abort();
        if (st && !t.net.says[0]) abort();
        if (st && st != TINY_E_PROTOCOL && st != TINY_E_PEER) abort();
        if (t.net.gone < 0 || t.net.gone > 2) abort();
    }
    if (st) (void)tinyi_fail(ctx, st, "%s", t.net.says);
    tinyi_tcp_gone(&t.net);
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_destroy(&t.lock);
#endif
    tiny_socket_close(fd[0]);
    tiny_socket_close(fd[1]);
}
#else
static void connection(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    (void)ctx;
    (void)data;
    (void)size;
}
#endif

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    if (size < 1) return;
    if ((data[0] & 3) < 2) shake(data + 1, size - 1, !(data[0] & 1), (data[0] & 4) != 0);
    else connection(ctx, data + 1, size - 1);
}

#define FUZZ_NAME "wire"
#include "engine.h"
