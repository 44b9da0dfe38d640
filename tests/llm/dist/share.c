/* tests/llm/dist/share.c - parts of any size, and numbers in few bits on the wire
 *
 * Truth    the same model whole, on one rank; parts worked by hand; the exact bytes of a sum; closed forms of shares.
 *          Ranks are threads, connected by queues or by TCP. */
#include "small.h"

enum { MOST = 4, PROMPT = 64, N = 64 };

typedef struct run {
    const small *file;
    const double *share;
    int world, tcp, plain, copy, wire, other_wire, n_prompt, n, way, spoil;
    tiny_target target;
    tiny_local *local;
    tiny_socket at;
    char address[TINY_ADDRESS_TEXT];
    float first[MOST][80];                  /* logits after the prompt */
    int32_t text[MOST][N];
    void *state[MOST];                      /* of tllm_state_pack, malloc */
    size_t n_state[MOST];
    tiny_idx n_kv[MOST], n_ff[MOST];
    tiny_status st[MOST];
    char says[MOST][240];
    uint64_t bytes, messages;               /* sent by rank 0 to rank 1 for one token */
} run;

static void on_rank(int rank, void *arg)
{
    run *r = (run *)arg;
    const small_shape *is = &r->file->is;
    tiny_comm_desc cd;
    tiny_tcp_desc td;
    tllm_narrow_desc nd;
    tllm_about about;
    tiny_tcp *tcp = NULL;
    tllm_narrow *narrow = NULL;
    float *logits = (float *)malloc((size_t)is->vocab * sizeof *logits);
    int32_t token[PROMPT];
    void *packed = NULL;
    int i;
    t_rank m;
    memset(&cd, 0, sizeof cd);
    memset(&td, 0, sizeof td);
    memset(&nd, 0, sizeof nd);
    for (i = 0; i < PROMPT; i++) token[i] = small_prompt(i, is->vocab);
    m = t_rank_model(r->target ? r->target : TINY_TARGET_AUTO, NULL, NULL, r->file->at, r->file->n);
    if (!m.st && r->tcp) {
        td.rank = rank;
        td.world = r->world;
        td.at = r->address;
        td.listener = rank ? TINY_NO_SOCKET : r->at;
        td.secret = "correct horse battery staple";
        td.n_secret = 28;
        td.open_ns = UINT64_C(60000000000);
        m.st = tiny_tcp_open(m.ctx, &td, &tcp);
        cd.net = tiny_tcp_net(tcp);
    } else if (r->local) cd.net = tiny_local_net(r->local, rank);
    if (!m.st && r->wire) {
        nd.inner = cd.net;
        nd.format = r->other_wire && rank == 1 ? r->other_wire : r->wire;
        nd.n_most = (size_t)(PROMPT * is->d);
        m.st = tllm_narrow_open(m.ctx, &nd, &narrow);
        cd.net = tllm_narrow_net(narrow);
    }
    cd.n_most = (size_t)(PROMPT * is->d);
    cd.timeout_ns = UINT64_C(60000000000);
    cd.way = r->way;
    cd.finite = 1;
    if (!m.st && r->world > 1) m.st = tiny_comm_open(m.ctx, &cd, &m.comm);
    if (!m.st && !r->plain) m.st = tllm_model_cut_by(m.ctx, m.model, rank, r->world, r->share);
    if (!m.st && r->copy) m.st = tllm_model_cut_copy(m.ctx, m.model, NULL);
    if (!m.st) {
        tllm_model_about(m.model, &about);
        r->n_kv[rank] = about.n_kv;
        r->n_ff[rank] = about.n_ff;
    }
    t_rank_state(&m, 160, PROMPT);
    if (!m.st) m.st = tllm_forward(m.state, token, r->n_prompt, 0, 1, logits);
    if (!m.st) memcpy(r->first[rank], logits, (size_t)is->vocab * sizeof *logits);
    for (i = 0; i < r->n && !m.st; i++) {
        const tiny_net *net = m.comm ? tiny_comm_net(m.comm) : NULL;
        const uint64_t bytes = net ? net->count[!rank].bytes_sent : 0,
                       messages = net ? net->count[!rank].messages_sent : 0;
        r->text[rank][i] = small_best(logits, is->vocab);
        m.st = tllm_forward(m.state, &r->text[rank][i], 1, r->n_prompt + i, 1, logits);
        if (!rank && net && !m.st) {
            r->bytes = net->count[1].bytes_sent - bytes;
            r->messages = net->count[1].messages_sent - messages;
        }
    }
    if (!m.st) m.st = tllm_state_pack(m.state, 0, NULL, 0, &packed, &r->n_state[rank]);
    if (packed) {
        r->state[rank] = malloc(r->n_state[rank]);
        if (r->state[rank]) memcpy(r->state[rank], packed, r->n_state[rank]);
        tiny_free(m.ctx, packed);
    }
    if (!m.st && r->spoil && m.comm) {      /* one rank has a number that no format holds */
        float x[40] = { 0 };
        if (rank == 1) x[33] = r->spoil == 1 ? NAN : r->spoil == 2 ? 9e6f : -INFINITY;
        m.st = tiny_allreduce(m.comm, x, 40, 3);
        if (!m.st) m.st = tiny_allreduce(m.comm, x, 40, 4);
    }
    free(logits);
    /* the comm goes before what is below it */
    (void)snprintf(r->says[rank], sizeof r->says[rank], "%s", tiny_ctx_message(m.ctx));
    tllm_state_close(m.ctx, m.state);
    tiny_comm_close(m.comm);
    tllm_narrow_close(m.ctx, narrow);
    tiny_tcp_close(m.ctx, tcp);
    m.state = NULL;
    m.comm = NULL;
    r->st[rank] = m.st;
    (void)t_rank_leave(&m, r->says[rank] + 239, 1);
}

