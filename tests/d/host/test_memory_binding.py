"""NUMA nodes of tasks on a host of two."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.bind_words import mem_bind
from pyslurm_ng.d.host.binding import HostCores
from pyslurm_ng.d.host.memory_binding import (
    MemoryPolicy,
    memory_line,
    memory_policy,
    memory_variables,
)

HOST = HostCores(((0,), (1,), (2,), (3,)), 2, ((0, (0, 1)), (1, (2, 3))))
AS_IT_IS, PREFERRED, BIND, LOCAL = -1, 1, 2, 4


@pytest.mark.parametrize(
    ("how", "local", "expected"),
    [
        ("", 0, (AS_IT_IS, 3)),
        ("none", 0, (AS_IT_IS, 3)),
        ("local", 0, (LOCAL, 3)),
        ("rank", 1, (BIND, 2)),
        ("map_mem:1,0", 0, (BIND, 2)),
        ("map_mem:1,0", 3, (BIND, 1)),
        ("mask_mem:3", 0, (BIND, 3)),
        ("prefer,mask_mem:3", 0, (PREFERRED, 1)),
        ("prefer,map_mem:1", 0, (PREFERRED, 2)),
    ],
)
def test_words_of_mem_bind_become_the_kernels_policies(
    how: str, local: int, expected: tuple[int, int]
) -> None:
    assert memory_policy(HOST, mem_bind(how), local, ()) == MemoryPolicy(*expected)


def test_local_is_where_the_tasks_cpus_are() -> None:
    assert memory_policy(HOST, mem_bind("local"), 0, (3,)) == MemoryPolicy(LOCAL, 2)


@pytest.mark.parametrize(
    ("how", "local", "problem"),
    [
        ("rank", 2, "NUMA node 2 does not exist; cannot bind local task 2 to it (--mem-bind=rank)"),
        ("mask_mem:5", 0, "NUMA node 2 does not exist; cannot bind local task 0 to it "
         "(--mem-bind=mask_mem; 0x5)"),
        ("mask_mem:0", 0, "a mask of no NUMA node; cannot bind local task 0 to it "
         "(--mem-bind=mask_mem; 0x0)"),
    ],
)  # fmt: skip
def test_a_task_for_a_node_that_is_not_there_cannot_run(how: str, local: int, problem: str) -> None:
    policy = memory_policy(HOST, mem_bind(how), local, ())
    assert (policy.mode, policy.problem) == (AS_IT_IS, problem)


def test_what_verbose_prints() -> None:
    def line(how: str) -> str:
        words = mem_bind(how)
        return memory_line(words, "n1", 5, 1, memory_policy(HOST, words, 1, ()))

    assert line("v,map_mem:0") == "mem-bind=MAP - n1, task  5  1 [\1]: mask 0x1 set\n"
    assert line("v,none") == "mem-bind=NONE - n1, task  5  1 [\1]: mask 0x3\n"
    assert line("verbose") == "mem-bind=NULL - n1, task  5  1 [\1]: mask 0x3\n"
    assert line("v,p,rank") == "mem-bind PREFER RANK - n1, task  5  1 [\1]: mask 0x2 set\n"


def test_what_the_environment_says() -> None:
    said = memory_variables(mem_bind("v,prefer,mask_mem:0x1"))
    assert said["SLURM_MEM_BIND"] == "verbose,prefer,mask_mem:1"
    assert said["SLURM_MEM_BIND_PREFER"] == "prefer"
    assert "SLURM_MEM_BIND_PREFER" not in memory_variables(mem_bind("local"))
