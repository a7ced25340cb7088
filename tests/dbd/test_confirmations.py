"""What sacctmgr says of its changes, as sacctmgr 22.05 says it."""

import pytest

from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import OpenStore, listed, manage, managed

LINES = (
    "add qos high,low",
    "add account physics",
    "add account chem parent=physics",
    "add user alice account=physics wckeys=wa",
)


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    return open_store(managed(LINES))


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "add account a maxwall=30 grptres=cpu=3,mem=2048 maxjobs=-1 qos=+high defaultqos=high "
            "parent=chem fairshare=2 maxtresmins=cpu=9 grptresrunmins=mem=2048",
            [
                "  Fairshare     = 2", "  GrpTRES       = cpu=3,mem=2G",
                "  GrpTRESRunMins= mem=2G", "  MaxJobs       = NONE", "  MaxTRESMins   = cpu=9",
                "  MaxWall       = 00:30:00", "  Parent        = chem", "  QOS           = +high",
                "  DefQOS        = high",
            ],
        ),
        (
            "add account a maxwall=infinite qos=Normal,,high,high",
            ["  MaxWall       = NONE", "  QOS           = high,normal"],
        ),
        (
            "add qos q preemptmode=requeue preemptexempttime=100 maxwall=5",
            [
                "  Description    = q", "  MaxWall                  = 00:05:00",
                "  PreemptExemptTime        = 01:40:00", "  PreemptMode              = REQUEUE",
            ],
        ),
        (
            "add qos q grpjobs=-1 maxwall=-1 usagefactor=-1 priority=-1",
            [
                "  Description    = q", "  GrpJobs                  = NONE",
                "  MaxWall                  = NONE", "  Priority                 = NONE",
                "  UsageFactor              = NONE",
            ],
        ),
        (
            "modify account chem set parent=root",
            [" Modified account associations...", "  C = demo       A = chem of physics"],
        ),
        (
            "delete account chem cluster=demo",
            [" Deleting account associations...", "  C = demo       A = chem of physics"],
        ),
        (
            "delete user alice account=physics",
            [
                " Deleting user associations...", "  C = demo       A = physics    U = alice    ",
                " Deleting users (No Associations)...", "  alice",
            ],
        ),
        ("add qos high", [" Nothing new added."]),
        ("add cluster demo", [" This cluster demo already exists.  Not adding."]),
        (
            "modify qos high set foo=1",
            [" Unknown option: foo=1", " Use keyword 'where' to modify condition"],
        ),
    ],
)  # fmt: skip
def test_a_change_is_confirmed_in_slurms_words(
    store: Database, line: str, lines: list[str]
) -> None:
    result = manage(store, line)
    assert result.lines[-len(lines) :] == lines and not result.error_lines


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "modify qos high set usagefactor=x",
            [
                "sacctmgr: error: Invalid value for UsageFactor (x)",
                " You didn't give me anything to set",
            ],
        ),
        ("add user bob account=chem maxjobs=x", [" Unknown option: maxjobs=x"]),
        (
            "add coordinator account=nope names=nobody",
            [
                " You specified a non-existent account 'nope'.",
                " You specified a non-existent user 'nobody'.",
            ],
        ),
    ],
)  # fmt: skip
def test_a_change_is_refused_in_slurms_words(store: Database, line: str, lines: list[str]) -> None:
    result = manage(store, line)
    assert (result.error_lines[-len(lines) :], result.exit_code) == (lines, 1)


def test_flags_of_qos_are_not_shortened(store: Database) -> None:
    assert manage(store, "modify qos high set flags=deny").exit_code == 1
    manage(store, "modify qos high set flags=denyonlimit")
    assert listed(store, "qos", "names=high")[0]["Flags"] == "DenyOnLimit"


def test_flags_of_qos_are_in_slurms_order(store: Database) -> None:
    manage(store, "modify qos high set flags=NoDecay,OverPartQOS,DenyOnLimit")
    assert listed(store, "qos", "names=high")[0]["Flags"] == "DenyOnLimit,OverPartQOS,NoDecay"
    refused = manage(store, "modify qos high set flags=")
    assert (refused.lines[0], refused.exit_code) == (" Unknown QOS flag used in:", 1)


def test_a_fresh_wckey_that_is_taken_away_is_never_listed_again(store: Database) -> None:
    manage(store, "delete user alice wckeys=wa")
    assert listed(store, "wckey", "", "withdeleted") == []
