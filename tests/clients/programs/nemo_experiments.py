"""Experiments of NeMo-Run: two tasks of 2 nodes x 2 ranks in sequence, and one that fails."""

import os
from importlib.metadata import version
from pathlib import Path

os.environ["NEMORUN_HOME"] = str(Path("nemo").resolve())

import nemo_run as run

executor = run.SlurmExecutor(
    account="science", partition="debug", time="00:05:00", nodes=2, ntasks_per_node=2, mem="300",
    packager=run.Packager(),
)  # fmt: skip


def end_of(*scripts):
    """Run scripts, each after the one before it; return the state of each."""
    with run.Experiment("tried", executor=executor.clone()) as experiment:
        for name, line in scripts:
            experiment.add(run.Script(inline=line), name=name)
        experiment.run(sequential=len(scripts) > 1, detach=False)
    shown = experiment.status(return_dict=True)  # leaving the block has waited for the end
    return {name: str(task["status"]).split()[0] for name, task in shown.items()}


rank = "echo rank $SLURM_PROCID of $SLURM_NTASKS"
states = end_of(("first", rank), ("second", "[ $SLURM_NTASKS = 4 ]"))
assert states == {"first": "SUCCEEDED", "second": "SUCCEEDED"}, states
said = "".join(path.read_text() for path in Path("nemo").rglob("first/log-*.out"))
assert all(f"rank {rank} of 4" in said for rank in range(4)), said
states = end_of(("bad", "exit 3"))
assert states == {"bad": "FAILED"}, states
print("nemo_run", version("nemo_run"), "ok")
