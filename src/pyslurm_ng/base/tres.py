"""Trackable resources (TRES) and generic resources (GRES) in Slurm's spellings.

A TRES string is ``cpu=4,mem=4000M,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2``; in code it is a
dict from name to integer, memory in MiB. A GRES request is ``gpu:a100:2`` and its relatives; a
node's GRES is ``gpu:a100:4(S:0-1)``. No floats, no imports: core and commands use it.
"""

from __future__ import annotations

from typing import NamedTuple

from pyslurm_ng.base.units import UnitError, format_mem_mib, parse_count, parse_mem_mib

# The order of Slurm's built-in TRES ids (1 to 8); configured ones follow in configuration order.
BUILTIN_TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_BUILTIN_RANK = {name: rank for rank, name in enumerate(BUILTIN_TRES)}
# TRES types that need a name after a slash.
_NAMED_TYPES = ("gres", "license", "bb", "fs", "ic")
# Their amounts are MiB in the model and carry a memory suffix in text.
_MEMORY_TRES = ("mem", "vmem", "fs/disk")
_MOST_WORDS = 256  # of a request for generic resources
_ALIASES = {"cpus": "cpu", "memory": "mem", "nodes": "node"}


class TresError(ValueError):
    """A TRES or GRES text that cannot be read; the text names the part that is wrong."""


class MixedTypesError(TresError):
    """A resource that is asked for with and without a type."""


class Gres(NamedTuple):
    """One generic resource with the amount that is asked for or that a node has.

    `type_name` is empty when no type was given.
    """

    name: str
    type_name: str
    amount: int

    @property
    def tres_name(self) -> str:
        """The TRES this counts as: ``gres/gpu`` or ``gres/gpu:a100``."""
        tail = f":{self.type_name}" if self.type_name else ""
        return f"gres/{self.name}{tail}"

    def __str__(self) -> str:
        tail = f":{self.type_name}" if self.type_name else ""
        return f"{self.name}{tail}:{self.amount}"


class NodeGres(NamedTuple):
    """One generic resource of a node's configuration line.

    `is_consumed` is false for ``no_consume`` resources; `sockets` is the text after ``S:`` or "".
    """

    name: str
    type_name: str
    amount: int
    is_consumed: bool = True
    sockets: str = ""

    def __str__(self) -> str:
        parts = [self.name]
        if self.type_name:
            parts.append(self.type_name)
        if not self.is_consumed:
            parts.append("no_consume")
        parts.append(str(self.amount))
        tail = f"(S:{self.sockets})" if self.sockets else ""
        return ":".join(parts) + tail


def parse_tres(text: str) -> dict[str, int]:
    """Return the amounts of a TRES string, in its order; memory in MiB.

    Raises:
        TresError: unknown type, missing amount, bad number, a name given twice.
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        word = part.strip()
        if not word:
            continue
        name_text, equals, amount_text = word.rpartition("=")
        if not equals:
            raise TresError(f"{word}: expected type=count")
        name = tres_name(name_text)
        if name in amounts:
            raise TresError(f"{name} given twice")
        amounts[name] = _amount(name, amount_text, word)
    return amounts


def tres_name(text: str) -> str:
    """Return the canonical name of a TRES: lower-case type, ``gres/gpu:a100`` for a typed one.

    Raises:
        TresError: an unknown type, or a type that needs a name without one.
    """
    word = text.strip()
    kind, slash, name = word.partition("/")
    kind = kind.lower()
    if not slash:
        kind = _ALIASES.get(kind, kind)
        if kind in _BUILTIN_RANK:
            return kind
        raise TresError(f"{text}: unknown TRES; known are {', '.join(BUILTIN_TRES)} and TYPE/NAME")
    if kind not in _NAMED_TYPES or not name:
        raise TresError(f"{text}: unknown TRES type; known are {', '.join(_NAMED_TYPES)}")
    return f"{kind}/{name}"


def _amount(name: str, text: str, word: str) -> int:
    try:
        return parse_mem_mib(text.strip(), "KMGTP") if name in _MEMORY_TRES else parse_count(text)
    except UnitError as error:
        raise TresError(f"{word}: {error}") from None


def format_tres(amounts: dict[str, int], alphabetical: bool = False, raw: bool = False) -> str:
    """Return a TRES string; amounts of zero are left out.

    The order is Slurm's ids: built-in types first, the others as the dict has them. `alphabetical`
    is sacct's order. `raw` prints memory as a plain number of MiB with an ``M``.
    """
    names = [name for name, amount in amounts.items() if amount]
    if alphabetical:
        # sacct sorts the finished words, so "gpu:a100=" comes before "gpu=".
        names.sort(key=lambda name: f"{name}=")
    else:
        names.sort(key=lambda name: _BUILTIN_RANK.get(name, len(BUILTIN_TRES)))  # stable
    words = []
    for name in names:
        amount = amounts[name]
        if name in _MEMORY_TRES:
            words.append(f"{name}={amount}M" if raw else f"{name}={format_mem_mib(amount)}")
        else:
            words.append(f"{name}={amount}")
    return ",".join(words)


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return the resources of a request: ``gpu``, ``gpu:2``, ``gpu:a100:2``, ``gres/gpu=1`` lists.

    A count may have a suffix; without a count it is 1. ``none`` and the empty text ask for nothing.
    Of a resource named twice the last count holds, as in Slurm. With and without a type is refused.

    Raises:
        TresError: a text of another shape.
    """
    if text.strip().lower() in ("", "none"):
        return ()
    resources: dict[tuple[str, str], Gres] = {}
    words = text.split(",", _MOST_WORDS)
    if len(words) > _MOST_WORDS:
        raise TresError(f"more than {_MOST_WORDS} generic resources")
    for part in words:
        gres = _parse_one_gres(part.strip())
        resources[gres.name, gres.type_name] = gres
    for name, type_name in resources:
        if type_name and (name, "") in resources:
            raise MixedTypesError(f"{name}: given with and without a type")
    return tuple(gres for gres in resources.values() if gres.amount)


