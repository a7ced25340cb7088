"""The commands of PMI-1 and PMI-2 that one node can answer, and those about names."""

from pyslurm_ng.d.stepd.pmi_messages import BadPmiMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.d.spool.step_contract import MpiSpec
    from pyslurm_ng.d.stepd.mpi_exchange import MpiExchange
    from pyslurm_ng.d.stepd.pmi_client import PmiClient
    from pyslurm_ng.d.stepd.pmi_store import PmiStore

    Fields = dict[str, str]

_MOST_KEY, _MOST_VALUE = 256, 4096
_MOST_WAITING = 4096
_NO_SPAWN = "spawn_is_not_supported_under_srun"
_UNDEFINED_APPNUM = "-1"  # as Slurm has it


class PmiCommands:
    """Carries out commands.

    Args:
        on_fence, on_finalize, on_abort: called with a client and the fields of that command.
    """

    def __init__(
        self,
        spec: "MpiSpec",
        store: "PmiStore",
        exchange: "MpiExchange",
        on_fence: "Callable[[PmiClient, Fields], None]",
        on_finalize: "Callable[[PmiClient, Fields], None]",
        on_abort: "Callable[[PmiClient, Fields], None]",
    ) -> None:
        self._spec = spec
        self._store = store
        self._exchange = exchange
        self._waiting: dict[str, list[tuple[PmiClient, str]]] = {}  # for an attribute
        self._fixed = {
            "PMI_process_mapping": spec["mapping"],
            "universeSize": str(spec["ranks"]),
        }
        both = {
            "init": self._init, "spawn": self._spawn, "finalize": on_finalize, "abort": on_abort,
        }  # fmt: skip
        self._v1 = {
            **both,
            "get_maxes": self._maxes,
            "get_appnum": self._appnum,
            "get_universe_size": self._universe,
            "get_my_kvsname": self._job_id,
            "put": self._put,
            "get": self._get,
            "barrier_in": on_fence,
            "publish_name": self._publish,
            "unpublish_name": self._unpublish,
            "lookup_name": self._lookup,
        }
        self._v2 = {
            **both,
            "fullinit": self._full_init,
            "job-getid": self._job_id,
            "kvs-put": self._put,
            "kvs-get": self._get,
            "kvs-fence": on_fence,
            "info-getjobattr": self._job_attribute,
            "info-getnodeattr": self._attribute,
            "info-putnodeattr": self._put_attribute,
            "name-publish": self._publish,
            "name-unpublish": self._unpublish,
            "name-lookup": self._lookup,
        }

    def obey(self, client: "PmiClient", name: str, fields: "Fields") -> None:
        """Carry out one command. Raises BadPmiMessage."""
        thread = len(fields.get("thrid", ""))
        if thread > _MOST_KEY:
            raise BadPmiMessage(f"a thrid of {thread} bytes; {_MOST_KEY} are allowed")
        method = (self._v2 if client.is_v2 else self._v1).get(name)
        if method is not None:
            method(client, fields)
        elif client.is_v2:
            client.answer(name, fields, rc="1", errmsg=f"{name} is not supported")
        else:
            raise BadPmiMessage(f"command '{name[:40]}' is unknown")

    def _init(self, client: "PmiClient", fields: "Fields") -> None:
        version = fields.get("pmi_version", "")
        client.has_begun = True
        known = {"1": "1", "2": "0"}
        rc = "0" if version in known else "-1"
        version = version if version in known else "2"
        answer = {"rc": rc, "pmi_version": version, "pmi_subversion": known[version]}
        client.send("response_to_init", answer)

    def _full_init(self, client: "PmiClient", fields: "Fields") -> None:
        client.answer(
            "fullinit", fields,
            **{"pmi-version": "2", "pmi-subversion": "0"}, rank=str(client.rank),
            size=str(self._spec["ranks"]), appnum=_UNDEFINED_APPNUM, debugged="FALSE",
            pmiverbose="FALSE",
        )  # fmt: skip

    def _maxes(self, client: "PmiClient", fields: "Fields") -> None:
        client.answer("maxes", fields, kvsname_max="256", keylen_max="64", vallen_max="1024")

    def _appnum(self, client: "PmiClient", fields: "Fields") -> None:
        client.answer("appnum", fields, appnum=_UNDEFINED_APPNUM)

    def _universe(self, client: "PmiClient", fields: "Fields") -> None:
        client.answer("universe_size", fields, size=str(self._spec["ranks"]))

    def _job_id(self, client: "PmiClient", fields: "Fields") -> None:
        if client.is_v2:
            client.answer("job-getid", fields, jobid=self._spec["world"])
        else:
            client.answer("my_kvsname", fields, kvsname=self._spec["world"])

    def _put(self, client: "PmiClient", fields: "Fields") -> None:
        key, value = _pair(fields)
        self._store.put(key, value)
        client.answer("kvs-put" if client.is_v2 else "put_result", fields)

    def _get(self, client: "PmiClient", fields: "Fields") -> None:
        key = fields.get("key", "")
        value = self._store.get(key)
        value = self._fixed.get(key) if value is None else value
        _tell_value(client, "kvs-get" if client.is_v2 else "get_result", fields, value)

    def _job_attribute(self, client: "PmiClient", fields: "Fields") -> None:
        value = self._fixed.get(fields.get("key", ""))
        _tell_value(client, "info-getjobattr", fields, value)

    def _put_attribute(self, client: "PmiClient", fields: "Fields") -> None:
        key, value = _pair(fields)
        self._store.put_attribute(key, value)
        client.answer("info-putnodeattr", fields)
        for waiting, thread in self._waiting.pop(key, ()):
            _tell_value(waiting, "info-getnodeattr", {"thrid": thread}, value)

    def _attribute(self, client: "PmiClient", fields: "Fields") -> None:
        key, _ = _pair(fields)
        value = self._store.attribute(key)
        if value is None and fields.get("wait", "FALSE").upper() == "TRUE":
            self._waiting.setdefault(key, []).append((client, fields.get("thrid", "")))
            if sum(map(len, self._waiting.values())) > _MOST_WAITING:
                raise BadPmiMessage(f"more than {_MOST_WAITING} requests that wait")
            return
        _tell_value(client, "info-getnodeattr", fields, value)

    def _name(self, client: "PmiClient", fields: "Fields", what: str) -> None:
        name = fields.get("name" if client.is_v2 else "service", "")
        if not 0 < len(name) <= _MOST_KEY or len(fields.get("port", "")) > _MOST_VALUE:
            raise BadPmiMessage(f"{what} of a name of {len(name)} bytes; {_MOST_KEY} are allowed")
        port = fields.get("port", "").encode("latin-1")
        fields = {"thrid": fields.get("thrid", "")}  # all that is kept until the answer

        def told(status: int, data: bytes) -> None:
            known = {"rc": str(status)}
            if what == "lookup" and not status:
                known["port"] = data.decode("latin-1")
            if client.is_v2:
                if "port" in known:
                    known["value"] = known["port"]  # as older libraries call it
                client.answer(f"name-{what}", fields, **known)
            else:
                known["info"] = "fail" if status else "ok"
                client.answer(f"{what}_result", fields, **known)

        self._exchange.ask(what, name.encode("latin-1"), port, told)

    def _publish(self, client: "PmiClient", fields: "Fields") -> None:
        self._name(client, fields, "publish")

    def _unpublish(self, client: "PmiClient", fields: "Fields") -> None:
        self._name(client, fields, "unpublish")

    def _lookup(self, client: "PmiClient", fields: "Fields") -> None:
        self._name(client, fields, "lookup")

    def _spawn(self, client: "PmiClient", fields: "Fields") -> None:
        if client.is_v2:
            client.answer("spawn", fields, rc="1", errmsg=_NO_SPAWN)
        else:
            client.answer("spawn_result", fields, rc="-1", msg=_NO_SPAWN)


def _tell_value(client: "PmiClient", name: str, fields: "Fields", value: "str | None") -> None:
    if client.is_v2:
        answer = {"found": "FALSE"} if value is None else {"found": "TRUE", "value": value}
        client.answer(name, fields, **answer)
    elif value is None:
        client.answer(name, fields, rc="1", msg="key_not_known")
    else:
        client.answer(name, fields, value=value)


def _pair(fields: "Fields") -> "tuple[str, str]":
    key, value = fields.get("key", ""), fields.get("value", "")
    if not 0 < len(key) <= _MOST_KEY or len(value) > _MOST_VALUE:
        raise BadPmiMessage(
            f"a key of {len(key)} and a value of {len(value)} bytes; "
            f"1 to {_MOST_KEY} and {_MOST_VALUE} are allowed"
        )
    return key, value
