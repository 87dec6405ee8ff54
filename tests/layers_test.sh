#!/usr/bin/env bash
# Checks the structure of the tree: which rooms may include which, what may be done in only one place, and that each
# kind of stage is complete.
#
#   layers_test.sh ROOT [RETORT]        checks the tree below ROOT, and the program RETORT if given
#   layers_test.sh --self-test ROOT     adds every kind of mistake to a copy of ROOT and checks that it is found
set -euo pipefail
export LC_ALL=C

readonly families="data|model|memory|train|evaluate"
found=no

# Reports the lines of $2, if any, as violations of the rule $1.
forbid() {
  [ -n "$2" ] || return 0
  printf '%s:\n    %s\n' "$1" "${2//$'\n'/$'\n'    }"
  found=yes
}

# Lines of C++ and CUDA files in the given folders that match $1, as path:line:text.
code() {
  local pattern="$1"
  shift
  grep -rnE --include='*.cpp' --include='*.h' --include='*.cu' --include='*.cuh' -e "$pattern" "$@" || true
}

# The input without lines that match $1.
but_not() { grep -vE -e "$1" || true; }

# The files of the tree: those that git knows; without git, all files that were not made by builds or runs.
tracked() {
  git ls-files --deduplicate 2>/dev/null ||
    find . -type f -not -path './build*' -not -path './outputs/*' -not -path './multirun/*' | sed 's|^\./||'
}

# The rooms of each part of the tree; a room may include itself and those before it. runner/shared is used by both
# programs, runner/parent only by `retort`, and runner/worker and stages/ only by the worker.
readonly shared_rooms="text error disk value stage http weights graph protocol record"
readonly parent_rooms="devices keys config schema compile python record run svg report sweep registry page serve cli"
readonly stages_rooms="text tensor random machine ranks numerics artifact memory plan fetch weights checkpoint python data model train evaluate worker few_shot contrastive retina adapters"
# Rooms for one paper each: no other room may include them.
readonly paper_rooms="few_shot contrastive retina adapters"

check_rooms() {
  local folder="$1" room later
  shift
  local rooms=("$@")
  forbid "every folder of $folder/ is a room" "$(
    find "$folder" -mindepth 1 -maxdepth 1 -type d | sed "s|^$folder/||" | grep -vxE "$(IFS='|'; echo "${rooms[*]}")" || true
  )"
  while [ $# -gt 1 ]; do
    room=$1
    shift
    later=$(IFS='|'; echo "$*")
    forbid "a room of $folder/ does not include a later one: ${rooms[*]}" \
      "$(code "#include [<\"]$folder/($later)/" "$folder/$room")"
  done
}

