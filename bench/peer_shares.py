"""What Slurm's sshare says of random trees of associations, for tests/golden/fair_share.

    bash bench/peer.sh up /tmp/peer
    python bench/peer_shares.py --peer /tmp/peer --seeds 1-50 [--algorithm classic] >recording.txt

Each tree is a cluster of its own at the slurmdbd there, loaded with `sacctmgr load`. A slurmctld is
started for each, on a state directory in which the usage is stored already, so that no job has to
run: whole billing-seconds, which last, since PriorityDecayHalfLife is 0. All wait together until
PriorityCalcPeriod has passed, which Slurm's factors take.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FACTORS_S = 70  # PriorityCalcPeriod is a minute
PORT = 27000
VERSION = bytes.fromhex("2600")  # of what slurmctld 22.05 stores
PARENT = "parent"
ALGORITHMS: dict[str, list[str]] = {
    "fair_tree": [],
    "classic": ["PriorityFlags=NO_FAIR_TREE"],
    "depth_oblivious": ["PriorityFlags=NO_FAIR_TREE,DEPTH_OBLIVIOUS"],
}
RULES = [
    "PriorityType=priority/multifactor",
    "PriorityDecayHalfLife=0",
    "PriorityUsageResetPeriod=YEARLY",
    "PriorityCalcPeriod=1",
    "PartitionName=p2 Nodes=ALL",
]
SHARES: list[list[int | str]] = [
    [1],
    [1, 2, 4],
    [0, 1, 2, PARENT],
    [1, 2, 3, 5, 7, 11, 50, 100],
    [1, 1, 1, 1, 1, PARENT],
]
USAGE: list[list[int] | str] = [
    [0],
    [0, 600],
    [0, 0, 8, 16, 32],
    [1000],
    "as shares",
    "as shares",
    "random",
]


Key = tuple[str, str, str]
"""Account, user and partition of an association."""


@dataclass(frozen=True)
class Row:
    """An account, or a user's association; an account has no user."""

    parent: str
    account: str
    user: str
    partition: str
    shares: int | str
    used_s: int


def random_tree(seed: int) -> list[Row]:
    """Return associations up to six levels deep, of which many are equal."""
    rng = random.Random(seed)
    shares, usage = rng.choice(SHARES), rng.choice(USAGE)
    depth = rng.randint(1, 6)
    names = [f"a{number:02d}" for number in range(rng.randint(1, 14))]
    users = [f"u{number}" for number in range(1, rng.randint(2, 12))]
    rng.shuffle(names)
    rng.shuffle(users)
    depths, rows = {"root": 0}, []
    for name in names:
        parent = rng.choice([above for above, at in depths.items() if at < depth])
        depths[name] = depths[parent] + 1
        rows.append(Row(parent, name, "", "", rng.choice(shares), 0))
    for name in names:
        if rng.random() < 0.15:
            continue  # an account without users
        for user in rng.sample(users, min(len(users), rng.choice([1, 2, 3, 5]))):
            for partition in ["", "p2"] if rng.random() < 0.1 else [""]:
                own = rng.choice(shares)
                used_s = _used_s(rng, own if isinstance(own, int) else 1, usage)
                rows.append(Row(name, name, user, partition, own, used_s))
    return rows


def _used_s(rng: random.Random, shares: int, usage: str | list[int]) -> int:
    if isinstance(usage, list):
        return rng.choice(usage)
    if usage == "as shares":
        return rng.choice([0, shares * 100, shares * 100, shares * 50])
    return rng.randint(0, 10 ** rng.randint(1, 9))


def flat_file(cluster: str, rows: list[Row]) -> str:
    """Return a tree as `sacctmgr load` reads it."""
    lines = [f"Cluster - '{cluster}':Fairshare=1:QOS='normal'"]
    parents = ["root"]
    for parent in parents:
        lines.append(f"Parent - '{parent}'")
        for row in rows:
            if row.parent != parent:
                continue
            if row.user:
                of_partition = f":Partition='{row.partition}'" if row.partition else ""
                words = f"User - '{row.user}'{of_partition}:DefaultAccount='{row.account}'"
            else:
                words = f"Account - '{row.account}':Description='x':Organization='x'"
                parents.append(row.account)
            lines.append(f"{words}:Fairshare={row.shares}")
    return "\n".join(lines) + "\n"


def stored_usage(ids: Mapping[Key, int], rows: list[Row], now_s: int) -> bytes:
    """Return `assoc_usage` as slurmctld stores it: of each user's association a packed record."""
    blob = VERSION + struct.pack(">Q", now_s)
    for row in rows:
        if row.user:
            text = f"{row.used_s:.6f}".encode() + b"\0"
            blob += struct.pack(">II", ids[row.account, row.user, row.partition], len(text)) + text
            blob += struct.pack(">II", 0, row.used_s)  # no usage by TRES; wall time
    return blob


