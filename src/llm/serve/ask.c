/* src/llm/serve/ask.c - reads what a client asks for: the fields of a JSON object, each with its type and range, and
 * from them a prompt and a request for the engine
 *
 * The first fault refuses the request with its field. Fields are looked up in one table, so that none is unknown to the
 * check of unknown fields. Fields that change nothing here are accepted with a warning, and so are null values. */
#include "llm/serve/api_inside.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TINYI_ASK_HELD ((size_t)256 << 20)  /* memory for the values of a body */
#define TINYI_ASK_TOP 20                    /* alternatives of a token */
#define TINYI_ASK_STOPS 16
#define TINYI_ASK_BIAS 4096

int tinyi_ask_fail(tinyi_ask *a, int status, const char *param, const char *code, const char *format, ...)
{
    va_list args;
    if (a->status) return 0;
    a->status = status;
    a->code = code;
    (void)snprintf(a->param, sizeof a->param, "%s", param ? param : "");
    va_start(args, format);
    (void)vsnprintf(a->says, sizeof a->says, format, args);
    va_end(args);
    return 0;
}

int tinyi_ask_status(tinyi_ask *a, tiny_status st, const char *param)
{
    const char *says = tiny_ctx_message(a->api->ctx);
    return tinyi_ask_fail(a,
                          st == TINY_E_MEMORY                       ? 503
                          : st == TINY_E_IO || st == TINY_E_NUMERIC ? 500
                                                                    : 400,
                          param, st == TINY_E_MEMORY ? "no_memory" : "invalid_value", "%s",
                          *says ? says : tiny_status_text(st));
}

/* the sentence that the document left */
int tinyi_ask_doc(tinyi_ask *a) { return a->m.status ? tinyi_ask_status(a, a->m.status, NULL) : 1; }

void tinyi_ask_warn(tinyi_ask *a, const char *format, ...)
{
    char text[300];
    tllm_api *api = a->api;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tinyi_api_start(api);
    if (a->warnings.n) tinyi_api_put(api, ",");
    tinyi_api_quote(api, text, strlen(text));
    if (api->w.status || !tinyi_api_append(api, &a->warnings, api->w.out, api->w.n_out))
        (void)tinyi_ask_status(a, TINY_E_MEMORY, NULL);
}

void tinyi_ask_end(tinyi_ask *a)
{
    tinyi_doc_end(&a->m);
    tllm_bytes_free(a->api->ctx, &a->warnings);
}

/* ---- fields ---- */

#define TINYI_AT_MADE (TINYI_AT_CHAT | TINYI_AT_TEXT | TINYI_AT_INFILL)
#define TINYI_AT_OTHER (TINYI_AT_RESPONSES | TINYI_AT_MESSAGES | TINYI_AT_COUNT)
#define TINYI_AT_ANY 2047u

static const struct {
    const char *name;
    unsigned where;
    int idle;
} tinyi_ask_fields[] = {
    { "model", TINYI_AT_ANY, 0 },
    { "messages", TINYI_AT_CHAT | TINYI_AT_TEMPLATE | TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "prompt", TINYI_AT_TEXT | TINYI_AT_INFILL, 0 },
    { "input_prefix", TINYI_AT_INFILL, 0 },
    { "input_suffix", TINYI_AT_INFILL, 0 },
    { "input_extra", TINYI_AT_INFILL, 0 },
    { "n_predict", TINYI_AT_INFILL, 0 },
    { "query", TINYI_AT_RANK, 0 },
    { "documents", TINYI_AT_RANK, 0 },
    { "top_n", TINYI_AT_RANK, 0 },
    { "return_documents", TINYI_AT_RANK, 0 },
    { "input", TINYI_AT_EMBED | TINYI_AT_RESPONSES, 0 },
    { "content", TINYI_AT_TOKENS, 0 },
    { "tokens", TINYI_AT_WORDS, 0 },
    { "add_special", TINYI_AT_TOKENS, 0 },
    { "parse_special", TINYI_AT_TOKENS, 0 },
    { "with_pieces", TINYI_AT_TOKENS, 0 },
    { "encoding_format", TINYI_AT_EMBED, 0 },
    { "dimensions", TINYI_AT_EMBED, 0 },
    { "add_generation_prompt", TINYI_AT_CHAT | TINYI_AT_TEMPLATE, 0 },
    { "chat_template_kwargs", TINYI_AT_CHAT | TINYI_AT_TEMPLATE, 0 },
    { "tools", TINYI_AT_CHAT | TINYI_AT_TEMPLATE | TINYI_AT_OTHER, 0 },
    { "tool_choice", TINYI_AT_CHAT | TINYI_AT_TEMPLATE | TINYI_AT_OTHER, 0 },
    { "parallel_tool_calls", TINYI_AT_CHAT | TINYI_AT_TEMPLATE | TINYI_AT_RESPONSES, 0 },
    { "response_format", TINYI_AT_MADE, 0 },
    { "json_schema", TINYI_AT_MADE, 0 },
    { "grammar", TINYI_AT_MADE, 0 },
    { "stream", TINYI_AT_MADE | TINYI_AT_OTHER, 0 },
    { "stream_options", TINYI_AT_MADE, 0 },
    { "max_tokens", TINYI_AT_MADE | TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "max_completion_tokens", TINYI_AT_CHAT, 0 },
    { "n", TINYI_AT_MADE, 0 },
    { "best_of", TINYI_AT_TEXT, 0 },
    { "echo", TINYI_AT_TEXT, 0 },
    { "suffix", TINYI_AT_TEXT, 0 },
    { "stop", TINYI_AT_MADE, 0 },
    { "seed", TINYI_AT_MADE | TINYI_AT_OTHER, 0 },
    { "logprobs", TINYI_AT_MADE, 0 },
    { "top_logprobs", TINYI_AT_CHAT, 0 },
    { "logit_bias", TINYI_AT_MADE, 0 },
    { "temperature", TINYI_AT_MADE | TINYI_AT_OTHER, 0 },
    { "top_p", TINYI_AT_MADE | TINYI_AT_OTHER, 0 },
    { "top_k", TINYI_AT_MADE | TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "min_p", TINYI_AT_MADE, 0 },
    { "typical_p", TINYI_AT_MADE, 0 },
    { "top_n_sigma", TINYI_AT_MADE, 0 },
    { "xtc_probability", TINYI_AT_MADE, 0 },
    { "xtc_threshold", TINYI_AT_MADE, 0 },
    { "presence_penalty", TINYI_AT_MADE, 0 },
    { "frequency_penalty", TINYI_AT_MADE, 0 },
    { "repeat_penalty", TINYI_AT_MADE, 0 },
    { "repeat_last_n", TINYI_AT_MADE, 0 },
    { "ignore_eos", TINYI_AT_MADE, 0 },
    { "priority", TINYI_AT_MADE, 0 },
    { "system", TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "stop_sequences", TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "thinking", TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "instructions", TINYI_AT_RESPONSES, 0 },
    { "max_output_tokens", TINYI_AT_RESPONSES, 0 },
    { "text", TINYI_AT_RESPONSES, 0 },
    { "previous_response_id", TINYI_AT_RESPONSES, 0 },
    { "background", TINYI_AT_RESPONSES, 0 },
    { "truncation", TINYI_AT_RESPONSES, 0 },
    { "include", TINYI_AT_RESPONSES, 1 },
    { "reasoning", TINYI_AT_RESPONSES, 1 },
    { "user", TINYI_AT_ANY, 1 },
    { "metadata", TINYI_AT_ANY, 1 },
    { "store", TINYI_AT_ANY, 1 },
    { "service_tier", TINYI_AT_ANY, 1 },
    { "safety_identifier", TINYI_AT_ANY, 1 },
    { "prompt_cache_key", TINYI_AT_ANY, 1 },
    { "cache_prompt", TINYI_AT_MADE, 1 },
};

