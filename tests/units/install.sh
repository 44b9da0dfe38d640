#!/bin/sh
# make install, uninstall and dist, and CMakeLists.txt: programs find the library by pkg-config, find_package and
# FetchContent, and link the shared libraries. What needs a missing tool (pkg-config, cmake) is skipped.
BUILD=${BUILD:-build} INC=${INC:-.} CC=${CC:-cc}
root=$(pwd)
dir=$BUILD/unitsinstall
passed=0 failed=0 skipped=0
rm -rf "$dir"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd) log=$dir/log
there() { command -v "$1" >/dev/null 2>&1; }
skip() { skipped=$((skipped + 1)); echo "skipped: $1"; }
# does WHAT COMMAND...: passed when the command succeeds
does() {
    what=$1
    shift
    if "$@" >"$log" 2>&1; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    echo "FAILED: $what"
    head -n 12 "$log" | sed 's/^/    /'
}
makes() { make -s --no-print-directory BUILD="$BUILD" INC="$INC" CC="$CC" "$@"; }
files() { (cd "$1" && find . -type f -o -type l) | LC_ALL=C sort | tr '\n' ' '; }
scalar='-O0 -DTINY_NO_SIMD' # the cheapest compile
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
version=$(sed -n 's/^.define TINY_VERSION_[MP].* //p' src/core/config.h | paste -s -d . -)
minor=${version#*.} minor=${minor%%.*} major=${version%%.*}
consumer=$root/tests/units/consumer.c

# runs PROGRAM: it prints this version, and continues the text as every other one does
runs() {
    "$@" "$root/examples/models/story-small.gguf" >"$dir/said" || return 1
    cat "$dir/said"
    [ "$(head -n 1 "$dir/said")" = "$version" ] || return 1
    grep '^text: [a-z]* [a-z]* ' "$dir/said" >"$dir/text" || return 0
    [ -e "$dir/first" ] || cp "$dir/text" "$dir/first"
    cmp "$dir/first" "$dir/text"
}

# what a clone has at its top, with the headers of INC
tree=$root
if [ "$INC" != . ]; then
    tree=$dir/tree
    mkdir -p "$tree/src/core" "$tree/ports"
    cp CMakeLists.txt "$INC/tinyllm.h" "$INC/tinygnn.h" "$tree"
    cp src/core/config.h "$tree/src/core"
    cp -R ports/cmake "$tree/ports"
fi

# the version is the same wherever it has to be repeated
versions() {
    for h in tinyllm tinygnn; do head -n 1 "$INC/$h.h" | grep -F "/* $h.h $version - " || return 1; done
    grep -F "\"version\": \"$version\"" ports/vcpkg/vcpkg.json &&
        head -n 1 ports/debian/changelog | grep -F "tinyllm ($version-" &&
        grep -m 1 '^## ' CHANGELOG.md | grep -F "## $version"
}
does "the version is $version everywhere" versions

# DESTDIR and PREFIX; uninstall leaves what is not ours
does "make install" makes install PREFIX=/opt/tiny DESTDIR="$dir/stage"
prefix=$dir/stage/opt/tiny
expected=$(for f in include/tinygnn.h include/tinyllm.h lib/cmake/tinygnn/tinygnn-config-version.cmake \
    lib/cmake/tinygnn/tinygnn-config.cmake lib/cmake/tinyllm/tinyllm-config-version.cmake \
    lib/cmake/tinyllm/tinyllm-config.cmake lib/pkgconfig/tinygnn.pc lib/pkgconfig/tinyllm.pc; do
    printf './%s ' $f
done)
does "the files of make install" test "$(files "$prefix")" = "$expected"
does "no value is left open" sh -c '! grep -rn "@[A-Z]*@" "$1/lib"' - "$prefix"
uninstalls() {
    cp -R "$prefix" "$dir/gone" && touch "$dir/gone/include/other.h" && makes uninstall PREFIX="$dir/gone" || return 1
    files "$dir/gone"
    [ "$(files "$dir/gone")" = './include/other.h ' ] && [ ! -e "$dir/gone/lib/cmake/tinyllm" ]
}
does "make uninstall" uninstalls

# a program by pkg-config: compile COMPILER PROGRAM FLAGS PACKAGE...
compile() {
    compiler=$1 program=$2 flags=$3
    shift 3
    # shellcheck disable=SC2046,SC2086
    $compiler $warnings $flags $(pkg-config --cflags "$@") "$consumer" -x none -o "$dir/$program" \
        $(pkg-config --libs "$@")
}
if there pkg-config; then
    does "make install into a prefix" makes install PREFIX="$dir/prefix"
    PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig
    export PKG_CONFIG_PATH
    does "pkg-config --modversion" test "$(pkg-config --modversion tinyllm tinygnn | sort -u)" = "$version"
    does "a program in C by pkg-config" compile "$CC -std=c99" by_pkg "$scalar -DCONSUMES_LLM" tinyllm
    does "it runs" runs "$dir/by_pkg"
    if there g++; then
        does "a program in C++ by pkg-config" compile "g++ -std=c++11 -x c++" by_pkgpp "$scalar -DCONSUMES_GNN" tinygnn
        does "it runs" runs "$dir/by_pkgpp"
    else
        skip 'a program in C++: g++ is not here'
    fi
else
    skip 'programs by pkg-config: pkg-config is not here'
fi

# project NAME OPTION...: its CMakeLists.txt is the standard input; builds and runs the programs named in $programs
project() {
    name=$1
    shift
    mkdir -p "$dir/$name"
    { echo 'cmake_minimum_required(VERSION 3.14...3.31)'; cat; } >"$dir/$name/CMakeLists.txt"
    does "cmake: $name" cmake -S "$dir/$name" -B "$dir/$name/build" -DCMAKE_C_FLAGS="$scalar" \
        -DCMAKE_CXX_FLAGS="$scalar" -DCONSUMER="$consumer" "$@"
    for p in $programs; do
        does "cmake: $name builds $p" cmake --build "$dir/$name/build" --target "$p"
        does "cmake: $name runs $p" runs "$dir/$name/build/$p"
    done
}
# the answers of find_package, and where the header is after the prefix has moved from /opt/tiny
finds() {
    cmake -S "$dir/versions" -B "$dir/versions/build" -DCMAKE_PREFIX_PATH="$prefix" >"$dir/found" 2>&1
    cat "$dir/found"
    [ "$(grep -c '^-- yes.* as wanted$' "$dir/found")" = "$1" ] &&
        [ "$(grep -c '^-- no.* as wanted$' "$dir/found")" = "$2" ] &&
        grep -qx -- "-- in $prefix/include" "$dir/found"
}
if there cmake; then
    programs=gnn project find_package -DCMAKE_PREFIX_PATH="$prefix" <<X
project(by_find_package C)
find_package(tinyllm $major.$minor REQUIRED)
find_package(tinygnn REQUIRED)
add_executable(gnn \${CONSUMER})
target_compile_definitions(gnn PRIVATE CONSUMES_GNN)
target_link_libraries(gnn PRIVATE tinyllm::tinygnn)
X
    # in C++, from the sources, by another folder than that of the program
    if there g++; then
        mkdir -p "$dir/FetchContent/extern"
        cat >"$dir/FetchContent/extern/CMakeLists.txt" <<X
include(FetchContent)
FetchContent_Declare(tinyllm SOURCE_DIR "$tree")
FetchContent_MakeAvailable(tinyllm)
X
        programs=gnn project FetchContent <<X
project(by_fetch CXX)
add_subdirectory(extern)
set_source_files_properties(\${CONSUMER} PROPERTIES LANGUAGE CXX)
add_executable(gnn \${CONSUMER})
target_compile_definitions(gnn PRIVATE CONSUMES_GNN)
target_link_libraries(gnn PRIVATE tinyllm::tinygnn)
X
    else
        skip 'FetchContent in C++: g++ is not here'
    fi
    programs= project subdirectory -DTINY_OPENMP=ON <<X
project(by_subdirectory C)
find_package(OpenMP)
if(NOT OpenMP_C_FOUND)
  return()
endif()
add_subdirectory($tree tiny)
get_target_property(options tinyllm::tinyllm INTERFACE_COMPILE_OPTIONS)
if(NOT options MATCHES "\${OpenMP_C_FLAGS}")
  message(FATAL_ERROR "TINY_OPENMP gives \${options}")
endif()
X
    mkdir -p "$dir/versions"
    cat >"$dir/versions/CMakeLists.txt" <<X
cmake_minimum_required(VERSION 3.14...3.31)
project(versions NONE)
function(ask want)
  find_package(tinyllm \${ARGN} QUIET)
  set(got no)
  if(tinyllm_FOUND)
    set(got yes)
  endif()
  if(got STREQUAL want)
    string(APPEND got " as wanted")
  endif()
  message(STATUS "\${want}: \${ARGN}: \${got}")
  unset(tinyllm_DIR CACHE)
endfunction()
ask(yes)
ask(yes $major.$minor)
ask(yes $version)
ask(yes $version EXACT)
ask(no $major.$((minor + 1)))
ask(no $major.$((minor - 1)))
ask(no $((major + 1)).0)
ask(no $major.$minor.9999)
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.19)
  ask(yes $major.$((minor - 1))...$major.$((minor + 1)))
  ask(yes $major.$((minor - 1))...$version)
  ask(no $major.$((minor - 1))...<$version)
