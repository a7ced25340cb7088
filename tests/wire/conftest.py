from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.wire_room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with Room(tmp_path) as made:
        yield made
