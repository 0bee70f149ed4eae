// INT8 by mma.sync.m16n8k32: Ampere and later (product_mma.cuh).
#include "product_mma.cuh"

namespace product_mma_sm80 {

struct Arithmetic {
    using Sum = int32_t;
    static constexpr bool drains = false;
    static constexpr int step = 0;
    static __device__ __forceinline__ void multiply(Sum (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
        ptx::mma_m16n8k32(sums, left, right);
    }
};

}  // namespace product_mma_sm80

extern "C" __global__ void __launch_bounds__(product_mma::threads, 1)
assay_product_mma_sm80(const __grid_constant__ assay::Product product) {
    product_mma::run<product_mma_sm80::Arithmetic>(product);
}

ASSAY_PRODUCT(assay_product_mma_sm80, product_mma::threads, product_mma::shared_bytes, product_mma::tile_rows,
              product_mma::tile_columns);
