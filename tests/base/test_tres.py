"""TRES strings, GRES requests and the weights of billing."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.tres import (
    BUILTIN_TRES,
    Gres,
    NodeGres,
    TresError,
    format_tres,
    parse_gres,
    parse_node_gres,
    parse_tres,
    parse_tres_per_task,
    parse_weights,
)


def test_tres_print_in_the_order_of_slurms_ids() -> None:
    amounts = parse_tres("gres/gpu=2,node=1,cpu=4,mem=4000M,billing=4,gres/gpu:a100=2")
    assert format_tres(amounts) == "cpu=4,mem=4000M,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2"


def test_sacct_sorts_the_words() -> None:
    """A typed resource comes before its sum, as sacct prints it."""
    amounts = parse_tres("cpu=4,mem=4000M,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2")
    expected = "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=4000M,node=1"
    assert format_tres(amounts, alphabetical=True) == expected


def test_nothing_of_a_resource_is_not_printed() -> None:
    assert format_tres({"cpu": 1, "mem": 0, "gres/gpu": 0}) == "cpu=1"


@pytest.mark.parametrize("text", ["cpu", "foo=1", "gres=2", "cpu=x", "cpu=1,cpu=2", "=1", "mem=1X"])
def test_bad_tres_are_refused(text: str) -> None:
    with pytest.raises(TresError):
        parse_tres(text)


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:2", [Gres("gpu", "", 2)]),
        ("gpu=2", [Gres("gpu", "", 2)]),
        ("gpu:a100", [Gres("gpu", "a100", 1)]),
        ("gpu:a100:2", [Gres("gpu", "a100", 2)]),
        ("gpu:a100=2", [Gres("gpu", "a100", 2)]),
        ("gres/gpu:1", [Gres("gpu", "", 1)]),
        ("gres:gpu:a100:3", [Gres("gpu", "a100", 3)]),
        ("gpu:3g.20gb:1", [Gres("gpu", "3g.20gb", 1)]),
        ("lustre:4K,gpu:1", [Gres("lustre", "", 4096), Gres("gpu", "", 1)]),
        ("none", []),
        ("", []),
        ("gpu:0", []),
        ("gpu:2,gpu:1", [Gres("gpu", "", 1)]),
    ],
)
def test_gres_requests_take_every_spelling(text: str, resources: list[Gres]) -> None:
    assert list(parse_gres(text)) == resources


@pytest.mark.parametrize(
    "text",
    ["gpu:x:y:z", "gpu:", ":1", "gpu:a:b", "gpu:2,gpu:a100:1", "gp u:1", ",".join(["a"] * 257)],
)
def test_bad_gres_requests_are_refused(text: str) -> None:
    with pytest.raises(TresError):
        parse_gres(text)


def test_a_nodes_gres_keeps_its_sockets() -> None:
    resources = parse_node_gres("gpu:a100:4(S:0,1),lustre:no_consume:4K,nic")
    assert resources == (
        NodeGres("gpu", "a100", 4, True, "0,1"),
        NodeGres("lustre", "", 4096, False),
        NodeGres("nic", "", 1),
    )


def test_billing_weights_are_exact() -> None:
    """A quarter for each GiB of 3 GiB is three quarters, without a float on the way."""
    cpu, mem = parse_weights("CPU=1.0,Mem=0.25G")
    assert (cpu.name, cpu.of(4)) == ("cpu", 4_000_000)
    assert (mem.name, mem.of(3072)) == ("mem", 750_000)
    for text in ("CPU", "CPU=x", "CPU=1,CPU=2", "foo=1", "CPU=--1", "CPU=.", "CPU=-"):
        with pytest.raises(TresError):
            parse_weights(text)


def test_a_billing_weight_for_each_kib_is_one_for_each_mib() -> None:
    """So does Slurm 22.05, and a configuration with it starts."""
    (mem,) = parse_weights("Mem=2K")
    assert mem.of(10) == 20_000_000


def test_billing_weights_may_be_negative() -> None:
    """What a site wants to be used makes a job cheaper."""
    cpu, mem = parse_weights("CPU=-1.5,Mem=+2G")
    assert (cpu.of(4), mem.of(3072)) == (-6_000_000, 6_000_000)


AMOUNTS = st.dictionaries(
    st.sampled_from([*BUILTIN_TRES, "gres/gpu", "gres/gpu:a100", "license/matlab"]),
    st.integers(1, 2**40),
)


@given(AMOUNTS)
def test_raw_amounts_read_back(amounts: dict[str, int]) -> None:
    assert parse_tres(format_tres(amounts, raw=True)) == amounts


@pytest.mark.parametrize(
    "text",
    ["", ",", "cpu", "cpu=", "cpu=x", "gres", "gres/", "gres/gpu=", "gres/gpu=x", "gres/gpu,",
     "gres/gpu:a:b=1", "gres/gpu:a:b", "gres/shard:=1", "gres/a b=1", "=1", "gres/gpu=-1"],
)  # fmt: skip
def test_resources_of_a_task_are_well_formed(text: str) -> None:
    """Jobs, steps and updates read them by one parser, and later code takes them as they are."""
    with pytest.raises(TresError):
        parse_tres_per_task(text)


def test_a_resource_of_a_task_without_a_count_is_one() -> None:
    """As for --gres; with a type, too."""
    assert parse_tres_per_task("gres/gpu") == (0, "1", "", ())
    assert parse_tres_per_task("gres/gpu:a100,cpu=2,gres/shard") == (
        2,
        "a100:1",
        "gres/shard=1",
        (),
    )
    assert parse_tres_per_task("gres/fpga:fast") == (0, "", "gres/fpga:fast=1", ())
