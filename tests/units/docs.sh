#!/bin/sh
# The pages: every relative link leads to a file, and to a heading where it names one; every piece of C after a mark
# compiles without a warning. The mark stands on the line before the piece:
#   <!-- compiles -->                      as a file; both headers are included where it includes neither
#   <!-- compiles with: tiny_ctx *ctx -->  as statements of a function with these parameters, both headers included
#   <!-- a sketch -->                      not compiled
# In README.md, the tour, the guide and ports a piece without a mark is a failure.
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc}
dir=$BUILD/docs-test
passed=0 failed=0
rm -rf "$dir"
mkdir -p "$dir"
pages=${*:-$(find ./*.md docs ports examples -name '*.md' | sort)}

bad() { failed=$((failed + 1)); echo "FAILED: $1"; }

# page TAB target of each link outside of code
links() {
    awk '
      FNR == 1 { code = 0 }
      /^ *```/ { code = !code; next }
      code { next }
      { line = $0; gsub(/`[^`]*`/, "", line)
        while (match(line, /\]\([^) ]*\)/)) {
            print FILENAME "\t" substr(line, RSTART + 2, RLENGTH - 3)
            line = substr(line, RSTART + RLENGTH)
        } }' "$@"
}
# the names by which the headings of a page are found
names() {
    awk '/^ *```/ { code = !code }
      !code && /^#+ / { sub(/^#+ +/, ""); $0 = tolower($0); gsub(/[^a-z0-9 _-]/, ""); gsub(/ /, "-"); print }' "$1"
}
# shellcheck disable=SC2086
links $pages >"$dir/links"
while IFS='	' read -r page target; do
    case $target in http://* | https://* | mailto:*) continue ;; esac
    file=${target%%#*} name=
    case $target in *#*) name=${target#*#} ;; esac
    if [ -z "$file" ]; then file=$page; else file=$(dirname "$page")/$file; fi
    if [ ! -e "$file" ]; then bad "$page: the link $target leads to no file"
    elif [ -n "$name" ] && ! names "$file" | grep -qx -- "$name"; then bad "$page: $file has no heading #$name"
    else passed=$((passed + 1)); fi
done <"$dir/links"

# the pieces of C as files $dir/N.c, and a list of them: file, page:line
# shellcheck disable=SC2086
awk -v dir="$dir" '
  FNR == 1 { mark = "" }
  /^```c$/ {
      where = FILENAME ":" FNR
      at = FNR + 1
      text = ""
      while ((getline line) > 0 && line !~ /^```$/) text = text line "\n"
      if (mark == "" && FILENAME ~ /README|tour|guide|ports/) print "- " where
      if (mark != "" && mark != "sketch") {
          file = dir "/" ++n ".c"
          print file " " where
          printf "" >file
          if (mark != "whole" || text !~ /#include "tiny(llm|gnn)\.h"/)
              print "#include \"tinyllm.h\"\n#include \"tinygnn.h\"\n#include <stdio.h>\n#include <stdlib.h>\n" \
                    "#include <string.h>" >file
          if (mark != "whole") print "void piece(" mark ");\nvoid piece(" mark ")\n{" >file
          printf "#line %d \"%s\"\n%s", at, FILENAME, text >file
          if (mark != "whole") print "}" >file
          close(file)
      }
      mark = ""; next
  }
  { mark = "" }
  /^<!-- compiles -->$/ { mark = "whole" }
  /^<!-- compiles with: .* -->$/ { mark = $0; sub(/^<!-- compiles with: /, "", mark); sub(/ -->$/, "", mark) }
  /^<!-- a sketch -->$/ { mark = "sketch" }' $pages >"$dir/pieces"
while read -r file where; do
    if [ "$file" = - ]; then bad "$where: a piece of C without a mark"; continue; fi
    # -DTINYLLM_LINKED: the bodies are not compiled here
    if $CC -std=c99 -Wall -Wextra -Wpedantic -Werror -Wno-unused -Wno-unused-parameter \
        -DTINYLLM_LINKED -DTINYGNN_LINKED -I"$INC" -I. -fsyntax-only "$file" >"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else bad "$where: this piece of C does not compile"; head -n 6 "$dir/log" | sed 's/^/    /'; fi
done <"$dir/pieces"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
