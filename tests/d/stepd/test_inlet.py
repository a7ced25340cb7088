"""Standard input that goes on to tasks."""

from __future__ import annotations

import os
import pty

import pytest

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.stepd.step_streams import Inlet


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"hostname\nexit 3",), [b"hostname\n", b"exit 3\n"]),
        ((b"exit", b" 3\n"), [b"exit 3\n"]),
        ((), []),
    ],
)
def test_a_terminal_ends_after_its_last_line(chunks: tuple[bytes, ...], lines: list[bytes]) -> None:
    """Amid a line, its end-of-file character would only hand the line on."""
    outer, inner = pty.openpty()
    try:
        inlet = Inlet(PollLoop(), outer, lambda: None, is_terminal=True)
        for chunk in (*chunks, b""):
            inlet.put(chunk)
        assert [os.read(inner, 4096) for _ in (*lines, b"")] == [*lines, b""]
    finally:
        os.close(outer)
        os.close(inner)
