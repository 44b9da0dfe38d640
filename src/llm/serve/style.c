/* src/llm/serve/style.c - /v1/responses and /v1/messages: the same chat in other clothes
 *
 * A body is turned into one of /v1/chat/completions, which ask.c reads. The answer, or the events of a stream, are
 * written from the same choice. What these endpoints can do beyond that (stored responses, built-in tools, images,
 * thinking) is refused by name. */
#include "llm/serve/api_inside.h"
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static void tinyi_style_set(tinyi_ask *a, tinyi_tv *map, const char *name, tinyi_tv v)
{
    if (!a->m.status) (void)tinyi_map_set(&a->m, map->u.map, tinyi_tv_view(name, strlen(name)), v);
}
static tinyi_tv tinyi_style_name(const char *text) { return tinyi_tv_view(text, strlen(text)); }

/* Copies a field under another name. */
static void tinyi_style_move(tinyi_ask *a, tinyi_tv *to, const char *name, const char *as)
{
    const tinyi_tv *v = tinyi_ask_get(a, name);
    if (v) tinyi_style_set(a, to, as, *v);
}

/* The text of a value: a text, or a list of parts of type text, input_text or output_text, a line for each. */
static tinyi_tv tinyi_style_words(tinyi_ask *a, const tinyi_tv *v, const char *param)
{
    const size_t start = a->m.n_out;
    size_t i;
    if (v->type == TINYI_DOC_STRING) return *v;
    if (v->type != TINYI_DOC_LIST) {
        (void)tinyi_ask_fail(a, 400, param, "invalid_type", "%s holds what is not a text", param);
        return tinyi_tv_view("", 0);
    }
    for (i = 0; i < v->u.list->n; i++) {
        const tinyi_tv *type = tinyi_ask_member(a, &v->u.list->item[i], "type"),
                       *text = tinyi_ask_member(a, &v->u.list->item[i], "text");
        char shown[80] = "none";
        if (type && text && text->type == TINYI_DOC_STRING &&
            (tinyi_tv_is(type, "text") || tinyi_tv_is(type, "input_text") || tinyi_tv_is(type, "output_text"))) {
            tinyi_ask_only(a, &v->u.list->item[i], "a text", " type text annotations logprobs ");
            if (i) (void)tinyi_doc_put(&a->m, "\n", 1);
            (void)tinyi_doc_put(&a->m, text->u.s, text->n);
            continue;
        }
        if (type && type->type == TINYI_DOC_STRING) tinyi_doc_show(type->u.s, type->n, shown);
        (void)tinyi_ask_fail(a, 400, param, "unsupported_content",
                             "a part of %s has the type %s; this server reads texts", param, shown);
        break;
    }
    return tinyi_doc_take(&a->m, start);
}

static void tinyi_style_say(tinyi_ask *a, tinyi_tv *messages, tinyi_tv role, tinyi_tv content, const tinyi_tv *calls)
{
    tinyi_tv one = tinyi_tv_map(&a->m);
    if (a->m.status) return;
    tinyi_style_set(a, &one, "role", role);
    tinyi_style_set(a, &one, "content", content);
    if (calls) tinyi_style_set(a, &one, "tool_calls", *calls);
    (void)tinyi_list_add(&a->m, messages->u.list, one);
}

/* The result of a tool, with the id of its call for templates that read it. */
static void tinyi_style_result(tinyi_ask *a, tinyi_tv *messages, tinyi_tv content, const tinyi_tv *id)
{
    tinyi_style_say(a, messages, tinyi_style_name("tool"), content, NULL);
    if (id && !a->status && !a->m.status)
        tinyi_style_set(a, &messages->u.list->item[messages->u.list->n - 1], "tool_call_id", *id);
}

/* {"id": .., "type": "function", "function": {"name": .., "arguments": ..}} */
static void tinyi_style_call(tinyi_ask *a, tinyi_tv *calls, const tinyi_tv *id, const tinyi_tv *name,
                             const tinyi_tv *input, const char *param)
{
    tinyi_tv one, f;
    if (!name || name->type != TINYI_DOC_STRING || !input) {
        (void)tinyi_ask_fail(a, 400, param, "invalid_value", "a call of a tool has no name or no arguments");
        return;
    }
    one = tinyi_tv_map(&a->m);
    f = tinyi_tv_map(&a->m);
    if (a->m.status) return;
    tinyi_style_set(a, &f, "name", *name);
    tinyi_style_set(a, &f, "arguments", *input);
    if (id) tinyi_style_set(a, &one, "id", *id);
    tinyi_style_set(a, &one, "type", tinyi_style_name("function"));
    tinyi_style_set(a, &one, "function", f);
    (void)tinyi_list_add(&a->m, calls->u.list, one);
}

