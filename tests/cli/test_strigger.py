"""strigger prints and refuses what Slurm does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.cli.strigger import PROGRAM, REFUSED
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command

HEADER = f"TRIG_ID RES_TYPE   RES_ID {'TYPE':<35} OFFSET USER     FLAGS PROGRAM"
TRUE = "/bin/true"
ONE_ACTION = "You must use exactly one of the following options: --set, --get or --clear"


class Asked:
    """The cluster of the recordings, where root sets triggers."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reference: ReferenceCluster = queue()
        # Only a slurmctld that runs as root may run programs of root.
        self.reference.conf = replace(self.reference.conf, slurm_user="root")
        self._patch = patch

    def __call__(self, *words: str, user: str = "root") -> Printed:
        return run_command(self._patch, self.reference, user, ["strigger", *words])

    def set(self, *words: str, program: str = TRUE) -> Printed:
        return self("--set", *words, f"--program={program}")


@pytest.fixture
def strigger(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_the_list(strigger: Asked) -> None:
    """As recorded of Slurm: the header, widths, `*` for all nodes, no header above nothing."""
    assert strigger("--get") == Printed("", "", 0)
    assert strigger.set("--node", "--down") == Printed("", "", 0)
    assert strigger.set("-j", "22", "-f", program="/bin/true  22") == Printed("", "", 0)
    assert strigger.set("-A", "--flags=perm").code == 0
    assert strigger.set("-u", "-nn1,n2", "-o", "-32000").code == 0
    assert strigger("--get").stdout.splitlines() == [
        HEADER,
        "      1 node            * down                                     0 root           "
        "/bin/true",
        "      2 job            22 fini                                     0 root           "
        "/bin/true  22",
        "      3 slurmctld       * primary_slurmctld_resumed_operation      0 root     PERM  "
        "/bin/true",
        "      4 node        n1,n2 up                                  -32000 root           "
        "/bin/true",
    ]
    assert strigger("--get", "-N", "--id=2").stdout.split()[:4] == ["2", "job", "22", "fini"]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("-i 2", "2"),
        ("-j 22", "2 5"),
        ("-j 22 --fini", "2"),
        ("--node", "1 4"),
        ("--node=n3", "1"),
        ("--node=n[2-3]", "1 4"),
        ("--up", "4"),
        ("--down --up", "1 4 5"),
        ("--user=root", "1 2 3 4 5"),
        ("--user=nobody", ""),
        ("--id=99", ""),
    ],
)
def test_what_is_listed(strigger: Asked, words: str, ids: str) -> None:
    """All filters must agree; of several events any one."""
    for line in ("--down", "-j 22 -f", "-A", "-u -nn[1-2]", "-j 22 -d"):
        assert strigger.set(*line.split()).code == 0
    listed = strigger("--get", "-N", *words.split()).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ids.split()


def test_clearing(strigger: Asked) -> None:
    """Quietly, unless -v asks; -Q makes a trigger that is gone no error."""
    for line in ("--down", "--up", "-j 22 -f", "--idle"):
        assert strigger.set(*line.split()).code == 0
    assert strigger("--clear", "--id=1") == Printed("", "", 0)
    missing = "slurm_clear_trigger: No such process\n"
    assert strigger("--clear", "--id=1") == Printed("", missing, 1)
    assert strigger("--clear", "--id=1", "-Q") == Printed("", "", 0)
    assert strigger("--clear", "--jobid=99").stderr == missing
    assert strigger("--clear", "-v", "--id=2").stderr == "strigger: trigger 2 cleared\n"
    assert strigger("--clear", "-v", "-j22").stderr == "strigger: triggers for job 22 cleared\n"
    denied = strigger("--clear", "--user=root", user="alice")
    assert denied == Printed("", "slurm_clear_trigger: Access/permission denied\n", 1)
    told = strigger("--clear", "-v", "--user=root").stderr
    assert told == "strigger: triggers for user 0 cleared\n"


