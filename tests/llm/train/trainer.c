/* tests/llm/train/trainer.c - gradients against central differences of a forward pass written again in double; a run that is
 * killed, and one that is not; threads; what a trainer refuses */
#include "t.h"
#if T_PAGES
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#endif

static const char path[] = "tests-trainer.ckpt", model_path[] = "tests-trainer.gguf";
static void remove_files(void)
{
    (void)remove(path);
    (void)remove(model_path);
    (void)remove("tests-trainer.ckpt.part");
}

static tllm_train_desc small_desc(void)
{
    tllm_train_desc d;
    memset(&d, 0, sizeof d);
    d.embedding = 16;
    d.layers = 2;
    d.heads = 4;
    d.kv_heads = 2;
    d.hidden = 24;
    d.context = 20;
    d.sequences = 4;
    d.steps = 40;
    d.warmup = 5;
    return d;
}

static tllm_train_desc form_desc(int form)
{
    tllm_train_desc d = small_desc();
    d.form = form;
    if (form == TLLM_TRAIN_LATENT) {
        d.kv_heads = 0;                     /* as many as heads */
        d.latent = 10;
        d.rotary = 6;
    }
    return d;
}

/* ---- the model once more: plain loops in double, from the formulas of the papers ---------------------------------------------- */

enum {
    EMBD, NORM1, Q, K, V, O, NORM2, GATE, UP, DOWN,
    KV_A = K, KV_NORM, KV_B, LATENT_O, LATENT_NORM2, LATENT_UP, LATENT_DOWN             /* the latent form, from its third on */
};
typedef struct twin { int d, layers, heads, kv, hidden, context, sequences, latent, rotary, exact; double *w[2 + 9 * 4]; double *room; } twin;

static void norm_of(int n, const double *x, const double *g, double *y)
{
    double s = 0;
    int i;
    for (i = 0; i < n; i++) s += x[i] * x[i];
    for (i = 0; i < n; i++) y[i] = g[i] * x[i] / sqrt(s / n + 1e-5);
}
static void norm(const twin *m, const double *x, const double *g, double *y) { norm_of(m->d, x, g, y); }
static void apply(const double *w, int rows, int cols, const double *x, double *y)     /* y = W x */
{
    int r, c;
    for (r = 0; r < rows; r++)
        for (y[r] = 0, c = 0; c < cols; c++) y[r] += w[r * cols + c] * x[c];
}
static void rotate(double *x, int n, int place)
{
    int i;
    for (i = 0; i < n; i += 2) {
        const double angle = place * pow(10000.0, -(double)i / n), a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = a * sin(angle) + b * cos(angle);
    }
}
/* A layer of the latent form, on all tokens of a sequence: the keys of a head are what is made of c, then the rotated key of all heads. */
static void twin_latent(const twin *m, double *const *w, double *x)
{
    enum { MOST = 128 };
    static double h[MOST], q[MOST][MOST], c[MOST], a[MOST], made[MOST][MOST], shared[MOST][MOST], o[MOST], y[MOST], wide[MOST], p[MOST];
    const int d = m->d, dh = d / m->heads, key = dh + m->rotary, n = m->context;
    int t, u, i, j;
    for (t = 0; t < n; t++) {
        norm(m, x + t * d, w[NORM1], h);
        apply(w[Q], m->heads * key, d, h, q[t]);
        for (j = 0; j < m->heads; j++) rotate(q[t] + j * key + dh, m->rotary, t);
        apply(w[KV_A], m->latent + m->rotary, d, h, a);
        memcpy(shared[t], a + m->latent, (size_t)m->rotary * sizeof(double));
        rotate(shared[t], m->rotary, t);
        norm_of(m->latent, a, w[KV_NORM], c);
        apply(w[KV_B], 2 * d, m->latent, c, made[t]);
    }
    for (t = 0; t < n; t++) {
        for (j = 0; j < m->heads; j++) {
            double z = 0;
            for (u = 0; u <= t; u++) {
                double dot = 0;
                for (i = 0; i < dh; i++) dot += q[t][j * key + i] * made[u][2 * j * dh + i];
                for (i = 0; i < m->rotary; i++) dot += q[t][j * key + dh + i] * shared[u][i];
                z += p[u] = exp(dot / sqrt((double)key));
            }
            for (i = 0; i < dh; i++)
                for (o[j * dh + i] = 0, u = 0; u <= t; u++) o[j * dh + i] += p[u] / z * made[u][(2 * j + 1) * dh + i];
        }
        apply(w[LATENT_O], d, d, o, y);
        for (i = 0; i < d; i++) x[t * d + i] += y[i];
        norm(m, x + t * d, w[LATENT_NORM2], h);
        apply(w[LATENT_UP], m->hidden, d, h, wide);
        for (i = 0; i < m->hidden; i++) wide[i] = wide[i] > 0 ? wide[i] * wide[i] : 0;
        apply(w[LATENT_DOWN], d, m->hidden, wide, y);
        for (i = 0; i < d; i++) x[t * d + i] += y[i];
    }
}
/* -ln p of what came; in exact training the mean of that over all that could have come, what is asked of a memory three times or six */
static double twin_target(const twin *m, tllm_story *story, int32_t next, const double *p, double log_z)
{
    tllm_story_items items;
    double mean = 0;
    int i, tag;
    tllm_story_next(story, &items);
    T_TRUE(tllm_story_take(story, next, NULL, &tag));
    if (!m->exact) return log_z - p[next];
    for (i = 0; i < items.n; i++) mean += (double)items.weight[i] / (double)items.total * (log_z - p[items.token[i]]);
    return mean * (tag == TLLM_STORY_COUNT ? 3 : tag == TLLM_STORY_PLACE || tag == TLLM_STORY_YES || tag == TLLM_STORY_COMPARE || tag == TLLM_STORY_COLOUR ? 6 : 1);
}