else()
  message(STATUS "yes: a range wants CMake 3.19 as wanted")
  message(STATUS "yes: a range wants CMake 3.19 as wanted")
  message(STATUS "no: a range wants CMake 3.19 as wanted")
endif()
find_package(tinygnn REQUIRED)
get_target_property(where tinyllm::tinygnn INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "in \${where}")
X
    does "which versions find_package takes" finds 6 5
    # cmake --install gives the files of make install
    does "cmake for the sources" cmake -S "$tree" -B "$dir/sources" -DCMAKE_INSTALL_PREFIX=/opt/tiny \
        -DCMAKE_INSTALL_LIBDIR=lib
    does "cmake --install" env DESTDIR="$dir/stage2" cmake --install "$dir/sources"
    does "cmake --install gives what make install gives" diff -r "$dir/stage" "$dir/stage2"
else
    skip 'programs by CMake: cmake is not here'
fi

# the shared libraries export exactly the public functions, under the names that the linker sees
exports_all() {
    for h in tinyllm tinygnn; do
        sed -n 's/^TINY_API [^(]*[ *]\([a-z0-9_]*\)(.*/\1/p' "$INC/$h.h" | sed "s/^tiny_/${h}_/" |
            LC_ALL=C sort -u >"$dir/declared"
        nm -D --defined-only "$dir/usr/lib/lib$h.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
            LC_ALL=C sort -u >"$dir/exported"
        [ "$(wc -l <"$dir/declared")" -gt 300 ] && diff "$dir/declared" "$dir/exported" || return 1
    done
}
# a library of another minor version under the same name: the program says so and does not start
refuses() {
    mkdir -p "$dir/next"
    printf 'TINYLLM_%s.%s { local: *; };\n' "$major" $((minor + 1)) >"$dir/next/map"
    $CC -shared -fPIC -Wl,-soname,libtinyllm.so.0 -Wl,--version-script="$dir/next/map" -x c /dev/null \
        -o "$dir/next/libtinyllm.so.0" || return 1
    LD_LIBRARY_PATH=$dir/next:$dir/usr/lib "$dir/by_shared" x 2>&1 | grep "version .TINYLLM_$major.$minor. not found"
}
if ! printf 'int x;\n' | $CC -shared -fPIC -Wl,-soname,libx.so.0 -x c - -o "$dir/libx.so" >/dev/null 2>&1; then
    skip 'shared libraries: no linker for ELF'
