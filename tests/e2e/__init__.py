"""What ships, where a stranger has it: the wheel in a clean environment, the README's commands, the docs."""
