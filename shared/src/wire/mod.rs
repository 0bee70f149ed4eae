//! Generated types of `proto/`, and their turn into the domain's and back. Only code that speaks gRPC
//! looks in here.

/// The generated types of `proto/assay/v1`.
#[allow(missing_docs, clippy::all, unused_qualifications)]
pub mod v1 {
    tonic::include_proto!("assay.v1");

    /// The encoded descriptors, for gRPC reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assay_descriptor.bin"));
}
