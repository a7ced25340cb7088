#!/bin/bash
# Build the Debian packages of this checkout into build/deb: scripts/build_deb.sh
# They are for the Debian or Ubuntu release they are built on, whose Python they use.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "deb: error: $*" >&2; exit 1; }
command -v dpkg >/dev/null || die "dpkg is not here: packages are built on Debian or Ubuntu"

missing=$(dpkg-checkbuilddeps 2>&1 | sed -n 's/.*unmet build dependencies: //p' || true)
if ! command -v dpkg-buildpackage >/dev/null || ! command -v dh >/dev/null || [ -n "$missing" ]; then
    needed="build-essential debhelper python3 python3-dev python3-venv"
    root=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || die "packages are missing; as root: apt-get install $needed"
        root=(sudo -n)
    fi
    echo "deb: installing $needed"
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        $needed >/dev/null || die "these packages are needed and could not be installed: $needed"
fi

# Packages are built in a copy, so that the checkout stays what the developer made of it.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
build=$PWD/build/deb
rm -rf "$build"
mkdir -p "$build/pyslurm-ng"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T -
else  # an unpacked archive, or a host without git
    tar --exclude=./build --exclude=./demo/run --exclude=./pyslurm-ng-cluster --exclude='./.*' \
        --exclude='*.so' --exclude=__pycache__ -cf - .
fi | tar -xf - -C "$build/pyslurm-ng"
cd "$build/pyslurm-ng"
cat >debian/changelog <<TEXT
pyslurm-ng ($version) unstable; urgency=medium

  * Built from a checkout; CHANGELOG.md says what has changed.

 -- pyslurm-ng developers <pyslurm-ng@localhost>  $(date -R)
TEXT
dpkg-buildpackage --build=binary --no-sign >"$build/build.log" 2>&1 || {
    tail -n 20 "$build/build.log" >&2
    die "see $build/build.log"
}
cd "$build"
rm -rf pyslurm-ng
ls -- *.deb
