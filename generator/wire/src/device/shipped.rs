//! The profiles of `configs/hardware`, built in: their names work in every working directory.

use std::path::Path;

use super::{Profile, Protocols};
use crate::registry::suggest;
use crate::regular::check_regular;
use crate::{Error, Result};

/// Names and texts.
pub static SHIPPED: &[(&str, &str)] = &[
    ("alveo-u55c-olaf", include_str!("../../../../configs/hardware/alveo-u55c-olaf.toml")),
    ("tofino-libra", include_str!("../../../../configs/hardware/tofino-libra.toml")),
    ("tofino-switchml", include_str!("../../../../configs/hardware/tofino-switchml.toml")),
    ("mx480-trio-ml", include_str!("../../../../configs/hardware/mx480-trio-ml.toml")),
    ("generic", include_str!("../../../../configs/hardware/generic.toml")),
];

/// Opens the profile `name`: the path of a file, or a built-in profile.
pub fn open(name: &str, place: &str, known: &Protocols) -> Result<Profile> {
    if name.contains('/') || name.ends_with(".toml") {
        check_regular(Path::new(name))?;
        let text = std::fs::read_to_string(Path::new(name)).map_err(|e| {
            Error::config(format!(
                "{place}: the profile {name} cannot be read: {e}; give a path, or one of {}",
                names()
            ))
        })?;
        return Profile::parse(&text, name, known);
    }
    match SHIPPED.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Profile::parse(text, &format!("configs/hardware/{name}.toml"), known),
        None => {
            let known: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
            Err(Error::config(format!(
                "{place}: there is no profile \"{name}\"{}; there are: {}; or give the path of a file",
                suggest(name, &known),
                names()
            )))
        }
    }
}

fn names() -> String {
    SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
