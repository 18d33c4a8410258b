"""A client of `candor signals serve`: the frames of a bus as they come, decoded by a DBC file.

    python3 client.py http://127.0.0.1:1234 BUS FILE.dbc COUNT

It needs the package `candor`, and nothing else that does not come with Python.
"""

import json
import sys
import urllib.request

import candor


def values(address, bus, database):
    """Name of the message and values of its signals, for each frame that the database knows."""
    names = {message.id: message.name for message in database.messages}
    with urllib.request.urlopen(f"{address}/events?raw") as lines:
        for line in lines:
            # Other lines are comments, kinds of events, and what separates them.
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            # An event that tells how many were missed has no name.
            if event.get("name", "").startswith(f"{bus}/") and event["id"] in names:
                yield names[event["id"]], database.decode_message(event["id"], bytes(event["data"]))


def main(address, bus, dbc, count):
    found = values(address, bus, candor.Database(dbc))
    for _ in range(int(count)):
        name, signals = next(found)
        print(name, signals)


if __name__ == "__main__":
    main(*sys.argv[1:])
