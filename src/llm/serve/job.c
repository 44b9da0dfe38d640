/* src/llm/serve/job.c - from the tokens of the engine to answers: JSON at the end, or a stream of events
 *
 * A job has one choice for each text that is made: prompts times n. The engine calls tinyi_job_token and tinyi_job_end
 * for each of them. The head of a stream is sent with its first event, so that a request that fails before has the
 * status of its failure. If the client hangs up the choices are cancelled, and the job is freed after the last of them
 * has ended. */
#include "llm/serve/api_inside.h"
#include "llm/token/parts_inside.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

tinyi_job *tinyi_job_open(tinyi_ask *a, size_t n_choices)
{
    tllm_api *api = a->api;
    tinyi_job *j = (tinyi_job *)tinyi_alloc(api->ctx, 1, sizeof *j);
    tinyi_choice *c = j ? (tinyi_choice *)tinyi_alloc(api->ctx, n_choices, sizeof *c) : NULL;
    size_t i;
    if (!c) {
        (void)tinyi_ask_status(a, tiny_ctx_status(api->ctx), NULL);
        tiny_free(api->ctx, j);
        return NULL;
    }
    memset(j, 0, sizeof *j);
    memset(c, 0, n_choices * sizeof *c);
    j->api = api;
    j->reply = a->reply;
    j->extra = a->extra;
    j->where = a->where;
    j->choice = c;
    j->n_choices = n_choices;
    j->created = (int64_t)time(NULL);
    j->sent_at = tiny_now_ns();
    j->warnings = a->warnings;              /* now the job's */
    memset(&a->warnings, 0, sizeof a->warnings);
    j->style = a->style;
    (void)snprintf(j->id, sizeof j->id, "%s%016llx",
                   j->style == TINYI_STYLE_RESPONSES  ? "resp_"
                   : j->style == TINYI_STYLE_MESSAGES ? "msg_"
                   : a->where == TINYI_AT_CHAT        ? "chatcmpl-"
                                                      : "cmpl-",
                   (unsigned long long)tiny_rng_u64(&api->random));
    for (i = 0; i < n_choices; i++) {
        c[i].job = j;
        c[i].index = i;
    }
    j->next = api->jobs;
    api->jobs = j;
    tllm_reply_keep(a->reply, j);
    return j;
}

static void tinyi_job_free(tinyi_job *j)
{
    tllm_api *api = j->api;
    tinyi_job **at = &api->jobs;
    size_t i, k;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    for (i = 0; i < j->n_choices; i++) {
        tllm_bytes_free(api->ctx, &j->choice[i].text);
        tllm_bytes_free(api->ctx, &j->choice[i].stop);
        tllm_bytes_free(api->ctx, &j->choice[i].tokens);
        tllm_tokens_free(api->ctx, &j->choice[i].made);
        for (k = 0; k < 4; k++) tllm_bytes_free(api->ctx, &j->choice[i].logprobs[k]);
    }
    tllm_tokens_free(api->ctx, &j->asked);
    tiny_free(api->ctx, j->talk);
    tllm_bytes_free(api->ctx, &j->tool_names);
    tllm_bytes_free(api->ctx, &j->warnings);
    tiny_free(api->ctx, j->choice);
    tiny_free(api->ctx, j);
}

void tinyi_job_gone(tinyi_job *j)
{
    size_t i;
    j->reply = NULL;
    for (i = 0; i < j->n_choices; i++)
        if (j->choice[i].id) (void)tllm_engine_cancel(j->api->engine, j->choice[i].id);
}

/* ---- events ---- */

void tinyi_job_event(tinyi_job *j)
{
    tllm_api *api = j->api;
    tinyi_api_put(api, "\n\n");
    if (!j->reply) return;
    if (api->w.status) {                    /* no memory: the client sees that the stream breaks off */
        j->failed = 503;
        return;
    }
    if (!j->begun++) (void)tllm_reply_begin(j->reply, 200, "text/event-stream", j->extra);
    (void)tllm_reply_add(j->reply, api->w.out, api->w.n_out);
    j->sent_at = tiny_now_ns();
}

