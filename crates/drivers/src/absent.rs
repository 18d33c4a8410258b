//! A port whose place is not there yet: when the machine is switched on, an address, an interface or a name server may come
//! later than who wants to use it.
//!
//! [`absent`] makes halves that say what is missing, until somebody has opened the port and puts the true ones in their place.

use std::sync::Arc;

use candor_linux::clock;
use candor_port::{
    Address, Capabilities, Error, ErrorKind, Medium, Port, Progress, Received, Receiver,
    ReceiverCounters, Sent, Transmitter, TransmitterCounters, Until, Waker, Wanted,
};
use candor_time::{Monotonic, Nanos};

use crate::medium;

/// Whether what hinders a port may pass without anybody changing its address: what it names is not there, or somebody else has
/// it. A recording is there, or its name is wrong.
#[must_use]
pub fn may_come(address: &Address, error: &Error) -> bool {
    let is_passing =
        error.is_passing() || matches!(error.kind(), ErrorKind::Missing | ErrorKind::Busy);
    is_passing && medium(address) != Some(Medium::Recording)
}

/// The halves of a port that is not there yet, for this reason. The receiver says it by errors, the transmitter by taking nothing.
#[must_use]
pub fn absent(error: &Error, wanted: Wanted) -> Port {
    let mut port = Port::new(Capabilities::default());
    // Not one that passes: who has it tells nobody that it works again.
    let mut reason = Error::new(error.port(), error.reason()).of_kind(error.kind());
    if let Some(remedy) = error.remedy() {
        reason = reason.with_remedy(remedy);
    }
    if wanted.transmitter {
        let counters = Arc::<TransmitterCounters>::default();
        counters.trouble.set(error.without_port());
        port.transmitter = Some(Box::new(NoTransmitter { counters }));
    }
    if wanted.receiver {
        let counters = Arc::<ReceiverCounters>::default();
        counters.trouble.set(error.without_port());
        port.receiver = Some(Box::new(NoReceiver { reason, counters }));
    }
    port
}

struct NoReceiver {
    reason: Error,
    counters: Arc<ReceiverCounters>,
}

impl Receiver for NoReceiver {
    fn receive(&mut self, _: Until, _: &mut dyn FnMut(&Received)) -> Result<Progress, Error> {
        Err(self.reason.clone())
    }

    fn waker(&self) -> Option<Waker> {
        None
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

struct NoTransmitter {
    counters: Arc<TransmitterCounters>,
}

impl Transmitter for NoTransmitter {
    fn transmit(&mut self, _: &candor_wire::can::Frame, _: bool) -> Sent {
        Sent::Down
    }

    fn wait(&mut self, most: Nanos) {
        let until = clock::now::<Monotonic>() + most;
        // A signal ends it, as that of others.
        let _ = clock::sleep_until_or_signal(until);
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_is_waited_for_and_what_cannot_is_refused() {
        for (name, reason) in [
            // TEST-NET-1 (RFC 5737): no machine has it.
            ("can2udp:192.0.2.77:4858", Some("192.0.2.77")),
            ("cannelloni:udp://127.0.0.1:0?listen=192.0.2.77:20000", Some("192.0.2.77")),
            ("cannelloni:tcp://192.0.2.77:20000?role=server", Some("192.0.2.77")),
            ("cannelloni:udp://no-such-host.invalid:20000", Some("no-such-host.invalid")),
            ("multicast:239.74.163.2?interface=nosuch0", Some("nosuch0")),
            ("file:no/such/recording.log", None),
            ("can2udp:127.0.0.1:4858?version=9", None),
        ] {
            let address: Address = name.parse().unwrap();
            let wanted = Wanted { transmitter: !name.starts_with("file"), ..Wanted::BOTH };
            let Err(error) = crate::open(&address, wanted) else { panic!("{name} is there") };
            assert_eq!(may_come(&address, &error), reason.is_some(), "{error}");
            let Some(reason) = reason else { continue };
            let mut port = absent(&error, wanted);
            let transmitter = port.transmitter.as_mut().unwrap();
            assert_eq!(transmitter.transmit(&"123#".parse().unwrap(), false), Sent::Down);
            let receiver = port.receiver.as_mut().unwrap();
            let error = receiver.receive(Until::Now, &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains(reason) && !error.is_passing(), "{name}: {error}");
            for trouble in [&transmitter.counters().trouble, &receiver.counters().trouble] {
                assert!(trouble.get().unwrap().contains(reason), "{name}");
            }
        }
    }
}
