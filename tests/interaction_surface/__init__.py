"""The decision server and the people's commands, through the doors that clients and people use."""
