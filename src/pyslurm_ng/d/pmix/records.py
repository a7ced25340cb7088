"""What libpmix takes and gives, as ctypes has it: the same in its versions 3 to 5."""

from __future__ import annotations

import ctypes

MOST_NAMESPACE = 256
MOST_KEY = 512
WILDCARD = 0xFFFFFFFE

SUCCESS = 0
ERROR = -1
ERR_NOT_FOUND = -46
ERR_NOT_SUPPORTED = -47
ERR_DUPLICATE_KEY = -53
OPERATION_SUCCEEDED = -157

BOOL, STRING, UINT16, UINT32, INFO, BYTES, DATA_ARRAY, RANK = 1, 3, 13, 14, 24, 27, 39, 40


class Proc(ctypes.Structure):
    """A rank of a namespace."""

    _fields_ = (("nspace", ctypes.c_char * MOST_NAMESPACE), ("rank", ctypes.c_uint32))


class ByteObject(ctypes.Structure):
    """Bytes of any kind."""

    _fields_ = (("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t))


class DataArray(ctypes.Structure):
    """An array of one type."""

    _fields_ = (
        ("type", ctypes.c_uint16),
        ("size", ctypes.c_size_t),
        ("array", ctypes.c_void_p),
    )


class _Data(ctypes.Union):
    _fields_ = (
        ("flag", ctypes.c_bool),
        ("string", ctypes.c_char_p),
        ("uint16", ctypes.c_uint16),
        ("uint32", ctypes.c_uint32),
        ("bytes", ByteObject),
        ("array", ctypes.POINTER(DataArray)),
        ("room", ctypes.c_uint64 * 3),
    )


class Value(ctypes.Structure):
    """A value with its type."""

    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class Info(ctypes.Structure):
    """A key with its value."""

    _fields_ = (("key", ctypes.c_char * MOST_KEY), ("flags", ctypes.c_uint32), ("value", Value))


class Pdata(ctypes.Structure):
    """A published key: who has published it, and its value."""

    _fields_ = (("proc", Proc), ("key", ctypes.c_char * MOST_KEY), ("value", Value))


Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
OpDone = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
ModexDone = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, Release, ctypes.c_void_p
)
LookupDone = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(Pdata), ctypes.c_size_t, ctypes.c_void_p
)
ModexAnswer = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)

_PROCS, _INFOS = ctypes.POINTER(Proc), ctypes.POINTER(Info)
_SIZE, _ANY, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
Connected = ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _ANY, OpDone, _ANY)
Aborted = ctypes.CFUNCTYPE(
    ctypes.c_int, _PROCS, _ANY, ctypes.c_int, _TEXT, _PROCS, _SIZE, OpDone, _ANY
)
Fence = ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _SIZE, _INFOS, _SIZE, _ANY, _SIZE, ModexDone, _ANY)
Modex = ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _INFOS, _SIZE, ModexDone, _ANY)
Publish = ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _INFOS, _SIZE, OpDone, _ANY)
Lookup = ctypes.CFUNCTYPE(
    ctypes.c_int, _PROCS, ctypes.POINTER(_TEXT), _INFOS, _SIZE, LookupDone, _ANY
)
Unpublish = ctypes.CFUNCTYPE(
    ctypes.c_int, _PROCS, ctypes.POINTER(_TEXT), _INFOS, _SIZE, OpDone, _ANY
)


class Module(ctypes.Structure):
    """The host's functions; those that are missing are answered as not supported by the library."""

    _fields_ = (
        ("client_connected", Connected),
        ("client_finalized", Connected),
        ("abort", Aborted),
        ("fence_nb", Fence),
        ("direct_modex", Modex),
        ("publish", Publish),
        ("lookup", Lookup),
        ("unpublish", Unpublish),
        ("others", ctypes.c_void_p * 32),
    )


def info(key: str, kind: int, content: object) -> Info:
    """Return a key with a value of one of the kinds above; `content` of an array is a DataArray."""
    made = Info()
    made.key = key.encode()
    made.value.type = kind
    data = made.value.data
    if kind == BOOL:
        data.flag = bool(content)
    elif kind == STRING:
        assert isinstance(content, bytes)
        data.string = content
    elif kind == DATA_ARRAY:
        assert isinstance(content, DataArray)
        data.array = ctypes.pointer(content)
    else:
        assert isinstance(content, int)
        if kind == UINT16:
            data.uint16 = content
        else:
            data.uint32 = content
    return made


def infos(*parts: Info) -> ctypes.Array[Info]:
    """Return infos as an array."""
    return (Info * len(parts))(*parts)


def array_of(parts: ctypes.Array[Info]) -> DataArray:
    """Return infos as a value; `parts` has to live as long."""
    return DataArray(INFO, len(parts), ctypes.addressof(parts))
