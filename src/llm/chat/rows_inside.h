/* src/llm/chat/rows_inside.h - the rows of filters, tests, functions and methods, and how their arguments are asked for
 *
 * builtin.c has the rows, members and tests, filters.c the filters, methods.c functions and methods. */
#ifndef TINYI_CHAT_ROWS_H
#define TINYI_CHAT_ROWS_H
#include "llm/chat/builtin_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_TF_ABS,
    TINYI_TF_ATTR,
    TINYI_TF_CAPITALIZE,
    TINYI_TF_LENGTH,
    TINYI_TF_DEFAULT,
    TINYI_TF_DICTSORT,
    TINYI_TF_ESCAPE,
    TINYI_TF_FIRST,
    TINYI_TF_FLOAT,
    TINYI_TF_FORMAT,
    TINYI_TF_INDENT,
    TINYI_TF_INT,
    TINYI_TF_ITEMS,
    TINYI_TF_JOIN,
    TINYI_TF_LAST,
    TINYI_TF_LIST,
    TINYI_TF_LOWER,
    TINYI_TF_MAP,
    TINYI_TF_MAX,
    TINYI_TF_MIN,
    TINYI_TF_REJECT,
    TINYI_TF_REJECTATTR,
    TINYI_TF_REPLACE,
    TINYI_TF_REVERSE,
    TINYI_TF_ROUND,
    TINYI_TF_SAFE,
    TINYI_TF_SELECT,
    TINYI_TF_SELECTATTR,
    TINYI_TF_SORT,
    TINYI_TF_STRING,
    TINYI_TF_SUM,
    TINYI_TF_TITLE,
    TINYI_TF_TOJSON,
    TINYI_TF_TRIM,
    TINYI_TF_UNIQUE,
    TINYI_TF_UPPER,
    TINYI_TF_WORDCOUNT,
    TINYI_TF_FN_RANGE,
    TINYI_TF_FN_NAMESPACE,
    TINYI_TF_FN_DICT,
    TINYI_TF_FN_RAISE,
    TINYI_TF_FN_NOW,
    TINYI_TF_IS_BOOLEAN,
    TINYI_TF_IS_CALLABLE,
    TINYI_TF_IS_DEFINED,
    TINYI_TF_IS_DIVISIBLE,
    TINYI_TF_IS_EQ,
    TINYI_TF_IS_EVEN,
    TINYI_TF_IS_FALSE,
    TINYI_TF_IS_FILTER,
    TINYI_TF_IS_FLOAT,
    TINYI_TF_IS_GE,
    TINYI_TF_IS_GT,
    TINYI_TF_IS_IN,
    TINYI_TF_IS_INTEGER,
    TINYI_TF_IS_ITERABLE,
    TINYI_TF_IS_LE,
    TINYI_TF_IS_LOWER,
    TINYI_TF_IS_LT,
    TINYI_TF_IS_MAPPING,
    TINYI_TF_IS_NE,
    TINYI_TF_IS_NONE,
    TINYI_TF_IS_NUMBER,
    TINYI_TF_IS_ODD,
    TINYI_TF_IS_SEQUENCE,
    TINYI_TF_IS_STRING,
    TINYI_TF_IS_TEST,
    TINYI_TF_IS_TRUE,
    TINYI_TF_IS_UNDEFINED,
    TINYI_TF_IS_UPPER
};
enum {
    TINYI_TR_FILTER = 1,
    TINYI_TR_TEST = 2,
    TINYI_TR_FUNCTION = 4,
    TINYI_TR_STRING = 8,
    TINYI_TR_LIST = 16,
    TINYI_TR_MAP = 32,
    TINYI_TR_LOOP = 64
};
enum {
    TINYI_TN_STRIP,
    TINYI_TN_LSTRIP,
    TINYI_TN_RSTRIP,
    TINYI_TN_SPLIT,
    TINYI_TN_RSPLIT,
    TINYI_TN_SPLITLINES,
    TINYI_TN_STARTSWITH,
    TINYI_TN_ENDSWITH,
    TINYI_TN_UPPER,
    TINYI_TN_LOWER,
    TINYI_TN_TITLE,
    TINYI_TN_CAPITALIZE,
    TINYI_TN_REPLACE,
    TINYI_TN_FIND,
    TINYI_TN_RFIND,
    TINYI_TN_COUNT,
    TINYI_TN_JOIN,
    TINYI_TN_ISDIGIT,
    TINYI_TN_ISALPHA,
    TINYI_TN_ISALNUM,
    TINYI_TN_ISSPACE,
    TINYI_TN_ISUPPER,
    TINYI_TN_ISLOWER,
    TINYI_TN_REMOVEPREFIX,
    TINYI_TN_REMOVESUFFIX,
    TINYI_TN_ZFILL,
    TINYI_TN_LJUST,
    TINYI_TN_RJUST,
    TINYI_TN_CENTER,
    TINYI_TN_FORMAT,
    TINYI_TN_PARTITION,
    TINYI_TN_INDEX,
    TINYI_TN_APPEND,
    TINYI_TN_EXTEND,
    TINYI_TN_INSERT,
    TINYI_TN_POP,
    TINYI_TN_REVERSE,
    TINYI_TN_COPY,
    TINYI_TN_CLEAR,
    TINYI_TN_GET,
    TINYI_TN_ITEMS,
    TINYI_TN_KEYS,
    TINYI_TN_VALUES,
    TINYI_TN_UPDATE,
    TINYI_TN_SETDEFAULT,
    TINYI_TN_CYCLE,
    TINYI_TN_CHANGED
};

/* args: the most besides the value */
typedef struct tinyi_tm_builtin { const char *name; unsigned char kinds, id, args; } tinyi_tm_builtin;
TINYI_FN const tinyi_tm_builtin *tinyi_tm_row_at(int id);

TINYI_FN int tinyi_targ(tinyi_targs *a, int i, const char *name, tinyi_tv *v);
TINYI_FN int tinyi_targ_text(tinyi_doc *m, tinyi_targs *a, int i, const char *name, tinyi_tv *v);
TINYI_FN int tinyi_targ_int(tinyi_doc *m, tinyi_targs *a, int i, const char *name, int64_t *v);
TINYI_FN int tinyi_targ_true(tinyi_targs *a, int i, const char *name);
TINYI_FN int tinyi_targ_fit(tinyi_doc *m, const tinyi_tm_builtin *row, const tinyi_targs *a, int after);
TINYI_FN int tinyi_targ_want(tinyi_doc *m, const tinyi_tm_builtin *row, tinyi_targs *a, int i, const char *name,
                             tinyi_tv *v);
TINYI_FN tinyi_tv tinyi_tm_no(const char *s, size_t n);
TINYI_FN tinyi_tv tinyi_tm_path(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *path);
TINYI_FN int tinyi_tt_case(const tinyi_tv *v, int up);
TINYI_FN int tinyi_tt_all(tinyi_doc *m, const tinyi_tv *v, int id);
TINYI_FN int tinyi_tm_whole(const tinyi_tv *v);
TINYI_FN double tinyi_tm_floor(double x);

/* filters.c */
TINYI_FN tinyi_tv tinyi_tm_pairs(tinyi_doc *m, const tinyi_tmap *map, int what);

TINYI_C_END
#endif
