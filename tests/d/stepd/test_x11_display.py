"""The display that X clients of a step have on their node."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.stepd import x11_display
from pyslurm_ng.d.stepd.step_tasks import CannotStart
from pyslurm_ng.d.stepd.x11_display import X11Display

COOKIE = bytes(range(16))


def display(directory: str, home: str = "/") -> X11Display:
    spec: Any = {"uid": os.getuid(), "gid": os.getgid(), "groups": []}
    link: Any = None
    x11: Any = {"cookie": COOKIE, "directory": directory, "home": home}
    return X11Display(PollLoop(), spec, x11, link)


def test_the_cookie_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With X11Parameters=home_xauthority xauth enters it into the user's own file, and removes it.


    It is told on its standard input: all users of a node see the arguments of a process.
    """
    seen = tmp_path / "seen"
    xauth = tmp_path / "xauth"
    xauth.write_text(f'#!/bin/sh\necho "$HOME $*" >>{seen}\ncat >>{seen}\n')
    xauth.chmod(0o755)
    monkeypatch.setattr(x11_display, "_XAUTH", (str(xauth),))
    shown = display("", str(tmp_path))
    (variable,) = shown.environment
    number = variable.removeprefix(b"DISPLAY=127.0.0.1:").removesuffix(b".0").decode()
    shown.close()
    told = seen.read_text().splitlines()
    assert told[0::2] == [f"{tmp_path} -q"] * 2
    assert told[1].startswith("add ")
    assert told[1].endswith(f"/unix:{number} . {COOKIE.hex()}")
    assert told[3].startswith("remove ")


def test_clients_come_to_the_display_and_to_nobody_beside_it(tmp_path: Path) -> None:
    """`localhost` is ::1 first on many hosts, where any user may listen at the same port.

    RELIABILITY 58.
    """
    shown = display(str(tmp_path))
    variables = dict(entry.decode().split("=", 1) for entry in shown.environment)
    host, _, number = variables["DISPLAY"].removesuffix(".0").rpartition(":")
    port = 6000 + int(number)
    try:
        with socket.create_server(("::1", port), family=socket.AF_INET6):
            assert ipaddress.ip_address(host).is_loopback  # a name may be several addresses
            with socket.create_connection((host, port)) as client:
                assert client.getpeername() == shown._listener.getsockname()
    finally:
        shown.close()


def test_what_keeps_a_display_from_being_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step does not start, and its user learns why."""
    with pytest.raises(CannotStart, match="X11: No such file"):
        display(str(tmp_path / "absent"))
    monkeypatch.setattr(x11_display, "_XAUTH", (str(tmp_path / "xauth"),))
    with pytest.raises(CannotStart, match="home_xauthority needs xauth"):
        display("")
    (tmp_path / "xauth").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "xauth").chmod(0o755)
    with pytest.raises(CannotStart, match="xauth failed"):
        display("")
    monkeypatch.setattr(x11_display, "_END", x11_display._FIRST)
    with pytest.raises(CannotStart, match="no display is free"):
        display(str(tmp_path))
