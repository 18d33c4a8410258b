# Prints what a script needs to run elsewhere: the interpreter, and the files of all modules that it imports.
#
# First the place of the interpreter, then each file: its place, its size in bytes and its bytes, with a NUL behind the
# first two. Of an extension module there is no size: who reads this looks for its libraries, too. Places beside the script
# begin with "./". Modules beside the script are read and not run; others are imported, to see what they import themselves.
import ast
import importlib
import os
import sys

script = os.path.abspath(sys.argv[1])
folder = os.path.dirname(script)
missing = {}


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def beside(name):
    """The files of a module beside the script: one, or all of a package."""
    place = os.path.join(folder, name.partition(".")[0])
    if os.path.isfile(place + ".py"):
        return [place + ".py"]
    return sorted(os.path.join(at, name) for at, _, names in os.walk(place) for name in names if name.endswith(".py"))


def load(name, is_needed):
    try:
        importlib.import_module(name)
    except Exception as error:
        if is_needed:
            missing.setdefault(name, error)


own = [script]
for path in own:
    try:
        tree = ast.parse(read(path), path)
    except (SyntaxError, ValueError) as error:
        fail(f"{path}:{getattr(error, 'lineno', 1)}: {error}; correct it, or name an interpreter of the version that it is for")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, parts = [alias.name for alias in node.names], []
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names, parts = [node.module], [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            files = beside(name)
            own += [file for file in files if file not in own]
            # What it imports whatever happens, and not only if it is there.
            if not files:
                load(name, node in tree.body)
                for part in parts:
                    load(part, False)
for name, error in missing.items():
    fail(f"{script} needs `{name}`, which {sys.executable} cannot import: {error}; install it there, or put it beside the script")
# What Python uses for texts, and to say where an exception was.
for name in ["encodings.ascii", "encodings.latin_1", "encodings.utf_8", "linecache", "tokenize", "traceback"]:
    load(name, False)
paths = [module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
paths = sorted({os.path.abspath(path) for path in paths} - set(own))

# From here on, what is imported is for this program alone.
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import cache_from_source
import py_compile
import tempfile

out = sys.stdout.buffer


def put(place, contents=None):
    size = b"" if contents is None else str(len(contents)).encode()
    out.write(os.fsencode(place) + b"\0" + size + b"\0" + (contents or b""))


def compiled(path, place):
    # Checked against nothing: in the guest, the source has another time.
    with tempfile.TemporaryDirectory() as temporary:
        cfile = os.path.join(temporary, "compiled")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, cfile, place, doraise=True, invalidation_mode=mode)
        return read(cfile)


out.write(os.fsencode(sys.executable) + b"\0")
if sys.prefix != sys.base_prefix:
    configuration = os.path.join(sys.prefix, "pyvenv.cfg")
    put(configuration, read(configuration))
put("./" + os.path.basename(script), read(script))
for path in own[1:] + paths:
    if path.endswith(tuple(EXTENSION_SUFFIXES)):
        put(path)
        continue
    place = "./" + os.path.relpath(path, folder) if path in own else path
    put(place, read(path))
    if path.endswith(".py"):
        cache = os.path.basename(cache_from_source(path))
        there = os.path.join(os.path.dirname(place), "__pycache__", cache)
        put(there, compiled(path, place[1:] if path in own else place))
