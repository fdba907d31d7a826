//! Output of the program: Results up or down (Trio §4, "Result packet"), notifications of stragglers (§5).

use crate::format::{AGE_NONE, AGED, HEADER, Header, PORT, STRAGGLER, frame_bytes};
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::Time;
use pktgen_core::topology::NO_PORT;
use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD, SERVER_IP, Template, group_ip, set_udp_checksum, source_ip};
use pktgen_wire::wire::integers::emit_values;

use super::job::JobRecord;
use super::table::BlockRecord;
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::Place;

/// Writes a downward frame into a new buffer, without a packet id of its own. Ethernet's padding is behind the datagram.
fn write(t: Time, template: &Template, header: &Header, sums: &[i32], place: &Place, context: &mut Context) -> Frame {
    let len = template.frame_bytes().max(ETHERNET_MIN);
    let buffer = context.pool.take();
    let bytes = &mut context.pool.bytes_mut(buffer)[..len];
    template.emit(bytes);
    header.emit(&mut bytes[HEAD..]);
    let end = HEAD + HEADER + sums.len() * 4;
    emit_values(sums, &mut bytes[HEAD + HEADER..end]);
    bytes[end..].fill(0);
    if place.udp_checksum {
        set_udp_checksum(bytes);
    }
    Frame {
        t,
        packet: PacketId::NOBODY,
        buffer,
        worker: 0,
        len: len as u16,
        cluster: u16::from(header.job),
        flow: place.node,
        head: HEAD as u8,
        kind: Kind::Result,
    }
}

/// Sends one handle of the same bytes to every port: standard multicast forwarding (§4).
fn multicast(frame: Frame, ports: &[u16], context: &mut Context) {
    let Some((last, others)) = ports.split_last() else { return context.emit_around(NO_PORT, frame) };
    for &port in others {
        let copy = context.share(&frame);
        context.emit_around(port, copy);
    }
    context.emit_around(*last, frame);
}

/// Sends the Result of a block at `t`; returns whether it is partial.
pub fn result(
    t: Time,
    record: &BlockRecord,
    sums: &[i32],
    job: &mut JobRecord,
    place: &Place,
    context: &mut Context,
) -> bool {
    // A Result that lacks workers of the job for any reason is partial: receivers divide by `sources` (§5).
    let degraded = record.degraded || record.src_cnt < job.workers;
    let header = Header {
        job: record.job,
        block: record.block,
        age_op: if record.aged { AGED } else { AGE_NONE },
        last: record.last,
        degraded,
        source: job.own.unwrap_or(record.source),
        sources: record.src_cnt,
        generation: record.generation,
        elements: record.grad_cnt,
    };
    let len = frame_bytes(record.grad_cnt);
    if job.template.frame_bytes() != len {
        job.template.set_length(len);
    }
    let frame = Frame { packet: record.opener, ..write(t, &job.template, &header, sums, place, context) };
    if job.own.is_some() {
        // §4: the device above treats it as a contribution of one more source; the port's queue records it.
        let port = place.routes.port(place.server);
        context.emit(port, Frame { kind: Kind::Update, flow: place.server, ..frame });
        return degraded;
    }
    context.books.passes(t, &Frame { kind: Kind::Update, ..frame }, Action::Departed);
    multicast(frame, &job.ports, context);
    degraded
}

/// Notifies the job's workers that `source` is out of service.
pub(crate) fn notify(t: Time, id: u8, source: u8, job: &JobRecord, place: &Place, context: &mut Context) {
    let header = Header { job: id, age_op: STRAGGLER, source, ..Default::default() };
    let template = Template::new((SERVER_IP, PORT), (group_ip(u16::from(id)), PORT), frame_bytes(0));
    let frame = write(t, &template, &header, &[], place, context);
    multicast(frame, &job.ports, context);
}

/// Forwards a frame of the device above to the job's workers, unchanged.
pub(crate) fn pass_down(frame: &Frame, jobs: &[Option<JobRecord>], context: &mut Context) {
    let from_above = source_ip(context.pool.frame(frame)) == SERVER_IP;
    let header = Header::parse(context.pool.payload(frame)).filter(|_| from_above);
    match header.and_then(|header| jobs.get(usize::from(header.job))?.as_ref()) {
        Some(job) if job.own.is_some() => multicast(*frame, &job.ports, context),
        _ => context.drop(*frame, Reason::Malformed),
    }
}
