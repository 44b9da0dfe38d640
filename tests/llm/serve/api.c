/* tests/llm/serve/api.c - the endpoints over loopback: texts and probabilities against those of a session, fields and
 * their faults, access, hang-ups, calls of tools */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"
#include "examples/serve-page.h"

static const char a_story[] = "examples/models/story-small.gguf";
static const char a_template[] = "{% for m in messages %}{{ m.content }} {% endfor %}";

static tiny_ctx *ctx;
static tllm_engine *engine;
static tllm_session *session;               /* the other way to a text */
static tllm_api_desc desc;
static tllm_engine_desc engine_desc;

static int begin(void)
{
    tllm_state_desc room;
    memset(&room, 0, sizeof room);
    room.n_ctx = 128;
    room.exact = 1;                         /* as the engine: then their texts have the same bits */
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    engine_desc.exact = 1;
    engine_desc.context = 128;
    if (!engine_desc.slots) engine_desc.slots = 4;
    T_OK(tllm_session_open(ctx, a_story, &room, &session));
    T_OK(tllm_engine_open(ctx, tllm_session_model(session), tllm_session_vocab(session), &engine_desc, &engine));
    desc.server.address = "127.0.0.1:0";
    desc.file = tllm_session_file(session);
    if (!desc.chat_template) desc.chat_template = a_template;
    T_OK(tllm_api_open(ctx, engine, &desc, &api));
    return api != NULL;
}
static void end(void)
{
    tllm_api_close(api);
    tllm_engine_close(engine);
    tllm_session_close(session);
    api = NULL;
    engine = NULL;
    session = NULL;
    memset(&desc, 0, sizeof desc);
    memset(&engine_desc, 0, sizeof engine_desc);
    t_close(ctx);
}

/* ---- a client ---- */

static client line;                         /* the connection of post and get */
static char host[200];

static int post_with(const char *path, const char *head, const char *body)
{
    static char request[300000];
    const int n = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %lu\r\n\r\n%s",
                           path, host, head, (unsigned long)strlen(body), body);
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
static int post(const char *path, const char *body)
{
    (void)snprintf(host, sizeof host, "%.100s", tllm_api_address(api));
    return post_with(path, "", body);
}
static int get_with(const char *method, const char *path, const char *head)
{
    char request[1000];
    const int n = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, path, host, head);
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
static int get(const char *path)
{
    (void)snprintf(host, sizeof host, "%.100s", tllm_api_address(api));
    return get_with("GET", path, "");
}

static void has(const char *part, int at)
{
    if (!strstr(kit_body, part)) t_fail(__FILE__, at, "\"%.500s\" is without \"%s\"", kit_body, part);
}
#define SAYS(part) has(part, __LINE__)

/* The text of a member in JSON, from `from` on; "" if there is none. */
static const char *member(const char *from, const char *name, char *to, size_t room)
{
    char mark[60];
    const char *at;
    size_t n = 0;
    (void)snprintf(mark, sizeof mark, "\"%s\":\"", name);
    at = strstr(from, mark);
    if (at)
        for (at += strlen(mark); *at && *at != '"' && n + 1 < room; at++) {
            if (*at == '\\') at++;
            to[n++] = *at == 'n' && at[-1] == '\\' ? '\n' : *at;
        }
    to[n] = 0;
    return at;
}
static double number(const char *from, const char *name)
{
    char mark[60];
    const char *at;
    (void)snprintf(mark, sizeof mark, "\"%s\":", name);
    at = strstr(from, mark);
    return at ? strtod(at + strlen(mark), NULL) : -1e30;
}

/* ---- the same text by a session ---- */

typedef struct gathered {
    char text[4000];
    size_t n;
} gathered;
static int gather(void *user, const char *text, size_t n)
{
    gathered *g = (gathered *)user;
    if (g->n + n < sizeof g->text) {
        memcpy(g->text + g->n, text, n);
        g->n += n;
        g->text[g->n] = 0;
    }
    return 0;
}
static const char *by_session(const char *prompt, size_t n_most, float temperature, uint64_t seed, const char *stop)
{
    static gathered g;
    tllm_generate_desc d;
    tllm_step chain[1];
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    chain[0] = temperature > 0 ? tllm_step_temperature(temperature) : tllm_step_greedy();
    d.chain = chain;
    d.n_steps = 1;
    d.seed = seed;
    d.n_most = n_most;
    d.encode = TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL;
    d.stop = &stop;
    d.n_stop = stop != NULL;
    d.text = gather;
    d.user = &g;
    T_OK(tllm_session_set(session, NULL, 0, NULL, NULL));
    T_OK(tllm_generate(session, prompt, strlen(prompt), &d, NULL));
    return g.text;
}

/* texts of a stream, one after the other: the members "text" or "content" of its events */
static void joined(const char *name, char *to, size_t room)
{
    const char *at = kit_body;
    size_t n = 0;
    to[0] = 0;
    while ((at = strstr(at, "data: {")) != NULL) {
        char text[400], event[4000];
        (void)snprintf(event, sizeof event, "%.*s", (int)strcspn(at, "\n"), at);
        (void)member(event, name, text, sizeof text);
        n += (size_t)snprintf(to + n, n < room ? room - n : 0, "%s", text);
        at++;
    }
}

/* ---- texts ---- */

