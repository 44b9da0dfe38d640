/* examples/quantize.c - a model file in fewer bits
 *
 *     quantize IN OUT.gguf TYPE [--imatrix FILE] [--pure] [--tensor-type REGEX=TYPE] [--threads N]
 *     quantize IN OUT.gguf TYPE --gptq --text stories.txt
 *     quantize IN OUT.gguf TYPE --awq --text stories.txt
 *     quantize IN OUT.gguf Q8_0 --smooth 0.5 --text stories.txt
 *     quantize --blocks TYPE [--imatrix FILE.f32] < floats.f32 > q.bin
 *     quantize --unblocks TYPE < q.bin > floats.f32
 *
 * TYPE is a format (Q8_0, Q6_K, IQ4_XS ...) or a mixture of them (Q4_K_M, Q3_K_L ...): a mixture gives more bits to the
 * tensors that suffer most. Norms, biases and other small tensors stay as they are. The new file grows beside its place
 * and takes it when it is whole. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "quantize"
#include "options.h"
#include <inttypes.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

static const char usage[] = "quantize IN OUT.gguf TYPE [options]        writes IN, a GGUF file or a .bin of llama2.c, "
                            "with its matrices as TYPE\n"
                            "quantize --blocks TYPE                     raw little-endian float32 on standard input to "
                            "blocks on standard output\n"
                            "quantize --unblocks TYPE                   and back\n"
                            "  --imatrix FILE            importance of the columns of each matrix (.gguf or the older "
                            ".dat); with --blocks raw\n"
                            "                            float32, one for each value of a row, and the floats are "
                            "taken as rows of that length\n"
                            "  --pure                    TYPE everywhere, no mixture\n"
                            "  --tensor-type REGEX=TYPE  for the tensors whose name contains a match; may be given "
                            "often, the first that fits counts\n"
                            "  --gptq                    the model reads --text, and codes are chosen so that the "
                            "outputs of each matrix change least (GPTQ);\n"
                            "                            for Q8_0, Q4_0 to Q5_1 and Q2_K to Q6_K, other types as "
                            "without it; --imatrix counts where this makes nothing\n"
                            "  --awq                     the model reads --text, and inputs that count most get finer "
                            "steps: their weights are multiplied, what comes before\n"
                            "                            them divided by the same, and ranges of weights are cut where "
                            "outputs gain by it (AWQ); with --gptq behind it no range is cut\n"
                            "  --smooth ALPHA            the model reads --text, and outliers of the inputs move into "
                            "the weights, 0 (none) to 1 (SmoothQuant): for Q8_0, whose\n"
                            "                            products round the inputs too; with --gptq behind it as well\n"
                            "  --text FILE               what it reads: text as the model will see it\n"
                            "  --tokens N                at most so many of them; 32768 without this\n"
                            "  --each-layer              reads it once for each layer, as the layers before were "
                            "rounded; without this as seldom as 1 GB has room\n"
                            "  --threads N               default: one per processor\n"
                            "  --list                    the types\n";

#define T(name) TLLM_FORMAT_##name

static int has(tllm_text t, const char *part)
{
    const size_t n = strlen(part);
    size_t i;
    for (i = 0; i + n <= t.n; i++)
        if (!memcmp(t.at + i, part, n)) return 1;
    return 0;
}

/* the name of a tensor on a terminal; good until the next one */
static const char *shown(tllm_text name)
{
    static char text[201];
    (void)tiny_plain(text, sizeof text, name.at, name.n);
    return text;
}

/* ---- patterns: . [a-z] [^a-z] ( | ) * + ? ^ $ and \ before any of them ------------------------------------------- */

/* A pattern becomes a small program, and all places of it that a text may have led to are kept at once (K. Thompson,
 * "Regular expression search algorithm", CACM 11 (6), 1968): the time is at most its length times that of the text,
 * whatever the pattern. */
enum { STEPS = 4096, DEPTH = 200, PATTERNS = 64 };      /* of a program; of brackets within brackets */
enum { CHARACTER, ANY, SET, START, END, EITHER, GO };
/* EITHER: on at a or b steps from here, GO: at a; SET: from a to b of the pattern; CHARACTER: a */
typedef struct step { int what, a, b; } step;
typedef struct program { step at[STEPS]; int n; const char *re, *end, *wrong; } program;

/* in front of what stands from at on: jumps within that stay right, because they count from where they stand */
static void put_step(program *p, int at, int what, int a, int b)
{
    if (p->n == STEPS && !p->wrong) p->wrong = "it is too long";
    if (p->wrong) return;
    memmove(p->at + at + 1, p->at + at, (size_t)(p->n++ - at) * sizeof *p->at);
    p->at[at].what = what;
    p->at[at].a = a;
    p->at[at].b = b;
}

static const char *put_alternatives(program *p, const char *re, int depth);

/* a character, a set or a bracket; what stands behind it */
static const char *put_piece(program *p, const char *re, int depth)
{
    const char *const first = re;
    if (*re == '(') {
        if (depth == DEPTH) p->wrong = "its brackets stand too deep within each other";
        else re = put_alternatives(p, re + 1, depth + 1);
        if (re == p->end && !p->wrong) p->wrong = "a bracket is not closed";
    } else if (*re == '[') {
        re += re + 1 < p->end && re[1] == '^' ? 2 : 1;
        for (re += re < p->end; re < p->end && *re != ']'; re++) {}     /* the first one may be a ] */
        if (re == p->end) p->wrong = "a bracket is not closed";
        put_step(p, p->n, SET, (int)(first + 1 - p->re), (int)(re - p->re));
    } else {
        if (*re == '\\' && ++re == p->end) p->wrong = "nothing stands behind its last \\";
        put_step(p, p->n,
                 re > first   ? CHARACTER
                 : *re == '.' ? ANY
                 : *re == '^' ? START
                 : *re == '$' ? END
                              : CHARACTER,
                 (unsigned char)*re, 0);
    }
    return re + 1;
}

