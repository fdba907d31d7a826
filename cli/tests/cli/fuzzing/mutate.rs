//! Modifications of files: bits, lengths, pieces; in text, numbers and lines.

/// Random numbers that are repeatable by seed: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns a random element and its index.
    pub fn of<'a, T>(&mut self, list: &'a [T]) -> (usize, &'a T) {
        let which = self.below(list.len());
        (which, &list[which])
    }
}

/// Unlikely values for lengths and counts.
const LARGE: [u64; 8] = [0, 1, 0x7fff_ffff, 0xffff_ffff, 0x8000_0000, u64::MAX, i64::MAX as u64, 0x0100_0000];
/// Replacements for numbers in text.
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "-1e-300",
    "18446744073709551615",
    "9223372036854775807",
    "4294967295",
    "65535",
    "65536",
    "nan",
    "inf",
    "",
    "0.5",
    "1000000000",
    "\"\"",
    "[1, 2]",
];

/// Returns a position: anywhere, or near an end, where formats keep their control data.
fn place(length: usize, random: &mut Random) -> usize {
    match random.below(4) {
        0 => random.below(length.min(256)),
        1 => length.saturating_sub(1 + random.below(2048)),
        _ => random.below(length),
    }
}

/// Changes bytes in one to four ways; `donor` supplies pieces.
pub fn mutate(bytes: &mut Vec<u8>, donor: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let text = std::str::from_utf8(bytes).is_ok();
        let how = random.below(if text { 12 } else { 8 });
        once(bytes, donor, how, random);
    }
}

fn once(bytes: &mut Vec<u8>, donor: &[u8], how: usize, random: &mut Random) {
    let at = place(bytes.len(), random);
    let end = (at + 1 + random.below(64)).min(bytes.len());
    match how {
        0 => bytes.truncate(at),
        1 | 2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        3 => {
            // An excessive length, in either byte order.
            let value = *random.of(&LARGE).1;
            let wide = if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
            let size = [1, 2, 4, 8][random.below(4)];
            for (to, from) in bytes.iter_mut().skip(at).zip(&wide[..size]) {
                *to = *from;
            }
        }
        4 => {
            // The same for lengths of seven bits per byte.
            for byte in bytes.iter_mut().skip(at).take(1 + random.below(9)) {
                *byte |= 0x80;
            }
        }
        5 if at < end => drop(bytes.drain(at..end)),
        6 => {
            let from = place(donor.len(), random);
            let piece = donor[from..(from + random.below(300)).min(donor.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        7 => {
            let random: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
            bytes.splice(at..end.max(at), random);
        }
        8 | 9 => number(bytes, at, random),
        10 => line(bytes, random),
        11 => {
            let deep = ["[", "{\"a\":", "(", "a.", "{a=", "\""][random.below(6)].repeat(1 + random.below(4000));
            bytes.splice(at..at, deep.into_bytes());
        }
        _ => {}
    }
}

/// Replaces the first number after `at` by another number or word.
fn number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
    let length = bytes[start..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    bytes.splice(start..start + length, random.of(&WORDS).1.bytes());
}

/// Repeats, removes or moves a line.
fn line(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let from = random.below(lines.len());
    let taken = if random.below(2) == 0 { lines.remove(from) } else { lines[from].clone() };
    let to = random.below(lines.len() + 1);
    if random.below(3) > 0 {
        lines.insert(to, taken);
    }
    *bytes = lines.join(&b'\n');
}
