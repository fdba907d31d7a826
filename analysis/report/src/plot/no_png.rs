//! Replaces PNG output in builds without it.

use pktgen_core::{Error, Result};

use crate::chart::Chart;

/// Cannot be created.
pub enum Painter {}

impl Painter {
    /// Fails with instructions for a build that supports PNG.
    pub fn new() -> Result<Painter> {
        Err(Error::Host(
            "this pktgen was built without PNG pictures (as `make demo` does): build it with `cargo build --release`, or write \
             SVG only: --plots-format svg"
                .to_owned(),
        ))
    }

    /// Never called.
    pub fn paint(&self, _: &Chart) -> Result<Vec<u8>> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_pictures_says_so() {
        let fault = Painter::new().map(drop).unwrap_err();
        assert_eq!(fault.exit_code(), 3);
        for part in ["make demo", "cargo build --release", "--plots-format svg"] {
            assert!(fault.to_string().contains(part), "{part} is in: {fault}");
        }
    }
}
