/* examples/embed.c - turns texts into vectors, or prints their cosines
 *
 *     embed MODEL.gguf < texts.txt               a line of numbers for each line of text
 *     embed MODEL.gguf --similar < texts.txt     the table of cosines instead */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "embed"
#include "options.h"

static const char usage[] =
    "embed MODEL [options] < TEXTS         one text per line\n"
    "  --pooling P      mean, cls or last; default: what the file says\n"
    "  --similar        print the cosine of each pair of texts instead of the vectors\n"
    "  --raw            little-endian float32 instead of text\n"
    "  --context N      at most this many tokens of a text; default: as the file says, at most 4096\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n";

enum { MOST_SIMILAR = 65536 };              /* texts of a table */

int main(int argc, char **argv)
{
    const char *path = NULL, *of = NULL;
    int pooling = -1, similar = 0, raw = 0, context = 0;
    tiny_ctx_desc desc;
    tllm_state_desc seats;
    const option options[] = { THE_WORD("file", &path),
                               A_TEXT("--pooling", &of),
                               A_FLAG("--similar", &similar),
                               A_FLAG("--raw", &raw),
                               A_WHOLE("--context", &context, 1, 1e9),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target) };
    tllm_session *session = NULL;
    tllm_about about;
    tiny_ctx *ctx = NULL;
    float *all = NULL;
    char *line;
    size_t n_line, n = 0, room = 0, d = 0, j, k;
    unsigned long number = 0;               /* of the line */
    int said = 0;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    memset(&seats, 0, sizeof seats);
    READ_OPTIONS(argc, argv, usage, options);
    if (of && (pooling = place_in("none mean cls last", of)) < 1) return wrong("--pooling", of);
    desc.log = hear;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
    seats.n_ctx = context;
    if (!st) st = tllm_session_open(ctx, path, &seats, &session);
    if (!st) {
        tllm_model_about(tllm_session_model(session), &about);
        d = (size_t)about.n_out;
        if (about.output == TLLM_LOGITS) {  /* before the first text is read */
            fprintf(stderr, "embed: %s: a %s model gives logits, not hidden states: it is not an embedding model\n",
                    path, about.arch);
            tllm_session_close(session);
            tiny_ctx_close(ctx);
            return 1;
        }
    }
    while (!st) {
        if (read_line(&line, &n_line, ++number)) {
            said = 1;
            st = TINY_E_IO;
        }
        if (st || !line) break;
        if (n == MOST_SIMILAR) {
            fprintf(stderr, "embed: line %lu: --similar takes %d texts at most\n", number, MOST_SIMILAR);
            free(line);
            said = 1;
            st = TINY_E_ARGUMENT;
            break;
        }
        if (n == room) {
            float *more = (float *)realloc(all, (room = room ? 2 * room : 16) * d * sizeof *all);
            if (!more) {
                fprintf(stderr, "embed: line %lu: there is no memory for one more vector\n", number);
                free(line);
                said = 1;
                st = TINY_E_MEMORY;
                break;
            }
            all = more;
        }
        st = tllm_embed(session, line, n_line, pooling, all + (similar ? n : 0) * d);
        free(line);
        if (st) {
            fprintf(stderr, "embed: line %lu: %s\n", number,
                    *tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
            said = 1;
            break;
        }
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
    if (st && ctx && !said) say(*tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    free(all);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
