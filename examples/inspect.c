/* examples/inspect.c - the contents of a model file: GGUF, safetensors or a .bin of llama2.c
 *
 *     inspect FILE [--json] [--keys] [--tensors] [--all]
 *
 * Prints the keys, the tensors and the totals. --keys and --tensors print only these, --all prints long arrays and
 * texts completely, --json prints one JSON object. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "inspect"
#include "options.h"
#include <inttypes.h>

static int whole;                           /* --all */

/* A text in quotes. Bytes that are not UTF-8 become \ufffd, so that the output is always JSON. Characters that move the
 * cursor or change the direction of writing are escaped. */
static void print_text(tllm_text t, size_t most)
{
    size_t i = 0, end = !whole && t.n > most ? most : t.n;
    putchar('"');
    while (i < end) {
        unsigned char c = (unsigned char)t.at[i];
        size_t n = c < 0x80                 ? 1
                   : c >= 0xc2 && c <= 0xdf ? 2
                   : c >= 0xe0 && c <= 0xef ? 3
                   : c >= 0xf0 && c <= 0xf4 ? 4
                                            : 0,
               k;
        unsigned char second = n > 1 && i + 1 < t.n ? (unsigned char)t.at[i + 1] : 0;
        for (k = 1; k < n && i + k < t.n && ((unsigned char)t.at[i + k] & 0xc0) == 0x80; k++) {}
        if (!n || k < n || (c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
            (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f)) {
            printf("\\ufffd");
            i++;
            continue;
        }
        if (c == '"' || c == '\\') printf("\\%c", c);
        else if (c == '\n') printf("\\n");
        else if (c == '\t') printf("\\t");
        else if (c == '\r') printf("\\r");
        else {
            char plain[16];
            (void)tiny_plain(plain, sizeof plain, t.at + i, n);
            if (plain[0] != '\\') printf("%s", plain);
            else if (n == 1) printf("\\u%04x", c);
            else if (n == 2) printf("\\u%04x", (c & 0x1fu) << 6 | (second & 0x3fu));
            else
                printf("\\u%04x", (c & 0x0fu) << 12 | (second & 0x3fu) << 6 |
                                      ((unsigned char)t.at[i + 2] & 0x3fu)); /* none has four bytes */
        }
        i += n;
    }
    if (i < t.n) printf("...");
    putchar('"');
}

/* a name for a column: shortened, without bytes that move the cursor */
static const char *name_text(tllm_text t, char text[64])
{
    (void)tiny_plain(text, 61, t.at, t.n);
    return text;
}

/* with enough digits to read the same number again */
static void print_number(double v, int is_float)
{
    char text[40];
    int digits = is_float ? 6 : 15;
    for (;; digits++) {
        double again;
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        again = strtod(text, NULL);
        if (digits == 17 || v != v || (is_float ? (float)again == (float)v : again >= v && again <= v)) break;
    }
    printf("%s", text);
}

static void print_item(const tllm_meta *m, size_t i, int json)
{
    int64_t i64;
    uint64_t u64;
    double f64;
    int yes;
    tllm_text text;
    if (tllm_meta_text(m, i, &text)) print_text(text, 100);
    else if (tllm_meta_bool(m, i, &yes)) printf("%s", yes ? "true" : "false");
    else if (tllm_meta_i64(m, i, &i64)) printf("%" PRId64, i64);
    else if (tllm_meta_u64(m, i, &u64)) printf("%" PRIu64, u64);
    else if (tllm_meta_f64(m, i, &f64)) {
        if (json && (f64 != f64 || f64 - f64 != 0)) printf("null");    /* JSON has no NaN and no infinity */
        else print_number(f64, m->item_type == TLLM_F32);
    }
}

static void print_value(const tllm_meta *m, int json)
{
    size_t i, most = whole ? m->count : 8;
    if (m->type != TLLM_ARRAY) {
        print_item(m, 0, json);
        return;
    }
    putchar('[');
    for (i = 0; i < m->count && i < most; i++) {
        if (i) printf(", ");
        print_item(m, i, json);
    }
    if (i < m->count) printf(json ? "" : ", ...");
    putchar(']');
}

static void shape_text(const tllm_gguf_tensor *t, char text[160])
{
    int a, n = 0;
    text[0] = 0;
    for (a = 0; a < t->rank; a++) n += snprintf(text + n, (size_t)(160 - n), "%s%" PRIu64, a ? " x " : "", t->dim[a]);
}

static uint64_t n_values(const tllm_gguf_tensor *t)
{
    uint64_t n = 1;
    int a;
    for (a = 0; a < t->rank; a++) n *= t->dim[a];
    return n;
}

static void print_columns(const tllm_gguf *g, int keys, int tensors)
{
    size_t i, name_width = 4, shape_width = 5;
    char shape[160], name[64];
    uint64_t bytes = 0, values = 0;
    for (i = 0; i < tllm_gguf_n_parts(g); i++) {
        printf("%s: %s", tllm_gguf_path(g, i), tllm_file_kind_name(g));
        if (tllm_gguf_version(g))
            printf(" version %" PRIu32 ", alignment %" PRIu32, tllm_gguf_version(g), tllm_gguf_alignment(g));
        printf(", %zu bytes\n", tllm_gguf_bytes(g, i));
    }
    if (keys) {
        for (i = 0; i < tllm_gguf_n_meta(g); i++) {
            size_t n = tllm_gguf_meta_at(g, i)->key.n;
            if (n > name_width && n <= 60) name_width = n;
        }
        printf("\n%zu keys\n", tllm_gguf_n_meta(g));
        for (i = 0; i < tllm_gguf_n_meta(g); i++) {
            const tllm_meta *m = tllm_gguf_meta_at(g, i);
            char type[40];
            if (m->type == TLLM_ARRAY)
                (void)snprintf(type, sizeof type, "%s[%zu]", tllm_value_name(m->item_type), m->count);
            else (void)snprintf(type, sizeof type, "%s", tllm_value_name(m->type));
            printf("  %-*s  %-14s  ", (int)name_width, name_text(m->key, name), type);
            print_value(m, 0);
            putchar('\n');
        }
    }
    for (i = 0, name_width = 4; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        shape_text(t, shape);
        if (t->name.n > name_width && t->name.n <= 60) name_width = t->name.n;
        if (strlen(shape) > shape_width) shape_width = strlen(shape);
        bytes += t->bytes;
        values += n_values(t);
    }
    if (tensors) {
        printf("\n  %-*s  %-8s  %-*s  %14s  %14s\n", (int)name_width, "name", "type", (int)shape_width, "shape",
               "bytes", "offset");
        for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
            shape_text(t, shape);
            printf("  %-*s  %-8s  %-*s  %14zu  %14zu", (int)name_width, name_text(t->name, name),
                   tllm_type_name(t->type), (int)shape_width, shape, t->bytes, tllm_gguf_offset(g, t));
            if (tllm_gguf_n_parts(g) > 1) printf("  part %" PRIu32, t->part + 1);
            putchar('\n');
        }
    }
    printf("\n%zu tensors, %" PRIu64 " values, %" PRIu64 " bytes", tllm_gguf_n_tensors(g), values, bytes);
    if (values) printf(", %.3f bits a value", 8.0 * (double)bytes / (double)values);
    putchar('\n');
}

