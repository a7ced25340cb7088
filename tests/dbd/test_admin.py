"""Who may change what, what a change does, and what it does not touch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import DeniedError
from pyslurm_ng.dbd.admin.verbs import Caller, actor_of, change
from pyslurm_ng.dbd.daemon import database_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.options import Options, load_configuration
from pyslurm_ng.dbd.show import list_entities
from pyslurm_ng.dbd.tree import Tree
from pyslurm_ng.dbd.updates import association_update, store_value
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.dbd_messages import AssociationUpdate, ChangeEntities, ListEntities
from tests.dbd.accounting_room import (
    OpenStore,
    assignments,
    at,
    listed,
    manage,
    managed,
    record,
    register,
    rows,
    submitted,
)

SCENARIO = (
    "add account physics fairshare=60",
    "add account chem fairshare=40",
    "add user alice account=physics fairshare=10",
    "add user bob account=physics",
    "add user bob account=chem",
    "add user carol account=chem",
    "add qos high priority=100",
    "add qos low",
)


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """Two accounts with three users, three QOS."""
    return open_store(managed(SCENARIO))


def tree(database: Database) -> Tree:
    with database.read() as connection:
        return Tree(connection, 1)


def update(database: Database, version: int, store_id: str | None = None
           ) -> AssociationUpdate | None:  # fmt: skip
    with database.read() as connection:
        known = store_value(connection, "store_id") if store_id is None else store_id
        return association_update(connection, "demo", known, version)


def effective(database: Database, account: str, user: str = "") -> tuple[str, ...]:
    associations = tree(database)
    row = associations.find(account, user)
    assert row is not None
    return tuple(associations.qos_names[qos_id] for qos_id in associations.qos_ids(row))


def test_a_preview_changes_nothing(store: Database) -> None:
    """The question (N/y) is asked with nothing done yet."""
    before = rows(store, schema.associations, "account", "user", "version")
    result = manage(store, "add user dave account=chem", commit=False)
    assert result.changed == 2
    assert " Adding User(s)" in result.lines
    assert rows(store, schema.associations, "account", "user", "version") == before
    assert rows(store, schema.txn, "object")[-1] != ("dave",)


def test_the_first_account_is_the_default(store: Database) -> None:
    """Later ones are not, until the default is changed."""
    associations = tree(store)
    assert [
        row["account"]
        for row in associations.rows.values()
        if row["user"] == "bob" and row["is_default"]
    ] == ["physics"]
    assert manage(store, "modify user bob set defaultaccount=chem").lines == [
        " Modified users...", "  bob",
    ]  # fmt: skip
    associations = tree(store)
    assert [
        row["account"]
        for row in associations.rows.values()
        if row["user"] == "bob" and row["is_default"]
    ] == ["chem"]


def test_the_default_account_cannot_be_taken_away(store: Database) -> None:
    """Unless it is the last."""
    refused = manage(store, "delete user bob account=physics")
    assert refused.exit_code == 1
    assert "can not remove the default account of a user" in refused.error_lines[0]
    assert manage(store, "delete user bob account=chem").exit_code == 0
    assert manage(store, "delete user bob account=physics").exit_code == 0


def test_qos_lists_are_inherited_and_edited(store: Database) -> None:
    """`=` replaces, `+=` and `-=` edit what comes from above."""
    manage(store, "modify account chem set qos=normal,high")
    assert effective(store, "chem", "bob") == ("normal", "high")
    manage(store, "modify user bob account=chem set qos+=low qos-=high")
    assert effective(store, "chem", "bob") == ("normal", "low")
    manage(store, "modify account chem set qos+=low")
    assert effective(store, "chem", "carol") == ("normal", "high", "low")
    manage(store, "modify user bob account=chem set qos=high")
    assert effective(store, "chem", "bob") == ("high",)
    manage(store, "modify user bob account=chem set qos=")
    assert effective(store, "chem", "bob") == ("normal", "high", "low")


def test_the_last_qos_of_a_list_is_taken_away(store: Database) -> None:
    """What comes from above then holds again, but for what was just taken away."""
    manage(store, "modify account chem set qos=normal,high,low")
    manage(store, "modify user bob account=chem set qos=high")
    manage(store, "modify user bob account=chem set qos-=high")
    assert effective(store, "chem", "bob") == ("normal", "low")
    manage(store, "modify user bob account=chem set qos=high,low")
    manage(store, "modify user bob account=chem set qos-=high")
    assert effective(store, "chem", "bob") == ("low",)
    manage(store, "modify user bob account=chem set qos-=low")
    assert effective(store, "chem", "bob") == ("normal", "high")
    manage(store, "modify user bob account=chem set qos=low")
    manage(store, "modify user bob account=chem set qos-=high qos-=low")
    assert effective(store, "chem", "bob") == ("normal", "high")


def test_a_default_qos_must_be_allowed(store: Database) -> None:
    """A job that names none would otherwise be refused at every submission."""
    assert manage(store, "modify user bob set defaultqos=high").exit_code == 1
    assert manage(store, "modify user bob set qos+=high defaultqos=high").exit_code == 0


def test_max_limits_are_inherited_group_limits_are_not(store: Database) -> None:
    """Group limits are checked at each level; the others by the nearest that has one."""
    manage(store, "modify account chem set maxjobs=7 grpjobs=9 maxtres=cpu=8,mem=2G")
    manage(store, "modify user bob account=chem set maxjobs=3")
    sent = update(store, 0)
    assert sent is not None
    by_user = {
        (association.account, association.user): association.limits
        for association in sent.associations
    }
    assert by_user["chem", "carol"].max_jobs == 7
    assert by_user["chem", "bob"].max_jobs == 3
    assert by_user["chem", "bob"].max_tres_per_job == {"cpu": 8, "mem": 2048}
    assert by_user["chem", "bob"].grp_jobs == 2**32 - 1
    assert by_user["chem", ""].grp_jobs == 9


def test_a_priority_is_inherited(store: Database) -> None:
    """As Max limits are; one of its own counts before."""
    manage(store, "modify account chem set priority=7")
    manage(store, "modify user bob where account=chem set priority=9")
    associations = tree(store)
    of = {
        name: associations.record(row).priority
        for name in ("", "bob", "carol")
        if (row := associations.find("chem", name)) is not None
    }
    assert of == {"": 7, "bob": 9, "carol": 7}
    manage(store, "modify user bob where account=chem set priority=-1")
    shown = {row["User"]: row["Priority"] for row in listed(store, "association", "account=chem")}
    assert shown == {"": 7, "bob": 7, "carol": 7}


def test_minus_one_clears_a_limit(store: Database) -> None:
    """Also one TRES of a list, and by its name from before TRES."""
    manage(store, "modify account chem set grptres=cpu=8,mem=100 grpwall=60 grpnodes=4")
    manage(store, "modify account chem set grptres=cpu=-1 grpwall=-1")
    row = tree(store).find("chem")
    assert row is not None
    assert row["limits"] == {"GrpTRES": {"mem": 100, "node": 4}}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("modify user bob set maxjobs=x", "sacctmgr: error: Invalid value for MaxJobs (x)"),
        ("modify user bob set maxwall=soon", " Bad MaxWall time format: maxwall=soon"),
        ("modify user bob set grptres=cpu", "sacctmgr: error: slurmdb_format_tres_str: no TRES id"),
        (
            "modify user bob set fairshare=many",
            "sacctmgr: error: Invalid value for FairShare (many)",
        ),
        (
            "modify user bob set qos=nope",
            "sacctmgr: error: You gave a bad qos 'nope'. Valid QOS's are",
        ),
        (
            "modify user bob set qos=+high,low",
            "sacctmgr: error: You can't set qos equal to something and then add or subtract from "
            "it in the same line",
        ),
        *(
            (line, " You gave a bad admin level ''. Valid levels are None, Operator, Administrator")
            for line in ("modify user bob set adminlevel=", "delete user where adminlevel=")
        ),
        ("modify user bob set frob", " Bad format on frob: End your option with an '=' sign"),
        ("modify account chem set frob", " Can't modify the name of an account"),
        (
            "modify user bob set defaultaccount=",
            "sacctmgr: error: You can not remove the default account of a user",
        ),
        ("modify user bob set frobnicate=1", " Unknown option: frobnicate=1"),
        ("modify user bob set mincpus=1", " Unknown option: mincpus=1"),
        *(
            (f"modify {of} set {key}={'9' * 5000}", f"sacctmgr: error: Invalid value for {key} (9")
            for of, key in (
                ("user bob", "FairShare"),
                ("user bob", "Priority"),
                ("qos low", "Priority"),
            )
        ),
        ("modify account chem set p=physics", " Unknown option: p=physics"),
        ("modify user bob set m=1", " Unknown option: m=1"),
        ("modify user bob set maxt=cpu=1", " Unknown option: maxt=cpu=1"),
        ("modify user where frob=1 set maxjobs=1", " Unknown condition: frob=1"),
        ("add user dave account=chem cluster=nope", " This cluster 'nope' doesn't exist."),
        ("modify qos low set preemptmode=hug", " Bad Preempt Mode given: preemptmode=hug"),
        ("modify qos low set priority=x", "sacctmgr: error: Invalid value for Priority (x)"),
        ("modify qos low set usagefactor=x", "sacctmgr: error: Invalid value for UsageFactor (x)"),
        ("modify qos low set preempt=low", "sacctmgr: error: QOS Preemption loop detected"),
        (
            "modify qos low set maxtresperuser=gres/gup=2",
            "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type gres/gup",
        ),
        (
            "modify user bob set grptres=license/gup=2",
            "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type license/gup",
        ),
        ("modify account chem set parent=nope", " Parent Account nope doesn't exist."),
        (
            "modify user bob set defaultqos=nope",
            "You gave a bad default qos 'nope'.  Use 'list qos' to get complete list.",
        ),
        ("add coordinator", " You need to specify conditions to to add the coordinator."),
        ("add coordinator account=chem", " You need to specify a user list here."),
        ("add coordinator bob", " You need to specify an account list here."),
        ("add coordinator account=no bob", " You specified a non-existent account 'no'."),
        ("add coordinator account=chem no", " You specified a non-existent user 'no'."),
        ("delete coordinator", " You need to specify a user list or account list here."),
        ("delete account root", " You are not allowed to remove the root account."),
        ("delete account", " No conditions given to remove, not executing."),
        ("delete qos", " No conditions given to remove, not executing."),
        ("delete cluster", " No conditions given to remove, not executing."),
        ("add account bad/name", " Bad account name"),
        ("add account a'b", ' Bad account name "a\'b"'),
        ('add account a";drop--', " Bad account name 'a\";drop--'"),
        ("add account a\x1b[31m", " Bad account name 'a\\x1b[31m'"),
        ("add account a\0b", " Bad account name 'a\\x00b'"),
        ("add user eve\x07 account=chem", " Bad user name 'eve\\x07'"),
        ("add qos q\x07", " Bad QOS name 'q\\x07'"),
        ("add cluster c\x7f", " Bad cluster name 'c\\x7f'"),
        (f"add account {'x' * 300}", " Bad account name 'xxx"),
        ("modify account chem set parent=chem", " Error with request: chem is below chem; "),
        ("modify account chem set grptres=cpu=-5", " Bad GrpTRES value: cpu=-5: not a number"),
        ("modify account chem set grptres=cpu=" + "9" * 30, " Bad GrpTRES value: cpu=999"),
        ("modify account chem set maxwall=abc", " Bad MaxWall time format: maxwall=abc"),
        ("modify account chem set fairshare=-7", "sacctmgr: error: Invalid value for FairShare"),
        ("modify qos low set priority=" + "9" * 11, "sacctmgr: error: Invalid value for Priority"),
        ("modify user bob set adminlevel=king", " You gave a bad admin level 'king'"),
        ("delete user", " No conditions given to remove, not executing."),
        ("modify user bob", " You didn't give me anything to set"),
    ],
)
def test_a_bad_word_is_one_line_and_changes_nothing(store: Database, line: str, text: str) -> None:
    """RELIABILITY 74: a message, never a traceback."""
    version = rows(store, schema.store, "value")
    result = manage(store, line)
    assert result.exit_code == 1
    assert result.error_lines[0].startswith(text)
    assert rows(store, schema.store, "value") == version


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "modify user bob set maxj=x",
            [
                "sacctmgr: error: Invalid value for MaxJobs (x)",
                " Unknown option: maxj=x",
                " Use keyword 'where' to modify condition",
            ],
        ),
        (
            "add account new foo=1",
            [" Unknown option: foo=1", " Use keyword 'where' to modify condition"],
        ),
        (
            "delete user foo=1",
            [
                " Unknown condition: foo=1",
                " Use keyword 'set' to modify value",
                " No conditions given to remove, not executing.",
            ],
        ),
    ],
)
def test_the_word_that_is_not_understood_is_named(
    store: Database, line: str, lines: list[str]
) -> None:
    """As it was typed, with what Slurm says about it."""
    assert manage(store, line).error_lines == lines


def test_unknown_flags_of_a_qos_list_those_that_there_are(store: Database) -> None:
    """On stdout, as in Slurm."""
    refused = manage(store, "modify qos low set flags=Nonsense")
    assert (refused.error_lines, refused.exit_code) == ([], 1)
    assert refused.lines[:3] == [
        " Unknown QOS flag used in:", "  'Nonsense'", " Valid QOS flags are",
    ]  # fmt: skip
    assert "DenyOnLimit," in refused.lines[3]


def test_limits_on_what_jobs_never_hold_are_named(store: Database) -> None:
    """They are stored, and the answer says that they do not limit."""
    for line in (
        "modify qos low set maxtres=energy=5,cpu=3", "modify user bob set grptres=energy=5",
        "add qos other maxtrespu=energy=7",
    ):  # fmt: skip
        last = manage(store, line).lines[-1]
        assert last.startswith(" A limit on energy has no effect in pyslurm-ng: ")
    assert "energy" not in manage(store, "modify qos low set maxtres=energy=-1").lines[-1]


def test_a_new_qos_is_shown_with_all_that_was_set(store: Database) -> None:
    """The description first, then Slurm's names in Slurm's order; a name may have a hyphen."""
    line = "add qos a-b description=Foo mincpus=2 maxwall=60 flags=NoDecay grptres=cpu=4 usagef=0.5"
    assert manage(store, line).lines == [
        " Adding QOS(s)",
        "  a-b",
        " Settings",
        "  Description    = foo",
        "  Flags                    = NoDecay",
        "  GrpTRES                  = cpu=4",
        "  MinTRESPerJob            = cpu=2",
        "  MaxWall                  = 01:00:00",
        "  UsageFactor              = 0.5000",
    ]
    assert manage(store, "add qos c-d,e-f").lines[-1] == "  Description    = e-f"
    assert manage(store, "add qos -x").error_lines == [" Bad QOS name '-x'"]


def test_what_is_changed_is_shown_as_slurm_shows_it(store: Database) -> None:
    """Accounts with their parents, clusters with their root; the same parent is no change."""
    assert manage(store, "modify account chem set fairshare=3").lines == [
        " Modified account associations...", "  C = demo       A = chem of root",
    ]  # fmt: skip
    assert manage(store, "modify account chem set parent=root").lines == [" Nothing modified"]
    assert manage(store, "modify cluster demo set fairshare=2").lines == [
        " Setting",
        "  Default Limits:",
        "  Fairshare     = 2",
        " Modified cluster defaults for associations...",
        "  C = demo       A = root",
    ]
    assert manage(store, "modify user bob set defaultaccount=nope").lines == [
        " Can't modify because these users aren't associated with new default account 'nope'...",
        "  U = bob C = demo",
    ]


def test_a_new_account_belongs_to_its_parents_organization(store: Database) -> None:
    """Unless it is named, or the parent is root."""
    manage(store, "add account bio parent=chem")
    manage(store, "add account art")
    shown = {row["Account"]: row["Organization"] for row in listed(store, "account")}
    assert (shown["bio"], shown["art"]) == ("chem", "art")


def test_coordinators_that_were_removed_are_listed(store: Database) -> None:
    """What was asked for, then what was done."""
    manage(store, "add coordinator account=chem bob")
    assert manage(store, "delete coordinator account=chem").lines == [
        " Removing all users from Accounts",
        "  chem",
        " Removed Coordinators (sub accounts not listed)...",
        "  U = bob       A = chem      ",
    ]
    assert manage(store, "delete coordinator bob").lines == [
        " Removing Coordinators with user name",
        "  bob",
        " From all accounts",
        " Nothing removed",
    ]


def test_accounts_move_with_everything_below(store: Database) -> None:
    """And not under their own children."""
    manage(store, "add account bio parent=chem")
    manage(store, "modify account chem set parent=physics")
    lineages = {row["account"]: row["lineage"] for row in tree(store).rows.values()
                if not row["user"]}  # fmt: skip
    assert lineages["bio"] == "/physics/chem/bio/"
    refused = manage(store, "modify account physics set parent=bio")
    assert "cannot be moved under its own children" in refused.error_lines[0]


def test_what_has_active_jobs_stays(store: Database) -> None:
    """The jobs are named."""
    association = tree(store).find("physics", "alice")
    assert association is not None
    record(store, submitted(at("12:00:00"), 7))
    with store.write() as connection:
        connection.execute(schema.jobs.update().values(association_id=association["id"]))
    refused = manage(store, "delete account physics")
    assert refused.error_lines[0] == (
        " Error with request: Job(s) active, cancel job(s) before remove"
    )
    assert "JobID = 7" in refused.error_lines[1]
    assert tree(store).find("physics") is not None


def test_a_deleted_association_comes_back_under_its_id(store: Database) -> None:
    """Usage and jobs of the past belong to it."""
    before = tree(store).find("chem", "carol")
    manage(store, "modify user carol set maxjobs=4")
    manage(store, "delete user carol")
    assert tree(store).find("chem", "carol") is None
    manage(store, "add user carol account=chem")
    after = tree(store).find("chem", "carol")
    assert before is not None
    assert after is not None
    assert after["id"] == before["id"]
    assert after["limits"] == {}


def test_limits_of_a_qos_are_shown_by_the_names_that_set_them(store: Database) -> None:
    """MaxJobs and MaxSubmitJobs are those of each user, as in Slurm 22.05."""
    manage(store, "modify qos low set maxjobs=4 maxsubmitjobs=0")
    row = next(row for row in listed(store, "qos") if row["Name"] == "low")
    assert (row["MaxJobs"], row["MaxJobsPerUser"]) == ("4", "4")
    assert (row["MaxSubmitJobs"], row["MaxSubmitJobsPerUser"]) == ("0", "0")


def test_a_removed_qos_leaves_every_list(store: Database) -> None:
    """No list may keep a QOS that does not exist."""
    manage(store, "modify user bob set qos+=low")
    manage(store, "delete qos low")
    assert effective(store, "chem", "bob") == ("normal",)


def test_the_qos_of_jobs_by_default_stays(store: Database) -> None:
    """Otherwise jobs of its users would run under other limits than before, without a word."""
    manage(store, "modify user bob set qos+=low defaultqos=low")
    refusal = manage(store, "delete qos low,high")
    assert refusal.exit_code == 1
    assert refusal.error_lines == [
        " Associations listed below have these as their Default QOS.",
        "  DefQOS = low        C = demo       A = chem                 U = bob      ",
        "  DefQOS = low        C = demo       A = physics              U = bob      ",
        " Please either remove the qos' listed above from list and resubmit,",
        " or change the default qos to remove the qos.",
        " Changes Discarded",
    ]
    assert {"low", "high"} <= {row["Name"] for row in listed(store, "qos")}
    manage(store, "modify user bob set defaultqos=-1")
    assert manage(store, "delete qos low").exit_code == 0


# Rights ---------------------------------------------------------------------------------------


def test_users_change_nothing(store: Database) -> None:
    """RELIABILITY 60."""
    for line in (
        "add account evil", "add user eve account=chem", "add qos evil", "add cluster evil",
        "modify user alice set maxjobs=100", "modify user alice set adminlevel=Administrator",
        "modify qos high set priority=9", "modify account chem set fairshare=9",
        "delete user bob", "delete account chem", "delete qos low", "delete cluster demo",
        "add coordinator account=chem names=alice", "delete coordinator names=alice account=chem",
        "modify cluster demo set fairshare=9",
    ):  # fmt: skip
        before = rows(store, schema.associations, "version"), rows(store, schema.users, "version")
        assert manage(store, line, "alice", 1001).exit_code == 1, line
        after = rows(store, schema.associations, "version"), rows(store, schema.users, "version")
        assert after == before, line


@pytest.mark.parametrize("word", ["yes", "no"])
def test_coordinators_may_be_disabled(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """DisableCoordDBD: they may do what other users may, and no more."""
    path = tmp_path / "slurmdbd.conf"
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    path.write_text(
        f"StorageType=accounting_storage/sqlite\nStorageLoc={tmp_path}/x\nDbdHost=localhost\n"
        f"DisableCoordDBD={word}\n"
    )
    path.chmod(0o600)
    configuration = load_configuration(Options(conf_path=str(path)))
    manage(store, "add coordinator account=chem names=carol")
    caller = Caller(1003, "carol", False, configuration.has_coordinators)
    request = ChangeEntities(
        "modify", "user", assignments(["bob", "account=chem"]), assignments(["maxjobs=2"]), True
    )
    assert change(store, request, caller).exit_code == (word == "yes")
    with store.read() as connection:
        actor = actor_of(connection, 1003, "carol", False, configuration.has_coordinators)
    assert ("chem" in actor.coordinates) == (word == "no")


@pytest.mark.parametrize("word", ["PreserveCaseUser", "PreserveCaseAll"])
def test_users_may_have_capitals(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Parameters=PreserveCaseUser: Eve is another user than eve, in every command."""
    path = tmp_path / "slurmdbd.conf"
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    path.write_text(
        f"StorageType=accounting_storage/sqlite\nStorageLoc={tmp_path}/x\nDbdHost=localhost\n"
        f"Parameters={word}\n"
    )
    path.chmod(0o600)
    store = database
    store.keeps_users = database_of(load_configuration(Options(conf_path=str(path)))).keeps_users
    register(store)
    for line in (
        "add account Chem",
        "add user Eve,eve account=chem",
        "modify user Eve set maxjobs=2",
        "add coordinator account=chem names=Eve",
        "modify user eve set newname=Ava",
        "delete user Ava",
    ):
        assert manage(store, line).exit_code == 0, line
    assert manage(store, "modify user EVE set maxjobs=3").exit_code == 1
    request = ListEntities("association", assignments(["users=Eve"]))
    with store.read() as connection:
        root = actor_of(connection, 0, "root", True)
        answer = list_entities(connection, request, root, frozenset(), keeps_users=True)
        coordinates = actor_of(connection, 1009, "Eve", False).coordinates
    ((user, account, most),) = project(
        answer.records, [answer.fields.index(name) for name in ("User", "Account", "MaxJobs")]
    )
    assert (user, account, most) == ("Eve", "chem", "2")
    assert coordinates == {"chem"}
    assert [row["User"] for row in listed(store, "user")] == ["Eve", "root"]
    store.keeps_users = False
    assert manage(store, "add user Bob account=chem").exit_code == 0
    assert "bob" in [row["User"] for row in listed(store, "user")]


