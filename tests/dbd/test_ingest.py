"""Events become rows, each fact once, whatever is repeated or cut."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_MEM_SET
from pyslurm_ng.base.sluid import sluid_number
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.accounting_link import stored_words
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest import batches, job_rows
from pyslurm_ng.dbd.ingest.batches import Frame, GapError, ingest
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Step, Usage
from pyslurm_ng.model.node import NodeFacts, NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobFlag, NodeFlag, NodeState, Reason
from pyslurm_ng.model.usage import merge
from tests.dbd.accounting_room import (
    JOURNAL,
    SECOND,
    OpenStore,
    at,
    configured,
    finished,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)

T = at("12:08:08")


def jobs(database: Database, *columns: str) -> list[tuple[object, ...]]:
    return rows(database, schema.jobs, *columns)


def test_a_job_from_submission_to_end(store: Database) -> None:
    """One row, with the amounts asked for and held, the times and the status."""
    record(store, submitted(T, 1, ntasks=4, nodes_min=2, comment="a comment"))
    assert jobs(store, "state", "start_us", "tres_requested", "tres_allocated") == [
        ("PENDING", 0, "billing=4,cpu=4,mem=4000,node=2", "")
    ]
    record(store, *started(T + SECOND, 1, on(1), on(4, 3, 3000)))
    record(store, *finished(T + 4 * SECOND, 1, 5, 3 << 8))
    assert jobs(
        store, "job_id", "state", "start_us", "end_us", "exit_code", "node_list",
        "nodes_allocated", "cpus_allocated", "tres_allocated", "comment", "flags",
    ) == [
        (1, "FAILED", T + SECOND, T + 4 * SECOND, 768, "n[1,4]", 2, 4,
         "billing=4,cpu=4,mem=4000,node=2", "a comment", "SchedMain,StartReceived"),
    ]  # fmt: skip
    assert rows(store, schema.steps, "step_id", "name", "state", "exit_code", "end_us") == [
        (STEP_BATCH - 2**32, "batch", "FAILED", 768, T + 4 * SECOND)
    ]


def test_a_request_without_memory_has_that_of_its_partition(store: Database) -> None:
    """ReqMem and ReqTRES show it for a job that never starts too, and after a restart."""
    record(store, ev.PartitionUpdated(T, Partition("main", def_mem_per_cpu_mib=500)))
    record(store, ev.PartitionUpdated(T, Partition("gpu", def_mem_per_node_mib=9000)))
    record(store, submitted(T, 1, ntasks=4, nodes_min=2, mem_per_cpu_mib=0))
    record(store, submitted(T, 2, ntasks=4, mem_per_cpu_mib=7))
    assert jobs(store, "tres_requested") == [
        ("billing=4,cpu=4,mem=2000,node=2",),
        ("billing=4,cpu=4,mem=28,node=1",),
    ]
    assert jobs(store, "mem_mib", "mem_is_per_cpu") == [(500, 1), (7, 1)]


def test_a_request_for_all_memory_has_that_of_its_nodes(store: Database) -> None:
    """ReqMem of --mem=0 is a number as soon as the nodes are known."""
    record(store, submitted(T, 1, mem_per_cpu_mib=0, flags=REQ_MEM_SET))
    record(store, *started(T, 1, on(1, 1, 16000)))
    assert jobs(store, "tres_requested") == [("billing=1,cpu=1,mem=16000,node=1",)]


def test_generic_resources_count_only_if_tracked(store: Database) -> None:
    """AccountingStorageTRES decides; the typed and the plain name both count."""
    record(store, submitted(T, 1, gpus="2", cpus_per_task=4))
    record(store, *started(T, 1, on(1, 4, 4000, gpus=2), partition="gpu"))
    assert jobs(store, "tres_allocated") == [
        ("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=4000,node=1",)
    ]
    assert jobs(store, "tres_requested") == [("billing=4,cpu=4,gres/gpu=2,mem=4000,node=1",)]


def test_licences_count_only_if_tracked(open_store: OpenStore) -> None:
    """Those asked for and those held, also after a change; steps hold none."""
    store = open_store(lambda database: register(database, tres=["license/matlab"]))
    record(store, configured(T), submitted(T, 1, licenses="matlab:3|ansys:1"))
    run = started(T, 1, on(1))
    record(store, msgspec.structs.replace(run[0], licenses="matlab:2,ansys:1"), run[1])
    shown = "billing=1,cpu=1,{}mem=1000,node=1"
    assert jobs(store, "tres_requested", "tres_allocated") == [
        (shown.format("license/matlab=3,"), shown.format("license/matlab=2,"))
    ]
    assert rows(store, schema.steps, "tres_allocated") == [("cpu=1,mem=1000,node=1",)]
    record(store, ev.JobUpdated(T, 1, {"licenses_alloc": "ansys:1,matlab"}))
    assert jobs(store, "tres_allocated") == [(shown.format("license/matlab=1,"),)]
    record(store, ev.JobUpdated(T, 1, {"licenses_alloc": ""}))
    assert jobs(store, "tres_allocated") == [(shown.format(""),)]


def test_a_job_has_the_number_of_its_reservation(store: Database) -> None:
    """A name may be used again; a job of a magnetic reservation has asked for none."""
    lesson = Reservation("lesson", T, T + 900 * SECOND, reservation_id=3)
    again = msgspec.structs.replace(lesson, reservation_id=4)
    record(store, configured(T), ev.ReservationCreated(T, lesson))
    record(store, submitted(T, 1, reservation="lesson", array_pending=((1, 2, 1),)))
    record(store, ev.ArrayTaskSplit(T, 1, 1, 2))
    record(store, submitted(T, 3, licenses="matlab|ansys"), submitted(T, 4, reservation="other"))
    run = started(T, 3, on(1))
    inside = msgspec.structs.replace(run[0], reservation="lesson", licenses="ansys")
    later = T + 2 * SECOND
    record(store, inside, ev.ReservationDeleted(T + SECOND, "lesson"))
    record(store, ev.ReservationCreated(later, again), submitted(later, 5, reservation="lesson"))
    assert jobs(store, "reservation", "reservation_id") == [
        ("lesson", 3), ("lesson", 3), ("lesson", 3), ("other", 0), ("lesson", 4),
    ]  # fmt: skip
    # A change of a comment sends the whole request, which names neither.
    asked = submitted(T, 3, licenses="matlab|ansys", comment="c").request
    record(store, ev.JobUpdated(later, 3, {}, asked))
    assert jobs(store, "reservation", "reservation_id", "licenses", "comment")[2] == (
        "lesson", 3, "ansys", "c",
    )  # fmt: skip


def test_a_job_is_eligible_from_its_begin_time(store: Database) -> None:
    """Also while that is to come, as in Slurm: `sacct -E` of a later day finds the job."""
    soon, later = T + 60 * SECOND, T + 600 * SECOND
    waiting = msgspec.structs.replace(submitted(T, 1, eligible_us=0), begin_us=soon)
    record(store, waiting, submitted(T, 2, eligible_us=0))
    assert jobs(store, "eligible_us") == [(soon,), (0,)]
    for fields, eligible_us in (
        ({"eligible_us": 0, "accrue_us": 0, "begin_us": later}, later),
        ({"eligible_us": 0, "accrue_us": 0}, later),  # a dependency, beside the begin time
        ({"comment": "none"}, later),
        ({"eligible_us": T, "begin_us": T}, T),
        ({"eligible_us": 0, "accrue_us": 0}, 0),
        ({"begin_us": soon}, soon),  # of a held job
        ({"begin_us": T}, 0),
    ):
        record(store, ev.JobUpdated(T, 1, fields))
        assert jobs(store, "eligible_us")[0] == (eligible_us,), fields
    record(store, ev.JobEligible(soon, 1))
    assert jobs(store, "eligible_us") == [(soon,), (0,)]


def test_a_cancelled_waiting_job_names_the_user(store: Database) -> None:
    """sacct prints CANCELLED by UID."""
    record(store, submitted(T, 1))
    record(store, ev.JobEnded(T + SECOND, 1, 4, cancelled_by=1001))
    assert jobs(store, "state", "kill_uid", "start_us", "end_us") == [
        ("CANCELLED", 1001, 0, T + SECOND)
    ]


def test_array_tasks_leave_the_waiting_record(store: Database) -> None:
    """A task that starts has a row of its own; the last one keeps the array's."""
    record(store, submitted(T, 3, array_pending=((0, 2, 1),), array_limit=2))
    record(store, ev.ArrayTaskSplit(T, 3, 0, 4), *started(T, 4, on(1)))
    assert jobs(store, "job_id", "array_job_id", "array_task_id", "array_tasks", "state") == [
        (3, 3, -1, "1-2%2", "PENDING"),
        (4, 3, 0, "", "RUNNING"),
    ]
    record(store, ev.ArrayTaskSplit(T, 3, 1, 5))
    record(store, ev.ArrayTaskSplit(T, 3, 2, 3))
    assert jobs(store, "job_id", "array_task_id", "array_tasks") == [
        (3, 2, ""),
        (4, 0, ""),
        (5, 1, ""),
    ]


