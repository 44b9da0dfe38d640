/* examples/load.c - asks a server of language models many things at once, and measures how long its answers take
 *
 *     load 127.0.0.1:8080                              8 clients, each asks again as soon as it has its answer
 *     load 127.0.0.1:8080 --rate 3 --requests 200      requests come by chance, three a second (Poisson)
 *     load unix:/run/model --svg load.svg
 *
 * For any server with /v1/completions that streams (build/serve, llama.cpp's server and others). With --rate a request
 * has its time of arrival whether the server keeps up or not, and its waiting is counted from then. Each request is a
 * connection of its own. Times are of this side of the socket, so the server's waiting lines are in them. */
#define TINYLLM_ONLY_CHAT
#define TINY_WITH_SOCKETS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "load"
#include "options.h"
#include <math.h>
#include <stddef.h>

static const char usage[] =
    "load ADDRESS [options]       ADDRESS: HOST:PORT, PORT or unix:PATH of a server\n"
    "  --requests N       in all; default: 64\n"
    "  --clients N        requests at the same time, each followed by the next; default: 8\n"
    "  --rate R           instead of clients: R requests a second on average, at random times\n"
    "  --prompt LIST      words of the prompts, one length or several separated by commas, drawn at random; default:\n"
    "                     100\n"
    "  --answer LIST      most tokens of the answers; default: 64\n"
    "  --text FILE        prompts are pieces of this text; default: words drawn at random\n"
    "  --field NAME=JSON  a further field of each request, such as ignore_eos=true; may be repeated\n"
    "  --path PATH        default: /v1/completions\n"
    "  --key-file F       the key is the first line of this file\n"
    "  --timeout S        a request that takes longer has failed; default: 120\n"
    "  --seed S           of the arrivals, lengths and prompts; default: 1\n"
    "  --svg FILE         draw the times of all requests\n"
    "  --csv FILE         a line for each request\n"
    "  --json             print one JSON object instead of the table\n";

enum { MOST_REQUESTS = 100000, MOST_OPEN = 1024, MOST_LENGTHS = 32, BUFFER = 65536 };

/* ---- a request: its times in seconds since the start, 0 where they did not come */

typedef struct request {
    double due, begun, first, last, end;
    int words, answer, prompt_tokens, tokens, pieces, status;
    const char *why;                        /* it failed */
} request;

enum { CHUNK_SIZE, CHUNK_SKIP, CHUNK_DATA, CHUNK_END };
typedef enum phase { PHASE_IDLE, PHASE_CONNECT, PHASE_SEND, PHASE_READ } phase;

typedef struct connection {
    phase phase;
    tiny_socket socket;
    request *r;
    char *out;
    size_t n_out, sent;
    int in_head, chunked, done;
    int chunk;                              /* where in a chunk the next byte stands */
    size_t left;                            /* bytes of the chunk */
    size_t n_line;
    char line[BUFFER];                      /* the line that is being read */
} connection;

typedef struct load {
    const char *address, *path, *text, *key;
    size_t n_text, n_key;
    tiny_address at[TINY_ADDRESSES];
    word_list fields;
    double rate, timeout;
    tiny_rng rng;
    uint64_t start;
} load;

static double now(const load *l) { return (double)(tiny_now_ns() - l->start) * 1e-9; }

/* ---- what is sent */

typedef struct bytes { char *at; size_t n, room; int no_memory; } bytes;

static void put(bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->room && !b->no_memory) {
        const size_t room = 2 * (b->n + n) + 256;
        char *more = (char *)realloc(b->at, room);
        if (more) b->at = more;
        if (more) b->room = room;
        b->no_memory = !more;
    }
    if (b->no_memory) return;
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
static void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }
static void put_number(bytes *b, double x)
{
    char text[40];
    put(b, text, (size_t)sprintf(text, "%.0f", x));
}

static const char *const words[] = { "the",  "river", "stone",   "walked", "under", "a",     "bright", "morning",
                                     "and",  "every", "old",     "house",  "kept",  "its",   "quiet",  "garden",
                                     "when", "rain",  "carried", "small",  "boats", "along", "green",  "fields" };

