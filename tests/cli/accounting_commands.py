"""sacct and sacctmgr in this process, against a slurmdbd in this process."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dbd.accounting_room import utc

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli"


@dataclass(frozen=True)
class Printed:
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    code: int


@dataclass(frozen=True)
class Recorded:
    """A recorded output of real Slurm."""

    user: str
    words: list[str]
    printed: Printed


def recorded(name: str) -> Recorded:
    """Return the recording in `tests/golden/cli/NAME.txt`."""
    text = (GOLDEN / f"{name}.txt").read_text()
    head, rest = text.split("\n----- stdout\n", 1)
    stdout, rest = ("\n" + rest).split("\n----- stderr\n", 1)
    stderr, code = ("\n" + rest).rsplit("\n----- exit ", 1)
    user, _, line = head.partition("$ ")
    return Recorded(
        user.strip("[").partition("@")[0],
        shlex.split(line),
        Printed(_block(stdout), _block(stderr), int(code)),
    )


def _block(text: str) -> str:
    body = text.removeprefix("\n")
    return body + "\n" if body and not body.endswith("\n") else body


class Commands:
    """Runs commands and returns what they printed."""

    def __init__(
        self, conf_path: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
    ) -> None:
        patch.setenv("SLURM_CONF", str(conf_path))
        for name in ("SACCT_FORMAT", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS"):
            patch.delenv(name, raising=False)
        utc(patch)
        self._capture = capture

    def run(self, *words: str) -> Printed:
        """Run a command as the user of this process."""
        self._capture.readouterr()
        code = _main(words)
        out, err = self._capture.readouterr()
        return Printed(out, err, code)

    def run_as(self, uid: int, *words: str) -> Printed:
        """Run a command in a child with another uid; needs root."""
        self._capture.readouterr()
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.setgid(uid)
                os.setuid(uid)
                code = _main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out, err = self._capture.readouterr()
        return Printed(out, err, os.waitstatus_to_exitcode(status))


def _main(words: tuple[str, ...]) -> int:
    module = importlib.import_module(f"pyslurm_ng.cli.{words[0].replace('-', '_')}")
    try:
        return int(module.main(list(words[1:])))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
