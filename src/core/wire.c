/* src/core/wire.c - TLD1 frames and handshake
 * Method   a challenge in both directions over a shared secret (the pattern of RFC 2617 and of SCRAM, RFC 5802, without
 *          their passwords): the server proves first, so that a client never answers a stranger.
 * Formula  K = SHA-256(secret); proofs HMAC(K, "TLD1 server" || HELLO || CHALLENGE up to its proof) and
 *          HMAC(K, "TLD1 client" || HELLO || CHALLENGE); keys HMAC(K, "TLD1 c2s" or "TLD1 s2c" || nonce of the client
 *          || nonce of the server || run).
 * Left out encryption, and forward secrecy: who learns the secret later can forge no old run, but read all. */
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/wire_inside.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_SHAKE_HELLO, TINYI_SHAKE_CHALLENGE, TINYI_SHAKE_AUTH, TINYI_SHAKE_DONE, TINYI_SHAKE_FAILED };

void tinyi_head_put(unsigned char p[TINYI_WIRE_HEAD], const tinyi_head *h)
{
    memcpy(p, "TLD1", 4);
    p[4] = 1;
    p[5] = (unsigned char)h->type;
    tinyi_put_le16(p + 6, (unsigned)h->flags);
    tinyi_put_le32(p + 8, h->rank);
    tinyi_put_le32(p + 12, h->n);
    tinyi_put_le(p + 16, h->number, 8);
    tinyi_put_le(p + 24, h->tag, 8);
}

int tinyi_head_get(const unsigned char p[TINYI_WIRE_HEAD], uint32_t most, tinyi_head *h, char says[TINYI_WIRE_SAYS])
{
    uint32_t least = 0, limit = 0;
    if (memcmp(p, "TLD1", 4)) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "its bytes are no TLD1 frame");
        return 0;
    }
    if (p[4] != 1) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "its frame has version %d, this program knows 1", p[4]);
        return 0;
    }
    h->type = p[5];
    h->flags = tinyi_le16(p + 6);
    h->rank = tinyi_le32(p + 8);
    h->n = tinyi_le32(p + 12);
    h->number = tinyi_le64(p + 16);
    h->tag = tinyi_le64(p + 24);
    switch (h->type) {
    case TINYI_WIRE_HELLO: least = limit = 108; break;
    case TINYI_WIRE_CHALLENGE: least = limit = 88; break;
    case TINYI_WIRE_AUTH: least = limit = 32; break;
    case TINYI_WIRE_WELCOME: least = 12; limit = 12 + TINYI_WIRE_PLAN_MOST; break;
    case TINYI_WIRE_PING: case TINYI_WIRE_PONG: case TINYI_WIRE_BYE: break;
    case TINYI_WIRE_REDUCE: limit = most; break;
    case TINYI_WIRE_ABORT: least = limit = 8; break;
    default:
        (void)snprintf(says, TINYI_WIRE_SAYS, "its frame has type %d, which is not expected", h->type);
        return 0;
    }
    if (h->flags & ~(h->type == TINYI_WIRE_REDUCE ? TINYI_WIRE_MORE : 0)) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "its frame of type %d has flags %x", h->type, (unsigned)h->flags);
        return 0;
    }
    if (h->n < least || h->n > limit) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "its frame of type %d has %lu bytes, %lu to %lu are possible", h->type,
                       (unsigned long)h->n, (unsigned long)least, (unsigned long)limit);
        return 0;
    }
    if (h->tag && h->type != TINYI_WIRE_REDUCE) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "its frame of type %d has a tag", h->type);
        return 0;
    }
    return 1;
}

void tinyi_wire_mac(tiny_hmac *key, const unsigned char *frame, size_t n, unsigned char mac[TINYI_WIRE_MAC])
{
    unsigned char all[32];
    tiny_hmac_start(key);
    tiny_hmac_add(key, frame, n);
    tiny_hmac_end(key, all);
    memcpy(mac, all, TINYI_WIRE_MAC);
}

