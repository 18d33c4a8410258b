//! Plans and records of a tester outside of a guest: any bytes are refused or have a meaning, and what a plan says can be
//! done.

#![no_main]

use candor_test_bed::{Plan, RECORD_BYTES, Record, TestBed};
use libfuzzer_sys::fuzz_target;

/// For how long a plan is followed, in ns.
const FOLLOWED_NS: u64 = 50_000_000;

fuzz_target!(|bytes: &[u8]| {
    for bytes in bytes.as_chunks::<RECORD_BYTES>().0 {
        if let Ok(record) = Record::from_bytes(bytes) {
            // Bytes that mean nothing are not kept.
            assert_eq!(Record::from_bytes(&record.to_bytes()), Ok(record));
        }
    }
    let Ok(plan) = Plan::read(bytes) else { return };
    let mut bed = TestBed::new(plan.buses().count());
    if bed.set_up(&plan, 0).is_err() {
        return;
    }
    let (mut at_ns, mut records) = (0, 0_u64);
    let mut sink = |record: Record| {
        assert!(record.at_ns >= at_ns, "{record:?} after {at_ns}");
        at_ns = record.at_ns;
        records += 1;
    };
    bed.start(&plan, 0, &mut sink);
    bed.advance(Some(&plan), FOLLOWED_NS, &mut sink);
    assert!(bed.deadline().is_none_or(|at| at > FOLLOWED_NS));
    assert!(records > 0);
});