static void put_repeat(program *p, int piece, char how)
{
    const int n = p->n - piece;
    if (how == '+') put_step(p, p->n, EITHER, -n, 1);
    else put_step(p, piece, EITHER, 1, n + (how == '*' ? 2 : 1));
    if (how == '*') put_step(p, p->n, GO, -n - 1, 0);
}

/* to the bracket that closes, or the end of the pattern: where that is */
static const char *put_alternatives(program *p, const char *re, int depth)
{
    const int first = p->n;
    int jump = -1, piece = -1;              /* piece: what * + ? would be about; -1: nothing */
    while (re < p->end && !p->wrong && (*re != ')' || !depth)) {
        if (*re == ')') p->wrong = "a bracket is closed that was never opened";
        else if (*re == '*' || *re == '+' || *re == '?') {
            if (piece < 0) p->wrong = "nothing stands before * + or ?";
            else put_repeat(p, piece, *re++);
            /* as few as will do: whether there is a match does not change by that */
            if (re < p->end && *re == '?') re++;
            piece = -1;
        } else if (*re == '|') {            /* what stands here so far is one side, what follows the other one */
            if (jump >= 0) p->at[jump].a = p->n - jump;
            put_step(p, first, EITHER, 1, p->n - first + 2);
            jump = p->n;
            put_step(p, jump, GO, 1, 0);
            piece = -1;
            re++;
        } else {
            piece = *re == '^' || *re == '$' ? -1 : p->n;
            re = put_piece(p, re, depth);
        }
    }
    if (jump >= 0 && !p->wrong) p->at[jump].a = p->n - jump;
    return re;
}

/* NULL, or what is wrong with the pattern from re to end */
static const char *compile(program *p, const char *re, const char *end)
{
    p->n = 0;
    p->re = re;
    p->end = end;
    p->wrong = NULL;
    (void)put_alternatives(p, re, 0);
    return p->wrong;
}

static int takes(const program *p, const step *s, unsigned char c)
{
    const char *at = p->re + s->a, *const end = p->re + s->b;
    const int no = s->what == SET && *at == '^';
    int in = 0;
    if (s->what != SET) return s->what == ANY || s->a == c;
    for (at += no; at < end; at++) {
        if (at + 2 < end && at[1] == '-') {
            in |= c >= (unsigned char)at[0] && c <= (unsigned char)at[2];
            at += 2;
        } else in |= c == (unsigned char)*at;
    }
    return in != no;
}

/* the places that take a character, from one on; each once: seen. 1: the end of the program is one of the places. */
typedef struct places { int list[STEPS], n; size_t seen[STEPS + 1]; } places;
static int reach(const program *p, int from, size_t at, size_t n_text, places *to)
{
    static int todo[STEPS + 1];
    int k = 0, i, next[2];
    if (to->seen[from] == at + 1) return 0;
    to->seen[from] = at + 1;
    todo[k++] = from;
    while (k) {
        const int here = todo[--k];
        const step *s = &p->at[here];
        if (here == p->n) return 1;
        next[0] = next[1] = -1;
        if (s->what == EITHER || s->what == GO) next[0] = here + s->a;
        if (s->what == EITHER) next[1] = here + s->b;
        if ((s->what == START && at == 0) || (s->what == END && at == n_text)) next[0] = here + 1;
        if (s->what <= SET) to->list[to->n++] = here;
        for (i = 0; i < 2; i++)
            if (next[i] >= 0 && to->seen[next[i]] != at + 1) {
                to->seen[next[i]] = at + 1;
                todo[k++] = next[i];
            }
    }
    return 0;
}

/* whether it fits somewhere in the text */
static int matches(const program *p, tllm_text t)
{
    static places both[2];
    size_t at;
    int k;
    for (k = 0; k < 2; k++) memset(both[k].seen, 0, ((size_t)p->n + 1) * sizeof *both[k].seen);
    both[0].n = 0;
    for (at = 0; at <= t.n; at++) {
        places *now = &both[at % 2], *then = &both[(at + 1) % 2];
        if (reach(p, 0, at, t.n, now)) return 1;
        then->n = 0;
        for (k = 0; k < now->n && at < t.n; k++)
            if (takes(p, &p->at[now->list[k]], (unsigned char)t.at[at]) &&
                reach(p, now->list[k] + 1, at + 1, t.n, then))
                return 1;
    }
    return 0;
}

/* ---- importance -------------------------------------------------------------------------------------------------- */

typedef struct importance {
    tllm_gguf *gguf;
    tiny_file file;                         /* the older form: entries of name, calls, values */
} importance;

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int importance_open(tiny_ctx *ctx, const char *path, importance *m)
{
    size_t left;
    uint32_t n, i, len;
    const unsigned char *p;
    if (tiny_file_open(ctx, path, &m->file)) return 0;
    if (m->file.n_bytes >= 4 && !memcmp(m->file.bytes, "GGUF", 4)) {
        tiny_file_close(ctx, &m->file);
        return !tllm_gguf_open(ctx, path, &m->gguf);
    }
    p = m->file.bytes;
    left = m->file.n_bytes;
    if (left < 4) left = 0;
    /* walked once here, so that later walks need no checks */
    for (i = 0, n = left ? u32_at(p) : 1, left -= left ? 4 : 0, p += 4; i < n; i++) {
        if (left < 12 || (len = u32_at(p)) > left - 12 || u32_at(p + 8 + len) > (left - 12 - len) / 4) {
            fprintf(stderr, "quantize: %s: entry %" PRIu32 " of %" PRIu32 " reaches past the end of the file\n", path,
                    i, n);
            return 0;
        }
        left -= 12 + len + 4 * (size_t)u32_at(p + 8 + len);
        p += 12 + len + 4 * (size_t)u32_at(p + 8 + len);
    }
    return 1;
}

