/* tests/llm/file/gguf.c - GGUF: good files, values, round trips, the writer, files in parts; tests/llm/file/gguf_bad.c
 * has the others */
#include "t.h"
#include "llm/file/kit.h"
#if T_PAGES
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#define OPEN_FD(path) open(path, O_RDONLY)
#define CLOSE_FD(fd) close(fd)
#elif defined _WIN32
#include <fcntl.h>
#include <io.h>
#define OPEN_FD(path) _open(path, _O_RDONLY | _O_BINARY)
#define CLOSE_FD(fd) _close(fd)
#endif

/* ---- good files -------------------------------------------------------------------------------------------------- */

static void open_all(const char *folder, int *n_good, int *n_all)
{
#if T_PAGES
    DIR *d = opendir(folder);
    struct dirent *e;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    while (d && (e = readdir(d)) != NULL) {
        char path[1000];
        tllm_gguf *g;
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".gguf")) continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ++*n_all;
        if (!T_OK(tllm_gguf_open(ctx, path, &g))) continue;
        if (T_TRUE(kit_walk(g) == NULL)) ++*n_good;
        tllm_gguf_close(ctx, g);
    }
    if (d) (void)closedir(d);
    t_close(ctx);
#else
    (void)folder;
    (void)n_good;
    (void)n_all;
#endif
}

static void test_good_files(void)
{
    static const char *const marks[] = { "oracle/llm/README.md", "oracle/tokenizer/README.md",
                                         "data/tinystories/README.md" };
    int n_good = 0, n_all = 0;
    size_t i;
    for (i = 0; i < T_COUNT(marks); i++) {
        const char *mark = t_one_of(marks[i]);
        char folder[600];
        if (!mark) continue;
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(strlen(mark) - strlen("/README.md")), mark);
        open_all(folder, &n_good, &n_all);
    }
    open_all("tests/golden", &n_good, &n_all);
    open_all("examples/models", &n_good, &n_all);
    T_EQ_INT(n_good, n_all);
    if (!n_all) T_SKIP("folders cannot be listed here");
    else T_TRUE(n_all >= 18);               /* those of the repository */
    printf("GGUF files: %d of %d open and can be walked\n", n_good, n_all);
}

