//! The program that is `/init` in a guest. It boots, lets the host save the machine, and from there
//! on performs one order, reports, and ends the machine.
//!
//! ```text
//!  boot: file systems, modules --> host::next_order: saved here, restored for each order
//!                                     |
//!       Measure: test bed + gateway + load + tester      Conform: can-gw as the oracle      Command
//!                                                        ConformDriver: candor_can
//!                                     |
//!                                  host::end: report, exit
//! ```
//!
//! Nothing is printed or reported while it is measured.

mod boot;
mod candor_can;
mod command;
mod conform;
mod conform_driver;
mod controllers;
mod failure;
mod gateway;
mod host;
mod kernel;
mod load;
mod measure;
mod modules;
mod shuffle;
mod system;
mod testbed;
mod tester;
mod watchdog;

use candor_protocol::{Message, Order};

use failure::Failure;

fn main() {
    std::panic::set_hook(Box::new(|panic| {
        host::end(&[Message::Failed(format!("the guest program: {panic}; please report it"))])
    }));
    let mut messages = Vec::new();
    match run(&mut messages) {
        Ok(()) => messages.push(Message::Done),
        Err(failure) => messages.push(Message::Failed(failure.to_string())),
    }
    host::end(&messages)
}

fn run(messages: &mut Vec<Message>) -> Result<(), Failure> {
    boot::boot()?;
    let order = host::next_order()?;
    let (release, version) = system::release_and_version();
    let hello = Message::Hello { release, version };
    messages.push(hello.clone());
    match &order {
        Order::Measure(order) => measure::measure(order, &hello, messages),
        Order::Conform(trials) => conform::conform(trials, &order, &hello, messages),
        Order::ConformDriver(module, trials) => {
            conform_driver::conform(module, trials, &order, &hello, messages)
        }
        Order::Command(wanted) => command::command(wanted, &order, &hello, messages),
    }
}
