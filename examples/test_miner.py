#!/usr/bin/env python3
"""Tests miner.py against the vectors of docs/WORK.md for precisions 1, 7 and 8, and the handshake and the states of
docs/PROTOCOL.md:

python examples/test_miner.py
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import miner
from miner import Challenge, Probe, Share, State, Sums, Sweep, Walks, Work

ROOT = Path(__file__).resolve().parent.parent
HEX_FIELDS = ("challenge_id", "nonce", "validator_key", "miner_key")


def vector(name: str) -> Any:
    return json.loads((ROOT / "integration-tests/vectors" / f"{name}.json").read_text())


def read_shares(shares: list[dict[str, Any]]) -> tuple[Share, ...]:
    return tuple(Share(bytes.fromhex(share["device_id"]), share["offset"], share["count"]) for share in shares)


def read_challenge(fields: dict[str, Any]) -> Challenge:
    typed: dict[str, Any] = {name: bytes.fromhex(fields[name]) for name in HEX_FIELDS}
    return Challenge(**fields | typed | {"shares": read_shares(fields["shares"])})


def read_sweep(fields: dict[str, Any]) -> Sweep:
    return Sweep(**fields | {"seed": bytes.fromhex(fields["seed"])})


def run(challenge: Challenge) -> list[Work]:
    works = [Work(challenge, share) for share in challenge.shares]
    for work in works:
        work.run(lambda: None)
    return works


def take_wrong_bytes(work: Work, vectors: dict[str, Any]) -> None:
    """Where the vectors open wrong bytes of a slot, puts these in, and computes the slots after it from them."""
    digests = [digest.hex() for digest in work.digests]
    wrong = next((u for u, digest in enumerate(vectors["slot_digests"]) if digest != digests[u]), None)

    def put() -> None:
        if len(work.digests) - 1 == wrong:
            for opened in (part for sample in vectors["samples"] for part in sample["openings"]):
                if opened["slot"] == wrong:
                    data, first = np.frombuffer(bytes.fromhex(opened["bytes"]), np.uint8), opened["first_byte"]
                    work.slots[wrong].reshape(-1)[first : first + len(data)] = data
            work.digests[wrong] = blake3(work.slots[wrong]).digest()

    if wrong is not None:
        work.fill(vectors["iteration"], put)


def read_sample(fields: dict[str, Any]) -> Any:
    sample = miner.work_pb.Sample(slot=fields["slot"], row=fields["row"])
    if "column" in fields:
        sample.factors.column, sample.factors.inner = fields["column"], fields["inner"]
    return sample


def read_sum_sample(fields: dict[str, Any]) -> Any:
    return miner.work_pb.SumSample(round=fields["round"], slot=fields["slot"], row=fields["row"])


def written_sum(opened: Any) -> dict[str, Any]:
    """As in JSON, where the range of sums has no slot."""
    sample, sum_ = opened.sample, written_range(opened.sum)
    if sum_.pop("slot"):
        raise ValueError("a slot other than 0")
    place = {"round": sample.round, "slot": sample.slot, "row": sample.row}
    return place | {"sum": sum_, "range": written_range(opened.range)}


def written_range(opened: Any) -> dict[str, Any]:
    siblings = opened.siblings.hex()
    return {
        "slot": opened.slot,
        "first_byte": opened.first_byte,
        "bytes": opened.bytes.hex(),
        "siblings": [siblings[i : i + 64] for i in range(0, len(siblings), 64)],
    }


def miner_states() -> list[list[str]]:
    """The table of PROTOCOL.md of a miner's states, by cells, from its header on."""
    page = (ROOT / "docs/PROTOCOL.md").read_text()
    lines = page.split("<!-- miner-states -->")[1].split("<!-- /miner-states -->")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def handshake() -> dict[str, bytes]:
    """The example of PROTOCOL.md: a name, then its bytes in indented lines."""
    page = (ROOT / "docs/PROTOCOL.md").read_text()
    block = page.split("<!-- handshake -->")[1].split("<!-- /handshake -->")[0]
    values: dict[str, bytes] = {}
    name = ""
    for line in block.splitlines():
        if line.startswith("    "):
            values[name] += bytes.fromhex(line)
        elif line and not line.startswith("```"):
            name = line
            values[name] = b""
    return values


