"""Rows of answers, also of daemons that are older than the program that asks."""

from __future__ import annotations

import msgpack
import pytest

from pyslurm_ng.data_parser.records import OlderDaemonError, Table, rows_of


def test_a_field_that_an_older_daemon_does_not_know_is_named() -> None:
    """RELIABILITY 47: a new scontrol before an old slurmctld ended with KeyError: 'cron'."""
    records = msgpack.packb([7, "a"]) + msgpack.packb([8, "b"])
    fields = ["job_id", "name"]
    line = r"older than this program.*'cron'.*upgrade slurmdbd first, then slurmctld"
    with pytest.raises(OlderDaemonError, match=line):
        Table(fields, records, ["job_id", "cron"])
    for rows in (
        Table(fields, records, fields).dicts(),
        rows_of({"fields": fields, "records": records}),
    ):
        assert rows == [{"job_id": 7, "name": "a"}, {"job_id": 8, "name": "b"}]
        assert rows[0].get("cron", "") == ""
        with pytest.raises(OlderDaemonError, match=line):
            rows[0]["cron"]
