"""--json has the keys, types and values of Slurm's data parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.data_parser.json_text import encode
from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command

# What the recorded cluster had gone through before, what we name otherwise (ids, flags of Slurm's
# own making, versions), and what is said elsewhere not to be filled in.
UNLIKE = {
    "step_id", "last_sched_evaluation", "job_resources", "billable_tres", "association_id",
    "flags", "operating_system", "cpu_load", "free_mem", "version", "state", "accrue_time",
    "alloc_memory",
    "alloc_cpus", "alloc_idle_cpus", "tres_used", "gres_used",
}  # fmt: skip


def recorded(folder: str, name: str) -> tuple[list[str], dict[str, Any]]:
    """Return the words and the document of a recorded command."""
    case = next(case for case in cases(folder) if case[0] == name)
    document: dict[str, Any] = json.loads(case[3])
    return case[2], document


def ours(
    patch: pytest.MonkeyPatch, folder: str, name: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return our document and the recorded one."""
    words, theirs = recorded(folder, name)
    printed = run_command(patch, queue(), "alice", words)
    assert printed.code == 0 and not printed.stderr
    document: dict[str, Any] = json.loads(printed.stdout)
    return document, theirs


def without(value: Any) -> Any:
    """Leave out what is unlike."""
    if isinstance(value, dict):
        return {key: without(element) for key, element in value.items() if key not in UNLIKE}
    return [without(element) for element in value] if isinstance(value, list) else value


def shape(value: Any) -> Any:
    """Return keys and types only."""
    if isinstance(value, dict):
        return {key: shape(element) for key, element in value.items()}
    return type(value).__name__ if not isinstance(value, list) else "list"


@pytest.mark.parametrize(
    ("folder", "name", "key"),
    [
        ("squeue", "json", "jobs"),
        ("squeue", "json_one", "jobs"),
        ("scontrol", "job_json", "jobs"),
        ("scontrol", "node_json", "nodes"),
        ("scontrol", "partition_json", "partitions"),
        ("sinfo", "json", "sinfo"),
    ],
)
def test_same_keys_in_the_same_order(
    folder: str, name: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts read by key; people compare by eye."""
    mine, theirs = ours(monkeypatch, folder, name)
    assert list(mine) == list(theirs)
    assert list(mine[key][0]) == list(theirs[key][0])
    assert shape(mine[key][0]) == shape(theirs[key][0])
    assert mine["meta"]["command"] == theirs["meta"]["command"]


@pytest.mark.parametrize(
    ("folder", "name", "key", "identity"),
    [
        ("squeue", "json", "jobs", "job_id"),
        ("scontrol", "job_json", "jobs", "job_id"),
        ("scontrol", "node_json", "nodes", "name"),
        ("scontrol", "partition_json", "partitions", "name"),
    ],
)
def test_same_values(
    folder: str, name: str, key: str, identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value that does not tell of the recorded cluster's past."""
    mine, theirs = ours(monkeypatch, folder, name)
    by_id = {record[identity]: without(record) for record in mine[key]}
    assert len(by_id) == len(theirs[key])
    for record in theirs[key]:
        if record[identity] in (17, 28, 32):
            continue
        assert by_id[record[identity]] == without(record)


def test_passes_leave_their_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that came as far as backfill says so, and when any job was last looked at."""
    mine, theirs = ours(monkeypatch, "squeue", "json")
    marks = {"BACKFILL_ATTEMPTED", "SCHEDULING_ATTEMPTED"}
    by_id = [
        {job["job_id"]: marks & set(job["flags"]) for job in jobs["jobs"]}
        for jobs in (mine, theirs)
    ]
    assert by_id[0] == by_id[1]
    assert by_id[0][24] == marks and not by_id[0][21]
    assert all(job["last_sched_evaluation"]["number"] for job in mine["jobs"])


def test_allocation_by_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running job's cores are marked on the node's sockets."""
    mine, theirs = ours(monkeypatch, "squeue", "json_one")
    nodes = [job["jobs"][0]["job_resources"]["nodes"]["allocation"] for job in (mine, theirs)]
    by_core = [
        [
            (socket["index"], core["index"])
            for socket in node[0]["sockets"]
            for core in socket["cores"]
            if "ALLOCATED" in core["status"]
        ]
        for node in nodes
    ]
    assert by_core[0] == by_core[1]


def test_sdiags_document_has_every_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """sdiag's document has all of Slurm's counters."""
    words, theirs = recorded("sdiag", "json")
    printed = run_command(monkeypatch, queue(), "root", words)
    mine = json.loads(printed.stdout)
    assert list(mine["statistics"]) == list(theirs["statistics"])
    assert mine["statistics"]["jobs_running"] == 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_text_is_json(value: Any) -> None:
    """Any text survives: quotes, control characters, other scripts; none commands a terminal."""
    text = encode(value, 0)
    assert json.loads(text) == value
    assert text.replace("\n", "").isprintable()


# Slurm's data parser v0.0.46: the keys of a step, and the JSON type of each.
STEP_KEYS = {
    "int": "array/job_id array/task_id number_cpus number_tasks srun/pid",
    "str": "cluster container container_id tres/per/cpu tres/per/memory tres/per/step "
    "tres/per/node tres/per/socket tres/per/task tres/allocation tres/binding tres/frequency name "
    "network nodes partition reserved_ports runtime srun/host sluid id stderr stdin stdout "
    "stdin_expanded stdout_expanded stderr_expanded submit_line task/distribution user",
    "list": "state",
    "dict": "cpu/frequency/min cpu/frequency/max cpu/frequency/governor time/running time/start "
    "time/limit",
}


@pytest.mark.parametrize("words", ["squeue -s --json", "scontrol show step --json"])
def test_steps_have_the_keys_of_the_data_parser(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each its type; and the numbers of the step itself."""
    printed = run_command(monkeypatch, queue(), "alice", words.split())
    steps = json.loads(printed.stdout)["steps"]
    assert sorted(step["id"] for step in steps)[:2] == ["21.0", "21.1"]
    for step in steps:
        for kind, paths in STEP_KEYS.items():
            for path in paths.split():
                value = step
                for key in path.split("/"):
                    value = value[key]
                assert type(value).__name__ == kind, path
