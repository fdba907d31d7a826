//! Sparse training (LIBRA §2.2, §3.1): which parameters a worker updates in an iteration, and with what.

pub mod float;
