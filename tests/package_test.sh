#!/usr/bin/env bash
# Installs the wheel from scripts/package into a new virtual environment, and trains with it when only Python is on
# PATH.
#
#   package_test.sh ROOT LIBTORCH     LIBTORCH is the folder with the unpacked torch wheel, which replaces an installed torch
set -euo pipefail
export LC_ALL=C

root=$(realpath "$1")
libtorch=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
  echo "FAILED: $1"
  exit 1
}

python=/usr/bin/python3
[ -x "$python" ] || python=python3
if ! "$python" -m venv environment >venv.log 2>&1; then
  echo "skipped: $python makes no virtual environments (on Debian: apt-get install python3-venv)"
  exit 77
fi

"$root/scripts/package" --out once
"$root/scripts/package" --out twice 2>/dev/null
diff -r once twice || fail "the same sources make different packages"
wheel=$(echo once/*.whl)
echo "$(du -k "$wheel" | cut -f1) KiB in $wheel"

version=$(cd "$libtorch" && echo torch-*.dist-info | sed "s/torch-//; s/.dist-info//")
wanted="torch==${version%.*}.*"
# Make this torch look as if pip had installed it.
packages=$(environment/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
for part in "$libtorch"/torch "$libtorch"/nvidia "$libtorch"/torch-*.dist-info; do
  [ ! -e "$part" ] || ln -s "$part" "$packages/"
done

# From here on, only programs of the environment are on PATH. One thread, since two would wait for each other on a busy
# machine.
mkdir home work
cd work
inside() { env -i OMP_NUM_THREADS=1 PATH="$scratch/environment/bin" HOME="$scratch/home" "$@"; }
began=$SECONDS
inside pip --disable-pip-version-check install --quiet --no-index --no-deps "$scratch/$wheel"
inside retort --version
inside retort run quickstart run.dir=run
took=$((SECONDS - began))
[ -e run/summary.json ] || fail "the run has left no record"
echo "installed and trained in $took s"

inside python - "$wanted" <<'PYTHON' || fail "pip installed an unexpected package"
import base64, hashlib, importlib.metadata as metadata, sys
retort = metadata.distribution("retort")
assert retort.requires == [sys.argv[1]], retort.requires
for file in retort.files:
    if not file.hash:
        assert file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json") or file.suffix == ".pyc", file
        continue
    digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file
PYTHON
for part in man/man1/retort.1 bash-completion/completions/retort zsh/site-functions/_retort \
  fish/vendor_completions.d/retort.fish retort/schemas/train/supervised.schema.json retort/recipes/classify.yaml \
  retort/python_host/retort_host/__main__.py; do
  [ -s "$scratch/environment/share/$part" ] || fail "share/$part is not installed"
done
# Fault injection works in programs of the build folder, but must not work here.
inside RETORT_FAULT=any:1:fail retort init recipe.yaml || fail "it obeys RETORT_FAULT"

# The package must run the program that was installed with it, whatever is on PATH.
inside PATH= "$scratch/environment/bin/python" -c '
import retort
run = retort.run("quickstart", smoke=True, folder="from_python")
assert run.summary.status == "finished", run.summary
' || fail "the Python package does not run the program"

# Unpacking the archive over another environment gives the same result.
mkdir "$scratch/unpacked"
tar -C "$scratch/unpacked" --strip-components=1 -xf "$scratch"/once/*.tar.gz
for folder in libexec share/retort share/man; do
  diff -r --exclude=python "$scratch/unpacked/$folder" "$scratch/environment/$folder" || fail "the archive holds another $folder"
done
diff -r --exclude=__pycache__ "$scratch/unpacked/share/retort/python/retort" "$packages/retort" ||
  fail "the archive holds another Python package"
cmp "$scratch/unpacked/bin/retort" "$scratch/environment/bin/retort" || fail "the archive holds another retort"

# A Python network, in a new home without earlier runs.
host=${RETORT_TORCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/retort/bench-python-$version/bin/python}
if [ -x "$host" ] && site=$("$host" -c 'import sysconfig, timm; print(sysconfig.get_path("platlib"))' 2>/dev/null); then
  began=$SECONDS
  inside retort data make image_folder --out photos --classes 2 --per-class 10 --size 32 -q
  inside PYTHONPATH="$site" retort run timm data.root=photos data.image_size=32 epochs=1 device=cpu run.dir=hosted ||
    fail "no network of timm is trained"
  [ -e hosted/summary.json ] || fail "the run of timm's network has left no record"
  echo "trained a network of timm in $((SECONDS - began)) s"
fi

# Without torch, it says what is missing.
rm "$packages/torch"
code=0
said=$(inside retort run quickstart run.dir=without 2>&1) || code=$?
echo "without torch: $said"
grep -qF "pip install '$wanted'" <<<"$said" || fail "without torch it does not say what to install"
[ "$code" -ne 0 ] || fail "without torch it ends with 0"

inside pip --disable-pip-version-check uninstall --quiet --yes retort
left=$(cd "$scratch/environment" && find . -type f -path '*retort*')  # pip leaves empty folders
[ -z "$left" ] || fail "uninstalling leaves $left"
