/* src/llm/serve/http.c - HTTP/1.1 requests, byte by byte
 *
 * Source   RFC 9110 and RFC 9112. Where they allow a lenient reading, this reader refuses.
 * Cost     one table look-up and one switch for each byte of the head; bodies of known length are not looked at, chunks
 *          are moved once.
 * Left out pipelined answers out of order, which HTTP/1.1 does not have; upgrades; codings of the body. */
#include "llm/serve/http.h"
#include <string.h>

#define TINYI_HTTP_CHUNK_DIGITS 15          /* of a chunk's length: it fits 64 bits with room to add */

enum {                                      /* steps: what the next byte belongs to */
       TINYI_HTTP_BEGIN,
       TINYI_HTTP_BEGIN_LF,
       TINYI_HTTP_METHOD,
       TINYI_HTTP_TARGET,
       TINYI_HTTP_VERSION,
       TINYI_HTTP_LINE_LF,
       TINYI_HTTP_NAME_BEGIN,
       TINYI_HTTP_NAME,
       TINYI_HTTP_BLANK,
       TINYI_HTTP_VALUE,
       TINYI_HTTP_VALUE_LF,
       TINYI_HTTP_HEAD_LF,
       TINYI_HTTP_PLAIN,
       TINYI_HTTP_SIZE_BEGIN,
       TINYI_HTTP_SIZE,
       TINYI_HTTP_SIZE_LF,
       TINYI_HTTP_DATA,
       TINYI_HTTP_DATA_CR,
       TINYI_HTTP_DATA_LF
};

/* letters, digits and ! # $ % & ' * + - . ^ _ ` | ~ */
static int tinyi_http_is_token(unsigned c)
{
    static const uint32_t set[4] = { 0, 0x03ff6cfau, 0xc7fffffeu, 0x57ffffffu };
    return c < 128 && (set[c >> 5] >> (c & 31) & 1);
}

/* characters of a host with its port: names, IPv4, [IPv6] */
static int tinyi_http_in_host(unsigned c)
{
    return (tinyi_http_is_token(c) && !strchr("#^`|", (int)c)) || c == ':' || c == '[' || c == ']';
}

static tllm_http_state tinyi_http_fail(tllm_http_request *r, int error, const char *says)
{
    r->error = error;
    r->says = says;
    return r->state = TLLM_HTTP_FAILED;
}
#define TINYI_HTTP_BAD(says) return tinyi_http_fail(r, 400, says)

int tinyi_http_is(const char *at, size_t n, const char *text)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const unsigned c = (unsigned char)at[i];
        if (!text[i] || (c >= 'A' && c <= 'Z' ? c + 32 : c) != (unsigned char)text[i]) return 0;
    }
    return !text[n];
}

void tllm_http_start(tllm_http_request *r, const tllm_http_limits *limits)
{
    if (!r) return;
    memset(r, 0, sizeof *r);
    if (limits) r->limits = *limits;
    if (!r->limits.line_bytes) r->limits.line_bytes = 8u << 10;
    if (!r->limits.head_bytes) r->limits.head_bytes = 32u << 10;
    if (r->limits.head_bytes > 1u << 30) r->limits.head_bytes = 1u << 30; /* offsets have 32 bits */
    if (!r->limits.fields || r->limits.fields > TLLM_HTTP_FIELDS) r->limits.fields = TLLM_HTTP_FIELDS;
    if (!r->limits.body_bytes) r->limits.body_bytes = (size_t)8 << 20;
}

/* ---- the request line ---- */

