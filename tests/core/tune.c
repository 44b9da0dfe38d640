/* tests/core/tune.c - the target of each operation, measured while a program runs; no check reads the clock */
#include "t.h"
#if T_PAGES
#include <sys/stat.h>
#endif
#include <stdio.h>

#define N 5000
static const char place[] = "t-tune.txt";

/* the targets that are timed in a context of `own`, in their order: the narrower and wider ones, then its own */
static int turns(tiny_target own, tiny_target *out)
{
    int t, n = 0;
    for (t = TINY_TARGET_SCALAR + 1; t < TINY_TARGET_COUNT; t++)
        if (t != (int)own && tiny_target_runs_here((tiny_target)t)) out[n++] = (tiny_target)t;
    out[n++] = own;
    return n;
}

static void run_exp(tiny_ctx *ctx, const float *x, float *y)
{
    tiny_tensor tx = tiny_tensor_1d((void *)(uintptr_t)x, TINY_F32, N), ty = tiny_tensor_1d(y, TINY_F32, N);
    T_OK(tiny_exp(ctx, &tx, &ty));
}

/* the file as it would be after a run that chose `target` for each line of the form "... %s" */
static void write_choices(tiny_ctx *ctx, const char *lines, tiny_target target)
{
    char head[200], text[600];
    const char *end;
    if (!T_OK(tiny_tune_start(ctx, NULL))) return;
    (void)tiny_tune_report(ctx, head, sizeof head);
    T_OK(tiny_tune_stop(ctx));
    end = strchr(head, '\n');
    (void)snprintf(text, sizeof text, lines, (int)(end ? end - head + 1 : 0), head, tiny_target_name(target),
                   tiny_target_name(target));
    T_OK(tiny_file_write(ctx, place, text, strlen(text)));
}

static void test_takes_turns(tiny_target target)
{
    tiny_target turn[TINY_TARGET_COUNT];
    const int n = turns(target, turn);
    tiny_ctx *ctx = t_ctx(target, 2);
    const float *x = t_rand(N, -3.0f, 3.0f);
    float *y = t_guarded(N), *alone = t_guarded(N);
    char text[400], name[20];
    int i, calls;
    run_exp(ctx, x, alone);
    T_OK(tiny_tune_start(ctx, NULL));
    T_EQ_INT((intmax_t)tiny_tune_report(ctx, NULL, 0), (intmax_t)tiny_tune_report(ctx, text, sizeof text));
    T_TRUE(strstr(text, "exp") == NULL);
    for (calls = 0; calls < 5 * n; calls++) {
        run_exp(ctx, x, y);
        T_RAN_ON(ctx, t_vectors(turn[calls % n]));
        for (i = 0; i < N; i++)
            if (fabs((double)y[i] - (double)alone[i]) > 4e-7 * (double)alone[i]) break;
        T_EQ_INT(i, N);
    }
    (void)tiny_tune_report(ctx, text, sizeof text);
    T_TRUE(strstr(text, "\nexp f32 - 0 6 6 ") != NULL);
    if (sscanf(strstr(text, "\nexp ") ? strstr(text, "\nexp ") : "", "\nexp f32 - 0 6 6 %19s", name) == 1)
        for (i = 0; i < 3; i++) {
            run_exp(ctx, x, y);
            T_RAN_ON(ctx, t_vectors(tiny_target_by_name(name)));
        }
    T_STATUS(tiny_tune_start(ctx, NULL), TINY_E_ARGUMENT, "tuning already");
    T_OK(tiny_tune_stop(ctx));
    T_STATUS(tiny_tune_stop(ctx), TINY_E_ARGUMENT, "not tuning");
    run_exp(ctx, x, y);
    T_RAN_ON(ctx, t_vectors(target));
    T_SAME(y, alone, N);
    t_close(ctx);
}

