/* tests/llm/serve/infill.c - /infill, /v1/rerank and /v1/embeddings over loopback
 *
 * Truth    the text of /v1/completions for the same tokens, put together here; embeddings of a session and their
 *          products in double; for a head that ranks, the first row of the model without it, times the head. */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"

static const char a_story[] = "examples/models/story-small.gguf";
static const char a_bert[] = "tests/golden/oracle/llm/bert.gguf";
static const char an_embedder[] = "tests/fuzz/corpus/gguf/model-pooling-decoder.gguf";

static client line;

static int post(const char *path, const char *body)
{
    static char request[20000];
    const int n = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %lu\r\n\r\n%s",
                           path, tllm_api_address(api), (unsigned long)strlen(body), body);
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
static void has(const char *part, int at)
{
    if (!strstr(kit_body, part)) t_fail(__FILE__, at, "\"%.500s\" is without \"%s\"", kit_body, part);
}
#define SAYS(part) has(part, __LINE__)

/* the text of a member, with its quotes; "" if there is none */
static void member(const char *name, char to[2000])
{
    char mark[60];
    const char *at, *end;
    (void)snprintf(mark, sizeof mark, "\"%s\":\"", name);
    at = strstr(kit_body, mark);
    to[0] = 0;
    if (!at) return;
    at += strlen(mark);
    for (end = at; *end && (*end != '"' || end[-1] == '\\'); end++) {}
    (void)snprintf(to, 2000, "%.*s", (int)(end - at < 1999 ? end - at : 1999), at);
}

/* The vocabulary of the story with tokens 5, 6, 7 (and 8 between files) for filling in. */
static tllm_vocab *filling(tiny_ctx *ctx, const tllm_gguf *file, int n_keys, tllm_gguf **made)
{
    static const char *const key[4] = { "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id",
                                        "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.fim_sep_token_id" };
    tllm_writer *w = NULL;
    tllm_vocab *v = NULL;
    const void *bytes;
    size_t i, n = 0;
    T_OK(tllm_writer_open(ctx, NULL, &w));
    for (i = 0; i < tllm_gguf_n_meta(file); i++) T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(file, i)));
    for (i = 0; i < (size_t)n_keys; i++) T_OK(tllm_writer_put_u32(ctx, w, key[i], (uint32_t)(5 + i)));
    T_OK(tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n);
    {
        void *copy = t_keep(n);
        memcpy(copy, bytes, n);
        T_OK(tllm_gguf_open_memory(ctx, copy, n, made));
    }
    T_OK(tllm_vocab_open(ctx, *made, &v));
    tllm_writer_close(ctx, w);
    return v;
}

static size_t put(tiny_ctx *ctx, const tllm_vocab *v, char *to, size_t at, int32_t special, const char *text)
{
    tllm_tokens t;
    size_t i;
    memset(&t, 0, sizeof t);
    if (special >= 0) at += (size_t)sprintf(to + at, "%d,", (int)special);
    T_OK(tllm_encode(ctx, v, text, strlen(text), 0, &t));
    for (i = 0; i < t.n; i++) at += (size_t)sprintf(to + at, "%d,", (int)t.id[i]);
    tllm_tokens_free(ctx, &t);
    return at;
}

