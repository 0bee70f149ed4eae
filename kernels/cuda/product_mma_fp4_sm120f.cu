// E2M1 by mma.sync.m16n8k64 kind::mxf4, all block scales 1, summed in FP32: Blackwell without tcgen05 (product_mma.cuh). A
// byte of a slot is two operands as it stands, each half of WORK.md's: sums are a quarter, and stay below 2^22.
#include "product_mma.cuh"

namespace product_mma_fp4_sm120f {

struct Arithmetic {
    using Sum = float;
    static constexpr bool drains = true;
    static constexpr int step = 2;
    static constexpr uint32_t scales_of_one = 0x7F7F;  // UE8M0, of both halves of a row
    static __device__ __forceinline__ void multiply(Sum (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
        ptx::mma_m16n8k64_e2m1(sums, left, right, scales_of_one);
    }
};

}  // namespace product_mma_fp4_sm120f

extern "C" __global__ void __launch_bounds__(product_mma::threads, 1)
assay_product_mma_fp4_sm120f(const __grid_constant__ assay::Product product) {
    product_mma::run<product_mma_fp4_sm120f::Arithmetic>(product);
}

ASSAY_PRODUCT(assay_product_mma_fp4_sm120f, product_mma::threads, product_mma::shared_bytes, product_mma::tile_rows,
              product_mma::tile_columns);
