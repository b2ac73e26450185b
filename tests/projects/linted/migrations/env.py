"""The offline half of an env.py as `alembic init` writes it: linters want SQL, and no database."""

from alembic import context

context.configure(
    url=context.config.get_main_option("sqlalchemy.url"),
    literal_binds=True,
    dialect_opts={"paramstyle": "named"},
)
with context.begin_transaction():
    context.run_migrations()