static void test_completion(void)
{
    char text[4000], body[600];
    const char *want;
    if (!begin()) return;
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day , Ella\",\"max_tokens\":30,\"temperature\":0}"), 200);
    (void)member(kit_body, "text", text, sizeof text);
    want = by_session("one day , Ella", 30, 0, 0, NULL);
    T_TRUE(strlen(want) > 40);
    T_EQ_TEXT(text, want);
    SAYS("\"object\":\"text_completion\"");
    SAYS("\"finish_reason\":\"length\"");
    T_EQ_INT(number(kit_body, "completion_tokens"), 30);
    /* the stream is the same text */
    T_EQ_INT(
        post("/v1/completions", "{\"prompt\":\"one day , Ella\",\"max_tokens\":30,\"temperature\":0,\"stream\":true}"),
        200);
    T_TRUE(strstr(line.got, "Content-Type: text/event-stream") != NULL);
    joined("text", text, sizeof text);
    T_EQ_TEXT(text, want);
    SAYS("data: [DONE]\n\n");
    T_TRUE(!strstr(kit_body, "\"usage\""));
    /* a seed: the sampler of a session with the same seed; and n texts have the seeds that follow */
    (void)snprintf(body, sizeof body, "%s", by_session("one day", 20, 1.5f, 7, NULL));
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day\",\"max_tokens\":20,\"temperature\":1.5,\"seed\":7}"), 200);
    (void)member(kit_body, "text", text, sizeof text);
    T_EQ_TEXT(text, body);
    T_EQ_INT(number(kit_body, "seed"), 7);
    T_EQ_INT(
        post("/v1/completions", "{\"prompt\":\"one day\",\"max_tokens\":20,\"temperature\":1.5,\"seed\":5,\"n\":3}"),
        200);
    want = strstr(kit_body, "\"index\":2");
    T_TRUE(want != NULL);
    if (want) (void)member(want, "text", text, sizeof text);
    T_EQ_TEXT(text, body);
    /* a stop string is cut off, echo puts the prompt before, two prompts are two choices in order */
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day , Ella\",\"temperature\":0,\"stop\":[\"zzz\",\" .\"]}"),
             200);
    (void)member(kit_body, "text", text, sizeof text);
    T_EQ_TEXT(text, by_session("one day , Ella", 100, 0, 0, " ."));
    T_TRUE(!strstr(text, "."));
    SAYS("\"finish_reason\":\"stop\"");
    T_EQ_INT(post("/v1/completions",
                  "{\"prompt\":[\"one day\",\"in the\"],\"max_tokens\":3,\"temperature\":0,\"echo\":true}"),
             200);
    (void)member(kit_body, "text", text, sizeof text);
    (void)snprintf(body, sizeof body, "one day%s", by_session("one day", 3, 0, 0, NULL));
    T_EQ_TEXT(text, body);
    want = strstr(kit_body, "\"index\":1");
    T_TRUE(want != NULL);
    if (want) (void)member(want, "text", text, sizeof text);
    (void)snprintf(body, sizeof body, "in the%s", by_session("in the", 3, 0, 0, NULL));
    T_EQ_TEXT(text, body);
    kit_hang_up(&line);
    end();
}

static void test_chat(void)
{
    char text[4000];
    if (!begin()) return;
    T_EQ_INT(post("/apply-template", "{\"messages\":[{\"role\":\"system\",\"content\":\"one day\"},{\"role\":\"user\","
                                     "\"content\":[{\"type\":\"text\",\"text\":\", \"},{\"type\":\"text\",\"text\":"
                                     "\"Ella\"}]}]}"),
             200);
    T_EQ_TEXT(kit_body, "{\"prompt\":\"one day , \\nElla \"}\n");
    T_EQ_INT(post("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"one day , Ella\"}],"
                                          "\"max_completion_tokens\":12,\"temperature\":0,\"user\":\"me\"}"),
             200);
    (void)member(strstr(kit_body, "\"message\""), "content", text, sizeof text);
    T_EQ_TEXT(text, by_session("one day , Ella ", 12, 0, 0, NULL));
    SAYS("\"object\":\"chat.completion\"");
    SAYS("\"role\":\"assistant\"");
    SAYS("\"warnings\":[\"user has no effect on this server\"]");
    T_EQ_INT(post("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"one day , Ella\"}],"
                                          "\"max_tokens\":12,\"temperature\":0,\"stream\":true,\"user\":\"me\","
                                          "\"stream_options\":{\"include_usage\":true}}"),
             200);
    joined("content", text, sizeof text);
    T_EQ_TEXT(text, by_session("one day , Ella ", 12, 0, 0, NULL));
    SAYS("\"delta\":{\"role\":\"assistant\"");
    SAYS("\"finish_reason\":\"length\"");
    SAYS("\"choices\":[],\"usage\":{\"prompt_tokens\":");
    SAYS("\"warnings\":[\"user");
    T_EQ_INT(number(kit_body, "completion_tokens"), 12);
    T_TRUE(number(kit_body, "cached_tokens") >= 1); /* the same prompt came before */
    kit_hang_up(&line);
    end();
    /* a model without a template says so */
    desc.chat_template = "";
    kit_hang_up(&line);
    if (begin()) {
        T_EQ_INT(post("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"), 400);
        kit_hang_up(&line);
        end();
    }
}

/* logprobs of the answer and of the prompt: log softmax of the logits that a session gives after the same tokens */
static void test_logprobs(void)
{
    static const char prompt[] = "one day , Ella";
    tllm_tokens t;
    const float *logits = NULL;
    const char *at, *top;
    int32_t next;
    size_t i, n_vocab;
    if (!begin()) return;
    n_vocab = tllm_vocab_size(tllm_session_vocab(session));
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day , Ella\",\"max_tokens\":4,\"temperature\":0,\"echo\":true,"
                                     "\"logprobs\":2}"),
             200);
    memset(&t, 0, sizeof t);
    T_OK(tllm_encode(ctx, tllm_session_vocab(session), prompt, sizeof prompt - 1,
                     TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &t));
    if (tllm_vocab_adds_eos(tllm_session_vocab(session))) t.n--;
    at = strstr(kit_body, "\"token_logprobs\":[null");
    top = strstr(kit_body, "\"top_logprobs\":[null");
    T_TRUE(at && top && t.n > 2);
    at = at ? at + 22 : "";
    top = top ? top + 20 : "";
    T_OK(tllm_session_set(session, NULL, 0, NULL, NULL));
    next = t.id[0];
    for (i = 0; i + 1 < t.n + 4; i++) {     /* three of the four tokens that were made are fed again */
        int32_t best[2];
        double want = 0, two[2];
        char *after;
        T_OK(tllm_session_feed(session, &next, 1, &logits));
        if (!logits) break;
        T_OK(tllm_logprobs(ctx, logits, (int32_t)n_vocab, 2, best, two));
        next = i + 1 < t.n ? t.id[i + 1] : best[0]; /* the answer is greedy */
        T_OK(tllm_logprob(ctx, logits, (int32_t)n_vocab, next, &want));
        T_EQ_INT(*at, ',');
        T_CLOSE(strtod(at + 1, &after), want, 1e-4 * (1 + fabs(want)));
        at = after;
        top = strstr(top, "\":");           /* the most probable one comes first */
        if (!T_TRUE(top != NULL)) break;
        T_CLOSE(strtod(top + 2, NULL), two[0], 1e-4 * (1 + fabs(two[0])));
        top = strchr(top, '}');
        if (!T_TRUE(top != NULL)) break;
    }
    T_EQ_INT(*at, ']');                     /* and there is no further one */
    SAYS("\"text_offset\":[0,");
    tllm_tokens_free(ctx, &t);
    /* chat: bytes, alternatives */
    T_EQ_INT(post("/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"one day\"}],\"max_tokens\":2,"
                  "\"temperature\":0,\"logprobs\":true,\"top_logprobs\":3}"),
             200);
    SAYS("\"logprobs\":{\"content\":[{\"token\":\"");
    SAYS("\"bytes\":[");
    SAYS("\"top_logprobs\":[{\"token\":\"");
    kit_hang_up(&line);
    end();
}

