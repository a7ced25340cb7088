"""Limits on TRES are changed by amounts: `cpu+=10`, `mem-=500`."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd.limits import (
    ASSOCIATION_LIMITS,
    QOS_LIMITS,
    LimitSpec,
    LimitValueError,
    Stored,
    parse_limit,
    show_limit,
)

TRES_LIMITS = [spec for spec in (*ASSOCIATION_LIMITS, *QOS_LIMITS) if spec.kind == "tres"]


@pytest.mark.parametrize("spec", TRES_LIMITS, ids=lambda spec: spec.name)
def test_amounts_grow_and_shrink(spec: LimitSpec) -> None:
    """Each by itself, a limit that is not set from 0; what is not named keeps its amount."""
    stored: Stored = {}
    parse_limit(stored, spec, "cpu=10,mem=1000,node=4")
    parse_limit(stored, spec, "cpu+=5,mem-=500,gres/gpu+=2")
    assert show_limit(stored, spec) == "cpu=15,mem=500M,node=4,gres/gpu=2"
    parse_limit(stored, spec, "cpu-=15,node=-1,mem+=1G")
    assert show_limit(stored, spec) == "cpu=0,mem=1524M,gres/gpu=2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu-=11", " Bad MaxTRESPerJob value: cpu-=11: the limit is 10"),
        ("node-=1", " Bad MaxTRESPerJob value: node-=1: the limit is 0"),
        ("cpu+=x", "sacctmgr: error: Invalid unit type 'x'. Possible options are 'KMGTP'"),
        ("foo+=1", "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type foo"),
        ("cpu+=-1", " Bad MaxTRESPerJob value: cpu=-1: not a number with an optional suffix "
         "K, M, G, T or P: -1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(text: str, said: str) -> None:
    """No limit falls below 0."""
    spec = next(spec for spec in ASSOCIATION_LIMITS if spec.name == "MaxTRESPerJob")
    with pytest.raises(LimitValueError) as problem:
        parse_limit({"MaxTRESPerJob": {"cpu": 10}}, spec, text)
    assert str(problem.value) == said
