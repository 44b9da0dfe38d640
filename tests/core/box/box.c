/* tests/core/box/box.c - boxes of one body: the bytes by hand, and every fault in them and in their older form */
#define T_INTERNALS
#include "t.h"
#include "core/box/box_inside.h"

static const tinyi_box_kind kind = { "thing", "thing of tests", 7, "oldthing", 3, 12, 8, 4 };

static void le(unsigned char *p, uint64_t v, int n)
{
    for (; n; n--, v >>= 8) *p++ = (unsigned char)v;
}
/* a box of the 5 bytes "12345", written out */
enum { N = 192 + 8 + 32 };
static void by_hand(unsigned char b[N])
{
    memset(b, 0, N);
    memcpy(b, "\x89tinyck\n", 8);
    le(b + 8, 1, 4);
    le(b + 12, 64, 4);
    le(b + 16, 3, 4);                       /* a text */
    le(b + 28, 4, 4);
    le(b + 64, 7, 8);
    memcpy(b + 72, "what", 4);
    memcpy(b + 80, "thing 7", 7);
    le(b + 88 + 4, (uint64_t)TINY_U8, 4);   /* a tensor of bytes, of rank 1 */
    le(b + 88 + 8, 1, 4);
    le(b + 88 + 12, 4, 4);
    le(b + 88 + 16, 5, 8);
    le(b + 88 + 48, 5, 8);
    memcpy(b + 144, "body", 4);
    memcpy(b + 192, "12345", 5);
    memcpy(b + 200, "tinyend\n", 8);
    le(b + 208, 2, 8);
    le(b + 216, N, 8);
    le(b + 224, tinyi_hash_of(b, 224), 8);
}
static void reseal(unsigned char *b, size_t n) { le(b + n - 8, tinyi_hash_of(b, n - 8), 8); }

static void test_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    unsigned char want[N], got[N];
    static const char path[] = "tiny-box.tmp";
    tinyi_box box;
    tinyi_cursor body;
    tiny_file f;
    tiny_checkpoint_desc d;
    tiny_checkpoint *c;
    const char *what;
    int old = 1;
    by_hand(want);
    memset(got, 0xee, sizeof got);
    memcpy(got + TINYI_BOX_FRONT, "12345", 5);
    T_EQ_INT(TINYI_BOX_BYTES(5), N);
    tinyi_box_seal(&kind, got, 5);
    T_SAME(got, want, N);
    T_OK(tinyi_box_body(ctx, "here", &kind, want, N, 0, &body, &old));
    T_TRUE(!old && body.left == 5 && body.at == want + 192);
    /* into a file, in pieces */
    T_OK(tinyi_box_open(ctx, &box, path, &kind, 5));
    T_OK(tinyi_box_add(ctx, &box, "12", 2));
    T_OK(tinyi_box_add(ctx, &box, "345", 3));
    T_OK(tinyi_box_done(ctx, &box, TINY_OK));
    T_OK(tiny_file_open(ctx, path, &f));
    if (T_EQ_INT(f.n_bytes, N)) T_SAME(f.bytes, want, N);
    tiny_file_close(ctx, &f);
    /* and one that fails leaves the old file */
    T_OK(tinyi_box_open(ctx, &box, path, &kind, 5));
    T_OK(tinyi_box_add(ctx, &box, "1", 1));
    T_EQ_INT(tinyi_box_done(ctx, &box, TINY_E_CANCELLED), TINY_E_CANCELLED);
    T_TRUE(fopen("tiny-box.tmp.part", "rb") == NULL);
    T_OK(tiny_file_open(ctx, path, &f));
    T_EQ_INT(f.n_bytes, N);
    tiny_file_close(ctx, &f);
    /* the reader of many sections reads it too */
    memset(&d, 0, sizeof d);
    d.path = path;
    if (T_OK(tiny_checkpoint_open(ctx, &d, &c))) {
        T_EQ_INT(tiny_checkpoint_count(c), 2);
        T_OK(tiny_checkpoint_get_text(ctx, c, "what", &what));
        T_EQ_TEXT(what, "thing 7");
        T_TRUE(tiny_checkpoint_find(c, "body") && tiny_checkpoint_find(c, "body")->n_bytes == 5 &&
               !memcmp(tiny_checkpoint_find(c, "body")->at, "12345", 5));
        tiny_checkpoint_close(ctx, c);
    }
    (void)remove(path);
    t_close(ctx);
}