/* JSON of a schema, and calls that are forced */
static void test_forms(void)
{
    char text[1000];
    if (!begin()) return;
    T_EQ_INT(post("/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0,\"max_tokens\":100,"
                  "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"c\",\"schema\":{\"type\":"
                  "\"object\",\"properties\":{\"city\":{\"enum\":[\"Rome\",\"Oslo\"]}},\"required\":[\"city\"],"
                  "\"additionalProperties\":false}}}}"),
             200);
    (void)member(strstr(kit_body, "\"message\""), "content", text, sizeof text);
    T_TRUE(strstr(text, "\"city\"") && (strstr(text, "\"Rome\"") || strstr(text, "\"Oslo\"")) && strchr(text, '}'));
    SAYS("\"finish_reason\":\"stop\"");
    T_EQ_INT(
        post("/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0,\"max_tokens\":100,"
             "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":"
             "{\"name\":\"go\",\"parameters\":{\"type\":\"object\",\"properties\":{\"to\":{\"enum\":[\"a\",\"b\"]}},"
             "\"required\":[\"to\"],\"additionalProperties\":false}}}],"
             "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"go\"}}}"),
        400);
    SAYS("the prompt has ");                /* the list of tools is longer than this context */
    kit_hang_up(&line);
    end();
    desc.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}{# tools #}";
    if (!begin()) return;
    T_EQ_INT(
        post("/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0,\"max_tokens\":100,"
             "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":"
             "{\"name\":\"go\",\"parameters\":{\"type\":\"object\",\"properties\":{\"to\":{\"enum\":[\"a\",\"b\"]}},"
             "\"required\":[\"to\"],\"additionalProperties\":false}}}],"
             "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"go\"}}}"),
        200);
    SAYS("\"content\":null,\"tool_calls\":[{\"id\":\"call_");
    SAYS("\"type\":\"function\",\"function\":{\"name\":\"go\",\"arguments\":\"{\\\"to\\\": \\\"");
    SAYS("\"finish_reason\":\"tool_calls\"");
    T_EQ_INT(
        post("/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0,\"max_tokens\":100,"
             "\"stream\":true,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"go\",\"parameters\":{\"type\":"
             "\"object\",\"properties\":{\"to\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"to\"],"
             "\"additionalProperties\":false}}}],\"tool_choice\":\"required\"}"),
        200);
    SAYS("\"delta\":{\"role\":\"assistant\",\"content\":null}");
    SAYS("\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_");
    SAYS("\"finish_reason\":\"tool_calls\"");
    T_TRUE(!strstr(kit_body, "\"content\":\"{"));
    /* what is not forced is said: the schema of a free call */
    T_EQ_INT(post("/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":1,\"tools\":["
                  "{\"type\":\"function\",\"function\":{\"name\":\"go\",\"strict\":true}}]}"), 200);
    SAYS("\"warnings\":[\"strict: ");
    kit_hang_up(&line);
    end();
}

