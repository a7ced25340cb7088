"""The bytes of PMI-1 and PMI-2, in portions of any size, and bytes that are neither."""

from __future__ import annotations

import pytest

from pyslurm_ng.d.stepd.pmi_messages import (
    MOST_MESSAGE_BYTES,
    BadPmiMessage,
    Command,
    PmiInput,
    pack_pairs,
    reply,
    unpack_pairs,
)


def commands(data: bytes, portion: int) -> list[Command]:
    feed = PmiInput()
    taken: list[Command] = []
    for at in range(0, len(data), portion):
        feed.feed(data[at : at + portion])
        while (command := feed.take()) is not None:
            taken.append(command)
    return taken


def v2(text: str) -> bytes:
    return b"%-6d" % len(text) + text.encode()


@pytest.mark.parametrize("portion", [1, 7, 4096])
def test_lines_of_the_first_version(portion: int) -> None:
    """spawn has lines of its own up to endcmd."""
    data = (
        b"cmd=init pmi_version=1 pmi_subversion=1\n"
        b"mcmd=spawn\nnprocs=2\nexecname=a b\nendcmd\n"
        b"cmd=put kvsname=1.0 key=k value=v\\ w\n"
        b"cmd=barrier_in\n"
    )
    assert commands(data, portion) == [
        ("init", {"pmi_version": "1", "pmi_subversion": "1"}),
        ("spawn", {"nprocs": "2", "execname": "a b"}),
        ("put", {"kvsname": "1.0", "key": "k", "value": "v\\ w"}),
        ("barrier_in", {}),
    ]


@pytest.mark.parametrize("portion", [1, 5, 4096])
def test_the_second_version_follows_a_line_of_the_first(portion: int) -> None:
    """A semicolon in a value is written twice."""
    data = b"cmd=init pmi_version=2 pmi_subversion=0\n" + v2("cmd=kvs-put;key=k;value=a;;b=c;")
    assert commands(data, portion)[1] == ("kvs-put", {"key": "k", "value": "a;b=c"})


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\xfe\x01garbage",
        b"GET / HTTP/1.0\n",
        b"cmd=\n",
        b"\n",
        b"cmd=" + b"x" * (MOST_MESSAGE_BYTES + 1),
        b"mcmd=spawn\n" + b"y\n" * MOST_MESSAGE_BYTES,
        b"cmd=init pmi_version=2\nabcdef",
        b"cmd=init pmi_version=2\n999999cmd=x;",
        b"cmd=init pmi_version=2\n-5    cmd=x;",
        b"cmd=init pmi_version=2\n4     key=",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadPmiMessage):
        commands(data, 1000)


def test_answers_have_the_form_of_the_version() -> None:
    assert reply("get_result", {"rc": "0", "value": "v"}, is_v2=False) == (
        b"cmd=get_result rc=0 value=v\n"
    )
    assert reply("kvs-get-response", {"rc": "0", "value": "a;b"}, is_v2=True) == (
        b"37    cmd=kvs-get-response;rc=0;value=a;;b;"
    )


def test_pairs_of_several_nodes_are_one_after_another() -> None:
    first, second = {"a": "1", "b": ""}, {"c": "\xff" * 300}
    assert unpack_pairs(pack_pairs(first) + pack_pairs(second)) == {**first, **second}
    for cut in (1, 5, 300):
        with pytest.raises(ValueError):
            unpack_pairs(pack_pairs(second)[:-cut])
