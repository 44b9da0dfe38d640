/* src/llm/serve/api.c - routes, access, and the endpoints that generate nothing */
#include "llm/serve/api_inside.h"
#include "llm/token/parts_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TINYI_API_ANSWER ((size_t)256 << 20) /* bytes of the longest answer */

/* ---- answers ---- */

int tinyi_api_append(tllm_api *a, tllm_bytes *b, const char *text, size_t n)
{
    if (tinyi_bytes_reserve(a->ctx, b, n)) return 0;
    if (n) memcpy(b->at + b->n, text, n);
    b->n += n;
    return 1;
}

tinyi_doc_form tinyi_api_form(void)
{
    tinyi_doc_form form;
    memset(&form, 0, sizeof form);
    form.indent = -1;
    form.item_mark = tinyi_tv_view(", ", 2);
    form.key_mark = tinyi_tv_view(": ", 2);
    return form;
}

void tinyi_api_start(tllm_api *a)
{
    a->w.status = TINY_OK;
    a->w.n_out = 0;
    a->w.steps = 0;
}
void tinyi_api_put(tllm_api *a, const char *text) { (void)tinyi_doc_put(&a->w, text, strlen(text)); }
void tinyi_api_int(tllm_api *a, int64_t i) { (void)tinyi_doc_put_int(&a->w, i); }

void tinyi_api_float(tllm_api *a, double f)
{
    /* JSON has no infinity: a token that cannot come has the logarithm -9999 */
    (void)tinyi_doc_put_float(&a->w, f != f ? 0 : f < -9999 ? -9999 : f > 1e300 ? 1e300 : f, 1);
}

void tinyi_api_quote(tllm_api *a, const char *text, size_t n)
{
    char clean[512];
    size_t at = 0, k, to;
    (void)tinyi_doc_put(&a->w, "\"", 1);
    while (at < n) {                        /* in pieces of whole characters, whose quotes are taken off again */
        const size_t start = a->w.n_out;
        for (to = 0; at < n && to < sizeof clean - 4; at += k) {
            k = tinyi_utf8_char((const unsigned char *)text + at, n - at);
            if (k) memcpy(clean + to, text + at, k);
            to += k ? k : tinyi_utf8_put(TINYI_REPLACEMENT, (unsigned char *)clean + to);
            if (!k) k = 1;
        }
        (void)tinyi_doc_put_quoted(&a->w, clean, to, 0, NULL);
        if (a->w.status) return;
        memmove(a->w.out + start, a->w.out + start + 1, a->w.n_out - start - 2);
        a->w.n_out -= 2;
    }
    (void)tinyi_doc_put(&a->w, "\"", 1);
}

void tinyi_api_send(tllm_api *a, tllm_reply *r, const char *extra, int status)
{
    if (a->w.status) {
        static const char says[] = "{\"error\":{\"message\":\"there is no memory for the answer\",\"type\":"
                                   "\"server_error\",\"param\":null,\"code\":\"no_memory\"}}\n";
        (void)tllm_reply_send(r, 503, "application/json", extra, says, sizeof says - 1);
        return;
    }
    (void)tllm_reply_send(r, status, "application/json", extra, a->w.out, a->w.n_out);
}

void tinyi_api_error_text(tllm_api *a, int status, const char *param, const char *code, const char *says,
                          const char *more)
{
    tinyi_api_put(a, "{\"error\":{\"message\":");
    tinyi_api_quote(a, says, strlen(says));
    tinyi_api_put(a, ",\"type\":");
    tinyi_api_put(a, !strcmp(code, "context_length_exceeded") ? "\"exceed_context_size_error\""
                     : status == 401                          ? "\"authentication_error\""
                     : status == 403                          ? "\"permission_error\""
                     : status == 404                          ? "\"not_found_error\""
                     : status >= 500                          ? "\"server_error\""
                                                              : "\"invalid_request_error\"");
    tinyi_api_put(a, ",\"param\":");
    if (param && *param) tinyi_api_quote(a, param, strlen(param));
    else tinyi_api_put(a, "null");
    tinyi_api_put(a, ",\"code\":");
    tinyi_api_quote(a, code, strlen(code));
    if (more) tinyi_api_put(a, more);
    tinyi_api_put(a, "}}");
}

static void tinyi_api_error_more(tllm_api *a, tllm_reply *r, const char *extra, int status, const char *param,
                                 const char *code, const char *says, const char *more)
{
    char head[400];
    (void)snprintf(head, sizeof head, "%s%s", extra ? extra : "",
                   status == 401   ? "WWW-Authenticate: Bearer\r\n"
                   : status == 503 ? "Retry-After: 1\r\n"
                                   : "");
    a->n_http_refused++;
    tinyi_api_start(a);
    tinyi_api_error_text(a, status, param, code, says, more);
    tinyi_api_put(a, "\n");
    tinyi_api_send(a, r, head, status);
}

void tinyi_api_error(tllm_api *a, tllm_reply *r, const char *extra, int status, const char *param, const char *code,
                     const char *says)
{
    tinyi_api_error_more(a, r, extra, status, param, code, says, NULL);
}

void tinyi_ask_refuse(tinyi_ask *a)
{
    tinyi_api_error_more(a->api, a->reply, a->extra, a->status, a->param, a->code, a->says, a->more);
}

