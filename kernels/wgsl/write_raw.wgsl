// What becomes of the sums of product.wgsl in the self-test of float sums: their own bits, before any conversion.
//
// shapes     written: u32[], n for each row

fn write_row(bits: vec4<u32>, to: u32) {
    written[to] = bits.x;
    written[to + 1u] = bits.y;
    written[to + 2u] = bits.z;
    written[to + 3u] = bits.w;
}

fn write(sums: Sums, row: u32, column: u32) {
    let to = row * params.n + params.column0 + column;
    write_row(bitcast<vec4<u32>>(sums.r0), to);
    write_row(bitcast<vec4<u32>>(sums.r1), to + params.n);
    write_row(bitcast<vec4<u32>>(sums.r2), to + 2u * params.n);
    write_row(bitcast<vec4<u32>>(sums.r3), to + 3u * params.n);
}
