"""Whatever the fuzzer has found once is tried again each time."""

from __future__ import annotations

import os
import time

import pytest

from tests.fuzz.run import CORPUS, corpus_of
from tests.fuzz.targets import TARGETS, Target, fix_clock

ODD = (
    b"", b"\0", b"\xff" * 64, b"\xed\xa0\x80", b"-" * 300, b"[" * 300, b"(" * 300, b"," * 300,
    b"9" * 300, b"1-" * 300, "\u202e\U0001f600".encode() * 20, b"%s%n%d" * 30, b"a=" * 300,
)  # fmt: skip
"""Texts that have broken parsers elsewhere."""


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("TZ", os.environ.get("TZ", ""))
    fix_clock()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_kept_inputs_do_no_harm(target: Target) -> None:
    """A target raises on a finding: each input is parsed, or refused by the documented error."""
    inputs = [*target.seeds, *ODD, *corpus_of(target.name)]
    for data in inputs:
        target.run(data)
    assert len(inputs) > len(ODD)


def test_every_kept_input_has_a_target() -> None:
    """A target that is renamed must not lose its corpus."""
    kept = {path.name for path in CORPUS.iterdir()} if CORPUS.exists() else set()
    assert kept <= {target.name for target in TARGETS}
