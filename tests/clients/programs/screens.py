"""Programs for a terminal that show queue and nodes: turm, stui, slurmtop, slurm-viewer."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from importlib.metadata import version

import pyte

JOB = "watched"


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
    ["sbatch", "--parsable", f"--job-name={JOB}", "-o", "/dev/null", "--wrap", "sleep 600"],
    check=True, capture_output=True, text=True,
)  # fmt: skip
number = submitted.stdout.strip()
screen_of("turm", JOB, number)
screen_of("slurmtop", "debug", JOB)
screen_of("stui", JOB)
screen_of("slurm-viewer", "4 nodes", "n1", "mixed")
subprocess.run(["scancel", number], check=True)
print(*(f"{name} {version(name)}" for name in ("turm", "slurmtop", "stui", "slurm-viewer")), "ok")
