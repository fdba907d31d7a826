//! A tensor of floats as the packets of a job, and back: the extra window of exponents.
//!
//! Workers must scale a block by the same number before the switch can add it, and no worker knows the others' gradients. So
//! float jobs of the public client send one window more: packet `i` says how large block `i` is (its exponent), the switch
//! answers with the largest exponent of all workers, and packet `i + W` carries block `i` scaled by that, together with the
//! exponent of block `i + W`. The data of the first window counts for nothing, the exponents of the last one neither.
//!
//! Scale: with `e` the largest exponent and `N` workers, `(2³¹ − 1) / (N · 2^e)`; a value is the integer nearest to the
//! product (`dense/fixed.rs`). Pure: who sends packets, and when, is not known here.

use super::fixed::{average, exponent_of, quantise, scale_of};

/// What the exponent of a packet is that describes no block: it is never the largest.
pub(crate) const NO_EXPONENT: i8 = i8::MIN;

/// A float job of one worker: its tensor, and the scales that it has received so far.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    tensor: &'a [f32],
    elements: usize,
    window: u32,
    workers: u32,
    /// The largest exponent of each block, as far as the results brought it.
    told: Vec<Option<i8>>,
}

/// What a packet carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Exponent of the block that follows a window later; [`NO_EXPONENT`] where none does.
    pub exponent: i8,
    /// The values; zeros in the first window, and behind the tensor's end.
    pub values: Vec<i32>,
    /// Values that did not fit an integer.
    pub clipped: u32,
}

/// Returns the number of packets that describe and do not carry, ahead of `blocks` blocks: a window, so that a packet waits for the one
/// before in its slot; as many as there are blocks, where a window has a slot for every packet.
pub fn lead(window: u32, blocks: u32) -> u32 {
    if window < blocks.saturating_mul(2) { window } else { blocks }
}

impl<'a> Job<'a> {
    /// A job of `workers` workers over `tensor`, in packets of `elements` values (not 0), with `window` packets outstanding.
    pub fn new(tensor: &'a [f32], elements: usize, window: u32, workers: u32) -> Self {
        let blocks = tensor.len().div_ceil(elements.max(1));
        Job { tensor, elements: elements.max(1), window, workers, told: vec![None; blocks] }
    }

    /// Packets that describe and do not carry.
    pub fn lead(&self) -> u32 {
        lead(self.window, self.told.len() as u32)
    }

    /// Packets of the job.
    pub fn packets(&self) -> u32 {
        self.told.len() as u32 + self.lead()
    }

