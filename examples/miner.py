#!/usr/bin/env python3
"""A small miner: proves to a validator that this machine's CPU computes and holds memory.

Written from docs/WORK.md and docs/PROTOCOL.md, with their names and by their sections. It is made to be read, not to be
fast: assay-miner is the miner for real devices.

    python3 -m venv venv && venv/bin/pip install -r examples/requirements.txt
    venv/bin/python examples/miner.py --key-file miner.key --slots 64
    assay-validator serve --n 512 --policy-fields probe_expect_gb_per_s=0.05      # what NumPy can do, on 127.0.0.1:7400

On one core of a busy server it makes 10 to 25 G multiply-accumulates per second, 0.1 to 0.5 GB/s in a probe and 0.3 in
a sweep. Below 0.4 GB/s the default policy fails it as probe_late. So slow a device shows its work, but no memory.
Products are exact in float32: 1024 of them add up to at most 2**24. It offers CPU devices at --n-max (512), the
precisions 1, 7 and 8, and the sweep. In precision 7 it makes 1 to 2.5 M field operations per second, in Python's
integers: a slot takes 0.2 to 0.5 s at n = 512.
test_miner.py holds it against the vectors of WORK.md; api.py beside it is a client of the HTTP API.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import math
import os
import queue
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# One core for the products, so that the threads that answer pings have the others. NumPy reads it when imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import grpc
import numpy as np
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# grpcio-tools compiles the definitions in memory.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "proto"))
session_pb, session_rpc = grpc.protos_and_services("assay/v1/session.proto")
work_pb = grpc.protos("assay/v1/work.proto")
verdict_pb = grpc.protos("assay/v1/verdict.proto")

VERSION = 2  # of docs/PROTOCOL.md
PLAINTEXT = b"plaintext".ljust(32, b"\0")  # the channel: this miner has no TLS
WORK_VERSION = 1  # of docs/WORK.md
SIZES = [256 << i for i in range(8)]  # every n, in the order of Device.slots
PRECISIONS = (1, 2, 5, 6, 7, 8)  # valid
FIELD, NETWORK = 7, 8
OFFERED = (1, FIELD, NETWORK)  # what this miner computes
MAX_ITERATIONS = 65536
MAX_MATRICES = 1 << 20
CHUNK_BYTES = 1024  # of BLAKE3
LINE_BYTES = 64  # of a probe
DIGESTS_PER_MESSAGE = 32768
PROGRESS_INTERVAL_S = 1.0
OUTBOX_MESSAGES = 16  # a bound for the memory of openings that wait for the network
HANDSHAKE_TIMEOUT_S = 20.0
FIRST_PAUSE_S, LONGEST_PAUSE_S, BUSY_PAUSE_S, LONG_SESSION_S = 0.5, 30.0, 30.0, 60.0

WORD = np.dtype("<u4")
MASK = 0xFFFFFFFF
ZERO_ROOT = bytes(32)


# ---- WORK.md, Notation: hashes, keystream, signatures ----------------------------------------------------------------


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def derive(context: str, *parts: bytes) -> bytes:
    return blake3(b"".join(parts), derive_key_context=context).digest()


def keyed(key: bytes, *parts: bytes) -> bytes:
    return blake3(b"".join(parts), key=key).digest()


def rotate_left(words: np.ndarray, bits: int) -> None:
    """Rotates every word, in place."""
    low = words >> (32 - bits)
    words <<= bits
    words |= low


def quarter_rounds(state: np.ndarray, bits: tuple[int, int, int, int], x: Any = 0, y: Any = 0) -> None:
    """Four quarter rounds at once on [4, 4, lanes] words: those of ChaCha, and with message words x, y BLAKE3's."""
    a, b, c, d = state
    a += b
    a += x
    d ^= a
    rotate_left(d, bits[0])
    c += d
    b ^= c
    rotate_left(b, bits[1])
    a += b
    a += y
    d ^= a
    rotate_left(d, bits[2])
    c += d
    b ^= c
    rotate_left(b, bits[3])


DIAGONALS = [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]


def double_round(state: np.ndarray, bits: tuple[int, int, int, int], words: np.ndarray | None = None) -> None:
    """A round over the columns, then one over the diagonals."""
    m = np.zeros((16, 1), WORD) if words is None else words
    quarter_rounds(state, bits, m[0:8:2], m[1:8:2])
    for row, order in enumerate(DIAGONALS, start=1):
        state[row] = state[row][order]
    quarter_rounds(state, bits, m[8:16:2], m[9:16:2])
    for row, order in enumerate(reversed(DIAGONALS), start=1):
        state[row] = state[row][order]


def keystream(key: bytes, stream: int, blocks: int) -> np.ndarray:
    """The first `blocks` blocks of KEYSTREAM(key, stream), ChaCha with 8 rounds: [blocks, 16] words."""
    counter = np.arange(blocks, dtype=np.uint64)
    start = np.empty((16, blocks), WORD)
    start[0:4] = np.frombuffer(b"expand 32-byte k", WORD)[:, None]
    start[4:12] = np.frombuffer(key, WORD)[:, None]
    start[12], start[13] = counter & MASK, counter >> 32
    start[14], start[15] = stream & MASK, stream >> 32
    state = start.reshape(4, 4, blocks).copy()
    for _ in range(4):
        double_round(state, (16, 12, 8, 7))
    return np.ascontiguousarray((state.reshape(16, blocks) + start).T)


# The y coordinates of the eight points of small order, which strict verification refuses as keys and as R.
PRIME = 2**255 - 19
Y8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
SMALL_ORDER_Y = {0, 1, PRIME - 1, Y8, PRIME - Y8}


def has_small_order(point: bytes) -> bool:
    return (int.from_bytes(point, "little") & ((1 << 255) - 1)) % PRIME in SMALL_ORDER_Y


def signature_holds(key: bytes, signature: bytes, message: bytes) -> bool:
    if len(key) != 32 or len(signature) != 64 or has_small_order(key) or has_small_order(signature[:32]):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# ---- WORK.md, Challenge ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """One device's part of a challenge."""

    device_id: bytes
    offset: int
    count: int

    def encoded(self) -> bytes:
        return self.device_id + u32(self.offset) + u32(self.count)


