"""The embedded cloud's process: MiniStack behind a guard. It runs in `.venv-cloud`, where nothing of the API is."""
