"""What sreport makes of single jobs, seen in 22.05 with weeks of jobs that were made by chance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, sqlite_url
from tests.cli.accounting.reported_week import MARS, VENUS, moment
from tests.cli.accounting_commands import Commands
from tests.dbd.accounting_room import SECOND, serving, utc
from tests.dbd.rollup.usage_room import roll_up

DAY = "start=2026-11-11 end=2026-11-12"
CLUSTERS = {MARS: ("mars", "cpu=2000,mem=4000000,node=2,gres/gpu=8"), VENUS: ("venus", "cpu=10")}
# Id, id of the parent, account, user, partition; those of venus are 100 more.
ASSOCIATIONS = (
    (1, 0, "root", "", ""), (2, 1, "science", "", ""), (3, 2, "physics", "", ""),
    (4, 1, "zoo", "", ""), (5, 4, "alpha", "", ""), (6, 3, "physics", "alice", "gpu"),
    (7, 3, "physics", "alice", ""), (8, 5, "alpha", "bob", ""), (9, 2, "science", "carol", ""),
)  # fmt: skip
# Association, wckey, hour of the begin, seconds, CPUs, GPUs.
JOBS = (
    (7, "probe", 10, 3600, 2, 0),
    (6, "*probe", 10, 1800, 2, 0),
    (8, "", 12, 0, 1, 0),
    (8, "mission", 12, 3600, 1, 0),
    (9, "mission", 14, 7200, 1, 4),
)


def _store(database: Database) -> None:
    begin = moment("2026-11-11T00:00:00")
    names = {number: (account, user) for number, _, account, user, _ in ASSOCIATIONS}
    with database.write() as connection:
        connection.execute(schema.tres.insert(), [{"id": 1001, "type": "gres", "name": "gpu"}])
        for number, (cluster, tres) in CLUSTERS.items():
            connection.execute(schema.clusters.insert(), [{"id": number, "name": cluster}])
            event = {"cluster_id": number, "node_name": "", "start_us": begin, "tres": tres,
                     "reason": "", "cluster_nodes": ""}  # fmt: skip
            connection.execute(schema.node_events.insert(), [event])
            above = 100 * (number - MARS)
            rows = [
                {"id": own + above, "cluster_id": number, "parent_id": parent and parent + above,
                 "account": account, "user": user, "partition": partition, "limits": "",
                 "comment": ""}
                for own, parent, account, user, partition in ASSOCIATIONS
            ]  # fmt: skip
            connection.execute(schema.associations.insert(), rows)
        jobs = []
        for index, (own, wckey, hour, seconds, cpus, gpus) in enumerate(JOBS, 1):
            start = begin + hour * 3600 * SECOND
            account, user = names[own]
            tres = f"cpu={cpus},mem=1000,node=1" + (f",gres/gpu={gpus}" if gpus else "")
            jobs.append(
                {"job_index": index, "sluid": index, "original_sluid": index, "job_id": index,
                 "cluster_id": MARS, "association_id": own, "account": account, "user": user,
                 "wckey": wckey, "eligible_us": start, "start_us": start, "qos": "normal",
                 "end_us": start + seconds * SECOND, "state": "COMPLETED", "cpus_requested": cpus,
                 "cpus_allocated": cpus, "tres_allocated": tres}
            )  # fmt: skip
        connection.execute(schema.jobs.insert(), jobs)
    roll_up(database, moment("2026-11-12T00:00:00"))


@pytest.fixture(scope="module")
def conf_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A slurmdbd with one day of two clusters, and the slurm.conf of mars."""
    patch = pytest.MonkeyPatch()
    utc(patch)
    folder = tmp_path_factory.mktemp("rules")
    database = Database(sqlite_url(str(folder / "accounting.sqlite")))
    database.open()
    _store(database)
    with serving(database, folder) as room:
        text = room.conf_path.read_text().replace("ClusterName=demo", "ClusterName=mars")
        room.conf_path.write_text(text)
        yield room.conf_path
    database.close()
    patch.undo()


