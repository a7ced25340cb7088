"""sbatch against what Slurm answered to the same lines: outputs, error lines and exit codes.

The command's own code and the controller's submission rule run in this process.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from pyslurm_ng.cli import sbatch
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Qos, UserRecord
from pyslurm_ng.model.job import Job
from tests.cli.reference_cluster import GOLDEN, USERS, LocalClient, ReferenceCluster, caller

CONF = {
    "ClusterName": "demo",
    "SlurmctldHost": "ctl(127.0.0.1)",
    "GresTypes": "gpu",
    "PropagateResourceLimits": "NONE",
}
# What we refuse by name and Slurm accepts, until it is implemented.
NOT_YET = {"script_het"}
SUBMITTED = re.compile(r"Submitted batch job \d+")


@dataclass(frozen=True)
class Case:
    """One recorded command."""

    folder: str
    name: str
    user: str
    words: list[str]
    stdin: bytes
    stdout: str
    stderr: str
    code: int


def recorded(folder: str) -> Iterator[Case]:
    """Yield the recorded commands of a folder."""
    for path in sorted((GOLDEN / folder).glob("*.txt")):
        content = path.read_bytes().decode("utf-8", "surrogateescape")
        first, _, rest = content.partition("\n")
        line = first.partition("$ ")[2].partition(" < ")[0]
        parts = dict(re.findall(r"(?ms)^----- (\w+)[^\n]*\n(.*?)(?=^----- |\Z)", rest))
        code = re.search(r"(?m)^----- exit (\d+)", rest)
        assert code is not None, path
        yield Case(
            folder,
            path.stem,
            first.partition("@")[0].lstrip("["),
            shlex.split(line)[1:],
            parts.get("stdin", "").encode("utf-8", "surrogateescape"),
            parts["stdout"],
            parts["stderr"],
            int(code[1]),
        )


CASES = [*recorded("errors"), *recorded("errors_enforcepartlimits_all")]


def scene(enforce: str = "NO") -> ReferenceCluster:
    """Return the recorded cluster with its accounts, users and QOS."""
    reference = ReferenceCluster()
    reference.conf = msgspec_conf(reference, enforce)
    names = ("normal", "high", "low")
    reference.apply(
        [
            ev.QosChanged(
                time_us=reference.now_us,
                changed=tuple(Qos(number + 1, name) for number, name in enumerate(names)),
            ),
            ev.AssocChanged(
                time_us=reference.now_us,
                changed=(
                    Association(1, "root"),
                    Association(2, "physics", parent_id=1),
                    Association(3, "chem", parent_id=1),
                    Association(
                        5, "physics", "alice", parent_id=2, qos=("normal", "high"),
                        default_qos="normal",
                    ),
                    Association(6, "physics", "bob", parent_id=2, qos=names),
                    Association(7, "chem", "bob", parent_id=3, qos=names),
                ),
                users=(UserRecord("alice", "physics"), UserRecord("bob", "physics")),
            ),
        ]
    )  # fmt: skip
    return reference


def msgspec_conf(reference: ReferenceCluster, enforce: str) -> object:
    """Return the recorded configuration with another EnforcePartLimits."""
    conf = reference.conf
    if enforce == conf.enforce_part_limits:
        return conf
    import dataclasses

    if dataclasses.is_dataclass(conf):
        return dataclasses.replace(conf, enforce_part_limits=enforce)
    return msgspec.structs.replace(conf, enforce_part_limits=enforce)


@dataclass
class Shell:
    """Runs sbatch in this process as one user of a reference cluster."""

    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    reference: ReferenceCluster
    user: str = "alice"

    def run(self, *words: str, stdin: bytes = b"") -> tuple[str, str, int]:
        """Return stdout, stderr and exit code."""
        is_known = self.user in (*USERS, "root")
        who = caller(self.user) if is_known else Caller(uid=1, gid=1, user_name=self.user)
        client = LocalClient(self.reference, who)
        now_s = self.reference.now_us / 1e6
        with self.patch.context() as inner, tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            inner.setattr(sbatch, "connect", lambda conf: client)
            inner.setattr(sbatch, "read_conf", lambda name, *more: dict(CONF))
            inner.setattr("os.getuid", lambda: who.uid)
            inner.setattr("posix.getuid", lambda: who.uid)
            inner.setattr(time, "time", lambda: now_s)
            inner.setattr("sys.stdin", source)
            try:
                code = sbatch.main(list(words))
            except SystemExit as stop:
                code = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        return out, err, code

    def job(self, *words: str, stdin: bytes = b"") -> Job:
        """Submit something that is accepted and return its job."""
        out, err, code = self.run("--parsable", *words, stdin=stdin)
        assert (err, code) == ("", 0)
        return self.reference.cluster.jobs[int(out)]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_")):
            monkeypatch.delenv(name)
    return Shell(monkeypatch, capsys, scene())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.folder[6:]}{case.name}")
def test_answers_as_slurm_does(shell: Shell, case: Case) -> None:
    """Every recorded line is answered with the same text and the same exit code."""
    if case.name in NOT_YET:
        out, err, code = shell.run(*case.words, stdin=case.stdin)
        assert (out, code) == ("", 1)
        assert "not implemented yet" in err
        return
    shell.user = case.user
    if case.folder != "errors":
        shell.reference = scene("ALL")
    out, err, code = shell.run(*case.words, stdin=case.stdin)
    if case.name == "sbatch_version":
        assert out.startswith("slurm 26.11.0")
        return
    assert SUBMITTED.sub("Submitted batch job N", out) == SUBMITTED.sub(
        "Submitted batch job N", case.stdout
    )
    assert err == case.stderr
    assert code == case.code


def test_test_only_names_nodes_and_makes_no_job(shell: Shell) -> None:
    """The line is Slurm's; nothing is queued."""
    out, err, code = shell.run("--test-only", "-N2", "--wrap", "true")
    assert (out, code) == ("", 0)
    assert err == (
        "sbatch: Job 1 to start at 2026-11-20T12:10:53 using 2 processors on nodes n[3-4] "
        "in partition main\n"
    )
    assert not shell.reference.cluster.jobs


def test_test_only_waits_for_running_jobs_to_end(shell: Shell) -> None:
    """A full partition is free again when its jobs' time limits are over."""
    job = shell.job("-p", "debug", "-t", "20", "--exclusive", "--wrap", "true")
    shell.reference.start(job.job_id, 1, ("n4", 0xFFFF, 16000, 0))
    _, err, code = shell.run("--test-only", "-p", "debug", "--wrap", "true")
    assert code == 0
    assert "to start at 2026-11-20T12:30:14 using 1 processors on nodes n4" in err
