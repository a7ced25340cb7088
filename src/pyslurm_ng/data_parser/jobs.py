"""Jobs as JSON, fast: fields that seldom differ between jobs are encoded once and remembered."""

from operator import itemgetter

from pyslurm_ng.data_parser.envelope import NEWEST
from pyslurm_ng.data_parser.job_keys import KEYS, NUMBER, OWN, SHARED, STATIC, STEP, TEXT, UNIQUE
from pyslurm_ng.data_parser.json_text import encode
from pyslurm_ng.data_parser.records import Table, slices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pyslurm_ng.data_parser.job_keys import Key

    Piece = Callable[[tuple[Any, ...]], str]


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
    def number(value: "int | None") -> str:
        shown, is_set = (0, "false") if value is None else (value, "true")
        return (
            f'{{\n        "set": {is_set},\n        "infinite": false,\n        "number": {shown}\n'
            "      }"
        )

    @staticmethod
    def step(sluid: str, job_id: int) -> str:
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
    def number(value: "int | None") -> str:
        if value is None:
            return '{"set":false,"infinite":false,"number":0}'
        return f'{{"set":true,"infinite":false,"number":{value}}}'

    @staticmethod
    def step(sluid: str, job_id: int) -> str:
        return (
            f'{{"sluid":"{sluid}","job_id":{{"set":true,"infinite":false,"number":{job_id}}},'
            '"step_het_component":{"set":false,"infinite":false,"number":0},"step_id":"entire"}'
        )


_MOST_KNOWN = 10_000
"""Texts that are remembered for one key, or for some that belong together."""
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


def _pieces(keys: "list[Key]", table: Table, cluster: str, layout: Layout) -> "list[Piece]":
    """Return functions from a row to the text of some keys, in order."""
    pieces: list[Piece] = []
    run: list[Key] = []
    for key in keys:
        if key[1] in (STATIC, SHARED):
            run.append(key)
            continue
        if run:
            pieces.append(_shared_piece(run, table, cluster, layout))
            run = []
        pieces.append(_own_piece(key, table, layout))
    if run:
        pieces.append(_shared_piece(run, table, cluster, layout))
    return pieces


def _own_piece(key: "Key", table: Table, layout: Layout) -> "Piece":
    name, kind, fields, make = key
    columns = [table.at[field] for field in fields]
    lead = layout.lead(name)
    pick = itemgetter(*columns)
    if kind == TEXT:
        if name in UNIQUE:
            if len(columns) == 1:
                return lambda row: lead + make(pick(row))
            return lambda row: lead + make(*pick(row))
        if len(columns) == 1:
            return _remembered(pick, lambda value: lead + make(value))
        return _remembered(pick, lambda values: lead + make(*values))
    if kind == STEP:
        step = layout.step
        return lambda row: lead + step(*make(*pick(row)))
    if kind == NUMBER:
        number = layout.number
        if len(columns) == 1:
            return _remembered(pick, lambda value: lead + number(make(value)))
        return _remembered(pick, lambda values: lead + number(make(*values)))
    return _own_object(columns, lambda *values: lead + layout.value(make(*values)))


def _own_object(columns: "list[int]", text_of: "Callable[..., str]") -> "Piece":
    """Return a piece of what a job has allocated; waiting jobs all have nothing."""
    first, rest = columns[0], columns[1:]
    pick_rest = itemgetter(*rest) if len(rest) > 1 else None
    nothing: dict[Any, str] = {}

    def piece(row: "tuple[Any, ...]") -> str:
        rows = row[first]
        others = pick_rest(row) if pick_rest is not None else ()
        if rows:
            return text_of(rows, *others)
        text = nothing.get(others)
        if text is None:
            if len(nothing) > _MOST_KNOWN:
                nothing.clear()
            text = nothing[others] = text_of(rows, *others)
        return text

    return piece


def _remembered(pick: "Callable[[Any], Any]", text_of: "Callable[[Any], str]") -> "Piece":
    """Return a piece that makes the text of a value once: most jobs have most times in common."""
    known: dict[Any, str] = {}

    def piece(row: "tuple[Any, ...]") -> str:
        value = pick(row)
        text = known.get(value)
        if text is None:
            if len(known) > _MOST_KNOWN:
                known.clear()
            text = known[value] = text_of(value)
        return text

    return piece


def _shared_piece(keys: "list[Key]", table: Table, cluster: str, layout: Layout) -> "Piece":
    fields = dict.fromkeys(field for _, kind, names, _ in keys if kind == SHARED for field in names)
    fields.pop("cluster", None)
    columns = [table.at[field] for field in fields]
    known: dict[Any, str] = {}

    def text_of(row: "tuple[Any, ...]") -> str:
        lines = []
        for name, kind, names, make in keys:
            if kind == STATIC:
                value = make
            elif names == ("cluster",):
                value = cluster
            else:
                value = make(*[row[table.at[field]] for field in names])
            lines.append(layout.lead(name) + layout.value(value))
        return layout.between.join(lines)

    if not columns:
        always = text_of(())
        return lambda row: always
    pick = itemgetter(*columns)

    def piece(row: "tuple[Any, ...]") -> str:
        key = pick(row)
        text = known.get(key)
        if text is None:
            if len(known) > _MOST_KNOWN:
                known.clear()
            text = known[key] = text_of(row)
        return text

    return piece


_AT_ONCE = 200


def encode_jobs(
    reply: "dict[str, Any]", layout: Layout = Indented, version: str = NEWEST
) -> "Iterator[str]":
    """Yield the jobs' objects, some hundred at a time: a job is ten thousand characters."""
    keys = keys_of(version)
    field_names = dict.fromkeys(
        field for _, kind, names, _ in keys if kind != STATIC for field in names
    )
    field_names.pop("cluster")
    join, head, end = layout.between.join, layout.head, layout.end
    pieces: list[Piece] = []
    for blob in slices(reply["records"], _AT_ONCE):
        table = Table(reply["fields"], blob, list(field_names))
        pieces = pieces or _pieces(keys, table, reply["cluster_name"], layout)
        yield layout.after.join(
            [head + join([piece(row) for piece in pieces]) + end for row in table.rows]
        )