/* One message of /v1/messages: texts, calls, thoughts, and results of tools, which come before the text. Templates know
 * thoughts as reasoning_content. */
static void tinyi_style_message(tinyi_ask *a, tinyi_tv *messages, const tinyi_tv *m)
{
    const tinyi_tv *role = tinyi_ask_member(a, m, "role"), *content = tinyi_ask_member(a, m, "content");
    const int user = role && tinyi_tv_is(role, "user");
    tinyi_tv texts, calls, thoughts;
    size_t start;
    size_t i;
    if (!role || (!user && !tinyi_tv_is(role, "assistant")) || !content) {
        (void)tinyi_ask_fail(a, 400, "messages", "invalid_value",
                             "a message needs content, and the role user or assistant");
        return;
    }
    tinyi_ask_only(a, m, "a message", " role content id type model stop_reason stop_sequence usage ");
    if (content->type != TINYI_DOC_LIST) {
        tinyi_style_say(a, messages, *role, tinyi_style_words(a, content, "messages"), NULL);
        return;
    }
    start = a->m.n_out;
    texts = tinyi_tv_list(&a->m, content->u.list->n);
    calls = tinyi_tv_list(&a->m, content->u.list->n);
    if (a->m.status) return;
    for (i = 0; i < content->u.list->n && !a->status; i++) {
        const tinyi_tv *part = &content->u.list->item[i], *type = tinyi_ask_member(a, part, "type");
        if (user && type && tinyi_tv_is(type, "tool_result")) {
            const tinyi_tv *said = tinyi_ask_member(a, part, "content");
            const tinyi_tv *failed = tinyi_ask_member(a, part, "is_error");
            tinyi_ask_only(a, part, "a tool_result", " type tool_use_id content is_error ");
            if (failed && tinyi_tv_true(failed))
                tinyi_ask_warn(a, "is_error: the template gets the text of a tool_result only");
            tinyi_style_result(a, messages, said ? tinyi_style_words(a, said, "messages") : tinyi_tv_view("", 0),
                               tinyi_ask_member(a, part, "tool_use_id"));
        } else if (!user && type && tinyi_tv_is(type, "tool_use")) {
            tinyi_ask_only(a, part, "a tool_use", " type id name input ");
            tinyi_style_call(a, &calls, tinyi_ask_member(a, part, "id"), tinyi_ask_member(a, part, "name"),
                             tinyi_ask_member(a, part, "input"), "messages");
        } else if (!user && type && tinyi_tv_is(type, "thinking")) {
            const tinyi_tv *said = tinyi_ask_member(a, part, "thinking");
            tinyi_ask_only(a, part, "thinking", " type thinking signature ");
            if (said && said->type == TINYI_DOC_STRING) (void)tinyi_doc_put(&a->m, said->u.s, said->n);
            else (void)tinyi_ask_fail(a, 400, "messages", "invalid_type", "a part of type thinking has no text");
        }
        else (void)tinyi_list_add(&a->m, texts.u.list, *part);
    }
    thoughts = tinyi_doc_take(&a->m, start);
    if (a->status || a->m.status || (user && !texts.u.list->n)) return;
    tinyi_style_say(a, messages, *role, tinyi_style_words(a, &texts, "messages"), calls.u.list->n ? &calls : NULL);
    if (thoughts.n && !a->status && !a->m.status)
        tinyi_style_set(a, &messages->u.list->item[messages->u.list->n - 1], "reasoning_content", thoughts);
}

