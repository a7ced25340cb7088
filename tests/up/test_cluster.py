"""When `pyslurm-ng up` takes its nodes for started."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple, cast

import psutil
import pytest

from pyslurm_ng.up import cluster, programs
from pyslurm_ng.up.cluster import are_settled, summary


@pytest.mark.parametrize(
    ("states", "count", "expected"),
    [
        ({"n1": "idle", "c1": "idle~", "c2": "idle#"}, 3, True),
        ({"n1": "idle", "n2": "idle"}, 2, True),
        ({"n1": "idle"}, 2, False),
        ({"n1": "idle", "n2": "down"}, 2, True),
        ({"n1": "drain", "n2": "mix"}, 2, True),
        ({"n1": "idle", "n2": "down*"}, 2, False),
        ({"n1": "idle", "n2": "unk*"}, 2, False),
        ({"n1": "idle", "n2": "inval"}, 2, False),
        ({}, 1, False),
    ],
)
def test_nodes_down_on_purpose_are_not_waited_for(
    states: dict[str, str], count: int, expected: bool
) -> None:
    """A node that its administrator has set DOWN stays so over `down` and `up`."""
    assert are_settled(states, count) is expected


@pytest.mark.parametrize("name", ["(none)", "", ".", "two words", "a,b", "n[1-3]", "$(id)", "#"])
def test_a_host_that_slurm_conf_cannot_name_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux calls a host `(none)` that nobody has named; slurmctld's error did not help."""
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    with pytest.raises(cluster.NotPossible, match=r"^this host is called .*; set a name"):
        cluster._own_name()


@pytest.mark.parametrize("name", ["n1", "A_b-3", "123", "x" * 64])
def test_a_host_keeps_its_short_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A domain is left out, as by `hostname -s`."""
    for full in (name, f"{name}.example.org"):
        monkeypatch.setattr(socket, "gethostname", lambda full=full: full)
        assert cluster._own_name() == name


class Uids(NamedTuple):
    """The uids of a process, as psutil gives them."""

    real: int
    effective: int
    saved: int


class AnotherUsers:
    """A daemon that an ordinary user finds, and may not end."""

    def uids(self) -> Uids:
        return Uids(0, 0, 0)

    def username(self) -> str:
        return "root"


def test_another_users_cluster_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`down` would end none of its daemons, but cancel what jobs the caller has there."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    theirs = programs.Running("slurmd-n1", cast(psutil.Process, AnotherUsers()))
    gone = programs.Running("slurmctld", None)
    assert programs.other_owner([gone, theirs]) == "root"
    assert programs.other_owner([gone]) == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert programs.other_owner([theirs]) == ""


def test_nodes_out_of_service_are_named() -> None:
    assert summary({"n1": "idle"}) == "1 node is idle"
    assert summary({"n1": "idle", "n2": "idle"}) == "2 nodes are idle"
    assert summary({"n1": "idle", "n2": "down"}) == "1 node takes jobs, n2=down"
    assert summary({"n1": "mix", "n2": "idle"}) == "2 nodes take jobs"