/* n_mat vectors of n values into out, which may be NULL to ask; 0: none for this tensor, -1: of another size */
static int importance_of(const importance *m, tllm_text name, size_t n, size_t n_mat, float *out)
{
    const tllm_format *f32 = tllm_format_of(T(F32));
    size_t i, k;
    if (m->gguf) {
        char key[300];
        const tllm_gguf_tensor *sum, *count;
        if (name.n > 256) return 0;
        memcpy(key, name.at, name.n);
        memcpy(key + name.n, ".in_sum2", 9);
        sum = tllm_gguf_tensor_find(m->gguf, key);
        memcpy(key + name.n, ".counts", 8);
        count = tllm_gguf_tensor_find(m->gguf, key);
        if (!sum || !count) return 0;
        if (sum->type != T(F32) || count->type != T(F32) || (sum->bytes / 4 != n * n_mat && sum->bytes / 4 != n) ||
            count->bytes / 4 * n != sum->bytes / 4)
            return -1;
        for (k = 0; out && k < n_mat; k++) {
            const size_t from = sum->bytes / 4 == n ? 0 : k;
            float calls;
            f32->unpack(count->data + 4 * from, &calls, 1);
            f32->unpack(sum->data + 4 * n * from, out + n * k, n);
            for (i = 0; i < n; i++) out[n * k + i] = calls > 0.0f ? out[n * k + i] / calls : 1.0f;
        }
        return 1;
    }
    if (m->file.bytes) {
        const unsigned char *p = m->file.bytes;
        uint32_t e, entries = u32_at(p);
        for (e = 0, p += 4; e < entries; e++) {
            const uint32_t len = u32_at(p);
            const unsigned char *values = p + 12 + len;
            const size_t n_values = u32_at(p + 8 + len);
            if (len == name.n && !memcmp(p + 4, name.at, len)) {
                if (n_values != n * n_mat && n_values != n) return -1;
                for (k = 0; out && k < n_mat; k++)
                    f32->unpack(values + (n_values == n ? 0 : 4 * n * k), out + n * k, n);
                return 1;                   /* the number of calls is a common factor: no matter */
            }
            p = values + 4 * n_values;
        }
    }
    return 0;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* made: its blocks, where GPTQ made them */
typedef struct job { const tllm_gguf_tensor *t; const tllm_format *from, *to; void *made; } job;

/* Rows are packed by all threads, a piece at a time, and written in order. */
static tiny_status write_tensor(tiny_ctx *ctx, tllm_writer *w, const job *j, const float *weights, int n_threads)
{
    const size_t n = (size_t)j->t->dim[0];
    const size_t in_row = tllm_format_bytes(j->from, n), out_row = tllm_format_bytes(j->to, n);
    const size_t n_rows = j->t->bytes / in_row, row_each = (size_t)j->t->dim[1];
    size_t piece = ((size_t)1 << 20) / n + 1, row;
    float *x;
    unsigned char *q;
    tiny_status st = TINY_OK;
    if (piece > n_rows) piece = n_rows;
    x = (float *)tiny_alloc(ctx, piece * n * sizeof *x);
    q = (unsigned char *)tiny_alloc(ctx, piece * out_row);
    if (!x || !q) st = TINY_E_MEMORY;
    for (row = 0; !st && row < n_rows; row += piece) {
        const ptrdiff_t now = (ptrdiff_t)(row + piece <= n_rows ? piece : n_rows - row);
        ptrdiff_t i;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) \
    num_threads(n_threads) if ((size_t)now * n >= 65536) /* a small one is done before helpers are awake */
#endif
        for (i = 0; i < now; i++) {
            const float *importance_row = weights ? weights + n * ((row + (size_t)i) / row_each) : NULL;
            j->from->unpack(j->t->data + (row + (size_t)i) * in_row, x + (size_t)i * n, n);
            j->to->pack(x + (size_t)i * n, q + (size_t)i * out_row, n, importance_row);
        }
        st = tllm_writer_data(ctx, w, q, (size_t)now * out_row);
    }
    (void)n_threads;
    tiny_free(ctx, q);
    tiny_free(ctx, x);
    return st;
}

typedef struct request {
    const char *in, *out, *imatrix, *pattern_text[PATTERNS];
    program pattern[PATTERNS];
    const tllm_format *pattern_type[PATTERNS];
    const char *text;
    int n_patterns, pure, n_threads, gptq, awq, n_tokens, each_layer;
    double smooth;                          /* below 0: not at all */
    const tllm_mixture *mix;
    const tllm_format *pure_type;
} request;

/* ---- the model reads a text: codes (GPTQ) or factors (AWQ, SmoothQuant) are chosen by what its matrices are
 * multiplied with  */

static int telling = -1;                    /* the percentage that stands in the line; -1: none does */
static void tell_progress(void *user, const char *what, double done)
{
    static const char *const names[][2] = { { "gptq", "GPTQ" }, { "awq", "AWQ" }, { "smooth", "SmoothQuant" } };
    const int percent = (int)(100.0 * done);
    size_t i;
    (void)user;
    for (i = 0; i < sizeof names / sizeof names[0] && strcmp(what, names[i][0]); i++) {}
    if (i == sizeof names / sizeof names[0] || percent == telling || !is_shown()) return;
    telling = percent;
    fprintf(stderr, "\r%s %3d %%", names[i][1], percent);
    (void)fflush(stderr);
}

/* tokens of a window: those that the model was made for, 512 at most; a window that is longer would be cut, and its
 * parts begin with no BOS */
