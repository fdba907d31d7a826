//! Sums that exceed 32 bits: which of them are right, and the number of such results.

use pktgen_core::record::PacketId;
use pktgen_wire::wire::Registers;

use super::Content;

/// Checks results with sums that may have exceeded 32 bits.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    own: Vec<i32>,
    /// By element: the sum of the negative and of the positive values.
    spans: Vec<[i64; 2]>,
    /// Whether a server adds up what left registers: its sums wrap around.
    by_server: bool,
    /// Results with a sum that exceeds 32 bits.
    pub(crate) results: u64,
}

impl Overflow {
    /// Creates a check of results of a server that adds up what left registers.
    pub(crate) fn of_server() -> Self {
        Overflow { by_server: true, ..Overflow::default() }
    }

    /// Returns whether a result is correct; `same` says whether its values equal `sums`, which `content` has just
    /// computed from `members`. If registers saturate, elements that may have exceeded 32 bits in some order are only
    /// compared with the range of such orders, and not at all behind a server; without `values` results with other
    /// sums are undecided.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        content: &mut dyn Content,
        members: &[PacketId],
        sums: &[i32],
        (same, values): (bool, Option<&[u8]>),
    ) -> Option<bool> {
        let registers = content.registers();
        if !content.left_range() && (same || registers == Registers::Wrap) {
            return Some(same);
        }
        self.look(content, members, sums.len());
        let leaves = |span| registers.may_leave(span);
        let any = self.spans.iter().any(|span| leaves(*span));
        self.results += u64::from(any);
        if !any || registers == Registers::Wrap {
            return Some(same);
        }
        let may_hold = |value: i32, span: [i64; 2]| self.by_server || saturated_may_hold(value, span);
        if same {
            return Some(sums.iter().zip(&self.spans).all(|(sum, span)| !leaves(*span) || may_hold(*sum, *span)));
        }
        let (values, rest) = values?.as_chunks::<4>();
        let mut pairs = values.iter().zip(sums).zip(&self.spans);
        let fits = pairs.all(|((value, sum), span)| {
            let value = i32::from_be_bytes(*value);
            if leaves(*span) { may_hold(value, *span) } else { value == *sum }
        });
        Some(fits && rest.is_empty() && values.len() == sums.len())
    }

    /// Adds up the negative and the positive values of each element of `members`.
    fn look(&mut self, content: &mut dyn Content, members: &[PacketId], elements: usize) {
        self.own.resize(content.elements(), 0);
        self.spans.clear();
        self.spans.resize(elements, [0; 2]);
        for member in members {
            self.own.fill(0);
            content.add(&[*member], &mut self.own);
            for ([below, above], value) in self.spans.iter_mut().zip(&self.own) {
                *(if *value < 0 { below } else { above }) += i64::from(*value);
            }
        }
    }
}

/// Returns whether a register that saturates and stays at its ends may hold `value` after some order of additions, given
/// the sums of the negative and of the positive values: partial sums lie between these, and values of one sign that
/// exceed the range end at its end.
fn saturated_may_hold(value: i32, [below, above]: [i64; 2]) -> bool {
    let (value, end) = (i64::from(value), i64::from(i32::MAX));
    if below == 0 && above >= end {
        return value == end;
    }
    if above == 0 && below <= -end {
        return value <= -end;
    }
    (below..=above).contains(&value)
}

#[cfg(test)]
mod tests {
    use pktgen_core::seed::Seed;
    use rand::RngExt;

    use super::*;

    /// Test content: worker w contributes the w-th row.
    struct Rows(Vec<[i32; 3]>, Registers, bool);

