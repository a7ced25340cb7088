"""Counters of InfiniBand cards, network interfaces and Lustre, in trees as real hosts have them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.meter.traffic import Traffic, TrafficError, infiniband, interfaces, lustre
from tests.world.waiting import wait_until

# /proc/fs/lustre/llite/work-ffff9d8e4d0bb800/stats of a client of Lustre 2.15
LLITE = """\
snapshot_time             1700000000.123456789 secs.nsecs
start_time                1699990000.123456789 secs.nsecs
elapsed_time              10000.000000000 secs.nsecs
read_bytes                {reads} samples [bytes] 4096 4194304 {read_bytes} 17592186044416
write_bytes               {writes} samples [bytes] 1 4194304 {written_bytes} 17592186044416
read                      9 samples [usecs] 3 77 180 4000
open                      12 samples [usecs] 1 400 900 90000
"""


def write_card(root: Path, card: str, port: int = 1, **counters: int) -> None:
    """Write the counters of a port as mlx5_core shows them, in a tree of /sys."""
    folder = root / f"sys/class/infiniband/{card}/ports/{port}/counters"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("port_rcv_packets", "port_xmit_packets", "port_rcv_data", "port_xmit_data"):
        (folder / name).write_text(f"{counters.get(name, 0)}\n")
    (folder / "symbol_error").write_text("0\n")


def write_mount(root: Path, mount: str, inner: str = "proc/fs/lustre/llite", **sums: int) -> None:
    folder = root / inner / mount
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stats").write_text(LLITE.format(**sums))


def test_data_of_infiniband_is_counted_in_words_of_four_bytes(tmp_path: Path) -> None:
    """Two cards of a node with two rails add up; another port is not counted."""
    root = f"{tmp_path}/"
    for card in ("mlx5_0", "mlx5_1"):
        write_card(tmp_path, card, port_rcv_packets=5, port_rcv_data=100, port_xmit_data=10)
        write_card(tmp_path, card, port=2, port_rcv_data=999)
    traffic = Traffic(lambda: infiniband(1, root))
    traffic.sample()
    assert traffic.totals() == [0, 0, 0, 0]
    write_card(tmp_path, "mlx5_1", port_rcv_packets=8, port_rcv_data=350, port_xmit_data=60)
    traffic.sample()
    assert traffic.totals() == [3, 0, 1000, 200]
    with pytest.raises(TrafficError, match="no card has counters of port 7"):
        infiniband(7, root)


def test_a_counter_that_begins_again_loses_nothing_it_has(tmp_path: Path) -> None:
    """A card that was reset, and one that came later; the next meter goes on."""
    root = f"{tmp_path}/"
    write_card(tmp_path, "mlx5_0", port_rcv_data=1000)
    traffic = Traffic(lambda: infiniband(1, root))
    traffic.sample()
    write_card(tmp_path, "mlx5_0", port_rcv_data=10)
    write_card(tmp_path, "mlx5_9", port_rcv_data=50_000)
    traffic.sample()
    assert traffic.totals() == [0, 0, 40, 0]
    write_card(tmp_path, "mlx5_9", port_rcv_data=50_001)
    following = Traffic(lambda: infiniband(1, root), traffic.state())
    following.sample()
    assert following.totals() == [0, 0, 44, 0]


def test_interfaces_that_are_named_are_summed(tmp_path: Path) -> None:
    for name, count in (("ib0", 7), ("ib1", 5), ("eth0", 1000)):
        folder = tmp_path / f"sys/class/net/{name}/statistics"
        folder.mkdir(parents=True)
        for file in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"):
            (folder / file).write_text(f"{count * len(file)}\n")
    counts = interfaces(["ib0", "ib1", "../x"], f"{tmp_path}/")
    assert counts == {"ib0": (70, 70, 56, 56), "ib1": (50, 50, 40, 40)}
    with pytest.raises(TrafficError, match="there is no ib7 or ib8"):
        interfaces(["ib7", "ib8"], f"{tmp_path}/")


@pytest.mark.parametrize("inner", ["proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite"])
def test_lustre_tells_reads_and_writes(tmp_path: Path, inner: str) -> None:
    """Of the file `stats`, wherever the client's version has it."""
    sums = {"reads": 3, "read_bytes": 3000, "writes": 2, "written_bytes": 8 << 20}
    write_mount(tmp_path, "work-ffff9d8e4d0bb800", inner, **sums)
    counts = lustre(f"{tmp_path}/")
    assert counts == {"work-ffff9d8e4d0bb800": (3, 2, 3000, 8 << 20)}
    with pytest.raises(TrafficError, match="no Lustre file system is mounted"):
        lustre(f"{tmp_path}/none/")


def test_a_mount_without_io_so_far_counts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "proc/fs/lustre/llite/home-ffff"
    folder.mkdir(parents=True)
    (folder / "stats").write_text("snapshot_time 1.5 secs.usecs\nread_bytes 9 samples [by")
    assert lustre(f"{tmp_path}/") == {"home-ffff": (0, 0, 0, 0)}


def test_the_meters_file_has_both(tmp_path: Path) -> None:
    """A real meter over a recorded tree, as slurmd starts it."""
    write_card(tmp_path, "mlx5_0", port_rcv_data=1000)
    sums = {"reads": 1, "read_bytes": 100, "writes": 0, "written_bytes": 0}
    write_mount(tmp_path, "work-ffff", **sums)
    path = str(tmp_path / snapshot.FILE)
    settings = (
        f'{{"path": "{path}", "pause_s": 0.1, "gpus": false, "energy": [], "ipmi_s": 30, '
        f'"ipmi_limit_s": 10, "ipmi_sensors": [], "root": "{tmp_path}/", "traffic": '
        '[["network", "ofed", 1], ["filesystem", "lustre", 0]]}\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pyslurm_ng.d.meter"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(settings.encode())
        process.stdin.flush()
        wait_until(lambda: "filesystem" in snapshot.read(path))
        write_card(tmp_path, "mlx5_0", port_rcv_data=2000)
        write_mount(tmp_path, "work-ffff", **{**sums, "writes": 4, "written_bytes": 4096})
        wait_until(lambda: snapshot.read(path).get("network") == [0, 0, 4000, 0])
        wait_until(lambda: snapshot.read(path).get("filesystem") == [0, 4, 0, 4096])
        assert not select.select([process.stdout], [], [], 0)[0], os.read(
            process.stdout.fileno(), 1000
        )
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
