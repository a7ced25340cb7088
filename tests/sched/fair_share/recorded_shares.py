"""What Slurm 22.05's sshare said of trees of associations on a live cluster.

`tests/golden/fair_share` holds `sshare -a -l -P` of random trees without the columns of TRES; an
empty line stands between trees. The usage is whole billing-seconds, since PriorityDecayHalfLife was
0: of jobs in `fair_tree`, `classic` and `depth_oblivious`. The others are of
`bench/peer_shares.py`, by seed:

- `fair_tree_ties`: 1 to 50, associations in the order in which Slurm ranks equal accounts
- `classic_N`, where N is FairShareDampeningFactor: 1 of 303, 304, 305, 308, 309 and 310; 2 of 300,
  307 and 311; 5 of 301, 302 and 306
- `depth_oblivious_shares`: 321 and 326
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
