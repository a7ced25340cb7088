"""Programs for a terminal that show the queue, nodes and GPUs."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from importlib.metadata import version

import pyte

JOB = "watched"
EXPECTED = {
    "turm": ("turm", JOB, "NUMBER"),
    "slurmtop": ("slurmtop", "debug", JOB),
    "stui": ("stui", JOB),
    "slurm-viewer": ("slurm-viewer", "4 nodes", "n1", "mixed"),
    "sltop": ("sltop", "1 / 16", "4 total"),
    "slurmtui": ("slurmtui", "NUMBER", JOB, "Running", "science"),
    "slurmviz": ("slurmviz", "NUMBER", JOB, "n1"),
    "smon-tui": ("smon", "NUMBER", "RUNNING", "100M"),
    "slurm-term": ("slurm-term", "NUMBER", JOB, "RUNNING"),
    "lazyslurm": ("lazyslurm", "NUMBER", JOB, "UNLIMITED"),
}
"""The program of each package, and words that it shows; those asked for are arguments."""


def screen_of(program, *expected):
    """Return what the program shows as soon as all expected words are there."""
    screen = pyte.Screen(160, 40)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(program, [program])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            stream.feed(os.read(terminal, 65536))
        text = "\n".join(screen.display)
        if all(word in text for word in expected):
            break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    assert all(word in text for word in expected), f"{program}:\n{text}"


submitted = subprocess.run(
    ["sbatch", "--parsable", "--mem=100", f"-J{JOB}", "-o/dev/null", "--wrap", "sleep 900"],
    check=True, capture_output=True, text=True,
)  # fmt: skip
number = submitted.stdout.strip()
for name in sys.argv[1:]:
    screen_of(*(number if word == "NUMBER" else word for word in EXPECTED[name]))
subprocess.run(["scancel", number], check=True)
print(*(f"{name} {version(name)}" for name in sys.argv[1:]), "ok")
