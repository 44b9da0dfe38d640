/* src/llm/token/split.c - the pre-tokenizer rules, and the matcher that reads them
 *
 * L, N, P, S, M are the general categories letter, number, punctuation, symbol, mark; W is white space.
 *
 *   c  's 't 're 've 'm 'll 'd                  C  the same in any case
 *   w  blank? L+                                n  blank? N+                o  blank? [^W L N]+
 *   e  W+ not before a non-blank                s  W+                       V  [^W]+
 *   W  [^\r\n L N]? L+                          M  [^\r\n L N]? [L M]+      m  [^\r\n L P S]? [L M]+
 *   j  [^\r\n L N]? [L M U+200C U+200D]+
 *   U  [^\r\n L N]? [L M]+ C?                   E  [^\r\n L N]? L M* ( blank? L M* )*
 *   X  [^\r\n L N]? ( u* l+ or u+ l* ), u = L but a-z, l = L but A-Z        Y  X C?      Z  Y with L or M for L
 *   J  [^\r\n L N]? L+ C?, no Han letter        k  Han+
 *   1  N     3  N, 1 to 3     N  N+     9  three digits 0-9
 *   z  up to a position with 3, 6, 9 ... digits 0-9 after it     a  N in threes from the end of the number, with the
 *                                                                rest before
 *   O  blank? [^W L N]+ [\r\n]*   S  ... [\r\n/]*   T  ... [\r\n/]?   Q  blank? [^W L M N]+ [\r\n]*
 *   P  blank? [P S]+ [\r\n]*      p  blank? [P S]+  A  one of ASCII's punctuation, then [A-Za-z]+
 *   l  W* [\r\n]+     b  [\r\n]    L  lines, or line ends    $  W+ at the end    R  W, the most of 512 256 ... 4, 1 to
 *                                                                                2, before W
 *   x  W? L+     y  W? P+     D  W? letters with case     d  W? ASCII punctuation and letters from ':' on, wide forms
 *   F  [P $+<=>^~|`]+     f  [P $+<=>^~|]+     B  blank? anything but W and ( | . , ! ? ) and their relatives
 *   H  Han and kana     h  the Han, Hangul and others of DeepSeek     g  the scripts of AFMoE     G K u  Hangul, wide
 *                                                                                                 marks, Bopomofo
 *   i  <sentinel:0>     I  IMGIMGABCZ     v  tab, line feed, 4 or 2 blanks     q  one mark of P or of ASCII
 *
 * Some engines map categories to letters and run a regular expression library over them. They do not count '~' as a
 * symbol and treat Lu and Ll as L. Model files are made for those engines, so this code does the same.
 * Cost: linear. Each letter of each step looks at each position once; runs measured by a failing letter are kept. */
#include "llm/token/split.h"
#include <string.h>

#define TINYI_SPLIT_GPT2 "cwnoes"
#define TINYI_SPLIT_LLAMA3 "CW3Oles"
#define TINYI_SPLIT_QWEN2 "CW1Oles"
#define TINYI_SPLIT_GPT4O "Y3Sles"
#define TINYI_SPLIT_DIGITS "1 cwnoes"
#define TINYI_SPLIT_DEEPSEEK3 "3 H AmPles"
#define TINYI_SPLIT_BAILING "CW1Oles"
#define TINYI_SPLIT_DEFAULT "f cwnoes N 9"

