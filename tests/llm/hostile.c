/* tests/llm/hostile.c - texts of files that would drive a terminal: in sentences and in the log they are written as
 * \xNN
 *
 * Each case puts control characters, bytes that are no UTF-8 and marks of the writing direction in texts that a reader
 * quotes when it refuses them. The log gets each sentence as well. */
#include "t.h"
#include "one_line.h"
#include "llm/file/kit.h"

/* ESC [31m, BEL, line end, return, DEL, CSI of C1, a byte that is none, right-to-left override, line separator */
#define NASTY "\x1b[31m\a\n\r\x7f\xc2\x9b\xff\xe2\x80\xae\xe2\x80\xa8"
#define SHOWN "\\x1b[31m\\x07\\x0a\\x0d\\x7f\\xc2\\x9b\\xff\\xe2\\x80\\xae\\xe2\\x80\\xa8"

static int n_heard, n_bad;
static void hear(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    (void)level;
    n_heard++;
    if (!one_line(sentence)) return;
    n_bad++;
    t_fail(__FILE__, __LINE__, "the log hears a raw character at byte %d", (int)(one_line(sentence) - sentence));
}

static tiny_ctx *listening(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    desc.log = hear;
    n_heard = n_bad = 0;
    T_OK(tiny_ctx_open(&desc, &ctx));
    t_now.ctx = ctx;
    return ctx;
}

/* It was refused, the sentence has the rest of the text, and no raw control characters. */
static void refused(tiny_ctx *ctx, const char *what, tiny_status st, const char *shown)
{
    const char *says = tiny_ctx_message(ctx), *at = one_line(says);
    if (!st) t_fail(__FILE__, __LINE__, "%s is not refused", what);
    else if (at)
        t_fail(__FILE__, __LINE__, "%s: byte %02x is raw in the sentence, after \"%.*s\"", what,
               *(const unsigned char *)at, (int)(at - says), says);
    else if (!strstr(says, shown)) t_fail(__FILE__, __LINE__, "%s: no \"%s\" in \"%s\"", what, shown, says);
}

static void test_plain(void)
{
    static const struct { const char *text, *want; size_t room;
    } row[] = { { "", "", 8 },
                { "abc", "abc", 4 },
                { "abcd", "...", 4 },
                { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82 \\x1b", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82 \\x1b", 80 },
                { NASTY, SHOWN, 80 },
                { "\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xc3", "\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xc3",
                  80 },
                { "\xc2\x9f\xc2\xa0", "\\xc2\\x9f\xc2\xa0", 80 },
                { "abcdefg", "abc...", 7 },
                { "ab\nc", "ab...", 6 },
                { "a\xc3\xa9zzz", "a...", 6 },
                { "abcd", "", 3 } };
    char to[100];
    size_t i, k;
    for (i = 0; i < T_COUNT(row); i++) {
        size_t need;
        memset(to, '#', sizeof to);
        need = tiny_plain(to, row[i].room, row[i].text, strlen(row[i].text));
        T_EQ_TEXT(to, row[i].want);
        T_EQ_INT(to[row[i].room], '#');
        T_EQ_INT(need, tiny_plain(NULL, 0, row[i].text, strlen(row[i].text)));
        if (row[i].room == 80) T_EQ_INT(need, strlen(row[i].want) + 1);
        T_TRUE(!one_line(to));
    }
    T_EQ_INT(tiny_plain(to, sizeof to, "a\0b", 3), 7);
    T_EQ_TEXT(to, "a\\x00b");
    T_EQ_INT(tiny_plain(to, sizeof to, NULL, 5), 1);
    T_EQ_TEXT(to, "");
    for (k = 0; k < 256; k++)               /* each byte alone, and before a continuation byte */
        for (i = 0; i < 2; i++) {
            char text[2];
            text[0] = (char)k;
            text[1] = (char)0x9b;
            (void)tiny_plain(to, sizeof to, text, i + 1);
            if (one_line(to)) t_fail(__FILE__, __LINE__, "byte %02x passes raw", (unsigned)k);
        }
}

static void test_long_sentences_end_with_dots(void)
{
    tiny_ctx *ctx = listening();
    char name[2000];
    tllm_gguf *g;
    size_t n;
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    T_TRUE(tllm_gguf_open(ctx, name, &g) != TINY_OK);
    n = strlen(tiny_ctx_message(ctx));
    T_TRUE(n > 300 && n < sizeof name && !strcmp(tiny_ctx_message(ctx) + n - 3, "..."));
    memset(name, '\x1b', sizeof name - 1);
    T_TRUE(tllm_gguf_open(ctx, name, &g) != TINY_OK);
    n = strlen(tiny_ctx_message(ctx));
    T_TRUE(n > 300 && n < sizeof name && !strcmp(tiny_ctx_message(ctx) + n - 3, "...") &&
           !one_line(tiny_ctx_message(ctx)));
    t_close(ctx);
}

