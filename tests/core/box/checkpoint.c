/* tests/core/box/checkpoint.c - checkpoints: the bytes by hand, every type there and back, and every fault
 *
 * The refused ones are in tests/fuzz/corpus/checkpoint too; T_CORPUS=folder in the environment writes them again. */
#define T_INTERNALS
#include "t.h"

/* ---- a file in memory, written by the writer or by hand ---------------------------------------------------------- */

typedef struct image { unsigned char b[16384]; size_t n, most; } image;

static int image_write(void *user, const void *bytes, size_t n)
{
    image *m = (image *)user;
    if (m->most && m->n + n > m->most) return 1;
    if (n > sizeof m->b - m->n) return 1;
    memcpy(m->b + m->n, bytes, n);
    m->n += n;
    return 0;
}
static void le(image *m, uint64_t v, int n)
{
    for (; n; n--, v >>= 8) m->b[m->n++] = (unsigned char)v;
}
static void set(image *m, size_t at, uint64_t v, int n)
{
    for (; n; n--, v >>= 8) m->b[at++] = (unsigned char)v;
}
static void pad(image *m, size_t least, size_t align)
{
    while (least || m->n % align) {
        m->b[m->n++] = 0;
        if (least) least--;
    }
}
static void head(image *m)
{
    memset(m, 0, sizeof *m);
    memcpy(m->b, "\x89tinyck\n", 8);
    m->n = 8;
    le(m, 1, 4);
    le(m, 64, 4);
}
static void entry(image *m, unsigned kind, unsigned dtype, unsigned rank, uint64_t d0, uint64_t d1, const char *name,
                  uint64_t n_bytes)
{
    le(m, kind, 4);
    le(m, dtype, 4);
    le(m, rank, 4);
    le(m, strlen(name), 4);
    le(m, d0, 8);
    le(m, d1, 8);
    le(m, 0, 8);
    le(m, 0, 8);
    le(m, n_bytes, 8);
    memcpy(m->b + m->n, name, strlen(name));
    m->n += strlen(name);
    pad(m, 1, 8);
    if (!kind) pad(m, 0, 64);
}
static void end(image *m, uint64_t n_entries)
{
    memcpy(m->b + m->n, "tinyend\n", 8);
    m->n += 8;
    le(m, n_entries, 8);
    le(m, m->n + 16, 8);
    le(m, tinyi_hash_of(m->b, m->n), 8);
}
static void seal(image *m) { set(m, m->n - 8, tinyi_hash_of(m->b, m->n - 8), 8); }      /* after a change */

static tiny_status open_image(tiny_ctx *ctx, const image *m, tiny_checkpoint **c)
{
    tiny_checkpoint_desc d = { 0 };
    d.bytes = m->b;
    d.n_bytes = m->n;
    return tiny_checkpoint_open(ctx, &d, c);
}

/* The small file by hand: a number, a fraction, a text, bytes, a matrix. The first four take 72 bytes each (56, 8 of a
 * short name, 8), from byte 16 on; the values of the matrix begin at 384, the end at 408. */
static void by_hand(image *m)
{
    static const float one_to_six[6] = { 1, 2, 3, 4, 5, 6 };
    int i;
    head(m);
    entry(m, 1, 0, 0, 0, 0, "step", 8);
    le(m, UINT64_C(0x0123456789abcdef), 8);
    entry(m, 2, 0, 0, 0, 0, "rate", 8);
    le(m, UINT64_C(0x3ff8000000000000), 8);                 /* 1.5 */
    entry(m, 3, 0, 0, 0, 0, "what", 5);
    memcpy(m->b + m->n, "gr\xc3\xbcn", 5);
    m->n += 5;
    pad(m, 1, 8);
    entry(m, 4, 0, 0, 0, 0, "raw", 3);
    le(m, 0x00ff00, 3);
    pad(m, 0, 8);
    entry(m, 0, 0, 2, 2, 3, "w", 24);
    for (i = 0; i < 6; i++) {
        uint32_t bits;
        memcpy(&bits, &one_to_six[i], 4);
        le(m, bits, 4);
    }
    end(m, 5);
}

/* ---- the checksum: vectors of the test of XXH64, made by other implementations ----------------------------------- */