static const tllm_pre tinyi_split_rows[] = {
    { "default", TINYI_SPLIT_DEFAULT, 0 },
    { "gpt-2", TINYI_SPLIT_GPT2, 0 },
    { "phi-2", TINYI_SPLIT_GPT2, 0 },
    { "jina-es", TINYI_SPLIT_GPT2, 0 },
    { "jina-de", TINYI_SPLIT_GPT2, 0 },
    { "jina-v2-es", TINYI_SPLIT_GPT2, 0 },
    { "jina-v2-de", TINYI_SPLIT_GPT2, 0 },
    { "jina-v1-en", TINYI_SPLIT_GPT2, 0 },
    { "jina-v2-code", TINYI_SPLIT_GPT2, 0 },
    { "roberta-bpe", TINYI_SPLIT_GPT2, 0 },
    { "gigachat", TINYI_SPLIT_GPT2, 0 },
    { "a.x-4.0", TINYI_SPLIT_GPT2, 0 },
    { "mellum", TINYI_SPLIT_GPT2, 0 },
    { "modern-bert", TINYI_SPLIT_GPT2, 0 },
    { "exaone4", TINYI_SPLIT_GPT2, 0 },
    { "mpt", TINYI_SPLIT_GPT2, 0 },
    { "olmo", TINYI_SPLIT_GPT2, 0 },
    { "jais", TINYI_SPLIT_GPT2, 0 },
    { "trillion", TINYI_SPLIT_GPT2, 0 },
    { "granite-docling", TINYI_SPLIT_GPT2, 0 },
    { "starcoder", TINYI_SPLIT_DIGITS, 0 },
    { "refact", TINYI_SPLIT_DIGITS, 0 },
    { "command-r", TINYI_SPLIT_DIGITS, 0 },
    { "smollm", TINYI_SPLIT_DIGITS, 0 },
    { "codeshell", TINYI_SPLIT_DIGITS, 0 },
    { "exaone", TINYI_SPLIT_DIGITS, 0 },
    { "minerva-7b", TINYI_SPLIT_DIGITS, 0 },
    { "mellum2", TINYI_SPLIT_DIGITS, 0 },
    { "llama3", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "llama-v3", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "llama-bpe", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "falcon3", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "falcon-h1", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "pixtral", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "midm-2.0", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "lfm2", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "jina-v5-nano", TINYI_SPLIT_LLAMA3, TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "dbrx", TINYI_SPLIT_LLAMA3, 0 },
    { "smaug-bpe", TINYI_SPLIT_LLAMA3, 0 },
    { "glm4", TINYI_SPLIT_LLAMA3, TLLM_PRE_NO_BOS_ID },
    { "chatglm-bpe", TINYI_SPLIT_LLAMA3, TLLM_PRE_NO_BOS_ID },
    { "jais-2", "CW3OlR", 0 },
    { "minicpm5", "3 CWNOles", TLLM_PRE_WHOLE },
    { "qwen2", TINYI_SPLIT_QWEN2, 0 },
    { "deepseek-r1-qwen", TINYI_SPLIT_QWEN2, 0 },
    { "kormo", TINYI_SPLIT_QWEN2, 0 },
    { "f2llmv2", TINYI_SPLIT_QWEN2, 0 },
    { "megrez", TINYI_SPLIT_QWEN2, 0 },
    { "stablelm2", TINYI_SPLIT_QWEN2, 0 },
    { "hunyuan", TINYI_SPLIT_QWEN2, 0 },
    { "solar-open", TINYI_SPLIT_QWEN2, 0 },
    { "grok-2", TINYI_SPLIT_QWEN2, 0 },
    { "qwen35", "CM1Qles", 0 },
    { "ufakzeka", "W1Oles", 0 },
    { "seed-coder", "CW1oles", 0 },
    { "bailingmoe", TINYI_SPLIT_BAILING, 0 },
    { "bailingmoe2", TINYI_SPLIT_BAILING, 0 },
    { "llada-moe", TINYI_SPLIT_BAILING, 0 },
    { "laguna", "L CW1Oles", 0 },
    { "exaone-moe", "CE1Tles", 0 },
    { "deepseek-llm", "b D d $ h N", 0 },
    { "deepseek-coder", "b x y h 1", 0 },
    { "deepseek-v3", TINYI_SPLIT_DEEPSEEK3, 0 },
    { "hunyuan-dense", TINYI_SPLIT_DEEPSEEK3, 0 },
    { "joyai-llm", TINYI_SPLIT_DEEPSEEK3, 0 },
    { "hy_v4", TINYI_SPLIT_DEEPSEEK3, 0 },
    { "spark2_5", "3 H Ampbes 1", 0 },
    { "youtu", "GKuH U1Sles", TLLM_PRE_WHOLE },
    { "falcon", "F cwnoes 9", 0 },
    { "poro-chat", "B", 0 },
    { "bloom", "B", 0 },
    { "gpt3-finnish", "B", 0 },
    { "viking", "B 1", 0 },
    { "tekken", "X1Sles", TLLM_PRE_WHOLE | TLLM_PRE_BOS },
    { "chameleon", "i I v 1 q cwnoes", TLLM_PRE_BOS },
    { "gpt-4o", TINYI_SPLIT_GPT4O, 0 },
    { "llama4", TINYI_SPLIT_GPT4O, 0 },
    { "kanana2", TINYI_SPLIT_GPT4O, 0 },
    { "talkie", TINYI_SPLIT_GPT4O, 0 },
    { "minimax-m2", TINYI_SPLIT_GPT4O, 0 },
    { "granite-embed-multi-97m", "Z3Sles", TLLM_PRE_WHOLE },
    { "tiny_aya", "a U3Sles", 0 },
    { "cohere2moe", "a U3Sles", 0 },
    { "k2-horizon", "Cj3Oles", 0 },
    { "kimi-k2", "kJ3Oles", 0 },
    { "superbpe", "N z", 0 },
    { "afmoe", "a g AmPles", 0 },
    { "gemma4", "L", TLLM_PRE_RAW | TLLM_PRE_BLANKS | TLLM_PRE_LINES | TLLM_PRE_ALWAYS_BOS },
    { "granite-embed-multi-311m", "L", TLLM_PRE_RAW | TLLM_PRE_BLANKS | TLLM_PRE_LINES | TLLM_PRE_ALWAYS_BOS },
    { "sarvam-moe", "L", TLLM_PRE_RAW | TLLM_PRE_BLANKS },
    { "whitespace", "V", TLLM_PRE_RAW | TLLM_PRE_DROP_SPACE }
};