static tiny_status window_of(tiny_ctx *ctx, const tllm_gguf *g, tiny_idx *window)
{
    tllm_model *model = NULL;
    tllm_about about;
    const tiny_status st = tllm_model_open(ctx, g, &model);
    if (st) return st;
    tllm_model_about(model, &about);
    *window = about.n_context < 512 ? about.n_context : 512;
    tllm_model_close(ctx, model);
    return TINY_OK;
}

/* what the model reads: at most so many tokens, each window beginning as a text does */
static tiny_status tokens_of_text(tiny_ctx *ctx, const request *r, const tllm_gguf *g, tiny_idx window, tllm_tokens *t)
{
    tllm_vocab *vocab = NULL;
    size_t i, n_text = 0;
    char *text =
        read_text(r->text, (size_t)r->n_tokens < MOST_TEXT / 64 ? (size_t)r->n_tokens * 64 : MOST_TEXT, 1, &n_text);
    tiny_status st = text ? TINY_OK : TINY_E_IO;
    if (!st && !n_text) {
        fprintf(stderr, "quantize: %s: there is no text in it\n", r->text);
        st = TINY_E_ARGUMENT;
    }
    if (!st) st = tllm_vocab_open(ctx, g, &vocab);
    if (!st) st = tllm_encode(ctx, vocab, text, n_text, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, t);
    if (!st && t->n > (size_t)r->n_tokens) t->n = (size_t)r->n_tokens;
    for (i = (size_t)window; !st && tllm_vocab_adds_bos(vocab) && i < t->n; i += (size_t)window)
        t->id[i] = tllm_vocab_special(vocab, TLLM_BOS);
    tllm_vocab_close(ctx, vocab);
    free(text);
    return st;
}

static int gptq(tiny_ctx *ctx, const request *r, const tllm_gguf *g, job *jobs, size_t n)
{
    tllm_gptq_tensor *list = (tllm_gptq_tensor *)tiny_alloc(ctx, (n ? n : 1) * sizeof *list);
    tllm_gptq_model_desc d;
    tllm_tokens t;
    size_t i, k = 0, n_list = 0, unseen = 0, rounded = 0, thin = 0;
    tiny_status st = list ? TINY_OK : TINY_E_MEMORY;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    d.each_layer = r->each_layer;
    for (i = 0; !st && i < n; i++) {
        const job *j = &jobs[i];
        if (j->from == j->to || !tllm_gptq_has(j->to->id)) continue;
        memset(&list[n_list], 0, sizeof list[n_list]);
        list[n_list].t = j->t;
        list[n_list].format = j->to->id;
        /* if it gives the logits too: what is good for them may be bad for its rows */
        list[n_list].damp = has(j->t->name, "token_embd") ? 1.0f : 0.0f;
        list[n_list].to = tiny_alloc(ctx, j->t->bytes / tllm_format_bytes(j->from, j->t->dim[0]) *
                                              tllm_format_bytes(j->to, j->t->dim[0]));
        if (!list[n_list++].to) st = TINY_E_MEMORY;
    }
    if (!st) st = window_of(ctx, g, &d.window);
    if (!st) st = tokens_of_text(ctx, r, g, d.window, &t);
    if (!st && n_list) st = tllm_gptq_model(ctx, g, &d, t.id, (tiny_idx)t.n, list, n_list);
    for (i = 0; k < n_list; i++) {          /* to the jobs, in their order */
        if (jobs[i].t != list[k].t) continue;
        if (!st && list[k].found) {
            jobs[i].made = list[k].to;
            rounded += list[k].about.rounded != 0;
            thin += list[k].tokens < list[k].t->dim[0];
        } else {
            tiny_free(ctx, list[k].to);
            unseen++;
        }
        k++;
    }
    if (st && telling >= 0) fprintf(stderr, "\n");
    if (!st)
        fprintf(stderr, "%sGPTQ over %lu tokens: %lu matrices; %lu more had no inputs that are known and are rounded\n",
                telling >= 0 ? "\r" : "", (unsigned long)t.n, (unsigned long)(n_list - unseen), (unsigned long)unseen);
    if (!st && r->imatrix && n_list > unseen)
        fprintf(stderr, "quantize: --imatrix does not count for those %lu, which have the inputs of the text instead\n",
                (unsigned long)(n_list - unseen));
    if (!st && rounded)
        fprintf(stderr, "%lu of them had inputs that depend on each other so much that they were rounded, too\n",
                (unsigned long)rounded);
    if (!st && thin)
        fprintf(stderr, "%lu of them saw fewer tokens than they have inputs: a longer text would do them good\n",
                (unsigned long)thin);
    tllm_tokens_free(ctx, &t);
    tiny_free(ctx, list);
    return !st;
}

static int is_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

/* The model with its folds scaled, beside OUT while it is worked with; jobs are then of that one. 0: it failed, and has
 * said why or the context will. */
