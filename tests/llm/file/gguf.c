/* tests/llm/file/gguf.c - GGUF: good files, round trips, files cut and flipped, and those that want to hurt
 *
 * The hostile files stand in tests/fuzz/corpus/gguf too, one for each row below; T_CORPUS=folder in the environment writes
 * them again.                                                                                                       */
#include "t.h"
#include "llm/file/kit.h"
#if T_PAGES
#include <dirent.h>
#include <fcntl.h>
#define OPEN_FD(path) open(path, O_RDONLY)
#define CLOSE_FD(fd) close(fd)
#elif defined _WIN32
#include <fcntl.h>
#include <io.h>
#define OPEN_FD(path) _open(path, _O_RDONLY | _O_BINARY)
#define CLOSE_FD(fd) _close(fd)
#endif

/* ---- good files ------------------------------------------------------------------------------------------------ */

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
    static const char *const marks[] = { "oracle/llm/README.md", "oracle/tokenizer/README.md", "data/tinystories/README.md" };
    int n_good = 0, n_all = 0;
    size_t i;
    for (i = 0; i < T_COUNT(marks); i++) {
        const char *mark = t_shared(marks[i]);
        char folder[600];
        if (!mark) return;
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(strlen(mark) - strlen("/README.md")), mark);
        open_all(folder, &n_good, &n_all);
    }
    T_EQ_INT(n_good, n_all);
    if (!n_all) T_SKIP("the folders of ../shared cannot be listed");
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
        T_TRUE(!tllm_meta_i64(tllm_gguf_find(g, "llama.block_coun"), 0, &i64) && !tllm_meta_i64(tllm_gguf_find(g, "eps"), 0, &i64) && i64 == 5);
        T_TRUE(tllm_meta_f64(tllm_gguf_find(g, "eps"), 0, &f64) && f64 == 1.0);
        v = tllm_gguf_find(g, "tokens");
        T_TRUE(v && v->type == TLLM_ARRAY && v->item_type == TLLM_STRING && v->count == 2);
        T_TRUE(tllm_meta_text(v, 0, &text) && tllm_text_is(text, "<s>") && tllm_meta_text(v, 1, &text) && tllm_text_is(text, "") && !tllm_meta_text(v, 2, &text));
        T_TRUE(tllm_meta_text(tllm_gguf_find(g, "name"), 0, &text) && tllm_text_is(text, "llama") && !tllm_text_is(text, "llam") && !tllm_text_is(text, "llama2"));
        t = tllm_gguf_tensor_find(g, "a");
        T_TRUE(t && t->type == 8 && t->rank == 2 && t->dim[0] == 32 && t->dim[1] == 3 && t->dim[2] == 1 && t->bytes == 102);
        T_TRUE(t && t->data == m.b + data_at && tllm_gguf_offset(g, t) == data_at);
        t = tllm_gguf_tensor_find(g, "b.weight");
        T_TRUE(t && t == tllm_gguf_tensor_at(g, 1) && t->bytes == 16 && t->data == m.b + data_at + 128);
        T_TRUE(!tllm_gguf_tensor_find(g, "b") && !tllm_gguf_tensor_find(g, NULL) && !tllm_gguf_find(g, NULL) && !tllm_gguf_find(g, ""));
        T_TRUE(kit_walk(g) == NULL);
        tllm_gguf_close(ctx, g);
    }
    T_STATUS(tllm_gguf_open_memory(ctx, NULL, 3, &g), TINY_E_ARGUMENT, "its bytes");
    T_STATUS(tllm_gguf_open(ctx, NULL, &g), TINY_E_ARGUMENT, "needs its path");
    T_STATUS(tllm_gguf_open(ctx, "there/is/none.gguf", &g), TINY_E_IO, "there/is/none.gguf: cannot be opened");
    T_TRUE(tllm_gguf_open(NULL, "x", &g) == TINY_E_ARGUMENT && !g);
    tllm_gguf_close(ctx, NULL);
    T_TRUE(!tllm_gguf_n_meta(NULL) && !tllm_gguf_n_tensors(NULL) && !tllm_gguf_meta_at(NULL, 0) && !tllm_gguf_tensor_at(NULL, 0) && !tllm_gguf_path(NULL, 0));
    T_TRUE(!tllm_meta_i64(NULL, 0, &i64) && !tllm_meta_text(NULL, 0, &text));
    kit_free(&m);
    t_close(ctx);
}

/* what converts without loss, type by type */
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

