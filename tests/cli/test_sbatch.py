"""sbatch against what Slurm answered to the same lines: outputs, error lines and exit codes.

The command's own code and the controller's submission rule run in this process.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import REQ_NODES_SET
from pyslurm_ng.cli import command, sbatch
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.directives import apply_directives, split_directive
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.option_texts import OPERANDS, help_text, usage_text
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Qos, UserRecord
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.client import SlurmError
from tests.cli.reference_cluster import GOLDEN, LocalClient, ReferenceCluster, caller
from tests.world.people import UIDS

CONF = {
    "ClusterName": "demo",
    "SlurmctldHost": "ctl(127.0.0.1)",
    "GresTypes": "gpu",
    "PropagateResourceLimits": "NONE",
}
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


# Not repeated with the others: it is refused before submission (test_another_cluster_...).
ELSEWHERE = {"cluster_unknown"}
EVERY_CASE = [*recorded("errors"), *recorded("errors_enforcepartlimits_all")]
CASES = [case for case in EVERY_CASE if case.name not in ELSEWHERE]


def test_another_cluster_is_refused_as_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that no database knows: Slurm's lines, exit code 1."""
    (tmp_path / "slurm.conf").write_text("ClusterName=demo\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    options = Options("sbatch")
    pairs, _ = options.split_words(["-M", "mars"])
    options.apply_all(pairs, COMMAND_LINE)
    with pytest.raises(SystemExit) as end:
        submission.choose_cluster(options, {"ClusterName": "demo"})
    said = next(case for case in EVERY_CASE if case.name in ELSEWHERE).stderr
    assert (end.value.code, capsys.readouterr().err) == (1, said)


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
        is_known = self.user in (*UIDS, "root")
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
    shell.user = case.user
    if case.folder != "errors":
        shell.reference = scene("ALL")
    out, err, code = shell.run(*case.words, stdin=case.stdin)
    if case.name == "sbatch_version":
        assert out == "slurm 26.11.0\n"
        return
    assert SUBMITTED.sub("Submitted batch job N", out) == SUBMITTED.sub(
        "Submitted batch job N", case.stdout
    )
    assert err == case.stderr
    assert code == case.code


HET_SCRIPT = b"#!/bin/sh\n#SBATCH -n1 -t3\n#SBATCH hetjob\n#SBATCH -n2 -t9\ntrue\n"


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        (["-t7", "-c3", "-p", "debug"], [(1, 7, 3, "debug"), (2, 7, 3, "debug")]),
        (["-t7", ":", "-c3"], [(1, 7, 1, "main"), (2, 9, 3, "main")]),
    ],
)
def test_a_line_without_a_colon_is_about_each_component_of_the_script(
    shell: Shell, words: list[str], sizes: list[tuple[int, int, int, str]]
) -> None:
    """As in Slurm: `sbatch -p debug` of such a script had its other components elsewhere."""
    leader = shell.job("-H", *words, stdin=HET_SCRIPT).job_id
    jobs = [shell.reference.cluster.jobs[leader + index] for index in range(2)]
    assert sizes == [
        (
            job.request.ntasks,
            job.request.time_limit_min,
            max(job.request.cpus_per_task, 1),
            job.partition,
        )
        for job in jobs
    ]


@pytest.mark.parametrize(
    ("words", "err", "code"),
    [
        (["-p", "nosuch", "--wrap", "true"], "", 1),
        (["/no/such"], "", 1),
        (["-t", "x", "--wrap", "true"], "sbatch: error: Invalid --time specification\n", 255),
    ],
)
def test_a_second_q_hides_errors_of_what_is_not_an_option(
    shell: Shell, words: list[str], err: str, code: int
) -> None:
    with shell.patch.context() as inner:
        inner.setattr(command, "_shows_errors", True)
        assert shell.run("-Q", *words)[1] != ""
        assert shell.run("-QQ", *words) == ("", err, code)


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


# Where options come from ------------------------------------------------------------------------


