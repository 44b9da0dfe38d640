/* tests/core/doc/json.c - JSON and safetensors through tinygnn.h: items in order, refused texts and their sentences,
 * depth and size */
#define T_INTERNALS
#include "t.h"

/* the document as one line: types, keys, values */
static tiny_status walk(tiny_ctx *ctx, const char *s, size_t n, char *line, size_t room)
{
    tinyi_json_walk w;
    tinyi_json_item it;
    size_t at = 0;
    char *copy = (char *)t_keep(n ? n : 1);         /* of its own: the sanitizer finds a read past the end */
    tiny_status st;
    if (n) memcpy(copy, s, n);
    st = tinyi_json_begin(&w, ctx, "text", "the JSON", copy, n, 1u << 20);
    line[0] = 0;
    while (!st && !(st = tinyi_json_next(&w, &it)) && it.type != TINYI_JSON_END && at + 100 < room) {
        unsigned char plain[64];
        if (it.key.at && it.key.n < sizeof plain)
            at += (size_t)snprintf(line + at, room - at, "%.*s=", (int)tinyi_json_plain(plain, sizeof plain, it.key),
                                   (char *)plain);
        switch (it.type) {
        case TINYI_JSON_NULL: at += (size_t)snprintf(line + at, room - at, "null "); break;
        case TINYI_JSON_BOOL: at += (size_t)snprintf(line + at, room - at, it.i ? "true " : "false "); break;
        case TINYI_JSON_INT: at += (size_t)snprintf(line + at, room - at, "%" PRId64 " ", it.i); break;
        case TINYI_JSON_FLOAT: at += (size_t)snprintf(line + at, room - at, "%.17g ", it.f); break;
        case TINYI_JSON_LIST: at += (size_t)snprintf(line + at, room - at, "[%d ", it.depth); break;
        case TINYI_JSON_MAP: at += (size_t)snprintf(line + at, room - at, "{%d ", it.depth); break;
        case TINYI_JSON_CLOSE: at += (size_t)snprintf(line + at, room - at, "%d. ", it.depth); break;
        default:
            if (it.text.n < sizeof plain)
                at += (size_t)snprintf(line + at, room - at, "'%.*s' ",
                                       (int)tinyi_json_plain(plain, sizeof plain, it.text), (char *)plain);
        }
    }
    return st;
}

