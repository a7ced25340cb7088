"""What slurmd tells a supervisor is what `step_contract` says, key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.spool.step_contract import StepSpec, TaskSpec
from pyslurm_ng.kernels.records import pack, unpack
from tests.compat.node_room import Node
from tests.d.stepd.supervised import Template


def holds(spec: Any) -> bool:
    tasks = spec["tasks"]
    return set(spec) == StepSpec.__required_keys__ and bool(
        tasks and all(set(task) == TaskSpec.__required_keys__ for task in tasks)
    )


def test_scripts_and_steps_get_every_key(tmp_path: Path) -> None:
    """mypy checks the values. A key that only one side has would be found by a user."""
    node = Node(tmp_path)
    assert holds(node.batch("true"))
    assert holds(node.step())
    assert holds(unpack(pack(dict(node.step()))))


def test_the_specification_of_tests_is_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Supervisors are tried with one that is written by hand."""
    made = Template(tmp_path_factory.mktemp("contract"))
    try:
        assert holds(made.spec())
    finally:
        made.close()
