/* examples/cluster.h - the ranks of cluster.c: a group that opens, computes and ends, and a text that may outlive it
 *
 * The master tells the others the plan when they connect: context, shares, what to do when a rank is lost. Options that
 * all must have alike (--wire) are in the digest of the handshake: a worker with another one is refused. */
enum { KEY, MASTER, WORKER, PLAN, RULES };
enum { BATCH = 64, PLAN_HEAD = 16, PLAN_BYTES = PLAN_HEAD + 8 * TINY_NET_RANKS };
enum { MEASURE = 1, REPLAN = 2, SLICES = 4, HIDE = 8 };       /* bits of the plan */
static struct {
    const char *path, *word, *key, *listen, *share, *wire, *policy, *folder, *devices;
    int command, ranks, n, top_k, context, echo, plain, no_mac, quiet, stats, no_slices, hide, repack, audit;
    double temp, top_p, min_p, repeat, wait, timeout, ms, mbit;
    uint64_t seed;
    /* of the group */
    unsigned flags;
    double shares[TINY_NET_RANKS];          /* of the ranks that are left */
    int wire_format;
    tiny_idx n_ctx;
    tiny_comm *comm;
    /* of the line a second */
    uint64_t said_at, tokens;
    tllm_lead_rank before[TINY_NET_RANKS];
    int lines;
} run;

/* "3,1" into shares of all ranks, "even" or "measured". 0: it is malformed, and said so */
static int read_words(void)
{
    static const char *const wires[] = { "f32", "f16", "q8" };
    static const int formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    const char *at = run.share;
    int i;
    for (i = 0; i < TINY_NET_RANKS; i++) run.shares[i] = 1.0;
    if (!strcmp(at, "measured")) run.flags |= MEASURE;
    else if (strcmp(at, "even"))
        for (i = 0;; i++) {
            char *end;
            const double x = strtod(at, &end);
            if (end == at || !(x > 0 && x <= 1e9) || i == run.ranks || (*end && *end != ',')) {
                (void)refused("--share takes even, measured, or a number above 0 for each of %d ranks, such as 3,1, "
                              "not %s", run.ranks, run.share);
                return 0;
            }
            run.shares[i] = x;
            if (!*end && i + 1 == run.ranks) break;
            if (!*end) {
                (void)refused("--share %s has %d numbers, but there are %d ranks", run.share, i + 1, run.ranks);
                return 0;
            }
            at = end + 1;
        }
    for (i = 0; i < 3 && strcmp(run.wire, wires[i]); i++) {}
    if (i == 3) { (void)refused("--wire takes f32, f16 or q8, not %s", run.wire); return 0; }
    run.wire_format = formats[i];
    if (run.hide) run.flags |= HIDE;
    if (!strcmp(run.policy, "replan")) run.flags |= REPLAN;
    else if (strcmp(run.policy, "fail")) {
        (void)refused("--policy takes fail or replan, not %s", run.policy);
        return 0;
    }
    return 1;
}

/* ---- the line a second ------------------------------------------------------------------------------------------- */

static int every_second(void *user, tllm_lead *lead)
{
    const int world = tiny_comm_world(run.comm);
    const uint64_t now = tiny_now_ns(), tokens = tllm_lead_tokens(lead);
    const double n = (double)(tokens - run.tokens);
    int r;
    (void)user;
    if (run.said_at && (now - run.said_at < UINT64_C(1000000000) || n < 1)) return cancelled(NULL);
    if (!run.quiet && run.said_at) {        /* not at the first token: the prompt counts for nothing */
        fprintf(stderr, "%s%llu tokens, %.1f ms each", run.command == MASTER ? "\n" : "", (unsigned long long)tokens,
                1e-6 * (double)(now - run.said_at) / n);
        for (r = 0; r < world; r++) {
            const tllm_lead_rank *t = tllm_lead_times(lead, r), *was = &run.before[r];
            fprintf(stderr, " | rank %d: %.1f computing, %.1f waiting, %.1f KB in %.0f messages, %.0f MB", r,
                    (t->compute_ms - was->compute_ms) / n, (t->wait_ms - was->wait_ms) / n,
                    (t->sent_kb - was->sent_kb) / n, (t->messages - was->messages) / n, t->memory_mb);
        }
        fputc('\n', stderr);
    }
    for (r = 0; r < world; r++) run.before[r] = *tllm_lead_times(lead, r);
    run.said_at = now;
    run.tokens = tokens;
    return cancelled(NULL);
}

