"""What a node has in parts of GPUs, and what jobs with some of them see."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.gres_conf import parse_gres_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.host import gres
from pyslurm_ng.d.spec.environment import GpuView, gpu_variables
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres

HEAD = "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu,shard,mps\n"
CONF = parse_slurm_conf(HEAD + "NodeName=n1 CPUs=8 Gres=gpu:a100:2,gpu:t4:1,shard:10,mps:200\n")
GPUS = "Name=gpu Type=a100 File=/dev/x[0-1]\nName=gpu Type=t4 File=/dev/x2\n"


def parts(lines: str) -> dict[str, tuple[int, ...]]:
    conf = parse_gres_conf(GPUS + lines, CONF.gres_types, CONF.nodes)
    devices = gres.node_gres(CONF.nodes[0], conf, [])
    return {
        f"{node_gres.name}:{node_gres.type}": node_gres.parts
        for node_gres in devices
        if node_gres.name != "gpu"
    }


def test_counts_without_files_are_spread_over_all_gpus() -> None:
    """What is left over goes to the first ones; so do counts that only slurm.conf has."""
    assert parts("Name=shard Count=10\n") == {"shard:": (4, 3, 3), "mps:": (67, 67, 66)}


def test_a_type_is_spread_over_gpus_of_that_type() -> None:
    """The T4 has none."""
    assert parts("Name=shard Type=a100 Count=10\n")["shard:a100"] == (5, 5)


def test_files_say_which_gpu() -> None:
    """Lines of one name and type are one resource."""
    lines = "Name=shard Count=8 File=/dev/x2\nName=shard Count=2 File=/dev/x0\n"
    lines += "Name=mps Count=200 File=/dev/x[0-1]\n"
    assert parts(lines) == {"shard:": (2, 0, 8), "mps:": (100, 100)}


def test_a_shard_without_a_gpu_of_its_file_is_an_error() -> None:
    """The node must be drained, because nothing says which GPU is shared."""
    with pytest.raises(gres.GresError, match="gres/shard: /dev/y0 is the file of no GPU"):
        parts("Name=shard Count=10 File=/dev/y0\n")


def test_parts_need_gpus() -> None:
    """Refused where slurm.conf is read."""
    with pytest.raises(ConfErrors, match="'shard' are parts of GPUs"):
        parse_slurm_conf(HEAD + "NodeName=n1 CPUs=8 Gres=shard:10\n")


def test_the_files_of_other_gpus_are_denied() -> None:
    """A job with shards may open the GPU that they are of, and no other."""
    available = (
        NodeGres("gpu", "", 2, ("/dev/null", "/dev/zero")),
        NodeGres("shard", "", 4, ("/dev/null", "/dev/zero"), parts=(2, 2)),
    )
    shards = (GresAlloc("shard", "", 1, b"\x02"),)
    assert gres.in_parts(shards) == [1]
    assert [node[1:] for node in gres.denied_devices(available, shards)] == [(1, 3)]


def test_percentage_of_threads() -> None:
    """Of what the GPU has in all."""
    available = (NodeGres("gpu", "", 2), NodeGres("mps", "", 400, parts=(200, 200)))
    assert gres.mps_percentage(available, (GresAlloc("mps", "", 50, b"\x01"),)) == 25
    assert gres.mps_percentage(available, (GresAlloc("mps", "", 1, b"\x01"),)) == 1
    assert gres.mps_percentage(available, (GresAlloc("gpu", "", 1, b"\x01"),)) == 0


def test_gpus_in_parts_are_visible_but_not_the_jobs() -> None:
    """GPUs in parts are visible, but are not GPUs of the job."""
    variables = gpu_variables(GpuView((), (1,), (1,), in_parts=True, shards=3), is_step=True)
    assert variables["CUDA_VISIBLE_DEVICES"] == "1"
    assert variables["SLURM_SHARDS_ON_NODE"] == "3"
    assert not {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"} & set(
        variables
    )
    variables = gpu_variables(
        GpuView((), (0,), (0,), in_parts=True, mps_percentage=25), is_step=False
    )
    assert variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert gpu_variables(GpuView((), (), (), in_parts=True), is_step=True) == dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
        "",
    )
