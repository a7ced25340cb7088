"""What each event of nodes, configuration, reservations, accounting and control changes."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, OwnerUsage, Qos, UserRecord
from pyslurm_ng.model.crontab import CronEntry, Crontab
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.license_server import ServerUse
from pyslurm_ng.model.node import DownNode, Node, NodeFacts, NodeGres, NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, NodeFlag, NodeState
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.model.trigger import Trigger
from tests.model.events.effect import (
    CONFIGURED,
    GONE,
    MAIN,
    NODES,
    OTHER,
    RUNNING,
    SITE,
    WAITING,
    Case,
    allocated,
    at,
    part,
    submitted,
)

COMPLETING = (
    *RUNNING,
    ev.JobCompleting(at(40), 1, JobState.CANCELLED, 0, 0, 2, (0, 1)),
)
DRAINED = (*SITE, ev.NodeUpdated(at(5), (0,), {"flags": NodeFlag.DRAIN, "reason": "fan",
                                               "reason_us": at(5), "reason_uid": 7}))  # fmt: skip
DOWN = (*SITE, ev.NodesDown(at(5), (0, 1), "Not responding", for_silence=True))
POWER_ASKED = NodeFlag.POWER_DOWN | NodeFlag.POWER_DRAIN | NodeFlag.DRAIN
FROM_SCONTROL = int(NodeFlag.DYNAMIC_NORM)
FACTS = NodeFacts(cpus=4, real_memory_mib=1000, gres=(NodeGres("gpu", "", 1),))
TREE = Topology("net", "tree", is_default=True)
WEEKEND = Reservation("weekend", at(100), at(200), (0,), reservation_id=3)
RESERVED = (*SITE, ev.ReservationCreated(at(5), WEEKEND))
ROOT, PHYSICS = Association(1, "root"), Association(2, "physics", parent_id=1)
ALICE = UserRecord("alice", "physics")
ACCOUNTS = (
    *SITE,
    ev.AssocChanged(at(5), (ROOT, PHYSICS), users=(ALICE,), version=4),
    ev.QosChanged(at(5), (Qos(1, "normal"), Qos(2, "late"))),
)
USED = (
    *ACCOUNTS,
    ev.UsageKept(at(60), at(50), (OwnerUsage("assoc", 2, at(50), 30),
                                  OwnerUsage("qos", "late", at(50), 9))),
)  # fmt: skip

DOWN_TRIGGER = Trigger(7, 0, 0, "root", "/bin/tell", ("down",), offset_s=60)
LASTING = replace(DOWN_TRIGGER, trigger_id=8, is_permanent=True)
TRIGGERS = (*SITE, ev.TriggerSet(at(5), DOWN_TRIGGER), ev.TriggerSet(at(5), LASTING))
PULLED = (*TRIGGERS, ev.TriggerPulled(at(6), 7, at(66), "n1"),
          ev.TriggerPulled(at(6), 8, at(66), "n1"))  # fmt: skip

NODE_CASES = [
    Case(
        "a node that registers is in service, with what was found there",
        (CONFIGURED,),
        ev.NodeRegistered(
            at(5), 1, FACTS, NodeState.IDLE, NodeFlag.DRAIN, "Low memory", "10.0.0.2"
        ),
        {
            "nodes.n2.state": NodeState.IDLE,
            "nodes.n2.flags": NodeFlag.DRAIN,
            "nodes.n2.reason": "Low memory",
            "nodes.n2.reason_us": at(5),
            "nodes.n2.facts": FACTS,
            "nodes.n2.registered_us": at(5),
            "nodes.n2.last_busy_us": at(5),
        },
    ),
    Case(
        "a node that registers again keeps since when and why it is drained",
        DRAINED,
        ev.NodeRegistered(at(9), 0, NodeFacts(), NodeState.IDLE, NodeFlag.DRAIN, "fan"),
        {"nodes.n1.registered_us": at(9)},
    ),
    Case(
        "nodes are drained together",
        SITE,
        ev.NodeUpdated(at(5), (0, 1), {"flags": NodeFlag.DRAIN, "weight": 9, "features": ["a"]}),
        {
            "nodes.n1.flags": NodeFlag.DRAIN,
            "nodes.n1.weight": 9,
            "nodes.n1.features": ("a",),
            "nodes.n2.flags": NodeFlag.DRAIN,
            "nodes.n2.weight": 9,
            "nodes.n2.features": ("a",),
        },
    ),
    Case(
        "a node that goes down owes nothing, and what cleaned up there is clean",
        COMPLETING,
        ev.NodesDown(at(45), (1,), "Not responding", 0, for_silence=True),
        {
            "nodes.n2.state": NodeState.DOWN,
            "nodes.n2.reason": "Not responding",
            "nodes.n2.reason_us": at(45),
            "nodes.n2.down_for_silence": True,
            "nodes.n2.last_busy_us": at(45),
            "jobs.1.nodes_pending": (0,),
            "duties.3": GONE,
            "used.n2.cpus": 0,
            "used.n2.mem_mib": 0,
        },
    ),
    Case(
        "jobs that still run on a node that goes down have events of their own",
        RUNNING,
        ev.NodesDown(at(45), (1,), "burnt", 7),
        {
            "nodes.n2.state": NodeState.DOWN,
            "nodes.n2.reason": "burnt",
            "nodes.n2.reason_us": at(45),
            "nodes.n2.reason_uid": 7,
        },
    ),
    Case(
        "a node that is to boot owes that",
        (
            CONFIGURED,
            ev.NodeUpdated(at(4), (1,), {"flags": int(NodeFlag.REBOOT_REQUESTED)}),
            ev.NodesDown(at(5), (1,), "new kernel : reboot issued"),
        ),
        ev.NodeRebootIssued(at(5), 1, 1, at(65)),
        {
            "nodes.n2.flags": int(NodeFlag.REBOOT_ISSUED),
            "nodes.n2.reboot_by_us": at(65),
            "duties.1": Duty(1, DutyKind.REBOOT, 1, 0, 0, at(5)),
            "next_duty_id": 2,
        },
    ),
    Case(
        "new nodes have new numbers, and the flags of their origin",
        SITE,
        ev.NodesCreated(at(5), 2, (NodeSpec("d1", state="FUTURE"),), FROM_SCONTROL),
        {
            "nodes.d1": Node(2, NodeSpec("d1", state="FUTURE"), NodeState.FUTURE, FROM_SCONTROL),
            "used.d1.cpus": 0,
            "used.d1.mem_mib": 0,
        },
    ),
    Case(
        "a node that is deleted is gone; its number is not given again",
        (*SITE, ev.NodesCreated(at(5), 2, (NodeSpec("d1"),), FROM_SCONTROL)),
        ev.NodesDeleted(at(6), (2,)),
        {"nodes.d1": GONE, "used.d1.cpus": GONE, "used.d1.mem_mib": GONE},
    ),
    Case(
        "a node that is powered down is so later, and no longer drained for it",
        (
            *SITE,
            ev.NodeUpdated(at(4), (1,), {"flags": int(POWER_ASKED)}),
        ),
        ev.NodesPowered(at(5), (1,), int(NodeFlag.POWERING_DOWN)),
        {"nodes.n2.flags": int(NodeFlag.POWERING_DOWN), "nodes.n2.power_us": at(5)},
    ),
    Case(
        "a node that is told to boot before a job owes that",
        SITE,
        ev.NodesPowered(at(5), (1,), int(NodeFlag.POWERING_UP), 1),
        {
            "nodes.n2.flags": int(NodeFlag.POWERING_UP),
            "nodes.n2.power_us": at(5),
            "duties.1": Duty(1, DutyKind.REBOOT, 1, 0, 0, at(5)),
            "next_duty_id": 2,
        },
    ),
    Case(
        "a lost node that is powered down may be idle then",
        DOWN,
        ev.NodesPowered(at(9), (0,), int(NodeFlag.POWERED_DOWN), failed=True, to_idle=True),
        {
            "nodes.n1.flags": int(NodeFlag.POWERED_DOWN),
            "nodes.n1.state": NodeState.IDLE,
            "nodes.n1.reason": "",
            "nodes.n1.reason_us": 0,
            "nodes.n1.down_for_silence": False,
        },
    ),
    Case(
        "a node that returns has no reason left",
        DOWN,
        ev.NodesReturned(at(9), (0,)),
        {
            "nodes.n1.state": NodeState.IDLE,
            "nodes.n1.reason": "",
            "nodes.n1.reason_us": 0,
            "nodes.n1.down_for_silence": False,
            "nodes.n1.last_busy_us": at(9),
        },
    ),
    Case(
        "a drained node that returns is still drained, and says why",
        (*DRAINED, ev.NodesSilent(at(6), (0,), True)),
        ev.NodesReturned(at(9), (0,)),
        {"nodes.n1.flags": NodeFlag.DRAIN, "nodes.n1.last_busy_us": at(9)},
    ),
    Case(
        "a node that misses a heartbeat is marked",
        DRAINED,
        ev.NodesSilent(at(6), (0,), True),
        {"nodes.n1.flags": NodeFlag.DRAIN | NodeFlag.NOT_RESPONDING},
    ),
    Case(
        "a node that answers again is not",
        (*DRAINED, ev.NodesSilent(at(6), (0, 1), True)),
        ev.NodesSilent(at(7), (0,), False),
        {"nodes.n1.flags": NodeFlag.DRAIN},
    ),
    Case(
        "a node that has cleaned up is free; what it never owed changes nothing",
        COMPLETING,
        ev.DutiesDone(at(41), ((1, 3), (0, 99))),
        {
            "duties.3": GONE,
            "jobs.1.nodes_pending": (0,),
            "nodes.n2.last_busy_us": at(41),
            "used.n2.cpus": 0,
            "used.n2.mem_mib": 0,
        },
    ),
    Case(
        "a node that a job has given up is free once it is clean",
        (*RUNNING, ev.JobResized(at(30), 1, (part(0),), 2)),
        ev.DutiesDone(at(31), ((1, 2),)),
        {
            "duties.2": GONE,
            "jobs.1.nodes_leaving": (),
            "nodes.n2.last_busy_us": at(31),
            "used.n2.cpus": 0,
            "used.n2.mem_mib": 0,
        },
    ),
    Case(
        "an order that no longer makes sense is dropped, and nothing with it",
        (*WAITING, allocated()),
        ev.DutiesDropped(at(25), ((0, 1), (1, 99))),
        {"duties.1": GONE},
    ),
]

CONFIGURATION_CASES = [
    Case(
        "nodes and partitions are those of slurm.conf; those known keep what they are",
        DRAINED,
        ev.ConfigLoaded(
            at(9),
            "new",
            (replace(NODES[0], weight=5, features=("fast",)), NodeSpec("n3")),
            (replace(MAIN, node_ids=(0, 2)),),
            (DownNode(("n3",), "DOWN", "late"),),
            (("matlab", 2), ("ansys", 1)),
            "hash",
            100,
            200,
            (TREE,),
            programs=3,
        ),
        {
            "topologies": (TREE,),
            "cluster_name": "new",
            "conf_hash": "hash",
            "next_job_id": 100,
            "first_job_id": 100,
            "max_job_id": 200,
            "programs": 3,
            "nodes.n1.spec": replace(NODES[0], weight=5, features=("fast",)),
            "nodes.n1.weight": 5,
            "nodes.n1.features": ("fast",),
            "nodes.n1.features_active": ("fast",),
            "nodes.n2": GONE,
            "used.n2.cpus": GONE,
            "used.n2.mem_mib": GONE,
            "nodes.n3": Node(2, NodeSpec("n3"), NodeState.DOWN, reason="late", reason_us=at(9)),
            "used.n3.cpus": 0,
            "used.n3.mem_mib": 0,
            "partitions.main.node_ids": (0, 2),
            "partitions.other": GONE,
            "licenses.matlab": 2,
            "licenses.ansys": 1,
        },
    ),
    Case(
        "a partition that becomes the default takes it from the one before",
        SITE,
        ev.PartitionUpdated(at(5), replace(OTHER, is_default=True, state="DRAIN")),
        {
            "partitions.main.is_default": False,
            "partitions.other.is_default": True,
            "partitions.other.state": "DRAIN",
        },
    ),
    Case(
        "a partition is new",
        SITE,
        ev.PartitionUpdated(at(5), Partition("debug", (1,))),
        {"partitions.debug": Partition("debug", (1,))},
    ),
    Case(
        "a partition is deleted",
        SITE,
        ev.PartitionDeleted(at(5), "other"),
        {"partitions.other": GONE},
    ),
    Case(
        "licences are replaced, with what servers say of theirs",
        SITE,
        ev.LicensesUpdated(at(5), (("ansys@flex", 7),), (ServerUse("ansys@flex", 3, 1, at(5)),)),
        {
            "licenses.matlab": GONE,
            "licenses.ansys@flex": 7,
            "license_servers.ansys@flex": ServerUse("ansys@flex", 3, 1, at(5)),
        },
    ),
    Case(
        "a reservation is made",
        SITE,
        ev.ReservationCreated(at(5), WEEKEND),
        {"last_reservation_id": 3, "reservations.weekend": WEEKEND},
    ),
    Case(
        "a reservation is changed",
        RESERVED,
        ev.ReservationUpdated(at(6), replace(WEEKEND, end_us=at(300), is_active=True)),
        {"reservations.weekend.end_us": at(300), "reservations.weekend.is_active": True},
    ),
    Case(
        "a reservation is over; its number is not given again",
        RESERVED,
        ev.ReservationDeleted(at(201), "weekend"),
        {"reservations.weekend": GONE},
    ),
]

ACCOUNTING_CASES = [
    Case(
        "associations and users come and go",
        ACCOUNTS,
        ev.AssocChanged(
            at(6),
            (Association(3, "physics", "bob", parent_id=2),),
            (2,),
            (UserRecord("bob"),),
            ("alice",),
            5,
        ),
        {
            "assoc_version": 5,
            "assocs.2": GONE,
            "assocs.3": Association(3, "physics", "bob", parent_id=2),
            "users.alice": GONE,
            "users.bob": UserRecord("bob"),
        },
    ),
    Case(
        "a full snapshot leaves nothing that it does not name, but for the version",
        ACCOUNTS,
        ev.AssocChanged(at(6), (replace(ROOT, shares=2),), replace=True),
        {"assocs.1.shares": 2, "assocs.2": GONE, "users.alice": GONE},
    ),
    Case(
        "a QOS is changed and another removed",
        ACCOUNTS,
        ev.QosChanged(at(6), (Qos(1, "normal", priority=7),), ("late",)),
        {"qos.normal.priority": 7, "qos.late": GONE},
    ),
    Case(
        "all QOS are replaced",
        ACCOUNTS,
        ev.QosChanged(at(6), (Qos(3, "high"),), replace=True),
        {"qos.normal": GONE, "qos.late": GONE, "qos.high": Qos(3, "high")},
    ),
    Case(
        "usage begins again at zero for those named",
        USED,
        ev.UsageReset(at(70), (2,), ("normal",)),
        {
            "usage.assoc.2.at_us": at(70),
            "usage.assoc.2.wall_s": 0,
            "usage.assoc.2.since_us": at(70),
            "usage.qos.normal": OwnerUsage("qos", "normal", at(70), since_us=at(70)),
        },
    ),
    Case(
        "usage begins again at zero for all",
        USED,
        ev.UsageReset(at(70), (), is_all=True),
        {"usage_since_us": at(70), "usage.assoc.2": GONE, "usage.qos.late": GONE},
    ),
    Case(
        "usage is written down; that of owners that are gone goes with them",
        (*USED, ev.QosChanged(at(65), removed=("late",))),
        ev.UsageKept(at(90), at(80), (OwnerUsage("assoc", 2, at(80), 31),)),
        {
            "usage_until_us": at(80),
            "usage.assoc.2.at_us": at(80),
            "usage.assoc.2.wall_s": 31,
            "usage.qos.late": GONE,
        },
    ),
]

CONTROL_CASES = [
    Case(
        "a controller takes command; ids that others may have seen are left out",
        (*WAITING, ev.JobIdsSeen(at(11), 40)),
        ev.EpochStarted(at(20), 1, "ctl"),
        {"epoch": 1, "next_job_id": 40, "ids_seen_below": 0},
    ),
    Case(
        "a controller takes command where nothing was seen",
        WAITING,
        ev.EpochStarted(at(20), 3, "ctl", "boot"),
        {"epoch": 3},
    ),
    Case(
        "job ids may have been seen",
        WAITING,
        ev.JobIdsSeen(at(11), 40),
        {"ids_seen_below": 40},
    ),
    Case(
        "a reply is kept for a day",
        (*SITE, ev.RequestAnswered(at(5), 1001, bytes(16), b"old")),
        ev.RequestAnswered(at(5 + 24 * 3600 + 1), 1001, b"\x01" * 16, b"new"),
        {f"replies.1001.{bytes(16).hex()}": GONE, f"replies.1001.{'01' * 16}": b"new"},
    ),
    Case(
        "what a script contains is not the cluster's business",
        WAITING,
        ev.ScriptStored(at(11), "0" * 32, b"#!/bin/sh\n"),
        {},
    ),
    Case(
        "numbers of a past that is lost are not given again",
        WAITING,
        ev.NumbersSkipped(at(11), 50, ((1, 4),)),
        {"next_job_id": 50, "jobs.1.attempt": 4},
    ),
    Case(
        "the runs of some jobs are moved, and no other time",
        (*RUNNING, submitted(2), allocated(2, part(0, 0b1100), first_duty_id=2)),
        ev.TimesMoved(at(30), 3_000_000, (1,)),
        {"jobs.1.start_us": at(23), "jobs.1.last_eval_us": at(23)},
    ),
    Case(
        "a clock that was wrong moves all that durations are counted from",
        (
            *USED,
            submitted(eligible_us=at(10), begin_us=at(5000)),
            ev.ReservationCreated(at(61), replace(WEEKEND, idle_since_us=at(60))),
        ),
        ev.TimesMoved(at(20), -40_000_000, (), is_all=True),
        {
            "jobs.1.eligible_us": at(-30),
            "jobs.1.accrue_us": at(-30),
            "nodes.n1.registered_us": at(-39),
            "nodes.n1.last_busy_us": at(-39),
            "nodes.n2.registered_us": at(-39),
            "nodes.n2.last_busy_us": at(-39),
            "reservations.weekend.idle_since_us": at(20),
            "usage_until_us": at(10),
            "usage.assoc.2.at_us": at(10),
            "usage.qos.late.at_us": at(10),
        },
    ),
]

TRIGGER_CASES = [
    Case(
        "a trigger is kept, and its number is not given again",
        SITE,
        ev.TriggerSet(at(5), DOWN_TRIGGER),
        {"triggers.7": DOWN_TRIGGER, "last_trigger_id": 7},
    ),
    Case(
        "triggers are cleared",
        TRIGGERS,
        ev.TriggersCleared(at(6), (7, 8)),
        {"triggers.7": GONE, "triggers.8": GONE},
    ),
    Case(
        "a trigger that has seen its event runs after its offset",
        TRIGGERS,
        ev.TriggerPulled(at(6), 7, at(66), "n1"),
        {"triggers.7.due_us": at(66), "triggers.7.seen": "n1"},
    ),
    Case(
        "what a trigger sees besides does not put it off",
        PULLED,
        ev.TriggerPulled(at(9), 7, at(69), "n[1-2]"),
        {"triggers.7.seen": "n[1-2]"},
    ),
    Case(
        "a trigger runs once",
        PULLED,
        ev.TriggerFired(at(66), 7),
        {"triggers.7": GONE},
    ),
    Case(
        "a permanent trigger waits again",
        PULLED,
        ev.TriggerFired(at(66), 8),
        {"triggers.8.due_us": 0, "triggers.8.seen": "", "triggers.8.fired_us": at(66)},
    ),
    Case(
        "a clock that was wrong moves the moment when a trigger is due",
        (*TRIGGERS, ev.TriggerPulled(at(6), 7, at(66), "n1")),
        ev.TimesMoved(at(20), 3_000_000, (), is_all=True),
        {
            "triggers.7.due_us": at(69),
            "nodes.n1.registered_us": at(4),
            "nodes.n1.last_busy_us": at(4),
            "nodes.n2.registered_us": at(4),
            "nodes.n2.last_busy_us": at(4),
            "usage_until_us": 3_000_000,
        },
    ),
]

CRONTAB = Crontab(1001, "@daily work\n", (CronEntry(1, 1, 1),))
CRONTAB_CASES = [
    Case(
        "a user has a crontab",
        SITE,
        ev.CrontabChanged(at(5), CRONTAB),
        {"crontabs.1001": CRONTAB},
    ),
    Case(
        "a crontab without text is gone",
        (*SITE, ev.CrontabChanged(at(5), CRONTAB)),
        ev.CrontabChanged(at(6), Crontab(1001, "")),
        {"crontabs.1001": GONE},
    ),
]

CASES = [*NODE_CASES, *CONFIGURATION_CASES, *ACCOUNTING_CASES, *CONTROL_CASES, *TRIGGER_CASES,
         *CRONTAB_CASES]  # fmt: skip
