"""The kernels, what each is compiled for, and what its machine code must have."""

from dataclasses import dataclass

# Every target that the committed PTX is assembled for.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")

# The oldest supported driver, and the newest PTX that it reads.
OLDEST_DRIVER = "R525 (CUDA 12.0)"
NEWEST_PTX = "8.0"


@dataclass(frozen=True)
class Driver:
    """A supported driver branch by the assembler that it has inside."""

    name: str
    # CUDA's version of that assembler: assemblers/VERSION.txt pins it.
    cuda: str
    # Those of TARGETS that it knows.
    targets: tuple
    # The newest PTX that it reads.
    ptx: str

    def __str__(self):
        return f"{self.name} (CUDA {self.cuda})"


_UP_TO_HOPPER = TARGETS[:5]
# The branches that hosts have, oldest first. The newest assembler, of toolchain.txt, knows all of TARGETS.
DRIVERS = (
    Driver("R525", "12.0", _UP_TO_HOPPER, "8.0"),
    Driver("R535", "12.2", _UP_TO_HOPPER, "8.2"),
    Driver("R550", "12.4", _UP_TO_HOPPER, "8.4"),
    Driver("R570", "12.8", (*_UP_TO_HOPPER, "sm_100a", "sm_120a"), "8.7"),
    Driver("R580", "13.0", TARGETS, "9.0"),
)


@dataclass(frozen=True)
class Source:
    """One file of kernels/cuda."""

    name: str
    # The virtual architecture that nvcc compiles for: PTX for it runs on this one and all later ones, unless its
    # name ends in "a", which is for that one alone, or in "f", which is for its family.
    architecture: str
    # Targets that it can be loaded on.
    targets: tuple
    # Instructions that the machine code must have: without them a product runs, on a far slower path.
    instructions: tuple = ()
    # Instructions and how many there must be, with every assembler: as many waits, fences and wgmma as in the source.
    # An assembler that serialises wgmma adds waits.
    counts: tuple = ()
    # The newest version of PTX that it may need. What needs one newer than the oldest driver reads is for GPUs that came
    # after that driver.
    ptx: str = NEWEST_PTX


def _from(target):
    return TARGETS[TARGETS.index(target):]


SOURCES = (
    Source("keystream", "compute_75", TARGETS),
    Source("digest", "compute_75", TARGETS),
    Source("probe", "compute_75", TARGETS),
    Source("expand", "compute_75", TARGETS),
    Source("field", "compute_75", TARGETS, instructions=("IMAD.WIDE.U32.X",)),
    Source("network", "compute_75", TARGETS),
    Source("sweep", "compute_75", TARGETS, instructions=("IDP.4A",)),
    Source("product_dp4a", "compute_75", TARGETS, instructions=("IDP.4A",)),
    Source("product_mma_sm75", "compute_75", TARGETS, instructions=("IMMA",)),
    Source("product_mma_f16_sm75", "compute_75", TARGETS, instructions=("HMMA",)),
    Source("product_mma_sm80", "compute_80", _from("sm_80"), instructions=("IMMA", "LDGSTS", "LDSM")),
    Source("product_mma_bf16_sm80", "compute_80", _from("sm_80"), instructions=("HMMA", "LDGSTS", "LDSM")),
    Source("product_mma_fp4_sm120f", "compute_120f", ("sm_120a",), instructions=("OMMA.SF", "LDGSTS", "LDSM"), ptx="8.8"),
    Source("product_wgmma_sm90a", "compute_90a", ("sm_90a",), instructions=("UTMALDG",),
           counts=(("WARPGROUP.DEPBAR", 2), ("WARPGROUP.ARRIVE", 2), ("IGMMA", 8))),
    Source("product_wgmma_bf16_sm90a", "compute_90a", ("sm_90a",), instructions=("UTMALDG",),
           counts=(("WARPGROUP.DEPBAR", 2), ("WARPGROUP.ARRIVE", 2), ("HGMMA", 8))),
    Source("product_tcgen05_int8_sm100a", "compute_100a", ("sm_100a",), instructions=("UTMALDG",),
           counts=(("UTCIMMA", 4), ("UTCBAR", 2), ("LDTM.x32", 1)), ptx="8.6"),
    *(Source(f"product_tcgen05_{name}_sm100f", "compute_100f", ("sm_100a", "sm_103a"), instructions=("UTMALDG",),
             counts=((multiply, 4), ("UTCBAR", 2), ("LDTM.x32", 1), ("STTM.x16", scales)), ptx="8.8")
      for name, multiply, scales in (("bf16", "UTCHMMA", 0), ("fp8", "UTCQMMA", 0), ("fp4", "UTCOMMA", 1))),
)
