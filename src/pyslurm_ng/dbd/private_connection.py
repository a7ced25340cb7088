"""Encryption between slurmdbd and its database server: the files of StorageParameters."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.conf.slurmdbd_conf import ENCRYPTION_WORDS


def check_tls(query: Mapping[str, Any]) -> None:
    """See that what an encrypted connection needs can be read and used.

    The driver says neither which file it misses nor that a key without a certificate does nothing.

    Args:
        query: the words, as they stand in the database's URL.

    Raises:
        OSError: with the word and its value as `filename`.
    """
    context = ssl.create_default_context()
    ca, path, cert, cipher, key = (query.get(word) for word in ENCRYPTION_WORDS)
    if key and not cert:
        raise OSError(errno.EINVAL, "SSL_CERT must be given, too", f"SSL_KEY={key}")
    steps: tuple[tuple[str, str | None, Callable[[], object]], ...] = (
        ("SSL_CA", ca, lambda: context.load_verify_locations(cafile=ca)),
        ("SSL_CAPATH", path, lambda: os.scandir(str(path)).close()),
        ("SSL_KEY", key, lambda: os.close(os.open(str(key), os.O_RDONLY))),
        # A key that is no key is told of here; most often both are in one file.
        ("SSL_CERT", cert, lambda: context.load_cert_chain(str(cert), key, password="")),
        ("SSL_CIPHER", cipher, lambda: context.set_ciphers(str(cipher))),
    )
    for word, value, use in steps:
        if not value:
            continue
        try:
            use()
        except OSError as error:
            cause = getattr(error, "reason", None) or error.strerror or error.args[0]
            text = (
                str(cause).replace("_", " ").lower() if isinstance(error, ssl.SSLError) else cause
            )
            raise OSError(error.errno, text, f"{word}={value}") from None


def is_refused_by_tls(error: BaseException) -> bool:
    """Whether the two sides could not agree on encryption, so that to wait does not help."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    original = error.orig
    if isinstance(getattr(original, "original_exception", None), ssl.SSLError):
        return True
    return bool(original is not None and original.args and original.args[0] == _NO_TLS)


_NO_TLS = 2026  # CR_SSL_CONNECTION_ERROR: the server does not encrypt
