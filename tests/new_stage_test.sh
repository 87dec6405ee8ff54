#!/usr/bin/env bash
# Tests scripts/new-stage on copies of the tree.
#
#   new_stage_test.sh ROOT                       what it writes and what it rejects
#   new_stage_test.sh --build ROOT BUILD         a kind of every family builds with the LibTorch of BUILD and passes its tests,
#                                                and the new training and evaluation kinds work with every verb
#   new_stage_test.sh --use BIN TRAIN EVALUATE   only the latter, with the programs in BIN and these two kinds
set -euo pipefail

fail() {
  echo "FAILED: $1"
  exit 1
}

# The weights that the run in $1 kept.
best_weights() { echo "$1/nodes/train/checkpoints/$(cat "$1/nodes/train/checkpoints/best")/model.safetensors"; }

# The metrics of the evaluation in the run $1.
evaluated() { sed -nE 's/"time": *[^,}]*//; /"evaluate\//p' "$1/metrics.jsonl"; }

# With the programs in $1: plans, certifies, runs, kills and resumes training with kind $2, evaluates it with kind $3,
# and predicts.
use() {
  local retort="$1/retort"
  cd "$(mktemp -d)"
  "$retort" data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q
  cat >recipe.yaml <<EOF
schema: 1
name: new_kinds
seed: 7
threads: 1
device: cpu
data: {kind: data.image_folder, root: photos, image_size: 16, split: {train: 0.6, validation: 0.2, test: 0.2}}
model:
  kind: model.clip_vision
  hidden_size: 16
  intermediate_size: 16
  num_hidden_layers: 1
  num_attention_heads: 2
  patch_size: 8
  projection_dim: null
memory: {kind: memory.policy, micro_batch: 3, activation_checkpointing: block}
train: {kind: $2, epochs: 2, batch_size: 6, checkpoint: {every: {steps: 1}}}
evaluate: {kind: $3}
EOF
  local said
  if said=$("$retort" validate recipe.yaml data.image_size=20 2>&1); then fail "$2 accepts images that do not divide into patches"; fi
  grep -qF "the data's image size 20 is not a multiple of patch_size 8" <<<"$said" || fail "$2 rejects an image size with: $said"
  "$retort" plan recipe.yaml --json >plan.json || fail "there is no plan: $(cat plan.json)"
  local node
  for node in train evaluate; do
    grep -qE "\"node\": *\"$node\"" plan.json || fail "'$node' is not planned: $(cat plan.json)"
  done
  "$retort" certify recipe.yaml || fail "$2 is not certified"
  "$retort" run recipe.yaml run.dir=whole -q || fail "$2 does not run"
  if RETORT_FAULT=retort-worker/step:3:kill_both "$retort" run recipe.yaml run.dir=killed -q; then
    fail "the run of $2 should have been killed"
  fi
  "$retort" resume killed -q || fail "$2 does not resume"
  cmp "$(best_weights whole)" "$(best_weights killed)" || fail "$2 gives different weights after it is killed and resumed"
  "$retort" evaluate whole run.dir=again -q || fail "a model trained with $2 cannot be evaluated"
  [ -n "$(evaluated whole)" ] || fail "$3 records no metrics"
  [ "$(evaluated whole)" = "$(evaluated again)" ] || fail "$3 gives different metrics when repeated: $(evaluated whole; evaluated again)"
  "$retort" predict whole photos --out predictions.csv || fail "a model trained with $2 cannot predict"
  [ "$(wc -l <predictions.csv)" -eq 21 ] || fail "predictions: $(cat predictions.csv)"
}

if [ "$1" = --use ]; then
  use "$(realpath "$2")" "$3" "$4"
  exit 0
fi

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

# Checks that new-stage with argument $2 exits with code $1, prints $3, and leaves the tree unchanged.
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
  no_name="is not a name of a kind: FAMILY.KIND, lower-case words joined by '_', at most 60 characters"
  refused 64 thing.new "'thing' is not a family: data, model, memory, train or evaluate"
  refused 64 data "'data' $no_name"
  refused 64 data.Upper "'data.Upper' $no_name"
  refused 64 data.two__bars "'data.two__bars' $no_name"
  refused 64 data.../../escape "'data.../../escape' $no_name"
  refused 64 "data.$(printf 'x%.0s' {1..61})" "'data.$(printf 'x%.0s' {1..61})' $no_name"
  refused 73 memory.policy "memory.policy already exists: schemas/memory/policy.schema.json"
  for kind in "${kinds[@]}"; do
    scripts/new-stage "$kind" >/dev/null
    refused 73 "$kind" "$kind already exists: schemas/${kind/.//}.schema.json"
  done
  # Two names that differ only in their underscores would share a constant.
  refused 73 model.zebra2 "model.zebra2 already exists: stages/stages.h has kModelZebra2"
  # A rule for one kind of training also applies to a new one.
  rules() { grep -oE '"allOf": .*' "schemas/train/$1.schema.json"; }
  [ "$(rules novel_train)" = "$(rules supervised)" ] || fail "the rules of train.novel_train differ from those of train.supervised"
  if grep -riE 'novel' --include='*zebra*' --include='*aardvark*' --include='*middle*' --include='*thin*' stages schemas tests; then
    fail "the template's name is left over"
  fi
  declared=$(grep -oE '^extern const runner::StageKind k[A-Za-z0-9]+' stages/stages.h | grep -oE '[^ ]+$')
  listed=$(grep -oE '^ +&k[A-Za-z0-9]+,' stages/stages.cpp | tr -d ' &,')
  [ "$declared" = "$listed" ] || fail "declared: $declared; listed: $listed"
  [ "$(wc -l <<<"$listed")" -ge ${#kinds[@]} ] || fail "listed: $listed"
  LC_ALL=C sort -c <<<"$listed" || fail "not sorted: $listed"
  # new-stage must preserve the structure of the tree.
  tests/layers_test.sh "$root" >/dev/null 2>&1 || { echo "skipped: the tree itself fails the test of layers" && exit 0; }
  tests/layers_test.sh . || fail "new-stage breaks the layers"
  exit 0
fi

# Build only the tests of the new kinds; the other tests are built elsewhere.
binary=$(realpath "$2")
rm -rf tests/stages/* tests/bench
for kind in "${kinds[@]}"; do scripts/new-stage "$kind"; done
cache() { sed -n "s/^$1:[A-Z]*=//p" "$binary/CMakeCache.txt"; }
cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DRETORT_CUDA=OFF -DRETORT_LIBTORCH="$(cache RETORT_LIBTORCH)" \
  -DCMAKE_CXX_COMPILER="$(cache CMAKE_CXX_COMPILER)" -DCMAKE_C_COMPILER="$(cache CMAKE_C_COMPILER)" \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
cmake --build build --target stages_tests --target retort --target retort-worker
for kind in "${kinds[@]}"; do
  ctest --test-dir build --output-on-failure --no-tests=error -R "^stages/${kind%%.*}/(.*[+])?${kind#*.}_test"
done
for kind in "${kinds[@]}"; do build/bin/retort stages | grep -F "$kind" || fail "retort does not know $kind"; done
use "$copy/build/bin" train.novel_train evaluate.middle