TINY_API const tllm_pre *tllm_pre_at(size_t i)
{
    return i < TINYI_COUNT(tinyi_split_rows) ? &tinyi_split_rows[i] : NULL;
}

TINY_API const tllm_pre *tllm_pre_find(const char *name, size_t n)
{
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_split_rows); i++)
        if (strlen(tinyi_split_rows[i].name) == n && !memcmp(tinyi_split_rows[i].name, name, n))
            return &tinyi_split_rows[i];
    return NULL;
}

/* ---- sets of code points that are no category ---------------------------------------------------------------- */

/* pairs: first and last of a range, in order */
static const uint32_t tinyi_split_cased[] = {
    0x41,    0x5a,    0x61,    0x7a,    0xb5,    0xb5,    0xc0,    0xd6,    0xd8,    0xf6,    0xf8,    0x1ba,   0x1bc,
    0x1bf,   0x1c4,   0x293,   0x295,   0x2af,   0x370,   0x373,   0x376,   0x377,   0x37b,   0x37d,   0x37f,   0x37f,
    0x386,   0x386,   0x388,   0x38a,   0x38c,   0x38c,   0x38e,   0x3a1,   0x3a3,   0x3f5,   0x3f7,   0x481,   0x48a,
    0x52f,   0x531,   0x556,   0x10a0,  0x10c5,  0x13a0,  0x13f5,  0x13f8,  0x13fd,  0x1c90,  0x1cba,  0x1cbd,  0x1cbf,
    0x1d00,  0x1d2b,  0x1d6b,  0x1d77,  0x1d79,  0x1d9a,  0x1e00,  0x1f15,  0x1f18,  0x1f1d,  0x1f20,  0x1f45,  0x1f48,
    0x1f4d,  0x1f50,  0x1f57,  0x1f59,  0x1f59,  0x1f5b,  0x1f5b,  0x1f5d,  0x1f5d,  0x1f5f,  0x1f7d,  0x1f80,  0x1fb4,
    0x1fb6,  0x1fbc,  0x1fbe,  0x1fbe,  0x1fc2,  0x1fc4,  0x1fc6,  0x1fcc,  0x1fd0,  0x1fd3,  0x1fd6,  0x1fdb,  0x1fe0,
    0x1fec,  0x1ff2,  0x1ff4,  0x1ff6,  0x1ffc,  0x2102,  0x2102,  0x2107,  0x2107,  0x210a,  0x2113,  0x2115,  0x2115,
    0x2119,  0x211d,  0x2124,  0x2124,  0x2126,  0x2126,  0x2128,  0x2128,  0x212a,  0x212d,  0x212f,  0x2134,  0x2139,
    0x2139,  0x213c,  0x213f,  0x2145,  0x2149,  0x214e,  0x214e,  0x2183,  0x2184,  0x2c00,  0x2c7b,  0x2c7e,  0x2ce4,
    0x2ceb,  0x2cee,  0x2cf2,  0x2cf3,  0xa640,  0xa66d,  0xa680,  0xa69b,  0xa722,  0xa76f,  0xa771,  0xa787,  0xa78b,
    0xa78e,  0xab70,  0xabbf,  0xfb00,  0xfb06,  0xfb13,  0xfb17,  0xff21,  0xff3a,  0xff41,  0xff5a,  0x10400, 0x1044f,
    0x104b0, 0x104d3, 0x104d8, 0x104fb, 0x10c80, 0x10cb2, 0x10cc0, 0x10cf2, 0x118a0, 0x118df, 0x1e900, 0x1e943
};
static const uint32_t tinyi_split_marks[] = { 0x21,   0x2f,   0x3a,   0x7e,   0x2018, 0x201f,
                                              0x3000, 0x3002, 0xff01, 0xff0f, 0xff1a, 0xff5e };