static int scale(tiny_ctx *ctx, const request *r, const tllm_gguf *g, const char *path, job *jobs, size_t n,
                 tllm_gguf **folded)
{
    tllm_scaled_tensor *list = (tllm_scaled_tensor *)tiny_alloc(ctx, (n ? n : 1) * sizeof *list);
    tllm_scaled_desc d;
    tllm_scaled *s = NULL;
    tllm_writer *w = NULL;
    tllm_writer_desc wd;
    tllm_tokens t;
    size_t i, n_list = 0;
    tiny_status st = list ? TINY_OK : TINY_E_MEMORY;
    memset(&d, 0, sizeof d);
    memset(&wd, 0, sizeof wd);
    memset(&t, 0, sizeof t);
    d.way = r->awq ? TLLM_SCALE_AWQ : TLLM_SCALE_SMOOTH;
    d.alpha = r->awq ? 0.0f : (float)r->smooth;
    d.no_clip = r->gptq;
    for (i = 0; !st && i < n; i++) {
        const unsigned flags = jobs[i].to->flags;
        if (!tllm_mixture_takes(jobs[i].t) ||
            (r->awq && flags & (TLLM_FORMAT_PLAIN | TLLM_FORMAT_ACTIVATIONS | TLLM_FORMAT_WANTS_IMPORTANCE)))
            continue;
        list[n_list].t = jobs[i].t;
        list[n_list++].format = jobs[i].to->id;
    }
    if (!st && !n_list) {
        fprintf(stderr, "quantize: %s: no matrix is to be rounded to a format that this could help\n", r->in);
        tiny_free(ctx, list);
        return 0;
    }
    if (!st) st = window_of(ctx, g, &d.window);
    if (!st) st = tokens_of_text(ctx, r, g, d.window, &t);
    if (!st) st = tllm_scaled_open(ctx, g, &d, t.id, (tiny_idx)t.n, list, n_list, &s);
    if (telling >= 0) fprintf(stderr, "\r");
    if (!st) {
        const tllm_scaled_about a = tllm_scaled_what(s);
        if (r->awq)
            fprintf(stderr, "AWQ over %lu tokens: %lu folds, of a mean power of %.2f; the loss is %.3f of that without",
                    (unsigned long)t.n, (unsigned long)a.folds, a.alpha, a.plain > 0 ? a.loss / a.plain : 1.0);
        else fprintf(stderr, "SmoothQuant over %lu tokens: %lu folds", (unsigned long)t.n, (unsigned long)a.folds);
        if (a.groups) fprintf(stderr, "; %lu of %lu ranges cut", (unsigned long)a.cut, (unsigned long)a.groups);
        if (a.unknown) fprintf(stderr, "; %lu more read inputs that are not known", (unsigned long)a.unknown);
        fprintf(stderr, "\n");
        wd.path = path;
        st = tllm_writer_open(ctx, &wd, &w);
    } else if (telling >= 0) fprintf(stderr, "\n");
    telling = -1;
    if (!st) st = tllm_scaled_put(ctx, s, w);
    if (!st) st = tllm_writer_finish(ctx, w);
    tllm_writer_close(ctx, w);
    if (!st) st = tllm_gguf_open(ctx, path, folded);
    for (i = 0; !st && i < n; i++) {        /* the same tensors in the same order */
        jobs[i].t = tllm_gguf_tensor_at(*folded, i);
        jobs[i].from = tllm_format_of(jobs[i].t->type);
    }
    tllm_scaled_close(ctx, s);
    tllm_tokens_free(ctx, &t);
    tiny_free(ctx, list);
    return !st;
}

