/* tests/core/mem.c - sizes that must not wrap, arenas, an allocator that fails, and the promises of large blocks */
#define T_INTERNALS
#include "t.h"
#include "core/bytes.h"

static void test_sizes(void)
{
    size_t r = 1;
    T_TRUE(tinyi_size_mul(SIZE_MAX, 1, &r) && r == SIZE_MAX);
    T_TRUE(!tinyi_size_mul(SIZE_MAX / 2 + 1, 2, &r));
    T_TRUE(tinyi_size_mul(0, SIZE_MAX, &r) && r == 0);
    T_TRUE(tinyi_size_add(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
    T_TRUE(!tinyi_size_add(SIZE_MAX, 1, &r));
}

static void test_alloc(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), i;
    for (i = 0; i < 200; i += 7) {
        unsigned char *p = (unsigned char *)tiny_alloc(ctx, i);
        T_TRUE(p != NULL);
        T_EQ_INT((uintptr_t)p % 64, 0);
        memset(p, 1, i);
        T_EQ_INT(tiny_ctx_bytes(ctx), held + i);
        tiny_free(ctx, p);
    }
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    T_TRUE(tiny_alloc(ctx, SIZE_MAX) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_OVERFLOW);
    T_TRUE(tinyi_alloc(ctx, SIZE_MAX / 4, 8) == NULL);
    T_TRUE(strstr(tiny_ctx_message(ctx), "more than this machine can address") != NULL);
    T_TRUE(tiny_alloc(NULL, 4) == NULL);
    tiny_free(ctx, NULL);
    tiny_free(NULL, NULL);
    t_close(ctx);
}

/* a context with the default allocator */
static tiny_ctx *plain(void)
{
    tiny_ctx_desc d;
    tiny_ctx *ctx;
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    T_OK(tiny_ctx_open(&d, &ctx));
    t_use(ctx);
    return ctx;
}

/* Linux reports for each mapping whether large pages were requested: 1, 0, or -1 where it does not */
static int asked(const void *p)
{
    int there = -1;
#if defined __linux__ && defined __x86_64__
    char line[512];
    FILE *f = fopen("/proc/self/smaps", "rb");
    unsigned long long from, to;
    int inside = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) inside = (uintptr_t)p >= from && (uintptr_t)p < to;
        else if (inside && !strncmp(line, "VmFlags:", 8)) there = strstr(line, " hg") != NULL;
    }
    if (f) (void)fclose(f);
    f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "rb");
    if (!f) return -1;                      /* a kernel without them */
    (void)fclose(f);
#else
    (void)p;
#endif
    return there;
}

/* blocks below 4 MB, and larger ones: the promises of mem.h */
static void test_large_blocks(void)
{
    static const size_t sizes[] = { ((size_t)4 << 20) - 1, (size_t)4 << 20, ((size_t)5 << 20) + 3,
                                    (size_t)24 << 20,      (size_t)5 << 20, (size_t)64 << 20 };
    tiny_ctx *ctx = plain();
    const size_t held = tiny_ctx_bytes(ctx);
    size_t i;
    for (i = 0; i < T_COUNT(sizes); i++) {
        unsigned char *p = (unsigned char *)tiny_alloc(ctx, sizes[i]),
                      *q = (unsigned char *)tinyi_reserve(ctx, sizes[i]);
        T_TRUE(p && q);
        if (!p || !q) break;
        T_EQ_INT(tiny_ctx_bytes(ctx), held + 2 * sizes[i]);
        T_EQ_INT((uintptr_t)p % 64, 0);
        T_EQ_INT((uintptr_t)q % 64, 0);
#if defined __linux__
        if (sizes[i] >= (size_t)4 << 20) T_EQ_INT((uintptr_t)p % ((size_t)2 << 20), 0);
        if (!T_SLOW && asked(p) >= 0) T_EQ_INT(asked(p), sizes[i] >= (size_t)4 << 20);
        if (!T_SLOW && asked(p + sizes[i] - 1) >= 0)
            T_EQ_INT(asked(p + sizes[i] - 1), sizes[i] >= (size_t)4 << 20 && sizes[i] % ((size_t)2 << 20) == 0);
#endif
        memset(p, 1, sizes[i]);
        q[0] = q[sizes[i] - 1] = 2;
        T_TRUE(p[0] == 1 && p[sizes[i] - 1] == 1 && p[sizes[i] / 2] == 1);
        tiny_free(ctx, p);
        tiny_free(ctx, q);
    }
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    T_TRUE(tinyi_reserve(ctx, SIZE_MAX) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_OVERFLOW);
    /* with the padding to the next 2 MB it is too large */
    T_TRUE(tiny_alloc(ctx, (size_t)TINY_IDX_MAX - 64) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_OVERFLOW);
    T_TRUE(tinyi_reserve(NULL, 4) == NULL);
    t_close(ctx);
}

