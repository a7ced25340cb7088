#!/bin/bash
# Bring a fresh Debian or Ubuntu to the point where `make` works, then make the virtual environment.
# usage: scripts/setup.sh [PYTHON] [VENV]
# PYSLURM_SETUP_MINIMAL=1 leaves out what only tests and developers use.
# Idempotent: asks apt only for what is missing, and says by name what it could not get.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
venv=${2:-.venv}

die() { echo "setup: error: $*" >&2; exit 1; }

# Root's own Python (pyenv below /root, say) is one that other users cannot start, and they are to
# run the commands: then the first one of the system that they can start is taken instead.
usable() {
    command -v "$1" >/dev/null && "$1" - <<'PY'
import os, sys
path = os.path.realpath(sys.base_prefix)
is_shared = os.geteuid() != 0
while not is_shared and os.stat(path).st_mode & 0o005 == 0o005:
    is_shared = path == "/"
    path = os.path.dirname(path)
sys.exit(not is_shared or sys.version_info < (3, 10))
PY
}
for choice in "$python" /usr/bin/python3 /usr/local/bin/python3 ""; do
    [ -n "$choice" ] || die "no Python 3.10 or newer that every user can start; as root: apt-get install python3"
    if usable "$choice"; then break; fi
done
[ "$choice" = "$python" ] || echo "setup: using $choice, since other users cannot start $python"
python=$choice

# What to look for on the left, the Debian package that has it on the right.
missing=()
need() { eval "$1" >/dev/null 2>&1 || missing+=("$2"); }
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
shared=$("$python" -c 'import sysconfig as s, os; v = s.get_config_var
print(any(os.path.exists(os.path.join(v(d) or "", n)) for d in ("LIBDIR", "LIBPL")
          for n in (v("LDLIBRARY") or "-", v("LIBRARY") or "-", v("INSTSONAME") or "-"))
      or os.path.exists("%s/%s/%s" % (v("LIBDIR"), v("MULTIARCH"), v("INSTSONAME"))))')
need 'command -v cc' gcc
need 'command -v make' make
need "test -f $include/Python.h" "python$version-dev"
[ "$shared" = True ] || missing+=("libpython$version-dev")
need "$python -c 'import venv, ensurepip'" "python$version-venv"

# Only tests and the demo use these; without them such tests are skipped and say so.
optional=()
want() { eval "$1" >/dev/null 2>&1 || optional+=("$2"); }
want 'command -v mariadbd || test -x /usr/sbin/mariadbd' mariadb-server
want 'command -v munged || test -x /usr/sbin/munged' munge
want 'ldconfig -p | grep -q libmunge || test -e /usr/lib/*/libmunge.so.2' libmunge2
want 'command -v strace' strace
want 'ldconfig -p | grep -q libpmix.so.2' libpmix2
want 'ls /usr/lib/*/faketime/libfaketime.so.1' libfaketime

# How to become root: in front of a command. Without a way, nothing can be installed.
root=()
can_install() { command -v apt-get >/dev/null && [ "${root[*]}" != none ]; }
if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then root=(sudo -n); else root=(none); fi
fi

install_packages() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -q --no-install-recommends "$@" >>"$log" 2>&1
}
fetch() {
    install_packages "$@" && return
    "${root[@]}" apt-get update -q >>"$log" 2>&1 || true
    install_packages "$@"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ((${#missing[@]})); then
    can_install || die "these packages are missing; as root: apt-get install ${missing[*]}"
    echo "setup: installing ${missing[*]}"
    if ! fetch "${missing[@]}"; then
        tail -n 5 "$log" >&2
        die "these packages are needed and could not be installed: ${missing[*]}"
    fi
fi
if ((${#optional[@]})) && [ -z "${PYSLURM_SETUP_MINIMAL:-}" ]; then
    skipped="setup: warning: without ${optional[*]} some tests are skipped"
    if can_install; then
        echo "setup: installing ${optional[*]} (for tests)"
        fetch "${optional[@]}" || echo "$skipped" >&2
    else
        echo "$skipped; as root: apt-get install ${optional[*]}" >&2
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# --no-build-isolation: the extensions are built with the Cython of this environment, once.
"$venv/bin/python" -m pip install -q --disable-pip-version-check 'setuptools>=64' wheel 'cython>=3,<4'
what='.[dev,web]'
[ -z "${PYSLURM_SETUP_MINIMAL:-}" ] || what=".[web]"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation -e "$what"
