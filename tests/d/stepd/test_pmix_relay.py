"""PMIx of a real supervisor: with libpmix, tasks that use it; without, a refusal by name."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base import libpmix
from pyslurm_ng.wire import mpi_frames, step_io
from tests.d.stepd.supervised import Srun, Template, until_started
from tests.world.waiting import wait_until

CLIENT = Path(__file__).parents[1] / "pmix" / "client.py"
JOB = f"{os.getpid()}.0"  # tests of others make directories in /tmp, too
HAS_LIBRARY = bool(libpmix.major())
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason="libpmix.so.2 is not installed")


@pytest.fixture(name="template", scope="module")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    template = Template(tmp_path_factory.mktemp("stepd"))
    yield template
    template.close()


class PmixStep(Srun):
    """A step of `count` tasks on one node."""

    def __init__(self, template: Template, *words: str, count: int = 2) -> None:
        self.asked: list[str] = []
        mpi = {
            "kind": "pmix", "job": JOB, "world": JOB, "ranks": count,
            "first_rank": 0, "first_node": 0, "secret": "5" * 32,
            "mapping": f"(vector,(0,1,{count}))", "nodes": ["n1"],
        }  # fmt: skip
        # The rank of a task is in its own variables, which the node daemon makes.
        line = f'PMIX_RANK=$SLURM_PROCID exec {sys.executable} {CLIENT} {count} "$@"'
        argv = ["/bin/sh", "-c", line, "sh", *words]
        env = [b"PATH=/usr/bin:/bin", b"PYTHONPATH=" + os.getcwd().encode() + b"/src"]
        super().__init__(template, argv, count, mpi=mpi, env=env)

    def on_mpi(self, body: bytes) -> None:
        self.asked.append(mpi_frames.parse(body)["do"])


def run(template: Template, *words: str, count: int = 2) -> PmixStep:
    step = PmixStep(template, *words, count=count)
    step.finish()
    return step


@needs_library
@pytest.mark.parametrize("words", [("collect",), ()])
def test_ranks_read_what_all_have_put(template: Template, words: tuple[str, ...]) -> None:
    step = run(template, *words, count=3)
    assert step.exits == {0: 0, 1: 0, 2: 0}, step.out
    for rank in range(3):
        assert step.out[rank, step_io.STDOUT].decode() == f"rank {rank} of 3 on node 0 n1\n"


@needs_library
def test_its_directory_is_removed(template: Template) -> None:
    """Also when the step ends at once."""
    before = set(Path("/tmp").glob(f"pmix.{JOB}.n1.*"))
    run(template, "collect")
    assert set(Path("/tmp").glob(f"pmix.{JOB}.n1.*")) == before


@needs_library
def test_what_a_killed_server_leaves_is_removed(template: Template) -> None:
    """A user that kills its server, or a step that is killed, filled /tmp of the node.

    RELIABILITY 72.
    """
    before = set(Path("/tmp").glob(f"pmix.{JOB}.n1.*"))
    step = PmixStep(template, "sleep", count=1)
    while not step.hello:
        step.pump()
    supervisor = step.hello["pid"]
    until_started(step.step)
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    (made,) = set(Path("/tmp").glob(f"pmix.{JOB}.n1.*")) - before
    (made / "deep" / "deeper").mkdir(parents=True)
    (made / "deep" / "deeper" / "file").touch()
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    step.finish()
    wait_until(lambda: not made.exists(), "removal")


@needs_library
def test_abort_ends_the_step(template: Template) -> None:
    step = run(template, "abort:1")
    assert re.search(r"CANCELLED AT \S+ DUE TO ABORT OF TASK 1", step.notices.decode())
    assert step.asked == ["abort"]


@needs_library
def test_a_rank_that_dies_before_the_others_are_done_ends_the_step(template: Template) -> None:
    step = run(template, "exit:1")
    # The library tells the other at once, which may then be the first that is looked at.
    (notice,) = step.notices.decode().splitlines()
    assert re.search(r"task [01] ended before MPI_Finalize", notice)
    assert step.exits[1] == 3 << 8 and step.exits[0]


@needs_library
def test_srun_is_not_read_while_the_server_is_stopped(template: Template) -> None:
    """The server is a process of the user; what it does not take must not fill root's memory."""
    step = PmixStep(template, "sleep", count=1)
    while not step.hello:
        step.pump()
    supervisor = step.hello["pid"]
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    until_started(step.step)
    server = int(children.read_text().split()[0])  # it was forked before the tasks
    os.kill(server, signal.SIGSTOP)
    answer = {"do": "told", "tag": 1, "status": 0, "data": bytes(256 << 10)}
    frame = mpi_frames.frame(answer)
    step.connection.setblocking(False)
    sent = 0
    unsent = b""
    while sent < 64 << 20 and select.select([], [step.connection], [], 2.0)[1]:
        unsent = unsent or frame
        count = step.connection.send(unsent)
        sent, unsent = sent + count, unsent[count:]
    assert sent < 32 << 20
    step.step.tell(do="signal", number=signal.SIGKILL, scope="all")
    os.kill(server, signal.SIGCONT)
    step.connection.settimeout(30)
    step.finish()


@pytest.mark.skipif(HAS_LIBRARY, reason="libpmix.so.2 is installed")
def test_a_node_without_the_library_says_so(template: Template) -> None:
    step = run(template)
    assert "libpmix.so.2" in step.notices.decode() and step.exits == {}
