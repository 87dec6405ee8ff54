#!/usr/bin/env bash
# What a new user does in the first hour with real images, following only README, and what they can expect.
#
#   first_hour.sh RETORT PHOTOS     PHOTOS: a folder of class folders; exits with 77 if it does not exist
set -uo pipefail

retort=$(realpath "$1")
if [ ! -d "$2" ]; then
  echo "skipped: there are no images in $2"
  [ -z "${RETORT_REQUIRE_SHARED:-}" ] && exit 77 || exit 1
fi
photos=$(realpath "$2")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
export RETORT_CACHE="$place/cache"
failures=0

fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$1"
  sed 's/^/    /' out err 2>/dev/null | tail -20
}

# run CODE WORDS...: runs retort, which must exit with CODE; its output is saved in the files out and err.
run() {
  local wanted=$1 code=0
  shift
  "$retort" "$@" >out 2>err || code=$?
  [ "$code" = "$wanted" ] || fail "retort $* ended with $code, not $wanted"
}
says() { grep -qF -e "$2" "$1" || fail "$1 does not say: $2"; }
is_silent_about() { ! grep -qF -e "$2" "$1" || fail "$1 says: $2"; }

# A small copy of the images: 12 per class, plus some other files.
for folder in "$photos"/*/; do
  class=$(basename "$folder")
  mkdir -p "photos/$class"
  find "$folder" -name '*.jpg' | LC_ALL=C sort | head -12 | xargs -I{} cp {} "photos/$class/"
done
first=$(ls photos | head -1)
small=(data.image_size=72 model=tiny batch_size=16 lr=1e-3)

# The recipe from README, with its override.
cat >flowers.yaml <<'YAML'
schema: 1
name: flowers
defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: from_scratch}, _self_]
data: {root: photos, image_size: 72}
train: {epochs: 60, batch_size: 32}
evaluate: {kind: evaluate.classification}
YAML
run 0 validate flowers.yaml
run 0 plan flowers.yaml epochs=2
says out "fits"
run 0 run flowers.yaml epochs=2 run.dir=first
says err "epoch 2/2"
says err "top-1"
is_silent_about err "memory after epoch 2"

# Errors are reported before anything runs, all at once, and leave no files.
run 78 run flowers.yaml epochs=2 train.epoch=3 modle=tiny run.dir=wrong
says err "did you mean 'epochs'?"
says err "did you mean 'model'?"
[ ! -e wrong ] || fail "a refused run has left its folder"
run 78 validate flowers.yaml model.num_attention_heads=5 train.optimizer.kind=sgd
says err "is not a multiple of num_attention_heads 5"
run 66 validate flowers.yaml data.root=nowhere
says err "there is no folder 'nowhere'"
run 1 run flowers.yaml memory.budget=1MiB run.dir=wrong
says err "E0706"
[ ! -e wrong ] || fail "a run that does not fit has left its folder"
run 0 run flowers.yaml epochs=1 run.dir=wrong

# Nothing is skipped silently.
cp "photos/$first/$(ls "photos/$first" | head -1)" one.jpg
touch "photos/$first/notes.txt" && mkdir "photos/.hidden"
run 0 validate flowers.yaml
says err "1 file ignored: 1 .txt; 1 hidden folder"
printf 'GIF89a' >"photos/$first/moving.gif"
run 65 validate flowers.yaml
says err "1 .gif"
run 0 validate flowers.yaml data.on_corrupt=skip
rm "photos/$first/moving.gif" "photos/$first/notes.txt" && rmdir photos/.hidden

# Predictions as text and JSON, with a closed pipe and a full disk.
run 0 predict first one.jpg
says out "one.jpg"
run 0 predict first photos --json
tail -1 out | python3 -c 'import json, sys; json.load(sys.stdin)["retort"]' || fail "the last line is not a document"
"$retort" predict first photos 2>err | head -1 >out
[ ! -s err ] || is_silent_about err "error"
run_full() { "$retort" "$@" >/dev/full 2>err; [ $? = 74 ] || fail "retort $* into a full disk does not end with 74"; }
run_full stages
run_full predict first one.jpg -q
run 66 run flowers.yaml data.root=nowhere --json
python3 -c 'import json; json.load(open("out"))["errors"][0]["code"]' || fail "errors are not JSON"

# A damaged checkpoint is reported, not replaced; resume repairs it.
newest=$(ls -d first/nodes/train/checkpoints/step-* | tail -1)
printf 'x' | dd of="$newest/model.safetensors" bs=1 seek=3000 conv=notrunc 2>/dev/null
for verb in "predict first one.jpg -q" "evaluate first" "export first"; do
  run 65 $verb
  says err "is damaged"
  says err "--checkpoint"
done
run 0 resume first
says err "damaged-step-"
run 0 predict first one.jpg
rm -r wrong/nodes/train/checkpoints
run 66 predict wrong one.jpg
says err '`retort resume wrong`'
run 0 resume wrong
run 0 predict wrong one.jpg

# Other data, other metrics, the same weights.
mkdir -p some && cp -r "photos/$first" some/
run 65 evaluate first data.root=some run.dir=measured
says err "the model was trained on"
run 0 evaluate first data.root=some evaluate.top_k='[1,3]' evaluate.allow_trained=true run.dir=measured
says err "classes are absent from the test set"
(cd / && "$retort" evaluate "$place/first" run.dir="$place/elsewhere") >out 2>err || fail "a record is not evaluated elsewhere"

# What practitioners expect.
run 0 run classify data.root=photos "${small[@]}" epochs=1 train.class_weights=balanced train.sampling=balanced \
  train.ema.decay=0.9 run.dir=weighed
run 0 run classify data.root=photos "${small[@]}" epochs=1 train.mixup=0.2 train.cutmix=1 \
  evaluate.test_time_flip=horizontal run.dir=mixed
run 0 export weighed
[ -f weighed/export/train-merged/config.json ] || fail "an export has no config.json"
run 0 compare .
says out "flowers"
run 0 analyze first

[ "$failures" = 0 ] || { echo "$failures expectations of the first hour are not met" && exit 1; }