/* ---- endpoints ---- */

static void tinyi_api_tokenize(tinyi_ask *a)
{
    tllm_api *api = a->api;
    const tinyi_tv *text = tinyi_ask_get(a, "content");
    const int ends = tinyi_ask_flag(a, "add_special", 0), special = tinyi_ask_flag(a, "parse_special", 1),
              pieces = tinyi_ask_flag(a, "with_pieces", 0);
    tllm_tokens t;
    tiny_status st;
    size_t i;
    if (!text || text->type != TINYI_DOC_STRING)
        (void)tinyi_ask_fail(a, 400, "content", "invalid_type", "content must be a text");
    if (a->status) return;
    memset(&t, 0, sizeof t);
    st = tllm_encode(api->ctx, api->vocab, text->u.s, text->n,
                     (unsigned)ends * TLLM_ENCODE_ENDS | (unsigned)special * TLLM_ENCODE_SPECIAL, &t);
    if (st) (void)tinyi_ask_status(a, st, "content");
    else {
        tinyi_api_start(api);
        tinyi_api_put(api, "{\"tokens\":[");
        for (i = 0; i < t.n; i++) {
            char piece[256];
            const size_t n = tllm_piece(api->vocab, t.id[i], TLLM_DECODE_SPECIAL, piece, sizeof piece);
            if (i) tinyi_api_put(api, ",");
            if (pieces) tinyi_api_put(api, "{\"id\":");
            tinyi_api_int(api, t.id[i]);
            if (!pieces) continue;
            tinyi_api_put(api, ",\"piece\":");
            tinyi_api_quote(api, piece, TINYI_MIN(n, sizeof piece));
            tinyi_api_put(api, "}");
        }
        tinyi_api_put(api, "]");
        tinyi_api_warnings(a);
        tinyi_api_put(api, "}\n");
        tinyi_api_send(api, a->reply, a->extra, 200);
    }
    tllm_tokens_free(api->ctx, &t);
}

static void tinyi_api_detokenize(tinyi_ask *a)
{
    tllm_api *api = a->api;
    const tinyi_tv *list = tinyi_ask_get(a, "tokens");
    tllm_tokens t;
    tllm_bytes text;
    tiny_status st;
    memset(&t, 0, sizeof t);
    memset(&text, 0, sizeof text);
    if (!list) (void)tinyi_ask_fail(a, 400, "tokens", "invalid_type", "tokens must be a list of tokens");
    else if (tinyi_ask_tokens(a, list, "tokens", &t)) {
        st = tllm_decode(api->ctx, api->vocab, t.id, t.n, TLLM_DECODE_SPECIAL, &text);
        if (st) (void)tinyi_ask_status(a, st, "tokens");
        else {
            tinyi_api_start(api);
            tinyi_api_put(api, "{\"content\":");
            tinyi_api_quote(api, text.at, text.n);
            tinyi_api_warnings(a);
            tinyi_api_put(api, "}\n");
            tinyi_api_send(api, a->reply, a->extra, 200);
        }
    }
    tllm_bytes_free(api->ctx, &text);
    tllm_tokens_free(api->ctx, &t);
}

static void tinyi_api_template(tinyi_ask *a)
{
    char *text = NULL;
    size_t n = 0;
    if (tinyi_ask_prompt(a, &text, &n)) {
        tinyi_api_start(a->api);
        tinyi_api_put(a->api, "{\"prompt\":");
        tinyi_api_quote(a->api, text, n);
        tinyi_api_warnings(a);
        tinyi_api_put(a->api, "}\n");
        tinyi_api_send(a->api, a->reply, a->extra, 200);
    }
    tiny_free(a->api->ctx, text);
}

static void tinyi_api_count_tokens(tinyi_ask *a)
{
    char *text = NULL;
    size_t n = 0;
    tllm_tokens t;
    memset(&t, 0, sizeof t);
    if (tinyi_ask_prompt(a, &text, &n) && tinyi_ask_encode(a, text, n, 1, &t)) {
        tinyi_api_start(a->api);
        tinyi_api_put(a->api, a->style == TINYI_STYLE_RESPONSES
                                  ? "{\"object\":\"response.input_tokens\",\"input_tokens\":"
                                  : "{\"input_tokens\":");
        tinyi_api_int(a->api, (int64_t)t.n);
        tinyi_api_warnings(a);
        tinyi_api_put(a->api, "}\n");
        tinyi_api_send(a->api, a->reply, a->extra, 200);
    }
    tllm_tokens_free(a->api->ctx, &t);
    tiny_free(a->api->ctx, text);
}

static void tinyi_api_model(tllm_api *a)
{
    tinyi_api_put(a, "{\"id\":");
    tinyi_api_quote(a, a->name, strlen(a->name));
    tinyi_api_put(a, ",\"object\":\"model\",\"created\":");
    tinyi_api_int(a, a->began);
    tinyi_api_put(a, ",\"owned_by\":\"tinyllm\",\"meta\":{\"arch\":");
    tinyi_api_quote(a, a->about.arch, strlen(a->about.arch));
    tinyi_api_put(a, ",\"n_vocab\":");
    tinyi_api_int(a, a->about.n_vocab);
    tinyi_api_put(a, ",\"n_embd\":");
    tinyi_api_int(a, a->about.n_embd);
    tinyi_api_put(a, ",\"n_ctx_train\":");
    tinyi_api_int(a, a->about.n_context);
    tinyi_api_put(a, ",\"n_ctx\":");
    tinyi_api_int(a, a->engine ? tllm_engine_context(a->engine) : tllm_session_context(a->embedder));
    tinyi_api_put(a, ",\"n_params\":");
    tinyi_api_int(a, (int64_t)a->about.n_params);
    tinyi_api_put(a, "}}");
}

