"""Hosts with ports, as keys of the configuration name them."""

HIGHEST_PORT = 65_535


def host_and_port(word: str, port: int) -> "tuple[str, int]":
    """Return the host and port that `HOST` or `HOST:PORT` names; without one it is `port`.

    Raises:
        ValueError: with what is wrong, in a few words.
    """
    host, colon, text = word.partition(":")
    if colon:
        port = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    if not host or not 0 < port <= HIGHEST_PORT:
        raise ValueError(f"'{word}' is no address: HOST or HOST:PORT is allowed")
    return host, port
