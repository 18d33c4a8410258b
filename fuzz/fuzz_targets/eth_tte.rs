//! Time-triggered Ethernet: what is read is written back as it was, but for reserved bits; what is written is read back.
#![no_main]

use candor_wire::eth::tte::{
    CriticalTraffic, Layout, LayoutError, Measurement, MeasurementError, Pcf, PcfError, TypeField,
};
use candor_wire::eth::{Frame, ether_type};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = Frame::parse(bytes) else { return };
    let payload = frame.payload;

    match Pcf::parse(payload) {
        Ok(pcf) => {
            let mut written = [0xEE; Pcf::LEN];
            pcf.write(&mut written);
            assert_eq!(Pcf::parse(&written), Ok(pcf));
            assert!((0..8).chain(12..14).chain(20..28).all(|at| written[at] == payload[at]));
            assert_eq!(written[14], payload[14] & 0xF);
            let units = Pcf::transparent_clock_from_ns(pcf.transparent_clock_ns());
            assert_eq!(units, Some(pcf.transparent_clock & !0xFFFF));
        }
        Err(PcfError::TooShort { len }) => assert!(len == payload.len() && len < Pcf::LEN),
        Err(PcfError::Kind(code)) => assert_eq!(code, payload[14] & 0xF),
    }

    match Measurement::parse(payload) {
        Ok(measurement) => {
            let mut written = [0xEE; Measurement::LEN];
            measurement.write(&mut written);
            assert_eq!(Measurement::parse(&written), Ok(measurement));
            assert!((0..5).chain(6..Measurement::LEN).all(|at| written[at] == payload[at]));
        }
        Err(MeasurementError::TooShort { len }) => {
            assert!(len == payload.len() && len < Measurement::LEN);
        }
        Err(MeasurementError::Magic(_) | MeasurementError::Version(_)) => {}
    }

    // The marker and the mask are the first bytes of the payload.
    if let Some((words, _)) = payload.split_first_chunk::<8>() {
        let (marker, mask) = words.split_at(4);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        if let Ok(critical) = CriticalTraffic::new(word(marker), word(mask)) {
            let id = critical.id_of(&frame.header.destination);
            let again = critical.address(id.unwrap_or_default());
            assert_eq!(critical.id_of(&again), Some(id.unwrap_or_default()));
        }
    }

    let (destination, source) = (frame.header.destination, frame.header.source);
    for type_field in [TypeField::EtherType(frame.header.ether_type), TypeField::Length] {
        let size = bytes.len() + 4;
        let layout = Layout { destination, source, type_field, size };
        let mut written = vec![0xEE; bytes.len()];
        match layout.write(payload, &mut written) {
            Ok(len) => {
                assert_eq!(len, bytes.len());
                let ether_type = u16::from_be_bytes([written[12], written[13]]);
                if ether_type != ether_type::VLAN {
                    let again = Frame::parse(&written).expect("it has a header");
                    assert!(again.payload.starts_with(payload));
                    assert_eq!(again.header.destination, destination);
                }
            }
            Err(LayoutError::Size(_)) => assert!(!(64..=1_518).contains(&size)),
            Err(LayoutError::EtherType(value)) => assert!(value < ether_type::FIRST),
            Err(error) => panic!("{error}"),
        }
    }
});
