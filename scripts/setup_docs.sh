#!/bin/bash
# Make the virtual environment that builds the documentation: scripts/setup_docs.sh PYTHON VENV
# It has Sphinx and towncrier only. Nothing that builds, runs or tests the programs needs it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:?usage: scripts/setup_docs.sh PYTHON VENV}
venv=${2:?usage: scripts/setup_docs.sh PYTHON VENV}

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
if ! "$venv/bin/python" -m pip install -q --disable-pip-version-check --retries 3 --timeout 60 \
    -r docs/site/requirements.txt; then
    echo "setup_docs: error: the packages of docs/site/requirements.txt could not be installed" >&2
    echo "setup_docs: error: programs and tests do not need them; try again when the index answers" >&2
    exit 1
fi
