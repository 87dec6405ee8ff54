#!/usr/bin/env bash
# Builds the fuzzers and runs each for some seconds; inputs that make one fail are saved in build-fuzz/found/.
#   tests/fuzz/run.sh SECONDS [NAME...]
# Up to a minute is a smoke test with the same inputs every time; longer runs continue from the findings of earlier
# ones.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:?usage: tests/fuzz/run.sh SECONDS [NAME...]}"
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do names+=("$(basename "$file" _fuzz.cpp)"); done
fi

cmake --preset fuzz >/dev/null
scripts/build fuzz "${names[@]/%/_fuzz}"
seed=0  # random
if [ "$seconds" -le 60 ]; then
  seed=1
  rm -rf build-fuzz/corpus
fi
failed=no
for name in "${names[@]}"; do
  work="build-fuzz/corpus/$name"
  mkdir -p "$work" build-fuzz/found
  if [ -e "tests/fuzz/seeds/$name.txt" ]; then split -l 1 -a 4 "tests/fuzz/seeds/$name.txt" "$work/seed-"; fi
  seeds=("$work")
  case "$name" in
    yaml | interpolation | schema) seeds+=(recipes experiments) ;;
    webp) seeds+=(tests/golden/webp) ;;
  esac
  printf '== %s, %s s\n' "$name" "$seconds"
  if ! "build-fuzz/bin/${name}_fuzz" -seed="$seed" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=65536 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build-fuzz/found/$name-" "${seeds[@]}" >"build-fuzz/$name.log" 2>&1; then
    tail -n 60 "build-fuzz/$name.log"
    failed=yes
  fi
  grep -E 'number_of_executed_units|peak_rss_mb' "build-fuzz/$name.log" || true
done
[ "$failed" = no ]
