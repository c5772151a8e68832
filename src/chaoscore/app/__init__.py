"""The application: interprets the domain's effects through ports and knows no transport and no technology."""
