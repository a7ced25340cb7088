#!/bin/bash
# Run pytest: scripts/run_tests.sh PYTHON ARGUMENTS...
# Tests that act as several users run programs that all users may enter: open_programs.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${1#"$PWD"/}
shift

place=$(mktemp -d /var/tmp/pyslurm-ng-tests.XXXXXX)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
PYSLURM_TEST_BIN=$(scripts/open_programs.sh "$python" "$place")
export PYSLURM_TEST_BIN
"$python" -m pytest "$@"