static void key_text(kit_image *m, const char *key, const char *value)
{
    kit_key(m, key, TLLM_STRING);
    kit_text(m, value);
}

/* keys: pairs of a key and its text; tensors by their names, of type and rank 1 x 4 */
static kit_image gguf(const char *const *keys, size_t n_keys, const char *const *tensors, size_t n_tensors,
                      uint32_t type)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    kit_head(&m, 3, n_tensors, n_keys);
    for (i = 0; i < n_keys; i++) key_text(&m, keys[2 * i], keys[2 * i + 1]);
    for (i = 0; i < n_tensors; i++) kit_tensor(&m, tensors[i], 1, 8, 1, type, 32 * i);
    kit_pad(&m, 32);
    kit_data(&m, 32 * n_tensors);
    return m;
}

static void test_gguf(void)
{
    static const char *const arch[] = { "general.architecture", NASTY }, *const twice[] = { NASTY, "1", NASTY, "2" },
                             *const tensor[] = { NASTY, NASTY };
    static const char *const align[] = { "general.alignment", "x" }, *const model[] = { "tokenizer.ggml.model", NASTY };
    static const char *const pre[] = { "tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", NASTY };
    tiny_ctx *ctx = listening();
    tllm_gguf *g;
    tllm_model *lm;
    tllm_vocab *v;
    kit_image m;
    refused(ctx, "the name of a file", tllm_gguf_open(ctx, "/no/" NASTY, &g), SHOWN);
    refused(ctx, "the name of a file", tllm_gguf_open(ctx, "/no/" NASTY ".safetensors", &g), SHOWN);
    m = gguf(arch, 1, NULL, 0, 0);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g)))
        refused(ctx, "general.architecture", tllm_model_open(ctx, g, &lm), "the architecture \"" SHOWN "\"");
    tllm_gguf_close(ctx, g);
    kit_free(&m);
    m = gguf(model, 1, NULL, 0, 0);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g)))
        refused(ctx, "tokenizer.ggml.model", tllm_vocab_open(ctx, g, &v), "tokenizer.ggml.model is \"" SHOWN "\"");
    tllm_gguf_close(ctx, g);
    kit_free(&m);
    m = gguf(pre, 2, NULL, 0, 0);
    if (T_OK(tllm_gguf_open_memory(ctx, m.b, m.n, &g)))
        refused(ctx, "tokenizer.ggml.pre", tllm_vocab_open(ctx, g, &v), "tokenizer.ggml.pre is \"" SHOWN "\"");
    tllm_gguf_close(ctx, g);
    kit_free(&m);
    m = gguf(twice, 2, NULL, 0, 0);
    refused(ctx, "a key that stands there twice", tllm_gguf_open_memory(ctx, m.b, m.n, &g), SHOWN);
    kit_free(&m);
    m = gguf(NULL, 0, tensor, 2, 0);
    refused(ctx, "a tensor that stands there twice", tllm_gguf_open_memory(ctx, m.b, m.n, &g), SHOWN);
    kit_free(&m);
    m = gguf(NULL, 0, tensor, 1, 4711);
    refused(ctx, "a tensor of no type", tllm_gguf_open_memory(ctx, m.b, m.n, &g), SHOWN);
    kit_free(&m);
    m = gguf(align, 1, NULL, 0, 0);
    refused(ctx, "an alignment that is a text", tllm_gguf_open_memory(ctx, m.b, m.n, &g), "alignment");
    kit_free(&m);
    T_TRUE(n_heard >= 8 && !n_bad);
    t_close(ctx);
}

static void test_safetensors(void)
{
    /* JSON has no raw control characters: C1 and marks of direction are allowed there */
    static const struct { const char *json, *shown;
    } row[] = { { "{\"a\xc2\x9b\xe2\x80\xae\": {\"x\": 1}}", "\\xc2\\x9b\\xe2\\x80\\xae" },
                { "{\"a\": {\"dtype\": \"\xc2\x9b"
                  "31m\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
                  "\\xc2\\x9b31m" },
                { "{\"a\": {\"\xe2\x80\xae\": 1}}", "\\xe2\\x80\\xae" },
                { "{\"a\": {\"dtype\": \"\x1b\"}}", "" },
                { "{\"a\": {\"dtype\": \"\\u001b[31m\", \"shape\": [1], \"data_offsets\": [0, 4]}}", "31m" } };
    tiny_ctx *ctx = listening();
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        kit_image m;
        tllm_gguf *g;
        kit_safetensors(&m, row[i].json, 4);
        refused(ctx, row[i].json, tllm_safetensors_open_memory(ctx, m.b, m.n, &g), row[i].shown);
        kit_free(&m);
    }
    T_TRUE(n_heard >= 5 && !n_bad);
    t_close(ctx);
}