static int quantize_file(tiny_ctx *ctx, const request *r)
{
    const int scaled = r->awq || r->smooth >= 0.0;
    char *beside = NULL;                    /* where the scaled model lies meanwhile */
    tllm_gguf *folded = NULL;
    tllm_gguf *g = NULL;
    tllm_writer *w = NULL;
    tllm_writer_desc d;
    importance m;
    job *jobs = NULL;
    char key[128];
    tllm_text arch;
    uint64_t blocks = 0;
    struct { const tllm_format *wanted, *to; const tllm_gguf_tensor *first; unsigned long count; } notes[32];
    double before = 0.0, after = 0.0;
    size_t i, n, n_jobs = 0, n_notes = 0, n_used = 0, n_asked = 0, n_there = 0;
    unsigned long fitted[PATTERNS] = { 0 };
    int warned = 0, k, tied, first, ok = 0;
    tiny_status st;
    memset(&m, 0, sizeof m);
    memset(&d, 0, sizeof d);
    if (tllm_file_open(ctx, r->in, &g)) goto sentence;
    if (tllm_file_kind(g) == TLLM_FILE_SAFETENSORS) {
        fprintf(stderr,
                "quantize: %s: a safetensors file has no keys that tell how its model is built; a GGUF file or a .bin "
                "of llama2.c is wanted\n",
                r->in);
        goto out;
    }
    if (r->imatrix && !importance_open(ctx, r->imatrix, &m)) goto sentence;
    if (tllm_meta_text(tllm_gguf_find(g, "general.architecture"), 0, &arch) && arch.n < 100) {
        (void)snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n, arch.at);
        if (!tllm_meta_u64(tllm_gguf_find(g, key), 0, &blocks) || blocks > 100000) blocks = 0;
    }
    n = tllm_gguf_n_tensors(g);
    tied = !tllm_gguf_tensor_find(g, "output.weight");
    jobs = (job *)tiny_alloc(ctx, (n ? n : 1) * sizeof *jobs);
    if (!jobs) goto sentence;
    for (i = 0; i < n; i++, n_jobs++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const tllm_format *to;
        jobs[i].t = t;
        jobs[i].made = NULL;
        jobs[i].from = jobs[i].to = tllm_format_of(t->type);
        if (!jobs[i].from) {
            fprintf(stderr, "quantize: %s: tensor %s has type %s, which cannot be read\n", r->in, shown(t->name),
                    tllm_type_name(t->type));
            goto out;
        }
        if (!tllm_mixture_takes(t)) {       /* norms that are divided keep all their digits */
            if (scaled && (jobs[i].from->id == T(F16) || jobs[i].from->id == T(BF16)))
                jobs[i].to = tllm_format_of(T(F32));
            continue;
        }
        to = r->pure_type ? r->pure_type : tllm_mixture_format(r->mix, t, (int)blocks, tied);
        for (k = 0, first = 1; k < r->n_patterns; k++) {
            if (!matches(&r->pattern[k], t->name)) continue;
            if (first) to = r->pattern_type[k];
            first = 0;
            fitted[k]++;
        }
        if (t->dim[0] % (unsigned)to->values) {
            const tllm_format *wanted = to;
            size_t s;
            to = tllm_format_for_rows(wanted, t->dim[0]);
            for (s = 0; s < n_notes && (notes[s].wanted != wanted || notes[s].to != to); s++) {}
            if (s == n_notes && s < sizeof notes / sizeof notes[0]) {
                notes[s].wanted = wanted;
                notes[s].to = to;
                notes[s].first = t;
                notes[s].count = 0;
                n_notes++;
            }
            if (s < n_notes) notes[s].count++;
        }
        if ((to->flags & TLLM_FORMAT_WANTS_IMPORTANCE) && !r->imatrix && !warned++)
            fprintf(stderr, "%s: %s without --imatrix loses much\n", shown(t->name), to->name);
        jobs[i].to = to;
    }
    for (i = 0; i < n_notes; i++)
        fprintf(stderr,
                "%s instead of %s for %lu tensors, whose rows are no whole blocks of %d: %s (rows of %" PRIu64 ")%s\n",
                notes[i].to->name, notes[i].wanted->name, notes[i].count, notes[i].wanted->values,
                shown(notes[i].first->name), notes[i].first->dim[0], notes[i].count > 1 ? " ..." : "");
    for (k = 0; k < r->n_patterns; k++)
        if (!fitted[k]) fprintf(stderr, "quantize: --tensor-type %s fits none of the matrices\n", r->pattern_text[k]);
    /* said before hours of work: an importance of another model, or no importance at all */
    for (i = 0; r->imatrix && i < n; i++) {
        const tllm_gguf_tensor *t = jobs[i].t;
        if (jobs[i].from == jobs[i].to || !(jobs[i].to->flags & TLLM_FORMAT_IMPORTANCE)) continue;
        n_asked++;
        n_there += importance_of(&m, t->name, (size_t)t->dim[0],
                                 t->bytes / tllm_format_bytes(jobs[i].from, t->dim[0]) / (size_t)t->dim[1], NULL) != 0;
    }
    if (n_asked && !n_there) {
        fprintf(stderr, "quantize: %s: it has the importance of none of the %lu matrices of %s that want one\n",
                r->imatrix, (unsigned long)n_asked, r->in);
        goto out;
    }
    d.path = r->out;
    if (tllm_writer_open(ctx, &d, &w)) goto sentence;
    st = TINY_OK;
    for (i = 0; !st && i < tllm_gguf_n_meta(g); i++) st = tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i));
    if (!st && r->mix) st = tllm_writer_put_u32(ctx, w, "general.file_type", (uint32_t)r->mix->file_type);
    if (!st) st = tllm_writer_put_u32(ctx, w, "general.quantization_version", 2);
    if (!st && r->imatrix) st = tllm_writer_put_text(ctx, w, "quantize.imatrix.file", r->imatrix);
    for (i = 0; !st && i < n; i++)
        st = tllm_writer_put_tensor(ctx, w, jobs[i].t->name, jobs[i].to->id, jobs[i].t->rank, jobs[i].t->dim, NULL);
    /* begins OUT.part: a place that cannot be written is told before hours of work */
    if (!st && (r->gptq || scaled)) st = tllm_writer_data(ctx, w, NULL, 0);
    if (!st && scaled) {
        beside = (char *)tiny_alloc(ctx, strlen(r->out) + 10);
        if (!beside) goto sentence;
        (void)sprintf(beside, "%s.scaled", r->out);
        if (is_file(beside)) {              /* of somebody else, or of a run that was ended */
            fprintf(stderr, "quantize: %s is in the way: it would be written over\n", beside);
            tiny_free(ctx, beside);
            beside = NULL;
            goto out;
        }
        if (!scale(ctx, r, g, beside, jobs, n, &folded)) goto sentence;
    }
    if (!st && r->gptq && !gptq(ctx, r, folded ? folded : g, jobs, n)) goto sentence;
    for (i = 0; !st && i < n; i++) {
        const tllm_gguf_tensor *t = jobs[i].t;
        float *weights = NULL;
        if (stopped_by) { st = TINY_E_CANCELLED; break; }
        if (is_shown())
            fprintf(stderr, "\r[%3lu/%3lu] %-40s %-6s -> %-7s", (unsigned long)i + 1, (unsigned long)n, shown(t->name),
                    jobs[i].from->name, jobs[i].to->name);
        fflush(stderr);
        before += (double)tllm_gguf_tensor_at(g, i)->bytes;      /* scaled ones are floats meanwhile */
        if (jobs[i].from == jobs[i].to) {
            after += (double)t->bytes;
            st = tllm_writer_data(ctx, w, t->data, t->bytes);
            continue;
        }
        after += (double)t->bytes / (double)tllm_format_bytes(jobs[i].from, t->dim[0]) *
                 (double)tllm_format_bytes(jobs[i].to, t->dim[0]);
        if (jobs[i].made) {
            st = tllm_writer_data(ctx, w, jobs[i].made,
                                  t->bytes / tllm_format_bytes(jobs[i].from, t->dim[0]) *
                                      tllm_format_bytes(jobs[i].to, t->dim[0]));
            continue;
        }
        if (r->imatrix && (jobs[i].to->flags & TLLM_FORMAT_IMPORTANCE)) {
            const size_t cols = (size_t)t->dim[0],
                         n_mat = t->bytes / tllm_format_bytes(jobs[i].from, t->dim[0]) / (size_t)t->dim[1];
            int found;
            weights = (float *)tiny_alloc(ctx, cols * n_mat * sizeof *weights);
            if (!weights) { st = TINY_E_MEMORY; break; }
            found = importance_of(&m, t->name, cols, n_mat, weights);
            if (found < 0) {
                fprintf(stderr, "%squantize: %s: the importance of %s is not of %lu x %lu values\n",
                        is_shown() ? "\n" : "", r->imatrix, shown(t->name), (unsigned long)cols, (unsigned long)n_mat);
                tiny_free(ctx, weights);
                goto out;
            }
            if (!found) { tiny_free(ctx, weights); weights = NULL; }
            n_used += found > 0;
        }
        st = write_tensor(ctx, w, &jobs[i], weights, r->n_threads);
        tiny_free(ctx, weights);
    }
    if (!st) st = tllm_writer_finish(ctx, w);
    if (is_shown()) fprintf(stderr, "\n");
    if (st) goto sentence;
    fprintf(stderr, "%s: %.1f MB of tensors, from %.1f MB\n", r->out, after / 1e6, before / 1e6);
    if (r->imatrix) fprintf(stderr, "importance used for %lu tensors\n", (unsigned long)n_used);
    ok = 1;
    goto out;
