"""Rows as lines of InfluxDB's protocol, as Slurm's acct_gather_profile/influxdb sends them."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from pyslurm_ng.conf.acct_gather_conf import AcctGatherConf
from pyslurm_ng.d.profile.samples import ENERGY, FILESYSTEM, NETWORK, TASK
from pyslurm_ng.d.profile.series import Row, columns

_SERIES_NAMES = {ENERGY: "Energy", FILESYSTEM: "Filesystem", NETWORK: "Network", TASK: "Task"}
_USUAL_PORT = 8086
_ESCAPED = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\n": "", "\\": ""})
_ANSWER_BYTES = 4096


class InfluxError(Exception):
    """The server has not taken the lines; one line for the log."""


def lines(
    rows: Iterable[Row], about: Mapping[str, Any], tags: Mapping[str, str], *, is_grouped: bool
) -> Iterator[str]:
    """Yield a line for each value, or with ProfileInfluxDBFlags=grouped_fields for each row.

    Args:
        about: job, step_number, node, labels, gpus.
        tags: ProfileInfluxDBExtraTags with their values.
    """
    more = "".join(f",{name}={text.translate(_ESCAPED)}" for name, text in tags.items() if text)
    for row in rows:
        task = str(row.task) if row.series == TASK else _SERIES_NAMES[row.series]
        where = (
            f"job={about['job']},step={about['step_number']},task={task},host={about['node']}{more}"
        )
        kinds = columns(row.series, about["labels"], has_gpus=about["gpus"])
        fields = [
            (name, f"{value:.2f}" if is_real else str(value))
            for (name, is_real), value in zip(kinds, row.values, strict=True)
        ]
        if is_grouped:
            values = ",".join(f"{name}={text}" for name, text in fields)
            yield f"{_SERIES_NAMES[row.series]},{where} {values} {row.epoch_s}"
            continue
        for name, text in fields:
            yield f"{name},{where} value={text} {row.epoch_s}"


class InfluxServer:
    """Where lines go; each `send` is one request."""

    def __init__(self, conf: AcctGatherConf) -> None:
        text = conf.profile_influxdb_host
        parts = urlsplit(text if "://" in text else f"http://{text}")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or _USUAL_PORT
        self._limit_s = conf.profile_influxdb_timeout
        query = {"db": conf.profile_influxdb_database}
        if conf.profile_influxdb_rt_policy:
            query["rp"] = conf.profile_influxdb_rt_policy
        self._path = f"/write?{urlencode({**query, 'precision': 's'})}"
        self._headers = {"Content-Type": "text/plain; charset=utf-8"}
        if conf.profile_influxdb_user:
            pair = f"{conf.profile_influxdb_user}:{conf.profile_influxdb_pass}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def send(self, texts: Sequence[str]) -> None:
        """Send lines; raises InfluxError, and then they are lost, as in Slurm."""
        connection: http.client.HTTPConnection
        if self._is_tls:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._limit_s, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._limit_s)
        body = "".join(f"{text}\n" for text in texts).encode()
        try:
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            said = answer.read(_ANSWER_BYTES).decode("utf-8", "replace").strip()
        except (OSError, http.client.HTTPException) as error:
            what = str(error) or type(error).__name__
            raise InfluxError(f"{self._host}:{self._port}: {what}") from None
        finally:
            connection.close()
        if answer.status not in (200, 204):
            raise InfluxError(f"{self._host}:{self._port}: HTTP {answer.status} {said[:200]}")
