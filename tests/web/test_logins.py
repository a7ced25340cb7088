"""Links that log in once, and users whom a proxy names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request

from pyslurm_ng.web.app import Service
from pyslurm_ng.web.options import BadOptions, Options
from pyslurm_ng.web.page.login_links import LINK_S, MOST_LINKS, MOST_OF_ONE, LoginLinks
from pyslurm_ng.web.page.routes import routes
from pyslurm_ng.web.page.session import COOKIE
from pyslurm_ng.web.proxy_login import ProxyLogin, is_https, proxies_of
from pyslurm_ng.web.refusal import Refusal
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.wire.bearer import bearer_credential
from tests.web.front import FrontClient, front, token_of

FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_a_link_logs_in_once() -> None:
    """It gives the cookie that the token gives; the second time it is as good as none."""
    client = front(None, "alice", more=routes)
    made = client.request("POST", "/login/link")
    code = made.json()["code"]
    assert made.status == 200 and made.json()["seconds"] == 600
    page = client.get(f"/login?code={code}")
    assert f'name="code" value="{code}"' in page.content.decode()
    visitor = client.request("POST", "/login", f"code={code}".encode(), FORM)
    assert visitor.status == 303
    assert visitor.headers["set-cookie"].startswith(f"{COOKIE}={token_of('alice')}; HttpOnly")
    again = client.request("POST", "/login", f"code={code}".encode(), FORM)
    assert again.status == 401 and "opened before" in again.content.decode()


def test_another_site_opens_no_link() -> None:
    """Nobody is logged in as somebody else by a page elsewhere."""
    client = front(None, "alice", more=routes)
    code = client.request("POST", "/login/link").json()["code"]
    headers = {**FORM, "sec-fetch-site": "cross-site"}
    assert client.request("POST", "/login", f"code={code}".encode(), headers).status == 403
    assert client.request("POST", "/login", f"code={code}".encode(), FORM).status == 303


def test_links_are_for_those_who_have_a_token() -> None:
    """A cookie is none: no page makes links."""
    client = front(None, "", more=routes)
    assert client.request("POST", "/login/link").status == 401
    cookie = {"cookie": f"{COOKIE}={token_of('alice')}"}
    assert client.request("POST", "/login/link", headers=cookie).status == 401


def test_a_link_is_for_its_tokens_user() -> None:
    """A portal's token with another's name would log that other in as the portal."""
    client = front(None, "alice", more=routes)
    answer = client.request("POST", "/login/link", headers={"x-slurm-user-name": "bob"})
    assert (answer.status, "X-SLURM-USER-NAME" in answer.content.decode()) == (400, True)


def test_a_look_at_a_link_does_not_open_it() -> None:
    """Programs that show where a link leads ask by HEAD first."""
    client = front(None, "alice", more=routes)
    code = client.request("POST", "/login/link").json()["code"]
    assert client.request("HEAD", f"/login?code={code}").status == 200
    assert client.request("POST", "/login", f"code={code}".encode(), FORM).status == 303


def test_no_token_is_believed_longer_than_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmctld is asked again, also about what needs no daemon, as a link."""
    asked: list[str] = []
    usual = FrontClient.call

    def call(self: FrontClient, kind: str, *rest: Any) -> dict[str, Any]:
        asked.append(kind)
        return usual(self, kind, *rest)

    monkeypatch.setattr(FrontClient, "call", call)
    client = front(None, "", more=routes)
    for end_s, questions in ((time.time() + 1000, 1), (time.time() - 1, 2)):
        headers = {"x-slurm-user-token": token_of("alice", exp=end_s)}
        for _ in range(2):
            assert client.request("POST", "/login/link", headers=headers).status == 200
        assert asked == ["Ping"] * questions
        asked.clear()


def test_a_link_says_whom_it_logs_in() -> None:
    """Else who opens the link of another one works as that user, who sees all of it."""
    client = front(None, "mallory", more=routes)
    code = client.request("POST", "/login/link").json()["code"]
    assert "Log in as mallory</button>" in client.get(f"/login?code={code}").content.decode()
    page = client.get(f"/login?code={code[1:]}x").content.decode()
    assert "opened before" in page and "mallory" not in page


