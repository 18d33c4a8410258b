//! [`objects!`]: tables of objects, of which each is printed and described.

use std::io;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};

use super::Json;
use super::schema::{described, sentence};

/// What has a table of keys.
pub(crate) trait Keys {
    /// Appends what the object holds.
    fn write_members(&self, members: &mut Members<'_>) -> io::Result<()>;

    /// Notes the keys.
    fn list(fields: &mut Fields);
}

/// What an object holds, as it is written.
pub(crate) struct Members<'a> {
    out: &'a mut Vec<u8>,
    /// What stands before the next member.
    begin: u8,
}

impl Members<'_> {
    /// A field of this key, which is in quotation marks and has its colon.
    pub(crate) fn add(&mut self, key: &str, value: &(impl Json + ?Sized)) -> io::Result<()> {
        if !value.is_present() {
            return Ok(());
        }
        self.out.push(self.begin);
        self.begin = b',';
        self.out.extend_from_slice(key.as_bytes());
        value.write(self.out)
    }
}

/// Appends an object that has members.
pub(crate) fn write(object: &impl Keys, out: &mut Vec<u8>) -> io::Result<()> {
    let mut members = Members { out, begin: b'{' };
    object.write_members(&mut members)?;
    out.push(b'}');
    Ok(())
}

/// The keys of an object, as they are described.
#[derive(Default)]
pub(crate) struct Fields {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

/// The type of a value.
pub(crate) const fn type_of<V: ?Sized>(_: &V) -> PhantomData<V> {
    PhantomData
}

impl Fields {
    /// A key with what is got for it. If there are `words`, the value, or what is in it, is one of these.
    pub(crate) fn add<'a, T: 'a, V: Json + ?Sized>(
        &mut self,
        key: &'static str,
        meaning: &str,
        words: impl Iterator<Item = &'static str>,
        _: impl FnOnce(&'a T) -> PhantomData<V>,
    ) {
        let field = described(V::schema(), meaning, &words.collect::<Vec<_>>());
        self.properties.insert(key.to_owned(), field);
        self.required.extend(V::IS_REQUIRED.then_some(key));
    }

    /// The keys of another object.
    pub(crate) fn add_all<'a, T: 'a, V: Keys>(&mut self, _: impl FnOnce(&'a T) -> PhantomData<V>) {
        V::list(self);
    }
}

/// The JSON Schema of an object: it has the fields that are described, and no others.
pub(crate) fn schema<T: Keys>(summary: &str) -> Value {
    let mut fields = Fields::default();
    T::list(&mut fields);
    json!({
        "description": sentence(summary),
        "type": "object",
        "properties": fields.properties,
        "required": fields.required,
        "additionalProperties": false,
    })
}

/// What is got for a key: if nothing is said, the field of this name.
macro_rules! get {
    ($it:tt $key:ident) => {
        $it.$key
    };
    ($it:tt $key:ident $get:expr) => {
        $get
    };
}

/// Objects, each with what it is, its type and the commands that print it, what it is got from, and its keys: what
/// each means and how its value is got, or `..` and another object that has further keys. Objects without type and
/// commands are parts of others.
///
/// ```text
/// /// What a port received.
/// "port" of "bus dump", "bus record" for Totals as it {
///     /// Frames, without error reports
///     frames;                            // the field of this name
///     /// The longest of them, in bits
///     longest_bits = it.longest().total();
///     /// Its format
///     format [FORMATS.iter().map(|format| format.name)] = it.format.name;   // one of these words
/// }
/// ```
macro_rules! objects {
    ($(
        $(#[doc = $summary:literal])+
        $($name:literal of $($command:literal),+ $(; plain = $plain:literal)? for)? $of:ty as $it:tt {
            $(..$part:expr;)?
            $($(#[doc = $meaning:literal])+ $key:ident $([$words:expr])? $(= $get:expr)?;)+
        }
    )+) => {
        $(
            impl $crate::json::table::Keys for $of {
                fn write_members(
                    &self,
                    members: &mut $crate::json::table::Members<'_>,
                ) -> std::io::Result<()> {
                    let $it = self;
                    $($crate::json::table::Keys::write_members(&$part, members)?;)?
                    $(members.add(
                        concat!("\"", stringify!($key), "\":"),
                        &$crate::json::table::get!($it $key $($get)?),
                    )?;)+
                    Ok(())
                }

                #[allow(unused_variables, reason = "a key needs some of what there is")]
                fn list(fields: &mut $crate::json::table::Fields) {
                    use $crate::json::table::{get, type_of};
                    $(fields.add_all::<Self, _>(|this| {
                        let $it = this;
                        type_of(&$part)
                    });)?
                    $(fields.add::<Self, _>(
                        stringify!($key),
                        concat!($($meaning),+),
                        std::iter::empty()$(.chain($words))?,
                        |this| {
                            let $it = this;
                            type_of(&get!($it $key $($get)?))
                        },
                    );)+
                }
            }

            impl $crate::json::Json for $of {
                fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
                    $crate::json::table::write(self, out)
                }

                fn schema() -> serde_json::Value {
                    $crate::json::table::schema::<Self>(concat!($($summary),+))
                }
            }

            $(
                impl $crate::json::Object for $of {
                    const TYPE: &'static str = $name;
                    const COMMANDS: &'static [&'static str] = &[$($command),+];
                    const IS_PLAIN: bool = false $(|| $plain)?;
                }
            )?
        )+

        /// Those of these objects that commands print.
        pub(crate) const OBJECTS: &[$crate::json::Entry] = &[$($(
            { let _ = $name; $crate::json::Entry::new::<$of>() },
        )?)+];
    };
}

pub(crate) use {get, objects};