    impl Content for Rows {
        fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
            self.2 = false;
            for row in members.iter().map(|member| self.0[member.worker() as usize]) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    let (new, left) = sum.overflowing_add(value);
                    (*sum, self.2) = (new, self.2 | left);
                }
            }
            3
        }
        fn elements(&self) -> usize {
            3
        }
        fn left_range(&self) -> bool {
            self.2
        }
        fn registers(&self) -> Registers {
            self.1
        }
    }

    /// Random rows near the ends of 32 bits: a device's sum in a random order is correct, another value of an element
    /// that cannot overflow is wrong, and results with exact sums beyond 32 bits are counted.
    #[test]
    fn devices_are_right_in_any_order_and_others_are_not() {
        let mut stream = Seed(3).stream("overflow", 0, 0);
        for round in 0..2000u32 {
            let registers = if round % 2 == 0 { Registers::Wrap } else { Registers::Saturate };
            let size = 1i64 << stream.random_range(20..32);
            let rows: Vec<[i32; 3]> =
                (0..4).map(|_| [(); 3].map(|()| stream.random_range(-size..size) as i32)).collect();
            let members: Vec<PacketId> = (0..4).map(|worker| PacketId::new(worker, 0, 0)).collect();
            let first = stream.random_range(0..4);
            let order = (0..4).map(|i| (i + first) % 4);
            let mut device = [0i32; 3];
            for row in order {
                for (sum, value) in device.iter_mut().zip(rows[row]) {
                    *sum = match registers {
                        Registers::Wrap => sum.wrapping_add(value),
                        Registers::Saturate if *sum == i32::MAX || *sum <= -i32::MAX => *sum,
                        Registers::Saturate => sum.saturating_add(value),
                    };
                }
            }
            let exact: Vec<i64> = (0..3).map(|i| rows.iter().map(|row| i64::from(row[i])).sum()).collect();
            let part = |i: usize, sign: i64| rows.iter().map(|row| (sign * i64::from(row[i])).max(0)).sum::<i64>();
            let mut content = Rows(rows.clone(), registers, false);
            let mut judge = |device: &[i32; 3], overflow: &mut Overflow| {
                let mut sums = [0; 3];
                content.add(&members, &mut sums);
                let bytes: Vec<u8> = device.iter().flat_map(|value| value.to_be_bytes()).collect();
                overflow.judge(&mut content, &members, &sums, (sums == *device, Some(&bytes)))
            };
            let mut overflow = Overflow::default();
            assert_eq!(judge(&device, &mut overflow), Some(true), "{registers:?} {rows:?} {device:?}");
            if registers == Registers::Wrap {
                let beyond = exact.iter().any(|sum| i32::try_from(*sum).is_err());
                assert_eq!(overflow.results, u64::from(beyond));
            }
            let sure = (0..3).find(|i| part(*i, 1) < i64::from(i32::MAX) && part(*i, -1) < i64::from(i32::MAX));
            if let Some(at) = sure.or((registers == Registers::Wrap).then_some(0)) {
                device[at] ^= 1;
                assert_eq!(judge(&device, &mut Overflow::default()), Some(false), "{registers:?} {rows:?}");
            }
        }
    }

    /// A device that wraps around where registers saturate: values that no order of saturating additions gives are wrong,
    /// with or without their bytes. A server that adds up parts may give them.
    #[test]
    fn sums_that_wrapped_are_wrong_where_registers_saturate() {
        let (most, least) = (i32::MAX, -i32::MAX);
        let members: Vec<PacketId> = (0..4).map(|worker| PacketId::new(worker, 0, 0)).collect();
        for (column, value, right) in [
            ([most, most, 1, 1], 0, false),
            ([most, most, 1, 1], most, true),
            ([most, most, 1, 1], most - 1, false),
            ([least, least, -1, 0], 1, false),
            ([least, least, -1, 0], least, true),
            ([least, least, -1, 0], i32::MIN, true),
            ([most, 5, -10, 0], most - 5, true),
            ([most, 5, -10, 0], -11, false),
        ] {
            let mut content = Rows(column.map(|own| [own, 7, 7]).to_vec(), Registers::Saturate, false);
            let mut sums = [0; 3];
            let mut judge = |mut overflow: Overflow, with_bytes: bool| {
                sums.fill(0);
                content.add(&members, &mut sums);
                let device = [value, 28, 28];
                let bytes: Vec<u8> = device.iter().flat_map(|value| value.to_be_bytes()).collect();
                let same = sums == device;
                let values = with_bytes.then_some(&bytes[..]);
                (overflow.judge(&mut content, &members, &sums, (same, values)), same)
            };
            assert_eq!(judge(Overflow::default(), true).0, Some(right), "{column:?} {value}");
            let (alone, same) = judge(Overflow::default(), false);
            assert_eq!(alone, same.then_some(right), "{column:?} {value}");
            assert_eq!(judge(Overflow::of_server(), true).0, Some(true), "{column:?} {value}");
        }
    }
}
