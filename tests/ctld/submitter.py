"""A thread that submits jobs to a real slurmctld, and the jobs that it knows."""

from __future__ import annotations

import os
import threading

from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.client import SlurmError
from tests.ctld.controller import Controller


class Submitter(threading.Thread):
    """Submits held jobs without pause, 32 outstanding, and writes down what it was promised.

    Args:
        mark: the beginning of each job's comment.
        enough: after so many promises `enough` is set.
    """

    def __init__(self, controller: Controller, mark: str, enough: int = 20) -> None:
        super().__init__(daemon=True)
        self._enough = enough
        self.controller = controller
        self.mark = mark
        self.promised: dict[int, str] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        client = self.controller.client()
        client.wait_s = 0.0  # else one that is about to send goes on with the next controller
        marks: dict[int, str] = {}
        number = 0
        try:
            while True:
                while len(marks) < 32:
                    number += 1
                    mark = f"{self.mark}-{number}"
                    request = {"name": "j", "comment": mark, "work_dir": "/", "flags": 1}
                    sequence = client.begin(
                        "SubmitJob",
                        {
                            "request_id": os.urandom(16),
                            "request": request,
                            "script": b"#!/bin/sh\n# %d\n" % (number % 7),
                        },
                    )
                    marks[sequence] = mark
                sequence, reply, _ = client.receive(60)
                self.promised[int(reply["job_id"])] = marks.pop(sequence)
                if len(self.promised) >= self._enough:
                    self.enough.set()
        except SlurmError:
            return  # the controller was killed; what has no answer is no promise
        finally:
            self.enough.set()


def known_jobs(controller: Controller) -> dict[int, str]:
    """Return the comment of each job that the controller knows."""
    reply = controller.call("ShowJobs", flags=2)
    fields = list(reply["fields"])
    columns = [fields.index("job_id"), fields.index("comment")]
    return {int(row[0]): str(row[1]) for row in project(bytes(reply["records"]), columns)}
