"""Days that reservations repeat on. The core has no time zone; the controller's edge brings it."""

from __future__ import annotations

DAY_US = 86_400_000_000
_MONDAY_US = 4 * DAY_US  # 1970-01-05


class Calendar:
    """Days without daylight saving; the edge passes one that knows the local time."""

    def after_days(self, when_us: int, days: int) -> int:
        """Return the same time of day that many days later."""
        return when_us + days * DAY_US

    def weekday(self, when_us: int) -> int:
        """Return 0 for Monday to 6 for Sunday."""
        return (when_us - _MONDAY_US) // DAY_US % 7


UTC = Calendar()