sentence:
    if (stopped_by) fprintf(stderr, "quantize: stopped; nothing was written\n");
    else if (tiny_ctx_message(ctx)[0]) fprintf(stderr, "quantize: %s\n", tiny_ctx_message(ctx));
out:
    tllm_writer_close(ctx, w);
    for (i = 0; jobs && i < n_jobs; i++) tiny_free(ctx, jobs[i].made);
    tiny_free(ctx, jobs);
    tllm_gguf_close(ctx, m.gguf);
    if (!m.gguf) tiny_file_close(ctx, &m.file);
    tllm_gguf_close(ctx, folded);
    if (beside) (void)remove(beside);
    tiny_free(ctx, beside);
    tllm_gguf_close(ctx, g);
    return ok ? 0 : 1;
}

/* ---- standard input to standard output --------------------------------------------------------------------------- */

enum { PIECE = 16384 };                     /* values; whole blocks of every format */

static int pipe_blocks(const tllm_format *f, int back)
{
    static unsigned char in[PIECE * 8], out[PIECE * 8];
    static float x[PIECE];
    const tllm_format *f32 = tllm_format_of(T(F32));
    const size_t in_bytes = tllm_format_bytes(back ? f : f32, PIECE),
                 block = back ? (size_t)f->bytes : 4 * (size_t)f->values;
    uint64_t total = 0;
    size_t n;
#ifdef _WIN32
    (void)_setmode(0, _O_BINARY);
    (void)_setmode(1, _O_BINARY);
#endif
    while ((n = fread(in, 1, in_bytes, stdin)) > 0) {
        const size_t values = n / block * (size_t)f->values, n_out = back ? 4 * values : tllm_format_bytes(f, values);
        total += n;
        if (back) {
            f->unpack(in, x, values);
            f32->pack(x, out, values, NULL);
        } else {
            f32->unpack(in, x, values);
            f->pack(x, out, values, NULL);
        }
        if (fwrite(out, 1, n_out, stdout) != n_out) {
            fprintf(stderr, "quantize: standard output takes no more\n");
            return 1;
        }
        if (n % block) {
            fprintf(stderr, "quantize: %" PRIu64 " bytes are no whole blocks: one of %s is %lu bytes here\n", total,
                    f->name, (unsigned long)block);
            return 1;
        }
    }
    if (ferror(stdin) || fflush(stdout)) { fprintf(stderr, "quantize: standard input or output failed\n"); return 1; }
    return 0;
}

/* rows of as many floats as the importance has; the last one may be shorter, by whole blocks */
static int pipe_weighted(tiny_ctx *ctx, const tllm_format *f, const char *path)
{
    const tllm_format *f32 = tllm_format_of(T(F32));
    tiny_file file;
    float *x = NULL;
    unsigned char *in = NULL, *out = NULL;
    size_t n_row, i, n, total = 0;
    int status = 1;
    memset(&file, 0, sizeof file);
    if (tiny_file_open(ctx, path, &file)) goto sentence;
    n_row = file.n_bytes / 4;
    if (!n_row || file.n_bytes % 4 || n_row % (size_t)f->values || n_row > ((size_t)1 << 26)) {
        fprintf(stderr,
                "quantize: %s has %lu bytes; rows of floats that are whole blocks of %d and at most 2^26 are needed\n",
                path, (unsigned long)file.n_bytes, f->values);
        goto out;
    }
    x = (float *)tiny_alloc(ctx, 2 * n_row * sizeof *x);
    in = (unsigned char *)tiny_alloc(ctx, 4 * n_row);
    out = (unsigned char *)tiny_alloc(ctx, tllm_format_bytes(f, n_row));
    if (!x || !in || !out) goto sentence;
    f32->unpack(file.bytes, x + n_row, n_row);
    for (i = 0; i < n_row; i++)
        if (!(x[n_row + i] >= 0.0f && x[n_row + i] <= 3e38f)) {
            fprintf(stderr, "quantize: %s: value %lu is %g; an importance is at least 0 and finite\n", path,
                    (unsigned long)i, (double)x[n_row + i]);
            goto out;
        }
#ifdef _WIN32
    (void)_setmode(0, _O_BINARY);
    (void)_setmode(1, _O_BINARY);
#endif
    while ((n = fread(in, 1, 4 * n_row, stdin)) > 0) {
        const size_t values = n / 4 / (size_t)f->values * (size_t)f->values, n_out = tllm_format_bytes(f, values);
        total += n;
        f32->unpack(in, x, values);
        f->pack(x, out, values, f->flags & TLLM_FORMAT_IMPORTANCE ? x + n_row : NULL);
        if (fwrite(out, 1, n_out, stdout) != n_out) {
            fprintf(stderr, "quantize: standard output takes no more\n");
            goto out;
        }
        if (n != 4 * values) {
            fprintf(stderr, "quantize: %lu bytes are no whole blocks: one of %s is %d floats\n", (unsigned long)total,
                    f->name, f->values);
            goto out;
        }
    }
    if (ferror(stdin) || fflush(stdout)) { fprintf(stderr, "quantize: standard input or output failed\n"); goto out; }
    status = 0;
    goto out;
sentence:
    fprintf(stderr, "quantize: %s\n", tiny_ctx_message(ctx));
out:
    tiny_free(ctx, x);
    tiny_free(ctx, in);
    tiny_free(ctx, out);
    tiny_file_close(ctx, &file);
    return status;
}

