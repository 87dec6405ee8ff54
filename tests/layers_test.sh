#!/usr/bin/env bash
# Holds the house together: who may include whom, what is done in one place only, and that a kind of stage has all its
# parts.
#
#   layers_test.sh ROOT [RETORT]        checks the tree below ROOT, and the program RETORT where it is given
#   layers_test.sh --self-test ROOT     plants every kind of mistake in a copy of ROOT and sees it found
set -euo pipefail
export LC_ALL=C

readonly families="data|model|memory|train|evaluate"
found=no

# Reports each line of $2, if there are any, as an offence against the rule $1.
forbid() {
  [ -n "$2" ] || return 0
  printf '%s:\n    %s\n' "$1" "${2//$'\n'/$'\n'    }"
  found=yes
}

# Lines of C++ and CUDA that match $1 in the folders that follow, as path:line:text.
code() {
  local pattern="$1"
  shift
  grep -rnE --include='*.cpp' --include='*.h' --include='*.cu' --include='*.cuh' -e "$pattern" "$@" || true
}

# Its input without the lines that match $1.
but_not() { grep -vE -e "$1" || true; }

# The files of the tree: those that git knows; without git, those that neither builds nor runs have made.
tracked() {
  git ls-files --deduplicate 2>/dev/null ||
    find . -type f -not -path './build*' -not -path './outputs/*' -not -path './multirun/*' | sed 's|^\./||'
}

check_includes() {
  forbid "runner/ knows no tensor" "$(code '#include [<"](torch|ATen|c10|stages)/' runner)"
  forbid "in runner/ a step knows no later one: config and schema, then graph, then plan, then run, then commands" "$(
    code '#include "runner/(schema|graph|plan|run|commands)/' runner/config
    code '#include "runner/(config|graph|plan|run|commands)/' runner/schema
    code '#include "runner/(config|plan|run|commands)/' runner/graph
    code '#include "runner/(config|run|commands)/' runner/plan
    code '#include "runner/commands/' runner/run
  )"
  forbid "stages/ sees of runner/ only the contract of a stage; the worker alone sees more" "$(
    code '#include [<"]runner/' stages |
      but_not '"runner/(stage|artifact|config_reader|run_context|plan_context|plan/memory_plan|plan/certificate|result|value|error_code|diagnostic|descriptor|csv|new_file|storage|sha256|suggest|utf8|bytes)\.h"' |
      but_not '^stages/(worker|worker_main|device|requests|predict|export|trained_checkpoint|versions|determinism)\.(cpp|h):'
  )"
  local family
  for family in ${families//|/ }; do
    forbid "families of stages do not include one another; what two need lies in stages/" "$(
      code "#include [<\"]stages/($families)/" "stages/$family" | but_not "#include [<\"]stages/$family/"
    )"
  done
  forbid "what families share does not include a family" "$(
    code "#include [<\"]stages/($families)/" stages/*.{cpp,h} | but_not '^stages/(requests|predict|export)\.cpp:'
  )"
  forbid "<torch/torch.h> costs ten seconds: only in a .cpp, by the precompiled header" "$(
    code '#include [<"]torch/torch\.h' stages | but_not '^stages/([^:]*\.(cpp|cu)|torch_pch\.h):'
  )"
  forbid "yaml-cpp is known to runner/config/yaml_reader.cpp alone" "$(
    code '#include [<"]yaml-cpp/' runner stages | but_not '^runner/config/yaml_reader\.cpp:'
  )"
  forbid "nothing depends on experiments/" "$(
    code '#include [<"](\.\./)*experiments/' runner stages tests
    grep -rnE --include='*.yaml' '^[^#]*experiments/' recipes || true
  )"
}

check_one_loop() {
  # What computes activations again in the backward pass takes the gradient through them itself.
  forbid "gradients are computed in stages/train/gradient.cpp alone" "$(
    code '(\.|->)backward\(|autograd::(backward|grad)\(' stages |
      but_not '^stages/(train/gradient|recompute)\.cpp:'
  )"
  forbid "the optimizer is stepped in one place alone" "$(
    code 'optim[a-z_]*(\.|->)step\(' stages | but_not '^stages/train/step_execution\.cpp:'
    code '_fused_(sgd|adam|adamw|adagrad)_\(' stages | but_not '^stages/train/optimizer\.cpp:'
    code 'torch::optim' stages
  )"
}

# The constant of a kind: train/supervised is kTrainSupervised.
constant() {
  local word name=k
  for word in ${1//[\/_]/ }; do name+=${word^}; done
  echo "$name"
}

check_kinds() {
  local schema kind name table known=()
  table=$(grep -oE '&k[A-Za-z0-9]+' stages/stages.cpp | sed 's/^&//')
  for schema in schemas/*/*.schema.json; do
    [[ "$schema" =~ ^schemas/($families)/ ]] || continue
    kind=${schema#schemas/}
    kind=${kind%.schema.json}
    name=$(constant "$kind")
    known+=("$name")
    if grep -qE '^  "x-planned": *true' "$schema"; then continue; fi
    grep -qF "\"title\": \"${kind/\//.}\"" "$schema" || forbid "a schema's title is its kind" "$schema"
    grep -qx "$name" <<<"$table" || forbid "a kind that has a schema is in the table" "$kind: stages/stages.cpp lacks &$name"
    grep -qE "^extern const runner::StageKind $name;" stages/stages.h ||
      forbid "a kind that has a schema is declared" "$kind: stages/stages.h lacks $name"
    grep -qsE "StageKind $name *=.*\"${kind/\//.}\"" "stages/$kind.cpp" ||
      forbid "a kind that has a schema has its code" "$kind: stages/$kind.cpp does not define $name, \"${kind/\//.}\""
    [ -e "tests/stages/${kind}_test.cpp" ] ||
      forbid "a kind that has a schema has its test" "$kind: there is no tests/stages/${kind}_test.cpp"
  done
  for name in $table; do
    [[ " ${known[*]} " == *" $name "* ]] || forbid "a kind in the table has a schema" "stages/stages.cpp: $name"
  done
  sort -c <<<"$table" 2>/dev/null || forbid "the table of kinds is sorted" "stages/stages.cpp"
}