static void test_texts(void)
{
    static const struct { const char *text, *shown;
    } templates[] = { { "{{ raise_exception('" NASTY "') }}", "the template refuses: \\x1b[31m" },
                      { "{{ raise_exception('\\x1b[31m') }}", "the template refuses: \\x1b[31m" },
                      { "{{ raise_exception('\xc2\x9b' * 400) }}", "\\xc2\\x9b" },
                      { "{{ 'a' | " NASTY " }}", "" },
                      { "{% " NASTY " %}", "" },
                      { "{{ a." NASTY " }}", "" },
                      { "{{ ('\x1b[31m').x.y }}", "" },
                      { "{{ 1 + '\x1b[31m' }}", "" },
                      { "{{ {'\x1b[31m': 1}['\x9b'].z.z }}", "" },
                      { "{{ namespace(**{'\x1b': 1}).q.q }}", "" },
                      { "{{ 'x'.format(**{'\x1b[2J': 1}) }}", "" },
                      { "{{ '%s' % raise_exception('\x1b') }}", "\\x1b" },
                      { "{{ '\x1b[31m' | int('a', 'b', 'c', 'd') }}", "" },
                      { "{{ strftime_now('\x1b') + 1 }}", "" },
                      { "{% macro \x1b() %}{% endmacro %}", "" },
                      { "{{ lipsum['\x1b'].a.b }}", "" } };
    static const struct { const char *text, *shown;
    } schemas[] = { { "{\"\\u001b[31m\": 1}", "unsupported keyword: \\x1b[31m" },
                    { "{\"type\": \"\\u009b31m\"}", "unknown type \\xc2\\x9b31m" },
                    { "{\"$ref\": \"\\u0007\"}", "\\x07" },
                    { "{\"$ref\": \"#/\\u001b\"}", "\\x1b" },
                    { "{\"properties\": {\"\\u001b[2J\": 5}}", "\\x1b[2J" },
                    { "{\"properties\": {}, \"required\": [\"\\u202e\"]}", "\\xe2\\x80\\xae" },
                    { "{\"\x1b\": 1}", "" },
                    { "\x1b", "" },
                    { "{\"type\": \"\xff\"}", "" } };
    static const struct { const char *text, *shown;
    } grammars[] = { { "root ::= \x1b", "means nothing here" },
                     { "\x1b ::= \"a\"", "name of a rule" },
                     { "root ::= \"\\\x1b\"", "unknown escape" },
                     { "root ::= \"\xff\"", "" },
                     { "root \x1b", "" } };
    static const struct { const char *text, *shown;
    } configs[] = { { "no such thing \x1b[31m", "\\x1b[31m" },
                    { "\x1b[31m = 5", "unknown key \"\\x1b[31m\"" },
                    { "seed = \x1b[2J", "seed is \"\\x1b[2J\"" },
                    { "context = \x9b", "\\x9b" } };
    tiny_ctx *ctx = listening();
    size_t i;
    for (i = 0; i < T_COUNT(templates); i++) {
        static const tllm_chat_message talk[1] = { { "user", "Hello", 0 } };
        tllm_template *t = NULL;
        tllm_template_values v;
        char *text = NULL;
        tiny_status st;
        memset(&v, 0, sizeof v);
        v.message = talk;
        v.n_messages = 1;
        st = tllm_template_open(ctx, templates[i].text, strlen(templates[i].text), &t);
        if (!st) st = tllm_template_run(ctx, t, &v, &text, NULL);
        refused(ctx, templates[i].text, st, templates[i].shown);
        tiny_free(ctx, text);
        tllm_template_close(ctx, t);
    }
    for (i = 0; i < T_COUNT(schemas); i++) {
        char *text;
        refused(ctx, schemas[i].text, tllm_schema_grammar(ctx, schemas[i].text, strlen(schemas[i].text), &text, NULL),
                schemas[i].shown);
    }
    for (i = 0; i < T_COUNT(grammars); i++) {
        tllm_grammar *g;
        refused(ctx, grammars[i].text, tllm_grammar_open(ctx, grammars[i].text, strlen(grammars[i].text), "root", &g),
                grammars[i].shown);
        refused(ctx, "the name of the first rule", tllm_grammar_open(ctx, "a ::= \"a\"", 9, NASTY, &g),
                "\\x1b[31m\\x07");
    }
    for (i = 0; i < T_COUNT(configs); i++) {
        tllm_train_desc d;
        memset(&d, 0, sizeof d);
        refused(ctx, configs[i].text,
                tllm_train_config(ctx, "story" NASTY ".cfg", configs[i].text, strlen(configs[i].text), &d),
                configs[i].shown);
        T_TRUE(strstr(tiny_ctx_message(ctx), "story" SHOWN ".cfg") != NULL);
    }
    T_TRUE(n_heard >= 30 && !n_bad);
    t_close(ctx);
}

