/* src/llm/chat/rows_inside.h - the table of filters, tests, functions and methods, and access to their arguments
 *
 * builtin.c has the table, members and tests, filters.c the filters, methods.c the functions and methods. */
#ifndef TINYI_CHAT_ROWS_H
#define TINYI_CHAT_ROWS_H
#include "llm/chat/builtin_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_BUILTIN_ABS,
    TINYI_BUILTIN_ATTR,
    TINYI_BUILTIN_CAPITALIZE,
    TINYI_BUILTIN_LENGTH,
    TINYI_BUILTIN_DEFAULT,
    TINYI_BUILTIN_DICTSORT,
    TINYI_BUILTIN_ESCAPE,
    TINYI_BUILTIN_FIRST,
    TINYI_BUILTIN_FLOAT,
    TINYI_BUILTIN_FORMAT,
    TINYI_BUILTIN_INDENT,
    TINYI_BUILTIN_INT,
    TINYI_BUILTIN_ITEMS,
    TINYI_BUILTIN_JOIN,
    TINYI_BUILTIN_LAST,
    TINYI_BUILTIN_LIST,
    TINYI_BUILTIN_LOWER,
    TINYI_BUILTIN_MAP,
    TINYI_BUILTIN_MAX,
    TINYI_BUILTIN_MIN,
    TINYI_BUILTIN_REJECT,
    TINYI_BUILTIN_REJECTATTR,
    TINYI_BUILTIN_REPLACE,
    TINYI_BUILTIN_REVERSE,
    TINYI_BUILTIN_ROUND,
    TINYI_BUILTIN_SAFE,
    TINYI_BUILTIN_SELECT,
    TINYI_BUILTIN_SELECTATTR,
    TINYI_BUILTIN_SORT,
    TINYI_BUILTIN_STRING,
    TINYI_BUILTIN_SUM,
    TINYI_BUILTIN_TITLE,
    TINYI_BUILTIN_TOJSON,
    TINYI_BUILTIN_TRIM,
    TINYI_BUILTIN_UNIQUE,
    TINYI_BUILTIN_UPPER,
    TINYI_BUILTIN_WORDCOUNT,
    TINYI_BUILTIN_FN_RANGE,
    TINYI_BUILTIN_FN_NAMESPACE,
    TINYI_BUILTIN_FN_DICT,
    TINYI_BUILTIN_FN_RAISE,
    TINYI_BUILTIN_FN_NOW,
    TINYI_BUILTIN_IS_BOOLEAN,
    TINYI_BUILTIN_IS_CALLABLE,
    TINYI_BUILTIN_IS_DEFINED,
    TINYI_BUILTIN_IS_DIVISIBLE,
    TINYI_BUILTIN_IS_EQ,
    TINYI_BUILTIN_IS_EVEN,
    TINYI_BUILTIN_IS_FALSE,
    TINYI_BUILTIN_IS_FILTER,
    TINYI_BUILTIN_IS_FLOAT,
    TINYI_BUILTIN_IS_GE,
    TINYI_BUILTIN_IS_GT,
    TINYI_BUILTIN_IS_IN,
    TINYI_BUILTIN_IS_INTEGER,
    TINYI_BUILTIN_IS_ITERABLE,
    TINYI_BUILTIN_IS_LE,
    TINYI_BUILTIN_IS_LOWER,
    TINYI_BUILTIN_IS_LT,
    TINYI_BUILTIN_IS_MAPPING,
    TINYI_BUILTIN_IS_NE,
    TINYI_BUILTIN_IS_NONE,
    TINYI_BUILTIN_IS_NUMBER,
    TINYI_BUILTIN_IS_ODD,
    TINYI_BUILTIN_IS_SEQUENCE,
    TINYI_BUILTIN_IS_STRING,
    TINYI_BUILTIN_IS_TEST,
    TINYI_BUILTIN_IS_TRUE,
    TINYI_BUILTIN_IS_UNDEFINED,
    TINYI_BUILTIN_IS_UPPER
};
enum {
    TINYI_KIND_FILTER = 1,
    TINYI_KIND_TEST = 2,
    TINYI_KIND_FUNCTION = 4,
    TINYI_KIND_STRING = 8,
    TINYI_KIND_LIST = 16,
    TINYI_KIND_MAP = 32,
    TINYI_KIND_LOOP = 64
};
enum {
    TINYI_METHOD_STRIP,
    TINYI_METHOD_LSTRIP,
    TINYI_METHOD_RSTRIP,
    TINYI_METHOD_SPLIT,
    TINYI_METHOD_RSPLIT,
    TINYI_METHOD_SPLITLINES,
    TINYI_METHOD_STARTSWITH,
    TINYI_METHOD_ENDSWITH,
    TINYI_METHOD_UPPER,
    TINYI_METHOD_LOWER,
    TINYI_METHOD_TITLE,
    TINYI_METHOD_CAPITALIZE,
    TINYI_METHOD_REPLACE,
    TINYI_METHOD_FIND,
    TINYI_METHOD_RFIND,
    TINYI_METHOD_COUNT,
    TINYI_METHOD_JOIN,
    TINYI_METHOD_ISDIGIT,
    TINYI_METHOD_ISALPHA,
    TINYI_METHOD_ISALNUM,
    TINYI_METHOD_ISSPACE,
    TINYI_METHOD_ISUPPER,
    TINYI_METHOD_ISLOWER,
    TINYI_METHOD_REMOVEPREFIX,
    TINYI_METHOD_REMOVESUFFIX,
    TINYI_METHOD_ZFILL,
    TINYI_METHOD_LJUST,
    TINYI_METHOD_RJUST,
    TINYI_METHOD_CENTER,
    TINYI_METHOD_FORMAT,
    TINYI_METHOD_PARTITION,
    TINYI_METHOD_INDEX,
    TINYI_METHOD_APPEND,
    TINYI_METHOD_EXTEND,
    TINYI_METHOD_INSERT,
    TINYI_METHOD_POP,
    TINYI_METHOD_REVERSE,
    TINYI_METHOD_COPY,
    TINYI_METHOD_CLEAR,
    TINYI_METHOD_GET,
    TINYI_METHOD_ITEMS,
    TINYI_METHOD_KEYS,
    TINYI_METHOD_VALUES,
    TINYI_METHOD_UPDATE,
    TINYI_METHOD_SETDEFAULT,
    TINYI_METHOD_CYCLE,
    TINYI_METHOD_CHANGED
};