/* /v1/messages and /v1/responses: the same text in their forms */
static void test_styles(void)
{
    static const char go[] = "\"type\":\"object\",\"properties\":{\"to\":{\"enum\":[\"a\"]}},\"required\":[\"to\"],"
                             "\"additionalProperties\":false";
    char text[4000], body[1000];
    const char *want;
    desc.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}{# tools #}";
    if (!begin()) return;
    want = by_session("one day , Ella ", 12, 0, 0, NULL);
    T_EQ_INT(post("/v1/messages", "{\"model\":\"x\",\"max_tokens\":12,\"temperature\":0,\"system\":[{\"type\":\"text\","
                                  "\"text\":\"one day\"}],\"messages\":[{\"role\":\"user\",\"content\":\", Ella\"}]}"),
             200);
    (void)member(strstr(kit_body, "\"content\""), "text", text, sizeof text);
    T_EQ_TEXT(text, want);
    SAYS("\"stop_reason\":\"max_tokens\",\"stop_sequence\":null");
    SAYS("\"output_tokens\":12");
    T_EQ_INT(post("/v1/messages", "{\"model\":\"x\",\"max_tokens\":12,\"temperature\":0,\"stream\":true,\"messages\":["
                                  "{\"role\":\"user\",\"content\":\"one day , Ella\"}]}"),
             200);
    joined("text", text, sizeof text);
    T_EQ_TEXT(text, want);
    SAYS("event: message_start\ndata: {\"type\":\"message_start\"");
    SAYS("\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    T_EQ_INT(post("/v1/messages", "{\"model\":\"x\",\"max_tokens\":90,\"temperature\":0,\"stop_sequences\":[\" .\"],"
                                  "\"messages\":[{\"role\":\"user\",\"content\":\"one day , Ella\"}]}"),
             200);
    SAYS("\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\" .\"");
    T_EQ_INT(post("/v1/messages/count_tokens",
                  "{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"one day\"}]}"),
             200);
    T_EQ_INT(number(kit_body, "input_tokens"), 5); /* o n e _day, and the blank of the template */
    (void)snprintf(
        body, sizeof body,
        "{\"model\":\"x\",\"max_tokens\":100,\"temperature\":0,\"tools\":[{\"name\":\"go\","
        "\"input_schema\":{%s}}],\"tool_choice\":{\"type\":\"any\"},\"messages\":[{\"role\":\"user\","
        "\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":"
        "\"go\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\","
        "\"content\":\"ok\"}]}]}",
        go);
    T_EQ_INT(post("/v1/messages", body), 200);
    SAYS("\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_");
    SAYS("\"name\":\"go\",\"input\":{\"to\": \"a\"}}],\"stop_reason\":\"tool_use\"");
    /* responses */
    T_EQ_INT(post("/v1/responses",
                  "{\"max_output_tokens\":12,\"temperature\":0,\"instructions\":\"one day\",\"input\":["
                  "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\", Ella\"}]}]}"),
             200);
    (void)member(strstr(kit_body, "\"output_text\""), "text", text, sizeof text);
    T_EQ_TEXT(text, want);
    SAYS("\"status\":\"incomplete\",\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
    T_EQ_INT(post("/v1/responses", "{\"max_output_tokens\":12,\"temperature\":0,\"input\":\"one day , Ella\","
                                   "\"stream\":true}"),
             200);
    joined("delta", text, sizeof text);
    T_EQ_TEXT(text, want);
    SAYS("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,");
    SAYS("event: response.incomplete\n");
    (void)snprintf(body, sizeof body,
                   "{\"temperature\":0,\"input\":\"hi\",\"tool_choice\":{\"type\":\"function\",\"name\":"
                   "\"go\"},\"tools\":[{\"type\":\"function\",\"name\":\"go\",\"parameters\":{%s}}]}",
                   go);
    T_EQ_INT(post("/v1/responses", body), 200);
    SAYS("\"status\":\"completed\",\"name\":\"go\",\"arguments\":\"{\\\"to\\\": \\\"a\\\"}\"}]");
    kit_hang_up(&line);
    end();
}

/* the forms of calls, on texts written by hand */
static void test_tool_forms(void)
{
    static const char names[] = "go\0stop";
    static const struct {
        tllm_tool_form form;
        const char *text, *json;
        size_t content;
    } cases[] = {
        { TLLM_TOOL_TAGS, "<tool_call>\n{\"name\": \"go\", \"arguments\": {\"a\": 1}}\n</tool_call>",
          "[{\"name\": \"go\", \"arguments\": {\"a\": 1}}]", 0 },
        { TLLM_TOOL_TAGS,
          "Well. <tool_call>{\"name\":\"go\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"stop\","
          "\"arguments\":\"{\\\"x\\\": []}\"}</tool_call>\n",
          "[{\"name\": \"go\", \"arguments\": {}}, {\"name\": \"stop\", \"arguments\": {\"x\": []}}]", 6 },
        { TLLM_TOOL_TAGS, "<tool_call>{\"name\":\"go\",\"arguments\":{}}", "[{\"name\": \"go\", \"arguments\": {}}]",
          0 },
        { TLLM_TOOL_TAGS, "<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>", NULL, 0 },
        { TLLM_TOOL_TAGS, "<tool_call>{\"name\":\"go\",\"arguments\":[]}</tool_call>", NULL, 0 },
        { TLLM_TOOL_TAGS, "<tool_call>{\"name\":\"go\",\"arguments\":{}}</tool_call> and more", NULL, 0 },
        { TLLM_TOOL_TAGS, "<tool_call>{\"name\":\"go\"", NULL, 0 },
        { TLLM_TOOL_TAGS, "no call", NULL, 0 },
        { TLLM_TOOL_LIST,
          "ab[TOOL_CALLS][{\"name\":\"go\",\"arguments\":{}},{\"name\":\"go\",\"arguments\":{\"b\":2}}]",
          "[{\"name\": \"go\", \"arguments\": {}}, {\"name\": \"go\", \"arguments\": {\"b\": 2}}]", 2 },
        { TLLM_TOOL_LIST, "[TOOL_CALLS][{\"name\":\"go\",\"arguments\":{}},7]", NULL, 0 },
        { TLLM_TOOL_LIST, "[{\"name\":\"go\",\"arguments\":{}}]", NULL, 0 },
        { TLLM_TOOL_OBJECT, " {\"name\":\"go\",\"parameters\":{\"a\":\"b\"}}",
          "[{\"name\": \"go\", \"arguments\": {\"a\": \"b\"}}]", 0 },
        { TLLM_TOOL_OBJECT, "<|python_tag|>{\"name\":\"go\",\"parameters\":{}}",
          "[{\"name\": \"go\", \"arguments\": {}}]", 0 },
        { TLLM_TOOL_OBJECT, "{\"answer\": 42}", NULL, 0 },
        { TLLM_TOOL_FORCED, "[{\"name\":\"go\",\"arguments\":{}}]", "[{\"name\": \"go\", \"arguments\": {}}]", 0 },
        { TLLM_TOOL_NONE, "<tool_call>{\"name\":\"go\",\"arguments\":{}}</tool_call>", NULL, 0 },
    };
    tiny_ctx *c = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i, k;
    for (i = 0; i < T_COUNT(cases); i++) {
        const size_t n = strlen(cases[i].text);
        char *json = NULL;
        size_t content = 99, shown = 0;
        T_OK(tllm_tool_calls(c, cases[i].form, cases[i].text, n, names, sizeof names, &json, &content));
        if (cases[i].json) T_EQ_TEXT(json, cases[i].json);
        else if (!T_TRUE(!json)) printf("    case %d\n", (int)i);
        T_EQ_INT(content, cases[i].json ? cases[i].content : n);
        tiny_free(c, json);
        /* what may be shown grows with the text, and never reaches into a call */
        for (k = 0; k <= n; k++) {
            char *cut = (char *)malloc(k + 1);
            size_t plain;
            if (!cut) break;
            memcpy(cut, cases[i].text, k);
            plain = tllm_tool_plain(cases[i].form, cut, k, shown, NULL);
            T_TRUE(plain >= shown && plain <= k && (!cases[i].json || plain <= cases[i].content));
            shown = plain;
            free(cut);
        }
    }
    {
        int closed = 0;
        static const char two[] = "a <tool_call>{}</tool_call>";
        T_EQ_INT(tllm_tool_plain(TLLM_TOOL_TAGS, two, sizeof two - 2, 0, &closed), 2);
        T_EQ_INT(closed, 0);
        T_EQ_INT(tllm_tool_plain(TLLM_TOOL_TAGS, two, sizeof two - 1, 0, &closed), 2);
        T_EQ_INT(closed, 1);
        T_EQ_INT(tllm_tool_plain(TLLM_TOOL_TAGS, "a <tool", 7, 0, NULL), 2);
        T_EQ_INT(tllm_tool_plain(TLLM_TOOL_TAGS, "a <tools", 8, 2, NULL), 8);
    }
    T_EQ_INT(tllm_tool_form_of("x <tool_call> y"), TLLM_TOOL_TAGS);
    T_EQ_INT(tllm_tool_form_of("[TOOL_CALLS]"), TLLM_TOOL_LIST);
    T_EQ_INT(tllm_tool_form_of("<|python_tag|>"), TLLM_TOOL_OBJECT);
    T_EQ_INT(tllm_tool_form_of("plain"), TLLM_TOOL_NONE);
    T_EQ_INT(tllm_tool_form_of(NULL), TLLM_TOOL_NONE);
    t_close(c);
}

/* ---- what is refused ---- */

static void test_fields(void)
{
#define M "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
#define Q "{\"prompt\":\"a\","
    static const struct {
        const char *path, *body;
        int status;
        const char *says;
    } cases[] = {
        { "/v1/completions", "", 400, "no body" },
        { "/v1/completions", "hello", 400, "\"code\":\"invalid_json\"" },
        { "/v1/completions", "[1]", 400, "not a JSON object" },
        { "/v1/completions", "{\"prompt\":\"a\"", 400, "invalid_json" },
        { "/v1/completions", "{\"prompt\":\"\xff\"}", 400, "invalid_json" },
        { "/v1/completions", "{}", 400, "prompt must be" },
        { "/v1/completions", "{\"prompt\":null}", 400, "prompt must be" },
        { "/v1/completions", "{\"prompt\":[]}", 400, "prompt must be" },
        { "/v1/completions", "{\"prompt\":[1,\"a\"]}", 400, "item 1 of prompt is not a token" },
        { "/v1/completions", "{\"prompt\":[99999999]}", 400, "not a token" },
        { "/v1/completions", "{\"prompt\":[-1]}", 400, "not a token" },
        { "/v1/completions", "{\"prompt\":[[1],7]}", 400, "must be a list of tokens" },
        { "/v1/completions", Q "\"num_ctx\":7}", 400, "num_ctx is not a field that /v1/completions knows" },
        { "/v1/completions", Q "\"max_tokens\":1.5}", 400, "\"param\":\"max_tokens\"" },
        { "/v1/completions", Q "\"max_tokens\":\"9\"}", 400, "\"param\":\"max_tokens\"" },
        { "/v1/completions", Q "\"temperature\":-1}", 400, "temperature must be a number from 0" },
        { "/v1/completions", Q "\"temperature\":1e999}", 400, "error" },
        { "/v1/completions", Q "\"top_p\":true}", 400, "top_p" },
        { "/v1/completions", Q "\"n\":0}", 400, "\"param\":\"n\"" },
        { "/v1/completions", Q "\"n\":129}", 400, "\"param\":\"n\"" },
        { "/v1/completions", Q "\"best_of\":2}", 400, "best_of" },
        { "/v1/completions", Q "\"suffix\":\"b\"}", 400, "suffix" },
        { "/v1/completions", Q "\"stop\":[\"a\",\"\"]}", 400, "\"param\":\"stop\"" },
        { "/v1/completions", Q "\"stop\":7}", 400, "\"param\":\"stop\"" },
        { "/v1/completions", Q "\"stop\":\"a\\u0000b\"}", 400, "\"param\":\"stop\"" },
        { "/v1/completions", Q "\"seed\":\"x\"}", 400, "\"param\":\"seed\"" },
        { "/v1/completions", Q "\"stream\":1}", 400, "\"param\":\"stream\"" },
        { "/v1/completions", Q "\"logit_bias\":{\"x\":1}}", 400, "\"param\":\"logit_bias\"" },
        { "/v1/completions", Q "\"logit_bias\":{\"99999999999\":1}}", 400, "\"param\":\"logit_bias\"" },
        { "/v1/completions", Q "\"logit_bias\":{\"1\":\"a\"}}", 400, "\"param\":\"logit_bias\"" },
        { "/v1/completions", Q "\"logit_bias\":[[1]]}", 400, "\"param\":\"logit_bias\"" },
        { "/v1/completions", Q "\"logprobs\":99}", 400, "\"param\":\"logprobs\"" },
        { "/v1/completions", Q "\"echo\":true,\"logprobs\":1,\"stream\":true}", 400, "not streamed" },
        { "/v1/completions", Q "\"grammar\":\"root ::= [\"}", 400, "error" },
        { "/v1/completions", Q "\"grammar\":\"root ::= x\"}", 400, "error" },
        { "/v1/completions", Q "\"json_schema\":{\"pattern\":\"x\"}}", 400, "pattern" },
        { "/v1/completions", Q "\"json_schema\":{},\"grammar\":\"root ::= [a]\"}", 400, "both" },
        { "/v1/chat/completions", "{}", 400, "messages must be a list" },
        { "/v1/chat/completions", "{\"messages\":[]}", 400, "messages must be a list" },
        { "/v1/chat/completions", "{\"messages\":[7]}", 400, "message 0 is not an object" },
        { "/v1/chat/completions", "{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", 400, "no role" },
        { "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\"}]}", 400, "no content" },
        { "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400,
          "image_url" },
        { "/v1/chat/completions", M "\"echo\":true}", 400, "echo is not a field" },
        { "/v1/chat/completions", M "\"top_logprobs\":2}", 400, "needs logprobs" },
        { "/v1/chat/completions", M "\"response_format\":{\"type\":\"xml\"}}", 400, "response_format" },
        { "/v1/chat/completions", M "\"response_format\":{\"type\":\"json_schema\"}}", 400, "response_format" },
        { "/v1/chat/completions", M "\"tools\":[{\"type\":\"function\"}]}", 400, "tool 0" },
        { "/v1/chat/completions", M "\"stream\":true,\"stream_options\":{\"include_all\":1}}", 400, "include_usage" },
        { "/v1/chat/completions", M "\"tool_choice\":\"required\"}", 400, "tool_choice without tools" },
        { "/v1/chat/completions", M "\"chat_template_kwargs\":7}", 400, "must be an object" },
        { "/tokenize", "{\"content\":7}", 400, "content must be a text" },
        { "/detokenize", "{\"tokens\":[1,2,99999999]}", 400, "item 2" },
        { "/v1/embeddings", "{\"input\":\"a\"}", 400, "no embedding model" },
        { "/v1/ranks", "{}", 404, "there is no /v1/ranks on this server" },
        { "/v1/responses", "{}", 400, "input must be a text" },
        { "/v1/responses", "{\"input\":[{\"type\":\"computer_call\"}]}", 400, "computer_call" },
        { "/v1/responses", "{\"input\":\"a\",\"previous_response_id\":\"r\"}", 400, "not stored" },
        { "/v1/responses", "{\"input\":\"a\",\"background\":true}", 400, "background" },
        { "/v1/responses", "{\"input\":\"a\",\"truncation\":\"auto\"}", 400, "never cuts" },
        { "/v1/responses", "{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}]}", 400, "tool 0" },
        { "/v1/responses", "{\"input\":\"a\",\"max_tokens\":5}", 400, "max_tokens is not a field" },
        { "/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 400, "max_tokens is missing" },
        { "/v1/messages", M "\"max_tokens\":5,\"thinking\":{\"type\":\"enabled\"}}", 400, "thinking" },
        { "/v1/messages", M "\"max_tokens\":5,\"stop\":[\"a\"]}", 400, "stop is not a field" },
        { "/v1/messages", "{\"max_tokens\":5,\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}", 400, "role user" },
        { "/v1/messages", "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
          400, "type image" },
    };
    static char deep[60000];
    size_t i;
    if (!begin()) return;
    for (i = 0; i < T_COUNT(cases); i++) {
        const int status = post(cases[i].path, cases[i].body);
        if (status != cases[i].status || !strstr(kit_body, cases[i].says) ||
            !strstr(kit_body, "{\"error\":{\"message\":\""))
            t_fail(__FILE__, __LINE__, "%s %s: %d, %.300s", cases[i].path, cases[i].body, status, kit_body);
    }
    /* JSON nested 10,000 deep, a body over the limit, a prompt over the context: with both numbers */
    memset(deep, '[', 10000);
    deep[10000] = 0;
    T_EQ_INT(post("/v1/completions", deep), 400);
    SAYS("invalid_json");
    (void)strcpy(deep, "{\"prompt\":\"");
    for (i = 0; i < 200; i++) (void)strcat(deep, " day");
    (void)strcat(deep, "\"}");
    T_EQ_INT(post("/v1/completions", deep), 400);
    SAYS("the prompt has 200 tokens, which exceeds the available context size of 128 tokens");
    SAYS("\"type\":\"exceed_context_size_error\"");
    SAYS("\"n_prompt_tokens\":200,\"n_ctx\":128}");
    SAYS("\"code\":\"context_length_exceeded\"");
    /* and it still serves */
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1,\"thing\":null}"), 200);
    SAYS("\"warnings\":[\"thing is not known to this server and has no effect\"]");
    T_EQ_INT(get("/v1/completions"), 405);
    T_TRUE(strstr(line.got, "\r\nAllow: POST\r\n") != NULL);
    T_EQ_INT(get("/nothing"), 404);
    T_EQ_INT(post_with("/v1/completions", "Content-Encoding: gzip\r\n", "x"), 415);
    kit_hang_up(&line);
    end();
}

