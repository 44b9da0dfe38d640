/* tests/llm/lab/nets/nn.c - networks, tasks and files: recorded logits, costs by hand, files that were damaged */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else
#include "kit.h"

static void logits_of(tiny_ctx *ctx, const tllm_nn *nn, const tiny_tensor *x, double *y)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor in = *x, out;
    size_t i, n = (size_t)tiny_tensor_count(x);
    double *wide = (double *)t_keep(n * sizeof *wide);
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 20;
    d.no_grad = 1;
    if (tllm_nn_is(nn)->dtype == TINY_F64) {
        for (i = 0; i < n; i++) wide[i] = (double)((const float *)x->data)[i];
        in = tiny_tensor_nd(wide, TINY_F64, x->rank, x->dim);
    }
    T_OK(tiny_tape_open(ctx, &d, &tape));
    out = tllm_nn_run(tape, nn, &in, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; out.data && i < (size_t)tiny_tensor_count(&out); i++) y[i] = number(&out, i);
    tiny_tape_close(tape);
}

static void test_recorded(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    double y[32];
    size_t i;
    int mlp, type;
    for (mlp = 0; mlp < 2; mlp++)
        for (type = 0; type < 2; type++) {
            golden_net g = golden_open(ctx, mlp, type ? TINY_F64 : TINY_F32);
            const double *want = mlp ? mlp_logits : cnn_logits;
            const size_t n = mlp ? T_COUNT(mlp_logits) : T_COUNT(cnn_logits), c = mlp ? 3 : 4;
            tiny_idx right, by_hand = 0;
            logits_of(ctx, g.nn, &g.set.x, y);
            for (i = 0; i < n; i++) T_CLOSE(y[i], want[i], type ? 1e-14 : 1e-5);
            for (i = 0; i < n / c; i++) {
                size_t best = 0, k;
                for (k = 1; k < c; k++) if (want[i * c + k] > want[i * c + best]) best = k;
                by_hand += best == i % c;
            }
            T_OK(tllm_nn_right(g.nn, &g.set, &right));
            T_EQ_INT(right, by_hand);
            tllm_nn_close(g.nn);
        }
    t_close(ctx);
}

/* A masked network computes as one whose weights are 0, and its gradient there is 0. */
static void test_mask(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int mlp;
    for (mlp = 0; mlp < 2; mlp++) {
        golden_net a = golden_open(ctx, mlp, TINY_F32), b = golden_open(ctx, mlp, TINY_F32);
        double y[32], z[32];
        tllm_mask m;
        tllm_nn *copy = NULL;
        size_t i, n = (size_t)a.set.label.dim[0] * (mlp ? 3 : 4);
        const tllm_nn_weight *w = tllm_nn_weights(b.nn, NULL);
        T_OK(tllm_mask_open(ctx, a.n, &m));
        for (i = 0; i < a.n; i++) tllm_mask_put(&m, i, i % 7 > 2);
        T_OK(tllm_nn_mask(a.nn, &m));
        T_EQ_INT(tllm_nn_cost_of(a.nn).n_kept, tllm_mask_count(&m, 0, a.n));
        for (i = 0; i < a.n; i++) if (i % 7 <= 2) put_number(&w[0].value, i, 0.0);
        logits_of(ctx, a.nn, &a.set.x, y);
        logits_of(ctx, b.nn, &b.set.x, z);
        T_SAME(y, z, n);
        T_OK(tllm_nn_copy(a.nn, TINY_F64, &copy));
        logits_of(ctx, copy, &a.set.x, z);
        for (i = 0; i < n; i++) T_CLOSE(y[i], z[i], 1e-5);
        T_EQ_INT(tllm_nn_cost_of(copy).n_kept, tllm_mask_count(&m, 0, a.n));
        tllm_nn_close(copy);
        tllm_nn_clear(a.nn);
        T_SAME((float *)tllm_nn_weights(a.nn, NULL)[0].value.data, (float *)w[0].value.data, a.n);
        T_OK(tllm_nn_mask(a.nn, NULL));
        T_TRUE(!tllm_nn_masked(a.nn));
        m.n--;
        T_STATUS(tllm_nn_mask(a.nn, &m), TINY_E_SHAPE, mlp ? "94 bits for 95" : "134 bits for 135");
        m.n++;
        tllm_mask_close(ctx, &m);
        tllm_nn_close(a.nn);
        tllm_nn_close(b.nn);
    }
    t_close(ctx);
}

