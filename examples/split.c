/* examples/split.c - a network cut in two: a weak device runs thin encoders, a server the rest, and the number of
 * encoders follows the link between them
 *
 *     split                                               trains, then plays device and server as two processes
 *     split --net slim.net --compare                      widths, separate models, one stack cut by channels
 *     split --net slim.net --serve *:29600 --key K        a server; cluster key K makes a key
 *     split --net slim.net --device 192.168.1.5:29600 --key K
 *
 * The link between the two processes is real TCP. A trace of bandwidths shapes what the device sends: a message takes
 * the time that its bytes need at that rate. Images are drawn from the seed, nothing is downloaded. */
#define TINYLLM_LAB
#define TINYLLM_WITH_SLIM
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "split"
#include "options.h"
#include <math.h>
#ifdef OPTIONS_UNIX
#include <sys/wait.h>
#endif

enum { STEPS = 32, WAYS = 4, TEST = 1000 };
enum { OURS, FULL, FIRST, PIXELS };
static const char *const way_name[WAYS] = { "controller", "all members", "one member", "8-bit pixels" };
static const char *const colour[WAYS] = { "#1f77b4", "#d62728", "#2ca02c", "#888" };

static const char usage[] =
    "split [options]   device and server of a network cut in two, over a link that changes\n"
    "  --net FILE       the network; trained and written if there is no such file; default: trained, not kept\n"
    "  --seed N         of data, first weights and order; default: 1\n"
    "  --epochs E       of the training; default: 12\n"
    "  --train N        images to train on, 100 or more; default: 4000\n"
    "  --members K      encoders side by side, 1 to 16; default: 4\n"
    "  --width C        channels inside of an encoder; default: 4\n"
    "  --send C         channels that an encoder sends; default: 2\n"
    "  --bits B         of a code, 2 to 8; default: 4\n"
    "  --noise X        deviation of more noise on each pixel; default: 2\n"
    "  --coded          codes go through an arithmetic coder\n"
    "  --deadline MS    of an answer; default: 30\n"
    "  --trace LIST     kilobits a second of the link, one after the other; default: 10000,400,100,50,100,400,2000,\n"
    "                   10000\n"
    "  --frames N       images at each of them; default: 25\n"
    "  --compare        no link: accuracy, bytes and time of each width, against separate models and cut channels\n"
    "  --svg FILE       draw the trace\n"
    "  --serve ADDRESS  only the server, for one device; needs --net and --key\n"
    "  --device ADDRESS only the device; needs --net and --key\n"
    "  --key FILE       the secret of both, at least 16 bytes: cluster key FILE makes one\n"
    "  --threads N      of the training; default: 1\n";

typedef struct point { double kbit, bytes, ms, in_time, right, m; int changes, done; } point;

static struct {
    const char *net, *svg, *serve, *device, *key, *trace;
    char one[300];                          /* a separate model: written, read, removed */
    int epochs, members, width, send, bits, coded, compare, frames, threads, n_step, train;
    double deadline, noise, kbit[STEPS];
    uint64_t seed;
    tiny_ctx *ctx;
    tllm_nn_task task;
    point at[WAYS][STEPS];
} run;

static double seconds(void) { return 1e-9 * (double)tiny_now_ns(); }

static const char *what_trains;
static int on_step(void *user, const tllm_slim_fit_state *s)
{
    (void)user;
    if (is_shown() && s->step % 5 == 0)
        fprintf(stderr, "\r%s: step %d of %d, loss %.3f   ", what_trains, (int)s->step, (int)s->steps, s->loss);
    return 0;
}

static tllm_slim_desc shape_of(int members, int prefix)
{
    tllm_slim_desc d;
    memset(&d, 0, sizeof d);
    d.in[0] = 1;
    d.in[1] = d.in[2] = 32;
    d.n_class = 10;
    d.members = members;
    d.width = run.width;
    d.send = run.send;
    d.bits = run.bits;
    d.prefix = prefix;
    d.seed = run.seed;
    return d;
}

static tiny_status trained(int members, int prefix, int alone, const char *what, tllm_slim **slim)
{
    const tllm_slim_desc d = shape_of(members, prefix);
    tllm_slim_fit_desc f;
    tiny_status st = tllm_slim_open(run.ctx, &d, slim);
    memset(&f, 0, sizeof f);
    f.epochs = run.epochs;
    f.seed = run.seed;
    f.alone = alone;
    f.callback = on_step;
    what_trains = what;
    if (!st) st = tllm_slim_fit(*slim, &run.task.train, &f);
    if (is_shown()) fprintf(stderr, "\r%70s\r", "");
    return st;
}

