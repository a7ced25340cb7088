"""Advance reservations."""

from msgspec import Struct

# Flags in the order in which they are shown; `PURGE_COMP` carries its time.
SHOWN_FLAGS = (
    "MAINT", "FLEX", "OVERLAP", "IGNORE_JOBS", "HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY",
    "SPEC_NODES", "ALL_NODES", "ANY_NODES", "STATIC", "PART_NODES", "REPLACE", "REPLACE_DOWN",
    "PURGE_COMP", "NO_HOLD_JOBS_AFTER_END", "MAGNETIC", "USER_DELETE", "FORCE_START",
    "TIME_FLOAT", "FIRST_CORES",
)  # fmt: skip
REPEATS = ("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY")


class Reservation(Struct, array_like=True, frozen=True, gc=False):
    """Nodes kept for some users or accounts during a time.

    `users`, `accounts` and `qos` name who may use it; names that begin with `-` who may not.
    `later` holds the occurrences of a repeating one after the present, as (start, end).
    """

    name: str
    start_us: int
    end_us: int
    node_ids: tuple[int, ...] = ()
    core_masks: tuple[bytes, ...] = ()  # per node; empty: whole nodes
    partition: str = ""
    flags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    features: str = ""
    licenses: str = ""
    tres: str = ""
    max_start_delay_s: int = 0
    comment: str = ""
    reservation_id: int = 0
    later: tuple[tuple[int, int], ...] = ()
    is_active: bool = False  # its time has come: set by an event, so that nodes show it
    purge_s: int = 0  # PURGE_COMP: how long it may be idle
    idle_since_us: int = 0  # active and without a job since; 0 while it has one
    first_start_us: int = 0  # of the first occurrence, from which the others are counted
    first_end_us: int = 0
    float_us: int = 0  # TIME_FLOAT: it always begins that much after now

    def occurrences(self) -> tuple[tuple[int, int], ...]:
        """Return (start, end) of the present or next occurrence and of later ones."""
        return ((self.start_us, self.end_us), *self.later)

    def parts(self) -> dict[int, int]:
        """Return the mask of cores of each node that is held only in part."""
        if not self.core_masks:
            return {}
        pairs = zip(self.node_ids, self.core_masks, strict=True)
        return {node_id: int.from_bytes(mask, "little") for node_id, mask in pairs if mask}

    @property
    def repeats(self) -> str:
        """The flag that says how it repeats, or ""."""
        return next((flag for flag in self.flags if flag in REPEATS), "")
