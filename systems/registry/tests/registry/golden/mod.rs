//! Frames made by hand from the tables of docs/strict.md: headers as hex, checksums computed independently of our code
//! (Python's `struct` and `zlib.crc32`), values by the rule beside them.

/// The values of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Contained in the hex.
    Inside,
    /// `n` integers `i - 7` in network order.
    Integers(i32),
    /// 62 integers `(i - 7) · 10⁶` in network order.
    Millionths,
    /// 62 floats `(i - 7) / 2`, little-endian.
    Floats,
}

impl Values {
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Values::Inside => Vec::new(),
            Values::Integers(n) => (0..n).flat_map(|i| (i - 7).to_be_bytes()).collect(),
            Values::Millionths => (0..62i32).flat_map(|i| ((i - 7) * 1_000_000).to_be_bytes()).collect(),
            Values::Floats => (0..62u8).flat_map(|i| ((f32::from(i) - 7.0) * 0.5).to_le_bytes()).collect(),
        }
    }
}

/// A frame: Ethernet, IPv4, UDP and the bytes before the values; the values; the bytes after them.
pub struct Golden {
    pub name: &'static str,
    pub format: &'static str,
    before: &'static str,
    values: Values,
    after: &'static str,
}

impl Golden {
    pub fn frame(&self) -> Vec<u8> {
        [bytes(self.before), self.values.bytes(), bytes(self.after)].concat()
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).expect("hex")).collect()
}

const fn golden(
    name: &'static str,
    format: &'static str,
    before: &'static str,
    values: Values,
    after: &'static str,
) -> Golden {
    Golden { name, format, before, values, after }
}

