//! The way to the host and back, over devices that need no driver and cost no interrupt.
//!
//! ```text
//!  host                                     guest
//!  save the machine   <-- STOP_PORT ------- ready for an order
//!  restore, continue  --- fw_cfg ---------> the order
//!  the report         <-- REPORT_PORT ----- messages
//!  exit status        <-- EXIT_PORT ------- the end
//! ```
//!
//! A task with the right to use ports takes longer to switch to, so no task that is measured has
//! it: the order is fetched by a process of its own, and the report is written when everything is
//! over.

use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::ops::RangeInclusive;
use std::thread;

use candor_linux::clock;
use candor_linux::dma::Page;
use candor_linux::port::Ports;
use candor_linux::process::fork;
use candor_linux::realtime;
use candor_protocol::{Message, Order, channel, meeting};
use candor_time::{Instant, Monotonic, Nanos};

use crate::failure::{Context, FAULT, Failure};

/// fw_cfg: the key of an item, of two bytes, is written here,
const SELECTOR: u16 = 0x510;
/// and its bytes are read from here.
const DATA: u16 = 0x511;
/// Or a command is written here, as the upper and the lower half of its address: see [`copy`].
const DMA: [u16; 2] = [0x514, 0x518];
/// The last of these ports.
const LAST: u16 = 0x51B;
/// The key of the directory: a count, then an entry per file. All numbers are big-endian.
const DIRECTORY: u16 = 0x19;
/// Size 4, key 2, reserved 2, name 56 bytes.
const ENTRY_LEN: usize = 64;
/// More entries than QEMU ever has.
const MOST_ENTRIES: u32 = 4096;

/// Lets the host save the machine, and returns the order when a restored one goes on.
pub(crate) fn next_order() -> Result<Order, Failure> {
    let place = "the order";
    let (mut order, mut writer) = pipe().at(place, FAULT)?;
    let child = fork(|| {
        let (status, bytes) = match stop_and_fetch(place) {
            Ok(bytes) => (0, bytes),
            Err(failure) => (1, failure.to_string().into_bytes()),
        };
        if writer.write_all(&bytes).is_ok() { status } else { 2 }
    })
    .at(place, FAULT)?;
    drop(writer);
    let mut bytes = Vec::new();
    order.read_to_end(&mut bytes).at(place, FAULT)?;
    let exit = child.wait().at(place, FAULT)?;
    if exit.status == Ok(1) {
        let reason = String::from_utf8_lossy(&bytes);
        return Err(Failure::new(place, reason, "start the guest through candor"));
    }
    let decoded =
        channel::decode::<Order>(&bytes, 0).at(place, "use the same version of candor")?;
    match decoded {
        Some((order, _)) => Ok(order),
        None => Err(Failure::new(place, "it is empty", "start the guest through candor")),
    }
}

/// Stops the machine; the bytes of the order, when it goes on.
fn stop_and_fetch(place: &str) -> Result<Vec<u8>, Failure> {
    let acquire = |ports| Ports::acquire(ports).at(place, "boot without lockdown");
    let report = acquire(only(meeting::REPORT_PORT))?;
    let stop = acquire(only(meeting::STOP_PORT))?;
    let firmware = acquire(SELECTOR..=LAST)?;
    before_a_timer(|time| {
        report.write_all(meeting::REPORT_PORT, &time.as_nanos().to_le_bytes());
        stop.write_u8(meeting::STOP_PORT, 1);
    })?;
    fetch(firmware)
}

pub(crate) const fn only(port: u16) -> RangeInclusive<u16> {
    port..=port
}

/// The bytes of the order.
fn fetch(ports: Ports) -> Result<Vec<u8>, Failure> {
    ports.write_u16(SELECTOR, DIRECTORY);
    let mut count = [0; 4];
    ports.read_all(DATA, &mut count);
    for _ in 0..u32::from_be_bytes(count).min(MOST_ENTRIES) {
        let mut entry = [0; ENTRY_LEN];
        ports.read_all(DATA, &mut entry);
        let Some((size, key)) = order_in(&entry) else { continue };
        let mut bytes = vec![0; size];
        if size >= LARGE && copy(ports, key, &mut bytes).is_some() {
            return Ok(bytes);
        }
        ports.write_u16(SELECTOR, key);
        ports.read_all(DATA, &mut bytes);
        return Ok(bytes);
    }
    Err(Failure::new(
        meeting::ORDER,
        "the machine does not have this file",
        "add it with QEMU's option -fw_cfg",
    ))
}

/// From so many bytes on the device copies them itself. One by one, 30 MB take the host 3 s.
const LARGE: usize = 1 << 20;

