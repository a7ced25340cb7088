from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.installation import Installation, end, install, is_over
from tests.world.waiting import wait_until


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installation]:
    """Return an installation whose squeue is `TRIAL`; its servers end with the test."""
    installation = install(tmp_path)
    yield installation
    while pid := installation.server():
        end(pid)
        wait_until(lambda ended=pid: is_over(ended), "the server's end")
