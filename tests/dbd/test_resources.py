"""sacctmgr's resources, licences of other servers: as Slurm 22.05 words and counts them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from pyslurm_ng.ctld.rules.assoc import mirror
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.dbd import migrations, schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.updates import association_update, store_value
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.events import LicensesUpdated
from pyslurm_ng.model.license_server import deficit
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.dbd_messages import AssociationUpdate
from tests.dbd.accounting_room import listed, manage
from tests.world.callers import BOB
from tests.world.site import Site

MATLAB = "name=matlab server=flex_host"
ADD = f"add resource {MATLAB} count=50 servertype=flexlm type=license cluster=demo"


def shown(database: Database, words: str = "", *flags: str) -> list[tuple[object, ...]]:
    """Return name, server, count, what is allocated, cluster and its share."""
    rows = listed(database, "resource", words, *flags)
    keys = ("Name", "Server", "Count", "Allocated", "Cluster", "Allowed")
    return [tuple(row[key] for key in keys) for row in rows]


def update(database: Database, version: int = 0) -> AssociationUpdate | None:
    """Return what a controller with a version is told."""
    with database.read() as connection:
        store_id = store_value(connection, "store_id")
        return association_update(connection, "demo", store_id, version)


def licenses(database: Database) -> list[tuple[str, int]] | None:
    """Return the licences that a controller is told of at its first contact."""
    sent = update(database)
    assert sent is not None
    return sent.licenses


def test_added_resources_are_sent_and_shown(store: Database) -> None:
    """With a share in percent; the controller gets the count."""
    result = manage(store, f"{ADD} percentallowed=40")
    assert result.lines == [
        " Adding Resource(s)",
        "  matlab@flex_host",
        "   Cluster - demo\t40%",
        " Settings",
        "  Name           = matlab",
        "  Server         = flex_host",
        "  Description    = matlab",
        "  ServerType     = flexlm",
        "  Count          = 50",
        "  Type           = License",
    ]
    assert shown(store) == [("matlab", "flex_host", 50, 40, "", 0)]
    assert shown(store, "", "withclusters") == [("matlab", "flex_host", 50, 40, "demo", 40)]
    assert licenses(store) == [("matlab@flex_host", 20)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("add resource count=5 server=a", " Need name of resource to add."),
        ("add resource name=x",
         " Need to designate a resource count to initially add 'x'."),
        ("add resource name=x count=5 type=foo",
         " Unknown resource type: 'foo'  Valid resources is License."),
        ("add resource name=x@y count=5 type=license", " Bad resource name 'x@y@slurmdb'"),
        ("add resource name=x count=-5 type=license",
         "sacctmgr: error: Invalid value for count (-5)"),
        (f"add resource name=x count={'9' * 5000} type=license",
         f"sacctmgr: error: Invalid value for count ({'9' * 5000})"),
        ("add resource name=x count=1 flags=odd",
         " Unknown Server Resource flag used in:"),
        (f"{ADD} percentallowed=40", " Nothing new added."),
        (f"add resource {MATLAB} cluster=nosuch",
         " This cluster 'nosuch' doesn't exist."),
        ("modify resource where name=nosuch set count=100", " Nothing modified"),
        (f"modify resource where {MATLAB} set", " You didn't give me anything to set"),
        (f"modify resource where {MATLAB} cluster=demo set percentallowed=160",
         "sacctmgr: error: You can not allocate more than 100% of a resource"),
        (f"modify resource where {MATLAB} set percentallowed=x",
         "sacctmgr: error: Invalid value for Allowed (x)"),
        (f"modify resource where {MATLAB} set type=license", " You didn't give me anything to set"),
        (f"modify resource where {MATLAB} cluster=nosuch set percentallowed=1",
         " Nothing modified"),
        (f"delete resource where {MATLAB} cluster=nosuch", " Nothing deleted"),
        ("delete resource", " No conditions given to remove, not executing."),
        ("delete resource where name=nosuch", " Nothing deleted"),
    ],
)  # fmt: skip
def test_what_cannot_be_changes_nothing(store: Database, line: str, text: str) -> None:
    """One line says why; exit code 1."""
    assert manage(store, f"{ADD} percentallowed=40").exit_code == 0
    result = manage(store, line)
    assert result.exit_code == 1
    assert (result.error_lines or result.lines)[0] == text
    assert licenses(store) == [("matlab@flex_host", 20)]


def test_a_resource_is_a_license_unless_it_says_so(store: Database) -> None:
    """Slurm knows no other type, so that type= may be left out."""
    assert manage(store, "add resource name=x count=5").exit_code == 0
    assert shown(store) == [("x", "slurmdb", 5, 0, "", 0)]


def test_the_flag_is_taken_away_again(store: Database) -> None:
    assert manage(store, f"{ADD} percentallowed=40").exit_code == 0
    assert manage(store, f"modify resource {MATLAB} set flags+=absolute").exit_code == 0
    assert licenses(store) == [("matlab@flex_host", 40)]
    assert manage(store, f"modify resource {MATLAB} set flags-=absolute").exit_code == 0
    assert licenses(store) == [("matlab@flex_host", 20)]


def test_only_operators_change_resources(store: Database) -> None:
    """As anything that concerns everybody."""
    assert manage(store, ADD, user="alice", uid=1001).exit_code == 1
    assert shown(store) == []


def test_changes_reach_the_controller(store: Database) -> None:
    """Count, share, flag Absolute, and the end of it all; an unrelated change brings none."""
    manage(store, f"{ADD} percentallowed=40")
    first = update(store)
    assert first is not None and first.licenses
    manage(store, "add qos high")
    later = update(store, first.version)
    assert later is not None and later.licenses is None
    result = manage(store, f"modify resource where {MATLAB} set count=100")
    assert result.lines == [
        " Modified server resource ...", "  matlab@flex_host",
        "  Cluster - demo\t- matlab@flex_host",
    ]  # fmt: skip
    assert licenses(store) == [("matlab@flex_host", 40)]
    manage(store, f"modify resource where {MATLAB} cluster=demo set allowed=60")
    assert licenses(store) == [("matlab@flex_host", 60)]
    manage(store, f"modify resource where {MATLAB} set flags=absolute count=70")
    assert licenses(store) == [("matlab@flex_host", 60)]
    assert manage(store, f"modify resource where {MATLAB} set count=50").exit_code == 1
    result = manage(store, f"delete resource where {MATLAB} cluster=demo")
    assert result.lines == [" Deleting resource(s)...", "  Cluster - demo\t- matlab@flex_host"]
    assert licenses(store) == []
    assert manage(store, f"add resource {MATLAB} cluster=demo allowed=3").exit_code == 0
    assert licenses(store) == [("matlab@flex_host", 3)]
    result = manage(store, "delete resource where name=matlab")
    assert result.lines == [
        " Deleting resource(s)...", "  matlab@flex_host", "  Cluster - demo\t- matlab@flex_host",
    ]  # fmt: skip
    assert (licenses(store), shown(store)) == ([], [])
    assert shown(store, "", "withdeleted") == []  # it was made a moment ago


def test_a_store_of_before_gets_the_tables(store: Database) -> None:
    """The migration may be run again."""
    with store.write() as connection:
        schema.cluster_resources.drop(connection)
        schema.resources.drop(connection)
        for _ in range(2):
            dict(migrations.MIGRATIONS)[3](connection)
        names = sa.inspect(connection).get_table_names()
    assert {"resources", "cluster_resources"} <= set(names)


def test_jobs_use_them_by_name_and_server(store: Database) -> None:
    """A reconfigure leaves them, the server's word changes them; local ones stay."""
    manage(store, f"{ADD} percentallowed=40")
    room = Site("Licenses=ansys:2")
    told = update(store)
    assert told is not None
    room.apply(mirror(room.cluster, told, room.now_us))
    assert mirror(room.cluster, told, room.now_us) == []
    assert room.cluster.licenses == {"ansys": 2, "matlab@flex_host": 20}
    job = room.job(BOB, licenses="matlab@flex_host:15,ansys")
    wide = room.job(BOB, licenses="matlab@flex_host:6")
    for wrong in ("matlab:1", "matlab@flex_host:21", "other@flex_host"):
        assert not hasattr(room.submit(BOB, licenses=wrong), "job_id")
    room.run_pass()
    assert room.cluster.job_counts.licenses_used == {"matlab@flex_host": 15, "ansys": 1}
    apply_all(room.cluster, configure(room.cluster, room.conf, room.now_us))
    assert room.cluster.licenses == {"ansys": 2, "matlab@flex_host": 20}
    manage(store, f"modify resource where {MATLAB} cluster=demo set allowed=50")
    told = update(store)
    assert told is not None
    events = mirror(room.cluster, told, room.now_us)
    assert [type(event) for event in events if isinstance(event, LicensesUpdated)]
    room.apply(events)
    room.run_pass()
    assert room.cluster.job_counts.licenses_used["matlab@flex_host"] == 21
    assert job.licenses_alloc and wide.licenses_alloc