/* a sum takes longer than half a second: said again after five seconds */
static void say_slow(void *user, int rank, uint64_t waited_ns)
{
    static uint64_t said_at;
    (void)user;
    if (run.quiet || (said_at && tiny_now_ns() - said_at < UINT64_C(5000000000))) return;
    said_at = tiny_now_ns();
    fprintf(stderr, "%srank %d is slow: %.1f s for a sum so far\n", run.command == MASTER ? "\n" : "", rank,
            1e-9 * (double)waited_ns);
}

/* the line a second for the whole run, as a table, and the shares with which all ranks would compute equally long */
static void say_stats(tiny_ctx *ctx, const tllm_lead *lead)
{
    double ms[TINY_NET_RANKS], next[TINY_NET_RANKS];
    const double n = (double)tllm_lead_tokens(lead);
    double share = 0;
    int r, world = tiny_comm_world(run.comm);
    for (r = 0; r < world; r++) share += run.shares[r];
    fprintf(stderr, "%.0f tokens. For each of them:\nrank   share   computing     waiting        sent   messages   "
            "memory\n", n);
    for (r = 0; r < world && n > 0; r++) {
        const tllm_lead_rank *t = tllm_lead_times(lead, r);
        fprintf(stderr, "%4d %6.1f%% %8.2f ms %8.2f ms %8.2f KB %10.1f %5.1f MB\n", r, 100 * run.shares[r] / share,
                t->compute_ms / n, t->wait_ms / n, t->sent_kb / n, t->messages / n, t->memory_mb);
        ms[r] = t->compute_ms;
    }
    if (run.command != MASTER || world < 2 || n <= 0 || tllm_share_by_time(ctx, run.shares, ms, world, next)) return;
    for (r = 0; r < world; r++) fprintf(stderr, "%s%.3f", r ? "," : "by these times, the next run: --share ", next[r]);
    fputc('\n', stderr);
}

/* ---- a group ----------------------------------------------------------------------------------------------------- */

typedef struct group {
    tiny_tcp *tcp;
    tllm_narrow *narrow;
    tllm_audit *audit;
    tllm_gguf *slices;                      /* the file of a worker without one */
    tllm_model *model;
    tllm_lead *lead;
    int gone, rank;                         /* gone: when it has failed, 1 + the rank that caused it */
} group;

static tiny_status take_plan(const unsigned char *p, size_t n, int world, size_t *n_most)
{
    int i;
    if (n == PLAN_BYTES && number_at(p, 4) >= 1 && number_at(p, 4) <= 1u << 24 && number_at(p + 4, 4) == BATCH &&
        number_at(p + 8, 4) < 16 && number_at(p + 12, 4) >= 16 && number_at(p + 12, 4) <= 1u << 26) {
        run.n_ctx = (tiny_idx)number_at(p, 4);
        *n_most = (size_t)number_at(p + 12, 4);
        run.flags = (unsigned)number_at(p + 8, 4);
        for (i = 0; i < world; i++) {
            const uint64_t bits = number_at(p + PLAN_HEAD + 8 * i, 8);
            memcpy(&run.shares[i], &bits, 8);
            if (!(run.shares[i] > 0 && run.shares[i] <= 1e9)) break;
        }
        if (i == world) return TINY_OK;
    }
    fputs("cluster: the master sent a plan that this program does not know\n", stderr);
    return TINY_E_PROTOCOL;
}