def test_links_end_and_are_bounded() -> None:
    """One user's oldest make room for their newest."""
    time_s = [0.0]
    links = LoginLinks(lambda: time_s[0])
    codes = [links.make(f"t{number}", b"alice") for number in range(MOST_OF_ONE + 1)]
    assert (links.take(codes[0]), links.take(codes[1]), links.take(codes[1])) == ("", "t1", "")
    time_s[0] = LINK_S + 1
    assert links.take(codes[2]) == ""
    for number in range(MOST_LINKS):
        links.make("t", str(number).encode())
    with pytest.raises(Refusal):
        links.make("t", b"one more")


def login(folder: Path, addresses: str = "10.0.0.5,10.1.0.0/16", mode: int = 0o600) -> ProxyLogin:
    """Return what a slurmrestd behind a proxy has."""
    path = folder / "token"
    path.write_text("SLURM_JWT=a.b.c\n")
    path.chmod(mode)
    options = Options(
        proxy_header="X-Remote-User", proxy_addresses=addresses, proxy_token=str(path)
    )
    made = ProxyLogin.of(options)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("address", "name", "believed"),
    [
        ("10.0.0.5", "alice", True), ("10.1.2.3", "alice", True),
        ("::ffff:10.0.0.5", "alice", True),
        ("10.0.0.6", "alice", False), ("127.0.0.1", "alice", False), ("::1", "alice", False),
        ("unix:/x(fd:3)", "alice", False), ("", "alice", False), ("10.0.0.5", "", False),
    ],
)  # fmt: skip
def test_only_known_proxies_are_believed(
    tmp_path: Path, address: str, name: str, believed: bool
) -> None:
    """Everybody can send a header."""
    requester = login(tmp_path).requester({"x-remote-user": name}, address)
    expected = Requester("rest_auth/jwt", "alice", bearer_credential("a.b.c", "alice"))
    assert requester == (expected if believed else None)


@pytest.mark.parametrize("name", ["root", "0", "a b", "a\nb", "x" * 300, "-x", "a;b", "\u00e4"])
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    """A proxy logs no administrator in, and a name is a name."""
    with pytest.raises(Refusal):
        login(tmp_path).requester({"x-remote-user": name}, "10.0.0.5")


def test_slurm_user_is_not_logged_in(tmp_path: Path) -> None:
    """An account of that name at the site's provider would be an administrator here."""
    login(tmp_path)
    options = Options(proxy_header="X-User", proxy_addresses="10.0.0.1",
                      proxy_token=str(tmp_path / "token"))  # fmt: skip
    proxy = ProxyLogin.of(options, "slurm")
    assert proxy is not None
    with pytest.raises(Refusal):
        proxy.requester({"x-user": "slurm"}, "10.0.0.1")


