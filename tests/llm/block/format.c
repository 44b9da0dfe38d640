/* tests/llm/block/format.c - every block format against recorded bytes of another implementation, blocks worked by
 * hand, the bounds of the formulas, unusual numbers, invalid sizes */
#include "t.h"

enum { ROWS = 12, COLS = 256, ALL = ROWS * COLS };

/* A file of the oracle: the large one, or the copy in tests/golden. The caller frees it. */
static unsigned char *oracle(const char *name, size_t *n)
{
    char path[2][200];
    size_t i;
    (void)snprintf(path[0], sizeof path[0], "oracle/quant/%s", name);
    (void)snprintf(path[1], sizeof path[1], "tests/golden/quant/%s", name);
    for (i = 0; i < 2; i++) {
        const char *full = i ? path[1] : t_find(path[0]);
        FILE *f = full ? fopen(full, "rb") : NULL;
        unsigned char *b;
        if (!f) continue;
        b = (unsigned char *)malloc(100001);
        *n = b ? fread(b, 1, 100000, f) : 0;
        (void)fclose(f);
        if (b) b[*n] = 0;
        return b;
    }
    t_fail(__FILE__, __LINE__, "%s is neither a large oracle file nor in tests/golden", name);
    return NULL;
}
static unsigned char *oracle_of(const char *type, const char *kind, size_t want)
{
    char name[100];
    size_t n = 0;
    unsigned char *b;
    (void)snprintf(name, sizeof name, "%s.%s", type, kind);
    b = oracle(name, &n);
    if (b && !T_EQ_INT(n, want)) { free(b); b = NULL; }
    return b;
}

