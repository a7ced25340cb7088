"""sbcast: send a file to all nodes of a job."""

import os

from pyslurm_ng.cli.command import connect, fail, read_conf, say
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import Program
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
NO_EFFECT = ("fanout", "treewidth")  # a file goes to all nodes at once
USAGE = (
    "Usage: sbcast [-C] [-F fanout] [-f] [-j jobid[.stepid]] [-p] [-s size] [-t timeout] [-v] [-V] "
    "SOURCE DEST"
)
PROGRAM = Program(
    "sbcast", OPTIONS, USAGE, operands="SOURCE DEST", same={"treewidth": "fanout"},
    refused=REFUSED, no_effect=NO_EFFECT,
    environment=(
        ("SBCAST_COMPRESS", "compress"), ("SBCAST_FANOUT", "fanout"), ("SBCAST_FORCE", "force"),
        ("SBCAST_PRESERVE", "preserve"), ("SBCAST_SEND_LIBS", "send-libs"),
        ("SBCAST_SIZE", "size"), ("SBCAST_TIMEOUT", "timeout"), ("SLURM_JOB_ID", "jobid"),
    ),
)  # fmt: skip
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def main(argv: "list[str]") -> int:
    """Run sbcast; return its exit code: 0, or the error number of a node that failed."""
    given, operands = PROGRAM.read(argv)
    if len(operands) != 2:
        fail(f'Need two file names, have {len(operands)} names\nTry "sbcast --help" for more '
             "information")  # fmt: skip
    source, path = operands
    if path.endswith("/"):
        fail("sbcast: error: Target filename cannot be a directory.")
    conf = read_conf("sbcast", "BcastExclude", "BcastParameters")
    job_id = _job_id(given.get("jobid", ""))
    block_bytes = _size(given["size"]) if "size" in given else LARGEST_BLOCK
    _number("fanout", given.get("fanout", "0"))
    limit_s = _number("timeout", given.get("timeout", "0")) or 60
    compress = _is_on("compress", given, "lz4", ("lz4", "none"), parameter(conf, "Compression"))
    sends_libraries = _is_on("send-libs", given, "yes", ("yes", "no"), parameter(conf, "send_libs"))
    path = os.path.join(os.getcwd(), path)
    try:
        granted = connect(conf).call("AskFileCredential", {"job_id": job_id})
    except SlurmError as error:
        say(f"sbcast: error: Slurm job {job_id} lookup error: {error.text}")
        return 255
    if "verbose" in given:
        _tell(given, source, path, granted["nodes"], block_bytes)
    broadcast = Broadcast(
        "sbcast", conf, granted, force="force" in given, preserve="preserve" in given,
        compress=compress, block_bytes=block_bytes, limit_s=float(limit_s),
    )  # fmt: skip
    try:
        code = broadcast.send(source, path)
        if sends_libraries and not code:
            text = given.get("exclude", conf.get("BcastExclude", EXCLUDED))
            for library in libraries_of(source, excluded_directories(text)):
                to = f"{path}_libs/{os.path.basename(library)}"
                code = broadcast.send(library, to, make_directory=True) or code
    except BroadcastError as error:
        say(f"sbcast: error: {error}")
        return 255
    return code


def _job_id(text: str) -> int:
    if not text:
        fail("sbcast: error: Need a job id to run this command.  Run from within a Slurm job or "
             "use the --jobid option.")  # fmt: skip
    if "+" in text or "." in text:
        fail(f"sbcast: error: --jobid={text}: components and steps are not implemented yet")
    return _number("jobid", text)


def _number(name: str, text: str) -> int:
    if not text.isdigit() or len(text) > 10:
        fail(f"sbcast: error: --{name}={text}: a number is needed")
    return int(text)


def _size(text: str) -> int:
    digits = text.rstrip("kKmMgG")
    unit = _UNITS.get(text[len(digits) :].lower())
    if unit is None or not digits.isdigit() or len(digits) > 12 or not int(digits):
        fail(f"sbcast: error: --size={text}: a number of bytes is needed, or one with k or m")
    return int(digits) * (unit or 1)


def _is_on(
    name: str,
    given: "Mapping[str, str]",
    word: str,
    allowed: "tuple[str, str]",
    default: "str | None",
) -> bool:
    """Return whether a switch with an optional word is on; BcastParameters has its default."""
    if name not in given:
        return default is not None and (default.lower() or word) == word
    value = given[name].lower() or word
    if value not in allowed:
        fail(f"sbcast: error: --{name}={given[name]}: {' or '.join(allowed)} is allowed")
    return value == word


def _tell(
    given: "Mapping[str, str]", source: str, path: str, nodes: "list[str]", block_bytes: int
) -> None:
    """Print what -v prints: the settings."""
    from pyslurm_ng.base.hostlist import fold

    rule = "-" * 29
    for line in (
        rule,
        f"block_size = {block_bytes}",
        f"force      = {str('force' in given).lower()}",
        f"preserve   = {str('preserve' in given).lower()}",
        f"source     = {source}",
        f"dest       = {path}",
        rule,
        f"node_list  = {fold(nodes)}",
    ):
        say(f"sbcast: {line}")
