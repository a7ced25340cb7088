"""Slurm Magic (NERSC): a notebook's cells submit, look at and cancel jobs."""

import time
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

CELL = """#!/bin/bash
#SBATCH --job-name=cell
#SBATCH --ntasks=2
#SBATCH --time=5
#SBATCH --output=cell.out
srun -l hostname
sleep 300
"""

if __name__ == "__main__":
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "slurm_magic")
    line = shell.run_line_magic
    nodes = line("sinfo", "-N")
    assert list(nodes["NODELIST"]) == ["n1", "n2", "n3", "n4"], nodes
    assert shell.run_line_magic("srun", "-n 2 printenv SLURM_NTASKS") == "2\n2\n"
    number = int(shell.run_cell_magic("sbatch", "", CELL).split()[-1])
    while list(line("squeue", f"-j {number}")["ST"]) != ["R"]:
        time.sleep(0.5)
    assert f"JobId={number} JobName=cell" in line("scontrol", f"show job {number}")
    while True:
        jobs = line("sacct", f"-j {number} -o jobid,jobname,state,ncpus")
        if list(jobs["State"][1:]) == ["RUNNING", "RUNNING", "COMPLETED"]:
            break
        time.sleep(0.5)
    assert [str(job) for job in jobs["JobID"][1:]] == [
        str(number),
        f"{number}.batch",
        f"{number}.0",
    ]
    assert line("scancel", str(number)) == ""
    while len(line("squeue", f"-j {number}")):
        time.sleep(0.5)
    shares = line("sshare", "-A science")
    assert "science" in list(shares["Account"]), shares
    line("slurm", "display raw")
    assert "Main schedule statistics" in line("sdiag", "")
    print("slurm-magic", version("slurm-magic"), "ok")
