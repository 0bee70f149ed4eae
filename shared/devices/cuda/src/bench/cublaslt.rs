//! cuBLASLt's product of a kind of work, where that library is: the peer that users compare with.
//!
//! It computes the plain product alone, `D = A · Bᵀ` with sums of 32 bits written to memory, over the same operands, on the
//! same stream. Of the ways that its heuristics propose, each is tried once and the fastest is measured.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use cudarc::cublaslt::result as blas;
use cudarc::cublaslt::sys as lt;

use crate::driver::Stream;
use crate::error::Fault;
use assay_device::DeviceError;
use assay_work::Precision;

/// Memory that cuBLASLt may use besides the matrices.
pub(super) const WORKSPACE_BYTES: u64 = 64 << 20;
/// The most ways to try.
const MOST_WAYS: usize = 16;

/// `CUBLAS_OP_T`, which is in a part of cudarc that needs another library.
static TRANSPOSED: i32 = 1;

/// Every function that is called; cudarc panics for want of one.
const SYMBOLS: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
];

/// Addresses of one product's matrices on the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrices {
    /// `[n, n]` row-major, of the kind's type.
    pub(super) left: u64,
    /// `[n, n]` row-major, of the kind's type.
    pub(super) right: u64,
    /// `[n, n]`, i32 or f32.
    pub(super) result: u64,
    /// [`WORKSPACE_BYTES`] bytes.
    pub(super) workspace: u64,
}

/// The types of a product: of operands, of sums, and of the computation.
type Types = (lt::cudaDataType_t, lt::cudaDataType_t, lt::cublasComputeType_t);

/// The library's types for a kind of work; `None` where it has no product of the same operands.
const fn types(precision: Precision) -> Option<Types> {
    use lt::cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32I};
    use lt::cudaDataType_t::{CUDA_R_8F_E4M3, CUDA_R_8I, CUDA_R_16BF, CUDA_R_32F, CUDA_R_32I};
    match precision {
        Precision::Int8 => Some((CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I)),
        Precision::F16 => Some((CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F)),
        Precision::Fp8 => Some((CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F)),
        // Its FP4 products have scales of 16 operands, which those of WORK.md do not; rules are no products.
        Precision::Fp4 | Precision::Field | Precision::Network => None,
    }
}

/// One as a scalar of the sums' type, and zero, which has the same bits in both.
const fn one(precision: Precision) -> [u8; 4] {
    if matches!(precision, Precision::Int8) { 1_i32.to_ne_bytes() } else { 1_f32.to_ne_bytes() }
}

/// cuBLASLt, set up for one kind of work and matrix size.
#[derive(Debug)]
pub(super) struct CublasLt {
    handle: lt::cublasLtHandle_t,
    operation: lt::cublasLtMatmulDesc_t,
    operand: lt::cublasLtMatrixLayout_t,
    result: lt::cublasLtMatrixLayout_t,
    ways: Vec<lt::cublasLtMatmulHeuristicResult_t>,
    pub(super) best: usize,
    pub(super) precision: Precision,
    pub(super) n: u32,
}

// SAFETY: the handles may be used from any thread, one at a time.
unsafe impl Send for CublasLt {}

impl CublasLt {
    /// The library's version and product for a kind of work, or the reason that it has none.
    pub(super) fn describe(precision: Precision) -> Result<String, String> {
        load()?;
        let product = match precision {
            Precision::Int8 => "INT8 product with int32 results",
            Precision::F16 => "BF16 product with FP32 results",
            Precision::Fp8 => "E4M3 product with FP32 results",
            Precision::Fp4 => return Err("cuBLASLt has no product of FP4 operands without scales".into()),
            Precision::Field | Precision::Network => return Err("its product is that of INT8".into()),
        };
        // SAFETY: the function is there.
        let version = unsafe { lt::cublasLtGetVersion() };
        let file = loaded_file().map_or_else(String::new, |file| format!(" ({file})"));
        Ok(format!("cuBLASLt {version}{file}, {product}, the fastest way that its heuristics propose"))
    }

    /// Sets it up for n-by-n products of a kind; `time` says how long one takes in one of its ways.
    pub(super) fn new(
        precision: Precision,
        n: u32,
        time: impl Fn(&Self, usize) -> Result<Duration, DeviceError>,
    ) -> Result<Self, DeviceError> {
        load().map_err(DeviceError::Unsupported)?;
        let none = || DeviceError::Unsupported(format!("cuBLASLt has no way to multiply {precision} here"));
        let mut peer = Self::set_up(precision, n, types(precision).ok_or_else(none)?).map_err(failed)?;
        peer.ways = peer.propose().map_err(failed)?;
        let mut fastest = None;
        for way in 0..peer.ways.len() {
            // The first run of a way loads its kernel.
            let took = time(&peer, way).and_then(|_| time(&peer, way));
            if let Ok(took) = took
                && fastest.is_none_or(|(least, _)| took < least)
            {
                fastest = Some((took, way));
            }
        }
        peer.best = fastest.ok_or_else(none)?.1;
        Ok(peer)
    }

