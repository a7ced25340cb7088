from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import ERROR, QUIET, DaemonLog
from pyslurm_ng.wire import auth, auth_munge, auth_slurm, connection, identity, munge, replay_store
from pyslurm_ng.wire.auth import AuthError, Peer, body_digest, check_digest
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner, KeyFileError, load_key
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.identity import load_identity
from pyslurm_ng.wire.replay_store import ReplayStore
from tests.wire.wire_room import NOW_US, SECRET, authenticator

USER = Peer(1000, 100, 0, "user", "host1", "host1", "unix")
BODY = b"\x81\xa4text\xa1x"
MINUTE_US = 60_000_000


def issue(peer: Peer = USER, at_us: int = NOW_US, **more: object) -> bytes:
    issuer = authenticator(clock_us=lambda: at_us, **more)  # type: ignore[arg-type]
    return issuer.issue(peer, "slurmctld", "Ping", body_digest(BODY))


def cause_of(act: Callable[[], object]) -> str:
    with pytest.raises(AuthError) as caught:
        act()
    assert "\n" not in caught.value.text
    return caught.value.cause


def test_a_token_names_the_user_that_the_kernel_named() -> None:
    """uid, gid and host are signed; nothing else is believed."""
    admission = authenticator().admit(issue(), "Ping", "slurmctld")
    assert (admission.peer.uid, admission.peer.gid, admission.peer.host) == (1000, 100, "host1")
    assert (admission.peer.role, admission.peer.via) == ("user", "slurm")
    check_digest(admission, "Ping", BODY)


def test_a_token_works_once() -> None:
    """RELIABILITY 39: the same bytes again are a replay."""
    verifier = authenticator()
    token = issue()
    verifier.admit(token, "Ping", "slurmctld")
    assert cause_of(lambda: verifier.admit(token, "Ping", "slurmctld")) == "replayed"


