//! A port with a name of its own: `engine=cannelloni:udp://host:20000`.

use candor_port::{Address, AddressError};

/// A port, and what it is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    /// What to call it, if that was said.
    pub name: Option<String>,
    pub address: Address,
}

impl std::str::FromStr for NamedPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // In an address, there is an `=` only behind its driver or the `?` of its options.
        match text.split_once('=') {
            Some((name, port)) if !name.is_empty() && !name.contains([':', '?', '@', '/']) => {
                Ok(Self { name: Some(name.into()), address: port.parse()? })
            }
            _ => Ok(Self { name: None, address: text.parse()? }),
        }
    }
}

/// What ports are called, each by another name as far as possible: as was said, else by the
/// address without its options, else by the whole address.
#[must_use]
pub fn titles(ports: &[NamedPort]) -> Vec<String> {
    let short = |port: &NamedPort| match &port.name {
        Some(name) => name.clone(),
        None => port.address.without_options().to_string(),
    };
    let titles: Vec<_> = ports.iter().map(short).collect();
    let is_alone = |title: &String| titles.iter().filter(|other| *other == title).count() == 1;
    let title = |(port, title): (&NamedPort, &String)| {
        if is_alone(title) { title.clone() } else { port.address.to_string() }
    };
    ports.iter().zip(&titles).map(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> (Option<String>, String) {
        let NamedPort { name, address } = text.parse().unwrap();
        (name, address.to_string())
    }

    #[test]
    fn names_stand_in_front() {
        for (text, name, address) in [
            ("can0", None, "can0"),
            ("can0?buffer=1", None, "can0?buffer=1"),
            ("file:a=b.log", None, "file:a=b.log"),
            ("car=can0?buffer=1", Some("car"), "can0?buffer=1"),
            ("car=file:a=b.log", Some("car"), "file:a=b.log"),
        ] {
            assert_eq!(named(text), (name.map(str::to_owned), address.to_owned()));
        }
        assert!("car=".parse::<NamedPort>().is_err());
    }

    #[test]
    fn ports_have_titles_of_their_own() {
        let titles = |names: &[&str]| {
            let ports: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
            titles(&ports)
        };
        assert_eq!(titles(&["can0?buffer=1", "packet:can0"]), ["can0", "packet:can0"]);
        let [a, b, c] = ["file:a.log?interface=can0", "file:a.log?interface=can1", "car=can0"];
        assert_eq!(titles(&[a, b, c]), [a, b, "car"]);
        assert_eq!(titles(&["a=can0", "file:b.log?speed=2"]), ["a", "file:b.log"]);
    }
}