/* One item of the input of /v1/responses. */
static void tinyi_style_item(tinyi_ask *a, tinyi_tv *messages, const tinyi_tv *item)
{
    const tinyi_tv *type = tinyi_ask_member(a, item, "type"), *role = tinyi_ask_member(a, item, "role"),
                   *content = tinyi_ask_member(a, item, "content");
    char shown[80] = "none";
    if ((!type || tinyi_tv_is(type, "message")) && role && content) {
        tinyi_ask_only(a, item, "a message of input", " type role content id status phase ");
        tinyi_style_say(a, messages, *role, tinyi_style_words(a, content, "input"), NULL);
    } else if (type && tinyi_tv_is(type, "function_call")) {
        tinyi_tv calls = tinyi_tv_list(&a->m, 1);
        if (a->m.status) return;
        tinyi_ask_only(a, item, "a function_call", " type id status call_id name arguments ");
        tinyi_style_call(a, &calls, tinyi_ask_member(a, item, "call_id"), tinyi_ask_member(a, item, "name"),
                         tinyi_ask_member(a, item, "arguments"), "input");
        if (!a->status) tinyi_style_say(a, messages, tinyi_style_name("assistant"), tinyi_tv_view("", 0), &calls);
    } else if (type && tinyi_tv_is(type, "function_call_output") && tinyi_ask_member(a, item, "output")) {
        tinyi_ask_only(a, item, "a function_call_output", " type id status call_id output ");
        tinyi_style_result(a, messages, tinyi_style_words(a, tinyi_ask_member(a, item, "output"), "input"),
                           tinyi_ask_member(a, item, "call_id"));
    } else {
        if (type && type->type == TINYI_DOC_STRING) tinyi_doc_show(type->u.s, type->n, shown);
        (void)tinyi_ask_fail(a, 400, "input", "unsupported_content",
                             "an item of input has the type %s; this server reads messages, function_call and "
                             "function_call_output",
                             shown);
    }
}

/* Tools of both endpoints are flat: name, description, and parameters or input_schema. */
static void tinyi_style_tools(tinyi_ask *a, tinyi_tv *root, const char *parameters)
{
    const tinyi_tv *tools = tinyi_ask_get(a, "tools");
    tinyi_tv list;
    size_t i;
    if (!tools) return;
    if (tools->type != TINYI_DOC_LIST) {
        (void)tinyi_ask_fail(a, 400, "tools", "invalid_type", "tools must be a list");
        return;
    }
    list = tinyi_tv_list(&a->m, tools->u.list->n);
    for (i = 0; i < tools->u.list->n && !a->m.status && !a->status; i++) {
        const tinyi_tv *t = &tools->u.list->item[i], *type = tinyi_ask_member(a, t, "type"),
                       *name = tinyi_ask_member(a, t, "name"), *says = tinyi_ask_member(a, t, "description"),
                       *schema = tinyi_ask_member(a, t, parameters), *strict = tinyi_ask_member(a, t, "strict");
        tinyi_tv one = tinyi_tv_map(&a->m), f = tinyi_tv_map(&a->m);
        if (a->m.status) return;
        if (!name || (type && !tinyi_tv_is(type, "function") && !tinyi_tv_is(type, "custom"))) {
            (void)tinyi_ask_fail(a, 400, "tools", "unsupported", "tool %zu is not a function with a name", i);
            return;
        }
        tinyi_style_set(a, &f, "name", *name);
        if (says) tinyi_style_set(a, &f, "description", *says);
        if (schema) tinyi_style_set(a, &f, "parameters", *schema);
        if (strict) tinyi_style_set(a, &f, "strict", *strict);
        tinyi_ask_only(a, t, "a tool",
                       a->style == TINYI_STYLE_MESSAGES ? " type name description input_schema strict "
                                                        : " type name description parameters strict ");
        tinyi_style_set(a, &one, "type", tinyi_style_name("function"));
        tinyi_style_set(a, &one, "function", f);
        (void)tinyi_list_add(&a->m, list.u.list, one);
    }
    tinyi_style_set(a, root, "tools", list);
}

/* {"type": "function" or "tool", "name": ..} */
static void tinyi_style_choice(tinyi_ask *a, tinyi_tv *root)
{
    const int is_messages = a->style == TINYI_STYLE_MESSAGES;
    const tinyi_tv *choice = tinyi_ask_get(a, "tool_choice"), *type, *name, *alone;
    tinyi_tv one, f;
    if (!choice) return;
    if (choice->type != TINYI_DOC_MAP) {
        tinyi_style_set(a, root, "tool_choice", *choice);
        return;
    }
    type = tinyi_ask_member(a, choice, "type");
    name = tinyi_ask_member(a, choice, "name");
    if (type && !tinyi_tv_is(type, is_messages ? "tool" : "function")) {
        tinyi_ask_only(a, choice, "tool_choice", is_messages ? " type disable_parallel_tool_use " : " type ");
        tinyi_style_set(a, root, "tool_choice", tinyi_tv_is(type, "any") ? tinyi_style_name("required") : *type);
    } else {
        tinyi_ask_only(a, choice, "tool_choice", is_messages ? " type name disable_parallel_tool_use " : " type name ");
        one = tinyi_tv_map(&a->m);
        f = tinyi_tv_map(&a->m);
        if (a->m.status) return;
        if (name) tinyi_style_set(a, &f, "name", *name);
        tinyi_style_set(a, &one, "function", f);
        tinyi_style_set(a, root, "tool_choice", one);
    }
    alone = is_messages ? tinyi_ask_member(a, choice, "disable_parallel_tool_use") : NULL;
    if (alone && alone->type != TINYI_DOC_BOOL)
        (void)tinyi_ask_fail(a, 400, "tool_choice", "invalid_type",
                             "disable_parallel_tool_use must be true or false");
    else if (alone) tinyi_style_set(a, root, "parallel_tool_calls", tinyi_tv_bool(!alone->u.i));
}

