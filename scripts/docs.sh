#!/usr/bin/env bash
# Builds docs/ as a site that needs no network: docs.sh PYTHON FOLDER. The generator has its own environment, .venv-docs.
set -euo pipefail
python=$1 folder=$2
venv=.venv-docs
locked=requirements/docs.txt
if [ ! -f "$venv/.ready" ] || [ "$locked" -nt "$venv/.ready" ]; then
  echo "docs: installing the locked generator" >&2
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$locked"
  touch "$venv/.ready"
fi
# From nothing, so that no page of an earlier build is left; a warning is an error.
rm -rf "$folder"
"$venv/bin/sphinx-build" --quiet --fail-on-warning --keep-going --nitpicky -d "$venv/doctrees" docs "$folder"
