/* tests/llm/serve/native.c - what clients of llama.cpp's server call and read: /completion, names without /v1, counts
 * of tokens, times, an answer that continues the assistant's text
 *
 * Truth    the text and the tokens of /v1/completions and of /tokenize for the same request. */
#include "t.h"

static tllm_api *api;
#define KIT_STEP(until) tllm_api_step(api, until)
#include "kit.h"

static const char a_story[] = "examples/models/story-small.gguf";
static const char a_template[] = "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}({{ "
                                 "m.reasoning_content }}){% endif %}{{ m.content }}{% endfor %}"
                                 "{% if add_generation_prompt %}<assistant>{% endif %}";

static tiny_ctx *ctx;
static tllm_session *session;
static tllm_engine *engine;
static client line;

static int begin(void)
{
    tllm_engine_desc e;
    tllm_api_desc d;
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    e.exact = 1;
    e.context = 128;
    e.slots = 2;
    T_OK(tllm_session_open(ctx, a_story, NULL, &session));
    T_OK(tllm_engine_open(ctx, tllm_session_model(session), tllm_session_vocab(session), &e, &engine));
    d.server.address = "127.0.0.1:0";
    d.file = tllm_session_file(session);
    d.chat_template = a_template;
    T_OK(tllm_api_open(ctx, engine, &d, &api));
    return api != NULL;
}
static void end(void)
{
    kit_hang_up(&line);
    tllm_api_close(api);
    tllm_engine_close(engine);
    tllm_session_close(session);
    api = NULL;
    t_close(ctx);
}

static int ask(const char *method, const char *path, const char *body)
{
    static char request[30000];
    const int n = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %lu\r\n\r\n%s",
                           method, path, tllm_api_address(api), (unsigned long)strlen(body), body);
    if (line.end) kit_hang_up(&line);
    if (!line.got) kit_dial(&line, tllm_api_address(api));
    return kit_ask(&line, request, (size_t)n);
}
static int post(const char *path, const char *body) { return ask("POST", path, body); }

static void has(const char *part, int at)
{
    if (!strstr(kit_body, part)) t_fail(__FILE__, at, "\"%.900s\" is without \"%s\"", kit_body, part);
}
#define SAYS(part) has(part, __LINE__)

/* what stands between the quotes, or between the brackets, of a member; "" if there is none */
static const char *member(const char *from, const char *name, char open, char close, char to[2000])
{
    char mark[60];
    const char *at, *stop;
    (void)snprintf(mark, sizeof mark, "\"%s\":%c", name, open);
    at = from ? strstr(from, mark) : NULL;
    to[0] = 0;
    if (!at) return NULL;
    at += strlen(mark);
    for (stop = at; *stop && (*stop != close || stop[-1] == '\\'); stop++) {}
    (void)snprintf(to, 2000, "%.*s", (int)(stop - at < 1999 ? stop - at : 1999), at);
    return stop;
}
static double number(const char *from, const char *name)
{
    char mark[60];
    const char *at;
    (void)snprintf(mark, sizeof mark, "\"%s\":", name);
    at = from ? strstr(from, mark) : NULL;
    return at ? strtod(at + strlen(mark), NULL) : -1e30;
}

static void join(char to[2000], const char *between, const char *more)
{
    const size_t n = strlen(to), k = strlen(between), m = strlen(more);
    if (!T_TRUE(n + k + m < 2000)) return;
    memcpy(to + n, between, k);
    memcpy(to + n + k, more, m + 1);
}