@dataclass(frozen=True)
class Challenge:
    """What both sides compute from; the wire has `total` in place of the shares."""

    version: int
    challenge_id: bytes
    nonce: bytes
    validator_key: bytes
    miner_key: bytes
    precision: int
    n: int
    iterations: int
    shares: tuple[Share, ...]

    def broken_rule(self) -> str | None:
        """The first rule of WORK.md that the challenge breaks."""
        ids = [share.device_id for share in self.shares]
        ends = [0]
        for share in self.shares:
            ends.append(share.offset + share.count)
        rules = {
            "version": self.version == WORK_VERSION,
            "precision": self.precision in PRECISIONS,
            "n": self.n in SIZES,
            "iterations": 1 <= self.iterations <= MAX_ITERATIONS,
            "no_shares": len(ids) > 0,
            "share_order": ids == sorted(ids),
            "share_duplicate": len(set(ids)) == len(ids),
            "share_offset": all(share.offset == end for share, end in zip(self.shares, ends)),
            "share_count": all(share.count >= 3 for share in self.shares),
            "total": sum(share.count for share in self.shares) <= MAX_MATRICES,
        }
        return next((rule for rule, holds in rules.items() if not holds), None)

    def work_key(self) -> bytes:
        return derive(
            "assay v1 work key",
            u32(self.version) + self.challenge_id + self.nonce + self.validator_key + self.miner_key,
            u32(self.precision) + u32(self.n) + u32(self.iterations) + u32(len(self.shares)),
            *(share.encoded() for share in self.shares),
        )


