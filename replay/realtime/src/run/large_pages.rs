//! Large pages for the memory of a large network. Its nodes are visited in no order: with pages of 4 KiB, a visit
//! misses the processor's TLB as well as its caches.
#![expect(unsafe_code, reason = "talks to the kernel; the block says why it is sound")]

use std::fs;

/// Bytes of a large page.
const LARGE: usize = 2 << 20;
/// Collapses small pages into large ones now (Linux 6.1).
const MADV_COLLAPSE: libc::c_int = 25;

/// Up to this number of nodes, their memory is in the caches, or nearly.
const NODES_SMALL: usize = 2000;

/// Advises the kernel to use large pages for all memory of this process, if it contains a network of `nodes` nodes, and
/// collapses small ones. Only advice: where the kernel does not support it, nothing happens.
pub fn use_large_pages(nodes: usize) {
    if nodes <= NODES_SMALL {
        return;
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(anonymous) {
        let (start, end) = (start.next_multiple_of(LARGE), end / LARGE * LARGE);
        for advice in [libc::MADV_HUGEPAGE, MADV_COLLAPSE] {
            if start < end {
                // SAFETY: advice about pages changes no byte of them, whatever is mapped there meanwhile.
                let _ = unsafe { libc::madvise(start as *mut libc::c_void, end - start, advice) };
            }
        }
    }
}

/// Returns the address range of a line of the list if it is anonymous writable memory other than a stack.
fn anonymous(line: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [range, rights, _, _, inode, name @ ..] = &words[..] else { return None };
    if !rights.starts_with("rw-p") || *inode != "0" || !matches!(name, [] | ["[heap]"]) {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_of_our_own_is_meant() {
        for (line, found) in [
            (
                "5581a0000000-5581a0400000 rw-p 00000000 00:00 0                          [heap]",
                Some((0x5581_a000_0000, 0x5581_a040_0000)),
            ),
            ("7f0000000000-7f0000200000 rw-p 00000000 00:00 0 ", Some((0x7f00_0000_0000, 0x7f00_0020_0000))),
            ("7f0000000000-7f0000200000 r--p 00000000 00:00 0 ", None),
            ("7f0000000000-7f0000200000 rw-s 00000000 00:01 77 /dev/zero (deleted)", None),
            ("7f0000000000-7f0000200000 rw-p 00000000 fe:00 9 /usr/bin/x", None),
            ("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]", None),
            ("", None),
        ] {
            assert_eq!(anonymous(line), found, "{line}");
        }
    }

    #[test]
    fn what_memory_holds_stays() {
        let held: Vec<u64> = (0..2_000_000).collect();
        use_large_pages(NODES_SMALL + 1);
        assert!(held.iter().zip(0..).all(|(value, index)| *value == index));
    }
}