int tinyi_ask_read(tinyi_ask *a, const char *body, size_t n)
{
    size_t i, k;
    a->m.ctx = a->api->ctx;
    a->m.what = "request";
    a->m.max_steps = UINT64_C(1) << 30;
    a->m.max_held = a->m.max_out = TINYI_ASK_HELD;
    a->style = a->where & TINYI_AT_RESPONSES ? TINYI_STYLE_RESPONSES
               : a->where & TINYI_AT_OTHER   ? TINYI_STYLE_MESSAGES
                                             : 0;
    if (!n) return tinyi_ask_fail(a, 400, NULL, "invalid_json", "the request has no body: a JSON object is needed");
    if (!tinyi_tv_read_json(&a->m, "the body", body, n, &a->root))
        return tinyi_ask_fail(a, a->m.status == TINY_E_MEMORY ? 503 : 400, NULL, "invalid_json", "%s",
                              tiny_ctx_message(a->api->ctx));
    if (a->root.type != TINYI_DOC_MAP)
        return tinyi_ask_fail(a, 400, NULL, "invalid_json", "the body is not a JSON object");
    for (i = 0; i < a->root.u.map->n; i++) {
        const tinyi_tpair *p = &a->root.u.map->pair[i];
        char shown[80];
        tinyi_doc_show(p->key.u.s, p->key.n, shown);
        for (k = 0; k < TINYI_COUNT(tinyi_ask_fields); k++)
            if ((tinyi_ask_fields[k].where & a->where) && tinyi_tv_is(&p->key, tinyi_ask_fields[k].name)) break;
        if (k == TINYI_COUNT(tinyi_ask_fields)) {
            if (p->value.type == TINYI_DOC_NONE || a->api->lenient)
                tinyi_ask_warn(a, "%s is not known to this server and has no effect", shown);
            else
                return tinyi_ask_fail(a, 400, shown, "unknown_field", "%s is not a field that %s knows", shown,
                                      a->path);
        } else if (tinyi_ask_fields[k].idle && p->value.type != TINYI_DOC_NONE)
            tinyi_ask_warn(a, "%s has no effect on this server", shown);
    }
    {
        const tinyi_tv *model = tinyi_ask_get(a, "model");
        if (model && model->type != TINYI_DOC_STRING)
            return tinyi_ask_fail(a, 400, "model", "invalid_type", "model is not a text");
        if (model && model->n && !tinyi_tv_is(model, a->api->name))
            tinyi_ask_warn(a, "model: this server has one model, %.100s, and uses it", a->api->name);
    }
    if (a->status || !tinyi_ask_doc(a)) return 0;
    return !a->style || tinyi_style_read(a);
}

const tinyi_tv *tinyi_ask_member(tinyi_ask *a, const tinyi_tv *map, const char *name)
{
    const tinyi_tv *v = map->type == TINYI_DOC_MAP ? tinyi_map_find_text(&a->m, map->u.map, name, strlen(name)) : NULL;
    return v && v->type != TINYI_DOC_NONE ? v : NULL;
}
const tinyi_tv *tinyi_ask_get(tinyi_ask *a, const char *name) { return tinyi_ask_member(a, &a->root, name); }

double tinyi_ask_number(tinyi_ask *a, const char *name, double least, double most, double otherwise)
{
    const tinyi_tv *v = tinyi_ask_get(a, name);
    double f;
    if (!v) return otherwise;
    f = v->type == TINYI_DOC_INT ? (double)v->u.i : v->u.f;
    if ((v->type != TINYI_DOC_INT && v->type != TINYI_DOC_FLOAT) || !(f >= least && f <= most)) {
        (void)tinyi_ask_fail(a, 400, name, "invalid_value", "%s must be a number from %g to %g", name, least, most);
        return otherwise;
    }
    return f;
}

int64_t tinyi_ask_whole(tinyi_ask *a, const char *name, int64_t least, int64_t most, int64_t otherwise)
{
    const tinyi_tv *v = tinyi_ask_get(a, name);
    if (!v) return otherwise;
    if (v->type != TINYI_DOC_INT || v->u.i < least || v->u.i > most) {
        (void)tinyi_ask_fail(a, 400, name, "invalid_value", "%s must be a whole number from %lld to %lld", name,
                             (long long)least, (long long)most);
        return otherwise;
    }
    return v->u.i;
}

int tinyi_ask_flag(tinyi_ask *a, const char *name, int otherwise)
{
    const tinyi_tv *v = tinyi_ask_get(a, name);
    if (!v) return otherwise;
    if (v->type != TINYI_DOC_BOOL)
        return tinyi_ask_fail(a, 400, name, "invalid_type", "%s must be true or false", name);
    return v->u.i != 0;
}

/* ---- prompts ---- */

int tinyi_ask_encode(tinyi_ask *a, const char *text, size_t n, int chat, tllm_tokens *t)
{
    const tllm_api *api = a->api;
    const size_t n_bos = api->bos ? strlen(api->bos) : 0, before = t->n;
    /* most templates write BOS themselves */
    const int begins = chat && n_bos && n >= n_bos && !memcmp(text, api->bos, n_bos);
    const tiny_status st =
        tllm_encode(api->ctx, api->vocab, text, n, TLLM_ENCODE_SPECIAL | (begins ? 0 : TLLM_ENCODE_ENDS), t);
    if (st) return tinyi_ask_status(a, st, chat ? "messages" : "prompt");
    if (!begins && tllm_vocab_adds_eos(api->vocab) && t->n > before + 1) t->n--; /* the answer comes after it */
    return 1;
}

