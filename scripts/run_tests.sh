#!/bin/bash
# Run pytest: scripts/run_tests.sh PYTHON ARGUMENTS...
# Some tests act as several users. Where the checkout lies in a directory that only root may enter,
# such as /root, they run what is installed into a directory that all may enter, for their time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${1#"$PWD"/}
shift

if [ "$(id -u)" = 0 ] && ! setpriv --reuid=nobody --clear-groups test -x "$(dirname "$python")/sbatch"; then
    place=$(mktemp -d /var/tmp/pyslurm-ng-tests.XXXXXX)
    trap 'rm -rf "$place"' EXIT
    chmod 755 "$place"
    scripts/install.sh "$place" "$python" >/dev/null
    export PYSLURM_TEST_BIN=$place/bin
fi
"$python" -m pytest "$@"
