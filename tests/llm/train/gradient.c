/* tests/llm/train/gradient.c - the trainer's gradient against central differences of a forward pass written again in
 * double, and against the tape */
#include "t.h"
#include "llm/train/kit.h"

/* ---- the model once more: plain loops in double, from the formulas of the papers --------------------------------- */

enum {
    EMBD, NORM1, Q, K, V, O, NORM2, GATE, UP, DOWN,
    /* the latent form, from its third on */
    KV_A = K, KV_NORM, KV_B, LATENT_O, LATENT_NORM2, LATENT_UP, LATENT_DOWN
};
typedef struct twin {
    int d, layers, heads, kv, hidden, context, sequences, latent, rotary, exact;
    double *w[2 + 9 * 4];
    double *room;
} twin;

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
/* A layer of the latent form, on all tokens of a sequence: the keys of a head are computed from c, then comes the
 * rotated key of all heads. */
static void twin_latent(const twin *m, double *const *w, double *x)
{
    enum { MOST = 128 };
    static double h[MOST], q[MOST][MOST], c[MOST], a[MOST], made[MOST][MOST], shared[MOST][MOST], o[MOST], y[MOST],
        wide[MOST], p[MOST];
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
/* -ln p of the actual token; in exact training the mean over all possible tokens, with rare ones weighted three
 * times */
static double twin_target(const twin *m, tllm_story *story, int32_t next, const double *p, double log_z)
{
    tllm_story_items items;
    double mean = 0;
    int i, tag;
    tllm_story_next(story, &items);
    T_TRUE(tllm_story_take(story, next, NULL, &tag));
    if (!m->exact) return log_z - p[next];
    for (i = 0; i < items.n; i++) mean += (double)items.weight[i] / (double)items.total * (log_z - p[items.token[i]]);
    return mean *
           (tag == TLLM_STORY_PLACE || tag == TLLM_STORY_YES || tag == TLLM_STORY_COMPARE || tag == TLLM_STORY_COLOUR
                ? 3
                : 1);
}

/* its mean over the tokens of all sequences */
static double twin_loss(const twin *m, const int32_t *tokens)
{
    const int d = m->d, dh = d / m->heads, kvd = m->kv * dh, n = m->context;
    double *x = m->room, *h = x + n * d, *q = h + d, *k = q + d, *v = k + n * kvd, *o = v + n * kvd, *a = o + d,
           *b = a + m->hidden, *y = b + m->hidden, *p = y + d;
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

/* Every tensor, along a random direction (which uses all of its numbers) and in single numbers. The context is longer
 * than a block of queries; one token is frequent, most never occur. */
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
    m.exact = 0;                            /* the reported loss is of the actual tokens */
    loss = twin_loss(&m, tokens) / log(2.0);
    for (target = TINY_TARGET_REFERENCE; target < TINY_TARGET_COUNT; target++) {
        tiny_ctx *ctx;
        tllm_trainer *other;
        if (!tiny_target_runs_here((tiny_target)target)) continue;
        ctx = t_ctx((tiny_target)target, 2);
        other = trainer_like(ctx, &d, t);
        if (!other) { t_close(ctx); break; }
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
                if (!T_CLOSE(x[i ? k * 7919 % n : (size_t)tokens[3 * k + 1] * 16 + k], point_want[i * POINTS + k],
                             1e-5 * largest))
                    printf("    in %s\n", name);
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

/* Stress without exact targets: the gradient is linear in it, so those of 2, 3 and 4 are on a line, at distinct places.
 * Where a text is no story, exact targets are the actual tokens, and nothing is stressed. */
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

/* ---- and once more, of the rows of the table: the gradient that the tape finds ----------------------------------- */

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
    const tiny_attention_params causal = { 0, 0, 1, 0, 0 };
    const tiny_rope_params turn = { 10000.0f, 0, 0, 1, 0 };
    const tiny_idx dh = d->embedding / d->heads, dim[2] = { d->context, d->embedding };
    tiny_tensor q = tiny_tape_linear(t, h, &w[Q].value, NULL, TINY_ACT_NONE), k, v, part[2], o;
    q = heads_of(t, &q, d->heads);
    if (d->form == TLLM_TRAIN_LATENT) {
        tiny_tensor a = tiny_tape_linear(t, h, &w[KV_A].value, NULL, TINY_ACT_NONE), c = columns(&a, 1, 0, d->latent),
                    shared = columns(&a, 1, d->latent, d->rotary), made;
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
static tiny_tensor decoder_of(tiny_tape *t, const tllm_train_desc *d, const tiny_param *p, const tiny_tensor *tokens,
                              const tiny_tensor *next)
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
    tiny_param p[21];                       /* one more: a request for a missing tensor */
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
        tiny_tensor from = tiny_tensor_1d((void *)(uintptr_t)tokens, TINY_I32, d.context),
                    next = tiny_tensor_1d((void *)(uintptr_t)(tokens + 1), TINY_I32, d.context);
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
int main(void)
{
    T_RUN(test_gradient);
    T_RUN(test_gradient_exact);
    T_RUN(test_gradient_latent);
    T_RUN(test_stress_and_no_story);
    T_RUN(test_tape);
    return t_done();
}
