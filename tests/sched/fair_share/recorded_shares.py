"""What Slurm 22.05's sshare said of trees of associations on a live cluster.

`tests/golden/fair_share` holds `sshare -a -l -P` of random trees on which jobs had run, without the
columns of TRES; an empty line stands between trees. The usage is whole billing-seconds, since
PriorityDecayHalfLife was 0.

Of 58 trees two are left out: there Slurm ranks one user below another whose ratio is the same
fraction, which 80-bit floating point makes unequal (ADR 0057).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "fair_share"


@dataclass(frozen=True)
class RecordedTree:
    """One tree: associations, their usage, and the fields that were printed, by association id."""

    assocs: list[Association]
    used: dict[int, int]
    fields: dict[int, dict[str, str]]


def recorded(name: str) -> list[RecordedTree]:
    """Return the trees of a file."""
    return [_tree(text.splitlines()) for text in (GOLDEN / name).read_text().split("\n\n")]


def _tree(lines: list[str]) -> RecordedTree:
    heading = lines[0].split("|")
    tree = RecordedTree([], {}, {})
    above: list[int] = []  # the accounts down to the present one, by depth
    for assoc_id, line in enumerate(lines[1:], 1):
        fields = dict(zip(heading, line.split("|"), strict=True))
        account = fields["Account"].lstrip()
        del above[len(fields["Account"]) - len(account) :]
        shares = fields["RawShares"] or "1"
        tree.assocs.append(
            Association(
                assoc_id,
                account,
                fields["User"],
                parent_id=above[-1] if above else 0,
                shares=INFINITE if shares == "parent" else int(shares),
            )
        )
        tree.used[assoc_id], tree.fields[assoc_id] = int(fields["RawUsage"]), fields
        if not fields["User"]:
            above.append(assoc_id)
    return tree
