/* tests/llm/chat/template.c - chat templates compared with the output of Python's jinja2, and hostile templates
 *
 * tests/golden/chat-templates.txt is written by template_golden.py. */
#include "t.h"

#define GOLDEN "tests/golden/chat-templates.txt"

typedef struct values_set { char key[32]; const char *at; size_t n; } values_set;

static char *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    long size;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) {
        s = (char *)malloc((size_t)size + 1);
        if (s && fread(s, 1, (size_t)size, f) != (size_t)size) { free(s); s = NULL; }
        if (s) { *n = (size_t)size; s[*n] = 0; }
    }
    (void)fclose(f);
    return s;
}

static void test_golden(void)
{
    values_set set[16];
    const char *source = "";
    size_t n = 0, n_sets = 0, n_source = 0, i;
    char *golden = read_whole(GOLDEN, &n), *at = golden;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int equal = 0, of = 0, refused = 0;
    T_TRUE(golden != NULL);
    while (golden && at < golden + n) {
        char name[64], key[32];
        long n_template, n_output;
        const char *line = at;
        at = strchr(at, '\n') + 1;
        if (sscanf(line, "values %31s %ld", set[n_sets].key, &n_template) == 2) {
            set[n_sets].at = at;
            set[n_sets++].n = (size_t)n_template;
            at += n_template + 1;
            continue;
        }
        if (!T_EQ_INT(sscanf(line, "case %63s %31s %ld %ld", name, key, &n_template, &n_output), 4)) break;
        if (n_template >= 0) {
            source = at;
            n_source = (size_t)n_template;
            at += n_template + 1;
        }
        for (i = 0; i < n_sets && strcmp(set[i].key, key); i++) {}
        {
            tllm_template_values v;
            tllm_template *t = NULL;
            char *text = NULL;
            size_t n_text = 0;
            tiny_status st = tllm_template_open(ctx, source, n_source, &t);
            memset(&v, 0, sizeof v);
            v.more_json = set[i].at;
            v.more_json_bytes = set[i].n;
            v.now = INT64_C(1741503902);        /* 2025-03-09 07:05:02 */
            if (!st) st = tllm_template_run(ctx, t, &v, &text, &n_text);
            of++;
            if (n_output < 0) {
                if (!st)
                    t_fail(__FILE__, __LINE__, "%s: jinja2 refuses, and we say \"%s\"\n%.*s", name, text, (int)n_source,
                           source);
                else {
                    equal++;
                    refused++;
                    T_TRUE(strstr(tiny_ctx_message(ctx), "line ") != NULL);
                    if (getenv("T_SAYS")) printf("%.*s\n    %s\n", (int)n_source, source, tiny_ctx_message(ctx));
                }
            } else if (st) {
                t_fail(__FILE__, __LINE__, "%s: %s\n%.*s", name, tiny_ctx_message(ctx), (int)n_source, source);
            } else if (n_text != (size_t)n_output || memcmp(text, at, n_text)) {
                t_fail(__FILE__, __LINE__, "%s:\n%.*s\ngives \"%s\", not \"%.*s\"", name, (int)n_source, source, text,
                       (int)n_output, at);
            } else {
                equal++;
            }
            tiny_free(ctx, text);
            tllm_template_close(ctx, t);
        }
        at += (n_output > 0 ? n_output : 0) + 1;
    }
    printf("chat templates equal to jinja2: %d of %d, of these %d refused by both\n", equal, of, refused);
    T_EQ_INT(equal, of);
    free(golden);
    t_close(ctx);
}

