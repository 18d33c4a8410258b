"""Recordings of CAN as data frames.

    import candor, pandas
    drive = candor.decode("drive.log", "car.dbc")
    pandas.DataFrame.from_arrow(drive["EngineSpeed"]).plot(x="time", y="Speed")
"""

from ._candor import (
    Applied,
    Batches,
    Database,
    DatabaseError,
    DatabaseWarning,
    EncodeError,
    Error,
    Frame,
    Message,
    Recording,
    RecordingError,
    RecordingWarning,
    Rules,
    RulesError,
    Signal,
    Table,
    batches,
    bus_load,
    decode,
    frame_bits,
    frames,
    parse_dbc,
    profiles,
    read,
    results,
    values,
)

__all__ = [
    "Applied",
    "Batches",
    "Database",
    "DatabaseError",
    "DatabaseWarning",
    "EncodeError",
    "Error",
    "Frame",
    "Message",
    "Recording",
    "RecordingError",
    "RecordingWarning",
    "Rules",
    "RulesError",
    "Signal",
    "Table",
    "batches",
    "bus_load",
    "decode",
    "frame_bits",
    "frames",
    "parse_dbc",
    "profiles",
    "read",
    "results",
    "values",
]
