"""How many reports of a node go into one message."""

from __future__ import annotations

from pyslurm_ng.wire import node_messages as nm, table


def test_reports_that_are_long_go_in_several_messages() -> None:
    """A job that ended with 4 MiB of news kept all reports of its node from slurmctld for ever."""
    reports: list[nm.Report] = [nm.ManagedSteps(7, 0, bytes(256 << 10)) for _ in range(40)]
    reports += [nm.DutyDone(8, 0, number) for number in range(9_000)]
    unsent, messages = list(reports), 0
    while unsent:
        batch = nm.first_reports(unsent)
        body = table.encode(nm.NodeReports(batch, 1))
        assert table.decode_request("NodeReports", body) == nm.NodeReports(batch, 1)
        unsent, messages = unsent[len(batch) :], messages + 1
    assert messages == 6
    whole: list[nm.Report] = [nm.ManagedSteps(7, 0, bytes(3 << 20)), reports[0]]
    assert nm.first_reports(whole) == whole[:1] and nm.first_reports([]) == []