def test_coordinators_rule_their_accounts_and_those_below(store: Database) -> None:
    """Not others, and not themselves."""
    manage(store, "add account bio parent=chem")
    manage(store, "add coordinator account=chem names=carol")
    as_carol = ("carol", 1003)
    assert manage(store, "add user alice account=bio", *as_carol).exit_code == 0
    assert manage(store, "modify user bob account=chem set maxjobs=2", *as_carol).exit_code == 0
    for line in (
        "add user carol account=physics",
        "modify user alice account=physics set maxjobs=2",
        "modify user carol account=chem set maxjobs=200",
        "modify user carol set adminlevel=Operator",
        "delete account physics",
    ):
        assert manage(store, line, *as_carol).exit_code == 1, line


def test_accounts_below_count_among_those_that_a_coordinator_has(store: Database) -> None:
    """`withcoordinator` lists them, as Slurm does."""
    manage(store, "add account bio parent=chem")
    manage(store, "add coordinator account=chem names=carol")
    users = {row["User"]: row["Coordinators"] for row in listed(store, "user")}
    assert users["carol"] == "bio,chem" and users["bob"] == ""
    direct = {row["User"]: row["DirectCoordinators"] for row in listed(store, "user")}
    assert direct["carol"] == "chem" and direct["bob"] == ""
    accounts = {row["Account"]: row["Coordinators"] for row in listed(store, "account")}
    assert (accounts["bio"], accounts["chem"], accounts["root"]) == ("carol", "carol", "")
    direct = {row["Account"]: row["DirectCoordinators"] for row in listed(store, "account")}
    assert (direct["bio"], direct["chem"]) == ("", "carol")


