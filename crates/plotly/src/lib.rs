//! The plotting library plotly.js, as text: the report of the laboratory and the page of the signal service
//! draw with it.
//!
//! It comes out of the package `plotly`, see `build.rs`.

/// The script. It defines `Plotly`.
pub static SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_alone_in_its_file() {
        assert!(SCRIPT.starts_with("/**\n* plotly.js v"), "{:?}", SCRIPT.get(..40));
        assert!(SCRIPT.trim_end().ends_with("return Plotly;\n}));"));
        assert!(!SCRIPT.contains("<script"));
    }
}
