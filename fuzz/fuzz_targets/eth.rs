//! Ethernet headers: what is read is written back as it was. UDP datagrams: what is written is read back.
#![no_main]

use candor_wire::eth::udp::Datagram;
use candor_wire::eth::{Frame, HEADER_LEN, TAG_LEN};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match Frame::parse(bytes) {
    Ok(frame) => {
        let mut written = vec![0; bytes.len()];
        let payload = frame.header.write(&mut written).expect("as long as it was");
        payload.copy_from_slice(frame.payload);
        assert_eq!(written, bytes);
        if let Some(datagram) = Datagram::parse(&frame)
            && let Ok(data) = datagram.data
        {
            let mut written = vec![0; frame.payload.len()];
            let len = datagram.write(&mut written).expect("without options it is no longer");
            let again = Frame { payload: &written[..len], ..frame };
            assert_eq!(Datagram::parse(&again), Some(datagram), "{data:?}");
        }
    }
    Err(error) => assert!(error.len == bytes.len() && error.len < HEADER_LEN + TAG_LEN),
});