static double error_of(const float *x, const float *y, const float *w, size_t n)
{
    double sum = 0.0;
    size_t i;
    for (i = 0; i < n; i++)
        sum += (w ? (double)w[i] : 1.0) * ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

static int one_format(const char *name, int id, int values, int bytes, int ones)
{
    const tllm_format *f = tllm_format_by_name(name);
    const int before = t_now.checks_failed;
    const size_t n_q = (size_t)(ALL / values * bytes);
    unsigned char *src = oracle_of(name, "src.f32", ALL * 4), *q = oracle_of(name, "q.bin", n_q),
                  *deq = oracle_of(name, "deq.f32", ALL * 4);
    float *x = t_guarded(ALL), *y = t_guarded(ALL), *want = t_guarded(ALL), *w = t_guarded(COLS);
    unsigned char *ours = (unsigned char *)t_guarded_bytes(n_q), *odd = (unsigned char *)malloc(n_q + 1);
    double worst = 0.0;
    int r, i;
    if (!f) t_fail(__FILE__, __LINE__, "there is no format %s", name);
    if (f && src && q && deq && odd) {
        T_EQ_INT(f->id, id);
        T_EQ_INT(f->values, values);
        T_EQ_INT(f->bytes, bytes);
        T_TRUE(tllm_format_of(id) == f);
        tllm_format_of(0)->unpack(src, x, ALL);                 /* little endian */
        tllm_format_of(0)->unpack(deq, want, ALL);
        memcpy(odd + 1, q, n_q);
        f->unpack(odd + 1, y, ALL);                             /* at an odd address */
        if (memcmp(y, want, ALL * 4))
            t_fail(__FILE__, __LINE__, "%s: the floats of the blocks are not those of the oracle", name);
        T_WALLS(y, ALL);
        for (i = 0; i < COLS; i++) w[i] = 1.0f;
        for (r = 0; r < ROWS; r++) f->pack(x + r * COLS, ours + (size_t)r * n_q / ROWS, COLS, ones ? w : NULL);
        T_WALLS(ours, n_q);
        if (f->flags & (TLLM_FORMAT_DIRECT | TLLM_FORMAT_PLAIN)) {
            T_SAME(ours, q, n_q);
        } else {
            f->unpack(ours, y, ALL);
            for (r = 0; r < ROWS; r++) {
                const double e = error_of(x + r * COLS, y + r * COLS, NULL, COLS),
                             limit = error_of(x + r * COLS, want + r * COLS, NULL, COLS);
                if (!(e <= 1.02 * limit))
                    t_fail(__FILE__, __LINE__, "%s row %d: squared error %g, %g of the oracle's %g", name, r, e,
                           e / limit, limit);
                if (limit > 1e-30 && e / limit > worst) worst = e / limit;
            }
            printf("%-8s worst row %.4f of the oracle's squared error\n", name, worst);
        }
    }
    free(src);
    free(q);
    free(deq);
    free(odd);
    return t_now.checks_failed == before;
}

static void test_oracle(void)
{
    size_t n = 0;
    unsigned char *index = oracle("index.tsv", &n);
    char *line = (char *)index;
    int right = 0, all = 0;
    while (line && (line = strchr(line, '\n')) != NULL && *++line) {
        char name[32], matrix[16];
        int id, values, bytes, rows, cols, n_src, n_q;
        if (sscanf(line, "%31s %d %d %d %d %d %d %d %15s", name, &id, &values, &bytes, &rows, &cols, &n_src, &n_q,
                   matrix) != 9)
            break;
        T_EQ_INT(rows, ROWS);
        T_EQ_INT(cols, COLS);
        all++;
        right += one_format(name, id, values, bytes, !strcmp(matrix, "ones"));
    }
    T_TRUE(all >= 27);
    printf("formats: %d of %d\n", right, all);
    free(index);
}

/* blocks written down by hand from the layouts, half 0x3c00 = 1, 0x4000 = 2, 0xc000 = -2 */
static void test_by_hand(void)
{
    unsigned char b[300];
    float *y = t_guarded(256);
    memset(b, 0, sizeof b);
    b[1] = 0x40; b[2] = 0x3f; b[17] = 0x80;
    tllm_format_by_name("Q4_0")->unpack(b, y, 32);              /* d = 2 */
    T_TRUE(y[0] == 14.0f && y[16] == -10.0f && y[15] == -16.0f && y[31] == 0.0f && y[1] == -16.0f);
    memset(b, 0, sizeof b);
    b[1] = 0x3c; b[2] = 0x00; b[3] = 0xc0; b[4] = 0x1f; b[5] = 0x00;
    tllm_format_by_name("Q4_1")->unpack(b, y, 32);              /* d = 1, m = -2 */
    T_TRUE(y[0] == 13.0f && y[16] == -1.0f && y[1] == -2.0f);
    memset(b, 0, sizeof b);
    b[1] = 0x3c; b[2] = 1; b[5] = 0x80; b[6] = 0x0f; b[21] = 0xf0;
    tllm_format_by_name("Q5_0")->unpack(b, y, 32);              /* fifth bits of values 0 and 31 */
    T_TRUE(y[0] == 15.0f && y[31] == 15.0f && y[1] == -16.0f && y[16] == -16.0f);
    memset(b, 0, sizeof b);
    b[0] = 1; b[1] = 0x40; b[2] = 0x80; b[3] = 0x7f;
    tllm_format_by_name("Q8_0")->unpack(b, y, 32);              /* d = 2 + 2^-9 */
    T_TRUE(y[0] == -256.25f && y[1] == 127.0f * 2.001953125f && y[2] == 0.0f);
    memset(b, 0, sizeof b);
    b[0] = 128; b[1] = 0x9f;
    tllm_format_by_name("MXFP4")->unpack(b, y, 32);             /* 2^0 times twice the number: 15 is -12, 9 is -1 */
    T_TRUE(y[0] == -12.0f && y[16] == -1.0f && y[1] == 0.0f);
    memset(b, 0, sizeof b);
    b[0] = 0x38; b[3] = 1; b[4] = 0x72; b[28] = 0x07;
    tllm_format_by_name("NVFP4")->unpack(b, y, 64);             /* scale 1, halved; the least scale 2^-9, halved */
    T_TRUE(y[0] == 1.0f && y[8] == 6.0f && y[48] == 12.0f / 1024.0f && y[16] == 0.0f);
    memset(b, 0, sizeof b);
    b[1] = 0x3c; b[2] = 0x05;
    tllm_format_by_name("Q1_0")->unpack(b, y, 128);
    T_TRUE(y[0] == 1.0f && y[1] == -1.0f && y[2] == 1.0f && y[127] == -1.0f);
    memset(b, 0, sizeof b);
    /* 243 = ceil(256 * 230 / 243): the digits of 230 are 2 2 1 1 2 */
    b[0] = 243; b[53] = 0x3c;
    tllm_format_by_name("TQ1_0")->unpack(b, y, 256);
    T_TRUE(y[0] == 1.0f && y[32] == 1.0f && y[64] == 0.0f && y[96] == 0.0f && y[128] == 1.0f && y[1] == -1.0f &&
           y[255] == -1.0f);
    memset(b, 0, sizeof b);
    b[0] = 0xe4; b[65] = 0x3c;
    tllm_format_by_name("TQ2_0")->unpack(b, y, 256);            /* 0, 1, 2, 3 less 1 */
    T_TRUE(y[0] == -1.0f && y[32] == 0.0f && y[64] == 1.0f && y[96] == 2.0f);
    memset(b, 0, sizeof b);
    b[1] = 0x3c; b[2] = 0x8f;
    tllm_format_by_name("IQ4_NL")->unpack(b, y, 32);
    T_TRUE(y[0] == 113.0f && y[16] == 1.0f && y[1] == -127.0f);
    memset(b, 0, sizeof b);
    b[1] = 0x3c; b[3] = 0x3c; b[4] = 0x83; b[8] = 0x42; b[12] = 0x75; b[16] = 0xa1;
    /* group 0: 3 q - 2; group 4: (5 + 16 * 2) q - (7 + 16 * 1) */
    tllm_format_by_name("Q4_K")->unpack(b, y, 256);
    T_TRUE(y[0] == 1.0f && y[32] == 0.0f && y[1] == -2.0f && y[128] == -23.0f);
    b[16 + 64] = 2;
    tllm_format_by_name("Q4_K")->unpack(b, y, 256);
    T_TRUE(y[128] == 37.0f * 2.0f - 23.0f);
    memset(b, 0, sizeof b);
    b[209] = 0x3c; b[192] = 0xff; b[198] = 2; b[0] = 0x31; b[128] = 0x42;
    /* value 0: -1 (1 + 32 - 32); value 64, scale 4: 0; value 96, scale 6: 2 (16 - 32) */
    tllm_format_by_name("Q6_K")->unpack(b, y, 256);
    T_TRUE(y[0] == -1.0f && y[1] == 32.0f && y[96] == -32.0f && y[64] == 0.0f);
    T_WALLS(y, 256);
}

/* The output of a packer, unpacked and packed again, is the same bytes: the largest code belongs to the largest
 * value. */
static void test_again(void)
{
    static const char *const name[] = { "F32",  "F16",  "BF16",  "F64",   "Q8_0",  "Q8_1", "Q8_K",
                                        "Q4_0", "Q5_0", "TQ1_0", "TQ2_0", "MXFP4", "Q1_0" };
    float *x = t_rand(2048, -1.0f, 1.0f), *y = t_guarded(2048);
    size_t i;
    for (i = 0; i < T_COUNT(name); i++) {
        const tllm_format *f = tllm_format_by_name(name[i]);
        const size_t n = tllm_format_bytes(f, 2048);
        unsigned char *a = (unsigned char *)t_guarded_bytes(n), *b = (unsigned char *)t_guarded_bytes(n);
        f->pack(x, a, 2048, NULL);
        f->unpack(a, y, 2048);
        f->pack(y, b, 2048, NULL);
        if (memcmp(a, b, n)) t_fail(__FILE__, __LINE__, "%s: packed again, it is not the same", name[i]);
        T_WALLS(a, n);
        T_WALLS(b, n);
    }
}

/* A step d leaves an error of d^2 / 12 on numbers that are evenly spread over -1..1, but none where the ends of a block
 * are its own codes. Of 32 such numbers the largest magnitude squared is 32/34 in the mean, the range squared 4 * 32 *
 * 31 / (33 * 34). */
static void test_closed_form(void)
{
    static const struct { const char *name; double d2; } row[] = {
        { "Q8_0", 32.0 / 34.0 * 31.0 / 32.0 / (127.0 * 127.0) },
        { "Q4_1", 3968.0 / 1122.0 * 30.0 / 32.0 / (15.0 * 15.0) },
        { "Q5_1", 3968.0 / 1122.0 * 30.0 / 32.0 / (31.0 * 31.0) }
    };
    const size_t n = 32768;
    float *x = t_rand(n, -1.0f, 1.0f), *y = t_guarded(n);
    unsigned char *q = (unsigned char *)t_guarded_bytes(n * 2);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        const tllm_format *f = tllm_format_by_name(row[i].name);
        f->pack(x, q, n, NULL);
        f->unpack(q, y, n);
        T_CLOSE(error_of(x, y, NULL, n) / (double)n, row[i].d2 / 12.0, 0.02 * row[i].d2 / 12.0);
    }
}

