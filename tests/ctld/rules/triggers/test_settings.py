"""strigger --set and --clear: who may have which triggers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.triggers import settings
from pyslurm_ng.model.trigger import TRIGGER_EVENTS
from pyslurm_ng.wire.messages import MessageError, decode_request
from pyslurm_ng.wire.trigger_messages import ClearTriggers, EventName, SetTrigger
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

OPEN = "SlurmUser=root\nSlurmctldParameters=allow_user_triggers\n"
SLURM = Caller(uid=64030, gid=64030, user_name="slurm", is_admin=True, is_operator=True)


class Asked(Site):
    """A site that triggers are set at; refusals are error numbers."""

    def __init__(self, more: str = "SlurmUser=root\n") -> None:
        super().__init__(more)

    def set(self, who: Caller = ROOT, **fields: Any) -> int:
        plain: dict[str, Any] = {"events": ["down"], "program": "/bin/tell", **fields}
        return self._decide(settings.set_trigger, SetTrigger(bytes(16), **plain), who)

    def clear(self, who: Caller = ROOT, **fields: Any) -> int:
        return self._decide(settings.clear_triggers, ClearTriggers(bytes(16), **fields), who)

    def _decide(self, rule: Any, request: msgspec.Struct, who: Caller) -> int:
        outcome = rule(self.cluster, request, self.context(who))
        if isinstance(outcome, Reject):
            return outcome.code
        assert isinstance(outcome, Decision)
        self.apply(outcome.events)
        return 0


def test_a_trigger_is_kept_as_it_was_set() -> None:
    """Numbers count up; the nodes stay as typed."""
    site = Asked()
    assert site.set(events=["up", "down"], nodes="n[2-3],n1", offset_s=-60, is_permanent=True) == 0
    trigger = site.cluster.triggers[1]
    assert (trigger.events, trigger.nodes, trigger.offset_s) == (("down", "up"), "n[2-3],n1", -60)
    assert (trigger.uid, trigger.user_name, trigger.is_permanent) == (0, "root", True)
    assert site.set() == 0
    assert list(site.cluster.triggers) == [1, 2]


def test_the_same_trigger_is_not_set_twice() -> None:
    """Any part that differs makes it another one."""
    site = Asked()
    assert site.set() == 0
    assert site.set() == Errno.ESLURM_TRIGGER_DUP
    for other in ({"offset_s": 5}, {"is_permanent": True}, {"nodes": "n1"}, {"program": "/b"}):
        assert site.set(**other) == 0


@pytest.mark.parametrize(
    ("conf", "who", "code"),
    [
        ("SlurmUser=root\n", ROOT, 0),
        ("SlurmUser=root\n", ALICE, Errno.ESLURM_ACCESS_DENIED),
        (OPEN, ALICE, 0),
        ("SlurmUser=slurm\n", SLURM, 0),
        # slurmctld cannot become root, nor anybody else.
        ("SlurmUser=slurm\n", ROOT, Errno.ESLURM_ACCESS_DENIED),
        (OPEN.replace("=root", "=slurm"), ALICE, Errno.ESLURM_ACCESS_DENIED),
        ("SlurmUser=root\nSlurmctldParameters=disable_triggers\n", ROOT, Errno.ESLURM_DISABLED),
    ],
)
def test_who_may_set(conf: str, who: Caller, code: int) -> None:
    """SlurmUser; with allow_user_triggers all, where slurmctld can become them."""
    assert Asked(conf).set(who) == code


def test_a_trigger_of_a_job_is_for_those_who_may_change_it() -> None:
    """Its end is not everybody's business. A job that is over has no triggers."""
    site = Asked(OPEN)
    job = site.running()
    assert site.set(BOB, events=["fini"], job=str(job.job_id)) == Errno.ESLURM_ACCESS_DENIED
    assert site.set(ALICE, events=["fini"], job=str(job.job_id), nodes="nope") == 0
    assert site.cluster.triggers[1].job_id == job.job_id
    site.ended(job, 0)
    assert site.set(ALICE, events=["fini"], job="1") == Errno.ESLURM_ALREADY_DONE
    for name in ("999", "x", "1_7"):
        assert site.set(ALICE, events=["fini"], job=name) == Errno.ESLURM_INVALID_JOB_ID
    assert site.set(ALICE, events=["time"]) == Errno.ESLURM_INVALID_JOB_ID