/* ---- the writer, and what it writes read again ------------------------------------------------------------------- */

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
        const void *v = type == TLLM_STRING ? (const void *)texts : type == TLLM_BOOL ? (const void *)bools : (const void *)values;
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
        (void)tllm_writer_put_tensor(ctx, w, kit_name(name), types[i], (int)i + 1, dims[i], stream && i % 2 ? NULL : data[i]);
    }
    for (i = 1; i < 4 && stream; i += 2)    /* in pieces of odd sizes */
        for (k = 0; k < bytes[i]; k += 13) (void)tllm_writer_data(ctx, w, data[i] + k, bytes[i] - k < 13 ? bytes[i] - k : 13);
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
            if (k < T_COUNT(lengths)) (void)snprintf(key, sizeof key, "array.%s.%u", tllm_value_name(type), (unsigned)n);
            else (void)snprintf(key, sizeof key, "scalar.%s", tllm_value_name(type));
            m = tllm_gguf_find(g, key);
            if (!T_TRUE(m && m->count == n && m->item_type == type && m->type == (k < T_COUNT(lengths) ? TLLM_ARRAY : type))) return;
            for (i = 0; i < n; i++) {
                tllm_text t;
                int yes;
                if (type == TLLM_STRING) {
                    (void)snprintf(word, sizeof word, "%.*s%u", (int)(i % 8), "tokens\xe2\x96\x81", (unsigned)i);
                    T_TRUE(tllm_meta_text(m, i, &t) && tllm_text_is(t, i == 3 ? "" : word));
                } else if (type == TLLM_BOOL) T_TRUE(tllm_meta_bool(m, i, &yes) && yes == (i % 3 == 0));
                else {
                    size_t each = tllm_value_bytes(type), b;    /* the file is little endian, the values were native */
                    for (b = 0; b < each; b++) T_EQ_INT(m->at[i * each + b], (unsigned char)((i * each + (little ? b : each - 1 - b)) * 73 + 5));
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
                    for (k = 0; k < 4; k++) T_EQ_INT(tllm_gguf_offset(g, tllm_gguf_tensor_at(g, k)) % tllm_gguf_alignment(g), 0);
                    /* a copy through put_meta and put_tensor is the same file */
                    memset(&d, 0, sizeof d);
                    d.version = version;
                    if (T_OK(tllm_writer_open(ctx, &d, &again))) {
                        for (k = 0; k < tllm_gguf_n_meta(g); k++) T_OK(tllm_writer_put_meta(ctx, again, tllm_gguf_meta_at(g, k)));
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
    T_STATUS(tllm_writer_put_u32(ctx, w, "g", 1), TINY_E_ARGUMENT, "before the end");
    file = tllm_writer_memory(w, &n);
    if (T_OK(tllm_gguf_open_memory(ctx, file, n, &g))) {
        T_EQ_INT(tllm_gguf_n_meta(g), 6);
        T_TRUE(tllm_text_is(tllm_gguf_meta_at(g, 1)->key, "b") && tllm_meta_text(tllm_gguf_meta_at(g, 1), 0, &t) && tllm_text_is(t, "last"));
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
        case 0: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 2, dim, NULL), TINY_E_ARGUMENT, "tensor t: dimension 1 is 0"); break;
        case 1: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 99, 1, dim, NULL), TINY_E_UNSUPPORTED, "has type 99"); break;
        case 2: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 8, 1, dim, NULL), TINY_E_FORMAT, "rows of 4 values; Q8_0 needs a multiple of 32"); break;
        case 3: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 2, huge, NULL), TINY_E_FORMAT, "above 2^63"); break;
        case 4: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), TLLM_TYPE_BOOL, 1, dim, NULL), TINY_E_UNSUPPORTED, "GGUF has no type BOOL"); break;
        case 5: T_STATUS(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 5, dim, NULL), TINY_E_ARGUMENT, "5 dimensions"); break;
        case 6:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, four));
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, four));
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "tensor t was put twice");
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "put twice");      /* it stays */
            break;
        case 7:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, NULL));
            T_OK(tllm_writer_data(ctx, w, four, 15));
            T_STATUS(tllm_writer_finish(ctx, w), TINY_E_ARGUMENT, "tensor t has 16 bytes, 15 have come");
            break;
        case 8:
            T_OK(tllm_writer_put_tensor(ctx, w, kit_name("t"), 0, 1, dim, NULL));
            T_OK(tllm_writer_data(ctx, w, four, 16));
            T_STATUS(tllm_writer_data(ctx, w, four, 1), TINY_E_ARGUMENT, "1 bytes of data come after the last tensor");
            break;
        case 9:
            T_OK(tllm_writer_data(ctx, w, NULL, 0));
            T_STATUS(tllm_writer_put_u32(ctx, w, "k", 1), TINY_E_ARGUMENT, "before the first data");
            break;
        case 10: T_STATUS(tllm_writer_put(ctx, w, "", TLLM_U8, four), TINY_E_ARGUMENT, "has 0 bytes"); break;
        case 11: T_STATUS(tllm_writer_put(ctx, w, "k", TLLM_ARRAY, four), TINY_E_ARGUMENT, "key k: no value can be written with type 9"); break;
        case 12: T_STATUS(tllm_writer_put_u32(ctx, w, "general.alignment", 24), TINY_E_ARGUMENT, "general.alignment must be"); break;
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
#endif
    t_close(ctx);
}

/* ---- files in parts, at an offset of a descriptor ----------------------------------------------------------------- */

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
        T_STATUS(tllm_gguf_open_memory(ctx, f.bytes, f.n_bytes, &g), TINY_E_UNSUPPORTED, "memory: is part 2 of 3 of a split file; only a path");
        T_OK(tiny_file_write(ctx, "tiny-renamed.gguf", f.bytes, f.n_bytes));
        T_STATUS(tllm_gguf_open(ctx, "tiny-renamed.gguf", &g), TINY_E_FORMAT, "must end in -00002-of-00003.gguf");
        T_OK(tiny_file_write(ctx, "tiny-split-00003-of-00003.gguf", f.bytes, f.n_bytes));
        T_STATUS(tllm_gguf_open(ctx, "tiny-split-00001-of-00003.gguf", &g), TINY_E_FORMAT, "tiny-split-00003-of-00003.gguf: says it is part 2 of 3, not part 3 of 3");
        tiny_file_close(ctx, &f);
    }
    (void)remove("tiny-split-00003-of-00003.gguf");
    T_STATUS(tllm_gguf_open(ctx, "tiny-split-00001-of-00003.gguf", &g), TINY_E_IO, "tiny-split-00003-of-00003.gguf: cannot be opened");
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
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 5001, n - 40, "model in a package", &g), TINY_E_FORMAT, "model in a package: tensor");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 0, 0, NULL, &g), TINY_E_FORMAT, "descriptor ");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, 5001, m.n, "x", &g), TINY_E_ARGUMENT, "the file ends at");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, UINT64_MAX, 1, "x", &g), TINY_E_ARGUMENT, "the file ends at");
        T_STATUS(tllm_gguf_open_fd(ctx, fd, m.n, 0, "x", &g), TINY_E_FORMAT, "x: has 0 bytes");
        T_STATUS(tllm_gguf_open_fd(ctx, -1, 0, 0, "x", &g), TINY_E_IO, "x: the descriptor cannot be asked");
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

