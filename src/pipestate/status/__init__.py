"""Status of a database: gates and their streaks, missing checks, sign-offs. For `status` and `report`."""