/* Choices from a file need no clock: each other target computes exactly as a context of that target does. */
static void test_kept_choices(tiny_target target)
{
    tiny_target turn[TINY_TARGET_COUNT];
    const int n = turns(target, turn);
    const float *x = t_rand(64 * 256, -1.0f, 1.0f), *w = t_rand(96 * 256, -1.0f, 1.0f);
    float *y = t_guarded(64 * 96), *other = t_guarded(64 * 96);
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_Q4_0);
    unsigned char *packed = (unsigned char *)t_guarded_bytes(96 * 256 / 32 * 18);
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, 64, 256),
                tw = tiny_tensor_2d(packed, TINY_U8, 96, 256 / 32 * 18), ty = tiny_tensor_2d(y, TINY_F32, 64, 96),
                to = tiny_tensor_2d(other, TINY_F32, 64, 96);
    int i;
    for (i = 0; i < 96; i++) f->pack(w + i * 256, packed + i * 144, 256, NULL);
    for (i = 0; i < n - 1; i++) {
        tiny_ctx *ctx = t_ctx(target, 2), *theirs = t_ctx(turn[i], 2);
        tiny_op add, scale;
        const tiny_op *list[2];
        char text[600];
        write_choices(ctx, "%.*smatmul_blocks f32 u8 2 7 7 %s\nsoftmax f32 - 0 6 6 %s\n", turn[i]);
        t_use(ctx);
        if (!T_OK(tiny_tune_start(ctx, place))) continue;
        T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
        T_OK(tllm_matmul(theirs, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &to));
        T_SAME(y, other, 64 * 96);
        /* two softmaxes in one region */
        memset(&add, 0, sizeof add);
        add.kind = TINY_OP_SOFTMAX;
        add.in[0] = add.out[0] = &ty;
        scale = add;
        list[0] = &add;
        list[1] = &scale;
        T_OK(tiny_run_list(ctx, list, 2));
        T_RAN_ON(ctx, t_vectors(turn[i]));
        add.in[0] = add.out[0] = scale.in[0] = scale.out[0] = &to;
        T_OK(tiny_run_list(theirs, list, 2));
        T_SAME(y, other, 64 * 96);
        (void)tiny_tune_report(ctx, text, sizeof text);
        T_TRUE(strstr(text, "matmul_blocks f32 u8 2 7 7 ") != NULL && strstr(text, "softmax f32 - 0 6 6 ") != NULL);
        T_OK(tiny_tune_stop(ctx));
        t_close(theirs);
        t_close(ctx);
    }
    (void)remove(place);
}

static void test_file(void)
{
    tiny_target turn[TINY_TARGET_COUNT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int n = turns(tiny_ctx_target(ctx), turn);
    const float *x = t_rand(N, -3.0f, 3.0f);
    float *y = t_guarded(N);
    char text[400], again[400];
    int i;
    (void)remove(place);
    T_OK(tiny_tune_start(ctx, place));
    T_OK(tiny_tune_stop(ctx));
    T_TRUE(fopen(place, "rb") == NULL);                     /* nothing was chosen */
    T_OK(tiny_tune_start(ctx, place));
    for (i = 0; i < 5 * n; i++) run_exp(ctx, x, y);
    (void)tiny_tune_report(ctx, text, sizeof text);
    T_OK(tiny_tune_stop(ctx));
    T_OK(tiny_tune_start(ctx, place));
    (void)tiny_tune_report(ctx, again, sizeof again);
    T_EQ_TEXT(again, text);
    T_OK(tiny_tune_stop(ctx));
    /* of another machine: not used, and replaced */
    (void)memcpy(strstr(text, "cpu "), "cpu z", 5);
    T_OK(tiny_file_write(ctx, place, text, strlen(text)));
    T_OK(tiny_tune_start(ctx, place));
    (void)tiny_tune_report(ctx, text, sizeof text);
    T_TRUE(strchr(text, '\n') != NULL && strchr(text, '\n')[1] == 0);
    for (i = 0; i < 5 * n; i++) run_exp(ctx, x, y);
    T_OK(tiny_tune_stop(ctx));
    T_OK(tiny_tune_start(ctx, place));
    (void)tiny_tune_report(ctx, text, sizeof text);
    T_TRUE(strstr(text, "\nexp f32 ") != NULL);
    T_OK(tiny_tune_stop(ctx));
    t_close(ctx);
    (void)remove(place);
}

static void test_hostile_files(void)
{
    static const struct { const char *after, *says; } bad[] = {
        { "exp f32 - 0 6 6 z80\n", "line 2 is not a choice" },      { "exp f32 - 0 6 6\n", "line 2" },
        { "exp f32 - 0 6 6 reference\n", "line 2" },                { "exp f99 - 0 6 6 avx2\n", "line 2" },
        { "exp f32 - -1 6 6 avx2\n", "line 2" },                    { "exp f32 - 0 6 999 avx2\n", "line 2" },
        { "exp f32 - 0 6 6 avx2 avx2\n", "line 2" },                { "exp\n", "line 2" },
        { "\n", "line 2" },                                         { "exp f32 - 0 6 6 av", "line 2" },
        { "exp f32 - 0 6 99999999999999999999 avx2\n", "line 2" },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char head[200], text[2000], kept[16];
    size_t i;
    tiny_file f;
    T_OK(tiny_tune_start(ctx, NULL));
    (void)tiny_tune_report(ctx, head, sizeof head);
    T_OK(tiny_tune_stop(ctx));
    for (i = 0; i < T_COUNT(bad); i++) {
        (void)snprintf(text, sizeof text, "%s%s", head, bad[i].after);
        T_OK(tiny_file_write(ctx, place, text, strlen(text)));
        T_STATUS(tiny_tune_start(ctx, place), TINY_E_FORMAT, bad[i].says);
        T_STATUS(tiny_tune_stop(ctx), TINY_E_ARGUMENT, "not tuning");
    }
    (void)snprintf(text, sizeof text, "%snone f32 - 0 6 6 %s\n", head, tiny_target_name(tiny_ctx_target(ctx)));
    T_OK(tiny_file_write(ctx, place, text, strlen(text)));  /* an operation of another program */
    T_OK(tiny_tune_start(ctx, place));
    T_OK(tiny_tune_stop(ctx));
    /* somebody's own file is refused and kept */
    T_OK(tiny_file_write(ctx, place, "my notes\n", 9));
    T_STATUS(tiny_tune_start(ctx, place), TINY_E_FORMAT, "not a file of tiny_tune_stop");
    if (T_OK(tiny_file_copy(ctx, place, &f))) {
        memcpy(kept, f.bytes, TINYI_MIN(f.n_bytes, sizeof kept - 1));
        T_TRUE(f.n_bytes == 9 && !memcmp(kept, "my notes\n", 9));
        tiny_file_close(ctx, &f);
    }
    memset(text, 'a', sizeof text);
    T_OK(tiny_file_write(ctx, place, text, sizeof text));
    T_STATUS(tiny_tune_start(ctx, place), TINY_E_FORMAT, "line 1");
    T_OK(tiny_file_write(ctx, place, "", 0));
    T_STATUS(tiny_tune_start(ctx, place), TINY_E_FORMAT, "line 1");
    T_OK(tiny_file_write(ctx, place, "tinytune \0\n", 11));
    T_STATUS(tiny_tune_start(ctx, place), TINY_E_FORMAT, "line 1");
    t_close(ctx);
    ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    T_STATUS(tiny_tune_start(ctx, NULL), TINY_E_ARGUMENT, "nothing to tune");
    t_close(ctx);
    (void)remove(place);
}

static void test_memory(void)
{
    tiny_target turn[TINY_TARGET_COUNT];
    const float *x = t_rand(N, -3.0f, 3.0f);
    float *y = t_guarded(N);
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx;
        tiny_tensor tx = tiny_tensor_1d((void *)(uintptr_t)x, TINY_F32, N), ty = tiny_tensor_1d(y, TINY_F32, N);
        if (!tiny_ctx_open(&d, &ctx)) {
            int i;
            const int n = turns(tiny_ctx_target(ctx), turn);
            if (!tiny_tune_start(ctx, place))
                for (i = 0; i < 5 * n; i++) (void)tiny_exp(ctx, &tx, &ty);
            tiny_ctx_close(ctx);                            /* stops */
        }
        (void)remove(place);
    })
}

