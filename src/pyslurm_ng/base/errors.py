"""What a rule refuses with, and the tree of raised errors; Slurm's numbers and texts with them.

Three kinds are kept apart. A `Reject` is a value that a rule returns and a user reads. An error of
the tree below is raised at an edge (peer gone, disk full, file broken) and handled one level up. A
bug is an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.error_texts import TEXTS, error_text

__all__ = [
    "TEXTS",
    "ConfigurationError",
    "Errno",
    "Reject",
    "RequestError",
    "SlurmError",
    "StorageError",
    "WireError",
    "error_text",
]


@dataclass(frozen=True, slots=True)
class Reject:
    """Why a request is refused: the number decides the text a command prints.

    `detail` holds further lines that a command prints before it, each as its own ``error:`` line
    (``CPU count per node can not be satisfied``); it never replaces the text.
    """

    code: int
    detail: str = ""

    @property
    def text(self) -> str:
        """Slurm's text for the number."""
        return error_text(self.code)

    def __str__(self) -> str:
        return f"{self.detail}: {self.text}" if self.detail else self.text


class SlurmError(Exception):
    """Base class of what our code raises on purpose; its text is one line for a user."""


class WireError(SlurmError):
    """A peer could not be reached, went away, or spoke nonsense."""


class StorageError(SlurmError):
    """A file or database that must be written or read could not be."""


class ConfigurationError(SlurmError):
    """A configuration that must not be used; the text may have several lines."""


class RequestError(SlurmError):
    """A daemon refused a request; `code` is Slurm's number."""

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(str(Reject(code, detail)))
        self.code = code
        self.detail = detail