static void close_group(tiny_ctx *ctx, group *g)
{
    if (run.comm) {
        g->gone = tiny_comm_net(run.comm)->gone;
        g->rank = tiny_comm_rank(run.comm);
    }
    tllm_lead_close(g->lead);
    tllm_model_close(ctx, g->model);
    tiny_comm_close(run.comm);
    tllm_gguf_close(ctx, g->slices);
    tllm_audit_close(ctx, g->audit);
    tllm_narrow_close(ctx, g->narrow);
    tiny_tcp_close(ctx, g->tcp);
    g->lead = NULL;
    g->model = NULL;
    g->narrow = NULL;
    g->audit = NULL;
    g->slices = NULL;
    g->tcp = NULL;
    run.comm = NULL;
}

/* The folder for parts of models: --fetch FOLDER, or else tinyllm in the cache of this user. 0, or 1 after a message */
static int find_folder(void)
{
#ifdef OPTIONS_UNIX
    static char path[900];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (run.folder) return 0;
    if (cache && *cache == '/') (void)snprintf(path, sizeof path, "%s", cache);
    else if (home && *home == '/') (void)snprintf(path, sizeof path, "%s/.cache", home);
    if (*path) {
        (void)mkdir(path, 0700);            /* one that is there already stays as it is */
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/tinyllm");
        if (!mkdir(path, 0700) || is_folder(path)) {
            run.folder = path;
            fprintf(stderr, "this worker keeps its part of the model in %s\n", path);
            return 0;
        }
        fprintf(stderr, "cluster: %s: this folder cannot be made: %s\n", path, strerror(errno));
        return 1;
    }
#endif
    if (run.folder) return 0;
    say("there is no folder for this worker's part of the model: name one by --fetch FOLDER, or give the model file");
    return 1;
}

/* the master gives the others what they lack of the file; a worker without a file gets its part */
static tiny_status move_slices(tiny_ctx *ctx, tiny_net *net, const tllm_gguf *file, group *g)
{
    tllm_slices_desc d;
    tllm_slices_about about;
    char path[1024];
    const uint64_t from = tiny_now_ns();
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&about, 0, sizeof about);
    d.net = net;
    d.file = file;
    d.share = run.shares;
    d.folder = run.folder;
    st = run.command == MASTER ? tllm_slices_serve(ctx, &d, &about)
                               : tllm_slices_fetch(ctx, &d, path, sizeof path, &about);
    end_progress();
    if (!st && about.asked)
        fprintf(stderr, "%.1f MB of slices in %.1f s\n", 1e-6 * (double)about.bytes,
                1e-9 * (double)(tiny_now_ns() - from));
    if (!st && !file) st = tllm_gguf_open(ctx, path, &g->slices);
    return st;
}

