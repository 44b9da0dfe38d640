/* examples/bench-model.c - the speed of a model on this machine, and the limit of the machine
 *
 *     bench-model MODEL.gguf [-p 512] [-n 64] [-t 1,2] [-r 3] [--batch 1,2,4,8,16,32,64] [--target T] [--no-mixed]
 *     [--json]
 *
 * For each number of threads it measures prompts of -p tokens, the decoding of -n tokens, and a prompt followed by
 * decoding (not with --no-mixed). Each figure is the median of -r rounds. --batch measures that many sequences decoding
 * together: -n tokens in all, and at least four steps. Decoding is also printed as a share of its limit, which is the
 * read bandwidth divided by the bytes of weights that a token reads. Prompts are also printed as a share of the float32
 * peak. Both limits are measured in the same rounds with the same number of threads. AMX tiles of bfloat16 can exceed
 * the float32 peak, so a share above 1 is not an error. */
#define TINY_WITH_TUNE                      /* TINY_TUNE in the environment */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "bench-model"
#include "options.h"
#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>
#endif

static double now(void) { return (double)tiny_now_ns() * 1e-9; }
static int order(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}
static double median(double *x, int n) { qsort(x, (size_t)n, sizeof *x, order); return x[n / 2]; }

/* ---- the machine */

typedef struct stream { const unsigned char *at; size_t n; volatile uint64_t sink; } stream;

#if defined __x86_64__ && defined __GNUC__
__attribute__((target("avx512f"))) static void fma_512(long n, volatile float *sink)
{
    __m512 c[12];
    const __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(1e-9f);
    int j;
    for (j = 0; j < 12; j++) c[j] = _mm512_set1_ps((float)j);
    while (n-- > 0) {
#define F(k) c[k] = _mm512_fmadd_ps(c[k], a, b);
        F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#undef F
    }
    for (j = 1; j < 12; j++) c[0] = _mm512_add_ps(c[0], c[j]);
    *sink = _mm512_reduce_add_ps(c[0]);
}
__attribute__((target("avx2,fma"))) static void fma_256(long n, volatile float *sink)
{
    __m256 c[12];
    const __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(1e-9f);
    int j;
    for (j = 0; j < 12; j++) c[j] = _mm256_set1_ps((float)j);
    while (n-- > 0) {
#define F(k) c[k] = _mm256_fmadd_ps(c[k], a, b);
        F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#undef F
    }
    for (j = 1; j < 12; j++) c[0] = _mm256_add_ps(c[0], c[j]);
    *sink = _mm256_cvtss_f32(c[0]);
}
#endif
static void fma_plain(long n, volatile float *sink)
{
    float c[32];
    int j;
    for (j = 0; j < 32; j++) c[j] = (float)j;
    while (n-- > 0)
        for (j = 0; j < 32; j++) c[j] = c[j] * 1.0000001f + 1e-9f;
    for (j = 1; j < 32; j++) c[0] += c[j];
    *sink = c[0];
}
/* operations of one step, and the steps themselves */
static double fma_run(long n)
{
    volatile float sink;
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("avx512f")) { fma_512(n, &sink); return 12 * 32; }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) { fma_256(n, &sink); return 12 * 16; }
#endif
    fma_plain(n, &sink);
    return 64;
}

/* Four places at once, each prefetched: one alone does not keep the memory busy. */
static void read_piece(tiny_team *team, void *arg)
{
    enum { PIECE = 1 << 21, QUARTER = PIECE / 4, AHEAD = 1024 };
    stream *s = (stream *)arg;
    tiny_idx i0, i1;
    uint64_t a = 0, b = 0;
    while (tiny_take(team, (tiny_idx)(s->n / PIECE), 1, &i0, &i1))
        for (; i0 < i1; i0++) {
            const unsigned char *from = s->at + (size_t)i0 * PIECE;
            size_t i, k;
            for (i = 0; i < QUARTER; i += 64)
                for (k = 0; k < 4;
                     k++) { /* one number of each cache line would do; with eight the loop is still not the limit */
                    const uint64_t *p = (const uint64_t *)(const void *)(from + k * QUARTER + i);
#ifdef __GNUC__
                    __builtin_prefetch((const unsigned char *)p + AHEAD);
#endif
                    a += p[0] + p[1] + p[2] + p[3];
                    b += p[4] + p[5] + p[6] + p[7];
                }
        }
    if ((a ^ b) == 1) s->sink = a;
}
static void fma_piece(tiny_team *team, void *arg)
{
    const double ops = fma_run(2000000);
    if (team->i == 0) *(double *)arg = ops * 2000000 * team->n;
}