void tinyi_job_ping(tllm_api *a, uint64_t now)
{
    tinyi_job *j;
    for (j = a->jobs; j; j = j->next)
        if (j->reply && j->stream && now - j->sent_at > TINYI_API_PING_NS) {
            tinyi_api_start(a);
            tinyi_api_put(a, ": still at work"); /* a comment: proxies and clients go on waiting */
            tinyi_job_event(j);
        }
}

static void tinyi_job_head(tinyi_job *j)
{
    tllm_api *w = j->api;
    char text[120];
    tinyi_api_put(w, "{\"id\":");
    tinyi_api_quote(w, j->id, strlen(j->id));
    tinyi_api_put(w, j->where == TINYI_AT_TEXT ? ",\"object\":\"text_completion\""
                     : j->stream               ? ",\"object\":\"chat.completion.chunk\""
                                               : ",\"object\":\"chat.completion\"");
    tinyi_api_put(w, ",\"created\":");
    tinyi_api_int(w, j->created);
    tinyi_api_put(w, ",\"model\":");
    tinyi_api_quote(w, w->name, strlen(w->name));
    /* the same seed gives the same text by the same version on the same kind of processor */
    (void)snprintf(text, sizeof text, ",\"system_fingerprint\":\"b%d.%d.%d-%s\"", TINY_VERSION_MAJOR,
                   TINY_VERSION_MINOR, TINY_VERSION_PATCH, tiny_target_name(tiny_ctx_target(w->ctx)));
    tinyi_api_put(w, text);
}

/* "x_n", "x_ms", and from the tokens that this time was for: "x_per_token_ms", "x_per_second" */
static void tinyi_job_rate(tllm_api *w, const char *what, size_t n, double seconds, size_t timed)
{
    char text[300];
    (void)snprintf(text, sizeof text, ",\"%s_n\":%llu,\"%s_ms\":", what, (unsigned long long)n, what);
    tinyi_api_put(w, text);
    tinyi_api_float(w, seconds * 1e3);
    (void)snprintf(text, sizeof text, ",\"%s_per_token_ms\":", what);
    tinyi_api_put(w, text);
    tinyi_api_float(w, timed ? seconds * 1e3 / (double)timed : 0);
    (void)snprintf(text, sizeof text, ",\"%s_per_second\":", what);
    tinyi_api_put(w, text);
    tinyi_api_float(w, seconds > 0 ? (double)timed / seconds : 0);
}

/* "usage" and "timings" of n choices. Times are those of a text: of several, the longest. Prompts wait before they run,
 * and that time is part of first_ms and total_ms only. */
