//! A command beside programmed rules.

use std::process::{Command, Stdio};

use candor_linux::Errno;
use candor_linux::netlink::Netlink;
use candor_protocol::order::CommandOrder;
use candor_protocol::report::CommandOutcome;
use candor_protocol::{Message, Order};
use candor_wire::can::socketcan::CANFD_MTU;

use crate::failure::{Context, FAULT, Failure};
use crate::kernel::Jobs;
use crate::measure::write_files;
use crate::modules::Modules;
use crate::watchdog;

const PLACE: &str = "the command";

pub(crate) fn command(
    wanted: &CommandOrder,
    order: &Order,
    hello: &Message,
    messages: &mut Vec<Message>,
) -> Result<(), Failure> {
    watchdog::start(order, hello).at("watchdog", FAULT)?;
    write_files(&wanted.files)?;
    let max_hops = wanted.rules.effective_max_hops();
    Modules::read()?.load_with("can_gw", &format!("max_hops={max_hops}"))?;
    let mut netlink = Netlink::open().at(PLACE, "use a kernel with rtnetlink")?;
    for bus in wanted.rules.buses.iter().filter(|bus| bus.is_virtual) {
        let remedy = "name virtual interfaces vcan0, vcan1, ...";
        netlink.create_vcan(&bus.port).at(PLACE, remedy)?;
        netlink.set_mtu(&bus.port, CANFD_MTU as u32).at(PLACE, remedy)?;
        netlink.set_up(&bus.port, true).at(PLACE, remedy)?;
    }
    let jobs = Jobs::add(&mut netlink, &wanted.rules)?;
    if let Some(&(rule, errno)) = jobs.refused.first() {
        let rule = wanted.rules.rules.get(rule as usize);
        let name = rule.map_or("", |rule| &rule.name);
        let reason = format!("the kernel refuses rule `{name}`: {}", Errno(errno));
        return Err(Failure::new(PLACE, reason, "check it with `candor route check`"));
    }
    let Some((program, arguments)) = wanted.argv.split_first() else {
        return Err(Failure::new(PLACE, "it is missing", "name a program"));
    };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let remedy = "name the program with its full path, and add its files";
    let output = output.map_err(|error| format!("{program}: {error}")).at(PLACE, remedy)?;
    messages.push(Message::Command(CommandOutcome {
        status: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
    }));
    Ok(())
}
