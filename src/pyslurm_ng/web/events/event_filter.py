"""Which events a listener wants: the words of a query or of a webhook's table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyslurm_ng.base.hostlist import HostlistError, expand, expand_unique
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.state_names import parse_job_state

KINDS = ("job", "node")
KEYS = ("kind", "event", "user", "account", "partition", "job", "state", "node")
MOST_WORDS = 256
MOST_NODES = 65536
"""In a webhook's table."""
MOST_NODES_OF_LISTENER = 1024
"""Each filter of a listener is kept, and there are hundreds of them."""
_OF_JOBS = (
    ("event", "event"), ("user", "user_name"), ("account", "account"), ("partition", "partition"),
)  # fmt: skip


class BadWord(ValueError):
    """A word that names nothing; the text is one line."""


@dataclass(frozen=True)
class EventFilter:
    """Words by key, each sorted; an empty key wants all. Equal values want the same.

    A filter that only jobs have (user, account, partition, job, state) leaves out nodes, and
    `node` leaves out jobs, unless `kind` names both.
    """

    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    _sets: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, hash=False)

    @classmethod
    def of(cls, words: Mapping[str, Iterable[str]], most_nodes: int = MOST_NODES) -> EventFilter:
        """Return what words mean.

        Raises:
            BadWord: a key or word that is none, or too many of them.
        """
        kept: dict[str, tuple[str, ...]] = {}
        for key, values in words.items():
            if key not in KEYS:
                raise BadWord(f"{key[:64]}: {', '.join(KEYS)} are allowed")
            checked = {word for value in values for word in _checked(key, value, most_nodes)}
            most = MOST_WORDS if key != "node" else most_nodes
            if len(checked) > most:
                raise BadWord(f"{key}: at most {most} words are allowed")
            if checked:
                kept[key] = tuple(sorted(checked))
        if "kind" not in kept:
            of_jobs = any(key in kept for key in ("user", "account", "partition", "job", "state"))
            if of_jobs or "node" in kept:
                kept["kind"] = ("job",) if of_jobs else ("node",)
        pairs = tuple(sorted(kept.items()))
        return cls(pairs, {key: frozenset(values) for key, values in pairs})

    @property
    def word_count(self) -> int:
        """How many words it has."""
        return sum(len(words) for _, words in self.words)

    def agrees(self, kind: str, record: Mapping[str, Any]) -> bool:
        """Return whether an event is event_filter."""
        sets = self._sets
        if not sets:
            return True
        if "kind" in sets and kind not in sets["kind"]:
            return False
        if kind == "node":
            return self._agrees_with_node(record)
        for key, name in _OF_JOBS:
            if key in sets and record[name] not in sets[key]:
                return False
        if "state" in sets and sets["state"].isdisjoint(record["job_state"]):
            return False
        return "job" not in sets or not sets["job"].isdisjoint(_ids(record))

    def _agrees_with_node(self, record: Mapping[str, Any]) -> bool:
        sets = self._sets
        if "event" in sets and record["event"] not in sets["event"]:
            return False
        return "node" not in sets or not sets["node"].isdisjoint(expand_unique(record["nodes"]))


def _ids(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all by which an event's job may be named."""
    ids = (str(record["job_id"]), record["id"])
    return (*ids, str(record["array_job_id"])) if record["array_job_id"] else ids


def _checked(key: str, value: str, most_nodes: int) -> list[str]:
    """Return the words of one value.

    Raises:
        BadWord: it is none.
    """
    if key == "node":
        try:
            return expand(value, most_nodes)
        except HostlistError as error:
            raise BadWord(f"node: {error}") from None
    words = [word.strip() for word in value.split(",") if word.strip()]
    for at, word in enumerate(words):
        if len(word) > 255:
            raise BadWord(f"{key}: a word has at most 255 characters")
        if key == "kind" and word not in KINDS:
            raise BadWord(f"kind={word}: {' and '.join(KINDS)} are allowed")
        if key == "job":
            try:
                parse_job_id(word)
            except JobIdError:
                raise BadWord(f"job={word}: no job id") from None
        if key == "state":
            if parse_job_state(word) is None:
                raise BadWord(f"state={word}: no state of a job")
            words[at] = _state_name(word)
        if key == "account":
            words[at] = word.lower()
    return words


def _state_name(word: str) -> str:
    from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES

    upper = word.upper()
    for name, compact in JOB_STATES:
        if upper in (name, compact):
            return name
    return next(name for _, name, compact in JOB_FLAGS if upper in (name, compact))
