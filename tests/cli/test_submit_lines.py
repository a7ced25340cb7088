"""`pyslurm-ng submit`: many jobs by one command, over the real wire."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.cli import submit_lines
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.stream import Call
from tests.wire.wire_room import Room

SCRIPT = "#!/bin/sh\n#SBATCH --comment=from-the-script\ntrue\n"


class Controller:
    """Takes submissions: each new request id gets the next job id."""

    def __init__(self) -> None:
        self.jobs: dict[bytes, int] = {}
        self.requests: list[SubmitJob] = []

    def __call__(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, SubmitJob)
        if request.request_id not in self.jobs:
            self.jobs[request.request_id] = len(self.jobs) + 1
            self.requests.append(request)
        call.reply({"job_id": self.jobs[request.request_id]})


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    with Room(tmp_path, handler=Controller()) as opened:
        conf = tmp_path / "slurm.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in opened.conf.items()))
        monkeypatch.setenv("SLURM_CONF", str(conf))
        monkeypatch.chdir(tmp_path)
        (tmp_path / "job.sh").write_text(SCRIPT)
        yield opened
        assert not opened.bugs


def submit(lines: str, *options: str, commands: bool = False) -> int:
    Path("lines").write_text(lines)
    return submit_lines.main("lines", list(options), commands)


def controller_of(room: Room) -> Controller:
    assert isinstance(room.handler, Controller)
    return room.handler


def test_a_line_has_what_sbatch_takes(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of the line come after those for all lines, and arguments reach the script."""
    lines = "job.sh 'a b' c\n\n# no job\n--mem=20 job.sh\n--mem=20 job.sh d\n-J w --wrap 'echo x'\n"
    assert submit(lines, "--mem=10") == 0
    assert capsys.readouterr().out == "1\n2\n3\n4\n"
    requests = controller_of(room).requests
    assert [sent.request.mem_per_node_mib for sent in requests] == [10, 20, 20, 10]
    assert [sent.request.argv for sent in requests] == [("a b", "c"), (), ("d",), ()]
    assert [sent.request.name for sent in requests] == ["job.sh", "job.sh", "job.sh", "w"]
    assert [sent.request.comment for sent in requests[:3]] == ["from-the-script"] * 3
    assert [sent.request.submit_line for sent in requests[1:3]] == [
        "sbatch --mem=10 --mem=20 job.sh",
        "sbatch --mem=10 --mem=20 job.sh d",
    ]
    assert requests[3].script.endswith(b"\n\necho x\n")