static void test_hash(void)
{
    static const struct { const char *text; uint64_t want;
    } known[] = { { "", UINT64_C(0xef46db3751d8e999) },
                  { "a", UINT64_C(0xd24ec4f1a98c6e5b) },
                  { "abc", UINT64_C(0x44bc2cf5ad770999) },
                  { "Nobody inspects the spammish repetition", UINT64_C(0xfbcea83c8a378bf1) } };
    unsigned char b[200];
    size_t i, k;
    for (i = 0; i < T_COUNT(known); i++) T_TRUE(tinyi_hash_of(known[i].text, strlen(known[i].text)) == known[i].want);
    for (i = 0; i < sizeof b; i++) b[i] = (unsigned char)t_rand_u64();
    for (i = 0; i < sizeof b; i++)                          /* in two pieces, cut anywhere */
        for (k = 0; k <= i; k += 7) {
            tinyi_hash h;
            tinyi_hash_start(&h);
            tinyi_hash_add(&h, b, k);
            tinyi_hash_add(&h, b + k, i - k);
            T_TRUE(tinyi_hash_value(&h) == tinyi_hash_of(b, i));
        }
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */

static void test_by_hand(void)
{
    static const float one_to_six[6] = { 1, 2, 3, 4, 5, 6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    image *m = (image *)t_keep(sizeof *m), *got = (image *)t_keep(sizeof *got);
    tiny_checkpoint_writer_desc wd = { 0 };
    tiny_checkpoint_writer *w;
    tiny_checkpoint *c;
    float x[6];
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 2, 3);
    by_hand(m);
    if (T_OK(open_image(ctx, m, &c))) {
        const tiny_checkpoint_entry *e;
        uint64_t u = 0;
        double f = 0;
        const char *text = NULL;
        const void *raw = NULL;
        size_t n = 0;
        T_EQ_INT(tiny_checkpoint_count(c), 5);
        T_OK(tiny_checkpoint_get_u64(ctx, c, "step", &u));
        T_TRUE(u == UINT64_C(0x0123456789abcdef));
        T_OK(tiny_checkpoint_get_f64(ctx, c, "rate", &f));
        T_TRUE(f == 1.5);
        T_OK(tiny_checkpoint_get_text(ctx, c, "what", &text));
        T_EQ_TEXT(text, "gr\xc3\xbcn");
        T_OK(tiny_checkpoint_get_bytes(ctx, c, "raw", &raw, &n));
        T_TRUE(n == 3 && !memcmp(raw, "\x00\xff\x00", 3));
        T_OK(tiny_checkpoint_expect(ctx, c, "w", &t));
        T_OK(tiny_checkpoint_get_tensor(ctx, c, "w", &t));
        T_SAME(x, one_to_six, 6);
        e = tiny_checkpoint_at(c, 4);
        T_TRUE(e && !strcmp(e->name, "w") && e->kind == TINY_CHECKPOINT_TENSOR && e->rank == 2 && e->dim[0] == 2 &&
               e->dim[1] == 3 && e->n_bytes == 24);
        T_TRUE(e && (e->at - m->b) % 64 == 0);
        T_TRUE(!tiny_checkpoint_at(c, 5) && !tiny_checkpoint_find(c, "W") && !tiny_checkpoint_find(c, NULL) &&
               !tiny_checkpoint_at(NULL, 0));
        /* a type or shape other than requested */
        u = 7; x[0] = 7;
        T_STATUS(tiny_checkpoint_get_u64(ctx, c, "steps", &u), TINY_E_ARGUMENT,
                 "memory: there is no entry steps among its 5");
        T_STATUS(tiny_checkpoint_get_u64(ctx, c, "rate", &u), TINY_E_DTYPE,
                 "entry rate is of kind f64, but u64 was requested");
        T_STATUS(tiny_checkpoint_get_tensor(ctx, c, "step", &t), TINY_E_DTYPE,
                 "entry step is of kind u64, but tensor was requested");
        t = tiny_tensor_2d(x, TINY_F32, 3, 2);
        T_STATUS(tiny_checkpoint_get_tensor(ctx, c, "w", &t), TINY_E_SHAPE,
                 "tensor w is 2x3 f32, but 3x2 f32 was requested");
        t = tiny_tensor_1d(x, TINY_F32, 6);
        T_STATUS(tiny_checkpoint_expect(ctx, c, "w", &t), TINY_E_SHAPE, "but 6 f32 was requested");
        t = tiny_tensor_2d(x, TINY_I32, 2, 3);
        T_STATUS(tiny_checkpoint_get_tensor(ctx, c, "w", &t), TINY_E_DTYPE,
                 "tensor w is 2x3 f32, but 2x3 i32 was requested");
        t = tiny_tensor_2d(NULL, TINY_F32, 2, 3);
        T_OK(tiny_checkpoint_expect(ctx, c, "w", &t));
        T_STATUS(tiny_checkpoint_get_tensor(ctx, c, "w", &t), TINY_E_ARGUMENT, "its output cannot be written");
        t.rank = 9;
        T_STATUS(tiny_checkpoint_expect(ctx, c, "w", &t), TINY_E_ARGUMENT, "rank 9; 0 to 4");
        T_STATUS(tiny_checkpoint_get_u64(ctx, c, "step", NULL), TINY_E_ARGUMENT, "reading step needs");
        T_TRUE(u == 7 && x[0] == 7);
        tiny_checkpoint_close(ctx, c);
    }
    /* and the writer gives these bytes */
    wd.write = image_write;
    wd.user = got;
    if (T_OK(tiny_checkpoint_create(ctx, &wd, &w))) {
        T_OK(tiny_checkpoint_put_u64(ctx, w, "step", UINT64_C(0x0123456789abcdef)));
        T_OK(tiny_checkpoint_put_f64(ctx, w, "rate", 1.5));
        T_OK(tiny_checkpoint_put_text(ctx, w, "what", "gr\xc3\xbcn"));
        T_OK(tiny_checkpoint_put_bytes(ctx, w, "raw", "\x00\xff\x00", 3));
        memcpy(x, one_to_six, sizeof x);
        t = tiny_tensor_2d(x, TINY_F32, 2, 3);
        T_OK(tiny_checkpoint_put_tensor(ctx, w, "w", &t));
        T_OK(tiny_checkpoint_finish(ctx, w));
        T_STATUS(tiny_checkpoint_put_u64(ctx, w, "late", 1), TINY_E_ARGUMENT, "is already finished");
        tiny_checkpoint_writer_close(ctx, w);
        T_EQ_INT(got->n, m->n);
        T_SAME(got->b, m->b, m->n);
    }
    t_close(ctx);
}

static void test_every_type(void)
{
    static const tiny_idx shape[][4] = { { 1, 1, 1, 1 }, { 5, 1, 1, 1 }, { 3, 7, 1, 1 },
                                         { 2, 3, 5, 1 }, { 2, 3, 4, 5 }, { 2, 0, 4, 3 } };
    static const int rank[] = { 0, 1, 2, 3, 4, 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_checkpoint_writer_desc wd = { 0 };
    tiny_checkpoint_desc rd = { 0 };
    tiny_checkpoint_writer *w;
    tiny_checkpoint *c;
    unsigned char *data = (unsigned char *)t_keep(8192);
    char name[40];
    size_t s, k;
    int d, pass;
    for (k = 0; k < 8192; k++) data[k] = (unsigned char)t_rand_u64();       /* all patterns: NaNs too keep their bits */
    wd.path = rd.path = "tiny-types.ckpt";
    if (!T_OK(tiny_checkpoint_create(ctx, &wd, &w))) return;
    for (d = 0; d < TINY_DTYPE_COUNT; d++)
        for (s = 0; s < T_COUNT(rank); s++) {
            tiny_tensor t = tiny_tensor_nd(data, (tiny_dtype)d, rank[s], shape[s]);
            (void)snprintf(name, sizeof name, "%s/%d", tiny_dtype_name((tiny_dtype)d), (int)s);
            T_OK(tiny_checkpoint_put_tensor(ctx, w, name, &t));
            if (rank[s] < 2) continue;
            t = tiny_tensor_swap(t, 0, 1);                  /* strided: the values in its own index order */
            (void)snprintf(name, sizeof name, "%s/%d/swapped", tiny_dtype_name((tiny_dtype)d), (int)s);
            T_OK(tiny_checkpoint_put_tensor(ctx, w, name, &t));
            (void)snprintf(name, sizeof name, "%s/%d/pieces", tiny_dtype_name((tiny_dtype)d), (int)s);
            T_OK(tiny_checkpoint_put_begin(ctx, w, name, (tiny_dtype)d, rank[s], shape[s]));
            for (k = 0; k < (size_t)tiny_tensor_count(&t); k++)
                T_OK(tiny_checkpoint_put_values(ctx, w, data + k * tiny_dtype_bytes((tiny_dtype)d), 1));
        }
    T_OK(tiny_checkpoint_finish(ctx, w));
    tiny_checkpoint_writer_close(ctx, w);
    for (pass = 0; pass < 3; pass++) {
        rd.copy = pass == 1;
        rd.no_checksum = pass == 2;
        if (!T_OK(tiny_checkpoint_open(ctx, &rd, &c))) continue;
        for (d = 0; d < TINY_DTYPE_COUNT; d++)
            for (s = 0; s < T_COUNT(rank); s++) {
                size_t size = tiny_dtype_bytes((tiny_dtype)d), n;
                tiny_tensor t = tiny_tensor_nd(data, (tiny_dtype)d, rank[s], shape[s]), back;
                unsigned char *got;
                n = (size_t)tiny_tensor_count(&t) * size;
                got = (unsigned char *)t_guarded_bytes(n);
                back = tiny_tensor_nd(got, (tiny_dtype)d, rank[s], shape[s]);
                (void)snprintf(name, sizeof name, "%s/%d", tiny_dtype_name((tiny_dtype)d), (int)s);
                T_OK(tiny_checkpoint_get_tensor(ctx, c, name, &back));
                T_SAME(got, data, n);
                if (rank[s] < 2) continue;
                memset(got, 0x55, n);
                (void)snprintf(name, sizeof name, "%s/%d/pieces", tiny_dtype_name((tiny_dtype)d), (int)s);
                T_OK(tiny_checkpoint_get_tensor(ctx, c, name, &back));
                T_SAME(got, data, n);
                memset(got, 0x55, n);
                back = tiny_tensor_swap(back, 0, 1);
                (void)snprintf(name, sizeof name, "%s/%d/swapped", tiny_dtype_name((tiny_dtype)d), (int)s);
                T_OK(tiny_checkpoint_get_tensor(ctx, c, name, &back));
                T_SAME(got, data, n);
                T_WALLS(got, n);
            }
        tiny_checkpoint_close(ctx, c);
    }
    T_EQ_INT(remove("tiny-types.ckpt"), 0);
    t_close(ctx);
}

/* The numbers of the types are part of the format: another order in the list of types would misread old files. */
static void test_numbers(void)
{
    T_TRUE(TINY_F32 == 0 && TINY_F16 == 1 && TINY_BF16 == 2 && TINY_F64 == 3 && TINY_I8 == 4 && TINY_U8 == 5 &&
           TINY_I16 == 6 && TINY_I32 == 7 && TINY_I64 == 8);
    T_TRUE(TINY_CHECKPOINT_TENSOR == 0 && TINY_CHECKPOINT_U64 == 1 && TINY_CHECKPOINT_F64 == 2 &&
           TINY_CHECKPOINT_TEXT == 3 && TINY_CHECKPOINT_BYTES == 4);
}

/* The bytes of a machine with the other byte order. */
static void test_other_byte_order(void)
{
    static const unsigned char in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, by2[8] = { 2, 1, 4, 3, 6, 5, 8, 7 },
                               by4[8] = { 4, 3, 2, 1, 8, 7, 6, 5 }, by8[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
    unsigned char out[8], back[8];
    tinyi_ckpt_turn(out, in, 8, 1, 1);
    T_SAME(out, in, 8);
    tinyi_ckpt_turn(out, in, 4, 2, 1);
    T_SAME(out, by2, 8);
    tinyi_ckpt_turn(out, in, 2, 4, 1);
    T_SAME(out, by4, 8);
    tinyi_ckpt_turn(out, in, 1, 8, 1);
    T_SAME(out, by8, 8);
    tinyi_ckpt_turn(back, out, 1, 8, 1);
    T_SAME(back, in, 8);
    tinyi_ckpt_turn(out, in, 2, 4, 0);
    T_SAME(out, in, 8);
}

/* a trainer's state: arrays, a step, a generator, 3000 names in any order */
static void test_many(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_checkpoint_writer_desc wd = { 0 };
    tiny_checkpoint_desc rd = { 0 };
    tiny_checkpoint_writer *w;
    tiny_checkpoint *c;
    char name[20];
    uint64_t v;
    unsigned i;
    wd.path = rd.path = "tiny-many.ckpt";
    if (!T_OK(tiny_checkpoint_create(ctx, &wd, &w))) return;
    for (i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "%u", i * 2654435761u);
        T_OK(tiny_checkpoint_put_u64(ctx, w, name, i));
    }
    T_STATUS(tiny_checkpoint_put_u64(ctx, w, "2654435761", 0), TINY_E_ARGUMENT,
             "tiny-many.ckpt: entry 2654435761 was put before");
    T_STATUS(tiny_checkpoint_finish(ctx, w), TINY_E_ARGUMENT, "2654435761");
    tiny_checkpoint_writer_close(ctx, w);
    T_TRUE(fopen("tiny-many.ckpt", "rb") == NULL && fopen("tiny-many.ckpt.part", "rb") == NULL);
    if (!T_OK(tiny_checkpoint_create(ctx, &wd, &w))) return;
    for (i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "%u", i * 2654435761u);
        T_OK(tiny_checkpoint_put_u64(ctx, w, name, i));
    }
    T_OK(tiny_checkpoint_finish(ctx, w));
    tiny_checkpoint_writer_close(ctx, w);
    if (T_OK(tiny_checkpoint_open(ctx, &rd, &c))) {
        for (i = 0; i < 3000; i++) {
            (void)snprintf(name, sizeof name, "%u", i * 2654435761u);
            T_TRUE(!tiny_checkpoint_get_u64(ctx, c, name, &v) && v == i);
        }
        tiny_checkpoint_close(ctx, c);
    }
    T_EQ_INT(remove("tiny-many.ckpt"), 0);
    t_close(ctx);
}

/* ---- invalid calls
 * ------------------------------------------------------------------------------------------------- */

static void test_writer_refuses(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    image *m = (image *)t_keep(sizeof *m);
    char *name = (char *)t_keep(2000);
    float x[4] = { 0 };
    const tiny_idx four = 4, huge[2] = { TINY_IDX_MAX, 2 };
    tiny_tensor t = tiny_tensor_1d(x, TINY_F32, 4);
    tiny_checkpoint_writer_desc d = { 0 };
    tiny_checkpoint_writer *w;
    T_STATUS(tiny_checkpoint_create(ctx, NULL, &w), TINY_E_ARGUMENT, "either a path or a write callback");
    T_STATUS(tiny_checkpoint_create(ctx, &d, &w), TINY_E_ARGUMENT, "either a path or");
    T_STATUS(tiny_checkpoint_create(ctx, &d, NULL), TINY_E_ARGUMENT, "an output pointer");
    d.path = "there/is/no/such/folder.ckpt";
    T_STATUS(tiny_checkpoint_create(ctx, &d, &w), TINY_E_IO,
             "there/is/no/such/folder.ckpt.part: cannot be opened for writing");
    T_TRUE(w == NULL);
    d.path = NULL;
    d.write = image_write;
    d.user = m;
    memset(name, 'n', 1024);
    T_STATUS(tiny_checkpoint_put_u64(ctx, NULL, "a", 1), TINY_E_ARGUMENT, "the writer of the checkpoint is NULL");
#define REFUSES(call, status, part)                                 \
    m->n = 0;                                                       \
    if (T_OK(tiny_checkpoint_create(ctx, &d, &w))) {                \
        T_STATUS(call, status, part);                               \
        T_STATUS(tiny_checkpoint_put_u64(ctx, w, "x", 1), status, part);   \
        T_STATUS(tiny_checkpoint_finish(ctx, w), status, part);     \
        tiny_checkpoint_writer_close(ctx, w);                       \
    }
    REFUSES(tiny_checkpoint_put_u64(ctx, w, NULL, 1), TINY_E_ARGUMENT, "entry 0: its name has 0 bytes")
    REFUSES(tiny_checkpoint_put_u64(ctx, w, "", 1), TINY_E_ARGUMENT, "its name has 0 bytes; 1 to 1023")
    REFUSES(tiny_checkpoint_put_u64(ctx, w, name, 1), TINY_E_ARGUMENT, "its name has 1024 bytes; 1 to 1023")
    REFUSES(tiny_checkpoint_put_u64(ctx, w, "a\nb", 1), TINY_E_ARGUMENT, "without control characters")
    REFUSES(tiny_checkpoint_put_text(ctx, w, "a", NULL), TINY_E_ARGUMENT, "entry a: the text is missing")
    REFUSES(tiny_checkpoint_put_bytes(ctx, w, "a", NULL, 3), TINY_E_ARGUMENT, "entry a: its 3 bytes are missing")
    REFUSES(tiny_checkpoint_put_tensor(ctx, w, "a", NULL), TINY_E_ARGUMENT, "tensor a is missing")
    REFUSES((t.data = NULL, tiny_checkpoint_put_tensor(ctx, w, "a", &t)), TINY_E_ARGUMENT, "tensor a cannot be read")
    REFUSES(tiny_checkpoint_put_begin(ctx, w, "a", TINY_F32, 5, &four), TINY_E_ARGUMENT, "tensor a: rank 5; 0 to 4")
    REFUSES(tiny_checkpoint_put_begin(ctx, w, "a", TINY_F32, 2, huge), TINY_E_OVERFLOW, "tensor a: ")
    REFUSES(tiny_checkpoint_put_begin(ctx, w, "a", TINY_DTYPE_COUNT, 1, &four), TINY_E_DTYPE, "tensor a: 4 ?")
    REFUSES(tiny_checkpoint_put_values(ctx, w, x, 4), TINY_E_ARGUMENT, "4 values come where 0 are left")
    REFUSES((tiny_checkpoint_put_begin(ctx, w, "a", TINY_F32, 1, &four), tiny_checkpoint_put_values(ctx, w, x, 5)),
            TINY_E_ARGUMENT, "5 values come where 4 are left of tensor a")
    REFUSES((tiny_checkpoint_put_begin(ctx, w, "a", TINY_F32, 1, &four), tiny_checkpoint_put_values(ctx, w, x, 3),
             tiny_checkpoint_put_u64(ctx, w, "b", 1)),
            TINY_E_ARGUMENT, "entry b: 1 values of tensor a are still missing")
    REFUSES((tiny_checkpoint_put_begin(ctx, w, "a", TINY_F32, 1, &four), tiny_checkpoint_finish(ctx, w)),
            TINY_E_ARGUMENT, "4 values of tensor a are missing")
    m->most = 50;
    m->n = 0;
    if (T_OK(tiny_checkpoint_create(ctx, &d, &w))) {
        T_STATUS(tiny_checkpoint_put_u64(ctx, w, "a", 1), TINY_E_IO,
                 "the checkpoint: the callback could not write 56 bytes, up to byte 72");
        T_STATUS(tiny_checkpoint_finish(ctx, w), TINY_E_IO, NULL);
        tiny_checkpoint_writer_close(ctx, w);
    }
    tiny_checkpoint_writer_close(ctx, NULL);
    t_close(ctx);
}

/* ---- invalid files
 * ------------------------------------------------------------------------------------------------- */

static void test_every_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    image *m = (image *)t_keep(sizeof *m);
    tiny_checkpoint *c;
    size_t n;
    by_hand(m);
    for (n = 0; n < m->n; n++) {
        unsigned char *exact = (unsigned char *)t_guarded_bytes(n);      /* the byte after it faults */
        tiny_checkpoint_desc d = { 0 };
        int fast;
        memcpy(exact, m->b, n);
        d.bytes = exact;
        d.n_bytes = n;
        for (fast = 0; fast < 2; fast++) {
            d.no_checksum = fast;
            T_STATUS(tiny_checkpoint_open(ctx, &d, &c), TINY_E_FORMAT,
                     n < 8    ? "memory: not a checkpoint"
                     : n < 48 ? "memory: truncated"
                              : "memory: damaged or truncated");
            T_TRUE(c == NULL);
        }
        if (n % 64 == 0) t_free_blocks(), m = (image *)t_keep(sizeof *m), by_hand(m);
    }
    t_close(ctx);
}

