"""sshare prints shares, usage and factors as recorded of Slurm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.cli import sshare as command_sshare
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.share_tree import ShareTree
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent
from tests.cli.reference_cluster import ReferenceCluster, at, cases
from tests.cli.run_command import Printed, run_command
from tests.world.people import UIDS


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this host know the recorded users."""
    names = {0: "root", **{uid: name for name, uid in UIDS.items()}}
    monkeypatch.setattr(command_sshare, "user_name", names.__getitem__)


CASES = list(cases("sshare"))
TREE = (
    Association(1, "root", lineage="/"),
    Association(2, "root", "root", parent_id=1, lineage="/0-root/"),
    Association(4, "chem", parent_id=1, lineage="/chem/", shares=40),
    Association(7, "chem", "bob", parent_id=4, lineage="/chem/0-bob/", shares=5),
    Association(8, "chem", "carol", parent_id=4, lineage="/chem/0-carol/", shares=10),
    Association(3, "physics", parent_id=1, lineage="/physics/", shares=60),
    Association(5, "physics", "alice", parent_id=3, lineage="/physics/0-alice/", shares=10),
    Association(6, "physics", "bob", parent_id=3, lineage="/physics/0-bob/", shares=5),
)
# What the recorded --json says of an association's use.
BOB = {"cpu": 335.869822, "mem": 335869.821831, "node": 83.967455, "billing": 335.869822}
PHYSICS_S = 335.869822 / 0.414828703183296 * 0.585171296816704


def site() -> ReferenceCluster:
    """Return the recorded tree with what had been used of it."""
    reference = ReferenceCluster()
    reference.apply([ev.AssocChanged(at("12:08:00"), changed=TREE, version=1)])
    used_s = {1: BOB["billing"] + PHYSICS_S, 4: BOB["billing"], 3: PHYSICS_S, 5: PHYSICS_S}
    spent: dict[OwnerKey, Spent] = {
        ("assoc", assoc_id): Spent(0.0, {"billing": billing_s})
        for assoc_id, billing_s in used_s.items()
    }
    spent["assoc", 7] = Spent(0.0, dict(BOB))
    reference.spent = spent
    tree = ShareTree(TREE)
    usage = [{**used_s, 7: BOB["billing"]}.get(assoc_id, 0.0) for assoc_id in tree.assoc_ids]
    reference.soft.fairshare = share_factors(tree, usage, ShareRules())
    return reference


def sshare(patch: pytest.MonkeyPatch, words: str, user: str = "root") -> Printed:
    """Run sshare on the recorded cluster."""
    return run_command(patch, site(), user, ["sshare", *words.split()])


def as_of_one_moment(text: str) -> str:
    """Return a recording with the usage of the moment to which its fractions belong."""
    return text.replace("832", "809").replace("496", "473")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] != "json"], ids=lambda case: str(case[0])
)
def test_prints_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text for text; Slurm showed usage that was newer than the fractions beside it."""
    _, user, words, stdout, stderr, code = case
    printed = run_command(monkeypatch, site(), user, words)
    assert printed == Printed(as_of_one_moment(stdout), stderr, code)


def test_json_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key for key; of the TRES those of bob's association, whose usage was of that moment, too."""
    (recorded,) = (case for case in CASES if case[0] == "json")
    theirs = json.loads(as_of_one_moment(recorded[3]))["shares"]
    ours = json.loads(run_command(monkeypatch, site(), recorded[1], recorded[2]).stdout)["shares"]
    assert ours["total_shares"] == theirs["total_shares"]
    for our, their in zip(ours["shares"], theirs["shares"], strict=True):
        if their["id"] != 7:
            our["tres"].pop("usage"), their["tres"].pop("usage")
        for part in ("effective_usage", "usage_normalized"):
            our[part]["number"] = pytest.approx(our[part]["number"], abs=1e-9)
        level = our["fairshare"]["level"]
        level["number"] = pytest.approx(level["number"], abs=1e-9)
        assert our == their


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("-U -n -P -o account,user -a", ["root|root", "chem|bob", "chem|carol", "physics|alice"]),
        ("-n -P -o account,user -u bob", ["root|", " chem|", "  chem|bob", " physics|"]),
        ("-n -P -o account,user -A chem", ["chem|"]),
        ("-n -P -o account,user -A chem,root -a", ["root|", " root|root", " chem|", "  chem|bob"]),
        ("-n -P -o account,user -A nowhere", []),
        ("-n -P -o account,user -u 0", ["root|", " root|root", " chem|", " physics|"]),
        ("-n -P -o account,user --accounts= -a", []),
        ("-n -P -o account,user --users=", ["root|", " chem|", " physics|"]),
    ],
)
def test_chooses_associations(
    words: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users' own rows stand below those accounts that are shown, too."""
    lines = sshare(monkeypatch, words).stdout.splitlines()
    assert lines[: len(names)] == names and bool(lines) == bool(names)


def test_parsable_output_ends_in_a_bar_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """-p and -P; headings go with --noheader."""
    fields = "--format=user,fairshare --accounts=chem --users=bob --Users"
    assert sshare(monkeypatch, f"{fields} --parsable").stdout == "User|FairShare|\nbob|0.200000|\n"
    without = sshare(monkeypatch, f"{fields} --parsable2 --noheader")
    assert without.stdout == "bob|0.200000\n"
    assert sshare(monkeypatch, "--all --long --parsable2").stdout.count("\n") == 9


def test_headings_go_with_h_too_and_no_word_means_all_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """-h is -n, as in 22.05; `all` is no field."""
    assert sshare(monkeypatch, "-h -a") == sshare(monkeypatch, "-n -a")
    printed = sshare(monkeypatch, "-o all")
    assert printed == Printed("", 'sshare: error: Invalid field requested: "all"\n', 1)


def test_partitions_shares_of_the_parent_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """--partition adds a column; shares of `parent` have no level of their own."""
    reference = site()
    parent = Association(9, "physics", "carol", "gpu", 3, "/physics/0-carol/", INFINITE)
    reference.apply([ev.AssocChanged(at("12:09:00"), changed=(parent,))])
    words = ["sshare", "--partition", "-n", "-P", "-l", "-u", "carol", "-A", "physics"]
    line = run_command(monkeypatch, reference, "root", words).stdout.splitlines()[1]
    assert line.startswith(" physics|carol|gpu|parent|0.594059|0|0.000000|0.000000|||")
    assert len(line.split("|")) == 12


def test_older_formulas_have_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Slurm, whose column LevelFS is Fair Tree's."""
    reference = site()
    reference.conf = replace(reference.conf, priority_flags=("NO_FAIR_TREE",))
    words = ["sshare", "-a", "-P", "-o", "account,user,normshares,effectvusage,levelfs"]
    lines = run_command(monkeypatch, reference, "root", words).stdout.splitlines()
    # 0.67 of 0.40 of the cluster.
    assert "  chem|carol|0.264026|0.276552|" in lines


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("-o frob", 'sshare: error: Invalid field requested: "frob"\n'),
        ("-z", "sshare: invalid option -- 'z'\nTry \"sshare --help\" for more information\n"),
    ],
)
def test_bad_options(words: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line and 1, as in Slurm."""
    printed = sshare(monkeypatch, words)
    assert (printed.stdout, printed.stderr, printed.code) == ("", line, 1)


def test_verbose_says_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """--verbose tells of users and accounts on stderr."""
    printed = sshare(monkeypatch, "--verbose -A chem -u bob")
    assert printed.stderr == "Users requested:\n\t: bob\nAccounts requested:\n\t: chem\n"
