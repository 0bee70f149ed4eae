//! The layer that makes trouble between wgpu and lavapipe, alone: each setting has its effect. The effect of each
//! trouble on wgpu is recorded here too, since the wgpu backend relies on it.

#![cfg(target_os = "linux")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::vulkan::{Scenario, file, from_now};
use ash::vk;
use wgpu::{
    Backends, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePipeline, Device, DeviceDescriptor,
    DeviceLostReason, DeviceType, Error, ErrorFilter, Instance, InstanceDescriptor, MapMode, PollError, PollType,
    Queue,
};

const WORDS: u32 = 1024;
const BYTES: u64 = 4 * WORDS as u64;

/// Every word is its index times the first uploaded word.
const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<storage, read> factor: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { words[id.x] = id.x * factor[0]; }";

/// A device of wgpu, with its reports.
struct Gpu {
    device: Device,
    queue: Queue,
    lost: Receiver<(DeviceLostReason, String)>,
    uncaptured: Receiver<Error>,
}

fn adapters() -> Vec<wgpu::Adapter> {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = Backends::VULKAN;
    pollster::block_on(Instance::new(descriptor).enumerate_adapters(Backends::VULKAN))
}

fn try_open(adapter: usize) -> Result<Gpu, wgpu::RequestDeviceError> {
    let adapter = adapters().swap_remove(adapter);
    let descriptor = DeviceDescriptor {
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))?;
    let ((tell_lost, lost), (tell_error, uncaptured)) = (channel(), channel());
    device.set_device_lost_callback(move |reason, text| drop(tell_lost.send((reason, text))));
    device.on_uncaptured_error(std::sync::Arc::new(move |error| drop(tell_error.send(error))));
    Ok(Gpu { device, queue, lost, uncaptured })
}

fn open() -> Gpu {
    try_open(0).unwrap()
}

impl Gpu {
    fn buffer(&self, bytes: u64, usage: BufferUsages) -> Buffer {
        self.device.create_buffer(&BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
    }

    /// A buffer on the device, or the error.
    fn try_buffer(&self, bytes: u64) -> Result<Buffer, Error> {
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let buffer = self.buffer(bytes, BufferUsages::STORAGE | BufferUsages::COPY_SRC);
        pollster::block_on(scope.pop()).map_or(Ok(buffer), Err)
    }

    fn pipeline(&self) -> ComputePipeline {
        let source = wgpu::ShaderSource::Wgsl(SHADER.into());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn dispatch(&self, encoder: &mut CommandEncoder, words: &Buffer, factor: &Buffer) {
        let pipeline = self.pipeline();
        let entries = [(0, words), (1, factor)];
        let layout = pipeline.get_bind_group_layout(0);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries
                .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }),
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(WORDS / 64, 1, 1);
    }

