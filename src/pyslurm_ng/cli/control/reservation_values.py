"""Slurm's words for values that a key of a reservation does not take."""


def complaint(key: str, word: str, value: str) -> str:
    """Return what is wrong with a value, or "".

    Args:
        key: in lower case.
        word: as typed, with the value.
    """
    if key in ("duration", "maxstartdelay"):
        return "" if _is_time(value) else f"Invalid duration {word}"
    if key == "nodecnt":
        return "" if _are_counts(value, "kKmM") else f"Invalid node count {value}"
    if key == "corecnt":
        return "" if _are_counts(value) else f"Invalid core count {value}"
    if key == "tres":
        return next(filter(None, map(_of_tres, value.split(","))), "")
    return ""


def ends_line(key: str) -> bool:
    """Return whether Slurm says after a complaint that nothing was done."""
    return key in ("duration", "maxstartdelay")


def _is_time(value: str) -> bool:
    from pyslurm_ng.base.units import UnitError, parse_time_limit_s

    if value == "-1":
        return True
    try:
        parse_time_limit_s(value)
    except UnitError:
        return False
    return True


def _are_counts(value: str, suffixes: str = "") -> bool:
    """Return whether a text is a number, or one for each node; one of `suffixes` may follow."""
    words = [word[:-1] if word[-1:] and word[-1] in suffixes else word for word in value.split(",")]
    return not value or all(word.isascii() and word.isdigit() for word in words)


def _of_tres(part: str) -> str:
    name, equals, count = part.partition("=")
    if not part or part.isdecimal():
        return ""  # the CPUs of one more node
    if not equals:
        return f"invalid TRES '{part}'"
    if name.lower() not in _COUNTED and not name.lower().startswith(_NAMED):
        return f"couldn't identify configured TRES '{name}'"
    is_number = count.isascii() and count.isdigit()
    return f"invalid TRES {name} value '{count}'" if name in _COUNTED and not is_number else ""


_COUNTED = ("cpu", "node")
_NAMED = ("gres/", "license/", "lic/", "bb/", "gres:", "gpu")


def are_groups(value: str) -> bool:
    """Return whether all names of a list are groups; a name may begin with a sign."""
    import grp

    for name in filter(None, value.split(",")):
        try:
            grp.getgrnam(name.lstrip("+-"))
        except (KeyError, ValueError):
            return False
    return True
