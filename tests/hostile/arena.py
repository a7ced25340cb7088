"""The cluster that all attacks are made on, and what has to be true after each of them."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyslurm_ng.kernels.process import umount
from tests.daemons.faults import as_user, pid_of, tracebacks
from tests.daemons.live import COMMAND_LIMIT_S, PYTHON, PYTHON_PATH, LiveCluster, start
from tests.fuzz.live import listening
from tests.hostile.attacks import Attack, Many

ATTACKER, OTHER, THIRD = "games", "nobody", "daemon"
ROOT = Path(__file__).parents[2]
LOAD = ROOT / "bench" / "hostile_load.py"
DAEMONS = ("slurmctld", "slurmdbd", "slurmd-n1", "slurmd-n2", "slurmrestd")
CONF = """\
NamespaceType=namespace/tmpfs
JobSubmitPlugins=python
PrivateData=jobs,usage
SlurmdTimeout=60
ScronParameters=enable
PrologFlags=Contain
SlurmctldParameters=enable_stepmgr
"""
SITE_SCRIPT = """\
def job_submit(job_desc, *rest):
    job_desc.admin_comment = str(job_desc.name)[:20]
    return 0
"""
PLUGIN = """\
def task_init(spank):
    spank.setenv("SEEN", str(spank.job_id))