def test_a_group_of_tasks_becomes_one_record(store: Database) -> None:
    """Cancelling some waiting tasks must not touch the others."""
    record(store, submitted(T, 3, array_pending=((0, 9, 1),)))
    record(store, ev.ArrayTaskSplit(T, 3, 2, 4, ((2, 5, 1),)), ev.JobEnded(T, 4, 4))
    assert jobs(store, "job_id", "array_tasks", "state") == [
        (3, "0-1,6-9", "PENDING"),
        (4, "2-5", "CANCELLED"),
    ]


def test_tasks_have_the_sluids_that_slurmctld_shows(store: Database) -> None:
    """By their array's submission, whenever they were split off."""
    record(store, submitted(T, 3, array_pending=((0, 9, 1),), array_limit=2))
    record(store, ev.ArrayTaskSplit(T + SECOND, 3, 2, 4))
    assert jobs(store, "job_id", "sluid") == [(3, sluid_number(T, 3)), (4, sluid_number(T, 4))]


def test_a_requeue_begins_a_new_record(store: Database) -> None:
    """The former one keeps how it ended and is found only with duplicates."""
    record(store, submitted(T, 1), *started(T + SECOND, 1, on(3)))
    record(
        store,
        ev.JobCompleting(T + 5 * SECOND, 1, 7, 256, 0, 1, (), flags=JobFlag.REQUEUED),
        ev.JobRequeued(T + 5 * SECOND, 1, 1, T + 125 * SECOND),
    )
    assert jobs(store, "attempt", "is_last", "state", "node_list", "eligible_us") == [
        (0, 0, "NODE_FAIL", "n3", T),
        (1, 1, "PENDING", "", T + 125 * SECOND),
    ]
    # It is a submission of its own, with an id of its own.
    assert jobs(store, "submit_us", "sluid", "original_sluid") == [
        (T, sluid_number(T, 1), sluid_number(T, 1)),
        (T + 5 * SECOND, *[sluid_number(T + 5 * SECOND, 1)] * 2),
    ]
    # What the run before had is told of the waiting job too, as scontrol tells it.
    (before, after) = jobs(store, "cpus_allocated", "nodes_allocated", "tres_allocated")
    assert before == after and after[1] == 1
    (before, after) = jobs(store, "flags")
    assert before == after
    # The batch step of the node that went never reported; it ends with its record.
    assert rows(store, schema.steps, "state", "end_us") == [("CANCELLED", T + 5 * SECOND)]


