"""Several clusters at one slurmdbd: each has its own rows, and no other writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.followers.external_links import ExternalLinks
from pyslurm_ng.daemon.log import ERROR, QUIET, DaemonLog
from pyslurm_ng.dbd import controllers, schema
from pyslurm_ng.wire.daemon_link import socket_file
from pyslurm_ng.wire.dbd_messages import RegisterCluster
from pyslurm_ng.wire.stream_client import LinkError, connect_link
from tests.ctld.followers.dbd_sides import Accounting, ControllerLife, identity, until
from tests.dbd.accounting_room import listed, manage, register


def play(
    directory: Path, story: Callable[[Accounting], Awaitable[None]], path: str = ""
) -> Accounting:
    """Run a story with a slurmdbd; return it for a look at what is stored."""

    async def whole() -> Accounting:
        accounting = Accounting(directory)
        accounting.path = path or accounting.path
        await accounting.start()
        try:
            await story(accounting)
        finally:
            await accounting.stop()
        return accounting

    return asyncio.run(asyncio.wait_for(whole(), 60))


def controller(state: Path, accounting: Accounting, **more: Any) -> ControllerLife:
    """Start a controller with a state directory, which is made if there is none."""
    state.mkdir(exist_ok=True)
    return ControllerLife(state, accounting, **more)


def jobs_of(accounting: Accounting, cluster: str) -> list[tuple[int, str]]:
    """Return id and state of a cluster's jobs."""
    jobs, clusters = schema.jobs, schema.clusters
    with accounting.read() as connection:
        query = (
            sa.select(jobs.c.job_id, jobs.c.state)
            .where(jobs.c.cluster_id == clusters.c.id, clusters.c.name == cluster)
            .order_by(jobs.c.job_index)
        )
        return [(row.job_id, row.state) for row in connection.execute(query)]


def test_clusters_have_rows_cursors_and_associations_of_their_own(tmp_path: Path) -> None:
    """The job ids of two clusters are the same numbers, and each reads its own journal on."""

    async def story(accounting: Accounting) -> None:
        east = controller(tmp_path / "east", accounting, cluster="east", host="h1")
        west = controller(tmp_path / "west", accounting, cluster="west", host="h2")
        east.submit(2)
        west.submit(3)
        await east.stored()
        await west.stored()
        await west.close()
        east.start(1)
        east.end(1)
        await east.stored()
        await east.close()

    accounting = play(tmp_path, story)
    assert jobs_of(accounting, "east") == [(1, "COMPLETED"), (2, "PENDING")]
    assert jobs_of(accounting, "west") == [(1, "PENDING"), (2, "PENDING"), (3, "PENDING")]
    with accounting.read() as connection:
        cursors = connection.execute(sa.select(schema.cursors.c.journal_id)).scalars()
        assert len(set(cursors)) == 2
    shown = listed(accounting.database, "cluster")
    assert [(row["Cluster"], row["ControlHost"], row["ControlPort"]) for row in shown] == [
        ("east", "h1", 6817),
        ("west", "h2", 6817),
    ]
    users = listed(accounting.database, "association", "user=root")
    assert [row["Cluster"] for row in users] == ["east", "west"]
    accounting.database.close()


def test_a_cluster_with_another_key_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    """One line in its log says why; when it has the right key, all its jobs are stored."""

    async def story(accounting: Accounting) -> None:
        stranger = controller(tmp_path / "east", accounting, cluster="east", secret=b"x" * 64)
        stranger.submit(2)
        await until(lambda: bool(stranger.lines))
        line = "error: slurmdbd: credential was made with another slurm.key"
        assert [text.removesuffix("\n") for text in stranger.lines] == [line]
        await stranger.close()
        assert accounting.job_ids() == []
        east = controller(tmp_path / "east", accounting, cluster="east")
        await east.stored()
        await east.close()

    assert [job_id for job_id, _ in jobs_of(play(tmp_path, story), "east")] == [1, 2]


def test_a_second_controller_of_the_name_is_refused_while_the_first_is_there(
    tmp_path: Path,
) -> None:
    """Its journal would end the first one's jobs. When that one is gone, it is taken."""

    async def story(accounting: Accounting) -> None:
        first = controller(tmp_path / "one", accounting, host="h1")
        first.submit(1)
        await first.stored()
        second = controller(tmp_path / "two", accounting, host="h2")
        second.submit(1)
        await until(lambda: bool(second.lines))
        assert (
            "cluster demo is already registered by the controller at h1:6817, which has another "
            "journal: give the one at h2:6817 a ClusterName of its own"
        ) in second.lines[0]
        assert jobs_of(accounting, "demo") == [(1, "PENDING")]
        first.submit(1)
        await first.stored()
        assert jobs_of(accounting, "demo") == [(1, "PENDING"), (2, "PENDING")]
        await first.close()
        await second.close()

    play(tmp_path, story)


