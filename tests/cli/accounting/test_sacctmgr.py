"""sacctmgr prints what Slurm's printed in the recorded scenario, in the same order of commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.cli import sacctmgr
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.data_parser.slurmdbd import configuration
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.rollup.duty import RollUp
from tests.cli.accounting_commands import Commands, Printed, recorded
from tests.dbd.accounting_room import SECOND, Room, at, configured, record, register, serving
from tests.dbd.sqlite import SqliteFiles

ACCOUNTS = (
    ("add", "account", "physics", "description=Physics dept", "organization=science",
     "fairshare=60"),
    ("add", "account", "chem", "description=Chemistry dept", "organization=science",
     "fairshare=40"),
    ("add", "user", "alice", "account=physics", "fairshare=10"),
    ("add", "user", "bob", "account=physics", "fairshare=5"),
    ("add", "user", "bob", "account=chem", "fairshare=5"),
    ("add", "user", "carol", "account=chem", "fairshare=10"),
    ("add", "qos", "high", "priority=100", "description=high"),
    ("add", "qos", "low", "priority=0", "description=low"),
    ("modify", "qos", "high", "set", "maxtresperuser=cpu=8", "maxwall=02:00:00"),
    ("modify", "user", "alice", "carol", "set", "qos=normal,high", "defaultqos=normal"),
    ("modify", "user", "bob", "set", "qos+=low"),
)  # fmt: skip
SHOWN = (
    "account", "account_withassoc", "assoc", "assoc_p", "assoc_tree", "bad_entity", "cluster",
    "cluster_p", "coordinator_none", "event", "problem", "qos", "qos_p", "resource", "runawayjobs",
    "user", "user_s", "user_withassoc", "wckey",
)  # fmt: skip
CHANGED = (
    "add_account_new", "add_account_dup", "add_user_multi", "add_user_noacct", "modify_user",
    "bad_option", "modify_qos", "delete_user", "delete_account", "delete_missing",
)  # fmt: skip


def with_accounts(database: Database) -> None:
    """Let a store know cluster demo and its nodes; make the scenario's accounts as a user does."""
    register(database)
    record(database, configured(at("12:08:00")))
    folder = Path(str(database.engine.url.database)).parent
    with (
        serving(database, folder) as served,
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        patch.setenv("SLURM_CONF", str(served.conf_path))
        for words in ACCOUNTS:
            assert sacctmgr.main(["-i", *words]) == 0, words


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    return SqliteFiles(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def room(stores: SqliteFiles) -> Iterator[Room]:
    """A slurmdbd that cluster demo has registered with, and that has the scenario's accounts."""
    # Not below pytest's directory, which every session closes to other users.
    directory = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
    directory.chmod(0o755)
    with (
        contextlib.closing(stores.open(directory, with_accounts)) as database,
        serving(database, directory) as served,
    ):
        yield served
    shutil.rmtree(directory)


@pytest.fixture
def commands(
    room: Room, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    return Commands(room.conf_path, monkeypatch, capfd)


def test_a_dump_is_as_recorded(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QOS, then accounts and users below their parents, with what each was given itself."""
    monkeypatch.chdir(tmp_path)
    assert commands.run("sacctmgr", "dump", "demo", "File=demo.dump").code == 0
    lines = (tmp_path / "demo.dump").read_text().splitlines(keepends=True)
    dump = "".join(line for line in lines if not line.startswith("#"))
    golden = Path(__file__).resolve().parents[2] / "golden" / "cli" / "sacctmgr" / "dump.txt"
    assert dump == golden.read_text().split("----- stdout\n")[1].split("----- stderr")[0]


def test_archives_are_made_and_taken_back(commands: Commands, tmp_path: Path) -> None:
    """Transactions of before the present hour; here are none, so there is no file."""
    words = ("archive", "dump", f"directory={tmp_path}", "txn", "purgetxnafter=1hours")
    made = commands.run("sacctmgr", "-i", *words)
    assert made == Printed(" Archived and purged 0 records\n", "", 0)
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "archive"
    path.write_text(
        '{"pyslurm_ng_archive":1,"cluster":""}\n{"table":"txn","rows":[{"id":9000,'
        '"time_us":1700000000000000,"action":"Add Users","actor":"eve","cluster":"","object":"x",'
        '"info":""}]}\n'
    )
    show = ("sacctmgr", "-nP", "show", "transaction", "actor=eve", "format=where")
    assert commands.run("sacctmgr", "archive", "load", f"file={path}").stdout == (
        " Loaded 1 record\n"
    )
    assert commands.run(*show).stdout == "x\n"
    assert commands.run("sacctmgr", "-i", *words).stdout == " Archived and purged 1 record\n"
    assert commands.run(*show).stdout == ""
    (file,) = set(tmp_path.iterdir()) - {path}
    assert commands.run("sacctmgr", "archive", "load", str(f"file={file}")).code == 0
    assert commands.run(*show).stdout == "x\n"


def test_a_file_is_loaded_whole_or_not_at_all(commands: Commands, tmp_path: Path) -> None:
    """`test` asks and changes nothing; a broken line is named with its number in the file."""
    path = tmp_path / "demo.cfg"
    path.write_text("# new\n\nCluster - 'demo'\nParent - 'root'\nAccount - 'bio':Fairshare=7\n")
    tried = commands.run("sacctmgr", "-i", "load", str(path), "test")
    assert (tried.code, tried.stderr) == (0, "")
    assert commands.run("sacctmgr", "-i", "load", str(path), "--test") == tried
    assert "       bio       root         7 " in tried.stdout
    show = ("sacctmgr", "-nP", "show", "account", "bio", "format=account,org")
    assert commands.run(*show).stdout == ""
    assert commands.run("sacctmgr", "-i", "load", f"file={path}").code == 0
    assert commands.run(*show).stdout == "bio|bio\n"
    for line in (b"Account - 'x", b"Account - '\x01'", b"Account - '\xff'", b"Accounts"):
        path.write_bytes(b"\n# comment\n" + line + b"\n")
        refused = commands.run("sacctmgr", "-i", "load", str(path))
        assert (refused.code, refused.stdout) == (1, "")
        assert "line(3)" in refused.stderr


def test_a_dump_follows_no_link_beside_its_file(commands: Commands, tmp_path: Path) -> None:
    """An administrator may dump where others write: they must not choose what is overwritten."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("demo.dump.new", "demo.dump.tmp"):
        (tmp_path / name).symlink_to(precious)
    before = set(os.listdir(tmp_path))
    assert commands.run("sacctmgr", "dump", "demo", f"File={tmp_path}/demo.dump").code == 0
    assert precious.read_text() == "mine"
    assert set(os.listdir(tmp_path)) == before | {"demo.dump"}


def test_a_dump_replaces_no_special_file(commands: Commands, tmp_path: Path) -> None:
    """root writes to /dev/null or a FIFO, and it stays what it was."""
    null = tmp_path / "link"
    null.symlink_to("/dev/null")
    assert commands.run("sacctmgr", "dump", "demo", f"File={null}").code == 0
    assert null.is_symlink()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR)
    assert commands.run("sacctmgr", "dump", "demo", f"File={fifo}").code == 0
    assert os.read(reader, 1 << 16).startswith(b"# Accounts of a cluster")
    os.close(reader)
    assert fifo.is_fifo()


def test_lists_are_as_recorded(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers, widths, order, inherited QOS."""
    # The host of the recording knows its users; this one would be a problem to list.
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.getpwuid(0))
    for name in SHOWN:
        expected = recorded(f"sacctmgr/{name}")
        assert commands.run(*expected.words) == expected.printed, name


def test_changes_are_as_recorded(commands: Commands) -> None:
    """Texts and exit codes, one change after the other."""
    for name in CHANGED:
        expected = recorded(f"sacctmgr/{name}")
        assert commands.run(*expected.words) == expected.printed, name


@pytest.mark.parametrize("name", ["assoc_json", "qos_json"])
def test_json_is_as_recorded(commands: Commands, name: str) -> None:
    """Every key and value but who asked and which version."""
    expected = recorded(f"sacctmgr/{name}")
    printed = commands.run(*expected.words)
    ours, theirs = json.loads(printed.stdout), json.loads(expected.printed.stdout)
    for document in (ours, theirs):
        document["meta"]["slurm"]["release"] = ""
        document["meta"]["client"] = {}
        document["meta"]["slurm"]["version"]["micro"] = ""
    assert ours == theirs


@pytest.mark.parametrize("entity", ["user", "account", "cluster", "tres"])
def test_json_of_other_entities_holds_their_names(commands: Commands, entity: str) -> None:
    """Payload keys as spec'd: users, accounts, clusters, TRES."""
    document = json.loads(commands.run("sacctmgr", "show", entity, "--json").stdout)
    key = {"tres": "TRES"}.get(entity, entity + "s")
    assert list(document) == [key, "meta", "errors", "warnings"]
    assert len(document[key]) >= 1


@pytest.mark.parametrize(("entity", "more"), [("cluster", ()), ("event", ("all_time",))])
def test_memory_of_clusters_has_a_unit(
    commands: Commands, entity: str, more: tuple[str, ...]
) -> None:
    """As in Slurm 22.05; --json has the amount."""
    words = ("sacctmgr", "-nP", "show", entity, *more, "format=tres")
    (line,) = commands.run(*words).stdout.splitlines()
    assert "mem=250G" in line.split(","), line


def test_json_of_resources_has_each_once(commands: Commands) -> None:
    """Without withclusters no shares; with it those of each cluster, as in the table."""
    words = "name=spice server=flex count=50 type=license servertype=lm lastconsumed=3".split()
    added = commands.run("sacctmgr", "-i", "add", "resource", *words, "cluster=demo", "allowed=40")
    assert added.code == 0, added
    show = ("sacctmgr", "show", "resource", "name=spice", "--json")
    (plain,) = json.loads(commands.run(*show).stdout)["resources"]
    assert (plain["name"], plain["server"], plain["count"]) == ("spice", "flex", 50)
    assert (plain["last_consumed"], plain["allocated"], plain["flags"]) == (3, 40, [])
    assert plain["clusters"] == []
    (whole,) = json.loads(commands.run(*show, "withclusters").stdout)["resources"]
    assert whole == plain | {"clusters": [{"cluster": "demo", "allowed": 40}]}
    refused = commands.run("sacctmgr", "show", "event", "--json")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == "sacctmgr: error: --json is not available for event\n"
    assert commands.run("sacctmgr", "-i", "delete", "resource", "name=spice").code == 0


def test_json_about_slurmdbd_itself(commands: Commands, room: Room) -> None:
    """Whether it answers, its counters and its configuration have the data parser's keys."""
    for name in ("bio", "law"):
        assert commands.run("sacctmgr", "-i", "add", "account", name).code == 0
    (ping,) = json.loads(commands.run("sacctmgr", "ping", "--json").stdout)["pings"]
    assert ping["latency"] >= 0
    assert ping | {"latency": 0} == {
        "hostname": "ctl", "responding": True, "latency": 0, "primary": True, "status": "No error",
    }  # fmt: skip
    shown = commands.run("sacctmgr", "show", "stats", "--json")
    statistics = json.loads(shown.stdout)["statistics"]
    (changes,) = [call for call in statistics["RPCs"] if call["rpc"] == "ChangeEntities"]
    assert changes["count"] == 2 and list(changes["time"]) == ["average", "total"]
    assert statistics["users"][0]["user"] == pwd.getpwuid(os.geteuid()).pw_name
    shown = commands.run("sacctmgr", "list", "configuration", "--json")
    assert json.loads(shown.stdout)["slurmdbd_conf"]["Flags"] == []
    assert json.loads(commands.run("sacctmgr", "list", "wckey", "--json").stdout)["wckeys"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NONE", (False, 0, 0, 0)),
        ("30days", (True, 0, 30, 0)),
        ("1day", (True, 0, 1, 0)),
        ("48hours", (True, 48, 0, 0)),
        ("12", (True, 0, 0, 12)),
        ("12months", (True, 0, 0, 12)),
    ],
)
def test_json_of_the_configuration_has_types(
    text: str, expected: tuple[bool, int, int, int]
) -> None:
    """Numbers, switches, lists; times of purging in their unit, months where none is named."""
    pairs = [("PurgeJobAfter", text), ("ArchiveJobs", "yes"), ("DbdPort", "6819"),
             ("TrackWCKey", "yes"), ("Parameters", "a,b"), ("DisableCoordDBD", "yes"),
             ("ArchiveScript", "(null)")]  # fmt: skip
    conf = configuration(pairs)
    purge = conf["PurgeJobAfter"]
    assert (purge["set"], purge["hours"], purge["days"], purge["months"]) == expected
    assert (purge["archive"], conf["PurgeStepAfter"]["archive"]) == (True, False)
    assert (conf["DbdPort"], conf["TrackWCKey"], conf["ArchiveScript"]) == (6819, True, "")
    assert (conf["Parameters"], conf["Flags"]) == (["a", "b"], ["DisableCoordDBD"])


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_users_are_refused_as_recorded(commands: Commands) -> None:
    """Identity comes from the socket, not from the command."""
    expected = recorded("sacctmgr/not_admin")
    assert commands.run_as(1001, *expected.words) == expected.printed


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_users_may_not_dump(commands: Commands) -> None:
    """As in Slurm 22.05; an operator may."""
    printed = commands.run_as(1001, "sacctmgr", "dump", "demo", "file=/dev/null")
    text = " Your user does not have sufficient privileges to dump clusters.\n"
    assert (printed.code, printed.stderr) == (1, text)
    commands.run("sacctmgr", "-i", "modify", "user", "alice", "set", "adminlevel=operator")
    assert commands.run_as(1001, "sacctmgr", "dump", "demo", "file=/dev/null").code == 0


def test_transactions_have_short_names(commands: Commands) -> None:
    whole = commands.run("sacctmgr", "-nP", "show", "transactions")
    assert commands.run("sacctmgr", "-nP", "show", "tx") == whole
    assert commands.run("sacctmgr", "-nP", "list", "txn") == whole


@pytest.mark.parametrize(("answer", "code", "is_there"), [
    ("y\n", 0, True), ("n\n", 0, False), ("\n", 0, False), ("", 0, False), ("yes\n", 0, True),
    ("what\n", 0, False),
])  # fmt: skip
def test_changes_need_a_yes(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, code: int,
    is_there: bool,
) -> None:  # fmt: skip
    """No answer counts as a no. After a no nothing has changed, and the exit code is 0."""
    (tmp_path / "answer").write_text(answer)
    with (tmp_path / "answer").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        printed = commands.run("sacctmgr", "add", "account", "bio")
    assert printed.code == code
    assert "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): " in (
        printed.stdout
    )
    assert (" Changes Discarded" in printed.stdout) is not is_there
    listing = commands.run("sacctmgr", "-n", "-P", "list", "account", "bio").stdout
    assert listing == ("bio|bio|bio\n" if is_there else "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("format=acct,desc%5,org", "   Account Descr                  Org \n"),
        ("format=account%-12", "Account      \n"),
        ("-P format=Account,Org", "Account|Org\n"),
        ("-p format=Account", "Account|\n"),
    ],
)
def test_formats(commands: Commands, words: str, expected: str) -> None:
    """Abbreviated names, widths, alignment; headers name fields, too."""
    printed = commands.run("sacctmgr", "list", "account", *words.split())
    assert printed.stdout.startswith(expected)


@pytest.mark.parametrize(
    ("word", "header"),
    [
        ('format="account,cluster"', "Account|Cluster"),
        ("format='acc,clus'", "Account|Cluster"),
        ("format=cl,act,ev,st,ser,u,s", "Cluster|Action|Event|State|Server|User|Share"),
    ],
)
def test_quotes_and_short_names_in_a_format(commands: Commands, word: str, header: str) -> None:
    """Scripts pass on the quotes of their shell. Short names mean what they mean in Slurm."""
    printed = commands.run("sacctmgr", "-P", "list", "acct", word)
    assert printed.stdout.splitlines()[0] == header


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("frobnicate", "invalid keyword: frobnicate"),
        ("list account format=frob", "Unknown field 'frob'"),
        (
            "list account frob=1",
            " Unknown condition: frob=1\n Use keyword 'set' to modify value\n",
        ),
        ("list event format=node", "Unknown field 'node'"),
        ("list account format=def", "Unknown field 'def'"),
        ("list account format=grp", "Unknown field 'grp'"),
        ("li account", "invalid keyword: li"),
        ("list c", "No valid entity in list command"),
        ("list re", "No valid entity in list command"),
        ("list event all", " Unknown event type: 'all'  Valid events are Cluster and Node."),
        ("list event user=nobody-x", "sacctmgr: error: Invalid user id: nobody-x"),
        ("list event start=soon", " Invalid time specification (pos=0): soon"),
        ("list transaction action=add", "sacctmgr: error: You gave a bad action 'add'."),
        ("list transaction id=x", "sacctmgr: error: Invalid value for Transaction ID (x)"),
        ("list association frob", "sacctmgr: error: Invalid value for AssocId (frob)"),
        ("add frob", "No valid entity in add command"),
        ("--frob", "sacctmgr: unrecognized option '--frob'"),
        ("list instance nodes=n[1", " Nodes=n[1: "),
        ("dump", " We need a cluster to dump."),
        ("dump mars", " No cluster by name 'mars' found."),
        ("dump demo file=/no/such/dir/x", "sacctmgr: error: Can't write /no/such/dir/x: No such"),
        ("load", " No filename given, specify one with file=''"),
        ("load /no/such", ' Unable to read "/no/such": No such file or directory'),
        ("load /dev/null x", " File name already set to /dev/null"),
        ("load /dev/null frob=1", " Unknown option: frob=1"),
        ("archive", "No valid entity in archive command"),
        ("archive dump frob=1", " Unknown condition: frob=1"),
        ("archive dump frob", " Unknown condition: frob"),
        ("-i archive dump purgejobafter=x", "sacctmgr: error: Invalid purge string: 'x'"),
        ("list qos format=", "Unknown field ''"),
        ("list qos format=,", "Unknown field ''"),
        ("list qos format=name%10001", "format=name%10001: a width is at most 10000"),
        ("list transaction foo=1", " Unknown condition: foo=1"),
        (
            "list event state=fine",
            "sacctmgr: error: Invalid state: fine\nValid node states are: UNKNOWN DOWN",
        ),
        ("list event mincpus=x", "sacctmgr: error: Invalid value for MinCPUs (x)"),
        ("list event condflags=shut", "sacctmgr: error: Unknown condition flag shut"),
        ("list event nodes=n[1", " Nodes=n[1: "),
        ("list user adminlevel=chief", " You gave a bad admin level 'chief'"),
        ("-i add federation f clusters=no", " The cluster no doesn't exist. Please add first."),
        ("-i add account ,", " No blank names are allowed when adding."),
        ("-i archive dump directory=/no/such txn", " dump: /no/such is no directory"),
        ("-i archive load", "sacctmgr: error: No archive file given to recover."),
        ("-i archive load file=/no/such", " Problem loading archive file: No such file or dir"),
        ("-i archive load insert=x", " Insert= is not supported"),
        ("-r load /dev/null", "Can't run this command in readonly mode."),
        ("-r -i add account x", "Can't run this command in readonly mode."),
    ],
)
def test_bad_input_is_one_clear_line(commands: Commands, words: str, text: str) -> None:
    """On stderr, exit 1, never a traceback."""
    printed = commands.run("sacctmgr", *words.split())
    assert printed.code == 1
    assert printed.stderr.startswith(text)
    assert printed.stdout == ""