/* its mean over the tokens of all sequences */
static double twin_loss(const twin *m, const int32_t *tokens)
{
    const int d = m->d, dh = d / m->heads, kvd = m->kv * dh, n = m->context;
    double *x = m->room, *h = x + n * d, *q = h + d, *k = q + d, *v = k + n * kvd, *o = v + n * kvd, *a = o + d, *b = a + m->hidden, *y = b + m->hidden, *p = y + d;
    double *all_q = p + 544 + n, sum = 0;
    int s, t, l, i, j, u;
    for (s = 0; s < m->sequences; s++, tokens += n + 1) {
        tllm_story story = tllm_story_start(0);
        for (t = 0; t < n; t++)
            for (i = 0; i < d; i++) x[t * d + i] = m->w[EMBD][tokens[t] * d + i];
        for (l = 0; l < m->layers; l++) {
            double *const *w = m->w + 9 * l;
            if (m->latent) {
                twin_latent(m, w, x);
                continue;
            }
            for (t = 0; t < n; t++) {
                norm(m, x + t * d, w[NORM1], h);
                apply(w[Q], d, d, h, all_q + t * d);
                apply(w[K], kvd, d, h, k + t * kvd);
                apply(w[V], kvd, d, h, v + t * kvd);
                for (j = 0; j < m->heads; j++) rotate(all_q + t * d + j * dh, dh, t);
                for (j = 0; j < m->kv; j++) rotate(k + t * kvd + j * dh, dh, t);
            }
            for (t = 0; t < n; t++) {
                for (j = 0; j < m->heads; j++) {
                    const int g = j / (m->heads / m->kv) * dh;
                    double z = 0;
                    for (u = 0; u <= t; u++) {
                        double dot = 0;
                        for (i = 0; i < dh; i++) dot += all_q[t * d + j * dh + i] * k[u * kvd + g + i];
                        z += p[u] = exp(dot / sqrt((double)dh));
                    }
                    for (i = 0; i < dh; i++)
                        for (o[j * dh + i] = 0, u = 0; u <= t; u++) o[j * dh + i] += p[u] / z * v[u * kvd + g + i];
                }
                apply(w[O], d, d, o, y);
                for (i = 0; i < d; i++) x[t * d + i] += y[i];
                norm(m, x + t * d, w[NORM2], h);
                apply(w[GATE], m->hidden, d, h, a);
                apply(w[UP], m->hidden, d, h, b);
                for (i = 0; i < m->hidden; i++) a[i] = a[i] / (1 + exp(-a[i])) * b[i];
                apply(w[DOWN], d, m->hidden, a, y);
                for (i = 0; i < d; i++) x[t * d + i] += y[i];
            }
        }
        for (t = 0; t < n; t++) {
            double z = 0;
            norm(m, x + t * d, m->w[1 + 9 * m->layers], h);
            apply(m->w[EMBD], 544, d, h, p);
            for (i = 0; i < 544; i++) z += exp(p[i]);
            sum += twin_target(m, &story, tokens[t + 1], p, log(z));
        }
    }
    return sum / (m->sequences * n);
}

/* tokens of stories, each sequence from its beginning */
static int32_t *story_tokens(const tllm_train_desc *d, uint64_t seed)
{
    int32_t *tokens = (int32_t *)t_keep((size_t)(d->sequences * (d->context + 1)) * sizeof *tokens);
    int s, i;
    for (s = 0; s < d->sequences; s++) {
        tllm_story story = tllm_story_start(seed + (uint64_t)s);
        tokens[s * (d->context + 1)] = TLLM_STORY_END;
        for (i = 1; i <= d->context; i++) tokens[s * (d->context + 1) + i] = tllm_story_draw(&story, NULL, NULL);
    }
    return tokens;
}

/* Every tensor, along a random direction (all of its numbers enter) and in single numbers. The context is longer than a block of
 * queries; one token stands often, most never. */
static void check_gradient(int form, int exact)
{
    tllm_train_desc d = form_desc(form);
    double *direction, *want, *point_want;
    size_t tensors = 0, i, k, most = 0, target;
    twin m;
    tiny_ctx *first = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_trainer *t = NULL;
    tiny_tensor v, g;
    int32_t *tokens;
    char name[64];
    double bits, loss;
    enum { POINTS = 3 };
    d.context = 70;
    d.exact = exact;
    d.stress = exact ? 3 : 0;
    tokens = story_tokens(&d, 21);
    memset(&m, 0, sizeof m);
    m.d = d.embedding;
    m.layers = d.layers;
    m.heads = d.heads;
    m.kv = d.kv_heads;
    m.hidden = d.hidden;
    m.context = d.context;
    m.sequences = d.sequences;
    m.latent = d.latent;
    m.rotary = d.rotary;
    m.exact = exact;
    if (!T_OK(tllm_trainer_open(first, &d, &t))) { t_close(first); return; }
    for (; tllm_trainer_tensor(t, tensors, name, &v, NULL); tensors++) {
        const size_t n = (size_t)tiny_tensor_count(&v);
        double *w = (double *)t_keep(n * sizeof *w);
        float *x = (float *)v.data;
        for (k = 0; k < n; k++) {
            if (v.dim[0] == 1) x[k] = t_rand_float(0.5f, 1.5f);     /* gains of one would hide a missing factor */
            else if (tensors) x[k] *= 1.5f;
            w[k] = (double)x[k];
        }
        m.w[tensors] = w;
        if (n > most) most = n;
    }
    T_EQ_INT(tensors, 20);
    m.room = (double *)t_keep(65536 * sizeof(double));
    direction = (double *)t_keep(tensors * most * sizeof *direction);
    want = (double *)t_keep(tensors * sizeof *want);
    point_want = (double *)t_keep(tensors * POINTS * sizeof *point_want);
    for (i = 0; i < tensors; i++) {
        const double h = 1e-5;
        size_t n;
        double up, down;
        (void)tllm_trainer_tensor(t, i, name, &v, NULL);
        n = (size_t)tiny_tensor_count(&v);
        for (k = 0; k < n; k++) direction[i * most + k] = (double)t_rand_float(-1.0f, 1.0f);
        for (k = 0; k < n; k++) m.w[i][k] += h * direction[i * most + k];
        up = twin_loss(&m, tokens);
        for (k = 0; k < n; k++) m.w[i][k] -= 2 * h * direction[i * most + k];
        down = twin_loss(&m, tokens);
        for (k = 0; k < n; k++) m.w[i][k] = (double)((float *)v.data)[k];
        want[i] = (up - down) / (2 * h);
        for (k = 0; k < POINTS; k++) {
            double *at = m.w[i] + (i ? k * 7919 % n : (size_t)tokens[3 * k + 1] * 16 + k), was = *at;
            *at = was + h;
            up = twin_loss(&m, tokens);
            *at = was - h;
            point_want[i * POINTS + k] = (up - twin_loss(&m, tokens)) / (2 * h);
            *at = was;
        }
    }
    m.exact = 0;                            /* what is reported is of what came */
    loss = twin_loss(&m, tokens) / log(2.0);
    for (target = TINY_TARGET_REFERENCE; target < TINY_TARGET_COUNT; target++) {
        tiny_ctx *ctx;
        tllm_trainer *other = NULL;
        if (!tiny_target_runs_here((tiny_target)target)) continue;
        ctx = t_ctx((tiny_target)target, 2);
        if (!T_OK(tllm_trainer_open(ctx, &d, &other))) { t_close(ctx); break; }
        for (i = 0; tllm_trainer_tensor(other, i, name, &v, NULL); i++) {
            tiny_tensor from;
            (void)tllm_trainer_tensor(t, i, name, &from, NULL);
            memcpy(v.data, from.data, (size_t)tiny_tensor_count(&v) * sizeof(float));
        }
        T_OK(tllm_trainer_gradient(other, tokens, &bits));
        T_CLOSE(bits, loss, 2e-6 * loss);
        for (i = 0; tllm_trainer_tensor(other, i, name, &v, &g); i++) {
            const float *x = (const float *)g.data;
            const size_t n = (size_t)tiny_tensor_count(&g);
            double got = 0, size = 0, largest = 0;
            for (k = 0; k < n; k++) {
                got += (double)x[k] * direction[i * most + k];
                size += (double)x[k] * (double)x[k];
                if (fabs((double)x[k]) > largest) largest = fabs((double)x[k]);
            }
            /* float: some hundred roundings of 6e-8 a number, of random sign */
            if (!T_CLOSE(got, want[i], 1e-5 * sqrt(size))) printf("    in %s\n", name);
            for (k = 0; k < POINTS; k++)
                if (!T_CLOSE(x[i ? k * 7919 % n : (size_t)tokens[3 * k + 1] * 16 + k], point_want[i * POINTS + k], 1e-5 * largest)) printf("    in %s\n", name);
        }
        tllm_trainer_close(other);
        t_close(ctx);
    }
    tllm_trainer_close(t);
    t_close(first);
}

