"""Signals that end what a command waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os
from pyslurm_ng.cli.signals import Interrupted, Signals

def send():
    os.kill(os.getpid(), 15)

signals = Signals()
look = signals.look
def look_late():
    if {is_late}:
        send()
    return look()
signals.look = look_late
try:
    with signals.breaking():
        try:
            send()
        finally:
            send()
except Interrupted as problem:
    print(problem)
send()
print(signals.take())
"""


@pytest.mark.parametrize("is_late", [False, True], ids=["inside", "while it begins"])
def test_only_the_first_signal_raises(is_late: bool) -> None:
    """One that came while the context began left handlers that raised anywhere later."""
    program = PROGRAM.format(is_late=is_late)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    count = 2 if is_late else 3
    assert (ran.stdout, ran.stderr) == (f"ended by signal 15\n{[15] * count}\n", "")
