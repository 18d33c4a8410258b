//! [`Selection`]: which frames are wanted, in the pattern language of rule files.

use candor_engine::Filter;
use candor_rules::pattern::{self, PatternError};
use candor_wire::can::Frame;
use candor_wire::can::frame::ERR_FLAG;

/// Which frames are wanted.
///
/// A frame is wanted if one of the patterns takes it and no pattern that begins with `!` does. If
/// there are none but those, everything else is wanted. Error reports are wanted unless there are
/// patterns that take frames and none of those is `error`.
///
/// ```
/// use candor_bus::select::Selection;
/// let selection = Selection::parse(["0x120/0x7F0", "!0x123"])?;
/// let takes = |frame: &str| selection.takes(&frame.parse().unwrap());
/// assert!(takes("121#") && !takes("123#") && !takes("130#"));
/// # Ok::<(), candor_bus::select::SelectionError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selection {
    wanted: Vec<Filter>,
    unwanted: Vec<Filter>,
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError {
    text: String,
    error: PatternError,
}

impl std::fmt::Display for SelectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a selection: {}; {}", self.text, self.error.message, self.error.hint)
    }
}

impl std::error::Error for SelectionError {}

impl Selection {
    /// Reads patterns; several in one text are separated by commas.
    ///
    /// # Errors
    /// What is wrong with the first that is none.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, SelectionError> {
        let mut selection = Self::default();
        for text in texts.into_iter().flat_map(|text| text.split(',')) {
            let pattern = pattern::parse(text)
                .map_err(|error| SelectionError { text: text.into(), error })?;
            match pattern.excludes {
                true => selection.unwanted.extend(pattern.filters),
                false => selection.wanted.extend(pattern.filters),
            }
        }
        Ok(selection)
    }

    /// Wants this filter as well.
    pub fn add(&mut self, filter: Filter) {
        self.wanted.push(filter);
    }

    /// Whether everything is wanted.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.wanted.is_empty() && self.unwanted.is_empty()
    }

    /// Whether a frame is wanted.
    #[must_use]
    pub fn takes(&self, frame: &Frame) -> bool {
        let can_id = frame.can_id();
        let any = |filters: &[Filter]| filters.iter().any(|filter| filter.matches(can_id));
        let is_wanted = if self.wanted.is_empty() {
            true
        } else if can_id & ERR_FLAG != 0 {
            self.wanted.iter().any(|filter| filter.mask & ERR_FLAG != 0 && filter.matches(can_id))
        } else {
            any(&self.wanted)
        };
        is_wanted && !any(&self.unwanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_frames() {
        let frames = ["123#", "124#", "00000123#", "123#R", "20000004#00", "123##0"];
        for (patterns, expected) in [
            (&[][..], [true, true, true, true, true, true]),
            (&["0x123"], [true, false, false, false, false, true]),
            (&["0x123x"], [false, false, true, false, false, false]),
            (&["0x120/0x7F0", "!0x123"], [false, true, false, false, false, false]),
            (&["0x120-0x12F,!0x123"], [false, true, false, false, false, false]),
            (&["!0x123"], [false, true, true, true, true, false]),
            (&["error"], [false, false, false, false, true, false]),
            (&["!error"], [true, true, true, true, false, true]),
            (&["123:7FF"], [true, false, true, true, false, true]),
            (&["123~7FF"], [false, true, false, false, false, false]),
            (&["any 0x123"], [true, false, false, true, false, true]),
        ] {
            let selection = Selection::parse(patterns.iter().copied()).unwrap();
            let taken = frames.map(|frame| selection.takes(&frame.parse().unwrap()));
            assert_eq!(taken, expected, "{patterns:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_reported_with_a_remedy() {
        let error = Selection::parse(["0x123", "1800"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "`1800` is not a selection: `1800` is not an identifier; \
             write identifiers in hex with 0x: 0x1800"
        );
    }
}
