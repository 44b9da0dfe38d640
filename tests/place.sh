#!/bin/sh
# place.sh FILE: the folder that FILE stands in, by the rules of tests/place.h: ../shared, the folder that T_SHARED
# names, or none of them with T_SHARED=none; else tests/golden. Prints nothing where FILE is in neither.
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
