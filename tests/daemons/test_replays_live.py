"""Credentials of a user's, sent again: at once, elsewhere, by others, to restarted daemons.

With slurm.key and with munge. Two clusters share the key, so that nothing but the cluster's name
keeps them apart.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire import munge
from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    kill,
    open_directory,
    start_daemon,
    submit_as,
    without_faults,
)
from tests.daemons.live import PYTHON, PYTHON_PATH, LiveCluster, start
from tests.world.waiting import wait_until

pytestmark = AS_OTHERS
OWNER, OTHER = "games", "nobody"

PROGRAM = """
import os, socket, sys
sys.path[:0] = {path!r}
from pyslurm_ng.cli.command import connect, read_conf
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire.client import Client, SlurmError
from pyslurm_ng.wire.client_credentials import body_digest, credential
from pyslurm_ng.wire.frame import HEAD, pack_frame

def ask(address, kind, body, token):
    "Return the kind of the answer over TCP, and its text if it is an error."
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as link:
        link.sendall(pack_frame(kind, 1, body, 0, token))
        got = b""
        while chunk := link.recv(65536):
            got += chunk
            if len(got) >= HEAD.size:
                _, _, _, name, _, cred, length, _ = HEAD.unpack_from(got)
                if len(got) >= HEAD.size + name + cred + length:
                    break
    at = HEAD.size + name
    answer = unpack(got[at + cred : at + cred + length])
    what = bytes(got[HEAD.size : at]).decode()
    return what + ": " + answer["text"] if what == "ErrorReply" else what

word, *words = sys.argv[1:]
conf = {{name.lower(): value for name, value in read_conf("test").items()}}
if word == "token":
    audience, kind, file = words
    body = pack({{}})
    with open(file, "wb") as out:
        out.write(pack([kind, body, credential(conf, audience, kind, body, 10)]))
elif word == "use":
    file, address, *kinds = words
    kind, body, token = unpack(open(file, "rb").read())
    print(ask(address, kinds[0] if kinds else kind, body, token))
elif word == "forge":
    from pyslurm_ng.wire.munge import encode, encode_claims
    role, audience, kind, file = words
    body = pack({{}})
    name = os.uname().nodename
    claims = (role, name, conf["clustername"], audience, kind, body_digest(body))
    with open(file, "wb") as out:
        out.write(pack([kind, body, encode_claims(conf["authinfo"], *claims)]))
elif word == "resign":
    file, made = words
    from pyslurm_ng.wire.munge import decode, encode
    signed, node = unpack(open(file, "rb").read())
    with open(made, "wb") as out:
        out.write(pack([encode(conf["authinfo"], decode(conf["authinfo"], signed, True)[0]), node]))
elif word == "step":
    job, file = words
    client, step = connect(conf), {{}}
    client.begin("CreateStep", {{"request_id": os.urandom(16), "job_id": int(job), "ntasks": 1,
                                "cpus_per_task": 1}})
    while "credential" not in step:
        _, step, _ = client.receive(20)
    with open(file, "wb") as out:
        out.write(pack([step["credential"], step["nodes"][0]]))
elif word == "file":
    job, file = words
    granted = connect(conf).call("AskFileCredential", {{"job_id": int(job)}})
    with open(file, "wb") as out:
        out.write(pack([granted["credential"], granted["nodes"][0]]))
elif word == "launch":
    file, node, port, made, *change = words
    signed, _ = unpack(open(file, "rb").read())
    if change:
        signed = signed[:60] + bytes([signed[60] ^ 1]) + signed[61:]
    fields = {{"credential": signed, "programs": [{{"argv": ["touch", made]}}],
              "environment": b"PATH=/usr/bin:/bin\\0", "std_out": "/dev/null", "no_kill": True}}
    try:
        Client(conf, "slurmd:" + node, ("127.0.0.1", int(port))).call("LaunchStep", fields)
        print("launched")
    except SlurmError as error:
        print(error.text)
