//! How checks of a machine are run and reported: each in a process and a network namespace of its own.
//!
//! What this machine lacks (CAN, CAN controllers, permission) is counted and reported, never passed
//! over in silence. With `--guest` the machine is the program's own, to be changed at will: a test
//! of `candor-vm`, `checks.rs`, runs it so on real kernels, and fails if a check runs nowhere.

pub(crate) mod stranger;

use std::path::Path;
use std::process::ExitCode;

use candor_linux::can::Socket;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::process::{self, fork};
use candor_linux::{Error, module};

/// What a check needs.
#[allow(dead_code, reason = "each of the programs with checks has use for some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// The right to become another user: root's.
    OtherUser,
    /// The right to make network namespaces.
    Namespace,
    /// The same, and pairs of virtual Ethernet interfaces.
    Veth,
    /// The same, and a kernel with CAN and vcan.
    Can,
    /// Two CAN controllers on one bus, the first ones of the machine, in its own namespace.
    Controllers,
    /// A machine of our own.
    Guest,
}

/// The name of a check, what it needs, and what it does; it panics if something is wrong.
pub(crate) type Check = (&'static str, Need, fn());

/// The first two controllers of a guest are on one bus.
pub(crate) const PAIR: [&str; 2] = ["can0", "can1"];

/// In a guest of `candor-vm`, whose own program has mounted what there is to mount and loaded CAN:
/// loads these, which need one another in this order. Those that are not there are left out.
fn load(modules: &[&str]) {
    for name in modules {
        let file = Path::new("/modules").join(name).with_extension("ko");
        if file.exists() {
            module::load(&file, "").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Runs the checks that the arguments name, or all.
pub(crate) fn main(checks: &[(&str, &[Check])], modules: &[&str]) -> ExitCode {
    let is_guest = std::env::args().any(|argument| argument == "--guest");
    if is_guest {
        load(modules);
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let needs =
        [Need::OtherUser, Need::Namespace, Need::Veth, Need::Can, Need::Controllers, Need::Guest];
    let lacks: Vec<Need> = needs.into_iter().filter(|need| !is_there(*need, is_guest)).collect();
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (module, checks) in checks {
        for &(name, need, check) in *checks {
            let name = format!("{module}::{name}");
            if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
                continue;
            }
            if lacks.contains(&need) && need == Need::OtherUser && is_ci {
                println!("continuous integration runs as root, so this must run there:");
                println!("check {name} ... FAILED");
                failed += 1;
            } else if lacks.contains(&need) {
                println!("check {name} ... not run: this machine lacks {need:?}");
                skipped += 1;
            } else if runs(need, check) {
                println!("check {name} ... ok");
                passed += 1;
            } else {
                println!("check {name} ... FAILED");
                failed += 1;
            }
        }
    }
    println!("\nchecks: {passed} passed, {failed} failed, {skipped} not run");
    ExitCode::from(u8::from(failed > 0))
}

/// Whether the machine has this; says why not.
fn is_there(need: Need, is_guest: bool) -> bool {
    let probe = |probe: fn() -> Result<(), Error>| {
        in_a_process(|| {
            probe().unwrap_or_else(|error| {
                println!("{need:?}: {error}");
                std::process::exit(1);
            });
        })
    };
    match need {
        Need::Nothing => true,
        Need::Guest => is_guest,
        Need::OtherUser => probe(|| process::become_user(stranger::NOBODY)),
        Need::Namespace => probe(|| Namespace::unshare().map(drop)),
        Need::Veth => probe(|| {
            Namespace::unshare()?;
            Netlink::open()?.create_veth("left", "right")
        }),
        Need::Can => probe(|| {
            Namespace::unshare()?;
            Netlink::open()?.create_vcan("vcan0")?;
            Socket::open("vcan0").map(drop)
        }),
        Need::Controllers => {
            is_guest
                && probe(|| {
                    let mut netlink = Netlink::open()?;
                    PAIR.iter().try_for_each(|name| netlink.link(name).map(drop))
                })
        }
    }
}

fn runs(need: Need, check: fn()) -> bool {
    in_a_process(move || {
        if matches!(need, Need::Namespace | Need::Veth | Need::Can) {
            Namespace::unshare().unwrap();
        }
        check();
    })
}

/// Whether `body` comes to its end without a panic.
fn in_a_process(body: impl FnOnce()) -> bool {
    let child = fork(|| {
        body();
        0
    });
    child.unwrap().wait().unwrap().status == Ok(0)
}
