"""Types of the scheduler's kernels; their twins in tests/oracle say what each must answer."""

from collections.abc import Sequence

NEVER: int

class Profile:
    def __init__(self, now_us: int, amounts: Sequence[int], most: int = 4096) -> None: ...
    def release(self, time_us: int, kind: int, amount: int) -> None: ...
    def find(
        self,
        kinds: tuple[int, ...],
        amounts: tuple[int, ...],
        duration_us: int,
        not_before_us: int,
    ) -> int: ...
    def take(
        self, start_us: int, duration_us: int, kinds: tuple[int, ...], amounts: tuple[int, ...]
    ) -> None: ...
    def slots(self) -> list[tuple[int, tuple[int, ...]]]: ...
