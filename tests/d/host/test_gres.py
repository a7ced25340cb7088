"""Which devices a node has and a task sees."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.conf.gres_conf import empty_gres_conf, parse_gres_conf
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.host import gres
from pyslurm_ng.d.host.device_filter import device_node
from pyslurm_ng.d.host.nvml import DetectedGpu, type_name
from pyslurm_ng.d.node.device_watch import DeviceWatch
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres
from tests.world.logs import LineLog

CONF = parse_slurm_conf(
    "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu,fpga\n"
    "NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Gres=gpu:a100:2,gpu:h100:1,fpga:3\n"
)
NODE = CONF.nodes[0]


def detected(name: str, number: int) -> DetectedGpu:
    """A GPU near the first core."""
    return DetectedGpu(name, f"/dev/nvidia{number}", (0, 1), (-1, 0), f"GPU-{number}", 40000)


def test_lines_number_devices_over_all_types() -> None:
    """The third GPU has number 2, whatever its type."""
    conf = parse_gres_conf(
        "NodeName=n1 Name=gpu Type=a100 File=/dev/x[0-1] Cores=0-3\n"
        "NodeName=n1 Name=gpu Type=h100 File=/dev/y0\n",
        CONF.gres_types,
        CONF.nodes,
    )
    numbered = gres.node_gres(NODE, conf, [])
    assert [
        (node_gres.name, node_gres.type, node_gres.count, node_gres.first_index)
        for node_gres in numbered
    ] == [
        ("gpu", "a100", 2, 0),
        ("gpu", "h100", 1, 2),
        ("fpga", "", 3, 0),
    ]
    assert numbered[0].cores == (b"\x0f", b"\x0f")


def test_detected_gpus_take_the_configured_type_names() -> None:
    """`a100` in slurm.conf matches `nvidia_a100-sxm4-40gb`."""
    devices = [detected("nvidia_a100-sxm4-40gb", 0), detected("nvidia_a100-sxm4-40gb", 1)]
    devices.append(detected("nvidia_h100_80gb_hbm3", 2))
    gpus = gres.node_gres(NODE, empty_gres_conf(), devices)
    assert [(node_gres.type, node_gres.count) for node_gres in gpus] == [
        ("a100", 2),
        ("h100", 1),
        ("", 3),
    ]
    assert gpus[0].cores[0] == b"\x01"


def test_cores_of_another_node_are_an_error() -> None:
    """A gres.conf without NodeName may be that of another node."""
    text = "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nNodeName=n1 CPUs=4 Gres=gpu:1\n"
    nodes = parse_slurm_conf(text + "NodeName=n2 CPUs=16 Gres=gpu:1\n").nodes
    conf = parse_gres_conf("Name=gpu Count=1 Cores=8-15\n", ("gpu",), nodes)
    assert gres.node_gres(nodes[1], conf, [])[0].cores == (b"\x00\xff",)
    with pytest.raises(gres.GresError, match="gres/gpu: this node has no core 15"):
        gres.node_gres(nodes[0], conf, [])


def test_a_configured_type_that_is_not_there_is_an_error() -> None:
    """The node must be drained, not used with other cards."""
    with pytest.raises(gres.GresError, match="h100 is configured but nvidia_a100"):
        gres.node_gres(NODE, empty_gres_conf(), [detected("nvidia_a100", 0)])


def test_product_names_become_types() -> None:
    """As Slurm's nvml plugin writes them."""
    assert type_name("NVIDIA A100-SXM4-40GB") == "nvidia_a100-sxm4-40gb"


def test_confined_devices_are_renumbered() -> None:
    """With ConstrainDevices the job's GPUs count from 0."""
    indexes = gres.indexes([GresAlloc("gpu", "a100", 2, b"\x0c")])
    assert indexes == [2, 3]
    assert gres.visible(indexes, [3], confined=True) == [1]
    assert gres.visible(indexes, [3], confined=False) == [3]


