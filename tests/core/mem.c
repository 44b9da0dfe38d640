/* tests/core/mem.c - sizes that must not wrap, arenas, and an allocator that fails */
#define T_INTERNALS
#include "t.h"

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

int main(void)
{
    T_RUN(test_sizes);
    T_RUN(test_alloc);
    T_RUN(test_limit);
    T_RUN(test_arena);
    T_RUN(test_each_allocation);
    return t_done();
}
