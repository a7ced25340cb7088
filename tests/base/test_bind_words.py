"""--cpu-bind and --mem-bind as text."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.bind_words import BindWordsError, cpu_bind, mem_bind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cores", "quiet,cores"),
        ("verbose,core", "verbose,cores"),
        ("v,map_cpu:0,2,4", "verbose,map_cpu:0,2,4"),
        ("quiet,mask_cpu:0x3,0xC", "quiet,mask_cpu:3,c"),
        ("mask_cpu:f,ff0,verbose", "verbose,mask_cpu:f,ff0"),
        ("map_cpu:0*2,0x1f", "quiet,map_cpu:0,0,0x1f"),
        ("no", "quiet,none"),
        ("verbose", "verbose"),
        ("cores,one_thread", "quiet,one_thread,cores"),
        ("rank_ldom", "quiet,rank_ldom"),
    ],
)
def test_cpu_bind_is_read_and_written_again(text: str, expected: str) -> None:
    assert cpu_bind(text).text() == expected
    assert cpu_bind(expected).text() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local", "quiet,local"),
        ("v,prefer,map_mem:0,1", "verbose,prefer,map_mem:0,1"),
        ("mask_mem:0x3", "quiet,mask_mem:3"),
        ("nosort,rank", "quiet,rank"),
        ("sort", "quiet,sort"),
    ],
)
def test_mem_bind_is_read_and_written_again(text: str, expected: str) -> None:
    assert mem_bind(text).text() == expected
    assert mem_bind(expected).text() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo", 'unrecognized --cpu-bind argument "foo"'),
        ("boards", 'unrecognized --cpu-bind argument "boards"'),
        ("map_cpu", 'missing list for "--cpu-bind=map_cpu:<list>"'),
        ("map_cpu:", 'missing list for "--cpu-bind=map_cpu:<list>"'),
        ("map_cpu:1x2", "Failed to validate number: 1x2, the offending character is x"),
        ("mask_cpu:zz", "Failed to validate number: zz, the offending character is z"),
        ("map_cpu:0*99999999,1", "--cpu-bind=map_cpu: at most 65536 numbers are allowed"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, expected: str) -> None:
    """Slurm's texts. Only the last differs, because Slurm has no bound there."""
    with pytest.raises(BindWordsError) as refused:
        cpu_bind(text)
    assert str(refused.value) == expected


def test_numbers_of_lists() -> None:
    assert cpu_bind("map_cpu:1,0x10").numbers() == [1, 16]
    assert mem_bind("mask_mem:0x10,1").numbers() == [16, 1]
