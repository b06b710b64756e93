#!/usr/bin/env bash
# Creates .venv from the pinned and hashed requirements. Needs Python 3.11 or newer and nothing else: uv comes from the same package index.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "error: $*" >&2; exit 1; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  || fail "$PYTHON is not Python 3.11 or newer; name one with: make setup PYTHON=/path/to/python3"

# Package indexes sometimes answer 429 or drop a download, so a failed command is repeated twice, after a pause.
with_retries() {
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
    || fail "$PYTHON cannot create virtual environments; install its venv module (on Debian: apt-get install python3-venv)"
  echo "installing uv"
  with_retries .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
fi
echo "installing the pinned packages into .venv"
with_retries "$uv" pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.txt
with_retries "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
