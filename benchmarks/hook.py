"""A web server that says when each message came, and which: `python -m benchmarks.hook`, its own process.

Whoever sends shares no interpreter with it, as with any server.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        came = time.perf_counter(), time.time()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        sys.stdout.write(json.dumps([*came, json.loads(body)]) + "\n")
        sys.stdout.flush()

    def log_message(self, *_: object) -> None:
        """Not a word."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
