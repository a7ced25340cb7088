"""sacctmgr archive: let slurmdbd purge and archive now, or take back an archive."""

from pyslurm_ng.cli.accounting.sacctmgr_session import Session, agreed, answered, assignment
from pyslurm_ng.cli.command import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KINDS = ("events", "jobs", "jobscript", "jobenv", "resvs", "steps", "suspend", "txn", "usage")
_PURGE_KEYS = (
    "PurgeEventAfter", "PurgeJobAfter", "PurgeJobEnvAfter", "PurgeJobScriptAfter",
    "PurgeResvAfter", "PurgeStepAfter", "PurgeSuspendAfter", "PurgeTXNAfter", "PurgeUsageAfter",
)  # fmt: skip
_QUESTION = (
    "This may result in loss of accounting database records (if Purge* options enabled).\n"
    "Are you sure you want to continue? (You have 30 seconds to decide)"
)


def run(session: Session, words: "list[str]") -> int:
    """Do `archive dump` or `archive load`; return the exit code."""
    verb = words[0].lower() if words else ""
    if not verb or not any(name.startswith(verb) for name in ("dump", "load")):
        fail('No valid entity in archive command\nInput line must include, "Dump", or "load"')
    if "readonly" in session.options:
        fail("Can't run this command in readonly mode.")
    if "dump".startswith(verb):
        return _dump(session, words[1:])
    return _load(session, words[1:])


def _dump(session: Session, words: "list[str]") -> int:
    request: dict[str, Any] = {"purge": [], "archived": [], "directory": "", "script": ""}
    for word in words:
        key, _, value = assignment(word)
        if not key:
            request["archived"].append(_one_of(word, _KINDS, word))
        elif "directory".startswith(key.lower()):
            request["directory"] = value
        elif "script".startswith(key.lower()):
            request["script"] = value
        else:
            request["purge"].append([_one_of(key, _PURGE_KEYS, word), "=", value])
    if "immediate" not in session.options and not agreed(_QUESTION):
        print(" Changes Discarded")
        return 0
    return answered(session, session.call("ArchiveDump", request))


def _load(session: Session, words: "list[str]") -> int:
    path = ""
    for word in words:
        key, _, value = assignment(word)
        if key and "insert".startswith(key.lower()):
            fail(" Insert= is not supported: it would run SQL that nothing has checked")
        if key and not "file".startswith(key.lower()):
            fail(f" Unknown option: {word}")
        path = value
    if not path:
        fail("sacctmgr: error: No archive file given to recover.")
    return answered(session, session.call("ArchiveLoad", {"path": path}))


def _one_of(typed: str, names: "tuple[str, ...]", word: str) -> str:
    """Return the name that a word or its beginning means; exit if it means none or several."""
    lower = typed.lower()
    meant = [name for name in names if name.lower() == lower] or [
        name for name in names if name.lower().startswith(lower)
    ]
    if len(meant) != 1:
        fail(f" Unknown condition: {word}")
    return meant[0]
