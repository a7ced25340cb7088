"""How scrontab reads a crontab."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.crontab.editor import with_bad_lines
from pyslurm_ng.cli.crontab.lines import BadEntry, entries_of

TABLE = """\
# comment
DIR="/data/of me"
#SCRON -p short --time=10
#SCRON -n 2
30 6 * * mon-fri $DIR/report  --all
LEVEL = 2

@hourly /bin/date; tell
"""


def test_entries() -> None:
    """Options are of the next entry only, variables of all that follow."""
    report, tell = entries_of(TABLE, {}, "/home/alice")
    assert (report["first_line"], report["last_line"], report["times"]) == (
        3,
        5,
        "30 6 * * mon-fri",
    )
    request = report["request"]
    assert (request["partition"], request["time_limit_min"], request["ntasks"]) == ("short", 10, 2)
    assert (request["name"], request["work_dir"]) == ("report", "/home/alice")
    assert report["script"].endswith(b"\n$DIR/report  --all\n")
    assert report["environment"].startswith(b"DIR=/data/of me\0")
    assert b"LEVEL" not in report["environment"]
    assert b"\0LEVEL=2\0" in tell["environment"]
    assert b"SLURM_GET_USER_ENV=1\0" in tell["environment"]
    assert tell["request"]["name"] == "date"
    assert (tell["first_line"], tell["times"]) == (8, "0 * * * *")
    assert "partition" not in tell["request"]


@pytest.mark.parametrize(
    ("text", "lines", "problem"),
    [
        ("1 2 3 work", (1, 1), "five fields"),
        ("* * * * *", (1, 1), "a command is needed"),
        ("\n#SCRON --array=1-3\n@daily work", (2, 3), "--array is not allowed in a crontab"),
        ("#SCRON --begin=now\n@daily work", (1, 2), "--begin is not allowed in a crontab"),
        ("#SCRON --nonsense\n@daily work", (1, 2), "unrecognized option '--nonsense'"),
        ("#SCRON -t x\n@daily work", (1, 2), "Invalid --time specification"),
        ("#SCRON more\n@daily work", (1, 2), "more is no option"),
        ("@daily work\n#SCRON -n1\n", (2, 2), "no entry follows"),
    ],
)
def test_wrong_lines(text: str, lines: tuple[int, int], problem: str) -> None:
    """The first wrong entry is named by its lines."""
    with pytest.raises(BadEntry, match=problem) as caught:
        entries_of(text, {}, "/")
    assert (caught.value.first_line, caught.value.last_line) == lines


def test_wrong_lines_become_comments() -> None:
    """Then the user can edit them once more."""
    assert with_bad_lines("a\nb\nc\n", 2, 3) == "a\n#BAD: b\n#BAD: c\n"
