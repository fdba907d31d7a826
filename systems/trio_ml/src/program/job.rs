//! Job records (Trio §4 and Figure 17): participants, limits of a job, and the destination of its Results.

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

/// A job, configured by the control plane before the run (§4). Names are those of Figure 17; `out_src_addr` and `out_dst_addr` are in the
/// template, `out_nh_addr` is `own` and `ports`. The fields after `src_mask` are our additions.
pub(crate) struct JobRecord {
    /// Its id.
    pub id: u8,
    /// Number of blocks in progress.
    pub block_curr_cnt: u16,
    /// Maximum number of blocks in progress.
    pub block_cnt_max: u16,
    /// Maximum number of gradients in a block.
    pub block_grad_max: u16,
    /// Timeout in milliseconds.
    pub block_exp: u8,
    /// Number of blocks so far; wider than the 32 bits in the figure.
    pub block_total_cnt: u64,
    /// Number of sources in the mask.
    pub src_cnt: u8,
    /// The sources that may contribute.
    pub src_mask: Mask,
    /// Number of workers that each source represents; 0 for none.
    pub workers_of: Box<[u8; 256]>,
    /// Number of workers of all sources.
    pub workers: u8,
    /// This device's id at the device above; `None` at the top.
    pub own: Option<u8>,
    /// Ports towards the job's workers.
    pub ports: Vec<u16>,
    /// Headers of Results.
    pub template: Template,
    /// Index of its timeout.
    pub class: usize,
    /// Recently finished blocks.
    pub finished: FinishedBlocks,
    /// Records opened by late packets, the oldest first: index, block and opener. Some no longer exist.
    pub late: VecDeque<(u32, u32, PacketId)>,
    /// Counters of stragglers.
    pub watch: StragglerCounts,
}

impl JobRecord {
    /// Creates the record of job `id`, one of `jobs`. Above devices with timeouts of their own, its timeout is longer,
    /// so that theirs expire first (our choice; §5 mentions one).
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

    /// Returns the oldest existing record that a late packet opened.
    pub(crate) fn oldest_late(&mut self, table: &Table) -> Option<u32> {
        self.forget_late(table);
        self.late.pop_front().map(|(index, ..)| index)
    }

    /// Adds a record that a late packet opened.
    pub(crate) fn opened_late(&mut self, record: (u32, u32, PacketId), table: &Table) {
        self.forget_late(table);
        self.late.push_back(record);
    }

    /// Removes records that no longer exist, so that the first one exists.
    fn forget_late(&mut self, table: &Table) {
        let id = self.id;
        let gone = |entry: &mut (u32, u32, PacketId)| {
            let (index, block, opener) = *entry;
            let record = table.get(index);
            table.find(id, block) != Some(index) || !record.late || record.opener != opener
        };
        while self.late.pop_front_if(gone).is_some() {}
    }

    /// Returns the timeout.
    pub fn timeout(&self) -> Time {
        Time::from(self.block_exp) * MS
    }
}