static void tinyi_job_usage(tinyi_job *j, size_t from, size_t n)
{
    tllm_api *w = j->api;
    size_t i, prompt = 0, cached = 0, made = 0, proposed = 0, kept = 0;
    double first = 0, seconds = 0, reading = 0, writing = 0;
    for (i = from; i < from + n; i++) {
        const tinyi_choice *c = &j->choice[i];
        if (i == from || i % j->n_per_prompt == 0) prompt += c->n_prompt; /* n answers have one prompt */
        if (i == from || i % j->n_per_prompt == 0) cached += c->n_cached;
        made += c->n_made;
        proposed += c->n_proposed;
        kept += c->n_kept;
        first = i > from ? TINYI_MIN(first, c->first_seconds) : c->first_seconds;
        seconds = TINYI_MAX(seconds, c->seconds);
        reading = TINYI_MAX(reading, c->first_seconds - c->start_seconds);
    }
    writing = made > n && seconds > first ? seconds - first : 0;
    tinyi_api_put(w, ",\"usage\":{\"prompt_tokens\":");
    tinyi_api_int(w, (int64_t)prompt);
    tinyi_api_put(w, ",\"completion_tokens\":");
    tinyi_api_int(w, (int64_t)made);
    tinyi_api_put(w, ",\"total_tokens\":");
    tinyi_api_int(w, (int64_t)(prompt + made));
    tinyi_api_put(w, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    tinyi_api_int(w, (int64_t)cached);
    tinyi_api_put(w, "}},\"timings\":{\"first_ms\":");
    tinyi_api_float(w, first * 1e3);
    tinyi_api_put(w, ",\"total_ms\":");
    tinyi_api_float(w, seconds * 1e3);
    tinyi_api_put(w, ",\"cache_n\":");
    tinyi_api_int(w, (int64_t)cached);
    tinyi_job_rate(w, "prompt", prompt - cached, reading, prompt - cached);
    tinyi_job_rate(w, "predicted", made, writing, made > n ? made - n : 0);
    if (proposed) {
        tinyi_api_put(w, ",\"draft_n\":");
        tinyi_api_int(w, (int64_t)proposed);
        tinyi_api_put(w, ",\"draft_n_accepted\":");
        tinyi_api_int(w, (int64_t)kept);
    }
    tinyi_api_put(w, "}");
}

void tinyi_job_tail(tinyi_job *j)
{
    tllm_api *w = j->api;
    tinyi_api_put(w, ",\"seed\":");
    tinyi_api_int(w, (int64_t)j->seed);
    if (j->warnings.n) {
        tinyi_api_put(w, ",\"warnings\":[");
        (void)tinyi_doc_put(&w->w, j->warnings.at, j->warnings.n);
        tinyi_api_put(w, "]");
    }
}

static const char *tinyi_choice_reason(const tinyi_choice *c)
{
    if (c->n_calls) return "\"tool_calls\"";
    return c->end == TLLM_END_LENGTH || c->end == TLLM_END_CONTEXT ? "\"length\"" : "\"stop\"";
}

/* ---- logprobs ---- */

static void tinyi_piece_quote(tllm_api *w, int32_t token)
{
    char piece[256];
    const size_t n = tllm_piece(w->vocab, token, TLLM_DECODE_SPECIAL, piece, sizeof piece);
    tinyi_api_quote(w, piece, TINYI_MIN(n, sizeof piece));
}

static void tinyi_piece_bytes(tllm_api *w, int32_t token)
{
    char piece[256];
    const size_t n = tllm_piece(w->vocab, token, TLLM_DECODE_SPECIAL, piece, sizeof piece);
    size_t i;
    tinyi_api_put(w, "[");
    for (i = 0; i < n && i < sizeof piece; i++) {
        if (i) tinyi_api_put(w, ",");
        tinyi_api_int(w, (unsigned char)piece[i]);
    }
    tinyi_api_put(w, "]");
}

static void tinyi_chat_logprob(tllm_api *w, int32_t token, double logprob)
{
    tinyi_api_put(w, "{\"token\":");
    tinyi_piece_quote(w, token);
    tinyi_api_put(w, ",\"id\":");
    tinyi_api_int(w, token);
    tinyi_api_put(w, ",\"logprob\":");
    tinyi_api_float(w, logprob);
    tinyi_api_put(w, ",\"bytes\":");
    tinyi_piece_bytes(w, token);
}

/* Moves the text in w to the end of b. */
static void tinyi_choice_take(tinyi_choice *c, int k)
{
    tllm_api *w = c->job->api;
    if (w->w.status || !tinyi_api_append(w, &c->logprobs[k], w->w.out, w->w.n_out)) c->job->failed = 503;
    tinyi_api_start(w);
}

/* token -1: no logprob, for the first token of a prompt */
static void tinyi_choice_logprob(tinyi_choice *c, int32_t token, int known, double logprob, const tllm_engine_top *top,
                                 size_t n_top)
{
    tllm_api *w = c->job->api;
    char piece[256];
    size_t i, n;
    tinyi_api_start(w);
    if (c->job->where == TINYI_AT_CHAT || c->job->probs) {
        if (c->logprobs[0].n) tinyi_api_put(w, ",");
        tinyi_chat_logprob(w, token, logprob);
        tinyi_api_put(w, ",\"top_logprobs\":[");
        for (i = 0; i < n_top; i++) {
            if (i) tinyi_api_put(w, ",");
            tinyi_chat_logprob(w, top[i].token, top[i].logprob);
            tinyi_api_put(w, "}");
        }
        tinyi_api_put(w, "]}");
        tinyi_choice_take(c, 0);
        return;
    }
    if (c->logprobs[0].n) tinyi_api_put(w, ",");
    tinyi_piece_quote(w, token);
    tinyi_choice_take(c, 0);
    if (c->logprobs[1].n) tinyi_api_put(w, ",");
    if (known) tinyi_api_float(w, logprob);
    else tinyi_api_put(w, "null");
    tinyi_choice_take(c, 1);
    if (c->logprobs[2].n) tinyi_api_put(w, ",");
    if (known && n_top) {
        tinyi_api_put(w, "{");
        for (i = 0; i < n_top; i++) {
            if (i) tinyi_api_put(w, ",");
            tinyi_piece_quote(w, top[i].token);
            tinyi_api_put(w, ":");
            tinyi_api_float(w, top[i].logprob);
        }
        tinyi_api_put(w, "}");
    } else tinyi_api_put(w, "null");
    tinyi_choice_take(c, 2);
    if (c->logprobs[3].n) tinyi_api_put(w, ",");
    tinyi_api_int(w, (int64_t)c->n_chars);
    tinyi_choice_take(c, 3);
    n = tllm_piece(w->vocab, token, TLLM_DECODE_SPECIAL, piece, sizeof piece);
    for (i = 0; i < TINYI_MIN(n, sizeof piece); i++) c->n_chars += ((unsigned char)piece[i] & 0xc0) != 0x80;
}

void tinyi_job_first(tinyi_choice *c, int32_t token) { tinyi_choice_logprob(c, token, 0, 0, NULL, 0); }

/* Writes what was gathered, and forgets it: a stream sends each token's once. */
static void tinyi_choice_put_logprobs(tinyi_choice *c)
{
    static const char *const names[4] = { "{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                          "],\"text_offset\":[" };
    tllm_api *w = c->job->api;
    int k;
    tinyi_api_put(w, ",\"logprobs\":");
    if (!c->job->logprobs || c->job->probs) {
        tinyi_api_put(w, "null");
        return;
    }
    if (c->job->where == TINYI_AT_CHAT) tinyi_api_put(w, "{\"content\":[");
    for (k = 0; k < (c->job->where == TINYI_AT_CHAT ? 1 : 4); k++) {
        if (c->job->where == TINYI_AT_TEXT) tinyi_api_put(w, names[k]);
        (void)tinyi_doc_put(&w->w, c->logprobs[k].at, c->logprobs[k].n);
        c->logprobs[k].n = 0;
    }
    tinyi_api_put(w, "]}");
}

