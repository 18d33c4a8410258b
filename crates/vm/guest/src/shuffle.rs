//! What the program does on each boot but the first before the machine is saved: it allocates and frees, so that the lists of
//! free memory are in another order than on other boots.
//!
//! | allocated, then freed in another order | what of the kernel that shuffles |
//! |---|---|
//! | pieces of memory, each page touched | free pages |
//! | socket pairs with datagrams in them | buffers of the network, as frames are in |

use std::fs;
use std::hint::black_box;
use std::os::unix::net::UnixDatagram;

use candor_protocol::meeting;
use candor_protocol::random::Random;

/// The most memory that is taken, a quarter of the machine's.
const MOST_BYTES: u64 = 64 << 20;
/// One piece at most. Larger than a page, so that the pieces are not from one.
const LARGEST_PIECE: u64 = 512 << 10;
const PAGE_BYTES: usize = 4096;
/// Pairs of sockets at most, far below the limit of descriptors (1024).
const MOST_PAIRS: u64 = 200;
/// Datagrams that a socket holds without anybody who reads (`net.unix.max_dgram_qlen` is 10).
const DATAGRAMS: u64 = 8;
/// The longest frame's buffer and much longer ones.
const LONGEST_DATAGRAM: u64 = 4000;

/// Shuffles as it belongs to this boot.
pub(crate) fn shuffle() {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if let Some(boot) = boot(&line) {
        let mut random = Random::new(boot);
        pages(&mut random);
        buffers(&mut random);
    }
}

/// The number of the boot, if it is not the first: that of `candor.boot=3,xxxx`.
fn boot(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(meeting::BOOT)?.strip_prefix('='))?;
    value.split(',').next()?.parse().ok()
}

fn pages(random: &mut Random) {
    let most = random.between(MOST_BYTES / 4, MOST_BYTES);
    let mut pieces = Vec::new();
    let mut taken = 0;
    while taken < most {
        let bytes = random.between(1, LARGEST_PIECE);
        let mut piece = vec![0_u8; bytes as usize];
        // Zeros: a saved machine does not keep pages of zeros.
        piece.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *black_box(byte) = 0);
        pieces.push(piece);
        taken += bytes;
    }
    free(pieces, random);
}

fn buffers(random: &mut Random) {
    let pairs = random.between(MOST_PAIRS / 4, MOST_PAIRS);
    // A kernel without them has no such buffers either.
    let pairs = (0..pairs).map_while(|_| UnixDatagram::pair().ok());
    let pairs: Vec<_> = pairs.collect();
    let bytes = [0; LONGEST_DATAGRAM as usize];
    for (one, _) in &pairs {
        for _ in 0..random.between(1, DATAGRAMS) {
            let length = random.between(1, LONGEST_DATAGRAM) as usize;
            // Where there is no room, there is nothing to shuffle.
            let _ = one.set_nonblocking(true).and_then(|()| one.send(&bytes[..length]));
        }
    }
    free(pairs, random);
}

/// Drops them in another order.
fn free<T>(mut all: Vec<T>, random: &mut Random) {
    while !all.is_empty() {
        let at = random.between(0, all.len() as u64 - 1) as usize;
        drop(all.swap_remove(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_is_on_the_command_line() {
        for (line, expected) in [
            ("console=ttyS0 quiet", None),
            ("console=ttyS0 candor.boot=3,xxxx\n", Some(3)),
            ("candor.boot=12, quiet", Some(12)),
            ("candor.boot=, quiet", None),
            ("candor.bootx=2", None),
        ] {
            assert_eq!(boot(line), expected, "{line}");
        }
    }

    #[test]
    fn everything_is_freed() {
        let one = std::rc::Rc::new(());
        free(vec![std::rc::Rc::clone(&one); 100], &mut Random::new(1));
        assert_eq!(std::rc::Rc::strong_count(&one), 1);
        // As a guest does it; the limits are those of this process.
        pages(&mut Random::new(2));
        buffers(&mut Random::new(2));
    }
}