class Vectors(unittest.TestCase):
    def test_split(self) -> None:
        for case in vector("split")["cases"]:
            weights = {bytes.fromhex(weight["device_id"]): weight["weight"] for weight in case["weights"]}
            self.assertEqual(miner.split(case["total"], weights), read_shares(case["shares"]))

    def test_invalid_challenges(self) -> None:
        vectors = vector("invalid-challenges")
        self.assertIsNone(read_challenge(vectors["valid"]).broken_rule())
        for case in vectors["cases"]:
            self.assertEqual(read_challenge(case["challenge"]).broken_rule(), case["expect"])

    def test_work(self) -> None:
        names = ["one-device", "smallest", "two-devices-three-iterations", "uneven-devices", "n1024", "n2048"]
        for name in [*names, "k7", "k7-n1024", "k8", "k8-n256"]:
            with self.subTest(name):
                vectors = vector(name)
                challenge = read_challenge(vectors["challenge"])
                self.assertEqual(challenge.work_key().hex(), vectors["trace"]["work_key"])
                works = run(challenge)
                evidence = vectors["evidence"]
                for work, device in zip(works, evidence["devices"], strict=True):
                    self.assertEqual([root.hex() for root in work.roots], device["roots"])
                    self.assertEqual(work.checksum().hex(), device["checksum"])
                self.assertEqual(miner.checksum_of(challenge, works).hex(), evidence["checksum"])

    def test_probe(self) -> None:
        for name in ["probe", "probe-n1024", "probe-w64"]:
            with self.subTest(name):
                vectors = vector(name)
                challenge = read_challenge(vectors["challenge"])
                fields = vectors["probe"] | {"seed": bytes.fromhex(vectors["probe"]["seed"])}
                probe = Probe(**fields)
                self.assertIsNone(probe.wrong_field())
                walks = [Walks(probe, work) for work in run(challenge)]
                for device in walks:
                    device.run(lambda: None)
                self.assertEqual(miner.probe_checksum(challenge, probe, walks).hex(), vectors["answer"]["checksum"])
                by_id = {device.work.share.device_id.hex(): device for device in walks}
                for segment in vectors["segments"]:
                    self.check_segment(by_id[segment["device_id"]], segment)

    def test_invalid_probes(self) -> None:
        for case in vector("invalid-probes")["cases"]:
            fields = dict(case["probe"])
            if not fields.pop("link", 0):  # which is not on the wire
                probe = Probe(**fields | {"seed": bytes.fromhex(fields["seed"])})
                self.assertEqual(probe.wrong_field(), case["expect"])

    def test_segments(self) -> None:
        vectors = vector("segments-plain")["valid"]
        probe = Probe(**vectors["probe"] | {"seed": bytes.fromhex(vectors["probe"]["seed"])})
        walks = {}
        for work, digests in zip(run(read_challenge(vectors["challenge"])), vectors["slot_digests"], strict=True):
            self.assertEqual([digest.hex() for digest in work.digests], digests["digests"])
            walks[work.share.device_id.hex()] = device = Walks(probe, work)
            device.run(lambda: None)
        for segment in vectors["segments"]:
            asked = miner.work_pb.Segment(round=segment["round"], walk=segment["walk"])
            (opened,) = miner.open_segments(walks[segment["device_id"]], [asked])
            self.assertEqual(written_range(opened.state), segment["state"] | {"slot": 0})
            self.assertEqual([written_range(line) for line in opened.lines], segment["lines"])

    def check_segment(self, device: Walks, vectors: dict[str, Any]) -> None:
        """The lines that a walk reads and its state, as they are opened, and the siblings up to the digests."""
        round_, walk = vectors["round"], vectors["walk"]
        asked = miner.work_pb.Segment(round=round_, walk=walk)
        (opened,) = miner.open_segments(device, [asked])
        place = walk * 64 - opened.state.first_byte
        self.assertEqual(opened.state.bytes[place : place + 64].hex(), vectors["after"])
        for line, read in zip(opened.lines, vectors["reads"], strict=True):
            place = read["line"] * 64 - line.first_byte
            self.assertEqual(line.slot, read["slot"])
            self.assertEqual(line.bytes[place : place + 64].hex(), read["bytes"])
            self.assertEqual(root_of(line), device.work.digests[line.slot])
        self.assertEqual(root_of(opened.state), device.digests[round_])

    def test_sweep(self) -> None:
        for name in ["sweep", "sweep-k7"]:
            with self.subTest(name):
                vectors = vector(name)
                challenge, sweep = read_challenge(vectors["challenge"]), read_sweep(vectors["sweep"])
                self.assertIsNone(sweep.wrong_field())
                self.assertEqual(challenge.work_key().hex(), vectors["work_key"])
                sums = [Sums(sweep, work) for work in run(challenge)]
                for device, traced in zip(sums, vectors["trace"], strict=True):
                    self.check_sums(device, traced)
                self.check_answer(challenge, sums, vectors["answer"])

    def check_sums(self, device: Sums, traced: dict[str, Any]) -> None:
        """Keys, weights and sums, round by round; leaves the digests behind, as `run` does."""
        self.assertEqual(device.work.share.device_id.hex(), traced["device_id"])
        self.assertEqual(device.key.hex(), traced["sweep_key"])
        for round_, expected in enumerate(traced["rounds"]):
            self.assertEqual(device.round_key(round_).hex(), expected["round_key"])
            self.assertEqual(device.weights(round_)[:16].tolist(), expected["weights"])
            sums = device.sum(round_)
            self.assertEqual(sums[:4].tolist(), expected["sums"])
            self.assertEqual(sums.nbytes, expected["hashed_bytes"])
            self.assertFalse(sums[device.work.share.count * device.work.challenge.n :].any())
            device.digests.append(blake3(sums.tobytes()).digest())
        digests, device.digests = device.digests, []
        device.run(lambda: None)
        self.assertEqual(device.digests, digests)

    def check_answer(self, challenge: Challenge, sums: list[Sums], answer: dict[str, Any]) -> None:
        made = [
            {"device_id": device.work.share.device_id.hex(), "digests": [digest.hex() for digest in device.digests]}
            for device in sums
        ]
        self.assertEqual(made, answer["devices"])
        self.assertEqual(miner.sweep_checksum(challenge, sums[0].sweep, sums).hex(), answer["checksum"])

    def test_invalid_sweeps(self) -> None:
        vectors = vector("invalid-sweeps")
        self.assertIsNone(read_sweep(vectors["valid"]["sweep"]).wrong_field())
        for case in vectors["cases"]:
            self.assertEqual(read_sweep(case["sweep"]).wrong_field(), case["expect"], case["what"])

    def test_openings_of_a_sweep(self) -> None:
        (vectors,) = (case["opening"] for case in vector("openings-sweep")["cases"] if case["expect"] == "accepted")
        challenge, sweep = read_challenge(vectors["challenge"]), read_sweep(vectors["sweep"])
        sums = [Sums(sweep, work) for work in run(challenge)]
        for device, expected in zip(sums, vectors["slot_digests"], strict=True):
            roots = vectors["committed_roots"][expected["device_id"]]
            self.assertEqual([root.hex() for root in device.work.roots], roots)
            self.assertEqual([digest.hex() for digest in device.work.digests], expected["digests"])
            device.run(lambda: None)
        self.check_answer(challenge, sums, vectors["answer"])
        opened = []
        for device in sums:
            device_id = device.work.share.device_id.hex()
            asked = [read_sum_sample(drawn) for drawn in vectors["drawn"] if drawn["device_id"] == device_id]
            for parts in miner.open_sums(device, asked):
                opened.append({"device_id": device_id} | written_sum(parts))
                self.assertEqual(root_of(parts.sum), device.digests[parts.sample.round])
                self.assertEqual(root_of(parts.range), device.work.digests[parts.sample.slot])
        self.assertEqual(opened, vectors["samples"])

    def test_sums_outside_the_sweep_are_refused(self) -> None:
        vectors = vector("sweep-k7")
        (work,) = run(read_challenge(vectors["challenge"]))
        sums = Sums(read_sweep(vectors["sweep"]), work)
        sums.run(lambda: None)
        last = {"round": 1, "slot": 3, "row": 511}
        self.assertEqual(len(miner.open_sums(sums, [read_sum_sample(last)])), 1)
        for field in last:
            with self.subTest(field), self.assertRaises(miner.Stop):
                miner.open_sums(sums, [read_sum_sample(last | {field: last[field] + 1})])

    def test_signatures(self) -> None:
        vectors = vector("signed")
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vectors["secret_key"]))
        challenge = read_challenge(vectors["challenge"])
        commitment = bytes.fromhex(vectors["evidence"]["checksum"])
        message = miner.commitment_message(challenge, commitment)
        self.assertEqual(message.hex(), vectors["commitment_message"])
        self.assertEqual(key.sign(message).hex(), vectors["evidence"]["signature"])
        probe = Probe(**vectors["probe"] | {"seed": bytes.fromhex(vectors["probe"]["seed"])})
        message = miner.probe_message(challenge, probe, commitment, bytes.fromhex(vectors["answer"]["checksum"]))
        self.assertEqual(message.hex(), vectors["probe_message"])
        self.assertEqual(key.sign(message).hex(), vectors["answer"]["signature"])

    def test_signature_of_a_sweep(self) -> None:
        vectors = vector("signed-sweep")
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vectors["secret_key"]))
        challenge, sweep = read_challenge(vectors["challenge"]), read_sweep(vectors["sweep"])
        works = run(challenge)
        commitment = miner.checksum_of(challenge, works)
        self.assertEqual(commitment.hex(), vectors["evidence"]["checksum"])
        sums = [Sums(sweep, work) for work in works]
        for device in sums:
            device.run(lambda: None)
        self.check_answer(challenge, sums, vectors["answer"])
        message = miner.sweep_message(challenge, sweep, commitment, miner.sweep_checksum(challenge, sweep, sums))
        self.assertEqual(message.hex(), vectors["sweep_message"])
        self.assertEqual(key.sign(message).hex(), vectors["answer"]["signature"])

    def test_openings(self) -> None:
        names = ["openings-n256", "openings-n2048", "openings-second-device"]
        for vectors in [vector(name) for name in names] + [vector("invalid-openings")["valid"]]:
            with self.subTest(vectors["device_id"]):
                self.check_openings(vectors)

    def test_openings_that_are_accepted(self) -> None:
        for name, count in [("openings-k7", 1), ("openings-k8", 4)]:
            cases = [case for case in vector(name)["cases"] if case["expect"] == "accepted"]
            self.assertEqual(len(cases), count)
            for case in cases:
                with self.subTest(case["what"]):
                    self.check_openings(case["opening"])

    def check_openings(self, vectors: dict[str, Any]) -> None:
        challenge = read_challenge(vectors["challenge"])
        (work,) = (work for work in run(challenge) if work.share.device_id.hex() == vectors["device_id"])
        work.hold(vectors["iteration"], lambda: None)
        take_wrong_bytes(work, vectors)
        self.assertEqual([digest.hex() for digest in work.digests], vectors["slot_digests"])
        for sample in vectors["samples"]:
            opened = miner.open_sample(work, read_sample(sample))
            self.assertEqual([written_range(part) for part in opened.openings], sample["openings"])
            if "earlier" in sample:
                self.assertEqual(opened.parents.earlier, sample["earlier"])
                self.assertEqual(opened.parents.previous, sample["previous"])

    def test_samples_outside_the_pass_are_refused(self) -> None:
        (work,) = run(read_challenge(vector("one-device")["challenge"]))
        factors = {"column": 0, "inner": 0}
        for sample in [{"slot": 3, "row": 0} | factors, {"slot": 1, "row": 256}, {"slot": 2, "row": 0}]:
            with self.assertRaises(miner.Stop):
                miner.open_sample(work, read_sample(sample))
        with self.assertRaises(miner.Stop):
            miner.open_sample(work, read_sample({"slot": 0, "row": 0} | factors))