/* ---- one choice of a stream ---- */

/* What /completion has beside the members of /v1/completions. last: the text is complete. */
static void tinyi_native_put(tinyi_choice *c, const char *text, size_t n, int last)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    tinyi_api_put(w, ",\"index\":");
    tinyi_api_int(w, (int64_t)c->index);
    tinyi_api_put(w, ",\"content\":");
    tinyi_api_quote(w, text, n);
    tinyi_api_put(w, ",\"tokens\":[");
    if (c->tokens.n) (void)tinyi_doc_put(&w->w, c->tokens.at, c->tokens.n - 1); /* without the last comma */
    c->tokens.n = 0;
    if (j->probs) {
        tinyi_api_put(w, "],\"completion_probabilities\":[");
        (void)tinyi_doc_put(&w->w, c->logprobs[0].at, c->logprobs[0].n);
        c->logprobs[0].n = 0;
    }
    tinyi_api_put(w, last ? "],\"stop\":true,\"stop_type\":" : "],\"stop\":false");
    if (!last) return;
    tinyi_api_put(w, c->end == TLLM_END_LENGTH || c->end == TLLM_END_CONTEXT ? "\"limit\""
                     : c->end == TLLM_END_STRING                             ? "\"word\""
                     : c->end == TLLM_END_TOKEN                              ? "\"eos\""
                                                                             : "\"none\"");
    tinyi_api_put(w, ",\"stopping_word\":");
    tinyi_api_quote(w, c->stop.at, c->stop.n);
    tinyi_api_put(w, c->end == TLLM_END_CONTEXT ? ",\"truncated\":true" : ",\"truncated\":false");
    tinyi_api_put(w, c->text.n && memchr(c->text.at, '\n', c->text.n) ? ",\"has_new_line\":true"
                                                                      : ",\"has_new_line\":false");
    tinyi_api_put(w, ",\"tokens_evaluated\":");
    tinyi_api_int(w, (int64_t)c->n_prompt);
    tinyi_api_put(w, ",\"tokens_predicted\":");
    tinyi_api_int(w, (int64_t)c->n_made);
    tinyi_job_usage(j, c->index, 1);
}

