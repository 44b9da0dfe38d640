#!/bin/sh
# The errors of src/stitch.c, each with its sentence, on a small tree of its own. The same tree gives the same bytes.
BUILD=${BUILD:-build}
stitch=$BUILD/stitch dir=$BUILD/stitch-test
passed=0 failed=0
good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $1"; }

tree() { # a small valid tree
    rm -rf "$dir"
    mkdir -p "$dir/src/core" "$dir/src/math" "$dir/src/llm" "$dir/src/gnn"
    cd "$dir/src" || exit 1
    cat >core/a.h <<'X'
/* a */
#ifndef A_H
#define A_H
TINY_API int tiny_a(int (*f)(void *user, int i), void *user,
                    const int list[3]);
TINY_API void tiny_nothing(void);
#define TINY_VERSION_MAJOR 3
#define TINY_VERSION_MINOR 4
#define TINY_VERSION_PATCH 5
#ifndef TINY_NO_STDIO
TINY_API const char *tiny_text(const char *s);
#endif

/* moves with its comment */
TINYI_FN int tinyi_inner(int x);

#endif
X
    cat >core/a.c <<'X'
/* a.c */
#include "core/a.h"
static int tinyi_a_once(void) { return 1; }
TINY_API int tiny_a(int (*f)(void *user, int i), void *user, const int list[3])
{
    return f(user, list[0]) + tinyi_a_once();
}
TINY_API void tiny_nothing(void) {}
#ifndef TINY_NO_STDIO
TINY_API const char *tiny_text(const char *s) { return s; }
#endif
int tinyi_inner(int x) { return x; }
X
    cat >math/b.h <<'X'
/* b */
#ifndef B_H
#define B_H
#include "core/a.h"
TINY_API float tiny_b(float x);
#endif
X
    cat >math/b.c <<'X'
/* b.c */
#include "math/b.h"
#define TINYI_PASS_FILE "math/kernels.h"
#include "core/each_target.h"
TINY_API float tiny_b(float x) { return tinyi_k(x); }
X
    cat >math/kernels.h <<'X'
/* kernels */
#include "core/simd.h"
#include "math/one.simd.h"
#include "core/simd_unname.h"
X
    printf '/* vectors */\n#define V_LANES 1\n' >core/simd.h
    printf '/* and their end */\n#undef V_LANES\n' >core/simd_unname.h
    printf '/* passes */\n#include TINYI_PASS_FILE\n#undef TINYI_PASS_FILE\n' >core/each_target.h
    printf 'static float tinyi_k(float x) { return x; }\n' >math/one.simd.h
    for w in llm gnn; do
        printf '/* manual of %s @version\n@features\n */\n#ifndef %s_H\n#define %s_H\n' $w $w $w >$w/tiny$w.h
        printf '#include "math/b.h"\n#endif\n' >>$w/tiny$w.h
        printf '/* %s */\n#include "%s/tiny%s.h"\n' $w $w $w >$w/tiny$w.c
    done
    printf '%s\n' 'CORE all BASE:' '    = all' '    core/*' '    math/*' \
        'MORE all TOOLS:' '    = more' '    core/more' 'L llm BASE:' '    = l' '    llm/*' \
        'G gnn BASE:' '    = g' '    gnn/*' >features.txt
    cd "$home" || exit 1
}
home=$(pwd)
log=$dir/log

ok() { # the tree is accepted, and the header has this line
    if ! "$stitch" "$dir/src" "$1" "$dir/out.h" >"$log" 2>&1; then bad "a valid tree is refused: $(cat "$log")"
    elif ! grep -qF -- "$2" "$dir/out.h"; then bad "the header has no line $2"
    else good; fi
}
refused() { # the tree is refused with this sentence, and no file is left
    if "$stitch" "$dir/src" tinyllm "$dir/bad.h" >"$log" 2>&1; then bad "accepted, not refused: $1"
    elif ! grep -qF -- "$1" "$log"; then bad "the error is $(cat "$log"), not $1"
    elif ls "$dir"/bad.h* >/dev/null 2>&1; then bad "$1: a file is left"
    else good; fi
}

