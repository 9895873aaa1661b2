#!/usr/bin/env bash
# Creates a virtual environment: setup.sh PYTHON VENV. It changes nothing outside the project.
set -euo pipefail
python=$1 venv=$2

command -v "$python" >/dev/null || {
  echo "set-up: '$python' was not found. Install Python 3.11 or newer, or specify one: make PYTHON=/path/to/python3" >&2
  exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "set-up: $("$python" --version) is too old, Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2
  exit 1
}
if [ ! -x "$venv/bin/uv" ]; then
  echo "set-up: creating $venv"
  "$python" -m venv --clear "$venv" || {
    echo "set-up: '$python -m venv' failed. On Debian and Ubuntu, run: apt-get install python3-venv" >&2
    exit 1
  }
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
fi
echo "set-up: installing the locked dependencies"
export VIRTUAL_ENV=$venv
# uv leaves itself out of the lock it syncs, so both files are named.
"$venv/bin/uv" pip sync --quiet --compile-bytecode --require-hashes requirements/bootstrap.txt requirements/dev.txt
"$venv/bin/uv" pip install --quiet --no-deps --no-build-isolation --editable .