static void tinyi_api_models(tllm_api *a, tllm_reply *r, const char *extra)
{
    tinyi_api_start(a);
    tinyi_api_put(a, "{\"object\":\"list\",\"data\":[");
    tinyi_api_model(a);
    tinyi_api_put(a, "]}\n");
    tinyi_api_send(a, r, extra, 200);
}

static void tinyi_api_props(tllm_api *a, tllm_reply *r, const char *extra)
{
    tllm_engine_slot slot;
    tinyi_api_start(a);
    tinyi_api_put(a, "{\"model\":");
    tinyi_api_model(a);
    tinyi_api_put(a, ",\"total_slots\":");
    tinyi_api_int(a, a->engine ? (int64_t)tllm_engine_slots(a->engine, &slot, 1) : 0);
    tinyi_api_put(a, ",\"defaults\":{\"temperature\":1.0,\"top_p\":1.0,\"top_k\":0,\"min_p\":0.0,\"max_tokens\":");
    if (a->n_most) tinyi_api_int(a, (int64_t)a->n_most);
    else tinyi_api_put(a, "null");
    tinyi_api_put(a, "},\"default_generation_settings\":{\"n_ctx\":");
    tinyi_api_int(a, a->engine ? tllm_engine_context(a->engine) : tllm_session_context(a->embedder));
    tinyi_api_put(a, ",\"params\":{\"temperature\":1.0,\"top_p\":1.0,\"top_k\":0,\"min_p\":0.0,\"n_predict\":");
    tinyi_api_int(a, a->n_most ? (int64_t)a->n_most : -1);
    tinyi_api_put(a, "}},\"bos_token\":");
    tinyi_api_quote(a, a->bos ? a->bos : "", a->bos ? strlen(a->bos) : 0);
    tinyi_api_put(a, ",\"eos_token\":");
    tinyi_api_quote(a, a->eos ? a->eos : "", a->eos ? strlen(a->eos) : 0);
    tinyi_api_put(a, ",\"chat_template\":");
    if (a->chat_source) tinyi_api_quote(a, a->chat_source, strlen(a->chat_source));
    else tinyi_api_put(a, "null");
    tinyi_api_put(a, "}\n");
    tinyi_api_send(a, r, extra, 200);
}

static void tinyi_api_slots(tllm_api *a, tllm_reply *r, const char *extra)
{
    static const char *const does[] = { "\"free\"", "\"prompt\"", "\"generating\"" };
    const size_t n = a->engine ? tllm_engine_slots(a->engine, NULL, 0) : 0;
    tllm_engine_slot *slot = (tllm_engine_slot *)tinyi_alloc(a->ctx, n, sizeof *slot);
    size_t i;
    tinyi_api_start(a);
    if (!slot) a->w.status = TINY_E_MEMORY;
    else if (n) (void)tllm_engine_slots(a->engine, slot, n);
    tinyi_api_put(a, "[");
    for (i = 0; slot && i < n; i++) {
        tinyi_api_put(a, i ? ",{\"id\":" : "{\"id\":");
        tinyi_api_int(a, (int64_t)i);
        tinyi_api_put(a, ",\"is_processing\":");
        tinyi_api_put(a, slot[i].work == TLLM_SLOT_FREE ? "false" : "true");
        tinyi_api_put(a, ",\"state\":");
        tinyi_api_put(a, does[slot[i].work]);
        tinyi_api_put(a, ",\"n_ctx\":");
        tinyi_api_int(a, tllm_engine_context(a->engine));
        tinyi_api_put(a, ",\"n_held\":");
        tinyi_api_int(a, (int64_t)slot[i].n_held);
        tinyi_api_put(a, ",\"n_prompt\":");
        tinyi_api_int(a, (int64_t)slot[i].n_prompt);
        tinyi_api_put(a, ",\"n_cached\":");
        tinyi_api_int(a, (int64_t)slot[i].n_cached);
        tinyi_api_put(a, ",\"n_made\":");
        tinyi_api_int(a, (int64_t)slot[i].n_made);
        tinyi_api_put(a, ",\"seconds\":");
        tinyi_api_float(a, slot[i].seconds);
        tinyi_api_put(a, "}");
    }
    tinyi_api_put(a, "]\n");
    tinyi_api_send(a, r, extra, 200);
    tiny_free(a->ctx, slot);
}

static void tinyi_api_metric(tllm_api *a, const char *name, const char *kind, const char *help, double value)
{
    char line[400];
    (void)snprintf(line, sizeof line, "# HELP %s%s %s\n# TYPE %s%s %s\n%s%s ", a->prefix, name, help, a->prefix, name,
                   kind, a->prefix, name);
    tinyi_api_put(a, line);
    tinyi_api_float(a, value);
    tinyi_api_put(a, "\n");
}

