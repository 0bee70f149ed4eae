//! The pipelines of a device: which shaders it gets, compiled, with the layouts of their bindings.

use std::collections::HashMap;

use ::wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType, BufferSize,
    ComputePipeline, ComputePipelineDescriptor, Features, Limits, PipelineCompilationOptions, PipelineLayoutDescriptor,
    ShaderModule, ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages,
};

use super::cache::Cache;
use super::config::{DotChoice, WgpuConfig};
use super::describe::AdapterDescription;
use super::error::WgpuError;
use super::gpu::{CreationFailure, Gpu};
use super::plan::{ALIGNMENT, AdapterBounds};
use super::shaders::{
    self, CooperativeTile, Dot, Format, ProbeShape, QUAD_LANES, Shader, ShaderTile, smallest_subgroup,
};
use assay_device::backend::StartupProgress;
use assay_work::Precision;

/// Steps of the start-up's progress while shaders are compiled.
const STEPS: u64 = 7;

/// A compiled shader.
pub(super) struct Pipeline {
    raw: ComputePipeline,
    layout: BindGroupLayout,
    /// Of each storage binding, whether it has a dynamic offset.
    storages: Vec<bool>,
    name: String,
    id: u64,
}

impl Pipeline {
    pub(super) const fn raw(&self) -> &ComputePipeline {
        &self.raw
    }

    pub(super) const fn layout(&self) -> &BindGroupLayout {
        &self.layout
    }

    pub(super) fn storages(&self) -> &[bool] {
        &self.storages
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Distinct within a device.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }
}

/// A product's pipeline, and its tiles.
pub(super) struct ProductPipeline {
    pub(super) pipeline: Pipeline,
    /// Elements along a side of its tiles.
    pub(super) side: u32,
}

pub(super) struct Kernels {
    pub(super) keystream: Pipeline,
    pub(super) chunks: Pipeline,
    pub(super) parents: Pipeline,
    pub(super) completion_counter: Pipeline,
    /// Of every way to multiply that was in use: with large tiles and with small ones, or with tiles of one size.
    products: HashMap<Dot, Vec<ProductPipeline>>,
    /// The index of the one that is tried alone.
    only: Option<usize>,
    /// The pipelines that write the operands of a kind of work out, once they were in use.
    expansions: HashMap<(Precision, Format), Vec<Pipeline>>,
    probes: HashMap<ProbeShape, Pipeline>,
    /// Of every way to multiply bytes that was in use.
    sweeps: HashMap<Dot, Pipeline>,
    /// How products of bytes multiply, and those of 16-bit integers.
    bytes_dot: Dot,
    wide_dot: Dot,
    /// The kinds of work whose products are in cooperative matrices.
    in_matrices: Vec<Precision>,
    /// The large tile and the small one.
    tiles: [ShaderTile; 2],
    /// The tile of cooperative matrices, where they may be used.
    cooperative: Option<CooperativeTile>,
    quads: bool,
    limits: Limits,
    compiler: Compiler,
}

impl Kernels {
    /// Compiles the shaders of every pass and of every probe of few buffers.
    pub(super) fn load(
        gpu: &Gpu,
        description: &AdapterDescription,
        config: &WgpuConfig,
        progress: &mut dyn FnMut(StartupProgress),
    ) -> Result<Self, WgpuError> {
        let dot = chosen(config.dot, description).unwrap_or(Dot::Plain);
        let limits = gpu.device.limits();
        let tile = |n: u32| {
            let none = || WgpuError::Refused { device: description.title(), reason: "no tile fits its limits".into() };
            ShaderTile::choose(&limits, n).ok_or_else(none)
        };
        let (large, small) = (tile(assay_work::challenge::MAX_N)?, tile(assay_work::challenge::MIN_N)?);
        let mut compiler = Compiler { title: description.title(), next_id: 0, cache: Cache::open(gpu, config) };
        let what = if compiler.cache.is_warm() { "loading shaders" } else { "compiling shaders, once for each driver" };
        let mut done = 0;
        let mut step = || {
            progress(StartupProgress { what: what.into(), done, total: STEPS });
            done += 1;
        };
        let quads = gpu.device.features().contains(Features::SUBGROUP)
            && gpu.adapter.get_info().subgroup_min_size >= QUAD_LANES;
        let mut compile = |shader: Shader, storages: &[bool]| {
            step();
            compiler.compile(gpu, &shader, storages)
        };
        let keystream = compile(shaders::keystream(), &[true])?;
        let chunks = compile(shaders::chunks(), &[true, true])?;
        let parents = compile(shaders::parents(), &[true])?;
        let completion_counter = compile(shaders::completion_counter(), &[true])?;
        let product = |tile: ShaderTile, pipeline| ProductPipeline { side: tile.side, pipeline };
        let tiles = [large, small];
        let large = product(large, compile(shaders::product(large, dot), &[true; 3])?);
        let small = product(small, compile(shaders::product(small, dot), &[true; 3])?);
        let shape = ProbeShape { buffers: 1, grouped: false, quads };
        let probe = compile(shaders::probe(shape), &probe_storages(shape))?;
        let products = HashMap::from([(dot, vec![large, small])]);
        let mut probes = HashMap::new();
        probes.insert(shape, probe);
        step();
        compiler.cache.save();
        let cooperative = gpu.has_cooperative().then(|| {
            let (properties, info) = (gpu.adapter.cooperative_matrix_properties(), gpu.adapter.get_info());
            CooperativeTile::choose(&limits, &properties, smallest_subgroup(info.backend, info.subgroup_min_size))
        });
        Ok(Self {
            keystream,
            chunks,
            parents,
            completion_counter,
            products,
            only: None,
            expansions: HashMap::new(),
            probes,
            sweeps: HashMap::new(),
            bytes_dot: dot,
            wide_dot: Dot::Wide,
            in_matrices: Vec::new(),
            tiles,
            cooperative: cooperative.flatten(),
            quads,
            limits,
            compiler,
        })
    }

