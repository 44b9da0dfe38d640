/* tests/llm/serve/handover_lies.c - a desk and a worker whose other side sends what it must not
 *
 * One thread: the test plays the other side of each link by its messages, which are those of handover_inside.h.
 * Truth: which of them belong to a request in its state, by the list of kinds there; the sentences; what follows a lost
 * link. */
#include "t.h"
#include <math.h>

static const char story[] = "examples/models/story.gguf";
enum { HEAD = 56, ROOM = 1 << 15 };
enum { READ = 1, WHOLE, TAKE, DROP, STOP, FIRST, TOKEN, END, LOST, PULL, PAGES, BYE };

typedef struct message {
    int kind;
    uint64_t id;
    uint32_t a, b, n_most;                  /* of an END: end, tokens, status */
    float temperature, top_p;
    int32_t top_k;
    const void *body;
    uint64_t n;                             /* bytes of the body, as the head has them */
} message;

static unsigned say_flags, heard_flags;     /* of heads */
static uint64_t say_seed = 5, heard_seed;

static void put(unsigned char *to, uint64_t x, int n)
{
    for (; n--; x >>= 8) *to++ = (unsigned char)x;
}
static uint64_t get(const unsigned char *from, int n)
{
    uint64_t x = 0;
    while (n--) x = x << 8 | from[n];
    return x;
}
static void put_float(unsigned char *to, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(to, bits, 4);
}

/* The links hold far more than what a test sends. */
static void send_part(tiny_net *net, int part, void *bytes, size_t n)
{
    tiny_message m;
    memset(&m, 0, sizeof m);
    m.tag = UINT64_C(0x68616e6400) + (uint64_t)part;
    m.data = bytes;
    m.n = n;
    T_EQ_INT(net->send(net, 1 - net->rank, &m), TINY_OK);
    T_TRUE(m.whole);
}
static void say(tiny_net *net, const message *x)
{
    static unsigned char body[ROOM];
    unsigned char head[HEAD];
    put(head, 0x646e6168u, 4);
    put(head + 4, (uint64_t)x->kind, 2);
    put(head + 6, say_flags, 2);
    put(head + 8, x->id, 8);
    put(head + 16, x->n, 8);
    put(head + 24, say_seed, 8);
    put(head + 32, x->a, 4);
    put(head + 36, x->b, 4);
    put(head + 40, x->n_most, 4);
    put_float(head + 44, x->temperature);
    put_float(head + 48, x->top_p);
    put(head + 52, (uint32_t)x->top_k, 4);
    send_part(net, 0, head, HEAD);
    if (!x->n || x->n > ROOM) return;       /* a length that nothing follows */
    memset(body, 0, sizeof body);
    if (x->body) memcpy(body, x->body, (size_t)x->n);
    send_part(net, 1, body, (size_t)x->n);
}
static void say_of(tiny_net *net, int kind, uint64_t id, uint32_t a, uint32_t b)
{
    message x;
    memset(&x, 0, sizeof x);
    x.kind = kind;
    x.id = id;
    x.a = a;
    x.b = b;
    say(net, &x);
}
/* 0: nothing has come. body (ROOM) may be NULL */
static int hear(tiny_net *net, message *x, unsigned char *body)
{
    static unsigned char head[HEAD], other[ROOM];
    int part;
    memset(x, 0, sizeof *x);
    for (part = 0; part < 2; part++) {
        tiny_message m;
        memset(&m, 0, sizeof m);
        m.tag = UINT64_C(0x68616e6400) + (uint64_t)part;
        m.data = part ? (body ? body : other) : head;
        m.n = part ? (size_t)x->n : (size_t)HEAD;
        if (part && !x->n) break;
        if (net->recv(net, 1 - net->rank, &m) || !m.whole) return 0;
        if (part) break;
        x->kind = (int)get(head + 4, 2);
        heard_flags = (unsigned)get(head + 6, 2);
        heard_seed = get(head + 24, 8);
        x->id = get(head + 8, 8);
        x->n = get(head + 16, 8);
        x->a = (uint32_t)get(head + 32, 4);
        x->b = (uint32_t)get(head + 36, 4);
        x->n_most = (uint32_t)get(head + 40, 4);
        x->top_k = (int32_t)get(head + 52, 4);
        if (!T_TRUE(x->n <= ROOM)) return 0;
    }
    return 1;
}

/* ---- workers that lie to the desk -------------------------------------------------------------------------------- */

typedef struct asked {
    int ends, tries;
    size_t n;
    int32_t got[8];
    tiny_status status;
    tllm_end end;
    char why[240];
} asked;
static int on_token(void *user, uint64_t id, size_t index, int32_t token)
{
    asked *a = (asked *)user;
    T_TRUE(id == 1 && index == a->n && index < 8);
    if (index < 8) a->got[index] = token;
    a->n = index + 1;
    return 0;
}
static void on_end(void *user, const tllm_desk_result *r)
{
    asked *a = (asked *)user;
    a->ends++;
    a->tries = r->tries;
    a->status = r->status;
    a->end = r->end;
    (void)snprintf(a->why, sizeof a->why, "%s", r->error);
}

