//! Rules changed under flood, in all the ways there are.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use candor_time::Nanos;

use crate::bench::{
    Capture, Gateway, RECEIVES_ON, SENDS_ON, SOURCE, Sender, TARGET, assert_balanced, candor,
    frame, number_of, numbered, pause, port, start_bed, texts,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 2] = [
    ("changes_under_flood_lose_and_reorder_nothing", Need::Guest, flood),
    ("a_wrong_file_leaves_the_old_rules_at_work", Need::Guest, wrong),
];

/// How often each of the ways is gone.
const ROUNDS: u64 = 25;

fn rules(id: u16) -> String {
    format!(
        "[bus]\na = \"{SOURCE}?buffer=4000000\"\nb = \"{TARGET}\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x100]\n\
         edit = [{{ set = {{ id = {id} }} }}]\n"
    )
}

/// Saves a file as careful editors do: nobody ever sees a part of it.
fn save(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

fn flood() {
    let _netlink = start_bed(1_000);
    let capture = Capture::new(RECEIVES_ON);
    let mut gateway = Gateway::start(&rules(0x200), &[]);
    let other = gateway.rules.with_file_name("other.toml");
    let control = gateway.control.display().to_string();
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut changes = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = Sender::new(SENDS_ON);
            while !is_over.load(Ordering::Relaxed) {
                sender.send(&numbered(0x100, sent.fetch_add(1, Ordering::Relaxed)));
            }
        });
        for round in 0..ROUNDS {
            // Every way makes another identifier of it, which tells when it took effect.
            let id = 0x200 + round as u16 * 4;
            let before = gateway.stats().generation;
            save(&gateway.rules, &rules(id + 1));
            gateway.once("saved", |it| it.generation > before);

            let before = gateway.stats().generation;
            gateway.process().signal("HUP");
            gateway.once("changed by SIGHUP", |it| it.generation > before);

            fs::write(&other, rules(id + 2)).unwrap();
            assert_eq!(gateway.load(Some(&other)).rules, 1);
            if round % 5 == 0 {
                fs::write(&other, rules(id + 3)).unwrap();
                let other = other.display().to_string();
                let loaded = candor(&["route", "load", &other, "--control", &control]);
                assert_eq!(loaded.status, Some(0), "{loaded:?}");
            }
            // Written in place, with a moment in which it is empty: that is no rule file.
            let before = gateway.stats().generation;
            fs::write(&gateway.rules, rules(id)).unwrap();
            let snapshot = gateway.once("written", |it| it.generation > before);
            changes = snapshot.generation;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    let snapshot = gateway.settled("a", sent);
    let received = capture.exactly(sent);
    for (expected, frame) in (0..).zip(&received) {
        assert_eq!(number_of(frame), expected, "after {expected} of {sent} frames");
    }
    let seen =
        received.windows(2).filter(|pair| pair[0].can_id() != pair[1].can_id()).count() as u64;
    println!("{sent} frames, {changes} changes, {seen} seen on the bus");
    assert!(sent > 1_000 && changes >= ROUNDS * 4 && seen >= ROUNDS * 2);
    assert_balanced(&snapshot, "a", sent);
    assert_eq!((port(&snapshot, "a").overflow_frames, port(&snapshot, "b").transmitted), (0, sent));
    assert_eq!(snapshot.rejected, None);
    gateway.end();
}

fn wrong() {
    let _netlink = start_bed(1_000);
    let (capture, mut sender) = (Capture::new(RECEIVES_ON), Sender::new(SENDS_ON));
    let mut gateway = Gateway::start(&rules(0x201), &[]);
    let control = gateway.control.display().to_string();
    let rejected = || {
        let printed = candor(&["route", "stats", "--json", "--control", &control]);
        assert_eq!(printed.status, Some(0), "{printed:?}");
        let summary = printed.output.lines().last().unwrap();
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        assert_eq!(summary["type"], "summary");
        summary["data"]["rejected"].clone()
    };
    sender.send(&frame("100#01"));
    assert_eq!(texts(&capture.exactly(1)), ["201#01"]);
    assert!(rejected().is_null());

    let colour = rules(0x202).replace("match", "colour = \"red\"\nmatch");
    let port_less = format!("{}[[rule]]\nfrom = \"c\"\nto = \"b\"\n", rules(0x202))
        .replace("[bus]\n", "[bus]\nc = \"can77\"\n");
    let in_use = |reported: &str, gateway: &mut Gateway, sender: &mut Sender, number: u64| {
        let snapshot = gateway.once(reported, |it| {
            it.rejected.as_ref().is_some_and(|reason| reason.contains(reported))
        });
        assert_eq!(snapshot.generation, 0);
        assert!(rejected().as_str().unwrap().contains(reported));
        sender.send(&frame(&format!("100#{number:02}")));
        assert_eq!(
            texts(&capture.exactly(number))[number as usize - 1],
            format!("201#{number:02}")
        );
    };
    save(&gateway.rules, &colour);
    in_use("colour", &mut gateway, &mut sender, 2);
    // Right rules, but the port is not there.
    save(&gateway.rules, &port_less);
    in_use("can77", &mut gateway, &mut sender, 3);
    fs::write(&gateway.rules, "").unwrap();
    pause(Nanos::from_millis(20));
    // The same by the socket, which tells why at once.
    let file = gateway.rules.with_file_name("colour.toml");
    fs::write(&file, &colour).unwrap();
    let loaded = candor(&["route", "load", &file.display().to_string(), "--control", &control]);
    assert_eq!(loaded.status, Some(1), "{loaded:?}");
    assert!(loaded.errors.contains("colour"), "{loaded:?}");
    in_use("colour", &mut gateway, &mut sender, 4);
    fs::remove_file(&gateway.rules).unwrap();
    gateway.process().signal("HUP");
    gateway
        .once("no file", |it| it.rejected.as_ref().is_some_and(|it| it.contains("cannot be read")));

    save(&gateway.rules, &rules(0x203));
    let snapshot = gateway.once("right again", |it| it.rejected.is_none());
    assert!(snapshot.generation > 0);
    sender.send(&frame("100#05"));
    assert_eq!(texts(&capture.exactly(5))[4], "203#05");
    gateway.end();
}
