/* tests/mutants/faults.c - chooses faults for src/, and makes one
 *
 *     faults pick SEED N FILE...      the N faults of this seed, a line each
 *     faults set SRC LINE OUT         writes the file that the line names, with its fault, to OUT
 *
 * A line has six fields with tabs between them: name, file (under SRC), text, text with the fault, tests, kind of
 * fault. The text must occur exactly once in the file.
 *
 * A fault changes one place of one line inside a function: a sign, a comparison, a constant by one, a factor, a clamp
 * or check that is dropped. Every line has one fault for a seed; a hash of the seed and the line ranks them, so that a
 * change elsewhere in src/ does not change the choice. run.sh finds the ones that the compiler refuses or removes. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 400, MAX_FAULTS = 200000, MAX_WAYS = 64 };

typedef struct fault { uint64_t rank; char *line; } fault;
static fault faults[MAX_FAULTS];
static size_t n_faults;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "faults: %s%s%s\n", name ? name : "", name ? ": " : "", what);
    exit(1);
}

static char *read_whole(const char *path)
{
    size_t n = 0, cap = 1 << 16, got;
    char *s = (char *)malloc(cap);
    FILE *f = fopen(path, "rb");
    if (!f || !s) die("cannot be read", path);
    while ((got = fread(s + n, 1, cap - n - 1, f)) > 0) {
        n += got;
        if (cap - n < 2 && (s = (char *)realloc(s, cap *= 2)) == NULL) die("out of memory", NULL);
    }
    fclose(f);
    s[n] = 0;
    return s;
}

static uint64_t hash(uint64_t h, const char *s)
{
    for (; *s; s++) h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    h ^= h >> 31;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* The code of a line: comments and quoted texts become '.', which no fault touches. */
static void blank(char *code, int *in_comment)
{
    char quote = 0;
    size_t i;
    for (i = 0; code[i]; i++) {
        if (*in_comment) {
            if (code[i] == '*' && code[i + 1] == '/') { code[i++] = '.'; *in_comment = 0; }
            code[i] = '.';
        } else if (quote) {
            if (code[i] == '\\' && code[i + 1]) code[i++] = '.';
            else if (code[i] == quote) quote = 0;
            code[i] = '.';
        } else if (code[i] == '"' || code[i] == '\'') {
            quote = code[i];
            code[i] = '.';
        } else if (code[i] == '/' && code[i + 1] == '*') {
            *in_comment = 1;
            code[i] = '.';
        }
    }
}

typedef struct way { size_t at, n; const char *by, *what; } way;    /* n bytes at `at` become `by` */

static size_t ways_of(const char *code, way *w, char spare[MAX_WAYS][24])
{
    static const struct { const char *from, *to, *what;
    } swap[] = {
        { " + ", " - ", "sign" },
        { " - ", " + ", "sign" },
        { " += ", " -= ", "sign" },
        { " -= ", " += ", "sign" },
        { " < ", " <= ", "bound" },
        { " <= ", " < ", "bound" },
        { " > ", " >= ", "bound" },
        { " >= ", " > ", "bound" },
        { " == ", " != ", "comparison" },
        { " != ", " == ", "comparison" },
        { " && ", " || ", "condition" },
        { " || ", " && ", "condition" },
        { " * ", " + ", "stride" },
        { " << ", " >> ", "shift" },
        { " >> ", " << ", "shift" },
        { "(!", "(", "condition" },
        { " ? ", " && 0 ? ", "dropped case" },
    };
    size_t n = 0, i, k;
    for (i = 0; code[i]; i++) {
        for (k = 0; k < sizeof swap / sizeof *swap && n < MAX_WAYS; k++)
            if (!strncmp(code + i, swap[k].from, strlen(swap[k].from))) {
                w[n].at = i;
                w[n].n = strlen(swap[k].from);
                w[n].by = swap[k].to;
                w[n++].what = swap[k].what;
            }
        if (!strncmp(code + i, "if (", 4) && (!i || !isalnum((unsigned char)code[i - 1])) && n < MAX_WAYS) {
            w[n].at = i;
            w[n].n = 4;
            w[n].by = "if (0 && ";          /* an || inside stays, which is a fault too */
            w[n++].what = strstr(code, "return") ? "dropped check" : "dropped case";
        }
        /* a small whole number that is not part of a name, a fraction or a hexadecimal number */
        if (isdigit((unsigned char)code[i]) && (i == 0 || strchr(" ([-", code[i - 1])) && n < MAX_WAYS) {
            size_t d = i;
            while (isdigit((unsigned char)code[d])) d++;
            if (d - i < 5 && code[d] && strchr(" ;,)]", code[d])) {
                (void)snprintf(spare[n], sizeof spare[n], "%d", atoi(code + i) + 1);
                w[n].at = i;
                w[n].n = d - i;
                w[n].by = spare[n];
                w[n++].what = "off by one";
            }
            while (isdigit((unsigned char)code[i + 1])) i++;
        }
    }
    return n;
}