/// Worker 2 is 10.0.0.3, the server is 198.18.0.1, and cluster 7 is the group 239.192.0.7.
pub const FRAMES: &[Golden] = &[
    // Reward 1.5; gradients 0.5, -2, 3.25.
    golden(
        "olaf update",
        "olaf_strict",
        "0200c6120001 02000a000003 0800  4500002c0000400040116aab0a000003c6120001  bd7fbd7e0018a32a
         0000c03f  0000003f000000c000005040",
        Values::Inside,
        "",
    ),
    // Occupancy 0x010203, 9 active clusters; model 1.
    golden(
        "olaf ack",
        "olaf_strict",
        "01005e400007 0200c6120001 0800  4500002500004000401184edc6120001efc00007  bd7ebd7f00118270
         010203 0009  0000803f",
        Values::Inside,
        "",
    ),
    // Type 1, 64 values, job 7, packet 0x01020304, set 1, slot 0x1234, exponent -3.
    golden(
        "switchml contribution",
        "switchml",
        "0200c6120001 02000a000003 0800  4500012600004000401169b10a000003c6120001  0fa0bee00112b2cb
         11 07 04030201 9234 fd 00",
        Values::Integers(64),
        "",
    ),
    // 256 values, job 7, packet 5, set 0, slot 0x42, exponent 4; no UDP checksum.
    golden(
        "switchml reply",
        "switchml",
        "02000a000003 0200c6120001 0800  4500042600004000401166b1c61200010a000003  bee00fa004120000
         13 07 05000000 0042 04 00",
        Values::Integers(256),
        "",
    ),
    // Three packets of worker 2's pair 5 from number 0xfffffe on, to slots 0x102 to 0x104 of set 1; 768 bytes.
    golden(
        "roce first, to the switch",
        "switchml_roce",
        "0200c6120001 02000a000003 0800  4500013c000040004011699b0a000003c6120001  c12312b701280000
         26 00 ffff 00020005 00fffffe  1122334455667788 00000205 00000300",
        Values::Integers(64),
        "31170b43",
    ),
    golden(
        "roce middle, to the switch",
        "switchml_roce",
        "0200c6120001 02000a000003 0800  4500012c00004000401169ab0a000003c6120001  c12312b701180000
         27 00 ffff 00020005 00ffffff",
        Values::Integers(64),
        "11631eac",
    ),
    // Message 0x1234, exponents -3 and 5.
    golden(
        "roce last, to the switch",
        "switchml_roce",
        "0200c6120001 02000a000003 0800  4500013000004000401169a70a000003c6120001  c12312b7011c0000
         29 00 ffff 00020005 00000000  3412 fd 05",
        Values::Integers(64),
        "5af4727f",
    ),
    golden(
        "roce only, to the switch",
        "switchml_roce",
        "0200c6120001 02000a000003 0800  4500044000004000401166970a000003c6120001  c12312b7042c0000
         2b 00 ffff 00020005 00000009  1122334455667788 00000205 00000400  3412 fd 05",
        Values::Integers(256),
        "4dd77e83",
    ),
    // Back: ECT(0), number 1, from port 0x8000 + worker, MigReq set, to the worker's pair 0xabcde under its key.
    golden(
        "roce first, to the worker",
        "switchml_roce",
        "02000a000003 0200c6120001 0800  4502013c0001400040116998c61200010a000003  800212b701280000
         26 40 ffff 000abcde 00000010  1122334455667788 cafe0001 00000300",
        Values::Integers(64),
        "0a9b007c",
    ),
    golden(
        "roce middle, to the worker",
        "switchml_roce",
        "02000a000003 0200c6120001 0800  4502012c00014000401169a8c61200010a000003  800212b701180000
         27 40 ffff 000abcde 00000011",
        Values::Integers(64),
        "6eb067b4",
    ),
    golden(
        "roce last, to the worker",
        "switchml_roce",
        "02000a000003 0200c6120001 0800  4502013000014000401169a4c61200010a000003  800212b7011c0000
         29 40 ffff 000abcde 00000012  3412 fd 05",
        Values::Integers(64),
        "eecc02db",
    ),
    golden(
        "roce only, to the worker",
        "switchml_roce",
        "02000a000003 0200c6120001 0800  450204400001400040116694c61200010a000003  800212b7042c0000
         2b 40 ffff 000abcde 00000013  1122334455667788 cafe0001 00000400  3412 fd 05",
        Values::Integers(256),
        "5155e464",
    ),
    // Job 1, block 0x12345, final, source 2, one source, generation 0x203, 3 gradients: 1000000, -1, 7.
    golden(
        "trio contribution",
        "trio_ml",
        "0200c6120001 02000a000003 0800  450000340000400040116aa30a000003c6120001  2ee02ee00020444f
         01 00012345 08 02 01 0203 0003  000f4240ffffffff00000007",
        Values::Inside,
        "",
    ),
    // Of 6 sources, opened by source 0: 6, -6.
    golden(
        "trio result",
        "trio_ml",
        "01005e400007 0200c6120001 0800  4500003000004000401184e2c6120001efc00007  2ee02ee0001ca2eb
         01 00012345 00 00 06 0203 0002  00000006fffffffa",
        Values::Inside,
        "",
    ),
    // Aged and degraded: 5 sources, opened by source 3.
    golden(
        "trio aged result",
        "trio_ml",
        "01005e400007 0200c6120001 0800  4500003000004000401184e2c6120001efc00007  2ee02ee0001c9fd8
         01 00012345 14 03 05 0203 0002  00000005fffffffb",
        Values::Inside,
        "",
    ),
    // Host 2 of 8, parameter server 1, job 3, number 7, aggregators 0x123 and 20,000 further; key, 62,000 elements.
    golden(
        "atp data",
        "atp_ml",
        "777777777701 02000a000003 0700  45000054000040004001afb60a000003c6120001
         00000004 08 20 0003 0007 0123 4f43",
        Values::Millionths,
        "8877665544332211 0000f230",
    ),
    // All eight hosts; congestion, collision, ACK.
    golden(
        "atp ack",
        "atp_ml",
        "050403020101 0200c6120001 0700  45000054000040004001afb6c61200010a000003
         000000ff 08 2b 0003 0007 0123 4f43",
        Values::Millionths,
        "8877665544332211 0000f230",
    ),
    // Overflow, sent again, number 8: raw floats.
    golden(
        "atp overflow",
        "atp_ml",
        "777777777701 02000a000003 0700  45000054000040004001afb60a000003c6120001
         00000004 08 a4 0003 0008 0123 4f43",
        Values::Floats,
        "8877665544332211 0000f230",
    ),
];
