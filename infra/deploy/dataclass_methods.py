"""Makes byte code that imports faster: dataclasses contain their methods, and functions have no annotations.

At each import, Python would otherwise generate the methods of dataclasses and evaluate the annotations. This would slow
cold starts. Docstrings of functions are dropped too. The package's sources do not change. A dataclass with options that
this module does not support stays unchanged.
"""

import ast
import dataclasses
import importlib
import importlib.util
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_NAMES = "from dataclasses import Field as _Field, FrozenInstanceError as _FrozenInstanceError"
_SUPPORTED = {"frozen=True", "kw_only=True", "eq=False"}
_UNCHECKED = (0b01).to_bytes(4, "little")  # flags (PEP 552): Python must not compare this byte code with its source
_FROZEN = """
def __setattr__(self, name, value):
    if type(self) is __class__ or name in {names!r}:
        raise _FrozenInstanceError(f"cannot assign to field {{name!r}}")
    super().__setattr__(name, value)
def __delattr__(self, name):
    if type(self) is __class__ or name in {names!r}:
        raise _FrozenInstanceError(f"cannot delete field {{name!r}}")
    super().__delattr__(name)
"""
_EQUAL = """
def __eq__(self, other):
    if other.__class__ is self.__class__:
        return {mine} == {theirs}
    return NotImplemented
"""


def main() -> None:
    """Write the byte code of a package's modules."""
    folder = Path(sys.argv[1])
    for path in sorted((folder / "chalicelib").rglob("*.py")):
        _write(path, path.relative_to(folder), path.read_bytes())


def _write(path: Path, name: Path, source: bytes) -> None:
    tree = ast.parse(source)
    if b"@dataclass" in source:
        tree = expand(tree, importlib.import_module(".".join(name.with_suffix("").parts)))
    code = compile(_BareFunctions().visit(tree), str(name), "exec", dont_inherit=True)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(head + marshal.dumps(code))


class _BareFunctions(ast.NodeTransformer):
    """Removes the docstrings and annotations of functions, which Lambda does not need. Does not change classes."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit what a node contains. Expressions, which are most of a tree, contain no functions with annotations."""
        return node if isinstance(node, ast.expr) else super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node)]
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def expand(tree: ast.Module, module: ModuleType) -> ast.Module:
    """Return a module's syntax tree with the methods of its dataclasses.

    Tracebacks show the methods at the line of their class.
    """
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and _is_supported(node, module)]
    for node in classes:
        _expand(node, getattr(module, node.name), module)
    if classes:
        docstring = ast.get_docstring(tree) is not None
        futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        tree.body[docstring + len(futures) : docstring + len(futures)] = ast.parse(_NAMES).body
    for node in classes:
        ast.fix_missing_locations(node)
    return tree


def _is_supported(node: ast.ClassDef, module: ModuleType) -> bool:
    """Return whether a class is a frozen dataclass that this file supports."""
    match node.decorator_list:
        case [ast.Call(func=ast.Name(id="dataclass"), args=[], keywords=keywords)]:
            options = set(map(ast.unparse, keywords))
            plain = all(field.init for field in dataclasses.fields(getattr(module, node.name)))
            return plain and "frozen=True" in options and options <= _SUPPORTED
    return False


def _expand(node: ast.ClassDef, cls: type[Any], module: ModuleType) -> None:
    options = ast.unparse(node.decorator_list[0])
    kw_only = ", kw_only=True" if "kw_only" in options else ""
    node.decorator_list = [ast.parse(f"dataclass(init=False, repr=False, eq=False{kw_only})", mode="eval").body]
    existing = {function.name for function in node.body if isinstance(function, ast.FunctionDef)}
    compared = [] if "eq=False" in options else [*_comparisons(cls)]
    text = "\n".join([_init(node, cls, module), *_repr_and_setters(cls), *compared, f"__doc__ = {cls.__doc__!r}"])
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef) and statement.name in existing:
            continue
        for part in ast.walk(statement):
            if hasattr(part, "lineno"):
                ast.copy_location(part, node)
        node.body.append(statement)


def _repr_and_setters(cls: type[Any]) -> Iterator[str]:
    """Yield the source of __repr__, __setattr__ and __delattr__."""
    fields = dataclasses.fields(cls)
    shown = ", ".join(f"{field.name}={{self.{field.name}!r}}" for field in fields if field.repr)
    yield f'def __repr__(self):\n    return f"{{self.__class__.__qualname__}}({shown})"'
    yield _FROZEN.format(names=tuple(field.name for field in fields))


def _comparisons(cls: type[Any]) -> Iterator[str]:
    """Yield the source of __eq__ and __hash__."""
    fields = dataclasses.fields(cls)
    names = [field.name for field in fields if field.compare]
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    yield _EQUAL.format(mine=_tuple("self", names), theirs=_tuple("other", names))
    yield f"def __hash__(self):\n    return hash({_tuple('self', hashed)})"


def _init(node: ast.ClassDef, cls: type[Any], module: ModuleType) -> str:
    """Return the source of __init__. Its defaults are evaluated in the class body."""
    fields = dataclasses.fields(cls)
    positional = [_parameter(node, cls, module, field) for field in fields if not field.kw_only]
    keyword_only = [_parameter(node, cls, module, field) for field in fields if field.kw_only]
    lines = ["_set = object.__setattr__"]
    for field in fields:
        name = field.name
        expression = f"{name}.default_factory() if {name}.__class__ is _Field else {name}"
        lines.append(f"_set(self, {name!r}, {expression if _has_factory(field) else name})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ", ".join(["self", *positional, *(["*", *keyword_only] if keyword_only else [])])
    return f"def __init__({signature}):\n    " + "\n    ".join(lines) + "\n"


def _parameter(node: ast.ClassDef, cls: type[Any], module: ModuleType, field: dataclasses.Field[Any]) -> str:
    """Return the source of a parameter of __init__.

    If the field has a default factory, the parameter's default is the `Field` object. __init__ then calls the factory.
    """
    if field.default is dataclasses.MISSING and not _has_factory(field):
        return field.name
    for base in node.bases:
        text = ast.unparse(base)
        inherited_field = getattr(_resolve(base, module), "__dataclass_fields__", {}).get(field.name)
        if inherited_field is field:
            inherited = f"{text}.__dataclass_fields__[{field.name!r}]"
            return f"{field.name}={inherited}{'' if _has_factory(field) else '.default'}"
    declared = next(
        statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == field.name and statement.value
    )
    is_field = isinstance(declared.value, ast.Call) and _resolve(declared.value.func, module) is dataclasses.field
    return f"{field.name}={field.name}{'.default' if is_field and not _has_factory(field) else ''}"


def _resolve(node: ast.expr, module: ModuleType) -> Any:
    """Return the object that a module has under a name or dotted name, or None."""
    match node:
        case ast.Name(id=name):
            return getattr(module, name, None)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_resolve(owner, module), name, None)
    return None


def _has_factory(field: dataclasses.Field[Any]) -> bool:
    return field.default_factory is not dataclasses.MISSING


def _tuple(owner: str, names: list[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


if __name__ == "__main__":
    main()
