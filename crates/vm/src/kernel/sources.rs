//! Where this machine's apt gets Debian from. The address of a mirror is the business of each
//! machine: it is read from the sources of apt, in both of their formats, and never guessed.
//!
//! ```text
//!  deb [signed-by=KEYS] ADDRESS SUITE main contrib        Types: deb
//!                                                         URIs: ADDRESS
//!                                                         Suites: SUITE SUITE-updates
//!                                                         Components: main
//!                                                         Signed-By: KEYS
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// The address of the archive.
    pub(crate) archive: String,
    /// The address of its security updates.
    pub(crate) security: String,
}

impl Mirror {
    /// The mirror at `archive`: security updates are beside it, as on Debian's own servers.
    pub(crate) fn at(archive: &str) -> Self {
        let archive = archive.trim_end_matches('/').to_owned();
        Self { security: format!("{archive}-security"), archive }
    }

    /// The one that the files of sources in `etc` (`/etc/apt`) name.
    pub(crate) fn of_machine(etc: &Path) -> Option<Self> {
        let parts = etc.join("sources.list.d");
        let mut files: Vec<PathBuf> =
            fs::read_dir(parts).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files.insert(0, etc.join("sources.list"));
        let mut sources = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap_or_default();
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("list") => sources.extend(text.lines().filter_map(one_line)),
                Some("sources") => sources.extend(paragraphs(&text).into_iter().flatten()),
                _ => {}
            }
        }
        Self::choose(&sources)
    }

    /// The archive and its security updates among all sources.
    fn choose(sources: &[Source]) -> Option<Self> {
        let archive = best(sources, |suite| {
            let suite = suite.trim_end_matches('/');
            let base = ["-updates", "-backports"].iter().find_map(|end| suite.strip_suffix(end));
            SUITES.contains(&base.unwrap_or(suite))
        })?;
        let security =
            best(sources, |suite| suite.contains("-security") || suite.ends_with("/updates"));
        let mut mirror = Self::at(&archive.address);
        if let Some(security) = security {
            mirror.security = security.address.trim_end_matches('/').to_owned();
        }
        Some(mirror)
    }
}

/// The suites of Debian by which its archive is known.
const SUITES: &[&str] = &[
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "sid",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
];

/// One address of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    address: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

/// The source that has such a suite of Debian. Other archives have suites of these names too: they
/// have other keys, or another path.
fn best(sources: &[Source], is_suite: impl Fn(&str) -> bool) -> Option<&Source> {
    let fits = |source: &&Source| {
        // A file of keys; the keys themselves may stand there too.
        let is_foreign = source
            .signed_by
            .as_ref()
            .is_some_and(|keys| keys.starts_with('/') && !keys.contains("debian"));
        source.components.iter().any(|component| component == "main")
            && source.suites.iter().any(|suite| is_suite(suite))
            && !is_foreign
    };
    // `min_by_key` keeps the first of equals.
    sources.iter().filter(fits).min_by_key(|source| {
        let has_keys = source.signed_by.as_ref().is_some_and(|keys| keys.contains("debian"));
        let last = source.address.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        (!has_keys, !last.starts_with("debian"))
    })
}

/// A line of a `.list` file.
fn one_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    rest = rest.trim_start();
    let mut signed_by = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (options, after) = options.split_once(']')?;
        signed_by = options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (address, suite) = (words.next()?, words.next()?);
    Some(Source { address, suites: vec![suite], components: words.collect(), signed_by })
}