static int is_there(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (f) (void)fclose(f);
    return f != NULL;
}

static tiny_status network(tllm_slim **slim)
{
    const tllm_slim_desc d = shape_of(run.members, 0);
    tiny_status st;
    if (!is_there(run.net)) {
        st = trained(run.members, 0, 0, "training all widths", slim);
        return !st && run.net ? tllm_slim_save(*slim, run.net) : st;
    }
    st = tllm_slim_open(run.ctx, &d, slim);
    if (!st) st = tllm_slim_load(*slim, run.net);
    if (st == TINY_E_SHAPE) say("the network has other --members, --width or --send than are given");
    return st;
}

static tiny_status images(void)
{
    tiny_rng rng = tiny_rng_make(run.seed, 77);
    tiny_status st = tllm_nn_task_open(run.ctx, TLLM_TASK_TEX32, run.seed, run.train, TEST, &run.task);
    tiny_idx i;
    float *x = (float *)run.task.train.x.data;          /* those of the test follow */
    for (i = 0; !st && run.noise > 0.0 && i < (run.train + TEST) * 1024; i++)
        x[i] += (float)run.noise * tiny_rng_normal(&rng);
    return st;
}

/* ---- the table of widths */

static tiny_status width_row(tllm_slim *slim, const char *name, int m, double extra_ms)
{
    const tllm_slim_pack_desc pack = { 0, run.coded };
    const tllm_slim_desc *is = tllm_slim_is(slim);
    tllm_slim_cost cost;
    float z[16384];
    double bytes = 0.0, best = 1e9, t;
    tiny_idx right = 0;
    int i;
    tiny_status st = tllm_slim_cost_of(slim, m, &cost);
    if (!st && cost.numbers > 16384) return TINY_E_SHAPE;
    if (!st) st = tllm_slim_right(slim, &run.task.test, m, &pack, &right, &bytes);
    for (i = 0; !st && i < 200; i++) {
        t = seconds();
        st = tllm_slim_encode(slim, (const float *)run.task.test.x.data + (i % 100) * 1024, 0, m, z);
        t = seconds() - t;
        if (t < best) best = t;
    }
    if (!st)
        printf("%-18s %2d of %-2d %8.1f%% %8.0f %8.1fx %10.0f %9.3f %10.3f\n", name, m, is->members,
               100.0 * (double)right / TEST, bytes, 1024.0 / bytes, cost.encoder, 1e3 * best, extra_ms);
    return st;
}

static tiny_status compare(tllm_slim *slim)
{
    tllm_slim *other = NULL;
    const char *path = run.one;
    tiny_idx right = 0;
    double t, best;
    int m, i;
    tiny_status st = TINY_OK;
    printf("%-18s %8s %9s %8s %9s %10s %9s %10s\n", "encoder", "width", "accuracy", "bytes", "pixels", "MACs", "ms",
           "switch ms");
    for (m = 1; !st && m <= run.members; m++) st = width_row(slim, "members", m, 0.0);
    for (m = 1; !st && m <= run.members; m++) {         /* the time of a switch is that of reading the file */
        st = trained(m, 0, 1, "training a separate model", &other);
        if (!st) st = tllm_slim_save(other, path);
        for (i = 0, best = 1e9; !st && i < 5; i++) {
            t = seconds();
            st = tllm_slim_load(other, path);
            t = seconds() - t;
            if (t < best) best = t;
        }
        (void)remove(path);
        if (!st) st = width_row(other, "separate models", m, 1e3 * best);
        tllm_slim_close(other);
        other = NULL;
    }
    if (!st) st = trained(run.members, 1, 0, "training cut channels", &other);
    for (m = 1; !st && m <= run.members; m++) st = width_row(other, "cut channels", m, 0.0);
    tllm_slim_close(other);
    if (!st) st = tllm_slim_right(slim, &run.task.test, 0, NULL, &right, NULL);
    if (!st) printf("%-18s %8s %8.1f%%\n", "local, no link", "", 100.0 * (double)right / TEST);
    for (m = 0; !st && m < run.members; m++)
        printf("%sbits a code, of %d: %.2f", m ? ", " : "", run.bits, tllm_slim_entropy(slim, m));
    if (!st) puts("");
    return st;
}