"""


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module", params=["slurm", "munge"])
def options(room: Path, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Options of `up` for daemons that believe slurm.key, or a munged of this test's own."""
    if request.param == "slurm":
        yield []
        return
    if not shutil.which("munged") or not munge.is_installed():
        pytest.skip("munge is not installed")
    directory = room / "munge"
    directory.mkdir(mode=0o755)
    key = directory / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = [f"--{name}-file={directory / name}" for name in ("key", "pid", "log", "seed")]
    words = ["munged", "--force", "--foreground", f"--socket={directory / 'socket'}", *files]
    served = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    conf = directory / "conf"
    conf.write_text(
        f"AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={directory / 'socket'}\n"
    )
    wait_until(
        lambda: (directory / "socket").exists() or served.poll() is not None, "munged's start"
    )
    assert served.poll() is None, "munged does not start"
    yield ["--conf", str(conf)]
    served.terminate()
    served.wait()


@pytest.fixture(scope="module")
def cluster(room: Path, options: list[str]) -> Iterator[LiveCluster]:
    made = start(room / f"c{len(options)}", "--nodes", "2", "--cpus", "8", *options)
    with without_faults(made):
        yield made


@pytest.fixture(scope="module")
def twin(room: Path, cluster: LiveCluster, options: list[str]) -> Iterator[LiveCluster]:
    """Another cluster whose key is the first one's."""
    directory = room / f"d{len(options)}"
    words = ("--nodes", "1", "--cpus", "8", "--cluster-name", "other", *options)
    made = start(directory, *words)
    if not options:
        made.down()
        shutil.copy2(cluster.directory / "etc" / "slurm.key", directory / "etc" / "slurm.key")
        made = start(directory, *words)
    with without_faults(made):
        yield made


@pytest.fixture(scope="module")
def work(room: Path) -> Path:
    directory = room / "work"
    directory.mkdir()
    directory.chmod(0o1777)
    program = directory / "replay.py"
    program.write_text(PROGRAM.format(path=PYTHON_PATH))
    program.chmod(0o644)
    return directory


def replay(cluster: LiveCluster, work: Path, *words: str, user: str = OWNER) -> str:
    done = as_user(cluster, user, PYTHON, str(work / "replay.py"), *words, cwd=work)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def setting(cluster: LiveCluster, name: str) -> str:
    conf = Path(cluster.environment["SLURM_CONF"]).read_text()
    return next(line.partition("=")[2] for line in conf.splitlines() if line.startswith(name + "="))


def uses_munge(cluster: LiveCluster) -> bool:
    return setting(cluster, "AuthType") == "auth/munge"


def address(cluster: LiveCluster, daemon: str) -> str:
    """Return where a daemon listens for commands."""
    if daemon == "slurmdbd":
        return f"127.0.0.1:{setting(cluster, 'AccountingStoragePort')}"
    if daemon == "slurmctld":
        return f"127.0.0.1:{setting(cluster, 'SlurmctldPort')}"
    return f"127.0.0.1:{port_of(cluster, daemon)}"


def port_of(cluster: LiveCluster, daemon: str) -> str:
    node = daemon.removeprefix("slurmd:")
    return cluster.out("sinfo", "-h", "-n", node, "-O", "port:10").strip()


@pytest.mark.parametrize(
    ("daemon", "process"),
    [("slurmctld", "slurmctld"), ("slurmdbd", "slurmdbd"), ("slurmd:n1", "slurmd-n1")],
)
def test_a_token_is_of_no_use_again(
    cluster: LiveCluster, twin: LiveCluster, work: Path, daemon: str, process: str
) -> None:
    """Used once; then neither at once, nor by another user, nor after kill -9. RELIABILITY 39."""
    known = "Replayed" if uses_munge(cluster) else "used before"
    used, mine = str(work / "used"), str(work / "mine")
    at = address(cluster, daemon)
    replay(cluster, work, "token", daemon, "Ping", used)
    assert replay(cluster, work, "use", used, at) == "Pong"
    assert known in replay(cluster, work, "use", used, at)
    os.chmod(used, 0o644)
    assert known in replay(cluster, work, "use", used, at, user=OTHER)
    kill(cluster, process)
    start_daemon(cluster, process)
    cluster.wait_until("an answer", lambda: cluster.run("sacct").returncode == 0)
    assert known in replay(cluster, work, "use", used, at)

    def spend(*words: str) -> str:
        # A new one each time: munged has seen one that it has read, wherever that was.
        replay(cluster, work, "token", daemon, "Ping", mine)
        return replay(cluster, work, "use", mine, *words)

    # For another message, another daemon, another cluster with the same key. Only slurmdbd serves
    # each cluster that has its key: ADR 0060.
    takes_others = daemon == "slurmdbd"
    assert "is for a 'Ping' message" in spend(at, "Shutdown")
    elsewhere = address(cluster, "slurmctld" if daemon == "slurmdbd" else "slurmdbd")
    assert "credential is for" in spend(elsewhere)
    assert "credential is for" in spend(address(cluster, "slurmd:n2"))
    there = spend(address(twin, daemon))
    assert there == "Pong" if takes_others else "is for cluster 'cluster'" in there
    assert spend(at) == "Pong"
    # A signed one for a cluster with another name is no better here.
    replay(twin, work, "token", daemon, "Ping", mine)
    here = replay(twin, work, "use", mine, at)
    assert here == "Pong" if takes_others else "is for cluster 'other'" in here