    fn set_up(precision: Precision, n: u32, (operand, sums, compute): Types) -> Result<Self, blas::CublasError> {
        let (side, pitch) = (u64::from(n), i64::from(n));
        let peer = Self {
            handle: blas::create_handle()?,
            operation: blas::create_matmul_desc(compute, sums)?,
            // The library's matrices are column-major: a row-major one is its transpose.
            operand: blas::create_matrix_layout(operand, side, side, pitch)?,
            result: blas::create_matrix_layout(sums, side, side, pitch)?,
            ways: Vec::new(),
            best: 0,
            precision,
            n,
        };
        let which = lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
        // SAFETY: the description lives, and the attribute has the type that the library expects.
        unsafe {
            blas::set_matmul_desc_attribute(
                peer.operation,
                which,
                (&raw const TRANSPOSED).cast(),
                size_of_val(&TRANSPOSED),
            )
        }?;
        Ok(peer)
    }

    fn propose(&self) -> Result<Vec<lt::cublasLtMatmulHeuristicResult_t>, blas::CublasError> {
        let preference = blas::create_matmul_pref()?;
        let workspace_bytes = WORKSPACE_BYTES as usize;
        let which = lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let mut ways = Vec::with_capacity(MOST_WAYS);
        let mut count = 0;
        // SAFETY: everything handed over lives; the library writes at most as many ways as there is room for, and says
        // how many.
        let found = unsafe {
            let bytes = (&raw const workspace_bytes).cast();
            let set = blas::set_matmul_pref_attribute(preference, which, bytes, size_of::<usize>());
            set.and_then(|()| {
                lt::cublasLtMatmulAlgoGetHeuristic(
                    self.handle,
                    self.operation,
                    self.operand,
                    self.operand,
                    self.result,
                    self.result,
                    preference,
                    MOST_WAYS as i32,
                    ways.as_mut_ptr(),
                    &raw mut count,
                )
                .result()
            })
        };
        // SAFETY: made above, destroyed once.
        let _ = unsafe { blas::destroy_matmul_pref(preference) };
        found?;
        let count = usize::try_from(count).unwrap_or(0).min(MOST_WAYS);
        // SAFETY: the library has written so many.
        unsafe { ways.set_len(count) };
        Ok(ways)
    }

    /// Enqueues one product.
    ///
    /// # Safety
    /// The matrices are memory of the stream's context, as large as their fields say, until the stream is done.
    pub(super) unsafe fn multiply(&self, stream: &Stream, way: usize, matrices: &Matrices) -> Result<(), Fault> {
        let (one, zero) = (one(self.precision), [0_u8; 4]);
        // SAFETY: the caller's promise; scalars are read before the call returns.
        let result = unsafe {
            blas::matmul(
                self.handle,
                self.operation,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                matrices.left as *const c_void,
                self.operand,
                matrices.right as *const c_void,
                self.operand,
                matrices.result as *const c_void,
                self.result,
                matrices.result as *mut c_void,
                self.result,
                &raw const self.ways[way].algo,
                matrices.workspace as *mut c_void,
                WORKSPACE_BYTES as usize,
                stream.handle().cast(),
            )
        };
        result.map_err(|error| Fault { code: 0, name: error.to_string(), doing: "multiplying with cuBLASLt".into() })
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: each was made once and is destroyed once; nothing else has them.
        unsafe {
            let _ = blas::destroy_matrix_layout(self.operand);
            let _ = blas::destroy_matrix_layout(self.result);
            let _ = blas::destroy_matmul_desc(self.operation);
            let _ = blas::destroy_handle(self.handle);
        }
    }
}

/// Sees that the library and all that is called in it are there.
fn load() -> Result<(), String> {
    // SAFETY: only loads the library by its names.
    if !unsafe { lt::is_culib_present() } {
        return Err("cuBLASLt is not on this machine; with its folder in LD_LIBRARY_PATH it is measured too".into());
    }
    for symbol in SYMBOLS {
        // SAFETY: the library is present, so that this cannot panic; the address is not used.
        if unsafe { lt::culib().get::<*const c_char>(symbol.as_bytes()) }.is_err() {
            return Err(format!("cuBLASLt lacks {symbol}: it is too old"));
        }
    }
    Ok(())
}

/// The file that the library was loaded from, where the system says.
fn loaded_file() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|f| f.contains("libcublasLt"))
        .map(str::to_owned)
}

fn failed(error: blas::CublasError) -> DeviceError {
    DeviceError::Unsupported(format!("cuBLASLt: {error}"))
}
