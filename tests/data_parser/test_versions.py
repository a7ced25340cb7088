"""--json=v0.0.43: documents of commands in older versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.cli import command
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.data_parser.versions import of_version, version_named
from tests.web.validation import complaints

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli"
DOCUMENTS = {
    "squeue/json": "openapi_job_info_resp",
    "scontrol/node_json": "openapi_nodes_resp",
    "scontrol/partition_json": "openapi_partition_resp",
}


def recorded(name: str) -> Any:
    """Return a document that a recorded command of Slurm printed."""
    text = (GOLDEN / f"{name}.txt").read_text()
    return json.loads(text.split("----- stdout\n")[1].split("----- stderr")[0])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_agree_with_the_schemas_of_a_version(name: str, version: str) -> None:
    """Each key that it has, and no other."""
    document = of_version(recorded(name), version)
    assert complaints(document, DOCUMENTS[name], version) == []
    assert document["meta"]["plugin"]["data_parser"] == f"data_parser/{version}"


def test_what_versions_do_not_describe_stays() -> None:
    """sinfo's groups are in no description."""
    document = recorded("sinfo/json")
    older = of_version(document, "v0.0.43")
    assert older["sinfo"] == document["sinfo"]


def test_words_that_an_older_version_spells_otherwise() -> None:
    """Flags that came later are left out, keys that went come back empty."""
    job = of_version(recorded("squeue/json"), "v0.0.43")["jobs"][0]
    assert "step_id" not in job and "runtime" not in job
    assert "power" in job


@pytest.mark.parametrize(
    ("text", "version"),
    [("v0.0.43", "v0.0.43"), ("data_parser/v0.0.44", "v0.0.44"), ("v0.0.45+fast", "v0.0.45"),
     ("v0.0.40", ""), ("", ""), ("list", "")],
)  # fmt: skip
def test_names_of_versions(text: str, version: str) -> None:
    """As after --json=."""
    assert version_named(text) == version


def test_commands_write_the_version_asked_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """At last, when the document is whole."""
    text = json.dumps(recorded("squeue/json"), indent=2) + "\n"
    command.take_document({}, "v0.0.43")
    try:
        command.write_bytes(text[:1000].encode())
        assert capfdbinary.readouterr().out == b""
        command.write_bytes(text[1000:].encode())
    finally:
        command.take_document({}, "")
    document = json.loads(capfdbinary.readouterr().out)
    assert document["meta"]["plugin"]["data_parser"] == "data_parser/v0.0.43"