def test_abbreviated_commands(commands: Commands) -> None:
    """Verbs and entities may be shortened and in the plural."""
    full = commands.run("sacctmgr", "-nP", "list", "association").stdout
    for words in ("show assoc", "list associations", "sho asso"):
        assert commands.run("sacctmgr", "-nP", *words.split()).stdout == full


@pytest.mark.parametrize(
    ("words", "header"),
    [
        ("list event event=cluster", "Cluster|TRES|TimeStart|TimeEnd|Cluster Nodes"),
        ("list event cl", "Cluster|TRES|TimeStart|TimeEnd|Cluster Nodes"),
        ("list cluster wolimits", "Cluster|ControlHost|ControlPort|RPC"),
        ("list t", "Time|Action|Actor|Where|Info"),
        ("list tre cpu", "Type|Name|ID\ncpu||1"),
        ("list cluster flags=nope format=cluster", "Cluster"),
        ("list cluster rpc=1 format=cluster", "Cluster"),
        ("list qos preemptmode=gang format=name", "Name"),
        ("list event mincpus=1 maxcpus=99999 all_time format=event", "Event\nCluster"),
        ("list event mincpus=99999 all_time format=event", "Event"),
        ("list event all_clusters all_time format=cluster", "Cluster\ndemo"),
        ("list event nodes=n[1-2] all_time format=event", "Event"),
        (
            "list event event=cluster all_time format=event,eventraw,stateraw",
            "Event|EventRaw|StateRaw\nCluster|1|0",
        ),
        ("list event state=down all_time format=event", "Event"),
        ("list cluster withfed format=cluster,fedstate,id", "Cluster|FedState|ID\ndemo|NA|0"),
        ("list assoc user= account=chem format=account,user", "Account|User\nchem|"),
        ("list problem account=chem", "Cluster|Account|User|Problem"),
        ("list qos format=name%0", "Name\nnormal"),
        ("list qos format=name%x", "Name\nnormal"),
        (
            "list transaction format=action withassoc user=carol",
            "Action\nAdd Users\nAdd Associations\nModify Associations",
        ),
    ],
)
def test_conditions_choose_rows_and_columns(commands: Commands, words: str, header: str) -> None:
    """As in Slurm."""
    printed = commands.run("sacctmgr", "-P", *words.split())
    assert (printed.stderr, printed.code) == ("", 0)
    lines = len(header.splitlines())
    assert "\n".join(printed.stdout.splitlines()[:lines]) == header


