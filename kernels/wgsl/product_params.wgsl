// The parameters of a product, in both ways to cut it.

struct Params {
    n: u32,
    tiles_across: u32,
    first_tile: u32,
    row0: u32,
    column0: u32,
    slot_term: u32,
    depth: u32,
}
