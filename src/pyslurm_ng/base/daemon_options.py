"""What the command lines of daemons have in common."""

from __future__ import annotations

import getopt


def complaint(error: getopt.GetoptError) -> str:
    """Return the C library's words for what is wrong with an option."""
    is_missing = "requires argument" in error.msg
    if len(error.opt) == 1:
        text = "option requires an argument" if is_missing else "invalid option"
        return f"{text} -- '{error.opt}'"
    return f"unrecognized option '--{error.opt}'" if not is_missing else error.msg
