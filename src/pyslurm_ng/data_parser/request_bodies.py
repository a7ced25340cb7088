"""Reading the bodies of requests by the schemas: what is unknown, and what has a wrong type."""

from pyslurm_ng.data_parser.schemas import reference, resolved, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.data_parser.schemas import Schema

MOST_COMPLAINTS = 100
MOST_WORDS = 100_000
_MOST_SHOWN = 64
_INTEGERS = {"int32": (-(2**31), 0xFFFF_FFFF), "int64": (-(2**63), 2**64 - 1)}
_SLURM_TYPES = {
    "integer": "64 bit integer", "number": "floating point number", "string": "string",
    "boolean": "boolean", "object": "dictionary", "array": "list", "null": "null",
}  # fmt: skip
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


class Body:
    """A body that was read.

    Attributes:
        value: what is in it, with the types of the schema.
        warnings: fields that are not known, as (text, where).
        errors: values of a wrong type, as (text, where).
    """

    def __init__(self, value: "Any", name: str, version: str) -> None:
        self.warnings: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str]] = []
        self._version = version
        self.value = self._read(value, schema(name, version), name, "#/")

    def _read(self, value: "Any", part: "Schema", name: str, where: str) -> "Any":
        name = reference(part) or name
        part = resolved(part, self._version)
        kind = part.get("type", "string")
        if kind == "object":
            return self._object(value, part, name, where)
        if kind == "array":
            return self._array(value, part, name, where)
        return self._scalar(value, part, kind, where)

    def _object(self, value: "Any", part: "Schema", name: str, where: str) -> "Any":
        properties = part.get("properties", {})
        if set(properties) == {"set", "infinite", "number"} and not isinstance(value, dict):
            return self._optional_number(value, properties["number"], where)
        if not isinstance(value, dict):
            self._wrong(value, "object", "", where)
            return {}
        members = {}
        for key, member in value.items():
            if key in properties:
                members[key] = self._read(member, properties[key], name, f"{where}{key}/")
            else:
                self._unknown(key, member, name, where)
        if set(properties) == {"set", "infinite", "number"}:
            # Who gives a number means it.
            members.setdefault("set", "number" in members)
        return members

    def _optional_number(self, value: "Any", part: "Schema", where: str) -> "Any":
        if isinstance(value, str) and value.lower() in ("infinite", "unlimited"):
            return {"set": False, "infinite": True, "number": 0}
        if value is None:
            return {"set": False, "infinite": False, "number": 0}
        number = self._scalar(value, part, part["type"], where)
        return {"set": True, "infinite": False, "number": number}

    def _array(self, value: "Any", part: "Schema", name: str, where: str) -> "Any":
        element = part.get("items", {})
        is_text = resolved(element, self._version).get("type") == "string"
        if isinstance(value, str) and is_text:
            if value.count(",") > MOST_WORDS:
                self._complain(self.errors, f"at most {MOST_WORDS} words are allowed", where)
                return []
            value = [word for word in value.split(",") if word]
        elif isinstance(value, dict) and is_text:
            value = [f"{key}={text}" for key, text in value.items()]
        if not isinstance(value, list):
            self._wrong(value, "array", "", where)
            return []
        return [
            self._read(member, element, name, f"{where}{index}/")
            for index, member in enumerate(value)
        ]

    def _scalar(self, value: "Any", part: "Schema", kind: str, where: str) -> "Any":
        if kind == "integer":
            number = _integer(value)
            least, most = _INTEGERS.get(part.get("format", "int64"), _INTEGERS["int64"])
            if number is not None and least <= number <= most:
                return number
        elif kind == "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
        elif kind == "boolean":
            truth = _boolean(value)
            if truth is not None:
                return truth
        elif isinstance(value, str) or (
            isinstance(value, int | float) and not isinstance(value, bool)
        ):
            return self._word(str(value), part, where)
        self._wrong(value, kind, part.get("format", ""), where)
        return None

    def _word(self, value: str, part: "Schema", where: str) -> "str | None":
        words = part.get("enum")
        if words is None:
            return value
        for word in words:
            if word.lower() == value.lower():
                return str(word)
        self._complain(self.errors, f'Unknown flag "{_cut(value)}"', where)
        return None

    def _wrong(self, value: "Any", kind: str, form: str, where: str) -> None:
        got = _kind_of(value)
        expected = f"type={kind} format={form}" if form else f"type={kind}"
        shown = f': "{_cut(value)}"' if isinstance(value, str) else ""
        text = (
            f"Expected OpenAPI {expected} (Slurm type={_SLURM_TYPES[kind]}) but got OpenAPI "
            f"type={got} (Slurm type={_SLURM_TYPES[got]}){shown}"
        )
        self._complain(self.errors, text, where)

    def _unknown(self, key: str, value: "Any", name: str, where: str) -> None:
        text = (
            f'Ignoring unknown field "{_cut(key)}" of type {_kind_of(value)} in '
            f"DATA_PARSER_{name.upper()}"
        )
        self._complain(self.warnings, text, f"{where}{_cut(key)}/")

    @staticmethod
    def _complain(lines: "list[tuple[str, str]]", text: str, where: str) -> None:
        if len(lines) < MOST_COMPLAINTS:
            lines.append((text, where))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _kind_of(value: "Any") -> str:
    for types, kind in (
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object"),
        (list, "array"),
    ):  # fmt: skip
        if isinstance(value, types):
            return kind
    return "null"


def _integer(value: "Any") -> "int | None":
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value) if len(value) <= 20 else None
    return None


def _boolean(value: "Any") -> "bool | None":
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    return None
