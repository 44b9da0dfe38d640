/* tests/llm/serve/limits.c - requests that go beyond the limits of schemas, grammars and templates: each is refused
 * with its sentence, and the server goes on with the same memory */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"

enum { MOST = 3 << 20 };
static client line;
static char *body;                          /* of the next request */
static size_t n_body;

static void put(const char *text)
{
    const size_t n = strlen(text);
    if (n_body + n < MOST) memcpy(body + n_body, text, n + 1);
    n_body += n;
}
static void put_many(const char *text, size_t times)
{
    while (times--) put(text);
}
static int post(const char *path)
{
    static char request[MOST + 500];
    const int n = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %lu\r\n\r\n%s",
                           path, tllm_api_address(api), (unsigned long)n_body, body);
    n_body = 0;
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
/* the answer to the body: a status, and words of its sentence */
static void refused(const char *path, int status, const char *says, int at)
{
    const int got = post(path);
    if (got != status || !strstr(kit_body, says) || !strstr(kit_body, "{\"error\":{\"message\":\""))
        t_fail(__FILE__, at, "%d, not %d with \"%s\": %.300s", got, status, says, kit_body);
    put("{\"prompt\":\"one day\",\"max_tokens\":2,\"temperature\":0}");         /* and it still serves */
    T_EQ_INT(post("/v1/completions"), 200);
}
#define REFUSED(path, status, says) refused(path, status, says, __LINE__)

static void test_limits(void)
{
    static const char text[] = "/v1/completions", chat[] = "/v1/chat/completions";
    static const char a_template[] =
        "{# tools #}{% if n %}{% set r = range(n) %}{% for i in r %}{% if deep %}{% for k in r %}{% endfor %}"
        "{% endif %}{% endfor %}{% endif %}{% if wide %}{{ 'abcdefgh' * wide }}{% endif %}"
        "{% if held %}{% set ns = namespace(t=messages[0].content) %}{% for i in range(held) %}"
        "{% set ns.t = ns.t ~ ns.t %}{% endfor %}{% endif %}{{ messages[0].content }}";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine *engine = NULL;
    tllm_engine_desc e;
    tllm_api_desc d;
    char some[200];
    size_t i, before;
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.context = 64;
    e.slots = 2;
    d.server.address = "127.0.0.1:0";
    d.chat_template = a_template;
    body = (char *)t_keep(MOST);
    T_OK(tllm_engine_open_file(ctx, "examples/models/story-small.gguf", &e, &engine));
    T_OK(tllm_api_open(ctx, engine, &d, &api));
    put("{\"prompt\":\"one day\",\"max_tokens\":2}");
    T_EQ_INT(post(text), 200);
    before = tiny_ctx_bytes(ctx);

    /* schemas: bytes, repetitions, what they expand to, depth; also as arguments of a call that is forced */
    put("{\"prompt\":\"a\",\"json_schema\":{\"type\":\"object\",\"description\":\"");
    put_many("0123456789abcdef", 65536);
    put("\"}}");
    REFUSED(text, 400, "the limit is 1048576");
    put("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":\"required\",\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"title\":\"");
    put_many("0123456789abcdef", 65536);
    put("\"}}}]}");
    REFUSED(chat, 400, "the limit is 1048576");
    put("{\"prompt\":\"a\",\"json_schema\":{\"type\":\"array\",\"maxItems\":10001,\"items\":{\"type\":\"null\"}}}");
    REFUSED(text, 400, "maxItems");
    put("{\"prompt\":\"a\",\"json_schema\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"z\":{}");
    for (i = 0; i < 30; i++) {
        (void)snprintf(some, sizeof some, ",\"p%d\":{\"type\":\"string\",\"minLength\":9000,\"maxLength\":10000}",
                       (int)i);
        put(some);
    }
    put("}}}");
    REFUSED(text, 400, "operations");
    put("{\"prompt\":\"a\",\"json_schema\":");
    put_many("{\"type\":\"array\",\"items\":", 300);
    put("{}");
    put_many("}", 301);
    REFUSED(text, 400, "deep");

    /* grammars: bytes, groups, repetitions, and one that reads well but is too ambiguous to be run */
    put("{\"prompt\":\"a\",\"grammar\":\"root ::= [a-z]");
    put_many(" | \\\"0123456789ab\\\"", 70000);
    put("\"}");
    REFUSED(text, 400, "the limit is 1048576");
    put("{\"prompt\":\"a\",\"grammar\":\"root ::= ");
    put_many("(", 201);
    put("[a]");
    put_many(")", 201);
    put("\"}");
    REFUSED(text, 400, "groups nested more than 200 deep");
    put("{\"prompt\":\"a\",\"grammar\":\"root ::= (([a-z]{1,9000}){1,9000}){1,9000}\"}");
    REFUSED(text, 400, "operations");
    put("{\"prompt\":\"a\",\"grammar\":\"root ::= r0\\n");
    for (i = 0; i < 40; i++) {
        (void)snprintf(some, sizeof some, "r%d ::= r%d r%d\\n", (int)i, (int)i + 1, (int)i + 1);
        put(some);
    }
    put("r40 ::= [a-z ]?\\n\"}");
    REFUSED(text, 400, "the grammar is too ambiguous");

    /* templates: numbers of range, steps, bytes of the output, memory */
#define KWARGS(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"0123456789abcdef\"}]," \
                     "\"chat_template_kwargs\":{" more "}}"
    put(KWARGS("\"n\":100001"));
    REFUSED(chat, 400, "a range of about 100001 numbers; the limit is 100000");
    put(KWARGS("\"n\":6000,\"deep\":true"));
    REFUSED(chat, 400, "more than 20000000 steps");
    put(KWARGS("\"wide\":90000000"));
    REFUSED(chat, 400, "limit");
    put(KWARGS("\"held\":60"));
    REFUSED(chat, 400, "bytes more and holds");
    put(KWARGS("\"n\":9"));                 /* within them */
    T_EQ_INT(post("/apply-template"), 200);
    T_TRUE(tiny_ctx_bytes(ctx) < before + ((size_t)16 << 20));
    kit_hang_up(&line);
    tllm_api_close(api);
    api = NULL;
    tllm_engine_close(engine);
    t_close(ctx);
    T_EQ_INT(t_alloc.live_blocks, 0);
}

int main(void)
{
    T_RUN(test_limits);
    return t_done();
}
