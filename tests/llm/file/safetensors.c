/* tests/llm/file/safetensors.c - safetensors: a good file by hand, every type, cut, flipped, and false headers
 *
 * The refused ones are in tests/fuzz/corpus/safetensors too; T_CORPUS=folder in the environment writes them again. */
#include "t.h"
#include "llm/file/kit.h"

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"a\\u00e9\\n\":\"\\ud83d\\ude00 \\\"x\\\" \xc3\xa9\"},\n"
    " \"model.embed\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},\n"
    " \"\\u0062ias\" : { \"data_offsets\" : [ 28 , 36 ] , \"shape\" : [ 4 ] , \"dtype\" : \"BF16\" } ,\n"
    " \"scalar\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]},\n"
    " \"none\":{\"dtype\":\"F64\",\"shape\":[3,0,2],\"data_offsets\":[36,36]}}   ";

static void test_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit_image m;
    tllm_gguf *g;
    const tllm_gguf_tensor *t;
    tllm_text text;
    kit_safetensors(&m, good, 36);
    if (T_OK(tllm_safetensors_open_memory(ctx, m.b, m.n, &g))) {
        const unsigned char *data = m.b + 8 + strlen(good);
        T_TRUE(kit_walk(g) == NULL);
        T_EQ_INT(tllm_file_kind(g), TLLM_FILE_SAFETENSORS);
        T_EQ_INT(tllm_gguf_n_meta(g), 2);
        T_TRUE(tllm_meta_text(tllm_gguf_find(g, "format"), 0, &text) && tllm_text_is(text, "pt"));
        T_TRUE(tllm_meta_text(tllm_gguf_find(g, "a\xc3\xa9\n"), 0, &text) &&
               tllm_text_is(text, "\xf0\x9f\x98\x80 \"x\" \xc3\xa9"));
        T_EQ_INT(tllm_gguf_n_tensors(g), 4);
        t = tllm_gguf_tensor_find(g, "model.embed");
        T_TRUE(t && t->type == 0 && t->rank == 2 && t->dim[0] == 3 && t->dim[1] == 2 && t->bytes == 24 &&
               t->data == data + 4);
        t = tllm_gguf_tensor_find(g, "bias");
        T_TRUE(t && t->type == 30 && t->rank == 1 && t->dim[0] == 4 && t->data == data + 28);
        t = tllm_gguf_tensor_find(g, "scalar");
        T_TRUE(t && t->type == 26 && t->rank == 0 && t->dim[0] == 1 && t->bytes == 4);
        t = tllm_gguf_tensor_find(g, "none");
        T_TRUE(t && t->type == 28 && t->rank == 3 && t->bytes == 0 && t->dim[0] == 2 && t->dim[1] == 0);
        tllm_gguf_close(ctx, g);
    }
    if (T_OK(tllm_file_open_memory(ctx, m.b, m.n, &g))) {       /* recognised by its bytes */
        T_EQ_TEXT(tllm_file_kind_name(g), "safetensors");
        tllm_gguf_close(ctx, g);
    }
    T_OK(tiny_file_write(ctx, "tiny.safetensors", m.b, m.n));
    if (T_OK(tllm_safetensors_open(ctx, "tiny.safetensors", &g))) {
        T_TRUE(kit_walk(g) == NULL);
        tllm_gguf_close(ctx, g);
    }
    if (T_OK(tllm_file_open(ctx, "tiny.safetensors", &g))) tllm_gguf_close(ctx, g);
    T_OK(tiny_file_write(ctx, "tiny.safetensors", m.b, 20));
    T_STATUS(tllm_file_open(ctx, "tiny.safetensors", &g), TINY_E_FORMAT, "tiny.safetensors: says its header has");
    (void)remove("tiny.safetensors");
    T_STATUS(tllm_safetensors_open(ctx, NULL, &g), TINY_E_ARGUMENT, "the path, the bytes or the result");
    T_STATUS(tllm_safetensors_open(ctx, "no/such", &g), TINY_E_IO, "no/such: cannot be opened");
    kit_free(&m);
    t_close(ctx);
}

