//! Where to aggregate: placers turn a network into a [`pktgen_generator::plan::Plan`].
pub mod atro;
