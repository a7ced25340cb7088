"""Every field of every message has a bound, and the decoder keeps to it (issue 12, item 1).

RELIABILITY 43 and 54.
"""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyslurm_ng.kernels.records import is_lean
from pyslurm_ng.model.job import Usage
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.wire import table
from pyslurm_ng.wire.field_bounds import check_bounded
from pyslurm_ng.wire.job_messages import MAX_OPTION_BYTES
from pyslurm_ng.wire.messages import MessageError, decode_request
from tests.fuzz.messages import beyond, bodies, packed, requests

SUBMISSION = {"request_id": bytes(16), "script": b"#!/bin/sh\n"}


def refusal(kind: str, body: object) -> str:
    """Return what a body is refused with, or nothing."""
    try:
        decode_request(kind, packed(body))
    except MessageError as error:
        return error.text
    return ""


_ALL_OPTIONS = "StoreCrontab: at most 1048576 bytes are allowed for all options"


@pytest.mark.parametrize("kind", requests())
def test_each_field_is_refused_just_beyond_its_bound(kind: str) -> None:
    """The refusal is one line that names the field and says what is allowed there."""
    most = table.row(kind).max_bytes
    for case in beyond(kind):
        if len(packed(case.body)) > most:
            continue  # the length of the whole decides first
        said = refusal(kind, case.body)
        if said == _ALL_OPTIONS and kind == "StoreCrontab":
            continue  # the length of all options together decides first
        expected = f"{case.field}: {case.allowed} are allowed"
        if kind in ("NodeOrders", "NodeReports"):  # records of several types: see `refusal`
            assert said.endswith(" are allowed"), case.path
        else:
            assert said == expected, case.path
        assert refusal(kind, case.at_bound) == "", case.path


@pytest.mark.parametrize("kind", requests())
@settings(
    max_examples=int(os.environ.get("EXAMPLES", "25")),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(st.data())
def test_what_is_within_all_bounds_is_decoded(kind: str, data: st.DataObject) -> None:
    """The decoder uses the bounds in the table."""
    body = packed(data.draw(bodies(kind)))
    if len(body) > table.row(kind).max_bytes:
        return
    message = decode_request(kind, body)
    assert isinstance(message, table.row(kind).struct)
    assert decode_request(kind, table.encode(message)) == message


class _Unbounded(msgspec.Struct):
    text: str


def test_what_a_node_says_of_itself_is_bounded_too() -> None:
    """It comes inside RegisterNode as bytes, and is decoded by its own type."""
    for blob in (NodeFacts, Usage):
        check_bounded(blob.__name__, msgspec.inspect.type_info(blob))
    with pytest.raises(TypeError, match=r"_Unbounded\.text"):
        check_bounded("_Unbounded", msgspec.inspect.type_info(_Unbounded))


def test_every_bound_is_listed_for_the_reference_page() -> None:
    """`table.bounds` leaves no field out and has words for each."""
    for kind in requests():
        struct = table.row(kind).struct
        listed = table.bounds(kind)
        assert {bound.path.split(".")[0].split("[")[0].split("{")[0] for bound in listed} >= {
            field.name for field in msgspec.structs.fields(struct) if field.name != "filter"
        } - {"request", "components", "route", "programs", "frames", "jobs"}
        assert all(bound.allowed for bound in listed), kind


@pytest.mark.parametrize(
    ("request_body", "said"),
    [
        ({"time_limit_min": -(2**63)}, "time_limit_min: 0 to 4294967295 are allowed"),
        ({"comment": "x" * (40 << 20)}, "SubmitJob: at most 4194304 bytes are allowed for all"),
        ({"comment": "x" * 70_000}, "comment: at most 65536 characters are allowed"),
        ({"wckey": "w" * 200}, "wckey: at most 128 characters are allowed"),
        ({"dependency": "singleton," * 20_000}, "dependency: at most 131072 characters are"),
        ({"constraint": "a&" * 20_000 + "a"}, "constraint: at most 4096 characters are allowed"),
        ({"core_spec": 2**62}, "core_spec: 0 to 65535 are allowed"),
        ({"signal_before_s": -(2**63)}, "signal_before_s: 0 to 65535 are allowed"),
        ({"umask": 2**63 - 1}, "umask: 0 to 511 are allowed"),
        ({"mail_type": 2**62}, "mail_type: 0 to 2047 are allowed"),
        ({"wait_all_nodes": -(2**62)}, "wait_all_nodes: 0 to 4294967294 are allowed"),
        ({"rlimits": [["RTPRIO", 99, 99]]}, "rlimits: only AS, CORE, CPU, DATA, FSIZE, MEMLOCK"),
    ],
)
def test_what_stopped_the_cluster_is_refused_with_one_clear_line(
    request_body: dict[str, object], said: str
) -> None:
    """C1, C2, C3, H3, H7, M4 of the review of 22 November 2026, each from one user's message."""
    assert refusal("SubmitJob", SUBMISSION | {"request": request_body}).startswith(said)


def test_a_million_names_do_not_make_a_step() -> None:
    """M7: it took 10 ms to decode them, before all other users' commands."""
    body = {"request_id": bytes(16), "job_id": 1, "task_nodes": ["n1"] * (1 << 20)}
    assert refusal("CreateStep", body) == "task_nodes: at most 65536 items are allowed"


def test_options_are_limited_beside_a_large_script() -> None:
    """A script and an environment may be large, not what has to be taken apart."""
    words = ["x" * 100_000] * 20
    whole = SUBMISSION | {"request": {"argv": words}, "script": b"s" * (64 << 20)}
    assert refusal("SubmitJob", whole) == ""
    whole["components"] = [{"argv": words}] * 2
    assert "bytes are allowed for all options" in refusal("SubmitJob", whole)


@given(
    st.dictionaries(
        st.text("abc", max_size=3), st.text("xyz", max_size=30) | st.binary(max_size=300)
    ),
    st.integers(0, 200),
)
def test_lean_bytes_are_those_outside_of_byte_strings(
    body: dict[str, str | bytes], most: int
) -> None:
    lean = sum(
        len(packed(key)) + (0 if isinstance(value, bytes) else len(packed(value)))
        for key, value in body.items()
    )
    assert is_lean(packed(body), most) == (lean <= most)


@given(st.binary(max_size=60), st.integers(0, 80))
def test_lean_never_reads_beyond_its_bytes(body: bytes, most: int) -> None:
    """For any bytes the answer is yes or no."""
    assert is_lean(body, most) in (True, False)


def test_the_lean_limit_is_the_same_for_all_submissions() -> None:
    for kind in ("SubmitJob", "AllocateJob", "TestJob"):
        assert table.row(kind).max_lean_bytes == MAX_OPTION_BYTES
