/* tests/core/sha256.c - SHA-256 and HMAC-SHA256
 *
 * Truth    the examples of FIPS 180-2 (abc, two blocks, a million a), RFC 4231 (HMAC), and digests of Python's hashlib
 *          (OpenSSL) of 0 to 300 bytes and of 1 MiB, for every form that this processor has. */
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

/* Each form that this processor has, alone. word[n]: the first four bytes of the digest of n bytes 7 i + 3; those 301
 * digests one after the other have the digest `all`. By hashlib:
 *   b = bytes((7 * i + 3) % 256 for i in range(2**20)); d = [hashlib.sha256(b[:n]).digest() for n in range(301)]
 *   [x[:4].hex() for x in d], hashlib.sha256(b"".join(d)).hexdigest(), hashlib.sha256(b).hexdigest() */
static void test_forms(void)
{
    static const uint32_t word[301] = {
        0xe3b0c442u, 0x084fed08u, 0x323b730fu, 0x6ab0dba1u, 0x42a146d9u, 0xc0a7188bu, 0xf3a8eb3du, 0xab764db4u,
        0x0865c1beu, 0x172f3d81u, 0xaadd73ebu, 0x74b55c9du, 0x756a3395u, 0xda925975u, 0xa6a744adu, 0x98b03249u,
        0x9c94926du, 0xbbc485bdu, 0x4929dcd4u, 0xe22bd9f6u, 0xcb0b638fu, 0xdd59e815u, 0x7f5e1b73u, 0x0c2227ceu,
        0x73281455u, 0xfa9766eau, 0x5492dff8u, 0x8876c611u, 0xa6940de8u, 0x52bbbbd7u, 0xf1eab075u, 0x721f1b54u,
        0xab5f8b5cu, 0x90f90857u, 0xc2966908u, 0x02825099u, 0xa7aba4cau, 0xb11e919cu, 0xafa3a9b2u, 0x90663c41u,
        0x0873681bu, 0xfe877131u, 0xd9fcbc5fu, 0x6c980fe8u, 0xf990f6edu, 0x98ce1f7bu, 0x736b0a4eu, 0x9b6073afu,
        0x31cedec8u, 0x5649348au, 0x9898428bu, 0x75e248b3u, 0x8230c270u, 0x9f17a1b3u, 0x160bbf14u, 0xe7313d33u,
        0x4324d65fu, 0x35df6094u, 0x9afd9e8bu, 0x3f67cd87u, 0x06659a8bu, 0x4a28a6c4u, 0x5b50d7a3u, 0x81c80242u,
        0x39e3d7b6u, 0xaacca6ffu, 0x11fdf003u, 0x06e3cd2eu, 0xc23b56ccu, 0xca32376fu, 0xfb1907e5u, 0x54cac605u,
        0x99e356eau, 0x64bee9b0u, 0x3ebc4be4u, 0x08182253u, 0x65cf2b7bu, 0x1f21d7feu, 0x87fa111cu, 0x2a4808f9u,
        0xc6b3377du, 0x5876ebcbu, 0xeb52f62bu, 0x2f0795e2u, 0x442975e0u, 0xb690f6f0u, 0xb876ad02u, 0xff4ec8cdu,
        0xb16ffce5u, 0xbb743aa1u, 0x4d39e6aeu, 0x85373e64u, 0xf8368d09u, 0x4d0d2d32u, 0x5028666bu, 0x3a23c913u,
        0xc9f1a5f7u, 0x9b5d6632u, 0xaf680818u, 0x5e4edd84u, 0x5a2cda23u, 0x48719cf7u, 0x9f0fc4c3u, 0x9313cf73u,
        0x5af877deu, 0xaf7d44bcu, 0x0e993486u, 0x9dfada1bu, 0xe0cfd9f0u, 0x6a9c24a9u, 0x4a70b5e2u, 0x67d9492eu,
        0x96b928cfu, 0xcded73eeu, 0x5155ce16u, 0xc2030f07u, 0x556cbf34u, 0x867b3263u, 0x2c49b89cu, 0x9ce7368eu,
        0x7836b787u, 0x1189a98au, 0x60937afbu, 0x229c92a5u, 0x2f781a36u, 0xb402a31cu, 0x3d11be99u, 0xa8d23e75u,
        0xd2742f1fu, 0x307f8fc2u, 0x4d5e47a2u, 0x4c14830du, 0x9e137d7fu, 0x938d47a3u, 0xdaf759a5u, 0x357ebb96u,
        0xcafc3beeu, 0xc9eb7066u, 0xf17bf19du, 0x436f9749u, 0xa0319584u, 0x5432ebb2u, 0x9735317au, 0x0ddc24e4u,
        0x01a4b796u, 0x5ca4040cu, 0xb818f308u, 0x7978d4fau, 0x598be25fu, 0xd8f03821u, 0xc695ceb0u, 0x49fc8869u,
        0x89e42668u, 0x8bb4982au, 0xa06e9007u, 0xe7b96406u, 0x6af38ea9u, 0xe0db6570u, 0xc9136d89u, 0x75dd0c79u,
        0x53733181u, 0xe3380424u, 0xb67af171u, 0x4e458097u, 0x565f913cu, 0x86cf75d4u, 0x5c5c337au, 0x07071ef3u,
        0x20f6c310u, 0x62fcf18au, 0xacf89d6cu, 0x0b7c6ff9u, 0xdcaaa391u, 0x3b564461u, 0xc227ec93u, 0x7e1cec48u,
        0xd1649727u, 0x245255c3u, 0xb79da261u, 0xca3b3817u, 0xca7b2e47u, 0xd56a75d9u, 0x81b66809u, 0x80e7b84au,
        0x9104901cu, 0x1ec67f29u, 0x0513cc82u, 0x88024111u, 0x95f7b19du, 0x40926ffcu, 0xe556731bu, 0x52be17f8u,
        0xec673221u, 0xc2e8235fu, 0x68c8e720u, 0x50f5cc26u, 0xa5aa39ebu, 0xc81fe8b2u, 0xf676b421u, 0x95f3888cu,
        0x2c7e18c9u, 0xe5eac360u, 0xa3647a0au, 0xfe788366u, 0x0b47b44eu, 0x00491745u, 0x78231103u, 0xc38acd11u,
        0x0de87be6u, 0xbc7c7817u, 0xc4ffc45fu, 0x3a8e3e87u, 0xfb068954u, 0x14cc340cu, 0xd8b4cc5bu, 0xc9f42565u,
        0x351563eau, 0x10bc3cb9u, 0x4fa96a5du, 0x8c2b5d36u, 0xa942e3d7u, 0xa48f97cdu, 0xfab74b93u, 0xfe9ce139u,
        0x6f632e4eu, 0x183571c8u, 0x61cc82b7u, 0xbfa6f71eu, 0x5142f3f0u, 0xbe923ac2u, 0x3002cbdeu, 0x775db9edu,
        0x50205440u, 0x49fb04d9u, 0x7df40c99u, 0xe7a92f52u, 0xeb10ffdbu, 0x2191c4fdu, 0x04530dd5u, 0x8fac859eu,
        0x93fa6826u, 0xc28ffab2u, 0xe361384cu, 0x01e58f64u, 0xe97d3dc1u, 0x8285f440u, 0x254f56f8u, 0x47446187u,
        0x8d6c06ecu, 0xa9a91e68u, 0x0f18a2e0u, 0x7ab3c43du, 0xe62d36afu, 0x7386d3e7u, 0xeb53f5b9u, 0x3c8af6e3u,
        0xd9c76fa3u, 0xb65c390eu, 0x4484ec9eu, 0x8f12badeu, 0x2dd1252cu, 0x13ab9b86u, 0x4e1c6edeu, 0x1ff06714u,
        0xba167bc9u, 0x2a80b873u, 0xdabe1ddcu, 0x94aa3c61u, 0x396674c5u, 0x057da4e8u, 0x727657efu, 0x9eb71254u,
        0x4d7f90b8u, 0xf1ed23fbu, 0x9706ba13u, 0xa8a6545du, 0xc78848eeu, 0x87d78ebbu, 0xac81dd5fu, 0x3f50dee6u,
        0x179048f4u, 0x27f85327u, 0x289b6fe4u, 0x98e09975u, 0x49ca24dfu, 0xe588b585u, 0xd4f8db2cu, 0xbec5cd3au,
        0xd1fee6d4u, 0x3a4bb622u, 0x73b676f1u, 0xead35d50u, 0x11d2432bu, 0x5ec71059u, 0x239e808au, 0xbe2fbe5fu,
        0x8b093a93u, 0x64b82394u, 0xe04facdbu, 0x9de432ccu, 0x04773f87u
    };
    static const char all[] = "7d917fbd2cf49ddff9ad0a8706bba32d204e92e71d2e369c5a03d6af29278c9f";
    static const char of_mib[] = "172c15dc2e12b50e523d8e657cbe7fbb11c1053252bbf1e1431077d57d8128fd";
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char *const name[] = { "plain C", "AVX2", "instructions" };
    const size_t mib = (size_t)1 << 20;
    unsigned char *b = (unsigned char *)t_guarded_bytes(mib + 1) + 1, got[32];     /* not aligned */
    tiny_sha256 h, digests, chosen;
    uint32_t want[8];
    int form, last = -1;
    size_t i, n;
    for (form = 0; form < 3; form++) {
        if (!tinyi_sha_start_as(&h, form)) {
            printf("    %s: not on this processor\n", name[form]);
            continue;
        }
        last = form;
        for (i = 0; i < mib; i++) b[i] = (unsigned char)(i * 7 + 3);
        T_TRUE(tinyi_sha_start_as(&digests, form) && digests.fast == form);
        for (n = 0; n <= 300; n++) {
            T_TRUE(tinyi_sha_start_as(&h, form) && h.fast == form);
            tiny_sha256_add(&h, b, n);
            tiny_sha256_end(&h, got);
            T_TRUE(((uint32_t)got[0] << 24 | (uint32_t)got[1] << 16 | (uint32_t)got[2] << 8 | got[3]) == word[n]);
            tiny_sha256_add(&digests, got, 32);
        }
        tiny_sha256_end(&digests, got);
        T_EQ_TEXT(hex(got, 32), all);
        (void)tinyi_sha_start_as(&h, form);
        tiny_sha256_add(&h, b, mib);
        tiny_sha256_end(&h, got);
        T_EQ_TEXT(hex(got, 32), of_mib);
        (void)tinyi_sha_start_as(&h, form);
        tiny_sha256_add(&h, two, sizeof two - 1);
        tiny_sha256_end(&h, got);
        T_EQ_TEXT(hex(got, 32), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        for (n = 1; n <= 9; n++) {          /* several blocks at once, of any bytes, against the reference */
            for (i = 0; i < 64 * n; i++) b[i] = (unsigned char)t_rand_u64();
            (void)tinyi_sha_start_as(&h, form);
            memcpy(want, h.h, sizeof want);
            tiny_sha256_add(&h, b, 64 * n);
            tinyi_sha_blocks_ref(want, b, n);
            T_SAME(h.h, want, 8);
        }
    }
    tiny_sha256_start(&chosen);
    T_TRUE(chosen.fast == last);            /* the fastest is the last one that there is */
    T_TRUE(!tinyi_sha_start_as(&h, -1) && !tinyi_sha_start_as(&h, 3));
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
