"""Commands about an account as a whole: export, import, deletion, and forgetting a person."""
