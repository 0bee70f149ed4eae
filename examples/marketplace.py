#!/usr/bin/env python3
"""A marketplace's webhook: takes a host off the list when its newest receipt is worse than the one it was listed with,
or its attestation ends.

    assay-validator receipt keys > keys.json
    python examples/marketplace.py --secret-file webhook.secret --keys keys.json --folder listed --port 8081
    assay-validator webhook add http://127.0.0.1:8081/ --kind verdict --kind state    # prints the secret

Nothing but the standard library; docs/api.md has the messages, docs/receipts.md the comparison. The first receipt with
the status affirming lists a host (FOLDER/MINER.jwt). A worse one takes it off (MINER.jwt becomes MINER.off), and what
of it is worse is printed; the end of its attestation, as of a silent host, takes it off too. Put a proxy with TLS in
front of it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

MAX_BYTES = 4 << 20
TOLERANCE_S = 300
ATTESTED = ("passing", "suspect")


def is_signed(secret: str, headers, body: bytes) -> bool:
    """Whether the validator sent this, and just now."""
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = (headers["webhook-signature"] or "").split()
    is_new = abs(time.time() - int(headers["webhook-timestamp"] or 0)) <= TOLERANCE_S
    return is_new and any(hmac.compare_digest(expected, signature) for signature in given)


def judge(options: argparse.Namespace, miner: str, token: str) -> None:
    """Lists the host of a receipt, or compares it with the one that it was listed with."""
    listed, off = (options.folder / f"{miner}.{suffix}" for suffix in ("jwt", "off"))
    if off.exists():
        return
    with tempfile.NamedTemporaryFile("w", suffix=".jwt") as newest:
        newest.write(token)
        newest.flush()

        def receipt(*arguments: str) -> subprocess.CompletedProcess:
            command = [options.program, "receipt", *arguments, "--keys", str(options.keys), "--json"]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        verified = receipt("verify", newest.name)
        if verified.returncode not in (0, 1, 2):
            # Refused, as with keys that are older than the receipt: no fault of the host, and no word about it.
            print(f"{miner}: {(verified.stderr or verified.stdout).strip()}", file=sys.stderr, flush=True)
            return
        if not listed.exists():
            if verified.returncode == 0:
                listed.write_text(token, encoding="utf-8")
                print(f"{miner} is listed", file=sys.stderr, flush=True)
            return
        compared = receipt("compare", str(listed), newest.name)
    if verified.returncode == 1:
        why = "a receipt speaks against it"
    elif compared.returncode == 1:
        worse = [row for row in json.loads(compared.stdout)["rows"] if row["result"] == "worse"]
        why = ", ".join(sorted({row["item"] for row in worse}))
    elif compared.returncode in (0, 2):
        # 2: a receipt does not show enough.
        return
    else:
        # As with another key, or an old receipt by a key that is given up: what is sold is shown no more.
        why = f"its receipts cannot be compared: {(compared.stderr or compared.stdout).strip()}"
    listed.rename(off)
    print(f"{miner} is off the list: {why}", file=sys.stderr, flush=True)


def end(options: argparse.Namespace, miner: str, state: str) -> None:
    """Takes a host off the list whose attestation has ended."""
    listed = options.folder / f"{miner}.jwt"
    if state not in ATTESTED and listed.exists():
        listed.rename(listed.with_suffix(".off"))
        print(f"{miner} is off the list: it is {state}", file=sys.stderr, flush=True)


def handler(options: argparse.Namespace) -> type[BaseHTTPRequestHandler]:
    """The handler of messages."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = int(self.headers["content-length"] or 0)
            body = self.rfile.read(length) if length <= MAX_BYTES else b""
            try:
                is_ours = is_signed(options.secret_file.read_text(encoding="utf-8"), self.headers, body)
            except (OSError, ValueError):
                is_ours = False
            self.send_response(204 if is_ours else 401)
            self.end_headers()
            if not is_ours:
                return
            message = json.loads(body)
            # A message may come twice: a receipt that is compared twice changes nothing.
            if message["type"] == "verdict" and message.get("receipt"):
                judge(options, message["miner"], message["receipt"])
            elif message["type"] == "state":
                end(options, message["miner"], message["data"]["to"])

        def log_message(self, *_) -> None:
            """Requests are not logged."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--secret-file", type=Path, required=True, help="file with the secret of the webhook")
    parser.add_argument("--keys", type=Path, required=True, help="JWK set of the validator")
    parser.add_argument("--folder", type=Path, required=True, help="where the receipts of listed hosts are kept")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--program", default="assay-validator", help="the validator's program, for `receipt compare`")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    server = HTTPServer(("127.0.0.1", options.port), handler(options))
    print(f"listening on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
