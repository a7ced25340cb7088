"""slurmrestd's command line and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyslurm_ng.daemon.log import DEBUG5, INFO, level_number
from pyslurm_ng.daemon.options import read_command_line
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web.requester import KINDS

USAGE = """\
Usage: slurmrestd [OPTIONS] [HOST:PORT | unix:PATH]...
  -a PLUGINS      How requesters may prove who they are: rest_auth/local, rest_auth/jwt (all).
  -d PARSERS      Versions of documents that are offered: v0.0.43 to v0.0.46 (all).
  -f FILE         Read configuration from FILE instead of slurm.conf.
  -g GROUP        Run as this group.
  -h, --help      Print this help message.
  -s PLUGINS      Interfaces that are offered: slurmctld, slurmdbd, util (all).
  -t COUNT        Requests that the daemons are asked at the same time (32).
  -u USER         Run as this user.
  -v              Log more; may be repeated.
  -V, --version   Print version information and end.
  --generate-openapi-spec
                  Print the OpenAPI description and end.
  --max-connections COUNT
                  Connections that are served at the same time (1024).
  --no-pages      Serve the REST interface alone.
  --proxy-address ADDRESSES
                  Proxies at these addresses (10.0.0.1,10.1.0.0/16) say in
                  X-Forwarded-Proto whether the browser speaks HTTPS.
  --proxy-header NAME, --proxy-token FILE
                  Believe these proxies, which name the user in this header, and
                  act for users by the token of SlurmUser in this file.
  --tls-cert FILE, --tls-key FILE
                  Serve HTTPS on HOST:PORT.
  --webhooks FILE Send events to the addresses of this file.
Without an address and with a socket or a pipe as standard input it serves that (inetd).
'list' for -a, -d or -s prints what there is.
"""
TAGS = {"slurmctld": "slurm", "slurmdbd": "slurmdb", "util": "util"}
_SECURITY = ("disable_unshare_sysv", "disable_unshare_files", "disable_user_check")
DEFAULT_PORT = 6820


class BadOptions(Exception):
    """The command line is wrong; the text is one line."""


class Listing(Exception):
    """Options ask for a text to be printed; `code` is the exit code."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Options:
    """The command line, with the variables for what it does not give."""

    addresses: list[str] = field(default_factory=list)
    kinds: frozenset[str] = frozenset(KINDS)
    versions: tuple[str, ...] = VERSIONS
    tags: frozenset[str] = frozenset(TAGS.values())
    conf_path: str = ""
    user: str = ""
    group: str = ""
    log_level: int = INFO
    threads: int = 32
    most_connections: int = 1024
    tls_cert: str = ""
    tls_key: str = ""
    prints_openapi: bool = False
    checks_user: bool = True
    has_pages: bool = True
    webhooks: str = ""
    proxy_addresses: str = ""
    proxy_header: str = ""
    proxy_token: str = ""


def parse_options(argv: list[str], environment: Mapping[str, str] = os.environ) -> Options | int:
    """Return the options, or the exit code if the command line asks for a text.

    Raises:
        BadOptions: a value is wrong.
        Listing: 'list' was asked for.
    """
    long = ["version", "help", "generate-openapi-spec", "max-connections=", "no-pages", "tls-cert=",
            "tls-key=", "webhooks=", "proxy-address=", "proxy-header=", "proxy-token="]  # fmt: skip
    line = read_command_line("slurmrestd", argv, "a:d:f:g:hs:t:u:vV", long, USAGE)
    if isinstance(line, int):
        return line
    values = line.values
    options = Options(
        addresses=line.operands or _words(environment.get("SLURMRESTD_LISTEN", "")),
        conf_path=values.get("-f", ""),
        user=values.get("-u", ""),
        group=values.get("-g", ""),
        tls_cert=values.get("--tls-cert", ""),
        tls_key=values.get("--tls-key", ""),
        prints_openapi="--generate-openapi-spec" in line.names,
        has_pages="--no-pages" not in line.names,
        webhooks=values.get("--webhooks", ""),
        proxy_addresses=values.get("--proxy-address", ""),
        proxy_header=values.get("--proxy-header", ""),
        proxy_token=values.get("--proxy-token", ""),
    )
    options.kinds = frozenset(
        _chosen(
            values.get("-a", environment.get("SLURMRESTD_AUTH_TYPES", "")),
            KINDS,
            "rest_auth/",
            "-a",
        )
    )
    options.versions = tuple(_chosen(values.get("-d", ""), VERSIONS, "data_parser/", "-d"))
    plugins = values.get("-s", environment.get("SLURMRESTD_OPENAPI_PLUGINS", ""))
    options.tags = frozenset(TAGS[name] for name in _chosen(plugins, tuple(TAGS), "openapi/", "-s"))
    options.threads = _count(values.get("-t", "32"), "-t", 1024)
    options.most_connections = _count(
        values.get("--max-connections", environment.get("SLURMRESTD_MAX_CONNECTIONS", "1024")),
        "--max-connections", 65536,
    )  # fmt: skip
    level = level_number(environment.get("SLURMRESTD_DEBUG", "info"))
    options.log_level = min(DEBUG5, level + line.names.count("-v"))
    options.checks_user = _checks_user(_words(environment.get("SLURMRESTD_SECURITY", "")))
    return options


def _checks_user(words: list[str]) -> bool:
    """Return whether slurmrestd refuses to run as root or SlurmUser."""
    for word in words:
        if word == "become_user":
            raise BadOptions(
                "SLURMRESTD_SECURITY=become_user is not implemented: tokens act for other users"
            )
        if word not in _SECURITY:
            raise BadOptions(f"SLURMRESTD_SECURITY={word}: {', '.join(_SECURITY)} are allowed")
    return "disable_user_check" not in words


def _chosen(text: str, known: tuple[str, ...], prefix: str, option: str) -> list[str]:
    """Return the names of a list that are known, in their order; all without one.

    Raises:
        BadOptions: another name.
        Listing: the list was asked for.
    """
    if text == "list":
        lines = [prefix + name.removeprefix(prefix) for name in known]
        raise Listing("\n".join([f"Possible {prefix.rstrip('/')} plugins:", *lines]) + "\n")
    names = []
    for word in _words(text):
        name = next((name for name in known if word in (name, name.removeprefix(prefix),
                                                        prefix + name)), "")  # fmt: skip
        if not name and prefix == "data_parser/":
            # Flags may follow the version, as in v0.0.46+fast.
            name = word.removeprefix(prefix).partition("+")[0]
            name = name if name in known else ""
        if not name:
            allowed = ", ".join(known)
            raise BadOptions(f"{option} {word}: {allowed} are allowed")
        names.append(name)
    return [name for name in known if name in names] or list(known)


def _count(text: str, option: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and 0 < int(text) <= most):
        raise BadOptions(f"{option} {text}: 1 to {most} is allowed")
    return int(text)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
