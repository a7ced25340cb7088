"""Clocks of GPUs around a step, set by a process that may fail or hang."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.d.stepd.supervised import Template

REPEAT = """
import os, sys
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
print({said!r})
"""
HANG = "import time; time.sleep(600)"


@pytest.fixture
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-clocks-") as name:
        made = Template(Path(name))
        yield made
        made.close()


def clocks(code: str, **more: Any) -> dict[str, Any]:
    return {
        "command": [sys.executable, "-I", "-S", "-c", code], "gpus": [0, 2], "graphics": "high",
        "memory": "", "is_verbose": True, "is_asked": True, **more,
    }  # fmt: skip


def test_clocks_are_set_before_the_tasks_and_reset_after_them(template: Template) -> None:
    """`verbose` shows what was chosen."""
    log = template.directory / "log"
    code = REPEAT.format(log=str(log), said="gpu=0 graphics=1980 memory=0")
    end, out = template.run(f"cat {log}", clocks=clocks(code))
    assert end["status"] == 0
    assert sorted(out.splitlines()) == ["GpuFreq=graphics_freq:1980", "set 0,2 high "]
    assert log.read_text() == "set 0,2 high \nreset 0,2\n"


@pytest.mark.parametrize("is_asked", [True, False])
def test_what_cannot_be_set_is_said_to_users_that_asked(template: Template, is_asked: bool) -> None:
    """GpuFreqDef is no wish of the user's, so nobody is told. The step runs in both cases."""
    code = REPEAT.format(log=str(template.directory / "log"), said="problem: NVML: Not Supported")
    _, out = template.run("echo ran", clocks=clocks(code, is_asked=is_asked))
    assert "ran\n" in out
    said = "error: GPU frequency setting: NVML: Not Supported\n"
    assert (said in out) == is_asked


def test_a_driver_that_hangs_delays_a_step_no_longer_than_its_deadline(template: Template) -> None:
    """Only a start that is cancelled does not wait for it at all; here the step is."""
    spec = template.spec("#!/bin/bash\nsleep 600\n", clocks=clocks(HANG))
    step = template.start(spec)
    step.tell(do="terminate", why="", wait_s=0.0)
    end = step.end()
    assert end["status"] & 0x7F in (9, 15)