/* More bits, less error, on the same numbers. */
static void test_order(void)
{
    static const char *const name[] = { "F32",   "F16",     "BF16",  "Q8_0",   "Q6_K",    "Q5_K",  "Q4_K", "IQ4_XS",
                                        "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S" };
    const size_t n = 4096;
    float *x = t_guarded(n), *y = t_guarded(n);
    unsigned char *q = (unsigned char *)t_guarded_bytes(n * 4);
    double last = -1.0, e;
    size_t i;
    int k;
    for (i = 0; i < n; i++)
        for (x[i] = 0.0f, k = 0; k < 12; k++) x[i] += t_rand_float(-0.5f, 0.5f);
    for (i = 0; i < T_COUNT(name); i++) {
        const tllm_format *f = tllm_format_by_name(name[i]);
        f->pack(x, q, n, NULL);
        f->unpack(q, y, n);
        e = error_of(x, y, NULL, n);
        if (!(e > last)) t_fail(__FILE__, __LINE__, "%s: error %g, not above %g of the one before", name[i], e, last);
        last = e;
    }
}

static void test_importance(void)
{
    const size_t n = 4096;
    float *x = t_rand(n, -1.0f, 1.0f), *w = t_guarded(n), *big = t_guarded(n), *ones = t_guarded(n), *y = t_guarded(n);
    unsigned char *a = (unsigned char *)t_guarded_bytes(n * 8), *b = (unsigned char *)t_guarded_bytes(n * 8);
    const tllm_format *f;
    size_t i, k, n_weighted = 0;
    for (i = 0; i < n; i++) {
        w[i] = t_rand_below(8) ? t_rand_float(0.0f, 0.1f) : t_rand_float(1.0f, 30.0f);
        big[i] = w[i] * 1048576.0f;
        ones[i] = 1.0f;
    }
    for (k = 0; (f = tllm_format_at(k)) != NULL; k++) {
        double plain, weighted;
        size_t n_q = tllm_format_bytes(f, n);
        if (!f->pack) continue;
        f->pack(x, a, n, NULL);
        f->unpack(a, y, n);
        plain = error_of(x, y, w, n);
        f->pack(x, b, n, ones);
        if (!(f->flags & TLLM_FORMAT_DIRECT) && memcmp(a, b, n_q))
            t_fail(__FILE__, __LINE__, "%s: weights of one are not the same as none", f->name);
        f->pack(x, b, n, w);
        if (!(f->flags & TLLM_FORMAT_IMPORTANCE)) { T_TRUE(!memcmp(a, b, n_q)); continue; }
        n_weighted++;
        f->unpack(b, y, n);
        weighted = error_of(x, y, w, n);
        if (!(weighted < 0.97 * plain))
            t_fail(__FILE__, __LINE__, "%s: weighted error %g with importance, %g without", f->name, weighted, plain);
        f->pack(x, a, n, big);
        if (memcmp(a, b, n_q))
            t_fail(__FILE__, __LINE__, "%s: a common factor of the weights changes the bytes", f->name);
        for (i = 0; i < n; i++) big[i] = i % 3 ? -1.0f : NAN;   /* nothing to go by: as none */
        f->pack(x, a, n, big);
        f->pack(x, b, n, ones);
        T_TRUE(!memcmp(a, b, n_q));
        for (i = 0; i < n; i++) big[i] = i % 5 ? w[i] : INFINITY;
        f->pack(x, a, n, big);
        f->unpack(a, y, n);
        for (i = 0; i < n; i++) if (!(fabs((double)y[i]) < 100.0)) break;
        T_EQ_INT(i, n);
        for (i = 0; i < n; i++) big[i] = w[i] * 1048576.0f;
    }
    T_EQ_INT(n_weighted, 18);
}

