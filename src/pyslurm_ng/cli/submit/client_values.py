"""Values of options that only salloc and srun have; see option_values."""

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import option_values as ov

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState


def immediate(options: "OptionState", name: str, value: "str | None") -> None:
    """`-I[SECONDS]`: how long the job may wait for its start; without a number not at all."""
    if value is not None and not (value.isascii() and value.isdigit()):
        raise OptionError(f'Invalid numeric value "{value}" for {name}.', 1)
    options.settings[name] = value or ""


def count_or_none(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `-K[0|1]` of srun; every number but 0 means yes."""
    if value:
        ov.number(name, value, 0)
    options.settings[name] = value or ""


def compress(options: "OptionState", name: str, value: "str | None") -> None:
    """`--compress[=lz4|none]`; another type is reported, and the file sent as it is."""
    word = (value or "").lower()
    if word not in ("", "lz4", "none"):
        options.complain_later(
            f"error: Compression type '{value}' unknown, disabling compression support."
        )
        word = "none"
    options.settings[name] = word


def send_libs(options: "OptionState", name: str, value: "str | None") -> None:
    """`--send-libs[=yes|no]`."""
    if value and value.lower() not in ("yes", "no"):
        raise ov.invalid(name)
    options.settings[name] = value or ""


def kill_command(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `-K[SIGNAL]` of salloc."""
    if value and not ov.signal_number(value):
        raise ov.invalid(name)
    options.settings[name] = value or ""


def signals(options: "OptionState", name: str, value: str) -> None:
    """Read a list of signals, by name or number."""
    from pyslurm_ng.base.signal_names import parse_signal

    numbers = [parse_signal(word) for word in value.split(",")]
    if 0 in numbers:
        word = value.split(",")[numbers.index(0)]
        raise OptionError(f"Invalid --{name} specification: {word} is no signal", 1)
    options.settings[name] = ",".join(map(str, numbers))