def test_a_requeue_by_hand_is_shown_as_such(store: Database) -> None:
    """scontrol requeue ends the former record as REQUEUED."""
    record(store, submitted(T, 1), *started(T, 1, on(3)))
    record(store, ev.JobCompleting(T, 1, 4, 0, 0, 1, (), flags=JobFlag.REQUEUED))
    record(store, ev.JobRequeued(T, 1, 1, 0))
    assert jobs(store, "state") == [("REQUEUED",), ("PENDING",)]


def test_giving_up_nodes_begins_a_new_record(store: Database) -> None:
    """What the job held until then is a record of its own.

    It is shown without --duplicates, too.
    """
    record(store, submitted(T, 1), *started(T + SECOND, 1, on(3), on(4)))
    record(store, ev.JobResized(T + 5 * SECOND, 1, (on(3),), 9))
    assert jobs(store, "is_last", "state", "node_list", "start_us", "end_us") == [
        (0, "RESIZING", "n[3-4]", T + SECOND, T + 5 * SECOND),
        (1, "RUNNING", "n3", T + 5 * SECOND, 0),
    ]
    record(store, *finished(T + 7 * SECOND, 1, 3, 0))
    assert jobs(store, "state", "end_us", "nodes_allocated") == [
        ("RESIZING", T + 5 * SECOND, 2),
        ("COMPLETED", T + 7 * SECOND, 1),
    ]
    assert rows(store, schema.steps, "name", "state", "start_us", "end_us") == [
        ("batch", "RESIZING", T + SECOND, T + 5 * SECOND),
        ("batch", "COMPLETED", T + SECOND, T + 7 * SECOND),
    ]


def test_a_steps_new_limit_is_stored(store: Database) -> None:
    record(store, submitted(T, 1), *started(T, 1, on(1)))
    record(store, ev.StepUpdated(T + SECOND, 1, STEP_BATCH, 7))
    assert rows(store, schema.steps, "name", "time_limit_min") == [("batch", 7)]


def test_suspended_time_is_summed(store: Database) -> None:
    """Elapsed leaves it out, also when the job ends suspended."""
    record(store, submitted(T, 1), *started(T, 1, on(1)))
    record(store, ev.JobSuspended(T + 10 * SECOND, 1, 1))
    assert jobs(store, "state") == [("SUSPENDED",)]
    record(store, ev.JobResumed(T + 15 * SECOND, 1, 1), ev.JobSuspended(T + 20 * SECOND, 1, 1))
    record(store, *finished(T + 22 * SECOND, 1, 4, 15))
    assert jobs(store, "suspended_us") == [(7 * SECOND,)]


def test_the_derived_exit_code_is_the_worst_of_srun_steps(store: Database) -> None:
    """The batch step does not count."""
    record(store, submitted(T, 1), *started(T, 1, on(1, 2, 2000)))
    for step_id, status in ((0, 5 << 8), (1, 9)):
        step = Step(step_id, "bash", 1001, 1, 1, (on(1),), T)
        record(store, ev.StepCreated(T, 1, step), ev.StepEnded(T, 1, step_id, 5, status))
    record(store, *finished(T, 1, 3, 0))
    assert jobs(store, "derived_exit_code") == [(5 << 8,)]