def test_jobs_may_be_named_by_sluid(strigger: Asked) -> None:
    """In each of the three actions; one that no job has is refused."""
    sluid = sluid_text(strigger.reference.cluster.jobs[22].sluid)
    assert strigger.set("-f", "-j", sluid).code == 0
    assert strigger("--get", "-N", "-j", sluid).stdout.split()[:3] == ["1", "job", "22"]
    told = strigger("--clear", "-v", "-j", sluid).stderr
    assert told == "strigger: triggers for job 22 cleared\n"
    unknown = strigger("--get", "-j", "s0000000000000")
    assert unknown.code == 1 and unknown.stderr.startswith("strigger: error: Invalid jobid s")


def test_setting(strigger: Asked) -> None:
    """-v says that it was set; the controller refuses duplicates and strangers."""
    assert strigger.set("--down", "-v").stderr == "strigger: trigger set\n"
    refused = {
        "--down": "Duplicate event trigger",
        "--down --node=n77": "Invalid node name specified",
        "--fini --jobid=999": "Invalid job id specified",
    }
    for words, text in refused.items():
        assert strigger.set(*words.split()) == Printed("", f"slurm_set_trigger: {text}\n", 1)
    denied = strigger("--set", "--up", f"--program={TRUE}", user="alice")
    assert denied == Printed("", "slurm_set_trigger: Access/permission denied\n", 1)
    assert strigger("--get", "-v").stderr == "strigger: Read 1 trigger records\n"


def test_programs_that_cannot_run_are_refused(strigger: Asked, tmp_path: Path) -> None:
    """With Slurm's words."""
    plain = tmp_path / "plain"
    plain.write_text("")
    plain.chmod(0o644)
    invalid = "strigger: error: Invalid --program value, "
    for program, text in {
        "tell": 'strigger: error: The --program value must start with "/"',
        "": 'strigger: error: The --program value must start with "/"',
        "/none": invalid + "file not found",
        "/tmp": invalid + "not regular file",
        "/a\0b": invalid + "file not found",
        str(plain): "slurm_set_trigger: Access/permission denied",
    }.items():
        assert strigger.set("--down", program=program) == Printed("", text + "\n", 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", ONE_ACTION),
        ("--set --get", ONE_ACTION),
        ("--set --node", "You must specify a trigger"),
        ("--set --down", "You must specify a --program value"),
        ("--set --fini", "You must specify a --jobid value"),
        ("--get --time", "You must specify a --jobid value"),
        ("--clear", "You must specify a --id, --jobid, or --user to clear"),
        ("--clear --id=x", "You must specify a --id, --jobid, or --user to clear"),
        ("--get --jobid=x", "Invalid jobid x"),
        ("--get --jobid=0", "Invalid jobid 0"),
        ("--get --user=nope", "Invalid user nope"),
        ("--get --node=n[", "Invalid node name n["),
        ("--set --down --offset=32001", "The --offset parameter must be between +/-32000"),
        ("--set --down -o 99999999999", "The --offset parameter must be between +/-32000"),
        ("--set --down -o 5m", "Invalid --offset value 5m: seconds, as in 60 or -300"),
        ("--set --down --flags=foo", "Invalid flags foo"),
        ("--set --down --flags=perm,foo", "Invalid flags perm,foo"),
    ],
)
def test_bad_words(strigger: Asked, words: str, text: str) -> None:
    """One line, and 1."""
    assert strigger(*words.split()) == Printed("", f"strigger: error: {text}\n", 1)


@pytest.mark.parametrize("event", REFUSED)
def test_events_that_cannot_happen_are_refused_by_name(strigger: Asked, event: str) -> None:
    """A trigger that never runs would be silent."""
    told = f"strigger: error: --{event} is not supported yet\n"
    assert strigger.set(f"--{event}") == Printed("", told, 1)
    assert event in PROGRAM.refused


def test_several_events_are_all_named(strigger: Asked) -> None:
    """Slurm shows `unknown`."""
    assert strigger.set("-d", "-u", "-D", "-F", "-I", "-r").code == 0
    row = strigger("--get", "-N").stdout.split()
    assert row[3] == "down,up,drained,fail,idle,reconfig"


def test_burst_buffers_belong_to_no_node(strigger: Asked) -> None:
    """The row is as Slurm 22.05 shows it."""
    assert strigger.set("--burst_buffer").code == 0
    assert strigger("--get", "-N").stdout.split()[1:4] == ["other", "(null)", "burst_buffer"]
