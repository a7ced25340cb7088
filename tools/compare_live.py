"""Runs the same command lines on two clusters, ours and another, and shows where they differ.

    tools/compare_live.py --ours ENV --peer ENV [--user NAME] [--known FILE] CASES

CASES has one case a line, for bash; `-` is stdin. A case may have several commands, so it can
submit a job and look at it. ENV is a file for bash that sets PATH and SLURM_CONF. Each side has a
working directory of its own. Moments, process ids and numbers of new jobs are made alike first:
the jobs that a case submits are J1, J2, ... A line of --known is `REGEX<tab>REASON`: a case whose
differing lines all match one is explained. Exit status 1 where a difference is left.
"""

from __future__ import annotations

import argparse
import difflib
import os
import pwd
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIMEOUT_S = 60
MOMENTS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?", "MOMENT"),
    (r"\b\d\d/\d\d-\d\d:\d\d(:\d\d)?", "MOMENT"),
    (r"\b(Run|SuspendTime|Elapsed|Sec)([A-Za-z]*)=\d[\d:.-]*", r"\1\2=SPAN"),
    (r"\b(PID|pid|Pid)([= ])\d+", r"\1\2PID"),
    (r"[ \t]+$", ""),
)
JOB = re.compile(
    r"(?:Submitted batch job|Granted job allocation|srun: job|salloc: job|JobId=|jobid )\s*(\d+)"
)


def clean(text: str, folder: str, jobs: dict[str, str]) -> str:
    """Return the text without what differs between two runs of one program."""
    text = text.replace(folder, "DIR")
    for number in JOB.findall(text):
        jobs.setdefault(number, f"J{len(jobs) + 1}")
    for number, name in jobs.items():
        text = re.sub(rf"(?<![\d.:-]){number}(?![\d:-])", name, text)
    for pattern, word in MOMENTS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def run(case: str, env: Path, user: str | None, folder: Path) -> list[str]:
    """Run a case on one side and return the lines of its two outputs and its exit status."""
    script = f". {env} >/dev/null; unset OLDPWD; {case}"
    words = ["bash", "-c", script]
    if user:
        words = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}",
                 "--init-groups", *words]  # fmt: skip
    home = pwd.getpwnam(user).pw_dir if user else "/root"
    variables = {"PATH": "/usr/bin:/bin", "HOME": home, "USER": user or "root", "LANG": "C.UTF-8",
                 "SHELL": "/bin/bash"}  # fmt: skip
    jobs: dict[str, str] = {}
    try:
        done = subprocess.run(
            words, env=variables, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S, errors="replace", encoding="utf-8",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"timeout after {TIMEOUT_S} s"]
    out, err = (clean(text, str(folder), jobs) for text in (done.stdout, done.stderr))
    lines = [f"out: {line}" for line in out.splitlines()]
    lines += [f"err: {line}" for line in err.splitlines()]
    return [*lines, f"status: {done.returncode}"]


def differing(ours: list[str], peer: list[str]) -> list[str]:
    """Return the lines that only one side has, marked as those of a diff from the peer to ours."""
    lines = difflib.unified_diff(peer, ours, "peer", "ours", n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--user")
    parser.add_argument("--known", type=Path)
    parser.add_argument("cases", type=argparse.FileType())
    options = parser.parse_args()
    known = [
        re.compile(line.split("\t")[0])
        for line in (options.known.read_text().splitlines() if options.known else ())
        if line
    ]
    cases = [line.strip() for line in options.cases if line.strip() and line[0] != "#"]
    unexplained = equal = 0
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(2) as pool:
        folders = [Path(top) / "ours", Path(top) / "peer"]
        Path(top).chmod(0o755)
        for folder in folders:
            folder.mkdir()
            if options.user:
                os.chown(folder, pwd.getpwnam(options.user).pw_uid, -1)
        for case in cases:
            envs = (options.ours.resolve(), options.peer.resolve())
            ours, peer = pool.map(
                run, [case] * 2, envs, [options.user] * 2, folders
            )  # both at once: what they start should begin in one moment
            lines = differing(ours, peer)
            if not lines:
                equal += 1
            elif not all(any(rule.search(line) for rule in known) for line in lines):
                unexplained += 1
                print(f"$ {case}", *lines, "", sep="\n", flush=True)
    explained = len(cases) - equal - unexplained
    print(f"{len(cases)} cases: {equal} equal, {explained} explained, {unexplained} left")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