static void test_gradient(void) { check_gradient(TLLM_TRAIN_GROUPED, 0); }
static void test_gradient_exact(void) { check_gradient(TLLM_TRAIN_GROUPED, 1); }
static void test_gradient_latent(void) { check_gradient(TLLM_TRAIN_LATENT, 0); }

/* Stress without exact targets: the gradient is linear in it, so those of 2, 3 and 4 lie on a line, apart from each other. Where a text
 * is no story, exact targets are what came, and nothing is stressed. */
static void gradient_of(tllm_train_desc d, int exact, double stress, const int32_t *tokens, double *g)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_trainer *t = NULL;
    tiny_tensor v, x;
    char name[64];
    size_t i, k, n = 0;
    d.exact = exact;
    d.stress = stress;
    if (T_OK(tllm_trainer_open(ctx, &d, &t)) && T_OK(tllm_trainer_gradient(t, tokens, NULL)))
        for (i = 0; tllm_trainer_tensor(t, i, name, &v, &x); i++)
            for (k = 0; k < (size_t)tiny_tensor_count(&x); k++) g[n++] = (double)((const float *)x.data)[k];
    tllm_trainer_close(t);
    t_close(ctx);
}
static double apart(const double *a, const double *b, size_t n)
{
    double s = 0;
    size_t i;
    for (i = 0; i < n; i++) s += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(s);
}
static void test_stress_and_no_story(void)
{
    enum { MOST_WEIGHTS = 40000 };
    static double one[MOST_WEIGHTS], two[MOST_WEIGHTS], three[MOST_WEIGHTS], four[MOST_WEIGHTS];
    tllm_train_desc d = small_desc();
    int32_t *tokens;
    size_t i;
    d.context = 70;
    tokens = story_tokens(&d, 21);
    gradient_of(d, 0, 2, tokens, two);
    gradient_of(d, 0, 3, tokens, three);
    gradient_of(d, 0, 4, tokens, four);
    for (i = 0; i < MOST_WEIGHTS; i++) one[i] = 2 * three[i] - two[i];
    T_TRUE(apart(two, three, MOST_WEIGHTS) > 1e-4);
    T_TRUE(apart(one, four, MOST_WEIGHTS) < 1e-4 * apart(two, four, MOST_WEIGHTS));
    for (i = 0; i < (size_t)(d.sequences * (d.context + 1)); i++) tokens[i] = (int32_t)(4 + i * 37 % 500);
    gradient_of(d, 0, 1, tokens, one);
    gradient_of(d, 1, 5, tokens, two);
    T_TRUE(!apart(one, two, MOST_WEIGHTS) && apart(one, three, MOST_WEIGHTS) > 0);
}

/* ---- and once more, of the rows of the table: the gradient that the tape finds ---------------------------------------------------- */

