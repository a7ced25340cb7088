"""Maestro: a study of two steps over two parameters; states read from squeue and sacct."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("study.yaml").write_text("""
description: {name: study, description: two steps}
batch: {type: slurm, host: here, bank: science, queue: debug}
study:
  - name: make
    description: write
    run: {cmd: "$(LAUNCHER) echo $(SIZE) > size.txt", nodes: 1, procs: 1, walltime: "00:02:00"}
  - name: sum
    description: read
    run: {cmd: "cat $(make.workspace)/size.txt > copy.txt", depends: [make], nodes: 1, procs: 1,
          walltime: "00:02:00"}
global.parameters:
  SIZE: {values: [1, 2], label: SIZE.%%}
""")
done = subprocess.run(
    ["maestro", "run", "-y", "-fg", "-s", "2", "-o", "out", "study.yaml"],
    capture_output=True,
    text=True,
)
assert done.returncode == 0, done.stdout + done.stderr
made = sorted(path.read_text() for path in Path("out").rglob("copy.txt"))
assert made == ["1\n", "2\n"], (made, done.stdout[-2000:], done.stderr[-2000:])
print("maestrowf", version("maestrowf"), "ok")
