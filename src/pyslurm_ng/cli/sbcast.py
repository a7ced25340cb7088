"""sbcast: send a file to all nodes of a job."""

import os

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.job_ids import STEP_NUMBERS, JobIdError, JobName, parse_job_id
from pyslurm_ng.cli.command import connect, fail, read_conf, say
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import OptionValues, Program
from pyslurm_ng.cli.request_parts import record_id
from pyslurm_ng.cli.step.broadcast import (
    EXCLUDED,
    LARGEST_BLOCK,
    Broadcast,
    BroadcastError,
    excluded_directories,
    libraries_of,
    parameter,
)
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("compress", "C", OPTIONAL),
    ("exclude", "", REQUIRED),
    ("fanout", "F", REQUIRED),
    ("force", "f", NONE),
    ("help", "", NONE),
    ("jobid", "j", REQUIRED),
    ("no-allocation", "Z", OPTIONAL),
    ("nodelist", "w", OPTIONAL),
    ("preserve", "p", NONE),
    ("send-libs", "", OPTIONAL),
    ("size", "s", REQUIRED),
    ("timeout", "t", REQUIRED),
    ("treewidth", "", REQUIRED),
    ("usage", "", NONE),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
)
REFUSED = ("no-allocation", "nodelist")
USAGE = (
    "Usage: sbcast [-C] [-F fanout] [-f] [-j jobid[.stepid]] [-p] [-s size] [-t timeout] [-v] [-V] "
    "SOURCE DEST"
)
PROGRAM = Program(
    "sbcast", OPTIONS, USAGE, operands="SOURCE DEST", same={"treewidth": "fanout"},
    refused=REFUSED,
    environment=(
        ("SBCAST_COMPRESS", "compress"), ("SBCAST_FANOUT", "fanout"), ("SBCAST_FORCE", "force"),
        ("SBCAST_PRESERVE", "preserve"), ("SBCAST_SEND_LIBS", "send-libs"),
        ("SBCAST_SIZE", "size"), ("SBCAST_TIMEOUT", "timeout"), ("SLURM_JOB_ID", "jobid"),
    ),
)  # fmt: skip
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def main(argv: "list[str]") -> int:
    """Run sbcast; return its exit code: 0, or the error number of a node that failed."""
    options, operands = PROGRAM.read(argv)
    if len(operands) != 2:
        fail(f'Need two file names, have {len(operands)} names\nTry "sbcast --help" for more '
             "information")  # fmt: skip
    source, path = operands
    if not path or path.endswith("/"):
        fail("sbcast: error: Target filename cannot be a directory.")
    conf = read_conf("sbcast", "BcastExclude", "BcastParameters")
    block_bytes = _size(options["size"]) if "size" in options else LARGEST_BLOCK
    name = _job_name(options.get("jobid", ""))
    limit_s = _seconds(options.get("timeout", "0")) or 60
    compress = _compresses(options, parameter(conf, "Compression"))
    sends_libraries = _sends_libraries(options, parameter(conf, "send_libs"))
    path = os.path.join(os.getcwd(), path)
    if "verbose" in options:
        _tell(options, source, path, block_bytes, sends_libraries=sends_libraries)
        _tell_file(source)
    if not options.get("jobid"):
        from pyslurm_ng.cli.clusters import of_allocation

        conf = of_allocation("sbcast", conf)
    granted = _credential(connect(conf), name)
    if granted is None:
        return 255
    if "verbose" in options:
        say(f"sbcast: jobid      = {name.text}\nsbcast: node_list  = {fold(granted['nodes'])}")
    broadcast = Broadcast(
        "sbcast", conf, granted, force="force" in options, preserve="preserve" in options,
        compress=compress, block_bytes=block_bytes, limit_s=float(limit_s),
    )  # fmt: skip
    try:
        code = broadcast.send(source, path)
        if sends_libraries and not code:
            text = options.get("exclude", conf.get("BcastExclude", EXCLUDED))
            for library in libraries_of("sbcast", source, excluded_directories(text)):
                to = f"{path}_libs/{os.path.basename(library)}"
                code = broadcast.send(library, to, make_directory=True) or code
    except BroadcastError as error:
        say(f"sbcast: error: {error}")
        return 255
    return code