/* M128, and a network of convolutions, counted on paper */
static void test_cost(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_layer l[6];
    tllm_nn_desc d;
    tllm_nn_cost c;
    tllm_nn *nn;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = l[1].n_out = 128;
    l[2].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 3;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    c = tllm_nn_cost_of(nn);
    T_EQ_INT(c.n_weight, 21760);
    T_EQ_INT(c.n_param, 21760 + 266);
    T_CLOSE(c.flops, 43520, 0);
    T_EQ_TEXT(tllm_nn_weights(nn, NULL)[1].name, "1.weight");
    tllm_nn_close(nn);
    memset(l, 0, sizeof l);
    l[0].kind = TLLM_NN_CONV; l[0].n_out = 8; l[0].norm = l[0].relu = 1;
    l[1].kind = TLLM_NN_CONV; l[1].n_out = 12; l[1].size = 5; l[1].stride = 2;          /* 16 -> 8 */
    l[2].kind = TLLM_NN_MAX_POOL; l[2].size = 3; l[2].stride = 2;                       /* 8 -> 3 */
    l[3].n_out = 10;
    d.in[0] = 1; d.in[1] = d.in[2] = 16;
    d.n_layer = 4;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    c = tllm_nn_cost_of(nn);
    T_EQ_INT(c.n_weight, 72 + 8 * 12 * 25 + 12 * 9 * 10);
    T_EQ_INT(c.n_param, c.n_weight + 16 + 12 + 10);
    T_CLOSE(c.flops, 2.0 * (72 * 256 + 2400 * 64 + 1080), 0);
    tllm_nn_close(nn);
    l[2].size = 9;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "layer 2: the window exceeds the image");
    l[2].size = 2;
    l[0].size = 4;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "layer 0: the side of its window must be odd");
    l[0].size = 256 + 1;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "1 to 255");
    l[0].size = 0;
    d.n_layer = 2;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "the last layer must be dense");
    d.n_layer = 4;
    l[3].n_out = 0;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "layer 3: at least one output");
    T_PROOF("compression 2", "bad input: empty layer");
    l[3].n_out = 10;
    l[1].n_out = INT32_MAX;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "more than 2^32 - 1 numbers");
    l[1].n_out = 12;
    d.in[0] = d.in[1] = d.in[2] = INT32_MAX;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "a sample of more than 2^32 - 1 numbers");
    d.in[0] = 1;
    d.in[1] = d.in[2] = 60000;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "layer 0: a result of more than 2^32 - 1 numbers");
    d.in[1] = d.in[2] = 16;
    d.in[0] = -1;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "a sample of -1");
    d.in[0] = 1;
    d.dtype = TINY_F16;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_DTYPE, "not f16");
    d.dtype = TINY_F32;
    d.n_layer = 65;
    T_STATUS(tllm_nn_open(ctx, &d, &nn), TINY_E_ARGUMENT, "1 to 64 layers");
    T_STATUS(tllm_nn_open(ctx, NULL, &nn), TINY_E_ARGUMENT, "1 to 64 layers");
    T_TRUE(!nn);
    t_close(ctx);
}

