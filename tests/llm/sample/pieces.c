/* tests/llm/sample/pieces.c - the mask of a whole vocabulary against a test of each piece alone, and by hand */
#include "t.h"

enum { MOST = 6000, ROOM = 100000 };

typedef struct list { char bytes[ROOM]; uint32_t end[MOST]; size_t n, at; } list;

static void add(list *l, const char *piece, size_t n)
{
    if (l->n == MOST || l->at + n > ROOM) return;
    memcpy(l->bytes + l->at, piece, n);
    l->at += n;
    l->end[l->n++] = (uint32_t)l->at;
}
static uint32_t start_of(const list *l, size_t i) { return i ? l->end[i - 1] : 0; }

static void test_by_hand(void)
{
    static const char rules[] = "root ::= \"yes\" | \"no\" [.!]{1,3}";
    static const struct { const char *piece; int at_first, behind_n;
    } row[] = { { "y", 1, 0 },   { "yes", 1, 0 },   { "yesterday", 0, 0 }, { "n", 1, 0 },    { "no", 1, 0 },
                { "no.", 1, 0 }, { "no.!.", 1, 0 }, { "no.!..", 0, 0 },    { "", 0, 0 },     { "o", 0, 1 },
                { "o!", 0, 1 },  { "o!x", 0, 0 },   { "yes", 1, 0 },       { "\xff", 0, 0 }, { "ye", 1, 0 } };
    static list l;
    unsigned char may[T_COUNT(row)];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g = NULL;
    tllm_grammar_state *s = NULL;
    tllm_pieces *p = NULL;
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) add(&l, row[i].piece, strlen(row[i].piece));
    if (T_OK(tllm_pieces_open(ctx, l.bytes, l.end, l.n, &p)) &&
        T_OK(tllm_grammar_open(ctx, rules, sizeof rules - 1, "root", &g)) && T_OK(tllm_grammar_begin(ctx, g, &s))) {
        T_EQ_INT(tllm_pieces_count(p), T_COUNT(row));
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        for (i = 0; i < T_COUNT(row); i++)
            if (may[i] != row[i].at_first) t_fail(__FILE__, __LINE__, "\"%s\" at first: %d", row[i].piece, may[i]);
        T_OK(tllm_grammar_advance(ctx, s, "n", 1));
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        for (i = 0; i < T_COUNT(row); i++)
            if (may[i] != row[i].behind_n) t_fail(__FILE__, __LINE__, "\"%s\" after n: %d", row[i].piece, may[i]);
        T_OK(tllm_grammar_advance(ctx, s, "o.", 2));
        T_EQ_INT(tllm_grammar_may_end(s), 1);
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        T_EQ_INT(tllm_grammar_may_end(s), 1);
    }
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    tllm_pieces_close(ctx, p);
    tllm_pieces_close(ctx, NULL);
    t_close(ctx);
}

static const char json[] =
    "root ::= ws value ws\nvalue ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws ( member (ws \",\" ws member)* )? ws \"}\"\nmember ::= string ws \":\" ws value\n"
    "array ::= \"[\" ws ( value (ws \",\" ws value)* )? ws \"]\"\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x00-\\x1f] | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4} ) )* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= [ \\t\\n\\r]*\n";

/* all pieces of the texts, the same with one other byte, random bytes, duplicates */
static void fill(list *l, const char *const *text, size_t n_text)
{
    static const char odd[] = "\"\\{}[],:.-+eE019ultrf\x80\xc3\xa9\xe2\x82\xf0\x9f\xff \n\t\x01";
    tiny_rng r = tiny_rng_make(1, 5);
    size_t i, k, n;
    l->n = l->at = 0;
    for (i = 0; i < n_text; i++)
        for (k = 0; k < strlen(text[i]); k++)
            for (n = 0; n <= 22 && k + n <= strlen(text[i]); n = n < 6 ? n + 1 : n + 5) {
                char other[32];
                add(l, text[i] + k, n);
                memcpy(other, text[i] + k, n);
                if (!n) continue;
                other[tiny_rng_u32(&r) % n] = odd[tiny_rng_u32(&r) % (sizeof odd - 1)];
                add(l, other, n);
            }
    for (i = 0; i < 400; i++) {
        char other[12];
        n = 1 + tiny_rng_u32(&r) % sizeof other;
        for (k = 0; k < n; k++) other[k] = odd[tiny_rng_u32(&r) % (sizeof odd - 1)];
        add(l, other, n);
    }
}

