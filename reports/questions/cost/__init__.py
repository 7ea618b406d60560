"""What does it cost?"""