/* ---- the device */

static tiny_status frame_of(tllm_split *split, tllm_slim *slim, int way, uint32_t id, int m, const float *x,
                            tllm_slim_seen *seen, tllm_split_answer *answer, double *ms)
{
    static unsigned char frame[1 << 17];
    static float z[16384];
    const tllm_slim_pack_desc pack = { 0, run.coded };
    const double start = seconds();
    size_t n = tllm_split_image_bytes(split);
    double sent;
    int got = 0;
    tiny_status st = TINY_OK;
    if (way != PIXELS) {
        st = tllm_slim_encode(slim, x, 0, m, z);
        if (!st) st = tllm_slim_pack(slim, z, 0, m, &pack, frame, sizeof frame, &n);
    }
    sent = seconds();
    if (!st) st = way == PIXELS ? tllm_split_send_image(split, id, x) : tllm_split_send(split, id, frame, n);
    if (!st) st = tllm_split_wait(split, id, tiny_now_ns() + UINT64_C(20000000000), answer, &got);
    if (!st && (!got || !answer->n)) {
        say("the server did not understand a frame");
        return TINY_E_PROTOCOL;
    }
    *ms = 1e3 * (seconds() - start);
    seen->m = m;
    seen->bytes = n + TLLM_SPLIT_HEAD;
    seen->encode = sent - start;
    seen->decode = answer->decode;
    seen->transfer = seconds() - sent - answer->decode - seen->rtt;
    if (seen->transfer < 1e-6) seen->transfer = 1e-6;
    return st;
}

static tiny_status drive(tiny_net *plain, tllm_slim *slim, int way)
{
    tllm_split_desc sd;
    tiny_fault_desc fd;
    tiny_fault *link = NULL;
    tllm_split *split = NULL;
    tllm_slim_control c;
    tllm_slim_seen seen;
    tllm_split_answer answer;
    tllm_slim_cost cost;
    float z[16384], logits[10];
    double ms = 0.0, rtt = 0.0, t;
    static uint32_t id;
    int i, k, m = way == FIRST ? 1 : run.members;
    tiny_status st;
    memset(&sd, 0, sizeof sd);
    memset(&fd, 0, sizeof fd);
    memset(&c, 0, sizeof c);
    memset(&seen, 0, sizeof seen);
    fd.inner = plain;
    st = tiny_fault_open(run.ctx, &fd, &link);
    sd.net = tiny_fault_net(link);
    sd.peer = 0;
    sd.slim = slim;
    if (!st) st = tllm_split_open(run.ctx, &sd, &split);
    c.members = run.members;
    c.deadline = 1e-3 * run.deadline;
    for (k = 1; !st && k <= run.members; k++) {
        st = tllm_slim_cost_of(slim, k, &cost);
        c.bytes[k - 1] = cost.bytes + TLLM_SPLIT_HEAD;
        if (!st && cost.numbers > 16384) st = TINY_E_SHAPE;
    }
    for (k = 0; !st && k < 3; k++) {        /* the wire without the shaped rate: the shortest of three */
        st = tllm_split_ping(split, &t);
        if (!k || t < rtt) rtt = t;
    }
    seen.rtt = rtt;
    if (!st && way == OURS) m = tllm_slim_control_next(&c, NULL);
    for (i = 0; !st && i < run.n_step; i++) {
        point *p = &run.at[way][i];
        st = tiny_fault_rate(run.ctx, link, 1e3 * run.kbit[i]);
        for (k = 0; !st && k < run.frames; k++) {
            const tiny_idx at = (i * run.frames + k) % TEST;
            const float *x = (const float *)run.task.test.x.data + at * 1024;
            const int before = m;
            memset(&answer, 0, sizeof answer);
            seen.m = 0;
            if (m > 0) st = frame_of(split, slim, way, ++id, m, x, &seen, &answer, &ms);
            else {                          /* no width fits: the device answers for itself */
                int best = 0, q;
                t = seconds();
                st = tllm_slim_encode(slim, x, 0, 1, z);
                if (!st) st = tllm_slim_local(slim, z, logits);
                for (q = 1; !st && q < 10; q++) if (logits[q] > logits[best]) best = q;
                answer.label[0] = best;
                ms = 1e3 * (seconds() - t);
            }
            p->kbit = run.kbit[i];
            p->bytes += m > 0 ? (double)seen.bytes : 0.0;
            p->ms += ms;
            p->m += m;
            p->in_time += ms <= run.deadline;
            p->right += ms <= run.deadline && answer.label[0] == ((const int32_t *)run.task.test.label.data)[at];
            p->done++;
            if (way == OURS && !st) m = tllm_slim_control_next(&c, &seen);
            if (m < 0) st = TINY_E_ARGUMENT;
            p->changes += m != before;
            if (is_shown())
                fprintf(stderr, "\r%s: %.0f kbit/s, image %d of %d   ", way_name[way], run.kbit[i], k + 1, run.frames);
        }
    }
    if (is_shown()) fprintf(stderr, "\r%70s\r", "");
    tllm_split_close(split);
    tiny_fault_close(run.ctx, link);
    return st;
}

