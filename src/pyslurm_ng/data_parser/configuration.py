"""slurm.conf as a document: the lines of `scontrol show config`, each with its schema's type."""

import re

from pyslurm_ng.data_parser.schemas import empty, resolved, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.data_parser.schemas import Schema

_NOTHING = ("(null)", "none", "n/a", "")
_TRUE = ("yes", "1", "true", "on")
_INFINITE = ("unlimited", "infinite")
_FLAGS = ("DisableRootJobs", "AllowSpecResourcesUsage", "UsePam", "TrackWCKey")
_USER = re.compile(r"(.*)\((\d+)\)$")


def pairs_of(lines: "list[str]") -> "dict[str, str]":
    """Return the keys, in lower case, and values of the lines."""
    pairs = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if equals:
            pairs[name.strip().lower()] = value.strip()
    return pairs


def slurm_conf(pairs: "dict[str, str]", version: str) -> "dict[str, Any]":
    """Return slurm.conf with the keys of a version."""
    properties = schema("slurm_conf", version)["properties"]
    document = {
        name: _value(pairs.get(name.lower(), ""), part, version)
        for name, part in properties.items()
    }
    document["ConfFlags"] = [name for name in _FLAGS if pairs.get(name.lower()) in _TRUE]
    document["controllers"] = [
        {"machine": name, "address": address or name} for name, address in _controllers(pairs)
    ]
    for name in ("SlurmUser", "SlurmdUser"):
        match = _USER.match(pairs.get(name.lower(), ""))
        if match:
            document[name], document[f"{name}Id"] = match[1], int(match[2])
    return document


def slurm_conf_meta(pairs: "dict[str, str]", last_update_s: int, version: str) -> "dict[str, Any]":
    """Return what is said of slurm.conf beside its keys."""
    properties = schema("slurm_conf_meta", version)["properties"]
    document = {name: empty(part, version) for name, part in properties.items()}
    document["LastUpdate"] = last_update_s
    document["BOOT_TIME"] = _moment(pairs.get("boot_time", ""))
    document["NEXT_JOB_ID"] = _optional(pairs.get("next_job_id", ""))
    for name in ("SLURM_CONF", "SLURM_VERSION"):
        document[name] = pairs.get(name.lower(), "")
    return document


def _controllers(pairs: "dict[str, str]") -> "list[tuple[str, str]]":
    """Return names and addresses of `SlurmctldHost[0] = ctl(10.0.0.1)`."""
    hosts = []
    for key, value in pairs.items():
        if key.startswith("slurmctldhost"):
            name, _, address = value.rstrip(")").partition("(")
            hosts.append((name, address))
    return hosts


def _value(text: str, part: "Schema", version: str) -> "Any":
    part = resolved(part, version)
    kind = part.get("type")
    is_nothing = text.lower() in _NOTHING
    if kind == "object":
        if "minimum" in part.get("properties", {}):
            return _range(text)
        return _optional(text)
    if kind == "array":
        element = resolved(part.get("items", {}), version)
        if element.get("type") != "string" or is_nothing:
            return []
        words = [word.strip() for word in text.split(",") if word.strip()]
        return _known(words, element.get("enum"))
    if kind == "boolean":
        return text.lower() in _TRUE
    if kind in ("integer", "number"):
        digits = re.match(r"-?\d{1,18}", text)
        return int(digits[0]) if digits else int(text.lower() in _TRUE)
    return "" if is_nothing else text


def _known(words: "list[str]", known: "list[str] | None") -> "list[str]":
    """Return words as the schema spells them."""
    if known is None:
        return words
    spelled = {word.lower(): word for word in known}
    return [spelled[word.lower()] for word in words if word.lower() in spelled]


def _optional(text: str) -> "dict[str, Any]":
    digits = re.match(r"\d{1,18}", text)
    is_infinite = text.lower() in _INFINITE
    return {
        "set": bool(digits) and not is_infinite,
        "infinite": is_infinite,
        "number": int(digits[0]) if digits else 0,
    }


def _range(text: str) -> "dict[str, Any]":
    low, _, high = text.partition("-")
    is_set = low.isdecimal() and high.isdecimal()
    return {
        "minimum": int(low) if is_set else 0,
        "maximum": int(high) if is_set else 0,
        "set": is_set,
    }


def _moment(text: str) -> int:
    """Return 2026-11-20T12:07:58 of this host's time zone in seconds since 1970, 0 for none."""
    from time import mktime, strptime

    try:
        return int(mktime(strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return 0
