"""Rewrite the assertions of the tests once, where several processes will import them all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key


def rewrite_all(config: pytest.Config, root: Path) -> None:
    """Keep what pytest makes of each file under `root` beside it, as pytest itself does.

    Each process would do the same work at the same time as the others, a quarter of a minute of it
    in a fresh tree. What pytest keeps it reads even where `PYTHONDONTWRITEBYTECODE` is set.
    """
    paths = sorted(root.rglob("*.py"))
    shares = os.cpu_count() or 1
    children = []
    for share in range(shares):
        child = os.fork()
        if child == 0:
            try:
                for path in paths[share::shares]:
                    rewrite_file(config, path)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def rewrite_file(config: pytest.Config, path: Path) -> None:
    """Keep the rewritten code of one file, unless that is kept already."""
    directory = rewrite.get_cache_dir(path)
    kept = directory / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(directory):
        stamp, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[assertstate_key], code, stamp, kept)
