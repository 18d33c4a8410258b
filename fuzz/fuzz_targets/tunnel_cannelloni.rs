//! Datagrams and streams of cannelloni: what is read is read again after writing it, and where a
//! stream is cut makes no difference.
#![no_main]

use candor_wire::can::Frame;
use candor_wire::can::tunnel::Malformed;
use candor_wire::can::tunnel::cannelloni::{Datagram, HELLO, Outgoing, Stream};

fn read(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> (Vec<Frame>, Option<Malformed>) {
    let (mut stream, mut frames) = (Stream::new(), Vec::new());
    for piece in pieces {
        if let Err(error) = stream.decode(piece.as_ref(), |frame| frames.push(frame)) {
            return (frames, Some(error));
        }
    }
    (frames, None)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Datagram::decode(bytes) {
        Ok(datagram) => {
            let frames: Vec<_> = datagram.frames().collect();
            assert_eq!(frames.len(), usize::from(datagram.count()));
            let mut outgoing = Outgoing::new(vec![0; bytes.len()]);
            for frame in &frames {
                assert_eq!(outgoing.push(frame), Ok(()), "{frame}");
            }
            // Only flags that mean nothing may be lost.
            let written = outgoing.finish(datagram.sequence());
            assert_eq!(written.len(), bytes.len());
            assert!(Datagram::decode(written).is_ok_and(|again| again.frames().eq(frames)));
        }
        Err(error) => assert!(error.offset <= bytes.len() as u64, "{error}"),
    }
    // The first byte says how the rest is cut.
    let Some((&cut, rest)) = bytes.split_first() else { return };
    let stream = [&HELLO, rest].concat();
    let whole = read(std::iter::once(&stream));
    assert_eq!(read(stream.chunks(usize::from(cut) + 1)), whole);
    assert_eq!(read(stream.chunks(1)), whole);
    let _ = read(std::iter::once(rest));
});