    /// Multiples of a number, worked out on the device in one submission; within a second, or [`PollError::Timeout`].
    fn multiples(&self, factor: u32) -> Result<Vec<u32>, PollError> {
        let storage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let (words, factors) = (self.buffer(BYTES, storage), self.buffer(4, storage));
        let host = self.buffer(BYTES, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        self.queue.write_buffer(&factors, 0, &factor.to_le_bytes());
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.dispatch(&mut encoder, &words, &factors);
        encoder.copy_buffer_to_buffer(&words, 0, &host, 0, BYTES);
        let index = self.queue.submit([encoder.finish()]);
        host.slice(..).map_async(MapMode::Read, |_| ());
        self.device.poll(PollType::Wait { submission_index: Some(index), timeout: Some(Duration::from_secs(1)) })?;
        let mapped = host.slice(..).get_mapped_range().unwrap();
        Ok(mapped.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
    }

    /// The outcome of some work.
    fn outcome(&self) -> String {
        match catch_unwind(AssertUnwindSafe(|| self.multiples(5))) {
            Err(_) => "panics".into(),
            Ok(Err(PollError::Timeout)) => "times out".into(),
            Ok(Err(_)) => self.lost.try_recv().map_or("fails".into(), |(_, text)| format!("lost: {text}")),
            Ok(Ok(words)) => if words == multiples(5) { "right" } else { "wrong" }.into(),
        }
    }

    fn works(&self) {
        assert_eq!(self.multiples(3).unwrap(), multiples(3));
    }
}

fn multiples(factor: u32) -> Vec<u32> {
    (0..WORDS).map(|word| word * factor).collect()
}

#[test]
fn devices_are_what_they_are_told_to_be() {
    let test = "devices_are_what_they_are_told_to_be";
    let told = Scenario::new(test, "told").devices(2).with("NAME", "AMD Radeon Test,Intel Test");
    let told = told.with("TYPE", "discrete,integrated").with("VENDOR", "0x1002,0x8086").with("DEVICE", "0x744c");
    let told = told.with("PCI", "0000:03:00.0,0000:00:02.1").with("MAX_BINDING", "1048576,33554432");
    told.with("MAX_STORAGE_BUFFERS", "4,").with("MAX_BUFFER", "2097152,").with("MAX_SHARED", "16384").run(|| {
        let all = adapters();
        let infos: Vec<_> = all.iter().map(wgpu::Adapter::get_info).collect();
        let names: Vec<_> = infos.iter().map(|info| info.name.as_str()).collect();
        assert_eq!(names, ["AMD Radeon Test", "Intel Test"]);
        assert_eq!(infos[0].device_type, DeviceType::DiscreteGpu);
        assert_eq!(infos[1].device_type, DeviceType::IntegratedGpu);
        assert_eq!((infos[0].vendor, infos[1].vendor, infos[1].device), (0x1002, 0x8086, 0x744c));
        assert_eq!(infos[0].device_pci_bus_id, "0000:03:00.0");
        assert_eq!(infos[1].device_pci_bus_id, "0000:00:02.1");
        let limits: Vec<_> = all.iter().map(wgpu::Adapter::limits).collect();
        assert_eq!(limits[0].max_storage_buffer_binding_size, 1 << 20);
        assert_eq!(limits[1].max_storage_buffer_binding_size, 32 << 20);
        assert_eq!(limits[0].max_buffer_size, 2 << 20);
        assert_eq!(limits[0].max_storage_buffers_per_shader_stage, 4);
        assert!(limits[1].max_storage_buffers_per_shader_stage > 4);
        assert_eq!(limits[0].max_compute_workgroup_storage_size, 16384);
        for number in [0, 1] {
            try_open(number).unwrap().works();
        }
    });
    Scenario::new(test, "untold").run(|| {
        let info = adapters()[0].get_info();
        assert_eq!((info.device_type, info.device_pci_bus_id.as_str()), (DeviceType::Cpu, ""), "{info:?}");
        open().works();
    });
    // wgpu finds nothing, and says no more than that.
    Scenario::new(test, "no driver").without_driver().run(|| assert!(adapters().is_empty()));
    Scenario::new(test, "no loader").without_loader().run(|| assert!(adapters().is_empty()));
}

/// Settings with mistakes in them would make tests that test nothing.
#[test]
fn a_setting_that_is_not_understood_ends_the_process() {
    let test = "a_setting_that_is_not_understood_ends_the_process";
    let mistakes = [
        ("FAULT", "vkNoFunction:1:exit"),
        ("FAULT", "vkQueueSubmit:0:hang"),
        ("FAULT", "vkQueueSubmit:1:VK_ERROR_UNHEARD_OF"),
        ("TYPE", "quantum"),
        ("MEMORY_MIB", "64MiB"),
        ("PCI", "03:00.0"),
    ];
    for (setting, value) in mistakes {
        Scenario::new(test, format!("{setting}={value}"))
            .with(setting, value)
            .run_to_failure("the layer of the Vulkan tests: ", || open().works());
    }
}

#[test]
fn memory_is_counted_and_given_back() {
    let test = "memory_is_counted_and_given_back";
    let mib = 1 << 20;
    Scenario::new(test, "full").with("MEMORY_MIB", "100").run(|| {
        let gpu = open();
        let large = gpu.try_buffer(60 * mib).unwrap();
        assert!(matches!(gpu.try_buffer(60 * mib), Err(Error::OutOfMemory { .. })));
        drop(large);
        gpu.device.poll(PollType::wait_indefinitely()).unwrap();
        gpu.try_buffer(60 * mib).unwrap();
        gpu.works();
        assert!(
            gpu.lost.try_recv().is_err() && gpu.uncaptured.try_recv().is_err(),
            "lost, or an error beside the scope"
        );
    });
    Scenario::new(test, "tenant").with("MEMORY_MIB", "100").with_file("TENANT").run(|| {
        let gpu = open();
        drop(gpu.try_buffer(60 * mib).unwrap());
        gpu.device.poll(PollType::wait_indefinitely()).unwrap();
        fs::write(file("TENANT"), "50").unwrap();
        assert!(matches!(gpu.try_buffer(60 * mib), Err(Error::OutOfMemory { .. })));
        gpu.works();
        fs::write(file("TENANT"), "0").unwrap();
        gpu.try_buffer(60 * mib).unwrap();
    });
    let fault = Scenario::new(test, "tenant by a call").with("MEMORY_MIB", "100");
    fault.with("FAULT", "vkCreateBuffer:2:tenant50").run(|| {
        let gpu = open();
        gpu.try_buffer(30 * mib).unwrap();
        assert!(matches!(gpu.try_buffer(60 * mib), Err(Error::OutOfMemory { .. })));
    });
}

/// The effects of a driver's behaviour on wgpu: a table for code that relies on them. Opening a device makes two
/// pipelines and one upload, before the first call that is counted here.
#[test]
fn trouble_in_some_work_shows() {
    let test = "trouble_in_some_work_shows";
    let unexpected = "lost: Unexpected error variant (driver implementation is at fault)";
    let cases = [
        ("vkQueueSubmit:1:VK_ERROR_DEVICE_LOST", "lost: Device is lost"),
        ("vkQueueSubmit:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", "lost: Out of memory"),
        ("vkQueueSubmit:1:VK_ERROR_UNKNOWN", unexpected),
        ("vkCreateShaderModule:3:VK_ERROR_UNKNOWN", unexpected),
        ("vkCreateComputePipelines:3:VK_ERROR_UNKNOWN", unexpected),
        ("vkCreateComputePipelines:3:VK_ERROR_OUT_OF_DEVICE_MEMORY", "lost: Out of memory"),
        ("vkAllocateCommandBuffers:2:VK_ERROR_OUT_OF_HOST_MEMORY", "lost: Out of memory"),
        // Only a failed buffer leaves the device as it was.
        ("vkCreateBuffer:5:VK_ERROR_OUT_OF_DEVICE_MEMORY", "fails"),
        ("vkCreateBuffer:5:VK_ERROR_UNKNOWN", unexpected),
        // A failed wait is not an error of `Device::poll` but its panic.
        ("vkWaitSemaphores:1:VK_ERROR_DEVICE_LOST", "panics"),
        ("vkGetSemaphoreCounterValue:1+:VK_ERROR_DEVICE_LOST", "panics"),
        ("vkWaitSemaphores:1:VK_ERROR_OUT_OF_HOST_MEMORY", "panics"),
        ("vkQueueSubmit:1:hang", "times out"),
        ("readback:1:spoil", "wrong"),
        ("readback:1:skip", "wrong"),
        ("upload:2:spoil", "wrong"),
        ("upload:2:skip", "wrong"),
        ("vkCmdDispatch:1:skip", "wrong"),
    ];
    for (fault, expected) in cases {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let gpu = open();
            assert_eq!(gpu.outcome(), expected);
            // A queue that hangs would be waited for without an end as it is dropped.
            std::mem::forget(gpu);
        });
    }
}

