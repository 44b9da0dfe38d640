/* tests/llm/serve/calls.c - several calls of tools in one answer, in the three forms of a chat
 *
 * Truth    a model that says two calls, and nothing else: in the form of its template after "x", and as the list of a
 *          grammar after "y". */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"
#include "scripted.h"

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

static int count(const char *part)
{
    const char *at = kit_body;
    int n = 0;
    while ((at = strstr(at, part)) != NULL) {
        n++;
        at++;
    }
    return n;
}

static const char *const piece[] = {
    "<unk>", "<s>", "</s>", "x", "<tool_call>{\"name\":\"go\",\"arguments\":{\"to\":\"a\"}}</tool_call>", "\n",
    "<tool_call>{\"name\":\"go\",\"arguments\":{\"to\":\"b\"}}</tool_call>", "y", "[",
    "{\"name\":\"go\",\"arguments\":{\"to\":\"a\"}}", ",", "{\"name\":\"go\",\"arguments\":{\"to\":\"b\"}}", "]" };
static const int next[] = { SCRIPT_END, SCRIPT_END, SCRIPT_END, 4, 5, 6, SCRIPT_END, 8, 9, 10, 11, 12, SCRIPT_END };
static const int other[] = { SCRIPT_END, SCRIPT_END, SCRIPT_END, 4, 5, 6, SCRIPT_END, 9, 9, SCRIPT_END, 11, 12,
                             SCRIPT_END };

#define SCHEMA "{\"type\":\"object\",\"properties\":{\"to\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"to\"]," \
               "\"additionalProperties\":false}"
#define CHAT(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],\"tools\":[{\"type\":\"function\"," \
                   "\"function\":{\"name\":\"go\",\"parameters\":" SCHEMA "}}]"
#define MESSAGE(text) "{\"max_tokens\":50,\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],\"tools\":[" \
                      "{\"name\":\"go\",\"input_schema\":" SCHEMA "}]"
#define RESPONSE(text) "{\"input\":\"" text "\",\"tools\":[{\"type\":\"function\",\"name\":\"go\",\"parameters\":" \
                       SCHEMA "}]"
#define MUST ",\"tool_choice\":\"required\""
#define MANY ",\"parallel_tool_calls\":true"
#define ONE ",\"parallel_tool_calls\":false"
#define ANY(more) ",\"tool_choice\":{\"type\":\"any\"" more "}"

