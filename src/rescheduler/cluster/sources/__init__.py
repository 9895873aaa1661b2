"""Where the state of a cluster comes from: an API server, or a file; and how it gets into a file.

kinds        which kinds matter, how each is read, and what is assumed without it (and when: `needs`)
live         a running cluster → `Reading`  (`slim`: workloads without templates; `together`: all at once)
saved        a file → `Reading`             (`faults`: what is wrong with an object, everything with its path)
steering     whether a webhook tells replacements where to go
reading      what both bring → a snapshot

fields       which fields of each kind matter, and what each of them is
trimming     objects cut down to these
saving       a running cluster, or a file → a file
anonymise    … without a word of its owner's (`pseudonyms`: what replaces them; `well_known`: what stays)
"""
