"""The package `candor`, as it is installed, against python-can, cantools, and libraries for data frames."""

import array
import copy
import gc
import io
import json
import math
import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import weakref
from fractions import Fraction

import can
import candor
import cantools
import pandas
import polars
import pyarrow

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared/data"
DRIVE = ROOT / "examples/recordings/drive.log"
DBC = ROOT / "examples/small-car.dbc"
# It names values of a signal that it does not have.
NOT_OF_CANTOOLS = ["gm_global_a_powertrain.dbc"]
# A selector, a signal that it selects, one with sign and scale, one with names, and one that is called like a column.
PAGES = """BU_: A
BO_ 1 Pages: 8 A
 SG_ Page M : 0|8@1+ (1,0) [0|0] "" A
 SG_ Left m0 : 8|16@1- (0.1,5) [0|0] "degC" A
 SG_ Right m1 : 15|16@0+ (1,0) [0|0] "" A
 SG_ time : 56|8@1+ (1,0) [0|0] "s" A
BO_ 2147483650 Wide: 3 A
 SG_ Gear : 0|4@1+ (1,0) [0|0] "" A
VAL_ 2147483650 Gear 0 "neutral" 1 "first \\\\ slow" ;
"""


class Folder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


class Decode(Folder):
    def test_every_value_is_that_of_cantools(self):
        database = cantools.database.load_file(DBC)
        expected = {}
        for message in can.LogReader(DRIVE):
            try:
                known = database.get_message_by_frame_id(message.arbitration_id)
            except KeyError:
                continue
            values = known.decode(message.data, decode_choices=False)
            expected.setdefault(known.name, []).append((round(message.timestamp * 1e6), values))
        tables = candor.decode(DRIVE, DBC)
        self.assertEqual(set(tables), set(expected))
        count = 0
        for name, rows in expected.items():
            table = pyarrow.table(tables[name])
            times = table["time"].cast(pyarrow.int64()).to_pylist()
            self.assertEqual([time // 1000 for time in times], [time for time, _ in rows])
            columns = {column: table[column].to_pylist() for column in table.column_names[2:]}
            for row, (_, values) in enumerate(rows):
                self.assertEqual(set(values), set(columns))
                for signal_name, value in values.items():
                    self.assertTrue(math.isclose(columns[signal_name][row], value, rel_tol=1e-12), (name, signal_name))
                    count += 1
        self.assertGreater(count, 9_000)

    def test_what_a_frame_does_not_have_is_missing(self):
        log = self.file("a.log", "(1.0) can0 001#000500FFFFFFFF07\n(1.1) can1 001#01FFFE\n(1.2) can0 001#02\n(1.3) can0 001#R\n")
        dbc = self.file("a.dbc", PAGES)
        table = candor.decode(log, dbc)["Pages"]
        expected = {
            "bus": ["can0", "can1", "can0"],
            "Page": [0, 1, 2],
            "Left": [5.5, None, None],
            "Right": [None, 0xFFFE, None],
            "Pages.time": [7, None, None],
        }
        found = pyarrow.table(table).drop_columns("time").to_pydict()
        self.assertEqual(found, expected)
        self.assertEqual(table.null_count("Left"), 2)
        self.assertEqual(polars.DataFrame(table)["Left"].to_list(), expected["Left"])
        self.assertEqual(pandas.DataFrame.from_arrow(table)["Left"].isna().tolist(), [False, True, True])
        table = candor.decode(log, dbc, nan=True)["Pages"]
        left = pyarrow.table(table)["Left"].chunk(0).to_numpy(zero_copy_only=True)
        self.assertEqual([None if math.isnan(value) else value for value in left], expected["Left"])
        # Of one bus; a message that was asked for and did not come has a table without rows.
        tables = candor.decode(log, dbc, bus="can1", signals=["Page", "Wide.*"])
        self.assertEqual({name: len(table) for name, table in tables.items()}, {"Pages": 1, "Wide": 0})
        self.assertEqual(tables["Pages"].column_names, ["time", "bus", "Page"])

    def test_the_long_form_has_the_same_values(self):
        for source, signals in [(DRIVE, None), (list(candor.read(DRIVE)), ["Speed", "Gear*"])]:
            wide = set()
            for name, table in candor.decode(DRIVE, DBC, signals=signals).items():
                for row in pyarrow.table(table).to_pylist():
                    time, bus = row.pop("time"), row.pop("bus")
                    wide |= {(time, bus, name, signal_name, value) for signal_name, value in row.items() if value is not None}
            rows = pyarrow.table(candor.values(source, DBC, signals=signals)).to_pylist()
            self.assertEqual({tuple(row.values()) for row in rows}, wide)
            self.assertEqual(len(rows), len(wide))
            self.assertEqual([row["time"] for row in rows], sorted(row["time"] for row in rows))
        with self.assertRaisesRegex(candor.DatabaseError, "does not describe the 1 frame"):
            candor.values([candor.Frame("7FF#00")], DBC)

    def test_units_and_names_of_values_come_along(self):
        log = self.file("a.log", "(1.0) can0 00000002#010000\n(1.0) can0 001#00\n")
        tables = candor.decode(log, self.file("a.dbc", PAGES))
        self.assertEqual(tables["Wide"].metadata, {"message": "Wide", "id": "0x00000002", "sender": "A"})
        self.assertEqual(tables["Pages"].units, {"Left": "degC", "Pages.time": "s"})
        field = pyarrow.table(tables["Wide"]).schema.field("Gear")
        names = json.loads(field.metadata[b"value_names"])
        self.assertEqual(names, {"0": "neutral", "1": r"first \\ slow"})

    def test_many_recordings_are_one_table_in_their_order(self):
        first = self.file("a.log", "(5.0) can0 001#00\n")
        second = self.file("b.log", "(1.0) can3 001#01\n(2.0) can0 001#02\n")
        table = pyarrow.table(candor.decode([first, str(second)], self.file("a.dbc", PAGES))["Pages"])
        self.assertEqual(table["bus"].to_pylist(), ["can0", "can3", "can0"])
        self.assertEqual(table["Page"].to_pylist(), [0, 1, 2])

    def test_frames_of_python_are_as_good_as_recordings(self):
        with candor.read(DRIVE) as recording:
            tables = candor.decode(recording, DBC, bus="can0")
        for name, table in candor.decode(DRIVE, DBC).items():
            self.assertEqual(pyarrow.table(tables[name]).to_pydict(), pyarrow.table(table).to_pydict())
        frames = list(candor.read(DRIVE))
        self.assertEqual(pyarrow.table(candor.frames(frames)), pyarrow.table(candor.frames(DRIVE)))
        self.assertEqual(candor.bus_load(frames, 500_000), candor.bus_load(DRIVE, 500_000))
        with self.assertRaisesRegex(TypeError, "'str' object"):
            candor.frames([frames[0], "a.log"])
        with self.assertRaisesRegex(candor.DatabaseError, "describes none of the 1 frame of the iterator|does not describe the 1 frame"):
            candor.decode([candor.Frame("7FF#00")], DBC)

    def test_pieces_are_the_whole(self):
        whole = {name: pyarrow.table(table) for name, table in candor.decode(DRIVE, DBC).items()}
        for source in ([DRIVE], list(candor.read(DRIVE))):
            for rows in (1, 100, 4122, 1 << 40):
                pieces, most = {}, 0
                for piece in candor.batches(source, DBC, rows=rows):
                    most = max(most, sum(len(table) for table in piece.values()))
                    for name, table in piece.items():
                        self.assertGreater(len(table), 0)
                        pieces.setdefault(name, []).append(pyarrow.table(table))
                self.assertLessEqual(most, rows)
                joined = {name: pyarrow.concat_tables(tables).unify_dictionaries() for name, tables in pieces.items()}
                self.assertEqual({name: table.to_pydict() for name, table in joined.items()},
                                 {name: table.to_pydict() for name, table in whole.items()})
        with self.assertRaises(ValueError):
            candor.batches(DRIVE, DBC, rows=0)
        broken = self.file("broken.log", "(1.0) can0 0C0#0000000000000000\n(1.1) can0 123#0\n")
        batches = candor.batches(broken, DBC, rows=1)
        self.assertEqual(list(next(batches)), ["EngineSpeed"])
        with self.assertRaises(candor.RecordingError):
            next(batches)
        self.assertEqual(list(batches), [])

    def test_a_database_is_read_once(self):
        database = candor.Database(DBC)
        self.assertIn("EngineSpeed", [message.name for message in database.messages])
        self.assertIn("EngineSpeed", candor.decode(DRIVE, database))


class Database(Folder):
    def test_messages_are_those_of_cantools(self):
        for path in (DBC, *sorted((DATA / "dbc").glob("*.dbc"))):
            ours = candor.Database(path)
            if path.name in NOT_OF_CANTOOLS:
                with self.assertRaises(cantools.database.UnsupportedDatabaseFormatError):
                    cantools.database.load_file(path, strict=False)
                continue
            try:
                path.read_text("utf-8")
                encoding = "utf-8"
            except UnicodeDecodeError:
                encoding = "cp1252"
            theirs = cantools.database.load_file(path, strict=False, encoding=encoding)
            count = 0
            random.seed(20261127)
            for message in theirs.messages:
                try:
                    mine = ours.message(message.name)
                except candor.DatabaseError:
                    continue  # longer than a frame, or with the identifier of another
                self.assertEqual((mine.id, mine.is_extended, mine.length), (message.frame_id, message.is_extended_frame, message.length))
                signals = {signal.name: signal for signal in mine.signals}
                for signal in message.signals:
                    if signal.name not in signals:
                        continue  # behind the end of its message
                    found = signals[signal.name]
                    self.assertEqual((found.unit, found.scale, found.offset, found.bits, found.is_signed),
                                     (signal.unit or "", signal.scale, signal.offset, signal.length, signal.is_signed))
                    self.assertEqual(found.choices, {raw: str(name) for raw, name in (signal.choices or {}).items()})
                    self.assertEqual(list(found.choices), sorted(found.choices))
                if len(signals) != len(message.signals) or message.length > 64:
                    continue
                data = random.randbytes(message.length)
                for choices in (True, False):
                    values = message.decode(data, decode_choices=choices)
                    mine_too = ours.decode_message(message.name, data, decode_choices=choices)
                    self.assertEqual(set(mine_too), set(values), message.name)
                    for name, value in values.items():
                        if isinstance(value, (int, float)):
                            self.assertTrue(math.isclose(mine_too[name], value, rel_tol=1e-12, abs_tol=1e-12), (message.name, name))
                        else:
                            self.assertEqual(mine_too[name], str(value))
                again = mine.encode(mine.decode(data, decode_choices=False), strict=False)
                self.assertEqual(mine.decode(again), mine.decode(data), message.name)
                count += 1
            self.assertGreater(count, 10, path)

    def test_values_are_checked(self):
        database = candor.Database(self.file("a.dbc", PAGES.replace("(0.1,5) [0|0]", "(0.1,5) [-10|50]")))
        encode = database.encode_message
        self.assertEqual(encode("Pages", {"Page": 0, "Left": 5.5, "time": 1}).hex(), "0005000000000001")
        self.assertEqual(encode(1, {"Page": 1, "Right": 258, "time": 0}).hex(), "0101020000000000")
        self.assertEqual(encode("Wide", {"Gear": "neutral"}), bytes(3))
        self.assertEqual(database.decode_message(2, b"\x01"), {"Gear": r"first \\ slow"})
        self.assertEqual(encode("Pages", {"Left": 60}, strict=False).hex(), "0026020000000000")
        for words, values in [
            ("`Left` is 60, but must be -10 to 50", {"Page": 0, "Left": 60, "time": 0}),
            ("`Left` holds finite numbers only", {"Page": 0, "Left": math.nan, "time": 0}),
            (f"`Left` is {10 ** 40}, but must be", {"Page": 0, "Left": 10 ** 40, "time": 0}),
            ("a whole number of more than 1024 bits fits into no signal", {"Page": 0, "Left": -10 ** 400, "time": 0}),
            # What strict=False does not allow either.
            ("`Page` is -1, but must be 0 to 255", {"Page": -1}),
            ("`time` has no value", {"Page": 0, "Left": 1}),
            ("`Right` is not in a frame with this `Page`", {"Page": 0, "Left": 1, "Right": 1, "time": 0}),
            ("`Page` is 256, but must be 0 to 255", {"Page": 256}),
            ("did you mean `Left`?", {"Lfet": 1}),
            ("no value of `Page` is called `red`", {"Page": "red"}),
        ]:
            with self.subTest(words), self.assertRaises(candor.EncodeError) as caught:
                encode("Pages", values)
            self.assertIn(words, str(caught.exception))
        for name in ("Page", 0x7FF, 1 << 28):
            with self.assertRaises(candor.DatabaseError):
                database.message(name)
        for wrong in (1.5, None, -1, 1 << 40):
            with self.assertRaises((TypeError, ValueError)):
                database.message(wrong)
        for wrong in ({"Page": []}, {1: 1}):
            with self.assertRaisesRegex(TypeError, "^expected (a number, or )?the name of a "):
                encode("Pages", wrong)
        self.assertEqual(database.message(2, is_extended=True).name, "Wide")
        with self.assertRaises(candor.DatabaseError):
            database.message(2, is_extended=False)

    def test_the_nearest_raw_value_is_encoded(self):
        dbc = self.file("near.dbc", """BU_: A
BO_ 1 Fine: 8 A
 SG_ X : 0|54@1+ (1e-05,0) [0|0] "" A
BO_ 2 Whole: 8 A
 SG_ X : 0|64@1+ (3,1) [0|0] "" A
BO_ 3 Tenths: 8 A
 SG_ X : 0|63@1+ (0.1,0) [0|0] "" A
""")
        database, draw = candor.Database(dbc), random.Random(7)
        for _ in range(500):
            raw = draw.getrandbits(54)
            data = raw.to_bytes(8, "little")
            value = database.decode_message("Fine", data)["X"]
            again = int.from_bytes(database.encode_message("Fine", {"X": value}), "little")
            off = [abs(Fraction(it, 10 ** 5) - Fraction(value)) for it in (again, raw)]
            self.assertLessEqual(*off, (raw, value))
            number = draw.randrange(1, 3 * 2 ** 64 - 2)
            again = int.from_bytes(database.encode_message("Whole", {"X": number}), "little")
            self.assertLessEqual(abs(3 * again + 1 - number), 1, number)
            number //= 100
            again = int.from_bytes(database.encode_message("Tenths", {"X": number}), "little")
            self.assertEqual(again, 10 * number)
        with self.assertRaisesRegex(candor.EncodeError, f"is {2 ** 66}, but must be 1 to {3 * (2 ** 64 - 1) + 1}"):
            database.encode_message("Whole", {"X": 2 ** 66})

    def test_a_database_of_cantools_is_taken_over(self):
        theirs = cantools.database.load_file(DBC)
        ours = candor.Database(theirs)
        self.assertEqual([message.name for message in ours.messages], [message.name for message in theirs.messages])
        expected, found = candor.decode(DRIVE, DBC), candor.decode(DRIVE, theirs)
        self.assertEqual(set(found), set(expected))
        for name, table in expected.items():
            self.assertEqual(pyarrow.table(found[name]).to_pydict(), pyarrow.table(table).to_pydict())


class Frames(Folder):
    def random_messages(self):
        random.seed(20261127)
        for number in range(3000):
            is_fd = random.random() < 0.3
            is_extended = random.random() < 0.4
            is_remote = not is_fd and random.random() < 0.1
            length = random.choice([*range(9), 12, 16, 20, 24, 32, 48, 64] if is_fd else range(9))
            yield can.Message(
                timestamp=1_750_000_000 + number / 1000,
                arbitration_id=random.getrandbits(29 if is_extended else 11),
                is_extended_id=is_extended,
                is_remote_frame=is_remote,
                is_fd=is_fd,
                bitrate_switch=is_fd and random.random() < 0.5,
                channel=random.randrange(2),
                dlc=length,
                data=b"" if is_remote else random.randbytes(length),
            )

    def test_frames_are_those_of_python_can(self):
        sent = list(self.random_messages())
        for ending in ("log", "blf", "asc"):
            path = self.folder / f"random.{ending}"
            with can.Logger(path) as logger:
                for message in sent:
                    logger(message)
            with candor.read(path) as recording:
                read = list(recording)
            self.assertEqual(len(read), len(sent), ending)
            table = pyarrow.table(candor.frames(path)).to_pylist()
            self.assertEqual(len(table), len(sent), ending)
            for frame, row, message in zip(read, table, sent):
                expected = (message.arbitration_id, message.is_extended_id, message.is_remote_frame, message.is_fd,
                            message.bitrate_switch, bytes(message.data))
                found = (frame.id, frame.is_extended, frame.is_remote, frame.is_fd, frame.brs, frame.data)
                self.assertEqual(found, expected, f"{ending}: {message}")
                found = (row["id"], row["is_extended"], row["kind"] == "remote", row["kind"] == "fd", row["brs"], row["data"])
                self.assertEqual(found, expected, f"{ending}: {message}")
                self.assertEqual((frame.bus, frame.direction, frame.dlc), (row["bus"], row["direction"], row["dlc"]))

    def test_libraries_take_the_same_rows(self):
        table = candor.frames(DRIVE)
        taken = pyarrow.table(table)
        self.assertEqual((len(table), taken.num_rows, polars.DataFrame(table).height), (4122, 4122, 4122))
        self.assertEqual(len(pandas.DataFrame.from_arrow(table)), 4122)
        self.assertEqual(polars.DataFrame(table)["data"].to_list(), taken["data"].to_pylist())
        # Taken twice, and used when the table is gone.
        del table
        self.assertEqual(taken["id"].to_pylist()[0], 0x0A8)
        self.assertEqual(pyarrow.schema(candor.frames(DRIVE)).names, taken.schema.names)


class Rules(Folder):
    RULES = """[bus]
car = "can0"
logger = "can1"

[[rule]]
name = "renamed"
from = "car"
to = "logger"
match = ["0x123"]
edit = [{ set = { id = "0x321" } }]

[[rule]]
name = "rare"
from = "car"
to = "logger"
match = ["0x200"]
rate = "1/s"
burst = 1
"""

    def rules(self):
        return candor.Rules.load(self.file("a.rules.toml", self.RULES))

    def test_rules_are_applied_at_the_times_of_frames(self):
        rules = self.rules()
        self.assertEqual(rules.buses, ["car", "logger"])
        frames = [candor.Frame(text, time_ns=time, bus=bus) for text, time, bus in [
            ("123#11", 1_000_000_000, "can0"), ("200#01", 1_100_000_000, "car"), ("200#02", 1_900_000_000, "can0"),
            ("200#03", 2_200_000_000, "can0"), ("123#22", 2_300_000_000, "can7"), ("7FF#", 2_400_000_000, "can0")]]
        for _ in range(2):
            applied = rules.apply(iter(frames))
            self.assertEqual([str(frame) for frame in applied], [
                "(1.000000000) logger 321#11", "(1.100000000) logger 200#01", "(2.200000000) logger 200#03"])
            self.assertEqual(applied.foreign, {"can7": 1})
            counts = {count["rule"]: (count["from"], count["to"], count["handled"], count["stopped"]) for count in applied.counts}
            self.assertEqual(counts["rare"][:3], ("car", "logger", 2))
            self.assertEqual(sum(counts["rare"][3].values()), 1)
        self.assertEqual(len(list(rules.apply(frames, map={"can7": "car"}))), 4)
        # The same as the program, from a recording.
        self.assertEqual(len(list(candor.Rules.load(ROOT / "examples/gateway/recording.rules.toml").apply(
            candor.read(DRIVE), map={"can0": "car"}))), 124)

    def test_rules_are_explained(self):
        taken, other = self.rules().explain(candor.Frame("123#11", bus="can0"))
        self.assertEqual(taken, {"rule": "renamed", "bus": "car", "frame": "123#11", "verdict": "taken", "result": "321#11",
                                 "copies": [("logger", None)]})
        self.assertEqual((other["rule"], other["verdict"]), ("rare", "no filter"))
        for words, call in [
            ("unknown bus `cra`; did you mean `car`?", lambda: self.rules().explain(candor.Frame("123#"), "cra")),
            ("unknown bus `x`; there are car, logger", lambda: self.rules().apply([], map={"can0": "x"})),
            ("b.toml:2:7: error", lambda: candor.Rules.load(self.file("b.toml", "[bus]\nbsu = 1\n[[rule]]\n"))),
        ]:
            with self.subTest(words), self.assertRaises(candor.RulesError) as caught:
                call()
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(FileNotFoundError):
            candor.Rules.load("no.toml")
        with self.assertRaises(TypeError):
            list(self.rules().apply([1]))
        with self.assertRaises(ZeroDivisionError):
            list(self.rules().apply(1 / 0 for _ in range(2)))


class Load(Folder):
    def test_bits_are_those_on_the_wire(self):
        # ISO 11898-1: 44 bits without data and stuff bits, and 3 of intermission; the worst case is 135 with 8 bytes.
        for text, bits, worst in [("555#", 47, 55), ("000#0000000000000000", 135, 135), ("2AA#R3", 47, 55)]:
            frame = candor.Frame(text)
            self.assertEqual(candor.frame_bits(frame, worst=True), worst)
            self.assertLessEqual(candor.frame_bits(frame), worst)
            self.assertGreaterEqual(candor.frame_bits(frame), 47)
        with self.assertRaises(ValueError):
            candor.frame_bits(candor.Frame("20000080#0000000000000000"))
        with self.assertRaises(ValueError):
            candor.Frame("123#0")

    def test_load_is_bits_over_time(self):
        log = self.file("a.log", "".join(f"({1 + number / 1000:.6f}) can{number % 2} 123#AA\n" for number in range(2001)))
        bits = candor.frame_bits(candor.Frame("123#AA"))
        load = candor.bus_load(log, 500_000)
        self.assertEqual(set(load), {"can0", "can1"})
        self.assertEqual(load["can0"]["frames"], 1001)
        self.assertAlmostEqual(load["can0"]["load"], 100 * bits * 500 / 500_000, places=1)
        self.assertAlmostEqual(candor.bus_load(log, 250_000, bus="can0")["can0"]["load"], 2 * load["can0"]["load"], places=9)
        with self.assertRaises(ValueError):
            candor.bus_load(log, 0)


class Results(Folder):
    def test_results_are_rows(self):
        folder = self.folder / "out"
        with self.assertRaises(FileNotFoundError):
            candor.results(folder)
        (folder / "results").mkdir(parents=True)
        with self.assertRaisesRegex(candor.Error, "contains no results; run `candor lab run"):
            candor.results(folder)
        path = folder / "results/a.json"
        path.write_text("{}")
        with self.assertRaisesRegex(candor.Error, "a.json: this is not a complete result: missing field"):
            candor.results(folder)

    def test_results_are_those_of_the_program(self):
        folder = self.folder / "report"
        subprocess.run(["candor", "demo", "--out", folder], check=True, capture_output=True)
        rows = {(row["experiment"], row["metric"]): row for row in pyarrow.table(candor.results(folder)).to_pylist()}
        written = {}
        for path in (folder / "results").glob("*.json"):
            result = json.loads(path.read_text())
            written.update({(result["experiment"], metric): figures for metric, figures in result["metrics"].items()})
        self.assertEqual(set(rows), set(written))
        self.assertGreater(len(rows), 10)
        for key, figures in written.items():
            figures.pop("profile")
            self.assertEqual({name: rows[key][name] for name in figures}, figures)
        profiles = polars.DataFrame(candor.profiles(folder))
        results = polars.DataFrame(candor.results(folder))
        most = profiles.group_by("experiment", "metric").agg(polars.col("frames").max(), polars.col("latency_ns").max())
        both = most.join(results, on=["experiment", "metric"])
        self.assertEqual(both["frames"].to_list(), both["count"].to_list())
        self.assertEqual(both["latency_ns"].cast(polars.Float64).to_list(), both["max_ns"].to_list())

    def test_each_column_of_results_has_its_own_name(self):
        text = """
            seeds = 2
            traffic.kind = "flood"
            bus = { in.bitrate = "1M", out.bitrate = "1M" }
            gateway.delay = "35us"
            matrix = { count = [10, 20], testbed = ["sim"] }
        """
        (self.folder / "seeds.toml").write_text(text)
        out = self.folder / "out"
        subprocess.run(["candor", "lab", "run", self.folder / "seeds.toml", "--out", out], check=True, capture_output=True)
        results = polars.DataFrame(candor.results(out)).filter(polars.col("metric") == "gateway_latency")
        self.assertEqual(sorted(results["seed"].to_list()), [1, 1, 2, 2])
        self.assertEqual(results["axis.count"].cast(polars.UInt64).to_list(), results["count"].to_list())


class Trouble(Folder):
    def test_errors_name_the_place_and_the_reason(self):
        broken = self.file("broken.log", "(1.0) can0 123#00\n(1.1) can0 123#0\n(1.2) can0 123#00\n")
        text = self.file("text.log", "# hello\n")
        for expected, words, call in [
            (FileNotFoundError, "no.log", lambda: candor.decode("no.log", DBC)),
            (FileNotFoundError, "no.log", lambda: candor.read("no.log")),
            (FileNotFoundError, "no.dbc", lambda: candor.decode(DRIVE, "no.dbc")),
            (IsADirectoryError, str(self.folder), lambda: candor.frames(self.folder)),
            (candor.DatabaseError, "text.log:1:1: error: this is not a DBC file", lambda: candor.Database(text)),
            (candor.DatabaseError, "did you mean `EngineSpeed`?", lambda: candor.decode(DRIVE, DBC, signals="EngineSped.Speed")),
            (candor.DatabaseError, "no signal of", lambda: candor.decode(DRIVE, DBC, signals=["Speed", "No*"])),
            (candor.DatabaseError, "describes none of the 4122 frames",
             lambda: candor.decode(DRIVE, self.file("o.dbc", "BU_: A\nBO_ 9 O: 1 A\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" A\n"))),
            (candor.RecordingError, "no frame is on a bus `can7`; others are can0", lambda: candor.frames(DRIVE, bus="can7")),
            (candor.RecordingError, "broken.log:2:", lambda: candor.frames(broken)),
            (candor.UnknownFormatError, "not a recording in one of the formats", lambda: candor.read(DBC)),
            (ValueError, "a bus has a name", lambda: candor.Frame("123#00", bus="")),
            (ValueError, "no recording and no frame is given", lambda: candor.decode([], DBC)),
            (TypeError, "expected a path, a list of paths, or frames, not int", lambda: candor.frames(3)),
            (TypeError, "(of an open file, give the path), not StringIO", lambda: candor.frames(io.StringIO("a.log"))),
            (TypeError, "expected a path, a list of paths, or frames, not float", lambda: candor.frames([DRIVE, 1.5])),
            (TypeError, "expected a name or a list of names, not int", lambda: candor.frames(DRIVE, bus=0)),
            (TypeError, "expected a `candor.Database` or the path of a DBC file, not list", lambda: candor.decode(DRIVE, [DBC])),
        ]:
            with self.subTest(words), self.assertRaises(expected) as caught:
                call()
            self.assertIn(words, str(caught.exception))
            if isinstance(caught.exception, OSError):
                self.assertIsNotNone(caught.exception.errno)
        for error in (candor.RecordingError, candor.DatabaseError):
            self.assertTrue(issubclass(error, candor.Error))

    def test_what_is_passed_over_is_a_warning(self):
        broken = self.file("broken.log", "(1.0) can0 123#00\n(1.1) can0 123#0\n(1.2) can0 123#00\n")
        with self.assertWarnsRegex(candor.RecordingWarning, "1 malformed record passed over; the first: .*broken.log:2"):
            self.assertEqual(len(candor.frames(broken, skip_malformed=True)), 2)
        cut = self.file("cut.log", "(1.0) can0 123#00\n(1.1) can0 123#0")
        with self.assertWarnsRegex(candor.RecordingWarning, "ends inside this record"):
            self.assertEqual(len(candor.frames(cut)), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(candor.RecordingWarning):
                candor.frames(cut)
        with candor.read(broken, skip_malformed=True) as recording:
            with self.assertWarnsRegex(candor.RecordingWarning, "1 malformed record passed over"):
                self.assertEqual(len(list(recording)), 2)
            self.assertEqual((recording.skipped, recording.format, list(recording)), (1, "candump", []))
        with self.assertWarnsRegex(candor.RecordingWarning, "ends inside this record"):
            self.assertEqual(len(candor.frames(candor.read(cut))), 1)
        # What comes before a malformed record is given first.
        recording = candor.read(broken)
        next(recording)
        with self.assertRaises(candor.RecordingError):
            next(recording)
        self.assertEqual(list(recording), [])

    def test_what_a_dbc_file_loses_is_a_warning(self):
        text = PAGES + 'BO_ 1 Again: 1 A\nBO_ 3 Pages: 8 A\n SG_ Other : 0|8@1+ (1,0) [0|0] "" A\n SG_ Far : 60|8@1+ (1,0) [0|0] "" A\n'
        path, log = self.file("lossy.dbc", text), self.file("a.log", "(1.0) can0 001#00\n(2.0) can0 003#07\n")
        said = subprocess.run(["candor", "log", "decode", log, "--dbc", path, "--format", "csv"], capture_output=True, text=True, check=True)
        theirs = cantools.database.load_string(PAGES.replace("VAL_", "\nBO_ 9 Pages: 8 A\n SG_ Only : 0|8@1+ (1,0) [0|0] \"\" A\nVAL_"), "dbc", strict=False)
        calls = [
            lambda: candor.Database(path), lambda: candor.decode(log, path), lambda: candor.values([log, log], path), lambda: candor.Database(theirs),
            lambda: list(candor.batches(log, path)), lambda: candor.parse_dbc(str(path), path.read_bytes()),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
                self.assertEqual([warning.category for warning in caught], [candor.DatabaseWarning])
                self.assertEqual(caught[0].filename, __file__)
                if number != 3:
                    self.assertTrue(said.stderr.startswith(str(caught[0].message)), said.stderr)
        for words in ("lossy.dbc:10:1: warning: identifier 1 is already used; `Again` is skipped", "hint: give each message a different identifier",
                      "`Pages` is already defined; this one is called `Pages_0x003`", "the field ends in byte 9, but there are 8; `Far` is skipped"):
            self.assertIn(words, said.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(candor.DatabaseWarning):
                candor.Database(path)
            candor.Database(DBC)
            database = candor.parse_dbc("lossy.dbc", path.read_bytes(), False)
            self.assertEqual(len(pickle.loads(pickle.dumps(database))), 3)
            # Both are kept.
            drive = candor.decode(log, database)
            self.assertEqual({name: len(table) for name, table in drive.items()}, {"Pages": 1, "Pages_0x003": 1})
            self.assertEqual(drive["Pages_0x003"].metadata["message"], "Pages_0x003")
            self.assertEqual(list(candor.decode(log, database, signals="Pages_0x003.*")), ["Pages_0x003"])
            self.assertEqual(set(pyarrow.table(candor.values(log, database))["message"].to_pylist()), {"Pages", "Pages_0x003"})
            self.assertEqual(database.message("Pages_0x003").id, 3)
        self.assertIn(",can0,Pages_0x003,Other,7,", said.stdout)

    def interrupted(self, iterator):
        """What an iterator gives if Ctrl-C comes again and again, and how often it did."""
        found, count, armed = [], 0, [False]

        def stop(*_):
            if armed[0]:
                armed[0] = False
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            while True:
                try:
                    armed[0] = True
                    # Signals are looked at only within the iterator.
                    found.extend(iterator)
                    return found, count
                except KeyboardInterrupt:
                    count += 1
        finally:
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_iterators_go_on_behind_ctrl_c(self):
        lines = "".join(f"({1000 + number}.0) can0 0C0#{number:014X}\n" for number in range(150_000))
        log = self.file("long.log", lines)
        packed = self.folder / "long.log.zst"
        subprocess.run(["candor", "log", "convert", log, packed], check=True, capture_output=True)
        rules = candor.Rules.load(ROOT / "examples/gateway/recording.rules.toml")
        times = [1_000_000_000 * (1000 + number) for number in range(150_000)]
        for path in (log, packed):
            for make, rows in [
                (lambda: candor.read(path), lambda found: [frame.time_ns for frame in found]),
                (lambda: candor.batches(path, DBC, rows=100_000), lambda found: self.times(found)),
                (lambda: candor.batches([path], DBC), lambda found: self.times(found)),
                (lambda: candor.batches(candor.read(path), DBC, rows=100_000), lambda found: self.times(found)),
            ]:
                found, count = self.interrupted(make())
                self.assertEqual(rows(found), times)
                self.assertGreater(count, 0)
            expected = [(frame.time_ns, frame.bus) for frame in rules.apply(candor.read(path), map={"can0": "car"})]
            found, _ = self.interrupted(rules.apply(candor.read(path), map={"can0": "car"}))
            self.assertEqual([(frame.time_ns, frame.bus) for frame in found], expected)

    def times(self, pieces):
        return [time for piece in pieces for time in pyarrow.table(piece["EngineSpeed"])["time"].cast(pyarrow.int64()).to_pylist()]

    def test_a_recording_that_was_open_before_a_fork_is_refused(self):
        lines = "".join(f"({1000 + number}.0) can0 0C0#{number:014X}\n" for number in range(20_000))
        log = self.file("long.log", lines)
        times = [1_000_000_000 * (1000 + number) for number in range(20_000)]
        for make, rows in [
            (lambda: candor.read(log), lambda found: [frame.time_ns for frame in found]),
            (lambda: candor.batches(log, DBC, rows=100), self.times),
        ]:
            iterator = make()
            found = [next(iterator)]
            out, into = os.pipe()
            child = os.fork()
            if child == 0:
                errors, others = [], []
                for _ in range(2):
                    try:
                        for it in iterator:
                            others.append(it)
                    except candor.RecordingError as error:
                        errors.append(str(error))
                new = rows([*make()])
                said = {"errors": errors, "others": rows(others), "is_whole": new == times}
                with os.fdopen(into, "w") as pipe:
                    json.dump(said, pipe)
                os._exit(0)
            os.close(into)
            with os.fdopen(out) as pipe:
                said = json.load(pipe)
            os.waitpid(child, 0)
            found += iterator
            self.assertEqual(rows(found), times)
            self.assertTrue(said["is_whole"])
            self.assertEqual(len(said["errors"]), 2)
            self.assertIn("long.log: it was opened before this process was forked", said["errors"][0])
            # What was read before is right.
            first = len(rows(found[:1]))
            self.assertEqual(said["others"], times[first:first + len(said["others"])])

    def test_nothing_is_something_too(self):
        empty = candor.Rules.load(self.file("a.rules.toml", Rules.RULES)).apply(candor.read(DRIVE), map={"can0": "logger"})
        self.assertEqual(candor.decode(empty, DBC), {})
        self.assertEqual(len(candor.frames(iter([]))), 0)
        self.assertEqual(candor.bus_load(iter([]), 500_000), {})
        self.assertEqual(len(candor.frames(DRIVE, bus=[])), 0)
        self.assertEqual(candor.decode(DRIVE, DBC, signals=[]), {})

    def test_frames_are_copied_pickled_and_compared(self):
        for text in ("123#DEADBEEF", "123#R3", "18FEF100##3AABB", "20000080#0000000000000000", "123#1122334455667788_9"):
            frame = candor.Frame(text, time_ns=(1 << 64) - 1, bus="can7", direction="transmitted")
            for other in (pickle.loads(pickle.dumps(frame)), copy.deepcopy(frame)):
                self.assertEqual((other, str(other), hash(other)), (frame, str(frame), hash(frame)))
        self.assertNotEqual(candor.Frame("123#"), candor.Frame("123#", bus="can1"))
        self.assertNotEqual(candor.Frame("123#"), 1)
        with self.assertRaisesRegex(ValueError, "a direction is"):
            candor.Frame("123#", direction="up")
        database = pickle.loads(pickle.dumps(candor.Database(DBC)))
        self.assertEqual((database.name, len(database)), (str(DBC), len(candor.Database(DBC))))

    def test_data_may_be_whatever_has_bytes(self):
        database = candor.Database(self.file("a.dbc", PAGES))
        # The last one takes every other byte.
        whole, sparse = memoryview(b"\x01\0\0"), memoryview(b"\x01\xff\0\xff\0")[::2]
        for data in (b"\x01\0\0", bytearray(b"\x01\0\0"), whole, sparse, array.array("B", [1, 0, 0])):
            self.assertEqual(database.decode_message(2, data, decode_choices=False), {"Gear": 1})
        # Numbers of two bytes are no bytes.
        for data in ("1", 3, None, [1], array.array("H", [1, 0, 0]), memoryview(b"\x01\0\0\0").cast("H")):
            with self.assertRaisesRegex(TypeError, "expected bytes, not"):
                database.decode_message(2, data)

    def test_a_pipe_keeps_nobody_waiting(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        # A writer that is another thread of this program.
        for read in (lambda: len(list(candor.read(pipe))), lambda: len(candor.frames(pipe))):
            writer = threading.Thread(target=lambda: pipe.write_bytes(DRIVE.read_bytes()))
            writer.start()
            self.assertEqual(read(), 4122)
            writer.join()
        program = ("import candor, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                   "try:\n    print('begun', flush=True)\n    %s\nexcept KeyboardInterrupt:\n    print('interrupted')\n")
        for call in ("candor.read(sys.argv[1])", "candor.frames(sys.argv[1])", "candor.Database(sys.argv[1])"):
            child = subprocess.Popen([sys.executable, "-c", program % call, pipe], stdout=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "begun\n")
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=60)[0], "interrupted\n")

    def test_too_little_memory_is_an_exception(self):
        path = self.folder / "long.log"
        path.write_bytes(DRIVE.read_bytes() * 500)
        program = ("import candor, resource, sys\nresource.setrlimit(resource.RLIMIT_AS, (%d << 20,) * 2)\n"
                   "try:\n    %s\n    print('enough')\nexcept MemoryError:\n    print('too little')\n")
        found = set()
        for call in ("candor.frames(sys.argv[1])", "candor.decode(sys.argv[1], sys.argv[2])"):
            for megabytes in (60, 90, 130, 200, 4000):
                child = subprocess.run([sys.executable, "-c", program % (megabytes, call), path, DBC], capture_output=True, text=True)
                self.assertEqual(child.returncode, 0, child.stderr)
                found.add(child.stdout)
        self.assertEqual(found, {"enough\n", "too little\n"})

    def test_what_is_in_a_circle_is_freed(self):
        class Circle:
            def __iter__(self):
                return self

            def __next__(self):
                raise StopIteration

        rules = candor.Rules.load(self.file("a.rules.toml", Rules.RULES))
        circle = Circle()
        circle.applied = rules.apply(circle)
        gone = weakref.ref(circle)
        del circle
        gc.collect()
        self.assertIsNone(gone())

    def test_a_recording_that_is_closed_is_over(self):
        recording = candor.read(DRIVE)
        next(recording)
        recording.close()
        self.assertEqual(list(recording), [])
        with self.assertRaises(ZeroDivisionError), candor.read(DRIVE) as recording:
            1 / 0

    def test_threads_may_share_everything(self):
        tables, recording, frames = [], candor.read(DRIVE), []

        def work():
            tables.append(candor.decode(DRIVE, DBC)["EngineSpeed"])
            while True:
                try:
                    frames.append(next(recording))
                except StopIteration:
                    return
                except RuntimeError as error:
                    self.assertIn("give each thread one of its own", str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({len(table) for table in tables}, {600})
        self.assertEqual(len(frames), 4122)

    def test_an_interrupt_ends_a_long_call(self):
        path = self.folder / "long.log"
        path.write_bytes(DRIVE.read_bytes() * 100)
        # Whoever runs the tests in the background may have SIGINT ignored.
        program = ("import candor, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                   "try:\n    print('begun', flush=True)\n    while True:\n        candor.decode(sys.argv[1:] * 50, %r)\nexcept KeyboardInterrupt:\n    print('interrupted')\n")
        child = subprocess.Popen([sys.executable, "-c", program % str(DBC), path], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "begun\n")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.communicate(timeout=60)[0], "interrupted\n")

    def test_nothing_is_left_in_memory(self):
        def resident_kb():
            status = pathlib.Path("/proc/self/status").read_text()
            return int(re.search(r"VmRSS:\s*(\d+)", status)[1])

        def work():
            for _ in range(20):
                polars.DataFrame(candor.decode(DRIVE, DBC)["EngineSpeed"])
                pyarrow.table(candor.frames(DRIVE))
                next(candor.read(DRIVE))
                with self.assertRaises(candor.DatabaseError):
                    candor.decode(DRIVE, DBC, signals="No")

        work()
        before = resident_kb()
        for _ in range(5):
            work()
        # One table of frames is 200 kB: 100 of them would be 20 MB.
        self.assertLess(resident_kb() - before, 8_000)


if __name__ == "__main__":
    unittest.main()