def test_commands_are_the_lines_as_they_are(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    """Quotes, operators and braces are the shell's; a comment is no job, unless it has options."""
    lines = "echo it's | wc > out\n{ true; }\n# no job\n#SBATCH --mem=7\n #x\ntrue\n"
    assert submit(lines, "-t", "5", commands=True) == 0
    requests = controller_of(room).requests
    assert [sent.script.splitlines()[3] for sent in requests] == [
        b"echo it's | wc > out", b"{ true; }", b"#SBATCH --mem=7", b"true",
    ]  # fmt: skip
    assert [sent.request.time_limit_min for sent in requests] == [5] * 4
    assert [sent.request.mem_per_node_mib for sent in requests[2:]] == [7, 0]


def test_an_object_names_script_and_options(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"script": "job.sh", "arguments": ["1"], "mem": 30, "dependency": None, "hold": False},
        {"text": "#!/bin/sh\n#SBATCH -J own\ntrue\n", "exclude": ["n1", "n2"]},
        {"wrap": "true", "exclusive": True},
    ]
    assert submit("\n".join(map(json.dumps, rows))) == 0
    first, second, third = (sent.request for sent in controller_of(room).requests)
    assert (first.mem_per_node_mib, first.argv) == (30, ("1",))
    assert (second.name, second.exclude) == ("own", "n[1-2]")
    assert third.flags & REQ_EXCLUSIVE


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--mem=xx job.sh", "Invalid --mem specification"),
        ("nofile.sh", "Unable to open file nofile.sh"),
        ("--mem=1", "a script or --wrap is missing"),
        ("job.sh 'a", "no closing quotation"),
        ("--wait job.sh", "--wait is for single submissions: it is not allowed here"),
        ("--help", "--help is not allowed here"),
        ("{bad", "no JSON object"),
        ('{"mem": 1}', "one of the strings script, text and wrap is needed"),
        ('{"wrap": "true", "mem": {}}', "mem: a string, a number, true"),
        ('{"wrap": "true", "a b": 1}', "'a b': options of sbatch by their long names"),
        ('{"wrap": "true", "nope": 1}', "unrecognized option '--nope=1'"),
        ('{"wrap": "\\ud800"}', "half of a surrogate pair"),
        ('{"text": "echo", "arguments": []}', "This does not look like a batch script."),
    ],
)
def test_a_wrong_line_costs_that_line(
    room: Room, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    """Its place has a dash, so ids and lines still belong together."""
    assert submit(f"job.sh\n{line}\njob.sh\n") == 1
    printed = capsys.readouterr()
    assert printed.out == "1\n-\n2\n"
    assert printed.err.startswith("pyslurm-ng: error: lines: line 2: ")
    assert told in printed.err
    assert printed.err.count("\n") == 1


def test_wrong_options_for_all_lines_are_told_once(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit("job.sh\n", "job.sh") == 1
    assert "only options of sbatch are allowed beside --from" in capsys.readouterr().err
    assert submit("job.sh\njob.sh\n", "--wait") == 1
    assert capsys.readouterr().err == (
        "pyslurm-ng: error: --wait is for single submissions: it is not allowed here\n"
    )
    assert submit_lines.main("missing", [], False) == 1
    assert capsys.readouterr().err == (
        "pyslurm-ng: error: --from missing: No such file or directory\n"
    )
    assert submit_lines.main("/", [], False) == 1
    assert capsys.readouterr().err == "pyslurm-ng: error: --from /: Is a directory\n"


def test_lost_answers_make_no_second_job(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    """The connection is cut in the middle, twice; each line has one job, in order."""
    accept = controller_of(room)
    cuts = []

    def cut_twice(call: Call) -> None:
        assert isinstance(call.request, SubmitJob)
        if len(accept.jobs) in (50, 120) and len(accept.jobs) not in cuts:
            cuts.append(len(accept.jobs))
            next(line for line in room.server.connections if line.awaits(call)).cut()
        else:
            accept(call)

    room.server.handler = cut_twice
    assert submit("".join(f"job.sh {number}\n" for number in range(600))) == 0
    assert cuts == [50, 120]
    ids = capsys.readouterr().out.split()
    assert len(set(ids)) == len(ids) == len(accept.jobs) == 600
    argument_of = {
        str(accept.jobs[sent.request_id]): sent.request.argv[0] for sent in accept.requests
    }
    assert [argument_of[job_id] for job_id in ids] == [str(number) for number in range(600)]


def test_no_room_for_jobs_is_waited_for(
    room: Room, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MaxJobCount delays the rest; nothing is refused, and a new attempt has a new id."""
    accept = controller_of(room)
    refused: list[bytes] = []

    def be_full(call: Call) -> None:
        assert isinstance(call.request, SubmitJob)
        if len(accept.jobs) == 3 and len(refused) < 4:
            refused.append(call.request.request_id)
            call.error(Errno.EAGAIN, "Resource temporarily unavailable")
        else:
            accept(call)

    room.server.handler = be_full
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert submit("job.sh\n" * 9) == 0
    assert sorted(capsys.readouterr().out.split()) == [str(number) for number in range(1, 10)]
    assert len(refused) == 4
    assert not set(refused) & set(accept.jobs)


def test_a_program_may_read_each_id_before_it_writes_the_next_line(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids do not wait for the end of the input."""
    lines_end, lines = os.pipe()
    ids, ids_end = os.pipe()
    with os.fdopen(ids_end, "w") as written, os.fdopen(ids) as read:
        monkeypatch.setattr("sys.stdout", written)
        thread = threading.Thread(
            target=lambda: submit_lines.main(f"/dev/fd/{lines_end}", [], False), daemon=True
        )
        thread.start()
        for number in (1, 2, 3):
            os.write(lines, b"job.sh\n")
            assert read.readline() == f"{number}\n"
        os.close(lines)
        thread.join(30)
        assert not thread.is_alive()
    os.close(lines_end)


def test_a_controller_that_is_away_for_good_ends_it(
    room: Room, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known is said, with the line to go on from."""
    accept = controller_of(room)

    def cut(call: Call) -> None:
        assert isinstance(call.request, SubmitJob)
        if len(accept.jobs) < 300 or call.request.request_id in accept.jobs:
            accept(call)
        else:
            for line in list(room.server.connections):
                line.cut()

    room.server.handler = cut
    assert submit("job.sh\n" * 600) == 1
    printed = capsys.readouterr()
    ids = printed.out.split()
    assert ids == [str(number) for number in range(1, len(ids) + 1)]
    assert len(ids) >= 300 - submit_lines.MOST_AWAITED
    assert f"lines from line {len(ids) + 1} on were accepted; none were" in printed.err