/* connects the ranks, and opens this rank's part of the model */
static tiny_status open_group(tiny_ctx *ctx, const tllm_gguf *file, const char *key, size_t n_key, group *g)
{
    static const char *const settings[] = { "cluster 3 f32", "cluster 3 f16", "cluster 3 q8_0" };
    tiny_tcp_desc td;
    tiny_comm_desc cd;
    tllm_lead_desc ld;
    tllm_narrow_desc nd;
    tllm_audit_desc ad;
    unsigned char plan[PLAN_BYTES] = { 0 };
    const void *told;
    size_t n, n_most = 0;
    int i;
    tiny_status st = TINY_OK;
    memset(&td, 0, sizeof td);
    memset(&cd, 0, sizeof cd);
    memset(&ld, 0, sizeof ld);
    memset(&nd, 0, sizeof nd);
    memset(&ad, 0, sizeof ad);
    memset(g, 0, sizeof *g);
    if (file) st = tllm_model_open(ctx, file, &g->model);
    if (st) return st;
    if (g->model) n_most = tllm_lead_most(g->model, run.ranks, BATCH);
    if (file) tllm_file_digest(file, td.model);
    td.gives_model = run.command == MASTER && (run.flags & SLICES);
    i = run.wire_format == TLLM_FORMAT_F32 ? 0 : run.wire_format == TLLM_FORMAT_F16 ? 1 : 2;
    tiny_sha256_of(settings[i], strlen(settings[i]), td.config);
    td.secret = key;
    td.n_secret = n_key;
    td.no_mac = run.no_mac;
    td.open_ns = (uint64_t)(1e9 * run.wait);
    if (run.command == MASTER) {
        number_to(plan, (uint64_t)run.n_ctx, 4);
        number_to(plan + 4, BATCH, 4);
        number_to(plan + 8, run.flags, 4);
        number_to(plan + 12, n_most, 4);
        for (i = 0; i < TINY_NET_RANKS; i++) {
            uint64_t bits;
            memcpy(&bits, &run.shares[i], 8);
            number_to(plan + PLAN_HEAD + 8 * i, bits, 8);
        }
        td.world = run.ranks;
        td.at = run.listen;
        td.plan = plan;
        td.n_plan = sizeof plan;
        say_waiting(run.ranks, td.at);
    } else {
        td.rank = TINY_TCP_ANY;
        td.at = run.word;
    }
    st = tiny_tcp_open(ctx, &td, &g->tcp);
    if (st == TINY_E_PROTOCOL && strstr(tiny_ctx_message(ctx), "other settings"))
        fputs("cluster: all machines need the same --wire\n", stderr);
    if (st == TINY_E_PROTOCOL && !file && strstr(tiny_ctx_message(ctx), "another model"))
        fputs("cluster: this master does not send parts of its model (it has --no-slices, or the model is not a single "
              "GGUF file): give this worker the model file\n", stderr);
    if (!st && run.command == WORKER) {
        told = tiny_tcp_plan(g->tcp, &n);
        st = take_plan((const unsigned char *)told, n, tiny_tcp_net(g->tcp)->world, &n_most);
    }
    if (!st) {
        cd.net = tiny_tcp_net(g->tcp);
        cd.n_most = nd.n_most = n_most;
        cd.timeout_ns = (uint64_t)(1e9 * run.timeout);
        cd.finite = 1;
        cd.soft_ns = 500000000;
        cd.slow = say_slow;
        nd.inner = cd.net;
        nd.format = run.wire_format;
        st = tllm_narrow_open(ctx, &nd, &g->narrow);
        cd.net = tllm_narrow_net(g->narrow);
    }
    if (!st && run.audit && run.command == MASTER) {
        ad.inner = cd.net;
        ad.file = file;
        ad.share = run.shares;
        ad.n_batch = BATCH;
        ad.every = run.audit;
        ad.format = run.wire_format;
        st = tllm_audit_open(ctx, &ad, &g->audit);
        cd.net = tllm_audit_net(g->audit);
    }
    if (!st) st = tiny_comm_open(ctx, &cd, &run.comm);
    if (!st && run.flags & MEASURE) {
        st = tllm_share_measure(ctx, run.comm, run.shares);
        for (i = 0; i < cd.net->world && !st; i++)      /* in steps of 5 %: slices of the last run fit again */
            run.shares[i] = run.shares[i] < 0.05 ? 0.05 : 0.05 * (double)(int)(20 * run.shares[i] + 0.5);
        for (i = 0; i < cd.net->world && !st && run.command == MASTER; i++)
            fprintf(stderr, "%s%.1f %%%s", i ? ", " : "measured shares: ", 100 * run.shares[i],
                    i + 1 < cd.net->world ? "" : "\n");
    }
    if (!st && run.flags & SLICES) st = move_slices(ctx, tiny_tcp_net(g->tcp), file, g);
    if (!st && !g->model) st = tllm_model_open(ctx, g->slices, &g->model);
    if (!st) st = tllm_model_cut_by(ctx, g->model, tiny_comm_rank(run.comm), tiny_comm_world(run.comm), run.shares);
    if (!st) st = tllm_model_cut_copy(ctx, g->model, NULL);
    if (!st && run.repack) st = tllm_model_repack(ctx, g->model, NULL, NULL);
    ld.model = g->model;
    ld.comm = run.comm;
    ld.n_ctx = run.n_ctx;
    ld.n_batch = BATCH;
    ld.audit = g->audit;
    ld.hides_tokens = (run.flags & HIDE) != 0;
    run.said_at = run.tokens = 0;
    return st ? st : tllm_lead_open(ctx, &ld, &g->lead);
}

