//! Modules, which the driver compiles from PTX, and their functions.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule};

use super::{Context, Stream, call};
use crate::error::Fault;

/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`: as much of the on-chip memory as can be shared memory, in percent.
const MAX_CARVEOUT_PERCENT: i32 = 100;

/// Compiled PTX.
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
    /// Has the driver compile PTX, or find what it compiled before. The context is bound. A refused module does not
    /// lose the context.
    pub(in super::super) fn new(context: &Arc<Context>, name: &str, ptx: &str) -> Result<Arc<Self>, Fault> {
        let doing = format!("compiling {name}");
        let Ok(image) = CString::new(ptx) else {
            return Err(Fault { code: 0, name: "a zero byte in the PTX".into(), doing });
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is PTX ended by a zero; there are no options.
        let result = unsafe {
            sys::cuModuleLoadDataEx(&raw mut raw, image.as_ptr().cast(), 0, std::ptr::null_mut(), std::ptr::null_mut())
        };
        let loaded = call(result, &doing);
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

/// A kernel.
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
    /// Threads of a block.
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

    /// Asks for the largest shared memory of a multiprocessor while this runs. A hint, which the driver may ignore.
    pub(in super::super) fn prefer_shared_memory(&self) -> Result<(), Fault> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is of a loaded module.
        let result = unsafe { sys::cuFuncSetAttribute(self.raw, which, MAX_CARVEOUT_PERCENT) };
        call(result, &format!("asking for shared memory for {}", self.name))
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// Each argument points to a value of the type that the kernel's parameter has, in order, none missing; what the
    /// kernel then reads and writes is memory of this context that lives until the stream is done with it.
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