static void test_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    const tllm_meta *v;
    const tllm_gguf_tensor *t;
    int64_t i64 = 7;
    double f64;
    tllm_text text;
    size_t data_at;
    kit_head(&m, 3, 2, 4);
    kit_key_u32(&m, "llama.block_count", 5);
    kit_array(&m, "tokens", TLLM_STRING, 2);
    kit_text(&m, "<s>");
    kit_text(&m, "");
    kit_key(&m, "eps", TLLM_F32);
    kit_u32(&m, 0x3f800000u);
    kit_key(&m, "name", TLLM_STRING);
    kit_text(&m, "llama");
    kit_tensor(&m, "a", 2, 32, 3, 8, 0);    /* Q8_0: 3 rows of 34 bytes */
    kit_tensor(&m, "b.weight", 1, 4, 0, 0, 128);
    kit_pad(&m, 32);
    data_at = m.n;
    kit_data(&m, 128 + 16);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g))) {
        T_EQ_INT(tllm_gguf_version(g), 3);
        T_EQ_INT(tllm_gguf_alignment(g), 32);
        T_EQ_INT(tllm_gguf_n_parts(g), 1);
        T_EQ_TEXT(tllm_gguf_path(g, 0), "memory");
        T_EQ_INT(tllm_gguf_bytes(g, 0), m.n);
        T_EQ_INT(tllm_gguf_n_meta(g), 4);
        T_TRUE(tllm_meta_i64(tllm_gguf_find(g, "llama.block_count"), 0, &i64) && i64 == 5);
        T_TRUE(!tllm_meta_i64(tllm_gguf_find(g, "llama.block_coun"), 0, &i64) &&
               !tllm_meta_i64(tllm_gguf_find(g, "eps"), 0, &i64) && i64 == 5);
        T_TRUE(tllm_meta_f64(tllm_gguf_find(g, "eps"), 0, &f64) && f64 == 1.0);
        v = tllm_gguf_find(g, "tokens");
        T_TRUE(v && v->type == TLLM_ARRAY && v->item_type == TLLM_STRING && v->count == 2);
        T_TRUE(tllm_meta_text(v, 0, &text) && tllm_text_is(text, "<s>") && tllm_meta_text(v, 1, &text) &&
               tllm_text_is(text, "") && !tllm_meta_text(v, 2, &text));
        T_TRUE(tllm_meta_text(tllm_gguf_find(g, "name"), 0, &text) && tllm_text_is(text, "llama") &&
               !tllm_text_is(text, "llam") && !tllm_text_is(text, "llama2"));
        t = tllm_gguf_tensor_find(g, "a");
        T_TRUE(t && t->type == 8 && t->rank == 2 && t->dim[0] == 32 && t->dim[1] == 3 && t->dim[2] == 1 &&
               t->bytes == 102);
        T_TRUE(t && t->data == m.b + data_at && tllm_gguf_offset(g, t) == data_at);
        t = tllm_gguf_tensor_find(g, "b.weight");
        T_TRUE(t && t == tllm_gguf_tensor_at(g, 1) && t->bytes == 16 && t->data == m.b + data_at + 128);
        T_TRUE(!tllm_gguf_tensor_find(g, "b") && !tllm_gguf_tensor_find(g, NULL) && !tllm_gguf_find(g, NULL) &&
               !tllm_gguf_find(g, ""));
        T_TRUE(kit_walk(g) == NULL);
        tllm_gguf_close(ctx, g);
    }
    T_STATUS(tllm_gguf_open_memory(ctx, NULL, 3, &g), TINY_E_ARGUMENT, "the bytes or the result pointer is NULL");
    T_STATUS(tllm_gguf_open(ctx, NULL, &g), TINY_E_ARGUMENT, "the path, the bytes or the result");
    T_STATUS(tllm_gguf_open(ctx, "there/is/none.gguf", &g), TINY_E_IO, "there/is/none.gguf: cannot be opened");
    T_TRUE(tllm_gguf_open(NULL, "x", &g) == TINY_E_ARGUMENT && !g);
    tllm_gguf_close(ctx, NULL);
    T_TRUE(!tllm_gguf_n_meta(NULL) && !tllm_gguf_n_tensors(NULL) && !tllm_gguf_meta_at(NULL, 0) &&
           !tllm_gguf_tensor_at(NULL, 0) && !tllm_gguf_path(NULL, 0));
    T_TRUE(!tllm_meta_i64(NULL, 0, &i64) && !tllm_meta_text(NULL, 0, &text));
    kit_free(&m);
    t_close(ctx);
}

/* conversions without loss, type by type */
static void test_values(void)
{
    static const struct { int type; uint64_t bits; int i64, u64, f64; int64_t as_i64; double as_f64; } row[] = {
        { TLLM_U8, 255, 1, 1, 1, 255, 255 },           { TLLM_I8, 0x80, 1, 0, 1, -128, -128 },
        { TLLM_I8, 0x7f, 1, 1, 1, 127, 127 },          { TLLM_U16, 0xffff, 1, 1, 1, 65535, 65535 },
        { TLLM_I16, 0xffff, 1, 0, 1, -1, -1 },         { TLLM_U32, 0xffffffffu, 1, 1, 1, 4294967295LL, 4294967295.0 },
        { TLLM_I32, 0x80000000u, 1, 0, 1, -2147483648LL, -2147483648.0 },
        { TLLM_U64, UINT64_C(0xffffffffffffffff), 0, 1, 0, 0, 0 },
        { TLLM_U64, UINT64_C(0x8000000000000000), 0, 1, 1, 0, 9223372036854775808.0 },
        { TLLM_U64, UINT64_C(0x20000000000001), 1, 1, 0, 9007199254740993LL, 0 },       /* 2^53 + 1 */
        { TLLM_I64, UINT64_C(0x8000000000000000), 1, 0, 1, INT64_MIN, -9223372036854775808.0 },
        { TLLM_I64, UINT64_C(0xffffffffffffffff), 1, 0, 1, -1, -1 },
        { TLLM_F32, 0x3fc00000u, 0, 0, 1, 0, 1.5 },    { TLLM_F64, UINT64_C(0xbff8000000000000), 0, 0, 1, 0, -1.5 },
        { TLLM_BOOL, 1, 0, 0, 0, 0, 0 }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        kit_image m = { NULL, 0, 0 };
        tllm_gguf *g;
        kit_head(&m, 3, 0, 1);
        kit_key(&m, "k", (uint32_t)row[i].type);
        kit_le(&m, row[i].bits, tllm_value_bytes(row[i].type));
        if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g))) {
            const tllm_meta *v = tllm_gguf_find(g, "k");
            int64_t i64 = 77;
            uint64_t u64 = 77;
            double f64 = 77;
            int yes = 77;
            T_EQ_INT(tllm_meta_i64(v, 0, &i64), row[i].i64);
            T_EQ_INT(i64, row[i].i64 ? row[i].as_i64 : 77);
            T_EQ_INT(tllm_meta_u64(v, 0, &u64), row[i].u64);
            T_TRUE(u64 == (row[i].u64 ? row[i].bits : 77));
            T_EQ_INT(tllm_meta_f64(v, 0, &f64), row[i].f64);
            T_TRUE(f64 == (row[i].f64 ? row[i].as_f64 : 77));
            T_EQ_INT(tllm_meta_bool(v, 0, &yes), row[i].type == TLLM_BOOL);
            T_TRUE(!tllm_meta_i64(v, 1, &i64) && !tllm_meta_f64(v, 1, &f64) && !tllm_meta_bool(v, 1, &yes));
            tllm_gguf_close(ctx, g);
        }
        kit_free(&m);
    }
    t_close(ctx);
}

