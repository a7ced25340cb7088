"""Entries of an Xauthority file: which cookie opens which X server.

Source: the manual's page of Xsecurity and the layout that libXau documents: family (16 bits), then
address, display number, name and data, each behind its length (16 bits), all big-endian.
"""

import struct

COOKIE = b"MIT-MAGIC-COOKIE-1"
FAMILY_LOCAL, FAMILY_WILD = 256, 65535
_HEAD = struct.Struct(">H")


class Entry:
    """One entry."""

    __slots__ = ("address", "data", "display", "family", "name")

    def __init__(
        self, family: int, address: bytes, display: bytes, name: bytes, data: bytes
    ) -> None:
        self.family, self.address, self.display = family, address, display
        self.name, self.data = name, data


def pack_entry(entry: Entry) -> bytes:
    """Return an entry as the file has it."""
    fields = (entry.address, entry.display, entry.name, entry.data)
    return _HEAD.pack(entry.family) + b"".join(_HEAD.pack(len(text)) + text for text in fields)


def entries(content: bytes) -> "list[Entry]":
    """Return the entries of a file, up to the first that is cut off."""
    taken: list[Entry] = []
    at = 0
    while at + 2 <= len(content):
        (family,) = _HEAD.unpack_from(content, at)
        at += 2
        fields = []
        for _ in range(4):
            if at + 2 > len(content):
                return taken
            (length,) = _HEAD.unpack_from(content, at)
            field = content[at + 2 : at + 2 + length]
            if len(field) < length:
                return taken
            fields.append(field)
            at += 2 + length
        taken.append(Entry(family, *fields))
    return taken


def cookie_of(content: bytes, host: bytes, display: bytes) -> bytes:
    """Return the cookie of an X server, b"" if a file has none.

    Args:
        host: the name of the server's host.
    """
    for entry in entries(content):
        is_there = entry.family == FAMILY_WILD or entry.address == host
        if is_there and entry.display in (b"", display) and entry.name == COOKIE:
            return entry.data
    return b""
