"""What one ordinary user can do to another's job: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire import messages
from tests.daemons.faults import AS_OTHERS, as_user, open_directory, submit_as, without_faults
from tests.daemons.live import PYTHON, PYTHON_PATH, LiveCluster, start

pytestmark = AS_OTHERS
OWNER, OTHER = "games", "nobody"

SEND = """
import os, sys
sys.path[:0] = {path!r}
from pyslurm_ng.cli.command import connect, read_conf
from pyslurm_ng.wire.client import Client, SlurmError

conf = read_conf("test")
kept, where, job = sys.argv[1:]
if not os.path.exists(kept):
    granted = connect(conf).call("AskFileCredential", {{"job_id": int(job)}})
    with open(kept, "w") as file:
        file.write(repr(granted))
with open(kept) as file:
    granted = eval(file.read())
fields = {{"key": os.urandom(16), "credential": granted["credential"], "path": where,
           "mode": 0o4755, "data": b"hi", "is_last": True}}
for node, address in zip(granted["nodes"], granted["addresses"]):
    try:
        Client(conf, "slurmd:" + node, tuple(address)).call("SendFile", fields)
        print("sent")
    except SlurmError as error:
        print(error.text)
"""
"""Gets a credential for files, or takes one that is kept in a file, and uses it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        made = start(directory / "c", "--nodes", "1", "--cpus", "8")
        with without_faults(made):
            yield made


@pytest.fixture(scope="module")
def work(cluster: LiveCluster) -> Path:
    """A directory that every user may write to."""
    directory = cluster.directory.parent / "work"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


@pytest.fixture(scope="module")
def job(cluster: LiveCluster, work: Path) -> Iterator[int]:
    """A job that runs."""
    job_id = submit_as(cluster, OWNER, "-o", "out", "--wrap", "sleep 300", cwd=work)
    cluster.wait_until(
        "start of the job",
        lambda: cluster.run("squeue", "-h", "-j", str(job_id), "-o", "%t").stdout == "R\n",
    )
    yield job_id
    as_user(cluster, OWNER, "scancel", str(job_id))


DENIED = "Access/permission denied"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("scancel {job}", f"scancel: error: Kill job error on job id {{job}}: {DENIED}"),
        ("scancel -s USR1 {job}", f"scancel: error: Kill job error on job id {{job}}: {DENIED}"),
        ("scontrol hold {job}", "Invalid user id for job {job}"),
        ("scontrol update JobId={job} TimeLimit=1", "Invalid user id for job {job}"),
        ("scontrol requeue {job}", f"{DENIED} for job {{job}}"),
        ("scontrol suspend {job}", f"{DENIED} for job {{job}}"),
        ("scontrol notify {job} hi", f"job notify failure: {DENIED}"),
        ("scontrol write batch_script {job} -", "job script retrieval failed: Invalid user id"),
        ("srun --jobid={job} id", f"srun: error: Unable to create step for job {{job}}: {DENIED}"),
        (
            "srun --overlap --jobid={job} id",
            f"srun: error: Unable to create step for job {{job}}: {DENIED}",
        ),
        (
            "sbcast -j {job} /etc/passwd /tmp/x",
            "sbcast: error: Slurm job {job} lookup error: Invalid user id",
        ),
        ("sbatch --uid=games --wrap id", "sbatch: error: --uid only permitted by root user"),
    ],
)
def test_others_are_refused(
    cluster: LiveCluster, job: int, words: str, expected: str, work: Path
) -> None:
    """RELIABILITY 57, 65."""
    ran = as_user(cluster, OTHER, *words.format(job=job).split(), cwd=work)
    assert expected.format(job=job) in ran.stderr.splitlines()
    assert ran.returncode != 0
    assert cluster.out("squeue", "-h", "-j", str(job), "-o", "%t") == "R\n"