/* ---- the handshake ----------------------------------------------------------------------------------------------- */

static void tinyi_shake_proof(const tinyi_shake *k, const char *who, size_t n_challenge, unsigned char proof[32])
{
    tiny_hmac m;
    tiny_hmac_key(&m, k->key, sizeof k->key);
    tiny_hmac_start(&m);
    tiny_hmac_add(&m, who, strlen(who));
    tiny_hmac_add(&m, k->hello, sizeof k->hello);
    tiny_hmac_add(&m, k->challenge, n_challenge);
    tiny_hmac_end(&m, proof);
    tiny_wipe(&m, sizeof m);
}

static void tinyi_shake_key(const tinyi_shake *k, const char *way, tiny_hmac *key)
{
    tiny_hmac m;
    unsigned char all[32];
    tiny_hmac_key(&m, k->key, sizeof k->key);
    tiny_hmac_start(&m);
    tiny_hmac_add(&m, way, strlen(way));
    tiny_hmac_add(&m, k->hello + 12, 32);
    tiny_hmac_add(&m, k->challenge + 8, 32);
    tiny_hmac_add(&m, k->challenge + 40, 16);
    tiny_hmac_end(&m, all);
    tiny_hmac_key(key, all, sizeof all);
    tiny_wipe(&m, sizeof m);
    tiny_wipe(all, sizeof all);
}
static void tinyi_shake_end(tinyi_shake *k)
{
    tinyi_shake_key(k, k->server ? "TLD1 s2c" : "TLD1 c2s", &k->sends);
    tinyi_shake_key(k, k->server ? "TLD1 c2s" : "TLD1 s2c", &k->receives);
    tiny_wipe(k->key, sizeof k->key);
    k->state = TINYI_SHAKE_DONE;
    k->done = 1;
}

static void tinyi_shake_say(tinyi_shake *k, int type, const unsigned char *payload, uint32_t n)
{
    tinyi_head h;
    memset(&h, 0, sizeof h);
    h.type = type;
    h.rank = k->rank;
    h.n = n;
    tinyi_head_put(k->out, &h);
    memcpy(k->out + TINYI_WIRE_HEAD, payload, n);
    k->n_out = TINYI_WIRE_HEAD + n;
    k->out_at = 0;
}

void tinyi_shake_start(tinyi_shake *k)
{
    unsigned char *p = k->hello;
    if (k->server) return;
    tinyi_put_le16(p, 1);
    tinyi_put_le16(p + 2, 1);
    tinyi_put_le32(p + 4, k->rank);
    tinyi_put_le32(p + 8, k->world);
    memcpy(p + 12, k->nonce, 32);
    memcpy(p + 44, k->model, 32);
    memcpy(p + 76, k->config, 32);
    tinyi_shake_say(k, TINYI_WIRE_HELLO, p, sizeof k->hello);
    k->state = TINYI_SHAKE_CHALLENGE;
}

static uint32_t tinyi_shake_payload(const tinyi_shake *k)
{
    return k->state == TINYI_SHAKE_HELLO ? 108 : k->state == TINYI_SHAKE_CHALLENGE ? 88 : 32;
}

size_t tinyi_shake_wants(const tinyi_shake *k)
{
    if (k->state >= TINYI_SHAKE_DONE || k->out_at < k->n_out) return 0;
    /* the head first: nothing is read after an invalid one */
    return (k->n_in < TINYI_WIRE_HEAD ? TINYI_WIRE_HEAD : TINYI_WIRE_HEAD + tinyi_shake_payload(k)) - k->n_in;
}

static tiny_status tinyi_shake_no(tinyi_shake *k, const char *says)
{
    if (says) (void)snprintf(k->says, sizeof k->says, "%s", says);
    k->state = TINYI_SHAKE_FAILED;
    tiny_wipe(k->key, sizeof k->key);
    return TINY_E_PROTOCOL;
}

