"""Values of options without an effect here: Slurm's texts for bad ones, a refusal for others."""

from pyslurm_ng.base import units
from pyslurm_ng.cli.option_words import OptionError

SERIES = ("all", "energy", "task", "lustre", "filesystem", "network", "none")
"""What --profile may name; only `none` is obeyed, since no series are collected."""
_GOVERNORS = ("conservative", "ondemand", "performance", "powersave", "schedutil", "userspace")
_CPU_STEPS = ("low", "medium", "high", "highm1")
_GPU_STEPS = ("low", "medium", "high", "highm1")


def check(name: str, value: str) -> None:
    """Refuse a value that Slurm refuses, too; others are refused by the option's name later.

    Raises:
        OptionError: the value has the wrong form.
    """
    checks = {"cpu-freq": _cpu_freq, "gpu-freq": _gpu_freq, "delay-boot": _delay_boot}
    checks[name](value)


def profile_is_none(value: str) -> bool:
    """Return whether --profile asks for nothing.

    Raises:
        OptionError: a word that is no series.
    """
    words = value.lower().split(",")
    if any(word not in SERIES for word in words):
        raise OptionError(f"invalid --profile={value} option")
    return set(words) == {"none"}


def _delay_boot(value: str) -> None:
    try:
        units.parse_time_limit_s(value)
    except units.UnitError:
        raise OptionError("Invalid --delay-boot specification") from None


def _cpu_freq(value: str) -> None:
    """`min[-max][:governor]`, or a governor alone."""
    span, colon, governor = value.lower().partition(":")
    words = span.split("-")
    is_span = len(words) < 3 and all(word.isdigit() or word in _CPU_STEPS for word in words)
    is_known = is_span or (span in _GOVERNORS and not colon)
    if not is_known or (colon and governor not in _GOVERNORS):
        text = f'unrecognized --cpu-freq argument "{value}"\nInvalid --cpu-freq argument'
        raise OptionError(text)


def _gpu_freq(value: str) -> None:
    """`[memory=]low|medium|high|highm1|MHz` lists, and `verbose`."""
    for part in value.lower().split(","):
        kind, equals, step = part.rpartition("=")
        is_kind = kind in ("gpu", "memory") if equals else True
        if part != "verbose" and not (is_kind and (step.isdigit() or step in _GPU_STEPS)):
            raise OptionError(f"Invalid --gpu-freq argument: gpu:{value}")
