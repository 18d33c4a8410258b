//! What clients of the binary sub-protocols say: a call whose arguments are taken subscribes to what it says, and frames
//! come out as messages that a client reads. What clients read makes nothing end either.
#![no_main]

use candor_events::afb::wanted;
use candor_events::binary::{Encoding, Message, parse, read, reply};
use candor_events::{Bus, Format, Hub, Subscriber};

fn length(len: usize, out: &mut Vec<u8>) {
    out.extend((len as u32).to_be_bytes());
}

/// How many events a message has.
fn events(message: Message) -> u64 {
    match message {
        Message::Event { .. } => 1,
        Message::Batch(messages) => messages.into_iter().map(events).sum(),
        _ => 0,
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for encoding in Encoding::ALL {
        let _ = read(encoding, bytes);
        let Ok(call) = parse(encoding, bytes) else { continue };
        let mut refused = Vec::new();
        reply(encoding, &call.id, Err(&call.verb), &mut refused);
        if call.id.is_u64() {
            assert!(matches!(read(encoding, &refused), Some(Message::Reply(_, Err(_)))));
        }
        let Ok(wanted) = wanted(&call.arguments) else { continue };
        let format = Format::Binary(encoding);
        let mut hub = Hub::new(vec![Bus { name: call.verb, database: None }]);
        hub.open(format, length);
        let mut subscriber = Subscriber::new(&hub, format);
        for pattern in wanted.patterns {
            subscriber.subscribe(&mut hub, pattern, wanted.filter.clone(), wanted.is_latest);
        }
        subscriber.set_batched(wanted.is_batched);
        for frame in ["620#0102", "18FEF100#FF", "620#0103"] {
            hub.publish(0, 1_000, &frame.parse().unwrap());
        }
        let mut out = Vec::new();
        subscriber.deliver(&hub, usize::MAX, &mut out);
        let (mut rest, mut count) = (&out[..], 0);
        while let Some((header, behind)) = rest.split_first_chunk() {
            let (message, behind) = behind.split_at(u32::from_be_bytes(*header) as usize);
            count += events(read(encoding, message).unwrap());
            rest = behind;
        }
        let counts = subscriber.counts();
        assert_eq!((counts.missed, counts.delivered), (0, count));
        subscriber.leave(&mut hub);
    }
});