static void test_special_numbers(void)
{
    const size_t n = 512;
    float *x = t_guarded(n), *y = t_guarded(n), *z = t_guarded(n);
    unsigned char *a = (unsigned char *)t_guarded_bytes(n * 8), *b = (unsigned char *)t_guarded_bytes(n * 8);
    const tllm_format *f;
    size_t i, k;
    for (k = 0; (f = tllm_format_at(k)) != NULL; k++) {
        const size_t n_q = tllm_format_bytes(f, n);
        for (i = 0; i < n_q; i++) a[i] = (unsigned char)t_rand_below(256);
        f->unpack(a, y, n);                                     /* any bytes are blocks */
        if (!f->pack) continue;
        for (i = 0; i < n; i++) x[i] = 0.0f;
        f->pack(x, a, n, NULL);
        f->unpack(a, y, n);
        for (i = 0; i < n && y[i] == 0.0f; i++) {}
        if (i < n) t_fail(__FILE__, __LINE__, "%s: zeros become %g", f->name, (double)y[i]);
        for (i = 0; i < n; i++) x[i] = (i % 2 ? 1e-40f : -1e-40f) * (float)(i % 7);
        f->pack(x, a, n, NULL);
        f->unpack(a, y, n);
        for (i = 0; i < n && fabs((double)y[i]) < 1e-38; i++) {}
        if (i < n) t_fail(__FILE__, __LINE__, "%s: a denormal number becomes %g", f->name, (double)y[i]);
        for (i = 0; i < n; i++) x[i] = z[i] = t_rand_float(-1.0f, 1.0f);
        if (f->flags & TLLM_FORMAT_PLAIN) {
            x[0] = NAN; x[1] = INFINITY; x[2] = -INFINITY; x[3] = -0.0f;
            f->pack(x, a, n, NULL);
            f->unpack(a, y, n);
            T_TRUE(y[0] != y[0] && y[1] == INFINITY && y[2] == -INFINITY && y[3] == 0.0f && signbit(y[3]));
            continue;
        }
        for (i = 3; i < n; i += 41) { x[i] = NAN; z[i] = 0.0f; }
        f->pack(x, a, n, NULL);
        f->pack(z, b, n, NULL);
        if (memcmp(a, b, n_q)) t_fail(__FILE__, __LINE__, "%s: NaN is not treated as 0", f->name);
        for (i = 0; i < n; i += 50) { x[i] = i % 100 ? INFINITY : -INFINITY; x[i + 1] = 3e38f; x[i + 2] = -FLT_MAX; }
        f->pack(x, a, n, x);
        f->unpack(a, y, n);
        for (i = 0; i < n && fabs((double)y[i]) <= (double)FLT_MAX; i++) {}
        if (i < n)
            t_fail(__FILE__, __LINE__, "%s: infinite input, and value %lu becomes %g", f->name, (unsigned long)i,
                   (double)y[i]);
        for (i = 0; i < n; i++) if (x[i] == INFINITY && !(y[i] > 0.0f)) break;
        if (i < n && f->id != TLLM_FORMAT_Q4_1 && f->id != TLLM_FORMAT_Q5_1)
            t_fail(__FILE__, __LINE__, "%s: infinity becomes %g", f->name, (double)y[i]);
        f->pack(x, a, 0, NULL);                                 /* nothing to do */
        f->unpack(a, y, 0);
    }
    T_WALLS(a, n * 8);
    T_WALLS(y, n);
}