static void test_mask_equals_single_tests(void)
{
    static const char *const rules[] = { json, "root ::= [a-c]* \"b\" \"c\"",
                                         "root ::= \"abx\" | \"aby\" | \"a\" [a-c]+ \"z\"",
                                         "root ::= x | \"aa\" [a-c] \"d\"\nx ::= \"a\" x | \"b\"",
                                         "root ::= (\"\xc3\xa9\" | \"\xe2\x82\xac\" | [^a-z])+" };
    static const char *const text[] = { "{\"key\": [1, 2.5e-3, {\"a\\u00e9\": \"\xc3\xa9\xf0\x9f\x99\x82 \xe2\x82\xac, "
                                        "quoted \\\"x\\\"\"}], \"other\": [[null, true], false]}",
                                        "abbcabcaaabbc", "abcabcabz", "aaaaaaab",
                                        "\xc3\xa9\xe2\x82\xac\xc3\xa9 A\xe2\x82\xac!" };
    static list l;
    static unsigned char may[MOST];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_pieces *p = NULL;
    size_t i, k, at, held = 0, n_asked = 0, n_yes = 0;
    fill(&l, text, T_COUNT(text));
    T_OK(tllm_pieces_open(ctx, l.bytes, l.end, l.n, &p));
    for (k = 0; k < T_COUNT(rules) && p; k++) {
        tllm_grammar *g = NULL;
        tllm_grammar_state *s = NULL;
        T_OK(tllm_grammar_open(ctx, rules[k], strlen(rules[k]), "root", &g));
        if (!g || !T_OK(tllm_grammar_begin(ctx, g, &s))) break;
        for (at = 0; at <= strlen(text[k]); at++) {
            memset(may, 7, sizeof may);
            T_OK(tllm_grammar_mask(ctx, s, p, may));
            for (i = 0; i < l.n; i++) {
                const uint32_t n = l.end[i] - start_of(&l, i);
                int yes = 0;
                if (n && at % 3 == 0) T_OK(tllm_grammar_accepts(ctx, s, l.bytes + start_of(&l, i), n, &yes));
                else if (n) continue;
                n_asked++;
                n_yes += (size_t)yes;
                if (may[i] == yes) continue;
                t_fail(__FILE__, __LINE__, "grammar %d, after byte %d: piece %d of %d bytes: %d, tested alone %d",
                       (int)k, (int)at, (int)i, (int)n, may[i], yes);
                i = l.n;
            }
            for (i = 0; i < 40 && at == 7; i++) {           /* a walk leaves nothing */
                T_OK(tllm_grammar_mask(ctx, s, p, may));
                if (i == 1) held = t_alloc.live_bytes;
                else if (i) T_EQ_INT(t_alloc.live_bytes, held);
            }
            if (text[k][at]) T_OK(tllm_grammar_advance(ctx, s, text[k] + at, 1));
        }
        T_EQ_INT(tllm_grammar_may_end(s), 1);
        tllm_grammar_free(ctx, s);
        tllm_grammar_close(ctx, g);
    }
    printf("masks of %lu pieces: %lu answers equal those of each tested alone, %lu of them yes\n", (unsigned long)l.n,
           (unsigned long)n_asked, (unsigned long)n_yes);
    T_TRUE(n_yes > 1000);
    tllm_pieces_close(ctx, p);
    t_close(ctx);
}

/* thousands that are the same, or the same for long: no time that grows with the square of their number */
static void test_thousands_alike(void)
{
    enum { N = 100000, LONG = 40 };
    char *bytes = (char *)t_keep((size_t)N * LONG);
    uint32_t *end = (uint32_t *)t_keep(N * sizeof *end);
    unsigned char *may = (unsigned char *)t_keep(N);
    static const char rules[] = "root ::= \"a\"{0,39} [ab] \"c\"?";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g = NULL;
    tllm_grammar_state *s = NULL;
    tllm_pieces *p = NULL;
    size_t i, n = 0;
    memset(bytes, 'a', (size_t)N * LONG);
    for (i = 0; i < N; i++) {
        bytes[i * LONG + LONG - 1] = (char)('a' + i % 3);       /* for 40 of them the c is too late */
        end[i] = (uint32_t)((i + 1) * LONG);
    }
    if (T_OK(tllm_pieces_open(ctx, bytes, end, N, &p)) &&
        T_OK(tllm_grammar_open(ctx, rules, sizeof rules - 1, "root", &g)) && T_OK(tllm_grammar_begin(ctx, g, &s))) {
        T_OK(tllm_grammar_mask(ctx, s, p, may));
        for (i = 0; i < N; i++) n += may[i];
        T_EQ_INT(n, N);                     /* 39 of a, then [ab]: 40 characters; or 38, [ab], c */
        T_TRUE(may[0] && may[1] && may[2]);
    }
    tllm_grammar_free(ctx, s);
    tllm_grammar_close(ctx, g);
    tllm_pieces_close(ctx, p);
    t_close(ctx);
}

static void test_refused(void)
{
    static const uint32_t falling[2] = { 3, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_pieces *p = NULL;
    unsigned char may[2];
    T_STATUS(tllm_pieces_open(ctx, "abc", falling, 2, &p), TINY_E_ARGUMENT,
             "piece 1 ends at 1, before the end 3");
    T_TRUE(!p);
    T_STATUS(tllm_pieces_open(ctx, NULL, falling, 1, &p), TINY_E_ARGUMENT, "pieces of 3 bytes: the bytes are NULL");
    T_STATUS(tllm_pieces_open(ctx, "abc", NULL, 2, &p), TINY_E_ARGUMENT, "the list of their ends is NULL");
    T_OK(tllm_pieces_open(ctx, NULL, NULL, 0, &p));
    T_STATUS(tllm_grammar_mask(ctx, NULL, p, may), TINY_E_ARGUMENT, "grammar mask: the state, the pieces");
    tllm_pieces_close(ctx, p);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        static const char bytes[] = "aab[1, {";
        static const uint32_t end[3] = { 1, 3, 8 };
        tllm_grammar *g;
        tllm_grammar_state *s = NULL;
        unsigned char yes[3];
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tllm_grammar_open(ctx, json, sizeof json - 1, "root", &g)) {
                if (!tllm_pieces_open(ctx, bytes, end, 3, &p)) {
                    if (!tllm_grammar_begin(ctx, g, &s) && !tllm_grammar_mask(ctx, s, p, yes))
                        T_TRUE(!yes[0] && !yes[1] && yes[2]);
                    /* a failure left it as it was */
                    if (s && !tllm_grammar_advance(ctx, s, "[1]", 3)) T_EQ_INT(tllm_grammar_may_end(s), 1);
                    tllm_grammar_free(ctx, s);
                } else T_TRUE(!p);
                tllm_pieces_close(ctx, p);
                tllm_grammar_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        })
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_mask_equals_single_tests);
    T_RUN(test_thousands_alike);
    T_RUN(test_refused);
    return t_done();
}