static void test_tasks(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_task a, b;
    uint32_t index[30];
    int kind;
    tiny_idx i, c;
    for (kind = 0; kind < TLLM_TASK_KINDS; kind++) {
        tiny_idx n;
        double spread = 0.0;
        T_OK(tllm_nn_task_open(ctx, kind, 5, 500, 40, &a));
        T_OK(tllm_nn_task_open(ctx, kind, 5, 500, 40, &b));
        n = tiny_tensor_count(&a.train.x);
        T_EQ_INT(n, 500 * (kind == TLLM_TASK_MIX60 ? 32 : kind == TLLM_TASK_TEX16 ? 256 : 1024));
        T_SAME((float *)a.train.x.data, (float *)b.train.x.data, n);
        T_SAME((int32_t *)a.test.label.data, (int32_t *)b.test.label.data, 40);
        for (i = 0; i < n; i++) spread += (double)((float *)a.train.x.data)[i] * (double)((float *)a.train.x.data)[i];
        /* the sum of the variances: 1 + 0.81; and 1/2 + 0.09 */
        T_CLOSE(spread / (double)n, kind == TLLM_TASK_MIX60 ? 1.81 : 0.59, kind == TLLM_TASK_MIX60 ? 0.15 : 0.02);
        tllm_nn_task_close(ctx, &b);
        T_OK(tllm_nn_task_open(ctx, kind, 6, 500, 40, &b));
        T_TRUE(memcmp(a.train.x.data, b.train.x.data, (size_t)n * 4) != 0);
        T_OK(tllm_nn_set_draw(ctx, &a.train, 10, 3, 1, index));
        for (c = 0; c < 10; c++)
            for (i = 0; i < 3; i++) {
                T_EQ_INT(((int32_t *)a.train.label.data)[index[3 * c + i]], c);
                T_TRUE(i == 0 || index[3 * c + i] != index[3 * c + i - 1]);
            }
        tllm_nn_task_close(ctx, &a);
        tllm_nn_task_close(ctx, &b);
    }
    T_STATUS(tllm_nn_task_open(ctx, 3, 5, 0, 0, &a), TINY_E_ARGUMENT, "kind 3");
    T_STATUS(tllm_nn_task_open(ctx, 0, 5, -1, 0, &a), TINY_E_ARGUMENT, "-1 and 0 samples");
    tllm_nn_task_close(ctx, &a);
    t_close(ctx);
}

static float *all_of(const tllm_nn *nn) { return (float *)tllm_nn_params(nn, NULL)[0].value.data; }

static tllm_nn *pruned(tiny_ctx *ctx, golden_net *g, int mlp)
{
    tllm_mask m;
    size_t i;
    *g = golden_open(ctx, mlp, TINY_F32);
    T_OK(tllm_mask_open(ctx, g->n, &m));
    for (i = 0; i < g->n; i++) tllm_mask_put(&m, i, i * 37 % 11 < 3 && (i < 14 || i >= 21));     /* a row is empty */
    T_OK(tllm_nn_mask(g->nn, &m));
    tllm_mask_close(ctx, &m);
    put_number(&tllm_nn_weights(g->nn, NULL)[0].value, 0, 0.0);       /* kept, and 0 */
    return g->nn;
}