static void test_table(void)
{
    const tllm_format *f, *g;
    size_t i, k;
    for (i = 0; (f = tllm_format_at(i)) != NULL; i++) {
        T_TRUE(tllm_format_of(f->id) == f && tllm_format_by_name(f->name) == f && f->unpack && f->values > 0 &&
               f->bytes > 0);
        T_TRUE(tllm_format_of(f->dot) != NULL);
        for (k = 0; k < i; k++) { g = tllm_format_at(k); T_TRUE(g->id != f->id && strcmp(g->name, f->name)); }
        T_EQ_INT(tllm_format_bytes(f, 0), 0);
        T_EQ_INT(tllm_format_bytes(f, (uint64_t)f->values * 3), f->bytes * 3);
        if (f->values > 1) T_EQ_INT(tllm_format_bytes(f, (uint64_t)f->values + 1), 0);
        if (f->values > 1) T_EQ_INT(tllm_format_bytes(f, UINT64_MAX), 0);
        else if (f->bytes > 1) T_EQ_INT(tllm_format_bytes(f, UINT64_MAX / 2), 0);
    }
    T_EQ_INT(i, 35);
    T_TRUE(!tllm_format_at(SIZE_MAX) && !tllm_format_of(-1) && !tllm_format_of(4) && !tllm_format_of(1000000));
    T_TRUE(!tllm_format_by_name(NULL) && !tllm_format_by_name("") && !tllm_format_by_name("Q4") &&
           !tllm_format_by_name("Q4_KM"));
    T_TRUE(tllm_format_by_name("q4_k") == tllm_format_of(12) && tllm_format_by_name("iq2_xxs") == tllm_format_of(16) &&
           tllm_format_by_name("mxfp4") == tllm_format_of(39));
    T_EQ_INT(tllm_format_bytes(NULL, 32), 0);
    T_EQ_INT(tllm_format_bytes(tllm_format_of(2), (uint64_t)1 << 62), sizeof(size_t) > 4 ? ((int64_t)1 << 57) * 18 : 0);
}