class TresPerTask(NamedTuple):
    """What `--tres-per-task` says: `gpus` as `--gpus-per-task` takes it, `gres` with all others."""

    cpus: int
    gpus: str
    gres: str
    licenses: tuple[tuple[str, int], ...] = ()


def parse_tres_per_task(text: str) -> TresPerTask:
    """Return what `cpu=2,gres/gpu:a100=1,gres/shard=1` says; a colon may replace the equals sign.

    A resource without a count is one: `gres/gpu`, `license/matlab`.

    Raises:
        TresError: a text of another shape, or a resource that tasks cannot have.
    """
    cpus, gpus, others = 0, [], []
    licenses: list[tuple[str, int]] = []
    for word in text.split(","):
        resource, equals, count = word.partition("=")
        if not equals:
            resource, _, count = word.rpartition(":")
            if word.lower().startswith(("gres", "license/")) and not count.isdecimal():
                resource, count = word, "1"
        name_as_written = resource.partition("/")[2]
        resource = resource.lower().replace("gres:", "gres/")
        if not (count.isascii() and count.isdigit() and len(count) < 10 and resource):
            raise TresError(f"{word}: expected cpu=n or gres/name[:type]=n")
        lead, _, name = resource.partition("/")
        kind = name.partition(":")[2]
        if resource == "cpu":
            cpus = int(count)
        elif lead == "license" and _is_name(name.partition("@")[0]):
            licenses.append((name_as_written, int(count)))
        elif lead != "gres":
            raise TresError(f"{resource} is not implemented yet")
        elif not all(_is_name(part) for part in name.split(":", 1)):
            raise TresError(f"{word}: expected cpu=n or gres/name[:type]=n")
        elif name.partition(":")[0] == "gpu":
            gpus.append(f"{kind}:{int(count)}" if kind else str(int(count)))
        else:
            others.append(f"{resource}={int(count)}")
    return TresPerTask(cpus, ",".join(gpus), ",".join(others), tuple(licenses))


def _parse_one_gres(word: str) -> Gres:
    body = word
    lowered = word.lower()
    for lead in ("gres/", "gres:"):
        if lowered.startswith(lead):
            body = word[len(lead) :]
            break
    head, equals, count_text = body.partition("=")
    fields = [*head.split(":"), count_text] if equals else body.split(":")
    if not all(fields) or len(fields) > 3 or not _is_name(fields[0]):
        raise TresError(f"{word}: expected name[:type][:count]")
    if len(fields) == 1:
        return Gres(fields[0], "", 1)
    count = _count_or_none(fields[-1])
    if len(fields) == 2:
        if count is None:
            if equals or not _is_name(fields[1]):
                raise TresError(f"{word}: expected a count after '{fields[0]}'")
            return Gres(fields[0], fields[1], 1)
        return Gres(fields[0], "", count)
    if count is None or not _is_name(fields[1]):
        raise TresError(f"{word}: expected name[:type][:count]")
    return Gres(fields[0], fields[1], count)