def test_waiting_tasks_of_an_array_are_refused() -> None:
    """They have no record of their own yet."""
    site = Asked()
    array = site.job(array="0-3")
    code = site.set(events=["fini"], job=f"{array.job_id}_2")
    assert code == Errno.ESLURM_NOT_SUPPORTED


@pytest.mark.parametrize("nodes", ["n9", "n[", "ALL", "n1,nope"])
def test_unknown_nodes_are_refused(nodes: str) -> None:
    """With Slurm's number."""
    assert Asked().set(nodes=nodes) == Errno.ESLURM_INVALID_NODE_NAME


@pytest.mark.parametrize("program", ["", "relative", "/bin/a\0b", "/bin/a\nb"])
def test_only_paths_are_programs(program: str) -> None:
    """The command says so first; a hostile one may send anything."""
    assert Asked().set(program=program) == Errno.ESLURM_NOT_SUPPORTED


def test_triggers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one user, and of all together."""
    monkeypatch.setattr(settings, "MOST_OF_A_USER", 2)
    monkeypatch.setattr(settings, "MOST", 3)
    site = Asked(OPEN)
    assert [site.set(ALICE, offset_s=number) for number in range(3)] == [
        0, 0, Errno.ESLURM_ACCOUNTING_POLICY,
    ]  # fmt: skip
    assert [site.set(BOB, offset_s=number) for number in range(2)] == [
        0, Errno.ESLURM_ACCOUNTING_POLICY,
    ]  # fmt: skip


def test_clearing() -> None:
    """By number, job and user together; others' triggers only by root."""
    site = Asked(OPEN)
    job = site.running()
    assert site.set(ALICE) == 0
    assert site.set(ALICE, events=["fini"], job=str(job.job_id)) == 0
    assert site.set(BOB) == 0
    assert site.clear(trigger_id=9) == Errno.ESRCH
    assert site.clear(job_id=job.job_id, uid=BOB.uid) == Errno.ESRCH
    assert site.clear(ALICE, trigger_id=3) == Errno.ESLURM_ACCESS_DENIED
    assert site.clear(ALICE, job_id=job.job_id) == 0
    assert site.clear(ALICE, uid=ALICE.uid) == 0
    assert list(site.cluster.triggers) == [3]
    assert site.clear(ROOT, uid=BOB.uid) == 0
    assert not site.cluster.triggers


@pytest.mark.parametrize(
    "fields",
    [
        {"program": "/" + "x" * 4096},
        {"events": []},
        {"events": ["primary_database_failure"]},
        {"offset_s": 32001},
        {"nodes": "n" * 131_073},
    ],
)
def test_fields_are_bounded(fields: dict[str, Any]) -> None:
    """Nothing else reaches the rule."""
    whole = {"request_id": bytes(16), "events": ["down"], "program": "/bin/tell", **fields}
    with pytest.raises(MessageError):
        decode_request("SetTrigger", msgspec.msgpack.encode(whole))


def test_the_message_knows_every_event() -> None:
    """The list of the message is the model's."""
    assert EventName.__args__ == TRIGGER_EVENTS  # type: ignore[attr-defined]


def test_a_users_triggers_name_a_bounded_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name costs time at every event; triggers of all nodes share that, idle ones do not."""
    monkeypatch.setattr(settings, "MOST_NODES_OF_A_USER", 6)
    site = Asked(OPEN)
    nodes = len(site.cluster.nodes)
    assert nodes == 4
    assert [site.set(ALICE, program=f"/a{number}") for number in range(9)] == [0] * 9
    assert site.set(ALICE, nodes="n[1-4]") == 0
    assert site.set(ALICE, nodes="n[1-3]") == Errno.ESLURM_ACCOUNTING_POLICY
    assert site.set(ALICE, events=["idle"]) == Errno.ESLURM_ACCOUNTING_POLICY
    assert site.set(ALICE, nodes="n[1-2]") == 0
    assert site.set(BOB, nodes="n[1-4]") == 0
    assert [site.set(ROOT, nodes="n[1-4]", offset_s=count) for count in range(3)] == [0] * 3
    assert site.clear(ALICE, uid=ALICE.uid) == 0
    assert site.set(ALICE, nodes="n[1-3]") == 0
