"""`scontrol show assoc_mgr`: what the controller tells, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.cli.control import assoc_mgr
from pyslurm_ng.cli.control.session import Session
from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.queries import associations
from pyslurm_ng.ctld.queries.associations import show_associations
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.slices import at_once
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.kernels.records import unpack
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.wire.messages import encode
from pyslurm_ng.wire.query_messages import AssociationsShown, ShowAssociations
from tests.ctld.followers.usage_runs import started
from tests.model.clusters import START_US, conf_of
from tests.sched.whole_nodes import WHOLE_NODES, job

ROOT = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)
ANN = Caller(uid=1001, gid=1001, user_name="ann")
BOB = Caller(uid=1002, gid=1002, user_name="bob")
GROUP = Limits(grp_jobs=9, grp_tres={"cpu": 30, "node": 4}, grp_tres_mins={"cpu": 1000})
LIMITED = Qos(2, "lim", priority=7, preempt_mode="cancel", limits=Limits(
    max_tres_per_user={"cpu": 8}, max_jobs=3, max_wall_min=60, max_tres_per_job={"cpu": 7, "mem": 0}
))  # fmt: skip


def shown(
    request: ShowAssociations, caller: Caller = ROOT, private: str = "", led: tuple[str, ...] = ()
) -> AssociationsShown:
    """Ask ten minutes after a job of two CPUs began; another one of the same account waits.

    With `led` bob coordinates accounts.
    """
    cluster, usage, _ = started(GROUP, LIMITED)
    apply(cluster, ev.AssocChanged(START_US, users=(UserRecord("ann", "physics"),)))
    if led:
        bob = UserRecord("bob", "physics", coordinator_of=led)
        apply(cluster, ev.AssocChanged(START_US, users=(bob,)))
    waiting = cluster.jobs[job(cluster, 2, 30)]
    waiting.assoc_id, waiting.qos, waiting.accrue_us = 2, "lim", START_US
    conf = conf_of(WHOLE_NODES + private)
    used, spent = usage.counted(START_US + 10 * MINUTE_US)
    soft = Soft(START_US)
    soft.fairshare = {2: 0.5}
    standing = FairShare(cluster, soft, usage, conf).standing(START_US + 10 * MINUTE_US)
    return at_once(show_associations(cluster, conf, request, caller, used, spent, standing))


def test_counts_what_runs_what_waits_and_what_was_used() -> None:
    """For the account above, too."""
    answer = shown(ShowAssociations())
    for row in answer.associations:
        assert (row.counted.jobs, row.counted.submitted, row.counted.accruing) == (1, 2, 1)
        assert (row.counted.tres["cpu"], row.counted.tres["node"]) == (2, 1)
        assert (row.counted.tres_s["cpu"], row.counted.wall_min) == (1200.0, 10.0)
        assert row.counted.run_min["cpu"] == 2 * 590
    (qos,) = answer.qos
    assert [counted.tres["cpu"] for counted in qos.users.values()] == [2]
    assert answer.associations[0].limits == {
        "grp_jobs": 9,
        "grp_tres": {"cpu": 30, "node": 4},
        "grp_tres_mins": {"cpu": 1000},
    }


@pytest.mark.parametrize(
    ("request_", "counts"),
    [
        (ShowAssociations(parts=["users"]), (1, 0, 0)),
        (ShowAssociations(users=["nobody"]), (0, 1, 1)),
        (ShowAssociations(accounts=["chem"], qos=["high"]), (1, 0, 0)),
        (ShowAssociations(accounts=["physics"], users=["ann"], parts=["assoc"]), (0, 2, 0)),
    ],
)
def test_filters_leave_the_accounts_above_a_user(
    request_: ShowAssociations, counts: tuple[int, int, int]
) -> None:
    """A filter of users is about users' own associations; each filter is about its own part."""
    answer = shown(request_)
    assert (len(answer.users), len(answer.associations), len(answer.qos)) == counts


def seen(word: str, led: tuple[str, ...] = (), caller: Caller = ANN) -> list[tuple[str, str]]:
    """Return account and user of what somebody sees with a word of PrivateData."""
    answer = shown(ShowAssociations(), caller, f"PrivateData={word}\n" if word else "", led)
    return [(row.account, row.user) for row in answer.associations]


def test_private_data_hides_others() -> None:
    """With PrivateData users see only their own; without it, everything."""
    assert len(seen("", caller=BOB)) == 2
    assert seen("usage") == [("physics", "ann")]
    assert seen("usage", caller=BOB) == seen("users", caller=BOB) == []


def test_private_users_see_the_accounts_above_them() -> None:
    """Else sshare shows no tree. PrivateData=usage hides the sums of others there, as in 22.05."""
    assert seen("users") == [("physics", ""), ("physics", "ann")]


@pytest.mark.parametrize("word", ["usage", "users"])
def test_coordinators_see_their_accounts(word: str) -> None:
    """Shares and usage of all users in them."""
    assert seen(word, ("physics",), BOB) == [("physics", ""), ("physics", "ann")]


def test_private_usage_hides_what_others_have_of_a_qos() -> None:
    """Their uids, and accounts that the caller does not coordinate."""
    private = "PrivateData=usage\n"
    (qos,) = shown(ShowAssociations(), BOB, private).qos
    assert (qos.users, qos.accounts) == ({}, {})
    (qos,) = shown(ShowAssociations(), BOB, private, ("acct",)).qos
    assert (list(qos.users), list(qos.accounts)) == ([], ["acct"])
    (qos,) = shown(ShowAssociations(), BOB).qos
    assert len(qos.users) == len(qos.accounts) == 1


