"""Fields of a request by Slurm's names: what scripts read and what their writing does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.numbers import (
    NO_VAL,
    NO_VAL16,
    REQ_EXCLUSIVE,
    REQ_HOLD,
    REQ_MEM_SET,
    REQ_NO_REQUEUE,
    REQ_OVERSUBSCRIBE,
)
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.policy.constants import MEM_PER_CPU, NICE_OFFSET, NO_VAL64
from pyslurm_ng.policy.job_fields import FIELDS, FieldError, UnknownField, set_field


def read(name: str, **request: Any) -> object:
    return FIELDS[name].read(request)


def written(name: str, value: object, **request: Any) -> dict[str, Any]:
    set_field(request, FIELDS.get(name), name, value)
    msgspec.convert(request, JobRequest)  # it has only fields of a request, within their bounds
    return request


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("time_limit", NO_VAL),
        ("min_nodes", NO_VAL),
        ("num_tasks", NO_VAL),
        ("cpus_per_task", NO_VAL16),
        ("ntasks_per_node", NO_VAL16),
        ("requeue", NO_VAL16),
        ("shared", NO_VAL16),
        ("nice", NO_VAL),
        ("priority", NO_VAL),
        ("pn_min_memory", NO_VAL64),
        ("min_mem_per_node", None),
        ("min_mem_per_cpu", None),
        ("begin_time", 0),
        ("account", None),
        ("gres", None),
        ("min_cpus", 1),
    ],
)
def test_what_was_not_given_reads_as_in_slurm(name: str, mark: object) -> None:
    """Numbers have Slurm's marks, texts are nil: scripts compare with both."""
    assert read(name) == mark


@pytest.mark.parametrize(
    ("name", "request_fields", "value"),
    [
        ("time_limit", {"time_limit_min": 60}, 60),
        ("features", {"constraint": "fast"}, "fast"),
        ("req_nodes", {"node_list": "n1"}, "n1"),
        ("nice", {"nice": 5}, NICE_OFFSET + 5),
        ("priority", {"flags": REQ_HOLD}, 0),
        ("shared", {"flags": REQ_EXCLUSIVE}, 0),
        ("requeue", {"flags": REQ_NO_REQUEUE}, 0),
        ("min_mem_per_node", {"mem_per_node_mib": 5}, 5),
        ("min_mem_per_node", {"flags": REQ_MEM_SET}, 0),
        ("pn_min_memory", {"mem_per_cpu_mib": 100}, MEM_PER_CPU + 100),
        ("begin_time", {"begin_us": 5_000_000}, 5),
        ("delay_boot", {"delay_boot_min": 5}, 300),
        ("gres", {"gres": "gpu:2,fan:1", "gpus_per_node": "a:1"},
         "gres/gpu:2,gres/fan:1,gres/gpu:a:1"),
        ("tres_per_job", {"gpus": "4"}, "gres/gpu:4"),
        ("mem_per_tres", {"mem_per_gpu_mib": 7}, "gres/gpu:7"),
        ("min_cpus", {"ntasks": 2, "cpus_per_task": 3}, 6),
        ("argc", {"argv": ["a", "b"]}, 2),
    ],
)  # fmt: skip
def test_what_was_given_reads_as_in_slurm(
    name: str, request_fields: dict[str, Any], value: object
) -> None:
    """Units and marks are Slurm's, not ours."""
    assert read(name, **request_fields) == value


@pytest.mark.parametrize(
    ("name", "value", "request_fields"),
    [
        ("time_limit", "17", {"time_limit_min": 17}),
        ("time_limit", 5.7, {"time_limit_min": 5}),
        ("time_limit", NO_VAL, {}),
        ("comment", 5, {"comment": "5"}),
        ("gres", "gpu:1", {"gres": "gpu:1"}),
        ("tres_per_node", "gres:gpu:a:1", {"gres": "gpu:a:1"}),
        ("tres_per_job", "gres/gpu:2", {"gpus": "2"}),
        ("shared", 1, {"flags": REQ_OVERSUBSCRIBE}),
        ("min_mem_per_cpu", 30, {"flags": REQ_MEM_SET, "mem_per_cpu_mib": 30}),
        ("pn_min_memory", 40, {"flags": REQ_MEM_SET, "mem_per_node_mib": 40}),
        ("nice", NICE_OFFSET + 100, {"flags": 1 << 23, "nice": 100}),
        ("begin_time", 7, {"begin_us": 7_000_000}),
        ("min_cpus", 4, {"ntasks": 4}),
        ("account", None, {}),
    ],
)
def test_what_is_written_becomes_part_of_the_request(
    name: str, value: object, request_fields: dict[str, Any]
) -> None:
    """Numbers may be texts and texts numbers, as in Lua; nil takes a value back."""
    assert written(name, value) == request_fields


def test_a_priority_lets_a_held_job_go() -> None:
    """--hold is a priority of 0, so another priority ends it."""
    assert written("priority", 77, flags=REQ_HOLD) == {"priority": 77}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_limit", "abc"),
        ("time_limit", -5),
        ("time_limit", {}),
        ("time_limit", float("inf")),
        ("partition", {}),
        ("partition", True),
        ("tres_per_job", "fan:1"),
        ("mem_per_tres", "gpu:x"),
    ],
)
def test_a_value_that_is_none_is_refused(name: str, value: object) -> None:
    """With the field's name."""
    with pytest.raises(FieldError, match=name):
        written(name, value)


@pytest.mark.parametrize("name", ["nosuch", "user_id", "script", "alloc_node"])
def test_a_field_that_cannot_be_set(name: str) -> None:
    """The caller logs it: Slurm goes on."""
    with pytest.raises(UnknownField):
        written(name, 1)


def test_cpus_that_the_tasks_of_all_nodes_have_change_nothing() -> None:
    """A script may say what is so already: a task on each of two nodes."""
    assert written("min_cpus", 4, nodes_min=2, cpus_per_task=2) == {
        "nodes_min": 2,
        "cpus_per_task": 2,
    }


def test_nodes_are_folded_as_commands_fold_them() -> None:
    """A list that cannot be read is refused later, as it is."""
    assert written("exc_nodes", "n2,n1") == {"exclude": "n[1-2]"}
    assert written("exc_nodes", "n1,n[") == {"exclude": "n1,n["}
