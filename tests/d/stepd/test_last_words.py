"""What a step said last reaches an srun that is slow, and that says something itself meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.wire import step_io
from tests.d.stepd.supervised import Reader, Srun, Template
from tests.world.waiting import wait_until

OUTPUT_BYTES = 250_000
FEW_BYTES = 4_096
"""What the kernel keeps for a peer that does not read: the rest stays with the supervisor's."""


@pytest.fixture(name="template")
def _template(tmp_path: Path) -> Iterator[Template]:
    template = Template(tmp_path)
    yield template
    template.close()


def test_output_is_whole_though_srun_speaks_at_the_end(template: Template) -> None:
    """A reset took with it what the kernel had not sent: a node failure instead of the output."""
    step = Srun(template, ["/usr/bin/head", "-c", str(OUTPUT_BYTES), "/dev/zero"], count=1)
    step.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, FEW_BYTES)
    wait_until(lambda: "end" in step_record.read(step.step.path))
    for _ in range(3):
        step.send(step_io.PONG)
    step.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    step.read_all()
    assert step.done and step.exits == {0: 0}
    assert len(step.out[0, step_io.STDOUT]) == OUTPUT_BYTES
    step.step.end()


def test_output_is_whole_though_sattach_speaks_at_the_end(template: Template) -> None:
    """The same beside srun."""
    size = OUTPUT_BYTES
    srun = Srun(template, ["sh", "-c", f"read go; head -c {size} /dev/zero"], count=1)
    reader = Reader(srun.step)
    reader.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, FEW_BYTES)
    while reader.hello == {}:
        assert reader.pump()
    srun.send(step_io.STDIN, body=b"go\n")
    srun.read_all()
    wait_until(lambda: "end" in step_record.read(srun.step.path))
    for _ in range(3):
        reader.send(step_io.PONG)
    reader.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    reader.read_all()
    assert reader.done and len(reader.out[0, step_io.STDOUT]) == size
    srun.step.end()
