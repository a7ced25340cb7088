"""The grammar of options that are kept and not obeyed, with Slurm's texts for bad values."""

from pyslurm_ng.base.request_words import series_of
from pyslurm_ng.cli.option_words import OptionError

_CPU_STEPS = ("low", "medium", "high", "highm1")
_GOVERNORS = {
    "conservative": "Conservative",
    "ondemand": "OnDemand",
    "performance": "Performance",
    "powersave": "PowerSave",
    "schedutil": "SchedUtil",
    "userspace": "UserSpace",
}
_GPU_STEPS = ("low", "medium", "high", "highm1")


def series(value: str) -> str:
    """Return the series that --profile names as Slurm shows them: `Energy,Task`.

    `none` outweighs all others.

    Raises:
        OptionError: a word that is no series.
    """
    try:
        names = series_of(value)
    except ValueError:
        raise OptionError(f"invalid --profile={value} option") from None
    return ",".join(name.capitalize() for name in names) or "None"


def cpu_frequency(value: str) -> str:
    """Return --cpu-freq as SLURM_CPU_FREQ_REQ shows it: `Low-High:OnDemand`, `1000`.

    It is a number of kHz or a step, or two of them with a governor, or a governor alone.

    Raises:
        OptionError: it has another form, in Slurm's words.
    """
    span, colon, governor = value.lower().partition(":")
    if span in _GOVERNORS:
        if colon:
            text = f"governor cannot be specified twice {span}{{-}}:{governor} in --cpu-freq"
            raise _bad_frequency(text)
        return _GOVERNORS[span]
    low, dash, high = span.partition("-")
    for word in (low, high) if dash else (low,):
        if word not in _CPU_STEPS and not (word.isdecimal() and int(word)):
            raise _bad_frequency(f'unrecognized --cpu-freq argument "{word}"')
    if not dash and colon:
        raise _bad_frequency(f"gov on cpu-frec ({governor}) illegal without max")
    if dash and _rank(low) >= _rank(high):
        raise _bad_frequency(f"min cpu-frec ({low}) must be < max cpu-freq ({high})")
    if colon and governor not in _GOVERNORS:
        raise _bad_frequency(f"illegal governor: {governor} on --cpu-freq")
    tail = f":{_GOVERNORS[governor]}" if colon else ""
    return "-".join(word.capitalize() for word in span.split("-")) + tail


def _rank(word: str) -> "tuple[bool, int]":
    """Return what frequencies are compared by: steps lie above all numbers, as in Slurm."""
    return (False, int(word)) if word.isdecimal() else (True, _CPU_STEPS.index(word))


def _bad_frequency(why: str) -> OptionError:
    return OptionError(f"{why}\nInvalid --cpu-freq argument")


def governor_error(value: str, allowed: str) -> str:
    """Return why slurm.conf's CpuFreqGovernors, "" for its default, excludes a governor, or ""."""
    governor = value.rpartition(":")[2]
    names = (allowed or "OnDemand,Performance,UserSpace").lower().split(",")
    if governor not in _GOVERNORS.values() or governor.lower() in names:
        return ""
    return f"governor of {governor} is not allowed in slurm.conf\nInvalid --cpu-freq argument"


def check_gpu_frequency(value: str) -> None:
    """Refuse what is no `[memory=]low|medium|high|highm1|MHz` list, with or without `verbose`.

    Raises:
        OptionError: in Slurm's words.
    """
    for part in value.lower().split(","):
        kind, equals, step = part.rpartition("=")
        is_kind = kind == "memory" if equals else True
        if part != "verbose" and not (is_kind and (step.isdecimal() or step in _GPU_STEPS)):
            raise OptionError(f"Invalid --gpu-freq argument: gpu:{value}")
