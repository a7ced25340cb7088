"""Reports on accounting and the queue: reportseff, slurm2sql, slurm-usage, nanoslurm."""

import sqlite3
import subprocess
from importlib.metadata import version

import nanoslurm
from nanoslurm import stats

NAMES = ("reportseff", "slurm2sql", "slurm-usage", "nanoslurm")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


job = run("sbatch", "-W", "--parsable", "-n2", "--mem=300", "-t", "2", "-J", "busy", "--wrap",
          "srun python3 -c 'import time; x = bytearray(60_000_000); end = time.time() + 4\n"
          "while time.time() < end: pass'").strip()  # fmt: skip
array = subprocess.run(
    ["sbatch", "-W", "--parsable", "-a", "1-3", "--mem=50", "-J", "many", "--wrap",
     "exit $((SLURM_ARRAY_TASK_ID - 2))"],
    check=False, capture_output=True, text=True,
).stdout.strip()  # fmt: skip
rows = run(
    "reportseff", "-u", "games", "--parsable", "--format", "JobID,State,CPUEff,MemEff,ReqMem"
)
table = {row.split("|")[0].strip(): row.split("|") for row in rows.splitlines()[1:]}
assert table[job][1] == "COMPLETED", rows
assert 0 < float(table[job][2].strip("%")) <= 100 and float(table[job][3].strip("%")) > 0, rows
ends = [table[f"{array}_{task}"][1] for task in (1, 2, 3)]
assert ends == ["FAILED", "COMPLETED", "FAILED"], rows

run("slurm2sql", "--history-days", "1", "usage.sqlite")
database = sqlite3.connect("usage.sqlite")
asked = "select State, ReqMem, NCPUS, User, ExitCodeRaw from slurm where JobID = ?"
assert list(database.execute(asked, [job])) == [("COMPLETED", 300 * 2**20, 2, "games", "0:0")]
(most,) = database.execute("select max(MaxRSS) from slurm where JobIDnostep = ?", [job]).fetchone()
assert 60_000_000 < most < 300 * 2**20, most
run("slurm2sql-seff", "-u", "games")

waiting = nanoslurm.submit(
    ["sleep", "60"], name="nano", cluster="debug", cpus=1, memory=1, gpus=0, time="00:02:00"
)
while waiting.status != "RUNNING":
    pass
assert "games" in run("slurm-usage")
assert waiting.info()["JobState"] == "RUNNING"
assert any(row.id == waiting.id for row in nanoslurm.list_jobs("games"))
waiting.cancel()
while waiting.status == "RUNNING":
    pass
assert stats.node_state_counts(), stats
print(
    *(f"{name} {version(name)}" for name in NAMES),
    "ok",
)
