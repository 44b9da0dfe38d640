/* src/gnn/graph/words_inside.h - lines of numbers: the ground of every text reader here
 *
 * A line ends with \n, \r\n or the file. Words are separated by spaces, tabs and commas. Numbers are read and written
 * without the locale.
 * The end of the file is never passed. The mark of UTF-8 that some editors put before the first line is no part of
 * it. */
#ifndef TINYI_WORDS_H
#define TINYI_WORDS_H
#include "core/state_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_text_file {
    tiny_ctx *ctx;
    const char *path;
    const unsigned char *at, *end;
    int64_t line;
} tinyi_text_file;
typedef struct tinyi_word { const unsigned char *at; size_t n; } tinyi_word;

TINYI_FN tinyi_text_file tinyi_text_make(tiny_ctx *ctx, const char *path, const void *bytes, size_t n);
TINYI_FN size_t tinyi_text_bom(const unsigned char *bytes, size_t n);      /* how long that mark is here: 3 or 0 */
/* To the next line that holds a word and does not begin with one of the marks; 0: there is none. *line is that line. */
TINYI_FN int tinyi_text_line(tinyi_text_file *f, const char *marks, tinyi_word *line);
TINYI_FN int tinyi_word_next(tinyi_word *line, tinyi_word *word);  /* takes the first word off; 0: none is left */
TINYI_FN int tinyi_word_is(tinyi_word w, const char *text);        /* without regard to case */
/* 1: the whole word is such a number. The float is the double nearest to within 2 ulp, then rounded; inf and nan are
 * read. */
TINYI_FN int tinyi_word_int(tinyi_word w, int64_t *v);
TINYI_FN int tinyi_word_float(tinyi_word w, float *v);
/* v with 9 digits, which are enough to read it again, and a point in every locale; answers how many bytes */
#define TINYI_WORD_FLOAT 40
TINYI_FN size_t tinyi_word_of_float(float v, char text[TINYI_WORD_FLOAT]);
/* tinyi_text_line for an edge list: past its remarks. "# nodes N", or with two_sets "# nodes SOURCES DESTINATIONS" too,
 * is heard on the way: there are at least so many, also where the last ones have no edges. Other remarks, and other
 * uses of the word, say nothing.
 * A number above 2147483647 is refused: 0, and *st says so. */
TINYI_FN int tinyi_text_edge_line(tinyi_text_file *f, tinyi_word *line, int two_sets, int32_t nodes[2],
                                  tiny_status *st);
/* A line of an edge list: v source and destination, *w the weight (1 where there are none). *weighted: -1 before the
 * first edge, which says whether all of them have one. */
TINYI_FN tiny_status tinyi_text_edge(const tinyi_text_file *f, tinyi_word line, int *weighted, int64_t v[2], float *w);
/* file, line, word, and what should stand there */
TINYI_FN tiny_status tinyi_text_fail(const tinyi_text_file *f, tinyi_word word, const char *wanted);
/* lines that are left, at most, by their ends: for a first allocation */
TINYI_FN size_t tinyi_text_lines(const tinyi_text_file *f);

TINYI_C_END
#endif
