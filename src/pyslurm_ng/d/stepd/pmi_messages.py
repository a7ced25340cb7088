"""The messages of PMI-1 and PMI-2, which MPI libraries send over the descriptor of PMI_FD.

PMI-1 has lines `cmd=put key=k value=v`, and spawn has several, from `mcmd=spawn` to `endcmd`. PMI-2
has a length in six characters, then `cmd=kvs-put;key=k;value=v;`, and `;;` stands for a semicolon
in a value. Each begins with a line of PMI-1, `cmd=init`, which says which version follows.
"""

MOST_MESSAGE_BYTES = 128 << 10
_LENGTH_BYTES = 6
_SEMICOLON = b"\0"

Command = tuple[str, "dict[str, str]"]
"""The name and the other fields."""


class BadPmiMessage(Exception):
    """The bytes are no message of PMI."""


class PmiInput:
    """Takes bytes of one client as they come and gives whole commands.

    Attributes:
        is_v2: whether the client speaks PMI-2.
    """

    def __init__(self) -> None:
        self.is_v2 = False
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._buffer += data

    def take(self) -> "Command | None":
        """Return the next command; None if it is not complete. Raises BadPmiMessage."""
        command = self._take_v2() if self.is_v2 else self._take_v1()
        if command is None:
            if len(self._buffer) > MOST_MESSAGE_BYTES:
                raise BadPmiMessage(f"longer than {MOST_MESSAGE_BYTES} bytes")
            return None
        if command[0] == "init" and command[1].get("pmi_version") == "2":
            self.is_v2 = True
        return command

    def _take_v1(self) -> "Command | None":
        is_long = self._buffer.startswith(b"mcmd=")
        end_mark = b"\nendcmd\n" if is_long else b"\n"
        end = self._buffer.find(end_mark)
        if end < 0:
            if len(self._buffer) >= 5 and not self._buffer.startswith((b"cmd=", b"mcmd=")):
                raise BadPmiMessage(_shown(self._buffer))
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + len(end_mark)]
        words = line.split(b"\n") if is_long else _words(line)
        return _command(words, "mcmd" if is_long else "cmd", line)

    def _take_v2(self) -> "Command | None":
        head = bytes(self._buffer[:_LENGTH_BYTES])
        if len(head) < _LENGTH_BYTES:
            return None
        digits = head.strip()
        if not digits.isdigit() or int(digits) > MOST_MESSAGE_BYTES:
            raise BadPmiMessage(_shown(self._buffer))
        end = _LENGTH_BYTES + int(digits)
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH_BYTES:end])
        del self._buffer[:end]
        words = body.rstrip(b"\n").replace(b";;", _SEMICOLON).split(b";")
        return _command([word.replace(_SEMICOLON, b";") for word in words], "cmd", body)


def _words(line: bytes) -> "list[bytes]":
    """Return the words of a line; a backslash before a space keeps it in its word."""
    if b"\\ " not in line:
        return line.split()
    return [word.replace(_SEMICOLON, b"\\ ") for word in line.replace(b"\\ ", _SEMICOLON).split()]


def _command(words: "list[bytes]", first: str, whole: bytes) -> Command:
    """Return the command that words make. Raises BadPmiMessage."""
    fields: dict[str, str] = {}
    for word in words:
        name, equals, value = word.decode("latin-1").partition("=")
        if name:
            fields.setdefault(name, value if equals else "")
    name = fields.pop(first, "")
    if not name:
        raise BadPmiMessage(_shown(whole))
    return name, fields


def _shown(raw: "bytes | bytearray") -> str:
    """Return the beginning of what a client sent, for people's eyes."""
    text = bytes(raw[:40]).decode("latin-1")
    shown = "".join(char if " " <= char <= "~" else "?" for char in text)
    return f"'{shown}' is no message of PMI"


def reply(name: str, fields: "dict[str, str]", *, is_v2: bool) -> bytes:
    """Return an answer as a client reads it."""
    if not is_v2:
        words = [f"cmd={name}", *(f"{key}={value}" for key, value in fields.items())]
        return (" ".join(words) + "\n").encode("latin-1")
    pairs = [("cmd", name), *fields.items()]
    body = "".join(f"{key}={value.replace(';', ';;')};" for key, value in pairs).encode("latin-1")
    return b"%-6d" % len(body) + body


# What nodes exchange in a fence -------------------------------------------------------------


def pack_pairs(pairs: "dict[str, str]") -> bytes:
    """Return keys and values as bytes; several such bytes may follow each other."""
    parts = []
    for key, value in pairs.items():
        key_bytes, value_bytes = key.encode("latin-1"), value.encode("latin-1")
        parts.append(len(key_bytes).to_bytes(4, "big") + key_bytes)
        parts.append(len(value_bytes).to_bytes(4, "big") + value_bytes)
    return b"".join(parts)


def unpack_pairs(data: bytes) -> "dict[str, str]":
    """Return the keys and values. Raises ValueError."""
    texts: list[str] = []
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data) or at + 4 > len(data):
            raise ValueError("pairs that are cut off")
        texts.append(data[at + 4 : end].decode("latin-1"))
        at = end
    if len(texts) % 2:
        raise ValueError("a key without a value")
    return dict(zip(texts[::2], texts[1::2], strict=True))
