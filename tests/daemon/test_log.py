"""Where a daemon's lines go: file, terminal, syslog, each with a level of its own."""

from __future__ import annotations

import syslog
from pathlib import Path

import pytest

from pyslurm_ng.daemon.log import (
    DEBUG,
    ERROR,
    FATAL,
    INFO,
    QUIET,
    DaemonLog,
    level_number,
    syslog_level,
)


@pytest.mark.parametrize(
    ("word", "has_file", "foreground", "level"),
    [
        ("", True, False, FATAL),
        ("", False, False, INFO),
        ("", True, True, QUIET),
        ("", False, True, QUIET),
        ("error", True, True, ERROR),
        ("quiet", False, False, QUIET),
        ("debug", True, False, DEBUG),
    ],
)
def test_how_much_goes_to_syslog(word: str, has_file: bool, foreground: bool, level: int) -> None:
    """As the manual says of SlurmctldSyslogDebug."""
    assert syslog_level(word, INFO, has_file=has_file, foreground=foreground) == level


def test_a_quiet_daemon_still_says_why_it_ended() -> None:
    """In the background without a log file, syslog is the only place."""
    assert syslog_level("", QUIET, has_file=False, foreground=False) == FATAL


def test_levels_are_apart(tmp_path: Path) -> None:
    """Each place gets what it wants; syslog knows how bad it is."""
    sent: list[tuple[int, str]] = []
    log = DaemonLog("slurmctld", lambda priority, text: sent.append((priority, text)))
    log.stderr_level = QUIET
    path = tmp_path / "log"
    log.open(str(path), INFO)
    log.open_syslog(ERROR)
    log.info("news")
    log.error("trouble")
    log.debug("detail")
    assert [line.partition("] ")[2] for line in path.read_text().splitlines()] == [
        "news",
        "error: trouble",
    ]
    assert sent == [(syslog.LOG_ERR, "error: trouble")]
    assert log.level == INFO


def test_no_user_forges_a_line() -> None:
    """RELIABILITY 70: what users choose stays on its line, in syslog, too."""
    sent: list[str] = []
    log = DaemonLog("slurmctld", lambda _, text: sent.append(text))
    log.stderr_level = QUIET
    log.open_syslog(level_number("info"))
    log.info("job a\nfatal: all is lost")
    assert sent == ["job a\\x0afatal: all is lost"]
