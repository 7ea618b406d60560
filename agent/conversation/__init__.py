"""A role's conversation with a model: it uses tools until it answers.

conversation.py  requests, rounds and the context window
offering.py      the tools, and the calls of one reply, native tools at the same time
exchanges.py     the input of a conversation, its limits, and its result
person.py        messages and decisions of people
transcript.py    messages within the context window, and facts as Markdown
protocols.py     the calls of a reply, native or as text
text_calls.py    the spellings of calls as text
"""
