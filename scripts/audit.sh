#!/usr/bin/env bash
# Lists the packages in the image and their known vulnerabilities: audit.sh PYTHON sbom FILE | vulnerabilities
# The tools have their own environment, .venv-audit.
set -euo pipefail
python=$1 task=$2
venv=.venv-audit
locked=requirements/audit.txt
if [ ! -f "$venv/.ready" ] || [ "$locked" -nt "$venv/.ready" ]; then
  echo "audit: installing the locked tools" >&2
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$locked"
  touch "$venv/.ready"
fi

case $task in
sbom)
  # Validated against the schema of CycloneDX; without a time and a serial number, so that it can be compared.
  PYTHONWARNINGS=ignore "$venv/bin/cyclonedx-py" requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
    --spec-version 1.6 --output-format JSON --validate --output-file "$3" requirements/runtime.txt
  ;;
vulnerabilities)
  report=$(mktemp)
  trap 'rm -f "$report" "$report.err"' EXIT
  # Strict: a package that could not be looked up counts as an error.
  if "$venv/bin/pip-audit" --strict --disable-pip --require-hashes --progress-spinner off -r requirements/runtime.txt \
    --format json --output "$report" 2>"$report.err"; then
    echo "audit: no known vulnerabilities in requirements/runtime.txt"
  elif [ -s "$report" ]; then
    "$venv/bin/python" -m json.tool "$report"
    echo "audit: known vulnerabilities found, see above" >&2
    exit 1
  else
    tail -n 1 "$report.err" >&2
    echo "audit: NOT CHECKED: the vulnerability data could not be read. Run it again where pypi.org is reachable." >&2
    exit 2
  fi
  ;;
*)
  echo "audit: unknown task '$task': use sbom FILE or vulnerabilities" >&2
  exit 2
  ;;
esac
