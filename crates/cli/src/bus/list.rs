//! `candor bus list`: the CAN interfaces of this machine, and the kinds of ports.
//!
//! `candor help json bus list` describes what `--json` prints.

use candor_bus::interface::{self, Interface};
use candor_drivers::REGISTRY;
use candor_port::Driver;
use clap::Args;

use crate::Answer;
use crate::json::lines;
use crate::output::{Table, print, thousands};

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON Lines: objects of type "interface", then of type "driver"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListArgs) -> Answer {
    let interfaces = interface::all().map_err(|error| error.to_string())?;
    if args.json {
        print(&(lines(&interfaces)? + &lines(REGISTRY.drivers().iter().copied())?))?;
    } else {
        print(&format!("{}\n{}", interface_table(&interfaces), driver_table()))?;
    }
    Ok(true)
}

fn interface_table(interfaces: &[Interface]) -> String {
    if interfaces.is_empty() {
        return "This machine has no CAN interfaces. To create a virtual one:\n  \
                sudo modprobe vcan; sudo ip link add vcan0 type vcan; sudo ip link set vcan0 up\n"
            .to_owned();
    }
    Table::of(interfaces)
        .column("interface", |it| it.name.clone())
        .column("kind", |it| match &it.driver {
            Some(driver) => format!("{} ({driver})", it.kind),
            None => it.kind.clone(),
        })
        .column("state", |it| it.state.name().to_owned())
        .column("bit rate", |it| match it.timing {
            Some(timing) if timing.data != timing.nominal => {
                format!("{},{}", timing.nominal, timing.data)
            }
            Some(timing) => timing.nominal.to_string(),
            None => "-".to_owned(),
        })
        .column("frames", |it| it.frames.name().to_owned())
        .column(">queue", |it| it.queue_length.to_string())
        .column(">received", |it| thousands(it.received))
        .column(">transmitted", |it| thousands(it.transmitted))
        .column(">dropped", |it| thousands(it.dropped))
        .column(">errors", |it| thousands(it.errors))
        .text()
}

fn driver_table() -> String {
    let kinds = Table::of(REGISTRY.drivers())
        .column("driver", |it| it.name.into())
        .column("such as", |it| it.example.into())
        .column("what it is", |it| it.summary.into())
        .text();
    let of_driver = |driver: &'static Driver| driver.options.iter().map(|it| (driver.name, it));
    let options = Table::of(REGISTRY.drivers().iter().copied().flat_map(of_driver))
        .column("driver", |(driver, _)| (*driver).into())
        .column("option", |(_, (name, _))| (*name).into())
        .column("what it does", |(_, (_, summary))| (*summary).into())
        .text();
    format!(
        "A port is written DRIVER:PLACE?option=value&option=value; an interface needs no driver.\n\n\
         {kinds}\n{options}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_bus::interface::{Frames, State};
    use candor_wire::can::Timing;

    #[test]
    fn interfaces_are_listed_with_what_matters() {
        let rate = |text: &str| text.parse().unwrap();
        let can0 = Interface {
            name: "can0".into(),
            state: State::ErrorActive,
            timing: Some(Timing { nominal: rate("500k"), data: rate("2M") }),
            frames: Frames::Fd,
            queue_length: 10,
            kind: "can".into(),
            driver: Some("mcp251xfd".into()),
            received: 1_234_567,
            transmitted: 8,
            dropped: 1,
            errors: 0,
        };
        let vcan0 = Interface {
            name: "vcan0".into(),
            state: State::Up,
            timing: None,
            driver: None,
            kind: "vcan".into(),
            queue_length: 1_000,
            ..can0.clone()
        };
        let expected = "\
interface  kind             state         bit rate  frames  queue   received  transmitted  dropped  errors
---------  ---------------  ------------  --------  ------  -----  ---------  -----------  -------  ------
can0       can (mcp251xfd)  error active  500k,2M   CAN FD     10  1,234,567            8        1       0
vcan0      vcan             up            -         CAN FD   1000  1,234,567            8        1       0
";
        assert_eq!(interface_table(&[can0, vcan0]), expected);
    }
}
