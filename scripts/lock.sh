#!/usr/bin/env bash
# Resolves the dependencies into requirements files with hashes: lock.sh UV. For all platforms and Python versions, and
# without a registry address, so that each installation uses its own.
set -euo pipefail
uv=$1
compile() {
  "$uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}
echo uv | compile - -o requirements/bootstrap.txt
echo hatchling | compile - -o requirements/build.txt
printf 'cyclonedx-bom\npip-audit\n' | compile - -o requirements/audit.txt
printf 'furo\nmyst-parser\nsphinx\n' | compile - -o requirements/docs.txt
compile pyproject.toml -o requirements/runtime.txt
compile pyproject.toml --extra otel -o requirements/otel.txt
compile pyproject.toml --group dev -o requirements/dev.txt
"$(dirname "$uv")/python" -m tools.debian_packages
