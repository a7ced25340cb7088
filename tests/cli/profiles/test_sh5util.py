"""sh5util on files that Slurm 22.05 wrote, against what its own sh5util made of them."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

from pyslurm_ng.cli import sh5util

pytest.importorskip("h5py")
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "profile"
USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of profiles with the two files of job 2, and a working directory beside it."""
    own = tmp_path / "profiles" / USER
    own.mkdir(parents=True)
    for path in GOLDEN.glob("2_*.h5"):
        shutil.copy(path, own)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "profiles"


def run(*words: str) -> int:
    try:
        return sh5util.main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)


def merged(profiles: Path) -> None:
    assert run("-j", "2", "-S", "-p", str(profiles)) == 0


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--extract", "--series=Network"), "network-totals.csv"),
        (("-E", "-s", "Network", "--level=Node:TimeSeries"), "network-timeseries.csv"),
        (("-E", "-s", "Task", "-l", "Node:TimeSeries"), "tasks-timeseries.csv"),
        (("-E", "-s", "Tasks"), "tasks-totals.csv"),
        (("-I", "-s", "Network", "-d", "packetsin"), "packetsin-items.csv"),
    ],
)
def test_extracts_are_those_of_slurm(profiles: Path, words: tuple[str, ...], name: str) -> None:
    """Byte by byte."""
    merged(profiles)
    assert run("-j", "2", *words, "--output=out", "--input=job_2.h5") == 0
    assert Path("out").read_text() == (GOLDEN / name).read_text()


def test_the_maximum_of_an_item_is_said(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In Slurm's words; a number with a fraction is shown as one, which 22.05 does not."""
    merged(profiles)
    capsys.readouterr()
    assert run("-j", "2", "--item-extract", "-s", "Network", "--data=packetsin") == 0
    said, log = capsys.readouterr()
    assert said.splitlines()[0] == (
        "    Step 0 Maximum accumulated packetsin Value (57210) occurred at Time=4, "
        "Ave Node 57210.000000"
    )
    assert "Extracting 'packetsin' from 'Network' data from ./job_2.h5" in log
    assert Path("Network_packetsin_2.csv").exists()
    assert run("-j", "2", "-I", "-s", "Task", "-d", "ReadMB") == 0
    assert "ReadMB Value (58.013306)" in capsys.readouterr().out
    lines = Path("Task_ReadMB_2.csv").read_text().splitlines()
    assert lines[0].endswith("NumNodes,0 p1,1 p1")
    assert lines[2] == "0,2,p1,26.006653,p1,32.006653,58.013306,29.006653,2,26.006653,32.006653"


def test_list_shows_the_items(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merged(profiles)
    capsys.readouterr()
    assert run("-j", "2", "--list", "--series=Network") == 0
    names = "ElapsedTime EpochTime PacketsIn PacketsOut InMB OutMB"
    assert capsys.readouterr().out.split() == names.split()


def test_merging_removes_the_files_that_it_joined(profiles: Path) -> None:
    """Unless --savefiles; of a step only its own files are joined."""
    own = profiles / USER
    assert run("--jobs=2.batch", f"--profiledir={profiles}", "-o", "batch.h5") == 0
    assert [path.name for path in own.iterdir()] == ["2_0_p1.h5"]
    merged(profiles)
    assert [path.name for path in own.iterdir()] == ["2_0_p1.h5"]
    import h5py

    with h5py.File("batch.h5") as file:
        assert list(file["Steps"]) == ["batch"] and file.attrs["Number of Steps"][0] == 1
        assert list(file["Steps/batch/Nodes"]) == ["p1"]
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["batch.h5", "job_2.h5"]


def test_a_node_and_a_task_are_chosen(profiles: Path) -> None:
    merged(profiles)
    words = ("-j", "2", "-E", "-l", "Node:TimeSeries", "-o", "out")
    assert run(*words, "-s", "Task_1") == 0
    rows = Path("out").read_text().splitlines()[1:]
    assert rows and all(row.split(",")[2] == "1" for row in rows)
    assert run(*words, "-s", "Network", "--node=elsewhere") == 0
    assert Path("out").read_text() == "Step,Node,ElapsedTime\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 255, "sh5util: error: JobID must be specified."),
        (("-j", "x"), 255, "error: --jobs=x: x is no job or job.step"),
        (("-j", "2,3"), 255, "error: --jobs=2,3: steps of one job are allowed"),
        (("-j", "2", "-E"), 1, "sh5util: fatal: Must specify series option --series"),
        (("-j", "2", "-I", "-s", "Task"), 1, "fatal: Must specify data option --data"),
        (("-j", "2", "-E", "-s", "Foo"), 255, 'error: Bad value for --series="Foo"'),
        (("-j", "2", "-E", "-s", "Energy"), 237, "error: Series Energy not found"),
        (("-j", "2", "-E", "-s", "Task", "-l", "x"), 255, "Node:Totals and Node:TimeSeries"),
        (("-j", "2", "-I", "-s", "Network", "-d", "x"), 255, "Item x not found in series /Steps"),
        (("-j", "7", "-L", "-s", "Task"), 255, "error: Failed to open ./job_7.h5"),
        (("-j", "2", "-p", "/nowhere"), 255, f"Cannot open /nowhere/{USER} job profile directory"),
        (("-j", "2", "--user=nobody-here"), 255, 'error: No such user --uid="nobody-here"'),
        (("-j", "2", "-E", "-s", "Task", "-o", "/no/x"), 255, "Failed to create output file /no/x"),
        (("--bogus",), 255, "sh5util: unrecognized option '--bogus'"),
    ],
)
def test_what_is_wrong_is_said(
    profiles: Path, words: tuple[str, ...], code: int, text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """With Slurm's words and exit code where it has some."""
    merged(profiles)
    capsys.readouterr()
    more = () if "-p" in words else ("-p", str(profiles))
    assert run(*words, *more) == code
    assert text in capsys.readouterr().err


def test_links_and_other_files_are_not_followed(
    profiles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directory is the user's, and root may be the one who merges."""
    own = profiles / USER
    (own / "5_0_p1.h5").symlink_to(own / "2_0_p1.h5")
    os.mkfifo(own / "6_0_p1.h5")
    (own / "7_0_p1.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
    (own / "8_0_p1.h5").write_text("text")
    for job_id in ("5", "6", "7", "8"):
        assert run("-j", job_id, "-p", str(profiles)) == 255
        assert f"Failed to open {own}/{job_id}_0_p1.h5" in capsys.readouterr().err
        assert (own / f"{job_id}_0_p1.h5").is_symlink() or (own / f"{job_id}_0_p1.h5").exists()
    assert list(Path.cwd().iterdir()) == []


def test_without_h5py_it_is_refused_by_name(
    profiles: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    assert run("-j", "2", "-p", str(profiles)) == 255
    text = "sh5util: error: the Python package h5py is not installed"
    assert capsys.readouterr().err.splitlines()[-1] == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--help",), "Usage: sh5util [OPTIONS] -j JOB[.STEP]"),
        (("--usage",), "-S, --savefiles"),
        (("--version",), "slurm"),
        (("--autocomplete=--pro",), "--profiledir"),
    ],
)
def test_it_tells_about_itself(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster."""
    assert run(*words) == 0
    assert text in capsys.readouterr().out
