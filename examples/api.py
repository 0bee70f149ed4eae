#!/usr/bin/env python3
"""An operator's program: lists the miners of a running validator, challenges one, and prints the verdict.

    python examples/api.py --socket ~/.local/state/assay/validator.sock
    python examples/api.py --server https://validator.example:7480 --ca ca.pem --token-file read.token --status
    python examples/api.py --socket ~/.local/state/assay/validator.sock --challenge only --mode audit

docs/api.md; nothing but the standard library. It ends with 0 for a pass, 1 for a fail, 2 where nothing was judged. An
interrupt cancels the challenge, a second one leaves.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import ssl
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODES = ("replay", "replay-sample", "audit")


class Refused(Exception):
    """A problem document (RFC 9457)."""


class SocketConnection(http.client.HTTPConnection):
    """HTTP over the validator's control socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


class Api:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        token = arguments.token_file.read_text().strip() if arguments.token_file else None
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def connection(self) -> http.client.HTTPConnection:
        if self.arguments.socket:
            return SocketConnection(self.arguments.socket)
        url = urllib.parse.urlsplit(self.arguments.server)
        if url.scheme == "http":
            return http.client.HTTPConnection(url.netloc)
        return http.client.HTTPSConnection(url.netloc, context=ssl.create_default_context(cafile=self.arguments.ca))

    def answer(self, method: str, path: str, document: Any = None) -> http.client.HTTPResponse:
        headers = dict(self.headers)
        body = None
        if document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(document)
        connection = self.connection()
        connection.request(method, f"/api/v1{path}", body, headers)
        answer = connection.getresponse()
        if answer.status >= 400:
            problem = json.load(answer)
            raise Refused(f"{problem['code']}: {problem['detail']}")
        return answer

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        return json.loads(self.answer(method, path, document).read() or "null")

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """Server-sent events: the name of each, and its document."""
        name, data = "", []
        for line in self.answer("GET", path):
            field, _, value = line.decode().rstrip("\n").partition(":")
            if field == "event":
                name = value.strip()
            elif field == "data":
                data.append(value)
            elif not field and not value and data:
                yield name, json.loads("\n".join(data))
                name, data = "", []


def list_miners(api: Api) -> None:
    for miner in api.ask("GET", "/connected")["items"]:
        devices = ", ".join(device["name"] for device in miner["claimed_devices"])
        print(f"{miner['miner_key']}  {miner['address']}  {miner['agent']}  [{devices}]")


def show_status(api: Api) -> None:
    status = api.ask("GET", "/status")
    verdicts = status["verdicts"]
    print(f"{status['state']} on {status['address']}: {status['miners']} of at most {status['max_miners']} miners")
    print(f"verdicts: {verdicts['pass']} pass, {verdicts['fail']} fail, {verdicts['inconclusive']} inconclusive")
    for running in status["challenges"]:
        progress = f"{running['done_slots']} of {running['all_slots']} slots"
        print(f"{running['challenge_id']}  {running['miner_key']}  {running['phase']}, {progress}")


def challenge(api: Api, arguments: argparse.Namespace) -> int:
    begin = {"mode": arguments.mode, "n": arguments.n, "iterations": arguments.iterations}
    if arguments.challenge != "only":
        begin["miner"] = arguments.challenge
    path = f"/challenges/{api.ask('POST', '/challenges', begin)['challenge_id']}"
    try:
        return follow(api, path)
    except KeyboardInterrupt:
        api.ask("DELETE", path)
        return follow(api, path)


def follow(api: Api, path: str) -> int:
    phase = ""
    for name, document in api.events(f"{path}/events"):
        if name == "running" and document["phase"] != phase:
            phase = document["phase"]
            print(f"phase {phase}")
        if name == "verdict":
            print(f"verdict {document['outcome']}")
            for reason in document["reasons"]:
                print(f"  {reason['code']}: {reason['detail']}")
            return {"pass": 0, "fail": 1}.get(document["outcome"], 2)
    return 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="the validator's control_socket")
    where.add_argument("--server", metavar="URL", help="the address in the validator's http_listen")
    parser.add_argument("--ca", help="certificates of the authority of the server's certificate, PEM")
    parser.add_argument("--token-file", type=Path, help="an API token, for --server")
    parser.add_argument("--challenge", metavar="KEY|only", help="the miner to challenge; without it: list miners")
    parser.add_argument("--status", action="store_true", help="show what the validator does")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--n", type=int, help="the matrix size")
    parser.add_argument("--iterations", type=int)
    arguments = parser.parse_args()
    api = Api(arguments)
    try:
        if arguments.challenge:
            return challenge(api, arguments)
        (show_status if arguments.status else list_miners)(api)
        return 0
    except (Refused, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
