#!/bin/sh
# setup.sh test|ports|accel|mpi|serve: what the tests, the emulated ports, the accelerator ports, ranks over MPI or the
# tests of build/serve want beyond a C compiler and make. As root on Debian or Ubuntu installs what is missing,
# elsewhere says which line would. Nothing here is needed: what is missing is skipped by name.
what=${1:-test}
missing=
want() { # package, then a test that it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
has() { command -v "$1"; }

case $what in
test)
    want libsimde-dev sh -c 'for p in /usr /usr/local /opt/homebrew; do ls $p/include/simde/x86/sse4.1.h; done | grep .'
    want g++ has g++
    want clang has clang
    want libomp-dev sh -c 'ls /usr/lib/llvm-*/lib/libomp.so || ls /usr/lib*/libomp.so* || ls /opt/homebrew/opt/libomp'
    want tcc has tcc
    want cmake has cmake
    want pkgconf has pkg-config
    dnf='dnf install gcc-c++ clang libomp-devel simde-devel tcc cmake pkgconf'
    pacman='pacman -S gcc clang openmp simde tcc cmake pkgconf'
    brew='brew install simde libomp cmake pkgconf'
    ;;
ports)
    want libsimde-dev test -e /usr/include/simde/x86/sse4.1.h
    want clang has clang
    want tcc has tcc
    want qemu-user-static has qemu-aarch64-static
    for pair in aarch64-linux-gnu:arm64 arm-linux-gnueabihf:armhf i686-linux-gnu:i386 riscv64-linux-gnu:riscv64 \
        s390x-linux-gnu:s390x; do
        cpu=${pair%:*}
        [ "$(uname -m)-linux-gnu" != "$cpu" ] || continue
        want "gcc-$cpu" has "$cpu-gcc"
        want "libc6-dev-${pair#*:}-cross" test -e "/usr/$cpu/include/stdio.h"
    done
    want gcc-mingw-w64-x86-64 has x86_64-w64-mingw32-gcc
    want wine64 sh -c 'command -v wine64 || command -v wine || ls /usr/lib/wine/wine64'
    want emscripten has emcc
    want nodejs has node
    dnf='dnf install clang simde-devel qemu-user-static gcc-aarch64-linux-gnu gcc-riscv64-linux-gnu gcc-s390x-linux-gnu'
    dnf="$dnf mingw64-gcc wine nodejs"
    pacman='pacman -S clang simde qemu-user-static aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc mingw-w64-gcc wine'
    pacman="$pacman emscripten nodejs"
    brew='brew install simde qemu mingw-w64 emscripten node'
    ;;
accel)
    want libopenblas-dev sh -c 'ls /usr/lib/*/libopenblas.so || ls /usr/lib*/libopenblas.so'
    want opencl-headers test -e /usr/include/CL/cl.h
    want ocl-icd-opencl-dev sh -c 'ls /usr/lib/*/libOpenCL.so || ls /usr/lib/libOpenCL.so'
    want pocl-opencl-icd sh -c 'ls /etc/OpenCL/vendors/pocl.icd'
    dnf='dnf install openblas-devel opencl-headers ocl-icd-devel pocl'
    pacman='pacman -S openblas opencl-headers ocl-icd pocl'
    brew='brew install openblas pocl'
    ;;
serve)
    want slowhttptest has slowhttptest
    dnf='dnf install slowhttptest'
    pacman='pacman -S slowhttptest'
    brew='brew install slowhttptest'
    ;;
mpi)
    want libopenmpi-dev has mpicc
    want openmpi-bin has mpirun
    dnf='dnf install openmpi-devel'
    pacman='pacman -S openmpi'
    brew='brew install open-mpi'
    ;;
*)
    echo "usage: setup.sh test|ports|accel|mpi|serve" >&2
    exit 2
    ;;
esac

[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1; then exit 0; fi
    if apt-get update -q >/dev/null 2>&1; then
        # one by one: a package that this release does not have must not stop the others
        for package in $missing; do
            apt-get install -y -q --no-install-recommends "$package" >/dev/null 2>&1 ||
                echo "could not install $package"
        done
        exit 0
    fi
    echo "no package could be installed; what needs them is skipped"
    exit 0
fi
line="apt-get install$missing"
for tool in dnf pacman brew; do
    if has $tool >/dev/null; then eval "line=\$$tool"; fi
done
echo "not installed, so what needs it is skipped:$missing (as root: $line)"
exit 0
