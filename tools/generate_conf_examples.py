"""Write etc/*.conf.example: a small working cluster first, then every other key with its meaning.

    tools/generate_conf_examples.py

The text of the first part stands below; the list of keys comes from the tables, so a new key is in
the example as soon as it is in the table.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from pyslurm_ng.conf.effects.effect import (  # noqa: E402
    ACCEPTED,
    REFUSED,
    SAME,
    effect_of,
    word_effect,
    words_of,
)
from pyslurm_ng.conf.tables import keys as tables  # noqa: E402
from pyslurm_ng.conf.tables.key import Key  # noqa: E402

NO_VALUE = str(2**32 - 2)

SLURM = """\
# slurm.conf: one file for the whole cluster, the same on every host.
#
# Check it before use:   slurmctld --check -f slurm.conf
# Apply a change:        scontrol reconfigure
#
# Keys are not case-sensitive. "#" begins a comment, a backslash at the end of a line continues it,
# "Include FILE" inserts another file.

# --- who we are -----------------------------------------------------------------------------------
# The name in the accounting database; do not change it later.
ClusterName=cluster
# The controller; the address in parentheses is needed only if the name does not resolve. There is
# no backup controller yet: further lines have no effect.
SlurmctldHost=localhost
SlurmctldPort=6817
SlurmdPort=6818

# --- accounts and keys ----------------------------------------------------------------------------
# slurmctld and slurmdbd run as this user; slurmd runs as root to become the users of jobs.
SlurmUser=root
# auth/slurm uses a shared key file (slurm.key beside this file), auth/munge the munge service.
AuthType=auth/slurm
CredType=cred/slurm

# --- files ----------------------------------------------------------------------------------------
# The journal lives here: a local, reliable disk that belongs to SlurmUser.
StateSaveLocation=/var/spool/slurmctld
# %n is the node's name, %h its host's: needed when several slurmd share a host.
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldDebug=info
SlurmdDebug=info

# --- how nodes are watched ------------------------------------------------------------------------
# A node that is silent this long (seconds) is DOWN.
SlurmdTimeout=300
# 1: such a node returns by itself; 2: also after any other reason, such as a reboot; 0: never.
ReturnToService=1

# --- jobs -----------------------------------------------------------------------------------------
# proctrack/cgroup contains every process of a job; proctrack/linuxproc works without cgroups.
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
JobAcctGatherType=jobacct_gather/cgroup
# Seconds between SIGTERM and SIGKILL when a job's time is up.
KillWait=30
# Finished jobs remain visible to squeue and scontrol for this long (seconds).
MinJobAge=300
MaxJobCount=100000

# --- scheduling -----------------------------------------------------------------------------------
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# What a job gets that asks for no memory, MiB per CPU.
DefMemPerCPU=1000
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightPartition=1000
PriorityWeightQOS=2000

# --- accounting -----------------------------------------------------------------------------------
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
# "limits" also refuses users without an account; leave it out to let everybody run.
#AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu

# --- nodes and partitions -------------------------------------------------------------------------
GresTypes=gpu
# "slurmd -C" prints this line for the host it runs on. DEFAULT holds for the lines that follow.
NodeName=DEFAULT State=UNKNOWN
NodeName=node[001-004] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000
NodeName=gpu[01-02] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 \\
    Gres=gpu:a100:4 Feature=nvlink Weight=10

PartitionName=DEFAULT MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=batch Nodes=node[001-004] Default=YES
PartitionName=gpu Nodes=gpu[01-02]
"""

GRES = """\
# gres.conf: the devices behind the generic resources that slurm.conf counts (GresTypes and Gres=).
#
# Without this file such resources are counted but not given to jobs as devices.

# off: the lines below are all there is. nvml: ask the driver, and compare with the lines.
AutoDetect=off

# One line for each kind of device on some nodes. File may hold ranges; the count follows from it.
# Cores are those near the device: a job is placed there if it can be.
NodeName=gpu[01-02] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-31
NodeName=gpu[01-02] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=32-63

# More that a line may hold:
#   Count=N          how many, for resources without device files (Flags=CountOnly)
#   Links=-1,16,0,0  link counts to the node's devices in order; -1 stands for the device itself
#   MultipleFiles=   several files for one device, as parts of a GPU (MIG) need
#   Flags=           CountOnly, env_uuid, explicit, one_sharing, all_sharing, nvidia_gpu_env,
#                    amd_gpu_env, intel_gpu_env, opencl_env, no_gpu_env
# Sharing a GPU:
#NodeName=gpu01 Name=shard Count=8
"""

TOPOLOGY = """\
# topology.conf: the network, so that the nodes of a job lie close together.
# It is read with TopologyPlugin=topology/tree or topology/block.

