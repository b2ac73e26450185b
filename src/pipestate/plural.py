"""Numbers with their nouns and units."""


def many(count: int, noun: str, several: str | None = None) -> str:
    """
    >>> many(1, "site"), many(2695, "failed OCR job")
    ('1 site', '2,695 failed OCR jobs')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def duration(ms: float) -> str:
    """Write a time as people do.

    >>> duration(4.26), duration(740), duration(1234)
    ('4 ms', '740 ms', '1.2 s')
    """
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def size(count: int) -> str:
    """Write a number of bytes as people do.

    >>> size(8192), size(65_000_000), size(1 << 30), size(11 << 30 | 1 << 29)
    ('8 kB', '61 MB', '1 GB', '11.5 GB')
    """
    if count < 1 << 20:
        return f"{count >> 10} kB"
    if count < 1 << 30:
        return f"{count >> 20:,} MB"
    return f"{count / (1 << 30):,.1f}".removesuffix(".0") + " GB"