int tinyi_ask_tokens(tinyi_ask *a, const tinyi_tv *list, const char *param, tllm_tokens *t)
{
    const int64_t n_vocab = (int64_t)tllm_vocab_size(a->api->vocab);
    size_t i;
    if (list->type != TINYI_DOC_LIST)
        return tinyi_ask_fail(a, 400, param, "invalid_type", "%s must be a list of tokens", param);
    t->id = (int32_t *)tinyi_alloc(a->api->ctx, list->u.list->n, sizeof *t->id);
    if (!t->id) return tinyi_ask_status(a, tiny_ctx_status(a->api->ctx), param);
    t->room = list->u.list->n;
    for (i = 0; i < list->u.list->n; i++) {
        const tinyi_tv *v = &list->u.list->item[i];
        if (v->type != TINYI_DOC_INT || v->u.i < 0 || v->u.i >= n_vocab)
            return tinyi_ask_fail(a, 400, param, "invalid_value",
                                  "item %zu of %s is not a token: a number from 0 to %lld", i, param,
                                  (long long)n_vocab - 1);
        t->id[t->n++] = (int32_t)v->u.i;
    }
    return 1;
}

/* A value as JSON, in the memory of the document. */
static tinyi_tv tinyi_ask_json(tinyi_ask *a, const tinyi_tv *v)
{
    const tinyi_doc_form form = tinyi_api_form();
    const size_t start = a->m.n_out;
    (void)tinyi_tv_put_json(&a->m, v, &form);
    return tinyi_doc_take(&a->m, start);
}

/* The text of a list of parts. */
static int tinyi_ask_parts(tinyi_ask *a, tinyi_tv *content)
{
    const size_t start = a->m.n_out;
    size_t i;
    for (i = 0; i < content->u.list->n; i++) {
        const tinyi_tv *part = &content->u.list->item[i], *text = tinyi_ask_member(a, part, "text"),
                       *type = tinyi_ask_member(a, part, "type");
        char shown[80];
        if (!type || type->type != TINYI_DOC_STRING)
            return tinyi_ask_fail(a, 400, "messages", "invalid_value", "a part of a message has no type");
        if ((!tinyi_tv_is(type, "text") && !tinyi_tv_is(type, "input_text")) || !text ||
            text->type != TINYI_DOC_STRING) {
            tinyi_doc_show(type->u.s, type->n, shown);
            return tinyi_ask_fail(a, 400, "messages", "unsupported_content",
                                  "a part of a message is %s; this server reads parts of type text, with their text",
                                  shown);
        }
        (void)tinyi_doc_put(&a->m, text->u.s, text->n);
    }
    *content = tinyi_doc_take(&a->m, start);
    return tinyi_ask_doc(a);
}

/* Checks the messages and brings them into the form that templates expect. */
static int tinyi_ask_messages(tinyi_ask *a, const tinyi_tv *messages)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool", "developer" };
    size_t i, k;
    if (!messages || messages->type != TINYI_DOC_LIST || !messages->u.list->n)
        return tinyi_ask_fail(a, 400, "messages", "invalid_value", "messages must be a list of at least one message");
    for (i = 0; i < messages->u.list->n; i++) {
        tinyi_tv *m = &messages->u.list->item[i], *content, *role, *calls;
        if (m->type != TINYI_DOC_MAP)
            return tinyi_ask_fail(a, 400, "messages", "invalid_type", "message %zu is not an object", i);
        role = tinyi_map_find_text(&a->m, m->u.map, "role", 4);
        content = tinyi_map_find_text(&a->m, m->u.map, "content", 7);
        calls = tinyi_map_find_text(&a->m, m->u.map, "tool_calls", 10);
        for (k = 0; role && k < TINYI_COUNT(roles) && !tinyi_tv_is(role, roles[k]); k++) {}
        if (!role || k == TINYI_COUNT(roles))
            return tinyi_ask_fail(a, 400, "messages", "invalid_value",
                                  "message %zu has no role: system, user, assistant, tool or developer", i);
        if (k == 4) *role = tinyi_tv_view("system", 6);
        if (content && content->type == TINYI_DOC_LIST && !tinyi_ask_parts(a, content)) return 0;
        if (content && content->type != TINYI_DOC_STRING && content->type != TINYI_DOC_NONE)
            return tinyi_ask_fail(a, 400, "messages", "invalid_type", "the content of message %zu is not a text", i);
        if ((!content || content->type == TINYI_DOC_NONE) && !(calls && calls->type == TINYI_DOC_LIST && k == 2))
            return tinyi_ask_fail(a, 400, "messages", "invalid_value", "message %zu has no content", i);
        if (!content) (void)tinyi_map_set(&a->m, m->u.map, tinyi_tv_view("content", 7), tinyi_tv_view("", 0));
        for (k = 0; calls && calls->type == TINYI_DOC_LIST && k < calls->u.list->n; k++) {
            const tinyi_tv *f = tinyi_ask_member(a, &calls->u.list->item[k], "function");
            tinyi_tv *args =
                f && f->type == TINYI_DOC_MAP ? tinyi_map_find_text(&a->m, f->u.map, "arguments", 9) : NULL;
            tinyi_tv read;
            if (!f || !args || !tinyi_ask_member(a, f, "name"))
                return tinyi_ask_fail(a, 400, "messages", "invalid_value",
                                      "call %zu of message %zu has no function with a name and arguments", k, i);
            /* clients send a text of JSON, and templates want the object */
            if (args->type != TINYI_DOC_STRING || !args->n) continue;
            if (!tinyi_tv_read_json(&a->m, "arguments", args->u.s, args->n, &read)) return tinyi_ask_doc(a);
            *args = read;
        }
    }
    return tinyi_ask_doc(a);
}

/* The tools, for a model whose template does not write them: a system message before the others. */
static void tinyi_ask_describe_tools(tinyi_ask *a, tinyi_tlist *messages, const tinyi_tv *tools)
{
    static const char
        before[] = "You can call these functions:\n",
        after[] =
            "\nTo call one, write <tool_call>{\"name\": NAME, \"arguments\": {...}}</tool_call> and nothing else.\n";
    const tinyi_tv json = tinyi_ask_json(a, tools);
    tinyi_tv *first = messages->item, one, text;
    const size_t start = a->m.n_out;
    const tinyi_tv *role = tinyi_ask_member(a, first, "role"), *was = tinyi_ask_member(a, first, "content");
    const int joined = role && tinyi_tv_is(role, "system");
    if (joined && was) {
        (void)tinyi_doc_put(&a->m, was->u.s, was->n);
        (void)tinyi_doc_put(&a->m, "\n\n", 2);
    }
    (void)tinyi_doc_put(&a->m, before, sizeof before - 1);
    (void)tinyi_doc_put(&a->m, json.u.s, json.n);
    (void)tinyi_doc_put(&a->m, after, sizeof after - 1);
    text = tinyi_doc_take(&a->m, start);
    if (a->m.status) return;
    if (joined) {
        (void)tinyi_map_set(&a->m, first->u.map, tinyi_tv_view("content", 7), text);
        return;
    }
    one = tinyi_tv_map(&a->m);
    if (a->m.status) return;
    (void)tinyi_map_set(&a->m, one.u.map, tinyi_tv_view("role", 4), tinyi_tv_view("system", 6));
    (void)tinyi_map_set(&a->m, one.u.map, tinyi_tv_view("content", 7), text);
    if (!tinyi_list_add(&a->m, messages, one)) return;
    memmove(messages->item + 1, messages->item, (messages->n - 1) * sizeof one);
    messages->item[0] = one;
}

