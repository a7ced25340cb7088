"""CPUs of tasks on a host of two sockets, four cores each, two threads a core.

The masks are those that Slurm 22.05 gives on such a node.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.base.bind_words import cpu_bind
from pyslurm_ng.d.host.binding import (
    BindError,
    CpuIds,
    HostCores,
    TaskNeeds,
    bind_line,
    bind_tasks,
    bind_variables,
    cpu_mask,
    host_cores,
)

LEFT, RIGHT = tuple(range(8)), tuple(range(8, 16))
HOST = HostCores(tuple((2 * core, 2 * core + 1) for core in range(8)), 4, ((0, LEFT), (1, RIGHT)))
ALL = 0xFF


def bind(cores: int, tasks: int, per_task: int = 1, how: str = "", **more: object) -> list[CpuIds]:
    needs = TaskNeeds(tasks, per_task, **more)  # type: ignore[arg-type]
    return bind_tasks(HOST, cores, cpu_bind(how), needs)


def masks(cores: int, tasks: int, per_task: int = 1, how: str = "", **more: object) -> str:
    bound = bind(cores, tasks, per_task, how, **more)
    return ",".join(f"{sum(1 << cpu for cpu in cpus):04X}" for cpus in bound)


@pytest.mark.parametrize(
    ("cores", "tasks", "per_task", "expected"),
    [
        (ALL, 2, 1, "00FF,FF00"),  # as many tasks as sockets
        (ALL, 8, 1, "0003,0300,000C,0C00,0030,3000,00C0,C000"),  # ... as cores
        (0b0001_0001, 4, 1, "0001,0100,0002,0200"),  # ... as threads
        (0b1111, 4, 2, "0003,000C,0030,00C0"),
        (ALL, 2, 8, "00FF,FF00"),
        (0b1, 1, 1, "0003"),
        (ALL, 1, 1, "FFFF"),  # nothing agrees: all of the step's
        (ALL, 6, 1, ",".join(["FFFF"] * 6)),
        (0b0001_0001, 3, 1, "0303,0303,0303"),
        (0b0001_0001, 2, 1, "0003,0300"),  # sockets held in part do not count as sockets
    ],
)
def test_automatic_binding(cores: int, tasks: int, per_task: int, expected: str) -> None:
    """Tasks are bound by themselves when their CPUs are as many as sockets, cores or threads."""
    assert masks(cores, tasks, per_task) == expected


@pytest.mark.parametrize(
    ("how", "tasks", "per_task", "layout", "expected"),
    [
        ("sockets", 4, 1, "", "00FF,FF00,00FF,FF00"),
        ("sockets", 2, 1, "block:block", "00FF,00FF"),
        ("cores", 4, 1, "", "0003,0300,000C,0C00"),
        ("cores", 10, 1, "", "0003,0300,000C,0C00,0030,3000,00C0,C000,0003,0300"),
        ("cores", 3, 3, "", "000F,0F00,00F0"),
        ("cores", 3, 3, "block:block", "000F,00F0,0F00"),
        ("cores", 2, 3, "block:fcyclic", "0303,0C0C"),
        ("threads", 3, 3, "", "0007,0700,0038"),
        ("threads", 3, 3, "block:block", "0007,0038,01C0"),
        ("threads", 2, 3, "block:fcyclic", "0103,0604"),
        ("threads", 4, 1, "", "0001,0100,0002,0200"),
        ("threads", 4, 1, "block:block:cyclic", "0001,0002,0004,0008"),
        ("threads,one_thread", 4, 1, "", "0001,0100,0004,0400"),
        ("ldoms", 2, 1, "", "00FF,FF00"),
    ],
)
def test_kinds_and_distributions(
    how: str, tasks: int, per_task: int, layout: str, expected: str
) -> None:
    assert masks(ALL, tasks, per_task, how, distribution=layout) == expected


def test_defaults_of_the_configuration() -> None:
    """A default kind holds where --cpu-bind names none. Autobind holds where nothing else fits."""
    assert masks(ALL, 3, kind="threads") == "0001,0100,0002"
    assert masks(ALL, 3, how="verbose", kind="cores") == "0003,0300,000C"
    assert masks(ALL, 3, how="none", kind="cores") == "0000,0000,0000"
    assert masks(ALL, 3, kind="none") == "0000,0000,0000"
    assert masks(ALL, 3, fallback="cores") == "0003,0300,000C"
    assert masks(ALL, 2, fallback="cores") == "00FF,FF00"


def test_one_thread_of_each_core() -> None:
    """--threads-per-core=1 with the binding to threads that it brings."""
    assert masks(ALL, 4, kind="threads", threads_per_core=1) == "0001,0100,0004,0400"


def test_a_pretended_core_binds_nothing() -> None:
    """A node may say that it has more cores than its host."""
    assert bind(1 << 20, 2) == [(), ()]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("rank", "0001,0002,0004"),
        ("map_cpu:0,5", "0001,0020,0001"),
        ("map_cpu:0*2,1", "0001,0001,0002"),
        ("mask_cpu:f,ff0", "000F,0FF0,000F"),
        ("rank_ldom", "00FF,FF00,00FF"),
        ("map_ldom:1", "FF00,FF00,FF00"),
        ("mask_ldom:1,3", "00FF,FFFF,00FF"),
    ],
)
def test_binding_by_hand(how: str, expected: str) -> None:
    assert masks(ALL, 3, how=how) == expected


def test_binding_by_hand_takes_a_whole_node() -> None:
    """The numbers are the host's, which mean nothing where only some CPUs are held."""
    with pytest.raises(BindError, match=r"^Entire node must be allocated for map_cpu$"):
        bind(0b0011, 3, how="map_cpu:1,9")
    text = r"^CPU binding outside of job step allocation, allocated CPUs are: 0xFFFF\.$"
    with pytest.raises(BindError, match=text):
        bind(ALL, 3, how="map_cpu:99")
    with pytest.raises(BindError, match=text):
        bind(ALL, 3, how="mask_cpu:fffff")


