"""PMI of a real supervisor, with tasks that speak it without an MPI library."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire import mpi_frames, step_io
from tests.d.stepd.supervised import Srun, Template

CLIENT = Path(__file__).with_name("pmi_client.py")


@pytest.fixture(name="template", scope="module")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    template = Template(tmp_path_factory.mktemp("stepd"))
    yield template
    template.close()


class MpiStep(Srun):
    """A step of `count` tasks on one node, of `nodes` in all."""

    def __init__(
        self, template: Template, version: int, *words: str, count: int = 2, nodes: int = 1
    ) -> None:
        self.asked: list[dict[str, object]] = []
        mpi = {
            "kind": "pmi2", "job": "5.0", "world": "5.0", "ranks": count * nodes, "first_rank": 0,
            "first_node": 0, "mapping": f"(vector,(0,{nodes},{count}))",
            "nodes": [f"n{index}" for index in range(nodes)],
        }  # fmt: skip
        argv = [sys.executable, str(CLIENT), str(version), *words]
        env = [b"PATH=/usr/bin:/bin", b"PMI_SIZE=%d" % (count * nodes)]
        super().__init__(template, argv, count, mpi=mpi, env=env)

    def on_mpi(self, body: bytes) -> None:
        self.asked.append(mpi_frames.parse(body))

    def output(self, task: int = 0) -> str:
        return self.out.get((task, step_io.STDOUT), b"").decode()


def run(template: Template, version: int, *words: str, count: int = 2) -> MpiStep:
    step = MpiStep(template, version, *words, count=count)
    step.finish()
    return step


@pytest.mark.parametrize("version", [1, 2])
def test_ranks_read_what_all_have_put(template: Template, version: int) -> None:
    """Three fences one after another."""
    step = run(template, version, "exchange", count=3)
    assert step.exits == {0: 0, 1: 0, 2: 0}
    for rank in range(3):
        assert step.output(rank) == f"rank {rank} has read 3\n"


def test_answers_of_the_second_version(template: Template) -> None:
    """As Slurm 22.05 answered the same commands."""
    step = run(
        template, 2, "cmd=job-getid;", "cmd=info-getjobattr;key=PMI_process_mapping;",
        "cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr;key=nope;",
        "cmd=info-getnodeattr;key=nope;wait=FALSE;", "cmd=info-putnodeattr;key=a;value=b;",
        "cmd=info-getnodeattr;thrid=0x12;key=a;wait=TRUE;", "cmd=kvs-get;key=zz;",
        "cmd=spawn;ncmds=1;subcmd=true;maxprocs=1;argc=0;", "cmd=ring;count=1;left=;right=;",
        count=1,
    )  # fmt: skip
    assert step.output().splitlines() == [
        "cmd=job-getid-response;rc=0;jobid=5.0;",
        "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,1));",
        "cmd=info-getjobattr-response;rc=0;found=TRUE;value=1;",
        "cmd=info-getjobattr-response;rc=0;found=FALSE;",
        "cmd=info-getnodeattr-response;rc=0;found=FALSE;",
        "cmd=info-putnodeattr-response;rc=0;",
        "cmd=info-getnodeattr-response;thrid=0x12;rc=0;found=TRUE;value=b;",
        "cmd=kvs-get-response;rc=0;found=FALSE;",
        "cmd=spawn-response;rc=1;errmsg=spawn_is_not_supported_under_srun;",
        "cmd=ring-response;rc=1;errmsg=ring is not supported;",
    ]


def test_answers_of_the_first_version(template: Template) -> None:
    step = run(
        template, 1, "cmd=get_maxes", "cmd=get_appnum", "cmd=get_universe_size",
        "cmd=get_my_kvsname", "cmd=get kvsname=x key=PMI_process_mapping",
        "cmd=get kvsname=x key=zz", "mcmd=spawn\nnprocs=1\nexecname=true\nendcmd", count=1,
    )  # fmt: skip
    assert step.output().splitlines() == [
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
        "cmd=appnum rc=0 appnum=-1",
        "cmd=universe_size rc=0 size=1",
        "cmd=my_kvsname rc=0 kvsname=5.0",
        "cmd=get_result rc=0 value=(vector,(0,1,1))",
        "cmd=get_result rc=1 msg=key_not_known",
        "cmd=spawn_result rc=-1 msg=spawn_is_not_supported_under_srun",
    ]


def test_a_task_may_wait_for_an_attribute_of_its_node(template: Template) -> None:
    """The answer comes when another task has put it."""
    step = run(
        template, 2, "only:0:cmd=info-getnodeattr;key=late;wait=TRUE;",
        "only:1:cmd=info-putnodeattr;key=late;value=now;",
    )  # fmt: skip
    assert "found=TRUE;value=now;" in step.output(0)


@pytest.mark.parametrize(
    ("version", "raw"), [(1, "00ff47415242414745"), (2, "4142434445460a"), (1, "636d643d776f770a")]
)
def test_garbage_ends_its_step_with_one_line(template: Template, version: int, raw: str) -> None:
    step = run(template, version, f"only:1:raw:{raw}", "fence", "sleep", count=3)
    notices = step.notices.decode().splitlines()
    assert len(notices) == 1 and "mpi/pmi2" in notices[0] and "task 1" in notices[0]
    assert {fields["do"] for fields in step.asked} == {"abort"}
    assert all(status & 0x7F for status in step.exits.values())
    assert run(template, version, "exchange").exits == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["many:1100:cmd=name-lookup;name=x;"], "srun has not answered 1024 requests"),
        (["cmd=info-getnodeattr;wait=TRUE;key=" + 300 * "k" + ";"], "a key of 300 "),
        (["cmd=job-getid;thrid=" + 300 * "t" + ";"], "a thrid of 300 bytes"),
        (["many:300:cmd=kvs-put;key=k{};value=" + 4096 * "v" + ";"], "put more than 1114112 bytes"),
    ],
    ids=["requests that srun does not answer", "a long key", "a long thread", "many keys"],
)
def test_a_task_cannot_make_its_supervisor_grow(
    template: Template, words: list[str], problem: str
) -> None:
    """Its memory is not the job's: it is root's, and one user may have many supervisors."""
    step = run(template, 2, *words, "cmd=kvs-get;key=none;", count=1)
    (notice,) = step.notices.decode().splitlines()
    assert problem in notice
    assert {fields["do"] for fields in step.asked} <= {"ask", "abort"}


def test_a_key_may_be_put_again_and_again(template: Template) -> None:
    """Only the last value is kept, so nothing grows."""
    step = run(template, 2, "hear:2000:cmd=kvs-put;key=k;value=" + 1024 * "v" + ";", count=1)
    assert step.exits == {0: 0}, step.notices


@pytest.mark.parametrize("code", [0, 3])
def test_a_task_that_dies_while_others_wait_in_a_fence_ends_its_step(
    template: Template, code: int
) -> None:
    step = run(template, 1, f"only:2:exit{code}", "fence", count=3)
    text = "ended before MPI_Finalize" if code else "has ended, and others wait for it"
    (notice,) = step.notices.decode().splitlines()
    assert f"task 2 {text}" in notice
    assert step.exits[2] == code << 8 and step.exits[0] & 0x7F


def test_abort_ends_the_step(template: Template) -> None:
    step = run(template, 1, "only:1:abort7", "fence", count=2)
    assert re.search(r"CANCELLED AT \S+ DUE TO ABORT OF TASK 1", step.notices.decode())
    assert [fields["do"] for fields in step.asked] == ["abort"]


def test_a_fence_goes_to_srun_and_waits_for_other_nodes(template: Template) -> None:
    """What another node has put is read after the fence."""
    step = MpiStep(
        template, 2, "cmd=kvs-put;key=mine;value=1;", "fence", "cmd=kvs-get;key=theirs;",
        count=1, nodes=2,
    )  # fmt: skip
    while not step.asked:
        step.pump()
    (asked,) = step.asked
    assert (asked["do"], asked["of"], asked["more"]) == ("fence", b"", False)
    assert asked["data"] == b"\0\0\0\4mine\0\0\0\x011"
    answer = {"do": "fence", "of": b"", "nodes": [], "more": False}
    data = b"\0\0\0\4mine\0\0\0\x011\0\0\0\6theirs\0\0\0\x022!"
    step.connection.sendall(mpi_frames.frame({**answer, "data": data}))
    step.finish()
    assert "found=TRUE;value=2!;" in step.output()


def test_only_tasks_with_mpi_have_the_descriptor(template: Template) -> None:
    """A program of another step finds no PMI_FD, and nothing but its streams is open."""
    srun = Srun(template, ["/bin/sh", "-c", "ls /proc/self/fd | wc -l; env"], count=1)
    srun.finish()
    text = srun.out[0, step_io.STDOUT].decode()
    assert text.splitlines()[0] == "4" and "PMI" not in text