static void test_infill(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL;
    int n_keys;
    T_OK(tllm_session_open(ctx, a_story, NULL, &s));
    for (n_keys = 0; n_keys <= 4; n_keys += n_keys ? 1 : 2) {
        tllm_api_desc d;
        tllm_engine_desc ed;
        tllm_engine *engine = NULL;
        tllm_gguf *made = NULL;
        tllm_vocab *v = filling(ctx, tllm_session_file(s), n_keys, &made);
        static char ids[8000], body[9000], one[2000], two[2000];
        size_t at = 0;
        memset(&d, 0, sizeof d);
        memset(&ed, 0, sizeof ed);
        ed.exact = 1;
        ed.context = 128;
        d.server.address = "127.0.0.1:0";
        d.file = tllm_session_file(s);
        T_OK(tllm_engine_open(ctx, tllm_session_model(s), v, &ed, &engine));
        T_OK(tllm_api_open(ctx, engine, &d, &api));
        if (n_keys < 3) {
            T_EQ_INT(post("/infill", "{\"input_prefix\":\"Once \",\"input_suffix\":\" end\"}"), 400);
            SAYS(n_keys ? "has no tokens for the middle of a text" : "has no tokens for the beginning of a text");
        } else {
            T_EQ_INT(post("/infill", "{\"input_prefix\":\"Once upon\",\"input_suffix\":\" the end.\",\"prompt\":\" a\","
                                     "\"input_extra\":[{\"filename\":\"a.txt\",\"text\":\"The dog.\"}],"
                                     "\"n_predict\":6,\"temperature\":0}"), 200);
            member("content", one);
            T_TRUE(one[0] != 0);
            if (n_keys == 4) {
                at = put(ctx, v, ids, at, 8, "a.txt");
                at = put(ctx, v, ids, at, -1, "\n");
            } else SAYS("they come without");
            at = put(ctx, v, ids, at, -1, "The dog.");
            at = put(ctx, v, ids, at, 5, "Once upon");
            at = put(ctx, v, ids, at, 6, " the end.");
            at = put(ctx, v, ids, at, 7, " a");
            ids[at - 1] = 0;
            (void)snprintf(body, sizeof body, "{\"prompt\":[%s],\"max_tokens\":6,\"temperature\":0}", ids);
            T_EQ_INT(post("/v1/completions", body), 200);
            member("text", two);
            T_EQ_TEXT(one, two);
            T_EQ_INT(post("/infill", "{\"prompt\":\"a\"}"), 400);
            SAYS("input_prefix or input_suffix is needed");
            T_EQ_INT(post("/infill", "{\"input_prefix\":7}"), 400);
            SAYS("input_prefix must be a text");
            T_EQ_INT(post("/infill", "{\"input_prefix\":\"a\",\"input_extra\":[7]}"), 400);
            SAYS("file 0 of input_extra");
            T_EQ_INT(post("/infill", "{\"input_prefix\":\"a\",\"messages\":[]}"), 400);
            SAYS("messages is not a field");
            T_EQ_INT(post("/infill", "{\"input_prefix\":\"a\",\"n_predict\":2,\"stream\":true}"), 200);
            SAYS("\"stop\":true");
            T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"n_probs\":2}"), 400);
        }
        T_EQ_INT(post("/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}"), 400);
        SAYS("no model that compares texts");
        kit_hang_up(&line);
        tllm_api_close(api);
        api = NULL;
        tllm_engine_close(engine);
        tllm_vocab_close(ctx, v);
        tllm_gguf_close(ctx, made);
    }
    tllm_session_close(s);
    t_close(ctx);
}