static void test_every_bit(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    image *m = (image *)t_keep(sizeof *m);
    tiny_checkpoint *c;
    size_t bit;
    by_hand(m);
    for (bit = 0; bit < m->n * 8; bit++) {
        m->b[bit / 8] = (unsigned char)(m->b[bit / 8] ^ 1u << bit % 8);
        T_TRUE(open_image(ctx, m, &c) != TINY_OK && c == NULL && !strncmp(tiny_ctx_message(ctx), "memory: ", 8));
        m->b[bit / 8] = (unsigned char)(m->b[bit / 8] ^ 1u << bit % 8);
    }
    T_OK(open_image(ctx, m, &c));
    tiny_checkpoint_close(ctx, c);
    t_close(ctx);
}

/* With a valid checksum, so that each fault reaches its own check. */
static const struct { const char *file; tiny_status status; const char *says; } lies[] = {
    { "empty", TINY_E_FORMAT, "not a checkpoint: its 0 bytes" },
    { "foreign", TINY_E_FORMAT, "not a checkpoint" },
    { "text-transfer", TINY_E_FORMAT, "not a checkpoint" },
    { "version-2", TINY_E_VERSION, "version 2 of the format; this library reads version 1" },
    { "alignment-0", TINY_E_FORMAT, "alignment 0; version 1 has 64" },
    { "end-missing", TINY_E_FORMAT, "do not end like a box" },
    { "size-2e63", TINY_E_FORMAT, "says it has 9223372036854775808 bytes" },
    { "checksum", TINY_E_FORMAT, "damaged or truncated: the checksum of its" },
    { "count-2e63", TINY_E_FORMAT, "says it has 9223372036854775808 entries; 392 bytes can hold 6" },
    { "count-9", TINY_E_FORMAT, "says it has 9 entries" },
    { "count-6", TINY_E_FORMAT, "entry 5 at byte 408: 0 bytes are left" },
    { "count-4", TINY_E_FORMAT, "bytes follow its 4 entries" },
    { "kind-5", TINY_E_UNSUPPORTED, "entry 0 at byte 16 is of kind 5" },
    { "name-empty", TINY_E_FORMAT, "entry 0 at byte 16: its name has 0 bytes; 1 to 1023" },
    { "name-2e32", TINY_E_FORMAT, "its name has 4294967295 bytes, and" },
    { "name-with-0", TINY_E_FORMAT, "without control characters" },
    { "name-with-escape", TINY_E_FORMAT, "without control characters" },
    { "name-not-ended", TINY_E_FORMAT, "its name must be followed by zeros" },
    { "name-twice", TINY_E_FORMAT, "two entries have the name step" },
    { "number-of-9-bytes", TINY_E_FORMAT, "u64 step says it has 9 bytes; they are 8" },
    { "number-with-rank", TINY_E_FORMAT, "u64 step must not have a data type or a rank" },
    { "number-with-dim", TINY_E_FORMAT, "u64 step: unused dimension 0 (rank 0) is 3, it must be 0" },
    { "text-2e63", TINY_E_FORMAT, "text what needs 9223372036854775808 bytes" },
    { "text-with-0", TINY_E_FORMAT, "text what has a 0 among its 5 bytes" },
    { "text-not-ended", TINY_E_FORMAT, "text what must be followed by zeros" },
    { "tensor-dtype-9", TINY_E_UNSUPPORTED, "tensor w has data type 9" },
    { "tensor-dtype-2e32", TINY_E_UNSUPPORTED, "tensor w has data type 4294967295" },
    { "tensor-rank-5", TINY_E_FORMAT, "tensor w has 5 dimensions; the maximum is 4" },
    { "tensor-dim-past-rank", TINY_E_FORMAT, "tensor w: unused dimension 2 (rank 2) is 1, it must be 0" },
    { "tensor-dims-wrap", TINY_E_OVERFLOW, "tensor w: with 4611686018427387904 at dimension 1" },
    { "tensor-dims-wrap-empty", TINY_E_OVERFLOW, "tensor w: with " },
    { "tensor-dim-negative", TINY_E_OVERFLOW, "tensor w: with 18446744073709551615 at dimension 0" },
    { "tensor-bytes", TINY_E_FORMAT, "tensor w says it has 20 bytes; they are 24" },
    { "tensor-past-end", TINY_E_FORMAT, "tensor w needs 48 bytes at byte 384, and 24 are left" },
    { "tensor-pad-not-0", TINY_E_FORMAT, "tensor w: the padding before its values, up to a multiple of 64," },
    { "tail-not-0", TINY_E_FORMAT, "bytes raw must be followed by zeros" }
};

