from pipestate.rehearse.contents import Contents, Digest, differences


def test_differences_are_reported_by_name() -> None:
    before = Contents(
        {"table orders": "", "column orders.id": "integer", "index by_note": "CREATE INDEX"},
        {"orders": Digest(2, "5"), "log": Digest(3, "7"), "gone": Digest(1, "1")},
    )
    after = Contents(
        {"table orders": "", "column orders.id": "bigint", "view fresh": "SELECT 1"},
        {"orders": Digest(1, "2"), "log": Digest(3, "8")},
    )
    assert list(differences(before, after)) == [
        "column orders.id was `integer`, is `bigint`",
        "index by_note is gone",
        "view fresh is new",
        "table log has as many rows, but different ones",
        "table orders had 2 rows, has 1",
    ]
    assert list(differences(before, after, rows=False))[-1] == "table orders had 2 rows, has 1"
    assert list(differences(before, before)) == []
