// What becomes of the sums of product.wgsl: bytes of the slot that is made.

// Mixes and writes four rows by four columns, from this row and column of the pieces on.
fn write(sums: Sums, row: u32, column: u32) {
    let n = params.n;
    let whole = integers(sums);
    let place = (params.row0 + row) * n + params.column0 + column + params.slot_term;
    let to = (row * n + params.column0 + column) / 4u;
    written[to] = mixed(whole.r0, place);
    written[to + n / 4u] = mixed(whole.r1, place + n);
    written[to + 2u * (n / 4u)] = mixed(whole.r2, place + 2u * n);
    written[to + 3u * (n / 4u)] = mixed(whole.r3, place + 3u * n);
}
