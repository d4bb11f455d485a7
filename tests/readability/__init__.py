"""What `make check` counts in the code: crossings between files, sizes, names, and how plain the language is."""
