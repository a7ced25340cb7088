"""How Sphinx builds the site; tools/stage_site.py lays its sources out. ADR 0042."""

from __future__ import annotations

import os

project = "pyslurm-ng"
author = "the pyslurm-ng authors"
release = version = os.environ.get("PYSLURM_VERSION", "")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# Pages are read as files, too: links lead to files of the repository, which the site has not all.
html_theme = "furo"
html_title = "pyslurm-ng"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
nitpicky = True