static tiny_tensor columns(const tiny_tensor *x, int axis, tiny_idx at, tiny_idx n)     /* a part of an axis: a view */
{
    tiny_tensor y = *x;
    y.data = (float *)x->data + at * x->stride[axis];
    y.dim[axis] = n;
    return y;
}
static tiny_tensor heads_of(tiny_tape *t, const tiny_tensor *x, tiny_idx heads)
{
    tiny_idx dim[3];
    dim[0] = x->dim[0];
    dim[1] = heads;
    dim[2] = x->dim[1] / heads;
    return tiny_tape_reshape(t, x, 3, dim);
}
static tiny_tensor attention_of(tiny_tape *t, const tllm_train_desc *d, const tiny_param *w, const tiny_tensor *h)
{
    const tiny_attention_params causal = { 0, 0, 1 };
    const tiny_rope_params turn = { 10000.0f, 0, 0, 1, 0 };
    const tiny_idx dh = d->embedding / d->heads, dim[2] = { d->context, d->embedding };
    tiny_tensor q = tiny_tape_linear(t, h, &w[Q].value, NULL, TINY_ACT_NONE), k, v, part[2], o;
    q = heads_of(t, &q, d->heads);
    if (d->form == TLLM_TRAIN_LATENT) {
        tiny_tensor a = tiny_tape_linear(t, h, &w[KV_A].value, NULL, TINY_ACT_NONE), c = columns(&a, 1, 0, d->latent), shared = columns(&a, 1, d->latent, d->rotary), made;
        part[0] = columns(&q, 2, 0, dh);
        part[1] = columns(&q, 2, dh, d->rotary);
        part[1] = tiny_tape_call(t, TINY_OP_ROPE, &part[1], NULL, NULL, NULL, &turn);
        q = tiny_tape_concat(t, 2, part, 2);
        c = tiny_tape_call(t, TINY_OP_RMSNORM, &c, &w[KV_NORM].value, NULL, NULL, NULL);
        made = tiny_tape_linear(t, &c, &w[KV_B].value, NULL, TINY_ACT_NONE);
        made = heads_of(t, &made, d->heads);
        v = columns(&made, 2, dh, dh);
        part[0] = columns(&made, 2, 0, dh);
        part[1] = heads_of(t, &shared, 1);
        part[1] = tiny_tape_call(t, TINY_OP_ROPE, &part[1], NULL, NULL, NULL, &turn);
        part[1].dim[1] = d->heads;          /* the same one for each head */
        part[1].stride[1] = 0;
        k = tiny_tape_concat(t, 2, part, 2);
    } else {
        k = tiny_tape_linear(t, h, &w[K].value, NULL, TINY_ACT_NONE);
        v = tiny_tape_linear(t, h, &w[V].value, NULL, TINY_ACT_NONE);
        k = heads_of(t, &k, d->kv_heads);
        v = heads_of(t, &v, d->kv_heads);
        q = tiny_tape_call(t, TINY_OP_ROPE, &q, NULL, NULL, NULL, &turn);
        k = tiny_tape_call(t, TINY_OP_ROPE, &k, NULL, NULL, NULL, &turn);
    }
    o = tiny_tape_call(t, TINY_OP_ATTENTION, &q, &k, &v, NULL, &causal);
    return tiny_tape_reshape(t, &o, 2, dim);
}
static tiny_tensor decoder_of(tiny_tape *t, const tllm_train_desc *d, const tiny_param *p, const tiny_tensor *tokens, const tiny_tensor *next)
{
    const int latent = d->form == TLLM_TRAIN_LATENT;
    tiny_tensor x = tiny_tape_call(t, TINY_OP_GATHER, &p[EMBD].value, tokens, NULL, NULL, NULL), h, u, g;
    int l;
    for (l = 0; l < d->layers; l++) {
        const tiny_param *w = p + 9 * l;
        h = tiny_tape_call(t, TINY_OP_RMSNORM, &x, &w[NORM1].value, NULL, NULL, NULL);
        h = attention_of(t, d, w, &h);
        h = tiny_tape_linear(t, &h, &w[latent ? LATENT_O : O].value, NULL, TINY_ACT_NONE);
        x = tiny_tape_add(t, &x, &h);
        h = tiny_tape_call(t, TINY_OP_RMSNORM, &x, &w[latent ? LATENT_NORM2 : NORM2].value, NULL, NULL, NULL);
        u = tiny_tape_linear(t, &h, &w[latent ? LATENT_UP : UP].value, NULL, TINY_ACT_NONE);
        if (latent) u = tiny_tape_call(t, TINY_OP_RELU2, &u, NULL, NULL, NULL, NULL);
        else {
            g = tiny_tape_linear(t, &h, &w[GATE].value, NULL, TINY_ACT_NONE);
            u = tiny_tape_call(t, TINY_OP_SWIGLU, &g, &u, NULL, NULL, NULL);
        }
        u = tiny_tape_linear(t, &u, &w[latent ? LATENT_DOWN : DOWN].value, NULL, TINY_ACT_NONE);
        x = tiny_tape_add(t, &x, &u);
    }
    x = tiny_tape_call(t, TINY_OP_RMSNORM, &x, &p[1 + 9 * d->layers].value, NULL, NULL, NULL);
    x = tiny_tape_linear(t, &x, &p[EMBD].value, NULL, TINY_ACT_NONE);
    return tiny_tape_cross_entropy(t, &x, next, 0.0);
}

static void check_tape(int form)
{
    tllm_train_desc d = form_desc(form);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_trainer *t = NULL;
    tiny_tape *tape = NULL;
    tiny_param p[21];                       /* one more: where it is asked for a tensor that is not there */
    tiny_tensor mine[21];
    char name[64];
    const int32_t *tokens = story_tokens(&d, 33);
    double bits = 0, sum = 0;
    size_t i, k;
    int s;
    if (!T_OK(tllm_trainer_open(ctx, &d, &t)) || !T_OK(tiny_tape_open(ctx, NULL, &tape))) goto done;
    memset(p, 0, sizeof p);
    for (i = 0; tllm_trainer_tensor(t, i, name, &p[i].value, &mine[i]); i++) {
        float *x = (float *)p[i].value.data;
        if (p[i].value.dim[0] == 1) {       /* gains, which rows take as vectors */
            p[i].value = tiny_tensor_1d(x, TINY_F32, p[i].value.dim[1]);
            for (k = 0; k < (size_t)p[i].value.dim[0]; k++) x[k] = t_rand_float(0.5f, 1.5f);
        }
        p[i].name = "w";
        p[i].grad = p[i].value;
        p[i].grad.data = t_keep((size_t)tiny_tensor_count(&p[i].value) * sizeof(float));
        T_OK(tiny_tape_param(tape, &p[i]));
    }
    T_EQ_INT(i, 20);
    T_OK(tllm_trainer_gradient(t, tokens, &bits));
    tiny_tape_zero(tape);
    for (s = 0; s < d.sequences; s++, tokens += d.context + 1) {
        const tiny_tape_mark mark = tiny_tape_now(tape);
        tiny_tensor from = tiny_tensor_1d((void *)(uintptr_t)tokens, TINY_I32, d.context), next = tiny_tensor_1d((void *)(uintptr_t)(tokens + 1), TINY_I32, d.context);
        tiny_tensor loss = decoder_of(tape, &d, p, &from, &next);
        if (!T_OK(tiny_tape_backward(tape, &loss, NULL))) break;
        sum += (double)*(float *)loss.data;
        tiny_tape_release(tape, mark);
    }
    T_CLOSE(sum / d.sequences / log(2.0), bits, 1e-5 * bits);
    for (i = 0; i < 20; i++) {
        const float *a = (const float *)p[i].grad.data, *b = (const float *)mine[i].data;
        const size_t n = (size_t)tiny_tensor_count(&p[i].value);
        double apart = 0, size = 0;
        for (k = 0; k < n; k++) {
            const double x = (double)a[k] / d.sequences;
            apart += (x - (double)b[k]) * (x - (double)b[k]);
            size += x * x;
        }
        T_TRUE(size > 0);
        if (!T_CLOSE(sqrt(apart), 0, 1e-4 * sqrt(size))) printf("    in tensor %zu\n", i);
    }
done:
    tiny_tape_close(tape);
    tllm_trainer_close(t);
    t_close(ctx);
}
static void test_tape(void)
{
    check_tape(TLLM_TRAIN_GROUPED);
    check_tape(TLLM_TRAIN_LATENT);
}