static tllm_http_state tinyi_http_line(tllm_http_request *r, const char *bytes)
{
    static const char scheme[] = "http://";
    const char *v = bytes + r->mark, *target = bytes + r->target;
    const uint32_t n = r->end - r->mark;
    if (n != 8 || memcmp(v, "HTTP/", 5) || v[5] < '0' || v[5] > '9' || v[6] != '.' || v[7] < '0' || v[7] > '9')
        TINYI_HTTP_BAD("the request line does not end with HTTP/1.1");
    if (v[5] != '1' || v[7] > '1') return tinyi_http_fail(r, 505, "this server speaks HTTP/1.1 and HTTP/1.0");
    r->minor = v[7] - '0';
    if (r->target_bytes >= sizeof scheme - 1 && tinyi_http_is(target, sizeof scheme - 1, scheme)) {
        uint32_t i = sizeof scheme - 1;
        while (i < r->target_bytes && tinyi_http_in_host((unsigned char)target[i])) i++;
        if (i == sizeof scheme - 1 || i == r->target_bytes || target[i] != '/')
            TINYI_HTTP_BAD("the target of the request is not http://host/path");
        r->target_bytes -= i;
        r->target += i;
    } else if (target[0] != '/' && !(r->target_bytes == 1 && target[0] == '*' && r->method_bytes == 7 &&
                                     !memcmp(bytes + r->method, "OPTIONS", 7)))
        TINYI_HTTP_BAD("the target of the request is not a path");
    return r->state;
}

/* ---- fields that decide where the request ends ---- */

/* The next part of a list "a, b"; 0: no more. */
static int tinyi_http_part(const char **at, const char *end, const char **part, size_t *n)
{
    const char *stop;
    while (*at < end && (**at == ',' || **at == ' ' || **at == '\t')) ++*at;
    if (*at == end) return 0;
    *part = *at;
    while (*at < end && **at != ',') ++*at;
    for (stop = *at; stop[-1] == ' ' || stop[-1] == '\t';) stop--;
    *n = (size_t)(stop - *part);
    return 1;
}

static tllm_http_state tinyi_http_field(tllm_http_request *r, const char *bytes)
{
    const tllm_http_field *f = &r->field[r->n_fields - 1];
    const char *name = bytes + f->name, *value = bytes + f->value, *part;
    const size_t n = f->value_bytes;
    size_t i, n_part;
    if (tinyi_http_is(name, f->name_bytes, "content-length")) {
        if (r->has_length) TINYI_HTTP_BAD("the request has two Content-Length fields");
        if (!n) TINYI_HTTP_BAD("Content-Length is empty");
        for (i = 0; i < n; i++)
            if (value[i] < '0' || value[i] > '9') TINYI_HTTP_BAD("Content-Length is not a number of digits");
        if (n > 19) return tinyi_http_fail(r, 413, "Content-Length is larger than the limit for a body");
        for (i = 0; i < n; i++) r->length = 10 * r->length + (uint64_t)(value[i] - '0');
        r->has_length = 1;
    } else if (tinyi_http_is(name, f->name_bytes, "transfer-encoding")) {
        if (r->chunked) TINYI_HTTP_BAD("the request has two Transfer-Encoding fields");
        if (!tinyi_http_is(value, n, "chunked"))
            return tinyi_http_fail(r, 501, "the only Transfer-Encoding that this server reads is chunked");
        r->chunked = 1;
    } else if (tinyi_http_is(name, f->name_bytes, "host")) {
        if (r->has_host) TINYI_HTTP_BAD("the request has two Host fields");
        for (i = 0; i < n; i++)
            if (!tinyi_http_in_host((unsigned char)value[i])) TINYI_HTTP_BAD("Host is not the name of a host");
        r->has_host = 1;
    } else if (tinyi_http_is(name, f->name_bytes, "connection")) {
        const char *at = value;
        while (tinyi_http_part(&at, value + n, &part, &n_part)) {
            if (tinyi_http_is(part, n_part, "close")) r->keep_alive = -1; /* wins over keep-alive */
            else if (tinyi_http_is(part, n_part, "keep-alive") && !r->keep_alive) r->keep_alive = 1;
        }
    } else if (tinyi_http_is(name, f->name_bytes, "expect")) {
        if (!tinyi_http_is(value, n, "100-continue"))
            return tinyi_http_fail(r, 417, "the only Expect that this server knows is 100-continue");
        r->expects_continue = 1;
    }
    return r->state;
}

