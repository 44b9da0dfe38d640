/* tests/core/conform.c - the conformance kit finds faults, and tiny_run survives a back end that fails */
#include "t.h"
#define TINYLLM_LINKED          /* the example would bring an implementation of its own */
/* the kit over the operations that this back end takes; test_all_rows has the others */
static tiny_status conform_own(tiny_ctx *ctx, const tiny_conform_desc *desc, int *n_failed)
{
    static const char *const own[] = { "neg", "abs", "relu" };
    tiny_conform_desc d = *desc;
    tiny_status st = TINY_OK;
    size_t i;
    int n = 0;
    for (i = 0, *n_failed = 0; i < T_COUNT(own) && !st; i++, *n_failed += n) {
        d.op = own[i];
        st = tiny_conform(ctx, &d, &n);
    }
    return st;
}
#define main own_backend_main
#define tinyllm_conform conform_own
#include "../../examples/own_backend.c"
#undef tinyllm_conform
#undef main

static void test_four_faults(void)
{
    T_EQ_INT(examine(RIGHT), 0);
    T_TRUE(examine(TAIL) > 0);
    if (T_SLOW) return;                         /* the fault of the next one is a read beyond its tensors */
    T_TRUE(examine(STRIDE) > 0);
    T_TRUE(examine(FLUSH) > 0);
    T_TRUE(examine(ROWS) > 0);
}

/* ---- a back end for the op neg that can fail in several ways ---- */

typedef enum wrong {
    NOTHING_WRONG,
    DECLINES,
    FAILS,
    FAILS_LATE,
    WRITES_PAST,
    WRITES_BEFORE,
    WRITES_GAPS,
    CHANGES_INPUT,
    LOSES_NAN,
    LOSES_SIGN,
    ONE_ULP,
    NEEDS_APART,
    KEEPS_UPLOAD
} wrong;

static struct {
    wrong how;
    int runs, uploads, forgets, syncs, says_log;
    int fails_sync;
    char said[300];
    float kept[4];                          /* KEEPS_UPLOAD: the first numbers that were ever uploaded */
} back;

static int back_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user; (void)row;
    return back.how != DECLINES && op->kind == TINY_OP_NEG;
}

static tiny_status back_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx n = tiny_tensor_count(y), cols = y->rank ? y->dim[y->rank - 1] : 1, i;
    float x0 = n ? *element(x, 0, 0) : 0.0f;
    (void)user; (void)row;
    back.runs++;
    if (back.how == FAILS) {
        strcpy(says, "the cable is out");
        return TINY_E_ACCEL;
    }
    for (i = 0; i < n; i++) {
        float v = -*element(x, i / cols, i % cols);
        if (back.how == LOSES_NAN && v != v) v = 0.0f;
        if (back.how == LOSES_SIGN && v == 0.0f) v = 0.0f;
        if (back.how == ONE_ULP && v > 1.0f && v < 2.0f) v += FLT_EPSILON;
        *element(y, i / cols, i % cols) = v;
        if (back.how == NEEDS_APART && x->data == y->data && i == 0 && n > 1) *element(y, 0, 0) = v + 1.0f;
    }
    if (n == 0) return TINY_OK;
    if (back.how == WRITES_PAST && tiny_tensor_is_dense(y)) ((float *)y->data)[n] = 0.0f;
    if (back.how == WRITES_BEFORE && tiny_tensor_is_dense(y)) ((float *)y->data)[-1] = 0.0f;
    if (back.how == WRITES_GAPS && y->rank > 1 && y->stride[y->rank - 1] == 1 && y->stride[y->rank - 2] > cols)
        *(element(y, 0, 0) + cols) = 0.0f;
    if (back.how == CHANGES_INPUT && x->data != y->data) *element(x, 0, 0) = x0 + 1.0f;
    if (back.how == KEEPS_UPLOAD && back.uploads) *element(y, 0, 0) = back.kept[0];
    return back.how == FAILS_LATE ? TINY_E_ACCEL : TINY_OK;
}

static tiny_status back_sync(void *user, char *says)
{
    (void)user;
    back.syncs++;
    if (back.fails_sync) strcpy(says, "it stopped");
    return back.fails_sync ? TINY_E_ACCEL : TINY_OK;
}

static tiny_status back_upload(void *user, const tiny_tensor *host, char *says)
{
    (void)user; (void)says;
    if (!back.uploads && tiny_tensor_count(host)) back.kept[0] = *element(host, 0, 0);
    back.uploads++;
    return TINY_OK;
}

