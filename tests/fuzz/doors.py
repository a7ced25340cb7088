"""Send odd messages to a socket of a cluster: `python -m tests.fuzz.doors KIND ADDRESS SECONDS`.

KIND is `unix` (a path: the kernel vouches for this process's user), `tcp` (host:port, as a stranger
without a credential), `zmq` (host:port, a stranger, too), `http` (host:port of slurmrestd, as a
stranger), `token` (the same, with a token of this process's user) or `srun` (ADDRESS is a command
line whose frames to the supervisors are spoilt). Runs as an ordinary user; prints how much was
sent.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import warnings
from random import Random

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from pyslurm_ng.web.operations import Operation, operations
from pyslurm_ng.wire import frame
from tests.fuzz import messages
from tests.fuzz.run import mutated
from tests.web.any_requests import any_request

DRAWN = 12
"""Bodies of each kind that are drawn before the sending begins."""
AT_ONCE = 20
QUIET_S = 0.2


def pool_of(kind: str) -> list[bytes]:
    """Return bodies of a kind: valid ones, and ones just beyond a bound."""
    drawn = [messages.packed(message.body) for message in messages.beyond(kind)]

    @settings(
        max_examples=DRAWN,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        drawn.append(messages.packed(data.draw(messages.bodies(kind))))

    draw()
    return [body for body in drawn if len(body) < 1 << 20]


def frames(random: Random, pools: dict[str, list[bytes]]) -> bytes:
    """Return some frames, of which about half are as they should be."""
    sent = []
    for _ in range(random.randrange(1, AT_ONCE)):
        kind = random.choice(list(pools))
        body = random.choice(pools[kind])
        if random.random() < 0.5 and len(body) < 1 << 16:
            body = mutated(random, body, pools[kind])
        credential = b"" if random.random() < 0.5 else random.randbytes(random.randrange(200))
        whole = frame.pack_frame(kind, random.getrandbits(32), body, 0, credential)
        if random.random() < 0.2 and len(whole) < 1 << 16:
            whole = mutated(random, whole, [whole])
        sent.append(whole)
    return b"".join(sent)


def connect(kind: str, address: str) -> socket.socket:
    """Return a connection to a stream server."""
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(address)
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 5)


def all_pools() -> dict[str, list[bytes]]:
    """Return messages of every kind to choose from; it takes seconds, and minutes under load."""
    return {kind: pool_of(kind) for kind in messages.requests()}


def to_stream(kind: str, address: str, seconds: float, random: Random) -> int:
    """Send frames over one connection after another; return how many bytes went out."""
    pools = all_pools()
    end_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end_s:
        try:
            with connect(kind, address) as connection:
                for _ in range(random.randrange(1, 5)):
                    data = frames(random, pools)
                    connection.sendall(data)
                    count += len(data)
                    connection.settimeout(QUIET_S)
                    while connection.recv(1 << 20):
                        pass
        except OSError:
            continue  # the daemon closed the connection, as it should
    return count


def to_zmq(address: str, seconds: float, random: Random) -> int:
    """Send messages of one and of several parts to the daemons' port."""
    import zmq

    pools = all_pools()
    end_s = time.monotonic() + seconds
    context = zmq.Context()
    count = 0
    while time.monotonic() < end_s:
        dealer = context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDTIMEO, 1000)
        dealer.setsockopt(zmq.IDENTITY, random.choice([b"node:n1", b"x", random.randbytes(8)]))
        dealer.connect(f"tcp://{address}")
        try:
            for _ in range(random.randrange(1, 50)):
                data = frames(random, pools)[: random.randrange(1, 1 << 16)]
                parts = [data[at : at + 4096] for at in range(0, len(data), 4096)]
                if random.random() < 0.3:
                    dealer.send_multipart(parts)
                else:
                    dealer.send(data)
                count += len(data)
        except zmq.ZMQError:
            pass
        dealer.close()
    context.term()
    return count


def http_request(random: Random, rows: list[Operation], token: str) -> bytes:
    """Return a request of slurmrestd's form with any values; of some, bytes are changed."""
    operation = random.choice(rows)
    path, body = any_request(random, operation)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{operation.method.upper()} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if token and random.random() < 0.8:
        head += f"X-SLURM-USER-TOKEN: {token}\r\n"
    if data:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    whole = (head + "\r\n").encode() + data
    if random.random() < 0.3 and len(whole) < 1 << 16:
        whole = mutated(random, whole, [whole])
    return whole


def to_rest(address: str, seconds: float, random: Random, token: str) -> int:
    """Send requests to slurmrestd; return how many bytes went out."""
    rows = list(operations().values())
    end_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end_s:
        try:
            with connect("tcp", address) as connection:
                for _ in range(random.randrange(1, 5)):
                    data = http_request(random, rows, token)
                    connection.sendall(data)
                    count += len(data)
                    connection.settimeout(QUIET_S)
                    while connection.recv(1 << 20):
                        pass
        except OSError:
            continue  # closed or silent, as it may be
    return count


def own_token() -> str:
    """Return a token of this process's user."""
    done = subprocess.run(
        ["scontrol", "token", "lifespan=86400"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().partition("=")[2]


SPOILT = """
import random, sys
from pyslurm_ng.wire import step_io
whole = step_io.pack
def pack(kind, task=step_io.ALL, body=b""):
    good = whole(kind, task, body)
    if random.random() < 0.3:
        return good
    if random.random() < 0.7:
        kind = random.randrange(1, 16)
    odd = whole(kind, random.choice([0, 1, task, 2**31 - 1]), random.randbytes(random.randrange(9)))
    if random.random() < 0.2:
        at = random.randrange(len(odd))
        odd = odd[:at] + random.randbytes(1) + odd[at + 1:]
    return random.choice([odd, odd + good, good + odd, good[: len(good) // 2]])
step_io.pack = pack
from pyslurm_ng.cli import srun
sys.exit(srun.main(sys.argv[1:]))
"""


def to_supervisors(line: str, seconds: float, random: Random) -> int:
    """Run srun again and again with spoilt frames; return how many steps were tried."""
    end_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end_s:
        child = subprocess.Popen(
            [sys.executable, "-c", SPOILT, *line.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        count += 1
        try:
            child.communicate(os.urandom(random.randrange(1, 1 << 18)), timeout=3)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
    return count


def main() -> int:
    """Send until the time is over."""
    warnings.simplefilter("ignore")
    kind, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    random = Random(os.getpid())
    if kind == "zmq":
        count = to_zmq(address, seconds, random)
    elif kind in ("http", "token"):
        count = to_rest(address, seconds, random, own_token() if kind == "token" else "")
    elif kind == "srun":
        count = to_supervisors(address, seconds, random)
    else:
        count = to_stream(kind, address, seconds, random)
    print(count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
