/* examples/join.h - the key of a group, and how processes on several machines become its ranks
 *
 *     make_key("home.key");                        once; the file is copied to every machine
 *     key = read_key("home.key", &n_key);
 *     join_desc j = { ... }; join_mesh(ctx, &j, &tcp);          every rank is connected to every other one
 *
 * The ranks after 0 know the address of rank 0 only. They meet there in a star, tell their own addresses, and then make
 * the mesh. */
#ifdef OPTIONS_UNIX
#include <fcntl.h>
#include <sys/resource.h>
#endif

/* ---- the key ----------------------------------------------------------------------------------------------------- */

/* Writes a key of 32 random bytes. 0, or 1 after a message */
static inline int make_key(const char *path)
{
    unsigned char key[32];
    char text[66];
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    FILE *f = NULL;
    int i, ok;
    memset(&cd, 0, sizeof cd);
    cd.log = hear;
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    if (tiny_random(ctx, key, sizeof key)) {
        say(tiny_ctx_message(ctx));
        tiny_ctx_close(ctx);
        return 1;
    }
    tiny_ctx_close(ctx);
    for (i = 0; i < 32; i++) (void)snprintf(text + 2 * i, 3, "%02x", key[i]);
    text[64] = '\n';
#ifdef OPTIONS_UNIX
    {                                       /* nobody else may read it, and no file is replaced */
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        ok = fd >= 0 && write(fd, text, 65) == 65;
        if (fd >= 0 && close(fd)) ok = 0;
        (void)f;
    }
#else
    f = fopen(path, "rb");
    ok = !f;
    if (f) (void)fclose(f);
    f = ok ? fopen(path, "wb") : NULL;
    ok = f && fwrite(text, 1, 65, f) == 65;
    if (f && fclose(f)) ok = 0;
#endif
    tiny_wipe(key, sizeof key);
    tiny_wipe(text, sizeof text);
    if (!ok) fprintf(stderr, PROGRAM ": %s: cannot be written, or is there already\n", path);
    else printf("%s: a key of 32 bytes. Copy it to every machine, and to nobody else.\n", path);
    return !ok;
}

/* NULL after a message; else the caller wipes and frees it. No other copy of it stays in memory, and this process
 * writes no core file from now on. */
