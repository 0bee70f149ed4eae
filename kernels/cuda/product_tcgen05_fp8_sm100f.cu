// E4M3 by tcgen05.mma kind::f8f6f4, summed in FP32: data-centre Blackwell (product_tcgen05.cuh).
#include "product_tcgen05.cuh"

namespace product_tcgen05_fp8_sm100f {

struct Arithmetic {
    static constexpr unsigned buffers = 2, step = 0;
    static constexpr bool drains = true, has_scales = false;
    static __device__ __forceinline__ void multiply(uint32_t sums, uint64_t left, uint64_t right, bool accumulate, uint32_t) {
        constexpr uint32_t e4m3 = 0;
        ptx::tensor_multiply_e4m3(sums, left, right, product_tcgen05::instruction(product_tcgen05::fp32_sums, e4m3), accumulate);
    }
};

}  // namespace product_tcgen05_fp8_sm100f

extern "C" __global__ void __launch_bounds__(product_tcgen05::threads, 1)
assay_product_tcgen05_fp8_sm100f(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right,
                                 const __grid_constant__ assay::Product product) {
    product_tcgen05::run<product_tcgen05_fp8_sm100f::Arithmetic>(left, right, product);
}

ASSAY_PRODUCT(assay_product_tcgen05_fp8_sm100f, product_tcgen05::threads, product_tcgen05::shared_bytes, product_tcgen05::tile_rows,
              product_tcgen05::tile_columns);