/* ---- the writer, and its files read again
 * ------------------------------------------------------------------------- */

/* keys of every type, scalars and arrays of many lengths, tensors of several types */
static tiny_status write_much(tiny_ctx *ctx, const tllm_writer_desc *desc, int stream, tllm_writer **out)
{
    static const size_t lengths[] = { 0, 1, 7, 8, 9, 16, 17, 100 };
    static const uint64_t dims[4][4] = { { 5, 1, 1, 1 }, { 32, 3, 1, 1 }, { 4, 3, 2, 1 }, { 2, 2, 2, 2 } };
    static const int types[4] = { 0, 8, 1, 30 };
    static const size_t bytes[4] = { 20, 102, 48, 32 };
    static unsigned char values[100 * 8], data[4][128];
    static char words[100][16];
    tllm_text texts[100];
    tllm_writer *w;
    tiny_status st = tllm_writer_open(ctx, desc, &w);
    size_t i, k;
    int type;
    *out = w;
    if (st) return st;
    for (i = 0; i < 100; i++) {
        (void)snprintf(words[i], sizeof words[i], "%.*s%u", (int)(i % 8), "tokens\xe2\x96\x81", (unsigned)i);
        texts[i].at = words[i];
        texts[i].n = i == 3 ? 0 : strlen(words[i]);
    }
    for (i = 0; i < sizeof values; i++) values[i] = (unsigned char)(i * 73 + 5);
    for (i = 0; i < 4 * 128; i++) data[i / 128][i % 128] = (unsigned char)(i * 31 + 7);
    for (type = 0; type < TLLM_VALUE_TYPES; type++) {
        unsigned char bools[100];
        const void *v = type == TLLM_STRING ? (const void *)texts
                        : type == TLLM_BOOL ? (const void *)bools
                                            : (const void *)values;
        char key[40];
        if (type == TLLM_ARRAY) continue;
        for (i = 0; i < 100; i++) bools[i] = i % 3 == 0;
        (void)snprintf(key, sizeof key, "scalar.%s", tllm_value_name(type));
        (void)tllm_writer_put(ctx, w, key, type, v);
        for (k = 0; k < T_COUNT(lengths); k++) {
            (void)snprintf(key, sizeof key, "array.%s.%u", tllm_value_name(type), (unsigned)lengths[k]);
            (void)tllm_writer_put_array(ctx, w, key, type, v, lengths[k]);
        }
    }
    for (i = 0; i < 4; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "tensor.%u", (unsigned)i);
        (void)tllm_writer_put_tensor(ctx, w, kit_name(name), types[i], (int)i + 1, dims[i],
                                     stream && i % 2 ? NULL : data[i]);
    }
    for (i = 1; i < 4 && stream; i += 2)    /* in pieces of odd sizes */
        for (k = 0; k < bytes[i]; k += 13)
            (void)tllm_writer_data(ctx, w, data[i] + k, bytes[i] - k < 13 ? bytes[i] - k : 13);
    return tllm_writer_finish(ctx, w);
}