static void back_forget(void *user, const tiny_tensor *host)
{
    (void)user; (void)host;
    back.forgets++;
}

static tiny_accel back_accel(wrong how)
{
    tiny_accel a;
    memset(&back, 0, sizeof back);
    back.how = how;
    memset(&a, 0, sizeof a);
    a.version = TINY_ACCEL_VERSION;
    a.name = "crooked";
    a.can_run = back_can_run;
    a.run = back_run;
    a.synchronize = back_sync;
    a.upload = back_upload;
    a.forget = back_forget;
    return a;
}

static void back_log(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    if (level != TINY_LOG_WARNING) return;
    back.says_log++;
    (void)snprintf(back.said, sizeof back.said, "%s", sentence);
}

static tiny_conform_row seen;
static void see(void *user, const tiny_conform_row *r)
{
    (void)user;
    seen = *r;
}

/* failed cases of op neg, seed and cases as given; the row is left in seen */
static int count_failures(tiny_ctx *ctx, uint64_t seed, int n_cases, int only_case)
{
    tiny_conform_desc d;
    int n_failed = -1;
    memset(&d, 0, sizeof d);
    memset(&seen, 0, sizeof seen);
    d.op = "neg";
    d.seed = seed;
    d.n_cases = n_cases;
    d.only_case = only_case;
    d.row = see;
    T_OK(tiny_conform(ctx, &d, &n_failed));
    T_EQ_INT(seen.n_failed, n_failed);
    return n_failed;
}

static int count_wrong(wrong how)
{
    tiny_accel a = back_accel(how);
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    int n;
    desc.accel = &a;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return -1;
    t_use(ctx);
    n = count_failures(ctx, 3, 40, 0);
    t_close(ctx);
    return n;
}

static void test_other_faults(void)
{
    T_EQ_INT(count_wrong(NOTHING_WRONG), 0);
    T_EQ_INT(seen.n_cases, 40);
    T_TRUE(back.runs > 40);                 /* in place and uploaded, too */
    T_TRUE(back.uploads > 0);
    T_EQ_INT(back.uploads, back.forgets);
    T_TRUE(count_wrong(WRITES_PAST) > 0);
    T_TRUE(strstr(seen.first_failure, "wrote outside") != NULL);
    T_TRUE(count_wrong(WRITES_BEFORE) > 0);
    T_TRUE(count_wrong(WRITES_GAPS) > 0);
    T_TRUE(count_wrong(CHANGES_INPUT) > 0);
    T_TRUE(strstr(seen.first_failure, "changed an input") != NULL);
    T_TRUE(count_wrong(LOSES_NAN) > 0);
    T_TRUE(count_wrong(LOSES_SIGN) > 0);
    T_TRUE(count_wrong(ONE_ULP) > 0);
    T_TRUE(seen.worst_ulp == 1.0);
    T_TRUE(count_wrong(NEEDS_APART) > 0);
    T_TRUE(strstr(seen.first_failure, "in place") != NULL);
    T_TRUE(count_wrong(KEEPS_UPLOAD) > 0);
    T_TRUE(count_wrong(FAILS) == 40);
    T_EQ_INT(count_wrong(DECLINES), 0);
    T_EQ_INT(seen.n_declined, 40);
    T_EQ_INT(seen.n_cases, 0);
}

/* The printed command line runs the same case again, alone. */
static void test_repeats(void)
{
    tiny_accel a = back_accel(ONE_ULP);
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    char first[sizeof seen.first_failure];
    const char *p;
    double ulp;
    desc.accel = &a;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    T_TRUE(count_failures(ctx, 7, 40, 0) > 0);
    memcpy(first, seen.first_failure, sizeof first);
    T_TRUE(strstr(first, "kit.op = \"neg\", kit.seed = 7, kit.only_case = ") == first &&
           strstr(first, "; back end crooked, 1 threads\n"));
    p = strstr(first, "only_case = ");
    if (!T_TRUE(p != NULL)) return;
    T_EQ_INT(count_failures(ctx, 7, 0, atoi(p + 12)), 1);
    T_EQ_TEXT(seen.first_failure, first);
    t_close(ctx);
    /* another seed is another set of cases, the same seed the same */
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_EQ_INT(count_failures(ctx, 7, 10, 0), 0);
    ulp = seen.worst_ulp;
    T_EQ_INT(count_failures(ctx, 7, 10, 0), 0);
    T_TRUE(seen.worst_ulp == ulp);
    t_close(ctx);
}

