/* tests/llm/sample/grammar.c - grammars: texts that follow and texts that do not, cut into all pieces, and grammars
 * that hurt */
#include "t.h"

static tllm_grammar *grammar(tiny_ctx *ctx, const char *text)
{
    tllm_grammar *g = NULL;
    T_OK(tllm_grammar_open(ctx, text, strlen(text), "root", &g));
    return g;
}

/* 1: a whole text, 0: a beginning of one, -1: neither; piece by piece of at most n_piece bytes */
static int follows_in(tiny_ctx *ctx, const tllm_grammar *g, const char *text, size_t n, size_t n_piece)
{
    tllm_grammar_state *s = NULL;
    size_t i, k;
    int may, answer;
    if (!T_OK(tllm_grammar_begin(ctx, g, &s))) return -2;
    for (i = 0; i < n; i += k) {
        tiny_status st;
        k = n - i < n_piece ? n - i : n_piece;
        T_OK(tllm_grammar_accepts(ctx, s, text + i, k, &may));
        st = tllm_grammar_advance(ctx, s, text + i, k);
        T_EQ_INT(st == TINY_OK, may);
        if (st) {
            T_STATUS(st, TINY_E_ARGUMENT, "the piece does not follow the grammar");
            tllm_grammar_free(ctx, s);
            return -1;
        }
    }
    answer = tllm_grammar_may_end(s);
    tllm_grammar_free(ctx, s);
    return answer;
}
static int follows(tiny_ctx *ctx, const tllm_grammar *g, const char *text)
{
    size_t n = strlen(text);
    int whole = follows_in(ctx, g, text, n, n + 1);
    T_EQ_INT(follows_in(ctx, g, text, n, 1), whole);
    T_EQ_INT(follows_in(ctx, g, text, n, 3), whole);
    return whole;
}

static const char json[] =
    "# JSON\n"
    "root   ::= ws value ws\n"
    "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\")\n"
    "object ::= \"{\" ws ( member (ws \",\" ws member)* )? ws \"}\"\n"
    "member ::= string ws \":\" ws value\n"
    "array  ::= \"[\" ws (\n"
    "  value (ws \",\" ws value)*   # a comment inside of a group\n"
    ")? ws \"]\"\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x00-\\x1f] | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4} ) )* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\n"
    "ws     ::= [ \\t\\n\\r]*\n";