    /// How products of a kind of work multiply.
    pub(super) fn dot(&self, precision: Precision) -> Dot {
        match precision {
            _ if self.in_matrices.contains(&precision) => Dot::Cooperative,
            Precision::F16 => self.wide_dot,
            _ => self.bytes_dot,
        }
    }

    /// How products of bytes multiply outside of matrices.
    #[cfg(feature = "bench")]
    pub(super) const fn bytes_dot(&self) -> Dot {
        self.bytes_dot
    }

    /// Multiplies this way from now on in a kind of work; integers and FP32, in every kind that is not in matrices.
    pub(super) fn multiply_by(&mut self, precision: Precision, dot: Dot) {
        self.leave_matrices(precision);
        match dot {
            Dot::Packed | Dot::Plain => self.bytes_dot = dot,
            Dot::Wide | Dot::Float | Dot::FloatChunks => self.wide_dot = dot,
            Dot::Cooperative => self.in_matrices.push(precision),
        }
    }

    /// Multiplies a kind of work as others of its operands that are not in matrices.
    pub(super) fn leave_matrices(&mut self, precision: Precision) {
        self.in_matrices.retain(|other| *other != precision);
    }

    /// The tile of cooperative matrices, where they may be used.
    pub(super) const fn cooperative(&self) -> Option<CooperativeTile> {
        self.cooperative
    }

    /// Compiles the shaders for products of a kind of work, unless that was done before.
    pub(super) fn prepare_products(&mut self, gpu: &Gpu, precision: Precision, n: u32) -> Result<(), WgpuError> {
        let dot = self.dot_for(precision, n);
        let operands = shaders::format(precision, dot).map(|format| (precision, format));
        let missing = operands.filter(|operands| !self.expansions.contains_key(operands));
        let has_products = self.products.contains_key(&dot);
        if has_products && missing.is_none() {
            return Ok(());
        }
        if !has_products {
            let products = self.product_shaders(dot).into_iter().map(|(side, shader)| {
                let pipeline = self.compiler.compile(gpu, &shader, &[true; 3])?;
                Ok(ProductPipeline { pipeline, side })
            });
            let products = products.collect::<Result<_, WgpuError>>()?;
            self.products.insert(dot, products);
        }
        if let Some((precision, format)) = missing {
            let storages = vec![true; if shaders::rule_side(precision).is_some() { 3 } else { 2 }];
            let shaders = shaders::expand(precision, format).into_iter();
            let pipelines = shaders.map(|shader| self.compiler.compile(gpu, &shader, &storages));
            self.expansions.insert((precision, format), pipelines.collect::<Result<_, WgpuError>>()?);
        }
        self.compiler.cache.save();
        Ok(())
    }

    /// The shaders of a way to multiply, each with the side of its tiles.
    fn product_shaders(&self, dot: Dot) -> Vec<(u32, Shader)> {
        match (dot, self.cooperative) {
            (Dot::Cooperative, Some(tile)) => vec![(CooperativeTile::SIDE, shaders::cooperative_product(tile))],
            _ => self.tiles.map(|tile| (tile.side, shaders::product(tile, dot))).into(),
        }
    }