static void lie(image *m, const char *file)
{
    size_t step = 16, what, raw, w;
    by_hand(m);
    for (what = 0; memcmp(m->b + what, "what", 4); what++) {}
    for (raw = 0; memcmp(m->b + raw, "raw", 4); raw++) {}
    for (w = 0; memcmp(m->b + w, "w\0\0\0\0\0\0", 8); w++) {}
    what -= 56; raw -= 56; w -= 56;
#define IS(name) (!strcmp(file, name))
    if (IS("empty")) { m->n = 0; return; }
    if (IS("foreign")) { memcpy(m->b, "GGUF\3\0\0\0", 8); return; }
    if (IS("text-transfer")) { memmove(m->b + 8, m->b + 7, m->n - 7); m->b[7] = '\r'; m->n++; return; }
    if (IS("version-2")) set(m, 8, 2, 4);
    if (IS("alignment-0")) set(m, 12, 0, 4);
    if (IS("end-missing")) { memset(m->b + m->n - 32, 0, 32); return; }
    if (IS("size-2e63")) set(m, m->n - 16, UINT64_C(1) << 63, 8);
    if (IS("checksum")) { m->b[m->n - 40] ^= 1; return; }
    if (IS("count-2e63")) set(m, m->n - 24, UINT64_C(1) << 63, 8);
    if (IS("count-9")) set(m, m->n - 24, 9, 8);
    if (IS("count-6")) set(m, m->n - 24, 6, 8);
    if (IS("count-4")) set(m, m->n - 24, 4, 8);
    if (IS("kind-5")) set(m, step, 5, 4);
    if (IS("name-empty")) set(m, step + 12, 0, 4);
    if (IS("name-2e32")) set(m, step + 12, 0xffffffffu, 4);
    if (IS("name-with-0")) m->b[step + 57] = 0;
    if (IS("name-with-escape")) m->b[step + 57] = 27;
    if (IS("name-not-ended")) m->b[step + 60] = 's';
    if (IS("name-twice")) memcpy(m->b + what + 56, "step", 4);
    if (IS("number-of-9-bytes")) set(m, step + 48, 9, 8);
    if (IS("number-with-rank")) set(m, step + 8, 1, 4);
    if (IS("number-with-dim")) set(m, step + 16, 3, 8);
    if (IS("text-2e63")) set(m, what + 48, UINT64_C(1) << 63, 8);
    if (IS("text-with-0")) m->b[what + 66] = 0;
    if (IS("text-not-ended")) m->b[what + 69] = '!';
    if (IS("tensor-dtype-9")) set(m, w + 4, 9, 4);
    if (IS("tensor-dtype-2e32")) set(m, w + 4, 0xffffffffu, 4);
    if (IS("tensor-rank-5")) set(m, w + 8, 5, 4);
    if (IS("tensor-dim-past-rank")) set(m, w + 32, 1, 8);
    if (IS("tensor-dims-wrap")) { set(m, w + 16, 4, 8); set(m, w + 24, UINT64_C(1) << 62, 8); set(m, w + 48, 0, 8); }
    if (IS("tensor-dims-wrap-empty")) {
        set(m, w + 8, 3, 4);
        set(m, w + 16, UINT64_C(1) << 60, 8);
        set(m, w + 24, 0, 8);
        set(m, w + 32, UINT64_C(1) << 60, 8);
        set(m, w + 48, 0, 8);
    }
    if (IS("tensor-dim-negative")) set(m, w + 16, UINT64_MAX, 8);
    if (IS("tensor-bytes")) set(m, w + 48, 20, 8);
    if (IS("tensor-past-end")) { set(m, w + 16, 4, 8); set(m, w + 48, 48, 8); }
    if (IS("tensor-pad-not-0")) m->b[w + 64] = 1;
    if (IS("tail-not-0")) m->b[raw + 56 + 4 + 4 + 7] = 1;
    seal(m);
}

