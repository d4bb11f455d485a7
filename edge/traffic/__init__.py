"""From facts to what is served, and to the resources of Envoy. Pure: no I/O, no asyncio."""
