#!/usr/bin/env bash
# Adds an unformatted file and checks that scripts/format names and formats it.
#
#   format_test.sh ROOT
set -euo pipefail

root=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/scripts" "$copy/runner/shared/text"
cp "$root/scripts/format" "$copy/scripts/"
cp "$root/.clang-format" "$copy/"
cd "$copy"

fail() {
  echo "FAILED: $1"
  exit 1
}

printf 'int right = 1;\n' >runner/shared/text/right.cpp
printf 'int   wrong=1 ;\n' >runner/shared/text/wrong.h
printf 'int   wrong=1 ;\n' >'runner/shared/text/two words.cu'
printf 'int   wrong=1 ;\n' >runner/shared/text/notes.txt
code=0
said=$(scripts/format --check 2>&1) || code=$?
if [ "$code" -eq 69 ]; then
  echo "skipped: ${said#format: }"
  exit 77
fi
[ "$code" -eq 1 ] || fail "--check ended with $code: $said"
expected="format: 2 of 3 files are not formatted:
  runner/shared/text/two words.cu
  runner/shared/text/wrong.h
scripts/format fixes them, and so does: clang-format-14 -i runner/shared/text/two\\ words.cu runner/shared/text/wrong.h"
[ "$said" = "$expected" ] || fail "--check said: $said"
grep -qF 'int   wrong' runner/shared/text/wrong.h || fail "--check has changed a file"

scripts/format
scripts/format --check || fail "the output of scripts/format is not formatted"
[ "$(cat runner/shared/text/wrong.h)" = 'int wrong = 1;' ] || fail "it wrote: $(cat runner/shared/text/wrong.h)"
[ "$(cat runner/shared/text/notes.txt)" = 'int   wrong=1 ;' ] || fail "it has changed a file that is not C++"
