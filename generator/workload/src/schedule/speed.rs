//! How fast a schedule is: a key that several of them share.

use crate::config::{Section, settings};
use crate::units::{Rate, Span};
use crate::{Error, Result};

/// How fast: the whole run's mean rate, or a worker's mean period. Shared by the schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// All bits of the run over its duration.
    Offered(Rate),
    /// Mean period of a worker with relative period 1.
    Period(Span),
}

settings! {
    /// What says it; exactly one of them must be there.
    pub(super) struct Written {
        /// Mean rate of the whole run (all bits over its duration), instead of `period`.
        offered: Option<Rate>;
        /// Mean period of a worker, instead of `offered`.
        period: Option<Span>;
    }
}

impl Speed {
    /// Reads `offered` or `period`; exactly one of them must be there.
    pub fn read(section: &mut Section) -> Result<Self> {
        let Written { offered, period } = Written::read(section)?;
        let zero = |key: &str, value: String| {
            Err(Error::config(format!("{}: {value} is not above 0; choose more", section.place(key))))
        };
        match (offered, period) {
            (Some(_), Some(_)) => Err(Error::config(format!(
                "{}: \"offered\" and \"period\" are both given; give one",
                section.place("period")
            ))),
            (None, None) => Err(Error::config(
                "schedule: neither \"offered\" nor \"period\" is given; give one, for example offered = \"60Gbps\"",
            )),
            (Some(rate), None) if rate.bps() == 0 => zero("offered", rate.to_string()),
            (None, Some(span)) if span.ps() == 0 => zero("period", span.to_string()),
            (Some(rate), None) => Ok(Speed::Offered(rate)),
            (None, Some(span)) => Ok(Speed::Period(span)),
        }
    }
}