static void tinyi_api_metrics(tllm_api *a, tllm_reply *r, const char *extra)
{
    tllm_engine_counters c;
    char head[400];
    memset(&c, 0, sizeof c);
    if (a->engine) tllm_engine_count(a->engine, &c);
    tinyi_api_start(a);
    tinyi_api_metric(a, "prompt_tokens_total", "counter", "Tokens of prompts that were computed.",
                     (double)c.prompt_tokens);
    tinyi_api_metric(a, "prompt_tokens_cached_total", "counter", "Tokens of prompts that were computed before.",
                     (double)c.cached_tokens);
    tinyi_api_metric(a, "tokens_predicted_total", "counter", "Tokens of answers.", (double)c.made_tokens);
    tinyi_api_metric(a, "prompt_seconds_total", "counter", "Time from the slot to the first token, of all texts.",
                     a->prompt_seconds);
    tinyi_api_metric(a, "tokens_predicted_seconds_total", "counter",
                     "Time from the first token to the last, of all texts.", a->made_seconds);
    tinyi_api_metric(a, "prompt_tokens_seconds", "gauge", "Tokens of prompts a second, on average of a text.",
                     a->prompt_seconds > 0 ? (double)c.prompt_tokens / a->prompt_seconds : 0);
    tinyi_api_metric(a, "predicted_tokens_seconds", "gauge", "Tokens of answers a second, on average of a text.",
                     a->made_seconds > 0 ? (double)a->made_after / a->made_seconds : 0);
    tinyi_api_metric(a, "n_tokens_max", "gauge", "Tokens of the longest text, prompt and answer.",
                     (double)a->longest);
    tinyi_api_metric(a, "n_decode_total", "counter", "Steps of the engine.", (double)c.steps);
    tinyi_api_metric(a, "n_busy_slots_per_decode", "gauge", "Rows that a step computes, on average.",
                     c.steps ? (double)c.rows / (double)c.steps : 0);
    tinyi_api_metric(a, "n_draft_total", "counter", "Tokens that were proposed.", (double)c.proposed);
    tinyi_api_metric(a, "n_draft_accepted_total", "counter", "Proposed tokens that became part of an answer.",
                     (double)c.kept);
    tinyi_api_metric(a, "busy_seconds_total", "counter", "Time that steps took.", c.busy_seconds);
    tinyi_api_metric(a, "requests_processing", "gauge", "Texts that are being generated.", (double)c.running);
    tinyi_api_metric(a, "requests_deferred", "gauge", "Texts that wait for a slot.", (double)c.waiting);
    tinyi_api_metric(a, "requests_total", "counter", "Texts that were generated to their end.", (double)c.ended);
    tinyi_api_metric(a, "requests_cancelled_total", "counter", "Texts that were cancelled.", (double)c.cancelled);
    tinyi_api_metric(a, "requests_failed_total", "counter", "Texts that failed.", (double)c.failed);
    tinyi_api_metric(a, "http_requests_total", "counter", "HTTP requests.", (double)a->n_http);
    tinyi_api_metric(a, "http_requests_refused_total", "counter", "HTTP requests that were answered with an error.",
                     (double)a->n_http_refused);
    tinyi_api_metric(a, "http_hangups_total", "counter", "Clients that hung up before the end of their answer.",
                     (double)a->n_gone);
    tinyi_api_metric(a, "http_connections", "gauge", "Open connections.", (double)tllm_server_connections(a->server));
    if (a->w.status) tinyi_api_send(a, r, extra, 503);
    else {
        (void)snprintf(head, sizeof head, "%sProcess-Start-Time-Unix: %lld\r\n", extra ? extra : "",
                       (long long)a->began);
        (void)tllm_reply_send(r, 200, "text/plain; version=0.0.4", head, a->w.out, a->w.n_out);
    }
}

static void tinyi_api_page(tllm_api *a, tllm_reply *r)
{
    /* the page has its styles and scripts inside, and talks to this server only */
    static const char extra[] =
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";
    size_t i;
    if (!a->page) {
        static const char none[] = "tinyllm is serving; docs/guide/serve.md lists the endpoints\n";
        (void)tllm_reply_send(r, 200, "text/plain; charset=utf-8", NULL, none, sizeof none - 1);
        return;
    }
    tinyi_api_start(a);
    for (i = 0; i < a->n_page; i++) tinyi_api_put(a, a->page[i]);
    if (a->w.status) tinyi_api_send(a, r, NULL, 503);
    else (void)tllm_reply_send(r, 200, "text/html; charset=utf-8", extra, a->w.out, a->w.n_out);
}

/* ---- access ---- */

/* Equal, in a time that depends on the lengths only. */
static int tinyi_api_same(const char *given, size_t n_given, const char *key)
{
    const size_t n = strlen(key);
    unsigned char differ = n != n_given;
    size_t i;
    for (i = 0; i < n_given; i++) differ = (unsigned char)(differ | (given[i] ^ key[n ? i % n : 0]));
    return !differ;
}

static int tinyi_api_has_key(const tllm_api *a, const tllm_http_request *q, const char *bytes)
{
    size_t n = 0, i;
    const char *v = tllm_http_find(q, bytes, "authorization", &n);
    int ok = 0;
    if (!a->keys.n) return 1;
    if (tllm_http_count(q, bytes, "authorization") + tllm_http_count(q, bytes, "x-api-key") != 1) return 0;
    if (v) {
        if (n < 7 || !tinyi_http_is(v, 7, "bearer ")) return 0;
        v += 7;
        n -= 7;
    } else v = tllm_http_find(q, bytes, "x-api-key", &n);
    for (i = 0; i < a->keys.n; i++) ok |= tinyi_api_same(v, n, a->keys.at[i]); /* all of them, always */
    return ok;
}

