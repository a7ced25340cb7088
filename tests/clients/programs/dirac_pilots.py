"""Pilots of DIRAC (LHCb, Belle II, EGI) by its own class for Slurm, as it runs at a site.

DIRAC sends that class and a few lines that call it as one file to the host of a site. Here they
are put together in the same way.
"""

import importlib.metadata
import json
import os
import pathlib
import runpy
import subprocess
import sys
import time

files = {
    path.name: path.locate()
    for path in importlib.metadata.files("DIRAC") or ()
    if path.parent.name == "BatchSystems"
}
lines = runpy.run_path(str(files["executeBatch.py"]))["executeBatchContent"]
pathlib.Path("execute_batch.py").write_text(pathlib.Path(files["SLURM.py"]).read_text() + lines)
FOLDERS = {"OutputDir": os.getcwd(), "ErrorDir": os.getcwd()}


def call(method: str, **options: object) -> dict:
    """Call a method of the class as a site's host does, by files of JSON."""
    pathlib.Path("call.json").write_text(
        json.dumps({"Method": method, "BatchSystem": "SLURM", "Queue": "debug", **options})
    )
    subprocess.run(
        [sys.executable, "execute_batch.py", "call.json"], check=True, stdout=subprocess.DEVNULL
    )
    answer = json.loads(pathlib.Path("call_result.json").read_text())
    assert answer["Status"] == 0, answer
    return answer


def submit(lines: str, count: int = 1, **options: object) -> list[str]:
    """Submit pilots and return their ids."""
    pilot = pathlib.Path("pilot.sh")
    pilot.write_text(f"#!/bin/bash\n{lines}\n")
    pilot.chmod(0o755)
    options |= {"Executable": str(pilot.resolve()), "SubmitOptions": "--time=10 --mem=64"}
    stamps = [f"stamp{number}" for number in range(count)]
    return call("submitJob", NJobs=count, JobStamps=stamps, **FOLDERS, **options)["Jobs"]


def wait_for(expected: dict[str, str]) -> None:
    """Wait until the pilots have these states."""
    for _ in range(120):
        states = call("getJobStatus", JobIDList=list(expected))["Jobs"]
        if states == expected:
            return
        time.sleep(1)
    raise AssertionError((states, expected))


done = submit("echo $DIRAC_PILOT_STAMP; exit $((${DIRAC_PILOT_STAMP: -1} / 2))", 3)
wait_for({done[0]: "Done", done[1]: "Done", done[2]: "Failed"})
assert pathlib.Path(f"{done[1]}.out").read_text() == "stamp1\n"

wide = submit("echo I am $SLURMD_NODENAME", NumberOfNodes="2-3", NumberOfProcessors=2)
wait_for({wide[0]: "Done"})
outputs = call("getJobOutputFiles", JobIDList=wide, NumberOfNodes="2-3", **FOLDERS)["Jobs"]
text = pathlib.Path(outputs[wide[0]]["Output"]).read_text()
assert "# Node 1" in text and "I am n1" in text and "I am n2" in text, text

waits = submit("sleep 300", 2, WholeNode=True)
wait_for(dict.fromkeys(waits, "Running"))
status = call("getCEStatus")
assert (status["Waiting"], status["Running"]) == (0, 2), status
assert call("killJob", JobIDList=waits)["Successful"] == waits
while call("getCEStatus")["Running"]:
    time.sleep(0.5)
print(f"DIRAC {importlib.metadata.version('DIRAC')} ok")