class Peer:
    """Slurm as bench/peer.sh has started it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.conf = (directory / "slurm.conf").read_text().splitlines()
        own = (line.split("=", 1) for line in (directory / "env").read_text().splitlines())
        self.environment = {**os.environ, **dict(own)}

    def run(self, *words: str, conf: Path | None = None) -> str:
        """Return what a command of Slurm's prints."""
        environment = dict(self.environment)
        if conf:
            environment["SLURM_CONF"] = str(conf)
        command = [str(self.root / "usr/bin" / words[0]), *words[1:]]
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, timeout=120, check=False,
        ).stdout  # fmt: skip


class Tree:
    """A cluster with one tree, and its slurmctld."""

    def __init__(self, peer: Peer, name: str, rows: list[Row]) -> None:
        self._peer, self._name, self._rows = peer, name, rows
        self._directory = peer.directory / "trees" / name
        self._conf = self._directory / "slurm.conf"
        self._pid_file = self._directory / "slurmctld.pid"
        self._places: dict[Key, int] = {}

    def load(self, rules: list[str], port: int) -> None:
        """Load the associations into slurmdbd, and put usage and configuration down."""
        directory, run = self._directory, self._peer.run
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "state").mkdir(parents=True)
        (directory / "load").write_text(flat_file(self._name, self._rows))
        run("sacctmgr", "-i", "add", "cluster", self._name)
        run("sacctmgr", "-i", "load", f"file={directory / 'load'}")
        fields = "format=id,account,user,partition,lft"
        lines = run("sacctmgr", "-nP", "show", "assoc", f"cluster={self._name}", fields)
        ids = {}
        for number, account, user, partition, position in map(split, lines.splitlines()):
            ids[account, user, partition] = int(number)
            self._places[account, user, partition] = int(position)
        now_s = int(time.time())
        state = directory / "state"
        (state / "assoc_usage").write_bytes(stored_usage(ids, self._rows, now_s))
        (state / "priority_last_decay_ran").write_bytes(struct.pack(">QQ", now_s, now_s))
        own = {
            "ClusterName": self._name,
            "SlurmctldPort": port,
            "StateSaveLocation": state,
            "SlurmctldPidFile": self._pid_file,
            "SlurmctldLogFile": directory / "slurmctld.log",
        }
        replaced = {*own, *(rule.partition("=")[0] for rule in rules)} - {"PartitionName"}
        kept = [line for line in self._peer.conf if line.partition("=")[0] not in replaced]
        lines_of_own = [f"{key}={value}" for key, value in own.items()]
        self._conf.write_text("\n".join([*kept, *rules, *lines_of_own, ""]))

    @contextlib.contextmanager
    def controller(self) -> Iterator[None]:
        """Have the tree's slurmctld run."""
        overlay = 'mount -t overlay overlay -o lowerdir="$0/usr:/usr" /usr || exit 1'
        start = f"{overlay}; exec slurmctld -f {self._conf}"
        subprocess.run(
            ["unshare", "-m", "sh", "-c", start, str(self._peer.root)],
            env={**self._peer.environment, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
            cwd=self._directory, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True,
        )  # fmt: skip
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(self._pid_file.read_text()), signal.SIGTERM)

    def shown(self) -> str:
        """Return what sshare prints, without the columns of TRES.

        Lines are in the order of the database, which is a walk through the tree, too: in this order
        Slurm ranks accounts that are equal.
        """
        lines = self._peer.run("sshare", "-a", "-l", "-P", "-m", conf=self._conf).splitlines()
        rows = sorted(lines[1:], key=lambda line: self._places[key_of(line)])
        return "\n".join(line.rsplit("|", 2)[0] for line in [*lines[:1], *rows])


def split(line: str) -> list[str]:
    """Return the fields of a line."""
    return line.split("|")


def key_of(line: str) -> Key:
    """Return whose line of sshare it is."""
    account, user, partition = split(line.strip())[:3]
    return account, user, partition


def main() -> None:
    """Load the trees, wait, and print what sshare says."""
    words = argparse.ArgumentParser()
    words.add_argument("--peer", type=Path, required=True)
    words.add_argument("--seeds", default="1-50")
    words.add_argument("--algorithm", choices=ALGORITHMS, default="fair_tree")
    words.add_argument("--dampening", type=int, default=1)
    options = words.parse_args()
    first, _, last = options.seeds.partition("-")
    rules = [
        *RULES,
        *ALGORITHMS[options.algorithm],
        f"FairShareDampeningFactor={options.dampening}",
    ]
    peer = Peer(options.peer.resolve())
    with contextlib.ExitStack() as running:
        trees = []
        for seed in range(int(first), int(last or first) + 1):
            name = f"t{seed}{options.algorithm[0]}{options.dampening}"
            trees.append(Tree(peer, name, random_tree(seed)))
            trees[-1].load(rules, PORT + len(trees))
            running.enter_context(trees[-1].controller())
            print(f"{name} is loaded", file=sys.stderr, flush=True)
        time.sleep(FACTORS_S)
        print("\n\n".join(tree.shown() for tree in trees))


if __name__ == "__main__":
    main()
