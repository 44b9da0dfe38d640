/* tests/llm/growth.c - no input takes quadratic time
 *
 * Each case makes its input at n, 2n and 4n and counts the work of the calls: every basic block of the implementation
 * that runs (the compiler calls a counter at each, see the Makefile), and every 16 bytes that the allocator hands out
 * or moves. No clock. Work that grows with n log n is about 4.5 times as much at 4n; the limit is 6, quadratic work
 * would be 16. Where the compiler cannot count blocks, the allocator alone is counted. */
#ifdef T_STEPS
#define TINYLLM_ALL
#define TINYLLM_IMPLEMENTATION
#define TINY_NO_SIMD
#define TINY_NO_CONFORM
#define TINY_NO_OPENMP
#endif
#include "t.h"
#include "llm/file/kit.h"

#ifdef T_STEPS
extern volatile unsigned long long
    t_steps; /* the calls that change it are added after the compiler has looked for them */
#else
static volatile unsigned long long t_steps;
#endif

static unsigned long long n_moved;          /* 16 bytes each */
static unsigned long long work, work_from;  /* of the call inside of COUNT */

static void *counted_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    n_moved += (n_bytes + 15) / 16;
    return t_alloc_realloc(user, old, old_bytes, n_bytes);
}

/* A buffer that doubles as it fills may take twice the share that is due at 4n, so that the allocator alone proves
 * less. */
#ifdef T_STEPS
#define MOST 6.0
#else
#define MOST 9.0
#endif

#define COUNT(...) do { work_from = t_steps + n_moved; __VA_ARGS__; work += t_steps + n_moved - work_from; } while (0)

static void put(kit_image *m, const char *text) { kit_bytes(m, text, strlen(text)); }
TINYI_PRINTF(2, 3) static void putf(kit_image *m, const char *format, ...)
{
    char line[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(m, line);
}
static void many(kit_image *m, const char *text, size_t n) { while (n--) put(m, text); }

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void open_and_find(tiny_ctx *ctx, kit_image *m, int safetensors)
{
    tllm_gguf *g = NULL;
    const char *wrong = NULL;
    if (safetensors)
        for (work_from = 0; work_from < 8; work_from++) m->b[work_from] = (unsigned char)((m->n - 8) >> 8 * work_from);
    COUNT(T_OK(safetensors ? tllm_safetensors_open_memory(ctx, m->b, m->n, &g)
                           : tllm_gguf_open_memory(ctx, m->b, m->n, &g));
          if (g) wrong = kit_walk(g)); /* the walk finds every key and tensor by its name */
    T_TRUE(g && !wrong);
    tllm_gguf_close(ctx, g);
    kit_free(m);
}
static void gguf_keys(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    char name[40];
    size_t i;
    kit_head(&m, 3, 0, n);
    for (i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "key.%lu", (unsigned long)i);
        kit_key_u32(&m, name, (uint32_t)i);
    }
    open_and_find(ctx, &m, 0);
}
static void gguf_tensors(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    char name[40];
    size_t i;
    kit_head(&m, 3, n, 0);
    for (i = 0; i < n; i++) {               /* from the last to the first: the order by place must be made */
        (void)snprintf(name, sizeof name, "t%lu", (unsigned long)i);
        kit_tensor(&m, name, 1, 1, 0, 24, (uint64_t)(n - 1 - i) * 32);
    }
    kit_pad(&m, 32);
    kit_data(&m, n * 32);
    open_and_find(ctx, &m, 0);
}
static void gguf_texts(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    kit_head(&m, 3, 0, 1);
    kit_array(&m, "tokens", TLLM_STRING, n);
    while (n--) kit_text(&m, n % 3 ? "" : "abc");
    open_and_find(ctx, &m, 0);
}
static void safetensors_tensors(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    kit_u64(&m, 0);
    for (i = 0; i < n; i++)
        putf(&m, "%s\"\\u0074%lx\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%lu,%lu]}", i ? "," : "{",
             (unsigned long)i, (unsigned long)(n - 1 - i), (unsigned long)(n - i));
    put(&m, "}");
    {
        tllm_gguf *g = NULL;
        const size_t header = m.n - 8;
        const char *wrong = NULL;
        kit_data(&m, n);
        for (i = 0; i < 8; i++) m.b[i] = (unsigned char)(header >> 8 * i);
        COUNT(T_OK(tllm_safetensors_open_memory(ctx, m.b, m.n, &g));
              if (g) wrong = kit_walk(g));
        T_TRUE(g && !wrong);
        tllm_gguf_close(ctx, g);
    }
    kit_free(&m);
}
static void safetensors_keys(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    kit_u64(&m, 0);
    put(&m, "{\"__metadata__\":");
    for (i = 0; i < n; i++)
        putf(&m, "%s\"a key of the file %lx\":\"its value, as a text, is longer than it must be\"", i ? "," : "{",
             (unsigned long)i);
    put(&m, "}}");
    open_and_find(ctx, &m, 1);
}

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

