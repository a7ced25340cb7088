"""The sources of the documentation's site, as far as they can be looked at without Sphinx."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import command_pages  # noqa: E402  (tools, not packages)
import conf_pages  # noqa: E402
import stage_site  # noqa: E402
from roff_to_markdown import markdown  # noqa: E402

PAGE = r""".TH "SCANCEL" "1" "" "1.0" "pyslurm\-ng"
.nh
.SH NAME
scancel \- cancel jobs
.SH OPTIONS
.TP
\fB\-s, \-\-signal=value\fR
Which signal_name to send.
.IP
KILL, unless said otherwise.
.SH EXAMPLE
.PP
.nf
.RS 4
scancel \-\-name=test
\&.5
.RE
.fi
.SH SEE ALSO
.PP
squeue(1), groff(1)
"""


def test_a_manual_page_becomes_markdown() -> None:
    """Options are a list, examples stay as they are, only pages that are there become links."""
    text = markdown("scancel.1", PAGE, frozenset({"scancel.1", "squeue.1"}))
    assert text.startswith("# scancel(1)\n\n## Name\n\nscancel - cancel jobs\n")
    assert "`-s, --signal=value`\n: Which signal\\_name to send.\n\n  KILL, unless" in text
    assert "```text\nscancel --name=test\n.5\n```" in text
    assert "[squeue(1)](squeue.1.md), groff(1)" in text


def test_unknown_words_of_roff_are_refused() -> None:
    """A word that is passed over would swallow text in silence."""
    with pytest.raises(ValueError, match=r"\.TS"):
        markdown("x.1", ".TH X\n.TS\n", frozenset())


def test_every_manual_page_can_be_shown() -> None:
    """With each of its options."""
    pages = {**command_pages.pages(), **conf_pages.pages()}
    for name, page in pages.items():
        text = markdown(name, page.text(), frozenset(pages))
        tags = sum(line == ".TP" for line in page.text().splitlines())
        assert len(re.findall(r"^`.*`\n: ", text, re.MULTILINE)) == tags, name


def test_each_page_has_its_place_in_the_sites_index() -> None:
    """Sphinx would say so too, but needs packages that tests do not wait for."""
    index = (stage_site.SITE / "index.md").read_text()
    trees = " ".join(re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL)).split()
    listed = [entry for entry in trees if not entry.startswith(":")]
    for page in stage_site.pages():
        if page.suffix == ".md":
            name = page.with_suffix("")
            assert any(name.match(entry) for entry in listed), page