SCRIPT = b"""#!/bin/bash
#SBATCH --job-name=train --partition=gpu
#SBATCH --nodes=2 --ntasks-per-node=2 # four in all
#SBATCH --gpus-per-node=2
#SBATCH --time=10 -o "out dir/%x-%j.out"
#SBATCH --comment='it''s' --mem=2G

srun hostname
#SBATCH --time=99
"""


def test_script_options_end_at_the_first_command(shell: Shell) -> None:
    """Quotes, comments and several options on a line are as in Slurm."""
    job = shell.job(stdin=SCRIPT)
    request = job.request
    assert (request.name, job.partition, job.time_limit_min) == ("train", "gpu", 10)
    assert (request.nodes_min, request.nodes_max, request.ntasks_per_node) == (2, 2, 2)
    assert request.gpus_per_node == "2"
    assert request.std_out == "out dir/%x-%j.out"
    assert request.comment == "its"
    assert request.mem_per_node_mib == 2048
    assert request.flags & REQ_NODES_SET


def test_environment_beats_script_and_command_line_beats_both(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precedence: command line, then SBATCH_*, then the script."""
    monkeypatch.setenv("SBATCH_PARTITION", "main")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "20")
    job = shell.job("-t", "30", stdin=SCRIPT)
    assert (job.partition, job.time_limit_min, job.request.name) == ("main", 30, "train")


def test_stronger_memory_option_replaces_the_weaker_one(shell: Shell) -> None:
    """--mem-per-cpu on the command line does not clash with --mem of the script."""
    request = shell.job("--mem-per-cpu=500", stdin=SCRIPT).request
    assert (request.mem_per_node_mib, request.mem_per_cpu_mib) == (0, 500)


def test_pbs_lines_are_translated_unless_switched_off(shell: Shell) -> None:
    """The common #PBS options have counterparts."""
    script = b"#!/bin/sh\n#PBS -N old -q gpu\n#PBS -l nodes=2:ppn=3,walltime=0:30:00,mem=4gb\n"
    request = shell.job(stdin=script).request
    assert (request.name, request.partition) == ("old", "gpu")
    assert (request.nodes_min, request.ntasks_per_node) == (2, 3)
    assert (request.time_limit_min, request.mem_per_node_mib) == (30, 4096)
    assert shell.job("--ignore-pbs", stdin=script).request.name == "sbatch"


def test_bsub_lines_are_translated(shell: Shell) -> None:
    """The common #BSUB options have counterparts."""
    script = b"#!/bin/sh\n#BSUB -J arr[1-3]\n#BSUB -n 4 -W 1:30 -q main\n#BSUB -o o.%J\n"
    job = shell.job(stdin=script)
    assert (job.request.name, job.array_pending) == ("arr", ((1, 3, 1),))
    assert (job.request.ntasks, job.time_limit_min, job.request.std_out) == (4, 90, "o.%j")


def test_foreign_options_without_counterpart_are_refused_by_name(shell: Shell) -> None:
    """Nothing that was asked for is silently dropped."""
    _, err, code = shell.run(stdin=b"#!/bin/sh\n#BSUB -R select[mem>4]\n")
    first, second = err.splitlines()
    assert (first, code) == ("sbatch: invalid option -- 'R'", 1)
    assert second == "sbatch: error: Unrecognized command line parameter ?"


@pytest.mark.parametrize(
    "line", ["#PBS stray", "#BSUB stray", "#PBS -N x stray", "#BSUB -J x stray"]
)
def test_foreign_word_without_option_is_named(shell: Shell, line: str) -> None:
    """In the words of Slurm 22.05, with its exit code."""
    _, err, code = shell.run(stdin=f"#!/bin/sh\n{line}\n".encode())
    assert (err, code) == ("sbatch: error: Invalid argument: stray\n", 1)


def test_resources_of_pbs_that_slurm_ignores_are_named(shell: Shell) -> None:
    """A script of a Cray runs on; naccelerators are GPUs."""
    job = shell.job(stdin=b"#!/bin/sh\n#PBS -l naccelerators=2,nice=3\n")
    assert (job.request.gres, job.nice) == ("gpu:2", 3)
    out, err, code = shell.run(stdin=b"#!/bin/sh\n#PBS -l mppwidth=4\n")
    assert (err, code) == ("sbatch: #PBS -l mppwidth has no effect\n", 0)
    assert out.startswith("Submitted")


def test_refused_option_is_named(shell: Shell) -> None:
    """An option without effect yet is refused, not ignored."""
    out, err, code = shell.run("--resources=x", "--wrap", "true")
    assert (out, err, code) == ("", "sbatch: error: --resources is not implemented yet\n", 1)


# What is sent -----------------------------------------------------------------------------------


def test_submit_line_and_origin_are_kept(shell: Shell, tmp_path: Path) -> None:
    """scontrol shows command, line and directory of the submission."""
    script = tmp_path / "job.sh"
    script.write_bytes(b"#!/bin/sh\nexit 0\n")
    request = shell.job("-D", "/tmp", str(script), "one", "two three").request
    assert request.submit_line == f"sbatch --parsable -D /tmp {script} one two three"
    assert (request.name, request.command) == ("job.sh", str(script))
    assert request.argv == ("one", "two three")
    assert request.work_dir == "/tmp"


def test_none_is_shown_as_the_null_device(shell: Shell) -> None:
    """`-o none` makes no file, so scontrol and sacct must name none."""
    request = shell.job("-o", "none", "-e", "NONE", "-i", "none", "--wrap=true").request
    assert {request.std_out, request.std_err, request.std_in} == {"/dev/null"}


def entries(shell: Shell, *words: str, **variables: str) -> dict[str, str]:
    """Return the job environment that sbatch sends."""
    options = Options("sbatch")
    pairs, _ = options.split_words(list(words))
    options.apply_all(pairs, COMMAND_LINE)
    encoded = {name.encode(): value.encode() for name, value in variables.items()}
    content = submission.job_environment(options, encoded)
    assert content.endswith(b"\0")
    return dict(entry.split("=", 1) for entry in content.decode()[:-1].split("\0"))


def test_export_decides_which_variables_travel(shell: Shell) -> None:
    """ALL, NONE, names, and names with values."""
    have = {"A": "1", "B": "2", "SLURM_TIME_FORMAT": "x", "SLURM_JOB_ID": "7"}
    assert entries(shell, **have).keys() >= {"A", "B", "SLURM_TIME_FORMAT"}
    assert "SLURM_JOB_ID" not in entries(shell, **have)
    none = entries(shell, "--export=NONE", **have)
    assert "A" not in none and none["SLURM_EXPORT_ENV"] == "NONE"
    assert none["SLURM_GET_USER_ENV"] == "1" and none["SLURM_TIME_FORMAT"] == "x"
    nil = entries(shell, "--export=NIL", SPANK_X="3", **have)
    assert "A" not in nil and nil["SLURM_EXPORT_ENV"] == "NIL"
    assert (nil["SPANK_X"], nil["SLURM_TIME_FORMAT"]) == ("3", "x")
    assert "SLURM_GET_USER_ENV" not in nil, "NIL does not load the login environment"
    some = entries(shell, "--export=A,C=x'1,2'", **have)
    assert (some["A"], some["C"]) == ("1", "x1,2") and "B" not in some
    both = entries(shell, "--export=ALL,B=9", **have)
    assert (both["A"], both["B"]) == ("1", "9")


def test_variables_come_from_a_file(shell: Shell, tmp_path: Path) -> None:
    """--export-file, by name or as an open descriptor; what the caller has goes before."""
    path = tmp_path / "variables"
    path.write_bytes(b"A=file\0FROM_FILE=two words\0no pair\0")
    environment = entries(shell, f"--export-file={path}", A="1")
    assert (environment["A"], environment["FROM_FILE"]) == ("1", "two words")
    with path.open("rb") as stream:
        environment = entries(
            shell, f"--export-file={os.dup(stream.fileno())}", "--export=NONE", A="1"
        )
    assert (environment["A"], environment["FROM_FILE"]) == ("file", "two words")
    _, err, code = shell.run(f"--export-file={tmp_path}/none", "--wrap", "true")
    assert err == f"sbatch: error: Could not open user environment file {tmp_path}/none\n"
    assert code == 1


def test_held_job_waits_for_its_owner(shell: Shell) -> None:
    """-H: priority 0, JobHeldUser."""
    job = shell.job("-H", "--wrap", "true")
    assert (job.priority, job.reason) == (0, Reason.JobHeldUser)


def test_parsable_and_quiet(shell: Shell) -> None:
    """--parsable prints the id alone, --quiet nothing, also beside it, as in Slurm 22.05."""
    assert shell.run("--parsable", "--wrap", "true") == ("1\n", "", 0)
    assert shell.run("-Q", "--wrap", "true") == ("", "", 0)
    assert shell.run("-Q", "--parsable", "--wrap", "true") == ("", "", 0)


def test_verbose_lists_the_options_given(shell: Shell) -> None:
    """-v: one option a line between two rulers."""
    _, err, _ = shell.run("-v", "-n3", "-t3", "--mem=10240", "--wrap", "true")
    ruler = f"sbatch: {'-' * 20} {'-' * 20}\n"
    assert err.startswith("sbatch: defined options\n" + ruler)
    assert "sbatch: ntasks              : 3\n" in err
    assert "sbatch: verbose             : 1\n" in err
    assert "sbatch: time                : 00:03:00\n" in err
    assert "sbatch: mem                 : 10G\n" in err


def test_twice_verbose_names_what_the_job_inherits(shell: Shell) -> None:
    """-vv: limits, niceness and umask, in Slurm's order."""
    _, err, _ = shell.run("-vv", "--propagate=NOFILE,CORE,CPU", "--wrap", "true")
    lines = [line for line in err.splitlines() if "propagating" in line]
    names = [line.partition("propagating ")[2].partition("=")[0] for line in lines]
    assert names == "RLIMIT_CPU RLIMIT_CORE RLIMIT_NOFILE SLURM_PRIO_PROCESS UMASK".split()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert lines[2] == f"sbatch: debug:  propagating RLIMIT_NOFILE={soft}"
    assert "propagating" not in shell.run("-v", "--wrap", "true")[1]


def test_wait_returns_the_exit_code_of_the_job(shell: Shell) -> None:
    """A job that is over before the first look needs no second one."""
    job = shell.job("--wrap", "exit 3")
    shell.reference.apply(
        [
            ev.JobEnded(
                time_us=shell.reference.now_us, job_id=job.job_id,
                state=JobState.FAILED, exit_code=3 << 8,
            )
        ]
    )  # fmt: skip
    client = LocalClient(shell.reference, caller("alice"))
    assert sbatch._wait(client, job.job_id) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun"])
def test_usage_puts_each_option_in_brackets(command: str) -> None:
    """Programs read option names from --usage, so nothing may be outside brackets."""
    text = usage_text(Options(command))
    rest = text.removeprefix(f"Usage: {command}").removesuffix(OPERANDS[command] + "\n")
    assert re.sub(r"\[-[^\[\]]*(\[=value\])?\]", "", rest).strip() == ""


@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun"])
def test_help_lists_each_option_in_its_section(command: str) -> None:
    """--help has Slurm's sections in Slurm's order, and each option stands in one of them."""
    text = help_text(Options(command))
    assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == [
        "Parallel run options", "Constraint options", "Consumable resources related options",
        "Affinity/Multi-core options", "GPU scheduling options", "Help options", "Other options",
    ]  # fmt: skip
    blocks = {block.partition(":\n")[0]: block for block in text.split("\n\n")}
    assert "\n  -A, --account=name          " in blocks["Parallel run options"]
    assert "\n  -C, --constraint=list       " in blocks["Constraint options"]
    assert "\n  -G, --gpus=n                " in blocks["GPU scheduling options"]
    named = re.findall(r"^ {2}(?:-\w,| {3}) --([\w-]+)", text, re.MULTILINE)
    bracketed = re.findall(r"\[(?:-\w\|)?--([\w-]+)", usage_text(Options(command)))
    assert sorted(named) == sorted(bracketed)


@pytest.mark.parametrize(
    ("option", "begins", "code"),
    [
        ("--gres=help", "Valid gres options are:\ngpu[[:type]:count]\nx[[", 0),
        ("--hint=help", "Application hint options:\n", 1),
        ("--mem-bind=help", "Memory bind options:\n", 255),
    ],
)
def test_help_of_an_option_needs_no_script(
    option: str,
    begins: str,
    code: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As with Slurm 22.05, which answers before it looks for one, and with its exit codes."""
    (tmp_path / "slurm.conf").write_text("ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu,x\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setattr("sys.stdin", None)
    assert sbatch.main([option]) == code
    assert capfd.readouterr().out.startswith(begins)
    assert sbatch.main([option, "/no/such/script"]) == code


def test_errors_of_the_command_line_come_before_those_of_the_script(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Slurm reads the command line, then the script, then the lines in it."""
    assert sbatch.main(["-t", "x", "/no/such/script"]) == 255
    assert capfd.readouterr().err == "sbatch: error: Invalid --time specification\n"
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N x\n")
    assert sbatch.main(["--begin=then", str(script)]) == 255
    assert capfd.readouterr().err == (
        "Invalid time specification (pos=0): then\nsbatch: error: Invalid --begin specification\n"
    )
    assert sbatch.main([str(script)]) == 255
    assert "is not a valid node count" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "nodes", "names", "per_node"),
    [
        ("3", (3, 3), None, None),
        ("n1+n2:ppn=2", (2, 0), "n[1-2]", 2),
        ("2:ppn=2+3", (5, 5), None, 2),
        ("n1+2", (3, 3), "n1", None),
    ],
)
def test_pbs_adds_chunks_of_nodes_up(
    text: str, nodes: tuple[int, int], names: str | None, per_node: int | None
) -> None:
    """`nodes=` names nodes or counts them; what follows a colon is for each of them."""
    options = Options("sbatch")
    apply_directives(
        options, f"#!/bin/sh\n#PBS -l nodes={text}\n".encode(), "stdin", ignore_pbs=False
    )
    options.finish()
    request = options.request
    assert (request["nodes_min"], request.get("nodes_max", 0)) == nodes
    assert (request.get("node_list"), request.get("ntasks_per_node")) == (names, per_node)


