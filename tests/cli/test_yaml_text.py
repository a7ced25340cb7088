"""--yaml: the documents of --json, spelled as YAML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyslurm_ng.cli import command
from pyslurm_ng.data_parser import yaml_text

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli" / "squeue"


def stdout_of(name: str) -> str:
    """Return what a recorded command wrote to stdout."""
    text = (GOLDEN / f"{name}.txt").read_text()
    return text.split("----- stdout\n")[1].split("----- stderr")[0]


def test_a_recorded_document_comes_out_as_slurm_writes_it() -> None:
    """One recording has the same jobs both ways; only the command differs."""
    document = yaml_text.from_json(stdout_of("json")).decode()
    assert document.replace("!!str --json", "!!str --yaml") == stdout_of("yaml")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("plain text", " plain text"),
        ("a: b", " 'a: b'"),
        ("it's: so", " 'it''s: so'"),
        ("# no comment", " '# no comment'"),
        ("-1", " -1"),
        ("- x", " '- x'"),
        ("two\nlines\t\u0001", ' "two\\nlines\\t\\x01"'),
        ("trailing ", " 'trailing '"),
    ],
)
def test_a_text_is_quoted_only_where_it_must_be(value: str, text: str) -> None:
    """Plain where YAML lets it be, so that readers see texts as they are."""
    assert yaml_text.from_json(json.dumps({"k": value})).decode() == (
        f"%YAML 1.1\n--- !!map\n!!str k: !!str{text}\n...\n\n"
    )


def test_an_option_yaml_turns_pieces_of_a_document_into_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Commands that stream JSON do not need to know it. Without the option nothing changes."""
    command.take_document(options := {"yaml": ""}, "")
    assert options == {"json": ""}
    command.write_bytes(b'{\n  "jobs": [')
    command.write_bytes(b"\n  ]\n}\n")
    command.take_document({}, "")
    command.write_bytes(b"as it is")
    assert capfd.readouterr().out == "%YAML 1.1\n--- !!map\n!!str jobs: !!seq []\n...\n\nas it is"