static void tinyi_style_read_messages(tinyi_ask *a, tinyi_tv *root, tinyi_tv *messages)
{
    const tinyi_tv *system = tinyi_ask_get(a, "system"), *list = tinyi_ask_get(a, "messages"),
                   *thinking = tinyi_ask_get(a, "thinking"),
                   *kind = thinking ? tinyi_ask_member(a, thinking, "type") : NULL;
    size_t i;
    if (thinking && !(kind && tinyi_tv_is(kind, "disabled")))
        (void)tinyi_ask_fail(a, 400, "thinking", "unsupported", "thinking is not supported");
    if (!tinyi_ask_get(a, "max_tokens") && a->where != TINYI_AT_COUNT)
        (void)tinyi_ask_fail(a, 400, "max_tokens", "invalid_value", "max_tokens is missing");
    if (!list || list->type != TINYI_DOC_LIST || !list->u.list->n)
        (void)tinyi_ask_fail(a, 400, "messages", "invalid_value", "messages must be a list of at least one message");
    if (a->status) return;
    if (system) tinyi_style_say(a, messages, tinyi_style_name("system"), tinyi_style_words(a, system, "system"), NULL);
    for (i = 0; i < list->u.list->n && !a->status; i++) tinyi_style_message(a, messages, &list->u.list->item[i]);
    tinyi_style_tools(a, root, "input_schema");
    tinyi_style_move(a, root, "max_tokens", "max_tokens");
    tinyi_style_move(a, root, "stop_sequences", "stop");
    tinyi_style_move(a, root, "top_k", "top_k");
}

static void tinyi_style_read_response(tinyi_ask *a, tinyi_tv *root, tinyi_tv *messages)
{
    const tinyi_tv *input = tinyi_ask_get(a, "input"), *system = tinyi_ask_get(a, "instructions"),
                   *text = tinyi_ask_get(a, "text"), *format = text ? tinyi_ask_member(a, text, "format") : NULL,
                   *type = format ? tinyi_ask_member(a, format, "type") : NULL, *cut = tinyi_ask_get(a, "truncation");
    tinyi_tv one;
    size_t i;
    if (tinyi_ask_get(a, "previous_response_id"))
        (void)tinyi_ask_fail(a, 400, "previous_response_id", "unsupported",
                             "responses are not stored: send the whole talk as input");
    if (tinyi_ask_flag(a, "background", 0))
        (void)tinyi_ask_fail(a, 400, "background", "unsupported", "responses in the background are not supported");
    if (cut && !tinyi_tv_is(cut, "disabled"))
        (void)tinyi_ask_fail(a, 400, "truncation", "unsupported", "this server never cuts the input");
    if (!input || (input->type != TINYI_DOC_STRING && input->type != TINYI_DOC_LIST))
        (void)tinyi_ask_fail(a, 400, "input", "invalid_type", "input must be a text or a list of items");
    if (a->status) return;
    if (system)
        tinyi_style_say(a, messages, tinyi_style_name("system"), tinyi_style_words(a, system, "instructions"), NULL);
    if (input->type == TINYI_DOC_STRING) tinyi_style_say(a, messages, tinyi_style_name("user"), *input, NULL);
    else
        for (i = 0; i < input->u.list->n && !a->status; i++) tinyi_style_item(a, messages, &input->u.list->item[i]);
    if (text && text->type != TINYI_DOC_MAP)
        (void)tinyi_ask_fail(a, 400, "text", "invalid_type", "text must be an object");
    tinyi_ask_only(a, text, "text", " format ");
    if (type && tinyi_tv_is(type, "json_schema")) { /* name and schema stand in the format itself */
        static const char *const names[4] = { "name", "description", "schema", "strict" };
        tinyi_tv schema = tinyi_tv_map(&a->m);
        one = tinyi_tv_map(&a->m);
        if (a->m.status) return;
        tinyi_ask_only(a, format, "text.format", " type name description schema strict ");
        for (i = 0; i < TINYI_COUNT(names); i++) {
            const tinyi_tv *v = tinyi_ask_member(a, format, names[i]);
            if (v) tinyi_style_set(a, &schema, names[i], *v);
        }
        tinyi_style_set(a, &one, "type", *type);
        tinyi_style_set(a, &one, "json_schema", schema);
        tinyi_style_set(a, root, "response_format", one);
    } else if (format) tinyi_style_set(a, root, "response_format", *format);
    tinyi_style_tools(a, root, "parameters");
    tinyi_style_move(a, root, "max_output_tokens", "max_tokens");
    tinyi_style_move(a, root, "parallel_tool_calls", "parallel_tool_calls");
}