static void test_rerank(void)
{
    static const char *const text[4] = { "a b", "b a b", "a", "ab ba" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL;
    tllm_api_desc d;
    tllm_about about;
    float x[2][256];
    double score[4], last = 2.0;
    const char *at;
    int i, k, found;
    memset(&d, 0, sizeof d);
    T_OK(tllm_session_open(ctx, an_embedder, NULL, &s));
    if (!s) { t_close(ctx); return; }
    tllm_model_about(tllm_session_model(s), &about);
    T_TRUE(about.n_out <= 256);
    T_OK(tllm_embed(s, "b a", 3, -1, x[0]));
    for (i = 0; i < 4; i++) {
        T_OK(tllm_embed(s, text[i], strlen(text[i]), -1, x[1]));
        for (score[i] = 0.0, k = 0; k < about.n_out; k++) score[i] += (double)x[0][k] * (double)x[1][k];
    }
    d.server.address = "127.0.0.1:0";
    d.embedder = s;
    T_OK(tllm_api_open(ctx, NULL, &d, &api));
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"b a\",\"documents\":[\"a b\",{\"text\":\"b a b\"},\"a\",\"ab ba\"],"
                                "\"return_documents\":true}"), 200);
    SAYS("\"method\":\"cosine of embeddings\"");
    for (found = 0, at = kit_body; (at = strstr(at, "\"index\":")) != NULL; found++) {
        double got;
        char want[40];
        i = (int)strtol(at + 8, NULL, 10);
        at = strstr(at, "\"relevance_score\":");
        if (!at || i < 0 || i > 3) { T_TRUE(!"an index and its score"); break; }
        got = strtod(at + 18, NULL);
        T_CLOSE(got, score[i], 1e-5);
        T_TRUE(got <= last);
        last = got;
        (void)snprintf(want, sizeof want, "\"document\":{\"text\":\"%s\"}", text[i]);
        T_TRUE(strstr(at, want) != NULL);
    }
    T_EQ_INT(found, 4);
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"b a\",\"documents\":[\"a b\",\"b a\"],\"top_n\":1}"), 200);
    SAYS("\"results\":[{\"index\":1,");                 /* the query itself */
    T_TRUE(strstr(kit_body, "\"index\":0") == NULL);
    for (k = 0, i = 0; i < 2; i++) {                    /* "a b", and "b a" as document and query */
        T_EQ_INT(post("/tokenize", i ? "{\"content\":\"b a\",\"add_special\":true}"
                                     : "{\"content\":\"a b\",\"add_special\":true}"), 200);
        for (at = kit_body, found = 1; *at; at++) found += *at == ',';
        k += i ? 2 * found : found;
    }
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"b a\",\"documents\":[\"a b\",\"b a\"],\"user\":\"me\"}"), 200);
    {
        char want[80];
        (void)snprintf(want, sizeof want, "\"prompt_tokens\":%d,\"total_tokens\":%d},\"warnings\":[\"user ", k, k);
        SAYS(want);
    }
    T_EQ_INT(post("/v1/rerank", "{\"query\":7,\"documents\":[\"a\"]}"), 400);
    SAYS("query must be a text");
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"a\",\"documents\":[]}"), 400);
    SAYS("documents must be a list of 1 to 2048 texts");
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"a\",\"documents\":[\"a\",7]}"), 400);
    SAYS("document 1 has no text");
    T_EQ_INT(post("/v1/rerank", "{\"query\":\"a\",\"documents\":[\"a\"],\"top_n\":0}"), 400);
    SAYS("top_n");
    T_EQ_INT(post("/infill", "{\"input_prefix\":\"a\"}"), 400);
    SAYS("gives embeddings, not text");
    T_STATUS(tllm_rank(s, "a", 1, "b", 1, x[0]), TINY_E_UNSUPPORTED, "no head that ranks");
    kit_hang_up(&line);
    tllm_api_close(api);
    api = NULL;
    tllm_session_close(s);
    t_close(ctx);
}

/* float i of a text in base64, little endian */
static float unpacked(const char *digits, size_t i)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char byte[4];
    uint32_t bits;
    float x;
    size_t k, b;
    for (k = 0; k < 4; k++) {
        unsigned v = 0;
        for (b = 8 * (4 * i + k); b < 8 * (4 * i + k) + 8; b++) {
            const char *digit = strchr(all, digits[b / 6]);
            v = v << 1 | (digit && *digit ? (unsigned)(digit - all) >> (5 - b % 6) & 1 : 0);
        }
        byte[k] = (unsigned char)v;
    }
    bits = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
    memcpy(&x, &bits, 4);
    return x;
}

