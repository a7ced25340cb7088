"""The pages' addresses: looking, and the forms that change something."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from pyslurm_ng import __version__
from pyslurm_ng.web.app import Service
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.endpoints import cluster
from pyslurm_ng.web.page import changes, views
from pyslurm_ng.web.page.account_usage import account_usage
from pyslurm_ng.web.page.cluster_map import cluster_map
from pyslurm_ng.web.page.login_links import LINK_S, LoginLinks
from pyslurm_ng.web.page.plots import StatisticsHistory
from pyslurm_ng.web.page.session import (
    Visitor,
    check_seal,
    form_of,
    log_in,
    log_out,
    visitor_of,
)
from pyslurm_ng.web.proxy_login import is_https
from pyslurm_ng.web.refusal import BAD_REQUEST, UNAUTHORIZED, UNREACHABLE, Refusal, refusal_of
from pyslurm_ng.web.requester import JWT, requester_of, token_of
from pyslurm_ng.web.rooms import holding_of
from pyslurm_ng.wire.daemon_link import SlurmError

MOST_LOGIN_BYTES = 16 << 10
_HERE = Path(__file__).parent
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NO_LINK = "This link was opened before, or is older than ten minutes"
Context = dict[str, Any]
Look = Callable[[Call, Request], tuple[str, Context]]
_templates = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def routes(service: Service) -> list[BaseRoute]:
    """Return the pages' routes."""
    links = LoginLinks()
    history = StatisticsHistory()
    looks: dict[str, Look] = {
        "/": functools.partial(_overview, history),
        "/jobs": _jobs,
        "/jobs/{job}": _job,
        "/jobs/{job}/script": _script,
        "/jobs/{job}/output": _output,
        "/jobs/{job}/errors": _errors,
        "/nodes": _nodes,
        "/plan": _plan,
        "/shares": _shares,
        "/scheduler": functools.partial(_scheduler, history),
        "/submit": _empty_form,
    }
    shown: list[BaseRoute] = [
        Route(path, _endpoint(functools.partial(_show, service, look)), methods=["GET"])
        for path, look in looks.items()
    ]
    return [
        *shown,
        Route("/jobs/{job}/{verb}", _endpoint(functools.partial(_act, service)), methods=["POST"]),
        Route("/submit", _endpoint(functools.partial(_submit, service)), methods=["POST"]),
        Route(
            "/login", _endpoint(functools.partial(_login, service, links)), methods=["GET", "POST"]
        ),
        Route("/login/link", functools.partial(_make_link, service, links), methods=["POST"]),
        Route("/logout", _endpoint(functools.partial(_logout, service)), methods=["POST"]),
        Mount("/static", StaticFiles(directory=_HERE / "files")),
    ]


