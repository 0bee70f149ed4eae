"""A receiver of webhooks: notes each request in a file and answers as another file says (a status, or `hang`)."""

import http.server
import json
import os
import ssl
import sys
import threading
import time

folder, port = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with open(os.path.join(folder, "answer")) as file:
            answer = file.read().strip()
        request = {"path": self.path, "headers": headers, "body": body, "answer": answer}
        with lock, open(os.path.join(folder, "requests"), "a") as file:
            file.write(json.dumps(request) + "\n")
        if answer == "hang":
            time.sleep(1000)
        self.send_response(int(answer))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
server.daemon_threads = True
scheme = "http"
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https"
print(f"listening on {scheme}://localhost:{server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
