"""Slurm's words for values that a key of `scontrol update partition` does not take.

The controller says which key it refuses; these are the words for it.
"""

from pyslurm_ng.base.numbers import NO_VAL

_YES_OR_NO = frozenset(
    "default disablerootjobs exclusivetopo exclusiveuser hidden lln powerdownonidle reqresv "
    "rootonly".split()
)
_WORDS = {
    "state": "UP, DOWN, DRAIN and INACTIVE",
    "oversubscribe": "NO, EXCLUSIVE, YES:#, and FORCE:#",
}
_SHORTENED = {
    **dict.fromkeys(_YES_OR_NO, ("YES", "NO")),
    "state": ("UP", "DOWN", "DRAIN", "INACTIVE"),
    "oversubscribe": ("NO", "EXCLUSIVE", "YES", "FORCE"),
}
"""Words that scontrol takes shortened; of several that begin alike the first is meant."""
_PLAIN = frozenset(("maxtime", "defaulttime", "cpubind"))
_NO_MINUS = frozenset(
    "defcpupergpu defmempercpu defmempergpu defmempernode gracetime maxcpuspernode "
    "maxcpuspersocket maxmempercpu maxmempernode maxnodes overtimelimit".split()
)
"""Keys of which slurm.conf takes -1 for no limit, but scontrol does not."""
_MOST = NO_VAL - 1


def is_refused(name: str, value: str) -> bool:
    """Return whether scontrol does not take what slurm.conf would take."""
    if name == "gracetime" and value.isdecimal():
        return int(value) > _MOST
    if name == "cpubind" and not value:
        return True  # `off` is what takes it away
    return name in _NO_MINUS and value.startswith("-")


def complaint(name: str, shown: str, word: str) -> str:
    """Return the words for a key and its word as typed.

    Args:
        name: the key in lower case; `shown` is the same as messages write it.
    """
    value = word.partition("=")[2]
    if name == "tresbillingweights":
        return "slurm_update error: Invalid TRESBillingWeights specification"
    if name == "minnodes":
        return f'scontrol: error: "{value}" is not a valid node count'
    if name == "maxnodes":
        if value.isdecimal():
            return f"scontrol: error: Numeric argument ({value}) to big for MaxNodes."
        return f'scontrol: error: Invalid numeric value "{value}" for MaxNodes.'
    if name in _PLAIN:
        return f"scontrol: error: Invalid input {word}"
    if name == "preemptmode":
        return f"scontrol: error: Invalid input: {word}"
    allowed = "YES and NO" if name in _YES_OR_NO else _WORDS.get(name, "")
    if allowed:
        return (
            f"scontrol: error: Invalid input: {word}\n"
            f"scontrol: error: Acceptable {shown} values are {allowed}"
        )
    return f"scontrol: error: Invalid {shown} value: {value}"


def plain(name: str, value: str) -> str:
    """Return a value as slurm.conf writes it: counts without suffix, words in full."""
    if name in _SHORTENED and value:
        word, colon, count = value.partition(":")
        meant = [full for full in _SHORTENED[name] if full.startswith(word.upper())] if word else []
        return f"{meant[0]}{colon}{count}" if meant else value
    if name in ("maxnodes", "minnodes") and value[-1:] in ("k", "K", "m", "M"):
        digits = value[:-1]
        return (
            str(int(digits) << (10 if value[-1] in "kK" else 20)) if digits.isdecimal() else value
        )
    if name != "cpubind":
        return value
    return "" if value.lower() == "off" else value.removesuffix("s")


def job_defaults(word: str) -> "dict[str, str]":
    """Return the keys that `JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=100` stands for; {} for none.

    The key replaces all of them, so those that are not named end.
    """
    settings = {"defcpupergpu": "0", "defmempergpu": "0"}
    for setting in filter(None, word.split(",")):
        key, equals, value = setting.partition("=")
        if key.lower() not in settings or not equals or not value.isdecimal():
            return {}
        settings[key.lower()] = value
    return settings