# topology/tree: every switch has either nodes or switches below it. Several switches at the top
# are networks of their own; no job spans them.
SwitchName=leaf1 Nodes=node[001-004]
SwitchName=leaf2 Nodes=gpu[01-02]
SwitchName=spine Switches=leaf[1-2]
# LinkSpeed=N may stand in each line; it has no effect.

# topology/block instead (not both in one file): groups of equally close nodes, as NVLink domains.
#BlockName=block1 Nodes=node[001-004]
#BlockName=block2 Nodes=node[005-008]
# Node counts in which jobs are planned: the size of a block, and powers of two of it.
#BlockSizes=4,8
#RingName=ring1 Nodes=node[001-008]
"""

CGROUP = """\
# cgroup.conf: what of its allocation a job is held to. ConstrainCores needs TaskPlugin=task/cgroup
# in slurm.conf, ConstrainDevices needs device files in gres.conf.

ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainDevices=yes
"""

SLURMDBD = """\
# slurmdbd.conf: the accounting daemon. It may hold a password: chmod 600, owned by SlurmUser.
# Without this file slurmdbd keeps an embedded database below the controller's state directory.

AuthType=auth/slurm
DbdHost=localhost
DbdPort=6819
SlurmUser=root
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
DebugLevel=info

# accounting_storage/sqlite is embedded: StorageLoc is its file.
StorageType=accounting_storage/sqlite
StorageLoc=/var/spool/slurmdbd/accounting.sqlite
# For MySQL or MariaDB:
#StorageType=accounting_storage/mysql
#StorageHost=localhost
#StorageUser=slurm
#StoragePass=
#StorageLoc=slurm_acct_db
"""

ACCT_GATHER = """\
# acct_gather.conf: how power and traffic are read, and where profiles of jobs go. AcctGather* of
# slurm.conf says which of it is used. It may hold a password: chmod 600, owned by root.

# A directory of root's that all nodes and the users share; each user gets one of their own in it.
#ProfileHDF5Dir=/shared/profiles
"""

RULE = "# " + "-" * 97


def key_text(keys: tuple[Key, ...], already: str, heading: str, name: str) -> str:
    """Return the keys that a text does not set yet, commented out, with default and meaning."""
    section = f"{name}.conf"
    lines = ["", RULE, f"# {heading}", RULE]
    names = {line.lstrip("#").partition("=")[0].lower() for line in already.splitlines()}
    for key in keys:
        if key.name.lower() not in names:
            lines += [*comment(key, section), f"#{key.name}={shown_default(key)}"]
    return "\n".join(lines) + "\n"


def comment(key: Key, section: str) -> list[str]:
    words = key.help[:1].upper() + key.help[1:]
    if key.choices:
        words += f" ({', '.join(key.choices)})"
    words += mark(key, section)
    return textwrap.wrap(words, 97, initial_indent="# ", subsequent_indent="#   ")


def mark(key: Key, section: str) -> str:
    """Return what a reader should know of a key before it is set."""
    kind = effect_of(section, key.name).kind
    words = words_of(section, key)
    if kind == ACCEPTED and not any(word_effect(section, key, word).kind == SAME for word in words):
        return " - no effect yet"
    return " - refused" if kind == REFUSED else ""


def shown_default(key: Key) -> str:
    return "" if key.default in (NO_VALUE, "-1") else key.default


def line_keys(keys: tuple[Key, ...], heading: str, section: str) -> str:
    """Return the keys of node or partition lines as a commented table."""
    lines = ["", RULE, f"# {heading}", RULE]
    for key in keys:
        lead = f"#   {key.name}={shown_default(key)}"
        words = key.help[:1].upper() + key.help[1:] + mark(key, section)
        lines += textwrap.wrap(
            words, 97, initial_indent=f"{lead:<31} ", subsequent_indent="#" + " " * 31
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    files = {
        "slurm": SLURM
        + line_keys(
            tables.NODE, "What a NodeName line may hold, with what applies otherwise", "NodeName"
        )
        + line_keys(tables.PARTITION, "What a PartitionName line may hold", "PartitionName")
        + key_text(tables.PARAMETERS, SLURM, "Every other key, with its default", "slurm"),
        "gres": GRES,
        "topology": TOPOLOGY,
        "cgroup": CGROUP + key_text(tables.CGROUP, CGROUP, "Every other key", "cgroup"),
        "slurmdbd": SLURMDBD + key_text(tables.SLURMDBD, SLURMDBD, "Every other key", "slurmdbd"),
    }
    files["acct_gather"] = ACCT_GATHER + key_text(
        tables.ACCT_GATHER, ACCT_GATHER, "Every other key", "acct_gather"
    )
    for name, text in files.items():
        path = ROOT / "etc" / f"{name}.conf.example"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
