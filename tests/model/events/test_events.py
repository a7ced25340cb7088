"""Each event does to the cluster what its case says, no more, and the same when it is replayed."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from tests.model.events import job_cases, run_cases, site_cases
from tests.model.events.effect import Case, after, effect

CASES = [*job_cases.CASES, *run_cases.CASES, *site_cases.CASES]
KINDS = ev.AnyEvent.__args__  # type: ignore[attr-defined]
every_case = pytest.mark.parametrize(
    "case", CASES, ids=[f"{type(case.event).__name__}: {case.says}" for case in CASES]
)


@every_case
def test_an_event_changes_what_its_case_says_and_nothing_else(case: Case) -> None:
    cluster, changed = effect(case)
    assert changed == case.changes
    if type(case.event) is not ev.TimesMoved:  # the one event that moves recorded time back
        assert cluster.time_us == max(case.event.time_us, after(*case.before).time_us)
    assert check(cluster) == []


@every_case
def test_an_event_replays_from_the_journal_to_the_same_cluster(case: Case) -> None:
    """From an empty state, and from a checkpoint that was written just before it."""
    live = after(*case.before, case.event)
    replayed = after(*decode_batch(encode_batch([*case.before, case.event])))
    assert replayed.digest() == live.digest()
    restored = Cluster.from_bytes(after(*case.before).to_bytes())
    apply_all(restored, decode_batch(encode_batch([case.event])))
    assert restored.digest() == live.digest()
    assert check(restored) == []


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_every_class_of_event_has_a_case(kind: type[ev.Event]) -> None:
    """And a case that changes something, but for the one event that changes nothing."""
    of_kind = [case for case in CASES if type(case.event) is kind]
    assert of_kind
    assert any(case.changes for case in of_kind) == (kind is not ev.ScriptStored)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_every_field_of_an_event_has_a_value_in_a_case(kind: type[ev.Event]) -> None:
    """A field that no case sets could be lost in the journal, or by `apply`."""
    of_kind = [case.event for case in CASES if type(case.event) is kind]
    unset = [
        field.name
        for field in msgspec.structs.fields(kind)
        if all(getattr(event, field.name) == field.default for event in of_kind)
    ]
    assert unset == []