/* A model of 110 thousand weights learns four sequences of 64 tokens by heart; the size of the recipe would take minutes. */
static void test_overfit(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_train_desc d = small_desc();
    tllm_trainer *t = NULL;
    tllm_train_report r;
    int32_t *tokens;
    int i;
    d.embedding = d.context = 64;
    d.hidden = 128;
    d.steps = 300;
    d.warmup = 20;
    tokens = story_tokens(&d, 1);
    memset(&r, 0, sizeof r);
    if (T_OK(tllm_trainer_open(ctx, &d, &t)))
        for (i = 0; i < 300; i++)
            if (!T_OK(tllm_trainer_step_on(t, tokens, &r))) break;
    T_EQ_INT(r.step, 300);
    T_TRUE(r.bits < 0.05);
    T_STATUS(tllm_trainer_step_on(t, tokens, &r), TINY_E_ARGUMENT, "all 300 steps are made");
    tllm_trainer_close(t);
    t_close(ctx);
}

static void weights_of(const tllm_trainer *t, float *to)
{
    tiny_tensor v;
    size_t i;
    for (i = 0; tllm_trainer_tensor(t, i, NULL, &v, NULL); i++, to += tiny_tensor_count(&v)) memcpy(to, v.data, (size_t)tiny_tensor_count(&v) * sizeof *to);
}
static void run_to(tllm_trainer *t, int64_t step)
{
    while (tllm_trainer_at(t) < step)
        if (!T_OK(tllm_trainer_step(t, NULL))) return;
}

/* One thread and four; in one piece and in three, each loaded by another number of threads: the same bits. */
static void test_same_bits(tiny_target target)
{
    static const int threads[4] = { 1, 2, 3, 4 };
    tllm_train_desc d = form_desc(target % 2 ? TLLM_TRAIN_LATENT : TLLM_TRAIN_GROUPED);     /* each form on every second target */
    float *want = NULL, *got = NULL;
    size_t n = 0;
    int c;
    d.context = 40;
    d.sequences = 8;
    remove_files();
    for (c = 0; c < 5; c++) {
        tiny_ctx *ctx = t_ctx(target, threads[c % 4]);
        tllm_trainer *t = NULL, *u = NULL, *last;
        if (!T_OK(tllm_trainer_open(ctx, &d, &t))) { t_close(ctx); return; }
        n = tllm_trainer_params(t);
        if (!want) { want = t_guarded(n); got = t_guarded(n); }
        last = t;
        if (c < 4) run_to(t, 9);
        else {
            tiny_ctx *other = t_ctx(target, 3);
            run_to(t, 4);
            T_OK(tllm_trainer_save(t, path));
            T_OK(tllm_trainer_open(other, &d, &u));
            T_OK(tllm_trainer_load(u, path));
            T_EQ_INT(tllm_trainer_at(u), 4);
            run_to(u, 7);
            T_OK(tllm_trainer_save(u, path));
            run_to(u, 9);
            weights_of(u, got);
            T_SAME(want, got, n);
            tllm_trainer_close(u);
            t_close(other);
            t_use(ctx);
            T_OK(tllm_trainer_load(t, path));
            run_to(t, 9);
        }
        weights_of(last, c ? got : want);
        if (c) T_SAME(want, got, n);
        tllm_trainer_close(t);
        t_close(ctx);
    }
    remove_files();
}

#if T_PAGES
/* A run that is killed wherever it may be, again and again, ends with the bits of one that never was. */
static void test_killed(void)
{
    tllm_train_desc d = small_desc();
    tiny_ctx *ctx;
    tllm_trainer *t = NULL;
    float *want, *got;
    int kills = 0, done = 0;
    d.steps = 120;
    remove_files();
    while (!done && kills < 60) {
        const pid_t child = fork();
        int state = 0;
        if (child < 0) { T_SKIP("no fork"); return; }
        if (child == 0) {                   /* writes a checkpoint after every step */
            tllm_trainer *c = NULL;
            ctx = t_ctx(TINY_TARGET_SCALAR, 1);
            if (tllm_trainer_open(ctx, &d, &c)) _exit(1);
            if (kills && tllm_trainer_load(c, path)) _exit(2);
            while (tllm_trainer_at(c) < 60)
                if (tllm_trainer_step(c, NULL) || tllm_trainer_save(c, path)) _exit(3);
            _exit(0);
        }
        (void)usleep(20000 + 1000 * t_rand_below(200));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &state, 0);
        if (WIFEXITED(state)) {
            T_EQ_INT(WEXITSTATUS(state), 0);
            done = 1;
        } else {
            FILE *f = fopen(path, "rb");
            if (f) { (void)fclose(f); kills++; }
        }
    }
    ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        const size_t n = tllm_trainer_params(t);
        want = t_guarded(n);
        got = t_guarded(n);
        run_to(t, 60);
        weights_of(t, want);
        T_OK(tllm_trainer_load(t, path));
        run_to(t, 60);
        weights_of(t, got);
        T_SAME(want, got, n);
    }
    tllm_trainer_close(t);
    t_close(ctx);
    remove_files();
}