static const uint32_t tinyi_split_bloom[] = {         /* what B skips besides white space */
    0x21, 0x21, 0x28, 0x29, 0x2c, 0x2c, 0x2e, 0x2e, 0x3f, 0x3f, 0x7c, 0x7c, 0x60c, 0x60c, 0x6d4, 0x6d4, 0x964, 0x964,
    0x2026, 0x2026, 0x3001, 0x3002, 0xff0c, 0xff0c
};
static const uint32_t tinyi_split_han[] = { 0x3400,  0x4dbf,  0x4e00,  0x9fff,  0xf900,  0xfaff,
                                            0x20000, 0x2a6df, 0x2a700, 0x2b73f, 0x2b740, 0x2b81f,
                                            0x2b820, 0x2ceaf, 0x2ceb0, 0x2ebef, 0x2f800, 0x2fa1f };
static const uint32_t tinyi_split_kana[] = { 0x3040, 0x30ff, 0x4e00, 0x9fa5 };
static const uint32_t tinyi_split_deepseek[] = { 0x800, 0x9fa5, 0xac00, 0xd7ff };
static const uint32_t tinyi_split_afmoe[] = { 0xe00,  0xe7f,  0xe80,  0xeff,  0x1000, 0x109f, 0x1100,
                                              0x11ff, 0x1780, 0x17ff, 0x2f00, 0x2fdf, 0x3040, 0x30ff,
                                              0x3400, 0x4dbf, 0x4e00, 0x9fff, 0xa9e0, 0xa9ff, 0xaa60,
                                              0xaa7f, 0xac00, 0xd7af, 0xf900, 0xfaff, 0xff65, 0xff9f };
static const uint32_t tinyi_split_hangul[] = { 0x3131, 0x318e, 0xac00, 0xd7a3 };
static const uint32_t tinyi_split_wide[] = { 0x2014, 0x2014, 0x2018, 0x2019, 0x201c, 0x201d, 0x2026, 0x2026, 0x3001,
                                             0x303f, 0xfe30, 0xfe4f, 0xff01, 0xff01, 0xff0c, 0xff0c, 0xff1a, 0xff1b };
static const uint32_t tinyi_split_bopomofo[] = { 0x3105, 0x312f };

static int tinyi_split_in(const uint32_t *set, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n / 2;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (set[2 * mid + 1] < c) lo = mid + 1; else hi = mid;
    }
    return lo < n / 2 && set[2 * lo] <= c;
}
#define TINYI_SPLIT_IN(set, c) tinyi_split_in(set, TINYI_COUNT(set), c)

/* ---- the matcher --------------------------------------------------------------------------------------------- */

enum {
    TINYI_SP_O = 1,
    TINYI_SP_L = 2,
    TINYI_SP_N = 4,
    TINYI_SP_P = 8,
    TINYI_SP_S = 16,
    TINYI_SP_M = 32,
    TINYI_SP_Z = 64,
    TINYI_SP_C = 128,
    TINYI_SP_W = 256,
    TINYI_SP_ALL = 511,
    TINYI_SP_WIDE = 512
}; /* not ASCII: any letter may begin so */

static const unsigned short tinyi_split_ascii[128] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 256, 256, 256, 256, 256, 128, 128, 128, 128, 128, 128, 128, 128,
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 256, 8,   8,   8,   16,  8,   8,   8,   8,   8,   8,   16,
    8,   8,   8,   8,   4,   4,   4,   4,   4,   4,   4,   4,   4,   4,   8,   8,   16,  16,  16,  8,   8,   2,
    2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
    2,   2,   2,   8,   8,   8,   16,  8,   16,  2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,
    2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   2,   8,   16,  8,   16,  128
};

/* the class bit of the character at p < end, its bytes and number */
TINYI_INLINE unsigned tinyi_split_class(const unsigned char *s, size_t p, size_t end, size_t *k, uint32_t *c)
{
    unsigned t;
    if (s[p] < 0x80) {
        *c = s[p];
        *k = 1;
        return tinyi_split_ascii[s[p]];
    }
    *k = tinyi_utf8_get(s + p, end - p, c);
    t = tinyi_unicode_class(*c);
    return t & TINYI_UC_SPACE ? (unsigned)TINYI_SP_W : 1u << t;
}

static size_t tinyi_split_run(const unsigned char *s, size_t p, size_t end, unsigned mask)
{
    while (p < end) {
        size_t k;
        uint32_t c;
        if (!(tinyi_split_class(s, p, end, &k, &c) & mask)) break;
        p += k;
    }
    return p;
}

static size_t tinyi_split_run_in(const unsigned char *s, size_t p, size_t end, const uint32_t *set, size_t n)
{
    while (p < end) {
        uint32_t c;
        size_t k = tinyi_utf8_get(s + p, end - p, &c);
        if (c > 0x7f && (tinyi_unicode_class(c) & TINYI_UC_SPACE)) break;
        if (!tinyi_split_in(set, n, c)) break;
        p += k;
    }
    return p;
}
#define TINYI_SPLIT_RUN_IN(s, p, end, set) tinyi_split_run_in(s, p, end, set, TINYI_COUNT(set))