static void test_simple(void)
{
    static const char *const page[] = { "<p>one ", "page</p>" };
    desc.page = page;
    desc.n_page = 2;
    desc.name = "tale \"1\"";
    if (!begin()) return;
    T_EQ_INT(get("/health"), 200);
    T_EQ_TEXT(kit_body, "{\"status\":\"ok\"}\n");
    T_EQ_INT(get("/v1/models"), 200);
    SAYS("\"id\":\"tale \\\"1\\\"\"");
    T_EQ_INT(get("/?x"), 200);
    T_EQ_TEXT(kit_body, "<p>one page</p>");
    T_TRUE(strstr(line.got, "Content-Security-Policy: default-src 'none'") && strstr(line.got, "text/html"));
    T_EQ_INT(get("/props"), 200);
    SAYS("\"total_slots\":4");
    SAYS("{% for m in messages %}");
    T_EQ_INT(get("/slots"), 200);
    SAYS("\"id\":3,\"is_processing\":false");
    T_EQ_INT(post("/tokenize", "{\"content\":\"one day\",\"with_pieces\":true}"), 200);
    SAYS("\"piece\":\" day\"");
    T_EQ_INT(post("/tokenize", "{\"content\":\"one day , Ella\"}"), 200);
    {
        char back[400];
        (void)snprintf(back, sizeof back, "%.300s", kit_body);
        T_EQ_INT(post("/detokenize", back), 200);
        T_EQ_TEXT(kit_body, "{\"content\":\"one day , Ella\"}\n");
    }
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true}"), 200);
    T_EQ_INT(get("/metrics"), 200);
    SAYS("\ntinyllm_tokens_predicted_total 5");
    SAYS("# TYPE tinyllm_requests_processing gauge\ntinyllm_requests_processing 0");
    kit_hang_up(&line);
    end();
}