/* A disk that takes no more leaves the old checkpoint. */
static void test_full_disk(void)
{
    tllm_train_desc d = small_desc();
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_trainer *t = NULL;
    struct rlimit was, little;
    remove_files();
    if (T_OK(tllm_trainer_open(ctx, &d, &t)) && !getrlimit(RLIMIT_FSIZE, &was)) {
        run_to(t, 2);
        T_OK(tllm_trainer_save(t, path));
        run_to(t, 3);
        (void)signal(SIGXFSZ, SIG_IGN);
        little = was;
        little.rlim_cur = 30000;
        if (!setrlimit(RLIMIT_FSIZE, &little)) {
            T_STATUS(tllm_trainer_save(t, path), TINY_E_IO, "tests-trainer.ckpt");
            (void)setrlimit(RLIMIT_FSIZE, &was);
        }
        T_OK(tllm_trainer_load(t, path));
        T_EQ_INT(tllm_trainer_at(t), 2);
    }
    tllm_trainer_close(t);
    t_close(ctx);
    remove_files();
}
#endif

static void test_not_a_number(void)
{
    tllm_train_desc d = small_desc();
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_trainer *t = NULL;
    tiny_tensor v;
    char name[64];
    remove_files();
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        float *w;
        run_to(t, 3);
        T_OK(tllm_trainer_save(t, path));
        (void)tllm_trainer_tensor(t, 7, name, &v, NULL);
        T_EQ_TEXT(name, "blk.0.ffn_gate.weight");
        w = (float *)v.data;
        w[18] = NAN;
        T_STATUS(tllm_trainer_step(t, NULL), TINY_E_NUMERIC, "step 4: the weight of blk.0.ffn_gate.weight is nan at row 1, column 2; nothing was changed");
        T_EQ_INT(tllm_trainer_at(t), 3);
        w[18] = INFINITY;
        T_STATUS(tllm_trainer_step(t, NULL), TINY_E_NUMERIC, "blk.0.ffn_gate.weight is inf");
        w[18] = 3e38f;
        T_STATUS(tllm_trainer_step(t, NULL), TINY_E_NUMERIC, "step 4");
        T_OK(tllm_trainer_load(t, path));
        T_OK(tllm_trainer_step(t, NULL));
        T_EQ_INT(tllm_trainer_at(t), 4);
    }
    tllm_trainer_close(t);
    t_close(ctx);
    remove_files();
}

static void test_refused(void)
{
    static const struct { const char *text, *says; } bad[] = {
        { "embedding 256", "story.cfg: line 1: \"embedding 256\" is no key = value" },
        { "# a\n\nwidth = 3", "line 3: there is no key \"width\"" },
        { "layers = 2\nlayers = 2", "line 2: layers stands twice" },
        { "layers = 0", "layers is \"0\", it must be a whole number from 1 to 64" },
        { "layers = 65", "whole number from 1 to 64" },
        { "layers = 2.5", "whole number" },
        { "layers = -1", "whole number" },
        { "layers = four", "whole number" },
        { "layers =", "layers is \"\"" },
        { "context = 99999999999999999999999999999999999999999999999", "context is" },
        { "hidden = 1e9", "hidden is \"1e9\"" },
        { "rate = nan", "rate is \"nan\", it must be a number" },
        { "rate = 1e", "rate is \"1e\"" },
        { "rate = 1e999999999999999", "rate is" },
        { "clip = 0", "clip is \"0\"" },
        { "optimizer = sgd", "optimizer is \"sgd\"; muon and adamw are there" },
        { "form = linear", "form is \"linear\"; grouped and latent are there" },
        { "latent = -1", "latent is \"-1\", it must be a whole number from 0 to 4096" },
        { "seed = 0", "seed is \"0\", it must be a whole number" },
        { "seed = 1.5", "seed is \"1.5\"" }
    };
    static const char good[] = "# sizes\r\n embedding = 32 # wide\n\nheads=2\nrate = 2.5e-3\nseed = 12345678901\noptimizer = adamw";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_train_desc d, was;
    tllm_trainer *t = NULL, *u = NULL;
    size_t i;
    memset(&d, 0, sizeof d);
    was = d;
    for (i = 0; i < T_COUNT(bad); i++) {
        T_STATUS(tllm_train_config(ctx, "story.cfg", bad[i].text, strlen(bad[i].text), &d), TINY_E_FORMAT, bad[i].says);
        T_TRUE(!memcmp(&d, &was, sizeof d));
    }
    T_OK(tllm_train_config(ctx, "story.cfg", good, strlen(good), &d));
    T_TRUE(d.embedding == 32 && d.heads == 2 && d.rate == 2.5e-3 && d.seed == 12345678901u && d.optimizer == TLLM_TRAIN_ADAMW && d.layers == 0);

#define REFUSED(change, says) do { d = small_desc(); change; T_STATUS(tllm_trainer_open(ctx, &d, &t), TINY_E_ARGUMENT, says); T_TRUE(!t); } while (0)
    REFUSED(d.heads = 3, "an embedding of 16 numbers cannot be shared by 3 heads");
    REFUSED((d.heads = d.kv_heads = 16), "heads of 1 numbers (embedding 16, heads 16) cannot be turned in pairs");
    REFUSED(d.kv_heads = 3, "4 heads are no multiple of kv_heads, 3");
    REFUSED(d.sequences = 6, "6 sequences cannot be cut into 4 lanes");
    REFUSED(d.warmup = 41, "a warmup of 41 steps is longer than the run of 40");
    REFUSED(d.layers = -1, "layers is -1, it must be from 1 to 64");
    REFUSED(d.embedding = 1 << 20, "embedding is 1.04858e+06");
    REFUSED(d.rate = -1, "rate is -1");
    REFUSED(d.clip = (double)NAN, "clip is");
    REFUSED(d.optimizer = 2, "optimizer is 2");
    REFUSED(d.form = 2, "form is 2");
    REFUSED(d.latent = 8, "latent is 8 and rotary 0; only the form latent has them");
    REFUSED(d.form = TLLM_TRAIN_LATENT, "the latent form makes keys for each of the 4 heads; kv_heads is 2");
    REFUSED((d = form_desc(TLLM_TRAIN_LATENT), d.latent = 17), "latent 17 and rotary 6 must be at most the embedding, 16, and rotary even");
    REFUSED((d = form_desc(TLLM_TRAIN_LATENT), d.rotary = 5), "latent 10 and rotary 5");

    d = small_desc();
    remove_files();
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        int32_t *tokens = story_tokens(&d, 1);
        FILE *f;
        T_OK(tllm_trainer_save(t, path));
        tokens[5] = 544;
        T_STATUS(tllm_trainer_step_on(t, tokens, NULL), TINY_E_ARGUMENT, "token 5 is 544; the vocabulary has 0 to 543");
        tokens[5] = -1;
        T_STATUS(tllm_trainer_gradient(t, tokens, NULL), TINY_E_ARGUMENT, "token 5 is -1");
        T_STATUS(tllm_trainer_load(t, "no-such-file"), TINY_E_IO, "no-such-file");
        T_STATUS(tllm_trainer_model(t, model_path, "Q5_9"), TINY_E_ARGUMENT, "no format \"Q5_9\"");
        T_STATUS(tllm_trainer_model(t, model_path, "Q4_K"), TINY_E_SHAPE, "rows of token_embd.weight have 16 numbers, no whole blocks of Q4_K, which are 256");
        T_STATUS(tllm_trainer_model(t, "no-such-folder/x.gguf", "F32"), TINY_E_IO, "no-such-folder/x.gguf");
        T_STATUS(tllm_trainer_save(t, "no-such-folder/x"), TINY_E_IO, "no-such-folder/x");
        /* of another form, of another description */
        d = form_desc(TLLM_TRAIN_LATENT);
        T_OK(tllm_trainer_open(ctx, &d, &u));
        T_STATUS(tllm_trainer_load(u, path), TINY_E_FORMAT, "a checkpoint of \"story trainer 1\", not of \"story trainer 1, latent\"");
        tllm_trainer_close(u);
        d = small_desc();
        d.hidden = 32;
        T_OK(tllm_trainer_open(ctx, &d, &u));
        T_STATUS(tllm_trainer_load(u, path), TINY_E_ARGUMENT, "made with hidden = 24, this run has 32");
        tllm_trainer_close(u);
        d = small_desc();
        d.seed = 2;
        T_OK(tllm_trainer_open(ctx, &d, &u));
        T_STATUS(tllm_trainer_load(u, path), TINY_E_ARGUMENT, "made with seed 1, this run has 2");
        tllm_trainer_close(u);
        f = fopen(path, "wb");
        if (f) { (void)fputs("no checkpoint", f); (void)fclose(f); }
        T_STATUS(tllm_trainer_load(t, path), TINY_E_FORMAT, path);
    }
    tllm_trainer_close(t);
    remove_files();
    t_close(ctx);
}

