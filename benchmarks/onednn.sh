#!/bin/sh
# Measures the fused product of the CPU backend next to oneDNN's GEMM alone, in the same run.
# Needs g++ and oneDNN (Debian: libdnnl-dev). Arguments go to the bench: benchmarks/onednn.sh --n 2048
set -eu
cd "$(dirname "$0")/.."
mkdir -p benchmarks/.cache
g++ -O2 -std=c++17 -fopenmp benchmarks/onednn.cpp -o benchmarks/.cache/onednn -ldnnl
ASSAY_PEER="$PWD/benchmarks/.cache/onednn" exec cargo bench -p assay-bench --bench cpu -- products "$@"
