#!/usr/bin/env bash
# Compares the table in README.md with what oom_claims measures, each claim in its own process.
#
#   table_test.sh PROGRAM README            fails if a line differs
#   table_test.sh PROGRAM README --write    writes the table
set -euo pipefail
export LC_ALL=C

readonly program="$1" readme="$2" begin='<!-- measured: begin -->' end='<!-- measured: end -->'

if [ "${3:-}" = --write ]; then
  table=$("$program" --markdown)
  text=$(sed -n "1,/^$begin\$/p" "$readme")
  rest=$(sed -n "/^$end\$/,\$p" "$readme")
  printf '%s\n%s\n%s\n' "$text" "$table" "$rest" >"$readme"
  exit
fi

written=$(sed -n "/^$begin\$/,/^$end\$/p" "$readme" | grep '^| [0-9]')
failed=no
rows=$("$program" --list)
for row in $rows; do
  measured=$("$program" --markdown "$row")
  if ! grep -qxF -e "$measured" <<<"$written"; then
    printf 'row %s is, as measured:\n  %s\nand in %s:\n  %s\n' "$row" "$measured" "$readme" \
      "$(grep -e "^| $row |" <<<"$written" || echo nothing)"
    failed=yes
  fi
done
if [ "$(wc -l <<<"$written")" != "$(wc -l <<<"$rows")" ]; then
  echo "the table must have the rows: $(paste -sd" " <<<"$rows")"
  failed=yes
fi
[ "$failed" = no ]
