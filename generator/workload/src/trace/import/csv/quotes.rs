//! Quotes of CSV that are out of place. The reader of fields accepts them: one that is not closed makes the rest of the file a single
//! field, and text that follows a closing quote is appended. Counts lines, too: the reader of fields passes over line ends and blank
//! lines only when it reads the next record.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result};

/// Bytes that some tools write before a text.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Where a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the begin of a record, or in the blank lines before it.
    Row,
    /// At the begin of a later field.
    Start,
    /// In a field without quotes around it, where a quote is text.
    Plain,
    /// Between quotes.
    Quoted,
    /// After a quote in a quoted field: it ends the field, or is the first of two.
    Closing,
    /// In the space after a quoted field.
    Closed,
}

/// Passes on what it reads, up to a quote that is out of place: then it fails with the line.
pub(super) struct Quotes<R> {
    input: R,
    place: Place,
    /// The line it is in, and that of the latest opening quote.
    line: u64,
    opened: u64,
    /// Whether the byte before was a carriage return: a line feed then ends no further line.
    returned: bool,
    /// The lines in which the records begin that were read ahead.
    records: VecDeque<u64>,
    /// Bytes of [`MARK`] before; all once another byte came.
    before: usize,
    /// What to fail with at the next call: what is before the fault is passed on first.
    fault: Option<String>,
}

impl<R> Quotes<R> {
    pub(super) fn new(input: R) -> Self {
        Quotes {
            input,
            place: Place::Row,
            line: 1,
            opened: 0,
            returned: false,
            records: VecDeque::new(),
            before: 0,
            fault: None,
        }
    }

    /// Returns the line in which the next record begins; called once per record. Without a record, it is the last line.
    pub(super) fn next_record(&mut self) -> u64 {
        self.records.pop_front().unwrap_or(self.line)
    }

    /// Where the next byte leads; what is wrong with it.
    fn pass(&mut self, byte: u8) -> std::result::Result<(), String> {
        let is_mark = MARK.get(self.before) == Some(&byte) && self.place == Place::Row;
        self.before = if is_mark { self.before + 1 } else { MARK.len() };
        if self.place == Place::Row && !is_mark && !matches!(byte, b'\r' | b'\n') {
            self.records.push_back(self.line);
        }
        self.place = match (self.place, byte) {
            _ if is_mark => Place::Row,
            (Place::Row | Place::Start, b'"') => {
                self.opened = self.line;
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Closing,
            (Place::Closing, b'"') | (Place::Quoted, _) => Place::Quoted,
            (_, b',') => Place::Start,
            (_, b'\r' | b'\n') => Place::Row,
            (Place::Closing | Place::Closed, b' ' | b'\t') => Place::Closed,
            (Place::Closing | Place::Closed, _) => {
                return Err(format!(
                    "line {}: text follows the closing quote of a field that begins in line {}; write a quote within quotes twice",
                    self.line, self.opened
                ));
            }
            (Place::Row | Place::Start | Place::Plain, _) => Place::Plain,
        };
        self.line += u64::from(byte == b'\r' || byte == b'\n' && !self.returned);
        self.returned = byte == b'\r';
        Ok(())
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let fail = |what: String| Err(Error::new(ErrorKind::InvalidData, what));
        if let Some(what) = self.fault.take() {
            return fail(what);
        }
        let n = self.input.read(buffer)?;
        if n == 0 && !buffer.is_empty() && self.place == Place::Quoted {
            return fail(format!("line {}: the quote that begins a field is not closed; close it", self.opened));
        }
        for (i, byte) in buffer.iter().take(n).enumerate() {
            if let Err(what) = self.pass(*byte) {
                if i == 0 {
                    return fail(what);
                }
                self.fault = Some(what);
                return Ok(i);
            }
        }
        Ok(n)
    }
}
