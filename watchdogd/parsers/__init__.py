"""Pure parsers: text of other programs in, values out. Tested on real outputs."""
