"""Signal names as users type them; Linux's numbers, the same on every machine we run on."""

SIGNALS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "ILL": 4,
    "TRAP": 5,
    "ABRT": 6,
    "BUS": 7,
    "FPE": 8,
    "KILL": 9,
    "USR1": 10,
    "SEGV": 11,
    "USR2": 12,
    "PIPE": 13,
    "ALRM": 14,
    "TERM": 15,
    "STKFLT": 16,
    "CHLD": 17,
    "CONT": 18,
    "STOP": 19,
    "TSTP": 20,
    "TTIN": 21,
    "TTOU": 22,
    "URG": 23,
    "XCPU": 24,
    "XFSZ": 25,
    "VTALRM": 26,
    "PROF": 27,
    "WINCH": 28,
    "IO": 29,
    "PWR": 30,
    "SYS": 31,
}
HIGHEST = 64


def parse_signal(text: str) -> int:
    """Return the number of `USR1`, `SIGUSR1`, `usr1` or `10`; 0 for no signal."""
    word = text.strip().upper()
    if word.isdecimal() and len(word) <= 2:
        number = int(word)
        return number if number <= HIGHEST else 0
    return SIGNALS.get(word.removeprefix("SIG"), 0)


def signal_name(number: int) -> str:
    """Return `USR1` for 10; the number itself where it has no name."""
    for name, known in SIGNALS.items():
        if known == number:
            return name
    return str(number)
