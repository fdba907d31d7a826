//! Content of each contribution, from which the ledger recomputes sums.

use pktgen_core::record::PacketId;
use pktgen_workload::dense::fixed;

use super::{Layout, ResultHead};
use crate::endpoint::overflow::Overflow;
use crate::endpoint::{Content, Registers, ScalingError};

/// How devices sum packets.
#[derive(Debug, Clone, Copy)]
pub struct Summing {
    /// Whether all packets have the same number of elements: the end of the model is padded with zeros.
    pub whole: bool,
    /// The behaviour on sums that exceed 32 bits.
    pub registers: Registers,
}

/// Contributions of the dense workload, scaled to integers.
pub struct Contributions {
    layout: Layout,
    summing: Summing,
    /// Whether packets carry results, whose means have an error; not if a server completes their sums.
    are_results: bool,
    left_range: bool,
    room: Vec<i32>,
    floats: Vec<f32>,
    exact: Vec<f64>,
}

impl Contributions {
    /// The contributions of this layout, summed in this way.
    pub fn new(layout: Layout, summing: Summing) -> Self {
        let elements = usize::from(layout.dense.elements_per_packet());
        Contributions {
            layout,
            summing,
            are_results: true,
            left_range: false,
            room: vec![0; elements],
            floats: vec![0.0; elements],
            exact: vec![0.0; elements],
        }
    }

    /// The same in packets to a server that completes the sums.
    pub(super) fn partial(self) -> Self {
        Contributions { are_results: false, ..self }
    }

    /// Returns iteration and block of a packet; no block if its data do not count.
    fn find(&self, packet: PacketId) -> (u32, Option<u32>) {
        let packets = self.layout.packets();
        (packet.seq() / packets, self.layout.block_of(packet.seq() % packets))
    }

    /// Returns iteration and block of a packet if the scaling error is measured in it. Blocks are counted, not packets: those ahead of the
    /// model have no data, and may be every n-th one in all iterations.
    fn sampled(&self, packet: PacketId) -> Option<(u32, u32)> {
        let (iteration, block) = self.find(packet);
        let is_sampled =
            |block: &u32| self.layout.dense.number(iteration, *block).is_multiple_of(ScalingError::SAMPLED);
        block.filter(is_sampled).map(|block| (iteration, block))
    }
}

/// Adds like devices, with wrap-around. Returns whether a sum wrapped.
fn add(sums: &mut [i32], values: &[i32]) -> bool {
    // Derived from signs, without an early exit, so that the loop is vectorised.
    let mut left = 0;
    for (sum, value) in sums.iter_mut().zip(values) {
        let new = sum.wrapping_add(*value);
        left |= (*sum ^ new) & (*value ^ new);
        *sum = new;
    }
    left < 0
}

/// Returns the largest magnitude of these values and of `most`.
fn largest(most: u32, values: &[i32]) -> u32 {
    values.iter().fold(most, |most, value| most.max(value.unsigned_abs()))
}

