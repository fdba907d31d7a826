//! Interfaces among which a user chooses, and why some cannot be chosen.

use super::host::Host;
use super::{Finding, Level};
use pktgen_core::Result;
use pktgen_realtime::transport::safety;

const NAME: &str = "interface";

/// Every interface of this host but the loopback: usable, or refused by the guard that runs have.
pub fn choices(host: &Host) -> Result<Vec<Finding>> {
    host.check_namespace()?;
    let judged = |name: String| match safety::check_in(host.root(), &|| host.answers().routes(), &name, false) {
        Err(error) => Finding::refused(NAME, &name, "refused", &error.to_string()),
        Ok(()) => {
            let speed = host.number::<i64>(&format!("sys/class/net/{name}/speed")).filter(|mbps| *mbps > 0);
            let carrier = host.of_interface(&name, "carrier").is_some_and(|carrier| carrier == "1");
            let speed = speed.map_or(String::new(), |mbps| format!(", {mbps} Mbit/s"));
            let mtu = host.of_interface(&name, "mtu").unwrap_or_else(|| "?".into());
            let state = if carrier { "connected" } else { "no carrier" };
            let level = if carrier { Level::Ok } else { Level::Note };
            Finding::new(NAME, name, level, format!("{state}, MTU {mtu}{speed}"))
        }
    };
    Ok(host.interfaces().into_iter().map(judged).collect())
}
