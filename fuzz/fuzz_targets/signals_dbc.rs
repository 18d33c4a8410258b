//! DBC files: read or refused, and what was read decodes and encodes any data.
#![no_main]

use candor_diagnostics::Findings;
use candor_signals::{Database, ValueType};
use candor_wire::can::Frame;
use candor_wire::can::frame::{FD_LENGTHS, id_word};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let findings = Findings::new();
    let database = Database::parse("fuzz", bytes, &findings);
    assert_eq!(database.is_none(), findings.has_errors());
    // Every finding can be shown.
    let _ = findings.to_string();
    let Some(database) = database else { return };

    // The end of the file is the data: frames of all lengths.
    let mut data = [0; 64];
    for (data, &byte) in data.iter_mut().zip(bytes.iter().rev()) {
        *data = byte;
    }
    for message in database.messages().iter().take(64) {
        for length in FD_LENGTHS.map(usize::from) {
            let fd_flags = (length > 8).then_some(0);
            let frame = Frame::from_parts(id_word(message.id), &data[..length], fd_flags);
            let frame = frame.expect("a legal frame");
            let known = database.message_of(&frame).expect("its own message");
            assert_eq!(known.id, message.id);
            for decoded in message.decode(&frame) {
                let signal = decoded.signal;
                assert!(signal.field.bytes() <= length.min(message.length));
                assert!(signal.field.range().contains(&decoded.raw));
                assert!(message.is_selected(signal, frame.data()));
                let _ = decoded.value_name();
                // What is written is what was read, bit by bit.
                let mut written = [0x55; 64];
                signal.field.put(&mut written, decoded.raw).expect("within its range");
                assert_eq!(signal.field.get(&written), Some(decoded.raw));
                if signal.value_type == ValueType::Integer
                    && signal.field.bits() <= 32
                    && (1e-6..1e6).contains(&signal.scaling.scale().abs())
                    && signal.scaling.offset().abs() < 1e6 * signal.scaling.scale().abs()
                {
                    assert_eq!(signal.raw(decoded.physical), Ok(decoded.raw));
                }
            }
        }
        let _ = message
            .encode(message.signals.iter().map(|it| (it.name.as_str(), it.scaling.offset())));
    }
    // Traffic out of it.
    if let Ok(dbc) = candor_network::file::dbc_messages("fuzz", bytes, "[[message]]") {
        for (_, message) in &dbc.messages {
            assert!(message.length <= 64 && message.period.as_nanos() > 0);
        }
    }
});