def test_ping_and_statistics(commands: Commands) -> None:
    """What drivers poll."""
    assert commands.run("sacctmgr", "ping").stdout == "slurmdbd(primary) at ctl is UP\n"
    assert commands.run("sacctmgr", "-i", "add", "account", "bio").code == 0
    assert commands.run("sacctmgr", "list", "account").code == 0
    stats = commands.run("sacctmgr", "show", "stats").stdout
    assert "ChangeEntities" in stats
    for order in ("ave_time", "total_time"):
        sorted_stats = commands.run("sacctmgr", "show", "stats", order).stdout
        times = [int(text) for text in re.findall(rf"\t[A-Z].*{order}:(\d+)", sorted_stats)]
        assert times == sorted(times, reverse=True) and len(times) > 1
    refused = commands.run("sacctmgr", "show", "stats", "max_time")
    assert (refused.code, refused.stderr) == (
        1, " Unknown option: max_time: ave_time and total_time are allowed\n",
    )  # fmt: skip
    assert commands.run("sacctmgr", "clear", "stats").code == 0
    assert "ChangeEntities" not in commands.run("sacctmgr", "show", "stats").stdout
    assert commands.run("sacctmgr", "show", "configuration").code == 0


def test_transactions_name_their_associations(commands: Commands) -> None:
    """Names are compared as a whole; an association's user and account count, also if deleted."""
    assert commands.run("sacctmgr", "-i", "delete", "user", "bob", "account=chem").code == 0
    words = "list transaction withassoc format=action,user,account,cluster".split()
    shown = commands.run("sacctmgr", "-nP", *words, "account=chem").stdout
    assert shown.splitlines() == [
        "Add Accounts|||",
        "Add Associations||chem|demo",
        "Add Associations|bob|chem|demo",
        "Add Associations|carol|chem|demo",
        "Modify Associations|carol|chem|demo",
        "Modify Associations|bob|chem|demo",
        "Remove Associations|bob|chem|demo",
    ]
    assert commands.run("sacctmgr", "-nP", *words, "user=bo").stdout == ""
    assert commands.run("sacctmgr", "-nP", *words, "account=che").stdout == ""
    both = commands.run("sacctmgr", "-nP", *words, "user=bob", "account=physics").stdout
    assert both.splitlines()[0] == "Add Associations|bob|physics|demo"


