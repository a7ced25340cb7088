"""Nodes of a pretended cluster have host names of their own where the kernel allows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyslurm_ng.up import host_names
from pyslurm_ng.up.files import node_names

WHY_NOT = host_names.why_not()


def test_each_node_has_a_loopback_address_of_its_own() -> None:
    """Also beyond one network's 254."""
    addresses = [host_names.address_of(number) for number in range(1, 4097)]
    assert (addresses[0], addresses[253], addresses[254]) == (
        "127.64.0.1",
        "127.64.0.254",
        "127.64.1.1",
    )
    assert len(set(addresses)) == 4096


def test_the_hosts_file_begins_with_the_hosts_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So that what resolves on the host resolves in jobs."""
    own = tmp_path / "hosts"
    own.write_text("127.0.0.1 localhost\n10.0.0.7 files")
    monkeypatch.setattr(host_names, "HOSTS", own)
    assert host_names.hosts_text(node_names(2)).splitlines() == [
        "127.0.0.1 localhost",
        "10.0.0.7 files",
        "127.64.0.1 n1",
        "127.64.0.2 n2",
    ]


def test_a_kernel_that_forbids_it_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which call was refused, and how: an administrator may want to allow it."""

    def refuse(name: str, hosts: Path) -> None:
        raise OSError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(host_names, "enter", refuse)
    assert host_names.why_not() == "unshare: Operation not permitted"


@pytest.mark.skipif(bool(WHY_NOT), reason=f"no namespaces here: {WHY_NOT}")
def test_a_program_sees_its_hosts_name_and_the_others(tmp_path: Path) -> None:
    """And this host keeps its name and its hosts file."""
    hosts = tmp_path / "hosts"
    hosts.write_text(host_names.hosts_text(node_names(3)))
    before = Path("/etc/hosts").read_bytes()
    seen = subprocess.run(
        ["sh", "-c", "uname -n; getent hosts n1 n3"],
        preexec_fn=host_names.entry("n2", hosts),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split() for line in seen.stdout.splitlines()] == [
        ["n2"],
        ["127.64.0.1", "n1"],
        ["127.64.0.3", "n3"],
    ]
    assert Path("/etc/hosts").read_bytes() == before
    own = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True)
    assert own.stdout != "n2\n"
