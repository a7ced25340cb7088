"""Hidden partitions and those of other groups: a user sees them by --all, or if they are named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.partition import Partition
from tests.cli.reference_cluster import ReferenceCluster, at, queue
from tests.cli.run_command import run_command


@pytest.fixture(scope="module")
def site() -> ReferenceCluster:
    """The reference queue, whose partition `main` is hidden, with one of another group."""
    reference = queue()
    hidden = replace(reference.cluster.partitions["main"], hidden=True)
    closed = Partition("closed", node_ids=(0,), nodes_text="n1", allow_groups=("others",))
    reference.apply([ev.PartitionUpdated(at("12:08:00"), part) for part in (hidden, closed)])
    return reference


@pytest.mark.parametrize(
    ("words", "sign", "is_shown"),
    [
        ("sinfo -h -o x%Rx", "xmainx", False),
        ("sinfo -h -o x%Rx -a", "xclosedx", True),
        ("sinfo -h -o x%Rx -p main", "xmainx", True),
        ("sinfo -h -o x%Rx -p closed", "xclosedx", True),
        ("sinfo -h -o x%Rx --hide -p main", "xmainx", False),
        ("squeue -h -o x%Px", "xmainx", False),
        ("squeue -h -o x%Px -p main", "xmainx", True),
        ("squeue --json", '"partition": "main"', False),
        ("squeue --json -p main", '"partition": "main"', True),
        ("squeue -h -s -o x%Px", "xmainx", False),
        ("squeue -h -s -o x%Px -p main", "xmainx", True),
        ("scontrol show partition main", "PartitionName=main", False),
        ("scontrol show partition closed", "PartitionName=closed", False),
        ("scontrol -a show partition main", "PartitionName=main", True),
    ],
)
def test_a_user_sees_what_is_named(
    site: ReferenceCluster, monkeypatch: pytest.MonkeyPatch, words: str, sign: str, is_shown: bool
) -> None:
    """Seen of 22.05; `scontrol show partition NAME` alone wants --all for it."""
    printed = run_command(monkeypatch, site, "alice", words.split())
    assert (sign in printed.stdout) == is_shown, printed
    if "scontrol" in words and not is_shown:
        assert (printed.code, "not found" in printed.stdout + printed.stderr) == (1, True)
    assert sign in run_command(monkeypatch, site, "root", words.split()).stdout