def test_a_clusters_classification_is_one_of_three_words(store: Database) -> None:
    """Shortened, in any letters; listed as Slurm writes it."""
    manage(store, "add cluster other classification=capab")
    rows_of = {row["Cluster"]: row for row in listed(store, "cluster")}
    assert rows_of["other"]["Classification"] == "Capability"
    result = manage(store, "modify cluster other set classification=CAPACITY")
    assert "  Classification = Capacity" in result.lines
    rows_of = {row["Cluster"]: row for row in listed(store, "cluster")}
    assert rows_of["other"]["Classification"] == "Capacity"
    for word in ("fast", "cap"):
        result = manage(store, f"modify cluster other set classification={word}")
        assert result.error_lines == [
            f" Classification={word}: Capability, Capacity, Capapacity or nothing is allowed"
        ]


def test_coordinators_take_no_user_away_from_another_account(store: Database) -> None:
    """The default account is where a user's jobs go; 22.05 says the same."""
    manage(store, "add account bio")
    manage(store, "add coordinator account=bio names=carol")
    result = manage(store, "add user bob account=bio defaultaccount=bio", "carol", 1003)
    assert result.error_lines == [
        " Your user/uid (carol/1003) is not AdminLevel >= Operator, you cannot set DefaultAccount."
    ]
    assert manage(store, "add user bob account=bio", "carol", 1003).exit_code == 0
    defaults = {
        (row[0], row[1])
        for row in rows(store, schema.associations, "user", "account", "is_default")
        if row[2]
    }
    assert ("bob", "bio") not in defaults


