//! The reader of network files, and of the DBC files and rule files that they name.
#![no_main]

use candor_network::bounds;
use candor_network::file::{Purpose, parse};
use candor_network::flow::{flows, loads};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let include = |name: &str| match name.ends_with(".dbc") {
        true => Ok(include_bytes!("../../examples/small-car.dbc").to_vec()),
        false => Ok(include_bytes!("../../examples/small-car.rules.toml").to_vec()),
    };
    let (network, findings) = parse("fuzz", text, &include, Purpose::Bound);
    for finding in findings.sorted() {
        assert!(finding.origin.line_column().0 > 0);
    }
    let Some(network) = network else { return };
    let flows = flows(&network).expect("what cannot be followed is an error of the file");
    let sent: usize = network.nodes.iter().map(|node| node.messages.len()).sum();
    let own = flows.iter().filter(|flow| flow.gateways.is_empty()).count();
    assert_eq!(own, sent, "each message is sent once");
    let loads = loads(&network, &flows);
    for (bus, load) in loads.iter().enumerate() {
        let on_bus = flows.iter().filter(|it| it.bus == bus && !it.is_refused).count();
        assert_eq!(load.longest_share > 0.0, on_bus > 0);
        assert!(load.longest_share.is_finite() && load.frames_per_second.is_finite());
    }
    // A bus that hardly rests takes long to look at.
    if flows.len() > 50 || loads.iter().any(|load| load.longest_share > 0.9) {
        return;
    }
    for bound in bounds(&network, &flows).flows.iter().flatten() {
        assert!(bound.best_ns < bound.worst_ns && bound.response.response_ns <= bound.worst_ns);
    }
});
