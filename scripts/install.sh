#!/bin/bash
# Install for an administrator: scripts/install.sh PREFIX PYTHON
#   PREFIX/bin, sbin, share/man   commands, daemons, manual pages
#   PREFIX/etc                    configuration (examples are put there, nothing of yours is touched)
#   PREFIX/lib/pyslurm-ng         everything else; nothing needs the checkout afterwards
# DESTDIR is honoured, for packagers, and so is SYSCONFDIR (PREFIX/etc) for the configuration.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:?usage: scripts/install.sh PREFIX PYTHON}
python=${2:?usage: scripts/install.sh PREFIX PYTHON}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
prefix=$(realpath -m "$prefix")
case $prefix in
    *[$' \t\n"\\']*) echo "install: error: PREFIX may not contain blanks or quotes: $prefix" >&2; exit 1 ;;
esac
target=${DESTDIR:-}$prefix
sysconf=${SYSCONFDIR:-$prefix/etc}
lib=$target/lib/pyslurm-ng

mkdir -p "$target"/{bin,sbin,lib,share/man} "${DESTDIR:-}$sysconf" || {
    echo "install: error: cannot write below $target" >&2
    exit 1
}

# Built beside the old tree and swapped in at the end, so that running commands never see half of it.
fresh=$lib.new
rm -rf "$fresh"
mkdir -p "$fresh"
# Times are kept, since the packs of commands go by those of their sources.
cp -R --preserve=timestamps src/pyslurm_ng "$fresh/"
find "$fresh" \( -name __pycache__ -o -name '*.c' -o -name '*.pyx' -o -name '*.pxi' -o -name '*.h' \) -prune -exec rm -rf {} +
cat >"$fresh/pyslurm_ng/_install.py" <<PY
"""Where this copy was installed; written by scripts/install.sh."""

PREFIX = "$prefix"
SYSCONFDIR = "$sysconf"
PY

# The libraries of the virtual environment that run the daemons, without the developers' tools.
"$python" scripts/copy_libraries.py "$fresh"
"$python" -m compileall -q --invalidation-mode unchecked-hash -s "$target" -p "$prefix" "$fresh"

old=$lib.old
rm -rf "$old"
[ ! -e "$lib" ] || mv "$lib" "$old"
mv "$fresh" "$lib"
rm -rf "$old"

"$python" scripts/build_launcher.py "$target/bin" "$target/sbin" "$lib/bin"
for example in etc/*.example; do
    [ ! -e "$example" ] || install -m 644 "$example" "${DESTDIR:-}$sysconf/"
done
completions=$target/share/bash-completion/completions
install -D -m 644 etc/bash-completion/pyslurm-ng "$completions/pyslurm-ng"
# bash-completion loads the file that has the command's name.
for command in $(sed -n '/^complete /,$p' etc/bash-completion/pyslurm-ng | tail -n +2); do
    ln -sf pyslurm-ng "$completions/$command"
done
if [ -d build/man ]; then cp -R build/man/. "$target/share/man/"; fi
for doc in LICENSE README.md; do install -D -m 644 "$doc" "$target/share/doc/pyslurm-ng/$doc"; done
echo "installed in $prefix; configuration is read from $sysconf/slurm.conf unless SLURM_CONF says otherwise"
