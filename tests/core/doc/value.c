/* tests/core/doc/value.c - trees of values: from JSON and back, keys, order, equality, and the limits of a document
 *
 * Templates and schemas test the same tree from above (tests/llm/chat, tests/llm/sample/schema.c). */
#define T_INTERNALS
#include "t.h"
#include "core/doc/value_inside.h"

static void begin(tinyi_doc *m, tiny_ctx *ctx)
{
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->what = "test";
    m->max_steps = 1u << 20;
    m->max_held = m->max_out = 1u << 20;
}
static const char *as_json(tinyi_doc *m, const tinyi_tv *v, int indent, int sort, int ascii)
{
    static char text[4096];
    tinyi_doc_form form;
    const size_t start = m->n_out;
    tinyi_tv s;
    memset(&form, 0, sizeof form);
    form.indent = indent;
    form.sort = sort;
    form.ascii = ascii;
    form.item_mark = tinyi_tv_view(",", 1);
    form.key_mark = tinyi_tv_view(":", 1);
    (void)tinyi_tv_put_json(m, v, &form);
    s = tinyi_doc_take(m, start);
    (void)snprintf(text, sizeof text, "%.*s", (int)s.n, s.u.s);
    return text;
}

static void test_there_and_back(void)
{
    static const struct { const char *in, *out;
    } each[] = { { "null", "null" },
                 { " true ", "true" },
                 { "-12", "-12" },
                 { "9223372036854775807", "9223372036854775807" },
                 { "-9223372036854775808", "-9223372036854775808" },
                 { "0.1", "0.1" },
                 { "1e300", "1e+300" },
                 { "1.0", "1.0" },
                 { "-0.0", "-0.0" },
                 { "100000000000000000000.0", "1e+20" },
                 { "1e-5", "1e-05" },
                 { "\"\"", "\"\"" },
                 { "[ ]", "[]" },
                 { "{ }", "{}" },
                 { "[1, [2, {\"a\" : []}], \"x\"]", "[1,[2,{\"a\":[]}],\"x\"]" },
                 /* a repeated key keeps its place and has the last value */
                 { "{\"b\": 1, \"a\": {\"c\": null}, \"b\": 2}", "{\"b\":2,\"a\":{\"c\":null}}" },
                 { "\"\\u00fc\\ud83d\\ude00\\n\\u0001\\/\"", "\"\xc3\xbc\xf0\x9f\x98\x80\\n\\u0001/\"" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t i;
    for (i = 0; i < T_COUNT(each); i++) {
        tinyi_doc m;
        tinyi_tv v, again;
        begin(&m, ctx);
        if (T_TRUE(tinyi_tv_read_json(&m, "it", each[i].in, strlen(each[i].in), &v))) {
            T_EQ_TEXT(as_json(&m, &v, -1, 0, 0), each[i].out);
            T_TRUE(tinyi_tv_read_json(&m, "it", each[i].out, strlen(each[i].out), &again) &&
                   tinyi_tv_equal(&m, &v, &again));
        }
        tinyi_doc_end(&m);
    }
    {
        static const char in[] = "{\"z\": [1, 2], \"a\": \"\\u00fc\\ud83d\\ude00\"}";
        tinyi_doc m;
        tinyi_tv v, w;
        begin(&m, ctx);
        T_TRUE(tinyi_tv_read_json(&m, "it", in, sizeof in - 1, &v));
        T_EQ_TEXT(as_json(&m, &v, -1, 1, 1), "{\"a\":\"\\u00fc\\ud83d\\ude00\",\"z\":[1,2]}");
        T_EQ_TEXT(as_json(&m, &v, 2, 0, 0),
                  "{\n  \"z\":[\n    1,\n    2\n  ],\n  \"a\":\"\xc3\xbc\xf0\x9f\x98\x80\"\n}");
        T_TRUE(tinyi_tv_read_json(&m, "it", "{\"a\": \"\xc3\xbc\xf0\x9f\x98\x80\", \"z\": [1, 2.0]}",
                                  strlen("{\"a\": \"\xc3\xbc\xf0\x9f\x98\x80\", \"z\": [1, 2.0]}"), &w));
        T_TRUE(tinyi_tv_equal(&m, &v, &w));     /* for any order of keys, and 2 equals 2.0 */
        T_TRUE(tinyi_map_set(&m, w.u.map, tinyi_tv_view("z", 1), tinyi_tv_int(3)) && !tinyi_tv_equal(&m, &v, &w));
        tinyi_doc_end(&m);
    }
    t_close(ctx);
}

/* a thousand keys: all are found, also after every third is gone, and the order stays that of insertion */
static void test_keys(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tinyi_doc m;
    tinyi_tv map;
    char name[1000][8];
    size_t i, n = 0;
    begin(&m, ctx);
    map = tinyi_tv_map(&m);
    for (i = 0; i < 1000; i++) {
        (void)snprintf(name[i], sizeof name[i], "k%d", (int)(i * 7919u % 1000u));
        T_TRUE(tinyi_map_set(&m, map.u.map, tinyi_tv_view(name[i], strlen(name[i])), tinyi_tv_int((int64_t)i)));
    }
    T_EQ_INT(map.u.map->n, 1000);
    for (i = 0; i < 1000; i += 3) {
        const tinyi_tv key = tinyi_tv_view(name[i], strlen(name[i]));
        T_TRUE(tinyi_map_drop(&m, map.u.map, &key));
    }
    for (i = 0; i < 1000; i++) {
        const tinyi_tv *v = tinyi_map_find_text(&m, map.u.map, name[i], strlen(name[i]));
        T_TRUE(i % 3 ? v && v->u.i == (int64_t)i && map.u.map->pair[n++].value.u.i == (int64_t)i : !v);
    }
    T_TRUE(!tinyi_map_find_text(&m, map.u.map, "k1000", 5) && !m.status);
    tinyi_doc_end(&m);
    t_close(ctx);
}

static void test_limits(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tinyi_doc m;
    tinyi_tv v;
    char deep[203];
    size_t held;
    memset(deep, '[', 101);
    memset(deep + 101, ']', 101);
    begin(&m, ctx);
    T_TRUE(!tinyi_tv_read_json(&m, "it", deep, 202, &v) && m.status == TINY_E_FORMAT);
    T_TRUE(strstr(tiny_ctx_message(ctx), "nested more than 100 deep") != NULL);
    tinyi_doc_end(&m);
    begin(&m, ctx);
    T_TRUE(!tinyi_tv_read_json(&m, "it", "[1, 2", 5, &v) &&
           strstr(tiny_ctx_message(ctx), "it: the JSON ends, expected") != NULL);
    tinyi_doc_end(&m);
    begin(&m, ctx);
    m.max_steps = 3;
    T_TRUE(!tinyi_tv_read_json(&m, "it", "[1, 2, 3, 4, 5]", 15, &v) && m.status == TINY_E_WORKSPACE);
    T_EQ_TEXT(tiny_ctx_message(ctx), "test: the test takes more than 3 steps");
    tinyi_doc_end(&m);
    begin(&m, ctx);                         /* with a text, the sentence has the line and column of it */
    m.source = "ab\ncd";
    m.n_source = 5;
    m.pos = 4;
    m.max_held = 10;
    T_TRUE(!tinyi_doc_alloc(&m, 100, 1) && m.status == TINY_E_WORKSPACE);
    T_EQ_TEXT(tiny_ctx_message(ctx),
              "test line 2, column 2: the test wants 100 bytes more and holds 0; the limit is 10");
    held = m.held;
    /* the first failure stays */
    T_TRUE(!tinyi_tv_read_json(&m, "it", "1", 1, &v) && m.held == held && m.status == TINY_E_WORKSPACE);
    tinyi_doc_end(&m);
    begin(&m, ctx);
    v = tinyi_tv_of(TINYI_DOC_UNDEFINED);
    (void)as_json(&m, &v, -1, 0, 0);
    T_TRUE(m.status == TINY_E_ARGUMENT &&
           strstr(tiny_ctx_message(ctx), "an undefined value has no form in JSON") != NULL);
    tinyi_doc_end(&m);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_there_and_back);
    T_RUN(test_keys);
    T_RUN(test_limits);
    return t_done();
}
