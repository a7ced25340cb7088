"""Reading a file that a user names: as a whole, but never without end."""

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, AnyStr

MOST = 1 << 24
MOST_OF_CONF = 1 << 26
"""Of slurm.conf and its companions: the lines of 300,000 nodes."""
_FIRST_PIECE = 1 << 16


class TooLong(OSError):
    """A file that holds more than is read of it; the text is one line."""


def read_whole(stream: "IO[AnyStr]", most: int = MOST) -> "AnyStr":
    """Return what a file holds, in the form that it was opened for.

    Raises:
        TooLong: it holds more than `most` bytes or characters.
        OSError: it cannot be read.
    """
    # In pieces: a buffer for all that is allowed does not fit beside a small ulimit -v.
    content = stream.read(min(_FIRST_PIECE, most + 1))
    while len(content) <= most:
        piece = stream.read(min(max(1, len(content)), most + 1 - len(content)))
        if not piece:
            return content
        content += piece
    raise TooLong(errno.EFBIG, f"it holds more than {most >> 20} MiB")
