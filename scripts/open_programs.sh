#!/bin/bash
# Print a directory of our commands that every user may enter: scripts/open_programs.sh PYTHON DIRECTORY
# A checkout of root's, such as one below /root, is closed to the users that tests and the demo act
# as: then the programs are installed into DIRECTORY, which the caller removes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
directory=$2
bin=$(cd "$(dirname "$python")" && pwd)

# `test` looks after setpriv has given up root's rights; setpriv itself would start anything.
if [ "$(id -u)" = 0 ] && ! setpriv --reuid=nobody --clear-groups test -x "$bin/sbatch"; then
    scripts/install.sh "$directory" "$python" >/dev/null
    bin=$directory/bin
fi
echo "$bin"