/* The page in the program is the file next to it, line by line, and small. */
static void test_page(void)
{
    static char page[61440];
    FILE *f = fopen("examples/serve-page.html", "rb");
    const size_t n = f ? fread(page, 1, sizeof page, f) : 0;
    size_t i, at = 0;
    if (f) (void)fclose(f);
    T_TRUE(n > 1000 && n < sizeof page);
    for (i = 0; i < T_COUNT(serve_page); i++) {
        const size_t k = strlen(serve_page[i]);
        if (at + k > n || memcmp(page + at, serve_page[i], k)) {
            t_fail(__FILE__, __LINE__, "line %d of the page differs: make page", (int)i + 1);
            return;
        }
        at += k;
    }
    T_EQ_INT(at, n);
}

/* ---- access ---- */

static void test_keys(void)
{
    desc.keys = "first key\r\nsecond\n\n";
    if (!begin()) return;
    (void)snprintf(host, sizeof host, "example.com"); /* with a key any name will do */
    T_EQ_INT(get_with("GET", "/health", ""), 200);
    T_EQ_INT(get_with("GET", "/v1/models", ""), 401);
    T_TRUE(strstr(line.got, "\r\nWWW-Authenticate: Bearer\r\n") != NULL);
    T_EQ_INT(get_with("GET", "/nothing", ""), 401); /* without a key nobody learns what there is */
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer first key\r\n"), 200);
    T_EQ_INT(get_with("GET", "/v1/models", "authorization: bearer second\r\n"), 200);
    T_EQ_INT(get_with("GET", "/v1/models", "x-api-key: second\r\n"), 200);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer first ke\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer first key1\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer secondsecond\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer \r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Basic second\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: second\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer x\r\nAuthorization: Bearer second\r\n"), 401);
    T_EQ_INT(get_with("GET", "/v1/models", "Authorization: Bearer second\r\nx-api-key: x\r\n"), 401);
    kit_hang_up(&line);
    end();
    /* beyond this machine only with a key */
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_OK(tllm_session_open(ctx, a_story, NULL, &session));
    T_OK(tllm_engine_open(ctx, tllm_session_model(session), tllm_session_vocab(session), NULL, &engine));
    desc.server.address = "*:0";
    T_STATUS(tllm_api_open(ctx, engine, &desc, &api), TINY_E_ARGUMENT, "without a key");
    desc.keys = "\n";
    T_STATUS(tllm_api_open(ctx, engine, &desc, &api), TINY_E_ARGUMENT, "keys is empty");
    desc.keys = "k";
    T_OK(tllm_api_open(ctx, engine, &desc, &api));
    end();
}