/* The tools that the model may use; NULL: none. *forced: it must use one; *only: that one. */
static const tinyi_tv *tinyi_ask_tools(tinyi_ask *a, int *forced, const tinyi_tv **only)
{
    const tinyi_tv *tools = tinyi_ask_get(a, "tools"), *choice = tinyi_ask_get(a, "tool_choice");
    size_t i;
    *forced = 0;
    *only = NULL;
    if (tools && (tools->type != TINYI_DOC_LIST || tools->u.list->n > 128)) {
        (void)tinyi_ask_fail(a, 400, "tools", "invalid_type", "tools must be a list of at most 128 functions");
        return NULL;
    }
    if (tools && !tools->u.list->n) tools = NULL;
    for (i = 0; tools && i < tools->u.list->n; i++) {
        const tinyi_tv *t = &tools->u.list->item[i], *type = tinyi_ask_member(a, t, "type"),
                       *f = tinyi_ask_member(a, t, "function"), *name = f ? tinyi_ask_member(a, f, "name") : NULL;
        if (!type || !tinyi_tv_is(type, "function") || !name || name->type != TINYI_DOC_STRING || !name->n ||
            memchr(name->u.s, 0, name->n)) {
            (void)tinyi_ask_fail(a, 400, "tools", "invalid_value", "tool %zu is not a function with a name", i);
            return NULL;
        }
    }
    if (!choice) return tools;
    if (tinyi_tv_is(choice, "none")) return NULL;
    if (!tools) {
        (void)tinyi_ask_fail(a, 400, "tool_choice", "invalid_value", "tool_choice without tools");
        return NULL;
    }
    if (tinyi_tv_is(choice, "auto")) return tools;
    *forced = 1;
    if (tinyi_tv_is(choice, "required")) return tools;
    if (choice->type == TINYI_DOC_MAP) {
        const tinyi_tv *f = tinyi_ask_member(a, choice, "function"), *name = f ? tinyi_ask_member(a, f, "name") : NULL;
        for (i = 0; name && i < tools->u.list->n; i++) {
            const tinyi_tv *t = tinyi_ask_member(a, &tools->u.list->item[i], "function");
            if (tinyi_tv_equal(&a->m, tinyi_ask_member(a, t, "name"), name)) *only = &tools->u.list->item[i];
        }
        if (*only) return tools;
    }
    (void)tinyi_ask_fail(a, 400, "tool_choice", "invalid_value",
                         "tool_choice must be none, auto, required, or a function of tools");
    return NULL;
}

/* A text with a final 0, in the memory of the document. */
static const char *tinyi_ask_text(tinyi_ask *a, const tinyi_tv *v, const char *param)
{
    char *s;
    if (v->type != TINYI_DOC_STRING || memchr(v->u.s, 0, v->n)) {
        (void)tinyi_ask_fail(a, 400, param, "invalid_type", "%s must be a text without a 0 byte", param);
        return "";
    }
    s = (char *)tinyi_doc_alloc(&a->m, v->n + 1, 1);
    if (!s) return "";
    memcpy(s, v->u.s, v->n);
    s[v->n] = 0;
    return s;
}

/* For forms without the language of templates: roles and texts only. */
static int tinyi_ask_plain(tinyi_ask *a, const tinyi_tlist *messages, tllm_template_values *v)
{
    tllm_chat_message *m = (tllm_chat_message *)tinyi_doc_alloc(&a->m, messages->n, sizeof *m);
    size_t i;
    for (i = 0; m && i < messages->n; i++) {
        const tinyi_tv *role = tinyi_ask_member(a, &messages->item[i], "role"),
                       *content = tinyi_ask_member(a, &messages->item[i], "content");
        m[i].role = role ? tinyi_ask_text(a, role, "messages") : "";
        m[i].content = content && content->n ? content->u.s : "";
        m[i].content_bytes = content ? content->n : 0;
    }
    v->message = m;
    v->n_messages = messages->n;
    return !a->status && tinyi_ask_doc(a);
}

int tinyi_ask_prompt(tinyi_ask *a, char **text, size_t *n)
{
    tllm_api *api = a->api;
    const tinyi_tv *messages = tinyi_ask_get(a, "messages"), *more = tinyi_ask_get(a, "chat_template_kwargs"), *only;
    const tinyi_tv *tools;
    tllm_template_values v;
    tinyi_tv json;
    tiny_status st;
    int forced;
    *text = NULL;
    *n = 0;
    if (!tinyi_ask_messages(a, messages)) return 0;
    tools = tinyi_ask_tools(a, &forced, &only);
    if (a->status) return 0;
    if (!api->chat)
        return tinyi_ask_fail(a, 400, "messages", "no_chat_template",
                              "the model has no chat template: use /v1/completions, or start the server with one");
    memset(&v, 0, sizeof v);
    if (tools && !api->tools_in_template) tinyi_ask_describe_tools(a, messages->u.list, tools);
    if (TINYI_HAS(TEMPLATES)) {
        json = tinyi_ask_json(a, messages);
        v.messages_json = json.u.s;
        v.messages_json_bytes = json.n;
    } else if (!tinyi_ask_plain(a, messages->u.list, &v)) return 0;
    if (tools && api->tools_in_template) {
        json = tinyi_ask_json(a, tools);
        v.tools_json = json.u.s;
        v.tools_json_bytes = json.n;
    }
    if (more && more->type != TINYI_DOC_MAP)
        return tinyi_ask_fail(a, 400, "chat_template_kwargs", "invalid_type", "chat_template_kwargs must be an object");
    if (more && more->u.map->n) {
        json = tinyi_ask_json(a, more);
        v.more_json = json.u.s;
        v.more_json_bytes = json.n;
    }
    if (!tinyi_ask_doc(a)) return 0;
    v.add_generation_prompt = tinyi_ask_flag(a, "add_generation_prompt", 1);
    v.bos_token = api->bos ? api->bos : "";
    v.eos_token = api->eos ? api->eos : "";
    if (a->status) return 0;
    st = tllm_template_run(api->ctx, api->chat, &v, text, n);
    return st ? tinyi_ask_status(a, st, "messages") : 1;
}

