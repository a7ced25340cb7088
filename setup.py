"""Build the Cython modules; everything else is in pyproject.toml.

A module is built when its source is there, in the order of need:
`kernels.records` (packed records and command output), `_select` (scheduling kernels, of pieces in
`kernels`) and `kernels.process` (process start).
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src/pyslurm_ng")
KERNELS = SOURCE / "kernels"
# Bounds checks cost kernels some 10 %, so they are for checked builds only.
CHECKED = os.environ.get("PYSLURM_DEBUG_KERNELS") == "1"

extensions = [
    Extension(
        f"pyslurm_ng.{name}",
        [str(SOURCE / f"{name.replace('.', '/')}.pyx")],
        depends=[str(path) for path in (*KERNELS.glob("*.h"), *KERNELS.glob("*.pxi"))],
        # The kernels' loops over time slots want vectors; elsewhere -O3 only makes code larger.
        extra_compile_args=[
            "-O3" if name == "_select" else "-O2",
            "-g0",
            "-fno-semantic-interposition",
        ],
        extra_link_args=["-s"],
    )
    for name in ("kernels.records", "_select", "kernels.process")
]

setup(
    ext_modules=cythonize(
        extensions,
        language_level=3,
        compiler_directives={
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": CHECKED,
            "cdivision": not CHECKED,
            "embedsignature": True,
        },
        force=CHECKED,
        quiet=True,
    )
)
