"""sacctmgr list instance: which instances of a cloud nodes were."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import DeniedError, RefusedError
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.node import NodeFacts, NodeSpec
from pyslurm_ng.model.states import NodeState
from tests.dbd.accounting_room import at, configured, listed, record, register, rows

pytestmark = pytest.mark.usefixtures("in_utc")


def update(clock: str, *numbers: int, **fields: object) -> ev.NodeUpdated:
    """Return what `scontrol update node` writes of nodes n1 to n4."""
    return ev.NodeUpdated(at(clock), tuple(number - 1 for number in numbers), fields)


def registered(clock: str, number: int, instance_id: str, kind: str = "") -> ev.NodeRegistered:
    facts = NodeFacts(instance_id=instance_id, instance_type=kind)
    return ev.NodeRegistered(at(clock), number - 1, facts, NodeState.IDLE)


def kept(database: Database) -> list[tuple[object, ...]]:
    """Return name, begin and end in minutes since noon, and what tells instances apart."""
    noon = at("12:00:00")
    columns = ("node_name", "start_us", "end_us", "instance_id", "instance_type", "extra")
    return [
        (name, (start - noon) // 60_000_000, (end - noon) // 60_000_000 if end else None, *said)  # type: ignore[operator]
        for name, start, end, *said in rows(database, schema.node_instances, *columns)
    ]


def test_each_time_as_one_instance_is_a_row(store: Database) -> None:
    """What slurmd or an administrator says; saying it again changes nothing."""
    record(store, registered("12:01:00", 1, ""), registered("12:01:00", 2, "i-2", "small"))
    record(store, update("12:05:00", 1, 2, comment="not of the instance"))
    record(
        store, registered("12:06:00", 2, "i-2", "small"), update("12:07:00", 2, instance_id="i-2")
    )
    assert kept(store) == [("n2", 1, None, "i-2", "small", "")]
    record(store, update("12:10:00", 1, 2, extra="a,b"), update("12:10:00", 1, instance_id="i-1"))
    assert kept(store) == [
        ("n1", 10, None, "i-1", "", "a,b"),
        ("n2", 1, 10, "i-2", "small", ""),
        ("n2", 10, None, "i-2", "small", "a,b"),
    ]
    record(store, update("12:20:00", 1, instance_id="", extra=""))
    assert kept(store)[0] == ("n1", 10, 20, "i-1", "", "a,b")
    assert len(kept(store)) == 3


def test_nodes_that_are_gone_are_no_instances(store: Database) -> None:
    """Neither are those of a controller that has lost its state."""
    record(store, update("12:10:00", 1, 2, instance_type="big"))
    others = tuple(NodeSpec(f"n{number}", 16) for number in (2, 3))
    record(store, ev.ConfigLoaded(at("12:20:00"), "demo", others, configured(0).partitions))
    assert [row[:3] for row in kept(store)] == [("n1", 10, 20), ("n2", 10, None)]
    register(store, "another journal")
    assert [row[2] is None for row in kept(store)] == [False, False]


def test_they_are_listed_by_time_and_name(store: Database) -> None:
    """Conditions choose among them; users may not ask with PrivateData=events."""
    record(store, update("12:10:00", 1, 2, instance_id="i-1", instance_type="big"))
    record(store, update("12:20:00", 2, instance_id="i-2", extra="a,b"))
    day = "start=2026-11-20T12:00 end=2026-11-20T13:00"

    def names(words: str) -> list[tuple[object, object]]:
        instances = listed(store, "instance", f"{day} {words}")
        return [(row["NodeNames"], row["InstanceId"]) for row in instances]

    assert names("") == [("n1", "i-1"), ("n2", "i-1"), ("n2", "i-2")]
    assert names("nodes=n[2-4]") == [("n2", "i-1"), ("n2", "i-2")]
    assert names("instanceid=i-2,i-3") == names("extra=a,b") == [("n2", "i-2")]
    assert names("instancetype=small") == []
    assert len(names("end=2026-11-20T12:15")) == 2
    present = [(row["NodeNames"], row["InstanceId"]) for row in listed(store, "instance")]
    assert present == [("n1", "i-1"), ("n2", "i-2")]  # of the last day
    with pytest.raises(RefusedError, match="Nodes=n"):
        names("nodes=n[2")
    with pytest.raises(RefusedError, match="65536"):
        names("nodes=n[1-999999]")  # a second of everybody's time, and a hundred megabytes
    with pytest.raises(DeniedError):
        listed(store, "instance", day, uid=7, user="eve", private=frozenset({"events"}))
