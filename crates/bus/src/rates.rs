//! A port with the bit rates of its bus: `can0@500k`, `can0@500k,2M`.

use candor_port::AddressError;
use candor_wire::can::{Bitrate, Timing};

use crate::interface;
use crate::named::NamedPort;

/// A port, and the bit rates of its bus if they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RatedPort {
    pub port: NamedPort,
    /// The bit rates, if they were given.
    pub timing: Option<Timing>,
}

impl RatedPort {
    /// The bit rates: as given, else by the port's options `bitrate` and `data_bitrate`, else those
    /// of its CAN controller.
    #[must_use]
    pub fn known_timing(&self) -> Option<Timing> {
        let address = &self.port.address;
        let by_option = || {
            let rate = |key| address.option(key)?.parse::<Bitrate>().ok();
            let nominal = rate("bitrate")?;
            Some(Timing { nominal, data: rate("data_bitrate").unwrap_or(nominal) })
        };
        let by_controller = || interface::timing_of(candor_drivers::interface(address)?);
        self.timing.or_else(by_option).or_else(by_controller)
    }
}

/// Why something is no port with bit rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RatesError {
    Port(AddressError),
    /// What stands behind the `@`.
    Rates(String),
}

impl std::fmt::Display for RatesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(error) => error.fmt(f),
            Self::Rates(rates) => {
                write!(
                    f,
                    "`{rates}` is not a bit rate; write can0@500k, or can0@500k,2M for CAN \
                           FD"
                )
            }
        }
    }
}

impl std::error::Error for RatesError {}

impl std::str::FromStr for RatedPort {
    type Err = RatesError;

    fn from_str(text: &str) -> Result<Self, RatesError> {
        let whole = || text.parse::<NamedPort>().map_err(RatesError::Port);
        let Some((port, rates)) = text.rsplit_once('@') else {
            return Ok(Self { port: whole()?, timing: None });
        };
        match read_timing(rates) {
            Some(timing) => {
                let port = port.parse().map_err(RatesError::Port)?;
                Ok(Self { port, timing: Some(timing) })
            }
            // Names of files and hosts may have an @, names of interfaces do not.
            None => match whole()? {
                port if candor_drivers::interface(&port.address).is_some() => {
                    Err(RatesError::Rates(rates.into()))
                }
                port => Ok(Self { port, timing: None }),
            },
        }
    }
}

/// Bit rates such as `500k`, or `500k,2M` for CAN FD.
#[must_use]
pub fn read_timing(text: &str) -> Option<Timing> {
    let (nominal, data) = text.split_once(',').unwrap_or((text, text));
    Some(Timing { nominal: nominal.parse().ok()?, data: data.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_stand_behind_the_port() {
        for (text, port, rates) in [
            ("can0", "can0", None),
            ("can0@500k", "can0", Some((500_000, 500_000))),
            ("can0@500k,2M", "can0", Some((500_000, 2_000_000))),
            ("file:a@b.log", "file:a@b.log", None),
            ("file:a@b.log@1M", "file:a@b.log", Some((1_000_000, 1_000_000))),
        ] {
            let parsed: RatedPort = text.parse().unwrap();
            assert_eq!(parsed.port.address.to_string(), port);
            let timing =
                parsed.timing.map(|t| (t.nominal.bits_per_second(), t.data.bits_per_second()));
            assert_eq!(timing, rates, "{text}");
        }
    }

    #[test]
    fn options_tell_rates_too() {
        for (text, rates) in [
            ("sim:bench", None),
            ("sim:bench?bitrate=250k", Some("250k 250k")),
            ("sim:bench?bitrate=250k&data_bitrate=1M", Some("250k 1M")),
            ("sim:bench?bitrate=250k@125k", Some("125k 125k")),
        ] {
            let timing = text.parse::<RatedPort>().unwrap().known_timing();
            let timing = timing.map(|timing| format!("{} {}", timing.nominal, timing.data));
            assert_eq!(timing.as_deref(), rates, "{text}");
        }
    }

    #[test]
    fn wrong_rates_are_refused() {
        for (text, reason) in [
            ("can0@5OOk", "`5OOk` is not a bit rate; write can0@500k, or can0@500k,2M for CAN FD"),
            ("can0@", "`` is not a bit rate; write can0@500k, or can0@500k,2M for CAN FD"),
            (
                "can0@500k,",
                "`500k,` is not a bit rate; write can0@500k, or can0@500k,2M for CAN FD",
            ),
        ] {
            assert_eq!(text.parse::<RatedPort>().unwrap_err().to_string(), reason);
        }
        assert!(matches!("@500k".parse::<RatedPort>(), Err(RatesError::Port(_))));
    }
}
