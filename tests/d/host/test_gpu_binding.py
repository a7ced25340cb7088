"""--gpu-bind and --tres-bind: what they may say, and which GPUs tasks see."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.gpu_bind import GpuBindError, gpu_part, parse_gpu_bind
from pyslurm_ng.d.host.binding import HostCores
from pyslurm_ng.d.host.gpu_binding import gpu_line, near_gpus, task_gpus
from pyslurm_ng.model.node import NodeGres

HELD = [2, 3, 5, 7]
# Two sockets of two cores with two threads each; GPUs 0 and 1 at the first, 2 and 3 at the second.
HOST = HostCores(((0, 4), (1, 5), (2, 6), (3, 7)), 2)
GPUS = [
    NodeGres("gpu", "a100", 2, cores=(b"\x03", b"\x03")),
    NodeGres("gpu", "a40", 2, cores=(b"\x0c", b"\x0c"), first_index=2),
    NodeGres("nic", "", 2, cores=(b"\x01", b"\x02")),
]


@pytest.mark.parametrize(
    ("bind", "local_id", "expected"),
    [
        ("none", 0, HELD),
        ("per_task:2", 1, [5, 7]),
        ("per_task:1", 2, [5]),
        ("single:2", 1, [2]),
        ("single:2", 2, [3]),
        ("single:2", 8, [2]),
        ("verbose,single:1", 3, [7]),
        ("map_gpu:3,0", 0, [7]),
        ("map:3,0", 1, [2]),
        ("map:3,0", 2, [7]),
        ("map_gpu:0*2,1", 1, [2]),
        ("map:", 1, HELD),
        ("mask_gpu:0x3*2,0xc", 2, [5, 7]),
        ("mask:3", 0, [2, 3]),
        ("closest", 0, [5, 7]),
    ],
)
def test_every_kind(bind: str, local_id: int, expected: list[int]) -> None:
    """Lists count from the step's first GPU where devices are confined."""
    view = task_gpus(parse_gpu_bind(bind), HELD, local_id, near={5, 7, 9}, is_confined=True)
    assert (view.seen, view.problem) == (expected, "")


def test_lists_have_the_nodes_numbers_where_devices_are_not_confined() -> None:
    """As the manual of srun has it: they are global there."""
    bind = parse_gpu_bind("map_gpu:5,2")
    assert task_gpus(bind, HELD, 0, near=(), is_confined=False).seen == [5]
    mask = parse_gpu_bind("mask_gpu:0xA0")
    assert task_gpus(mask, HELD, 0, near=(), is_confined=False).seen == [5, 7]


def test_a_list_without_a_gpu_of_the_step_gives_the_first_and_says_so() -> None:
    """In Slurm's words."""
    view = task_gpus(parse_gpu_bind("map_gpu:9"), HELD, 1, near=(), is_confined=True)
    assert view.seen == [2]
    assert view.problem == (
        "Bind request gpu:map_gpu:9 does not specify any devices within the allocation for task 1."
        " Binding to the first device in the allocation instead."
    )
    none = task_gpus(parse_gpu_bind("single:0"), HELD, 1, near=(), is_confined=True)
    assert none.seen == [3]
    assert none.problem == "single:0 does not specify a valid number. Defaulting to 1."


def test_a_step_far_from_all_gpus_may_use_any() -> None:
    """A step may have GPUs of another socket only."""
    view = task_gpus(parse_gpu_bind("closest"), HELD, 0, near=(0, 1), is_confined=True)
    assert view.seen == HELD


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [((0,), {0, 1}), ((5,), {0, 1}), ((3, 6), {2, 3}), ((1, 2), {0, 1, 2, 3})],
)
def test_gpus_are_near_the_threads_of_their_cores(
    cpus: tuple[int, ...], expected: set[int]
) -> None:
    """gres.conf names cores, tasks are bound to the host's CPUs; other devices do not count."""
    assert near_gpus(HOST, GPUS, cpus) == expected


def test_a_gpu_without_known_cores_is_near() -> None:
    """Either gres.conf does not name cores, or it names cores that the host does not have."""
    there = [NodeGres("gpu", "", 2), NodeGres("gpu", "", 1, cores=(b"\xff",), first_index=2)]
    assert near_gpus(HOST, there, (0,)) == {0, 1, 2}


@pytest.mark.parametrize(
    "bind", ["", "foo", "verbose", "quiet,none", "single", "single:-1", "single:x", "none:1",
             "map_gpu", "map_gpu:x", "mask_gpu:zz", "map:0*0", "per_task:", "map:0*x",
             "map_gpu:0x1", "map:a", "map:1_0", "map: 1", "map:-1"],
)  # fmt: skip
def test_other_words_are_refused_as_slurm_does(bind: str) -> None:
    """With the words as they were given; numbers of map are decimal, as in Slurm 22.05."""
    with pytest.raises(GpuBindError) as refused:
        parse_gpu_bind(bind)
    assert str(refused.value).endswith(f"Invalid --gpu-bind argument: gpu:{bind}")


@pytest.mark.parametrize(
    ("bind", "shown", "character"),
    [("map_gpu:x", "x", "x"), ("map_gpu:0x1", "0x1", "x"), ("mask_gpu:0x1,0xfg", "fg", "g"),
     ("map_gpu:0*2,1*2y", "1*2y", "y"), ("map_gpu:-1", "-1", "-")],
)  # fmt: skip
def test_the_first_wrong_character_of_a_list_is_named(
    bind: str, shown: str, character: str
) -> None:
    """On a line of its own, with the part of the list that it stands in."""
    with pytest.raises(GpuBindError) as refused:
        parse_gpu_bind(bind)
    first, _ = str(refused.value).split("\n")
    assert first == f"Failed to validate {shown}, offending character is {character}"


@pytest.mark.parametrize("bind", ["closest,verbose", "none,verbose", "single:1,VERBOSE"])
def test_verbose_may_stand_behind(bind: str) -> None:
    """After a kind without a list, of which it would be a part."""
    binding = parse_gpu_bind(bind)
    assert binding.is_verbose
    assert bind.startswith(binding.word)
    assert "," not in binding.word


def test_tres_bind_names_the_resource() -> None:
    """Of several the part of the GPUs counts."""
    assert gpu_part("gres/gpu:single:2") == "single:2"
    assert gpu_part("gres/nic:closest+gpu:verbose,closest") == "verbose,closest"
    assert gpu_part("gres/nic:closest") == ""
    for wrong in ("closest", "gres/gpu", "gres/gpu:foo", "gres/:closest"):
        with pytest.raises(GpuBindError, match=r"^Invalid --tres-bind argument: "):
            gpu_part(wrong)


def test_verbose_tells_masks_and_numbers() -> None:
    """Those of the node, and those the task sees."""
    view = task_gpus(parse_gpu_bind("verbose,single:1"), HELD, 1, near=(), is_confined=True)
    assert gpu_line(view, HELD, [1]) == (
        "gpu-bind: usable_gres=0x8; bit_alloc=0xAC; local_inx=4; global_list=3; local_list=1\n"
    )
