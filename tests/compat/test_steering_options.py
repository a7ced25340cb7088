"""Effects of options of scancel, scontrol, sprio, sdiag, sinfo and squeue that no recording has."""

from __future__ import annotations

import time

import pytest

from pyslurm_ng.model.states import JobState, Reason
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command
from tests.world.people import know_people


def run(
    patch: pytest.MonkeyPatch, reference: ReferenceCluster, user: str, line: str, stdin: str = ""
) -> Printed:
    return run_command(patch, reference, user, line.split(), stdin)


def cancelled(reference: ReferenceCluster) -> list[int]:
    jobs = reference.cluster.jobs.values()
    return sorted(job.job_id for job in jobs if job.state == JobState.CANCELLED)


# scancel -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "words", "ended"),
    [
        ("root", "--account=chem", [23, 24, 30, 31, 33]),
        ("root", "--partition=gpu", [22]),
        ("root", "--qos=low", [25]),
        ("root", "--nodelist=n4", [23]),
        ("root", "--nodelist=n[1-2]", [22]),
        ("root", "--reservation=maint", [41]),
        ("root", "--wckey=green", [42]),
        ("bob", "--me", [23, 25]),
        ("root", "--me", []),
        ("bob", "--me --qos=low", [25]),
    ],
)
def test_scancel_reaches_only(
    user: str, words: str, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of this account, partition, QOS, node, reservation or wckey, or the user's own.

    root may end any job, but has none of its own here.
    """
    reference = queue()
    reference.submit(41, "alice", "12:10:18", "reserved", reservation="maint")
    reference.submit(42, "alice", "12:10:18", "charged", wckey="green")
    assert run(monkeypatch, reference, user, f"scancel {words}").code == 0
    assert cancelled(reference) == ended


def test_scancel_asks_about_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """--interactive: only what got a yes is cancelled."""
    reference = queue()
    printed = run(monkeypatch, reference, "alice", "scancel --interactive 29 32", "n\ny\n")
    assert sorted(printed.stdout.removesuffix("? ").split("? ")) == [
        "Cancel job_id=29 name=later partition=main [y/n]",
        "Cancel job_id=32 name=qoslim partition=main [y/n]",
    ]
    assert len(cancelled(reference)) == 1
    again = queue()
    assert run(monkeypatch, again, "alice", "scancel -i 29 32", "").code == 0
    assert cancelled(again) == []


def test_what_has_nothing_to_act_on_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no stage-out to leave out."""
    reference = queue()
    assert run(monkeypatch, reference, "root", "scancel --hurry 29") == Printed("", "", 0)
    assert cancelled(reference) == [29]


def test_no_job_has_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """--sibling: the text and exit code of Slurm 22.05, which goes on if the job is unknown."""
    reference = queue()
    printed = run(monkeypatch, reference, "root", "scancel --sibling=east 29 999999")
    assert printed.stderr == (
        "scancel: error: Kill job error on job id 29: Not a valid federated job\n"
    )
    assert printed.code == 191 and cancelled(reference) == []
    assert run(monkeypatch, reference, "root", "scancel --sibling=east 999999").code == 0


def test_an_administrator_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """--admin-comment is kept with the job that ends; from users neither happens."""
    reference = queue()
    refused = run(monkeypatch, reference, "alice", "scancel --admin-comment=mine 29")
    assert (refused.code, cancelled(reference)) == (2002 & 0xFF, [])
    assert "Access/permission denied" in refused.stderr
    assert run(monkeypatch, reference, "root", "scancel --admin-comment=loop 29").code == 0
    assert cancelled(reference) == [29]
    assert reference.cluster.jobs[29].admin_comment == "loop"


def test_a_name_sends_nothing_to_the_terminal_of_the_one_who_cancels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RELIABILITY 68: root is asked about jobs of users, who choose their names."""
    reference = queue()
    reference.submit(41, "alice", "12:10:18", "a\x1b]0;b\a\nCancel job_id=1\x9b31m")
    printed = run(monkeypatch, reference, "root", "scancel --interactive 41", "n\n")
    assert printed.stdout == (
        "Cancel job_id=41 name=a?]0;b??Cancel job_id=1?31m partition=main [y/n]? "
    )


# scontrol ----------------------------------------------------------------------------------------


def test_hidden_partitions_are_shown_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one of --all and --hide counts. Jobs of hidden partitions are hidden, too."""
    reference = queue()
    run(monkeypatch, reference, "root", "scontrol update PartitionName=gpu Hidden=YES")

    def shown(line: str) -> list[str]:
        printed = run(monkeypatch, reference, "alice", line)
        assert (printed.stderr, printed.code) == ("", 0)
        return [word.rstrip("*") for word in printed.stdout.split()]

    def named(options: str) -> list[str]:
        words = shown(f"scontrol -o {options} show partition")
        heads = [word for word in words if word.startswith("PartitionName=")]
        return sorted(word.removeprefix("PartitionName=") for word in heads)

    open_ones, every_one = ["debug", "main"], ["debug", "gpu", "main"]
    assert named("") == named("--hide") == named("--all --hide") == open_ones
    assert named("--all") == every_one
    assert sorted(shown("sinfo -h -o %P")) == open_ones
    assert sorted(shown("sinfo -h -o %P --hide")) == open_ones
    assert sorted(shown("sinfo -h -o %P --all")) == every_one
    assert "22" not in shown("squeue -h -o %i")
    assert "22" not in shown("squeue -h -o %i --hide")
    assert "22" in shown("squeue -h -o %i --all")


def test_nodes_of_the_future_are_shown_with_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """--future of scontrol and sinfo."""
    reference = queue()
    run(monkeypatch, reference, "root", "scontrol update NodeName=n2 State=FUTURE")

    def nodes(line: str) -> set[str]:
        printed = run(monkeypatch, reference, "root", line)
        words = [word.removeprefix("NodeName=") for word in printed.stdout.split()]
        return {"n1", "n2", "n3", "n4"}.intersection(words)

    assert nodes("scontrol -o show node") == nodes("sinfo -h -N -o %N") == {"n1", "n3", "n4"}
    assert len(nodes("scontrol -o --future show node")) == 4
    assert len(nodes("sinfo -h -N -o %N --future")) == 4


@pytest.mark.parametrize("word", ["uhold", "holdu"])
def test_an_operators_uhold_is_the_users_to_release(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike a hold of an operator's."""
    reference = queue()
    assert run(monkeypatch, reference, "root", f"scontrol {word} 29").code == 0
    assert reference.cluster.jobs[29].reason == Reason.JobHeldUser
    assert run(monkeypatch, reference, "alice", "scontrol release 29").code == 0
    run(monkeypatch, reference, "root", "scontrol hold 29")
    assert reference.cluster.jobs[29].reason == Reason.JobHeldAdmin


def test_wait_job_returns_when_the_nodes_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once for job 21, which runs; for 29 when it has ended meanwhile."""
    reference = queue()
    printed = run(monkeypatch, reference, "alice", "scontrol wait_job 21")
    assert printed == Printed("", "scontrol: Nodes are ready for job 21\n", 0)
    waits = []

    def ends(seconds: float) -> None:
        waits.append(seconds)
        run(monkeypatch, reference, "alice", "scancel 29")

    monkeypatch.setattr("pyslurm_ng.cli.control.job_actions.sleep", ends)
    printed = run(monkeypatch, reference, "alice", "scontrol wait_job 29")
    assert printed == Printed("", "scontrol: Job 29 no longer running\n", 1)
    assert len(waits) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("show job 99", "slurm_load_jobs error: Invalid job id specified\n"),
        ("show node n9", "Node n9 not found\n"),
        ("show partition zz", "Partition zz not found\n"),
        ("show reservation zz", "Reservation zz not found\n"),
        ("show foo", "invalid entity:foo for keyword:show \n"),
        ("foo", "invalid keyword: foo\n"),
        ("requeue 99", "Invalid job id specified for job 99\n"),
        ("top 99", "Invalid job id specified for job 99\n"),
    ],
)
def test_quiet_commands_only_set_the_exit_code(
    words: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--quiet leaves out the lines that Slurm 22.05 leaves out.

    Updates of nodes are printed nevertheless.
    """
    told = run(monkeypatch, queue(), "root", f"scontrol {words}")
    assert (told.stdout + told.stderr, told.code) == (text, 1)
    assert run(monkeypatch, queue(), "root", f"scontrol --quiet {words}") == Printed("", "", 1)
    asked = "scontrol --quiet update PartitionName=zz State=UP"
    said = run(monkeypatch, queue(), "root", asked).stderr
    assert said == "slurm_update error: Invalid partition name specified\n"


@pytest.mark.parametrize(("entity", "records"), [("job 21", 1), ("node", 4), ("partition gpu", 1)])
def test_verbose_tells_the_number_of_records(
    entity: str, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--verbose: a line before the records, as Slurm 22.05 prints it."""
    plain = run(monkeypatch, queue(), "root", f"scontrol show {entity}").stdout
    told = run(monkeypatch, queue(), "root", f"scontrol --verbose show {entity}").stdout
    head, _, rest = told.partition("\n")
    assert rest == plain
    assert head.startswith("last_update_time=2026-11-20T")
    assert head.endswith(f", records={records}")


# sprio -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ("--jobs=25,24", "24 25"),
        ("--user=1002", "25"),
        ("--users=1002", "25"),
        ("--users=1002,1003", "24 25 30 31"),
        ("--partition=gpu", ""),
        ("--partition=main --users=1002", "25"),
        ("--jobs=24,25,32 --sort=Y", "32 25 24"),
        ("--jobs=24,25,32 --sort=-Y", "24 25 32"),
        ("--jobs=24,25,32 --sort=o,-i", "24 32 25"),
    ],
)
def test_sprio_shows(words: str, jobs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of these ids, users, partitions, in this order."""
    know_people(monkeypatch)
    printed = run(monkeypatch, queue(), "root", f"sprio -h -o %i {words}")
    assert (printed.stdout.split(), printed.code) == (jobs.split(), 0)


def test_sprio_says_what_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """--verbose: its options before the table, as Slurm 22.05 prints them."""
    printed = run(monkeypatch, queue(), "root", "sprio -h -o %i -j 24,25 --verbose")
    rule = "-" * 29
    assert printed.stdout.splitlines()[:5] == [
        rule, "format     = %i", "job_flag   = 1", "jobs       = 24,25", "partition  = (null)",
    ]  # fmt: skip
    assert printed.stdout.rpartition(rule)[2].split() == ["24", "25"]


# sdiag -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kinds", "uids"),
    [
        ("", ["Ping", "ShowJobs", "SubmitJob"], ["1003", "1002", "1001"]),
        ("--sort-by-id", ["SubmitJob", "Ping", "ShowJobs"], ["1001", "1002", "1003"]),
        ("--sort-by-time", ["ShowJobs", "SubmitJob", "Ping"], ["1002", "1001", "1003"]),
        ("--sort-by-time2", ["SubmitJob", "ShowJobs", "Ping"], ["1001", "1002", "1003"]),
        ("--all", ["Ping", "ShowJobs", "SubmitJob"], ["1003", "1002", "1001"]),
    ],
)
def test_sdiag_sorts_calls(
    words: str, kinds: list[str], uids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count, by number, by time in all, by mean time; messages and users alike.

    --all is the whole report, which is what there is without it, as documented.
    """
    reference = queue()
    calls = {"SubmitJob": (1001, 1, 500), "Ping": (1003, 9, 10), "ShowJobs": (1002, 4, 200)}
    for kind, (uid, count, took_us) in calls.items():
        for _ in range(count):
            reference.soft.count_call(kind, uid, took_us)
    text = run(monkeypatch, reference, "root", f"sdiag {words}").stdout
    by_kind, _, rest = text.partition("statistics by message type\n")[2].partition("\n\n")
    by_user = rest.partition("statistics by user\n")[2].partition("\n\n")[0]
    assert [line.split("(")[0].strip() for line in by_kind.splitlines()] == kinds
    assert [line.partition("(")[2].split(")")[0].strip() for line in by_user.splitlines()] == uids
    assert text.startswith("*****") and "Backfilling stats" in text


# sinfo and squeue --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["squeue -o %i -j 21", "sinfo -o %N -n n1 -p gpu"])
def test_iterate_shows_again_and_again(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """--iterate=5: under a line with the time, every five seconds; without it under --noheader."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise SystemExit(0)

    monkeypatch.setattr(time, "sleep", pause)
    once = run(monkeypatch, queue(), "root", line).stdout
    shown = run(monkeypatch, queue(), "root", f"{line} --iterate=5").stdout
    assert pauses == [5, 5, 5]
    parts = shown.split("\n\n")[:-1]
    assert [part.partition("\n")[2] + "\n" for part in parts] == [once] * 3
    assert all(part.split()[0] in "Mon Tue Wed Thu Fri Sat Sun" for part in parts)
    pauses.clear()
    rows = run(monkeypatch, queue(), "root", f"{line} -h").stdout
    assert run(monkeypatch, queue(), "root", f"{line} -h --iterate=5").stdout == f"{rows}\n" * 3