#if T_PAGES
static void test_environment(void)
{
    tiny_target turn[TINY_TARGET_COUNT];
    tiny_ctx *ctx;
    const float *x = t_rand(N, -3.0f, 3.0f);
    float *y = t_guarded(N);
    char text[400];
    int i, n;
    (void)remove(place);
    (void)setenv("TINY_TUNE", place, 1);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    n = turns(tiny_ctx_target(ctx), turn);
    for (i = 0; i < 5 * n; i++) {
        run_exp(ctx, x, y);
        T_RAN_ON(ctx, t_vectors(turn[i % n]));
    }
    t_close(ctx);
    ctx = t_ctx(TINY_TARGET_SCALAR, 1);                     /* asked for by name: as it was asked */
    run_exp(ctx, x, y);
    T_RAN_ON(ctx, TINY_TARGET_SCALAR);
    t_close(ctx);
    (void)unsetenv("TINY_TUNE");
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_OK(tiny_tune_start(ctx, place));
    (void)tiny_tune_report(ctx, text, sizeof text);
    T_TRUE(strstr(text, "\nexp f32 - 0 6 6 ") != NULL);     /* it was kept */
    t_close(ctx);
    (void)remove(place);
    (void)setenv("TINY_TUNE", "1", 1);      /* in the folder of this user, if there is one */
    for (i = 0; i < 3; i++) {
        static const char *const name[3] = { "XDG_CACHE_HOME", "HOME", "HOME" };
        static const char *const folder[3] = { "tiny-cache", "tiny-home", "" };
        static const char *const kept[3] = { "tiny-cache/tinyllm-tune.txt", "tiny-home/.cache/tinyllm-tune.txt", "" };
        (void)unsetenv("XDG_CACHE_HOME");
        (void)unsetenv("LOCALAPPDATA");
        (void)setenv(name[i], folder[i], 1);
        if (*folder[i]) (void)mkdir(folder[i], 0777);
        if (i == 1) (void)mkdir("tiny-home/.cache", 0777);
        ctx = t_ctx(TINY_TARGET_AUTO, 1);
        for (n = 5 * turns(tiny_ctx_target(ctx), turn); n > 0; n--) run_exp(ctx, x, y);
        t_close(ctx);
        T_TRUE(!*kept[i] || !remove(kept[i]));
    }
    (void)rmdir("tiny-cache");
    (void)rmdir("tiny-home/.cache");
    (void)rmdir("tiny-home");
    (void)unsetenv("TINY_TUNE");
}
#endif

int main(void)
{
    T_RUN_TARGETS(test_takes_turns);
    T_RUN_TARGETS(test_kept_choices);
    T_RUN(test_file);
    T_RUN(test_hostile_files);
    T_RUN(test_memory);
#if T_PAGES
    T_RUN(test_environment);
#endif
    return t_done();
}
