"""Who is in command: RELIABILITY 12, invariant I6."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.d.core.node_core import NodeCore
from pyslurm_ng.d.spool.spool import Spool


def test_a_node_obeys_no_epoch_below_the_newest_it_has_seen() -> None:
    """A controller that was replaced has the right key and the wrong number."""
    core = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    assert [core.accept_epoch(epoch) for epoch in (4, 4, 6, 5, 4, 6)] == [
        True, True, True, False, False, True,
    ]  # fmt: skip
    assert core.epoch == 6


def test_it_remembers_that_epoch_on_disk(tmp_path: Path) -> None:
    """A node that was restarted still knows which controller is in command."""
    spool = Spool(str(tmp_path))
    assert spool.epoch() == 0
    for epoch in (4, 6):
        spool.keep_epoch(epoch)
        assert Spool(str(tmp_path)).epoch() == epoch
