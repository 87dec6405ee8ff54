#!/usr/bin/env bash
# Completes words with the scripts printed by `retort completion`, in each installed shell.
#
#   completion_test.sh RETORT
set -euo pipefail
export LC_ALL=C
retort=$(realpath "$1")
readonly retort
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p bin recipes/data recipes/model 'two words'
ln -s "$retort" bin/retort
printf '# Tells flowers apart.\nschema: 1\ndefaults: [{data: petals}, _self_]\nflag: true\n' >recipes/flowers.yaml
echo 'root: photos' >recipes/data/petals.yaml
echo 'root: leaves' >recipes/data/leaves.yaml
echo 'root: lakes' >recipes/data/lakes.yaml
export PATH="$folder/bin:$PATH"
failed=no

# Checks that the completions of the line $2 in the shell $1 are the words $3, one per line.
expect() {
  local found
  found=$("$1_completes" "$2" | sort) || true
  [ "$found" = "$3" ] && return
  printf '%s: %s\n  expected: %s\n  found:    %s\n' "$1" "$2" "${3//$'\n'/ }" "${found//$'\n'/ }"
  failed=yes
}

# bash calls the function with words split at COMP_WORDBREAKS, and replaces only what follows the last break.
bash_completes() {
  bash -c '
    source <(retort completion bash)
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$'"' \\t\\n\"\\'><=;|&(:'"' COMP_WORDS=() COMP_CWORD=0
    _retort retort "" ""
    printf "%s\n" "${COMPREPLY[@]-}"
  ' bash "$1"
}
expect bash 'retort val' validate
expect bash 'retort run flow' flowers
expect bash 'retort run flowers data=p' petals
expect bash 'retort run flowers data=petals,l' $'petals,label_table\npetals,lakes\npetals,leaves'
expect bash "retort run flowers 'data=petals,le" data=petals,leaves
expect bash 'retort run flowers fl' flag=
expect bash 'retort run flowers data.root=x data.ro' data.root=
expect bash 'retort run tw' 'two\ words/'
expect bash 'retort graph flowers --format m' mermaid
expect bash 'retort graph flowers --format=m' mermaid
expect bash 'retort run --config-dir re' recipes/
expect bash 'retort nosuch fl' ''

if command -v fish >/dev/null; then
  fish_completes() {
    HOME=$folder fish --no-config -c 'retort completion fish | source; complete -C $argv[1] | string replace -r "\t.*" ""' "$1"
  }
  expect fish 'retort val' validate
  expect fish 'retort run flow' flowers
  expect fish 'retort run flowers data=p' data=petals
  expect fish 'retort run flowers data=petals,l' $'data=petals,label_table\ndata=petals,lakes\ndata=petals,leaves'
  expect fish "retort run flowers 'data=p" data=petals
fi

if command -v zsh >/dev/null; then
  # compadd works only inside the line editor, so a replacement prints its arguments.
  zsh_completes() {
    zsh -f -c '
      compdef() { }
      compadd() { print -rl -- "${(@P)argv[-1]}" }
      source <(retort completion zsh)
      words=("${(z)1}") CURRENT=$#words PREFIX=$words[-1]
      _retort
    ' zsh "$1"
  }
  expect zsh 'retort val' validate
  expect zsh 'retort run flow' flowers
  expect zsh 'retort run flowers data=p' data=petals
  expect zsh 'retort run flowers data=petals,l' $'data=petals,label_table\ndata=petals,lakes\ndata=petals,leaves'
fi
[ "$failed" = no ]