    /// Restricts products to large tiles (0) or small ones (1); `None` allows both again.
    pub(super) fn use_only(&mut self, which: Option<usize>) {
        self.only = which;
    }

    /// The way that products of n-by-n matrices multiply.
    pub(super) fn dot_for(&self, precision: Precision, n: u32) -> Dot {
        self.dot(precision).for_terms(precision.terms(n))
    }

    /// The tiles of products, the large one first.
    pub(super) const fn tiles(&self) -> [ShaderTile; 2] {
        self.tiles
    }

    /// The product for n-by-n matrices in pieces of `piece_rows` rows.
    ///
    /// # Panics
    /// When it was not prepared.
    pub(super) fn product(&self, precision: Precision, n: u32, piece_rows: u64) -> &ProductPipeline {
        let dot = self.dot_for(precision, n);
        let Some([large, others @ ..]) = self.products.get(&dot).map(Vec::as_slice) else {
            unreachable!("{dot:?} was prepared with the slots")
        };
        let small = others.first().unwrap_or(large);
        match self.only {
            Some(0) => return large,
            Some(_) => return small,
            None => {}
        }
        let wants_large = ShaderTile::choose(&self.limits, n).is_some_and(|tile| tile.side == large.side);
        if wants_large && u64::from(large.side) <= piece_rows { large } else { small }
    }

    /// The pipeline that writes the operands of a kind of work out for the product that fills slot `u`.
    ///
    /// # Panics
    /// When it was not prepared.
    pub(super) fn expansion(&self, precision: Precision, u: u32) -> &Pipeline {
        let format = shaders::format(precision, self.dot(precision));
        let all = format.and_then(|format| self.expansions.get(&(precision, format)));
        let found = all.and_then(|all| all.get(u as usize % all.len()));
        found.unwrap_or_else(|| unreachable!("{precision} was prepared with the slots"))
    }

    /// Compiles the probe over `buffers` slot buffers, and the sweep, unless that was done before.
    pub(super) fn prepare_probe(&mut self, gpu: &Gpu, bounds: &AdapterBounds, buffers: u32) -> Result<(), WgpuError> {
        let (shape, dot) = (self.probe_shape(bounds, buffers), self.bytes_dot);
        if !self.probes.contains_key(&shape) {
            let pipeline = self.compiler.compile(gpu, &shaders::probe(shape), &probe_storages(shape))?;
            self.probes.insert(shape, pipeline);
            self.compiler.cache.save();
        }
        if !self.sweeps.contains_key(&dot) {
            self.sweeps.insert(dot, self.compiler.compile(gpu, &shaders::sweep(dot), &[true; 3])?);
            self.compiler.cache.save();
        }
        Ok(())
    }

    /// The shape of the probe over `buffers` slot buffers: few shapes, so that few are compiled.
    pub(super) fn probe_shape(&self, bounds: &AdapterBounds, buffers: u32) -> ProbeShape {
        let bound = buffers.next_power_of_two().min(bounds.slot_buffers);
        ProbeShape { buffers: bound, grouped: buffers > bound, quads: self.quads }
    }

    /// The probe of a shape.
    ///
    /// # Panics
    /// When it was not prepared.
    pub(super) fn probe(&self, shape: ProbeShape) -> &Pipeline {
        let found = self.probes.get(&shape);
        found.unwrap_or_else(|| unreachable!("{shape:?} was prepared with the slots"))
    }

    /// The sums of rows.
    ///
    /// # Panics
    /// When they were not prepared.
    pub(super) fn sweep(&self) -> &Pipeline {
        let found = self.sweeps.get(&self.bytes_dot);
        found.unwrap_or_else(|| unreachable!("the sweep was prepared with the slots"))
    }

    /// Compiles another shader: that of the self-test, those of benchmarks.
    pub(super) fn compile(&mut self, gpu: &Gpu, shader: &Shader, storages: &[bool]) -> Result<Pipeline, WgpuError> {
        self.compiler.compile(gpu, shader, storages)
    }

    /// The chosen kernels in one line, for people.
    pub(super) fn detail(&self) -> String {
        let (bytes, wide, side) = (self.bytes_dot.name(), self.wide_dot.name(), self.tiles[0].side);
        let walks = if self.quads { ", walks in subgroups" } else { "" };
        let kinds = self.in_matrices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let matrices = if kinds.is_empty() { kinds } else { format!(", {kinds} in cooperative matrices") };
        format!("{bytes} and {wide} products in tiles of {side}{matrices}{walks}")
    }

