"""MCS labels: who may have which, and that jobs of different labels never share a node.

--mcs-label and --exclusive=mcs of the commands are the label and the flag of a request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_MCS
from pyslurm_ng.ctld.queries.nodes import show_nodes, show_partitions
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.query_messages import ShowNodes, ShowPartitions, UpdateJob
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

GROUPED = msgspec.structs.replace(ALICE, groups=("chem", "bio", "users"))


def site(plugin: str, parameters: str = "") -> Site:
    more = f"MCSParameters={parameters}\n" if parameters else ""
    return Site(f"MCSPlugin=mcs/{plugin}\n{more}")


def label(where: Site, who: Any = ALICE, **request: Any) -> Any:
    """Return a new job's label and whether it keeps others off its nodes, or the refusal."""
    job = where.submit(who, **request)
    if not isinstance(job, Job):
        return job
    return job.request.mcs_label, bool(job.request.flags & REQ_EXCLUSIVE_MCS)


INVALID = Errno.ESLURM_INVALID_MCS_LABEL


@pytest.mark.parametrize(
    ("plugin", "parameters", "own", "foreign"),
    [
        ("user", "", "alice", "bob"),
        ("group", "chem|bio", "chem", "secret"),
        ("group", "ondemand:bio|chem", "bio", "users"),
        ("label", "", "anything", "two,words"),
    ],
)
def test_a_label_must_be_the_users_own(
    plugin: str, parameters: str, own: str, foreign: str
) -> None:
    """The plugin says what it may be; without a request, ondemand gives none."""
    where = site(plugin, parameters)
    assert label(where, GROUPED, mcs_label=own) == (own, False)
    assert label(where, GROUPED, mcs_label=foreign) == INVALID
    assert label(where, GROUPED) == ("", False)


def test_a_label_may_be_the_account() -> None:
    """Only that of the job."""
    where = site("account", "enforced")
    where.account()
    account = where.job().account
    assert account
    assert label(where) == (account, False)
    assert label(where, mcs_label=account) == (account, False)
    assert label(where, mcs_label="elsewhere") == INVALID


@pytest.mark.parametrize(
    ("plugin", "parameters", "expected"),
    [
        ("user", "enforced", ("alice", False)),
        ("user", "enforced,select", ("alice", True)),
        ("group", "enforced:bio|chem", ("bio", False)),
        ("group", "enforced:other", INVALID),
        ("label", "enforced", INVALID),
        ("user", "select", ("", True)),
    ],
)
def test_enforced_labels(plugin: str, parameters: str, expected: Any) -> None:
    """Each job gets one, or is refused where there is none for it; select keeps others away."""
    assert label(site(plugin, parameters), GROUPED) == expected


def test_exclusive_mcs() -> None:
    """It asks for a label, and for nodes that only jobs of this label share (ondemandselect)."""
    assert label(site("user", "ondemandselect"), flags=REQ_EXCLUSIVE_MCS) == ("alice", True)
    assert label(site("user"), flags=REQ_EXCLUSIVE_MCS) == ("alice", True)
    assert label(site("user", "noselect"), flags=REQ_EXCLUSIVE_MCS) == ("alice", False)
    assert label(Site(), flags=REQ_EXCLUSIVE_MCS) == INVALID
    assert label(Site(), mcs_label="x") == INVALID


def test_different_labels_never_share_a_node() -> None:
    """Jobs of one label are packed, those of another go elsewhere, and so do jobs without."""
    where = site("label", "select")
    jobs = [where.job(ntasks=1, mcs_label=word) for word in ("red", "red", "blue", "", "blue")]
    where.run_pass()
    at = [{alloc.node_id for alloc in job.nodes} for job in jobs]
    assert all(job.state == JobState.RUNNING for job in jobs)
    assert at[0] == at[1] and at[2] == at[4]
    assert at[0].isdisjoint(at[2]) and at[3].isdisjoint(at[0] | at[2])
    other = where.job(ntasks=1, mcs_label="green")
    last = where.job(ntasks=1, mcs_label="black")
    where.run_pass()
    assert other.state == JobState.RUNNING
    assert last.state == JobState.PENDING


def listed(where: Site, who: Any) -> list[Any]:
    """Return the nodes that scontrol, and sinfo, show to a user."""
    now_us = where.now_us
    shown: Any = show_nodes(where.cluster, where.soft, where.conf, ShowNodes(), who, now_us)
    with_nodes = ShowPartitions(with_nodes=True)
    other: Any = show_partitions(where.cluster, where.soft, where.conf, with_nodes, who, now_us)
    rows = project(shown.records, [0])
    assert project(other.more_records, [0]) == rows
    return rows


def test_privatedata() -> None:
    """Users see jobs of labels that they may have, and those without; operators see all."""
    where = site("user", "privatedata")
    mine, plain = where.job(mcs_label="alice"), where.job()

    def sees(who: Any, job: Job) -> bool:
        audience = Audience(where.cluster, where.conf, who, show_all=False)
        return audience.sees_job(job)

    assert sees(ALICE, mine) and sees(ROOT, mine) and not sees(BOB, mine)
    assert sees(BOB, plain)
    kept = site("user", "privatedata,select")
    kept.running(mcs_label="alice")
    assert [len(listed(kept, who)) for who in (ALICE, BOB, ROOT)] == [4, 3, 4]
    where.conf = replace(where.conf, mcs_parameters="")
    assert sees(BOB, mine)


def test_scontrol_gives_no_foreign_label() -> None:
    """Nor any to a job that has its nodes already."""
    where = site("user")
    running, waiting = where.running(), where.job()

    def changed(job: Job, word: str) -> int:
        request = UpdateJob(bytes(16), {"mcslabel": word}, [str(job.job_id)])
        outcome: Any = update_job(where.cluster, request, where.context(ROOT))
        where.apply(outcome.events)
        errors = outcome.reply.errors
        return int(errors[0][1]) if errors else 0

    assert changed(waiting, "bob") == INVALID
    assert changed(waiting, "alice") == 0
    assert waiting.request.mcs_label == "alice"
    assert changed(running, "alice") == Errno.ESLURM_JOB_NOT_PENDING
