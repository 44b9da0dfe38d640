/* examples/embed.c - texts as vectors, and how near they are to each other
 *
 *     embed MODEL.gguf < texts.txt               a line of numbers for each line of text
 *     embed MODEL.gguf --similar < texts.txt     the table of cosines instead                                               */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "embed MODEL [options] < TEXTS         one text a line\n"
    "  --pooling P      mean, cls or last; what the file asks for without this\n"
    "  --similar        the cosine of each text with each other, instead of the vectors\n"
    "  --raw            little-endian float32 instead of text\n"
    "  --threads N      one per processor without this\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx, reference; the best one without this\n";

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "embed: %s: %s\nembed --help tells more\n", what, value ? value : "a value is missing");
    return 2;
}

/* the next line without its end; NULL at the end of the file or without memory */
static char *read_line(size_t *n)
{
    size_t room = 256;
    char *line = (char *)malloc(room), *more;
    int c = EOF;
    *n = 0;
    while (line && (c = getchar()) != EOF && c != '\n') {
        if (*n + 1 == room) {
            more = (char *)realloc(line, room *= 2);
            if (!more) free(line);
            line = more;
            if (!line) return NULL;
        }
        line[(*n)++] = (char)c;
    }
    if (line && c == EOF && !*n) {
        free(line);
        return NULL;
    }
    return line;
}

/* why no context was opened; what comes later stands in its message */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "embed: %s\n", sentence);
}

int main(int argc, char **argv)
{
    static const char *const poolings[] = { "none", "mean", "cls", "last" };
    const char *path = NULL;
    int pooling = -1, similar = 0, raw = 0, i;
    tiny_ctx_desc desc;
    tllm_session *session = NULL;
    tllm_about about;
    tiny_ctx *ctx = NULL;
    float *all = NULL;
    char *line;
    size_t n_line, n = 0, room = 0, d = 0, j, k;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) return fputs(usage, stdout) < 0;
        else if (!strcmp(a, "--similar")) similar = 1;
        else if (!strcmp(a, "--raw")) raw = 1;
        else if (!strcmp(a, "--pooling")) {
            for (pooling = 3; value && pooling > 0 && strcmp(value, poolings[pooling]) != 0; pooling--) {}
            if (!value || pooling <= 0) return wrong(a, value);
            i++;
        } else if (!strcmp(a, "--threads")) {
            char *end = NULL;
            long v = value ? strtol(value, &end, 10) : 0;
            if (!value) return wrong(a, NULL);
            if (*end || v < 1 || v > TINY_MAX_THREADS) {
                fprintf(stderr, "embed: --threads takes a whole number from 1 to %d, not %s\nembed --help tells more\n", TINY_MAX_THREADS, value);
                return 2;
            }
            desc.n_threads = (int)v;
            i++;
        } else if (!strcmp(a, "--target")) {
            desc.target = value ? tiny_target_by_name(value) : TINY_TARGET_COUNT;
            if (desc.target == TINY_TARGET_COUNT) return wrong(a, value);
            i++;
        } else if (a[0] == '-') return wrong("unknown option", a);
        else if (!path) path = a;
        else return wrong("a second file", a);
    }
    if (!path) {
        fputs(usage, stderr);
        return 2;
    }
    desc.log = say;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tllm_session_open(ctx, path, NULL, &session);
    if (!st) {
        tllm_model_about(tllm_session_model(session), &about);
        d = (size_t)about.n_out;
        if (about.output == TLLM_LOGITS) {  /* said before a text is waited for */
            fprintf(stderr, "embed: %s: a %s model gives logits and no hidden states: it is no embedding model\n", path, about.arch);
            tllm_session_close(session);
            tiny_ctx_close(ctx);
            return 1;
        }
    }
    while (!st && (line = read_line(&n_line)) != NULL) {
        if (n == room) {
            float *more = (float *)realloc(all, (room = room ? 2 * room : 16) * d * sizeof *all);
            if (!more) {
                free(line);
                st = TINY_E_MEMORY;
                break;
            }
            all = more;
        }
        st = tllm_embed(session, line, n_line, pooling, all + (similar ? n : 0) * d);
        free(line);
        if (st) break;
        if (similar) n++;
        else if (raw) {
            for (j = 0; j < d; j++) {
                unsigned char b[4];
                uint32_t bits;
                memcpy(&bits, all + j, 4);
                for (k = 0; k < 4; k++) b[k] = (unsigned char)(bits >> 8 * k);
                (void)fwrite(b, 1, 4, stdout);
            }
        } else
            for (j = 0; j < d; j++) printf("%.8g%c", (double)all[j], j + 1 < d ? ' ' : '\n');
    }
    for (j = 0; !st && j < n; j++)
        for (k = 0; k < n; k++) {
            double dot = 0;
            size_t c;
            for (c = 0; c < d; c++) dot += (double)all[j * d + c] * (double)all[k * d + c];
            printf("%7.4f%c", dot, k + 1 < n ? ' ' : '\n');
        }
    if (st && ctx) fprintf(stderr, "embed: %s\n", *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    free(all);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("embed: standard output takes no more\n", stderr);
        return 1;
    }
    return st != TINY_OK;
}