def test_a_steps_credential_starts_it_once(
    cluster: LiveCluster, twin: LiveCluster, work: Path
) -> None:
    """Not by another user, changed, elsewhere, again, nor when its job is over.

    RELIABILITY 39, 59.
    """
    job = submit_as(cluster, OWNER, "-w", "n1", "-n4", "-o", "/dev/null", "--wrap", "sleep 300")
    cluster.wait_until(
        "start", lambda: cluster.out("squeue", "-h", "-j", str(job), "-o", "%t") == "R\n"
    )
    step, files = str(work / "step"), str(work / "files")
    replay(cluster, work, "step", str(job), step)
    replay(cluster, work, "file", str(job), files)
    os.chmod(step, 0o644)
    made, node, port = work / "made", "n1", port_of(cluster, "slurmd:n1")

    def launch(*words: str, of: LiveCluster = cluster, user: str = OWNER) -> str:
        return replay(of, work, "launch", *words, user=user)

    refused = launch(step, node, port, str(made), user=OTHER)
    assert refused == "Access/permission denied"
    assert launch(files, node, port, str(made)) == "the step is not for n1"
    assert launch(step, node, port, str(made), "changed") != "launched"
    if uses_munge(cluster):
        # munge signs for everybody: what was signed by root is signed by the user now.
        replay(cluster, work, "resign", step, str(work / "resigned"))
        assert "cannot sign job credentials" in launch(
            str(work / "resigned"), node, port, str(made)
        )
    there = port_of(cluster, "slurmd:n2")
    assert launch(step, "n2", there, str(made)) == "credential is not for n2"
    there = port_of(twin, "slurmd:n1")
    assert "is for 'cluster'" in launch(step, "n1", there, str(made), of=twin)
    assert not made.exists()

    assert launch(step, node, port, str(made)) == "launched"
    cluster.wait_until("its file", made.exists)
    cluster.wait_until(
        "the end of its step",
        lambda: f"{job}.0" not in cluster.out("squeue", "-h", "-s", "-o", "%i"),
    )
    made.unlink()
    again = launch(step, node, port, str(made))
    kill(cluster, "slurmd-n1")
    start_daemon(cluster, "slurmd-n1")
    after = launch(step, node, port, str(made))
    late, later = str(work / "late"), work / "later"
    replay(cluster, work, "step", str(job), late)
    assert as_user(cluster, OWNER, "scancel", str(job)).returncode == 0
    cluster.wait_for_jobs(job)
    over = launch(late, node, port, str(later))
    kill(cluster, "slurmd-n1")
    start_daemon(cluster, "slurmd-n1")
    over_after = launch(late, node, port, str(later))
    assert [again, after] == ["it was started before on this node"] * 2
    assert [over, over_after] == ["Job credential revoked"] * 2
    assert not made.exists()
    assert not later.exists()


# Of slurm.key users get tokens for themselves only.
@pytest.mark.parametrize("options", ["munge"], indirect=True)
@pytest.mark.parametrize("role", ["slurmctld", "slurmdbd", "node", "root"])
def test_a_user_speaks_for_no_daemon(cluster: LiveCluster, work: Path, role: str) -> None:
    """munge signs whatever a user says: the role is believed of root and SlurmUser only."""
    for daemon in ("slurmctld", "slurmdbd", "slurmd:n1"):
        forged = str(work / f"{role}-{daemon}")
        replay(cluster, work, "forge", role, daemon, "Shutdown", forged)
        said = replay(cluster, work, "use", forged, address(cluster, daemon))
        assert f"cannot speak as '{role}'" in said
