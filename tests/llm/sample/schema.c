/* tests/llm/sample/schema.c - JSON schemas as grammars: values that fit and values that do not, and schemas that are
 * refused */
#include "t.h"

/* 1: the whole text fits */
static int fits(tiny_ctx *ctx, const char *schema, const char *value)
{
    char *text = NULL;
    size_t n = 0;
    tllm_grammar *g = NULL;
    tllm_grammar_state *s = NULL;
    int yes = -1;
    if (!T_OK(tllm_schema_grammar(ctx, schema, strlen(schema), &text, &n))) return -1;
    T_EQ_INT(n, strlen(text));
    if (T_OK(tllm_grammar_open(ctx, text, n, "root", &g)) && T_OK(tllm_grammar_begin(ctx, g, &s)))
        yes = !tllm_grammar_advance(ctx, s, value, strlen(value)) && tllm_grammar_may_end(s);
    if (yes < 0) printf("%s\n", text);
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    tiny_free(ctx, text);
    return yes;
}

static void test_values(void)
{
    static const struct { const char *schema, *fit[5], *not_fit[5];
    } row[] = { { "{}", { "{}", "[1, null]", "\"a\"", "-1.5e3", "true" }, { "", "{", "01", "tru" } },
                { "true", { "1" }, { "x" } },
                { "{\"type\": \"integer\"}", { "0", "-12", "999" }, { "1.5", "01", "\"1\"", "" } },
                { "{\"type\": [\"number\", \"null\"]}", { "null", "1.5" }, { "true", "\"\"" } },
                { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
                  { "\"ab\"", "\"\xc3\xa9\\n\xf0\x9f\x99\x82\"" },
                  { "\"a\"", "\"abcd\"", "ab" } },
                { "{\"enum\": [\"a\\\"b\", 1, null, {\"k\": [1, 2]}]}",
                  { "\"a\\\"b\"", "1", "null", "{\"k\":[1,2]}" },
                  { "2", "\"ab\"" } },
                { "{\"const\": \"x\\\\y\"}", { "\"x\\\\y\"" }, { "\"x\"" } },
                { "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
                  "\"string\"}, \"c\": {\"type\": \"boolean\"}}, \"required\": [\"b\"]}",
                  { "{\"b\": \"\"}", "{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"c\":true}",
                    "{ \"a\": 1, \"b\": \"x\", \"c\": false }" },
                  { "{}", "{\"a\":1}", "{\"c\":true,\"b\":\"\"}", "{\"b\":\"\",}", "{\"b\":\"\",\"d\":1}" } },
                { "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}}",
                  { "{}", "{\"a\":1}" },
                  { "{,}", "{\"b\":1}" } },
                { "{\"properties\": {\"a\": {\"type\": \"integer\"}}, \"additionalProperties\": {\"type\": \"null\"}}",
                  { "{}", "{\"a\":1}", "{\"x\":null}", "{\"a\":1,\"x\":null,\"y\":null}" },
                  { "{\"x\":1}", "{\"a\":1,}" } },
                { "{\"type\": \"object\"}", { "{}", "{\"q\": [1, {}]}" }, { "[]" } },
                { "{\"type\": \"object\", \"additionalProperties\": false}", { "{}", "{ }" }, { "{\"a\":1}" } },
                { "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, \"maxItems\": 3}",
                  { "[1]", "[1, 2,3]" },
                  { "[]", "[1,2,3,4]", "[\"a\"]", "[1,]" } },
                { "{\"type\": \"array\", \"minItems\": 2}", { "[1, {}]", "[1,2,3]" }, { "[]", "[1]" } },
                { "{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"maxItems\": 0}", { "[]" }, { "[null]" } },
                { "{\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}",
                  { "[1, \"a\"]" },
                  { "[1]", "[1,\"a\",2]", "[\"a\",1]" } },
                { "{\"prefixItems\": [{\"type\": \"integer\"}], \"items\": {\"type\": \"null\"}, \"maxItems\": 2}",
                  { "[1]", "[1,null]" },
                  { "[1,null,null]", "[]" } },
                { "{\"prefixItems\": [], \"items\": {\"type\": \"null\"}}",
                  { "[]", "[null]", "[null,null]", "[null, null, null]" },
                  { "[1]", "[,null]", "[null,]" } },
                { "{\"prefixItems\": [], \"items\": {\"type\": \"null\"}, \"minItems\": 1, \"maxItems\": 2}",
                  { "[null]", "[null,null]" },
                  { "[]", "[null,null,null]" } },
                { "{\"prefixItems\": []}", { "[]" }, { "[1]" } },
                { "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"object\", \"properties\": {\"t\": {\"const\": "
                  "1}}, \"required\": [\"t\"]}]}",
                  { "5", "{\"t\":1}" },
                  { "{\"t\":2}", "null" } },
                { "{\"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, "
                  "\"kids\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/tree\"}}}, \"required\": [\"v\"]}}, "
                  "\"$ref\": \"#/$defs/tree\"}",
                  { "{\"v\":1}", "{\"v\":1,\"kids\":[{\"v\":2},{\"v\":3,\"kids\":[]}]}" },
                  { "{}", "{\"v\":1,\"kids\":[1]}" } },
                { "{\"type\": \"object\", \"title\": \"T\", \"properties\": {\"a/b\": {\"type\": \"integer\", "
                  "\"description\": \"d\"}, \"c\": {\"$ref\": \"#/properties/a~1b\"}}}",
                  { "{\"a/b\":1,\"c\":2}" },
                  { "{\"c\":\"x\"}" } } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i, k;
    for (i = 0; i < T_COUNT(row); i++) {
        for (k = 0; k < 5 && row[i].fit[k]; k++)
            if (fits(ctx, row[i].schema, row[i].fit[k]) != 1)
                t_fail(__FILE__, __LINE__, "%s\ndoes not take %s", row[i].schema, row[i].fit[k]);
        for (k = 0; k < 5 && row[i].not_fit[k]; k++)
            if (fits(ctx, row[i].schema, row[i].not_fit[k]) != 0)
                t_fail(__FILE__, __LINE__, "%s\ntakes %s", row[i].schema, row[i].not_fit[k]);
    }
    t_close(ctx);
}

static void test_refused(void)
{
    static const struct { const char *schema, *says;
    } row[] = { { "{\"type\": \"string\", \"pattern\": \"a+\"}", "JSON schema, #: unsupported keyword: pattern" },
                { "{\"properties\": {\"x\": {\"type\": \"integer\", \"minimum\": 0}}}",
                  "JSON schema, #/properties/x: unsupported keyword: minimum" },
                { "{\"type\": \"strange\"}", "unknown type strange" },
                { "{\"$ref\": \"#/no\"}", "$ref points to nothing: #/no" },
                { "{\"$ref\": \"http://x\"}", "$ref points outside the schema: http://x" },
                { "false", "a schema must be an object or true, not a bool" },
                { "{\"enum\": []}", "a non-empty list is needed for enum" },
                { "{\"anyOf\": 1}", "needed for anyOf" },
                { "{\"type\": \"string\", \"minLength\": -1}", "a number from 0 to 10000 is needed for minLength" },
                { "{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}",
                  "the maximum is below the minimum: maxLength" },
                { "{\"required\": [\"q\"], \"properties\": {}}", "required has a name that is not in properties: q" },
                { "{\"properties\": []}", "an object is needed for properties" },
                { "{\"properties\": {}, \"additionalProperties\": 1}", "needed for additionalProperties" },
                { "{\"items\": {}, \"minLength\": 1}", "keywords of several types" },
                { "{\"$ref\": \"#\", \"type\": \"null\"}", "other keywords next to $ref" },
                { "{\"prefixItems\": 1}", "a list is needed for prefixItems" },
                { "{\"items\": false, \"minItems\": 1}", "no item is allowed, but one is required by minItems" },
                { "{\"prefixItems\": [], \"minItems\": 1}", "no item is allowed, but one is required by minItems" },
                { "{", "JSON schema: the JSON ends, expected" },
                { "", "the JSON ends, expected a value" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *text, *deep = (char *)t_keep(100001);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tiny_status st = tllm_schema_grammar(ctx, row[i].schema, strlen(row[i].schema), &text, NULL);
        T_STATUS(st, i < 18 ? TINY_E_UNSUPPORTED : TINY_E_FORMAT, row[i].says);
        T_TRUE(text == NULL);
    }
    memset(deep, '[', 100000);
    T_STATUS(tllm_schema_grammar(ctx, deep, 100000, &text, NULL), TINY_E_FORMAT, "nested more than 100 deep");
    T_STATUS(tllm_schema_grammar(ctx, deep, TLLM_SCHEMA_MAX_BYTES + 1, &text, NULL), TINY_E_UNSUPPORTED,
             "the limit is 1048576");
    T_STATUS(tllm_schema_grammar(ctx, NULL, 1, &text, NULL), TINY_E_ARGUMENT, "without its text");
    t_close(ctx);
}

/* A $ref that leads back to itself without consuming a value; if it consumes one, it is recursion and accepted. */
static void test_references_in_a_circle(void)
{
    static const struct { const char *schema, *says;
    } row[] = { { "{\"$ref\": \"#\"}",
                  "JSON schema, #: $ref leads back to itself without a value in between: #" },
                { "{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": "
                  "\"#/$defs/a\"}}}",
                  "$ref leads back to itself without a value in between: #/$defs/" },
                { "{\"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#\"}]}", "in between: #" },
                { "{\"type\": \"array\", \"items\": {\"oneOf\": [{\"anyOf\": [{\"$ref\": \"#/items\"}]}, true]}}",
                  "in between: #/items" } },
      fine[] = { { "{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}]}",
                   "[null,[[]]]" },
                 { "{\"anyOf\": [{\"$ref\": \"#/$defs/n\"}, {\"$ref\": \"#/$defs/n\"}], \"$defs\": {\"n\": {\"type\": "
                   "\"integer\"}}}",
                   "7" },
                 { "{\"properties\": {\"next\": {\"$ref\": \"#\"}}}", "{\"next\":{\"next\":{}}}" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *text;
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        T_STATUS(tllm_schema_grammar(ctx, row[i].schema, strlen(row[i].schema), &text, NULL), TINY_E_UNSUPPORTED,
                 row[i].says);
        T_TRUE(text == NULL);
    }
    for (i = 0; i < T_COUNT(fine); i++) T_EQ_INT(fits(ctx, fine[i].schema, fine[i].says), 1);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION(tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1); tiny_ctx * ctx; char *text;
                      static const char schema[] =
                          "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"enum\": [1, \"\\u00e9\"]}}}";
                      if (!tiny_ctx_open(&desc, &ctx)) {
                          if (!tllm_schema_grammar(ctx, schema, sizeof schema - 1, &text, NULL)) tiny_free(ctx, text);
                          tiny_ctx_close(ctx);
                      })
}

int main(void)
{
    T_RUN(test_values);
    T_RUN(test_refused);
    T_RUN(test_references_in_a_circle);
    T_RUN(test_no_memory);
    return t_done();
}