static void test_false_descriptions(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *folder = getenv("T_CORPUS");
    image *m = (image *)t_keep(sizeof *m);
    tiny_checkpoint *c;
    char path[600];
    size_t i;
    for (i = 0; i < T_COUNT(lies); i++) {
        tiny_file kept;
        lie(m, lies[i].file);
        if (!T_STATUS(open_image(ctx, m, &c), lies[i].status, lies[i].says)) printf("    in %s\n", lies[i].file);
        T_TRUE(c == NULL);
        if (folder) {
            (void)snprintf(path, sizeof path, "%s/%s", folder, lies[i].file);
            T_OK(tiny_file_write(ctx, path, m->b, m->n));
        }
        (void)snprintf(path, sizeof path, "tests/fuzz/corpus/checkpoint/%s", lies[i].file);
        if (T_OK(tiny_file_copy(ctx, path, &kept))) T_TRUE(kept.n_bytes == m->n && !memcmp(kept.bytes, m->b, m->n));
        tiny_file_close(ctx, &kept);
    }
    by_hand(m);
    if (folder) {
        (void)snprintf(path, sizeof path, "%s/good", folder);
        T_OK(tiny_file_write(ctx, path, m->b, m->n));
    }
    /* without the checksum a changed value is not noticed, a changed structure is */
    {
        tiny_checkpoint_desc d = { 0 };
        d.bytes = m->b;
        d.n_bytes = m->n;
        d.no_checksum = 1;
        m->b[m->n - 40] ^= 1;
        T_OK(tiny_checkpoint_open(ctx, &d, &c));
        tiny_checkpoint_close(ctx, c);
        m->b[20] ^= 1;
        T_STATUS(tiny_checkpoint_open(ctx, &d, &c), TINY_E_FORMAT, "must not have a data type or a rank");
    }
    T_STATUS(tiny_checkpoint_open(ctx, NULL, &c), TINY_E_ARGUMENT, "needs a path or its bytes");
    {
        tiny_checkpoint_desc d = { 0 };
        d.path = "there/is/no.ckpt";
        T_STATUS(tiny_checkpoint_open(ctx, &d, &c), TINY_E_IO, "there/is/no.ckpt: cannot be opened");
    }
    tiny_checkpoint_close(ctx, NULL);
    t_close(ctx);
}

