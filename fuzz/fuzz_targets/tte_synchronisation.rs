//! Cycles found out from frames that anybody can send: whatever comes, and whenever, it neither panics nor believes what is
//! impossible.
#![no_main]

use candor_time::{Instant, Nanos, Realtime};
use candor_tte::frames::{Frames, PCF_ID, integration};
use candor_tte_live::synchronisation::{Heard, Synchronisation};
use candor_wire::eth::Address;

const CYCLE: Nanos = Nanos::from_millis(1);
const WAY: Nanos = Nanos::from_nanos(5_125);

libfuzzer_sys::fuzz_target!(|steps: Vec<(u8, u32, u32, Vec<u8>)>| {
    let frames = Frames::default();
    let mut it = Synchronisation::new(CYCLE, frames.critical, PCF_ID, WAY);
    let mut now_ns = 1_u64 << 60;
    let (mut accepted, mut refused) = (0, 0);
    for (kind, wait, number, bytes) in steps {
        now_ns += match kind & 3 {
            0 => CYCLE.as_nanos(),
            1 => u64::from(wait) % CYCLE.as_nanos(),
            2 => u64::from(wait),
            _ => 0,
        };
        let now = Instant::<Realtime>::from_nanos(now_ns);
        let source = Address([2, 0, 0, 0, 0, 1]);
        let delay = Nanos::from_nanos(u64::from(wait >> 4));
        let frame = frames.pcf(source, PCF_ID, &integration(number, delay));
        let mut mangled = frame.to_vec();
        for (byte, by) in mangled.iter_mut().zip(&bytes) {
            *byte ^= by;
        }
        let (heard, stamp) = match kind >> 2 & 3 {
            0 => (&frame[..], Some(now)),
            1 => (&mangled[..], Some(now)),
            2 => (&bytes[..], Some(now)),
            _ => (&frame[..], None),
        };
        match it.hear(heard, stamp) {
            Heard::Accepted => accepted += 1,
            Heard::Refused(_) => refused += 1,
            Heard::Stranger => {}
        }
        it.look(now);
        let _ = it.next_change();
        // Frames that count are within an eighth of a cycle of where they are to come.
        assert!(it.precision() <= CYCLE, "{}", it.precision());
        assert!(
            !it.is_synchronised()
                || it.begin().0.as_nanos().abs_diff(now_ns) < 5 * CYCLE.as_nanos()
        );
    }
    assert_eq!((it.accepted(), it.refused().values().sum::<u64>()), (accepted, refused));
});
