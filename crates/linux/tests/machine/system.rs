//! Processes, scheduling, modules, ports.

use std::fs;
use std::io::{Read, Write, pipe};
use std::path::Path;
use std::process::Command;

use candor_linux::clock::{self, Switches};
use candor_linux::poll::{self, Interest};
use candor_linux::realtime::{self, Policy, Task};
use candor_linux::{dma, module, mount, port, process, udp};
use candor_time::{Monotonic, Nanos};

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 9] = [
    ("a_child_tells_how_it_ended", Need::Nothing, a_child_tells_how_it_ended),
    ("children_are_reaped", Need::Nothing, children_are_reaped),
    ("a_program_ends_with_who_started_it", Need::Nothing, ends_with_parent),
    ("no_file_left_is_no_answer", Need::Nothing, no_file_left),
    ("real_time_comes_first", Need::Guest, real_time_comes_first),
    ("kernel_threads_are_found", Need::Guest, kernel_threads_are_found),
    ("memory_is_locked", Need::Guest, memory_is_locked),
    ("modules_come_and_go", Need::Guest, modules_come_and_go),
    ("ports_answer", Need::Guest, ports_answer),
];

fn a_child_tells_how_it_ended() {
    let child = process::fork(|| 7).unwrap();
    let id = child.id();
    let exit = child.wait().unwrap();
    assert_eq!((exit.id, exit.status), (id, Ok(7)));

    let child = process::fork(|| {
        let start = clock::now::<clock::ThreadCpu>();
        while clock::now::<clock::ThreadCpu>() - start < Nanos::from_millis(20) {}
        0
    });
    let usage = child.unwrap().wait().unwrap().usage;
    assert!(usage.cpu >= Nanos::from_millis(10), "{usage:?}");
    assert_ne!(usage.switches, Switches::default());

    let child = process::fork(|| {
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().status, Err(libc::SIGKILL));

    let quiet = process::fork(|| {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("on purpose")
    });
    assert_eq!(quiet.unwrap().wait().unwrap().status, Ok(101));
}

fn children_are_reaped() {
    assert_eq!(process::reap(), Ok(None));
    let ids = [3, 4, 5].map(|status| process::fork(move || status).unwrap().id());
    let mut exits = Vec::new();
    while exits.len() < 3 {
        exits.extend(process::reap().unwrap());
    }
    for (id, status) in ids.into_iter().zip([3, 4, 5]) {
        assert!(exits.iter().any(|exit| (exit.id, exit.status) == (id, Ok(status))), "{exits:?}");
    }
    assert_eq!(process::reap(), Ok(None));
}

/// The program is this one, which waits for its standard input: it comes to its end otherwise only when
/// this check does.
#[expect(clippy::zombie_processes, reason = "its parent is killed, which is what is checked")]
fn ends_with_parent() {
    let (mut reported, mut tell) = pipe().unwrap();
    let (input, keep_open) = pipe().unwrap();
    let starter = process::fork(|| {
        let mut command = Command::new("/proc/self/exe");
        command.arg("--wait").stdin(input).stdout(tell.try_clone().unwrap());
        process::ends_with_parent(&mut command);
        let program = command.spawn().unwrap();
        tell.write_all(&program.id().to_ne_bytes()).unwrap();
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    drop(tell);
    let mut number = [0; 4];
    reported.read_exact(&mut number).unwrap();
    let program = u32::from_ne_bytes(number);
    assert!(process::is_alive(program));
    starter.kill().unwrap();
    starter.wait().unwrap();
    // It has the other end of this pipe, which is closed when it ends.
    let is_over = poll::wait(&reported, Interest::Read, Some(Nanos::from_secs(10))).unwrap();
    drop(keep_open);
    assert!(is_over, "process {program} goes on");
    assert_eq!(reported.read(&mut [0]).unwrap(), 0);
}

/// In a process of its own, so that nobody else lacks files.
fn no_file_left() {
    let limit = libc::rlimit { rlim_cur: 16, rlim_max: 16 };
    // SAFETY: `limit` can be read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let files: Vec<_> = (0..20).map_while(|_| fs::File::open("/proc/self/stat").ok()).collect();
    let loopback = "127.0.0.1:9".parse().unwrap();
    let error = udp::is_local(loopback).unwrap_err();
    assert!(error.is(libc::EMFILE), "{error}");
    drop(files);
    assert!(udp::is_local(loopback).is_ok());
}

fn real_time_comes_first() {
    realtime::set_policy(Task::This, Policy::Fifo(50)).unwrap();
    assert_eq!(realtime::policy(Task::This), Ok(Policy::Fifo(50)));
    // On one CPU, a child of lower priority does not run while this one computes.
    realtime::set_affinity(Task::This, &[0]).unwrap();
    let file = Path::new("/ran");
    let child = process::fork(|| {
        fs::write(file, "").unwrap();
        0
    })
    .unwrap();
    realtime::set_policy(Task::Id(child.id()), Policy::Other).unwrap();
    let start = clock::now::<Monotonic>();
    while clock::now::<Monotonic>() - start < Nanos::from_millis(20) {}
    assert!(!file.exists());
    assert_eq!(child.wait().unwrap().status, Ok(0));
    assert!(file.exists());
    realtime::set_policy(Task::This, Policy::RoundRobin(1)).unwrap();
    assert_eq!(realtime::policy(Task::This), Ok(Policy::RoundRobin(1)));
}

fn kernel_threads_are_found() {
    let found = realtime::tasks(|name| name.starts_with("ksoftirqd/")).unwrap();
    let [thread] = &found[..] else { panic!("{found:?}") };
    assert_eq!(thread.name, "ksoftirqd/0");
    realtime::set_policy(Task::Id(thread.id), Policy::Fifo(3)).unwrap();
    assert_eq!(realtime::policy(Task::Id(thread.id)), Ok(Policy::Fifo(3)));
    let is_rt = fs::read_to_string("/proc/version").unwrap().contains("PREEMPT_RT");
    let interrupts = realtime::tasks(|name| name.starts_with("irq/")).unwrap();
    assert!(!is_rt || !interrupts.is_empty());
}

fn memory_is_locked() {
    realtime::lock_memory().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    assert_ne!(locked.trim(), "0 kB");
    // A part of the program that nothing else reads, and a little that is less than a page.
    static UNUSED: [u8; 1 << 20] = [7; 1 << 20];
    realtime::unlock_memory(&UNUSED[1..]).unwrap();
    realtime::unlock_memory(&UNUSED[5..9]).unwrap();
    let pages = kib_of("VmRSS:");
    assert!(UNUSED.iter().all(|&byte| byte == 7), "what is let go is still there");
    assert!(kib_of("VmRSS:") >= pages + 1_000, "nothing was let go: {pages} KiB");
}

/// A figure of this process in KiB.
fn kib_of(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let figure = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    figure.trim().trim_end_matches(" kB").parse().unwrap()
}

fn modules_come_and_go() {
    let file = Path::new("/modules/vxcan.ko");
    assert!(module::is_there("vxcan"));
    assert_eq!(module::load(file, ""), Ok(module::Loaded::Before));
    module::unload("vxcan").unwrap();
    assert!(!module::is_there("vxcan"));
    let error = module::load(file, "no\0parameter").unwrap_err();
    assert!(error.is(libc::EINVAL), "{error}");
    assert_eq!(module::load(file, ""), Ok(module::Loaded::Now));
    let error = module::unload("can").unwrap_err();
    assert!(error.to_string().contains("EAGAIN") && error.remedy().is_some(), "{error}");
    // A file that is no module.
    assert!(module::load(Path::new("/init"), "").unwrap_err().is(libc::ENOEXEC));
    assert!(mount::mount("proc", "/no", "").unwrap_err().is(libc::ENOENT));
    assert!(mount::mount("nofs", "/proc", "").unwrap_err().is(libc::ENODEV));
}

/// Three devices that every machine of QEMU has: fw_cfg with its signature (selector 0 at port 0x510,
/// data at 0x511), the memory of the clock (0x70, 0x71), and the PCI bus (0xCF8, 0xCFC) with Intel's
/// bridge in its first slot.
fn ports_answer() {
    let ports = port::Ports::acquire(0x510..=0x511).unwrap();
    ports.write_u16(0x510, 0);
    let mut signature = [0; 4];
    ports.read_all(0x511, &mut signature);
    assert_eq!(&signature, b"QEMU");
    ports.write_u16(0x510, 0);
    let one_by_one = [(); 4].map(|()| ports.read_u8(0x511));
    assert_eq!(&one_by_one, b"QEMU");

    // The same by a command in memory: read 4 bytes of selector 0 to another page.
    let ports = port::Ports::acquire(0x510..=0x51B).unwrap();
    let (mut command, data) = (dma::Page::new().unwrap(), dma::Page::new().unwrap());
    assert_ne!(command.address(), data.address());
    let words = [0x0000_000A, 4, (data.address() >> 32) as u32, data.address() as u32];
    command.write(words.map(u32::to_be_bytes).as_flattened());
    ports.write_u32(0x514, ((command.address() >> 32) as u32).swap_bytes());
    ports.write_u32(0x518, (command.address() as u32).swap_bytes());
    let (mut bits, mut bytes) = ([1; 4], [1; 8]);
    command.read(&mut bits);
    data.read(&mut bytes);
    assert_eq!((bits, &bytes), ([0; 4], b"QEMU\0\0\0\0"));

    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is what is meant")]
    let empty = port::Ports::acquire(0x511..=0x510);
    assert!(empty.unwrap_err().is(libc::EINVAL));

    let ports = port::Ports::acquire(0x70..=0x71).unwrap();
    // Bytes of that memory that nobody uses.
    for (at, byte) in [(0x50, 0xA5), (0x51, 0x5A)] {
        ports.write_u8(0x70, at);
        ports.write_all(0x71, &[!byte, byte]);
    }
    for (at, byte) in [(0x50, 0xA5), (0x51, 0x5A)] {
        ports.write_u8(0x70, at);
        assert_eq!(ports.read_u8(0x71), byte, "the last one that was written");
    }

    let ports = port::Ports::acquire(0xCF8..=0xCFF).unwrap();
    ports.write_u32(0xCF8, 0x8000_0000);
    assert_eq!([0xCFC, 0xCFD].map(|port| ports.read_u8(port)), [0x86, 0x80]);
}