def test_steps_beyond_max_step_records_are_not_stored(database: Database) -> None:
    """The batch step is; and what the others returned still counts for the job."""
    conf = parse_slurm_conf(
        "ClusterName=demo\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"
        "AccountingStorageParameters=max_step_records=2\n"
    )
    register(database, store_flags=stored_words(conf))
    record(database, configured(T))
    record(database, submitted(T, 1), *started(T, 1, on(1, 2, 2000)))
    for step_id in range(4):
        step = Step(step_id, "bash", 1001, 1, 1, (on(1),), T)
        record(database, ev.StepCreated(T, 1, step), ev.StepUpdated(T, 1, step_id, 5))
        record(database, ev.StepEnded(T, 1, step_id, 5, step_id << 8))
    record(database, *finished(T, 1, 3, 0))
    assert sorted(rows(database, schema.steps, "step_id", "name")) == [
        (-5, "batch"), (0, "bash"), (1, "bash"),
    ]  # fmt: skip
    assert jobs(database, "derived_exit_code") == [(3 << 8,)]


def test_a_job_that_never_ran_keeps_the_priority_of_its_end(store: Database) -> None:
    """The start of a job that ran has said more."""
    record(store, submitted(T, 1), ev.JobEnded(T + SECOND, 1, 4, priority=4711))
    record(store, submitted(T, 2), ev.JobEnded(T + SECOND, 2, 4))
    assert jobs(store, "priority") == [(4711,), (0,)]


def test_usage_is_kept_with_nodes_and_tasks(store: Database) -> None:
    """Without a sample only the energy is known."""
    usage = Usage(
        user_us=3000,
        system_us=1000,
        max_rss_kib=4920,
        max_rss_node="n1",
        ave_rss_kib=4920,
        ntasks=1,
    )
    record(store, submitted(T, 1), *started(T, 1, on(1)), *finished(T, 1, 3, 0, usage))
    record(store, submitted(T, 2), *started(T, 2, on(1)), *finished(T, 2, 3, 0))
    measured = Usage(energy_j=50, ntasks=2)
    record(store, submitted(T, 3), *started(T, 3, on(1)), *finished(T, 3, 3, 0, measured))
    columns = ("user_cpu_us", "tres_usage_in_max", "tres_usage_in_max_node", "tres_usage_in_ave")
    sampled, unsampled, short = rows(store, schema.steps, *columns)
    assert sampled[0] == 3000
    assert "mem=5038080" in str(sampled[1])
    assert "mem=n1" in str(sampled[2])
    assert unsampled == (0, "", "", "energy=0")
    assert short == (0, "", "", "energy=25")
    assert rows(store, schema.steps, "tres_usage_in_tot")[2] == ("energy=50",)


def test_usage_of_gpus_and_energy_is_kept_where_it_is_measured(store: Database) -> None:
    """gres/gpuutil and gres/gpumem as sacct and seff read them; two nodes make one usage."""
    one_node = Usage(
        max_rss_kib=1, ntasks=1, max_gpu_util=90, max_gpu_util_node="n1", ave_gpu_util=90,
        max_gpu_mem_kib=1 << 20, max_gpu_mem_node="n1", ave_gpu_mem_kib=1 << 20, energy_j=700,
    )  # fmt: skip
    other_node = Usage(
        max_rss_kib=1, ntasks=1, max_gpu_util=70, max_gpu_util_node="n2", max_gpu_util_task=1,
        ave_gpu_util=70, max_gpu_mem_kib=3 << 20, max_gpu_mem_node="n2", max_gpu_mem_task=1,
        ave_gpu_mem_kib=3 << 20, energy_j=300,
    )  # fmt: skip
    both = merge(one_node, other_node)
    record(store, submitted(T, 1), *started(T, 1, on(1)), *finished(T, 1, 3, 0, both))
    columns = [f"tres_usage_in_{what}" for what in ("ave", "max", "max_node", "max_task", "tot")]
    energy, *texts = rows(store, schema.steps, "energy_j", *columns)[0]
    ave, most, node, task, total = (
        dict(pair.split("=") for pair in str(text).split(",")) for text in texts
    )
    assert energy == 1000 == int(total["energy"])
    assert (ave["gres/gpuutil"], most["gres/gpuutil"]) == ("80", "90")
    assert (node["gres/gpuutil"], task["gres/gpuutil"]) == ("n1", "0")
    assert (node["gres/gpumem"], task["gres/gpumem"]) == ("n2", "1")
    assert int(most["gres/gpumem"]) == 3 << 30 and int(total["gres/gpumem"]) == 4 << 30