static void test_files(void)
{
    static const char path[] = "build/t-nets.nn";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int mlp, form;
    for (mlp = 0; mlp < 2; mlp++)
        for (form = 0; form < TLLM_NN_TILES; form++) {
            golden_net g, other;
            double y[32], z[32];
            size_t bytes, i, kept, n = mlp ? 21 : 32, rows = mlp ? 16 : 7;
            tllm_nn *nn = pruned(ctx, &g, mlp);
            FILE *f;
            long size = 0, at;
            unsigned char *raw;
            kept = tllm_nn_cost_of(nn).n_kept;
            T_OK(tllm_nn_bytes(nn, form, &bytes));
            T_EQ_INT(bytes, form == TLLM_NN_PLAIN ? 4 * g.n
                            : form == TLLM_NN_BITS ? 4 * kept + (mlp ? 5 + 6 + 3 : 4 + 14) : 6 * kept + 4 * rows);
            T_OK(tllm_nn_save(nn, path, form));
            other = golden_open(ctx, mlp, TINY_F32);
            for (i = 0; i < other.n; i++) put_number(&tllm_nn_weights(other.nn, NULL)[0].value, i, 9.0);
            T_OK(tllm_nn_load(other.nn, path));
            T_SAME(tllm_nn_masked(other.nn)->bits, tllm_nn_masked(nn)->bits, (g.n + 7) / 8);
            tllm_nn_clear(nn);
            T_SAME(all_of(nn), all_of(other.nn), tllm_nn_cost_of(nn).n_param);
            logits_of(ctx, nn, &g.set.x, y);
            logits_of(ctx, other.nn, &g.set.x, z);
            T_SAME(y, z, n);
            /* cut at each length, and one byte changed at each place: refused, and nothing changes */
            f = fopen(path, "rb");
            T_TRUE(f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET));
            raw = (unsigned char *)t_keep((size_t)size);
            T_EQ_INT(fread(raw, 1, (size_t)size, f), size);
            (void)fclose(f);
            for (at = 0; at < size; at += 37) {
                unsigned char was = raw[at];
                raw[at] ^= 0x55;
                T_OK(tiny_file_write(ctx, path, raw, (size_t)size));
                T_TRUE(tllm_nn_load(other.nn, path) != TINY_OK);
                raw[at] = was;
                T_OK(tiny_file_write(ctx, path, raw, (size_t)at));
                T_TRUE(tllm_nn_load(other.nn, path) != TINY_OK);
            }
            T_SAME(all_of(nn), all_of(other.nn), tllm_nn_cost_of(nn).n_param);
            T_OK(tiny_file_write(ctx, path, raw, (size_t)size));
            tllm_nn_close(other.nn);
            other = golden_open(ctx, !mlp, TINY_F32);   /* another network */
            T_TRUE(tllm_nn_load(other.nn, path) != TINY_OK);
            T_TRUE(!tllm_nn_masked(other.nn));
            tllm_nn_close(other.nn);
            T_STATUS(tllm_nn_save(nn, path, TLLM_NN_TILES), TINY_E_ARGUMENT, "not 3");
            T_OK(tllm_nn_bytes(nn, TLLM_NN_TILES, &bytes));
            T_TRUE(bytes >= 4 * kept && bytes < 4 * kept + 200);
            tllm_nn_close(nn);
        }
    (void)remove(path);
    t_close(ctx);
    T_PROOF("compression 2", "export and import give the identical network");
}

