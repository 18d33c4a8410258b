//! `candor signals watch`: the values of signals, as they come.

use candor_diagnostics::visible;
use candor_output::say;
use candor_signal_service::Encoding;
use candor_signal_service::client::{Client, Error, Event};
use clap::{Args, ValueEnum};

use crate::Answer;
use crate::json;
use crate::output::print_more;

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// The service: its WebSocket, such as ws://127.0.0.1:1234/api, its Unix socket as unix:PATH, or
    /// its message bus as dbus:session, dbus:system or dbus:ADDRESS
    #[arg(value_name = "URL")]
    url: String,
    /// Signals: MESSAGE.SIGNAL, in which * stands for anything; default: all, or all frames if the
    /// service has no DBC file
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// What the service sends; not at a message bus
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Only the newest value of each signal, when several have come
    #[arg(long)]
    latest: bool,
    /// Stop after so many values
    #[arg(long)]
    count: Option<u64>,
    /// Print JSON Lines: objects of type "signal", or "frame" if the service has no DBC file
    #[arg(long)]
    json: bool,
}

impl WatchArgs {
    /// Whether all that the service has is to be watched.
    fn wants_all(&self) -> bool {
        self.names.iter().all(|name| name == "*")
    }
}

/// How the service encodes what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// AGL's messages
    Json,
    /// Small messages in CBOR
    Cbor,
    /// Small messages in MessagePack
    Msgpack,
}

impl Format {
    const fn encoding(self) -> Option<Encoding> {
        match self {
            Self::Json => None,
            Self::Cbor => Some(Encoding::Cbor),
            Self::Msgpack => Some(Encoding::MessagePack),
        }
    }
}

/// True if nothing was missed.
pub(crate) fn run(args: &WatchArgs) -> Answer {
    let mut events = connect(args)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut is_complete = true;
    while left > 0 {
        match events().map_err(|error| error.to_string())? {
            Event::Signal { name, value, text, timestamp_us } => {
                let signal = Watched { name: &name, value, text: text.as_deref(), timestamp_us };
                let line = if args.json { json::line(&signal)? } else { line(&signal) };
                if !print_more(&line)? {
                    return Ok(is_complete);
                }
                left -= 1;
            }
            Event::Frame { name, data } => {
                let data: String = data.iter().map(|byte| format!("{byte:02X}")).collect();
                let line = match args.json {
                    true => json::line(&(&*name, data))?,
                    false => format!("{}  {data}\n", in_hex(&name)),
                };
                if !print_more(&line)? {
                    return Ok(is_complete);
                }
                left -= 1;
            }
            Event::Missed(count) => {
                is_complete = false;
                say!(
                    "{count} events missed: this program, or its terminal, is too slow; try --latest"
                );
            }
        }
    }
    Ok(is_complete)
}

/// A value of a signal.
pub(crate) struct Watched<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Option<f64>,
    pub(crate) text: Option<&'a str>,
    pub(crate) timestamp_us: u64,
}

/// Where the next event comes from.
type Events = Box<dyn FnMut() -> Result<Event, Error>>;

fn connect(args: &WatchArgs) -> Result<Events, String> {
    if let Some(address) = args.url.strip_prefix("dbus:") {
        if args.format != Format::Json {
            return Err("--format: events have one form at a message bus; leave it out".to_owned());
        }
        return connect_dbus(address, args);
    }
    let client = Client::connect_with(&args.url, args.format.encoding());
    let mut client = client.map_err(|error| error.to_string())?;
    let subscribed = match args.wants_all() {
        true => client.subscribe_to_all(args.latest),
        false => client.subscribe(&args.names, args.latest),
    };
    subscribed.map_err(|error| error.to_string())?;
    Ok(Box::new(move || client.next_event()))
}

#[cfg(feature = "dbus")]
fn connect_dbus(address: &str, args: &WatchArgs) -> Result<Events, String> {
    use candor_signal_service::dbus::client::{Client, Options};

    let bus = address.parse().map_err(|reason| format!("dbus:{address}: {reason}"))?;
    let mut client = Client::connect(&bus).map_err(|error| error.to_string())?;
    let options = Options { is_latest: args.latest, ..Options::default() };
    // Without names, it is all that there is.
    let names = if args.wants_all() { &[][..] } else { &args.names[..] };
    client.subscribe(names, &options).map_err(|error| error.to_string())?;
    Ok(Box::new(move || client.next_event()))
}

#[cfg(not(feature = "dbus"))]
fn connect_dbus(address: &str, _: &WatchArgs) -> Result<Events, String> {
    Err(format!("dbus:{address}: {}", candor_signal_service::dbus::ABSENT))
}

/// The name of the events of a frame, with the identifier as other commands show it: `car/0x123` for `car/291`.
fn in_hex(name: &str) -> String {
    let parts = name.rsplit_once('/').and_then(|(bus, id)| Some((bus, id.parse::<u32>().ok()?)));
    match parts {
        Some((bus, id)) => format!("{}/0x{id:03X}", visible(bus)),
        None => visible(name).into_owned(),
    }
}

/// `1690000000.000023  VehicleSpeed.Speed  50`
fn line(signal: &Watched<'_>) -> String {
    let (seconds, micros) = (signal.timestamp_us / 1_000_000, signal.timestamp_us % 1_000_000);
    let value = signal.value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let text = signal.text.map(|text| format!(" {}", visible(text))).unwrap_or_default();
    format!("{seconds}.{micros:06}  {}  {value}{text}\n", visible(signal.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_frames_are_in_hex() {
        for (name, shown) in [("car/291", "car/0x123"), ("a/b/1", "a/b/0x001"), ("car/x", "car/x")]
        {
            assert_eq!(in_hex(name), shown);
        }
    }

    #[test]
    fn a_value_is_a_line() {
        let signal = Watched {
            name: "Motor.Gear",
            value: Some(1.0),
            text: Some("first"),
            timestamp_us: 1_000_023,
        };
        assert_eq!(line(&signal), "1.000023  Motor.Gear  1 first\n");
        let hostile = Watched { text: Some("\u{1b}[2Jfirst"), ..signal };
        assert_eq!(line(&hostile), "1.000023  Motor.Gear  1 \\u{1b}[2Jfirst\n");
        let none = Watched { value: None, text: None, ..signal };
        assert_eq!(line(&none), "1.000023  Motor.Gear  -\n");
    }
}