static void check_much(const tllm_gguf *g)
{
    static const size_t lengths[] = { 0, 1, 7, 8, 9, 16, 17, 100 };
    const uint16_t one = 1;
    const int little = *(const unsigned char *)&one;
    size_t i, k, n;
    int type;
    T_TRUE(kit_walk(g) == NULL);
    for (type = 0; type < TLLM_VALUE_TYPES; type++) {
        char key[40], word[40];
        if (type == TLLM_ARRAY) continue;
        for (k = 0; k <= T_COUNT(lengths); k++) {
            const tllm_meta *m;
            n = k < T_COUNT(lengths) ? lengths[k] : 1;
            if (k < T_COUNT(lengths))
                (void)snprintf(key, sizeof key, "array.%s.%u", tllm_value_name(type), (unsigned)n);
            else (void)snprintf(key, sizeof key, "scalar.%s", tllm_value_name(type));
            m = tllm_gguf_find(g, key);
            if (!T_TRUE(m && m->count == n && m->item_type == type &&
                        m->type == (k < T_COUNT(lengths) ? TLLM_ARRAY : type)))
                return;
            for (i = 0; i < n; i++) {
                tllm_text t;
                int yes;
                if (type == TLLM_STRING) {
                    (void)snprintf(word, sizeof word, "%.*s%u", (int)(i % 8), "tokens\xe2\x96\x81", (unsigned)i);
                    T_TRUE(tllm_meta_text(m, i, &t) && tllm_text_is(t, i == 3 ? "" : word));
                } else if (type == TLLM_BOOL) T_TRUE(tllm_meta_bool(m, i, &yes) && yes == (i % 3 == 0));
                else {
                    size_t each = tllm_value_bytes(type), b;    /* the file is little endian, the values were native */
                    for (b = 0; b < each; b++)
                        T_EQ_INT(m->at[i * each + b],
                                 (unsigned char)((i * each + (little ? b : each - 1 - b)) * 73 + 5));
                }
            }
        }
    }
    T_EQ_INT(tllm_gguf_n_tensors(g), 4);
    for (i = 0; i < 4; i++) {
        static const size_t bytes[4] = { 20, 102, 48, 32 };
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (!T_TRUE(t && t->bytes == bytes[i] && t->rank == (int)i + 1)) return;
        for (k = 0; k < bytes[i]; k++) T_EQ_INT(t->data[k], (unsigned char)((i * 128 + k) * 31 + 7));
    }
}

static void test_round_trip(void)
{
    static const uint32_t alignments[] = { 0, 8, 64, 4096 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    uint32_t version;
    size_t i, k;
    int stream;
    for (version = 2; version <= 3; version++)
        for (i = 0; i < T_COUNT(alignments); i++)
            for (stream = 0; stream < 2; stream++) {
                tllm_writer_desc d;
                tllm_writer *w, *again;
                tllm_gguf *g;
                const void *file, *file2;
                size_t n, n2;
                memset(&d, 0, sizeof d);
                d.version = version;
                d.alignment = alignments[i];
                if (!T_OK(write_much(ctx, &d, stream, &w))) { tllm_writer_close(ctx, w); continue; }
                file = tllm_writer_memory(w, &n);
                if (T_OK(tllm_gguf_open_memory(ctx, file, n, &g))) {
                    T_EQ_INT(tllm_gguf_version(g), version);
                    T_EQ_INT(tllm_gguf_alignment(g), alignments[i] ? alignments[i] : 32);
                    check_much(g);
                    for (k = 0; k < 4; k++)
                        T_EQ_INT(tllm_gguf_offset(g, tllm_gguf_tensor_at(g, k)) % tllm_gguf_alignment(g), 0);
                    /* a copy through put_meta and put_tensor is the same file */
                    memset(&d, 0, sizeof d);
                    d.version = version;
                    if (T_OK(tllm_writer_open(ctx, &d, &again))) {
                        for (k = 0; k < tllm_gguf_n_meta(g); k++)
                            T_OK(tllm_writer_put_meta(ctx, again, tllm_gguf_meta_at(g, k)));
                        for (k = 0; k < tllm_gguf_n_tensors(g); k++) {
                            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, k);
                            T_OK(tllm_writer_put_tensor(ctx, again, t->name, t->type, t->rank, t->dim, t->data));
                        }
                        T_OK(tllm_writer_finish(ctx, again));
                        file2 = tllm_writer_memory(again, &n2);
                        if (T_EQ_INT(n2, n)) T_SAME((const unsigned char *)file, (const unsigned char *)file2, n);
                        tllm_writer_close(ctx, again);
                    }
                    tllm_gguf_close(ctx, g);
                }
                tllm_writer_close(ctx, w);
            }
    t_close(ctx);
}

