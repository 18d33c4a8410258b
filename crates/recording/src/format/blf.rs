//! The binary log of Vector's tools, BLF (described by python-can, `can/io/blf.py`, and by Technica-Engineering/vector_blf).
//!
//! | part | bytes | what is read |
//! |---|---|---|
//! | file header | `LOGG`, its size at 4, the start of the measurement at 40 | size and start; sizes and counts are stale if the recorder was stopped |
//! | object | `LOBJ`, header size u16 at 4, size u32 at 8, type u32 at 12 | |
//! | container, an object of type 10 | method u16 at 16 (0 stored, 2 zlib), size of what it holds u32 at 24, data from 32 on | pieces of one stream of objects |
//!
//! All numbers are little-endian. The containers are pieces of one stream: objects go on in the next one. Between objects are
//! up to seven bytes of padding, how many depends on their type and on the recorder, so the next `LOBJ` is looked for. Objects
//! outside of containers are read, too. `object.rs` has the types.
//!
//! Nothing is read of a compressed container before its checksum held (Adler-32, RFC 1950, 2.2) and it was as long as it says: so it
//! is inflated as a whole, and one of more than 16 MiB is refused. A stored one has two sizes that must agree. A container that is
//! damaged costs itself and the objects that reach into it; zeros behind the last object are padding, too. No object has another
//! one inside, so where the header of another one begins, a size is damaged; what zlib inflates ends where zlib says.
//!
//! Written are containers of 128 KiB, compressed; the header is written again at the end.

mod object;
mod write;

use flate2::{Decompress, FlushDecompress, Status};
use memchr::memmem;

use self::object::{Found, Object};
use super::channels::Channels;
use super::order::Order;
use super::start::DateTime;
use super::{Format, usual};
use crate::decode::{CUT, DecodeError, Decoder, PassedOver, Position, ReadError, Reason, Step};
use crate::input::Input;
use crate::record::{Interfaces, Record};

pub(super) static FORMAT: Format = Format {
    name: "blf",
    title: "BLF recording",
    endings: &["blf"],
    has_start: true,
    is_written: true,
    grows_by_record: false,
    begins: |head| head.starts_with(FILE_SIGNATURE),
    encoder: |_| Box::new(write::BlfEncoder::new()),
    ..usual(|_| Box::new(BlfDecoder::new()))
};

const FILE_SIGNATURE: &[u8] = b"LOGG";
const NOT_BLF: &str =
    "this is not a BLF file, which begins with LOGG; check the file and name its format";
/// Up to the end of the last field that is known: signature, sizes, counts, start and stop.
const FILE_HEADER_LEN: usize = 72;
/// What most recorders write.
const USUAL_FILE_HEADER_LEN: u32 = 144;
const OBJECT_SIGNATURE: &[u8] = b"LOBJ";
/// Signature, sizes, version and type of an object.
const OBJECT_HEADER_LEN: usize = 16;
/// With the method and the size of its contents.
const CONTAINER_HEADER_LEN: usize = 32;
const CONTAINER: u32 = 10;
const STORED: u16 = 0;
const ZLIB: u16 = 2;
/// The most bytes of padding between two objects.
const MAX_PADDING: u64 = 7;

/// How much of the stream of objects is kept: an object that is read, and as much again to inflate into. It grows for containers that
/// are longer.
const WINDOW_LEN: usize = 256 << 10;
/// The longest container that is inflated; recorders write 128 KiB.
const MAX_CONTAINER_LEN: usize = 16 << 20;
/// Longer objects are passed over as they come.
const MAX_OBJECT_LEN: usize = 128 << 10;
/// A greater size is taken for damage.
const MAX_PASSED_LEN: usize = 64 << 20;

const NESTED: Reason = Reason::Text(
    "another object begins inside of this one, so its size is wrong; the file is damaged there",
);
const LENGTH: Reason = Reason::Text(
    "a container holds more or less than it says, so its size is wrong; the file is damaged there",
);
/// One reason, as which of these shows first depends on where pieces of the file end.
const INFLATED: Reason = Reason::Text(
    "a container cannot be inflated, its checksum is wrong, or it holds more or less than it says; the file is damaged there",
);