static size_t tinyi_split_bytes_of(const unsigned char *s, size_t p, size_t end, const char *any)
{
    while (p < end && s[p] && strchr(any, s[p])) p++;
    return p;
}

/* the end of an apostrophe with its letters at p; 0: none */
static size_t tinyi_split_apostrophe(const unsigned char *s, size_t p, size_t end, int any_case)
{
    unsigned a, b;
    if (end - p < 2 || s[p] != '\'') return 0;
    a = s[p + 1];
    if (any_case && a >= 'A' && a <= 'Z') a += 32;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
    if (end - p < 3) return 0;
    b = s[p + 2];
    if (any_case && b >= 'A' && b <= 'Z') b += 32;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? p + 3 : 0;
}

/* capitals and others, then small letters and others, where letters without case count as both */
static size_t tinyi_split_cased_word(const unsigned char *s, size_t p, size_t end, unsigned mask, int second)
{
    size_t q = p, k, both_end = 0, r;
    uint32_t c;
    while (q < end && (tinyi_split_class(s, q, end, &k, &c) & mask) && !(c >= 'a' && c <= 'z')) {
        q += k;
        if (!(c >= 'A' && c <= 'Z')) both_end = q;
    }
    if (second) return q > p ? q : 0;
    for (r = q; r < end && (tinyi_split_class(s, r, end, &k, &c) & mask) && !(c >= 'A' && c <= 'Z'); r += k) {}
    return r > q ? r : both_end;
}

/* characters allowed before a word: their end, or p */
static size_t tinyi_split_prefix(const unsigned char *s, size_t p, size_t end, unsigned not_mask)
{
    size_t k;
    uint32_t c;
    unsigned t = tinyi_split_class(s, p, end, &k, &c);
    if (c == '~' && (not_mask & TINYI_SP_S)) t = TINYI_SP_O;
    return c == '\r' || c == '\n' || (t & not_mask) ? p : p + k;
}

static size_t tinyi_split_prefixed(const unsigned char *s, size_t p, size_t end, unsigned not_mask, unsigned mask)
{
    size_t q = tinyi_split_prefix(s, p, end, not_mask), r;
    if (q > p && q < end && (r = tinyi_split_run(s, q, end, mask)) > q) return r;
    r = tinyi_split_run(s, p, end, mask);
    return r > p ? r : 0;
}

static size_t tinyi_split_count_space(const unsigned char *s, size_t p, size_t end, size_t most, size_t *after)
{
    size_t n = 0, k;
    uint32_t c;
    while (p < end && n < most && (tinyi_split_class(s, p, end, &k, &c) & TINYI_SP_W)) { p += k; n++; }
    *after = p;
    return n;
}

static size_t tinyi_split_skip(const unsigned char *s, size_t p, size_t end, size_t n)
{
    uint32_t c;
    while (n-- && p < end) p += tinyi_utf8_get(s + p, end - p, &c);
    return p;
}

/* how many digits are at p, measured once for a run; mask 0: ASCII digits */
static size_t tinyi_split_digits(const unsigned char *s, size_t p, size_t end, unsigned mask, tinyi_split_memo *memo)
{
    size_t q = p, k, n = 0;
    uint32_t c;
    if (p == memo->run_at && memo->run_end > p) return memo->run_count;
    while (q < end) {
        if (mask) {
            if (!(tinyi_split_class(s, q, end, &k, &c) & mask)) break;
        } else {
            if (s[q] < '0' || s[q] > '9') break;
            k = 1;
        }
        q += k;
        n++;
    }
    memo->run_at = p;
    memo->run_end = q;
    memo->run_count = n;
    return n;
}
static void tinyi_split_digits_taken(tinyi_split_memo *memo, size_t to, size_t n)
{
    memo->run_at = to;
    memo->run_count -= n;
}

