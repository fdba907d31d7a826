//! Pictures: one file per kind of chart, each making its data from an analysed sweep.
//!
//! To add one: a new file here, its `mod` line and its entry in [`CHARTS`]; a picture of a kind that [`crate::plot`]
//! draws already needs nothing else. What a picture needs of a run's records is kept by `keep` while the run is
//! analysed. Called by [`crate::model`].

mod against;
mod age_cdf;
mod aggregation;
mod clusters;
mod heat;
pub mod keep;
mod latency;
mod lateness;
mod loss;
mod network;
mod paper;
mod sawtooth;
pub(crate) mod states;

use pktgen_generator::registry::Named;

use crate::chart::Chart;
use crate::sweep::SweepData;

/// One kind of picture.
pub trait Picture: Named + Sync {
    /// What stands above its charts on a page.
    fn heading(&self) -> &'static str;
    /// Its charts of a sweep, or of a single run; none if there is nothing to show.
    fn charts(&self, sweep: &SweepData) -> Vec<Chart>;
}

/// All pictures, in the order of a page.
pub static CHARTS: &[&dyn Picture] = &[
    &against::Against,
    &sawtooth::Sawteeth,
    &age_cdf::AgeCdf,
    &heat::Heat,
    &clusters::Clusters,
    &loss::Loss,
    &aggregation::Aggregation,
    &latency::Latency,
    &lateness::Lateness,
    &network::NetworkLoad,
    &states::States,
    &paper::Paper,
];

/// All charts of a sweep.
pub fn all(sweep: &SweepData) -> Vec<Chart> {
    let of = |picture: &&'static dyn Picture| {
        let name = picture.name();
        picture.charts(sweep).into_iter().map(move |chart| Chart { picture: name, ..chart })
    };
    CHARTS.iter().flat_map(of).collect()
}