def split(total: int, weights: dict[bytes, int]) -> tuple[Share, ...]:
    """Shares of `total` matrices in proportion to the weights, in order of device id."""
    whole = sum(weights.values())
    ids = sorted(weights)
    counts = {device: total * weights[device] // whole for device in ids}
    by_remainder = sorted(ids, key=lambda device: (-(total * weights[device] % whole), device))
    for device in by_remainder[: total - sum(counts.values())]:
        counts[device] += 1
    shares, offset = [], 0
    for device in ids:
        shares.append(Share(device, offset, counts[device]))
        offset += counts[device]
    return tuple(shares)


# ---- WORK.md, Rules --------------------------------------------------------------------------------------------------

FIELD_ORDER = 21888242871839275222246405745257275088548364400416034343698204186575808495617  # Q
GROUP_BYTES = 32


def field_group(group: bytes, row: int, place: int, u: int) -> bytes:
    """What 32 bytes of slot[previous] stand for in slot u: group `place` of a row."""
    k = 1 + place + (row << 16) + (u << 32)
    v = int.from_bytes(group, "little") % FIELD_ORDER
    for _ in range(64):
        v = (v * v + k) % FIELD_ORDER
    return v.to_bytes(GROUP_BYTES, "little")


def field(slot: np.ndarray, u: int) -> np.ndarray:
    """Operands y of precision 7 from slot[previous]."""
    groups = slot.reshape(len(slot), -1, GROUP_BYTES)
    powers = (field_group(group.tobytes(), c, j, u) for c, row in enumerate(groups) for j, group in enumerate(row))
    return np.frombuffer(b"".join(powers), np.int8).reshape(slot.shape)


def image_shape(n: int) -> tuple[int, int, int]:
    """H, W and the channels of a slot as a tensor, of n^2 elements together."""
    m = n.bit_length() - 1
    return 1 << (m + 5) // 2, 1 << (m + 4) // 2, n // 16


def convolution(slot: np.ndarray) -> np.ndarray:
    """Operands x of layer 0 of precision 8: each row a window of 4 x 4 pools, windows 2 pools apart."""
    height, width, channels = image_shape(len(slot))
    s = slot.view(np.int8)
    leaky = np.where(s >= 0, s, s >> 3)
    pools = leaky.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))
    x = np.empty((height // 4, width // 4, 4, 4, channels), np.int8)
    for i, j in np.ndindex(4, 4):
        x[:, :, i, j] = np.roll(pools, (-i, -j), axis=(0, 1))[::2, ::2]
    return x.reshape(slot.shape)


# E[d]: 127 * 2^(-d/64), rounded.
SOFTMAX = np.array([max(e for e in range(1, 128) if (2 * e - 1) ** 64 << d <= 254**64) for d in range(256)])


def attention(slot: np.ndarray) -> np.ndarray:
    """Operands x of layer 1: the softmax of each row."""
    s = slot.view(np.int8).astype(np.int64)
    p = SOFTMAX[s.max(axis=1, keepdims=True) - s]
    x: np.ndarray = np.minimum(127, p * 32 * slot.shape[1] // p.sum(axis=1, keepdims=True))
    return x


# t[i]: 2^15 times the chance that |G| <= i, G any integer. No value is so near to a half that the floats' errors count.
WEIGHTS = [math.exp(-g * g / 128) * (2 if g else 1) for g in range(128)]
THRESHOLDS = np.array([round(2**15 * sum(WEIGHTS[: i + 1]) / sum(WEIGHTS)) for i in range(34)])


def noise_drawn(w: np.ndarray) -> np.ndarray:
    """The number that each u16 adds."""
    a = np.searchsorted(THRESHOLDS, w >> 1, side="right")
    return np.where(w & 1, -a, a)


def noise(slot: np.ndarray, key: bytes, u: int) -> np.ndarray:
    """Operands x of layer 2 for slot u, from the pass key."""
    w = keystream(keyed(key, b"noise", u32(u)), 0, slot.size // 32).view("<u2").reshape(slot.shape)
    x: np.ndarray = np.clip(slot.view(np.int8), -64, 63) + noise_drawn(w)
    return x


def network(slot: np.ndarray, key: bytes, u: int) -> np.ndarray:
    """Operands x of precision 8 for slot u, from slot[earlier] and the pass key."""
    layer = u % 3
    if layer == 2:
        return noise(slot, key, u)
    return attention(slot) if layer == 1 else convolution(slot)


# ---- WORK.md, A pass -------------------------------------------------------------------------------------------------


def parents(key: bytes, u: int) -> tuple[int, int]:
    """`earlier` and `previous` of slot u, from the pass key."""
    return int.from_bytes(keyed(key, b"parent", u32(u))[:8], "little") % (u - 1), u - 1


def product(x: np.ndarray, y: np.ndarray, u: int) -> np.ndarray:
    """Slot u, [n, n] bytes, from operands [n, n] of the slots `earlier` and `previous`.

    float32 is exact here: 1024 products of at most 2^14 add up to at most 2^24, in any order.
    """
    n = len(x)
    rows, columns = x.astype(np.float32), y.astype(np.float32)
    mixed = np.arange(n * n, dtype=WORD).reshape(n, n)
    mixed += u * 0xC2B2AE35 & MASK
    for k in range(0, n, 1024):
        mixed += (rows[:, k : k + 1024] @ columns[:, k : k + 1024].T).astype(np.int32).view(WORD)
    mixed *= 0x9E3779B1
    mixed ^= mixed >> 16
    mixed *= 0x85EBCA6B
    return (mixed >> 24).astype(np.uint8)


def next_slot(precision: int, key: bytes, earlier: np.ndarray, previous: np.ndarray, u: int) -> np.ndarray:
    """Slot u from its parents, [n, n] bytes each."""
    x = network(earlier, key, u) if precision == NETWORK else earlier.view(np.int8)
    y = field(previous, u) if precision == FIELD else previous.view(np.int8)
    return product(x, y, u)


class Work:
    """One share: the slots in memory, and the roots of the passes."""

    def __init__(self, challenge: Challenge, share: Share) -> None:
        self.challenge = challenge
        self.share = share
        self.slots = np.empty((share.count, challenge.n, challenge.n), np.uint8)
        self.lines_per_slot = challenge.n**2 // LINE_BYTES
        self.roots: list[bytes] = []
        self.started_s = self.ended_s = 0.0
        self.iteration = -1  # the one whose slots, digests and trees these are
        self.digests: list[bytes] = []
        self.trees: dict[int, Tree] = {}

    def pass_key(self, iteration: int) -> bytes:
        before = self.roots[iteration - 1] if iteration else ZERO_ROOT
        return derive("assay v1 pass key", self.challenge.work_key(), self.share.device_id, u32(iteration), before)

    def fill(self, iteration: int, tick: Callable[[], None]) -> bytes:
        """Computes a pass in place of the one in memory, and gives its root. `tick` is called for each slot."""
        key, n = self.pass_key(iteration), self.challenge.n
        self.iteration, self.digests, self.trees = -1, [], {}
        for u in range(self.share.count):
            if u < 2:
                leaf = keystream(key, self.share.offset + u, n * n // 64)
                self.slots[u] = leaf.view(np.uint8).reshape(n, n)
            else:
                earlier, previous = (self.slots[slot] for slot in parents(key, u))
                self.slots[u] = next_slot(self.challenge.precision, key, earlier, previous, u)
            self.digests.append(blake3(self.slots[u]).digest())
            tick()
        self.iteration = iteration
        return blake3(b"".join(self.digests)).digest()

    def run(self, tick: Callable[[], None]) -> None:
        """All iterations, each from the root of the one before."""
        self.started_s = time.monotonic()
        for iteration in range(self.challenge.iterations):
            self.roots.append(self.fill(iteration, tick))
        self.ended_s = time.monotonic()

    def hold(self, iteration: int, tick: Callable[[], None]) -> None:
        """Computes an iteration again unless it is the one in memory."""
        if self.iteration != iteration and self.fill(iteration, tick) != self.roots[iteration]:
            raise Stop("DEVICE_LOST", f"iteration {iteration} came out differently the second time")

    def checksum(self) -> bytes:
        return sha256(b"assay v1 device checksum", self.share.encoded(), *self.roots)

    def tree(self, u: int) -> Tree:
        if u not in self.trees:
            self.trees[u] = Tree(self.slots[u])
        return self.trees[u]


# ---- WORK.md, Commitment ---------------------------------------------------------------------------------------------


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def checksum_of(challenge: Challenge, works: list[Work]) -> bytes:
    return sha256(b"assay v1 checksum", challenge.challenge_id, challenge.nonce, *(work.checksum() for work in works))


def commitment_message(challenge: Challenge, checksum: bytes) -> bytes:
    return b"assay v1 commitment" + challenge.work_key() + checksum


# ---- WORK.md, Residency probe ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    seed: bytes
    walks: int
    steps: int
    rounds: int

    def wrong_field(self) -> str | None:
        rules = {
            "probe_seed": len(self.seed) == 32,
            "walks": 64 <= self.walks <= 1 << 22 and self.walks & (self.walks - 1) == 0,
            "steps": 1 <= self.steps <= 1024,
            "rounds": 1 <= self.rounds <= 65536,
        }
        return next((field for field, holds in rules.items() if not holds), None)

    def sizes(self) -> bytes:
        return u32(self.walks) + u32(self.steps) + u32(self.rounds)


SHIFTS = np.arange(0, 32, 2, dtype=WORD)[:, None]  # 2k
BACK_SHIFTS = (32 - SHIFTS) % 32


class Walks:
    """The walks of a probe over one share's slots, and the digests of its rounds."""

    def __init__(self, probe: Probe, work: Work) -> None:
        self.probe = probe
        self.work = work
        self.key = derive(
            "assay v1 probe key",
            probe.seed + work.challenge.work_key() + work.share.device_id + work.roots[-1] + probe.sizes(),
        )
        self.digests: list[bytes] = []

    def walk(self, round_: int, watched: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """out[round] as [W, 64] bytes, and the places of the lines that the watched walks read, [T, watched].

        A place counts lines of 64 bytes over all slots of the share. The round before must have been walked.
        """
        before = self.digests[round_ - 1] if round_ else ZERO_ROOT
        key = derive("assay v1 probe round", self.key, u32(round_), before)
        state = np.ascontiguousarray(keystream(key, 0, self.probe.walks).T)  # a column for each walk
        lines = self.work.slots.reshape(-1, LINE_BYTES).view(WORD)
        count, lines_per_slot = np.uint64(self.work.share.count), np.uint64(self.work.lines_per_slot)
        places = []
        for _ in range(self.probe.steps):
            a = np.bitwise_xor.reduce(state << SHIFTS | state >> BACK_SHIFTS, axis=0).astype(np.uint64)
            b = state.sum(axis=0, dtype=WORD).astype(np.uint64)
            place = (a * count >> 32) * lines_per_slot + (b * lines_per_slot >> 32)
            places.append(place[watched])
            t = state ^ lines[place].T
            t *= 0x9E3779B1
            t ^= t >> 15
            state = t * 0x85EBCA6B
            state += np.roll(t << 7 | t >> 25, -1, axis=0)
        return np.ascontiguousarray(state.T).view(np.uint8), np.array(places)

    def run(self, tick: Callable[[], None]) -> None:
        for round_ in range(self.probe.rounds):
            self.digests.append(blake3(self.walk(round_, [])[0].data).digest())
            tick()


def probe_checksum(challenge: Challenge, probe: Probe, walks: list[Walks]) -> bytes:
    devices = (walk.work.share.device_id + b"".join(walk.digests) for walk in walks)
    return sha256(b"assay v1 probe checksum", challenge.challenge_id, probe.seed, *devices)


def probe_message(challenge: Challenge, probe: Probe, commitment: bytes, checksum: bytes) -> bytes:
    return b"assay v1 probe" + challenge.work_key() + commitment + probe.seed + probe.sizes() + checksum


# ---- WORK.md, Sweep --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    seed: bytes
    rounds: int

    def wrong_field(self) -> str | None:
        rules = {"sweep_seed": len(self.seed) == 32, "rounds": 1 <= self.rounds <= 65536}
        return next((field for field, holds in rules.items() if not holds), None)


class Sums:
    """The sums of a sweep over one share's slots, and the digests of its rounds."""

    def __init__(self, sweep: Sweep, work: Work) -> None:
        self.sweep = sweep
        self.work = work
        self.key = derive(
            "assay v1 sweep key",
            sweep.seed + work.challenge.work_key() + work.share.device_id + work.roots[-1] + u32(sweep.rounds),
        )
        self.digests: list[bytes] = []

    def round_key(self, round_: int) -> bytes:
        before = self.digests[round_ - 1] if round_ else ZERO_ROOT
        return derive("assay v1 sweep round", self.key, u32(round_), before)

    def weights(self, round_: int) -> np.ndarray:
        """z, [n] int8. The round before must have been summed."""
        return keystream(self.round_key(round_), 0, self.work.challenge.n // 64).view(np.int8).reshape(-1)

    def sum(self, round_: int) -> np.ndarray:
        """sums[round], zeros included: 4096 bytes at least, as a share has 3 slots or more of 256 rows or more.

        |y| is at most 2^29, so that int32 is exact.
        """
        n, z = self.work.challenge.n, self.weights(round_).astype(np.int32)
        sums = np.zeros(1 << (self.work.share.count * n - 1).bit_length(), "<i4")
        for u, slot in enumerate(self.work.slots):
            sums[u * n : (u + 1) * n] = slot.view(np.int8).astype(np.int32) @ z
        return sums

    def run(self, tick: Callable[[], None]) -> None:
        for round_ in range(self.sweep.rounds):
            self.digests.append(blake3(self.sum(round_).tobytes()).digest())
            tick()


def sweep_checksum(challenge: Challenge, sweep: Sweep, sums: list[Sums]) -> bytes:
    devices = (device.work.share.device_id + b"".join(device.digests) for device in sums)
    return sha256(b"assay v1 sweep checksum", challenge.challenge_id, sweep.seed, *devices)


def sweep_message(challenge: Challenge, sweep: Sweep, commitment: bytes, checksum: bytes) -> bytes:
    return b"assay v1 sweep" + challenge.work_key() + commitment + sweep.seed + u32(sweep.rounds) + checksum


# ---- WORK.md, Audit and Openings -------------------------------------------------------------------------------------

# BLAKE3, section 2: the initial value, the permutation of message words, the flags.
INITIAL = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], WORD
)
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, PARENT = 1, 2, 4


def compress(value: np.ndarray, block: np.ndarray, counter: Any, flags: int) -> np.ndarray:
    """BLAKE3's compression of full blocks, one a lane: value [8, lanes], block [16, lanes], to [8, lanes]."""
    state = np.empty((4, 4, block.shape[1]), WORD)
    state[0:2] = value.reshape(2, 4, -1)
    state[2] = INITIAL[:4, None]
    state[3, 0], state[3, 1], state[3, 2], state[3, 3] = counter, 0, 64, flags
    for round_ in range(7):
        double_round(state, (16, 20, 24, 25), block)
        if round_ < 6:
            block = block[PERMUTATION]
    return (state[0:2] ^ state[2:4]).reshape(8, -1)


class Tree:
    """The chaining values of a BLAKE3 tree over a power of two of chunks, for openings."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data.reshape(-1).view(np.uint8)
        words = np.ascontiguousarray(self.data.view(WORD).reshape(-1, 16, 16).transpose(1, 2, 0))
        chunks = words.shape[2]
        value = np.repeat(INITIAL[:, None], chunks, axis=1)
        for i, block in enumerate(words):
            flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END if i == 15 else 0)
            value = compress(value, block, np.arange(chunks, dtype=WORD), flags)
        self.levels = [value]  # [8, nodes] each, chunks first, ending with the root's two children
        while self.levels[-1].shape[1] > 2:
            value = self.levels[-1]
            block = np.concatenate([value[:, 0::2], value[:, 1::2]])
            start = np.repeat(INITIAL[:, None], block.shape[1], axis=1)
            self.levels.append(compress(start, block, 0, PARENT))

    def open(self, slot: int, byte: int, length: int) -> Any:
        """The aligned range of `length` bytes that holds `byte`, with its siblings, lowest first."""
        first = byte - byte % length
        level = (length // CHUNK_BYTES).bit_length() - 1
        siblings = b"".join(
            nodes[:, (first // CHUNK_BYTES >> level + i) ^ 1].tobytes() for i, nodes in enumerate(self.levels[level:])
        )
        data = self.data[first : first + length].tobytes()
        return work_pb.OpenedRange(slot=slot, first_byte=first, bytes=data, siblings=siblings)


def is_convolution(challenge: Challenge, u: int) -> bool:
    return challenge.precision == NETWORK and u % 3 == 0


def pieces(n: int, row: int) -> list[int]:
    """The first bytes of the 16 pieces of n/4 bytes behind a row of a convolution, in the order of their openings."""
    height, width, _ = image_shape(n)
    down, right = divmod(row, width // 4)
    at = [((4 * down + d) % height, (right + e) % (width // 4)) for d in range(8) for e in range(2)]
    return [(y * (width // 4) + x) * (n // 4) for y, x in at]


def pooled_factor(n: int, row: int, inner: int) -> tuple[int, int]:
    """The element of slot `earlier`, as (row, column), that is checked for the factor x[inner] of a convolution."""
    height, width, channels = image_shape(n)
    down, right = divmod(row, width // 4)
    pixel, h = divmod(inner, channels)
    i, j = divmod(pixel, 4)
    y, x = (2 * down + i) % (height // 2), (2 * right + j) % (width // 2)
    return divmod(((2 * y + i // 2) * width + 2 * x + j // 2) * channels + h, n)


def rows_of(challenge: Challenge, key: bytes, sample: Any) -> list[tuple[int, int, bool]]:
    """The 3, 5 or 7 rows behind a product's sample, as (slot, row, whether pieces are opened in its place)."""
    u, row, column, inner = sample.slot, sample.row, sample.factors.column, sample.factors.inner
    earlier, previous = parents(key, u)
    rows = [(u, row, False), (earlier, row, is_convolution(challenge, u)), (previous, column, False)]
    of_x = pooled_factor(challenge.n, row, inner) if is_convolution(challenge, u) else (row, inner)
    for factor, (line, place) in ((earlier, of_x), (previous, (column, inner))):
        if factor >= 2:
            its_earlier, its_previous = parents(key, factor)
            rows += [(its_earlier, line, is_convolution(challenge, factor)), (its_previous, place, False)]
    return rows


def open_sample(work: Work, sample: Any) -> Any:
    """What answers a sample of the iteration in memory."""
    n, count = work.challenge.n, work.share.count
    u, row, factors = sample.slot, sample.row, sample.factors
    is_product = sample.HasField("factors")
    if not (u < count and row < n and is_product == (u >= 2) and factors.column < n and factors.inner < n):
        raise Stop("INVALID", "a sample outside the pass")
    opened = work_pb.SampleOpenings(sample=sample)
    rows = [(u, row, False)]
    if is_product:
        rows = rows_of(work.challenge, work.pass_key(work.iteration), sample)
        opened.parents.earlier, opened.parents.previous = rows[1][0], rows[2][0]
    for slot, line, in_pieces in rows:
        length = max(n // 4 if in_pieces else n, CHUNK_BYTES)
        places = pieces(n, line) if in_pieces else [line * n]
        opened.openings.extend(work.tree(slot).open(slot, byte, length) for byte in places)
    return opened


def open_segments(walks: Walks, segments: list[Any]) -> list[Any]:
    """What answers segments, in their order; each round is walked again once."""
    probe, work = walks.probe, walks.work
    if any(segment.round >= probe.rounds or segment.walk >= probe.walks for segment in segments):
        raise Stop("INVALID", "a segment outside the probe")
    opened: list[Any] = [None] * len(segments)
    for round_ in sorted({segment.round for segment in segments}):
        mine = [i for i, segment in enumerate(segments) if segment.round == round_]
        out, places = walks.walk(round_, [segments[i].walk for i in mine])
        states = Tree(out)
        for column, i in enumerate(mine):
            lines = []
            for place in places[:, column].tolist():
                slot, line = divmod(place, work.lines_per_slot)
                lines.append(work.tree(slot).open(slot, line * LINE_BYTES, CHUNK_BYTES))
            state = states.open(0, segments[i].walk * LINE_BYTES, CHUNK_BYTES)
            opened[i] = work_pb.SegmentOpenings(segment=segments[i], state=state, lines=lines)
    return opened


def open_sums(sums: Sums, samples: list[Any]) -> list[Any]:
    """What answers samples of a sweep, in their order; each round is summed again once."""
    work, n = sums.work, sums.work.challenge.n
    if any(s.round >= sums.sweep.rounds or s.slot >= work.share.count or s.row >= n for s in samples):
        raise Stop("INVALID", "a sample outside the sweep")
    opened: list[Any] = [None] * len(samples)
    for round_ in sorted({sample.round for sample in samples}):
        tree = Tree(sums.sum(round_))
        for i, sample in enumerate(samples):
            if sample.round == round_:
                sum_ = tree.open(0, 4 * (sample.slot * n + sample.row), CHUNK_BYTES)
                row = work.tree(sample.slot).open(sample.slot, sample.row * n, max(n, CHUNK_BYTES))
                opened[i] = work_pb.SumOpenings(sample=sample, sum=sum_, range=row)
    return opened


# ---- PROTOCOL.md, A challenge ----------------------------------------------------------------------------------------


class Stop(Exception):
    """Why this miner declines or aborts: the name of a stop code, and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = session_pb.StopCode.Value(f"STOP_CODE_{code}")
        self.detail = detail


class Ended(Exception):
    """The challenge or its session is over: nothing is to be sent any more."""


class State(enum.Enum):
    """The miner's states of PROTOCOL.md while a challenge runs."""

    WORKING = enum.auto()
    COMMITTED = enum.auto()
    PROBING = enum.auto()
    ANSWERED = enum.auto()
    OPENING = enum.auto()
    OPENED = enum.auto()


# Where a message about the challenge can come; `Running.broken_rule` refuses it in some of these. Elsewhere it ends the
# session.
TAKEN_IN = {
    "probe": (State.COMMITTED, State.ANSWERED),
    "sweep": (State.WORKING, State.COMMITTED, State.PROBING, State.ANSWERED),
    "open": (State.ANSWERED,),
}


class Running:
    """A challenge that was taken. It computes in a thread of its own, so that pings are answered meanwhile."""

    def __init__(self, session: Session, challenge: Challenge, previous: threading.Thread | None) -> None:
        self.session = session
        self.challenge = challenge
        self.works: list[Work] = []
        self.state = State.WORKING
        self.swept = False  # whether a Sweep was taken
        self.over = threading.Event()  # set when the verdict came, or the session ended
        self.inbox: queue.Queue[Any] = queue.Queue(maxsize=2)  # the Probe, the Sweep, the Open
        self.done_slots, self.told_s = 0, time.monotonic()
        self.thread = threading.Thread(target=self.run, args=(previous,), daemon=True)
        self.thread.start()

    def run(self, previous: threading.Thread | None) -> None:
        try:
            if previous:
                previous.join()  # it stops at its next slot, and frees its memory
            self.works = [Work(self.challenge, share) for share in self.challenge.shares]
            checksum = self.commit()
            walks = self.probe(checksum, self.receive())
            sums: list[Sums] = []
            asked = self.receive()
            if self.swept:
                sums, asked = self.sweep(checksum, asked), self.receive()
            self.open(walks, sums, asked)
        except Ended:
            pass
        except Stop as stop:
            self.abort(stop)
        except MemoryError:
            self.abort(Stop("NOT_ENOUGH_MEMORY", "allocation failed"))
        except Exception as error:  # whatever else is wrong, the validator must not wait for it
            self.abort(Stop("INTERNAL", f"{type(error).__name__}"))
            raise

    def take(self, kind: str, message: Any) -> None:
        """Hands a Probe, Sweep or Open to the thread, or ends the challenge by a rule that it breaks."""
        if self.state not in TAKEN_IN[kind]:
            raise Broken(f"{kind} while {self.state.name.lower()}")
        if rule := self.broken_rule(kind, message):
            self.abort(Stop("INVALID", f"the {kind} breaks the rule {rule}"))
            return
        self.state = State.OPENING if kind == "open" else State.PROBING
        self.swept = self.swept or kind == "sweep"
        self.inbox.put(message)

    def broken_rule(self, kind: str, message: Any) -> str | None:
        """The first rule of WORK.md that a Probe or a Sweep breaks: of its fields, then of its place."""
        if kind == "probe":
            wrong = Probe(message.seed, message.walks, message.steps, message.rounds).wrong_field()
            return wrong or ("link" if message.link or self.state != State.COMMITTED else None)
        if kind == "sweep":
            wrong = Sweep(message.seed, message.rounds).wrong_field()
            return wrong or ("sweep" if self.swept or self.state != State.ANSWERED else None)
        return None

    def abort(self, stop: Stop) -> None:
        say(f"abort: {stop}")
        self.session.forget(self)
        self.over.set()
        abort = session_pb.Abort(challenge_id=self.challenge.challenge_id, code=stop.code, detail=stop.detail)
        with suppress(Ended):
            self.session.send(abort=abort)

    def check(self) -> None:
        if self.over.is_set():
            raise Ended

    def tick(self) -> None:
        """After each slot of the work."""
        self.check()
        self.done_slots += 1
        if time.monotonic() - self.told_s >= PROGRESS_INTERVAL_S:
            self.told_s = time.monotonic()
            all_slots = self.challenge.iterations * sum(share.count for share in self.challenge.shares)
            self.send(progress=session_pb.Progress(done_slots=self.done_slots, all_slots=all_slots))

    def send(self, **part: Any) -> None:
        self.check()
        for message in part.values():
            message.challenge_id = self.challenge.challenge_id
        self.session.send(**part)

    def receive(self) -> Any:
        """The Probe, the Sweep or the Open, when it comes."""
        while True:
            self.check()
            try:
                return self.inbox.get(timeout=0.1)
            except queue.Empty:
                continue

    def commit(self) -> bytes:
        started_s = time.monotonic()
        for work in self.works:
            work.run(self.tick)
        checksum = checksum_of(self.challenge, self.works)
        signature = self.session.key.sign(commitment_message(self.challenge, checksum))
        self.state = State.COMMITTED
        self.send(commitment=work_pb.Commitment(checksum=checksum, signature=signature, claimed_ms=ms_since(started_s)))
        for work in self.works:
            share = work_pb.Share(device_id=work.share.device_id, offset=work.share.offset, count=work.share.count)
            claimed_ms = round(1000 * (work.ended_s - work.started_s))
            roots = b"".join(work.roots)
            device_roots = work_pb.DeviceRoots(
                share=share, roots=roots, checksum=work.checksum(), claimed_ms=claimed_ms
            )
            self.send(device_roots=device_roots)
        return checksum

    def probe(self, commitment: bytes, asked: Any) -> list[Walks]:
        started_s = time.monotonic()
        probe = Probe(asked.seed, asked.walks, asked.steps, asked.rounds)
        walks = [Walks(probe, work) for work in self.works]
        for device in walks:
            device.run(self.check)
        checksum = probe_checksum(self.challenge, probe, walks)
        self.answer(walks, checksum, probe_message(self.challenge, probe, commitment, checksum), ms_since(started_s))
        return walks

    def sweep(self, commitment: bytes, asked: Any) -> list[Sums]:
        started_s = time.monotonic()
        sweep = Sweep(asked.seed, asked.rounds)
        sums = [Sums(sweep, work) for work in self.works]
        for device in sums:
            device.run(self.check)
        checksum = sweep_checksum(self.challenge, sweep, sums)
        self.answer(sums, checksum, sweep_message(self.challenge, sweep, commitment, checksum), ms_since(started_s))
        return sums

    def answer(self, devices: Sequence[Walks | Sums], checksum: bytes, message: bytes, claimed_ms: int) -> None:
        """The answer to a probe or a sweep, and the digests behind it."""
        signature = self.session.key.sign(message)
        self.state = State.ANSWERED
        self.send(probe_answer=work_pb.ProbeAnswer(checksum=checksum, signature=signature, claimed_ms=claimed_ms))
        for device in devices:
            device_id, digests = device.work.share.device_id, b"".join(device.digests)
            self.send(device_digests=work_pb.DeviceDigests(device_id=device_id, digests=digests, claimed_ms=claimed_ms))

    def open(self, walks: list[Walks], sums: list[Sums], asked: Any) -> None:
        devices = {device.work.share.device_id: device for device in walks}
        swept = {device.work.share.device_id: device for device in sums}
        for i, item in enumerate(asked.items):
            if item.device_id not in devices or not item.WhichOneof("what"):
                raise Stop("INVALID", "an item of no device, or of nothing")
            self.open_item(i, item, devices[item.device_id], swept.get(item.device_id))
            if i == len(asked.items) - 1:
                self.state = State.OPENED
            self.send(openings_chunk=work_pb.OpeningsChunk(item=i, end=work_pb.ItemEnd()))

    def open_item(self, i: int, item: Any, device: Walks, sums: Sums | None) -> None:
        """One item of the Open, but for its end."""
        if item.HasField("linked_segments") or (item.HasField("sums") and sums is None):
            raise Stop("INVALID", "an item of a linked probe or a sweep that was not sent")
        work, last = device.work, self.challenge.iterations - 1
        iteration = item.samples.iteration if item.HasField("samples") else last
        if iteration > last:
            raise Stop("INVALID", "an iteration that is none")
        work.hold(iteration, self.check)
        for first in range(0, work.share.count, DIGESTS_PER_MESSAGE):
            digests = b"".join(work.digests[first : first + DIGESTS_PER_MESSAGE])
            self.send(openings_chunk=work_pb.OpeningsChunk(item=i, slot_digests=digests))
        for sample in item.samples.samples:
            self.send(openings_chunk=work_pb.OpeningsChunk(item=i, sample=open_sample(work, sample)))
        for segment in open_segments(device, list(item.segments.segments)):
            self.send(openings_chunk=work_pb.OpeningsChunk(item=i, segment=segment))
        for sum_ in open_sums(sums, list(item.sums.samples)) if sums else []:
            self.send(openings_chunk=work_pb.OpeningsChunk(item=i, sum=sum_))


# ---- PROTOCOL.md, Handshake, Connected, How things end ---------------------------------------------------------------


def transcript(
    version: int, validator_key: bytes, miner_key: bytes, nonce: bytes, miner_nonce: bytes, channel: bytes
) -> bytes:
    """T of the handshake, which both sides sign behind a name."""
    return u32(version) + validator_key + miner_key + nonce + miner_nonce + channel


class Over(Exception):
    """The session is over. `pause_s` is the wait before the next one; None: that of PROTOCOL.md, Dialling again."""

    def __init__(self, reason: str, pause_s: float | None = None, stop: bool = False) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.stop = stop


class Broken(Exception):
    """The validator broke the protocol."""


class Session:
    """One call of SessionService.Session, from Hello to its end. `run` reads, in the thread that calls it."""

    def __init__(self, arguments: argparse.Namespace, key: Ed25519PrivateKey, stopping: threading.Event) -> None:
        self.arguments = arguments
        self.key = key
        self.public_key = key.public_key().public_bytes_raw()
        self.stopping = stopping
        self.inventory = self.describe()
        self.outbox: queue.Queue[Any] = queue.Queue(OUTBOX_MESSAGES)
        self.over = threading.Event()
        self.running: Running | None = None
        self.last_thread: threading.Thread | None = None
        self.validator_key = b""
        self.heard_s = time.monotonic()
        self.patience_s = HANDSHAKE_TIMEOUT_S

    def slots(self, n: int) -> int:
        """How many slots of n by n each device offers."""
        offered: int = self.arguments.slots * self.arguments.n_max**2 // n**2
        return min(offered, MAX_MATRICES) if n in SIZES and n <= self.arguments.n_max else 0

    def describe(self) -> Any:
        """The inventory: so many CPU devices, which have their ids from the key, so that these stay the same."""
        ids = sorted(sha256(b"device", self.public_key, u32(i))[:16] for i in range(self.arguments.devices))
        memory_bytes = self.arguments.slots * self.arguments.n_max**2
        device = work_pb.Device(name="CPU, NumPy", backend="cpu", detail=f"NumPy {np.__version__}")
        device.total_bytes = device.free_bytes = memory_bytes
        device.slots.extend(self.slots(n) for n in SIZES)
        device.precisions.extend(OFFERED)
        inventory = work_pb.Inventory(sequence=0, sweeps=True)
        for device_id in ids:
            device.device_id = device_id
            inventory.devices.append(device)
        return inventory

    # -- out

    def requests(self) -> Iterator[Any]:
        """What grpcio sends; its end half-closes the call."""
        while not self.over.is_set():
            try:
                message = self.outbox.get(timeout=0.5)
            except queue.Empty:
                continue
            if message is None:
                return
            yield message

    def send(self, **part: Any) -> None:
        """Queues a message, and waits while the network is slower than the answers."""
        self.put(session_pb.SessionRequest(**part))

    def put(self, message: Any) -> None:
        while self.call.is_active():
            with suppress(queue.Full):
                return self.outbox.put(message, timeout=0.1)
        raise Ended

    def leave(self, code: str, detail: str) -> None:
        """Goodbye, then half-close."""
        say(f"goodbye: {code}: {detail}")
        self.send(goodbye=session_pb.Goodbye(code=session_pb.StopCode.Value(f"STOP_CODE_{code}"), detail=detail))
        self.put(None)

    # -- in

    def run(self) -> None:
        """Holds the session until it ends, which is always an `Over`."""
        with grpc.insecure_channel(self.arguments.validator) as channel:
            self.call = session_rpc.SessionServiceStub(channel).Session(self.requests())
            threading.Thread(target=self.watch, daemon=True).start()
            try:
                self.handshake()
                while True:
                    self.take(self.receive())
            except Broken as error:
                with suppress(Ended, grpc.RpcError):
                    self.leave("INVALID", str(error))
                    for _ in self.call:
                        pass  # the validator ends its half
                raise Over(f"the validator broke the protocol: {error}") from None
            except Ended:
                raise Over("the connection broke") from None
            except grpc.RpcError as error:
                raise Over(f"{error.code().name}: {error.details()}") from None
            finally:
                self.over.set()
                self.call.cancel()
                if self.running:
                    self.running.over.set()

    def watch(self) -> None:
        """Ends the session where the validator is silent for too long, and where this program is to stop."""
        stop_s: float | None = None
        left = False
        while not self.over.wait(0.1):
            now_s = time.monotonic()
            if now_s - self.heard_s > self.patience_s:
                say("the validator is silent")
                self.call.cancel()
                return
            if self.stopping.is_set() and not left:
                stop_s = stop_s or now_s + self.arguments.drain_timeout_s
                if not self.running or now_s > stop_s:
                    left = True
                    with suppress(Ended):
                        self.leave("DRAINING", "the miner shuts down")

    def receive(self) -> Any:
        """The next message of the validator that is not the last one."""
        response = next(self.call, None)
        self.heard_s = time.monotonic()
        if response is None:
            raise Over("the validator ended the session")
        kind = response.WhichOneof("message")
        if kind is None:
            raise Broken("a message of no kind")
        message = getattr(response, kind)
        if kind == "refused":
            code = name_of(session_pb.RefusedCode, message.code)
            pause_s = message.retry_after_ms / 1000 * random.uniform(1, 1.25)
            stop = code in ("VERSION", "NOT_ALLOWED", "SIGNATURE", "JOIN_TOKEN")
            raise Over(f"refused: {code}: {message.detail}", pause_s or None, stop)
        if kind == "goodbye":
            code = name_of(session_pb.StopCode, message.code)
            raise Over(f"goodbye: {code}: {message.detail}", BUSY_PAUSE_S if code == "BUSY" else None)
        return kind, message

    def expect(self, expected: str) -> Any:
        kind, message = self.receive()
        if kind != expected:
            raise Broken(f"{kind} in place of {expected}")
        return message

    def join_token(self) -> str:
        """The join token, which plaintext carries to this machine alone. Its file may go once it was used."""
        path: Path | None = self.arguments.join_token_file
        is_here = self.arguments.validator.rpartition(":")[0] in ("127.0.0.1", "[::1]", "localhost")
        return path.read_text().strip() if path and is_here and path.exists() else ""

    def handshake(self) -> None:
        miner_nonce = os.urandom(32)
        self.send(
            hello=session_pb.Hello(
                versions=[VERSION],
                miner_key=self.public_key,
                miner_nonce=miner_nonce,
                agent="assay examples/miner.py",
                inventory=self.inventory,
            )
        )
        welcome = self.expect("welcome")
        parts = (welcome.validator_key, self.public_key, welcome.nonce, miner_nonce, PLAINTEXT)
        both = transcript(welcome.version, *parts)
        pinned = self.arguments.validator_key
        if pinned and welcome.validator_key != pinned:
            raise Over(f"not the configured validator, but {welcome.validator_key.hex()}")
        if welcome.version != VERSION or len(welcome.nonce) != 32:
            raise Broken("a welcome of another form")
        if not signature_holds(welcome.validator_key, welcome.signature, b"assay v1 welcome" + both):
            raise Broken("the signature of the welcome does not hold for this plaintext connection")
        # The token only now: the welcome shows whose connection this is.
        signature = self.key.sign(b"assay v1 session" + both)
        self.send(proof=session_pb.Proof(signature=signature, join_token=self.join_token()))
        accepted = self.expect("accepted")
        self.validator_key = welcome.validator_key
        self.patience_s = 4 * accepted.ping_interval_ms / 1000
        say(f"connected to {self.arguments.validator}, validator {self.validator_key.hex()}")

    def take(self, received: tuple[str, Any]) -> None:
        """Answers a message, by the table of the miner's states."""
        kind, message = received
        running = self.running
        is_this = running is not None and getattr(message, "challenge_id", None) == running.challenge.challenge_id
        if kind == "ping":
            self.send(pong=session_pb.Pong(sequence=message.sequence))
        elif kind == "challenge":
            self.take_or_decline(message)
        elif kind == "verdict":
            say(told(message))
            if running and is_this:
                self.forget(running)
                running.over.set()
        elif kind in TAKEN_IN:
            if running and is_this:
                running.take(kind, message)
        else:
            raise Broken(f"{kind} after the handshake")

    def forget(self, running: Running) -> None:
        """The session has no challenge any more; what comes about this one is dropped."""
        if self.running is running:
            self.running = None

    def take_or_decline(self, asked: Any) -> None:
        if len(asked.challenge_id) != 16 or len(asked.nonce) != 32:
            raise Broken("a challenge of another form")
        try:
            challenge = self.plan(asked)
            self.running = Running(self, challenge, self.last_thread)
            self.last_thread = self.running.thread
            sizes = f"n = {asked.n}, {asked.total} slots, iterations: {asked.iterations}"
            say(f"challenge {asked.challenge_id.hex()}: {sizes}")
        except Stop as stop:
            say(f"declined: {stop}")
            self.send(declined=session_pb.Declined(challenge_id=asked.challenge_id, code=stop.code, detail=stop.detail))

    def plan(self, asked: Any) -> Challenge:
        """The challenge with its shares, or why not, in the order of PROTOCOL.md."""
        if self.stopping.is_set():
            raise Stop("DRAINING", "the miner shuts down")
        if self.running:
            raise Stop("BUSY", "a challenge runs")
        if asked.inventory_sequence != self.inventory.sequence:
            raise Stop("STALE_INVENTORY", f"the last inventory is {self.inventory.sequence}")
        if asked.precision in PRECISIONS and asked.precision not in OFFERED:
            raise Stop("UNSUPPORTED", f"precision {asked.precision}")
        slots = self.slots(asked.n)
        taking_part = self.inventory.devices if slots >= max(1, asked.min_slots) else []
        weights = {device.device_id: slots for device in taking_part}
        challenge = Challenge(
            version=asked.version,
            challenge_id=asked.challenge_id,
            nonce=asked.nonce,
            validator_key=self.validator_key,
            miner_key=self.public_key,
            precision=asked.precision,
            n=asked.n,
            iterations=asked.iterations,
            shares=split(asked.total, weights) if weights else (),
        )
        if rule := challenge.broken_rule():
            raise Stop("INVALID", f"the challenge breaks the rule {rule}")
        if any(share.count > slots for share in challenge.shares):
            raise Stop("NOT_ENOUGH_MEMORY", "a share is larger than its device")
        return challenge


# ---- The program -----------------------------------------------------------------------------------------------------


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def ms_since(started_s: float) -> int:
    return round(1000 * (time.monotonic() - started_s))


def name_of(codes: Any, code: int) -> str:
    """BUSY for STOP_CODE_BUSY; later versions may have codes that are unknown here."""
    names = {number: name for name, number in codes.items()}
    prefix = names[0].removesuffix("UNSPECIFIED")
    return names[code].removeprefix(prefix) if code in names else str(code)


def told(verdict: Any) -> str:
    """A verdict as text."""
    outcome = name_of(verdict_pb.Outcome, verdict.outcome).lower()
    whole = verdict.whole
    reasons = [f"  {reason.code} ({getattr(reason, 'class')}): {reason.detail}" for reason in verdict.reasons]
    lines = [
        f"verdict on {verdict.challenge_id.hex()}: {outcome}",
        f"  work  {whole.seconds:.3f} s, {whole.matrices} slots, n = {verdict.n}, {whole.tops:.4f} TOPS",
        f"  probe {whole.probe_seconds:.3f} s, {whole.probe_gb_per_s:.3f} GB/s",
    ]
    return "\n".join(lines + reasons)


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """The RFC 8032 private key, 32 bytes in hexadecimal."""
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(os.urandom(32).hex() + "\n")
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))


def serve(arguments: argparse.Namespace, key: Ed25519PrivateKey, stopping: threading.Event) -> int:
    """Dials again after each session, until this program is to stop."""
    pause_s = FIRST_PAUSE_S
    while not stopping.is_set():
        started_s = time.monotonic()
        try:
            Session(arguments, key, stopping).run()
        except Over as over:
            say(str(over))
            if over.stop:
                return 1
            if time.monotonic() - started_s > LONG_SESSION_S:
                pause_s = FIRST_PAUSE_S
            stopping.wait(max(over.pause_s or 0, pause_s * random.uniform(0.5, 1)))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--validator", default="127.0.0.1:7400", help="address of the validator")
    parser.add_argument("--validator-key", type=bytes.fromhex, help="the only validator to prove anything to")
    parser.add_argument("--key-file", type=Path, required=True, help="secret key, created on first use")
    parser.add_argument("--join-token-file", type=Path, help="join token, for a validator that takes new miners by one")
    parser.add_argument("--slots", type=int, default=16, help="slots of the largest n that each device offers")
    parser.add_argument("--n-max", type=int, default=512, choices=SIZES, help="the largest n")
    parser.add_argument("--devices", type=int, default=1, help="how many devices to show; they compute in turn")
    parser.add_argument("--drain-timeout-s", type=float, default=30, help="for the challenge that runs at SIGTERM")
    arguments = parser.parse_args()
    key = load_or_create_key(arguments.key_file)
    say(f"miner {key.public_key().public_bytes_raw().hex()}")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return serve(arguments, key, stopping)


if __name__ == "__main__":
    sys.exit(main())