struct BlfDecoder {
    stage: Stage,
    /// Nanoseconds since 1970.
    start_ns: u64,
    /// Where the container begins that is read, or was read last.
    container_at: u64,
    inflate: Decompress,
    stray: Stray,
    /// A container is damaged, as was told: up to the next one, nothing more is wrong.
    is_broken: bool,
    stream: Stream,
    /// What is wrong with the container, to be told when the objects before it were read.
    damage: Option<Reason>,
    channels: Channels,
    other: u64,
    /// Objects so far.
    objects: u64,
}

/// What the file has next.
#[derive(Clone, Copy)]
enum Stage {
    FileHeader,
    /// So many bytes that do not matter, up to the next object.
    Passing {
        left: u64,
        /// Whether it is damage if an object begins before.
        is_all: bool,
    },
    /// An object, perhaps behind padding.
    Between,
    /// Pieces of the stream as they are: so many bytes are left of the container, or of the object outside of one.
    Stored {
        left: u64,
    },
    /// The same of a compressed container, which is to hold `len` bytes.
    Deflated {
        left: u64,
        len: usize,
    },
}

/// The bytes since the last object that belong to none.
#[derive(Default)]
struct Stray {
    count: u64,
    has_contents: bool,
}

impl Stray {
    fn add(&mut self, bytes: &[u8]) {
        self.count += bytes.len() as u64;
        self.has_contents |= bytes.iter().any(|&byte| byte != 0);
    }

    /// What is wrong with them, if they were no padding. There are none from now on. Behind the last object any number of zeros is
    /// padding: a file may have been given its length before it was written.
    fn take(&mut self, is_last: bool) -> Option<Reason> {
        let Self { count, has_contents } = std::mem::take(self);
        let reason =
            Reason::Number("", count, " bytes that belong to no object; the file is damaged there");
        let is_damage = match (count > MAX_PADDING, has_contents) {
            (is_long, true) => is_long || !is_last,
            (is_long, false) => is_long && !is_last,
        };
        is_damage.then_some(reason)
    }
}

/// The stream of objects: those that were inflated and not yet read.
struct Stream {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// How many bytes behind the end are of a container whose checksum is still to come.
    unverified: usize,
    stray: Stray,
    /// How much is still to come of an object that does not matter.
    passing: u64,
    /// Something was lost: up to the next object, nothing is wrong any more.
    is_broken: bool,
    /// Whether another object begins inside of the next one shows only what comes behind it.
    is_undecided: bool,
    /// Nothing comes behind it.
    is_final: bool,
}

