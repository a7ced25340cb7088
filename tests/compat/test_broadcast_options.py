"""What options of sbcast and of srun --bcast change in what is sent to the nodes.

The nodes are a record of the messages: what a node does with them, tests/daemons/test_broadcast.py.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.cli import sbcast
from pyslurm_ng.cli.step import program_broadcast
from tests.compat.parsed_options import parsed

GRANTED: dict[str, Any] = {
    "job_id": 7, "step_id": 0, "nodes": ["n1"], "addresses": [["127.0.0.1", 1]], "credential": b"c",
}  # fmt: skip


class Node:
    """Stands where a connection to slurmd stands, and keeps what is sent."""

    sent: list[dict[str, Any]]
    limits: list[float]

    def __init__(self, *where: object, **more: object) -> None:
        pass

    def begin(self, kind: str, fields: dict[str, Any]) -> int:
        assert kind == "SendFile"
        self.sent.append(fields)
        return len(self.sent)

    def receive(self, limit_s: float) -> None:
        self.limits.append(limit_s)

    def close(self) -> None:
        pass

    @classmethod
    def files(cls) -> dict[str, bytes]:
        """Return what was sent, by path."""
        contents: dict[str, bytes] = {}
        path = ""
        for fields in cls.sent:
            path = fields.get("path", path)
            contents[path] = contents.get(path, b"") + fields["data"]
        return contents


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Node]:
    Node.sent, Node.limits = [], []
    monkeypatch.setattr("pyslurm_ng.cli.step.broadcast.Client", Node)
    monkeypatch.chdir(tmp_path)
    return Node


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A program with shared libraries."""
    path = tmp_path / "tool"
    shutil.copy(shutil.which("true") or "/bin/true", path)
    return path


def sent_by_srun(tool: Path, *words: str) -> dict[str, Any]:
    options = parsed("srun", ["--bcast=/there/tool", *words])
    return program_broadcast.send_program(options, {}, GRANTED, str(tool))


def test_a_program_travels_packed(node: type[Node], tool: Path) -> None:
    """srun --compress, and sbcast's: fewer bytes, which give the file again; `none` is off."""
    for words in ([], ["--compress=none"]):
        sent_by_srun(tool, *words)
        assert node.files() == {"/there/tool": tool.read_bytes()}
        node.sent.clear()
    sent_by_srun(tool, "--compress")
    assert node.sent[0]["is_packed"]
    packed = node.files()["/there/tool"]
    assert len(packed) < tool.stat().st_size and zlib.decompress(packed) == tool.read_bytes()


def test_a_program_of_the_working_directory(node: type[Node], tool: Path, tmp_path: Path) -> None:
    """A name without a slash that PATH does not have: as tasks find it without --bcast.

    --chdir says which directory it is.
    """
    for words in ([], [f"--chdir={tmp_path / 'deeper'}"]):
        options = parsed("srun", ["--bcast=/there/tool", *words])
        folder = Path(options.request.get("work_dir") or tmp_path)
        folder.mkdir(exist_ok=True)
        own = folder / "own-tool"
        shutil.copy(tool, own)
        own.write_bytes(own.read_bytes() + folder.name.encode())
        program_broadcast.send_program(options, {}, GRANTED, "own-tool")
        assert node.files() == {"/there/tool": own.read_bytes()}
        node.sent.clear()


def test_libraries_travel_with_a_program(node: type[Node], tool: Path) -> None:
    """srun --send-libs sends them, except those below --bcast-exclude.

    Tasks are told where they are.
    """
    assert sent_by_srun(tool, "--bcast-exclude=none") == {"program": "/there/tool"}
    assert list(node.files()) == ["/there/tool"]
    assert "library_path" not in sent_by_srun(tool, "--send-libs")  # all of them in /lib
    told = sent_by_srun(tool, "--send-libs", "--bcast-exclude=none")
    assert told["library_path"] == "/there/tool_libs"
    assert "/there/tool_libs/libc.so.6" in node.files()
    node.sent.clear()
    sent_by_srun(tool, "--send-libs=no", "--bcast-exclude=none")
    sent_by_srun(tool, "--send-libs", "--bcast-exclude=/lib,/usr/lib,/lib64")
    assert "/there/tool_libs/libc.so.6" not in node.files()


def test_a_node_has_so_long_to_answer(node: type[Node], tool: Path) -> None:
    """srun --msg-timeout."""
    sent_by_srun(tool)
    assert set(node.limits) == {60.0}
    node.limits.clear()
    sent_by_srun(tool, "--msg-timeout=7")
    assert set(node.limits) == {7.0}