check_includes() {
  forbid "runner/ does not depend on tensors" "$(code '#include [<"](torch|ATen|c10|stages)/' runner)"
  forbid "runner/ consists of shared code, the parent, the worker, the tracker and the Python package" "$(
    find runner -mindepth 1 -maxdepth 1 -type d | grep -vxE 'runner/(shared|parent|worker|tracker|python)' || true
  )"
  forbid "the Python package needs only Python" "$(
    find runner/python -name __pycache__ -prune -o -type f -print | grep -vE '^runner/python/retort/([a-z_]+\.py|py\.typed)$' || true
    grep -rnE --include='*.py' '^(import|from) ' runner/python |
      but_not ':(import|from) (\.|(__future__|collections|contextlib|csv|dataclasses|importlib|io|json|math|os|pathlib|re|shutil|signal|subprocess|sys|tempfile|types|typing|warnings)([ .]|$))'
  )"
  # shellcheck disable=SC2086
  check_rooms runner/shared $shared_rooms
  # shellcheck disable=SC2086
  check_rooms runner/parent $parent_rooms
  # shellcheck disable=SC2086
  check_rooms stages $stages_rooms
  forbid "a root contains only the program's entry point, the table of kinds and the precompiled header" "$(
    find runner stages -maxdepth 1 -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) |
      but_not '/(main\.cpp|(worker_main|worker_library|run_worker)\.(h|cpp)|stages\.(h|cpp)|(runner|torch)_pch\.h)$'
  )"
  forbid "runner/parent/config and runner/parent/schema do not include each other" \
    "$(code '#include "runner/parent/config/' runner/parent/schema)"
  forbid "shared code includes no program's code, and the parent, the worker and the tracker do not include one another" "$(
    code '#include "runner/(parent|worker|tracker)/' runner/shared
    code '#include "runner/(worker|tracker)/' runner/parent
    code '#include "runner/(parent|tracker)/' runner/worker stages
    code '#include "runner/(parent|worker)/' runner/tracker
  )"
  forbid "stages/ includes only the parts of runner/ that stages need; the worker and the rendezvous of its ranks may include more" "$(
    code '#include [<"]runner/(worker|shared/(graph|protocol|record))/' stages |
      but_not '^stages/(worker/[a-z_]+|ranks/rendezvous|worker_main|worker_library|run_worker)\.(cpp|h):'
  )"
  local room
  for room in $paper_rooms; do
    forbid "only the table of kinds may include a room for one paper" "$(
      code "#include [<\"]stages/$room/" runner stages | but_not "^stages/$room/|^stages/stages\.cpp:"
    )"
  done
  local family
  for family in ${families//|/ }; do
    [ "$family" != memory ] || continue
    forbid "families of stages do not include one another; code that two of them need belongs in an earlier room" "$(
      code "#include [<\"]stages/(${families/memory|/})/" "stages/$family" | but_not "#include [<\"]stages/$family/"
    )"
  done
  forbid "<torch/torch.h> includes all of LibTorch: <torch/types.h> and the other headers that are needed take half the time" "$(
    code '#include [<"]torch/torch\.h' stages tests experiments scripts/templates
  )"
  forbid "<torch/types.h> takes eight seconds to compile: include it only in a .cpp, where the precompiled header provides it" "$(
    code '#include [<"]torch/(autograd|types|utils)\.h' stages | but_not '^stages/([^:]*\.(cpp|cu)|torch_pch\.h):'
  )"
  forbid "outside LibTorch, at::parallel_for is a sequential loop: use stages/tensor/parallel.h" "$(
    code 'at::parallel_(for|reduce)\(' stages
  )"
  forbid "stages/text does not depend on tensors" "$(code '#include [<"](torch|ATen|c10)/' stages/text)"
  forbid "only runner/parent/config/yaml_reader.cpp uses yaml-cpp" "$(
    code '#include [<"]yaml-cpp/' runner stages | but_not '^runner/parent/config/yaml_reader\.cpp:'
  )"
  forbid "only runner/shared/record/log.cpp uses spdlog" "$(
    code '#include [<"](spdlog|fmt)/' runner stages | but_not '^runner/shared/record/log\.cpp:'
  )"
  forbid "only runner/parent/registry/database.cpp uses SQLite" "$(
    code '#include [<"]sqlite3' runner stages | but_not '^runner/parent/registry/database\.cpp:'
  )"
  forbid "only runner/shared/http/http.cpp uses libcurl" "$(
    code '#include [<"]curl/' runner stages | but_not '^runner/shared/http/http\.cpp:'
  )"
  forbid "nothing depends on experiments/" "$(
    code '#include [<"](\.\./)*experiments/' runner stages tests
    grep -rnE --include='*.yaml' '^[^#]*experiments/' recipes || true
  )"
}

check_run_layout() {
  # Allowed: RETORT_CACHE/nodes is another folder, the index of results of finished runs.
  forbid "only runner/shared/stage/run_layout contains the names in a run's folder" "$(
    code '/ *"(nodes|\.retort|checkpoints|outputs|metrics\.jsonl?|curves\.json|log\.txt|summary\.json|finished\.json|reused\.json|plan\.json|manifest\.json)' \
      runner stages |
      but_not '^runner/shared/stage/run_layout\.cpp:|^runner/shared/record/node_index\.cpp:.*own / "nodes"|//.*/ *"'
  )"
}

check_texts() {
  # Sources made for one request are safe: its diagnostics are printed before they are destroyed.
  forbid "a verb's Console keeps what the verb reads for as long as its diagnostics: Sources are created nowhere else" "$(
    code '^ *Sources [a-z]+(;|\{|\()' runner | but_not '^runner/parent/(cli/completion/complete\.cpp|registry/run_entry\.cpp|serve/(site|run_catalog)\.cpp|config/):'
  )"
}

check_one_loop() {
  # Recomputing activations in the backward pass computes the gradient through them itself; an explanation image needs a
  # gradient for its feature maps, but not for weights.
  forbid "gradients are computed only in stages/train/gradient.cpp" "$(
    code '(\.|->)backward\(|autograd::(backward|grad)\(' stages |
      but_not '^stages/(train/gradient|numerics/recomputable_module|worker/feature_map_picture)\.cpp:'
  )"
  forbid "the optimizer is stepped in only one place" "$(
    code 'optim[a-z_]*(\.|->)step\(' stages | but_not '^stages/train/step_execution\.cpp:'
    code '_fused_(sgd|adam|adamw|adagrad)_\(' stages | but_not '^stages/train/optimizer\.cpp:'
    code 'torch::optim' stages
  )"
}