/* The end of what the letter matches at p < end, or 0. *skip may be raised: nothing matches before it. */
static size_t tinyi_split_match(char letter, const unsigned char *s, size_t p, size_t end, tinyi_split_memo *memo,
                                size_t *skip)
{
    size_t q = p, r, k, n;
    uint32_t c;
    unsigned t, mask;
    switch (letter) {
    case 'c': return tinyi_split_apostrophe(s, p, end, 0);
    case 'C': return tinyi_split_apostrophe(s, p, end, 1);
    case 'w': case 'n': case 'o': case 'O': case 'S': case 'T': case 'Q': case 'P': case 'p':
        if (s[p] == ' ') q++;
        mask = letter == 'w'   ? (unsigned)TINYI_SP_L
               : letter == 'n' ? (unsigned)TINYI_SP_N
               : letter == 'P' || letter == 'p'
                   ? (unsigned)(TINYI_SP_P | TINYI_SP_S)
                   : (unsigned)TINYI_SP_ALL &
                         ~(unsigned)(TINYI_SP_W | TINYI_SP_L | TINYI_SP_N | (letter == 'Q' ? TINYI_SP_M : 0));
        if (letter == 'P' || letter == 'p') {
            for (r = q; r < end && s[r] != '~' && (tinyi_split_class(s, r, end, &k, &c) & mask); r += k) {}
        } else {
            r = tinyi_split_run(s, q, end, mask);
        }
        if (r == q) return 0;
        if (letter == 'O' || letter == 'Q' || letter == 'P') r = tinyi_split_bytes_of(s, r, end, "\r\n");
        if (letter == 'S') r = tinyi_split_bytes_of(s, r, end, "\r\n/");
        if (letter == 'T' && r < end && (s[r] == '\r' || s[r] == '\n' || s[r] == '/')) r++;
        return r;
    case 'e':
        /* all white space, or all but its last character when something follows */
        for (r = q; q < end && (tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_W); q += k) r = q;
        return q == end && q > p ? q : r > p ? r : 0;
    case 's': r = tinyi_split_run(s, p, end, TINYI_SP_W); return r > p ? r : 0;
    case 'V': r = tinyi_split_run(s, p, end, TINYI_SP_ALL & ~TINYI_SP_W); return r > p ? r : 0;
    case 'W': return tinyi_split_prefixed(s, p, end, TINYI_SP_L | TINYI_SP_N, TINYI_SP_L);
    case 'M': return tinyi_split_prefixed(s, p, end, TINYI_SP_L | TINYI_SP_N, TINYI_SP_L | TINYI_SP_M);
    case 'm': return tinyi_split_prefixed(s, p, end, TINYI_SP_L | TINYI_SP_P | TINYI_SP_S, TINYI_SP_L | TINYI_SP_M);
    case 'U':
        r = tinyi_split_prefixed(s, p, end, TINYI_SP_L | TINYI_SP_N, TINYI_SP_L | TINYI_SP_M);
        if (r && r < end && (q = tinyi_split_apostrophe(s, r, end, 1)) != 0) return q;
        return r;
    case 'j':
        q = tinyi_split_prefix(s, p, end, TINYI_SP_L | TINYI_SP_N);
        for (n = 0; n < 2; n++, q = p) {    /* with the character before the word, then without */
            for (r = q; r < end && ((tinyi_split_class(s, r, end, &k, &c) & (TINYI_SP_L | TINYI_SP_M)) || c == 0x200c ||
                                    c == 0x200d);
                 r += k) {}
            if (r > q) return r;
        }
        return 0;
    case 'E':
        q = tinyi_split_prefix(s, p, end, TINYI_SP_L | TINYI_SP_N);
        if (q == end || !(tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_L)) return 0;
        for (;;) {
            q = tinyi_split_run(s, q, end, TINYI_SP_L);
            q = tinyi_split_run(s, q, end, TINYI_SP_M);
            if (q < end && (tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_L)) continue;
            if (end - q >= 2 && s[q] == ' ' && (tinyi_split_class(s, q + 1, end, &k, &c) & TINYI_SP_L)) {
                q++;
                continue;
            }
            return q;
        }
    case 'X': case 'Y': case 'Z':
        mask = letter == 'Z' ? (unsigned)(TINYI_SP_L | TINYI_SP_M) : (unsigned)TINYI_SP_L;
        q = tinyi_split_prefix(s, p, end, TINYI_SP_L | TINYI_SP_N);
        r = q > p ? tinyi_split_cased_word(s, q, end, mask, 0) : 0;
        if (!r) r = tinyi_split_cased_word(s, p, end, mask, 0);
        if (!r && q > p) r = tinyi_split_cased_word(s, q, end, mask, 1);
        if (!r) r = tinyi_split_cased_word(s, p, end, mask, 1);
        if (r && r < end && letter != 'X' && (q = tinyi_split_apostrophe(s, r, end, 1)) != 0) return q;
        return r;
    case 'k': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_han); return r > p ? r : 0;
    case 'J':
        q = tinyi_split_prefix(s, p, end, TINYI_SP_L | TINYI_SP_N);
        for (r = q;
             r < end && (tinyi_split_class(s, r, end, &k, &c) & TINYI_SP_L) && !TINYI_SPLIT_IN(tinyi_split_han, c);
             r += k) {}
        if (r == q) return 0;
        if (r < end && (q = tinyi_split_apostrophe(s, r, end, 1)) != 0) return q;
        return r;
    case '1': return tinyi_split_class(s, p, end, &k, &c) & TINYI_SP_N ? p + k : 0;
    case '3':
        for (n = 0; n < 3 && q < end && (tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_N); n++) q += k;
        return n ? q : 0;
    case 'N': r = tinyi_split_run(s, p, end, TINYI_SP_N); return r > p ? r : 0;
    case '9':
        for (n = 0; n < 3; n++) if (end - p <= n || s[p + n] < '0' || s[p + n] > '9') return 0;
        return p + 3;
    case 'z':
        /* everything up to the next place with a multiple of three digits after it */
        for (;;) {
            n = tinyi_split_digits(s, q, end, 0, memo);
            if (n) {
                if (n % 3 == 0 && q > p) return q;
                k = n % 3 ? n % 3 : 3;
                if (k < n) { tinyi_split_digits_taken(memo, q + k, k); return q + k; }
                q += n;
            }
            while (q < end && (s[q] < '0' || s[q] > '9')) q++;
            if (q == end) return end;
        }
    case 'a':
        while (q < end && !(tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_N)) q += k;
        if (q == end) return end;
        n = tinyi_split_digits(s, q, end, TINYI_SP_N, memo);
        k = n % 3 ? n % 3 : 3;
        q = tinyi_split_skip(s, q, end, k);
        tinyi_split_digits_taken(memo, q, k);
        return q;
    case 'A':
        c = s[p];
        if (!((c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~')))
            return 0;
        for (q = p + 1; q < end && ((s[q] >= 'A' && s[q] <= 'Z') || (s[q] >= 'a' && s[q] <= 'z')); q++) {}
        return q > p + 1 ? q : 0;
    case 'l':
        if (p < memo->no_line_end) return 0;
        for (r = 0; q < end && (tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_W); ) {
            q += k;
            if (c == '\r' || c == '\n') r = q;
        }
        if (!r) memo->no_line_end = q;
        return r;
    case 'b': return s[p] == '\r' || s[p] == '\n' ? p + 1 : 0;
    case 'L':
        while (q < end && (s[q] == '\n') == (s[p] == '\n')) q++;
        return q;
    case '$':
        r = tinyi_split_run(s, p, end, TINYI_SP_W);
        if (r == p) return 0;
        if (r < end) { *skip = r; return 0; }
        return r;
    case 'R':
        n = tinyi_split_count_space(s, p, end, 513, &r);
        if (!n) return 0;
        for (k = 512; k >= 4; k /= 2)
            if (n > k || (n == k && r == end)) return tinyi_split_skip(s, p, end, k);
        return tinyi_split_skip(s, p, end, n > 2 || (n == 2 && r == end) ? 2 : 1);
    case 'x': case 'y':
        mask = letter == 'x' ? (unsigned)TINYI_SP_L : (unsigned)TINYI_SP_P;
        t = tinyi_split_class(s, p, end, &k, &c);
        if (t & TINYI_SP_W) q += k;
        r = tinyi_split_run(s, q, end, mask);
        return r > q ? r : 0;
    case 'D': case 'd':
        t = tinyi_split_class(s, p, end, &k, &c);
        if (t & TINYI_SP_W) q += k;
        r = letter == 'D' ? TINYI_SPLIT_RUN_IN(s, q, end, tinyi_split_cased)
                          : TINYI_SPLIT_RUN_IN(s, q, end, tinyi_split_marks);
        return r > q ? r : 0;
    case 'F': case 'f':
        for (; q < end; q += k)
            if (!(tinyi_split_class(s, q, end, &k, &c) & TINYI_SP_P) &&
                !(c > 0 && c < 128 && strchr("$+<=>^~|", (int)c)) && !(c == '`' && letter == 'F'))
                break;
        return q > p ? q : 0;
    case 'B':
        if (s[p] == ' ') q++;
        for (r = q;
             r < end && !(tinyi_split_class(s, r, end, &k, &c) & TINYI_SP_W) && !TINYI_SPLIT_IN(tinyi_split_bloom, c);
             r += k) {}
        return r > q ? r : 0;
    case 'H': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_kana); return r > p ? r : 0;
    case 'h': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_deepseek); return r > p ? r : 0;
    case 'g': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_afmoe); return r > p ? r : 0;
    case 'G': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_hangul); return r > p ? r : 0;
    case 'K': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_wide); return r > p ? r : 0;
    case 'u': r = TINYI_SPLIT_RUN_IN(s, p, end, tinyi_split_bopomofo); return r > p ? r : 0;
    case 'i':
        if (end - p < 12 || memcmp(s + p, "<sentinel:", 10)) return 0;
        for (q = p + 10; q < end && s[q] >= '0' && s[q] <= '9'; q++) {}
        return q > p + 10 && q < end && s[q] == '>' ? q + 1 : 0;
    case 'I':
        if (end - p < 8 || memcmp(s + p, "IMGIMG", 6)) return 0;
        for (q = p + 6; q < end && q < p + 10 && s[q] >= 'A' && s[q] <= 'I'; q++) {}
        return q > p + 6 && q < end && s[q] == 'Z' ? q + 1 : 0;
    case 'v':
        if (s[p] == '\t' || s[p] == '\n') return p + 1;
        if (end - p >= 4 && !memcmp(s + p, "    ", 4)) return p + 4;
        return end - p >= 2 && s[p] == ' ' && s[p + 1] == ' ' ? p + 2 : 0;
    case 'q':
        t = tinyi_split_class(s, p, end, &k, &c);
        return (t & TINYI_SP_P) || (c < 128 && (t & TINYI_SP_S)) ? p + k : 0;
    default: return 0;
    }
}

