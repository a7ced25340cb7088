"""Advance reservations."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.model.job import GresAlloc, NodeAlloc

# Flags in the order in which they are shown; `PURGE_COMP` carries its time.
SHOWN_FLAGS = (
    "MAINT", "FLEX", "OVERLAP", "IGNORE_JOBS", "HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY",
    "SPEC_NODES", "ALL_NODES", "ANY_NODES", "STATIC", "PART_NODES", "REPLACE", "REPLACE_DOWN",
    "PURGE_COMP", "NO_HOLD_JOBS_AFTER_END", "MAGNETIC", "USER_DELETE", "FORCE_START",
    "TIME_FLOAT", "FIRST_CORES",
)  # fmt: skip
REPEATS = ("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY")


class NodePart(NamedTuple):
    """A part of a node: a mask of cores (-1: the whole node), masks of devices by `name:type`."""

    cores: int
    devices: dict[str, int]

    def joined(self, other: "NodePart") -> "NodePart":
        """Return what is in either of two parts."""
        if self.cores == -1 or other.cores == -1:
            return WHOLE
        devices = dict(self.devices)
        for key, mask in other.devices.items():
            devices[key] = devices.get(key, 0) | mask
        return NodePart(self.cores | other.cores, devices)

    def without(self, other: "NodePart") -> "NodePart":
        """Return this part without another."""
        devices = {key: mask & ~other.devices.get(key, 0) for key, mask in self.devices.items()}
        return NodePart(self.cores & ~other.cores, devices)

    def lies_in(self, other: "NodePart") -> bool:
        """Return whether another part includes this; kinds of devices it lacks do not count."""
        return not self.cores & ~other.cores and not any(
            mask & ~other.devices.get(key, -1) for key, mask in self.devices.items()
        )

    def meets(self, other: "NodePart") -> bool:
        """Return whether two parts have anything in common."""
        if -1 in (self.cores, other.cores):
            return True
        return bool(self.cores & other.cores) or any(
            mask & other.devices.get(key, 0) for key, mask in self.devices.items()
        )


WHOLE = NodePart(-1, {})
NOTHING = NodePart(0, {})


def devices_of(gres: tuple[GresAlloc, ...]) -> dict[str, int]:
    """Return masks of the devices held, by `name:type`."""
    devices: dict[str, int] = {}
    for alloc in gres:
        key = f"{alloc.name}:{alloc.type}"
        devices[key] = devices.get(key, 0) | int.from_bytes(alloc.indexes, "little")
    return devices


def part_of(alloc: NodeAlloc) -> NodePart:
    """Return the part of a node that a job holds; the whole node if cores were not counted."""
    return NodePart(int.from_bytes(alloc.cores, "little") or -1, devices_of(alloc.gres))


class Reservation(Struct, array_like=True, frozen=True, gc=False):
    """Nodes kept for some users or accounts during a time.

    `users`, `accounts` and `qos` name those that may use it; names that begin with `-` may not.
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
    is_active: bool = False  # its time has come; an event sets this so that nodes show it
    purge_s: int = 0  # PURGE_COMP: how long it may be idle
    idle_since_us: int = 0  # active and without a job since; 0 while it has one
    first_start_us: int = 0  # of the first occurrence, from which the others are counted
    first_end_us: int = 0
    float_us: int = 0  # TIME_FLOAT: it always begins so long after now
    gres: tuple[tuple[GresAlloc, ...], ...] = ()  # per node; empty: its devices are not reserved
    allowed_partitions: tuple[str, ...] = ()  # of its jobs; names with `-` are excluded
    burst_buffer: str = ""  # shown; nothing is kept of what no plugin has
    # Members of `groups` in order, where it draws jobs; None: the user directory has not said yet.
    group_users: tuple[str, ...] | None = None

    def occurrences(self) -> tuple[tuple[int, int], ...]:
        """Return (start, end) of the present or next occurrence and of later ones."""
        return ((self.start_us, self.end_us), *self.later)

    def parts(self) -> dict[int, NodePart]:
        """Return the part that is reserved of each node that is not reserved whole."""
        if not self.core_masks:
            return {}
        gres = self.gres or ((),) * len(self.node_ids)
        return {
            node_id: NodePart(int.from_bytes(mask, "little"), devices_of(devices))
            for node_id, mask, devices in zip(self.node_ids, self.core_masks, gres, strict=True)
            if mask
        }

    @property
    def repeats(self) -> str:
        """The flag that says how it repeats, or ""."""
        return next((flag for flag in self.flags if flag in REPEATS), "")


def changed_reservation(reservation: Reservation, **fields: object) -> Reservation:
    """Return a reservation with some fields changed."""
    return replace(reservation, **fields)