/* The same bytes on every machine: FNV-1a of the output of all packers for hashed numbers. */
static void test_same_everywhere(void)
{
    const size_t n = 2048;
    float *x = t_guarded(n), *w = t_guarded(n), *y = t_guarded(n);
    unsigned char *q = (unsigned char *)t_guarded_bytes(n * 8);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const tllm_format *f;
    size_t i, k, turn;
    for (i = 0; i < n; i++) {
        x[i] = t_rand_float(-1.0f, 1.0f) * t_rand_float(0.0f, 1.0f) * (i % 97 ? 1.0f : 9.0f);
        w[i] = t_rand_float(0.0f, 2.0f);
    }
    for (k = 0; (f = tllm_format_at(k)) != NULL; k++)
        for (turn = 0; f->pack && turn < 2; turn++) {
            f->pack(x, q, n, turn ? w : NULL);
            f->unpack(q, y, n);
            for (i = 0; i < tllm_format_bytes(f, n); i++) hash = (hash ^ q[i]) * UINT64_C(0x100000001b3);
            tllm_format_of(0)->pack(y, q, n, NULL);
            for (i = 0; i < n * 4; i++) hash = (hash ^ q[i]) * UINT64_C(0x100000001b3);
        }
    if (hash != UINT64_C(0x1f392e7ae6cfea5d)) t_fail(__FILE__, __LINE__, "the bytes hash to 0x%016" PRIx64, hash);
}

int main(void)
{
    T_RUN(test_oracle);
    T_RUN(test_by_hand);
    T_RUN(test_again);
    T_RUN(test_closed_form);
    T_RUN(test_order);
    T_RUN(test_importance);
    T_RUN(test_special_numbers);
    T_RUN(test_table);
    T_RUN(test_same_everywhere);
    return t_done();
}
