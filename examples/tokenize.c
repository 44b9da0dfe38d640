/* examples/tokenize.c - turns text into tokens with the vocabulary of a model file, and back
 *
 *     echo "Hello world" | tokenize MODEL.gguf
 *     tokenize MODEL.gguf < text | tokenize MODEL.gguf --decode */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "tokenize"
#include "options.h"
#include <errno.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static const char usage[] =
    "tokenize MODEL [--bos] [--special] [-0] [--decode]\n"
    "MODEL is a GGUF file, or a .bin of llama2.c next to its tokenizer.\n"
    "Reads text from standard input and prints its tokens, separated by spaces, one line per text.\n"
    "  --bos      add BOS and EOS as the vocabulary says\n"
    "  --special  the text of a special token becomes that token; with --decode, special tokens are printed\n"
    "  -0         the input is several texts separated by NUL bytes; with --decode, NUL separates the texts\n"
    "  --decode   read lines of tokens and print their texts\n";

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "tokenize: %s%s%s\n", what, *why ? ": " : "", why);
    return 1;
}

static int encode(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags, int nul)
{
    tllm_tokens t;
    size_t at = 0, end, i;
    int bad = 0;
    memset(&t, 0, sizeof t);
    do {
        const char *stop = nul ? (const char *)memchr(text + at, 0, n - at) : NULL;
        end = stop ? (size_t)(stop - text) : n;
        t.n = 0;
        if (tllm_encode(ctx, v, text + at, end - at, flags, &t)) {
            bad = fail(tiny_ctx_message(ctx), "");
            break;
        }
        for (i = 0; i < t.n; i++) printf(i ? " %ld" : "%ld", (long)t.id[i]);
        putchar('\n');
        at = end + 1;
    } while (at < n);                       /* a NUL at the end closes the last text */
    tllm_tokens_free(ctx, &t);
    return bad;
}

static int decode(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags, int nul)
{
    tllm_tokens t;
    tllm_bytes b;
    size_t at = 0;
    int bad = 0;
    memset(&t, 0, sizeof t);
    memset(&b, 0, sizeof b);
    t.room = n / 2 + 1;                     /* a number and a space */
    t.id = (int32_t *)tiny_alloc(ctx, t.room * sizeof *t.id);
    if (!t.id) return fail(tiny_ctx_message(ctx), "");
    while (at < n && !bad) {
        if (at && nul) putchar(0);
        for (t.n = b.n = 0; at < n && text[at] != '\n'; ) {
            char *end;
            long id;
            if (text[at] == ' ' || text[at] == '\t' || text[at] == '\r') { at++; continue; }
            errno = 0;
            id = strtol(text + at, &end, 10);
            if (end == text + at || errno || id < 0 || id > 2147483647) {
                bad = fail("standard input", "it has a word that is not the number of a token");
                break;
            }
            t.id[t.n++] = (int32_t)id;
            at = (size_t)(end - text);
        }
        at++;
        if (!bad && tllm_decode(ctx, v, t.id, t.n, flags, &b)) bad = fail(tiny_ctx_message(ctx), "");
        if (!bad && b.n) (void)fwrite(b.at, 1, b.n, stdout);
    }
    tllm_tokens_free(ctx, &t);
    tllm_bytes_free(ctx, &b);
    return bad;
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    int bos = 0, special = 0, nul = 0, back = 0, bad;
    const option options[] = { THE_WORD("file", &path), A_FLAG("--bos", &bos), A_FLAG("--special", &special),
                               A_FLAG("-0", &nul), A_FLAG("--decode", &back) };
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tllm_gguf *g = NULL;
    tllm_vocab *v = NULL;
    char *text = NULL;
    size_t n;
    READ_OPTIONS(argc, argv, usage, options);
#ifdef _WIN32
    (void)_setmode(_fileno(stdin), _O_BINARY);
    (void)_setmode(_fileno(stdout), _O_BINARY);
#endif
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (tllm_file_open(ctx, path, &g) || tllm_vocab_open(ctx, g, &v)) bad = fail(tiny_ctx_message(ctx), "");
    else if ((text = read_text("-", MOST_TEXT, 0, &n)) == NULL) bad = 1;
    else if (back) {                        /* strtol stops at the final 0 */
        bad = decode(ctx, v, text, n, special ? TLLM_DECODE_SPECIAL : 0, nul);
    } else {
        bad = encode(ctx, v, text, n, (bos ? TLLM_ENCODE_ENDS : 0u) | (special ? TLLM_ENCODE_SPECIAL : 0u), nul);
    }
    free(text);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
    if (!bad && fflush(stdout)) return fail("standard output", strerror(errno));
    return bad;
}
