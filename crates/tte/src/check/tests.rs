//! Every violation with its message.

use expect_test::{Expect, expect};

use super::*;
use crate::file::parse_with_places;

/// Two switches; `a` and `b` send over both to `x`, and `c` is at the second.
const NETWORK: &str = r#"
cycle = "4ms"
precision = "1us"
end_system.a = {}
end_system.b = {}
end_system.c = {}
end_system.x = {}
switch.one = { processing = "2us" }
switch.two = { processing = "2us" }
link.a = { between = ["a", "one"] }
link.b = { between = ["b", "one"] }
link.c = { between = ["c", "two"] }
link.both = { between = ["one", "two"], delay = "100ns" }
link.x = { between = ["two", "x"] }
[flow.f]
class = "tt"
id = 1
from = "a"
to = "x"
period = "2ms"
send = "100us"
relay_delay = "10us"
[flow.g]
class = "tt"
id = 2
from = "b"
to = "x"
size = 128
send = "200us"
relay_delay = "20us"
"#;

/// The findings, without the lines of the file.
fn found(text: &str) -> String {
    let (network, findings) = parse_with_places("n", text);
    let (network, places) = network.unwrap_or_else(|| panic!("{findings}"));
    check(&network, &places, &findings);
    let lines = findings.to_string();
    let is_told = |line: &&str| line.starts_with("n:") || line.starts_with("  hint: ");
    lines.lines().filter(is_told).map(|line| format!("{line}\n")).collect()
}

/// What is found after changes to the network: what stands there, and what takes its place.
#[track_caller]
fn changed(changes: &[(&str, &str)], expected: Expect) {
    let mut text = NETWORK.to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    expected.assert_eq(&found(&text));
}

/// What is found with more text behind the network.
#[track_caller]
fn with(more: &str, expected: Expect) {
    expected.assert_eq(&found(&format!("{NETWORK}{more}")));
}

