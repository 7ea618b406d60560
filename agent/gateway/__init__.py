"""The gateway: another program's model calls, as steps of an attempt.

app       the routes of the four dialects, served on a Unix socket or on loopback
calls     the calls of another program, found in the record by their content
matching  recorded requests, and the one that is repeated: equal, or equivalent and loosened
equivalence   requests in the form in which they are compared
masks     what differs when a command runs again
switch    turns a request into a recorded call, and ends the program with its attempt
bodies    bodies of requests, bounded; errors, and answers as the events of each dialect
relay.pl  lets a program in a container reach the socket through a port
"""
