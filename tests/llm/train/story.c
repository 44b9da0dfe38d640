/* tests/llm/train/story.c - the stories of the grammar, word by word; probabilities that sum to one; texts that are no
 * stories */
#include "t.h"

static const char first[] = " on a warm evening , Ella was in the barn . she had seven white flowers . her friend Leo "
                            "had three stones . suddenly Leo was scared , so he called for help"
                            " . then Leo found four more stones under the tree . now Leo had seven stones . Ella asked "
                            ", \" how many stones do you have ? \" Leo said , \" i have seven . \""
                            " at school , the teacher asked , \" what is one minus one ? \" Leo said , \" zero . \" "
                            "suddenly Ella was cold , so she put on a coat . Leo said , \" look , the"
                            " clean hens behind the doors dance ! \" in the end , Ella had seven flowers and Leo had "
                            "seven stones . they went home .";

static uint32_t crc(uint32_t c, const char *s, size_t n)
{
    size_t i;
    int k;
    for (i = 0; i < n; i++)
        for (c ^= (unsigned char)s[i], k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320u & (0u - (c & 1u)));
    return c;
}

static void test_first_story(void)
{
    char text[2048];
    size_t n = 0, tokens = 0;
    double bits = 0, b;
    tllm_story s = tllm_story_start(1);
    int32_t t;
    for (t = tllm_story_draw(&s, &b, NULL); t != TLLM_STORY_END; t = tllm_story_draw(&s, &b, NULL)) {
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", tllm_story_word(t));
        bits += b;
        tokens++;
    }
    T_EQ_TEXT(text, first);
    T_EQ_INT(tokens + 1, 140);
    T_CLOSE(bits, 98.6856, 5e-5);
}

static void test_thousand_stories(void)
{
    tllm_story s = tllm_story_start(1);
    size_t stories = 0, tokens = 0, bytes = 0;
    uint32_t c = 0xffffffffu;
    double bits = 0, b;
    int begins = 1;
    while (stories < 1000) {
        const int32_t t = tllm_story_draw(&s, &b, NULL);
        const char *w = t == TLLM_STORY_END ? "<eos>" : tllm_story_word(t);
        char word[32];
        const int n = snprintf(word, sizeof word, "%s%s%s", begins ? "" : " ", w, t == TLLM_STORY_END ? "\n" : "");
        c = crc(c, word, (size_t)n);
        bytes += (size_t)n;
        bits += b;
        tokens++;
        begins = t == TLLM_STORY_END;
        stories += (size_t)begins;
    }
    T_EQ_INT(tokens, 95936);
    T_CLOSE(bits, 67203.77, 0.005);
    T_EQ_INT(bytes, 398228);
    T_EQ_INT(c ^ 0xffffffffu, 0x1929428f);
}

/* At each step of many stories: the probabilities of the next token sum to one, with no token twice; a reader next to
 * the generator computes the same probability; the floor and its share of choices equal the published ones. */
