"""The `Key=Value` words of scontrol create, update and delete."""

_ENTITIES = ("nodename", "partitionname", "reservationname", "jobid", "jobname", "stepid")
_SHORTEST = {"jobid": 3, "nodename": 3, "partitionname": 3, "reservationname": 3, "jobname": 4}


def entity_of(key: str) -> str:
    """Return what a key names, as `partitionname` for `Part`, or ""; any case, or abbreviated."""
    word = key.lower()
    for name in _ENTITIES:
        if name.startswith(word) and len(word) >= _SHORTEST.get(name, 4):
            return name
    return ""


def words_to_settings(words: "list[str]") -> "list[tuple[str, str, str]]":
    """Return (key, value, word) of each `Key=Value`; `Key+=` and `Key-=` sign the value."""
    settings = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key[-1:] in ("+", "-"):
            value = key[-1] + value
            key = key[:-1]
        settings.append((key, value, word))
    return settings


def find_key(key: str, keys: "list[str]", aliases: "dict[str, str]") -> str:
    """Return the lower-case key that a word names, abbreviated or not, or ""."""
    word = key.lower()
    if word in aliases:
        return aliases[word]
    names = [name.lower() for name in keys]
    if word not in names:
        matches = [name for name in names if name.startswith(word)] if len(word) > 2 else []
        if not matches:
            return ""
        # `Time` means TimeLimit, and `Req...` the first key that begins so, as in Slurm.
        word = matches[0]
    return aliases.get(word, word)
