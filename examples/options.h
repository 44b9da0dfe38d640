/* examples/options.h - how the programs of this folder read a command line, stop on a signal and report errors
 *
 *     #include "tinyllm.h"
 *     #define PROGRAM "judge"                              the name before every message
 *     #include "options.h"
 *
 *     const option options[] = {
 *         THE_WORD("model", &path), A_TEXT("--against", &base), A_WHOLE("--stories", &stories, 1, 1e7),
 *         A_TARGET("--target", &desc.target), A_FLAG("--json", &json) };
 *     READ_OPTIONS(argc, argv, usage, options);
 *
 * READ_OPTIONS returns only if the command line is valid. It ends the program with status 0 after --help or -h, and
 * with status 2 and a message at the first invalid word: an unknown option, a missing value, a number that is malformed
 * or out of range. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __unix__ || defined __APPLE__
#define OPTIONS_UNIX 1
#include <sys/stat.h>
#include <unistd.h>
#elif defined _WIN32
#include <io.h>
#endif

/* ---- the table */

/* Letters and a blank before the name of an option, as in "tq --epochs": only the commands that begin with one of
 * these letters take it. */
typedef struct option { const char *name; int kind; void *to; double least, most; } option;
typedef struct word_list { char *at[64]; int n; } word_list;

/* OPTION_COMMAND and later: words that are not options */
enum {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_ANY_TEXT,
    OPTION_WHOLE,
    OPTION_SEED,
    OPTION_NUMBER,
    OPTION_TARGET,
    OPTION_LIST,
    OPTION_COMMAND,
    OPTION_THE_WORD,
    OPTION_WORD,
    OPTION_WORDS
};

#define OPTION_TO(type, to) \
    (1 ? (to) : (type *)NULL) /* to; the compiler checks its type */

#define A_FLAG(name, to)                            \
    {                                               \
        name, OPTION_FLAG, OPTION_TO(int, to), 0, 0 \
    } /* becomes 1 */
#define A_TEXT(name, to)                                     \
    {                                                        \
        name, OPTION_TEXT, OPTION_TO(const char *, to), 0, 0 \
    } /* not empty */
#define ANY_TEXT(name, to)               { name, OPTION_ANY_TEXT, OPTION_TO(const char *, to), 0, 0 }
#define A_WHOLE(name, to, least, most)                      \
    {                                                       \
        name, OPTION_WHOLE, OPTION_TO(int, to), least, most \
    } /* decimal digits */
#define A_SEED(name, to)                                    \
    {                                                       \
        name, OPTION_SEED, OPTION_TO(uint64_t, to), 0, 2e19 \
    } /* a whole number of 64 bits */
#define A_COUNT(name, to)                                   \
    {                                                       \
        name, OPTION_SEED, OPTION_TO(uint64_t, to), 1, 2e19 \
    } /* the same, at least 1 */
#define A_NUMBER(name, to, least, most)  { name, OPTION_NUMBER, OPTION_TO(double, to), least, most }
#define A_TARGET(name, to)                                    \
    {                                                         \
        name, OPTION_TARGET, OPTION_TO(tiny_target, to), 0, 0 \
    } /* avx2, neon ... */
#define A_LIST(name, to, most)                               \
    {                                                        \
        name, OPTION_LIST, OPTION_TO(word_list, to), 0, most \
    } /* may be given often */
#define A_COMMAND(list, to)                            \
    {                                                  \
        list, OPTION_COMMAND, OPTION_TO(int, to), 0, 0 \
    } /* first row: the first word is one of "train infer": 0, 1 */
#define THE_WORD(what, to)                                       \
    {                                                            \
        what, OPTION_THE_WORD, OPTION_TO(const char *, to), 0, 0 \
    } /* required: without it the usage is printed */
#define A_WORD(what, to)                                     \
    {                                                        \
        what, OPTION_WORD, OPTION_TO(const char *, to), 0, 0 \
    } /* optional */
#define WORDS(to, most)                                     \
    {                                                       \
        "", OPTION_WORDS, OPTION_TO(word_list, to), 0, most \
    } /* all other words */

