#!/usr/bin/env bash
# Tests scripts/new-stage on copies of the tree.
#
#   new_stage_test.sh ROOT                what it writes and what it refuses
#   new_stage_test.sh --build ROOT BUILD  that a kind of every family builds and passes, by the LibTorch of BUILD
set -euo pipefail

build=no
if [ "$1" = --build ]; then
  build=yes
  shift
fi
root=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C "$root" -cf - CMakeLists.txt CMakePresets.json runner stages schemas recipes experiments scripts tests |
  tar -xf - -C "$copy"
cd "$copy"

fail() {
  echo "FAILED: $1"
  exit 1
}

# Expects new-stage with argument $2 to end with code $1, to say $3, and to leave the tree as it was.
refused() {
  local code=0 said
  sum() { find . -type f -exec sha256sum {} + | sort; }
  local before after
  before=$(sum)
  said=$(scripts/new-stage "$2" 2>&1) || code=$?
  after=$(sum)
  [ "$code" -eq "$1" ] || fail "'$2' ended with $code: $said"
  [ "$said" = "new-stage: $3" ] || fail "'$2' said: $said"
  [ "$before" = "$after" ] || fail "'$2' was refused, but changed the tree"
}

kinds=(data.aardvark model.zebra_2 memory.thin_policy train.novel_train evaluate.middle)

if [ "$build" = no ]; then
  no_name="is no name of a kind: FAMILY.KIND, lower-case words joined by '_', at most 60 letters"
  refused 64 thing.new "'thing' is no family: data, model, memory, train or evaluate"
  refused 64 data "'data' $no_name"
  refused 64 data.Upper "'data.Upper' $no_name"
  refused 64 data.two__bars "'data.two__bars' $no_name"
  refused 64 data.../../escape "'data.../../escape' $no_name"
  refused 64 "data.$(printf 'x%.0s' {1..61})" "'data.$(printf 'x%.0s' {1..61})' $no_name"
  refused 73 memory.policy "memory.policy is there already: schemas/memory/policy.schema.json"
  for kind in "${kinds[@]}"; do
    scripts/new-stage "$kind" >/dev/null
    refused 73 "$kind" "$kind is there already: schemas/${kind/.//}.schema.json"
  done
  # Two names that differ in their bars only would share a constant.
  refused 73 model.zebra2 "model.zebra2 is there already: stages/stages.h has kModelZebra2"
  if grep -riE 'novel' --include='*zebra*' --include='*aardvark*' --include='*middle*' --include='*thin*' stages schemas tests; then
    fail "the template's name is left over"
  fi
  declared=$(grep -oE '^extern const runner::StageKind k[A-Za-z0-9]+' stages/stages.h | grep -oE '[^ ]+$')
  listed=$(grep -oE '^ +&k[A-Za-z0-9]+,' stages/stages.cpp | tr -d ' &,')
  [ "$declared" = "$listed" ] || fail "declared: $declared; listed: $listed"
  [ "$(wc -l <<<"$listed")" -ge ${#kinds[@]} ] || fail "listed: $listed"
  LC_ALL=C sort -c <<<"$listed" || fail "not sorted: $listed"
  # Whatever the shape of the tree is, new-stage keeps it.
  tests/layers_test.sh "$root" >/dev/null 2>&1 || { echo "skipped: the tree itself fails the test of layers" && exit 0; }
  tests/layers_test.sh . || fail "new-stage breaks the layers"
  exit 0
fi

# Only the new kinds' tests are built: those of the others are built where they are.
binary=$(realpath "$2")
rm -rf tests/stages/* tests/end_to_end tests/bench
mkdir -p tests/end_to_end
for kind in "${kinds[@]}"; do scripts/new-stage "$kind"; done
cache() { sed -n "s/^$1:[A-Z]*=//p" "$binary/CMakeCache.txt"; }
cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DRETORT_CUDA=OFF -DRETORT_LIBTORCH="$(cache RETORT_LIBTORCH)" \
  -DCMAKE_CXX_COMPILER="$(cache CMAKE_CXX_COMPILER)" -DCMAKE_C_COMPILER="$(cache CMAKE_C_COMPILER)" \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
cmake --build build --target stages_tests --target retort
for kind in "${kinds[@]}"; do
  ctest --test-dir build --output-on-failure --no-tests=error -R "^stages/${kind/.//}_test"
done
for kind in "${kinds[@]}"; do build/bin/retort stages | grep -F "$kind" || fail "retort does not know $kind"; done
