/* src/llm/chat/text_inside.h - what chat templates do with strings, counted in characters */
#ifndef TINYI_CHAT_TEXT_H
#define TINYI_CHAT_TEXT_H
#include "llm/chat/builtin_inside.h"
TINYI_C_BEGIN

enum { TINYI_TS_UPPER, TINYI_TS_LOWER, TINYI_TS_CAPITALIZE, TINYI_TS_TITLE, TINYI_TS_TITLE_JINJA };

/* bytes of the character at i, and its number */
TINYI_FN size_t tinyi_ts_char(const tinyi_tv *v, size_t i, uint32_t *c);
TINYI_FN int tinyi_ts_space(uint32_t c);
/* 1 upper, -1 lower, 0 neither */
TINYI_FN int tinyi_ts_cased(uint32_t c);
TINYI_FN tinyi_tv tinyi_ts_case(tinyi_doc *m, const tinyi_tv *v, int how);
/* side: 1 left, 2 right, 3 both; set NULL: white space */
TINYI_FN tinyi_tv tinyi_ts_strip(tinyi_doc *m, tinyi_tv v, const tinyi_tv *set, int side);
TINYI_FN size_t tinyi_ts_length(tinyi_doc *m, const tinyi_tv *v);
/* runs of letters, digits and _ */
TINYI_FN size_t tinyi_ts_words(tinyi_doc *m, const tinyi_tv *v);
/* where character number k starts */
TINYI_FN size_t tinyi_ts_place(const tinyi_tv *v, size_t k);
/* the place of b in a from there on, or a->n + 1 */
TINYI_FN size_t tinyi_ts_find(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t from);
TINYI_FN size_t tinyi_ts_find_last(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t end);
TINYI_FN tinyi_tv tinyi_ts_part(const tinyi_tv *v, size_t from, size_t to);
/* sep NULL: at white space; most -1: no limit */
TINYI_FN tinyi_tv tinyi_ts_split(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most);
TINYI_FN tinyi_tv tinyi_ts_rsplit(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most);
TINYI_FN tinyi_tv tinyi_ts_replace(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *old, const tinyi_tv *with,
                                   int64_t most);
TINYI_FN tinyi_tv tinyi_ts_join(tinyi_doc *m, const tinyi_tv *mark, const tinyi_tlist *list);
/* side: 0 behind, 1 before, 2 both, 3 zeros behind the sign */
TINYI_FN tinyi_tv tinyi_ts_pad(tinyi_doc *m, const tinyi_tv *v, int64_t width, const char *fill, size_t n_fill,
                               int side);
/* "{} {0} {name}".format(...) */
TINYI_FN tinyi_tv tinyi_ts_braces(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a);

TINYI_C_END
#endif
