"""Python source as `ruff format` with its default settings leaves it."""

from collections.abc import Mapping, Sequence

WIDTH = 88


class Name(str):
    """A name of the module, which is written without quotes."""

    __slots__ = ()


Value = str | Sequence[str] | Mapping[str, Sequence[str]]


def text(value: str) -> str:
    """Write a string in double quotes.

    >>> text("orders")
    '"orders"'
    """
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def call(function: str, arguments: Mapping[str, Value], after: str = "", *, used: int = 0) -> str:
    """Write a call, one argument a line where it does not fit into one; empty arguments are left out.

    A key is what stands before the value, `tables=` or nothing; `used` is how far the call is indented.

    >>> call("contract = Contract", {"": "orders/readiness", "tables=": ["order_log"], "columns=": {}})
    'contract = Contract("orders/readiness", tables=["order_log"])'
    """
    given = {key: value for key, value in arguments.items() if value}
    flat = ", ".join(f"{key}{_flat(value)}" for key, value in given.items())
    if used + len(whole := f"{function}({flat}){after}") <= WIDTH:
        return whole
    inner = [line for key, value in given.items() for line in _lines(key, value, used + 4)]
    return "\n".join([f"{function}(", *(f"    {line}" for line in inner), f"){after}"])


def _flat(value: Value) -> str:
    if isinstance(value, str):
        return str(value) if isinstance(value, Name) else text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}: {_flat(items)}" for key, items in value.items()) + "}"
    return "[" + ", ".join(map(text, value)) + "]"


def _lines(before: str, value: Value, used: int) -> list[str]:
    """Write a value and a comma; in several lines where one is too short."""
    flat = f"{before}{_flat(value)},"
    if isinstance(value, str) or used + len(flat) <= WIDTH:
        return [flat]
    if isinstance(value, Mapping):
        inner = [line for key, items in value.items() for line in _lines(f"{text(key)}: ", items, used + 4)]
        opening, closing = "{", "}"
    else:
        inner = [f"{text(item)}," for item in value]
        opening, closing = "[", "]"
    return [f"{before}{opening}", *(f"    {line}" for line in inner), f"{closing},"]