static void test_json(void)
{
    static const struct { const char *text; int want;
    } row[] = { { "{}", 1 },
                { "[1, 2.5e-3, -0, \"a\\u00e9\\n\", {\"k\": [null, true]}]", 1 },
                { "  {\"a\" : \"\xc3\xa9\xf0\x9f\x99\x82\"}\n", 1 },
                { "", 0 },
                { "[", 0 },
                { "[1", 0 },
                { "12", 1 },
                { "-", 0 },
                { "01", -1 },
                { "[1,]", -1 },
                { "{\"a\"}", -1 },
                { "{a:1}", -1 },
                { "[1 2]", -1 },
                { "tru", 0 },
                { "true", 1 },
                { "truex", -1 },
                { "\"\\x\"", -1 },
                { "\"a\nb\"", -1 },
                { "1.", 0 },
                { "1.e", -1 },
                { "[[[[]]]]", 1 },
                { "[[[[]]]", 0 },
                { "[[[[]]]]]", -1 },
                { "\"\xc3\"", -1 },
                { "\"\xff", -1 },
                { "\"\xed\xa0\x80\"", -1 },
                { "\"\xc0\x80\"", -1 },
                { "\"\xe2\x82", 0 },
                { "{\"a\":1,\"b\":{\"c\":[]}}", 1 },
                { "{\"a\":1,}", -1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g = grammar(ctx, json);
    size_t i;
    for (i = 0; g && i < T_COUNT(row); i++) {
        int got = follows(ctx, g, row[i].text);
        if (got != row[i].want) t_fail(__FILE__, __LINE__, "%s: %d, not %d", row[i].text, got, row[i].want);
    }
    tllm_grammar_close(ctx, g);
    tllm_grammar_close(ctx, NULL);
    t_close(ctx);
}

static void test_forms(void)
{
    static const struct { const char *grammar; const char *whole[4], *part[3], *wrong[4];
    } row[] = { { "root ::= \"yes\" | \"no\" [.!]{1,3}",
                  { "yes", "no.", "no.!." },
                  { "", "no", "ye" },
                  { "no....", "yes.", "x" } },
                { "root ::= \"ab\"{2}", { "abab" }, { "ab", "aba" }, { "ababa", "abb" } },
                { "root ::= \"a\"{2,}", { "aa", "aaaa" }, { "a" }, { "b", "aab" } },
                { "root ::= \"a\"{0,2} \"b\"", { "b", "ab", "aab" }, { "a", "aa" }, { "aaa", "bb" } },
                { "root ::= \"x\" \"a\"{0} \"b\"", { "xb" }, { "x" }, { "xa" } },
                { "root ::= (\"a\" | \"b\")+ \"c\"?", { "a", "abab", "bac" }, { "" }, { "c", "acc" } },
                { "root ::= (\"a\"? \"b\"?)* \"c\"", { "c", "abbac" }, { "", "ab" }, { "cc" } },
                { "root ::= ((\"a\"*)*)* \"b\"", { "b", "aab" }, { "aaa" }, { "ba" } },
                { "root ::= [^a-c\\]x-]+", { "d", "\xe4\xb8\xad" }, { "" }, { "a", "]", "-", "x" } },
                { "root ::= [\\u4e00-\\u9fff] .",
                  { "\xe4\xb8\xad\n", "\xe4\xb8\xad\xf0\x9f\x99\x82" },
                  { "\xe4", "\xe4\xb8", "\xe4\xb8\xad\xf0" },
                  { "a", "\xc3", "\xea", "\xe3\x80" } },
                { "root ::= \"a\" root \"b\" | \"\"", { "", "ab", "aabb" }, { "aab", "a" }, { "b", "abab", "abb" } },
                { "root ::= a a\na ::= \"x\" |\n \"y\"\n", { "xx", "xy", "yx" }, { "x" }, { "xxx", "z" } },
                { "root ::= a\n | b\na ::= \"x\"\nb ::= \"y\"", { "x", "y" }, { "" }, { "xy" } },
                { "root ::= s \"!\"\ns ::= \"a\" s | \"a\" s s | \"b\"",
                  { "b!", "ab!", "abb!" },
                  { "aab", "b" },
                  { "bb", "!" } },
                { "root ::= list\nlist ::= item | item \",\" list\nitem ::= \"i\" opt\nopt ::= \"o\" | \"\"",
                  { "i", "io,i", "i,i,io" },
                  { "i,", "" },
                  { "o", "i,,", "ioo" } },
                { "root ::= e\ne ::= t ((\"+\" | \"-\") t)*\nt ::= [0-9]+ | \"(\" e \")\"",
                  { "1+2", "(1-(2+3))-4" },
                  { "(1", "1+", "((" },
                  { "+", "1)", "()" } },
                { "root ::= \"\\x41\\U0001F642\\t\\\\\\\"\"",
                  { "A\xf0\x9f\x99\x82\t\\\"" },
                  { "A\xf0\x9f" },
                  { "A\xf0\x9e", "B" } } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i, k;
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_grammar *g = grammar(ctx, row[i].grammar);
        for (k = 0; g && k < 4 && (row[i].whole[k]); k++)
            if (follows(ctx, g, row[i].whole[k]) != 1)
                t_fail(__FILE__, __LINE__, "%s\ndoes not take %s", row[i].grammar, row[i].whole[k]);
        for (k = 0; g && k < 3 && row[i].part[k]; k++)
            if (follows(ctx, g, row[i].part[k]) != 0)
                t_fail(__FILE__, __LINE__, "%s\nfinds no beginning in %s: %d", row[i].grammar, row[i].part[k],
                       follows(ctx, g, row[i].part[k]));
        for (k = 0; g && k < 4 && row[i].wrong[k]; k++)
            if (follows(ctx, g, row[i].wrong[k]) != -1)
                t_fail(__FILE__, __LINE__, "%s\ntakes %s", row[i].grammar, row[i].wrong[k]);
        tllm_grammar_close(ctx, g);
    }
    t_close(ctx);
}

/* One character that more than one place accepts: all paths continue, whether they stay in their rule or not. */
static void test_more_than_one_way(void)
{
    static const struct { const char *grammar, *text; int want;
    } row[] = { { "root ::= \"abx\" | \"aby\" | \"a\" [a-c]+ \"z\"", "abx", 1 },
                { "root ::= \"abx\" | \"aby\" | \"a\" [a-c]+ \"z\"", "aby", 1 },
                { "root ::= \"abx\" | \"aby\" | \"a\" [a-c]+ \"z\"", "abcaz", 1 },
                { "root ::= \"abx\" | \"aby\" | \"a\" [a-c]+ \"z\"", "abcx", -1 },
                { "root ::= [a-c]* \"b\" \"c\"", "abbc", 1 },
                { "root ::= [a-c]* \"b\" \"c\"", "abcb", 0 },
                { "root ::= x | \"aa\" [a-c] \"d\"\nx ::= \"a\" x | \"b\"", "aab", 1 },
                { "root ::= x | \"aa\" [a-c] \"d\"\nx ::= \"a\" x | \"b\"", "aacd", 1 },
                { "root ::= x | \"aa\" [a-c] \"d\"\nx ::= \"a\" x | \"b\"", "aaaab", 1 },
                { "root ::= x | \"aa\" [a-c] \"d\"\nx ::= \"a\" x | \"b\"", "aabd", 1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_grammar *g = grammar(ctx, row[i].grammar);
        if (!T_EQ_INT(follows(ctx, g, row[i].text), row[i].want)) printf("    %s\n", row[i].text);
        tllm_grammar_close(ctx, g);
    }
    t_close(ctx);
}

/* A rule called at the end of another one returns to all places that called the other, those found later in the same
 * step too: a calls b there before c calls a. */
static void test_late_callers(void)
{
    static const struct { const char *grammar, *text; int want;
    } row[] = { { "root ::= a \"x\" | c\nc ::= a \"y\"\na ::= b\nb ::= \"1\"", "1x", 1 },
                { "root ::= a \"x\" | c\nc ::= a \"y\"\na ::= b\nb ::= \"1\"", "1y", 1 },
                { "root ::= a \"x\" | c\nc ::= a \"y\"\na ::= b\nb ::= \"1\"", "1z", -1 },
                { "root ::= c | a \"x\"\nc ::= a \"y\"\na ::= b\nb ::= \"1\"", "1x", 1 },
                { "root ::= c | a \"x\"\nc ::= a \"y\"\na ::= b\nb ::= \"1\"", "1y", 1 },
                /* two tail calls in a row, three callers */
                { "root ::= a \"x\" | c\nc ::= a \"y\" | d\nd ::= a \"z\"\na ::= b\nb ::= e\ne ::= \"1\"+", "11z", 1 },
                { "root ::= a \"x\" | c\nc ::= a \"y\" | d\nd ::= a \"z\"\na ::= b\nb ::= e\ne ::= \"1\"+", "1y", 1 },
                { "root ::= a \"x\" | c\nc ::= a \"y\" | d\nd ::= a \"z\"\na ::= b\nb ::= e\ne ::= \"1\"+", "1", 0 },
                /* the rule called at the end may be empty: it has returned before the later caller comes */
                { "root ::= a \"x\" | c\nc ::= a \"y\"\na ::= b\nb ::= \"1\" | \"\"", "y", 1 },
                { "root ::= a \"x\" | c\nc ::= a \"y\"\na ::= b\nb ::= \"1\" | \"\"", "x", 1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_grammar *g = grammar(ctx, row[i].grammar);
        if (!T_EQ_INT(follows(ctx, g, row[i].text), row[i].want)) printf("    %s\n%s\n", row[i].text, row[i].grammar);
        tllm_grammar_close(ctx, g);
    }
    t_close(ctx);
}

/* The first bytes of a character are accepted only if some character of the grammar begins with them. [^a] accepts
 * every character but one: it refuses bytes that begin no character at all (table 3-7 of the Unicode standard). */
static void test_partial_characters(void)
{
    static const struct { const char *grammar, *text; int want;
    } row[] = { { "root ::= [^a]", "\xc2", 0 },
                { "root ::= [^a]", "\xc1", -1 },
                { "root ::= [^a]", "\xf4", 0 },
                { "root ::= [^a]", "\xf5", -1 },
                { "root ::= [^a]", "\x80", -1 },
                /* below U+0800: overlong */
                { "root ::= [^a]", "\xe0\x80", -1 },
                { "root ::= [^a]", "\xe0\x9f", -1 },
                { "root ::= [^a]", "\xe0\xa0", 0 },
                /* below U+10000 */
                { "root ::= [^a]", "\xf0\x80", -1 },
                { "root ::= [^a]", "\xf0\x8f", -1 },
                { "root ::= [^a]", "\xf0\x90", 0 },
                /* beyond U+10FFFF */
                { "root ::= [^a]", "\xf4\x90", -1 },
                { "root ::= [^a]", "\xf4\x8f", 0 },
                { "root ::= [^a]", "\xf4\x90\x80", -1 },
                /* surrogates */
                { "root ::= [^a]", "\xed\xa0", -1 },
                { "root ::= [^a]", "\xed\xbf", -1 },
                { "root ::= [^a]", "\xed\x9f", 0 },
                { "root ::= [^a]", "\xee\x80", 0 },
                { "root ::= [\\u0800-\\u0fff]", "\xe0", 0 },
                { "root ::= [\\u0800-\\u083f]", "\xe0\xa1", -1 },
                { "root ::= [\\u0800-\\u083f]", "\xe0\xa0", 0 },
                { "root ::= [^\\u0800-\\u083f]", "\xe0\xa0", -1 },
                { "root ::= [^\\u0800-\\u083e]", "\xe0\xa0", 0 },
                { "root ::= [\\U00010000-\\U0010FFFF]", "\xf4\x8f\xbf", 0 },
                { "root ::= [\\U0010FFFF]", "\xf4\x8f\xbf\xbf", 1 },
                { "root ::= [^\\U00010000-\\U0010FFFF]", "\xf4", -1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_grammar *g = grammar(ctx, row[i].grammar);
        if (!T_EQ_INT(follows(ctx, g, row[i].text), row[i].want))
            printf("    row %lu: %s\n", (unsigned long)i, row[i].grammar);
        tllm_grammar_close(ctx, g);
    }
    t_close(ctx);
}

static void test_refused(void)
{
    static const struct { const char *grammar, *says;
    } row[] = { { "", "the grammar has no rule root" },
                { "a ::= \"x\"", "the grammar has no rule root" },
                { "root ::= b", "line 1, column 10: rule b is not defined" },
                { "root = \"x\"", "expected ::=" },
                { "root ::= root \"a\" | \"b\"",
                  "rule root calls itself before it reads a character (left recursion)" },
                { "root ::= a\na ::= b \"x\"\nb ::= c a\nc ::= \"\" | \"q\"", "calls itself before" },
                { "root ::= (\"x\"? root)", "rule root calls itself" },
                { "root ::= \"a\nb\"", "the line ends inside a literal" },
                { "root ::= \"a", "without its closing quote" },
                { "root ::= [a", "a class without its ]" },
                { "root ::= [z-a]", "a range of a class ends before it starts" },
                { "root ::= (\"a\"", "the grammar ends inside a group" },
                { "root ::= \"a\")", "a ) without its (" },
                { "root ::= *", "a repetition of nothing" },
                { "root ::= \"a\"{2", "a repetition is {m}, {m,} or {m,n}" },
                { "root ::= \"a\"{3,2}", "a maximum below its minimum" },
                { "root ::= \"\\q\"", "an unknown escape" },
                { "root ::= \"\\x4\"", "too few hexadecimal digits" },
                { "root ::= \"\\ud800\"", "an escape of an invalid character" },
                { "root ::= \"a\"\nroot ::= \"b\"", "rule root is defined a second time" },
                { "root ::= \"a\" %", "a character that means nothing here" },
                { "root ::= \"a\"{1000}{1000}", "has more than 200000 operations" },
                { "root ::= \"a\"{99999999999999999999}", "has more than 200000 operations" },
                { "root ::= \"\xff\"", "invalid UTF-8" },
                { "::= \"a\"", "expected the name of a rule" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g;
    tllm_grammar_state *s;
    char *deep = (char *)t_keep(100020);
    size_t i;
    int yes;
    for (i = 0; i < T_COUNT(row); i++) {
        T_STATUS(tllm_grammar_open(ctx, row[i].grammar, strlen(row[i].grammar), "root", &g), TINY_E_FORMAT,
                 row[i].says);
        T_TRUE(g == NULL);
    }
    memset(deep, '(', 100000);
    memcpy(deep, "root ::= ", 9);
    T_STATUS(tllm_grammar_open(ctx, deep, 100000, "root", &g), TINY_E_FORMAT, "groups nested more than 200 deep");
    T_STATUS(tllm_grammar_open(ctx, deep, TLLM_GRAMMAR_MAX_BYTES + 1, "root", &g), TINY_E_UNSUPPORTED,
             "the limit is 1048576");
    T_STATUS(tllm_grammar_open(ctx, NULL, 3, "root", &g), TINY_E_ARGUMENT, "name of its root rule is NULL");
    T_STATUS(tllm_grammar_begin(ctx, NULL, &s), TINY_E_ARGUMENT, "the grammar is NULL");
    T_STATUS(tllm_grammar_accepts(ctx, NULL, "a", 1, &yes), TINY_E_ARGUMENT, "the piece or the result is NULL");
    T_EQ_INT(tllm_grammar_may_end(NULL), 0);
    t_close(ctx);
}

/* Grammars of a few lines that would keep a processor busy for long: refused by the number of their steps, and those
 * that are only large are accepted. */
static void test_steps_are_counted(void)
{
    static const char taken_away[] = "\"x\"{190000}{0} ";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *text = (char *)t_keep(1 << 20), bytes[256];
    unsigned char may[256];
    uint32_t end[256];
    tllm_grammar *g;
    tllm_grammar_state *s = NULL;
    tllm_pieces *p = NULL;
    tiny_status st = TINY_OK;
    size_t i, n;
    for (i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        end[i] = (uint32_t)i + 1;
    }
    if (!T_OK(tllm_pieces_open(ctx, bytes, end, 256, &p))) return;
    /* 41 rules, each the next one twice: after k letters each of 27 bytes costs thousands of steps times k */
    for (n = (size_t)sprintf(text, "root ::= r0\n"), i = 0; i < 40; i++)
        n += (size_t)sprintf(text + n, "r%d ::= r%d r%d\n", (int)i, (int)i + 1, (int)i + 1);
    (void)sprintf(text + n, "r40 ::= [a-z ]?\n");
    g = grammar(ctx, text);
    T_OK(tllm_grammar_begin(ctx, g, &s));
    for (n = 0; !st && n < 50; n++) {
        st = tllm_grammar_mask(ctx, s, p, may);
        if (!st) st = tllm_grammar_advance(ctx, s, "a", 1);
    }
    T_STATUS(st, TINY_E_WORKSPACE, "the grammar is too ambiguous: rule r");
    T_TRUE(n <= 20);
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    /* written out and taken away again, over and over: nothing is left of it but the work */
    for (n = (size_t)sprintf(text, "root ::= "), i = 0; i < 200; i++, n += sizeof taken_away - 1)
        memcpy(text + n, taken_away, sizeof taken_away);
    T_STATUS(tllm_grammar_open(ctx, text, n, "root", &g), TINY_E_FORMAT, "expand to more than 12800000 operations");
    for (n = (size_t)sprintf(text, "root ::= \"x\""), i = 0; i < 100000; i++) text[n++] = '*';
    T_STATUS(tllm_grammar_open(ctx, text, n, "root", &g), TINY_E_FORMAT, "operations");
    /* large, and harmless: 10000 words, and 2000 optional rules */
    for (n = (size_t)sprintf(text, "root ::= \"w0\""), i = 1; i < 10000; i++)
        n += (size_t)sprintf(text + n, " | \"w%d\"", (int)i);
    g = grammar(ctx, text);
    T_OK(tllm_grammar_begin(ctx, g, &s));
    for (i = 0; i < 3; i++) {
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        T_EQ_INT(may['w'], i == 0);
        T_OK(tllm_grammar_advance(ctx, s, &"w12"[i], 1));
    }
    T_EQ_INT(tllm_grammar_may_end(s), 1);
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    for (n = (size_t)sprintf(text, "root ::= s0\n"), i = 0; i < 2000; i++)
        n += (size_t)sprintf(text + n, "s%d ::= v%d? s%d\nv%d ::= \"%c\" [0-9]+ \",\"\n", (int)i, (int)i, (int)i + 1,
                             (int)i, 'a' + (int)(i % 26));
    (void)sprintf(text + n, "s2000 ::= \".\"\n");
    g = grammar(ctx, text);
    T_OK(tllm_grammar_begin(ctx, g, &s));
    for (i = 0; i < 30; i++) {
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        T_EQ_INT(may['z'], i % 3 == 0);
        T_EQ_INT(may['.'], i % 3 == 0);
        T_OK(tllm_grammar_advance(ctx, s, &"z1,"[i % 3], 1));
    }
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    tllm_pieces_close(ctx, p);
    t_close(ctx);
}

/* Long texts: the work for a character does not grow with the text before it, and neither does the memory while no rule
 * is open. */
static void test_long(void)
{
    static const struct { const char *grammar, *unit; size_t most_bytes;
    } row[] = { { "root ::= [a-z]*", "abc", 20000 },
                { "root ::= \"a\" root | \"\"", "a", 20000 },
                { "root ::= list\nlist ::= item (\",\" list)?\nitem ::= [0-9]+", "12,", 20000 },
                { "root ::= ws \"x\" root | ws\nws ::= \" \" ws | \"\"", "   x", 20000 },
                { "root ::= (a | b)*\na ::= \"x\" c\nb ::= \"x\" c c\nc ::= \"y\" | \"\"", "xyx", 40000 },
                { "root ::= \"(\" root \")\" | \"x\"", "(", 60000000 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i, k, n = 300000;
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_grammar *g = grammar(ctx, row[i].grammar);
        tllm_grammar_state *s = NULL, *c = NULL;
        size_t base = tiny_ctx_bytes(ctx), unit = strlen(row[i].unit);
        if (!g || !T_OK(tllm_grammar_begin(ctx, g, &s))) break;
        for (k = 0; k < n / unit; k++)
            if (!T_OK(tllm_grammar_advance(ctx, s, row[i].unit, unit))) break;
        if (tiny_ctx_bytes(ctx) - base > row[i].most_bytes)
            t_fail(__FILE__, __LINE__, "%s: %lu bytes after %lu", row[i].grammar,
                   (unsigned long)(tiny_ctx_bytes(ctx) - base), (unsigned long)n);
        T_OK(tllm_grammar_clone(ctx, s, &c));
        T_EQ_INT(tllm_grammar_may_end(c), tllm_grammar_may_end(s));
        T_EQ_INT(tllm_grammar_advance(ctx, c, row[i].unit, unit), TINY_OK);
        if (i + 1 == T_COUNT(row)) {        /* 300000 open brackets are closed again */
            T_OK(tllm_grammar_advance(ctx, s, "x", 1));
            for (k = 0; k < n; k++)
                if (!T_OK(tllm_grammar_advance(ctx, s, ")", 1))) break;
            T_EQ_INT(tllm_grammar_may_end(s), 1);
        }
        tllm_grammar_free(ctx, c);
        tllm_grammar_free(ctx, s);
        tllm_grammar_close(ctx, g);
    }
    t_close(ctx);
}

/* After a clone the two go their own ways, and trying pieces leaves a state as it was. */
static void test_states(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g = grammar(ctx, json);
    tllm_grammar_state *s, *c;
    int yes, turn;
    T_OK(tllm_grammar_begin(ctx, g, &s));
    T_OK(tllm_grammar_advance(ctx, s, "{\"k\": [", 7));
    T_OK(tllm_grammar_clone(ctx, s, &c));
    for (turn = 0; turn < 3; turn++) {
        T_OK(tllm_grammar_accepts(ctx, s, "1, [2], {\"a\": 3}], \"", 20, &yes));
        T_EQ_INT(yes, 1);
        T_OK(tllm_grammar_accepts(ctx, s, "}", 1, &yes));
        T_EQ_INT(yes, 0);
        T_STATUS(tllm_grammar_advance(ctx, s, "1, 2}", 5), TINY_E_ARGUMENT, "does not follow");
        T_OK(tllm_grammar_accepts(ctx, s, "\"\xe2\x82", 3, &yes));
        T_EQ_INT(yes, 1);
    }
    T_OK(tllm_grammar_advance(ctx, s, "\"\xe2\x82", 3));
    T_OK(tllm_grammar_accepts(ctx, s, "\"", 1, &yes));
    T_EQ_INT(yes, 0);
    T_OK(tllm_grammar_advance(ctx, s, "\xac\"]}", 4));
    T_EQ_INT(tllm_grammar_may_end(s), 1);
    T_OK(tllm_grammar_advance(ctx, c, "]}", 2));
    T_EQ_INT(tllm_grammar_may_end(c), 1);
    T_OK(tllm_grammar_accepts(ctx, c, "", 0, &yes));
    T_EQ_INT(yes, 1);
    tllm_grammar_free(ctx, s);
    tllm_grammar_free(ctx, c);
    tllm_grammar_free(ctx, NULL);
    tllm_grammar_close(ctx, g);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx;
        tllm_grammar *g;
        tllm_grammar_state *s = NULL;
        tllm_grammar_state *c = NULL;
        int yes;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tllm_grammar_open(ctx, json, sizeof json - 1, "root", &g)) {
                if (!tllm_grammar_begin(ctx, g, &s) && !tllm_grammar_advance(ctx, s, "[1, {", 5) &&
                    !tllm_grammar_clone(ctx, s, &c) && !tllm_grammar_accepts(ctx, c, "}]", 2, &yes))
                    T_EQ_INT(yes, 1);
                tllm_grammar_free(ctx, s);
                tllm_grammar_free(ctx, c);
                tllm_grammar_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        })
}

int main(void)
{
    T_RUN(test_json);
    T_RUN(test_forms);
    T_RUN(test_more_than_one_way);
    T_RUN(test_late_callers);
    T_RUN(test_partial_characters);
    T_RUN(test_refused);
    T_RUN(test_steps_are_counted);
    T_RUN(test_long);
    T_RUN(test_states);
    T_RUN(test_no_memory);
    return t_done();
}