int main(int argc, char **argv)
{
    static request r;
    static word_list place, patterns;
    const char *blocks = NULL, *unblocks = NULL, *reads, *why;
    const tllm_format *f;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    size_t i;
    int k, list = 0, status;
    const option options[] = { WORDS(&place, 3),
                               A_TEXT("--blocks", &blocks),
                               A_TEXT("--unblocks", &unblocks),
                               A_TEXT("--imatrix", &r.imatrix),
                               A_FLAG("--pure", &r.pure),
                               A_LIST("--tensor-type", &patterns, PATTERNS),
                               A_FLAG("--gptq", &r.gptq),
                               A_FLAG("--awq", &r.awq),
                               A_NUMBER("--smooth", &r.smooth, 0, 1),
                               A_TEXT("--text", &r.text),
                               A_WHOLE("--tokens", &r.n_tokens, 1, 1e8),
                               A_FLAG("--each-layer", &r.each_layer),
                               A_WHOLE("--threads", &r.n_threads, 1, TINY_MAX_THREADS),
                               A_FLAG("--list", &list) };
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.progress = tell_progress;
    desc.user = &ctx;
    r.smooth = -1.0;
    READ_OPTIONS(argc, argv, usage, options);
    if (list) {
        for (i = 0; tllm_mixture_at(i); i++) printf("%s\n", tllm_mixture_at(i)->name);
        for (i = 0; (f = tllm_format_at(i)) != NULL; i++)
            if (f->pack && !(f->flags & TLLM_FORMAT_ACTIVATIONS) && !tllm_mixture_by_name(f->name))
                printf("%s\n", f->name);
        return exit_status(0);
    }
    for (k = 0; k < patterns.n; k++) {
        const char *v = patterns.at[k], *eq = strrchr(v, '=');
        if (!eq || eq == v || !(f = tllm_format_by_name(eq + 1)) || !f->pack || (f->flags & TLLM_FORMAT_ACTIVATIONS))
            return wrong("this is not REGEX=TYPE with a known type", v);
        why = compile(&r.pattern[r.n_patterns], v, eq);
        if (why) return refused("--tensor-type %s: %s", v, why);
        r.pattern_text[r.n_patterns] = v;
        r.pattern_type[r.n_patterns++] = f;
    }
    if (blocks || unblocks) {
        if (r.gptq || r.awq || r.smooth >= 0.0)
            return wrong(r.gptq  ? "--gptq"
                         : r.awq ? "--awq"
                                 : "--smooth",
                         "it wants a model, not --blocks or --unblocks");
        if (place.n) return wrong("--blocks and --unblocks take no files", place.at[0]);
        if (blocks && unblocks) return wrong("--blocks and --unblocks", "one of them");
        f = tllm_format_by_name(blocks ? blocks : unblocks);
        if (!f || (blocks && !f->pack)) return wrong("there is no type", blocks ? blocks : unblocks);
        if (!r.imatrix) return pipe_blocks(f, unblocks != NULL);
        if (unblocks) return wrong("--unblocks", "it takes no --imatrix");
        if (tiny_ctx_open(&desc, &ctx)) return 1;
        status = pipe_weighted(ctx, f, r.imatrix);
        tiny_ctx_close(ctx);
        return status;
    }
    if (place.n != 3) return wrong("IN OUT.gguf TYPE", "all three are needed");
    r.in = place.at[0];
    r.out = place.at[1];
    r.mix = tllm_mixture_by_name(place.at[2]);
    f = tllm_format_by_name(place.at[2]);
    if (f && (!f->pack || (f->flags & TLLM_FORMAT_ACTIVATIONS))) f = NULL;
    if (!r.mix && !f) return wrong("there is no type", place.at[2]);
    if (must_not_write(r.out, 3, r.in, r.imatrix, r.text)) return 2;
    if (r.pure || !r.mix) r.pure_type = f ? f : tllm_format_of(r.mix->base);
    reads = r.gptq ? "--gptq" : r.awq ? "--awq" : r.smooth >= 0.0 ? "--smooth" : NULL;
    if (reads && !r.text) return wrong(reads, "it wants --text, which the model reads");
    if (!reads && (r.text || r.n_tokens || r.each_layer))
        return wrong(r.text       ? "--text"
                     : r.n_tokens ? "--tokens"
                                  : "--each-layer",
                     "only --gptq, --awq and --smooth read a text");
    if (r.awq && r.smooth >= 0.0)
        return wrong("--awq and --smooth", "one of them: both choose the factors of the same inputs");
    if (r.each_layer && !r.gptq) return wrong("--each-layer", "only --gptq reads a text so often");
    if (r.imatrix && (r.awq || r.smooth >= 0.0))
        return wrong("--imatrix",
                     "it is of the model as it came; --awq and --smooth change the inputs of its matrices");
    if (!r.n_tokens) r.n_tokens = 32768;
    if (r.n_threads < 1 || r.n_threads > TINY_MAX_THREADS) {
        r.n_threads = 1;
#ifdef _OPENMP
        r.n_threads = omp_get_num_procs();
#endif
    }
    desc.n_threads = r.n_threads;
    desc.cancel = cancelled;                /* what lies beside OUT goes then too */
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    stop_on_signals_whole();
    status = quantize_file(ctx, &r);
    tiny_ctx_close(ctx);
    return status && stopped_by ? 128 + stopped_by : status;
}