# The constant of a kind: train/supervised has kTrainSupervised.
constant() {
  local word name=k
  for word in ${1//[\/_]/ }; do name+=${word^}; done
  echo "$name"
}

# The source of a kind: train/supervised.cpp, or in the room of a paper, such as retina/train_binary.cpp.
source_of() {
  local room
  for room in $paper_rooms; do
    if [ -e "stages/$room/${1/\//_}.cpp" ]; then
      echo "stages/$room/${1/\//_}.cpp"
      return
    fi
  done
  echo "stages/$1.cpp"
}

check_kinds() {
  local schema kind name table code known=()
  table=$(sed -n '/ all_kinds() {/,/^}/p' stages/stages.cpp | grep -oE '&k[A-Za-z0-9]+' | sed 's/^&//')
  for schema in schemas/*/*.schema.json; do
    [[ "$schema" =~ ^schemas/($families)/ ]] || continue
    kind=${schema#schemas/}
    kind=${kind%.schema.json}
    name=$(constant "$kind")
    known+=("$name")
    grep -qF "\"title\": \"${kind/\//.}\"" "$schema" || forbid "a schema's title is its kind" "$schema"
    grep -qx "$name" <<<"$table" || forbid "a kind that has a schema is in the table" "$kind: stages/stages.cpp lacks &$name"
    grep -qE "^extern const runner::StageKind $name;" stages/stages.h ||
      forbid "a kind that has a schema is declared" "$kind: stages/stages.h lacks $name"
    code=$(source_of "$kind")
    grep -qsE "StageKind $name *=.*\"${kind/\//.}\"" "$code" ||
      forbid "a kind that has a schema has its code" "$kind: $code does not define $name, \"${kind/\//.}\""
    [ -e "tests/${code%.cpp}_test.cpp" ] ||
      forbid "a kind that has a schema has its test" "$kind: there is no tests/${code%.cpp}_test.cpp"
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
  forbid "the tree contains no machine-specific paths" "$(
    tracked | tr '\n' '\0' |
      xargs -0 grep -nIE -e '(^|[^A-Za-z0-9_.])/(home|root|Users|work|mnt)/[A-Za-z0-9_.]' -- /dev/null || true
  )"
}

# Code that acts on recipe strings that may be secrets: it resolves, checks and compiles them, and opens the files
# that they name. All other code uses the displayed form instead (runner/shared/value/value.h).
readonly reveals="shared/value/value\.(h|cpp)\
|parent/config/(defaults_item|interpolation|interpolation_lookup|interpolation_parser|resolvers|scalar|secret)\.(h|cpp)\
|parent/schema/(rule|schema|validator|validator_containers|validator_scalars)\.cpp\
|parent/compile/(legality|missing_files|option_walk|recipe|wiring)\.cpp\
|parent/record/input_record\.cpp|parent/devices/choose_device\.cpp|parent/run/(hooks|image_folders|plan_request)\.cpp\
|parent/cli/(prepare|prepare_sweep|commands/evaluate)\.cpp"

# External data, and data that must survive a power cut.
check_trust() {
  forbid "downloads by scripts are pinned by their SHA-256" "$(
    grep -nvE '^(#.*|[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64})?$' scripts/libtorch/*-{cpu,cuda}.txt || true
    grep -nE 'pip.* download' scripts/setup >/dev/null && ! grep -q -e '--require-hashes' scripts/setup &&
      echo "scripts/setup: pip without --require-hashes"
    grep -rnE '(curl|wget)[^|]*https?://' scripts || true
  )"
  # Other exceptions: init writes a file for the user, and the meter writes to /proc.
  forbid "files are written only through runner/shared/disk, which never follows links and can flush" "$(
    code 'O_CREAT|std::ofstream|fopen\(' runner stages |
      but_not '^(runner/(shared/disk/|parent/cli/commands/init\.cpp)|stages/(machine/memory_meter|weights/new_folder)\.cpp)'
  )"
  forbid "only code that acts on a secret reveals it, never code that shows or stores it" "$(
    code '(\.|->)reveal\(\)|revealed_text\(|get(_if)?<std::string>\([^()]*[.>]data\)' runner stages |
      but_not "^runner/($reveals):"
  )"
  forbid "JSON is read only by runner/shared/value/parse_json, which limits its nesting" "$(
    code '(json|Json)(>)?::parse\(|>> *json\b|basic_json' runner stages |
      but_not '^runner/shared/(value/parse_json|weights/strict_json)\.cpp:|::parse\(R"'
  )"
}

check_program() {
  forbid "retort loads only the C library: any other library slows down every command" "$(
    readelf -d "$1" | grep NEEDED | grep -vE '\[(libc|libm|libdl|librt|libpthread|libresolv|ld-linux-x86-64)\.so' || true
  )"
}

readonly checks="check_includes check_run_layout check_texts check_one_loop check_kinds check_files check_trust"

check() {
  cd "$1"
  local one
  for one in $checks; do "$one"; done
  if [ -n "${2:-}" ]; then check_program "$2"; fi
  [ "$found" = no ]
}

# Makes a mistake with the commands on standard input in the copy of the tree, and undoes it at the end. The rule $1
# must report it. Runs only the checks of $by, which takes a tenth of the time.
expect() {
  local rule="$1" said
  (cd "$copy" && bash -euo pipefail -s)
  if said=$(cd "$copy" && found=no && "$by" 2>&1 && [ "$found" = no ]); then
    echo "not found: $rule"
    failed=yes
  elif ! grep -qxF "$rule:" <<<"$said"; then
    printf 'expected: %s\nbut it said:\n%s\n' "$rule" "$said"
    failed=yes
  fi
  copy_git checkout -q -f -- .
  copy_git clean -q -d -f -x
}

# Git for the files of the copy. The copy itself is not a repository, so each of its files counts as part of the tree.
copy_git() { git -C "$copy" --git-dir="$scratch/git" --work-tree=. "$@"; }

self_test() {
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  copy="$scratch/copy" failed=no
  mkdir "$copy"
  (cd "$1" && tracked | tar -cf - -T - --ignore-failed-read) | tar -xf - -C "$copy"
  copy_git init -q
  copy_git add -A -f
  (check "$copy") || failed=yes

  local by=check_includes
  expect "runner/ does not depend on tensors" <<<'echo "#include <ATen/Tensor.h>" >>runner/shared/value/value.h'
  expect "runner/ does not depend on tensors" <<<'echo "#include \"stages/tensor/batch.h\"" >>runner/shared/graph/graph.cpp'
  expect "every folder of runner/shared/ is a room" <<<'mkdir runner/shared/misc; touch runner/shared/misc/more.h'
  expect "runner/ consists of shared code, the parent, the worker, the tracker and the Python package" \
    <<<'mkdir runner/misc'
  expect "the Python package needs only Python" <<<'echo "import numpy" >>runner/python/retort/record.py'
  expect "the Python package needs only Python" <<<'touch runner/python/retort/native.so'
  expect "a room of runner/parent/ does not include a later one: $parent_rooms" \
    <<<'echo "#include \"runner/parent/schema/schema.h\"" >>runner/parent/config/compose.h'
  expect "a room of stages/ does not include a later one: $stages_rooms" \
    <<<'echo "#include \"stages/train/classification_loss.h\"" >>stages/tensor/batch.h'
  expect "a root contains only the program's entry point, the table of kinds and the precompiled header" \
    <<<'touch stages/helpers.cpp'
  expect "runner/parent/config and runner/parent/schema do not include each other" \
    <<<'echo "#include \"runner/parent/config/compose.h\"" >>runner/parent/schema/schema.h'
  expect "only the table of kinds may include a room for one paper" \
    <<<'echo "#include \"stages/retina/vote.h\"" >>stages/evaluate/classification.cpp'
  expect "shared code includes no program's code, and the parent, the worker and the tracker do not include one another" \
    <<<'echo "#include \"runner/worker/reuse.h\"" >>runner/parent/run/run.h'
  expect "stages/ includes only the parts of runner/ that stages need; the worker and the rendezvous of its ranks may include more" \
    <<<'echo "#include \"runner/shared/graph/graph.h\"" >>stages/train/supervised.cpp'
  expect "families of stages do not include one another; code that two of them need belongs in an earlier room" \
    <<<'echo "#include \"stages/train/classification_loss.h\"" >>stages/evaluate/classification.cpp'
  expect "<torch/torch.h> includes all of LibTorch: <torch/types.h> and the other headers that are needed take half the time" \
    <<<'echo "#include <torch/torch.h>" >>tests/stages/model/scale_test.cpp'
  expect "<torch/types.h> takes eight seconds to compile: include it only in a .cpp, where the precompiled header provides it" \
    <<<'echo "#include <torch/types.h>" >>stages/tensor/batch.h'
  expect "outside LibTorch, at::parallel_for is a sequential loop: use stages/tensor/parallel.h" \
    <<<'echo "void f() { at::parallel_for(0, 9, 1, {}); }" >>stages/model/transformer_block.cpp'
  expect "stages/text does not depend on tensors" <<<'echo "#include <ATen/Tensor.h>" >>stages/text/tokenizer.h'
  expect "only runner/parent/config/yaml_reader.cpp uses yaml-cpp" \
    <<<'echo "#include <yaml-cpp/yaml.h>" >>runner/shared/value/value.cpp'
  expect "only runner/shared/record/log.cpp uses spdlog" \
    <<<'echo "#include <spdlog/spdlog.h>" >>runner/parent/record/run_folder.cpp'
  expect "only runner/parent/registry/database.cpp uses SQLite" \
    <<<'echo "#include <sqlite3.h>" >>runner/parent/registry/run_index.cpp'
  expect "only runner/shared/http/http.cpp uses libcurl" \
    <<<'echo "#include <curl/curl.h>" >>stages/fetch/download.cpp'
  expect "nothing depends on experiments/" <<<'echo "  - ../experiments/quickstart" >>recipes/classify.yaml'
  by=check_run_layout
  expect "only runner/shared/stage/run_layout contains the names in a run's folder" \
    <<<'echo "auto metrics = folder / \"nodes\" / id;" >>stages/train/trainer.cpp'
  by=check_one_loop
  expect "gradients are computed only in stages/train/gradient.cpp" \
    <<<'echo "void f(at::Tensor loss) { loss.backward(); }" >>stages/train/supervised.cpp'
  expect "the optimizer is stepped in only one place" \
    <<<'echo "void f(Optimizer& optimizer) { optimizer.step({}); }" >>stages/train/supervised.cpp'
  by=check_kinds
  expect "a kind that has a schema is in the table" <<<'sed -i "/&kMemoryPolicy/d" stages/stages.cpp'
  expect "a kind that has a schema is declared" <<<'sed -i "/ kMemoryPolicy;/d" stages/stages.h'
  expect "a kind that has a schema has its code" <<<'rm stages/memory/policy.cpp'
  expect "a kind that has a schema has its test" <<<'rm tests/stages/memory/policy_test.cpp'
  expect "a kind in the table has a schema" <<<'rm schemas/memory/policy.schema.json'
  expect "a schema's title is its kind" <<<'sed -i s/memory.policy/memory.police/ schemas/memory/policy.schema.json'
  expect "the table of kinds is sorted" \
    <<<'sed -i "/&kMemoryPolicy/d; s/&kTrainSupervised/\&kTrainSupervised, \&kMemoryPolicy/" stages/stages.cpp'
  by=check_files
  expect "no file is larger than 1 MB" <<<'head -c 1000001 /dev/zero >recipes/large.bin'
  expect "the tree contains no machine-specific paths" <<<'echo "root: /ho""me/me/photos" >>recipes/classify.yaml'
  by=check_trust
  expect "downloads by scripts are pinned by their SHA-256" <<<'echo "numpy==2.0.0" >>scripts/libtorch/2.11.0-cpu.txt'
  expect "downloads by scripts are pinned by their SHA-256" <<<'sed -i "s/ --require-hashes//" scripts/setup'
  expect "files are written only through runner/shared/disk, which never follows links and can flush" \
    <<<'echo "void f() { std::ofstream(\"a\") << 1; }" >>runner/parent/report/data_survey.cpp'
  expect "only code that acts on a secret reveals it, never code that shows or stores it" \
    <<<'echo "std::string f(const Value& value) { return *value.reveal(); }" >>runner/parent/registry/run_entry.cpp'
  expect "JSON is read only by runner/shared/value/parse_json, which limits its nesting" \
    <<<'echo "void f() { const auto read = nlohmann::ordered_json::parse(text, nullptr, false); }" >>stages/train/classification_loss.cpp'
  by=check_texts
  expect "a verb's Console keeps what the verb reads for as long as its diagnostics: Sources are created nowhere else" \
    <<<'echo "void f() { Sources sources; }" | sed "s/{ /{\n  /" >>runner/parent/cli/weights_source.cpp'

  # A program that loads another library. The stand-in for readelf names that library.
  found=no
  for library in libtorch_cpu.so libcrypto.so.3 libstdc++.so.6; do
    readelf() { echo "0x1 (NEEDED) Shared library: [$library]"; }
    if [ -z "$(check_program retort)" ]; then
      echo "not found: retort loads $library"
      failed=yes
    fi
  done
  [ "$failed" = no ]
}

if [ "${1:-}" = --self-test ]; then
  self_test "$2"
else
  check "$1" "${2:-}"
fi