static void tinyi_calls_put(tinyi_calls *calls, tinyi_job *j);

/* The first event of a chat says who speaks, and nothing else. */
static void tinyi_choice_role(tinyi_choice *c)
{
    tllm_api *w = c->job->api;
    c->role_sent = 1;
    tinyi_api_start(w);
    tinyi_api_put(w, "data: ");
    tinyi_job_head(c->job);
    tinyi_api_put(w, ",\"choices\":[{\"index\":");
    tinyi_api_int(w, (int64_t)c->index);
    tinyi_api_put(w, ",\"delta\":{\"role\":\"assistant\",\"content\":null},\"logprobs\":null,");
    tinyi_api_put(w, "\"finish_reason\":null}]}");
    tinyi_job_event(c->job);
}

/* text: shown with this event; calls: or NULL; last: the event that has the reason */
static void tinyi_choice_event(tinyi_choice *c, const char *text, size_t n, tinyi_calls *calls, int last)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    if (j->where == TINYI_AT_CHAT && !c->role_sent) tinyi_choice_role(c);
    tinyi_api_start(w);
    tinyi_api_put(w, "data: ");
    tinyi_job_head(j);
    tinyi_api_put(w, ",\"choices\":[{\"index\":");
    tinyi_api_int(w, (int64_t)c->index);
    if (j->where == TINYI_AT_CHAT) {
        tinyi_api_put(w, ",\"delta\":{");
        if (calls) {
            tinyi_api_put(w, "\"tool_calls\":[");
            tinyi_calls_put(calls, j);
            tinyi_api_put(w, "]");
        } else if (n) {
            tinyi_api_put(w, "\"content\":");
            tinyi_api_quote(w, text, n);
        }
        tinyi_api_put(w, "}");
    } else {
        tinyi_api_put(w, ",\"text\":");
        tinyi_api_quote(w, text, n);
    }
    if (c->logprobs[0].n) tinyi_choice_put_logprobs(c);
    else tinyi_api_put(w, ",\"logprobs\":null");
    tinyi_api_put(w, ",\"finish_reason\":");
    tinyi_api_put(w, last ? tinyi_choice_reason(c) : "null");
    tinyi_api_put(w, "}]");
    if (j->native) tinyi_native_put(c, text, n, last);
    if (last) tinyi_job_tail(j);
    tinyi_api_put(w, "}");
    tinyi_job_event(j);
}