def test_node_numbers_are_never_given_twice(store: Database) -> None:
    """A node that comes back under its old name is a new number, as in the model."""
    record(store, ev.ConfigLoaded(T, "demo", (NodeSpec("n2"), NodeSpec("n9")), ()))
    record(store, configured(T))
    assert rows(store, schema.cluster_nodes, "node_id", "name", "is_gone") == [
        (0, "n1", 1), (1, "n2", 0), (2, "n3", 1), (3, "n4", 1), (4, "n9", 1), (5, "n1", 0),
        (6, "n3", 0), (7, "n4", 0),
    ]  # fmt: skip


def test_a_jobs_time_begins_when_its_nodes_are_up(store: Database) -> None:
    """The boot of nodes that slept is not the job's; a prolog of the controller changes nothing."""
    for job_id, booted in ((1, True), (2, False)):
        record(store, submitted(T, job_id), *started(T + SECOND, job_id, on(1)))
        record(store, ev.PrologEnded(T + 9 * SECOND, job_id, 0, 2, booted=booted))
    assert jobs(store, "start_us") == [(T + 9 * SECOND,), (T + SECOND,)]


def test_dynamic_nodes_come_and_go(store: Database) -> None:
    """The cluster's TRES follow, and an outage ends with its node."""
    record(store, ev.NodesCreated(T, 4, (NodeSpec("d1", cpus=8, real_memory_mib=100),)))
    record(store, ev.NodesDown(T + SECOND, (4,), "burnt"))
    record(store, ev.NodesDeleted(T + 2 * SECOND, (4,)))
    assert rows(store, schema.cluster_nodes, "node_id", "name", "is_gone")[-1] == (4, "d1", 1)
    periods = rows(store, schema.node_events, "node_name", "cluster_nodes", "tres", "end_us")
    (outage,) = [period for period in periods if period[0]]
    before, with_it, after = [period for period in periods if not period[0]]
    assert (before[1], with_it[1], after[1]) == ("n[1-4]", "d1,n[1-4]", "n[1-4]")
    assert str(with_it[2]).startswith("billing=") and "node=5" in str(with_it[2])
    assert before[2] == after[2]
    assert (outage[0], outage[3]) == ("d1", T + 2 * SECOND)


def test_the_cluster_bills_as_its_partitions_do(store: Database) -> None:
    """Reports compare what jobs were billed with what there was to bill."""
    weighted = Partition("main", (0, 1), "n[1-2]", tres_billing_weights="CPU=3")
    nodes = (NodeSpec("n1", cpus=4), NodeSpec("n2", cpus=4), NodeSpec("n3", cpus=4))
    record(store, ev.ConfigLoaded(T + SECOND, "demo", nodes, (weighted,)))
    (*_, present) = rows(store, schema.node_events, "tres")
    assert "billing=28,cpu=12," in str(present[0])


def test_outages_are_periods(store: Database) -> None:
    """sacctmgr show event lists them."""
    record(store, ev.NodesDown(T, (2,), "Not responding", for_silence=True))
    record(store, ev.NodesReturned(T + 60 * SECOND, (2,)))
    periods = rows(store, schema.node_events, "node_name", "state", "reason", "end_us")
    assert periods[1] == ("n3", "DOWN*", "Not responding", T + 60 * SECOND)
    assert periods[0][2] == "Cluster Registered TRES"


def test_a_node_that_registers_while_it_is_out_has_one_outage(store: Database) -> None:
    """slurmd goes on, and registers again soon; the outage ends when the node returns."""
    down, drain = NodeState.DOWN, int(NodeFlag.DRAIN)
    record(store, ev.NodesDown(T, (2,), "bla", 7))
    record(store, ev.NodeRegistered(T + SECOND, 2, NodeFacts(), down, reason="bla"))
    record(store, ev.NodeUpdated(T, (1,), {"flags": drain, "reason": "disk"}))
    record(store, ev.NodeRegistered(T + SECOND, 1, NodeFacts(), NodeState.IDLE, drain, "disk"))
    record(store, ev.NodeRegistered(T + 9 * SECOND, 2, NodeFacts(), NodeState.IDLE))
    record(store, ev.NodeUpdated(T, (0,), {"flags": int(NodeFlag.FAIL), "reason": "zz"}))
    columns = "node_name", "state", "reason", "reason_uid", "start_us", "end_us"
    periods = [row for row in rows(store, schema.node_events, *columns) if row[0]]
    assert sorted(periods) == [
        ("n1", "FAIL", "zz", 0, T, 0),
        ("n2", "DRAIN", "disk", 0, T, 0),
        ("n3", "DOWN", "bla", 7, T, T + 9 * SECOND),
    ]