static const char chatml[] =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static void test_plain_messages(void)
{
    static const char given[] = "{{ bos_token }}{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}{{ "
                                "add_generation_prompt }}{{ k }}";
    static const tllm_chat_message talk[2] = { { "system", "Be brief.", 0 }, { "user", "Hello, you!!", 10 } };
    tllm_template_values v;
    tllm_template *t;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *text;
    size_t n;
    memset(&v, 0, sizeof v);
    v.message = talk;
    v.n_messages = 2;
    v.add_generation_prompt = 1;
    T_OK(tllm_template_open(ctx, chatml, sizeof chatml - 1, &t));
    T_OK(tllm_template_run(ctx, t, &v, &text, &n));
    T_EQ_TEXT(
        text,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello, you<|im_end|>\n<|im_start|>assistant\n");
    T_EQ_INT(n, strlen(text));
    tiny_free(ctx, text);
    v.messages_json = "[{\"role\": \"user\", \"content\": \"\\u00e9\\ud83d\\ude42\"}]";
    v.add_generation_prompt = 0;
    T_OK(tllm_template_run(ctx, t, &v, &text, NULL));
    T_EQ_TEXT(text, "<|im_start|>user\n\xc3\xa9\xf0\x9f\x99\x82<|im_end|>\n");
    tiny_free(ctx, text);
    tllm_template_close(ctx, t);
    tllm_template_close(ctx, NULL);

    T_OK(tllm_template_open(ctx, given, sizeof given - 1, &t));
    memset(&v, 0, sizeof v);
    v.bos_token = "<s>";
    v.more_json = "{\"k\": 5, \"tools\": []}";
    T_OK(tllm_template_run(ctx, t, &v, &text, &n));
    T_EQ_TEXT(text, "<s>FalseTrueFalseFalse5");
    tiny_free(ctx, text);
    tllm_template_close(ctx, t);
    t_close(ctx);
}

static void refuse(tiny_ctx *ctx, const char *source, const char *part)
{
    tllm_template_values v;
    tllm_template *t;
    char *text = NULL;
    tiny_status st = tllm_template_open(ctx, source, strlen(source), &t);
    memset(&v, 0, sizeof v);
    v.more_json = "{\"s\": \"abc\", \"n\": 5}";
    if (!st) st = tllm_template_run(ctx, t, &v, &text, NULL);
    if (!st) t_fail(__FILE__, __LINE__, "%.200s is taken and gives \"%.200s\"", source, text);
    else if (!strstr(tiny_ctx_message(ctx), part))
        t_fail(__FILE__, __LINE__, "%.200s says \"%s\", without \"%s\"", source, tiny_ctx_message(ctx), part);
    T_TRUE(!st || !text);
    tiny_free(ctx, text);
    tllm_template_close(ctx, t);
}

/* piece n times, then the rest */
static char *many(const char *before, const char *piece, size_t times, const char *after)
{
    size_t n = strlen(piece), i;
    char *s = (char *)t_keep(strlen(before) + n * times + strlen(after) + 1), *p = s + strlen(before);
    memcpy(s, before, strlen(before));
    for (i = 0; i < times; i++, p += n) memcpy(p, piece, n);
    memcpy(p, after, strlen(after) + 1);
    return s;
}

static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    refuse(ctx, "{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
           "more than 20000000 steps");
    refuse(ctx, "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
           "the limit is 67108864");
    refuse(ctx, "{{ range(10**9) }}", "a range of about 1000000000 numbers; the limit is 100000");
    refuse(ctx, "{{ range(0, -9223372036854775807, -1) }}", "the limit is 100000");
    refuse(ctx, "{{ 'x' * 10**9 }}", "repeated 1000000000 times exceeds the limit of 16777216 bytes");
    refuse(ctx, "{{ [0] * 10**9 }}", "a list of 1 items repeated 1000000000 times");
    refuse(ctx, "{{ [] * 10**18 }}{{ 'x'.center(10**12) }}", "a string of 1000000000000 characters");
    refuse(ctx, "{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}",
           "macro m: macro calls are nested more than 100 deep");
    refuse(ctx, "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
           "more than 100 deep");
    refuse(ctx, "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           "the limit is 67108864");
    refuse(ctx, "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           "the limit is 67108864");
    refuse(ctx, "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
           "the text grows past 16777216 bytes, the limit");
    refuse(ctx, "{% set l = [] %}{% do l.append(l) %}{{ l }}", "nested more than 100 deep");
    refuse(ctx, "{% set l = [] %}{% do l.append(l) %}{{ l|tojson }}", "nested more than 100 deep");
    refuse(ctx,
           "{% set l = [] %}{% set k = [] %}{% do l.append(k) %}{% do k.append(l) %}{% set a = [k] %}{% set b = [l] "
           "%}{{ a == b }}",
           "nested more than 100 deep are compared");
    refuse(ctx, "{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}", "the limit is 67108864");
    refuse(ctx, "{{ 9223372036854775807 + 1 }}", "of more than 64 bits");
    refuse(ctx, "{{ (-9223372036854775807 - 1) // -1 }}", "of more than 64 bits");
    refuse(ctx, "{{ -(-9223372036854775807 - 1) }}", "of more than 64 bits");
    refuse(ctx, "{{ 3 ** 99999999999 }}", "of more than 64 bits");
    refuse(ctx, "{{ 2.5 ** 99999999999 }}", "an exponent that is not a whole number of at most 1100");
    refuse(ctx, "{{ 9223372036854775808 }}", "a whole number of 2^63 or more");
    refuse(ctx, "{{ s.__class__.__mro__ }}", "'__class__' is undefined");
    refuse(ctx, "{{ ''.__class__ ~ s.format.__globals__['x'] }}", "'__globals__' is undefined");
    refuse(ctx, "{{ cycler }}{% include '/etc/passwd' %}", "the statement include reads other files");
    refuse(ctx, "{{ s|map('map', 'map') }}", "map cannot apply map");
    refuse(ctx, "{{ raise_exception('Roles must take turns') }}",
           "template line 1, column 19: the template refuses: Roles must take turns");
    refuse(ctx, "a\nb\n  {{ n.x.y }}", "line 3, column 10: 'x' is undefined");
    refuse(ctx, "{{ tojson() }}", "'tojson' is undefined");
    refuse(ctx, "{{ s|trim(1) }}", "the argument chars is a whole number, not a string");
    refuse(ctx, "{{ s|trim(a=1) }}", "trim takes no argument named a");
    refuse(ctx, "{{ s|upper(1) }}", "upper takes at most 0 arguments, not 1");
    refuse(ctx, "{% call n %}{% endcall %}", "a call block needs the call of a macro");
    refuse(ctx, "{% macro m() %}{% endmacro %}{% call m() if s else m() %}{% endcall %}",
           "a call block needs the call of a macro");
    refuse(ctx, "{% call s and n() %}{% endcall %}", "a call block needs the call of a macro");
    refuse(ctx, "{% macro m() %}{% break %}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}",
           "break outside a for");
    refuse(ctx, "{% for x in n recursive %}{% endfor %}", "recursive");
    refuse(ctx, "{{ f(*s) }}", "* and ** arguments are not supported");
    refuse(ctx, many("{{ ", "(", 100000, "1"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ ", "[", 100000, "1"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ ", "{1:", 60000, "1"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ ", "not ", 60000, "1 }}"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ ", "-", 100000, "1 }}"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ ", "1 if 1 else ", 20000, "1 }}"), "an expression nested more than 200 deep");
    refuse(ctx, many("{{ s", "|replace(s", 20000, "1 }}"), "an expression nested more than 200 deep");
    refuse(ctx, many("", "{% if 1 %}", 20000, ""), "blocks nested more than 200 deep");
    refuse(ctx, many("{{ f(", "1,", 1000, ") }}"), "a call with 1000 arguments; the limit is 100");
    refuse(ctx, many("{% macro m(a", ",a", 5, ") %}"), "a parameter of another name");
    refuse(ctx, many("{{ 1.", "0", 500, " }}"), "a number of more than 400 characters");
    refuse(ctx, many("x", "y", 300000, ""), "the limit is 262144");
    {                                       /* long, but not deep: taken, and in time that follows the length */
        tllm_template_values v;
        tllm_template *t;
        char *text;
        size_t i;
        const char *source[] = { many("{{ 1", "+1", 120000, " }}"),
                                 many("{{ s", "|trim", 50000, " }}"),
                                 many("{% set x = [", "1,", 120000, "] %}{{ x|length }}"),
                                 many("{{ 1", "<2", 120000, " }}"),
                                 many("{% if 0 %}", "{% elif 0 %}", 20000, "{% endif %}"),
                                 many("{{ s", "~s", 120000, " }}"),
                                 many("", "{{ s }}{# - #}", 18000, ""),
                                 many("{% set x = ''", " ''", 80000, " %}") };
        memset(&v, 0, sizeof v);
        v.more_json = "{\"s\": \"abc\"}";
        for (i = 0; i < T_COUNT(source); i++) {
            if (!T_OK(tllm_template_open(ctx, source[i], strlen(source[i]), &t))) continue;
            if (T_OK(tllm_template_run(ctx, t, &v, &text, NULL))) tiny_free(ctx, text);
            tllm_template_close(ctx, t);
        }
    }
    t_close(ctx);
}

static void test_values_refused(void)
{
    static const struct { const char *json, *says;
    } row[] = { { "{", "messages: the JSON ends, expected a key in quotes" },
                { "", "messages: the JSON ends, expected a value" },
                { "[1,]", "byte 3 of the JSON is 0x5d, expected a value" },
                { "{\"a\" 1}", "expected ':'" },
                { "[1 2]", "expected ',' or ']'" },
                { "{\"a\": 1 2}", "expected ',' or '}'" },
                { "[] []", "expected the end" },
                { "[01]", "expected a value" },
                { "[1.]", "expected a digit" },
                { "[\"\\ud800\"]", "second half of a surrogate pair" },
                { "[\"\xff\"]", "valid UTF-8" },
                { "[99999999999999999999]", "a whole number of 64 bits" },
                { "[nul]", "a value" },
                { "{}", "messages: the JSON is a map; it must be a list" },
                { "[\"\n\"]", "a printable character" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_template_values v;
    tllm_template *t;
    char *text;
    size_t i;
    memset(&v, 0, sizeof v);
    T_OK(tllm_template_open(ctx, chatml, sizeof chatml - 1, &t));
    for (i = 0; i < T_COUNT(row); i++) {
        v.messages_json = row[i].json;
        T_STATUS(tllm_template_run(ctx, t, &v, &text, NULL), TINY_E_FORMAT, row[i].says);
    }
    v.messages_json = many("", "[", 100000, "");
    T_STATUS(tllm_template_run(ctx, t, &v, &text, NULL), TINY_E_FORMAT,
             "messages: byte 101 of the JSON: nested more than 100 deep");
    v.messages_json = "[{\"role\": \"user\", \"content\": \"a long text that does not fit\"}]";
    v.max_text = 20;
    T_STATUS(tllm_template_run(ctx, t, &v, &text, NULL), TINY_E_WORKSPACE, "the text grows past 20 bytes, the limit");
    v.max_text = 0;
    v.max_memory = 100;
    T_STATUS(tllm_template_run(ctx, t, &v, &text, NULL), TINY_E_WORKSPACE, "the limit is 100");
    v.max_memory = 0;
    v.max_steps = 10;
    T_STATUS(tllm_template_run(ctx, t, &v, &text, NULL), TINY_E_WORKSPACE, "more than 10 steps");
    T_TRUE(text == NULL);
    T_STATUS(tllm_template_run(ctx, NULL, &v, &text, NULL), TINY_E_ARGUMENT,
             "the values or the result");
    tllm_template_close(ctx, t);
    T_STATUS(tllm_template_open(ctx, NULL, 5, &t), TINY_E_ARGUMENT, "the text is NULL");
    T_TRUE(t == NULL);
    T_OK(tllm_template_open(ctx, chatml, sizeof chatml - 1, &t));
    tllm_template_close(ctx, t);
    t_close(ctx);
}

static const char large[] =
    "{%- macro m(a, b='x') -%}\n  {{- a|tojson(indent=2) ~ b }}{% for x in a if x %}{{ loop.index }}{% else %}none{% "
    "endfor %}\n{%- endmacro -%}\n"
    "{# c -#} {% raw %} {{ {% endraw %}{% set ns = namespace(n=1, s='é\\n') %}{% for k, v in d.items() %}{% if k == "
    "'a' and not v is none %}{% set ns.s = ns.s + k %}"
    "{% elif k in ['b', \"c\"] %}{% continue %}{% else %}{% break %}{% endif %}{% endfor %}{{ ns.s[1:-1:2] }}{{ m([1, "
    "{'k': (1, 2.5e3)}], b=s.split(',')[0]|upper) }}"
    "{% set z | trim %} {{ 1 if n > 3 else 2 }} {% endset %}{{ z }}{% call(q) m(l) %}{{ q }}{% endcall %}{% filter "
    "upper %}x{% endfilter %}{% with w = 1 %}{{ w }}{% endwith %}"
    "{{ l|selectattr('x', 'eq', 1)|map(attribute='x')|join('-') }}{{ a < b <= c }}{{ strftime_now('%d %b %Y') }}";

static void test_cut_and_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_template_values v;
    size_t n, taken = 0, refused = 0;
    int bit;
    char s[sizeof large];
    memset(&v, 0, sizeof v);
    v.more_json = "{\"d\": {\"a\": 1, \"b\": 2, \"z\": 3}, \"s\": \"q,r\", \"n\": 5, \"l\": [{\"x\": 1}], \"a\": 1, "
                  "\"b\": 2, \"c\": 2}";
    v.max_steps = 100000;
    v.max_memory = v.max_text = 1 << 20;
    for (n = 0; n < sizeof large; n++) {
        for (bit = -1; bit < 8; bit++) {    /* cut before byte n; then each of its bits flipped */
            tllm_template *t;
            char *text = NULL;
            size_t size = bit < 0 ? n : sizeof large - 1;
            char *exact;
            if (bit >= 0 && n == sizeof large - 1) break;
            exact = (char *)malloc(size ? size : 1);
            memcpy(s, large, sizeof large);
            if (bit >= 0) s[n] = (char)(s[n] ^ 1 << bit);
            memcpy(exact, s, size);
            if (!tllm_template_open(ctx, exact, size, &t)) {
                if (!tllm_template_run(ctx, t, &v, &text, NULL)) taken++;
                else refused++;
            } else {
                refused++;
                if (!strstr(tiny_ctx_message(ctx), "template line "))
                    t_fail(__FILE__, __LINE__, "cut at %lu: %s", (unsigned long)n, tiny_ctx_message(ctx));
            }
            tiny_free(ctx, text);
            tllm_template_close(ctx, t);
            free(exact);
        }
    }
    T_TRUE(taken > 0 && refused > 0);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx;
        tllm_template *t;
        tllm_template_values v;
        char *text = NULL;
        memset(&v, 0, sizeof v);
        v.messages_json = "[{\"role\": \"u\\u0041\", \"content\": \"abc\"}]";
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tllm_template_open(ctx, chatml, sizeof chatml - 1, &t)) {
                if (!tllm_template_run(ctx, t, &v, &text, NULL)) T_EQ_TEXT(text, "<|im_start|>uA\nabc<|im_end|>\n");
                tiny_free(ctx, text);
                tllm_template_close(ctx, t);
            }
            tiny_ctx_close(ctx);
        })
}

int main(void)
{
    T_RUN(test_golden);
    T_RUN(test_plain_messages);
    T_RUN(test_hostile);
    T_RUN(test_values_refused);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_no_memory);
    return t_done();
}