typedef struct words {
    tllm_vocab_desc d;
    tllm_text *text, *merge;
    float *score;
    int32_t *type, special[TLLM_SPECIAL_COUNT];
} words;

/* room for n tokens and merges, the first two are "a" and "b" */
static words words_of(const char *model, size_t n)
{
    words w;
    memset(&w, 0, sizeof w);
    w.text = (tllm_text *)t_keep((n + 2) * sizeof *w.text);
    w.merge = (tllm_text *)t_keep((n + 2) * sizeof *w.merge);
    w.score = (float *)t_keep((n + 2) * sizeof *w.score);
    w.type = (int32_t *)t_keep((n + 2) * sizeof *w.type);
    w.d.model = model;
    w.d.pre = !strcmp(model, "gpt2") ? "gpt-2" : NULL;
    w.text[0] = kit_name("a");
    w.text[1] = kit_name("b");
    w.type[0] = w.type[1] = 1;
    w.d.n_tokens = 2;
    w.d.text = w.text;
    w.d.merge = w.merge;
    w.d.score = w.score;
    w.d.type = w.type;
    return w;
}
static void word(words *w, const char *text, int32_t type)
{
    char *copy = (char *)t_keep(strlen(text) + 1);
    memcpy(copy, text, strlen(text));
    w->text[w->d.n_tokens].at = copy;
    w->text[w->d.n_tokens].n = strlen(text);
    w->score[w->d.n_tokens] = -(float)w->d.n_tokens;
    w->type[w->d.n_tokens++] = type;
}

static void vocab_size(tiny_ctx *ctx, size_t n, int same, int32_t type)
{
    static const char *const model[] = { "llama", "gpt2", "bert", "t5", "rwkv", "plamo2" };
    size_t k, i;
    for (k = 0; k < T_COUNT(model); k++) {
        words w = words_of(model[k], n + 256);
        char *room = (char *)t_keep(n * 24);
        tllm_vocab *v = NULL;
        tllm_tokens t;
        char byte[8];
        memset(&t, 0, sizeof t);
        for (i = 0; !strcmp(model[k], "plamo2") && i < 256; i++) {
            (void)snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)i);
            word(&w, byte, TLLM_TOKEN_BYTE);
        }
        for (i = 0; i < n; i++) {
            (void)snprintf(room + 24 * i, 24, "a%lx", same ? 0 : (unsigned long)i);
            w.text[w.d.n_tokens] = kit_name(room + 24 * i);
            w.score[w.d.n_tokens] = -1;
            w.type[w.d.n_tokens++] = type;
            w.merge[i] = kit_name("a b");
        }
        w.d.n_merges = n;
        COUNT(T_OK(tllm_vocab_make(ctx, &w.d, &v));
              if (v) T_OK(tllm_encode(ctx, v, "abba a0a1 a22", 13, TLLM_ENCODE_SPECIAL, &t)));
        tllm_tokens_free(ctx, &t);
        tllm_vocab_close(ctx, v);
        t_free_blocks();
    }
}
static void vocab_tokens(tiny_ctx *ctx, size_t n) { vocab_size(ctx, n, 0, TLLM_TOKEN_NORMAL); }
static void vocab_twins(tiny_ctx *ctx, size_t n) { vocab_size(ctx, n, 1, TLLM_TOKEN_NORMAL); }
static void vocab_users(tiny_ctx *ctx, size_t n) { vocab_size(ctx, n, 0, TLLM_TOKEN_USER); }