def test_a_drained_node_that_goes_down_is_drained_and_down(store: Database) -> None:
    """In either order. It goes on when something else changes, such as a wish to reboot."""
    drain = int(NodeFlag.DRAIN)
    record(store, ev.NodeUpdated(T, (0,), {"flags": drain, "reason": "disk"}))
    record(store, ev.NodesDown(T + SECOND, (0,), "dead"))
    record(store, ev.NodesDown(T, (1,), "dead", for_silence=True))
    asked = {"flags": int(NodeFlag.REBOOT_REQUESTED)}
    record(store, ev.NodeUpdated(T + SECOND, (1,), asked))
    record(store, ev.NodeUpdated(T + 2 * SECOND, (1,), {"flags": drain, "reason": "fan"}))
    for node_id in (0, 1):
        cleared = ev.NodeUpdated(T + 9 * SECOND, (node_id,), {"flags": 0, "reason": ""})
        record(store, cleared, ev.NodesReturned(T + 9 * SECOND, (node_id,)))
    columns = "node_name", "state", "reason", "start_us", "end_us"
    periods = [row for row in rows(store, schema.node_events, *columns) if row[0]]
    assert sorted(periods, key=lambda row: (row[0], row[3])) == [
        ("n1", "DRAIN", "disk", T, T + SECOND),
        ("n1", "DOWN+DRAIN", "dead", T + SECOND, T + 9 * SECOND),
        ("n2", "DOWN*", "dead", T, T + 2 * SECOND),
        ("n2", "DOWN+DRAIN", "fan", T + 2 * SECOND, T + 9 * SECOND),
    ]


def test_scripts_are_kept_only_when_asked_for(store: Database) -> None:
    """AccountingStoreFlags=job_script; the environment's flag is not set here."""
    record(store, ev.ScriptStored(T, "digest", b"#!/bin/sh\n"), submitted(T, 1))
    record(store, ev.ScriptStored(T, "other", b"HOME=/"), submitted(T, 2))
    assert rows(store, schema.texts, "hash", "text") == [("digest", "#!/bin/sh\n")]


def test_environments_are_kept_only_when_asked_for(store: Database) -> None:
    """AccountingStoreFlags=job_env; the script's flag is not set here."""
    register(store, store_flags=("job_env",))
    job = msgspec.structs.replace(submitted(T, 1), env_hash="variables")
    texts = [ev.ScriptStored(T, name, name.encode()) for name in ("digest", "variables")]
    record(store, *texts, job)
    assert rows(store, schema.texts, "hash") == [("variables",)]


@pytest.mark.parametrize(
    ("flags", "stored"),
    [
        ((), ("", "")),
        (("job_script",), ("digest", "")),
        (("job_script", "job_env"), ("digest", "variables")),
    ],
)
def test_jobs_name_only_texts_that_are_kept(
    store: Database, flags: tuple[str, ...], stored: tuple[str, str]
) -> None:
    """Each job has an environment of its own: two indexes would grow in places of no order."""
    register(store, store_flags=flags)
    record(store, msgspec.structs.replace(submitted(T, 1), env_hash="variables"))
    assert rows(store, schema.jobs, "script_hash", "environment_hash") == [stored]


def test_a_used_job_id_given_again_hides_the_older_record(store: Database) -> None:
    """Ids wrap around after MaxJobId."""
    record(store, submitted(T, 1), ev.JobEnded(T, 1, 4))
    record(store, submitted(T + SECOND, 1))
    assert jobs(store, "is_last", "state") == [(0, "CANCELLED"), (1, "PENDING")]


def test_a_repeated_message_changes_nothing(store: Database) -> None:
    """The controller that lost an acknowledgement sends again."""
    first = Frame(1, 2, [submitted(T, 1)])
    second = Frame(1, 3, [*started(T, 1, on(1))])
    assert ingest(store, 1, JOURNAL, 1, [first])[1:] == (2, 1)
    before = jobs(store, *[column.name for column in schema.jobs.columns])
    assert ingest(store, 1, JOURNAL, 1, [first]) == (1, 2, 0)
    assert jobs(store, *[column.name for column in schema.jobs.columns]) == before
    assert ingest(store, 1, JOURNAL, 1, [first, second])[1:] == (3, 2)


def test_missing_frames_are_refused(store: Database) -> None:
    """Nothing may be skipped in silence."""
    with pytest.raises(GapError, match="1 is stored, what follows 7 came"):
        ingest(store, 1, JOURNAL, 7, [Frame(1, 8, [submitted(T, 1)])])
    assert jobs(store, "job_id") == []


def test_a_gap_of_the_journal_itself_is_passed_over(store: Database) -> None:
    """After a repair sequences jump; the controller says what the frames follow."""
    assert ingest(store, 1, JOURNAL, 1, [Frame(2, 9, [submitted(T, 1)])]) == (2, 9, 1)


