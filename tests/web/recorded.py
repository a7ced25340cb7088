"""Slurm's recorded answers, reduced to their keys and the types of their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rest" / "keys.json"


def recorded(path: str) -> Any:
    """Return the keys of a recorded answer, without meta."""
    return json.loads(GOLDEN.read_text())[path]["keys"]


def differences(mine: Any, theirs: Any, where: str = "") -> list[str]:
    """Return where a document has other keys or types than a recorded one; [] and null fit all."""
    if theirs is None or mine is None:
        return []
    if isinstance(theirs, dict):
        if not isinstance(mine, dict):
            return [f"{where}: {type(mine).__name__} instead of an object"]
        lines = [f"{where}/{key} is missing" for key in theirs if key not in mine]
        lines += [f"{where}/{key} is not recorded" for key in mine if key not in theirs]
        for key, value in mine.items():
            if key in theirs:
                lines += differences(value, theirs[key], f"{where}/{key}")
        return lines
    if isinstance(theirs, list):
        if not isinstance(mine, list):
            return [f"{where}: {type(mine).__name__} instead of a list"]
        if not theirs or not mine:
            return []
        return sorted({line for row in mine for line in differences(row, theirs[0], where)})
    kinds = {"string": str, "boolean": bool, "number": (int, float)}
    fits = isinstance(mine, kinds[theirs]) and (theirs == "boolean") == isinstance(mine, bool)
    return [] if fits else [f"{where}: {type(mine).__name__} instead of {theirs}"]
