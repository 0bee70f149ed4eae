// E4M3 by mma.sync.m16n8k32, summed in FP32: Blackwell without tcgen05. Ada and Hopper run it too, and give wrong sums of
// 14 bits (product_mma.cuh).
#include "product_mma.cuh"

namespace product_mma_fp8_sm120 {

struct Arithmetic {
    using Sum = float;
    static constexpr bool drains = true;
    static __device__ __forceinline__ void multiply(Sum (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
        ptx::mma_m16n8k32_e4m3(sums, left, right);
    }
};

}  // namespace product_mma_fp8_sm120

extern "C" __global__ void __launch_bounds__(product_mma::threads, 1)
assay_product_mma_fp8_sm120(const __grid_constant__ assay::Product product) {
    product_mma::run<product_mma_fp8_sm120::Arithmetic>(product);
}

ASSAY_PRODUCT(assay_product_mma_fp8_sm120, product_mma::threads, product_mma::shared_bytes, product_mma::tile_rows,
              product_mma::tile_columns);
