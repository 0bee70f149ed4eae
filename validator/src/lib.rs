//! The validator: challenges the miners that are connected to it, and judges what they answer.

pub mod entropy;
pub mod issue;
pub mod policy;
pub mod run;
pub mod session;

pub mod verify;