/* the user's allocator allocates the block and its head, and the block is at the address it returned */
static void test_large_of_the_user(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const size_t bytes = (size_t)16 << 20, before = t_alloc.live_bytes;
    void *p = tiny_alloc(ctx, bytes);
    T_TRUE(p && t_alloc.live_bytes - before <= bytes + 128);
    tiny_free(ctx, p);
    t_close(ctx);
}

/* a reserved block that is hardly written is hardly resident; a fully written block takes its size */
static void test_resident(void)
{
    const size_t mb = (size_t)1 << 20;
    tiny_ctx *ctx = plain();
    unsigned char *p, *q;
    unsigned long start = t_resident(), sparse, whole;
    size_t i;
    if (!start) {
        T_SKIP("the system does not report resident memory");
        t_close(ctx);
        return;
    }
    p = (unsigned char *)tinyi_reserve(ctx, 256 * mb);
    q = (unsigned char *)tiny_alloc(ctx, 65 * mb + 5);
    T_TRUE(p && q);
    if (p && q) {
        for (i = 0; i < 256; i++) p[i * mb] = 1;
        sparse = t_resident() - start;
        T_TRUE(sparse >= 256 && sparse <= 4096);
        memset(q, 1, 65 * mb + 5);
        whole = t_resident() - start - sparse;
        T_TRUE(whole + 1024 >= 65 * 1024 && whole <= 66 * 1024);
        if (getenv("T_VERBOSE")) printf("resident: sparse %lu KB, whole %lu KB\n", sparse, whole);
    }
    tiny_free(ctx, p);
    tiny_free(ctx, q);
    /* where blocks with large pages were given back */
    for (i = 0; i < 3; i++) {
        q = (unsigned char *)tiny_alloc(ctx, 28 * mb);
        if (T_TRUE(q != NULL)) memset(q, 1, 28 * mb);
        tiny_free(ctx, q);
    }
    start = t_resident();
    p = (unsigned char *)tinyi_reserve(ctx, 24 * mb);
    for (i = 0; p && i < 24; i++) p[i * mb] = 1;
    T_TRUE(t_resident() <= start + 4096);
    tiny_free(ctx, p);
    t_close(ctx);
}

static void test_limit(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx;
    void *p;
    d.max_bytes = 1 << 20;
    if (tiny_ctx_open(&d, &ctx)) { T_TRUE(!"a context under a limit"); return; }
    t_use(ctx);
    p = tiny_alloc(ctx, 1 << 19);
    T_TRUE(p != NULL);
    T_TRUE(tiny_alloc(ctx, 1 << 20) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_MEMORY);
    T_TRUE(strstr(tiny_ctx_message(ctx), "max_bytes is 1048576") != NULL);
    tiny_free(ctx, p);
    t_close(ctx);
}

