"""A PAM session around the tasks of a step, for UsePAM: the site's modules set their limits.

It runs in the process that starts the tasks (`launcher`), as root: tasks get the limits of the
process that starts them, and modules may wait for as long as they like without a supervisor that
waits with them. ctypes loads libpam there only, so supervisors of other sites know nothing of it.

Slurm's service is called "slurm": /etc/pam.d/slurm says which modules there are.
"""

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SERVICE = "slurm"
LIBRARY = "libpam.so.0"
SUCCESS = 0
_CONV_ERR = 19
_ESTABLISH_CRED, _DELETE_CRED = 0x2, 0x4
_SILENT = 0x8000
_USER, _RUSER = 2, 8


class PamError(Exception):
    """A session cannot be opened; one line."""


class _Conv(ctypes.Structure):
    _fields_ = [("conv", ctypes.c_void_p), ("appdata_ptr", ctypes.c_void_p)]


_CONVERSATION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


def _refuse(count: int, messages: object, responses: object, data: object) -> int:
    """Nobody is there whom a module could ask."""
    return _CONV_ERR


_NO_ANSWER = _CONVERSATION(_refuse)
"""It has to live as long as any session."""


class PamSession:
    """An open session.

    Args:
        user: the name of the tasks' user.
    """

    def __init__(self, user: str) -> None:
        """Raises PamError."""
        try:
            self._pam = pam = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise PamError(f"UsePAM: {error}") from None
        pam.pam_strerror.restype = ctypes.c_char_p
        self._conv = _Conv(ctypes.cast(_NO_ANSWER, ctypes.c_void_p), None)
        self._handle = ctypes.c_void_p()
        name = os.fsencode(user)
        status = pam.pam_start(
            SERVICE.encode(), name, ctypes.byref(self._conv), ctypes.byref(self._handle)
        )
        if status != SUCCESS:
            raise PamError(f"pam_start: user {user}: status {status}")
        self._has_credentials = False
        try:
            self._call("pam_set_item", user, _USER, name)
            self._call("pam_set_item", user, _RUSER, name)
            self._call("pam_setcred", user, _ESTABLISH_CRED | _SILENT)
            self._has_credentials = True
            self._call("pam_open_session", user, _SILENT)
        except PamError:
            self._end(SUCCESS)
            raise

    def _call(self, function: str, user: str, *words: "Any") -> None:
        """Call a function of the library. Raises PamError where it fails."""
        status = getattr(self._pam, function)(self._handle, *words)
        if status != SUCCESS:
            text = self._pam.pam_strerror(self._handle, status) or b""
            raise PamError(f"{function}: user {user}: {text.decode('utf-8', 'replace')}")

    def close(self) -> None:
        """End the session; what a module says about that is of no use to anybody."""
        self._end(self._pam.pam_close_session(self._handle, _SILENT))

    def _end(self, status: int) -> None:
        if self._has_credentials:
            status = self._pam.pam_setcred(self._handle, _DELETE_CRED | _SILENT) or status
        self._pam.pam_end(self._handle, status)
