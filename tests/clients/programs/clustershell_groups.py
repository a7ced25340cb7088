"""ClusterShell: the groups of nodes that its own example for Slurm defines, and clush over srun."""

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from ClusterShell.NodeSet import NodeSet
from ClusterShell.NodeUtils import GroupResolverConfig

example = Path(sys.prefix) / "etc/clustershell/groups.conf.d/slurm.conf.example"
conf = Path("slurm_groups.conf").absolute()
shutil.copy(example, conf)
groups = GroupResolverConfig([str(conf)])


def nodes(text):
    return str(NodeSet(text, resolver=groups))


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


job_id = run("sbatch", "--parsable", "-N2", "-w", "n[2-3]", "--wrap", "sleep 60").strip()
while run("squeue", "-h", "-o", "%t", "-j", job_id).strip() != "R":
    pass
assert nodes("@sp:debug") == nodes("@sp:*") == "n[1-4]"
assert nodes(f"@sj:{job_id}") == nodes("@su:games") == nodes("@sa:science") == "n[2-3]"
assert NodeSet("@st:idle", resolver=groups) & NodeSet("n[2-3]") == NodeSet()
assert list(NodeSet("n2", resolver=groups).groups("sp")) == ["@sp:debug"]
assert "games" in groups.grouplist("su") and job_id in groups.grouplist("sj")
run("scancel", job_id)
clush = ["clush", "-bR", "exec", "-w", "n[1-4]", "srun -Q -N1 -n1 --mem=50 -w %h hostname"]
said = subprocess.run(clush, capture_output=True, text=True, check=True).stdout
assert [line for line in said.splitlines() if line[0] == "n"] == [
    name for number in range(1, 5) for name in (f"n{number}",) * 2
], said
print("ClusterShell", version("ClusterShell"), "ok")