/* the classes of ASCII that can begin what the letter matches */
static unsigned tinyi_split_first(char letter)
{
    switch (letter) {
    case 'c': case 'C': return TINYI_SP_P;
    case 'w': case 'x': case 'D': return TINYI_SP_L | TINYI_SP_W;
    case 'n': return TINYI_SP_N | TINYI_SP_W;
    case 'o': case 'O': case 'S': case 'T': case 'Q': return TINYI_SP_ALL & ~(TINYI_SP_L | TINYI_SP_N);
    case 'e': case 's': case 'l': case 'R': case '$': case 'b': case 'v': return TINYI_SP_W;
    case '1': case '3': case 'N': case '9': return TINYI_SP_N;
    case 'P': case 'p': return TINYI_SP_P | TINYI_SP_S | TINYI_SP_W;
    case 'A': case 'F': case 'f': case 'q': return TINYI_SP_P | TINYI_SP_S;
    case 'y': return TINYI_SP_P | TINYI_SP_W;
    case 'i': return TINYI_SP_S;
    case 'I': return TINYI_SP_L;
    case 'k': case 'H': case 'h': case 'g': case 'G': case 'K': case 'u': return 0;
    default: return TINYI_SP_ALL;
    }
}

TINYI_FN void tinyi_split_start(tinyi_split *sp, const char *rule, const unsigned char *s, size_t n)
{
    memset(sp, 0, sizeof *sp);
    sp->s = s;
    sp->n = n;
    while (*rule && sp->n_steps < TINYI_SPLIT_STEPS) {
        int i = sp->n_steps++, k;
        sp->step[i] = rule;
        for (k = 0; *rule && *rule != ' ' && k < TINYI_SPLIT_LETTERS; k++, rule++) {
            sp->first[i][k] = (unsigned short)(tinyi_split_first(*rule) | TINYI_SP_WIDE);
            sp->any[i] = (unsigned short)(sp->any[i] | sp->first[i][k]);
        }
        if (*rule) rule++;
    }
}