/// Lets the device copy a file, page by page. `None` where the kernel does not tell addresses of pages, or the device
/// refuses it.
///
/// A command is a page that begins with its bits (32), a length (32) and an address (64), big-endian; the device
/// clears the bits but for that of an error (Documentation of QEMU, "QEMU Firmware Configuration Device").
fn copy(ports: Ports, key: u16, bytes: &mut [u8]) -> Option<()> {
    const READ: u32 = 1 << 1;
    const SELECT: u32 = 1 << 3;
    let mut command = Page::new().ok()?;
    let data = Page::new().ok()?;
    let mut bits = READ | SELECT | u32::from(key) << 16;
    for part in bytes.chunks_mut(Page::LEN) {
        let mut words = [0; 16];
        words[..4].copy_from_slice(&bits.to_be_bytes());
        words[4..8].copy_from_slice(&u32::try_from(part.len()).ok()?.to_be_bytes());
        words[8..].copy_from_slice(&data.address().to_be_bytes());
        command.write(&words);
        let [upper, lower] = DMA;
        ports.write_u32(upper, ((command.address() >> 32) as u32).swap_bytes());
        ports.write_u32(lower, (command.address() as u32).swap_bytes());
        let mut left = [0; 4];
        command.read(&mut left);
        if left != [0; 4] {
            return None;
        }
        data.read(part);
        // What is selected goes on where it was.
        bits = READ;
    }
    Some(())
}

/// The size and the key of the order, if this entry of the directory is its.
fn order_in(entry: &[u8; ENTRY_LEN]) -> Option<(usize, u16)> {
    let [s0, s1, s2, s3, k0, k1, _, _, name @ ..] = entry;
    let name = name.split(|&byte| byte == 0).next()?;
    let size = u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize;
    (name == meeting::ORDER.as_bytes()).then_some((size, u16::from_be_bytes([*k0, *k1])))
}

/// A mark for a host that counts instructions, which finds it by its name.
#[inline(never)]
pub(crate) fn counting_begins() {
    black_box("begins");
}

/// As [`counting_begins`].
#[inline(never)]
pub(crate) fn counting_ends() {
    black_box("ends");
}

/// Calls `stop` so shortly before a timer of the processor expires that nothing else can happen in
/// between; `stop` gets the time of that timer.
///
/// QEMU takes a stopped processor for an idle one until it has noticed the stop, and may skip the
/// time to the next timer, as it does when the processor idles: who comes first is up to the host.
/// When that timer has expired, both ways are one again: what was skipped is only some turns of a
/// loop that waits for it.
fn before_a_timer<T>(stop: impl FnOnce(Instant<Monotonic>) -> T) -> Result<T, Failure> {
    const AHEAD: Nanos = Nanos::from_millis(3);
    const SHORTLY: Nanos = Nanos::from_micros(4);
    const AFTERWARDS: Nanos = Nanos::from_micros(20);
    /// The longest way from the end of a sleep back into the thread, on an -rt kernel too.
    const WAKING: Nanos = Nanos::from_micros(200);
    let place = "a timer";
    // Otherwise the kernel lets an ordinary task sleep up to 50 us longer, and the timer with it.
    realtime::set_timer_slack(1).at(place, FAULT)?;
    let start = clock::now::<Monotonic>();
    let expiry = start + AHEAD;
    let timer = thread::Builder::new().spawn(move || clock::sleep_until(expiry));
    let timer = timer.at(place, FAULT)?;
    // Meanwhile the other thread falls asleep too.
    clock::sleep_until(start + (AHEAD - WAKING)).at(place, FAULT)?;
    wait_busily(start + (AHEAD - SHORTLY));
    let stopped = stop(expiry);
    wait_busily(expiry + AFTERWARDS);
    timer
        .join()
        .map_err(|_| Failure::new(place, "the thread panicked", FAULT))?
        .at(place, FAULT)?;
    Ok(stopped)
}

/// Keeps the processor busy.
#[inline(never)]
fn wait_busily(end: Instant<Monotonic>) {
    while clock::now::<Monotonic>() < end {}
}

/// Sends messages and ends the machine. Nothing comes after this.
pub(crate) fn end(messages: &[Message]) -> ! {
    let acquire = |port| Ports::acquire(only(port));
    if let (Ok(report), Ok(exit)) = (acquire(meeting::REPORT_PORT), acquire(meeting::EXIT_PORT)) {
        for message in messages {
            report.write_all(meeting::REPORT_PORT, &channel::encode(message));
        }
        let is_done = messages.last() == Some(&Message::Done);
        let status = if is_done { meeting::EXIT_DONE } else { meeting::EXIT_FAILED };
        exit.write_u8(meeting::EXIT_PORT, status);
    }
    // Without ports there is no way to say anything: the end of the first process makes the kernel
    // panic, which the host tells.
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> [u8; ENTRY_LEN] {
        let mut entry = [0; ENTRY_LEN];
        entry[..8].copy_from_slice(&[0, 1, 0, 2, 0x00, 0x2A, 0, 0]);
        entry[8..8 + name.len()].copy_from_slice(name.as_bytes());
        entry
    }

    #[test]
    fn the_order_is_found_by_its_name() {
        assert_eq!(order_in(&entry(meeting::ORDER)), Some((0x1_0002, 0x2A)));
        assert_eq!(order_in(&entry("etc/acpi/tables")), None);
        assert_eq!(order_in(&entry("opt/candor/order2")), None);
        assert_eq!(order_in(&[0; ENTRY_LEN]), None);
    }
}
