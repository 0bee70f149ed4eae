//! Documents and sources against each other: what a document says of the code is what the code is.

mod guarantees;
