"""A file system that hangs: FUSE whose server hears each request and never answers."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_HEAD = struct.Struct("<IIQQIIII")
_ANSWER = struct.Struct("<IiQ")
_INIT, _INTERRUPT = 26, 36
_MNT_FORCE, _MNT_DETACH = 1, 2


class HungFiles:
    """The mounted file system at `path`; who touches it waits until `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40755,user_id=0,group_id=0,allow_other"
        if _LIBC.mount(b"hung", os.fsencode(path), b"fuse.hung", 0, options.encode()):
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount")
        self.heard = threading.Event()
        """Set once somebody waits, beyond the reach of SIGKILL."""
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError:
                return
            _, kind, unique, *_ = _HEAD.unpack_from(request)
            if kind == _INIT:
                body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 8, 8, 4096, 1, 0, 0, 0)
                os.write(self._device, _ANSWER.pack(16 + len(body), 0, unique) + body)
            elif kind != _INTERRUPT:
                self.heard.set()

    def release(self) -> None:
        """Have everything that waits fail, and unmount; nothing the second time."""
        if self._device < 0:
            return
        _LIBC.umount2(os.fsencode(self.path), _MNT_FORCE | _MNT_DETACH)
        self._server.join()
        os.close(self._device)
        self._device = -1


@contextmanager
def hung_files(path: Path) -> Iterator[HungFiles]:
    """Mount one at a new directory, and take it away again."""
    path.mkdir()
    made = HungFiles(path)
    try:
        yield made
    finally:
        made.release()