/* ---- messages */

/* Some messages of the library begin with this name already: it is printed once. */
static inline void say(const char *sentence)
{
    fprintf(stderr, "%s%s\n", strncmp(sentence, PROGRAM ": ", sizeof PROGRAM + 1) ? PROGRAM ": " : "", sentence);
}

/* For memory without which a program cannot go on. */
static inline void *need(void *p)
{
    if (!p) {
        say("out of memory");
        exit(1);
    }
    return p;
}
static inline float *floats(tiny_idx n) { return (float *)need(calloc((size_t)n + 1, sizeof(float))); }

/* The command line is invalid: return refused(...) or wrong(...) from main. */
static inline int refused(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(PROGRAM ": ", stderr);
    (void)vfprintf(stderr, format, args);
    fputs("\n" PROGRAM " --help tells more\n", stderr);
    va_end(args);
    return 2;
}
static inline int wrong(const char *what, const char *why) { return refused("%s: %s", what, why); }

/* The log of a context, whose address is desc.user: prints warnings, and why no context was opened. Later errors are in
 * its message. */
static inline void hear(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_WARNING || (level == TINY_LOG_ERROR && !*(tiny_ctx **)user)) say(sentence);
}

/* For the end of main: fails if standard output could not be written. */
static inline int exit_status(int status)
{
    if (!fflush(stdout) && !ferror(stdout)) return status;
    say("standard output could not be written");
    return 1;
}

/* ---- reading */

/* 1: the whole text is a number in this range: no space, no nan, no 0x, nothing after it. */
static inline int is_number(const char *text, double least, double most, double *x)
{
    char *end;
    *x = strtod(text, &end);
    return *text && !text[strspn(text, "0123456789.+-eE")] && !*end && *x >= least && *x <= most;
}
static inline int is_whole(const char *text, double least, double most, uint64_t *n)
{
    const char *at = text;
    for (*n = 0; *at >= '0' && *at <= '9' && *n <= (UINT64_MAX - (uint64_t)(*at - '0')) / 10; at++)
        *n = 10 * *n + (uint64_t)(*at - '0');
    return *text && !*at && (double)*n >= least && (double)*n <= most;
}

/* FILE=NUMBER becomes FILE and the number; without one it is 1. */
static inline int is_scaled(char *text, double least, double most, double *x)
{
    char *cut = strrchr(text, '=');
    *x = 1;
    if (cut && (cut == text || !is_number(cut + 1, least, most, x))) return 0;
    if (cut) *cut = 0;
    return 1;
}
/* FIRST-LAST, from 1 to most */
static inline int is_range(const char *text, long most, long *first, long *last)
{
    char *end;
    *first = strtol(text, &end, 10);
    *last = *end == '-' ? strtol(end + 1, &end, 10) : 0;
    return !text[strspn(text, "0123456789-")] && !*end && *first >= 1 && *first <= *last && *last <= most;
}

/* ---- whole texts: each has a limit, because a pipe or a device may never end */

#define MOST_TEXT     ((size_t)256 << 20)   /* bytes of a text */
#define MOST_LINE     ((size_t)16 << 20)    /* of one line of it */
#define MOST_SETTINGS ((size_t)1 << 20)     /* of a configuration or the description of a network */

static inline char *no_text(const char *name, char *text, const char *why)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", name, why);
    free(text);
    return NULL;
}

/* At most `most` bytes of a stream, and a 0 that *n does not count; the caller frees them. NULL: the reason was
 * printed. A longer stream is refused, or with `cut` read only up to there. */
static inline char *read_stream(FILE *f, const char *name, size_t most, int cut, size_t *n)
{
    size_t room = most < 65536 ? most + 1 : 65536;
    char *text = (char *)malloc(room + 1), *more;
    for (*n = 0; text; text = more) {
        *n += fread(text + *n, 1, room - *n, f);
        if (ferror(f)) return no_text(name, text, "cannot be read");     /* a folder can be opened, but not read */
        if (*n > most) break;
        if (*n < room) return text[*n] = 0, text;
        room = room > most / 2 ? most + 1 : 2 * room;
        more = (char *)realloc(text, room + 1);
        if (!more) free(text);
    }
    if (!text) return no_text(name, NULL, "there is no memory for it");
    if (cut) return text[*n = most] = 0, text;
    fprintf(stderr, PROGRAM ": %s: it has more than %.16g bytes, the limit\n", name, (double)most);
    free(text);
    return NULL;
}