def test_operators_cannot_raise_rights(store: Database) -> None:
    """Only administrators give admin levels, or remove their holders."""
    manage(store, "add user oscar account=chem adminlevel=Operator")
    manage(store, "add user ada account=chem adminlevel=Administrator")
    as_oscar = ("oscar", 2001)
    assert manage(store, "add account bio", *as_oscar).exit_code == 0
    assert manage(store, "modify user oscar set adminlevel=Admin", *as_oscar).exit_code == 1
    assert manage(store, "delete user ada", *as_oscar).exit_code == 1
    assert manage(store, "modify user ada set newname=friend", *as_oscar).exit_code == 1
    with store.read() as connection:
        assert actor_of(connection, 2001, "oscar", False).is_operator
        assert not actor_of(connection, 2001, "oscar", False).is_administrator


@pytest.mark.parametrize(
    "line",
    [
        "add qos high", "modify qos normal set priority=9", "delete qos low", "add cluster more",
        "delete cluster demo", "add resource x server=s type=license count=3 cluster=demo",
    ],
)  # fmt: skip
def test_what_concerns_all_is_for_administrators(store: Database, line: str) -> None:
    """QOS preempt and lift limits of accounts; 22.05 refuses operators the same."""
    manage(store, "add qos low")
    manage(store, "add user oscar account=chem adminlevel=Operator")
    (said,) = manage(store, line, "oscar", 2001).error_lines
    assert said.startswith(" error: Only administrators can ")
    assert manage(store, "modify cluster demo set maxjobs=4", "oscar", 2001).exit_code == 0


