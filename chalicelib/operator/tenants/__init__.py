"""Commands about an account as a whole: export, import, deletion, and removing a person's name."""
