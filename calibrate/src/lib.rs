//! CALIBRATE: the settings under which runs of an experiment come out as measured or published ones do.
//!
//! Here live parameters, targets, emulators of metrics, the search, intervals and predictions. Here must not live a metric
//! (`pktgen-records`) or a run (`pktgen-realtime`). It must not print, or use `unsafe`.
//!
//! Map: [`settings`] reads `[calibrate]`, `source` the [`target`]s; [`twin`] runs the experiment at a setting of its [`parameter`]s and keeps what came of it;
//! `emulator` says what a metric is between settings that were run, `noise` how far runs differ, `alike` which targets have the same information, `fit` how far a setting is from the
//! targets, [`search`] which settings to run, `interval` how far a parameter may move; [`answer`] is what was found, [`predict`] what follows, `page` how it is shown.
#![forbid(unsafe_code)]

mod alike;
mod answer;
mod cholesky;
mod emulator;
mod fit;
mod interval;
mod minimum;
mod noise;
mod page;
mod parameter;
mod predict;
mod search;
mod sequence;
mod settings;
mod source;
mod target;
mod twin;

#[cfg(test)]
mod planted_tests;

pub use answer::calibrate;
pub use page::Calibration;
pub use predict::{at_point, predict};
pub use settings::{CalibrateKeys, CalibrateSettings, PredictPoint};
pub use source::{MeasuredValues, TargetSource};
pub use target::{TargetValue, choose};
pub use twin::{Evaluated, ExperimentTwin, TwinPlan, is_in};
