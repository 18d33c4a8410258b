//! A drive of a truck, as a logger wrote it in MF4: not sorted, not finished.

use std::path::PathBuf;

use candor_recording::open;

#[test]
fn every_frame_is_read_in_order_of_time() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/j1939");
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if !folder.is_dir() && !is_ci {
        println!("skipped: {} is absent", folder.display());
        return;
    }
    let mut recording = open(&folder.join("truck.mf4"), None).expect("a known format");
    assert_eq!(recording.format().name, "mf4");
    let mut times = Vec::new();
    let mut sum = 0_u64;
    for record in &mut recording {
        let record = record.expect("a whole record");
        times.push(record.time_ns);
        let bytes = record.frame.data().iter().map(|&byte| u64::from(byte)).sum::<u64>();
        sum = sum.wrapping_add(bytes + u64::from(record.frame.can_id()));
    }
    assert!(times.is_sorted());
    assert_eq!((times.len(), recording.start_ns()), (150_411, Some(1_701_363_724_000_000_000)));
    // python-can 4.6.1 with asammdf reads the same set of frames.
    assert_eq!((recording.cut().is_none(), sum), (true, 348_990_133_649_383));
}
