"""Files are read as a whole, in buffers that are no larger than what they hold."""

from __future__ import annotations

import io

import pytest

from pyslurm_ng.base.input_files import MOST_OF_CONF, TooLong, read_whole


class Stream(io.BytesIO):
    """A file that notes the largest buffer that was asked for."""

    largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.largest = max(self.largest, size or 0)
        return super().read(size)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_a_buffer_is_as_large_as_the_file(size: int) -> None:
    """Commands work beside `ulimit -v 30000`; what is allowed of slurm.conf is 64 MiB."""
    stream = Stream(b"x" * size)
    assert read_whole(stream, MOST_OF_CONF) == b"x" * size
    assert stream.largest <= max(1 << 16, size)


@pytest.mark.parametrize(("most", "is_long"), [(9, True), (10, False), (11, False)])
def test_no_more_than_what_is_allowed(most: int, is_long: bool) -> None:
    """/dev/zero would fill the memory otherwise."""
    if is_long:
        with pytest.raises(TooLong, match="it holds more than"):
            read_whole(io.StringIO("0123456789"), most)
    else:
        assert read_whole(io.StringIO("0123456789"), most) == "0123456789"
