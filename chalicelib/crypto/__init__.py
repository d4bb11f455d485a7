"""Keys and certificates, pure: text and bytes in and out, ValueError if they are bad."""