typedef struct office {
    tiny_ctx *ctx;
    tiny_local *local[2];
    tiny_net *to[2], *worker[2];
    tllm_desk *desk;
    asked a;
} office;
static int office_codec;
static const int32_t prompt[4] = { 1, 20, 30, 40 };

static void office_open(office *o, int workers)
{
    static const int role[2] = { TLLM_HAND_PREFILL, TLLM_HAND_DECODE };
    tllm_hand_link link[2];
    tiny_local_desc d;
    tllm_desk_desc dd;
    tllm_desk_request r;
    int i;
    memset(o, 0, sizeof *o);
    memset(&d, 0, sizeof d);
    memset(&dd, 0, sizeof dd);
    memset(&r, 0, sizeof r);
    o->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    d.world = 2;
    for (i = 0; i < workers; i++) {
        T_OK(tiny_local_open(o->ctx, &d, &o->local[i]));
        link[i].net = o->to[i] = tiny_local_net(o->local[i], 0);
        link[i].rank = 1;
        o->worker[i] = tiny_local_net(o->local[i], 1);
    }
    dd.worker = link;
    dd.role = workers > 1 ? role : NULL;
    dd.n_worker = workers;
    dd.codec = office_codec;
    T_OK(tllm_desk_open(o->ctx, &dd, &o->desk));
    r.prompt = prompt;
    r.n_prompt = 4;
    r.n_most = 3;
    r.token = on_token;
    r.end = on_end;
    r.user = &o->a;
    T_OK(tllm_desk_submit(o->desk, &r, NULL));
    T_OK(tllm_desk_step(o->desk, NULL));
}
static void office_steps(office *o)
{
    int i, more;
    for (i = 0; i < 4; i++) T_OK(tllm_desk_step(o->desk, &more));
}
static void office_close(office *o)
{
    int i;
    tllm_desk_close(o->desk);
    for (i = 0; i < 2; i++) tiny_local_close(o->ctx, o->local[i]);
    t_close(o->ctx);
}