/* kilobytes of a line of /proc/self/status; 0 where there is none */
static double resident(const char *what)
{
    char line[200];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what))) kb = atof(line + strlen(what) + 1);
    if (f) (void)fclose(f);
    return kb;
}

/* ---- the model */

enum { ROUNDS = 31 };
typedef struct figures { double prompt[ROUNDS], decode[ROUNDS], mixed[ROUNDS], read[ROUNDS], peak[ROUNDS]; } figures;
static int32_t tokens[1 << 16];

static tiny_status decode(tllm_state *state, int n, int64_t at, float *out)
{
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < n && !st; i++) st = tllm_forward(state, &tokens[i], 1, at + i, 1, out);
    return st;
}

/* Sequences that decode together: each step reads the weights once for all of them. */
enum { SIZES = 16, SEQUENCES = 256 };
typedef struct batch { int n, steps; tllm_state *state; double rate[ROUNDS]; } batch;
static tllm_item items[SEQUENCES];

static tiny_status batch_steps(batch *b, int steps, tiny_idx vocab, float *out)
{
    tiny_status st = TINY_OK;
    int i, j;
    for (i = 0; i < b->n; i++) tllm_seq_clear(b->state, i);
    for (i = 0; i < steps && !st; i++) {
        for (j = 0; j < b->n; j++) {
            items[j].token = (int32_t)((i + 31 * j) * 7919 % (int)vocab);
            items[j].seq = j;
            items[j].pos = -1;
            items[j].want = 1;
        }
        st = tllm_forward_batch(b->state, items, b->n, out);
    }
    return st;
}
static tiny_status batches(tiny_ctx *ctx, const tllm_model *model, batch *b, int n_batch, int n, int rounds)
{
    tiny_status st = TINY_OK;
    tllm_about about;
    float *out = NULL;
    int i, r;
    tllm_model_about(model, &about);
    for (i = r = 0; i < n_batch; i++) r = b[i].n > r ? b[i].n : r;
    if (n_batch && !(out = (float *)malloc((size_t)r * (size_t)about.n_out * sizeof *out))) return TINY_E_MEMORY;
    for (i = 0; i < n_batch && !st; i++) {
        tllm_state_desc room;
        memset(&room, 0, sizeof room);
        b[i].steps = n / b[i].n > 4 ? n / b[i].n : 4;
        room.n_ctx = b[i].steps;
        room.n_seq = room.n_batch = b[i].n;
        st = tllm_state_open(ctx, model, &room, &b[i].state);
        if (!st) st = batch_steps(&b[i], 1, about.n_vocab, out);
    }
    for (r = 0; r < rounds; r++)
        for (i = 0; i < n_batch && !st; i++) {
            const double t = now();
            st = batch_steps(&b[i], b[i].steps, about.n_vocab, out);
            b[i].rate[r] = b[i].n * b[i].steps / (now() - t);
        }
    for (i = 0; i < n_batch; i++) {
        tllm_state_close(ctx, b[i].state);
        b[i].state = NULL;
    }
    free(out);
    return st;
}

static const char usage[] =
    "bench-model MODEL.gguf [options]\n"
    "  -p N         tokens of a prompt, at most 60000; default: 512\n"
    "  -n N         tokens that are decoded, at most 60000 with those of the prompt; default: 64\n"
    "  -t N,N...    numbers of threads, in turn; default: 1,2\n"
    "  -r N         rounds, at most 31: each figure is the median; default: 3\n"
    "  --batch N,N...   numbers of sequences that decode together: up to 16 numbers, each at most 256\n"
    "  --target T   scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --repack     repack the weights, eight rows interleaved (tllm_model_repack)\n"
    "  --repack-file FILE   the same, and keep the result in this file\n"
    "  --no-mixed   skip the mixed runs of prompts and tokens\n"
    "  --json       print one JSON array instead of the table\n";

/* up to 16 whole numbers separated by commas; how many, or 0 after a message */
static int read_numbers(const char *option_name, const char *s, int most, int *to)
{
    int n = 0;
    const char *at;
    for (at = s; at; n++) {
        char *end = NULL;
        const long v = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (!end || (*end && *end != ',') || v < 1 || v > most || n == SIZES) {
            (void)refused("%s takes up to %d whole numbers, with commas between them, from 1 to %d, not %s",
                          option_name, SIZES, most, s);
            return 0;
        }
        to[n] = (int)v;
        at = *end ? end + 1 : NULL;
    }
    return n;
}

