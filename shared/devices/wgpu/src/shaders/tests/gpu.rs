//! An adapter, and kernels run on it one at a time, between guards.

use std::sync::OnceLock;

use ::wgpu::{self as api, BufferUsages as Usage};

use super::super::params::Words;
use super::{Checked, CooperativeTile, POISON, Shader, smallest_subgroup};
use crate::gpu::COOPERATIVE;

/// Bytes before and after a kernel's binding, which it must leave alone; a multiple of every alignment.
const GUARD_BYTES: u64 = 256;

const NO_ADAPTER: &str =
    "no Vulkan, Metal or DirectX 12 adapter: install a driver, such as Debian's mesa-vulkan-drivers";

pub(super) struct Gpu {
    pub device: api::Device,
    /// The tile of its cooperative matrices, where it has them.
    pub cooperative: Option<CooperativeTile>,
    queue: api::Queue,
}

/// A shader, ready to run.
pub(super) struct Kernel<'a> {
    gpu: &'a Gpu,
    pipeline: api::ComputePipeline,
    layout: api::BindGroupLayout,
}

/// The device that all tests share: the first adapter's.
pub(super) fn gpu() -> &'static Gpu {
    static SHARED: OnceLock<Gpu> = OnceLock::new();
    SHARED.get_or_init(|| pollster::block_on(Gpu::open()))
}

impl Gpu {
    async fn open() -> Self {
        let instance = api::Instance::new(api::InstanceDescriptor::new_without_display_handle());
        let adapter = instance.enumerate_adapters(api::Backends::all()).await.into_iter().next().expect(NO_ADAPTER);
        let info = adapter.get_info();
        let subgroup_size = smallest_subgroup(info.backend, info.subgroup_min_size);
        let properties = adapter.cooperative_matrix_properties();
        let cooperative = CooperativeTile::choose(&adapter.limits(), &properties, subgroup_size);
        let mut descriptor = api::DeviceDescriptor {
            required_features: api::Features::SUBGROUP,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        if cooperative.is_some() {
            descriptor.required_features |= COOPERATIVE;
            // SAFETY: as in `Gpu::open` of this crate.
            descriptor.experimental_features = unsafe { api::ExperimentalFeatures::enabled() };
        }
        let (device, queue) = adapter.request_device(&descriptor).await.expect("a device with subgroups");
        Self { device, cooperative, queue }
    }

    /// Compiles a shader that has `storage` bindings besides its parameters. `checked`: with the bounds checks that
    /// the backend leaves out, for shaders with faults.
    pub fn compile(&self, shader: &Shader, storage: u32, checked: bool) -> Result<Kernel<'_>, String> {
        let scope = self.device.push_error_scope(api::ErrorFilter::Validation);
        let layout = self.layout(storage);
        let pipeline = self.pipeline(shader, &layout, checked);
        match pollster::block_on(scope.pop()) {
            Some(error) => Err(format!("{}: {error}", shader.name)),
            None => Ok(Kernel { gpu: self, pipeline, layout }),
        }
    }

    fn layout(&self, storage: u32) -> api::BindGroupLayout {
        let entries: Vec<api::BindGroupLayoutEntry> = (0..=storage)
            .map(|binding| api::BindGroupLayoutEntry {
                binding,
                visibility: api::ShaderStages::COMPUTE,
                ty: api::BindingType::Buffer {
                    ty: match binding {
                        0 => api::BufferBindingType::Uniform,
                        _ => api::BufferBindingType::Storage { read_only: false },
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        self.device.create_bind_group_layout(&api::BindGroupLayoutDescriptor { label: None, entries: &entries })
    }

    fn pipeline(&self, shader: &Shader, layout: &api::BindGroupLayout, checked: bool) -> api::ComputePipeline {
        let source = api::ShaderModuleDescriptor {
            label: Some(&shader.name),
            source: api::ShaderSource::Wgsl(shader.source.as_str().into()),
        };
        let module = if checked {
            self.device.create_shader_module(source)
        } else {
            // SAFETY: the shader is one of this crate's own; its header states the indices that it makes, and the
            // callers here bind accordingly.
            unsafe { self.device.create_shader_module_trusted(source, api::ShaderRuntimeChecks::unchecked()) }
        };
        let layout = self.device.create_pipeline_layout(&api::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(layout)],
            immediate_size: 0,
        });
        self.device.create_compute_pipeline(&api::ComputePipelineDescriptor {
            label: Some(&shader.name),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: api::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        })
    }

    fn buffer(&self, bytes: &[u8], usage: Usage) -> api::Buffer {
        let size = bytes.len() as u64;
        let buffer =
            self.device.create_buffer(&api::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }

    /// A buffer that holds `bytes` between guards.
    fn guarded(&self, bytes: &[u8]) -> api::Buffer {
        let guard = [POISON; GUARD_BYTES as usize];
        self.buffer(&[&guard, bytes, &guard].concat(), Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC)
    }

    fn read(&self, buffer: &api::Buffer) -> Vec<u8> {
        let size = buffer.size();
        let usage = Usage::MAP_READ | Usage::COPY_DST;
        let mapped =
            self.device.create_buffer(&api::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let mut encoder = self.device.create_command_encoder(&api::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &mapped, 0, size);
        self.queue.submit([encoder.finish()]);
        mapped.slice(..).map_async(api::MapMode::Read, |result| result.unwrap());
        self.device.poll(api::PollType::wait_indefinitely()).unwrap();
        mapped.slice(..).get_mapped_range().unwrap().to_vec()
    }
}

impl Kernel<'_> {
    /// Runs `workgroups` workgroups over memory that holds `data` at first, a buffer for each binding after the
    /// parameters, and puts its content then in `data`.
    ///
    /// # Errors
    /// When a byte beside the memory was written.
    pub fn run(&self, words: Words, data: &mut [&mut Vec<u8>], workgroups: u32) -> Checked {
        let gpu = self.gpu;
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let params = gpu.buffer(&words, Usage::UNIFORM | Usage::COPY_DST);
        let buffers: Vec<api::Buffer> = data.iter().map(|bytes| gpu.guarded(bytes)).collect();
        self.dispatch(&params, &buffers, workgroups);
        for (i, (buffer, bytes)) in buffers.iter().zip(data).enumerate() {
            let whole = gpu.read(buffer);
            let (before, rest) = whole.split_at(GUARD_BYTES as usize);
            let (inside, after) = rest.split_at(bytes.len());
            if before.iter().chain(after).any(|&byte| byte != POISON) {
                return Err(format!("binding {}: written beside", i + 1));
            }
            bytes.copy_from_slice(inside);
        }
        Ok(())
    }

    fn dispatch(&self, params: &api::Buffer, buffers: &[api::Buffer], workgroups: u32) {
        let storage = buffers.iter().map(|buffer| api::BufferBinding {
            buffer,
            offset: GUARD_BYTES,
            size: api::BufferSize::new(buffer.size() - 2 * GUARD_BYTES),
        });
        let all = std::iter::once(params.as_entire_buffer_binding()).chain(storage);
        let entries: Vec<api::BindGroupEntry<'_>> = (0..)
            .zip(all)
            .map(|(binding, part)| api::BindGroupEntry { binding, resource: api::BindingResource::Buffer(part) })
            .collect();
        let descriptor = api::BindGroupDescriptor { label: None, layout: &self.layout, entries: &entries };
        let group = self.gpu.device.create_bind_group(&descriptor);
        let mut encoder = self.gpu.device.create_command_encoder(&api::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&api::ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(workgroups, 1, 1);
        }
        self.gpu.queue.submit([encoder.finish()]);
    }
}
