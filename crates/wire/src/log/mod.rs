//! Recordings: one file per format and one registry.