static int is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* n_words words, drawn, or of the text from the beginning of a random word on; as a text of JSON */
static void put_prompt(load *l, bytes *b, int n_words)
{
    char escaped[8];
    size_t k;
    int i;
    if (!l->text)
        for (i = 0; i < n_words; i++) {
            put_text(b, words[tiny_rng_below(&l->rng, sizeof words / sizeof *words)]);
            if (i + 1 < n_words) put_text(b, " ");
        }
    for (k = l->text ? tiny_rng_below(&l->rng, (uint32_t)l->n_text) : 0; k && !is_blank(l->text[k - 1]);) k--;
    for (i = 0; l->text && i < n_words && !b->no_memory;) {
        const char c = l->text[k];
        k = k + 1 == l->n_text ? 0 : k + 1;
        if (c == '"' || c == '\\' || (c >= 0 && c < 32))
            put(b, escaped, (size_t)sprintf(escaped, "\\u%04x", (unsigned)c));
        else put(b, &c, 1);
        i += !is_blank(c) && (!k || is_blank(l->text[k]));
    }
}

/* the whole request, in memory of its own; NULL: there is none */
static char *write_request(load *l, const request *r, size_t *n)
{
    bytes body, all;
    int i;
    memset(&body, 0, sizeof body);
    memset(&all, 0, sizeof all);
    put_text(&body, "{\"prompt\": \"");
    put_prompt(l, &body, r->words);
    put_text(&body, "\", \"max_tokens\": ");
    put_number(&body, r->answer);
    put_text(&body, ", \"stream\": true, \"stream_options\": {\"include_usage\": true}");
    for (i = 0; i < l->fields.n; i++) {
        const char *field = l->fields.at[i];
        put_text(&body, ", \"");
        put(&body, field, strcspn(field, "="));
        put_text(&body, "\": ");
        put_text(&body, strchr(field, '=') + 1);
    }
    put_text(&body, "}");
    put_text(&all, "POST ");
    put_text(&all, l->path);
    put_text(&all, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n");
    if (l->key) put_text(&all, "Authorization: Bearer ");
    if (l->key) put(&all, l->key, l->n_key);
    if (l->key) put_text(&all, "\r\n");
    put_text(&all, "Content-Length: ");
    put_number(&all, (double)body.n);
    put_text(&all, "\r\n\r\n");
    if (body.at) put(&all, body.at, body.n);
    if (body.no_memory || all.no_memory) {
        free(all.at);
        all.at = NULL;
    }
    free(body.at);
    *n = all.n;
    return all.at;
}

/* ---- what comes back: a head, then lines of "data: JSON", maybe in chunks */

/* the value of a key anywhere in a JSON text, or NULL */
static const char *value_of(const char *json, const char *key)
{
    const size_t n = strlen(key);
    const char *at = json, *begin;
    while ((at = strchr(at, '"')) != NULL) {
        begin = ++at;
        while (*at && *at != '"') at += at[0] == '\\' && at[1] ? 2 : 1;
        if (!*at) return NULL;
        at++;
        if ((size_t)(at - begin) != n + 1 || memcmp(begin, key, n)) continue;
        while (*at == ' ') at++;
        if (*at != ':') continue;
        for (at++; *at == ' ';) at++;
        return at;
    }
    return NULL;
}
static int number_of(const char *json, const char *key)
{
    const char *at = value_of(json, key);
    const double x = at ? strtod(at, NULL) : 0;
    return x > 0 && x < 1e9 ? (int)x : 0;
}

static void take_line(const load *l, connection *c)
{
    request *r = c->r;
    const char *text, *data = c->line + 5;
    c->line[c->n_line] = 0;
    if (strncmp(c->line, "data:", 5)) return;
    if (strstr(data, "[DONE]")) c->done = 1;
    if (value_of(data, "error") && strncmp(value_of(data, "error"), "null", 4)) r->why = "the stream names an error";
    text = value_of(data, "text");
    if (!text) text = value_of(data, "content");
    if (text && text[0] == '"' && text[1] != '"') {
        r->last = now(l);
        if (!r->pieces++) r->first = r->last;
    }
    if (number_of(data, "completion_tokens")) r->tokens = number_of(data, "completion_tokens");
    if (number_of(data, "prompt_tokens")) r->prompt_tokens = number_of(data, "prompt_tokens");
}

static void take_head(connection *c)
{
    c->line[c->n_line] = 0;
    if (!c->r->status) {
        const char *blank = strchr(c->line, ' ');
        c->r->status = !strncmp(c->line, "HTTP/1.", 7) && blank ? atoi(blank) : -1;
        return;
    }
    if (!c->n_line) {
        c->in_head = c->r->status == 100;   /* another head follows */
        if (c->in_head) c->r->status = 0;
    } else {
        size_t k;
        for (k = 0; k < c->n_line; k++)
            if (c->line[k] >= 'A' && c->line[k] <= 'Z') c->line[k] = (char)(c->line[k] + 32);
        if (!strncmp(c->line, "transfer-encoding:", 18) && strstr(c->line, "chunked")) c->chunked = 1;
    }
}

/* 1: this byte after the head belongs to the body, 0: to the frame of its chunk */
static int is_body(connection *c, char b)
{
    const char *const digits = "0123456789abcdef", *digit;
    if (!c->chunked) return 1;
    switch (c->chunk) {
    case CHUNK_DATA:
        if (!--c->left) c->chunk = CHUNK_END;
        return 1;
    case CHUNK_SIZE:
        digit = b ? strchr(digits, b >= 'A' && b <= 'F' ? b + 32 : b) : NULL;
        if (digit && c->left < (size_t)1 << 40) c->left = 16 * c->left + (size_t)(digit - digits);
        else if (b == ';') c->chunk = CHUNK_SKIP;
        else if (b != '\r' && b != '\n') c->r->why = "the length of a chunk is not a number";
        break;
    case CHUNK_SKIP: break;
    case CHUNK_END: break;
    }
    if (b != '\n') return 0;
    if (c->chunk == CHUNK_END) c->chunk = CHUNK_SIZE;
    else if (c->left) c->chunk = CHUNK_DATA;
    else c->done = 1;
    return 0;
}

static void take(const load *l, connection *c, const char *data, size_t n)
{
    size_t k;
    for (k = 0; k < n && !c->r->why && !c->done; k++) {
        const char b = data[k];
        if ((!c->in_head && !is_body(c, b)) || b == '\r') continue;
        if (b != '\n') {
            if (c->n_line + 1 < sizeof c->line) c->line[c->n_line++] = b;
            else c->r->why = "a line of the answer is too long";
            continue;
        }
        if (c->in_head) take_head(c);
        else take_line(l, c);
        c->n_line = 0;
    }
}

/* ---- the loop */

static void end_request(const load *l, connection *c, const char *why)
{
    request *r = c->r;
    tiny_socket_close(c->socket);
    free(c->out);
    r->end = now(l);
    if (why && !r->why) r->why = why;
    c->socket = TINY_NO_SOCKET;
    c->out = NULL;
    c->phase = PHASE_IDLE;
    c->r = NULL;
}

static void begin_request(tiny_ctx *ctx, load *l, connection *c, request *r)
{
    memset(c, 0, offsetof(connection, line));
    c->in_head = 1;
    c->r = r;
    c->socket = TINY_NO_SOCKET;
    r->begun = now(l);
    c->phase = PHASE_CONNECT;
    c->out = write_request(l, r, &c->n_out);
    if (!c->out) end_request(l, c, "out of memory");
    else if (tiny_socket_connect(ctx, &l->at[0], &c->socket)) end_request(l, c, "no connection");
}

static void go_on(tiny_ctx *ctx, const load *l, connection *c, int can)
{
    static char data[BUFFER];
    size_t n = 0;
    int end = 0;
    if (c->phase == PHASE_CONNECT && (can & TINY_POLL_WRITE)) {
        if (tiny_socket_connected(ctx, c->socket)) {
            end_request(l, c, "no connection");
            return;
        }
        c->phase = PHASE_SEND;
    }
    if (c->phase == PHASE_SEND && (can & TINY_POLL_WRITE)) {
        if (tiny_socket_write(ctx, c->socket, c->out + c->sent, c->n_out - c->sent, &n)) {
            end_request(l, c, "the connection broke");
            return;
        }
        c->sent += n;
        if (c->sent == c->n_out) c->phase = PHASE_READ;
    }
    if (c->phase != PHASE_READ || !(can & TINY_POLL_READ)) return;
    if (tiny_socket_read(ctx, c->socket, data, sizeof data, &n, &end)) end_request(l, c, "the connection broke");
    else {
        take(l, c, data, n);
        if (c->r->why || c->done || end) {
            request *r = c->r;
            end_request(l, c, NULL);
            if (!r->why && r->status != 200) r->why = "another status than 200";
            if (!r->why && !r->pieces && !r->tokens) r->why = "no text came";
        }
    }
}

/* the next request begins when a client is free, or when it is due and a connection is free */
static tiny_status run(tiny_ctx *ctx, load *l, request *r, int n, connection *c, int n_open)
{
    tiny_poll polls[MOST_OPEN];
    int begun = 0, ended = 0, failed = 0, i;
    double shown = 2;
    tiny_status st = TINY_OK;
    while (ended < n && !st && !stopped_by) {
        double until = now(l) + 1;
        for (i = 0; i < n_open; i++) {
            if (c[i].phase == PHASE_IDLE && begun < n && (l->rate <= 0 || r[begun].due <= now(l))) {
                if (l->rate <= 0) r[begun].due = now(l);
                begin_request(ctx, l, &c[i], &r[begun++]);
                ended += c[i].phase == PHASE_IDLE;
            }
            polls[i].socket = c[i].phase == PHASE_IDLE ? TINY_NO_SOCKET : c[i].socket;
            polls[i].want = c[i].phase == PHASE_READ ? TINY_POLL_READ : TINY_POLL_WRITE;
            polls[i].can = 0;
        }
        if (l->rate > 0 && begun < n && r[begun].due < until) until = r[begun].due > 0 ? r[begun].due : 0;
        st = tiny_socket_poll(ctx, polls, (size_t)n_open, l->start + (uint64_t)(until * 1e9));
        for (i = 0; i < n_open && !st; i++) {
            request *q = c[i].r;
            if (c[i].phase == PHASE_IDLE) continue;
            if (polls[i].can) go_on(ctx, l, &c[i], polls[i].can);
            if (c[i].phase != PHASE_IDLE && now(l) - q->due > l->timeout) end_request(l, &c[i], "it took too long");
            ended += c[i].phase == PHASE_IDLE;
            failed += c[i].phase == PHASE_IDLE && q->why;
        }
        if (is_shown() && now(l) > shown) {
            fprintf(stderr, "\r%d of %d answered, %d failed, %.0f s  ", ended, n, failed, now(l));
            shown = now(l) + 0.5;
            progress_shown = 1;
        }
    }
    end_progress();
    for (i = 0; i < n_open; i++)
        if (c[i].phase != PHASE_IDLE) end_request(l, &c[i], "stopped");
    for (; begun < n; begun++) r[begun].why = "not begun";
    return st;
}

/* ---- what is reported */

static int order(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

enum { FIRST, BETWEEN, WHOLE, TIMES };
static const char *const time_name[TIMES] = { "first token", "between tokens", "whole request" };
static const char *const time_key[TIMES] = { "first", "between", "whole" };

/* seconds; below 0: the request has none */
static double time_of(const request *r, int what)
{
    if (r->why || (what == BETWEEN && r->pieces < 2)) return -1;
    if (what == FIRST) return r->first - r->due;
    return what == WHOLE ? r->end - r->due : (r->last - r->first) / (r->pieces - 1);
}

typedef struct spread { int n; double mean, p50, p95, p99, most; } spread;
/* sorted: room for n numbers, which it sorts; percentiles are those of the nearest rank */
static spread spread_of(const request *r, int n, int what, double *sorted)
{
    spread s;
    int i;
    memset(&s, 0, sizeof s);
    for (i = 0; i < n; i++)
        if (time_of(&r[i], what) >= 0) s.mean += sorted[s.n++] = time_of(&r[i], what);
    if (!s.n) return s;
    qsort(sorted, (size_t)s.n, sizeof *sorted, order);
    s.mean /= s.n;
    s.p50 = sorted[(s.n * 50 + 99) / 100 - 1];
    s.p95 = sorted[(s.n * 95 + 99) / 100 - 1];
    s.p99 = sorted[(s.n * 99 + 99) / 100 - 1];
    s.most = sorted[s.n - 1];
    return s;
}

/* Each request is a line from its arrival to its end: waiting is pale, the answer dark. Below, the share of requests
 * whose first token came within a time. */
static void draw(bytes *b, const request *r, int n, double *sorted, const char *title)
{
    char text[256];
    double end = 1e-3, x;
    const spread s = spread_of(r, n, FIRST, sorted);
    int i;
#define PUT(...) put(b, text, (size_t)snprintf(text, sizeof text, __VA_ARGS__))
    for (i = 0; i < n; i++) end = r[i].end > end ? r[i].end : end;
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"560\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n");
    PUT("<rect width=\"760\" height=\"560\" fill=\"#fff\"/>\n<text x=\"50\" y=\"20\">%.120s</text>\n", title);
    for (i = 0; i < n; i++) {
        const double y = 30 + 280.0 * (i + 0.5) / n, h = 280.0 / n > 12 ? 10 : 0.8 * 280.0 / n;
        const double from = r[i].due, mid = r[i].first > 0 ? r[i].first : r[i].end, to = r[i].end;
        if (to <= 0) continue;
#define BAR "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"%s\"/>\n"
        PUT(BAR, 50 + 680 * from / end, y - h / 2, 680 * (mid - from) / end, h, r[i].why ? "#d55e00" : "#bcd");
        PUT(BAR, 50 + 680 * mid / end, y - h / 2, 680 * (to - mid) / end, h, r[i].why ? "#d55e00" : "#0072b2");
#undef BAR
    }
    for (i = 0; i <= 5; i++)
        PUT("<text x=\"%.0f\" y=\"328\" text-anchor=\"middle\">%.3g s</text>\n", 50 + 136.0 * i, end * i / 5);
    PUT("<text x=\"50\" y=\"352\">requests in the order of their arrival: waiting pale, answers dark, failures "
        "orange</text>\n");
    PUT("<path d=\"M50 370V520H730\" stroke=\"#999\" fill=\"none\"/>\n<path fill=\"none\" stroke=\"#0072b2\" "
        "stroke-width=\"2\" d=\"M50 520");
    for (i = 0; i < s.n; i++) {
        x = 50 + 680 * sorted[i] / (s.most > 0 ? s.most : 1);
        PUT("H%.1fV%.1f", x, 520 - 150.0 * (i + 1) / s.n);
    }
    PUT("\"/>\n");
    for (i = 0; i <= 5; i++)
        PUT("<text x=\"%.0f\" y=\"536\" text-anchor=\"middle\">%.3g ms</text>\n", 50 + 136.0 * i, 200 * s.most * i);
    PUT("<text x=\"44\" y=\"376\" text-anchor=\"end\">100 %%</text>\n<text x=\"50\" y=\"554\">share of the requests "
        "whose first token came within this time</text>\n</svg>\n");
#undef PUT
}

static void list(bytes *b, const request *r, int n)
{
    char text[512];
    int i;
    put_text(b, "due,begun,first,last,end,words,prompt_tokens,tokens,pieces,status,failure\n");
    for (i = 0; i < n; i++)
        put(b, text, (size_t)snprintf(text, sizeof text, "%.6f,%.6f,%.6f,%.6f,%.6f,%d,%d,%d,%d,%d,%s\n", r[i].due,
                                      r[i].begun, r[i].first, r[i].last, r[i].end, r[i].words, r[i].prompt_tokens,
                                      r[i].tokens, r[i].pieces, r[i].status, r[i].why ? r[i].why : ""));
}

static void report(const request *r, int n, double *sorted, double seconds, int json)
{
    double prompt_tokens = 0, tokens = 0;
    int answered = 0, i, k;
    for (i = 0; i < n; i++)
        if (!r[i].why) {
            answered++;
            prompt_tokens += r[i].prompt_tokens;
            tokens += r[i].tokens ? r[i].tokens : r[i].pieces;
        }
    if (json)
        printf("{\"requests\": %d, \"answered\": %d, \"seconds\": %.6f, \"prompt_tokens\": %.0f, \"tokens\": %.0f, "
               "\"tokens_per_second\": %.4f", n, answered, seconds, prompt_tokens, tokens, tokens / seconds);
    else {
        printf("%d of %d requests answered in %.2f s: %.2f a second\n", answered, n, seconds, answered / seconds);
        printf("%.0f tokens of prompts, %.0f tokens of answers: %.1f a second\n", prompt_tokens, tokens,
               tokens / seconds);
        printf("%-18s %9s %9s %9s %9s %9s\n", "milliseconds", "mean", "50 %", "95 %", "99 %", "most");
    }
    for (k = 0; k < TIMES; k++) {
        const spread s = spread_of(r, n, k, sorted);
        if (json)
            printf(", \"%s\": {\"n\": %d, \"mean\": %.6f, \"p50\": %.6f, \"p95\": %.6f, \"p99\": %.6f, \"most\": %.6f}",
                   time_key[k], s.n, s.mean, s.p50, s.p95, s.p99, s.most);
        else
            printf("%-18s %9.2f %9.2f %9.2f %9.2f %9.2f\n", time_name[k], 1e3 * s.mean, 1e3 * s.p50, 1e3 * s.p95,
                   1e3 * s.p99, 1e3 * s.most);
    }
    if (json) printf("}\n");
    for (i = 0; i < n; i++) {               /* each reason once, with its number */
        int same = 0;
        for (k = 0; k < i && r[i].why; k++) same += r[k].why == r[i].why && r[k].status == r[i].status;
        if (!r[i].why || same) continue;
        for (k = i; k < n; k++) same += r[k].why == r[i].why && r[k].status == r[i].status;
        fprintf(stderr, PROGRAM ": %d failed: %s", same, r[i].why);
        if (r[i].status > 0 && r[i].status != 200) fprintf(stderr, " (HTTP %d)", r[i].status);
        fputc('\n', stderr);
    }
}

/* "16,128" */
static int read_lengths(const char *text, int *lengths, int *n)
{
    char *end;
    for (*n = 0; *n < MOST_LENGTHS; text = end + 1) {
        const long x = strtol(text, &end, 10);
        if (end == text || *text == ' ' || *text == '+' || x < 1 || x > 1000000) return 0;
        lengths[(*n)++] = (int)x;
        if (!*end) return 1;
        if (*end != ',') return 0;
    }
    return 0;
}

static const char of_lengths[] = "it takes lengths from 1 to 1000000, separated by commas";

int main(int argc, char **argv)
{
    static connection c[MOST_OPEN];
    static load l;
    const char *prompt = "100", *answer = "64", *text_path = NULL, *key_path = NULL, *svg = NULL, *csv = NULL;
    int n = 64, clients = 8, json = 0, words_of[MOST_LENGTHS], answer_of[MOST_LENGTHS], n_words, n_answers;
    int i, failed = 0;
    uint64_t seed = 1;
    char *text = NULL, *key = NULL;
    request *r;
    double *sorted, due = 0;
    bytes b;
    tiny_ctx *ctx = NULL;
    tiny_ctx_desc desc;
    tiny_status st;
    const option options[] = { THE_WORD("address", &l.address),
                               A_WHOLE("--requests", &n, 1, MOST_REQUESTS),
                               A_WHOLE("--clients", &clients, 1, MOST_OPEN),
                               A_NUMBER("--rate", &l.rate, 1e-3, 1e6),
                               A_TEXT("--prompt", &prompt),
                               A_TEXT("--answer", &answer),
                               A_TEXT("--text", &text_path),
                               A_LIST("--field", &l.fields, 64),
                               A_TEXT("--path", &l.path),
                               A_TEXT("--key-file", &key_path),
                               A_NUMBER("--timeout", &l.timeout, 1e-3, 1e6),
                               A_SEED("--seed", &seed),
                               A_TEXT("--svg", &svg),
                               A_TEXT("--csv", &csv),
                               A_FLAG("--json", &json) };
    memset(&desc, 0, sizeof desc);
    memset(&b, 0, sizeof b);
    l.path = "/v1/completions";
    l.timeout = 120;
    READ_OPTIONS(argc, argv, usage, options);
    if (!read_lengths(prompt, words_of, &n_words)) return wrong("--prompt", of_lengths);
    if (!read_lengths(answer, answer_of, &n_answers)) return wrong("--answer", of_lengths);
    if (l.path[0] != '/' || l.path[strcspn(l.path, " \r\n")])
        return wrong("--path", "it begins with / and has no space");
    for (i = 0; i < l.fields.n; i++)
        if (!strchr(l.fields.at[i], '=') || l.fields.at[i][0] == '=')
            return wrong(l.fields.at[i], "NAME=JSON is wanted");
    if (must_not_write(svg, 3, text_path, key_path, csv) || must_not_write(csv, 3, text_path, key_path, svg)) return 2;
    if (text_path && !(text = read_text(text_path, MOST_TEXT, 0, &l.n_text))) return 1;
    if (text && !text[strspn(text, " \n\r\t")]) return free(text), wrong(text_path, "there is no word in it");
    if (key_path && !(key = read_text(key_path, MOST_SETTINGS, 0, &l.n_key))) return free(text), 1;
    l.text = text;
    l.key = key;
    l.n_key = key ? strcspn(key, "\r\n") : 0;
    l.rng = tiny_rng_make(seed, 0);
    desc.log = hear;
    desc.user = &ctx;
    r = (request *)calloc((size_t)n, sizeof *r);
    sorted = (double *)calloc((size_t)n, sizeof *sorted);
    st = r && sorted ? tiny_ctx_open(&desc, &ctx) : TINY_E_MEMORY;
    for (i = 0; i < n && !st; i++) {
        r[i].words = words_of[tiny_rng_below(&l.rng, (uint32_t)n_words)];
        r[i].answer = answer_of[tiny_rng_below(&l.rng, (uint32_t)n_answers)];
        if (l.rate > 0) r[i].due = due += -log(1 - tiny_rng_uniform64(&l.rng)) / l.rate;
    }
    for (i = 0; i < MOST_OPEN; i++) c[i].socket = TINY_NO_SOCKET;
    if (!st) st = tiny_address_find(ctx, l.address, l.at, &i);
    stop_on_signals_whole();
    l.start = tiny_now_ns();
    if (!st) st = run(ctx, &l, r, n, c, l.rate > 0 ? MOST_OPEN : clients);
    if (!st) {
        report(r, n, sorted, now(&l), json);
        for (i = 0; i < n; i++) failed += r[i].why != NULL;
        if (svg) draw(&b, r, n, sorted, l.address);
        if (svg && !b.no_memory) st = tiny_file_write(ctx, svg, b.at, b.n);
        b.n = 0;
        if (csv && !st) list(&b, r, n);
        if (csv && !st && !b.no_memory) st = tiny_file_write(ctx, csv, b.at, b.n);
        if (b.no_memory) st = TINY_E_MEMORY;
    }
    if (st) say(ctx ? tiny_ctx_message(ctx) : "out of memory");
    free(b.at);
    free(r);
    free(sorted);
    free(text);
    free(key);
    tiny_ctx_close(ctx);
    return exit_status(st || failed);
}
