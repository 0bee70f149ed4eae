"""Where cuBLASLt is: the peer that products are compared with."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

NAME = "libcublasLt.so*"
# Folders of toolkits and distributions.
USUAL = [
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/opt/cuda*/lib64",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
]
# Where pip puts it, below site-packages.
PACKAGES = ["nvidia/*/lib", "torch/lib", "cupy/.data/lib"]


def folders() -> list:
    """The folders that hold it, that of the newest major version first."""
    found = {}
    for pattern in patterns():
        for path in glob.glob(os.path.join(pattern, NAME)):
            version = re.search(r"\.so\.(\d+)", os.path.realpath(path))
            folder = os.path.dirname(path)
            found[folder] = max(found.get(folder, 0), int(version.group(1)) if version else 0)
    return sorted(found, key=lambda folder: -found[folder])


def patterns() -> list:
    """Where to look, in the order of trust: what the user set, the loader, Python's packages, toolkits."""
    asked = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        if name in os.environ:
            asked += [os.path.join(os.environ[name], below) for below in ("lib64", "lib", "targets/*/lib")]
    packages = [os.path.join(glob.escape(site), below) for site in sites() for below in PACKAGES]
    return [folder for folder in [*asked, *loader(), *packages, *USUAL] if folder]


def loader() -> list:
    """The folders in which the loader's cache has it."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed = subprocess.run([program, "-p"], text=True, capture_output=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return sorted({os.path.dirname(path) for path in re.findall(r"libcublasLt\.so\S* .*=> (\S+)", listed)})


def sites() -> list:
    """Folders of packages: of this interpreter, and of those on the path."""
    found = [*sys.path, *sysconfig.get_paths().values()]
    for name in ("python3", "python"):
        program = shutil.which(name)
        if program and pathlib.Path(program).resolve() != pathlib.Path(sys.executable).resolve():
            found += paths_of(program)
    return sorted({path for path in found if path and os.path.isdir(path)})


def paths_of(program: str) -> list:
    """Where another interpreter looks for packages."""
    command = [program, "-c", "import sys; print('\\n'.join(sys.path))"]
    try:
        return subprocess.run(command, text=True, capture_output=True, timeout=20).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