int tinyi_job_token(void *user, const tllm_engine_token *t)
{
    tinyi_choice *c = (tinyi_choice *)user;
    tinyi_job *j = c->job;
    size_t plain;
    int closed = 0;
    if (!j->reply || j->failed) return 1;
    if (j->native && !t->prompt && (j->stream || j->gives_tokens)) {
        char text[24];
        const int n = snprintf(text, sizeof text, "%d,", (int)t->token);
        if (!tinyi_api_append(j->api, &c->tokens, text, (size_t)n)) j->failed = 503;
    }
    if (j->logprobs) tinyi_choice_logprob(c, t->token, 1, t->logprob, t->top, t->n_top);
    if (t->prompt) return j->failed;
    if (j->talk && tinyi_token_reserve(j->api->ctx, &c->made, 1)) j->failed = 503;
    else if (j->talk) c->made.id[c->made.n++] = t->token;
    if (!tinyi_api_append(j->api, &c->text, t->text, t->n_text)) j->failed = 503;
    if (j->failed) return 1;
    plain = tllm_tool_plain(j->tools, c->text.at, c->text.n, c->shown, &closed);
    if (j->stream && (plain > c->shown || c->logprobs[0].n)) {
        if (j->style) tinyi_style_text(c, c->text.at + c->shown, plain - c->shown);
        else tinyi_choice_event(c, c->text.at + c->shown, plain - c->shown, NULL, 0);
        c->shown = plain;
    }
    if (!closed || j->parallel) return 0;
    return c->stopped = 1;                  /* one call is enough */
}

/* ---- the end ---- */

void tinyi_choice_read_calls(tinyi_choice *c, tinyi_calls *calls)
{
    tinyi_job *j = c->job;
    memset(calls, 0, sizeof *calls);
    calls->m.ctx = j->api->ctx;
    calls->m.what = "call";
    calls->m.max_steps = UINT64_C(1) << 28;
    calls->m.max_held = calls->m.max_out = TINYI_TOOL_HELD;
    calls->content = c->text.n;
    if (!j->tools || !c->text.n) return;
    calls->list = tinyi_tool_calls(&calls->m, j->tools, c->text.at, c->text.n, j->tool_names.at, j->tool_names.n,
                                   &calls->content);
    if (calls->list.type == TINYI_DOC_LIST && !calls->m.status)
        calls->n = j->parallel ? calls->list.u.list->n : TINYI_MIN(calls->list.u.list->n, 1);
    if (!calls->n) calls->content = c->text.n;
    c->n_calls = calls->n;
}

/* the arguments as JSON, which stands in m until the end */
void tinyi_calls_at(tinyi_calls *calls, size_t i, tinyi_tv *name, tinyi_tv *arguments)
{
    const tinyi_doc_form form = tinyi_api_form();
    const tinyi_tmap *map = calls->list.u.list->item[i].u.map;
    const size_t start = calls->m.n_out;
    *name = map->pair[0].value;             /* as tinyi_tool_calls made them */
    (void)tinyi_tv_put_json(&calls->m, &map->pair[1].value, &form);
    *arguments = tinyi_doc_take(&calls->m, start);
}

void tinyi_call_id(tllm_api *w, const char *kind, char id[40])
{
    (void)snprintf(id, 40, "%s_%016llx", kind, (unsigned long long)tiny_rng_u64(&w->random));
}

/* the members of "tool_calls" */
static void tinyi_calls_put(tinyi_calls *calls, tinyi_job *j)
{
    tllm_api *w = j->api;
    size_t i;
    for (i = 0; i < calls->n; i++) {
        tinyi_tv name, arguments;
        char id[40];
        tinyi_calls_at(calls, i, &name, &arguments);
        tinyi_call_id(w, "call", id);
        if (i) tinyi_api_put(w, ",");
        if (j->stream) {
            tinyi_api_put(w, "{\"index\":");
            tinyi_api_int(w, (int64_t)i);
            tinyi_api_put(w, ",\"id\":");
        } else tinyi_api_put(w, "{\"id\":");
        tinyi_api_quote(w, id, strlen(id));
        tinyi_api_put(w, ",\"type\":\"function\",\"function\":{\"name\":");
        tinyi_api_quote(w, name.u.s, name.n);
        tinyi_api_put(w, ",\"arguments\":");
        tinyi_api_quote(w, arguments.u.s, arguments.n);
        tinyi_api_put(w, "}}");
    }
}