/* text that is hard to cut: one run, and two letters at random; there, back, and back token by token */
static void encode_with(tiny_ctx *ctx, const char *model, size_t n)
{
    static const char *const more[] = { "aa", "ab", "ba", "bb", "aab", "aaaa", "aaaaaaaa", "baab", "bbbb", "abab" };
    static const char *const merges[] = { "a a", "a b", "b a", "b b", "aa aa", "aaaa aaaa", "ba ab", "bb bb", "ab ab" };
    words w = words_of(model, 600);
    char *text = (char *)t_keep(n), byte[8];
    tllm_vocab *v = NULL;
    size_t i, k;
    for (i = 0; !strcmp(model, "plamo2") && i < 256; i++) {
        (void)snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)i);
        word(&w, byte, TLLM_TOKEN_BYTE);
    }
    for (i = 0; i < T_COUNT(more); i++) word(&w, more[i], 1);
    word(&w, "<x>", TLLM_TOKEN_CONTROL);
    word(&w, "<x><x>", TLLM_TOKEN_CONTROL);
    for (i = 0; i < T_COUNT(merges); i++) w.merge[i] = kit_name(merges[i]);
    w.d.n_merges = T_COUNT(merges);
    if (T_OK(tllm_vocab_make(ctx, &w.d, &v)))
        for (k = 0; k < 4; k++) {
            tllm_tokens t;
            tllm_bytes b;
            memset(&t, 0, sizeof t);
            memset(&b, 0, sizeof b);
            t_now.rand_at = 1;
            for (i = 0; i < n; i++)
                text[i] = k == 0   ? 'a'
                          : k == 1 ? (char)('a' + t_rand_below(2))
                          : k == 2 ? "<x>"[i % 3]
                                   : "\xff\xf0\x9f '\n"[t_rand_below(6)];
            COUNT(T_OK(tllm_encode(ctx, v, text, n, TLLM_ENCODE_SPECIAL, &t)));
            COUNT(T_OK(tllm_decode(ctx, v, t.id, t.n, TLLM_DECODE_SPECIAL, &b)));
            b.n = 0;
            COUNT({
                tllm_stream s = tllm_stream_start(v, TLLM_DECODE_SPECIAL);
                for (i = 0; i < t.n; i++) T_OK(tllm_stream_next(ctx, &s, t.id[i], &b));
            });
            tllm_tokens_free(ctx, &t);
            tllm_bytes_free(ctx, &b);
        }
    tllm_vocab_close(ctx, v);
    t_free_blocks();
}
static void encode_spm(tiny_ctx *ctx, size_t n) { encode_with(ctx, "llama", n); }
static void encode_bpe(tiny_ctx *ctx, size_t n) { encode_with(ctx, "gpt2", n); }
static void encode_wordpiece(tiny_ctx *ctx, size_t n) { encode_with(ctx, "bert", n); }
static void encode_unigram(tiny_ctx *ctx, size_t n) { encode_with(ctx, "t5", n); }
static void encode_rwkv(tiny_ctx *ctx, size_t n) { encode_with(ctx, "rwkv", n); }
static void encode_plamo(tiny_ctx *ctx, size_t n) { encode_with(ctx, "plamo2", n); }

/* ---- grammars and schemas ---------------------------------------------------------------------------------------- */