/* a text in quotes; the caller checks that it is UTF-8 */
static void print_json_text(const char *s)
{
    putchar('"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\') printf("\\%c", *s);
        else if ((unsigned char)*s < 32 || *s == 127) printf("\\u%04x", (unsigned)(unsigned char)*s);
        else putchar(*s);
    putchar('"');
}

int main(int argc, char **argv)
{
    static batch size[SIZES];
    const char *path = NULL, *list = NULL, *batches_list = NULL, *repack_file = NULL;
    tiny_target target = TINY_TARGET_AUTO;
    int threads[SIZES] = { 1, 2 }, sizes[SIZES], n_threads = 2, n_size = 0;
    int p = 512, n = 64, rounds = 3, json = 0, no_mixed = 0, repack = 0, a, i_threads, first = 1;
    tiny_status st = TINY_OK;
    const option options[] = {
        THE_WORD("model", &path),      A_WHOLE("-p", &p, 0, 60000),          A_WHOLE("-n", &n, 0, 60000),
        A_TEXT("-t", &list),           A_WHOLE("-r", &rounds, 1, ROUNDS),    A_TEXT("--batch", &batches_list),
        A_TARGET("--target", &target), A_FLAG("--no-mixed", &no_mixed),      A_FLAG("--json", &json),
        A_FLAG("--repack", &repack),   A_TEXT("--repack-file", &repack_file)
    };
    READ_OPTIONS(argc, argv, usage, options);
    if (list && !(n_threads = read_numbers("-t", list, TINY_MAX_THREADS, threads))) return 2;
    if (batches_list && !(n_size = read_numbers("--batch", batches_list, SEQUENCES, sizes))) return 2;
    if (p + n < 1 || p + n > 60000) return refused("the sum of -p and -n must be from 1 to 60000, not %d", p + n);
    if (n_size && n < 1) return wrong("--batch", "-n is 0: nothing is decoded");
    for (a = 0; a < n_size; a++) size[a].n = sizes[a];
    for (i_threads = 0; i_threads < n_threads && !st; i_threads++) {
        tiny_ctx_desc desc;
        tiny_ctx *ctx = NULL;
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        tllm_state *state = NULL;
        tllm_state_desc room;
        tllm_about about;
        tllm_repack_desc keep;
        tllm_repacked repacked;
        figures *f = (figures *)calloc(1, sizeof *f);
        float *out = NULL;
        stream s;
        double load, bytes = 0, file_bytes = 0, rows = 0, ops = 0, t, pp, tg, read, peak;
        char both[32];
        size_t i;
        int r;
        memset(&desc, 0, sizeof desc);
        memset(&room, 0, sizeof room);
        memset(&s, 0, sizeof s);
        desc.n_threads = threads[i_threads];
        desc.log = hear;
        desc.user = &ctx;
        desc.target = target;
        room.n_ctx = p + n + 1;
        room.n_batch = 512;
        st = f ? tiny_ctx_open(&desc, &ctx) : TINY_E_MEMORY;
        t = now();
        if (!st) st = tllm_file_open(ctx, path, &file);
        if (!st) st = tllm_model_open(ctx, file, &model);
        memset(&keep, 0, sizeof keep);
        memset(&repacked, 0, sizeof repacked);
        keep.path = repack_file;
        if (!st && (repack || repack_file)) st = tllm_model_repack(ctx, model, &keep, &repacked);
        if (!st && repack_file && repacked.n && !repacked.from_file && !repacked.written) say(tiny_ctx_message(ctx));
        if (!st) st = tllm_state_open(ctx, model, &room, &state);
        load = now() - t;
        if (!st) {
            tllm_model_about(model, &about);
            out = (float *)malloc((size_t)about.n_out * sizeof *out);
            s.n = (size_t)256 << 20;
            s.at = (const unsigned char *)malloc(s.n);
            if (!out || !s.at) st = TINY_E_MEMORY;
            else memset((void *)(uintptr_t)s.at, 1, s.n);
            for (i = 0; i < (size_t)(p + n); i++) tokens[i] = (int32_t)(i * 7919 % (size_t)about.n_vocab);
            for (i = 0; i < tllm_gguf_n_tensors(file); i++) {
                const tllm_gguf_tensor *w = tllm_gguf_tensor_at(file, i);
                /* looked up, or multiplied for the last token only: no work for the prompt */
                if (tllm_text_is(w->name, "token_embd.weight") || tllm_text_is(w->name, "output.weight"))
                    rows += (double)w->dim[0] * (double)w->dim[1];
                file_bytes += (double)w->bytes;     /* next to an output matrix the embedding is read by the row */
                if (!tllm_text_is(w->name, "token_embd.weight") || !tllm_gguf_tensor_find(file, "output.weight"))
                    bytes += (double)w->bytes;
            }
        }
        if (!st) st = decode(state, 2, 0, out);        /* loads pages and starts threads */
        for (r = 0; r < rounds && !st; r++) {
            t = now();
            st = tiny_parallel(ctx, 0, 0, 0, read_piece, &s);
            f->read[r] = (double)s.n / (now() - t);
            t = now();
            if (!st) st = tiny_parallel(ctx, 0, 0, 0, fma_piece, &ops);
            f->peak[r] = ops / (now() - t);
            tllm_state_clear(state);
            t = now();
            if (!st && p) st = tllm_forward(state, tokens, p, 0, 1, out);
            f->prompt[r] = p / (now() - t);
            tllm_state_clear(state);
            t = now();
            if (!st && n) st = decode(state, n, 0, out);
            f->decode[r] = n / (now() - t);
            if (no_mixed) continue;
            tllm_state_clear(state);
            t = now();
            if (!st && p) st = tllm_forward(state, tokens, p, 0, 1, out);
            if (!st && n) st = decode(state, n, p, out);
            f->mixed[r] = (p + n) / (now() - t);
        }
        if (!st) st = batches(ctx, model, size, n_size, n, rounds);
        if (st && (ctx || !f)) say(ctx && *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
        if (!st) {
            pp = median(f->prompt, rounds);
            tg = median(f->decode, rounds);
            (void)snprintf(both, sizeof both, "%.1f", median(f->mixed, rounds));
            read = median(f->read, rounds);
            peak = median(f->peak, rounds);
            if (json) {
                printf("%s{\"model\":", first ? "[" : ",\n");
                print_json_text(path);
                printf(",\"target\":\"%s\",\"threads\":%d,\"prompt_tokens\":%d,\"decode_tokens\":%d,\"rounds\":%d,"
                       "\"repacked_bytes\":%.0f,\"prompt_per_s\":%.2f,\"decode_per_s\":%.2f,"
                       "\"mixed_per_s\":%s,\"read_GB_per_s\":%.2f,\"f32_GFLOP_per_s\":%.1f,\"weight_bytes_per_token\":%"
                       ".0f,\"decode_share_of_read\":%.3f,"
                       "\"prompt_share_of_f32_peak\":%.3f,\"load_s\":%.4f,\"resident_MB\":%.1f,\"batches\":[",
                       tiny_target_name(tiny_ctx_target(ctx)), desc.n_threads, p, n, rounds, (double)repacked.bytes, pp,
                       tg, no_mixed ? "null" : both, read / 1e9, peak / 1e9, bytes, tg * bytes / read,
                       pp * 2.0 * (about.n_params - rows) / peak, load, resident("VmRSS") / 1024 - 256);
            } else {
                if (first)
                    printf("%s: %.0f M parameters, %.1f MB of weights, %.1f MB read for a token\n%-7s %7s %10s %6s "
                           "%10s %6s %10s %9s %10s %8s %9s\n",
                           path, about.n_params / 1e6, file_bytes / 1e6, bytes / 1e6, "target", "threads", "prompt/s",
                           "share", "decode/s", "share", "mixed/s", "read GB/s", "GFLOP/s", "load ms", "memory MB");
                if (first && repacked.n)
                    printf("repacked%s: %.1f MB of %d matrices, %.1f MB in blocks stay\n",
                           repacked.from_file ? " before" : "", (double)repacked.bytes / 1e6, (int)repacked.n,
                           (double)repacked.left / 1e6);
                printf("%-7s %7d %10.1f %6.2f %10.2f %6.2f %10s %9.2f %10.1f %8.1f %9.1f\n",
                       tiny_target_name(tiny_ctx_target(ctx)), desc.n_threads, pp,
                       pp * 2.0 * (about.n_params - rows) / peak, tg, tg * bytes / read, no_mixed ? "-" : both,
                       read / 1e9, peak / 1e9, load * 1e3, resident("VmRSS") / 1024 - 256);
            }
            for (a = 0; a < n_size; a++) {
                const double rate = median(size[a].rate, rounds);
                if (json) printf("%s{\"sequences\":%d,\"per_s\":%.2f}", a ? "," : "", size[a].n, rate);
                else
                    printf("%7d %s %d together: %.2f tokens/s, %.3f ms a token, %.2f times as fast as one by one\n",
                           desc.n_threads, desc.n_threads == 1 ? "thread, " : "threads,", size[a].n, rate, 1e3 / rate,
                           rate / tg);
            }
            if (json) printf("]}");
            (void)fflush(stdout);
            first = 0;
        }
        if (ctx) {
            tllm_state_close(ctx, state);
            tllm_model_close(ctx, model);
            tllm_gguf_close(ctx, file);
        }
        tiny_ctx_close(ctx);
        free((void *)(uintptr_t)s.at);
        free(out);
        free(f);
    }
    if (json && !first) puts("]");
    return exit_status(st != TINY_OK);
}