static void test_types(void)
{
    static const struct { const char *name; int type; unsigned bytes;
    } row[] = { { "F64", 28, 8 },
                { "F32", 0, 4 },
                { "F16", 1, 2 },
                { "BF16", 30, 2 },
                { "I64", 27, 8 },
                { "I32", 26, 4 },
                { "I16", 25, 2 },
                { "I8", 24, 1 },
                { "U64", TLLM_TYPE_U64, 8 },
                { "U32", TLLM_TYPE_U32, 4 },
                { "U16", TLLM_TYPE_U16, 2 },
                { "U8", TLLM_TYPE_U8, 1 },
                { "BOOL", TLLM_TYPE_BOOL, 1 },
                { "F8_E4M3", TLLM_TYPE_F8_E4M3, 1 },
                { "F8_E5M2", TLLM_TYPE_F8_E5M2, 1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        char json[200];
        kit_image m;
        tllm_gguf *g;
        (void)snprintf(json, sizeof json, "{\"t\":{\"dtype\":\"%s\",\"shape\":[1,2,1,3,1,1],\"data_offsets\":[0,%u]}}",
                       row[i].name, 6 * row[i].bytes);
        kit_safetensors(&m, json, 6 * row[i].bytes);
        if (T_OK(tllm_safetensors_open_memory(ctx, m.b, m.n, &g))) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, 0);
            T_TRUE(t && t->type == row[i].type && t->bytes == 6 * row[i].bytes && t->rank == 6 && t->dim[2] == 3 &&
                   t->dim[4] == 2);
            T_EQ_TEXT(tllm_type_name(row[i].type), row[i].name);
            tllm_gguf_close(ctx, g);
        }
        kit_free(&m);
    }
    t_close(ctx);
}

static void test_cut_and_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t held = tiny_ctx_bytes(ctx), n, n_open = 0;
    kit_image m;
    unsigned char *at;
    kit_safetensors(&m, good, 36);
    at = (unsigned char *)t_guarded_bytes(m.n);
    for (n = 0; n < m.n; n++) {
        tllm_gguf *g = NULL;
        memcpy(at + m.n - n, m.b, n);
        if (tllm_safetensors_open_memory(ctx, at + m.n - n, n, &g) != TINY_E_FORMAT || g)
            t_fail(__FILE__, __LINE__, "cut at %lu: %s", (unsigned long)n, tiny_ctx_message(ctx));
    }
    for (n = 0; n < 8 * m.n; n++) {
        tllm_gguf *g = NULL;
        memcpy(at, m.b, m.n);
        at[n / 8] = (unsigned char)(at[n / 8] ^ 1u << n % 8);
        if (!tllm_safetensors_open_memory(ctx, at, m.n, &g)) {
            const char *wrong = kit_walk(g);
            if (wrong) t_fail(__FILE__, __LINE__, "bit %lu flipped: %s", (unsigned long)n, wrong);
            n_open++;
        } else if (!*tiny_ctx_message(ctx) || g)
            t_fail(__FILE__, __LINE__, "bit %lu flipped: refused without a sentence", (unsigned long)n);
        tllm_gguf_close(ctx, g);
    }
    T_TRUE(n_open >= 36 * 8);
    T_EQ_INT(tiny_ctx_bytes(ctx), held);
    kit_free(&m);
    t_close(ctx);
}