/* ---- the picture: bandwidth, bytes, milliseconds, right answers in time */

static double value_of(const point *p, int what)
{
    const double n = p->done ? p->done : 1;
    return what == 0 ? p->kbit : what == 1 ? p->bytes / n : what == 2 ? p->ms / n : 100.0 * p->right / n;
}

static size_t draw(char *to, size_t room)
{
    static const char *const title[4] = { "link, kbit/s", "bytes a frame", "ms until the answer", "right in time, %" };
    size_t n = 0;
    int what, way, i;
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"600\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"760\" height=\"600\" fill=\"#fff\"/>\n");
    for (way = 0; way < WAYS; way++)
        PUT("<text x=\"%d\" y=\"18\" fill=\"%s\">%s</text>\n", 110 + 150 * way, colour[way], way_name[way]);
    for (what = 0; what < 4; what++) {
        double low = 1e300, high = -1e300, base = 40 + 140 * what;
        const int is_log = what < 3;
        for (way = 0; way < (what ? WAYS : 1); way++)
            for (i = 0; i < run.n_step; i++) {
                const double v = value_of(&run.at[way][i], what);
                if (v < low && v > 0.0) low = v;
                if (v > high) high = v;
            }
        if (!is_log) { low = 0.0; high = 100.0; }
        if (low > high) low = high = 1.0;
        if (is_log) { low = log(low * 0.8); high = log(high * 1.25); }
        PUT("<text x=\"8\" y=\"%.0f\">%s</text>\n<path d=\"M110 %.0fH740M110 %.0fH740\" stroke=\"#ddd\"/>\n", base + 14,
            title[what], base, base + 110);
        PUT("<text x=\"104\" y=\"%.0f\" text-anchor=\"end\">%.3g</text><text x=\"104\" y=\"%.0f\" "
            "text-anchor=\"end\">%.3g</text>\n",
            base + 30, is_log ? exp(high) : high, base + 110, is_log ? exp(low) : low);
        if (what == 2 && run.deadline > exp(low) && run.deadline < exp(high))
            PUT("<path d=\"M110 %.1fH740\" stroke=\"#000\" stroke-dasharray=\"4 3\"/>"
                "<text x=\"8\" y=\"%.1f\">deadline</text>\n",
                base + 110 - 110 * (log(run.deadline) - low) / (high - low),
                base + 114 - 110 * (log(run.deadline) - low) / (high - low));
        for (way = what ? WAYS - 1 : 0; way >= 0; way--) {
            PUT("<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"", what ? colour[way] : "#000");
            for (i = 0; i < run.n_step; i++) {
                double v = value_of(&run.at[way][i], what);
                if (is_log) v = log(v > 0.0 ? v : exp(low));
                v = base + 110 - 110 * (v - low) / (high - low);
                PUT("%c%.1f %.1fH%.1f", i ? 'L' : 'M', 110 + 630.0 * i / run.n_step, v,
                    110 + 630.0 * (i + 1) / run.n_step);
            }
            PUT("\"/>\n");
        }
    }
    PUT("</svg>\n");
#undef PUT
    return n;
}

