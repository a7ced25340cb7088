"""What the tasks of a step run: the programs of one request, once in the step's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyslurm_ng.d.spec.job_spec import step_spec
from pyslurm_ng.d.spec.node_setup import Account, SpecError
from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire import node_messages as nm
from tests.compat.node_room import Node

TASKS = 500


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def spec(node: Node, programs: list[nm.Program], **more: Any) -> dict[str, Any]:
    """Return what the supervisor of 500 tasks is told."""
    known = msgspec.structs.replace(node.credential(0), step_tasks=(tuple(range(TASKS)),))
    request = nm.LaunchStep(credential=b"", programs=programs, **more)
    return step_spec(node.setup.node, known, request, Account((0,)))


def test_arguments_of_many_tasks_are_there_once(node: Node) -> None:
    """500 tasks with 5 MB of arguments took 4.7 GB of slurmd's memory, and its loop for minutes."""
    long = ["x" * 1000] * 5000
    made = spec(node, [nm.Program(long)])
    assert made["programs"] == [long]
    assert {task["program"] for task in made["tasks"]} == {0}
    assert len(pack(made)) < 6 << 20


@pytest.mark.parametrize(
    ("words", "environment"),
    [(["x" * 100] * 60_000, b""), (["x"], b"A=1\0" * 600_000), (["x"], b"A=" + b"1" * (7 << 20))],
)
def test_what_no_exec_takes_is_refused(node: Node, words: list[str], environment: bytes) -> None:
    with pytest.raises(SpecError, match=r"Argument list too long: .* 6291456 are allowed"):
        spec(node, [nm.Program(words)], environment=environment)


@pytest.mark.parametrize(("freq", "is_refused"), [("0", True), ("31", True), ("30", False)])
def test_a_step_with_a_memory_limit_is_sampled_often_enough(
    node: Node, freq: str, *, is_refused: bool
) -> None:
    """As with Slurm 22.05, and as a whole job is refused at its submission."""
    if not is_refused:
        assert spec(node, [nm.Program(["a"])], acctg_freq=freq)["tasks"]
        return
    with pytest.raises(SpecError, match="Invalid accounting frequency requested"):
        spec(node, [nm.Program(["a"])], acctg_freq=freq)


def test_each_task_has_the_first_program_that_names_it(node: Node) -> None:
    """The others have the last program that names no task."""
    programs = [nm.Program(["a"], [0, 2]), nm.Program(["b"], [2, 3, 9999]), nm.Program(["c"]),
                nm.Program(["d"])]  # fmt: skip
    made = spec(node, programs, program="/tmp/sent.%N")
    run = [made["programs"][task["program"]] for task in made["tasks"]]
    assert run[:5] == [["a"], ["/tmp/sent.n1"], ["a"], ["b"], ["/tmp/sent.n1"]]


@pytest.mark.parametrize("programs", [[nm.Program(["a"], [0])], [nm.Program([])]])
def test_a_task_without_a_program_is_refused(node: Node, programs: list[nm.Program]) -> None:
    with pytest.raises(SpecError, match="no program for task"):
        spec(node, programs)


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, ("/dev/null", "/dev/null")),
        ({"std_err": "all"}, (None, None)),
        ({"stderr_task": 1}, ("/dev/null", None)),
        ({"std_err": "/e"}, ("/e", "/e")),
    ],
)
def test_standard_error_goes_with_the_output_unless_srun_wants_it(
    node: Node, fields: dict[str, Any], errors: tuple[str | None, ...]
) -> None:
    """`srun -o none -e all` lost what tasks wrote to standard error."""
    route = nm.RouteToSrun("h", 1, b"k")
    made = spec(node, [nm.Program(["p"])], std_out="/dev/null", route=route, **fields)
    assert tuple(task["err"] for task in made["tasks"][:2]) == errors
