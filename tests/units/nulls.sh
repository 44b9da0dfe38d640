#!/bin/sh
# Calls every public function with NULL for its pointers: none may crash, and a function that returns a status must
# leave a sentence in the context. The functions are those that the headers declare, and exactly those that the
# libraries export. nulls.c makes their arguments.
#   nulls.sh [NAME]   NAME: only this function; T_SAYS=1 shows the terminal output of the calls
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc}
LIBS=${LIBS:-$BUILD} # libtinyllm.a and libtinygnn.a
dir=$BUILD/unitsnulls
here=tests/units
rm -rf "$dir"
mkdir -p "$dir"

# a function t_call_N for each declaration of tinyHEADER.h whose name fits PREFIX, and the table of them
calls() { # header, prefix
    awk -v prefix="$2" '
    # the declarations and the types that have a body, each in one piece without comments
    FNR == NR { line = $0; sub(/ *\/\*.*/, "", line)
                if (line ~ /^typedef (struct|union|enum)/) {
                    kind = line; sub(/^typedef /, "", kind); sub(/ .*/, "", kind)
                }
                if (line ~ /^(typedef (struct|union) .*)?\} [a-z0-9_]*;$/) {
                    sub(/.*\} /, "", line); sub(/;/, "", line); whole[line] = 1
                    if (kind != "enum") struct[line] = 1
                } else if (line ~ /^typedef struct [a-z0-9_]* [a-z0-9_]*;$/) {
                    sub(/;/, "", line); sub(/.* /, "", line); struct[line] = 1
                } else if (line ~ /^typedef [^(]*\(\*[a-z0-9_]*\)/) {
                    sub(/.*\(\*/, "", line); sub(/\).*/, "", line); function_type[line] = 1
                }
                next }
    /^TINY_API / { text = ""; on = 1 }
    !on { next }
    { sub(/\/\*.*/, ""); text = text " " $0 }
    /[;{]/ { on = 0; if (text ~ /\{/) next
             sub(/^ TINY_API (TINYI_EACH )?/, "", text); sub(/; *$/, "", text); one(text) }
    function one(text,    head, name, rest, n, i, c, depth, list, p, t, v, set, args, opaque, out, pointers, to, \
                 handle, form) {
        head = text; sub(/\(.*/, "", head)
        name = head; sub(/.*[ *]/, "", name)
        if (name !~ prefix || seen[name]++) return
        rest = substr(text, length(head) + 2); sub(/\) *$/, "", rest)
        sub(name "$", "", head); sub(/ *$/, "", head)
        n = depth = 0; list[0] = ""
        for (i = 1; i <= length(rest); i++) {
            c = substr(rest, i, 1)
            if (c == "(") depth++
            if (c == ")") depth--
            if (c == "," && !depth) { list[++n] = ""; continue }
            list[n] = list[n] c
        }
        n++
        if (list[0] ~ /^ *void *$/) n = 0
        out = set = args = opens = makes = filled = ""; pointers = 0
        for (i = 0; i < n; i++) {
            p = list[i]; gsub(/^ +| +$/, "", p)
            t = p; sub(/ *[^ ]*$/, "", t); sub(/^const /, "", t)
            if (p ~ /\(\*/ || t in function_type) {     # a function: always NULL
                v = "NULL"
            } else if (p ~ /\*|\[/) {
                if (p ~ /\[/) { sub(/\[.*/, "", p); sub(/[a-z0-9_]*$/, "*&", p) }
                v = p; sub(/.*[ *]/, "", v)
                t = p; sub(/ *\*.*/, "", t); sub(/^const /, "", t)
                out = out " " p "_ = NULL;"
                v = v "_"
                opaque = t in struct && !(t in whole) && p !~ /\*.*\*/
                if (i == n - 1 && head == "tiny_status" && p ~ /^[a-z0-9_]* \*\*/ && t in struct) filled = v
                to = "*(void **)&" v " = "
                handle = "t_handle(\"" t "\")"
                set = set " if (t_gives(" pointers ")) " to (opaque ? handle : "t_zeros(" pointers ")") ";"
                if (i < n - 1) opens = opens to (opaque ? handle : "t_zeros(" 12 + pointers ")") "; "
                makes = ""
                if (name ~ /_open$/ && i == n - 1 && p ~ /^[a-z0-9_]* \*\*/ && t in struct && !(t in whole)) makes = t
                pointers++
            } else {
                v = p; sub(/.* /, "", v)
                out = out " " t " " v "_;"
                v = v "_"
                opens = opens (t in struct ? "memset(&" v ", 0, sizeof " v "); " : v " = (" t ")1; ")
                set = set (t in struct ? " memset(&" v ", 0, sizeof " v ");" : " " v " = (" t ")t_number;")
            }
            args = args (i ? ", " : "") v
        }
        if (filled != "") set = set " if (" filled ") *(void **)" filled " = t_zeros(23);"
        printf "static void t_call_%d(void)\n{\n   %s\n   %s\n    ", ++n_calls, out, set
        form = head == "void" ? "%s(%s);" : head == "tiny_status" ? "t_status(%s(%s));" : "(void)%s(%s);"
        printf form, name, args
        if (head == "tiny_status" && filled != "") printf "\n    if (%s) t_result(*(void **)%s);", filled, filled
        print "\n}"
        if (makes != "" && n) {
            sub(/[a-z0-9_]*$/, "\\&&", args)
            printf "static void *t_open_%d(void)\n{\n   %s\n    %s\n    return %s(%s) ? NULL : %s;\n}\n", \
                   n_calls, out, opens, name, args, v
            openers = openers sprintf("    { \"%s\", t_open_%d },\n", makes, n_calls)
        }
        table = table sprintf("    { \"%s\", t_call_%d, %d, %d },\n", name, n_calls, pointers, \
                              rest ~ /^ *(const )?tiny_ctx \*/)
    }
    END {
        print "static const t_opener t_openers[] = {\n" openers "};"
        print "static const t_public t_all[] = {\n" table "};"
    }' "$INC/$1.h" "$INC/$1.h" >"$dir/$1.inc"
    for openmp in -fopenmp ''; do
        # shellcheck disable=SC2086
        $CC -std=c99 -O0 -g1 $CFLAGS_NULLS -I"$INC" -I"$dir" -DT_HEADER="\"$1.h\"" -DT_CALLS="\"$1.inc\"" -DT_$1 \
            $here/nulls.c -o "$dir/$1" "$LIBS/lib$1.a" $openmp -pthread -lm >"$dir/log" 2>&1 && break
    done
    [ -x "$dir/$1" ] || { head -n 20 "$dir/log"; echo "0 1" >>"$dir/counts"; return; }
    # no function is skipped: the names are those that the library exports
    own=$(echo "$2" | sed 's/.*\(tllm\|tgnn\).*/\1/')
    if command -v nm >/dev/null 2>&1; then
        nm -g "$LIBS/lib$1.a" 2>/dev/null | awk '$2 == "T" { sub(/^_/, "", $3); print $3 }' | grep "^${own}_" |
            sort -u >"$dir/exported"
        sed -n "s/^ *{ \"\(${own}_[a-z0-9_]*\)\", t_call.*/\1/p" "$dir/$1.inc" | sort >"$dir/called"
        if [ -s "$dir/exported" ] && cmp -s "$dir/exported" "$dir/called"; then
            echo "1 0" >>"$dir/counts"
        else
            echo "0 1" >>"$dir/counts"
            echo "FAILED: $1.h declares other functions than its library exports"
            diff "$dir/exported" "$dir/called" | head
        fi
    fi
    # shellcheck disable=SC2086
    "$dir/$1" "$dir/counts" $only || echo "0 1" >>"$dir/counts"
}
only=$1
calls tinyllm '^(tiny|tllm)_'
calls tinygnn '^tgnn_'
awk '{ p += $1; f += $2 } END { printf "%d passed, %d failed\n", p, f; exit f != 0 }' "$dir/counts"
