"""Commands that are newer than their slurmctld: a cluster is not upgraded all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyslurm_ng.cli.listing.job_documents import print_jobs
from pyslurm_ng.ctld.queries.jobs import DETAIL_FIELDS
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.query_messages import Records, ShowJobs
from pyslurm_ng.wire.stream import Call
from pyslurm_ng.wire.table import MessageError
from tests.wire.wire_room import Room

NEWER = MessageError("newer_sender", "ShowJobs: Object contains unknown field `most`. Older here")


def test_an_older_slurmctld_is_asked_for_all_jobs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """--json asks for pages, which slurmctld of an earlier release refuses as an unknown field."""
    asked: list[ShowJobs] = []

    def answer(call: Call) -> None:
        assert isinstance(call.request, ShowJobs)
        asked.append(call.request)
        if call.request.most:
            call.refuse(NEWER)
        else:
            call.reply(Records(0, DETAIL_FIELDS, b"", "c1"))

    with Room(tmp_path, handler=answer) as room:
        assert print_jobs(["squeue", "--json"], room.client(), {}, show_all=False) == 0
    assert [bool(request.most) for request in asked] == [True, False]
    assert json.loads(capfd.readouterr().out)["jobs"] == []


def test_what_else_it_does_not_know_is_said(tmp_path: Path) -> None:
    """A filter that is too new is not left out: the answer would be another one."""
    with (
        Room(tmp_path, handler=lambda call: call.refuse(NEWER)) as room,
        pytest.raises(SlurmError, match="unknown field"),
    ):
        print_jobs(["squeue", "--json"], room.client(), {}, show_all=False)
