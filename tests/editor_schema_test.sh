#!/usr/bin/env bash
# Checks the editor schemas with a validator that users have: every shipped file must match the schema named on its
# first line, and the files in tests/cases/editor must be accepted or rejected as they specify.
#
#   editor_schema_test.sh ROOT
set -euo pipefail

cd "$1"
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
code=0
scripts/check-jsonschema --version >/dev/null || code=$?
if [ "$code" -eq 69 ]; then
  echo "skipped: check-jsonschema cannot be installed here"
  exit 77
fi
failed=no

# Reports an unexpected verdict.
expect() {
  local verdict="$1" form="$2" file="$3" name="$4" said code=0
  said=$(scripts/check-jsonschema --schemafile "$form" "$file" 2>&1) || code=$?
  if [ "$verdict" = accepted ] && [ "$code" -eq 0 ]; then return; fi
  if [ "$verdict" = refused ] && [ "$code" -eq 1 ] && grep -q 'validation errors' <<<"$said"; then return; fi
  printf '%s is not %s by %s:\n%s\n' "$name" "$verdict" "$form" "$said"
  failed=yes
}

# One call for all files of a schema, because starting Python is slow.
find recipes experiments -name '*.yaml' | sort >"$files/shipped"
while read -r file; do
  form=$(sed -n '1s/^# yaml-language-server: $schema=//p' "$file")
  printf '%s %s\n' "$(realpath --relative-to=. "$(dirname "$file")/$form")" "$file"
done <"$files/shipped" | sort >"$files/by_form"
for form in $(cut -d' ' -f1 "$files/by_form" | sort -u); do
  mapfile -t together < <(awk -v form="$form" '$1 == form { print $2 }' "$files/by_form")
  said=$(scripts/check-jsonschema --schemafile "$form" "${together[@]}" 2>&1) || {
    echo "$said"
    failed=yes
  }
done

awk -v folder="$files" '
  /^=== / { name = substr($0, 5); next }
  /^--- / { file = folder "/case" ++count ".yaml"; printf "%s %s %s %s\n", $2, $3, file, name; next }
  name != "" { print >file }
' tests/cases/editor/files.case >"$files/cases"
while read -r verdict group file name; do
  expect "$verdict" "schemas/editor/$group.json" "$file" "'$name'"
done <"$files/cases"
echo "$(wc -l <"$files/shipped") shipped files, $(wc -l <"$files/cases") cases"
[ "$failed" = no ]
