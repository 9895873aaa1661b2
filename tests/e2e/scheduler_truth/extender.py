"""A scheduler extender that stops every pod one step before it is bound, and so leaves the cluster as it was.

It is asked only about nodes that passed all filters: that it was asked is the answer.
"""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.scheduler_truth.verdicts import FITS

__all__ = ["FOR_REAL", "VERB", "stopping_extender"]

VERB = "filter"
FOR_REAL = "truth.example.com/for-real"
"""An annotation of pods that are let through."""


@contextmanager
def stopping_extender() -> Iterator[str]:
    """The URL below which it answers."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = asked["NodeNames"]
        passes = FOR_REAL in (asked["Pod"]["metadata"].get("annotations") or {})
        answer = {
            "NodeNames": nodes if passes else [],
            "FailedNodes": {} if passes else dict.fromkeys(nodes, FITS),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
