"""The variables of the cells before, each loaded when it is first read.

A place is the digest of stored bytes, or `!` and the reason why nothing is stored. Variables that
share an object which can change are stored together, so that they still share it afterwards. What
cannot be stored is made again, with all else that its cell made, by another run of that cell.
"""

import builtins
import hashlib
import io
import os

MOST_BYTES = 256_000_000
"""Size of a variable, together with all variables that share objects with it."""

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
    """Variables and classes of cells, and a record of the reads."""

    def __init__(self, folder, state, cell, unstored=None, makers=None):
        """Hold the state before a cell. `unstored` are the makers of unstorable values."""
        self.folder = folder
        self.state = state
        self.cell = cell
        self.unstored = unstored or {}
        self.makers = makers
        self.namespace = Namespace(self)
        self.made = {}
        self.reads = {}
        self.settled = set()
        self.lost = []
        self.loaded = {}
        self.classes = {}
        self.offered = {}
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
        if place.startswith("!"):
            self.make(name)
        else:
            self.reads[name] = place
            self.load(name, place)
        return self.namespace[name]

    def load(self, name, place):
        """Bind the variables that were stored together with this one."""
        values = self.made.get(place) or self._unpickle(name, place)
        self.loaded[place] = name
        self._bind({key: v for key, v in values.items() if self.state.get(key) == place})

    def make(self, name):
        """Bind what cannot be stored, and all else that its cell made and that cannot be.

        Raises:
            NotKept: it was not made again.
            Lost: what its cell needs is gone.
        """
        values = self._get_products(name)
        if name not in values:
            self.reads[name] = self.state[name]
            raise self._not_kept(name)
        maker = self.unstored[name]
        self._bind({key: v for key, v in values.items() if self.unstored.get(key) == maker})

    def _bind(self, values):
        for name, value in values.items():
            if name not in self.settled:
                self.reads[name] = self.state[name]
                self.settled.add(name)
                if name not in self.namespace:
                    self.namespace[name] = value

    def _get_products(self, name):
        """Return the variables that the cell of a variable or class makes in another run."""
        maker = self.makers and self.makers.run(self.unstored.get(name), self)
        if not maker:
            return {}
        for key, kind in maker.classes.items():
            is_made_by_it = self.unstored.get(key) == maker.cell
            if is_made_by_it or self.state.get(key, "!") == maker.places.get(key):
                self.offered.setdefault(key, kind)
        for place, names in maker.stored.items():
            if place not in self.loaded and all(self.state.get(key) == place for key in names):
                self.made[place] = {key: maker.values[key] for key in names}
        return maker.values

    def keep(self):
        """Keep what a cell made that has run to make it again. What can be stored is stored."""
        self.values = {name: self.namespace[name] for name in filter(is_variable, self.namespace)}
        self.places = {}
        self.stored = {}
        groups = self._groups()[0]
        try:
            changed = self._find_changes(groups)
        except Lost:  # the earlier value is unknown
            changed = groups
        for names, data in groups.items():
            place = self._store(data)
            if names not in changed:
                place = self.state[min(names)]
            self.places.update(dict.fromkeys(names, place))
            if names <= self.values.keys():
                self.stored[place] = names

    def with_classes_of(self, other):
        """Know the classes of another heap that are the same here. Return this heap."""
        for key, kind in other.classes.items():
            if key in self.state and self.state[key] == other.state.get(key):
                self.add_class(key, kind)
        return self

    def class_of(self, key):
        """Return a class that a cell before defined."""
        if key not in self.classes:
            place = self.state.get(key, "!its cell does not define it any more")
            self.reads[key] = place
            if place.startswith("!") and key not in self.offered:
                self._get_products(key)
            if key in self.offered:
                self.add_class(key, self.offered[key])
            elif place.startswith("!"):
                raise self._not_kept(key)
            else:
                self._unpickle(key, place)
        return self.classes[key]

    def add_class(self, key, kind):
        """Know a class by a key."""
        self.classes[key] = kind
        self._keys[id(kind)] = key

    def key_of(self, kind):
        """Return the key of a class that a cell defined, or None for any other class."""
        key = self._keys.get(id(kind))
        if key is None:
            key = next((key for key, offer in self.offered.items() if offer is kind), None)
            if key is not None:
                self.class_of(key)
        if key is None and kind.__module__ == "__main__":
            key = "%s@%d" % (kind.__qualname__, self.cell)
            while key in self.classes:
                key += "'"
            self.add_class(key, kind)
        return key

    def is_lost(self, name):
        """Return True if a variable was stored, and is gone."""
        place = self.state.get(name)
        if place is None or place.startswith("!"):
            return False
        return not os.path.exists(os.path.join(self.folder, place))

    def _not_kept(self, name):
        reason = self.reads[name][1:]
        return NotKept("%s was not kept: %s. %s" % (name.partition("@")[0], reason, ADVICE))

    def _unpickle(self, name, place):
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
        written = {name: "!" + reason for name, reason in refused.items()}
        for names, data in self._find_changes(groups).items():
            place = self._store(data)
            written.update(dict.fromkeys(names, place))
        gone = [n for n in self.settled if n not in self.namespace and self.state.get(n)]
        written.update(dict.fromkeys(gone))
        return written

    def _find_changes(self, groups):
        """Return the groups that the cell wrote or changed. A new equal value counts as written."""
        changed = {
            names: data
            for names, data in groups.items()
            if any(self.state.get(n) != digest(data) or not self.reads.get(n) for n in names)
        }
        if any(all(self.reads.get(name) for name in names) for names in changed):
            before = self._as_before()
            changed = {n: data for n, data in changed.items() if before.get(n) != data}
        return changed

    def _as_before(self):
        """Return the stored bytes of the values that the cell read, written again.

        Bytes of equal values may differ: a set that was stored and loaded has another order.
        """
        again = Heap(self.folder, self.state, self.cell)
        for place, name in self.loaded.items():
            again.load(name, place)
        for key in self.classes:
            if not self.state.get(key, "!").startswith("!"):
                again.class_of(key)
        return again._groups()[0]

    def _groups(self):
        """Return the bytes of variables by the names that share objects, and who has none."""
        groups, refused, objects = {}, {}, {}
        for name in sorted(filter(is_variable, self.namespace)):
            try:
                groups[name], objects[name] = self._dump({name: self.namespace[name]})
            except Exception as error:
                refused[name] = reason_of(self.namespace[name], error)
        result = {}
        for names in sharing(objects):
            if len(names) == 1:
                result[frozenset(names)] = groups[names[0]]
            else:
                data, _ = self._dump({name: self.namespace[name] for name in names})
                result[frozenset(names)] = data
        self._add_classes(result, refused)
        return result, refused

    def _add_classes(self, found, refused):
        done = set()
        while len(done) < len(self.classes):
            for key in sorted(self.classes.keys() - done):
                done.add(key)
                kind = self.classes[key]
                try:
                    found[frozenset([key])], _ = self._dump(kind, kind)
                except Exception as error:
                    refused[key] = reason_of(kind, error)

    def _dump(self, value, own=None):
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
    is_special = isinstance(name, str) and name.startswith("__") and name.endswith("__")
    return isinstance(name, str) and name.isidentifier() and not is_special


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
        for item in held:
            leader[leading(name)] = leading(owner.setdefault(item, name))
    groups = {}
    for name in objects:
        groups.setdefault(leading(name), []).append(name)
    return [sorted(names) for names in groups.values()]