int tinyi_style_read(tinyi_ask *a)
{
    tinyi_tv root = tinyi_tv_map(&a->m), messages = tinyi_tv_list(&a->m, 8);
    if (!tinyi_ask_doc(a)) return 0;
    if (a->style == TINYI_STYLE_MESSAGES) tinyi_style_read_messages(a, &root, &messages);
    else tinyi_style_read_response(a, &root, &messages);
    tinyi_style_choice(a, &root);
    tinyi_style_move(a, &root, "stream", "stream");
    tinyi_style_move(a, &root, "temperature", "temperature");
    tinyi_style_move(a, &root, "top_p", "top_p");
    tinyi_style_move(a, &root, "seed", "seed");
    tinyi_style_set(a, &root, "messages", messages);
    if (!tinyi_ask_doc(a) || a->status) return 0;
    a->root = root;
    if (a->where != TINYI_AT_COUNT) a->where = TINYI_AT_CHAT;
    return 1;
}

/* ---- answers ---- */

/* The line that names an event, and the begin of its object. */
static void tinyi_style_event(tinyi_job *j, const char *type)
{
    tllm_api *w = j->api;
    tinyi_api_start(w);
    tinyi_api_put(w, "event: ");
    tinyi_api_put(w, type);
    tinyi_api_put(w, "\ndata: {\"type\":\"");
    tinyi_api_put(w, type);
    tinyi_api_put(w, "\"");
    if (j->style == TINYI_STYLE_RESPONSES) {
        tinyi_api_put(w, ",\"sequence_number\":");
        tinyi_api_int(w, j->n_events++);
    }
}
static void tinyi_style_send(tinyi_job *j)
{
    tinyi_api_put(j->api, "}");
    tinyi_job_event(j);
}
static void tinyi_style_place(tinyi_job *j, const char *name, int i)
{
    tinyi_api_put(j->api, ",\"");
    tinyi_api_put(j->api, name);
    tinyi_api_put(j->api, "\":");
    tinyi_api_int(j->api, i);
}
static void tinyi_style_id(tinyi_job *j, const char *name, const char *kind, int i)
{
    char id[80];
    (void)snprintf(id, sizeof id, ",\"%s\":\"%s_%s_%d\"", name, kind, j->id + strcspn(j->id, "_") + 1, i);
    tinyi_api_put(j->api, id);
}

static int tinyi_style_is_cut(const tinyi_choice *c) { return c->end == TLLM_END_LENGTH || c->end == TLLM_END_CONTEXT; }

/* -- /v1/messages -- */