/* ---- the door ---- */

static void check_neg(tiny_ctx *ctx)
{
    float x[5] = { 1.0f, -2.0f, 0.5f, 3.0f, -4.0f }, y[5] = { 9, 9, 9, 9, 9 };
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 5), ty = tiny_tensor_1d(y, TINY_F32, 5);
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_NEG;
    op.in[0] = &tx;
    op.out[0] = &ty;
    T_OK(tiny_run(ctx, &op));
    for (i = 0; i < 5; i++) T_CLOSE(y[i], -x[i], 0);
}

static void door_case(wrong how, int fails_sync, int answered, int declined, int failed, const char *says)
{
    tiny_accel a = back_accel(how);
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    uint64_t n_answered, n_declined, n_failed;
    int i;
    back.fails_sync = fails_sync;
    desc.accel = &a;
    desc.log = back_log;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    for (i = 0; i < 3; i++) check_neg(ctx);
    tiny_accel_counts(ctx, &n_answered, &n_declined, &n_failed);
    T_EQ_INT(n_answered, answered);
    T_EQ_INT(n_declined, declined);
    T_EQ_INT(n_failed, failed);
    T_EQ_INT(back.says_log, says ? 1 : 0);  /* one sentence, however often it fails */
    if (says && !strstr(back.said, says))
        t_fail(__FILE__, __LINE__, "the log says \"%s\", without \"%s\"", back.said, says);
    t_close(ctx);
}

static void test_door(void)
{
    door_case(NOTHING_WRONG, 0, 3, 0, 0, NULL);
    door_case(DECLINES, 0, 0, 3, 0, NULL);
    door_case(FAILS, 0, 0, 0, 3, "crooked failed at neg (the cable is out)");
    door_case(FAILS_LATE, 0, 0, 0, 3, "crooked failed at neg");
    door_case(NOTHING_WRONG, 1, 0, 0, 3, "it stopped");
}

static int cancel_now(void *user) { return *(const int *)user; }

static void test_bad_calls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_conform_desc d;
    int n = 5, yes = 1;
    memset(&d, 0, sizeof d);
    T_TRUE(tiny_conform(NULL, &d, &n) == TINY_E_ARGUMENT);
    T_EQ_INT(n, 0);
    T_STATUS(tiny_conform(ctx, &d, NULL), TINY_E_ARGUMENT, "n_failed");
    d.op = "nag";
    T_STATUS(tiny_conform(ctx, &d, &n), TINY_E_ARGUMENT, "no operation named nag");
    d.op = "neg";
    d.n_cases = -1;
    T_STATUS(tiny_conform(ctx, &d, &n), TINY_E_ARGUMENT, "must not be negative");
    t_close(ctx);
    desc.cancel = cancel_now;
    desc.user = &yes;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) return;
    t_use(ctx);
    d.n_cases = 2;
    T_STATUS(tiny_conform(ctx, &d, &n), TINY_E_CANCELLED, "cancel");
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx = NULL;
        tiny_conform_desc d;
        int n_failed = 0;
        memset(&d, 0, sizeof d);
        d.op = "neg";
        d.n_cases = 2;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_status st = tiny_conform(ctx, &d, &n_failed);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            if (!st && t_alloc.hit == 0) T_EQ_INT(n_failed, 0);
            tiny_ctx_close(ctx);
        }
    })
}

/* Every row on every target of this machine, a few cases each: the verdict of the command build/conformance in
 * small. */
static void print_failure(void *user, const tiny_conform_row *r)
{
    (void)user;
    if (r->n_failed)
        t_fail(__FILE__, __LINE__, "%s: %d of %d cases: %s", r->row->name, r->n_failed, r->n_cases, r->first_failure);
}

static void test_all_rows(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_conform_desc d;
    int n_failed = -1;
    memset(&d, 0, sizeof d);
    d.seed = 1;
    d.n_cases = T_SLOW ? 3 : 12;
    d.row = print_failure;
    T_OK(tiny_conform(ctx, &d, &n_failed));
    T_EQ_INT(n_failed, 0);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_four_faults);
    T_RUN(test_other_faults);
    T_RUN(test_repeats);
    T_RUN(test_door);
    T_RUN(test_bad_calls);
    T_RUN(test_no_memory);
    T_RUN_TARGETS(test_all_rows);
    return t_done();
}
