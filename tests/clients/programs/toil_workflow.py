"""Toil: a CWL workflow on batchSystem slurm."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("echo.cwl").write_text("""
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [sh, -c, "echo hello"]
inputs: []
stdout: out.txt
outputs: {out: stdout}
requirements: {ResourceRequirement: {coresMin: 1, ramMin: 256}}
""")
done = subprocess.run(
    [
        "toil-cwl-runner",
        "--batchSystem",
        "slurm",
        "--jobStore",
        "store",
        "--outdir",
        "out",
        "--defaultMemory",
        "300M",
        "--slurmDefaultAllMem=false",
        "--statePollingWait",
        "2",
        "--",
        "echo.cwl",
    ],
    capture_output=True,
    text=True,
)
assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
assert Path("out/out.txt").read_text() == "hello\n"
print("toil", version("toil"), "ok")
