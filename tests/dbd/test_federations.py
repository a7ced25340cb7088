"""sacctmgr's federations; the texts are those of sacctmgr 22.05 for the same lines."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import OpenStore, listed, manage


def prepared(database: Database) -> None:
    manage(database, "add cluster alpha,beta,gamma")
    manage(database, "add federation fed1")
    manage(database, "add federation fed2 clusters=alpha,beta")


@pytest.fixture
def site(open_store: OpenStore) -> Database:
    """Clusters alpha, beta and gamma; federation fed2 of the first two, and fed1 without any."""
    return open_store(prepared)


def members(database: Database) -> list[tuple[object, ...]]:
    """Return federation, cluster, number, features and state."""
    names = ("Federation", "Cluster", "ID", "Features", "FedState")
    return [tuple(row[name] for name in names) for row in listed(database, "federation")]


def test_federations_are_listed_with_their_clusters(site: Database) -> None:
    """A federation without clusters is a row, too; conditions choose federations."""
    assert members(site) == [
        ("fed1", "", "", "", ""), ("fed2", "alpha", 1, "", "ACTIVE"),
        ("fed2", "beta", 2, "", "ACTIVE"),
    ]  # fmt: skip
    assert [row["Federation"] for row in listed(site, "federation", "fed1")] == ["fed1"]
    assert [row["Cluster"] for row in listed(site, "federation", "clusters=beta")] == [
        "alpha", "beta"
    ]  # fmt: skip
    shown = {row["Cluster"]: row for row in listed(site, "cluster", "federation=fed2")}
    assert set(shown) == {"alpha", "beta"}
    assert (shown["beta"]["ID"], shown["beta"]["FedState"]) == (2, "ACTIVE")
    (alone,) = listed(site, "cluster", "gamma")
    assert (alone["Federation"], alone["ID"], alone["FedState"]) == ("", 0, "NA")


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("add federation fed3", [" Adding Federation(s)", "  fed3"]),
        (
            "add federation fed3 clusters=gamma,alpha",
            [" Adding Federation(s)", "  fed3", " Settings", "  Cluster       = gamma",
             "  Cluster       = alpha"],
        ),
        (
            "modify federation fed2 set clusters-=alpha",
            [" Setting", "  Cluster      -= alpha", " Modified federation...", "  fed2"],
        ),
        (
            "modify federation fed2 set clusters=beta,gamma",
            [" Setting", "  Cluster      -= alpha", "  Cluster      += gamma",
             " Modified federation...", "  fed2"],
        ),
        (
            "modify federation fed2 set clusters=",
            [" Setting", "  Cluster      -= alpha", "  Cluster      -= beta",
             " Modified federation...", "  fed2"],
        ),
        (
            "modify cluster alpha set fedstate=active features=a,b",
            [" Setting", "  Feature       = a", "  Feature       = b", "  FedState       = ACTIVE",
             " Modified cluster...", "  alpha"],
        ),
        (
            "modify cluster alpha set federation=fed1",
            [" Setting", "  Federation     = fed1", " Modified cluster...", "  alpha"],
        ),
        (
            "modify cluster alpha set federation=",
            [" Setting", "  Federation     = ", " Modified cluster...", "  alpha"],
        ),
        (
            "add cluster delta federation=fed2 features=x",
            [" Adding Cluster(s)", "  Name           = delta", " Setting", "  Feature       = x",
             "  Federation     = fed2"],
        ),
        ("delete federation fed2,nofed", [" Deleting federations...", "  fed2"]),
    ],
)  # fmt: skip
def test_changes_say_what_they_do(site: Database, line: str, lines: list[str]) -> None:
    """As sacctmgr 22.05 prints it."""
    result = manage(site, line)
    assert (result.lines, result.exit_code) == (lines, 0)
    assert all(" assigned to federation fed2" in line for line in result.error_lines)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("add federation", " Need name of federation to add."),
        ("add federation fed1", " This federation fed1 already exists.  Not adding."),
        ("add federation f clusters=nope", " The cluster nope doesn't exist. Please add first."),
        ("add federation f,g clusters=beta", " Can't assign clusters to multiple federations."),
        ("add federation a'b", ' Bad federation name "a\'b"'),
        ("modify federation fed2", " You didn't give me anything to set"),
        ("modify federation set clusters=beta", " Can't assign clusters to multiple federations."),
        ("modify federation nofed set clusters=beta", " The federation nofed doesn't exist."),
        ("modify federation fed2 set flags=x", " Unknown federation flag used in:"),
        (
            "modify federation fed2 set clusters-=nope",
            " The cluster nope doesn't exist. Please add first.",
        ),
        (
            "modify federation fed2 set clusters-=gamma",
            " The cluster gamma isn't assigned to federation fed2",
        ),
        (
            "modify federation fed2 set clusters+=alpha",
            " The cluster alpha is already assigned to federation fed2",
        ),
        ("modify cluster alpha set fedstate=bogus", "Invalid FedState bogus."),
        ("modify cluster alpha set federation=nofed", " The federation nofed doesn't exist."),
        (
            "modify cluster alpha set federation=fed2",
            " The cluster alpha is already assigned to federation fed2",
        ),
        (
            f"modify cluster alpha set features={'x' * 256}",
            " Features of a cluster: 255 printable characters at most",
        ),
        ("delete federation nofed", " Nothing deleted"),
        ("delete federation", " No conditions given to remove, not executing."),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    site: Database, line: str, text: str
) -> None:
    """One clear line, and exit code 1."""
    before = members(site)
    result = manage(site, line)
    assert [*result.error_lines, *result.lines][0] == text and result.exit_code == 1
    assert members(site) == before


def test_a_cluster_keeps_its_features_and_gets_the_least_free_number(site: Database) -> None:
    """Numbers of a federation are 1 to 63, each of one cluster."""
    manage(site, "modify cluster alpha set features=a,b")
    manage(site, "modify cluster alpha set features+=c features-=a")
    manage(site, "modify cluster alpha set federation=")
    manage(site, "modify federation fed2 set clusters+=gamma,alpha")
    assert members(site)[1:] == [
        ("fed2", "alpha", 3, "b,c", "ACTIVE"), ("fed2", "beta", 2, "", "ACTIVE"),
        ("fed2", "gamma", 1, "", "ACTIVE"),
    ]  # fmt: skip


def test_no_federation_has_more_than_63_clusters(site: Database) -> None:
    """Job ids have six bits for the number of a cluster, in Slurm."""
    names = ",".join(f"c{number}" for number in range(62))
    manage(site, f"add cluster {names}")
    result = manage(site, f"modify federation fed1 set clusters={names},alpha,gamma")
    assert (result.error_lines, result.exit_code) == (
        [" The federation fed1 has 63 clusters, as many as it may have"], 1,
    )  # fmt: skip


def test_states_are_named_and_only_listed(site: Database) -> None:
    """Controllers take jobs in every state, and sacctmgr says so."""
    result = manage(site, "modify cluster alpha set fedstate=drain+remove")
    assert result.lines[-1] == (
        " FedState is stored and listed. slurmctld takes jobs in every state."
    )
    assert members(site)[1][-1] == "DRAIN+REMOVE"


def test_deleted_clusters_leave_their_federation(site: Database) -> None:
    """A federation that is deleted is left by all."""
    manage(site, "delete cluster alpha")
    assert [row[1] for row in members(site)] == ["", "beta"]
    manage(site, "delete federation fed2")
    assert [row["FedState"] for row in listed(site, "cluster")] == ["NA", "NA"]


def test_only_administrators_change_federations(site: Database) -> None:
    """Everybody may list them."""
    for line in ("add federation f", "modify federation fed2 set clusters=", "delete federation f"):
        assert manage(site, line, user="bob", uid=1002).exit_code == 1
    assert len(members(site)) == 3
