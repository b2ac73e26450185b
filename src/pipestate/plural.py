"""Numbers with their nouns."""


def many(count: int, noun: str, several: str | None = None) -> str:
    """
    >>> many(1, "site"), many(2695, "failed OCR job")
    ('1 site', '2,695 failed OCR jobs')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