static void test_origins(void)
{
    if (!begin()) return;
    T_EQ_INT(get("/health"), 200);
    (void)snprintf(host, sizeof host, "evil.example:80");
    T_EQ_INT(get_with("GET", "/health", ""), 403);
    SAYS("Host is evil.example:80");
    (void)snprintf(host, sizeof host, "127.0.0.1.evil.example");
    T_EQ_INT(get_with("GET", "/health", ""), 403);
    (void)snprintf(host, sizeof host, "LocalHost:1");
    T_EQ_INT(get_with("GET", "/health", ""), 200);
    T_EQ_INT(get_with("GET", "/health", "Origin: http://LocalHost:1\r\n"), 200);
    T_TRUE(!strstr(line.got, "Access-Control"));
    T_EQ_INT(get_with("GET", "/health", "Origin: https://evil.example\r\n"), 403);
    T_EQ_INT(get_with("GET", "/health", "Origin: null\r\n"), 403);
    T_EQ_INT(get_with("GET", "/health", "Origin: http://LocalHost:1\r\nOrigin: http://a\r\n"), 403);
    kit_hang_up(&line);
    end();
    desc.origins = "https://a.example http://b.example:3000";
    desc.hosts = "box.lan";
    if (!begin()) return;
    (void)snprintf(host, sizeof host, "box.lan:99");
    T_EQ_INT(get_with("GET", "/health", "Origin: https://a.example\r\n"), 200);
    T_TRUE(strstr(line.got, "\r\nAccess-Control-Allow-Origin: https://a.example\r\nVary: Origin\r\n") != NULL);
    T_TRUE(!strstr(line.got, "Credentials"));
    T_EQ_INT(get_with("GET", "/health", "Origin: https://a.example.evil\r\n"), 403);
    T_EQ_INT(get_with("OPTIONS", "/v1/completions",
                      "Origin: http://b.example:3000\r\n"
                      "Access-Control-Request-Method: POST\r\n"),
             204);
    T_TRUE(strstr(line.got, "Access-Control-Allow-Headers: authorization, content-type") != NULL);
    T_TRUE(!strstr(line.got, "Credentials") && !strstr(line.got, "Content-Length"));
    kit_hang_up(&line);
    end();
}

/* ---- clients that leave ---- */

/* A client that hangs up frees its slot in the next step; the text of another one does not change. With proposals, a
 * step makes several tokens of each. */
static void hang_up(int draft_n)
{
    static const char *const last[] = { "", "\"stream\":true," };
    static const char stays[] =
        "{\"prompt\":\"in the end\",\"max_tokens\":60,\"ignore_eos\":true,\"seed\":3,\"temperature\":0.3}";
    char alone[4000], text[4000], request[600];
    int k, i, n;
    tllm_engine_counters c;
    engine_desc.slots = 2;
    engine_desc.draft_n = draft_n;
    engine_desc.draft_match = 1;
    engine_desc.draft_always = 1;
    if (!begin()) return;
    T_EQ_INT(post("/v1/completions", stays), 200);
    (void)member(kit_body, "text", alone, sizeof alone);
    T_TRUE(strlen(alone) > 60);
    for (k = 0; k < 4; k++) {
        client other[3];
        /* one generates, one waits for a slot; both leave while the other text is made */
        for (i = 0; i < 3; i++) {
            const char *body = i ? NULL : stays;
            char mine[300];
            (void)snprintf(mine, sizeof mine,
                           "{%s\"prompt\":\"one day\",\"n\":%d,\"temperature\":0.3,\"ignore_eos\":true,"
                           "\"max_tokens\":120}",
                           last[k & 1], i == 2 ? 2 : 1);
            if (!body) body = mine;
            kit_dial(&other[i], tllm_api_address(api));
            n = snprintf(request, sizeof request,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %lu\r\n\r\n%s",
                         (unsigned long)strlen(body), body);
            kit_say(&other[i], request, (size_t)n);
        }
        for (i = 0, c.running = c.waiting = 0; i < 20000 && c.running + c.waiting < 4; i++) {
            T_OK(KIT_STEP(0));
            tllm_engine_count(engine, &c);
        }
        for (i = 0; i < 7 * k; i++) T_OK(KIT_STEP(0));
        tllm_engine_count(engine, &c);
        T_EQ_INT(c.running + c.waiting, 4);
        T_EQ_INT(c.cancelled, 3 * k);
        kit_hang_up(&other[1]);
        kit_hang_up(&other[2]);
        T_OK(KIT_STEP(0));
        tllm_engine_count(engine, &c);
        T_EQ_INT(c.cancelled, 3 * (k + 1));
        T_EQ_INT(c.running, 1);
        T_EQ_INT(c.waiting, 0);
        T_TRUE(kit_await(&other[0], "\"seed\":3"));
        (void)member(other[0].got, "text", text, sizeof text);
        T_EQ_TEXT(text, alone);
        kit_hang_up(&other[0]);
    }
    if (draft_n) {
        tllm_engine_count(engine, &c);
        T_TRUE(c.proposed > 50 && c.kept > 2 && c.kept < c.proposed);
    }
    kit_hang_up(&line);
    end();
    T_EQ_INT(t_alloc.live_blocks, 0);
}
static void test_hang_up(void) { hang_up(0); }
static void test_hang_up_drafting(void)
{
    hang_up(1);
    T_PROOF("serving 1", "a client that hangs up while its answer is speculated frees its slot in the next step");
}

