"""Burst buffers: what the site's burst_buffer.lua does for a job before and after its run."""

from enum import IntEnum

from msgspec import Struct


class BufferState(IntEnum):
    """How far a job's burst buffer is; the names that Slurm shows are in `BUFFER_STATES`."""

    PENDING = 0
    STAGING_IN = 1
    STAGED_IN = 2
    PRE_RUN = 3
    RUNNING = 4
    POST_RUN = 5
    STAGING_OUT = 6
    TEARDOWN = 7
    TEARDOWN_FAIL = 8
    COMPLETE = 9


BUFFER_STATES = (
    "pending", "staging-in", "staged-in", "pre-run", "running", "post-run", "staging-out",
    "teardown", "teardown-fail", "complete",
)  # fmt: skip
IS_STAGE_OUT = frozenset((BufferState.POST_RUN, BufferState.STAGING_OUT))


class Buffer(Struct, array_like=True, frozen=True, gc=False):
    """The burst buffer of one job; replaced whole."""

    job_id: int
    state: int = BufferState.PENDING
    pool: str = ""  # that it takes room of; "" for none
    size: int = 0  # of that room, in the pool's units
    created_us: int = 0  # when its room was taken
    is_stuck: bool = False  # a function failed; it stays as it is until somebody decides
    is_hurried: bool = False  # it is torn down without a stage-out
    failures: int = 0  # of its teardown, in a row
    variables: tuple[str, ...] = ()  # `NAME=value` that slurm_bb_paths gave the script

    @property
    def holds_room(self) -> bool:
        """Whether its size is taken from its pool."""
        return BufferState.PENDING < self.state < BufferState.COMPLETE