@pytest.mark.parametrize(
    ("cause", "token", "kind", "audience"),
    [
        ("missing", b"", "Ping", "slurmctld"),
        ("malformed_credential", b"x" * 100, "Ping", "slurmctld"),
        ("malformed_credential", b"pT1", "Ping", "slurmctld"),
        ("wrong_kind", issue(), "Shutdown", "slurmctld"),
        ("wrong_audience", issue(), "Ping", "slurmd:n1"),
        ("wrong_key", issue(secret=b"y" * 64), "Ping", "slurmctld"),
        ("wrong_cluster", issue(cluster="c2"), "Ping", "slurmctld"),
        ("expired", issue(at_us=NOW_US - 10 * MINUTE_US), "Ping", "slurmctld"),
        ("from_future", issue(at_us=NOW_US + 10 * MINUTE_US), "Ping", "slurmctld"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(
    cause: str, token: bytes, kind: str, audience: str
) -> None:
    """RELIABILITY 55: each forgery has its own counter."""
    assert cause_of(lambda: authenticator().admit(token, kind, audience)) == cause


def test_slurmdbd_serves_every_cluster_that_has_the_key() -> None:
    """The sender's cluster is named, so that it can be kept to its own rows."""
    peer = authenticator(serves_all=True).admit(issue(cluster="c2"), "Ping", "slurmctld").peer
    assert peer.cluster == "c2"
    with pytest.raises(AuthError, match=r"another slurm\.key"):
        authenticator(serves_all=True).admit(issue(secret=b"y" * 64), "Ping", "slurmctld")


def test_a_daemon_vouches_for_its_users_at_another_cluster() -> None:
    """-M: the controller of c2 takes the token that a daemon of c1 makes for it, c1's does not."""
    token = authenticator().issue(USER, "slurmctld", "Ping", body_digest(BODY), "c2")
    assert authenticator(cluster="c2").admit(token, "Ping", "slurmctld").peer.uid == USER.uid
    assert cause_of(lambda: authenticator().admit(token, "Ping", "slurmctld")) == "wrong_cluster"


def test_clocks_may_differ_by_five_minutes() -> None:
    """RELIABILITY 14: up to 300 s works; beyond, the text has both times."""
    for skew_s in (-299, 299):
        authenticator().admit(issue(at_us=NOW_US + skew_s * 1_000_000), "Ping", "slurmctld")
    with pytest.raises(AuthError) as caught:
        authenticator().admit(issue(at_us=NOW_US + 301_000_000), "Ping", "slurmctld")
    assert "2026-09-21T14:18:21Z" in caught.value.text
    assert "2026-09-21T14:13:20Z" in caught.value.text


@given(st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    """RELIABILITY 40: no bit of a token is outside the signature."""
    token = bytearray(issue())
    at = data.draw(st.integers(0, len(token) - 1))
    token[at] ^= data.draw(st.integers(1, 255))
    assert cause_of(lambda: authenticator().admit(bytes(token), "Ping", "slurmctld"))


@pytest.mark.soak
def test_a_hundred_thousand_changed_messages_are_refused() -> None:
    """RELIABILITY 40: each bit of tokens, each cut, bytes added to token and body."""
    changed = 0
    for number in itertools.count():
        token = issue(at_us=NOW_US + number)
        raw = int.from_bytes(token, "big")
        forged = [(raw ^ 1 << bit).to_bytes(len(token), "big") for bit in range(len(token) * 8)]
        forged += [token[:length] for length in range(len(token))]
        forged += [token + bytes([byte]) for byte in range(256)]
        for forgery in forged:
            assert cause_of(lambda: authenticator().admit(forgery, "Ping", "slurmctld"))  # noqa: B023
        admission = authenticator().admit(token, "Ping", "slurmctld")
        for byte in range(256):
            body = BODY + bytes([byte])
            assert cause_of(lambda: check_digest(admission, "Ping", body)) == "altered"  # noqa: B023
        changed += len(forged) + 256
        if changed >= 100_000:
            break


@given(st.binary(min_size=1, max_size=40))
def test_cut_and_extended_tokens_are_refused(more: bytes) -> None:
    """The signature covers the end, too."""
    token = issue()
    assert cause_of(lambda: authenticator().admit(token + more, "Ping", "slurmctld"))
    assert cause_of(lambda: authenticator().admit(token[: -len(more)], "Ping", "slurmctld"))


def test_a_token_belongs_to_one_body() -> None:
    """RELIABILITY 40: bytes appended after the signed part change the digest."""
    admission = authenticator().admit(issue(), "Ping", "slurmctld")
    assert cause_of(lambda: check_digest(admission, "Ping", BODY + b"\0")) == "altered"


def forged(**changes: object) -> bytes:
    """A token with impossible claims, correctly signed, as a host with the key could make."""
    claims = {
        "host": "host1", "role": "user", "name": "host1", "uid": 1000, "gid": 100,
        "cluster": "c1", "audience": "slurmctld", "kind": "Ping", "digest": body_digest(BODY),
        "nonce": os.urandom(16), "issued_us": NOW_US, "expires_us": NOW_US + MINUTE_US,
    }  # fmt: skip
    claims.update(changes)
    key = Key.from_secret(SECRET)
    words = list(claims.values())
    signed = auth_slurm.TOKEN_MAGIC + key.key_id + msgspec.msgpack.encode(words)
    return signed + auth_slurm.hmac.digest(key.token_key, signed, "sha256")


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": -1},
        {"uid": 2**32 - 1},
        {"gid": 2**32},
        {"role": "root"},
        {"nonce": b"short"},
        {"digest": b""},
        {"expires_us": NOW_US + 3600 * 1_000_000},
        {"expires_us": NOW_US},
        {"uid": "0"},
        {"extra": 1},
        {"expires_us": 2**80},
    ],
)
def test_impossible_claims_are_refused_even_when_signed(changes: dict[str, object]) -> None:
    """A holder of the key cannot make tokens that live longer or say more."""
    try:
        token = forged(**changes)
    except OverflowError:
        return
    cause = cause_of(lambda: authenticator().admit(token, "Ping", "slurmctld"))
    assert cause == "malformed_credential"


@pytest.mark.parametrize("uid", [0, 600])
def test_root_is_believed_only_from_admin_hosts(uid: int) -> None:
    """RELIABILITY 55: root claimed from a compute node is refused, users from there are not."""
    root = Peer(uid, 0, 0, "user", "host1", "host1", "unix")
    fenced = authenticator(admin_hosts=frozenset(("ctl",)))
    assert cause_of(lambda: fenced.admit(issue(root), "Ping", "slurmctld")) == "not_admin_host"
    fenced.admit(issue(), "Ping", "slurmctld")
    fenced.admit(issue(root, host="ctl"), "Ping", "slurmctld")


# --- replay store -------------------------------------------------------------------------


def test_nonces_are_kept_exactly_as_long_as_needed() -> None:
    """Memory does not grow with history, and nothing acceptable is forgotten."""
    store = ReplayStore(0)
    nonce = b"n" * 16
    assert store.remember(nonce, 6 * MINUTE_US, 0)
    for now in range(0, 6 * MINUTE_US, MINUTE_US // 2):
        assert not store.remember(nonce, 6 * MINUTE_US, now)
    store.remember(b"m" * 16, 20 * MINUTE_US, 9 * MINUTE_US)
    assert len(store) == 1


def test_one_users_tokens_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 46: four million tokens of one user refused those of all nodes for minutes."""
    monkeypatch.setattr(replay_store, "MOST_OF_USER", 5)
    monkeypatch.setattr(replay_store, "MOST_OF_USERS", 8)
    monkeypatch.setattr(replay_store, "KEPT_FOR_EACH", 2)
    store, until_us = ReplayStore(NOW_US), NOW_US + 6 * MINUTE_US

    def remember(first: int, owner: int) -> bool:
        return store.remember(b"%016d" % first, until_us, NOW_US, owner)

    assert all(remember(number, 1000) for number in range(5))
    with pytest.raises(AuthError, match=r"^too many credentials of uid 1000 in the last minutes"):
        remember(5, 1000)
    assert not remember(4, 1000)
    assert all(remember(number, 1001) for number in range(10, 13))
    assert all(remember(number, 1002) for number in range(20, 22))
    with pytest.raises(AuthError, match=r"^too many credentials of uid 1002 in the last minutes"):
        remember(22, 1002)
    assert all(store.remember(b"%016d" % number, until_us, NOW_US) for number in range(30, 60))
    assert store.remember(b"%016d" % 5, until_us + 9 * MINUTE_US, NOW_US + 8 * MINUTE_US, 1000)
    assert len(store) == 1


def test_a_restarted_daemon_still_knows_what_was_used(tmp_path: Path) -> None:
    """RELIABILITY 39: replay after a restart is refused."""
    path = str(tmp_path / "nonces")
    first = ReplayStore(NOW_US, path)
    assert first.remember(b"a" * 16, NOW_US + 6 * MINUTE_US, NOW_US)
    second = ReplayStore(NOW_US + MINUTE_US, path)
    assert not second.remember(b"a" * 16, NOW_US + 6 * MINUTE_US, NOW_US + MINUTE_US)
    assert second.remember(b"b" * 16, NOW_US + 6 * MINUTE_US, NOW_US + MINUTE_US)
    late = ReplayStore(NOW_US + 60 * MINUTE_US, path)
    assert len(late) == 0
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for store in (first, second, late):
        store.close()


def test_a_torn_nonce_file_is_read_up_to_the_tear(tmp_path: Path) -> None:
    """kill -9 may leave half a record."""
    path = tmp_path / "nonces"
    store = ReplayStore(NOW_US, str(path))
    store.remember(b"a" * 16, NOW_US + 6 * MINUTE_US, NOW_US)
    store.close()
    path.write_bytes(path.read_bytes() + b"torn")
    again = ReplayStore(NOW_US, str(path))
    assert not again.remember(b"a" * 16, NOW_US + 6 * MINUTE_US, NOW_US)
    again.close()


class FillingDisk:
    """Lets `os.write` take so many bytes more, then half a record, then nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._write = os.write
        monkeypatch.setattr(os, "write", self._fill)

    def _fill(self, descriptor: int, content: bytes) -> int:
        if not self.is_full:
            return self._write(descriptor, content)
        if len(content) > 7:
            return self._write(descriptor, content[:7])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_refuses_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 6: each message of each node was dropped, and all went DOWN."""
    path, lines = str(tmp_path / "nonces"), list[str]()
    disk = FillingDisk(monkeypatch)
    log = DaemonLog("slurmctld", lambda priority, text: lines.append(text))
    log.stderr_level, log.syslog_level = QUIET, ERROR
    faults = Faults(log)
    store, until_us = ReplayStore(NOW_US, path, faults), NOW_US + 6 * MINUTE_US
    assert store.remember(b"a" * 16, until_us, NOW_US)
    disk.is_full = True
    for number in range(300):
        assert store.remember(b"%016d" % number, until_us, NOW_US)
    assert not store.remember(b"%016d" % 7, until_us, NOW_US)
    assert len(lines) == 1, "said once, not for each message"
    assert path in lines[0]
    # Half a record is at the end of the file now. With room again all of memory is written.
    disk.is_full = False
    assert store.remember(b"z" * 16, until_us, NOW_US + MINUTE_US)
    again = ReplayStore(NOW_US + MINUTE_US, path)
    for nonce in (b"a" * 16, b"z" * 16, *(b"%016d" % number for number in range(300))):
        assert not again.remember(nonce, until_us, NOW_US + MINUTE_US)
    store.close()
    again.close()


def test_what_a_full_disk_tore_misleads_no_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding H1: records behind half a record were misread, so used tokens passed once more."""
    path = str(tmp_path / "nonces")
    disk = FillingDisk(monkeypatch)
    store, until_us = ReplayStore(NOW_US, path), NOW_US + 6 * MINUTE_US
    store.remember(b"a" * 16, until_us, NOW_US)
    disk.is_full = True
    store.remember(b"b" * 16, until_us, NOW_US)
    disk.is_full = False
    store.remember(b"c" * 16, until_us, NOW_US)
    assert os.stat(path).st_size == 20 + 7, "nothing is appended behind half a record"
    store.close()
    again = ReplayStore(NOW_US, path)
    assert not again.remember(b"a" * 16, until_us, NOW_US)
    assert len(again) == 1
    again.close()


def test_a_daemon_starts_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that is there is read; a new one is made when there is room."""
    path = tmp_path / "nonces"
    store, until_us = ReplayStore(NOW_US, str(path)), NOW_US + 6 * MINUTE_US
    store.remember(b"a" * 16, until_us, NOW_US)
    store.close()

    def refuse(*words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        again = ReplayStore(NOW_US, str(path))
    assert not again.remember(b"a" * 16, until_us, NOW_US)
    assert again.remember(b"b" * 16, until_us, NOW_US)
    assert sorted(os.listdir(tmp_path)) == ["nonces"]
    assert again.remember(b"c" * 16, until_us, NOW_US + MINUTE_US)
    assert path.stat().st_size == 3 * 20
    again.close()


# --- keys ---------------------------------------------------------------------------------


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.key"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    tmp_path.chmod(0o700)
    return path


def key_error(path: Path) -> str:
    with pytest.raises(KeyFileError) as caught:
        load_key(str(path), os.geteuid())
    assert str(path) in str(caught.value)
    assert SECRET.hex() not in str(caught.value)
    return str(caught.value)


def test_a_private_key_file_is_read(key_file: Path) -> None:
    """0600 and 0400 of the service user are fine; the secret stays out of repr."""
    key = load_key(str(key_file), os.geteuid())
    key_file.chmod(0o400)
    assert load_key(str(key_file), os.geteuid()) == key
    assert key.token_key.hex() not in repr(key)
    assert key.token_key != key.credential_key


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o606, 0o620, 0o700])
def test_a_key_others_can_use_stops_the_daemon(key_file: Path, mode: int) -> None:
    """RELIABILITY 66: refused, naming the file and what is allowed."""
    key_file.chmod(mode)
    assert "0600 or 0400" in key_error(key_file)


def test_keys_that_are_no_keys_are_refused(key_file: Path) -> None:
    """Missing, empty, a directory, a FIFO, replaceable by others."""
    key_file.write_bytes(b"short")
    assert "32 to 65536" in key_error(key_file)
    key_file.unlink()
    assert "No such file" in key_error(key_file)
    os.mkfifo(key_file, 0o600)
    assert "not a regular file" in key_error(key_file)
    key_file.unlink()
    key_file.write_bytes(SECRET)
    key_file.chmod(0o600)
    key_file.parent.chmod(0o777)
    assert "writable by others" in key_error(key_file)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_of_another_user_is_refused(key_file: Path) -> None:
    """The owner of the file could change the key."""
    os.chown(key_file, 4242, 0)
    assert "owned by uid 4242" in key_error(key_file)


def test_an_unknown_auth_type_is_named(key_file: Path) -> None:
    """One line with what is allowed."""
    with pytest.raises(AuthError, match="auth/munge and auth/slurm are allowed"):
        load_identity(
            role="slurmctld", name="h", auth_type="auth/none", auth_info="",
            key_path=str(key_file), cluster="c", host="h", service_uid=0,
            clock_us=lambda: NOW_US,
        )  # fmt: skip


def test_auth_info_adds_admin_hosts() -> None:
    """AuthInfo keeps Slurm's list form."""
    assert identity.extra_admin_hosts("socket=/x,admin_hosts=a:b") == {"a", "b"}
    assert identity.extra_admin_hosts("") == frozenset()


# --- job credentials ----------------------------------------------------------------------


@given(st.binary(max_size=300), st.data())
def test_job_credentials_hold_or_are_refused(payload: bytes, data: st.DataObject) -> None:
    """RELIABILITY 59: the node gets the exact bytes the controller signed, or nothing."""
    signer = KeyCredentialSigner(Key.from_secret(SECRET))
    blob = signer.sign_credential(payload)
    assert signer.open_credential(blob) == payload
    bad = bytearray(blob)
    bad[data.draw(st.integers(0, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    cause_of(lambda: signer.open_credential(bytes(bad)))
    cause_of(lambda: signer.open_credential(blob + b"x"))
    cause_of(lambda: signer.open_credential(blob[:-1]))


def test_a_token_is_no_job_credential_and_back() -> None:
    """One secret, two keys: a MAC of one purpose is worthless for the other."""
    key = Key.from_secret(SECRET)
    token = issue()
    inner = token[len(auth_slurm.TOKEN_MAGIC) + auth_slurm.KEY_ID_BYTES : -auth_slurm.MAC_BYTES]
    blob = KeyCredentialSigner(key).sign_credential(inner)
    cause_of(lambda: authenticator().admit(blob, "Ping", "slurmctld"))
    swapped = auth_slurm.TOKEN_MAGIC + blob[len(auth.CREDENTIAL_MAGIC) :]
    assert cause_of(lambda: authenticator().admit(swapped, "Ping", "slurmctld")) == "bad_signature"
    other = KeyCredentialSigner(Key.from_secret(b"z" * 64))
    assert cause_of(lambda: other.open_credential(blob)) == "wrong_key"


# --- munge --------------------------------------------------------------------------------


def test_without_munge_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """AuthType's default is munge, so this is the first error many will see."""
    monkeypatch.setattr(munge, "_LIBRARY", "libmunge.so.of.no.machine")
    monkeypatch.setattr(munge, "_loaded", {})
    with pytest.raises(auth.AuthError, match="install munge or set AuthType=auth/slurm") as refusal:
        auth_munge.MungeAuthenticator("c1", 0)
    assert refusal.value.cause == "no_munge"


def test_a_full_share_asks_the_command_to_wait() -> None:
    """Unlike other refused credentials, the next one may be taken in some minutes."""
    codes = {}
    for cause in (replay_store.STORE_FULL, "bad_signature"):
        refused = BadFrame("bad_credential", "refused")
        refused.__cause__ = AuthError(cause, "refused")
        codes[cause] = connection.code_of(refused)
    assert codes == {
        replay_store.STORE_FULL: Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF,
        "bad_signature": Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
    }
