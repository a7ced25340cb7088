"""The grammar of --cpu-bind and --mem-bind: `[quiet|verbose,]kind[:list]`, as SLURM_*_BIND has it.

A list ends at the first word that is no number, so `map_cpu:0,1,verbose` is a list of two. A number
may be repeated with `*`: `0*2,1` is `0,0,1`.
"""

CPU_LISTS = ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom")
MEM_LISTS = ("map_mem", "mask_mem")
_CPU_KINDS = {
    "no": "none", "none": "none", "rank": "rank", "rank_ldom": "rank_ldom",
    "socket": "sockets", "sockets": "sockets", "core": "cores", "cores": "cores",
    "thread": "threads", "threads": "threads", "ldom": "ldoms", "ldoms": "ldoms",
}  # fmt: skip
_MEM_KINDS = {"no": "none", "none": "none", "rank": "rank", "local": "local"}
_LOUDNESS = {"q": False, "quiet": False, "v": True, "verbose": True}
_HEX = set("0123456789abcdef")
_MOST_NUMBERS = 65536
_MOST_DIGITS = 1024


class BindWordsError(ValueError):
    """A word of --cpu-bind or --mem-bind that cannot be read; the text is Slurm's."""


class BindWords:
    """What --cpu-bind or --mem-bind says.

    kind: the full word; "" if the option holds only quiet or verbose.
    values: the list's numbers: decimal for maps unless they begin with 0x, hexadecimal without 0x
        for masks.
    flags: `one_thread` of --cpu-bind; `prefer` and `sort` of --mem-bind.
    """

    __slots__ = ("flags", "is_help", "is_verbose", "kind", "values")

    def __init__(self) -> None:
        self.kind = ""
        self.values: list[str] = []
        self.flags: set[str] = set()
        self.is_verbose = False
        self.is_help = False

    @property
    def kind_text(self) -> str:
        """What SLURM_CPU_BIND_TYPE and SLURM_MEM_BIND_TYPE show."""
        return f"{self.kind}:" if self.values else self.kind

    @property
    def list_text(self) -> str:
        """What SLURM_CPU_BIND_LIST and SLURM_MEM_BIND_LIST show."""
        return ",".join(self.values)

    @property
    def loudness(self) -> str:
        """What SLURM_CPU_BIND_VERBOSE and SLURM_MEM_BIND_VERBOSE show."""
        return "verbose" if self.is_verbose else "quiet"

    def text(self) -> str:
        """Return the text that reads as this value again."""
        listed = self.kind_text + self.list_text
        return ",".join([self.loudness, *sorted(self.flags), *([listed] if listed else [])])

    def numbers(self) -> "list[int]":
        """Return the list; masks as bits."""
        is_mask = self.kind.startswith("mask")
        return [int(value, 16 if is_mask or value.startswith("0x") else 10) for value in
                self.values]  # fmt: skip


def cpu_bind(text: str) -> BindWords:
    """Return what --cpu-bind says.

    Raises:
        BindWordsError: an unknown word.
    """
    return _read(text, "cpu-bind", _CPU_KINDS, CPU_LISTS, {"one_thread": "one_thread"})


def mem_bind(text: str) -> BindWords:
    """Read --mem-bind.

    Raises:
        BindWordsError: an unknown word.
    """
    flags = {"p": "prefer", "prefer": "prefer", "sort": "sort", "nosort": ""}
    return _read(text, "mem-bind", _MEM_KINDS, MEM_LISTS, flags)


def _read(
    text: str,
    option: str,
    kinds: "dict[str, str]",
    lists: "tuple[str, ...]",
    flags: "dict[str, str]",
) -> BindWords:
    binding = BindWords()
    words = text.split(",") if text else []
    while words:
        word = words.pop(0)
        lowered = word.lower()
        head = lowered.partition(":")[0]
        if lowered in _LOUDNESS:
            binding.is_verbose = _LOUDNESS[lowered]
        elif lowered == "help":
            binding.is_help = True
        elif lowered in flags:
            binding.flags.add(flags[lowered])
        elif lowered in kinds:
            binding.kind, binding.values = kinds[lowered], []
        elif head in lists:
            binding.kind, binding.values = head, _list(lowered, option, words)
        else:
            raise BindWordsError(f'unrecognized --{option} argument "{word}"')
    binding.flags.discard("")
    return binding


def _list(first: str, option: str, words: "list[str]") -> "list[str]":
    """Return the numbers of a list, and take the words that belong to it off `words`."""
    kind, _, value = first.partition(":")
    if not value:
        raise BindWordsError(f'missing list for "--{option}={kind}:<list>"')
    is_mask = kind.startswith("mask")
    values = _repeated(value, is_mask)
    while words and _is_number(words[0].lower(), is_mask):
        values += _repeated(words.pop(0).lower(), is_mask)
        if len(values) > _MOST_NUMBERS:
            raise BindWordsError(f"--{option}={kind}: at most {_MOST_NUMBERS} numbers are allowed")
    return values


def _is_number(text: str, is_mask: bool) -> bool:
    digits = text.partition("*")[0]
    return digits[:1].isdecimal() or (is_mask and digits != "" and set(digits) <= _HEX)


def _repeated(text: str, is_mask: bool) -> "list[str]":
    number, star, times = text.partition("*")
    digits = number.removeprefix("0x")
    is_hex = is_mask or digits != number
    _validate(digits, number, _HEX if is_hex else set("0123456789"))
    if star:
        _validate(times, times, set("0123456789"))
    # A list longer than a node has tasks is a mistake; the caller names the limit.
    count = min(int(times[:9]), _MOST_NUMBERS + 1) if star else 1
    return [digits if is_mask else number] * count


def _validate(digits: str, shown: str, allowed: "set[str]") -> None:
    if len(digits) > _MOST_DIGITS:
        raise BindWordsError(
            f"a number of {len(digits)} digits; at most {_MOST_DIGITS} are allowed"
        )
    wrong = next((letter for letter in digits if letter not in allowed), "")
    if wrong or not digits:
        raise BindWordsError(
            f"Failed to validate number: {shown}, the offending character is {wrong}"
        )
