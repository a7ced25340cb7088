"""Jobs as JSON, fast: a kernel puts them together of texts that most jobs have in common."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser.envelope import NEWEST
from pyslurm_ng.data_parser.job_keys import (
    COUNT,
    FILE,
    KEYS,
    MOMENT,
    NUMBER,
    OWN,
    PLACES_OF_FILE,
    SHARED,
    STATIC,
    STEP,
    WORD,
)
from pyslurm_ng.data_parser.json_text import encode, quote
from pyslurm_ng.data_parser.records import Row
from pyslurm_ng.kernels.records import Number, RecordTexts, Remembered, StepOfJob, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pyslurm_ng.data_parser.job_keys import Key
    from pyslurm_ng.kernels.records import Part


class Indented:
    """The layout of commands: a key on each line."""

    between = ",\n"
    head, end, after = "{\n", "\n    }", ",\n    "

    @staticmethod
    def lead(name: str) -> str:
        return f'      "{name}": '

    @staticmethod
    def value(value: "Any") -> str:
        return encode(value, 3)

    @staticmethod
    def number(value: "int | str | None") -> str:
        shown, is_set = (0, "false") if value is None else (value, "true")
        return (
            f'{{\n        "set": {is_set},\n        "infinite": false,\n        "number": {shown}\n'
            "      }"
        )

    @staticmethod
    def step(sluid: str, job_id: "int | str") -> str:
        return (
            f'{{\n        "sluid": "{sluid}",\n        "job_id": {{\n          "set": true,\n'
            f'          "infinite": false,\n          "number": {job_id}\n        }},\n'
            '        "step_het_component": {\n          "set": false,\n'
            '          "infinite": false,\n'
            '          "number": 0\n        },\n        "step_id": "entire"\n      }'
        )


class Compact:
    """The layout of slurmrestd: no blanks."""

    between = ","
    head, end, after = "{", "}", ","

    @staticmethod
    def lead(name: str) -> str:
        return f'"{name}":'

    @staticmethod
    def value(value: "Any") -> str:
        from msgspec.json import encode as encode_json

        return encode_json(value).decode()

    @staticmethod
    def number(value: "int | str | None") -> str:
        if value is None:
            return '{"set":false,"infinite":false,"number":0}'
        return f'{{"set":true,"infinite":false,"number":{value}}}'

    @staticmethod
    def step(sluid: str, job_id: "int | str") -> str:
        return (
            f'{{"sluid":"{sluid}","job_id":{{"set":true,"infinite":false,"number":{job_id}}},'
            '"step_het_component":{"set":false,"infinite":false,"number":0},"step_id":"entire"}'
        )


_MARK = "\0"
Layout = type[Indented] | type[Compact]


def keys_of(version: str) -> "list[Key]":
    """Return the keys of a version, with values as it has them."""
    if version == NEWEST:
        return list(KEYS)
    from pyslurm_ng.data_parser.schemas import conform, empty, schema

    properties = schema("job_info", version)["properties"]
    keys: list[Key] = []
    for name, kind, fields, make in KEYS:
        if name not in properties:
            continue
        part = properties[name]
        if kind == STATIC:
            make = conform(make, part, version)
        elif kind in (SHARED, OWN):
            make = _conforming(make, part, version)
        keys.append((name, kind, fields, make))
    names = {key[0] for key in keys}
    keys += [
        (name, STATIC, (), empty(part, version))
        for name, part in properties.items()
        if name not in names
    ]
    return keys


def _conforming(make: "Any", part: "dict[str, Any]", version: str) -> "Any":
    from pyslurm_ng.data_parser.schemas import conform

    return lambda *values: conform(make(*values), part, version)


class _Parts:
    """The parts of a job's text, as `RecordTexts` takes them.

    Args:
        where: the position of each field in a record.
    """

    def __init__(self, where: "Row", cluster: str, layout: Layout) -> None:
        self._where = where
        self._cluster = cluster
        self._layout = layout
        self._sign = layout.head

    def of(self, keys: "list[Key]") -> "Iterator[Part]":
        """Yield the parts of keys, in order; keys that records share side by side are one."""
        run: list[Key] = []
        for key in keys:
            if key[1] in (STATIC, SHARED):
                run.append(key)
                continue
            if run:
                yield self._shared(run)
                run = []
            yield self._single(key)
        if run:
            yield self._shared(run)

    def _lead(self, name: str) -> str:
        """Return what stands before a value."""
        lead = self._sign + self._layout.lead(name)
        self._sign = self._layout.between
        return lead

    def _places(self, fields: "tuple[str, ...]") -> "tuple[int, ...]":
        return tuple(self._where[field] for field in fields)

    def _single(self, key: "Key") -> "Part":
        name, kind, fields, make = key
        layout, places, lead = self._layout, self._places(fields), self._lead(name)
        if kind == COUNT:
            return Number(lead.encode(), places, 1, b"")
        if kind == WORD:
            return Text(lead.encode(), places[0], quote)
        if kind == MOMENT:
            begin, end = (lead + layout.number(_MARK)).encode().split(_MARK.encode())
            return Number(begin, places, SECOND_US, end)
        if kind == STEP:
            begin, middle, end = (lead + layout.step(_MARK, _MARK)).encode().split(_MARK.encode())
            return StepOfJob(begin, places, middle, end)
        if kind == NUMBER:
            make = _chained(make, layout.number)
        elif kind == OWN:
            make = _chained(make, layout.value)

        def text(*values: "Any") -> bytes:
            return (lead + make(*values)).encode()  # type: ignore[no-any-return]

        if kind == FILE:
            return Remembered(places[:PLACES_OF_FILE], _of_plain_name(text), places, text)
        return Remembered(places, text)

    def _shared(self, keys: "list[Key]") -> "Part":
        fields = dict.fromkeys(name for key in keys if key[1] == SHARED for name in key[2])
        fields.pop("cluster", None)
        at = {field: number for number, field in enumerate(fields)}
        leads = [self._lead(key[0]) for key in keys]
        value_of, cluster = self._layout.value, self._cluster

        def text(*values: "Any") -> bytes:
            words: list[str] = []
            for lead, (_, kind, names, make) in zip(leads, keys, strict=True):
                if kind == STATIC:
                    value = make
                elif names == ("cluster",):
                    value = cluster
                else:
                    value = make(*[values[at[field]] for field in names])
                words += (lead, value_of(value))
            return "".join(words).encode()

        return Remembered(self._places(tuple(fields)), text)


_ONE_JOB, _ANOTHER = (1, 1, "a", "a", "a"), (2, 2, "b", "b", "b")
"""What replaces patterns in names of files: all of it differs."""


def _of_plain_name(text_of: "Callable[..., bytes]") -> "Callable[..., bytes | None]":
    """Return what makes the text of a file's name without patterns, None for one with."""

    def text(*where: "Any") -> "bytes | None":
        plain = text_of(*where, *_ONE_JOB)
        return plain if plain == text_of(*where, *_ANOTHER) else None

    return text


def _chained(make: "Callable[..., Any]", text_of: "Callable[[Any], str]") -> "Callable[..., str]":
    return lambda *values: text_of(make(*values))


_AT_ONCE = 50
"""Their text is about 240 KB: larger ones slurmrestd would take from the kernel anew each time."""


def encode_jobs(
    reply: "dict[str, Any]", layout: Layout = Indented, version: str = NEWEST
) -> "Iterator[bytes]":
    """Yield the jobs' objects, some at a time: a job is five to ten thousand characters."""
    where = Row((name, index) for index, name in enumerate(reply["fields"]))
    parts = _Parts(where, reply["cluster_name"], layout).of(keys_of(version))
    texts = RecordTexts(reply["records"], parts, layout.end.encode(), layout.after.encode())
    while records := texts.next(_AT_ONCE):
        yield records
