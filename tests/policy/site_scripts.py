"""Eighteen job_submit.lua and three cli_filter.lua in the style of real sites, under Slurm 22.05.

`scripts/NAME.lua` is a job_submit.lua, `filters/NAME.lua` a cli_filter.lua, `NAME.txt` what is
submitted under it, line by line: `submit` with options of sbatch, `srun` and `salloc` as they are,
or `modify` with settings for the job submitted last. `NAME.json` is what Slurm answered. To record
it again, with the environment of `bench/peer.sh up` and that peer configured as below, with
ACCOUNTS, QOS and RESERVATION (a script is loaded when its file changes):

    python3 -m tests.policy.site_scripts PEER_DIRECTORY
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
NAMES = sorted(f"scripts/{path.stem}" for path in _FOLDER.glob("scripts/*.lua"))
FILTERS = sorted(f"filters/{path.stem}" for path in _FOLDER.glob("filters/*.lua"))
EMPTY = "function slurm_job_submit() return 0 end\nfunction slurm_job_modify() return 0 end\n"
EMPTY_FILTER = "".join(
    f"function slurm_cli_{name}() return 0 end\n"
    for name in ("setup_defaults", "pre_submit", "post_submit")
)
ACCOUNTS = ("acc1", "acc2")
QOS = ("high", "low")
CONF = """\
Licenses=lic:10
CliFilterPlugins=cli_filter/lua
AccountingStorageEnforce=associations,qos
PartitionName=normal Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n[1-2] MaxTime=60 DefaultTime=10 State=UP PriorityTier=5
PartitionName=long Nodes=n[3-4] MaxTime=7-0 State=UP MaxNodes=2
PartitionName=gpu Nodes=ALL MaxTime=1-0 State=UP AllowQos=normal,high
"""
"""Over nodes n[1-4] (of the peer p[1-4]) of 8 CPUs, 8192 MiB, Gres=gpu:4 and Feature=fast."""
RESERVATION = "reservationname=course users=root starttime=now+300days duration=30-0 nodes=n4"
_KEYS = (
    "JobName Account QOS Priority Nice Requeue TimeLimit TimeMin Partition NumTasks CPUs/Task "
    "MinMemoryNode MinMemoryCPU MinTmpDiskNode Features Licenses WorkDir Comment AdminComment "
    "TresPerNode TresPerJob TresPerTask ReqNodeList ExcNodeList MailUser MailType StdOut "
    "Contiguous NtasksPerN:B:S:C ArrayTaskThrottle Dependency Reservation"
).split()
_LONG = ("Comment", "AdminComment")  # values with blanks, each on a line of its own
_MARK = re.compile(r"(?:^|\s)(" + "|".join(map(re.escape, _KEYS)) + r")=")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def script(name: str) -> str:
    """Return the text of a script."""
    return (_FOLDER / f"{name}.lua").read_text()


def lines(name: str) -> list[str]:
    """Return what is submitted and modified under a script."""
    return (_FOLDER / f"{name}.txt").read_text().splitlines()


def recorded(name: str) -> list[dict[str, Any]]:
    """Return what Slurm 22.05 answered to each line."""
    results: list[dict[str, Any]] = json.loads((_FOLDER / f"{name}.json").read_text())
    return results


def play(name: str, run: Run) -> Iterator[dict[str, Any]]:
    """Submit and modify line by line; yield what came of each."""
    job_id = ""
    for line in lines(name):
        verb, *words = shlex.split(line)
        if verb in ("srun", "salloc"):
            done, is_known = run(verb, *words), False
        elif verb == "submit":
            options = (
                words
                if any(word.startswith("--wrap") for word in words)
                else ["--wrap=true", *words]
            )
            done = run("sbatch", "-H", "-D", "/tmp", *options)
            ids = re.findall(r"Submitted batch job (\d+)", done.stdout)
            job_id = ids[0] if ids else job_id
            is_known = bool(ids)
        else:
            done = run("scontrol", "update", f"jobid={job_id}", *words)
            is_known = True
        said = [re.sub(r"job \d+$", "job N", text) for text in done.stderr.splitlines()]
        result: dict[str, Any] = {"line": line, "code": done.returncode, "said": said}
        if is_known:
            result["job"] = _shown(run("scontrol", "show", "job", job_id).stdout, job_id)
        yield result


def differences(played: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> list[str]:
    """Return a line for each answer or field that is not as recorded."""
    wrong_lines = [f"{len(played)} lines, not {len(recorded)}"] * (len(played) != len(recorded))
    for ours, theirs in zip(played, recorded, strict=False):
        # A filter reads --gres as gres:gpu:1 in 22.05, as gres/gpu:1 since then.
        theirs["said"] = [text.replace("gres=gres:", "gres=gres/") for text in theirs["said"]]
        for key in ("code", "said"):
            if ours[key] != theirs[key]:
                wrong_lines.append(f"{ours['line']}: {key}: {ours[key]} not {theirs[key]}")
        mine, other = ours.get("job", {}), theirs.get("job", {})
        for key in sorted({*mine, *other}):
            if mine.get(key) != other.get(key):
                text = f"{key}={_apart(mine.get(key), other.get(key))}"
                wrong_lines.append(f"{ours['line']}: {text}")
    return wrong_lines


def _apart(ours: str | None, theirs: str | None) -> str:
    """Return the words in which two values differ."""
    mine, other = (ours or "(none)").split(), (theirs or "(none)").split()
    others = " ".join(word for word in other if word not in mine)
    return f"{' '.join(word for word in mine if word not in other)} not {others}"


def _shown(text: str, job_id: str) -> dict[str, str]:
    """Return fields of a job; those that differ between versions of Slurm are left out."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        for mark in _MARK.finditer(line):
            rest = line[mark.end() :]
            fields.setdefault(mark[1], rest if mark[1] in _LONG else rest.partition(" ")[0])
            if mark[1] in _LONG:
                break
    if "StdOut" in fields:
        fields["StdOut"] = re.sub(rf"\b{job_id}(_\w+|\b)", "N", fields["StdOut"])
    # TresPerNode is written gres:gpu:1 in 22.05, gres/gpu:1 (of a task gres/gpu=1) since then.
    return {
        key: value.strip().replace("gres:", "gres/").replace("gres/gpu=", "gres/gpu:")
        for key, value in fields.items()
        if not value.startswith("cpu=")  # TresPerTask=cpu=2, which 22.05 did not show
    }


def _record(directory: Path) -> None:
    environment = dict(
        line.split("=", 1) for line in (directory / "env").read_text().splitlines() if "=" in line
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        words = tuple(re.sub(r"\bn([1-4])\b", r"p\1", word) for word in words)
        return subprocess.run(
            words, capture_output=True, text=True, check=False, cwd="/tmp", env=environment
        )

    for name in (*NAMES, *FILTERS):
        text = re.sub(r"\bn([1-4])\b", r"p\1", script(name))
        time.sleep(1.1)  # slurmctld compares whole seconds
        is_filter = name in FILTERS
        (directory / "job_submit.lua").write_text(EMPTY if is_filter else text)
        (directory / "cli_filter.lua").write_text(text if is_filter else EMPTY_FILTER)
        results = list(play(name, run))
        shown = re.sub(r"\bp([1-4]\b|\[[1-4,-]+\])", r"n\1", json.dumps(results, indent=1))
        (_FOLDER / f"{name}.json").write_text(shown + "\n")


if __name__ == "__main__":
    _record(Path(sys.argv[1]))
