#!/bin/sh
# make test-python: builds the wheel, installs it in an environment under $BUILD, runs its tests. Where Python, venv or
# a package is missing it says so in one line and skips all.
BUILD=${BUILD:-build} INC=${INC:-.}
here=$(dirname "$0")
skip() { echo "test-python: $1: nothing was tried"; echo '0 passed, 0 failed, 1 skipped'; exit 0; }
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1 ||
    skip 'python3, 3.9 or newer, with venv is not here'
env=$BUILD/python
[ -x "$env/bin/pip" ] || python3 -m venv "$env" >/dev/null 2>&1 || skip 'python3 -m venv failed'
"$env/bin/python" -c 'import numpy, scipy, pytest' 2>/dev/null ||
    "$env/bin/pip" -q install numpy scipy pytest >/dev/null 2>&1 || skip 'pip could not install numpy, scipy and pytest'
TINYLLM_HEADERS=$(cd "$INC" && pwd) "$env/bin/pip" -q install --disable-pip-version-check --force-reinstall --no-deps \
    "$here" || { echo '0 passed, 1 failed'; exit 1; }
here=$(cd "$here" && pwd)
cd "$env" && exec bin/python "$here/tests/count.py"
