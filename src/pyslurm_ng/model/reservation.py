"""Advance reservations."""

from msgspec import Struct


class Reservation(Struct, array_like=True, frozen=True, gc=False):
    """Nodes or cores kept for some users or accounts during a time."""

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
