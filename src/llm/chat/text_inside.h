/* src/llm/chat/text_inside.h - string functions of chat templates; lengths and indices count characters */
#ifndef TINYI_CHAT_TEXT_H
#define TINYI_CHAT_TEXT_H
#include "llm/chat/builtin_inside.h"
TINYI_C_BEGIN

enum { TINYI_CASE_UPPER, TINYI_CASE_LOWER, TINYI_CASE_CAPITALIZE, TINYI_CASE_TITLE, TINYI_CASE_TITLE_JINJA };

/* bytes of the character at i, and its number */
TINYI_FN size_t tinyi_string_char(const tinyi_tv *v, size_t i, uint32_t *c);
TINYI_FN int tinyi_string_space(uint32_t c);
/* 1 upper, -1 lower, 0 neither */
TINYI_FN int tinyi_string_cased(uint32_t c);
TINYI_FN tinyi_tv tinyi_string_case(tinyi_doc *m, const tinyi_tv *v, int how);
/* side: 1 left, 2 right, 3 both; set NULL: white space */
TINYI_FN tinyi_tv tinyi_string_strip(tinyi_doc *m, tinyi_tv v, const tinyi_tv *set, int side);
TINYI_FN size_t tinyi_string_length(tinyi_doc *m, const tinyi_tv *v);
/* runs of letters, digits and _ */
TINYI_FN size_t tinyi_string_words(tinyi_doc *m, const tinyi_tv *v);
/* the byte offset of character k */
TINYI_FN size_t tinyi_string_place(const tinyi_tv *v, size_t k);
/* the byte offset of b in a at or after from, or a->n + 1 */
TINYI_FN size_t tinyi_string_find(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t from);
TINYI_FN size_t tinyi_string_find_last(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, size_t end);
TINYI_FN tinyi_tv tinyi_string_part(const tinyi_tv *v, size_t from, size_t to);
/* sep NULL: at white space; most -1: no limit */
TINYI_FN tinyi_tv tinyi_string_split(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most);
TINYI_FN tinyi_tv tinyi_string_rsplit(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *sep, int64_t most);
TINYI_FN tinyi_tv tinyi_string_replace(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *old, const tinyi_tv *with,
                                       int64_t most);
TINYI_FN tinyi_tv tinyi_string_join(tinyi_doc *m, const tinyi_tv *mark, const tinyi_tlist *list);
/* side: 0 after, 1 before, 2 both, 3 zeros after the sign */
TINYI_FN tinyi_tv tinyi_string_pad(tinyi_doc *m, const tinyi_tv *v, int64_t width, const char *fill, size_t n_fill,
                                   int side);
/* "{} {0} {name}".format(...) */
TINYI_FN tinyi_tv tinyi_string_braces(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a);

TINYI_C_END
#endif
