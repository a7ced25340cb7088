"""What `pyslurm-ng up` shows of a daemon that does not start."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.up import programs
from pyslurm_ng.up.layout import Layout


def test_only_what_this_start_has_written_is_shown(tmp_path: Path) -> None:
    """The log of a cluster that ran before holds errors that are long over."""
    layout = Layout(tmp_path)
    layout.log.mkdir()
    (layout.log / "slurmd-n1.log").write_text("error: of yesterday\n")
    before = programs.log_sizes(layout)
    (layout.log / "slurmd-n1.start").write_text("slurmd: fatal: of today\n")
    shown = programs.evidence(layout, "slurmd-n1", before)
    assert "fatal: of today" in shown
    assert "of yesterday" not in shown
    with (layout.log / "slurmd-n1.log").open("a") as log:
        log.write("error: of today\n")
    assert "error: of today" in programs.evidence(layout, "slurmd-n1", before)
    assert "of yesterday" not in programs.evidence(layout, "slurmd-n1", before)
