#!/usr/bin/env bash
# Installs a build into a new folder and uses it from there.
#
#   install_test.sh BUILD
set -euo pipefail

build=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix="$scratch/a prefix"
mkdir "$scratch/elsewhere"
cd "$scratch/elsewhere"

fail() {
  echo "FAILED: $1"
  exit 1
}

cmake --install "$build" --prefix "$prefix" >/dev/null
for part in bin/retort libexec/retort-worker libexec/retort-tracker share/retort/schemas/editor/recipe.json share/retort/recipes/classify.yaml \
  share/retort/experiments/quickstart.yaml share/retort/python/retort/py.typed; do
  [ -e "$prefix/$part" ] || fail "$part is not installed"
done
if ldd "$prefix/libexec/retort-worker" | grep 'not found'; then fail "the worker does not find its libraries"; fi

retort="$prefix/bin/retort"
"$retort" --version
"$retort" validate quickstart
[ -z "$(ls -A .)" ] || fail "validate has written: $(ls -A .)"
# The worker and the recipes must be found in the installation, since nothing else is available here.
"$retort" run quickstart --smoke run.dir=run
[ -e run/summary.json ] || fail "the run has left no record"

# The Python package must find the program of its own installation.
if python=$(command -v python3); then
  PYTHONPATH="$prefix/share/retort/python" "$python" -B -c 'import retort; print(retort.validate("quickstart"))' ||
    fail "the Python package does not find the program"
fi
