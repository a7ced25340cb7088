#!/usr/bin/env python3
"""Compare two directories of recorded command outputs, file by file.

A recording is one text file per command: the command line, then the parts `----- stdout`,
`----- stderr` and `----- exit N`. Moments, durations, ids of jobs, processes and users' sessions,
measured loads and the version are made alike in both before they are compared, since they differ
between two runs of the same program.

    tools/compare_reference.py EXPECTED OBSERVED [SUBDIRECTORY[/NAME]...] [--diff]

Prints one line per file: `equal`, `explained` (each line that differs has its reason in
reference_reasons.toml), `differs` (with the count of lines without a reason), or `missing`. The
exit code is 0 if every file is equal or explained, 1 if one is not, 2 if a directory is unreadable.
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
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import tomllib
import yaml

REASONS = Path(__file__).with_name("reference_reasons.toml")

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
    (re.compile(r"(?<=\"operating_system\": \"Linux ).*"), "<kernel>"),
    # How willing the recording process was to wait.
    (re.compile(r"(?<=SLURM_PRIO_PROCESS=)\d+"), "<measured>"),
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
_FIRST_COLUMN_ID = re.compile(r"^([ ]*)\d+((?:[_+.][\w\[\]%,.-]+)?)(?=[ |,]|$)")


# A warning about the two processors of the machine that the recording was made on.
_OF_THE_MACHINE = re.compile(r"^srun: warning: WORKERPOOL_THREADS=")
# Columns, by heading, and members of JSON objects that were measured at that moment.
_USED = ("VMSize", "RSS", "Pages", "CPU", "DiskRead", "DiskWrite")
_MEASURED_COLUMNS = {
    "FREE_MEM", "CPU_LOAD", "TIME_LEFT", "DBIndex", "SLUID", "OriginalSLUID",
    # Accounting: what steps used, and how long they took to the second.
    *(f"{which}{what}" for which in ("Ave", "Max", "Min") for what in (*_USED, "CPUFreq")),
    *(f"{most}{what}{of}" for most in ("Max", "Min") for of in ("Node", "Task") for what in _USED),
    *(f"TRESUsage{way}{which}" for way in ("In", "Out") for which in (
        "Ave", "Max", "Min", "Tot", "MaxNode", "MaxTask", "MinNode", "MinTask",
    )),
    "Elapsed", "ElapsedRaw", "CPUTime", "CPUTimeRAW", "TotalCPU", "UserCPU", "SystemCPU",
    "Planned", "PlannedCPU", "PlannedCPURAW", "ConsumedEnergy", "ConsumedEnergyRaw",
}  # fmt: skip
_MEASURED_MEMBERS = {
    "free_mem", "free", "load",
    "seconds", "microseconds", "elapsed", "actual_frequency", "gettimeofday_latency",
}  # fmt: skip
_OF_STEPS = {"consumed", "requested"}
"""Members of accounting that list what the tasks of a step used; a job's are lists of TRES."""
_LAST_COMPARABLE_JOB = 33
_DOCUMENT = re.compile(
    r"(?<=^----- stdout\n)(?:\{.*?^\}$|%YAML.*?(?=^----- stderr))", re.MULTILINE | re.DOTALL
)
# A count of sdiag, not those in its tables of calls.
_COUNT = re.compile(r"(?<=: )\s*\d+(?= microseconds$|$)", re.MULTILINE)


def _as_one_form(match: re.Match[str]) -> str:
    """Return a document, JSON or YAML, with one spelling of empty lists, escapes and indents."""
    try:
        value = yaml.safe_load(match[0]) if match[0].startswith("%") else json.loads(match[0])
    except (ValueError, yaml.YAMLError):
        return match[0]
    end = "\n" if match[0].endswith("\n") else ""
    return json.dumps(_without_measured(value), indent=1, default=str) + end


