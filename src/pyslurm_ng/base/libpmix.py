"""The library of PMIx, if this host has one: an optional part, loaded only where it is needed."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes

NAME = "libpmix.so.2"
"""Of versions 3 to 5 and later; the loader knows where it is."""


def load() -> "ctypes.CDLL":
    """Return the library. Raises OSError if there is none."""
    import ctypes

    return ctypes.CDLL(NAME, mode=ctypes.RTLD_GLOBAL)


def major() -> int:
    """Return the library's first number, as 4 of 4.2.2; 0 if there is none."""
    import ctypes

    try:
        library = load()
        library.PMIx_Get_version.restype = ctypes.c_char_p
        text = library.PMIx_Get_version() or b""
    except (OSError, AttributeError):
        return 0
    for word in text.decode("ascii", "replace").split():
        number = word.partition(".")[0].removesuffix(",")
        if number.isdecimal():
            return int(number)
    return 0