static void test_native(void)
{
    char text[2000], one[2000], list[2000], tokens[2000], body[6000];
    const char *at;
    int events = 0, stops = 0;
    if (!begin()) return;
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"one day , Ella\",\"max_tokens\":9,\"temperature\":0}"), 200);
    (void)member(kit_body, "text", '"', '"', text);
    T_TRUE(text[0] != 0);
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day , Ella\",\"n_predict\":9,\"temperature\":0,"
                                 "\"return_tokens\":true,\"id_slot\":1}"), 200);
    (void)member(kit_body, "content", '"', '"', one);
    T_EQ_TEXT(one, text);
    SAYS("\"stop\":true,\"stop_type\":\"limit\",\"stopping_word\":\"\",\"truncated\":false,\"has_new_line\":false");
    SAYS("\"tokens_predicted\":9");
    SAYS("\"warnings\":[\"id_slot has no effect on this server\"]");
    T_EQ_INT(number(kit_body, "predicted_n"), 9);
    T_EQ_INT(number(kit_body, "prompt_n") + number(kit_body, "cache_n"), number(kit_body, "tokens_evaluated"));
    T_TRUE(number(kit_body, "prompt_ms") > 0 && number(kit_body, "predicted_ms") > 0);
    /* eight steps of the nine tokens lie in that time: the first one comes from the prompt */
    T_CLOSE(number(kit_body, "predicted_per_second") * number(kit_body, "predicted_ms"), 8000, 1);
    /* the tokens are those of the text */
    (void)member(kit_body, "tokens", '[', ']', tokens);
    (void)snprintf(body, sizeof body, "{\"tokens\":[%s]}", tokens);
    T_EQ_INT(post("/detokenize", body), 200);
    (void)member(kit_body, "content", '"', '"', one);
    T_EQ_TEXT(one + (one[0] == ' '), text + (text[0] == ' '));
    T_EQ_INT(post("/completions", "{\"prompt\":\"one day , Ella\",\"n_predict\":1,\"temperature\":0}"), 200);
    SAYS("\"tokens\":[],");
    T_EQ_INT(number(kit_body, "predicted_per_second"), 0);
    /* a stream: pieces of text and of the tokens, the last event says how it ended, and there is no [DONE] */
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day , Ella\",\"n_predict\":9,\"temperature\":0,\"stream\":true}"),
             200);
    for (at = kit_body, text[0] = list[0] = 0; (at = strstr(at, "data: ")) != NULL; at++, events++) {
        const char *stop = strstr(at, "\"stop\":");
        (void)member(at, "content", '"', '"', one);
        join(text, "", one);
        (void)member(at, "tokens", '[', ']', one);
        if (one[0]) join(list, list[0] ? "," : "", one);
        stops += stop && !strncmp(stop, "\"stop\":true", 11);
    }
    T_TRUE(events > 3);
    T_EQ_INT(stops, 1);
    T_EQ_TEXT(list, tokens);
    T_TRUE(!strstr(kit_body, "[DONE]"));
    SAYS("\"timings\":{");
    T_EQ_INT(post("/detokenize", body), 200);
    (void)member(kit_body, "content", '"', '"', one);
    T_EQ_TEXT(text + (text[0] == ' '), one + (one[0] == ' '));
    /* the word that stopped it, the end of the context, probabilities */
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day , Ella\",\"temperature\":0,\"stop\":[\" .\"]}"), 200);
    SAYS("\"stop_type\":\"word\",\"stopping_word\":\" .\"");
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day\",\"grammar\":\"root ::= [\\\\n] [a-z]\"}"), 200);
    SAYS("\"stop_type\":\"eos\",\"stopping_word\":\"\",\"truncated\":false,\"has_new_line\":true");
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day\",\"n_predict\":-1,\"ignore_eos\":true,\"seed\":1}"), 200);
    SAYS("\"stop_type\":\"limit\",\"stopping_word\":\"\",\"truncated\":true");
    /* the last token is not fed again, so it needs no place in the context of 128 */
    T_EQ_INT(number(kit_body, "tokens_evaluated") + number(kit_body, "tokens_predicted"), 129);
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day\",\"n_predict\":2,\"temperature\":0,\"n_probs\":3}"), 200);
    at = strstr(kit_body, "\"completion_probabilities\":[{\"token\":\"");
    if (T_TRUE(at != NULL)) {
        int id = -1, more = -1, n = 0;
        double logprob = 1, best = 1;
        at = strstr(at, "\",\"id\":");     /* as a whole: it must be JSON */
        T_EQ_INT(at ? sscanf(at, "\",\"id\":%d,\"logprob\":%lf,\"bytes\":[%d%n", &id, &logprob, &more, &n) : 0, 3);
        at = n ? strstr(at, "\"top_logprobs\":[{\"token\":\"") : NULL;
        at = at ? strstr(at, "\",\"id\":") : NULL;
        T_EQ_INT(at ? sscanf(at, "\",\"id\":%d,\"logprob\":%lf,", &more, &best) : 0, 2);
        T_EQ_INT(id, more);                 /* greedy */
        T_TRUE(logprob <= 0 && logprob == best);
    }
    SAYS("\"logprobs\":null");
    T_EQ_INT(post("/completion", "{\"prompt\":\"a\",\"n_probs\":3,\"logprobs\":2}"), 400);
    SAYS("both n_probs and logprobs");
    T_EQ_INT(post("/completion", "{\"prompt\":\"a\",\"post_sampling_probs\":true}"), 400);
    SAYS("post_sampling_probs is not a field that /completion knows");
    end();
}

