"""The dashboard and the alert rules in etc ask for families that the controller has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from pyslurm_ng.ctld.metrics.pages import own_page
from pyslurm_ng.ctld.queries.diagnostics import counters_of
from pyslurm_ng.ctld.slices import at_once
from tests.ctld.metrics.scene import GOLDEN, scene

ETC = Path(__file__).parents[1] / "etc"


def known_families() -> set[str]:
    reference = scene()
    more = [("loop_late_seconds", "", "gauge", 0.0)]
    counters = counters_of(reference.cluster, reference.soft)
    ours = at_once(own_page(counters, reference.soft, more))
    names = {line.split()[2] for line in ours if line.startswith("# TYPE")}
    for path in GOLDEN.glob("*.txt"):
        names |= {line.split()[0] for line in path.read_text().splitlines()}
    return names


def families_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:slurm|pyslurm)_\w+", expression))


def test_the_dashboard_asks_for_families_that_exist() -> None:
    dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert all(families_in(expression) for expression in asked)
    assert {name for expression in asked for name in families_in(expression)} <= known_families()


def test_alerts_ask_for_families_that_exist() -> None:
    groups = yaml.safe_load((ETC / "prometheus-rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0
    asked = {name for rule in rules for name in families_in(rule["expr"])}
    assert asked <= known_families()
