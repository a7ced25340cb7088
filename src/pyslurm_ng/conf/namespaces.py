"""Private directories of jobs: job_container.conf for namespace/tmpfs, namespace.yaml for linux."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from pyslurm_ng.conf.effects.effect import REFUSED, effect_of
from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, Entry, parse_text, read_conf
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.keys import JOB_CONTAINER, NAMESPACE
from pyslurm_ng.conf.yaml_text import load_yaml

TMPFS, LINUX = "namespace/tmpfs", "namespace/linux"
FILE_OF = {TMPFS: "job_container.conf", LINUX: "namespace.yaml"}
SHARED_MEMORY = "/dev/shm"
_TABLE = Table(JOB_CONTAINER, "job_container.conf")
_YAML_KEYS = {key.name: key for key in NAMESPACE}
_MOST_DIRECTORIES = 64
_MOST_WAIT_S = 3600
_FLAGS = ("noatime", "nodev", "nodiratime", "noexec", "nosuid", "relatime", "ro")
_MADE = "CLONE_NEWNS"
_NOT_MADE = ("CLONE_NEWPID", "CLONE_NEWUSER")


@dataclass(frozen=True, slots=True)
class PrivateDirectory:
    """A directory that each job has for itself; an empty `base_path` is the common one."""

    path: str
    base_path: str = ""
    options: tuple[str, ...] = ()
    is_tmpfs: bool = False


@dataclass(frozen=True, slots=True)
class Namespaces:
    """What one node makes for each of its jobs; without a `base_path` nothing."""

    base_path: str = ""
    makes_base_path: bool = False
    directories: tuple[PrivateDirectory, ...] = (
        PrivateDirectory("/tmp"),
        PrivateDirectory(SHARED_MEMORY, is_tmpfs=True),
    )
    init_script: str = ""
    script: str = ""
    script_wait_s: int = 10
    epilog: str = ""
    epilog_wait_s: int = 10
    is_shared: bool = False

    @property
    def base_paths(self) -> tuple[str, ...]:
        """All places of private directories, each once."""
        own = [directory.base_path for directory in self.directories if directory.base_path]
        return tuple(dict.fromkeys([self.base_path, *own]))


def load_namespaces(path: str, node: str, host: str) -> Namespaces | None:
    """Read a job_container.conf or namespace.yaml as one node understands it.

    None if the file gives this node no private directories. `%n` and `%h` in base paths are the
    node's name and its host.

    Raises:
        ConfErrors: with what is wrong with the file, for any node.
    """
    is_yaml = path.endswith(".yaml")
    known = _of_yaml(path, node) if is_yaml else _of_lines(read_conf(path), node)
    if known is None or known.base_path.lower() in ("", "none"):
        return None

    def named(text: str) -> str:
        return text.replace("%n", node).replace("%h", host)

    directories = tuple(
        replace(directory, base_path=named(directory.base_path)) for directory in known.directories
    )
    return replace(known, base_path=named(known.base_path), directories=directories)


def parse_job_container_conf(text: str, node: str) -> Namespaces | None:
    """Read a job_container.conf given as a string. Raises ConfErrors."""
    return _of_lines(parse_text(text, "job_container.conf"), node)


def file_errors(path: str) -> list[ConfError]:
    """Return all that is wrong with such a file."""
    try:
        load_namespaces(path, "", "")
    except ConfErrors as problems:
        return problems.errors
    return []


def misplaced(path: str, known: Namespaces, spool: str) -> list[str]:
    """Return a line for each directory of slurmd's own that jobs would not see, or would fill.

    Args:
        path: the file that says so.
        spool: SlurmdSpoolDir.
    """
    own = [("SlurmdSpoolDir", spool), *(("BasePath", base) for base in known.base_paths)]
    return [
        f"{path}: {name}={inner} is below {directory.path}, which each job has for itself; "
        "choose another"
        for directory in known.directories
        for name, inner in own
        if f"{inner}/".startswith(f"{directory.path}/")
    ]


# job_container.conf ---------------------------------------------------------------------------


def _of_lines(text: ConfText, node: str) -> Namespaces | None:
    """Return what the lines say for a node; a line without nodes is for all, a later line wins."""
    known = Namespaces()
    is_there = False
    for entries in text.lines:
        settings = read_line(text, entries, _TABLE, "job_container.conf")
        values = {name: value for name, (value, _) in settings.items()}
        _check_line(text, settings)
        nodes = values.get("node_name", ())
        if nodes and node not in _expanded(text, entries[0], nodes):
            continue
        is_there = is_there or "base_path" in values
        known = _with_line(known, values)
    if text.errors:
        raise ConfErrors(sorted(text.errors, key=lambda error: error.line))
    return known if is_there else None


def _expanded(text: ConfText, entry: Entry, nodes: Any) -> list[str]:
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return list(expand(nodes if isinstance(nodes, str) else ",".join(nodes)))
    except HostlistError as error:
        text.fail(entry, str(error))
        return []


def _check_line(text: ConfText, settings: dict[str, tuple[Any, Entry]]) -> None:
    value, entry = settings.get("base_path", ("", None))
    if entry is not None and not _is_place(value):
        text.fail(entry, f"{value} is neither none nor an absolute path below /")
    value, entry = settings.get("dirs", ((), None))
    if entry is not None:
        problem = _problem_of([PrivateDirectory(path) for path in value])
        if problem:
            text.fail(entry, problem)


def _is_place(path: str) -> bool:
    plain = os.path.normpath(path) == path.rstrip("/")
    return path.lower() == "none" or (path.startswith("/") and len(path) > 1 and plain)


def _problem_of(directories: list[PrivateDirectory]) -> str:
    """Return what is wrong with a list of private directories; "" for nothing."""
    if not directories or len(directories) > _MOST_DIRECTORIES:
        return f"from 1 to {_MOST_DIRECTORIES} directories are allowed"
    paths = [directory.path for directory in directories]
    for path in paths:
        if not _is_place(path) or path.lower() == "none":
            return f"{path} is not an absolute path of a directory below /"
    for path in paths:
        if paths.count(path) > 1:
            return f"{path} is there twice"
        for other in paths:
            if other.startswith(path + "/"):
                return f"{other} is below {path}, so it is private already"
    return ""


def _with_line(known: Namespaces, values: dict[str, Any]) -> Namespaces:
    """Return what was known with what one line says."""
    names = {
        "base_path": "base_path",
        "auto_base_path": "makes_base_path",
        "init_script": "init_script",
        "clone_ns_script": "script",
        "clone_ns_script_wait": "script_wait_s",
        "clone_ns_epilog": "epilog",
        "clone_ns_epilog_wait": "epilog_wait_s",
        "shared": "is_shared",
    }
    changes = {own: values[name] for name, own in names.items() if name in values}
    if "dirs" in values:
        changes["directories"] = tuple(_directory(path) for path in values["dirs"])
    return replace(known, **changes)


def _directory(path: str) -> PrivateDirectory:
    """Return a directory as Dirs= names it: shared memory is memory, others are on disk."""
    return PrivateDirectory(path, is_tmpfs=path == SHARED_MEMORY)


# namespace.yaml -------------------------------------------------------------------------------


def _of_yaml(path: str, node: str) -> Namespaces | None:
    content, lines = load_yaml(path)
    reader = _YamlReader(path, lines)
    known = reader.read(content, node)
    if reader.errors:
        raise ConfErrors(reader.errors)
    return known


class _YamlReader:
    """Reads the maps of a namespace.yaml, and gathers what is wrong."""

    def __init__(self, path: str, lines: dict[int, int]) -> None:
        self._path = path
        self._lines = lines
        self.errors: list[ConfError] = []

    def _fail(self, where: Any, key: str, text: str) -> None:
        self.errors.append(ConfError(self._path, self._lines.get(id(where), 0), key, text))

    def read(self, content: Any, node: str) -> Namespaces | None:
        if not isinstance(content, dict):
            self._fail(content, "", "expected a map with defaults and node_confs")
            return None
        known = Namespaces()
        for name in content:
            if name == "disable_bpf_token":
                self._take(content, name, content[name], {})
            elif name not in ("defaults", "node_confs"):
                self._fail(content, str(name), "unknown; defaults and node_confs are allowed")
        if "defaults" in content:
            known = self._with_options(known, content["defaults"], "defaults")
        entries = content.get("node_confs", [])
        if not isinstance(entries, list):
            self._fail(content, "node_confs", "expected a list")
            entries = []
        for entry in entries:
            if not isinstance(entry, dict) or set(entry) != {"nodes", "options"}:
                self._fail(entry, "node_confs", "expected maps with nodes and options")
                continue
            changed = self._with_options(known, entry["options"], "options")
            if node in self._nodes(entry):
                known = changed
        return known

    def _nodes(self, entry: dict[str, Any]) -> list[str]:
        from pyslurm_ng.base.hostlist import HostlistError, expand

        nodes = entry["nodes"]
        words = [nodes] if isinstance(nodes, str) else nodes
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            self._fail(entry, "nodes", "expected a list of names")
            return []
        try:
            return [name for word in words for name in expand(word)]
        except HostlistError as error:
            self._fail(entry, "nodes", str(error))
            return []

    def _with_options(self, known: Namespaces, options: Any, what: str) -> Namespaces:
        if not isinstance(options, dict):
            self._fail(options, what, "expected a map")
            return known
        values: dict[str, Any] = {}
        for name, value in options.items():
            if name not in _YAML_KEYS or name in ("defaults", "node_confs", "nodes", "options"):
                self._fail(options, str(name), "unknown key")
            elif effect_of("namespace.yaml", name).kind == REFUSED:
                why = effect_of("namespace.yaml", name).why
                self._fail(options, name, f"is refused: {why}")
            else:
                self._take(options, name, value, values)
        own = values.pop("dir_confs", None)
        known = _with_line(known, values)
        if own is not None:
            by_path = {directory.path: directory for directory in known.directories}
            by_path |= {directory.path: directory for directory in own}
            known = replace(known, directories=tuple(by_path.values()))
        problem = _problem_of(list(known.directories))
        if problem:
            self._fail(options, "dirs", problem)
        return known

    def _take(self, options: Any, name: str, value: Any, values: dict[str, Any]) -> None:
        """Keep one option's value, or say what is wrong with it."""
        if name == "clone_ns_flags":
            self._check_flags(options, value)
        elif name == "dir_confs":
            values[name] = self._directories(options, value)
        elif name == "dirs":
            words = value.split(",") if isinstance(value, str) else value
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                values[name] = words
            else:
                self._fail(options, name, "expected a list of paths")
        elif name in ("auto_base_path", "shared", "disable_bpf_token"):
            if not isinstance(value, bool):
                self._fail(options, name, "true or false is allowed")
            values[name] = bool(value)
        elif name.endswith("_wait"):
            if isinstance(value, bool) or not isinstance(value, int):
                value = -1
            if not 0 <= value <= _MOST_WAIT_S:
                self._fail(options, name, f"seconds from 0 to {_MOST_WAIT_S} are allowed")
            values[name] = value
        elif not isinstance(value, str) or not _is_place(value):
            self._fail(options, name, "expected an absolute path")
        else:
            values[name] = value

    def _check_flags(self, options: Any, value: Any) -> None:
        words = value.split(",") if isinstance(value, str) else value
        for word in words if isinstance(words, list) else [value]:
            name = str(word).strip().upper()
            if name in _NOT_MADE:
                text = f"{name} is refused: jobs get no such namespace; {_MADE} is allowed"
                self._fail(options, "clone_ns_flags", text)
            elif name != _MADE:
                self._fail(options, "clone_ns_flags", f"unknown word; {_MADE} is allowed")

    def _directories(self, options: Any, value: Any) -> list[PrivateDirectory]:
        """Return the directories of dir_confs that are right."""
        directories: list[PrivateDirectory] = []
        for entry in value if isinstance(value, list) else [value]:
            allowed = {"path", "base_path", "options", "tmpfs"}
            if not isinstance(entry, dict) or not set(entry) <= allowed or "path" not in entry:
                text = "expected maps with path and, if wanted, base_path, options, tmpfs"
                self._fail(options, "dir_confs", text)
                continue
            path, base = entry["path"], entry.get("base_path", "")
            words = entry.get("options", [])
            words = words.split(",") if isinstance(words, str) else words
            is_tmpfs = entry.get("tmpfs", path == SHARED_MEMORY)
            are_texts = isinstance(path, str) and isinstance(base, str)
            if not are_texts or (base and not _is_place(base)):
                self._fail(entry, "dir_confs", "path and base_path are absolute paths")
            elif not isinstance(words, list) or not all(word in _FLAGS for word in words):
                self._fail(entry, "options", f"{', '.join(_FLAGS)} are allowed")
            elif not isinstance(is_tmpfs, bool):
                self._fail(entry, "tmpfs", "true or false is allowed")
            else:
                directories.append(PrivateDirectory(path, base, tuple(words), is_tmpfs))
        return directories
