//! [`Address`]: the name of a port, the same everywhere.
//!
//! `driver:place?key=value&key=value`. A name without a driver is an interface of Linux, so `can0`
//! is short for `socketcan:can0`.

use std::fmt;
use std::str::FromStr;

use candor_time::Nanos;

use crate::{Error, ErrorKind};

/// The name of a port, taken apart. Whether the driver exists and what the place means is known to
/// `candor-drivers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    driver: String,
    place: String,
    options: Vec<(String, String)>,
}

/// Why something is no name of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    reason: String,
    remedy: String,
}

impl AddressError {
    pub(crate) fn new(text: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { text: text.into(), reason: reason.into(), remedy: remedy.into() }
    }

    /// Why it is no name of a port.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to write instead.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a port: {}; {}", self.text, self.reason, self.remedy)
    }
}

impl std::error::Error for AddressError {}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        Self::new(error.text, error.reason).with_remedy(error.remedy).of_kind(ErrorKind::Name)
    }
}

impl Address {
    /// The driver, such as `socketcan`.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// What the driver shall open, such as `can0`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The options in their order.
    #[must_use]
    pub fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The value of an option.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Takes an option out: one that is for whoever opens the port, not for the driver.
    pub fn take_option(&mut self, key: &str) -> Option<String> {
        let at = self.options.iter().position(|(name, _)| name == key)?;
        Some(self.options.remove(at).1)
    }

    /// The value of an option that is a time, such as `500us`.
    ///
    /// # Errors
    /// It is none.
    pub fn duration(&self, key: &str) -> Result<Option<Nanos>, AddressError> {
        let Some(value) = self.option(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            let reason = format!("`{key}={value}` is not a duration");
            let remedy = format!("write for example {key}=45ms or {key}=1s");
            AddressError::new(&self.to_string(), reason, remedy)
        })
    }

    /// The value of an option that is a number or anything else that is parsed.
    ///
    /// # Errors
    /// It is none; `such_as` is an example of one.
    pub fn parsed<T: FromStr>(&self, key: &str, such_as: &str) -> Result<Option<T>, AddressError> {
        let Some(value) = self.option(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            let reason = format!("`{key}={value}` is not a valid value");
            AddressError::new(
                &self.to_string(),
                reason,
                format!("write for example {key}={such_as}"),
            )
        })
    }

    /// Whether an option is `true`; without it, no.
    ///
    /// # Errors
    /// It is neither `true` nor `false`.
    pub fn flag(&self, key: &str) -> Result<bool, AddressError> {
        Ok(self.parsed(key, "true")?.unwrap_or(false))
    }

    /// The same without options.
    #[must_use]
    pub fn without_options(&self) -> Self {
        Self { options: Vec::new(), ..self.clone() }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (name, query) = match text.split_once('?') {
            Some((name, query)) => (name, Some(query)),
            None => (text, None),
        };
        let (driver, place) = name.split_once(':').unwrap_or(("socketcan", name));
        let example = "write for example can0, cannelloni:udp://host:20000 or file:drive.log";
        if place.is_empty() {
            return Err(AddressError::new(text, "nothing follows the driver", example));
        }
        if text.chars().any(char::is_control) {
            return Err(AddressError::new(text, "it contains control characters", example));
        }
        let mut options: Vec<(String, String)> = Vec::new();
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                let reason = format!("`{pair}` is not an option");
                return Err(AddressError::new(
                    text,
                    reason,
                    "write options as ?key=value&key=value",
                ));
            };
            if options.iter().any(|(name, _)| name == key) {
                let reason = format!("option `{key}` is given twice");
                return Err(AddressError::new(text, reason, "remove one of them"));
            }
            options.push((key.into(), value.into()));
        }
        Ok(Self { driver: driver.into(), place: place.into(), options })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Where a colon follows, what stands before it is the driver.
        if self.driver != "socketcan" || self.place.contains(':') {
            write!(f, "{}:", self.driver)?;
        }
        f.write_str(&self.place)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn names_are_taken_apart() {
        for (text, driver, place, options) in [
            ("can0", "socketcan", "can0", &[][..]),
            ("socketcan:can0", "socketcan", "can0", &[]),
            ("packet:can0?mark=7", "packet", "can0", &[("mark", "7")]),
            ("cannelloni:udp://host:20000", "cannelloni", "udp://host:20000", &[]),
            ("can2udp:0.0.0.0:4858", "can2udp", "0.0.0.0:4858", &[]),
            ("multicast:[ff15::1]:43113", "multicast", "[ff15::1]:43113", &[]),
            (
                "sim:bench?bitrate=500k&data_bitrate=2M",
                "sim",
                "bench",
                &[("bitrate", "500k"), ("data_bitrate", "2M")],
            ),
            ("file:a b=c&d.log?x=a=b", "file", "a b=c&d.log", &[("x", "a=b")]),
            ("file:drive.log?x=", "file", "drive.log", &[("x", "")]),
        ] {
            let address = address(text);
            assert_eq!((address.driver(), address.place()), (driver, place), "{text}");
            let found: Vec<_> =
                address.options().iter().map(|(key, value)| (&**key, &**value)).collect();
            assert_eq!(found, options, "{text}");
            for (key, value) in options {
                assert_eq!(address.option(key), Some(*value));
            }
            assert_eq!(address.option("no-such-key"), None);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "nothing follows the driver"),
            ("sim:", "nothing follows the driver"),
            ("?a=b", "nothing follows the driver"),
            ("can0?", "`` is not an option"),
            ("can0?a=b&", "`` is not an option"),
            ("can0?buffer", "`buffer` is not an option"),
            ("can0?=7", "`=7` is not an option"),
            ("can0?a=1&b=2&a=3", "option `a` is given twice"),
            ("can\n0", "it contains control characters"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not a port: {reason}; ")), "{error}");
        }
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let address = address("sim:a?time=500us&number=7&word=fast");
        assert_eq!(address.duration("time"), Ok(Some(Nanos::from_micros(500))));
        assert_eq!(address.duration("missing"), Ok(None));
        assert!(address.duration("word").is_err());
        assert_eq!(address.parsed::<u32>("number", "1"), Ok(Some(7)));
        assert_eq!(address.parsed::<u32>("missing", "1"), Ok(None));
        let error = Error::from(address.parsed::<u32>("word", "1").unwrap_err()).to_string();
        let reported = ": `word=fast` is not a valid value; write for example word=1";
        assert_eq!(error, format!("{address}{reported}"));
    }

    #[test]
    fn the_short_name_is_shown() {
        for (text, shown) in [
            ("socketcan:can0?buffer=1", "can0?buffer=1"),
            ("socketcan:a:b", "socketcan:a:b"),
            ("sim:a", "sim:a"),
        ] {
            assert_eq!(address(text).to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(text in "(socketcan:|sim:)?[a-c:?=& ]{0,24}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }

        #[test]
        fn any_text_is_a_name_or_is_refused(text in any::<String>()) {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }
    }
}
