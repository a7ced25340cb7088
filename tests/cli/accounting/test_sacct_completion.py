"""sacct -c: what it shows of a file that Slurm 22.05 wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.cli.sacct import main

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "jobcomp" / "slurm-22.05.log"
Sacct = Callable[..., tuple[str, str, int]]

SHOWN = """\
JobID           UID    JobName  Partition   NNodes        NodeList      State                 End 
------------ ------ ---------- ---------- -------- --------------- ---------- ------------------- 
5                 0       wrap      debug        1              p1  COMPLETED 2026-11-21T12:08:51 
2                 0       wrap      debug        1              p1  COMPLETED 2026-11-21T12:08:51 
1                 0      a b=c      debug        1              p1     FAILED 2026-11-21T12:08:51 
4                 0       true      debug        1              p2  COMPLETED 2026-11-21T12:08:51 
7                 0       wrap      debug        2          p[1-2]     FAILED 2026-11-21T12:08:53 
6                 0       wrap      debug        0          (null)  CANCELLED 2026-11-21T12:08:57 
3                 0       wrap      debug        1              p1  CANCELLED 2026-11-21T12:08:57 
"""  # noqa: W291
"""As recorded, but for the whole of the name with blanks."""


@pytest.fixture
def sacct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Sacct:
    """Return a function that runs sacct with a slurm.conf that names the recorded file."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"ClusterName=t\nSlurmctldHost=h\nJobCompLoc={RECORDED}\n"
        "JobCompType=jobcomp/filetxt\n"
        "NodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    monkeypatch.setenv("SLURM_CONF", str(conf))

    def run(*words: str) -> tuple[str, str, int]:
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        return out, err, code

    return run


def test_the_usual_columns(sacct: Sacct) -> None:
    """From JobCompLoc, or the file that -f names."""
    assert sacct("-c") == (SHOWN, "", 0)
    assert sacct("-c", "-f", str(RECORDED)) == (SHOWN, "", 0)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-j 1,3 -P -o jobid,start,timelimit", ["1|2026-11-21T12:08:51|5",
                                                "3|2026-11-21T12:08:51|525600"]),
        ("-j 7 -P -l", ["7|0|wrap|debug|2|p[1-2]|FAILED|2026-11-21T12:08:52|"
                        "2026-11-21T12:08:53|UNLIMITED"]),
        ("-s CA -P -o jobid,user,exitcode", ["6|root|0:0", "3|root|0:0"]),
        ("-u alice", []),
        ("--name=true -P -o ncpus,nnodes", ["2|1"]),
    ],
)  # fmt: skip
def test_what_is_selected(sacct: Sacct, words: str, lines: list[str]) -> None:
    """By the fields that the file has."""
    assert sacct("-c", "-n", *words.split()) == ("".join(f"{line}\n" for line in lines), "", 0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-f /no/such/file", "/no/such/file is not a valid file"),
        ("-o maxrss", "sacct: error: MaxRSS is not part of completion records"),
        ("-u nobody-of-that-name", "sacct: error: Invalid user id: nobody-of-that-name"),
        ("-s nonsense", "sacct: fatal: unrecognized job state value 'nonsense'"),
    ],
)
def test_bad_input_is_one_clear_line(sacct: Sacct, words: str, text: str) -> None:
    """Exit code 1."""
    out, err, code = sacct("-c", *words.split())
    assert (out, err.strip(), code) == ("", text, 1)


def test_a_file_without_completion(sacct: Sacct) -> None:
    """-f implies -c, as in Slurm."""
    assert sacct("-f", str(RECORDED)) == (SHOWN, "", 0)
    assert sacct("-f", "x") == ("", "x is not a valid file\n", 1)


def test_completion_is_disabled(sacct: Sacct, tmp_path: Path) -> None:
    """Without a JobCompType there are no records to read."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(conf.read_text().replace("JobCompType=jobcomp/filetxt", ""))
    assert sacct("-c") == ("", "Slurm job completion is disabled\n", 1)
