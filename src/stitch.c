/* src/stitch.c - joins the files of src/ into one header
 *
 *     stitch SRCDIR tinyllm|tinygnn OUT
 *     stitch SRCDIR options OUT           the table of features, as docs/guide/options.md has it
 *     stitch SRCDIR features OUT          their names: wing, tier, name, needs, a line each
 *
 * It starts at llm/tinyllm.h (gnn/tinygnn.h) and follows #include "..." depth first, so that each file comes after
 * those that it needs. A header with an include guard is emitted once. If there is an x.c for x.h, it joins the bodies
 * in the same order. A file without a guard replaces its include. The includes of llm/tinyllm.c come last. The same
 * src/ always gives the same bytes.
 *
 * The header holds manual, options, declarations, bodies and, at the end, the kernels, which it includes again for each
 * SIMD target. The kernels are the files kernels.h that a #define TINYI_PASS_FILE names: those of math, if this header
 * has its bodies, and its own.
 * A program that defines TINYLLM_PARTS n compiles the bodies in n units, TINYLLM_PART 1 to n. Functions that are
 * otherwise static are then shared between them under names of this header.
 *
 * Both headers contain core and math. Types are declared once in a unit, by the first header. Functions are exported as
 * tinyllm_x and tinygnn_x, and a list of #defines makes tiny_x the one of the header included last. A unit with both
 * implementations holds one copy of the bodies, and the second header forwards to it. A function declared TINY_API
 * TINYI_EACH has a body in each header and is not forwarded.
 *
 * src/features.txt assigns each file to a feature. The body of a file whose feature can be left out is emitted between
 * #ifndef TINYI_NO_NAME and #endif. The switches of the user are evaluated where the implementation begins.
 * Declarations are always there.
 *
 * These are errors, with a sentence and exit status 1: an upward include; a name with two definitions or one that
 * foreign headers define as a macro; a public function that this program cannot rename or forward; two headers that do
 * not share the same core and math; a file without a feature; a use of another feature that is neither needed nor
 * tested by #ifndef TINYI_NO_NAME; a guard in a public header. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_TO_COME "#line 0000000\n"                 /* its number is known when all stands */

enum { SHARED_DECL, OWN_DECL, SHARED_BODY, OWN_BODY, INLINE_TEXT, PASS };
enum { MAX_FILES = 1000, MAX_NAMES = 20000, MAX_FUNCS = 2000, MAX_FEATURES = 200 };
enum { BASE, CHAT, RUN, TOOLS, LAB };

typedef struct text { char *s; size_t n, cap; } text;
typedef struct source {
    char path[200];
    char *raw, *code;
    int part, guarded, feature;
} source; /* code: raw, comments blanked */
typedef struct func {
    char *type, *name, *params, *args, *before, *after;
    int feature;
} func; /* before, after: its #if and #endif */
typedef struct feature {
    char name[32], *what;
    int wing, tier, need[16], n_need;
} feature; /* wing: a layer, 0 for core and math */

static source files[MAX_FILES];
static int n_files, n_order, order[MAX_FILES], n_queue, queue[MAX_FILES], public_part;
static func funcs[MAX_FUNCS];
static int n_funcs;
static struct { const char *name, *path; int wrapped; } names[MAX_NAMES];      /* wrapped: TINY_FN(name) */
static int n_names;
static feature features[MAX_FEATURES];
static struct { char path[100]; int feature, used; } patterns[MAX_FILES];
static int n_features, n_patterns;
static const char *src_dir, *out_temp;

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("stitch: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (out_temp) remove(out_temp);
    exit(1);
}

static void *grab(void *old, size_t n)
{
    void *p = realloc(old, n);
    if (!p) die("out of memory");
    return p;
}

static void put_n(text *t, const char *s, size_t n)
{
    if (t->n + n + 1 > t->cap) t->s = (char *)grab(t->s, t->cap = (t->n + n + 1) * 2);
    memcpy(t->s + t->n, s, n);
    t->s[t->n += n] = 0;
}
static void put(text *t, const char *format, ...)
{
    char line[4000];
    va_list args;
    va_start(args, format);
    if (vsnprintf(line, sizeof line, format, args) >= (int)sizeof line)
        die("a line is longer than %d bytes", (int)sizeof line);
    va_end(args);
    put_n(t, line, strlen(line));
}
static char *copy_n(const char *s, size_t n) { text t = { 0, 0, 0 }; put_n(&t, s, n); return t.s; }

static char *read_whole(const char *path)
{
    text t = { 0, 0, 0 };
    int c;
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    put_n(&t, "", 0);
    while ((c = getc(f)) != EOF)
        if (c != '\r') { char b = (char)c; put_n(&t, &b, 1); }
    if (t.n && t.s[t.n - 1] != '\n') put_n(&t, "\n", 1);
    fclose(f);
    return t.s;
}

/* The same length, comments as spaces. */
static char *blank_comments(const char *raw)
{
    char *s = copy_n(raw, strlen(raw)), quote = 0;
    size_t i;
    for (i = 0; s[i]; i++) {
        if (quote) {
            if (s[i] == '\\' && s[i + 1]) i++;
            else if (s[i] == quote || s[i] == '\n') quote = 0;
        } else if (s[i] == '"' || s[i] == '\'') {
            quote = s[i];
        } else if (s[i] == '/' && s[i + 1] == '*') {
            const char *close = strstr(raw + i + 2, "*/");
            size_t end = close ? (size_t)(close - raw) + 2 : strlen(raw);
            for (; i < end; i++)
                if (s[i] != '\n') s[i] = ' ';
            i--;
        } else if (s[i] == '/' && s[i + 1] == '/') {
            for (; s[i] && s[i] != '\n'; i++) s[i] = ' ';
            if (!s[i]) break;
        }
    }
    return s;
}

static int is_name(int c) { return isalnum((unsigned char)c) || c == '_'; }
static const char *line_end(const char *s) { const char *e = strchr(s, '\n'); return e ? e + 1 : s + strlen(s); }

/* The directive of a line ("include", "ifdef", ...) and what follows it; NULL when it is none. */
static const char *directive(const char *s, char word[20])
{
    size_t n = 0;
    while (*s == ' ' || *s == '\t') s++;
    if (*s != '#') return NULL;
    for (s++; *s == ' ' || *s == '\t'; s++) {}
    while (is_name(s[n]) && n < 19) { word[n] = s[n]; n++; }
    word[n] = 0;
    for (s += n; *s == ' ' || *s == '\t'; s++) {}
    return s;
}

/* core 0, math 1, llm 2, gnn 3 */
static int layer(const char *path)
{
    static const char *const dirs[] = { "core/", "math/", "llm/", "gnn/" };
    int i;
    for (i = 0; i < 4; i++)
        if (!strncmp(path, dirs[i], strlen(dirs[i]))) return i;
    return -1;
}

/* The path of an include of ours (with pass 0; "elsewhere/x.h" belongs to somebody else and stays as it is), or of the
 * kernels that a #define TINYI_PASS_FILE names (with pass 1). */
