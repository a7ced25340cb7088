"""Slurm's configuration grammar: comments, continuation, quotes, Include."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.conf.lexer import ConfText, parse_text, parse_words, read_conf


def pairs(conf: ConfText) -> list[list[tuple[str, str]]]:
    assert conf.errors == []
    return [[(entry.key, entry.value) for entry in line] for line in conf.lines]


def write(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def test_a_line_holds_entries_in_order() -> None:
    conf = parse_text("NodeName=n1 CPUs=4   RealMemory=10\n\n  \nPort = 3\n")
    assert pairs(conf) == [
        [("NodeName", "n1"), ("CPUs", "4"), ("RealMemory", "10")],
        [("Port", "3")],
    ]
    assert [line[0].line for line in conf.lines] == [1, 4]


def test_comments_end_a_line_unless_escaped_or_quoted() -> None:
    conf = parse_text('A=1 # x\n# B=2\nC=a\\#b\nD="x # y" # z\nE=1#2\n')
    assert pairs(conf) == [[("A", "1")], [("C", "a#b")], [("D", "x # y")], [("E", "1")]]


def test_a_backslash_continues_a_line_and_errors_name_its_beginning() -> None:
    conf = parse_text("A=1 \\\n  B=2 \\\n  C=3\nfoo bar\n")
    assert [[(e.key, e.value) for e in line] for line in conf.lines] == [
        [("A", "1"), ("B", "2"), ("C", "3")]
    ]
    assert [(error.line, error.key) for error in conf.errors] == [(4, "foo")]


def test_a_commented_backslash_continues_nothing() -> None:
    assert pairs(parse_text("# a \\\nB=1\n")) == [[("B", "1")]]


def test_quotes_keep_blanks() -> None:
    conf = parse_text('Reason="not now, thanks" X=1\nO=a="b c",d Y=2\nEmpty="" Z=""\n')
    assert pairs(conf) == [
        [("Reason", "not now, thanks"), ("X", "1")],
        [("O", 'a="b c",d'), ("Y", "2")],
        [("Empty", ""), ("Z", "")],
    ]


def test_a_missing_value_is_reported() -> None:
    """`AllowGroups=` of a template whose variable is empty must not let all groups in."""
    conf = parse_text('A=1\nPartitionName=p AllowGroups=  # nobody\nB=""\nC=x=\n')
    assert [str(error) for error in conf.errors] == [
        '-:2: AllowGroups: a value is missing; an empty one is written ""'
    ]
    assert [line[0].value for line in conf.lines] == ["1", "", "x="]


def test_windows_line_ends_and_a_missing_last_newline_are_fine() -> None:
    assert pairs(parse_text("A=1\r\nB=2")) == [[("A", "1")], [("B", "2")]]


def test_every_broken_line_is_reported() -> None:
    conf = parse_text('foo\nA="open\nB="x"y\n=1\nC=1 junk\nD=1 \\')
    assert [(e.line, e.text) for e in conf.errors] == [
        (1, "expected Key=Value"),
        (2, "quote without its end"),
        (3, "text right behind a closing quote"),
        (4, "expected Key=Value"),
        (5, "expected Key=Value"),
        (6, "the file ends in a continued line"),
    ]


def test_include_is_relative_to_the_including_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "b.conf", "B=2\ninclude c.conf\n")
    write(tmp_path / "sub", "c.conf", "C=3\n")
    path = write(tmp_path, "a.conf", "A=1\nInclude sub/b.conf # why\nD=4\n")
    conf = read_conf(path)
    assert pairs(conf) == [[("A", "1")], [("B", "2")], [("C", "3")], [("D", "4")]]
    assert len(conf.files) == 3


def test_include_takes_the_clusters_name(tmp_path: Path) -> None:
    write(tmp_path, "x-tux.conf", "B=2\n")
    conf = read_conf(write(tmp_path, "a.conf", "ClusterName=TUX\nInclude x-%c.conf\n"))
    assert pairs(conf)[1] == [("B", "2")]


def test_include_loops_and_missing_files_are_refused(tmp_path: Path) -> None:
    """RELIABILITY 74."""
    write(tmp_path, "b.conf", "Include a.conf\n")
    path = write(tmp_path, "a.conf", "Include b.conf\nInclude none.conf\nInclude x-%c\n")
    texts = [str(error) for error in read_conf(path).errors]
    assert len(texts) == 3
    assert texts[0].endswith("b.conf:1: Include: a.conf includes itself")
    assert "a.conf:2: Include: none.conf cannot be read" in texts[1]
    assert "needs ClusterName=" in texts[2]


def test_a_missing_or_binary_file_is_one_error(tmp_path: Path) -> None:
    assert "cannot be read" in str(read_conf(str(tmp_path / "none")).errors[0])
    (tmp_path / "bin").write_bytes(b"A=1\n\xff\xfe=2\n")
    error = read_conf(str(tmp_path / "bin")).errors[0]
    assert (error.line, error.text) == (2, "not UTF-8 text")


def test_the_hash_covers_included_files(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conf", "Include b.conf\n")
    write(tmp_path, "b.conf", "B=1\n")
    first = read_conf(path).text_hash
    assert read_conf(path).text_hash == first
    write(tmp_path, "b.conf", "B=2\n")
    assert read_conf(path).text_hash != first


def test_words_of_a_command_read_alike() -> None:
    assert pairs(parse_words('Feature=f1 Reason="a b"')) == [[("Feature", "f1"), ("Reason", "a b")]]


VALUES = st.text(alphabet="ab1,:/[]-.*()@", min_size=1, max_size=12)


@given(st.lists(st.tuples(st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True), VALUES), min_size=1))
def test_what_is_written_is_read(entries: list[tuple[str, str]]) -> None:
    text = " ".join(f"{key}={value}" for key, value in entries)
    assert pairs(parse_words(text)) == [entries]


@given(st.text(alphabet='aB=1 "\\#\n\t', max_size=60))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    """RELIABILITY 16, 74."""
    conf = parse_text(text)
    assert all(error.line >= 1 for error in conf.errors)


@pytest.mark.parametrize("text", ["Include a\0b\n", "Key=a\0b\n", "\0\n"])
def test_a_nul_is_refused_by_line(text: str) -> None:
    """RELIABILITY 74: no file name holds one, so it must not get as far as the kernel."""
    errors = parse_text("A=1\n" + text, "slurm.conf").errors
    assert [str(error) for error in errors] == ["slurm.conf:2: NUL characters are not allowed"]
