"""Labels of multi-category security: jobs with different labels never share a node.

Source: the manual's page on MCS. The plugin says which label a job may have: its account, a group
or the name of its user, or any word. MCSParameters say whether each job gets one (enforced), or
those that ask (ondemand), and which jobs keep others off their nodes: all (select), those with
--exclusive=mcs (ondemandselect), or none (noselect). Behind a colon are the groups of mcs/group.
"""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_MCS
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest

_INVALID = Reject(Errno.ESLURM_INVALID_MCS_LABEL)


def kind_of(conf: SlurmConf) -> str:
    """Return account, group, user or label; "" where there are no labels."""
    kind = conf.mcs_plugin.lower().removeprefix("mcs/")
    return "" if kind == "none" else kind


def _words(conf: SlurmConf) -> set[str]:
    return {word.strip().lower() for word in conf.mcs_parameters.partition(":")[0].split(",")}


def _groups(conf: SlurmConf) -> list[str]:
    """Return the groups that labels are of, the preferred first; none: all groups."""
    text = conf.mcs_parameters.partition(":")[2]
    return [word.strip() for word in text.replace(",", "|").split("|") if word.strip()]


def labelled(
    request: JobRequest, account: str, caller: Caller, conf: SlurmConf
) -> JobRequest | Reject:
    """Return a request with its label, and with what that means for its nodes."""
    kind, wants_own_nodes = kind_of(conf), bool(request.flags & REQ_EXCLUSIVE_MCS)
    if not kind:
        return _INVALID if request.mcs_label or wants_own_nodes else request
    words = _words(conf)
    label = request.mcs_label
    if label:
        if not may_have(label, kind, account, caller, conf):
            return _INVALID
    elif "enforced" in words or wants_own_nodes:
        label = _default(kind, account, caller, conf)
        if not label:
            return _INVALID
    flags = request.flags
    if "select" in words:
        flags |= REQ_EXCLUSIVE_MCS
    elif "noselect" in words:
        flags &= ~REQ_EXCLUSIVE_MCS
    if (label, flags) == (request.mcs_label, request.flags):
        return request
    return msgspec.structs.replace(request, mcs_label=label, flags=flags)


def may_have(label: str, kind: str, account: str, caller: Caller, conf: SlurmConf) -> bool:
    """Return whether a job of a user may have a label."""
    if kind == "account":
        return label == account
    if kind == "user":
        return label == caller.user_name
    if kind == "group":
        known = _groups(conf)
        return label in (caller.group_name, *caller.groups) and (not known or label in known)
    return label.isprintable() and "," not in label


def _default(kind: str, account: str, caller: Caller, conf: SlurmConf) -> str:
    """Return the label of a job that names none; "" where there is none for it."""
    if kind == "account":
        return account
    if kind == "user":
        return caller.user_name
    if kind == "group":
        own = (caller.group_name, *caller.groups)
        known = _groups(conf)
        return next((group for group in known if group in own), "") if known else own[0]
    return ""


def visible_labels(cluster: Cluster, caller: Caller, conf: SlurmConf) -> frozenset[str] | None:
    """Return whose labels a user sees with MCSParameters=privatedata; None: all."""
    kind = kind_of(conf)
    if kind in ("", "label") or caller.is_operator or "privatedata" not in _words(conf):
        return None
    if kind == "user":
        return frozenset(("", caller.user_name))
    if kind == "group":
        return frozenset(("", caller.group_name, *caller.groups))
    own = (assoc.account for assoc in cluster.assocs.values() if assoc.user == caller.user_name)
    return frozenset(("", *own))
