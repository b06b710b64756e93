#!/usr/bin/env bash
# Makes .venv from the hashed pins. Needs Python 3.11 or newer and nothing else: uv comes from the same package index.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "error: $*" >&2; exit 1; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  || fail "$PYTHON is not Python 3.11 or newer; name one with: make setup PYTHON=/path/to/python3"

# A registry that answers 429 or drops a download deserves a second and a third try, with a pause.
patiently() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [ "$try" = 3 ] || { echo "trying again in $((try * 5)) s: $1 failed" >&2; sleep $((try * 5)); }
  done
  fail "could not install packages after 3 tries; check the network and the package index settings (pip config, UV_INDEX_URL)"
}

uv=.venv/bin/uv
if [ ! -x "$uv" ]; then
  "$PYTHON" -m venv --clear .venv >/dev/null 2>&1 \
    || fail "$PYTHON cannot make virtual environments; install its venv module (on Debian: apt-get install python3-venv)"
  echo "getting uv"
  patiently .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
fi
echo "installing the pinned packages into .venv"
patiently "$uv" pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.txt
patiently "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