/* The run may be made longer or shorter while its rates have not begun to fall: what was done is the same. */
/* A checkpoint from before `exact` and `stress` does not say them: it goes on where they are what they were then. */
static void copy_without(tiny_ctx *ctx, const char *from, const char *to, const char *without, const char *and_without)
{
    tiny_checkpoint_desc cd;
    tiny_checkpoint_writer_desc wd;
    tiny_checkpoint *c = NULL;
    tiny_checkpoint_writer *w = NULL;
    const tiny_checkpoint_entry *e;
    size_t i;
    memset(&cd, 0, sizeof cd);
    memset(&wd, 0, sizeof wd);
    cd.path = from;
    wd.path = to;
    if (T_OK(tiny_checkpoint_open(ctx, &cd, &c)) && T_OK(tiny_checkpoint_create(ctx, &wd, &w))) {
        for (i = 0; (e = tiny_checkpoint_at(c, i)) != NULL; i++) {
            double x = 0;
            uint64_t n = 0;
            const char *text = NULL;
            if (!strcmp(e->name, without) || !strcmp(e->name, and_without)) continue;
            if (e->kind == TINY_CHECKPOINT_F64) T_TRUE(!tiny_checkpoint_get_f64(ctx, c, e->name, &x) && !tiny_checkpoint_put_f64(ctx, w, e->name, x));
            else if (e->kind == TINY_CHECKPOINT_U64) T_TRUE(!tiny_checkpoint_get_u64(ctx, c, e->name, &n) && !tiny_checkpoint_put_u64(ctx, w, e->name, n));
            else if (e->kind == TINY_CHECKPOINT_TEXT) T_TRUE(!tiny_checkpoint_get_text(ctx, c, e->name, &text) && !tiny_checkpoint_put_text(ctx, w, e->name, text));
            else T_TRUE(!tiny_checkpoint_put_begin(ctx, w, e->name, e->dtype, e->rank, e->dim) && !tiny_checkpoint_put_values(ctx, w, e->at, e->n_bytes / 4));
        }
        T_OK(tiny_checkpoint_finish(ctx, w));
    }
    tiny_checkpoint_writer_close(ctx, w);
    tiny_checkpoint_close(ctx, c);
}
static void test_older_checkpoint(void)
{
    static const char old[] = "tests-trainer.gguf";         /* one of the files that are removed */
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_train_desc d = small_desc();
    tllm_trainer *t = NULL, *u = NULL;
    remove_files();
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        run_to(t, 2);
        T_OK(tllm_trainer_save(t, path));
        copy_without(ctx, path, old, "exact", "stress");
        T_OK(tllm_trainer_load(t, old));
        T_EQ_INT(tllm_trainer_at(t), 2);
        copy_without(ctx, path, old, "clip", "clip");
        T_STATUS(tllm_trainer_load(t, old), TINY_E_ARGUMENT, "there is no entry clip");
        copy_without(ctx, path, old, "exact", "stress");
        d.exact = 1;
        if (T_OK(tllm_trainer_open(ctx, &d, &u))) T_STATUS(tllm_trainer_load(u, old), TINY_E_ARGUMENT, "made with exact = 0, this run has 1");
        tllm_trainer_close(u);
        d.exact = 0;
        d.stress = 2;
        if (T_OK(tllm_trainer_open(ctx, &d, &u))) T_STATUS(tllm_trainer_load(u, old), TINY_E_ARGUMENT, "made with stress = 1, this run has 2");
        tllm_trainer_close(u);
    }
    tllm_trainer_close(t);
    t_close(ctx);
    remove_files();
}