OPERATORS = {
    "CreateNodes": {"line": "NodeName=d1 CPUs=1 State=CLOUD"},
    "TakeFutureNode": {
        "hostname": "h",
        "address": "h",
        "sockets": 1,
        "cores_per_socket": 1,
        "threads_per_core": 1,
    },
    "DeleteNodes": {"nodes": "n1"},
    "DeletePartition": {"name": "debug"},
    "Reconfigure": {},
    "ResetDiagnostics": {},
    "SetDampening": {"factor": 5},
    "SetDebugFlags": {"add": ["Gres"]},
    "SetDebugLevel": {"level": 0},
    "SetSchedulingLog": {"is_on": False},
    "Shutdown": {},
    "UpdateNodes": {"nodes": "n1", "settings": {"state": "DRAIN", "reason": "x"}},
    "UpdatePartition": {"name": "debug", "settings": {"state": "DOWN"}},
    "UpdateReservation": {
        "name": "r",
        "settings": {"starttime": "now", "duration": "1", "nodes": "ALL", "users": OTHER},
        "create": True,
    },
}
"""A body for each message that is for operators and administrators only."""

ASK = """
import os, sys
sys.path[:0] = {path!r}
from pyslurm_ng.cli.command import connect, read_conf
from pyslurm_ng.wire.client import SlurmError

for kind, fields in {messages!r}.items():
    if kind != "ResetDiagnostics" and not kind.startswith("Set"):
        fields["request_id"] = os.urandom(16)
    try:
        connect(read_conf("test")).call(kind, fields)
        print(kind, "done")
    except SlurmError as error:
        print(kind, error.text)
"""


def test_messages_for_operators_are_refused_to_users(cluster: LiveCluster, work: Path) -> None:
    """A command names the user that it asks for, but any user may write another name.

    RELIABILITY 57.
    """
    theirs = [row for row in messages.rows() if row.owner_rule in ("operator", "admin")]
    assert {row.kind for row in theirs} == set(OPERATORS)
    program = work / "ask.py"
    program.write_text(ASK.format(path=PYTHON_PATH, messages=OPERATORS))
    program.chmod(0o644)
    ran = as_user(cluster, OTHER, PYTHON, str(program), cwd=work)
    refusals = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    assert set(refusals) == set(OPERATORS), ran.stderr
    assert set(refusals.values()) == {DENIED, "Invalid user id"}


def test_its_script_and_processes_are_its_owners(cluster: LiveCluster, job: int) -> None:
    """RELIABILITY 58."""
    script = next((cluster.directory / "spool").glob(f"**/job{job:05d}/slurm_script"))
    assert as_user(cluster, OTHER, "cat", str(script)).returncode != 0
    pids = cluster.out("scontrol", "listpids", str(job)).splitlines()[1:]
    pid = pids[0].split()[0]
    assert as_user(cluster, OTHER, "kill", pid).returncode != 0
    assert as_user(cluster, OTHER, "cat", f"/proc/{pid}/environ").returncode != 0
    assert as_user(cluster, OWNER, "cat", f"/proc/{pid}/environ").returncode == 0


def test_a_stolen_credential_for_files_is_of_no_use(
    cluster: LiveCluster, job: int, work: Path
) -> None:
    """A file is written as the credential's user, who must be the sender, too.

    RELIABILITY 57, 59.
    """
    program = work / "send.py"
    program.write_text(SEND.format(path=PYTHON_PATH))
    program.chmod(0o644)

    def send(user: str, where: str) -> str:
        words = (PYTHON, str(program), str(work / "kept"), where, str(job))
        return as_user(cluster, user, *words, cwd=work).stdout.strip()

    assert send(OWNER, f"{work}/mine") == "sent"
    status = (work / "mine").stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (int(cluster.out("id", "-u", OWNER)), 0o755)
    (work / "kept").chmod(0o644)
    assert send(OTHER, f"{work}/theirs") == DENIED
    assert send(OWNER, "/etc/of-games") == "Permission denied"
    assert send(OWNER, "relative") == "the path must be absolute"
    assert not (work / "theirs").exists()
