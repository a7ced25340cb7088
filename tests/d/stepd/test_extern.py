"""The supervisor of an extern step: it has no tasks and lasts until it is told to end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.numbers import END_CLEAN, STEP_EXTERN
from pyslurm_ng.d.spool import step_record
from tests.d.stepd.supervised import Template, until_started
from tests.world.waiting import wait_until


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        made = Template(Path(name))
        yield made
        made.close()


def extern(template: Template, **more: Any) -> dict[str, Any]:
    spec = template.spec(step=STEP_EXTERN, tasks=[], programs=[], is_batch=False, **more)
    return {**spec, "script": b"", "name": f"{spec['job']}.extern"}


def test_it_lasts_until_it_is_told_to_end(template: Template) -> None:
    """SIGKILL to the step reaches its processes; the step is there until its job ends."""
    step = template.start(extern(template))
    until_started(step)
    step.tell(do="signal", number=9, scope="all")
    step.tell(do="pids", tag=1)
    assert step.hear() == {"did": "pids", "tag": 1, "tasks": {}, "all": []}
    step.tell(do="terminate", why="", wait_s=30.0)
    end = step.end()
    assert (end["status"], end["error"], end["ntasks"]) == (0, "", 0)
    assert end["flags"] & END_CLEAN


def test_its_supervisor_is_small(template: Template) -> None:
    """12 MiB, with pages that it shares with the template counted in full."""
    step = template.start(extern(template))
    until_started(step)
    wait_until(lambda: "pid" in step_record.read(step.path), "record of the process")
    pid = step_record.read(step.path)["pid"]["pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 12 << 20
    step.tell(do="terminate", why="", wait_s=0.0)
    step.end()
