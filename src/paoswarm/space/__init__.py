"""From the variables of users to the coordinates of swarms and back."""