/* ---- how the answer is made ---- */

typedef struct tinyi_ask_how {
    tllm_request r;
    tllm_step chain[10];
    const char *stop[TINYI_ASK_STOPS];
    tllm_bias *bias;
    tllm_tool_form form;
    const tinyi_tv *tools;
} tinyi_ask_how;

static void tinyi_ask_chain(tinyi_ask *a, tinyi_ask_how *h)
{
    const double temperature = tinyi_ask_number(a, "temperature", 0, 100, 1),
                 top_p = tinyi_ask_number(a, "top_p", 0, 1, 1), min_p = tinyi_ask_number(a, "min_p", 0, 1, 0),
                 typical = tinyi_ask_number(a, "typical_p", 0, 1, 1),
                 sigma = tinyi_ask_number(a, "top_n_sigma", -1, 1000, 0),
                 chance = tinyi_ask_number(a, "xtc_probability", 0, 1, 0),
                 threshold = tinyi_ask_number(a, "xtc_threshold", 0, 1, 0.1),
                 presence = tinyi_ask_number(a, "presence_penalty", -100, 100, 0),
                 frequency = tinyi_ask_number(a, "frequency_penalty", -100, 100, 0),
                 repeat = tinyi_ask_number(a, "repeat_penalty", 0.001, 1000, 1);
    const int64_t top_k = tinyi_ask_whole(a, "top_k", -1, INT32_MAX, 0),
                  last = tinyi_ask_whole(a, "repeat_last_n", -1, INT32_MAX, 64);
    tllm_step *to = h->chain;
    if (presence != 0 || frequency != 0 || repeat != 1)
        *to++ = tllm_step_penalties((int32_t)last, (float)repeat, (float)frequency, (float)presence);
    if (temperature > 0) {
        if (sigma > 0) *to++ = tllm_step_top_n_sigma((float)sigma);
        if (top_k > 0) *to++ = tllm_step_top_k((int32_t)top_k);
        if (typical < 1) *to++ = tllm_step_typical((float)typical);
        if (top_p < 1) *to++ = tllm_step_top_p((float)top_p);
        if (min_p > 0) *to++ = tllm_step_min_p((float)min_p);
        if (chance > 0) *to++ = tllm_step_xtc((float)chance, (float)threshold);
        if (temperature != 1) *to++ = tllm_step_temperature((float)temperature);
    } else *to++ = tllm_step_greedy();
    h->r.chain = h->chain;
    h->r.n_steps = (size_t)(to - h->chain);
}

static void tinyi_ask_bias(tinyi_ask *a, tinyi_ask_how *h)
{
    const tinyi_tv *v = tinyi_ask_get(a, "logit_bias");
    const size_t n = !v ? 0 : v->type == TINYI_DOC_MAP ? v->u.map->n : v->type == TINYI_DOC_LIST ? v->u.list->n : 0;
    size_t i, k;
    if (!v) return;
    if ((v->type != TINYI_DOC_MAP && v->type != TINYI_DOC_LIST) || n > TINYI_ASK_BIAS) {
        (void)tinyi_ask_fail(a, 400, "logit_bias", "invalid_type", "logit_bias must map at most %d tokens to numbers",
                             TINYI_ASK_BIAS);
        return;
    }
    h->bias = (tllm_bias *)tinyi_doc_alloc(&a->m, n, sizeof *h->bias);
    for (i = 0; h->bias && i < n; i++) {
        const tinyi_tv *pair = v->type == TINYI_DOC_LIST ? &v->u.list->item[i] : NULL, *value = NULL;
        int64_t token = -1;
        double f = 0;
        if (!pair) { /* {"123": -100} */
            const tinyi_tv *key = &v->u.map->pair[i].key;
            value = &v->u.map->pair[i].value;
            for (k = 0, token = 0; k < key->n && k < 10 && key->u.s[k] >= '0' && key->u.s[k] <= '9'; k++)
                token = 10 * token + (key->u.s[k] - '0');
            if (!k || k < key->n) token = -1;
        } else if (pair->type == TINYI_DOC_LIST && pair->u.list->n == 2) { /* [[123, -100]] */
            value = &pair->u.list->item[1];
            if (pair->u.list->item[0].type == TINYI_DOC_INT) token = pair->u.list->item[0].u.i;
        }
        if (!value || token < 0 || token >= (int64_t)tllm_vocab_size(a->api->vocab) || value->type == TINYI_DOC_BOOL ||
            !tinyi_tv_number(value, &f) || !(f >= -1e9 && f <= 1e9)) {
            (void)tinyi_ask_fail(a, 400, "logit_bias", "invalid_value",
                                 "item %zu of logit_bias is not a token of the vocabulary and a number", i);
            return;
        }
        h->bias[i].token = (int32_t)token;
        h->bias[i].add = (float)f;
    }
    h->r.bias = h->bias;
    h->r.n_bias = n;
}

static void tinyi_ask_stops(tinyi_ask *a, tinyi_ask_how *h)
{
    const tinyi_tv *v = tinyi_ask_get(a, "stop");
    const size_t n = v && v->type == TINYI_DOC_LIST ? v->u.list->n : 1;
    size_t i;
    if (!v) return;
    if (n > TINYI_ASK_STOPS) {
        (void)tinyi_ask_fail(a, 400, "stop", "invalid_value", "stop has %zu texts; the limit is %d", n,
                             TINYI_ASK_STOPS);
        return;
    }
    for (i = 0; i < n; i++) {
        const tinyi_tv *s = v->type == TINYI_DOC_LIST ? &v->u.list->item[i] : v;
        h->stop[i] = tinyi_ask_text(a, s, "stop");
        if (!a->status && (!s->n || s->n > TLLM_ENGINE_MOST_STOP_BYTES))
            (void)tinyi_ask_fail(a, 400, "stop", "invalid_value", "a text of stop is empty or longer than %d bytes",
                                 TLLM_ENGINE_MOST_STOP_BYTES);
    }
    h->r.stop = h->stop;
    h->r.n_stop = n;
}

