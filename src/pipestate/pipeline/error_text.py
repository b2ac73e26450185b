"""Make an error fit a column: short, in whole characters, without what a database refuses."""

import unicodedata

LIMIT = 500
JOINER = "\u200d"


def error_text(error: str | BaseException) -> str:
    """Return at most 500 characters of `Class: message` or of the text given.

    >>> error_text(ValueError("no pages"))
    'ValueError: no pages'
    """
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    # Surrogate pairs become the character they stand for; lone halves and NUL cannot be stored.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return truncate(text.replace("\x00", "\ufffd"))


def truncate(text: str, limit: int = LIMIT) -> str:
    """Cut in front of the character that does not fit, never between a letter and its accent.

    >>> truncate("cafe\u0301", 4)
    'caf'
    """
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and _belongs_to_previous(text, end):
        end -= 1
    return text[: end or limit]


def _belongs_to_previous(text: str, at: int) -> bool:
    extends = unicodedata.category(text[at]) in ("Mn", "Me", "Mc") or text[at] == JOINER
    tone = "\U0001f3fb" <= text[at] <= "\U0001f3ff"
    return extends or tone or text[at - 1] == JOINER