/* The name in Host without its port: is it this machine, or one of the names of the server? */
static int tinyi_api_knows_host(const tllm_api *a, const char *host, size_t n)
{
    size_t i, dots = 0;
    if (n && host[0] == '[') {              /* [::1]:8080 */
        const char *end = (const char *)memchr(host, ']', n);
        n = end ? (size_t)(end - host) + 1 : n;
    } else {
        const char *end = n ? (const char *)memchr(host, ':', n) : NULL;
        n = end ? (size_t)(end - host) : n;
    }
    for (i = 0; i < a->hosts.n; i++)
        if (tinyi_http_is(host, n, a->hosts.at[i])) return 1;
    if (tinyi_http_is(host, n, "localhost") || tinyi_http_is(host, n, "[::1]")) return 1;
    if (n < 4 || memcmp(host, "127.", 4)) return 0;
    for (i = 0; i < n; i++) {
        if (host[i] == '.') dots++;
        else if (host[i] < '0' || host[i] > '9') return 0;
    }
    return dots == 3;
}

/* 0: a page of another origin, which is not allowed. *extra: what such a page is told, if it is. */
static int tinyi_api_knows_origin(const tllm_api *a, const tllm_http_request *q, const char *bytes, const char **extra)
{
    size_t n, n_host, i, skip;
    const char *origin = tllm_http_find(q, bytes, "origin", &n), *host = tllm_http_find(q, bytes, "host", &n_host);
    if (!origin) return 1;
    if (tllm_http_count(q, bytes, "origin") != 1) return 0;
    for (i = 0; i < a->origins.n; i++)
        if (a->any_origin || (n == strlen(a->origins.at[i]) && !memcmp(origin, a->origins.at[i], n))) {
            *extra = a->cors_at[i];
            return 1;
        }
    skip = n > 7 && !memcmp(origin, "http://", 7) ? 7 : n > 8 && !memcmp(origin, "https://", 8) ? 8 : n;
    return skip < n && host && n - skip == n_host && !memcmp(origin + skip, host, n_host); /* its own page */
}

/* ---- routes ---- */

typedef struct tinyi_api_route {
    const char *path, *method;
    unsigned where;
    int open, counts;                       /* open: without a key; counts: says how many tokens the prompt has */
} tinyi_api_route;
enum { TINYI_OPEN_NO, TINYI_OPEN_YES };     /* without a key */

static const tinyi_api_route tinyi_api_routes[] = {
    { "/v1/chat/completions", "POST", TINYI_AT_CHAT, TINYI_OPEN_NO, 0 },
    { "/v1/completions", "POST", TINYI_AT_TEXT, TINYI_OPEN_NO, 0 },
    { "/v1/responses", "POST", TINYI_AT_RESPONSES, TINYI_OPEN_NO, 0 },
    { "/v1/messages", "POST", TINYI_AT_MESSAGES, TINYI_OPEN_NO, 0 },
    { "/v1/chat/completions/input_tokens", "POST", TINYI_AT_CHAT, TINYI_OPEN_NO, 1 },
    { "/v1/responses/input_tokens", "POST", TINYI_AT_RESPONSES, TINYI_OPEN_NO, 1 },
    { "/v1/messages/count_tokens", "POST", TINYI_AT_COUNT, TINYI_OPEN_NO, 1 },
    { "/v1/embeddings", "POST", TINYI_AT_EMBED, TINYI_OPEN_NO, 0 },
    { "/v1/rerank", "POST", TINYI_AT_RANK, TINYI_OPEN_NO, 0 },
    { "/completion", "POST", TINYI_AT_NATIVE, TINYI_OPEN_NO, 0 },
    { "/infill", "POST", TINYI_AT_INFILL, TINYI_OPEN_NO, 0 },
    { "/tokenize", "POST", TINYI_AT_TOKENS, TINYI_OPEN_NO, 0 },
    { "/detokenize", "POST", TINYI_AT_WORDS, TINYI_OPEN_NO, 0 },
    { "/apply-template", "POST", TINYI_AT_TEMPLATE, TINYI_OPEN_NO, 0 },
    { "/v1/models", "GET", 0, TINYI_OPEN_NO, 0 },
    { "/props", "GET", 0, TINYI_OPEN_NO, 0 },
    { "/slots", "GET", 0, TINYI_OPEN_NO, 0 },
    { "/metrics", "GET", 0, TINYI_OPEN_NO, 0 },
    { "/health", "GET", 0, TINYI_OPEN_YES, 0 },
    { "/v1/health", "GET", 0, TINYI_OPEN_YES, 0 },
    { "/", "GET", 0, TINYI_OPEN_YES, 0 },
    { "/index.html", "GET", 0, TINYI_OPEN_YES, 0 },
    /* the same under other names that clients call */
    { "/chat/completions", "POST", TINYI_AT_CHAT, TINYI_OPEN_NO, 0 },
    { "/chat/completions/input_tokens", "POST", TINYI_AT_CHAT, TINYI_OPEN_NO, 1 },
    { "/completions", "POST", TINYI_AT_NATIVE, TINYI_OPEN_NO, 0 },
    { "/responses", "POST", TINYI_AT_RESPONSES, TINYI_OPEN_NO, 0 },
    { "/responses/input_tokens", "POST", TINYI_AT_RESPONSES, TINYI_OPEN_NO, 1 },
    { "/rerank", "POST", TINYI_AT_RANK, TINYI_OPEN_NO, 0 },
    { "/reranking", "POST", TINYI_AT_RANK, TINYI_OPEN_NO, 0 },
    { "/v1/reranking", "POST", TINYI_AT_RANK, TINYI_OPEN_NO, 0 },
    { "/models", "GET", 0, TINYI_OPEN_NO, 0 },
};