/* ---- cut and flipped ----------------------------------------------------------------------------------------------- */

static void small_file(kit_image *m)
{
    int i;
    kit_head(m, 3, 2, 6);
    kit_key_u32(m, "general.alignment", 16);
    kit_key(m, "general.architecture", TLLM_STRING);
    kit_text(m, "llama");
    kit_key(m, "yes", TLLM_BOOL);
    kit_le(m, 1, 1);
    kit_key(m, "big", TLLM_F64);
    kit_u64(m, UINT64_C(0x4000000000000000));
    kit_array(m, "scores", TLLM_F32, 3);
    for (i = 0; i < 3; i++) kit_u32(m, 0x3f800000u);
    kit_array(m, "tokens", TLLM_STRING, 10);
    for (i = 0; i < 10; i++) kit_text(m, &"abcdefghij"[i]);
    kit_tensor(m, "token_embd.weight", 2, 32, 2, 8, 0);
    kit_tensor(m, "norm", 1, 4, 0, 0, 80);
    kit_pad(m, 16);
    kit_data(m, 96);
}

static void test_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), n;
    kit_image m = { NULL, 0, 0 };
    unsigned char *wall;
    small_file(&m);
    wall = (unsigned char *)t_guarded_bytes(m.n) + m.n;    /* the first byte behind a cut file faults */
    for (n = 0; n <= m.n; n++) {
        tllm_gguf *g = NULL;
        tiny_status st;
        memcpy(wall - n, m.b, n);
        st = tllm_gguf_open_memory(ctx, wall - n, n, &g);
        if (n == m.n) {
            T_TRUE(!st && g && kit_walk(g) == NULL);
            tllm_gguf_close(ctx, g);
        } else if (st != TINY_E_FORMAT || g || strncmp(tiny_ctx_message(ctx), "memory: ", 8))
            t_fail(__FILE__, __LINE__, "cut at %lu of %lu: status %d, %s", (unsigned long)n, (unsigned long)m.n, (int)st, tiny_ctx_message(ctx));
    }
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    t_close(ctx);
}

static void test_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), i, n_open = 0;
    kit_image m = { NULL, 0, 0 };
    unsigned char *wall;
    small_file(&m);
    wall = (unsigned char *)t_guarded_bytes(m.n);
    for (i = 0; i < 8 * m.n; i++) {
        tllm_gguf *g = NULL;
        tiny_status st;
        memcpy(wall, m.b, m.n);
        wall[i / 8] = (unsigned char)(wall[i / 8] ^ 1u << i % 8);
        st = tllm_gguf_open_memory(ctx, wall, m.n, &g);
        if (!st) {
            const char *wrong = kit_walk(g);
            if (wrong) t_fail(__FILE__, __LINE__, "bit %lu flipped: %s", (unsigned long)i, wrong);
            n_open++;
        } else if (!*tiny_ctx_message(ctx) || g) t_fail(__FILE__, __LINE__, "bit %lu flipped: refused without a sentence", (unsigned long)i);
        tllm_gguf_close(ctx, g);
    }
    T_TRUE(n_open > 8 * 96 && n_open < 8 * m.n);   /* a bit of the data, of a text, of a name does no harm */
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    t_close(ctx);
}

/* ---- files that want to hurt: a row each ----------------------------------------------------------------------------- */

#define U64_MAX UINT64_C(0xffffffffffffffff)
#define TWO(n) (UINT64_C(1) << (n))

