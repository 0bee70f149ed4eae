"""Which kernels there are, what each is compiled for, and what its machine code must hold."""

from dataclasses import dataclass

# Every target that the committed PTX is assembled for.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")

# The newest PTX that driver R525 (CUDA 12.0) reads, the oldest driver supported.
OLDEST_DRIVER = "R525 (CUDA 12.0)"
NEWEST_PTX = "8.0"
# What its own assembler knows of TARGETS.
OLDEST_DRIVER_TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")


@dataclass(frozen=True)
class Source:
    """One file of kernels/cuda."""

    name: str
    # The virtual architecture that nvcc compiles for: PTX for it runs on this one and all later ones, unless its
    # name ends in "a", which is for that one alone.
    architecture: str
    # Targets that it can be loaded on.
    targets: tuple
    # Instructions that the machine code must hold: without them a product runs, on a far slower path.
    instructions: tuple = ()


def _from(target):
    return TARGETS[TARGETS.index(target):]


SOURCES = (
    Source("keystream", "compute_75", TARGETS),
    Source("digest", "compute_75", TARGETS),
    Source("probe", "compute_75", TARGETS),
    Source("product_dp4a", "compute_75", TARGETS, instructions=("IDP.4A",)),
    Source("product_mma_sm75", "compute_75", TARGETS, instructions=("IMMA",)),
    Source("product_mma_sm80", "compute_80", _from("sm_80"), instructions=("IMMA", "LDGSTS", "LDSM")),
    Source("product_wgmma_sm90a", "compute_90a", ("sm_90a",), instructions=("IGMMA", "UTMALDG", "USETMAXREG")),
)
