#!/usr/bin/env bash
# Configures the fuzzers, which are rarely built: each must be a target, and its sources must exist.
#
#   configure_test.sh ROOT
set -euo pipefail
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
command -v clang++-14 >/dev/null || {
  echo "skipped: there is no clang++-14, which the fuzzers are built by"
  exit 77
}

targets=()
for file in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$file" .cpp)"); done
cmake --preset fuzz -B "$scratch" >"$scratch/log" 2>&1 || {
  cat "$scratch/log"
  exit 1
}
ninja -C "$scratch" -n "${targets[@]}" >/dev/null
echo "${#targets[@]} fuzzers"
