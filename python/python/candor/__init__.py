"""Recordings of CAN as data frames.

    import candor, pandas
    drive = candor.decode("drive.log", "car.dbc")
    pandas.DataFrame.from_arrow(drive["EngineSpeed"]).plot(x="time", y="Speed")
"""

from ._candor import (
    Database,
    DatabaseError,
    Error,
    Frame,
    Recording,
    RecordingError,
    RecordingWarning,
    Table,
    decode,
    frames,
    read,
)

__all__ = [
    "Database",
    "DatabaseError",
    "Error",
    "Frame",
    "Recording",
    "RecordingError",
    "RecordingWarning",
    "Table",
    "decode",
    "frames",
    "read",
]
