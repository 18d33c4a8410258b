//! [`create`]: a recording that is in its place only when it is complete.

use std::path::Path;

use candor_output::{Existing, Target};

use crate::compression::{Compression, Compressor};
use crate::error::RecordingError;
use crate::format::{FORMATS, Format};
use crate::record::{AnyRecord, Record};
use crate::write::{Sink, format_of_name};

/// Creates a recording in the file `path`, or on standard output if that is `-`.
///
/// The format is the given one, else that of the file name, else candump on standard output. The file name says how it is
/// compressed, too.
///
/// # Errors
/// The file cannot be created, is there and may not be replaced
/// ([`RecordingError::is_existing`]), or no format is given.
pub fn create(
    path: &Path,
    format: Option<&'static Format>,
    existing: Existing,
) -> Result<Writer, RecordingError> {
    let is_stdout = path.as_os_str() == "-";
    let name = if is_stdout { "standard output".into() } else { path.display().to_string() };
    let format = match format {
        Some(format) => format,
        None if is_stdout => FORMATS[0],
        None => format_of_name(&name)?,
    };
    let target = match is_stdout {
        true => Ok(Target::stdout()),
        false => Target::create(path, existing),
    };
    let target = target.map_err(|error| RecordingError::unwritable(&name, error))?;
    let (_, compression) = Compression::of_file_name(&name);
    let out = Compressor::new(target, compression.filter(|_| !is_stdout));
    Ok(Writer { sink: Sink::new(&name, out, format), name })
}

/// A recording being written. Dropped without [`Writer::finish`], it leaves no file behind.
pub struct Writer {
    sink: Sink<Compressor<Target>>,
    name: String,
}

impl Writer {
    /// The format it is in.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.sink.format()
    }

    /// As [`Sink::losses`].
    pub fn losses(&self) -> impl Iterator<Item = String> {
        self.sink.losses()
    }

    /// As [`Sink::start`].
    pub fn start(&mut self, start_ns: u64) {
        self.sink.start(start_ns);
    }

    /// Appends a record, seen on the interface of that name.
    ///
    /// # Errors
    /// The format cannot hold the record, or the file cannot be written.
    pub fn write(&mut self, record: &Record, interface: &str) -> Result<(), RecordingError> {
        self.sink.write(record, interface)
    }

    /// Appends a record of either kind, seen on the interface of that name.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write_any(
        &mut self,
        record: &AnyRecord<'_>,
        interface: &str,
    ) -> Result<(), RecordingError> {
        self.sink.write_any(record, interface)
    }

    /// Writes what is left and puts the file in its place.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub fn finish(self) -> Result<(), RecordingError> {
        let (out, head) = self.sink.finish()?;
        let finished = out.finish().and_then(|(mut target, can_be_replaced)| {
            if let Some(head) = head.filter(|_| can_be_replaced) {
                target.replace_head(&head)?;
            }
            target.finish()
        });
        finished.map_err(|error| RecordingError::unwritable(&self.name, error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::read::{Recording, open};

    const LOG: &[u8] = b"(1.000000) can0 123#11\n";

    #[test]
    fn missing_files_are_named() {
        let missing = Path::new("no-such-folder/a.log");
        let error = open(missing, None).err().unwrap().to_string();
        assert!(error.starts_with("no-such-folder/a.log: cannot be read: "), "{error}");
        let error = create(missing, None, Existing::Keep).err().unwrap().to_string();
        assert!(error.starts_with("no-such-folder/a.log: cannot be written: "), "{error}");
        let read_only = create(Path::new("a.mf4"), None, Existing::Keep).err().unwrap().to_string();
        let expected = "a.mf4: the format mf4 is read, but not written; use one of log, ";
        assert!(read_only.starts_with(expected), "{read_only}");
        assert_eq!(
            create(Path::new("a.xyz"), None, Existing::Keep).err().unwrap().to_string(),
            "a.xyz: unknown file extension; use one of log, pcap, pcapng, asc, blf, trc (with .gz or .zst behind it, to compress it), or name the format"
        );
    }

    /// Only of what was there: other names, and error reports.
    #[test]
    fn what_a_format_does_not_keep_is_told() {
        let report = "20000004#0001000000000000";
        let [asc, log] = ["asc", "candump"].map(|name| Format::by_name(name).unwrap());
        for (format, records, expected) in [
            (asc, &[("can0", "123#"), ("can3", "123#")][..], &[][..]),
            (
                asc,
                &[("car", "123#"), ("can0", "123#"), ("can5", report)],
                &[
                    "names of interfaces (car is can0 there, can0 is can1 there)",
                    "what error reports say beyond that there was an error (error reports: 1)",
                ],
            ),
            (asc, &[("can0", "20000080#0000000000000000")], &[]),
            (log, &[("car", report)], &[]),
        ] {
            let mut sink = Sink::new("a", Vec::new(), format);
            for (interface, frame) in records {
                let frame = frame.parse().unwrap();
                let interface_index = crate::InterfaceIndex(0);
                let record =
                    Record { time_ns: 0, interface: interface_index, direction: None, frame };
                sink.write(&record, interface).unwrap();
            }
            assert_eq!(sink.losses().collect::<Vec<_>>(), expected, "{}", format.name);
        }
    }

    #[test]
    fn only_a_finished_file_replaces_a_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let files = || fs::read_dir(folder.path()).unwrap().count();
        let record = Recording::new("", LOG, None).unwrap().next().unwrap().unwrap();
        fs::write(&path, "good").unwrap();
        assert!(create(&path, None, Existing::Keep).err().unwrap().is_existing());

        let mut writer = create(&path, None, Existing::Replace).unwrap();
        for _ in 0..10_000 {
            writer.write(&record, "can0").unwrap();
        }
        assert_eq!(files(), 2);
        drop(writer);
        assert_eq!((fs::read(&path).unwrap(), files()), (b"good".to_vec(), 1));

        let mut writer = create(&path, None, Existing::Replace).unwrap();
        writer.write(&record, "can7").unwrap();
        writer.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"(0000000001.000000) can7 123#11\n");
        assert_eq!(files(), 1);
    }
}