def test_a_user_chooses_a_default_among_own_accounts(store: Database) -> None:
    """The one thing that is everybody's own to change."""
    assert manage(store, "modify user bob set defaultaccount=chem", "bob", 1002).exit_code == 0
    assert manage(store, "modify user alice set defaultaccount=chem", "bob", 1002).exit_code == 1


@pytest.mark.parametrize("text", ["x' or '1'='1", 'x"; drop table jobs; --', "%", "\\", "\0"])
def test_texts_are_never_part_of_a_statement(store: Database, text: str) -> None:
    """RELIABILITY 69: bound parameters only."""
    before = len(rows(store, schema.associations, "id"))
    from pyslurm_ng.dbd.admin.verbs import Caller, change
    from pyslurm_ng.wire.dbd_messages import Assignment, ChangeEntities

    for verb in ("modify", "delete"):
        request = ChangeEntities(
            verb, "user", [Assignment("name", "=", text)], [Assignment("maxjobs", "=", "1")], True
        )
        assert change(store, request, Caller(0, "root", True)).exit_code == 1
    with store.read() as connection:
        actor = actor_of(connection, 0, "root", True)
        listed = ListEntities("association", [Assignment("user", "=", text)])
        assert list_entities(connection, listed, actor, frozenset()).records == b""
    assert len(rows(store, schema.associations, "id")) == before


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("down", [("n1", "DRAIN", 513), ("n3", "DOWN*", 1)]),
        ("drain", [("n1", "DRAIN", 513), ("n2", "DRAIN", 514)]),
        ("idle", [("n2", "DRAIN", 514)]),
    ],
)
def test_events_of_drained_nodes_are_found_by_both_states(
    store: Database, asked: str, expected: list[tuple[str, str, int]]
) -> None:
    """As in 22.05: the flag is shown, and the state beneath it counts, too."""
    with store.write() as connection:
        (cluster,) = connection.execute(sa.select(schema.clusters.c.id).limit(1)).one()
        for number, state in enumerate(("DOWN+DRAIN", "DRAIN", "DOWN*"), 1):
            event = {"cluster_id": cluster, "node_name": f"n{number}", "start_us": 1}
            connection.execute(schema.node_events.insert().values({**event, "state": state}))
    request = ListEntities("event", assignments([f"state={asked}"]))
    with store.read() as connection:
        root = actor_of(connection, 0, "root", True)
        answer = list_entities(connection, request, root, frozenset())
    columns = [answer.fields.index(name) for name in ("NodeNames", "State", "StateRaw")]
    assert [tuple(row) for row in project(answer.records, columns)] == expected


