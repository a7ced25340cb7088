"""QCG-PilotJob: programs of one core and of two nodes in one job, on cores that scontrol names."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

INSIDE = """
from qcg.pilotjob.api.job import Jobs
from qcg.pilotjob.api.manager import LocalManager

manager = LocalManager()
cores = manager.resources()
assert (cores["total_nodes"], cores["total_cores"]) == (2, 4), cores
say = "hostname; sleep 2"
jobs = Jobs()
jobs.add(name="one", exec="bash", args=["-c", say], stdout="one.${it}", iteration=4, numCores=1)
jobs.add(name="bad", exec="false", numCores=1)
jobs.add(name="wide", exec="bash", args=["-c", "echo $SLURM_PROCID"], stdout="wide",
         model="srunmpi", numNodes={"exact": 2}, numCores={"exact": 2})
states = manager.wait4(manager.submit(jobs))
print(states)
manager.finish()
assert states == {"one": "SUCCEED", "bad": "FAILED", "wide": "SUCCEED"}, states
"""

Path("inside.py").write_text(INSIDE)
words = ["sbatch", "-W", "-N", "2", "--ntasks-per-node", "2", "-o", "job.txt"]
done = subprocess.run([*words, "--wrap", f"{sys.executable} inside.py"], check=False, timeout=300)
assert done.returncode == 0, Path("job.txt").read_text()
said = [line for number in range(4) for line in Path(f"one.{number}").read_text().splitlines()]
assert set(said) == {"n1", "n2"}, said
assert sorted(Path("wide").read_text().split()) == ["0", "1", "2", "3"]
print("QCG-PilotJob", version("qcg-pilotjob"), "ok")