/* a later value takes the place of the first one */
static void test_replace(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer *w;
    tllm_gguf *g;
    size_t n;
    const void *file;
    uint64_t v = 0;
    tllm_text t;
    T_OK(tllm_writer_open(ctx, NULL, &w));
    T_OK(tllm_writer_put_u32(ctx, w, "a", 1));
    T_OK(tllm_writer_put_text(ctx, w, "b", "old"));
    T_OK(tllm_writer_put_u64(ctx, w, "c", 5));
    T_OK(tllm_writer_put_text(ctx, w, "b", "new and longer"));
    T_OK(tllm_writer_put_u32(ctx, w, "b", 2));
    T_OK(tllm_writer_put_text(ctx, w, "b", "last"));
    T_OK(tllm_writer_put_u32(ctx, w, "split.count", 9));   /* the writer's own */
    T_OK(tllm_writer_put_i32(ctx, w, "d", -4));
    T_OK(tllm_writer_put_f32(ctx, w, "e", 0.5f));
    T_OK(tllm_writer_put_bool(ctx, w, "f", 1));
    T_OK(tllm_writer_finish(ctx, w));
    T_STATUS(tllm_writer_put_u32(ctx, w, "g", 1), TINY_E_ARGUMENT, "before finish");
    file = tllm_writer_memory(w, &n);
    if (T_OK(tllm_gguf_open_memory(ctx, file, n, &g))) {
        T_EQ_INT(tllm_gguf_n_meta(g), 6);
        T_TRUE(tllm_text_is(tllm_gguf_meta_at(g, 1)->key, "b") && tllm_meta_text(tllm_gguf_meta_at(g, 1), 0, &t) &&
               tllm_text_is(t, "last"));
        T_TRUE(tllm_meta_u64(tllm_gguf_find(g, "c"), 0, &v) && v == 5 && !tllm_gguf_find(g, "split.count"));
        tllm_gguf_close(ctx, g);
    }
    tllm_writer_close(ctx, w);
    t_close(ctx);
}