/* files with a valid checksum whose indices lie */
static void lie(tiny_ctx *ctx, int kind, const char *says)
{
    static const char path[] = "build/t-nets-lie.nn";
    golden_net g = golden_open(ctx, 1, TINY_F32);
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *f = NULL;
    const tiny_param *p;
    size_t n_param, i, l;
    memset(&d, 0, sizeof d);
    d.path = path;
    p = tllm_nn_params(g.nn, &n_param);
    T_OK(tiny_checkpoint_create(ctx, &d, &f));
    T_OK(tiny_checkpoint_put_text(ctx, f, "form", kind < 3 ? "bits" : kind == 3 ? "woven" : "steps"));
    for (l = 0; l < 3; l++) {
        char name[48];
        float value[4] = { 1, 2, 3, 4 };
        unsigned char bits[8] = { 0x33, 0, 0, 0, 0, 0, 0, 0 }, step[8] = { 0, 0, 1, 0, 0, 0, 1, 0 };
        int32_t row[7] = { 2, 2, 0, 0, 0, 0, 0 };
        tiny_tensor t = tiny_tensor_1d(value, TINY_F32, 4);
        const size_t count = (size_t)tiny_tensor_count(&p[l].value);
        if (kind == 0 && l == 1) bits[0] = 0x73;
        if (kind == 1 && l == 1) bits[0] = 0x13;
        if (kind == 4 && l == 1) row[0] = 3;
        if (kind == 5 && l == 1) row[0] = -1;
        if (kind == 6 && l == 1) step[3] = 0xff;
        if (kind == 7 && l == 1) step[2] = 0;
        if (kind == 8 && l == 1) row[1] = 1;
        if (kind == 9 && l == 1) row[0] = INT32_MAX;
        (void)snprintf(name, sizeof name, "%s/value", p[l].name);
        T_OK(tiny_checkpoint_put_tensor(ctx, f, name, &t));
        if (kind < 4) {
            (void)snprintf(name, sizeof name, "%s/bits", p[l].name);
            T_OK(tiny_checkpoint_put_bytes(ctx, f, name, bits, kind == 2 && l == 1 ? 4 : (count + 7) / 8));
        } else {
            t = tiny_tensor_1d(row, TINY_I32, p[l].value.dim[0]);
            (void)snprintf(name, sizeof name, "%s/row", p[l].name);
            T_OK(tiny_checkpoint_put_tensor(ctx, f, name, &t));
            (void)snprintf(name, sizeof name, "%s/step", p[l].name);
            T_OK(tiny_checkpoint_put_bytes(ctx, f, name, step, 8));
        }
    }
    for (i = 3; i < n_param; i++) T_OK(tiny_checkpoint_put_tensor(ctx, f, p[i].name, &p[i].value));
    T_OK(tiny_checkpoint_finish(ctx, f));
    tiny_checkpoint_writer_close(ctx, f);
    if (says) T_STATUS(tllm_nn_load(g.nn, path), TINY_E_FORMAT, says);
    else T_OK(tllm_nn_load(g.nn, path));
    if (says) T_CLOSE(number(&p[0].value, 5), fraction(5, 37, 11, 97, 48, 64), 0.0);
    (void)remove(path);
    tllm_nn_close(g.nn);
}

static void test_lies(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    lie(ctx, -1, NULL);
    lie(ctx, 0, "1.weight: more bits than values");
    lie(ctx, 1, "1.weight: fewer indices than values");
    lie(ctx, 2, "1.weight: the number of its indices");
    lie(ctx, 3, "an unknown form");
    lie(ctx, 10, NULL);
    lie(ctx, 4, "1.weight: a step leaves its row or stands still");
    lie(ctx, 5, "1.weight: a row has more numbers");
    lie(ctx, 6, "1.weight: a step leaves its row");
    lie(ctx, 7, "1.weight: a step leaves its row or stands still");
    lie(ctx, 8, "1.weight: fewer indices than values");
    lie(ctx, 9, "1.weight: a row has more numbers");
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_nn_task task;
            tllm_nn_layer l[2];
            tllm_nn_desc d;
            tllm_nn *nn = NULL;
            tllm_nn *copy = NULL;
            tllm_mask m;
            tiny_idx right;
            size_t bytes;
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&m, 0, sizeof m);
            l[0].kind = TLLM_NN_CONV; l[0].n_out = 2; l[0].norm = 1; l[0].stride = 4;
            l[1].n_out = 10;
            d.in[0] = 1; d.in[1] = d.in[2] = 16; d.layer = l; d.n_layer = 2;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 2, 8, 4, &task) && !tllm_nn_open(ctx, &d, &nn) &&
                !tllm_mask_open(ctx, tllm_nn_cost_of(nn).n_weight, &m) && !tllm_nn_mask(nn, &m) &&
                !tllm_nn_copy(nn, TINY_F64, &copy) && !tllm_nn_right(copy, &task.test, &right) &&
                !tllm_nn_bytes(nn, TLLM_NN_TILES, &bytes) && !tllm_nn_save(nn, "build/t-nets-m.nn", TLLM_NN_STEPS))
                (void)tllm_nn_load(copy, "build/t-nets-m.nn");
            tllm_mask_close(ctx, &m);
            tllm_nn_close(copy);
            tllm_nn_close(nn);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("build/t-nets-m.nn");
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN(test_mask);
    T_RUN(test_cost);
    T_RUN(test_tasks);
    T_RUN(test_files);
    T_RUN(test_lies);
    T_RUN(test_memory);
    return t_done();
}
#endif
