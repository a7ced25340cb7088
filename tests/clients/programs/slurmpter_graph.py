"""slurmpter: a graph of three jobs that depend on each other, which a fourth job submits."""

import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from slurmpter import Slurm, SlurmJob

graph = Slurm(name="graph", submit="submit")
folders = {"error": "error", "output": "output", "submit": "submit"}
first = SlurmJob("first", "/bin/echo", arguments="one", slurm=graph, **folders)
second = SlurmJob("second", "/bin/echo", arguments=["two", "three"], slurm=graph, **folders)
last = SlurmJob("last", "/bin/echo", arguments="four", slurm=graph, **folders)
first.add_child(second)
second.add_child(last)
graph.build_submit()
for _ in range(120):
    written = {path.read_text() for path in Path("output").glob("*")}
    if "four\n" in written:
        break
    time.sleep(0.5)
assert {"one\n", "four\n"} < written and len(written) == 3, written
words = ["sacct", "-XnP", "-o", "Start,End", "--name"]
names = [path.stem for path in sorted(Path("submit").glob("*_*.submit"))]
spans = {}
for name in names:
    row = subprocess.run([*words, name], stdout=subprocess.PIPE, text=True, check=True).stdout
    spans[name.split("_")[0]] = row.splitlines()[-1].split("|")
assert spans["first"][1] <= spans["second"][0], spans
assert spans["second"][1] <= spans["last"][0], spans
print(version("slurmpter"), "ok")