    /// Whether walks run in subgroups.
    pub(super) const fn has_quads(&self) -> bool {
        self.quads
    }

    /// Selects walks in subgroups, or in single threads.
    pub(super) const fn walk_in(&mut self, subgroups: bool) {
        self.quads = subgroups;
    }
}

/// How products multiply, where that is known without measuring.
pub(super) const fn chosen(choice: DotChoice, description: &AdapterDescription) -> Option<Dot> {
    match (choice, description.packed_dot) {
        (DotChoice::Packed, _) | (DotChoice::Auto | DotChoice::Cooperative, Some(true)) => Some(Dot::Packed),
        (DotChoice::Plain, _) | (DotChoice::Auto | DotChoice::Cooperative, Some(false)) => Some(Dot::Plain),
        (DotChoice::Fastest, _) | (DotChoice::Auto | DotChoice::Cooperative, None) => None,
    }
}

/// States with dynamic offsets, twice where walks go by groups of buffers; slot buffers whole.
fn probe_storages(shape: ProbeShape) -> Vec<bool> {
    let states = if shape.grouped { 2 } else { 1 };
    let mut storages = vec![true; states];
    storages.resize(states + shape.buffers as usize, false);
    storages
}

struct Compiler {
    title: String,
    next_id: u64,
    cache: Cache,
}

impl Compiler {
    fn compile(&mut self, gpu: &Gpu, shader: &Shader, storages: &[bool]) -> Result<Pipeline, WgpuError> {
        self.next_id += 1;
        let name = shader.name.clone();
        let (module, made) = (module(gpu, shader), |module: &ShaderModule| self.pipeline(gpu, &name, module, storages));
        let made = module.and_then(|module| gpu.scoped(|| made(&module)));
        let (layout, raw) = made.map_err(|error| self.refused(gpu, &name, error))?;
        Ok(Pipeline { raw, layout, storages: storages.to_vec(), name, id: self.next_id })
    }

    fn pipeline(
        &self,
        gpu: &Gpu,
        name: &str,
        module: &ShaderModule,
        storages: &[bool],
    ) -> (BindGroupLayout, ComputePipeline) {
        let mut entries = vec![entry(0, BufferBindingType::Uniform, true, BufferSize::new(ALIGNMENT))];
        let storage = BufferBindingType::Storage { read_only: false };
        entries.extend((1..).zip(storages).map(|(number, dynamic)| entry(number, storage, *dynamic, None)));
        let descriptor = BindGroupLayoutDescriptor { label: Some(name), entries: &entries };
        let layout = gpu.device.create_bind_group_layout(&descriptor);
        let layouts = [Some(&layout)];
        let pipeline_layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &layouts,
            immediate_size: 0,
        });
        // Shaders write workgroup memory before they read it.
        let options = PipelineCompilationOptions { zero_initialize_workgroup_memory: false, ..Default::default() };
        let pipeline = gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module,
            entry_point: Some("main"),
            compilation_options: options,
            cache: self.cache.raw(),
        });
        (layout, pipeline)
    }

    /// Why there is no pipeline: only a fault of the shader itself is permanent.
    fn refused(&self, gpu: &Gpu, shader: &str, error: CreationFailure) -> WgpuError {
        let device = self.title.clone();
        match (gpu.check(), error) {
            (Err(error), _) => WgpuError::Device { device, error },
            (Ok(()), CreationFailure::OutOfMemory) => WgpuError::NoMemory { device },
            (Ok(()), CreationFailure::Refused(reason)) => {
                WgpuError::Shader { device, shader: shader.to_owned(), reason }
            }
        }
    }
}

fn module(gpu: &Gpu, shader: &Shader) -> Result<ShaderModule, CreationFailure> {
    let descriptor =
        ShaderModuleDescriptor { label: Some(&shader.name), source: ShaderSource::Wgsl(shader.source.as_str().into()) };
    gpu.scoped(|| {
        // SAFETY: without these checks a shader must not leave its bindings, nor loop for ever. The shaders are this
        // program's own; each one's header states its bounds, and `pass`, `probe` and `digest` dispatch within them,
        // over bindings whose lengths they say.
        unsafe { gpu.device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked()) }
    })
}

const fn entry(
    binding: u32,
    ty: BufferBindingType,
    has_dynamic_offset: bool,
    min_binding_size: Option<BufferSize>,
) -> BindGroupLayoutEntry {
    let ty = BindingType::Buffer { ty, has_dynamic_offset, min_binding_size };
    BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
}