/* ---- no memory, no disk ------------------------------------------------------------------------------------------ */

static tiny_status write_state(tiny_ctx *ctx, const char *path, tiny_idx n, uint64_t step)
{
    static float x[20000];
    tiny_tensor t = tiny_tensor_1d(x, TINY_F32, n);
    tiny_checkpoint_writer_desc d = { 0 };
    tiny_checkpoint_writer *w;
    tiny_status st;
    d.path = path;
    st = tiny_checkpoint_create(ctx, &d, &w);
    if (st) return st;
    (void)tiny_checkpoint_put_u64(ctx, w, "step", step);
    (void)tiny_checkpoint_put_tensor(ctx, w, "adam.m", &t);
    (void)tiny_checkpoint_put_tensor(ctx, w, "adam.v", &t);
    st = tiny_checkpoint_finish(ctx, w);
    tiny_checkpoint_writer_close(ctx, w);
    return st;
}

static uint64_t step_of(tiny_ctx *ctx, const char *path)
{
    tiny_checkpoint_desc d = { 0 };
    tiny_checkpoint *c;
    uint64_t v = 0;
    d.path = path;
    if (T_OK(tiny_checkpoint_open(ctx, &d, &c))) T_OK(tiny_checkpoint_get_u64(ctx, c, "step", &v));
    tiny_checkpoint_close(ctx, c);
    return v;
}