def test_statistics_have_roll_ups(commands: Commands, room: Room) -> None:
    """How often, and how long the last took, the longest and all."""
    assert "rollup" not in commands.run("sacctmgr", "show", "stats").stdout
    log = DaemonLog("slurmdbd")
    counts = room.service.counts.roll_ups
    RollUp(room.database, lambda work: work(), Faults(log), lambda: at("14:00:00") // SECOND,
           counts).catch_up()  # fmt: skip
    shown = commands.run("sacctmgr", "show", "stats").stdout
    assert "Internal DBD rollup last ran " in shown
    assert "\tTotal cycles: 1\n" in shown
    assert "\tHour  count:2 " in shown
    rollups = json.loads(commands.run("sacctmgr", "show", "stats", "--json").stdout)["statistics"][
        "rollups"
    ]
    assert [rollups[name]["count"] for name in ("hourly", "daily", "monthly")] == [2, 0, 0]
    assert list(rollups["hourly"]["duration"]) == ["last", "max", "time"]
    assert commands.run("sacctmgr", "clear", "stats").code == 0
    assert "rollup" not in commands.run("sacctmgr", "show", "stats").stdout


Life = list[tuple[str, str, str]]
LIVES: dict[str, Life] = {
    "cluster": [
        ("add cluster peer fairshare=7", "list cluster format=cluster,share", "demo|1\npeer|7\n"),
        ("modify cluster peer set fairshare=9", "list cluster peer format=share", "9\n"),
        ("delete cluster peer", "list cluster format=cluster", "demo\n"),
    ],
    "coordinator": [
        (
            "add coordinator account=chem names=carol",
            "list account chem withcoordinators format=coordinators",
            "carol\n",
        ),
        (
            "delete coordinator account=chem names=carol",
            "list account chem withcoordinators format=coordinators",
            "\n",
        ),
    ],
    "qos": [
        ("add qos gold priority=7", "list qos gold format=name,priority", "gold|7\n"),
        ("delete qos gold", "list qos gold format=name", ""),
    ],
    "account": [
        (
            "modify account chem set description=x fairshare=3",
            "list account chem format=account,description",
            "chem|x\n",
        ),
        (
            "modify account chem set grpjobs=4",
            "list assoc account=chem format=user,grpjobs",
            "|4\nbob|\ncarol|\n",
        ),
    ],
    "resource": [
        (
            "add resource name=mat server=flex count=50 type=license cluster=demo allowed=40",
            "list resource format=name,count,allocated",
            "mat|50|40\n",
        ),
        (
            "modify resource where name=mat server=flex set count=60",
            "list resource format=name,count",
            "mat|60\n",
        ),
        ("delete resource name=mat", "list resource", ""),
    ],
}


