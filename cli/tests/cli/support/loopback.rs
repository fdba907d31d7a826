//! Addresses of the loopback network that no other process of this host has: a port that is only found free may be taken before it is used.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port, below those that the kernel gives to sockets without one.
const FIRST: u16 = 20_000;

/// Returns an address that was not returned before: 127.0.0.0/8 has one for each process.
pub fn address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST);
    let [high, b, c, d] = std::process::id().to_be_bytes();
    assert!(high == 0 && b < 0x7f, "process numbers have 22 bits");
    let own = Ipv4Addr::new(127, b + 1, c, d);
    loop {
        let address = SocketAddr::V4(SocketAddrV4::new(own, NEXT.fetch_add(1, Ordering::Relaxed)));
        // A socket of all addresses may have the port.
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Returns so many of them as the setting of a run over UDP.
pub fn addresses(count: usize) -> String {
    let names: Vec<_> = (0..count).map(|_| format!("\"{}\"", address())).collect();
    format!("transport.addresses=[{}]", names.join(","))
}