check_files() {
  forbid "no file is larger than 1 MB" "$(
    tracked | tr '\n' '\0' | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +1000000c 2>/dev/null' find || true
  )"
  forbid "no path of one machine is in the tree" "$(
    tracked | tr '\n' '\0' |
      xargs -0 grep -nIE -e '(^|[^A-Za-z0-9_.])/(home|root|Users|work|mnt)/[A-Za-z0-9_.]' -- /dev/null || true
  )"
}

check_program() {
  forbid "retort starts without LibTorch" "$(readelf -d "$1" | grep -E 'NEEDED.*(torch|c10|cuda)' || true)"
}

check() {
  cd "$1"
  check_includes
  check_one_loop
  check_kinds
  check_files
  if [ -n "${2:-}" ]; then check_program "$2"; fi
  [ "$found" = no ]
}

# Plants a mistake by the commands on standard input in a fresh copy of the tree; the rule $1 must be what objects.
expect() {
  local rule="$1" said
  rm -rf "$copy"
  cp -r "$clean" "$copy"
  (cd "$copy" && bash -euo pipefail -s)
  if said=$("$self" "$copy" 2>&1); then
    echo "not found: $rule"
    failed=yes
  elif ! grep -qxF "$rule:" <<<"$said"; then
    printf 'expected: %s\nbut it said:\n%s\n' "$rule" "$said"
    failed=yes
  fi
}

self_test() {
  self=$(realpath "$0")
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  clean="$scratch/clean" copy="$scratch/copy" failed=no
  mkdir "$clean"
  (cd "$1" && tracked | tar -cf - -T - --ignore-failed-read) | tar -xf - -C "$clean"
  "$self" "$clean" || failed=yes

  expect "runner/ knows no tensor" <<<'echo "#include <ATen/Tensor.h>" >>runner/value.h'
  expect "runner/ knows no tensor" <<<'echo "#include \"stages/batch.h\"" >>runner/graph/graph.cpp'
  expect "in runner/ a step knows no later one: config and schema, then graph, then plan, then run, then commands" \
    <<<'echo "#include \"runner/schema/schema.h\"" >>runner/config/compose.h'
  expect "stages/ sees of runner/ only the contract of a stage; the worker alone sees more" \
    <<<'echo "#include \"runner/graph/graph.h\"" >>stages/train/supervised.cpp'
  expect "families of stages do not include one another; what two need lies in stages/" \
    <<<'echo "#include \"stages/train/loss.h\"" >>stages/evaluate/classification.cpp'
  expect "what families share does not include a family" \
    <<<'echo "#include \"stages/train/loss.h\"" >>stages/batch.h'
  expect "<torch/torch.h> costs ten seconds: only in a .cpp, by the precompiled header" \
    <<<'echo "#include <torch/torch.h>" >>stages/batch.h'
  expect "yaml-cpp is known to runner/config/yaml_reader.cpp alone" \
    <<<'echo "#include <yaml-cpp/yaml.h>" >>runner/value.cpp'
  expect "nothing depends on experiments/" <<<'echo "  - ../experiments/quickstart" >>recipes/classify.yaml'
  expect "gradients are computed in stages/train/gradient.cpp alone" \
    <<<'echo "void f(at::Tensor loss) { loss.backward(); }" >>stages/train/supervised.cpp'
  expect "the optimizer is stepped in one place alone" \
    <<<'echo "void f(Optimizer& optimizer) { optimizer.step({}); }" >>stages/train/supervised.cpp'
  expect "a kind that has a schema is in the table" <<<'sed -i "/&kMemoryPolicy/d" stages/stages.cpp'
  expect "a kind that has a schema is declared" <<<'sed -i "/ kMemoryPolicy;/d" stages/stages.h'
  expect "a kind that has a schema has its code" <<<'rm stages/memory/policy.cpp'
  expect "a kind that has a schema has its test" <<<'rm tests/stages/memory/policy_test.cpp'
  expect "a kind in the table has a schema" <<<'rm schemas/memory/policy.schema.json'
  expect "a schema's title is its kind" <<<'sed -i s/memory.policy/memory.police/ schemas/memory/policy.schema.json'
  expect "the table of kinds is sorted" \
    <<<'sed -i "/&kMemoryPolicy/d; s/&kTrainSupervised/\&kTrainSupervised, \&kMemoryPolicy/" stages/stages.cpp'
  expect "no file is larger than 1 MB" <<<'head -c 1000001 /dev/zero >recipes/large.bin'
  expect "no path of one machine is in the tree" <<<'echo "root: /ho""me/me/photos" >>recipes/classify.yaml'

  # A program that names LibTorch: what names it here is only called so.
  found=no
  readelf() { echo "0x1 (NEEDED) Shared library: [libtorch_cpu.so]"; }
  if [ -z "$(check_program retort)" ]; then
    echo "not found: retort starts without LibTorch"
    failed=yes
  fi
  [ "$failed" = no ]
}

if [ "${1:-}" = --self-test ]; then
  self_test "$2"
else
  check "$1" "${2:-}"
fi