static void test_each_allocation(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_checkpoint *c;
        if (!tiny_ctx_open(&d, &ctx)) {
            tiny_status st = write_state(ctx, "tiny-each.ckpt", 100, 3);
            T_TRUE(!st || st == TINY_E_MEMORY);
            if (!st) {
                tiny_checkpoint_desc rd = { 0 };
                rd.path = "tiny-each.ckpt";
                rd.copy = 1;
                st = tiny_checkpoint_open(ctx, &rd, &c);
                T_TRUE(!st || (st == TINY_E_MEMORY && !c));
                tiny_checkpoint_close(ctx, c);
            }
            T_TRUE(fopen("tiny-each.ckpt.part", "rb") == NULL);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("tiny-each.ckpt");
}

static void test_full_disk(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    FILE *full = fopen("/dev/full", "wb");
    if (!full) T_SKIP("no /dev/full");
    else {
        tiny_idx n;
        (void)fclose(full);
        T_OK(write_state(ctx, "tiny-full.ckpt", 100, 5));
        for (n = 1; n <= 20000; n *= 10) {                  /* at the end, and in the middle */
            (void)remove("tiny-full.ckpt.part");
            if (symlink("/dev/full", "tiny-full.ckpt.part")) break;
            T_STATUS(write_state(ctx, "tiny-full.ckpt", n, 6), TINY_E_IO, "bytes could not be written");
            T_TRUE(fopen("tiny-full.ckpt.part", "rb") == NULL);
            T_EQ_INT(step_of(ctx, "tiny-full.ckpt"), 5);    /* the old one remains */
        }
        T_OK(write_state(ctx, "tiny-full.ckpt", 100, 7));
        T_EQ_INT(step_of(ctx, "tiny-full.ckpt"), 7);
        T_EQ_INT(remove("tiny-full.ckpt"), 0);
    }
    t_close(ctx);
#endif
}

int main(void)
{
    T_RUN(test_hash);
    T_RUN(test_by_hand);
    T_RUN(test_every_type);
    T_RUN(test_numbers);
    T_RUN(test_other_byte_order);
    T_RUN(test_many);
    T_RUN(test_writer_refuses);
    T_RUN(test_every_cut);
    T_RUN(test_every_bit);
    T_RUN(test_false_descriptions);
    T_RUN(test_each_allocation);
    T_RUN(test_full_disk);
    return t_done();
}
