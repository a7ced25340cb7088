"""scontrol update NodeName= of what a cloud knows of its machines."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.model import events as ev
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command


def run(patch: pytest.MonkeyPatch, reference: ReferenceCluster, line: str) -> Printed:
    """Run a command line of scontrol as root."""
    return run_command(patch, reference, "root", ["scontrol", *line.split()])


def instances(reference: ReferenceCluster) -> list[tuple[str, str]]:
    """Return id and type of each node's machine."""
    nodes = reference.cluster.living_nodes()
    return [(node.instance_id, node.instance_type) for node in nodes]


def test_one_instance_or_one_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume program tells all the nodes that it started in one call."""
    reference = queue()
    line = "update NodeName=n[3,1-2] InstanceId=i-c,i-[7-8] InstanceType=m5.large"
    assert run(monkeypatch, reference, line) == Printed("", "", 0)
    large = "m5.large"
    assert instances(reference) == [("i-7", large), ("i-8", large), ("i-c", large), ("", "")]
    shown = run(monkeypatch, reference, "show node n2").stdout
    assert "InstanceId=i-8\n" in shown and "InstanceType=m5.large\n" in shown
    assert run(monkeypatch, reference, "update node=n1 instanceid=") == Printed("", "", 0)
    assert instances(reference)[0] == ("", large)


@pytest.mark.parametrize("value", ["a,b,c", "i-[1-3]", "x" * 256, "i-[", "i-[1-99999999]"])
def test_other_counts_and_lengths_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names the key, and no node is changed."""
    reference = queue()
    before = instances(reference)
    for key in ("InstanceId", "InstanceType"):
        printed = run(monkeypatch, reference, f"update NodeName=n[1-2] {key}={value} Weight=9")
        assert printed.stderr.startswith(f"{key}: ") and printed.code == 1
        assert printed.stderr.endswith("slurm_update error: Invalid node name specified\n")
    assert instances(reference) == before
    assert reference.cluster.node(0).weight != 9


def test_a_registration_sets_the_instance_or_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slurmd without --instance-id does not know its machine."""
    reference = queue()
    run(monkeypatch, reference, "update NodeName=n1 InstanceId=i-1 InstanceType=small")
    node = reference.cluster.node(0)
    for facts, expected in (
        (node.facts, ("i-1", "small")),
        (msgspec.structs.replace(node.facts, instance_id="i-2"), ("i-2", "small")),
    ):
        reference.apply(
            [ev.NodeRegistered(time_us=reference.now_us, node_id=0, facts=facts, state=node.state)]
        )
        assert instances(reference)[0] == expected


def hosts(reference: ReferenceCluster) -> list[tuple[str, str]]:
    """Return where each node is, as messages to it go."""
    nodes = reference.cluster.living_nodes()
    return [(node.facts.addr or node.spec.addr, node.spec.hostname) for node in nodes]


def test_nodes_get_other_addresses_and_host_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume program tells where the machines are that it started, one for each node."""
    reference = queue()
    before = hosts(reference)
    line = "update NodeName=n[1-2] NodeAddr=10.0.0.[7-8] NodeHostName=cloud[3-4]"
    assert run(monkeypatch, reference, line) == Printed("", "", 0)
    assert hosts(reference)[:2] == [("10.0.0.7", "cloud3"), ("10.0.0.8", "cloud4")]
    assert hosts(reference)[2:] == before[2:]
    shown = run(monkeypatch, reference, "show node n2").stdout
    assert "NodeAddr=10.0.0.8 NodeHostName=cloud4 " in shown


@pytest.mark.parametrize("value", ["", "a", "a,b,c", "x" * 256 + ",b", "a[", "a[1-99999999]"])
@pytest.mark.parametrize("key", ["NodeAddr", "NodeHostName"])
def test_other_counts_of_addresses_are_refused(
    key: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Slurm there is one for each node; no node is changed."""
    reference = queue()
    before = hosts(reference)
    printed = run(monkeypatch, reference, f"update NodeName=n[1-2] {key}={value}")
    assert printed == Printed("", "slurm_update error: Invalid node name specified\n", 1)
    assert hosts(reference) == before


def test_an_address_that_a_node_says_itself_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next registration with an address replaces what an administrator wrote."""
    reference = queue()
    node = reference.cluster.node(0)
    facts = msgspec.structs.replace(node.facts, addr="10.0.0.1")
    at = {"time_us": reference.now_us, "node_id": 0, "state": node.state}
    reference.apply([ev.NodeRegistered(facts=facts, **at)])  # type: ignore[arg-type]
    run(monkeypatch, reference, "update NodeName=n1 NodeAddr=10.0.0.9")
    assert hosts(reference)[0][0] == "10.0.0.9"
    reference.apply([ev.NodeRegistered(facts=facts, **at)])  # type: ignore[arg-type]
    assert hosts(reference)[0][0] == "10.0.0.1"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("core", "CpuBind=cores "), ("Threads", "CpuBind=threads "), ("none", "CpuBind=none ")],
)
def test_nodes_get_another_default_binding(
    value: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown behind the architecture, as in Slurm; `off` takes it away."""
    reference = queue()
    assert run(monkeypatch, reference, f"update NodeName=n1 CpuBind={value}").code == 0
    assert shown in run(monkeypatch, reference, "show node n1").stdout.splitlines()[0] + " "
    assert run(monkeypatch, reference, "update NodeName=n1 CpuBind=off").code == 0
    assert "CpuBind" not in run(monkeypatch, reference, "show node n1").stdout
