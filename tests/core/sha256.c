/* tests/core/sha256.c - SHA-256 and HMAC-SHA256
 *
 * Truth    the examples of FIPS 180-2 (abc, a million a), RFC 4231 (HMAC), and digests of Python's hashlib (OpenSSL)
 *          for lengths around the padding; all forms on every length. */
#define T_GNN
#define T_INTERNALS
#include "t.h"
#include "core/sha256.h"

static const char *hex(const unsigned char *p, size_t n)
{
    static char text[65];
    size_t i;
    for (i = 0; i < n; i++) (void)snprintf(text + 2 * i, 3, "%02x", p[i]);
    return text;
}

static void test_digests(void)
{
    static const struct { int n; const char *is; } of[] = {
        { 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { 1, "084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5" },
        { 55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b" },
        { 56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27" },
        { 57, "35df609437dcfea3279283ab79fd554e2bf78f8f7ae2de532d8ee300b09e8f73" },
        { 63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055" },
        { 64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241" },
        { 65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e" },
        { 119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e" },
        { 120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5" },
        { 127, "a8d23e75d936f303d248888d9b165ee543f4cbafcad3c9dd2a79bd84faa11d07" },
        { 128, "d2742f1f4ac6bb7ca2b239ee18402ba8b3f9f8e652d2a72973c2b9ba11c08cf6" },
        { 1000, "1e9bc38cbf860b9ec31918b065f9b52476c549a782e0e7990bed8ce3868d2371" }
    };
    unsigned char bytes[1000], got[32], *million = (unsigned char *)t_guarded_bytes(1000000);
    tiny_sha256 h;
    size_t i, k;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7 + 3);
    for (i = 0; i < T_COUNT(of); i++) {
        const size_t n = (size_t)of[i].n;
        tiny_sha256_of(bytes, n, got);
        T_EQ_TEXT(hex(got, 32), of[i].is);
        for (k = 1; k < 130; k += k < 4 ? 1 : 31) {     /* in pieces of k */
            size_t at;
            tiny_sha256_start(&h);
            for (at = 0; at < n; at += k) tiny_sha256_add(&h, bytes + at, k < n - at ? k : n - at);
            tiny_sha256_add(&h, NULL, 0);
            tiny_sha256_end(&h, got);
            T_EQ_TEXT(hex(got, 32), of[i].is);
        }
    }
    tiny_sha256_of("abc", 3, got);
    T_EQ_TEXT(hex(got, 32), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(million, 'a', 1000000);
    tiny_sha256_of(million, 1000000, got);
    T_EQ_TEXT(hex(got, 32), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* what runs here, and plain C, against the reference */
static void test_forms(void)
{
    unsigned char bytes[64 * 9];
    uint32_t a[8], b[8];
    tiny_sha256 h;
    size_t i, n;
    for (n = 0; n <= 9; n++) {
        for (i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)t_rand_u64();
        tiny_sha256_start(&h);
        T_TRUE(!tinyi_sha_has_instructions() || h.fast);
        memcpy(a, h.h, sizeof a);
        memcpy(b, h.h, sizeof b);
        tiny_sha256_add(&h, bytes, 64 * n);
        tinyi_sha_blocks_ref(a, bytes, n);
        tinyi_sha_blocks_c(b, bytes, n);
        T_SAME(h.h, a, 8);
        T_SAME(b, a, 8);
    }
}

static void test_hmac(void)
{
    static const char *const is[] = { "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
                                      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
                                      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
                                      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
                                      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
                                      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" };
    static const char five[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char six[] = "This is a test using a larger than block-size key and a larger than block-size data. "
                              "The key needs to be hashed before being used by the HMAC algorithm.";
    unsigned char key[131], text[50], got[32];
    tiny_hmac m;
    tiny_sha256 alone;
    int i, again;
    tiny_sha256_start(&alone);
    tiny_hmac_key(&m, "key", 3);
    T_TRUE(m.inner.fast == alone.fast && m.outer.fast == alone.fast);       /* the same kernel */
    for (i = 0; i < 6; i++) {
        const void *p = text;
        size_t n_key = 20, n = 50, k;
        for (k = 0; k < sizeof key; k++) key[k] = (unsigned char)(i == 0 ? 0x0b : i == 3 ? k + 1 : 0xaa);
        memset(text, i == 2 ? 0xdd : 0xcd, sizeof text);
        if (i == 0) { p = "Hi There"; n = 8; }
        if (i == 1) { memcpy(key, "Jefe", 4); n_key = 4; p = "what do ya want for nothing?"; n = 28; }
        if (i == 3) n_key = 25;
        if (i > 3) { n_key = 131; p = i == 4 ? five : six; n = i == 4 ? sizeof five - 1 : sizeof six - 1; }
        tiny_hmac_key(&m, key, n_key);
        for (again = 0; again < 2; again++) {           /* a key serves many messages */
            tiny_hmac_start(&m);
            tiny_hmac_add(&m, p, n / 3);
            tiny_hmac_add(&m, (const char *)p + n / 3, n - n / 3);
            tiny_hmac_end(&m, got);
            T_EQ_TEXT(hex(got, 32), is[i]);
        }
    }
}

static void test_small_things(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char a[300], b[300];
    int i, zero = 0, same = 0;
    memset(a, 1, sizeof a);
    memset(b, 1, sizeof b);
    for (i = 0; i < 300; i++) {
        b[i] ^= 0x80;
        T_TRUE(!tiny_same_secret(a, b, 300));
        b[i] ^= 0x80;
    }
    T_TRUE(tiny_same_secret(a, b, 300) && tiny_same_secret(a, b, 0));
    tiny_wipe(a, 299);
    T_TRUE(!a[0] && !a[298] && a[299] == 1);
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    T_OK(tiny_random(ctx, a, sizeof a));
    T_OK(tiny_random(ctx, b, sizeof b));
    for (i = 0; i < 300; i++) { zero += !a[i]; same += a[i] == b[i]; }
    T_TRUE(zero < 30 && same < 30);         /* about one each is expected; 30 never happens */
    tiny_sha256_start(NULL);
    tiny_sha256_add(NULL, a, 1);
    tiny_sha256_end(NULL, a);
    tiny_hmac_key(NULL, a, 1);
    tiny_hmac_end(NULL, a);
    tiny_wipe(NULL, 1);
    T_TRUE(!tiny_same_secret(a, NULL, 1) && !tiny_same_secret(NULL, a, 1));
    T_OK(tiny_random(ctx, a, 0));
    T_STATUS(tiny_random(ctx, NULL, 1), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_digests);
    T_RUN(test_forms);
    T_RUN(test_hmac);
    T_RUN(test_small_things);
    return t_done();
}
