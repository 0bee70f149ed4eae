//! A device that is another one, but for the answers that a test replaces.

use std::time::Duration;

use assay_device::copies::Area;
use assay_device::{Device, DeviceError, DeviceInfo, Handle, Pass, ProbeRound, SweepRound};
use assay_work::{Digest, Precision};

type Fill<D> = Box<dyn FnMut(&mut D, &Pass, &Handle) -> Result<Vec<Digest>, DeviceError> + Send>;
type RoundFn<D> = Box<dyn FnMut(&mut D, &ProbeRound, &Handle) -> Result<Digest, DeviceError> + Send>;
type States<D> = Box<dyn FnMut(&mut D) -> Result<Vec<u8>, DeviceError> + Send>;
type ReadFn<D> = Box<dyn FnMut(&mut D, u32, u64, &mut [u8]) -> Result<(), DeviceError> + Send>;
type Distrust<D> = Box<dyn FnMut(&mut D, &DeviceError) + Send>;
type Values<D> = Box<dyn FnMut(&mut D, u32, u64) -> Result<Vec<[u8; 32]>, DeviceError> + Send>;

/// Passes every call on to `D`, but for those that a literal replaces; a replacement is given `D` to call itself.
pub struct FakeDevice<D> {
    pub inner: D,
    /// Changes the result of [`Device::info`].
    pub info: Box<dyn Fn(DeviceInfo) -> DeviceInfo + Send>,
    pub fill: Fill<D>,
    /// [`Device::probe_round`], which [`Device::probe_rounds`] calls.
    pub round: RoundFn<D>,
    pub states: States<D>,
    /// [`Device::read`], which [`Device::read_all`] calls.
    pub read: ReadFn<D>,
    pub values: Values<D>,
    pub distrust: Distrust<D>,
}

impl<D: Device + 'static> FakeDevice<D> {
    pub fn new(inner: D) -> Self {
        Self {
            inner,
            info: Box::new(|info| info),
            fill: Box::new(D::fill),
            round: Box::new(D::probe_round),
            states: Box::new(D::probe_states),
            read: Box::new(D::read),
            values: Box::new(D::chaining_values),
            distrust: Box::new(D::distrust),
        }
    }
}

impl<D: Device> Device for FakeDevice<D> {
    fn info(&self) -> DeviceInfo {
        (self.info)(self.inner.info())
    }

    fn fault(&self) -> Option<DeviceError> {
        self.inner.fault()
    }

    fn distrust(&mut self, why: &DeviceError) {
        (self.distrust)(&mut self.inner, why);
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        self.inner.slots_that_fit(n)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        (self.fill)(&mut self.inner, pass, handle)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        (self.round)(&mut self.inner, round, handle)
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        (self.states)(&mut self.inner)
    }

    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.inner.sweep_round(round, handle)
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        self.inner.sweep_sums(round, handle)
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        (self.read)(&mut self.inner, slot, first_byte, out)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        (self.values)(&mut self.inner, slot, subtree_bytes)
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        self.inner.kernels(precision)
    }

    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        self.inner.choose_kernel(precision, kernel)
    }

    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        self.inner.time_products(products)
    }

    fn write_area(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        self.inner.write_area(data)
    }

    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        self.inner.copy_area()
    }

    fn read_area(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        self.inner.read_area(area, out)
    }
}
