"""`sacctmgr load` takes what `dump` writes, whole or not at all, and says which line is wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyslurm_ng.cli.accounting import flat_file, sacctmgr_dump
from pyslurm_ng.dbd import schema, show
from pyslurm_ng.dbd.admin.change import actor_of
from pyslurm_ng.dbd.admin.verbs import Caller, load
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.wire.dbd_messages import ChangeResult, FileLine, ListEntities, LoadFile
from tests.dbd.accounting_room import OpenStore, at, manage, managed, record, rows, submitted

SMALL = """\
Cluster - 'demo':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='physics':Fairshare=60:GrpTRES=cpu=10
Account - 'chem':Description='chem':Organization='org':MaxJobs=5:MaxWall=60
Parent - 'physics'
User - 'alice':DefaultAccount='physics':Fairshare=10
Parent - 'chem'
User - 'alice':DefaultAccount='physics':Partition='main':Fairshare=7
Account - 'sub':Description='sub':Organization='org'
"""


class Session:
    """Asks a database what the command asks slurmdbd."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def call(self, kind: str, fields: dict[str, Any]) -> Any:
        """Answer a `ListEntities`."""
        assert kind == "ListEntities"
        request = msgspec.convert(fields, ListEntities)
        with self._database.read() as connection:
            actor = actor_of(connection, 0, "root", True)
            answer = show.list_entities(connection, request, actor, frozenset())
        return {"fields": answer.fields, "records": answer.records}


def dumped(database: Database, cluster: str = "demo") -> list[str]:
    """Return the lines of `sacctmgr dump`, without comments."""
    return sacctmgr_dump.lines_of(Session(database), cluster)  # type: ignore[arg-type]


def take(database: Database, text: str, user: Caller | None = None, **options: Any) -> ChangeResult:
    """Load a text as `sacctmgr -i load` does."""
    lines = [
        msgspec.convert(flat_file.read(number, line), FileLine)
        for number, line in enumerate(text.splitlines(), 1)
        if not line.startswith("#")
    ]
    request = LoadFile(lines, commit=True, **options)
    return load(database, request, user or Caller(0, "root", True))


def everything(database: Database) -> list[object]:
    """Return all that a file may change."""
    return [
        rows(database, table, *(column.name for column in table.columns))
        for table in (
            schema.accounts, schema.users, schema.associations, schema.qos, schema.coordinators,
            schema.clusters, schema.txn,
        )
    ]  # fmt: skip


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A store that knows cluster demo."""
    return open_store(managed(()))


def test_a_file_makes_accounts_and_users(store: Database) -> None:
    """Each below the parent before it, with its settings, default account and partition."""
    result = take(store, SMALL)
    assert result.exit_code == 0, result
    assert result.lines[0] == "For cluster demo"
    for table in ("Accounts", "Account Associations", "Users", "User Associations"):
        assert table in result.lines
    assert dumped(store)[1:] == [
        "Cluster - 'demo':Fairshare=1:QOS='normal'",
        "Parent - 'root'",
        "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1",
        "Account - 'chem':Description='chem':Organization='org':Fairshare=1:MaxJobs=5"
        ":MaxWallDurationPerJob=60",
        "Account - 'physics':Description='physics':Organization='physics':Fairshare=60"
        ":GrpTRES=cpu=10",
        "Parent - 'chem'",
        "User - 'alice':Partition='main':DefaultAccount='physics':Fairshare=7",
        "Account - 'sub':Description='sub':Organization='org':Fairshare=1",
        "Parent - 'physics'",
        "User - 'alice':DefaultAccount='physics':Fairshare=10",
    ]


def test_the_same_file_again_changes_nothing(store: Database) -> None:
    """As 22.05 says it."""
    take(store, SMALL)
    before = everything(store)
    for clean in (False, True):
        result = take(store, SMALL, clean=clean)
        if not clean:
            assert (result.lines, result.changed) == ([
                "For cluster demo", " Nothing new added."], 0)  # fmt: skip
            assert everything(store) == before
        assert result.exit_code == 0


def test_clean_tells_of_the_root_and_of_no_default_that_stays(store: Database) -> None:
    """As 22.05 says it for the file that it has just dumped: nobody's default account changed."""
    take(store, SMALL)
    lines = take(store, SMALL, clean=True).lines
    assert lines[0] == "For cluster demo"
    assert lines[1].split()[:3] == ["Account", "ParentName", "Share"]
    assert lines[3].split()[:2] == ["root", "1"]
    assert lines[4:7] == ["-" * 62, "", "Account Associations"]
    assert [line for line in lines if "Default Account" in line] == []
    moved = SMALL.replace("DefaultAccount='physics'", "DefaultAccount='chem'")
    assert [line for line in take(store, moved, clean=True).lines if "Default" in line] == [
        " Changed Default Account       for User    alice       physics -> chem"
    ]


