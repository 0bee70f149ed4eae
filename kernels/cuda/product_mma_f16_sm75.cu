// FP16 by mma.sync.m16n8k8, summed in FP32: Turing (product_turing.cuh).
#include "product_turing.cuh"

namespace product_mma_f16_sm75 {

struct Arithmetic {
    using Sum = float;
    static constexpr bool drains = true;
    static __device__ __forceinline__ void multiply(Sum (&a)[2], Sum (&b)[2], Sum (&c)[2], Sum (&d)[2], const uint32_t (&rows)[4], uint32_t columns) {
        ptx::mma_m16n8k8_f16(a, b, rows[0], rows[1], columns);
        ptx::mma_m16n8k8_f16(c, d, rows[2], rows[3], columns);
    }
};

}  // namespace product_mma_f16_sm75

extern "C" __global__ void __launch_bounds__(product_turing::threads, 1)
assay_product_mma_f16_sm75(const __grid_constant__ assay::Product product) {
    product_turing::run<product_mma_f16_sm75::Arithmetic>(product);
}

ASSAY_PRODUCT(assay_product_mma_f16_sm75, product_turing::threads, product_turing::shared_bytes, product_turing::tile_rows,
              product_turing::tile_columns);
