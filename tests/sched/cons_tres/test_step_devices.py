"""Which of its job's devices and cores a step gets, drawn as one node of two sockets."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.model.node import NodeGres, NodeSpec
from pyslurm_ng.sched.cons_tres.step_select import Lack, NodeShare, StepPlace, place
from tests.sched.cons_tres.exact_steps import exact_step

# Two sockets of 4 cores with two GPUs near each; 0 and 2, 1 and 3 are well linked.
LEFT, RIGHT = b"\x0f", b"\xf0"
LINKS = ((-1, 1, 4, 1), (1, -1, 1, 4), (4, 1, -1, 1), (1, 4, 1, -1))
NEAR = NodeGres("gpu", "", 4, cores=(LEFT, LEFT, RIGHT, RIGHT))
LINKED = NodeGres("gpu", "", 4, links=LINKS)


def share(gres: NodeGres, cores: int = 0xFF, gpus: int = 0xF) -> NodeShare:
    """A job that has the whole node; `cores` and `gpus` are what its steps have left."""
    spec = NodeSpec("g", cpus=8, sockets=2, cores_per_socket=4, gres=(gres,))
    alloc = NodeAlloc(0, 8, b"\xff", 0, 8, (GresAlloc("gpu", "", 4, b"\x0f"),))
    return NodeShare(0, alloc, spec, cores, 0, {("gpu", ""): (gpus.bit_count(), gpus)})


def step(
    on: NodeShare, gpus: int = 0, per_task: int = 0, ntasks: int = 1, cpus: int = 1
) -> tuple[int, int] | Lack:
    """Return the masks of cores and GPUs of an exact step."""
    need = exact_step(
        ntasks=ntasks,
        cpus_per_task=cpus,
        gres_per_task=(("gpu", "", per_task),) if per_task else (),
        gres_total=(("gpu", "", gpus),) if gpus else (),
    )
    step_place = place(need, [on])
    if not isinstance(step_place, StepPlace):
        return step_place
    alloc = step_place.allocs[0]
    mask = sum(int.from_bytes(gres.indexes, "little") for gres in alloc.gres)
    on.cores &= ~int.from_bytes(alloc.cores, "little")
    return int.from_bytes(alloc.cores, "little"), mask


def test_steps_side_by_side_have_gpus_of_their_own() -> None:
    """The fifth finds none left."""
    node = share(NEAR)
    masks = [step(node, gpus=1) for _ in range(4)]
    assert masks == [(0x01, 0b0001), (0x02, 0b0010), (0x10, 0b0100), (0x20, 0b1000)]
    assert step(node, gpus=1) is Lack.GRES


def test_a_steps_gpus_are_near_cores_that_are_left() -> None:
    assert step(share(NEAR, cores=0xF0), gpus=1) == (0x10, 0b0100)
    assert step(share(NEAR), per_task=1, ntasks=2, cpus=2) == (0x0F, 0b0011)
    assert step(share(NEAR, gpus=0b1100), gpus=2, cpus=4) == (0xF0, 0b1100)


def test_a_steps_gpus_are_well_linked() -> None:
    assert step(share(LINKED), gpus=2)[1] == 0b0101  # type: ignore[index]
    assert step(share(LINKED, gpus=0b1110), gpus=2)[1] == 0b1010  # type: ignore[index]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=8), st.booleans())
def test_no_core_and_no_gpu_is_in_two_steps(wants: list[tuple[int, int]], linked: bool) -> None:
    """Steps one after another, none of them over."""
    node = share(LINKED if linked else NEAR)
    cores = gpus = 0
    for count, cpus in wants:
        masks = step(node, gpus=count, cpus=cpus)
        if isinstance(masks, Lack):
            continue
        assert not masks[0] & cores and not masks[1] & gpus
        assert masks[1].bit_count() == count
        cores |= masks[0]
        gpus |= masks[1]
