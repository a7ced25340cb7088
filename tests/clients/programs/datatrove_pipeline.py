"""datatrove (Hugging Face): a pipeline as an array of tasks, and one that waits for all of them."""

import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from datatrove.executor import SlurmPipelineExecutor

HERE = Path(__file__).resolve().parent
SHARED = {"time": "00:10:00", "partition": "debug", "mem_per_cpu_gb": 1, "env_command": "true"}


# The jobs have these functions alone, without the names around them.
def write_part(documents, rank=0, world_size=1):
    with open(f"part-{rank}", "w") as file:
        file.write(f"{rank} of {world_size}\n")
    return documents


def join_parts(documents, rank=0, world_size=1):
    from pathlib import Path

    parts = sorted(Path().glob("part-*"))
    Path("joined").write_text("".join(part.read_text() for part in parts))
    return documents


def run():
    first = SlurmPipelineExecutor(
        job_name="parts",
        tasks=4,
        workers=2,
        logging_dir=f"{HERE}/logs/parts",
        pipeline=[write_part],
        **SHARED,
    )
    second = SlurmPipelineExecutor(
        job_name="join",
        tasks=1,
        logging_dir=f"{HERE}/logs/join",
        pipeline=[join_parts],
        depends=first,
        **SHARED,
    )
    second.run()
    for _ in range(300):
        if (HERE / "logs" / "join" / "completions" / "00000").exists():
            break
        time.sleep(1)
    assert (HERE / "joined").read_text().splitlines() == [f"{rank} of 4" for rank in range(4)]
    words = ["sacct", "-nXPo", "State", "--array", "-j", first.job_id]
    states = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert states == ["COMPLETED"] * 4, states


if __name__ == "__main__":
    run()
    print("datatrove", version("datatrove"), "ok")