def test_events_may_be_for_operators_alone(store: Database) -> None:
    """PrivateData=events: operators get all of them, other users may not ask, as in 22.05."""
    with store.write() as connection:
        (cluster,) = connection.execute(sa.select(schema.clusters.c.id).limit(1)).one()
        event = {"cluster_id": cluster, "node_name": "n1", "start_us": 1, "state": "DOWN"}
        connection.execute(schema.node_events.insert().values(event))
    request = ListEntities("event", [], ["all_time"])
    with store.read() as connection:
        bob, root = actor_of(connection, 1002, "bob", False), actor_of(connection, 0, "root", True)
        for actor, private in ((bob, {"jobs"}), (root, {"events"})):
            assert list_entities(connection, request, actor, frozenset(private)).records
        with pytest.raises(DeniedError, match="denied"):
            list_entities(connection, request, bob, frozenset({"events"}))


# What controllers learn -----------------------------------------------------------------------


def test_a_new_controller_gets_everything(store: Database) -> None:
    """Parents before children; users with their default account."""
    sent = update(store, 0)
    assert sent is not None
    assert sent.is_full
    ids = [association.assoc_id for association in sent.associations]
    assert all(
        association.parent_id == 0 or ids.index(association.parent_id) < at
        for at, association in enumerate(sent.associations)
    )
    assert {(user.name, user.default_account) for user in sent.users} == {
        ("root", "root"), ("alice", "physics"), ("bob", "physics"), ("carol", "chem"),
    }  # fmt: skip
    assert "gres/gpu:a100" in sent.tres


