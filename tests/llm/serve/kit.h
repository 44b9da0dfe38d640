/* tests/llm/serve/kit.h - a client for tests: a raw socket of the same thread, which steps the server while it waits
 *
 * Define KIT_STEP(until): one step of the server under test. */
typedef struct client {
    tiny_socket socket;
    char *got;                              /* with a final 0 */
    size_t n, room;
    int end;                                /* the server has closed, or the connection is broken */
} client;

static void kit_dial(client *c, const char *address)
{
    tiny_address a[TINY_ADDRESSES];
    int n = 0;
    memset(c, 0, sizeof *c);
    c->socket = TINY_NO_SOCKET;
    c->got = (char *)calloc(1, 1);
    T_OK(tiny_address_find(NULL, address, a, &n));
    if (n) T_OK(tiny_socket_connect(NULL, &a[0], &c->socket));
    T_OK(KIT_STEP(tiny_now_ns() + 2000000));
}

static void kit_hang_up(client *c)
{
    tiny_socket_close(c->socket);
    c->socket = TINY_NO_SOCKET;
    free(c->got);
    c->got = NULL;
    c->n = c->room = 0;
}

/* takes what has come */
static void kit_read(client *c)
{
    while (!c->end) {
        size_t got = 0;
        if (c->room - c->n < 4096) {
            char *more = (char *)realloc(c->got, (c->room = 2 * c->room + 8192) + 1);
            if (!more) exit(2);
            c->got = more;
        }
        if (tiny_socket_read(NULL, c->socket, c->got + c->n, c->room - c->n, &got, &c->end)) c->end = 1;
        c->n += got;
        c->got[c->n] = 0;
        if (!got) break;
    }
}

static void kit_say(client *c, const char *text, size_t n)
{
    size_t at = 0, put;
    int k;
    for (k = 0; at < n && k < 20000; k++) {
        put = 0;
        if (tiny_socket_write(NULL, c->socket, text + at, n - at, &put)) {
            c->end = 1;
            break;
        }
        at += put;
        if (at < n) (void)KIT_STEP(tiny_now_ns() + 1000000);
    }
}
T_FN void kit_tell(client *c, const char *text) { kit_say(c, text, strlen(text)); }

/* Steps until the text is there, or the server has closed the connection, or for 20 seconds. */
T_FN int kit_await(client *c, const char *text)
{
    const uint64_t end = tiny_now_ns() + UINT64_C(20000000000);
    while (tiny_now_ns() < end) {
        kit_read(c);
        if (text && strstr(c->got, text)) return 1;
        if (c->end) return !text;
        if (KIT_STEP(tiny_now_ns() + 1000000)) return 0;
    }
    return 0;
}

/* The length of the first answer in `got`, 0: it is not complete. *body, *n_body: its body; chunks are joined in
 * place. */
static size_t kit_answer(client *c, char **body, size_t *n_body)
{
    char *end = strstr(c->got, "\r\n\r\n"), *at, *length;
    size_t n;
    if (!end) return 0;
    *body = at = end + 4;
    *n_body = 0;
    *end = 0;
    length = strstr(c->got, "\r\nContent-Length: ");
    n = length ? (size_t)atol(length + 18) : 0;
    if (strstr(c->got, "\r\nTransfer-Encoding: chunked")) {
        char *to = at;
        *end = '\r';
        for (;;) {
            char *line = strstr(at, "\r\n");
            const size_t k = line ? (size_t)strtoul(at, NULL, 16) : 0;
            if (!line || (size_t)(c->got + c->n - line) < k + 4) return 0;
            if (!k) {
                size_t used = (size_t)(line + 4 - c->got);
                *to = 0;
                *n_body = (size_t)(to - *body);
                return used;
            }
            memmove(to, line + 2, k);
            to += k;
            at = line + 2 + k + 2;
        }
    }
    *end = '\r';
    if (*body + n > c->got + c->n) return 0;
    *n_body = n;
    return (size_t)(*body + n - c->got);
}

static int kit_status(const client *c) { return strncmp(c->got, "HTTP/1.1 ", 9) ? 0 : atoi(c->got + 9); }

/* A whole exchange: the status of the answer, whose body is `kit_body`. The connection stays open. */
static char kit_body[200000];
static int kit_ask(client *c, const char *request, size_t n)
{
    const uint64_t end = tiny_now_ns() + UINT64_C(20000000000);
    c->n = 0;
    if (c->got) *c->got = 0;
    *kit_body = 0;
    kit_say(c, request, n);
    while (tiny_now_ns() < end) {
        int whole;
        kit_read(c);
        {
            /* chunks are joined in place only when the last one has come */
            const char *head = strstr(c->got, "\r\n\r\n");
            const int chunked = head && strstr(c->got, "chunked") && strstr(c->got, "chunked") < head;
            whole = head && (!chunked || (c->n >= 5 && !memcmp(c->got + c->n - 5, "0\r\n\r\n", 5)));
        }
        if (whole) {
            char *body;
            size_t n_body;
            if (kit_answer(c, &body, &n_body)) {
                (void)snprintf(kit_body, sizeof kit_body, "%.*s", (int)n_body, body);
                return kit_status(c);
            }
        }
        if (c->end) return kit_status(c);
        if (KIT_STEP(tiny_now_ns() + 1000000)) return -1;
    }
    return -2;
}