static int report(void)
{
    static char picture[65536];
    int way, i;
    printf("%-14s %10s %8s %8s %9s %9s %9s %8s\n", "way", "kbit/s", "members", "bytes", "ms", "in time", "and right",
           "changes");
    for (way = 0; way < WAYS; way++)
        for (i = 0; i < run.n_step && run.at[way][i].done; i++) {
            const point *p = &run.at[way][i];
            printf("%-14s %10.0f %8.2f %8.0f %9.2f %8.0f%% %8.0f%% %8d\n", way_name[way], p->kbit,
                   way == PIXELS ? 0.0 : p->m / p->done, p->bytes / p->done, p->ms / p->done,
                   100 * p->in_time / p->done, 100 * p->right / p->done, p->changes);
        }
    if (!run.svg) return 0;
    i = (int)draw(picture, sizeof picture);
    if ((size_t)i >= sizeof picture || tiny_file_write(run.ctx, run.svg, picture, (size_t)i)) {
        say((size_t)i >= sizeof picture ? "the picture is too large" : tiny_ctx_message(run.ctx));
        return 1;
    }
    return 0;
}

/* ---- two processes */

static tiny_status connect_as(int rank, const char *at, tiny_socket listener, const void *key, size_t n_key,
                              tiny_tcp **tcp)
{
    tiny_tcp_desc d;
    memset(&d, 0, sizeof d);
    d.rank = rank ? TINY_TCP_ANY : 0;
    d.world = rank ? 0 : 2;
    d.at = at;
    d.listener = listener;
    d.secret = key;
    d.n_secret = n_key;
    tiny_sha256_of("split 1", 7, d.config);
    return tiny_tcp_open(run.ctx, &d, tcp);
}

static tiny_status serve(tllm_slim *slim, const char *at, tiny_socket listener, const void *key, size_t n_key, int loud)
{
    tllm_split_desc sd;
    tllm_split *split = NULL;
    tllm_split_served served;
    tiny_tcp *tcp = NULL;
    tiny_status st;
    memset(&sd, 0, sizeof sd);
    memset(&served, 0, sizeof served);
    if (loud) fprintf(stderr, "waiting for a device at %s\n", at);
    st = connect_as(0, at, listener, key, n_key, &tcp);
    sd.peer = 1;
    sd.slim = slim;
    if (!st) {
        sd.net = tiny_tcp_net(tcp);
        st = tllm_split_open(run.ctx, &sd, &split);
    }
    if (!st) st = tllm_split_serve(split, &served);
    if (loud)
        printf("frames %lu, images %lu, refused %lu, late %lu\n", (unsigned long)served.frames,
               (unsigned long)served.images, (unsigned long)served.refused, (unsigned long)served.late);
    tllm_split_close(split);
    if (tcp) tiny_tcp_net(tcp)->close(tiny_tcp_net(tcp));
    tiny_tcp_close(run.ctx, tcp);
    return st;
}

static tiny_status device(tllm_slim *slim, const char *at, const void *key, size_t n_key)
{
    tllm_split_desc sd;
    tllm_split *split = NULL;
    tiny_tcp *tcp = NULL;
    int way;
    tiny_status st = connect_as(1, at, 0, key, n_key, &tcp);
    for (way = 0; !st && way < WAYS; way++) st = drive(tiny_tcp_net(tcp), slim, way);
    memset(&sd, 0, sizeof sd);
    sd.slim = slim;
    if (!st) {
        sd.net = tiny_tcp_net(tcp);
        st = tllm_split_open(run.ctx, &sd, &split);
        if (!st) st = tllm_split_end(split);
    }
    tllm_split_close(split);
    if (tcp) tiny_tcp_net(tcp)->close(tiny_tcp_net(tcp));
    tiny_tcp_close(run.ctx, tcp);
    return st;
}

static tiny_status both(tllm_slim *slim)
{
#ifdef OPTIONS_UNIX
    unsigned char key[32];
    tiny_socket at[TINY_ADDRESSES];
    tiny_address address;
    char text[TINY_ADDRESS_TEXT];
    pid_t child = -1;
    int n = 0, i, status = 0;
    tiny_status st = tiny_random(run.ctx, key, sizeof key);
    if (!st) st = tiny_listen_at(run.ctx, "127.0.0.1:0", at, &n);
    if (!st) st = tiny_socket_address(run.ctx, at[0], &address);
    if (!st) {
        tiny_address_text(&address, text);
        (void)fflush(NULL);
        child = fork();                     /* this process has no other thread: see --threads */
        if (!child) _exit(serve(slim, text, at[0], key, sizeof key, 0) ? 1 : 0);
        if (child < 0) { say("no second process"); st = TINY_E_IO; }
    }
    for (i = 0; i < n; i++) tiny_socket_close(at[i]);
    if (!st) st = device(slim, text, key, sizeof key);
    if (child > 0 && st) (void)kill(child, SIGTERM);
    if (child > 0 && (waitpid(child, &status, 0) != child || status) && !st) {
        say("the server ended with a failure");
        st = TINY_E_PEER;
    }
    tiny_wipe(key, sizeof key);
    return st;
#else
    (void)slim;
    say("this system has no fork: start it twice, with --serve and with --device");
    return TINY_E_UNSUPPORTED;
#endif
}

