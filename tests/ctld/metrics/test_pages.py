"""The pages of metrics: Slurm's families by name, kind and label, and what their numbers mean."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pyslurm_ng.daemon.metrics_text import escaped, family
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import NodeFlag
from tests.cli.reference_cluster import NOW_US, ReferenceCluster
from tests.ctld.metrics.scene import GOLDEN, PAGES, lines_of, scene

SAMPLE = re.compile(r'(\w+)(?:\{(\w+)="((?:[^"\\]|\\.)*)"\})? (-?[0-9.e+-]+)')


def samples_of(name: str, reference: ReferenceCluster) -> dict[tuple[str, str], int]:
    """Return the numbers by family and label value."""
    rows = [SAMPLE.fullmatch(line) for line in lines_of(name, reference) if line[0] != "#"]
    assert all(rows)
    return {(row[1], row[3] or ""): int(row[4]) for row in rows if row}


@pytest.mark.parametrize("name", [*PAGES, "scheduler"])
def test_families_are_slurms(name: str) -> None:
    """A dashboard made for Slurm 26.11 finds each family with its kind and label."""
    lines = lines_of(name, scene())
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    helped = {line.split()[2] for line in lines if line.startswith("# HELP")}
    labels = {row[1]: row[2] or "" for line in lines if (row := SAMPLE.fullmatch(line))}
    expected = [line.split(" ") for line in (GOLDEN / f"{name}.txt").read_text().splitlines()]
    assert {row[0]: row[1] for row in expected}.items() <= kinds.items()
    assert {row[0]: row[2] for row in expected}.items() <= labels.items()
    assert helped == set(kinds)
    # A family has all its samples together, or scrapers refuse the page.
    order = [row[1] for line in lines if (row := SAMPLE.fullmatch(line))]
    assert sum(name != after for name, after in pairwise(order)) == len(set(order)) - 1


def test_jobs_are_counted_by_state_and_by_what_they_hold() -> None:
    """Each task of an array that waits is a job."""
    counts = {name: value for (name, _), value in samples_of("jobs", scene()).items() if value}
    assert counts == {
        "slurm_jobs": 13,
        "slurm_jobs_pending": 12,
        "slurm_jobs_hold": 1,
        "slurm_jobs_running": 1,
        "slurm_jobs_started": 1,
        "slurm_jobs_nodes_alloc": 1,
        "slurm_jobs_cpus_alloc": 2,
        "slurm_jobs_gpus_alloc": 1,
        "slurm_jobs_memory_alloc": 100,
    }


def test_users_and_accounts_have_sums_of_their_own() -> None:
    counts = samples_of("jobs-users-accts", scene())
    assert counts["slurm_user_jobs", "alice"] == 12
    assert counts["slurm_user_jobs_hold", "bob"] == 1
    assert counts["slurm_account_jobs_pending", "chem"] == 1
    assert counts["slurm_account_jobs_cpus_alloc", "physics"] == 2


def test_partitions_tell_sizes_of_waiting_jobs() -> None:
    counts = samples_of("partitions", scene())
    assert counts["slurm_partition_jobs_max_job_nodes", "main"] == 9
    assert counts["slurm_partition_jobs_min_job_nodes", "main"] == 1
    assert counts["slurm_partition_jobs_min_job_nodes_nohold", "main"] == 3
    assert counts["slurm_partition_jobs_wait_part_node_limit", "main"] == 1
    assert counts["slurm_partition_nodes", "main"] == 4
    assert counts["slurm_partition_nodes_mixed", "main"] == 1


def test_a_drained_node_has_no_jobs_and_a_draining_one_has() -> None:
    reference = scene()
    for name in ("n1", "n2"):
        node_id = reference.cluster.node_index.by_name[name]
        fields: dict[str, object] = {"flags": NodeFlag.DRAIN, "reason": "disk"}
        reference.apply([ev.NodeUpdated(time_us=NOW_US, node_ids=(node_id,), fields=fields)])
    counts = samples_of("nodes", reference)
    assert counts["slurm_nodes_drain", ""] == 2
    assert counts["slurm_nodes_drained", ""] == counts["slurm_nodes_draining", ""] == 1
    assert counts["slurm_node_cpus_alloc", "n1"] == 2
    assert counts["slurm_node_gpus_alloc", "n1"] == 1


def test_names_are_escaped() -> None:
    r"""A name with " or \ ends no label."""
    assert escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    assert family("f", "Help", [('x"', 1)], "user")[-1] == 'f{user="x\\""} 1'
