"""What --x11 takes, and where it is allowed."""

from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyslurm_ng.cli.submit.option_state import OptionState

NO_X11 = "X11 forwarding not available"
X11_VARIABLE = "SLURM_JOB_X11"
"""Tells the steps of `salloc --x11` on which nodes they forward X11."""
_WORDS = ("all", "batch", "first", "last")


def read(options: "OptionState", name: str, value: "str | None") -> None:
    """Read --x11: all nodes, the first (the batch host is that) or the last.

    Raises:
        OptionError: another word, or no X server that clients could be forwarded to.
    """
    word = (value or "all").lower()
    if word not in _WORDS:
        raise OptionError(f"Invalid --x11 specification: {value}", 1)
    from os import environ

    display = environ.get("DISPLAY", "")
    if not display:
        raise OptionError("No DISPLAY variable set, cannot setup x11 forwarding.", 255)
    if ":" not in display:
        raise OptionError(
            "Error parsing DISPLAY environment variable. Cannot use X11 forwarding.", 255
        )
    options.settings[name] = word


def allows_x11(conf: "Mapping[str, str]") -> bool:
    """Return whether PrologFlags has X11."""
    words = conf.get("PrologFlags", "").lower().split(",")
    return "x11" in [word.strip() for word in words]
