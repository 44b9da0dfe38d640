/* tests/core/ctx.c - the context: refused arguments, error sentences, two contexts side by side */
#include "t.h"

static char said[300];
static int said_level;
static void hear(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    said_level = (int)level;
    (void)snprintf(said, sizeof said, "%s", sentence);
}

static void refused(tiny_ctx_desc d, tiny_status want, const char *part)
{
    tiny_ctx *ctx = (tiny_ctx *)&d;
    tiny_status st;
    d.log = hear;
    said[0] = 0;
    st = tiny_ctx_open(&d, &ctx);
    T_EQ_INT(st, want);
    T_TRUE(ctx == NULL);
    T_TRUE(strstr(said, part) != NULL);
    if (!strstr(said, part)) printf("    it said: %s\n", said);
    tiny_ctx_close(ctx);
}

static int accel_can(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user;
    (void)op;
    (void)row;
    return 0;
}

static void test_refused(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 0);
    tiny_accel a;
    T_EQ_INT(tiny_ctx_open(&d, NULL), TINY_E_ARGUMENT);
    d.n_threads = 10000;
    refused(d, TINY_E_ARGUMENT, "n_threads is 10000");
    d.n_threads = -1;
    refused(d, TINY_E_ARGUMENT, "n_threads is -1");
    d.n_threads = 1;
    d.target = (tiny_target)99;
    refused(d, TINY_E_ARGUMENT, "target 99 is unknown");
    d.target = TINY_TARGET_AUTO;
    memset(&a, 0, sizeof a);
    d.accel = &a;
    refused(d, TINY_E_VERSION, "version 0 of the interface");
    a.version = TINY_ACCEL_VERSION;
    a.can_run = accel_can;
    refused(d, TINY_E_ARGUMENT, "lacks can_run or run");
}

static void test_missing_target(void)
{
    int t;
    for (t = TINY_TARGET_SCALAR; t < TINY_TARGET_COUNT; t++)
        if (!tiny_target_runs_here((tiny_target)t))
            refused(t_desc((tiny_target)t, 1), TINY_E_TARGET, tiny_target_name((tiny_target)t));
}

#if T_PAGES
static void test_environment(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx;
    (void)setenv("TINY_TARGET", "scalar", 1);
    T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
    T_EQ_INT(tiny_ctx_target(ctx), TINY_TARGET_SCALAR);
    tiny_ctx_close(ctx);
    d.target = TINY_TARGET_REFERENCE;       /* the program's own word counts more */
    T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
    T_EQ_INT(tiny_ctx_target(ctx), TINY_TARGET_REFERENCE);
    tiny_ctx_close(ctx);
    d.target = TINY_TARGET_AUTO;
    (void)setenv("TINY_TARGET", "mmx%s%n, and a very long name that goes on and on and on and on and on", 1);
    refused(d, TINY_E_ARGUMENT, "TINY_TARGET=mmx%s%n");
    (void)setenv("TINY_TARGET", "", 1);
    T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
    tiny_ctx_close(ctx);
    (void)unsetenv("TINY_TARGET");
}
#endif

static void test_foreign_contexts(void)
{
    union { double align; unsigned char bytes[4096]; } junk;
    tiny_ctx *bad = (tiny_ctx *)(void *)&junk;
    tiny_op op;
    memset(&junk, 0x5a, sizeof junk);
    memset(&op, 0, sizeof op);
    T_EQ_INT(tiny_run(NULL, &op), TINY_E_ARGUMENT);
    T_EQ_INT(tiny_run(bad, &op), TINY_E_ARGUMENT);
    T_EQ_INT(tiny_ctx_status(NULL), TINY_E_ARGUMENT);
    T_EQ_TEXT(tiny_ctx_message(bad), "there is no context");
    T_EQ_INT(tiny_ctx_threads(bad), 0);
    T_EQ_INT(tiny_ctx_bytes(NULL), 0);
    T_TRUE(tiny_alloc(bad, 3) == NULL);
    tiny_ctx_close(bad);
    tiny_ctx_close(NULL);
}

static void test_two_side_by_side(tiny_target target)
{
    tiny_ctx *a = t_ctx(target, 2), *b = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *x = t_rand(100, -4.0f, 4.0f), *ya = t_guarded(100), *yb = t_guarded(100);
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 100), ta = tiny_tensor_1d(ya, TINY_F32, 100),
                tb = tiny_tensor_1d(yb, TINY_F32, 100);
    int i;
    T_EQ_INT(tiny_add(a, &tx, &tx, &ta), TINY_OK);
    T_EQ_INT(tiny_add(b, &tx, &tx, &tb), TINY_OK);
    T_EQ_INT(tiny_ctx_ran_on(a), t_vectors(target));
    T_EQ_INT(tiny_ctx_ran_on(b), TINY_TARGET_REFERENCE);
    T_SAME(ya, yb, 100);
    for (i = 0; i < 100; i++) T_CLOSE(ya[i], 2 * (double)x[i], 0);
    T_EQ_TEXT(tiny_ctx_message(a), "");
    t_close(a);
    t_close(b);
}

static void test_report(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *text, tiny[8];
    size_t n = tiny_ctx_report(ctx, NULL, 0), i;
    const tiny_op_row *row;
    text = (char *)t_guarded_bytes(n);
    T_EQ_INT(tiny_ctx_report(ctx, text, n), n);
    T_EQ_INT(strlen(text) + 1, n);
    T_WALLS(text, n);
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) T_TRUE(strstr(text, row->name) != NULL);
    T_EQ_INT(tiny_ctx_report(ctx, tiny, sizeof tiny), n);
    T_EQ_INT(strlen(tiny), 7);
    T_EQ_INT(tiny_ctx_report(NULL, tiny, sizeof tiny), 1);
    t_close(ctx);
}

static void test_every_status_has_a_sentence(void)
{
    int i;
    for (i = 0; i < TINY_STATUS_COUNT; i++) T_TRUE(strlen(tiny_status_text((tiny_status)i)) > 3);
    T_EQ_TEXT(tiny_status_text((tiny_status)TINY_STATUS_COUNT), "this status is unknown");
    T_EQ_TEXT(tiny_status_text((tiny_status)-1), "this status is unknown");
}

static void test_names(void)
{
    int t;
    for (t = 0; t < TINY_TARGET_COUNT; t++) T_EQ_INT(tiny_target_by_name(tiny_target_name((tiny_target)t)), t);
    T_EQ_INT(tiny_target_by_name(NULL), TINY_TARGET_COUNT);
    T_EQ_INT(tiny_target_by_name("AVX2"), TINY_TARGET_COUNT);
    T_EQ_TEXT(tiny_target_name((tiny_target)-3), "?");
}

int main(void)
{
    T_RUN(test_refused);
    T_RUN(test_missing_target);
#if T_PAGES
    T_RUN(test_environment);
#endif
    T_RUN(test_foreign_contexts);
    T_RUN_TARGETS(test_two_side_by_side);
    T_RUN(test_report);
    T_RUN(test_every_status_has_a_sentence);
    T_RUN(test_names);
    return t_done();
}
