"""Flags of gres.conf: which variables tell of GPUs, and by number or by UUID."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.gres_conf import parse_gres_conf
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.host.gpu_names import CUDA, GPU_VARIABLES, ROCR, names_of, variables_of
from pyslurm_ng.d.host.gres import conf_lines, node_gres
from pyslurm_ng.d.host.nvml import DetectedGpu
from pyslurm_ng.d.spec.environment import GpuView, gpu_variables
from pyslurm_ng.model.node import NodeGres

CONF = parse_slurm_conf(
    "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nNodeName=n1 CPUs=4 Gres=gpu:4\n"
)
FOUND = [
    DetectedGpu("nvidia_a100", f"/dev/nvidia{number}", (0,), (), f"GPU-{number}", 40000)
    for number in range(4)
]


def devices(text: str, detected: list[DetectedGpu] | None = None) -> tuple[NodeGres, ...]:
    """Return the GPUs of a node with this gres.conf."""
    return node_gres(
        CONF.nodes[0], parse_gres_conf(text, CONF.gres_types, CONF.nodes), detected or []
    )


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ("", GPU_VARIABLES),
        ("Flags=CountOnly,env_uuid", GPU_VARIABLES),
        ("Flags=nvidia_gpu_env", (CUDA,)),
        ("Flags=amd_gpu_env", (ROCR,)),
        ("Flags=intel_gpu_env", ("ZE_AFFINITY_MASK",)),
        ("Flags=opencl_env,amd_gpu_env", ("GPU_DEVICE_ORDINAL", ROCR)),
        ("Flags=no_gpu_env", ()),
    ],
)
def test_flags_choose_the_variables(flags: str, variables: tuple[str, ...]) -> None:
    """Only those of the makers that are named; without names those of all makers."""
    gpus = devices(f"Name=gpu Count=4 {flags}")
    assert variables_of(gpus, [1, 2]) == variables
    shown = gpu_variables(GpuView((1, 2), (1, 2), (1, 2), variables=variables), is_step=False)
    own = {name: value for name, value in shown.items() if not name.startswith("SLURM")}
    assert own == dict.fromkeys(variables, "1,2")


def test_lines_of_one_type_share_their_flags() -> None:
    """A line without flags has those of the line above it, if both are of one type."""
    gpus = devices(
        "Name=gpu Type=a File=/dev/x0 Flags=amd_gpu_env\nName=gpu Type=a File=/dev/x1\n"
        "Name=gpu Type=b File=/dev/x[2-3] Flags=nvidia_gpu_env\n"
    )
    assert variables_of(gpus, [1]) == (ROCR,)
    assert variables_of(gpus, [3]) == (CUDA,)
    assert variables_of(gpus, [0, 3]) == (CUDA, ROCR)


def test_detected_gpus_are_their_makers() -> None:
    """AutoDetect=nvml sets nvidia_gpu_env, unless a line says otherwise."""
    assert variables_of(devices("AutoDetect=nvml", FOUND), [0]) == (CUDA,)
    lines = "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-3]"
    assert variables_of(devices(lines, FOUND), [0]) == (CUDA,)
    assert variables_of(devices(f"{lines} Flags=opencl_env", FOUND), [0]) == ("GPU_DEVICE_ORDINAL",)
    assert "Flags=HAS_FILE,ENV_NVML" in conf_lines(devices(lines, FOUND), 4)[0]


def test_gpus_may_be_told_by_uuid() -> None:
    """env_uuid: CUDA and ROCm are given UUIDs; where nothing was detected there are none."""
    lines = "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-3] Flags={}\n"
    gpus = devices(lines.format("env_uuid,nvidia_gpu_env,amd_gpu_env"), FOUND)
    names = names_of(gpus, [3, 1])
    assert names == ("GPU-3", "GPU-1")
    view = GpuView((1, 3), (1, 3), (0, 1), names, variables=variables_of(gpus, [3, 1]))
    shown = gpu_variables(view, is_step=True)
    assert (shown[CUDA], shown[ROCR]) == ("GPU-3,GPU-1", "GPU-3,GPU-1")
    assert shown["SLURM_STEP_GPUS"] == "1,3"
    assert names_of(devices(lines.format("nvidia_gpu_env"), FOUND), [1]) == ()
    assert names_of(devices("Name=gpu File=/dev/x[0-3] Flags=env_uuid"), [1]) == ()
