// oneDNN's s8·s8→s32 GEMM, answering `n threads` lines with Gop/s: the peer that benchmarks/onednn.sh runs.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <dnnl.h>
#include <omp.h>

// Operations of one measurement: some tenths of a second on a fast machine.
static constexpr double OPERATIONS = 2e11;

int main() {
    long n;
    int threads;
    while (std::scanf("%ld %d", &n, &threads) == 2) {
        omp_set_num_threads(threads);
        std::vector<int8_t> x(n * n), y(n * n);
        std::vector<int32_t> c(n * n);
        uint64_t seed = 88172645463325252ULL;
        auto fill = [&](std::vector<int8_t> &matrix) {
            for (auto &element : matrix) {
                seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
                element = int8_t(seed >> 24);
            }
        };
        fill(x), fill(y);
        const int32_t zero = 0;
        // X · Yᵀ, all row-major, as the work asks for.
        auto gemm = [&] {
            return dnnl_gemm_s8s8s32('N', 'T', 'F', n, n, n, 1.0f, x.data(), n, 0, y.data(), n, 0, 0.0f, c.data(), n, &zero);
        };
        const double volume = 2.0 * n * n * n;
        const int times = OPERATIONS > volume ? int(OPERATIONS / volume) : 1;
        if (gemm() != dnnl_success) return 1;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < times; i++) gemm();
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        std::printf("%.1f\n", volume * times / seconds.count() / 1e9);
        std::fflush(stdout);
    }
}