def test_a_failure_half_way_stores_neither_rows_nor_cursor(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try begins at the same place and stores everything once."""
    frames = [Frame(1, 2, [submitted(T, 1)]), Frame(1, 3, [submitted(T, 2)])]
    upsert = Database.upsert

    def fail(self: Database, *arguments: object) -> None:
        if arguments[1] is schema.cursors:
            raise sa.exc.OperationalError("insert", {}, Exception("server has gone away"))
        upsert(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Database, "upsert", fail)
        with pytest.raises(sa.exc.OperationalError):
            ingest(store, 1, JOURNAL, 1, frames)
    assert jobs(store, "job_id") == []
    assert ingest(store, 1, JOURNAL, 1, frames)[1:] == (3, 2)
    assert jobs(store, "job_id", "job_index") == [(1, 1), (2, 2)]


def test_nodes_of_a_message_that_failed_are_not_remembered(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept between messages is what the tables say, or jobs ran on the wrong nodes."""
    changed = ev.ConfigLoaded(T, "demo", (NodeSpec("wrong"),), ())
    with monkeypatch.context() as patch:
        patch.setattr(batches, "_move_cursor", _fail)
        with pytest.raises(sa.exc.OperationalError):
            ingest(store, 1, JOURNAL, 1, [Frame(1, 2, [changed])])
    record(store, submitted(T, 1), *started(T, 1, on(4)))
    assert jobs(store, "node_list") == [("n4",)]


def _fail(*_: object) -> None:
    raise sa.exc.OperationalError("insert", {}, Exception("server has gone away"))


def test_another_slurmdbds_messages_are_noticed(store: Database) -> None:
    """Two that serve in turn keep what they know apart; the tables decide."""
    with contextlib.closing(Database(store.url)) as other:
        record(store, submitted(T, 1))
        record(other, ev.NodesCreated(T, 4, (NodeSpec("d1"),)))
        record(store, *started(T, 1, on(5)))
    assert jobs(store, "node_list") == [("d1",)]


def test_a_submission_takes_few_statements(store: Database) -> None:
    """A query that waits for the newest record waits for each of them (read your writes)."""
    record(store, submitted(T, 1))
    texts: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda *words: texts.append(words[2]))
    ingest(store, 1, JOURNAL, 2, [Frame(1, 3, [submitted(T, 2)])])
    assert len([text for text in texts if not text.startswith("BEGIN")]) <= 5


def test_a_deleted_clusters_messages_are_refused(store: Database) -> None:
    """Its controller may not know yet."""
    manage(store, "delete cluster demo")
    with pytest.raises(RefusedError, match="cluster demo is not registered"):
        ingest(store, 1, JOURNAL, 1, [Frame(1, 2, [submitted(T, 1)])])


def test_a_controller_started_with_c_ends_open_jobs(store: Database) -> None:
    """`slurmctld -c` does not know these jobs; they must not run for ever in accounting."""
    record(store, submitted(T, 1), *started(T, 1, on(1)), submitted(T, 2))
    assert register(store, "journal-2").sequence == 0
    assert jobs(store, "state") == [("CANCELLED",), ("CANCELLED",)]
    assert all(row[0] for row in jobs(store, "end_us"))
    assert rows(store, schema.steps, "state") == [("CANCELLED",)]


def test_registering_again_returns_the_cursor(store: Database) -> None:
    """The controller goes on from there."""
    sequence = record(store, submitted(T, 1))
    again = register(store)
    assert (again.journal_id, again.epoch, again.sequence) == (JOURNAL, 1, sequence)
    assert jobs(store, "state") == [("PENDING",)]


def _story() -> list[list[ev.AnyEvent]]:
    """Batches in which everything happens to some job."""
    story: list[list[ev.AnyEvent]] = [[configured(T)]]
    for job_id in range(1, 6):
        story.append([submitted(T + job_id, job_id)])
        story.append(started(T + job_id * SECOND, job_id, on(1 + job_id % 4)))
    story.append([submitted(T, 6, array_pending=((0, 5, 1),), array_limit=2)])
    for task in range(3):
        story.append([ev.ArrayTaskSplit(T, 6, task, 10 + task)])
        story.append(started(T + SECOND, 10 + task, on(2)))
    story.append(finished(T + 9 * SECOND, 1, 3, 0))
    story.append([ev.JobSuspended(T + 9 * SECOND, 2, 1)])
    story.append([ev.JobResumed(T + 11 * SECOND, 2, 1)])
    story.append(finished(T + 12 * SECOND, 2, 5, 256))
    story.append([ev.JobCompleting(T + 13 * SECOND, 3, 7, 1, 0, 1, (), flags=JobFlag.REQUEUED)])
    story.append([ev.JobRequeued(T + 13 * SECOND, 3, 1, 0)])
    story.append(started(T + 14 * SECOND, 3, on(1)))
    story.append(finished(T + 15 * SECOND, 11, 3, 0))
    return story


def _contents(database: Database) -> list[list[tuple[object, ...]]]:
    tables = (schema.jobs, schema.steps, schema.node_events, schema.cluster_nodes)
    return [rows(database, table, *[column.name for column in table.columns]) for table in tables]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=40), repeats=st.randoms())
