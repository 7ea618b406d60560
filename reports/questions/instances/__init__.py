"""Which instances are resolved, and by how many arms?"""