static void test_distribution(void)
{
    enum { STORIES = T_SLOW ? 1000 : 10000 };
    tllm_story s = tllm_story_start(20250101), reader = tllm_story_start(7);
    size_t stories = 0, tokens = 0, chosen = 0;
    double bits = 0, entropy = 0, b = 0, rb = 0;
    while (stories < STORIES) {
        tllm_story_items q;
        unsigned char seen[TLLM_STORY_VOCAB];
        uint32_t total = 0;
        int i, tag = 0, rtag = 0, found = 0;
        int32_t t;
        memset(seen, 0, sizeof seen);
        tllm_story_next(&s, &q);
        for (i = 0; i < q.n; i++) {
            total += q.weight[i];
            if (q.token[i] < 0 || q.token[i] >= TLLM_STORY_VOCAB || !q.weight[i] || seen[q.token[i]]++) {
                T_TRUE(!"an item stands twice or is none");
                return;
            }
        }
        t = tllm_story_draw(&s, &b, &tag);
        for (i = 0; i < q.n; i++)
            if (q.token[i] == t) found = fabs(b + log2((double)q.weight[i] / q.total)) < 1e-12;
        if (total != q.total || !found || !tllm_story_take(&reader, t, &rb, &rtag) || rb != b || rtag != tag ||
            (tag == TLLM_STORY_CHOICE) != (b > 0)) {
            T_TRUE(!"weights, probability and tag agree");
            return;
        }
        bits += b;
        entropy += tllm_story_entropy(&q);
        chosen += tag == TLLM_STORY_CHOICE;
        tokens++;
        stories += t == TLLM_STORY_END;
    }
    T_CLOSE(bits / (double)tokens, 0.7020, T_SLOW ? 0.004 : 0.0013);     /* 0.0004 for 100000 stories */
    T_CLOSE(entropy / (double)tokens, 0.7020, T_SLOW ? 0.004 : 0.0013);
    T_CLOSE(100.0 * (double)chosen / (double)tokens, 28.3, 0.1);
    T_CLOSE((double)tokens / (double)stories, 95.5, 1.0);
}

/* A forced token changed to anything else is found at its place. */
static void test_refuses(void)
{
    tllm_story s = tllm_story_start(5);
    int32_t token[TLLM_STORY_LONGEST], other;
    uint8_t tag[TLLM_STORY_LONGEST];
    double bits[TLLM_STORY_LONGEST];
    size_t story, i, n, k, tried = 0;
    for (story = 0; story < (T_SLOW ? 20 : 200); story++) {
        for (n = 0; n == 0 || token[n - 1] != TLLM_STORY_END; n++) token[n] = tllm_story_draw(&s, NULL, NULL);
        if (!T_EQ_INT(tllm_story_score(token, n, bits, tag), n)) return;
        for (i = 0; i < n; i++) {
            const int32_t was = token[i];
            if (bits[i] > 0) continue;
            for (k = 0; k < 6; k++) {
                other = k == 0   ? TLLM_STORY_END
                        : k == 1 ? TLLM_STORY_BYTE + 65
                        : k == 2 ? -1
                        : k == 3 ? TLLM_STORY_VOCAB
                                 : TLLM_STORY_WORD + (int32_t)t_rand_below(284);
                if (other == was) continue;
                token[i] = other;
                tried++;
                if (!T_EQ_INT(tllm_story_score(token, n, NULL, NULL), i)) return;
            }
            token[i] = was;
        }
    }
    T_TRUE(tried > 5000);
    T_EQ_INT(tllm_story_score(NULL, 0, NULL, NULL), 0);
}

/* The weights of the grammar, by counting. */
static void test_frequencies(void)
{
    static const int weight[9] = { 2, 3, 3, 3, 2, 2, 1, 1, 1 };
    static const char *const number[9] = { "one", "two", "three", "four", "five", "six", "seven", "eight", "nine" };
    enum { STORIES = T_SLOW ? 2000 : 20000 };
    tllm_story s = tllm_story_start(11);
    size_t count[9] = { 0 }, stories, i;
    double chi = 0;
    for (stories = 0; stories < STORIES; stories++) {
        int32_t t, before = 0, done = 0;
        while ((t = tllm_story_draw(&s, NULL, NULL)) != TLLM_STORY_END) {
            for (i = 0; !done && i < 9 && before == tllm_story_find("had", 3); i++)
                if (t == tllm_story_find(number[i], strlen(number[i]))) { count[i]++; done = 1; }
            before = t;
        }
    }
    for (i = 0; i < 9; i++) {
        const double want = STORIES * weight[i] / 18.0, off = (double)count[i] - want;
        chi += off * off / want;
    }
    T_TRUE(chi < 26.1);                     /* one in a thousand of such samples is further off: 8 degrees of freedom */
}