def test_changes_are_said_as_slurm_says_them(store: Database) -> None:
    """The lines are those of 22.05."""
    take(store, SMALL)
    text = (
        "Cluster - 'demo'\nParent - 'physics'\nAccount - 'sub':Fairshare=9:Description='new'\n"
        "Parent - 'root'\nAccount - 'physics':Fairshare=61\n"
    )
    assert take(store, text).lines == [
        "For cluster demo",
        " Changed description           for Account sub             sub -> new",
        " Changed Parent                for Account sub            chem -> physics",
        " Changed fairshare             for Account sub               1 -> 9",
        " Changed fairshare             for Account physics          60 -> 61",
    ]


def test_clean_removes_what_the_file_does_not_name(store: Database) -> None:
    """Settings that the file leaves out are gone, too; numbers of associations stay."""
    take(store, SMALL)
    ids = dict(rows(store, schema.associations, "account", "id"))
    result = take(store, "Cluster - 'demo'\nParent - 'root'\nAccount - 'physics'\n", clean=True)
    assert result.exit_code == 0
    assert dumped(store)[-1] == (
        "Account - 'physics':Description='physics':Organization='physics':Fairshare=1"
    )
    assert " Removed association A = chem" in result.lines
    assert dict(rows(store, schema.associations, "account", "id")) == ids


def test_clean_keeps_accounts_with_jobs(store: Database) -> None:
    """An association whose jobs run is not taken from under them, and all else stays as it was."""
    take(store, SMALL)
    record(store, submitted(at("12:00:00"), 1))
    before = everything(store)
    result = take(store, "Cluster - 'demo'\n", clean=True)
    assert result.exit_code == 1
    assert result.error_lines[0] == (
        " Error with request: Job(s) active, cancel job(s) before remove"
    )
    assert everything(store) == before
    assert take(store, SMALL, clean=True).exit_code == 0


def test_cluster_names_another_cluster(store: Database) -> None:
    """A cluster that is not known is made."""
    take(store, SMALL)
    assert take(store, SMALL, cluster="Other").exit_code == 0
    assert dumped(store, "other")[2:] == dumped(store)[2:]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Account - 'x':Foo=1", " Unknown option: Foo=1"),
        ("Account - 'x':MaxJobs=abc", "sacctmgr: error: Invalid value for MaxJobs (abc)"),
        ("Account - 'x':QOS='nope'",
         "sacctmgr: error: You gave a bad qos 'nope'. Valid QOS's are normal"),
        ("Account - 'x '", " Bad account name 'x '"),
        ("Account - 'x\"y'", " Bad account name 'x\"y'"),
        ("User - 'it;drop table'", " Bad user name 'it;drop table'"),
        ("User - 'bob':DefaultAccount='chem'",
         " Error with request: User bob is not in the default account chem on cluster demo"),
        ("User - 'bob':AdminLevel='King'", " You gave a bad admin level 'King'."),
        ("User - 'bob':Coordinator='nope'", " You specified a non-existent account 'nope'."),
        ("Parent - 'nope'", " line(4) You need to add this parent (nope) as a child before you "
         "can add children to it."),
        ("Cluster - 'other'", " You can only add one cluster at a time."),
        ("Account - 'x':DefaultQOS='high'", "You gave a bad default qos 'high'."),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_nothing_is_changed(store: Database, line: str, text: str) -> None:
    """What comes before the line would be good."""
    before = everything(store)
    result = take(store, f"Cluster - 'demo'\nParent - 'root'\nAccount - 'good'\n{line}\n")
    assert result.exit_code == 1
    assert result.error_lines[0].startswith(text)
    assert result.error_lines[-1] == " Problem with line(4)"
    assert everything(store) == before


def test_an_account_cannot_be_its_own_parent(store: Database) -> None:
    """A loop would have no root."""
    take(store, SMALL)
    before = everything(store)
    result = take(store, "Cluster - 'demo'\nParent - 'sub'\nAccount - 'chem'\n")
    assert result.error_lines == [
        " Error with request: sub is below chem; an account cannot be moved under its own children",
        " Problem with line(3)",
    ]
    assert everything(store) == before


def test_a_file_begins_with_its_cluster(store: Database) -> None:
    """As Slurm says it."""
    assert take(store, "Parent - 'root'\n").error_lines == [
        " You need to specify a cluster name first with 'Cluster - $NAME' in your file",
        " Problem with line(1)",
    ]


def test_users_may_not_load(store: Database) -> None:
    """Coordinators neither: a file may hold any account."""
    result = take(store, SMALL, Caller(1001, "alice", False))
    assert result.error_lines == [" error: Only administrators can load clusters"]


def test_a_test_changes_nothing(store: Database) -> None:
    """Not even the log of transactions."""
    before = everything(store)
    lines = [msgspec.convert(flat_file.read(1, "Cluster - 'demo':Fairshare=7"), FileLine)]
    result = load(store, LoadFile(lines, commit=False), Caller(0, "root", True))
    assert result.changed == 1
    assert everything(store) == before


