"""Words of values that Slurm took once, so that a site's file of ten years does not stop working.

Which releases took them: the manuals of slurm.conf, 20.02 to 25.05.
"""

from __future__ import annotations

from pyslurm_ng.conf.lexer import ConfText, Entry

# (kind of line, key, word) -> the word that stands for it today; "" where nothing does.
_SINCE = {
    ("slurm.conf", "debugflags", "jobcontainer"): "Namespace",
    ("slurm.conf", "jobcomptype", "jobcomp/filesacctout"): "none",
    ("slurm.conf", "jobcomptype", "jobcomp/slurmdbd"): "none",
    ("slurm.conf", "privatedata", "cloud"): "",
    ("slurm.conf", "taskpluginparam", "sched"): "",
    ("slurm.conf", "taskpluginparam", "cpusets"): "",
    ("NodeName", "state", "idle"): "UNKNOWN",
    # Sites give it a level as for other logs; any but 0 turns the log on.
    **{("slurm.conf", "slurmschedloglevel", str(level)): "1" for level in range(2, 10)},
}
_KEYS = {key for _, key, _ in _SINCE}


def with_todays_words(text: ConfText, section: str, entry: Entry) -> Entry:
    """Return an entry with words of today; each old one is named in a warning, once a file."""
    key = entry.key.lower()
    if key not in _KEYS:
        return entry
    words = []
    for word in entry.value.split(","):
        instead = _SINCE.get((section, key, word.strip().lower()))
        if instead is None:
            words.append(word)
            continue
        words += [instead] if instead else []
        if (section, f"{key}={word.lower()}") not in text.named:
            text.named.add((section, f"{key}={word.lower()}"))
            means = f"means {entry.key}={instead}" if instead else "is ignored"
            text.warnings.append(
                f"{entry.file}:{entry.line}: {entry.key}={word} no longer exists and {means}"
            )
    return entry._replace(value=",".join(words))