static void follow(tiny_ctx *ctx, kit_image *grammar, kit_image *text, size_t n_piece)
{
    tllm_grammar *g = NULL;
    tllm_grammar_state *s = NULL;
    size_t i;
    int may = 0;
    COUNT(if (T_OK(tllm_grammar_open(ctx, (const char *)grammar->b, grammar->n, "root", &g)) &&
              T_OK(tllm_grammar_begin(ctx, g, &s))) for (i = 0; i < text->n; i += n_piece) {
        const size_t k = text->n - i < n_piece ? text->n - i : n_piece;
        T_OK(tllm_grammar_accepts(ctx, s, (const char *)text->b + i, k, &may));
        T_OK(tllm_grammar_advance(ctx, s, (const char *)text->b + i, k));
    });
    T_TRUE(may);
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    kit_free(grammar);
    kit_free(text);
}
static void grammar_rules(tiny_ctx *ctx, size_t n)      /* a chain, and every rule a choice at the beginning */
{
    kit_image g = { NULL, 0, 0 }, t = { NULL, 0, 0 };
    size_t i;
    put(&g, "root ::= r0\n");
    for (i = 0; i < n; i++)
        putf(&g, "r%lu ::= \"a%lu\" | \"b\" r%lu\n", (unsigned long)i, (unsigned long)i,
             (unsigned long)(i + 1 < n ? i + 1 : 0));
    many(&t, "b", n);
    put(&t, "a0");
    follow(ctx, &g, &t, 5);
}
static void grammar_choices(tiny_ctx *ctx, size_t n)
{
    kit_image g = { NULL, 0, 0 }, t = { NULL, 0, 0 };
    size_t i;
    put(&g, "root ::= \"c\"");
    for (i = 0; i < n; i++) putf(&g, " | \"a%lu\"", (unsigned long)i);
    put(&t, "a17");
    follow(ctx, &g, &t, 1);
}
static void grammar_text(tiny_ctx *ctx, size_t n)       /* ambiguous, and recursive at the end */
{
    kit_image g = { NULL, 0, 0 }, t = { NULL, 0, 0 };
    put(&g, "root ::= (\"a\" | \"a\" \"a\" | [a-c]+)* tail\ntail ::= \"a\" tail | \"a\"\n");
    many(&t, "a", n);
    follow(ctx, &g, &t, 7);
}
static void grammar_depth(tiny_ctx *ctx, size_t n)      /* brackets that stay open, then close */
{
    kit_image g = { NULL, 0, 0 }, t = { NULL, 0, 0 };
    put(&g, "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | [0-9]+\n");
    many(&t, "[", n);
    many(&t, "]", n);
    follow(ctx, &g, &t, 3);
}
/* pieces with a common beginning: all of one length, and one that is longer each time */
static void mask(tiny_ctx *ctx, size_t n, int longer)
{
    static const char rules[] = "root ::= \"a\"* [ab] \"c\"?";
    char *bytes = (char *)t_keep(n * 40 + 1);
    uint32_t *end = (uint32_t *)t_keep((n + 1) * sizeof *end);
    unsigned char *may = (unsigned char *)t_keep(n + 1);
    tllm_grammar *g = NULL;
    tllm_grammar_state *s = NULL;
    tllm_pieces *p = NULL;
    size_t i, at = 0, k;
    for (i = 0; i < n && at < n * 30; i++) {
        const size_t length = longer ? 1 + i % 64 : 30;
        for (k = 0; k + 1 < length && at < n * 40; k++) bytes[at++] = 'a';
        bytes[at++] = (char)('a' + i % 4);
        end[i] = (uint32_t)at;
    }
    COUNT(if (T_OK(tllm_pieces_open(ctx, bytes, end, i, &p)) &&
              T_OK(tllm_grammar_open(ctx, rules, sizeof rules - 1, "root", &g)) && T_OK(tllm_grammar_begin(ctx, g, &s)))
              T_OK(tllm_grammar_mask(ctx, s, p, may)));
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    tllm_pieces_close(ctx, p);
}
static void mask_alike(tiny_ctx *ctx, size_t n) { mask(ctx, n, 0); }
static void mask_longer(tiny_ctx *ctx, size_t n) { mask(ctx, n, 1); }
static void grammar_groups(tiny_ctx *ctx, size_t n)
{
    kit_image g = { NULL, 0, 0 }, t = { NULL, 0, 0 };
    put(&g, "root ::= ");
    many(&g, "(\"x\" | ", n);
    put(&g, "\"a\"");
    many(&g, ")", n);
    put(&t, "a");
    follow(ctx, &g, &t, 1);
}

static void schema(tiny_ctx *ctx, kit_image *m)
{
    char *text = NULL;
    size_t n = 0;
    tllm_grammar *g = NULL;
    COUNT(if (T_OK(tllm_schema_grammar(ctx, (const char *)m->b, m->n, &text, &n)))
              T_OK(tllm_grammar_open(ctx, text, n, "root", &g)));
    tllm_grammar_close(ctx, g);
    tiny_free(ctx, text);
    kit_free(m);
}
static void schema_properties(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    put(&m, "{\"type\":\"object\",\"properties\":");
    for (i = 0; i < n; i++) putf(&m, "%s\"p%lu\":{\"type\":\"integer\"}", i ? "," : "{", (unsigned long)i);
    put(&m, "},\"required\":");
    for (i = 0; i < n; i++) putf(&m, "%s\"p%lu\"", i ? "," : "[", (unsigned long)i);
    put(&m, "]}");
    schema(ctx, &m);
}
static void schema_optional(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    put(&m, "{\"type\":\"object\",\"properties\":");
    for (i = 0; i < n; i++) putf(&m, "%s\"p%lu\":true", i ? "," : "{", (unsigned long)i);
    put(&m, "}}");
    schema(ctx, &m);
}
static void schema_enum(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    put(&m, "{\"enum\":");
    for (i = 0; i < n; i++) putf(&m, "%s\"value %lu\"", i ? "," : "[", (unsigned long)i);
    put(&m, "]}");
    schema(ctx, &m);
}
static void schema_refs(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    put(&m, "{\"$ref\":\"#/$defs/d0\",\"$defs\":");
    for (i = 0; i < n; i++)
        putf(&m, "%s\"d%lu\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/d%lu\"}}", i ? "," : "{",
             (unsigned long)i, (unsigned long)((i + 1) % n));
    put(&m, "}}");
    schema(ctx, &m);
}
static void schema_depth(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    many(&m, "{\"type\":\"array\",\"items\":", n);
    put(&m, "{}");
    many(&m, "}", n);
    schema(ctx, &m);
}