impl Stream {
    /// Before what is there is given up: whether the next object has to be read first, as nothing comes behind it. However the bytes of
    /// the file are cut, so the same is read.
    fn decide(&mut self) -> bool {
        self.is_final |= self.is_undecided;
        self.is_undecided
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room for more, at least half of the window unless there is so much that was not read.
    fn room(&mut self) -> &mut [u8] {
        let behind = self.end + self.unverified;
        if self.start > 0 {
            self.bytes.copy_within(self.start..behind, 0);
        }
        self.end -= self.start;
        self.start = 0;
        &mut self.bytes[self.end + self.unverified..]
    }

    /// Room for at most so many bytes more of a container. What its header says is no reason to take memory: what came is.
    fn room_for(&mut self, most: usize) -> &mut [u8] {
        if self.room().is_empty() {
            let len = self.bytes.len();
            self.bytes.resize(len + len.min(most), 0);
        }
        let room = self.room();
        let len = room.len().min(most);
        &mut room[..len]
    }

    /// Whether an object has begun that is not there as a whole.
    fn is_inside(&self) -> bool {
        self.passing > 0 || self.unread().starts_with(OBJECT_SIGNATURE)
    }

    /// Passes over an object that does not matter, and tells whether another one begins inside of it.
    fn pass(&mut self) -> bool {
        if self.passing == 0 {
            return false;
        }
        let unread = &self.bytes[self.start..self.end];
        let most = self.passing.min(unread.len() as u64) as usize;
        let found = object::find(unread, |_| true).filter(|&(at, _)| (at as u64) < self.passing);
        let (passed, is_nested) = found.unwrap_or((most, false));
        self.start += passed;
        self.passing = if is_nested { 0 } else { self.passing - passed as u64 };
        is_nested
    }

    /// A piece of the stream is lost, and with it the object that reaches into it.
    fn lose(&mut self) {
        self.start = self.end;
        self.passing = 0;
        self.is_broken = true;
    }

    /// Drops what is there up to the next object, and tells whether that begins the stream now.
    fn find_object(&mut self) -> bool {
        let unread = &self.bytes[self.start..self.end];
        if unread.starts_with(OBJECT_SIGNATURE) {
            return true;
        }
        let found = memmem::find(unread, OBJECT_SIGNATURE);
        let dropped = found.unwrap_or(unread.len().saturating_sub(OBJECT_SIGNATURE.len() - 1));
        self.stray.add(&unread[..dropped]);
        self.start += dropped;
        found.is_some()
    }
}

/// What a look at the file came to; `None` if the stream is to be looked at again, which may have grown.
type Fed = Result<Option<Step>, ReadError>;

impl BlfDecoder {
    fn new() -> Self {
        let stream = Stream {
            bytes: vec![0; WINDOW_LEN],
            start: 0,
            end: 0,
            unverified: 0,
            stray: Stray::default(),
            passing: 0,
            is_broken: false,
            is_undecided: false,
            is_final: false,
        };
        Self {
            stage: Stage::FileHeader,
            start_ns: 0,
            container_at: 0,
            inflate: Decompress::new(true),
            stray: Stray::default(),
            is_broken: false,
            stream,
            damage: None,
            channels: Channels::default(),
            other: 0,
            objects: 0,
        }
    }

    fn error(&self, reason: Reason, resume: Option<usize>) -> DecodeError {
        let position = Position::Binary { offset: self.container_at, record: self.objects };
        DecodeError { position, reason, resume }
    }

    /// The next frame in the stream; `None` if more of the stream is needed.
    fn read_stream(&mut self) -> Result<Option<Record>, DecodeError> {
        self.stream.is_undecided = false;
        loop {
            let is_final = std::mem::take(&mut self.stream.is_final);
            if self.stream.pass() {
                return Err(self.error(NESTED, Some(0)));
            }
            let stream = &mut self.stream;
            if stream.passing > 0 || !stream.find_object() {
                return Ok(None);
            }
            let stray = stream.stray.take(false).filter(|_| !stream.is_broken);
            stream.is_broken = false;
            if let Some(reason) = stray {
                return Err(self.error(reason, Some(0)));
            }
            let Some(object) = object::header(stream.unread()) else { return Ok(None) };
            let len = object.len as usize;
            let checked = match object.check() {
                // Others in it are found as it is passed over.
                Ok(()) if len > MAX_OBJECT_LEN => Ok(true),
                Ok(()) => object.check_inside(stream.unread()),
                Err(reason) => Err(reason),
            };
            let is_decided = checked.as_ref().is_ok_and(|&it| it) || is_final;
            if let Err(reason) = checked {
                // Its size says nothing: the next one is looked for.
                self.objects += 1;
                self.stream.start += OBJECT_SIGNATURE.len();
                self.stream.is_broken = true;
                return Err(self.error(reason, Some(0)));
            }
            if len > MAX_OBJECT_LEN {
                // Not its own signature, which is none of another object.
                stream.start += OBJECT_SIGNATURE.len();
                stream.passing = (len - OBJECT_SIGNATURE.len()) as u64;
                self.objects += 1;
                self.other += 1;
                continue;
            }
            if stream.unread().len() < len || !is_decided {
                stream.is_undecided = stream.unread().len() >= len;
                return Ok(None);
            }
            let found = object.read(&stream.unread()[..len]);
            self.stream.start += len;
            self.objects += 1;
            match found {
                Ok(Found::Other) => self.other += 1,
                Ok(Found::Frame { since_ns, channel, direction, frame }) => {
                    let late = Reason::Text(object::LATE);
                    let time_ns = self.start_ns.checked_add(since_ns);
                    let time_ns = time_ns.ok_or_else(|| self.error(late, Some(0)))?;
                    let interface = self.channels.interface(u32::from(channel));
                    let interface = interface.map_err(|reason| self.error(reason, Some(0)))?;
                    let direction = Some(direction);
                    return Ok(Some(Record { time_ns, interface, direction, frame }));
                }
                Err(reason) => {
                    self.stream.is_broken = true;
                    return Err(self.error(reason, Some(0)));
                }
            }
        }
    }

