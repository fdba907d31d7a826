//! The keys of `[endpoint]` that workers of synchronous training read, whatever protocol they speak.

use pktgen_core::config::{above, above_to, choices, settings};
use pktgen_core::units::Span;
use pktgen_workload::dense::fixed;

use super::settings::Missed;

settings! {
    /// What all of them read.
    pub keys Trained {
        /// What a worker does about iterations that went on without it.
        missed: Missed = "skip" of [
            ("skip", Missed::Skip, "an iteration whose results are all there is passed over"),
            ("join", Missed::Join, "the same, and what it has goes into the one that the others are in"),
            ("compute", Missed::Compute, "every iteration is computed"),
            ("abandon", Missed::Abandon, "computing ends when all results are there")
        ];
        /// What delays are multiples of: what a formula says of an iteration, or what a worker measured.
        typical: bool = "formula" of (choices([("formula", false), ("measured", true)]));
        /// Iterations of a whole training, for the time that it would take.
        iterations_to_target: Option<u64>;
    }
}

settings! {
    /// What they read that send again.
    pub keys Again {
        /// Time without a result after which a block is sent again; never where it is left out.
        retransmit: Option<Span> in above(Span::from_ps(0));
    }
}

settings! {
    /// What they read that multiply all gradients with one number.
    pub keys Scaled {
        /// What gradients are multiplied with to become integers.
        scale: f64 = (f64::from(fixed::ATP_SCALE)) in above_to(0.0, f64::from(i32::MAX)),
            "gradients are multiplied with it to become integers";
    }
}

settings! {
    /// What they read that may scale each block by itself.
    pub keys Scalings {
        /// By what gradients are multiplied.
        scaling: bool = "exponents" of [
            ("exponents", true, "as the public client: one window more, the largest exponent of all workers"),
            ("fixed", false, "by endpoint.scale")
        ];
    }
}
