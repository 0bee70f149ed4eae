//! Modules, which the driver compiles from PTX, and their functions.

use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUjit_option, CUmodule};

use super::{Context, Stream, call};
use crate::error::Fault;

/// Bytes of each of the two logs of a compilation. The driver cuts a longer one.
const LOG_BYTES: usize = 16 << 10;
/// Lines of the driver's error log that an error quotes.
const MAX_QUOTED_LINES: usize = 4;
/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`: as much of the on-chip memory as can be shared memory, in percent.
const MAX_CARVEOUT_PERCENT: i32 = 100;

#[derive(Debug)]
pub(in super::super) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the handle may be used from any thread that has bound the context.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for Module {}

impl Module {
    /// Has the driver compile PTX, or find an earlier compilation. The context is bound. A refused module does not lose
    /// the context. The driver's log is in the error, else in our log at level debug; it is empty where the driver
    /// finds the module in its cache.
    pub(in super::super) fn new(context: &Arc<Context>, name: &str, ptx: &str) -> Result<Arc<Self>, Fault> {
        let doing = format!("compiling {name}");
        let Ok(image) = CString::new(ptx) else {
            return Err(Fault { code: 0, name: "a zero byte in the PTX".into(), doing });
        };
        let mut raw = std::ptr::null_mut();
        let mut log = JitLog::new();
        let (mut options, mut values) = log.options();
        // SAFETY: the image is PTX ended by a zero; each option has a value, and both buffers the size that is said.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut raw,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        tracing::debug!(module = name, info = %log.info(), error = %log.error(), "log of the driver's compiler");
        let loaded = call(result, &doing).map_err(|fault| log.quoted_in(fault));
        if let Err(fault) = &loaded
            && !fault.is_of_module()
        {
            context.check(loaded.clone())?;
        }
        loaded.map(|()| Arc::new(Self { context: context.clone(), raw }))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.context.is_lost() && self.context.bind().is_ok() {
            // SAFETY: loaded once; its functions hold it, so that none is left.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

/// The driver's compiler report of one module: registers and spills of each kernel, serialised instructions, errors.
struct JitLog {
    info: Vec<u8>,
    error: Vec<u8>,
}

impl JitLog {
    fn new() -> Self {
        // One byte more than the length given to the driver, so that a zero ends it in any case.
        Self { info: vec![0; LOG_BYTES + 1], error: vec![0; LOG_BYTES + 1] }
    }

    /// The options of a compilation and their values: pointers, or numbers in place of pointers (cuda.h, CUjit_option).
    fn options(&mut self) -> ([CUjit_option; 5], [*mut c_void; 5]) {
        let number = std::ptr::without_provenance_mut;
        let options = [
            (CUjit_option::CU_JIT_INFO_LOG_BUFFER, self.info.as_mut_ptr().cast()),
            (CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, number(LOG_BYTES)),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER, self.error.as_mut_ptr().cast()),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, number(LOG_BYTES)),
            (CUjit_option::CU_JIT_LOG_VERBOSE, number(1)),
        ];
        (options.map(|(option, _)| option), options.map(|(_, value)| value))
    }

    fn info(&self) -> String {
        lines(&self.info, usize::MAX)
    }

    fn error(&self) -> String {
        lines(&self.error, usize::MAX)
    }

    /// The fault with the first lines of the error log.
    fn quoted_in(&self, mut fault: Fault) -> Fault {
        let error = lines(&self.error, MAX_QUOTED_LINES);
        if !error.is_empty() {
            fault.doing = format!("{}: {error}", fault.doing);
        }
        fault
    }
}

/// The lines of a text that ends with the first zero, as one line.
fn lines(text: &[u8], max: usize) -> String {
    let text = CStr::from_bytes_until_nul(text).map(CStr::to_string_lossy).unwrap_or_default();
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(max).collect();
    lines.join("; ")
}

#[derive(Debug)]
pub(in super::super) struct Function {
    module: Arc<Module>,
    raw: CUfunction,
    name: &'static str,
}

// SAFETY: the handle may be used from any thread that has bound the context.
unsafe impl Send for Function {}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Launch {
    /// Blocks, in one dimension.
    pub(in super::super) grid: u32,
    pub(in super::super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(in super::super) shared_bytes: u32,
}

impl Function {
    /// Finds a kernel of a module.
    pub(in super::super) fn new(module: &Arc<Module>, name: &'static str) -> Result<Self, Fault> {
        let symbol = CString::new(name).unwrap_or_default();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded; the name is ended by a zero.
        let result = unsafe { sys::cuModuleGetFunction(&raw mut raw, module.raw, symbol.as_ptr()) };
        call(result, &format!("looking for {name}"))?;
        Ok(Self { module: module.clone(), raw, name })
    }

    /// Lets it take this much dynamic shared memory, which is refused where the device has less.
    pub(in super::super) fn allow_shared_bytes(&self, bytes: u32) -> Result<(), Fault> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is of a loaded module.
        let result = unsafe { sys::cuFuncSetAttribute(self.raw, which, bytes as i32) };
        call(result, &format!("giving {} {bytes} bytes of shared memory", self.name))
    }

    /// Asks for the largest shared memory of a multiprocessor while this runs. The driver sizes it for one kernel at a time, and
    /// leaves no room for another one unless asked. A refusal costs speed only.
    pub(in super::super) fn prefer_shared_memory(&self) {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is of a loaded module.
        let result = unsafe { sys::cuFuncSetAttribute(self.raw, which, MAX_CARVEOUT_PERCENT) };
        if let Err(fault) = call(result, &format!("asking for shared memory for {}", self.name)) {
            tracing::warn!(%fault, "digests may not run beside products");
        }
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// Each argument points to a value of the type that the kernel's parameter has, in order, with no parameter
    /// missing; the memory that the kernel then reads and writes is of this context and lives until the stream is done
    /// with it.
    pub(in super::super) unsafe fn launch(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let result = unsafe {
            sys::cuLaunchKernel(
                self.raw,
                launch.grid,
                1,
                1,
                launch.threads,
                1,
                1,
                launch.shared_bytes,
                stream.raw(),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        debug_assert!(std::ptr::eq(stream.context(), &raw const *self.module.context), "one context");
        stream.context().check(call(result, &format!("launching {}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(error: &str) -> JitLog {
        let mut log = JitLog::new();
        log.error[..error.len()].copy_from_slice(error.as_bytes());
        log
    }

    fn quoted(error: &str) -> String {
        let fault = Fault { code: 218, name: "CUDA_ERROR_INVALID_PTX".into(), doing: "compiling x".into() };
        log(error).quoted_in(fault).to_string()
    }

    #[test]
    fn an_error_quotes_the_first_lines_of_the_drivers_log() {
        assert_eq!(quoted(""), "CUDA_ERROR_INVALID_PTX (218) while compiling x");
        assert_eq!(quoted("a\n\n  b\n"), "CUDA_ERROR_INVALID_PTX (218) while compiling x: a; b");
        assert!(quoted("1\n2\n3\n4\n5").ends_with("x: 1; 2; 3; 4"));
    }

    #[test]
    fn a_log_that_fills_its_buffer_is_read_to_its_end() {
        assert_eq!(log(&"x".repeat(LOG_BYTES)).error().len(), LOG_BYTES);
    }
}
