// E2M1 by tcgen05.mma kind::mxf4, all scales 1, summed in FP32: data-centre Blackwell (product_tcgen05.cuh). A byte of a
// slot is two operands as it stands, each half of WORK.md's: sums are a quarter. The scales leave tensor memory no room for
// a second tile's sums.
#include "product_tcgen05.cuh"

namespace product_tcgen05_fp4_sm100f {

struct Arithmetic {
    static constexpr unsigned buffers = 1, step = 2;
    static constexpr bool drains = true, has_scales = true;
    static __device__ __forceinline__ void multiply(uint32_t sums, uint64_t left, uint64_t right, bool accumulate, uint32_t scales) {
        constexpr uint32_t e2m1 = 1;
        ptx::tensor_multiply_mxf4(sums, left, right, product_tcgen05::scaled_instruction(e2m1), accumulate, scales,
                                  scales + product_tcgen05::left_scale_columns);
    }
};

}  // namespace product_tcgen05_fp4_sm100f

extern "C" __global__ void __launch_bounds__(product_tcgen05::threads, 1)
assay_product_tcgen05_fp4_sm100f(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right,
                                 const __grid_constant__ assay::Product product) {
    product_tcgen05::run<product_tcgen05_fp4_sm100f::Arithmetic>(left, right, product);
}

ASSAY_PRODUCT(assay_product_tcgen05_fp4_sm100f, product_tcgen05::threads, product_tcgen05::shared_bytes, product_tcgen05::tile_rows,
              product_tcgen05::tile_columns);
