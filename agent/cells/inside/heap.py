"""The variables of the cells before, each loaded when it is first read.

A place is the digest of stored bytes, or `!` and the reason why nothing is stored. Variables that
share an object which can change are stored together, so that they still share it afterwards.
"""

import builtins
import hashlib
import io
import os

MOST_BYTES = 256_000_000
"""Size of a variable, with those that share objects with it."""

ADVICE = "Make it in the cell that uses it, or in a function that this cell calls."


class Bounded(io.BytesIO):
    """Bytes of one value, up to a limit."""

    def write(self, data):
        if self.tell() + len(data) > MOST_BYTES:
            raise ValueError("it takes more than %d MB" % (MOST_BYTES // 1_000_000))
        return io.BytesIO.write(self, data)


class Lost(BaseException):
    """A stored value is gone, so that the cell cannot run yet."""


class NotKept(NameError):
    """A variable cannot be kept between cells."""

    __module__ = "builtins"  # tracebacks show no module then


class Namespace(dict):
    """The global names of a cell. Python asks it for names that it does not have yet."""

    def __init__(self, heap):
        dict.__init__(self, __name__="__main__", __builtins__=builtins)
        self.heap = heap

    def __missing__(self, name):
        return self.heap.read(name)

    def __delitem__(self, name):
        try:
            if name not in self:
                self[name]
            dict.__delitem__(self, name)
        except NotKept:  # and need not be
            pass
        self.heap.settled.add(name)


class Heap:
    """Variables and classes of cells, and what was read of them."""

    def __init__(self, folder, state, cell):
        self.folder = folder
        self.state = state
        self.cell = cell
        self.namespace = Namespace(self)
        self.reads = {}
        self.settled = set()
        self.lost = []
        self.loaded = {}
        self.classes = {}
        self._keys = {}

    def read(self, name):
        """Return a variable of the cells before.

        Raises:
            KeyError: there is none.
            NotKept: it was not stored.
            Lost: what was stored is gone.
        """
        place = self.state.get(name)
        if place is None or name in self.settled:
            if name not in self.settled:
                self.reads.setdefault(name, None)
            raise KeyError(name)
        self._check(name, place)
        self.load(name, place)
        return self.namespace[name]

    def load(self, name, place):
        """Bind the variables that were stored together with this one."""
        values = self._unpickled(name, place)
        self.loaded[place] = name
        for each, value in values.items():
            if self.state.get(each) == place and each not in self.settled:
                self.reads[each] = place
                self.settled.add(each)
                if each not in self.namespace:
                    self.namespace[each] = value

    def class_of(self, key):
        """Return a class that a cell before defined."""
        if key not in self.classes:
            place = self.state.get(key, "!its cell does not define it any more")
            self._check(key, place)
            self._unpickled(key, place)
        return self.classes[key]

    def add_class(self, key, kind):
        """Know a class by a key."""
        self.classes[key] = kind
        self._keys[id(kind)] = key

    def key_of(self, kind):
        """Return the key of a class that a cell defined, or None for any other class."""
        known = self._keys.get(id(kind))
        if known is None and kind.__module__ == "__main__":
            known = "%s@%d" % (kind.__qualname__, self.cell)
            while known in self.classes:
                known += "'"
            self.add_class(known, kind)
        return known

    def is_lost(self, name):
        """Return True if a variable was stored, and is gone."""
        place = self.state.get(name)
        if place is None or place.startswith("!"):
            return False
        return not os.path.exists(os.path.join(self.folder, place))

    def _check(self, name, place):
        self.reads[name] = place
        if place.startswith("!"):
            raise NotKept("%s was not kept: %s. %s" % (name.partition("@")[0], place[1:], ADVICE))

    def _unpickled(self, name, place):
        try:
            with open(os.path.join(self.folder, place), "rb") as stream:
                data = stream.read()
        except OSError:
            data = b""
        if digest(data) != place:
            self.lost.append(name)
            raise Lost(name)
        return Loader(self, io.BytesIO(data)).load()

    # Storing

    def writes(self):
        """Store what the cell wrote or changed. Return its places by name; None if deleted."""
        groups, refused = self._groups()
        changed = {
            names: data
            for names, data in groups.items()
            if any(self.state.get(name) != digest(data) for name in names)
        }
        if any(self._was_read(names) for names in changed):
            before = self._as_before()
            changed = {n: data for n, data in changed.items() if before.get(n) != data}
        written = {name: "!" + reason for name, reason in refused.items()}
        for names, data in changed.items():
            place = self._store(data)
            written.update(dict.fromkeys(names, place))
        gone = [n for n in self.settled if n not in self.namespace and self.state.get(n)]
        written.update(dict.fromkeys(gone))
        return written

    def _was_read(self, names):
        return all(self.reads.get(name) for name in names)

    def _as_before(self):
        """Return the stored bytes of what the cell read, written again.

        Bytes of equal values may differ: a set that was stored and loaded has another order.
        """
        again = Heap(self.folder, self.state, self.cell)
        for place, name in self.loaded.items():
            again.load(name, place)
        for key in self.classes:
            if self.state.get(key):
                again.class_of(key)
        return again._groups()[0]

    def _groups(self):
        """Return the bytes of variables by the names that share objects, and who has none."""
        groups, refused, objects = {}, {}, {}
        for name in sorted(filter(is_variable, self.namespace)):
            try:
                groups[name], objects[name] = self._dumped({name: self.namespace[name]})
            except Exception as error:
                refused[name] = reason_of(self.namespace[name], error)
        found = {}
        for names in sharing(objects):
            if len(names) == 1:
                found[frozenset(names)] = groups[names[0]]
            else:
                data, _ = self._dumped({name: self.namespace[name] for name in names})
                found[frozenset(names)] = data
        self._add_classes(found, refused)
        return found, refused

    def _add_classes(self, found, refused):
        done = set()
        while len(done) < len(self.classes):
            for key in sorted(self.classes.keys() - done):
                done.add(key)
                kind = self.classes[key]
                try:
                    found[frozenset([key])], _ = self._dumped(kind, kind)
                except Exception as error:
                    refused[key] = reason_of(kind, error)

    def _dumped(self, value, own=None):
        stream = Bounded()
        dumper = Dumper(self, stream, own)
        dumper.dump(value)
        return stream.getvalue(), dumper.seen

    def _store(self, data):
        place = digest(data)
        path = os.path.join(self.folder, place)
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(path + ".part", "wb") as stream:
                stream.write(data)
            os.replace(path + ".part", path)
        except OSError as error:
            return "!it cannot be written: %s" % error
        return place


def digest(data):
    """Return the name of stored bytes."""
    return hashlib.sha256(data).hexdigest()[:40]


def is_variable(name):
    """Return True for the name of a variable that is kept, and is not Python's own."""
    own = isinstance(name, str) and name.startswith("__") and name.endswith("__")
    return isinstance(name, str) and name.isidentifier() and not own


def reason_of(value, error):
    """Return the reason why a value cannot be stored, in one line."""
    try:
        text = " ".join(str(error).split()) or type(error).__name__
    except Exception:
        text = type(error).__name__
    return "a value of type %s cannot be stored (%s)" % (type(value).__name__, text[:200])


def sharing(objects):
    """Return lists of names that share an object. `objects` has the objects of each name by id."""
    leader = {name: name for name in objects}

    def leading(name):
        while leader[name] != name:
            name = leader[name]
        return name

    owner = {}
    for name, held in objects.items():
        for each in held:
            leader[leading(name)] = leading(owner.setdefault(each, name))
    groups = {}
    for name in objects:
        groups.setdefault(leading(name), []).append(name)
    return [sorted(names) for names in groups.values()]