static void print_json(const tllm_gguf *g, int keys, int tensors)
{
    size_t i;
    int a;
    uint64_t bytes = 0, values = 0;
    tllm_text path;
    printf("{\n\"format\": \"%s\", \"version\": %" PRIu32 ", \"alignment\": %" PRIu32 ",\n\"parts\": [",
           tllm_file_kind_name(g), tllm_gguf_version(g), tllm_gguf_alignment(g));
    for (i = 0; i < tllm_gguf_n_parts(g); i++) {
        path.at = tllm_gguf_path(g, i);
        path.n = strlen(path.at);
        printf("%s{\"path\": ", i ? ", " : "");
        print_text(path, path.n);
        printf(", \"bytes\": %zu}", tllm_gguf_bytes(g, i));
    }
    printf("]");
    if (keys) {
        printf(",\n\"keys\": [");
        for (i = 0; i < tllm_gguf_n_meta(g); i++) {
            const tllm_meta *m = tllm_gguf_meta_at(g, i);
            printf("%s\n  {\"key\": ", i ? "," : "");
            print_text(m->key, m->key.n);
            printf(", \"type\": \"%s\"", tllm_value_name(m->type));
            if (m->type == TLLM_ARRAY)
                printf(", \"item_type\": \"%s\", \"count\": %zu", tllm_value_name(m->item_type), m->count);
            printf(", \"value\": ");
            print_value(m, 1);
            putchar('}');
        }
        printf("]");
    }
    if (tensors) printf(",\n\"tensors\": [");
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        bytes += t->bytes;
        values += n_values(t);
        if (!tensors) continue;
        printf("%s\n  {\"name\": ", i ? "," : "");
        print_text(t->name, t->name.n);
        printf(", \"type\": \"%s\", \"shape\": [", tllm_type_name(t->type));
        for (a = 0; a < t->rank; a++) printf("%s%" PRIu64, a ? ", " : "", t->dim[a]);
        printf("], \"bytes\": %zu, \"offset\": %zu, \"part\": %" PRIu32 "}", t->bytes, tllm_gguf_offset(g, t),
               t->part + 1);
    }
    if (tensors) printf("]");
    printf(",\n\"n_keys\": %zu, \"n_tensors\": %zu, \"n_values\": %" PRIu64 ", \"tensor_bytes\": %" PRIu64 "\n}\n",
           tllm_gguf_n_meta(g), tllm_gguf_n_tensors(g), values, bytes);
}

static const char usage[] =
    "usage: inspect FILE [--json] [--keys] [--tensors] [--all]\n"
    "  FILE       a GGUF, safetensors or llama2.c .bin file, or any part of a split file\n"
    "  --json     print one JSON object instead of columns\n"
    "  --keys     print only the keys\n"
    "  --tensors  print only the tensors\n"
    "  --all      print long arrays and texts completely\n";

int main(int argc, char **argv)
{
    const char *path = NULL;
    int json = 0, keys = 0, tensors = 0;
    const option options[] = { THE_WORD("file", &path), A_FLAG("--json", &json), A_FLAG("--keys", &keys),
                               A_FLAG("--tensors", &tensors), A_FLAG("--all", &whole) };
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tllm_gguf *g;
    READ_OPTIONS(argc, argv, usage, options);
    if (!keys && !tensors) keys = tensors = 1;
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (tllm_file_open(ctx, path, &g)) {
        say(tiny_ctx_message(ctx));
        tiny_ctx_close(ctx);
        return 1;
    }
    if (json) print_json(g, keys, tensors);
    else print_columns(g, keys, tensors);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
    return exit_status(0);
}