def test_one_name_only(tmp_path: Path) -> None:
    """A proxy that adds its header keeps what its client wrote into it."""
    headers = Headers(raw=[(b"x-remote-user", b"bob"), (b"x-remote-user", b"alice")])
    with pytest.raises(Refusal, match="bob, alice"):
        login(tmp_path).requester(headers, "10.0.0.5")
    alone = Headers(raw=[(b"x-remote-user", b"alice")])
    requester = login(tmp_path).requester(alone, "10.0.0.5")
    assert requester is not None and requester.name == "alice"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"proxy_token": ""}, "need each other"), ({"proxy_addresses": ""}, "need each other"),
        ({"proxy_header": "a b"}, "no name of a header"),
        ({"proxy_addresses": "host"}, "no address"),
        ({"proxy_addresses": "10.0.0.1/8"}, "no address"),
        ({"proxy_token": "/nowhere"}, "No such file"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(tmp_path: Path, change: dict[str, str], said: str) -> None:
    """By name, before anything is served."""
    login(tmp_path)
    words: dict[str, Any] = {"proxy_header": "X-User", "proxy_addresses": "10.0.0.1",
                             "proxy_token": str(tmp_path / "token"), **change}  # fmt: skip
    with pytest.raises(BadOptions, match=said):
        ProxyLogin.of(Options(**words))


@pytest.mark.parametrize(
    ("said", "proxies", "is_secure"),
    [
        ([], "127.0.0.1", False), (["https"], "127.0.0.1", True), (["HTTPS"], "127.0.0.1", True),
        (["https"], "", False), (["https"], "10.0.0.5", False), (["http"], "127.0.0.1", False),
        (["https, http"], "127.0.0.1", False), (["http, https"], "127.0.0.1", True),
        (["https", "http"], "127.0.0.1", False),
    ],
)  # fmt: skip
def test_the_cookie_is_for_https_where_a_proxy_speaks_it(
    said: list[str], proxies: str, is_secure: bool
) -> None:
    """Only the site's proxies say so; who writes before them is not heard."""
    options = Options(proxy_addresses=proxies)
    assert ProxyLogin.of(options) is None
    raw = [(b"x-forwarded-proto", word.encode()) for word in said]
    scope = {"type": "http", "scheme": "http", "server": ("127.0.0.1", 6820), "path": "/login",
             "query_string": b"", "headers": raw, "client": ("127.0.0.1", 4000)}  # fmt: skip
    assert is_https(Request(scope), proxies_of(options)) is is_secure
    assert is_https(Request({**scope, "scheme": "https"}), ())


def test_the_cookie_says_that_it_is_for_https() -> None:
    """Else the browser shows the token to whoever answers http://."""

    def more(service: Service) -> list[Any]:
        service.proxies = proxies_of(Options(proxy_addresses="127.0.0.1"))
        return routes(service)

    headers = {**FORM, "x-forwarded-proto": "https"}
    client = front(None, "", more=more)
    answer = client.request("POST", "/login", f"token={token_of('alice')}".encode(), headers)
    assert answer.status == 303 and "; Secure" in answer.headers["set-cookie"]


def test_a_token_that_others_read_is_refused(tmp_path: Path) -> None:
    """Who has it is everybody."""
    with pytest.raises(BadOptions, match="mode 600"):
        login(tmp_path, mode=0o644)


def test_a_token_is_before_the_proxys_word(tmp_path: Path) -> None:
    """Pages and REST ask the same way."""
    from pyslurm_ng.web.app import Service
    from pyslurm_ng.web.daemons import Daemons
    from tests.web.front import CONF

    service = Service(Daemons(CONF), proxy=login(tmp_path))
    scope: dict[str, Any] = {"type": "http", "method": "POST", "client": ("10.0.0.5", 1),
                             "headers": [], "state": {}}  # fmt: skip
    named = {"x-remote-user": "alice"}
    assert service.asker(Request(scope), named).name == "alice"
    own = {**named, "x-slurm-user-token": token_of("bob")}
    assert service.asker(Request(scope), own).name == "bob"


@pytest.mark.parametrize(
    ("method", "told", "is_taken"),
    [
        ("POST", {"sec-fetch-site": "cross-site"}, False),
        ("DELETE", {"sec-fetch-site": "same-site"}, False),
        ("POST", {"origin": "http://evil"}, False), ("POST", {"origin": "null"}, False),
        ("GET", {"sec-fetch-site": "cross-site"}, True), ("POST", {}, True),
        ("POST", {"sec-fetch-site": "same-origin", "origin": "https://here"}, True),
        ("POST", {"host": "here", "origin": "https://here"}, True),
    ],
)  # fmt: skip
def test_another_site_changes_nothing_by_the_proxys_word(
    tmp_path: Path, method: str, told: dict[str, str], is_taken: bool
) -> None:
    """Browsers log in to a proxy by themselves, so any page could submit a job by REST."""
    from pyslurm_ng.web.app import Service
    from pyslurm_ng.web.daemons import Daemons
    from tests.web.front import CONF

    service = Service(Daemons(CONF), proxy=login(tmp_path))
    raw = [(name.encode(), text.encode()) for name, text in told.items()]
    headers = [(b"x-remote-user", b"alice"), *raw]
    scope: dict[str, Any] = {"type": "http", "method": method, "client": ("10.0.0.5", 1),
                             "headers": headers, "state": {}}  # fmt: skip
    request = Request(scope)
    if is_taken:
        assert service.requester(request).name == "alice"
    else:
        with pytest.raises(Refusal) as refused:
            service.requester(request)
        assert refused.value.status == 403
