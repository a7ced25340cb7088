"""sacctmgr load: bring a cluster's accounts, users and QOS to what a flat file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import sqlalchemy as sa

from pyslurm_ng.dbd import limits, schema
from pyslurm_ng.dbd.admin import accounts, clusters, qos, users, wckeys
from pyslurm_ng.dbd.admin.change import (
    BadValueError,
    Change,
    RefusedError,
    Row,
    require_administrator,
    require_idle,
)
from pyslurm_ng.dbd.admin.file_report import Report
from pyslurm_ng.dbd.admin.settings import apply_settings, read_settings
from pyslurm_ng.dbd.admin.words import UnknownWordError, Words, read_line
from pyslurm_ng.dbd.tree import Tree, qos_given
from pyslurm_ng.dbd.updates import find_cluster
from pyslurm_ng.wire.dbd_messages import FileLine, LoadFile

Key = tuple[str, str, str]
"""Account, user and partition of an association."""
_NO_LINE = FileLine(0, "Cluster", "")


def load(change: Change, request: LoadFile) -> None:
    """Do what the lines say, all of them or, if one is refused, none.

    Raises:
        RefusedError: a line cannot be done; the error names its number.
    """
    require_administrator(change, "load clusters")
    _make_qos(change, request.lines)
    loading: Loading | None = None
    line = _NO_LINE
    try:
        for line in request.lines:
            words = read_line(line.kind, line.settings, keeps_users=change.database.keeps_users)
            if line.kind == "QOS":
                _settle_qos(change, line.name.lower(), words)
            elif line.kind == "Cluster":
                if loading is not None:
                    raise RefusedError(" You can only add one cluster at a time.")
                loading = Loading(change, (request.cluster or line.name).lower(), request.clean)
                loading.root(words)
            elif loading is None:
                raise RefusedError(
                    " You need to specify a cluster name first with 'Cluster - $NAME' in your file"
                )
            else:
                loading.take(line, words)
        if loading is not None:
            for line, step in loading.last_steps():  # noqa: B007 - a refusal names it
                step()
    except UnknownWordError as error:
        raise RefusedError(f" Unknown option: {error.text}", _where(line)) from None
    except BadValueError as error:
        word = f"{error.key}={error.value}"
        lines = [text.replace("{word}", word) for text in error.lines]
        raise RefusedError(*lines, f" Unknown option: {word}", _where(line)) from None
    except RefusedError as error:
        raise RefusedError(*error.lines, _where(line)) from None
    if loading is not None:
        loading.finish()
    if not change.changed:
        change.lines.append(" Nothing new added.")


def _where(line: FileLine) -> str:
    return f" Problem with line({line.number})"


def _make_qos(change: Change, lines: Iterable[FileLine]) -> None:
    """Create the QOS that the file has and accounting lacks: lines may name later ones."""
    known = change.qos_ids()
    names = [line.name.lower() for line in lines if line.kind == "QOS"]
    missing = [name for name in dict.fromkeys(names) if name not in known]
    for name in missing:
        qos.add(change, Words([("Names", "=", name)]), Words())


def _settle_qos(change: Change, name: str, words: Words) -> None:
    if qos.settle(change, qos.by_name(change, name), words):
        change.lines.append(f" Changed QOS {name}")
        change.changed += 1


class Loading:
    """The lines of one cluster on their way into accounting."""

    def __init__(self, change: Change, cluster: str, clean: bool) -> None:
        self._change = change
        self._cluster = cluster
        known = find_cluster(change.connection, cluster)
        if known is None:
            clusters.check_name(cluster)
            known = clusters.register(change, cluster)
            change.changed += 1
            clean = True
        self._cluster_id = known
        self._clean = clean
        self._report = Report(cluster)
        self._tree = Tree(change.connection, known)
        self._rows: dict[Key, Row] = {_key(row): row for row in self._tree.rows.values()}
        kept = {("root", "", ""), ("root", "root", "")}
        self._stale: dict[Key, Row] = {}
        if clean:
            self._stale = {key: row for key, row in self._rows.items() if key not in kept}
            self._rows = {key: row for key, row in self._rows.items() if key in kept}
        self._replaced = tuple(self._stale.values())
        self._parent = self._rows["root", "", ""]
        self._records = {
            table: {
                row.name: dict(row._mapping)
                for row in change.connection.execute(
                    sa.select(table).where(table.c.is_deleted == 0)
                )
            }
            for table in (schema.accounts, schema.users)
        }
        self._known_users = frozenset(self._records[schema.users])
        self._defaults: dict[str, tuple[str, FileLine]] = {}
        self._coordinators: list[tuple[str, str, FileLine]] = []
        self._met: set[str] = set()
        self._lines: dict[str, Callable[[FileLine, Words], None]] = {
            "Parent": self._take_parent,
            "Account": self._take_account,
            "User": self._take_user,
        }

    def _read_tree(self) -> None:
        self._tree = Tree(self._change.connection, self._cluster_id)
        rows = {_key(row): row for row in self._tree.rows.values()}
        self._rows = {key: row for key, row in rows.items() if key not in self._stale}

    def root(self, words: Words) -> None:
        """Take the Cluster line: settings of the root association."""
        row = self._rows["root", "", ""]
        if self._clean:
            self._report.root(words)
            blank = {"shares": 1, "limits": {}, "default_qos_id": 0, "qos": "1", "delta_qos": ""}
            row = row | blank
        self._settle(row, words, "Cluster", self._cluster)

    def take(self, line: FileLine, words: Words) -> None:
        """Take a line below the Cluster line."""
        self._lines[line.kind](line, words)

    def _take_parent(self, line: FileLine, _: Words) -> None:
        name = line.name.lower()
        above = self._rows.get((name, "", ""))
        if above is None:
            raise RefusedError(
                f" line({line.number}) You need to add this parent ({name}) as a child before "
                "you can add children to it."
            )
        self._parent = above

    def _take_account(self, line: FileLine, words: Words) -> None:
        name = line.name.lower()
        if name == "root":
            raise RefusedError(" The account root is made with the cluster.")
        change = self._change
        self._account_record(name, words)
        row = self._rows.get((name, "", ""))
        if row is None:
            self._insert((name, "", ""), words)
            self._report.account(name, self._parent["account"], words)
            return
        above = self._tree.parent_account(row)
        if row["parent_id"] != self._parent["id"]:
            accounts.move(change, self._tree, row, self._parent["account"])
            info = f"parent='{self._parent['account']}'"
            change.log("Modify Associations", self._cluster, f"id_assoc={row['id']}", info)
            self._changed("Parent", "Account", name, above, self._parent["account"])
            self._read_tree()
            self._parent = self._rows[_key(self._parent)]
            row = self._rows[name, "", ""]
        self._settle(row, words, "Account", name)

    def _account_record(self, name: str, words: Words) -> None:
        """Create the account or change its description and organisation."""
        known = self._records[schema.accounts].get(name)
        if known is None:
            accounts.check_names([name])
            own = [
                word for word in words.items if word[0] in ("Description", "Flags", "Organization")
            ]
            accounts.add_rows(self._change, Words(own), [name])
            self._records[schema.accounts][name] = {"name": name}
            self._report.account_record(name, words)
            self._change.changed += 1
            return
        values: Row = {}
        for key, column in (("Description", "description"), ("Organization", "organization")):
            value = (words.last(key) or "").lower()[:255]
            if value and known.get(column, value) != value:
                self._changed(column, "Account", name, known[column], value)
                values[column] = value
        if "Flags" in words and (flags := accounts.account_flags(words, "")) != known.get(
            "flags", flags
        ):
            self._changed("flags", "Account", name, known["flags"], flags)
            values["flags"] = flags
        self._update(schema.accounts, name, values)

    def _take_user(self, line: FileLine, words: Words) -> None:
        name, account = words.user(line.name), self._parent["account"]
        self._user_record(name, line, words)
        for partition in words.values("Partitions") or [""]:
            key = (account, name, partition)
            row = self._rows.get(key)
            if row is not None:
                self._settle(row, words, "User", name)
                continue
            self._insert(key, words)
            self._report.user(name, account, words)

    def _user_record(self, name: str, line: FileLine, words: Words) -> None:
        """Create the user or change what is the same in all accounts."""
        change = self._change
        known = self._records[schema.users].get(name)
        level = words.last("AdminLevel")
        if known is None:
            users.check_name(name)
            if level is not None:
                require_administrator(change, "set an admin level")
            own = [word for word in words.items if word[0] == "AdminLevel"]
            users.add_rows(change, Words(own), [name])
            self._records[schema.users][name] = {
                "admin_level": users.level_of(level or "none"),
            }
            self._report.user_record(name, self._parent["account"], words)
            change.changed += 1
        else:
            values: Row = {}
            if level is not None and users.level_of(level) != known["admin_level"]:
                require_administrator(change, "set an admin level")
                values["admin_level"] = users.level_of(level)
                old = users.LEVEL_NAMES[known["admin_level"]]
                new = users.LEVEL_NAMES[values["admin_level"]]
                self._changed("Admin Level", "User", name, old, new)
            self._update(schema.users, name, values)
        default = (words.last("DefaultAccount") or "").lower()
        if default:
            self._defaults[name] = (default, line)
        self._met.add(name)
        self._user_keys(name, words)
        for account in words.values("Coordinators", lower=True):
            self._coordinators.append((account, name, line))

    def _user_keys(self, name: str, words: Words) -> None:
        """Give a user the keys that the line names, and their default."""
        default = words.last("DefaultWCKey") or ""
        keys = words.values("WCKeys") + ([default] if default else [])
        for key in keys:
            wckeys.check_name(key)
        change, of_cluster = self._change, (self._cluster_id, self._cluster)
        for _ in wckeys.add(change, *of_cluster, [name], list(dict.fromkeys(keys))):
            change.changed += 1
        if default and wckeys.default_of(change, self._cluster_id, name) != default:
            old = wckeys.default_of(change, self._cluster_id, name)
            wckeys.set_default(change, [of_cluster], [name], default)
            if name in self._known_users:
                self._changed("Default WCKey", "User", name, old, default)

    def _insert(self, key: Key, words: Words) -> None:
        """Make an association under the present parent."""
        change = self._change
        account, user, partition = key
        settings = read_settings(words)
        row = accounts.insert_association(
            change, self._tree, self._cluster_id, self._parent, account, user, partition, settings
        )
        self._tree.put(row)
        self._rows[key] = row
        self._stale.pop(key, None)
        info = f"acct='{account}', user='{user}', partition='{partition}'"
        change.log("Add Associations", self._cluster, f"id_assoc={row['id']}", info)
        change.changed += 1

    def _settle(self, row: Row, words: Words, kind: str, name: str) -> None:
        """Give an association the settings of its line, and say what differs from before."""
        settings = read_settings(words)
        columns = apply_settings(self._change, self._tree, row, settings)
        columns["limits"] = limits.load(columns["limits"])
        old = self._tree.rows[row["id"]]
        new = row | columns
        differing = {key: value for key, value in new.items() if old[key] != value}
        if not differing:
            return
        for shown, before, after in _differences(self._tree, old, new):
            self._changed(shown, kind, name, before, after)
        stored = dict(differing)
        if "limits" in stored:
            stored["limits"] = limits.dump(stored["limits"])
        table, change = schema.associations, self._change
        change.connection.execute(
            table.update().where(table.c.id == row["id"]).values(**stored, **change.stamp())
        )
        info = ", ".join(f"{key}={value}" for key, _, value in settings.words)
        change.log("Modify Associations", self._cluster, f"id_assoc={row['id']}", info)
        old.update(new)
        self._tree.forget_inherited()

    def _update(self, table: sa.Table, name: str, values: Row) -> None:
        """Change a user or an account."""
        if not values:
            return
        change = self._change
        change.connection.execute(
            table.update().where(table.c.name == name).values(**values, **change.stamp())
        )
        self._records[table][name] |= values
        what = "Modify Users" if table is schema.users else "Modify Accounts"
        info = ", ".join(f"{key}='{value}'" for key, value in values.items())
        change.log(what, "", name, info)

    def _changed(self, what: str, kind: str, name: str, old: object, new: object) -> None:
        self._report.changed(what, kind, name, old, new)
        self._change.changed += 1

    def last_steps(self) -> Iterator[tuple[FileLine, Callable[[], None]]]:
        """Yield what can be done only after all lines, each with the line that asks for it."""
        for name in sorted(self._met):
            account, line = self._defaults.get(name, ("", _NO_LINE))
            yield line, partial(self._settle_default, name, account)
        for account, name, line in self._coordinators:
            yield line, partial(self._coordinate, account, name)

    def _settle_default(self, name: str, account: str) -> None:
        """Make an account the default of a user; without one a user keeps the present default."""
        own = [row for row in self._rows.values() if row["user"] == name]
        old = next((row["account"] for row in own if row["is_default"]), "")
        account = account or old or (own[0]["account"] if own else "")
        if own and account not in [row["account"] for row in own]:
            raise RefusedError(
                f" Error with request: User {name} is not in the default account {account} "
                f"on cluster {self._cluster}"
            )
        if {row["account"] for row in own if row["is_default"]} <= {account} and old:
            return
        before = old or self._default_before(name)
        if name in self._known_users and before != account:
            self._changed("Default Account", "User", name, before or "(null)", account)
        users.make_default(self._change, self._cluster_id, name, account)

    def _default_before(self, name: str) -> str:
        """Return the default account that a user had before the file replaced the cluster's."""
        rows = self._replaced
        return next(
            (row["account"] for row in rows if row["user"] == name and row["is_default"]), ""
        )

    def _coordinate(self, account: str, name: str) -> None:
        """Make a user coordinator of an account."""
        if account not in self._records[schema.accounts]:
            raise RefusedError(f" You specified a non-existent account '{account}'.")
        change, pairs = self._change, schema.coordinators
        query = sa.select(pairs.c.user).where(pairs.c.account == account, pairs.c.user == name)
        if change.connection.execute(query).first() is not None:
            return
        change.connection.execute(pairs.insert().values(account=account, user=name))
        change.log("Add Account Coord", "", name, account)
        change.changed += 1
        if name in self._known_users:
            self._report.say(f" Making User '{name}' coordinator for account '{account}'")

    def finish(self) -> None:
        """Remove what the file does not name, if it is the whole cluster; say what was done."""
        change = self._change
        stale = list(self._stale.values())
        require_idle(change, [row["id"] for row in stale])
        accounts.remove_associations(change, self._cluster, stale)
        for row in stale:
            self._report.removed(row)
        users.touch(change, sorted(self._met))
        change.changed += len(stale)
        change.lines += self._report.lines()


def _key(row: Row) -> Key:
    return row["account"], row["user"], row["partition"]


def _differences(tree: Tree, old: Row, new: Row) -> Iterator[tuple[str, str, str]]:
    """Yield what differs between the settings of an association: what it is, before and after."""
    if old["shares"] != new["shares"]:
        yield "fairshare", _shares(old["shares"]), _shares(new["shares"])
    if old["default_qos_id"] != new["default_qos_id"]:
        names = tree.qos_names
        before, after = (names.get(row["default_qos_id"], "") for row in (old, new))
        yield "Default QOS", before, after
    if (old["qos"], old["delta_qos"]) != (new["qos"], new["delta_qos"]):
        yield "QOS", qos_given(old, tree.qos_names), qos_given(new, tree.qos_names)
    for spec in limits.ASSOCIATION_LIMITS:
        before, after = (limits.show_limit(row["limits"], spec) for row in (old, new))
        if before != after:
            yield spec.name, before, after
    before, after = (str(row["limits"].get("Priority", "")) for row in (old, new))
    if before != after:
        yield "Priority", before, after


def _shares(shares: int) -> str:
    return "parent" if shares == schema.USE_PARENT_SHARES else str(shares)
