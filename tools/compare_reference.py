#!/usr/bin/env python3
"""Compare two directories of recorded command outputs, file by file.

A recording is one text file per command: the command line, then the parts `----- stdout`,
`----- stderr` and `----- exit N`. Moments, durations, ids of jobs, processes and users' sessions,
measured loads and the version are made alike in both before they are compared, since they differ
between two runs of the same program.

    tools/compare_reference.py EXPECTED OBSERVED [SUBDIRECTORY[/NAME]...] [--diff]

Prints one line per file: `equal`, `but-het` (equal but for the rows of heterogeneous jobs),
`differs` (with the count of lines), or `missing`. Exit code 0 when every file is equal, 1 when one
differs, 2 when a directory cannot be read.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_COMMAND = re.compile(r"^\[\w+@login\]\$ ")
_MOMENT = re.compile(r"\b202\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\b")
_WEEKDAY = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
    r" \d\d:\d\d:\d\d 20\d\d(?: \(\d+\))?"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (_WEEKDAY, "<moment>"),
    (re.compile(r"(?<=: )1[78]\d{8}\b"), "<epoch>"),
    (re.compile(r"(?<=\"sluid\": )\S+"), "<id>"),
    (re.compile(r"(?<=_time\": )\S+|(?<=\"job_id\": )\d+"), "<id>"),
    # Columns of `%all` are separated by bars; blanks before them mean nothing.
    (re.compile(r" +\|"), "|"),
    # A running time: hours may be missing, and its width changes with its digits.
    (
        re.compile(r"(?<![\w/:-])(?<!Code=) *(?:\d+-)?(?:\d\d:)?\d{1,2}:\d\d(?:\.\d{3})?(?![\w:])"),
        " <time>",
    ),
    (re.compile(r"\bslurm \d\d\.\d\d\.\S+"), "slurm <version>"),
    (re.compile(r"(?<=Version=)\d\d\.\d\d\.\S+"), "<version>"),
    (re.compile(r"\b26\.11\.0-(?:0rc1|ng\d+\.\d+)"), "<version>"),
    # Both clusters have one kind of authentication; the recorded one had munge installed.
    (re.compile(r"(?<== )(auth|cred)/(?:munge|slurm)\b"), r"\1/<kind>"),
    # munge named every host of the recorded cluster localhost.
    (re.compile(r"(?<=\"allocating_node\": )\"\w+\""), "<host>"),
    (re.compile(r"\bslurm\( ?\d+\)"), "slurm(<uid>)"),
    (re.compile(r"(?<=\"cpu_load\": )\d+"), "<measured>"),
    (re.compile(r"(?<=SrunHost:Pid=)(\w+):\d+"), r"\1:<pid>"),
    (re.compile(r"(?<=memory limit \()\d+"), "<measured>"),
    (re.compile(r"AllocNode:Sid=\w+:\d+"), "AllocNode:Sid=<session>"),
    (re.compile(r"(?<=OS=Linux ).*"), "<kernel>"),
    (re.compile(r"\b(CPULoad|FreeMem|Priority|SLUID|CurrentWatts|Sid)=\S+"), r"\1=<measured>"),
    (re.compile(r"(?<=\bJob )\d+|(?<=jobid )\d+|(?<=allocation )\d+|(?<=STEP )\d+"), "<job>"),
    (re.compile(r"\d+(?= Killed\b)"), "<pid>"),
    (re.compile(r"\b(?<=job )\d+|(?<=JobId=)\d+|(?<=JobID=)\d+|(?<=ArrayJobId=)\d+"), "<job>"),
    (re.compile(r"\b(SLURM_\w*(?:JOB_?ID|TASK_PID|GTIDS_PID|JOB_START_TIME|JOB_END_TIME))=\d+"),
     r"\1=<id>"),
    (re.compile(r"\b(\w*(?:HOST|IPADDR|PORT|SOCKET|SLUID))=\S+"), r"\1=<host>"),
    (re.compile(r"slurm-\d+(_\d+)?\.out"), "slurm-<job>.out"),
    # %j and %A of a file name; ids of the components of a heterogeneous job.
    (re.compile(r"(?<=env_files_)\d+_nm_(\w+)_\d+_"), r"<job>_nm_\1_<job>_"),
    (re.compile(r"\b(SLURM_JOB_ID_(?:HET|PACK)_GROUP_\d+)=\d+"), r"\1=<job>"),
    (re.compile(r"\bs[0-9A-HJKMNP-TV-Z]{13}\b"), "<sluid>"),
    (re.compile(r"\bjob0*\d+\b"), "job<job>"),
    (re.compile(r"StepId=\d+"), "StepId=<job>"),
    (re.compile(r"\b(process group|pid|PID) \d+"), r"\1 <pid>"),
)  # fmt: skip
# The recorded cluster kept its heterogeneous job waiting because Slurm plans each component on a
# node of its own; here it runs at once. `but-het` says that nothing else differs.
_HET_ROW = re.compile(r"(?:^|[ |])(?:<job>|\d+)\+\d+(?:\.\w+)?(?:[ |]|$)")
_FIRST_COLUMN_ID = re.compile(r"^([ ]*)\d+((?:[_+.][\w\[\]%,.-]+)?)(?=[ |,]|$)")


# A warning about the two processors of the machine that the recording was made on.
_OF_THE_MACHINE = re.compile(r"^srun: warning: WORKERPOOL_THREADS=")
# Columns, by heading, and members of JSON objects that were measured at that moment.
_MEASURED_COLUMNS = {"FREE_MEM", "CPU_LOAD", "TIME_LEFT"}
_MEASURED_MEMBERS = {"free_mem", "free", "load"}
_STDOUT = re.compile(r"(?<=^----- stdout\n)\{.*?^\}$", re.MULTILINE | re.DOTALL)


def _as_one_form(found: re.Match[str]) -> str:
    """Return a JSON object with one spelling of empty lists, escapes and indents."""
    try:
        return json.dumps(_without_measured(json.loads(found[0])), indent=1)
    except ValueError:
        return found[0]


def _without_measured(value: object) -> object:
    """Return a JSON value with what was measured put out of sight."""
    if isinstance(value, dict):
        return {
            key: "<measured>" if key in _MEASURED_MEMBERS else _without_measured(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_measured(item) for item in value]
    return value


def _hide_measured(text: str) -> str:
    """Put out of sight the columns of a table that were measured, found by its heading."""
    lines = text.split("\n")
    heading = lines.index("----- stdout") + 1 if "----- stdout" in lines else len(lines)
    if heading >= len(lines):
        return text
    bar = "|" if "|" in lines[heading] else None
    names = [name.strip() for name in lines[heading].split(bar)]
    hidden = [place for place, name in enumerate(names) if name in _MEASURED_COLUMNS]
    for number in range(heading, len(lines) if hidden else 0):
        cells = lines[number].split(bar)
        # A row with empty cells cannot be told apart by blanks: it stays as it is.
        if len(cells) == len(names):
            for place in hidden:
                cells[place] = "<measured>"
            lines[number] = (bar or " ").join(cells)
    return "\n".join(lines)


def normalise(text: str) -> list[str]:
    """Return the lines of a recording without what differs between two runs."""
    lines = []
    text = _hide_measured(_STDOUT.sub(_as_one_form, text))
    for line in text.splitlines():
        if _OF_THE_MACHINE.search(line):
            continue
        line = _MOMENT.sub("<moment>", line)
        for pattern, replacement in _RULES:
            line = pattern.sub(replacement, line)
        line = _FIRST_COLUMN_ID.sub(r"<job>\2", line)
        if _COMMAND.match(line):
            line = re.sub(r"\d+", "<n>", line)
        lines.append(re.sub(r"[ ]+", " ", line).rstrip())
    return lines


def recordings(root: Path, wanted: list[str]) -> Iterator[str]:
    """Yield the paths, relative to `root`, of the recordings asked for, in order."""
    for path in sorted(root.glob("*/*.txt")):
        name = str(path.relative_to(root))
        if not wanted or any(name.startswith(prefix) for prefix in wanted):
            yield name


def differences(expected: Path, observed: Path, *, without_het: bool = False) -> list[str]:
    """Return the differing lines of two recordings as a unified diff without its header.

    Args:
        without_het: leave out the rows of components of heterogeneous jobs.
    """
    before = normalise(expected.read_text(errors="replace"))
    after = normalise(observed.read_text(errors="replace"))
    if without_het:
        before = [line for line in before if not _HET_ROW.search(line)]
        after = [line for line in after if not _HET_ROW.search(line)]
    return list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]


def compare(expected: Path, observed: Path, wanted: list[str], show: bool) -> Counter[str]:
    """Print one line per recording, and the differing lines if `show`; return the counts."""
    counts: Counter[str] = Counter()
    for name in recordings(expected, wanted):
        other = observed / name
        if not other.exists():
            verdict, lines = "missing", []
        else:
            lines = differences(expected / name, other)
            verdict = "equal"
            if lines and not differences(expected / name, other, without_het=True):
                verdict = "but-het"
            elif lines:
                verdict = f"differs {sum(line[0] in '+-' for line in lines)}"
        counts[verdict.split()[0]] += 1
        print(f"{verdict:12} {name}")
        if show:
            for line in lines:
                print(f"    {line}")
    return counts


def main(argv: list[str]) -> int:
    """Compare the two directories named; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("expected", type=Path)
    parser.add_argument("observed", type=Path)
    parser.add_argument("wanted", nargs="*", help="only these: SUBDIRECTORY or SUBDIRECTORY/NAME")
    parser.add_argument("--diff", action="store_true", help="show the lines that differ")
    given = parser.parse_args(argv)
    for directory in (given.expected, given.observed):
        if not directory.is_dir():
            print(f"compare_reference: error: {directory}: not a directory", file=sys.stderr)
            return 2
    counts = compare(given.expected, given.observed, given.wanted, given.diff)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 0 if set(counts) <= {"equal"} else 1


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is left is not to be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