/* Vectors are those of a session, as numbers and, to the bit, in base64. */
static void test_embeddings(void)
{
    static const char *const text[3] = { "a b", "b a b", "a b" };
    static const char *const forms[4] = { "", ",\"encoding_format\":\"float\"", ",\"encoding_format\":\"base64\"",
                                          ",\"encoding_format\":\"base64\",\"dimensions\":%d" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL;
    tllm_api_desc d;
    tllm_about about;
    float x[3][256];
    const char *at;
    char body[300], form[100];
    int tokens = 0;
    size_t i, k, f;
    memset(&d, 0, sizeof d);
    T_OK(tllm_session_open(ctx, an_embedder, NULL, &s));
    if (!s) { t_close(ctx); return; }
    tllm_model_about(tllm_session_model(s), &about);
    T_TRUE(about.n_out > 1 && about.n_out <= 256);
    for (i = 0; i < 3; i++) T_OK(tllm_embed(s, text[i], strlen(text[i]), -1, x[i]));
    T_TRUE(memcmp(x[0], x[1], (size_t)about.n_out * sizeof **x) != 0);
    d.server.address = "127.0.0.1:0";
    d.embedder = s;
    T_OK(tllm_api_open(ctx, NULL, &d, &api));
    for (i = 0; i < 3; i++) {
        (void)snprintf(body, sizeof body, "{\"content\":\"%s\",\"add_special\":true}", text[i]);
        T_EQ_INT(post("/tokenize", body), 200);
        for (at = kit_body, tokens++; *at; at++) tokens += *at == ',';
    }
    for (f = 0; f < T_COUNT(forms) && api; f++) {
        (void)snprintf(form, sizeof form, forms[f], (int)about.n_out);
        (void)snprintf(body, sizeof body, "{\"input\":[\"%s\",\"%s\",\"%s\"],\"model\":\"x\"%s}", text[0], text[1],
                       text[2], form);
        T_EQ_INT(post("/v1/embeddings", body), 200);
        for (at = kit_body, i = 0; i < 3; i++) {
            (void)snprintf(body, sizeof body, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":%c", (int)i,
                           f < 2 ? '[' : '"');
            at = strstr(at, body);
            if (!T_TRUE(at != NULL)) break;
            at += strlen(body);
            for (k = 0; k < (size_t)about.n_out && f < 2; k++) {
                char *after;
                T_CLOSE(strtod(at, &after), x[i][k], 1e-6 * fabs(x[i][k]));
                T_EQ_INT(*after, k + 1 < (size_t)about.n_out ? ',' : ']');
                at = after + 1;
            }
            if (f < 2) continue;
            T_EQ_INT(strcspn(at, "\""), (4 * (size_t)about.n_out + 2) / 3 * 4);
            for (k = 0; k < (size_t)about.n_out; k++) {
                const float got = unpacked(at, k);
                T_TRUE(!memcmp(&got, &x[i][k], sizeof got));
            }
        }
        (void)snprintf(body, sizeof body, "\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}", tokens, tokens);
        SAYS(body);
        SAYS("\"warnings\":[\"model: ");
    }
    T_EQ_INT(post("/v1/embeddings", "{\"input\":\"a b\"}"), 200);         /* one text */
    at = strstr(kit_body, "\"embedding\":[");
    T_TRUE(at && !strstr(kit_body, "\"index\":1"));
    if (at) T_CLOSE(strtod(at + 13, NULL), x[0][0], 1e-6 * fabs(x[0][0]));
    (void)snprintf(body, sizeof body, "{\"input\":\"a\",\"dimensions\":%d}", (int)about.n_out - 1);
    T_EQ_INT(post("/v1/embeddings", body), 400);
    SAYS("dimensions must be");
    T_EQ_INT(post("/v1/embeddings", "{\"input\":\"a\",\"encoding_format\":\"hex\"}"), 400);
    SAYS("must be float or base64");
    T_EQ_INT(post("/v1/embeddings", "{\"input\":[]}"), 400);
    SAYS("a list of 1 to 2048 texts");
    T_EQ_INT(post("/v1/embeddings", "{\"input\":[1,2]}"), 400);             /* tokens of another vocabulary */
    SAYS("item 0 of input is not a text");
    T_EQ_INT(post("/v1/embeddings", "{\"input\":[\"a\",[1,2]]}"), 400);
    SAYS("item 1 of input is not a text");
    T_EQ_INT(post("/v1/embeddings", "{\"input\":\"a\",\"stream\":true}"), 400);
    SAYS("stream is not a field");
    kit_hang_up(&line);
    tllm_api_close(api);
    api = NULL;
    tllm_session_close(s);
    t_close(ctx);
}

/* A head that ranks: the rows of an encoder, and one row of weights for the first of them. */
static void test_head(void)
{
    static const char *const text[2] = { "b a", "a cab" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc sd;
    tllm_vocab *vocab = NULL;
    tllm_writer *w = NULL;
    tllm_session *s = NULL;
    tllm_api_desc d;
    tllm_about about;
    tllm_text name;
    float head[256];
    double score[2];
    const uint64_t dim[2] = { 64, 1 };
    const void *bytes;
    size_t i, k, n = 0, used = 0;
    T_OK(tllm_gguf_open(ctx, a_bert, &file));
    T_OK(tllm_model_open(ctx, file, &model));
    T_OK(tllm_vocab_open(ctx, file, &vocab));
    if (!vocab) { t_close(ctx); return; }
    tllm_model_about(model, &about);
    T_EQ_INT(about.n_embd, 64);
    for (i = 0; i < 64; i++) head[i] = (float)((int)(i * 37 % 23) - 11) / 16.0f;
    memset(&sd, 0, sizeof sd);
    T_OK(tllm_state_open(ctx, model, &sd, &state));
    for (i = 0; i < 2; i++) {                           /* CLS query SEP text SEP */
        tllm_tokens q, t;
        float *rows;
        memset(&q, 0, sizeof q);
        memset(&t, 0, sizeof t);
        T_OK(tllm_encode(ctx, vocab, "a b", 3, TLLM_ENCODE_ENDS, &q));
        T_OK(tllm_encode(ctx, vocab, text[i], strlen(text[i]), TLLM_ENCODE_ENDS, &t));
        n = q.n + t.n - 1;
        used += n;
        {
            int32_t id[64];
            T_TRUE(n <= 64);
            memcpy(id, q.id, q.n * sizeof *id);
            memcpy(id + q.n, t.id + 1, (t.n - 1) * sizeof *id);
            rows = (float *)t_keep(n * 64 * sizeof *rows);
            T_OK(tllm_forward_all(state, id, (tiny_idx)n, rows));
        }
        for (score[i] = 0, k = 0; k < 64; k++) score[i] += (double)rows[k] * (double)head[k];
        tllm_tokens_free(ctx, &q);
        tllm_tokens_free(ctx, &t);
    }
    T_OK(tllm_writer_open(ctx, NULL, &w));
    for (i = 0; i < tllm_gguf_n_meta(file); i++) T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(file, i)));
    T_OK(tllm_writer_put_u32(ctx, w, "bert.pooling_type", TLLM_POOL_RANK));
    for (i = 0; i < tllm_gguf_n_tensors(file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(file, i);
        T_OK(tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data));
    }
    name.at = "cls.output.weight";
    name.n = strlen(name.at);
    T_OK(tllm_writer_put_tensor(ctx, w, name, TLLM_FORMAT_F32, 2, dim, head));
    T_OK(tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n);
    memset(&d, 0, sizeof d);
    T_OK(tllm_session_open_memory(ctx, bytes, n, NULL, &s));
    d.server.address = "127.0.0.1:0";
    d.embedder = s;
    T_OK(tllm_api_open(ctx, NULL, &d, &api));
    if (api) {
        char want[100];
        T_EQ_INT(post("/rerank", "{\"query\":\"a b\",\"documents\":[\"b a\",\"a cab\"]}"), 200);
        SAYS("\"method\":\"rank\"");
        (void)snprintf(want, sizeof want, "\"results\":[{\"index\":%d,", score[1] > score[0]);
        SAYS(want);
        for (i = 0; i < 2; i++) {
            const char *at;
            (void)snprintf(want, sizeof want, "{\"index\":%d,\"relevance_score\":", (int)i);
            at = strstr(kit_body, want);
            T_CLOSE(at ? strtod(at + strlen(want), NULL) : 1e30, score[i], 1e-4 * (1 + fabs(score[i])));
        }
        /* the query is counted with each document, as it is read */
        (void)snprintf(want, sizeof want, "\"usage\":{\"prompt_tokens\":%d,", (int)used);
        SAYS(want);
        kit_hang_up(&line);
    }
    tllm_api_close(api);
    api = NULL;
    tllm_session_close(s);
    tllm_writer_close(ctx, w);
    tllm_state_close(ctx, state);
    tllm_vocab_close(ctx, vocab);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_infill);
    T_RUN(test_rerank);
    T_RUN(test_embeddings);
    T_RUN(test_head);
    return t_done();
}