static void test_writer_refuses(void)
{
    static const float four[4] = { 1, 2, 3, 4 };
    static const uint64_t dim[4] = { 4, 0, 1, 1 }, huge[4] = { UINT64_C(1) << 40, UINT64_C(1) << 40, 1, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer_desc d;
    tllm_writer *w;
    int kind;
    memset(&d, 0, sizeof d);
    d.version = 1;
    T_STATUS(tllm_writer_open(ctx, &d, &w), TINY_E_ARGUMENT, "version 1 cannot be written");
    d.version = 0;
    d.alignment = 12;
    T_STATUS(tllm_writer_open(ctx, &d, &w), TINY_E_ARGUMENT, "alignment 12");
    d.alignment = 0;
    d.part_bytes = 10;
    T_STATUS(tllm_writer_open(ctx, &d, &w), TINY_E_ARGUMENT, "only a file with a path can be split");
    for (kind = 0; kind < 14; kind++) {
        T_OK(tllm_writer_open(ctx, NULL, &w));
        switch (kind) {
        case 0:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 2, dim, NULL), TINY_E_ARGUMENT,
                     "tensor t: dimension 1 is 0");
            break;
        case 1:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 99, 1, dim, NULL), TINY_E_UNSUPPORTED,
                     "has the unknown type 99");
            break;
        case 2:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 8, 1, dim, NULL), TINY_E_FORMAT,
                     "rows of 4 values; Q8_0 needs a multiple of 32");
            break;
        case 3:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 2, huge, NULL), TINY_E_FORMAT, "above 2^63");
            break;
        case 4:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), TLLM_TYPE_BOOL, 1, dim, NULL), TINY_E_UNSUPPORTED,
                     "GGUF has no type BOOL");
            break;
        case 5:
            T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 5, dim, NULL), TINY_E_ARGUMENT, "5 dimensions");
            break;
        case 6:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, four));
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, four));
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "tensor t was put twice");
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "put twice");      /* it stays */
            break;
        case 7:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, NULL));
            T_OK(tllm_writer_data(ctx, w, four, 15));
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "tensor t has 16 bytes, but only 15 were written");
            break;
        case 8:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, NULL));
            T_OK(tllm_writer_data(ctx, w, four, 16));
            T_STATUS(tllm_writer_data(ctx, w, four, 1), TINY_E_ARGUMENT, "1 bytes of data after the last tensor");
            break;
        case 9:
            T_OK(tllm_writer_data(ctx, w, NULL, 0));
            T_STATUS(tllm_writer_put_u32(ctx, w, "k", 1), TINY_E_ARGUMENT, "must be put before the first data");
            break;
        case 10: T_STATUS(tllm_writer_put(ctx, w, "", TLLM_U8, four), TINY_E_ARGUMENT, "has 0 bytes"); break;
        case 11:
            T_STATUS(tllm_writer_put(ctx, w, "k", TLLM_ARRAY, four), TINY_E_ARGUMENT,
                     "key k: type 9 cannot be written");
            break;
        case 12:
            T_STATUS(tllm_writer_put_u32(ctx, w, "general.alignment", 24), TINY_E_ARGUMENT,
                     "general.alignment must be");
            break;
        case 13: T_STATUS(tllm_writer_put_text(ctx, w, "k", NULL), TINY_E_ARGUMENT, "key k has no value"); break;
        }
        tllm_writer_close(ctx, w);
    }
    memset(&d, 0, sizeof d);
    d.path = "no/such/folder/x.gguf";
    T_OK(tllm_writer_open(ctx, &d, &w));
    T_STATUS(tllm_writer_finish(ctx, w), TINY_E_IO, "no/such/folder/x.gguf.part: cannot be opened for writing");
    tllm_writer_close(ctx, w);
    tllm_writer_close(ctx, NULL);
#if T_PAGES
    (void)remove("tiny-full.gguf.part");
    if (!symlink("/dev/full", "tiny-full.gguf.part")) {
        d.path = "tiny-full.gguf";
        T_TRUE(write_much(ctx, &d, 0, &w) == TINY_E_IO);
        tllm_writer_close(ctx, w);
        T_TRUE(fopen("tiny-full.gguf", "rb") == NULL && fopen("tiny-full.gguf.part", "rb") == NULL);
    }
    if (!symlink("tiny-victim.gguf", "tiny-full.gguf.part")) {     /* to a missing file: it is not created */
        d.path = "tiny-full.gguf";
        T_OK(tllm_writer_open(ctx, &d, &w));
        T_STATUS(tllm_writer_finish(ctx, w), TINY_E_IO, "tiny-full.gguf.part: is a symbolic link");
        tllm_writer_close(ctx, w);
        T_TRUE(fopen("tiny-victim.gguf", "rb") == NULL && unlink("tiny-full.gguf.part") == 0);
    }
#endif
    t_close(ctx);
}

/* ---- files in parts, at an offset of a descriptor ---------------------------------------------------------------- */