/* ---- templates --------------------------------------------------------------------------------------------------- */

static void render(tiny_ctx *ctx, kit_image *source, kit_image *messages)
{
    tllm_template *t = NULL;
    tllm_template_values v;
    char *text = NULL;
    size_t n = 0;
    memset(&v, 0, sizeof v);
    v.messages_json = messages && messages->n ? (const char *)messages->b : "[]";
    v.messages_json_bytes = messages && messages->n ? messages->n : 2;
    COUNT(if (T_OK(tllm_template_open(ctx, (const char *)source->b, source->n, &t)))
              T_OK(tllm_template_run(ctx, t, &v, &text, &n)));
    T_TRUE(n > 0);
    tiny_free(ctx, text);
    tllm_template_close(ctx, t);
    kit_free(source);
    if (messages) kit_free(messages);
}
static void template_blocks(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++)
        putf(&m,
             "{%% if messages %%}a{%% else %%}{{ 'b%lu' + 'c' }}{%% endif %%}{# %lu #}{%% set v%lu = %lu %%}{{ v%lu }}",
             (unsigned long)i, (unsigned long)i, (unsigned long)(i % 50), (unsigned long)i, (unsigned long)(i % 50));
    render(ctx, &m, NULL);
}
static void template_names(tiny_ctx *ctx, size_t n)     /* each block another variable */
{
    kit_image m = { NULL, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++)
        putf(&m, "{%% set name%lu = %lu %%}{{ name%lu }}", (unsigned long)i, (unsigned long)i, (unsigned long)(i / 2));
    render(ctx, &m, NULL);
}
static void template_depth(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    put(&m, "x");
    many(&m, "{% if not messages %}", n);
    many(&m, "{% endif %}", n);
    put(&m, "{{ ");
    many(&m, "(1 + ", n);
    put(&m, "1");
    many(&m, ")", n);
    put(&m, " }}");
    render(ctx, &m, NULL);
}
static void template_operands(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 };
    put(&m, "{{ 1");
    many(&m, " + 1", n);
    put(&m, " }}{{ [1");
    many(&m, ", 1", n);
    put(&m, "] | length }}");
    render(ctx, &m, NULL);
}
static void template_messages(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 }, j = { NULL, 0, 0 };
    size_t i;
    put(&m, "{% for m in messages %}{{ loop.index0 }}{{ messages[loop.index0].content | trim }}{{ messages[-1].role "
            "}}{% endfor %}{{ messages | length }}{{ messages | tojson }}");
    for (i = 0; i < n; i++)
        putf(&j, "%s{\"role\":\"user\",\"content\":\" words \\u00e9 %lu\"}", i ? "," : "[", (unsigned long)i);
    put(&j, "]");
    render(ctx, &m, &j);
}
static void template_members(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 }, j = { NULL, 0, 0 };
    size_t i;
    put(&m, "{% for k in messages[0] %}{{ messages[0][k] }}{% endfor %}{% for k, v in messages[0].items() %}{{ k }}{% "
            "endfor %}");
    for (i = 0; i < n; i++) putf(&j, "%s\"key%lu\":%lu", i ? "," : "[{", (unsigned long)i, (unsigned long)i);
    put(&j, "}]");
    render(ctx, &m, &j);
}
static void template_json_depth(tiny_ctx *ctx, size_t n)
{
    kit_image m = { NULL, 0, 0 }, j = { NULL, 0, 0 };
    put(&m, "{{ messages | tojson }}");
    many(&j, "[", n);
    many(&j, "]", n);
    render(ctx, &m, &j);
}