static void h_kv_count(kit_image *m) { kit_head(m, 3, 0, TWO(63)); kit_key_u32(m, "a", 1); }
static void h_kv_count_wraps(kit_image *m) { kit_head(m, 3, 0, U64_MAX / 40 + 2); kit_key_u32(m, "a", 1); }
static void h_tensor_count(kit_image *m) { kit_head(m, 3, TWO(61), 0); kit_data(m, 64); }
static void h_tensor_count_wraps(kit_image *m) { kit_head(m, 3, U64_MAX / 104 + 2, 0); kit_data(m, 64); }
static void h_tensors_43(kit_image *m) { kit_head(m, 3, TWO(27), 0); kit_data(m, 19); }
static void h_no_table(kit_image *m) { kit_head(m, 3, 1, 1); kit_key_u32(m, "a", 1); }
static void h_no_table_left(kit_image *m) { kit_head(m, 3, 1, 1); kit_key(m, "a", TLLM_STRING); kit_text(m, "0123456789012345678901234567890123456789"); }
static void h_key_length(kit_image *m) { kit_head(m, 3, 0, 1); kit_u64(m, U64_MAX); kit_data(m, 30); }
static void h_key_long(kit_image *m) { kit_head(m, 3, 0, 1); kit_u64(m, 60); kit_data(m, 30); }
static void h_key_empty(kit_image *m) { kit_head(m, 3, 0, 1); kit_key_u32(m, "", 1); kit_data(m, 8); }
static void h_text_length(kit_image *m) { kit_head(m, 3, 0, 1); kit_key(m, "general.name", TLLM_STRING); kit_u64(m, U64_MAX); kit_data(m, 30); }
static void h_text_past_end(kit_image *m) { kit_head(m, 3, 0, 1); kit_key(m, "general.name", TLLM_STRING); kit_u64(m, 31); kit_data(m, 30); }
static void h_token_length(kit_image *m)
{
    kit_head(m, 3, 0, 1);
    kit_array(m, "tokenizer.ggml.tokens", TLLM_STRING, 2);
    kit_text(m, "a");
    kit_u64(m, TWO(31) + 5);
    kit_data(m, 40);
}
static void h_array_2e62(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", TLLM_U32, TWO(62) + 1); kit_data(m, 40); }
static void h_array_2e63(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", TLLM_U8, TWO(63)); kit_data(m, 40); }
static void h_array_texts(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", TLLM_STRING, TWO(61)); kit_data(m, 40); }
static void h_array_nested(kit_image *m)
{
    int i;
    kit_head(m, 3, 0, 1);
    kit_array(m, "a", TLLM_ARRAY, 1);
    for (i = 0; i < 1000; i++) { kit_u32(m, TLLM_ARRAY); kit_u64(m, 1); }
}
static void h_array_type(kit_image *m) { kit_head(m, 3, 0, 1); kit_array(m, "a", 13, 1); kit_data(m, 40); }
static void h_value_type(kit_image *m) { kit_head(m, 3, 0, 2); kit_key(m, "a", 13); kit_data(m, 40); }
static void h_value_type_max(kit_image *m) { kit_head(m, 3, 0, 2); kit_key(m, "a", 0xffffffffu); kit_data(m, 40); }
static void h_bool(kit_image *m) { kit_head(m, 3, 0, 1); kit_key(m, "a", TLLM_BOOL); kit_le(m, 2, 1); kit_data(m, 10); }
static void h_key_twice(kit_image *m) { kit_head(m, 3, 0, 3); kit_key_u32(m, "a", 1); kit_key_u32(m, "b", 1); kit_key_u32(m, "a", 2); }
static void one_tensor(kit_image *m, uint32_t rank, uint64_t dim0, uint64_t dim1, uint32_t type, uint64_t offset)
{
    kit_head(m, 3, 1, 0);
    kit_tensor(m, "t", rank, dim0, dim1, type, offset);
    kit_pad(m, 32);
    kit_data(m, 256);
}
static void h_rank(kit_image *m) { one_tensor(m, 5, 2, 2, 0, 0); }
static void h_rank_max(kit_image *m) { one_tensor(m, 0, 2, 2, 0, 0); m->b[33] = m->b[34] = m->b[35] = m->b[36] = 0xff; }
static void h_dims_wrap(kit_image *m) { one_tensor(m, 2, TWO(32), TWO(32), 0, 0); }
static void h_dims_2e42(kit_image *m) { one_tensor(m, 3, TWO(42) + 1, TWO(22), 0, 0); }
static void h_dim_negative(kit_image *m) { one_tensor(m, 1, U64_MAX, 0, 0, 0); }
static void h_dim_zero(kit_image *m) { one_tensor(m, 2, 32, 0, 0, 0); }
static void h_block(kit_image *m) { one_tensor(m, 2, 33, 2, 2, 0); }
static void h_bytes_wrap(kit_image *m) { one_tensor(m, 1, TWO(62), 0, 0, 0); }
static void h_larger_than_file(kit_image *m) { one_tensor(m, 2, 4096, 11008, 0, 0); }
static void h_one_byte_more(kit_image *m) { one_tensor(m, 1, 257, 0, 24, 0); }
static void h_offset(kit_image *m) { one_tensor(m, 1, 4, 0, 0, TWO(63)); }
static void h_offset_wraps(kit_image *m) { one_tensor(m, 1, 64, 0, 0, U64_MAX - 31); }
static void h_offset_odd(kit_image *m) { one_tensor(m, 1, 4, 0, 0, 4); }
static void h_type(kit_image *m) { one_tensor(m, 1, 32, 0, 200, 0); }
static void h_type_max(kit_image *m) { one_tensor(m, 1, 32, 0, 0xffffffffu, 0); }
static void h_type_gone(kit_image *m) { one_tensor(m, 1, 32, 0, 4, 0); }
static void h_sum_wraps(kit_image *m)
{
    kit_head(m, 3, 2, 0);
    kit_tensor(m, "t0", 1, TWO(61), 0, 24, 0);
    kit_tensor(m, "t1", 1, TWO(61), 0, 24, TWO(61));
    kit_pad(m, 32);
    kit_data(m, 64);
}
static void two_tensors(kit_image *m, const char *first, const char *second, uint64_t offset)
{
    kit_head(m, 3, 2, 0);
    kit_tensor(m, first, 1, 12, 0, 0, 64);
    kit_tensor(m, second, 1, 12, 0, 0, offset);
    kit_pad(m, 32);
    kit_data(m, 256);
}
static void h_overlap(kit_image *m) { two_tensors(m, "t0", "t1", 96); }
static void h_overlap_back(kit_image *m) { two_tensors(m, "t0", "t1", 32); }
static void h_overlap_same(kit_image *m) { two_tensors(m, "t0", "t1", 64); }
static void h_tensor_twice(kit_image *m) { two_tensors(m, "t", "t", 128); }
static void h_name_length(kit_image *m) { kit_head(m, 3, 1, 0); kit_u64(m, U64_MAX); kit_data(m, 80); }
static void h_name_empty(kit_image *m) { kit_head(m, 3, 1, 0); kit_tensor(m, "", 1, 4, 0, 0, 0); kit_data(m, 80); }
static void aligned(kit_image *m, uint32_t type, uint64_t v)
{
    kit_head(m, 3, 1, 1);
    kit_key(m, "general.alignment", type);
    if (type == TLLM_STRING) kit_text(m, "32");
    else kit_le(m, v, tllm_value_bytes((int)type));
    kit_tensor(m, "t", 1, 4, 0, 0, 0);
    kit_data(m, 200);
}
static void h_alignment_0(kit_image *m) { aligned(m, TLLM_U32, 0); }
static void h_alignment_13(kit_image *m) { aligned(m, TLLM_U32, 13); }
static void h_alignment_u64(kit_image *m) { aligned(m, TLLM_U64, TWO(40)); }
static void h_alignment_text(kit_image *m) { aligned(m, TLLM_STRING, 0); }
static void h_alignment_2e31(kit_image *m) { aligned(m, TLLM_U32, TWO(31)); }
static void h_no_data(kit_image *m) { kit_head(m, 3, 1, 0); kit_tensor(m, "t", 1, 4, 0, 0, 0); }
static void h_empty(kit_image *m) { kit_bytes(m, "", 0); }
static void h_magic(kit_image *m) { kit_bytes(m, "ggml", 4); kit_data(m, 60); }
static void h_version_1(kit_image *m) { kit_head(m, 1, 0, 0); }
static void h_version_4(kit_image *m) { kit_head(m, 4, 0, 0); }
static void h_version_0(kit_image *m) { kit_head(m, 0, 0, 0); }
static void h_big_endian(kit_image *m) { kit_head(m, 0x03000000u, TWO(56), TWO(56)); kit_data(m, 40); }
static void h_split(kit_image *m)
{
    kit_head(m, 3, 0, 2);
    kit_key_u32(m, "split.no", 0xffffffffu);
    kit_key_u32(m, "split.count", 0xffffffffu);
}
static void h_split_type(kit_image *m) { kit_head(m, 3, 0, 1); kit_key(m, "split.count", TLLM_I32); kit_u32(m, 0x80000000u); }

static const struct { const char *file; void (*make)(kit_image *m); tiny_status status; const char *says; } hostile[] = {
    { "kv-count-2e63", h_kv_count, TINY_E_FORMAT, "says it has 9223372036854775808 keys; the 17 bytes left hold at most 1" },          /* CVE-2024-23605 */
    { "kv-count-times-record-wraps", h_kv_count_wraps, TINY_E_FORMAT, "keys; the 17 bytes left hold at most 1" },
    { "tensor-count-2e61", h_tensor_count, TINY_E_FORMAT, "says it has 2305843009213693952 tensors; the 64 bytes left hold at most 2" },   /* CVE-2024-21836 */
    { "tensor-count-times-record-wraps", h_tensor_count_wraps, TINY_E_FORMAT, "tensors; the 64 bytes left hold at most 2" },             /* CVE-2026-27940 */
    { "tensor-count-2e27-in-43-bytes", h_tensors_43, TINY_E_FORMAT, "says it has 134217728 tensors; the 19 bytes left hold at most 0" },
    { "tensor-table-missing", h_no_table, TINY_E_FORMAT, "says it has 1 tensors; the 17 bytes left hold at most 0" },                     /* CVE-2024-41130 */
    { "tensor-table-cut-off", h_no_table_left, TINY_E_FORMAT, "says it has 1 tensors; the 0 bytes behind the keys hold at most 0" },
    { "key-length-2e64", h_key_length, TINY_E_FORMAT, "key 0 of 1 says it has 18446744073709551615 bytes; the longest has 65535" },       /* CVE-2024-23496 */
    { "key-past-end", h_key_long, TINY_E_FORMAT, "key 0 of 1 says it has 60 bytes, 30 are left" },
    { "key-empty", h_key_empty, TINY_E_FORMAT, "key 0 of 1 is empty" },
    { "text-length-2e64", h_text_length, TINY_E_FORMAT, "text 0 of 1 of key general.name says it has 18446744073709551615 bytes, 30 are left" },
    { "text-one-byte-past-end", h_text_past_end, TINY_E_FORMAT, "says it has 31 bytes, 30 are left" },
    { "token-longer-than-2e31", h_token_length, TINY_E_FORMAT, "text 1 of 2 of key tokenizer.ggml.tokens says it has 2147483653 bytes, 40 are left" },  /* CVE-2025-49847 */
    { "array-2e62-u32", h_array_2e62, TINY_E_FORMAT, "key a says it is an array of 4611686018427387905 items of type u32; the 40 bytes left hold at most 10" },  /* CVE-2024-21825 */
    { "array-2e63-u8", h_array_2e63, TINY_E_FORMAT, "array of 9223372036854775808 items of type u8; the 40 bytes left hold at most 40" },
    { "array-2e61-texts", h_array_texts, TINY_E_FORMAT, "array of 2305843009213693952 items of type text; the 40 bytes left hold at most 5" },
    { "array-nested", h_array_nested, TINY_E_UNSUPPORTED, "key a is an array of arrays" },
    { "array-item-type-13", h_array_type, TINY_E_FORMAT, "key a is an array with items of type 13" },
    { "value-type-13", h_value_type, TINY_E_FORMAT, "key a has a value of type 13; the last one known is 12" },                           /* CVE-2024-32878 */
    { "value-type-2e32", h_value_type_max, TINY_E_FORMAT, "key a has a value of type 4294967295" },
    { "bool-2", h_bool, TINY_E_FORMAT, "key a: a bool is 2, neither 0 nor 1" },
    { "key-twice", h_key_twice, TINY_E_FORMAT, "key a stands there twice" },
    { "rank-5", h_rank, TINY_E_FORMAT, "tensor t says it has 5 dimensions; the most is 4" },                                              /* CVE-2024-21802 */
    { "rank-2e32", h_rank_max, TINY_E_FORMAT, "tensor t says it has 4294967295 dimensions" },
    { "dims-product-wraps-to-0", h_dims_wrap, TINY_E_FORMAT, "tensor t: the product of its dimensions 0 to 1 is above 2^63" },             /* CVE-2026-33298 */
    { "dims-2e42-and-1", h_dims_2e42, TINY_E_FORMAT, "tensor t: the product of its dimensions 0 to 1 is above 2^63" },
    { "dim-negative", h_dim_negative, TINY_E_FORMAT, "tensor t: dimension 0 is 18446744073709551615" },
    { "dim-zero", h_dim_zero, TINY_E_FORMAT, "tensor t: dimension 1 is 0" },
    { "row-no-multiple-of-block", h_block, TINY_E_FORMAT, "tensor t has rows of 33 values; Q4_0 needs a multiple of 32" },
    { "tensor-bytes-wrap", h_bytes_wrap, TINY_E_OVERFLOW, "tensor t: 4611686018427387904 values of type F32 are more bytes than" },
    { "tensor-larger-than-file", h_larger_than_file, TINY_E_FORMAT, "tensor t: 180355072 bytes of F32 at 0 of the data, which starts at 96: the file ends at 352" },  /* CVE-2026-7482 */
    { "tensor-one-byte-past-end", h_one_byte_more, TINY_E_FORMAT, "tensor t: 257 bytes of I8 at 0" },
    { "tensor-offset-2e63", h_offset, TINY_E_FORMAT, "tensor t: 16 bytes of F32 at 9223372036854775808" },
    { "tensor-offset-wraps", h_offset_wraps, TINY_E_FORMAT, "tensor t: 256 bytes of F32 at 18446744073709551584" },
    { "tensor-offset-misaligned", h_offset_odd, TINY_E_FORMAT, "tensor t starts at 4, which is no multiple of the alignment 32" },
    { "tensor-type-200", h_type, TINY_E_UNSUPPORTED, "tensor t has type 200, which is not known here" },
    { "tensor-type-2e32", h_type_max, TINY_E_UNSUPPORTED, "tensor t has type 4294967295, which is not known here" },
    { "tensor-type-given-up", h_type_gone, TINY_E_UNSUPPORTED, "tensor t has type 4, which is not known here" },
#if SIZE_MAX > 0xffffffffu
    { "tensor-sizes-sum-wraps", h_sum_wraps, TINY_E_FORMAT, "tensor t0: 2305843009213693952 bytes of I8 at 0" },                         /* CVE-2025-53630 */
#else
    { "tensor-sizes-sum-wraps", h_sum_wraps, TINY_E_OVERFLOW, "tensor t0: 2305843009213693952 values of type I8 are more bytes than" },
#endif
    { "tensors-overlap", h_overlap, TINY_E_FORMAT, "tensors t0 and t1 overlap: 48 bytes at 160, 48 bytes at 192" },
    { "tensors-overlap-backwards", h_overlap_back, TINY_E_FORMAT, "tensors t1 and t0 overlap" },
    { "tensors-same-place", h_overlap_same, TINY_E_FORMAT, "overlap" },
    { "tensor-twice", h_tensor_twice, TINY_E_FORMAT, "tensor t stands there twice" },
    { "tensor-name-length-2e64", h_name_length, TINY_E_FORMAT, "the name of tensor 0 of 1 says it has 18446744073709551615 bytes; 1 to 65535" },
    { "tensor-name-empty", h_name_empty, TINY_E_FORMAT, "the name of tensor 0 of 1 says it has 0 bytes" },
    { "alignment-0", h_alignment_0, TINY_E_FORMAT, "general.alignment is 0" },
    { "alignment-13", h_alignment_13, TINY_E_FORMAT, "general.alignment is 13; it must be a power of two" },
    { "alignment-is-u64", h_alignment_u64, TINY_E_FORMAT, "general.alignment has type u64, not u32" },
    { "alignment-is-text", h_alignment_text, TINY_E_FORMAT, "general.alignment has type text, not u32" },
    { "alignment-2e31", h_alignment_2e31, TINY_E_FORMAT, "the data of 1 tensors starts at 2147483648, the file ends at" },
    { "data-missing", h_no_data, TINY_E_FORMAT, "the data of 1 tensors starts at 64, the file ends at 57" },
    { "empty", h_empty, TINY_E_FORMAT, "has 0 bytes, too few" },
    { "magic-ggml", h_magic, TINY_E_FORMAT, "is no GGUF file: it begins with the bytes 67 67 6d 6c" },
    { "version-0", h_version_0, TINY_E_UNSUPPORTED, "is GGUF version 0" },
    { "version-1", h_version_1, TINY_E_UNSUPPORTED, "is GGUF version 1, which was given up" },
    { "version-4", h_version_4, TINY_E_UNSUPPORTED, "is GGUF version 4; versions 2 and 3 are read" },
    { "big-endian", h_big_endian, TINY_E_UNSUPPORTED, "is a big-endian GGUF file" },
    { "split-no-and-count-2e32", h_split, TINY_E_FORMAT, "says it is part 4294967296 of 4294967295; the most parts of a file are 1000" },
    { "split-count-negative", h_split_type, TINY_E_FORMAT, "split.count is no count (its type is i32)" }
};

static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *corpus = getenv("T_CORPUS");
    size_t held = tiny_ctx_bytes(ctx), i, n_refused = 0, n_files = 0;
    for (i = 0; i < T_COUNT(hostile); i++) {
        kit_image m = { NULL, 0, 0 };
        tllm_gguf *g = NULL;
        unsigned char *bytes;
        char path[300];
        tiny_file f;
        hostile[i].make(&m);
        bytes = (unsigned char *)t_guarded_bytes(m.n);
        if (m.n) memcpy(bytes, m.b, m.n);
        t_alloc.most_bytes = t_alloc.live_bytes;
        if (t_status(tllm_gguf_open_memory(ctx, bytes, m.n, &g), hostile[i].status, hostile[i].says, __FILE__, __LINE__, hostile[i].file) && !g) n_refused++;
        T_TRUE(t_alloc.most_bytes - t_alloc.live_bytes < 4096);        /* a file of a few bytes is refused for a few bytes */
        (void)snprintf(path, sizeof path, "%s/gguf/%s.gguf", corpus ? corpus : "tests/fuzz/corpus", hostile[i].file);
        if (corpus) T_OK(tiny_file_write(ctx, path, m.b ? m.b : (const unsigned char *)"", m.n));
        if (!tiny_file_copy(ctx, path, &f)) {
            T_EQ_INT(f.n_bytes, m.n);
            if (f.n_bytes == m.n && m.n) T_SAME(f.bytes, m.b, m.n);
            tiny_file_close(ctx, &f);
            n_files += (size_t)(tllm_gguf_open(ctx, path, &g) == hostile[i].status && !g && strstr(tiny_ctx_message(ctx), hostile[i].says));
        }
        kit_free(&m);
    }
    if (corpus) {
        kit_image m = { NULL, 0, 0 };
        char path[300];
        (void)snprintf(path, sizeof path, "%s/gguf/good.gguf", corpus);
        small_file(&m);
        T_OK(tiny_file_write(ctx, path, m.b, m.n));
        kit_free(&m);
    }
    printf("hostile GGUF files: %lu of %lu refused, each with its sentence; %lu of them from the corpus too\n", (unsigned long)n_refused, (unsigned long)T_COUNT(hostile),
           (unsigned long)n_files);
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    t_close(ctx);
}

/* an empty file of tensors, and no keys: legal, and everything answers nothing */
static void test_nothing_inside(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    kit_head(&m, 2, 0, 0);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g))) {
        T_TRUE(kit_walk(g) == NULL && !tllm_gguf_n_meta(g) && !tllm_gguf_n_tensors(g) && !tllm_gguf_find(g, "a") && !tllm_gguf_tensor_find(g, "a"));
        tllm_gguf_close(ctx, g);
    }
    kit_free(&m);
    t_close(ctx);
}