/* The schema of calls: an object of one of the tools, or a list of these. */
static void tinyi_ask_force(tinyi_ask *a, tinyi_ask_how *h, const tinyi_tv *tools, const tinyi_tv *only, int many)
{
    static const char any[] = "{\"type\":\"object\"}";
    const size_t start = a->m.n_out;
    size_t i, n = 0;
    const tinyi_doc_form form = tinyi_api_form();
    tinyi_tv text;
#define TINYI_PUT(s) (void)tinyi_doc_put(&a->m, s, strlen(s))
    TINYI_PUT(many ? "{\"type\":\"array\",\"minItems\":1,\"maxItems\":16,\"items\":{\"anyOf\":[" : "{\"anyOf\":[");
    for (i = 0; i < tools->u.list->n; i++) {
        const tinyi_tv *f = tinyi_ask_member(a, &tools->u.list->item[i], "function"),
                       *parameters = tinyi_ask_member(a, f, "parameters");
        if (only && only != &tools->u.list->item[i]) continue;
        if (n++) TINYI_PUT(",");
        TINYI_PUT("{\"type\":\"object\",\"properties\":{\"name\":{\"const\":");
        (void)tinyi_tv_put_json(&a->m, tinyi_ask_member(a, f, "name"), &form);
        TINYI_PUT("},\"arguments\":");
        if (parameters) (void)tinyi_tv_put_json(&a->m, parameters, &form);
        else TINYI_PUT(any);
        TINYI_PUT("},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false}");
    }
    TINYI_PUT(many ? "]}}" : "]}");
#undef TINYI_PUT
    text = tinyi_doc_take(&a->m, start);
    h->r.schema = text.u.s;
    h->r.n_schema = text.n;
    h->form = TLLM_TOOL_FORCED;
}

/* response_format, json_schema, grammar, tool_choice: at most one of them restricts the text */
static void tinyi_ask_forms(tinyi_ask *a, tinyi_ask_how *h)
{
    static const char any[] = "{\"type\":\"object\"}";
    const tinyi_tv *format = tinyi_ask_get(a, "response_format"), *schema = tinyi_ask_get(a, "json_schema"),
                   *grammar = tinyi_ask_get(a, "grammar"), *only = NULL;
    int forced = 0;
    size_t i;
    tinyi_tv json;
    if (a->where == TINYI_AT_CHAT) {
        h->tools = tinyi_ask_tools(a, &forced, &only);
        if (h->tools) h->form = a->api->tools_in_template ? a->api->tool_form : TLLM_TOOL_TAGS;
        if (h->tools && !h->form) h->form = TLLM_TOOL_TAGS;
        for (i = 0; h->tools && !forced && i < h->tools->u.list->n; i++) {
            const tinyi_tv *f = tinyi_ask_member(a, &h->tools->u.list->item[i], "function"),
                           *strict = tinyi_ask_member(a, f, "strict");
            if (strict && tinyi_tv_true(strict)) {
                tinyi_ask_warn(a, "strict: calls are made to fit their schema only if tool_choice asks for a call");
                break;
            }
        }
    }
    if (format) {
        const tinyi_tv *type = tinyi_ask_member(a, format, "type"), *s = tinyi_ask_member(a, format, "json_schema");
        if (type && tinyi_tv_is(type, "text")) format = NULL;
        else if (type && tinyi_tv_is(type, "json_object")) {
            if (!s) s = tinyi_ask_member(a, format, "schema");
        } else if (type && tinyi_tv_is(type, "json_schema") && s && s->type == TINYI_DOC_MAP) {
            s = tinyi_ask_member(a, s, "schema");
            if (!s) (void)tinyi_ask_fail(a, 400, "response_format", "invalid_value", "response_format has no schema");
        } else
            (void)tinyi_ask_fail(a, 400, "response_format", "invalid_value",
                                 "response_format must have the type text, json_object, or json_schema with a schema");
        if (format && s && schema)
            (void)tinyi_ask_fail(a, 400, "json_schema", "invalid_value", "both json_schema and response_format");
        if (format && !a->status) {
            if (s) schema = s;
            else {
                h->r.schema = any;
                h->r.n_schema = sizeof any - 1;
            }
        }
    }
    if (a->status) return;
    if ((schema || h->r.schema) && grammar) {
        (void)tinyi_ask_fail(a, 400, "grammar", "invalid_value", "both a grammar and a JSON format of the answer");
        return;
    }
    if ((schema || h->r.schema || grammar) && h->tools) {
        (void)tinyi_ask_fail(a, 400, "tools", "invalid_value",
                             "tools together with a grammar or a JSON format of the answer are not supported");
        return;
    }
    if (schema) {
        json = tinyi_ask_json(a, schema);
        h->r.schema = json.u.s;
        h->r.n_schema = json.n;
    }
    if (grammar && grammar->type != TINYI_DOC_STRING)
        (void)tinyi_ask_fail(a, 400, "grammar", "invalid_type", "grammar must be a text in GBNF");
    else if (grammar) {
        h->r.gbnf = grammar->u.s;
        h->r.n_gbnf = grammar->n;
    }
    if (forced && !a->status) tinyi_ask_force(a, h, h->tools, only, tinyi_ask_flag(a, "parallel_tool_calls", 0));
    if (h->form == TLLM_TOOL_LIST || h->form == TLLM_TOOL_OBJECT) h->r.special = 1;
}

static void tinyi_ask_how_to(tinyi_ask *a, tinyi_ask_how *h)
{
    const int chat = a->where == TINYI_AT_CHAT;
    const tinyi_tv *text;
    memset(h, 0, sizeof *h);
    tinyi_ask_chain(a, h);
    tinyi_ask_bias(a, h);
    tinyi_ask_stops(a, h);
    if (!a->status) tinyi_ask_forms(a, h);
    h->r.past_end = tinyi_ask_flag(a, "ignore_eos", 0);
    h->r.priority = (int)tinyi_ask_whole(a, "priority", -1000000, 1000000, 0);
    if (chat) {
        h->r.logprobs = tinyi_ask_flag(a, "logprobs", 0);
        h->r.n_top = (size_t)tinyi_ask_whole(a, "top_logprobs", 0, TINYI_ASK_TOP, 0);
        if (h->r.n_top && !h->r.logprobs)
            (void)tinyi_ask_fail(a, 400, "top_logprobs", "invalid_value", "top_logprobs needs logprobs: true");
    } else {
        const int64_t k = tinyi_ask_whole(a, "logprobs", 0, TINYI_ASK_TOP, -1);
        h->r.logprobs = k >= 0;
        h->r.n_top = k > 0 ? (size_t)k : 0;
        text = tinyi_ask_get(a, "suffix");
        if (text && (text->type != TINYI_DOC_STRING || text->n))
            (void)tinyi_ask_fail(a, 400, "suffix", "unsupported", "text before a suffix is not supported");
        if (tinyi_ask_whole(a, "best_of", 1, INT32_MAX, 1) > tinyi_ask_whole(a, "n", 1, TINYI_API_CHOICES, 1))
            (void)tinyi_ask_fail(a, 400, "best_of", "unsupported", "best_of larger than n is not supported");
    }
}

/* ---- submitting ---- */

typedef struct tinyi_ask_prompts {
    tllm_tokens *at;
    const tinyi_tv **text;
    size_t n;
} tinyi_ask_prompts;