@pytest.mark.parametrize(("host", "is_late"), [("h1", True), ("h2", True), ("h2", False)])
def test_after_a_start_of_slurmdbd_the_known_controller_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_late: bool
) -> None:
    """A controller elsewhere waits until that one had time to return; `slurmctld -c` does not."""

    async def story(accounting: Accounting) -> None:
        first = controller(tmp_path / "one", accounting, host="h1")
        first.submit(1)
        await first.stored()
        await first.close()
        await accounting.stop()
        monkeypatch.setattr(controllers, "RETURN_S", 30.0 if is_late else 0.0)
        await accounting.start()
        second = controller(tmp_path / "two", accounting, host=host)
        if host != "h1" and is_late:
            await until(lambda: bool(second.lines))
            assert "already registered by the controller at h1:6817" in second.lines[0]
            assert jobs_of(accounting, "demo") == [(1, "PENDING")]
        else:
            await second.stored()
            assert jobs_of(accounting, "demo") == [(1, "CANCELLED")]
        await second.close()

    play(tmp_path, story)


def test_a_controller_speaks_for_its_own_cluster_only(tmp_path: Path) -> None:
    """The cluster in a controller's credential is the one whose rows it may write."""

    async def story(accounting: Accounting) -> None:
        link = await connect_link(identity("slurmctld", "east"), "slurmdbd", path=accounting.path)
        with pytest.raises(LinkError, match="the sender belongs to cluster east"):
            await link.request(RegisterCluster("west", "h", 6817, "journal-9"), 5)
        link.close()

    play(tmp_path, story)


def test_a_controller_says_where_it_is_without_accounting(tmp_path: Path) -> None:
    """AccountingStorageExternalHost: it has no rows there, and a real cluster is not touched."""
    text = (
        f"ClusterName=west\nSlurmctldHost=h9\nSlurmctldPort=7001\nSlurmctldPidFile={tmp_path}/p\n"
        "NodeName=n1\nPartitionName=p Nodes=n1\nAccountingStorageExternalHost=localhost:16819\n"
    )

    async def story(accounting: Accounting) -> None:
        lines: list[str] = []
        log = DaemonLog("slurmctld", lambda _, line: lines.append(line))
        log.stderr_level, log.syslog_level = QUIET, ERROR
        west = ExternalLinks(identity("slurmctld", "west"), log)
        west.adopt(parse_slurm_conf(text), "h9")
        east = controller(tmp_path / "east", accounting, cluster="east", host="h1")
        east.submit(1)
        await east.stored()
        await until(lambda: len(listed(accounting.database, "cluster")) == 2)
        west.adopt(parse_slurm_conf(text.replace("7001", "7002")), "h9")
        await until(lambda: ("west", "h9", 7002, "External") in places(accounting))
        rival = ExternalLinks(identity("slurmctld", "east"), log)
        rival.adopt(parse_slurm_conf(text.replace("west", "east")), "h9")
        await until(lambda: bool(lines))
        assert lines == [
            "error: external slurmdbd localhost:16819: cluster east has its accounting here, so "
            "this slurmdbd is not external to it"
        ]
        west.close()
        rival.close()
        await east.close()

    accounting = play(tmp_path, story, socket_file("slurmdbd", f"{tmp_path}/p", 16819))
    assert places(accounting) == [("east", "h1", 6817, ""), ("west", "h9", 7002, "External")]
    assert {row["Cluster"] for row in listed(accounting.database, "association")} == {"east"}
    for words in ("account chem", "account bio cluster=west"):
        made = manage(accounting.database, f"add {words}")
        assert (made.exit_code == 0) == ("west" not in words), made
    assert jobs_of(accounting, "east") == [(1, "PENDING")]
    register(accounting.database, "journal", cluster="west")
    assert places(accounting)[1][3] == ""
    assert {row["Cluster"] for row in listed(accounting.database, "association")} == {
        "east",
        "west",
    }


def places(accounting: Accounting) -> list[tuple[object, ...]]:
    """Return the clusters that `sacctmgr list cluster` shows, and where their controllers are."""
    rows = listed(accounting.database, "cluster")
    return [
        tuple(row[name] for name in ("Cluster", "ControlHost", "ControlPort", "Flags"))
        for row in rows
    ]