static void tinyi_api_post(tllm_api *a, tllm_reply *r, const char *extra, const tinyi_api_route *route,
                           const char *body, size_t n)
{
    tinyi_ask ask;
    memset(&ask, 0, sizeof ask);
    ask.api = a;
    ask.reply = r;
    ask.extra = extra;
    ask.where = route->where;
    ask.path = route->path;
    if (tinyi_ask_read(&ask, body, n)) {
        switch (route->counts ? (unsigned)TINYI_AT_COUNT : ask.where) {
        case TINYI_AT_COUNT: tinyi_api_count_tokens(&ask); break;
        case TINYI_AT_EMBED: tinyi_api_embeddings(&ask); break;
        case TINYI_AT_RANK: tinyi_api_rerank(&ask); break;
        case TINYI_AT_TOKENS: tinyi_api_tokenize(&ask); break;
        case TINYI_AT_WORDS: tinyi_api_detokenize(&ask); break;
        case TINYI_AT_TEMPLATE: tinyi_api_template(&ask); break;
        default: tinyi_ask_generate(&ask);
        }
    }
    if (ask.status) tinyi_ask_refuse(&ask);
    tinyi_ask_end(&ask);
}

static void tinyi_api_request(void *user, tllm_reply *r)
{
    tllm_api *a = (tllm_api *)user;
    const char *bytes, *extra = NULL, *path, *method, *host, *v, *query;
    const tllm_http_request *q = tllm_reply_request(r, &bytes);
    const tinyi_api_route *route = NULL;
    char says[300], head[64], shown[80];
    size_t n_host = 0, n, i, n_path;
    a->n_http++;
    method = bytes + q->method;
    path = bytes + q->target;
    query = (const char *)memchr(path, '?', q->target_bytes);
    n_path = query ? (size_t)(query - path) : q->target_bytes;
    host = tllm_http_find(q, bytes, "host", &n_host);
    if (!a->keys.n && !a->is_unix && !(host ? tinyi_api_knows_host(a, host, n_host) : !q->minor)) {
        (void)tinyi_show_bytes(host ? host : "", n_host, shown);
        (void)snprintf(says, sizeof says, "Host is %s; this server answers to the names of this machine only", shown);
        tinyi_api_error(a, r, NULL, 403, NULL, "unknown_host", says);
        return;
    }
    if (!tinyi_api_knows_origin(a, q, bytes, &extra)) {
        tinyi_api_error(a, r, NULL, 403, NULL, "unknown_origin",
                        "this server does not answer requests from web pages of this origin");
        return;
    }
    if (q->method_bytes == 7 && !memcmp(method, "OPTIONS", 7)) {
        char more[600];
        (void)snprintf(more, sizeof more, "%s%sAllow: GET, HEAD, POST, OPTIONS\r\n", extra ? extra : "",
                       extra
                           ? "Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Allow-Headers: authorization, "
                             "content-type, x-api-key\r\nAccess-Control-Max-Age: 600\r\n"
                           : "");
        (void)tllm_reply_send(r, 204, NULL, more, NULL, 0);
        return;
    }
    for (i = 0; i < TINYI_COUNT(tinyi_api_routes) && !route; i++)
        if (n_path == strlen(tinyi_api_routes[i].path) && !memcmp(path, tinyi_api_routes[i].path, n_path))
            route = &tinyi_api_routes[i];
    if ((!route || !route->open) && !tinyi_api_has_key(a, q, bytes)) {
        tinyi_api_error(a, r, extra, 401, NULL, "invalid_api_key",
                        "this server needs its key: send Authorization: Bearer KEY");
        return;
    }
    if (!route) {
        const size_t n_models = sizeof "/v1/models/" - 1;
        if (n_path > n_models && !memcmp(path, "/v1/models/", n_models) && n_path - n_models == strlen(a->name) &&
            !memcmp(path + n_models, a->name, n_path - n_models)) {
            tinyi_api_start(a);
            tinyi_api_model(a);
            tinyi_api_send(a, r, extra, 200);
            return;
        }
        (void)tinyi_show_bytes(path, n_path, shown);
        (void)snprintf(says, sizeof says, "there is no %s on this server", shown);
        tinyi_api_error(a, r, extra, 404, NULL, "not_found", says);
        return;
    }
    if (!(q->method_bytes == strlen(route->method) && !memcmp(method, route->method, q->method_bytes)) &&
        !(*route->method == 'G' && q->method_bytes == 4 && !memcmp(method, "HEAD", 4))) {
        (void)snprintf(head, sizeof head, "Allow: %s\r\n", route->method);
        (void)snprintf(says, sizeof says, "%s takes %s", route->path, route->method);
        tinyi_api_error(a, r, extra ? extra : head, 405, NULL, "method_not_allowed", says);
        return;
    }
    v = tllm_http_find(q, bytes, "content-encoding", &n);
    if (v && !tinyi_http_is(v, n, "identity")) {
        tinyi_api_error(a, r, extra, 415, NULL, "unsupported",
                        "this server reads bodies without Content-Encoding only");
        return;
    }
    if (route->where) tinyi_api_post(a, r, extra, route, bytes + q->body_at, q->body_bytes);
    else if (strstr(route->path, "models")) tinyi_api_models(a, r, extra);
    else if (!strcmp(route->path, "/props")) tinyi_api_props(a, r, extra);
    else if (!strcmp(route->path, "/slots")) tinyi_api_slots(a, r, extra);
    else if (!strcmp(route->path, "/metrics")) tinyi_api_metrics(a, r, extra);
    else if (strstr(route->path, "health")) {
        static const char ok[] = "{\"status\":\"ok\"}\n";
        (void)tllm_reply_send(r, 200, "application/json", extra, ok, sizeof ok - 1);
    } else tinyi_api_page(a, r);
}

