"""auth/munge against a munged of our own, where munge is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire import munge
from pyslurm_ng.wire.auth import AuthError, Peer, body_digest, check_digest
from pyslurm_ng.wire.auth_munge import MungeAuthenticator, MungeCredentialSigner
from pyslurm_ng.wire.client import Client, SlurmError
from pyslurm_ng.wire.identity import load_identity
from pyslurm_ng.wire.munge import MungeError
from tests.wire.wire_room import NOW_US, Room, handle

MUNGED = shutil.which("munged") or "/usr/sbin/munged"
pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(
        not (munge.is_installed() and os.path.exists(MUNGED)), reason="munge is not installed"
    ),
]
BODY = b"\x80"
ME = Peer(os.geteuid(), os.getegid(), 0, "user", "host1", "host1", "own")


@pytest.fixture(scope="module")
def auth_info(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """AuthInfo for a private munged."""
    room = tmp_path_factory.mktemp("munge")
    room.chmod(0o755)
    key = room / "munge.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o600)
    path = room / "munge.sock"
    command = [
        MUNGED, "--foreground", "--force", f"--socket={path}", f"--key-file={key}",
        f"--pid-file={room}/pid", f"--seed-file={room}/seed", f"--log-file={room}/log",
        "--num-threads=1",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as munged:
        for _ in range(2000):
            try:
                munge.encode(f"socket={path}", b"")
                break
            except MungeError:
                try:
                    munged.wait(0.005)
                except subprocess.TimeoutExpired:
                    continue
                pytest.skip("munged does not start here")
        yield f"cred_expire=30,socket={path}"
        munged.terminate()


def cause(authenticator: MungeAuthenticator, credential: bytes, kind: str = "Ping") -> str:
    with pytest.raises(AuthError) as caught:
        authenticator.admit(credential, kind, "slurmctld")
    assert "\n" not in caught.value.text
    return caught.value.cause


def test_munge_names_the_sender_once(auth_info: str) -> None:
    """munge gives uid and gid. The same credential again is a replay."""
    authenticator = MungeAuthenticator("c1", 0, auth_info)
    credential = authenticator.issue(ME, "slurmctld", "Ping", body_digest(BODY))
    admission = authenticator.admit(credential, "Ping", "slurmctld")
    assert (admission.peer.uid, admission.peer.gid) == (os.geteuid(), os.getegid())
    assert (admission.peer.role, admission.peer.via) == ("user", "munge")
    check_digest(admission, "Ping", BODY)
    assert cause(authenticator, credential) == "replayed"


def test_a_munge_credential_is_for_one_message(auth_info: str) -> None:
    """Kind, receiver, cluster and contents are bound by the payload."""
    authenticator = MungeAuthenticator("c1", 0, auth_info)

    def issue(issuer: MungeAuthenticator = authenticator, audience: str = "slurmctld") -> bytes:
        return issuer.issue(ME, audience, "Ping", body_digest(BODY))

    assert cause(authenticator, issue(), "Shutdown") == "wrong_kind"
    assert cause(authenticator, issue(audience="slurmdbd")) == "wrong_audience"
    other = MungeAuthenticator("c2", 0, auth_info)
    assert cause(authenticator, issue(other)) == "wrong_cluster"
    assert cause(authenticator, b"") == "missing"
    assert cause(authenticator, b"junk") == "malformed_credential"
    assert cause(authenticator, b"MUNGE:junk:\0") == "malformed_credential"
    bent = bytearray(issue())
    bent[40] ^= 1
    assert cause(authenticator, bytes(bent)) in ("bad_signature", "malformed_credential")
    assert cause(authenticator, munge.encode(auth_info, b"other contents")) == (
        "malformed_credential"
    )


def test_only_root_and_slurm_user_speak_as_daemons(auth_info: str) -> None:
    """A user's credential may claim any role; it is not believed."""
    authenticator = MungeAuthenticator("c1", os.geteuid(), auth_info)
    node = Peer(os.geteuid(), os.getegid(), 0, "node", "n1", "host1", "own")
    credential = authenticator.issue(node, "slurmctld", "Ping", body_digest(BODY))
    assert authenticator.admit(credential, "Ping", "slurmctld").peer.name == "n1"
    stranger = MungeAuthenticator("c1", 4242, auth_info)
    stranger._privileged = frozenset((4242,))
    credential = authenticator.issue(node, "slurmctld", "Ping", body_digest(BODY))
    assert cause(stranger, credential) == "role_not_own"
    other = Peer(4242, 4242, 0, "user", "host1", "host1", "unix")
    with pytest.raises(AuthError, match="ask munge"):
        authenticator.issue(other, "slurmctld", "Ping", body_digest(BODY))


def test_job_credentials_by_munge(auth_info: str) -> None:
    """slurmd and stepd of one host read the same one; only root or SlurmUser signs."""
    signer = MungeCredentialSigner(os.geteuid(), auth_info)
    blob = signer.sign_credential(b"payload\0with NUL")
    assert signer.open_credential(blob) == b"payload\0with NUL"
    assert signer.open_credential(blob) == b"payload\0with NUL"
    stranger = MungeCredentialSigner(4242, auth_info)
    stranger._privileged = frozenset((4242,))
    with pytest.raises(AuthError, match="cannot sign"):
        stranger.open_credential(blob)
    with pytest.raises(AuthError, match="not a job credential"):
        signer.open_credential(munge.encode(auth_info, b"request claims"))


def test_a_command_over_tcp_with_munge(auth_info: str, tmp_path: Path) -> None:
    """No token socket is needed: munge is asked."""
    with Room(tmp_path, handler=handle) as room:
        room.server.authenticator = MungeAuthenticator("c1", 0, auth_info)
        conf = dict(
            room.conf, AuthType="auth/munge", AuthInfo=auth_info, SlurmctldPort=str(room.port)
        )
        client = Client(conf)
        assert client.call("Ping", {})["role"] == "munge"
        assert client.call("Ping", {})["version"] == str(os.getuid())
        client.close()
        broken = Client(dict(conf, AuthInfo="socket=/nonexistent"))
        with pytest.raises(SlurmError, match="munge") as caught:
            broken.call("Ping", {})
        assert caught.value.code == 1007
        broken.close()


def test_an_identity_by_auth_type(auth_info: str) -> None:
    """AuthType=auth/munge needs no key file."""
    made = load_identity(
        role="slurmctld", name="h", auth_type="auth/munge", auth_info=auth_info,
        key_path="/nonexistent", cluster="c", host="h", service_uid=os.geteuid(),
        clock_us=lambda: NOW_US,
    )  # fmt: skip
    assert made.signer.open_credential(made.signer.sign_credential(b"x")) == b"x"