@pytest.mark.parametrize("entity", LIVES)
def test_what_was_changed_is_listed_so(commands: Commands, entity: str) -> None:
    """Each change of it, one after the other, and what is there then."""
    for change, look, shown in LIVES[entity]:
        changed = commands.run("sacctmgr", "-i", *change.split())
        assert (changed.code, changed.stderr) == (0, ""), change
        assert commands.run("sacctmgr", "-nP", *look.split()).stdout == shown, change


def test_quiet_prints_only_errors(commands: Commands) -> None:
    """--quiet: the change is made, but not printed."""
    assert commands.run("sacctmgr", "-i", "add", "qos", "one").stdout != ""
    assert commands.run("sacctmgr", "-i", "--quiet", "add", "qos", "two").stdout == ""
    printed = commands.run("sacctmgr", "-nP", "list", "qos", "one,two", "format=name").stdout
    assert printed == "one\ntwo\n"
    assert commands.run("sacctmgr", "-i", "--quiet", "add", "qos", "two").code == 1


def test_verbose_says_which_slurmdbd_is_asked(commands: Commands) -> None:
    """--verbose: on stderr, so that scripts that read the output go on."""
    shown = ("-nP", "list", "account", "chem", "format=account")
    printed = commands.run("sacctmgr", "--verbose", *shown)
    assert printed.stderr.startswith("sacctmgr: slurmdbd at ")
    assert printed.stdout == commands.run("sacctmgr", *shown).stdout