/* ---- large and crowded files --------------------------------------------------------------------------------------- */

/* opens the bytes, looks at the most that was held meanwhile, and at the time */
static void crowded(const char *what, const kit_image *m, tiny_status want, const char *says)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t before = t_alloc.live_bytes, most;
    tllm_gguf *g;
    uint64_t start = tiny_now_ns();
    double ms;
    t_alloc.most_bytes = before;
    T_STATUS(tllm_gguf_open_memory(ctx, m->b, m->n, &g), want, says);
    ms = (double)(tiny_now_ns() - start) * 1e-6;
    most = t_alloc.most_bytes - before;
    if (most > 2 * m->n + (1u << 20)) t_fail(__FILE__, __LINE__, "%s: %lu bytes taken for a file of %lu", what, (unsigned long)most, (unsigned long)m->n);
    T_TRUE(ms < 10000);                     /* what is quadratic takes minutes */
    if (g) T_TRUE(kit_walk(g) == NULL);
    printf("%s: file %lu bytes, most taken %lu, %.1f ms\n", what, (unsigned long)m->n, (unsigned long)most, ms);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_crowded(void)
{
    kit_image m = { NULL, 0, 0 };
    char name[40];
    uint32_t i;
    kit_head(&m, 3, 0, 100000);
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "key.%u", (unsigned)i);
        kit_key_u32(&m, name, i);
    }
    crowded("100000 keys", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 100000);             /* the shortest keys there can be */
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_key(&m, name, TLLM_U8);
        kit_le(&m, i, 1);
    }
    crowded("100000 short keys", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 400000);
    for (i = 0; i < 400000; i++) {
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_key(&m, name, TLLM_U8);
        kit_le(&m, i, 1);
    }
    if (sizeof(size_t) == 8) crowded("400000 short keys", &m, TINY_E_FORMAT, "tables of 400000 keys, 0 tensors and 0 text marks would take");
    else crowded("400000 short keys", &m, TINY_OK, NULL);      /* there a key takes less */
    kit_free(&m);

    kit_head(&m, 3, 100000, 0);
    for (i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "t%u", (unsigned)i);
        kit_tensor(&m, name, 1, 1, 0, 24, (uint64_t)(99999 - i) * 32);         /* from the back: the order by place must be made */
    }
    kit_pad(&m, 32);
    kit_data(&m, 100000 * 32);
    crowded("100000 tensors", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 1);
    kit_array(&m, "tokens", TLLM_STRING, 1000000);
    for (i = 0; i < 1000000; i++) kit_u64(&m, 0);
    crowded("1000000 empty texts", &m, TINY_OK, NULL);
    kit_free(&m);

    kit_head(&m, 3, 0, 100000);             /* each with a table of its own */
    for (i = 0; i < 100000; i++) {
        int k;
        (void)snprintf(name, sizeof name, "%x", (unsigned)i);
        kit_array(&m, name, TLLM_STRING, 9);
        for (k = 0; k < 9; k++) kit_u64(&m, 0);
    }
    crowded("100000 arrays of texts", &m, TINY_OK, NULL);
    kit_free(&m);
}

