"""The grammar of --gpu-bind, `[verbose,]kind[:list]`, and of --tres-bind, which names it too.

After a kind without a list `,verbose` may also stand behind.
"""

_LISTS = {"map": 10, "map_gpu": 10, "mask": 16, "mask_gpu": 16}
_COUNTS = ("single", "per_task")
_VERBOSE = "verbose,"
_VERBOSE_BEHIND = ",verbose"


class GpuBindError(ValueError):
    """A word that cannot be read; the text is Slurm's."""


class GpuBind:
    """How tasks share the GPUs of their step on a node.

    kind: none, closest, single, per_task, map or mask; "" if the option says nothing.
    numbers: the count of `single` and `per_task`, else the list.
    word: the option as given, without `verbose,`.
    """

    __slots__ = ("is_verbose", "kind", "numbers", "word")

    def __init__(
        self,
        kind: str = "",
        numbers: "tuple[int, ...]" = (),
        word: str = "",
        *,
        is_verbose: bool = False,
    ) -> None:
        self.kind = kind
        self.numbers = numbers
        self.word = word
        self.is_verbose = is_verbose


def parse_gpu_bind(text: str) -> GpuBind:
    """Return what --gpu-bind says.

    Raises:
        GpuBindError: an unknown kind, or words that are no numbers.
    """
    is_verbose = text.lower().startswith(_VERBOSE)
    word = text[len(_VERBOSE) :] if is_verbose else text
    kind, colon, value = word.partition(":")
    kind = kind.lower()
    if kind not in _LISTS and word.lower().endswith(_VERBOSE_BEHIND):
        is_verbose = True
        word = word[: -len(_VERBOSE_BEHIND)]
        kind, colon, value = word.lower().partition(":")
    if kind in ("none", "closest") and not colon:
        return GpuBind(kind, (), word, is_verbose=is_verbose)
    if kind in _COUNTS and value.isascii() and value.isdigit() and len(value) < 10:
        return GpuBind(kind, (int(value),), word, is_verbose=is_verbose)
    if kind in _LISTS and colon:
        numbers = tuple(_listed(value, _LISTS[kind], text))
        return GpuBind(kind.removesuffix("_gpu"), numbers, word, is_verbose=is_verbose)
    raise _invalid(text)


def _invalid(text: str, detail: str = "") -> GpuBindError:
    """Return Slurm's error, which names the resource that the option is about."""
    return GpuBindError(f"{detail}Invalid --gpu-bind argument: gpu:{text}")


def _listed(value: str, base: int, text: str) -> "list[int]":
    """Return the numbers of a list in which `0x3*2` means `0x3,0x3`."""
    numbers: list[int] = []
    for part in filter(None, value.split(",")):
        word, star, times = part.partition("*")
        digits = word.lower().removeprefix("0x") if base == 16 else word
        try:
            number = int(digits if digits.isalnum() else "-", base)
            count = int(times) if star else 1
        except ValueError:
            raise _invalid(text, _offence(part, base)) from None
        if count < 1 or count > 65536:
            raise _invalid(text)
        numbers += [number] * count
    return numbers


def _offence(part: str, base: int) -> str:
    """Return the line that names the first character of a part that its form does not allow."""
    shown = part[2:] if base == 16 and part.lower().startswith("0x") else part
    allowed = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    rest = shown.lstrip(allowed)
    if rest[:1] == "*":
        rest = rest[1:].lstrip("0123456789")
    if rest[:1] in ("", "*"):
        return ""
    return f"Failed to validate {shown}, offending character is {rest[0]}\n"


def gpu_part(tres_bind: str) -> str:
    """Return what --tres-bind says of GPUs in the words of --gpu-bind; "" if it says nothing.

    Raises:
        GpuBindError: a part without the name of a resource, or an unknown binding.
    """
    gpu_value = ""
    for part in filter(None, tres_bind.split("+")):
        name, colon, value = part.partition(":")
        try:
            parse_gpu_bind(value)
        except GpuBindError:
            colon = ""
        if not colon or not name.removeprefix("gres/"):
            raise GpuBindError(f"Invalid --tres-bind argument: {tres_bind}")
        if name in ("gres/gpu", "gpu"):
            gpu_value = value
    return gpu_value