def test_what_the_environment_says() -> None:
    """Words as they were said; what was found out as masks, as wide as the host."""

    def said(how: str, cpus_of_tasks: list[CpuIds]) -> str:
        return bind_variables(HOST, cpu_bind(how), cpus_of_tasks)["SLURM_CPU_BIND"]

    assert said("cores", [(0, 1), (2, 3)]) == "quiet,mask_cpu:0x0003,0x000C"
    assert said("verbose", [LEFT + RIGHT] * 3) == "verbose,mask_cpu:0xFFFF"
    assert said("map_cpu:0*2,1", [(0,), (0,), (1,)]) == "quiet,map_cpu:0,0,1"
    assert said("rank", [(0,)]) == "quiet,rank"
    assert said("verbose,none", [(), ()]) == "verbose,none"
    assert said("verbose", [(), ()]) == "verbose,none"
    parts = bind_variables(HOST, cpu_bind("mask_cpu:0x1,0x3"), [(0,), (0, 1)])
    assert parts["SLURM_CPU_BIND_LIST"] == "1,3"
    assert parts["SLURM_CPU_BIND_TYPE"] == "mask_cpu:"
    assert parts["SLURM_CPU_BIND_VERBOSE"] == "quiet"


def test_what_verbose_prints() -> None:
    """As Slurm's line; the process id is filled in when the process exists."""
    assert bind_line(cpu_bind("verbose"), "n1", 11, 3, (0, 1)) == (
        "cpu-bind=MASK - n1, task 11  3 [\1]: mask 0x3 set\n"
    )
    assert bind_line(cpu_bind("v,map_cpu:0"), "n1", 0, 0, (0,)) == (
        "cpu-bind=MAP  - n1, task  0  0 [\1]: mask 0x1 set\n"
    )
    assert bind_line(cpu_bind("v,none"), "n1", 0, 0, ()).startswith("cpu-bind=NONE - n1, task")


def test_masks_for_the_kernel_are_whole_words() -> None:
    assert cpu_mask((0, 65)) == b"\x01" + bytes(7) + b"\x02" + bytes(7)


def test_tasks_by_socket_are_bound_to_their_sockets() -> None:
    """--ntasks-per-socket: no more in a socket, even in block order.

    All cores stay with the step.
    """
    first, right = tuple(range(8)), (8, 9, 10, 11)
    assert bind(0b0011_1111, 2, tasks_per_socket=1, distribution="block:block") == [first, right]
    assert bind(0b0011_1111, 4, distribution="cyclic", tasks_per_socket=2) == [first, right] * 2
    assert bind(0b0011_1111, 2, how="cores", tasks_per_socket=1) == [(0, 1), (8, 9)]
    assert bind(0b0011_1111, 2, how="none", tasks_per_socket=1) == [(), ()]


def test_the_host_is_read(tmp_path: Path) -> None:
    """Cores with their threads in the order of sockets, and NUMA nodes; no CPU that is offline."""
    (tmp_path / "cpu/cpu8").mkdir(parents=True)
    for cpu in range(8):
        core = tmp_path / f"cpu/cpu{cpu}/topology"
        core.mkdir(parents=True)
        (core / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (core / "core_id").write_text(f"{cpu % 2}\n")
        (tmp_path / f"node/node{cpu % 4 // 2}/cpu{cpu}").mkdir(parents=True)
    host = host_cores(str(tmp_path))
    assert host.cpus == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert host.per_socket == 2
    assert host.memory_nodes == ((0, (0, 1, 4, 5)), (1, (2, 3, 6, 7)))
