"""What the active hours were worth: how much of them was idle seconds."""