static void test_split(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer_desc d;
    tllm_writer *w;
    tllm_gguf *g;
    char path[64];
    int i, align;
    tiny_file f;
    for (align = 0; align <= 64; align += 64) {
        memset(&d, 0, sizeof d);
        d.path = "tiny-split.gguf";
        d.part_bytes = 80;                  /* 20, then 102 alone, then 48 + 32 */
        d.alignment = (uint32_t)align;
        T_OK(write_much(ctx, &d, 1, &w));
        tllm_writer_close(ctx, w);
        T_TRUE(fopen("tiny-split.gguf", "rb") == NULL && fopen("tiny-split-00001-of-00003.gguf.part", "rb") == NULL);
        for (i = 1; i <= 3; i++) {          /* any part leads to all */
            (void)snprintf(path, sizeof path, "tiny-split-%05d-of-00003.gguf", i);
            if (!T_OK(tllm_gguf_open(ctx, path, &g))) continue;
            T_EQ_INT(tllm_gguf_n_parts(g), 3);
            T_EQ_TEXT(tllm_gguf_path(g, 1), "tiny-split-00002-of-00003.gguf");
            T_EQ_INT(tllm_gguf_tensor_at(g, 0)->part, 0);
            T_EQ_INT(tllm_gguf_tensor_at(g, 1)->part, 1);
            T_EQ_INT(tllm_gguf_tensor_at(g, 3)->part, 2);
            check_much(g);
            tllm_gguf_close(ctx, g);
        }
    }
    if (T_OK(tiny_file_copy(ctx, "tiny-split-00002-of-00003.gguf", &f))) {
        T_STATUS(tllm_gguf_open_memory(ctx, f.bytes, f.n_bytes, &g), TINY_E_UNSUPPORTED,
                 "memory: is part 2 of 3 of a split file; open it by its path");
        T_OK(tiny_file_write(ctx, "tiny-renamed.gguf", f.bytes, f.n_bytes));
        T_STATUS(tllm_gguf_open(ctx, "tiny-renamed.gguf", &g), TINY_E_FORMAT, "must end in -00002-of-00003.gguf");
        T_OK(tiny_file_write(ctx, "tiny-split-00003-of-00003.gguf", f.bytes, f.n_bytes));
        T_STATUS(tllm_gguf_open(ctx, "tiny-split-00001-of-00003.gguf", &g), TINY_E_FORMAT,
                 "tiny-split-00003-of-00003.gguf: the file is part 2 of 3, not part 3 of 3");
        tiny_file_close(ctx, &f);
    }
    (void)remove("tiny-split-00003-of-00003.gguf");
    T_STATUS(tllm_gguf_open(ctx, "tiny-split-00001-of-00003.gguf", &g), TINY_E_IO,
             "tiny-split-00003-of-00003.gguf: cannot be opened");
    /* a split that leaves less than it needs: one file */
    d.part_bytes = 100000;
    d.alignment = 0;
    T_OK(write_much(ctx, &d, 0, &w));
    tllm_writer_close(ctx, w);
    if (T_OK(tllm_gguf_open(ctx, "tiny-split.gguf", &g))) {
        check_much(g);
        tllm_gguf_close(ctx, g);
    }
    (void)remove("tiny-split.gguf");
    (void)remove("tiny-renamed.gguf");
    (void)remove("tiny-split-00001-of-00003.gguf");
    (void)remove("tiny-split-00002-of-00003.gguf");
    t_close(ctx);
}

static void test_descriptor(void)
{
#ifdef OPEN_FD
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer_desc d;
    tllm_writer *w;
    tllm_gguf *g;
    size_t n;
    const void *file;
    memset(&d, 0, sizeof d);
    T_OK(write_much(ctx, &d, 0, &w));
    file = tllm_writer_memory(w, &n);
    if (file) {
        kit_image m = { NULL, 0, 0 };
        int fd;
        kit_data(&m, 5001);                 /* inside a package, at no page's border */
        kit_bytes(&m, file, n);
        kit_data(&m, 99);
        T_OK(tiny_file_write(ctx, "tiny-package.bin", m.b, m.n));
        fd = OPEN_FD("tiny-package.bin");
        if (T_OK(tllm_gguf_open_fd(ctx, fd, 5001, n, "model in a package", &g))) check_much(g);
        tllm_gguf_close(ctx, g);
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 5001, n - 40, "model in a package", &g), TINY_E_FORMAT,
                 "model in a package: tensor");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 0, 0, NULL, &g), TINY_E_FORMAT, "descriptor ");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 5001, m.n, "x", &g), TINY_E_ARGUMENT, "the file ends at");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, UINT64_MAX, 1, "x", &g), TINY_E_ARGUMENT, "the file ends at");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, m.n, 0, "x", &g), TINY_E_FORMAT, "x: has 0 bytes");
        T_STATUS(tllm_gguf_open_fd(ctx, -1, 0, 0, "x", &g), TINY_E_IO, "x: the size of the file cannot be read");
        if (T_OK(tllm_gguf_open_fd(ctx, fd, 5001, 0, "model", &g))) {
            (void)CLOSE_FD(fd);                /* the mapping stays */
            check_much(g);
            tllm_gguf_close(ctx, g);
        }
        kit_free(&m);
        (void)remove("tiny-package.bin");
    }
    tllm_writer_close(ctx, w);
    t_close(ctx);
