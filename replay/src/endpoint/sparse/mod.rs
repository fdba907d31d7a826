//! Sparse training: workers push pairs, a parameter server and a switch sum them (`docs/libra.md`).

// Until the workers of sparse runs are registered, nothing opens the server.
#![allow(dead_code)]

mod reliable;
mod seen;
mod server;
