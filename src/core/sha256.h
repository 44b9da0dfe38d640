/* src/core/sha256.h - SHA-256, HMAC-SHA256, and random bytes from the system
 *
 *   tiny_sha256 h;
 *   tiny_sha256_start(&h);
 *   tiny_sha256_add(&h, bytes, n);                       in pieces of any size
 *   tiny_sha256_end(&h, digest);                         h must be started again before it is used again
 *
 * No function here allocates or fails, except tiny_random. Where a pointer is NULL nothing is done. Threads may call
 * them at the same time. The fastest form that the processor has is used, with the same digest from each: there is no
 * context here, so neither its target nor TINY_TARGET chooses. */
#ifndef TINYI_SHA256_H
#define TINYI_SHA256_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tiny_sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    unsigned char rest[64];                 /* n_bytes % 64 of them wait for their block */
    int fast;                               /* the form: 0 plain C, 1 vectors of AVX2, 2 instructions for SHA */
} tiny_sha256;

TINY_API void tiny_sha256_start(tiny_sha256 *h);
TINY_API void tiny_sha256_add(tiny_sha256 *h, const void *bytes, size_t n);
TINY_API void tiny_sha256_end(tiny_sha256 *h, unsigned char digest[32]);
TINY_API void tiny_sha256_of(const void *bytes, size_t n, unsigned char digest[32]);

/* A key prepared for many messages: tiny_hmac_key once, then for each message start, add and end. A key of any
 * length; tiny_hmac_end wipes nothing, so the owner wipes the struct. */
typedef struct tiny_hmac { tiny_sha256 inner, outer, at; } tiny_hmac;
TINY_API void tiny_hmac_key(tiny_hmac *m, const void *key, size_t n);
TINY_API void tiny_hmac_start(tiny_hmac *m);
TINY_API void tiny_hmac_add(tiny_hmac *m, const void *bytes, size_t n);
TINY_API void tiny_hmac_end(tiny_hmac *m, unsigned char digest[32]);

/* True if n bytes are equal. The time does not depend on where they differ. */
TINY_API int tiny_same_secret(const void *a, const void *b, size_t n);
/* Overwrites bytes in a way that compilers keep. */
TINY_API void tiny_wipe(void *bytes, size_t n);
/* n bytes that nobody can guess, from the system. Never falls back to anything weaker. */
TINY_API tiny_status tiny_random(tiny_ctx *ctx, void *bytes, size_t n);

/* ---- inside: for the tests ---- */

TINYI_FN void tinyi_sha_blocks_ref(uint32_t h[8], const unsigned char *p, size_t n_blocks);
/* Starts with that form (tiny_sha256.fast). Returns 0 if this build or this processor does not have it. */
TINYI_FN int tinyi_sha_start_as(tiny_sha256 *h, int form);

TINYI_C_END
#endif
