//! The keys of `[endpoint]` for workers of synchronous training, for any protocol.

use pktgen_core::config::{above, above_to, choices, settings};
use pktgen_core::units::Span;
use pktgen_workload::dense::fixed;

use super::settings::Missed;

settings! {
    /// What all of them read.
    pub keys Trained {
        /// Reaction of a straggler to iterations that were completed without it.
        missed: Missed = "skip" of [
            ("skip", Missed::Skip, "skips iterations whose results are complete"),
            ("join", Missed::Join, "skips them; its gradients enter the iteration of the others"),
            ("compute", Missed::Compute, "computes every iteration"),
            ("abandon", Missed::Abandon, "stops computing when all results are complete")
        ];
        /// Typical iteration time, the unit of straggler delays: by a formula, or as measured by the worker.
        typical: bool = "formula" of (choices([("formula", false), ("measured", true)]));
        /// Iterations to the wanted accuracy; used to compute `time_to_target`.
        iterations_to_target: Option<u64>;
    }
}

settings! {
    /// What they read that send again.
    pub keys Again {
        /// Retransmission timeout of a block without a result; no retransmission if not set.
        retransmit: Option<Span> in above(Span::from_ps(0));
    }
}

settings! {
    /// What they read that multiply all gradients with one number.
    pub keys Scaled {
        /// Scaling factor from gradients to integers.
        scale: f64 = (f64::from(fixed::ATP_SCALE)) in above_to(0.0, f64::from(i32::MAX)),
            "gradients are multiplied with it to become integers";
    }
}

settings! {
    /// What they read that may scale each block by itself.
    pub keys Scalings {
        /// Source of the scaling factor.
        scaling: bool = "exponents" of [
            ("exponents", true, "as the public client: an extra window negotiates the largest exponent of all workers"),
            ("fixed", false, "endpoint.scale")
        ];
    }
}