static void test_items(void)
{
    static const struct { const char *text, *want;
    } row[] = { { " 7 ", "7 " },
                { "\"\"", "'' " },
                { "null", "null " },
                { "[]", "[0 0. " },
                { "{}", "{0 0. " },
                { "[1, -2,[true , false],{\"a\":null}]", "[0 1 -2 [1 true false 1. {1 a=null 1. 0. " },
                { "{\"a\":{\"b\":[{}]},\"a\":\"x\"}", "{0 a={1 b=[2 {3 3. 2. 1. a='x' 0. " },
                { "[0.5,-0.25e2,1E3,9007199254740993,-9223372036854775808,9223372036854775807]",
                  "[0 0.5 -25 1000 9007199254740993 -9223372036854775808 9223372036854775807 0. " },
                { "[\"\\u0041\\n\\/\\ud83d\\ude00\"]", "[0 'A\n/\xf0\x9f\x98\x80' 0. " },
                { "{\"\\u0061\":0}", "{0 a=0 0. " },
                { "\"\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
                  "'\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf' " },
                { "\"\\ud800\\udc00\\udbff\\udfff\\u0080\\u07ff\\u0800\\ud7ff\\ue000\"",
                  "'\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80' " } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char line[600];
    size_t i;
    for (i = 0; i < T_COUNT(row); i++)
        if (T_OK(walk(ctx, row[i].text, strlen(row[i].text), line, sizeof line))) T_EQ_TEXT(line, row[i].want);
    t_close(ctx);
}

static void test_refused(void)
{
    static const struct { const char *text, *why;
    } row[] = { { "", "text: the JSON ends, expected a value" },
                { "[", "ends, expected a value" },
                { "[1,]", "byte 3 of the JSON is 0x5d, expected a value" },
                { "{\"a\" 1}", "expected ':'" },
                { "{a:1}", "expected a key in quotes" },
                { "[1 2]", "expected ',' or ']'" },
                { "{\"a\":1]", "expected ',' or '}'" },
                { "[1}", "expected ',' or ']'" },
                { "1 1", "expected the end" },
                { "[]]", "expected the end" },
                { "01", "expected a value" },
                { "1.", "ends, expected a digit" },
                { "1e+", "ends, expected a digit" },
                { "-", "expected a value" },
                { "nul", "expected a value" },
                { "9223372036854775808", "expected a whole number of 64 bits" },
                { "-9223372036854775809", "expected a whole number of 64 bits" },
                /* overlong */
                { "\"\xc1\xbf\"", "expected valid UTF-8" },
                { "\"\xe0\x9f\xbf\"", "expected valid UTF-8" },
                { "\"\xf0\x8f\xbf\xbf\"", "expected valid UTF-8" },
                { "\"\xed\xa0\x80\"", "expected valid UTF-8" },
                { "\"\xf4\x90\x80\x80\"", "expected valid UTF-8" },
                { "\"\xf5\x80\x80\x80\"", "expected valid UTF-8" },
                { "\"\xff\"", "expected valid UTF-8" },
                { "\"\\ud800\"", "second half of a surrogate pair" },
                { "NaN", "expected a value" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char line[600], *deep = (char *)t_keep(200000);
    tinyi_json_walk w;
    size_t i;
    for (i = 0; i < T_COUNT(row); i++)
        T_STATUS(walk(ctx, row[i].text, strlen(row[i].text), line, sizeof line), TINY_E_FORMAT, row[i].why);
    for (i = 0; i < 100; i++) {             /* as deep as may be, and one more, and far more */
        deep[i] = '[';
        deep[100 + i] = ']';
    }
    T_OK(walk(ctx, deep, 200, line, sizeof line));
    memset(deep, '[', 200000);
    T_STATUS(walk(ctx, deep, 101, line, sizeof line), TINY_E_FORMAT,
             "text: byte 101 of the JSON: nested more than 100 deep");
    T_STATUS(walk(ctx, deep, 200000, line, sizeof line), TINY_E_FORMAT, "nested more than 100 deep");
    memset(deep, '1', 2000);
    deep[1] = '.';
    T_STATUS(walk(ctx, deep, 2000, line, sizeof line), TINY_E_FORMAT, "a number of at most 400 characters");
    T_STATUS(tinyi_json_begin(&w, ctx, "text", "the JSON", deep, 2000, 1999), TINY_E_UNSUPPORTED,
             "text: the JSON has 2000 bytes; the longest has 1999");
    t_close(ctx);
}

typedef struct seen { int n_meta, n_tensors; tinyi_st_tensor last; } seen;
static void take_meta(void *arg, tinyi_json_text key, tinyi_json_text value)
{
    T_TRUE(tinyi_json_text_is(key, "format") && tinyi_json_text_is(value, "pt"));
    ((seen *)arg)->n_meta++;
}
static void take_tensor(void *arg, const tinyi_st_tensor *t)
{
    ((seen *)arg)->n_tensors++;
    ((seen *)arg)->last = *t;
}

/* every cut of a good file is refused; the whole file is read in full (the form is tested further in
 * tests/llm/file/safetensors.c) */
static void test_safetensors(void)
{
    static const char json[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_"
                               "offsets\":[0,8]},\"b\":{\"dtype\":\"BF16\",\"shape\":[3,1,2],\"data_offsets\":[8,20]}}";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const size_t n = 8 + sizeof json - 1 + 20;
    unsigned char *file = (unsigned char *)t_keep(n);
    tinyi_st_sink sink;
    seen s;
    size_t i;
    memset(&s, 0, sizeof s);
    sink.arg = &s;
    sink.meta = take_meta;
    sink.tensor = take_tensor;
    file[0] = (unsigned char)(sizeof json - 1);
    memcpy(file + 8, json, sizeof json - 1);
    if (T_OK(tinyi_st_walk(ctx, "file", file, n, &sink))) {
        T_TRUE(s.n_meta == 1 && s.n_tensors == 2 && s.last.type == TINYI_ST_BF16 && s.last.rank == 3 &&
               s.last.bytes == 12);
        T_TRUE(s.last.dim[0] == 3 && s.last.dim[1] == 1 && s.last.dim[2] == 2 && s.last.data == file + n - 12 &&
               tinyi_json_text_is(s.last.name, "b"));
    }
    sink.meta = NULL;
    sink.tensor = NULL;
    T_OK(tinyi_st_walk(ctx, "file", file, n, &sink));
    for (i = 0; i < n; i++) {
        unsigned char *cut = (unsigned char *)malloc(i ? i : 1);
        memcpy(cut, file, i);
        if (tinyi_st_walk(ctx, "file", cut, i, &sink) != TINY_E_FORMAT)
            t_fail(__FILE__, __LINE__, "cut at %lu", (unsigned long)i);
        free(cut);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_items);
    T_RUN(test_refused);
    T_RUN(test_safetensors);
    return t_done();
}
