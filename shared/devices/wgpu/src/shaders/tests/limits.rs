//! Which tile a device gets.

use super::*;

fn limits(workgroup_bytes: u32, threads: u32) -> ::wgpu::Limits {
    ::wgpu::Limits {
        max_compute_workgroup_storage_size: workgroup_bytes,
        max_compute_invocations_per_workgroup: threads,
        max_compute_workgroup_size_x: threads,
        ..Default::default()
    }
}

fn chosen(workgroup_bytes: u32, threads: u32, n: u32) -> Option<(u32, u32, u32)> {
    ShaderTile::choose(&limits(workgroup_bytes, threads), n).map(|tile| (tile.side, tile.per_thread, tile.words))
}

#[test]
fn a_large_matrix_gets_the_largest_tile_that_fits() {
    assert_eq!(chosen(32_768, 1024, 8192), Some((128, 8, 16)));
    assert_eq!(chosen(16_384, 256, 2048), Some((128, 8, 16)), "what WebGPU promises everywhere");
    assert_eq!(chosen(16_383, 256, 8192), Some((128, 8, 8)));
    assert_eq!(chosen(16_384, 255, 8192), Some((64, 8, 8)), "too few threads for all but one");
    assert_eq!(chosen(8191, 256, 8192), Some((64, 8, 8)));
}

#[test]
fn a_small_matrix_gets_small_tiles() {
    assert_eq!(chosen(32_768, 1024, 1024), Some((64, 8, 8)));
    assert_eq!(chosen(4096, 64, 256), Some((64, 8, 8)));
}

#[test]
fn a_device_too_small_for_every_tile_gets_none() {
    assert_eq!(chosen(4095, 256, 8192), None);
    assert_eq!(chosen(16_384, 63, 8192), None);
}

#[test]
fn every_tile_that_fits_may_be_tried() {
    let fitting = |bytes, threads, n| ShaderTile::fitting(&limits(bytes, threads), n).count();
    assert_eq!(fitting(16_384, 256, 2048), ShaderTile::ALL.len());
    assert_eq!(fitting(16_384, 256, 1024), 3, "those with a side of 64");
    assert_eq!(fitting(8192, 256, 2048), 3, "8 KiB or less");
    assert_eq!(fitting(16_384, 128, 2048), 1);
}

/// Square ones of half floats with FP32 sums, the largest; a region for each subgroup of the smallest size.
#[test]
fn cooperative_matrices_are_those_that_the_adapter_lists() {
    use ::wgpu::CooperativeScalarType::{F16, F32};
    let listed = |[m, n, k]: [u32; 3], ab_type, cr_type| ::wgpu::CooperativeMatrixProperties {
        m_size: m,
        n_size: n,
        k_size: k,
        ab_type,
        cr_type,
        saturating_accumulation: false,
    };
    let (small, large) = (listed([8; 3], F16, F32), listed([16; 3], F16, F32));
    let chosen = |bytes, threads, properties: &[_], subgroup_size| {
        CooperativeTile::choose(&limits(bytes, threads), properties, subgroup_size)
    };
    let tile = |cell, regions| Some(CooperativeTile { cell, regions });
    assert_eq!(chosen(16_384, 128, &[small, large, small], 32), tile(16, 4));
    assert_eq!(chosen(16_384, 128, &[small], 8), tile(8, 16));
    assert_eq!(chosen(16_384, 128, &[small, large], 4), tile(8, 32), "regions of 16 by 8");
    assert_eq!(chosen(16_384, 128, &[large], 128), tile(16, 1));
    // On Metal four regions of 32 by 32, each of which loads eight matrices for sixteen products; by 4 there were 32.
    assert_eq!(chosen(16_384, 128, &[small], smallest_subgroup(::wgpu::Backend::Metal, 4)), tile(8, 4));
    assert_eq!(smallest_subgroup(::wgpu::Backend::Vulkan, 4), 4);
    assert_eq!(chosen(16_383, 128, &[large], 32), None);
    assert_eq!(chosen(16_384, 127, &[large], 32), None);
    for subgroup_size in [0, 48, 256] {
        assert_eq!(chosen(16_384, 128, &[large], subgroup_size), None, "{subgroup_size}");
    }
    for other in [listed([16; 3], F16, F16), listed([8; 3], F32, F32), listed([8, 16, 16], F16, F32)] {
        assert_eq!(chosen(16_384, 128, &[other], 32), None, "{other:?}");
    }
}
