/* src/llm/serve/prompt.c - from messages, texts and tokens to the tokens of a prompt
 *
 * Messages go through the template of the model. If the last one is a text of the assistant, the answer continues it:
 * the template runs over the messages before it, and its text begins the answer, so that every template serves. */
#include "llm/serve/api_inside.h"
#include "llm/token/parts_inside.h"
#include <stdio.h>
#include <string.h>

int tinyi_ask_encode(tinyi_ask *a, const char *text, size_t n, int chat, tllm_tokens *t)
{
    tllm_api *api = a->api;
    const tinyi_replay *said = chat && !api->encode_again && !t->n ? tinyi_replay_find(api, text, n) : NULL;
    const size_t n_bos = api->bos ? strlen(api->bos) : 0, before = t->n;
    /* most templates write BOS themselves */
    const int begins = chat && n_bos && n >= n_bos && !memcmp(text, api->bos, n_bos);
    tiny_status st;
    if (said) {                             /* the rest comes after these tokens */
        st = tinyi_token_reserve(api->ctx, t, said->n_tokens);
        if (!st) {
            memcpy(t->id, said->token, said->n_tokens * sizeof *t->id);
            t->n = said->n_tokens;
            st = tllm_encode(api->ctx, api->vocab, text + said->n, n - said->n,
                             TLLM_ENCODE_SPECIAL | TINYI_ENCODE_AFTER, t);
        }
        return st ? tinyi_ask_status(a, st, "messages") : 1;
    }
    st = tllm_encode(api->ctx, api->vocab, text, n, TLLM_ENCODE_SPECIAL | (begins ? 0 : TLLM_ENCODE_ENDS), t);
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
tinyi_tv tinyi_ask_json(tinyi_ask *a, const tinyi_tv *v)
{
    const tinyi_doc_form form = tinyi_api_form();
    const size_t start = a->m.n_out;
    (void)tinyi_tv_put_json(&a->m, v, &form);
    return tinyi_doc_take(&a->m, start);
}

/* The text of a list of parts, a line for each. */
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
        tinyi_ask_only(a, part, "a part of a message", " type text ");
        if (i) (void)tinyi_doc_put(&a->m, "\n", 1);
        (void)tinyi_doc_put(&a->m, text->u.s, text->n);
    }
    *content = tinyi_doc_take(&a->m, start);
    return tinyi_ask_doc(a);
}

/* Does the template name this member? In a loop over all members it could show others, too: they get a warning that is
 * not needed. The template is searched for a few names only, however many members a client sends. */
static int tinyi_ask_is_read(tinyi_ask *a, const tinyi_tv *key, const char *shown)
{
    static const char letters[] = "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *source = a->api->chat_source;
    size_t i, n;
    int k;
    for (k = 0; k < a->n_read; k++)
        if (a->read[k].n == key->n && !memcmp(a->read[k].u.s, key->u.s, key->n)) return 1;
    for (k = 0; k < TINYI_MIN(a->n_idle, TINYI_ASK_IDLE); k++)
        if (!strcmp(a->idle[k], shown)) return 0;
    if (a->n_idle > TINYI_ASK_IDLE || a->n_read == TINYI_ASK_IDLE) return 0;
    n = source && key->n && TINYI_HAS(TEMPLATES) ? strlen(source) : 0;
    for (i = 0; n && i + key->n <= n; i++) {
        const char *at = source + i, *end = at + key->n;
        if (memcmp(at, key->u.s, key->n) || (i && strchr(letters, at[-1])) || (*end && strchr(letters, *end)))
            continue;
        a->read[a->n_read++] = *key;
        return 1;
    }
    return 0;
}

