"""A host whose GPUs are recorded: what runs on them is what a test says."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

BINDING = Path(__file__).parent / "pynvml.py"


class RecordedHost:
    """A folder that the recorded binding reads.

    Args:
        shape: h100x8, mig or a100x4.
    """

    def __init__(self, folder: Path, shape: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.environment = {"PYSLURM_RECORDED_GPUS": str(folder)}
        (folder / "host").write_text(shape)
        self.run()

    def run(self, *processes: dict[str, int]) -> None:
        """Have these processes run: gpu, slice, pid, percent, mib."""
        draft = self.folder / "draft"
        draft.write_text(json.dumps(processes))
        draft.replace(self.folder / "processes.json")

    def hang(self, *, hangs: bool) -> None:
        """Let the driver answer no call, or all of them."""
        if hangs:
            (self.folder / "hang").touch()
        else:
            (self.folder / "hang").unlink()

    def lose(self, number: int) -> None:
        """Let a GPU fall off the bus; its file stays."""
        (self.folder / "lost").write_text(str(number))

    def calls(self) -> list[str]:
        """Return which clocks were set."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


def binding(host: RecordedHost) -> Any:
    """Return the module of a host's binding."""
    os.environ.update(host.environment)
    spec = importlib.util.spec_from_file_location("recorded_pynvml", BINDING)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
