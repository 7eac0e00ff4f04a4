"""One self-contained HTML page for a result."""
