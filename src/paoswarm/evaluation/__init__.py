"""From the user's function to values: called here, in processes, or on other machines, recorded or not."""
