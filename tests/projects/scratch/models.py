"""The application's tables, as its models have them."""

from sqlalchemy import Column, Integer, MetaData, String, Table

metadata = MetaData()
orders = Table("orders", metadata, Column("id", Integer, primary_key=True), Column("state", String(20)))
