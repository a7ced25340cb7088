"""Write the page of promises, invariants and faults, with the tests that hold them.

    tools/generate_reliability.py FILE

A test says in its docstring, or its module's, which rows it holds: "RELIABILITY 27, 28". A decision
record does the same where a row is not held yet. So the table cannot name what is not there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
FACTS = REPOSITORY / "tools" / "facts" / "reliability.toml"
CITED = re.compile(r"RELIABILITY,?(?: rows?)?((?:[\s,]|and|to|\d+[bcd]?\b)+)")

RULES_CITED = re.compile(r"\b(S?I\d{1,2})\b")
PROSE = REPOSITORY / "tools" / "facts" / "reliability.md"


def cited_rows(text: str) -> list[str]:
    """Return the rows that a text cites, ranges written out."""
    numbers: list[str] = []
    for match in CITED.finditer(text):
        words = match[1].replace(",", " ").split()
        for index, word in enumerate(words):
            if word == "to" and 0 < index < len(words) - 1:
                first, last = words[index - 1], words[index + 1]
                if first.isdigit() and last.isdigit():
                    numbers += map(str, range(int(first) + 1, int(last)))
            elif word[0].isdigit():
                numbers.append(word)
    return numbers


@cache
def tests_by_row() -> dict[str, list[str]]:
    """Return `file::test` for each row; the file alone where only its docstring cites the row."""
    rows: dict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        name = path.relative_to(REPOSITORY).as_posix()
        tree = ast.parse(path.read_text())
        here: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in cited_rows(ast.get_docstring(node) or ""):
                    rows[row].append(f"{name}::{node.name}")
                    here.add(row)
        for row in cited_rows(ast.get_docstring(tree) or ""):
            if row not in here:
                rows[row].append(name)
    return rows


def records_by_row() -> dict[str, list[str]]:
    """Return the decision records that excuse or explain each row."""
    rows: dict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "docs" / "adr").glob("[0-9]*.md")):
        for row in dict.fromkeys(cited_rows(path.read_text())):
            rows[row].append(path.name)
    return rows


@cache
def holders_of_rules() -> dict[str, list[str]]:
    """Return the tests and decision records that cite each invariant."""
    holders: dict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        name = path.relative_to(REPOSITORY / "tests").as_posix()
        if path.name == "test_reliability.py":  # its examples hold nothing
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Module):
                where = (
                    f"`{name}::{node.name}`" if isinstance(node, ast.FunctionDef) else f"`{name}`"
                )
                for rule in RULES_CITED.findall(ast.get_docstring(node) or ""):
                    holders[rule].append(where)
    for path in sorted((REPOSITORY / "docs" / "adr").glob("[0-9]*.md")):
        for rule in dict.fromkeys(RULES_CITED.findall(path.read_text())):
            holders[rule].append(f"[{path.name[:4]}](adr/{path.name})")
    return holders


def rules() -> list[tuple[str, str, list[tuple[str, str, list[str]]]]]:
    """Return the invariants: title, what they are about, and number, text, rows of each."""
    facts = tomllib.loads(FACTS.read_text())
    return [
        (
            part["title"],
            part["about"],
            [(row[0], row[1], row[2].replace(",", " ").split()) for row in part["rows"]],
        )
        for part in facts["rules"]
    ]


def rule_lines() -> list[str]:
    """Return the tables of invariants."""
    lines = []
    for title, about, rows in rules():
        lines += [f"## {title}", "", about, ""]
        lines += ["| rule | what holds | rows of the table below | cited by |", "|---|---|---|---|"]
        for number, text, cited in rows:
            holders = "<br>".join(holders_of_rules()[number])
            lines.append(f"| {number} | {text} | {', '.join(cited)} | {holders} |")
        lines.append("")
    return lines


def groups() -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the titles of the table's parts with their rows: number, fault, what holds."""
    facts = tomllib.loads(FACTS.read_text())
    return [
        (group["title"], [(row[0], row[1], row[2]) for row in group["rows"]])
        for group in facts["group"]
    ]


def page() -> str:
    """Return the whole page."""
    tests, records = tests_by_row(), records_by_row()
    lines = [PROSE.read_text(), *rule_lines(), "## Faults, and the tests that hold", ""]
    for title, rows in groups():
        lines += [f"### {title}", "", "| row | fault | what holds | held by |", "|---|---|---|---|"]
        for number, fault, holds in rows:
            proofs = [f"`{test.removeprefix('tests/')}`" for test in tests[number]]
            proofs += [f"[{name[:4]}](adr/{name})" for name in records[number]]
            lines.append(
                f"| {number} | {fault} | {holds} | {'<br>'.join(proofs) or '**nothing yet**'} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
