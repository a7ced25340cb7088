"""CPUs of tasks on a host of two sockets, four cores each, two threads a core."""

from __future__ import annotations

import pytest

from pyslurm_ng.d.binding import BindError, HostCores, bind_tasks, bind_text, cpu_mask

# Threads are numbered as Linux does: the second thread of core c is c + 8.
HOST = HostCores(tuple((core, core + 8) for core in range(8)), 4)


def bind(cores: int, tasks: int, per_task: int = 1, how: str = "", **more: object) -> object:
    options: dict[str, object] = {"automatic": True, **more}
    distribution = str(options.pop("distribution", "block:block"))
    return bind_tasks(HOST, cores, tasks, per_task, how, distribution, **options)  # type: ignore[arg-type]


def test_one_core_each() -> None:
    assert bind(0b1111, 2, 2) == [(0, 8), (1, 9)]


def test_tasks_go_over_sockets_by_default() -> None:
    assert bind(0b00110011, 2, 2, distribution="block") == [(0, 8), (4, 12)]


def test_nothing_is_bound_unless_asked_or_configured() -> None:
    assert bind(0b1111, 2, automatic=False) == [(), ()]
    assert bind(0b1111, 2, how="none") == [(), ()]


def test_a_pretended_core_binds_nothing() -> None:
    """A node may say that it has more cores than its host."""
    assert bind(1 << 20, 2) == [(), ()]


def test_maps_and_masks_are_kept_inside_the_allocation() -> None:
    """A user cannot bind to cores of others; where nothing is left, all of the step's serve."""
    assert bind(0b0011, 3, how="map_cpu:1,9,5") == [(1,), (9,), (0, 1, 8, 9)]
    assert bind(0b0011, 1, how="mask_cpu:0x103") == [(0, 1, 8)]


def test_bad_lists_are_refused() -> None:
    with pytest.raises(BindError, match="is not a number"):
        bind(1, 1, how="map_cpu:x")
    with pytest.raises(BindError, match="not supported yet"):
        bind(1, 1, how="mask_ldom:1")


def test_what_the_environment_says() -> None:
    said = bind_text("mask_cpu", [(0,), (1, 2)], verbose=False)
    assert said["SLURM_CPU_BIND"] == "quiet,mask_cpu:0x1,0x6"
    assert bind_text("mask_cpu", [(), ()], verbose=True)["SLURM_CPU_BIND"] == "verbose,none"


def test_masks_for_the_kernel_are_whole_words() -> None:
    assert cpu_mask((0, 65)) == b"\x01" + bytes(7) + b"\x02" + bytes(7)


def test_tasks_by_socket_are_bound_to_their_sockets() -> None:
    """--ntasks-per-socket: no more in a socket even in block order, with all cores held there."""
    left, right = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 12, 13)
    assert bind(0b0011_1111, 2, tasks_per_socket=1) == [left, right]
    assert bind(0b0011_1111, 4, distribution="cyclic", tasks_per_socket=2) == [left, right] * 2
    assert bind(0b0011_1111, 2, how="cores", tasks_per_socket=1) == [(0, 8), (4, 12)]
    assert bind(0b0011_1111, 2, how="none", tasks_per_socket=1) == [(), ()]