impl Content for Contributions {
    fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
        let mut elements = self.room.len();
        self.left_range = false;
        // Where registers saturate, another order may leave 32 bits, too.
        let depends = members.len() > 1 && self.summing.registers == Registers::Saturate;
        let mut most = 0;
        // All members are of one block and job, unless a device is faulty: then each is computed separately.
        let mut known = None;
        for packet in members {
            let (iteration, block) = self.find(*packet);
            let worker = packet.worker();
            let lanes = self.layout.lanes.as_ref();
            let Some(block) = block else {
                // It carries lanes only.
                if let Some(lanes) = lanes {
                    let own = &mut self.room[..lanes.count()];
                    lanes.write_whole(worker, packet.seq(), own);
                    most = if depends { largest(most, own) } else { 0 };
                    self.left_range |= add(sums, own);
                }
                continue;
            };
            let dense = &self.layout.dense;
            let key = (dense.job_of(worker), iteration, block);
            let scale = match known {
                Some((same, scale)) if same == key => scale,
                _ => self.layout.scale_of(worker, iteration, block),
            };
            known = Some((key, scale));
            let own = usize::from(dense.elements_of(block));
            dense.fixed(worker, iteration, block, scale, &mut self.room[..own]);
            let mut filled = own;
            if let Some(lanes) = lanes {
                filled = own.max(lanes.count());
                self.room[own..filled].fill(0);
                lanes.write_whole(worker, packet.seq(), &mut self.room);
            }
            most = if depends { largest(most, &self.room[..filled]) } else { 0 };
            self.left_range |= add(sums, &self.room[..filled]);
            elements = if self.summing.whole { self.room.len() } else { own };
        }
        self.left_range |= u64::from(most) * members.len() as u64 >= i32::MAX as u64;
        elements
    }

    fn error(&mut self, members: &[PacketId], sums: &[i32]) -> ScalingError {
        let first = members.first().filter(|_| self.are_results);
        let Some((iteration, block)) = first.and_then(|first| self.sampled(*first)) else {
            return ScalingError::default();
        };
        let elements = usize::from(self.layout.dense.elements_of(block));
        let scale = f64::from(self.layout.scale_of(members[0].worker(), iteration, block));
        self.exact.fill(0.0);
        for member in members {
            let floats = &mut self.floats[..elements];
            self.layout.dense.floats(member.worker(), iteration, block, floats);
            self.exact.iter_mut().zip(floats).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        let mut error = ScalingError::default();
        // Lanes are not gradients.
        let lanes = self.layout.lanes.as_ref().map_or(0, |lanes| lanes.count());
        for (sum, exact) in sums.iter().zip(&self.exact[..elements]).skip(lanes) {
            let exact = exact / members.len() as f64;
            error.off += (f64::from(fixed::average(*sum, scale, members.len() as u32)) - exact).abs();
            error.of += exact.abs();
        }
        error
    }

    fn elements(&self) -> usize {
        self.room.len()
    }

    fn left_range(&self) -> bool {
        self.left_range
    }

    fn registers(&self) -> Registers {
        self.summing.registers
    }
}

/// Compares results that a server made of all contributions with their sums.
pub(super) struct ResultCheck {
    content: Contributions,
    workers: u32,
    members: Vec<PacketId>,
    sums: Vec<i32>,
    overflow: Overflow,
    error: ScalingError,
    /// Correct results.
    pub(super) right: u64,
    /// Wrong results.
    pub(super) wrong: u64,
}

impl ResultCheck {
    /// A check of these contributions, with `workers` workers per job.
    pub(super) fn new(content: Contributions, workers: u32) -> Self {
        let sums = vec![0; content.elements()];
        ResultCheck {
            content,
            workers,
            members: Vec::with_capacity(workers as usize),
            sums,
            overflow: Overflow::of_server(),
            error: ScalingError::default(),
            right: 0,
            wrong: 0,
        }
    }

