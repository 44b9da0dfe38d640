#!/bin/sh
# make test-serve, make test-page: build/serve as other people's programs see it. Python packages go into an environment
# under $BUILD; where one is missing the script says so in one line and tries nothing.
#   run.sh clients   the openai and anthropic clients of PyPI: chat, streams, tools, JSON, probabilities, embeddings
#   run.sh page      the page in headless Chromium: load, send, stop, reload; screenshots in $BUILD/serve-page
BUILD=${BUILD:-build}
what=$1
here=$(dirname "$0")
skip() { echo "test-$what: $1: nothing was tried"; echo '0 passed, 0 failed, 1 skipped'; exit 0; }
[ "$what" = page ] || what=serve
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1 ||
    skip 'python3, 3.9 or newer, with venv is not here'
env=$BUILD/serve-python
[ -x "$env/bin/pip" ] || python3 -m venv "$env" >/dev/null 2>&1 || skip 'python3 -m venv failed'
if [ "$what" = page ]; then
    browser=$(command -v chromium || command -v chromium-browser) || skip 'there is no chromium'
    "$env/bin/python" -c 'import websocket' 2>/dev/null || "$env/bin/pip" -q install websocket-client >/dev/null 2>&1 ||
        skip 'pip could not install websocket-client'
    mkdir -p "$BUILD/serve-page"
    exec "$env/bin/python" "$here/page.py" "$BUILD/serve" "$browser" "$BUILD/serve-page"
fi
"$env/bin/python" -c 'import openai, anthropic' 2>/dev/null ||
    "$env/bin/pip" -q install openai anthropic >/dev/null 2>&1 || skip 'pip could not install openai and anthropic'
exec "$env/bin/python" "$here/clients.py" "$BUILD/serve" "$2"