/* bodies of each length up to 300, and of each length of the name */
static void test_lengths(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    char name[20];
    tinyi_box_kind k = kind;
    size_t n, m;
    k.least = 1;
    for (m = 1; m < sizeof name; m++) {
        memset(name, 'n', m);
        name[m] = 0;
        k.what = name;
        for (n = 1; n < (m == 5 ? 300u : 10u); n++) {
            unsigned char *b = (unsigned char *)t_guarded_bytes(TINYI_BOX_BYTES(n));
            tiny_checkpoint_desc d;
            tiny_checkpoint *c = NULL;
            tinyi_cursor body;
            int old;
            memset(b, 0xa5, TINYI_BOX_BYTES(n));
            tinyi_box_seal(&k, b, n);
            if (!T_OK(tinyi_box_body(ctx, "here", &k, b, TINYI_BOX_BYTES(n), 0, &body, &old)) ||
                !T_EQ_INT(body.left, n))
                break;
            T_TRUE(body.at[0] == 0xa5 && body.at[n - 1] == 0xa5 && tinyi_box_says(&k, b, TINYI_BOX_BYTES(n)));
            memset(&d, 0, sizeof d);
            d.bytes = b;
            d.n_bytes = TINYI_BOX_BYTES(n);
            if (!T_OK(tiny_checkpoint_open(ctx, &d, &c))) break;
            tiny_checkpoint_close(ctx, c);
        }
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    unsigned char good[N], bad[N + 8];
    tinyi_cursor body;
    tinyi_box_kind other = kind;
    size_t i;
    int old, bit, sealed;
    by_hand(good);
    for (i = 0; i < N; i++) {               /* cut anywhere */
        unsigned char *p = (unsigned char *)t_guarded_bytes(i);
        memcpy(p, good, i);
        T_STATUS(tinyi_box_body(ctx, "here", &kind, p, i, 0, &body, &old), TINY_E_FORMAT,
                 i < 8    ? "are not a thing of tests"
                 : i < 48 ? "truncated"
                          : "damaged or truncated");
        if (i < 48) continue;
        memcpy(p + i - 32, "tinyend\n\2\0\0\0\0\0\0\0", 16);        /* by a forger of the format */
        le(p + i - 16, i, 8);
        reseal(p, i);
        T_TRUE(tinyi_box_body(ctx, "here", &kind, p, i, 0, &body, &old) == TINY_E_FORMAT || i == N);
    }
    t_free_blocks();
    /* any bit flipped; with a valid checksum only the body may differ */
    for (i = 0; i < N; i++)
        for (bit = 0; bit < 8; bit++)
            for (sealed = 0; sealed < 2; sealed++) {
                tiny_status st;
                memcpy(bad, good, N);
                bad[i] = (unsigned char)(bad[i] ^ 1u << bit);
                if (sealed) reseal(bad, N);
                st = tinyi_box_body(ctx, "here", &kind, bad, N, 0, &body, &old);
                T_TRUE((st == TINY_OK) == (sealed && ((i >= 192 && i < 197) || i >= N - 8)));
                if (st) T_TRUE(!strncmp(tiny_ctx_message(ctx), "here: ", 6));
            }
#define BAD(change, status, part) \
    memcpy(bad, good, N); \
    change; \
    reseal(bad, N); \
    T_STATUS(tinyi_box_body(ctx, "here", &kind, bad, N, 0, &body, &old), status, part)
    BAD(bad[86] = '8', TINY_E_VERSION, "here: this is \"thing 8\"; this library reads version 7");
    BAD(bad[81] = 'x', TINY_E_FORMAT, "this is \"txing 7\", not a thing of tests");
    BAD(bad[80] = 27, TINY_E_FORMAT, "not a thing of tests");
    BAD(bad[72] = 'W', TINY_E_FORMAT, "a box without a kind, not a thing of tests");
    BAD(bad[208] = 3, TINY_E_FORMAT, "it says 3 sections; there are 2");
    BAD(bad[199] = 1, TINY_E_FORMAT, "the bytes after the body are not 0");
    BAD(bad[8] = 2, TINY_E_VERSION, "version 2 of the format; this library reads version 1");
    other.least = 6;
    T_STATUS(tinyi_box_body(ctx, "here", &other, good, N, 0, &body, &old), TINY_E_FORMAT,
             "truncated: a body of 5 bytes; the shortest has 6");
    T_STATUS(tinyi_box_body(ctx, "here", &kind, NULL, 0, 0, &body, &old), TINY_E_FORMAT,
             "here: its 0 bytes are not a thing of tests");
    memcpy(bad, good, N);                   /* a checksum that is not required */
    bad[192] = 'x';
    T_OK(tinyi_box_body(ctx, "here", &kind, bad, N, 1, &body, &old));
    t_close(ctx);
}

static void test_older_form(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    unsigned char b[25];
    tinyi_box_kind crc = kind;
    tinyi_cursor body;
    size_t i;
    int old = 0;
    crc.old_sum = 4;
    memcpy(b, "oldthing", 8);
    le(b + 8, 3, 4);
    memcpy(b + 12, "12345", 5);
    le(b + 17, tinyi_hash_of(b, 17), 8);
    T_OK(tinyi_box_body(ctx, "here", &kind, b, 25, 0, &body, &old));
    T_TRUE(old && body.at == b + 12 && body.left == 5 && tinyi_box_says(&kind, b, 25));
    for (i = 0; i < 25; i++) {
        unsigned char *cut = (unsigned char *)t_guarded_bytes(i);
        memcpy(cut, b, i);
        T_STATUS(tinyi_box_body(ctx, "here", &kind, cut, i, 0, &body, &old), TINY_E_FORMAT,
                 i < 20 ? "not a thing of tests" : "damaged or truncated");
        b[i] ^= 4;
        T_STATUS(tinyi_box_body(ctx, "here", &kind, b, 25, 0, &body, &old),
                 i >= 8 && i < 12 ? TINY_E_VERSION : TINY_E_FORMAT, NULL);
        b[i] ^= 4;
    }
    le(b + 17, tinyi_crc32(0, b, 17), 4);
    T_OK(tinyi_box_body(ctx, "here", &crc, b, 21, 0, &body, &old));
    T_TRUE(old && body.left == 5);
    b[14] ^= 1;
    T_STATUS(tinyi_box_body(ctx, "here", &crc, b, 21, 0, &body, &old), TINY_E_FORMAT,
             "here: damaged or truncated: the checksum of its 21 bytes does not match");
    b[8] = 4;
    T_STATUS(tinyi_box_body(ctx, "here", &crc, b, 21, 0, &body, &old), TINY_E_VERSION,
             "here: version 4 of the older form; this library reads version 3");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_lengths);
    T_RUN(test_bad);
    T_RUN(test_older_form);
    return t_done();
}
