//! Tests of targets, endpoints, transports and runs through their public interface; one module per subject.

mod attached;
mod capture_allocations;
mod conformance;
mod control;
mod driver_allocations;
mod failover;
mod libra;
mod real_time;
mod stamps;
mod strict;
mod support;
mod synchronous;
mod table1;
mod tempo;
mod transport_allocations;
mod transports;
mod transports_xdp;
mod trio;
