"""Fuzz targets for a given time: `python -m tests.fuzz.run [--seconds S] [TARGET ...]`.

By coverage with atheris where it is installed; otherwise inputs of the corpus are mutated by
hypothesis' generator without coverage. Each target has a process of its own, so that a crash or
a hang costs that target only. What is found goes to `build/fuzz/TARGET/crash-*`; an input that is
worth keeping is copied into `tests/fuzz/corpus/TARGET` by hand, where `make test` replays it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from random import Random

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = REPOSITORY / "tests" / "fuzz" / "corpus"
FOUND = REPOSITORY / "build" / "fuzz"
LONGEST_INPUT = 4096
SLOWEST_S = 5
"""An input that takes longer counts as a hang; the slowest known takes a few milliseconds."""
INTERESTING = (
    "²".encode(),
    "٣".encode(),
    b"\0",
    b"\xff",
    b"-1",
    b"[",
    b"]",
    b",",
    b"1-9",
    b"%",
    b"=",
    b"9" * 20,
    b"\n",
    b":",
)


def corpus_of(name: str) -> list[bytes]:
    """Return the inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def _by_coverage(name: str, seconds: int, directory: Path) -> None:
    """Run libFuzzer in this process until the time is over; it ends the process."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["pyslurm_ng", "msgpack"]):
        from tests.fuzz import targets
    target = targets.find(name)
    targets.fix_clock()
    inputs = directory / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate((*target.seeds, *corpus_of(name))):
        (inputs / f"seed-{number}").write_bytes(seed)
    words = [
        sys.argv[0],
        str(inputs),
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        f"-timeout={SLOWEST_S}",
        f"-artifact_prefix={directory}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup(words, target.run)
    atheris.Fuzz()


def mutated(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """Return an input near another: bytes changed, cut, repeated, joined."""
    changed = bytearray(data)
    for _ in range(1 + random.randrange(4)):
        at = random.randrange(len(changed) + 1)
        to = min(len(changed), at + random.randrange(1, 9))
        way = random.randrange(5)
        if way == 0:
            changed[at:to] = random.randbytes(to - at)
        elif way == 1:
            del changed[at:to]
        elif way == 2:
            changed[at:at] = changed[at:to] * random.randrange(1, 20)
        elif way == 3:
            changed[at:at] = random.choice(INTERESTING)
        else:
            changed[at:] = random.choice(others)[at:]
    return bytes(changed[:LONGEST_INPUT])


def _by_chance(name: str, seconds: int, directory: Path) -> None:
    from tests.fuzz import targets

    target = targets.find(name)
    targets.fix_clock()
    random = Random(time.time_ns())
    inputs = [*target.seeds, *corpus_of(name)] or [b""]
    end_s = time.monotonic() + seconds
    runs = 0
    while time.monotonic() < end_s:
        data = mutated(random, random.choice(inputs), inputs)
        runs += 1
        begun_s = time.process_time()
        try:
            target.run(data)
            if time.process_time() - begun_s > SLOWEST_S:
                raise AssertionError(f"took longer than {SLOWEST_S} s")
        except BaseException:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"crash-{runs}").write_bytes(data)
            raise
    print(f"stat::number_of_executed_units: {runs}")


def _fuzz_one(name: str, seconds: int) -> None:
    directory = FOUND / name
    directory.mkdir(parents=True, exist_ok=True)
    if find_spec("atheris"):
        _by_coverage(name, seconds, directory)
    else:
        _by_chance(name, seconds, directory)


def main() -> int:
    """Fuzz each target in its own process; return 1 when anything was found."""
    parser = argparse.ArgumentParser(description="Fuzz decoders and parsers.")
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    arguments = parser.parse_args()
    if arguments.one:
        _fuzz_one(arguments.targets[0], arguments.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    names = arguments.targets or [target.name for target in TARGETS]
    seconds = max(1, arguments.seconds // len(names))
    print(f"{len(names)} targets, {seconds} s each, "
          f"{'by coverage (atheris)' if find_spec('atheris') else 'by chance'}")  # fmt: skip
    failed = []
    for name in names:
        words = [sys.executable, "-m", "tests.fuzz.run", "--one", "--seconds", str(seconds), name]
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"}
        done = subprocess.run(
            words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        runs = [line.split(":")[-1].strip() for line in said.splitlines()
                if line.startswith("stat::number_of_executed_units")]  # fmt: skip
        print(f"{name:18} {runs[0] if runs else '?':>10} inputs  "
              f"{'ok' if done.returncode == 0 else 'FOUND'}", flush=True)  # fmt: skip
        if done.returncode:
            failed.append(name)
            print("\n".join("    " + line for line in said.splitlines()[-25:]))
    if failed:
        print(f"findings: {' '.join(failed)}; the inputs are in {FOUND.relative_to(REPOSITORY)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
