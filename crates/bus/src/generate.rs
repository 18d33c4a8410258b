//! [`Generator`]: frames out of a seed, each with the instant at which it is due.
//!
//! The same settings and seed give the same frames at the same instants.

use std::str::FromStr;

use candor_rules::pattern;
use candor_time::Nanos;
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, FD_LENGTHS, SFF_MASK};
use candor_wire::can::{Frame, Timing, bits};
use rand_core::Rng as _;
use rand_pcg::Pcg32;

/// Which identifiers generated frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    RandomStandard,
    RandomExtended,
    /// From the first to the last and again from the first; identifier words.
    InTurn(u32, u32),
}

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = |text: &str| {
            pattern::identifier(text).map_err(|error| format!("{}; {}", error.message, error.hint))
        };
        match text {
            "random" | "random standard" => return Ok(Self::RandomStandard),
            "random extended" => return Ok(Self::RandomExtended),
            _ => {}
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (word(first)?, word(last)?);
        if first & EFF_FLAG != last & EFF_FLAG {
            return Err("write x at both ends, as in 0x100x-0x1FFx, or at none".into());
        }
        if first > last {
            return Err(format!(
                "write the smaller identifier first: {}",
                text.replace('-', " and ")
            ));
        }
        Ok(Self::InTurn(first, last))
    }
}

/// How long the data of generated frames is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub min: usize,
    pub max: usize,
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<usize>().ok().filter(|&length| length <= 64).ok_or_else(|| {
                "the length must be a number of bytes up to 64, or a range: 0-8".to_owned()
            })
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max) = (number(min)?, number(max)?);
        if min > max {
            return Err(format!("write the smaller length first: {max}-{min}"));
        }
        Ok(Self { min, max })
    }
}

/// What generated frames carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Anything.
    Random,
    /// The number of the frame, from 0, the low byte first.
    Increment,
    /// These bytes, from the first again if the frame is longer.
    Fixed(Vec<u8>),
}

impl FromStr for Data {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => return Ok(Self::Random),
            "increment" => return Ok(Self::Increment),
            _ => {}
        }
        let expected =
            || "expected `random`, `increment` or bytes in hex, such as DEADBEEF".to_owned();
        if text.is_empty() || !text.len().is_multiple_of(2) || text.len() > 128 || !text.is_ascii()
        {
            return Err(expected());
        }
        let bytes = (0..text.len()).step_by(2).map(|at| {
            let digits = text.get(at..at + 2).filter(|pair| !pair.contains('+'));
            digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(expected)
        });
        bytes.collect::<Result<_, _>>().map(Self::Fixed)
    }
}

/// When generated frames are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many in such a time, evenly.
    Rate(Rate),
    /// As many as make the bus busy for this share of the time, by the exact length of each frame.
    Load {
        /// Above 0, at most 1.
        share: f64,
        /// The bit rates of the bus.
        timing: Timing,
    },
    /// All at once: each as soon as there is room.
    Flood,
}

/// So many frames in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, one at least.
    pub frames: u64,
    /// In how long, longer than nothing.
    pub time: Nanos,
}

impl Rate {
    /// When frame number `number` is due.
    #[must_use]
    pub fn due(self, number: u64) -> Nanos {
        let nanos =
            u128::from(number) * u128::from(self.time.as_nanos()) / u128::from(self.frames.max(1));
        Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected frames per time, such as 1000/s or 10/100ms".to_owned();
        let (frames, time) = text.split_once('/').ok_or_else(expected)?;
        let (frames, factor) = match frames.strip_suffix(['k', 'K']) {
            Some(thousands) => (thousands, 1_000),
            None => (frames, 1),
        };
        let frames = frames.parse::<u64>().ok().and_then(|frames| frames.checked_mul(factor));
        let time = match time.starts_with(|first: char| first.is_ascii_digit()) {
            true => time.parse::<Nanos>(),
            false => format!("1{time}").parse(),
        };
        match (frames, time) {
            (Some(frames), Ok(time)) if frames > 0 && time > Nanos::ZERO => {
                Ok(Self { frames, time })
            }
            _ => Err(expected()),
        }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.time {
            second if second == Nanos::from_secs(1) => write!(f, "{}/s", self.frames),
            time => write!(f, "{}/{time}", self.frames),
        }
    }
}

