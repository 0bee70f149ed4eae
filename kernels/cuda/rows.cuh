// 64-byte rows, one a lane, between a lane's registers and global memory. A lane that reads or writes its
// own row by itself touches 16 bytes of 32 different rows at once; here four neighbours share a row, so
// that every access is to whole 64-byte runs, and the rows change hands in shared memory.
//
// A warp's rows lie there as [32 rows][4 pieces of 16 bytes]. A piece is stored at its place XOR bits 1-2
// of the row: eight lanes that touch eight rows then use all 32 banks once.
#pragma once
#include "device.cuh"

namespace assay {

constexpr unsigned row_bytes = 64;
constexpr unsigned row_pieces = row_bytes / 16;
constexpr unsigned warp_rows = 32;
/// uint4s of shared memory that each warp needs.
constexpr unsigned warp_pieces = warp_rows * row_pieces;

__device__ __forceinline__ unsigned place_of(unsigned row, unsigned piece) {
    return row * row_pieces + (piece ^ (row >> 1 & 3));
}

/// Writes the warp's rows, `words` being this lane's, to `to`, one after the other; the first `rows` only.
__device__ __forceinline__ void write_rows(uint8_t* to, unsigned rows, uint4* staging, const uint32_t (&words)[16]) {
    const unsigned lane = threadIdx.x % warp_rows;
#pragma unroll
    for (unsigned p = 0; p < row_pieces; ++p)
        ptx::store_shared(staging + place_of(lane, p),
                          uint4{words[4 * p], words[4 * p + 1], words[4 * p + 2], words[4 * p + 3]});
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < row_pieces; ++i) {
        const unsigned row = i * (warp_rows / row_pieces) + lane / row_pieces, piece = lane % row_pieces;
        if (row < rows) ptx::store_global_16(to + row * row_bytes + piece * 16, ptx::load_shared(staging + place_of(row, piece)));
    }
}

/// Starts to read: row r of the warp begins at `from + r · pitch_bytes`; the first `rows` only.
__device__ __forceinline__ void fetch_rows(uint4 (&pieces)[row_pieces], const uint8_t* from, unsigned pitch_bytes, unsigned rows) {
    const unsigned lane = threadIdx.x % warp_rows;
#pragma unroll
    for (unsigned i = 0; i < row_pieces; ++i) {
        const unsigned row = i * (warp_rows / row_pieces) + lane / row_pieces;
        if (row < rows) pieces[i] = ptx::load_global_16(from + row * pitch_bytes + lane % row_pieces * 16);
    }
}

/// Hands the words that the warp has fetched to the lanes: `words` becomes this lane's row.
__device__ __forceinline__ void deal_rows(const uint4 (&pieces)[row_pieces], uint4* staging, uint32_t (&words)[16]) {
    const unsigned lane = threadIdx.x % warp_rows;
    __syncwarp();  // the rows dealt before have been taken
#pragma unroll
    for (unsigned i = 0; i < row_pieces; ++i) {
        const unsigned row = i * (warp_rows / row_pieces) + lane / row_pieces;
        ptx::store_shared(staging + place_of(row, lane % row_pieces), pieces[i]);
    }
    __syncwarp();
#pragma unroll
    for (unsigned p = 0; p < row_pieces; ++p) {
        const uint4 piece = ptx::load_shared(staging + place_of(lane, p));
        words[4 * p] = piece.x;
        words[4 * p + 1] = piece.y;
        words[4 * p + 2] = piece.z;
        words[4 * p + 3] = piece.w;
    }
}

}  // namespace assay
