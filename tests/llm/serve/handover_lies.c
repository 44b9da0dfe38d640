/* tests/llm/serve/handover_lies.c - a desk and a worker whose other side sends what it must not
 *
 * One thread: the test plays the other side of each link by its messages, which are those of handover_inside.h.
 * Truth: which of them belong to a request in its state, by the list of kinds there; the sentences; what follows a lost
 * link. */
#include "t.h"

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
    put(head + 6, 0, 2);
    put(head + 8, x->id, 8);
    put(head + 16, x->n, 8);
    put(head + 24, 5, 8);
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

/* ---- a desk and a peer that lie to a worker ---------------------------------------------------------------------- */

typedef struct shop {
    tiny_ctx *ctx;
    tiny_local *local[2];
    tiny_net *desk, *peer;                  /* of the test: rank 0 of a net of two */
    tllm_engine *engine;
    tllm_hand *hand;
} shop;
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

int main(void)
{
    T_RUN(test_desk);
    T_RUN(test_split);
    T_RUN(test_worker);
    T_RUN(test_peer);
    return t_done();
}