def tell(store: Database, room: Site, words: str = "") -> None:
    """Change the resource and let the controller hear of it."""
    if words:
        assert manage(store, f"modify resource where {MATLAB} set {words}").exit_code == 0
    told = update(store)
    assert told is not None
    room.apply(mirror(room.cluster, told, room.now_us))
    assert mirror(room.cluster, told, room.now_us) == []


def test_licences_in_use_elsewhere_are_missing_here(store: Database) -> None:
    """LastConsumed counts all users of the server; those that jobs had then are no others."""
    manage(store, f"{ADD} percentallowed=100")
    room = Site("")
    tell(store, room)
    mine = room.job(BOB, licenses="matlab@flex_host:20")
    room.run_pass()
    tell(store, room, "lastconsumed=45")  # 25 of them by others
    assert room.cluster.licenses_left("matlab@flex_host") == 5
    wide, narrow = (room.job(BOB, licenses=f"matlab@flex_host:{count}") for count in (6, 5))
    plan = room.run_pass()
    states = [job.state for job in (mine, wide, narrow)]
    assert states == [JobState.RUNNING, JobState.PENDING, JobState.RUNNING]
    assert plan.waits[wide.job_id].reason is Reason.Licenses
    assert Cluster.from_bytes(room.cluster.to_bytes()).licenses_left("matlab@flex_host") == 0
    tell(store, room, "lastconsumed=25")  # that is what jobs have: nobody else any
    room.run_pass()
    assert wide.state == JobState.RUNNING


@pytest.mark.parametrize(("consumed", "missing"), [
    (0, 0), (20, 0), (50, 0), (60, 0), (70, 10), (99, 39), (100, 40), (5000, 40),
])  # fmt: skip
def test_what_other_clusters_may_use_is_not_missing(consumed: int, missing: int) -> None:
    """Of 100, this cluster has 40, and jobs of it none: 60 may be used by others."""
    assert deficit(consumed, 100, 40, 0) == missing


def test_licences_that_jobs_hold_are_never_missing_too() -> None:
    """With 30 of the 40 used here at most 10 are."""
    assert [deficit(consumed, 100, 40, 30) for consumed in (30, 90, 95, 200)] == [0, 0, 5, 10]
