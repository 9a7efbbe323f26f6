"""A server on this machine that gives a file whole, broken, slowly or not at all."""

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedsub_data.catalogue import fetch as fetching
from fedsub_data.catalogue.catalogue import read_dataset_card
from fedsub_data.catalogue.dataset_card import DatasetCard, OfficialFile

BODY = bytes(range(256)) * 1200  # 300 kB: several chunks
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves BODY; the path says how: /good, /404, /500, /slow, /broken/N (the first N times)."""

    daemon_threads = True
    body, sha256 = BODY, SHA256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def card(self, path: str, sha256: str | None = SHA256, size: int | None = None) -> DatasetCard:
        """Return a card with one file, data.zip, that lies at `path`."""
        return card_of(OfficialFile("data.zip", self.url(path), size, sha256))

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet where the client has gone."""


def card_of(*files: OfficialFile) -> DatasetCard:
    return replace(read_dataset_card("wisdm"), files=files)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        how, _, times = self.path[1:].partition("/")
        if how in ("404", "500"):
            self.send_error(int(how))
            return
        if how == "slow":
            time.sleep(1.0)
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        broken = how == "broken" and len(self.server.asked) <= int(times)
        self.wfile.write(BODY[: len(BODY) // 2] if broken else BODY)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(fetching, "PAUSE_S", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