static int by_rank(const void *a, const void *b)
{
    const fault *x = (const fault *)a, *y = (const fault *)b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void pick(const char *seed, size_t most, int n_files, char **file)
{
    int f;
    for (f = 0; f < n_files; f++) {
        char *text = read_whole(file[f]), *at, *end;
        const char *name = strstr(file[f], "src/") ? strstr(file[f], "src/") + 4 : file[f];
        int in_comment = 0, prose;
        for (at = text; *at; at = end) {
            char line[MAX_LINE], code[MAX_LINE], bad[MAX_LINE + 40], spare[MAX_WAYS][24], id[20];
            way w[MAX_WAYS], *it;
            size_t n, n_ways, lead;
            uint64_t h;
            end = strchr(at, '\n') ? strchr(at, '\n') + 1 : at + strlen(at);
            n = (size_t)(end - at);
            if (n >= MAX_LINE) continue;
            memcpy(line, at, n);
            while (n && isspace((unsigned char)line[n - 1])) n--;
            line[n] = 0;
            lead = strspn(line, " ");
            memcpy(code, line, n + 1);
            prose = in_comment;
            blank(code, &in_comment);
            /* inside a function, by its indentation; no directive, table, assertion, generator of cases or message */
            if (prose || lead < 4 || strchr(line, '\t') || code[lead] == '#' || strstr(code, "static ") ||
                strstr(code, "TINY_ASSERT") || strstr(code, "tiny_case_") || strstr(code, "(void)snprintf"))
                continue;
            n_ways = ways_of(code, w, spare);
            if (!n_ways || (strstr(text, line + lead) != at + lead) || strstr(at + lead + 1, line + lead)) continue;
            h = hash(hash(hash(UINT64_C(14695981039346656037), seed), name), line + lead);
            it = &w[h % n_ways];
            (void)snprintf(bad, sizeof bad, "%.*s%s%s", (int)(it->at - lead), line + lead, it->by,
                           line + it->at + it->n);
            (void)snprintf(id, sizeof id, "r%06x", (unsigned)(hash(h, "name") >> 40));
            if (n_faults == MAX_FAULTS) die("too many lines", NULL);
            faults[n_faults].line = (char *)malloc(2 * MAX_LINE + 400);
            if (!faults[n_faults].line) die("out of memory", NULL);
            (void)snprintf(faults[n_faults].line, 2 * MAX_LINE + 400, "%s\t%s\t%s\t%s\t-\t%s", id, name, line + lead,
                           bad, it->what);
            faults[n_faults++].rank = hash(h, "rank");
        }
        free(text);
    }
    qsort(faults, n_faults, sizeof *faults, by_rank);
    if (most > n_faults) most = n_faults;
    for (n_files = 0; (size_t)n_files < most; n_files++) puts(faults[n_files].line);
}

static void set(const char *src, const char *line, const char *out)
{
    char *copy = (char *)malloc(strlen(line) + 1), *field[6], *at, path[600], *text, *place;
    int i;
    FILE *f;
    if (!copy) die("out of memory", NULL);
    strcpy(copy, line);
    for (i = 0, at = copy; i < 6; i++) {
        field[i] = at;
        at = strchr(at, '\t');
        if (!at && i < 5) die("a line needs six fields", line);
        if (at) *at++ = 0;
    }
    (void)snprintf(path, sizeof path, "%s/%s", src, field[1]);
    text = read_whole(path);
    place = strstr(text, field[2]);
    if (!place || strstr(place + 1, field[2]))
        die(place ? "occurs more than once in the file" : "does not occur in the file", field[2]);
    f = fopen(out, "wb");
    if (!f || fwrite(text, 1, (size_t)(place - text), f) != (size_t)(place - text) || fputs(field[3], f) < 0 ||
        fputs(place + strlen(field[2]), f) < 0 || fclose(f))
        die("cannot be written", out);
    free(text);
    free(copy);
}

int main(int n, char **arg)
{
    if (n > 4 && !strcmp(arg[1], "pick")) pick(arg[2], (size_t)strtoul(arg[3], NULL, 10), n - 4, arg + 4);
    else if (n == 5 && !strcmp(arg[1], "set")) set(arg[2], arg[3], arg[4]);
    else die("faults pick SEED N FILE... | faults set SRC LINE OUT", NULL);
    return 0;
}
