"""Journals of every release replay: to the state that the release had reached itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "journals"
RELEASES = sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.parametrize("release", RELEASES)
def test_a_journal_of_the_past_replays(release: str, tmp_path: Path) -> None:
    """RELIABILITY 17: events are append-only, so an upgrade reads what was written before."""
    state = tmp_path / "state"
    shutil.copytree(GOLDEN / release, state)
    layout = Layout(state)
    layout.create()
    recovery = Recovery(layout)
    cluster, count = recover_cluster(recovery, ScriptStore(state / "scripts"))
    assert count > 0
    assert recovery.notes == []
    assert check(cluster) == []
    kept = Cluster.from_bytes((GOLDEN / release / "state").read_bytes())
    assert cluster.digest() == kept.digest()