static void tinyi_messages_usage(tinyi_choice *c)
{
    tllm_api *w = c->job->api;
    tinyi_api_put(w, "\"usage\":{\"input_tokens\":");
    tinyi_api_int(w, (int64_t)(c->n_prompt - c->n_cached));
    tinyi_api_put(w, ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
    tinyi_api_int(w, (int64_t)c->n_cached);
    tinyi_api_put(w, ",\"output_tokens\":");
    tinyi_api_int(w, (int64_t)c->n_made);
    tinyi_api_put(w, "}");
}

static void tinyi_messages_head(tinyi_choice *c)
{
    tllm_api *w = c->job->api;
    tinyi_api_put(w, "{\"id\":");
    tinyi_api_quote(w, c->job->id, strlen(c->job->id));
    tinyi_api_put(w, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    tinyi_api_quote(w, w->name, strlen(w->name));
}

static void tinyi_messages_reason(tinyi_choice *c)
{
    tllm_api *w = c->job->api;
    tinyi_api_put(w, "\"stop_reason\":");
    tinyi_api_put(w, c->n_calls                  ? "\"tool_use\""
                     : c->end == TLLM_END_STRING ? "\"stop_sequence\""
                     : tinyi_style_is_cut(c)     ? "\"max_tokens\""
                                                 : "\"end_turn\"");
    tinyi_api_put(w, ",\"stop_sequence\":");
    if (c->end == TLLM_END_STRING) tinyi_api_quote(w, c->stop.at, c->stop.n);
    else tinyi_api_put(w, "null");
}

static void tinyi_messages_tool(tllm_api *w, const tinyi_tv *name)
{
    char id[40];
    tinyi_call_id(w, "toolu", id);
    tinyi_api_put(w, "{\"type\":\"tool_use\",\"id\":");
    tinyi_api_quote(w, id, strlen(id));
    tinyi_api_put(w, ",\"name\":");
    tinyi_api_quote(w, name->u.s, name->n);
    tinyi_api_put(w, ",\"input\":");
}

static void tinyi_messages_answer(tinyi_choice *c, tinyi_calls *calls)
{
    tllm_api *w = c->job->api;
    size_t i;
    tinyi_messages_head(c);
    tinyi_api_put(w, ",\"content\":[");
    if (calls->content || !calls->n) {
        tinyi_api_put(w, "{\"type\":\"text\",\"text\":");
        tinyi_api_quote(w, c->text.at, calls->content);
        tinyi_api_put(w, "}");
    }
    for (i = 0; i < calls->n; i++) {
        tinyi_tv name, arguments;
        tinyi_calls_at(calls, i, &name, &arguments);
        if (i || calls->content) tinyi_api_put(w, ",");
        tinyi_messages_tool(w, &name);
        (void)tinyi_doc_put(&w->w, arguments.u.s, arguments.n);
        tinyi_api_put(w, "}");
    }
    tinyi_api_put(w, "],");
    tinyi_messages_reason(c);
    tinyi_api_put(w, ",");
    tinyi_messages_usage(c);
    tinyi_job_tail(c->job);
    tinyi_api_put(w, "}\n");
}

static void tinyi_messages_begin(tinyi_choice *c)
{
    tinyi_job *j = c->job;
    if (c->role_sent) return;
    c->role_sent = 1;
    tinyi_style_event(j, "message_start");
    tinyi_api_put(j->api, ",\"message\":");
    tinyi_messages_head(c);
    tinyi_api_put(j->api, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    tinyi_messages_usage(c);
    tinyi_api_put(j->api, "}");
    tinyi_style_send(j);
}

static void tinyi_messages_text(tinyi_choice *c, const char *text, size_t n)
{
    tinyi_job *j = c->job;
    tinyi_messages_begin(c);
    if (!n) return;
    if (!j->n_items) {
        j->n_items = 1;
        tinyi_style_event(j, "content_block_start");
        tinyi_api_put(j->api, ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
        tinyi_style_send(j);
    }
    tinyi_style_event(j, "content_block_delta");
    tinyi_api_put(j->api, ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":");
    tinyi_api_quote(j->api, text, n);
    tinyi_api_put(j->api, "}");
    tinyi_style_send(j);
}

static void tinyi_messages_finish(tinyi_choice *c, tinyi_calls *calls)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    size_t i;
    tinyi_messages_text(c, c->text.at + c->shown, calls->content - TINYI_MIN(c->shown, calls->content));
    if (j->n_items) {
        tinyi_style_event(j, "content_block_stop");
        tinyi_style_place(j, "index", 0);
        tinyi_style_send(j);
    }
    for (i = 0; i < calls->n; i++) {
        tinyi_tv name, arguments;
        tinyi_calls_at(calls, i, &name, &arguments);
        tinyi_style_event(j, "content_block_start");
        tinyi_style_place(j, "index", j->n_items);
        tinyi_api_put(w, ",\"content_block\":");
        tinyi_messages_tool(w, &name);
        tinyi_api_put(w, "{}}");
        tinyi_style_send(j);
        tinyi_style_event(j, "content_block_delta");
        tinyi_style_place(j, "index", j->n_items);
        tinyi_api_put(w, ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":");
        tinyi_api_quote(w, arguments.u.s, arguments.n);
        tinyi_api_put(w, "}");
        tinyi_style_send(j);
        tinyi_style_event(j, "content_block_stop");
        tinyi_style_place(j, "index", j->n_items++);
        tinyi_style_send(j);
    }
    tinyi_style_event(j, "message_delta");
    tinyi_api_put(w, ",\"delta\":{");
    tinyi_messages_reason(c);
    tinyi_api_put(w, "},");
    tinyi_messages_usage(c);
    tinyi_job_tail(j);
    tinyi_style_send(j);
    tinyi_style_event(j, "message_stop");
    tinyi_style_send(j);
}

/* -- /v1/responses -- */

/* An item of "output": i counts them. done: with what it holds. */
static void tinyi_response_message(tinyi_choice *c, int i, size_t n, int done)
{
    tllm_api *w = c->job->api;
    tinyi_api_put(w, "{\"type\":\"message\",\"role\":\"assistant\"");
    tinyi_style_id(c->job, "id", "msg", i);
    tinyi_api_put(w,
                  done ? ",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"annotations\":[],\"text\":"
                       : ",\"status\":\"in_progress\",\"content\":[]");
    if (done) {
        tinyi_api_quote(w, c->text.at, n);
        tinyi_api_put(w, "}]");
    }
    tinyi_api_put(w, "}");
}

static void tinyi_response_call(tinyi_choice *c, int i, const tinyi_tv *name, const tinyi_tv *arguments, int done)
{
    tllm_api *w = c->job->api;
    tinyi_api_put(w, "{\"type\":\"function_call\"");
    tinyi_style_id(c->job, "id", "fc", i);
    tinyi_style_id(c->job, "call_id", "call", i);
    tinyi_api_put(w, done ? ",\"status\":\"completed\",\"name\":" : ",\"status\":\"in_progress\",\"name\":");
    tinyi_api_quote(w, name->u.s, name->n);
    tinyi_api_put(w, ",\"arguments\":");
    tinyi_api_quote(w, arguments->u.s, done ? arguments->n : 0);
    tinyi_api_put(w, "}");
}

/* calls NULL: nothing is known yet */
static void tinyi_response_object(tinyi_choice *c, tinyi_calls *calls)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    const int cut = calls && tinyi_style_is_cut(c);
    size_t i;
    int k = 0;
    tinyi_api_put(w, "{\"id\":");
    tinyi_api_quote(w, j->id, strlen(j->id));
    tinyi_api_put(w, ",\"object\":\"response\",\"created_at\":");
    tinyi_api_int(w, j->created);
    tinyi_api_put(w, ",\"model\":");
    tinyi_api_quote(w, w->name, strlen(w->name));
    tinyi_api_put(w, !calls ? ",\"status\":\"in_progress\""
                     : cut  ? ",\"status\":\"incomplete\""
                            : ",\"status\":\"completed\"");
    tinyi_api_put(w, ",\"error\":null,\"incomplete_details\":");
    tinyi_api_put(w, cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    tinyi_api_put(
        w, ",\"instructions\":null,\"metadata\":{},\"tools\":[],\"tool_choice\":\"auto\",\"parallel_tool_calls\":");
    tinyi_api_put(w, j->parallel ? "true" : "false");
    tinyi_api_put(w, ",\"output\":[");
    if (calls && (calls->content || !calls->n)) tinyi_response_message(c, k++, calls->content, 1);
    for (i = 0; calls && i < calls->n; i++) {
        tinyi_tv name, arguments;
        tinyi_calls_at(calls, i, &name, &arguments);
        if (k) tinyi_api_put(w, ",");
        tinyi_response_call(c, k++, &name, &arguments, 1);
    }
    tinyi_api_put(w, "],\"usage\":");
    if (calls) {
        tinyi_api_put(w, "{\"input_tokens\":");
        tinyi_api_int(w, (int64_t)c->n_prompt);
        tinyi_api_put(w, ",\"input_tokens_details\":{\"cached_tokens\":");
        tinyi_api_int(w, (int64_t)c->n_cached);
        tinyi_api_put(w, "},\"output_tokens\":");
        tinyi_api_int(w, (int64_t)c->n_made);
        tinyi_api_put(w, ",\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":");
        tinyi_api_int(w, (int64_t)(c->n_prompt + c->n_made));
        tinyi_api_put(w, "}");
        tinyi_job_tail(j);
    } else tinyi_api_put(w, "null");
    tinyi_api_put(w, "}");
}

static void tinyi_response_event(tinyi_choice *c, const char *type, tinyi_calls *calls)
{
    tinyi_style_event(c->job, type);
    tinyi_api_put(c->job->api, ",\"response\":");
    tinyi_response_object(c, calls);
    tinyi_style_send(c->job);
}

static void tinyi_response_text(tinyi_choice *c, const char *text, size_t n)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    if (!c->role_sent++) {
        tinyi_response_event(c, "response.created", NULL);
        tinyi_response_event(c, "response.in_progress", NULL);
    }
    if (!n) return;
    if (!j->n_items) {
        j->n_items = 1;
        tinyi_style_event(j, "response.output_item.added");
        tinyi_api_put(w, ",\"output_index\":0,\"item\":");
        tinyi_response_message(c, 0, 0, 0);
        tinyi_style_send(j);
        tinyi_style_event(j, "response.content_part.added");
        tinyi_style_id(j, "item_id", "msg", 0);
        tinyi_api_put(w,
                      ",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"annotations\":[],"
                      "\"text\":\"\"}");
        tinyi_style_send(j);
    }
    tinyi_style_event(j, "response.output_text.delta");
    tinyi_style_id(j, "item_id", "msg", 0);
    tinyi_api_put(w, ",\"output_index\":0,\"content_index\":0,\"logprobs\":[],\"delta\":");
    tinyi_api_quote(w, text, n);
    tinyi_style_send(j);
}

static void tinyi_response_finish(tinyi_choice *c, tinyi_calls *calls)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    size_t i;
    tinyi_response_text(c, c->text.at + c->shown, calls->content - TINYI_MIN(c->shown, calls->content));
    if (j->n_items) {
        tinyi_style_event(j, "response.output_text.done");
        tinyi_style_id(j, "item_id", "msg", 0);
        tinyi_api_put(w, ",\"output_index\":0,\"content_index\":0,\"logprobs\":[],\"text\":");
        tinyi_api_quote(w, c->text.at, calls->content);
        tinyi_style_send(j);
        tinyi_style_event(j, "response.content_part.done");
        tinyi_style_id(j, "item_id", "msg", 0);
        tinyi_api_put(w,
                      ",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"annotations\":[],"
                      "\"text\":");
        tinyi_api_quote(w, c->text.at, calls->content);
        tinyi_api_put(w, "}");
        tinyi_style_send(j);
        tinyi_style_event(j, "response.output_item.done");
        tinyi_api_put(w, ",\"output_index\":0,\"item\":");
        tinyi_response_message(c, 0, calls->content, 1);
        tinyi_style_send(j);
    }
    for (i = 0; i < calls->n; i++, j->n_items++) {
        tinyi_tv name, arguments;
        tinyi_calls_at(calls, i, &name, &arguments);
        tinyi_style_event(j, "response.output_item.added");
        tinyi_style_place(j, "output_index", j->n_items);
        tinyi_api_put(w, ",\"item\":");
        tinyi_response_call(c, j->n_items, &name, &arguments, 0);
        tinyi_style_send(j);
        tinyi_style_event(j, "response.function_call_arguments.delta");
        tinyi_style_id(j, "item_id", "fc", j->n_items);
        tinyi_style_place(j, "output_index", j->n_items);
        tinyi_api_put(w, ",\"delta\":");
        tinyi_api_quote(w, arguments.u.s, arguments.n);
        tinyi_style_send(j);
        tinyi_style_event(j, "response.function_call_arguments.done");
        tinyi_style_id(j, "item_id", "fc", j->n_items);
        tinyi_style_place(j, "output_index", j->n_items);
        tinyi_api_put(w, ",\"name\":");
        tinyi_api_quote(w, name.u.s, name.n);
        tinyi_api_put(w, ",\"arguments\":");
        tinyi_api_quote(w, arguments.u.s, arguments.n);
        tinyi_style_send(j);
        tinyi_style_event(j, "response.output_item.done");
        tinyi_style_place(j, "output_index", j->n_items);
        tinyi_api_put(w, ",\"item\":");
        tinyi_response_call(c, j->n_items, &name, &arguments, 1);
        tinyi_style_send(j);
    }
    tinyi_response_event(c, tinyi_style_is_cut(c) ? "response.incomplete" : "response.completed", calls);
}

/* ---- by style ---- */

void tinyi_style_answer(tinyi_choice *c)
{
    tinyi_calls calls;
    tinyi_choice_read_calls(c, &calls);
    if (c->job->style == TINYI_STYLE_MESSAGES) tinyi_messages_answer(c, &calls);
    else {
        tinyi_response_object(c, &calls);
        tinyi_api_put(c->job->api, "\n");
    }
    tinyi_doc_end(&calls.m);
}

void tinyi_style_text(tinyi_choice *c, const char *text, size_t n)
{
    if (c->job->style == TINYI_STYLE_MESSAGES) tinyi_messages_text(c, text, n);
    else tinyi_response_text(c, text, n);
}

void tinyi_style_finish(tinyi_choice *c, tinyi_calls *calls)
{
    if (c->job->style == TINYI_STYLE_MESSAGES) tinyi_messages_finish(c, calls);
    else tinyi_response_finish(c, calls);
}
