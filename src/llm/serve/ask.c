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

void tinyi_api_warnings(tinyi_ask *a)
{
    if (!a->warnings.n) return;
    tinyi_api_put(a->api, ",\"warnings\":[");
    (void)tinyi_doc_put(&a->api->w, a->warnings.at, a->warnings.n);
    tinyi_api_put(a->api, "]");
}

void tinyi_ask_end(tinyi_ask *a)
{
    tinyi_doc_end(&a->m);
    tllm_bytes_free(a->api->ctx, &a->warnings);
}

/* ---- fields ---- */

#define TINYI_AT_MADE (TINYI_AT_CHAT | TINYI_AT_TEXT | TINYI_AT_INFILL | TINYI_AT_NATIVE)
#define TINYI_AT_NATIVES (TINYI_AT_INFILL | TINYI_AT_NATIVE)
#define TINYI_AT_OTHER (TINYI_AT_RESPONSES | TINYI_AT_MESSAGES | TINYI_AT_COUNT)
#define TINYI_AT_ANY 4095u

static const struct {
    const char *name;
    unsigned where;
    int idle;
} tinyi_ask_fields[] = {
    { "model", TINYI_AT_ANY, 0 },
    { "messages", TINYI_AT_CHAT | TINYI_AT_TEMPLATE | TINYI_AT_MESSAGES | TINYI_AT_COUNT, 0 },
    { "prompt", TINYI_AT_TEXT | TINYI_AT_NATIVES, 0 },
    { "input_prefix", TINYI_AT_INFILL, 0 },
    { "input_suffix", TINYI_AT_INFILL, 0 },
    { "input_extra", TINYI_AT_INFILL, 0 },
    { "n_predict", TINYI_AT_MADE, 0 },
    { "n_probs", TINYI_AT_NATIVES, 0 },
    { "return_tokens", TINYI_AT_NATIVES, 0 },
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
    { "continue_final_message", TINYI_AT_CHAT | TINYI_AT_TEMPLATE, 0 },
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
    { "lora", TINYI_AT_MADE, 0 },
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
    { "id_slot", TINYI_AT_MADE, 1 },
    { "timings_per_token", TINYI_AT_MADE | TINYI_AT_RESPONSES, 1 },
    { "return_progress", TINYI_AT_MADE | TINYI_AT_RESPONSES, 1 },
};

