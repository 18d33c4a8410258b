//! Rules that can-gw does, and rules shared between can-gw and user space.

use candor_linux::netlink::Netlink;
use candor_rules::netlink as jobs;

use crate::bench::{
    Capture, Gateway, Sender, candor, create_vcan, folder, frame, refused, rule, texts,
    virtual_buses,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 4] = [
    ("the_kernel_does_rules", Need::Guest, kernel),
    ("what_the_kernel_cannot_do_is_refused_by_name", Need::Guest, refusal),
    ("rules_are_shared_between_kernel_and_user_space", Need::Guest, auto),
    ("jobs_return_with_their_interface", Need::Guest, returning),
];

/// As `live.rs` loads can-gw, and the rules with it.
const BUSES: &str = "max_hops = 3\n[bus]\na = \"vcan0\"\nb = \"vcan1\"\nc = \"vcan2\"\n";
const PLAIN: &str = "[[rule]]\nname = \"plain\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x123]\n\
                     set = { id = 0x321 }\necho = true\n";
const DATA: &str = "[[rule]]\nname = \"by data\"\nfrom = \"a\"\nto = \"c\"\nmatch = [0x124]\n\
                    data = [\"C0\"]\necho = true\n";

/// How many frames each job in the kernel has handled.
fn handled(netlink: &mut Netlink) -> Vec<u32> {
    let listed = netlink.jobs().unwrap();
    listed.iter().map(|payload| jobs::decode(payload).unwrap().1.handled).collect()
}

fn kernel() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1", "vcan2"]);
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(&format!("{BUSES}{PLAIN}"), &["--plane", "kernel"]);
    assert_eq!(handled(&mut netlink), [0]);
    assert_eq!(gateway.plan()[0].plane, "kernel");
    for text in ["123#01", "124#C0", "123#02"] {
        sender.send(&frame(text));
    }
    assert_eq!(texts(&capture.exactly(2)), ["321#01", "321#02"]);
    assert_eq!(handled(&mut netlink), [2]);
    // What the kernel counted is asked for every second.
    let snapshot = gateway.once("counted", |it| rule(it, "plain").handled == 2);
    assert_eq!(rule(&snapshot, "plain").plane, "kernel");
    // Other rules: what the old ones counted stays known.
    let other = gateway.rules.with_file_name("other.toml");
    let both =
        format!("{BUSES}{PLAIN}{}", PLAIN.replace("0x123", "0x125").replace("plain", "more"));
    std::fs::write(&other, both).unwrap();
    gateway.load(Some(&other));
    sender.send(&frame("125#03"));
    sender.send(&frame("123#04"));
    assert_eq!(texts(&capture.exactly(4))[2..], ["321#03", "321#04"]);
    gateway.once("counted", |it| rule(it, "plain").handled == 3 && rule(it, "more").handled == 1);
    // A destination that is down: the kernel counts it as dropped.
    netlink.set_up("vcan1", false).unwrap();
    sender.send(&frame("123#05"));
    gateway.once("dropped", |it| refused(it, "plain", "dropped") == 1);
    gateway.end();
    assert_eq!(handled(&mut netlink), [0; 0], "jobs are left behind");
}

fn refusal() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1", "vcan2"]);
    let file = folder().join("check.rules.toml");
    std::fs::write(&file, format!("{BUSES}{PLAIN}{DATA}")).unwrap();
    let ended = candor(&["route", "run", &file.display().to_string(), "--plane", "kernel"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let reported = &ended.errors;
    assert!(reported.contains("\"by data\"") && reported.contains("`data`"), "{reported}");
    assert!(!reported.contains("\"plain\"") && reported.contains("--plane auto"), "{reported}");
    assert_eq!(handled(&mut netlink), [0; 0]);
    // can-gw was loaded with another number of hops than these rules want.
    std::fs::write(&file, format!("{BUSES}{PLAIN}").replace("max_hops = 3", "max_hops = 2"))
        .unwrap();
    let ended = candor(&["route", "run", &file.display().to_string(), "--plane", "kernel"]);
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.errors.contains("max_hops=2"), "{ended:?}");
    assert_eq!(handled(&mut netlink), [0; 0]);
}

