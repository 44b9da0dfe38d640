/* tests/llm/serve/replay.c - answers that come back in a talk keep the tokens that were sampled
 *
 * Truth    a model whose vocabulary has "ab" and also "a" and "b": which of them it says is known, and so is what the
 *          encoder makes of the text. A story model at temperature 2, whose texts have shorter encodings. */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"
#include "scripted.h"

static client line;
static tllm_engine *engine;

static int post(const char *path, const char *body)
{
    static char request[20000];
    const int n = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %lu\r\n\r\n%s",
                           path, tllm_api_address(api), (unsigned long)strlen(body), body);
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
static int number(const char *name)
{
    char mark[60];
    const char *at;
    (void)snprintf(mark, sizeof mark, "\"%s\":", name);
    at = strstr(kit_body, mark);
    return at ? (int)strtol(at + strlen(mark), NULL, 10) : -1;
}
/* the content of an answer, as it stands in JSON */
static void content(char to[2000])
{
    const char *at = strstr(kit_body, "\"content\":\""), *end;
    to[0] = 0;
    if (!at) return;
    for (end = at += 11; *end && (*end != '"' || (end[-1] == '\\' && end[-2] != '\\')); end++) {}
    (void)snprintf(to, 2000, "%.*s", (int)(end - at), at);
}

static void begin(tiny_ctx *ctx, const tllm_session *s, int encode_again)
{
    tllm_api_desc d;
    tllm_engine_desc e;
    memset(&d, 0, sizeof d);
    memset(&e, 0, sizeof e);
    e.exact = 1;
    e.context = 128;
    d.server.address = "127.0.0.1:0";
    d.file = tllm_session_file(s);
    d.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
    d.encode_again = encode_again;
    T_OK(tllm_engine_open(ctx, tllm_session_model(s), tllm_session_vocab(s), &e, &engine));
    T_OK(tllm_api_open(ctx, engine, &d, &api));
}
static void end(void)
{
    kit_hang_up(&line);
    tllm_api_close(api);
    tllm_engine_close(engine);
    api = NULL;
    engine = NULL;
}

static const char xs[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/* "x" * n, and the answer "ab": in one token, or without that token in two. Its tokens. */
static int say(int n, int apart)
{
    char body[400];
    (void)snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%.*s\"}]%s}", n, xs,
                   apart ? ",\"logit_bias\":{\"6\":-100}" : "");
    T_EQ_INT(post("/v1/chat/completions", body), 200);
    T_TRUE(strstr(kit_body, "\"content\":\"ab\"") != NULL);
    return number("completion_tokens");
}
/* the tokens of the talk that follows: those of the x, of "ab", and one more x */
static int next_turn(const char *path, int n)
{
    char body[400];
    (void)snprintf(body, sizeof body,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"%.*s\"},{\"role\":\"assistant\",\"content\":"
                   "\"ab\"},{\"role\":\"user\",\"content\":\"x\"}]}", n, xs);
    T_EQ_INT(post(path, body), 200);
    return number(strstr(path, "input_tokens") ? "input_tokens" : "prompt_tokens");
}

