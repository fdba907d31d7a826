//! Codes in columns of records.

/// Defines an enumeration of codes, each with a number, a name and a sentence.
macro_rules! codes {
    ($(#[$meta:meta])* $kind:ident { $($entry:ident = $code:literal, $name:literal, $about:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $kind {
            $(#[doc = $about] $entry = $code,)*
        }

        impl $kind {
            /// All codes, in order.
            pub const ALL: [$kind; [$($code),*].len()] = [$($kind::$entry),*];

            /// Names of all codes, in the same order.
            pub const NAMES: [&'static str; $kind::ALL.len()] = [$($name),*];

            /// Returns the name in reports.
            pub const fn name(self) -> &'static str {
                $kind::NAMES[self as usize]
            }

            /// Returns the sentence that explains the code.
            pub const fn about(self) -> &'static str {
                match self {
                    $($kind::$entry => $about,)*
                }
            }
        }
    };
}

codes! {
    /// What a device did. `packet_in` is always the packet whose fate the row records.
    Action {
        Queued = 0, "queued", "It waits in a queue.";
        Merged = 1, "merged", "It became part of `packet_out`.";
        Subsumed = 2, "subsumed", "`packet_out`, a newer update of the same worker, took its place.";
        Outranked = 3, "outranked", "`packet_out` took its place because of a higher reward.";
        Dropped = 4, "dropped", "It was dropped for `reason`.";
        Departed = 5, "departed", "Its first bit left the device; a result to workers was handed to its ports.";
        Bypassed = 6, "bypassed", "It goes around the queue on the same link.";
        Arrived = 7, "arrived", "It arrived and waits for the engine to take it in.";
    }
}

codes! {
    /// Why a packet was dropped. The list is the enumeration that reports use.
    Reason {
        QueueFull = 0, "queue_full", "The queue had no free slot (and, for Olaf, none of the cluster to join).";
        RewardLow = 1, "reward_low", "Its reward was lower than the waiting update's by more than the threshold.";
        EngineBusy = 2, "engine_busy", "The engine's input buffer was full: it arrived faster than the engine's rate.";
        BypassFull = 3, "bypass_full", "The bypass around the queue was full.";
        NoRoute = 4, "no_route", "No route to where it goes.";
        Malformed = 5, "malformed", "Not a packet of the format it claims.";
        CountFull = 6, "count_full", "The waiting aggregate already represents as many updates as its 16-bit count can say.";
        Fault = 7, "fault", "A fault that the experiment asked for took it on a wire of the device.";
        Duplicate = 8, "duplicate", "The same source has contributed to the block already.";
        UnknownJob = 9, "unknown_job", "No such aggregation job is configured.";
        UnknownSource = 10, "unknown_source", "The job has no such source, or no longer.";
        TableFull = 11, "table_full", "The job has as many blocks under way as it may, or the device has no room for one more.";
        WrongCount = 12, "wrong_count", "It has another number of gradients than its block, or more than its job may.";
        Stale = 13, "stale", "It is of an earlier iteration than the block that is being aggregated.";
        Late = 14, "late", "Its block was finished without it, and the device remembers that (`target.tombstones`).";
        DeviceLost = 15, "device_lost", "The device that had added it to a sum failed before the sum left.";
        Inactive = 16, "inactive", "The device takes nothing: it failed, or another does its work.";
    }
}

impl Reason {
    /// Returns whether a copy made by the network may have been dropped instead of the packet itself. For protocols
    /// whose packets are sums by key only: the others accept no copies.
    pub const fn may_be_copy(self) -> bool {
        matches!(self, Reason::Duplicate | Reason::Fault | Reason::QueueFull | Reason::TableFull | Reason::Inactive)
    }
}

codes! {
    /// Whether the payload equals the aggregate recomputed in the books' order.
    SumOk {
        Yes = 0, "yes", "Bit for bit (or within the bound where there are no books).";
        No = 1, "no", "No.";
        Unknown = 2, "unknown", "The expected sum is unknown.";
    }
}

codes! {
    /// Who sums the parameters of a packet of pairs.
    Heat {
        Hot = 0, "hot", "A device on the way.";
        Cold = 1, "cold", "The parameter server.";
    }
}

impl SumOk {
    /// Converts an optional comparison result.
    pub fn of(right: Option<bool>) -> Self {
        match right {
            Some(true) => SumOk::Yes,
            Some(false) => SumOk::No,
            None => SumOk::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions_in_the_lists() {
        assert!(Action::ALL.iter().enumerate().all(|(i, a)| *a as usize == i));
        assert!(Reason::ALL.iter().enumerate().all(|(i, r)| *r as usize == i));
        assert!(Heat::ALL.iter().enumerate().all(|(i, heat)| *heat as usize == i));
        assert!(SumOk::ALL.iter().enumerate().all(|(i, s)| *s as usize == i));
        assert_eq!((Reason::CountFull.name(), Action::Merged.name()), ("count_full", "merged"));
    }
}
