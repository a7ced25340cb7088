"""What Slurm's commands print of a job whose account or QOS may not use its partition."""

from __future__ import annotations

import pytest

from tests.ctld.rules.reason_scenarios import ENFORCED, in_partition
from tests.world.reservations import ReservationSite


@pytest.mark.parametrize(
    ("fields", "reason", "text"),
    [
        (
            {"allow_accounts": ("chemistry", "biology")},
            "AccountNotAllowed",
            "Job's account not permitted to use this partition "
            "(main allows chemistry,biology not physics)",
        ),
        (
            {"deny_accounts": ("biology", "physics")},
            "AccountNotAllowed",
            "Job's account not permitted to use this partition "
            "(main denies biology,physics including physics)",
        ),
        (
            {"allow_qos": ("urgent",)},
            "QOSNotAllowed",
            "Job's QOS not permitted to use this partition (main allows urgent not normal)",
        ),
        (
            {"deny_qos": ("normal",)},
            "QOSNotAllowed",
            "Job's QOS not permitted to use this partition (main denies normal including normal)",
        ),
    ],
)
def test_the_partition_and_its_list_are_named(
    fields: dict[str, object], reason: str, text: str
) -> None:
    """Seen of 22.05, in place of the reason's name."""
    scene = ReservationSite(ENFORCED)
    scene.account()
    job = in_partition({}, **fields)(scene)
    assert scene.shown(job) == (reason, text)