def _without_measured(value: object) -> object:
    """Return the value of a document with what was measured put out of sight."""
    if isinstance(value, dict):
        return {
            key: _counters(member)
            if key == "statistics"
            else "<measured>"
            if key in _MEASURED_MEMBERS or (key in _OF_STEPS and isinstance(member, dict))
            else _without_measured(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_without_measured(member) for member in value]
    return value


def _counters(value: object) -> object:
    """Return counters without their counts, and of each list what its first row consists of."""
    if isinstance(value, dict):
        return {key: _counters(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_counters(member) for member in value[:1]]
    return value if isinstance(value, bool) else "<measured>"


def _cells(line: str, ruler: str) -> list[str]:
    """Return the cells of a row: at bars, below the dashes of a ruler, or at blanks."""
    if "|" in line:
        return line.split("|")
    if ruler:
        return [line[dash.start() : dash.end()] for dash in re.finditer("-+", ruler)]
    return line.split()


def _hide_measured(text: str) -> str:
    """Put out of sight the columns of a table that were measured, found by its heading."""
    lines = text.split("\n")
    heading = lines.index("----- stdout") + 1 if "----- stdout" in lines else len(lines)
    if heading >= len(lines):
        return text
    below = lines[heading + 1] if heading + 1 < len(lines) else ""
    ruler = below if re.fullmatch("-+( -+)* ?", below) else ""
    names = [name.strip() for name in _cells(lines[heading], ruler)]
    hidden = [column for column, name in enumerate(names) if name in _MEASURED_COLUMNS]
    for number in range(heading, len(lines) if hidden else 0):
        if lines[number].startswith("-----"):
            continue
        cells = _cells(lines[number], ruler)
        # A row with empty cells cannot be told apart by blanks: it stays as it is.
        if len(cells) == len(names) and lines[number]:
            for column in hidden:
                cells[column] = "<measured>"
            lines[number] = ("|" if "|" in lines[number] else " ").join(cells)
    return "\n".join(lines)


def _comparable_rows(text: str) -> str:
    """Return a table of accounting with the rows of the first jobs only, in order of their ids.

    The recorded cluster ran what came after them twice, and lists jobs anew after a restart.
    """
    head, mark, rest = text.partition("----- stdout\n")
    table, end, tail = rest.partition("----- stderr")
    lines = table.split("\n")[:-1]
    if not lines or lines[0].startswith("{"):
        return text
    bar = "|" if "|" in lines[0] else None
    names = lines[0].split(bar)
    column = names.index("JobID") if "JobID" in names else 0
    rows, others = [], []
    for line in lines:
        words = line.split(bar)
        number = re.match(r"(\d+)(?=[_+.]|$)", words[column]) if len(words) > column else None
        if number is None:
            others.append(line)
        elif int(number[1]) <= _LAST_COMPARABLE_JOB:
            rows.append((int(number[1]), words[column].endswith(".batch"), words[column], line))
    ordered = [line for *_, line in sorted(rows, key=lambda row: (row[0], not row[1], row[2]))]
    return f"{head}{mark}" + "\n".join([*others, *ordered, ""]) + f"{end}{tail}"


def normalise(text: str) -> list[str]:
    """Return the lines of a recording without what differs between two runs."""
    lines = []
    text = _hide_measured(_DOCUMENT.sub(_as_one_form, text))
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


def recordings(root: Path, prefixes: list[str]) -> Iterator[str]:
    """Yield the paths, relative to `root`, of the recordings asked for, in order."""
    for path in sorted(root.glob("*/*.txt")):
        name = str(path.relative_to(root))
        if not prefixes or any(name.startswith(prefix) for prefix in prefixes):
            yield name


@dataclass(frozen=True)
class Reason:
    """Why recordings differ, and in which lines of their diff."""

    kind: str
    cause: str
    files: tuple[str, ...]
    lines: tuple[re.Pattern[str], ...]

    def explains(self, name: str, line: str) -> bool:
        """Return whether this is why a line of the recording `name` differs."""
        if not any(fnmatchcase(name, pattern) for pattern in self.files):
            return False
        return not self.lines or any(pattern.search(line) for pattern in self.lines)


def read_reasons(path: Path = REASONS) -> tuple[Reason, ...]:
    """Return the reasons in a file, in its order."""
    tables = tomllib.loads(path.read_text())["reason"]
    return tuple(
        Reason(
            table["kind"],
            table["cause"],
            tuple(table["files"]),
            tuple(re.compile(pattern) for pattern in table.get("lines", ())),
        )
        for table in tables
    )


def differences(expected: Path, observed: Path) -> list[str]:
    """Return the differing lines of two recordings as a unified diff without its header."""
    texts = [path.read_text(errors="replace") for path in (expected, observed)]
    if expected.parent.name == "sacct":
        texts = [_comparable_rows(text) for text in texts]
    if expected.parent.name == "sdiag":
        texts = [text if "\n{" in text else _COUNT.sub("<measured>", text) for text in texts]
    before, after = map(normalise, texts)
    return list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]


def unexplained(name: str, lines: list[str], reasons: tuple[Reason, ...]) -> list[str]:
    """Return the lines of a diff that no reason explains."""
    return [
        line
        for line in lines
        if line[0] in "+-" and not any(reason.explains(name, line) for reason in reasons)
    ]


def compare(expected: Path, observed: Path, prefixes: list[str], show: bool) -> Counter[str]:
    """Print one line per recording, and the lines without a reason if `show`; return the counts."""
    counts: Counter[str] = Counter()
    reasons = read_reasons()
    for name in recordings(expected, prefixes):
        other = observed / name
        lines: list[str] = []
        if not other.exists():
            verdict = "missing"
        else:
            differing = differences(expected / name, other)
            lines = unexplained(name, differing, reasons)
            verdict = f"differs {len(lines)}" if lines else "explained" if differing else "equal"
        counts[verdict.split()[0]] += 1
        print(f"{verdict:12} {name}")
        if show:
            for line in lines:
                print(f"    {line}")
    return counts


def reasons_table(reasons: tuple[Reason, ...]) -> str:
    """Return the reasons as the table of docs/reference/reference-differences.md."""
    rows = [f"| {' '.join(reason.files)} | {reason.cause} | {reason.kind} |" for reason in reasons]
    return "\n".join(["| files | cause | |", "|---|---|---|", *rows]).replace("*", "\\*") + "\n"


def main(argv: list[str]) -> int:
    """Compare the two directories named; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("expected", type=Path)
    parser.add_argument("observed", type=Path)
    parser.add_argument("wanted", nargs="*", help="only these: SUBDIRECTORY or SUBDIRECTORY/NAME")
    parser.add_argument("--diff", action="store_true", help="show the lines without a reason")
    parser.add_argument("--reasons", action="store_true", help="print the reasons as a table")
    if argv == ["--reasons"]:
        print(reasons_table(read_reasons()), end="")
        return 0
    arguments = parser.parse_args(argv)
    for directory in (arguments.expected, arguments.observed):
        if not directory.is_dir():
            print(f"compare_reference: error: {directory}: not a directory", file=sys.stderr)
            return 2
    counts = compare(arguments.expected, arguments.observed, arguments.wanted, arguments.diff)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 0 if set(counts) <= {"equal", "explained"} else 1


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is left is not to be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