static void test_other_length(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_train_desc d = small_desc(), e;
    tllm_trainer *t = NULL, *u = NULL;
    remove_files();
    e = d;
    e.steps = 24;                           /* whole rates to step 14 */
    if (T_OK(tllm_trainer_open(ctx, &d, &t)) && T_OK(tllm_trainer_open(ctx, &e, &u))) {
        const size_t n = tllm_trainer_params(t);
        float *want = t_guarded(n), *got = t_guarded(n);
        run_to(t, 14);
        T_OK(tllm_trainer_save(t, path));
        run_to(u, 24);
        weights_of(u, want);
        T_OK(tllm_trainer_load(u, path));
        T_EQ_INT(tllm_trainer_at(u), 14);
        run_to(u, 24);
        weights_of(u, got);
        T_SAME(want, got, n);
        run_to(t, 15);
        T_OK(tllm_trainer_save(t, path));
        T_STATUS(tllm_trainer_load(u, path), TINY_E_ARGUMENT, "made with steps = 40, this run has 24");
    }
    tllm_trainer_close(t);
    tllm_trainer_close(u);
    t_close(ctx);
    remove_files();
}

/* The file that it writes, read by the library's own engine: the same loss, from a forward pass that shares no line with it. */
static void check_model_file(int form)
{
    static const char *const format[2] = { "F32", "Q8_0" };
    tllm_train_desc d = form_desc(form);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int32_t *tokens;
    tllm_trainer *t = NULL;
    double bits = 0;
    int f, s, i;
    d.embedding = 64;
    d.hidden = 96;
    d.latent = form == TLLM_TRAIN_LATENT ? 32 : 0;
    d.context = 70;
    d.steps = 20;
    tokens = story_tokens(&d, 5);
    remove_files();
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        run_to(t, 20);
        T_OK(tllm_trainer_gradient(t, tokens, &bits));
    }
    for (f = 0; t && f < 2; f++) {
        tllm_gguf *g = NULL;
        tllm_model *model = NULL;
        tllm_state *state = NULL;
        tllm_about about;
        double sum = 0;
        float *logits = t_guarded((size_t)d.context * 544);
        T_OK(tllm_trainer_model(t, model_path, format[f]));
        if (T_OK(tllm_gguf_open(ctx, model_path, &g)) && T_OK(tllm_model_open(ctx, g, &model)) && T_OK(tllm_state_open(ctx, model, NULL, &state))) {
            tllm_model_about(model, &about);
            T_TRUE(about.n_vocab == 544 && about.n_layer == 2 && about.n_context == 70 && about.n_params == (double)tllm_trainer_params(t));
            for (s = 0; s < d.sequences; s++) {
                const int32_t *at = tokens + s * (d.context + 1);
                tllm_state_clear(state);
                if (!T_OK(tllm_forward(state, at, d.context, 0, d.context, logits))) break;
                for (i = 0; i < d.context; i++) {
                    double lp = 0;
                    T_OK(tllm_logprob(ctx, logits + i * 544, 544, at[i + 1], &lp));
                    sum -= lp;
                }
            }
            sum /= log(2.0) * d.sequences * d.context;
            T_CLOSE(sum, bits, f ? 0.03 : 1e-5 * bits);
        }
        tllm_state_close(ctx, state);
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, g);
    }
    tllm_trainer_close(t);
    t_close(ctx);
    remove_files();
}

static void test_model_file(void)
{
    check_model_file(TLLM_TRAIN_GROUPED);
    check_model_file(TLLM_TRAIN_LATENT);
}

static void test_held_out(void)
{
    tllm_train_desc d = small_desc();
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_trainer *t = NULL;
    double bits = 0, floor = 0, again = 0;
    tllm_train_report r;
    if (T_OK(tllm_trainer_open(ctx, &d, &t))) {
        T_OK(tllm_trainer_heldout(t, 999, 3, &bits, &floor));
        T_CLOSE(bits, log2(544.0), 2.0);     /* logits start with a deviation of about one */
        T_TRUE(floor > 0.5 && floor < 3.0);  /* a story begins with its choices */
        T_OK(tllm_trainer_heldout(t, 999, 3, &again, &floor));
        T_TRUE(again == bits);
        T_OK(tllm_trainer_step(t, &r));
        T_TRUE(r.step == 1 && r.factor == 1.0 / 5 && r.tokens == 80 && r.length > 0 && r.floor > 0.5 && fabs(r.bits - log2(544.0)) < 2);
        T_STATUS(tllm_trainer_heldout(t, 999, 0, &bits, &floor), TINY_E_ARGUMENT, "0 batches");
    }
    tllm_trainer_close(t);
    t_close(ctx);
}

static void test_memory(void)
{
    tllm_train_desc d = small_desc();
    d.layers = 1;
    d.context = 4;
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_SCALAR, 2);
        tiny_ctx *ctx = NULL;
        tllm_trainer *t = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tiny_status st = tllm_trainer_open(ctx, &d, &t);
            if (!st) st = tllm_trainer_step(t, NULL);
            if (st && st != TINY_E_MEMORY && st != TINY_E_WORKSPACE) T_TRUE(!"a failed allocation is told as one");
            tllm_trainer_close(t);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_gradient);
    T_RUN(test_gradient_exact);
    T_RUN(test_gradient_latent);
    T_RUN(test_stress_and_no_story);
    T_RUN(test_tape);
    T_RUN(test_model_file);
    T_RUN(test_overfit);
    T_RUN_TARGETS(test_same_bits);
    T_RUN(test_other_length);
    T_RUN(test_older_checkpoint);
    T_RUN(test_not_a_number);
    T_RUN(test_refused);
    T_RUN(test_held_out);
    T_RUN(test_memory);
#if T_PAGES
    T_RUN(test_full_disk);
    T_RUN(test_killed);                    
#endif
    return t_done();
}
