"""Keys of the kernel: programs of different users have none of a daemon's session in common."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.daemons.faults import AS_OTHERS

pytestmark = AS_OTHERS
KEYS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def keyctl(*words): return libc.syscall(250, *words)
def add(name, ring): return libc.syscall(248, b"user", name, b"secret", 6, ring)
def found(name): return keyctl(10, -3, b"user", name, 0) > 0
"""
PROGRAM = (
    KEYS
    + """
print(found(b"of-the-daemon"), found(b"of-another"), add(b"of-another", -3) > 0)
print(add(b"of-the-user", -4) > 0 and found(b"of-the-user"))
"""
)
DAEMON = (
    KEYS
    + """
import sys
from pyslurm_ng.kernels.process import spawn
if keyctl(1, None) < 0:
    print("no keys")
    sys.exit()
add(b"of-the-daemon", -3)
for uid in (65534, 1):
    words = [os.fsencode(sys.executable), b"-I", b"-c", sys.argv[1].encode()]
    pid = spawn(words[:1], words, [], stdin=0, stdout=1, stderr=2, uid=uid, gid=uid, groups=[])
    os.waitpid(pid, 0)
print(found(b"of-the-daemon"), found(b"of-another"))
"""
)


def test_programs_have_a_session_of_their_own() -> None:
    """They find neither the daemon's keys nor those of each other, but their user's."""
    words = [sys.executable, "-c", DAEMON, PROGRAM]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    if done.stdout == "no keys\n":
        pytest.skip("the kernel has no keys here")
    assert done.stdout.splitlines() == ["False False True", "True"] * 2 + ["True False"]


FULL = (
    KEYS
    + """
import sys
from pyslurm_ng.kernels.process import spawn
def fill():
    if keyctl(1, None) < 0:
        print("no keys")
        sys.exit()
    count = 0
    while add(b"%d" % count, -3) > 0:
        count += 1
# A root whose quota is a user's: its users 0 and 1 are two outside whom no other test has.
me, (ready, tell), (mapped, go) = os.getpid(), os.pipe(), os.pipe()
if not os.fork():
    os.read(ready, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{me}/{name}", "w") as file:
            file.write(f"0 {1_000_000 + 2 * me} 2")
    os.write(go, b"x")
    os._exit(0)
if libc.unshare(0x10000000):
    print("no namespaces")
    sys.exit()
os.write(tell, b"x")
os.read(mapped, 1)
os.setgroups([])
os.setresgid(0, 0, 0)
os.setresuid(0, 0, 0)
fill()
if sys.argv[2] == "both":
    (done, told), (ended, end) = os.pipe(), os.pipe()
    if not os.fork():
        os.close(end)
        os.setresuid(1, 1, 1)
        fill()
        os.write(told, b"x")
        os.read(ended, 1)
        os._exit(0)
    os.read(done, 1)
words = [os.fsencode(sys.executable), b"-I", b"-c", sys.argv[1].encode()]
try:
    pid = spawn(words[:1], words, [], stdin=0, stdout=1, stderr=2, uid=1, gid=1, groups=[])
    os.waitpid(pid, 0)
except OSError as error:
    print(error.filename, error.strerror)
"""
)


@pytest.mark.parametrize(
    ("whose", "said"),
    [("daemon", ["False False True", "True"]), ("both", ["keyring Disk quota exceeded"])],
)
def test_a_full_quota_shares_no_session(whose: str, said: list[str]) -> None:
    """The user's own quota counts then. A program without a session of its own does not begin."""
    words = [sys.executable, "-c", FULL, PROGRAM.replace("of-the-daemon", "1"), whose]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    if done.stdout in ("no keys\n", "no namespaces\n"):
        pytest.skip(f"there are {done.stdout.strip()} here")
    assert done.stdout.splitlines() == said