static int project_include(const char *code, char path[200], int pass)
{
    static const char pass_file[] = "TINYI_PASS_FILE ";
    char word[20];
    const char *s = directive(code, word);
    size_t n;
    if (!s || strcmp(word, pass ? "define" : "include")) return 0;
    if (pass && !strncmp(s, pass_file, sizeof pass_file - 1)) s += sizeof pass_file - 1;
    if (*s != '"') return 0;
    n = strcspn(++s, "\"\n");
    if (n >= 200) die("an include is too long: %.60s", s);
    memcpy(path, s, n);
    path[n] = 0;
    return layer(path) >= 0 || !strchr(path, '/');
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static void check_direction(const char *from, const char *to)
{
    int a = layer(from), b = layer(to);
    if (b < 0) die("src/%s includes \"%s\" without its folder: core/, math/, llm/ or gnn/", from, to);
    if (b > a) die("src/%s includes \"%s\": includes go from llm and gnn to math to core, never upward", from, to);
    if (a == 3 && b == 2)
        die("src/%s includes \"%s\": gnn and llm never see each other, what both need moves down to math", from, to);
}

/* ---- features ----------------------------------------------------------------------------------------------- */

static const char *const tier_names[] = { "BASE", "CHAT", "RUN", "TOOLS", "LAB" };
static const char *const wing_names[] = { "all", NULL, "llm", "gnn" };
static const char *const wing_macros[] = { "TINY", NULL, "TINYLLM", "TINYGNN" };

static int feature_named(const char *s, size_t n)
{
    int i;
    for (i = 0; i < n_features; i++)
        if (strlen(features[i].name) == n && !memcmp(features[i].name, s, n)) return i;
    return -1;
}

static int needs_of(int a, int b)
{
    int i;
    for (i = 0; i < features[a].n_need; i++)
        if (features[a].need[i] == b || needs_of(features[a].need[i], b)) return 1;
    return 0;
}

static int needs(int a, int b)                          /* b comes with a, or with what a's header always has */
{
    int i;
    if (a == b || features[b].tier == BASE || needs_of(a, b)) return 1;
    for (i = 0; i < n_features; i++)
        if (features[i].tier == BASE && features[i].wing == features[a].wing && needs_of(i, b)) return 1;
    return 0;
}

/* The next word of a line, at most 99 characters of it; 0: there is none. */
static int next_word(const char **s, char word[100])
{
    size_t n = 0;
    while (**s == ' ') ++*s;
    while (**s && **s != ' ' && **s != '\n' && n < 99) word[n++] = *(*s)++;
    word[n] = 0;
    return n > 0;
}

static int one_of(const char *word, const char *const *list, int n, const char *what)
{
    int i;
    for (i = 0; i < n; i++)
        if (list[i] && !strcmp(word, list[i])) return i;
    die("src/features.txt: %s is no %s", word, what);
    return -1;
}

static void read_features(void)
{
    char full[1000], word[100], *all;
    const char *s, *line;
    feature *f = NULL;
    size_t n;
    snprintf(full, sizeof full, "%s/features.txt", src_dir);
    all = read_whole(full);
    if (!all) die("there is no %s", full);
    for (line = all; *line; line = line_end(line)) {
        s = line;
        if (*s == '#' || *s == '\n') continue;
        if (*s != ' ') {
            if (n_features == MAX_FEATURES) die("more than %d features", MAX_FEATURES);
            f = &features[n_features];
            next_word(&s, word);
            if (strlen(word) >= sizeof f->name) die("src/features.txt: the name %s is too long", word);
            if (feature_named(word, strlen(word)) >= 0) die("src/features.txt: %s stands there twice", word);
            strcpy(f->name, word);
            next_word(&s, word);
            f->wing = one_of(word, wing_names, 4, "wing: all, llm or gnn");
            n = next_word(&s, word) ? strlen(word) : 0;
            if (!n || word[n - 1] != ':') die("src/features.txt: %s: behind the tier stands a colon", f->name);
            word[n - 1] = 0;
            f->tier = one_of(word, tier_names, 5, "tier: BASE, CHAT, RUN, TOOLS or LAB");
            while (next_word(&s, word)) {
                const int k = feature_named(word, strlen(word));
                if (k < 0) die("src/features.txt: %s needs %s, which does not stand before it", f->name, word);
                if (features[k].wing && features[k].wing != f->wing)
                    die("src/features.txt: %s needs %s of another header", f->name, word);
                if (f->n_need == 16) die("src/features.txt: %s needs too much", f->name);
                f->need[f->n_need++] = k;
            }
            n_features++;
            continue;
        }
        next_word(&s, word);
        if (!f) die("src/features.txt begins with no feature");
        if (!strcmp(word, "=")) {
            f->what = copy_n(s + 1, strcspn(s + 1, "\n"));
            continue;
        }
        if (n_patterns == MAX_FILES) die("src/features.txt: more than %d files", MAX_FILES);
        if (layer(word) < 0 || (layer(word) > 1 ? layer(word) : 0) != f->wing)
            die("src/features.txt: %s: %s is no file of its wing", f->name, word);
        strcpy(patterns[n_patterns].path, word);
        patterns[n_patterns++].feature = n_features - 1;
    }
    free(all);
    for (f = features; f < features + n_features; f++)
        if (!f->what) die("src/features.txt: %s has no sentence", f->name);
}

static int feature_of(const char *path)
{
    size_t best = 0, stem = strcspn(path, "."), n;
    int i, at = -1;
    for (i = 0; i < n_patterns; i++) {
        const char *p = patterns[i].path;
        n = strlen(p);
        if (p[n - 1] == '*' ? strncmp(p, path, n - 1) : strcmp(p, path) && (n != stem || strncmp(p, path, n))) continue;
        if (at < 0 || n >= best) { at = i; best = n; }
    }
    if (at < 0) die("src/%s belongs to no feature: src/features.txt is the list", path);
    patterns[at].used = 1;
    return patterns[at].feature;
}

static source *load(const char *path, const char *from)
{
    char full[1000], word[20];
    const char *s;
    source *f;
    int i;
    for (i = 0; i < n_files; i++)
        if (!strcmp(files[i].path, path)) return &files[i];
    if (n_files == MAX_FILES) die("more than %d files", MAX_FILES);
    f = &files[n_files];
    memset(f, 0, sizeof *f);
    snprintf(full, sizeof full, "%s/%s", src_dir, path);
    f->raw = read_whole(full);
    if (!f->raw && from) die("src/%s includes \"%s\", and there is no such file", from, path);
    if (!f->raw) return NULL;
    snprintf(f->path, sizeof f->path, "%s", path);
    f->code = blank_comments(f->raw);
    f->part = -1;
    f->feature = feature_of(path);
    for (s = f->code; *s; s = line_end(s)) {            /* a guard: the first directive is #ifndef ..._H */
        const char *what = directive(s, word);
        if (!what) continue;
        while (is_name(*what)) what++;
        f->guarded = !strcmp(word, "ifndef") && !strncmp(what - 2, "_H", 2);
        break;
    }
    n_files++;
    return f;
}

/* What no public header includes is x_inside.h, but for kernels, their targets and their vectors. */
#define PRIVATE "_inside.h"
static int names_its_place(const char *path)
{
    return ends_with(path, PRIVATE) || ends_with(path, ".simd.h") || ends_with(path, "kernels.h") ||
           !strncmp(path, "core/simd", 9) || strstr(path, "target.h");
}

/* Everything that a file needs, then the file itself, goes into the order. */
static void visit(const char *path, const char *from)
{
    char inc[200];
    source *f;
    const char *s;
    if (from) check_direction(from, path);
    f = load(path, from ? from : "stitch.c");
    if (f->part >= 0) return;
    f->part = INLINE_TEXT;
    for (s = f->code; *s; s = line_end(s))
        if (project_include(s, inc, 0) || project_include(s, inc, 1)) visit(inc, path);
    if (ends_with(path, "/kernels.h")) {
        f->part = PASS;
    } else if (f->guarded || ends_with(path, ".c")) {
        f->part = (layer(path) < 2 ? SHARED_DECL : OWN_DECL) + (public_part ? 0 : SHARED_BODY);
        order[n_order++] = (int)(f - files);
    }
    if (ends_with(path, ".h")) {
        const int n = (int)strlen(path), tail = ends_with(path, PRIVATE) ? (int)sizeof PRIVATE - 1 : 2;
        if (!public_part && !names_its_place(path)) die("src/%s is no public header: its name ends in " PRIVATE, path);
        snprintf(inc, sizeof inc, "%.*s.c", n - tail, path);
        f = load(inc, NULL);
        if (f && f->part < 0) queue[n_queue++] = (int)(f - files);
    }
}

static void collect(const char *dir, const char *name)
{
    char root[200], body[200];
    int i;
    n_files = n_order = n_queue = 0;
    snprintf(root, sizeof root, "%s/%s.h", dir, name);
    snprintf(body, sizeof body, "%s/%s.c", dir, name);
    public_part = 1;
    visit(root, NULL);
    public_part = 0;
    for (i = 0; i < n_queue; i++)
        if (strcmp(files[queue[i]].path, body)) visit(files[queue[i]].path, NULL);
    visit(body, NULL);
}

/* ---- names -------------------------------------------------------------------------------------------------- */

static void add_name(const char *s, size_t n, int wrapped, const char *path)
{
    static const char *const prefixes[] = { "tiny", "tli_", "tgi_", "tllm_", "tgnn_", "TINY" };
    int i;
    for (i = 0; i < 6 && strncmp(s, prefixes[i], strlen(prefixes[i])); i++) {}
    if (i == 6) return;                                 /* v_ names: each pass has its own */
    for (i = 0; i < n_names; i++)
        if (names[i].wrapped == wrapped && strlen(names[i].name) == n && !memcmp(names[i].name, s, n)) {
            if (strcmp(names[i].path, path))
                die("%.*s is defined in src/%s and in src/%s: all of src/ becomes one text", (int)n, s, names[i].path,
                    path);
            return;
        }
    if (n_names == MAX_NAMES) die("more than %d names", MAX_NAMES);
    names[n_names].name = copy_n(s, n);
    names[n_names].wrapped = wrapped;
    names[n_names++].path = copy_n(path, strlen(path));
}

/* Finds the include guard, `typedef ... name;` and `} name;`, each in a line of its own as the house writes them. */
static void find_types(const source *f)
{
    const char *s, *p, *q, *end;
    for (s = f->code; *s; s = *end ? end + 1 : end) {
        for (end = s; *end && *end != '\n'; end++) {}
        if (f->guarded && !strncmp(s, "#ifndef ", 8) && !strncmp(end - 2, "_H", 2)) {
            add_name(s + 8, (size_t)(end - s - 8), 0, f->path);
            continue;
        }
        if (strncmp(s, "typedef ", 8) && strncmp(s, "} ", 2)) continue;
        for (p = end; p > s && isspace((unsigned char)p[-1]); p--) {}
        if (p == s || *--p != ';') continue;
        if (p[-1] == ')' && (q = strstr(s, "(*")) != NULL && q < p) {
            for (p = q + 2, q = p; is_name(*p); p++) {}
        } else for (q = p; q > s && is_name(q[-1]); q--) {}
        if (p > q) add_name(q, (size_t)(p - q), 0, f->path);
    }
}

/* Finds `type name(...) {` and `type name[...] =` at file scope. A brace in column 0 closes whatever was open. */
static void find_definitions(const source *f)
{
    const char *s = f->code, *start = s, *p, *q;
    int depth = 0, level, wrapped;
    for (; *s; s++) {
        if (s == f->code || s[-1] == '\n') {
            const char *t = s;
            while (*t == ' ' || *t == '\t') t++;
            if (*t == '#') {                            /* skip the directive with its continuations */
                do s = line_end(s); while (s[-1] == '\n' && s - 2 >= f->code && s[-2] == '\\');
                start = s--;
                if (!s[1]) break;
                continue;
            }
            if (*s == '}') { depth = 0; start = s + 1; continue; }
        }
        if (*s == '"' || *s == '\'') {
            char quote = *s;
            for (s++; *s && *s != quote && *s != '\n'; s++)
                if (*s == '\\' && s[1]) s++;
            continue;
        }
        if (*s == '}') { if (depth) depth--; if (!depth) start = s + 1; continue; }
        if (depth) { depth += *s == '{'; continue; }
        if (*s == ';') { start = s + 1; continue; }
        if (*s != '{' && *s != '=') continue;
        depth += *s == '{';
        wrapped = 0;
        for (p = s; p > start && isspace((unsigned char)p[-1]); p--) {}
        if (*s == '{') {                                /* back over the parameter list */
            if (p == start || p[-1] != ')') continue;
            for (level = 0; p > start; p--) {
                level += (p[-1] == ')') - (p[-1] == '(');
                if (!level) { p--; break; }
            }
            wrapped = p > start && p[-1] == ')';        /* TINY_FN(name): in core, each target has a file */
            p -= wrapped;
        } else {
            while (p > start && p[-1] == ']') { while (p > start && p[-1] != '[') p--; if (p > start) p--; }
        }
        for (q = p; q > start && is_name(q[-1]); q--) {}
        if (p > q && !(wrapped && layer(f->path) == 0)) add_name(q, (size_t)(p - q), wrapped, f->path);
        if (*s == '=') {                                /* what follows is an initialiser */
            for (level = 0; *s && !(level == 0 && *s == ';'); s++) level += (*s == '{') - (*s == '}');
            if (!*s) break;
            start = s + 1;
        }
    }
}

/* ---- public functions --------------------------------------------------------------------------------------- */

static char *squeeze(const char *s, size_t n)           /* every run of white space is one space */
{
    text t = { 0, 0, 0 };
    size_t i;
    put_n(&t, "", 0);
    for (i = 0; i < n; i++) {
        if (!isspace((unsigned char)s[i])) put_n(&t, s + i, 1);
        else if (t.n && t.s[t.n - 1] != ' ') put_n(&t, " ", 1);
    }
    while (t.n && t.s[t.n - 1] == ' ') t.s[--t.n] = 0;
    return t.s;
}

/* The name of one parameter; an array and a pointer to a function have theirs in the middle. */
static void add_argument(const source *f, const func *fn, text *args, const char *s, size_t n)
{
    const char *e = s + n, *b, *star = s;
    while (star + 1 < e && !(star[0] == '(' && star[1] == '*')) star++;
    if (star + 1 < e) {
        for (e = star + 2; *e == ' '; e++) {}
        for (b = e; is_name(*e); e++) {}
    } else {
        while (e > s && (e[-1] == ' ' || e[-1] == ']')) {
            if (e[-1] == ']') while (e > s && e[-1] != '[') e--;
            e--;
        }
        for (b = e; b > s && is_name(b[-1]); b--) {}
        if (b == s) b = e;                              /* a type alone */
    }
    if (b == e) die("src/%s: %s has a parameter without a name", f->path, fn->name);
    if (args->n) put_n(args, ", ", 2);
    put_n(args, b, (size_t)(e - b));
}

static void add_function(const source *f, const char *s, const char *e, const char *before, const char *after)
{
    func *fn = &funcs[n_funcs++];
    text args = { 0, 0, 0 };
    const char *open = memchr(s, '(', (size_t)(e - s)), *b, *p, *first;
    int level = 0;
    if (n_funcs == MAX_FUNCS) die("more than %d public functions", MAX_FUNCS);
    if (!open || e[-1] != ')') die("src/%s: cannot read the declaration TINY_API %.60s", f->path, s);
    for (b = open; b > s && is_name(b[-1]); b--) {}
    fn->name = copy_n(b, (size_t)(open - b));
    if (strncmp(fn->name, "tiny_", 5)) die("src/%s: the public function %s is not named tiny_...", f->path, fn->name);
    fn->feature = f->feature;
    fn->type = squeeze(s, (size_t)(b - s));
    fn->params = squeeze(open + 1, (size_t)(e - 1 - (open + 1)));
    fn->before = copy_n(before, strlen(before));
    fn->after = copy_n(after, strlen(after));
    put_n(&args, "", 0);
    if (strstr(fn->params, "..."))
        die("src/%s: %s takes a variable number of arguments: it cannot be forwarded", f->path, fn->name);
    if (!*fn->params) die("src/%s: %s() must be %s(void)", f->path, fn->name, fn->name);
    for (p = first = fn->params; strcmp(fn->params, "void"); p++) {
        level += (*p == '(') - (*p == ')');
        if (*p && (*p != ',' || level)) continue;
        add_argument(f, fn, &args, first, (size_t)(p - first));
        if (!*p) break;
        first = p + 1;
    }
    fn->args = args.s;
}

/* Every TINY_API at the start of a line, with the conditions it stands under. */
static void find_functions(const source *f)
{
    char *open[32], word[20];
    int n_open = 0, i;
    const char *s, *e;
    for (s = f->code; *s; s = line_end(s)) {
        const char *what = directive(s, word);
        if (what) {
            for (e = line_end(s); e - s >= 2 && e[-2] == '\\'; e = line_end(e)) {}
            if (!strncmp(word, "if", 2)) {
                if (n_open == 32) die("src/%s: more than 32 nested conditions", f->path);
                open[n_open++] = copy_n(s, (size_t)(e - s));
            } else if (!strcmp(word, "endif")) {
                if (n_open-- == 0) die("src/%s: an #endif too many", f->path);
            } else if (n_open && !strncmp(word, "el", 2)) {
                text t = { 0, 0, 0 };
                put_n(&t, open[n_open - 1], strlen(open[n_open - 1]));
                put_n(&t, s, (size_t)(e - s));
                open[n_open - 1] = t.s;
            }
        } else if (!strncmp(s, "TINY_API ", 9)) {
            text before = { 0, 0, 0 }, after = { 0, 0, 0 };
            e = s + strcspn(s, ";{");
            if (*e != ';') die("src/%s: a public function has its body in the .c file: %.60s", f->path, s);
            put_n(&before, "", 0);
            put_n(&after, "", 0);
            for (i = 1; i < n_open; i++) { put_n(&before, open[i], strlen(open[i])); put_n(&after, "#endif\n", 7); }
            add_function(f, s + 9, e, before.s, after.s);
        }
    }
}

static func *function_named(const char *s, size_t n)
{
    int i;
    for (i = 0; i < n_funcs; i++)
        if (strlen(funcs[i].name) == n && !memcmp(funcs[i].name, s, n)) return &funcs[i];
    return NULL;
}

/* Names that other people's headers define as macros: windows.h, rpcndr.h, complex.h, termios.h, and gnu modes of
 * compilers. */
static void check_taken(const source *f)
{
    static const char *const taken[] = { "near",  "far",   "small", "hyper", "interface", "pascal",
                                         "cdecl", "linux", "unix",  "I",     "B0" };
    const char *s;
    size_t i, n;
    for (s = f->code; *s; s++) {
        if (*s == '"' || *s == '\'') {
            const char quote = *s;
            for (s++; *s && *s != quote && *s != '\n'; s++)
                if (*s == '\\' && s[1]) s++;
            if (!*s) break;
            continue;
        }
        if (!strncmp(s, "#include", 8)) { s = line_end(s) - 1; continue; }
        if (!is_name(*s) || (s > f->code && is_name(s[-1]))) continue;
        for (n = 0; is_name(s[n]); n++) {}
        for (i = 0; i < sizeof taken / sizeof taken[0]; i++)
            if (strlen(taken[i]) == n && !memcmp(taken[i], s, n))
                die("src/%s uses the name %s, which is a macro in headers that a user may include first", f->path,
                    taken[i]);
    }
}

/* In a shared header a public name may stand in its declaration and in macros only: inline code would be bound to the
 * header that came first, and a type of that name would be renamed with it. In a .c file: only what a header
 * declares. */
static void check_functions(const source *f)
{
    const char *s, *e;
    char word[20];
    int is_header = f->part == SHARED_DECL, depth = 0, under = 0;
    for (s = f->code; *s; s = line_end(s)) {
        if ((e = directive(s, word)) != NULL) {
            if (!strncmp(word, "if", 2)) {
                depth++;
                if (!under && !strcmp(word, "ifndef") && !strncmp(e, "TINYI_NO_", 9)) under = depth;
            }
            if (!strcmp(word, "endif") && depth-- == under) under = 0;
            while ((e = line_end(s)) - s >= 2 && e[-2] == '\\') s = e;
        } else if (!strncmp(s, "TINY_API ", 9)) {
            for (e = s + strcspn(s, "("); e > s && is_name(e[-1]); e--) {}
            if (!is_header && under)
                die("src/%s: the public function %.*s stands under #ifndef TINYI_NO_..: move it into a file of that "
                    "feature",
                    f->path, (int)strcspn(e, "("), e);
            if (!is_header && !function_named(e, strcspn(e, "(")))
                die("src/%s: the public function %.*s is declared in no header", f->path, (int)strcspn(e, "("), e);
            if (is_header) s += strcspn(s, ";");
        } else if (is_header) {
            for (e = s; *e && *e != '\n'; e++)
                if (is_name(*e) && (e == s || !is_name(e[-1]))) {
                    size_t n = 0;
                    while (is_name(e[n])) n++;
                    if (function_named(e, n))
                        die("src/%s: %.*s is a public function; inline code and types of a header cannot use its name",
                            f->path, (int)n, e);
                }
        }
    }
}

/* ---- uses of other features --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(names[*(const int *)a].name, names[*(const int *)b].name);
}

/* The file that defines a name; NULL: none, or a header. */
static const char *defined_in(const int *sorted, const char *s, size_t n)
{
    int low_end = 0, high = n_names;
    while (low_end < high) {
        const int mid = (low_end + high) / 2, at = sorted[mid], c = strncmp(names[at].name, s, n);
        if (!c && !names[at].name[n]) return ends_with(names[at].path, ".c") ? names[at].path : NULL;
        if (c < 0) low_end = mid + 1;
        else high = mid;
    }
    return NULL;
}

/* What core asks of math by name: the table of operations, the kernels, normal numbers. Everything else goes
 * downward. */
static int is_hook(const char *s, size_t n)
{
    static const char *const hooks[] = { "tinyi_op_row_at",    "tinyi_op_row_in",        "tinyi_op_row_of",
                                         "tinyi_kernel_from",  "tinyi_kernel_name",      "tinyi_kernels_bytes",
                                         "tinyi_kernels_fill", "tinyi_target_available", "tiny_rng_normal" };
    size_t i;
    for (i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (strlen(hooks[i]) == n && !memcmp(hooks[i], s, n)) return 1;
    return 0;
}

/* A header gives the name a stand-in for programs without the feature. */
static int stands_in(const char *s, size_t n)
{
    char define[120];
    int i;
    if (n >= 100) return 0;
    snprintf(define, sizeof define, "#define %.*s(", (int)n, s);
    for (i = 0; i < n_files; i++)
        if (ends_with(files[i].path, ".h") && strstr(files[i].code, define)) return 1;
    return 0;
}

/* A .c file uses what core and math bring to all, what its feature needs, and the rest behind a question only. */
static void check_uses(const source *f, const int *sorted)
{
    char word[20], open[32][200];
    const char *s, *path, *what;
    int n_open = 0, k;
    size_t n, skip;
    if (!ends_with(f->path, ".c")) return;
    for (s = f->code; *s; s++) {
        if (s == f->code || s[-1] == '\n') {
            what = directive(s, word);
            if (what && !strncmp(word, "if", 2) && n_open < 32)
                snprintf(open[n_open++], 199, "%s %.*s", word, (int)strcspn(what, "\n"), what);
            if (what && !strncmp(word, "el", 2) && n_open) {        /* an #else of #ifdef asks as #ifndef does */
                char *last = open[n_open - 1];
                if (!strcmp(word, "else") && !strncmp(last, "ifdef ", 6)) {
                    memmove(last + 7, last + 6, strlen(last + 6) + 1);
                    memcpy(last, "ifndef ", 7);
                } else last[0] = 0;
            }
            if (what && !strcmp(word, "endif") && n_open) n_open--;
            if (what && strcmp(word, "define")) { s = line_end(s) - 1; continue; }
        }
        if (*s == '"' || *s == '\'') {
            const char quote = *s;
            for (s++; *s && *s != quote && *s != '\n'; s++)
                if (*s == '\\' && s[1]) s++;
            if (!*s) break;
            continue;
        }
        if (!is_name(*s) || (s > f->code && is_name(s[-1]))) continue;
        for (n = 0; is_name(s[n]); n++) {}
        path = defined_in(sorted, s, n);
        if (!path || !strcmp(path, f->path)) continue;
        if (layer(path) > layer(f->path) && !is_hook(s, n))
            die("src/%s uses %.*s of src/%s: calls go from llm and gnn to math to core, never upward", f->path, (int)n,
                s, path);
        k = feature_of(path);
        if (needs(f->feature, k)) continue;
        skip = sizeof "GRADIENT(" - 1;
        if (!strcmp(features[k].name, "TRAIN") && s - f->code > (long)skip && !strncmp(s - skip, "GRADIENT(", skip))
            continue;
        {
            char ask[100];
            int i, asked = 0;
            snprintf(ask, sizeof ask, "ifndef TINYI_NO_%s", features[k].name);
            for (i = 0; i < n_open; i++) asked |= !strncmp(open[i], ask, strlen(ask)) && !is_name(open[i][strlen(ask)]);
            if (!asked && !stands_in(s, n))
                die("src/%s of %s uses %.*s of %s (src/%s): write the need into src/features.txt, or ask #ifndef "
                    "TINYI_NO_%s",
                    f->path, features[f->feature].name, (int)n, s, features[k].name, path, features[k].name);
        }
    }
}

static void check_all_uses(void)
{
    static int sorted[MAX_NAMES];
    int i;
    for (i = 0; i < n_names; i++) sorted[i] = i;
    qsort(sorted, (size_t)n_names, sizeof sorted[0], by_name);
    for (i = 0; i < n_files; i++)
        if (files[i].part >= 0) check_uses(&files[i], sorted);
}

/* ---- the header --------------------------------------------------------------------------------------------- */

static const char *low, *up, *base;                     /* tinyllm, TINYLLM, LLM */
static const char *low_of(int wing) { return wing == 2 ? "tinyllm" : "tinygnn"; }
static struct { size_t at; const char *what; } contents[MAX_FILES * 2];
static int n_contents;

static void section(text *t, const char *what)
{
    contents[n_contents].at = t->n;
    contents[n_contents++].what = copy_n(what, strlen(what));
}

static int optional(int f) { return features[f].tier != BASE; }
static void guard(text *t, int f) { if (optional(f)) put(t, "#ifndef TINYI_NO_%s\n", features[f].name); }
static void unguard(text *t, int f) { if (optional(f)) put(t, "#endif\n"); }

/* One file: includes of ours go, or are put in place; runs of empty lines become one. skip: bytes of a comment moved
 * elsewhere. What stands behind the mark of a public header moves to the implementation, and so do internal functions
 * that it declares: a compiler would warn of static functions without a body where only declarations are included. A
 * paragraph of nothing else moves as a whole. */
#define INSIDE "/* ---- inside:"
static text inner[2];

static int find_in(const char *from, const char *end, const char *what)
{
    const char *at = strstr(from, what);
    return at && at < end;
}

static int is_inner(const char *code) { return !strncmp(code, "TINYI_FN ", 9); }

static const char *inner_end(const source *f, const char *code)
{
    const char *e = code + strcspn(code, ";{");
    if (*e != ';') die("src/%s: an internal function has its body in the .c file: %.60s", f->path, code);
    return line_end(e);
}

/* The end of the paragraph at code, when it holds internal functions and comments and nothing else. */
static const char *inner_paragraph(const source *f, const char *raw, const char *code)
{
    int found = 0;
    while (*raw && *raw != '\n') {
        const char *e = line_end(code);
        if (is_inner(code)) { e = inner_end(f, code); found = 1; }
        else if ((size_t)(e - code) - 1 != strspn(code, " \t")) return NULL;
        raw += e - code;
        code = e;
    }
    return found ? code : NULL;
}

static void emit(text *t, const source *f, size_t skip)
{
    const char *s = f->raw + skip, *c = f->code + skip, *e;
    int is_public = f->part == SHARED_DECL || f->part == OWN_DECL, fresh = 1;
    char inc[200], word[20];
    int open = 0, inside = 0;
    for (; *s; s += e - c, c = e) {
        e = line_end(c);
        if (project_include(c, inc, 0)) {
            source *g = load(inc, f->path);
            if (!strcmp(inc, "core/each_target.h") || (f->part == PASS && !strncmp(inc, "core/simd", 9)))
                continue; /* see emit_kernels */
            if (g->part == PASS)
                die("src/%s includes \"%s\": a kernels.h is compiled through core/each_target.h", f->path, inc);
            if (g->part == INLINE_TEXT) {
                if (g->feature != f->feature) guard(t, g->feature);
                emit(t, g, 0);
                if (g->feature != f->feature) unguard(t, g->feature);
            }
            continue;
        }
        if (project_include(c, inc, 1)) {
            source *g = load(inc, f->path);
            if (g->part != PASS) die("src/%s: TINYI_PASS_FILE is \"%s\", not a kernels.h", f->path, inc);
            continue;
        }
        if (is_public) {
            text *in = &inner[f->part == OWN_DECL];
            const char *whole = fresh ? inner_paragraph(f, s, c) : NULL;
            if (!strncmp(s, INSIDE, sizeof INSIDE - 1)) { inside = 1; put(in, "/* %s */\n", f->path); continue; }
            if (inside && !strncmp(c, "TINYI_C_END", 11)) inside = 0;
            if (directive(c, word)) open += !strncmp(word, "if", 2) - !strcmp(word, "endif");
            fresh = *s == '\n';
            if (whole || is_inner(c)) {
                e = whole ? whole : inner_end(f, c);
                if (open > 1)
                    die("src/%s: under a condition an internal function cannot stand in a public header: %.60s",
                        f->path, c);
                if (whole && in->n > 1 && in->s[in->n - 2] != '\n') put_n(in, "\n", 1);
                guard(in, f->feature);
                put_n(in, s, (size_t)(e - c));
                unguard(in, f->feature);
                continue;
            }
            if (!inside && find_in(c, e, "tinyi_"))
                die("src/%s: what is not the user's stands behind the mark " INSIDE ": %.60s", f->path, c);
            if (inside) {
                if (*s != '\n' || in->s[in->n - 2] != '\n') put_n(in, s, (size_t)(e - c));
                continue;
            }
        }
        if (*s != '\n' || (t->n > 1 && t->s[t->n - 2] != '\n')) put_n(t, s, (size_t)(e - c));
    }
    if (t->n > 1 && t->s[t->n - 2] != '\n') put_n(t, "\n", 1);
}

static void emit_inner(text *t, int own)
{
    if (!inner[own].n) return;
    section(t, own ? "internal functions of this header" : "internal functions");
    put(t, "TINYI_C_BEGIN\n");
    put_n(t, inner[own].s, inner[own].n);
    put(t, "TINYI_C_END\n\n");
}

/* A body's place among the parts of a program that splits them: twelve slices, by length. */
enum { SLICES = 12 };
static int slice_of(int at)
{
    size_t before = 0, all = 0, n;
    int i;
    for (i = 0; i < n_order; i++) {
        const source *f = &files[order[i]];
        if (f->part != SHARED_BODY && f->part != OWN_BODY) continue;
        n = strlen(f->raw);
        if (i < at) before += n;
        all += n;
    }
    return (int)(before * SLICES / all);
}

/* with TINY_STATIC, what is left out has no body: it is declared, and not static */
#define STATIC_LEFT_OUT "#if defined TINY_STATIC && defined TINYI_NO_%s\n#undef TINY_API\n"
static void emit_part(text *t, int part, const char *root, size_t skip)
{
    char what[300];
    int i;
    for (i = 0; i < n_order; i++) {
        const source *f = &files[order[i]];
        if (f->part != part) continue;
        snprintf(what, sizeof what, "%s", f->path);
        section(t, what);
        if (part == SHARED_BODY || part == OWN_BODY) guard(t, f->feature);
        else if (optional(f->feature)) put(t, STATIC_LEFT_OUT "#define TINY_API\n#endif\n", features[f->feature].name);
        if (ends_with(f->path, ".c")) put(t, "#if TINYI_SLICE(%d)\n", slice_of(i));
        emit(t, f, strcmp(f->path, root) ? 0 : skip);
        if (ends_with(f->path, ".c")) put(t, "#endif\n");
        if (part == SHARED_BODY || part == OWN_BODY) unguard(t, f->feature);
        else if (optional(f->feature))
            put(t, STATIC_LEFT_OUT "#define TINY_API static TINYI_UNUSED\n#endif\n\n", features[f->feature].name);
    }
}

/* The text that the header includes again for each target. */
static void emit_kernels(text *t)
{
    int shared, i;
    section(t, "core/simd.h, the vectors of one target");
    emit(t, load("core/simd.h", "stitch.c"), 0);
    for (shared = 1; shared >= 0; shared--)
        for (i = 0; i < n_files; i++) {
            if (files[i].part != PASS || (layer(files[i].path) < 2) != shared) continue;
            section(t, files[i].path);
            if (shared) put(t, "#ifdef TINYI_PASS_SHARED\n");
            emit(t, &files[i], 0);
            if (shared) put(t, "#endif\n\n");
        }
    put(t,
        "static TINYI_UNUSED void TINY_FN(tinyi_pass_of_%s)(void) {}        /* clang warns of a pass without a "
        "function */\n",
        low);
    emit(t, load("core/simd_unname.h", "stitch.c"), 0);
}

/* What core and math share inside gets names of this header where it has external linkage: two headers may be split in
 * one program. */
static void emit_part_names(text *t)
{
    static const char *const suffix[] = { "scalar", "w128",     "neon",   "neondot",    "neonmm",
                                          "avx2",   "avx2vnni", "avx512", "avx512half", "amx" };
    const char *s, *e, *b;
    int i, j;
    for (i = 0; i < n_files; i++) {
        if (files[i].part < 0 || layer(files[i].path) > 1) continue;
        for (s = files[i].code; (s = strstr(s, "TINYI_FN ")) != NULL; s = e) {
            e = s + strcspn(s, "(;{");
            if (*e != '(' || e[1] == '*' || (s > files[i].code && is_name(s[-1]))) continue;
            for (b = e; b > s && (is_name(b[-1]) || b[-1] == '#'); b--) {}
            if (strncmp(b, "tinyi_", 6)) continue;
            if (!memchr(b, '#', (size_t)(e - b)))
                put(t, "#define %.*s %s_%.*s\n", (int)(e - b), b, low, (int)(e - b), b);
            else if (*b != 'x' && e[-7] == '#')
                for (j = 0; j < (int)(sizeof suffix / sizeof *suffix); j++)
                    put(t, "#define %.*s%s %s_%.*s%s\n", (int)(e - b) - 8, b, suffix[j], low, (int)(e - b) - 8, b,
                        suffix[j]);
        }
        for (s = files[i].code; *s && ends_with(files[i].path, ".c");
             s = line_end(s)) { /* those that a macro declares */
            if (!is_name(*s) || !strncmp(s, "static", 6) || !strncmp(s, "typedef", 7) || !strncmp(s, "TINY", 4))
                continue;
            e = s + strcspn(s, "(=;,\n");
            if (*e != '(') continue;
            for (b = e; b > s && is_name(b[-1]); b--) {}
            if (b > s && !strncmp(b, "tinyi_", 6))
                put(t, "#define %.*s %s_%.*s\n", (int)(e - b), b, low, (int)(e - b), b);
        }
        for (s = files[i].code; (s = strstr(s, "\nTINYI_ROW tinyi_row_")) != NULL; s += 11)
            put(t, "#define %.*s %s_%.*s\n", (int)strcspn(s + 11, " "), s + 11, low, (int)strcspn(s + 11, " "), s + 11);
    }
}

/* One prototype or, with body, one forwarder to the function of the other header. */
static void emit_function(text *t, const func *fn, const char *other)
{
    const char *space = fn->type[strlen(fn->type) - 1] == '*' ? "" : " ";
    if (other) guard(t, fn->feature);
    put_n(t, fn->before, strlen(fn->before));
    put(t, "TINY_API %s%s%s_%s(%s)", fn->type, space, low, fn->name + 5, fn->params);
    if (other && strncmp(fn->type, "TINYI_EACH ", 11))         /* those each header has its own body of */
        put(t, " { %s%s_%s(%s); }\n", strcmp(fn->type, "void") ? "return " : "", other, fn->name + 5, fn->args);
    else
        put(t, ";\n");
    put_n(t, fn->after, strlen(fn->after));
    if (other) unguard(t, fn->feature);
}

static unsigned long hash_shared(void)                  /* FNV-1a of what both headers must have in common */
{
    unsigned long h = 2166136261ul;
    const char *s;
    int i;
    for (i = 0; i < n_order; i++) {
        const source *f = &files[order[i]];
        if (f->part != SHARED_DECL) continue;
        for (s = f->path; *s; s++) h = ((h ^ (unsigned char)*s) * 16777619ul) & 0xfffffffful;
        for (s = f->code; *s; s++)
            if (!isspace((unsigned char)*s)) h = ((h ^ (unsigned char)*s) * 16777619ul) & 0xfffffffful;
    }
    return h;
}

/* What docs/dev/options.tsv says of a tier or feature: "seconds KB", or nothing. */
static const char *figures, *figures_path;
static void figure(text *t, const char *header, const char *what)
{
    char start[100];
    const char *at;
    snprintf(start, sizeof start, "\n%s\t%s\t", header, what);
    at = figures ? strstr(figures, start) : NULL;
    if (!at) { put(t, " | |"); return; }
    at += strlen(start);
    put(t, " %.*s |", (int)strcspn(at, "\t\n"), at);
    at += strcspn(at, "\t\n");
    put(t, " %.*s |", *at == '\t' ? (int)strcspn(at + 1, "\n") : 0, at + 1);
}

/* A line for each feature: for tests, or as the table of docs/guide/options.md. */
static text list_features(int table)
{
    static const char *const rows[] = { "DECLARATIONS", "RUN", "TOOLS", "LAB", "ALL", "BASE" };
    static const char *const says[] = {
        "declarations alone", "RUN, the default", "RUN and `_TOOLS`",
        "RUN and `_LAB`",     "`_ALL`",           "everything, before features could be chosen"
    };
    text t = { 0, 0, 0 };
    int i, k, tier;
    if (table) {
        figures = read_whole(figures_path);
        put(&t, "| | tinyllm.h: seconds | KB | tinygnn.h: seconds | KB |\n|---|---|---|---|---|\n");
        for (i = 0; i < 6; i++) {
            put(&t, "| %s |", says[i]);
            figure(&t, "tinyllm", rows[i]);
            figure(&t, "tinygnn", rows[i]);
            put(&t, "\n");
        }
        put(&t, "\n| feature | switch | needs | | seconds | KB |\n|---|---|---|---|---|---|\n");
    }
    for (tier = table ? CHAT : BASE; tier <= LAB; tier++)
        for (i = 0; i < n_features; i++) {
            const feature *f = &features[i];
            if (f->tier != tier) continue;
            if (table)
                put(&t, "| %s | %s: `%s_WITH_%s`, `%s_NO_%s` |", f->name, tier_names[f->tier], wing_macros[f->wing],
                    f->name, wing_macros[f->wing], f->name);
            else put(&t, "%s %s %s", wing_names[f->wing], tier_names[f->tier], f->name);
            for (k = 0; k < f->n_need; k++) put(&t, " %s", features[f->need[k]].name);
            put(&t, table ? " | %s |" : "\n", f->what);
            if (table) { figure(&t, f->wing == 3 ? "tinygnn" : "tinyllm", f->name); put(&t, "\n"); }
        }
    return t;
}

static void manual_features(text *t, int wing)
{
    int i, tier;
    for (tier = CHAT; tier <= LAB; tier++)
        for (i = 0; i < n_features; i++)
            if (features[i].tier == tier && (!features[i].wing || features[i].wing == wing))
                put(t, " *     %s_WITH_%-*s %-5s  %s\n", wing_macros[features[i].wing],
                    24 - (int)strlen(wing_macros[features[i].wing]) - 6, features[i].name, tier_names[tier],
                    features[i].what);
}

/* What the switches come to: TINYI_CANT_F where F or what it needs is refused, TINYI_NO_F where it is left out. Of core
 * and math the header that brings the bodies decides; where the other one is to be implemented in the same unit too,
 * all of it is there. */
static void emit_choice(text *t, int wing)
{
    const char *mine = wing_macros[wing], *theirs = wing_macros[wing == 2 ? 3 : 2];
    int i, k, shared;
    section(t, "the chosen features");
    if (wing == 2)
        put(t,
            "#if defined TINYLLM_ONLY_CHAT && (defined TINYLLM_ALL || defined TINYLLM_TOOLS || defined TINYLLM_LAB)\n"
            "#error \"tinyllm.h: TINYLLM_ONLY_CHAT excludes TINYLLM_TOOLS, TINYLLM_LAB and TINYLLM_ALL: "
            "choose one\"\n#endif\n");
    put(t, "#ifdef %s_ALL\n#undef %s_TOOLS\n#define %s_TOOLS 1\n#undef %s_LAB\n#define %s_LAB 1\n#endif\n", mine, mine,
        mine, mine, mine);
    for (i = 0; i < n_features; i++) {
        const feature *f = &features[i];
        const char *w = wing_macros[f->wing];
        if (f->wing && f->wing != wing) continue;
        for (k = 0; f->tier == BASE && k < f->n_need; k++)
            if (optional(f->need[k]))
                put(t,
                    "#ifdef TINYI_CANT_%s\n#error \"%s.h cannot do without %s: do not define %s_NO_%s, or the same for "
                    "a feature that it needs\"\n#endif\n",
                    features[f->need[k]].name, low_of(wing), features[f->need[k]].name,
                    wing_macros[features[f->need[k]].wing], features[f->need[k]].name);
        if (f->tier == BASE) continue;
        put(t, "#if defined %s_NO_%s", w, f->name);
        for (k = 0; k < f->n_need; k++)
            if (optional(f->need[k])) put(t, " || defined TINYI_CANT_%s", features[f->need[k]].name);
        put(t,
            "\n#undef TINYI_CANT_%s\n#define TINYI_CANT_%s 1\n#ifdef %s_WITH_%s\n#error \"%s.h: %s_WITH_%s, and "
            "%s_NO_%s",
            f->name, f->name, w, f->name, low_of(wing), w, f->name, w, f->name);
        for (k = 0; k < i; k++)
            if (optional(k) && needs_of(i, k)) put(t, " or %s_NO_%s", wing_macros[features[k].wing], features[k].name);
        put(t, " contradict each other: choose one\"\n#endif\n#endif\n");
    }
    for (shared = 0; shared < 2; shared++) {
        if (shared) put(t, "#ifndef TINYI_SHARED_IMPLEMENTED\n");
        for (i = n_features - 1; i >= 0; i--) {
            const feature *f = &features[i];
            int j;
            if (f->tier == BASE || (shared ? f->wing != 0 : f->wing != wing)) continue;
            put(t, "#undef TINYI_ON_%s\n#if !defined TINYI_CANT_%s && (defined %s_WITH_%s", f->name, f->name,
                wing_macros[f->wing], f->name);
            if (f->tier > RUN) put(t, " || defined %s_%s", mine, tier_names[f->tier]);
            else put(t, f->tier == CHAT || wing != 2 ? " || 1" : " || !defined TINYLLM_ONLY_CHAT");
            if (shared) put(t, " || defined %s_IMPLEMENTATION", theirs);
            for (j = i + 1; j < n_features; j++)
                for (k = 0; k < features[j].n_need; k++)
                    if (features[j].need[k] == i && (!features[j].wing || features[j].wing == wing)) {
                        if (optional(j)) put(t, " || defined TINYI_ON_%s", features[j].name);
                        else put(t, " || 1");
                    }
            put(t, ")\n#define TINYI_ON_%s 1\n#else\n#define TINYI_NO_%s 1\n#endif\n", f->name, f->name);
        }
        if (shared) {
            put(t, "#else\n");
            for (i = 0; i < n_features; i++) {
                int j;
                if (features[i].wing || !optional(i)) continue;
                put(t, "#if defined TINYI_NO_%s && (0", features[i].name);
                for (j = i + 1; j < n_features; j++)
                    for (k = 0; k < features[j].n_need; k++)
                        if (features[j].need[k] == i && features[j].wing == wing) {
                            if (optional(j)) put(t, " || defined TINYI_ON_%s", features[j].name);
                            else put(t, " || 1");
                        }
                put(t,
                    ")\n#error \"%s.h: the implementation of the first header lacks %s: define "
                    "%s_IMPLEMENTATION and its switches before the first of the two headers is included\"\n#endif\n",
                    low_of(wing), features[i].name, mine);
            }
            put(t, "#endif\n");
        }
    }
    put(t, "\n");
}

/* What is put together here may be wider than the files it comes from: lines of more than 120 columns are folded, and
 * the contents keep pointing at what they name. */
static text fold(const text *t)
{
    text to = { 0, 0, 0 };
    const char *s = t->s;
    int next = 0;
    while (*s) {
        const char *end = strchr(s, '\n'), *cut;
        const int directive = *s == '#', literal = !strncmp(s, "#error", 6), comment = *s == ' ' && s[1] == '*';
        const int ours = directive || comment || !strncmp(s, "TINY_API ", 9);    /* all else stands in src/ as it is */
        const char *const more = literal     ? "\\\n"
                                 : directive ? "\\\n    "
                                 : comment   ? "\n *                                 "
                                             : "\n    ";
        size_t at = 0, lead = 0;
        for (; next < n_contents && contents[next].at <= (size_t)(s - t->s); next++) contents[next].at = to.n;
        for (; ours && lead + (size_t)(end - s) > 120; lead = strlen(more) - 1) {
            for (cut = s + 118 - lead;
                 cut > s && (cut[-1] != ' ' || (!directive && !comment && !strchr(",)", cut[-2]))); cut--) {}
            if (cut == s) break;
            at = (size_t)(cut - s) - (directive ? 0 : 1);
            put_n(&to, s, at);
            put_n(&to, more, strlen(more));
            s = cut;
        }
        put_n(&to, s, (size_t)(end - s) + 1);
        s = end + 1;
    }
    return to;
}

/* "0.2.0", from TINY_VERSION_MAJOR, _MINOR and _PATCH in src/core/config.h */
static const char *version_of_src(void)
{
    static const char *const parts[] = { "MAJOR", "MINOR", "PATCH" };
    static char version[40];
    char name[40];
    size_t n = 0;
    int i, k;
    for (k = 0; k < 3; k++) {
        const char *at = NULL;
        snprintf(name, sizeof name, "#define TINY_VERSION_%s ", parts[k]);
        for (i = 0; i < n_files && !at; i++) at = strstr(files[i].raw, name);
        if (!at) die("no file of src/ has the line %sN", name);
        n += (size_t)snprintf(version + n, sizeof version - n, "%s%d", k ? "." : "", atoi(at + strlen(name)));
    }
    return version;
}

static text make_header(const char *dir, const char *name, const char *licence)
{
    text t = { 0, 0, 0 }, out = { 0, 0, 0 };
    const char *other = strcmp(name, "tinyllm") ? "tinyllm" : "tinygnn", *version = version_of_src();
    char root[200];
    const source *f;
    size_t skip, at, line;
    int i;

    snprintf(root, sizeof root, "%s/%s.h", dir, name);
    f = load(root, NULL);
    if (strncmp(f->raw, "/*", 2) || !strstr(f->raw, "*/"))
        die("src/%s does not begin with its manual, a comment", root);
    skip = (size_t)(strstr(f->raw, "*/") - f->raw) + 2;
    if (f->raw[skip] == '\n') skip++;

    section(&t, "the manual");
    {
        const char *mark = strstr(f->raw, "@features\n");
        if (!mark || mark > f->raw + skip) die("src/%s: the manual has no line @features", root);
        const char *here = strstr(f->raw, "@version");
        if (!here || here > mark) die("src/%s: the manual does not say @version before @features", root);
        put_n(&t, f->raw, (size_t)(here - f->raw));
        put(&t, "%s", version);
        here += strlen("@version");
        put_n(&t, here, (size_t)(mark - here));
        manual_features(&t, layer(root));
        mark = line_end(mark);
        put_n(&t, mark, (size_t)(f->raw + skip - mark));
    }
    put(&t, "\n#ifndef TINYI_STITCH_PART      /* else: this header includes itself for the kernels of a SIMD target */"
            "\n");
    section(&t, "options and names");
    put(&t, "#ifndef TINYI_STITCHED\n#define TINYI_STITCHED 1\n#endif\n");
    put(&t,
        "/* The bodies are linked from another file or an archive. */\n#ifdef %s_LINKED\n#undef "
        "%s_IMPLEMENTATION\n#endif\n",
        up, up);
    put(&t,
        "/* The name under which this file can include itself. */\n#ifndef %s_FILE\n#define %s_FILE \"%s.h\"\n#endif\n",
        up, up, name);
    put(&t, "/* %s_PARTS n: the bodies are split over n units of the program, %s_PART 1 to n. */\n", up, up);
    put(&t, "#if defined %s_PARTS && defined %s_IMPLEMENTATION && !defined TINYI_%s_DECLARED\n", up, up, base);
    put(&t, "#if !defined %s_PART || %s_PART < 1 || %s_PART > %s_PARTS || %s_PARTS > %d\n", up, up, up, up, up, SLICES);
    put(&t, "#error \"%s.h: %s_PARTS must be 1 to %d, and %s_PART the number of this unit, 1 to %s_PARTS\"\n#endif\n",
        name, up, SLICES, up, up);
    put(&t, "#if defined TINY_STATIC || defined TINYI_SHARED_DECLARED || defined %s_IMPLEMENTATION\n",
        strcmp(name, "tinyllm") ? "TINYLLM" : "TINYGNN");
    put(&t, "#error \"%s.h: with %s_PARTS a unit must include only this header, without TINY_STATIC\"\n#endif\n", name,
        up);
    put(&t, "#define TINYI_PARTED 1\n#define TINYI_SLICE(i) ((i) * %s_PARTS / %d == %s_PART - 1)\n", up, SLICES, up);
    put(&t, "#define TINYI_PASS_HERE(pass) ((pass) %% %s_PARTS == %s_PART %% %s_PARTS)\n", up, up, up);
    put(&t,
        "#if defined %s_ALL || (defined %s_TOOLS && defined %s_LAB)\n#define TINYI_PART_TIER all\n#elif defined "
        "%s_LAB\n#define TINYI_PART_TIER lab\n",
        up, up, up, up);
    put(&t, "#elif defined %s_TOOLS\n#define TINYI_PART_TIER tools\n#else\n#define TINYI_PART_TIER run\n#endif\n", up);
    put(&t,
        "#define TINYI_PART_NAME_(k, n, tier) %s_part_##k##_of_##n##_##tier\n#define TINYI_PART_OF(k, n, tier) "
        "TINYI_PART_NAME_(k, n, tier)\n",
        low);
    put(&t, "#define TINYI_PART_NAME(k) TINYI_PART_OF(k, %s_PARTS, TINYI_PART_TIER)\n", up);
    put(&t, "#endif\n");
    put(&t, "\n#if defined %s_IMPLEMENTATION && !defined TINYI_%s_IMPLEMENTED\n", up, base);
    emit_choice(&t, layer(root));
    put(&t, "#endif\n\n");
    put(&t, "/* TINY_STATIC: functions are static only where the bodies are, so that other files compile without "
            "warnings. */\n#undef TINY_API\n");
    put(&t, "#if defined TINY_STATIC && defined %s_IMPLEMENTATION\n#define TINY_API static TINYI_UNUSED\n", up);
    put(&t, "#if defined TINYI_%s_DECLARED && !defined TINYI_%s_IMPLEMENTED\n", base, base);
    put(&t, "#error \"with TINY_STATIC, define %s_IMPLEMENTATION before the first include of %s.h\"\n#endif\n", up,
        name);
    put(&t, "#else\n#define TINY_API\n#endif\n");
    put(&t, "#if defined TINYI_SHARED_DECLARED && TINYI_SHARED_DECLARED != 0x%08lx\n", hash_shared());
    put(&t, "#error \"tinyllm.h and tinygnn.h have different versions: use two of the same version\"\n#endif\n\n");
    put(&t, "/* Shared functions have a link name of their own in each header. tiny_x is that of the header included "
            "last. */\n#ifndef TINYI_OPEN\n");
    for (i = 0; i < n_funcs; i++)
        put(&t, "#undef %s\n#define %s %s_%s\n", funcs[i].name, funcs[i].name, name, funcs[i].name + 5);
    put(&t, "#endif\n");
    put(&t, "\n#ifndef TINYI_SHARED_DECLARED\n#define TINYI_SHARED_DECLARED 0x%08lx\n\n", hash_shared());
    emit_part(&t, SHARED_DECL, root, 0);
    put(&t, "#elif !defined TINYI_%s_DECLARED\n", base);
    section(&t, "declarations of the shared functions, if the other header came first");
    put(&t, "TINYI_C_BEGIN\n");
    for (i = 0; i < n_funcs; i++) emit_function(&t, &funcs[i], NULL);
    put(&t, "TINYI_C_END\n#endif\n\n#ifndef TINYI_%s_DECLARED\n#define TINYI_%s_DECLARED 1\n\n", base, base);
    emit_part(&t, OWN_DECL, root, skip);
    put(&t, "#endif\n\n#if defined %s_IMPLEMENTATION && !defined TINYI_%s_IMPLEMENTED\n", up, base);
    put(&t, "/* turns -ffast-math of gcc off for all bodies and for the intrinsics that they include */\n");
    put(&t, "#if defined __GNUC__ && !defined __clang__ && defined __FAST_MATH__\n#define TINYI_FAST_MATH_OFF 1\n");
    put(&t, "#pragma GCC push_options\n#pragma GCC optimize(\"no-fast-math\")\n#endif\n");
    put(&t, "/* The passes are more text than gcc can number columns for. gcc -Wall would then report that it stops\n"
            " * checking indentation; a #line, although it changes nothing, prevents that. */\n#if defined __GNUC__ && "
            "!defined __clang__\n" LINE_TO_COME "#endif\n");
    put(&t, "#if TINYI_PARTED\n");
    emit_part_names(&t);
    put(&t, "#endif\n");
    put(&t,
        "#define TINYI_%s_IMPLEMENTED 1\n#ifndef TINYI_SHARED_IMPLEMENTED\n#define TINYI_SHARED_IMPLEMENTED 1\n#define "
        "TINYI_PASS_SHARED 1\n\n",
        base);
    emit_inner(&t, 0);
    emit_part(&t, SHARED_BODY, root, 0);
    put(&t, "#else\n");
    section(&t, "the shared functions forward to the other header, if that has their bodies");
    for (i = 0; i < n_funcs; i++) emit_function(&t, &funcs[i], other);
    put(&t, "#endif\n\n");
    emit_inner(&t, 1);
    emit_part(&t, OWN_BODY, root, 0);
    section(&t, "the kernels of each target: this header again");
    put(&t, "#define TINYI_STITCH_PART 1\n#define TINYI_PASS_FILE %s_FILE\n", up);
    emit(&t, load("core/each_target.h", "stitch.c"), 0);
    put(&t, "#undef TINYI_STITCH_PART\n#undef TINYI_PASS_SHARED\n");
    put(&t, "#if TINYI_PARTED                          /* each part names all others: a missing one, or one with other "
            "tiers, is a link error */\n");
    put(&t, "TINYI_C_BEGIN\n");
    for (i = 1; i <= SLICES; i++)
        put(&t, "#if %s_PARTS >= %d\nextern const char *const TINYI_PART_NAME(%d)[];\n#endif\n", up, i, i);
    put(&t, "const char *const TINYI_PART_NAME(%s_PART)[] = {\n", up);
    for (i = 1; i <= SLICES; i++)
        put(&t, "#if %s_PARTS >= %d && %s_PART != %d\n    (const char *)TINYI_PART_NAME(%d),\n#endif\n", up, i, up, i,
            i);
    put(&t, "    NULL\n};\nTINYI_C_END\n#endif\n");
    put(&t, "#ifdef TINYI_FAST_MATH_OFF\n#undef TINYI_FAST_MATH_OFF\n#pragma GCC pop_options\n");
    put(&t, "#ifndef __FAST_MATH__                      /* gcc 12 does not restore it */\n#define __FAST_MATH__ "
            "1\n#endif\n#endif\n");
    put(&t, "#endif /* %s_IMPLEMENTATION */\n\n#else /* TINYI_STITCH_PART */\n", up);
    emit_kernels(&t);
    put(&t, "#endif /* TINYI_STITCH_PART */\n");
    if (licence) {
        section(&t, "the licence");
        put(&t, "\n/*\n");
        put_n(&t, licence, strlen(licence));
        put(&t, "*/\n");
    }

    t = fold(&t);
    put(&out, "/* %s.h %s - made from src/ by src/stitch.c. Do not edit it: change src/ and run make stitch\n *\n",
        name, version);
    line = 4 + (size_t)n_contents; /* these two lines, one for each entry, the end and an empty one */
    for (i = 0, at = 0; i < n_contents; i++) {
        for (; at < contents[i].at; at++) line += t.s[at] == '\n';
        put(&out, " * %7lu  %s\n", (unsigned long)line + 1, contents[i].what);
    }
    put(&out, " */\n\n");
    put_n(&out, t.s, t.n);
    return out;
}

/* writes into the #line what follows it */
static void number_line(text *t)
{
    char *at = strstr(t->s, LINE_TO_COME), digits[16], *p;
    long line = 2;
    if (!at) return;
    for (p = t->s; p < at; p++) line += *p == '\n';
    snprintf(digits, sizeof digits, "%07ld", line);
    memcpy(at + strlen("#line "), digits, 7);
}

int main(int argc, char **argv)
{
    static const char *const roots[2][4] = { { "llm", "tinyllm", "TINYLLM", "LLM" },
                                             { "gnn", "tinygnn", "TINYGNN", "GNN" } };
    text shared[2] = { { 0, 0, 0 }, { 0, 0, 0 } }, out;
    char path[1000], temp[1000], *licence;
    FILE *f;
    int which, i, k;
    if (argc != 4) die("usage: stitch SRCDIR tinyllm|tinygnn|options|features OUT");
    src_dir = argv[1];
    read_features();
    snprintf(path, sizeof path, "%s/../docs/dev/options.tsv", src_dir);
    figures_path = path;
    if (!strcmp(argv[2], "options") || !strcmp(argv[2], "features")) {
        out = list_features(argv[2][0] == 'o');
        f = fopen(argv[3], "wb");
        if (!f || fwrite(out.s, 1, out.n, f) != out.n || fclose(f)) die("cannot write %s", argv[3]);
        return 0;
    }
    for (which = 0; which < 2 && strcmp(argv[2], roots[which][1]); which++) {}
    if (which == 2) die("%s is neither tinyllm nor tinygnn", argv[2]);

    for (k = 0; k < 2; k++) {                           /* the other header first: its names count too */
        int one = k ? which : 1 - which;
        collect(roots[one][0], roots[one][1]);
        for (i = 0; i < n_order; i++)
            if (layer(files[order[i]].path) < 2) put(&shared[k], "%d %s\n", files[order[i]].part, files[order[i]].path);
        for (i = 0; i < n_files; i++)
            if (files[i].part >= 0) { find_types(&files[i]); find_definitions(&files[i]); check_taken(&files[i]); }
    }
    check_all_uses();
    if (strcmp(shared[0].s ? shared[0].s : "", shared[1].s ? shared[1].s : ""))
        die("llm/tinyllm and gnn/tinygnn do not include the same files of core/ and math/ in the same order");
    for (i = 0; i < n_order; i++)
        if (files[order[i]].part == SHARED_DECL) find_functions(&files[order[i]]);
    for (i = 0; i < n_order; i++)
        if (files[order[i]].part == SHARED_DECL || files[order[i]].part == SHARED_BODY)
            check_functions(&files[order[i]]);

    low = roots[which][1];
    up = roots[which][2];
    base = roots[which][3];
    snprintf(path, sizeof path, "%s/../LICENSE", src_dir);
    licence = read_whole(path);
    out = make_header(roots[which][0], low, licence);
    number_line(&out);

    snprintf(temp, sizeof temp, "%s.%lx.part", argv[3], (unsigned long)time(NULL) ^ (unsigned long)(size_t)&out);
    f = fopen(temp, "wb");
    if (!f) die("cannot write %s", temp);
    out_temp = temp;
    if (fwrite(out.s, 1, out.n, f) != out.n || fclose(f)) die("cannot write %s: is the disk full?", temp);
    if (rename(temp, argv[3])) die("cannot rename %s to %s", temp, argv[3]);
    return 0;
}
