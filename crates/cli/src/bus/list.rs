//! `candor bus list`: the CAN interfaces of this machine, and the kinds of ports.
//!
//! `candor help json bus list` describes what `--json` prints.

use candor_bus::interface::{self, Interface};
use candor_drivers::REGISTRY;
use clap::Args;

use crate::Answer;
use crate::json::lines;
use crate::output::{print, table, thousands};

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
    let rows: Vec<_> = interfaces
        .iter()
        .map(|interface| {
            let rates = match interface.timing {
                Some(timing) if timing.data != timing.nominal => {
                    format!("{},{}", timing.nominal, timing.data)
                }
                Some(timing) => timing.nominal.to_string(),
                None => "-".to_owned(),
            };
            let kind = match &interface.driver {
                Some(driver) => format!("{} ({driver})", interface.kind),
                None => interface.kind.clone(),
            };
            vec![
                interface.name.clone(),
                kind,
                interface.state.name().to_owned(),
                rates,
                interface.frames.name().to_owned(),
                interface.queue_length.to_string(),
                thousands(interface.received),
                thousands(interface.transmitted),
                thousands(interface.dropped),
                thousands(interface.errors),
            ]
        })
        .collect();
    let head = [
        "interface",
        "kind",
        "state",
        "bit rate",
        "frames",
        ">queue",
        ">received",
        ">transmitted",
        ">dropped",
        ">errors",
    ];
    table(&head, &rows)
}

fn driver_table() -> String {
    let mut out = "A port is written DRIVER:PLACE?option=value&option=value; an interface needs \
                   no driver.\n\n"
        .to_owned();
    let rows: Vec<_> = REGISTRY
        .drivers()
        .iter()
        .map(|driver| vec![driver.name.into(), driver.example.into(), driver.summary.into()])
        .collect();
    out.push_str(&table(&["driver", "such as", "what it is"], &rows));
    out.push('\n');
    let rows: Vec<_> = REGISTRY
        .drivers()
        .iter()
        .flat_map(|driver| driver.options.iter().map(|option| (driver.name, option)))
        .map(|(driver, (name, summary))| vec![driver.into(), (*name).into(), (*summary).into()])
        .collect();
    out.push_str(&table(&["driver", "option", "what it does"], &rows));
    out
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