def test_lines_of_slurmd_g() -> None:
    """A line for what is alike, one for each device that has cores or links of its own."""
    conf = parse_gres_conf(
        "Name=gpu Type=a100 File=/dev/x[0-1] Cores=0-3\n"
        "Name=gpu Type=h100 MultipleFiles=/dev/y0,/dev/y1 Links=0,0,-1\n",
        CONF.gres_types,
        CONF.nodes,
    )
    assert gres.conf_lines(gres.node_gres(NODE, conf, []), 8) == [
        "Gres Name=gpu Type=a100 Count=2 Index=0 ID=7696487 File=/dev/x[0-1] Cores=0-3 CoreCnt=8 "
        "Links=(null) Flags=HAS_FILE,HAS_TYPE",
        "Gres Name=gpu Type=h100 Count=1 Index=2 ID=7696487 File=/dev/y0,/dev/y1 Links=0,0,-1 "
        "Flags=HAS_FILE,HAS_TYPE",
        "Gres Name=fpga Type=(null) Count=3 Index=0 ID=1634168934 Links=(null) Flags=",
    ]
    detections = [detected("nvidia_a100", 0), detected("h100", 1), detected("nvidia_a100", 2)]
    lines = gres.conf_lines(gres.node_gres(NODE, empty_gres_conf(), detections), 8)
    assert lines[1].startswith("Gres Name=gpu Type=h100 Count=1 Index=2 ")


def test_the_files_of_one_device_belong_together() -> None:
    """MultipleFiles: the holder of the device may open all of its files, others none."""
    conf = parse_gres_conf(
        "Name=gpu Type=a100 MultipleFiles=/dev/null,/dev/zero\nName=gpu File=/dev/full\n",
        CONF.gres_types,
    )
    gpus = [gres._from_line(line, index, {}) for index, line in enumerate(conf.lines)]
    full, null, zero = (device_node(f"/dev/{name}") for name in ("full", "null", "zero"))
    assert gres.denied_devices(gpus, [GresAlloc("gpu", "a100", 1, b"\x01")]) == (full,)
    assert gres.denied_devices(gpus, [GresAlloc("gpu", "", 1, b"\x02")]) == (null, zero)


def test_a_device_whose_file_has_gone_is_not_there(tmp_path: Path) -> None:
    """The others keep their cores and their UUIDs; a count without files stays as it is."""
    files = tuple(str(tmp_path / f"gpu{number}") for number in range(3))
    for path in files:
        Path(path).touch()
    gpus = NodeGres(
        "gpu", "a100", 3, files=files, cores=(b"\1", b"\2", b"\4"), unique_ids=("a", "b", "c")
    )
    licence = NodeGres("tape", "", 2)
    assert gres.without_missing([gpus, licence]) == (gpus, licence)
    assert gres.missing_files([gpus]) == set()
    Path(files[1]).unlink()
    remaining = NodeGres(
        "gpu", "a100", 2, files=(files[0], files[2]), cores=(b"\1", b"\4"), unique_ids=("a", "c")
    )
    assert gres.without_missing([gpus, licence]) == (remaining, licence)
    assert gres.missing_files([gpus]) == {files[1]}


def watched(*devices: NodeGres) -> Any:
    """A node with these devices, as far as the watch looks at it."""
    configured = SimpleNamespace(devices=devices)
    return SimpleNamespace(configured=configured, log=LineLog(), lost_gpus=frozenset())


def test_slurmd_registers_when_a_device_goes_and_when_it_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "gpu0"
    file.touch()
    registered: list[bool] = []
    gpu = NodeGres("gpu", "", 1, files=(str(file),))
    node = watched(gpu)
    watch = DeviceWatch(node, lambda: None, lambda: registered.append(file.exists()))
    watch.look()
    assert registered == []
    file.unlink()
    watch.look()
    watch.look()
    assert registered == [False]
    assert node.log.lines == [f"can't stat gres.conf file {file}: the device has gone"]
    file.touch()
    watch.look()
    assert registered == [False, True]


def test_a_gpu_that_the_driver_has_lost_is_not_there(tmp_path: Path) -> None:
    """Its file stays. A driver that tells nothing has not found it again."""
    files = tuple(str(tmp_path / f"nvidia{number}") for number in range(2))
    for path in files:
        Path(path).touch()
    gpus = NodeGres("gpu", "", 2, files=files)
    node = watched(gpus)
    told: list[set[int] | None] = [set(), {1}, None, {1}, set()]
    counts: list[int] = []

    def register() -> None:
        counts.append(gres.without_missing([gpus], node.lost_gpus)[0].count)

    watch = DeviceWatch(node, lambda: told.pop(0), register)
    while told:
        watch.look()
    assert counts == [1, 2]
    assert node.log.lines == [
        f"gres.conf file {files[1]}: NVML says that the GPU is lost",
        f"gres.conf file {files[1]} is back",
    ]