/* 100 MB on disk (a file with a hole): opening reads what stands before the data */
static void test_large(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    char name[64];
    uint64_t best = UINT64_MAX, bytes = 25u << 20;
    size_t i, data_at;
    FILE *f = fopen("tiny-large.gguf", "wb");
    kit_head(&m, 3, 300, 2);
    kit_array(&m, "tokenizer.ggml.tokens", TLLM_STRING, 32000);
    for (i = 0; i < 32000; i++) {
        (void)snprintf(name, sizeof name, "token%u", (unsigned)i);
        kit_text(&m, name);
    }
    kit_array(&m, "tokenizer.ggml.scores", TLLM_F32, 32000);
    for (i = 0; i < 32000; i++) kit_u32(&m, 0);
    for (i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "blk.%u.ffn_up.weight", (unsigned)i);
        kit_tensor(&m, name, 1, bytes / 300 / 32 * 32, 0, 0, (uint64_t)i * (bytes / 300 / 32 * 32) * 4);
    }
    kit_pad(&m, 32);
    data_at = m.n;
    if (f) {
        int bad = fwrite(m.b, 1, m.n, f) != m.n;
        bad |= fseek(f, (long)(data_at + bytes * 4 - 1), SEEK_SET) != 0;
        bad |= fputc(1, f) == EOF;
        bad |= fclose(f) != 0;
        T_TRUE(!bad);
    }
    for (i = 0; i < 5; i++) {
        uint64_t start = tiny_now_ns(), ns;
        if (!T_OK(tllm_gguf_open(ctx, "tiny-large.gguf", &g))) break;
        ns = tiny_now_ns() - start;
        best = ns < best ? ns : best;
        if (i == 4) {
            T_EQ_INT(tllm_gguf_n_tensors(g), 300);
            T_TRUE(tiny_ctx_bytes(ctx) < 200000);       /* nothing of the data is in our memory */
        }
        tllm_gguf_close(ctx, g);
    }
    printf("a file of %.0f MB with 32000 tokens and 300 tensors: open %.2f ms\n", (double)(data_at + bytes * 4) / 1e6, (double)best * 1e-6);
    T_TRUE(best < 100000000);               /* 20 ms on a machine that is not emulated */
    (void)remove("tiny-large.gguf");
    kit_free(&m);
    t_close(ctx);