static void test_arena(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_arena a;
    unsigned char *p, *q;
    T_OK(tiny_arena_open(ctx, &a, 256));
    p = (unsigned char *)tiny_arena_take(ctx, &a, 10, 10);
    q = (unsigned char *)tiny_arena_take(ctx, &a, 1, 64);
    T_EQ_INT(q - p, 128);
    T_TRUE(tiny_arena_take(ctx, &a, 1, 65) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_WORKSPACE);
    T_TRUE(tiny_arena_take(ctx, &a, SIZE_MAX, 2) == NULL);
    T_EQ_INT(a.high, 192);
    tiny_arena_reset(&a, 0);
    T_TRUE(tiny_arena_take(ctx, &a, 256, 1) == p);
    tiny_arena_reset(&a, 1000);             /* forwards is no reset */
    T_EQ_INT(a.used, 256);
    tiny_arena_close(ctx, &a);
    tiny_arena_close(ctx, &a);
    t_close(ctx);
}

static void test_each_allocation(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_status st = tiny_ctx_open(&d, &ctx);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        T_TRUE((st == TINY_OK) == (ctx != NULL));
        if (!st) {
            void *p = tiny_alloc(ctx, 100);
            T_TRUE(p || tiny_ctx_status(ctx) == TINY_E_MEMORY);
            tiny_free(ctx, p);
        }
        tiny_ctx_close(ctx);
    })
}

/* worked by hand: byte k of the text is k + 0x81, so that each has its own value and its upper bit */
static void test_little_endian(void)
{
    static const unsigned char text[9] = { 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89 };
    unsigned char to[10];
    tinyi_cursor c = tinyi_cursor_make(text, 8);
    tinyi_writer w;
    uint64_t v = 0;
    size_t n;
    T_EQ_INT(tinyi_le16(text), 0x8281);
    T_TRUE(tinyi_le32(text) == 0x84838281u && tinyi_le32(text + 1) == 0x85848382u);
    T_TRUE(tinyi_le64(text) == UINT64_C(0x8887868584838281) && tinyi_le64(text + 1) == UINT64_C(0x8988878685848382));
    T_TRUE(tinyi_le(text, 0) == 0 && tinyi_le(text, 3) == 0x838281u &&
           tinyi_le(text, 8) == UINT64_C(0x8887868584838281));
    T_TRUE(tinyi_rd_u64(&c, &v) && v == UINT64_C(0x8887868584838281) && !c.left);
    c = tinyi_cursor_make(text, 7);
    T_TRUE(!tinyi_rd_u64(&c, &v) && c.left == 7 && c.at == text);
    for (n = 0; n <= 8; n++) {
        memset(to, 7, sizeof to);
        tinyi_put_le(to + 1, UINT64_C(0x8887868584838281), n);
        T_TRUE(to[0] == 7 && !memcmp(to + 1, text, n) && to[1 + n] == 7);
        memset(to, 7, sizeof to);
        w.at = to;
        w.n = 1;
        tinyi_wr(&w, UINT64_C(0x8887868584838281), (int)n);
        T_TRUE(w.n == 1 + n && to[0] == 7 && !memcmp(to + 1, text, n) && to[1 + n] == 7);
    }
    memset(to, 7, sizeof to);
    tinyi_put_le16(to + 1, 0x88888281u);
    T_TRUE(to[0] == 7 && !memcmp(to + 1, text, 2) && to[3] == 7);
    tinyi_put_le32(to + 1, 0x84838281u);
    T_TRUE(to[0] == 7 && !memcmp(to + 1, text, 4) && to[5] == 7);
    w.at = NULL;
    w.n = 5;
    tinyi_wr(&w, 1, 8);
    T_TRUE(w.n == 13);
}

int main(void)
{
    T_RUN(test_little_endian);
    T_RUN(test_sizes);
    T_RUN(test_alloc);
    T_RUN(test_large_blocks);
    T_RUN(test_large_of_the_user);
    T_RUN(test_resident);
    T_RUN(test_limit);
    T_RUN(test_arena);
    T_RUN(test_each_allocation);
    return t_done();
}
