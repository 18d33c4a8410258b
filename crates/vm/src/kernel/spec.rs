//! How a kernel is asked for.
//!
//! | written | is |
//! |---|---|
//! | `6.12` | the newest of Debian's 6.12 |
//! | `6.12-rt` | the newest of them with PREEMPT_RT |
//! | `debian:6.12.117+deb13-rt-amd64` | this one of Debian's, as in `linux-image-VERSION` |
//! | (two paths) | somebody's own build: its image and its modules |

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// How a kernel is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spec {
    /// The newest one of a series.
    Series {
        /// Such as `6.12`.
        series: String,
        /// Whether with PREEMPT_RT.
        is_rt: bool,
    },
    /// A certain one of Debian's: its release, such as `6.12.117+deb13-rt-amd64`.
    Debian(String),
    /// Somebody's own build.
    Files {
        /// The `bzImage`.
        image: PathBuf,
        /// The folder `lib/modules/RELEASE`, or one above it that holds no other.
        modules: PathBuf,
    },
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(release) = text.strip_prefix("debian:") {
            return match Flavour::from_release(release) {
                Some(_) => Ok(Self::Debian(release.to_owned())),
                None => Err(Error::Other(format!(
                    "{text} is not a Debian kernel; write the part of the package name after \
                     linux-image-, such as debian:6.12.117+deb13-rt-amd64"
                ))),
            };
        }
        let (series, is_rt) = match text.strip_suffix("-rt") {
            Some(series) => (series, true),
            None => (text, false),
        };
        let is_number = |part: &str| {
            (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        match series.split_once('.') {
            Some((major, minor)) if is_number(major) && is_number(minor) => {
                Ok(Self::Series { series: series.to_owned(), is_rt })
            }
            _ => Err(Error::Other(format!(
                "{text} is not a kernel; write a series such as 6.12 or 6.12-rt, or \
                 debian:VERSION such as debian:6.12.117+deb13-rt-amd64"
            ))),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Series { series, is_rt } => {
                write!(f, "{series}{}", if *is_rt { "-rt" } else { "" })
            }
            Self::Debian(release) => write!(f, "debian:{release}"),
            Self::Files { image, modules } => {
                write!(f, "{} with {}", image.display(), modules.display())
            }
        }
    }
}

/// What the release of one of Debian's kernels says about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flavour {
    /// Such as `6.12`.
    pub(crate) series: String,
    /// Whether with PREEMPT_RT.
    pub(crate) is_rt: bool,
}

impl Flavour {
    /// Of such as `6.12.117+deb13-rt-amd64` and `6.1.0-56-amd64`. Others than standard and rt are
    /// none of ours: those for clouds have no CAN.
    pub(crate) fn from_release(release: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+~-".contains(&byte);
        let base = release.strip_suffix("-amd64")?;
        let (base, is_rt) = match base.strip_suffix("-rt") {
            Some(base) => (base, true),
            None => (base, false),
        };
        let is_other = base.ends_with("-cloud") || base.ends_with("-rt");
        let mut parts = base.splitn(3, '.');
        let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_whole = is_number(major)
            && is_number(minor)
            && rest.starts_with(|c: char| c.is_ascii_digit())
            && release.bytes().all(is_plain);
        (is_whole && !is_other).then(|| Self { series: format!("{major}.{minor}"), is_rt })
    }

    /// Whether it is what `spec` asks for.
    pub(crate) fn fits(&self, series: &str, is_rt: bool) -> bool {
        self.series == series && self.is_rt == is_rt
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.series, if self.is_rt { "-rt" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_asked_for_by_series_and_release() {
        for text in ["6.12", "6.1-rt", "7.2", "debian:6.12.117+deb13-rt-amd64"] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        let rt = Spec::Series { series: "6.12".into(), is_rt: true };
        assert_eq!("6.12-rt".parse::<Spec>().unwrap(), rt);
        for text in [
            "",
            "6",
            "6.",
            ".12",
            "6.12.1",
            "6.12-rt-rt",
            "6.x",
            "-rt",
            "latest",
            "debian:",
            "debian:6.12",
            "debian:6.12-amd64",
            "debian:../6.12.1-amd64",
            "debian:6.12.1-arm64",
            "debian:6.12.1-cloud-amd64",
            "6.99999",
        ] {
            let message = text.parse::<Spec>().unwrap_err().to_string();
            assert!(message.contains("; write"), "{text}: {message}");
        }
    }

    #[test]
    fn releases_tell_series_and_flavour() {
        for (release, flavour) in [
            ("6.12.117+deb13-amd64", Some("6.12")),
            ("6.12.117+deb13-rt-amd64", Some("6.12-rt")),
            ("6.1.0-56-amd64", Some("6.1")),
            ("6.1.0-56-rt-amd64", Some("6.1-rt")),
            ("6.12.90+deb12.1-amd64", Some("6.12")),
            ("6.12-amd64", None),
            ("6.12.117+deb13-cloud-amd64", None),
            ("6.12.117+deb13-amd64-dbg", None),
            ("6.12.117+deb13-amd64-unsigned", None),
            ("amd64", None),
        ] {
            let found = Flavour::from_release(release).map(|flavour| flavour.to_string());
            assert_eq!(found.as_deref(), flavour, "{release}");
        }
    }
}
