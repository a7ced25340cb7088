#!/bin/bash
# Run pytest: scripts/run_tests.sh PYTHON ARGUMENTS...
# Tests that act as several users run programs that all users may enter: open_programs.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${1#"$PWD"/}
shift

MOST_RUN_AGAIN=4

place=$(mktemp -d /var/tmp/pyslurm-ng-tests.XXXXXX)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
PYSLURM_TEST_BIN=$(scripts/open_programs.sh "$python" "$place")
export PYSLURM_TEST_BIN
status=0
"$python" -m pytest "$@" || status=$?
[ "$status" = 1 ] || exit "$status"

# Clusters of several tests share the CPUs, so a test may meet a limit of time that holds alone. A
# few that failed run once more, one after the other: what fails then, too, fails the run.
failed=$("$python" - <<'END'
import json, pathlib
known = pathlib.Path(".pytest_cache/v/cache/lastfailed")
print(len(json.loads(known.read_text())) if known.exists() else 0)
END
)
[ "$failed" -ge 1 ] && [ "$failed" -le "$MOST_RUN_AGAIN" ] || exit "$status"
echo "$failed failed beside the others; once more, alone:"
"$python" -m pytest "$@" -n 0 --last-failed
echo "What failed only beside the others is a fault, too, of the test or of ours: mend it (CONTRIBUTING.md)."
