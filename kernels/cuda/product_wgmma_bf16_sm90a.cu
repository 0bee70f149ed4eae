// BF16 by wgmma.m64n256k16, summed in FP32: Hopper (product_wgmma.cuh).
#include "product_wgmma.cuh"

namespace product_wgmma_bf16_sm90a {

struct Arithmetic {
    using Sum = float;
    static constexpr bool drains = true;
    static __device__ __forceinline__ void multiply(Sum (&sums)[128], uint64_t left, uint64_t right, bool accumulate) {
        ptx::wgmma_m64n256k16_bf16(sums, left, right, accumulate);
    }
};

}  // namespace product_wgmma_bf16_sm90a

extern "C" __global__ void __launch_bounds__(product_wgmma::threads, 1)
assay_product_wgmma_bf16_sm90a(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right,
                               const __grid_constant__ assay::Product product) {
    product_wgmma::run<product_wgmma_bf16_sm90a::Arithmetic>(left, right, product);
}

ASSAY_PRODUCT(assay_product_wgmma_bf16_sm90a, product_wgmma::threads, product_wgmma::shared_bytes, product_wgmma::tile_rows,
              product_wgmma::tile_columns);
