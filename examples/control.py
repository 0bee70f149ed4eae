#!/usr/bin/env python3
"""An operator's program: lists the miners of a running validator, challenges one, and prints the verdict.

    python examples/control.py --socket ~/.local/state/assay/validator.sock
    python examples/control.py --socket ~/.local/state/assay/validator.sock --status
    python examples/control.py --socket ~/.local/state/assay/validator.sock --challenge only --mode audit

PROTOCOL.md, The control socket. It ends with 0 for a pass, 1 for a fail, 2 where nothing was judged. An interrupt cancels
the challenge, a second one leaves.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "proto"))
control_pb, control_rpc = grpc.protos_and_services("assay/v1/control.proto")
verdict_pb = grpc.protos("assay/v1/verdict.proto")

MODES = {"policy": 0, "replay": 1, "replay-sample": 2, "audit": 3}


def list_miners(stub: Any) -> None:
    for miner in stub.ListMiners(control_pb.ListMinersRequest()).miners:
        devices = ", ".join(device.name for device in miner.inventory.devices)
        print(f"{miner.miner_key.hex()}  {miner.address}  {miner.agent}  [{devices}]")


def show_status(stub: Any) -> None:
    status = stub.GetStatus(control_pb.GetStatusRequest())
    state = "draining" if status.draining else "serving"
    print(f"{state} on {status.address}: {status.miners} of at most {status.max_miners} miners")
    print(f"verdicts: {status.passed} pass, {status.failed} fail, {status.inconclusive} inconclusive")
    for running in status.challenges:
        progress = f"{running.done_slots} of {running.all_slots} slots"
        print(f"{running.challenge_id.hex()}  {running.miner_key.hex()}  {running.phase}, {progress}, {running.seconds} s")


def challenge(stub: Any, arguments: argparse.Namespace) -> int:
    request = control_pb.RunChallengeRequest(mode=MODES[arguments.mode], n=arguments.n, iterations=arguments.iterations)
    if arguments.challenge != "only":
        request.miner_key = bytes.fromhex(arguments.challenge)
    updates, challenge_id, is_cancelled = stub.RunChallenge(request), b"", False
    while True:
        try:
            update = next(updates, None)
        except KeyboardInterrupt:
            if is_cancelled or not challenge_id:
                raise
            is_cancelled = True
            stub.CancelChallenge(control_pb.CancelChallengeRequest(challenge_id=challenge_id))
            continue
        if update is None:
            return 2
        if update.HasField("started"):
            challenge_id = update.started.challenge_id
        if update.HasField("phase"):
            print(f"phase {update.phase}")
        if update.HasField("verdict"):
            verdict = update.verdict
            print(f"verdict {verdict_pb.Outcome.Name(verdict.outcome).removeprefix('OUTCOME_').lower()}")
            for reason in verdict.reasons:
                print(f"  {reason.code}: {reason.detail}")
            return {verdict_pb.OUTCOME_PASS: 0, verdict_pb.OUTCOME_FAIL: 1}.get(verdict.outcome, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", type=Path, required=True, help="the validator's control_socket")
    parser.add_argument("--challenge", metavar="KEY|only", help="the miner to challenge; without it: list miners")
    parser.add_argument("--status", action="store_true", help="show what the validator does")
    parser.add_argument("--mode", choices=MODES, default="policy")
    parser.add_argument("--n", type=int, help="the largest matrix size")
    parser.add_argument("--iterations", type=int)
    arguments = parser.parse_args()
    # The path of a socket is no valid :authority, which grpcio would send.
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{arguments.socket.resolve()}", options) as channel:
        stub = control_rpc.ControlServiceStub(channel)
        try:
            if arguments.challenge:
                return challenge(stub, arguments)
            (show_status if arguments.status else list_miners)(stub)
            return 0
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