#define T1(members) "{\"t\":{" members "}}"
#define F32_8 "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"
static const struct { const char *file, *json; size_t n_data; tiny_status status; const char *says;
} hostile[] = {
    { "dims-product-wraps", T1("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
      TINY_E_FORMAT, "tensor t: the product of its dimensions 0 to 1 is above 2^63" },
    { "bytes-wrap", T1("\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), 0, TINY_E_OVERFLOW,
      "values of type F64 are more bytes" },
    { "dim-2e63", T1("\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]"), 0, TINY_E_FORMAT,
      "expected a number below 2^63" },
    { "dim-negative", T1("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]"), 0, TINY_E_FORMAT,
      "expected a whole number" },
    { "dim-fraction", T1("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]"), 8, TINY_E_FORMAT,
      "expected ',' or ']'" },
    { "dim-leading-zero", T1("\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]"), 8, TINY_E_FORMAT,
      "expected a number without leading zeros" },
    { "rank-7", T1("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,2],\"data_offsets\":[0,8]"), 8, TINY_E_UNSUPPORTED,
      "a list of more than 6 numbers" },
    { "offsets-past-end", T1("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), 7, TINY_E_FORMAT,
      "tensor t: data_offsets 0 to 8 are not valid for 7 bytes of data" },
    { "offsets-turned", T1("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), 8, TINY_E_FORMAT,
      "tensor t: data_offsets 8 to 0 are not valid for 8 bytes" },
    { "offsets-other-size", T1("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4, TINY_E_FORMAT,
      "tensor t: its shape and dtype make 8 bytes, its data_offsets 4" },
    { "offsets-one", T1("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]"), 8, TINY_E_FORMAT,
      "tensor t: data_offsets are 1 numbers, not 2" },
    { "offsets-three", T1("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]"), 8, TINY_E_UNSUPPORTED,
      "a list of more than 2 numbers" },
    { "data-left-over", T1(F32_8), 12, TINY_E_FORMAT, "the tensors are 8 bytes, the data after the header 12" },
    { "tensors-overlap", "{\"t\":{" F32_8 "},\"u\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 16,
      TINY_E_FORMAT, "tensors t and u overlap" },
    { "tensor-twice", "{\"t\":{" F32_8 "},\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16,
      TINY_E_FORMAT, "tensor t occurs twice" },
    { "tensor-twice-escaped",
      "{\"t\":{" F32_8 "},\"\\u0074\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16, TINY_E_FORMAT,
      "tensor t occurs twice" },
    { "member-twice", T1("\"dtype\":\"F32\"," F32_8), 8, TINY_E_FORMAT, "tensor t: dtype occurs twice" },
    { "member-unknown", T1("\"stride\":[1]," F32_8), 8, TINY_E_FORMAT, "tensor t: stride is no member of a tensor" },
    { "dtype-missing", T1("\"shape\":[2],\"data_offsets\":[0,8]"), 8, TINY_E_FORMAT, "tensor t has no dtype" },
    { "shape-missing", T1("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), 8, TINY_E_FORMAT, "tensor t has no shape" },
    { "offsets-missing", T1("\"dtype\":\"F32\",\"shape\":[2]"), 8, TINY_E_FORMAT, "tensor t has no data_offsets" },
    { "dtype-unknown", T1("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, TINY_E_UNSUPPORTED,
      "tensor t has dtype F4, which is unknown" },
    { "name-empty", "{\"\":{" F32_8 "}}", 8, TINY_E_FORMAT, "tensor 0 has an empty name" },
    { "metadata-number", "{\"__metadata__\":{\"a\":1}}", 0, TINY_E_FORMAT,
      "expected a text in quotes (all values of __metadata__ are texts)" },
    { "metadata-twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, TINY_E_FORMAT,
      "__metadata__ occurs twice" },
    { "metadata-key-twice", "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, TINY_E_FORMAT,
      "key a occurs twice" },
    { "no-object", "[]", 0, TINY_E_FORMAT, "byte 0 of the header is 0x5b, expected '{'" },
    { "object-not-closed", "{\"t\":{" F32_8 "}", 8, TINY_E_FORMAT, "the header ends, expected ',' or '}'" },
    { "comma-at-end", "{\"t\":{" F32_8 "},}", 8, TINY_E_FORMAT, "expected the name of a tensor in quotes" },
    { "more-behind", "{\"t\":{" F32_8 "}} x", 8, TINY_E_FORMAT, "expected the end" },
    { "control-in-text", "{\"t\n\":{" F32_8 "}}", 8, TINY_E_FORMAT, "expected a printable character" },
    { "utf8-broken", "{\"t\xc3\":{" F32_8 "}}", 8, TINY_E_FORMAT, "is 0xc3, expected valid UTF-8" },
    { "utf8-long-form", "{\"t\xc0\x80\":{" F32_8 "}}", 8, TINY_E_FORMAT,
      "is 0xc0, expected valid UTF-8" },
    { "escape-unknown", "{\"t\\x41\":{" F32_8 "}}", 8, TINY_E_FORMAT, "expected an escape" },
    { "escape-cut", "{\"t\\u12\":{" F32_8 "}}", 8, TINY_E_FORMAT, "expected four hexadecimal digits" },
    { "surrogate-alone", "{\"t\\ud83d\":{" F32_8 "}}", 8, TINY_E_FORMAT,
      "expected the second half of a surrogate pair" },
    { "surrogate-second-first", "{\"t\\ude00\":{" F32_8 "}}", 8, TINY_E_FORMAT,
      "expected the first half of a surrogate pair" }
};

static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *corpus = getenv("T_CORPUS");
    unsigned n_refused = 0;
    size_t i;
    kit_image m;
    tllm_gguf *g;
    char path[300];
    for (i = 0; i < T_COUNT(hostile); i++) {
        kit_safetensors(&m, hostile[i].json, hostile[i].n_data);
        if (t_status(tllm_safetensors_open_memory(ctx, m.b, m.n, &g), hostile[i].status, hostile[i].says, __FILE__,
                     __LINE__, hostile[i].file) &&
            !g)
            n_refused++;
        (void)snprintf(path, sizeof path, "%s/safetensors/%s.safetensors", corpus ? corpus : "", hostile[i].file);
        if (corpus) T_OK(tiny_file_write(ctx, path, m.b, m.n));
        kit_free(&m);
    }
    printf("hostile safetensors files: %u of %u refused, each with its sentence\n", n_refused,
           (unsigned)T_COUNT(hostile));
    kit_safetensors(&m, good, 36);
    (void)snprintf(path, sizeof path, "%s/safetensors/good.safetensors", corpus ? corpus : "");
    if (corpus) T_OK(tiny_file_write(ctx, path, m.b, m.n));
    memset(m.b, 0xff, 8);
    T_STATUS(tllm_safetensors_open_memory(ctx, m.b, m.n, &g), TINY_E_FORMAT,
             "says its header has 18446744073709551615 bytes");
    (void)snprintf(path, sizeof path, "%s/safetensors/header-2e64.safetensors", corpus ? corpus : "");
    if (corpus) T_OK(tiny_file_write(ctx, path, m.b, m.n));
    kit_free(&m);
    t_close(ctx);
}

/* many tensors, many keys, texts that are all escapes: linear, and within twice the file and a megabyte */
static void test_crowded(void)
{
    int kind;
    for (kind = 0; kind < 3; kind++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        kit_image m = { NULL, 0, 0 };
        size_t before = t_alloc.live_bytes, most;
        tllm_gguf *g;
        unsigned i, n = 50000;
        char one[120];
        double ms;
        tiny_status st;
        kit_u64(&m, 0);
        kit_bytes(&m, "{", 1);
        if (kind) kit_bytes(&m, "\"__metadata__\":{", 16);
        for (i = 0; i < n; i++) {
            if (!kind)
                (void)snprintf(one, sizeof one, "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                               i ? "," : "", i);
            else if (kind == 1) (void)snprintf(one, sizeof one, "%s\"%x\":\"\"", i ? "," : "", i);
            else
                (void)snprintf(one, sizeof one, "%s\"\\u%04x\\u0041\":\"\\u6587\"", i ? "," : "",
                               0x4e00 + i % 20000 + (i >= 20000 ? 0x6000 : 0));
            if (kind == 2 && i == 19999) i = n;
            kit_bytes(&m, one, strlen(one));
        }
        kit_bytes(&m, kind ? "}}" : "}", kind ? 2 : 1);
        for (i = 0; i < 8; i++) m.b[i] = (unsigned char)((m.n - 8) >> 8 * i);
        t_alloc.most_bytes = before;
        ms = -1e3 * t_seconds();
        st = tllm_safetensors_open_memory(ctx, m.b, m.n, &g);
        ms += 1e3 * t_seconds();
        most = t_alloc.most_bytes - before;
        if (kind == 1) T_TRUE(st == TINY_E_FORMAT && strstr(tiny_ctx_message(ctx), "may take"));
        else T_OK(st);
        if (g) T_TRUE(kit_walk(g) == NULL);
        T_TRUE(most <= 2 * m.n + (1u << 20) && ms < 10000);
        printf("safetensors header of %lu bytes: most taken %lu, %.1f ms\n", (unsigned long)m.n, (unsigned long)most,
               ms);
        tllm_gguf_close(ctx, g);
        kit_free(&m);
        t_close(ctx);
    }
}

static void test_each_allocation(void)
{
    kit_image m;
    kit_safetensors(&m, good, 36);
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&d, &ctx)) {
            tllm_gguf *g;
            tiny_status st = tllm_file_open_memory(ctx, m.b, m.n, &g);
            T_TRUE((!st && g) || (st == TINY_E_MEMORY && !g));
            tllm_gguf_close(ctx, g);
            tiny_ctx_close(ctx);
        }
    })
    kit_free(&m);
}

/* the kind of a file by its first bytes */
static void test_file_kinds(void)
{
    static const unsigned char st[10] = { 2, 0, 0, 0, 0, 0, 0, 0, '{', '}' },
                               far_off[10] = { 3, 0, 0, 0, 0, 0, 0, 0, '{', '}' },
                               none[10] = { 1, 0, 0, 0, 0, 0, 0, 0, '{', '}' },
                               list[10] = { 2, 0, 0, 0, 0, 0, 0, 0, '[', ']' };
    T_EQ_INT(tllm_file_looks(st, 10), TLLM_FILE_SAFETENSORS);
    T_EQ_INT(tllm_file_looks(st, 9), -1);               /* its header is not all there */
    T_EQ_INT(tllm_file_looks(st, 8), -1);
    T_EQ_INT(tllm_file_looks(far_off, 10), -1);
    T_EQ_INT(tllm_file_looks(none, 10), -1);
    T_EQ_INT(tllm_file_looks(list, 10), -1);
    T_EQ_INT(tllm_file_looks("GGUF", 4), TLLM_FILE_GGUF);
    T_EQ_INT(tllm_file_looks("GGU", 3), -1);
    T_EQ_INT(tllm_file_looks("", 0), -1);
    T_EQ_INT(tllm_file_looks(NULL, 5), -1);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_file_kinds);
    T_RUN(test_types);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_hostile);
    T_RUN(test_crowded);
    T_RUN(test_each_allocation);
    return t_done();
}
