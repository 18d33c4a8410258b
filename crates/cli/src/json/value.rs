//! [`Json`]: what values of fields are in JSON, and the JSON Schema of each.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use candor_lat::section::Sections;
use candor_time::{Hardware, Instant, Nanos, Realtime};
use candor_wire::can::{Bitrate, Frame};
use serde_json::{Value, json};

use super::schema;

/// A value of a field.
pub(crate) trait Json {
    /// Whether every object has the field.
    const IS_REQUIRED: bool = true;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Its JSON Schema.
    fn schema() -> Value;

    /// Whether this object has the field.
    fn is_present(&self) -> bool {
        true
    }
}

/// What JSON has itself.
macro_rules! scalars {
    ($($schema:tt: $($of:ty),+;)+) => {$($(
        impl $crate::json::Json for $of {
            fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
                Ok(serde_json::to_writer(out, self)?)
            }

            fn schema() -> serde_json::Value {
                serde_json::json!($schema)
            }
        }
    )+)+};
}

scalars! {
    {"type": "boolean"}: bool;
    {"type": "integer"}: i64, i128;
    {"type": "integer", "minimum": 0}: u32, u64, usize;
    {"type": "integer", "minimum": 0, "maximum": u8::MAX}: u8;
    {"type": "integer", "minimum": 0, "maximum": u16::MAX}: u16;
    {"type": "number"}: f64;
    {"type": "string"}: str, String;
    {"type": "object"}: Sections;
}

/// What is printed as another value.
macro_rules! printed_as {
    ($($of:ty as $it:ident: $other:ty = $get:expr;)+) => {$(
        impl Json for $of {
            fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
                let $it = self;
                $get.write(out)
            }

            fn schema() -> Value {
                <$other>::schema()
            }
        }
    )+};
}

printed_as! {
    Bitrate as it: u32 = it.bits_per_second();
    PathBuf as it: String = it.display().to_string();
    Frame as it: String = it.to_string();
    Instant<Hardware> as it: u64 = it.as_nanos();
    Instant<Realtime> as it: u64 = it.as_nanos();
    Nanos as it: u64 = it.as_nanos();
}

impl<T: Json + ?Sized> Json for &T {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        T::write(self, out)
    }

    fn schema() -> Value {
        T::schema()
    }
}

/// Null if there is none.
impl<T: Json> Json for Option<T> {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Some(value) => value.write(out)?,
            None => out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    fn schema() -> Value {
        schema::or_null(T::schema())
    }
}

/// A field that is left out if it has no value.
pub(crate) struct Present<T>(pub(crate) Option<T>);

impl<T: Json> Json for Present<T> {
    const IS_REQUIRED: bool = false;

    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write(out)
    }

    fn schema() -> Value {
        T::schema()
    }

    fn is_present(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Json> Json for [T] {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.push(b'[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item.write(out)?;
        }
        out.push(b']');
        Ok(())
    }

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: Json> Json for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.as_slice().write(out)
    }

    fn schema() -> Value {
        <[T]>::schema()
    }
}

impl<T: Json, const N: usize> Json for [T; N] {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.as_slice().write(out)
    }

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema(), "minItems": N, "maxItems": N})
    }
}

impl<K: AsRef<str>, V: Json> Json for BTreeMap<K, V> {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.push(b'{');
        for (index, (key, value)) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            key.as_ref().write(out)?;
            out.push(b':');
            value.write(out)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": V::schema()})
    }
}

/// A type of a few words: the word of a value; all values; what words mean, unless that is plain.
macro_rules! word {
    ($of:ty as $it:ident: $name:expr; $all:expr; $($word:literal: $meaning:literal),*) => {
        impl $crate::json::Json for $of {
            fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
                let $it = *self;
                $name.write(out)
            }

            fn schema() -> serde_json::Value {
                let words = $all.map(|$it: $of| $name);
                $crate::json::schema::words(&words, &[$(($word, $meaning)),*])
            }
        }
    };
}

/// Types of a few words: those of their `ALL` by their `name()`.
macro_rules! words {
    ($($of:ty { $($word:literal: $meaning:literal),* })+) => {$(
        $crate::json::value::word! {
            $of as it: it.name(); <$of>::ALL; $($word: $meaning),*
        }
    )+};
}

pub(crate) use {word, words};