def test_only_what_changed_is_sent(store: Database) -> None:
    """With its descendants, which inherit."""
    first = update(store, 0)
    assert first is not None
    assert update(store, first.version) is None
    manage(store, "modify account chem set maxjobs=7")
    second = update(store, first.version)
    assert second is not None
    assert not second.is_full
    assert [(association.account, association.user) for association in second.associations] == [
        ("chem", ""), ("chem", "bob"), ("chem", "carol"),
    ]  # fmt: skip
    assert second.qos == []
    manage(store, "delete user carol")
    manage(store, "delete qos low")
    third = update(store, second.version)
    assert third is not None
    assert len(third.associations_removed) == 1
    assert third.qos_removed == ["low"]
    assert third.users_removed == ["carol"]


def test_another_store_starts_again_from_nothing(store: Database) -> None:
    """The database was replaced, so versions of the old one do not count."""
    sent = update(store, 3, "another")
    assert sent is not None
    assert sent.is_full


def test_an_undone_change_has_no_version(store: Database) -> None:
    """Otherwise controllers would ask for a version that does not exist."""
    first = update(store, 0)
    assert first is not None
    manage(store, "add account bio", commit=False)
    manage(store, "add account chem")
    assert update(store, first.version) is None


def test_the_transaction_log_names_who_and_what(store: Database) -> None:
    """sacctmgr show transactions."""
    manage(store, "modify user bob account=chem set maxjobs=2")
    with store.read() as connection:
        last = connection.execute(
            sa.select(schema.txn).order_by(schema.txn.c.id.desc()).limit(1)
        ).one()
    assert (last.action, last.actor, last.cluster) == ("Modify Associations", "root", "demo")
    assert "MaxJobs=2" in last.info


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        (
            "add account a,b,c,d parent=chem",
            " error: 4 accounts and clusters are too many for one command, at most 3",
        ),
        (
            "add user x,y account=chem partition=p,q",
            " error: 4 users with accounts, partitions, keys and clusters are too many for one "
            "command, at most 3",
        ),
        ("add coordinator account=chem d", " You specified a non-existent user 'd'."),
        ("add user x,y,z account=chem", ""),
    ],
)
def test_a_coordinators_command_is_bounded(
    store: Database, monkeypatch: pytest.MonkeyPatch, line: str, refusal: str
) -> None:
    """Users times accounts times partitions: journals wait for it as one transaction."""
    monkeypatch.setattr("pyslurm_ng.dbd.admin.change.MOST_NEW", 3)
    manage(store, "add coordinator account=chem bob")
    result = manage(store, line, user="bob", uid=1002)
    assert result.error_lines == ([refusal] if refusal else [])
    assert manage(store, line.replace("chem", "physics")).changed or "coordinator" in line


