"""sh5util: join the profiles of a job's steps on its nodes, and show what is in them."""

import os

from pyslurm_ng.cli.command import fail, say, version_line
from pyslurm_ng.cli.option_words import NONE, REQUIRED, UsageError, split_words, suggestions
from pyslurm_ng.cli.profiles.merge import ProfileError, merge, node_files, open_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("data", "d", REQUIRED), ("extract", "E", NONE), ("help", "h", NONE),
    ("input", "i", REQUIRED), ("item-extract", "I", NONE), ("jobs", "j", REQUIRED),
    ("level", "l", REQUIRED), ("list", "L", NONE), ("node", "N", REQUIRED),
    ("output", "o", REQUIRED), ("profiledir", "p", REQUIRED), ("savefiles", "S", NONE),
    ("series", "s", REQUIRED), ("usage", "", NONE), ("user", "", REQUIRED),
    ("version", "V", NONE),
)  # fmt: skip
USAGE = """Usage: sh5util [OPTIONS] -j JOB[.STEP]

Joins the files of a job's steps on its nodes into one file, or shows what is in it:
  -j, --jobs=JOB[.STEP]    the job, or some of its steps separated by commas
  -o, --output=PATH        what is written: ./job_JOB.h5, or ./extract_JOB.csv
  -p, --profiledir=DIR     where the files are, in place of ProfileHDF5Dir
  -S, --savefiles          keep the files that were joined
      --user=USER          the user of the job
  -L, --list               show the items of a series
  -E, --extract            write a series as comma-separated values
  -I, --item-extract       write one item of all nodes, and show its maximum
  -i, --input=PATH         the job's file, ./job_JOB.h5
  -s, --series=SERIES      Energy, Filesystem, Network, Task or Task_N
  -d, --data=ITEM          for --item-extract
  -l, --level=LEVEL        for --extract: Node:Totals or Node:TimeSeries
  -N, --node=NODE          for --extract
  -h, --help, --usage      show this
  -V, --version            show the version"""
_LEVELS = {"node:totals": "totals", "node:timeseries": "time_series"}
_BAD = 255


def main(argv: "list[str]") -> int:
    """Run sh5util; return its exit code."""
    options = _options(argv)
    job_id, steps = _job_of(options.get("jobs", ""))
    try:
        if {"list", "extract", "item-extract"} & options.keys():
            return _show(options, job_id)
        return _merge(options, job_id, steps)
    except ImportError:
        fail("sh5util: error: the Python package h5py is not installed", _BAD)
    except ProfileError as problem:
        _refuse(problem.text, problem.code)


def _refuse(text: str, code: int = _BAD) -> "NoReturn":
    fail(f"sh5util: error: {text}", code)


def _options(argv: "list[str]") -> "dict[str, str]":
    by_name = {row[0]: row for row in OPTIONS}
    try:
        pairs, operands = split_words(
            argv, by_name, {row[1]: row for row in OPTIONS if row[1]}, mixed=True
        )
    except UsageError as problem:
        fail(f"sh5util: {problem}", _BAD)
    options = {name: value or "" for name, value in pairs}
    if {"help", "usage"} & options.keys():
        print(USAGE)
        raise SystemExit(0)
    if "version" in options:
        print(version_line())
        raise SystemExit(0)
    if "autocomplete" in options:
        print(suggestions(options["autocomplete"], by_name), end="")
        raise SystemExit(0)
    if operands:
        _refuse(f"Unrecognized option: {operands[0]}")
    return options


def _job_of(text: str) -> "tuple[int, list[str]]":
    """Return the job and the steps of --jobs; no steps means all."""
    if not text:
        _refuse("JobID must be specified.")
    jobs: dict[int, list[str]] = {}
    for word in text.split(","):
        job, dot, step = word.partition(".")
        known = step.isdecimal() or step in ("batch", "interactive")
        if not (job.isascii() and job.isdecimal() and len(job) < 11) or (dot and not known):
            _refuse(f"--jobs={text}: {word} is no job or job.step")
        jobs.setdefault(int(job), []).extend([step] if dot else [])
    if len(jobs) > 1:
        _refuse(f"--jobs={text}: steps of one job are allowed")
    return jobs.popitem()