#[test]
fn trouble_in_opening_shows() {
    let test = "trouble_in_opening_shows";
    let cases = [
        ("vkCreateInstance:1:VK_ERROR_INCOMPATIBLE_DRIVER", "no adapter"),
        ("vkEnumeratePhysicalDevices:1:VK_ERROR_INITIALIZATION_FAILED", "no adapter"),
        ("vkCreateDevice:1:VK_ERROR_DEVICE_LOST", "Parent device is lost"),
        ("vkCreateDevice:1:VK_ERROR_INITIALIZATION_FAILED", "Parent device is lost"),
        ("vkCreateDevice:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", "Not enough memory left."),
        ("vkAllocateMemory:1:VK_ERROR_OUT_OF_DEVICE_MEMORY", "Not enough memory left."),
        ("vkMapMemory:1:VK_ERROR_MEMORY_MAP_FAILED", "Parent device is lost"),
        // wgpu panics where an object for its own use cannot be made.
        ("vkCreateComputePipelines:1:VK_ERROR_UNKNOWN", "panics"),
        ("vkCreateShaderModule:1:VK_ERROR_OUT_OF_HOST_MEMORY", "panics"),
    ];
    for (fault, expected) in cases {
        Scenario::new(test, fault).with("FAULT", fault).run(|| {
            let opened = catch_unwind(|| if adapters().is_empty() { None } else { Some(try_open(0)) });
            let outcome = match opened {
                Err(_) => "panics".into(),
                Ok(None) => "no adapter".into(),
                Ok(Some(result)) => result.err().map_or("opened".into(), |error| error.to_string()),
            };
            assert_eq!(outcome, expected);
        });
    }
}

/// Calls before the moment that a test chooses count for nothing.
#[test]
fn faults_can_wait_for_their_moment() {
    let fault = "vkQueueSubmit:1:VK_ERROR_DEVICE_LOST";
    Scenario::new("faults_can_wait_for_their_moment", "one").with_later(fault).run(|| {
        let gpu = open();
        gpu.works();
        from_now();
        assert_eq!(gpu.outcome(), "lost: Device is lost");
    });
}

/// One device's loss is its own, and for good.
#[test]
fn a_device_that_was_lost_stays_lost() {
    let test = "a_device_that_was_lost_stays_lost";
    let fault = "vkQueueSubmit@1:2:VK_ERROR_DEVICE_LOST";
    Scenario::new(test, "one of two").devices(2).with("FAULT", fault).run(|| {
        let (well, sick) = (open(), try_open(1).unwrap());
        for gpu in [&well, &sick, &well] {
            gpu.works();
        }
        assert_eq!(sick.outcome(), "lost: Device is lost");
        assert_eq!(sick.outcome(), "fails");
        well.works();
        drop(sick);
        well.works();
        try_open(1).unwrap().works();
    });
}