def run_sbcast(patch: pytest.MonkeyPatch, *words: str) -> int:
    class Controller:
        def call(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
            assert (kind, fields) == ("AskFileCredential", {"job_id": 7})
            return GRANTED

    patch.setattr(sbcast, "connect", lambda conf: Controller())
    patch.setattr(sbcast, "read_conf", lambda name, *keys: {})
    patch.delenv("SLURM_JOB_ID", raising=False)
    return sbcast.main(["-j", "7", *words])


def test_sbcast_sends_libraries(
    node: type[Node], tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--send-libs sends them, except those below --exclude."""
    assert run_sbcast(monkeypatch, str(tool), "/there/tool") == 0
    assert run_sbcast(monkeypatch, "--send-libs", str(tool), "/there/tool") == 0
    assert list(node.files()) == ["/there/tool"]
    words = ("--send-libs", "--exclude=none", str(tool), "/there/tool")
    assert run_sbcast(monkeypatch, *words) == 0
    assert "/there/tool_libs/libc.so.6" in node.files()


def test_sbcast_waits_so_long(
    node: type[Node], tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--timeout; 0 is the usual minute."""
    run_sbcast(monkeypatch, "--timeout=5", str(tool), "/there/tool")
    run_sbcast(monkeypatch, "--timeout=0", str(tool), "/there/tool")
    assert node.limits == [5.0, 60.0]


def test_sbcast_packs(node: type[Node], tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--compress; --size is how much of the file is in a message."""
    run_sbcast(monkeypatch, "--compress", str(tool), "/there/tool")
    assert zlib.decompress(node.files()["/there/tool"]) == tool.read_bytes()
    node.sent.clear()
    run_sbcast(monkeypatch, "--size=4k", str(tool), "/there/tool")
    assert {len(fields["data"]) for fields in node.sent[:-1]} == {4096}


def test_sbcast_says_what_it_sends(
    node: type[Node],
    tool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--verbose: settings and nodes on stderr."""
    run_sbcast(monkeypatch, str(tool), "/there/tool")
    assert capsys.readouterr().err == ""
    run_sbcast(monkeypatch, "--verbose", "-f", "-s", "8k", str(tool), "/there/tool")
    said = capsys.readouterr().err.splitlines()
    for line in (
        "sbcast: block_size = 8192", "sbcast: force      = true", "sbcast: preserve   = false",
        f"sbcast: source     = {tool}", "sbcast: dest       = /there/tool",
        "sbcast: node_list  = n1",
    ):  # fmt: skip
        assert line in said


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("-sx", "size specification is invalid, ignored"),
        ("-s-1", "size specification is invalid, ignored"),
        ("-s0", ""),
        (
            "-Cfrob",
            "sbcast: error: Compression type 'frob' unknown, disabling compression support.",
        ),
        ("-tx", ""),
        ("--send-libs=foo", "sbcast: error: Ignoring unrecognized --send-libs value 'foo'"),
    ],
)
def test_a_wrong_value_costs_no_file(
    node: type[Node], tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, word: str, line: str
) -> None:
    """As in Slurm it is reported, if at all, and the file is sent as without it."""
    assert run_sbcast(monkeypatch, word, str(tool), "/there/tool") == 0
    assert node.files() == {"/there/tool": tool.read_bytes()}
    assert not any(fields.get("is_packed") for fields in node.sent)
    assert capsys.readouterr().err.splitlines() == ([line] if line else [])


@pytest.mark.parametrize("value", ["foo", ""])
def test_a_wrong_value_of_the_variable_is_named_after_it(
    node: type[Node], tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, value: str
) -> None:
    """As in Slurm; nobody has given an option."""
    monkeypatch.setenv("SBCAST_SEND_LIBS", value)
    assert run_sbcast(monkeypatch, str(tool), "/there/tool") == 0
    assert node.files() == {"/there/tool": tool.read_bytes()}
    line = f"sbcast: error: Ignoring unrecognized SBCAST_SEND_LIBS value '{value}'\n"
    assert capsys.readouterr().err == line


def test_a_file_that_is_no_program_goes_without_libraries(
    node: type[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    text = tmp_path / "text"
    text.write_text("hello\n")
    assert run_sbcast(monkeypatch, "--send-libs", str(text), "/there/text") == 0
    assert node.files() == {"/there/text": b"hello\n"}
    assert capsys.readouterr().err == (
        f"sbcast: error: Cannot autodetect libraries for '{text}' with ldd command; still sending "
        "the file but ignoring send_libs\n"
    )