#else
    T_SKIP("no mapped files");
#endif
}

/* the data of 100 tensors lies on pages that nobody may read: opening, finding and closing do not */
static void test_untouched(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), each = (size_t)1 << 20;
    kit_image m = { NULL, 0, 0 };
    tllm_gguf *g;
    char name[64];
    size_t i, n;
    void *p;
    kit_head(&m, 3, 100, 1);
    kit_key_u32(&m, "general.alignment", (uint32_t)page);
    for (i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "blk.%u.ffn_up.weight", (unsigned)i);
        kit_tensor(&m, name, 1, each / 4, 0, 0, (uint64_t)i * each);
    }
    kit_pad(&m, page);
    n = m.n + 100 * each;
    p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (T_TRUE(p != MAP_FAILED) && T_TRUE(!mprotect(p, m.n, PROT_READ | PROT_WRITE))) {
        memcpy(p, m.b, m.n);
        if (T_OK(tllm_gguf_open_memory(ctx, p, n, &g))) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "blk.99.ffn_up.weight");
            T_TRUE(t && t->data + t->bytes == (const unsigned char *)p + n);
            tllm_gguf_close(ctx, g);
        }
        (void)munmap(p, n);
    }
    kit_free(&m);
    t_close(ctx);
#else
    T_SKIP("no pages to forbid");
#endif
}

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
    T_RUN(test_cut);
    T_RUN(test_flipped);
    T_RUN(test_hostile);
    T_RUN(test_nothing_inside);
    T_RUN(test_crowded);
    T_RUN(test_large);
    T_RUN(test_untouched);
    T_RUN(test_each_allocation);
    return t_done();
}
