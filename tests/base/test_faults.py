"""Faults of one job or message are counted always and logged sparingly."""

from pyslurm_ng.base.faults import LOG_INTERVAL_S, Faults
from pyslurm_ng.daemon.log import ERROR, QUIET, DaemonLog


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _room():
    lines: list[str] = []
    log = DaemonLog("slurmctld", lambda priority, text: lines.append(text))
    log.stderr_level, log.syslog_level = QUIET, ERROR
    clock = _Clock()
    return Faults(log, clock), clock, lines


def test_a_kind_is_logged_once_a_minute_and_counted_always():
    """A user who provokes a fault in a loop cannot fill the log's disk."""
    faults, clock, lines = _room()
    for _ in range(1000):
        faults.note("pass", "JobId=7 is held")
    assert faults.counts == {"pass": 1000}
    assert len(lines) == 1
    clock.now_s += LOG_INTERVAL_S
    faults.note("pass", "JobId=8 is held")
    assert len(lines) == 2
    assert "JobId=8" in lines[1]
    assert "999 more of this kind" in lines[1]


def test_kinds_do_not_silence_each_other():
    """The first fault of another kind is told at once, with where it happened."""
    faults, _, lines = _room()
    faults.note("pass", "JobId=7 is held")
    try:
        raise ValueError("odd" * 1000)
    except ValueError as error:
        faults.note("dbd_row", "job row is set aside", error)
    assert "ValueError: oddodd" in lines[1]
    assert any("test_faults.py" in line for line in lines[2:])
    assert max(map(len, lines)) < 1000
