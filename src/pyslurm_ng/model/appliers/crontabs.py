"""How events of crontabs change the Cluster."""

from __future__ import annotations

from .. import events as ev
from ..cluster import Cluster
from .registry import applies


@applies(ev.CrontabChanged)
def _crontab_changed(cluster: Cluster, event: ev.CrontabChanged) -> None:
    if event.crontab.text:
        cluster.crontabs[event.crontab.uid] = event.crontab
    else:
        cluster.crontabs.pop(event.crontab.uid, None)