#else
    T_SKIP("no descriptors");
#endif
}

#if T_PTHREAD
typedef struct pipe_bytes { const void *bytes; size_t n; } pipe_bytes;
static void *write_pipe(void *given)
{
    const pipe_bytes *b = (const pipe_bytes *)given;
    FILE *f = fopen("tiny-pipe", "wb");         /* waits for the reader */
    if (f) {
        (void)fwrite(b->bytes, 1, b->n, f);
        (void)fclose(f);
    }
    return NULL;
}

/* a pipe can be read once: it is opened once, and only GGUF is read from it */
static void test_pipe(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer_desc d;
    tllm_writer *w;
    tllm_gguf *g;
    pipe_bytes b;
    pthread_t thread;
    int kind;
    (void)signal(SIGPIPE, SIG_IGN);
    memset(&d, 0, sizeof d);
    T_OK(write_much(ctx, &d, 0, &w));
    (void)remove("tiny-pipe");
    if (mkfifo("tiny-pipe", 0600)) T_SKIP("no pipes");
    else for (kind = 0; kind < 2; kind++) {
        b.bytes = kind ? "\2\0\0\0\0\0\0\0{}" : tllm_writer_memory(w, &b.n);
        if (kind) b.n = 10;
        if (!b.bytes || pthread_create(&thread, NULL, write_pipe, &b)) { T_TRUE(!"no writer"); break; }
        (void)alarm(60);                        /* a pipe that is opened twice blocks for ever */
        if (kind)
            T_STATUS(tllm_file_open(ctx, "tiny-pipe", &g), TINY_E_UNSUPPORTED,
                     "tiny-pipe: is a pipe; only GGUF");
        else if (T_OK(tllm_file_open(ctx, "tiny-pipe", &g))) {
            check_much(g);
            tllm_gguf_close(ctx, g);
        }
        (void)pthread_join(thread, NULL);
        (void)alarm(0);
    }
    (void)remove("tiny-pipe");
    tllm_writer_close(ctx, w);
    t_close(ctx);
}
#else
static void test_pipe(void) { T_SKIP("no pipes"); }
#endif

static void test_each_allocation(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&d, &ctx)) {
            tllm_writer_desc wd;
            tllm_writer *w;
            tllm_gguf *g = NULL;
            tiny_status st;
            memset(&wd, 0, sizeof wd);
            wd.path = "tiny-each.gguf";
            wd.part_bytes = 80;
            st = write_much(ctx, &wd, 1, &w);
            tllm_writer_close(ctx, w);
            T_TRUE(!st || st == TINY_E_MEMORY);
            if (!st) st = tllm_gguf_open(ctx, "tiny-each-00001-of-00003.gguf", &g);
            T_TRUE(!st || st == TINY_E_MEMORY);
            T_TRUE(!st || !g);
            tllm_gguf_close(ctx, g);
            memset(&wd, 0, sizeof wd);
            st = write_much(ctx, &wd, 0, &w);
            if (!st) {
                size_t n;
                const void *file = tllm_writer_memory(w, &n);
                st = tllm_gguf_open_memory(ctx, file, n, &g);
                tllm_gguf_close(ctx, g);
            }
            T_TRUE(!st || st == TINY_E_MEMORY);
            tllm_writer_close(ctx, w);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("tiny-each-00001-of-00003.gguf");
    (void)remove("tiny-each-00002-of-00003.gguf");
    (void)remove("tiny-each-00003-of-00003.gguf");
}

int main(void)
{
    T_RUN(test_good_files);
    T_RUN(test_by_hand);
    T_RUN(test_values);
    T_RUN(test_round_trip);
    T_RUN(test_replace);
    T_RUN(test_writer_refuses);
    T_RUN(test_split);
    T_RUN(test_descriptor);
    T_RUN(test_pipe);
    T_RUN(test_each_allocation);
    return t_done();
}
