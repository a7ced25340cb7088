"""AuthType=auth/munge: munge's library through ctypes; munged vouches for uid and gid.

The payload of a credential is ours: version, role, name, host, cluster, audience, kind and digest
of the body, as a msgpack array. munged keeps its own record of credentials seen, so replays are
refused without a store here. A daemon role is believed only of uid 0 and SlurmUser.

Commands import this module, too, so it does not use msgspec.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_void_p

from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAYLOAD_VERSION = 1
_LIBRARY = "libmunge.so.2"
# Values of munge.h's munge_opt_t and munge_err_t, which are its stable interface.
_OPT_DECODE_TIME = 7
_OPT_ENCODE_TIME = 6
_OPT_SOCKET = 8
_EXPIRED = 15
_REWOUND = 16
_REPLAYED = 17
_CAUSES = {_EXPIRED: "expired", _REWOUND: "from_future", _REPLAYED: "replayed", 6: "no_munged"}


class MungeError(Exception):
    """munge cannot be used, or refuses; `cause` is a counter's name."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text


_loaded: "dict[str, Any]" = {}


def _library() -> "Any":
    """Return libmunge with its signatures declared; raise MungeError when it is not installed."""
    known = _loaded.get("library")
    if known is not None:
        return known
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise MungeError(
            "no_munge",
            f"auth/munge: {_LIBRARY} cannot be loaded: install munge or set AuthType=auth/slurm",
        ) from None
    library.munge_ctx_create.restype = c_void_p
    library.munge_ctx_destroy.argtypes = [c_void_p]
    library.munge_encode.argtypes = [POINTER(c_void_p), c_void_p, c_char_p, c_int]
    library.munge_decode.argtypes = [
        c_char_p, c_void_p, POINTER(c_void_p), POINTER(c_int), POINTER(c_uint32),
        POINTER(c_uint32),
    ]  # fmt: skip
    library.munge_strerror.restype = c_char_p
    library.munge_ctx_strerror.restype = c_char_p
    library.munge_ctx_strerror.argtypes = [c_void_p]
    free = ctypes.CDLL(None).free
    free.argtypes = [c_void_p]
    _loaded["free"] = free
    _loaded["library"] = library
    return library


def is_installed() -> bool:
    """Whether libmunge can be loaded."""
    try:
        _library()
    except MungeError:
        return False
    return True


def socket_of(auth_info: str) -> str:
    """Return munged's socket named in AuthInfo (`socket=PATH`), or empty for munge's default."""
    for word in auth_info.split(","):
        key, _, value = word.strip().partition("=")
        if key.lower() == "socket":
            return value
    return ""


class _Context:
    """A munge context, destroyed at the end of the `with` block."""

    def __init__(self, auth_info: str) -> None:
        self._library = _library()
        self.pointer = c_void_p(self._library.munge_ctx_create())
        path = socket_of(auth_info)
        if path:
            self._library.munge_ctx_set(self.pointer, c_int(_OPT_SOCKET), c_char_p(path.encode()))

    def __enter__(self) -> "_Context":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.munge_ctx_destroy(self.pointer)

    def error(self, code: int) -> MungeError:
        """Return munge's complaint as an exception."""
        text = self._library.munge_ctx_strerror(self.pointer) or self._library.munge_strerror(
            c_int(code)
        )
        words = text.decode(errors="replace") if text else f"error {code}"
        return MungeError(_CAUSES.get(code, "bad_signature"), f"munge: {words}")

    def times(self) -> "tuple[int, int]":
        """Return the seconds since the epoch at which a credential was made and read."""
        made, read = ctypes.c_long(0), ctypes.c_long(0)
        self._library.munge_ctx_get(self.pointer, c_int(_OPT_ENCODE_TIME), byref(made))
        self._library.munge_ctx_get(self.pointer, c_int(_OPT_DECODE_TIME), byref(read))
        return made.value, read.value


def encode(auth_info: str, payload: bytes) -> bytes:
    """Return a credential of the calling process over `payload`."""
    with _Context(auth_info) as context:
        made = c_void_p()
        code = _library().munge_encode(byref(made), context.pointer, payload, len(payload))
        if code:
            raise context.error(code)
        try:
            return ctypes.string_at(made)
        finally:
            _loaded["free"](made)


def decode(
    auth_info: str, credential: bytes, accept_used: bool = False
) -> "tuple[bytes, int, int]":
    """Return (payload, uid, gid) of a credential.

    `accept_used` accepts expired and already seen credentials. Job credentials need that: two
    processes of a host read the same one, and its payload has its own times and nonce.
    """
    if not credential.startswith(b"MUNGE:") or b"\0" in credential:
        raise MungeError("malformed_credential", "not a munge credential")
    with _Context(auth_info) as context:
        payload, length = c_void_p(), c_int(0)
        uid, gid = c_uint32(0xFFFFFFFF), c_uint32(0xFFFFFFFF)
        code = _library().munge_decode(
            credential, context.pointer, byref(payload), byref(length), byref(uid), byref(gid)
        )
        try:
            if code and not (accept_used and code in (_EXPIRED, _REPLAYED)):
                failure = context.error(code)
                if code in (_EXPIRED, _REWOUND):
                    made_s, read_s = context.times()
                    raise MungeError(
                        failure.cause,
                        f"{failure.text}: made at {made_s}, this host's clock is {read_s} "
                        "(seconds since the epoch)",
                    )
                raise failure
            content = ctypes.string_at(payload, length.value) if payload else b""
            return content, uid.value, gid.value
        finally:
            if payload:
                _loaded["free"](payload)


def encode_claims(
    auth_info: str,
    role: str,
    name: str,
    cluster: str,
    audience: str,
    kind: str,
    digest: bytes,
) -> bytes:
    """Return a credential by which this process sends one body as `kind` to `audience`."""
    claims = [PAYLOAD_VERSION, role, name, cluster, audience, kind, digest]
    return encode(auth_info, pack(claims))


def decode_claims(
    auth_info: str, credential: bytes
) -> "tuple[str, str, str, str, str, bytes, int, int]":
    """Return (role, name, cluster, audience, kind, digest, uid, gid) of a request's credential."""
    payload, uid, gid = decode(auth_info, credential)
    try:
        claims = unpack(payload)
    except ValueError:
        claims = None
    if (
        not isinstance(claims, list | tuple)
        or len(claims) != 7
        or claims[0] != PAYLOAD_VERSION
        or not all(isinstance(word, str) for word in claims[1:6])
        or not isinstance(claims[6], bytes)
    ):
        raise MungeError("malformed_credential", "munge credential has unknown contents")
    _, role, name, cluster, audience, kind, digest = claims
    return role, name, cluster, audience, kind, digest, uid, gid
