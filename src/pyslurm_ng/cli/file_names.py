"""The name of the working directory."""

import os


def current_directory() -> str:
    """Return the working directory by the user's name for it; if it was removed, its last name."""
    name = os.environ.get("PWD", "")
    try:
        current = os.stat(".")
        named = os.stat(name) if name.startswith("/") else None
        if named is not None and (named.st_dev, named.st_ino) == (current.st_dev, current.st_ino):
            return name
        return os.getcwd()
    except OSError:
        pass
    try:
        return os.getcwd()
    except OSError:
        return name or "/"
