#!/usr/bin/env python3
"""Tests miner.py against the vectors of docs/WORK.md for precisions 1, 7 and 8, and the handshake of docs/PROTOCOL.md:

python examples/test_miner.py
"""

from __future__ import annotations

import argparse
import json
import threading
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import miner
from miner import Challenge, Probe, Share, Walks, Work

ROOT = Path(__file__).resolve().parent.parent
HEX_FIELDS = ("challenge_id", "nonce", "validator_key", "miner_key")


def vector(name: str) -> Any:
    return json.loads((ROOT / "integration-tests/vectors" / f"{name}.json").read_text())


def read_shares(shares: list[dict[str, Any]]) -> tuple[Share, ...]:
    return tuple(Share(bytes.fromhex(share["device_id"]), share["offset"], share["count"]) for share in shares)


def read_challenge(fields: dict[str, Any]) -> Challenge:
    typed: dict[str, Any] = {name: bytes.fromhex(fields[name]) for name in HEX_FIELDS}
    return Challenge(**fields | typed | {"shares": read_shares(fields["shares"])})


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


def written_range(opened: Any) -> dict[str, Any]:
    siblings = opened.siblings.hex()
    return {
        "slot": opened.slot,
        "first_byte": opened.first_byte,
        "bytes": opened.bytes.hex(),
        "siblings": [siblings[i : i + 64] for i in range(0, len(siblings), 64)],
    }


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
