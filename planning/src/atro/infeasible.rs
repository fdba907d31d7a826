//! Explains requests that no wiring satisfies.

use pktgen_core::{Error, Result};

use super::cluster::{Cluster, SIZE_MAX};
use super::criterion::most_workers;

/// Refuses a number of workers that does not fit with any number of flows per link.
pub(super) fn check(cluster: &Cluster, workers: u64) -> Result<()> {
    cluster.check()?;
    if !(1..=SIZE_MAX).contains(&workers) {
        return Err(Error::config(format!("workers: {workers} is not from 1 to {SIZE_MAX}; give another number")));
    }
    // If not all shapes are tried, only proved impossibility is refused.
    let most = |cluster: &Cluster| most_workers(cluster, workers).limit();
    if most(cluster) >= workers {
        return Ok(());
    }
    let deep = Cluster { layers: cluster.switches, ..*cluster };
    let why = if most(&deep) >= workers {
        let layers = (cluster.layers..=deep.layers).find(|&layers| most(&Cluster { layers, ..*cluster }) >= workers);
        let remedy = layers.map_or(String::new(), |layers| format!("; {layers} layers are enough"));
        format!("layers: {} are too few for {workers} workers{remedy}: raise them", cluster.layers)
    } else {
        let (switches, ports) = (cluster.switches, cluster.ports);
        format!(
            "workers: no ports left for {workers} at {switches} switches of {ports} ports, linked to each other and to the \
             server; give fewer workers, or more switches or ports"
        )
    };
    Err(Error::config(format!("{why} (at most {} workers fit)", most(cluster))))
}
