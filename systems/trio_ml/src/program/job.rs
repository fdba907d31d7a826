//! Job records (Trio §4 and Figure 17): who takes part, what a job may hold, and where its Results go.

use std::collections::VecDeque;

use crate::format::{PORT, frame_bytes};
use pktgen_core::record::PacketId;
use pktgen_core::time::{MS, Time};
use pktgen_wire::wire::frame::{SERVER_IP, Template, group_ip};

use super::late::FinishedBlocks;
use super::mask::Mask;
use super::settings::{Settings, has_devices_below};
use super::stragglers::StragglerCounts;
use super::table::Table;
use pktgen_engine::groups::JobPlace;

/// A job, configured by the control plane before the run (§4). Names of Figure 17; `out_src_addr` and `out_dst_addr` are
/// in the template, `out_nh_addr` is `own` and `ports`. What follows `src_mask` is ours.
pub(crate) struct JobRecord {
    /// Its id.
    pub id: u8,
    /// Blocks under way.
    pub block_curr_cnt: u16,
    /// Most of them at once.
    pub block_cnt_max: u16,
    /// Most gradients of a block.
    pub block_grad_max: u16,
    /// Timeout in milliseconds.
    pub block_exp: u8,
    /// Blocks so far; wider than the figure's 32 bits.
    pub block_total_cnt: u64,
    /// Sources in the mask.
    pub src_cnt: u8,
    /// The sources that may contribute now.
    pub src_mask: Mask,
    /// Workers that each source stands for; 0 for none.
    pub workers_of: Box<[u8; 256]>,
    /// Workers of all sources.
    pub workers: u8,
    /// Our id at the device above; none on top.
    pub own: Option<u8>,
    /// Ports towards the job's workers.
    pub ports: Vec<u16>,
    /// Headers of Results.
    pub template: Template,
    /// Which of the device's timeouts.
    pub class: usize,
    /// Blocks that were finished of late.
    pub finished: FinishedBlocks,
    /// Records that late packets opened, the oldest first; those that are gone since are passed over.
    pub late: VecDeque<(u32, u32, PacketId)>,
    /// Counts of stragglers.
    pub watch: StragglerCounts,
}

impl JobRecord {
    /// The record of job `id`, one of `jobs`. Its timeout is that of its place: on top of devices that have timeouts of their own it is
    /// longer, so that theirs run out first (ours; §5 speaks of one).
    pub fn new(id: u8, place: &JobPlace, settings: &Settings, jobs: usize) -> Self {
        let mut workers_of = Box::new([0; 256]);
        let mut src_mask = Mask::default();
        for source in &place.sources {
            workers_of[usize::from(source.id)] = source.workers;
            src_mask.insert(source.id);
        }
        // §4: a Result goes to the job's multicast group or, in a hierarchy, to the aggregator above.
        let target = if place.own.is_none() { group_ip(u16::from(id)) } else { SERVER_IP };
        let above = has_devices_below(place);
        JobRecord {
            id,
            block_curr_cnt: 0,
            block_cnt_max: settings.block_cnt_max,
            block_grad_max: settings.block_grad_max,
            block_exp: if above { settings.top_timeout_ms } else { settings.timeout_ms },
            block_total_cnt: 0,
            src_cnt: src_mask.count() as u8,
            src_mask,
            workers_of,
            workers: place.sources.iter().fold(0, |sum: u8, source| sum.saturating_add(source.workers)),
            own: place.own,
            ports: place.ports.clone(),
            template: Template::new((SERVER_IP, PORT), (target, PORT), frame_bytes(settings.block_grad_max)),
            class: 0,
            finished: FinishedBlocks::new(settings.block_cnt_max, jobs),
            late: VecDeque::new(),
            watch: StragglerCounts::default(),
        }
    }

    /// The oldest record that a late packet opened and that is still there.
    pub(crate) fn oldest_late(&mut self, table: &Table) -> Option<u32> {
        while let Some((index, block, opener)) = self.late.pop_front() {
            let record = table.get(index);
            if table.find(self.id, block) == Some(index) && record.late && record.opener == opener {
                return Some(index);
            }
        }
        None
    }

    /// The timeout.
    pub fn timeout(&self) -> Time {
        Time::from(self.block_exp) * MS
    }
}
