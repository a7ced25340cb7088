"""HTTP on the controller's port: health, and who may read metrics."""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire.auth_jwt import JwtSettings, JwtVerifier, load_verifier
from pyslurm_ng.wire.daemon_link import connect_unix, socket_file
from tests.ctld.controller import Controller

ON = "MetricsType=metrics/openmetrics\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[list[Controller]]:
    started: list[Controller] = []
    yield started
    for controller in started:
        controller.stop()


def get(
    controller: Controller, path: str, *, by_unix: bool = False, headers: str = ""
) -> tuple[int, str]:
    """Return the status and the body."""
    if by_unix:
        path_of_socket = socket_file("slurmctld", str(controller.pid_file), controller.port)
        raw = connect_unix(path_of_socket, 1e9, "root").connection
        connection = socket.socket(fileno=raw.detach())
    else:
        connection = socket.create_connection(("127.0.0.1", controller.port))
    with connection:
        connection.settimeout(60)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def test_health_is_told_to_everybody_and_pages_are_off(
    start: list[Controller], tmp_path: Path
) -> None:
    controller = Controller(tmp_path)
    start.append(controller)
    controller.start()
    assert [get(controller, path) for path in ("/livez", "/readyz", "/healthz")] == [(204, "")] * 3
    off = "no metrics: slurm.conf has no MetricsType=metrics/openmetrics\n"
    assert get(controller, "/metrics/jobs") == (404, off)
    assert get(controller, "/metrics/frogs") == (404, "there is no such page\n")


def test_pages_are_for_everybody_unless_data_are_private(
    start: list[Controller], tmp_path: Path
) -> None:
    """MetricsType, MetricsParameters and MetricsAuthUsers, each by what it changes."""
    controller = Controller(tmp_path, ON)
    start.append(controller)
    controller.start()
    status, page = get(controller, "/metrics/jobs")
    assert status == 200
    assert "\nslurm_jobs_running 0\n" in page
    assert "\npyslurm_epoch 1\n" in get(controller, "/metrics")[1]
    for extra, by_tcp, by_unix in (
        ("PrivateData=jobs\n", 401, 200),
        ("PrivateData=jobs\nMetricsParameters=ignore_private_data\n", 200, 200),
        ("MetricsAuthUsers=nobody\n", 401, 200),
        ("MetricsAuthUsers=nobody\nMetricsParameters=ignore_private_data\n", 401, 200),
    ):
        controller.conf_path.write_text(controller.text + extra)
        controller.change("Reconfigure")
        assert get(controller, "/metrics/jobs")[0] == by_tcp, extra
        assert get(controller, "/metrics/jobs", by_unix=True)[0] == by_unix, extra
    controller.kill()


def test_a_token_names_the_user(start: list[Controller], tmp_path: Path) -> None:
    """By either header; a wrong token is nobody's, and another user's is refused."""
    key = tmp_path / "jwt.key"
    key.write_bytes(b"0123456789abcdef" * 2)
    key.chmod(0o600)
    me = pwd.getpwuid(os.getuid()).pw_name
    other = "daemon" if me != "daemon" else "bin"
    controller = Controller(
        tmp_path,
        f"{ON}MetricsAuthUsers=nobody\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n",
    )
    start.append(controller)
    controller.start()
    token = controller.call("CreateToken", user=me)["token"]
    page = "/metrics/jobs"
    assert get(controller, page, headers=f"X-SLURM-USER-TOKEN: {token}\r\n")[0] == 200
    assert get(controller, page, headers=f"Authorization: Bearer {token}\r\n")[0] == 200
    assert get(controller, page, headers=f"Authorization: Bearer {token}x\r\n")[0] == 401
    assert get(controller, page)[0] == 401
    theirs = verifier_of(key).make(other, 60)
    assert get(controller, page, headers=f"Authorization: Bearer {theirs}\r\n")[0] == 403
    allowed = verifier_of(key).make("nobody", 60)
    assert get(controller, page, headers=f"Authorization: Bearer {allowed}\r\n")[0] == 200
    controller.kill()


def verifier_of(key: Path) -> JwtVerifier:
    return load_verifier(JwtSettings(str(key)), os.getuid(), lambda: time.time_ns() // 1000)