/* The same of a file; "-" is standard input. */
static inline char *read_text(const char *path, size_t most, int cut, size_t *n)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    char *text;
    if (!f) return fprintf(stderr, PROGRAM ": %s: cannot be opened: %s\n", path, strerror(errno)), (char *)NULL;
    text = read_stream(f, f == stdin ? "standard input" : path, most, cut, n);
    if (f != stdin) (void)fclose(f);
    return text;
}

/* The next line of standard input without its end, terminated by a 0. 0: *line is that line, or NULL at the end of the
 * input. 1: the line is longer than MOST_LINE, or there is no memory for it; the reason was printed. */
static inline int read_line(char **line, size_t *n, unsigned long number)
{
    size_t room = 256;
    char *text = (char *)malloc(room), *more;
    int c = EOF;
    *line = NULL;
    *n = 0;
    while (text && (c = getchar()) != EOF && c != '\n') {
        if (*n == MOST_LINE) {
            fprintf(stderr, PROGRAM ": line %lu has more than %lu bytes, the limit of a line\n", number,
                    (unsigned long)MOST_LINE);
            free(text);
            return 1;
        }
        if (*n + 2 > room) {
            more = (char *)realloc(text, room *= 2);
            if (!more) free(text);
            text = more;
        }
        if (text) text[(*n)++] = (char)c;
    }
    if (!text) return fprintf(stderr, PROGRAM ": there is no memory for line %lu\n", number), 1;
    text[*n] = 0;
    if (c == EOF && !*n) free(text);
    else *line = text;
    return 0;
}

/* ---- files that are written, and must not be files that are read */

/* Two names of one file, also through links; on other systems only the names are compared. */
static inline int same_file(const char *a, const char *b)
{
#ifdef OPTIONS_UNIX
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
#elif defined _WIN32
    char x[_MAX_PATH], y[_MAX_PATH];
    return _fullpath(x, a, sizeof x) && _fullpath(y, b, sizeof y) && !_stricmp(x, y);
#else
    return !strcmp(a, b);
#endif
}
static inline int is_folder(const char *path)
{
#ifdef OPTIONS_UNIX
    struct stat x;
    return !stat(path, &x) && S_ISDIR(x.st_mode);
#else
    (void)path;                             /* writing to it fails */
    return 0;
#endif
}