static void tinyi_choice_finish_stream(tinyi_choice *c)
{
    tinyi_job *j = c->job;
    tinyi_calls calls;
    tinyi_choice_read_calls(c, &calls);
    if (j->style) tinyi_style_finish(c, &calls);
    else {
        const size_t n = calls.content > c->shown ? calls.content - c->shown : 0;
        if (n && !j->native) tinyi_choice_event(c, c->text.at + c->shown, n, NULL, 0);
        if (calls.n) tinyi_choice_event(c, "", 0, &calls, 0);
        tinyi_choice_event(c, j->native && n ? c->text.at + c->shown : "", j->native ? n : 0, NULL, 1);
    }
    tinyi_doc_end(&calls.m);
}

static void tinyi_choice_put(tinyi_choice *c)
{
    tinyi_job *j = c->job;
    tllm_api *w = j->api;
    tinyi_calls calls;
    tinyi_choice_read_calls(c, &calls);
    tinyi_api_put(w, "{\"index\":");
    tinyi_api_int(w, (int64_t)c->index);
    if (j->where == TINYI_AT_CHAT) {
        tinyi_api_put(w, ",\"message\":{\"role\":\"assistant\",\"content\":");
        while (calls.n && calls.content && strchr(" \n\r\t", c->text.at[calls.content - 1])) calls.content--;
        if (calls.n && !calls.content) tinyi_api_put(w, "null");
        else tinyi_api_quote(w, c->text.at, calls.content);
        if (calls.n) {
            tinyi_api_put(w, ",\"tool_calls\":[");
            tinyi_calls_put(&calls, j);
            tinyi_api_put(w, "]");
        }
        tinyi_api_put(w, "}");
    } else {
        tinyi_api_put(w, ",\"text\":");
        tinyi_api_quote(w, c->text.at, c->text.n);
    }
    tinyi_choice_put_logprobs(c);
    tinyi_api_put(w, ",\"finish_reason\":");
    tinyi_api_put(w, tinyi_choice_reason(c));
    tinyi_api_put(w, "}");
    tinyi_doc_end(&calls.m);
}

/* n choices in one object. */
static void tinyi_job_object(tinyi_job *j, size_t from, size_t n)
{
    tllm_api *w = j->api;
    size_t i;
    tinyi_job_head(j);
    tinyi_api_put(w, ",\"choices\":[");
    for (i = from; i < from + n; i++) {
        if (i > from) tinyi_api_put(w, ",");
        tinyi_choice_put(&j->choice[i]);
    }
    tinyi_api_put(w, "]");
    if (j->native) tinyi_native_put(&j->choice[from], j->choice[from].text.at, j->choice[from].text.n, 1);
    else tinyi_job_usage(j, from, n);
    tinyi_job_tail(j);
    tinyi_api_put(w, "}");
}