static tiny_status tinyi_shake_head(tinyi_shake *k)
{
    static const int type[] = { TINYI_WIRE_HELLO, TINYI_WIRE_CHALLENGE, TINYI_WIRE_AUTH };
    tinyi_head h;
    if (!tinyi_head_get(k->in, 0, &h, k->says)) return tinyi_shake_no(k, NULL);
    if (h.type != type[k->state]) return tinyi_shake_no(k, "its frame is not the next one of the handshake");
    if (h.number) return tinyi_shake_no(k, "its frame of the handshake has a number");
    if (k->state == TINYI_SHAKE_AUTH && h.rank != k->peer_rank)
        return tinyi_shake_no(k, "its rank has changed during the handshake");
    if (k->state == TINYI_SHAKE_CHALLENGE && h.rank != k->peer_rank) return tinyi_shake_no(k, "it is another rank");
    k->peer_rank = h.rank;
    return TINY_OK;
}

static tiny_status tinyi_shake_payload_in(tinyi_shake *k)
{
    const unsigned char *p = k->in + TINYI_WIRE_HEAD;
    unsigned char proof[32];
    if (k->state == TINYI_SHAKE_HELLO) {
        unsigned char *c = k->challenge;
        if (tinyi_le16(p) > 1 || tinyi_le16(p + 2) < 1)
            return tinyi_shake_no(k, "it speaks no version of TLD1 that this program knows");
        if (tinyi_le32(p + 4) != k->peer_rank) return tinyi_shake_no(k, "its HELLO names two ranks");
        memcpy(k->hello, p, sizeof k->hello);
        k->peer_world = tinyi_le32(p + 8);
        memcpy(k->peer_model, p + 44, 32);
        memcpy(k->peer_config, p + 76, 32);
        tinyi_put_le16(c, 1);
        tinyi_put_le16(c + 2, 0);
        tinyi_put_le32(c + 4, k->most);
        memcpy(c + 8, k->nonce, 32);
        memcpy(c + 40, k->run, 16);
        tinyi_shake_proof(k, "TLD1 server", 56, c + 56);
        tinyi_shake_say(k, TINYI_WIRE_CHALLENGE, c, sizeof k->challenge);
        k->state = TINYI_SHAKE_AUTH;
    } else if (k->state == TINYI_SHAKE_CHALLENGE) {
        memcpy(k->challenge, p, sizeof k->challenge);
        if (tinyi_le16(p) != 1 || tinyi_le16(p + 2)) return tinyi_shake_no(k, "its CHALLENGE has another version");
        tinyi_shake_proof(k, "TLD1 server", 56, proof);
        if (!tiny_same_secret(proof, p + 56, 32)) return tinyi_shake_no(k, "it does not have the same key");
        k->peer_most = tinyi_le32(p + 4);
        if (k->peer_most < 1024) return tinyi_shake_no(k, "it takes frames of less than 1024 bytes only");
        tinyi_shake_proof(k, "TLD1 client", 88, proof);
        tinyi_shake_say(k, TINYI_WIRE_AUTH, proof, sizeof proof);
        tinyi_shake_end(k);
    } else {
        tinyi_shake_proof(k, "TLD1 client", 88, proof);
        if (!tiny_same_secret(proof, p, 32)) return tinyi_shake_no(k, "it does not have the same key");
        k->peer_most = k->most;
        tinyi_shake_end(k);
    }
    return TINY_OK;
}

tiny_status tinyi_shake_take(tinyi_shake *k, const unsigned char *p, size_t n)
{
    tiny_status st = TINY_OK;
    if (n > tinyi_shake_wants(k)) return tinyi_shake_no(k, "it sends more than the handshake has");
    if (!n) return TINY_OK;
    memcpy(k->in + k->n_in, p, n);
    k->n_in += n;
    if (k->n_in == TINYI_WIRE_HEAD) st = tinyi_shake_head(k);
    else if (k->n_in == TINYI_WIRE_HEAD + tinyi_shake_payload(k)) {
        k->n_in = 0;
        st = tinyi_shake_payload_in(k);
    }
    return st;
}
