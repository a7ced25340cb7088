"""Requests in the short form of the Cluster: they read as they were asked, and alike ones share."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.kept_request import (
    OWN_FIELDS,
    Known,
    changed_request,
    kept_request,
    own_length,
    shared_part,
    whole_request,
)
from pyslurm_ng.sched.demand.demand import Demands

FIELDS = {field.name: field for field in msgspec.structs.fields(JobRequest)}
VALUES: dict[type, st.SearchStrategy[Any]] = {str: st.text(max_size=3), int: st.integers(0, 1000)}
PLAIN = {name: VALUES[field.type] for name, field in FIELDS.items() if field.type in VALUES}


def other_value(name: str) -> object:
    """Return a value that the field does not have by itself."""
    default = FIELDS[name].default
    if isinstance(default, str):
        return "other"
    if isinstance(default, int):
        return default + 1
    return (("NOFILE", 1, 2),) if name == "rlimits" else ("other",)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: VALUES[field.type] for name, field in FIELDS.items() if field.type in VALUES
        },
    )
)
def test_a_kept_request_reads_as_it_was_asked(given_fields: dict[str, Any]) -> None:
    asked = JobRequest(**given_fields)
    kept = kept_request(asked, {}, {})
    assert [getattr(kept, name) for name in FIELDS] == [getattr(asked, name) for name in FIELDS]
    assert whole_request(kept) == asked


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_may_be_changed(name: str) -> None:
    asked = JobRequest(name="a", ntasks=2)
    value = other_value(name)
    changed = changed_request(kept_request(asked, {}, {}), **{name: value})
    assert changed == msgspec.structs.replace(asked, **{name: value})


def test_jobs_alike_but_for_names_and_files_hold_one_shared_part() -> None:
    known: Known = {}
    first = kept_request(JobRequest(name="a", std_out="a.out", ntasks=2), known, {})
    other = kept_request(JobRequest(name="b", std_out="b.out", ntasks=2), known, {})
    bigger = kept_request(JobRequest(name="b", std_out="b.out", ntasks=3), known, {})
    assert shared_part(first) is shared_part(other)
    assert shared_part(first) is not shared_part(bigger)
    assert sys.getsizeof(first) < sys.getsizeof(JobRequest()) / 4


def test_equal_requests_in_a_row_are_one_object() -> None:
    known: Known = {}
    first = kept_request(JobRequest(name="a", ntasks=2), known, {})
    kept_request(JobRequest(name="a", ntasks=3), known, {})
    assert kept_request(JobRequest(name="a", ntasks=2), known, {}) is first


def test_a_kept_request_is_not_shortened_again() -> None:
    kept = kept_request(JobRequest(name="a"), {}, {})
    assert kept_request(kept, {}, {}) is kept


@pytest.mark.parametrize("name", OWN_FIELDS)
def test_what_is_not_shared_does_not_decide_where_a_job_fits(name: str) -> None:
    demands = Demands()
    plain = demands.shape_id(JobRequest())
    assert demands.shape_id(JobRequest(**{name: other_value(name)})) == plain


def test_arguments_are_one_text() -> None:
    """65,536 empty words took half a megabyte of each job, and counted for nothing."""
    argv = ("",) * 60_000 + ("a b", "", "é")
    kept = kept_request(JobRequest(argv=argv), {}, {})
    assert kept.argv == argv
    assert sys.getsizeof(kept.words) < 2 * len(argv) + 100  # type: ignore[attr-defined]
    size = len("".join(argv).encode()) + len(argv)
    assert own_length(kept) == own_length(JobRequest(argv=argv)) == size


def test_long_texts_are_not_kept_beyond_their_job() -> None:
    """What is kept to be shared outlives its job, so each change of a comment would stay."""
    known: Known = {}
    often: dict[Any, Any] = {}
    long = "x" * 60_000
    for number in range(3):
        own = {"submit_line": f"{number}{long}", "comment": f"{number}{long}", "argv": (long,)}
        kept_request(JobRequest(**own), known, often)
        kept_request(JobRequest(node_list=f"n{number},{long}"), known, often)
    kept = [*often, *known, *(newest for (newest,) in known.values())]
    assert all(len(text) < 60_000 for text in often if isinstance(text, str))
    assert max(len(msgspec.msgpack.encode(each)) for each in kept) < 60_000