def test_an_indented_comment_ends_no_directives() -> None:
    """It has none itself; those after it count, as with Slurm 22.05."""
    options = Options("sbatch")
    script = b"#!/bin/sh\n  # why\n\t#SBATCH -n 2\n#SBATCH -J after\n  true\n#SBATCH -c 3\n"
    apply_directives(options, script, "stdin", ignore_pbs=False)
    assert options.request["name"] == "after"
    assert not {"ntasks", "cpus_per_task"} & options.request.keys()


def test_lines_of_other_systems_are_read_last_or_not_at_all() -> None:
    """As with Slurm 22.05, wherever they stand."""
    for ignores, name in ((b"", "pbs"), (b"#SBATCH --ignore-pbs\n", "slurm")):
        options = Options("sbatch")
        script = b"#!/bin/sh\n#PBS -N pbs\n#SBATCH -J slurm\n" + ignores
        apply_directives(options, script, "stdin", ignore_pbs=False)
        assert options.request["name"] == name


@pytest.mark.parametrize(
    ("text", "word"),
    [(r"'it\'s'", "it's"), (r"'a\b'", "ab"), (r"'a\\b'", r"a\b"), (r"'a\ b'", "a b")],
)
def test_a_backslash_counts_within_single_quotes(text: str, word: str) -> None:
    """Unlike in a shell."""
    assert split_directive(text, "stdin: line 2") == [word]


def test_room_for_jobs_is_waited_for_as_in_slurm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """22.05 at MaxJobCount: one line, two minutes of pauses, then the error's own text."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    class Full:
        def change(self, kind: str, fields: dict[str, object]) -> dict[str, object]:
            raise SlurmError(Errno.EAGAIN, "Resource temporarily unavailable")

    with pytest.raises(SlurmError):
        sbatch._change(Full(), {})  # type: ignore[arg-type]
    assert pauses == list(range(1, 16))
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"]