/* at: the first byte after the head */
static tllm_http_state tinyi_http_head_ends(tllm_http_request *r, size_t at)
{
    if (!r->has_host && r->minor) TINYI_HTTP_BAD("an HTTP/1.1 request needs a Host field");
    if (r->chunked && !r->minor) TINYI_HTTP_BAD("Transfer-Encoding is not for HTTP/1.0");
    if (r->chunked && r->has_length) TINYI_HTTP_BAD("the request has both Content-Length and Transfer-Encoding");
    if (r->length > r->limits.body_bytes)
        return tinyi_http_fail(r, 413, "Content-Length is larger than the limit for a body");
    r->keep_alive = r->keep_alive > 0 || (!r->keep_alive && r->minor);
    if (!r->minor) r->expects_continue = 0;
    r->body_at = at;
    r->head = (uint32_t)at;
    r->left = r->length;
    r->step = r->chunked ? TINYI_HTTP_SIZE_BEGIN : TINYI_HTTP_PLAIN;
    if (!r->chunked && !r->length) {
        r->used = at;
        return r->state = TLLM_HTTP_DONE;
    }
    return r->state = TLLM_HTTP_BODY;
}

/* One byte of a line of a field or a trailer, whose text stands from r->mark on. */
static tllm_http_state tinyi_http_field_byte(tllm_http_request *r, const char *bytes, unsigned c, uint32_t at)
{
    tllm_http_field *f;
    const int trailer = r->state == TLLM_HTTP_BODY;
    switch (r->step) {
    case TINYI_HTTP_NAME_BEGIN:
        if (c == '\r') {
            r->step = TINYI_HTTP_HEAD_LF;
            break;
        }
        if (c == ' ' || c == '\t') TINYI_HTTP_BAD("a line of the head begins with a blank");
        if (c == ':') TINYI_HTTP_BAD("a field of the head has no name");
        if (!trailer && r->n_fields == r->limits.fields)
            return tinyi_http_fail(r, 431, "the head has more fields than the limit");
        r->mark = at;
        r->step = TINYI_HTTP_NAME;
        /* fall through */
    case TINYI_HTTP_NAME:
        if (c == ':') {
            if (!trailer) {
                f = &r->field[r->n_fields++];
                f->name = r->mark;
                f->name_bytes = at - r->mark;
                f->value = f->value_bytes = 0;
            }
            r->step = TINYI_HTTP_BLANK;
        } else if (c == ' ' || c == '\t') TINYI_HTTP_BAD("a blank stands before the colon of a field");
        else if (!tinyi_http_is_token(c)) TINYI_HTTP_BAD("the name of a field has an invalid character");
        break;
    case TINYI_HTTP_BLANK:
        if (c == ' ' || c == '\t') break;
        r->mark = r->end = at;
        r->step = TINYI_HTTP_VALUE;
        /* fall through */
    case TINYI_HTTP_VALUE:
        if (c == '\r') r->step = TINYI_HTTP_VALUE_LF;
        else if ((c < 32 && c != '\t') || c == 127) TINYI_HTTP_BAD("the value of a field has a control character");
        else if (c != ' ' && c != '\t') r->end = at + 1;
        break;
    case TINYI_HTTP_VALUE_LF:
        if (c != '\n') TINYI_HTTP_BAD("a line of the head has a CR without LF");
        r->step = TINYI_HTTP_NAME_BEGIN;
        if (trailer) break;
        f = &r->field[r->n_fields - 1];
        f->value = r->mark;
        f->value_bytes = r->end - r->mark;
        return tinyi_http_field(r, bytes);
    default: break;
    }
    return r->state;
}

