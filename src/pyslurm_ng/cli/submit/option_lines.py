"""The values of options as -v prints them: what they mean, in one form whatever was typed."""

from pyslurm_ng.base import units
from pyslurm_ng.base.numbers import INFINITE, SECOND_US

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState

_WITHOUT_VALUE = {
    "bell": "bell-always", "compress": "lz4", "exclusive": "exclusive", "immediate": "1",
    "kill-command": "TERM", "kill-on-bad-exit": "1", "no-bell": "bell-never", "propagate": "ALL",
    "oversubscribe": "oversubscribe", "resv-ports": "0",
}  # fmt: skip
"""Options that mean this where no value follows them; others are `set`."""
_FILES = ("error", "input", "output")


def verbose_lines(options: "OptionState") -> "list[str]":
    """Return what -v prints: the options in force."""
    ruler = f"{'-' * 20} {'-' * 20}"
    lines = ["defined options", ruler]
    for name in sorted(options.given):
        lines.append(f"{name:<20}: {printed(options, name)}")
    return [*lines, ruler, "end of defined options"]


def printed(options: "OptionState", name: str) -> str:
    """Return the value of an option that was given."""
    value = options.given[name][1]
    request = options.request
    if name == "verbose":
        return str(options.verbose)
    if name == "nice":
        return str(request["nice"])
    if value is None:
        return _WITHOUT_VALUE.get(name, "set")
    if name == "profile":
        return str(request["profile"])
    if name == "cpu-freq":
        return options.settings[name]
    if name in ("time", "time-min"):
        seconds = units.parse_time_limit_s(value)
        return "UNLIMITED" if seconds in (0, INFINITE) else _clock(seconds)
    if name == "mem" or name.startswith("mem-per-"):
        return units.format_mem_mib(units.parse_mem_mib(value))
    if name in ("begin", "deadline"):
        from pyslurm_ng.base.dates import format_date

        return format_date(request[f"{name}_us"] // SECOND_US)
    if name == "mail-type":
        from pyslurm_ng.base.request_words import mail_words

        return ",".join(mail_words(request["mail_type"]))
    if name == "switches" and request["switches_wait_s"] != INFINITE:
        return f"{request.get('switches', 0)}@{_clock(request['switches_wait_s'])}"
    if name == "no-kill" and value in ("off", "no"):
        return "unset"
    return "/dev/null" if name in _FILES and value == "none" else value


def _clock(seconds: int) -> str:
    from pyslurm_ng.cli.listing.list_format import long_time

    return long_time(seconds)