static inline int has_end(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* The same, or `to` is read together with `from`: another part of a split model (m-00001-of-00003.gguf), or the
 * tokenizer next to a .bin of llama2.c. */
static inline int is_part_of(const char *to, const char *from)
{
    const char *slash = strrchr(from, '/');
    const size_t n = strlen(from), folder = slash ? (size_t)(slash + 1 - from) : 0;
    char name[1100], *at;
    long i, parts;
    if (same_file(to, from)) return 1;
    if (has_end(from, ".bin"))
        return has_end(to, ".bin") && !strncmp(to, from, folder) && !strncmp(to + folder, "tok", 3) &&
               same_file(to, to);
    if (n < 20 || n > 1000 || !has_end(from, ".gguf") || strncmp(from + n - 14, "-of-", 4) || from[n - 20] != '-')
        return 0;
    parts = strtol(from + n - 10, NULL, 10);
    memcpy(name, from, n + 1);
    for (at = name + n - 19, i = 1; i <= parts && i < 100000; i++) {
        (void)snprintf(at, 100, "%05ld-of-%s", i, from + n - 10);
        if (same_file(to, name)) return 1;
    }
    return 0;
}

/* 0 if no input would be overwritten, else 2 and a message. `to` is the file to be written, or NULL; then come the
 * names of n files that are read, any of which may be NULL. A file is written as to.part first, so that name must not
 * be an input either. A device is written directly, a folder never. */
static inline int must_not_write(const char *to, int n, ...)
{
    va_list args;
    char *part = to ? (char *)malloc(strlen(to) + sizeof ".part") : NULL;
    int k, bad = 0;
    if (part) (void)sprintf(part, "%s.part", to);
    if (to && is_folder(to)) bad = wrong(to, "this is a folder, which is not overwritten");
    va_start(args, n);
    for (k = 0; k < n && to && !bad; k++) {
        const char *from = va_arg(args, const char *);
        if (!from) continue;
        if (is_part_of(to, from)) bad = refused("%s: this file is read, so nothing is written to it", to);
        else if (part && is_part_of(part, from))
            bad = refused("%s: the input %s would be overwritten while %s is written", to, from, to);
    }
    va_end(args);
    free(part);
    return bad;
}

/* 0 unless two options name one file to write; else 2 and a message */
static inline int same_output(const char *a, const char *b)
{
    if (!a || !b || (strcmp(a, b) && !same_file(a, b))) return 0;
    return refused("%s: two options would write this file", a);
}

/* 0, or 2 and a message, as wrong() */
static inline int read_value(const option *o, const char *name, char *value)
{
    word_list *list = (word_list *)o->to;
    uint64_t n;
    double x;
    if (o->kind == OPTION_FLAG) return *(int *)o->to = 1, 0;
    if (!value || (!*value && o->kind != OPTION_ANY_TEXT)) return wrong(name, "a value is missing");
    if (o->kind == OPTION_TEXT || o->kind == OPTION_ANY_TEXT) return *(const char **)o->to = value, 0;
    if (o->kind == OPTION_LIST && list->n < (int)o->most) return list->at[list->n++] = value, 0;
    if (o->kind == OPTION_LIST) return wrong(name, "too many of these options");
    if (o->kind == OPTION_NUMBER && is_number(value, o->least, o->most, &x)) return *(double *)o->to = x, 0;
    if (o->kind == OPTION_WHOLE && is_whole(value, o->least, o->most, &n)) return *(int *)o->to = (int)n, 0;
    if (o->kind == OPTION_SEED && is_whole(value, o->least, o->most, &n)) return *(uint64_t *)o->to = n, 0;
    if (o->kind == OPTION_TARGET && (*(tiny_target *)o->to = tiny_target_by_name(value)) != TINY_TARGET_COUNT) return 0;
    if (o->kind == OPTION_TARGET) return refused("%s takes a target that --help names, not %s", name, value);
    if (o->kind == OPTION_SEED)
        return refused("%s takes a whole number %sbelow 2^64, not %s", name, o->least > 0 ? "from 1 on, " : "", value);
    return refused("%s takes a %s from %.16g to %.16g, not %s", name,
                   o->kind == OPTION_NUMBER ? "number" : "whole number", o->least, o->most, value);
}

/* A word that is not an option goes to the first free place. */
static inline int read_word(const option *list, size_t n, char *word)
{
    const char *last = NULL;
    size_t k;
    for (k = 0; k < n; k++) {
        const option *o = &list[k];
        word_list *words = (word_list *)o->to;
        if (o->kind == OPTION_WORDS && words->n < (int)o->most) return words->at[words->n++] = word, 0;
        if (o->kind != OPTION_THE_WORD && o->kind != OPTION_WORD) continue;
        if (!*(const char **)o->to) return *(const char **)o->to = word, 0;
        last = o->name;
    }
    return last ? refused("a second %s: %s", last, word) : wrong(word, "one word too many");
}

/* The index of a word in a list separated by spaces; -1: it is not there. */
static inline int place_in(const char *list, const char *word)
{
    const size_t n = strlen(word);
    int place = 0;
    for (; *list; list += strcspn(list, " "), list += *list == ' ', place++)
        if (n && strcspn(list, " ") == n && !strncmp(list, word, n)) return place;
    return -1;
}

static inline int read_command(const option *o, const char *word)
{
    *(int *)o->to = place_in(o->name, word);
    return *(int *)o->to >= 0 ? 0 : refused("%s: there is no such command; there are %s", word, o->name);
}

/* The row of an option, or NULL; known: another command has this option. */
static inline const option *row_of(const option *list, size_t n, const char *name, const char *command, int *known)
{
    size_t k;
    *known = 0;
    for (k = 0; k < n; k++) {
        const char *blank = strchr(list[k].name, ' '), *letter = strchr(list[k].name, *command);
        if (list[k].kind >= OPTION_COMMAND || strcmp(name, blank ? blank + 1 : list[k].name)) continue;
        *known = 1;
        if (!blank || (letter && letter < blank)) return &list[k];
    }
    return NULL;
}

static inline void read_options(int argc, char **argv, const char *usage, const option *list, size_t n)
{
    const int commands = n && list[0].kind == OPTION_COMMAND;
    const char *command = "";
    size_t k;
    int i, known, bad = 0;
    for (i = 1; i < argc && !bad; i++) {
        char *a = argv[i];
        const option *o = row_of(list, n, a, command, &known);
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) exit(fputs(usage, stdout) < 0 || fflush(stdout));
        if (commands && !*command) {
            bad = read_command(&list[0], a);
            command = a;
        } else if (o) {
            bad = read_value(o, a, argv[i + 1]);    /* NULL after the last one */
            i += o->kind != OPTION_FLAG;
        } else if (known) bad = refused("%s takes no %s", command, a);
        else bad = a[0] == '-' && a[1] ? wrong("unknown option", a) : read_word(list, n, a);
    }
    for (k = 0; k < n && !bad; k++)
        if (list[k].kind == OPTION_THE_WORD ? !*(const char **)list[k].to
                                            : list[k].kind == OPTION_COMMAND && !*command) {
            fputs(usage, stderr);
            bad = 2;
        }
    if (bad) exit(bad);
}
#define READ_OPTIONS(argc, argv, usage, table) read_options(argc, argv, usage, table, sizeof(table) / sizeof *(table))

