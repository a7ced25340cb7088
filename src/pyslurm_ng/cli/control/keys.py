"""The `Key=Value` words of scontrol create, update and delete."""

_ENTITIES = ("nodename", "partitionname", "reservationname", "jobid", "jobname", "stepid",
             "slurmctlddebug")  # fmt: skip
_SHORTEST = {"jobid": 3, "nodename": 3, "partitionname": 3, "reservationname": 3, "jobname": 4,
             "slurmctlddebug": 13}  # fmt: skip


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


# How many letters of a key Slurm requires, where it is more than three.
_KEY_LETTERS = {
    "arraytaskthrottle": 17, "clusterfeatures": 8,
    "clusters": 8, "corespec": 4, "cpuspertask": 9, "cpuspertres": 9,
    "gres": 2, "nice": 2,
    "mailtype": 5, "mailuser": 5, "mempertres": 5, "mincpusnode": 4, "minmemorycpu": 10,
    "minmemorynode": 10, "mintmpdisknode": 5, "nodelist": 8, "numcpus": 6, "numnodes": 8,
    "numtasks": 8, "reqcores": 4, "reqnodelist": 8, "reqnodes": 8, "reqprocs": 8,
    "reqsockets": 4, "reqthreads": 4, "requeue": 4, "sitefactor": 5, "switches": 5,
    "threadspec": 4, "timelimit": 5, "timemin": 5, "tresbind": 5, "tresfreq": 5,
    "tresperjob": 8, "trespernode": 8, "trespersocket": 8, "trespertask": 8,
    "allocnodes": 6, "allowaccounts": 6, "allowgroups": 6, "allowqos": 6, "cpubind": 7,
    "gracetime": 5, "maxcpuspernode": 4, "maxmempercpu": 10, "maxmempernode": 10, "maxnodes": 4,
    "maxtime": 4, "oversubscribe": 5, "overtimelimit": 5, "corecnt": 5, "nodecnt": 5,
}  # fmt: skip


def find_key(key: str, keys: "list[str]", aliases: "dict[str, str]") -> str:
    """Return the lower-case key that a word names, abbreviated or not, or ""."""
    word = key.lower()
    if word in aliases:
        return aliases[word]
    names = [name.lower() for name in keys]
    if word not in names:
        letters = len(word)
        matches = [
            name for name in names if name.startswith(word) and letters >= _KEY_LETTERS.get(name, 3)
        ]
        if not matches:
            return ""
        word = matches[0]
    return aliases.get(word, word)