/// What frames to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Their identifiers.
    pub ids: Ids,
    /// Their lengths; CAN FD frames have the next length that CAN FD knows.
    pub lengths: Lengths,
    pub data: Data,
    /// CAN FD frames with bit rate switch.
    pub is_fd: bool,
    /// When they are due.
    pub pace: Pace,
    /// What random draws begin with.
    pub seed: u64,
}

/// Frames with the instants at which they are due, for ever.
#[derive(Clone, Debug)]
pub struct Generator {
    settings: Settings,
    random: Pcg32,
    number: u64,
    /// Bits of all frames so far.
    nominal_bits: u64,
    data_bits: u64,
}

/// Which stream of random numbers is used.
const STREAM: u64 = 1;

impl Generator {
    /// A generator.
    ///
    /// # Errors
    /// Lengths that the kind of frame does not have; a share that is none.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let max = settings.lengths.max;
        if !settings.is_fd && max > 8 {
            return Err(format!(
                "{max} bytes of data, but a classical CAN frame has at most 8; add --fd"
            ));
        }
        if let Pace::Load { share, .. } = settings.pace
            && !(share > 0.0 && share <= 1.0)
        {
            return Err("the load must be more than 0 % and at most 100 %".into());
        }
        let random = Pcg32::new(settings.seed, STREAM);
        Ok(Self { settings, random, number: 0, nominal_bits: 0, data_bits: 0 })
    }

    /// Uniform in `0..=max`.
    fn draw(&mut self, max: u64) -> u64 {
        // The high half of the product: biased by less than 2^-32 for any range drawn from here.
        let scaled = (u128::from(self.random.next_u64()) * (u128::from(max) + 1)) >> 64;
        scaled as u64
    }

    fn id(&mut self) -> u32 {
        match self.settings.ids {
            Ids::RandomStandard => self.draw(u64::from(SFF_MASK)) as u32,
            Ids::RandomExtended => self.draw(u64::from(EFF_MASK)) as u32 | EFF_FLAG,
            Ids::InTurn(first, last) => {
                let count = u64::from(last - first) + 1;
                first + (self.number % count) as u32
            }
        }
    }

    fn length(&mut self) -> usize {
        let Lengths { min, max } = self.settings.lengths;
        let length = min + self.draw((max - min) as u64) as usize;
        if !self.settings.is_fd {
            return length;
        }
        let known = FD_LENGTHS.into_iter().map(usize::from).find(|&known| known >= length);
        known.unwrap_or(64)
    }

    fn fill(&mut self, data: &mut [u8]) {
        match &self.settings.data {
            Data::Random => self.random.fill_bytes(data),
            Data::Increment => {
                for (byte, value) in data.iter_mut().zip(self.number.to_le_bytes()) {
                    *byte = value;
                }
            }
            Data::Fixed(bytes) => {
                for (byte, value) in data.iter_mut().zip(bytes.iter().cycle()) {
                    *byte = *value;
                }
            }
        }
    }

    /// When the next frame is due: after those so far.
    fn due(&self) -> Nanos {
        match self.settings.pace {
            Pace::Rate(rate) => rate.due(self.number),
            Pace::Flood => Nanos::ZERO,
            Pace::Load { share, timing } => {
                let seconds = |bits: u64, rate: candor_wire::can::Bitrate| {
                    bits as f64 / f64::from(rate.bits_per_second())
                };
                let busy = seconds(self.nominal_bits, timing.nominal)
                    + seconds(self.data_bits, timing.data);
                Nanos::from_nanos((busy / share * 1e9).round() as u64)
            }
        }
    }
}

impl Iterator for Generator {
    type Item = (Nanos, Frame);