/* lists of texts and tokens, biases of texts */
static void test_mixtures(void)
{
    char tokens[2000], text[2000], one[2000], body[6000];
    const char *at;
    if (!begin()) return;
    T_EQ_INT(post("/tokenize", "{\"content\":\"one day , Ella\",\"add_special\":true}"), 200);
    (void)member(kit_body, "tokens", '[', ']', tokens);
    (void)snprintf(body, sizeof body, "{\"prompt\":[[%s],\"one day , Ella\"],\"n_predict\":6,\"temperature\":0}",
                   tokens);
    T_EQ_INT(post("/completion", body), 200);
    T_TRUE(kit_body[0] == '[');
    at = member(kit_body, "content", '"', '"', text);
    (void)member(at, "content", '"', '"', one);
    T_TRUE(text[0] != 0);
    T_EQ_TEXT(one, text);
    SAYS("\"index\":1,\"content\"");
    (void)snprintf(body, sizeof body, "{\"prompt\":[%s,\" day\"],\"n_predict\":1}", tokens);
    T_EQ_INT(post("/completion", body), 200);
    at = strstr(kit_body, "\"tokens_evaluated\":");
    (void)snprintf(body, sizeof body, "{\"prompt\":[%s],\"n_predict\":1}", tokens);
    {
        const double more = number(at, "tokens_evaluated");
        T_EQ_INT(post("/completion", body), 200);
        T_EQ_INT(more, number(kit_body, "tokens_evaluated") + 1);
    }
    T_EQ_INT(post("/completion", "{\"prompt\":[1,\"a\",true]}"), 400);
    SAYS("item 2 of prompt is neither a token nor a text");
    T_EQ_INT(post("/completion", "{\"prompt\":{\"prompt_string\":\"one day , Ella\"},\"n_predict\":6,"
                                 "\"temperature\":0}"), 200);
    (void)member(kit_body, "content", '"', '"', one);
    T_EQ_TEXT(one, text);
    T_EQ_INT(post("/completion", "{\"prompt\":[{\"prompt_string\":\"a\",\"multimodal_data\":[]}]}"), 400);
    SAYS("prompt_string, and nothing else");
    T_EQ_INT(post("/completion", "{\"prompt\":[1,-7]}"), 400);
    SAYS("item 1 of prompt is neither");
    /* the greedy first token, and then never that one: by its text, by its number, by false */
    T_EQ_INT(post("/completion", "{\"prompt\":\"one day\",\"n_predict\":1,\"temperature\":0,\"return_tokens\":true}"),
             200);
    (void)member(kit_body, "tokens", '[', ']', tokens);
    (void)member(kit_body, "content", '"', '"', text);
    T_TRUE(tokens[0] != 0 && text[0] != 0);
    (void)snprintf(body, sizeof body, "{\"prompt\":\"one day\",\"n_predict\":1,\"temperature\":0,\"logit_bias\":"
                                      "[[\"%s\",-100]],\"return_tokens\":true}", text);
    T_EQ_INT(post("/completion", body), 200);
    (void)member(kit_body, "tokens", '[', ']', one);
    T_TRUE(one[0] && strcmp(one, tokens));
    (void)snprintf(body, sizeof body, "{\"prompt\":\"one day\",\"n_predict\":1,\"temperature\":0,\"logit_bias\":"
                                      "[[%s,false]],\"return_tokens\":true}", tokens);
    T_EQ_INT(post("/completion", body), 200);
    (void)member(kit_body, "tokens", '[', ']', text);
    T_EQ_TEXT(text, one);
    T_EQ_INT(post("/completion", "{\"prompt\":\"a\",\"logit_bias\":[[\"\",1]]}"), 400);
    T_EQ_INT(post("/completion", "{\"prompt\":\"a\",\"logit_bias\":[[1,true]]}"), 400);
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":[[\"b\",1]]}"), 400);
    T_EQ_INT(post("/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"1\":false}}"), 400);
    end();
}