static inline char *read_key(const char *path, size_t *n)
{
    char *key;
    FILE *f;
    if (!path) {
        fputs(PROGRAM ": --key FILE is missing: make one with " PROGRAM " key FILE\n", stderr);
        return NULL;
    }
#ifdef OPTIONS_UNIX
    {
        static const struct rlimit none = { 0, 0 };
        struct stat is;
        (void)setrlimit(RLIMIT_CORE, &none);
        if (!stat(path, &is) && (is.st_mode & 077))
            fprintf(stderr, PROGRAM ": %s: other users of this machine may read this key (chmod 600 ends that)\n",
                    path);
    }
#endif
    f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, PROGRAM ": %s: cannot be opened: %s\n", path, strerror(errno));
        return NULL;
    }
    (void)setvbuf(f, NULL, _IONBF, 0);
    key = read_stream(f, path, 4096, 0, n);
    (void)fclose(f);
    while (key && *n && (key[*n - 1] == '\n' || key[*n - 1] == '\r')) key[--*n] = 0;
    return key;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static inline uint64_t number_at(const unsigned char *p, int n)
{
    uint64_t v = 0;
    while (n--) v = v << 8 | p[n];
    return v;
}
static inline void number_to(unsigned char *p, uint64_t v, int n)
{
    int i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static inline void say_waiting(int ranks, const char *at)
{
    if (ranks > 1) fprintf(stderr, "waiting for %d worker%s at %s\n", ranks - 1, ranks > 2 ? "s" : "", at);
}

enum { JOIN_GROUP = 16, JOIN_PLAN = 1024 };
typedef struct join_desc {
    int rank, world;                        /* rank 0 has both. Others: their number or TINY_TCP_ANY, and 0 */
    const char *at;                         /* where rank 0 listens, or where the others find it */
    const char *here;                       /* of another rank: where it listens; NULL: a port that is free */
    const char *key, *settings;             /* settings: the same on all ranks, as is model */
    size_t n_key;
    unsigned char model[32];
    double wait;                            /* seconds */
    unsigned char plan[JOIN_PLAN];          /* of rank 0; the others get it */
    size_t n_plan;
} join_desc;

/* The listener of a rank, for those after it, at the address by which it is connected to rank 0. */
static inline tiny_status join_listen(tiny_ctx *ctx, const join_desc *j, const tiny_tcp *star,
                                      tiny_socket at[TINY_ADDRESSES], int *n_at, char text[TINY_ADDRESS_TEXT])
{
    tiny_address a;
    char *port;
    tiny_status st = tiny_tcp_address(ctx, star, 0, &a);
    if (st) return st;
    tiny_address_text(&a, text);
    port = strrchr(text, ':');
    if (!strncmp(text, "unix:", 5)) (void)snprintf(text, TINY_ADDRESS_TEXT, "127.0.0.1:0");
    else if (port && port + 2 < text + TINY_ADDRESS_TEXT) (void)snprintf(port, 3, ":0");
    st = tiny_listen_at(ctx, j->here ? j->here : text, at, n_at);
    if (!st) st = tiny_socket_address(ctx, at[0], &a);
    if (!st) tiny_address_text(&a, text);
    return st;
}

static inline tiny_status join_mesh(tiny_ctx *ctx, join_desc *j, tiny_tcp **out)
{
    static char text[TINY_NET_RANKS][TINY_ADDRESS_TEXT];
    static unsigned char plan[JOIN_GROUP + JOIN_PLAN];       /* a random number of this group, and the caller's */
    const char *peers[TINY_NET_RANKS];
    tiny_socket at[TINY_ADDRESSES];
    tiny_tcp_desc td;
    tiny_tcp *star = NULL;
    tiny_sha256 h;
    tiny_coll c;
    int n_at = 0, i;
    tiny_status st = j->rank ? TINY_OK : tiny_random(ctx, plan, JOIN_GROUP);
    *out = NULL;
    memset(&td, 0, sizeof td);
    memset(&c, 0, sizeof c);
    memset(text, 0, sizeof text);
    memcpy(plan + JOIN_GROUP, j->plan, j->n_plan);
    td.rank = j->rank;
    td.world = j->world;
    td.at = j->at;
    td.secret = j->key;
    td.n_secret = j->n_key;
    memcpy(td.model, j->model, sizeof td.model);
    tiny_sha256_of(j->settings, strlen(j->settings), td.config);
    td.open_ns = (uint64_t)(1e9 * j->wait);
    if (!j->rank) {
        td.plan = plan;
        td.n_plan = JOIN_GROUP + j->n_plan;
        say_waiting(j->world, j->at);
    }
    if (!st) st = tiny_tcp_open(ctx, &td, &star);
    if (!st) {
        const void *told = tiny_tcp_plan(star, &td.n_plan);
        td.rank = tiny_tcp_net(star)->rank;
        td.world = tiny_tcp_net(star)->world;
        if (td.n_plan < JOIN_GROUP || td.n_plan > sizeof plan) {
            say("the master sent a plan that this program does not know");
            st = TINY_E_PROTOCOL;
        } else {
            memcpy(plan, told, td.n_plan);
            j->n_plan = td.n_plan - JOIN_GROUP;
            memcpy(j->plan, plan + JOIN_GROUP, j->n_plan);
        }
        td.plan = NULL;
        td.n_plan = 0;
    }
    if (!st && td.rank) st = join_listen(ctx, j, star, at, &n_at, text[td.rank]);
    if (!st) {                              /* each gives its address, and all get all */
        c.net = tiny_tcp_net(star);
        c.type = TINY_COLL_U8;
        c.op = TINY_COLL_OR;
        c.n_work = tiny_coll_work(td.world, sizeof text, 1);
        c.work = need(malloc(c.n_work));
        c.until = tiny_now_ns() + td.open_ns;
        st = tiny_coll_allreduce(ctx, &c, TINY_COMM_STAR, text, (size_t)td.world * sizeof text[0]);
        free(c.work);
    }
    if (!st) {
        for (i = 0; i < td.world; i++) {
            text[i][TINY_ADDRESS_TEXT - 1] = 0;
            peers[i] = i ? text[i] : j->at;
        }
        td.peers = peers;
        td.listener = n_at ? at[0] : TINY_NO_SOCKET;
        tiny_sha256_start(&h);
        tiny_sha256_add(&h, td.config, sizeof td.config);
        tiny_sha256_add(&h, plan, JOIN_GROUP);
        tiny_sha256_end(&h, td.config);
        st = tiny_tcp_open(ctx, &td, out);
    }
    for (i = 0; i < n_at; i++) tiny_socket_close(at[i]);
    tiny_tcp_close(ctx, star);
    return st;
}
