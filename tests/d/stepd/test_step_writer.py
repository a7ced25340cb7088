"""What the supervisor writes into files: output with labels, and notices."""

from __future__ import annotations

import os
from pathlib import Path

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.stepd.step_writer import StepWriter


def opened(path: Path) -> int:
    """Return a descriptor for writing into a new file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT)


def test_a_task_may_write_before_the_files_of_others_are_known(tmp_path: Path) -> None:
    """The process that writes has the files of its fork: `srun -l -o %t` lost those added later."""
    writer = StepWriter(PollLoop(), {})
    first = writer.add(opened(tmp_path / "0"))
    writer.put(first, b"0: out\n")
    second = writer.add(opened(tmp_path / "1"))
    writer.begin()
    writer.put(second, b"1: out\n")
    writer.finish()
    assert os.waitpid(writer.pid, 0)[1] == 0
    assert [(tmp_path / name).read_text() for name in "01"] == ["0: out\n", "1: out\n"]


def test_what_came_before_all_files_is_written_at_the_end(tmp_path: Path) -> None:
    """A launch that fails has a notice, and no moment at which all its files were known."""
    writer = StepWriter(PollLoop(), {})
    writer.put(writer.add(opened(tmp_path / "err")), b"why\n")
    assert writer.pid == 0
    writer.finish()
    assert os.waitpid(writer.pid, 0)[1] == 0
    assert (tmp_path / "err").read_text() == "why\n"
