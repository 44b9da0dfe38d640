#!/bin/sh
# place.sh FILE: the folder that has FILE, by the rules of tests/place.h: the folder next to this repository, or the one
# that T_SHARED names, or neither with T_SHARED=none; else tests/golden. Prints nothing if FILE is in none of them.
named=${T_SHARED:-$TINY_SHARED}
case $named in
'') set -- "$1" ../shared ../../shared shared tests/golden ;;
none) set -- "$1" tests/golden ;;
*) set -- "$1" "$named" tests/golden ;;
esac
file=$1
shift
for place in "$@"; do
    if [ -e "$place/$file" ]; then dirname "$place/$file"; exit; fi
done