static void test_calls(void)
{
    static const struct {
        const char *path, *body;
        int calls, made;                    /* made: tokens of the answer */
        const char *mark, *stops;           /* one for each call; why it ended */
    } cases[] = {
        { "/v1/chat/completions", CHAT("y") MUST MANY, 2, 5, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/chat/completions", CHAT("y") MUST ONE, 1, 1, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/chat/completions", CHAT("y") MUST, 1, 1, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/chat/completions", CHAT("x"), 2, 3, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/chat/completions", CHAT("x") MANY, 2, 3, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/chat/completions", CHAT("x") ONE, 1, 1, "\"id\":\"call_", "\"finish_reason\":\"tool_calls\"" },
        { "/v1/messages", MESSAGE("y") ANY(",\"disable_parallel_tool_use\":false"), 2, 5, "\"id\":\"toolu_",
          "\"stop_reason\":\"tool_use\"" },
        { "/v1/messages", MESSAGE("y") ANY(",\"disable_parallel_tool_use\":true"), 1, 1, "\"id\":\"toolu_",
          "\"stop_reason\":\"tool_use\"" },
        { "/v1/messages", MESSAGE("y") ANY(""), 1, 1, "\"id\":\"toolu_", "\"stop_reason\":\"tool_use\"" },
        { "/v1/messages", MESSAGE("x"), 2, 3, "\"id\":\"toolu_", "\"stop_reason\":\"tool_use\"" },
        { "/v1/messages", MESSAGE("x") ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}", 1, 1,
          "\"id\":\"toolu_", "\"stop_reason\":\"tool_use\"" },
        { "/v1/responses", RESPONSE("y") MUST MANY, 2, 5, "\"id\":\"fc_", "\"status\":\"completed\",\"error\"" },
        { "/v1/responses", RESPONSE("y") MUST ONE, 1, 1, "\"id\":\"fc_", "\"status\":\"completed\",\"error\"" },
        { "/v1/responses", RESPONSE("x"), 2, 3, "\"id\":\"fc_", "\"status\":\"completed\",\"error\"" },
        { "/v1/responses", RESPONSE("x") ONE, 1, 1, "\"id\":\"fc_", "\"status\":\"completed\",\"error\"" },
    };
    static const struct {
        const char *path, *body, *first, *second;
    } streams[] = {
        { "/v1/chat/completions", CHAT("y") MUST MANY, "{\"index\":0,\"id\":\"call_", "{\"index\":1,\"id\":\"call_" },
        { "/v1/chat/completions", CHAT("x"), "{\"index\":0,\"id\":\"call_", "{\"index\":1,\"id\":\"call_" },
        { "/v1/messages", MESSAGE("y") ANY(",\"disable_parallel_tool_use\":false"),
          "\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"to\\\": \\\"a\\\"}\"}",
          "\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"to\\\": \\\"b\\\"}\"}" },
        { "/v1/responses", RESPONSE("y") MUST MANY,
          "\"output_index\":0,\"name\":\"go\",\"arguments\":\"{\\\"to\\\": \\\"a\\\"}\"",
          "\"output_index\":1,\"name\":\"go\",\"arguments\":\"{\\\"to\\\": \\\"b\\\"}\"" },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    scripted s = script_open(ctx, piece, next, other, T_COUNT(piece), 0);
    tllm_engine *engine = NULL;
    tllm_api_desc d;
    char body[2000], made[60];
    size_t i;
    memset(&d, 0, sizeof d);
    d.server.address = "127.0.0.1:0";
    d.file = tllm_session_file(s.session);
    d.chat_template = "{{ messages[0].content }}{# tools <tool_call> #}";
    T_OK(tllm_engine_open(ctx, tllm_session_model(s.session), tllm_session_vocab(s.session), NULL, &engine));
    T_OK(tllm_api_open(ctx, engine, &d, &api));
    for (i = 0; i < T_COUNT(cases) && api; i++) {
        (void)snprintf(body, sizeof body, "%s}", cases[i].body);
        (void)snprintf(made, sizeof made, "%s\":%d,",
                       strstr(cases[i].path, "chat") ? "\"completion_tokens" : "\"output_tokens", cases[i].made);
        if (strstr(cases[i].path, "messages")) made[strlen(made) - 1] = '}';
        if (post(cases[i].path, body) != 200 || count(cases[i].mark) != cases[i].calls ||
            !strstr(kit_body, cases[i].stops) || count("\\\"a\\\"") + count("\"to\": \"a\"") != 1 ||
            count("\\\"b\\\"") + count("\"to\": \"b\"") != cases[i].calls - 1 || !strstr(kit_body, made))
            t_fail(__FILE__, __LINE__, "%s %s: %.900s", cases[i].path, body, kit_body);
    }
    for (i = 0; i < T_COUNT(streams) && api; i++) {
        const char *first;
        (void)snprintf(body, sizeof body, "%s,\"stream\":true}", streams[i].body);
        T_EQ_INT(post(streams[i].path, body), 200);
        first = strstr(kit_body, streams[i].first);
        if (!first || !strstr(first, streams[i].second) || count(streams[i].first) != 1 ||
            count(streams[i].second) != 1)
            t_fail(__FILE__, __LINE__, "%s %s: %.1500s", streams[i].path, body, kit_body);
    }
    kit_hang_up(&line);
    tllm_api_close(api);
    api = NULL;
    tllm_engine_close(engine);
    script_close(ctx, &s);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_calls);
    return t_done();
}