/* Nesting: a hundred thousand brackets are refused by their depth, not by a stack overflow. */
static void test_nesting(void)
{
    enum { N = 100000 };
    static const struct { const char *open, *close;
    } braces[] = { { "{{ (", ") }}" },         { "{{ [", "] }}" },           { "{{ -", " }}" },
                   { "{{ not ", " }}" },       { "{{ {1:", " }}" },          { "{% if 1 %}", "" },
                   { "{% for a in b %}", "" }, { "{{ a(", ") }}" },          { "{{ a[", "] }}" },
                   { "{{ a.b", " }}" },        { "{{ 1 if 1 else ", " }}" }, { "{{ a|b", " }}" },
                   { "{{ 1**", "1 }}" },       { "{{ 1+", "1 }}" },          { "{{ 1 and ", "1 }}" },
                   { "{% macro a() %}", "" },  { "{% set a %}", "" } };
    tiny_ctx *ctx = listening();
    char *text = (char *)t_keep(20 * N), *out = NULL;
    size_t i, k, n;
    for (i = 0; i < T_COUNT(braces); i++) {
        const char *in = strncmp(braces[i].open, "{{ ", 3) ? braces[i].open : braces[i].open + 3;
        tllm_template *t = NULL;
        tllm_template_values v;
        n = 0;
        if (in != braces[i].open) n += (size_t)sprintf(text, "{{ ");
        if (!strcmp(in, "a.b")) n += (size_t)sprintf(text + n, "a"), in = ".b";
        if (!strcmp(in, "a|b")) n += (size_t)sprintf(text + n, "1"), in = "|abs";
        for (k = 0; k < N && n + 40 < (size_t)256 << 10; k++, n += strlen(in)) memcpy(text + n, in, strlen(in));
        n += (size_t)sprintf(text + n, "%s", braces[i].close);
        memset(&v, 0, sizeof v);
        /* it returns in any case */
        if (!tllm_template_open(ctx, text, n, &t)) (void)tllm_template_run(ctx, t, &v, &out, NULL);
        else T_TRUE(!one_line(tiny_ctx_message(ctx)));
        tiny_free(ctx, out);
        out = NULL;
        tllm_template_close(ctx, t);
    }
    for (i = 0; i < 2; i++) {               /* JSON: of schemas, of messages, of safetensors */
        static const char *const open[] = { "[", "{\"a\":" };
        tllm_template *t = NULL;
        tllm_template_values v;
        kit_image m;
        tllm_gguf *g;
        for (n = 0, k = 0; k < N; k++, n += strlen(open[i])) memcpy(text + n, open[i], strlen(open[i]) + 1);
        T_STATUS(tllm_schema_grammar(ctx, text, n, &out, NULL), TINY_E_FORMAT, "nested more than 100 deep");
        memset(&v, 0, sizeof v);
        v.messages_json = text;
        v.messages_json_bytes = n;
        if (T_OK(tllm_template_open(ctx, "{{ messages }}", 14, &t)))
            T_TRUE(tllm_template_run(ctx, t, &v, &out, NULL) != TINY_OK);
        tllm_template_close(ctx, t);
        kit_safetensors(&m, text, 0);
        T_TRUE(tllm_safetensors_open_memory(ctx, m.b, m.n, &g) != TINY_OK);
        kit_free(&m);
    }
    {                                       /* arrays of arrays in GGUF */
        kit_image m = { NULL, 0, 0 };
        tllm_gguf *g;
        kit_head(&m, 3, 0, 1);
        kit_key(&m, "deep", TLLM_ARRAY);
        for (k = 0; k < N; k++) { kit_u32(&m, TLLM_ARRAY); kit_u64(&m, 1); }
        T_STATUS(tllm_gguf_open_memory(ctx, m.b, m.n, &g), TINY_E_UNSUPPORTED, "deep");
        kit_free(&m);
    }
    {
        tllm_grammar *g;
        n = (size_t)sprintf(text, "root ::= ");
        for (k = 0; k < N; k++) text[n++] = '(';
        T_STATUS(tllm_grammar_open(ctx, text, n, "root", &g), TINY_E_FORMAT, "groups nested more than 200 deep");
    }
    T_TRUE(!n_bad);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_plain);
    T_RUN(test_long_sentences_end_with_dots);
    T_RUN(test_gguf);
    T_RUN(test_safetensors);
    T_RUN(test_texts);
    T_RUN(test_nesting);
    return t_done();
}