/// Frames that go from a rule of the kernel to one of user space would begin anew to be counted; such
/// rules stay together. What is left is shared.
fn auto() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1", "vcan2"]);
    let (b, c, mut sender) = (Capture::new("vcan1"), Capture::new("vcan2"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(&format!("{BUSES}{PLAIN}{DATA}"), &["--plane", "auto"]);
    let planes: Vec<_> = gateway.plan().into_iter().map(|it| (it.rule, it.plane)).collect();
    let expected = [("plain", "kernel"), ("by data", "user")];
    assert_eq!(planes, expected.map(|(rule, plane)| (rule.to_owned(), plane.to_owned())));
    assert_eq!(handled(&mut netlink), [0]);
    for text in ["123#01", "124#C0", "124#C1", "123#02"] {
        sender.send(&frame(text));
    }
    assert_eq!(texts(&b.exactly(2)), ["321#01", "321#02"]);
    assert_eq!(texts(&c.exactly(1)), ["124#C0"]);
    let snapshot = gateway.once("counted", |it| rule(it, "plain").handled == 2);
    assert_eq!(rule(&snapshot, "by data").handled, 1);
    assert_eq!(
        [rule(&snapshot, "plain"), rule(&snapshot, "by data")].map(|it| it.plane.as_str()),
        ["kernel", "user"]
    );

    // A ring of rules, one of which is for user space: all of them are.
    let ring = "[[rule]]\nname = \"on\"\nfrom = \"b\"\nto = \"c\"\nmatch = [0x321]\necho = true\n\
                [[rule]]\nname = \"back\"\nfrom = \"c\"\nto = \"b\"\nmatch = [0x321]\n\
                length = [\"0-8\"]\necho = true\n";
    let other = gateway.rules.with_file_name("other.toml");
    std::fs::write(&other, format!("{BUSES}{PLAIN}{ring}")).unwrap();
    gateway.load(Some(&other));
    let planes: Vec<_> = gateway.plan().into_iter().map(|it| it.plane).collect();
    assert_eq!(planes, ["user", "user", "user"]);
    // Passed on by `plain`, `on` and `back`; then it has been passed on three times.
    let (heard_b, heard_c) = (b.count(), c.count());
    sender.send(&frame("123#03"));
    assert_eq!(texts(&b.exactly(heard_b + 2))[heard_b as usize..], ["321#03", "321#03"]);
    assert_eq!(texts(&c.exactly(heard_c + 1))[heard_c as usize..], ["321#03"]);
    gateway.once("the hops are over", |it| refused(it, "on", "hop_limit") == 1);
    gateway.end();
    assert_eq!(handled(&mut netlink), [0; 0], "jobs are left behind");
}

fn returning() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1", "vcan2"]);
    let gateway_rules = format!("{BUSES}{PLAIN}{DATA}");
    let mut gateway = Gateway::start(&gateway_rules, &["--plane", "auto"]);
    let mut sum = 0;
    for name in ["vcan1", "vcan0"] {
        {
            let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
            sender.send(&frame("123#01"));
            capture.exactly(1);
            sum += 1;
            gateway.once("counted", |it| rule(it, "plain").handled == sum);
        }
        netlink.delete(name).unwrap();
        assert_eq!(handled(&mut netlink), [0; 0]);
        create_vcan(&mut netlink, name);
        crate::bench::until(|| handled(&mut netlink) == [0], || "no job returned".into());
    }
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    sender.send(&frame("123#02"));
    assert_eq!(texts(&capture.exactly(1)), ["321#02"]);
    gateway.once("counted", |it| rule(it, "plain").handled == sum + 1);
    gateway.end();
    assert_eq!(handled(&mut netlink), [0; 0], "jobs are left behind");
}
