"""What did an attempt do?"""