def test_how_the_journal_is_cut_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], repeats: object
) -> None:
    """Any grouping into messages, with any of them sent twice, gives the same rows."""
    from pyslurm_ng.dbd.database import sqlite_url

    frames = [Frame(1, number, events) for number, events in enumerate(_story(), 1)]
    directory = tmp_path_factory.mktemp("cut")
    with (
        contextlib.closing(Database(sqlite_url(f"{directory}/whole.sqlite"))) as whole,
        contextlib.closing(Database(sqlite_url(f"{directory}/pieces.sqlite"))) as pieces,
    ):
        for database in (whole, pieces):
            database.open()
            register(database)
        ingest(whole, 1, JOURNAL, 0, frames)
        position = 0
        while position < len(frames):
            size = cuts[position % len(cuts)]
            for _ in range(1 + repeats.randrange(2)):  # type: ignore[attr-defined]
                ingest(pieces, 1, JOURNAL, position, frames[position : position + size])
            position += size
        assert _contents(pieces) == _contents(whole)


def test_every_event_kind_is_either_kept_or_known_to_be_of_no_interest() -> None:
    """A new kind must be thought of here."""
    from pyslurm_ng.dbd.ingest import node_rows

    kept = set(job_rows._HANDLERS) | set(node_rows._HANDLERS)
    of_no_interest = {
        "DependencyChanged", "JobSignalled", "JobPurged", "NodesSilent", "DutiesDone",
        "DutiesDropped", "PartitionDeleted", "LicensesUpdated", "ReservationCreated",
        "ReservationUpdated", "ReservationDeleted", "AssocChanged", "QosChanged", "UsageReset",
        "EpochStarted", "NumbersSkipped", "RequestAnswered", "StepNodesDone",
        "EpilogEnded", "UsageKept", "JobIdsSeen", "LostRunsChanged", "TriggerSet",
        "TriggersCleared", "TriggerPulled", "TriggerFired",
        "NodeRebootIssued", "NodesPowered", "CrontabChanged", "BufferChanged",
    }  # fmt: skip
    kinds = {kind.__name__ for kind in ev.AnyEvent.__args__}
    assert kinds - {kind.__name__ for kind in kept} == of_no_interest


def test_the_reason_of_a_wait_is_stored_once_the_job_has_run(store: Database) -> None:
    """As in Slurm, it is the last reason other than Priority and Resources.

    A job that never started has none.
    """
    for job_id in (1, 2):
        record(store, submitted(T, job_id))
        record(store, ev.JobUpdated(T, job_id, {"reason": int(Reason.JobHeldUser)}))
        record(store, ev.JobUpdated(T, job_id, {"reason": 0}))
    record(store, *started(T + SECOND, 1, on(1)))
    record(store, *finished(T + 4 * SECOND, 1, 3, 0))
    record(store, ev.JobEnded(T + 4 * SECOND, 2, 4))
    assert jobs(store, "job_id", "reason") == [(1, "JobHeldUser"), (2, "None")]


@pytest.mark.parametrize(
    ("reason", "told"),
    [(Reason.QOSMaxJobsPerUserLimit, "QOSMaxJobsPerUserLimit"), (Reason.Priority, "None")],
)
def test_reasons_of_passes_are_stored_with_the_start(
    store: Database, reason: Reason, told: str
) -> None:
    """They have no event of their own; the start has the last one."""
    record(store, submitted(T, 1))
    first, *others = started(T + SECOND, 1, on(1))
    assert isinstance(first, ev.JobAllocated)
    record(store, msgspec.structs.replace(first, waited_for=int(reason)), *others)
    assert jobs(store, "job_id", "reason") == [(1, told)]


def test_a_clock_that_was_wrong_leaves_no_negative_rows(store: Database) -> None:
    """RELIABILITY 14: what runs is moved, what has ended stays, nothing ends before its begin."""
    hour = 3600 * SECOND
    for job_id in (1, 2):
        record(store, submitted(T, job_id))
        record(store, *started(T + SECOND, job_id, on(job_id)))
    record(store, *finished(T + 9 * SECOND, 2, 3, 0))
    record(store, ev.JobSuspended(T + 10 * SECOND, 1, 5))
    record(store, ev.NodesDown(T + 11 * SECOND, (3,), "gone"))
    record(store, ev.TimesMoved(T + 12 * SECOND - 2 * hour, -2 * hour, (1,), is_all=True))
    record(store, ev.NodesReturned(T + 13 * SECOND - 2 * hour, (3,)))
    record(store, ev.JobResumed(T + 20 * SECOND - 2 * hour, 1, 6))
    record(store, *finished(T + 31 * SECOND - 2 * hour, 1, 3, 0))
    assert jobs(store, "job_id", "start_us", "end_us", "suspended_us") == [
        (1, T + SECOND - 2 * hour, T + 31 * SECOND - 2 * hour, 10 * SECOND),
        (2, T + SECOND, T + 9 * SECOND, 0),
    ]
    assert rows(store, schema.steps, "start_us", "end_us") == [
        (T + SECOND - 2 * hour, T + 31 * SECOND - 2 * hour),
        (T + SECOND, T + 9 * SECOND),
    ]
    spans = rows(store, schema.node_events, "start_us", "end_us")
    assert all(end == 0 or end >= start for start, end in spans)
