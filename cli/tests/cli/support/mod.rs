//! What tests of the binary have in common.

pub mod bench;
pub mod captures;
pub mod decoded;
pub mod figures;
pub mod netns;
/// Packets made by layout, and what tshark says of them.
#[path = "../../../../generator/tests/generator/support/mod.rs"]
pub mod packets;
pub mod reported;
pub mod serving;
pub mod sharded;
pub mod tools;
pub mod wired;
