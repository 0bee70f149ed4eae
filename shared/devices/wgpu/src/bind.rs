//! Bind groups, created once for each pipeline and its buffers. Dynamic offsets say where in a buffer a binding starts,
//! so that few groups serve many dispatches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ::wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferSize};

use super::gpu::Gpu;
use super::kernels::Pipeline;
use super::memory::SlotPiece;
use super::plan::ALIGNMENT;
use assay_device::DeviceError;

/// When this many groups are kept, all are dropped: a bound, which few devices reach.
const MAX_GROUPS: usize = 4096;

/// One storage binding: a range of a buffer.
pub(super) type Binding<'a> = SlotPiece<'a>;

/// The identity of a group: its pipeline, and each binding's buffer and length.
type GroupKey = (u64, Vec<(u64, u64)>);

/// The bind groups of a device. Dropped with the memory that they name.
#[derive(Default)]
pub(super) struct Bindings(HashMap<GroupKey, BindGroup>);

impl Bindings {
    /// The group for these bindings, and the dynamic offsets to set it with.
    ///
    /// # Errors
    /// [`DeviceError::Sick`] when the driver makes none.
    ///
    /// # Panics
    /// When a binding without dynamic offset does not start at the start of its buffer.
    pub(super) fn bind(
        &mut self,
        gpu: &Gpu,
        pipeline: &Pipeline,
        parameters: &Buffer,
        parameters_at: u32,
        bindings: &[Binding<'_>],
    ) -> Result<(BindGroup, Vec<u32>), DeviceError> {
        assert_eq!(bindings.len(), pipeline.storages().len(), "bindings of {}", pipeline.name());
        let mut offsets = vec![parameters_at];
        for (binding, is_dynamic) in bindings.iter().zip(pipeline.storages()) {
            if *is_dynamic {
                offsets.push(binding.first as u32);
            } else {
                assert_eq!(binding.first, 0, "a whole buffer");
            }
        }
        let key = (pipeline.id(), bindings.iter().map(|b| (b.buffer.id, b.bytes)).collect());
        if self.0.len() == MAX_GROUPS {
            self.0.clear();
        }
        let group = match self.0.entry(key) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => place.insert(gpu.calling(|| make(gpu, pipeline, parameters, bindings))?).clone(),
        };
        Ok((group, offsets))
    }

    /// Forgets all groups, and with them the buffers that they name.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn make(gpu: &Gpu, pipeline: &Pipeline, parameters: &Buffer, bindings: &[Binding<'_>]) -> BindGroup {
    let range = |buffer, bytes| BufferBinding { buffer, offset: 0, size: BufferSize::new(bytes) };
    let mut entries =
        vec![BindGroupEntry { binding: 0, resource: BindingResource::Buffer(range(parameters, ALIGNMENT)) }];
    for (number, binding) in (1..).zip(bindings) {
        let resource = BindingResource::Buffer(range(&binding.buffer.raw, binding.bytes));
        entries.push(BindGroupEntry { binding: number, resource });
    }
    let descriptor = BindGroupDescriptor { label: Some(pipeline.name()), layout: pipeline.layout(), entries: &entries };
    gpu.device.create_bind_group(&descriptor)
}