@pytest.mark.parametrize("seed", range(6))
def test_what_is_dumped_can_be_loaded(store: Database, seed: int) -> None:
    """Loaded as another cluster it is the same; loaded on itself it changes nothing."""
    chance = random.Random(seed)
    for line in _history(chance):
        manage(store, line)
    made = dumped(store)
    text = "\n".join(made)
    before = everything(store)
    again = take(store, text)
    assert (again.error_lines, again.lines[1:]) == ([], [" Nothing new added."])
    assert everything(store) == before
    assert take(store, text, cluster="copy").error_lines == []
    copy = [line.replace("Cluster - 'copy'", "Cluster - 'demo'") for line in dumped(store, "copy")]
    assert copy == made
    manage(store, "add account stranger")
    manage(store, "modify account where set maxjobs=99 qos+=high")
    assert take(store, text, clean=True).error_lines == []
    assert [line for line in dumped(store) if "Parent" not in line] == [
        line for line in made if "Parent" not in line
    ]


def _history(chance: random.Random) -> list[str]:
    """Return commands that make accounts of all sorts."""
    settings = (
        "maxjobs=4", "grptres=cpu=8,gres/gpu:a100=2", "maxtres=mem=4G", "maxwall=1-0", "qos=high",
        "qos+=low", "qos-=normal", "fairshare=parent", "fairshare=9", "priority=3", "grpjobs=0",
        "maxtresmins=cpu=100,node=3", "grpsubmitjobs=5", "minpriothreshold=2",
    )  # fmt: skip
    lines = [
        "add qos high priority=9 maxtrespu=gres/gpu:a100=1 flags=DenyOnLimit",
        "add qos low preempt=high gracetime=5 usagefactor=1.5 preemptmode=requeue",
        "modify qos low set preemptexempttime=10:00 usagethreshold=0.25 limitfactor=2",
    ]
    accounts = ["root"]
    for number in range(chance.randrange(3, 8)):
        words = " ".join(chance.sample(settings, chance.randrange(3)))
        parent = chance.choice(accounts)
        text = chance.choice(("it's", 'a"b', "x:y", "l'a\"b", "é,=", "plain"))
        lines.append(f"add account a{number} parent={parent} description={text} {words}")
        accounts.append(f"a{number}")
    for number in range(chance.randrange(2, 9)):
        words = " ".join(chance.sample(settings, chance.randrange(3)))
        account = chance.choice(accounts[1:])
        part = chance.choice(("", " partition=main,gpu"))
        lines.append(f"add user u{number % 5} account={account}{part} {words}")
    lines.append("add coordinator account=a1 names=u0,u1")
    lines.append("modify user u1 set adminlevel=operator")
    lines.append("add user u0 wckeys=ka,kb defaultwckey=kb")
    return lines


@pytest.mark.parametrize(
    "line", ["Account 'x'", "Frob - 'x'", "Account", "Account - ''", "- 'x'", "Account - x':a"]
)
def test_misformatted_lines(line: str) -> None:
    """They are named with their number, also where 22.05 passes over them."""
    with pytest.raises(flat_file.LineError, match=r"line\(7\)"):
        flat_file.read(7, line)


@pytest.mark.parametrize(
    "text", ["", "plain", "it's", 'a"b', "'\"'", "a:b=c", "'", '"', "\\'", "é"]
)
def test_quoted_texts_are_read_as_they_were(text: str) -> None:
    """Whatever quotes are in them."""
    number, kind, name, settings = flat_file.read(
        1, f"User - 'x':Description={flat_file.quoted(text)}:MaxJobs=1"
    )
    assert (number, kind, name) == (1, "User", "x")
    assert settings == [["Description", "=", text or "''"], ["MaxJobs", "=", "1"]]


def test_types_of_tres_need_no_quotes() -> None:
    """Slurm writes them without."""
    assert flat_file.read(1, "Account - 'x':GrpTRES=cpu=1,gres/gpu:a100=4:MaxJobs=3")[3] == [
        ["GrpTRES", "=", "cpu=1,gres/gpu:a100=4"],
        ["MaxJobs", "=", "3"],
    ]


RECORDED = Path(__file__).resolve().parents[1] / "golden" / "accounts" / "slurm-22.05.cfg"


def test_a_dump_of_slurm_is_taken_and_given_back(store: Database) -> None:
    """What 22.05 wrote of accounts with odd names: each line comes back, QOS were made before."""
    manage(store, "add qos high,normal2")
    text = RECORDED.read_text()
    assert take(store, text).exit_code == 0

    def settings(lines: list[str]) -> set[tuple[str, ...]]:
        return {
            tuple(sorted(line.split(":")))
            for line in lines
            if line.startswith(("Parent", "Account", "User"))
        }

    given_back = dumped(store, "peer")
    assert settings(given_back) == settings(text.splitlines())
    assert take(store, "\n".join(given_back)).changed == 0


def test_shares_of_the_parent_are_a_number_in_dumps_of_slurm(store: Database) -> None:
    """22.05 writes the number that means `parent`, and takes it."""
    text = "Cluster - 'demo'\nParent - 'root'\nAccount - 'a':Fairshare=2147483647\n"
    assert take(store, text).exit_code == 0
    assert "Account - 'a':Description='a':Organization='a':Fairshare=parent" in dumped(store)
    assert take(store, text.replace("2147483647", "2147483648")).exit_code == 1
