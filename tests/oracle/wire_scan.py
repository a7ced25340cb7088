"""The slow twin of `_records.check_body`: walk a msgpack body, refuse what no schema should see.

Refused: truncated or trailing bytes, nesting beyond the limit, duplicate keys of one map, keys
that are neither strings nor integers, NUL in text, integers beyond a signed 64-bit one, floats,
extension types. (Text that is not UTF-8, unknown fields, wrong types and lengths are refused by
the typed decoder.)
"""

from __future__ import annotations

import msgpack


class Malformed(Exception):
    """The bytes are not a message; the text says why in a few words."""


def check_body(body: bytes | memoryview, max_depth: int) -> None:
    """Raise `Malformed` unless `body` is exactly one well-formed msgpack value.

    Cost is linear in the number of values; a declared length is compared with what is left
    before anything is done with it.
    """
    view = memoryview(body)
    end = _skip(view, 0, max_depth)
    if end != len(view):
        raise Malformed(f"{len(view) - end} bytes after the end")


_FIXED = {
    0xC0: 1, 0xC2: 1, 0xC3: 1,
    0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9,
    0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
}  # fmt: skip
_LENGTH_BYTES = {
    0xD9: 1, 0xDA: 2, 0xDB: 4,
    0xC4: 1, 0xC5: 2, 0xC6: 4,
    0xDC: 2, 0xDD: 4,
    0xDE: 2, 0xDF: 4,
}  # fmt: skip


def _skip(view: memoryview, at: int, depth: int) -> int:
    """Return the position behind the value that starts at `at`."""
    if at >= len(view):
        raise Malformed("truncated")
    tag = view[at]
    if tag <= 0x7F or tag >= 0xE0:
        return at + 1
    if tag in _FIXED:
        end = at + _FIXED[tag]
        if end > len(view):
            raise Malformed("truncated")
        if tag == 0xCF and view[at + 1] & 0x80:
            raise Malformed("integer beyond 2**63-1")
        return end
    if tag <= 0x8F:
        return _skip_map(view, at + 1, tag & 0x0F, depth)
    if tag <= 0x9F:
        return _skip_array(view, at + 1, tag & 0x0F, depth)
    if tag <= 0xBF:
        return _skip_text(view, at + 1, tag & 0x1F)
    width = _LENGTH_BYTES.get(tag)
    if width is None:
        raise Malformed("float or extension type")
    start = at + 1 + width
    if start > len(view):
        raise Malformed("truncated")
    length = int.from_bytes(view[at + 1 : start], "big")
    if tag <= 0xC6:
        if start + length > len(view):
            raise Malformed("truncated")
        return start + length
    if tag <= 0xDB:
        return _skip_text(view, start, length)
    if tag <= 0xDD:
        return _skip_array(view, start, length, depth)
    return _skip_map(view, start, length, depth)


def _skip_text(view: memoryview, start: int, length: int) -> int:
    end = start + length
    if end > len(view):
        raise Malformed("truncated")
    if b"\0" in bytes(view[start:end]):
        raise Malformed("NUL in text")
    return end


def _skip_array(view: memoryview, at: int, length: int, depth: int) -> int:
    if depth <= 0:
        raise Malformed("nested too deeply")
    if length > len(view) - at:
        raise Malformed("truncated")
    for _ in range(length):
        at = _skip(view, at, depth - 1)
    return at


def _skip_map(view: memoryview, at: int, length: int, depth: int) -> int:
    if depth <= 0:
        raise Malformed("nested too deeply")
    if 2 * length > len(view) - at:
        raise Malformed("truncated")
    keys: set[object] = set()
    for _ in range(length):
        if at < len(view) and not _is_key(view[at]):
            raise Malformed("map key is neither text nor integer")
        end = _skip(view, at, depth - 1)
        try:
            keys.add(msgpack.unpackb(bytes(view[at:end])))
        except UnicodeDecodeError:
            raise Malformed("key is not UTF-8") from None
        at = _skip(view, end, depth - 1)
    if len(keys) != length:
        raise Malformed("duplicate key")
    return at


def _is_key(tag: int) -> bool:
    return (
        tag <= 0x7F
        or tag >= 0xE0
        or 0xA0 <= tag <= 0xBF
        or 0xCC <= tag <= 0xD3
        or 0xD9 <= tag <= 0xDB
    )