static tllm_vocab *open_vocab(tiny_ctx *ctx, tllm_writer **w, tllm_gguf **g)
{
    tllm_writer_desc d;
    tllm_vocab *v = NULL;
    const void *bytes;
    size_t n = 0;
    memset(&d, 0, sizeof d);
    *w = NULL;
    *g = NULL;
    if (!T_OK(tllm_writer_open(ctx, &d, w))) return NULL;
    T_OK(tllm_writer_put_text(ctx, *w, "general.architecture", "llama"));
    T_OK(tllm_story_vocab_put(ctx, *w));
    T_OK(tllm_writer_finish(ctx, *w));
    bytes = tllm_writer_memory(*w, &n);
    if (T_OK(tllm_gguf_open_memory(ctx, bytes, n, g))) T_OK(tllm_vocab_open(ctx, *g, &v));
    return v;
}

/* The library's own reader of files finds the tokens in a generated text; any bytes round-trip. */
static void test_vocabulary(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_writer *w;
    tllm_gguf *g;
    tllm_vocab *v = open_vocab(ctx, &w, &g);
    tllm_story s = tllm_story_start(3);
    tllm_tokens t;
    tllm_bytes back;
    char text[4096], noise[300];
    size_t story, i, n, round;
    memset(&t, 0, sizeof t);
    memset(&back, 0, sizeof back);
    if (!v) { t_close(ctx); return; }
    T_EQ_INT(tllm_vocab_size(v), TLLM_STORY_VOCAB);
    T_EQ_INT(tllm_vocab_special(v, TLLM_BOS), TLLM_STORY_END);
    T_EQ_INT(tllm_vocab_special(v, TLLM_EOS), TLLM_STORY_END);
    T_TRUE(tllm_vocab_is_end(v, TLLM_STORY_END) && tllm_vocab_adds_bos(v));
    for (i = TLLM_STORY_WORD; i < TLLM_STORY_VOCAB; i++) {
        const char *word = tllm_story_word((int32_t)i);
        const tllm_text x = tllm_vocab_text(v, (int32_t)i);
        T_TRUE(x.n == strlen(word) + 1 && x.at[0] == ' ' && !memcmp(x.at + 1, word, x.n - 1));
        T_EQ_INT(tllm_story_find(word, strlen(word)), i);
        if (i > TLLM_STORY_WORD) T_TRUE(strcmp(tllm_story_word((int32_t)i - 1), word) < 0);
    }
    T_EQ_INT(tllm_story_find("wall-e", 6), -1);
    T_EQ_INT(tllm_story_find("wal", 3), -1);
    for (story = 0; story < 50; story++) {
        int32_t want[TLLM_STORY_LONGEST];
        size_t at = 0;
        for (n = 0; n == 0 || want[n - 1] != TLLM_STORY_END; n++) {
            want[n] = tllm_story_draw(&s, NULL, NULL);
            if (want[n] != TLLM_STORY_END)
                at += (size_t)snprintf(text + at, sizeof text - at, " %s", tllm_story_word(want[n]));
        }
        t.n = 0;
        T_OK(tllm_encode(ctx, v, text, at, 0, &t));
        if (!T_EQ_INT(t.n, n - 1)) break;
        T_SAME(t.id, want, n - 1);
    }
    for (round = 0; round < 50; round++) {
        for (i = 0; i < sizeof noise; i++)
            noise[i] = (char)(round & 1 ? t_rand_below(256) : (uint32_t)text[t_rand_below(200)]);
        t.n = back.n = 0;
        T_OK(tllm_encode(ctx, v, noise, sizeof noise, 0, &t));
        T_OK(tllm_decode(ctx, v, t.id, t.n, 0, &back));
        if (!T_TRUE(back.n == sizeof noise && !memcmp(back.at, noise, back.n))) break;
    }
    tllm_bytes_free(ctx, &back);
    tllm_tokens_free(ctx, &t);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    tllm_writer_close(ctx, w);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_first_story);
    T_RUN(test_thousand_stories);
    T_RUN(test_distribution);
    T_RUN(test_refuses);
    T_RUN(test_frequencies);
    T_RUN(test_vocabulary);
    return t_done();
}
