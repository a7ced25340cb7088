"""Reading a file that a user names: as a whole, but never without end."""

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, AnyStr

MOST = 1 << 24


class TooLong(OSError):
    """A file that holds more than `MOST`; the text is one line."""


def read_whole(stream: "IO[AnyStr]") -> "AnyStr":
    """Return what a file holds, in the form that it was opened for.

    Raises:
        TooLong: it holds more than `MOST` bytes or characters.
        OSError: it cannot be read.
    """
    content = stream.read(MOST + 1)
    if len(content) > MOST:
        raise TooLong(errno.EFBIG, f"it holds more than {MOST >> 20} MiB")
    return content
