"""What a server keeps: its tables, what is encrypted in them and with which key, and who holds the data folder."""