#[test]
fn a_call_can_take_or_stop_its_process() {
    let test = "a_call_can_take_or_stop_its_process";
    let exit = Scenario::new(test, "exit").with("FAULT", "vkQueueSubmit:2:exit");
    exit.run_to_failure("exit status: 9", || {
        let gpu = open();
        gpu.works();
        gpu.works();
    });
    Scenario::new(test, "block").with("FAULT", "vkCreateBuffer@0:9:block").run(|| {
        let (tell, told) = channel();
        thread::spawn(move || {
            let gpu = open();
            loop {
                gpu.works();
                tell.send(()).unwrap();
            }
        });
        told.recv().unwrap();
        assert_eq!(told.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout));
    });
}

#[test]
fn a_fault_can_happen_once_over_all_processes() {
    let test = "a_fault_can_happen_once_over_all_processes";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("once");
    let scenario = |name| Scenario::new(test, name).with("FAULT", "vkQueueSubmit:1+:exit").with("ONCE", &file);
    scenario("first").run_to_failure("exit status: 9", || open().works());
    scenario("second").run(|| open().works());
}

#[test]
fn calls_are_logged() {
    let test = "calls_are_logged";
    Scenario::new(test, "log").with_file("LOG").run(|| {
        let gpu = open();
        gpu.works();
        gpu.works();
        let log = fs::read_to_string(file("LOG")).unwrap();
        let count = |line: &str| log.lines().filter(|this| *this == line).count();
        assert_eq!(count("vkCreateDevice@0"), 1, "{log}");
        assert_eq!(count("vkQueueSubmit@0"), 2, "{log}");
        assert_eq!(count(&format!("vkCmdDispatch@0 {} 1 1", WORDS / 64)), 2, "{log}");
        assert_eq!((count("upload@0 4"), count(&format!("readback@0 {BYTES}"))), (2, 2), "{log}");
        assert!(log.contains("\nvkAllocateMemory@0 ") && log.contains("\nvkCreateComputePipelines@0\n"), "{log}");
    });
}

/// Facts of a device that wgpu does not report, from ash.
#[test]
fn budget_and_uuid_are_what_they_are_told_to_be() {
    let test = "budget_and_uuid_are_what_they_are_told_to_be";
    let uuids = "000102030405060708090a0b0c0d0e0f,f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
    let told = Scenario::new(test, "told").devices(2).with("MEMORY_MIB", "64,128").with("UUID", uuids);
    told.with_file("TENANT").run(|| {
        let [first, second] = described().try_into().unwrap();
        assert_eq!((first.uuid[1], second.uuid[1]), (0x01, 0xf1));
        assert_eq!((first.heap_mib, first.budget_mib), (64, Some(64)));
        assert_eq!((second.heap_mib, second.budget_mib), (128, Some(128)));
        fs::write(file("TENANT"), "24").unwrap();
        let left: Vec<_> = described().iter().map(|device| device.budget_mib).collect();
        assert_eq!(left, [Some(40), Some(104)]);
    });
    let hidden = Scenario::new(test, "hidden").devices(2).with("MEMORY_MIB", "64").with("BUDGET", ",none");
    hidden.with("PCI", "none").run(|| {
        let budgets: Vec<_> = described().iter().map(|device| device.budget_mib).collect();
        assert_eq!(budgets, [Some(64), None]);
    });
}

#[derive(Debug)]
struct Described {
    uuid: [u8; 16],
    heap_mib: u64,
    budget_mib: Option<u64>,
}

fn described() -> Vec<Described> {
    // SAFETY: the loader is a Vulkan loader; nothing that is made here outlives the instance, and each structure is of the
    // type that its chain asks for.
    unsafe {
        let entry = ash::Entry::load().unwrap();
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&info, None).unwrap();
        let describe = |device: vk::PhysicalDevice| {
            let mut id = vk::PhysicalDeviceIDProperties::default();
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
            instance.get_physical_device_properties2(device, &mut properties);
            let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
            let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
            instance.get_physical_device_memory_properties2(device, &mut memory);
            let heap_mib = memory.memory_properties.memory_heaps[0].size >> 20;
            let extensions = instance.enumerate_device_extension_properties(device).unwrap();
            let has_budget =
                extensions.iter().any(|it| it.extension_name_as_c_str() == Ok(ash::ext::memory_budget::NAME));
            let budget_mib = has_budget.then_some(budget.heap_budget[0] >> 20);
            Described { uuid: id.device_uuid, heap_mib, budget_mib }
        };
        let described = instance.enumerate_physical_devices().unwrap().into_iter().map(describe).collect();
        instance.destroy_instance(None);
        described
    }
}