    /// Goes on in the file.
    fn feed(&mut self, input: &mut Input) -> Fed {
        match self.stage {
            Stage::FileHeader => {
                let window = input.fill(FILE_HEADER_LEN)?;
                let signature = &window[..window.len().min(FILE_SIGNATURE.len())];
                if !FILE_SIGNATURE.starts_with(signature) {
                    // Objects may follow all the same, if only the header is damaged.
                    let left = USUAL_FILE_HEADER_LEN.into();
                    self.stage = Stage::Passing { left, is_all: false };
                    return Err(self.error(Reason::Text(NOT_BLF), Some(0)).into());
                }
                if window.len() < FILE_HEADER_LEN {
                    let reason =
                        Reason::Text("the file ends inside its header; there is nothing to read");
                    return Err(self.error(reason, None).into());
                }
                let start = DateTime::from_system_time(&window[40..56]);
                self.start_ns = start.and_then(|start| start.nanos()).unwrap_or(0);
                let left = Order::Little.u32(window, 4).max(USUAL_FILE_HEADER_LEN).into();
                self.stage = Stage::Passing { left, is_all: false };
                Ok(None)
            }
            Stage::Passing { left: 0, .. } | Stage::Stored { left: 0 } => {
                self.stage = Stage::Between;
                Ok(None)
            }
            Stage::Between => self.find_container(input),
            Stage::Passing { left, is_all } => self.pass(input, left, is_all),
            Stage::Stored { left } => self.copy(input, left),
            Stage::Deflated { left, len } => self.inflate(input, left, len),
        }
    }

    /// Passes over what does not matter, up to where an object begins.
    fn pass(&mut self, input: &mut Input, left: u64, is_all: bool) -> Fed {
        let window = input.fill(1)?;
        let most = left.min(window.len() as u64) as usize;
        let passed = match object::find(window, |_| true) {
            Some((0, true)) => {
                self.stage = Stage::Between;
                return match is_all {
                    true => Err(self.error(NESTED, Some(0)).into()),
                    false => Ok(None),
                };
            }
            Some((at, is_whole)) if is_whole || !input.at_end() => most.min(at),
            _ => most,
        };
        self.stage = Stage::Passing { left: left - passed as u64, is_all };
        if passed == 0 && input.at_end() {
            return self.cut();
        }
        take(input, passed)
    }

    /// The file ends inside an object.
    fn cut(&mut self) -> Fed {
        if self.stream.decide() {
            return Ok(None);
        }
        self.stage = Stage::Between;
        self.stream.start = self.stream.end;
        self.stream.unverified = 0;
        Err(self.error(CUT, Some(0)).into())
    }