/* ---- the counter itself: it sees a loop in a loop, and it sees one that is none ---------------------------------- */

static volatile unsigned sink;
static void squared(tiny_ctx *ctx, size_t n)
{
    size_t i, k;
    (void)ctx;
    COUNT(for (i = 0; i < n; i++) for (k = 0; k < n; k++) sink++);
}
static void straight(tiny_ctx *ctx, size_t n)
{
    size_t i;
    (void)ctx;
    COUNT(for (i = 0; i < n; i++) sink++);
}

static void grows(tiny_ctx *ctx, void (*run)(tiny_ctx *, size_t), size_t n, double w[3])
{
    int k;
    for (k = 0; k < 3; k++) {
        work = 0;
        run(ctx, n << k);
        w[k] = (double)work;
    }
}

static void test_growth(void)
{
    static const struct { const char *what; void (*run)(tiny_ctx *, size_t); size_t n;
    } row[] = { { "GGUF keys", gguf_keys, 2000 },
                { "GGUF tensors", gguf_tensors, 2000 },
                { "GGUF texts in a list", gguf_texts, 8000 },
                { "safetensors tensors", safetensors_tensors, 2000 },
                { "safetensors keys", safetensors_keys, 2000 },
                { "tokens and merges", vocab_tokens, 2000 },
                { "tokens that are one", vocab_twins, 2000 },
                { "tokens of users", vocab_users, 2000 },
                { "text, SentencePiece", encode_spm, 4000 },
                { "text, BPE", encode_bpe, 4000 },
                { "text, WordPiece", encode_wordpiece, 4000 },
                { "text, unigram", encode_unigram, 4000 },
                { "text, RWKV", encode_rwkv, 4000 },
                { "text, PLaMo", encode_plamo, 4000 },
                { "grammar rules", grammar_rules, 1000 },
                { "grammar alternatives", grammar_choices, 1000 },
                { "grammar groups", grammar_groups, 45 },
                { "text of a grammar", grammar_text, 2000 },
                { "brackets in a grammar", grammar_depth, 2000 },
                { "mask of equal pieces", mask_alike, 2000 },
                { "mask of longer ones", mask_longer, 2000 },
                { "schema properties", schema_properties, 500 },
                { "schema optional ones", schema_optional, 500 },
                { "schema enum", schema_enum, 500 },
                { "schema $refs", schema_refs, 500 },
                { "schema depth", schema_depth, 20 },
                { "template blocks", template_blocks, 300 },
                { "template variables", template_names, 300 },
                { "template depth", template_depth, 20 },
                { "template operands", template_operands, 1000 },
                { "messages", template_messages, 500 },
                { "members of one", template_members, 500 },
                { "depth of messages", template_json_depth, 20 } };
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    double w[3];
    size_t i;
    d.allocator.realloc_fn = counted_realloc;
    if (!T_OK(tiny_ctx_open(&d, &ctx))) return;
    t_use(ctx);
#ifdef T_STEPS
    grows(ctx, squared, 100, w);
    T_TRUE(w[0] >= 1e4 && w[2] > 15 * w[0] && w[2] < 17 * w[0]);
    grows(ctx, straight, 1000, w);
    T_TRUE(w[0] >= 1e3 && w[2] > 3.9 * w[0] && w[2] < 4.1 * w[0]);
#else
    (void)squared;
    (void)straight;
    puts("this compiler cannot count blocks: the allocator's bytes only");
#endif
    for (i = 0; i < T_COUNT(row); i++) {
        const int before = t_now.checks_failed;
        grows(ctx, row[i].run, row[i].n, w);
        printf("  %-24s %7lu: %10.0f steps, twice as many %5.2f times that, four times %5.2f\n", row[i].what,
               (unsigned long)row[i].n, w[0], w[1] / w[0], w[2] / w[0]);
        if (!(w[0] > 0 && w[2] <= MOST * w[0]))
            t_fail(__FILE__, __LINE__, "%s: four times as many take %.1f times the work", row[i].what, w[2] / w[0]);
        if (t_now.checks_failed > before) printf("  in %s\n", row[i].what);
        t_free_blocks();
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_growth);
    return t_done();
}