    fn next(&mut self) -> Option<(Nanos, Frame)> {
        let can_id = self.id();
        let length = self.length();
        let mut data = [0; 64];
        self.fill(&mut data[..length]);
        let flags = self.settings.is_fd.then_some(BRS);
        // The identifier and the length were chosen so that it is legal.
        let frame = Frame::from_parts(can_id, &data[..length], flags).ok()?;
        let due = self.due();
        let bits = bits::length(&frame).ok()?;
        self.nominal_bits += u64::from(bits.nominal);
        self.data_bits += u64::from(bits.data);
        self.number += 1;
        Some((due, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            ids: Ids::RandomStandard,
            lengths: Lengths { min: 8, max: 8 },
            data: Data::Random,
            is_fd: false,
            pace: Pace::Flood,
            seed: 1,
        }
    }

    fn shown(settings: Settings, count: usize) -> Vec<String> {
        let generator = Generator::new(settings).unwrap();
        generator.take(count).map(|(due, frame)| format!("{due} {frame}")).collect()
    }

    #[test]
    fn a_seed_stands_for_the_same_frames() {
        let first = shown(settings(), 100);
        assert_eq!(first, shown(settings(), 100));
        assert_ne!(first, shown(Settings { seed: 2, ..settings() }, 100));
        // Pinned: a recorded seed means the same frames in years to come.
        assert_eq!(first[0], "0ns 0AC#561281AF79281C6C");
    }

    #[test]
    fn identifiers_go_in_turn_and_data_counts() {
        let settings = Settings {
            ids: "0x7FE-0x7FF".parse().unwrap(),
            lengths: "2".parse().unwrap(),
            data: Data::Increment,
            pace: Pace::Rate("1000/s".parse().unwrap()),
            ..settings()
        };
        assert_eq!(shown(settings.clone(), 3), ["0ns 7FE#0000", "1ms 7FF#0100", "2ms 7FE#0200"]);
        let extended = Settings { ids: "0x18FEF100x".parse().unwrap(), ..settings };
        assert_eq!(shown(extended, 1), ["0ns 18FEF100#0000"]);
    }

    #[test]
    fn lengths_stay_in_their_range() {
        let lengths = "3-5".parse().unwrap();
        let generator = Generator::new(Settings { lengths, ..settings() }).unwrap();
        let mut seen: Vec<_> = generator.take(200).map(|(_, frame)| frame.len()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [3, 4, 5]);

        let fd = Settings { lengths: "9-64".parse().unwrap(), is_fd: true, ..settings() };
        let mut seen: Vec<_> =
            Generator::new(fd).unwrap().take(500).map(|(_, frame)| frame.len()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [12, 16, 20, 24, 32, 48, 64]);
    }

    #[test]
    fn a_load_is_exact_by_the_bit() {
        // 112 bits at 500 kbit/s are 224 us; at half load every 448 us.
        let timing = Timing::classical("500k".parse().unwrap());
        let settings = Settings {
            ids: "0x123".parse().unwrap(),
            data: "1122334455667788".parse().unwrap(),
            pace: Pace::Load { share: 0.5, timing },
            ..settings()
        };
        let dues: Vec<_> = Generator::new(settings).unwrap().map(|(due, _)| due).take(3).collect();
        assert_eq!(dues, [0, 448, 896].map(Nanos::from_micros));
    }

    #[test]
    fn arguments_are_read_or_refused_with_a_remedy() {
        assert_eq!("10/100ms".parse::<Rate>().unwrap().due(5), Nanos::from_millis(50));
        assert_eq!("5k/s".parse::<Rate>().unwrap().due(5_000), Nanos::from_secs(1));
        assert_eq!("2/min".parse::<Rate>().unwrap().due(1), Nanos::from_secs(30));
        for text in ["", "1000", "0/s", "1/0s", "x/s", "1/parsec"] {
            assert!(
                text.parse::<Rate>().unwrap_err().starts_with("expected frames per time"),
                "{text}"
            );
        }
        for text in ["", "ABC", "XY", "+1"] {
            assert!(text.parse::<Data>().unwrap_err().starts_with("expected `random`"), "{text}");
        }
        for text in ["", "65", "8-", "x"] {
            assert!(
                text.parse::<Lengths>().unwrap_err().starts_with("the length must be"),
                "{text}"
            );
        }
        assert_eq!("8-2".parse::<Lengths>().unwrap_err(), "write the smaller length first: 2-8");
        assert!("0x100-0x200x".parse::<Ids>().is_err());
        assert!("0x200-0x100".parse::<Ids>().is_err());
        assert!("123".parse::<Ids>().unwrap_err().contains("0x123"));
        let long = Settings { lengths: Lengths { min: 0, max: 9 }, ..settings() };
        assert!(Generator::new(long).unwrap_err().contains("add --fd"));
        for share in [0.0, 1.01, f64::NAN] {
            let timing = Timing::classical("1M".parse().unwrap());
            let pace = Pace::Load { share, timing };
            assert!(Generator::new(Settings { pace, ..settings() }).is_err(), "{share}");
        }
    }
}