def _endpoint(
    serve: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a coroutine function that answers refusals with a page."""

    async def endpoint(request: Request) -> Response:
        try:
            return await serve(request)
        except Refusal as refusal:
            if refusal.status == UNAUTHORIZED and request.method == "GET":
                return RedirectResponse(f"/login?next={request.url.path}", 303, _HEADERS)
            return _page("problem.html", {"refusal": refusal, "visitor": None}, refusal.status)

    return endpoint


def _page(name: str, context: Mapping[str, Any], status: int = 200) -> Response:
    text = _templates.get_template(name).render(version=__version__, **context)
    return Response(text, status, _HEADERS, "text/html")


async def _in_thread(
    service: Service, visitor: Visitor, request: Request, work: Callable[[Call], Any]
) -> Any:
    """Return what work that asks the daemons gives."""
    call = Call("slurm", service.versions[-1], visitor.requester, service.daemons)

    def guarded() -> Any:
        try:
            return work(call)
        except SlurmError as error:
            raise refusal_of(error, error.text, request.url.path, may_be_unknown=True) from None
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - it costs this request only
            service.faults.note("request", f"{request.url.path} failed", error)
            raise Refusal(500, "internal error", source="slurmrestd") from None
        finally:
            call.close()

    return await holding_of(request).in_thread(guarded)


async def _show(service: Service, look: Look, request: Request) -> Response:
    visitor = await visitor_of(service, request)

    def work(call: Call) -> Response:
        name, context = look(call, request)
        common = {"visitor": visitor, "cluster": service.daemons.cluster, "told": ""}
        return _page(name, {**common, **context})

    answer = await _in_thread(service, visitor, request, work)
    assert isinstance(answer, Response)
    return answer


# Looking --------------------------------------------------------------------------------------


def _overview(history: StatisticsHistory, call: Call, request: Request) -> tuple[str, Context]:
    own = views.Chosen(user=call.requester.name)
    statistics: Context = cluster.diagnostics(call)["statistics"]  # type: ignore[index]
    history.note(statistics)
    shown = views.nodes(call)
    drawn = cluster_map(call, shown["nodes"])
    return "overview.html", {**shown, **drawn, "own": views.queue(call, own),
                             "statistics": statistics}  # fmt: skip


def _jobs(call: Call, request: Request) -> tuple[str, Context]:
    asked = {name: text[:200] for name, text in request.query_params.items()}
    page = asked.get("page", "1")
    chosen = views.Chosen(
        asked.get("user", ""), asked.get("partition", ""), asked.get("state", ""),
        asked.get("text", ""), int(page) if page.isdecimal() and len(page) < 8 else 1,
    )  # fmt: skip
    return "jobs.html", views.queue(call, chosen)


def _job(call: Call, request: Request) -> tuple[str, Context]:
    return "job.html", {"id": request.path_params["job"],
                        **views.job(call, request.path_params["job"])}  # fmt: skip


def _script(call: Call, request: Request) -> tuple[str, Context]:
    job = request.path_params["job"]
    return "script.html", {"id": job, "script": views.script(call, job)}


def _output(call: Call, request: Request) -> tuple[str, Context]:
    return "output.html", views.output(call, request.path_params["job"], "out")


def _errors(call: Call, request: Request) -> tuple[str, Context]:
    return "output.html", views.output(call, request.path_params["job"], "err")


def _nodes(call: Call, request: Request) -> tuple[str, Context]:
    return "nodes.html", views.nodes(call)


def _plan(call: Call, request: Request) -> tuple[str, Context]:
    return "plan.html", views.plan(call)


def _shares(call: Call, request: Request) -> tuple[str, Context]:
    answer: Context = cluster.fair_shares(call)["shares"]  # type: ignore[index]
    return "shares.html", {"rows": answer["shares"], **account_usage(call)}


def _scheduler(history: StatisticsHistory, call: Call, request: Request) -> tuple[str, Context]:
    statistics: Context = cluster.diagnostics(call)["statistics"]  # type: ignore[index]
    history.note(statistics)
    rows = [(name, value) for name, value in statistics.items() if isinstance(value, int)]
    return "scheduler.html", {"rows": rows, "statistics": statistics, "plots": history.plots()}


def _empty_form(call: Call, request: Request) -> tuple[str, Context]:
    return "submit.html", {"form": changes.usual_form(call), "estimate": None, "wrong": ""}


# Changing -------------------------------------------------------------------------------------


async def _act(service: Service, request: Request) -> Response:
    """Cancel, hold, release or requeue a job."""
    visitor = await visitor_of(service, request)
    check_seal(visitor, await form_of(request))
    job, verb = request.path_params["job"], request.path_params["verb"]
    await _in_thread(service, visitor, request, lambda call: changes.act(call, job, verb))
    return RedirectResponse(f"/jobs/{job}", 303, _HEADERS)


async def _submit(service: Service, request: Request) -> Response:
    """Submit the form, or say when its job would start."""
    visitor = await visitor_of(service, request)
    form = await form_of(request)
    check_seal(visitor, form)
    only_tests = "estimate" in form
    operation = service.by_key[service.versions[-1], "post", changes.SUBMIT]

    def work(call: Call) -> Response:
        shown = {**changes.usual_form(call), **form}
        context = {"visitor": visitor, "cluster": service.daemons.cluster, "told": "",
                   "form": shown, "estimate": None, "wrong": ""}  # fmt: skip
        try:
            if only_tests:
                context["estimate"] = changes.estimate(call, operation, form)
                return _page("submit.html", context)
            job_id = changes.submit(call, operation, form)
        except (Refusal, SlurmError) as error:
            text = error.text or getattr(error, "description", "")
            return _page("submit.html", {**context, "wrong": text}, 422)
        return RedirectResponse(f"/jobs/{job_id}", 303, _HEADERS)

    answer = await _in_thread(service, visitor, request, work)
    assert isinstance(answer, Response)
    return answer


async def _make_link(service: Service, links: LoginLinks, request: Request) -> Response:
    """Make a link that logs its user in once, for a token in a header."""
    requester = service.requester(request)
    requester = await service.believe(requester, request, "slurm")
    token = token_of(request.headers)
    if not token or not requester.is_known:
        raise Refusal(UNAUTHORIZED, "a token is needed that slurmctld believes",
                      source="slurmrestd")  # fmt: skip
    if request.headers.get("x-slurm-user-name", ""):
        # The link holds the token itself: a portal's would log its user in as the portal.
        raise Refusal(BAD_REQUEST, "a link is for the token's own user: no X-SLURM-USER-NAME",
                      source="slurmrestd")  # fmt: skip
    code = links.make(token, requester.share)
    return JSONResponse({"code": code, "seconds": int(LINK_S)}, headers=_HEADERS)


async def _login(service: Service, links: LoginLinks, request: Request) -> Response:
    """Take a token: from the form, or once from the link that `pyslurm-ng up` prints."""
    follow = request.query_params.get("next", "/")
    if request.method != "POST":
        code = request.query_params.get("code", "")[:64]
        user = links.user_of(code) if code else ""
        wrong = _NO_LINK if code and not user else ""
        return _page("login.html", {"follow": follow, "wrong": wrong, "visitor": None,
                                    "code": code if user else "", "user": user})  # fmt: skip
    form = await form_of(request, MOST_LOGIN_BYTES)
    token = form.get("token", "").strip()
    if "code" in form:
        token = links.take(form["code"])
        if not token:
            context = {"follow": "/", "wrong": _NO_LINK, "visitor": None, "code": ""}
            return _page("login.html", context, UNAUTHORIZED)
    follow = form.get("next", "/")
    if not follow.startswith("/") or follow.startswith("//") or "\\" in follow:
        follow = "/"
    try:
        claimed = requester_of(
            {"x-slurm-user-token": token}, None, service.kinds & {JWT}, service.daemons.user_claim
        )
        known = await service.believe(claimed, request, "slurm")
        if not known.is_known:
            raise Refusal(UNREACHABLE, "slurmctld does not answer", source="slurmrestd")
    except Refusal as refusal:
        wrong = refusal.text or refusal.description
        context = {"follow": follow, "wrong": wrong, "visitor": None, "code": ""}
        return _page("login.html", context, UNAUTHORIZED)
    response = RedirectResponse(follow, 303, _HEADERS)
    log_in(response, token, is_secure=is_https(request, service.proxies))
    return response


async def _logout(service: Service, request: Request) -> Response:
    check_seal(await visitor_of(service, request), await form_of(request))
    response = RedirectResponse("/login", 303, _HEADERS)
    log_out(response)
    return response