static tllm_http_state tinyi_http_head_byte(tllm_http_request *r, const char *bytes, unsigned c, size_t place)
{
    const uint32_t at = (uint32_t)place;    /* below head_bytes */
    switch (r->step) {
    case TINYI_HTTP_BEGIN:
    case TINYI_HTTP_METHOD:
        if (c == '\r' && r->step == TINYI_HTTP_BEGIN && at <= 2) { /* some clients end a body with empty lines */
            r->step = TINYI_HTTP_BEGIN_LF;
            break;
        }
        if (r->step == TINYI_HTTP_BEGIN) r->method = at;
        r->step = TINYI_HTTP_METHOD;
        r->method_bytes = at - r->method;
        if (c == ' ' && r->method_bytes) {
            r->target = at + 1;
            r->step = TINYI_HTTP_TARGET;
        } else if (!tinyi_http_is_token(c)) TINYI_HTTP_BAD("the method of the request has an invalid character");
        else if (r->method_bytes == TLLM_HTTP_METHOD)
            return tinyi_http_fail(r, 501, "the method of the request is longer than any that is known");
        break;
    case TINYI_HTTP_BEGIN_LF:
        if (c != '\n') TINYI_HTTP_BAD("the request begins with a CR without LF");
        r->step = TINYI_HTTP_BEGIN;
        break;
    case TINYI_HTTP_TARGET:
        r->target_bytes = at - r->target;
        if (c == ' ' && r->target_bytes) {
            r->mark = r->end = at + 1;
            r->step = TINYI_HTTP_VERSION;
        } else if (c <= 32 || c >= 127 || c == '#')
            TINYI_HTTP_BAD("the target of the request has an invalid character");
        break;
    case TINYI_HTTP_VERSION:
        r->end = at;
        if (c == '\r') r->step = TINYI_HTTP_LINE_LF;
        else if (c <= 32 || c >= 127 || at - r->mark == 8)
            TINYI_HTTP_BAD("the request line does not end with HTTP/1.1");
        break;
    case TINYI_HTTP_LINE_LF:
        if (c != '\n') TINYI_HTTP_BAD("the request line has a CR without LF");
        r->step = TINYI_HTTP_NAME_BEGIN;
        return tinyi_http_line(r, bytes);
    case TINYI_HTTP_HEAD_LF:
        if (c != '\n') TINYI_HTTP_BAD("the head ends with a CR without LF");
        return tinyi_http_head_ends(r, place + 1);
    default: return tinyi_http_field_byte(r, bytes, c, at);
    }
    return r->state;
}

/* ---- chunks ---- */

/* One byte that is not data of a chunk; to: where the data that came so far ends. */
static tllm_http_state tinyi_http_chunk_byte(tllm_http_request *r, const char *bytes, unsigned c, size_t to)
{
    const unsigned digit = c >= '0' && c <= '9'   ? c - '0'
                           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                  : 16;
    switch (r->step) {
    case TINYI_HTTP_SIZE_BEGIN:
        if (digit > 15) TINYI_HTTP_BAD("the length of a chunk is not a number");
        r->left = digit;
        r->mark = 1;                        /* digits */
        r->step = TINYI_HTTP_SIZE;
        break;
    case TINYI_HTTP_SIZE:
        if (c == '\r') r->step = TINYI_HTTP_SIZE_LF;
        else if (c == ';') TINYI_HTTP_BAD("a chunk has an extension, which this server refuses");
        else if (digit > 15) TINYI_HTTP_BAD("the length of a chunk has an invalid character");
        else if (r->mark++ == TINYI_HTTP_CHUNK_DIGITS) TINYI_HTTP_BAD("the length of a chunk has too many digits");
        else r->left = 16 * r->left + digit;
        break;
    case TINYI_HTTP_SIZE_LF:
        if (c != '\n') TINYI_HTTP_BAD("the length of a chunk has a CR without LF");
        if (r->left > r->limits.body_bytes - (to - r->body_at))
            return tinyi_http_fail(r, 413, "the chunks of the body are longer than the limit for a body");
        r->step = r->left ? TINYI_HTTP_DATA : TINYI_HTTP_NAME_BEGIN;
        break;
    case TINYI_HTTP_DATA_CR:
        if (c != '\r') TINYI_HTTP_BAD("a chunk is longer than its length");
        r->step = TINYI_HTTP_DATA_LF;
        break;
    case TINYI_HTTP_DATA_LF:
        if (c != '\n') TINYI_HTTP_BAD("a chunk ends with a CR without LF");
        r->step = TINYI_HTTP_SIZE_BEGIN;
        break;
    default:                                /* trailers */
        if (r->head++ == r->limits.head_bytes)
            return tinyi_http_fail(r, 431, "the trailers are longer than the limit for a head");
        if (r->step != TINYI_HTTP_HEAD_LF) return tinyi_http_field_byte(r, bytes, c, 0);
        if (c != '\n') TINYI_HTTP_BAD("the trailers end with a CR without LF");
        r->used = to;
        return r->state = TLLM_HTTP_DONE;
    }
    return r->state;
}

