//! The little of Protocol Buffers that execution traces need: fields in order, unknown ones skipped by the caller.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

impl Value<'_> {
    /// The number of a varint; else what is wrong.
    pub(super) fn number(self, field: &str) -> Result<u64, String> {
        match self {
            Value::Varint(number) => Ok(number),
            _ => Err(format!("field {field} is no number")),
        }
    }
}

impl<'a> Value<'a> {
    /// The bytes of what has a length; else what is wrong.
    pub(super) fn bytes(self, field: &str) -> Result<&'a [u8], String> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(format!("field {field} is no text or message")),
        }
    }
}

/// A message that is being read.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes }
    }

    /// The next field: its number and what it holds; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = self.varint()?;
                let bytes = usize::try_from(length).ok().and_then(|length| self.bytes.split_at_checked(length));
                let (bytes, rest) =
                    bytes.ok_or_else(|| format!("a field of {length} bytes, where {} are left", self.bytes.len()))?;
                self.bytes = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            other => return Err(format!("wire type {other}, which no field has")),
        };
        Ok(Some((tag >> 3, value)))
    }

    /// A number of seven bits per byte.
    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for (i, byte) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err("a number that does not end".to_owned())
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self.bytes.split_first_chunk().ok_or("a number that is cut off")?;
        self.bytes = rest;
        Ok(*bytes)
    }

    /// Whether all is read.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_read_and_damage_is_named() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let mut fields = Fields::new(&bytes);
        for expected in
            [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed32(1)), (4, Value::Fixed64(2))]
        {
            assert_eq!(fields.next(), Ok(Some(expected)));
        }
        assert_eq!(fields.next(), Ok(None));
        for (bytes, what) in [
            (&[0x08][..], "does not end"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "does not end"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
                "9223372036854775807 bytes, where 1 are left",
            ),
            (&[0x1d, 1, 2], "cut off"),
            (&[0x0b], "wire type 3"),
        ] {
            let message = Fields::new(bytes).next().expect_err(what);
            assert!(message.contains(what), "{message}");
        }
    }
}
