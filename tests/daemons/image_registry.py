"""A registry of images on loopback: one image of one layer, by the protocol that pullers speak."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """Serves `NAME:latest`, whose root file system is a tar file.

    Attributes:
        port: of 127.0.0.1, without TLS.
    """

    def __init__(self, name: str, layer: bytes, env: list[str]) -> None:
        packed = gzip.compress(layer, 1)
        config = json.dumps(
            {
                "architecture": "amd64", "os": "linux", "config": {"Env": env},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()  # fmt: skip
        parts = {
            "schemaVersion": 2, "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)},
            "layers": [{"mediaType": _LAYER, "size": len(packed), "digest": _digest(packed)}],
        }  # fmt: skip
        manifest = json.dumps(parts).encode()
        served = {f"/v2/{name}/blobs/{_digest(blob)}": blob for blob in (config, packed)}
        served |= {f"/v2/{name}/manifests/{tag}": manifest for tag in ("latest", _digest(manifest))}
        served["/v2/"] = b"{}"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = served.get(self.path)
                self.send_response(404 if body is None else 200)
                kind = _MANIFEST if "/manifests/" in self.path else "application/octet-stream"
                self.send_header("Content-Type", kind)
                self.send_header("Docker-Content-Digest", _digest(body or b""))
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body or b"")

            do_HEAD = do_GET  # noqa: N815 - as the library calls it

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
