//! The plotting library plotly.js: the report of the laboratory and the page of the signal service draw with it.
//!
//! It comes out of the package `plotly`, see `build.rs`, and is compressed in the program: 1.4 MB and not 4.7.

use std::io::Read;

use flate2::read::GzDecoder;

/// The script, compressed by gzip. It defines `Plotly`.
pub static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz"));

#[must_use]
pub fn script() -> String {
    let mut script = String::new();
    // The bytes are part of the program, and the test below reads them.
    let _ = GzDecoder::new(COMPRESSED).read_to_string(&mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_alone_in_its_file() {
        let script = script();
        assert!(script.starts_with("/**\n* plotly.js v"), "{:?}", script.get(..40));
        assert!(script.trim_end().ends_with("return Plotly;\n}));"));
        assert!(!script.contains("<script"));
    }
}
