"""Caches of users' texts hold few long ones: 65,536 of 8 KiB each were half a GiB of memory."""

from __future__ import annotations

from pyslurm_ng.base.kept_texts import SHORT, text_cache


def test_few_long_texts_are_held() -> None:
    made: list[str] = []

    @text_cache(128)
    def doubled(text: str) -> str:
        made.append(text)
        return text * 2

    short = [f"{number}" for number in range(128)]
    long = [f"{number}{'x' * SHORT}" for number in range(10)]
    for text in (*short, *long, *short, long[-1], long[0]):
        assert doubled(text) == text * 2
    assert made == [*short, *long, long[0]]
    doubled.cache_clear()  # type: ignore[attr-defined]
    doubled(short[0])
    assert made[-1] == short[0]