/* Does the run go on without a rank? Then with which shares. */
static int goes_on(tiny_ctx *ctx, const group *g, tiny_status st)
{
    const int gone = g->gone - 1;
    if (!(run.flags & REPLAN) || stopped_by) return 0;
    if (st != TINY_E_PEER && st != TINY_E_PROTOCOL && st != TINY_E_TIMEOUT) return 0;
    if (run.command == WORKER) return gone > 0 && gone != g->rank;
    if (gone < 1 || run.ranks < 2) return 0;
    fprintf(stderr, "\n%s\n", tiny_ctx_message(ctx));
    if (tllm_share_without(ctx, run.shares, run.ranks, gone, run.shares)) return 0;
    run.ranks--;
    fprintf(stderr, "going on with %d rank%s: the text so far is read again\n", run.ranks, run.ranks > 1 ? "s" : "");
    return 1;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

typedef struct talk {
    tllm_vocab *vocab;
    tllm_sampler *sampler;
    tllm_tokens t;                          /* the prompt */
    int32_t *text;                          /* (n_ctx): prompt and answer */
    tiny_idx n_text, n_out;
    float *logits;
    char *piece;
    size_t room;
    int made;
} talk;

static void close_talk(tiny_ctx *ctx, talk *k)
{
    tllm_tokens_free(ctx, &k->t);
    tllm_sampler_close(k->sampler);
    tllm_vocab_close(ctx, k->vocab);
    tiny_free(ctx, k->piece);
    tiny_free(ctx, k->logits);
    tiny_free(ctx, k->text);
}

static tiny_status open_talk(tiny_ctx *ctx, const tllm_gguf *file, const tllm_about *about, const char *prompt,
                             size_t n_prompt, talk *k)
{
    tllm_step chain[5];
    size_t n_steps = 0, i;
    tiny_status st = tllm_vocab_open(ctx, file, &k->vocab);
    if (st) return st;
    k->n_out = about->n_out;
    k->room = tllm_piece_most(k->vocab) + 1;
    k->logits = (float *)tiny_alloc(ctx, (size_t)about->n_out * sizeof *k->logits);
    k->piece = (char *)tiny_alloc(ctx, k->room);
    k->text = (int32_t *)tiny_alloc(ctx, (size_t)run.n_ctx * sizeof *k->text);
    if (!k->logits || !k->piece || !k->text) return TINY_E_MEMORY;
    if (run.repeat > 0 && run.repeat != 1) chain[n_steps++] = tllm_step_penalties(64, (float)run.repeat, 0.0f, 0.0f);
    if (run.temp > 0) {
        if (run.top_k > 0) chain[n_steps++] = tllm_step_top_k(run.top_k);
        if (run.top_p >= 0 && run.top_p < 1) chain[n_steps++] = tllm_step_top_p((float)run.top_p);
        chain[n_steps++] = tllm_step_min_p((float)(run.min_p < 0 ? 0.05 : run.min_p));
        chain[n_steps++] = tllm_step_temperature((float)run.temp);
    } else chain[n_steps++] = tllm_step_greedy();
    st = tllm_sampler_open(ctx, chain, n_steps, (int32_t)about->n_vocab, run.seed, &k->sampler);
    if (!st) st = tllm_encode(ctx, k->vocab, prompt, n_prompt, run.plain ? 0u : (unsigned)TLLM_ENCODE_ENDS, &k->t);
    if (!st && k->t.n > 1 && tllm_vocab_adds_eos(k->vocab) && tllm_vocab_is_end(k->vocab, k->t.id[k->t.n - 1]))
        k->t.n--;
    if (!st && !k->t.n) {
        fputs("cluster: an empty prompt: the model has nothing to continue\n", stderr);
        return TINY_E_ARGUMENT;
    }
    if (!st && k->t.n >= (size_t)run.n_ctx) {
        fprintf(stderr, "cluster: a prompt of %zu tokens does not fit a context of %td\n", k->t.n, run.n_ctx);
        return TINY_E_ARGUMENT;
    }
    for (i = 0; i < k->t.n && !st; i++) {
        k->text[k->n_text++] = k->t.id[i];
        st = tllm_sampler_accept(k->sampler, k->t.id[i]);
    }
    return st;
}

/* reads the text so far, and continues it to its end or to the failure of the group */
static tiny_status tell_text(tllm_lead *lead, talk *k)
{
    tiny_status st = tllm_lead_forward(lead, k->text, k->n_text, 0, k->logits);
    for (; !st && k->made < run.n; k->made++) {
        size_t n;
        int32_t next = 0;
        st = tllm_sample(k->sampler, k->logits, &next);
        if (!st) st = tllm_sampler_accept(k->sampler, next);
        if (st || tllm_vocab_is_end(k->vocab, next)) break;
        n = tllm_piece(k->vocab, next, 0, k->piece, k->room);
        if (fwrite(k->piece, 1, n < k->room ? n : k->room - 1, stdout) == 0 && n) break;
        (void)fflush(stdout);
        if (every_second(NULL, lead) || k->n_text + 1 >= run.n_ctx || k->made + 1 == run.n) break;
        k->text[k->n_text++] = next;
        st = tllm_lead_forward(lead, &next, 1, k->n_text - 1, k->logits);
        if (st) { k->made++; break; }       /* it is written, and will be read again */
    }
    if (st) return st;
    putchar('\n');
    return tllm_lead_stop(lead);
}

static tiny_status take_part(tiny_ctx *ctx, const char *prompt, size_t n_prompt)
{
    tllm_about about;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    size_t n_key = 0;
    char *key = read_key(run.key, &n_key);
    group g;
    talk k;
    tiny_status st = key ? TINY_OK : TINY_E_ARGUMENT;
    memset(&k, 0, sizeof k);
    memset(&g, 0, sizeof g);
    memset(&about, 0, sizeof about);
    if (!st && run.path) st = tllm_file_open(ctx, run.path, &file);
    if (run.command == MASTER && file && !run.no_slices && tllm_gguf_n_parts(file) == 1 && tllm_gguf_version(file))
        run.flags |= SLICES;
    if (!st && file) st = tllm_model_open(ctx, file, &model);
    if (!st && model) tllm_model_about(model, &about);
    tllm_model_close(ctx, model);
    run.n_ctx = run.context;
    if (!st && !run.n_ctx) run.n_ctx = about.n_context > 0 && about.n_context < 4096 ? about.n_context : 4096;
    if (!st && run.command == MASTER) st = open_talk(ctx, file, &about, prompt, n_prompt, &k);
    if (!st && run.command == MASTER && run.echo) (void)fwrite(prompt, 1, n_prompt, stdout);
    while (!st) {
        st = open_group(ctx, file, key, n_key, &g);
        if (!st && run.command == MASTER) st = tell_text(g.lead, &k);
        else if (!st) {
            fprintf(stderr, "rank %d of %d\n", tiny_comm_rank(run.comm), tiny_comm_world(run.comm));
            st = tllm_lead_follow(g.lead, every_second, NULL);
            if (!st)
                fprintf(stderr, "the master has ended: %llu tokens\n", (unsigned long long)tllm_lead_tokens(g.lead));
        }
        if (!st && run.stats) say_stats(ctx, g.lead);
        close_group(ctx, &g);
        if (!st || !goes_on(ctx, &g, st)) break;
        st = TINY_OK;
    }
    if (st && *tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    if (key) tiny_wipe(key, n_key);
    free(key);
    close_talk(ctx, &k);
    tllm_gguf_close(ctx, file);
    return st;
}
