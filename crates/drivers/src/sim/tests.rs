use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use candor_port::Handover;

use super::*;

/// The longest time for what takes milliseconds, on a machine that does much else.
const MOST: Nanos = Nanos::from_secs(30);

/// A hub that does what a test says, of a bus that no other test has.
fn scripted_hub(name: &str) -> (UnixListener, Address) {
    let place = format!("test-{name}-{}", std::process::id());
    let socket = format!("candor.sim.{}.{place}", peer::own_user());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(socket).unwrap());
    (listener.unwrap(), format!("sim:{place}?bitrate=1M&data_bitrate=8M").parse().unwrap())
}

/// Lets the next one join.
fn admit(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; message::LEN]).unwrap();
    let rates = Rates { nominal: 1_000_000, data: 8_000_000 };
    stream.write_all(&Message::Accepted { passed: 7, rates }.encode()).unwrap();
    stream
}

fn open_here(address: &Address, wanted: Wanted) -> Port {
    open(address, wanted, &Handover::default()).unwrap()
}

/// Transmits so many frames, each until it has been on the bus.
fn transmit(port: &mut Port, count: u64) {
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    let (counters, end) = (transmitter.counters(), clock::now::<Monotonic>() + MOST);
    let before = counters.frames.get();
    while counters.frames.get() < before + count || !transmitter.is_drained() {
        if counters.frames.get() == before + count
            || transmitter.transmit(&"123#".parse().unwrap(), false) != Sent::Taken
        {
            transmitter.wait(Nanos::from_millis(10));
        }
        assert!(clock::now::<Monotonic>() < end, "{counters:?}");
    }
}

#[test]
fn who_finds_the_next_hub_late_learns_what_it_missed() {
    for (own_frames, missed) in [(false, 3), (true, 5)] {
        let (listener, address) = scripted_hub(&format!("late-{own_frames}"));
        let opening = std::thread::spawn({
            let address = address.clone();
            move || open_here(&address, Wanted { own_frames, ..Wanted::BOTH })
        });
        let (of_receiver, of_transmitter) = (admit(&listener), admit(&listener));
        let mut port = opening.join().unwrap();
        // Now there is no hub for who comes, and only the transmitter notices.
        drop((listener, of_transmitter));
        let mut other = open_here(&address, Wanted::TRANSMITTER);
        transmit(&mut other, 3);
        transmit(&mut port, 2);
        drop(of_receiver);
        let receiver = port.receiver.as_deref_mut().unwrap();
        let counters = receiver.counters();
        assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Nothing));
        assert_eq!(counters.overflow.get(), missed, "own frames: {own_frames}");
        transmit(&mut other, 1);
        assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Frames(1)));
        assert_eq!((counters.frames.get(), counters.overflow.get()), (1, missed));
    }
}

/// A process that is stopped, or has no room for another open file, may go on.
#[test]
fn a_hub_that_does_not_answer_is_waited_for() {
    let (listener, address) = scripted_hub("silent");
    let error = open(&address, Wanted::BOTH, &Handover::default()).err().unwrap();
    let hub = format!("the hub of the bus (process {}) does not answer", std::process::id());
    assert!(error.to_string().contains(&hub), "{error}");
    assert!(error.is_passing() && crate::may_come(&address, &error), "{error}");
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(listener);
    transmit(&mut open_here(&address, Wanted::BOTH), 1);
}

#[test]
fn frames_that_do_not_leave_are_a_trouble_until_they_do() {
    let (listener, address) = scripted_hub("stuck");
    let address: Address = format!("{address}&queue=1").parse().unwrap();
    let opening = std::thread::spawn(move || open_here(&address, Wanted::TRANSMITTER));
    let mut hub = admit(&listener);
    let mut port = opening.join().unwrap();
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    let (counters, frame) = (transmitter.counters(), "123#".parse().unwrap());
    for reported in 1..=2 {
        let begin = clock::now::<Monotonic>();
        assert_eq!(transmitter.transmit(&frame, false), Sent::Taken);
        while !counters.trouble.is_there() {
            assert_eq!(transmitter.transmit(&frame, false), Sent::Full);
            assert!(clock::now::<Monotonic>().since(begin) < MOST);
            transmitter.wait(Nanos::from_millis(10));
        }
        assert!(clock::now::<Monotonic>().since(begin) >= ANSWER_TIMEOUT);
        assert_eq!(counters.trouble.get().as_deref(), Some(STUCK));
        hub.write_all(&Message::Transmitted(reported).encode()).unwrap();
        assert!(transmitter.is_drained());
        assert_eq!(counters.trouble.get(), None);
    }
    // Another hub is looked for.
    assert_eq!(transmitter.transmit(&frame, false), Sent::Taken);
    drop((hub, listener));
    transmit(&mut port, 1);
    assert_eq!((counters.trouble.get(), counters.lost.get()), (None, 1));
}
