//! What our netlink writer programs is what `cangw -L` of can-utils lists.
//!
//! Needs QEMU, can-utils and kernels, so it runs only when asked to, as `conformance.rs` does.

use candor_engine::edit::{Crc8, Crc8Profile, Operands, Range, XorChecksum};
use candor_engine::{Bus, BusIndex, Edit, Filter, Gate, Rule, Table};
use candor_init::INIT;
use candor_protocol::Order;
use candor_protocol::order::CommandOrder;
use candor_rules::cangw;
use candor_vm::{Cache, Machine, Qemu, Setup, Unwatched, kernel, program};

const CANGW: &str = "cangw";

/// One rule for everything that can be said.
fn everything() -> Table {
    let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: true };
    let (a, b) = (BusIndex(0), BusIndex(1));
    let rule = |name: &str, from, to| Rule::new(name, from, to);
    let data = |bytes: [u8; 8]| {
        let mut data = [0; 64];
        data[..8].copy_from_slice(&bytes);
        Some(Box::new(data))
    };
    let operands = |can_id, len, bytes| Operands { can_id, len, flags: None, data: data(bytes) };
    let crc8 = |profile| Crc8 {
        range: Range { from: 0, to: 6, result: 7 },
        init: 0xFF,
        final_xor: 0xA5,
        table: Box::new(Crc8::table_of(0x1D)),
        profile,
    };
    let all =
        Operands { can_id: Some(0x7F0), data: Some(Box::new([0xFF; 64])), ..Operands::default() };
    let with = |crc8: Option<Crc8>, xor_checksum| Edit {
        and: all.clone(),
        or: operands(Some(0x3), Some(1), [1, 2, 3, 4, 5, 6, 7, 8]),
        xor: operands(None, Some(2), [0x80; 8]),
        set: operands(Some(0x8000_1234), Some(8), [0x11; 8]),
        crc8,
        xor_checksum,
    };
    let xor = XorChecksum { range: Range { from: 0, to: -2, result: -1 }, init: 0x42 };
    let mut wide = [0; 64];
    wide.iter_mut().zip(0..).for_each(|(byte, value)| *byte = value);
    let fd_edit = Edit {
        or: Operands { flags: Some(1), data: Some(Box::new(wide)), ..Operands::default() },
        ..Edit::default()
    };
    let rules = vec![
        rule("all", a, b),
        Rule { filters: vec![Filter::standard(0x123)], echo: true, ..rule("one", b, a) },
        Rule {
            filters: vec![Filter { can_id: 0x8000_0100, mask: 0x9FFF_FF00, inverted: true }],
            keep_timestamp: true,
            ..rule("but", a, b)
        },
        Rule { edit: with(None, Some(xor)), allow_return: true, ..rule("edit", a, a) },
        Rule { edit: with(Some(crc8(Crc8Profile::Plain)), None), uid: 7, ..rule("crc", a, b) },
        Rule { edit: with(Some(crc8(Crc8Profile::OneByte(9))), None), ..rule("crc 1", a, b) },
        Rule {
            edit: with(Some(crc8(Crc8Profile::ByCounter([3; 16]))), Some(xor)),
            ..rule("crc 2", b, a)
        },
        Rule { edit: with(Some(crc8(Crc8Profile::IdXor)), None), ..rule("crc 3", b, a) },
        Rule { gate: Gate::Fd, edit: fd_edit, ..rule("fd", a, b) },
        Rule { limit_hops: Some(2), ..rule("hops", a, b) },
    ];
    Table { buses: vec![bus("vcan0"), bus("vcan1")], rules, max_hops: 3, ..Table::default() }
}

/// Without names: cangw knows none.
fn nameless(table: &Table) -> Vec<Rule> {
    let strip = |rule: &Rule| Rule { name: String::new(), position: (0, 0), ..rule.clone() };
    table.rules.iter().map(strip).collect()
}

#[test]
#[ignore = "needs QEMU, can-utils and kernels: see the top of this file"]
fn cangw_lists_what_was_programmed() {
    let kernels = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let cache = Cache::open(None).unwrap();
    let qemu = Qemu::find().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cangw = std::env::split_paths(&path)
        .map(|folder| folder.join(CANGW))
        .find(|file| file.exists())
        .expect("cangw is there: apt-get install can-utils");
    let table = everything();
    for name in kernels.split_whitespace() {
        let spec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = kernel::find(&cache, &spec).unwrap_or_else(|error| panic!("{error}"));
        let machine = Machine::new(&cache, &qemu, &kernel, INIT, Setup::default()).unwrap();
        let order = Order::Command(CommandOrder {
            rules: table.clone(),
            argv: vec![cangw.display().to_string(), "-L".into()],
            files: program::files(&cangw).unwrap(),
        });
        let report = machine.run(&order, &Unwatched).unwrap_or_else(|error| panic!("{error}"));
        let outcome = report.command.expect("the command ran");
        let listing = String::from_utf8(outcome.stdout).unwrap();
        // `cangw -L` ends with the length of the kernel's last answer, so its status says nothing.
        assert!(outcome.stderr.is_empty(), "{}", String::from_utf8_lossy(&outcome.stderr));
        let (listed, findings) = cangw::import("cangw -L", &listing);
        assert!(!findings.has_errors(), "{name}:\n{listing}\n{findings}");
        let listed = listed.expect("a table");
        assert_eq!(listed.rules.len(), table.rules.len(), "{listing}");
        for (ours, theirs) in nameless(&table).iter().zip(nameless(&listed)) {
            assert_eq!(*ours, theirs, "{name}:\n{listing}");
        }
    }
}
