"""Run by Alembic; the connection comes from `db.schema`."""

from alembic import context

from holdfast.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