#[test]
fn a_schedule_that_works() {
    changed(&[], expect![[r#""#]]);
}

#[test]
fn clocks() {
    const SYNCHRONISED: &str = "[synchronisation]\nperiod = \"4ms\"\nmasters = [\"a\", \"b\"]\ncompression_master = \"one\"\n";
    let drifts = ("a = {}", "a = { drift = 200 }");
    let with = |more: &str| ("[flow.f]", format!("{SYNCHRONISED}{more}[flow.f]"));
    changed(
        &[drifts],
        expect![[r#"
        n:4:26: error: clocks run up to 200 ppm apart and nothing corrects them: after 5ms they differ by more than the precision of 1us, and frames miss their instants
          hint: add a table `synchronisation`, or remove `drift` and `drift_change`
    "#]],
    );
    let (old, new) = with("");
    changed(&[(old, &new)], expect![[r#""#]]);
    changed(&[drifts, (old, &new)], expect![[r#""#]]);
    changed(
        &[("a = {}", "a = { drift = -100 }"), ("b = {}", "b = { drift = 200 }"), (old, &new)],
        expect![[r#"
            n:16:10: error: clocks may differ by 1.241us, but `precision` is 1us: they run up to 300 ppm apart for 4.075797ms from one protocol control frame to the correction by the next, and a frame that is further from its instant does not correct a clock
              hint: precision = "1.242us", or a period of at most 3.197191ms
        "#]],
    );
    // The start: the way of control frames is most of the integration cycle.
    let (old, new) = with("max_transmission_delay = \"1900us\"\n");
    changed(
        &[drifts, ("\"1us\"", "\"1.5us\""), (old, &new)],
        expect![[r#"
        n:16:10: error: clocks may differ by 1.53us until they are first corrected, but `precision` is 1.5us: they begin up to half of it apart, and run up to 200 ppm apart
          hint: precision = "1.56us"
    "#]],
    );
    // All clocks run apart, but together.
    let all = [
        ("a = {}", "a = { drift = 5000 }"),
        ("b = {}", "b = { drift = 5000 }"),
        ("c = {}", "c = { drift = 5000 }"),
        ("x = {}", "x = { drift = 5000 }"),
        ("one = { ", "one = { drift = 5000, "),
        ("two = { ", "two = { drift = 5000, "),
    ];
    let (old, new) = with("");
    changed(
        &[&all[..], &[("\"1us\"", "\"100ns\""), (old, &new)]].concat(),
        expect![[r#"
        n:16:10: error: clocks may differ by 105ns, but `precision` is 100ns: they run up to 0 ppm apart for 4.074379ms from one protocol control frame to the correction by the next, and a frame that is further from its instant does not correct a clock
          hint: precision = "210ns"
    "#]],
    );
    // A switch that counts nothing.
    let ordinary = ("two = { ", "two = { relaying = \"store-and-forward\", ");
    changed(
        &[ordinary, (old, &new)],
        expect![[r#"
            n:16:10: error: clocks may differ by 772.258us, but `precision` is 1us: they run up to 0 ppm apart for 4.075781ms from one protocol control frame to the correction by the next, and a frame that is further from its instant does not correct a clock; ordinary switches delay these frames by up to 772.24us, which no transparent clock counts
              hint: relaying = "time-triggered" for each switch on their way
            n:19:7: warning: no instant of `f` holds behind `two`, which relays frames as they come
              hint: use a switch with relaying = "time-triggered"
            n:27:7: warning: no instant of `g` holds behind `two`, which relays frames as they come
              hint: use a switch with relaying = "time-triggered"
        "#]],
    );
    let (old, new) = with("max_transmission_delay = \"1us\"\n");
    changed(
        &[(old, &new)],
        expect![[r#"
        n:19:26: error: `max_transmission_delay` is 1us, but some protocol control frames take 13.62us at least, so they do not count
          hint: remove it, or max_transmission_delay = "79.54us"
    "#]],
    );
    // Jitter before it, and the clocks that count, make the longest delay longer.
    let before = ("a = {}", "a = { jitter = \"100us\", drift = 200 }");
    changed(
        &[before, ("\"10us\"", "\"80us\""), ("\"1us\"", "\"50us\""), (old, &new)],
        expect![[r#"
            n:19:26: error: `max_transmission_delay` is 1us, but some protocol control frames take 13.62us at least, so they do not count
              hint: remove it, or max_transmission_delay = "120.185us"
            n:27:15: warning: `f` is a period too late at switch `one` if the clocks of `a` and `one` differ by more than 22.24us; `precision` says up to 50us
              hint: relay_delay = "107.76us" is enough
            n:35:15: warning: `g` is a period too late at switch `one` if the clocks of `b` and `one` differ by more than 7.12us; `precision` says up to 50us
              hint: relay_delay = "62.88us" is enough
            n:35:15: warning: `g` is a period too late at switch `two` if the clocks of `one` and `two` differ by more than 7.12us; `precision` says up to 50us
              hint: relay_delay = "62.88us" is enough
        "#]],
    );
    let (old, new) = with("max_transmission_delay = \"30us\"\n");
    changed(
        &[(old, &new)],
        expect![[r#"
        n:19:26: warning: `max_transmission_delay` is 30us, but a protocol control frame may take 79.54us behind other frames, and does not count then
          hint: remove it, and the longest delay is computed
    "#]],
    );
    let (old, new) = with("");
    changed(
        &[("id = 1", "id = 65535"), (old, &new)],
        expect![[r#"
        n:21:6: error: `f` has the id 65535 of `protocol control frames`: switches and receivers cannot tell their frames apart
          hint: give each time-triggered and rate-constrained flow an id of its own
    "#]],
    );
}

#[test]
fn gaps_that_change_on_the_way() {
    let rc = "[flow.h]\nclass = \"rc\"\nid = 3\nfrom = \"a\"\nto = \"x\"\ngap = \"1ms\"\n";
    with(
        rc,
        expect![[r#"
        n:31:7: warning: `two` may drop frames of `h`, which come up to 18.56us closer together if they wait behind one frame of another flow on each link on the way; `jitter` is 0ns
          hint: jitter = "18.56us", and more for each further frame before it
    "#]],
    );
    with(&format!("{rc}jitter = \"100us\"\n"), expect![[r#""#]]);
}

#[test]
fn contention() {
    // One behind the other, to the nanosecond: 64 bytes take 6.72 us.
    changed(&[("\"200us\"", "\"96.72us\"")], expect![[r#""#]]);
    changed(&[("\"200us\"", "\"96.721us\"")], expect![[r#""#]]);
    changed(
        &[("\"200us\"", "\"96.719us\"")],
        expect![[r#"
            n:23:7: error: on link `both` from `one`, frames of `f` and `g` overlap by 1ns: the first bits leave at 110us and 116.719us of the cycle
              hint: let `g` leave 1ns later; `f` takes 6.72us with preamble, gap and jitter
        "#]],
    );
    // In the other half of the period of `f`, and in the other order.
    changed(
        &[("\"200us\"", "\"2093us\"")],
        expect![[r#"
            n:23:7: error: on link `both` from `one`, frames of `f` and `g` overlap by 3.72us: the first bits leave at 2.11ms and 2.113ms of the cycle
              hint: let `g` leave 3.72us later; `f` takes 6.72us with preamble, gap and jitter
        "#]],
    );
    changed(
        &[("\"200us\"", "\"2080us\"")],
        expect![[r#"
            n:23:7: error: on link `both` from `one`, frames of `g` and `f` overlap by 1.84us: the first bits leave at 2.1ms and 2.11ms of the cycle
              hint: let `f` leave 1.84us later; `g` takes 11.84us with preamble, gap and jitter
            n:23:7: error: on link `x` from `two`, frames of `f` and `g` overlap by 6.72us: the first bits leave at 2.1201ms and 2.1201ms of the cycle
              hint: let `g` leave 6.72us later; `f` takes 6.72us with preamble, gap and jitter
        "#]],
    );
    // The jitter of a sender counts on its own link only.
    with(
        "[flow.h]\nclass = \"tt\"\nid = 3\nfrom = \"a\"\nto = \"x\"\nsend = \"107us\"\nrelay_delay = \"10us\"\n",
        expect![[r#""#]],
    );
    changed(
        &[
            ("a = {}", "a = { jitter = \"1us\" }"),
            (
                "[flow.g]",
                "[flow.h]\nclass = \"tt\"\nid = 3\nfrom = \"a\"\nto = \"x\"\nsend = \"107us\"\n\
                 relay_delay = \"10us\"\n[flow.g]",
            ),
        ],
        expect![[r#"
            n:23:7: error: on link `a` from `a`, frames of `f` and `h` overlap by 720ns: the first bits leave at 100us and 107us of the cycle
              hint: let `h` leave 720ns later; `f` takes 7.72us with preamble, gap and jitter
        "#]],
    );
    // Frames of one flow.
    changed(
        &[
            ("cycle = \"4ms\"", "cycle = \"10us\""),
            ("\"2ms\"", "\"5us\""),
            ("\"100us\"", "\"1us\""),
            ("\"200us\"", "\"7us\""),
        ],
        expect![[r#"
            n:10:6: error: link `a` from `a` cannot carry its critical frames: time-triggered ones take 134.4 % of the time, rate-constrained ones 0.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
            n:11:6: error: link `b` from `b` cannot carry its critical frames: time-triggered ones take 118.4 % of the time, rate-constrained ones 0.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
            n:13:6: error: link `both` from `one` cannot carry its critical frames: time-triggered ones take 252.8 % of the time, rate-constrained ones 0.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
            n:14:6: error: link `x` from `two` cannot carry its critical frames: time-triggered ones take 252.8 % of the time, rate-constrained ones 0.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
            n:20:10: error: on link `a` from `a`, a frame of `f` takes 6.72us with preamble, gap and jitter, and the next one comes 5us behind it
              hint: a longer period, smaller frames, or a faster link
            n:20:10: error: on link `both` from `one`, a frame of `f` takes 6.72us with preamble, gap and jitter, and the next one comes 5us behind it
              hint: a longer period, smaller frames, or a faster link
            n:20:10: error: on link `x` from `two`, a frame of `f` takes 6.72us with preamble, gap and jitter, and the next one comes 5us behind it
              hint: a longer period, smaller frames, or a faster link
            n:23:7: error: on link `b` from `b`, a frame of `g` takes 11.84us with preamble, gap and jitter, and the next one comes 10us behind it
              hint: a longer period, smaller frames, or a faster link
            n:23:7: error: on link `both` from `one`, a frame of `g` takes 11.84us with preamble, gap and jitter, and the next one comes 10us behind it
              hint: a longer period, smaller frames, or a faster link
            n:23:7: error: on link `x` from `two`, a frame of `g` takes 11.84us with preamble, gap and jitter, and the next one comes 10us behind it
              hint: a longer period, smaller frames, or a faster link
        "#]],
    );
}

#[test]
fn relays_in_time() {
    // 5.12 us + 2 us + 0.64 us, and room for 1 us.
    changed(&[("\"10us\"", "\"8.76us\"")], expect![[r#""#]]);
    changed(
        &[("\"10us\"", "\"8.759us\"")],
        expect![[r#"
        n:22:15: warning: `f` is a period too late at switch `one` if the clocks of `a` and `one` differ by more than 999ns; `precision` says up to 1us
          hint: relay_delay = "8.76us" is enough
        n:22:15: warning: `f` is a period too late at switch `two` if the clocks of `one` and `two` differ by more than 999ns; `precision` says up to 1us
          hint: relay_delay = "8.76us" is enough
    "#]],
    );
    changed(
        &[("\"10us\"", "\"7.759us\"")],
        expect![[r#"
        n:22:15: error: `f` can leave switch `one` 7.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns), but its instant is 7.759us behind it: every frame leaves 2ms later or more
          hint: relay_delay = "7.76us", which is 1ns more; "8.76us" has room for clocks that differ by 1us
        n:22:15: error: `f` can leave switch `two` 7.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns), but its instant is 7.759us behind it: every frame leaves 2ms later or more
          hint: relay_delay = "7.76us", which is 1ns more; "8.76us" has room for clocks that differ by 1us
    "#]],
    );
    changed(
        &[("relay_delay = \"10us\"\n", "")],
        expect![[r#"
        n:15:7: error: `f` can leave switch `one` 7.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns), but its instant is 0ns behind it: every frame leaves 2ms later or more
          hint: relay_delay = "7.76us", which is 7.76us more; "8.76us" has room for clocks that differ by 1us
        n:15:7: error: `f` can leave switch `two` 7.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns), but its instant is 0ns behind it: every frame leaves 2ms later or more
          hint: relay_delay = "7.76us", which is 7.76us more; "8.76us" has room for clocks that differ by 1us
    "#]],
    );
    changed(
        &[("\"10us\"", "{ one = \"10us\", two = \"1us\", x = \"1us\" }")],
        expect![[r#"
        n:22:37: error: `f` can leave switch `two` 7.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns), but its instant is 1us behind it: every frame leaves 2ms later or more
          hint: relay_delay = "7.76us", which is 6.76us more; "8.76us" has room for clocks that differ by 1us
        n:22:48: warning: this has no effect: `f` is not relayed by `x`
          hint: remove it, or name a switch on the way
    "#]],
    );
    let jitter = ("a = {}", "a = { jitter = \"2us\" }");
    changed(
        &[jitter, ("\"10us\"", "\"8us\"")],
        expect![[r#"
        n:22:15: error: `f` can leave switch `one` 8.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns, jitter up to 1us), but its instant is 8us behind it: some frames leave 2ms later, and some are overwritten by the next one
          hint: relay_delay = "8.76us", which is 760ns more; "9.76us" has room for clocks that differ by 1us
        n:22:15: warning: `f` is a period too late at switch `two` if the clocks of `one` and `two` differ by more than 240ns; `precision` says up to 1us
          hint: relay_delay = "8.76us" is enough
    "#]],
    );
    let queue = ("processing = \"2us\" }", "processing = \"2us\", buffer = \"queue\" }");
    changed(
        &[jitter, queue, ("\"10us\"", "\"8us\"")],
        expect![[r#"
        n:22:15: error: `f` can leave switch `one` 8.76us behind its first bit at the latest (transmission 5.12us, processing 2us, preamble 640ns, jitter up to 1us), but its instant is 8us behind it: some frames leave 2ms later, and so do all that follow
          hint: relay_delay = "8.76us", which is 760ns more; "9.76us" has room for clocks that differ by 1us
        n:22:15: warning: `f` is a period too late at switch `two` if the clocks of `one` and `two` differ by more than 240ns; `precision` says up to 1us
          hint: relay_delay = "8.76us" is enough
    "#]],
    );
}

#[test]
fn relay_buffers() {
    // The instant before comes when the frame is not ready.
    changed(&[("\"10us\"", "\"2006.759us\"")], expect![[r#""#]]);
    changed(
        &[("\"10us\"", "\"2007us\"")],
        expect![[r#"
        n:22:15: warning: `f` is a period too early at switch `one` if the clocks of `a` and `one` differ by more than 759ns; `precision` says up to 1us
          hint: a relay delay of 2.006759ms at most
        n:22:15: warning: `f` is a period too early at switch `two` if the clocks of `one` and `two` differ by more than 759ns; `precision` says up to 1us
          hint: a relay delay of 2.006759ms at most
    "#]],
    );
    changed(
        &[("\"10us\"", "\"2007.76us\"")],
        expect![[r#"
        n:22:15: error: `f` is ready 7.76us behind its first bit into switch `one`, and its instant is 2.00776ms behind it, but what waits leaves at each instant, every 2ms: every frame leaves 2ms too early
          hint: relay_delay = "7.76us" is what it amounts to
        n:22:15: error: `f` is ready 7.76us behind its first bit into switch `two`, and its instant is 2.00776ms behind it, but what waits leaves at each instant, every 2ms: every frame leaves 2ms too early
          hint: relay_delay = "7.76us" is what it amounts to
    "#]],
    );
    changed(
        &[("\"10us\"", "\"5ms\"")],
        expect![[r#"
        n:22:15: error: `f` is ready 7.76us behind its first bit into switch `one`, and its instant is 5ms behind it, but what waits leaves at each instant, every 2ms: every frame leaves 4ms too early
          hint: relay_delay = "1ms" is what it amounts to
        n:22:15: error: `f` is ready 7.76us behind its first bit into switch `two`, and its instant is 5ms behind it, but what waits leaves at each instant, every 2ms: every frame leaves 4ms too early
          hint: relay_delay = "1ms" is what it amounts to
    "#]],
    );
    let jitter = ("a = {}", "a = { jitter = \"2us\" }");
    changed(
        &[jitter, ("\"10us\"", "\"2008us\"")],
        expect![[r#"
        n:22:15: error: `f` is ready 6.76us behind its first bit into switch `one`, and its instant is 2.008ms behind it, but what waits leaves at each instant, every 2ms: some frames leave 2ms too early, and some are overwritten by the next one
          hint: a relay delay from 8.76us to below 2.00676ms
        n:22:15: error: `f` is ready 7.76us behind its first bit into switch `two`, and its instant is 2.008ms behind it, but what waits leaves at each instant, every 2ms: every frame leaves 2ms too early
          hint: relay_delay = "8us" is what it amounts to
    "#]],
    );
}

#[test]
fn windows() {
    let window = |window: &str| format!("relay_delay = \"10us\"\nwindow = \"{window}\"");
    let relay = "relay_delay = \"10us\"";
    for (width, expected) in [
        ("2us", expect![[r#""#]]),
        (
            "1us",
            expect![[r#"
                n:23:10: warning: the receive window of 1us at `x` drops good frames of `f` if the clocks of `two` and `x` differ by more than 500ns; `precision` says up to 1us
                  hint: window = "2us" is enough
            "#]],
        ),
        (
            "0us",
            expect![[r#"
                n:23:10: warning: the receive window of 0ns at `x` drops good frames of `f` if the clocks of `two` and `x` differ by more than 0ns; `precision` says up to 1us
                  hint: window = "2us" is enough
            "#]],
        ),
        (
            "2ms",
            expect![[r#"
                n:23:10: warning: the receive window of 2ms is never closed: `f` has a period of 2ms
                  hint: a smaller window, or none
            "#]],
        ),
    ] {
        changed(&[(relay, &window(width))], expected);
    }
    let jitter = ("a = {}", "a = { jitter = \"1us\" }");
    changed(
        &[jitter, (relay, &window("0.5us"))],
        expect![[r#"
        n:23:10: error: the receive window of 500ns at `one` drops good frames: some frames of `f` come up to 500ns from their instants, and it is open for 250ns before and behind them
          hint: window = "1us"; "3us" has room for clocks that differ by 1us
    "#]],
    );
    changed(
        &[jitter, (relay, &window("2us"))],
        expect![[r#"
        n:23:10: warning: the receive window of 2us at `one` drops good frames of `f` if the clocks of `a` and `one` differ by more than 500ns; `precision` says up to 1us
          hint: window = "3us" is enough
    "#]],
    );
    changed(&[jitter, (relay, &window("3us"))], expect![[r#""#]]);
}

#[test]
fn deadlines() {
    let relay = "relay_delay = \"10us\"";
    // Two relays, 100 ns of wire, and the transmission.
    changed(&[(relay, "relay_delay = \"10us\"\ndeadline = \"25.22us\"")], expect![[r#""#]]);
    changed(
        &[(relay, "relay_delay = \"10us\"\ndeadline = \"25us\"")],
        expect![[r#"
        n:23:12: error: `f` is received at `x` 25.22us behind its instant, 220ns behind its deadline of 25us
          hint: deadline = "25.22us", or less than the 20us of relay delays
    "#]],
    );
}

#[test]
fn precision_and_ids() {
    changed(
        &[("a = {}", "a = { jitter = \"3us\" }")],
        expect![[r#"
        n:4:27: warning: frames of `a` leave up to 1.5us from their instants, but `precision` says 1us at most
          hint: precision = "1.5us", or less jitter
        n:22:15: warning: `f` is a period too late at switch `one` if the clocks of `a` and `one` differ by more than 740ns; `precision` says up to 1us
          hint: relay_delay = "10.26us" is enough
    "#]],
    );
    changed(
        &[("id = 2", "id = 1")],
        expect![[r#"
        n:25:6: error: `g` has the id 1 of `f`: switches and receivers cannot tell their frames apart
          hint: give each time-triggered and rate-constrained flow an id of its own
    "#]],
    );
    with(
        "[flow.h]\nclass = \"rc\"\nid = 1\nfrom = \"c\"\nto = \"x\"\ngap = \"1ms\"\n",
        expect![[r#"
            n:33:6: error: `h` has the id 1 of `f`: switches and receivers cannot tell their frames apart
              hint: give each time-triggered and rate-constrained flow an id of its own
        "#]],
    );
}

#[test]
fn policing() {
    with(
        "[flow.h]\nclass = \"rc\"\nid = 3\nfrom = \"c\"\nto = \"x\"\ngap = \"1ms\"\njitter = \"1ms\"\n",
        expect![[r#"
            n:37:10: warning: switches let every frame of `h` pass: `jitter` is 1ms, and `gap` is 1ms
              hint: a jitter that is less than the gap
        "#]],
    );
}

#[test]
fn ordinary_switches() {
    let ordinary = |kind: &str| format!("two = {{ relaying = \"{kind}\", processing = \"2us\" }}");
    let two = "two = { processing = \"2us\" }";
    changed(
        &[(two, &ordinary("store-and-forward"))],
        expect![[r#"
        n:15:7: warning: no instant of `f` holds behind `two`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
        n:23:7: warning: no instant of `g` holds behind `two`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
    "#]],
    );
    changed(
        &[(two, &ordinary("cut-through"))],
        expect![[r#"
        n:15:7: warning: no instant of `f` holds behind `two`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
        n:23:7: warning: no instant of `g` holds behind `two`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
    "#]],
    );
    // Before a switch with a schedule.
    let one = "one = { processing = \"2us\" }";
    let ordinary = "one = { relaying = \"store-and-forward\", processing = \"2us\" }";
    changed(
        &[(one, ordinary)],
        expect![[r#"
        n:15:7: warning: no instant of `f` holds behind `one`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
        n:23:7: warning: no instant of `g` holds behind `one`, which relays frames as they come
          hint: use a switch with relaying = "time-triggered"
    "#]],
    );
    changed(
        &[
            (one, ordinary),
            (
                "relay_delay = \"10us\"",
                "relay_delay = { two = \"30us\" }\nwindow = \"9us\"\ndeadline = \"9us\"",
            ),
        ],
        expect![[r#"
            n:15:7: warning: no instant of `f` holds behind `one`, which relays frames as they come
              hint: use a switch with relaying = "time-triggered"
            n:23:10: error: the receive window of 9us at `two` drops good frames: frames of `f` come 7.76us or more behind their instants, and it is open for 4.5us before and behind them
              hint: no window behind an ordinary switch, where nothing says when frames come
            n:24:12: error: `f` is received at `x` 35.22us behind its instant, 26.22us behind its deadline of 9us
              hint: deadline = "35.22us", or less than the 30us of relay delays
            n:25:7: warning: no instant of `g` holds behind `one`, which relays frames as they come
              hint: use a switch with relaying = "time-triggered"
        "#]],
    );
}

#[test]
fn load() {
    with(
        "[flow.h]\nclass = \"rc\"\nid = 3\nfrom = \"c\"\nto = \"x\"\nsize = 1518\ngap = \"123us\"\n",
        expect![[r#"
            n:12:6: error: link `c` from `c` cannot carry its critical frames: time-triggered ones take 0.0 % of the time, rate-constrained ones 100.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
            n:14:6: error: link `x` from `two` cannot carry its critical frames: time-triggered ones take 0.6 % of the time, rate-constrained ones 100.0 %
              hint: longer periods and gaps, smaller frames, or a faster link
        "#]],
    );
    with(
        "[flow.h]\nclass = \"be\"\nfrom = \"c\"\nto = \"x\"\nsize = 1518\nload = 100\n",
        expect![[r#"
            n:14:6: warning: link `x` from `two` cannot carry all best-effort frames: they would take 100.0 % of the time, and critical ones take 0.6 %
              hint: less load, or a faster link
        "#]],
    );
    changed(
        &[
            ("cycle = \"4ms\"", "cycle = \"120us\""),
            ("\"2ms\"", "\"60us\""),
            ("\"100us\"", "\"1us\""),
            ("\"200us\"", "\"20us\""),
            (
                "[flow.f]",
                "[flow.e]\nclass = \"be\"\nfrom = \"c\"\nto = \"x\"\nsize = 1000\nload = 1\n[flow.f]",
            ),
        ],
        expect![[r#"
            n:19:8: warning: frames of `e` do not fit between the time-triggered ones on link `x` from `two`: one needs 81.6us, and the longest gap is 53.28us
              hint: smaller frames, or instants that leave a longer gap
        "#]],
    );
}

/// What no file says, but a program could.
#[test]
fn descriptions_that_contradict_themselves() {
    let (network, findings) = parse_with_places("n", NETWORK);
    let (network, places) = network.unwrap_or_else(|| panic!("{findings}"));
    type Mistake = fn(&mut Network);
    let mistakes: [(&str, Mistake); 6] = [
        ("no such link is between `one` and `two`", |it| it.flows[0].hops[1].link = 9),
        ("a hop to `x` stands before the one that leads there", |it| {
            it.flows[0].hops[2].before = Some(2);
        }),
        ("frames come to `one`, and leave from `two`", |it| {
            it.flows[0].hops[2].before = Some(0);
        }),
        ("it does not reach `b`", |it| it.flows[0].to = vec![1]),
        ("the instant at `two` is 0ns, but what leads there is 120.1us", |it| {
            it.flows[0].hops[2].at = Nanos::ZERO;
        }),
        ("no such link is between `a` and `one`", |it| it.links[0].ends = [1, 4]),
    ];
    for (expected, mistake) in mistakes {
        let mut network = network.clone();
        mistake(&mut network);
        let findings = Findings::new();
        assert_eq!(check(&network, &places, &findings), []);
        let found = findings.to_string();
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// The thresholds of the paper's bed: 12 us of processing, 10 us of jitter.
#[test]
fn the_turning_point_of_the_paper() {
    let text = include_str!("../../../../examples/one-switch.tte.toml");
    for (delay, says) in [
        ("350us", ""),
        ("25us", "clocks of `server` and `switch` differ by more than 2.24us"),
        ("22.76us", "differ by more than 0ns"),
        ("22.759us", "some are overwritten by the next one"),
        ("15us", "some are overwritten by the next one"),
        ("12.76us", "some are overwritten by the next one"),
        ("12.759us", "every frame leaves 3ms later or more"),
    ] {
        let found = found(&text.replace("\"350us\"", &format!("\"{delay}\"")));
        assert!(
            if says.is_empty() { found.is_empty() } else { found.contains(says) },
            "{delay}: {found}"
        );
    }
}

/// Ten switches in a line, a hundred flows with periods that mix, one behind the other.
#[test]
fn a_hundred_flows_are_checked_at_once() {
    let mut text = String::from("cycle = \"60ms\"\nprecision = \"0us\"\n");
    for switch in 0..10 {
        text += &format!("switch.s{switch} = {{}}\n");
        for end in ["a", "b"] {
            text += &format!("end_system.{end}{switch} = {{}}\n");
            text += &format!(
                "link.{end}{switch} = {{ between = [\"{end}{switch}\", \"s{switch}\"] }}\n"
            );
        }
        if switch > 0 {
            text +=
                &format!("link.l{switch} = {{ between = [\"s{}\", \"s{switch}\"] }}\n", switch - 1);
        }
    }
    // Periods of 1, 2, 3, 5 and 6 ms: where their slots are is the same in each millisecond.
    for flow in 0..100 {
        let (from, to, period) = (flow % 5, 5 + flow / 5 % 5, [1, 2, 3, 5, 6][flow % 5]);
        text += &format!(
            "[flow.f{flow}]\nclass = \"tt\"\nid = {flow}\nfrom = \"a{from}\"\nto = \"b{to}\"\nperiod = \"{period}ms\"\n\
             send = \"{}ns\"\nrelay_delay = \"6us\"\n",
            flow * 6_720 + 30_000 + from * 6_000
        );
    }
    let (network, findings) = parse_with_places("n", &text);
    let (network, places) = network.unwrap_or_else(|| panic!("{findings}"));
    let directions = check(&network, &places, &findings);
    assert!(findings.is_empty(), "{findings}");
    assert_eq!(directions.len(), 19);
    // One that is a nanosecond too soon meets its neighbour on the one link that both take.
    let send = "send = \"366000ns\"";
    assert!(text.contains(send));
    let found = found(&text.replace(send, "send = \"365999ns\""));
    assert!(
        found.contains("on link `l5` from `s4`, frames of `f49` and `f50` overlap by 1ns"),
        "{found}"
    );
    assert_eq!(found.matches("error").count(), 1, "{found}");
}