/* the last message of the assistant is the beginning of the answer */
static void test_continued(void)
{
#define TALK "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b c\"}]"
    if (!begin()) return;
    T_EQ_INT(post("/apply-template", "{" TALK "}"), 200);
    SAYS("{\"prompt\":\"<user>a<assistant>b c\"}");
    T_EQ_INT(post("/apply-template", "{" TALK ",\"add_generation_prompt\":false,\"continue_final_message\":true}"),
             200);
    SAYS("{\"prompt\":\"<user>a<assistant>b c\"}");
    T_EQ_INT(post("/apply-template", "{" TALK ",\"add_generation_prompt\":true}"), 200);
    SAYS("{\"prompt\":\"<user>a<assistant>b c<assistant>\"}");
    T_EQ_INT(post("/apply-template", "{" TALK ",\"add_generation_prompt\":false}"), 200);
    SAYS("{\"prompt\":\"<user>a<assistant>b c\"}");
    T_EQ_INT(post("/apply-template", "{" TALK ",\"continue_final_message\":false}"), 200);
    SAYS("{\"prompt\":\"<user>a<assistant>b c<assistant>\"}");
    T_EQ_INT(post("/apply-template", "{" TALK ",\"add_generation_prompt\":true,\"continue_final_message\":true}"),
             400);
    SAYS("exclude each other");
    T_EQ_INT(post("/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                     "\"continue_final_message\":true}"), 400);
    SAYS("not a text of the assistant");
    /* thoughts of earlier answers: the template gets them */
    T_EQ_INT(post("/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
                                               "\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},"
                                               "{\"role\":\"user\",\"content\":\"a\"}]}"), 200);
    {
        const double without = number(kit_body, "input_tokens");
        T_EQ_INT(post("/v1/messages/count_tokens",
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
                      "[{\"type\":\"thinking\",\"thinking\":\"b\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":"
                      "\"user\",\"content\":\"a\"}]}"), 200);
        T_TRUE(number(kit_body, "input_tokens") > without);
    }
    T_EQ_INT(post("/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
                                               "\"thinking\",\"thinking\":7}]}]}"), 400);
    SAYS("thinking has no text");
    end();
}