/* args: the most arguments, without the value itself */
typedef struct tinyi_template_builtin { const char *name; unsigned char kinds, id, args; } tinyi_template_builtin;
TINYI_FN const tinyi_template_builtin *tinyi_template_row_at(int id);

TINYI_FN int tinyi_targ(tinyi_targs *a, int i, const char *name, tinyi_tv *v);
TINYI_FN int tinyi_targ_text(tinyi_doc *m, tinyi_targs *a, int i, const char *name, tinyi_tv *v);
TINYI_FN int tinyi_targ_int(tinyi_doc *m, tinyi_targs *a, int i, const char *name, int64_t *v);
TINYI_FN int tinyi_targ_true(tinyi_targs *a, int i, const char *name);
TINYI_FN int tinyi_targ_fit(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_targs *a, int after);
TINYI_FN int tinyi_targ_want(tinyi_doc *m, const tinyi_template_builtin *row, tinyi_targs *a, int i, const char *name,
                             tinyi_tv *v);
TINYI_FN tinyi_tv tinyi_template_no(const char *s, size_t n);
TINYI_FN tinyi_tv tinyi_template_path(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *path);
TINYI_FN int tinyi_template_test_case(const tinyi_tv *v, int up);
TINYI_FN int tinyi_template_test_all(tinyi_doc *m, const tinyi_tv *v, int id);
TINYI_FN int tinyi_template_whole(const tinyi_tv *v);
TINYI_FN double tinyi_template_floor(double x);

/* filters.c */
TINYI_FN tinyi_tv tinyi_template_pairs(tinyi_doc *m, const tinyi_tmap *map, int what);

TINYI_C_END
#endif
