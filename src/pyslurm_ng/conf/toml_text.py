"""slurm.toml to the same lines of entries that slurm.conf gives.

Top-level keys are the cluster's parameters; ``[node.NAME]``, ``[partition.NAME]``,
``[nodeset.NAME]``, ``[downnodes.LIST]`` and ``[poweraction.NAME]`` are the lines of those kinds, in
the order of the file. Lists become comma separated words, booleans YES and NO. See
docs/reference/slurm-toml.md.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from typing import Any

from pyslurm_ng.base.input_files import MOST_OF_CONF, read_whole
from pyslurm_ng.conf.lexer import ConfError, ConfText, Entry

# The standard library has it from Python 3.11 on; tomli is the same module for older ones.
tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_TABLES = {
    "node": "NodeName",
    "partition": "PartitionName",
    "nodeset": "NodeSet",
    "downnodes": "DownNodes",
    "poweraction": "PowerAction",
}


def read_toml(path: str) -> ConfText:
    """Read a slurm.toml. The content of the file never raises.

    A TOML reader gives no line numbers for values. So errors name the table and the key, and only
    an error of TOML's syntax has a line.
    """
    conf = ConfText(path, files=[path])
    try:
        with open(path, "rb") as stream:
            raw = read_whole(stream, MOST_OF_CONF)
    except OSError as error:
        conf.errors.append(ConfError(path, 0, "", f"cannot be read: {error.strerror}"))
        conf.files.clear()
        return conf
    conf.text_hash = hashlib.sha256(raw).hexdigest()
    try:
        document = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        conf.errors.append(ConfError(path, 0, "", f"not TOML: {error}"))
        return conf
    for key, value in document.items():
        leading = _TABLES.get(key.lower())
        if leading is not None:
            _table(conf, key, leading, value)
            continue
        entry = _entry(conf, path, key, value)
        if entry is not None:
            conf.lines.append([entry])
    return conf


def _table(conf: ConfText, kind: str, leading: str, tables: Any) -> None:
    if not isinstance(tables, dict):
        conf.errors.append(ConfError(conf.path, 0, kind, f"expected tables [{kind}.NAME]"))
        return
    for name, content in tables.items():
        location = f"{conf.path}: [{kind}.{name}]"
        if not isinstance(content, dict):
            conf.errors.append(ConfError(conf.path, 0, f"{kind}.{name}", "expected a table"))
            continue
        line = [Entry(leading, name, location, 0)]
        for key, value in content.items():
            entry = _entry(conf, location, key, value)
            if entry is not None:
                line.append(entry)
        conf.lines.append(line)


def _entry(conf: ConfText, location: str, key: str, value: Any) -> Entry | None:
    text = _text(value)
    if text is None:
        conf.errors.append(
            ConfError(location, 0, key, "expected a string, number, boolean, or a list of them")
        )
        return None
    return Entry(key, text, location, 0)


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, list):
        words = [_text(element) for element in value]
        if any(word is None for word in words):
            return None
        return ",".join(word for word in words if word is not None)
    if isinstance(value, dict):
        # SchedulerParameters = { bf_interval = 30, bf_continue = true }
        options = []
        for name, inner in value.items():
            text = _text(inner)
            if text is None or isinstance(inner, (list, dict)):
                return None
            if inner is True:
                options.append(name)
            elif inner is not False:
                options.append(f"{name}={text}")
        return ",".join(options)
    return None