static int run_all(run *r)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    for (i = 0; i < MOST; i++) r->state[i] = NULL;
    if (r->tcp && r->world > 1) {
        tiny_socket at[TINY_ADDRESSES];
        tiny_address a;
        if (T_OK(tiny_listen_at(ctx, ":0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a))) {
            r->at = at[0];
            tiny_address_text(&a, r->address);
        }
    } else if (r->world > 1) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = r->world;
        T_OK(tiny_local_open(ctx, &d, &r->local));
    }
    if (r->world == 1) on_rank(0, r);
    else ok = t_ranks(r->world, on_rank, r);
    if (r->tcp && r->world > 1) tiny_socket_close(r->at);
    tiny_local_close(ctx, r->local);
    r->local = NULL;
    t_close(ctx);
    return ok;
}
static int all_ok(const run *r)
{
    int i, ok = 1;
    for (i = 0; i < r->world; i++)
        if (!T_EQ_INT(r->st[i], TINY_OK)) {
            printf("  rank %d of %d: %s\n", i, r->world, r->says[i]);
            ok = 0;
        }
    return ok;
}
static void forget(run *r)
{
    int i;
    for (i = 0; i < MOST; i++) { free(r->state[i]); r->state[i] = NULL; }
}

/* key or value number i of a layer and cell, as one rank has packed them; d: numbers of its keys in a cell */
static float kept_at(const void *state, int cells, int d, int layer, int value, int cell, int i)
{
    const unsigned char *b = (const unsigned char *)state + 192 + 52 + 8 + 4 * (size_t)cells +
                             4 * ((size_t)(2 * layer + value) * (size_t)(cells * d) + (size_t)(cell * d + i));
    const uint32_t bits = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void test_uneven(void)
{
    static const double share[3][3][MOST] = { { { 3, 1 }, { .6, .4 }, { 1, 6.9 } },
                                              { { 2, 1, 1 }, { 1, 1, 1 }, { .2, .3, .5 } },
                                              { { 1, 2, 3, 2 }, { 5, 1, 1, 1 }, { .25, .25, .25, .25 } } };
    static const int n_of[3] = { 1, 7, 64 };
    run *whole = (run *)t_keep(sizeof *whole), *r = (run *)t_keep(sizeof *r);
    int world, k, i, j, tcp, again, l, c, from;
    small file;
    if (!small_make(&file, &small_plain, NULL)) return;
    for (k = 0; k < 3; k++) {
        float size = 0.0f;
        memset(whole, 0, sizeof *whole);
        whole->file = &file;
        whole->world = whole->plain = 1;
        whole->n_prompt = n_of[k];
        whole->n = N;
        *r = *whole;
        r->plain = 0;
        if (!run_all(whole) || !run_all(r) || !all_ok(whole) || !all_ok(r)) break;
        /* one rank is the plain path */
        T_SAME(r->first[0], whole->first[0], 80);
        T_SAME(r->text[0], whole->text[0], N);
        T_TRUE(r->n_state[0] == whole->n_state[0] && !memcmp(r->state[0], whole->state[0], whole->n_state[0]));
        forget(r);
        for (i = 0; i < 80; i++) size = fmaxf(size, fabsf(whole->first[0][i]));
        for (world = 2; world <= MOST; world++)
            for (tcp = 0; tcp < 2; tcp++) {
                float was[80];
                for (again = 0; again < 2 - tcp; again++) {
                    memset(r, 0, sizeof *r);
                    r->file = &file;
                    r->world = world;
                    r->tcp = tcp;
                    r->share = share[world - 2][k];
                    r->n_prompt = n_of[k];
                    r->n = N;
                    r->copy = again && k == 1;              /* the numbers of the file, elsewhere */
                    if (!run_all(r)) { small_unmake(&file); return; }
                    if (!all_ok(r)) { forget(r); continue; }
                    for (i = 0; i < 80; i++) T_CLOSE(r->first[0][i], whole->first[0][i], 1e-4 * (double)size);
                    for (i = 0; i < world; i++) {
                        T_SAME(r->first[i], r->first[0], 80);
                        T_SAME(r->text[i], whole->text[0], N);
                    }
                    if (again) T_SAME(r->first[0], was, 80);        /* two runs */
                    memcpy(was, r->first[0], sizeof was);
                    for (from = 0, i = 0; i < world; i++) {         /* the parts of the cache make the whole one */
                        const int d = 8 * (int)r->n_kv[i], cells = n_of[k] + N;
                        double off = 0.0;
                        for (l = 0; l < 4; l++)
                            for (c = 0; c < cells; c++)
                                for (j = 0; j < d; j++)
                                    off = fmax(off, fabs((double)kept_at(r->state[i], cells, d, l / 2, l % 2, c, j) -
                                                         (double)kept_at(whole->state[0], cells, 64, l / 2, l % 2, c,
                                                                         from + j)));
                        T_CLOSE(off, 0.0, 1e-4);
                        from += d;
                    }
                    T_EQ_INT(from, 64);
                    forget(r);
                }
            }
        forget(whole);
    }
    small_unmake(&file);
    T_PROOF("distributed 1", "ratios, 2 to 4 ranks, threads, TCP: logits to 1e-4, text of 64 tokens, the same twice");
    T_PROOF("distributed 1", "one rank by shares is the plain path, bit for bit");
    T_PROOF("distributed 1", "parts of keys and values make the whole cache");
    T_PROOF("distributed 1", "columns copied out of the file: bit for bit the same logits");
}

/* the parts of 8 key heads and 96 neurons, by hand */
static void test_parts(void)
{
    typedef struct part { int world, format, kv[MOST], ff[MOST]; double share[MOST]; } part;
    static const part by_hand[] = {
        { 2, TLLM_FORMAT_F32, { 6, 2 }, { 72, 24 }, { .75, .25 } },
        { 2, TLLM_FORMAT_F32, { 5, 3 }, { 64, 32 }, { 2, 1 } },             /* 5.33, 2.67: one is left, for the last */
        { 3, TLLM_FORMAT_F32, { 2, 3, 3 }, { 32, 32, 32 }, { 1, 1, 1 } },   /* two are left: one each to the last two */
        { 3, TLLM_FORMAT_F32, { 1, 2, 5 }, { 19, 19, 58 }, { .2, .2, .6 } },        /* 1.6, 1.6, 4.8 */
        { 4, TLLM_FORMAT_F32, { 1, 2, 2, 3 }, { 13, 27, 28, 28 }, { .14, .285, .285, .29 } },
        { 2, TLLM_FORMAT_F32, { 7, 1 }, { 95, 1 }, { 1, .001 } },           /* 7.99: what is left goes to the last */
        { 3, TLLM_FORMAT_F32, { 1, 1, 6 }, { 1, 1, 94 }, { .001, .001, 1 } },       /* or takes from the largest */
        /* blocks of 32: two key heads with their four query heads, a third of the network */
        { 2, TLLM_FORMAT_Q8_0, { 4, 4 }, { 64, 32 }, { 2, 1 } },
        { 3, TLLM_FORMAT_Q8_0, { 2, 2, 4 }, { 32, 32, 32 }, { 1, 1, 1 } },
    };
    size_t k;
    int i;
    for (k = 0; k < T_COUNT(by_hand); k++) {
        const part *p = &by_hand[k];
        const tllm_format *f = tllm_format_of(p->format);
        small_shape is = small_plain;
        small file;
        is.format = p->format;
        if (!small_make(&file, &is, NULL)) return;
        for (i = 0; i < p->world; i++) {
            tllm_gguf *g = NULL;
            tllm_model *m = NULL;
            tllm_about about;
            size_t bytes = 1;
            T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
            T_OK(tllm_model_open(file.ctx, g, &m));
            if (T_OK(tllm_model_cut_by(file.ctx, m, i, p->world, p->share))) {
                tllm_model_about(m, &about);
                T_EQ_INT(about.n_kv, p->kv[i]);
                T_EQ_INT(about.n_head, 2 * p->kv[i]);
                T_EQ_INT(about.n_ff, p->ff[i]);
                T_OK(tllm_model_cut_copy(file.ctx, m, &bytes));
                T_EQ_INT(bytes, 2 * 64 * (tllm_format_bytes(f, (uint64_t)(16 * p->kv[i])) +
                                           tllm_format_bytes(f, (uint64_t)p->ff[i])));
                T_OK(tllm_model_cut_copy(file.ctx, m, &bytes));
                T_EQ_INT(bytes, 0);
            }
            tllm_model_close(file.ctx, m);
            tllm_gguf_close(file.ctx, g);
        }
        small_unmake(&file);
    }
    T_PROOF("distributed 1", "parts by ratio, worked by hand: leftovers go to the last ranks, parts are whole blocks");
}

/* Block formats that people publish, in uneven parts and in equal ones, against one rank. Parts are whole blocks, and a
 * product rounds what it reads to 8 bits block by block, so the ranks multiply the same integers as one rank does: only
 * the order in which the sums of blocks are added is another. */
static void test_blocks(void)
{
    static const small_shape simple = { 64, 16, 8, 8, 128, 2, 80, 0, 0 },    /* blocks of 32: 4 of heads, 4 of ff */
                             super = { 256, 12, 6, 64, 768, 2, 80, 0, 0 };   /* blocks of 256: 3 of heads, 3 of ff */
    static const struct { int format, mixed, super; } of[] = {
        { TLLM_FORMAT_Q4_0, 0, 0 },   { TLLM_FORMAT_Q5_0, 0, 0 }, { TLLM_FORMAT_Q8_0, 0, 0 },
        { TLLM_FORMAT_MXFP4, 0, 0 },  { TLLM_FORMAT_Q4_K, 0, 1 }, { TLLM_FORMAT_Q6_K, 0, 1 },
        { TLLM_FORMAT_Q4_K, TLLM_FORMAT_Q6_K, 1 } /* Q4_K_M */ };
    static const struct { int world, tcp, super, kv[MOST], ff[MOST]; double share[MOST]; } by[] = {
        { 2, 0, 1, { 4, 2 }, { 512, 256 }, { 2, 1 } },       { 2, 1, 1, { 2, 4 }, { 256, 512 }, { 1.4, 1 } },
        { 3, 0, 1, { 2, 2, 2 }, { 256, 256, 256 }, { 1, 1, 1 } }, { 2, 0, 0, { 6, 2 }, { 96, 32 }, { 3, 1 } },
        { 2, 0, 0, { 4, 4 }, { 64, 64 }, { 2.5, 1 } },         { 3, 1, 0, { 2, 2, 4 }, { 32, 32, 64 }, { 1, 1, 2 } },
        { 4, 0, 0, { 2, 2, 2, 2 }, { 32, 32, 32, 32 }, { 1, 1, 1, 1 } } };
    run *whole = (run *)t_keep(sizeof *whole), *r = (run *)t_keep(sizeof *r);
    size_t k, b;
    int i, scalar;
    for (k = 0; k < T_COUNT(of); k++) {
        small_shape is = of[k].super ? super : simple;
        small file;
        is.format = of[k].format;
        is.mixed = of[k].mixed;
        if (!small_make(&file, &is, NULL)) return;
        for (scalar = 0; scalar < 2; scalar++) {
            float size = 0.0f;
            memset(whole, 0, sizeof *whole);
            whole->file = &file;
            whole->world = whole->plain = 1;
            whole->n_prompt = 7;
            whole->target = scalar ? TINY_TARGET_SCALAR : TINY_TARGET_AUTO;
            if (!run_all(whole) || !all_ok(whole)) return;
            for (i = 0; i < 80; i++) size = fmaxf(size, fabsf(whole->first[0][i]));
            for (b = 0; b < T_COUNT(by); b++) {
                float cut[80];
                double off = 0.0;
                if (by[b].super != of[k].super || (scalar && by[b].tcp)) continue;
                memset(r, 0, sizeof *r);
                r->file = &file;
                r->world = by[b].world;
                r->tcp = by[b].tcp;
                r->share = by[b].share;
                r->n_prompt = 7;
                r->target = whole->target;
                if (!run_all(r) || !all_ok(r)) return;
                for (i = 0; i < 80; i++) off = fmax(off, fabs((double)r->first[0][i] - (double)whole->first[0][i]));
                if (!T_CLOSE(off, 0.0, 5e-6 * (1.0 + (double)size)))
                    printf("  %s, case %d\n", tllm_format_of(is.format)->name, (int)b);
                for (i = 0; i < r->world; i++) {
                    T_SAME(r->first[i], r->first[0], 80);
                    T_EQ_INT(r->n_kv[i], by[b].kv[i]);
                    T_EQ_INT(r->n_ff[i], by[b].ff[i]);
                }
                memcpy(cut, r->first[0], sizeof cut);
                forget(r);
                if (by[b].tcp || scalar) continue;
                r->copy = 1;                /* columns copied out of the file */
                if (run_all(r) && all_ok(r)) T_SAME(r->first[0], cut, 80);
                forget(r);
            }
            forget(whole);
        }
        small_unmake(&file);
    }
    T_PROOF("distributed 1", "Q4_0, Q5_0, Q8_0, MXFP4, Q4_K, Q6_K, Q4_K_M in uneven parts: the logits of one rank");
}

/* few bits on the wire: the same bits on all ranks, the bytes of the formula, and numbers close to the exact ones */
static void test_narrow(void)
{
    static const int format[2] = { TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    static const double near[2] = { 5e-3, 5e-2 };
    run *whole = (run *)t_keep(sizeof *whole), *r = (run *)t_keep(sizeof *r);
    small file;
    int k, world, tcp, i;
    if (!small_make(&file, &small_plain, NULL)) return;
    memset(whole, 0, sizeof *whole);
    whole->file = &file;
    whole->world = whole->plain = 1;
    whole->n_prompt = 7;
    if (!run_all(whole) || !all_ok(whole)) { small_unmake(&file); return; }
    for (k = 0; k < 2; k++)
        for (world = 2; world <= MOST; world++)
            for (tcp = 0; tcp < 2; tcp++) {
                double size = 0.0, off = 0.0;
                memset(r, 0, sizeof *r);
                r->file = &file;
                r->world = world;
                r->tcp = tcp;
                r->wire = format[k];
                r->n_prompt = 7;
                r->n = 8;
                if (!run_all(r)) { small_unmake(&file); return; }
                if (!all_ok(r)) { forget(r); continue; }
                for (i = 0; i < 80; i++) {
                    size = fmax(size, fabs((double)whole->first[0][i]));
                    off = fmax(off, fabs((double)whole->first[0][i] - (double)r->first[0][i]));
                }
                T_CLOSE(off, 0.0, near[k] * size);
                T_TRUE(off > 1e-7 * size);              /* it was rounded */
                for (i = 1; i < world; i++) {
                    T_SAME(r->first[i], r->first[0], 80);
                    T_SAME(r->text[i], r->text[0], 8);
                }
                T_EQ_INT(r->messages, 4);               /* two sums in each of two layers */
                T_EQ_INT(r->bytes, 4 * (k ? 2 * 34 : 64 * 2));
                forget(r);
            }
    forget(whole);
    for (k = 1; k <= 3; k++) {              /* numbers that cannot travel */
        memset(r, 0, sizeof *r);
        r->file = &file;
        r->world = 3;
        r->wire = k == 2 ? TLLM_FORMAT_Q8_0 : format[k / 2];
        r->n_prompt = 1;
        r->spoil = k;
        if (!run_all(r)) break;
        for (i = 0; i < 3; i++)
            if (!T_EQ_INT(r->st[i], TINY_E_PROTOCOL) || !T_TRUE(strstr(r->says[i], "rank 1") != NULL))
                printf("  rank %d: %s\n", i, r->says[i]);
        T_TRUE(strstr(r->says[1], "rank 1 has a number that is not finite in") != NULL);
        forget(r);
    }
    for (k = 0; k < 2; k++) {               /* the ranks do not agree on the format */
        memset(r, 0, sizeof *r);
        r->file = &file;
        r->world = 2;
        r->tcp = k;
        r->wire = TLLM_FORMAT_F16;
        r->other_wire = TLLM_FORMAT_Q8_0;
        r->n_prompt = 1;
        if (!run_all(r)) break;
        T_TRUE(r->st[0] == TINY_E_PROTOCOL || r->st[1] == TINY_E_PROTOCOL);
        for (i = 0; i < 2; i++) T_TRUE(r->st[i] == TINY_E_PROTOCOL || r->st[i] == TINY_E_PEER);
        forget(r);
    }
    memset(r, 0, sizeof *r);                /* ways that do not go through rank 0 */
    r->file = &file;
    r->world = 4;
    r->wire = TLLM_FORMAT_F16;
    r->way = TINY_COMM_RING;
    r->n_prompt = 1;
    if (run_all(r)) T_TRUE(r->st[1] != TINY_OK && strstr(r->says[1], "narrow sums go through rank 0") != NULL);
    forget(r);
    small_unmake(&file);
    T_PROOF("distributed 1", "f16 and 8 bits on the wire: the same bits on all ranks, the bytes of the format");
}

typedef struct measured { tiny_local *local; double share[3][3]; tiny_status st[3]; } measured;
static void measure_rank(int rank, void *arg)
{
    measured *p = (measured *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm_desc cd;
    tiny_comm *comm = NULL;
    memset(&cd, 0, sizeof cd);
    cd.net = tiny_local_net(p->local, rank);
    cd.timeout_ns = UINT64_C(60000000000);
    p->st[rank] = tiny_comm_open(ctx, &cd, &comm);
    if (!p->st[rank]) p->st[rank] = tllm_share_measure(ctx, comm, p->share[rank]);
    tiny_comm_close(comm);
    tiny_ctx_close(ctx);
}
static void test_speeds(void)
{
    static const double share[3] = { .5, .25, .25 }, ms[3] = { 20, 5, 10 }, zero[3] = { 1, 0, 1 },
                        bad[3] = { 1, NAN, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    double next[3] = { 0 };
    measured p;
    int i;
    memset(&d, 0, sizeof d);
    memset(&p, 0, sizeof p);
    d.world = 3;
    T_OK(tiny_local_open(ctx, &d, &p.local));
    if (t_ranks(3, measure_rank, &p))
        for (i = 0; i < 3; i++) {
            T_EQ_INT(p.st[i], TINY_OK);
            T_SAME(p.share[i], p.share[0], 3);
            T_CLOSE(p.share[i][0] + p.share[i][1] + p.share[i][2], 1.0, 1e-12);
            T_TRUE(p.share[0][i] > 0);
        }
    tiny_local_close(ctx, p.local);
    /* .025, .05, .025 */
    T_OK(tllm_share_by_time(ctx, share, ms, 3, next));
    T_CLOSE(next[0], .25, 1e-15);
    T_CLOSE(next[1], .5, 1e-15);
    T_CLOSE(next[2], .25, 1e-15);
    T_OK(tllm_share_by_time(ctx, NULL, ms, 2, next));       /* 1/20, 1/5 */
    T_CLOSE(next[0], .2, 1e-15);
    T_OK(tllm_share_without(ctx, share, 3, 1, next));
    T_CLOSE(next[0], 2.0 / 3, 1e-15);
    T_CLOSE(next[1], 1.0 / 3, 1e-15);
    T_STATUS(tllm_share_by_time(ctx, share, zero, 3, next), TINY_E_ARGUMENT, "rank 1 has computed for 0 ms");
    T_STATUS(tllm_share_by_time(ctx, bad, ms, 3, next), TINY_E_ARGUMENT, "the share of rank 1 is");
    T_STATUS(tllm_share_by_time(ctx, share, ms, 65, next), TINY_E_ARGUMENT, "not of 65");
    T_STATUS(tllm_share_by_time(ctx, share, NULL, 3, next), TINY_E_ARGUMENT, "needs the times");
    T_STATUS(tllm_share_without(ctx, share, 3, 3, next), TINY_E_ARGUMENT, "rank 3 of 3");
    T_STATUS(tllm_share_without(ctx, share, 1, 0, next), TINY_E_ARGUMENT, "rank 0 of 1");
    T_STATUS(tllm_share_measure(ctx, NULL, next), TINY_E_ARGUMENT, "needs a comm");
    t_close(ctx);
}

static void test_bad_calls(void)
{
    static const double zero[2] = { 1, 0 }, nan[2] = { NAN, 1 }, small_one[2] = { 1, 0.01 }, many[9] = { 1, 1, 1, 1, 1,
                        1, 1, 1, 1 };
    small_shape is = small_plain;
    small file;
    tllm_gguf *g = NULL;
    tllm_model *m = NULL;
    tllm_narrow *narrow = NULL;
    tllm_narrow_desc nd;
    tllm_about about;
    tiny_net net;
    if (!small_make(&file, &is, NULL)) return;
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_OK(tllm_model_open(file.ctx, g, &m));
    T_STATUS(tllm_model_cut_by(file.ctx, m, 0, 2, zero), TINY_E_ARGUMENT, "the share of rank 1 is 0");
    T_STATUS(tllm_model_cut_by(file.ctx, m, 0, 2, nan), TINY_E_ARGUMENT, "the share of rank 0 is");
    /* 8 heads: all of them, .08; one is left */
    T_OK(tllm_model_cut_by(file.ctx, m, 0, 2, small_one));
    tllm_model_about(m, &about);
    T_EQ_INT(about.n_kv, 7);
    T_STATUS(tllm_model_cut_by(file.ctx, m, 0, 2, NULL), TINY_E_ARGUMENT, "cut already");
    tllm_model_close(file.ctx, m);
    T_OK(tllm_model_open(file.ctx, g, &m));
    T_STATUS(tllm_model_cut_by(file.ctx, m, 0, 9, many), TINY_E_SHAPE,
             "layer 0: rank 0 of 9 would get none of the 8 key heads, which are given out 1 at a time");
    T_STATUS(tllm_model_cut_by(file.ctx, NULL, 0, 2, NULL), TINY_E_ARGUMENT, "the model is NULL");
    tllm_model_close(file.ctx, m);
    tllm_gguf_close(file.ctx, g);
    memset(&nd, 0, sizeof nd);
    memset(&net, 0, sizeof net);
    net.world = 2;
    T_STATUS(tllm_narrow_open(file.ctx, &nd, &narrow), TINY_E_ARGUMENT, "needs a net");
    nd.inner = &net;
    nd.format = TLLM_FORMAT_Q4_K;
    T_STATUS(tllm_narrow_open(file.ctx, &nd, &narrow), TINY_E_ARGUMENT, "sums cannot travel in format 12");
    nd.format = TLLM_FORMAT_F16;
    nd.n_most = SIZE_MAX / 2 + 1;
    T_STATUS(tllm_narrow_open(file.ctx, &nd, &narrow), TINY_E_OVERFLOW, "more than this machine can address");
    T_TRUE(tllm_narrow_bytes(TLLM_FORMAT_Q8_0, 33) == 68 && tllm_narrow_bytes(TLLM_FORMAT_F16, 33) == 66 &&
           tllm_narrow_bytes(TLLM_FORMAT_F32, 33) == 132 && tllm_narrow_bytes(TLLM_FORMAT_Q4_0, 32) == 0);
    T_TRUE(tllm_narrow_net(NULL) == NULL);
    tllm_narrow_close(file.ctx, NULL);
    small_unmake(&file);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

#if T_PTHREAD
#include <dirent.h>
#include <sys/stat.h>

typedef struct slicing {
    const char *model, *folder;
    const double *share;
    int world, has_file;                    /* bits: ranks that have the whole file, besides rank 0 */
    tiny_local *local;
    const tiny_fault_at *harm;              /* done to what rank 0 sends to rank 1 */
    const unsigned char *ask;               /* NULL, or what rank 1 asks: (48) */
    float logits[MOST][80];
    char path[MOST][400], says[MOST][240];
    tllm_slices_about about[MOST];
    tiny_status st[MOST];
} slicing;

static void slice_rank(int rank, void *arg)
{
    slicing *s = (slicing *)arg;
    tllm_slices_desc d;
    tiny_comm_desc cd;
    tiny_fault_desc fd;
    tiny_fault *fault = NULL;
    tllm_gguf *file = NULL;
    t_rank m;
    memset(&d, 0, sizeof d);
    memset(&cd, 0, sizeof cd);
    memset(&fd, 0, sizeof fd);
    memset(&m, 0, sizeof m);
    m.ctx = t_rank_ctx(TINY_TARGET_AUTO);
    d.net = tiny_local_net(s->local, rank);
    d.share = s->share;
    d.folder = s->folder;
    d.timeout_ns = UINT64_C(20000000000);
    d.most = 1 << 20;
    if (!rank && s->harm) {
        fd.inner = d.net;
        fd.at = s->harm;
        fd.n_at = 1;
        m.st = tiny_fault_open(m.ctx, &fd, &fault);
        d.net = tiny_fault_net(fault);
    }
    if (!m.st && (!rank || s->has_file >> rank & 1)) m.st = tllm_gguf_open(m.ctx, s->model, &file);
    d.file = file;
    if (!m.st && !rank) m.st = tllm_slices_serve(m.ctx, &d, &s->about[0]);
    else if (!m.st && s->ask && rank == 1) {
        tiny_message q;
        memset(&q, 0, sizeof q);
        q.tag = 253;
        q.data = (void *)(uintptr_t)s->ask;
        q.n = 48;
        while (!m.st && !q.whole) m.st = d.net->send(d.net, 0, &q);
        memset(&q, 0, sizeof q);
        q.tag = 253;
        q.data = s->logits;
        q.n = 320;
        while (!m.st && !q.whole) m.st = d.net->recv(d.net, 0, &q);
        d.net->close(d.net);
    } else if (!m.st) {
        m.st = tllm_slices_fetch(m.ctx, &d, s->path[rank], sizeof s->path[rank], &s->about[rank]);
        if (!m.st && !file) m.st = tllm_gguf_open(m.ctx, s->path[rank], &file);
    }
    if (!m.st && !s->harm && !s->ask) {     /* and the text */
        int32_t token[9];
        int i;
        for (i = 0; i < 9; i++) token[i] = small_prompt(i, 80);
        cd.net = d.net;
        cd.timeout_ns = UINT64_C(60000000000);
        m.st = tiny_comm_open(m.ctx, &cd, &m.comm);
        if (!m.st) m.st = tllm_model_open(m.ctx, file, &m.model);
        if (!m.st) m.st = tllm_model_cut_by(m.ctx, m.model, rank, s->world, s->share);
        t_rank_state(&m, 32, 16);
        if (!m.st) m.st = tllm_forward(m.state, token, 9, 0, 1, rank ? NULL : s->logits[0]);
        if (!m.st) m.st = tiny_allreduce(m.comm, s->logits[rank], 80, 200);
    }
    s->st[rank] = m.st;
    m.file = file;
    (void)snprintf(s->says[rank], sizeof s->says[rank], "%s", tiny_ctx_message(m.ctx));
    tllm_state_close(m.ctx, m.state);
    m.state = NULL;
    if (!m.comm) d.net->close(d.net);
    tiny_comm_close(m.comm);
    m.comm = NULL;
    tiny_fault_close(m.ctx, fault);
    (void)t_rank_leave(&m, s->says[rank] + 239, 1);
}
static int slice_all(slicing *s)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    int ok;
    memset(&d, 0, sizeof d);
    d.world = s->world;
    T_OK(tiny_local_open(ctx, &d, &s->local));
    ok = t_ranks(s->world, slice_rank, s);
    tiny_local_close(ctx, s->local);
    t_close(ctx);
    return ok;
}
/* removes the files of a folder, and returns how many there were */
static int clear_folder(const char *folder, const char *but)
{
    DIR *all = opendir(folder);
    struct dirent *e;
    int n = 0;
    while (all && (e = readdir(all)) != NULL) {
        char path[600];
        if (e->d_name[0] == '.' || !strcmp(e->d_name, but)) continue;
        (void)snprintf(path, sizeof path, "%s/%.250s", folder, e->d_name);
        (void)remove(path);
        n++;
    }
    if (all) (void)closedir(all);
    return n;
}
static unsigned char *whole_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *p = (unsigned char *)t_keep(1 << 20);
    *n = f ? fread(p, 1, 1 << 20, f) : 0;
    if (f) (void)fclose(f);
    return p;
}

static void test_slices(void)
{
    static const double share[3] = { 2, 1, 1 };
    static const unsigned char asks[][5] = { { 0 }, { 9 }, { 4, 0, 0, 0, 200 } };
    const char *tmp = getenv("TMPDIR");
    char folder[200], path[300];
    slicing *s = (slicing *)t_keep(sizeof *s);
    tiny_fault_at harm;
    unsigned char *all, *part, ask[48];
    float was[80];
    size_t n_all, n_part, i, k, same, filled, refused = 0, good = 0;
    small file;
    (void)snprintf(folder, sizeof folder, "%.150s/tinyslicesXXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) { t_skip("no folder for files"); return; }
    (void)snprintf(path, sizeof path, "%s/model", folder);
    if (!small_make(&file, &small_plain, path)) return;
    memset(s, 0, sizeof *s);
    s->model = path;
    s->folder = folder;
    s->share = share;
    s->world = 3;
    all = whole_file(path, &n_all);
    for (k = 0; k < 4; k++) {               /* fetched; there already; rank 2 has the whole file; all have it */
        s->has_file = k == 2 ? 4 : k == 3 ? 6 : 0;
        memset(s->logits, 0, sizeof s->logits);
        if (!slice_all(s)) return;
        for (i = 0; i < 3; i++) if (!T_EQ_INT(s->st[i], TINY_OK)) printf("  rank %d: %s\n", (int)i, s->says[i]);
        T_EQ_INT(s->about[0].asked, k ? 0 : 2);
        T_SAME(s->logits[0], s->logits[2], 80);
        if (k) T_SAME(s->logits[0], was, 80);
        memcpy(was, s->logits[0], sizeof was);
        T_EQ_INT(s->about[0].bytes, s->about[1].bytes + s->about[2].bytes);
        if (k) { T_EQ_INT(s->about[1].bytes, 0); continue; }
        for (i = 1; i < 3; i++) {           /* the bytes of the part are those of the file, the rest is empty */
            size_t j;
            part = whole_file(s->path[i], &n_part);
            T_EQ_INT(n_part, n_all);
            for (same = filled = j = 0; j < n_part; j++) {
                filled += part[j] != 0;
                same += !part[j] || part[j] == all[j];
            }
            T_EQ_INT(same, n_all);
            T_TRUE(filled <= s->about[i].bytes && s->about[i].bytes < n_all * 6 / 10);
        }
        T_TRUE(strcmp(s->path[1], s->path[2]) != 0);
    }
    T_TRUE(*s->path[2] == 0);
    small_unmake(&file);
    T_EQ_INT(clear_folder(folder, "model"), 2);
    /* a bit of what rank 0 sends is another one: an error, and no file, or a bit that nobody reads */
    s->world = 2;
    s->has_file = 0;
    s->harm = &harm;
    harm.to = 1;
    harm.kind = TINY_FAULT_FLIP;
    for (harm.message = 0; harm.message < 8; harm.message++)
        for (harm.by = harm.message; harm.by < 2560; harm.by += 79) {
            if (!slice_all(s)) return;
            if (s->st[1]) {
                T_TRUE(s->st[1] == TINY_E_PROTOCOL || s->st[1] == TINY_E_PEER || s->st[1] == TINY_E_ARGUMENT ||
                       s->st[1] == TINY_E_IO);
                if (!T_EQ_INT(clear_folder(folder, "model"), 0))
                    printf("  message %d, bit %d: %s\n", (int)harm.message, (int)harm.by, s->says[1]);
                refused++;
            } else {
                part = whole_file(s->path[1], &n_part);
                for (same = k = 0; k < n_part; k++) same += !part[k] || part[k] == all[k];
                T_TRUE(n_part == n_all && same == n_all && harm.message % 2 == (harm.message > 0));
                T_EQ_INT(clear_folder(folder, "model"), 1);
                good++;
            }
        }
    T_TRUE(refused > 80 && good > 20);
    /* questions that there are not: rank 2, which has asked nothing wrong, learns whose fault it is */
    s->harm = NULL;
    s->ask = ask;
    s->world = 3;
    s->has_file = 4;
    for (k = 0; k < T_COUNT(asks); k++) {
        memset(ask, 0, sizeof ask);
        memcpy(ask, asks[k], sizeof asks[k]);
        if (!slice_all(s)) return;
        T_EQ_INT(s->st[0], TINY_E_PROTOCOL);
        T_TRUE(strstr(s->says[0], "rank 1 asks for slice") != NULL);
        T_EQ_INT(s->st[2], TINY_E_PROTOCOL);
        if (!T_TRUE(strstr(s->says[2], "rank 1") != NULL)) printf("  rank 2: %s\n", s->says[2]);
    }
    s->world = 2;
    memset(ask, 0, sizeof ask);
    ask[0] = 1;                             /* it has another model */
    if (slice_all(s)) {
        T_EQ_INT(s->st[0], TINY_E_PROTOCOL);
        T_TRUE(strstr(s->says[0], "rank 1 has another model than") != NULL);
    }
    (void)remove(path);
    (void)rmdir(folder);
    T_PROOF("distributed 1", "slices over the wire: the part and nothing else, each length and SHA-256 checked");
}
#else
static void test_slices(void) { t_skip("no folder for files"); }
#endif

int main(void)
{
    T_RUN(test_parts);
    T_RUN(test_uneven);
    T_RUN(test_blocks);
    T_RUN(test_narrow);
    T_RUN(test_speeds);
    T_RUN(test_bad_calls);
    T_RUN(test_slices);
    return t_done();
}