def _job_name(text: str) -> "JobName":
    """Return the job, component, step or SLUID of --jobid; no job has the id of other texts."""
    if not text:
        fail("sbcast: error: Need a job id to run this command.  Run from within a Slurm job or "
             "use the --jobid option.")  # fmt: skip
    job, dot, step = text.partition(".")
    if dot and not step.isdecimal() and step not in STEP_NUMBERS:
        fail(f"sbcast: fatal: Bad step specified: {job}")
    try:
        return parse_job_id(text)
    except JobIdError:
        return JobName("0", 0)


def _credential(client: "Client", name: "JobName") -> "dict[str, Any] | None":
    """Return the nodes and what lets us write there, or None after a line that says why not."""
    job_id = name.job_id
    fields: dict[str, Any] = {}
    if name.step >= 0:
        fields["step_id"] = name.step
    try:
        if name.tasks or name.het_offset >= 0 or name.sluid:
            job_id = record_id(client, name.text.partition(".")[0])
        return client.call("AskFileCredential", {"job_id": job_id, **fields})
    except SlurmError as error:
        say(f"sbcast: error: Slurm job {name.text} lookup error: {error.text}")
        return None


def _seconds(text: str) -> int:
    """Return a number; as in Slurm a text that does not begin with one is 0."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits or "0") if len(digits) <= 10 else 0


def _size(text: str) -> int:
    """Return the bytes of a block; a text that is no size is reported and left out."""
    digits = text.rstrip("kKmMgG")
    unit = _UNITS.get(text[len(digits) :].lower())
    if unit is None or not digits.isdecimal() or len(digits) > 12:
        say("size specification is invalid, ignored")
        return LARGEST_BLOCK
    return int(digits) * unit or LARGEST_BLOCK


def _compresses(options: "Mapping[str, str]", default: "str | None") -> bool:
    """Return whether files are packed; BcastParameters has the default."""
    if "compress" not in options:
        return default is not None and (default.lower() or "lz4") == "lz4"
    word = options["compress"]
    if word.lower() not in ("", "lz4", "none"):
        say(f"sbcast: error: Compression type '{word}' unknown, disabling compression support.")
    return word.lower() in ("", "lz4")


def _sends_libraries(options: "OptionValues", default: "str | None") -> bool:
    """Return whether libraries go along; BcastParameters has the default."""
    if "send-libs" not in options:
        return default is not None and (default.lower() or "yes") == "yes"
    word, is_option = options["send-libs"], bool(options.times("send-libs"))
    known = ("", "yes", "no") if is_option else ("yes", "no")
    if word.lower() not in known:
        origin = "--send-libs" if is_option else "SBCAST_SEND_LIBS"
        say(f"sbcast: error: Ignoring unrecognized {origin} value '{word}'")
    return word.lower() in known and word.lower() != "no"


def _tell(
    options: "OptionValues", source: str, path: str, block_bytes: int, *, sends_libraries: bool
) -> None:
    """Print the settings: the first part of what -v prints."""
    rule = "-" * 29
    for line in (
        rule,
        f"block_size = {block_bytes}",
        f"compress   = {int('compress' in options)}",
        f"exclude    = {options.get('exclude', EXCLUDED)}",
        f"force      = {str('force' in options).lower()}",
        f"fanout     = {options.get('fanout', '0')}",
        f"preserve   = {str('preserve' in options).lower()}",
        f"send_libs  = {str(sends_libraries).lower()}",
        f"timeout    = {options.get('timeout', '0')}",
        f"verbose    = {options.times('verbose') or 1}",
        f"source     = {source}",
        f"dest       = {path}",
        rule,
    ):
        say(f"sbcast: {line}")


def _tell_file(source: str) -> None:
    """Print what the file is; one that is not there is reported where it is read."""
    from time import ctime

    try:
        status = os.stat(source)
    except OSError:
        return
    for line in (
        f"modes    = {status.st_mode:o}",
        f"uid      = {status.st_uid}",
        f"gid      = {status.st_gid}",
        f"atime    = {ctime(status.st_atime)}",
        f"mtime    = {ctime(status.st_mtime)}",
        f"ctime    = {ctime(status.st_ctime)}",
        f"size     = {status.st_size}",
    ):
        say(f"sbcast: {line}")