/* The same answers with proposals and without; they are counted for the answer and for the server. */
static void test_drafting(void)
{
    static const char *const body[2] = {
        "{\"prompt\":\"one day , Ella had five cakes . one day , Ella\",\"max_tokens\":50,\"temperature\":0}",
        "{\"prompt\":\"one day , Ella had five cakes . one day , Ella\",\"max_tokens\":50,\"seed\":5}"
    };
    char text[2][2][2000];
    int k, i;
    for (k = 0; k < 2; k++) {
        engine_desc.draft_n = k ? 8 : 0;
        engine_desc.draft_always = 1;
        if (!begin()) return;
        for (i = 0; i < 2; i++) {
            T_EQ_INT(post("/v1/completions", body[i]), 200);
            T_EQ_INT(strstr(kit_body, "\"draft_n\":") != NULL, k);
            T_EQ_INT(strstr(kit_body, "\"draft_n_accepted\":") != NULL, k);
            (void)member(kit_body, "text", text[k][i], sizeof text[k][i]);
            T_TRUE(strlen(text[k][i]) > 20);
        }
        T_EQ_INT(get("/metrics"), 200);
        SAYS("# TYPE tinyllm_n_draft_total counter\ntinyllm_n_draft_total ");
        T_EQ_INT(strstr(kit_body, "\ntinyllm_n_draft_total 0.0\n") != NULL, !k);
        T_EQ_INT(strstr(kit_body, "\ntinyllm_n_draft_accepted_total 0.0\n") != NULL, !k);
        kit_hang_up(&line);
        end();
    }
    for (i = 0; i < 2; i++) T_EQ_TEXT(text[1][i], text[0][i]);
}

/* A client hangs up while half of its prompt is read: its slot is free in the next step, no more of the prompt is read,
 * and the text of another one does not change. */
static void test_hang_up_in_prompt(void)
{
    static const char mine[] = "{\"prompt\":\"in the end\",\"max_tokens\":60,\"ignore_eos\":true,\"seed\":3}";
    char alone[4000], text[4000], request[1400], body[1000];
    client other[2];
    tllm_engine_counters c;
    tllm_engine_slot slot[2];
    uint64_t read;
    size_t held = 0;
    int i, k, n;
    engine_desc.slots = 2;
    engine_desc.budget = 8;                 /* tokens of prompts in a step: the one below takes many */
    if (!begin()) return;
    T_EQ_INT(post("/v1/completions", mine), 200);
    (void)member(kit_body, "text", alone, sizeof alone);
    T_TRUE(strlen(alone) > 60);
    n = snprintf(body, sizeof body, "{\"stream\":true,\"max_tokens\":4,\"prompt\":[1");
    for (i = 0; i < 99; i++) n += snprintf(body + n, sizeof body - (size_t)n, ",%d", 270 + i * 37 % 200);
    (void)snprintf(body + n, sizeof body - (size_t)n, "]}");
    for (k = 0; k < 2; k++) {
        const char *b = k ? body : mine;
        kit_dial(&other[k], tllm_api_address(api));
        n = snprintf(request, sizeof request,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %lu\r\n\r\n%s",
                     (unsigned long)strlen(b), b);
        kit_say(&other[k], request, (size_t)n);
    }
    for (i = 0; i < 20000 && held < 48; i++) {
        T_OK(KIT_STEP(0));
        (void)tllm_engine_slots(engine, slot, 2);
        for (k = 0, held = 0; k < 2; k++)
            if (slot[k].work == TLLM_SLOT_READS && slot[k].n_prompt == 100) held = slot[k].n_held;
    }
    T_TRUE(held >= 48 && held < 90);        /* in its middle */
    tllm_engine_count(engine, &c);
    T_EQ_INT(c.running, 2);
    T_EQ_INT(c.cancelled, 0);
    read = c.prompt_tokens;
    kit_hang_up(&other[1]);
    T_OK(KIT_STEP(0));
    tllm_engine_count(engine, &c);
    T_EQ_INT(c.running, 1);
    T_EQ_INT(c.cancelled, 1);
    T_TRUE(c.prompt_tokens == read);
    T_TRUE(kit_await(&other[0], "\"seed\":3"));
    (void)member(other[0].got, "text", text, sizeof text);
    T_EQ_TEXT(text, alone);
    kit_hang_up(&other[0]);
    kit_hang_up(&line);
    end();
    T_EQ_INT(t_alloc.live_blocks, 0);
}

/* The queue is full: 503, and the others are served. The end of the server ends the rest. */
static void test_full(void)
{
    client c;
    char request[400];
    int n;
    engine_desc.slots = 1;
    engine_desc.queue = 2;
    if (!begin()) return;
    kit_dial(&c, tllm_api_address(api));
    n = snprintf(request, sizeof request,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 58\r\n\r\n%s",
                 "{\"prompt\":\"one day\",\"max_tokens\":120,\"ignore_eos\":true    }");
    kit_say(&c, request, (size_t)n);
    for (n = 0; n < 5; n++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day\",\"n\":3,\"max_tokens\":1}"), 503);
    SAYS("\"code\":\"queue_full\"");
    T_TRUE(strstr(line.got, "\r\nRetry-After: ") != NULL);
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day\",\"max_tokens\":2}"), 200);
    kit_hang_up(&line);
    kit_say(&c, request, strlen(request));  /* still under way at the end */
    for (n = 0; n < 5; n++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    end();
    kit_hang_up(&c);
    T_EQ_INT(t_alloc.live_blocks, 0);
}

int main(void)
{
    T_RUN(test_completion);
    T_RUN(test_chat);
    T_RUN(test_logprobs);
    T_RUN(test_forms);
    T_RUN(test_styles);
    T_RUN(test_tool_forms);
    T_RUN(test_fields);
    T_RUN(test_simple);
    T_RUN(test_page);
    T_RUN(test_keys);
    T_RUN(test_origins);
    T_RUN(test_hang_up);
    T_RUN(test_hang_up_drafting);
    T_RUN(test_drafting);
    T_RUN(test_hang_up_in_prompt);
    T_RUN(test_full);
    return t_done();
}
