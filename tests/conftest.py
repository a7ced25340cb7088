"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: nothing here asserts on wall-clock time.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
