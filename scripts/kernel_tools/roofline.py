"""What each kernel can reach on paper: a model from tile sizes, counted instructions and the vendor's figures.

A model: docs/measured.md has what GPUs gave. The assumptions stand in docs/KERNELS.md above the tables that this writes.
"""

from dataclasses import dataclass

SIZES = (1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Device:
    """A GPU by its vendor's figures (data sheets and architecture white papers)."""

    name: str
    multiprocessors: int
    clock_ghz: float       # at which the vendor's peak holds
    memory_gb_per_s: int
    l2_mib: int
    integer_lanes: int     # 32-bit logic, shifts and additions for each clock and multiprocessor
    resident_threads: int  # of a multiprocessor
    family: str = ""       # the product that it runs, if its rate is known
    macs: int = 0          # multiply-accumulates of that family for each clock and multiprocessor


DEVICES = (
    Device("T4", 40, 1.59, 320, 4, 64, 1024, "mma_sm75", 1024),
    Device("A100 SXM", 108, 1.41, 2039, 40, 64, 2048, "mma_sm80", 2048),
    Device("L40S", 142, 2.52, 864, 96, 64, 1536, "mma_sm80", 1024),
    Device("RTX 4090", 128, 2.52, 1008, 72, 64, 1536, "mma_sm80", 1024),
    Device("RTX 5090", 170, 2.41, 1792, 96, 128, 1536, "mma_sm80", 1024),
    Device("H200 SXM", 132, 1.83, 4800, 50, 64, 2048, "wgmma_sm90a", 4096),
    Device("B200", 148, 1.85, 8000, 126, 64, 2048, "tcgen05_int8_sm100a", 8192),
)
DP4A_MACS = 256


@dataclass(frozen=True)
class Family:
    """A product by its tile."""

    rows: int
    columns: int
    # Rows and columns of what one warp (wgmma: one warpgroup) multiplies: it reads both from shared memory.
    part_rows: int
    part_columns: int
    blocks: int         # of a multiprocessor
    start_clocks: int   # until a block's first operands are there; 0 where they are fetched during the tile before
    mixes_aside: bool = False  # while the next tile is multiplied
    hashers: int = 0    # warps of a multiprocessor that hash meanwhile, each in a quarter of it (beside.cuh)

    def clocks(self, device, n):
        """Clocks of one tile on one multiprocessor: multiplying, reading and writing shared memory, mixing."""
        elements = self.rows * self.columns
        multiply = elements * n / device.macs
        shared = (self.rows + self.columns + elements / self.part_rows + elements / self.part_columns) * n / SHARED_BYTES
        mix = elements * MIX_INTEGER / device.integer_lanes
        return multiply, shared, mix


SHARED_BYTES = 128  # of shared memory for each clock, on every multiprocessor since Turing
BAND_TILES = 16     # tiles.cuh
FAMILIES = {
    "mma_sm75": Family(128, 128, 32, 64, 2, 1000),
    "mma_sm80": Family(128, 256, 64, 64, 1, 1500),
    "wgmma_sm90a": Family(128, 256, 64, 256, 1, 0, hashers=3),
    "tcgen05_int8_sm100a": Family(128, 256, 128, 256, 1, 0, mixes_aside=True, hashers=3),
}

# Instructions of the integer pipe, counted in the machine code for sm_90a: for each element mixed and stored, for each
# byte. Multiplications and the additions that the assembler turns into them run beside it.
MIX_INTEGER = 4.1
KEYSTREAM_INTEGER = 4.3
DIGEST_INTEGER = 9.3
PROBE_INTEGER = 2.7
# Multiplications of a step of the field, of which each multiprocessor starts 64 a clock: 10 IMAD, and as two each 91
# IMAD.WIDE and 9 IMAD.HI. 73 other instructions run beside them.
FIELD_MULTIPLICATIONS = 210
PROBE_LANES = 4  # threads of one walk, which has one line of 64 bytes under way


def product(device, n):
    """Share of the peak, and of the memory's bandwidth that this needs."""
    family = FAMILIES[device.family]
    multiply, shared, mix = family.clocks(device, n)
    tiles = (n // family.rows) * (n // family.columns)
    at_once = device.multiprocessors * family.blocks
    # Blocks that share a multiprocessor take turns: each then needs as many times as long.
    rounds = -(-tiles // at_once)
    after = mix + family.start_clocks
    tile = max(multiply, shared) + (0 if family.mixes_aside else after / family.blocks)
    # The last tile's mixing has nothing beside it.
    total = rounds * tile * family.blocks + (after if family.mixes_aside else 0)
    share = tiles * multiply / device.multiprocessors / total
    # The right operand comes once for each band, unless the L2 cache keeps it; the left one, and the result, once.
    passes = 1 if 2 * n * n <= device.l2_mib << 20 else max(1, n // (BAND_TILES * family.rows))
    seconds = total / (device.clock_ghz * 1e9)
    return share, n * n * (2 + passes) / seconds / (device.memory_gb_per_s * 1e9)


def peak_tops(device, macs):
    return 2e-3 * macs * device.multiprocessors * device.clock_ghz


def table(header, rows):
    out = ["| " + " | ".join(header) + " |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def percent(value):
    return f"{100 * value:.0f} %"


def intensity_table():
    rows = []
    for device in filter(lambda device: device.family, DEVICES):
        family = FAMILIES[device.family]
        multiply, shared, mix = family.clocks(device, 8192)
        l2_bytes = (family.rows + family.columns) * 8192 / multiply
        rows.append([device.name, f"`{device.family}`", f"{peak_tops(device, device.macs):.0f}", f"{l2_bytes:.0f}",
                     percent(shared / multiply), percent(mix / multiply)])
    return table(["device", "family", "peak, TOPS", "L2, bytes a clock", "shared memory", "mixing, n = 8192"], rows)


def product_table():
    rows = []
    for device in filter(lambda device: device.family, DEVICES):
        model = [product(device, n) for n in SIZES]
        rows.append([device.name] + [f"{percent(share)} / {percent(memory)}" for share, memory in model])
    return table(["device"] + [f"n = {n}" for n in SIZES], rows)


def product_seconds(device, n):
    return 2 * n**3 / (product(device, n)[0] * peak_tops(device, device.macs) * 1e12)


def digest_share(device, digest_gb_per_s, n):
    """Time to hash a slot over the time of its product: at this rate, or by the warps that hash beside a product, if a
    quarter's integer pipe is theirs."""
    hashers = FAMILIES[device.family].hashers * device.multiprocessors
    seconds = n * n / (digest_gb_per_s * 1e9)
    if hashers:
        compression = 64 * DIGEST_INTEGER * 32 / (device.integer_lanes / 4)
        groups = n * n >> 15
        # 16 blocks of a chunk and 5 levels a group; then the last warp's lanes merge their shares, and those.
        merges = max(1, groups // 32) - 1 + 5
        seconds = (-(-groups // hashers) * 21 + merges) * compression / (device.clock_ghz * 1e9)
    return f"{100 * seconds / product_seconds(device, n):.0f}"


def expansion_share(device):
    """Time to write the operands of both factors out, in bytes, over the time of their product, n = 8192."""
    return f"{400 * 8192**2 / (device.memory_gb_per_s * 1e9) / product_seconds(device, 8192):.0f}"


def other_table():
    rows = []
    for device in DEVICES:
        clocks_per_s = device.clock_ghz * device.multiprocessors * device.integer_lanes  # in 10^9
        keystream, digest, probe = (min(clocks_per_s / cost, device.memory_gb_per_s)
                                    for cost in (KEYSTREAM_INTEGER, DIGEST_INTEGER, PROBE_INTEGER))
        under_way = device.multiprocessors * device.resident_threads // PROBE_LANES * 64
        field = 64 / FIELD_MULTIPLICATIONS * device.clock_ghz * device.multiprocessors
        rows.append([device.name, f"{device.memory_gb_per_s}", f"{keystream:.0f}", f"{digest:.0f}",
                     "/".join(digest_share(device, digest, n) for n in (4096, 8192)), expansion_share(device),
                     f"{probe:.0f}", f"{under_way / device.memory_gb_per_s / 1e3:.1f}", f"{peak_tops(device, DP4A_MACS):.0f}", f"{field:.0f}"])
    return table(["device", "memory, GB/s", "leaves, GB/s", "digests, GB/s", "digest / product, %, n = 4096/8192",
                  "operands / product, %", "probe, GB/s",
                  "latency that the probe covers, µs", "`dp4a` peak, TOPS", "field, G steps/s"], rows)