def test_oneliner_changes_nothing(commands: Commands) -> None:
    """--oneliner: a record is a line anyway."""
    shown = ("list", "account", "chem")
    one_line, plain = (
        commands.run("sacctmgr", *words) for words in (("--oneliner", *shown), shown)
    )
    assert (one_line.stdout, one_line.stderr) == (plain.stdout, plain.stderr)
    assert "chem" in plain.stdout


def test_every_change_is_in_the_log(commands: Commands) -> None:
    """list transaction: what was done, by which user, to what, in Slurm's columns."""
    caller = pwd.getpwuid(os.geteuid()).pw_name
    commands.run("sacctmgr", "-i", "modify", "account", "chem", "set", "description=dye")
    shown = commands.run("sacctmgr", "-P", "list", "transaction").stdout.splitlines()
    assert shown[0] == "Time|Action|Actor|Where|Info"
    log = [line.split("|")[1:] for line in shown[1:]]
    assert ["Add Users", caller, "alice", "admin_level=1"] in log
    assert log[-1] == ["Modify Accounts", caller, "chem", "description='dye'"]


def test_tracked_resources_are_numbered(commands: Commands) -> None:
    """list tres: the recorded lines of what this cluster tracks; two of Slurm's are not."""
    recorded_lines = recorded("sacctmgr/tres").printed.stdout.splitlines()
    shown = commands.run("sacctmgr", "show", "tres").stdout.splitlines()
    assert shown == [line for line in recorded_lines if "gpumem" not in line and "util" not in line]


