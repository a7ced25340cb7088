"""Reading the small files of /proc, /sys and control groups."""

import os


def read_text(path: str) -> str:
    """Return what a file says, "" if it is not there or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