static void tinyi_api_gone(void *user, tllm_reply *r)
{
    tllm_api *a = (tllm_api *)user;
    tinyi_job *j = (tinyi_job *)tllm_reply_kept(r);
    a->n_gone++;
    if (j) tinyi_job_gone(j);
}

/* ---- open, step, close ---- */

static char *tinyi_api_copy(tiny_ctx *ctx, const char *text, size_t n)
{
    char *c = (char *)tinyi_alloc(ctx, n + 1, 1);
    if (!c) return NULL;
    if (n) memcpy(c, text, n);
    c[n] = 0;
    return c;
}

/* Words between blanks, or for keys lines. */
static tiny_status tinyi_api_words_of(tiny_ctx *ctx, tinyi_api_words *w, const char *text, size_t n,
                                      const char *between, const char *what)
{
    char *at;
    if (!text) return TINY_OK;
    w->text = tinyi_api_copy(ctx, text, n ? n : strlen(text));
    if (!w->text) return tiny_ctx_status(ctx);
    for (at = w->text; *at;) {
        const size_t k = strcspn(at, between);
        if (k && w->n == TINYI_API_WORDS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_api_open: more than %d %s", TINYI_API_WORDS, what);
        if (k) w->at[w->n++] = at;
        at += k;
        if (*at) *at++ = 0;
    }
    if (!w->n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_api_open: the list of %s is empty", what);
    return TINY_OK;
}

static tiny_status tinyi_api_origins(tllm_api *a)
{
    size_t i, n = 0, at = 0;
    for (i = 0; i < a->origins.n; i++) n += strlen(a->origins.at[i]) + 80;
    if (!n) return TINY_OK;
    a->cors = (char *)tinyi_alloc(a->ctx, n, 1);
    if (!a->cors) return tiny_ctx_status(a->ctx);
    for (i = 0; i < a->origins.n; i++) {
        const char *o = a->origins.at[i];
        if (!strcmp(o, "*")) a->any_origin = 1;
        else if ((strncmp(o, "http://", 7) && strncmp(o, "https://", 8)) || strlen(o) > 200 || strpbrk(o, "\r\n\t\"\\"))
            return tinyi_fail(a->ctx, TINY_E_ARGUMENT, "tllm_api_open: %s is not an origin such as https://a.example",
                              o);
        a->cors_at[i] = a->cors + at;
        at += (size_t)snprintf(a->cors + at, n - at, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n", o) + 1;
    }
    if (a->any_origin && a->origins.n > 1)
        return tinyi_fail(a->ctx, TINY_E_ARGUMENT, "tllm_api_open: the origin * together with others");
    return TINY_OK;
}

static tiny_status tinyi_api_special(tllm_api *a, tllm_special which, char **to)
{
    const int32_t id = tllm_vocab_special(a->vocab, which);
    const tllm_text t = tllm_vocab_text(a->vocab, id);
    if (id < 0 || !t.n) return TINY_OK;
    *to = tinyi_api_copy(a->ctx, t.at, t.n);
    return *to ? TINY_OK : tiny_ctx_status(a->ctx);
}

static tiny_status tinyi_api_chat(tllm_api *a, const tllm_api_desc *d)
{
    tllm_text source;
    tiny_status st;
    source.at = d->chat_template;
    source.n = d->chat_template ? (d->n_chat_template ? d->n_chat_template : strlen(d->chat_template)) : 0;
    if (!source.at && !(a->file && tllm_meta_text(tllm_gguf_find(a->file, "tokenizer.chat_template"), 0, &source)))
        return TINY_OK;
    a->chat_source = tinyi_api_copy(a->ctx, source.at, source.n);
    if (!a->chat_source) return tiny_ctx_status(a->ctx);
    st = tllm_template_open(a->ctx, source.at, source.n, &a->chat);
    a->tools_in_template = strstr(a->chat_source, "tools") != NULL;
    a->tool_form = tllm_tool_form_of(a->chat_source);
    return st;
}

TINY_API tiny_status tllm_api_open(tiny_ctx *ctx, tllm_engine *engine, const tllm_api_desc *desc, tllm_api **out)
{
    tllm_api *a;
    tllm_server_desc d;
    tllm_text name;
    tiny_status st = tinyi_ctx_check(ctx);
    const tllm_model *model;
    if (out) *out = NULL;
    if (st) return st;
    if (desc && desc->n_adapters && (!desc->adapters || !engine))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_api_open: adapters without %s", engine ? "a list" : "an engine");
    if (!desc || !out || (!engine && !desc->embedder))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_api_open: there is no %s",
                          !desc  ? "description"
                          : !out ? "result pointer"
                                 : "engine and no embedder");
    a = (tllm_api *)tinyi_alloc(ctx, 1, sizeof *a);
    if (!a) return tiny_ctx_status(ctx);
    memset(a, 0, sizeof *a);
    a->ctx = a->w.ctx = ctx;
    a->engine = engine;
    a->adapters = desc->adapters;
    a->n_adapters = desc->n_adapters;
    a->embedder = desc->embedder;
    a->vocab = engine ? tllm_engine_vocab(engine) : tllm_session_vocab(desc->embedder);
    a->file = desc->file ? desc->file : engine ? tllm_engine_file(engine) : tllm_session_file(desc->embedder);
    model = engine ? tllm_engine_model(engine) : tllm_session_model(desc->embedder);
    tllm_model_about(model, &a->about);
    a->w.what = "answer";
    a->w.max_steps = UINT64_MAX / 2;
    a->w.max_held = a->w.max_out = TINYI_API_ANSWER;
    a->lenient = desc->lenient;
    a->encode_again = desc->encode_again;
    a->n_most = desc->n_most;
    a->page = desc->page;
    a->n_page = desc->n_page;
    a->began = (int64_t)time(NULL);
    a->random = tiny_rng_make((uint64_t)a->began ^ tiny_now_ns(), (uint64_t)(uintptr_t)a);
    name.at = desc->name ? desc->name : "model";
    name.n = strlen(name.at);
    if (!desc->name && a->file) (void)tllm_meta_text(tllm_gguf_find(a->file, "general.name"), 0, &name);
    a->name = tinyi_api_copy(ctx, name.at, name.n);
    a->prefix = tinyi_api_copy(ctx, desc->metrics ? desc->metrics : "tinyllm_",
                               strlen(desc->metrics ? desc->metrics : "tinyllm_"));
    if (!a->name || !a->prefix) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_api_words_of(ctx, &a->keys, desc->keys, desc->n_keys, "\r\n", "keys");
    if (!st) st = tinyi_api_words_of(ctx, &a->origins, desc->origins, 0, " ", "origins");
    if (!st) st = tinyi_api_words_of(ctx, &a->hosts, desc->hosts, 0, " ", "hosts");
    if (!st) st = tinyi_api_origins(a);
    if (!st) st = tinyi_api_special(a, TLLM_BOS, &a->bos);
    if (!st) st = tinyi_api_special(a, TLLM_EOS, &a->eos);
    if (!st) st = tinyi_api_chat(a, desc);
    d = desc->server;
    d.request = tinyi_api_request;
    d.gone = tinyi_api_gone;
    d.user = a;
    if (!st) st = tllm_server_open(ctx, &d, &a->server);
    if (!st) a->is_unix = !strncmp(tllm_server_address(a->server), "unix:", 5);
    if (!st && !a->keys.n && !tllm_server_is_local(a->server))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                        "%s can be reached from other machines: a server without a key listens on this machine only",
                        tllm_server_address(a->server));
    if (st) tllm_api_close(a);
    else *out = a;
    return st;
}

TINY_API void tllm_api_close(tllm_api *a)
{
    int more = 1, k;
    if (!a) return;
    tllm_server_close(a->server);           /* every job is gone, and cancelled */
    a->server = NULL;
    for (k = 0; a->jobs && more && k < 1000; k++)
        if (tllm_engine_step(a->engine, &more)) more = 1;
    tllm_template_close(a->ctx, a->chat);
    tinyi_replay_close(a);
    tinyi_doc_end(&a->w);
    tiny_free(a->ctx, a->keys.text);
    tiny_free(a->ctx, a->origins.text);
    tiny_free(a->ctx, a->hosts.text);
    tiny_free(a->ctx, a->cors);
    tiny_free(a->ctx, a->chat_source);
    tiny_free(a->ctx, a->name);
    tiny_free(a->ctx, a->bos);
    tiny_free(a->ctx, a->eos);
    tiny_free(a->ctx, a->prefix);
    tiny_free(a->ctx, a);
}

TINY_API tiny_status tllm_api_step(tllm_api *a, uint64_t until)
{
    tiny_status st;
    if (!a) return TINY_E_ARGUMENT;
    st = tllm_server_step(a->server, a->jobs || a->more ? 0 : until);
    if (!st && a->engine && (a->jobs || a->more)) st = tllm_engine_step(a->engine, &a->more);
    if (a->jobs) tinyi_job_ping(a, tiny_now_ns());
    return st;
}

TINY_API const char *tllm_api_address(const tllm_api *a) { return a ? tllm_server_address(a->server) : ""; }
TINY_API const char *tllm_api_name(const tllm_api *a) { return a ? a->name : ""; }
