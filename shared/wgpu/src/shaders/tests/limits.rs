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