/* names without /v1, counts, what the server says about itself */
static void test_names(void)
{
    static const char talk[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a b\"}],\"max_tokens\":2}";
    double tokens;
    if (!begin()) return;
    T_EQ_INT(post("/chat/completions", talk), 200);
    SAYS("\"object\":\"chat.completion\"");
    SAYS("\"system_fingerprint\":\"b");
    tokens = number(kit_body, "prompt_tokens");
    T_EQ_INT(post("/chat/completions/input_tokens", talk), 200);
    T_EQ_INT(number(kit_body, "input_tokens"), tokens);
    T_EQ_INT(post("/v1/responses/input_tokens", "{\"input\":\"a b\"}"), 200);
    SAYS("{\"object\":\"response.input_tokens\",\"input_tokens\":");
    T_EQ_INT(number(kit_body, "input_tokens"), tokens);
    T_EQ_INT(post("/responses", "{\"input\":\"a b\",\"max_output_tokens\":1}"), 200);
    SAYS("\"object\":\"response\"");
    T_EQ_INT(post("/reranking", "{\"query\":\"a\",\"documents\":[\"b\"]}"), 400);
    SAYS("no model that compares texts");
    T_EQ_INT(ask("GET", "/models", ""), 200);
    SAYS("\"object\":\"list\"");
    T_EQ_INT(ask("GET", "/props", ""), 200);
    SAYS("\"default_generation_settings\":{\"n_ctx\":128,\"params\":{\"temperature\":1.0");
    T_EQ_INT(ask("GET", "/slots", ""), 200);
    SAYS("\"n_ctx\":128");
    T_EQ_INT(ask("GET", "/metrics", ""), 200);
    T_TRUE(strstr(line.got, "Process-Start-Time-Unix: ") != NULL);
    SAYS("\n# TYPE tinyllm_prompt_tokens_seconds gauge\n");
    SAYS("\n# TYPE tinyllm_predicted_tokens_seconds gauge\n");
    {
        const char *seconds = strstr(kit_body, "\ntinyllm_prompt_seconds_total "),
                   *longest = strstr(kit_body, "\ntinyllm_n_tokens_max ");
        T_TRUE(seconds && strtod(seconds + 30, NULL) > 0);
        T_EQ_INT(longest ? strtod(longest + 22, NULL) : -1, tokens + 2);
    }
    /* a field without effect is named in every answer */
    T_EQ_INT(post("/tokenize", "{\"content\":\"a\",\"user\":\"me\"}"), 200);
    SAYS("],\"warnings\":[\"user has no effect on this server\"]}");
    T_EQ_INT(post("/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"store\":true}"), 200);
    SAYS("\",\"warnings\":[\"store has no effect on this server\"]}");
    T_EQ_INT(post("/v1/messages/count_tokens",
                  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\","
                  "\"is_error\":true,\"content\":\"a\"}]}]}"), 200);
    SAYS(",\"warnings\":[\"is_error: the template gets the text of a tool_result only\"]}");
    /* so are members inside, each once */
    T_EQ_INT(post("/v1/messages/count_tokens",
                  "{\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{}}],"
                  "\"tools\":[{\"name\":\"f\",\"input_schema\":{},\"cache_control\":{\"type\":\"ephemeral\"},"
                  "\"other\":null,\"kind\":1}],\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                  "\"text\":\"a\",\"citations\":1}]}]}"), 200);
    SAYS(",\"warnings\":[\"cache_control of ");
    SAYS("\"kind of a tool has no effect on this server\"");
    SAYS("\"citations of a text has no effect on this server\"");
    T_TRUE(!strstr(strstr(kit_body, "cache_control") + 1, "cache_control") && !strstr(kit_body, "other"));
    T_EQ_INT(post("/v1/chat/completions",
                  "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                  "\"text\":\"a\",\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,"
                  "\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1}]}],"
                  "\"response_format\":{\"type\":\"text\",\"more\":1}}"), 200);
    SAYS("\"more of response_format has no effect on this server\"");
    SAYS("\"o of a part of a message has no effect on this server\",\"and other members that have no effect on this "
         "server\"]}");
    /* seed -1: any seed, and the answer names it */
    T_EQ_INT(post("/completion", "{\"prompt\":\"a\",\"n_predict\":1,\"seed\":-1}"), 200);
    T_TRUE(number(kit_body, "seed") >= 0);
    /* the first event of a chat has the role alone */
    T_EQ_INT(post("/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a b\"}],\"max_tokens\":2,"
                                       "\"stream\":true,\"timings_per_token\":true}"), 200);
    {
        const char *first = strstr(kit_body, "\"delta\":{\"role\":\"assistant\",\"content\":null},\"logprobs\":null,"
                                             "\"finish_reason\":null}]}\n\n");
        T_TRUE(first && first == strstr(kit_body, "\"delta\":"));
        T_TRUE(first && !strstr(first + 10, "\"role\":"));
    }
    SAYS("timings_per_token has no effect");
    end();
}

int main(void)
{
    T_RUN(test_native);
    T_RUN(test_mixtures);
    T_RUN(test_continued);
    T_RUN(test_names);
    return t_done();
}