@pytest.mark.parametrize(
    ("line", "is_allowed"),
    [
        ("modify account sub set fairshare=77 maxjobs=5", True),
        ("modify account subsub set parent=chem", True),
        ("modify user bob account=sub set maxjobs=5", True),
        # What their own account has was given to it from above.
        ("modify account chem set fairshare=77", False),
        ("modify account chem set grpjobs=-1", False),
        ("modify account chem set parent=physics", False),
        ("modify account chem,sub set maxjobs=5", False),
        # There it would use what others have.
        ("modify account sub set parent=physics", False),
        ("modify account sub set parent=root", False),
        ("modify account physics set fairshare=1", False),
        ("modify account sub set description=mine", False),
        ("modify account sub set organization=mine fairshare=77", False),
        ("delete account chem", False),
        ("delete account subsub", False),
        # QOS go down the tree.
        ("modify account sub set qos=high,normal", True),
        ("modify account sub set qos=+low", False),
        ("modify user bob account=sub set qos=low", False),
        ("modify user bob account=sub set qos=+high", True),
        ("add user alice account=sub qos=low", False),
        ("add user alice account=sub qos=high", True),
        ("add account new parent=sub qos=low", False),
        ("modify user bob set defaultaccount=sub", False),
    ],
)
def test_coordinators_change_accounts_below_theirs(
    store: Database, line: str, is_allowed: bool
) -> None:
    """RELIABILITY 60: as in 22.05, but for moves out of their accounts, which it allows."""
    manage(store, "modify account chem set qos=+high")
    manage(store, "add account sub parent=chem")
    manage(store, "add account subsub parent=sub")
    manage(store, "add user bob account=sub")
    manage(store, "add coordinator account=chem names=carol")
    before = rows(store, schema.associations, "account", "lineage", "shares", "limits")
    result = manage(store, line, user="carol", uid=1003)
    assert (result.exit_code == 0) == is_allowed
    if not is_allowed:
        assert result.error_lines == [" Error with request: Access/permission denied"]
        assert rows(store, schema.associations, "account", "lineage", "shares", "limits") == before
        assert line == "delete account chem" or manage(store, line).exit_code == 0  # a default


def test_accounts_nest_as_deep_as_their_names_fit(store: Database) -> None:
    """The tree is bounded, and the refusal says so; the same for an account that moves."""
    parent = "chem"
    for number in range(7):
        name = f"{number}" * 128
        assert manage(store, f"add account {name} parent={parent}").exit_code == 0
        parent = name
    refused = manage(store, f"add account {'x' * 128} parent={parent}")
    assert (refused.exit_code, len(refused.error_lines)) == (1, 1)
    assert refused.error_lines[0].endswith("have 1038 characters, at most 1024 are allowed")
    assert manage(store, f"add account {'y' * 128} parent=physics").exit_code == 0
    moved = manage(store, f"modify account {'y' * 128} set parent={parent}")
    assert moved.error_lines == [refused.error_lines[0].replace("x", "y")]


@pytest.mark.parametrize("register_it", [register, lambda store: manage(store, "add cluster demo")])
def test_new_clusters_begin_with_default_qos(
    database: Database, register_it: Callable[[Database], object]
) -> None:
    """What slurmdbd.conf names is made if it is not there; the cluster's users have it alone."""
    database.new_cluster_qos = "standard"
    register_it(database)
    (qos,) = listed(database, "qos", "names=standard")
    (cluster,) = listed(database, "cluster")
    assert (qos["Name"], cluster["QOSLevel"]) == ("standard", "standard")
    manage(database, "add account bio")
    manage(database, "add user dora account=bio")
    (dora,) = listed(database, "association", "user=dora")
    assert dora["QOSLevel"] == "standard"


def test_without_limits_of_parents_a_user_has_no_qos_of_theirs(store: Database) -> None:
    """WOPLimits and WOPInfo of `list associations`, as in Slurm 22.05."""
    manage(store, "modify account chem set qos=low")
    where = "accounts=chem"
    assert {row["QOSLevel"] for row in listed(store, "association", where)} == {"low"}
    own = listed(store, "association", where, "woplimits")
    assert own == listed(store, "association", where, "wolimits")
    assert {str(row["User"] or "-"): row["QOSLevel"] for row in own}.pop("-") == "low"
    assert {row["QOSLevel"] for row in own if row["User"]} == {""}


def test_what_a_qos_preempts_may_have_signs(store: Database) -> None:
    """`preempt=+a,-b`, as `qos=+a` of an association; 22.05 takes both."""
    manage(store, "add qos mid")
    manage(store, "add qos top preempt=mid")
    assert manage(store, "modify qos top set preempt=+low,-mid").exit_code == 0
    assert [row["Preempt"] for row in listed(store, "qos", "names=top")] == ["low"]
    refused = manage(store, "modify qos top set preempt=mid,+low")
    assert refused.error_lines[0].startswith(
        "sacctmgr: error: You can't set qos equal to something"
    )


def test_qos_may_not_preempt_each_other_in_a_circle(store: Database) -> None:
    """Over others, too; a way out of the circle is allowed."""
    for line in ("add qos top", "add qos mid", "modify qos top set preempt=mid",
                 "modify qos mid set preempt=low"):  # fmt: skip
        assert manage(store, line).exit_code == 0, line
    refused = manage(store, "modify qos low set preempt=top")
    assert refused.error_lines[0] == "sacctmgr: error: QOS Preemption loop detected"
    assert manage(store, "modify qos mid set preempt=").exit_code == 0
    assert manage(store, "modify qos low set preempt=top").exit_code == 0
