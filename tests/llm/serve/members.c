/* tests/llm/serve/members.c - what a request may have inside: members that change nothing are named, members that
 * contradict each other are refused; an adapter for each request
 *
 * Truth    the texts of a session with the adapter alone. */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"

static tiny_ctx *ctx;
static tllm_engine *engine;
static tllm_session *session;               /* the other way to a text */
static tllm_api_desc desc;
static client line;

static int begin(void)
{
    tllm_engine_desc e;
    tllm_state_desc room;
    memset(&e, 0, sizeof e);
    memset(&room, 0, sizeof room);
    room.n_ctx = e.context = 128;
    room.exact = e.exact = 1;               /* then their texts have the same bits */
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_OK(tllm_session_open(ctx, "examples/models/story-small.gguf", &room, &session));
    T_OK(tllm_engine_open(ctx, tllm_session_model(session), tllm_session_vocab(session), &e, &engine));
    desc.server.address = "127.0.0.1:0";
    desc.file = tllm_session_file(session);
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
    t_close(ctx);
}

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

/* Members inside that change nothing: the answer names each of them. A message may have what its template reads. */
static void test_members(void)
{
#define GO "\"type\":\"object\",\"properties\":{\"to\":{\"const\":\"a\"}},\"required\":[\"to\"]," \
           "\"additionalProperties\":false"
#define TOOL "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"go\",\"parameters\":{" GO "}}}]"
#define HI "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\""
    static const char none[] = " has no effect on this server";
    static const struct {
        const char *path, *body;
        int status;
        const char *says, *name;            /* name: NULL, or a member of a part, as the warning has it */
    } cases[] = {
        { "/v1/responses", "{\"input\":\"a\",\"max_output_tokens\":1,\"text\":{\"verbosity\":\"low\"}}", 200, "",
          "verbosity of text" },
        { "/v1/responses", "{\"input\":\"a\",\"text\":\"low\"}", 400, "text must be an object", NULL },
        { "/v1/responses", "{\"input\":\"a\",\"text\":{\"format\":\"json\"}}", 400, "text.format must have the type",
          NULL },
        { "/v1/responses",
          "{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":true,"
          "\"schema\":{" GO "},\"level\":7}}}", 200, "to\\\"", "level of text.format" },
        { "/v1/responses",
          "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"go\",\"input_schema\":{}}],"
          "\"max_output_tokens\":1}", 200, "", "input_schema of a tool" },
        { "/v1/responses",
          "{\"input\":[{\"role\":\"user\",\"content\":\"a\",\"arguments\":\"{}\"}],\"max_output_tokens\":1}", 200,
          "", "arguments of a message of input" },
        { "/v1/messages", HI "}],\"tools\":[{\"name\":\"go\",\"parameters\":{}}]}", 200, "", "parameters of a tool" },
        { "/v1/messages", HI "}],\"tools\":[{\"name\":\"go\"}],\"tool_choice\":{\"type\":\"auto\",\"name\":\"go\"}}",
          200, "", "name of tool_choice" },
        { "/v1/messages",
          HI "}],\"tools\":[{\"name\":\"go\"}],\"tool_choice\":{\"type\":\"any\","
             "\"disable_parallel_tool_use\":1}}", 400, "disable_parallel_tool_use must be true or false", NULL },
        { "/v1/chat/completions", HI ",\"mood\":\"sad\"}]}", 200, "", "mood of a message" },
        { "/v1/chat/completions", HI ",\"name\":\"Ann\"}]}", 200, "", NULL },
        { "/v1/chat/completions", HI ",\"role content\":1,\"name\":\"Ann\"}]}", 200, "", "role content of a message" },
        { "/v1/chat/completions", HI ",\"nam\":1,\"name\":\"Ann\"}]}", 200, "", "nam of a message" },
        { "/v1/chat/completions",
          HI "},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":"
             "\"go\",\"arguments\":\"{}\"},\"speed\":2}]},{\"role\":\"tool\",\"content\":\"a\",\"tool_call_id\":"
             "\"1\"}]}", 200, "\"warnings\":[\"tool_calls of a message has no effect on this server\",",
          "speed of a call" },
        { "/v1/chat/completions",
          HI "}]," TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"go\"},\"mode\":1}}", 200,
          "", "mode of tool_choice" },
        { "/v1/chat/completions",
          HI "}]," TOOL ",\"tool_choice\":{\"type\":\"tool\",\"function\":{\"name\":\"go\"}}}", 400,
          "tool_choice must be none, auto", NULL },
        { "/v1/chat/completions",
          HI "}],\"response_format\":{\"type\":\"text\",\"schema\":{\"type\":\"object\"}}}", 200, "",
          "schema of response_format" },
        { "/v1/chat/completions", HI "}],\"stream\":true,\"stream_options\":[]}", 400,
          "stream_options must be an object", NULL },
        { "/v1/chat/completions", HI "}],\"stream\":true,\"stream_options\":{\"include_usage\":1}}", 400,
          "include_usage must be true or false", NULL },
        { "/v1/chat/completions", HI "}],\"stream_options\":{\"include_usage\":true}}", 200,
          "\"warnings\":[\"stream_options has no effect without stream\"]", NULL },
        { "/v1/chat/completions", HI "}],\"ignore_eos\":true,\"json_schema\":{" GO "}}", 200,
          "\"warnings\":[\"ignore_eos has no effect: a grammar,", NULL },
        { "/v1/completions", "{\"prompt\":\"a\",\"ignore_eos\":true,\"grammar\":\"root ::= [a]\"}", 200,
          "\"warnings\":[\"ignore_eos has no effect: a grammar,", NULL },
        { "/v1/chat/completions", HI "}],\"max_completion_tokens\":2}", 400,
          "max_tokens and max_completion_tokens differ", NULL },
        { "/v1/chat/completions", HI "}],\"n_predict\":2}", 400, "max_tokens and n_predict differ", NULL },
        { "/v1/chat/completions", HI "}],\"max_completion_tokens\":1,\"n_predict\":1}", 200, "\"completion_tokens\":1,",
          NULL },
    };
    size_t i;
    desc.chat_template = "{% for m in messages %}{{ m.content }}{% if m.name %} {{ m.name }}{% endif %}{% endfor %}"
                         "{# tools #}";
    if (!begin()) return;
    for (i = 0; i < T_COUNT(cases); i++) {
        const int status = post(cases[i].path, cases[i].body);
        const char *at = strstr(kit_body, "\"warnings\":[");
        char named[100];
        (void)snprintf(named, sizeof named, "\"%s%s\"]", cases[i].name ? cases[i].name : "", none);
        if (status != cases[i].status || !strstr(kit_body, cases[i].says) ||
            (cases[i].name ? !at || !strstr(at, named) : at && !strstr(cases[i].says, "warnings")))
            t_fail(__FILE__, __LINE__, "%s %s: %d, %.600s", cases[i].path, cases[i].body, status, kit_body);
    }
    kit_hang_up(&line);
    end();
#undef GO
#undef TOOL
#undef HI
}