    fn block(&self, block: usize) -> &'a [f32] {
        let start = block * self.elements;
        &self.tensor[start..(start + self.elements).min(self.tensor.len())]
    }

    /// The block that packet `index` carries, and by what it is scaled; none where its data counts for nothing.
    fn carried(&self, index: u32) -> Option<(usize, Option<f32>)> {
        let block = index.checked_sub(self.lead())? as usize;
        Some((block, (*self.told.get(block)?).map(|exponent| scale_of(exponent, self.workers) as f32)))
    }

    /// Packet `index`; none if there is no such packet, or if the result that says how to scale it has not come.
    pub fn packet(&self, index: u32) -> Option<Packet> {
        if index >= self.packets() {
            return None;
        }
        let describes = index as usize;
        let exponent = if describes < self.told.len() { exponent_of(self.block(describes)) } else { NO_EXPONENT };
        let mut packet = Packet { exponent, values: vec![0; self.elements], clipped: 0 };
        if let Some((block, scale)) = self.carried(index) {
            packet.clipped = quantise(self.block(block), scale?, &mut packet.values);
        }
        Some(packet)
    }

    /// The result of packet `index`: the largest exponent, and the sums. Writes the sum of the block that it carries into
    /// `sums`, which is as long as the tensor; false if the packet is none of this job's, or came before its scale.
    pub fn result(&mut self, index: u32, exponent: i8, values: &[i32], sums: &mut [f32]) -> bool {
        if index >= self.packets() {
            return false;
        }
        if let Some((block, scale)) = self.carried(index) {
            let Some(scale) = scale else { return false };
            let start = block * self.elements;
            let room = sums.iter_mut().skip(start).take(self.elements);
            room.zip(values).for_each(|(sum, value)| *sum = average(*value, f64::from(scale), 1));
        }
        if let Some(told) = self.told.get_mut(index as usize) {
            *told = Some(exponent);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The switch: sums and the largest exponent.
    fn switch(packets: &[Packet]) -> (i8, Vec<i32>) {
        let mut sums = vec![0i32; packets[0].values.len()];
        for packet in packets {
            sums.iter_mut().zip(&packet.values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        }
        (packets.iter().map(|packet| packet.exponent).max().unwrap(), sums)
    }

    /// Every packet in order, through the switch; what every worker has in the end.
    fn exchange(tensors: &[Vec<f32>], elements: usize, window: u32) -> Vec<Vec<f32>> {
        let mut jobs: Vec<_> =
            tensors.iter().map(|tensor| Job::new(tensor, elements, window, tensors.len() as u32)).collect();
        let mut sums = vec![vec![0.0; tensors[0].len()]; tensors.len()];
        for index in 0..jobs[0].packets() {
            let packets: Vec<_> = jobs.iter().map(|job| job.packet(index).unwrap()).collect();
            assert!(packets.iter().all(|packet| packet.clipped == 0));
            let (exponent, values) = switch(&packets);
            for (job, sums) in jobs.iter_mut().zip(&mut sums) {
                assert!(job.result(index, exponent, &values, sums));
            }
        }
        sums
    }

    /// The same without packets: block by block, with the scale that the rule says, in f64 and whole numbers.
    fn naive(tensors: &[Vec<f32>], elements: usize) -> Vec<f32> {
        let mut sums = vec![0.0; tensors[0].len()];
        for start in (0..sums.len()).step_by(elements) {
            let end = (start + elements).min(sums.len());
            let largest = tensors.iter().flat_map(|t| &t[start..end]).fold(0f32, |most, x| most.max(x.abs()));
            let mut e = -126;
            while f64::from(largest) >= 2f64.powi(e) {
                e += 1;
            }
            let scale = ((2f64.powi(31) - 1.0) / (tensors.len() as f64 * 2f64.powi(e))).min(f64::from(f32::MAX)) as f32;
            for i in start..end {
                let whole: i64 = tensors.iter().map(|t| f64::from(t[i] * scale).round_ties_even() as i64).sum();
                sums[i] = (whole as f64 / f64::from(scale)) as f32;
            }
        }
        sums
    }

    #[test]
    fn a_window_more_goes_first_and_says_only_exponents() {
        let tensor = [1.5f32, -3.0, 0.25, 0.0, 100.0];
        let mut job = Job::new(&tensor, 2, 2, 1);
        assert_eq!((job.lead(), job.packets()), (2, 5));
        let first: Vec<_> = (0..2).map(|i| job.packet(i).unwrap()).collect();
        assert_eq!(
            first.iter().map(|p| (p.exponent, &p.values[..])).collect::<Vec<_>>(),
            [(2, &[0, 0][..]), (-1, &[0, 0])]
        );
        assert_eq!(job.packet(2), None, "nobody has said yet how to scale block 0");
        let mut sums = [0.0; 5];
        assert!(!job.result(2, 0, &[0, 0], &mut sums), "its scale comes with an earlier result");
        assert!(job.result(0, 2, &[7, 7], &mut sums));
        assert_eq!(sums, [0.0; 5], "the data of the first window counts for nothing");
        let third = job.packet(2).unwrap();
        // 2³¹/4 per unit, less a rounding of the scale to 24 bits.
        assert_eq!((third.exponent, &third.values[..]), (7, &[805_306_368, -1_610_612_736][..]));
        assert!(job.result(2, 7, &third.values, &mut sums));
        assert_eq!(sums[..2], [1.5, -3.0]);
        assert!(job.result(1, -1, &[0, 0], &mut sums) && job.packet(3).unwrap().exponent == NO_EXPONENT);
        assert!(job.packet(5).is_none() && !job.result(5, 0, &[], &mut sums));
        assert_eq!(Job::new(&tensor, 2, 99, 1).packets(), 6, "no more than there are blocks");
        assert_eq!(Job::new(&[], 2, 4, 1).packets(), 0);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_naive_model(
            numbers in prop::collection::vec((any::<i16>(), -60i32..40), 1..200),
            workers in 1usize..6,
            elements in 1usize..40,
            window in 1u32..12,
        ) {
            let tensor = |worker: usize| {
                numbers.iter().map(|(n, e)| f32::from(*n) * (worker as f32 - 1.7) * (*e as f32).exp2()).collect::<Vec<_>>()
            };
            let tensors: Vec<_> = (0..workers).map(tensor).collect();
            let expected = naive(&tensors, elements);
            for sums in exchange(&tensors, elements, window) {
                prop_assert_eq!(&sums, &expected);
            }
            // And near what f64 says: half a unit per worker, and the last bit of an f32.
            for (i, sum) in expected.iter().enumerate() {
                let block = i / elements * elements..((i / elements + 1) * elements).min(numbers.len());
                let most = tensors.iter().flat_map(|t| &t[block.clone()]).fold(0f32, |most, x| most.max(x.abs()));
                let exact: f64 = tensors.iter().map(|t| f64::from(t[i])).sum();
                let unit = f64::from(most) * workers as f64 / 2f64.powi(29);
                let room = unit * workers as f64 + f64::from(most) * workers as f64 * 2f64.powi(-23) + 1e-37;
                prop_assert!((f64::from(*sum) - exact).abs() <= room, "{sum} {exact} {room}");
            }
        }
    }
}