int tinyi_ask_read(tinyi_ask *a, const char *body, size_t n)
{
    size_t i, k;
    a->m.ctx = a->api->ctx;
    a->m.what = "request";
    a->m.max_steps = UINT64_C(1) << 30;
    a->m.max_held = a->m.max_out = TINYI_ASK_HELD;
    a->native = (a->where & TINYI_AT_NATIVES) != 0;
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
void tinyi_ask_idle(tinyi_ask *a, const tinyi_tv *key, const char *part)
{
    char shown[80];
    int k;
    tinyi_doc_show(key->u.s, key->n, shown);
    for (k = 0; k < TINYI_MIN(a->n_idle, TINYI_ASK_IDLE); k++)
        if (!strcmp(a->idle[k], shown)) return;
    if (a->n_idle > TINYI_ASK_IDLE) return;
    if (a->n_idle < TINYI_ASK_IDLE) {
        memcpy(a->idle[a->n_idle], shown, sizeof shown);
        tinyi_ask_warn(a, "%s of %s has no effect on this server", shown, part);
    } else tinyi_ask_warn(a, "and other members that have no effect on this server");
    a->n_idle++;
}
void tinyi_ask_only(tinyi_ask *a, const tinyi_tv *map, const char *part, const char *known)
{
    size_t i;
    for (i = 0; map && map->type == TINYI_DOC_MAP && i < map->u.map->n; i++) {
        const tinyi_tpair *p = &map->u.map->pair[i];
        char shown[80], name[82];
        tinyi_doc_show(p->key.u.s, p->key.n, shown);
        (void)snprintf(name, sizeof name, " %s ", shown);
        if (p->value.type != TINYI_DOC_NONE && (strchr(shown, ' ') || !strstr(known, name)))
            tinyi_ask_idle(a, &p->key, part);
    }
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

/* ---- how the answer is made ---- */

typedef struct tinyi_ask_how {
    tllm_request r;
    tllm_step chain[10];
    const char *stop[TINYI_ASK_STOPS];
    tllm_bias *bias;
    tllm_tool_form form;
    int probs;                              /* n_probs was asked for */
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

/* The tokens of an item of logit_bias: a number, in an object as a text of digits; of /completion also a text. */
static void tinyi_ask_bias_tokens(tinyi_ask *a, const tinyi_tv *v, tllm_tokens *t)
{
    int64_t token = -1;
    size_t k;
    t->n = 0;
    if (v->type == TINYI_DOC_INT) token = v->u.i;
    else if (v->type == TINYI_DOC_STRING) {
        for (k = 0, token = 0; k < v->n && k < 10 && v->u.s[k] >= '0' && v->u.s[k] <= '9'; k++)
            token = 10 * token + (v->u.s[k] - '0');
        if (!k || k < v->n) token = -1;
        if (token < 0 && a->native) (void)tinyi_ask_add_text(a, t, v, "logit_bias");
    }
    if (token >= 0 && token < (int64_t)tllm_vocab_size(a->api->vocab)) (void)tinyi_ask_add(a, t, (int32_t)token);
}

/* {"123": -100} or [[123, -100]]; of /completion also [["text", -100]], and false for "never" */
static void tinyi_ask_bias(tinyi_ask *a, tinyi_ask_how *h)
{
    const tinyi_tv *v = tinyi_ask_get(a, "logit_bias");
    const size_t n = !v ? 0 : v->type == TINYI_DOC_MAP ? v->u.map->n : v->type == TINYI_DOC_LIST ? v->u.list->n : 0;
    tllm_tokens t;
    size_t i, k;
    if (!v) return;
    if ((v->type != TINYI_DOC_MAP && v->type != TINYI_DOC_LIST) || n > TINYI_ASK_BIAS) {
        (void)tinyi_ask_fail(a, 400, "logit_bias", "invalid_type", "logit_bias must map at most %d tokens to numbers",
                             TINYI_ASK_BIAS);
        return;
    }
    memset(&t, 0, sizeof t);
    h->bias = (tllm_bias *)tinyi_doc_alloc(&a->m, TINYI_ASK_BIAS, sizeof *h->bias);
    for (i = 0; h->bias && i < n && !a->status; i++) {
        const tinyi_tv *pair = v->type == TINYI_DOC_LIST ? &v->u.list->item[i] : NULL, *value = NULL;
        double f = 0;
        if (!pair) {
            value = &v->u.map->pair[i].value;
            tinyi_ask_bias_tokens(a, &v->u.map->pair[i].key, &t);
        } else if (pair->type == TINYI_DOC_LIST && pair->u.list->n == 2) {
            value = &pair->u.list->item[1];
            tinyi_ask_bias_tokens(a, &pair->u.list->item[0], &t);
        }
        if (value && a->native && value->type == TINYI_DOC_BOOL && !value->u.i) f = -1e9;
        else if (!value || value->type == TINYI_DOC_BOOL || !tinyi_tv_number(value, &f) || !(f >= -1e9 && f <= 1e9))
            t.n = 0;
        if (!t.n)
            (void)tinyi_ask_fail(a, 400, "logit_bias", "invalid_value",
                                 "item %zu of logit_bias is not a token of the vocabulary and a number", i);
        if (h->r.n_bias + t.n > TINYI_ASK_BIAS)
            (void)tinyi_ask_fail(a, 400, "logit_bias", "invalid_value", "logit_bias has more than %d tokens",
                                 TINYI_ASK_BIAS);
        for (k = 0; k < t.n && !a->status; k++, h->r.n_bias++) {
            h->bias[h->r.n_bias].token = t.id[k];
            h->bias[h->r.n_bias].add = (float)f;
        }
        t.n = 0;
    }
    h->r.bias = h->bias;
    tllm_tokens_free(a->api->ctx, &t);
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
        const char *param = a->style == TINYI_STYLE_RESPONSES ? "text.format" : "response_format";
        const tinyi_tv *type = tinyi_ask_member(a, format, "type"), *s = NULL;
        if (type && tinyi_tv_is(type, "text")) {
            tinyi_ask_only(a, format, param, " type ");
            format = NULL;
        } else if (type && tinyi_tv_is(type, "json_object")) {
            tinyi_ask_only(a, format, param, " type schema ");
            s = tinyi_ask_member(a, format, "schema");
        } else if (type && tinyi_tv_is(type, "json_schema")) {
            s = tinyi_ask_member(a, format, "json_schema");
            tinyi_ask_only(a, format, param, " type json_schema ");
            tinyi_ask_only(a, s, "json_schema", " name description schema strict ");
            s = s ? tinyi_ask_member(a, s, "schema") : NULL;
            if (!s) (void)tinyi_ask_fail(a, 400, param, "invalid_value", "%s has no schema", param);
        } else
            (void)tinyi_ask_fail(a, 400, param, "invalid_value",
                                 "%s must have the type text, json_object, or json_schema with a schema", param);
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

/* [{"id": 0, "scale": 1}]: one adapter, since the engine takes one; those of scale 0 are none. Without a scale it has
 * its own weight. */
static void tinyi_ask_lora(tinyi_ask *a, tinyi_ask_how *h)
{
    const tllm_api *api = a->api;
    const tinyi_tv *v = tinyi_ask_get(a, "lora");
    size_t i, at = api->n_adapters ? 0 : SIZE_MAX;
    double weight = api->n_adapters ? (double)api->adapters[0].weight : 0;
    if (v) at = SIZE_MAX;
    if (v && v->type != TINYI_DOC_LIST)
        (void)tinyi_ask_fail(a, 400, "lora", "invalid_type", "lora must be a list of objects with id and scale");
    for (i = 0; v && v->type == TINYI_DOC_LIST && i < v->u.list->n && !a->status; i++) {
        const tinyi_tv *one = &v->u.list->item[i], *id = tinyi_ask_member(a, one, "id"),
                       *scale = tinyi_ask_member(a, one, "scale");
        double f = 0;
        tinyi_ask_only(a, one, "lora", " id scale ");
        if (!id || id->type != TINYI_DOC_INT || id->u.i < 0 || (uint64_t)id->u.i >= api->n_adapters)
            (void)tinyi_ask_fail(a, 400, "lora", "invalid_value",
                                 "item %zu of lora has no id of an adapter: this server has %zu of them", i,
                                 api->n_adapters);
        else if (!scale) f = (double)api->adapters[id->u.i].weight;
        else if (scale->type == TINYI_DOC_BOOL || !tinyi_tv_number(scale, &f) || !(f > -1e6 && f < 1e6))
            (void)tinyi_ask_fail(a, 400, "lora", "invalid_value", "the scale of item %zu of lora is not a number", i);
        if (a->status || (scale && f == 0)) continue;
        if (at != SIZE_MAX)
            (void)tinyi_ask_fail(a, 400, "lora", "unsupported", "a request has one adapter at most");
        at = (size_t)id->u.i;
        weight = f;
    }
    if (at == SIZE_MAX || a->status) return;
    h->r.adapter = api->adapters[at].adapter;
    h->r.adapter_weight = (float)weight;
}

static void tinyi_ask_how_to(tinyi_ask *a, tinyi_ask_how *h)
{
    const int chat = a->where == TINYI_AT_CHAT;
    const tinyi_tv *text;
    memset(h, 0, sizeof *h);
    tinyi_ask_chain(a, h);
    tinyi_ask_bias(a, h);
    tinyi_ask_stops(a, h);
    tinyi_ask_lora(a, h);
    if (!a->status) tinyi_ask_forms(a, h);
    h->r.past_end = tinyi_ask_flag(a, "ignore_eos", 0);
    if (h->r.past_end && (h->r.schema || h->r.gbnf))
        tinyi_ask_warn(a, "ignore_eos has no effect: a grammar, a schema or a call that is forced ends the text");
    h->r.priority = (int)tinyi_ask_whole(a, "priority", -1000000, 1000000, 0);
    if (chat) {
        h->r.logprobs = tinyi_ask_flag(a, "logprobs", 0);
        h->r.n_top = (size_t)tinyi_ask_whole(a, "top_logprobs", 0, TINYI_ASK_TOP, 0);
        if (h->r.n_top && !h->r.logprobs)
            (void)tinyi_ask_fail(a, 400, "top_logprobs", "invalid_value", "top_logprobs needs logprobs: true");
    } else {
        const int64_t k = tinyi_ask_whole(a, "logprobs", 0, TINYI_ASK_TOP, -1),
                      probs = tinyi_ask_whole(a, "n_probs", 0, TINYI_ASK_TOP, 0);
        if (probs && k >= 0)
            (void)tinyi_ask_fail(a, 400, "n_probs", "invalid_value", "both n_probs and logprobs");
        h->probs = probs > 0;
        h->r.logprobs = k >= 0 || probs > 0;
        h->r.n_top = (size_t)TINYI_MAX(TINYI_MAX(k, probs), 0);
        text = tinyi_ask_get(a, "suffix");
        if (text && (text->type != TINYI_DOC_STRING || text->n))
            (void)tinyi_ask_fail(a, 400, "suffix", "unsupported", "text before a suffix is not supported");
        if (tinyi_ask_whole(a, "best_of", 1, INT32_MAX, 1) > tinyi_ask_whole(a, "n", 1, TINYI_API_CHOICES, 1))
            (void)tinyi_ask_fail(a, 400, "best_of", "unsupported", "best_of larger than n is not supported");
    }
}

/* ---- submitting ---- */

static int tinyi_ask_fits(tinyi_ask *a, const tllm_tokens *t)
{
    const size_t context = (size_t)tllm_engine_context(a->api->engine);
    const char *param = a->where == TINYI_AT_CHAT ? "messages" : "prompt";
    if (!t->n) return tinyi_ask_fail(a, 400, param, "invalid_value", "the prompt has no tokens");
    if (t->n < context) return 1;
    (void)snprintf(a->more, sizeof a->more, ",\"n_prompt_tokens\":%llu,\"n_ctx\":%llu", (unsigned long long)t->n,
                   (unsigned long long)context);
    return tinyi_ask_fail(a, 400, param, "context_length_exceeded",
                          "the prompt has %zu tokens, which exceeds the available context size of %zu tokens, of which "
                          "an answer needs one", t->n, context);
}

/* most tokens of the answer, by any of its names; -1: the request does not say */
static int64_t tinyi_ask_most(tinyi_ask *a)
{
    static const char *const names[3] = { "max_tokens", "n_predict", "max_completion_tokens" };
    const char *first = NULL;
    int64_t most = -1;
    size_t i;
    for (i = 0; i < TINYI_COUNT(names); i++) {
        const int64_t k = tinyi_ask_whole(a, names[i], -1, INT32_MAX, -1);
        if (!tinyi_ask_get(a, names[i])) continue;
        if (first && k != most)
            (void)tinyi_ask_fail(a, 400, names[i], "invalid_value", "%s and %s differ: they mean the same", first,
                                 names[i]);
        first = names[i];
        most = k;
    }
    return most;
}

/* talk: the text of the prompt of a chat, which the job takes over with its tokens; or NULL */
static void tinyi_ask_submit(tinyi_ask *a, tinyi_ask_how *h, tinyi_ask_prompts *p, char **talk, size_t n_talk)
{
    const int64_t n = tinyi_ask_whole(a, "n", 1, TINYI_API_CHOICES, 1);
    const tinyi_tv *options = tinyi_ask_get(a, "stream_options"), *seed = tinyi_ask_get(a, "seed"), *usage;
    const int64_t most = tinyi_ask_most(a);
    const int stream = tinyi_ask_flag(a, "stream", 0), echo = tinyi_ask_flag(a, "echo", 0);
    char error[400];
    tinyi_job *j;
    size_t i;
    if (seed && seed->type != TINYI_DOC_INT)
        (void)tinyi_ask_fail(a, 400, "seed", "invalid_type", "seed must be a whole number");
    if (stream && echo && h->r.logprobs)
        (void)tinyi_ask_fail(a, 400, "echo", "unsupported", "echo with logprobs is not streamed: set stream to false");
    usage = options ? tinyi_ask_member(a, options, "include_usage") : NULL;
    if (options && options->type != TINYI_DOC_MAP)
        (void)tinyi_ask_fail(a, 400, "stream_options", "invalid_type", "stream_options must be an object");
    if (usage && usage->type != TINYI_DOC_BOOL)
        (void)tinyi_ask_fail(a, 400, "stream_options", "invalid_type", "include_usage must be true or false");
    if (options && !stream) tinyi_ask_warn(a, "stream_options has no effect without stream");
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
    if (!a->api->encode_again) {
        j->talk = *talk;
        j->n_talk = n_talk;
        *talk = NULL;
    }
    j->native = a->native;
    j->gives_tokens = tinyi_ask_flag(a, "return_tokens", 0);
    j->probs = h->probs;
    j->ruled = h->r.schema || h->r.gbnf;
    j->echo = echo;
    j->logprobs = h->r.logprobs;
    j->n_top = (int)h->r.n_top;
    j->n_per_prompt = (size_t)n;
    j->tools = h->form;
    j->parallel = tinyi_ask_flag(a, "parallel_tool_calls", h->form != TLLM_TOOL_FORCED);
    j->include_usage = usage && usage->u.i;
    j->seed = tiny_rng_u64(&a->api->random) >> 11;  /* exact as a double, too */
    if (seed && seed->u.i != -1) j->seed = (uint64_t)seed->u.i;
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
    if (j->talk) {                          /* copied by the engine */
        j->asked = p->at[0];
        memset(&p->at[0], 0, sizeof p->at[0]);
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
    char *talk = NULL;
    size_t i, n_talk = 0;
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
        if (tinyi_ask_prompt(a, &talk, &n_talk)) (void)tinyi_ask_encode(a, talk, n_talk, 1, &one);
        p.at = &one;
        p.n = 1;
    } else if (!a->status && a->where == TINYI_AT_INFILL) {
        tinyi_ask_infill(a, &one);
        p.at = &one;
        p.text = &none;
        p.n = 1;
    } else if (!a->status) tinyi_ask_prompt_list(a, &p);
    if (a->native) a->where = TINYI_AT_TEXT;        /* answered as a completion */
    if (!a->status) (void)tinyi_ask_doc(a);
    if (!a->status) tinyi_ask_submit(a, h, &p, &talk, n_talk);
    tiny_free(a->api->ctx, talk);
    for (i = 0; i < p.n; i++) tllm_tokens_free(a->api->ctx, &p.at[i]);
}
