//! Updates whose bytes follow from their number, so that sender and receiver construct the same ones independently.

use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_wire::wire::update::{Header, PORT, UPDATE_HEAD, WORKER_PORT, elements_in};

/// The length of the shortest update: headers and one gradient.
pub const SHORTEST: usize = HEAD + UPDATE_HEAD + 4;

/// Writes update `number` over the whole of `frame`: headers, then noise.
pub fn fill(frame: &mut [u8], number: u64) {
    let worker = number as u32 % 1000;
    Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(frame);
    let header = Header {
        flags: 0,
        cluster: 1,
        count: 1,
        worker,
        seq: number as u32,
        generation: number as i64,
        attempt: 0,
        elements: elements_in(frame.len()) as u16,
        reward: 0.5,
    };
    header.emit_update(&mut frame[HEAD..]);
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in frame[HEAD + UPDATE_HEAD..].chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// Returns the number of an update.
pub fn number(frame: &[u8]) -> u64 {
    u64::from(Header::parse_update(&frame[HEAD..]).expect("an update").seq)
}

/// Returns a length that differs from frame to frame, over the whole range up to `max`.
pub fn length(number: u64, max: usize) -> usize {
    SHORTEST + (number as usize * 37) % (max - SHORTEST + 1)
}
