"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no failure: nothing here asserts on wall-clock time.
settings.register_profile(
    "busy_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy_machine")
