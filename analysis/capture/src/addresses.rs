//! Numbers for IPv6 addresses, which tell senders apart as IPv4 addresses do.
//!
//! Called by [`super::input`]. All files of an analysis share the numbers, since a worker's packets are in several.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pktgen_wire::wire::frame::Ip;
use pktgen_wire::wire::sight::Datagram;

/// The first number: it and all after it are addresses of IPv4 that no host has.
const FIRST: Ip = 0xf000_0000;

/// Numbers of sources by IPv6 address. The hash is random, since captures may contain any addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceNumbers(Rc<RefCell<HashMap<[u8; 16], Ip>>>);

impl SourceNumbers {
    /// Returns the IPv4 source of a datagram, or over IPv6 the number of its source.
    #[inline]
    pub(super) fn of(&self, datagram: &Datagram) -> Ip {
        datagram.six.map_or(datagram.src, |address| self.number(address))
    }

    fn number(&self, address: &[u8; 16]) -> Ip {
        let mut known = self.0.borrow_mut();
        let next = FIRST.saturating_add(known.len() as u32);
        *known.entry(*address).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_same_number_in_all_files() {
        let sources = SourceNumbers::default();
        let of = |sources: &SourceNumbers, six: Option<&[u8; 16]>| {
            sources.of(&Datagram { src: 7, dst: 0, src_port: 1, dst_port: 2, payload: &[], whole: 0, six })
        };
        assert_eq!(
            (of(&sources, None), of(&sources, Some(&[1; 16])), of(&sources, Some(&[2; 16]))),
            (7, FIRST, FIRST + 1)
        );
        assert_eq!((of(&sources.clone(), Some(&[3; 16])), of(&sources, Some(&[3; 16]))), (FIRST + 2, FIRST + 2));
        assert_eq!(of(&sources, Some(&[1; 16])), FIRST);
    }
}