    fn find_container(&mut self, input: &mut Input) -> Fed {
        let (window, at_end) = (input.window(), input.at_end());
        let found = memmem::find(window, OBJECT_SIGNATURE);
        let kept = if at_end { 0 } else { OBJECT_SIGNATURE.len() - 1 };
        let dropped = found.unwrap_or(window.len().saturating_sub(kept));
        self.stray.add(&window[..dropped]);
        if dropped > 0 {
            return take(input, dropped);
        }
        self.container_at = input.offset();
        let is_told = found.is_some() || at_end;
        if is_told && self.stray.count > 0 && self.stream.decide() {
            return Ok(None);
        }
        let stray = is_told.then(|| self.stray.take(found.is_none())).flatten();
        let is_known = is_told && std::mem::take(&mut self.is_broken);
        if let Some(reason) = stray.filter(|_| !is_known) {
            // Perhaps a container was there, and an object reached into it.
            self.stream.lose();
            return Err(self.error(reason, Some(0)).into());
        }
        match found {
            Some(_) => self.begin(input),
            None if at_end => self.end_of_file(),
            None => take(input, 0),
        }
    }

    /// The object that begins here.
    fn begin(&mut self, input: &mut Input) -> Fed {
        let window = input.fill(CONTAINER_HEADER_LEN)?;
        match object::header(window) {
            Some(object) if object.kind != CONTAINER => self.begin_object(object),
            Some(object) if window.len() >= CONTAINER_HEADER_LEN => {
                let (method, held) = (Order::Little.u16(window, 16), Order::Little.u32(window, 24));
                self.begin_container(input, object.len, method, held)
            }
            _ if self.stream.decide() => Ok(None),
            _ => Err(self.error(CUT, Some(window.len())).into()),
        }
    }

    /// An object outside of a container is a piece of the stream.
    fn begin_object(&mut self, object: Object) -> Fed {
        if let Err(reason) = object.check() {
            return Err(self.error(reason, Some(OBJECT_SIGNATURE.len())).into());
        }
        if self.stream.is_inside() {
            if self.stream.decide() {
                return Ok(None);
            }
            // It goes on in a container only: these bytes are none of it.
            self.stream.lose();
            return Err(self.error(NESTED, Some(0)).into());
        }
        self.stage = Stage::Stored { left: u64::from(object.len) };
        Ok(None)
    }

    /// A container of so many bytes, whose contents are to be so many.
    fn begin_container(&mut self, input: &mut Input, len: u32, method: u16, held: u32) -> Fed {
        let Some(left) = len.checked_sub(CONTAINER_HEADER_LEN as u32) else {
            let reason = Reason::Number(
                "a container of ",
                u64::from(len),
                " bytes is shorter than its header; the file is damaged there",
            );
            return Err(self.error(reason, Some(OBJECT_SIGNATURE.len())).into());
        };
        let damage = match method {
            STORED if left != held => LENGTH,
            ZLIB if held as usize > MAX_CONTAINER_LEN => Reason::Number(
                "a container says that it holds ",
                u64::from(held),
                " bytes, more than 16 MiB; save the recording again with smaller containers",
            ),
            STORED | ZLIB => {
                let (left, len) = (u64::from(left), held as usize);
                let is_zlib = method == ZLIB;
                self.stage =
                    if is_zlib { Stage::Deflated { left, len } } else { Stage::Stored { left } };
                self.inflate.reset(true);
                return take(input, CONTAINER_HEADER_LEN);
            }
            _ => Reason::Number(
                "the method of compression ",
                u64::from(method),
                " is neither 0 (stored) nor 2 (zlib); save the recording again",
            ),
        };
        if self.stream.decide() {
            return Ok(None);
        }
        self.stage = Stage::Passing { left: u64::from(left), is_all: false };
        self.is_broken = true;
        self.stream.lose();
        Err(self.error(damage, Some(CONTAINER_HEADER_LEN)).into())
    }

    /// There is no further container.
    fn end_of_file(&mut self) -> Fed {
        if self.stream.decide() {
            return Ok(None);
        }
        let stream = &mut self.stream;
        let rest = stream.bytes[stream.start..stream.end].to_vec();
        stream.stray.add(&rest);
        stream.start = stream.end;
        let is_object = rest.starts_with(OBJECT_SIGNATURE) || stream.passing > 0;
        stream.passing = 0;
        let stray = stream.stray.take(true).filter(|_| !stream.is_broken);
        match stray {
            _ if is_object => Err(self.error(CUT, Some(0)).into()),
            Some(reason) => Err(self.error(reason, Some(0)).into()),
            None => Ok(Some(Step::End)),
        }
    }

