"""The pages of slurmrestd: what they show, and that no other site can use them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from pyslurm_ng.web.page import changes, views
from pyslurm_ng.web.page.routes import routes
from tests.cli.reference_cluster import queue
from tests.web.front import front, token_of
from tests.web.visitor import Visitor

PAGES = ("/", "/jobs", "/jobs/21", "/nodes", "/plan", "/shares", "/scheduler", "/submit")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_whole_html_with_safe_headers(path: str) -> None:
    answer = Visitor("alice").get(path)
    text = answer.content.decode()
    assert answer.status == 200, text
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    assert text.count("<h1>") == 1
    assert "style=" not in text and "<script>" not in text  # the policy would stop both
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_who_is_not_logged_in_is_asked_to(path: str) -> None:
    answer = front(None, "", more=routes).get(path)
    assert (answer.status, answer.headers["location"]) == (303, f"/login?next={path}")


def test_names_of_jobs_are_text() -> None:
    """Users choose them, and others read them."""
    reference = queue()
    name = "<script>alert(1)</script>\"'&"
    reference.submit(900, "bob", "12:10:20", name)
    visitor = Visitor("alice", reference)
    for path in ("/jobs", "/jobs/900"):
        text = visitor.get(path).content.decode()
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;" in text


def test_the_queue_can_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of the recorded cluster may have another number on this host."""
    monkeypatch.setattr(views, "_uid_of", lambda user: -1)
    visitor = Visitor("alice")
    ids = re.findall(r'href="/jobs/(\d+)"', visitor.get("/jobs?user=bob").content.decode())
    assert ids and set(ids) < set(
        re.findall(r'href="/jobs/(\d+)"', visitor.get("/jobs").content.decode())
    )
    assert "No jobs" in visitor.get("/jobs?text=nosuchname").content.decode()
    assert "No jobs" in visitor.get("/jobs?user=no%20such").content.decode()
    for odd in ("page=-1", "page=99999999999999", "state=XX", "user=%00", "text=%ff"):
        assert visitor.get(f"/jobs?{odd}").status == 200, odd


def test_a_long_queue_has_pages() -> None:
    reference = queue()
    for job_id in range(1000, 1000 + views.ROWS_OF_A_PAGE + 5):
        reference.submit(job_id, "carol", "12:10:20", "many")
    visitor = Visitor("alice", reference)
    first = visitor.get("/jobs?text=many").content.decode()
    second = visitor.get("/jobs?text=many&page=2").content.decode()
    assert first.count("<td>many</td>") == views.ROWS_OF_A_PAGE
    assert second.count("<td>many</td>") == 5
    assert "Next page" in first and "Previous page" in second


def test_forms_of_other_sites_are_refused() -> None:
    """A cookie alone changes nothing; a seal of another user's is as good as none."""
    visitor, other = Visitor("bob"), Visitor("alice")
    theirs = re.findall(r'name="seal" value="(\w+)"', other.get("/submit").content.decode())[0]
    for seal in ("", "x", theirs):
        assert visitor.post("/jobs/25/cancel", seal=seal).status == 403
        assert visitor.post("/submit", seal=seal, script="#!/bin/sh\n").status == 403
    assert visitor.front.get("/jobs/25/cancel", Cookie=visitor.cookie).status in (404, 405)


def test_a_job_is_held_released_and_cancelled_by_its_owner_only() -> None:
    reference = queue()
    owner = Visitor("bob", reference)
    assert owner.post("/jobs/25/hold").headers["location"] == "/jobs/25"
    assert ">Release</button>" in owner.get("/jobs/25").content.decode()
    assert owner.post("/jobs/25/release").status == 303
    refused = Visitor("carol", reference).post("/jobs/25/cancel")
    assert refused.status == 422
    assert "Access/permission denied" in refused.content.decode()
    assert owner.post("/jobs/25/cancel").status == 303
    assert "CANCELLED" in owner.get("/jobs/25").content.decode()
    assert owner.post("/jobs/25/explode").status == 404


def test_a_job_that_never_ran_has_no_run_time() -> None:
    row = dict.fromkeys(views.JOB_COLUMNS, 0)
    row |= {"array_tasks": "", "reason": "None", "nodes": "", "state": 4, "end_us": 10**15}
    assert views.job_row(row, 10**15)["run_time"] == ""


