/* tests/math/elem.c - elementary functions against the C library's in double, known digits, and their own symmetries
 *
 * The sweep takes every 1021st bit pattern of a float and all near a power of two; with T_EXHAUSTIVE=1 in the
 * environment it takes all 2^32, with T_EXHAUSTIVE=I/N the I-th (from 1) of N equal parts of them, and T_SWEEP=exp that
 * function alone (make sweep runs them so). It prints the worst error of the reference and of each target. */
#define T_INTERNALS
#include "t.h"

static float from_bits(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static uint32_t bits_of(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }

/* ---- the functions, an oracle for each, and the bounds of math/elem.h */

static double want_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double want_rsqrt(double x) { return 1.0 / sqrt(x); }
static double want_silu(double x) { return x < -700.0 ? -0.0 : x / (1.0 + exp(-x)); }
static double want_gelu(double x)
{
    return x < -40.0 ? -0.0 : x > 40.0 ? x : 0.5 * x * erfc(-x * 0.70710678118654752440);
}
static double want_gelu_tanh(double x)
{
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    /* x/2 (1 + tanh u) without its cancellation */
    return x < -30.0 ? -0.0 : x > 30.0 ? x : x / (1.0 + exp(-2.0 * u));
}

typedef struct subject {
    const char *name;
    int kind;
    float (*ref)(float);
    double (*want)(double);
    double fast_ulp;                        /* 0: fast_of_size instead, in 2^-24 of the value at |x| */
    double fast_of_size;
} subject;

static const subject subjects[] = {
    { "exp", TINY_OP_EXP, tinyi_exp_ref, exp, 2.0, 0 },
    { "log", TINY_OP_LOG, tinyi_log_ref, log, 2.0, 0 },
    { "tanh", TINY_OP_TANH, tinyi_tanh_ref, tanh, 2.0, 0 },
    { "erf", TINY_OP_ERF, tinyi_erf_ref, erf, 2.0, 0 },
    { "sigmoid", TINY_OP_SIGMOID, tinyi_sigmoid_ref, want_sigmoid, 2.0, 0 },
    { "sin", TINY_OP_SIN, tinyi_sin_ref, sin, 2.0, 0 },
    { "cos", TINY_OP_COS, tinyi_cos_ref, cos, 2.0, 0 },
    { "rsqrt", TINY_OP_RSQRT, tinyi_rsqrt_ref, want_rsqrt, 2.0, 0 },
    { "sqrt", TINY_OP_SQRT, tinyi_sqrtf, sqrt, 0.5, 0 },
    { "silu", TINY_OP_SILU, tinyi_silu_ref, want_silu, 3.0, 0 },
    { "gelu", TINY_OP_GELU, tinyi_gelu_ref, want_gelu, 6.0, 0 },
    { "gelu_tanh", TINY_OP_GELU_TANH, tinyi_gelu_tanh_ref, want_gelu_tanh, 0, 3.0 },
};

static void run_kind(tiny_ctx *ctx, int kind, const float *x, float *y, size_t n)
{
    tiny_tensor tx = tiny_tensor_1d((void *)(uintptr_t)x, TINY_F32, (tiny_idx)n),
                ty = tiny_tensor_1d(y, TINY_F32, (tiny_idx)n);
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = &tx;
    op.out[0] = &ty;
    T_OK(tiny_run(ctx, &op));
}

/* the distance of two floats at the size of x */
static double ulp_at(double x)
{
    int e;
    (void)frexp(x, &e);
    return ldexp(1.0, e - 24 < -149 ? -149 : e - 24);
}

/* ---- the sweep */

#define CHUNK 8192

typedef struct worst { double error; float at; } worst;

/* got against the double want; if one of them is no finite float they must be the same */
static void measure(worst *w, const subject *s, const char *who, float x, float got, double want, int of_size)
{
    const float rounded = (float)want;
    double error;
    if (rounded != rounded || got != got || rounded - rounded != 0.0f || got - got != 0.0f) {
        const double finite = rounded - rounded == 0.0f ? want : (double)got;
        if ((rounded != rounded && got != got) || rounded == got) return;
        /* the last floats before infinity: an error of 2 ulp may lead over the edge */
        if (rounded == rounded && got == got && fabs(finite) > 3.4028232e38 && !isnan(finite)) return;
        t_fail(__FILE__, __LINE__, "%s (%s) of %a is %a, not %a", s->name, who, (double)x, (double)got,
               (double)rounded);
        return;
    }
    if (of_size) error = fabs((double)got - want) / (fabs(s->want(fabs((double)x))) * 0x1p-24 + 0x1p-149);
    else error = fabs((double)got - want) / ulp_at((double)rounded);
    if (error > w->error) { w->error = error; w->at = x; }
}

static uint64_t next_pattern(uint64_t u, uint64_t stride)
{
    const uint64_t near_edge = u & 0x7fffffu;   /* all within 4 of a power of two, zero, infinity */
    if (stride == 1 || near_edge < 4 || near_edge >= 0x7ffffcu) return u + 1;
    if (near_edge + stride >= 0x7ffffcu) return (u & ~(uint64_t)0x7fffffu) | 0x7ffffcu;
    return u + stride;
}

static void test_sweep(void)
{
    static float x[CHUNK], y[CHUNK];
    static double want[CHUNK];
    const char *all = getenv("T_EXHAUSTIVE"), *one = getenv("T_SWEEP");
    const uint64_t stride = all && strcmp(all, "0") ? 1 : 1021;
    const uint64_t parts = all && strchr(all, '/') ? strtoull(strchr(all, '/') + 1, NULL, 10) : 1,
                   part = parts > 1 ? strtoull(all, NULL, 10) : 1;
    const uint64_t first = ((uint64_t)(part - 1) << 32) / (parts ? parts : 1),
                   end = ((uint64_t)part << 32) / (parts ? parts : 1);
    tiny_ctx *ctx[TINY_TARGET_COUNT];
    size_t i;
    int t;
    if (!T_TRUE(parts > 0 && part >= 1 && part <= parts)) return;
    for (t = 0; t < TINY_TARGET_COUNT; t++)
        ctx[t] = t > TINY_TARGET_REFERENCE && tiny_target_runs_here((tiny_target)t) ? t_ctx((tiny_target)t, 1) : NULL;
    for (i = 0; i < T_COUNT(subjects); i++) {
        const subject *s = &subjects[i];
        const int of_size = s->fast_ulp == 0.0;
        worst ref = { 0, 0 }, fast[TINY_TARGET_COUNT];
        uint64_t u = first;
        if (one && strcmp(one, s->name) != 0) continue;
        memset(fast, 0, sizeof fast);
        while (u < end) {
            size_t n = 0, j;
            for (; n < CHUNK && u < end; n++, u = next_pattern(u, stride)) x[n] = from_bits((uint32_t)u);
            for (j = 0; j < n; j++) {
                const float r = s->ref(x[j]);
                want[j] = s->want((double)x[j]);
                measure(&ref, s, "reference", x[j], r, want[j], 0);
                if (r != r && bits_of(r) != 0x7fc00000u)
                    t_fail(__FILE__, __LINE__, "%s of %a: a NaN of other bits", s->name, (double)x[j]);
            }
            for (t = 0; t < TINY_TARGET_COUNT; t++) {
                if (!ctx[t]) continue;
                run_kind(ctx[t], s->kind, x, y, n);
                for (j = 0; j < n; j++)
                    measure(&fast[t], s, tiny_target_name((tiny_target)t), x[j], y[j], want[j], of_size);
            }
        }
        printf("%-9s reference %.4f ulp at %.9g;", s->name, ref.error, (double)ref.at);
        T_TRUE(ref.error <= 0.5001);
        for (t = 0; t < TINY_TARGET_COUNT; t++) {
            if (!ctx[t]) continue;
            printf(" %s %.3f at %.9g", tiny_target_name((tiny_target)t), fast[t].error, (double)fast[t].at);
            T_RAN_ON(ctx[t], t_vectors((tiny_target)t));
            if (!T_TRUE(fast[t].error <= (of_size ? s->fast_of_size : s->fast_ulp)))
                printf("\n%s on %s is off by %.4f at %a\n", s->name, tiny_target_name((tiny_target)t), fast[t].error,
                       (double)fast[t].at);
        }
        puts(of_size ? " (of |x| u)" : "");
        fflush(stdout);
    }
    for (t = 0; t < TINY_TARGET_COUNT; t++)
        if (ctx[t]) t_close(ctx[t]);
}

/* ---- values worked by hand or known to many digits */

static void test_by_hand(void)
{
    double c, s;
    T_CLOSE(tinyi_exp_ref(1.0f), 2.7182818284590452, 0x1p-23);
    T_CLOSE(tinyi_exp_ref(-103.0f), 1.8517772686046e-45, 0x1p-149);
    T_EQ_INT(bits_of(tinyi_exp_ref(88.72283f)), 0x7f7fff84);    /* the largest argument: 3.4027983e38 */
    T_TRUE(tinyi_exp_ref(88.7228394f) > FLT_MAX);
    T_CLOSE(tinyi_log_ref(2.0f), 0.69314718055994531, 0x1p-25);
    T_CLOSE(tinyi_log_ref(from_bits(1)), -149 * 0.69314718055994531, 0x1p-18);
    T_CLOSE(tinyi_tanh_ref(0.5f), 0.46211715726000976, 0x1p-26);
    T_CLOSE(tinyi_erf_ref(1.0f), 0.84270079294971487, 0x1p-25);
    T_CLOSE(tinyi_sigmoid_ref(1.0f), 0.73105857863000488, 0x1p-25);
    T_CLOSE(tinyi_silu_ref(-1.0f), -0.26894142136999512, 0x1p-26);
    T_CLOSE(tinyi_gelu_ref(1.0f), 0.84134474606854293, 0x1p-25);        /* Phi(1) */
    /* 10 Phi(-10), tables of the normal distribution */
    T_CLOSE(tinyi_gelu_ref(-10.0f) * 1e22, -0.76198530241605261, 1e-7);
    T_CLOSE(tinyi_gelu_tanh_ref(1.0f), 0.84119199060827676, 0x1p-25);
    T_CLOSE(tinyi_rsqrt_ref(0.25f), 2.0, 0);
    /* 10^22 is a double and a hard case of argument reduction; its sine and cosine are in many test suites */
    T_CLOSE(tinyi_sin64(1e22), -0.85220084976718880, 1e-15);
    T_CLOSE(tinyi_cos64(1e22), 0.52321478539513895, 1e-15);
    T_CLOSE(tinyi_sin64(3.14159265358979311600), 1.2246467991473532e-16, 1e-31);    /* pi minus its double */
    tinyi_cis64(1, 12, &c, &s);             /* 30 degrees */
    T_CLOSE(c, 0.86602540378443865, 2e-16);
    T_CLOSE(s, 0.5, 2e-16);
    for (int k = 0; k < 8; k++) {
        static const double of[3] = { 0.0, 0.70710678118654752, 1.0 };
        const int kc = k <= 4 ? 2 - k : k - 6, ks = k <= 2 ? k : k <= 6 ? 4 - k : k - 8;
        tinyi_cis64((uint64_t)k + 80, 8, &c, &s);
        T_CLOSE(c, (kc < 0 ? -1 : 1) * of[kc < 0 ? -kc : kc], kc & 1 ? 1.2e-16 : 0.0);
        T_CLOSE(s, (ks < 0 ? -1 : 1) * of[ks < 0 ? -ks : ks], ks & 1 ? 1.2e-16 : 0.0);
    }
}

/* ---- the doubles, against the C library, whose own error is below one ulp */

static double rand_double(double lo, double hi) { return lo + (hi - lo) * ((double)(t_rand_u64() >> 11) * 0x1p-53); }

static void check64(const char *name, double (*f)(double), double (*want)(double), double lo, double hi, int binades)
{
    double worst_error = 0;
    int i;
    for (i = 0; i < 20000; i++) {
        const double v = rand_double(lo, hi),
                     x = binades ? ldexp(v < 0 ? v - 1.0 : v + 1.0, (int)t_rand_below(2 * (uint32_t)binades) - binades)
                                 : v;
        const double w = want(x), error = fabs(f(x) - w) / fabs(w);
        if (error > worst_error) worst_error = error;
    }
    if (!T_TRUE(worst_error < 1e-15)) printf("%s on %g .. %g: %g\n", name, lo, hi, worst_error);
}

static void test_doubles(void)
{
    int i;
    check64("exp64", tinyi_exp64, exp, -700, 700, 0);
    check64("exp64", tinyi_exp64, exp, -1, 1, 0);
    check64("log64", tinyi_log64, log, 0.0, 1.0, 1000);
    check64("log64", tinyi_log64, log, 0.7, 0.99, 0);
    check64("tanh64", tinyi_tanh64, tanh, -3, 3, 0);
    check64("tanh64", tinyi_tanh64, tanh, -1, 1, 40);
    check64("erf64", tinyi_erf64, erf, -4, 4, 0);
    check64("erf64", tinyi_erf64, erf, -1, 1, 40);
    check64("sin64", tinyi_sin64, sin, -1, 1, 1000);
    check64("cos64", tinyi_cos64, cos, -1, 1, 1000);
    check64("sin64", tinyi_sin64, sin, -10, 10, 0);
    check64("cos64", tinyi_cos64, cos, -10, 10, 0);
    for (i = 0; i < 50000; i++) {           /* correctly rounded, in either form */
        const uint64_t u = t_rand_u64() >> 1 & (i % 3 ? ~(uint64_t)0 : ((uint64_t)1 << 52) - 1);
        const double x = tinyi_bits_f64(u), r = sqrt(x);
        if (x != x) continue;
        if (!T_TRUE(tinyi_sqrt(x) == r && tinyi_elem_sqrt_integer(x) == r)) printf("sqrt of %a\n", x);
    }
    for (i = 0; i < 20000; i++) {
        const uint64_t n = 1 + t_rand_below(100000), k = t_rand_below((uint32_t)n);
        double c, s, c2, s2;
        tinyi_cis64(k, n, &c, &s);
        tinyi_cis64(n - k, n, &c2, &s2);    /* the conjugate, bit for bit */
        T_TRUE(c == c2 && (s == -s2 || k == 0));
        T_CLOSE(c * c + s * s, 1.0, 5e-16);
    }
    T_CLOSE(tinyi_exp64(710.0), INFINITY, 0);
    T_CLOSE(tinyi_exp64(-746.0), 0.0, 0);
    T_CLOSE(tinyi_exp64(-745.0), 0x1p-1074, 0);
    T_CLOSE(tinyi_log64(0x1p-1074), -1074 * 0.69314718055994531, 2e-13);
    T_CLOSE(tinyi_log64(-1.0), NAN, 0);
    T_CLOSE(tinyi_sin64(INFINITY), NAN, 0);
    /* the double nearest to a multiple of pi/2, by J.-M. Muller, "Elementary Functions" */
    T_CLOSE(tinyi_cos64(6381956970095103.0 * 0x1p797), -4.68716592425462761112e-19, 1e-33);
    T_CLOSE(tinyi_sin64(6381956970095103.0 * 0x1p797), 1.0, 0);
    for (i = 0; i < 2000; i++) {        /* both at once: the same bits, signs of zero too */
        static const double rare[] = {
            0.0,  -0.0,      0.7853981633974483,           0.7853981633974484, -1.5707963267948966,
            1e22, 0x1p-1074, 6381956970095103.0 * 0x1p797, INFINITY,           NAN
        };
        const double x = i < 10 ? rare[i] : (i - 1000) * 0.37 * (i % 7 ? 1.0 : 1e6), one_s = tinyi_sin64(x),
                     one_c = tinyi_cos64(x);
        double both_s, both_c;
        tinyi_sincos64(x, &both_s, &both_c);
        if (!T_SAME(&both_s, &one_s, 1) || !T_SAME(&both_c, &one_c, 1)) break;
    }
}

/* a row below its top at every length around whole blocks: the bits of one after the other, near and far below, and
 * nothing outside */
static void test_below(void)
{
    static const size_t length[] = { 0, 1, 15, 16, 17, 31, 32, 33, 48, 100 };
    size_t c, i;
    int far;
    for (far = 0; far < 2; far++)
        for (c = 0; c < T_COUNT(length); c++) {
            const size_t n = length[c];
            float *x = t_guarded(n);
            double *y = (double *)(void *)t_guarded_bytes(n * sizeof *y),
                   *want = (double *)t_keep(n * sizeof *want + 1);
            for (i = 0; i < n; i++) x[i] = 3.0f - (float)i * 0.37f - (far && i % 5 == 3 ? 720.0f : 0.0f);
            for (i = 0; i < n; i++) want[i] = tinyi_exp64((double)x[i] - 3.0);
            tinyi_exp64_below(y, x, 3.0, n);
            T_SAME(y, want, n);
            for (i = 0; i < n; i++) T_CLOSE(y[i], exp((double)x[i] - 3.0), 1e-15 * exp((double)x[i] - 3.0) + 0x1p-1073);
            T_WALLS(y, n);
        }
}

/* ---- special values */

static void test_special(tiny_target target)
{
    static const struct { int kind; float x, y;
    } value[] = {
        { TINY_OP_EXP, 0, 1 },
        { TINY_OP_EXP, -0.0f, 1 },
        { TINY_OP_EXP, 89, INFINITY },
        { TINY_OP_EXP, -104, 0 },
        { TINY_OP_EXP, 0x1p-149f, 1 },
        { TINY_OP_EXP, INFINITY, INFINITY },
        { TINY_OP_EXP, -INFINITY, 0 },
        { TINY_OP_LOG, 0, -INFINITY },
        { TINY_OP_LOG, -0.0f, -INFINITY },
        { TINY_OP_LOG, 1, 0 },
        { TINY_OP_LOG, -1, NAN },
        { TINY_OP_LOG, -INFINITY, NAN },
        { TINY_OP_LOG, INFINITY, INFINITY },
        { TINY_OP_TANH, 0, 0 },
        { TINY_OP_TANH, -0.0f, -0.0f },
        { TINY_OP_TANH, INFINITY, 1 },
        { TINY_OP_TANH, -INFINITY, -1 },
        { TINY_OP_TANH, 20, 1 },
        { TINY_OP_TANH, 0x1p-149f, 0x1p-149f },
        { TINY_OP_TANH, -1e-30f, -1e-30f },
        { TINY_OP_ERF, 0, 0 },
        { TINY_OP_ERF, -0.0f, -0.0f },
        { TINY_OP_ERF, INFINITY, 1 },
        { TINY_OP_ERF, -INFINITY, -1 },
        { TINY_OP_ERF, -4, -1 },
        { TINY_OP_SIGMOID, 0, 0.5f },
        { TINY_OP_SIGMOID, INFINITY, 1 },
        { TINY_OP_SIGMOID, -INFINITY, 0 },
        { TINY_OP_SIGMOID, -0.0f, 0.5f },
        { TINY_OP_SIN, 0, 0 },
        { TINY_OP_SIN, -0.0f, -0.0f },
        { TINY_OP_SIN, INFINITY, NAN },
        { TINY_OP_SIN, -INFINITY, NAN },
        { TINY_OP_SIN, 0x1p-149f, 0x1p-149f },
        { TINY_OP_COS, 0, 1 },
        { TINY_OP_COS, -0.0f, 1 },
        { TINY_OP_COS, INFINITY, NAN },
        { TINY_OP_COS, 1e-20f, 1 },
        { TINY_OP_RSQRT, 0, INFINITY },
        { TINY_OP_RSQRT, -0.0f, -INFINITY },
        { TINY_OP_RSQRT, INFINITY, 0 },
        { TINY_OP_RSQRT, -1, NAN },
        { TINY_OP_RSQRT, 4, 0.5f },
        { TINY_OP_SQRT, 0, 0 },
        { TINY_OP_SQRT, -0.0f, -0.0f },
        { TINY_OP_SQRT, -1, NAN },
        { TINY_OP_SQRT, INFINITY, INFINITY },
        { TINY_OP_SQRT, 2.25f, 1.5f },
        { TINY_OP_ABS, -0.0f, 0 },
        { TINY_OP_ABS, -INFINITY, INFINITY },
        { TINY_OP_ABS, -3, 3 },
        { TINY_OP_NEG, 0, -0.0f },
        { TINY_OP_NEG, -INFINITY, INFINITY },
        { TINY_OP_RELU, -2, 0 },
        { TINY_OP_RELU, 2, 2 },
        { TINY_OP_RELU, -INFINITY, 0 },
        { TINY_OP_RELU, INFINITY, INFINITY },
        { TINY_OP_RELU2, -2, 0 },
        { TINY_OP_RELU2, 3, 9 },
        { TINY_OP_RELU2, 1e30f, INFINITY },
        { TINY_OP_RELU2, -INFINITY, 0 },
        { TINY_OP_SILU, 0, 0 },
        { TINY_OP_SILU, INFINITY, INFINITY },
        { TINY_OP_SILU, -INFINITY, -0.0f },
        { TINY_OP_SILU, -0.0f, -0.0f },
        { TINY_OP_SILU, 1e30f, 1e30f },
        { TINY_OP_GELU, 0, 0 },
        { TINY_OP_GELU, INFINITY, INFINITY },
        { TINY_OP_GELU, -INFINITY, -0.0f },
        { TINY_OP_GELU, -0.0f, -0.0f },
        { TINY_OP_GELU, -1e30f, -0.0f },
        { TINY_OP_GELU_TANH, 0, 0 },
        { TINY_OP_GELU_TANH, INFINITY, INFINITY },
        { TINY_OP_GELU_TANH, -INFINITY, -0.0f },
        { TINY_OP_GELU_TANH, -1e30f, -0.0f },
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t i, j;
    for (i = 0; i < T_COUNT(value); i++) {
        float x[19], y[19];
        for (j = 0; j < 19; j++) x[j] = value[i].x;
        run_kind(ctx, value[i].kind, x, y, 19);     /* whole vectors and a rest */
        for (j = 0; j < 19; j++) {
            const int same = value[i].y != value[i].y ? y[j] != y[j] : bits_of(y[j]) == bits_of(value[i].y);
            if (!same) {
                t_fail(__FILE__, __LINE__, "%s of %g is %g, not %g", tiny_op_row_of(value[i].kind)->name,
                       (double)value[i].x, (double)y[j], (double)value[i].y);
                break;
            }
        }
    }
    for (i = TINY_OP_EXP; i <= TINY_OP_GELU_TANH; i++) {    /* one NaN in the middle stays one NaN */
        float x[19], y[19];
        for (j = 0; j < 19; j++) x[j] = j == 9 ? NAN : 1.0f;
        run_kind(ctx, (int)i, x, y, 19);
        for (j = 0; j < 19; j++) T_TRUE((y[j] != y[j]) == (j == 9));
    }
    t_close(ctx);
}

static void test_special_reference(void) { test_special(TINY_TARGET_REFERENCE); }

/* ---- symmetries: odd and even functions bit for bit, the reference in order, exp a homomorphism */

static void test_symmetry(tiny_target target)
{
    enum { N = 40099 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(N), *minus = t_guarded(N), *a = t_guarded(N), *b = t_guarded(N);
    static const int odd[] = { TINY_OP_TANH, TINY_OP_ERF, TINY_OP_SIN, TINY_OP_NEG },
                     even[] = { TINY_OP_COS, TINY_OP_ABS };
    size_t k, i;
    for (i = 0; i < N; i++) {
        const float m = t_rand_float(1.0f, 2.0f);
        x[i] = ldexpf(m, (int)t_rand_below(60) - 30);
        minus[i] = -x[i];
    }
    for (k = 0; k < T_COUNT(odd) + T_COUNT(even); k++) {
        const int is_odd = k < T_COUNT(odd), kind = is_odd ? odd[k] : even[k - T_COUNT(odd)];
        run_kind(ctx, kind, x, a, N);
        run_kind(ctx, kind, minus, b, N);
        for (i = 0; i < N && is_odd; i++) b[i] = -b[i];
        T_SAME(a, b, N);
    }
    for (i = 0; i < N; i++) x[i] = t_rand_float(-80.0f, 80.0f), minus[i] = -x[i];
    run_kind(ctx, TINY_OP_EXP, x, a, N);
    run_kind(ctx, TINY_OP_EXP, minus, b, N);
    for (i = 0; i < N; i++) T_CLOSE((double)a[i] * (double)b[i], 1.0, 4 * 0x1p-23);
    run_kind(ctx, TINY_OP_SIN, x, a, N);
    run_kind(ctx, TINY_OP_COS, x, b, N);
    for (i = 0; i < N; i++) T_CLOSE((double)a[i] * (double)a[i] + (double)b[i] * (double)b[i], 1.0, 4 * 0x1p-23);
    t_close(ctx);
}

static void test_in_order(void)
{
    static const int rising[] = { 0, 1, 2, 3, 4 };      /* exp, log, tanh, erf, sigmoid */
    size_t k;
    for (k = 0; k < T_COUNT(rising); k++) {
        const subject *s = &subjects[rising[k]];
        uint32_t u;
        for (u = 0; u < 0x7f800000u; u += 65003) {      /* a float and the next, on both sides of zero */
            if (!T_TRUE(!(s->ref(from_bits(u)) > s->ref(from_bits(u + 1)))))
                printf("%s near %a\n", s->name, (double)from_bits(u));
            if (rising[k] != 1)
                T_TRUE(!(s->ref(from_bits(u | 0x80000000u)) < s->ref(from_bits((u + 1) | 0x80000000u))));
        }
    }
}

/* ---- the operations: lengths, in place, strides, gates, threads */

static void test_lengths(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t n, i;
    int kind;
    for (kind = TINY_OP_EXP; kind <= TINY_OP_GELU_TANH; kind++) {
        for (n = 0; n < 70; n++) {
            float *x = t_rand(n, 0.1f, 3.0f), *y = t_guarded(n), one[1];
            run_kind(ctx, kind, x, y, n);
            T_WALLS(y, n);
            for (i = 0; i < n; i++) {       /* its place in the array makes no difference */
                run_kind(ctx, kind, x + i, one, 1);
                if (!T_TRUE(bits_of(one[0]) == bits_of(y[i])))
                    printf("%s, %d of %d\n", tiny_op_row_of(kind)->name, (int)i, (int)n);
            }
            run_kind(ctx, kind, x, x, n);   /* in place */
            T_SAME(x, y, n);
        }
        T_RAN_ON(ctx, t_vectors(target));
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_strides(tiny_target target)
{
    enum { R = 37, C = 53 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(R * C * 3, -4.0f, 4.0f), *g = t_rand(R * C * 3, -4.0f, 4.0f), *y = t_guarded(R * C),
          *z = t_guarded(R * C);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, R, C), tg = tx, ty = tiny_tensor_2d(y, TINY_F32, R, C),
                tz = tiny_tensor_2d(z, TINY_F32, C, R);
    int i, j;
    tx.stride[0] = 3 * C;
    tx.stride[1] = 3;
    tx.data = x + 1;
    tz = tiny_tensor_swap(tz, 0, 1);        /* z is transposed */
    T_OK(tiny_tanh(ctx, &tx, &tz));
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) T_CLOSE(z[j * R + i], tinyi_tanh_ref(x[3 * (i * C + j) + 1]), 2.5 * 0x1p-24);
    T_WALLS(z, R * C);
    tg.data = g + 3 * (R * C - 1);          /* backwards */
    tg.stride[0] = -3 * C;
    tg.stride[1] = -3;
    T_OK(tiny_swiglu(ctx, &tx, &tg, &ty));
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) {
            const float a = x[3 * (i * C + j) + 1], b = g[3 * (R * C - 1 - (i * C + j))];
            T_CLOSE(y[i * C + j], tinyi_silu_ref(a) * b, 6 * 0x1p-24 * fabs(want_silu(fabs((double)a)) * (double)b));
        }
    T_WALLS(y, R * C);
    tg.stride[0] = tg.stride[1] = 0;        /* one value for all */
    tg.data = g;
    T_OK(tiny_reglu(ctx, &tx, &tg, &ty));
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) {
            const float a = x[3 * (i * C + j) + 1];
            T_TRUE(y[i * C + j] == (a > 0 ? a : 0.0f) * g[0]);
        }
    t_close(ctx);
}

static void test_gates(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float *a = t_rand(1000, -6.0f, 6.0f), *b = t_rand(1000, -2.0f, 2.0f), *y = t_guarded(1000), *f = t_guarded(1000);
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, 1000), tb = tiny_tensor_1d(b, TINY_F32, 1000),
                ty = tiny_tensor_1d(y, TINY_F32, 1000), tf = tiny_tensor_1d(f, TINY_F32, 1000);
    tiny_status (*const gated[])(tiny_ctx *, const tiny_tensor *, const tiny_tensor *,
                                 const tiny_tensor *) = { tiny_swiglu, tiny_geglu, tiny_geglu_tanh, tiny_reglu };
    tiny_status (*const plain[])(tiny_ctx *, const tiny_tensor *, const tiny_tensor *) = { tiny_silu, tiny_gelu,
                                                                                           tiny_gelu_tanh, tiny_relu };
    int k, i;
    for (k = 0; k < 4; k++) {               /* f(a) b is f, then times b */
        T_OK(gated[k](ctx, &ta, &tb, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        T_OK(plain[k](ctx, &ta, &tf));
        for (i = 0; i < 1000; i++) f[i] *= b[i];
        T_SAME(y, f, 1000);
    }
    T_OK(tiny_swiglu(ctx, &ta, &tb, &ty));
    T_OK(tiny_swiglu(ctx, &ta, &tb, &tb));  /* over the second input */
    T_SAME(y, b, 1000);
    T_OK(tiny_swiglu(ctx, &ta, &ty, &ta));
    t_close(ctx);
}

static void test_threads(tiny_target target)
{
    const size_t n = 300007;
    tiny_ctx *one = t_ctx(target, 1), *two = t_ctx(target, 2);
    float *x = t_rand(n, -10.0f, 10.0f), *y = t_guarded(n), *z = t_guarded(n);
    run_kind(one, TINY_OP_ERF, x, y, n);
    run_kind(two, TINY_OP_ERF, x, z, n);
    T_SAME(y, z, n);
    T_WALLS(z, n);
    t_close(two);
    t_close(one);
}

/* pieces so long that they are stored past the caches, from any alignment, are the same numbers */
static void test_long(tiny_target target)
{
    const size_t n = TINYI_ELEM_LONG + 5003;
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(n, -5.0f, 5.0f), *v = t_rand(n, -2.0f, 2.0f), *want = t_guarded(n);
    size_t shift, i;
    for (shift = 0; shift < 20; shift += shift < 4 ? 1 : 5) {
        float *y = t_guarded(n + shift);    /* the end is fixed, so that the start moves */
        for (i = 0; i < n; i += 1000) ctx->k->tanh_f32(want + i, x + i, n - i < 1000 ? n - i : 1000);
        ctx->k->tanh_f32(y, x, n);
        T_SAME(y, want, n);
        for (i = n; i < n + shift; i++) T_TRUE(bits_of(y[i]) == 0x77777777u);
        ctx->k->tanh_f32(y, x, TINYI_ELEM_LONG);
        T_SAME(y, want, n);
        for (i = 0; i < n; i += 1000) ctx->k->swiglu_f32(want + i, x + i, v + i, n - i < 1000 ? n - i : 1000);
        ctx->k->swiglu_f32(y + shift, x, v, n);
        T_SAME(y + shift, want, n);
        T_WALLS(y, n + shift);
    }
    for (i = 0; i < n; i += 1000) ctx->k->tanh_f32(want + i, x + i, n - i < 1000 ? n - i : 1000);
    ctx->k->tanh_f32(x, x, n);              /* in place */
    T_SAME(x, want, n);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[12] = { 0 }, y[12];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 3, 4), b = tiny_tensor_2d(x, TINY_F32, 4, 3),
                c = tiny_tensor_2d(y, TINY_F32, 3, 4);
    tiny_tensor half = tiny_tensor_2d(x, TINY_F16, 3, 4), empty = tiny_tensor_2d(NULL, TINY_F32, 0, 4),
                shifted = tiny_tensor_1d(x + 1, TINY_F32, 4), d = tiny_tensor_1d(x, TINY_F32, 4);
    T_OK(tiny_exp(ctx, &empty, &empty));
    T_STATUS(tiny_exp(ctx, &half, &c), TINY_E_DTYPE, "exp: x must be f32 or f64, not f16");
    T_STATUS(tiny_exp(ctx, &a, &b), TINY_E_SHAPE, "3x4");
    T_STATUS(tiny_exp(ctx, NULL, &c), TINY_E_ARGUMENT, "missing");
    T_STATUS(tiny_exp(ctx, &a, NULL), TINY_E_ARGUMENT, "missing");
    T_STATUS(tiny_exp(ctx, &d, &shifted), TINY_E_ALIAS, "overlaps");
    T_STATUS(tiny_swiglu(ctx, &a, &b, &c), TINY_E_SHAPE, "same shape");
    T_STATUS(tiny_swiglu(ctx, &a, &half, &c), TINY_E_DTYPE, "f16");
    T_EQ_INT(tiny_exp(NULL, &a, &c), TINY_E_ARGUMENT);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_doubles);
    T_RUN(test_below);
    T_RUN(test_in_order);
    T_RUN(test_refused);
    T_RUN(test_special_reference);
    T_RUN(test_sweep);
    T_RUN_TARGETS(test_special);
    T_RUN_TARGETS(test_symmetry);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_gates);
    T_RUN_TARGETS(test_threads);
    T_RUN_TARGETS(test_long);
    return t_done();
}