/* the texts are letters, blanks and signs that JSON shows as they are, and ends of line */
static int gather(void *user, const char *text, size_t n)
{
    char *to = (char *)user;
    size_t i, at = strlen(to);
    for (i = 0; i < n && at + 3 < 600; i++) {
        if (text[i] == '\n') to[at++] = '\\';
        to[at++] = text[i] == '\n' ? 'n' : text[i];
    }
    to[at] = 0;
    return 0;
}

/* An adapter for each request: the text is that of a session with this adapter alone. */
static void test_adapters(void)
{
    static const struct {
        const char *field;
        float weight;
    } cases[] = { { "", 1 }, { ",\"lora\":[]", 0 }, { ",\"lora\":[{\"id\":1}]", -2 },
                  { ",\"lora\":[{\"id\":1,\"scale\":0.5},{\"id\":0,\"scale\":0}]", 0.5f } };
    const tllm_text a = { "blk.0.attn_q.weight.lora_a", 26 }, b = { "blk.0.attn_q.weight.lora_b", 26 };
    tllm_api_adapter list[2];
    tllm_adapter *lora = NULL;
    tllm_writer *w = NULL;
    tllm_gguf *file = NULL;
    tllm_about about;
    tllm_generate_desc g;
    const void *bytes;
    float *x;
    uint64_t dim_a[2], dim_b[2];
    char want[4][600], text[2500], body[300];
    size_t i, k, n = 0;
    if (!begin()) return;
    tllm_model_about(tllm_session_model(session), &about);
    dim_a[0] = dim_b[1] = (uint64_t)about.n_embd;
    dim_a[1] = dim_b[0] = 2;
    x = t_rand((size_t)about.n_embd * 4, -1.0f, 1.0f);
    T_OK(tllm_writer_open(ctx, NULL, &w));
    (void)tllm_writer_put_text(ctx, w, "general.type", "adapter");
    (void)tllm_writer_put_text(ctx, w, "general.architecture", "llama");
    (void)tllm_writer_put_text(ctx, w, "adapter.type", "lora");
    (void)tllm_writer_put_f32(ctx, w, "adapter.lora.alpha", 8.0f);
    (void)tllm_writer_put_tensor(ctx, w, a, TLLM_FORMAT_F32, 2, dim_a, x);
    (void)tllm_writer_put_tensor(ctx, w, b, TLLM_FORMAT_F32, 2, dim_b, x + 2 * about.n_embd);
    T_OK(tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n);
    T_OK(tllm_gguf_open_memory(ctx, bytes, n, &file));
    T_OK(tllm_adapter_open(ctx, tllm_session_model(session), file, &lora));
    tllm_api_close(api);
    list[0].adapter = list[1].adapter = lora;
    list[0].weight = 1;
    list[1].weight = -2;
    desc.adapters = list;
    desc.n_adapters = 2;
    T_OK(tllm_api_open(ctx, engine, &desc, &api));
    for (i = 0; i < T_COUNT(cases) && api; i++) {
        T_OK(tllm_session_attach(session, lora, cases[i].weight));
        memset(&g, 0, sizeof g);
        g.n_most = 30;
        g.encode = TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL;
        g.text = gather;
        g.user = want[i];
        want[i][0] = 0;
        T_OK(tllm_session_set(session, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(session, "one day , Ella", 14, &g, NULL));
        for (k = 0; k < i; k++) T_TRUE(strcmp(want[k], want[i]) != 0);
        (void)snprintf(body, sizeof body,
                       "{\"prompt\":\"one day , Ella\",\"max_tokens\":30,\"temperature\":0%s}", cases[i].field);
        T_EQ_INT(post("/v1/completions", body), 200);
        (void)snprintf(text, sizeof text, "\"text\":\"%s\"", want[i]);
        SAYS(text);
    }
    T_OK(tllm_session_attach(session, lora, 0));
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"lora\":{}}"), 400);
    SAYS("lora must be a list");
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"lora\":[{\"id\":2}]}"), 400);
    SAYS("this server has 2 of them");
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"lora\":[{\"id\":0,\"scale\":\"x\"}]}"), 400);
    SAYS("the scale of item 0 of lora");
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"lora\":[{\"id\":0},{\"id\":1}]}"), 400);
    SAYS("a request has one adapter at most");
    kit_hang_up(&line);
    tllm_api_close(api);
    tllm_engine_close(engine);
    api = NULL;
    engine = NULL;
    tllm_adapter_close(ctx, lora);
    tllm_gguf_close(ctx, file);
    tllm_writer_close(ctx, w);
    end();
}

int main(void)
{
    T_RUN(test_members);
    T_RUN(test_adapters);
    return t_done();
}
