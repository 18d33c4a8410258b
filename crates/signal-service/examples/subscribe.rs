//! Frames of a recording as events, in this process.

use candor_signal_service::{
    Batch, ClientTimeouts, Config, Filter, Pace, Pattern, Service, Source,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = "file:examples/recordings/drive.log".parse()?;
    let source = Source { name: "can0".into(), address, database: None, pace: Pace::Subscribers };
    let (listen, dbus) = (Vec::new(), Vec::new());
    let coalesce = "1.5ms".parse()?;
    let client_timeouts = ClientTimeouts::default();
    let config = Config {
        sources: vec![source],
        listen,
        dbus,
        coalesce,
        allow_origin: vec![],
        client_timeouts,
    };
    let service = Service::start(config)?;
    let mut events = service.local()?;
    events.subscribe(Pattern::Raw, Filter::default(), false);
    let mut batch = Batch::default();
    while events.next_batch(&mut batch) {
        for event in batch.events() {
            println!("{} {:?}", events.name(event.topic), event.content);
        }
    }
    Ok(())
}