class Rules(unittest.TestCase):
    """The rules of precisions 7 and 8, by single rows."""

    def setUp(self) -> None:
        self.vectors = vector("rules")
        self.key, self.n = bytes.fromhex(self.vectors["key"]), 256
        self.slot = miner.keystream(self.key, 1, self.n**2 // 64).view(np.uint8).reshape(self.n, self.n)

    def test_field(self) -> None:
        self.assertEqual(miner.FIELD_ORDER, int(self.vectors["field_order"]))
        for case in self.vectors["field"]:
            made = miner.field_group(bytes.fromhex(case["group"]), case["row"], case["place"], case["slot"])
            self.assertEqual(made.hex(), case["operands"])

    def test_convolution(self) -> None:
        x = miner.convolution(self.slot)
        for case in self.vectors["convolution"]:
            row = case["row"]
            self.assertEqual(x[row].tolist(), case["operands"])
            self.assertEqual([[first, self.n // 4] for first in miner.pieces(self.n, row)], case["pieces"])
            factors = [list(miner.pooled_factor(self.n, row, inner)) for inner in (0, 100, 255)]
            self.assertEqual(factors, case["factors"])

    def test_pieces_and_factors(self) -> None:
        for case in self.vectors["geometry"]:
            n, row = case["n"], case["row"]
            self.assertEqual(list(miner.image_shape(n)), case["height_width_channels"])
            self.assertEqual([[first, n // 4] for first in miner.pieces(n, row)], case["pieces"])
            for inner, *element in case["factors"]:
                self.assertEqual(list(miner.pooled_factor(n, row, inner)), element)

    def test_attention(self) -> None:
        self.assertEqual(miner.SOFTMAX.tolist(), self.vectors["softmax"])
        for case in self.vectors["attention"]:
            row = np.frombuffer(bytes.fromhex(case["bytes"]), np.uint8)
            self.assertEqual(miner.attention(row[None, :]).tolist(), [case["operands"]], case["what"])

    def test_noise(self) -> None:
        self.assertEqual(miner.THRESHOLDS.tolist(), self.vectors["noise_thresholds"])
        draws, added = np.array(self.vectors["noise_draws"]).T
        self.assertEqual(miner.noise_drawn(draws).tolist(), added.tolist())
        for case in self.vectors["noise"]:
            u = case["slot"]
            self.assertEqual(miner.keyed(self.key, b"noise", miner.u32(u)).hex(), case["noise_key"])
            self.assertEqual(miner.noise(self.slot, self.key, u)[case["row"]].tolist(), case["operands"])


class Handshake(unittest.TestCase):
    def test_example(self) -> None:
        example = handshake()
        parts = [example[name] for name in ("validator_key", "miner_key", "nonce", "miner_nonce", "channel")]
        both = miner.transcript(int.from_bytes(example["version"], "little"), *parts)
        welcome, proof = b"assay v1 welcome" + both, b"assay v1 session" + both
        self.assertEqual((welcome, proof), (example["welcome_message"], example["proof_message"]))
        key = Ed25519PrivateKey.from_private_bytes(example["miner_seed"])
        self.assertEqual(key.sign(proof), example["proof_signature"])
        request = miner.session_pb.SessionRequest(proof=miner.session_pb.Proof(signature=key.sign(proof)))
        self.assertEqual(request.SerializeToString(), example["proof_request"])
        signature = example["welcome_signature"]
        self.assertTrue(miner.signature_holds(example["validator_key"], signature, welcome))
        self.assertFalse(miner.signature_holds(example["validator_key"], signature, proof))
        self.assertFalse(miner.signature_holds(example["miner_key"], signature, welcome))

    def test_keys_of_small_order_are_refused(self) -> None:
        for y in miner.SMALL_ORDER_Y:
            for sign in (0, 1 << 255):
                point = (y | sign).to_bytes(32, "little")
                self.assertTrue(miner.has_small_order(point))
        # With the neutral element as key and R, and S = 0, plain verification accepts every message.
        neutral = (1).to_bytes(32, "little")
        self.assertFalse(miner.signature_holds(neutral, neutral + bytes(32), b"anything"))

    def test_small_order_is_as_the_page_says(self) -> None:
        page = (ROOT / "docs/PROTOCOL.md").read_text().split("<!-- small-order -->")[1]
        listed = {int.from_bytes(bytes.fromhex(line), "little") for line in page.split("```")[1].split()[1:]}
        self.assertEqual(listed, miner.SMALL_ORDER_Y)

    def test_points_of_order_eight(self) -> None:
        """2 P has y = 0 where d y^4 + 2 y^2 = 1."""
        d = -121665 * pow(121666, -1, miner.PRIME) % miner.PRIME
        for y in miner.SMALL_ORDER_Y - {0, 1, miner.PRIME - 1}:
            self.assertEqual((d * pow(y, 4) + 2 * y * y) % miner.PRIME, 1)


class Declining(unittest.TestCase):
    """The codes of PROTOCOL.md, Take or decline."""

    def setUp(self) -> None:
        arguments = argparse.Namespace(slots=8, n_max=512, devices=2)
        self.session = miner.Session(arguments, Ed25519PrivateKey.generate(), threading.Event())
        self.session.validator_key = bytes(32)

    def challenge(self, **changed: Any) -> Any:
        fields = dict(version=1, precision=1, n=512, iterations=1, total=16, inventory_sequence=0, min_slots=3)
        return miner.work_pb.Challenge(**fields | {"challenge_id": bytes(16), "nonce": bytes(32)} | changed)

    def declines(self, code: str, **changed: Any) -> None:
        with self.assertRaises(miner.Stop) as caught:
            self.session.plan(self.challenge(**changed))
        self.assertTrue(str(caught.exception).startswith(f"{code}:"), caught.exception)

    def test_a_challenge_that_fits_is_taken(self) -> None:
        self.assertEqual([share.count for share in self.session.plan(self.challenge()).shares], [8, 8])
        self.assertEqual([share.count for share in self.session.plan(self.challenge(n=256, total=7)).shares], [4, 3])
        for device in self.session.inventory.devices:
            self.assertEqual(list(device.precisions), [1, 7, 8])
        for precision in (7, 8):
            self.assertEqual(self.session.plan(self.challenge(precision=precision)).precision, precision)

    def test_others_are_declined(self) -> None:
        self.declines("STALE_INVENTORY", inventory_sequence=1)
        self.declines("NOT_ENOUGH_MEMORY", total=17)
        for precision in (2, 5, 6):
            self.declines("UNSUPPORTED", precision=precision)
        invalid = [{"version": 2}, {"n": 300}, {"n": 1024}, {"min_slots": 9}, {"total": 5}, {"iterations": 0}]
        for changed in [*invalid, {"precision": 3}, {"total": 0}, {"total": (1 << 20) + 1}]:
            self.declines("INVALID", **changed)

    def test_busy_and_draining(self) -> None:
        self.session.running = object()  # type: ignore[assignment]
        self.declines("BUSY", inventory_sequence=1)
        self.session.stopping.set()
        self.declines("DRAINING")


class States(unittest.TestCase):
    """The states of PROTOCOL.md while a challenge runs, and a challenge with a sweep from end to end."""

    def setUp(self) -> None:
        arguments = argparse.Namespace(slots=4, n_max=256, devices=2)
        self.key = Ed25519PrivateKey.generate()
        self.session = miner.Session(arguments, self.key, threading.Event())
        self.session.validator_key = bytes(32)
        self.session.call = SimpleNamespace(is_active=lambda: True)
        self.session.outbox = queue.Queue()
        silence = mock.patch("miner.say")
        silence.start()
        self.addCleanup(silence.stop)
        self.challenge_id = bytes(range(16))

    def take(self, kind: str, part: type, **fields: Any) -> None:
        self.session.take((kind, part(challenge_id=self.challenge_id, **fields)))

    def challenge(self, **changed: Any) -> None:
        fields = dict(version=1, precision=1, n=256, iterations=2, total=7, nonce=bytes(32))
        self.take("challenge", miner.work_pb.Challenge, **fields | changed)

    def probe(self, **changed: Any) -> None:
        fields = dict(seed=bytes(32), walks=64, steps=2, rounds=2)
        self.take("probe", miner.work_pb.Probe, **fields | changed)

    def sweep(self, **changed: Any) -> None:
        self.take("sweep", miner.work_pb.Sweep, **{"seed": b"\1" * 32, "rounds": 2} | changed)

    def open(self, items: list[Any]) -> None:
        self.take("open", miner.work_pb.Open, items=items)

    def sent(self) -> tuple[str, Any]:
        """The next message that the miner sends, but for Progress."""
        while True:
            request = self.session.outbox.get(timeout=60)
            kind = request.WhichOneof("message")
            if kind != "progress":
                message = getattr(request, kind)
                self.assertEqual(message.challenge_id, self.challenge_id)
                return kind, message

    def aborts(self, detail: str) -> None:
        kind, message = self.sent()
        self.assertEqual((kind, message.detail), ("abort", detail))
        self.assertEqual(message.code, miner.session_pb.STOP_CODE_INVALID)
        self.assertIsNone(self.session.running)

    def expect(self, *kinds: str) -> list[Any]:
        messages = []
        for kind in kinds:
            found, message = self.sent()
            self.assertEqual(found, kind)
            messages.append(message)
        return messages

    def until_probed(self) -> list[Work]:
        """Takes a challenge and a probe, and gives the slots that the miner should have."""
        self.challenge()
        assert self.session.running
        works = run(self.session.running.challenge)
        commitment, *roots = self.expect("commitment", "device_roots", "device_roots")
        self.assertEqual([device.roots for device in roots], [b"".join(work.roots) for work in works])
        self.assertEqual(commitment.checksum, miner.checksum_of(works[0].challenge, works))
        self.probe()
        self.expect("probe_answer", "device_digests", "device_digests")
        return works

    def test_a_sweep_is_answered_and_opened(self) -> None:
        works = self.until_probed()
        self.assertTrue(self.session.inventory.sweeps)
        challenge, sweep = works[0].challenge, Sweep(b"\1" * 32, 2)
        sums = [Sums(sweep, work) for work in works]
        for device in sums:
            device.run(lambda: None)
        self.sweep()
        answer, *digests = self.expect("probe_answer", "device_digests", "device_digests")
        self.assertEqual(answer.checksum, miner.sweep_checksum(challenge, sweep, sums))
        message = miner.sweep_message(challenge, sweep, miner.checksum_of(challenge, works), answer.checksum)
        self.assertEqual(answer.signature, self.key.sign(message))
        for device, sent in zip(sums, digests, strict=True):
            self.assertEqual((sent.device_id, sent.digests), (device.work.share.device_id, b"".join(device.digests)))
        self.check_openings(sums)

    def check_openings(self, sums: list[Sums]) -> None:
        """Opens samples of iteration 0 first, so that the last one has to be computed again for the sums."""
        first, second = (device.work.share.device_id for device in sums)
        asked = [miner.work_pb.SumSample(round=r, slot=u, row=i) for r, u, i in [(1, 2, 255), (0, 0, 0), (1, 1, 9)]]
        leaf = miner.work_pb.OpenSamples(iteration=0, samples=[miner.work_pb.Sample(slot=1, row=3)])
        segment = miner.work_pb.OpenSegments(segments=[miner.work_pb.Segment(round=1, walk=63)])
        item = miner.work_pb.OpenItem
        self.open([
            item(device_id=second, samples=leaf),
            item(device_id=second, sums=miner.work_pb.OpenSums(samples=asked)),
            item(device_id=first, segments=segment),
            item(device_id=first, sums=miner.work_pb.OpenSums(samples=asked[:1])),
        ])
        parts = ["slot_digests", "sample", "end", "slot_digests", "sum", "sum", "sum", "end"]
        parts += ["slot_digests", "segment", "end", "slot_digests", "sum", "end"]
        chunks = self.expect(*["openings_chunk"] * len(parts))
        self.assertEqual([chunk.WhichOneof("part") for chunk in chunks], parts)
        self.assertEqual([chunk.item for chunk in chunks], [0] * 3 + [1] * 5 + [2] * 3 + [3] * 3)
        self.assertEqual(blake3(chunks[0].slot_digests).digest(), sums[1].work.roots[0])
        self.assertEqual(chunks[3].slot_digests, b"".join(sums[1].work.digests))
        self.assertEqual(chunks[11].slot_digests, b"".join(sums[0].work.digests))
        self.assertEqual([chunk.sum for chunk in chunks[4:7]], miner.open_sums(sums[1], asked))
        self.assertEqual([chunks[12].sum], miner.open_sums(sums[0], asked[:1]))

    def test_sums_of_no_sweep_are_refused(self) -> None:
        (device_id, _) = (work.share.device_id for work in self.until_probed())
        self.open([miner.work_pb.OpenItem(device_id=device_id, sums=miner.work_pb.OpenSums())])
        self.aborts("an item of a linked probe or a sweep that was not sent")

    def test_states(self) -> None:
        """Every cell of the page about a Probe, a Sweep or an Open. This miner walks no linked probe."""
        header, _, *rows = miner_states()
        cells = {row[0]: dict(zip(header[2:], row[2:])) for row in rows if row[1] == "this"}
        kinds = {"Probe": (self.probe, "link"), "Sweep": (self.sweep, "sweep"), "Open": (lambda: self.open([]), None)}
        for name, (ask, rule) in kinds.items():
            for state in State:
                with self.subTest(f"{name} while {state.name.lower()}"):
                    refusal = f"the {name.lower()} breaks the rule {rule}"
                    self.check_state(ask, state, cells[name][state.name.lower()], refusal)

    def check_state(self, ask: Any, state: State, cell: str, refusal: str, swept: bool = False) -> None:
        """What `ask` leads to in a state, by the cell of the table. The thread of the challenge does nothing."""
        with mock.patch.object(miner.Running, "run"):
            self.session.running = None
            self.challenge()
        running = self.session.running
        assert running
        running.state, running.swept = state, swept
        if cell == "end":
            with self.assertRaises(miner.Broken):
                ask()
        else:
            ask()
        if cell == "refuse":
            self.aborts(refusal)
        self.assertEqual(running.inbox.qsize(), cell == "take")
        if cell == "take":
            is_open = isinstance(running.inbox.get(), miner.work_pb.Open)
            self.assertEqual(running.state, State.OPENING if is_open else State.PROBING)
        self.assertTrue(self.session.outbox.empty())

    def test_what_breaks_a_rule_is_refused(self) -> None:
        """A field is named before the place of its message."""
        places = [(State.ANSWERED, False), (State.ANSWERED, True), (State.COMMITTED, False)]
        for state, swept in places:
            self.check_state(lambda: self.sweep(rounds=0), state, "refuse", "the sweep breaks the rule rounds", swept)
            self.check_state(lambda: self.probe(steps=0), state, "refuse", "the probe breaks the rule steps", swept)
        for state in (State.ANSWERED, State.PROBING):
            self.check_state(self.sweep, state, "refuse", "the sweep breaks the rule sweep", swept=True)
        link = "the probe breaks the rule link"
        self.check_state(self.probe, State.ANSWERED, "refuse", link, swept=True)
        self.check_state(lambda: self.probe(link=1), State.ANSWERED, "refuse", link, swept=True)
        self.check_state(lambda: self.probe(link=1), State.COMMITTED, "refuse", link)

    def test_another_challenge_is_dropped(self) -> None:
        with mock.patch.object(miner.Running, "run"):
            self.challenge()
        self.challenge_id = bytes(16)
        self.sweep(rounds=0)
        assert self.session.running
        self.assertTrue(self.session.outbox.empty() and self.session.running.inbox.empty())


def root_of(opened: Any) -> bytes:
    """The digest that an opened range of 1024 bytes leads to."""
    index, root_flag = opened.first_byte // miner.CHUNK_BYTES, 8
    start = value = miner.INITIAL[:, None]
    for i, block in enumerate(np.frombuffer(opened.bytes, miner.WORD).reshape(16, 16, 1)):
        flags = (miner.CHUNK_START if i == 0 else 0) | (miner.CHUNK_END if i == 15 else 0)
        value = miner.compress(value, block, index, flags)
    siblings = np.frombuffer(opened.siblings, miner.WORD).reshape(-1, 8, 1)
    for i, sibling in enumerate(siblings):
        pair = [sibling, value] if index >> i & 1 else [value, sibling]
        flags = miner.PARENT | (root_flag if i == len(siblings) - 1 else 0)
        value = miner.compress(start, np.concatenate(pair), 0, flags)
    return value.tobytes()


if __name__ == "__main__":
    unittest.main()
