"""Options about containers: an OCI bundle, or an image and what Pyxis' options say about it."""

import os

from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.option_state import OptionState

_MOST_NAME = 128
_SWITCHES = ("entrypoint", "mount-home", "readonly", "remap-root", "writable")
WORDS = (
    "container-id",
    *(f"container-{key}" for key in ("env", "image", "mounts", "name", "save", "workdir")),
    *(f"container-{key}" for key in _SWITCHES),
    *(f"no-container-{key}" for key in ("entrypoint", "mount-home", "remap-root")),
)
"""Options that `word` reads."""
_FLAGS = frozenset("bind nosuid nodev noexec private ro rbind rprivate rslave rw slave".split())


def bundle(options: "OptionState", name: str, value: "str | None") -> None:
    """Read --container: the directory of an OCI bundle. Raises OptionError."""
    options.request["container"] = _path(name, value)


def word(options: "OptionState", name: str, value: "str | None") -> None:
    """Read an option about a container or its image. Raises OptionError."""
    is_off = name.startswith("no-")
    key = name.removeprefix("no-").removeprefix("container-")
    words = [entry for entry in options.request.get("container_options", []) if _key(entry) != key]
    if not is_off:
        words.append(f"{key}={_checked(name, key, value or '')}")
    options.request["container_options"] = words
    if {"readonly", "writable"} <= {_key(entry) for entry in words}:
        raise OptionError("--container-readonly and --container-writable exclude each other", 1)


def check(request: "dict[str, Any]") -> None:
    """Refuse a bundle beside an image. Raises OptionError."""
    keys = {_key(entry) for entry in request.get("container_options", [])}
    if request.get("container") and keys - {"id"}:
        raise OptionError("--container and options of images exclude each other", 1)
    if keys - {"id"} and not keys & {"image", "name"}:
        option = f"--container-{sorted(keys - {'id'})[0]}"
        raise OptionError(f"{option} needs --container-image or --container-name", 1)


def as_options(request: "dict[str, Any]") -> "list[str]":
    """Return the options of srun that ask for a request's container, [] without one."""
    bundle = [f"--container={request['container']}"] if request.get("container") else []
    return bundle + [
        f"--container-{entry.removesuffix('=')}" for entry in request.get("container_options", [])
    ]


def has_image(request: "dict[str, Any]") -> bool:
    """Return whether a request asks for an image, which only steps and scripts have."""
    return any(_key(entry) != "id" for entry in request.get("container_options", []))


def _key(entry: str) -> str:
    return entry.partition("=")[0]


def _path(name: str, value: "str | None") -> str:
    if not value or "\0" in value:
        raise OptionError(f"--{name}: a path is needed", 1)
    return os.path.abspath(value)


def _checked(name: str, key: str, value: str) -> str:
    """Return an option's value in its final form. Raises OptionError."""
    if key in _SWITCHES:
        return ""
    if key in ("save", "image"):
        is_file = value.startswith(("/", "./", "../")) or os.path.exists(value)
        return _path(name, value) if is_file or key == "save" else _text(name, value)
    if key == "workdir" and not value.startswith("/"):
        raise OptionError(f"--{name}={value}: an absolute path is needed", 1)
    if key in ("name", "id"):
        plain = value.replace("-", "").replace("_", "").replace(".", "")
        if not plain.isalnum() or len(value) > _MOST_NAME or value.startswith((".", "-")):
            text = f"letters, digits, dots, - and _ are allowed, at most {_MOST_NAME}"
            raise OptionError(f"--{name}={value}: {text}", 1)
    if key == "mounts":
        return _mounts(name, value)
    return _text(name, value)


def _text(name: str, value: str) -> str:
    if not value:
        raise OptionError(f"--{name}: a value is needed", 1)
    return value


def _mounts(name: str, value: str) -> str:
    """Check SRC:DST[:FLAGS],...; SRC alone stands for both. Raises OptionError."""
    for entry in value.split(","):
        source, _, rest = entry.partition(":")
        target, _, flags = rest.partition(":")
        words = [flag for flag in flags.split("+") if flag]
        if not source.startswith("/") or not (target or source).startswith("/"):
            raise OptionError(
                f"--{name}={entry}: SRC:DST[:FLAGS] with absolute paths is allowed", 1
            )
        if not _FLAGS.issuperset(words):
            raise OptionError(f"--{name}={entry}: {', '.join(sorted(_FLAGS))} are allowed flags", 1)
    return _text(name, value)
