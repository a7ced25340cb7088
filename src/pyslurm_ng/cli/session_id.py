"""The session that a command was called from, which a command server is not in."""

import os

session = 0
"""The session of the launcher whose command this process runs; 0 where it is our own."""


def session_id() -> int:
    """Return the session from which the command was called."""
    return session or os.getsid(0)