static void tinyi_job_answer(tinyi_job *j)
{
    tllm_api *w = j->api;
    tllm_reply *r = j->reply;
    size_t i;
    if (j->failed && !j->begun) {
        tinyi_api_error(w, r, j->extra, j->failed, NULL,
                        j->failed == 503   ? "no_memory"
                        : j->failed == 400 ? "invalid_value"
                                           : "server_error",
                        *j->says ? j->says : "there is no memory for the answer");
        return;
    }
    if (j->stream) {
        if (j->failed) {
            tinyi_api_start(w);
            tinyi_api_put(w, j->style ? "event: error\ndata: " : "data: ");
            tinyi_api_error_text(w, j->failed, NULL, j->failed == 400 ? "invalid_value" : "server_error",
                                 *j->says ? j->says : "there is no memory for the answer", NULL);
            tinyi_job_event(j);
        } else if (!j->style) {
            tinyi_api_start(w);
            tinyi_api_put(w, "data: ");
            tinyi_job_head(j);
            tinyi_api_put(w, ",\"choices\":[]");
            tinyi_job_usage(j, 0, j->n_choices);
            tinyi_api_put(w, "}");
            if (j->include_usage) tinyi_job_event(j);
        }
        if (!j->style && !j->native) {
            tinyi_api_start(w);
            tinyi_api_put(w, "data: [DONE]");
            tinyi_job_event(j);
        }
        (void)tllm_reply_end(r);
        return;
    }
    tinyi_api_start(w);
    if (j->style) tinyi_style_answer(&j->choice[0]);
    else {
        const size_t n = j->native ? 1 : j->n_choices;      /* in one object */
        if (n < j->n_choices) tinyi_api_put(w, "[");
        for (i = 0; i < j->n_choices; i += n) {
            if (i) tinyi_api_put(w, ",");
            tinyi_job_object(j, i, n);
        }
        tinyi_api_put(w, n < j->n_choices ? "]\n" : "\n");
    }
    if (j->failed && !w->w.status) w->w.status = TINY_E_MEMORY;
    tinyi_api_send(w, r, j->extra, 200);
}

void tinyi_job_ready(tinyi_job *j)
{
    j->submitted = 1;
    if (j->n_left) return;
    if (j->reply) tinyi_job_answer(j);
    if (j->reply) tllm_reply_keep(j->reply, NULL);
    tinyi_job_free(j);
}

void tinyi_job_end(void *user, const tllm_engine_result *r)
{
    tinyi_choice *c = (tinyi_choice *)user;
    tinyi_job *j = c->job;
    c->id = 0;
    c->ended = 1;
    c->end = r->end;
    c->n_prompt = r->n_prompt;
    c->n_cached = r->n_cached;
    c->n_made = r->n_made;
    c->n_proposed = r->n_proposed;
    c->n_kept = r->n_kept;
    c->start_seconds = r->start_seconds;
    c->first_seconds = r->first_seconds;
    c->seconds = r->seconds;
    j->api->prompt_seconds += r->first_seconds - r->start_seconds;
    j->api->made_seconds += r->seconds - r->first_seconds;
    j->api->made_after += r->n_made ? r->n_made - 1 : 0;
    j->api->longest = TINYI_MAX(j->api->longest, r->n_prompt + r->n_made);
    if (r->stop && !tinyi_api_append(j->api, &c->stop, r->stop, strlen(r->stop))) j->failed = 503;
    if (!tinyi_api_append(j->api, &c->text, r->text, r->n_text)) j->failed = 503;
    /* of a text that was cut off the tokens say more */
    if (j->talk && !r->status && !j->failed && r->end != TLLM_END_CALLER && r->end != TLLM_END_STRING)
        tinyi_replay_add(c);
    if (r->status && !j->failed) {
        /* a grammar beyond its limits will not fit later, either */
        j->failed = r->status == TINY_E_WORKSPACE && j->ruled                   ? 400
                    : r->status == TINY_E_MEMORY || r->status == TINY_E_WORKSPACE ? 503
                                                                                  : 500;
        (void)snprintf(j->says, sizeof j->says, "%s", *r->error ? r->error : tiny_status_text(r->status));
    } else if (r->end == TLLM_END_CALLER && !c->stopped && !j->failed) {
        j->failed = 503;                    /* nobody asked for it */
        (void)snprintf(j->says, sizeof j->says, "the server stopped before the answer was complete");
    }
    if (j->reply && j->stream && !j->failed) tinyi_choice_finish_stream(c);
    j->n_left--;
    if (j->submitted && !j->n_left) tinyi_job_ready(j);
}
