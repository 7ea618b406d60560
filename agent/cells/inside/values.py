"""Values of variables as bytes, and back, with the functions and classes that cells define.

A value of a library is pickled as ever. A function of a cell is stored by its code, and uses the
global names of the cell that calls it. A class of a cell is stored once, and its instances name
it.
"""

import abc
import functools
import importlib
import marshal
import pickle
import sys
import types

NAMESPACE, HEAP, CLASS = "namespace", "heap", "class:"

PLAIN = frozenset(
    [
        bool,
        bytes,
        complex,
        float,
        frozenset,
        int,
        range,
        slice,
        str,
        tuple,
        type(None),
        types.BuiltinFunctionType,
        types.FunctionType,
        types.ModuleType,
    ]
)
"""Types of values that two variables may hold without sharing anything that can change."""

FUNCTION_PARTS = (
    "__defaults__",
    "__kwdefaults__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__module__",
    "__qualname__",
)
NOT_OF_A_CLASS = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__module__",
        "__qualname__",
        "__slots__",
        "__slotnames__",
        "_abc_impl",
    ]
)
SENTINELS = {
    "_MISSING_TYPE": "MISSING",
    "_KW_ONLY_TYPE": "KW_ONLY",
    "_HAS_DEFAULT_FACTORY_CLASS": "_HAS_DEFAULT_FACTORY",
}
"""Objects of `dataclasses` that are known by identity, by the names of their types."""


class Dumper(pickle.Pickler):
    """Writes one value, and notes the objects in it that another variable may share."""

    def __init__(self, heap, stream, own=None):
        """Write references to all classes of cells but `own`."""
        pickle.Pickler.__init__(self, stream, 4)
        self.heap = heap
        self.own = own
        self.seen = {}

    def persistent_id(self, value):
        kind = type(value)
        if kind in PLAIN:
            return None
        if value is self.heap.namespace:
            return NAMESPACE
        if value is self.heap:
            return HEAP
        if issubclass(kind, type):
            key = self.heap.key_of(value)
            return None if key is None or value is self.own else CLASS + key
        # Values that compare by content cannot change: dates, fractions, enumeration members.
        if kind.__hash__ in (None, object.__hash__):
            self.seen[id(value)] = value
        return None

    def reducer_override(self, value):
        kind = type(value)
        if kind is types.FunctionType:
            return NotImplemented if is_importable(value) else self._function(value)
        if value is self.own:
            return self._class(value)
        if kind.__module__ == "dataclasses":
            name = value.name if kind.__name__ == "_FIELD_BASE" else SENTINELS.get(kind.__name__)
            return (getattr, (sys.modules["dataclasses"], name)) if name else NotImplemented
        parts = PARTS.get(kind)
        return NotImplemented if parts is None else parts(value)

    def _function(self, value):
        names = value.__globals__
        if names is self.heap.namespace or names is vars(sys.modules["__main__"]):
            names = self.heap.namespace
        else:
            names = {name: names[name] for name in names_in(value.__code__) if name in names}
        parts = {name: getattr(value, name) for name in FUNCTION_PARTS}
        # A later version of the format would refer to other objects in memory.
        code = marshal.dumps(value.__code__, 2)
        arguments = (code, names, value.__name__, value.__closure__)
        return make_function, arguments, {n: v for n, v in parts.items() if v}, None, None, fill

    def _class(self, value):
        if type(value).__module__ == "enum":
            return make_enum, (self.heap, self.heap.key_of(value), *enum_parts(value))
        if type(value) not in (type, abc.ABCMeta):
            raise pickle.PicklingError("its metaclass is " + type(value).__name__)
        attributes = dict(vars(value))
        first = {
            n: attributes[n] for n in ("__module__", "__qualname__", "__slots__") if n in attributes
        }
        content = {
            name: part
            for name, part in attributes.items()
            if name not in NOT_OF_A_CLASS
            and type(part) not in (types.MemberDescriptorType, types.GetSetDescriptorType)
        }
        key = self.heap.key_of(value)
        arguments = (self.heap, key, type(value), value.__name__, value.__bases__, first)
        return make_class, arguments, content, None, None, fill_class


class Loader(pickle.Unpickler):
    """Reads one value into a heap."""

    def __init__(self, heap, stream):
        pickle.Unpickler.__init__(self, stream)
        self.heap = heap

    def persistent_load(self, name):
        if name == NAMESPACE:
            return self.heap.namespace
        if name == HEAP:
            return self.heap
        return self.heap.class_of(name[len(CLASS) :])


def is_importable(value):
    """Return True if an import in another interpreter yields the function or the class."""
    target = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        target = getattr(target, part, None)
    return target is value


def names_in(code):
    """Return the names in a code object and those inside it."""
    names = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            names |= names_in(part)
    return sorted(names)


def make_function(code, names, name, closure):
    if names is not None and "__builtins__" not in names:
        names["__builtins__"] = vars(sys.modules["builtins"])
    return types.FunctionType(marshal.loads(code), names, name, None, closure)


def fill(made, parts):
    for name, part in parts.items():
        if name == "__dict__":
            vars(made).update(part)
        else:
            setattr(made, name, part)


def make_class(heap, key, kind, name, bases, first):
    new_class = kind(name, bases, first)
    heap.add_class(key, new_class)
    return new_class


def fill_class(made, parts):
    for name, part in parts.items():
        setattr(made, name, part)


def make_closure():
    return types.CellType()


def make_proxy(content):
    return types.MappingProxyType(content)


def enum_parts(value):
    """Return the arguments of `make_enum` for an enumeration."""
    made_here = {n: part for n, part in vars(value).items() if is_of_a_cell(part)}
    if "__new__" in made_here:
        raise pickle.PicklingError("it is an enumeration with a constructor")
    first = {"__module__": value.__module__, "__qualname__": value.__qualname__}
    members = {name: member.value for name, member in value.__members__.items()}
    return value.__name__, value.__bases__, {**first, **made_here, **members}


def is_of_a_cell(part):
    function = getattr(part, "fget", None) or getattr(part, "__func__", part)
    return type(function) is types.FunctionType and not is_importable(function)


def make_enum(heap, key, name, bases, content):
    kind = type(bases[-1])
    names = kind.__prepare__(name, bases)
    for member, part in content.items():
        names[member] = part
    new_class = kind(name, bases, names)
    heap.add_class(key, new_class)
    return new_class


def fill_closure(made, parts):
    made.cell_contents = parts[0]


def closure_parts(value):
    try:
        content = (value.cell_contents,)
    except ValueError:  # not bound yet
        return make_closure, ()
    return make_closure, (), content, None, None, fill_closure


PARTS = {
    types.CellType: closure_parts,
    types.CodeType: lambda value: (marshal.loads, (marshal.dumps(value, 2),)),
    types.MappingProxyType: lambda value: (make_proxy, (dict(value),)),
    types.ModuleType: lambda value: (importlib.import_module, (value.__name__,)),
    property: lambda value: (property, (value.fget, value.fset, value.fdel, value.__doc__)),
    staticmethod: lambda value: (staticmethod, (value.__func__,)),
    classmethod: lambda value: (classmethod, (value.__func__,)),
    functools.cached_property: lambda value: (
        functools.cached_property,
        (value.func,),
        {"attrname": value.attrname},
    ),
}
"""By type, the parts of values that pickle refuses."""