/* prompt: a text, a list of texts, a list of tokens, a list of lists of tokens */
static void tinyi_ask_prompt_list(tinyi_ask *a, tinyi_ask_prompts *p)
{
    const tinyi_tv *v = tinyi_ask_get(a, "prompt");
    size_t i;
    int many;
    if (!v || (v->type != TINYI_DOC_STRING && (v->type != TINYI_DOC_LIST || !v->u.list->n))) {
        (void)tinyi_ask_fail(a, 400, "prompt", "invalid_type",
                             "prompt must be a text, a list of texts, a list of tokens, or a list of such lists");
        return;
    }
    many = v->type == TINYI_DOC_LIST && v->u.list->item[0].type != TINYI_DOC_INT;
    p->n = many ? v->u.list->n : 1;
    if (p->n > TINYI_API_CHOICES) {
        (void)tinyi_ask_fail(a, 400, "prompt", "invalid_value", "%zu prompts; the limit is %d", p->n,
                             TINYI_API_CHOICES);
        return;
    }
    p->at = (tllm_tokens *)tinyi_doc_alloc(&a->m, p->n, sizeof *p->at);
    p->text = (const tinyi_tv **)tinyi_doc_alloc(&a->m, p->n, sizeof *p->text);
    if (!p->at || !p->text) {
        p->n = 0;
        (void)tinyi_ask_doc(a);
        return;
    }
    memset(p->at, 0, p->n * sizeof *p->at);
    for (i = 0; i < p->n && !a->status; i++) {
        const tinyi_tv *one = many ? &v->u.list->item[i] : v;
        p->text[i] = one->type == TINYI_DOC_STRING ? one : NULL;
        if (p->text[i]) (void)tinyi_ask_encode(a, one->u.s, one->n, 0, &p->at[i]);
        else (void)tinyi_ask_tokens(a, one, "prompt", &p->at[i]);
    }
}

static int tinyi_ask_add(tinyi_ask *a, tllm_tokens *t, int32_t id)
{
    if (t->n == t->room) {
        int32_t *more = (int32_t *)tinyi_alloc(a->api->ctx, 2 * t->room + 64, sizeof *more);
        if (!more) return tinyi_ask_status(a, tiny_ctx_status(a->api->ctx), NULL);
        if (t->n) memcpy(more, t->id, t->n * sizeof *more);
        tiny_free(a->api->ctx, t->id);
        t->id = more;
        t->room = 2 * t->room + 64;
    }
    t->id[t->n++] = id;
    return 1;
}

static int tinyi_ask_add_text(tinyi_ask *a, tllm_tokens *t, const tinyi_tv *v, const char *param)
{
    tiny_status st = v ? tllm_encode(a->api->ctx, a->api->vocab, v->u.s, v->n, 0, t) : TINY_OK;
    return st ? tinyi_ask_status(a, st, param) : 1;
}

/* The text between two others: the tokens that the model was trained with, around the texts of this request. Each
 * earlier file comes first, with its name, if the vocabulary has tokens for files. */
static void tinyi_ask_infill(tinyi_ask *a, tllm_tokens *t)
{
    const tllm_vocab *vocab = a->api->vocab;
    const int32_t pre = tllm_vocab_special(vocab, TLLM_FIM_PRE), suf = tllm_vocab_special(vocab, TLLM_FIM_SUF),
                  mid = tllm_vocab_special(vocab, TLLM_FIM_MID), sep = tllm_vocab_special(vocab, TLLM_FIM_SEP);
    static const char *const names[3] = { "input_prefix", "input_suffix", "prompt" };
    const tinyi_tv *part[3], *extra = tinyi_ask_get(a, "input_extra"), *v;
    size_t i, n = extra && extra->type == TINYI_DOC_LIST ? extra->u.list->n : 0;
    int k;
    if (pre < 0 || suf < 0 || mid < 0) {
        (void)tinyi_ask_fail(a, 400, NULL, "unsupported", "%s has no tokens for the %s of a text: it cannot fill in",
                             a->api->name, pre < 0 ? "beginning" : suf < 0 ? "end" : "middle");
        return;
    }
    for (k = 0; k < 3; k++) {
        part[k] = tinyi_ask_get(a, names[k]);
        if (part[k] && part[k]->type != TINYI_DOC_STRING)
            (void)tinyi_ask_fail(a, 400, names[k], "invalid_type", "%s must be a text", names[k]);
    }
    if (!part[0] && !part[1])
        (void)tinyi_ask_fail(a, 400, "input_prefix", "invalid_value", "input_prefix or input_suffix is needed");
    if (extra && extra->type != TINYI_DOC_LIST)
        (void)tinyi_ask_fail(a, 400, "input_extra", "invalid_type", "input_extra must be a list of files");
    if (n && sep < 0) tinyi_ask_warn(a, "input_extra: the vocabulary has no token between files; they come without");
    for (i = 0; i < n && !a->status; i++) {
        const tinyi_tv *file = &extra->u.list->item[i];
        const tinyi_tv *text = file->type == TINYI_DOC_MAP ? tinyi_ask_member(a, file, "text") : NULL;
        v = file->type == TINYI_DOC_MAP ? tinyi_ask_member(a, file, "filename") : NULL;
        if (!text || text->type != TINYI_DOC_STRING || (v && v->type != TINYI_DOC_STRING)) {
            (void)tinyi_ask_fail(a, 400, "input_extra", "invalid_type",
                                 "file %zu of input_extra must have a text, and may have a filename", i);
            return;
        }
        if (sep >= 0 && !tinyi_ask_add(a, t, sep)) return;
        if (sep >= 0 && v) {
            tiny_status st;
            if (!tinyi_ask_add_text(a, t, v, "input_extra")) return;
            st = tllm_encode(a->api->ctx, vocab, "\n", 1, 0, t);
            if (st) (void)tinyi_ask_status(a, st, "input_extra");
        }
        if (!a->status) (void)tinyi_ask_add_text(a, t, text, "input_extra");
    }
    if (a->status || !tinyi_ask_add(a, t, pre) || !tinyi_ask_add_text(a, t, part[0], names[0]) ||
        !tinyi_ask_add(a, t, suf) || !tinyi_ask_add_text(a, t, part[1], names[1]) || !tinyi_ask_add(a, t, mid))
        return;
    (void)tinyi_ask_add_text(a, t, part[2], names[2]);      /* the beginning of the answer */
}

static int tinyi_ask_fits(tinyi_ask *a, const tllm_tokens *t)
{
    const size_t context = (size_t)tllm_engine_context(a->api->engine);
    const char *param = a->where == TINYI_AT_CHAT ? "messages" : "prompt";
    if (!t->n) return tinyi_ask_fail(a, 400, param, "invalid_value", "the prompt has no tokens");
    if (t->n < context) return 1;
    return tinyi_ask_fail(
        a, 400, param, "context_length_exceeded",
        "the prompt has %zu tokens; the context of this server has %zu, and an answer needs one of them", t->n,
        context);
}