    /// Stored pieces, up to the next container.
    fn copy(&mut self, input: &mut Input, left: u64) -> Fed {
        if input.fill(1)?.is_empty() {
            return self.cut();
        }
        let window = input.window();
        let most = left.min(window.len() as u64) as usize;
        let end = match object::find(window, |object| object.kind == CONTAINER) {
            Some((0, true)) => {
                self.damage = Some(NESTED);
                self.stage = Stage::Between;
                return Ok(None);
            }
            // The rest of a header may follow.
            Some((at, is_whole)) if is_whole || !input.at_end() => most.min(at),
            _ => most,
        };
        let room = self.stream.room();
        let count = end.min(room.len());
        room[..count].copy_from_slice(&window[..count]);
        self.stream.end += count;
        self.stage = Stage::Stored { left: left - count as u64 };
        take(input, count)
    }

    /// A compressed piece, which is of the stream once its checksum held.
    fn inflate(&mut self, input: &mut Input, left: u64, len: usize) -> Fed {
        let window = input.window();
        if window.is_empty() && input.at_end() {
            return self.cut();
        }
        let piece = &window[..left.min(window.len() as u64) as usize];
        let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
        // With a byte more than it may hold, so that this shows.
        let room = self.stream.room_for(len + 1 - self.stream.unverified);
        let status = self.inflate.decompress(piece, room, FlushDecompress::None);
        let consumed = self.inflate.total_in() - in_before;
        let produced = self.inflate.total_out() - out_before;
        self.stream.unverified += produced as usize;
        let left = left - consumed;
        let is_stuck = consumed == 0 && produced == 0;
        let found = self.stream.unverified;
        let damage = match status {
            Ok(Status::StreamEnd) if found == len => {
                self.stream.end += std::mem::take(&mut self.stream.unverified);
                self.stage = Stage::Passing { left, is_all: true };
                None
            }
            Ok(status) if found > len || status == Status::StreamEnd => Some(INFLATED),
            // With input and room it goes on, or says that it cannot.
            Ok(_) if is_stuck && (left == 0 || !piece.is_empty()) => Some(Reason::Text(
                "a container ends before its contents do; the file is damaged there",
            )),
            Ok(_) => {
                self.stage = Stage::Deflated { left, len };
                None
            }
            Err(_) => Some(INFLATED),
        };
        if damage.is_some() {
            self.stream.unverified = 0;
            self.damage = damage;
            self.stage = Stage::Passing { left, is_all: false };
            self.is_broken = true;
        } else if is_stuck && piece.is_empty() && left > 0 {
            return take(input, 0);
        }
        if consumed > 0 { take(input, consumed as usize) } else { Ok(None) }
    }
}

/// Consumes so many bytes; if it is none, waits for more.
fn take(input: &mut Input, len: usize) -> Fed {
    if len == 0 {
        input.more()?;
        return Ok(None);
    }
    input.consume(len);
    Ok(Some(Step::Skip))
}

impl Decoder for BlfDecoder {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        loop {
            if let Some(record) = self.read_stream()? {
                return Ok(Step::Record(record));
            }
            if self.damage.is_some() && self.stream.decide() {
                continue;
            }
            if let Some(reason) = self.damage.take() {
                self.stream.lose();
                return Err(self.error(reason, Some(0)).into());
            }
            if let Some(step) = self.feed(input)? {
                return Ok(step);
            }
        }
    }

    fn interfaces(&self) -> &Interfaces {
        self.channels.interfaces()
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { other_packets: self.other, ..PassedOver::default() }
    }

    fn start_ns(&self) -> Option<u64> {
        (self.start_ns > 0).then_some(self.start_ns)
    }
}

#[cfg(test)]
pub(super) mod tests;
