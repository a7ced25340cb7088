"""Options that are accepted without effect are named, those that have one are not."""

from __future__ import annotations

from pathlib import Path

import pyslurm_ng
from pyslurm_ng.conf.effective import NO_EFFECT
from pyslurm_ng.conf.tables.options import OPTIONS
from tests.model.clusters import FOUR_NODES, conf_of


def test_every_word_named_is_one_that_exists() -> None:
    """A word that nobody can write would be a mistake here."""
    for key, word in NO_EFFECT:
        if key in OPTIONS:
            assert word in {name.lower() for name, *_ in OPTIONS[key]}, word


def test_every_scheduler_parameter_works_or_is_named() -> None:
    """A word that is not named as without effect must be asked for somewhere."""
    source = Path(pyslurm_ng.__file__).parent
    paths = (path for part in ("cli", "ctld", "sched") for path in (source / part).rglob("*.py"))
    text = "".join(path.read_text() for path in paths)
    for name, *_ in OPTIONS["SchedulerParameters"]:
        is_named = ("SchedulerParameters", name.lower()) in NO_EFFECT
        assert is_named or f'"{name.lower()}"' in text, name


def test_words_without_effect_are_named_with_the_reason() -> None:
    """And those that work are not."""
    conf = conf_of(FOUR_NODES + "SchedulerParameters=bf_interval=60,bf_max_job_user=5,bf_smart\n")
    said = [line for line in conf.warnings if "SchedulerParameters" in line]
    assert len(said) == 1
    assert "'bf_interval=60' has no effect: a pass runs as soon as" in said[0]


def test_priority_keys_work_and_are_not_listed() -> None:
    """They were once in the list of keys without effect."""
    text = "PriorityType=priority/multifactor\nPriorityWeightTRES=CPU=10\nPrivateData=jobs\n"
    assert conf_of(FOUR_NODES + text + "PrologFlags=Alloc\n").unsupported == ()
