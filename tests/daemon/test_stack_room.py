"""One large frame below a daemon's loop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyslurm_ng.daemon.process_settings import with_stack_room

COUNT = """
import sys
from pyslurm_ng.daemon.process_settings import with_stack_room

def leaf(): return 0
def deep(depth):
    if depth: return deep(depth - 1)
    for _ in range(5000): leaf()
    return 0
def calls():
    for depth in range(1, 200): deep(depth)
    return 0
sys.exit(with_stack_room(calls) if sys.argv[1] == "room" else calls())
"""


def test_returns_what_was_returned() -> None:
    """And lets exceptions pass."""
    assert with_stack_room(lambda: 7) == 7
    with pytest.raises(KeyError):
        with_stack_room(lambda: {}["missing"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames are elsewhere")
def test_calls_at_no_depth_map_memory() -> None:
    """Without it some depth does, each time: page faults show it."""

    def faults(word: str) -> int:
        code = f"import resource\ntry:\n exec({COUNT!r})\nexcept SystemExit: pass\n"
        code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
        done = subprocess.run(
            [sys.executable, "-c", code, word], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults("plain") - faults("room") > 2000