def test_the_configuration_names_what_slurm_names(
    commands: Commands, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """list configuration: keys and their order as recorded, values of the file that is in force."""
    with room.conf_path.open("a") as stream:
        stream.write("TCPTimeout=7\n")
    shown = commands.run("sacctmgr", "list", "configuration").stdout.splitlines()
    pairs = dict(line.split("=", 1) for line in shown if " = " in line)
    assert [name.strip() for name in pairs] == [
        "AccountingStorageBackupHost", "AccountingStorageHost", "AccountingStorageParameters",
        "AccountingStoragePass", "AccountingStoragePort", "AccountingStorageType", "AuthType",
        "MessageTimeout", "PluginDir", "PrivateData", "SlurmUserId", "SLURM_CONF",
        "SLURM_VERSION", "TCPTimeout", "TrackWCKey",
    ]  # fmt: skip
    value_of = {name.strip(): value.strip() for name, value in pairs.items()}
    assert (value_of["TCPTimeout"], value_of["SLURM_CONF"]) == ("7 sec", str(room.conf_path))
    assert value_of["AccountingStoragePort"] == "16819"


def test_without_slurmdbd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line says what is wrong: slurmdbd does not answer, or none is configured."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=demo\nAccountingStorageType=accounting_storage/slurmdbd\n"
                    f"SlurmctldPidFile={tmp_path}/x.pid\nAccountingStoragePort=9\n")  # fmt: skip
    room = Room(None, conf, "", None, None)  # type: ignore[arg-type]
    commands = Commands(room.conf_path, monkeypatch, capfd)
    printed = commands.run("sacctmgr", "show", "user")
    assert printed.code == 1
    assert printed.stderr.startswith("sacctmgr: error: Problem talking to the database: ")
    assert commands.run("sacctmgr", "ping").stdout == "slurmdbd(primary) at localhost is DOWN\n"
    conf.write_text("ClusterName=demo\n")
    printed = commands.run("sacctmgr", "show", "user")
    assert printed.stderr.startswith("You are not running a supported accounting_storage plugin")
    assert printed.code == 1