static void tinyi_ask_submit(tinyi_ask *a, tinyi_ask_how *h, const tinyi_ask_prompts *p)
{
    const int64_t n = tinyi_ask_whole(a, "n", 1, TINYI_API_CHOICES, 1);
    const tinyi_tv *options = tinyi_ask_get(a, "stream_options"), *seed = tinyi_ask_get(a, "seed");
    int64_t most = tinyi_ask_whole(a, "max_tokens", -1, INT32_MAX, -1);
    const int stream = tinyi_ask_flag(a, "stream", 0), echo = tinyi_ask_flag(a, "echo", 0);
    char error[400];
    tinyi_job *j;
    size_t i;
    most = tinyi_ask_whole(a, "n_predict", -1, INT32_MAX, most);
    if (a->where == TINYI_AT_CHAT) most = tinyi_ask_whole(a, "max_completion_tokens", -1, INT32_MAX, most);
    if (seed && seed->type != TINYI_DOC_INT)
        (void)tinyi_ask_fail(a, 400, "seed", "invalid_type", "seed must be a whole number");
    if (stream && echo && h->r.logprobs)
        (void)tinyi_ask_fail(a, 400, "echo", "unsupported", "echo with logprobs is not streamed: set stream to false");
    for (i = 0; options && options->type == TINYI_DOC_MAP && i < options->u.map->n; i++)
        if (!tinyi_tv_is(&options->u.map->pair[i].key, "include_usage"))
            (void)tinyi_ask_fail(a, 400, "stream_options", "unknown_field",
                                 "the only member of stream_options that is known is include_usage");
    if ((size_t)n * p->n > TINYI_API_CHOICES)
        (void)tinyi_ask_fail(a, 400, "n", "invalid_value", "%zu prompts times n = %lld; the limit is %d", p->n,
                             (long long)n, TINYI_API_CHOICES);
    for (i = 0; i < p->n && !a->status; i++) (void)tinyi_ask_fits(a, &p->at[i]);
    if (a->status) return;
    j = tinyi_job_open(a, p->n * (size_t)n);
    if (!j) return;
    j->stream = stream;
    j->infill = !strcmp(a->path, "/infill");
    j->echo = echo;
    j->logprobs = h->r.logprobs;
    j->n_top = (int)h->r.n_top;
    j->n_per_prompt = (size_t)n;
    j->tools = h->form;
    j->parallel = tinyi_ask_flag(a, "parallel_tool_calls", h->form != TLLM_TOOL_FORCED);
    j->include_usage = options && tinyi_ask_member(a, options, "include_usage") &&
                       tinyi_tv_true(tinyi_ask_member(a, options, "include_usage"));
    j->seed = seed ? (uint64_t)seed->u.i : tiny_rng_u64(&a->api->random) >> 11; /* exact as a double, too */
    for (i = 0; h->tools && i < h->tools->u.list->n; i++) {
        const tinyi_tv *name = tinyi_ask_member(a, tinyi_ask_member(a, &h->tools->u.list->item[i], "function"), "name");
        if (!tinyi_api_append(a->api, &j->tool_names, name->u.s, name->n) ||
            !tinyi_api_append(a->api, &j->tool_names, "", 1))
            (void)tinyi_ask_status(a, TINY_E_MEMORY, NULL);
    }
    for (i = 0; i < j->n_choices && !a->status; i++) {
        tinyi_choice *c = &j->choice[i];
        const size_t k = i / (size_t)n;
        const tllm_tokens *t = &p->at[k];
        tiny_status st;
        h->r.prompt = t->id;
        h->r.n_prompt = t->n;
        h->r.seed = j->seed + i;
        h->r.n_most = most < 0 ? a->api->n_most : (size_t)most;
        h->r.prompt_only = most == 0;
        h->r.prompt_logprobs = echo && h->r.logprobs;
        h->r.token = tinyi_job_token;
        h->r.end = tinyi_job_end;
        h->r.user = c;
        c->n_prompt = t->n;
        if (echo && p->text[k]) (void)tinyi_api_append(a->api, &c->text, p->text[k]->u.s, p->text[k]->n);
        else if (echo && tllm_decode(a->api->ctx, a->api->vocab, t->id, t->n, TLLM_DECODE_SPECIAL, &c->text))
            (void)tinyi_ask_status(a, tiny_ctx_status(a->api->ctx), "prompt");
        if (echo && h->r.logprobs) tinyi_job_first(c, t->id[0]);
        if (a->status) break;
        st = tllm_engine_submit(a->api->engine, &h->r, &c->id, error, sizeof error);
        if (st) {
            c->id = 0;
            /* other faults of the request were found before: the queue is full, or a grammar is invalid */
            (void)tinyi_ask_fail(a, st == TINY_E_WORKSPACE || st == TINY_E_MEMORY ? 503 : 400, NULL,
                                 st == TINY_E_WORKSPACE ? "queue_full" : "invalid_value", "%s",
                                 *error ? error : tiny_status_text(st));
        } else j->n_left++;
    }
    if (a->status) {                        /* those that were submitted are cancelled, and nobody hears of them */
        tllm_reply_keep(a->reply, NULL);
        tinyi_job_gone(j);
    }
    tinyi_job_ready(j);
}

void tinyi_ask_generate(tinyi_ask *a)
{
    tinyi_ask_how *h;
    tinyi_ask_prompts p;
    tllm_tokens one;
    const tinyi_tv *none = NULL;
    size_t i;
    memset(&p, 0, sizeof p);
    memset(&one, 0, sizeof one);
    if (!a->api->engine) {
        (void)tinyi_ask_fail(a, 400, NULL, "unsupported", "the model of this server gives embeddings, not text");
        return;
    }
    h = (tinyi_ask_how *)tinyi_doc_alloc(&a->m, 1, sizeof *h);
    if (!h) {
        (void)tinyi_ask_doc(a);
        return;
    }
    tinyi_ask_how_to(a, h);
    if (!a->status && a->where == TINYI_AT_CHAT) {
        char *text = NULL;
        size_t n = 0;
        if (tinyi_ask_prompt(a, &text, &n)) (void)tinyi_ask_encode(a, text, n, 1, &one);
        tiny_free(a->api->ctx, text);
        p.at = &one;
        p.n = 1;
    } else if (!a->status && a->where == TINYI_AT_INFILL) {
        tinyi_ask_infill(a, &one);
        a->where = TINYI_AT_TEXT;           /* answered as a completion */
        p.at = &one;
        p.text = &none;
        p.n = 1;
    } else if (!a->status) tinyi_ask_prompt_list(a, &p);
    if (!a->status) (void)tinyi_ask_doc(a);
    if (!a->status) tinyi_ask_submit(a, h, &p);
    for (i = 0; i < p.n; i++) tllm_tokens_free(a->api->ctx, &p.at[i]);
}