elif ! there pkg-config; then
    skip 'shared libraries: pkg-config is not here'
else
    does "make install SHARED=1" makes install SHARED=1 PREFIX="$dir/usr" BUILD="$dir" CFLAGS="-std=c99 $scalar"
    does "exactly the public functions are exported" exports_all
    PKG_CONFIG_PATH=$dir/usr/lib/pkgconfig
    # each header's functions with a context of the other's
    does "a program with both libraries" compile "$CC -std=c99" by_shared "-DCONSUMES_LLM -DCONSUMES_GNN" \
        tinyllm tinygnn
    does "it has no implementation of its own" sh -c '! nm "$1" | grep -i " t tiny"' - "$dir/by_shared"
    if there cmake; then
        programs=both project shared_libraries -DCMAKE_PREFIX_PATH="$dir/usr" <<X
project(by_shared C)
find_package(tinygnn REQUIRED)
add_executable(both \${CONSUMER})
target_compile_definitions(both PRIVATE CONSUMES_LLM CONSUMES_GNN)
target_link_libraries(both PRIVATE tinyllm::tinyllm tinyllm::tinygnn)
X
    fi
    rm "$dir"/usr/lib/lib*.so # a program that runs needs lib*.so.0 alone
    does "it runs" runs env LD_LIBRARY_PATH="$dir/usr/lib" "$dir/by_shared"
    if getconf GNU_LIBC_VERSION >/dev/null 2>&1; then does "another minor version is refused" refuses; fi
    does "make uninstall of shared libraries" makes uninstall PREFIX="$dir/usr"
    does "nothing is left" test -z "$(files "$dir/usr")"
fi

# make dist: the same bytes under another umask, later
dist() (
    umask "$1"
    makes dist BUILD="$dir/dist$1" && cd "$dir/dist$1/dist/tinyllm-$version" && sha256sum -c SHA256SUMS
)
if tar --version 2>/dev/null | grep -q GNU && there sha256sum; then
    does "make dist" dist 022
    does "make dist again" dist 077
    does "the archive has the same bytes" cmp "$dir/dist022/dist/tinyllm-$version.tar.gz" \
        "$dir/dist077/dist/tinyllm-$version.tar.gz"
    does "the files of make dist" test "$(files "$dir/dist022/dist/tinyllm-$version")" = \
        './CHANGELOG.md ./LICENSE ./SHA256SUMS ./tinygnn.h ./tinyllm.h '
else
    skip 'make dist: GNU tar or sha256sum is not here'
fi

[ $failed -ne 0 ] || rm -rf "$dir"
printf '%d passed, %d failed' $passed $failed
[ $skipped -eq 0 ] || printf ', %d skipped' $skipped
echo
[ $failed -eq 0 ]