def test_interactive_words(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of commands until exit; quotes keep blanks together."""
    lines = 'parsable\nlist account where description="physics dept"\nexit\nlist user\n'
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    printed = commands.run("sacctmgr", "-n")
    assert "physics|physics dept|science|\n" in printed.stdout
    assert "alice" not in printed.stdout


@pytest.mark.parametrize(("answers", "code"), [("n\n", 1), ("", 1)])
def test_a_user_without_a_uid_is_asked_about(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: str, code: int
) -> None:
    """A misspelt name is noticed before anything is changed; with -i it is meant."""
    commands.run("sacctmgr", "-i", "add", "account", "bio")
    (tmp_path / "answers").write_text(answers)
    with (tmp_path / "answers").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        printed = commands.run("sacctmgr", "add", "user", "nosuchuser", "account=bio")
    assert printed.stdout == (
        "There is no uid for user 'nosuchuser'\n"
        "Are you sure you want to continue? (You have 30 seconds to decide)\n(N/y): \n"
    )
    assert (printed.stderr, printed.code) == ("", code)
    printed = commands.run("sacctmgr", "-i", "add", "user", "nosuchuser", "account=bio")
    assert " Adding User(s)\n  nosuchuser\n" in printed.stdout and printed.code == 0


def test_an_interactive_session_shows_its_lines(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lines from a pipe are shown; one command that failed decides the exit code."""
    (tmp_path / "lines").write_text("bogus\nversion\nexit\n")
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        printed = commands.run("sacctmgr")
    assert printed.stdout.startswith("sacctmgr: bogus\nsacctmgr: version\nslurm ")
    assert printed.stdout.endswith("\nsacctmgr: exit\n")
    assert (printed.stderr, printed.code) == ("invalid keyword: bogus\n", 1)


def test_an_interactive_session_reads_the_answer_of_its_question(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A script pipes commands and answers: the next line is the answer, the one after a command."""
    (tmp_path / "lines").write_text("add account bio\nn\nadd account art\ny\nversion\n")
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        printed = commands.run("sacctmgr")
    assert (printed.stderr, printed.code) == ("", 0)
    assert printed.stdout.count(" Changes Discarded\n") == 1
    assert "sacctmgr: version\nslurm " in printed.stdout
    accounts = commands.run("sacctmgr", "-nP", "show", "account", "format=account").stdout
    assert "art\n" in accounts and "bio\n" not in accounts


def test_a_width_says_on_which_side_a_tree_has_its_blanks(commands: Commands) -> None:
    show = ("sacctmgr", "-n", "show", "assoc", "tree", "where", "account=chem", "user=bob")
    assert commands.run(*show, "format=account%8,user%4").stdout == "    chem  bob \n"
    assert commands.run(*show, "format=account%-8,user%4").stdout == "chem      bob \n"
    assert commands.run(*show, "format=account").stdout.startswith("chem    ")


def test_a_tree_begins_at_what_is_listed(commands: Commands) -> None:
    """Accounts are indented below accounts that are listed, too, and not below hidden ones."""
    show = ("sacctmgr", "-nP", "show", "assoc", "tree", "format=account,user", "where")
    assert commands.run(*show, "account=chem").stdout == "chem|\n chem|bob\n chem|carol\n"
    assert commands.run(*show, "user=alice").stdout == "physics|alice\n"


def test_without_parents_a_limit_is_the_associations_own(commands: Commands) -> None:
    """wopinfo hides what an association has from its parent, and the parent, too."""
    modify = ("modify", "account", "physics", "set", "maxwall=2:00:00", "maxjobs=4")
    assert commands.run("sacctmgr", "-i", *modify).code == 0
    own = ("modify", "user", "alice", "set", "maxjobs=3")
    assert commands.run("sacctmgr", "-i", *own).code == 0
    show = ("sacctmgr", "-nP", "show", "assoc", "format=parentid,user,maxjobs,maxwall")
    where = ("where", "user=alice")
    assert commands.run(*show, "wopi", *where).stdout == "0|alice|3|\n"
    assert commands.run(*show, *where).stdout.endswith("|alice|3|02:00:00\n")


def test_coordinators_are_shown_where_they_are_asked_for(commands: Commands) -> None:
    """As sacctmgr's manual says: only filled in with WithCoordinator."""
    add = ("add", "coordinator", "account=chem", "names=bob")
    assert commands.run("sacctmgr", "-i", *add).code == 0
    for entity, name, shown in (("account", "chem", "bob"), ("user", "bob", "chem")):
        show = ("sacctmgr", "-nP", "show", entity, name, "format=coordinators")
        assert commands.run(*show).stdout == "\n"
        assert commands.run(*show, "withcoord").stdout == f"{shown}\n"


def test_a_text_that_is_too_long_is_named(commands: Commands) -> None:
    """The database was reached: the line says which field, and how much is allowed."""
    printed = commands.run("sacctmgr", "-i", "modify", "job", "1", "set", f"comment={'x' * 65_537}")
    assert printed.code == 1
    assert printed.stderr == "sacctmgr: error: comment: at most 65536 characters are allowed\n"