static void tinyi_http_chunks(tllm_http_request *r, char *bytes, size_t *n)
{
    size_t to = r->body_at + r->body_bytes;
    while (r->at < *n && r->state == TLLM_HTTP_BODY) {
        if (r->step != TINYI_HTTP_DATA) {
            (void)tinyi_http_chunk_byte(r, bytes, (unsigned char)bytes[r->at], to);
            r->at++;
        } else {
            const size_t here = *n - r->at < r->left ? *n - r->at : (size_t)r->left;
            memmove(bytes + to, bytes + r->at, here);
            to += here;
            r->at += here;
            r->left -= here;
            if (!r->left) r->step = TINYI_HTTP_DATA_CR;
        }
    }
    if (r->state == TLLM_HTTP_FAILED) return;
    r->body_bytes = to - r->body_at;
    if (r->at > to) memmove(bytes + to, bytes + r->at, *n - r->at); /* the next request, after DONE */
    *n -= r->at - to;
    r->at = to;
}

tllm_http_state tllm_http_feed(tllm_http_request *r, char *bytes, size_t *n)
{
    if (!r) return TLLM_HTTP_FAILED;
    if (!n || (!bytes && *n) || *n < r->at || !r->limits.head_bytes)
        return tinyi_http_fail(r, 500, "the reader of requests was called with invalid arguments");
    while (r->state == TLLM_HTTP_HEAD && r->at < *n) {
        if (r->step <= TINYI_HTTP_LINE_LF && r->at == r->limits.line_bytes)
            return tinyi_http_fail(r, 414, "the request line is longer than the limit");
        if (r->at == r->limits.head_bytes)
            return tinyi_http_fail(r, 431, "the head of the request is longer than the limit");
        (void)tinyi_http_head_byte(r, bytes, (unsigned char)bytes[r->at], r->at);
        r->at++;
    }
    if (r->state == TLLM_HTTP_BODY && r->chunked) tinyi_http_chunks(r, bytes, n);
    else if (r->state == TLLM_HTTP_BODY) {
        r->body_bytes = *n - r->body_at < r->length ? *n - r->body_at : (size_t)r->length;
        r->at = r->body_at + r->body_bytes;
        if (r->body_bytes == r->length) {
            r->used = r->at;
            r->state = TLLM_HTTP_DONE;
        }
    }
    return r->state;
}

/* ---- questions ---- */

static const char *tinyi_http_look(const tllm_http_request *r, const char *bytes, const char *name, size_t *n,
                                   size_t *count)
{
    const char *first = NULL;
    uint32_t i;
    *n = *count = 0;
    if (!r || !bytes || !name || (r->state != TLLM_HTTP_BODY && r->state != TLLM_HTTP_DONE)) return NULL;
    for (i = 0; i < r->n_fields; i++) {
        const tllm_http_field *f = &r->field[i];
        if (!tinyi_http_is(bytes + f->name, f->name_bytes, name)) continue;
        if (!(*count)++) {
            first = bytes + f->value;
            *n = f->value_bytes;
        }
    }
    return first;
}

const char *tllm_http_find(const tllm_http_request *r, const char *bytes, const char *name, size_t *n)
{
    size_t count, other;
    return tinyi_http_look(r, bytes, name, n ? n : &other, &count);
}

size_t tllm_http_count(const tllm_http_request *r, const char *bytes, const char *name)
{
    size_t n, count;
    (void)tinyi_http_look(r, bytes, name, &n, &count);
    return count;
}

const char *tllm_http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = { { 100, "Continue" },
                    { 200, "OK" },
                    { 204, "No Content" },
                    { 400, "Bad Request" },
                    { 401, "Unauthorized" },
                    { 403, "Forbidden" },
                    { 404, "Not Found" },
                    { 405, "Method Not Allowed" },
                    { 408, "Request Timeout" },
                    { 411, "Length Required" },
                    { 413, "Content Too Large" },
                    { 414, "URI Too Long" },
                    { 415, "Unsupported Media Type" },
                    { 417, "Expectation Failed" },
                    { 421, "Misdirected Request" },
                    { 422, "Unprocessable Content" },
                    { 429, "Too Many Requests" },
                    { 431, "Request Header Fields Too Large" },
                    { 500, "Internal Server Error" },
                    { 501, "Not Implemented" },
                    { 503, "Service Unavailable" },
                    { 505, "HTTP Version Not Supported" } };
    size_t i;
    for (i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].text;
    return status < 400 ? "OK" : "Error";
}
