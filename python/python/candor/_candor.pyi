"""Types of the package `candor`; completed from what maturin generates."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, final

from typing_extensions import CapsuleType

_Path: TypeAlias = str | PathLike[str]
_Value: TypeAlias = int | float | str

class _CantoolsDatabase(Protocol):
    def as_dbc_string(self) -> str: ...

__all__ = ["bus_load", "frame_bits", "Database", "Message", "Signal", "parse_dbc", "Batches", "batches", "decode", "frames", "values", "DatabaseError", "DatabaseWarning", "EncodeError", "Error", "RecordingError", "RecordingWarning", "RulesError", "UnknownFormatError", "Frame", "Recording", "read", "profiles", "results", "Applied", "Rules", "Table"]

@final
class Applied:
    """
    Frames that a gateway would have sent.
    """
    def __iter__(self, /) -> Applied: ...
    def __next__(self, /) -> Frame: ...
    @property
    def counts(self, /) -> list[dict[str, Any]]:
        """
        What became of copies so far, a dictionary for each rule and bus: `rule`, `from`, `to`, `handled`, and `stopped` by cause.
        """
    @property
    def foreign(self, /) -> dict[str, int]:
        """
        How many frames came so far of interfaces that are no bus of the rules.
        """

@final
class Batches:
    """
    An iterator over pieces of decoded recordings: dictionaries of tables.
    """
    def __iter__(self, /) -> Batches: ...
    def __next__(self, /) -> dict[str, Table]: ...

@final
class Database:
    """
    A DBC file: what the bits of frames mean.
    """
    def __len__(self, /) -> int: ...
    def __new__(cls, /, source: Database | _CantoolsDatabase | _Path) -> Database:
        """
        Reads a DBC file, or takes over a database of cantools, such as one that it read from ARXML, KCD or SYM. What it loses is a
        `DatabaseWarning`.
        """
    def __reduce__(self, /) -> tuple[Any, tuple]:
        """
        Pickled, it is the text of its file, of which was told what it loses.
        """
    def __repr__(self, /) -> str: ...
    def decode_message(self, /, name_or_id: str | int, data: bytes | bytearray | memoryview, *, decode_choices: bool = True) -> dict[str, _Value]:
        """
        The values of the signals in the data of a frame of this message, by name; see `Message.decode`.
        """
    def encode_message(self, /, name_or_id: str | int, values: Mapping[str, _Value], *, strict: bool = True) -> bytes:
        """
        The data of a frame of this message with these values; see `Message.encode`.
        """
    def message(self, /, name_or_id: str | int, *, is_extended: bool | None = None) -> Message:
        """
        The message of this name, or the one whose frames have this identifier. One of 11 bits is looked for before one of 29 bits;
        `is_extended` says which is meant. Of SAE J1939, the group number decides.
        """
    @property
    def messages(self, /) -> list[Message]:
        """
        The messages, as written.
        """
    @property
    def name(self, /) -> str:
        """
        What the file is called.
        """
    @property
    def text(self, /) -> bytes:
        """
        The DBC file; of a database of cantools, the one that cantools makes of it.
        """

@final
class Frame:
    """
    A frame of a recording.
    """
    def __eq__(self, other: object, /) -> bool:
        """
        Equal are frames at the same time, on the same bus, in the same direction.
        """
    def __getnewargs_ex__(self, /) -> tuple[tuple[str], dict[str, Any]]:
        """
        Pickled, it is what it is made of.
        """
    def __hash__(self, /) -> int: ...
    def __len__(self, /) -> int: ...
    def __new__(cls, /, text: str, *, time_ns: int = 0, bus: str = "can0", direction: Literal["received", "transmitted"] | None = None) -> Frame:
        """
        A frame as a candump log writes it, such as `123#DEADBEEF`, `123#R`, `18FEF100##1AABB`.
        """
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str:
        """
        As in a candump log: time, bus, frame.
        """
    @property
    def brs(self, /) -> bool:
        """
        Whether the data of a CAN FD frame have the higher bit rate.
        """
    @property
    def bus(self, /) -> str:
        """
        The name of the interface that it was seen on.
        """
    @property
    def data(self, /) -> bytes:
        """
        The data, 0 to 64 bytes.
        """
    @property
    def direction(self, /) -> Literal["received", "transmitted"] | None:
        """
        `"received"`, `"transmitted"`, or `None` if the recording does not say.
        """
    @property
    def dlc(self, /) -> int:
        """
        The data length code on the wire, 0 to 15.
        """
    @property
    def esi(self, /) -> bool:
        """
        Whether the sender of a CAN FD frame was error passive.
        """
    @property
    def id(self, /) -> int:
        """
        The identifier, 11 or 29 bits; of an error report, its class.
        """
    @property
    def is_error(self, /) -> bool:
        """
        Whether it is an error report of the driver.
        """
    @property
    def is_extended(self, /) -> bool:
        """
        Whether the identifier has 29 bits.
        """
    @property
    def is_fd(self, /) -> bool:
        """
        Whether it is a CAN FD frame.
        """
    @property
    def is_remote(self, /) -> bool:
        """
        Whether it is a remote frame, which has a length and no data.
        """
    @property
    def time(self, /) -> float:
        """
        When it was seen, in seconds; `time_ns` is exact.
        """
    @property
    def time_ns(self, /) -> int:
        """
        When it was seen, in nanoseconds since the zero of the recorder, usually 1970.
        """

@final
class Message:
    """
    The layout of the frames with one identifier.
    """
    def __repr__(self, /) -> str: ...
    @property
    def cycle_time_ms(self, /) -> float | None:
        """
        How often it is sent, in milliseconds, if it is sent again and again.
        """
    def decode(self, /, data: bytes | bytearray | memoryview, *, decode_choices: bool = True) -> dict[str, _Value]:
        """
        The values of the signals in the data of a frame, by name: whole numbers where scale and offset are, else floating-point numbers, and
        with `decode_choices` the name of a value that has one. Signals that are not selected, or behind the end of the data, are left out.
        """
    def encode(self, /, values: Mapping[str, _Value], *, strict: bool = True) -> bytes:
        """
        The data of a frame with these values by name, each a number or the name of one. A number is rounded to the nearest raw value.

        Raises `EncodeError` for a signal that the message does not have or that its selector does not select, and for a value that its bits
        do not hold; with `strict` also for a value outside of the range in the file, and for a signal that is missing. Without, a signal
        that is missing has the raw value 0.
        """
    @property
    def id(self, /) -> int:
        """
        The identifier of its frames, 11 or 29 bits.
        """
    @property
    def is_extended(self, /) -> bool:
        """
        Whether the identifier has 29 bits.
        """
    @property
    def is_fd(self, /) -> bool:
        """
        Whether its frames are CAN FD ones.
        """
    @property
    def length(self, /) -> int:
        """
        How many bytes its frames have.
        """
    @property
    def name(self, /) -> str:
        """
        Its name.
        """
    @property
    def sender(self, /) -> str | None:
        """
        The node that sends it.
        """
    @property
    def signals(self, /) -> list[Signal]:
        """
        Its signals, as written.
        """

@final
class Recording:
    """
    A recording that is being read: an iterator over its frames.
    """
    def __enter__(self, /) -> Recording: ...
    def __exit__(self, /, *_exception: object) -> None: ...
    def __iter__(self, /) -> Recording: ...
    def __next__(self, /) -> Frame: ...
    def close(self, /) -> None:
        """
        Closes the file; the iteration is over.
        """
    @property
    def cut(self, /) -> str | None:
        """
        Where the file ends inside a record, or its compression is cut or has a wrong checksum, once that was found.
        """
    @property
    def format(self, /) -> str | None:
        """
        The format, as `candor log convert --to` calls it.
        """
    @property
    def skipped(self, /) -> int:
        """
        How many malformed records were passed over in what was read.
        """

@final
class Rules:
    """
    Rules of a gateway.
    """
    def __repr__(self, /) -> str: ...
    def apply(self, /, frames: Iterable[Frame], *, map: dict[str, str] | None = None) -> Applied:
        """
        Applies the rules to frames, in the order and at the times of the frames: an iterator over what a gateway would have sent.

        A frame came in on the bus that is called like its `bus`, by its name or its interface, or that `map` gives: `{"can0": "powertrain"}`.
        Frames of other interfaces are counted in `foreign` of the iterator, and `counts` tells what became of frames. Rates, changes and
        counters begin anew with each call. Copies carry the name of the bus of the rules.
        """
    @property
    def buses(self, /) -> list[str]:
        """
        The names of the buses.
        """
    def explain(self, /, frame: Frame, bus: str | None = None) -> list[dict[str, Any]]:
        """
        What the rules do with a frame, fresh from the bus that is called like its `bus`, or from the given one: a dictionary for each rule
        of the buses that the frame meets, itself and in copies that come back.

        `rule`, `bus` and `frame` say what meets what. `verdict` is `taken`, `other kind`, `no filter`, `excluded` or `other payload`. Where it is
        taken, `result` is the changed frame, or the cause that stopped it, and `copies` has `(bus, cause)` for each, the cause `None` where
        it goes.
        """
    @staticmethod
    def load(path: _Path) -> Rules:
        """
        Reads a file of rules, or what `cangw -L` printed.
        """

@final
class Signal:
    """
    A number in the frames of a message.
    """
    def __repr__(self, /) -> str: ...
    @property
    def bits(self, /) -> int:
        """
        How many bits it has.
        """
    @property
    def choices(self, /) -> dict[int, str]:
        """
        The names of values, by the raw value, from the smallest.
        """
    @property
    def is_selector(self, /) -> bool:
        """
        Whether it decides which other signals a frame has.
        """
    @property
    def is_signed(self, /) -> bool:
        """
        Whether the raw value may be negative.
        """
    @property
    def maximum(self, /) -> float | None:
        """
        The greatest value, if the file has a range.
        """
    @property
    def minimum(self, /) -> float | None:
        """
        The least value, if the file has a range.
        """
    @property
    def name(self, /) -> str:
        """
        Its name.
        """
    @property
    def offset(self, /) -> float:
        """
        The value of the raw value 0.
        """
    @property
    def scale(self, /) -> float:
        """
        What one step of the raw value is worth.
        """
    @property
    def unit(self, /) -> str:
        """
        The unit of its values; empty if it has none.
        """

@final
class Table:
    """
    Rows and columns in memory, in the layout of Apache Arrow.

    It has `__arrow_c_stream__`, so pyarrow, Polars, DuckDB and pandas take it without a copy: `pyarrow.table(table)`,
    `polars.DataFrame(table)`, `pandas.DataFrame.from_arrow(table)`.
    """
    def __arrow_c_schema__(self, /) -> CapsuleType:
        """
        The schema as a capsule of the Arrow C data interface.
        """
    def __arrow_c_stream__(self, /, requested_schema: Any | None = None) -> CapsuleType:
        """
        The columns as a capsule of the Arrow C stream interface. They are given as they are, whatever schema is asked for.
        """
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...
    @property
    def column_names(self, /) -> list[str]:
        """
        The names of the columns.
        """
    @property
    def metadata(self, /) -> dict[str, str]:
        """
        What is known of the message: `message`, `id`, `sender`.
        """
    @property
    def name(self, /) -> str:
        """
        What the rows are: the name of a message, or `frames`.
        """
    def null_count(self, /, column: str) -> int:
        """
        How many values of a column are missing.
        """
    @property
    def units(self, /) -> dict[str, str]:
        """
        The units of columns that have one.
        """

def batches(paths: _Path | Iterable[_Path] | Iterable[Frame], dbc: Database | _CantoolsDatabase | _Path, *, rows: int = 1000000, signals: str | Iterable[str] | None = None, bus: str | Iterable[str] | None = None, nan: bool = False, skip_malformed: bool = False) -> Batches:
    """
    The same as `decode`, piece by piece: an iterator over dictionaries of tables, each of at most so many `rows` in all of its tables. Memory does
    not grow with the recordings. Messages of which no frame is in a piece have no table there.
    """

def bus_load(paths: _Path | Iterable[_Path] | Iterable[Frame], bitrate: int, data_bitrate: int | None = None, *, bus: str | Iterable[str] | None = None, skip_malformed: bool = False) -> dict[str, dict[str, float | None]]:
    """
    How busy each bus of recordings was at a bit rate in bit/s, by exact bits: a dictionary by bus of `frames`, `rate` (frames/s), `load` (percent),
    and `peak_10ms`, `peak_100ms`, `peak_1s`, the highest load within such a time (percent). What is not known, such as the rate of one
    frame, is `None`. A load, or a highest one within 1 s, of more than 100 % means that the bit rate is not that of the bus. Within less time, stamps that
    are later than their frames or coarse make as much.
    """

def decode(paths: _Path | Iterable[_Path] | Iterable[Frame], dbc: Database | _CantoolsDatabase | _Path, *, signals: str | Iterable[str] | None = None, bus: str | Iterable[str] | None = None, nan: bool = False, skip_malformed: bool = False) -> dict[str, Table]:
    """
    The signals in recordings as columns: a table for each message that comes.

    `paths` are recordings, or an iterable of `Frame`. `dbc` is a path or a `Database`. `signals` are names or patterns (`Message.Signal`, `Signal`,
    `Motor.*`, `*Temp*`): only they are decoded, and their messages have a table also if no frame came. `bus` keeps the frames of one or some
    buses.

    A table has a row for each frame, in the order of the files: `time` (UTC, nanoseconds), `bus`, and a column of physical values for each
    signal, with its unit. What a frame does not have, because it is multiplexed or too short, is missing: a null, or with `nan` not a number,
    so that NumPy takes the column without a copy.
    """

def frame_bits(frame: Frame, *, worst: bool = False) -> int:
    """
    How many bits a frame has on the wire, from its start to the third bit of intermission, stuff bits and check sequence included.

    Of a CAN FD frame with BRS, those at the nominal and those at the data bit rate together. With `worst`, the most that any frame of its kind
    and length has (Davis and others 2007).
    """

def frames(paths: _Path | Iterable[_Path] | Iterable[Frame], *, bus: str | Iterable[str] | None = None, skip_malformed: bool = False) -> Table:
    """
    The frames of recordings as columns, in the order of the files; `paths` may also be an iterable of `Frame`.

    The columns are `time` (UTC, nanoseconds), `bus`, `id`, `is_extended`, `kind` (`data`, `remote`, `fd`, `error`), `dlc`, `brs`, `esi`,
    `direction` (`received`, `transmitted`, or missing) and `data`. `bus` keeps those of one or some buses.
    """

def parse_dbc(name: str, text: bytes, warns: bool = True) -> Database:
    """
    The database of the text of a DBC file, which errors call `name`. With `warns`, what the file loses is a `DatabaseWarning`.
    """

def profiles(folder: _Path) -> Table:
    """
    The latency profiles of the results in a folder: `experiment`, `metric`, `latency_ns`, and `frames`, how many took at least so long.
    """

def read(path: _Path, *, skip_malformed: bool = False) -> Recording:
    """
    Reads the frames of a recording one after the other.

    The format is found from the contents: candump, BLF, ASC, TRC, MF4, pcap, pcapng and others, also in gzip and zstd. Ethernet frames
    are passed over. A record that is malformed raises `RecordingError`, or is passed over with `skip_malformed`; that, and a recording
    that ends inside a record, is a `RecordingWarning` at the end.
    """

def results(folder: _Path) -> Table:
    """
    The results in a folder that `candor lab run --out` wrote: a row for each experiment and latency metric.

    The columns are `experiment`, `metric`, `testbed`, `seed`, the axes of the matrix by their names (`count` as `axis.count`), `count`, which
    is the number of values, and `min_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`, `mean_ns`, `stddev_ns`.
    """

def values(paths: _Path | Iterable[_Path] | Iterable[Frame], dbc: Database | _CantoolsDatabase | _Path, *, signals: str | Iterable[str] | None = None, bus: str | Iterable[str] | None = None, skip_malformed: bool = False) -> Table:
    """
    The signals in recordings in the long form: one table with a row for each value, in the order of the frames.

    The arguments are those of `decode`. The columns are `time` (UTC, nanoseconds), `bus`, `message`, `signal`, and the physical `value`. What a
    frame does not have has no row.
    """

class Error(Exception):
    """What the package raises, but for `OSError`."""

class DatabaseError(Error):
    """A DBC file cannot be read, describes nothing of a recording, or has no such name."""

class EncodeError(Error):
    """A value cannot be put into a frame, or one is missing."""

class RecordingError(Error):
    """A recording is of no known format or damaged, or has no such bus."""

class RulesError(Error):
    """Rules cannot be read, or have no such bus."""

class DatabaseWarning(UserWarning):
    """What a DBC file describes is left out or called otherwise."""

class RecordingWarning(UserWarning):
    """A recording is cut, or malformed records were passed over."""

class UnknownFormatError(RecordingError):
    """A file is no recording, or one of no known format."""
