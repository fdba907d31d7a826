//! Makes random valid packets of any format from its layout alone: a new format is tested without changes here.

use pktgen_wire::wire::layout::{After, Count, Kind, Layout, Message, Rest, Rule, bits};

/// SplitMix64 random numbers, which need no crate.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn place(layout: &Layout, message: &Message, name: &str) -> (usize, usize) {
    let fields = message.fields(layout);
    let placed = fields.iter().find(|placed| placed.field.name == name).unwrap_or_else(|| panic!("no field {name}"));
    assert!(matches!(placed.field.kind, Kind::Uint | Kind::Flag), "{name}");
    (placed.first, placed.field.bits)
}

fn put(payload: &mut [u8], (first, bits): (usize, usize), value: u64) {
    for i in 0..bits {
        let (at, bit) = (first + i, value >> (bits - 1 - i) & 1);
        let mask = 1u8 << (7 - at % 8);
        payload[at / 8] = if bit == 1 { payload[at / 8] | mask } else { payload[at / 8] & !mask };
    }
}

fn get(payload: &[u8], (first, bits): (usize, usize)) -> u64 {
    (first..first + bits).fold(0, |sum, at| sum << 1 | u64::from(payload[at / 8] >> (7 - at % 8) & 1))
}

/// Returns a payload of this message with at most `most` items.
pub fn payload(layout: &Layout, message: &Message, most: usize, random: &mut Random) -> Vec<u8> {
    let fixed = message.fixed_bytes(layout);
    let (rest, count) = match message.rest {
        Rest::Nothing => (0, None),
        Rest::Bytes { most: longest, .. } => (random.below(longest.min(most) + 1), None),
        Rest::Items { count, fields, .. } => {
            let size = bits(fields.iter()) / 8;
            match count {
                Count::Field(name) => {
                    let place = place(layout, message, name);
                    let n = random.below(most.min((1 << place.1) - 1) + 1);
                    (n * size, Some((place, n as u64)))
                }
                Count::Fixed(n) => (n * size, None),
                Count::ToEnd(longest) => (random.below(longest.min(most) + 1) * size, None),
            }
        }
    };
    let least = fixed + rest + message.tail_bytes();
    let length = match message.after {
        After::Nothing => least,
        After::PaddingTo(length) => least + random.below(length.saturating_sub(least) + 1),
        After::Anything => least + random.below(9),
    };
    let mut payload: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    if let Some((place, n)) = count {
        put(&mut payload, place, n);
    }
    for (name, value) in message.when {
        put(&mut payload, place(layout, message, name), *value);
    }
    for rule in layout.rules.iter().chain(message.rules) {
        obey(&mut payload, layout, message, rule);
    }
    payload
}

fn obey(payload: &mut [u8], layout: &Layout, message: &Message, rule: &Rule) {
    let place = |name: &str| place(layout, message, name);
    match rule {
        Rule::NotZero(name) => {
            let value = get(payload, place(name)).max(1);
            put(payload, place(name), value);
        }
        Rule::AtMost(name, most) => {
            let value = get(payload, place(name)) % (most + 1);
            put(payload, place(name), value);
        }
        Rule::Below(less, more) => {
            let limit = get(payload, place(more)).max(1);
            put(payload, place(more), limit);
            let value = get(payload, place(less)) % limit;
            put(payload, place(less), value);
        }
        Rule::Together(flag, other) => {
            let set = get(payload, place(other)) != 0;
            put(payload, place(flag), set.into());
        }
    }
}

/// Damages a payload: changes bits or the length, or nothing.
pub fn damage(payload: &mut Vec<u8>, random: &mut Random) {
    match random.below(5) {
        0 => payload.truncate(random.below(payload.len() + 1)),
        1 => payload.extend((0..1 + random.below(20)).map(|i| i as u8)),
        2 if !payload.is_empty() => {
            let at = random.below(payload.len().min(26));
            payload[at] ^= 1 << random.below(8);
        }
        3 if !payload.is_empty() => {
            let at = random.below(payload.len().min(26));
            payload[at] = [0, 0xff, 1, 0x80][random.below(4)];
        }
        _ => {}
    }
}
