#!/usr/bin/env bash
# Builds a small project with scripts/build and checks its output without a terminal.
#
#   build_test.sh ROOT
set -euo pipefail

root=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/scripts"
sed 's/^readonly every=30/readonly every=1/' "$root/scripts/build" >"$copy/scripts/build"
chmod +x "$copy/scripts/build"
cd "$copy"
cat >CMakePresets.json <<'JSON'
{
  "version": 4,
  "configurePresets": [{"name": "small", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}],
  "buildPresets": [{"name": "small", "configurePreset": "small"}]
}
JSON
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
add_custom_target(quick COMMAND ${CMAKE_COMMAND} -E true)
add_custom_target(slow COMMAND sleep 4)
add_dependencies(slow quick)
add_custom_target(broken COMMAND sh -c "echo a mistake at line 7; exit 1")
CMAKE
cmake --preset small >/dev/null

fail() {
  echo "FAILED: $1"
  exit 1
}

said=$(scripts/build small slow)
grep -qxE 'build: 1 of 2, 0 min [0-9]+ s' <<<"$said" || fail "a slow build says: $said"
[ -z "$(grep -v '^build: ' <<<"$said")" ] || fail "a slow build says more: $said"
code=0
said=$(scripts/build small broken) || code=$?
[ "$code" -ne 0 ] || fail "a broken build ends with 0"
grep -qx 'a mistake at line 7' <<<"$said" || fail "a broken build hides why: $said"