/* One worker has the whole request, and has told its first token 11. What it says then: */
static void test_desk(void)
{
    static const char text[] = "as told";
    static const struct { message x; int lies, of_another; } each[] = {
        { { END, 0, TLLM_END_LENGTH, 1, 0, 0, 0, 0, NULL, 0 }, 0, 0 },         /* all is well, */
        { { TOKEN, 0, 7, 1, 0, 0, 0, 0, NULL, 0 }, 0, 1 },                     /* this is of an earlier try, */
        { { END, 0, TLLM_END_CALLER, 0, TINY_E_NUMERIC, 0, 0, 0, text, 7 }, 0, 0 },    /* and this failed */
        { { TOKEN, 0, 7, 2, 0, 0, 0, 0, NULL, 0 }, 1, 0 },                     /* token 1 is missing */
        { { TOKEN, 0, 7, 1, 0, 0, 0, 0, text, 4 }, 1, 0 },
        { { FIRST, 0, 7, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { LOST, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { END, 0, TLLM_END_LENGTH, 3, 0, 0, 0, 0, NULL, 0 }, 1, 0 },         /* two tokens are missing */
        { { END, 0, TLLM_END_LENGTH, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { END, 0, TLLM_END_CALLER, 1, 0, 0, 0, 0, NULL, 0 }, 1, 0 },         /* cancelled, but not by the caller */
        { { END, 0, 77, 1, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { END, 0, TLLM_END_LENGTH, 1, TINY_STATUS_COUNT, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { END, 0, TLLM_END_CALLER, 1, TINY_E_IO, 0, 0, 0, NULL, 241 }, 1, 0 },        /* too long a sentence */
        { { PULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { READ, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
        { { 13, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }, 1, 0 },
    };
    size_t k;
    for (k = 0; k < T_COUNT(each); k++) {
        office o;
        message x;
        unsigned char body[ROOM];
        tiny_message m;
        uint64_t id;
        office_open(&o, 1);
        if (!T_TRUE(hear(o.worker[0], &x, body) && x.kind == WHOLE && x.n == 16 && x.n_most == 3)) return;
        T_TRUE(get(body, 4) == 1 && get(body + 12, 4) == 40);
        id = x.id;
        say_of(o.worker[0], TOKEN, id, 11, 0);
        x = each[k].x;
        x.id = each[k].of_another ? id + 1 : id;
        say(o.worker[0], &x);
        office_steps(&o);
        T_TRUE(o.a.n == 1 && o.a.got[0] == 11);
        if (!T_EQ_INT(tllm_desk_alive(o.desk, 0), !each[k].lies)) printf("  message %d\n", (int)k);
        if (each[k].lies) {                 /* it was the only worker */
            T_TRUE(o.a.ends == 1 && o.a.status == TINY_E_PEER && strstr(o.a.why, "all workers are gone"));
            memset(&m, 0, sizeof m);
            m.tag = UINT64_C(0x68616e6400);
            m.data = body;
            m.n = HEAD;
            T_TRUE(o.worker[0]->recv(o.worker[0], 0, &m) != TINY_OK);          /* and learns of it */
        } else if (k == 0) T_TRUE(o.a.ends == 1 && !o.a.status && o.a.end == TLLM_END_LENGTH);
        else if (k == 1) T_EQ_INT(o.a.ends, 0);
        else T_TRUE(o.a.ends == 1 && o.a.status == TINY_E_NUMERIC && !strcmp(o.a.why, "as told"));
        office_close(&o);
        T_EQ_INT(o.a.ends, 1);
    }
}

/* A reader and a worker that continues. */
static void test_split(void)
{
    office o;
    message x;
    uint64_t id = 0;
    int k;
    for (k = 0; k < 5; k++) {
        office_open(&o, 2);
        if (!T_TRUE(hear(o.worker[0], &x, NULL) && x.kind == READ && x.n == 16)) return;
        id = x.id;
        if (k == 0) {                       /* a reader has one token only, and tells it once */
            say_of(o.worker[0], TOKEN, id, 11, 0);
            office_steps(&o);
            T_EQ_INT(tllm_desk_alive(o.desk, 0), 0);
            T_TRUE(hear(o.worker[1], &x, NULL) && x.kind == WHOLE);    /* the other one does all of it */
            office_close(&o);
            continue;
        }
        say_of(o.worker[0], FIRST, id, 11, 0);
        if (k == 1) say_of(o.worker[0], FIRST, id, 11, 0);
        office_steps(&o);
        T_EQ_INT(tllm_desk_alive(o.desk, 0), k != 1);
        if (!T_TRUE(hear(o.worker[1], &x, NULL) && x.kind == TAKE && x.id == id && x.a == 0)) return;
        T_TRUE(o.a.n == 1 && o.a.got[0] == 11);
        if (k == 2) {                       /* two workers that do not compute alike */
            say_of(o.worker[1], TOKEN, id, 12, 0);
            office_steps(&o);
            T_TRUE(o.a.ends == 1 && o.a.status == TINY_E_PROTOCOL && strstr(o.a.why, "different first tokens"));
            T_TRUE(hear(o.worker[0], &x, NULL) && x.kind == DROP && x.id == id);
            T_TRUE(hear(o.worker[1], &x, NULL) && x.kind == DROP && x.id == id);
        }
        if (k == 3) {                       /* the text is lost, four times and once more */
            int tries;
            for (tries = 1; tries < 5; tries++) {
                say_of(o.worker[1], LOST, id, 0, 0);
                office_steps(&o);
                while (hear(o.worker[0], &x, NULL) && x.kind == DROP) {}
                if (!T_TRUE(x.kind == READ && x.id > id)) break;
                id = x.id;
                say_of(o.worker[0], FIRST, id, 11, 0);
                office_steps(&o);
                while (hear(o.worker[1], &x, NULL) && x.kind != TAKE) {}
                T_TRUE(x.id == id && o.a.n == 1 && !o.a.ends);
            }
            say_of(o.worker[1], LOST, id, 0, 0);
            office_steps(&o);
            T_TRUE(o.a.ends == 1 && o.a.tries == 5 && o.a.status == TINY_E_PEER && strstr(o.a.why, "five times"));
        }
        if (k == 4) {                       /* the reader may not speak for the other one */
            say_of(o.worker[0], END, id, TLLM_END_LENGTH, 1);
            office_steps(&o);
            T_TRUE(tllm_desk_alive(o.desk, 0) == 0 && tllm_desk_alive(o.desk, 1) == 1 && !o.a.ends);
            say_of(o.worker[1], TOKEN, id, 11, 0);
            say_of(o.worker[1], TOKEN, id, 12, 1);
            say_of(o.worker[1], END, id, TLLM_END_TOKEN, 2);
            office_steps(&o);
            T_TRUE(o.a.ends == 1 && !o.a.status && o.a.n == 2 && o.a.got[1] == 12);
        }
        office_close(&o);
        T_EQ_INT(o.a.ends, 1);
    }
    T_PROOF("serving 4", "workers that lie: wrong order, wrong sender, wrong ends, texts that are lost five times");
}

/* With a codec another try could draw other tokens: so it is sent with those that the caller has. */
static void test_desk_codec(void)
{
    unsigned char body[ROOM];
    office o;
    message x;
    office_codec = 3;
    office_open(&o, 2);
    T_TRUE(hear(o.worker[0], &x, body) && x.kind == READ && x.n == 16 && !x.b && !heard_flags);
    say_of(o.worker[0], FIRST, x.id, 11, 0);
    office_steps(&o);
    T_TRUE(hear(o.worker[1], &x, body) && x.kind == TAKE && x.n == 20 && x.b == 1 && heard_flags == 3 << 4);
    T_TRUE(get(body + 12, 4) == 40 && get(body + 16, 4) == 11);
    say_of(o.worker[1], TOKEN, x.id, 11, 0);
    say_of(o.worker[1], TOKEN, x.id, 12, 1);
    office_steps(&o);
    o.worker[1]->close(o.worker[1]);        /* it dies: the other one reads, and does the rest */
    office_steps(&o);
    T_TRUE(hear(o.worker[0], &x, body) && x.kind == DROP);
    T_TRUE(hear(o.worker[0], &x, body) && x.kind == WHOLE && x.n == 24 && x.b == 2 && x.n_most == 3);
    T_TRUE(get(body + 16, 4) == 11 && get(body + 20, 4) == 12);
    say_of(o.worker[0], TOKEN, x.id, 11, 0);
    say_of(o.worker[0], TOKEN, x.id, 12, 1);
    say_of(o.worker[0], TOKEN, x.id, 13, 2);
    say_of(o.worker[0], END, x.id, TLLM_END_LENGTH, 3);
    office_steps(&o);
    T_TRUE(o.a.ends == 1 && !o.a.status && o.a.n == 3 && o.a.got[0] == 11 && o.a.got[1] == 12 && o.a.got[2] == 13);
    office_close(&o);
    office_open(&o, 1);                     /* a text is never longer than was asked for */
    T_TRUE(hear(o.worker[0], &x, body) && x.kind == WHOLE);
    say_of(o.worker[0], TOKEN, x.id, 11, 0);
    say_of(o.worker[0], TOKEN, x.id, 12, 1);
    say_of(o.worker[0], TOKEN, x.id, 13, 2);
    say_of(o.worker[0], TOKEN, x.id, 14, 3);
    office_steps(&o);
    T_TRUE(tllm_desk_alive(o.desk, 0) == 0 && o.a.n == 3);
    office_close(&o);
    office_codec = 0;
}

/* ---- a desk and a peer that lie to a worker ---------------------------------------------------------------------- */

typedef struct shop {
    tiny_ctx *ctx;
    tiny_local *local[2];
    tiny_net *desk, *peer;                  /* of the test: rank 0 of a net of two */
    tllm_engine *engine;
    tllm_hand *hand;
} shop;
static const tllm_kvcodec_tables *shop_tables;
static void shop_open(shop *s)
{
    static const tllm_hand_link none = { NULL, 0 };
    tllm_hand_link link[2];
    tiny_local_desc d;
    tllm_engine_desc ed;
    tllm_hand_desc hd;
    memset(s, 0, sizeof *s);
    memset(&d, 0, sizeof d);
    memset(&ed, 0, sizeof ed);
    memset(&hd, 0, sizeof hd);
    s->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    d.world = 2;
    T_OK(tiny_local_open(s->ctx, &d, &s->local[0]));
    T_OK(tiny_local_open(s->ctx, &d, &s->local[1]));
    s->desk = tiny_local_net(s->local[0], 0);
    s->peer = tiny_local_net(s->local[1], 0);
    ed.slots = 2;
    ed.context = 64;
    ed.exact = 1;
    T_OK(tllm_engine_open_file(s->ctx, story, &ed, &s->engine));
    link[0].net = tiny_local_net(s->local[1], 1);
    link[0].rank = 0;
    link[1] = none;
    hd.engine = s->engine;
    hd.desk.net = tiny_local_net(s->local[0], 1);
    hd.desk.rank = 0;
    hd.peer = link;
    hd.n_peer = 2;
    hd.me = 1;
    hd.tables = shop_tables;
    T_OK(tllm_hand_open(s->ctx, &hd, &s->hand));
}
static void shop_close(shop *s)
{
    tllm_hand_close(s->hand);
    tllm_engine_close(s->engine);
    tiny_local_close(s->ctx, s->local[0]);
    tiny_local_close(s->ctx, s->local[1]);
    t_close(s->ctx);
}
static tiny_status shop_steps(shop *s)
{
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < 6 && !st; i++) st = tllm_hand_step(s->hand, NULL);
    return st;
}
static message asks(int kind, uint64_t id, const int32_t *tokens, size_t n)
{
    static unsigned char body[ROOM];
    message x;
    size_t i;
    memset(&x, 0, sizeof x);
    for (i = 0; i < n; i++) put(body + 4 * i, (uint32_t)tokens[i], 4);
    x.kind = kind;
    x.id = id;
    x.body = body;
    x.n = 4 * n;
    x.n_most = 2;
    return x;
}

static void test_worker(void)
{
    static const int32_t outside[4] = { 1, 20, 544, 40 }, below[4] = { 1, -20, 5, 40 };
    static int32_t longest[64];
    shop s;
    message x;
    unsigned char body[ROOM];
    int k;
    for (k = 0; k < 10; k++) {              /* what no desk sends: the worker ends with a sentence */
        shop_open(&s);
        x = asks(k == 3 ? FIRST : k == 4 ? TAKE : WHOLE, 9, prompt, 4);
        if (k == 0) x.id = 0;
        if (k == 1) x.n = 0;
        if (k == 2) x.n = 15;
        if (k == 4) x.a = 2;                /* there are workers 0 and 1 */
        if (k == 5) {
            say(s.desk, &x);
            x.kind = READ;                  /* the same number again */
        }
        if (k == 6) x.kind = PAGES;
        if (k == 7) x.kind = 77;
        if (k == 8) x.n = (uint64_t)1 << 40;
        if (k == 9) x.kind = END;
        say(s.desk, &x);
        T_STATUS(shop_steps(&s), TINY_E_PROTOCOL, "rank 0 sent");
        T_TRUE(tllm_hand_step(s.hand, NULL) == TINY_E_PROTOCOL);
        shop_close(&s);
    }
    for (k = 0; k < 6; k++) {               /* what an engine refuses: the request ends, the worker goes on */
        shop_open(&s);
        x = asks(k == 5 ? READ : WHOLE, 9, k == 0 ? outside : k == 1 ? below : k == 2 ? longest : prompt,
                 k == 2 ? 64 : 4);
        if (k == 3) x.temperature = (float)NAN;
        if (k == 4) { x.temperature = 1.0f; x.top_p = 7.0f; }
        if (k == 5) { x.temperature = 1.0f; x.top_k = -3; }
        say(s.desk, &x);
        T_OK(shop_steps(&s));
        if (T_TRUE(hear(s.desk, &x, body))) {
            T_TRUE(x.kind == END && x.id == 9 && x.a == TLLM_END_CALLER && x.n > 20 && !x.b);
            if (!T_EQ_INT(x.n_most, k == 2 ? TINY_E_WORKSPACE : TINY_E_ARGUMENT)) printf("  request %d\n", k);
        }
        x = asks(WHOLE, 10, prompt, 4);
        say(s.desk, &x);
        T_OK(shop_steps(&s));
        while (hear(s.desk, &x, body) && x.kind != END) T_TRUE(x.kind == TOKEN && x.id == 10);
        T_TRUE(x.kind == END && x.id == 10 && !x.n_most && x.b == 2);
        say_of(s.desk, DROP, 12345, 0, 0);  /* of a request that it does not have */
        T_OK(shop_steps(&s));
        say_of(s.desk, STOP, 0, 0, 0);
        T_OK(shop_steps(&s));
        shop_close(&s);
    }
}

/* The text that a worker asks for is another one, none, or does not come. */
static void test_peer(void)
{
    static unsigned char noise[ROOM];
    shop s;
    message x, y;
    unsigned char body[ROOM];
    tllm_hand_counters c;
    int k, alive;
    for (k = 0; k < 7; k++) {
        shop_open(&s);
        x = asks(TAKE, 9, prompt, 4);
        x.a = 0;
        say(s.desk, &x);
        say_of(s.peer, PULL, 55, 0, 0);     /* of a text that is not here */
        T_OK(shop_steps(&s));
        T_TRUE(hear(s.peer, &x, NULL) && x.kind == PAGES && x.id == 55 && !x.n);
        T_TRUE(hear(s.peer, &x, NULL) && x.kind == PULL && x.id == 9);
        memset(&y, 0, sizeof y);
        y.kind = k == 0 ? BYE : k == 6 ? TOKEN : PAGES;
        y.id = k == 5 ? 10 : 9;             /* 5: a text that was not asked for */
        y.body = noise;
        y.n = k == 1 ? 0 : k == 2 ? 24 : k == 4 ? (uint64_t)1 << 50 : k == 0 || k == 6 ? 0
                                                                                    : tllm_engine_bytes(s.engine, 4);
        if (!T_TRUE(k == 4 || y.n <= ROOM)) return;
        say(s.peer, &y);
        T_OK(shop_steps(&s));
        tllm_hand_count(s.hand, &c);
        x.kind = 0;
        if (k == 5) T_TRUE(!hear(s.desk, &x, body) && !c.lost && !c.pulled);
        else if (T_TRUE(hear(s.desk, &x, body))) {
            T_EQ_INT(x.id, 9);
            if (k == 3) T_TRUE(x.kind == END && x.n_most == TINY_E_FORMAT && c.pulled == 1);  /* it checks itself */
            else T_TRUE(x.kind == LOST && c.lost == 1 && !c.pulled);
        }
        alive = k == 1 || k == 3 || k == 5;
        memset(&y, 0, sizeof y);
        if (alive) {                        /* the link goes on */
            say_of(s.peer, PULL, 56, 0, 0);
            T_OK(shop_steps(&s));
            T_TRUE(hear(s.peer, &y, NULL) && y.kind == PAGES && y.id == 56);
        } else T_TRUE(!hear(s.peer, &y, NULL));
        shop_close(&s);
    }
    T_PROOF("serving 4", "a desk and a peer that lie: requests, sizes and texts that there are not; noise for pages");
}

/* ---- keys and values by the codec -------------------------------------------------------------------------------- */

enum { LONG = 12, FRONT = 192 + 52, MOST_NUMBERS = 1 << 16, CODED = 2, HEAD_CODED = 16 };
typedef struct rows {                       /* (layers, parts, tokens, width), as the plain message has them */
    tllm_kv kv;
    int32_t width[3 * 64];
    float x[MOST_NUMBERS];
} rows;
static float *row_of(rows *r, tiny_idx layer, int part, tiny_idx token)
{
    float *at = r->x;
    tiny_idx i;
    for (i = 0; i < layer * 3 + part; i++) at += r->width[i] * LONG;
    return at + token * r->width[layer * 3 + part];
}
static void row_read(void *user, tiny_idx layer, int part, tiny_idx token, float *x)
{
    rows *r = (rows *)user;
    memcpy(x, row_of(r, layer, part, token), (size_t)r->width[layer * 3 + part] * sizeof *x);
}
static void row_write(void *user, tiny_idx layer, int part, tiny_idx token, const float *x)
{
    rows *r = (rows *)user;
    memcpy(row_of(r, layer, part, token), x, (size_t)r->width[layer * 3 + part] * sizeof *x);
}

/* Steps until a message comes. */
static int wait_for(shop *s, tiny_net *net, message *x, unsigned char *body)
{
    int i;
    for (i = 0; i < 40; i++) {
        if (hear(net, x, body)) return 1;
        if (tllm_hand_step(s->hand, NULL)) return 0;
    }
    return 0;
}
/* Has the worker take text `id` and gives it these bytes. What it tells the desk then is in *x. */
static int give(shop *s, uint64_t id, unsigned level, const int32_t *tokens, uint32_t begin, const void *bytes,
                size_t n, unsigned flags, message *x, unsigned char *body)
{
    message y = asks(TAKE, id, tokens, LONG + begin);
    say_flags = level << 4;
    y.a = 0;
    y.b = begin;
    y.n_most = 8;
    say(s->desk, &y);
    say_flags = flags;
    if (!T_TRUE(wait_for(s, s->peer, x, NULL) && x->kind == PULL && x->id == id && x->a == level)) return 0;
    T_TRUE(heard_seed == (level ? tllm_kvcodec_tables_id(shop_tables) : 0));
    memset(&y, 0, sizeof y);
    y.kind = PAGES;
    y.id = id;
    y.body = bytes;
    y.n = n;
    say(s->peer, &y);
    say_flags = 0;
    return T_TRUE(wait_for(s, s->desk, x, body) && x->id == id);
}
/* the rest of a text after its first message x; returns its tokens */
static int text_of(shop *s, message *x, unsigned char *body, int32_t *to)
{
    int n = 0;
    while (x->kind == TOKEN && n < 9) {
        to[n++] = (int32_t)x->a;
        if (!wait_for(s, s->desk, x, body)) return -1;
    }
    return x->kind == END && !x->n_most ? n : -1;
}

/* Has both slots read other prompts, so that none holds this one. */
static void forget(shop *s, const int32_t *tokens, unsigned char *body)
{
    int32_t other[LONG];
    message x;
    int i, ends = 0;
    memcpy(other, tokens, sizeof other);
    for (i = 0; i < 2; i++) {
        other[0] = tokens[0] + 1 + i;
        x = asks(WHOLE, 90 + (uint64_t)i, other, LONG);
        say(s->desk, &x);
    }
    while (ends < 2 && T_TRUE(wait_for(s, s->desk, &x, body))) ends += x.kind == END && !x.n_most;
}

static void test_coded(void)
{
    static rows plain, coded, bad_rows;
    static unsigned char good[ROOM], bad[ROOM], body[ROOM];
    static int32_t text[200], tokens[LONG + 1], alone[9], got[9];
    shop s;
    message x, y;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *session;
    tllm_kvcodec_profile *p;
    tllm_kvcodec_tables *tables, *others;
    tllm_kvcodec_desc d;
    tllm_about about;
    tllm_hand_counters c;
    void *bytes;
    uint64_t id = 100;
    size_t n_good = 0, n_bad = 0, i, n, plain_bytes;
    tiny_idx l, t, k;
    int part, wrong = 0, lost = 0;
    for (i = 0; i < 200; i++) text[i] = (int32_t)(3 + (i * 37 + i * i * 11) % 530);
    for (i = 0; i < LONG; i++) tokens[i] = (int32_t)(5 + i * i * 7 % 500);
    tokens[LONG] = 77;
    T_OK(tllm_session_open(ctx, story, NULL, &session));
    T_OK(tllm_session_feed(session, text, 200, NULL));
    T_OK(tllm_kvcodec_profile_of(session, &p));
    T_OK(tllm_kvcodec_profile_session(p, session));
    T_OK(tllm_kvcodec_profile_tables(p, &tables));
    T_OK(tllm_session_feed(session, text, 40, NULL));
    T_OK(tllm_kvcodec_profile_session(p, session));
    T_OK(tllm_kvcodec_profile_tables(p, &others));
    tllm_kvcodec_profile_close(p);
    tllm_session_close(session);
    shop_tables = tables;
    shop_open(&s);
    tllm_model_about(tllm_engine_model(s.engine), &about);
    /* a reader gives the same text coded and plain */
    for (k = 0; k < 2; k++) {
        y = asks(READ, 9 + (uint64_t)k, tokens, LONG);
        say(s.desk, &y);
        T_TRUE(wait_for(&s, s.desk, &x, body) && x.kind == FIRST);
        say_seed = tllm_kvcodec_tables_id(tables);
        say_of(s.peer, PULL, 9 + (uint64_t)k, k ? 0 : 4, 0);
        T_TRUE(wait_for(&s, s.peer, &x, k ? body : good) && x.kind == PAGES && heard_flags == (k ? 0u : CODED));
        if (!k) n_good = (size_t)x.n;
    }
    plain_bytes = (size_t)x.n;
    T_TRUE(n_good > HEAD_CODED && n_good < plain_bytes && plain_bytes == tllm_engine_bytes(s.engine, LONG));
    for (k = 0; k < about.n_layer * 3; k++)
        plain.width[k] = k % 3 < 2 ? (int32_t)(about.n_kv * about.n_embd / about.n_head) : 0;
    plain.kv.n_layer = about.n_layer;
    plain.kv.read = row_read;
    plain.kv.write = row_write;
    coded = bad_rows = plain;
    plain.kv.width = plain.width;
    coded.kv.width = coded.width;
    bad_rows.kv.width = bad_rows.width;
    plain.kv.user = &plain;
    coded.kv.user = &coded;
    bad_rows.kv.user = &bad_rows;
    n = (size_t)about.n_layer * 2 * LONG * (size_t)plain.width[0];
    if (!T_TRUE(n <= MOST_NUMBERS)) return;
    for (i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)get(body + FRONT + 4 * LONG + 8 + 4 * LONG + 4 * i, 4);
        memcpy(&plain.x[i], &bits, 4);
    }
    T_OK(tllm_kvcodec_decode(ctx, tables, good + HEAD_CODED, n_good - HEAD_CODED, &coded.kv));
    for (l = 0; l < about.n_layer; l++)     /* as is promised: level 4 is within 1/254 of the largest of the row */
        for (part = 0; part < 2; part++)
            for (t = 0; t < LONG; t++) {
                const float *a = row_of(&plain, l, part, t), *b = row_of(&coded, l, part, t);
                double most = 0;
                for (k = 0; k < plain.width[0]; k++) most = fabs(a[k]) > most ? fabs(a[k]) : most;
                T_TRUE(most > 0);
                for (k = 0; k < plain.width[0]; k++) wrong += fabs(a[k] - b[k]) > 1.001 * most / 254;
                for (k = 0; k < plain.width[0]; k++) lost += a[k] != b[k];
            }
    T_EQ_INT(wrong, 0);
    T_TRUE(lost > 100);                     /* it is lossy, and these are two messages */
    /* what a prompt makes alone */
    y = asks(WHOLE, 20, tokens, LONG);
    y.n_most = 8;
    say(s.desk, &y);
    T_TRUE(wait_for(&s, s.desk, &x, body));
    T_EQ_INT(text_of(&s, &x, body, alone), 8);
    T_EQ_INT(give(&s, ++id, 4, tokens, 1, good, n_good, CODED, &x, body), 1);
    T_TRUE(text_of(&s, &x, body, got) == 8 && got[0] == 77);    /* the token that the caller has */
    /* changed, cut and longer: no byte passes, and the worker goes on */
    for (i = 0, wrong = 0; i < n_good && !wrong; i += i < 100 ? 1 : 61) {
        memcpy(bad, good, n_good);
        bad[i] ^= (unsigned char)(1 << i % 8);
        if (!give(&s, ++id, 4, tokens, 1, bad, n_good, CODED, &x, body)) return;
        wrong = x.kind != END || x.n_most != TINY_E_FORMAT || x.n < 20;
        if (wrong) printf("  byte %d: kind %d, status %d\n", (int)i, x.kind, (int)x.n_most);
    }
    T_EQ_INT(wrong, 0);
    for (k = 0; k < 12; k++) {
        static const size_t cut[] = { 1, 15, 16, 17, 60, 75, 76, 400 };
        memcpy(bad, good, n_good);
        bad[n_good] = 0;
        n = k < 8 ? cut[k] : k == 8 ? n_good / 2 : k == 9 ? n_good - 4 : k == 10 ? n_good - 1 : n_good + 1;
        if (!give(&s, ++id, 4, tokens, 1, bad, n, CODED, &x, body)) return;
        if (!T_TRUE(x.kind == END && x.n_most == TINY_E_FORMAT)) printf("  %d bytes\n", (int)n);
    }
    for (k = 0; k < 5; k++) {               /* whole chunks of another shape, place or table; the last one is right */
        memset(&d, 0, sizeof d);
        d.level = 4;
        d.n_token = k == 0 ? LONG - 1 : LONG;
        d.first = k == 1;
        if (k == 1) d.n_token--;
        if (k == 2) bad_rows.kv.n_layer--;
        for (i = 0; i < MOST_NUMBERS && k == 4; i++) bad_rows.x[i] = -3.0f * plain.x[i];
        d.alone = k == 2;
        T_OK(tllm_kvcodec_encode(ctx, k == 2 ? NULL : k == 3 ? others : tables, &bad_rows.kv, &d, &bytes, &n));
        bad_rows.kv.n_layer = about.n_layer;
        if (!T_TRUE(n + HEAD_CODED < plain_bytes)) break;
        memcpy(bad, good, HEAD_CODED);
        memcpy(bad + HEAD_CODED, bytes, n);
        tiny_free(ctx, bytes);
        if (k == 4) forget(&s, tokens, body);
        n_bad = n + HEAD_CODED;
        if (!give(&s, ++id, 4, tokens, 1, bad, n_bad, CODED, &x, body)) return;
        if (k < 4 && !T_TRUE(x.kind == END && x.n_most == TINY_E_FORMAT)) printf("  chunk %d\n", (int)k);
    }
    /* keys and values that are quite wrong change this text, and no other one that begins alike: at the same time, and
     * later */
    y = asks(WHOLE, 50, tokens, LONG);
    y.n_most = 8;
    say(s.desk, &y);
    T_TRUE(x.kind == TOKEN && x.a == 77);
    for (n = 0; n < 2 && T_TRUE(wait_for(&s, s.desk, &x, body));) {
        if (x.kind == TOKEN && x.id == 50 && x.b < 8) got[x.b] = (int32_t)x.a;
        n += x.kind == END && !x.n_most && x.b == 8;
    }
    T_TRUE(!memcmp(got, alone, sizeof alone));
    forget(&s, tokens, body);
    if (!give(&s, ++id, 4, tokens, 0, bad, n_bad, CODED, &x, body)) return;
    T_TRUE(text_of(&s, &x, body, got) == 8 && memcmp(got, alone, sizeof alone));
    y = asks(WHOLE, 51, tokens, LONG);
    y.n_most = 8;
    say(s.desk, &y);
    T_TRUE(wait_for(&s, s.desk, &x, body) && text_of(&s, &x, body, got) == 8);
    T_TRUE(!memcmp(got, alone, sizeof alone));
    tllm_hand_count(s.hand, &c);
    T_EQ_INT((int)c.lost, 0);
    /* a codec that was not asked for, and one that saves nothing: the link ends, the text is read again elsewhere */
    T_TRUE(give(&s, ++id, 0, tokens, 1, good, n_good, CODED, &x, body) && x.kind == LOST);
    shop_close(&s);
    shop_open(&s);
    memset(bad, 0, plain_bytes);
    T_TRUE(give(&s, ++id, 4, tokens, 1, bad, plain_bytes, CODED, &x, body) && x.kind == LOST);
    shop_close(&s);
    shop_open(&s);
    say_of(s.peer, PULL, 55, 5, 0);         /* a level that there is not */
    T_OK(shop_steps(&s));
    T_TRUE(!hear(s.peer, &x, NULL));
    say_of(s.desk, DROP, 1, 0, 0);
    T_OK(shop_steps(&s));                   /* the desk is not to blame */
    shop_close(&s);
    for (k = 0; k < 2; k++) {
        shop_open(&s);
        y = asks(TAKE, 60, tokens, LONG);
        say_flags = k ? 5 << 4 : 0;
        y.b = k ? 1 : LONG;                 /* no prompt is left */
        say(s.desk, &y);
        say_flags = 0;
        T_STATUS(shop_steps(&s), TINY_E_PROTOCOL, "text begins before its prompt");
        shop_close(&s);
    }
    T_PROOF("serving 4", "keys and values by the codec: changed, cut, longer, of another shape or not asked for: "
                         "refused; no other text sees them");
    shop_tables = NULL;
    tllm_kvcodec_tables_close(ctx, tables);
    tllm_kvcodec_tables_close(ctx, others);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_desk);
    T_RUN(test_split);
    T_RUN(test_desk_codec);
    T_RUN(test_worker);
    T_RUN(test_peer);
    T_RUN(test_coded);
    return t_done();
}
