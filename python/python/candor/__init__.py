"""Recordings of CAN as data frames.

    import candor, pandas
    drive = candor.decode("drive.log", "car.dbc")
    pandas.DataFrame.from_arrow(drive["EngineSpeed"]).plot(x="time", y="Speed")
"""

from ._candor import (
    Database,
    DatabaseError,
    EncodeError,
    Error,
    Frame,
    Message,
    Recording,
    RecordingError,
    RecordingWarning,
    Signal,
    Table,
    decode,
    frames,
    read,
)

__all__ = [
    "Database",
    "DatabaseError",
    "EncodeError",
    "Error",
    "Frame",
    "Message",
    "Recording",
    "RecordingError",
    "RecordingWarning",
    "Signal",
    "Table",
    "decode",
    "frames",
    "read",
]