/// The paragraphs of a `.sources` file: for each, the source of each of its addresses.
fn paragraphs(text: &str) -> Vec<Vec<Source>> {
    let mut fields: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines() {
        let paragraph = fields.len() - 1;
        if line.starts_with('#') {
            // A comment, even within a field.
        } else if line.trim().is_empty() {
            fields.push(Vec::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields[paragraph].last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields[paragraph].push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    fields.iter().map(|fields| paragraph(fields)).collect()
}

fn paragraph(fields: &[(String, String)]) -> Vec<Source> {
    let value = |name: &str| {
        fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
    };
    let words = |name: &str| value(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_on = !matches!(value("enabled").to_ascii_lowercase().as_str(), "no" | "false" | "0");
    if !is_on || !words("types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let signed_by = Some(value("signed-by")).filter(|keys| !keys.is_empty()).map(str::to_owned);
    let source = |address| Source {
        address,
        suites: words("suites"),
        components: words("components"),
        signed_by: signed_by.clone(),
    };
    words("uris").into_iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mirror that a folder with these files names.
    fn mirror(files: &[(&str, &str)]) -> Option<Mirror> {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir(etc.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(etc.path().join(name), text).unwrap();
        }
        Mirror::of_machine(etc.path())
    }

    fn pair(archive: &str, security: &str) -> Option<Mirror> {
        Some(Mirror { archive: archive.into(), security: security.into() })
    }

    #[test]
    fn the_mirror_is_that_of_the_machine() {
        let one_line = "# deb http://old/debian bookworm main\n\
                        deb-src http://src/debian bookworm main\n\
                        deb [arch=amd64 signed-by=/k/other.gpg] http://shop/debian bookworm main\n\
                        deb http://a/debian/ bookworm main contrib # ours\n\
                        deb http://a/debian bookworm-updates main\n\
                        deb http://s/sec bookworm-security main\n";
        assert_eq!(mirror(&[("sources.list", one_line)]), pair("http://a/debian", "http://s/sec"));

        let deb822 = "Types: deb deb-src\nURIs: http://b/debian\n# a comment\nSuites: trixie\n \
                      trixie-updates\nComponents: main non-free\n\
                      Signed-By: /k/debian-archive-keyring.gpg\n\n\
                      Types: deb\nURIs: http://b/debian-security\nSuites: trixie-security\n\
                      Components: main\nSigned-By: /k/debian-archive-keyring.gpg\n";
        let expected = pair("http://b/debian", "http://b/debian-security");
        assert_eq!(mirror(&[("sources.list.d/debian.sources", deb822)]), expected);
        // Signed by Debian's keys comes before what merely looks like it.
        let both = [("sources.list", one_line), ("sources.list.d/debian.sources", deb822)];
        assert_eq!(mirror(&both), expected);
    }

    #[test]
    fn without_security_updates_they_are_beside_the_archive() {
        let text = "deb http://a/debian bookworm main";
        let expected = pair("http://a/debian", "http://a/debian-security");
        assert_eq!(mirror(&[("sources.list.d/a.list", text)]), expected);
        assert_eq!(Some(Mirror::at("http://a/debian/")), expected);
    }

    #[test]
    fn keys_may_stand_in_the_source() {
        let text = "Types: deb\nURIs: http://a/debian\nSuites: trixie\nComponents: main\n\
                    Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME/ABC\n";
        let expected = pair("http://a/debian", "http://a/debian-security");
        assert_eq!(mirror(&[("sources.list.d/a.sources", text)]), expected);
    }

    #[test]
    fn other_archives_are_not_taken_for_debian() {
        for text in [
            "",
            "deb http://u/ubuntu noble main universe",
            "deb http://shop/linux/debian bookworm stable",
            "deb [signed-by=/k/shop.gpg] http://shop/debian bookworm main",
            "deb http://a/debian",
            "deb [broken http://a/debian bookworm main",
            "debian http://a/debian bookworm main",
        ] {
            assert_eq!(mirror(&[("sources.list", text)]), None, "{text}");
        }
        let off =
            "Types: deb\nURIs: http://b/debian\nSuites: trixie\nComponents: main\nEnabled: no";
        assert_eq!(mirror(&[("sources.list.d/a.sources", off)]), None);
        assert_eq!(mirror(&[("sources.list.d/a.save", "deb http://a/debian sid main")]), None);
    }
}