    /// Results with sums that 32 bits do not hold.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflow.results
    }

    /// Error of the means that workers compute from them, in 10⁻⁹; `None` if nothing was scaled.
    pub(super) fn scaling_error_ppb(&self) -> Option<u64> {
        self.error.ppb()
    }

    /// Looks at the values of a result of `job`, as they lie in its packet.
    pub(super) fn look(&mut self, job: u16, head: &ResultHead, values: &[u8]) {
        let first = u32::from(job) * self.workers;
        self.members.clear();
        self.members.extend((first..first + self.workers).map(|worker| PacketId::new(worker, head.seq, 0)));
        self.sums.fill(0);
        let elements = self.content.add(&self.members, &mut self.sums);
        let (integers, rest) = values.as_chunks::<4>();
        let same = integers.len() == elements
            && rest.is_empty()
            && integers.iter().zip(&self.sums).all(|(v, sum)| i32::from_be_bytes(*v) == *sum);
        let sums = &self.sums[..elements];
        let right = self.overflow.judge(&mut self.content, &self.members, sums, (same, Some(values)));
        if right == Some(true) && u32::from(head.count) == self.workers {
            self.right += 1;
            if self.content.sampled(PacketId::new(first, head.seq, 0)).is_some() {
                // The sums as they are: registers may saturate.
                self.sums.iter_mut().zip(integers).for_each(|(sum, v)| *sum = i32::from_be_bytes(*v));
                self.error.add(self.content.error(&self.members, &self.sums[..elements]));
            }
        } else {
            self.wrong += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pktgen_core::seed::Seed;
    use pktgen_wire::wire::integers::emit_values;
    use pktgen_workload::dense::{Dense, DensePlan};

    use super::super::Scaling;
    use super::*;

    /// A result is correct if it is the complete sum of all workers' integers, and its header says so.
    #[test]
    fn results_of_servers_are_compared_with_all_contributions() {
        let plan = DensePlan { elements_total: 100, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(2)).unwrap());
        let workers = dense.workers_per_job();
        let layout = Layout::new(dense.clone(), Scaling::Fixed(1e6), 4);
        for (block, elements) in [(0, 64), (1, 36)] {
            let mut sums = [0i32; 64];
            for worker in 0..workers {
                let mut own = [0i32; 64];
                dense.fixed(worker, 0, block, 1e6, &mut own[..elements]);
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            let head =
                |count| ResultHead { job: None, seq: block, count, degraded: false, exponent: 0, congested: false };
            let bytes = |sums: &[i32]| {
                let mut bytes = vec![0; sums.len() * 4];
                emit_values(sums, &mut bytes);
                bytes
            };
            let whole = bytes(&sums);
            let mut other = sums;
            other[3] += 1;
            let all = workers as u16;
            for (values, count, right) in [
                (whole.clone(), all, true),
                (whole.clone(), all - 1, false),
                (whole[..whole.len() - 4].to_vec(), all, false),
                (bytes(&other), all, false),
                (Vec::new(), all, false),
            ] {
                let summing = Summing { whole: true, registers: Registers::Wrap };
                let mut check = ResultCheck::new(Contributions::new(layout.clone(), summing), workers);
                check.look(0, &head(count), &values);
                assert_eq!((check.right, check.wrong), (u64::from(right), u64::from(!right)));
                // Means are of results, and every 64th block is measured.
                assert_eq!(check.scaling_error_ppb().is_some(), right && block == 0);
            }
        }
    }

    /// With exponents as many packets as an iteration has blocks may go ahead of the model: here all numbers that 64 divides do.
    #[test]
    fn blocks_behind_a_window_ahead_are_measured() {
        let plan = DensePlan { elements_total: 1024, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(2)).unwrap());
        let workers = dense.workers_per_job();
        let layout = Layout::new(dense, Scaling::Exponents, 512);
        assert_eq!((layout.lead(), layout.packets()), (16, 32));
        let content = || Contributions::new(layout.clone(), Summing { whole: true, registers: Registers::Wrap });
        let measured = |seqs: std::ops::Range<u32>| {
            let mut check = ResultCheck::new(content(), workers);
            for seq in seqs {
                let members: Vec<PacketId> = (0..workers).map(|worker| PacketId::new(worker, seq, 0)).collect();
                let mut sums = [0; 64];
                content().add(&members, &mut sums);
                let mut bytes = vec![0; 256];
                emit_values(&sums, &mut bytes);
                let count = workers as u16;
                let head = ResultHead { job: None, seq, count, degraded: false, exponent: 0, congested: false };
                check.look(0, &head, &bytes);
            }
            assert_eq!(check.wrong, 0);
            check.scaling_error_ppb().is_some()
        };
        assert!(measured(16..17), "the first block");
        assert!(!measured(0..16) && !measured(17..128), "the next one is the first of the fifth iteration");
        assert!(measured(17..145));
    }

    /// A packet to a server that completes the sums is not a result: its mean is none of a worker.
    #[test]
    fn parts_of_results_have_no_scaling_error() {
        let plan = DensePlan { elements_total: 100, elements_per_packet: 64, ..DensePlan::default() };
        let layout = Layout::new(Arc::new(Dense::new(plan, Seed(2)).unwrap()), Scaling::Fixed(1e6), 4);
        let summing = Summing { whole: true, registers: Registers::Wrap };
        let (lone, mut sums) = ([PacketId::new(1, 0, 0)], [0; 64]);
        let mut content = Contributions::new(layout, summing);
        content.add(&lone, &mut sums);
        assert!(content.error(&lone, &sums).of > 0.0);
        assert_eq!(content.partial().error(&lone, &sums), ScalingError::default());
    }

    /// Sums that leave 32 bits are right as registers make them, and counted.
    #[test]
    fn sums_of_servers_that_leave_their_range_are_counted() {
        let plan = DensePlan { elements_total: 6400, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(2)).unwrap());
        let (workers, scale) = (dense.workers_per_job(), i32::MAX as f32);
        let layout = Layout::new(dense.clone(), Scaling::Fixed(scale), 4);
        let summing = Summing { whole: true, registers: Registers::Wrap };
        let mut check = ResultCheck::new(Contributions::new(layout, summing), workers);
        let mut beyond = 0;
        for block in 0..100 {
            let mut exact = [0i64; 64];
            for worker in 0..workers {
                let mut own = [0i32; 64];
                dense.fixed(worker, 0, block, scale, &mut own);
                exact.iter_mut().zip(own).for_each(|(sum, own)| *sum += i64::from(own));
            }
            beyond += u64::from(exact.iter().any(|sum| i32::try_from(*sum).is_err()));
            let mut bytes = vec![0; 256];
            emit_values(&exact.map(|sum| sum as i32), &mut bytes);
            let count = workers as u16;
            check.look(
                0,
                &ResultHead { job: None, seq: block, count, degraded: false, exponent: 0, congested: false },
                &bytes,
            );
        }
        assert!(beyond > 0);
        assert_eq!((check.right, check.wrong, check.overflowed()), (100, 0, beyond));
    }

    /// Registers that saturate: sums are counted if any order of additions may leave 32 bits, whatever order the account adds in.
    #[test]
    fn sums_that_leave_their_range_in_some_order_are_counted_where_registers_saturate() {
        let plan = DensePlan { elements_total: 64_000, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(2)).unwrap());
        let (workers, scale) = (dense.workers_per_job(), i32::MAX as f32);
        let layout = Layout::new(dense.clone(), Scaling::Fixed(scale), 4);
        let summing = Summing { whole: true, registers: Registers::Saturate };
        let mut check = ResultCheck::new(Contributions::new(layout, summing), workers);
        let (mut possible, mut in_order) = (0, 0);
        for block in 0..1000 {
            let (mut spans, mut sums, mut left) = ([[0i64; 2]; 64], [0i32; 64], false);
            for worker in 0..workers {
                let mut own = [0i32; 64];
                dense.fixed(worker, 0, block, scale, &mut own);
                for (span, value) in spans.iter_mut().zip(own) {
                    span[usize::from(value > 0)] += i64::from(value);
                }
                left |= add(&mut sums, &own);
            }
            possible += u64::from(spans.iter().any(|span| Registers::Saturate.may_leave(*span)));
            in_order += u64::from(left);
            let mut bytes = vec![0; 256];
            emit_values(&sums, &mut bytes);
            let count = workers as u16;
            check.look(
                0,
                &ResultHead { job: None, seq: block, count, degraded: false, exponent: 0, congested: false },
                &bytes,
            );
        }
        assert!(in_order < possible, "{in_order} of {possible}");
        assert_eq!((check.right, check.wrong, check.overflowed()), (1000, 0, possible));
    }

    /// A single contribution is not added.
    #[test]
    fn one_contribution_at_the_end_of_the_range_is_no_overflow() {
        let plan = DensePlan { elements_total: 6400, elements_per_packet: 64, ..DensePlan::default() };
        let layout = Layout::new(Arc::new(Dense::new(plan, Seed(2)).unwrap()), Scaling::Fixed(3e38), 4);
        let summing = Summing { whole: true, registers: Registers::Saturate };
        let mut content = Contributions::new(layout, summing);
        let both = [PacketId::new(0, 0, 0), PacketId::new(1, 0, 0)];
        content.add(&both[..1], &mut [0; 64]);
        assert!(!content.left_range());
        content.add(&both, &mut [0; 64]);
        assert!(content.left_range());
    }
}