def test_a_job_is_submitted() -> None:
    visitor = Visitor("alice")
    fields = {"script": "#!/bin/sh\r\ntrue\r\n", "name": "web", "nodes": "1", "minutes": "5",
              "directory": "/tmp", "partition": "main"}  # fmt: skip
    answer = visitor.post("/submit", submit="1", **fields)
    assert answer.status == 303, answer.content.decode()
    assert ">web<" in visitor.get("/jobs").content.decode()
    wrong = visitor.post("/submit", submit="1", **{**fields, "nodes": "many"})
    assert wrong.status == 422
    text = wrong.content.decode()
    assert "nodes: &#39;many&#39; is no number" in text
    assert 'value="web"' in text  # what was typed is still there


def test_a_token_is_kept_in_a_cookie_that_scripts_cannot_read() -> None:
    visitor = Visitor("alice")
    form: dict[str, Any] = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"token": token_of("alice"), "next": "/jobs"}).encode()
    answer = visitor.front.request("POST", "/login", body, form)
    assert (answer.status, answer.headers["location"]) == (303, "/jobs")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    for away in ("https://evil.example", "//evil.example", "/\\evil.example"):
        body = urlencode({"token": token_of("alice"), "next": away}).encode()
        assert visitor.front.request("POST", "/login", body, form).headers["location"] == "/"
    for wrong in (b"token=", b"\xff", b"token=%ff", b"token=" + b"x" * 9000):
        assert 400 <= visitor.front.request("POST", "/login", wrong, form).status < 500
    body = urlencode({"token": token_of("alice")}).encode()
    assert visitor.front.request("POST", "/login", body).status == 400  # no form


def test_the_rest_interface_is_where_it_was() -> None:
    visitor = front(None, "alice", more=routes)
    assert visitor.get("/slurm/v0.0.46/ping/").status == 200
    assert visitor.get("/static/style.css").headers["content-type"].startswith("text/css")
    assert visitor.get("/static/../routes.py").status == 404


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("gpu:2", 2), ("gpu:a100:2(IDX:0-1)", 2), ("gpu:a:2(S:0),gpu:b:3(S:1),shard:9", 5),
     ("mps:100,gpu:1", 1), ("gpu:(null):3(IDX:0-2),shard:9", 3)],
)  # fmt: skip
def test_gpus_are_counted_from_their_text(text: str, count: int) -> None:
    assert views.gpu_count(text) == count


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://proxy.example"}, 303),
        ({"Origin": "http://here.example"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_no_other_site_logs_a_visitor_in(headers: dict[str, str], status: int) -> None:
    """As its own user: what the visitor submits then would be read by others."""
    body = urlencode({"token": token_of("carol"), "next": "/"}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded", "Host": "here.example", **headers}
    answer = front(None, "", more=routes).request("POST", "/login", body, form)
    assert answer.status == status
    assert ("set-cookie" in answer.headers) == (status == 303)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\n", "a\nb\n"),
        ("10%\r20%\r30%\n", "30%\n"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("a\x00b\x9bc\t\u202ed", "a\ufffdb\ufffdc\t\ufffdd"),
        ("<script>", "<script>"),  # the page escapes it
    ],
)
def test_output_is_shown_as_a_terminal_would(text: str, shown: str) -> None:
    """Nothing in it moves the reader's text; progress bars are one line."""
    assert views.plain_lines(text) == shown


def test_the_end_of_the_output_is_shown() -> None:
    """From the first whole line; what a job prints is text."""

    class Answers:
        def call(self, kind: str, fields: Any, timeout_s: float = 0) -> Any:
            assert (kind, fields) == ("ReadOutput", {"job": "7", "stream": "err"})
            return {"data": b"rt\n<b>\xff", "offset": 5, "size": 12, "path": "/o", "node": "n1",
                    "is_over": False}  # fmt: skip

    shown = views.output(SimpleNamespace(controller=Answers()), "7", "err")  # type: ignore[arg-type]
    assert (shown["content"], shown["is_cut"], shown["size"]) == ("<b>\ufffd", True, 12)


def test_a_job_of_the_form_finds_our_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before those of another Slurm on the host, wherever this one is installed."""
    (tmp_path / "srun").touch()
    monkeypatch.setattr(changes, "program_directories", lambda: [tmp_path, tmp_path / "sbin"])
    changes._path.cache_clear()
    assert changes._path() == f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    changes._path.cache_clear()