/* ---- signals: cancelled is the callback of a context, stopped_by the signal. The second signal ends the program at
 * once. */

static volatile sig_atomic_t stopped_by;
static inline void on_signal(int number)
{
    stopped_by = number;
    (void)signal(number, SIG_DFL);
}
static inline int cancelled(void *user) { (void)user; return stopped_by != 0; }
static inline void stop_on_signals(void)
{
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
#ifdef SIGHUP
    if (signal(SIGHUP, on_signal) == SIG_IGN) (void)signal(SIGHUP, SIG_IGN);    /* nohup: the terminal may close */
#endif
}
/* The same, for programs that write files: when the reader of their messages closes its pipe, only the messages are
 * lost, and the file is completed. */
static inline void stop_on_signals_whole(void)
{
    stop_on_signals();
#ifdef SIGPIPE
    (void)signal(SIGPIPE, SIG_IGN);
#endif
}

/* ---- progress: the callback of a context prints a percentage after two seconds, and end_progress erases the line.
 * Only a terminal gets it: in a file or a pipe every such line would stay. */

static inline int is_terminal(int descriptor)
{
#ifdef OPTIONS_UNIX
    return isatty(descriptor);
#elif defined _WIN32
    return _isatty(descriptor);
#else
    return 0 * descriptor;
#endif
}
static inline int is_typed(void) { return is_terminal(0); }   /* what is read from the standard input */
static inline int is_shown(void) { return is_terminal(2); }

static int progress_shown;
static inline void show_progress(void *user, const char *what, double part)
{
    static uint64_t began;
    (void)user;
    if (!is_shown()) return;
    if (!began) began = tiny_now_ns();
    if (tiny_now_ns() - began < 2000000000u) return;
    fprintf(stderr, "\r%s %3.0f%%", what, 100 * part);
    progress_shown = 1;
}
static inline void end_progress(void)
{
    if (progress_shown) fputs("\r                         \r", stderr);
    progress_shown = 0;
}
