"""Users whom a proxy of the site has logged in: it names them in a header.

The header counts only from addresses that the administrator names. slurmrestd has no rights, so it
shows the daemons a token of SlurmUser or root, from a file, with the user's name, as a portal does.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request

from pyslurm_ng.web.options import BadOptions, Options
from pyslurm_ng.web.refusal import UNAUTHORIZED, Refusal
from pyslurm_ng.web.requester import JWT, Requester
from pyslurm_ng.wire.bearer import MOST_TOKEN_BYTES, bearer_credential, claimed_end_s

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_FRESH_S = 10.0
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}")


@dataclass
class ProxyLogin:
    """The header, who may send it, and the file of the token.

    The file is read again when it is ten seconds old: a token expires, and another takes its place.
    """

    header: str
    networks: tuple[Network, ...]
    path: str
    administrators: tuple[str, ...] = ("root", "0")
    _token: str = field(default="", repr=False)
    _read_s: float = -1e9

    @classmethod
    def of(cls, options: Options, slurm_user: str = "root") -> ProxyLogin | None:
        """Return what the options say; None without them.

        Raises:
            BadOptions: one is missing or wrong, or the file cannot be read.
        """
        networks = proxies_of(options)
        words = (options.proxy_header, options.proxy_token)
        if not any(words):
            return None
        if not (all(words) and networks):
            raise BadOptions("--proxy-header and --proxy-token need each other and --proxy-address")
        if _HEADER.fullmatch(options.proxy_header) is None:
            raise BadOptions(f"--proxy-header {options.proxy_header}: no name of a header")
        login = cls(options.proxy_header.lower(), networks, options.proxy_token)
        login.administrators += (slurm_user,)
        try:
            login._read()
        except OSError as error:
            raise BadOptions(f"--proxy-token {login.path}: {error.strerror}") from None
        return login

    def requester(self, headers: Mapping[str, str], address: str) -> Requester | None:
        """Return the user that a proxy names; None where it names nobody, or is no such proxy.

        Raises:
            Refusal: it names what is no user's name, several, root, or SlurmUser.
        """
        named = (
            headers.getlist(self.header)
            if isinstance(headers, Headers)
            else [headers.get(self.header, "")]
        )
        name = ", ".join(named)  # a proxy that adds a name keeps what its client wrote
        if not name or not is_proxy(address, self.networks):
            return None
        if _USER.fullmatch(name) is None or name in self.administrators:
            raise _refused(f"{self.header}: {name[:64]!r} cannot be logged in by a proxy")
        if time.monotonic() - self._read_s > _FRESH_S:
            try:
                self._read()
            except OSError as error:
                raise _refused(f"--proxy-token: {error.strerror}") from None
        credential = bearer_credential(self._token, name)
        return Requester(JWT, name, credential, until_s=claimed_end_s(self._token))

    def _read(self) -> None:
        """Read the token.

        Raises:
            OSError: it cannot be read, or others can read it.
        """
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise PermissionError(1, "others may read or change it; use mode 600")
            content = file.read(MOST_TOKEN_BYTES + 64)
        text = content.decode("ascii", "replace").strip().removeprefix("SLURM_JWT=")
        if not text or len(text) > MOST_TOKEN_BYTES or not text.isascii() or " " in text:
            raise OSError(22, "it holds no token")
        self._token, self._read_s = text, time.monotonic()


def proxies_of(options: Options) -> tuple[Network, ...]:
    """Return the addresses of --proxy-address.

    Raises:
        BadOptions: one is none.
    """
    networks: list[Network] = []
    for word in options.proxy_addresses.split(",") if options.proxy_addresses else ():
        try:
            networks.append(ipaddress.ip_network(word.strip()))
        except ValueError:
            raise BadOptions(f"--proxy-address {word}: no address or network") from None
    return tuple(networks)


def is_proxy(text: str, networks: Iterable[Network]) -> bool:
    """Return whether an address is one of the site's proxies."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False  # a Unix socket
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in networks)


def is_https(request: Request, networks: Iterable[Network]) -> bool:
    """Return whether the browser speaks HTTPS: to us, or to a proxy of the site that says so."""
    if request.url.scheme == "https":
        return True
    words = request.headers.getlist("x-forwarded-proto")
    # A proxy that adds its word behind what its client wrote has the last one.
    said = words[-1].rpartition(",")[2].strip().lower() if words else ""
    address = request.client.host if request.client is not None else ""
    return said == "https" and is_proxy(address, networks)


def _refused(text: str) -> Refusal:
    return Refusal(UNAUTHORIZED, f"Authentication failure: {text}", source="slurmrestd")