static void test_two_encodings(void)
{
    static const char *const piece[] = { "<unk>", "<s>", "</s>", "x", "a", "b", "ab", "\xe2\x96\x81" };
    static const int next[] = { SCRIPT_END, SCRIPT_END, SCRIPT_END, 6, 5, SCRIPT_END, SCRIPT_END, SCRIPT_END },
                     other[] = { SCRIPT_END, SCRIPT_END, SCRIPT_END, 4, 5, SCRIPT_END, SCRIPT_END, SCRIPT_END };
    static const char chat[] = "/v1/chat/completions", counts[] = "/v1/chat/completions/input_tokens";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    scripted s = script_open(ctx, piece, next, other, T_COUNT(piece), 1);      /* a blank before each text */
    int n;
    begin(ctx, s.session, 0);
    T_EQ_INT(next_turn(chat, 1), 4);                    /* nobody said it: _, x, ab, x */
    T_EQ_INT(say(1, 1), 2);                             /* a, b */
    T_EQ_INT(next_turn(counts, 1), 5);                  /* _, x, a, b, x, and no blank before that one */
    T_EQ_INT(next_turn(chat, 1), 5);
    T_EQ_INT(number("cached_tokens"), 4);               /* the pass that drew the end has read them all */
    T_EQ_INT(next_turn(chat, 2), 5);                    /* _, x, x, ab, x: another talk */
    T_EQ_INT(say(1, 0), 1);                             /* of two answers with one text the later one */
    T_EQ_INT(next_turn(chat, 1), 4);
    T_EQ_INT(say(1, 1), 2);
    T_EQ_INT(next_turn(chat, 1), 5);
    /* the tokens of a text that a stop string cut say more than the text */
    T_EQ_INT(post(chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"xxx\"}],\"logit_bias\":{\"6\":-100},"
                        "\"stop\":\"b\"}"), 200);
    T_EQ_INT(number("completion_tokens"), 2);
    T_EQ_INT(post(counts, "{\"messages\":[{\"role\":\"user\",\"content\":\"xxx\"},{\"role\":\"assistant\",\"content\":"
                          "\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}"), 200);
    T_EQ_INT(number("input_tokens"), 5);
    /* prompts that are no chat are always encoded */
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"xabx\",\"max_tokens\":1}"), 200);
    T_EQ_INT(number("prompt_tokens"), 4);
    end();
    /* sixty-four talks are kept, the last used ones */
    begin(ctx, s.session, 0);
    for (n = 1; n < 65; n++) T_EQ_INT(say(n, 1), 2);
    T_EQ_INT(next_turn(counts, 1), 5);
    T_EQ_INT(say(65, 1), 2);
    T_EQ_INT(next_turn(counts, 2), 5);                  /* _, x, x, ab, x: it is gone */
    T_EQ_INT(next_turn(counts, 3), 7);                  /* _, x, x, x, a, b, x */
    T_EQ_INT(next_turn(counts, 1), 5);
    end();
    begin(ctx, s.session, 1);                           /* switched off */
    T_EQ_INT(say(1, 1), 2);
    T_EQ_INT(next_turn(chat, 1), 4);
    end();
    script_close(ctx, &s);
    t_close(ctx);
}

/* Three turns of a talk that was drawn at a high temperature: every token of the turns before is taken over. */
static void test_talk(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL;
    char body[6000], talk[4000] = "{\"role\":\"user\",\"content\":\"one day\"}", said[2000];
    int turn, held = 0, differs = 0;
    T_OK(tllm_session_open(ctx, "examples/models/story-small.gguf", NULL, &s));
    begin(ctx, s, 0);
    for (turn = 0; turn < 3; turn++) {
        (void)snprintf(body, sizeof body,
                       "{\"messages\":[%s],\"temperature\":2,\"seed\":%d,\"max_tokens\":25,\"ignore_eos\":true}", talk,
                       turn);
        T_EQ_INT(post("/v1/chat/completions", body), 200);
        if (turn) T_EQ_INT(number("cached_tokens"), held);
        held = number("prompt_tokens") + number("completion_tokens") - 1;
        content(said);
        T_TRUE(*said != 0);
        (void)snprintf(talk + strlen(talk), sizeof talk - strlen(talk),
                       ",{\"role\":\"assistant\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\" and\"}", said);
        (void)snprintf(body, sizeof body, "{\"content\":\"%s\"}", said);        /* the encoder has other tokens */
        T_EQ_INT(post("/tokenize", body), 200);
        {
            const char *at = kit_body;
            int n = 1;
            for (; *at; at++) n += *at == ',';
            differs += n != 25;
        }
    }
    T_TRUE(differs > 0);
    end();
    tllm_session_close(s);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_two_encodings);
    T_RUN(test_talk);
    return t_done();
}