def _merge(options: "dict[str, str]", job_id: int, steps: "list[str]") -> int:
    output = options.get("output") or f"./job_{job_id}.h5"
    directory = f"{_profile_directory(options)}/{_user_of(options)}"
    say(f"sh5util: Merging node-step files into {output}")
    files = node_files(directory, job_id, steps)
    if not files:
        say(f"sh5util: No node-step files found for jobid {job_id}")
        return 0
    merge(files, output)
    if "savefiles" not in options:
        for _, _, path in files:
            os.unlink(path)
    return 0


def _profile_directory(options: "dict[str, str]") -> str:
    """Return where files are: --profiledir, else ProfileHDF5Dir of acct_gather.conf."""
    if options.get("profiledir"):
        return options["profiledir"]
    from pyslurm_ng.conf.acct_gather_conf import FILE, load_acct_gather_conf
    from pyslurm_ng.conf.lexer import ConfErrors
    from pyslurm_ng.conf.quick import find_conf

    path = os.path.join(os.path.dirname(find_conf()) or ".", FILE)
    try:
        directory = load_acct_gather_conf(path).profile_hdf5_dir
    except ConfErrors as problems:
        _refuse(str(problems.errors[0]))
    if not directory:
        _refuse(f"{path}: ProfileHDF5Dir is not set; --profiledir says where files are")
    return directory


def _user_of(options: "dict[str, str]") -> str:
    """Return the name of --user, by default of the user who asks."""
    import pwd

    text = options.get("user", "")
    try:
        if not text:
            return pwd.getpwuid(os.getuid()).pw_name
        return (pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)).pw_name
    except (KeyError, OverflowError):
        _refuse(f'No such user --uid="{text or os.getuid()}"')


def _show(options: "dict[str, str]", job_id: int) -> int:
    """List or extract from a job's file."""
    from pyslurm_ng.cli.profiles import extract

    if not options.get("series"):
        fail("sh5util: fatal: Must specify series option --series")
    series = extract.check_series(options["series"])
    path = options.get("input") or f"./job_{job_id}.h5"
    if "list" in options:
        say(f"sh5util: Listing items from {path}")
        with open_profile(path) as profile:
            print("\n".join(extract.items(profile, series)))
        return 0
    if "item-extract" in options:
        return _extract_item(options, job_id, path, series)
    level = _LEVELS.get(options.get("level", "node:totals").lower())
    if level is None:
        _refuse(f"--level={options['level']}: Node:Totals and Node:TimeSeries are allowed")
    output = options.get("output") or f"./extract_{job_id}.csv"
    say(f"sh5util: Extracting job data from {path} into {output}")
    with open_profile(path) as profile:
        lines = getattr(extract, level)(profile, series, options.get("node", ""))
        _write(output, list(lines))
    return 0


def _extract_item(options: "dict[str, str]", job_id: int, path: str, series: str) -> int:
    from pyslurm_ng.cli.profiles import extract

    column = options.get("data", "")
    if not column:
        fail("sh5util: fatal: Must specify data option --data ")
    output = options.get("output") or f"./{options['series']}_{column}_{job_id}.csv"
    shown = options["series"]
    say(f"sh5util: Extracting '{column}' from '{shown}' data from {path} into {output}")
    with open_profile(path) as profile:
        lines, peaks = extract.item_lines(profile, series, column)
    _write(output, lines)
    print("\n".join(peaks))
    return 0


def _write(output: str, lines: "Iterable[str]") -> None:
    """Write lines. Raises ProfileError."""
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise ProfileError(f"Failed to create output file {output} -- {error.strerror}") from None
