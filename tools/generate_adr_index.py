"""Write the index of the decision records: generate_adr_index.py FILE."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "adr"
FORM = re.compile(
    r"# (?P<number>\d{4}): (?P<title>[^\n]+)\n\n"
    r"Status: (?P<status>proposed|accepted|superseded by \[\d{4}\]\([^)\n]+\))\. "
    r"Date: (?P<date>\d{4}-\d\d-\d\d)\.[^\n]*\n\n"
    r"## Problem\n.*\n## Decision\n.*\n## What would make us revisit\n(?!.*\n## )",
    re.DOTALL,
)
HEAD = """# Decision records

Each record is one page: status and date, the problem, what was decided, and what would make us
revisit it. Records 0001 to 0006 are what everything else follows from; read them before the first
change. A number that is missing was set aside for a decision that was not needed in the end.

A record is needed for a new kind of event, an exception to the layers, a new library, and a
deviation from Slurm. `make docs` writes this list.

| record | what was decided | status | date |
|---|---|---|---|
"""


class Record(NamedTuple):
    """What the index says of one record."""

    path: Path
    number: str
    title: str
    status: str
    date: str


def records() -> list[Record]:
    """Return all records; ValueError names one that does not have the form."""
    rows = []
    for path in sorted(RECORDS.glob("[0-9]*.md")):
        match = FORM.match(path.read_text())
        if match is None:
            raise ValueError(
                f"{path.name}: expected '# NNNN: Title', 'Status: accepted. Date: YYYY-MM-DD.', "
                "'## Problem', '## Decision' and, as the last part, '## What would make us revisit'"
            )
        rows.append(Record(path, *match.group("number", "title", "status", "date")))
    return rows


def page() -> str:
    """Return the whole page."""
    rows = [
        f"| [{record.number}]({record.path.name}) | {record.title} | {record.status} "
        f"| {record.date} |\n"
        for record in records()
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
