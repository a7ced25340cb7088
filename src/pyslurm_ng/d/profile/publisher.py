"""A process that publishes a step's samples, as root and beside the step.

It reads a line of JSON from stdin: what `d.spec.step_profile` gives the supervisor. For InfluxDB it
sends what is new every ProfileInfluxDBFrequency seconds until stdin ends. For HDF5 it is started at
the step's end. What goes wrong is a line on stdout; its supervisor has a deadline for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Mapping
from typing import Any

from pyslurm_ng.conf.acct_gather_conf import AcctGatherConf, load_acct_gather_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.d.profile import hdf5_file, influxdb
from pyslurm_ng.d.profile.samples import SampleReader
from pyslurm_ng.d.profile.series import Row, Rows

_MOST_LINES = 5000  # in one request
_MOST_PROBLEMS = 3


def main() -> int:
    """Publish; return 0 if nothing went wrong."""
    about: dict[str, Any] = json.loads(sys.stdin.readline())
    problems = _publish(about)
    for line in problems[:_MOST_PROBLEMS]:
        print(line)
    return 1 if problems else 0


def _publish(about: Mapping[str, Any]) -> list[str]:
    try:
        conf = load_acct_gather_conf(about["conf"])
        samples = SampleReader(about["samples"])
    except ConfErrors as error:
        return [str(error.errors[0])]
    except OSError as error:
        return [f"{about['samples']}: {error.strerror}"]
    rows = Rows(has_gpus=about["gpus"])
    if about["kind"] == "influxdb":
        return _send_all(about, conf, samples, rows)
    return _write(about, conf, samples, rows)


def _write(
    about: Mapping[str, Any], conf: AcctGatherConf, samples: SampleReader, rows: Rows
) -> list[str]:
    name = f"{about['job']}_{about['step']}_{about['node']}.h5"
    try:
        data = hdf5_file.image(about, (row for sample in samples.new() for row in rows.of(sample)))
        hdf5_file.write_as_owner(conf.profile_hdf5_dir, about["owner"], name, data)
    except ImportError:
        return ["AcctGatherProfileType=acct_gather_profile/hdf5: h5py is not installed"]
    except OSError as error:
        return [f"{conf.profile_hdf5_dir}/{about['owner']['user']}/{name}: {error.strerror}"]
    return []


def _send_all(
    about: Mapping[str, Any], conf: AcctGatherConf, samples: SampleReader, rows: Rows
) -> list[str]:
    """Send until stdin ends, and then the rest."""
    server = influxdb.InfluxServer(conf)
    tags = {name: about["tags"].get(name, "") for name in conf.profile_influxdb_extra_tags}
    is_grouped = "grouped_fields" in conf.profile_influxdb_flags
    problems: list[str] = []
    is_over = False
    while not is_over:
        ready, _, _ = select.select([0], [], [], conf.profile_influxdb_frequency)
        is_over = bool(ready) and not os.read(0, 4096)
        new: list[Row] = [row for sample in samples.new() for row in rows.of(sample)]
        texts = list(influxdb.lines(new, about, tags, is_grouped=is_grouped))
        for begin in range(0, len(texts), _MOST_LINES):
            try:
                server.send(texts[begin : begin + _MOST_LINES])
            except influxdb.InfluxError as problem:
                if str(problem) not in problems:
                    problems.append(str(problem))
                break  # what is left of this time is lost, too
    return problems


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
