"""The few keys of slurm.conf that a command needs, read fast: no checks, no types, few imports.

The real parser would take longer than the twelve milliseconds in which a command starts, and the
daemons have checked the same file already.
"""

import sys

# posix is built in; to import os would take a millisecond more.
from posix import environ

from pyslurm_ng.base.input_files import MOST_OF_CONF, read_whole
from pyslurm_ng.base.word_values import TRUE_WORDS

_DEFAULT_PATH = "/etc/slurm/slurm.conf"


def is_yes(values: dict[str, str], key: str) -> bool:
    """Return whether a key that is YES or NO is YES; it is NO by default."""
    return values.get(key, "").lower() in TRUE_WORDS


def find_conf() -> str:
    """Return the path of slurm.conf: SLURM_CONF, the installation's, or /etc/slurm/slurm.conf."""
    path = _slurm_conf_variable()
    if path:
        return path
    try:
        from pyslurm_ng import _install  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return _DEFAULT_PATH
    return str(_install.SYSCONFDIR) + "/slurm.conf"


def _slurm_conf_variable() -> str:
    """Return SLURM_CONF from os if it is imported, because posix does not see later changes."""
    os_module = sys.modules.get("os")
    if os_module is not None:
        return str(os_module.environ.get("SLURM_CONF", ""))
    return environ.get(b"SLURM_CONF", b"").decode("utf-8", "surrogateescape")


def quick(path: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the values of some keys by the names in `keys`; missing keys are left out.

    If a key is given in several lines, the last one counts, as in the real parser. The values of
    SlurmctldHost are joined by commas. Node and partition lines are passed over.

    Raises:
        OSError: the file, or one that it includes, cannot be read.
    """
    names = {key.lower(): key for key in keys}
    values: dict[str, str] = {}
    if path.endswith(".toml"):
        _scan_toml(path, names, values)
    else:
        cluster = [""]
        _scan(path, names, values, cluster, 0)
    return values


def _scan(
    path: str, names: dict[str, str], values: dict[str, str], cluster: list[str], depth: int
) -> None:
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        text = read_whole(stream, MOST_OF_CONF)
    pending = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if line[-1:] == "\\" and "#" not in line:
            pending += line[:-1]
            continue
        if pending:
            line, pending = pending + line, ""
        if not line or line[0] == "#":
            continue
        head, equals, value = line.partition("=")
        key = head.rstrip().lower()
        if key[:7] == "include" and key[7:8] in (" ", "\t") and depth < 16:
            target = line[7:].partition("#")[0].strip().strip('"').replace("%c", cluster[0])
            if not target.startswith("/") and "/" in path:
                target = path[: path.rindex("/") + 1] + target
            _scan(target, names, values, cluster, depth + 1)
            continue
        if key == "clustername":
            cluster[0] = _value(value).lower()
        if equals and (key in names or " " in line):
            if key in ("nodename", "partitionname", "nodeset", "downnodes"):
                continue
            _take(line, names, values)


def _take(line: str, names: dict[str, str], values: dict[str, str]) -> None:
    """Add each ``Key=Value`` of a line whose key is in `names`; a line may hold several."""
    while line and line[0] != "#":
        head, equals, rest = line.partition("=")
        if not equals:
            return
        rest = rest.lstrip()
        value = _value(rest)
        key = head.strip().lower()
        name = names.get(key)
        if name is not None:
            if key == "slurmctldhost" and name in values:
                values[name] += "," + value
            else:
                values[name] = value
        skip = len(value) + 2 if rest[:1] == '"' else len(value)
        line = rest[skip:].lstrip()


def _value(text: str) -> str:
    """Return the value at the beginning of a text: in quotes, or up to a blank or comment."""
    text = text.strip()
    if text[:1] == '"':
        return text[1:].partition('"')[0]
    words = text.split(None, 1)
    return words[0].partition("#")[0] if words else ""


def _scan_toml(path: str, names: dict[str, str], values: dict[str, str]) -> None:
    from pyslurm_ng.conf.toml_text import read_toml

    for line in read_toml(path).lines:
        name = names.get(line[0].key.lower())
        if name is not None and len(line) == 1:
            values[name] = line[0].value
