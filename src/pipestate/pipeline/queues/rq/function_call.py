"""Read what an RQ job calls, without importing the application: it need not be installed here.

RQ keeps function, arguments and keywords pickled. Classes that are not plain values become opaque:
nothing of what is in Redis is executed by looking at it.
"""

import io
import json
import pickle
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

PLAIN = {
    "builtins": {"set", "frozenset", "bytearray", "complex"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "uuid": {"UUID"},
}
PATHS = {"Path", "PosixPath", "PurePath", "PurePosixPath"}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function by its import path, and what it is called with."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]

    @property
    def subdomain(self) -> str | None:
        """The site that it is about: the keyword, or the first argument."""
        found = self.kwargs.get("subdomain", self.args[0] if self.args else None)
        return found if isinstance(found, str) else None


def read_call(data: bytes) -> FunctionCall | None:
    """Read a call; None for what neither RQ's pickle nor its JSON serializer has written.

    >>> read_call(pickle.dumps(("clerk.workers.deploy_job", None, ("a.ca.us",), {}))).subdomain
    'a.ca.us'
    >>> read_call(b"nonsense") is None
    True
    """
    try:
        function, _instance, args, kwargs = load_plain(data)
        if not isinstance(args, tuple | list):
            return None
        return FunctionCall(str(function), tuple(args), dict(kwargs))
    except Exception:  # a pickle can raise anything
        return None


def load_plain(data: bytes) -> Any:
    """Load what either serializer has written; raise whatever the bytes make it raise."""
    if data[:1] in (b"[", b"{"):
        return json.loads(data)
    return _PlainUnpickler(io.BytesIO(data)).load()


class Opaque:
    """Stands in the place of an object of the application."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "Opaque":
        return super().__new__(cls)

    def __setstate__(self, _state: Any) -> None: ...

    def append(self, _item: Any) -> None: ...

    def extend(self, _items: Any) -> None: ...

    def __setitem__(self, _key: Any, _value: Any) -> None: ...

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}>"


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module in ("pathlib", "pathlib._local") and name in PATHS:
            # Not the class: it is Python's own, and a pickle can set attributes on what it names.
            return lambda *parts: PurePosixPath(*map(str, parts))
        return type(name, (Opaque,), {"__module__": module})