def parse_node_gres(text: str) -> tuple[NodeGres, ...]:
    """Return the resources of a node's ``Gres=``: ``gpu:a100:4(S:0-1),lustre:no_consume:4K``.

    Raises:
        TresError: a text of another shape, or the same name and type twice.
    """
    resources: dict[tuple[str, str], NodeGres] = {}
    for word in _split_outside_parentheses(text):
        gres = _parse_one_node_gres(word)
        if (gres.name, gres.type_name) in resources:
            raise TresError(f"{word}: resource given twice")
        resources[gres.name, gres.type_name] = gres
    return tuple(resources.values())


def _parse_one_node_gres(word: str) -> NodeGres:
    body, parenthesis, inside = word.partition("(")
    sockets = ""
    if parenthesis:
        if not inside.endswith(")") or not inside.upper().startswith("S:"):
            raise TresError(f"{word}: expected (S:sockets) after the count")
        sockets = inside[2:-1]
    fields = body.split(":")
    if not all(fields) or not _is_name(fields[0]):
        raise TresError(f"{word}: expected name[:type][:no_consume][:count]")
    name, rest = fields[0], fields[1:]
    count = 1
    if rest:
        last = _count_or_none(rest[-1])
        if last is not None:
            count, rest = last, rest[:-1]
    is_consumed = True
    if rest and rest[-1].lower() == "no_consume":
        is_consumed, rest = False, rest[:-1]
    if len(rest) > 1 or (rest and not _is_name(rest[0])):
        raise TresError(f"{word}: expected name[:type][:no_consume][:count]")
    return NodeGres(name, rest[0] if rest else "", count, is_consumed, sockets)


def _count_or_none(text: str) -> int | None:
    """Return the count that a word spells, or None for a type name (``3g.20gb``, ``a100``)."""
    if not text[:1].isdecimal():
        return None
    try:
        return parse_count(text)
    except UnitError:
        return None


def _is_name(text: str) -> bool:
    return text.isascii() and all(c.isalnum() or c in "_-.+" for c in text) and bool(text)


def _split_outside_parentheses(text: str) -> list[str]:
    words: list[str] = []
    depth = 0
    start = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            words.append(text[start:position])
            start = position + 1
    words.append(text[start:])
    return [word.strip() for word in words if word.strip()]


class TresWeight(NamedTuple):
    """What one TRES weighs: `millionths` for every `per` units (MiB for memory)."""

    name: str
    millionths: int
    per: int

    def of(self, amount: int) -> int:
        """Return the weighted amount in millionths, rounded down."""
        return amount * self.millionths // self.per


def parse_weights(text: str) -> tuple[TresWeight, ...]:
    """Return the weights of ``CPU=1.0,Mem=0.25G,GRES/gpu=2.0`` exactly, without floats.

    A suffix behind a memory weight is the unit it counts in: ``0.25G`` is a quarter per GiB.

    Raises:
        TresError: an unknown TRES, a weight that is no decimal number, a name given twice.
    """
    weights: dict[str, TresWeight] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        name_text, equals, number = word.rpartition("=")
        if not equals:
            raise TresError(f"{word}: expected TRES=weight")
        name = tres_name(name_text)
        per = 1
        if name in _MEMORY_TRES and number[-1:].upper() in ("K", "M", "G", "T", "P"):
            # Memory is counted in MiB: as in Slurm 22.05, K is no smaller unit.
            per = 1024 ** max(0, "KMGTP".index(number[-1].upper()) - 1)
            number = number[:-1]
        sign = -1 if number[:1] == "-" else 1
        unsigned = number[1:] if number[:1] in ("-", "+") else number
        whole, _, fraction = unsigned.partition(".")
        digits = whole + fraction
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise TresError(f"{word}: not a decimal number")
        if name in weights:
            raise TresError(f"{name} given twice")
        millionths = sign * int((whole or "0") + (fraction + "000000")[:6])
        weights[name] = TresWeight(name, millionths, per)
    return tuple(weights.values())