/* As tinyi_ask_only, for what the template gets as a whole. */
static void tinyi_ask_only_read(tinyi_ask *a, const tinyi_tv *map, const char *part, const char *known)
{
    size_t i;
    for (i = 0; map->type == TINYI_DOC_MAP && i < map->u.map->n; i++) {
        const tinyi_tpair *p = &map->u.map->pair[i];
        char shown[80], name[82];
        tinyi_doc_show(p->key.u.s, p->key.n, shown);
        (void)snprintf(name, sizeof name, " %s ", shown);
        if (p->value.type == TINYI_DOC_NONE || (!strchr(shown, ' ') && strstr(known, name))) continue;
        if (!tinyi_ask_is_read(a, &p->key, shown)) tinyi_ask_idle(a, &p->key, part);
    }
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
        /* the id ties a result to its call; so does the order of the messages */
        tinyi_ask_only_read(a, m, "a message", " role content tool_call_id ");
        for (k = 0; calls && calls->type == TINYI_DOC_LIST && k < calls->u.list->n; k++) {
            const tinyi_tv *f = tinyi_ask_member(a, &calls->u.list->item[k], "function");
            tinyi_tv *args =
                f && f->type == TINYI_DOC_MAP ? tinyi_map_find_text(&a->m, f->u.map, "arguments", 9) : NULL;
            tinyi_tv read;
            if (!f || !args || !tinyi_ask_member(a, f, "name"))
                return tinyi_ask_fail(a, 400, "messages", "invalid_value",
                                      "call %zu of message %zu has no function with a name and arguments", k, i);
            tinyi_ask_only_read(a, &calls->u.list->item[k], "a call", " id type index function ");
            tinyi_ask_only_read(a, f, "the function of a call", " name arguments ");
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
const tinyi_tv *tinyi_ask_tools(tinyi_ask *a, int *forced, const tinyi_tv **only)
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
        tinyi_ask_only(a, t, "a tool", " type function ");
        tinyi_ask_only(a, f, "a function", " name description parameters strict ");
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
        const tinyi_tv *f = tinyi_ask_member(a, choice, "function"), *name = f ? tinyi_ask_member(a, f, "name") : NULL,
                       *type = tinyi_ask_member(a, choice, "type");
        tinyi_ask_only(a, choice, "tool_choice", " type function ");
        tinyi_ask_only(a, f, "the function of tool_choice", " name ");
        if (type && !tinyi_tv_is(type, "function")) name = NULL;
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
const char *tinyi_ask_text(tinyi_ask *a, const tinyi_tv *v, const char *param)
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

/* The text of the assistant's last message, which the answer continues: it is taken out of the messages. NULL: the
 * answer is a message of its own. */
static const tinyi_tv *tinyi_ask_continued(tinyi_ask *a, tinyi_tlist *messages)
{
    const int begins = tinyi_ask_get(a, "add_generation_prompt") != NULL,
              asked = tinyi_ask_get(a, "continue_final_message") != NULL,
              wanted = tinyi_ask_flag(a, "continue_final_message", !begins);
    tinyi_tv *last = &messages->item[messages->n - 1];
    const tinyi_tv *role = tinyi_ask_member(a, last, "role"), *text = tinyi_ask_member(a, last, "content");
    if (a->status || !wanted) return NULL;
    if (asked && tinyi_ask_flag(a, "add_generation_prompt", 0)) {
        (void)tinyi_ask_fail(a, 400, "continue_final_message", "invalid_value",
                             "continue_final_message and add_generation_prompt exclude each other");
        return NULL;
    }
    if (messages->n > 1 && role && tinyi_tv_is(role, "assistant") && text && text->n &&
        !tinyi_ask_member(a, last, "tool_calls")) {
        messages->n--;
        return text;
    }
    if (asked)
        (void)tinyi_ask_fail(a, 400, "continue_final_message", "invalid_value",
                             "the last message is not a text of the assistant after another message");
    return NULL;
}

int tinyi_ask_prompt(tinyi_ask *a, char **text, size_t *n)
{
    tllm_api *api = a->api;
    const tinyi_tv *messages = tinyi_ask_get(a, "messages"), *more = tinyi_ask_get(a, "chat_template_kwargs"), *only;
    const tinyi_tv *tools, *begun;
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
    begun = tinyi_ask_continued(a, messages->u.list);
    if (a->status) return 0;
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
    v.add_generation_prompt = begun || tinyi_ask_flag(a, "add_generation_prompt", 1);
    v.bos_token = api->bos ? api->bos : "";
    v.eos_token = api->eos ? api->eos : "";
    if (a->status) return 0;
    st = tllm_template_run(api->ctx, api->chat, &v, text, n);
    if (st) return tinyi_ask_status(a, st, "messages");
    if (begun) {
        char *joined = (char *)tinyi_alloc(api->ctx, *n + begun->n + 1, 1);
        if (!joined) return tinyi_ask_status(a, tiny_ctx_status(api->ctx), NULL);
        memcpy(joined, *text, *n);
        memcpy(joined + *n, begun->u.s, begun->n);
        joined[*n + begun->n] = 0;
        tiny_free(api->ctx, *text);
        *text = joined;
        *n += begun->n;
    }
    return 1;
}
/* ---- prompts that are no talk ---- */

/* Tokens and texts in one list: of /completion. */
static void tinyi_ask_mixed(tinyi_ask *a, const tinyi_tv *list, tllm_tokens *t)
{
    const int64_t n_vocab = (int64_t)tllm_vocab_size(a->api->vocab);
    size_t i;
    for (i = 0; i < list->u.list->n && !a->status; i++) {
        const tinyi_tv *v = &list->u.list->item[i];
        if (v->type == TINYI_DOC_STRING && !i) (void)tinyi_ask_encode(a, v->u.s, v->n, 0, t);
        else if (v->type == TINYI_DOC_STRING) {
            const tiny_status st = tllm_encode(a->api->ctx, a->api->vocab, v->u.s, v->n, TLLM_ENCODE_SPECIAL, t);
            if (st) (void)tinyi_ask_status(a, st, "prompt");
        } else if (v->type == TINYI_DOC_INT && v->u.i >= 0 && v->u.i < n_vocab)
            (void)tinyi_ask_add(a, t, (int32_t)v->u.i);
        else
            (void)tinyi_ask_fail(a, 400, "prompt", "invalid_value", "item %zu of prompt is neither a token nor a text",
                                 i);
    }
}

/* A prompt of /completion may be an object with its text. */
static const tinyi_tv *tinyi_ask_prompt_text(tinyi_ask *a, const tinyi_tv *v)
{
    const tinyi_tv *text;
    if (!a->native || !v || v->type != TINYI_DOC_MAP) return v;
    text = tinyi_ask_member(a, v, "prompt_string");
    if (v->u.map->n == 1 && text && text->type == TINYI_DOC_STRING) return text;
    (void)tinyi_ask_fail(a, 400, "prompt", "unsupported_content",
                         "a prompt that is an object must have the text prompt_string, and nothing else");
    return v;
}

/* prompt: a text, a list of texts, a list of tokens, a list of lists of tokens */
void tinyi_ask_prompt_list(tinyi_ask *a, tinyi_ask_prompts *p)
{
    const tinyi_tv *v = tinyi_ask_prompt_text(a, tinyi_ask_get(a, "prompt"));
    size_t i;
    int many;
    if (!v || (v->type != TINYI_DOC_STRING && (v->type != TINYI_DOC_LIST || !v->u.list->n))) {
        (void)tinyi_ask_fail(a, 400, "prompt", "invalid_type",
                             "prompt must be a text, a list of texts, a list of tokens, or a list of such lists");
        return;
    }
    many = v->type == TINYI_DOC_LIST && v->u.list->item[0].type != TINYI_DOC_INT;
    for (i = 0; many && a->native && i < v->u.list->n; i++) many = v->u.list->item[i].type != TINYI_DOC_INT;
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
        const tinyi_tv *one = many ? tinyi_ask_prompt_text(a, &v->u.list->item[i]) : v;
        p->text[i] = one->type == TINYI_DOC_STRING ? one : NULL;
        if (p->text[i]) (void)tinyi_ask_encode(a, one->u.s, one->n, 0, &p->at[i]);
        else if (a->native && one->type == TINYI_DOC_LIST) tinyi_ask_mixed(a, one, &p->at[i]);
        else (void)tinyi_ask_tokens(a, one, "prompt", &p->at[i]);
    }
}

int tinyi_ask_add(tinyi_ask *a, tllm_tokens *t, int32_t id)
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

int tinyi_ask_add_text(tinyi_ask *a, tllm_tokens *t, const tinyi_tv *v, const char *param)
{
    tiny_status st = v ? tllm_encode(a->api->ctx, a->api->vocab, v->u.s, v->n, 0, t) : TINY_OK;
    return st ? tinyi_ask_status(a, st, param) : 1;
}

/* The text between two others: the tokens that the model was trained with, around the texts of this request. Each
 * earlier file comes first, with its name, if the vocabulary has tokens for files. */
void tinyi_ask_infill(tinyi_ask *a, tllm_tokens *t)
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