tree
ok tinyllm '/* tinyllm.h 3.4.5 - made from src/'
ok tinyllm '/* manual of llm 3.4.5'
ok tinyllm '#define tiny_nothing tinyllm_nothing'
ok tinygnn 'TINY_API void tinygnn_nothing(void) { tinyllm_nothing(); }'
a='int (*f)(void *user, int i), void *user, const int list[3]'
ok tinygnn "TINY_API int tinygnn_a($a) { return tinyllm_a(f, user, list); }"
ok tinygnn 'TINY_API const char *tinygnn_text(const char *s) { return tinyllm_text(s); }'
ok tinyllm '#define TINYI_PASS_FILE TINYLLM_FILE'
cp "$dir/out.h" "$dir/first.h"
ok tinyllm '/* moves with its comment */'
if cmp -s "$dir/first.h" "$dir/out.h"; then good; else bad 'two runs differ'; fi
# every line of the table of contents points at its file
if awk 'FNR == NR { if ($1 == "*" && $2 ~ /^[0-9]+$/ && $3 ~ /\//) line[$2] = $3; next }
        (FNR in line) && $0 ~ /^#if TINYI_STITCH_PART/ { delete line[FNR] }
        (FNR in line) && $0 ~ /^(\/\*|static|#)/ { delete line[FNR] }
        END { for (l in line) { print l, line[l]; bad = 1 } exit bad }' "$dir/out.h" "$dir/out.h"; then
    good
else
    bad 'the table of contents'
fi

tree
printf 'TINY_API TINYI_EACH int tiny_each(int x);\n' >>"$dir/src/math/b.h"
ok tinygnn 'TINY_API TINYI_EACH int tinygnn_each(int x);'
if grep -q 'tinyllm_each' "$dir/out.h"; then bad 'a TINYI_EACH function is forwarded'; else good; fi

tree; printf '#include "math/b.h"\n' >>"$dir/src/core/a.c"
refused 'includes go from llm and gnn to math to core, never upward'
tree; printf '#include "llm/tinyllm.h"\n' >>"$dir/src/gnn/tinygnn.c"
refused 'gnn and llm never see each other'
tree; printf '#include "core/gone.h"\n' >>"$dir/src/math/b.c"
refused 'src/math/b.c includes "core/gone.h", and there is no such file'
tree; printf '#include "math/kernels.h"\n' >>"$dir/src/math/b.c"
refused 'a kernels.h is compiled through core/each_target.h'
tree; printf '#define TINYI_PASS_FILE "math/one.simd.h"\n' >>"$dir/src/math/b.c"
refused 'TINYI_PASS_FILE is "math/one.simd.h", not a kernels.h'
tree; printf '#include "a.h"\n' >>"$dir/src/core/a.c"
refused 'includes "a.h" without its folder'
tree; printf 'static int tinyi_a_once(void)\n{\n    return 2;\n}\n' >>"$dir/src/math/b.c"
refused 'tinyi_a_once is defined in src/core/a.c and in src/math/b.c'
tree; printf 'static const int tinyi_tab[2] = { 1, 2 };\n' | tee -a "$dir/src/math/b.c" >>"$dir/src/core/a.c"
refused 'tinyi_tab is defined in src/core/a.c and in src/math/b.c'
tree; printf 'typedef struct tinyi_t { int x; } tinyi_a_once;\n' >>"$dir/src/math/b.c"
refused 'tinyi_a_once is defined in src/core/a.c and in src/math/b.c'
tree; printf '#ifndef TINYI_SAME_H\n#define TINYI_SAME_H\n#endif\n' >"$dir/src/core/c_inside.h"
cp "$dir/src/core/c_inside.h" "$dir/src/core/d_inside.h"
printf '#include "core/c_inside.h"\n#include "core/d_inside.h"\n' >>"$dir/src/core/a.c"
refused 'TINYI_SAME_H is defined in src/core/'
tree; printf 'static int tinyi_a_once(void) { return 3; }\n' >>"$dir/src/gnn/tinygnn.c"
refused 'tinyi_a_once is defined in src/'
tree; printf 'TINY_API int tiny_c(int);\n' >>"$dir/src/core/a.h"
refused 'tiny_c has a parameter without a name'
tree; printf 'TINY_API int tiny_c(const char *f, ...);\n' >>"$dir/src/core/a.h"
refused 'tiny_c takes a variable number of arguments'
tree; printf 'TINY_API int tiny_c();\n' >>"$dir/src/core/a.h"
refused 'tiny_c() must be tiny_c(void)'
tree; printf 'TINY_API int tiny_c(void) { return 1; }\n' >>"$dir/src/core/a.h"
refused 'a public function has its body in the .c file'
tree; printf 'TINY_API int tiny_c(void) { return 1; }\n' >>"$dir/src/core/a.c"
refused 'the public function tiny_c is declared in no header'
tree; printf 'static int tinyi_x(void) { tiny_nothing(); return 1; }\n' >>"$dir/src/core/a.h"
refused 'tiny_nothing is a public function; inline code and types of a header cannot use its name'
tree; printf 'static int tinyi_x(int far) { return far; }\n' >>"$dir/src/core/a.c"
refused 'src/core/a.c uses the name far'
tree; printf '/* c */\n#ifndef C_H\n#define C_H\n#endif\n' >"$dir/src/core/c_inside.h"
printf '#include "core/c_inside.h"\n' >>"$dir/src/llm/tinyllm.c"
refused 'do not include the same files of core/ and math/'
tree; sed 1d "$dir/src/llm/tinyllm.h" >"$dir/x"; mv "$dir/x" "$dir/src/llm/tinyllm.h"
refused 'does not begin with its manual'

tree; printf '#ifndef C_H\n#define C_H\n#endif\n' >"$dir/src/core/c.h"
printf '#include "core/c.h"\n' >>"$dir/src/core/a.c"
refused 'src/core/c.h is no public header: its name ends in _inside.h'
tree; printf 'typedef struct tinyi_b { int x; } tinyi_b;\n' >>"$dir/src/math/b.h"
refused 'src/math/b.h: what is not the user'
tree; printf '/* ---- inside: of b */\ntypedef struct tinyi_b { int x; } tinyi_b;\n' >>"$dir/src/math/b.h"
ok tinyllm 'typedef struct tinyi_b { int x; } tinyi_b;'
# from the top: declarations, then bodies with what they share, then kernels
if awk '/tiny_b\(float x\);/ && !a { a = NR }
        /typedef struct tinyi_b/ { b = NR }
        /return tinyi_k\(x\)/ { c = NR }
        /^static float tinyi_k/ { d = NR }
        END { exit !(a && a < b && b < c && c < d) }' "$dir/out.h"; then
    good
else
    bad 'the order of the header'
fi
if [ "$(grep -c '^#include TINYI_PASS_FILE' "$dir/out.h")" = 1 ] && [ "$(grep -c '^#define V_LANES' "$dir/out.h")" = 1 ]
then good; else bad 'more than one pass, or more than one copy of the vector code'; fi

# features
more() { # a file of an optional feature, which the shared part includes
    tree
    printf '/* more */\n#ifndef MORE_H\n#define MORE_H\nTINY_API int tiny_more(void);\n#endif\n' >"$dir/src/core/more.h"
    printf '/* more.c */\n#include "core/more.h"\nTINY_API int tiny_more(void) { return 1; }\n' >"$dir/src/core/more.c"
    printf '#include "core/more.h"\n' >>"$dir/src/math/b.h"
}
more
ok tinyllm '#ifndef TINYI_NO_MORE'
on='defined TINY_WITH_MORE || defined TINYLLM_TOOLS || defined TINYGNN_IMPLEMENTATION'
ok tinyllm "#if !defined TINYI_CANT_MORE && ($on)"
more; printf '%s\n' '#ifndef TINYI_NO_MORE' 'static int tinyi_b_more(void) { return tiny_more(); }' '#endif' \
    >>"$dir/src/math/b.c"
ok tinyllm 'static int tinyi_b_more(void) { return tiny_more(); }'
more; printf 'static int tinyi_b_more(void) { return tiny_more(); }\n' >>"$dir/src/math/b.c"
refused 'src/math/b.c of CORE uses tiny_more of MORE (src/core/more.c)'
more; printf 'int tinyi_up(void);\nint tinyi_up(void) { return 1; }\n' >>"$dir/src/math/b.c"
printf 'static int tinyi_a_up(void) { return tinyi_up(); }\n' >>"$dir/src/core/a.c"
refused 'src/core/a.c uses tinyi_up of src/math/b.c: calls go from llm and gnn to math to core, never upward'
more; printf '#ifndef TINYI_NO_MORE\nTINY_API int tiny_d(void) { return 1; }\n#endif\n' >>"$dir/src/math/b.c"
printf 'TINY_API int tiny_d(void);\n' >>"$dir/src/math/b.h"
refused 'the public function tiny_d stands under #ifndef TINYI_NO_'
tree; sed '/core/d' "$dir/src/features.txt" >"$dir/x"; mv "$dir/x" "$dir/src/features.txt"
refused 'src/core/a.h belongs to no feature'
tree; printf 'LATE all LAB: LATER\n' >>"$dir/src/features.txt"
refused 'LATE needs LATER, which does not stand before it'
tree; printf 'ODD all SOME:\n' >>"$dir/src/features.txt"
refused 'SOME is no tier'
tree; printf 'MORE all LAB:\n' >>"$dir/src/features.txt"
refused 'MORE stands there twice'
tree; rm "$dir/src/features.txt"
refused 'there is no '
tree; sed '/@features/d' "$dir/src/llm/tinyllm.h" >"$dir/x"; mv "$dir/x" "$dir/src/llm/tinyllm.h"
refused 'the manual has no line @features'
tree; sed 's/ @version//' "$dir/src/llm/tinyllm.h" >"$dir/x"; mv "$dir/x" "$dir/src/llm/tinyllm.h"
refused 'the manual does not say @version before @features'
tree; sed '/VERSION_MINOR/d' "$dir/src/core/a.h" >"$dir/x"; mv "$dir/x" "$dir/src/core/a.h"
refused 'no file of src/ has the line #define TINY_VERSION_MINOR N'

# the walk of docs/dev/house.md: each `file` followed by `function`s, which it must define
walked=0
for pair in $(sed -n '/^## From a file to logits/,/^## An operation/p' docs/dev/house.md |
    grep -o '`[^`]*`' | tr -d '`' |
    awk '/^src\// { file = $0; next } /^t[a-z]*_[a-z0-9_]*$/ && file { print file ":" $0 }'); do
    file=${pair%%:*} name=${pair##*:} walked=$((walked + 1))
    [ -f "$file" ] && grep -qE "^[A-Za-z].*[ *]$name\(" "$file" && continue
    bad "docs/dev/house.md: $file does not define $name"
done
if [ $walked -ge 15 ]; then good; else bad "docs/dev/house.md: the walk has $walked steps"; fi

[ $failed -ne 0 ] || rm -rf "$dir"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