class _Client:
    def __init__(self, **switches: bool) -> None:
        self.asked: dict[str, list[str]] = {}

    def call(self, kind: str, fields: dict[str, list[str]]) -> dict[str, object]:
        assert kind == "ShowAssociations"
        self.asked = fields
        answer = shown(ShowAssociations(**fields))
        return unpack(encode(answer))


def printed(words: str, capsys: pytest.CaptureFixture[str], *, oneliner: bool = False) -> str:
    """Return what scontrol prints."""
    session = Session({"oneliner": ""} if oneliner else {}, [])
    session._client = _Client()  # type: ignore[assignment]
    assert assoc_mgr.show_assoc_mgr(session, words.split()) == 0
    return capsys.readouterr().out


ASSOCIATION = """\
ClusterName=demo Account=physics UserName= Partition= Priority=0 ID=1
    SharesRaw/Norm/Level/Factor=1/0.00/1/0.00
    UsageRaw/Norm/Efctv=1200.00/1.00/1.00
    ParentAccount= Lineage= DefAssoc=No
    GrpJobs=9(1) GrpJobsAccrue=N(1)
    GrpSubmitJobs=N(2) GrpWall=N(10.00)
    GrpTRES=cpu=30(2),mem=N(0),energy=N(0),node=4(1),billing=N(2),fs/disk=N(0),vmem=N(0),pages=N(0)
    GrpTRESMins=cpu=1000(20),mem=N(0),energy=N(0),node=N(10),billing=N(20),fs/disk=N(0),vmem=N(0),pages=N(0)
    GrpTRESRunMins=cpu=N(1180),mem=N(0),energy=N(0),node=N(590),billing=N(1180),fs/disk=N(0),vmem=N(0),pages=N(0)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    MaxTRESPJ=
    MaxTRESPN=
    MaxTRESMinsPJ=
    MinPrioThresh=
    Comment=(null)
"""


def test_associations_are_printed_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """LIMIT(USED) of each TRES, N where there is no limit."""
    text = printed("flags=assoc", capsys)
    head = "Current Association Manager state\n\nAssociation Records\n\n"
    assert text.startswith(head + ASSOCIATION)
    assert "SharesRaw/Norm/Level/Factor=1/1.00/1/0.50" in text.removeprefix(head + ASSOCIATION)


def test_a_qos_tells_what_each_user_has_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Below its own limits, by account and by uid."""
    lines = printed("qos=lim flags=qos", capsys).splitlines()
    assert lines[4] == "QOS=lim(2)"
    assert "    MaxWallPJ=60" in lines
    assert "    MaxTRESPJ=cpu=7,mem=0M" in lines
    assert lines[-10:-7] == ["    PreemptMode=CANCEL", "    Priority=7", "    Account Limits"]
    assert lines[-4] == "    User Limits"
    assert lines[-2] == "        MaxJobsPU=3(1) MaxJobsAccruePU=N(1) MaxSubmitJobsPU=N(2)"
    assert lines[-1].startswith("        MaxTRESPU=cpu=8(2),mem=N(0),")


def test_a_line_for_each_record(capsys: pytest.CaptureFixture[str]) -> None:
    """-o puts what is indented into the line before, and parts of a QOS into braces."""
    lines = printed("", capsys, oneliner=True).splitlines()
    assert [line.partition("=")[0] for line in lines] == [
        "Current Association Manager state", "User Records", "UserName", "Association Records",
        "ClusterName", "ClusterName", "QOS Records", "QOS",
    ]  # fmt: skip
    assert " User Limits= " in lines[-1] and "={MaxJobsPU=3(1) " in lines[-1]


def test_an_empty_answer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """For each part, as in Slurm."""
    text = printed("users=nobody accounts=chem qos=no", capsys)
    assert [line for line in text.splitlines() if line.startswith("No ")] == [
        "No users currently cached in Slurm.",
        "No associations currently cached in Slurm.",
        "No QOS currently cached in Slurm.",
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("flags=frob", "invalid flag 'frob', valid options are 'Assoc, QOS, and/or Users'\n"),
        ("foo=bar", "invalid entity: foo=bar for keyword:show assoc_mgr\n"),
    ],
)
def test_bad_words(words: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and 1."""
    session = Session({}, [])
    with pytest.raises(SystemExit) as end:
        assoc_mgr.show_assoc_mgr(session, words.split())
    assert end.value.code == 1
    assert capsys.readouterr().err == text


def test_a_long_answer_is_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 46: messages of others go between; associations may come and go meanwhile."""
    monkeypatch.setattr(associations, "SLICE", 2)
    cluster, usage, _ = started(GROUP, LIMITED)
    conf = conf_of(WHOLE_NODES)
    more = tuple(
        Association(number, "physics", f"u{number}", parent_id=1) for number in range(9, 19)
    )
    apply(cluster, ev.AssocChanged(START_US, changed=more))
    used, spent = usage.counted(START_US)
    standing = FairShare(cluster, Soft(START_US), usage, conf).standing(START_US)
    work = show_associations(cluster, conf, ShowAssociations(), ROOT, used, spent, standing)
    next(work)
    late = Association(30, "physics", "late", parent_id=1)
    apply(cluster, ev.AssocChanged(START_US, changed=(late,), removed=(18,)))
    answers: list[AssociationsShown] = []

    def rest() -> Iterator[None]:
        answers.append((yield from work))

    assert len([*rest()]) >= len(more) / 2
    users = [row.user for row in answers[0].associations]
    assert {f"u{number}" for number in range(9, 18)} < {*users}
    assert not {"u18", "late"} & {*users}