"""
OCI = "RunTimeRun=true ContainerPath={scratch}/%U-%j\n"


class Arena:
    """A live cluster, an attacker, and another user whose work goes on."""

    def __init__(self, cluster: LiveCluster, work: Path) -> None:
        self.cluster = cluster
        self.work = work
        self.pids = {name: pid_of(cluster, name) for name in DAEMONS}
        self.jobs: list[int] = []
        self.victim = self._submit("-o", str(work / "victim"), "--wrap", "sleep 3000")
        self._actor = work / "actor.py"
        shutil.copy(Path(__file__).with_name("actor.py"), self._actor)
        self._actor.chmod(0o644)

    def _submit(self, *words: str) -> int:
        done = as_user(self.cluster, OTHER, "sbatch", "--parsable", *words, cwd=self.work)
        assert done.returncode == 0, f"sbatch of another user: {done.stderr}"
        return int(done.stdout)

    def values(self) -> dict[str, str]:
        """Return what names in attacks stand for."""
        return {
            "victim": str(self.victim), "other": OTHER, "work": str(self.work),
            "base": str(self.cluster.directory.parent / "base"),
            "spool": str(self.cluster.directory / "spool"),
            "state": str(self.cluster.directory / "state"),
            "etc": str(self.cluster.directory / "etc"),
            "rest": str(min(listening(self.pids["slurmrestd"]))),
        }  # fmt: skip

    # Attacks ------------------------------------------------------------------------------------

    def said_by(self, attack: Attack) -> str:
        """Make an attack; return what the attacker was told."""
        if attack.test:
            return self._tested(attack.test)
        if attack.load:
            return self._loaded(attack.load)
        told = self._acted(attack) if attack.messages or attack.sent else ""
        if attack.words:
            words = [filled(word, self.values()) for word in attack.words]
            variables = {
                name: filled(value, self.values()) for name, value in attack.variables.items()
            }
            done = as_user(self.cluster, ATTACKER, *words, cwd=self.work, **variables)
            told += f"{done.stdout}{done.stderr}exit {done.returncode}"
        return told

    def _acted(self, attack: Attack) -> str:
        what: dict[str, Any] = {
            "messages": [
                (self._socket(to), kind, literal(fields, self.values()))
                for to, kind, fields in attack.messages
            ]
        }
        if attack.sent:
            what["sent"] = (self._socket(attack.sent[0]), *attack.sent[1:])
        group = ["setpriv", f"--reuid={ATTACKER}", "--regid=60", "--init-groups", "--"]
        with subprocess.Popen(
            [*group, PYTHON, str(self._actor), ":".join(PYTHON_PATH)], cwd=self.work,
            env=self.cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        ) as actor:  # fmt: skip
            assert actor.stdin is not None and actor.stdout is not None
            actor.stdin.write(repr(what))
            actor.stdin.close()
            first = actor.stdout.readline() if attack.sent else ""
            if attack.sent:
                self.check_others()  # while it holds its connections
            said = first + actor.stdout.read()
            actor.wait(COMMAND_LIMIT_S)
        return said

    def _socket(self, daemon: str) -> str:
        """Return a daemon's Unix socket, or its port for `tcp NAME` and `zmq NAME`."""
        kind, _, name = daemon.rpartition(" ")
        if not kind:
            pattern = f"{self.cluster.directory}/run/**/{daemon}-*.sock"
            return sorted(glob.glob(pattern, recursive=True))[0]
        # As `up` counts them: slurmctld, slurmdbd, the nodes; ZeroMQ is 10,000 above.
        conf = (self.cluster.directory / "etc" / "slurm.conf").read_text()
        first = re.search(r"^SlurmctldPort=(\d+)", conf, re.MULTILINE)
        assert first is not None
        port = int(first[1]) + ("slurmctld", "slurmdbd", "slurmd").index(name)
        return str(port + (10_000 if kind == "zmq" else 0))

    def _loaded(self, load: str) -> str:
        words = (sys.executable, str(LOAD), "--json", "--seconds", "1", "--only", load)
        users = ("--attacker", ATTACKER, "--user", THIRD)
        more = {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(self.work)}
        done = self.cluster.run(*words, *users, **more)
        return "refused: others were served" if not done.returncode else done.stderr[-2000:]

    def _tested(self, test: str) -> str:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        is_held = not done.returncode and re.search(r"\d passed", done.stdout)
        return "refused: the test holds" if is_held else done.stdout[-3000:]

    # What has to be true ------------------------------------------------------------------------

    def check_others(self) -> None:
        """Another user's squeue and sbatch go on."""
        listed = as_user(self.cluster, OTHER, "squeue", "-h", "-o", "%i %t", cwd=self.work)
        assert listed.returncode == 0, f"squeue of another user: {listed.stderr}"
        assert f"{self.victim} R" in listed.stdout, f"the other's job: {listed.stdout}"
        self.jobs.append(self._submit("-o", "/dev/null", "--wrap", "true"))

    def check_daemons(self) -> None:
        """The daemons are what they were, and have had no fault."""
        assert {name: pid_of(self.cluster, name) for name in DAEMONS} == self.pids
        for pid in self.pids.values():
            os.kill(pid, 0)
        assert tracebacks(self.cluster) == []

    def clear(self) -> None:
        """End the attacker's jobs."""
        self.cluster.run("scancel", "-u", ATTACKER)

    def check_jobs(self) -> None:
        """All jobs of the other user have run and the nodes are in service."""
        self.clear()
        self.cluster.wait_until("other users' jobs", self._are_over)
        rows = self.cluster.out("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        assert all(re.search(r" (idle|mixed|allocated|completing)$", row) for row in rows), rows

    def _are_over(self) -> bool:
        listed = as_user(self.cluster, OTHER, "squeue", "-h", "-o", "%i", cwd=self.work)
        return listed.stdout.split() == [str(self.victim)]


def filled(text: str, values: dict[str, str]) -> str:
    """Return a text with {names} replaced; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def literal(value: Any, values: dict[str, str]) -> Any:
    """Return a body that `actor` can read, with names replaced."""
    if isinstance(value, Many):
        return ("*", literal(value.what, values), value.times)
    if isinstance(value, dict):
        return {
            key: int(values["victim"])
            if key == "job_id" and inner == "{victim}"
            else literal(inner, values)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [literal(inner, values) for inner in value]
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, bytes):
        return value.replace(b"{work}", values["work"].encode())
    return value


@contextmanager
def arena() -> Iterator[Arena]:
    """Return an arena, not below /tmp: that is what each job has for itself."""
    directory = Path(tempfile.mkdtemp(prefix="psng-", dir="/var/tmp"))
    directory.chmod(0o755)
    etc, work, scratch = directory / "c" / "etc", directory / "work", directory / "scratch"
    etc.mkdir(parents=True)
    (directory / "c").chmod(0o755)
    for path in (work, scratch):
        path.mkdir()
        path.chmod(0o1777)
    (etc / "job_container.conf").write_text(f"AutoBasePath=true BasePath={directory}/base/%n\n")
    (etc / "oci.conf").write_text(OCI.format(scratch=scratch))
    (etc / "plugstack.conf").write_text("required seen.py\n")
    (etc / "seen.py").write_text(PLUGIN)
    (etc / "job_submit.py").write_text(SITE_SCRIPT)
    extra = directory / "extra"
    extra.write_text(CONF)
    dbd_extra = directory / "dbd_extra"
    dbd_extra.write_text("PrivateData=jobs,usage\n")
    files = ("--conf", str(extra), "--dbd-conf", str(dbd_extra))
    options = ("--nodes", "2", "--cpus", "8", "--no-namespaces", "--web", *files)
    try:
        made = start(directory / "c", *options)
        try:
            yield Arena(made, work)
        finally:
            made.run("scancel", "-u", OTHER)
            made.run("scancel", "-u", ATTACKER)
            made.down()
    finally:
        # A base is a mount of itself, which `ismount` does not see.
        for mounted in (*directory.glob("base/*/*/.ns"), *directory.glob("base/*")):
            with suppress(OSError):
                umount(bytes(mounted), 2)
        shutil.rmtree(directory, ignore_errors=True)
