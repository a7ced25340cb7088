"""The config.json of one task: what its OCI bundle says, with the task's program and variables."""

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MOST_BYTES = 16 << 20
_OF_THE_IMAGE = ("HOME", "LD_LIBRARY_PATH", "PATH")
_NOT_FOR_USERS = ("cgroup", "network", "user")
_ROOTLESS_OPTIONS = ("gid=", "uid=")


class ContainerError(Exception):
    """The container cannot be made; one line for the user."""


def read_config(bundle: str) -> "dict[str, Any]":
    """Return what a bundle's config.json says.

    Raises:
        ContainerError: it is missing, too large or no such file.
    """
    path = f"{bundle}/config.json"
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ContainerError(f"{path}: more than {MOST_BYTES} bytes")
        config = json.loads(text)
    except OSError as error:
        raise ContainerError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ContainerError(f"{path}: {' '.join(str(error).split())}") from None
    parts = ("process", "root", "linux")
    if not isinstance(config, dict) or any(
        not isinstance(config.get(part, {}), dict) for part in parts
    ):
        raise ContainerError(f"{path}: process, root and linux have to be maps")
    lists = ("mounts",)
    if any(not isinstance(config.get(name, []), list) for name in lists):
        raise ContainerError(f"{path}: mounts has to be a list")
    return config


def with_program(
    config: "dict[str, Any]",
    bundle: str,
    argv: "Sequence[str]",
    variables: "Mapping[str, str]",
    *,
    is_terminal: bool,
) -> "dict[str, Any]":
    """Return a configuration that runs a program."""
    process = dict(config.get("process", {}))
    merged = merged_variables(process.get("env", []), variables)
    process |= {
        "args": list(argv),
        "env": [f"{name}={value}" for name, value in merged.items()],
        "terminal": is_terminal,
        "cwd": process.get("cwd") or "/",
        "user": process.get("user") or {"uid": 0, "gid": 0},
    }
    root = dict(config.get("root", {}))
    root["path"] = os.path.join(os.path.realpath(bundle), root.get("path", "rootfs"))
    return {**config, "ociVersion": config.get("ociVersion", "1.0.2"), "process": process,
            "root": root}  # fmt: skip


def merged_variables(
    entries: "Sequence[object]", variables: "Mapping[str, str]", kept: "Sequence[str]" = ()
) -> "dict[str, str]":
    """Return the job's variables, and those of an image that the job does not have.

    PATH, HOME, LD_LIBRARY_PATH and the names in `kept` are the image's, if it names them.
    """
    own = dict(entry.split("=", 1) for entry in entries if isinstance(entry, str) and "=" in entry)
    stay = {name: own[name] for name in (*_OF_THE_IMAGE, *kept) if name in own}
    return {**own, **variables, **stay}


def with_mount(
    config: "dict[str, Any]", source: str, destination: str, *options: str
) -> "dict[str, Any]":
    """Return a configuration with one more directory or file of the host."""
    mount = {
        "destination": destination, "type": "none", "source": source,
        "options": ["rbind", *(options or ("rw",))],
    }  # fmt: skip
    return {**config, "mounts": [*config.get("mounts", []), mount]}


def without_hooks(config: "dict[str, Any]", kinds: "Sequence[str]") -> "dict[str, Any]":
    """Return a configuration without some kinds of hooks."""
    hooks = config.get("hooks")
    if not isinstance(hooks, dict) or not kinds:
        return config
    unwanted = {kind.lower() for kind in kinds}
    kept = {kind: words for kind, words in hooks.items() if kind.lower() not in unwanted}
    return {**config, "hooks": kept}


def for_user(config: "dict[str, Any]", uid: int, gid: int) -> "dict[str, Any]":
    """Return a configuration that a user without rights can run: one id, the host's network.

    A bundle that has a user namespace for this user stays as it is.
    """
    linux = dict(config.get("linux", {}))
    namespaces = [entry for entry in linux.get("namespaces", []) if isinstance(entry, dict)]
    has_own = any(entry.get("type") == "user" for entry in namespaces)
    if has_own and _maps(linux.get("uidMappings"), uid) and _maps(linux.get("gidMappings"), gid):
        return config
    inside = config["process"].get("user") or {}
    linux |= {
        "namespaces": [
            *(entry for entry in namespaces if entry.get("type") not in _NOT_FOR_USERS),
            {"type": "user"},
        ],
        "uidMappings": [{"containerID": inside.get("uid", 0), "hostID": uid, "size": 1}],
        "gidMappings": [{"containerID": inside.get("gid", 0), "hostID": gid, "size": 1}],
    }
    linux.pop("resources", None)
    linux.pop("cgroupsPath", None)
    mounts = [
        _rootless_mount(mount) for mount in config.get("mounts", []) if isinstance(mount, dict)
    ]
    user = {name: value for name, value in inside.items() if name != "additionalGids"}
    process = {**config["process"], "user": user}
    return {**config, "linux": linux, "mounts": mounts, "process": process}


def _maps(mappings: "Any", number: int) -> bool:
    """Return whether an id of the host is in a bundle's mappings."""
    return isinstance(mappings, list) and any(
        isinstance(entry, dict)
        and isinstance(entry.get("hostID"), int)
        and isinstance(entry.get("size"), int)
        and entry["hostID"] <= number < entry["hostID"] + entry["size"]
        for entry in mappings
    )


def _rootless_mount(mount: "dict[str, Any]") -> "dict[str, Any]":
    kind, where = mount.get("type"), mount.get("destination")
    if kind == "sysfs":
        return {"destination": where, "type": "none", "source": "/sys",
                "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]}  # fmt: skip
    if kind == "cgroup":
        return {"destination": where, "type": "none", "source": "/sys/fs/cgroup",
                "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]}  # fmt: skip
    options = [
        word for word in mount.get("options", [])
        if isinstance(word, str) and not word.startswith(_ROOTLESS_OPTIONS)
    ]  # fmt: skip
    return {**mount, "options": options}


def environment_text(variables: "Mapping[str, str]", end: str) -> str:
    """Return the text of a file of variables; those that would be two lines are left out."""
    lines = (f"{name}={value}" for name, value in variables.items())
    return "".join(line + end for line in lines if end not in line)


def variables_without(pattern: str, variables: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables of which no `NAME=value` matches a pattern; all for no pattern."""
    if not pattern:
        return dict(variables)
    excluded = re.compile(pattern)
    return {
        name: value for name, value in variables.items() if not excluded.search(f"{name}={value}")
    }