/* "10000,400,50" */
static int read_trace(const char *text)
{
    char one[32];
    for (run.n_step = 0; *text; run.n_step++) {
        const size_t n = strcspn(text, ",");
        if (!n || n >= sizeof one || run.n_step == STEPS) return 0;
        memcpy(one, text, n);
        one[n] = 0;
        if (!is_number(one, 1.0, 1e9, &run.kbit[run.n_step])) return 0;
        text += n + (text[n] == ',');
    }
    return run.n_step > 0;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc cd = { 0 };
    tllm_slim *slim = NULL;
    char *key = NULL;
    size_t n_key = 0;
    int failed = 0;
    tiny_status st;
    const option options[] = { A_TEXT("--net", &run.net),
                               A_SEED("--seed", &run.seed),
                               A_WHOLE("--epochs", &run.epochs, 1, 10000),
                               A_WHOLE("--train", &run.train, 100, 1000000),
                               A_WHOLE("--members", &run.members, 1, 16),
                               A_WHOLE("--width", &run.width, 1, 64),
                               A_WHOLE("--send", &run.send, 1, 16),
                               A_WHOLE("--bits", &run.bits, 2, 8),
                               A_NUMBER("--noise", &run.noise, 0, 100),
                               A_FLAG("--coded", &run.coded),
                               A_NUMBER("--deadline", &run.deadline, 0.1, 1e6),
                               A_TEXT("--trace", &run.trace),
                               A_WHOLE("--frames", &run.frames, 1, 100000),
                               A_FLAG("--compare", &run.compare),
                               A_TEXT("--svg", &run.svg),
                               A_TEXT("--serve", &run.serve),
                               A_TEXT("--device", &run.device),
                               A_TEXT("--key", &run.key),
                               A_WHOLE("--threads", &run.threads, 1, TINY_MAX_THREADS) };
    run.seed = 1;
    run.epochs = 12;
    run.train = 4000;
    run.members = 4;
    run.width = 4;
    run.send = 2;
    run.bits = 4;
    run.noise = 2.0;
    run.deadline = 30.0;
    run.frames = 25;
    run.threads = 1;
    run.trace = "10000,400,100,50,100,400,2000,10000";
    READ_OPTIONS(argc, argv, usage, options);
    if (!read_trace(run.trace)) return wrong(run.trace, "--trace takes up to 32 rates of 1 to 1e9 kbit/s with commas");
    if (run.serve && run.device) return wrong("--serve", "a process is the server or the device");
    if ((run.serve || run.device) && (!run.net || !run.key)) return wrong("--net", "both ends need --net and --key");
    if (run.threads > 1 && !run.compare && !run.serve && !run.device)
        return wrong("--threads", "more than 1 only with --compare, --serve or --device");
    if (must_not_write(run.svg, 1, run.net) || same_output(run.svg, run.net)) return 2;
    (void)snprintf(run.one, sizeof run.one, "%.290s.one", run.net ? run.net : "split-compare.net");
    if (run.compare && is_there(run.one))
        return refused("%s: --compare writes and removes a file of this name, and there is one", run.one);
    if (run.key && !(key = read_text(run.key, 4096, 0, &n_key))) return 1;
    cd.n_threads = run.threads;
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &run.ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&cd, &run.ctx)) return 1;
    st = images();
    if (!st) st = network(&slim);
    if (!st && run.compare) st = compare(slim);
    else if (!st && run.serve) st = serve(slim, run.serve, 0, key, n_key, 1);
    else if (!st && run.device) st = device(slim, run.device, key, n_key);
    else if (!st) st = both(slim);
    if (!st && !run.compare && !run.serve) failed = report();
    if (st) say(stopped_by ? "stopped" : tiny_ctx_message(run.ctx));
    tllm_slim_close(slim);
    tllm_nn_task_close(run.ctx, &run.task);
    tiny_ctx_close(run.ctx);
    if (key) tiny_wipe(key, n_key);
    free(key);
    return st ? stopped_by ? 128 + stopped_by : 1 : failed ? 1 : exit_status(0);
}