/* the end of the piece of step i that begins at p: a match, or the text before the next one */
static size_t tinyi_split_piece(tinyi_split *sp, int i, size_t p, size_t end)
{
    const unsigned char *s = sp->s;
    tinyi_split_memo *memo = &sp->memo[i];
    size_t from = p;
    while (p < end) {
        size_t skip = 0, to = 0;
        unsigned t = s[p] < 0x80 ? tinyi_split_ascii[s[p]] : (unsigned)TINYI_SP_WIDE;
        const char *letter;
        uint32_t c;
        int k;
        if (!(t & sp->any[i])) { p++; continue; }
        for (k = 0, letter = sp->step[i]; *letter && *letter != ' '; letter++, k++)
            if ((t & sp->first[i][k]) && (to = tinyi_split_match(*letter, s, p, end, memo, &skip)) != 0) break;
        if (to) {
            if (p == from) return to;
            /* found after a gap: it is matched again when its turn comes, so nothing of it may stay remembered */
            memo->run_end = memo->run_at = 0;
            return p;
        }
        p = skip > p ? skip : p + tinyi_utf8_get(s + p, end - p, &c);
    }
    return end;
}

TINYI_FN int tinyi_split_next(tinyi_split *sp, size_t *begin, size_t *end)
{
    int i;
    if (sp->at >= sp->n) return 0;
    for (i = 0; i < sp->n_steps && sp->end[i] > sp->at; i++) {}
    for (; i < sp->n_steps; i++) {
        if (i) sp->memo[i].run_end = sp->memo[i].run_at == sp->at ? sp->memo[i].run_end : 0;
        sp->end[i] = tinyi_split_piece(sp, i, sp->at, i ? sp->end[i - 1] : sp->n);
    }
    *begin = sp->at;
    *end = sp->at = sp->n_steps ? sp->end[sp->n_steps - 1] : sp->n;
    return 1;
}