@pytest.fixture
def commands(
    conf_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    return Commands(conf_path, monkeypatch, capfd)


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        # What a user used in all partitions is one row here, but two below the account.
        ("cluster UserUtilizationByAccount format=login,accounts,used",
         ["alice|physics|10800", "carol|science|7200", "bob|alpha|3600"]),
        ("cluster AccountUtilizationByUser users=alice format=login,accounts,used",
         ["alice|physics|7200", "alice|physics|3600"]),
        ("cluster AccountUtilizationByUser accounts=physics format=login,accounts,used",
         ["|physics|10800", "alice|physics|7200", "alice|physics|3600"]),
        # Trees come in the order of their names, wherever they are.
        ("cluster AccountUtilizationByUser accounts=science,alpha format=accounts,used,login",
         ["alpha|3600|", "alpha|3600|bob", "science|18000|", "science|7200|carol",
          "physics|10800|", "physics|7200|alice", "physics|3600|alice"]),
        # Those who have used no GPUs come in the reverse order of their CPU time.
        ("-T gres/gpu user TopUsage format=login,used",
         ["carol|28800", "bob|0", "alice|0", "alice|0"]),
        # An account has all below it, named or not.
        ("job SizesByAccount accounts=physics,science grouping=9",
         ["mars|science|18000|0|18000|100.00%"]),
        # A job of no second is none; jobs that named no wckey have none.
        ("job SizesByAccount printjobcount grouping=9", ["mars|root|4|0|4|100.00%"]),
        ("job SizesByWckey grouping=9",
         ["mars|mission|10800|0|10800|60.00%", "mars|probe|7200|0|7200|40.00%"]),
        ("job SizesByAccount accounts=alpha grouping=individual",
         ["mars|alpha|3600|0|3600|100.00%"]),
        # -M and clusters= add up, and go before all clusters.
        ("-M mars cluster Utilization clusters=venus format=cluster", ["mars", "venus"]),
        ("-M mars cluster Utilization all_clusters format=cluster", ["mars"]),
        ("-a cluster Utilization clusters=mars format=cluster", ["mars"]),
        ("-M all cluster Utilization format=cluster", ["mars", "venus"]),
    ],
)  # fmt: skip
def test_rows(commands: Commands, words: str, rows: list[str]) -> None:
    printed = commands.run("sreport", "-nP", "-t", "s", *words.split(), *DAY.split())
    assert printed.stdout.splitlines() == rows


def test_reported_time_is_a_part_of_the_whole_period(commands: Commands) -> None:
    words = "sreport -nP -t percent cluster Utilization start=2026-11-09 end=2026-11-12"
    printed = commands.run(*words.split(), "format=allocated,idle,reported")
    assert printed.stdout == "0.01%|99.99%|33.33%\n"


@pytest.mark.parametrize(
    ("words", "width"),
    [
        ("cluster UserUtilizationByAccount", 8),
        ("cluster UserUtilizationByAccount users=nobody", 9),  # 172,800,000 seconds
        ("-T mem user TopUsage users=nobody", 12),
        ("cluster UserUtilizationByWckey wckeys=none", 9),
        ("cluster UserUtilizationByWckey", 8),
        ("-M mars,venus user TopUsage", 8),
    ],
)
def test_columns_have_room_for_clusters_without_a_row(
    commands: Commands, words: str, width: int
) -> None:
    printed = commands.run("sreport", *words.split(), *DAY.split(), "format=login,used")
    assert printed.stdout.splitlines()[5].split()[1] == "-" * width


def test_sizes_of_no_jobs_cannot_be_listed(commands: Commands) -> None:
    words = f"sreport job SizesByAccount grouping=individual users=daemon {DAY}"
    printed = commands.run(*words.split())
    text = " We need a grouping list to set up the print.\n"
    assert (printed.stdout, printed.stderr, printed.code) == ("", text, 1)
